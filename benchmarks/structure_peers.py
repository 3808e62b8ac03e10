"""How does our compositional kernel search compare with its peers?

    python benchmarks/structure_peers.py --install --python3.10 PATH    # once: their environments beside this file
    python benchmarks/structure_peers.py            # 8 problems, about 40 minutes of CPU time, resumable
    python benchmarks/structure_peers.py --quick    # the first problem

Ours: ``pma.search.compositional_kernel_search`` with SE, PER, LIN and RQ, three levels, greedy, by Laplace evidence,
otherwise defaults; predictions of the best kernel (MGP) and averaged over all kernels fitted (their two moments).

GPy-ABCD: BIC, five random restarts a kernel and L-BFGS, as by default, predictions at the optimum. It has no RQ and no
mean function, and its PER lacks the constant that ours has; so its bases are SE (which it leaves out by default), PER,
LIN and the constant C. Two rounds of its basic rules (add, multiply, replace) with beam 1, which makes three levels as
well. Its larger default (beam 3 and 2, change points) is not run. One seed: its restarts often miss the best optimum,
and another seed may find it. Pins numpy 1.23.5; Python 3.10 has wheels for all it needs.

gallifrey: AutoGP's sequential Monte Carlo in JAX, 8 particles, 50 moves over structures a step and 10 HMC steps a move
as in its README, but 5 steps of the linear schedule in place of 10: each compiles anew, for about 20 s, so that 10
steps end at the limit, and 5 sometimes do. Trees of depth 3 (at most 4 base kernels) from linear with shift, periodic,
SE and RQ. Its predictions are the mixture of its particles, scored as such.

Time is CPU time of search and predictions in a process of one thread, on one CPU, compilation included and imports not:
it stands for wall time on an idle machine; wall time is in the JSON. A run is ended after 240 s of CPU time.

NLL is the mean over test points of -log p(y*), noise included, y in units of the standard deviation of the training
data. Series are drawn from kernels whose truth is scored too. *Ahead*: the last fifth is predicted from what came
before; *between*: a random fifth from the others.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import contextlib
import io
import json
import subprocess
import sys
import tempfile
import time
import warnings
from itertools import product
from pathlib import Path
from unittest import mock

import numpy as np

HERE = Path(__file__).parent
ENVIRONMENTS = HERE / ".venv-structure-peers"
REQUIREMENTS = {"gpy_abcd": "GPy-ABCD==1.2.3", "gallifrey": "gallifrey==0.1.1"}
METHODS = ("ours", "gpy_abcd", "gallifrey")
NAMES = {
    "ours": "ours, best kernel",
    "ours_average": "ours, all kernels",
    "gpy_abcd": "GPy-ABCD",
    "gallifrey": "gallifrey",
    "truth": "truth",
}
BASES = ("SE", "PER", "LIN", "RQ")
DEPTH = 3
CPU_SECONDS = 240
PARTICLES, STEPS, MOVES, HMC_STEPS = 8, 5, 50, 10
NOISE = 0.1
ENDED_BY_LIMIT = -24  # SIGXCPU


def _se(r, lengthscale):
    return np.exp(-0.5 * np.square(r / lengthscale))


def _per(r, period, lengthscale):
    return np.exp(-2 * np.square(np.sin(np.pi * r / period) / lengthscale))


# Of x in [0, 1.25]; the last fifth of the points is beyond 1.
SERIES = {
    "SE + PER": lambda x, z: _se(x - z, 0.3) + 0.5 * _per(x - z, 0.12, 1.0),
    "LIN + SE * PER": lambda x, z: 9 * (x - 0.5) * (z - 0.5) + _se(x - z, 0.8) * _per(x - z, 0.15, 0.8),
    "LIN * PER": lambda x, z: 4 * (x + 0.2) * (z + 0.2) * _per(x - z, 0.2, 1.0),
}


def split(x: np.ndarray, y: np.ndarray, test: np.ndarray) -> dict[str, np.ndarray]:
    """Inputs from 0 to 1 and outputs standardised, by the training data."""
    low, high, mean, sd = x[~test].min(), x[~test].max(), y[~test].mean(), y[~test].std()
    x, y = (x - low) / (high - low), (y - mean) / sd
    return {"x": x[~test], "y": y[~test], "x_test": x[test], "y_test": y[test], "sd": sd, "mean": mean}


def draw(name: str, seed: int) -> dict[str, np.ndarray]:
    """A series from a kernel, 100 points to train on and 25 ahead, with the moments that the truth predicts."""
    x = np.linspace(0, 1.25, 125)
    K = SERIES[name](x[:, None], x[None, :])
    rng = np.random.default_rng(seed)
    y = np.linalg.cholesky(K + NOISE**2 * np.eye(len(x))) @ rng.normal(size=len(x))
    test = np.arange(len(x)) >= 100
    data = split(x, y, test)
    weights = np.linalg.solve(K[np.ix_(~test, ~test)] + NOISE**2 * np.eye(100), K[np.ix_(~test, test)])
    variance = np.diag(K)[test] - np.sum(K[np.ix_(~test, test)] * weights, 0) + NOISE**2
    return data | {
        "true_mean": (y[~test] @ weights - data["mean"]) / data["sd"],
        "true_variance": variance / data["sd"] ** 2,
    }


def problems() -> dict[str, dict[str, np.ndarray]]:
    from pymc_active import datasets

    X, y = datasets.airline()
    year, passengers = X["year"].to_numpy(), y.to_numpy()
    X, y = datasets.mauna_loa()
    decades, co2 = X["year"].to_numpy()[::3], y.to_numpy()[::3]
    found = {
        "airline, ahead": split(year, passengers, np.arange(len(year)) >= 115),
        "CO2, ahead": split(decades, co2, np.arange(len(co2)) >= int(0.8 * len(co2))),
        **{f"{name}, ahead": draw(name, seed) for seed, name in enumerate(SERIES)},
    }
    for seed in range(3):
        rows = np.random.default_rng(seed).permutation(len(year))[115:]
        found[f"airline, between #{seed}"] = split(year, passengers, np.isin(np.arange(len(year)), rows))
    return found


def run_ours(data: dict) -> dict:
    import pymc_active as pma

    # Names are loaded when they are first used.
    _ = pma.search.compositional_kernel_search, pma.predict

    def run():
        found = pma.search.compositional_kernel_search(
            data["x"][:, None], data["y"], bases=BASES, depth=DEPTH, random_seed=0, progressbar=False
        )
        parts = {"ours": pma.predict(found.best, data["x_test"][:, None])}
        searched = time.process_time()
        parts["ours_average"] = pma.predict(found.fits, data["x_test"][:, None])
        moments = {key: ([1.0], [p.f_mean.to_numpy()], [p.y_variance.to_numpy()]) for key, p in parts.items()}
        table = found.table
        probabilities = table.probability.to_numpy()
        return moments, {
            "expression": str(found.history.best.iloc[-1]),
            "n_kernels": table.sizes["model"],
            "n_effective_kernels": float(1 / np.nansum(probabilities**2)),
            "averaging_seconds": time.process_time() - searched,
        }

    return timed(run)


def run_gpy_abcd(data: dict) -> dict:
    import GPy_ABCD
    from GPy_ABCD.KernelExpansion import grammar

    bases = ("SE", "PER", "LIN", "C")

    def run():
        grammar.base_kerns_for_prod = frozenset(bases)
        models, *_ = GPy_ABCD.explore_model_space(
            data["x"],
            data["y"],
            start_kernels=bases,
            p_rules=list(GPy_ABCD.production_rules_by_type["basic"].values()),
            rounds=DEPTH - 1,
            beam=1,
            model_list_fitter=GPy_ABCD.fit_mods_not_parallel,
            verbose=False,
        )
        mean, variance = models[0].model.predict(data["x_test"][:, None])
        return {"gpy_abcd": ([1.0], [mean[:, 0]], [variance[:, 0]])}, {
            "expression": str(models[0].kernel_expression),
            "n_kernels": len(models),
        }

    np.random.seed(0)  # noqa: NPY002 - where its restarts come from
    return timed(run)


def run_gallifrey(data: dict) -> dict:
    import jax.numpy as jnp
    import jax.random as jr
    from gallifrey.gpconfig import GPConfig, LinearWithShiftAtom, PeriodicAtom, RationalQuadraticAtom, RBFAtom
    from gallifrey.model import GPModel
    from gallifrey.schedule import LinearSchedule

    names = ("LIN", "PER", "SE", "RQ", "+", "*")
    config = GPConfig(
        max_depth=3,
        atoms=[LinearWithShiftAtom(), PeriodicAtom(), RBFAtom(), RationalQuadraticAtom()],
        node_probabilities=jnp.array([1.0, 1.0, 1.0, 1.0, 0.5, 0.5]),
    )

    def infix(kernel) -> str:
        stack: list[str] = []
        for node in np.asarray(kernel.post_order_expression.value):
            if node < 0:
                break
            if node < 4:
                stack.append(names[node])
            else:
                right, left = stack.pop(), stack.pop()
                stack.append(f"({left} {names[node]} {right})")
        return stack[-1]

    def run():
        model_key, search_key = jr.split(jr.PRNGKey(0))
        model = GPModel(
            model_key, x=jnp.array(data["x"]), y=jnp.array(data["y"]), num_particles=PARTICLES, config=config
        )
        schedule = LinearSchedule.generate(len(data["x"]), STEPS)
        state, _ = model.fit_smc(search_key, annealing_schedule=schedule, n_mcmc=MOVES, n_hmc=HMC_STEPS)
        model = model.update_state(state)
        mixture = model.get_mixture_distribution(model.x_transform.apply(jnp.array(data["x_test"])))
        parts = mixture.components_distribution
        weights = np.exp(np.asarray(state.log_weights))
        means = np.asarray(model.y_transform.unapply_mean(parts.mean()))
        variances = np.asarray(model.y_transform.unapply_var(parts.variance()))
        heaviest = model.get_particles()[int(np.argmax(weights))]
        return {"gallifrey": (weights / weights.sum(), means, variances)}, {"expression": infix(heaviest.kernel)}

    return timed(run)


def timed(run) -> dict:
    """CPU and wall seconds of ``run``, and the weights, means and variances of the mixtures it predicts."""
    wall, cpu = time.perf_counter(), time.process_time()
    mixtures, told = run()
    seconds = {"seconds": time.process_time() - cpu, "wall_seconds": time.perf_counter() - wall}
    as_lists = {key: [np.asarray(part).tolist() for part in parts] for key, parts in mixtures.items()}
    return {"mixtures": as_lists, **told, **seconds}


def run_child(arguments: dict) -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS + 5))
    warnings.filterwarnings("ignore")
    data = dict(np.load(arguments["data"]))
    with contextlib.redirect_stdout(io.StringIO()):
        result = globals()[f"run_{arguments['method']}"](data)
    print(json.dumps(result))


def python(peer: str) -> str:
    return str(ENVIRONMENTS / peer / "bin" / "python")


def install(python_3_10: str) -> None:
    for peer, requirement in REQUIREMENTS.items():
        interpreter = python_3_10 if peer == "gpy_abcd" else sys.executable
        subprocess.run([interpreter, "-m", "venv", ENVIRONMENTS / peer], check=True)
        subprocess.run([python(peer), "-m", "pip", "install", requirement], check=True)


def score(mixture: list, y: np.ndarray) -> dict:
    """NLL of the mixture and of the Gaussian with its moments; RMSE of its mean; share of y in the central 95 %."""
    from scipy.special import logsumexp

    weights, means, variances = map(np.array, mixture)
    logs = -0.5 * np.log(2 * np.pi * variances) - 0.5 * np.square(y - means) / variances
    mean = weights @ means
    variance = weights @ (variances + np.square(means - mean))
    gaussian = 0.5 * np.log(2 * np.pi * variance) + 0.5 * np.square(y - mean) / variance
    return {
        "nll": float(-logsumexp(logs, axis=0, b=weights[:, None]).mean()),
        "nll_of_moments": float(gaussian.mean()),
        "rmse": float(np.sqrt(np.mean(np.square(y - mean)))),
        "coverage_95": float(np.mean(np.abs(y - mean) < 1.96 * np.sqrt(variance))),
    }


def run_one(data: dict, path: Path, method: str) -> dict:
    """Scores of a method's predictions by name, or why there are none."""
    from _report import ONE_XLA_THREAD, SOURCE_AT_START, child

    np.savez(path, **data)
    # It spreads its particles over devices, one each.
    devices = f"--xla_force_host_platform_device_count={PARTICLES}"
    executable = sys.executable if method == "ours" else python(method)
    try:
        with mock.patch.object(sys, "executable", executable):
            arguments = {"data": str(path), "method": method}
            result = child(arguments, threads=1, environment={"XLA_FLAGS": f"{devices} {ONE_XLA_THREAD}"})
    except RuntimeError as error:
        if str(error).endswith(f"code {ENDED_BY_LIMIT}"):
            return {method: {"failed": f"more than {CPU_SECONDS} s of CPU time"}}
        return {method: {"failed": str(error).rpartition(" ended ")[2] or str(error)}}
    mixtures = result.pop("mixtures")
    if method == "ours":
        result["source"] = SOURCE_AT_START
    return {key: result | score(mixture, data["y_test"]) for key, mixture in mixtures.items()}


def _slug(name: str) -> str:
    return name.translate(str.maketrans({" ": "_", ",": "", "+": "plus", "*": "times", "#": ""}))


def plot(records: dict):
    import matplotlib.pyplot as plt
    from _report import BLUE, GREY, ORANGE
    from matplotlib.ticker import LogLocator, NullFormatter

    colors = dict(zip(NAMES, (BLUE, "#7fb2dd", ORANGE, "#7a5195", GREY), strict=True))
    markers = dict(zip(NAMES, "osD^|", strict=True))
    fig, axes = plt.subplots(1, 3, figsize=(12, 0.5 * len(records) + 1.6), sharey=True, layout="constrained")
    for i, rows in enumerate(records.values()):
        for key, row in rows.items():
            if "failed" in row:
                continue
            style = {"color": colors[key], "marker": markers[key], "ms": 14 if key == "truth" else 7, "ls": ""}
            label = (
                NAMES[key] if i == min(j for j, r in enumerate(records.values()) if "nll" in r.get(key, {})) else None
            )
            axes[0].plot(row["nll"], i, alpha=0.85, label=label, **style)
            axes[1].plot(row["rmse"], i, alpha=0.85, **style)
            if "seconds" in row and key != "ours_average":
                axes[2].plot(row["seconds"], i, alpha=0.85, **style)
    axes[0].set_yticks(range(len(records)), list(records))
    axes[0].invert_yaxis()
    axes[0].set_xscale("symlog", linthresh=2, linscale=2)
    ticks = [-2, -1, 0, 1, 2, 5, 10, 20, 50, 100, 1000]
    axes[0].set_xticks(ticks, list(map(str, ticks)), minor=False)
    low, high = axes[0].dataLim.intervalx
    axes[0].set_xlim(low - 0.3, high + 0.3)
    axes[0].set_xlabel("test NLL, nats a point (standardised y)")
    axes[1].set_xlabel("test RMSE, sd of the training data")
    axes[2].set_xlabel(f"CPU seconds, one thread (ended at {CPU_SECONDS})")
    for ax in axes[1:]:
        ax.set_xscale("log")
        ax.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        ax.xaxis.set_major_formatter("{x:g}")
        ax.xaxis.set_minor_formatter(NullFormatter())
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(axis="y", lw=0.3)
    fig.legend(loc="outside lower center", ncols=len(NAMES), frameon=False)
    return fig


def main() -> None:
    # The peers' children read only what is above: the report needs a newer Python than GPy-ABCD has.
    if "--child" in sys.argv:
        run_child(json.loads(sys.argv[sys.argv.index("--child") + 1]))
        return
    from _report import RESULTS, SOURCE_AT_START, parser, table, write

    command = parser(__doc__)
    command.add_argument("--install", action="store_true", help="make the environments for the peers")
    command.add_argument("--python3.10", dest="old_python", default="python3.10", help="interpreter for GPy-ABCD")
    command.add_argument("--max-minutes", type=float, default=np.inf, help="start no run after this time")
    arguments = command.parse_args()
    if arguments.install:
        install(arguments.old_python)
        return
    if not all(Path(python(peer)).exists() for peer in REQUIREMENTS):
        command.error("the peers have no environments yet: run with --install first")
    start, parts = time.monotonic(), RESULTS / "structure_peers_parts"
    records: dict[str, dict]
    parts.mkdir(parents=True, exist_ok=True)
    chosen = dict(list(problems().items())[: 1 if arguments.quick else None])
    records = {name: {} for name in chosen}
    # The slowest method last, so that a short run has the others complete.
    for method, (name, data) in product(METHODS, chosen.items()):
        # Our results with another version of the package are made anew.
        version = SOURCE_AT_START if method == "ours" else "peer"
        part = parts / f"{_slug(name)}_{method}_{version}.json"
        if not part.exists():
            if time.monotonic() - start > 60 * arguments.max_minutes:
                records[name][method] = {"failed": "not run yet"}
                continue
            with tempfile.TemporaryDirectory() as folder:
                part.write_text(json.dumps(run_one(data, Path(folder) / "data.npz", method)))
        records[name] |= json.loads(part.read_text())
        print(f"{name}: {method} done", flush=True)
    for name, data in chosen.items():
        if "true_mean" in data:
            truth = [[1.0], [data["true_mean"]], [data["true_variance"]]]
            records[name]["truth"] = {"expression": name.rpartition(",")[0], **score(truth, data["y_test"])}
    print()
    table(
        ("problem", "method", "NLL", "RMSE", "in 95 %", "CPU s", "kernel"),
        [
            (name, NAMES[key], row["failed"], "", "", "", "")
            if "failed" in row
            else (
                name,
                NAMES[key],
                f"{row['nll']:.2f}",
                f"{row['rmse']:.3f}",
                f"{row['coverage_95']:.2f}",
                f"{row['seconds']:.0f}" if "seconds" in row else "",
                row["expression"],
            )
            for name, rows in records.items()
            for key, row in rows.items()
        ],
    )
    write(
        __doc__,
        quick=arguments.quick,
        threads="one, on one CPU",
        targets=[],
        results={"requirements": REQUIREMENTS, "noise_sd_of_the_series": NOISE, "problems": records},
        figure=plot(records),
    )


if __name__ == "__main__":
    main()
