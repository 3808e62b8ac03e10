"""BALD against the plain predictive variance.

What does scoring a pool with BALD cost, over the plain predictive variance?

    python benchmarks/scoring.py [--quick]

An embedding with n = 100, D = 20, d = 2 and 20,000 candidates. BALD, with every hyperparameter
marginalised and the checks of its input included, against the least that uncertainty sampling must
do: the predictive variance of the same GP at the same hyperparameters, written in NumPy and SciPy
with the Cholesky factor given, in the block size that is fastest here. Once with one thread, once
with all. Beside it the memory that a fresh process needs for a million candidates, and, for 200
candidates, the difference from the formula with derivatives by complex steps.

Targets: at most 6 times the plain variance; less than 1 GiB in total for a million candidates, the
pool of 160 MB among it; scores exact to 1e-8 nats.
"""

from __future__ import annotations

import json
import os
import time

import _report

N, D, COMPONENTS = 100, 20, 2
BLOCKS = (256, 512, 1024, 2048, 4096, 20_000)
LARGEST_RATIO, LARGEST_DIFFERENCE, GIB = 6, 1e-8, 2**30


def make_fit():
    """The expansion at the mode next to the true hyperparameters."""
    import numpy as np
    from _reference import draw_problem

    import pymc_active as pma

    X, y, R = draw_problem(N, D, COMPONENTS, seed=0)
    gpm = pma.embedding_gp(X, y, n_components=COMPONENTS)
    truth = {"R": R, "log_outputscale": 0.0, "log_noise": np.log(0.1)}
    climbed = pma.fit_laplace(gpm, start=truth, n_restarts=0, population=0, progressbar=False)
    return pma.fit_laplace(gpm, point=climbed.point, optimize=False)


def plain_variance(fit, block: int):
    """A function of the candidates: predictive variance with the hyperparameters fixed."""
    import numpy as np
    from scipy.linalg import cholesky, solve_triangular

    X, R = fit.gpm.X, fit.point["R"]
    variance, noise = np.exp(2 * fit.point["log_outputscale"]), np.exp(2 * fit.point["log_noise"])
    U = X @ R.T
    u = np.square(U).sum(1)
    G = variance * np.exp(-0.5 * np.maximum(u[:, None] + u - 2 * U @ U.T, 0)) + noise * np.eye(N)
    L = cholesky(G, lower=True)

    def score(X_new):
        V = np.empty(len(X_new))
        for start in range(0, len(X_new), block):
            rows = slice(start, start + block)
            U_new = X_new[rows] @ R.T
            # Rows are candidates, so that the transpose has LAPACK's order and is not copied.
            k = U_new @ (2 * U.T)
            k -= np.square(U_new).sum(1)[:, None]
            k -= u
            np.minimum(k, 0, out=k)
            k *= 0.5
            np.exp(k, out=k)
            k *= variance
            half = solve_triangular(L, k.T, lower=True, overwrite_b=True, check_finite=False)
            V[rows] = variance - np.einsum("ij,ij->j", half, half)
        return V

    return score


def run_speed(n_candidates: int, rounds: int) -> dict:
    import numpy as np
    from _reference import bald, map_moments

    import pymc_active as pma

    fit = make_fit()
    rng = np.random.default_rng(1)
    pool = rng.uniform(-1, 1, size=(n_candidates, D))

    def clock(score) -> float:
        start = time.perf_counter()
        score(pool)
        return time.perf_counter() - start

    # The rival may choose its block size.
    tried = {block: min(clock(plain_variance(fit, block)) for _ in range(3)) for block in BLOCKS}
    block = min(tried, key=tried.get)
    plain = plain_variance(fit, block)
    times: dict[str, list[float]] = {"BALD": [], "plain variance": []}
    pma.active.bald(fit, pool)
    for _ in range(rounds):
        times["BALD"].append(clock(lambda X: pma.active.bald(fit, X)))
        times["plain variance"].append(clock(plain))
    seconds = {name: _report.quartiles(values) for name, values in times.items()}

    sample = rng.choice(n_candidates, 200, replace=False)
    given = (fit.gpm.X, fit.gpm.y, (COMPONENTS, D), fit.theta)
    difference = {
        target: float(
            np.abs(
                pma.active.bald(fit, pool, target=target).to_numpy()[sample]
                - bald(*given, fit.covariance, pool[sample], target=target)
            ).max()
        )
        for target in ("y", "f")
    }
    V = map_moments(*given, pool[sample])[1]
    return {
        "seconds": seconds,
        "ratio": seconds["BALD"]["median"] / seconds["plain variance"]["median"],
        "block_of_the_plain_variance": block,
        "seconds_by_block": tried,
        "largest_difference_of_bald_nats": difference,
        "largest_relative_difference_of_the_plain_variance": float(np.abs(plain(pool)[sample] / V - 1).max()),
    }


def run_memory(n_candidates: int) -> dict:
    import numpy as np

    import pymc_active as pma

    fit = make_fit()
    pool = np.random.default_rng(1).uniform(-1, 1, size=(n_candidates, D))
    before = _report.peak_memory()
    start = time.perf_counter()
    score = pma.active.bald(fit, pool)
    seconds = time.perf_counter() - start
    return {
        "candidates": n_candidates,
        "pool_bytes": pool.nbytes,
        "peak_bytes": _report.peak_memory(),
        "peak_before_scoring_bytes": before,
        "seconds": seconds,
        "finite": bool(np.isfinite(score).all()),
    }


def draw(speed: dict[str, dict], memory: dict, n_candidates: int):
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.6), width_ratios=(3, 2))
    colors = {"BALD": _report.BLUE, "plain variance": _report.GREY}
    for row, result in enumerate(speed.values()):
        for k, (name, t) in enumerate(result["seconds"].items()):
            error = [[1e3 * (t["median"] - t["lower"])], [1e3 * (t["upper"] - t["median"])]]
            y = row + 0.36 * (k - 0.5)
            left.barh(
                y,
                1e3 * t["median"],
                0.33,
                xerr=error,
                color=colors[name],
                label=name if not row else None,
            )
            label = f"{1e3 * t['median']:.0f} ms" + (f"  ({result['ratio']:.1f} ×)" if name == "BALD" else "")
            left.text(1e3 * t["upper"], y, "  " + label, va="center", fontsize=9)
    left.set_yticks(range(len(speed)), speed)
    left.set_ylim(len(speed) - 0.5, -0.5)
    left.set_xlim(0, 1.3 * left.get_xlim()[1])
    left.set_xlabel(f"time for {n_candidates:,} candidates, ms (median, quartiles)")
    left.set_title(f"n = {N}, D = {D}, d = {COMPONENTS}", fontsize=10)
    left.legend(frameon=False, loc="lower right")
    parts = {
        "Python, PyMC, fit": memory["peak_before_scoring_bytes"] - memory["pool_bytes"],
        "pool": memory["pool_bytes"],
        "scoring": memory["peak_bytes"] - memory["peak_before_scoring_bytes"],
    }
    bottom = 0.0
    for (name, size), color in zip(parts.items(), ("0.75", _report.ORANGE, _report.BLUE), strict=True):
        right.bar(0, size / 1e6, 0.5, bottom=bottom, color=color)
        right.text(0.3, bottom + size / 2e6, f"{name}: {size / 1e6:.0f} MB", va="center", fontsize=9)
        bottom += size / 1e6
    right.axhline(GIB / 1e6, color="black", linestyle="--", linewidth=1)
    right.text(1.35, GIB / 1e6 - 15, "1 GiB", ha="right", va="top", fontsize=9)
    right.set_xlim(-0.4, 1.4)
    right.set_ylim(0, 1.08 * max(GIB / 1e6, bottom))
    right.set_xticks([])
    right.set_ylabel("peak memory of the process, MB")
    right.set_title(f"{memory['candidates']:,} candidates", fontsize=10)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle("BALD over a pool, all hyperparameters marginalised")
    figure.tight_layout()
    return figure


def main() -> None:
    arguments = _report.parser(__doc__).parse_args()
    if arguments.child:
        case = json.loads(arguments.child)
        print(json.dumps({"speed": run_speed, "memory": run_memory}[case.pop("measure")](**case)))
        return
    n_candidates = 20_000
    rounds = 3 if arguments.quick else 25
    everything = len(os.sched_getaffinity(0))
    speed = {}
    for threads in sorted({1, everything}):
        name = f"{threads} thread" + ("s" if threads > 1 else "")
        speed[name] = _report.child(
            {"measure": "speed", "n_candidates": n_candidates, "rounds": rounds}, threads=threads
        )
    memory = _report.child({"measure": "memory", "n_candidates": 1_000_000}, threads=everything)
    if not memory["finite"]:
        raise RuntimeError("BALD is not finite for some of the million candidates")
    rows, targets = [], []
    for name, r in speed.items():
        for method, t in r["seconds"].items():
            rows.append((name, method, _report.show(t), f"{r['ratio']:.2f}" if method == "BALD" else ""))
        targets.append(_report.target(f"BALD / plain variance, {name}", r["ratio"], "<=", LARGEST_RATIO))
        for target, difference in r["largest_difference_of_bald_nats"].items():
            what = f"difference of BALD, target {target}, {name} (nats)"
            targets.append(_report.target(what, difference, "<", LARGEST_DIFFERENCE))
    gib = memory["peak_bytes"] / GIB
    targets.append(_report.target(f"peak for {memory['candidates']:,} candidates (GiB)", gib, "<", 1))
    _report.table(("threads", "score", f"{n_candidates:,} candidates: median [quartiles]", "ratio"), rows)
    added = (memory["peak_bytes"] - memory["peak_before_scoring_bytes"]) / 2**20
    print(
        f"\n{memory['candidates']:,} candidates in {memory['seconds']:.2f} s; "
        f"peak {gib * 1024:.0f} MiB, {added:.0f} MiB of it beyond the process with its pool"
    )
    _report.write(
        __doc__,
        quick=arguments.quick,
        threads=f"1, and all {everything}, each in a process of its own",
        targets=targets,
        results={"candidates": n_candidates, "speed": speed, "memory": memory},
        figure=draw(speed, memory, n_candidates),
    )


if __name__ == "__main__":
    main()
