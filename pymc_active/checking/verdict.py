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
# In nats: a mean that is off by a third of a posterior sd has a symmetrised divergence of 0.1.
CLOSE = 0.1
# Log 2: a larger error of the evidence changes the odds of two models by more than a factor of two.
EVIDENCE_MATTERS = 0.7
# The mean relative utility that the criteria aim at; below the second, one measurement in ten is wasted.
GOOD_DECISION, POOR_DECISION = 0.95, 0.9
# Two estimates contradict each other if they differ by more than this many of their common standard errors.
CONTRADICTION = 4.0
# A larger error of a probability changes how a sentence about the models reads.
PROBABILITY_MATTERS = 0.1
# Default criteria of a Learner: for hyperparameters, for the function, for the maximum.
DEFAULTS = ("bald_draws", "uncertainty", "expected_improvement")

_OTHER = {"importance": "bridge", "bridge": "importance"}


def verdict_on_fit(tree: xr.DataTree) -> str:
    """Sentences about one fit, from the groups of :func:`pymc_active.check`."""
    sentences = [_on_trace(tree), _on_pareto_k(tree), _on_predictions(tree), _on_evidence(tree)]
    if "decision" in tree.children:
        sentences.append(_on_decisions(tree))
    if converged(tree):
        advice = _to_do(_advice(tree), "go on, the fast approximation serves here")
    else:
        how = "pma.sample(gpm, draws=..., tune=..., initvals=fit.constrained_point)"
        advice = _to_do([f"sample longer, or start the chains at the fit's modes ({how}), and check again"], "")
    return " ".join([*sentences, advice])


def verdict_on_models(tree: xr.DataTree) -> str:
    """Sentences about several models, from the groups of :func:`pymc_active.check`."""
    models = tree["models"].to_dataset()
    nodes = dict(zip(models.model.to_numpy().tolist(), tree["fits"].children.values(), strict=True))
    unsure = _listed(label for label, node in nodes.items() if not converged(node))
    unknown = _listed(label for label, name in zip(nodes, models.reference.to_numpy(), strict=True) if name == "none")
    disputed = _listed(label for label, node in nodes.items() if contradictory(node))
    missed = _listed(label for label, node in nodes.items() if node["laplace"]["pareto_k"] > PARETO_LIMIT)
    true, laplace = models.true_probability, models.probability.sel(estimator="laplace")
    best, ours = str(true.idxmax().item()), str(laplace.idxmax().item())
    furthest = float(np.abs(true - laplace).max())
    by_laplace = f"by Laplace's evidences {ours} ({float(laplace.max()):.2f})" if ours != best else "by Laplace too"
    sentences = [
        f"MCMC has NOT converged for {unsure}; what follows is no more reliable than that."
        if unsure
        else "MCMC converged well enough for every model.",
        f"No sampled evidence can be trusted for {unknown}: Laplace's is used in its place." if unknown else "",
        f"Importance and bridge sampling contradict each other for {disputed}." if disputed else "",
        f"The most probable model is {best} ({float(true.max()):.2f}), {by_laplace}; "
        f"no probability is off by more than {furthest:.2g}.",
        f"The Laplace approximation misses part of the posterior of {missed} (Pareto k)." if missed else "",
    ]
    wanted = [f"sample {unsure} longer"] if unsure else []
    if "decision" in tree.children:
        decision = tree["decision"].to_dataset()
        ratio = decision.regret_ratio.to_series()
        sentences.append(f"{_picks(decision, ratio.index)}.")
        enough = min(POOR_DECISION, float(decision.split_half.sel(criterion="bams"))) if "bams" in ratio else 0.0
        if ratio.get("bams", 1.0) < enough:
            wanted.append(
                'take bams with method="draws"'
                if ratio.get("bams_draws", 0.0) >= enough
                else 'weigh the models of bams by importance evidences (ModelAverage(fits, evidence="importance"))'
            )
    if furthest > PROBABILITY_MATTERS:
        wanted.append('weigh the models by model_posterior(..., evidence="importance")')
    return " ".join([*filter(None, sentences), _to_do(wanted, "go on, Laplace's evidences serve here")])


def converged(tree: xr.DataTree) -> bool:
    """Whether the trace of one model can serve as truth."""
    d = tree["trace_diagnostics"]
    rhat = float(d["largest_rhat"])
    return (np.isnan(rhat) or rhat <= RHAT_USABLE) and float(d["smallest_ess"]) >= FEWEST_EFFECTIVE / 4


def contradictory(tree: xr.DataTree) -> bool:
    """Whether importance and bridge sampling, both sound by themselves, differ by more than their errors allow."""
    if {"problem_importance", "problem_bridge"} & set(tree["evidence"].attrs):
        return False
    both = tree["evidence"].to_dataset().sel(estimator=["importance", "bridge"])
    difference = float(np.ptp(both.log_evidence.to_numpy()))
    return difference > CONTRADICTION * float(np.hypot(*both.standard_error.to_numpy()))


def _listed(labels: Iterable[object]) -> str:
    return ", ".join(map(repr, labels))


def _to_do(wanted: Sequence[str], otherwise: str) -> str:
    return f"What to do: {'; '.join(wanted) or otherwise}."


def _on_trace(tree: xr.DataTree) -> str:
    d = tree["trace_diagnostics"]
    rhat, size, n = (float(d[name]) for name in ("largest_rhat", "smallest_ess", "n_divergences"))
    known = "R-hat unknown (one chain)" if np.isnan(rhat) else f"largest R-hat {rhat:.3f}"
    divergences = f"{n:,.0f} divergence{'s' if n != 1 else ''}" if n else "no divergences"
    numbers = f"({known}, smallest effective sample size {size:,.0f}, {divergences})"
    if not converged(tree):
        return f"MCMC has NOT converged {numbers}, so the comparisons below mean little."
    good = (np.isnan(rhat) or rhat <= RHAT_GOOD) and size >= FEWEST_EFFECTIVE and not n
    return f"MCMC {'converged' if good else 'is rough but usable'} {numbers}."


def _on_pareto_k(tree: xr.DataTree) -> str:
    k = float(tree["laplace"]["pareto_k"])
    covers = "covers the posterior" if k < PARETO_GOOD else "covers the posterior roughly"
    meaning = covers if k <= PARETO_LIMIT else "misses a part of the posterior that matters"
    return f"The Laplace approximation {meaning} (Pareto k {k:.2f}; importance sampling works up to {PARETO_LIMIT})."


def _on_predictions(tree: xr.DataTree) -> str:
    skl = tree["predictions"]["skl"]
    middle = skl.median("point").to_series()
    best = middle.idxmin()
    how = "close to" if middle["mgp"] <= CLOSE else "visibly off"
    closest = "no method is closer" if best == "mgp" else f'method="{best}" is closest ({middle[best]:.2g})'
    return (
        f"Predictions of the marginal GP are {how} MCMC's: {middle['mgp']:.2g} nats at the median point, "
        f"{float(skl.sel(approximation='mgp').max()):.2g} at the worst; {closest}."
    )


def _on_evidence(tree: xr.DataTree) -> str:
    evidence = tree["evidence"].to_dataset()
    reference = evidence.attrs["reference"]
    if reference == "none":
        problems = {name: evidence.attrs.get(f"problem_{name}", "not finite") for name in _OTHER}
        reasons = "; ".join(f"{name}: {problem}" for name, problem in problems.items())
        return f"There is no sampled evidence to compare with ({reasons})."
    value = {str(name): float(evidence.log_evidence.sel(estimator=name)) for name in evidence.estimator.to_numpy()}
    error = float(evidence.standard_error.sel(estimator=reference))
    laplace, true, name = value["laplace"], value[reference], f"{reference} sampling"
    difference = laplace - true
    if not np.isfinite(difference):
        return f"Laplace's evidence is not finite; {name} gives {true:.2f} ± {error:.2f} nats."
    if contradictory(tree):
        other = _OTHER[reference]
        return (
            f"Two estimates of the log evidence contradict each other ({name} {true:.2f}, {other} sampling "
            f"{value[other]:.2f}; Laplace {laplace:.2f} nats): a mode is missing in the fit or in the trace."
        )
    if abs(difference) <= 2 * error:
        return f"Laplace's log evidence agrees with {name} ({difference:+.2f} ± {error:.2f} nats)."
    matters = abs(difference) > EVIDENCE_MATTERS
    return (
        f"Laplace's log evidence is {abs(difference):.2f} ± {error:.2f} nats {'above' if difference > 0 else 'below'} "
        f"that of {name}, {'enough to change odds of models' if matters else 'less than a factor of 2 in odds'}."
    )


def _picks(decision: xr.Dataset, names: Sequence[str]) -> str:
    """The first criterion's best utility sets the scale; then each criterion's share of its own best."""
    first = decision.sel(criterion=names[0])
    worth = f"{float(first.true_utility.max()):.2g} {first.units.item()} for {names[0]}"
    shares = ", ".join(f"{name} {float(decision.regret_ratio.sel(criterion=name)):.2f}" for name in names)
    return f"The picks get this share of the best true utility in the pool ({worth}): {shares}"


def _on_decisions(tree: xr.DataTree) -> str:
    decision = tree["decision"].to_dataset()
    ratio = decision.regret_ratio.to_series()
    asked = [name for name in DEFAULTS if name in ratio.index] or list(ratio.index[:1])
    text = _picks(decision, asked)
    others = ratio.drop(asked)
    if len(others) and others.min() < GOOD_DECISION:
        text += f"; of the other criteria {others.idxmin()} is worst with {others.min():.2f}"
    elif len(others):
        text += f"; all other criteria get at least {GOOD_DECISION}"
    split = decision.split_half.sel(criterion=asked).min().item()
    return text + (f". The trace itself is good to {split:.2f} here." if split < GOOD_DECISION else ".")


def _advice(tree: xr.DataTree) -> list[str]:
    """What to change, given a trace that can serve as truth."""
    wanted = []
    if "decision" in tree.children:
        decision = tree["decision"].to_dataset()
        # The trace may not know its best candidate any better.
        good = (decision.regret_ratio >= np.minimum(POOR_DECISION, decision.split_half)).to_series()
        poor = [name for name in DEFAULTS if name in good.index and not good[name]]
        if poor:
            wanted.append(f"take {' and '.join(poor)} over the trace, as Learner(verify=...) does where needed")
        if "bald" in good.index and not good["bald"] and good.get("bald_draws", False):
            wanted.append('take bald with method="draws", not of the marginal GP')
    middle = tree["predictions"]["skl"].median("point").to_series()
    best = middle.idxmin()
    if middle["mgp"] > CLOSE:
        wanted.append(
            f'predict with method="{best}"'
            if middle[best] <= max(CLOSE, 0.5 * middle["mgp"])
            else "predict from the trace (pma.predict(trace, X_new, model=gpm))"
        )
    elif float(tree["laplace"]["pareto_k"]) > PARETO_LIMIT:
        wanted.append('prefer method="draws" to one Gaussian, and use verify= in long runs')
    attrs, values = tree["evidence"].attrs, tree["evidence"]["log_evidence"]
    if attrs["reference"] == "none":
        return wanted
    difference = float(values.sel(estimator="laplace") - values.sel(estimator=attrs["reference"]))
    if contradictory(tree):
        wanted.append("search longer for modes (n_restarts) and let the chains start at all of them")
    elif not abs(difference) <= EVIDENCE_MATTERS:
        wanted.append(
            'compare models with model_posterior(..., evidence="importance")'
            if "problem_importance" not in attrs
            else "compare models by the bridge's evidences (check takes several fits), not by Laplace's"
        )
    return wanted
