"""What the experiments of the HDS paper share: methods by name, one trial of each, and the noise."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from _problems import BRANIN_BOUNDS, HiddenProblem, branin, gp_draw, hidden
from _report import stated

import pymc_active as pma

# Label and colour.
METHODS = {
    "gpt": ("GPT", "#0072B2"),
    "fdt": ("FDT", "#E69F00"),
    "gpt_sure": ("GPT, offset and retest", "#56B4E9"),
    "cws": ("CWS, clairvoyant", "#D55E00"),
    "ard": ("ARD screening", "#CC79A7"),
    "lasso": ("lasso", "#999999"),
}
# Of the paper's functions: b on [-1, 1], σ_s², σ², and the thresholds that it found best.
SCALES = {"bandwidth": 0.1, "signal_variance": 1.0, "noise_variance": 0.1}
THRESHOLDS = {"accept": 5.0, "reject": -10.0}
SETTINGS: dict[str, dict[str, Any]] = {
    "gpt": {"test": "gpt", **THRESHOLDS},
    "fdt": {"test": "fdt", **THRESHOLDS},
    "gpt_sure": {"test": "gpt", "accept": 10.0, "reject": -10.0, "offset_variance": 10.0, "retest": True},
}
# Trials in one record.
BLOCK = 20
# Evaluations of CWS along each input at most, where no budget says otherwise.
MOST_PAIRS = 60
# Of its pairs, as FDT's: 3b.
DISTANCE = 0.3


def gp_problem(D: int, d: int, bandwidth: float, rng: np.random.Generator) -> HiddenProblem:
    """A draw of a GP on d random inputs out of D."""
    active = sorted(rng.choice(D, d, replace=False).tolist())
    return hidden(gp_draw(d, bandwidth, random_seed=rng), [(-1.0, 1.0)] * d, D, active)


def hidden_branin(D: int, rng: np.random.Generator) -> HiddenProblem:
    return hidden(branin, BRANIN_BOUNDS, D, sorted(rng.choice(D, 2, replace=False).tolist()))


def noisy(function: Callable, noise_variance: float, rng: np.random.Generator) -> Callable:
    return lambda X: function(X) + rng.normal(0, np.sqrt(noise_variance), len(X))


def run_hds(problem: HiddenProblem, method: str, noise_variance: float, seed: Any, /, **told: Any) -> dict[str, Any]:
    """One search, told the truth but for ``told``: whether exactly the active inputs were found, and what it cost."""
    rng = np.random.default_rng(seed)
    f, D = noisy(problem.function, noise_variance, rng), len(problem.bounds)
    budget = told.pop("budget", 2000)
    start = time.process_time()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        # The test by itself: the last check, a search of its own, is measured in outside/screening.py.
        keywords = SCALES | {"noise_variance": noise_variance} | SETTINGS[method] | told
        result = pma.active.hds(f, D, budget=budget, random_seed=rng, **keywords)
    return {
        "right": result.active == problem.active,
        "evaluations": result.n_evaluations,
        "found": len(set(result.active) & set(problem.active)),
        "false": len(set(result.active) - set(problem.active)),
        "undecided": len(result.undecided),
        "warned": len(caught) > 0,
        "seconds": round(time.process_time() - start, 3),
    }


def run_cws(problem: HiddenProblem, noise_variance: float, seed: Any, budget: float = np.inf) -> dict[str, Any]:
    """Pairs are added along every input until the d largest mean squared differences are those of the active ones."""
    D, d = len(problem.bounds), len(problem.active)
    rng = np.random.default_rng(seed)
    background = rng.uniform(-1, 1, D)
    square = np.zeros(D)
    n_pairs = 0
    while 2 * D * (n_pairs + 1) <= budget and n_pairs < MOST_PAIRS:
        X = np.tile(background, (2 * D, 1))
        at = rng.uniform(-1, 1 - DISTANCE, D)
        X[np.arange(0, 2 * D, 2), np.arange(D)] = at
        X[np.arange(1, 2 * D, 2), np.arange(D)] = at + DISTANCE
        y = problem.function(X) + rng.normal(0, np.sqrt(noise_variance), 2 * D)
        square += np.square(y[::2] - y[1::2])
        n_pairs += 1
        if sorted(np.argsort(-square, kind="stable")[:d].tolist()) == problem.active:
            return {"right": True, "evaluations": 2 * D * n_pairs}
    return {"right": False, "evaluations": 2 * D * n_pairs}


def block(trials: Iterable[dict[str, Any]]) -> dict[str, list]:
    """Trials of one record, as columns."""
    rows = list(trials)
    return {name: [row[name] for row in rows] for name in rows[0]}


def accuracy(right: Any) -> dict[str, float]:
    """Share of successes, with a 95 % interval of Clopper and Pearson."""
    from scipy.stats import binomtest

    found = binomtest(int(np.sum(right)), len(right))
    low, high = found.proportion_ci(0.95)
    return {"mean": float(found.statistic), "low": float(low), "high": float(high), "n": len(right)}


def gather(records: dict, row: str, method: str) -> dict[str, list] | None:
    """All trials of a cell, blocks put together; None if there are none."""
    blocks = [records[key] for key in sorted(records) if key[:2] == (row, method)]
    if not blocks:
        return None
    columns = [name for name, value in blocks[0].items() if isinstance(value, list)]
    return {name: [value for b in blocks for value in b[name]] for name in columns}


def cell(trials: dict[str, list]) -> dict[str, Any]:
    """Accuracy and evaluations of one method in one setting; of searches, how often they warn or are silently wrong."""
    summary = {"accuracy": accuracy(trials["right"]), "evaluations": stated(trials["evaluations"])}
    if "warned" not in trials:
        return summary
    said = zip(trials["right"], trials["warned"], trials["undecided"], strict=True)
    silent = [not (right or warned or undecided) for right, warned, undecided in said]
    return summary | {"warned": float(np.mean(trials["warned"])), "wrong_without_warning": float(np.mean(silent))}


def plus_minus(cell: dict[str, float], form: str = ".0f") -> str:
    """Mean ± three standard errors, as the paper has them."""
    return f"{cell['mean']:{form}} ± {3 * cell['standard_error']:{form}}"
