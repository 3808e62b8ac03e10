"""Which way finds the maximum of functions of 20 to 50 inputs, few of which matter, called as a new user would?

Two functions with few relevant inputs and two of rotated inputs, whose values depend on as many directions: Branin
among 20, Hartmann's of six inputs among 50, Branin and Levy's of four inputs of projections of 20 inputs. Runs start
from 20 points of a Latin hypercube and ask for 60 more; noise has 1 % of the sd of the function. "default" is
``pma.ard_gp(X, y, bounds=bounds)`` and ``Learner(gpm, "maximum", bounds=bounds)``; "embedding" is the same with
``pma.embedding_gp(X, y, n_components=2, bounds=bounds)``; "logei" is BoTorch's ``SingleTaskGP`` with
``qLogNoisyExpectedImprovement``, its tutorial's settings; "turbo" is TuRBO with one trust region (Eriksson et al. 2019,
their settings) on BoTorch's ``SingleTaskGP`` (both in the environment of ``pes_peers.py``). The regret is of the
recommended point (TuRBO's is the best posterior mean among its points), in sds of the function.
"""

import time
from functools import partial

import _above  # noqa: F401
import _peers
import numpy as np
from _functions import OF_MANY_INPUTS, ManyInputs
from _records import every, main
from _report import panels, table_of

import pymc_active as pma

SHOWN, REPEATS = (15, 30, 45, 60), 3
METHODS = {
    "default": 'learn="maximum"',
    "logei": "BoTorch LogEI",
    "turbo": "TuRBO",
    "embedding": "the same with embedding_gp",
}


def record(name, method, repeat, shown=SHOWN):
    if method in _peers.METHODS:
        return _peers.asked(method, "ManyInputs", name, repeat, shown)
    problem = ManyInputs(name, repeat)
    make = partial(pma.embedding_gp, n_components=2) if method == "embedding" else pma.ard_gp
    gpm = make(problem.X, problem.y, bounds=problem.bounds)
    learner = pma.Learner(gpm, "maximum", bounds=problem.bounds, random_seed=repeat)
    regrets, seconds = [], []
    for step in range(1, shown[-1] + 1):
        start = time.process_time()
        x = learner.ask()
        seconds.append(time.process_time() - start)
        learner.tell(x, problem.measure(x))
        if step in shown:
            regrets.append(problem.regret(learner.recommend()))
    return {"regrets": regrets, "seconds_an_ask": float(np.mean(seconds))}


def summarize(records):
    rows, methods = [], [m for m in METHODS if any(method == m for _, method, _ in records)]
    for name in (*OF_MANY_INPUTS, "all"):
        some = OF_MANY_INPUTS if name == "all" else [name]
        common = [(n, r) for n in some for r in range(REPEATS) if all((n, m, r) in records for m in methods)]
        for method in methods if common else ():
            regrets = np.log10([records[n, method, r]["regrets"] for n, r in common])
            after = {f"after_{n}": float(np.median(column)) for n, column in zip(SHOWN, regrets.T, strict=False)}
            seconds = float(np.mean([records[n, method, r]["seconds_an_ask"] for n, r in common]))
            rows.append({"problem": name, "method": method, "runs": len(common), **after, "seconds_an_ask": seconds})
    return rows


def picture(records):
    figure, axes = panels(1, len(OF_MANY_INPUTS), figsize=(11, 3), sharey=True)
    for ax, name in zip(axes, OF_MANY_INPUTS, strict=True):
        for k, (method, label) in enumerate(METHODS.items()):
            runs = np.log10([r["regrets"] for (n, m, _), r in records.items() if (n, m) == (name, method)])
            if len(runs):
                steps = SHOWN[: runs.shape[1]]
                ax.plot(steps, runs.T, color=f"C{k}", lw=0.6, alpha=0.5)
                ax.plot(steps, np.median(runs, axis=0), "o-", color=f"C{k}", ms=4, label=label)
        ax.set_title(name, fontsize=10)
        ax.set_xlabel("answers")
    axes[0].set_ylabel("log10 regret, sds")
    axes[0].legend(fontsize=8)
    return figure


def report(records):
    rows = summarize(records)
    table_of(rows)
    return {"table": rows}, picture(records), []


if __name__ == "__main__":
    name = next(iter(OF_MANY_INPUTS))
    small = {(name, m, 0): partial(record, name, m, 0, (1, 2)) for m in METHODS}
    main(__doc__, every(OF_MANY_INPUTS, METHODS, REPEATS), record, report, small, peers=_peers.METHODS)
