"""Does PES find the maximum of functions from its own prior sooner than other criteria?

Figure 2 of Hernandez-Lobato et al. (2014), the within-model comparison: 1,024 values drawn at random points of the
unit square from the GP prior (output variance 1, squared lengthscales 0.1, noise variance 1e-6), and the function is
the posterior mean through them. All criteria know the hyperparameters and share the first, random point, the search
over the square, and the recommendation: the maximum of the posterior mean, of which the immediate regret is measured.
Measurements have the model's noise (its sd is 1e-3). PES, JES and MES have 50 maxima of sample paths at each ask. ES,
whose entropy is counted and has steps, takes the best of 400 random candidates. BoTorch's LogEI and qPES have the
same hyperparameters, their own places of the maximum (16, scored by their expectation propagation) and BoTorch's
search; their points are judged by the same recommendation.

Bands are the central 68 % of the median's bootstrap distribution.

Targets: PES at 30 evaluations at -5.5 or below in decimal logarithms of the median regret, and 0.7 below EI.
"""

from collections.abc import Callable
from functools import lru_cache, partial

import _above  # noqa: F401
import numpy as np
from _records import Key, every, main
from _report import panels, target
from _runs import (
    LENGTHSCALE,
    NOISE,
    PEERS,
    ask_known,
    best_mean,
    fit_known,
    kernel,
    known_gpm,
    plot_regret,
    print_regrets,
    regrets,
)
from pes_peers import is_installed
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize

ROW = "within the model"
# The cheap ones; these take a second or more a point.
FAST, SLOW = ("pes", "ei", "jes", "mes", "thompson", "random"), ("LogEI", "es", "qPES")
N_EVALUATIONS, N_VALUES, N_OPTIMA = 30, 1024, 50
# Functions for each of the cheap methods, and of the others.
REPEATS, SLOW_REPEATS = 100, 40
N_SCREEN, N_CLIMBED = 120, 20
SEED = 2014


class Problem:
    """A posterior mean through values drawn from the prior, and its maximum over the unit square."""

    def __init__(self, repeat: int):
        self.rng = np.random.default_rng((SEED, repeat))
        self.Z = self.rng.uniform(size=(N_VALUES, 2))
        K = kernel(self.Z, self.Z)
        values, vectors = np.linalg.eigh(K)
        f = vectors @ (np.sqrt(np.maximum(values, 0.0)) * self.rng.normal(size=N_VALUES))
        self.weights = cho_solve(cho_factor(K + NOISE**2 * np.eye(N_VALUES), lower=True), f)
        self.maximum = self._maximum()

    def __call__(self, X: np.ndarray) -> np.ndarray:
        return kernel(X, self.Z) @ self.weights

    def _maximum(self) -> float:
        """The largest value: the highest points of a grid, climbed."""
        sides = np.linspace(0, 1, N_SCREEN)
        grid = np.stack(np.meshgrid(sides, sides), axis=-1).reshape(-1, 2)
        starts = grid[np.argsort(-self(grid))[: 200 * N_CLIMBED : 200]]

        def downhill(x: np.ndarray) -> tuple[float, np.ndarray]:
            k = kernel(x[None], self.Z)[0] * self.weights
            return -k.sum(), (k[:, None] * (x - self.Z)).sum(0) / LENGTHSCALE**2

        options = {"ftol": 1e-15, "gtol": 1e-11}
        found = [
            minimize(downhill, x, jac=True, method="L-BFGS-B", bounds=[(0, 1)] * 2, options=options) for x in starts
        ]
        return float(-min(one.fun for one in found))


problem: Callable[[int], Problem] = lru_cache(1)(Problem)


def record(row: str, method: str, repeat: int, n_evaluations: int = N_EVALUATIONS) -> dict | None:
    if method in PEERS and not is_installed():
        return None
    f = problem(repeat)
    rng = np.random.default_rng((SEED, repeat, 1))
    X = rng.uniform(size=(1, 2))
    # Drawn at once, so that all criteria meet the same noise.
    noise = NOISE * rng.normal(size=N_EVALUATIONS)
    y = f(X) + noise[:1]
    gpm = known_gpm(X, y)
    regret = []
    for n in range(1, n_evaluations + 1):
        regret.append(f.maximum - float(f(best_mean(fit_known(gpm), 2, "map")[None])[0]))
        if n == n_evaluations:
            break
        x = ask_known(method, gpm, N_OPTIMA, repeat)
        X, y = np.concatenate([X, x[None]]), np.concatenate([y, f(x[None]) + noise[n]])
        gpm.set_data(X, y)
    return {"regret": [float(f"{r:.3e}") for r in regret]}


def summarise(records: dict[Key, dict]) -> dict:
    summary = regrets(records, ROW, (*FAST, *SLOW), "wall_seconds")
    for method, cell in summary["methods"].items():
        runs = [run["regret"] for (_, m, _), run in records.items() if m == method]
        cell["smallest"] = min(map(min, runs))
        summary["evaluations"] = list(range(1, len(runs[0]) + 1))
    return summary


def targets(summary: dict) -> list[dict]:
    if "pes" not in summary["methods"]:
        return []
    cell = summary["methods"]["pes"]
    what = f"PES, {cell['repeats']} functions: log10 of the median regret at {summary['evaluations'][-1]}"
    result = [target(what, cell["median"][-1], "<=", -5.5)]
    if "pes" in summary["against_ei"]:
        result.append(target("PES less EI, decades", summary["against_ei"]["pes"]["decades"], "<=", -0.7))
    return result


def plot(summary: dict):
    figure, (left, right) = panels(1, 2, figsize=(11, 4.4), width_ratios=(1, 1.6))
    sides = np.linspace(0, 1, 80)
    grid = np.stack(np.meshgrid(sides, sides), axis=-1)
    image = left.contourf(sides, sides, problem(0)(grid.reshape(-1, 2)).reshape(80, 80), 20, cmap="viridis")
    figure.colorbar(image, ax=left, shrink=0.8)
    left.set_title("one of the functions", fontsize=9)
    left.set_aspect("equal")
    repeats = {cell["repeats"] for cell in summary["methods"].values()}
    title = f"{' and '.join(map(str, sorted(repeats, reverse=True)))} functions"
    plot_regret(right, summary["evaluations"], summary["methods"], title=title)
    right.set_ylabel("log10 of the median regret")
    right.legend(fontsize=8)
    return figure


def report(records):
    summary = summarise(records)
    print_regrets(summary)
    return summary, plot(summary), targets(summary)


if __name__ == "__main__":
    small = {(ROW, m, 0): partial(record, ROW, m, 0, 6) for m in ("pes", "ei", "es", "random")}
    keys = [key for key in every([ROW], (*FAST, *SLOW), REPEATS) if key[1] in FAST or key[2] < SLOW_REPEATS]
    main(__doc__, keys, record, report, small, peers=PEERS)
