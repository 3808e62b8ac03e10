"""What a check means, in a few sentences that somebody can act on."""

from __future__ import annotations

import numpy as np
import xarray as xr

from pymc_active.laplace.draws.importance import PARETO_LIMIT

# Vehtari et al. (2021): chains agree below 1.01, and below 400 effective draws neither R-hat nor quantiles are stable.
# Up to 1.05 the traditional reading calls a trace usable.
RHAT_GOOD, RHAT_USABLE, FEWEST_EFFECTIVE = 1.01, 1.05, 400
# Vehtari et al. (2024): below 0.5 importance weights have a variance.
PARETO_GOOD = 0.5
# A mean that is off by a third of a posterior sd has a symmetrised divergence of 0.1 nats.
CLOSE = 0.1
# Log 2: an evidence off by more changes the odds of two models by more than a factor of two.
EVIDENCE_MATTERS = 0.7
# The mean relative utility that the criteria aim at.
GOOD_DECISION = 0.95
# Below, one measurement in ten is made for nothing: worth the price of another criterion.
POOR_DECISION = 0.9
# Two estimates that are further apart than so many of their common standard errors contradict each other.
CONTRADICTION = 4.0
# A probability off by more would change how a sentence about the models reads.
PROBABILITY_MATTERS = 0.1
# What a Learner asks by: of hyperparameters, of the function, of the maximum.
DEFAULTS = ("bald_draws", "uncertainty", "pes")


def verdict_on_fit(tree: xr.DataTree) -> str:
    """Sentences about one fit, from the groups of :func:`pymc_active.check`."""
    sentences = [_on_trace(tree), _on_pareto_k(tree), _on_predictions(tree), _on_evidence(tree)]
    if "decision" in tree.children:
        sentences.append(_on_decisions(tree))
    return " ".join([*sentences, _advice(tree)])


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


def _on_trace(tree: xr.DataTree) -> str:
    d = tree["trace_diagnostics"]
    rhat, size, divergences = (float(d[name]) for name in ("largest_rhat", "smallest_ess", "n_divergences"))
    told = [
        "R-hat unknown (one chain)" if np.isnan(rhat) else f"largest R-hat {rhat:.3f}",
        f"smallest effective sample size {size:,.0f}",
        f"{divergences:,.0f} divergence{'s' if divergences != 1 else ''}" if divergences else "no divergences",
    ]
    if not converged(tree):
        return f"MCMC has NOT converged ({', '.join(told)}), so that it is no truth to compare with."
    good = (np.isnan(rhat) or rhat <= RHAT_GOOD) and size >= FEWEST_EFFECTIVE and not divergences
    return f"MCMC {'converged' if good else 'is rough but usable'} ({', '.join(told)})."


def _on_pareto_k(tree: xr.DataTree) -> str:
    k = float(tree["laplace"]["pareto_k"])
    meaning = (
        "covers the posterior"
        if k < PARETO_GOOD
        else "covers the posterior roughly"
        if k <= PARETO_LIMIT
        else "misses a part of the posterior that matters"
    )
    return f"The Laplace approximation {meaning} (Pareto k {k:.2f}; up to {PARETO_LIMIT} it could be repaired)."


def _on_predictions(tree: xr.DataTree) -> str:
    middle = tree["predictions"]["skl"].median("point").to_series()
    mgp, best = middle["MGP"], middle.idxmin()
    largest = float(tree["predictions"]["skl"].sel({"approximation": "MGP"}).max())
    text = (
        f"Predictions of the marginal GP are {'close to' if mgp <= CLOSE else 'visibly off'} MCMC's: {mgp:.2g} nats at "
        f"the median point, {largest:.2g} at the worst"
    )
    return text + (f"; closest are those of {best} ({middle[best]:.2g})." if best != "MGP" else ", the closest of all.")


def _on_evidence(tree: xr.DataTree) -> str:
    evidence = tree["evidence"].to_dataset()
    reference = evidence.attrs["reference"]
    if reference == "none":
        reasons = "; ".join(
            f"{n}: {evidence.attrs.get(f'problem_{n}', 'not finite')}" for n in ("importance", "bridge")
        )
        return f"The evidence is not known to compare with ({reasons})."
    laplace = float(evidence.log_evidence.sel(estimator="laplace"))
    true, error = (float(evidence[n].sel(estimator=reference)) for n in ("log_evidence", "standard_error"))
    difference = laplace - true
    if not np.isfinite(difference):
        return f"Laplace's evidence is not finite; {reference} sampling gives {true:.2f} ± {error:.2f} nats."
    name = f"{reference} sampling"
    if contradictory(tree):
        other = float(evidence.log_evidence.sel(estimator="bridge" if reference == "importance" else "importance"))
        return (
            f"Two estimates of the log evidence contradict each other ({reference} sampling {true:.2f}, the other "
            f"{other:.2f}; Laplace {laplace:.2f} nats): a mode is missing in the fit or in the trace."
        )
    if abs(difference) <= 2 * error:
        return f"Laplace's log evidence agrees with {name} ({difference:+.2f} ± {error:.2f} nats)."
    much = (
        "enough to change odds of models" if abs(difference) > EVIDENCE_MATTERS else "less than a factor of 2 in odds"
    )
    way = "above" if difference > 0 else "below"
    return f"Laplace's log evidence is {abs(difference):.2f} ± {error:.2f} nats {way} that of {name}, {much}."


def _on_decisions(tree: xr.DataTree) -> str:
    decision = tree["decision"].to_dataset()
    ratio = decision.regret_ratio.to_series()
    asked = [name for name in DEFAULTS if name in ratio.index] or list(ratio.index[:1])
    told = [f"{name} {ratio[name]:.2f}" for name in asked]
    worth = float(decision.true_utility.sel(criterion=asked[0]).max())
    text = (
        f"Of the best true utility in the pool ({worth:.2g} {decision.units.sel(criterion=asked[0]).item()} for "
        f"{asked[0]}) the picks have: {', '.join(told)}"
    )
    others = ratio.drop(asked)
    if len(others) and others.min() < GOOD_DECISION:
        text += f"; of the other criteria {others.idxmin()} is worst with {others.min():.2f}"
    elif len(others):
        text += f"; all other criteria have at least {GOOD_DECISION}"
    split = decision.split_half.sel(criterion=asked).min().item()
    return text + (f". The trace itself is good to {split:.2f} here." if split < GOOD_DECISION else ".")


def _advice(tree: xr.DataTree) -> str:
    if not converged(tree):
        return (
            "What to do: sample longer, or start the chains at the fit's modes "
            "(pma.sample(gpm, draws=..., tune=..., initvals=fit.constrained_point)), and check again."
        )
    k = float(tree["laplace"]["pareto_k"])
    middle = tree["predictions"]["skl"].median("point").to_series()
    wanted = []
    if "decision" in tree.children:
        decision = tree["decision"].to_dataset()
        # A pick cannot be asked to be better than what the trace knows.
        good = (decision.regret_ratio >= np.minimum(POOR_DECISION, decision.split_half)).to_series()
        poor = [name for name in DEFAULTS if name in good.index and not good[name]]
        if poor:
            wanted.append(f"ask by {' and '.join(poor)} over the trace, as Learner(verify=...) does where it must")
        if "bald" in good.index and not good["bald"] and good.get("bald_draws", False):
            wanted.append('take bald with method="draws", not of the marginal GP')
    if middle["MGP"] > CLOSE:
        best = middle.idxmin()
        wanted.append(
            f'predict with method="{best.lower()}"'
            if middle[best] <= max(CLOSE, 0.5 * middle["MGP"])
            else "predict from the trace (pma.predict(trace, X_new, model=gpm))"
        )
    elif k > PARETO_LIMIT:
        wanted.append('prefer method="draws" to one Gaussian, and verify= in long runs')
    reference = tree["evidence"].attrs["reference"]
    evidence = tree["evidence"]["log_evidence"]
    if reference != "none":
        difference = float(evidence.sel(estimator="laplace") - evidence.sel(estimator=reference))
        if contradictory(tree):
            wanted.append("search longer for modes (n_restarts) and let the chains start at all of them")
        elif not abs(difference) <= EVIDENCE_MATTERS:
            wanted.append(
                'compare models with model_posterior(..., method="importance")'
                if "problem_importance" not in tree["evidence"].attrs
                else "compare models by the bridge's evidences (check takes several fits), not by Laplace's"
            )
    return "What to do: " + ("; ".join(wanted) if wanted else "go on, the fast approximation serves here") + "."


def verdict_on_models(tree: xr.DataTree) -> str:
    """Sentences about several models, from the groups of :func:`pymc_active.check`."""
    models = tree["models"].to_dataset()
    nodes = list(tree["fits"].children.values())
    labels = models.model.to_numpy().tolist()
    sentences = []
    unsure = [repr(label) for label, node in zip(labels, nodes, strict=True) if not converged(node)]
    sentences.append(
        f"MCMC has NOT converged for {', '.join(unsure)}; what follows is as good as that."
        if unsure
        else f"MCMC of all {len(labels)} models can serve as truth."
    )
    failed = [repr(label) for label, name in zip(labels, models.reference.to_numpy(), strict=True) if name == "none"]
    if failed:
        sentences.append(f"No sampled evidence can be trusted for {', '.join(failed)}: Laplace's stands for it.")
    disputed = [repr(label) for label, node in zip(labels, nodes, strict=True) if contradictory(node)]
    if disputed:
        sentences.append(f"Importance and bridge sampling contradict each other for {', '.join(disputed)}.")
    true, laplace = models.true_probability, models.probability.sel(estimator="laplace")
    best, ours = str(true.idxmax().item()), str(laplace.idxmax().item())
    furthest = float(np.abs(true - laplace).max())
    sentences.append(
        f"The most probable model is {best} ({float(true.max()):.2f})"
        + (f", by Laplace's evidences {ours} ({float(laplace.max()):.2f});" if ours != best else ", by Laplace too;")
        + f" no probability is off by more than {furthest:.2g}."
    )
    rough = [
        repr(label) for label, node in zip(labels, nodes, strict=True) if node["laplace"]["pareto_k"] > PARETO_LIMIT
    ]
    if rough:
        sentences.append(f"The Laplace approximation misses part of the posterior of {', '.join(rough)} (Pareto k).")
    wanted = []
    if "decision" in tree.children:
        decision = tree["decision"].to_dataset()
        ratio = decision.regret_ratio.to_series()
        worth = float(decision.true_utility.sel(criterion="bams").max())
        sentences.append(
            f"Of the best true utility in the pool ({worth:.2g} nats for bams) the picks have: "
            + ", ".join(f"{name} {value:.2f}" for name, value in ratio.items())
            + "."
        )
        enough = min(POOR_DECISION, float(decision.split_half.sel(criterion="bams")))
        if ratio["bams"] < enough:
            wanted.append(
                'take bams with method="draws"'
                if ratio["bams_draws"] >= enough
                else 'weigh the models of bams by importance evidences (ModelAverage(fits, method="importance"))'
            )
    if furthest > PROBABILITY_MATTERS:
        wanted.append('weigh the models by model_posterior(..., method="importance")')
    if unsure:
        wanted.insert(0, f"sample {', '.join(unsure)} longer")
    sentences.append("What to do: " + ("; ".join(wanted) if wanted else "go on, Laplace's evidences serve here") + ".")
    return " ".join(sentences)
