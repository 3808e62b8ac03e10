"""How fast is PES with its places of the maximum given, against BoTorch's qPES with the same ones?

    python benchmarks/pes_peers.py --install     # once: an environment for BoTorch beside this file
    python benchmarks/pes_speed.py               # about 10 minutes
    python benchmarks/pes_speed.py --smallest    # two inputs, 10 points, and no truth

Points are uniform in the unit cube, outputs from a GP with an ExpQuad kernel, output variance 1, noise variance 1e-6
and squared lengthscales 0.1 (two inputs) or 0.5 (six), all known. Fifty maximisers of our sample paths are given to
both. Ours: factorise the data covariance, expectation propagation, values at 1,000 candidates. BoTorch: build
``qPredictiveEntropySearch`` with its default settings, values at the same candidates without gradients. Times are CPU
seconds of one thread in a warm process, medians; ours from 7 repeats, BoTorch's from 3.

*Whole ask*: the hyperparameters given, sample paths, their maximisers, expectation propagation and the search over
the box (``pma.active.pes(gpm, bounds=..., point=...)``); BoTorch's is ``get_optimal_samples`` and ``optimize_acqf``
by finite differences from the best 2 of 256 points, as its documentation advises, once.

Accuracy, two inputs: Spearman correlation with rejection sampling (``pes_ground_truth``, 60,000 draws on a grid of 40
x 40, the same x*), and of both with each other at the 1,000 candidates.

Targets: 25 times faster with two inputs, 8 times with six; a whole ask below 0.5 s with two inputs and 50 points.
"""

import time
from itertools import product

import _one_thread  # noqa: F401
import numpy as np
from _pes_ground_truth import pes_ground_truth
from _report import BLUE, ORANGE, panels, parser, quartiles, show, table_of, target, write
from pes_peers import Peer, is_installed
from scipy.stats import spearmanr

import pymc_active as pma
from pymc_active.criteria.maximum.base import OptimizedPaths
from pymc_active.criteria.maximum.constraints import GPGivenMaxima
from pymc_active.criteria.maximum.domain import Domain
from pymc_active.criteria.maximum.pes import Pes, PlaceInformation
from pymc_active.posterior.conditioned import ConditionedGP
from pymc_active.support.threads import one_blas_thread

NOISE = 1e-3
LENGTHSCALES = {2: np.sqrt(0.1), 6: np.sqrt(0.5)}
SIZES = (10, 30, 50)
N_OPTIMA, N_CANDIDATES, GRID, DRAWS = 50, 1000, 40, 60_000
REPEATS, PEER_REPEATS, ASKS = 7, 3, 9
POINT = {"log_noise": np.log(NOISE)}
SPEED_UP = {2: 25, 6: 8}


def draw(D: int, n: int) -> tuple[np.ndarray, np.ndarray, pma.GPModel]:
    rng = np.random.default_rng((D, n))
    X = rng.uniform(size=(n, D))
    K = np.exp(-0.5 * np.square(X[:, None] - X).sum(-1) / LENGTHSCALES[D] ** 2)
    y = np.linalg.cholesky(K + NOISE**2 * np.eye(n)) @ rng.normal(size=n)
    return X, y, pma.ard_gp(X, y, priors={"log_lengthscale": np.log(LENGTHSCALES[D]), "log_outputscale": 0.0})


def build_and_score(optima: OptimizedPaths, candidates: np.ndarray) -> np.ndarray:
    """From the places of the maximum to values."""
    with one_blas_thread():
        gp = ConditionedGP(optima.gp.posterior, optima.gp.theta)
        return PlaceInformation(GPGivenMaxima(gp, optima.maxima, best=float(gp.y.max())))(candidates, False)[0]


def cpu_seconds(function, repeats: int) -> list[float]:
    function()
    seconds = []
    for _ in range(repeats):
        start = time.process_time()
        function()
        seconds.append(time.process_time() - start)
    return seconds


def run(D: int, n: int, peer: Peer | None, with_truth: bool) -> dict:
    X, y, gpm = draw(D, n)
    criterion = Pes(Domain(np.zeros(D), np.ones(D)), n_optima=N_OPTIMA, random_seed=0)
    [optima] = criterion.prepare(POINT, model=gpm).optima
    candidates = np.random.default_rng(1).uniform(size=(N_CANDIDATES, D))
    ours = build_and_score(optima, candidates)
    given = {
        **{"X": X.tolist(), "y": y.tolist(), "lengthscale": float(LENGTHSCALES[D]), "outputscale": 1.0, "noise": NOISE},
        **{"places": optima.maxima.X.tolist(), "heights": optima.maxima.values.tolist(), "methods": ["qPES"]},
    }

    def ask() -> None:
        seeds.append(len(seeds))
        pma.active.pes(gpm, bounds=[(0.0, 1.0)] * D, point=POINT, n_optima=N_OPTIMA, random_seed=seeds[-1])

    seeds: list[int] = []
    result = {
        "ours": quartiles(cpu_seconds(lambda: build_and_score(optima, candidates), REPEATS)),
        "ask": quartiles(cpu_seconds(ask, ASKS)),
        "on_boundary": float((~optima.maxima.free).any(1).mean()),
    }
    if peer is None:
        return result
    theirs = peer("score", candidates=candidates.tolist(), repeats=PEER_REPEATS, **given)["qPES"]
    if "error" in theirs:
        return result | {"botorch_error": theirs["error"]}
    values = np.array(theirs["values"])
    seconds = np.add(theirs["build_seconds"], theirs["score_seconds"])
    asked = peer("ask", method="qPES", n_optima=N_OPTIMA, seed=0, **given)
    result |= {
        "botorch": quartiles(seconds.tolist()),
        "botorch_build": quartiles(theirs["build_seconds"]),
        "ratio": float(np.median(seconds) / result["ours"]["median"]),
        "spearman_with_each_other": float(spearmanr(ours, values)[0]),
        "botorch_ask_seconds": asked.get("seconds"),
    }
    if D == 2 and with_truth:
        truth = pes_ground_truth(gpm, bounds=[(0.0, 1.0)] * 2, point=POINT, n_grid=GRID, draws=DRAWS, random_seed=2)
        cells = truth.x.to_numpy()
        there = peer("score", candidates=cells.tolist(), **given)["qPES"]["values"]
        result["spearman_with_truth"] = {
            "ours": float(spearmanr(build_and_score(optima, cells), truth.information)[0]),
            "botorch": float(spearmanr(there, truth.information)[0]),
            "coverage": truth.coverage,
        }
    return result


def plot(results: dict):
    figure, axes = panels(1, 2, figsize=(9, 3.4), sharey=True)
    for ax, D in zip(axes, LENGTHSCALES, strict=True):
        for key, label, color, style in (
            ("botorch", "BoTorch qPES, x* given", ORANGE, "o-"),
            ("ours", "ours, x* given", BLUE, "o-"),
            ("ask", "ours, whole ask", BLUE, "s--"),
        ):
            rows = {n: results.get(f"d = {D}, n = {n}", {}) for n in SIZES}
            found = {n: row[key]["median"] for n, row in rows.items() if key in row}
            ax.plot(list(found), list(found.values()), style, color=color, label=label)
        ax.set(yscale="log", xlabel="points", title=f"{D} inputs")
    axes[0].set_ylabel("CPU seconds")
    axes[0].legend(fontsize=8)
    return figure


def main() -> None:
    command = parser(__doc__)
    arguments = command.parse_args()
    peer = Peer() if is_installed() else None
    if peer is None:
        missing = "BoTorch has no environment yet (python benchmarks/pes_peers.py --install)"
        if not arguments.smallest:
            command.error(missing)
        print(f"{missing}: left out")
    cases = [(2, 10)] if arguments.smallest else list(product(LENGTHSCALES, SIZES))
    results, rows, targets = {}, [], []
    for D, n in cases:
        name = f"d = {D}, n = {n}"
        results[name] = row = run(D, n, peer, not arguments.smallest)
        times = {key: show(row[key]) if key in row else row.get("botorch_error") for key in ("ours", "botorch", "ask")}
        others = ("ratio", "botorch_ask_seconds", "spearman_with_each_other")
        rows.append({"": name, **times, **{key: row.get(key) for key in others}})
        rows[-1] |= {f"with truth: {key}": value for key, value in row.get("spearman_with_truth", {}).items()}
        if "ratio" in row:
            targets.append(target(f"{name}: times faster, x* given", row["ratio"], ">=", SPEED_UP[D]))
        if (D, n) == (2, 50):
            targets.append(target(f"{name}: whole ask, CPU s", row["ask"]["median"], "<", 0.5))
        table_of(rows[-1:])
    write(
        __doc__,
        quick=arguments.smallest,
        threads="one",
        targets=targets,
        results={"botorch": peer and peer("versions"), "cases": results},
        figure=plot(results),
    )
    if peer:
        peer.close()


if __name__ == "__main__":
    main()
