"""Other ways to find the inputs that matter, at as many evaluations, and told how many inputs to name."""

import heapq

import numpy as np


def _sample(f, D, n, rng):
    """A Latin hypercube and its values."""
    X = (np.argsort(rng.random((n, D)), axis=0) + rng.random((n, D))) / n
    return X, f(X)


def lasso(f, D, n, k, rng):
    """The largest coefficients of a LASSO whose penalty is cross-validated, on standardised inputs."""
    from sklearn.linear_model import LassoCV

    X, y = _sample(f, D, n, rng)
    return _largest(np.abs(LassoCV(cv=5, random_state=0, max_iter=5000).fit(X - X.mean(0), y).coef_), k)


def forest(f, D, n, k, rng):
    """The largest importances of a random forest of 300 trees."""
    from sklearn.ensemble import RandomForestRegressor

    X, y = _sample(f, D, n, rng)
    return _largest(RandomForestRegressor(300, random_state=0).fit(X, y).feature_importances_, k)


def morris(f, D, n, k, rng):
    """Mean absolute elementary effects (mu*) of as many trajectories as there are evaluations for, at least one."""
    effects = np.zeros(D)
    for _ in range(max(n // (D + 1), 1)):
        start = rng.integers(2, size=D) / 3
        flip = rng.random(D) < 0.5
        order = rng.permutation(D)
        points = np.tile(start, (D + 1, 1))
        for step, i in enumerate(order):
            points[step + 1 :, i] += 2 / 3
        points = np.where(flip, 1 - points, points)
        y = f(points)
        effects[order] += np.abs(np.diff(y))
    return _largest(effects, k)


def sequential_bifurcation(f, D, n, k, rng):
    """Groups of inputs put from low to high, the one of the largest effect halved next (Bettonvil & Kleijnen 1997)."""
    order = rng.permutation(D)

    def value(high):
        x = np.zeros((1, D))
        x[0, order[:high]] = 1.0
        return float(f(x)[0])

    known = {0: value(0), D: value(D)}
    groups = [(-abs(known[D] - known[0]), 0, D)]
    effects = np.zeros(D)
    for _ in range(n - 2):
        while groups and groups[0][2] - groups[0][1] == 1:
            size, first, _ = heapq.heappop(groups)
            effects[order[first]] = -size
        if not groups:
            break
        _, first, last = heapq.heappop(groups)
        middle = (first + last) // 2
        known[middle] = value(middle)
        for a, b in ((first, middle), (middle, last)):
            heapq.heappush(groups, (-abs(known[b] - known[a]), a, b))
    for size, first, last in groups:
        if last - first == 1:
            effects[order[first]] = -size
    return _largest(effects, k)


def _largest(values, k):
    return np.argsort(-values, kind="stable")[:k].tolist()


PEERS = {"LASSO": lasso, "forest": forest, "Morris": morris, "sequential bifurcation": sequential_bifurcation}
