"""What do failed experiments cost a search for the maximum, if they are told, ignored, or told as the worst value?

Four functions of two to six inputs, negated, that give no number in about 30 % of their box, next to their maximum or
around another one. Each run starts from max(4, d + 2) points that work, and asks for 20 more by the plain way,
``pma.ard_gp(X, y, bounds=bounds)`` and ``Learner(gpm, "maximum", bounds=bounds)``. ``told``: ``learner.tell(x, nan)``.
``forgotten``: ``learner.forget(x)``, as if it had not been asked. ``worst``: the smallest value seen so far is told.
Recorded are the share of asks that failed, the regret of the best point measured, in sds of the function, and whether
the recommended point works; and whether it would if ``recommend`` took P(success) from 0.5 on instead of 0.8
(``at_even_odds``).
"""

from functools import partial

import _above  # noqa: F401
import numpy as np
from _functions import branin, camel, hartmann3, hartmann6
from _records import common, every, main
from _report import panels, table_of, target
from scipy.optimize import minimize
from scipy.stats import qmc

import pymc_active as pma
from pymc_active.learner import weighted

METHODS = ("told", "forgotten", "worst")
RULES = ("recommended", "at_even_odds")
REPEATS, SHOWN = 5, (5, 10, 15, 20)

# Functions to minimise, their boxes, and where they fail.
FUNCTIONS = {
    # Of the three minima, the middle one fails.
    "branin": (branin, [(-5, 10), (0, 15)], lambda x: (x[:, 0] + 5 + x[:, 1]) / 15 < 0.775),
    # Of the two minima one fails, and the other is near the edge.
    "camel": (camel, [(-3, 3), (-2, 2)], lambda x: ((x - [0.5, -0.9]) ** 2).sum(1) < 1.6**2),
    "hartmann3": (hartmann3, [(0, 1)] * 3, lambda x: x[:, 1] + 0.2 * x[:, 2] > 0.8),
    "hartmann6": (hartmann6, [(0, 1)] * 6, lambda x: x[:, 0] - x[:, 3] > 0.2),
}


class Problem:
    """A function to maximise, NaN where it fails, with its maximum where it does not, and its sd."""

    def __init__(self, name, repeat):
        self._function, bounds, self._fails = FUNCTIONS[name]
        self.bounds = [(float(low), float(high)) for low, high in bounds]
        low, high = np.array(self.bounds).T
        X = low + (high - low) * qmc.Sobol(len(low), rng=0).random_base2(14)
        y = self(X)
        self.sd = float(np.nanstd(y))
        self.best = max(self._climb(x) for x in X[np.argsort(-np.where(np.isnan(y), -np.inf, y))[:10]])
        rng = np.random.default_rng((list(FUNCTIONS).index(name), repeat))
        design = low + (high - low) * qmc.LatinHypercube(len(low), rng=rng).random(64)
        self.X = design[~self._fails(design)][: max(4, len(low) + 2)]
        self.y = self(self.X)

    def __call__(self, X):
        X = np.asarray(X, float)
        return np.where(self._fails(X), np.nan, -self._function(X))

    def _climb(self, start):
        def objective(x):
            value = self(x[None])[0]
            return 1e9 if np.isnan(value) else -value

        return -minimize(objective, start, method="Nelder-Mead", bounds=self.bounds, options={"xatol": 1e-6}).fun

    def regret(self, value):
        return max(float(self.best - value) / self.sd, 1e-6)

    def judge(self, x):
        """The regret of a recommended point, None if it fails."""
        [value] = self(x)
        return None if np.isnan(value) else self.regret(value)


def record(name, method, repeat, shown=SHOWN):
    problem = Problem(name, repeat)
    gpm = pma.ard_gp(problem.X, problem.y, bounds=problem.bounds)
    learner = pma.Learner(gpm, "maximum", bounds=problem.bounds, random_seed=repeat)
    best, failed, regrets = problem.y.max(), 0, []
    for step in range(1, shown[-1] + 1):
        x = learner.ask()
        [y] = problem(x)
        failed += np.isnan(y)
        if np.isnan(y) and method == "forgotten":
            learner.forget(x)
        else:
            learner.tell(x, learner.y.min() if np.isnan(y) and method == "worst" else y)
        best = np.fmax(best, y)
        if step in shown:
            regrets.append(problem.regret(best))
    recommended = problem.judge(learner.recommend())
    likely, weighted.LIKELY = weighted.LIKELY, np.log(0.5)
    at_even_odds = problem.judge(learner.recommend())
    weighted.LIKELY = likely
    share = float(failed / shown[-1])
    return {"regrets": regrets, "failed": share, "recommended": recommended, "at_even_odds": at_even_odds}


def summarize(records):
    """Means by method and by function, over the runs that all methods have."""
    shared = common(records, FUNCTIONS, METHODS)

    def means(method, runs):
        chosen = [records[name, method, repeat] for name, repeat in runs]
        works = {rule: [one[rule] for one in chosen if one[rule] is not None] for rule in RULES}
        return {
            "method": method,
            "runs": len(chosen),
            "failed": float(np.mean([one["failed"] for one in chosen])),
            "log10_regret": float(np.mean(np.log10([one["regrets"][-1] for one in chosen]))),
            **{f"{rule}_works": len(works[rule]) / len(chosen) for rule in RULES},
            **{f"{rule}_log10_regret": float(np.mean(np.log10(works[rule]))) for rule in RULES},
        }

    by_function = {
        name: [means(method, [run for run in shared if run[0] == name]) for method in METHODS]
        for name in dict.fromkeys(n for n, _ in shared)
    }
    return {"table": [means(method, shared) for method in METHODS], "by_function": by_function, "common": shared}


def picture(records, found):
    figure, (left, right) = panels(1, 2, figsize=(9, 3.8))
    for k, (method, row) in enumerate(zip(METHODS, found["table"], strict=True)):
        curves = np.log10([records[name, method, repeat]["regrets"] for name, repeat in found["common"]])
        left.plot(SHOWN[: curves.shape[1]], curves.mean(0), color=f"C{k}", label=method)
        right.bar(k, row["failed"], color=f"C{k}")
    left.set(xlabel="points asked for", ylabel="log10 regret, sds of the function")
    left.legend(fontsize=8)
    right.set(xticks=range(len(METHODS)), xticklabels=METHODS, ylabel="share of asks that failed", ylim=(0, 1))
    return figure


def report(records):
    found = summarize(records)
    table_of([{"function": "all", **row} for row in found["table"]]
             + [{"function": name, **row} for name, rows in found["by_function"].items() for row in rows])  # fmt: skip
    rows = {row["method"]: row for row in found["table"]}
    ratio = rows["told"]["failed"] / max(rows["forgotten"]["failed"], 1e-9)
    targets = [
        target("share of failed asks, told over forgotten", ratio, "<=", 0.5),
        target("log10 regret, told less worst", rows["told"]["log10_regret"] - rows["worst"]["log10_regret"], "<=", 0),
    ]
    return found, picture(records, found), targets


if __name__ == "__main__":
    small = {("camel", m, 0): partial(record, "camel", m, 0, (2,)) for m in METHODS}
    main(__doc__, every(FUNCTIONS, METHODS, REPEATS), record, report, small)
