"""Do intervals cover what they say, from five points to a hundred, on data from the model itself?

    python benchmarks/calibration.py --minutes 60      # makes missing records for so long; resumable
    python benchmarks/calibration.py                   # table, JSON and picture from the records
    python benchmarks/calibration.py --families "10/2" # some families only

Hyperparameters are drawn from each model's default prior, inputs uniformly from [-1, 1] (for kernels with periods one
input from [0, 1]), and y from the GP at n points and 100 test points; every method then sees the n points. Methods:
``default`` is ``pma.fit`` as it is called without arguments; ``map``, ``bbq``, ``mgp``, ``modes``, ``draws`` and
``cubature`` are predictions of ``pma.fit_laplace``; ``long`` is ``pma.fit_smc`` with 4,096 particles, for the first few
sets of a row; ``nuts`` is ``pma.sample``, 2 chains of 500 + 500, for the first few sets of three families. Recorded for
each set: negative log likelihood a test point (nats), shares of test outputs inside the central 50 and 90 % intervals
(of the mixture), ranks of the true hyperparameters among 100 draws (simulation-based calibration, Talts et al. 2018),
log evidence and its error, CPU seconds of fit and prediction.

Target: coverage within 3 points of nominal and NLL within 0.05 nats (mean) of the long runs, for the default.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import time
import warnings

import numpy as np
from _records import fill, load
from _report import RESULTS, parser, target, write

import pymc_active as pma
from pymc_active.information.mixture_quantiles import mixture_cdf, mixture_log_density
from pymc_active.predictions.ensembles import as_ensemble
from pymc_active.predictions.mixtures import mixture

PATH = RESULTS / "calibration.jsonl"
SIZES = (5, 10, 20, 40, 60, 80, 100)
N_TEST, N_RANKS = 100, 100
# Data sets for each method and number of points.
SETS = {
    "default": {5: 100, 10: 100, 20: 60, 40: 12, 80: 3},
    "long": {5: 5, 10: 5, 20: 4, 40: 1, 80: 0},
    "laplace": {5: 12, 10: 12, 20: 8, 40: 4, 80: 1},
    "nuts": {5: 2, 10: 2, 20: 2, 40: 0, 80: 0},
}
# More sets of the default where the posterior of an embedding collapses onto one narrow mode.
MORE = {"10/2": {60: 30, 80: 30, 100: 30}, "20/2": {60: 30, 100: 30}}


def n_sets(family, method, n):
    own = MORE.get(family, {}) if method == "default" else {}
    return own.get(n, SETS[method].get(n, 0))


APPROXIMATIONS = ("map", "bbq", "mgp", "modes", "draws", "cubature")
NUTS_FAMILIES = ("ARD 2", "10/2", "SE * PER + RQ")


def ard(D):
    return lambda X, y: pma.ard_gp(X, y), D, -1.0


def embedding(D, d):
    return lambda X, y: pma.embedding_gp(X, y, n_components=d), D, -1.0


def kernel(expression):
    return lambda X, y: pma.composite_gp(X, y, expression), 1, 0.0


FAMILIES = {
    "ARD 2": ard(2),
    "ARD 6": ard(6),
    "ARD 10": ard(10),
    "10/2": embedding(10, 2),
    "20/2": embedding(20, 2),
    "20/3": embedding(20, 3),
    "LIN + SE * PER": kernel("LIN + SE * PER"),
    "SE * PER + RQ": kernel("SE * PER + RQ"),
    "SE * STEP + STEP": kernel("SE * STEP + STEP"),
}


def data_set(family, n, repeat):
    """The model with n points, the true hyperparameters, and test points, all drawn from the prior."""
    make, D, low = FAMILIES[family]
    rng = np.random.default_rng((list(FAMILIES).index(family), n, repeat))
    X = rng.uniform(low, 1.0, size=(n + N_TEST, D))
    everything = make(X, np.zeros(len(X))).posterior()
    prior = everything.prior
    theta = prior.mean + prior.sd * rng.normal(size=len(prior.mean))
    factor = everything.state(theta).factor
    y = factor.L @ rng.normal(size=len(X)) - factor.residual
    return make(X[:n], y[:n]), theta, X[n:], y[n:]


def statistics(theta, family):
    """Hyperparameters (S, k) that rotations and exchanges of like terms leave alone."""
    if "/" not in family:
        return theta
    D, d = map(int, family.split("/"))
    R = theta[:, : d * D].reshape(-1, d, D)
    return np.column_stack([np.linalg.svd(R, compute_uv=False), np.linalg.norm(R[:, :, 0], axis=1), theta[:, d * D :]])


def scores(source, X, y, **how):
    p = mixture(as_ensemble(source, **how), X)
    variances = p.variances + p.noises
    at = mixture_cdf(y, p.means, variances, p.weights)
    return {
        "nll": float(-mixture_log_density(y, p.means, variances, p.weights).mean()),
        "inside_50": float(np.mean(np.abs(at - 0.5) < 0.25)),
        "inside_90": float(np.mean(np.abs(at - 0.5) < 0.45)),
    }


def ranks(fit, truth, family, rng):
    # With more inputs than data the prior fills in what lies outside the space that these span.
    draws = fit.draw(N_RANKS, rng)
    return (statistics(draws, family) < statistics(truth[None], family)).sum(0).tolist()


def run(row, method, repeat):
    family, n = row.rsplit(" @ ", 1)
    if repeat >= n_sets(family, method, int(n)):
        return None
    if method == "nuts" and family not in NUTS_FAMILIES:
        return None
    gpm, truth, X, y = data_set(family, int(n), repeat)
    rng, start = np.random.default_rng(repeat), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if method in ("default", "long"):
            keywords = {"random_seed": repeat, "progressbar": False}
            fit = pma.fit(gpm, **keywords) if method == "default" else pma.fit_smc(gpm, n_particles=4096, **keywords)
            found = scores(fit, X, y)
            found |= {
                "log_evidence": fit.log_evidence,
                "log_evidence_error": fit.log_evidence_error,
                "method_used": fit.diagnostics["method"],
                "n_warnings": len(fit.diagnostics["warnings"]),
                "ranks": ranks(fit, truth, family, rng),
            }
        elif method == "laplace":
            fit = pma.fit_laplace(gpm, random_seed=repeat, progressbar=False)
            fitted = time.process_time() - start
            found = {"seconds_fit": fitted, "log_evidence": fit.evidence.value}
            for name in APPROXIMATIONS:
                before = time.process_time()
                try:
                    found[name] = scores(fit, X, y, method=name, random_seed=0)
                except ValueError:
                    # Points around a mode without noise at which K + noise is singular; the fit is marked as doubtful.
                    continue
                found[name]["seconds"] = fitted + time.process_time() - before
        else:
            trace = pma.sample(gpm, draws=500, tune=500, chains=2, random_seed=repeat, progressbar=False)
            found = scores(trace, X, y, model=gpm)
    return found | {"seconds": time.process_time() - start}


def keys(families, methods):
    # The cheap first.
    for n in SIZES:
        for method in methods:
            for family in families:
                for repeat in range(n_sets(family, method, n)):
                    yield f"{family} @ {n}", method, repeat


def rows_of(records):
    """One flat record for each data set and method."""
    for (row, method, repeat), record in records.items():
        family, n = row.rsplit(" @ ", 1)
        parts = [(method, record)]
        if method == "laplace":
            parts = [(name, record[name]) for name in APPROXIMATIONS if name in record]
        for name, values in parts:
            yield family, int(n), name, repeat, values


def summarize(records):
    table, by = [], {}
    for family, n, method, repeat, values in rows_of(records):
        by.setdefault((family, n, method), {})[repeat] = values
    for (family, n, method), sets in sorted(
        by.items(), key=lambda item: (list(FAMILIES).index(item[0][0]), *item[0][1:])
    ):
        columns = {k: np.array([s[k] for s in sets.values()]) for k in ("nll", "inside_50", "inside_90", "seconds")}
        entry = {"family": family, "n": n, "method": method, "sets": len(sets)}
        for name, values in columns.items():
            entry[name] = float(values.mean())
            if len(sets) > 1:
                entry[f"{name}_se"] = float(values.std(ddof=1) / np.sqrt(len(sets)))
        long = by.get((family, n, "long"), {})
        common = sorted(set(long) & set(sets))
        if common and method != "long":
            entry["nll_above_long"] = float(np.mean([sets[r]["nll"] - long[r]["nll"] for r in common]))
            entry["sets_with_long"] = len(common)
        if method == "default":
            sure = [s["inside_90"] for s in sets.values() if not s["n_warnings"]]
            entry["least_inside_90_unwarned"] = min(sure, default=np.nan)
            entry["warned"] = float(np.mean([s["n_warnings"] > 0 for s in sets.values()]))
            entry["rank_p_value"] = uniformity([s["ranks"] for s in sets.values()])
            errors = [s["log_evidence"] - long[r]["log_evidence"] for r, s in sets.items() if r in long]
            if errors:
                entry["evidence_error_median"] = float(np.median(np.abs(errors)))
                entry["evidence_error_worst"] = float(np.abs(errors).max())
                stated = [np.hypot(sets[r]["log_evidence_error"], long[r]["log_evidence_error"]) for r in common]
                entry["evidence_within_2_errors"] = float(np.mean(np.abs(errors) < 2 * np.array(stated) + 0.05))
        table.append(entry)
    return table


def uniformity(ranks):
    """Smallest p-value, times the number of statistics, of Kolmogorov-Smirnov tests that ranks are uniform."""
    from scipy.stats import kstest

    values = (np.array(ranks) + np.random.default_rng(0).uniform(size=np.shape(ranks))) / (N_RANKS + 1)
    return float(min(1.0, values.shape[1] * min(kstest(column, "uniform").pvalue for column in values.T)))


def picture(table):
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(3, len(FAMILIES) // 3, figsize=(11, 8), sharex=True, sharey=True, layout="constrained")
    styles = {"default": ("#1f6fb4", "-", 2.5), "mgp": ("#d9822b", "-", 1.5), "draws": ("#d9822b", "--", 1.5)}
    styles |= {"map": ("#8a8a8a", "-", 1.2)}
    names = {"default": "pma.fit", "mgp": "Laplace, MGP", "draws": "Laplace, draws", "map": "Laplace, MAP"}
    for ax, family in zip(axes.flat, FAMILIES, strict=True):
        for method, (color, line, width) in styles.items():
            some = [e for e in table if e["family"] == family and e["method"] == method and e["sets"] >= 3]
            ax.plot(
                [e["n"] for e in some],
                [100 * e["inside_90"] for e in some],
                line,
                color=color,
                lw=width,
                marker="o",
                ms=3.5,
                label=names[method],
            )
        ax.axhspan(87, 93, color="#1f6fb4", alpha=0.12, lw=0)
        ax.set(xscale="log", ylim=(0, 104), title=family)
        ax.set_xticks([5, 10, 20, 40, 80], ["5", "10", "20", "40", "80"])
        ax.minorticks_off()
        for side in ("top", "right"):
            ax.spines[side].set_visible(False)
    axes[0, 0].legend(frameon=False, fontsize=9, loc="lower right")
    figure.supylabel("test outputs inside the 90 % interval (%)")
    figure.supxlabel("number of points")
    return figure


def main():
    arguments = parser(__doc__)
    arguments.add_argument("--minutes", type=float, default=0.0)
    arguments.add_argument("--families", nargs="*", default=list(FAMILIES))
    arguments.add_argument("--methods", nargs="*", default=["default", "long", "laplace", "nuts"])
    options = arguments.parse_args()
    if options.minutes:
        fill(PATH, keys(options.families, options.methods), run, options.minutes)
    table = summarize(load(PATH))
    for e in table:
        print(
            f"{e['family']:15} n={e['n']:3} {e['method']:9} sets {e['sets']:4} nll {e['nll']:6.2f} "
            f"50 %: {e['inside_50']:.2f} 90 %: {e['inside_90']:.2f} ± {e.get('inside_90_se', np.nan):.2f} "
            f"{e['seconds']:6.1f} s "
            + " ".join(
                f"{k} {v:.2f}" for k, v in e.items() if k.startswith(("nll_above", "evid", "rank", "warned", "least"))
            )
        )
    defaults = [e for e in table if e["method"] == "default" and e["sets"] > 1]
    worst = max((abs(e["inside_90"] - 0.9) - 2 * e["inside_90_se"] for e in defaults), default=np.nan)
    above = [e["nll_above_long"] for e in defaults if "nll_above_long" in e]
    pooled = float(np.average([e["inside_90"] for e in defaults], weights=[e["sets"] for e in defaults]))
    targets = [
        target("worst distance of a row from 90 % beyond two standard errors", worst, "<=", 0.03),
        target("distance of the 90 % intervals from 90 %, all rows", abs(pooled - 0.9), "<=", 0.03),
        target("NLL above that of 4,096 particles, nats, mean over the rows", float(np.mean(above)), "<=", 0.05),
        target(
            "smallest p-value of the ranks, times the rows",
            min(e["rank_p_value"] for e in defaults) * len(defaults),
            ">=",
            0.05,
        ),
    ]
    records = load(PATH).values()
    results = {"versions_of_the_records": sorted({r["source"] for r in records}), "table": table}
    write(__doc__, quick=options.quick, threads="1", targets=targets, results=results, figure=picture(table))


if __name__ == "__main__":
    main()
