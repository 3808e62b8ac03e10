"""Do intervals cover what they say, from five points to a hundred, on data from the model itself?

Hyperparameters are drawn from each model's default prior, inputs uniformly from [-1, 1] (for kernels with periods one
input from [0, 1]), and y from the GP at n points and 100 test points; every method then sees the n points. Methods:
``default`` is ``pma.fit`` as it is called without arguments; ``map``, ``bbq``, ``mgp``, ``modes`` and
``draws`` are predictions of ``pma.fit_laplace``; ``long`` is ``pma.fit_smc`` with 4,096 particles, for the first few
sets of a row; ``nuts`` is ``pma.sample``, 2 chains of 500 + 500, for the first few sets of three families. Recorded for
each set: negative log likelihood a test point (nats), shares of test outputs inside the central 50 and 90 % intervals
(of the mixture), ranks of the true hyperparameters among 100 draws (simulation-based calibration, Talts et al. 2018),
log evidence and its error, CPU seconds of fit and prediction. Of other likelihoods, whose data PyMC draws with the
function, all ten trials or one exposure, the latent function is scored, too, and outcomes by randomised quantiles.

Target: coverage within 3 points of nominal and NLL within 0.05 nats (mean) of the long runs, for the default.
"""

import time
from functools import cache, partial

import _one_thread  # noqa: F401
import numpy as np
import pymc as pm
from _records import main
from _report import BLUE, GREY, ORANGE, mean_and_error, panels, table_of, target
from scipy.special import logsumexp

import pymc_active as pma
from pymc_active.information.mixture_quantiles import mixture_cdf, mixture_log_density
from pymc_active.predictions.ensembles import as_ensemble
from pymc_active.predictions.latent_outcomes import LatentOutcomes
from pymc_active.predictions.mixtures import mixture

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
    if family in LIKELIHOODS and (method not in ("default", "long") or n > 40):
        return 0
    own = MORE.get(family, {20: 100, 40: 40} if family in LIKELIHOODS else {}) if method == "default" else {}
    return own.get(n, SETS[method].get(n, 0))


APPROXIMATIONS = ("map", "bbq", "mgp", "modes", "draws")
NUTS_FAMILIES = ("ARD 2", "10/2", "SE * PER + RQ")


def ard(D):
    return lambda X, y: pma.ard_gp(X, y), D, -1.0


def embedding(D, d):
    return lambda X, y: pma.embedding_gp(X, y, n_components=d), D, -1.0


def kernel(expression):
    return lambda X, y: pma.composite_gp(X, y, expression), 1, 0.0


def likelihood(name):
    def make(X, y):
        trials = {"y_trials": np.full(len(y), 10)} if name == "binomial" else {}
        return pma.ard_gp(X, y, likelihood=name, **trials)

    return make, 2, -1.0


LIKELIHOODS = ("student_t", "bernoulli", "binomial", "poisson", "negative_binomial")
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
    **{name: likelihood(name) for name in LIKELIHOODS},
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


@cache
def outcomes(family, n):
    """Inputs (n + 100, 2), hyperparameters (100, P), functions and outcomes (100, n + 100) that PyMC draws."""
    X = np.random.default_rng((list(FAMILIES).index(family), n)).uniform(-1, 1, size=(n + N_TEST, 2))
    gpm = FAMILIES[family][0](X, np.zeros(len(X)))
    drawn = pm.sample_prior_predictive(SETS["default"][5], gpm.model, random_seed=n)
    prior = {name: values[0] for name, values in drawn["prior"].to_dataset().items()}
    thetas = gpm.unconstrain({name: prior[name].to_numpy() for name in gpm.free})
    return X, thetas, prior["f"].to_numpy(), drawn["prior_predictive"][gpm.name].to_numpy()[0]


def record_of_outcomes(family, n, method, repeat):
    X, thetas, f, y = outcomes(family, n)
    if family != "student_t" and (y[repeat] < 0).any():
        # A count that overflows.
        return None
    start, keywords = time.process_time(), {"random_seed": repeat, "progressbar": False}
    gpm, f, y = FAMILIES[family][0](X[:n], y[repeat, :n]), f[repeat, n:], y[repeat, n:]
    fit = pma.fit(gpm, **keywords) if method == "default" else pma.fit_smc(gpm, n_particles=4096, **keywords)
    ensemble, rng = as_ensemble(fit).first(256), np.random.default_rng(repeat)
    p, of = mixture(ensemble, X[n:]), LatentOutcomes.of(ensemble)
    drawn = of.draw(p, rng, of.size).reshape(-1, N_TEST)
    at = (drawn < y).mean(0) + rng.uniform(size=N_TEST) * (drawn == y).mean(0)
    at_f = mixture_cdf(f, p.means, p.variances, p.weights)
    found = {"nll": float(-logsumexp(of.log_densities(y[None], p, of.size)[0], axis=0, b=p.weights[:, None]).mean())}
    for name, values in (("", at), ("f_", at_f)):
        found |= {f"{name}inside_{k}": float((np.abs(values - 0.5) < k / 200).mean()) for k in (50, 90)}
    return found | about(fit, thetas[repeat], family, rng) | {"seconds": time.process_time() - start}


def about(fit, truth, family, rng):
    return {
        "log_evidence": fit.log_evidence,
        "log_evidence_error": fit.log_evidence_error,
        "method_used": fit.diagnostics["method"],
        "n_warnings": len(fit.diagnostics["warnings"]),
        "ranks": ranks(fit, truth, family, rng),
    }


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


def record(row, method, repeat, draws=500):
    family, n = row.rsplit(" @ ", 1)
    if family in LIKELIHOODS:
        return record_of_outcomes(family, int(n), method, repeat)
    gpm, truth, X, y = data_set(family, int(n), repeat)
    rng, start = np.random.default_rng(repeat), time.process_time()
    if method in ("default", "long"):
        keywords = {"random_seed": repeat, "progressbar": False}
        fit = pma.fit(gpm, **keywords) if method == "default" else pma.fit_smc(gpm, n_particles=4096, **keywords)
        found = scores(fit, X, y) | about(fit, truth, family, rng)
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
        trace = pma.sample(gpm, draws=draws, tune=draws, chains=2, random_seed=repeat, progressbar=False)
        found = scores(trace, X, y, model=gpm)
    return found | {"seconds": time.process_time() - start}


def keys():
    # The cheap first.
    for n in SIZES:
        for method in SETS:
            for family in NUTS_FAMILIES if method == "nuts" else FAMILIES:
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
    for family, n, method in sorted(by, key=lambda key: (list(FAMILIES).index(key[0]), *key[1:])):
        sets = by[family, n, method]
        entry = {"family": family, "n": n, "method": method, "sets": len(sets)}
        for name in ("nll", "inside_50", "inside_90", "f_inside_90", "seconds"):
            if name.startswith("f_") and family not in LIKELIHOODS:
                continue
            entry[name], error = mean_and_error([one[name] for one in sets.values()])
            if len(sets) > 1:
                entry[f"{name}_se"] = error
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
    figure, axes = panels(3, 5, figsize=(16, 8), sharex=True, sharey=True)
    axes.flat[-1].remove()
    styles = {
        "default": ("pma.fit", BLUE, "-", 2.5),
        "mgp": ("Laplace, MGP", ORANGE, "-", 1.5),
        "draws": ("Laplace, draws", ORANGE, "--", 1.5),
        "map": ("Laplace, MAP", GREY, "-", 1.2),
    }
    for ax, family in zip(axes.flat, FAMILIES, strict=False):
        for method, (label, color, line, width) in styles.items():
            some = [e for e in table if e["family"] == family and e["method"] == method and e["sets"] >= 3]
            shares = [100 * e["inside_90"] for e in some]
            ax.plot([e["n"] for e in some], shares, line, color=color, lw=width, marker="o", ms=3.5, label=label)
        ax.axhspan(87, 93, color=BLUE, alpha=0.12, lw=0)
        ax.set(xscale="log", ylim=(0, 104), title=family)
        ax.set_xticks([5, 10, 20, 40, 80], ["5", "10", "20", "40", "80"])
        ax.minorticks_off()
    axes[0, 0].legend(fontsize=9, loc="lower right")
    figure.supylabel("test outputs inside the 90 % interval (%)")
    figure.supxlabel("number of points")
    return figure


def report(records):
    table = summarize(records)
    shown = (
        "family",
        "n",
        "method",
        "sets",
        "nll",
        "inside_50",
        "inside_90",
        "inside_90_se",
        "f_inside_90",
        "seconds",
        "warned",
    )
    shown += ("nll_above_long", "evidence_error_median", "evidence_within_2_errors", "rank_p_value")
    table_of([{name: e.get(name) for name in shown} for e in table])
    defaults = [e for e in table if e["method"] == "default" and e["sets"] > 1]
    targets = []
    if defaults:
        worst = max(abs(e["inside_90"] - 0.9) - 2 * e["inside_90_se"] for e in defaults)
        above = [e["nll_above_long"] for e in defaults if "nll_above_long" in e]
        pooled = float(np.average([e["inside_90"] for e in defaults], weights=[e["sets"] for e in defaults]))
        rank = min(e["rank_p_value"] for e in defaults) * len(defaults)
        targets = [
            target("worst distance of a row from 90 % beyond two standard errors", worst, "<=", 0.03),
            target("distance of the 90 % intervals from 90 %, all rows", abs(pooled - 0.9), "<=", 0.03),
            target("NLL above that of 4,096 particles, nats, mean over the rows", float(np.mean(above)), "<=", 0.05),
            target("smallest p-value of the ranks, times the rows", rank, ">=", 0.05),
        ]
    return {"table": table}, picture(table), targets


if __name__ == "__main__":
    small = {("ARD 2 @ 5", method, 0): partial(record, "ARD 2 @ 5", method, 0, 50) for method in SETS}
    main(__doc__, keys(), record, report, small)
