"""Which criterion finds the maximum, called as a new user would, on functions from the literature?

Twenty functions of two to six inputs, as in Surjanovic & Bingham's library, negated where they are minimised. Each run
starts from max(4, d + 2) points of a Latin hypercube and asks for 25 more; the starts and the noise are the same for
all methods. Noise is normal, with 0, 1 or 10 % of the sd of the function over the box, in turn by repeat. Ours is the
plain way, ``pma.ard_gp(X, y, bounds=bounds)`` and ``Learner(gpm, "maximum", bounds=bounds, criterion=...)``; ``logei``
is BoTorch's ``SingleTaskGP`` with ``qLogNoisyExpectedImprovement``, its tutorial's settings, and ``optuna`` its
``GPSampler``, told the starts (both in the environment of ``pes_peers.py``). ``ExpQuad`` is ours with the squared
exponential in place of Matern 5/2, ``auto`` the average of the default and of ``likelihood="warped"``. After answers 5,
10, ... the regret is recorded of the recommended point (``recommend``; for BoTorch the largest posterior mean, for
Optuna the best trial), in units of the function's sd: log10 of it is what is compared. The table is of the default and
the peers. Records before commit 25ef5148 were made with ``kernel="Matern52"`` and ``"ExpQuad"`` by name, when the
latter was the default.
"""

import time
from functools import partial

import _above  # noqa: F401
import _peers
import numpy as np
from _functions import FUNCTIONS, NOISES, Problem
from _records import common, every, main
from _report import panels, table_of
from scipy.stats import friedmanchisquare, rankdata

import pymc_active as pma

REPEATS = 9
# Answers after which a point is recommended.
SHOWN = (5, 10, 15, 20, 25)
METHODS = ("expected_improvement", "logei", "optuna")
SMOOTH, AUTO = "ExpQuad", "auto"
OTHERS = (SMOOTH, AUTO, "pes")


def learner_of(problem, X, y, method, repeat):
    kernel = SMOOTH if method == SMOOTH else None
    gpm = pma.ard_gp(X, y, bounds=problem.bounds, kernel=kernel)
    if method == AUTO:
        gpm = {"normal": gpm, "warped": pma.ard_gp(X, y, bounds=problem.bounds, likelihood="warped")}
    criterion = None if method in (SMOOTH, AUTO) else method
    return pma.Learner(gpm, "maximum", bounds=problem.bounds, criterion=criterion, random_seed=repeat)


def record(name, method, repeat, shown=SHOWN):
    if method in _peers.METHODS:
        return _peers.asked(method, "Problem", name, repeat, shown)
    problem = Problem(name, repeat)
    learner = learner_of(problem, problem.X, problem.y, method, repeat)
    regrets, seconds = [], []
    for step in range(1, shown[-1] + 1):
        start = time.process_time()
        x = learner.ask()
        learner.tell(x, problem.measure(x))
        learner.fit  # noqa: B018 - so that each step has its fit
        seconds.append(time.process_time() - start)
        if step in shown:
            regrets.append(problem.regret(learner.recommend()))
    return {"regrets": regrets, "seconds_an_ask": float(np.mean(seconds))}


def summarize(records):
    """Mean log10 regret by method over what all methods have, and mean ranks."""
    methods = [m for m in METHODS if any(method == m for _, method, _ in records)]
    shared = common(records, FUNCTIONS, methods)
    final = np.array([[np.log10(records[n, m, r]["regrets"][-1]) for m in methods] for n, r in shared])
    ranks, noise = rankdata(final, axis=1), np.array([r % len(NOISES) for _, r in shared])
    # Earlier code was slower.
    newest = [records[n, METHODS[0], r]["commit"] for n, r in shared][-1]
    timed = [(n, r) for n, r in shared if records[n, METHODS[0], r]["commit"] == newest]
    table = [
        {
            "method": method,
            "runs": len(shared),
            "log10_regret": float(final[:, j].mean()),
            "mean_rank": float(ranks[:, j].mean()),
            "seconds_an_ask": float(np.mean([records[n, method, r]["seconds_an_ask"] for n, r in timed])),
            **{f"noise_{sd}": float(final[noise == k, j].mean()) for k, sd in enumerate(NOISES) if k in noise},
        }
        for j, method in enumerate(methods)
    ]
    by_function = {
        name: dict(zip(methods, np.median(final[[n == name for n, _ in shared]], axis=0).tolist(), strict=True))
        for name in dict.fromkeys(n for n, _ in shared)
    }
    p = float(friedmanchisquare(*final.T).pvalue) if len(methods) > 2 and len(shared) > 2 else float("nan")
    table.sort(key=lambda row: row["mean_rank"])
    return {"table": table, "friedman_p": p, "by_function": by_function, "common": shared}


def picture(records, found):
    figure, ax = panels(figsize=(7, 4.2))
    rng = np.random.default_rng(0)
    for k, row in enumerate(found["table"]):
        curves = np.log10([records[n, row["method"], r]["regrets"] for n, r in found["common"]])
        means = np.stack([curves[rng.integers(len(curves), size=len(curves))].mean(0) for _ in range(500)])
        steps = SHOWN[: curves.shape[1]]
        ax.fill_between(steps, *np.quantile(means, (0.16, 0.84), axis=0), color=f"C{k}", alpha=0.15, lw=0)
        ax.plot(steps, curves.mean(0), color=f"C{k}", label=row["method"])
    ax.set(xlabel="points asked for", ylabel="log10 regret, sds of the function")
    ax.legend(fontsize=8)
    return figure


def report(records):
    found = summarize(records)
    table_of(found["table"])
    print("Friedman p", found["friedman_p"])
    for name, row in found["by_function"].items():
        print(f"{name:14}", {k: round(v, 2) for k, v in row.items()})
    return found, picture(records, found), []


if __name__ == "__main__":
    small = {("branin", m, 0): partial(record, "branin", m, 0, (1, 2)) for m in (*METHODS, *OTHERS)}
    main(__doc__, every(FUNCTIONS, (*METHODS, *OTHERS), REPEATS), record, report, small, peers=_peers.METHODS)
