"""How much of the best true utility do the picks of BAMS and PES have, beside those of BALD?

    python benchmarks/check_regret.py --max-minutes 60     # goes on where it stopped
    python benchmarks/check_regret.py --only pes           # one kind of problem
    python benchmarks/check_regret.py --report             # only summarise what is stored

BAMS: 30 series of 8 to 20 points drawn from one of five kernels, which are the candidate models (default priors of
``pma.composite_gp``); pools of 150. Truth: 2 x 400 draws of each model's hyperparameters and its evidence, resampled
from 2 x 30,000 weighted ones, two thirds of which are from the prior; if few of them carry the weight the modes are
searched again from these, at most twice. Effective sample sizes are in ``results/check_regret_truth.jsonl``; those
below 200 are of models with a probability of at most 0.012. The true utility of a candidate is the mutual information
of y* and the model under the mixtures over these draws. (2 x 256 particles by sequential Monte Carlo, as in
``decision_regret.py``, do not do here: periods are free, and on a problem looked at the halves were nats apart.)

PES: 30 functions of one to three inputs, drawn from ``pma.ard_gp``'s prior with noise sd 0.1, and 6 to 15 points; pools
of 300 in the box in which the maximum is looked for. Truth: PES over 40 draws by NUTS (4 chains of 1,000) with 400
maximisers, twice, by two chains each. It says what the Laplace approximation costs, not what PES's own approximations
do (``pes_speed.py`` and ``paper_pes`` compare these with rejection sampling). The criterion draws hyperparameters and
paths; a problem's number is the mean over four seeds of these.

Relative utility is that of the pick over the best in the pool. "split half" is the relative utility, under one half of
the truth, of the other's pick; "trace" (PES) takes ten draws of the truth's sampler and 50 maximisers, as much as the
criterion itself takes. BALD's numbers, on 50 problems, are those of ``results/decision_regret.json``.

Target: mean relative utility of at least 0.95, by the default of each goal (bald_draws, bams, pes) and by bams_draws.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import json
import warnings
from functools import cache

import numpy as np
from _records import RESULTS, fill, load
from _report import BLUE, ORANGE, table, target, write
from decision_regret import Family, make, nuts
from scipy.special import logsumexp, softmax

import pymc_active as pma
from pymc_active.criteria.bams import Bams
from pymc_active.criteria.maximum.domain import Domain
from pymc_active.criteria.maximum.pes import Pes
from pymc_active.inference.ensemble import Ensemble, ensemble_of_draws, ensemble_of_models
from pymc_active.posterior.full_space import FullSpace
from pymc_active.support.threads import one_blas_thread

REPEATS, N_GRID = 10, 150
KERNELS = ("SE", "LIN", "PER", "LIN + PER", "SE * PER")
# True kernel and number of points; number of inputs and of points.
BAMS_ROWS = {"BAMS, SE, n = 8": ("SE", 8), "BAMS, LIN + PER, n = 12": ("LIN + PER", 12),
             "BAMS, SE * PER, n = 20": ("SE * PER", 20)}  # fmt: skip
PES_ROWS = {f"PES, {D} input{'s' * (D > 1)}, n = {n}": Family(D, 0, n, 0.1) for D, n in ((1, 6), (2, 10), (3, 15))}
TRUE_DRAWS, TRUE_OPTIMA = 40, 400
# Of the draws that PES itself takes.
SEEDS = 4
# Weighted draws around the modes of each half, beside twice as many from the prior; equally weighted ones kept.
WEIGHTED, TRUE_PARTICLES = 10_000, 400
# Starts of the search, and searches until the draws have this effective sample size.
RESTARTS, ATTEMPTS, ENOUGH = 40, 3, 200
TRUTH = RESULTS / "check_regret_truth.jsonl"
AIMED = {"bald_draws": "BALD", "bams": "BAMS", "bams_draws": "BAMS", "pes": "PES"}


@cache
def model(kernel: str) -> pma.GPModel:
    X = np.linspace(0, 1, N_GRID)[:, None]
    return pma.composite_gp(X, np.linspace(-1, 1, N_GRID), kernel, x_scale=(0.0, 1.0), y_scale=(0.0, 1.0))


def series(kernel: str, n: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Data of unit sd at n points drawn from a kernel, half as spread as its prior, and the pool."""
    rng = np.random.default_rng((seed, n, KERNELS.index(kernel)))
    gpm = model(kernel)
    pool, posterior = np.linspace(0, 1, N_GRID)[:, None], gpm.posterior()
    theta = posterior.prior.mean + 0.5 * posterior.prior.sd * rng.normal(size=posterior.n_parameters)
    theta[[i for i, label in enumerate(gpm.labels) if label.startswith(("log_outputscale", "mean"))]] = 0.0
    values, vectors = np.linalg.eigh(posterior.kernel.at(theta, pool).K)
    f = vectors @ (np.sqrt(np.maximum(values, 0.0)) * rng.normal(size=N_GRID))
    rows = rng.choice(N_GRID, n, replace=False)
    y = f[rows] + 0.1 * f.std() * rng.normal(size=n)
    return pool[rows], (y - y.mean()) / y.std(), pool


def relative(utility: np.ndarray, score: np.ndarray) -> float:
    return float(utility[int(np.argmax(score))] / utility.max())


def context(utility: np.ndarray, halves: list[np.ndarray]) -> dict[str, float]:
    a, b = halves
    return {"random": float(utility.mean() / utility.max()), "split half": 0.5 * (relative(a, b) + relative(b, a))}


def true_draws(gpm: pma.GPModel, seed: int) -> list[dict]:
    """Draws from the exact posterior and its log evidence, twice."""
    heaviest: list[np.ndarray] = []
    with one_blas_thread():
        for attempt in range(ATTEMPTS):
            fit = pma.fit_laplace(
                gpm,
                start=[gpm.unflatten(theta) for theta in heaviest],
                n_restarts=RESTARTS,
                random_seed=1000 + ATTEMPTS * seed + attempt,
                progressbar=False,
            )
            halves = [fit.weighted_draws(WEIGHTED, np.random.default_rng((seed, 99, k))) for k in (0, 1)]
            if min(half.effective_sample_size for half in halves) > ENOUGH:
                break
            # What carries most of the weight is near a mode that the search has missed.
            heaviest = [theta for half in halves for theta in half.z[np.argsort(-half.log_weights)[:4]]]
    rng = np.random.default_rng((seed, 98))
    return [
        {
            "thetas": half.resample(TRUE_PARTICLES, rng),
            "log_evidence": float(logsumexp(half.log_weights) - np.log(len(half.log_weights))),
            "effective_sample_size": half.effective_sample_size,
        }
        for half in halves
    ]


def bams_truth(row: str, kind: str, seed: int) -> dict:
    """True utilities of all candidates, from all draws and from either half."""
    X, y, pool = series(*BAMS_ROWS[row], seed)
    parts, evidence, sizes = [], [], []
    for name in KERNELS:
        gpm = model(name)
        gpm.set_data(X, y)
        halves = true_draws(gpm, seed)
        space = FullSpace(gpm.posterior())
        parts.append([ensemble_of_draws(gpm, (X, y), space, half["thetas"], "draws") for half in halves])
        evidence.append([half["log_evidence"] for half in halves])
        sizes.append([half["effective_sample_size"] for half in halves])
    return {
        "utility": bams_information(parts, evidence, (0, 1), pool).round(7).tolist(),
        "halves": [bams_information(parts, evidence, (k,), pool).round(7).tolist() for k in (0, 1)],
        "log_evidence": evidence,
        "effective_sample_size": sizes,
    }


def bams_information(
    parts: list[list[Ensemble]], evidence: list[list[float]], chosen: tuple[int, ...], pool: np.ndarray
) -> np.ndarray:
    """Mutual information of y* and the model, each of which is the mixture over its draws in the halves chosen."""
    joined = []
    for halves in parts:
        [first] = halves[0].parts
        z = np.concatenate([halves[k].thetas for k in chosen])
        joined.append(ensemble_of_draws(first.gpm, (halves[0].X, halves[0].y), first.space, z, "draws"))
    weights = softmax(logsumexp(np.array(evidence)[:, chosen], axis=1))
    return Bams().prepare(ensemble_of_models(joined, weights, int(weights.argmax()))).score(pool)


def bams_record(row: str, seed: int, truth: dict) -> dict:
    X, y, pool = series(*BAMS_ROWS[row], seed)
    fits = {}
    for name in KERNELS:
        gpm = model(name)
        gpm.set_data(X, y)
        fits[name] = pma.fit_laplace(gpm, random_seed=seed, progressbar=False)
    average, importance = pma.ModelAverage(fits), pma.ModelAverage(fits, evidence="importance")
    scores = {
        "bams": pma.active.bams(average, pool),
        "bams_modes": pma.active.bams(average, pool, method="modes"),
        "bams_draws": pma.active.bams(average, pool, method="draws", random_seed=0),
        "bams, importance": pma.active.bams(importance, pool),
        "bams_draws, importance": pma.active.bams(importance, pool, method="draws", random_seed=0),
        "committee": pma.active.committee(average, pool),
    }
    utility, halves = np.array(truth["utility"]), [np.array(half) for half in truth["halves"]]
    true = softmax(logsumexp(truth["log_evidence"], axis=1))
    return {
        "relative_utility": {m: relative(utility, s.to_numpy()) for m, s in scores.items()} | context(utility, halves),
        "best_utility": float(utility.max()),
        "probability": {"true": true.tolist(), "laplace": average.probability.values.tolist()},
    }


def pes_record(family: Family, seed: int) -> dict:
    problem = make(family, seed)
    gpm, pool = problem.gpm, problem.pool
    box = [(-1.7, 1.7)] * family.D
    fit = pma.fit_laplace(gpm, random_seed=seed, progressbar=False)
    halves_of_trace, rhat, ess = nuts(gpm, seed)
    posterior, domain = gpm.posterior(), Domain(*np.array(box).T)

    def over(thetas: np.ndarray, n_draws: int, n_optima: int, random_seed: int) -> np.ndarray:
        chosen = thetas[np.linspace(0, len(thetas) - 1, n_draws).astype(int)]
        criterion = Pes(domain, n_optima=n_optima, n_hyperparameters=n_draws, random_seed=random_seed)
        ensemble = ensemble_of_draws(gpm, (gpm.X, gpm.y), FullSpace(posterior), chosen, "draws")
        return criterion.prepare(ensemble).score(pool)

    halves = [over(part, TRUE_DRAWS, TRUE_OPTIMA, k) for k, part in enumerate(halves_of_trace)]
    utility = 0.5 * (halves[0] + halves[1])
    everything = halves_of_trace.reshape(-1, gpm.n_parameters)[7:-7]
    seeds = [SEEDS * seed + k for k in range(SEEDS)]
    scores = {
        "pes": [pma.active.pes(None, pool, bounds=box, fit=fit, random_seed=k) for k in seeds],
        "pes_map": [pma.active.pes(gpm, pool, bounds=box, point=fit.point, random_seed=k) for k in seeds],
        "trace": [over(everything[k::SEEDS], 10, 50, 99 + k) for k in range(SEEDS)],
    }
    relative_utility = {m: [relative(utility, np.asarray(s)) for s in some] for m, some in scores.items()}
    return {
        "relative_utility": {m: float(np.mean(some)) for m, some in relative_utility.items()}
        | context(utility, halves),
        "relative_utility_by_seed": relative_utility,
        "best_utility": float(utility.max()),
        "rhat": rhat,
        "ess_bulk": ess,
    }


def record(row: str, kind: str, repeat: int) -> dict:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if kind == "pes":
            return pes_record(PES_ROWS[row], repeat)
        fill(TRUTH, iter([(row, kind, repeat)]), bams_truth, np.inf)
        return bams_record(row, repeat, load(TRUTH)[row, kind, repeat])


def mean_and_error(values: list[float]) -> dict[str, float]:
    error = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
    return {"mean": float(np.mean(values)), "standard_error": float(error), "n": len(values)}


def summarise(records: dict) -> dict:
    summary: dict = {}
    for kind in ("bams", "pes"):
        rows: dict[str, list[dict]] = {}
        for (row, method, _), one in records.items():
            if method == kind:
                rows.setdefault(row, []).append(one["relative_utility"])
                rows.setdefault(f"{kind.upper()}, all", []).append(one["relative_utility"])
        summary |= {
            row: {m: mean_and_error([one[m] for one in some]) for m in some[0]} for row, some in sorted(rows.items())
        }
    bald = json.loads((RESULTS / "decision_regret.json").read_text())["results"]["table"]["relative_utility"]["all"]
    names = {"mgp": "bald", "draws": "bald_draws", "random": "random", "split half": "split half"}
    keys = ("mean", "standard_error", "n")
    summary["BALD, all"] = {new: {k: bald[old][k] for k in keys} for old, new in names.items()}
    return summary


def plot(summary: dict):
    import matplotlib.pyplot as plt

    rows = [
        (row, method, cell) for row, cells in summary.items() if row.endswith("all") for method, cell in cells.items()
    ]
    figure, ax = plt.subplots(figsize=(7, 0.5 + 0.32 * len(rows)), layout="constrained")
    for i, (_, method, cell) in enumerate(rows):
        color = BLUE if method in AIMED else ORANGE
        error = np.nan_to_num(cell["standard_error"])
        ax.errorbar(cell["mean"], i, xerr=error, fmt="o" if method in AIMED else "s", color=color, capsize=3)
    ax.axvline(0.95, color="#8a8a8a", ls="--", lw=1)
    ax.set_yticks(range(len(rows)), [f"{row.partition(',')[0]}: {method}  ({cell['n']})" for row, method, cell in rows])
    ax.set_ylim(len(rows) - 0.5, -0.5)
    ax.set(xlabel="true utility of the pick / best in the pool, mean ± standard error", xlim=(0, 1.03))
    ax.spines[["right", "top"]].set_visible(False)
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=("bams", "pes"), help="one kind of problem")
    parser.add_argument("--repeats", type=int, default=REPEATS, help="problems of each row")
    parser.add_argument("--max-minutes", type=float, default=np.inf, help="start no record after this long")
    parser.add_argument("--report", action="store_true", help="only summarise what is stored")
    arguments = parser.parse_args()
    path = RESULTS / "check_regret.jsonl"
    if not arguments.report:
        kinds = [arguments.only] if arguments.only else ["pes", "bams"]
        keys = [
            (row, kind, repeat)
            for repeat in range(arguments.repeats)
            for kind in kinds
            for row in (BAMS_ROWS if kind == "bams" else PES_ROWS)
        ]
        fill(path, iter(keys), record, arguments.max_minutes)
    records = load(path)
    summary = summarise(records)
    table(
        ("problems", "method", "relative utility", "n"),
        [
            [row, method, f"{cell['mean']:.3f} ± {cell['standard_error']:.3f}", cell["n"]]
            for row, cells in summary.items()
            for method, cell in cells.items()
        ],
    )
    means = {
        method: summary[f"{kind}, all"][method]["mean"] for method, kind in AIMED.items() if f"{kind}, all" in summary
    }
    write(
        __doc__,
        quick=False,
        threads="one BLAS thread",
        targets=[target(f"mean relative utility of {method}", mean, ">=", 0.95) for method, mean in means.items()],
        results={"table": summary, "records": list(records.values())},
        figure=plot(summary),
    )


if __name__ == "__main__":
    main()
