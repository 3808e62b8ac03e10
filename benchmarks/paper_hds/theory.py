r"""The bounds of Chen, Castro & Krause (2012), as corrected, beside simulations.

    python benchmarks/paper_hds/theory.py        # a minute; fails if a bound does not hold

* Theorem 3.2: the expected number of evaluations of a search is at most
  :math:`[1 + \frac{2 (1 - \alpha)}{1 - 2 \alpha} d \lceil \log_2 D \rceil] T`, for the probability α < 1/2 that an
  inactive node is called active, and T evaluations for a node. The paper leaves out the 1, the root.
* Proposition 3.1: the number of pairs with which a test of fixed size keeps both errors below α.
* Theorem 4.1: β of GP-UCB. The constant of its regret bound is :math:`C_1 = 8 / \log(1 + \sigma^{-2})`, with the noise
  variance, as in theorem 2 of Srinivas et al. (2010), and not with the bandwidth that is printed.
* Wald's inequality, behind the default thresholds: how often the GP test misjudges nodes, with low thresholds, so that
  there is something to count.
"""

import warnings

import _above  # noqa: F401
import numpy as np
from _problems import gp_draw
from scipy.special import chdtri

from pymc_active import DoubtfulFitWarning
from pymc_active.active import hds


def expected_evaluations(n_dims: int, n_active: int, false_active: float, per_node: float) -> float:
    """Upper bound of the expected number of evaluations (theorem 3.2)."""
    spawned = 2 * (1 - false_active) / (1 - 2 * false_active)
    return float((1 + spawned * n_active * np.ceil(np.log2(n_dims))) * per_node)


def fixed_sample_size(smallest_mean: float, largest: float, alpha: float) -> int:
    r"""Pairs that bound both errors of a test of fixed size by alpha, for a given function (proposition 3.1).

    :math:`\lceil \max\{2, 16 (1 + \sqrt{1 + c})^2 / c^2, 2 M^2 / c^2\} \log(2 / \alpha) \rceil` for ``smallest_mean``
    c, a lower bound of :math:`E[\Delta^2]`, and ``largest`` M, an upper bound of :math:`\Delta^2`, with :math:`\Delta
    = (f(x) - f(x')) / \sqrt{2 \sigma^2}`.
    """
    c = smallest_mean
    root = max(np.sqrt(2.0), 4 * (1 + np.sqrt(1 + c)) / c, np.sqrt(2) * largest / c)
    return int(np.ceil(root**2 * np.log(2 / alpha)))


def theorem_beta(t: int, n_active: int, *, signal_variance: float, bandwidth: float, delta: float = 0.1) -> float:
    r"""β of theorem 4.1 at evaluation t, from 1, with which the regret bound holds with a probability of 1 - delta.

    :math:`2 \log(2 \pi^2 t^2 / (3 \delta)) + 2 d \log(2 t^2 d \sigma_s b^{-1} \sqrt{\log(4 d / \delta)})` for d
    ``n_active``, and inputs in a unit interval. In practice a fifth of it is plenty.
    """
    lipschitz = np.sqrt(signal_variance) / bandwidth * np.sqrt(np.log(4 * n_active / delta))
    grid = max(2 * t**2 * n_active * lipschitz, 1.0)
    return float(2 * np.log(2 * np.pi**2 * t**2 / (3 * delta)) + 2 * n_active * np.log(grid))


def nodes_of_a_search(D: int, d: int, alpha: float, rng: np.random.Generator) -> int:
    """Nodes visited if every active node, and an inactive one with probability alpha, is called active."""
    active = rng.choice(D, d, replace=False)

    def visit(start: int, stop: int) -> int:
        is_active = ((start <= active) & (active < stop)).any()
        if stop - start == 1 or not (is_active or rng.random() < alpha):
            return 1
        middle = (start + stop) // 2
        return 1 + visit(start, middle) + visit(middle, stop)

    return visit(0, D)


def draw_of_two(n_dims: int, rng: np.random.Generator):
    """Two active inputs, and a draw of the assumed process."""
    active = sorted(rng.choice(n_dims, 2, replace=False).tolist())
    draw = gp_draw(2, 0.3, random_seed=rng)
    return active, lambda X: draw(X[:, active])


def misjudged(n_runs: int) -> None:
    """Tests of inactive and active nodes that err, beside the bounds."""
    wrong, total = np.zeros(2, int), np.zeros(2, int)
    accept, reject = 2.0, -3.0
    for seed in range(n_runs):
        rng = np.random.default_rng(seed)
        active, f = draw_of_two(32, rng)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DoubtfulFitWarning)
            result = hds(
                lambda X, f=f, rng=rng: f(X) + rng.normal(0, 0.3, len(X)),
                32,
                test="gpt",
                bandwidth=0.3,
                signal_variance=1.0,
                noise_variance=0.09,
                accept=accept,
                reject=reject,
                random_seed=seed,
            )
        for node in result.learner.halving.nodes:
            is_active = int(any(node.start <= i < node.stop for i in active))
            total[is_active] += 1
            wrong[is_active] += (node.llr > 0) != is_active
    declared = np.exp([-accept, reject])
    print(
        f"Wald: {wrong[0]} of {total[0]} nodes falsely active (at most {declared[0]:.3f}), "
        f"{wrong[1]} of {total[1]} falsely inactive (at most {declared[1]:.3f})"
    )
    assert (wrong / total <= declared).all()


def main() -> None:
    rng = np.random.default_rng(10)
    for D, d, alpha in ((64, 3, 0.2), (64, 1, 0.0), (1000, 5, 0.05)):
        mean = np.mean([nodes_of_a_search(D, d, alpha, rng) for _ in range(400)])
        bound = expected_evaluations(D, d, alpha, 1.0)
        print(f"theorem 3.2, D = {D}, d = {d}, α = {alpha}: {mean:.1f} nodes, at most {bound:.1f}")
        assert mean <= bound
    c, largest, alpha = 2.0, 4.0, 0.05
    n = fixed_sample_size(c, largest, alpha)
    shift = np.sqrt(rng.choice([0.0, largest], size=(2000, n)))
    threshold = chdtri(n, alpha)
    missed = (np.square(rng.normal(size=(2000, n)) + shift).sum(1) < threshold).mean()
    false = (np.square(rng.normal(size=(2000, n))).sum(1) > threshold).mean()
    print(f"proposition 3.1, {n} pairs: {missed:.3f} missed, {false:.3f} false, at most {alpha}")
    assert missed <= alpha
    assert abs(false - alpha) < 4 * np.sqrt(alpha / 2000)
    beta = theorem_beta(1, 2, signal_variance=1.0, bandwidth=0.1)
    print(f"theorem 4.1: β = {beta:.1f} at the first evaluation of two inputs")

    misjudged(200)


if __name__ == "__main__":
    main()
