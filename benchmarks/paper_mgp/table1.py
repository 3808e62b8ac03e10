"""How close are MAP, BBQ, MGP and the mixtures to the exact posterior, by the paper's Table 1?

Table 1 of Garnett, Osborne & Hennig (2014): 10 D random values of an ARD GP with D inputs, 10 D test points 1 to 3
lengthscales from a training point in a random direction, 50 repeats (``_problems.draw_problem``); yacht and
concrete with 50 and 100 random training points, the rest for test, 10 repeats, x and y standardised (the NLL is that
of y in its own units).

MAP, BBQ, MGP, the mixtures over modes and draws are ``predict(fit_laplace(gpm), method=...)``; *fit*
is ``pma.fit``, what users get.

All D + 2 hyperparameters are marginalised under the default priors of ``pma.ard_gp``: log lengthscale
N(log sqrt(D), 1), log output scale N(0, 1), log noise sd N(log 0.1, 1). The synthetic functions are drawn with
lengthscales and output scale from these priors and noise sd 0.1. (The paper marginalises the output scale and the
lengthscales, and states no priors.)

Truth: NUTS, 4 chains of 1,000 draws after 500, and four more chains until the bulk ESS of every hyperparameter is 1,000
(at most six times). Slice sampling, the paper's choice, on five repeats of every row shows whether both agree: 4 chains
of 1,000 draws, at D = 20 of 250, whatever their ESS. The moments of the truth are kept in
``results/table1_truth.jsonl``, so that a new method needs no new chains; they depend on no engine. SKLD is
KL(p||q) + KL(q||p) with p the trace's
mixture matched by its two moments, of the latent function and (``skl_y``) of an observation.
"""

import logging
from collections.abc import Iterable, Iterator
from functools import lru_cache, partial
from typing import Any, NamedTuple

import _above  # noqa: F401
import _datasets as datasets
import numpy as np
import pymc as pm
import xarray as xr
from _problems import draw_problem
from _records import RESULTS, Key, chosen, fill, load, options, show, smallest
from _report import panels, spread, table, target

import pymc_active as pma
from pymc_active.information.mixture_entropy import symmetrized_kl


class Row(NamedTuple):
    D: int
    n_repeats: int
    # MAP, BBQ, MGP as printed.
    paper: dict[str, tuple[float, float, float]]
    data: str = ""
    n_training: int = 0


ROWS = {
    "synthetic 5": Row(5, 50, {"skl": (0.216, 0.144, 0.0835), "nll": (3.58, 2.67, 1.73)}),
    "synthetic 10": Row(10, 50, {"skl": (0.872, 0.758, 0.465), "nll": (3.57, 3.10, 1.86)}),
    "synthetic 20": Row(20, 50, {"skl": (1.01, 0.947, 0.500), "nll": (1.46, 1.41, 0.782)}),
    "yacht": Row(6, 10, {"skl": (0.0322, 0.0133, 0.0323), "nll": (123.0, 97.8, 56.8)}, "yacht", 50),
    "concrete": Row(8, 10, {"skl": (0.413, 0.347, 0.337), "nll": (2.96e9, 2.96e9, 1.67e9)}, "concrete", 100),
}
METHODS = ("map", "bbq", "mgp", "modes", "draws", "fit")
REPEATS = {"synthetic 5": 20, "synthetic 10": 10, "synthetic 20": 8, "yacht": 10, "concrete": 10}
METRICS = {"skl": "SKLD, latent f", "skl_y": "SKLD, observation", "nll": "NLL on test points"}
N_SLICE = 5
TRUTH = RESULTS / "table1_truth.jsonl"
# Long runs of PyMC and of slice sampling, which no engine of ours changes.
TRUTHS = ("nuts", "slice")
WANTED_ESS, MOST_BATCHES = 1000, 6


@lru_cache(maxsize=1)
def problem(name: str, repeat: int) -> tuple[pma.GPModel, np.ndarray, np.ndarray]:
    """The model with its training data, test inputs and outputs."""
    row = ROWS[name]
    if not row.data:
        X, y, X_new, y_new = draw_problem(repeat, row.D)
        return model(X, y), X_new, y_new
    inputs, outputs = getattr(datasets, row.data)()
    order = np.random.default_rng((repeat, row.D)).permutation(len(outputs))
    X, y = inputs.to_numpy()[order], outputs.to_numpy()[order]
    training, test = slice(row.n_training), slice(row.n_training, None)
    return model(X[training], y[training], x_scale=standard(X), y_scale="standardize"), X[test], y[test]


def model(X: np.ndarray, y: np.ndarray, **scales: Any) -> pma.GPModel:
    """Every choice by name, so that new defaults of the library change nothing here."""
    priors = {
        "log_lengthscale": pm.Normal.dist(0.5 * np.log(X.shape[1]), 1.0),
        "log_outputscale": pm.Normal.dist(0.0, 1.0),
        "log_noise": pm.Normal.dist(np.log(0.1), 1.0),
    }
    return pma.ard_gp(X, y, kernel="ExpQuad", mean="zero", priors=priors, **scales)


def standard(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Shift and scale of all rows: 50 of them may well leave a column constant."""
    return X.mean(0), X.std(0)


@lru_cache(maxsize=1)
def laplace(name: str, repeat: int) -> pma.LaplaceFit:
    return pma.fit_laplace(problem(name, repeat)[0], random_seed=repeat, progressbar=False)


def run_truth(name: str, sampler: str, repeat: int) -> dict | None:
    """Moments at the test points from NUTS or slice sampling."""
    from arviz_stats import ess, rhat

    try:
        gpm, X_new, _ = problem(name, repeat)
    except FileNotFoundError as error:
        print(f"{name} left out: {error}")
        return None
    options: dict[str, Any] = (
        {"nuts_sampler": "pymc", "target_accept": 0.95} if sampler == "nuts" else {"step": "slice"}
    )
    names = [variable.name for variable in gpm.model.free_RVs]
    chains: list[xr.Dataset] = []
    smallest = 0.0
    while smallest < WANTED_ESS and len(chains) < (MOST_BATCHES if sampler == "nuts" else 1):
        seed = 1000 * repeat + len(chains)
        trace = pma.sample(gpm, random_seed=seed, progressbar=False, cores=1, **options)
        chains.append(trace["posterior"].to_dataset()[names])
        posterior = xr.concat([c.drop_vars("chain") for c in chains], dim="chain")
        posterior = posterior.assign_coords(chain=np.arange(posterior.sizes["chain"]))
        smallest = min(float(v.min()) for v in ess(posterior).values())
    largest = max(float(v.max()) for v in rhat(posterior).values())
    # 4,000 draws are enough for two moments.
    thinned = posterior.isel(draw=slice(None, None, len(chains)))
    moments = pma.predict(xr.DataTree.from_dict({"posterior": thinned}), X_new, model=gpm)
    return {
        "ess_bulk": smallest,
        "rhat": largest,
        "n_draws": posterior.sizes["chain"] * posterior.sizes["draw"],
        "moments": {k: [float(f"{v:.8g}") for v in moments[k].to_numpy()] for k in moments},
    }


def run(name: str, method: str, repeat: int) -> dict | None:
    """Divergence of one method from the truth, and its NLL."""
    truth = load_truths().get((name, "nuts", repeat))
    if truth is None:
        return None
    try:
        gpm, X_new, y_new = problem(name, repeat)
    except FileNotFoundError as error:
        print(f"{name}: {error}")
        return None
    p = {k: np.array(v) for k, v in truth["moments"].items()}
    if method == "fit":
        prediction = pma.predict(pma.fit(gpm, random_seed=repeat, progressbar=False), X_new)
    else:
        prediction = pma.predict(laplace(name, repeat), X_new, method=method, random_seed=0)
    q = {k: v.to_numpy() for k, v in prediction.items()}
    return {**divergence(p, q), "nll": nll(q, y_new)}


def load_truths() -> dict[Key, dict]:
    return load(TRUTH, peers=TRUTHS)


def divergence(p: dict, q: dict) -> dict[str, float]:
    return {
        metric: float(symmetrized_kl(p["f_mean"], p[variance], q["f_mean"], q[variance]).mean())
        for metric, variance in (("skl", "f_variance"), ("skl_y", "y_variance"))
    }


def nll(q: dict, y: np.ndarray) -> float:
    v = q["y_variance"]
    return float(np.mean(0.5 * np.log(2 * np.pi * v) + 0.5 * (y - q["f_mean"]) ** 2 / v))


def summarize(records: dict[Key, dict], truth: dict[Key, dict]) -> dict:
    """Statistics over the repeats that all methods with any record hold."""
    summary = {}
    for name, row in ROWS.items():
        held = {m: {r for n, method, r in records if (n, method) == (name, m)} for m in METHODS}
        held = {m: repeats for m, repeats in held.items() if repeats}
        common = sorted(set.intersection(*held.values())) if held else []
        if not common:
            continue
        chains = [truth[name, "nuts", r] for r in common]
        cell: dict = {
            "n_repeats": len(common),
            "methods": {m: {k: spread([records[name, m, r][k] for r in common]) for k in METRICS} for m in held},
            "nuts": {
                "smallest_ess_bulk": min(t["ess_bulk"] for t in chains),
                "repeats_below_wanted_ess": sum(t["ess_bulk"] < WANTED_ESS for t in chains),
                "largest_rhat": max(t["rhat"] for t in chains),
                "cpu_seconds": spread([t["cpu_seconds"] for t in chains]),
            },
            "paper": {k: dict(zip(METHODS[:3], v, strict=True)) for k, v in row.paper.items()},
        }
        both = [r for r in range(row.n_repeats) if {(name, s, r) for s in ("nuts", "slice")} <= truth.keys()]
        if both:
            pairs = [[truth[name, s, r] for s in ("nuts", "slice")] for r in both]
            moments = [[{k: np.array(v) for k, v in t["moments"].items()} for t in pair] for pair in pairs]
            cell["slice"] = {
                "n_repeats": len(both),
                "skl_to_nuts": spread([divergence(*pair)["skl"] for pair in moments]),
                "smallest_ess_bulk": min(t["ess_bulk"] for _, t in pairs),
                "cpu_seconds": spread([t["cpu_seconds"] for _, t in pairs]),
            }
        summary[name] = cell
    return summary


def plot(summary: dict):
    fig, axes = panels(1, len(METRICS), figsize=(11, 3.8))
    colors = dict(zip(METHODS, ("#8a8a8a", "#d9822b", "#1f6fb4", "#6a3d9a", "#2a9d5c", "#000000"), strict=True))
    for ax, (metric, title) in zip(axes, METRICS.items(), strict=True):
        for i, m in enumerate(METHODS):
            rows = [(j, c["methods"][m][metric]) for j, c in enumerate(summary.values()) if m in c["methods"]]
            if rows:
                x = [j + 0.11 * (i - 3) for j, _ in rows]
                mean, error = ([cell[k] for _, cell in rows] for k in ("mean", "standard_error"))
                ax.errorbar(x, mean, error, fmt="o", ms=4, capsize=2, color=colors[m], label=m)
        ax.set_xticks(range(len(summary)), [f"{n}\n({c['n_repeats']})" for n, c in summary.items()], fontsize=8)
        ax.set_title(f"{title} (nats)", loc="left", fontsize=10)
        if metric != "nll":
            ax.set_yscale("log")
    axes[0].legend(fontsize=8)
    return fig


def report(records):
    summary = summarize(records, load_truths())
    lines = []
    for name, cell in summary.items():
        for m, values in cell["methods"].items():
            shown = [f"{values[k]['mean']:.3g} ± {values[k]['standard_error']:.1g}" for k in METRICS]
            printed = [f"{cell['paper'][k][m]:.3g}" if m in cell["paper"][k] else "" for k in ("skl", "nll")]
            lines.append((name, m, cell["n_repeats"], *shown, *printed))
    table(("row", "method", "repeats", *METRICS.values(), "paper's SKLD", "paper's NLL"), lines)
    targets = []
    for name, cell in summary.items():
        what = f"{name}: repeats whose NUTS has a bulk ESS below {WANTED_ESS}"
        targets.append(target(what, cell["nuts"]["repeats_below_wanted_ess"], "<=", 0))
        if "slice" in cell and "map" in cell["methods"]:
            ratio = cell["slice"]["skl_to_nuts"]["mean"] / cell["methods"]["map"]["skl"]["mean"]
            targets.append(target(f"{name}: SKLD of slice and NUTS over that of MAP and NUTS", ratio, "<", 0.1))
    return {"table": summary}, plot(summary), targets


def keys(kinds: Iterable[str]) -> Iterator[Key]:
    for repeat in range(max(REPEATS.values())):
        for name in ROWS:
            for kind in kinds:
                if repeat < (N_SLICE if kind == "slice" else REPEATS[name]):
                    yield name, kind, repeat


def main() -> None:
    arguments = options(__doc__)
    logging.getLogger("pymc").setLevel(logging.ERROR)
    if arguments.smallest:
        smallest(__doc__, {("synthetic 5", m, 0): partial(run, "synthetic 5", m, 0) for m in METHODS}, report)
        return
    path = RESULTS / "table1.jsonl"
    if arguments.minutes:
        # First of the truths that are there.
        fill(path, chosen(keys(METHODS), arguments), run, arguments.minutes)
        fill(TRUTH, chosen(keys(TRUTHS), arguments), run_truth, arguments.minutes, TRUTHS)
        fill(path, chosen(keys(METHODS), arguments), run, arguments.minutes)
    show(__doc__, path, report, arguments.engine)


if __name__ == "__main__":
    main()
