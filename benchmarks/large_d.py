"""Embeddings of very many inputs.

How do time and memory grow with the number of inputs D?

    python benchmarks/large_d.py              # 6 minutes
    python benchmarks/large_d.py --smallest   # the smallest cases, without the search for a mode

Two components, n = 100, 10,000 candidates for D = 100, 1,000 and 10,000, and 1,000 candidates for D = 10,000 and
50,000. D = 2,500 is the largest D for which matrices over all 2 D entries of R are still stored. Inputs are what
spectra are: ten factors with random loadings, and a little noise of its own in each input. The function is one draw
of a GP on two directions of the factors, the same for every D; it is seen with noise of sd 0.1. ``log_noise`` and
``log_outputscale`` are fixed at the truth.

Each case is a process of its own on one thread. *Fit* is ``fit_laplace`` with its defaults (12 starts of the noise
ladder, a population of 64); it searches in the row space of X, whose size is n + 1 if D is larger. The *D-dependent
part* is everything else: the model, ``fit_laplace`` at a given point (row space by QR, one expansion, its report),
BALD of the pool, MGP predictions of the pool, and 100 draws by ``to_datatree``; medians. Slopes are in log-log.
Memory is the peak of the process less that of a process which has done all of this for 20 inputs and 200 candidates;
X and the pool are part of it. At D = 300 everything is compared with the dense expansion in all 600 parameters.

Targets: slopes of the D-dependent part at most 1.1; memory at most 4 times that of X and pool; differences below
1e-8 (relative to the largest entry; nats for the evidence and BALD).
"""

from __future__ import annotations

import json
import time
import warnings

import _report

N, COMPONENTS, FACTORS, NOISE, OWN_NOISE = 100, 2, 10, 0.1, 0.05
# (D, candidates, whether the mode is searched for); without the search the mode is climbed to from the truth.
CASES = (
    (100, 10_000, True),
    (1000, 10_000, True),
    (2500, 10_000, False),
    (10_000, 10_000, True),
    (10_000, 1000, False),
    (50_000, 1000, True),
)
SMALLEST = ((100, 1000, False), (200, 1000, False))
# Not from 1,000 to 10,000, whose dense covariance would hide the growth.
STEPS = (
    ((100, 10_000), (1000, 10_000)),
    ((1000, 10_000), (2500, 10_000)),
    ((100, 10_000), (10_000, 10_000)),
    ((10_000, 1000), (50_000, 1000)),
)
PARTS = ("model", "expansion", "BALD", "predict", "draws")
N_TEST, D_DENSE = 500, 300
LARGEST_SLOPE, LARGEST_MEMORY, LARGEST_DIFFERENCE = 1.1, 4, 1e-8


def make_data(D: int, n_candidates: int):
    """X (n, D), y (n,), the pool (m, D), the true R (d, D), and f at the first rows of the pool."""
    import numpy as np

    # What does not depend on D has a generator of its own, so that the problem behind the inputs stays the same.
    hidden, rng = np.random.default_rng(1), np.random.default_rng([2, D])
    loadings = np.linalg.qr(rng.normal(size=(D, FACTORS)))[0].T * np.sqrt(D / FACTORS)
    B = hidden.normal(0, 1.25 * np.sqrt(3 / FACTORS), size=(COMPONENTS, FACTORS))
    R = B @ loadings * (FACTORS / D)
    Z = hidden.uniform(-1, 1, size=(N + N_TEST, FACTORS))
    innovations = hidden.normal(size=N + N_TEST)
    errors = NOISE * hidden.normal(size=N)
    Z = np.concatenate([Z, rng.uniform(-1, 1, size=(n_candidates - N_TEST, FACTORS))])

    def inputs(Z):
        X = Z @ loadings
        for row in X:
            row += OWN_NOISE * rng.normal(size=D)
        return X

    X, pool = inputs(Z[:N]), inputs(Z[N:])
    U = np.concatenate([X, pool[:N_TEST]]) @ R.T
    K = np.exp(-0.5 * np.square(U[:, None] - U).sum(-1))
    f = np.linalg.cholesky(K + 1e-9 * np.eye(len(K))) @ innovations
    return X, f[:N] + errors, pool, R, f[N:]


def make_model(X, y):
    import numpy as np

    import pymc_active as pma

    return pma.embedding_gp(X, y, n_components=COMPONENTS, priors={"log_noise": np.log(NOISE), "log_outputscale": 0.0})


def run_case(D: int, n_candidates: int, search: bool, rounds: int) -> dict:
    import numpy as np

    import pymc_active as pma

    warnings.simplefilter("ignore", UserWarning)
    given: dict = {}
    seconds: dict[str, list[float]] = {}
    peaks: dict[str, int] = {}

    def clock(name: str, call):
        start = time.perf_counter()
        result = call()
        seconds.setdefault(name, []).append(time.perf_counter() - start)
        peaks.setdefault(name, _report.peak_memory())
        return result

    def d_dependent(X, y, pool, point=None, R=None):
        gpm = clock("model", lambda: make_model(X, y))
        if point is None:
            climbed = pma.fit_laplace(
                gpm, start={"R": R, "log_lengthscale": 0.0}, n_restarts=0, population=0, progressbar=False
            )
            given["climbed"] = climbed.log_posterior
            point = climbed.point
            if search:
                fit = clock("fit", lambda: pma.fit_laplace(gpm, random_seed=1, progressbar=False))
                given.update(log_posterior=fit.log_posterior, n_evaluations=fit.diagnostics["n_evaluations"])
                point = fit.point
        fit = clock("expansion", lambda: pma.fit_laplace(gpm, point=point, optimize=False))
        bald = clock("BALD", lambda: pma.active.bald(fit, pool))
        prediction = clock("predict", lambda: pma.predict(fit, pool))
        draws = clock("draws", lambda: fit.to_datatree(draws=100, random_seed=1))
        if not (np.isfinite(bald).all() and np.isfinite(draws["posterior"]["R"]).all()):
            raise RuntimeError(f"D = {D}: BALD or the draws are not finite")
        return point, prediction

    X, y, pool, R, _ = make_data(20, N_TEST)
    d_dependent(X, y, pool[:200], R=R)
    seconds.clear()
    peaks.clear()
    baseline = _report.peak_memory()
    X, y, pool, R, f = make_data(D, n_candidates)
    peaks["X and pool"] = _report.peak_memory()
    point, prediction = d_dependent(X, y, pool, R=R)
    for _ in range(rounds - 1):
        d_dependent(X, y, pool, point=point)
    size = X.nbytes + pool.nbytes
    error = prediction["f_mean"].to_numpy()[:N_TEST] - f
    medians = {name: _report.quartiles(values) for name, values in seconds.items()}
    return {
        "D": D,
        "candidates": n_candidates,
        "searched": search,
        "seconds": medians,
        "d_dependent_seconds": sum(medians[name]["median"] for name in PARTS),
        "rmse_over_sd_of_f": float(np.sqrt(np.mean(error**2)) / f.std()),
        **given,
        "X_and_pool_bytes": size,
        "baseline_bytes": baseline,
        "peak_bytes_after": peaks,
        "memory_over_X_and_pool": (max(peaks.values()) - baseline) / size,
    }


def run_agreement() -> dict:
    """Differences between the row space and the dense route."""
    import numpy as np

    import pymc_active as pma
    from pymc_active.laplace.expansion import Expansion
    from pymc_active.posterior.full_space import FullSpace
    from pymc_active.posterior.row_space import RowSpace
    from pymc_active.predictions.moments import marginal_moments

    X, y, pool, R, _ = make_data(D_DENSE, N_TEST)
    gpm = make_model(X, y)
    fit = pma.fit_laplace(gpm, start={"R": R, "log_lengthscale": 0.0}, n_restarts=0, population=0, progressbar=False)
    space = fit.best.space
    if not isinstance(space, RowSpace):
        raise RuntimeError("no row space is used: there is nothing to compare")
    dense = Expansion(FullSpace(gpm.posterior(), gpm.embedding_slice), fit.theta)
    # The Hessian in the row space, from the dense one by the chain rule; the last input there has no data.
    inside = np.ones(space.shape, bool)
    inside[:, -1] = False
    inside = np.flatnonzero(inside)
    J = (space.lift(np.eye(len(fit.best.z))) - space.lift(np.zeros(len(fit.best.z))))[inside].T

    def relative(ours, theirs) -> float:
        return float(np.abs(ours - theirs).max() / np.abs(theirs).max())

    ours, theirs = marginal_moments(fit.best, pool), marginal_moments(dense, pool)
    bald = [0.5 * np.log((p.variance + p.noise) / (p.plug_in + p.noise)) for p in (ours, theirs)]
    return {
        "log evidence": abs(fit.best.log_evidence - dense.log_evidence),
        "covariance": relative(fit.covariance, dense.covariance),
        "Hessian": relative(fit.best.hessian[np.ix_(inside, inside)], J.T @ dense.hessian @ J),
        "MGP mean": relative(ours.mean, theirs.mean),
        "MGP variance": relative(ours.variance, theirs.variance),
        "BALD": float(np.abs(bald[0] - bald[1]).max()),
    }


def slope(smaller: dict, larger: dict) -> float:
    from math import log

    return log(larger["d_dependent_seconds"] / smaller["d_dependent_seconds"]) / log(larger["D"] / smaller["D"])


def draw(cases: list[dict]):
    figure, (left, right) = _report.panels(1, 2, figsize=(11, 4.4))
    for many, style in ((True, "o-"), (False, "s--")):
        series = [case for case in cases if (case["candidates"] == 10_000) == many]
        at = [case["D"] for case in series]
        for k, name in enumerate(PARTS):
            label = name if many else None
            left.plot(at, [case["seconds"][name]["median"] for case in series], style, color=f"C{k}", ms=4, label=label)
        label = f"their sum, {'10,000' if many else '1,000'} candidates"
        left.plot(at, [case["d_dependent_seconds"] for case in series], style, color="black", label=label)
    searched = [case for case in cases if case["searched"]]
    fits = [case["seconds"]["fit"]["median"] for case in searched]
    left.plot([case["D"] for case in searched], fits, "^:", color="crimson", label="fit (mode search)")
    left.set(xscale="log", yscale="log", xlabel="inputs D", ylabel="seconds, one thread")
    left.set_title(f"n = {N}, d = {COMPONENTS}", fontsize=10)
    left.legend(fontsize=8)
    at, size = range(len(cases)), [case["X_and_pool_bytes"] / 1e6 for case in cases]
    peak = [case["memory_over_X_and_pool"] * mb for case, mb in zip(cases, size, strict=True)]
    right.bar([i - 0.2 for i in at], size, 0.38, color="0.75", label="X and pool")
    right.bar([i + 0.2 for i in at], peak, 0.38, color=_report.BLUE, label="peak of the process beyond a toy problem")
    limit = [LARGEST_MEMORY * mb for mb in size]
    right.plot(at, limit, "_", color="black", ms=28, label=f"{LARGEST_MEMORY} times X and pool")
    right.set_xticks(at, [f"{case['D']:,}\n{case['candidates']:,}" for case in cases])
    right.set(yscale="log", xlabel="inputs D, candidates", ylabel="MB")
    right.legend(fontsize=8, loc="upper left")
    return figure


def main() -> None:
    arguments = _report.parser(__doc__).parse_args()
    if arguments.child:
        case = json.loads(arguments.child)
        print(json.dumps({"case": run_case, "agreement": run_agreement}[case.pop("measure")](**case)))
        return
    agreement, results = _report.child({"measure": "agreement"}, threads=1), []
    for D, n_candidates, search in SMALLEST if arguments.smallest else CASES:
        case = {"measure": "case", "D": D, "n_candidates": n_candidates, "search": search}
        results.append(_report.child({**case, "rounds": 1 if arguments.smallest else 3}, threads=1))
        print(f"D = {D:,}, {n_candidates:,} candidates: {results[-1]['d_dependent_seconds']:.2f} s", flush=True)
    by_size = {(case["D"], case["candidates"]): case for case in results}
    targets = []
    for low, high in STEPS:
        if low in by_size and high in by_size:
            what = f"slope from D = {low[0]:,} to {high[0]:,}, {low[1]:,} candidates"
            targets.append(_report.target(what, slope(by_size[low], by_size[high]), "<=", LARGEST_SLOPE))
    for (D, n_candidates), case in by_size.items():
        what = f"memory over X and pool, D = {D:,}, {n_candidates:,} candidates"
        targets.append(_report.target(what, case["memory_over_X_and_pool"], "<=", LARGEST_MEMORY))
    for name, difference in agreement.items():
        what = f"difference from the dense route, D = {D_DENSE}: {name}"
        targets.append(_report.target(what, difference, "<", LARGEST_DIFFERENCE))
    _report.table_of([
        {
            "D": case["D"],
            "candidates": case["candidates"],
            "fit": _report.show(case["seconds"]["fit"]) if case["searched"] else "",
            **{name: case["seconds"][name]["median"] for name in PARTS},
            "sum (s)": case["d_dependent_seconds"],
            "memory / (X, pool)": case["memory_over_X_and_pool"],
            "RMSE / sd of f": case["rmse_over_sd_of_f"],
            # The mode found less the one that is climbed to from the truth.
            "nats": case["log_posterior"] - case["climbed"] if case["searched"] else None,
        }
        for case in results
    ])  # fmt: skip
    _report.write(
        __doc__,
        quick=arguments.smallest,
        threads="1, each case in a process of its own",
        targets=targets,
        results={"cases": results, "agreement_with_the_dense_route": agreement},
        figure=draw(results),
    )


if __name__ == "__main__":
    main()
