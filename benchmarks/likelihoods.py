"""Do designs for yes or no and for counts learn more than random points, and what does a step cost?

    python benchmarks/likelihoods.py --minutes 30

The problems were chosen before any result was seen. Three parts:

* *curves*: probabilities or rates of two inputs in [-1, 1]², three each for Bernoulli (Φ of the function below),
  Poisson and negative binomial outcomes (alpha = 3, the rates of Poisson). Six points of a Latin hypercube start, 24
  rows of a pool of 400 are asked for by the default of ``Learner(gpm, "function")``, by ``criterion="uncertainty"``, or
  at random. After 6, 12, 18 and 24 of them: the mean over 200 test points of the expected negative log density of a new
  outcome, less that of the truth (nats). For Bernoulli it is exact; counts are two fixed draws at each test point, from
  either half of their distribution, the same for all designs.
* *threshold*: an observer says yes with the probability Φ((x - t) / s), t uniform in [-0.5, 0.5] and s log-uniform in
  [0.1, 0.4]. Four levels of 41 in [-1, 1] start, 36 follow and may repeat. The error is that of the x where the
  predicted probability crosses one half: the middle one of several such, the closest to one half if there are none.
  "bald" is ``criterion=partial(pma.active.bald, target="f")``, "level" ``partial(pma.active.level, threshold=0.5)``.
  "questplus" is QUEST+ of the package of this name, which is told that the form is Φ((x - t) / s), with 41 values of t
  in [-0.5, 0.5] and 15 of s in [0.1, 0.4]; its estimate is the mean of t.
* *step*: CPU seconds of a ``tell`` and the ``ask`` that follows with the default of ``"function"``, from n random
  points of the same two inputs with normal, Bernoulli and Poisson outcomes and a pool of 400: the median of three steps
  each of three runs, and the longest.

Target: the default is ahead of random points on every problem, on average of the four scores.
"""

import time
import warnings
from functools import partial
from itertools import product
from typing import Any

import _one_thread  # noqa: F401
import numpy as np
from _records import every, main
from _report import BLUE, GREY, ORANGE, panels, stated, target
from _tables import markdown
from scipy import stats
from scipy.special import ndtr, xlogy

import pymc_active as pma

BOX, N_POOL, N_TEST, N_START, AFTER = [(-1.0, 1.0)] * 2, 400, 200, 6, (6, 12, 18, 24)
ALPHA, REPEATS = 3.0, 6
FUNCTIONS = {
    "boundary": lambda a, b: 3 * (b - 0.5 * np.sin(3 * a)),
    "ring": lambda a, b: -2 * np.cos(5 * np.hypot(a, b)),
    "ridge": lambda a, b: 3 * np.exp(-6 * np.square(a + 0.5 * b)) - 1.5,
}
RATES = {
    "peak": lambda a, b: 1 + 20 * np.exp(-6 * (np.square(a - 0.3) + np.square(b + 0.2))),
    "wave": lambda a, b: np.exp(1 + 1.2 * np.sin(4 * a) * np.cos(2 * b)),
    "slope": lambda a, b: np.exp(1 + 1.2 * a - 0.8 * b),
}
PROBLEMS = {"bernoulli": FUNCTIONS, "poisson": RATES, "negative_binomial": RATES}
CURVES = {f"{kind}, {name}": (kind, name) for kind, names in PROBLEMS.items() for name in names}
DESIGNS = ("default", "uncertainty", "random")

LEVELS, FIRST, OBSERVERS, ANSWERS = np.linspace(-1, 1, 41)[:, None], [0, 13, 27, 40], 10, (10, 20, 40)
THRESHOLD, RULES = "threshold", ("default", "level", "bald", "questplus", "random")

STEPS = {f"step, n = {n}": n for n in (10, 40, 100)}
KINDS, RUNS, N_STEPS = ("normal", "bernoulli", "poisson"), 3, 3


def truth(row: str, X: np.ndarray) -> Any:
    """The distribution of an outcome at points."""
    kind, name = CURVES[row]
    value = PROBLEMS[kind][name](*X.T)
    if kind == "bernoulli":
        return stats.bernoulli(ndtr(value))
    return stats.poisson(value) if kind == "poisson" else stats.nbinom(ALPHA, ALPHA / (ALPHA + value))


def loss(row: str, fit: Any) -> float:
    """Expected negative log density of new outcomes, less that of the truth, nats."""
    X = np.random.default_rng(1).uniform(-1, 1, (N_TEST, 2))
    known = truth(row, X)
    if CURVES[row][0] == "bernoulli":
        p, q = known.mean(), pma.predict(fit, X).y_mean.to_numpy()
        return float((xlogy(p, p / q) + xlogy(1 - p, (1 - p) / (1 - q))).mean())
    both = np.concatenate([X, X])
    known = truth(row, both)
    # One in the lower half of the distribution, one in the upper.
    u = (np.repeat([0, 1], N_TEST) + np.random.default_rng(2).uniform(size=2 * N_TEST)) / 2
    y = known.ppf(u)
    return float((known.logpmf(y) - pma.predict(fit, both, y_new=y).y_log_density.to_numpy()).mean())


def curve(row: str, method: str, repeat: int, after: tuple[int, ...] = AFTER) -> dict:
    rng = np.random.default_rng((3, repeat))
    X, pool = pma.active.latin_hypercube(BOX, N_START, repeat), rng.uniform(-1, 1, (N_POOL, 2))
    y = truth(row, X).rvs(random_state=rng)
    gpm = pma.ard_gp(X, y, bounds=BOX, likelihood=CURVES[row][0])
    # Random points need no criterion.
    settings: Any = {"criterion": "uncertainty"} if method == "uncertainty" else {}
    learner = pma.Learner(gpm, "function", pool=pool, random_seed=repeat, **settings)
    scores, seconds, done = [loss(row, learner.fit)], [], 0
    for stop in after:
        if method == "random":
            X_new = pool[done:stop]
            learner.tell(X_new, truth(row, X_new).rvs(random_state=rng))
        else:
            for _ in range(done, stop):
                begin = time.process_time()
                x = learner.ask(progressbar=False)
                learner.tell(x, truth(row, x).rvs(random_state=rng))
                learner.fit  # noqa: B018
                seconds.append(time.process_time() - begin)
        done = stop
        scores.append(loss(row, learner.fit))
    asked = {"asks": [round(s, 3) for s in seconds], "criterion": learner.criterion_name} if seconds else {}
    told = {"X": learner.X.round(4).tolist(), "y": learner.y.tolist()}
    return {"start": scores[0], "nll": scores[1:], "fit": learner.fit.diagnostics["warnings"]} | asked | told


def crossing(fit: Any) -> float:
    x = np.linspace(-1, 1, 801)
    p = pma.predict(fit, x[:, None]).y_mean.to_numpy()
    found = np.flatnonzero(np.diff(p > 0.5))
    return float(np.median((x[found] + x[found + 1]) / 2) if len(found) else x[np.abs(p - 0.5).argmin()])


def by_questplus(says_yes: Any, t: float, answers: tuple[int, ...]) -> tuple[list[float], list[float]]:
    from questplus import QuestPlus

    quest = QuestPlus(
        stim_domain={"intensity": LEVELS[:, 0]},
        param_domain={
            "mean": np.linspace(-0.5, 0.5, 41), "sd": np.geomspace(0.1, 0.4, 15), "lower_asymptote": [0.0],
            "lapse_rate": [0.0],
        },
        outcome_domain={"response": [1, 0]},
        func="norm_cdf",
        stim_scale="linear",
        param_estimation_method="mean",
    )  # fmt: skip
    errors, seconds = [], []
    for k in range(answers[-1]):
        begin = time.process_time()
        x = LEVELS[FIRST[k], 0] if k < len(FIRST) else quest.next_stim["intensity"]
        quest.update(stim={"intensity": x}, outcome={"response": int(says_yes(np.array([[x]]))[0])})
        seconds.append(time.process_time() - begin)
        if k + 1 in answers:
            errors.append(float(quest.param_estimate["mean"]) - t)
    return errors, seconds


def threshold(method: str, repeat: int, answers: tuple[int, ...] = ANSWERS) -> dict:
    rng = np.random.default_rng((4, repeat))
    t, s = rng.uniform(-0.5, 0.5), np.exp(rng.uniform(np.log(0.1), np.log(0.4)))

    def says_yes(x):
        return (rng.uniform(size=len(x)) < ndtr((np.asarray(x)[:, 0] - t) / s)).astype(float)

    if method == "questplus":
        errors, seconds = by_questplus(says_yes, t, answers)
        return {"errors": errors, "t": t, "s": float(s), "fit": [], "asks": [round(one, 3) for one in seconds]}
    X = LEVELS[FIRST]
    gpm = pma.ard_gp(X, says_yes(X), bounds=[(-1, 1)], likelihood="bernoulli")
    criteria: Any = {
        "bald": partial(pma.active.bald, target="f"),
        "level": partial(pma.active.level, threshold=0.5),
    }
    settings: Any = {"criterion": criteria[method]} if method in criteria else {}
    learner = pma.Learner(gpm, "function", pool=LEVELS, repeat=True, random_seed=repeat, **settings)
    errors, seconds, done = [], [], len(X)
    for stop in answers:
        if method == "random":
            x = LEVELS[rng.integers(len(LEVELS), size=stop - done)]
            learner.tell(x, says_yes(x))
        else:
            for _ in range(done, stop):
                begin = time.process_time()
                x = learner.ask(progressbar=False)
                learner.tell(x, says_yes(x))
                learner.fit  # noqa: B018
                seconds.append(time.process_time() - begin)
        done = stop
        errors.append(crossing(learner.fit) - t)
    asked = {"asks": [round(one, 3) for one in seconds]} if seconds else {}
    told = {"X": learner.X[:, 0].round(4).tolist(), "y": learner.y.tolist()}
    return {"errors": errors, "t": t, "s": float(s), "fit": learner.fit.diagnostics["warnings"]} | asked | told


def step(n: int, kind: str, repeat: int, steps: int = N_STEPS) -> dict:
    rng = np.random.default_rng((5, n, repeat))

    def measure(X):
        f = np.sin(3 * X[:, 0]) + np.square(X[:, 1])
        normal, uniform = rng.normal(size=len(X)), rng.uniform(size=len(X))
        if kind == "normal":
            return f + 0.1 * normal
        return (uniform < ndtr(f)).astype(float) if kind == "bernoulli" else stats.poisson.ppf(uniform, np.exp(f))

    X, pool = rng.uniform(-1, 1, (n, 2)), rng.uniform(-1, 1, (N_POOL, 2))
    gpm = pma.ard_gp(X, measure(X), bounds=BOX, likelihood=kind)
    learner = pma.Learner(gpm, "function", pool=pool, random_seed=repeat)
    begin = time.process_time()
    x = learner.ask(progressbar=False)
    first, seconds = time.process_time() - begin, []
    for _ in range(steps):
        begin = time.process_time()
        learner.tell(x, measure(x))
        x = learner.ask(progressbar=False)
        seconds.append(time.process_time() - begin)
    return {"first": first, "steps": seconds}


def record(row: str, method: str, repeat: int) -> dict:
    """A record, with the warnings shown meanwhile."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if row in STEPS:
            found = step(STEPS[row], method, repeat)
        else:
            found = threshold(method, repeat) if row == THRESHOLD else curve(row, method, repeat)
    return found | {"warnings": sorted({f"{w.category.__name__}: {w.message}" for w in caught})}


def of_methods(records, row, methods) -> dict[str, list[dict]]:
    """Records of each method, of the repeats that all of them have."""
    each = {m: {r: v for (w, k, r), v in records.items() if (w, k) == (row, m)} for m in methods}
    shared = sorted(set.intersection(*map(set, each.values())))
    return {m: [found[r] for r in shared] for m, found in each.items()} if shared else {}


def curves(records) -> list[dict]:
    rows = []
    for row in CURVES:
        found = of_methods(records, row, DESIGNS)
        nll = {m: np.array([r["nll"] for r in runs]) for m, runs in found.items()}
        for method in found:
            line = {"row": row, "method": method, "runs": len(nll[method]), "start": float(
                np.mean([r["start"] for r in found[method]]))}  # fmt: skip
            line |= {"nll": nll[method].mean(0).tolist()}
            if method != "random":
                line["less random"] = stated((nll[method] - nll["random"]).mean(1))
                asks = [s for r in found[method] for s in r["asks"]]
                line |= {"ask": float(np.mean(asks)), "longest": max(asks)}
            rows.append(line)
    return rows


def thresholds(records) -> list[dict]:
    found = of_methods(records, THRESHOLD, RULES)
    square = {m: np.square([r["errors"] for r in runs]) for m, runs in found.items()}
    rows: list[dict] = []
    for method, runs in found.items():
        rms = np.sqrt(square[method].mean(0))
        error = square[method].std(0, ddof=1) / np.sqrt(len(runs)) / (2 * rms) if len(runs) > 1 else np.nan * rms
        rows.append({"method": method, "runs": len(runs), "rms": rms.tolist(), "standard_error": error.tolist()})
    return rows


def steps(records) -> list[dict]:
    rows = []
    for row, n in STEPS.items():
        found = of_methods(records, row, KINDS)
        for kind, runs in found.items():
            seconds, normal = ([s for r in found[k] for s in r["steps"]] for k in (kind, "normal"))
            median, first = float(np.median(seconds)), float(np.median([r["first"] for r in runs]))
            rows.append({
                "n": n, "kind": kind, "runs": len(runs), "median": median, "longest": max(seconds),
                "times normal": median / float(np.median(normal)), "first": first,
            })  # fmt: skip
    return rows


def picture(found):
    kinds = [kind for kind in PROBLEMS if any(r["row"].startswith(kind) for r in found["curves"])]
    figure, axes = panels(max(len(kinds), 1), 4, figsize=(12, 2.6 * max(len(kinds), 1)), squeeze=False)
    colors = dict(zip(("default", "uncertainty", "random"), (BLUE, ORANGE, GREY), strict=True)) | {
        "bald": ORANGE, "level": "#3a923a", "questplus": "#c44e52",
    }  # fmt: skip
    for i, kind in enumerate(kinds):
        for j, name in enumerate(PROBLEMS[kind]):
            for line in found["curves"]:
                if line["row"] == f"{kind}, {name}":
                    method = line["method"]
                    axes[i, j].plot(
                        (0, *AFTER), [line["start"], *line["nll"]], "o-", color=colors[method], label=method
                    )
            axes[i, j].set_title(f"{kind.replace('_', ' ')}, {name}", fontsize=9)
            axes[i, j].set(xlabel="answers", ylabel="nats above the truth" if j == 0 else None, yscale="log")
    axes[0, 0].legend(fontsize=7)
    right = axes[0, 3]
    for line in found["threshold"]:
        right.errorbar(ANSWERS, line["rms"], line["standard_error"], fmt="o-", color=colors[line["method"]],
                       label=line["method"])  # fmt: skip
    right.set_title("threshold", fontsize=9)
    right.set(xlabel="answers", ylabel="rms error")
    right.legend(fontsize=7)
    for ax in axes[1:, 3]:
        ax.axis("off")
    if len(axes) > 1:
        ax = axes[1, 3]
        ax.axis("on")
        for kind, color in zip(KINDS, (GREY, BLUE, ORANGE), strict=True):
            some = [r for r in found["step"] if r["kind"] == kind]
            ax.plot([r["n"] for r in some], [r["median"] for r in some], "o-", color=color, label=kind)
        ax.set_title("a step", fontsize=9)
        ax.set(xlabel="points", ylabel="CPU seconds", ylim=(0, None))
        ax.legend(fontsize=7)
    return figure


def table(found) -> str:
    """One table in Markdown: lines of all parts under the same columns."""
    rows = []
    for line in found["curves"]:
        gap = line.get("less random")
        less = f"{gap['mean']:+.3f} ± {gap['standard_error']:.3f}" if gap else ""
        seconds = f"{line['ask']:.2f}, {line['longest']:.1f}" if gap else ""
        rows.append([line["row"].replace("_", " "), line["method"], line["runs"],
                     ", ".join(f"{v:.3f}" for v in line["nll"]), less, seconds])  # fmt: skip
    for line in found["threshold"]:
        values = [f"{v:.3f} ± {e:.3f}" for v, e in zip(line["rms"], line["standard_error"], strict=True)]
        rows.append([f"rms error of the threshold after {ANSWERS}", line["method"], line["runs"],
                     ", ".join(values), "", ""])  # fmt: skip
    for line in found["step"]:
        rows.append([f"a step from n = {line['n']}", line["kind"], line["runs"],
                     f"{line['times normal']:.1f} times normal", "",
                     f"{line['median']:.2f}, {line['longest']:.1f}"])  # fmt: skip
    header = ["problem", "method", "runs", f"nats above the truth after {AFTER}", "less random, mean of the four"]
    header += ["CPU s a step, longest"]
    return markdown(header, [list(map(str, row)) for row in rows])


def report(records):
    found = {"curves": curves(records), "threshold": thresholds(records), "step": steps(records)}
    found["warnings"] = sorted({w for r in records.values() for w in r.get("warnings", []) + r.get("fit", [])})
    print(table(found))
    print("warnings:", found["warnings"] or "none")
    targets = [
        target(f"{line['row'].replace('_', ' ')}: default less random (nats)", line["less random"]["mean"], "<", 0.0)
        for line in found["curves"]
        if line["method"] == "default"
    ]
    rms = {line["method"]: line["rms"][-1] for line in found["threshold"]}
    if rms:
        targets.append(
            target("threshold: rms error of the default over random", rms["default"] / rms["random"], "<", 1)
        )
    return found, picture(found), targets


if __name__ == "__main__":
    keys = every(STEPS, KINDS, RUNS)
    for repeat, row in product(range(max(REPEATS, OBSERVERS)), [*CURVES, THRESHOLD]):
        if repeat < (OBSERVERS if row == THRESHOLD else REPEATS):
            keys += [(row, method, repeat) for method in (RULES if row == THRESHOLD else DESIGNS)]
    # Negative binomial outcomes, which are the slowest and most like others, at last.
    keys.sort(key=lambda key: key[0].startswith("negative"))
    small: dict = {("poisson, slope", m, 0): partial(curve, "poisson, slope", m, 0, (1, 2, 3, 4)) for m in DESIGNS}
    small |= {(THRESHOLD, m, 0): partial(threshold, m, 0, (5, 6, 7)) for m in RULES if m != "questplus"}
    small |= {("step, n = 10", kind, 0): partial(step, 10, kind, 0, 1) for kind in KINDS}
    main(__doc__, keys, record, report, small)
