"""Functions from the literature to be minimised, as Surjanovic & Bingham's library has them, and runs on them."""

import _above  # noqa: F401
import numpy as np
from _problems import branin, hartmann6
from scipy.optimize import minimize
from scipy.stats import ortho_group, qmc

# Shares of the sd of a function, in turn by repeat.
NOISES = (0.0, 0.01, 0.1)


def camel(x):
    a, b = x.T
    return (4 - 2.1 * a**2 + a**4 / 3) * a**2 + a * b + (4 * b**2 - 4) * b**2


def log_goldstein(x):
    a, b = x.T
    one = 1 + (a + b + 1) ** 2 * (19 - 14 * a + 3 * a**2 - 14 * b + 6 * a * b + 3 * b**2)
    two = 30 + (2 * a - 3 * b) ** 2 * (18 - 32 * a + 12 * a**2 + 48 * b - 36 * a * b + 27 * b**2)
    return np.log(one * two)


def ackley(x):
    d = x.shape[1]
    return 20 + np.e - 20 * np.exp(-0.2 * np.sqrt((x**2).sum(1) / d)) - np.exp(np.cos(2 * np.pi * x).sum(1) / d)


def levy(x):
    w = 1 + (x - 1) / 4
    middle = ((w[:, :-1] - 1) ** 2 * (1 + 10 * np.sin(np.pi * w[:, :-1] + 1) ** 2)).sum(1)
    return np.sin(np.pi * w[:, 0]) ** 2 + middle + (w[:, -1] - 1) ** 2 * (1 + np.sin(2 * np.pi * w[:, -1]) ** 2)


def rosenbrock(x):
    return (100 * (x[:, 1:] - x[:, :-1] ** 2) ** 2 + (1 - x[:, :-1]) ** 2).sum(1)


def griewank(x):
    return 1 + (x**2).sum(1) / 4000 - np.cos(x / np.sqrt(np.arange(1, x.shape[1] + 1))).prod(1)


def michalewicz(x):
    return -(np.sin(x) * np.sin(np.arange(1, x.shape[1] + 1) * x**2 / np.pi) ** 20).sum(1)


def styblinski(x):
    return 0.5 * (x**4 - 16 * x**2 + 5 * x).sum(1)


def drop_wave(x):
    s = (x**2).sum(1)
    return -(1 + np.cos(12 * np.sqrt(s))) / (0.5 * s + 2)


def zakharov(x):
    s = (0.5 * np.arange(1, x.shape[1] + 1) * x).sum(1)
    return (x**2).sum(1) + s**2 + s**4


def three_humps(x):
    a, b = x.T
    return 2 * a**2 - 1.05 * a**4 + a**6 / 6 + a * b + b**2


def mccormick(x):
    a, b = x.T
    return np.sin(a + b) + (a - b) ** 2 - 1.5 * a + 2.5 * b + 1


def hartmann3(x):
    A = np.array([[3.0, 10, 30], [0.1, 10, 35], [3.0, 10, 30], [0.1, 10, 35]])
    P = 1e-4 * np.array([[3689, 1170, 2673], [4699, 4387, 7470], [1091, 8732, 5547], [381, 5743, 8828]])
    return -np.exp(-(A * (x[:, None] - P) ** 2).sum(-1)) @ np.array([1.0, 1.2, 3.0, 3.2])


def shekel(x):
    C = np.array([[4, 1, 8, 6, 3, 2, 5, 8, 6, 7], [4, 1, 8, 6, 7, 9, 3, 1, 2, 3.6]] * 2)
    beta = np.array([1, 2, 2, 4, 4, 6, 3, 7, 5, 5]) / 10
    return -(1 / (((x[:, :, None] - C) ** 2).sum(1) + beta)).sum(1)


def sum_of_powers(x):
    return (np.abs(x) ** np.arange(2, x.shape[1] + 2)).sum(1)


# Functions to minimise, and their boxes, of which some are cut so that the minimum is not at the centre.
FUNCTIONS = {
    "camel": (camel, [(-3, 3), (-2, 2)]),
    "branin": (branin, [(-5, 10), (0, 15)]),
    "log_goldstein": (log_goldstein, [(-2, 2)] * 2),
    "ackley2": (ackley, [(-10, 15)] * 2),
    "ackley4": (ackley, [(-10, 15)] * 4),
    "levy2": (levy, [(-5, 5)] * 2),
    "levy4": (levy, [(-5, 5)] * 4),
    "rosenbrock2": (rosenbrock, [(-2, 2)] * 2),
    "rosenbrock4": (rosenbrock, [(-2, 2)] * 4),
    "griewank3": (griewank, [(-6, 8)] * 3),
    "michalewicz2": (michalewicz, [(0, np.pi)] * 2),
    "styblinski3": (styblinski, [(-5, 5)] * 3),
    "drop_wave": (drop_wave, [(-2, 3)] * 2),
    "zakharov3": (zakharov, [(-5, 10)] * 3),
    "three_humps": (three_humps, [(-5, 5)] * 2),
    "mccormick": (mccormick, [(-1.5, 4), (-3, 4)]),
    "hartmann3": (hartmann3, [(0, 1)] * 3),
    "hartmann6": (hartmann6, [(0, 1)] * 6),
    "shekel4": (shekel, [(0, 10)] * 4),
    "powers5": (sum_of_powers, [(-1, 1.3)] * 5),
}


# The function, the limits of its inputs, the number of inputs, and whether they are rotated.
OF_MANY_INPUTS = {
    "branin of 20": (branin, [(-5, 10), (0, 15)], 20, False),
    "branin, rotated": (branin, [(-5, 10), (0, 15)], 20, True),
    "hartmann6 of 50": (hartmann6, [(0, 1)] * 6, 50, False),
    "levy4, rotated": (levy, [(-10, 10)] * 4, 20, True),
}


class Problem:
    """A function to maximise, with its maximum, its sd over the box, and the noise and the first points of one run."""

    def __init__(self, name, repeat):
        self._function, bounds = FUNCTIONS[name]
        low, high = np.array(bounds, float).T
        X = low + (high - low) * qmc.Sobol(len(low), rng=0).random_base2(14)
        noise = NOISES[repeat % len(NOISES)]
        self._begin(bounds, X, noise, max(4, len(low) + 2), (list(FUNCTIONS).index(name), repeat))
        self.best = highest(self, X, bounds)

    def _begin(self, bounds, X, noise, n, seed):
        self.bounds = [(float(low), float(high)) for low, high in bounds]
        low, high = np.array(self.bounds).T
        self.sd, self.rng = float(self(X).std()), np.random.default_rng(seed)
        self.noise = noise * self.sd
        self.X = low + (high - low) * qmc.LatinHypercube(len(low), rng=self.rng).random(n)
        self.y = self.measure(self.X)

    def __call__(self, X):
        return -self._function(np.asarray(X, float))

    def measure(self, X):
        return self(X) + self.noise * self.rng.normal(size=len(X))

    def regret(self, x):
        return max(float(self.best - self(np.reshape(x, (1, -1)))[0]) / self.sd, 1e-6)


class ManyInputs(Problem):
    """The same over [-1, 1]^D, of few inputs or of few projections; noise has 1 % of the sd, and 20 points start."""

    def __init__(self, name, repeat):
        function, limits, D, is_rotated = OF_MANY_INPUTS[name]
        low, high = np.array(limits, float).T
        seed, d = list(OF_MANY_INPUTS).index(name), len(low)
        basis = ortho_group.rvs(D, random_state=seed)[:d] if is_rotated else np.eye(D)[:d]

        def inner(U):
            return -function(low + (high - low) * (U + 1) / 2)

        # Projections of points of the box seldom leave this range; outside, the function has the value at its edge.
        self._function = lambda X: -inner(np.clip(X @ basis.T / (1.3 if is_rotated else 1.0), -1, 1))
        self._begin([(-1, 1)] * D, 2 * qmc.Sobol(D, rng=0).random_base2(13) - 1, 0.01, 20, (seed, repeat))
        # Over the range of the projections, all of which points of the box reach.
        self.best = highest(inner, 2 * qmc.Sobol(d, rng=0).random_base2(16) - 1, [(-1, 1)] * d)


def highest(f, X, bounds):
    """The largest value in a box: the best 20 points, climbed."""
    starts = X[np.argsort(-f(X))[:20]]
    return max(-minimize(lambda x: -f(x[None])[0], x, method="L-BFGS-B", bounds=bounds).fun for x in starts)
