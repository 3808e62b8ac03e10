"""One optimisation with hyperparameters to be learned, and the functions of figure 3."""

from __future__ import annotations

import time
import warnings
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pymc as pm
from _problems import BRANIN_BOUNDS, BRANIN_MINIMUM, branin, cosines, hartmann6
from _runs import NOT_A_LEARNERS, PEERS, SCREEN, peer

import pymc_active as pma
from pymc_active.criteria.improvement import ExpectedImprovement
from pymc_active.criteria.maximum.entropy_search import EntropySearch

LOOP_METHODS = ("pes", "pes_nb", "ei", "ei_10", "es", "LogEI")
N_START, DRAWS = 3, 10
SEED = 2014


class Problem(NamedTuple):
    """A function on the unit cube to be maximised.

    Attributes
    ----------
    function : callable
        (m, D) to (m,), without noise.
    D : int
    maximum : float
    mean, sd : float
        Of the function over the cube, by which the model's outputs are shifted and scaled.
    noise : float
        Standard deviation.
    n_asks, every : int
        Asks after the start, and how many between two recommendations.
    """

    function: Callable[[np.ndarray], np.ndarray]
    D: int
    maximum: float
    mean: float
    sd: float
    noise: float
    n_asks: int
    every: int


def negative_branin(Z: np.ndarray) -> np.ndarray:
    low, high = np.array(BRANIN_BOUNDS).T
    return -branin(low + (high - low) * Z)


def negative_hartmann6(Z: np.ndarray) -> np.ndarray:
    return -hartmann6(Z)


_NOISE = np.sqrt(1e-3)
FUNCTIONS = {
    "branin": Problem(negative_branin, 2, -BRANIN_MINIMUM, -54.3, 51.3, _NOISE, 40, 4),
    "cosines": Problem(cosines, 2, 1.6, 0.32, 0.62, _NOISE, 40, 4),
    "hartmann6": Problem(negative_hartmann6, 6, 3.322368011415515, 0.26, 0.39, _NOISE, 60, 6),
}


def priors(D: int) -> dict[str, Any]:
    """Broad ones for inputs in the unit cube and outputs of mean 0 and sd 1."""
    return {
        "mean_constant": pm.Normal.dist(0.0, 1.0),
        "log_outputscale": pm.Normal.dist(0.0, 1.0),
        "log_lengthscale": pm.Normal.dist(np.log(0.3 * np.sqrt(D / 2)), 1.0),
        "log_noise": pm.Normal.dist(np.log(0.01), 1.5),
    }


def run_loop(problem: Problem, method: str, repeat: int) -> dict[str, Any]:
    """Regrets of the recommendations, one every few asks."""
    bounds = [(0.0, 1.0)] * problem.D
    X = pma.active.latin_hypercube(bounds, N_START, random_seed=repeat)
    # Drawn at once, so that all methods meet the same noise.
    noise = problem.noise * np.random.default_rng((SEED, repeat)).normal(size=N_START + problem.n_asks)
    y = problem.function(X) + noise[:N_START]
    scale = {"x_scale": None, "y_scale": (problem.mean, problem.sd)}
    gpm = pma.ard_gp(X, y, kernel="ExpQuad", mean="constant", priors=priors(problem.D), **scale)
    learner = pma.Learner(
        gpm, "maximum", bounds=bounds, criterion=_criterion(method, repeat), inference="auto", random_seed=repeat
    )
    regret, evaluations, asking = [], [], 0.0
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for n in range(problem.n_asks + 1):
            if n % problem.every == 0:
                x = np.asarray(learner.recommend())
                regret.append(problem.maximum - float(problem.function(x)[0]))
                evaluations.append(N_START + n)
            if n == problem.n_asks:
                break
            start = time.perf_counter()
            x = _ask(learner, method, problem, repeat)
            asking += time.perf_counter() - start
            learner.tell(x, problem.function(x) + noise[N_START + n])
    return {
        "regret": [float(f"{r:.3e}") for r in regret],
        "evaluations": evaluations,
        "ask_seconds": round(asking / problem.n_asks, 3),
        "warnings": dict(Counter(str(w.message)[:80] for w in caught)),
    }


def _criterion(method: str, repeat: int) -> Any:
    """What the Learner is told; BoTorch and ES choose without it."""
    if method == "ei_10":
        return ExpectedImprovement(method="draws", draws=DRAWS, random_seed=repeat)
    return (
        NOT_A_LEARNERS
        if method in (*PEERS, "es")
        else {"pes_nb": partial(pma.active.pes, method="map"), "ei": "expected_improvement"}.get(method, method)
    )


def _ask(learner: pma.active.Learner, method: str, problem: Problem, repeat: int) -> np.ndarray:
    n = len(learner.y)
    if method in PEERS:
        y = (learner.y - problem.mean) / problem.sd
        answer = peer("ask", method=method, seed=1000 * repeat + n, X=learner.X.tolist(), y=y.tolist())
        if "x" not in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return np.array([answer["x"]])
    if method == "es":
        X = np.random.default_rng((SEED, repeat, n)).uniform(size=(SCREEN, problem.D))
        criterion = EntropySearch(learner.domain, method="map", random_seed=repeat)
        return X[[np.argmax(criterion.prepare(learner.fit).score(X))]]
    return np.asarray(learner.ask())
