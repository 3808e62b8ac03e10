"""Few inputs among 100 and 300: how many evaluations and seconds does finding them take, beside GTBO?

Branin, Levy (4 inputs) and Hartmann (6), as GTBO's own benchmarks: noise of sd 0.01, in places drawn anew for each
seed. GTBO (Hellsten, Hvarfner, Papenmeier & Nardi, 2023, the authors' code) is its group tests, without the
optimisation after them, with the settings that its file of defaults gives, but 100 tests, its classes' default, in
place of 2. It names the inputs whose probability is above its threshold of 0.05.
"""

import sys
import tempfile
import warnings
from functools import partial
from importlib.util import find_spec
from itertools import product
from pathlib import Path

import _above  # noqa: F401
import numpy as np
from _functions import branin, hartmann6, levy
from _records import every, main
from _report import BLUE, ORANGE, panels, table_of, target

NOISE, SEEDS = 0.01, 10
# Of the unit cube.
FUNCTIONS = {
    "Branin": (2, lambda X: branin(15 * X - [5, 0])),
    "Levy": (4, lambda X: levy(20 * X - 10)),
    "Hartmann": (6, hartmann6),
}
SIZES = (100, 300)


def problem(row, seed):
    name, D = row.split("/")
    d, core = FUNCTIONS[name]
    rng = np.random.default_rng([seed, d, int(D)])
    places = rng.permutation(int(D))[:d]
    values = []

    def f(X):
        y = core(np.array(X, float)[:, places]) + NOISE * rng.normal(size=len(X))
        values.extend(y.tolist())
        return y

    return f, int(D), set(places.tolist()), values


def bisection(f, D, seed):
    import pymc_active as pma

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = pma.active.hds(f, D, bounds=(0, 1), random_seed=seed)
    return result.active, bool(result.doubt) or bool(caught)


def gtbo(f, D, seed):
    import gin
    import torch
    from gtbo.group_testing.ground_truth_evaluator import GroundTruthEvaluator
    from gtbo.group_testing.tester import GroupTester

    class Function:
        dim, returns_noiseless = D, False
        lb_vec, ub_vec = torch.zeros(D, dtype=torch.double), torch.ones(D, dtype=torch.double)

        def __call__(self, x):
            y = f(np.atleast_2d(np.asarray(x)))
            return torch.tensor(y).squeeze()

    torch.manual_seed(seed)
    np.random.seed(seed)  # noqa: NPY002
    torch.set_num_threads(1)
    gin.clear_config()
    defaults = Path(sys.modules["gtbo"].__path__[0]).parent / "configs" / "default.gin"
    gin.parse_config_files_and_bindings([str(defaults)], ["GroupTester.gt_iterations = 100"])
    function = Function()
    truth = GroundTruthEvaluator(benchmark=function, default=torch.full((D,), 0.5, dtype=torch.double))
    signal = torch.sqrt(truth.f_std**2 + truth.pure_noise_std**2).item()
    with tempfile.TemporaryDirectory() as folder:
        tester = GroupTester(
            evaluator=truth, noise_std=max(truth.noise_std.item(), 1e-6), signal_std=signal, results_dir=folder
        )
        state = tester.optimize()
    marginals = state.marginals[0].numpy().reshape(-1)
    return np.flatnonzero(marginals > tester.activeness_threshold).tolist(), not bool(tester.converged.all())


METHODS = {"bisection": bisection, "GTBO": gtbo}


def record(row, method, repeat):
    if method == "GTBO" and find_spec("gtbo") is None:
        return None
    f, D, places, values = problem(row, repeat)
    found, warned = METHODS[method](f, D, repeat)
    missed, extra = len(places - {*found}), len({*found} - places)
    counts = {"missed": missed, "extra": extra, "evaluations": len(values)}
    return {"right": not missed and not extra, "warned": warned, **counts}


def rates(records):
    evaluations = [r["evaluations"] for r in records]
    return {
        "runs": len(records),
        "right": float(np.mean([r["right"] for r in records])),
        "missed": float(np.mean([r["missed"] for r in records])),
        "extra": float(np.mean([r["extra"] for r in records])),
        "evaluations": float(np.median(evaluations)),
        "most evaluations": max(evaluations),
        "CPU seconds": float(np.median([r["cpu_seconds"] for r in records])),
    }


def picture(results):
    figure, axes = panels(1, 2, figsize=(9, 3.2), sharey=True)
    names = list(dict.fromkeys(name.split(",")[0] for name in results))
    for shift, method, color in ((-0.2, "bisection", BLUE), (0.2, "GTBO", ORANGE)):
        for axis, what in zip(axes, ("evaluations", "CPU seconds"), strict=True):
            there = [(i, results[f"{n}, {method}"][what]) for i, n in enumerate(names) if f"{n}, {method}" in results]
            axis.barh([i + shift for i, _ in there], [value for _, value in there], 0.38, color=color, label=method)
            axis.set(xlabel=f"median {what}")
    axes[1].set_xscale("log")
    axes[0].set_yticks(range(len(names)), names)
    axes[0].invert_yaxis()
    axes[0].legend()
    return figure


def report(records):
    results = {}
    for name, D, method in product(FUNCTIONS, SIZES, METHODS):
        if some := [r for key, r in records.items() if key[:2] == (f"{name}/{D}", method)]:
            results[f"{name} of {D}, {method}"] = rates(some)
    table_of([{"": name, **r} for name, r in results.items()])
    ours, theirs = ([r for key, r in records.items() if key[1] == method] for method in METHODS)
    targets = [target("exactly right", rates(ours)["right"], ">=", 0.95)]
    if theirs:
        ratio = rates(ours)["evaluations"] / rates(theirs)["evaluations"]
        targets.append(target("evaluations over GTBO's, medians", ratio, "<=", 1))
    return results, picture(results), targets


if __name__ == "__main__":
    rows = [f"{name}/{D}" for name, D in product(FUNCTIONS, SIZES)]
    small = {(rows[0], method, 0): partial(record, rows[0], method, 0) for method in METHODS}
    main(__doc__, every(rows, METHODS, SEEDS), record, report, small, peers=("GTBO",))
