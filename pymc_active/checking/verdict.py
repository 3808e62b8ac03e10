"""The meaning of a check in a few sentences that say what to do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import xarray as xr

from pymc_active.laplace.draws.importance import PARETO_LIMIT

# Limits, used by the pictures as well.
# Vehtari et al. (2021): chains agree below 1.01; below 400 effective draws neither R-hat nor quantiles are stable. By
# older standards a trace up to 1.05 is usable.
RHAT_GOOD, RHAT_USABLE, FEWEST_EFFECTIVE = 1.01, 1.05, 400
# Vehtari et al. (2024): below 0.5 importance weights have a variance.
PARETO_GOOD = 0.5
# Nats a point: what does not matter, and what calls for another approximation. Of 60 data sets of 5 to 20 points drawn
# from models (ARD in two inputs, 10/2), default fits lost 0.001 to 0.03 on average against four times the particles,
# 0.07 at most.
AS_GOOD, WORSE = 0.02, 0.1
# Log 2: a larger error of the evidence changes the odds of two models by more than a factor of two.
EVIDENCE_MATTERS = 0.7
# The mean relative utility that the criteria aim at; below the second, one measurement in ten is wasted. Where it is
# worth next to nothing, AS_GOOD nats or as much in the predictions, this does not matter.
GOOD_DECISION, POOR_DECISION = 0.95, 0.9
# A reference misses mass if its evidence is lower by more than this many common standard errors.
CONTRADICTION = 4.0
# A reference whose evidence has a larger error may have missed a part of the posterior: of three runs of 4,096
# particles for an embedding and 12 points, the one with 0.28 in place of 0.1 predicted worse by 0.14 nats a point.
UNCERTAIN = 0.2
# A larger error of a probability changes how a sentence about the models reads.
PROBABILITY_MATTERS = 0.1
# Default criteria of a Learner: for hyperparameters, for the function, for the maximum.
DEFAULTS = ("bald", "integrated_variance", "expected_improvement")

# What a comparison of two ways to compute one posterior cannot see.
_LIMITS = (
    "This checks the computation. To see whether the model suits the data, use az.plot_loo_pit(fit.to_datatree())."
)

# How a longer run was made, by what says how its evidence was obtained.
_RUNS = {
    "smc": " annealed from the prior",
    "importance": " around modes searched anew",
    "smc and importance": " annealed from the prior, and around modes searched anew",
}
_REFERENCE = {"run": "the longer run", "trace": "MCMC", "fit": "the other fit"}


def verdict_on_fit(tree: xr.DataTree) -> str:
    """Sentences about one fit, from the groups of :func:`pymc_active.check`."""
    sentences = [_on_reference(tree), _on_predictions(tree), _on_evidence(tree), _on_pareto_k(tree)]
    if "decision" in tree.children:
        sentences.append(_on_decisions(tree))
    return " ".join([*filter(None, sentences), _to_do(_advice(tree)), _LIMITS])


def verdict_on_models(tree: xr.DataTree) -> str:
    """Sentences about several models, from the groups of :func:`pymc_active.check`."""
    models = tree["models"].to_dataset()
    nodes = dict(zip(models.model.to_numpy().tolist(), tree["fits"].children.values(), strict=True))
    unsure = _listed(label for label, node in nodes.items() if not reliable(node))
    lossy = _listed(label for label, node in nodes.items() if loss(node) > WORSE)
    true, own = models.true_probability, models.probability.sel(estimator="fit")
    best, ours = str(true.idxmax().item()), str(own.idxmax().item())
    furthest = float(np.abs(true - own).max())
    by_fits = f"by the fits {ours} ({float(own.max()):.2f})" if ours != best else "by the fits too"
    sentences = [
        f"The reference of {unsure} cannot be trusted; what follows is no more reliable than that." if unsure else "",
        f"The most probable model is {best} ({float(true.max()):.2f}), {by_fits}; "
        f"no probability is off by more than {furthest:.2g}.",
        f"Predictions of {lossy} lose more than {WORSE} nats a point." if lossy else "",
    ]
    wanted = [f"run or sample the reference of {unsure} longer"] if unsure else []
    if "decision" in tree.children:
        decision = tree["decision"].to_dataset()
        ratio = decision.regret_ratio.to_series()
        sentences.append(f"{_picks(decision, ratio.index)}.")
        enough = min(POOR_DECISION, float(decision.split_half.sel(criterion="bams"))) if "bams" in ratio else 0.0
        if ratio.get("bams", 1.0) < enough and _wasted(decision, "bams", 1.0) > AS_GOOD:
            wanted.append(
                'take bams with method="draws"'
                if ratio.get('bams(method="draws")', 0.0) >= enough
                else "fit each model by pma.fit"
            )
    if furthest > PROBABILITY_MATTERS:
        wanted.append("take the evidences of the references, or fit each model by pma.fit with more particles")
    return " ".join([*filter(None, sentences), _to_do(wanted)])


def loss(tree: xr.DataTree, approximation: str | None = None) -> float:
    """Nats a point that an approximation, by default the one of ``predict``, loses against the reference."""
    predictions = tree["predictions"].to_dataset()
    row = predictions.nll[0] if approximation is None else predictions.nll.sel(approximation=approximation)
    return float((row - predictions.true_nll).mean())


def reliable(tree: xr.DataTree) -> bool:
    """Whether the reference of one model can serve as truth."""
    if "trace_diagnostics" in tree.children:
        d = tree["trace_diagnostics"]
        rhat = float(d["largest_rhat"])
        return (np.isnan(rhat) or rhat <= RHAT_USABLE) and float(d["smallest_ess"]) >= FEWEST_EFFECTIVE / 4
    return not tree.attrs.get("doubts") and not _reference_misses(tree)


def _reference_misses(tree: xr.DataTree) -> bool:
    """Whether the evidence of the reference is lower than that of a fit by particles, which can only miss mass."""
    evidence = tree["evidence"].to_dataset()
    difference = float(evidence.log_evidence[0] - evidence.log_evidence[1])
    return misses_mass(difference, float(np.hypot(*evidence.standard_error.to_numpy())))


def misses_mass(difference: float, error: float) -> bool:
    """Whether a sampled evidence lies above that of the reference by more than their common standard error explains.

    An error that is not known, as of Laplace's evidence, which can be too high by itself, says nothing: False.
    """
    return np.isfinite(error) and difference > max(CONTRADICTION * error, EVIDENCE_MATTERS)


def _listed(labels: Iterable[object]) -> str:
    return ", ".join(map(repr, labels))


def _to_do(wanted: Sequence[str]) -> str:
    return f"What to do: {'; '.join(wanted) or 'go on, the fit serves here'}."


def _on_reference(tree: xr.DataTree) -> str:
    if "trace_diagnostics" not in tree.children:
        what = {"run": "a longer run", "fit": "another fit"}[tree.attrs["reference"]]
        if tree.attrs.get("reference_by") == "exact":
            return "The model has no free parameters, so that the fit is exact."
        how = _RUNS.get(tree.attrs.get("reference_by", ""), "") if tree.attrs["reference"] == "run" else ""
        text = f"The reference is {what} ({int(tree.attrs['n_draws']):,} draws{how})"
        if doubts := tree.attrs.get("doubts"):
            return f"{text}, which is doubtful itself: {doubts}."
        if _reference_misses(tree):
            return f"{text}, which has a lower evidence than the fit and misses a part of the posterior."
        error = float(tree["evidence"].standard_error[1])
        if tree.attrs["reference"] == "run" and UNCERTAIN < error < np.inf:
            return f"{text}; its log evidence is known to {error:.2g} nats only: check with another random_seed, too."
        return f"{text}."
    d = tree["trace_diagnostics"]
    rhat, size, n = (float(d[name]) for name in ("largest_rhat", "smallest_ess", "n_divergences"))
    known = "R-hat unknown (one chain)" if np.isnan(rhat) else f"largest R-hat {rhat:.3f}"
    divergences = f"{n:,.0f} divergence{'s' if n != 1 else ''}" if n else "no divergences"
    numbers = f"({known}, smallest effective sample size {size:,.0f}, {divergences})"
    if not reliable(tree):
        return f"MCMC has NOT converged {numbers}, so the comparisons below mean little."
    good = (np.isnan(rhat) or rhat <= RHAT_GOOD) and size >= FEWEST_EFFECTIVE and not n
    return f"MCMC {'converged' if good else 'has not quite converged, but can serve as a reference'} {numbers}."


def _on_pareto_k(tree: xr.DataTree) -> str:
    if "laplace" not in tree.children:
        return ""
    k = float(tree["laplace"]["pareto_k"])
    can = f"can be reweighed to the posterior{' roughly' if k > PARETO_GOOD else ''}"
    what = can if k <= PARETO_LIMIT else "miss a part of the posterior that matters"
    return f"Draws from its Gaussians {what} (Pareto k {k:.2f}; good to {PARETO_GOOD}, poor above {PARETO_LIMIT})."


def _on_predictions(tree: xr.DataTree) -> str:
    lost, true = loss(tree), float(tree["predictions"]["true_nll"].mean())
    name = _REFERENCE[tree.attrs["reference"]]
    if lost < -AS_GOOD:
        judged = f"are better than those of {name}, by {-lost:.2g} nats a point"
    elif lost <= AS_GOOD:
        judged = f"are as good as those of {name}, to {AS_GOOD} nats a point"
    else:
        how = "slightly worse" if lost <= WORSE else "worse"
        judged = f"are {how} than those of {name}, by {lost:.2g} nats a point"
    text = f"Predictions {judged} (mean negative log density of {name}: {true:.2f})"
    best = _closest(tree)
    if best is not None:
        text += f'; method="{best}" loses {loss(tree, best):.2g}'
    return f"{text}."


def _closest(tree: xr.DataTree) -> str | None:
    """Another approximation of a fit that loses less, where the default one loses too much."""
    names = [str(name) for name in tree["predictions"]["approximation"].to_numpy()]
    losses = {name: loss(tree, name) for name in names}
    best = min(losses, key=losses.__getitem__)
    matters = losses[names[0]] > WORSE and losses[best] <= max(AS_GOOD, 0.5 * losses[names[0]])
    return best if matters else None


def _on_evidence(tree: xr.DataTree) -> str:
    evidence = tree["evidence"].to_dataset()
    (own, true), errors = evidence.log_evidence.to_numpy(), evidence.standard_error.to_numpy()
    if not np.isfinite(true):
        return ""
    if not np.isfinite(own):
        return (
            f"The evidence of the fit is not finite; that of {_REFERENCE[tree.attrs['reference']]} is {true:.2f} nats."
        )
    difference = own - true
    if np.isinf(errors).any():
        side, what = "above" if difference > 0 else "below", _REFERENCE[tree.attrs["reference"]]
        return (
            f"The log evidence of the fit is {abs(difference):.2f} nats {side} that of {what}, with an unknown error."
        )
    error = float(np.sqrt(np.nansum(errors**2)))
    if abs(difference) <= 2 * error:
        return f"Their log evidences agree ({difference:+.2f} ± {error:.2f} nats)."
    matters = abs(difference) > EVIDENCE_MATTERS
    return (
        f"The log evidence of the fit is {abs(difference):.2f} ± {error:.2f} nats "
        f"{'above' if difference > 0 else 'below'} that of {_REFERENCE[tree.attrs['reference']]}, "
        f"{'enough to change odds of models' if matters else 'less than a factor of 2 in odds'}."
    )


def _picks(decision: xr.Dataset, names: Sequence[str]) -> str:
    """The first criterion's best utility sets the scale; then each criterion's share of its own best."""
    first = decision.sel(criterion=names[0])
    worth = f"{float(first.true_utility.max()):.2g} {first.units.item()} for {names[0]}"
    shares = ", ".join(f"{name} {float(decision.regret_ratio.sel(criterion=name)):.2f}" for name in names)
    return f"Judged by the reference, what the fit picks from the pool has this share of the best ({worth}): {shares}"


def _wasted(decision: xr.Dataset, name: str, variance: float) -> float:
    """What the pick of a criterion loses against the best, nats; ``variance`` is that of predicted measurements."""
    one = decision.sel(criterion=name)
    utility, units = one.true_utility.to_numpy(), one.units.item()
    utility = np.exp(utility) if units.startswith("log of") else utility
    lost, sd = float(utility.max() - utility[int(one.pick)]), np.sqrt(variance)
    in_nats = {"nats": 1.0, "units of y, squared": 0.5 / variance, "units of y": 1 / sd, "log of units of y": 1 / sd}
    # What other units are worth is not known.
    return lost * in_nats.get(units, np.inf)


def _asked(decision: xr.Dataset) -> list[str]:
    names = decision.criterion.to_numpy().tolist()
    return [name for name in DEFAULTS if name in names] or names[:1]


def _on_decisions(tree: xr.DataTree) -> str:
    decision = tree["decision"].to_dataset()
    ratio, asked = decision.regret_ratio.to_series(), _asked(decision)
    text = _picks(decision, asked)
    others = ratio.drop(asked)
    if len(others) and others.min() < GOOD_DECISION:
        text += f"; of the other criteria {others.idxmin()} is worst with {others.min():.2f}"
    elif len(others):
        text += f"; all other criteria get at least {GOOD_DECISION}"
    split = decision.split_half.sel(criterion=asked).min().item()
    unsure = f". The reference is unsure itself: what half of its draws pick is worth {split:.2f} by the others."
    return text + (unsure if split < GOOD_DECISION else ".")


def _advice(tree: xr.DataTree) -> list[str]:
    """What to change."""
    if not reliable(tree):
        longer = "sample longer" if "trace_diagnostics" in tree.children else "make the reference longer (n_particles)"
        return [f"{longer}, or give the parameters tighter priors, and check again"]
    wanted = []
    by_modes = "laplace" in tree.children
    better = "fit with pma.fit, which draws from the posterior" if by_modes else "fit with more particles (n_particles)"
    if "decision" in tree.children:
        decision = tree["decision"].to_dataset()
        # The reference may not know its best candidate any better.
        good = (decision.regret_ratio >= np.minimum(POOR_DECISION, decision.split_half)).to_series()
        variance = float(tree["predictions"].true_y_variance.mean())
        poor = [name for name in _asked(decision) if not good[name] and _wasted(decision, name, variance) > AS_GOOD]
        if poor:
            wanted.append(f"{better}: {' and '.join(poor)} would decide better")
        if "bald" in poor and good.get('bald(method="draws")', False):
            wanted.append('take bald with method="draws", not of the marginal GP')
    best = _closest(tree)
    if best is not None:
        wanted.append(f'predict with method="{best}"')
    elif loss(tree) > WORSE and not wanted:
        wanted.append(better)
    evidence = tree["evidence"].to_dataset().log_evidence.to_numpy()
    if np.isfinite(evidence[1]) and not abs(evidence[0] - evidence[1]) <= EVIDENCE_MATTERS:
        wanted.append("compare models by the evidence of the reference, not of this fit")
    return wanted
