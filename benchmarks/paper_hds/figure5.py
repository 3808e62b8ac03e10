"""Is the maximum found sooner if the inputs that matter are found first?

Figure 5 (b) and (c) of Chen, Castro & Krause (2012): average and smallest regret of HDS followed by GP-UCB on the
inputs found, and of GP-UCB on all inputs; d = 2 inputs of D = 4 matter, as in the paper, and of D = 40. What the
paper leaves open, and how it is read here:

* All functions are maximised, shifted and scaled to mean 0 and variance 1 over the box; regrets are of f without
  noise, in its sds; σ² = 0.1. Both methods are told b: 0.2 for draws of a Gaussian process, 0.5 for Branin, 1 for
  Quad. With b = 0.1 as in the other figures a draw has hundreds of hills in the plane, and nobody finds the highest
  in 200 evaluations.
* β = 4 for both. Theorem 4.1's β is many times larger, and grows with the number of inputs that are searched: under
  it GP-UCB on all of them explores only.
* HDS is GPT with the thresholds (5, -10), without a last check.
* The horizon T = 200 counts the evaluations of the selection, which are the data that GP-UCB begins with. If no input
  is found, GP-UCB goes on with all.
* Plain GP-UCB has the same kernel on all D inputs. The acquisition is maximised from 2,000 random places and 20
  around the best data, so that it can climb from there; on smooth functions it does so well that it does *not* fail
  in many inputs.
"""

from functools import partial

import _above  # noqa: F401
import numpy as np
from _problems import BRANIN_MINIMUM, HiddenProblem, quad
from _records import every, main
from _report import panels, stated, table, target
from _runs import THRESHOLDS, gp_problem, hidden_branin, noisy
from gp_ucb import gp_ucb, regret

import pymc_active as pma

METHODS = {
    "hds_ucb": ("HDS, then GP-UCB", "#009E73"),
    "ucb": ("GP-UCB on all inputs", "#D55E00"),
    "random": ("random", "#999999"),
}
FUNCTIONS = {"GP": 0.2, "Branin": 0.5, "Quad": 1.0}
SIZES = (4, 40)
ROWS = [f"{name}, D={D}" for D in SIZES for name in FUNCTIONS]
HORIZON, BETA, NOISE = 200, 4.0, 0.1
SEED, TRIALS = 2012, 20


def problem(row: str, trial: int) -> tuple[HiddenProblem, float]:
    """A standardised function, and its largest value."""
    name, _, D = row.partition(", D=")
    rng = np.random.default_rng((SEED, list(FUNCTIONS).index(name), int(D), trial))
    if name == "GP":
        made, sign = gp_problem(int(D), 2, FUNCTIONS["GP"], rng), 1.0
    elif name == "Branin":
        made, sign = hidden_branin(int(D), rng), -1.0
    else:
        made, sign = quad(int(D), 2, random_seed=rng), -1.0
    places = np.zeros((40_401, int(D)))
    places[:, made.active] = np.stack(np.meshgrid(*[np.linspace(-1, 1, 201)] * 2), -1).reshape(-1, 2)
    values = sign * made.function(places)
    mean, sd = values.mean(), values.std()
    # The grid's maximum lacks little; those that are known lack nothing.
    largest = {"GP": values.max(), "Branin": -BRANIN_MINIMUM, "Quad": 0.0}[name]
    return made._replace(function=lambda X: (sign * made.function(X) - mean) / sd), float((largest - mean) / sd)


def record(row: str, method: str, number: int, horizon: int = HORIZON) -> dict:
    made, largest = problem(row, number)
    D = len(made.bounds)
    rng = np.random.default_rng((SEED, number, 1))
    f = noisy(made.function, NOISE, rng)
    scales = {"bandwidth": FUNCTIONS[row.partition(",")[0]], "signal_variance": 1.0, "noise_variance": NOISE}
    active: list[int] = []
    points = np.empty((0, D))
    if method == "random":
        points = rng.uniform(-1, 1, (horizon, D))
    elif method == "hds_ucb":
        selection = pma.active.hds(f, D, test="gpt", budget=horizon, random_seed=rng, **THRESHOLDS, **scales)
        active, points = selection.active, selection.history.X()
    n_selection = len(points)
    if n_selection < horizon:
        inputs = active or list(range(D))
        y = selection.history.y if n_selection else np.empty(0)
        further = gp_ucb(f, D, horizon - n_selection, inputs, X=points[:, inputs], y=y, beta=BETA, rng=rng, **scales)
        points = np.concatenate([points, further])
    found = regret(made.function(points), largest)
    return {
        "average": [float(f"{r:.4g}") for r in found.average],
        "minimum": [float(f"{r:.4g}") for r in found.minimum],
        "right": bool(active == made.active),
        "selection": n_selection if method == "hds_ucb" else 0,
    }


def summarise(records: dict) -> dict:
    cells: dict = {}
    for row in ROWS:
        for method in METHODS:
            found = [r for key, r in sorted(records.items()) if key[:2] == (row, method)]
            if not found:
                continue
            one: dict = {"trials": len(found), "right": float(np.mean([r["right"] for r in found]))}
            one["selection"] = float(np.mean([r["selection"] for r in found]))
            for what in ("average", "minimum"):
                curves = np.array([r[what] for r in found])
                one[what] = curves.mean(0).round(4).tolist()
                one[f"{what}_error"] = (curves.std(0) / np.sqrt(max(len(curves) - 1, 1))).round(4).tolist()
            cells.setdefault(row, {})[method] = one
        shared = [n for r, m, n in records if (r, m) == (row, "hds_ucb") and (row, "ucb", n) in records]
        for what in ("average", "minimum"):
            if len(shared) > 1:
                gain = np.array(
                    [records[row, "ucb", n][what][-1] - records[row, "hds_ucb", n][what][-1] for n in shared]
                )
                cells[row]["hds_ucb"][f"{what}_gain"] = stated(gain)
    return cells


def targets(cells: dict) -> list[dict]:
    found = []
    for row, methods in cells.items():
        for what in ("average", "minimum"):
            gain = methods.get("hds_ucb", {}).get(f"{what}_gain")
            if gain:
                ratio = gain["mean"] / gain["standard_error"]
                found.append(target(f"{row}: gain in {what} regret at {HORIZON}, in standard errors", ratio, ">=", 2))
    return found


def plot(cells: dict):
    shape = 2, len(cells)
    figure, axes = panels(*shape, figsize=(2.9 * len(cells), 5.2), sharex=True, squeeze=False)
    at = np.arange(1, len(next(iter(next(iter(cells.values())).values()))["average"]) + 1)
    for j, (row, methods) in enumerate(cells.items()):
        for method, one in methods.items():
            label, colour = METHODS[method]
            for i, what in enumerate(("average", "minimum")):
                mean, error = np.array(one[what]), 3 * np.array(one[f"{what}_error"])
                axes[i, j].plot(at, mean, color=colour, label=label)
                axes[i, j].fill_between(
                    at, np.maximum(mean - error, 1e-3), mean + error, color=colour, alpha=0.15, lw=0
                )
            if one["selection"]:
                axes[1, j].axvline(one["selection"], color=colour, lw=0.8, ls=":")
        axes[0, j].set(title=row)
        axes[1, j].set(yscale="log", xlabel="evaluations")
    axes[0, 0].set(ylabel="average regret, sds of f")
    axes[1, 0].set(ylabel="smallest regret")
    axes[0, 0].legend(fontsize=7)
    return figure


def report(records):
    cells = summarise(records)
    rows = []
    for row, methods in cells.items():
        for method, one in methods.items():
            shown = [f"{one[w][-1]:.2f} ± {3 * one[f'{w}_error'][-1]:.2f}" for w in ("average", "minimum")]
            gains = [one.get(f"{w}_gain") for w in ("average", "minimum")]
            gains = [f"{g['mean']:.2f} ± {3 * g['standard_error']:.2f}" if g else "" for g in gains]
            right = f"{one['right']:.2f}" if method == "hds_ucb" else ""
            rows.append([row, METHODS[method][0], one["trials"], right, f"{one['selection']:.0f}", *shown, *gains])
    header = "function", "method", "trials", "right", "selection", "average ± 3 se", "smallest ± 3 se", "gain", "gain"
    table(header, rows)
    return cells, plot(cells), targets(cells)


if __name__ == "__main__":
    small = {("GP, D=4", m, 0): partial(record, "GP, D=4", m, 0, 40) for m in METHODS}
    main(__doc__, every(ROWS, METHODS, TRIALS), record, report, small)
