"""Does PES find the optimum of noisy objectives of the real world sooner than other criteria?

Figure 4 of Hernandez-Lobato et al. (2014). The truth is, as there, the posterior mean of a GP through 1,000
evaluations at uniform points of the unit square, its noise that of the measurements. Nobody knows the paper's exact
objectives; ours:

* **NNet**: negative test RMSE of a network with 10 hidden units (scikit-learn's ``MLPRegressor``, L-BFGS) on a random
  half of Boston housing, over weight decay (1e-4 to 1e2) and iterations (5 to 500), both on a logarithmic scale.
* **Portfolio**, a stand-in, since the paper names the stocks but neither period nor source: ratio of mean and sd of
  the one-year return of AXP, BA and HD, simulated (1,000 years an evaluation) from GARCH(1, 1) models with their
  observed residuals, joined by a t copula, fitted to daily returns 1987-2009; over the weights.
* **Hydrogen**: only if the folder of PYMC_ACTIVE_DATA has the user's ``hydrogen.csv`` (``ph``, ``nitrogen``,
  ``hydrogen``).
* **Walker** is a simulator that is not to be had, and is left out.

The objectives' evaluations are kept in ``results/figure4_<name>.csv``. Everything else is as in ``figure3.py``. Needs
boston_housing.csv and portfolio_axp_ba_hd.csv.gz in the folder that PYMC_ACTIVE_DATA names.
"""

from collections.abc import Callable
from functools import lru_cache, partial

import _above  # noqa: F401
import numpy as np
import pandas as pd
from _loop import LOOP_METHODS, Problem, priors, run_loop
from _real import hydrogen, nnet, portfolio
from _records import RESULTS, Key, every, main
from _report import panels
from _runs import PEERS, plot_regret, print_regrets, regrets
from pes_peers import is_installed

import pymc_active as pma
from pymc_active.support.user_warnings import DoubtfulFitWarning, ignoring

N_TRUTH, N_ASKS, EVERY = 1000, 36, 4
LABELS = {"nnet": "NNet", "portfolio": "Portfolio, a stand-in", "hydrogen": "Hydrogen"}
SIMULATORS: dict[str, Callable] = {"nnet": nnet, "portfolio": portfolio}
GRID, STARTS = 201, 60


def evaluations(row: str) -> tuple[np.ndarray, np.ndarray]:
    """Measurements that the truth is made of: simulated once, then read."""
    if row == "hydrogen":
        return hydrogen()
    path = RESULTS / f"figure4_{row}.csv"
    if not path.exists():
        rng = np.random.default_rng(2014)
        X = rng.uniform(size=(N_TRUTH, 2)).round(6)
        y = [round(SIMULATORS[row](x, rng), 6) for x in X]
        RESULTS.mkdir(exist_ok=True)
        pd.DataFrame({"x0": X[:, 0], "x1": X[:, 1], "y": y}).to_csv(path, index=False)
    stored = pd.read_csv(path)
    return stored[["x0", "x1"]].to_numpy(), stored["y"].to_numpy()


@lru_cache
def problem(row: str) -> Problem:
    """The posterior mean of a GP through them."""
    X, y = evaluations(row)
    mean, sd = y.mean(), y.std()
    gpm = pma.ard_gp(X, y, kernel="ExpQuad", mean="constant", priors=priors(2), y_scale=(mean, sd))
    with ignoring(DoubtfulFitWarning):
        fit = pma.fit_laplace(gpm, n_restarts=2, population=0, random_seed=0, progressbar=False)

    def function(Z: np.ndarray) -> np.ndarray:
        return pma.predict(fit, Z, method="map").f_mean.to_numpy()

    sides = np.linspace(0, 1, GRID)
    grid = np.stack(np.meshgrid(sides, sides), axis=-1).reshape(-1, 2)
    values = function(grid)
    best = grid[np.argmax(values)]
    # Around the best cell once more: the mean is smooth at this distance.
    close = np.clip(best + (grid - 0.5) * 2 / (GRID - 1), 0, 1)
    noise = float(np.exp(fit.point["log_noise"]) * sd)
    return Problem(function, 2, float(max(values.max(), function(close).max())), mean, sd, noise, N_ASKS, EVERY)


def rows_at_hand() -> list[str]:
    """Those whose data there are."""
    found = list(SIMULATORS)
    try:
        hydrogen()
    except FileNotFoundError as error:
        print(f"without Hydrogen: {error}")
    else:
        found.append("hydrogen")
    return found


def record(row: str, method: str, repeat: int) -> dict | None:
    if method in PEERS and not is_installed():
        return None
    truth = problem(row)
    return run_loop(truth, method, repeat) | {"noise": truth.noise, "sd": truth.sd}


def small(row: str, method: str) -> dict:
    truth = problem(row)._replace(n_asks=4, every=2)
    return run_loop(truth, method, 0) | {"noise": truth.noise, "sd": truth.sd}


def summarise(records: dict[Key, dict]) -> dict:
    same = {row: {key: run[key] for key in ("evaluations", "noise", "sd")} for (row, _, _), run in records.items()}
    cells = {row: regrets(records, row, LOOP_METHODS) for row in LABELS}
    return {row: cell | same[row] for row, cell in cells.items() if cell["methods"]}


def plot(summary: dict):
    width = 4.2 * max(1, len(summary))
    figure, axes = panels(2, max(1, len(summary)), figsize=(width, 7), squeeze=False)
    sides = np.linspace(0, 1, 60)
    grid = np.stack(np.meshgrid(sides, sides), axis=-1)
    for (above, below), (row, cell) in zip(axes.T, summary.items(), strict=True):
        image = above.contourf(sides, sides, problem(row).function(grid.reshape(-1, 2)).reshape(60, 60), 20)
        figure.colorbar(image, ax=above, shrink=0.8)
        above.set_title(f"{LABELS[row]}: truth, noise sd {cell['noise']:.2g}", fontsize=9)
        starts = "-".join(map(str, sorted({c["repeats"] for c in cell["methods"].values()})))
        plot_regret(below, cell["evaluations"], cell["methods"], title=f"{starts} starts")
    axes[1, 0].set_ylabel("log10 of the median regret")
    axes[1, 0].legend(fontsize=7)
    return figure


def report(records):
    summary = summarise(records)
    for row, cell in summary.items():
        print(f"\n{LABELS[row]}, after {cell['evaluations'][-1]} evaluations; noise sd {cell['noise']:.3g}")
        print_regrets(cell)
    return summary, plot(summary), []


if __name__ == "__main__":
    smallest = {("nnet", m, 0): partial(small, "nnet", m) for m in ("pes", "ei")}
    main(__doc__, every(rows_at_hand(), LOOP_METHODS, STARTS), record, report, smallest)
