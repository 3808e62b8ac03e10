"""How much of the best possible information does each method's pick bring, and at what cost?

    python benchmarks/decision_regret.py --truth             # long MCMC on 50 problems, about 40 minutes, resumable
    python benchmarks/decision_regret.py --verify            # the two samplers against each other
    python benchmarks/decision_regret.py                     # score every method on the problems that are stored
    python benchmarks/decision_regret.py --methods draws     # one method, a table on the screen, nothing is written

Problems are drawn from the model itself: ARD with D = 2, 5, 10 and embeddings of 10 inputs in 2 components, 8 to 60
points, noise sd 0.1 or 0.01 (unknown, as all hyperparameters), pools of 300. The true utility of a candidate is the
mutual information of y* and the hyperparameters under 400 draws from their exact posterior: for ARD from NUTS
(``pma.sample``, 4 chains of 1,000), for embeddings, whose modes NUTS does not leave, from sequential Monte Carlo
(prior to posterior by annealing additional noise, Hamiltonian moves, two islands of 256 particles weighted by their
evidence). Relative utility is that of the pick over the best in the pool. The error of this truth is told by its two
halves (chains 1-2 and 3-4, or the islands): the relative utility, under one, of the pick of the other. "trace 60" is
mutual information under 60 further draws of the truth: what 60 predictions can reach. Costs are times for a pool of
10,000 over that of its plain prediction (MAP), the one-off work of the first call apart. Symmetrised KL and NLL of
predictions are those of ``pma.check``, at 50 test points.

Target: mean relative utility of at least 0.95 at less than 60 predictions, by one of "modes", "draws", "cubature".
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import time
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from _report import RESULTS, parser, target, write
from scipy.special import logsumexp, softmax

import pymc_active as pma
from pymc_active.information.mixture_entropy import gaussian_entropy, mixture_entropy, mixture_moments, symmetrized_kl
from pymc_active.models.traces import trace_thetas
from pymc_active.posterior.base import Posterior
from pymc_active.posterior.factor import LOG_2PI
from pymc_active.predictions.moments import draw_moments
from pymc_active.support.threads import one_blas_thread

CACHE = RESULTS / "decision_regret_cache"
N_POOL, N_TEST, REPEATS = 300, 50, 5
# Draws of each half of the truth; further ones for the method "trace 60".
N_HALF, N_SPARE = 200, 30
# Sequential Monte Carlo: additional noise in sds of y, leapfrog steps, trajectories at the last level.
LEVELS = np.append(np.geomspace(3.0, 0.01, 80), 0.0)
PARTICLES, LEAPFROGS, LAST_SWEEPS = 256, 8, 24


class Family(NamedTuple):
    """One kind of problem; ``d`` is the number of components of an embedding, 0 for ARD."""

    D: int
    d: int
    n: int
    noise: float

    @property
    def label(self) -> str:
        kind = f"{self.D}/{self.d}" if self.d else f"ARD {self.D}"
        return f"{kind}, n = {self.n}, noise {self.noise:g}"


FAMILIES = (
    Family(2, 0, 8, 0.1),
    Family(2, 0, 20, 0.1),
    Family(2, 0, 12, 0.01),
    Family(5, 0, 15, 0.1),
    Family(5, 0, 40, 0.1),
    Family(5, 0, 30, 0.01),
    Family(10, 0, 20, 0.1),
    Family(10, 0, 50, 0.1),
    Family(10, 2, 30, 0.1),
    Family(10, 2, 60, 0.1),
)
# Families whose first problem is sampled by sequential Monte Carlo too, to verify it.
VERIFIED = (0, 2, 3, 7)


class Problem(NamedTuple):
    """Data, a pool and test data of one function, and the model, which holds the data."""

    family: Family
    seed: int
    gpm: pma.GPModel
    pool: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray

    @property
    def stem(self) -> str:
        return "_".join(map(str, (*self.family, self.seed)))

    @property
    def truth(self) -> Any:
        return CACHE / f"{self.stem}.npz"


@cache
def model(D: int, d: int) -> pma.GPModel:
    X, y = np.eye(D), np.zeros(D)
    return pma.embedding_gp(X, y, n_components=d) if d else pma.ard_gp(X, y)


def make(family: Family, seed: int) -> Problem:
    D, d, n, noise = family
    rng = np.random.default_rng((seed, D, d, n, round(1000 * noise)))
    M = rng.normal(size=(d, D)) * 1.25 * np.sqrt(3 / D) if d else np.diag(np.exp(-rng.normal(0.5 * np.log(D), 1, D)))
    scale = 1.0 if d else np.exp(rng.normal())
    half_width = 1.0 if d else 1.7
    X = rng.uniform(-half_width, half_width, (n + N_TEST, D))
    U = X @ M.T
    K = scale**2 * np.exp(-0.5 * np.square(U[:, None] - U).sum(-1)) + noise**2 * np.eye(len(U))
    y = rng.multivariate_normal(np.zeros(len(U)), K, method="cholesky")
    gpm = model(D, d)
    gpm.set_data(X[:n], y[:n])
    pool = rng.uniform(-half_width, half_width, (N_POOL, D))
    return Problem(family, seed, gpm, pool, X[n:], y[n:])


def problems(*, stored: bool = False) -> Iterator[Problem]:
    """All problems, or those whose truth is stored; the families take turns."""
    for seed in range(REPEATS):
        for family in FAMILIES:
            problem = make(family, seed)
            if not stored or problem.truth.exists():
                yield problem


def smc(
    posterior: Posterior, rng: np.random.Generator, n_particles: int = PARTICLES, levels: np.ndarray = LEVELS
) -> tuple[np.ndarray, float, float]:
    """Equally weighted draws of theta, the log evidence, and the smallest effective sample size on the way."""
    center, sd = posterior.prior_scale()
    thetas = center + sd * rng.normal(size=(n_particles, len(center)))
    gradient, value = np.empty_like(thetas), np.empty(n_particles)
    previous = np.array([posterior.prior_value_and_gradient(theta)[0] for theta in thetas])
    log_weight, log_evidence, step, smallest = np.zeros(n_particles), 0.0, 0.1, float(n_particles)
    for level in levels:
        extra = (level * posterior.noise_unit) ** 2
        for k in range(n_particles):
            value[k], gradient[k] = posterior.value_and_gradient(thetas[k], extra)
        log_weight += value - previous
        effective = np.exp(2 * logsumexp(log_weight) - logsumexp(2 * log_weight))
        smallest = min(smallest, effective)
        if effective < n_particles / 2 or level == 0:
            comb = (rng.uniform() + np.arange(n_particles)) / n_particles
            chosen = np.minimum(np.searchsorted(np.cumsum(softmax(log_weight)), comb), n_particles - 1)
            thetas, value, gradient = thetas[chosen], value[chosen], gradient[chosen]
            log_evidence += logsumexp(log_weight) - np.log(n_particles)
            log_weight[:] = 0.0
        for _ in range(LAST_SWEEPS if level == 0 else 1):
            accepted = np.zeros(n_particles)
            for k in range(n_particles):
                theta, energy, slope = thetas[k], value[k], gradient[k]
                momentum, epsilon = rng.normal(size=len(theta)), step * rng.uniform(0.7, 1.3)
                start = energy - 0.5 * momentum @ momentum
                for _ in range(LEAPFROGS):
                    momentum = momentum + 0.5 * epsilon * sd * slope
                    theta = theta + epsilon * sd * momentum
                    energy, slope = posterior.value_and_gradient(theta, extra)
                    if not np.isfinite(energy):
                        break
                    momentum = momentum + 0.5 * epsilon * sd * slope
                accepted[k] = np.exp(min(energy - 0.5 * momentum @ momentum - start, 0.0))
                if rng.uniform() < accepted[k]:
                    thetas[k], value[k], gradient[k] = theta, energy, slope
            step *= np.exp(0.5 * (accepted.mean() - 0.75))
        previous = value.copy()
    return thetas, log_evidence, smallest


def nuts(gpm: pma.GPModel, seed: int) -> tuple[np.ndarray, float, float]:
    """Draws of theta (2 halves, S, P), worst R-hat, smallest bulk ESS."""
    from arviz_stats import ess, rhat

    trace = pma.sample(
        gpm, random_seed=seed, progressbar=False, cores=1, nuts_sampler="pymc", target_accept=0.95
    )  # fmt: skip
    thetas = trace_thetas(gpm, trace).reshape(2, -1, gpm.n_parameters)
    names = [variable.name for variable in gpm.model.free_RVs]
    posterior = trace["posterior"].to_dataset()[names]
    worst = [
        max(float(r.max()) for r in rhat(posterior).values()),
        min(float(e.min()) for e in ess(posterior).values()),
    ]
    return thetas, *worst


def information(means: np.ndarray, variances: np.ndarray, weights: np.ndarray) -> np.ndarray:
    return mixture_entropy(means, variances, weights) - weights @ gaussian_entropy(variances)


def sample_truth(problem: Problem, sampler: str | None = None) -> dict[str, Any]:
    """Draws from the exact posterior, and what follows from them for the pool and the test points."""
    start = time.process_time()
    posterior, rng = problem.gpm.posterior(), np.random.default_rng((problem.seed, 99))
    sampler = sampler or ("smc" if problem.family.d else "nuts")
    log_evidence = np.zeros(2)
    if sampler == "smc":
        with one_blas_thread():
            islands = [smc(posterior, rng) for _ in range(2)]
        thetas = np.stack([i[0] for i in islands])
        log_evidence = np.array([i[1] for i in islands])
        diagnostics = {"log_evidence": log_evidence, "smallest_ess": np.array([i[2] for i in islands])}
    else:
        thetas, worst_rhat, smallest_ess = nuts(problem.gpm, problem.seed)
        diagnostics = {"rhat": worst_rhat, "ess_bulk": smallest_ess}
    thin = np.linspace(0, thetas.shape[1] - 1, N_HALF + N_SPARE).astype(int)
    thetas = thetas[:, rng.permutation(thin)]
    half = softmax(log_evidence)
    draws = thetas[:, :N_HALF].reshape(2 * N_HALF, -1)
    weights = np.repeat(half / N_HALF, N_HALF)
    means, variances, noises = draw_moments(posterior, draws, problem.pool)
    variances += noises
    halves = [
        information(means[s], variances[s], np.full(N_HALF, 1 / N_HALF)) for s in (slice(N_HALF), slice(N_HALF, None))
    ]
    test_means, test_variances, test_noises = draw_moments(posterior, draws, problem.X_test)
    f_mean, f_variance = mixture_moments(test_means, test_variances, weights)
    return {
        "sampler": sampler,
        "thetas": thetas,
        "weights": half,
        "utility": information(means, variances, weights),
        "halves": np.stack(halves),
        "f_mean": f_mean,
        "f_variance": f_variance,
        "y_variance": f_variance + weights @ test_noises,
        "cpu_seconds": time.process_time() - start,
        **diagnostics,
    }


def split_half(truth: Any) -> float:
    a, b = truth["halves"]
    return float(0.5 * (b[a.argmax()] / b.max() + a[b.argmax()] / a.max()))


def extend_truth(limit: float) -> None:
    CACHE.mkdir(parents=True, exist_ok=True)
    start = time.monotonic()
    for problem in problems():
        if time.monotonic() - start > 60 * limit:
            break
        if not problem.truth.exists():
            truth = sample_truth(problem)
            np.savez(problem.truth, **truth)
            told = {
                k: np.round(truth[k], 2) for k in ("log_evidence", "smallest_ess", "rhat", "ess_bulk") if k in truth
            }
            print(
                f"{problem.stem}: {truth['cpu_seconds']:.0f} s, split half {split_half(truth):.3f}, {told}", flush=True
            )


def verify_smc() -> None:
    """Sample some ARD problems by sequential Monte Carlo too."""
    for problem in (make(FAMILIES[i], 0) for i in VERIFIED):
        path = CACHE / f"{problem.stem}_smc.npz"
        if not path.exists():
            np.savez(path, **sample_truth(problem, "smc"))
    for line in smc_against_nuts():
        print(line)


def smc_against_nuts() -> list[dict[str, Any]]:
    """Utilities by both samplers: their correlation over the pool, and of each one's pick under the other."""
    found = []
    for problem in (make(FAMILIES[i], 0) for i in VERIFIED):
        path = CACHE / f"{problem.stem}_smc.npz"
        if path.exists():
            a, b = np.load(problem.truth)["utility"], np.load(path)["utility"]
            found.append({
                "problem": f"{problem.family.label} #{problem.seed}",
                "correlation": float(np.corrcoef(a, b)[0, 1]),
                "mean_utility": [float(a.mean()), float(b.mean())],
                "relative_utility_of_the_others_pick": [float(b[a.argmax()] / b.max()), float(a[b.argmax()] / a.max())],
            })  # fmt: skip
    return found


def bald(method: str, target: str = "y") -> Callable:
    return lambda fit, X: pma.active.bald(fit, X, target=target, method=method, random_seed=0).to_numpy()


# Each takes a fit and candidates; a method that the package does not have raises ValueError and is left out.
SCORES: dict[str, Callable[[pma.LaplaceFit, np.ndarray], np.ndarray]] = {
    "mgp": bald("mgp"),
    "mgp f": bald("mgp", "f"),
    "bbq": bald("bbq"),
    "modes": bald("modes"),
    "draws": bald("draws"),
    "cubature": bald("cubature"),
    "uncertainty": lambda fit, X: pma.active.uncertainty(fit, X).to_numpy(),
}
CONTEXT = ("random", "trace 60", "split half")
GOAL = ("modes", "draws", "cubature")
PREDICTIONS = ("map", "bbq", "mgp", *GOAL)


def fit_problem(problem: Problem, *, warm: bool = False) -> pma.LaplaceFit:
    """The default fit; ``warm`` starts at the modes of an earlier one instead, and takes a tenth of a second."""
    modes = CACHE / f"{problem.stem}_modes.npy"
    if warm and modes.exists():
        starts = [problem.gpm.unflatten(theta) for theta in np.load(modes)]
        return pma.fit_laplace(problem.gpm, start=starts, n_restarts=0, population=0, random_seed=0, progressbar=False)
    fit = pma.fit_laplace(problem.gpm, random_seed=problem.seed, progressbar=False)
    np.save(modes, np.stack([problem.gpm.flatten(mode.point) for mode in fit.modes]))
    return fit


def relative_utility(score: Callable, fit: pma.LaplaceFit, problem: Problem, truth: Any) -> float:
    utility = truth["utility"]
    return float(utility[int(np.argmax(score(fit, problem.pool)))] / utility.max())


def context(fit: pma.LaplaceFit, problem: Problem, truth: Any) -> dict[str, float]:
    spare = truth["thetas"][:, N_HALF:].reshape(2 * N_SPARE, -1)
    weights = np.repeat(truth["weights"] / N_SPARE, N_SPARE)

    def score(fit, X):
        means, variances, noises = draw_moments(fit.best.posterior, spare, X)
        return information(means, variances + noises, weights)

    return {
        "random": float(truth["utility"].mean() / truth["utility"].max()),
        "trace 60": relative_utility(score, fit, problem, truth),
        "split half": split_half(truth),
    }


def predictions(fit: pma.LaplaceFit, problem: Problem, truth: Any) -> dict[str, dict[str, float]]:
    table = {}
    for method in PREDICTIONS:
        try:
            q = {
                k: v.to_numpy()
                for k, v in pma.predict(fit, problem.X_test, method=method, random_seed=0).data_vars.items()
            }
        except ValueError:
            continue
        error = np.square(problem.y_test - q["f_mean"]) / q["y_variance"]
        f, y = (
            symmetrized_kl(truth["f_mean"], truth[k], q["f_mean"], q[k]).mean() for k in ("f_variance", "y_variance")
        )
        nll = 0.5 * np.mean(LOG_2PI + np.log(q["y_variance"]) + error)
        table[method] = {"skl": float(f), "skl_y": float(y), "nll": float(nll)}
    return table


def costs(fit: pma.LaplaceFit, problem: Problem, names: list[str]) -> dict[str, dict[str, float]]:
    """Times for 10,000 candidates in units of their plain prediction: steady, and the extra of the first call."""
    width = np.abs(problem.pool).max()
    X = np.random.default_rng(0).uniform(-width, width, (10_000, problem.pool.shape[1]))

    def seconds(function: Callable) -> float:
        start = time.process_time()
        function()
        return time.process_time() - start

    plain = min(seconds(lambda: pma.predict(fit, X, method="map")) for _ in range(7))
    table = {}
    for name in names:
        # A fit may keep its draws, so each method gets one of its own.
        fresh = fit_problem(problem, warm=True)
        first, *again = (seconds(lambda n=name, f=fresh: SCORES[n](f, X)) for _ in range(4))
        table[name] = {"steady": min(again) / plain, "first": first / plain}
    return table


def available(names: list[str]) -> list[str]:
    fit = fit_problem(make(FAMILIES[0], 0), warm=True)
    found = []
    for name in names:
        try:
            SCORES[name](fit, fit.X)
            found.append(name)
        except ValueError as error:
            print(f"without {name!r}: {error}")
    return found


def evaluate(scores: dict[str, Callable], *, warm: bool = True) -> dict[str, dict[str, list[float]]]:
    """Print the mean relative utility of each ``score(fit, X_pool) -> array`` by family, on the stored problems."""
    table: dict[str, dict[str, list[float]]] = {}
    for problem in problems(stored=True):
        truth = np.load(problem.truth)
        fit = fit_problem(problem, warm=warm)
        cell = table.setdefault(problem.family.label, {name: [] for name in [*scores, *CONTEXT]})
        for name, score in scores.items():
            cell[name].append(relative_utility(score, fit, problem, truth))
        for name, value in context(fit, problem, truth).items():
            cell[name].append(value)
    show(table)
    return table


def show(table: dict[str, dict[str, list[float]]]) -> None:
    names = list(next(iter(table.values())))
    print(f"{'relative utility':28s}" + "".join(f"{name:>15s}" for name in names))
    for label, cell in table.items():
        cells = [f"{np.mean(cell[m]):.2f} ± {_error(cell[m]):.2f}" for m in names]
        print(f"{label:25s}{len(cell[names[0]]):3d}" + "".join(f"{c:>15s}" for c in cells))
    every = {m: [v for cell in table.values() for v in cell[m]] for m in names}
    cells = [f"{np.mean(v):.3f} ± {_error(v):.3f}" for v in every.values()]
    print(f"{'all':25s}{len(every[names[0]]):3d}" + "".join(f"{c:>15s}" for c in cells))


def _error(values: list[float]) -> float:
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")


def run(limit: int | None) -> list[dict]:
    names = available(list(SCORES))
    records = []
    for problem in islice(problems(stored=True), limit):
        truth = np.load(problem.truth)
        start = time.process_time()
        fit = fit_problem(problem)
        record: dict[str, Any] = {"family": problem.family.label, "seed": problem.seed}
        record["fit_cpu_seconds"] = time.process_time() - start
        record["n_modes"] = len(fit.modes)
        scored = {name: relative_utility(SCORES[name], fit, problem, truth) for name in names}
        record["relative_utility"] = scored | context(fit, problem, truth)
        record["best_utility"] = float(truth["utility"].max())
        record["predictions"] = predictions(fit, problem, truth)
        keys = ("sampler", "log_evidence", "smallest_ess", "rhat", "ess_bulk", "cpu_seconds")
        record["truth"] = {key: truth[key].tolist() for key in keys if key in truth}
        if problem.seed == 0:
            record["cost"] = costs(fit, problem, names)
        records.append(record)
        told = " ".join(f"{k} {v:.2f};" for k, v in record["relative_utility"].items())
        print(f"{problem.family.label} #{problem.seed}: {told} fit {record['fit_cpu_seconds']:.1f} s", flush=True)
    return records


def summarize(records: list[dict]) -> dict:
    def stats(values: list[float]) -> dict:
        # A plain fit to few data can be wrong beyond measure, so that a mean shows one problem only.
        mean, median = float(np.mean(values)), float(np.median(values))
        return {"mean": mean, "standard_error": _error(values), "median": median, "n": len(values)}

    by_family: dict[str, list[dict]] = {}
    for r in records:
        by_family.setdefault(r["family"], []).append(r)
    by_family["all"] = records
    regret, predicted = {}, {}
    for label, some in by_family.items():
        regret[label] = {m: stats([r["relative_utility"][m] for r in some]) for m in some[0]["relative_utility"]}
        predicted[label] = {
            metric: {m: stats([r["predictions"][m][metric] for r in some]) for m in some[0]["predictions"]}
            for metric in ("skl", "skl_y", "nll")
        }
    cost = {}
    timed = [r["cost"] for r in records if "cost" in r]
    for m in timed[0]:
        cost[m] = {k: {"median": float(np.median([c[m][k] for c in timed])), "max": max(c[m][k] for c in timed)}
                   for k in ("steady", "first")}  # fmt: skip
    return {"relative_utility": regret, "predictions": predicted, "cost": cost}


def plot(table: dict):
    import matplotlib.pyplot as plt

    regret, cost = table["relative_utility"], table["cost"]
    families, methods = list(regret), list(regret["all"])
    values = np.array([[regret[f][m]["mean"] for m in methods] for f in families])
    fig, ax = plt.subplots(figsize=(0.95 * len(methods) + 2, 0.36 * len(families) + 1.6), layout="constrained")
    ax.imshow(values, cmap="Blues", vmin=0.2, vmax=1.1, aspect="auto")
    for (i, j), value in np.ndenumerate(values):
        ax.text(j, i, f"{value:.2f}", ha="center", va="center", fontsize=9, color="white" if value > 0.75 else "black")
    names = [f"{m}\n{cost[m]['steady']['median']:.2g}x" if m in cost else m for m in methods]
    ax.set_xticks(range(len(methods)), names, fontsize=9)
    ax.set_yticks(range(len(families)), [f"{f}  ({regret[f][methods[0]]['n']})" for f in families], fontsize=9)
    ax.set_title("true information of the pick over the best in the pool; cost in plain predictions", fontsize=10)
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0)
    return fig


def main() -> None:
    command = parser(__doc__)
    command.add_argument("--truth", action="store_true", help="sample the problems that are not stored yet")
    command.add_argument("--verify", action="store_true", help="sequential Monte Carlo against NUTS on ARD problems")
    command.add_argument("--minutes", type=float, default=np.inf, help="begin no new problem of --truth after these")
    command.add_argument("--methods", default="", help="comma-separated: only these, for trying out")
    command.add_argument("--cold", action="store_true", help="with --methods: search the modes anew")
    arguments = command.parse_args()
    warnings.filterwarnings("ignore")
    if arguments.truth:
        extend_truth(arguments.minutes)
        return
    if arguments.verify:
        verify_smc()
        return
    if arguments.methods:
        names = [name.strip() for name in arguments.methods.split(",")]
        unknown = sorted(set(names) - set(SCORES))
        if unknown:
            command.error(f"unknown methods {', '.join(unknown)}; known: {', '.join(SCORES)}")
        evaluate({name: SCORES[name] for name in available(names)}, warm=not arguments.cold)
        return
    records = run(len(FAMILIES) if arguments.quick else None)
    table = summarize(records)
    by_family: dict[str, dict[str, list[float]]] = {}
    for r in records:
        for m, value in r["relative_utility"].items():
            by_family.setdefault(r["family"], {}).setdefault(m, []).append(value)
    show(by_family)
    means = {m: c["mean"] for m, c in table["relative_utility"]["all"].items()}
    goal = {m: means[m] for m in GOAL if m in means} or {m: means[m] for m in ("mgp",)}
    best = max(goal, key=goal.get)
    write(
        __doc__,
        quick=arguments.quick,
        threads="one; costs are CPU times",
        targets=[
            target(f"mean relative utility, best method ({best})", goal[best], ">=", 0.95),
            target(f"its cost, plain predictions of 10,000 ({best})", table["cost"][best]["steady"]["median"], "<", 60),
        ],
        results={
            "n_problems": len(records),
            "smc_against_nuts": smc_against_nuts(),
            "table": table,
            "problems": records,
        },
        figure=plot(table),
    )


if __name__ == "__main__":
    main()
