"""Does the evidence find the number of components of an embedding?

    python benchmarks/embedding_dimension.py --minutes 120   # goes on where it stopped; then JSON and picture
    python benchmarks/embedding_dimension.py --smallest      # seconds

Choice: 20 functions of 1, 2 or 3 of the candidates' 1 to 4 components, drawn from the model's own prior (D = 10 inputs,
n = 150 points uniform in the box, noise sd 0.1; noise and output scale are inferred), and
``pma.search.embedding_dimension`` as it is. The evidence at the true number is compared with Laplace's at the mode that
a climb from the true parameters finds.

Evidence: Laplace's on small problems, against quadrature over R (D = 2; noise and output scale known) and PyMC's
sequential Monte Carlo (2,000 draws, 4 chains). Its chains agree at D = 2 only: with 5 inputs they are 2 to 5 nats
apart, and at 5/2 they miss the mode that Laplace's method is about. They are shown, and no yardstick there.

Target: the true number has the highest evidence in at least 80 % of the 20 problems.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import time
import warnings
from functools import partial

import numpy as np
import pymc as pm
from _records import load, main
from _report import BLUE, GREY, ORANGE, panels, target, write
from scipy.special import logsumexp
from scipy.stats import norm

import pymc_active as pma

D, N, NOISE, CANDIDATES, N_PROBLEMS = 10, 150, 0.1, (1, 2, 3, 4), 20
KNOWN = {"log_outputscale": 0.0, "log_noise": float(np.log(NOISE))}
# (D, d, n, seed, whether noise and output scale are known)
EVIDENCE = [
    (2, 1, 20, 0, True),
    (2, 1, 20, 1, True),
    (2, 2, 20, 0, True),
    (2, 2, 20, 1, True),
    (2, 2, 20, 2, True),
    (5, 1, 40, 0, False),
    (5, 1, 40, 1, False),
    (5, 2, 60, 0, False),
]


def draw_problem(n_inputs: int, d: int, n: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng((seed, d, n_inputs, n))
    R = rng.normal(size=(d, n_inputs)) * prior_scale(n_inputs)
    X = rng.uniform(-1, 1, (n, n_inputs))
    squared = np.square((X[:, None] - X) @ R.T).sum(-1)
    y = rng.multivariate_normal(np.zeros(n), np.exp(-squared / 2) + NOISE**2 * np.eye(n), method="cholesky")
    return X, y, R


def prior_scale(n_inputs: int) -> float:
    return 1.25 * np.sqrt(3 / n_inputs)


def choose(seed: int, n: int = N, candidates: tuple[int, ...] = CANDIDATES) -> dict:
    """One problem of the choice; the true number of components goes round."""
    d = 1 + seed % 3
    X, y, R = draw_problem(D, d, n, seed)
    start = time.process_time()
    found = pma.search.embedding_dimension(X, y, candidates, random_seed=seed, progressbar=False)
    seconds = time.process_time() - start
    truth = {"R": R, "log_lengthscale": 0.0, "log_outputscale": 0.0, "log_noise": np.log(NOISE)}
    climb = pma.fit_laplace(found.fits[d].gpm, start=truth, n_restarts=0, population=0, progressbar=False)
    table = found.table
    return {
        "seed": seed,
        "true": d,
        "chosen": int(table.probability.idxmax()),
        "cpu_seconds": seconds,
        "singular_values_of_the_truth": np.linalg.svd(R, compute_uv=False).tolist(),
        "from_the_truth": {"log_posterior": climb.log_posterior, "log_evidence": climb.log_evidence},
        **{name: table[name].to_numpy().tolist() for name in table},
        "warnings": {d: fit.diagnostics["warnings"] for d, fit in found.fits.items()},
    }


def quadrature(X: np.ndarray, y: np.ndarray, d: int, refine: int) -> float:
    """Log evidence for two inputs by a grid over R; for d = 2 over triangular T, R = QT, dR = t11 dT dQ."""
    n, sd, step = len(y), prior_scale(2), 0.1 / refine
    positive = np.arange(step / 2, 4.5 * sd, step)
    both = np.concatenate([-positive[::-1], positive])
    difference = X[:, None] - X
    total = -np.inf
    for t11 in both if d == 1 else positive:
        # One row [t11, t12]; or the second row [0, t22] too.
        t12, t22 = (part.ravel() for part in np.meshgrid(both, positive if d == 2 else [0.0], indexing="ij"))
        log_prior = norm.logpdf(np.array([t11]), 0, sd).sum() + norm.logpdf(t12, 0, sd)
        if d == 2:
            log_prior = log_prior + norm.logpdf(0, 0, sd) + norm.logpdf(t22, 0, sd) + np.log(t11)
        for block in np.array_split(np.arange(len(t12)), -(-len(t12) // 4096)):
            u = t11 * difference[..., 0] + t12[block, None, None] * difference[..., 1]
            v = t22[block, None, None] * difference[..., 1]
            L = np.linalg.cholesky(np.exp(-0.5 * (u * u + v * v)) + NOISE**2 * np.eye(n))
            half = np.linalg.solve(L, np.broadcast_to(y[:, None], (len(L), n, 1)))[..., 0]
            log_likelihood = -0.5 * np.square(half).sum(1) - np.log(np.diagonal(L, axis1=1, axis2=2)).sum(1)
            total = np.logaddexp(total, logsumexp(log_likelihood + log_prior[block]))
    # vol O(2) = 4 pi
    return float(total - 0.5 * n * np.log(2 * np.pi) + (d + d * (d - 1) / 2) * np.log(step)) + (
        np.log(4 * np.pi) if d == 2 else np.log(step)
    )


def sequential_monte_carlo(gpm: pma.GPModel, seed: int, draws: int) -> list[float]:
    with gpm.model:
        trace = pm.sample_smc(draws, chains=4, cores=1, random_seed=seed, progressbar=False)
    stages = trace["sample_stats"]["log_marginal_likelihood"].to_numpy()
    return [float(np.asarray(chain, float)[-1]) for chain in stages]


def compare(n_inputs: int, d: int, n: int, seed: int, known: bool, draws: int = 2000) -> dict:
    X, y, _ = draw_problem(n_inputs, d, n, seed)
    # With an sd of R that is given, there is no lengthscale to learn.
    options = {"n_components": d, "prior_scale": prior_scale(n_inputs), "priors": KNOWN if known else None}
    gpm = pma.embedding_gp(X, y, **options)
    fit = pma.fit_laplace(gpm, random_seed=seed, progressbar=False)
    record = {
        "D": n_inputs, "d": d, "n": n, "seed": seed, "known_noise": known,
        "laplace": fit.log_evidence,
        "laplace_all_modes": float(pma.active.model_posterior([fit]).log_evidence[0]),
        "n_modes": len(fit.modes),
        "warnings": fit.diagnostics["warnings"],
        "smc": sequential_monte_carlo(gpm, seed, draws),
    }  # fmt: skip
    if n_inputs == 2:
        coarse, record["quadrature"] = (quadrature(X, y, d, refine) for refine in (1, 2))
        record["quadrature_error"] = abs(coarse - record["quadrature"])
    return record


def plot(choices: list[dict], evidences: list[dict]):
    from matplotlib.ticker import FuncFormatter

    fig, axes = panels(1, 4, figsize=(12, 3.4), width_ratios=(1, 1, 1, 1.3))
    for true, ax in zip((1, 2, 3), axes, strict=False):
        records = [r for r in choices if r["true"] == true]
        for r in records:
            evidence = np.array(r["log_evidence"])
            color = BLUE if r["chosen"] == true else ORANGE
            ax.plot(CANDIDATES[: len(evidence)], evidence - evidence.max(), "-o", ms=3.5, lw=1, color=color, alpha=0.7)
        ax.axvline(true, color=GREY, lw=6, alpha=0.25, zorder=0)
        right = sum(r["chosen"] == true for r in records)
        ax.set_title(f"true d = {true}: {right} of {len(records)}", fontsize=10)
        ax.set_xticks(CANDIDATES)
        ax.set_yscale("symlog", linthresh=1)
        ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        ax.set_ylim(-500, 0.3)
        ax.set_xlim(CANDIDATES[0] - 0.3, CANDIDATES[-1] + 0.3)
        ax.set_xlabel("components d")
    axes[0].set_ylabel("log evidence below the best (nats)")
    ax = axes[3]
    names = [f"{r['D']}/{r['d']}, n = {r['n']} #{r['seed']}" for r in evidences]
    for i, r in enumerate(evidences):
        smc = np.array(r["smc"]) - r["laplace"]
        ax.plot(smc, np.full(len(smc), i), "|", ms=9, color=GREY, label="SMC, each chain" if i == 0 else None)
        if "quadrature" in r:
            label = "quadrature" if i == 0 else None
            ax.plot(r["quadrature"] - r["laplace"], i, "x", color=ORANGE, label=label)
    ax.axvline(0, color=GREY, lw=0.8, zorder=0)
    ax.set_yticks(range(len(names)), names)
    ax.invert_yaxis()
    ax.set_xscale("symlog", linthresh=1)
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.set_xlabel("log evidence minus Laplace's (nats)")
    ax.legend(fontsize=8, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3)
    return fig


# Of each row and repeat, what it takes.
JOBS = {("choice", seed): partial(choose, seed) for seed in range(N_PROBLEMS)}
JOBS |= {("evidence", k): partial(compare, *job) for k, job in enumerate(EVIDENCE)}


def record(row, method, repeat, **keywords) -> dict:
    warnings.simplefilter("ignore")
    return JOBS[row, repeat](**keywords)


def report(path, engine=None) -> None:
    records = load(path, engine)
    choices, evidences = ([r for key, r in records.items() if key[0] == row] for row in ("choice", "evidence"))
    right = [r["chosen"] == r["true"] for r in choices]
    low = [r["from_the_truth"]["log_evidence"] - r["log_evidence"][CANDIDATES.index(r["true"])] for r in choices]
    missed = sum(m > 2 for m in low)
    targets = [
        target(f"true number of components chosen, % of {len(choices)}", 100 * float(np.mean(right)), ">=", 80),
        target("evidences at the true d 2 nats below Laplace's at the true mode", missed, "<=", 1),
    ]
    for d, limit in ((1, 0.5), (2, 1.0)):
        errors = [abs(r["laplace"] - r["quadrature"]) for r in evidences if "quadrature" in r and r["d"] == d]
        if errors:
            what = f"largest error of the Laplace evidence against quadrature, D = 2, d = {d} (nats)"
            targets.append(target(what, max(errors), "<=", limit))
    seconds = float(np.median([r["cpu_seconds"] for r in choices]))
    write(
        __doc__,
        threads="one; the times are CPU seconds",
        targets=targets,
        results={"median_cpu_seconds": seconds, "choice": choices, "evidence": evidences},
        figure=plot(choices, evidences),
        records=records.values(),
    )


if __name__ == "__main__":
    small = {
        ("choice", "search", 0): partial(record, "choice", "search", 0, n=20, candidates=(1, 2)),
        ("evidence", "search", 0): partial(record, "evidence", "search", 0, draws=100),
    }
    keys = [(row, "search", repeat) for row, repeat in JOBS]
    main(__doc__, "embedding_dimension.jsonl", keys, record, report, small)
