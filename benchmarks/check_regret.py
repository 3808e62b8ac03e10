"""How much of the best true utility do the picks of BALD, BAMS and PES have, called with the defaults?

    python benchmarks/check_regret.py --minutes 60 --methods pes   # goes on where it stopped
    python benchmarks/check_regret.py                              # table, JSON and picture from the records
    python benchmarks/check_regret.py --smallest                   # seconds

"default" is the criterion over ``pma.fit``, with as many particles as a ``Learner`` has (256, or 128 for each of
several models); "laplace" is the same over ``pma.fit_laplace``, the papers' way: BALD by the marginal GP, BAMS by one
Gaussian per model.

BAMS: 30 series of 8 to 20 points drawn from one of five kernels, which are the candidate models (default priors of
``pma.composite_gp``); pools of 150. Truth: 2 x 400 draws of each model's hyperparameters and its evidence, resampled
from 2 x 30,000 weighted ones, two thirds of which are from the prior; if few of them carry the weight the modes are
searched again from these, at most twice. Effective sample sizes are in ``results/check_regret_truth.jsonl``; those
below 200 are of models with a probability of at most 0.012. The true utility of a candidate is the mutual information
of y* and the model under the mixtures over these draws.

BALD and PES: functions of one to three inputs, drawn from ``pma.ard_gp``'s prior with noise sd 0.1, and 5 to 80 points;
pools of 300 in the box in which the maximum is looked for. Truth: NUTS (4 chains of 1,000), in halves of two chains.
For BALD the mutual information of y* and the hyperparameters under 2 x 200 draws; for PES its own utility over 2 x 40
draws with 400 maximisers. That says what the posterior costs, not what PES's own approximations do (``pes_speed.py``
and ``paper_pes`` compare these with rejection sampling). PES draws paths; a problem's number is the mean over four
seeds of these.

Relative utility is that of the pick over the best in the pool. "split half" is the relative utility, under one half of
the truth, of the other's pick; "trace" (PES) takes ten draws of the truth's sampler and 50 maximisers.

Target: mean relative utility of at least 0.96, by the default of each goal.
"""

import warnings
from functools import cache, partial
from itertools import product

import _one_thread  # noqa: F401
import numpy as np
from _records import RESULTS, fill, load, main
from _report import BLUE, ORANGE, mean_and_error, panels, table, target
from scipy.special import logsumexp, softmax

import pymc_active as pma
from pymc_active.criteria.bams import Bams
from pymc_active.criteria.maximum.domain import Domain
from pymc_active.criteria.maximum.pes import Pes
from pymc_active.inference.ensemble import Ensemble, ensemble_of_draws, ensemble_of_models
from pymc_active.information.mixture_entropy import gaussian_entropy, mixture_entropy
from pymc_active.models.traces import trace_thetas
from pymc_active.posterior.full_space import FullSpace
from pymc_active.predictions.moments import draw_moments
from pymc_active.support.data import Data
from pymc_active.support.threads import one_blas_thread

REPEATS, N_GRID = 10, 150
GOALS = ("BALD", "BAMS", "PES")
KERNELS = ("SE", "LIN", "PER", "LIN + PER", "SE * PER")
# True kernel and number of points; number of inputs and of points.
BAMS_ROWS = {"BAMS, SE, n = 8": ("SE", 8), "BAMS, LIN + PER, n = 12": ("LIN + PER", 12),
             "BAMS, SE * PER, n = 20": ("SE * PER", 20)}  # fmt: skip
PES_ROWS = {f"{D} input{'s' * (D > 1)}, n = {n}": (D, n) for D, n in ((1, 5), (2, 10), (3, 15), (2, 40), (2, 80))}
N_POOL, N_TEST, NOISE = 300, 50, 0.1
# Draws of each half: of PES, of BALD.
TRUE_DRAWS, TRUE_OPTIMA, BALD_DRAWS = 40, 400, 200
# Particles of each of several models that a Learner has.
PARTICLES_OF_MODELS = 128
# Of the draws that PES itself takes.
SEEDS = 4
# Weighted draws around the modes of each half, beside twice as many from the prior; equally weighted ones kept.
WEIGHTED, TRUE_PARTICLES = 10_000, 400
# Starts of the search, and searches until the draws have this effective sample size.
RESTARTS, ATTEMPTS, ENOUGH = 40, 3, 200
TRUTH = RESULTS / "check_regret_truth.jsonl"


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


def function(D: int, n: int, seed: int) -> tuple[pma.GPModel, np.ndarray]:
    """A model that holds n data of a draw from its prior, and a pool; what is drawn beside these keeps the stream."""
    rng = np.random.default_rng((seed, D, 0, n, round(1000 * NOISE)))
    slopes, scale = np.exp(-rng.normal(0.5 * np.log(D), 1, D)), np.exp(rng.normal())
    X = rng.uniform(-1.7, 1.7, (n + N_TEST, D))
    U = X * slopes
    K = scale**2 * np.exp(-0.5 * np.square(U[:, None] - U).sum(-1)) + NOISE**2 * np.eye(len(U))
    y = rng.multivariate_normal(np.zeros(len(U)), K, method="cholesky")
    gpm = pma.ard_gp(np.eye(D), np.zeros(D))
    gpm.set_data(X[:n], y[:n])
    return gpm, rng.uniform(-1.7, 1.7, (N_POOL, D))


def nuts(gpm: pma.GPModel, seed: int, draws: int = 1000) -> tuple[np.ndarray, float, float]:
    """Draws of theta (2 halves, S, P), worst R-hat, smallest bulk ESS."""
    from arviz_stats import ess, rhat

    trace = pma.sample(
        gpm, draws=draws, random_seed=seed, progressbar=False, cores=1, nuts_sampler="pymc", target_accept=0.95
    )
    posterior = trace["posterior"].to_dataset()[[variable.name for variable in gpm.model.free_RVs]]
    return (
        trace_thetas(gpm, trace).reshape(2, -1, gpm.n_parameters),
        max(float(r.max()) for r in rhat(posterior).values()),
        min(float(e.min()) for e in ess(posterior).values()),
    )


def information(means: np.ndarray, variances: np.ndarray, weights: np.ndarray) -> np.ndarray:
    return mixture_entropy(means, variances, weights) - weights @ gaussian_entropy(variances)


def relative(utility: np.ndarray, score: np.ndarray) -> float:
    return float(utility[int(np.argmax(score))] / utility.max())


def context(utility: np.ndarray, halves: list[np.ndarray]) -> dict[str, float]:
    a, b = halves
    return {"random": float(utility.mean() / utility.max()), "split half": 0.5 * (relative(a, b) + relative(b, a))}


def true_draws(gpm: pma.GPModel, seed: int, n_weighted: int, n_restarts: int) -> list[dict]:
    """Draws from the exact posterior and its log evidence, twice."""
    heaviest: list[np.ndarray] = []
    with one_blas_thread():
        for attempt in range(ATTEMPTS):
            fit = pma.fit_laplace(
                gpm,
                start=[gpm.unflatten(theta) for theta in heaviest],
                n_restarts=n_restarts,
                random_seed=1000 + ATTEMPTS * seed + attempt,
                progressbar=False,
            )
            halves = [fit.weighted_draws(n_weighted, np.random.default_rng((seed, 99, k))) for k in (0, 1)]
            if min(half.effective_sample_size for half in halves) > ENOUGH * n_weighted / WEIGHTED:
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


def bams_truth(row: str, kind: str, seed: int, n_weighted: int = WEIGHTED, n_restarts: int = RESTARTS) -> dict:
    """True utilities of all candidates, from all draws and from either half."""
    X, y, pool = series(*BAMS_ROWS[row], seed)
    parts, evidence, sizes = [], [], []
    for name in KERNELS:
        gpm = model(name)
        gpm.set_data(X, y)
        halves = true_draws(gpm, seed, n_weighted, n_restarts)
        space = FullSpace(gpm.posterior())
        parts.append([ensemble_of_draws(gpm, Data(X, y), space, half["thetas"], "draws") for half in halves])
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
        joined.append(ensemble_of_draws(first.gpm, Data(halves[0].X, halves[0].y), first.space, z, "draws"))
    weights = softmax(logsumexp(np.array(evidence)[:, chosen], axis=1))
    return Bams().prepare(ensemble_of_models(joined, weights, int(weights.argmax()))).score(pool)


def bams_record(row: str, seed: int, truth: dict) -> dict:
    X, y, pool = series(*BAMS_ROWS[row], seed)
    fits, modes = {}, {}
    for name in KERNELS:
        gpm = model(name)
        gpm.set_data(X, y)
        fits[name] = pma.fit(gpm, n_particles=PARTICLES_OF_MODELS, random_seed=seed, progressbar=False)
        modes[name] = pma.fit_laplace(gpm, random_seed=seed, progressbar=False)
    average, laplace = pma.ModelAverage(fits), pma.ModelAverage(modes)
    scores = {
        "default": pma.active.bams(average, pool),
        "laplace": pma.active.bams(laplace, pool),
        "committee": pma.active.committee(average, pool),
    }
    utility, halves = np.array(truth["utility"]), [np.array(half) for half in truth["halves"]]
    true = softmax(logsumexp(truth["log_evidence"], axis=1))
    return {
        "relative_utility": {
            "bams": {m: relative(utility, s.to_numpy()) for m, s in scores.items()} | context(utility, halves)
        },
        "probability": {
            "true": true.tolist(),
            "default": average.probability.values.tolist(),
            "laplace": laplace.probability.values.tolist(),
        },
    }


def pes_record(D: int, n: int, seed: int, n_trace: int = 1000, n_true: int = TRUE_DRAWS, optima: int = TRUE_OPTIMA):
    """Of BALD and PES, on one function."""
    gpm, pool = function(D, n, seed)
    box = [(-1.7, 1.7)] * D
    fit = pma.fit(gpm, random_seed=seed, progressbar=False)
    modes = pma.fit_laplace(gpm, random_seed=seed, progressbar=False)
    halves_of_trace, rhat, ess = nuts(gpm, seed, n_trace)
    posterior, domain = gpm.posterior(), Domain(*np.array(box).T)

    def spread(thetas: np.ndarray, n_draws: int) -> np.ndarray:
        return thetas[np.linspace(0, len(thetas) - 1, n_draws).astype(int)]

    def pes_over(thetas: np.ndarray, n_draws: int, n_optima: int, random_seed: int) -> np.ndarray:
        criterion = Pes(domain, n_optima=n_optima, n_hyperparameters=n_draws, random_seed=random_seed)
        ensemble = ensemble_of_draws(gpm, gpm.data, FullSpace(posterior), spread(thetas, n_draws), "draws")
        return criterion.prepare(ensemble).score(pool)

    def bald_over(thetas: np.ndarray) -> np.ndarray:
        means, variances, noises = draw_moments(posterior, thetas, pool)
        return information(means, variances + noises, np.full(len(thetas), 1 / len(thetas)))

    draws = [spread(part, BALD_DRAWS) for part in halves_of_trace]
    utility = bald_over(np.concatenate(draws))
    scores = {"default": pma.active.bald(fit, pool, random_seed=seed), "laplace": pma.active.bald(modes, pool)}
    bald = {m: relative(utility, np.asarray(score)) for m, score in scores.items()}
    bald |= context(utility, [bald_over(part) for part in draws])

    halves = [pes_over(part, n_true, optima, k) for k, part in enumerate(halves_of_trace)]
    utility = 0.5 * (halves[0] + halves[1])
    everything = halves_of_trace.reshape(-1, gpm.n_parameters)[7:-7]
    seeds = [SEEDS * seed + k for k in range(SEEDS)]
    by_seed = {
        "default": [pma.active.pes(None, pool, bounds=box, fit=fit, random_seed=k) for k in seeds],
        "laplace": [pma.active.pes(None, pool, bounds=box, fit=modes, random_seed=k) for k in seeds],
        "trace": [pes_over(everything[k::SEEDS], 10, 50, 99 + k) for k in range(SEEDS)],
    }
    pes = {m: float(np.mean([relative(utility, np.asarray(one)) for one in some])) for m, some in by_seed.items()}
    return {"relative_utility": {"bald": bald, "pes": pes | context(utility, halves)}, "rhat": rhat, "ess_bulk": ess}


def record(row: str, kind: str, repeat: int) -> dict:
    warnings.simplefilter("ignore")
    if kind == "pes":
        return pes_record(*PES_ROWS[row], repeat)
    fill(TRUTH, [(row, kind, repeat)], bams_truth, np.inf)
    return bams_record(row, repeat, load(TRUTH)[row, kind, repeat])


def smallest(row: str, kind: str) -> dict:
    """A truth of few draws."""
    warnings.simplefilter("ignore")
    if kind == "pes":
        return pes_record(*PES_ROWS[row], 0, n_trace=100, n_true=4, optima=20)
    return bams_record(row, 0, bams_truth(row, kind, 0, n_weighted=500, n_restarts=2))


def summarise(records: dict) -> dict:
    """By goal and problems, and over all problems of each goal."""
    found: dict[str, list[dict]] = {}
    for (row, _, _), one in records.items():
        for goal, utilities in one["relative_utility"].items():
            for name in (f"{goal.upper()}, {row.removeprefix('BAMS, ')}", f"{goal.upper()}, all"):
                found.setdefault(name, []).append(utilities)

    def cell(values: list[float]) -> dict[str, float]:
        return dict(zip(("mean", "standard_error", "n"), (*mean_and_error(values), len(values)), strict=True))

    return {name: {m: cell([one[m] for one in some]) for m in some[0]} for name, some in sorted(found.items())}


def plot(summary: dict):
    rows = [
        (row, method, cell) for row, cells in summary.items() if row.endswith("all") for method, cell in cells.items()
    ]
    figure, ax = panels(figsize=(7, 0.5 + 0.32 * len(rows)))
    for i, (_, method, cell) in enumerate(rows):
        color = BLUE if method == "default" else ORANGE
        error = np.nan_to_num(cell["standard_error"])
        ax.errorbar(cell["mean"], i, xerr=error, fmt="o" if method == "default" else "s", color=color, capsize=3)
    ax.axvline(0.96, color="#8a8a8a", ls="--", lw=1)
    ax.set_yticks(range(len(rows)), [f"{row.partition(',')[0]}: {method}  ({cell['n']})" for row, method, cell in rows])
    ax.set_ylim(len(rows) - 0.5, -0.5)
    ax.set(xlabel="true utility of the pick / best in the pool, mean ± standard error", xlim=(0, 1.03))
    return figure


def report(records):
    summary = summarise(records)
    cells = [(row, method, cell) for row, some in summary.items() for method, cell in some.items()]
    shown = [[row, m, f"{cell['mean']:.3f} ± {cell['standard_error']:.3f}", cell["n"]] for row, m, cell in cells]
    table(("problems", "method", "relative utility", "n"), shown)
    means = {goal: summary[f"{goal}, all"]["default"]["mean"] for goal in GOALS if f"{goal}, all" in summary}
    targets = [target(f"mean relative utility of {goal} by default", mean, ">=", 0.96) for goal, mean in means.items()]
    return {"table": summary}, plot(summary), targets


if __name__ == "__main__":
    rows = [*((row, "pes") for row in PES_ROWS), *((row, "bams") for row in BAMS_ROWS)]
    keys = [(*row, repeat) for repeat, row in product(range(REPEATS), rows)]
    small = {(*row, 0): partial(smallest, *row) for row in (rows[0], rows[-1])}
    main(__doc__, keys, record, report, small)
