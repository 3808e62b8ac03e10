"""Which measurement of a ``pm.Model`` comes next, in ten design problems of the literature, and is it worth its price?

    python benchmarks/any_model.py --minutes 20

The problems were chosen before any result was seen; their truths are drawn from their priors. Changed since, because
the reference could not tell: eight groups have narrower priors, rival decays start from one observation that leaves
both possible, and picks of counts were judged anew by the bounded reference below. Two parts:

* *pick*: the information (nats) of the first point that a ``Learner`` asks for over that of the best in the pool, about
  all parameters, a target, or the model. The reference shares no code with the package: draws of the prior in NumPy,
  weighted by the starting data, and E[log p(y | what is to be learned) - log p(y)] by nested Monte Carlo with 3,000
  fresh outcomes and 3,000 other draws for p(y), or, of at most 51 possible outcomes, their sum. For counts the draw of
  the outcome counts among the others, which bounds the tails (Foster et al. 2020). Targets are cut into 24 bins of
  equal probability. The error is that of the paired difference of both points.
* *run*: twenty asks, beside twenty random rows of the pool and twenty at equal distances (of two inputs, far from each
  other) in random order. Scores are of a fresh fit to the data in the end: the negative log density (nats) of the
  posterior at the truth (KDE), and the log sd, means over parameters or targets, of logarithms where these are
  positive. Of two rival models: the negative log probability of the true one, and the log sd of its indicator.

The first ask compiles and fits (wall seconds, median of the runs); CPU seconds of later ones include the update of the
fit. The epidemic is a scan of 100 days. Peers for such models (optbayesexpt, ADOpy, questplus, Pyro's nested estimator)
could not be installed, so none is shown.
"""

import time
from functools import cache, partial
from typing import Any

import _one_thread  # noqa: F401
import numpy as np
import pandas as pd
from _design_problems import LOG, OUTCOMES, PROBLEMS, Problem, Truth
from _records import every, main
from _report import BLUE, GREY, ORANGE, panels, stated, table_of, target
from scipy.special import logsumexp
from scipy.stats import gaussian_kde

import pymc_active as pma
from pymc_active.process.process import Process

RUNS = ("ours", "random", "even")
ASKS, REPEATS, PICKS = 20, 5, 3
# Outcomes, other draws, and bins of a target.
OUTER, INNER, BINS = 3000, 3000, 24


def posterior(problem: Problem, y: np.ndarray, n: int, rng) -> tuple[list[dict], list[np.ndarray], float]:
    """Draws of the parameters of each model given the first outcomes, their quantities' groups, and the ESS."""
    n_models = len(problem.models)
    draws = [problem.draw(name, problem.n_prior // n_models, rng) for name in problem.models]
    log = [LOG[problem.family](y, *problem.outcome(name, one, problem.start)).sum(1)
           for name, one in zip(problem.models, draws, strict=True)]  # fmt: skip
    w = np.exp(np.concatenate(log) - logsumexp(np.concatenate(log)))
    rows = np.searchsorted(np.cumsum(w) / w.sum(), (np.arange(n) + rng.uniform()) / n)
    owner, at = np.divmod(rng.permutation(np.minimum(rows, len(w) - 1)), problem.n_prior // n_models)
    found = [{v: values[at[owner == k]] for v, values in one.items()} for k, one in enumerate(draws)]
    groups = np.sort(owner)
    if problem.targets:
        [name] = problem.targets
        groups = found[0][name][:, 0].argsort().argsort() * BINS // n
    return found, [groups], float(1 / np.square(w).sum())


def information(problem: Problem, y: np.ndarray, seed: int) -> tuple[np.ndarray, float]:
    """What is gained at each candidate, for each of the draws or outcomes, whose mean is the information; the ESS."""
    rng = np.random.default_rng((2, seed))
    draws, [groups], ess = posterior(problem, y, OUTER + INNER, rng)
    everywhere = range(len(next(iter(problem.pool.values()))))
    parts = [problem.outcome(name, one, everywhere) for name, one in zip(problem.models, draws, strict=True)]
    shuffled = rng.permutation(OUTER + INNER)
    arguments = [np.concatenate(part)[shuffled] for part in zip(*parts, strict=True)]
    member = np.eye(groups.max() + 1)[groups[shuffled]]
    log, gains = LOG[problem.family], []
    is_about_all = problem.learn != "model" and problem.targets is None
    for k in everywhere:
        given = [one[:, k] for one in arguments]
        if problem.family in ("Bernoulli", "Binomial"):
            values = np.arange(2 if problem.family == "Bernoulli" else 51)
            density = np.exp(log(values, *(one[:, None] for one in given)))
            own = density if is_about_all else member @ (member.T @ density / member.sum(0)[:, None])
            ratio = np.log(np.maximum(own, 1e-300)) - np.log(np.maximum(density.mean(0), 1e-300))
            gains.append((density * ratio).sum(1))
            continue
        outer, inner = [one[:OUTER] for one in given], [one[None, OUTER:] for one in given]
        # Equal random numbers at all candidates.
        outcome = OUTCOMES[problem.family](np.random.default_rng((5, seed)), *outer)
        logs = log(outcome[:, None], *inner)
        itself = log(outcome, *outer)
        top = np.maximum(logs.max(1), itself if problem.family == "Poisson" else -np.inf)
        density, itself = np.exp(logs - top[:, None]), itself - top
        # Rates that no other draw is near have a density of their own.
        more, n_more = (np.exp(itself), 1) if problem.family == "Poisson" else (0.0, 0)
        own = itself
        if not is_about_all:
            sums, counts = density @ member[OUTER:], member[OUTER:].sum(0)
            each = (sums * member[:OUTER]).sum(1) + more
            own = np.log(np.maximum(each / (member[:OUTER] @ counts + n_more), 1e-300))
        gains.append(own - np.log((density.sum(1) + more) / (INNER + n_more)))
    return np.transpose(gains), ess


def learner(problem: Problem, y: np.ndarray, seed: int) -> pma.Learner:
    models: Any = {name: problem.pymc(name, problem.start, y) for name in problem.models}
    models = models if len(models) > 1 else models[""]
    settings: Any = {"pool": problem.pool, "observed": "y", "repeat": True, "random_seed": seed}
    return pma.Learner(models, problem.learn, targets=problem.targets, **settings)


def pick(problem: Problem, repeat: int) -> dict:
    y = Truth.of(problem, repeat).answer(problem.start, np.random.default_rng((3, repeat)))
    begin = time.process_time()
    row = int(learner(problem, y, repeat).ask(progressbar=False).index[0])
    seconds = time.process_time() - begin
    gains, ess = information(problem, y, repeat)
    mean = gains.mean(0)
    best = int(mean.argmax())
    error = (gains[:, best] - gains[:, row]).std() / np.sqrt(len(gains)) / mean[best]
    return {
        "pick": row, "best": best, "best_nats": float(mean[best]), "share": float(mean[row] / mean[best]),
        "error": float(error), "median_share": float(np.median(mean) / mean[best]), "effective_draws": ess,
        "first_ask_cpu": seconds,
    }  # fmt: skip


@cache
def process(row: str, name: str) -> Process:
    """Compiled once for all repeats."""
    problem = PROBLEMS[row]
    return Process(problem.pymc(name, problem.start, np.ones(len(problem.start))), "y")


def score(row: str, truth: Truth, X: pd.DataFrame, y: np.ndarray, seed: int) -> dict:
    problem, fits = truth.problem, {}
    for name in problem.models:
        process(row, name).set_data(X, y)
        fits[name] = pma.fit(process(row, name), random_seed=seed, progressbar=False)
    if problem.learn == "model":
        evidence = np.array([fits[name].log_evidence for name in problem.models])
        log = dict(zip(problem.models, evidence - logsumexp(evidence), strict=True))
        return {"nlpd": float(-log[truth.name]), "log_sd": float(0.5 * sum(log.values()))}
    tree, priors = fits[""].to_datatree(draws=512, random_seed=seed), problem.models[""][0]
    draws = {v: tree["posterior"][v].to_numpy().reshape(512, -1) for v in priors}
    pairs = []
    if row == "two sources":
        # Either may be called the first.
        for one in (draws, truth.theta):
            is_later = one["east1"] > one["east2"]
            for a, b in (("east1", "east2"), ("north1", "north2")):
                one[a], one[b] = np.where(is_later, one[b], one[a]), np.where(is_later, one[a], one[b])
    for v in problem.targets or priors:
        change = np.asarray if priors[v][0] == "Normal" else np.log
        pairs += list(zip(change(draws[v]).T, change(truth.theta[v])[0], strict=True))
    nlpd = [-float(gaussian_kde(some).logpdf(value)[0]) for some, value in pairs]
    return {"nlpd": float(np.mean(nlpd)), "log_sd": float(np.mean([np.log(some.std()) for some, _ in pairs]))}


def even(problem: Problem, n: int) -> np.ndarray:
    """Rows at equal distances; of two inputs, each as far from those before as can be."""
    U = np.stack([(v - v.min()) / np.ptp(v) for v in problem.pool.values()], axis=1)
    if U.shape[1] == 1:
        return np.linspace(0, len(U) - 1, n).astype(int)
    rows = [0]
    while len(rows) < n:
        rows.append(int(np.square(U[:, None] - U[rows]).sum(2).min(1).argmax()))
    return np.array(rows)


def run(row: str, method: str, repeat: int, asks: int = ASKS) -> dict:
    problem = PROBLEMS[row]
    truth = Truth.of(problem, repeat)
    y = truth.answer(problem.start, np.random.default_rng((3, repeat)))
    rng, seconds, rows, first = np.random.default_rng((4, repeat)), [], [], {}
    pool = pd.DataFrame(problem.pool)
    if method == "ours":
        begin = time.perf_counter()
        active = learner(problem, y, repeat)
        x = active.ask(progressbar=False)
        first = {"first_ask": time.perf_counter() - begin}
        for _ in range(asks):
            rows.append(int(x.index[0]))
            start = time.process_time()
            active.tell(x, truth.answer(rows[-1:], rng))
            x = active.ask(progressbar=False)
            seconds.append(time.process_time() - start)
        told = active.y
    else:
        rows = list(rng.integers(len(pool), size=asks) if method == "random" else rng.permutation(even(problem, asks)))
        told = np.concatenate([y, truth.answer(rows, rng)])
    of_asks = {"ask_mean": float(np.mean(seconds)), "ask_max": max(seconds)} if seconds else {}
    found = score(row, truth, pool.iloc[[*problem.start, *rows]], told, repeat)
    return found | first | of_asks | {"rows": [int(r) for r in rows]}


def record(row, method, repeat):
    return pick(PROBLEMS[row], repeat) if method == "pick" else run(row, method, repeat)


def of_method(records, row, method) -> dict[int, dict]:
    return {r: found for (name, m, r), found in records.items() if (name, m) == (row, method)}


def picks(records) -> list[dict]:
    table = []
    for row in PROBLEMS:
        found = list(of_method(records, row, "pick").values())
        if found:
            mean = {key: float(np.mean([r[key] for r in found])) for key in ("best_nats", "share", "median_share")}
            least = min(found, key=lambda r: r["share"])
            seconds = [r["first_ask_cpu"] for r in found if "first_ask_cpu" in r]
            table.append({
                "problem": row, "starts": len(found), "best, nats": mean["best_nats"], "share": mean["share"],
                "smallest share": least["share"], "its error": least["error"],
                "share of the median candidate": mean["median_share"], "first ask, CPU s": max(seconds, default=None),
            })  # fmt: skip
    return table


def runs(records) -> list[dict]:
    table = []
    for row in PROBLEMS:
        found = {m: of_method(records, row, m) for m in RUNS}
        shared = sorted(set.intersection(*map(set, found.values())))
        if not shared:
            continue
        line: dict[str, Any] = {"problem": row, "runs": len(shared)}
        for key in ("log_sd", "nlpd"):
            of = {m: np.array([found[m][r][key] for r in shared]) for m in RUNS}
            line |= {f"{key}, {m}": float(of[m].mean()) for m in RUNS}
            for other in RUNS[1:]:
                gap = stated(of["ours"] - of[other])
                line |= {f"{key}, less {other}": gap["mean"], f"{key}, less {other}, se": gap["standard_error"]}
        ours = [found["ours"][r] for r in shared]
        # Of wall seconds beside other work the median.
        line["first ask, s"] = float(np.median([r["first_ask"] for r in ours]))
        line |= {"an ask, CPU s": float(np.mean([r["ask_mean"] for r in ours]))}
        table.append(line | {"longest, CPU s": max(r["ask_max"] for r in ours)})
    return table


def picture(first, second):
    figure, (left, right) = panels(1, 2, figsize=(10, 4))
    y = np.arange(len(first))
    left.errorbar([r["smallest share"] for r in first], y, xerr=[r["its error"] for r in first], fmt="o", color=BLUE)
    left.plot([r["share of the median candidate"] for r in first], y, "|", ms=10, color=GREY)
    left.axvline(0.95, color="0.5", ls="--", lw=1, zorder=0)
    left.set(yticks=y, yticklabels=[r["problem"] for r in first], xlabel="information of the pick over the best")
    y = np.arange(len(second))
    for k, (other, color) in enumerate(zip(RUNS[1:], (ORANGE, GREY), strict=True)):
        gap, error = ([r[f"log_sd, less {other}{more}"] for r in second] for more in ("", ", se"))
        right.errorbar(gap, y + 0.15 * k, xerr=error, fmt="o", color=color, label=f"less {other}")
    right.axvline(0, color="0.5", ls="--", lw=1, zorder=0)
    right.set(yticks=y, yticklabels=[r["problem"] for r in second], xlabel="log sd after 20 asks")
    right.set_xscale("symlog", linthresh=1)
    right.legend()
    return figure


def report(records):
    first, second = picks(records), runs(records)
    table_of(first)
    table_of([{k: v for k, v in r.items() if "nlpd" not in k} for r in second])
    table_of([{k: v for k, v in r.items() if k == "problem" or "nlpd" in k} for r in second])
    targets = [target(f"{r['problem']}: information of the pick over the best", r["share"], ">=", 0.95) for r in first]
    if second:
        for what, key, limit in (("first ask", "first ask, s", 20), ("an ask, mean", "an ask, CPU s", 1)):
            targets.append(target(f"{what}, s, slowest problem", max(r[key] for r in second), "<", limit))
        targets += [
            target(f"{r['problem']}: first ask, CPU s", r["first ask, CPU s"], "<", 20)
            for r in first
            if r["problem"] not in {one["problem"] for one in second}
        ]
        worst = max(r["log_sd, less random"] for r in second)
        targets.append(target("log sd less that of random rows, worst problem", worst, "<", 0))
    return {"pick": first, "run": second}, picture(first, second), targets


if __name__ == "__main__":
    cheap = "psychometric"
    small: dict = {(cheap, method, 0): partial(run, cheap, method, 0, 2) for method in RUNS}
    small[cheap, "pick", 0] = partial(record, cheap, "pick", 0)
    # The slowest at last.
    keys = sorted(every(PROBLEMS, ("pick", *RUNS), REPEATS), key=lambda key: key[0] == "epidemic")
    keys = [key for key in keys if key[1] != "pick" or key[2] < PICKS]
    main(__doc__, keys, record, report, small)
