"""How does our compositional kernel search compare with its peers?

    python benchmarks/structure_peers.py --install PYTHON3.10   # once: the peers' environments beside this file

Eight problems, five methods (two of them ours, from one search), three seeds of each method; the data are the same for
all methods and seeds, so that the range over seeds is that of the searches alone. Some three hours of CPU time, most of
them gallifrey's. Records are made breadth first and kept in ``results/structure_peers.jsonl``.

Ours: ``pma.search.compositional_kernel_search`` with SE, PER, LIN and RQ, three levels, greedy, by Laplace evidence,
otherwise defaults; predictions of the best kernel (MGP) and averaged over all kernels fitted (their two moments).

GPy-ABCD: BIC, five random restarts a kernel and L-BFGS, as by default, predictions at the optimum. Two rounds of its
basic rules (add, multiply, replace) with beam 1, which makes three levels as well. It has no RQ and no mean function,
and its PER lacks the constant that ours has. The constant C among its bases gives it these, at the price of one of its
three levels; so it runs twice, with SE, PER, LIN and C, and without C. (By default it leaves out SE and has C and white
noise.) Its larger default (beam 3 and 2, change points) is not run. Pins numpy 1.23.5; Python 3.10 has wheels for all
it needs.

gallifrey: AutoGP's sequential Monte Carlo in JAX, 8 particles, 50 moves over structures a step and 10 HMC steps a move
as in its README, but 5 steps of the linear schedule in place of 10: each compiles anew, for about 20 s. Trees of depth
3 (at most 4 base kernels) from linear with shift, periodic, SE and RQ. Its predictions are the mixture of its
particles, scored as such.

Time is CPU time of search and predictions in a process of one thread, on one CPU, compilation included and imports not:
it stands for wall time on an idle machine; wall time is in the records. A run is ended after 400 s of CPU time; that is
a record too.

Inputs run from 0 to 1 for all. gallifrey scales them itself; GPy-ABCD draws its starting points around 1 whatever the
data, so that its luck may be another in other units.

NLL is the mean over test points of -log p(y*), noise included, y in units of the standard deviation of the training
data. Three series are drawn from kernels, once each, and the truth is scored too. *Ahead*: the last fifth is predicted
from what came before; *between*: a random fifth from the others.
"""

import contextlib
import io
import json
import subprocess
import sys
import tempfile
import time
import warnings
from functools import partial
from pathlib import Path
from unittest import mock

import _one_thread  # noqa: F401
import numpy as np

HERE = Path(__file__).parent
ENVIRONMENTS = HERE / ".venv-structure-peers"
REQUIREMENTS = {"gpy_abcd": "GPy-ABCD==1.2.3", "gallifrey": "gallifrey==0.1.1"}
# What has a process of its own, the slowest last.
METHODS = ("ours", "gpy_abcd", "gpy_abcd_no_constant", "gallifrey")
NAMES = {
    "ours": "ours, best kernel",
    "ours_average": "ours, all kernels",
    "gpy_abcd": "GPy-ABCD",
    "gpy_abcd_no_constant": "GPy-ABCD without C",
    "gallifrey": "gallifrey",
    "truth": "truth",
}
REPEATS = 3
BASES = ("SE", "PER", "LIN", "RQ")
DEPTH = 3
CPU_SECONDS = 400
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


def run_ours(data: dict, seed: int, depth: int = DEPTH) -> dict:
    import pymc_active as pma

    # Names are loaded when they are first used.
    _ = pma.search.compositional_kernel_search, pma.predict

    def run():
        found = pma.search.compositional_kernel_search(
            data["x"][:, None], data["y"], bases=BASES, depth=depth, random_seed=seed, progressbar=False
        )
        parts = {"ours": pma.predict(found.best, data["x_test"][:, None])}
        searched = time.process_time()
        parts["ours_average"] = pma.predict(found.fits, data["x_test"][:, None])
        moments = {key: ([1.0], [p.f_mean.to_numpy()], [p.y_variance.to_numpy()]) for key, p in parts.items()}
        table = found.table
        probabilities = table.probability.to_numpy()
        return moments, {
            "expression": str(found.best.gpm.expression),
            "n_kernels": table.sizes["model"],
            "n_effective_kernels": float(1 / np.nansum(probabilities**2)),
            "averaging_seconds": time.process_time() - searched,
        }

    return timed(run)


def run_gpy_abcd(data: dict, seed: int, bases: tuple[str, ...] = ("SE", "PER", "LIN", "C")) -> dict:
    import GPy_ABCD
    from GPy_ABCD.KernelExpansion import grammar

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
        name = "gpy_abcd" if "C" in bases else "gpy_abcd_no_constant"
        return {name: ([1.0], [mean[:, 0]], [variance[:, 0]])}, {
            "expression": str(models[0].kernel_expression),
            "n_kernels": len(models),
        }

    np.random.seed(seed)  # noqa: NPY002 - where its restarts come from
    return timed(run)


def run_gpy_abcd_no_constant(data: dict, seed: int) -> dict:
    return run_gpy_abcd(data, seed, ("SE", "PER", "LIN"))


def run_gallifrey(data: dict, seed: int) -> dict:
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
        model_key, search_key = jr.split(jr.PRNGKey(seed))
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
    seconds = {"cpu_seconds": round(time.process_time() - cpu, 2), "wall_seconds": round(time.perf_counter() - wall, 2)}
    as_lists = {key: [np.asarray(part).tolist() for part in parts] for key, parts in mixtures.items()}
    return {"mixtures": as_lists, **told, **seconds}


def run_child(arguments: dict) -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS + 5))
    warnings.filterwarnings("ignore")
    data = dict(np.load(arguments["data"]))
    with contextlib.redirect_stdout(io.StringIO()):
        result = globals()[f"run_{arguments['method']}"](data, arguments["seed"], **arguments["how"])
    print(json.dumps(result))


def python(method: str) -> str:
    """Interpreter that a method runs with."""
    peer = method.removesuffix("_no_constant")
    return sys.executable if peer == "ours" else str(ENVIRONMENTS / peer / "bin" / "python")


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


def record(row: str, method: str, repeat: int, **how: int) -> dict | None:
    """Scores of a method's predictions by name, or why there are none; None without its environment."""
    import resource

    from _report import ONE_XLA_THREAD, child

    if not Path(python(method)).exists():
        return None
    data = problems()[row]
    # It spreads its particles over devices, one each.
    devices = f"--xla_force_host_platform_device_count={PARTICLES}"
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory() as folder, mock.patch.object(sys, "executable", python(method)):
        path = f"{folder}/data.npz"
        np.savez(path, **data)
        arguments = {"data": path, "method": method, "seed": repeat, "how": how}
        try:
            result = child(arguments, threads=1, environment={"XLA_FLAGS": f"{devices} {ONE_XLA_THREAD}"})
        except RuntimeError as error:
            total = resource.getrusage(resource.RUSAGE_CHILDREN)
            seconds = total.ru_utime + total.ru_stime - used.ru_utime - used.ru_stime
            code = str(error).rpartition(" ended with code ")[2]
            is_limit = code == str(ENDED_BY_LIMIT)
            reason = f"more than {CPU_SECONDS} s of CPU time" if is_limit else f"ended with code {code}"
            return {"failed": reason, "cpu_seconds": round(seconds, 2)}
    mixtures = result.pop("mixtures")
    return result | {"scores": {name: score(mixture, data["y_test"]) for name, mixture in mixtures.items()}}


def spread(values: list[float]) -> dict[str, float]:
    """Over seeds."""
    return {"median": float(np.median(values)), "lowest": min(values), "highest": max(values)}


def summarise(records: dict) -> dict:
    """Problem, method: scores and times over the seeds that finished, and why the others did not."""
    summary: dict = {}
    for row, data in problems().items():
        for method in METHODS:
            runs = [records[key] for key in sorted(records) if key[:2] == (row, method)]
            finished = [one for one in runs if "failed" not in one]
            for name in ("ours", "ours_average") if method == "ours" else (method,):
                if not runs:
                    continue
                cell: dict = {
                    "runs": len(runs),
                    "finished": len(finished),
                    "failed": sorted({one["failed"] for one in runs if "failed" in one}),
                    "expressions": [one["expression"] for one in finished],
                }
                if finished:
                    scores = [one["scores"][name] for one in finished]
                    cell |= {key: spread([one[key] for one in scores]) for key in scores[0]}
                    cell["n_kernels"] = [one.get("n_kernels") for one in finished]
                if name != "ours_average":
                    cell["cpu_seconds"] = spread([one["cpu_seconds"] for one in runs])
                summary.setdefault(row, {})[name] = cell
        if "true_mean" in data and row in summary:
            truth = score([[1.0], [data["true_mean"]], [data["true_variance"]]], data["y_test"])
            summary[row]["truth"] = {key: spread([value]) for key, value in truth.items()}
    return summary


def nll_less_ours(summary: dict) -> dict[str, dict[str, dict[str, float]]]:
    """Peer, problem: its median and lowest NLL less our best kernel's median; negative where the peer is better."""
    return {
        method: {
            row: {k: cells[method]["nll"][k] - cells["ours"]["nll"]["median"] for k in ("median", "lowest")}
            for row, cells in summary.items()
            if all("nll" in cells.get(name, {}) for name in ("ours", method))
        }
        for method in METHODS[1:]
    }


def over_seeds(cell: dict, key: str, form: str) -> str:
    """Median (lowest to highest) over seeds."""
    if key not in cell:
        return ""
    median, lowest, highest = (f"{cell[key][k]:{form}}" for k in ("median", "lowest", "highest"))
    return median if lowest == highest else f"{median} ({lowest} to {highest})"


def plot(summary: dict):
    from _report import panels

    names = [name for name in NAMES if name != "truth" and any(name in cells for cells in summary.values())]
    figure, axes = panels(1, 3, figsize=(12, 0.85 * len(summary) + 1.4), sharey=True)
    for ax, key in zip(axes, ("nll", "rmse", "cpu_seconds"), strict=True):
        for k, name in enumerate(names):
            there = [(i + 0.15 * (k - 2), c[name]) for i, c in enumerate(summary.values()) if key in c.get(name, {})]
            for y, cell in there:
                ax.plot([cell[key]["lowest"], cell[key]["highest"]], [y, y], color=f"C{k}", lw=2, alpha=0.6)
                # Time is known, or how long it was allowed, where there is nothing to score.
                face = f"C{k}" if cell["finished"] else "none"
                label = NAMES[name] if (y, cell) == there[0] and key == "nll" else None
                ax.plot(cell[key]["median"], y, "osDv^"[k], color=f"C{k}", mfc=face, label=label)
        for i, cells in enumerate(summary.values()):
            if key in cells.get("truth", {}):
                ax.plot([cells["truth"][key]["median"]] * 2, [i - 0.4, i + 0.4], color="black", lw=1.2)
        ax.grid(axis="x", lw=0.3)
    axes[0].set_yticks(range(len(summary)), list(summary))
    axes[0].set_ylim(len(summary) - 0.5, -0.5)
    axes[0].set_xscale("symlog", linthresh=2, linscale=2)
    axes[0].set_xlabel("test NLL, nats a point (standardised y)")
    axes[1].set(xscale="log", xlabel="test RMSE, sd of the training data")
    axes[2].set(xscale="log", xlabel=f"CPU seconds, one thread (open: all ended at {CPU_SECONDS})")
    # Black lines are the truth.
    figure.legend(loc="outside lower center", ncols=len(NAMES))
    return figure


def report(records):
    from _report import table_of

    summary = summarise(records)
    forms = {"nll": ".2f", "rmse": ".3f", "coverage_95": ".2f", "cpu_seconds": ".0f"}
    table_of([
        {
            "problem": row,
            "method": NAMES[name],
            "finished": f"{cell['finished']} of {cell['runs']}" if "runs" in cell else "",
            **{key: over_seeds(cell, key, form) for key, form in forms.items()},
            "kernels": "; ".join(dict.fromkeys(cell.get("expressions", []))),
        }
        for row, cells in summary.items()
        for name, cell in cells.items()
    ])  # fmt: skip
    found = {name for cells in summary.values() for name in cells}
    not_run = [*(NAMES[m] for m in METHODS if m not in found), *(row for row in problems() if row not in summary)]
    results = {
        "requirements": REQUIREMENTS,
        "names": {name: label for name, label in NAMES.items() if name in found},
        "limit_cpu_seconds": CPU_SECONDS,
        "noise_sd_of_the_series": NOISE,
        "nll_less_ours": nll_less_ours(summary),
        "not_run": not_run,
        "problems": summary,
    }
    return results, plot(summary), []


if __name__ == "__main__":
    # The peers' children read only what is above: the rest needs a newer Python than GPy-ABCD has.
    if "--child" in sys.argv:
        run_child(json.loads(sys.argv[sys.argv.index("--child") + 1]))
    elif "--install" in sys.argv:
        install(sys.argv[-1])
    else:
        from _records import main

        keys = [(row, method, repeat) for repeat in range(REPEATS) for method in METHODS for row in problems()]
        row = f"{next(iter(SERIES))}, ahead"
        small = {(row, method, 0): partial(record, row, method, 0, depth=1) for method in METHODS[:1]}
        main(__doc__, keys, record, report, small)
