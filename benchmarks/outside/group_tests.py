"""Few inputs among 100 and 300: how many evaluations and seconds does finding them take, beside GTBO?

    python benchmarks/outside/group_tests.py --minutes 2                 # ours; resumable
    python benchmarks/outside/group_tests.py --methods GTBO --minutes 30 # in an environment that has GTBO's packages
    python benchmarks/outside/group_tests.py                             # table, JSON and picture from the records

Branin, Levy (4 inputs) and Hartmann (6), as GTBO's own benchmarks: noise of sd 0.01, in places drawn anew for each
seed. GTBO (Hellsten, Hvarfner, Papenmeier & Nardi, 2023, the authors' code) is its group tests, without the
optimisation after them, with the settings that its file of defaults gives, but 100 tests, its classes' default, in
place of 2. It names the inputs whose probability is above its threshold of 0.05.
"""

import os
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parent.parent))

import warnings

import numpy as np

HERE = Path(__file__).parent
PATH = HERE / "results" / "group_tests.jsonl"
NOISE = 0.01
SEEDS = 10


def branin(X):
    a, b = 15 * X[:, 0] - 5, 15 * X[:, 1]
    return (b - 5.1 * a**2 / (4 * np.pi**2) + 5 * a / np.pi - 6) ** 2 + 10 * (1 - 1 / (8 * np.pi)) * np.cos(a) + 10


def levy(X):
    w = 1 + (20 * X - 11) / 4
    middle = (w[:, :-1] - 1) ** 2 * (1 + 10 * np.sin(np.pi * w[:, :-1] + 1) ** 2)
    last = (w[:, -1] - 1) ** 2 * (1 + np.sin(2 * np.pi * w[:, -1]) ** 2)
    return np.sin(np.pi * w[:, 0]) ** 2 + middle.sum(1) + last


def hartmann(X):
    A = [[10, 3, 17, 3.5, 1.7, 8], [0.05, 10, 17, 0.1, 8, 14], [3, 3.5, 1.7, 10, 17, 8], [17, 8, 0.05, 10, 0.1, 14]]
    P = [
        [1312, 1696, 5569, 124, 8283, 5886],
        [2329, 4135, 8307, 3736, 1004, 9991],
        [2348, 1451, 3522, 2883, 3047, 6650],
        [4047, 8828, 8732, 5743, 1091, 381],
    ]
    squares = (np.array(A) * (X[:, None] - 1e-4 * np.array(P)) ** 2).sum(2)
    return -np.exp(-squares) @ [1.0, 1.2, 3.0, 3.2]


FUNCTIONS = {"Branin": (2, branin), "Levy": (4, levy), "Hartmann": (6, hartmann)}
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


def run(row, method, repeat):
    f, D, places, values = problem(row, repeat)
    found, warned = METHODS[method](f, D, repeat)
    missed, extra = len(places - {*found}), len({*found} - places)
    counts = {"missed": missed, "extra": extra, "evaluations": len(values)}
    return {"right": not missed and not extra, "warned": warned, **counts}


def keys(methods, seeds):
    for repeat in range(seeds):
        for name in FUNCTIONS:
            for D in SIZES:
                for method in methods:
                    yield f"{name}/{D}", method, repeat


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


def figure(results):
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt
    from _report import BLUE, ORANGE

    figure, axes = plt.subplots(1, 2, figsize=(9, 3.2), sharey=True)
    names = list(dict.fromkeys(name.split(",")[0] for name in results))
    for shift, method, color in ((-0.2, "bisection", BLUE), (0.2, "GTBO", ORANGE)):
        for axis, what in zip(axes, ("evaluations", "CPU seconds"), strict=True):
            there = [(i, results[f"{n}, {method}"][what]) for i, n in enumerate(names) if f"{n}, {method}" in results]
            axis.barh([i + shift for i, _ in there], [value for _, value in there], 0.38, color=color, label=method)
            axis.set(xlabel=f"median {what}")
    axes[1].set_xscale("log")
    axes[0].set_yticks(range(len(names)), names)
    axes[0].invert_yaxis()
    axes[0].legend(frameon=False)
    figure.tight_layout()
    return figure


def main():
    from _records import fill, load, methods_parser
    from _report import table, target, write

    options = methods_parser(__doc__, ["bisection"], SEEDS).parse_args()
    if options.minutes:
        fill(PATH, keys(options.methods, options.seeds), run, options.minutes)
        return
    records = load(PATH)
    results = {}
    for name in FUNCTIONS:
        for D in SIZES:
            for method in METHODS:
                chosen = [r for key, r in records.items() if key[:2] == (f"{name}/{D}", method)]
                if chosen:
                    results[f"{name} of {D}, {method}"] = rates(chosen)
    table(["", *rates([*records.values()])], [[k, *(f"{v:.3g}" for v in r.values())] for k, r in results.items()])
    ours = [r for key, r in records.items() if key[1] == "bisection"]
    theirs = [r for key, r in records.items() if key[1] == "GTBO"]
    targets = [
        target("exactly right", rates(ours)["right"], ">=", 0.95),
        target("evaluations over GTBO's, medians", rates(ours)["evaluations"] / rates(theirs)["evaluations"], "<=", 1),
    ]
    write(__doc__, quick=False, threads="one", targets=targets, results=results, figure=figure(results))


if __name__ == "__main__":
    main()
