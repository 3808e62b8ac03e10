"""What the figures of the PES paper share: methods by name, the known model, regrets and their bands."""

from __future__ import annotations

import atexit
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from _methods import METHODS as METHODS
from _methods import PEERS as PEERS
from _report import table
from pes_peers import Peer

import pymc_active as pma
from pymc_active.criteria.improvement import ExpectedImprovement, UpperConfidenceBound
from pymc_active.criteria.maximize import maximize
from pymc_active.learner.candidates import Box
from pymc_active.support.user_warnings import DoubtfulFitWarning, ignoring

# A criterion of the Learner for those that choose without it.
NOT_A_LEARNERS = "random"
# The model of figures 1 and 2: standard deviations, and one lengthscale for both inputs.
LENGTHSCALE, OUTPUTSCALE, NOISE = np.sqrt(0.1), 1.0, 1e-3
POINT = {"log_noise": np.log(NOISE)}
# Candidates that entropy search, which has no gradient, chooses from.
SCREEN = 400
BOOTSTRAPS = 2000
# Of a distribution: what plus and minus one standard deviation are for a normal one.
CENTRAL = (0.16, 0.84)

peer = Peer()
atexit.register(peer.close)


def kernel(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Prior covariances of the known model, (n, m)."""
    return OUTPUTSCALE**2 * np.exp(-0.5 * np.square(A[:, None] - B).sum(-1) / LENGTHSCALE**2)


def known_gpm(X: np.ndarray, y: np.ndarray) -> pma.GPModel:
    """Its hyperparameters are known; the noise is free in the model and given by ``POINT``."""
    fixed = {"log_lengthscale": np.log(LENGTHSCALE), "log_outputscale": np.log(OUTPUTSCALE)}
    return pma.ard_gp(X, y, kernel="ExpQuad", priors=fixed)


def known_arguments(X: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    """The same for BoTorch."""
    return {
        **{"X": X.tolist(), "y": y.tolist()},
        **{"lengthscale": float(LENGTHSCALE), "outputscale": OUTPUTSCALE, "noise": NOISE},
    }


def ask_known(method: str, gpm: pma.GPModel, n_optima: int, seed: int) -> np.ndarray:
    """The next point (2,) in the unit square, hyperparameters known."""
    bounds = [(0.0, 1.0)] * 2
    functions: dict[str, Callable] = {
        "pes": pma.active.pes,
        "jes": pma.active.joint_entropy_search,
        "mes": pma.active.max_value_entropy,
    }
    keywords = {"model": gpm, "bounds": bounds, "random_seed": seed}
    if method in PEERS:
        answer = peer("ask", method=method, seed=seed, **known_arguments(gpm.X, gpm.y))
        if "x" not in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return np.array(answer["x"])
    if method == "random":
        return np.random.default_rng((seed, len(gpm.y))).uniform(size=2)
    if method == "ei":
        scorer = ExpectedImprovement(method="map").prepare(fit_known(gpm))
        return maximize(scorer, *np.array(bounds).T, np.random.default_rng(seed)).X[0]
    if method == "es":
        X = np.random.default_rng((seed, len(gpm.y))).uniform(size=(SCREEN, 2))
        return X[np.argmax(pma.active.entropy_search(POINT, X, **keywords).to_numpy())]
    if method == "thompson":
        found = pma.active.thompson(POINT, **keywords)
    else:
        found = functions[method](POINT, n_optima=n_optima, **keywords)
    return np.array([found.x0[0], found.x1[0]])


def fit_known(gpm: pma.GPModel) -> pma.LaplaceFit:
    """A fit that stays at the known point, whose mode it is not."""
    with ignoring(DoubtfulFitWarning):
        return pma.fit_laplace(gpm, point=POINT, optimize=False)


def best_mean(fit: Any, D: int, method: str) -> np.ndarray:
    """Where in the unit cube the posterior mean is largest, (D,), found by the same search as ``Learner.recommend``."""
    mean = UpperConfidenceBound(0.0, method=method, draws=32, random_seed=0)
    return Box([(0.0, 1.0)] * D, range(D), False).maximum(mean.prepare(fit)).x


def regret_summary(regrets: np.ndarray, seed: int = 0) -> dict[str, Any]:
    """Decimal logarithm of the median regret (functions, steps), and the central 68 % of its bootstrap distribution.

    Its standard deviation would be that of the few samples in which the median is a regret of 0.
    """
    logs = np.log10(np.maximum(regrets, 1e-16))
    rows = np.random.default_rng(seed).integers(len(logs), size=(BOOTSTRAPS, len(logs)))
    lower, upper = np.quantile(np.median(logs[rows], axis=1), CENTRAL, axis=0)
    return {
        "median": np.median(logs, axis=0).tolist(),
        "lower": lower.tolist(),
        "upper": upper.tolist(),
        "lower_quartile": np.quantile(logs, 0.25, axis=0).tolist(),
        "upper_quartile": np.quantile(logs, 0.75, axis=0).tolist(),
        "repeats": len(logs),
    }


def paired(a: np.ndarray, b: np.ndarray, seed: int = 0) -> dict[str, float]:
    """How much lower the first of two sets of final regrets on the same functions is.

    ``decades``: difference of the medians of log10 regret; ``standard_error``: half of the central 68 % of its
    bootstrap distribution over functions;
    ``p_value``: Wilcoxon's signed ranks, two-sided; ``wins``: share of functions where the first is lower.
    """
    from scipy.stats import wilcoxon

    A, B = (np.log10(np.maximum(regrets, 1e-16)) for regrets in (a, b))
    rows = np.random.default_rng(seed).integers(len(A), size=(BOOTSTRAPS, len(A)))
    differences = np.median(A[rows], axis=1) - np.median(B[rows], axis=1)
    return {
        "decades": float(np.median(A) - np.median(B)),
        "standard_error": float(np.ptp(np.quantile(differences, CENTRAL)) / 2),
        "p_value": float(wilcoxon(A, B).pvalue) if (A != B).any() else 1.0,
        "wins": float((A < B).mean()),
        "functions": len(A),
    }


def regrets(records: dict, row: str, methods: Iterable[str], *seconds: str) -> dict[str, Any]:
    """Of the functions of one row: the regrets of each method, and how much lower they are than EI's at the end."""
    cell: dict = {"methods": {}, "against_ei": {}}
    for method in methods:
        runs = {repeat: run for (name, m, repeat), run in records.items() if (name, m) == (row, method)}
        if not runs:
            continue
        medians = {key: float(np.median([run[key] for run in runs.values()])) for key in seconds}
        cell["methods"][method] = regret_summary(np.array([run["regret"] for run in runs.values()])) | medians
        shared = [repeat for repeat in runs if (row, "ei", repeat) in records]
        if method != "ei" and len(shared) > 1:
            final = [np.array([records[row, m, repeat]["regret"][-1] for repeat in shared]) for m in (method, "ei")]
            cell["against_ei"][method] = paired(*final)
    return cell


def print_regrets(cell: dict[str, Any]) -> None:
    """The methods of :func:`regrets`, the best first."""
    rows = []
    for method, regret in sorted(cell["methods"].items(), key=lambda pair: pair[1]["median"][-1]):
        median, spread = regret["median"], (regret["upper"][-1] - regret["lower"][-1]) / 2
        quartiles = f"{regret['lower_quartile'][-1]:.2f} to {regret['upper_quartile'][-1]:.2f}"
        less = ""
        if versus := cell["against_ei"].get(method):
            less = f"{versus['decades']:+.2f} ± {versus['standard_error']:.2f}, p {versus['p_value']:.2g}"
        at = f"{median[len(median) // 2]:.2f}", f"{median[-1]:.2f} ± {spread:.2f}"
        rows.append([METHODS[method][0], regret["repeats"], *at, quartiles, less])
    table(("method", "functions", "half way", "at the end", "quartiles", "less EI"), rows)


def plot_regret(ax: Any, steps: Any, summary: dict[str, dict], *, title: str) -> None:
    """Medians and bands of each method."""
    for method, cell in summary.items():
        label, colour = METHODS[method]
        ax.plot(steps, cell["median"], "--" if method in PEERS else "-", color=colour, lw=1.5, label=label)
        ax.fill_between(steps, cell["lower"], cell["upper"], color=colour, alpha=0.13, lw=0)
    ax.set_title(title, fontsize=9)
    ax.set_xlabel("evaluations")
