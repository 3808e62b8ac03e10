"""The meaning of a check in three sentences, and what to do."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import xarray as xr

# Chains agree below 1.01, with 400 effective draws (Vehtari et al. 2021); by older standards a trace up to 1.05, with a
# quarter of these draws, is usable.
RHAT_USABLE, FEWEST_EFFECTIVE = 1.05, 100
# Nats a point: what does not matter, and what calls for another approximation. Of 60 data sets of 5 to 20 points drawn
# from models (ARD in two inputs, 10/2), default fits lost 0.001 to 0.03 on average against four times the particles,
# 0.07 at most.
AS_GOOD, WORSE = 0.02, 0.1
# Log 2: a larger error of the evidence changes the odds of two models by more than a factor of two.
EVIDENCE_MATTERS = 0.7
# Below this share of the best, one measurement in ten is wasted.
GOOD_DECISION = 0.9
# A reference misses mass if its evidence is lower by more than this many common standard errors: a guess.
CONTRADICTION = 4.0
# A larger error of a probability changes how a sentence about the models reads.
PROBABILITY_MATTERS = 0.1

_REFERENCE = {"run": "a longer run", "trace": "MCMC", "fit": "the other fit"}
# How a longer run was made, by what says how its evidence was obtained.
_BY = {
    "smc": ", annealed from the prior",
    "importance": ", around modes searched anew",
    "smc and importance": ", annealed from the prior and around modes searched anew",
}


def verdict_on_fit(tree: xr.DataTree) -> str:
    """Sentences about one fit, from the groups of :func:`pymc_active.check`."""
    if tree.attrs["reference_by"] == "exact":
        return "The model has no free parameters, so the fit is exact."
    doubt, lost, difference = doubts(tree), loss(tree), _evidence_difference(tree)
    name = "another run" if _is_short(tree) else _REFERENCE[tree.attrs["reference"]]
    by = _BY.get(tree.attrs["reference_by"], "")
    compared = "as well as" if abs(lost) <= AS_GOOD else "better than" if lost < 0 else "worse than"
    amount = f"to {AS_GOOD}" if abs(lost) <= AS_GOOD else f"by {abs(lost):.2g}"
    sentences = [
        f"The fit predicts {compared} {name} ({tree.attrs['n_draws']:,} draws{by}), {amount} nats a point.",
        _on_evidence(tree),
    ]
    if _is_short(tree):
        of_both = f"{tree.attrs['n_draws']:,} draws for {tree.attrs['n_draws_of_fit']:,}"
        sentences.append(f"The reference was no longer than the fit ({of_both}), so both may miss the same.")
    wanted = []
    if lost > WORSE:
        wanted.append("fit with more particles (n_particles), of a LaplaceFit by pma.fit")
    if abs(difference) > EVIDENCE_MATTERS:
        wanted.append("compare models by the evidence of the reference")
    if "decision" in tree.children:
        shares = tree["decision"].regret_ratio.to_series()
        sentences.append(_on_decisions(tree))
        if poor := _listed(shares.index[shares < GOOD_DECISION]):
            wanted.append(f"look at the utilities of {poor}, or fit with more particles")
    if doubt:
        sentences.append(f"But the reference is doubtful: {doubt}.")
        wanted = ["make the reference longer (n_particles, draws), or give the parameters tighter priors"]
    return " ".join([*filter(None, sentences), _to_do(wanted)])


def verdict_on_models(tree: xr.DataTree) -> str:
    """Sentences about several models, from the groups of :func:`pymc_active.check`."""
    models = tree["models"].to_dataset()
    nodes = dict(zip(models.model.to_numpy().tolist(), tree["fits"].children.values(), strict=True))
    own, true = models.probability.sel(estimator="fit"), models.true_probability
    best, furthest = str(true.idxmax().item()), float(np.abs(true - own).max())
    sentences = [
        f"The most probable model is {best} ({float(own.sel(model=true.idxmax())):.2f} by the fits, "
        f"{float(true.max()):.2f} by the references), and no probability is off by more than {furthest:.2g}."
    ]
    wanted = []
    if lossy := _listed(label for label, node in nodes.items() if loss(node) > WORSE):
        sentences.append(f"Predictions of {lossy} lose more than {WORSE} nats a point.")
        wanted.append(f"fit {lossy} with more particles (n_particles), or by pma.fit")
    if "decision" in tree.children:
        sentences.append(_on_decisions(tree))
    if furthest > PROBABILITY_MATTERS:
        wanted.append("take the evidences of the references")
    if short := _listed(label for label, node in nodes.items() if _is_short(node)):
        sentences.append(f"The reference of {short} was no longer than the fit, so both may miss the same.")
    if unsure := _listed(label for label, node in nodes.items() if doubts(node)):
        sentences.append(f"But the reference of {unsure} is doubtful.")
        wanted = [f"make the reference of {unsure} longer"]
    return " ".join([*sentences, _to_do(wanted)])


def loss(tree: xr.DataTree) -> float:
    """Nats a point that the approximation used by ``predict`` loses against the reference."""
    predictions = tree["predictions"].to_dataset()
    return float((predictions.nll[0] - predictions.true_nll).mean())


def doubts(tree: xr.DataTree) -> str:
    """Why the reference of one model cannot serve as truth; empty if it can."""
    if "trace_diagnostics" in tree.children:
        d = tree["trace_diagnostics"].to_dataset()
        rhat, size, n_divergences = (float(d[name]) for name in ("largest_rhat", "smallest_ess", "n_divergences"))
        # Of one chain R-hat is not known.
        if rhat > RHAT_USABLE or size < FEWEST_EFFECTIVE:
            return f"MCMC has NOT converged (R-hat {rhat:.3f}, {size:,.0f} effective draws)"
        # Betancourt (2017): below one in a hundred, divergences need a look but seldom move a mean.
        return f"{n_divergences:,.0f} divergences" if n_divergences > 0.01 * float(d.n_draws) else ""
    errors = tree["evidence"].standard_error.to_numpy()
    if misses_mass(_evidence_difference(tree), float(np.hypot(*errors))):
        return "its evidence is lower than the evidence of the fit, so it misses a part of the posterior"
    return tree.attrs["doubts"]


def _is_short(tree: xr.DataTree) -> bool:
    """Whether a run that should have been longer is not, as where no more particles are affordable."""
    is_sampled = tree.attrs["reference_by"] != "exact" and "laplace" not in tree.children
    return tree.attrs["reference"] == "run" and is_sampled and tree.attrs["n_draws"] <= tree.attrs["n_draws_of_fit"]


def misses_mass(difference: float, error: float) -> bool:
    """Whether a sampled evidence lies above the evidence of its reference by more than their common error explains.

    An error that is not known, as of Laplace's evidence, which can be too high by itself, says nothing: False.
    """
    return np.isfinite(error) and difference > max(CONTRADICTION * error, EVIDENCE_MATTERS)


def _evidence_difference(tree: xr.DataTree) -> float:
    own, true = tree["evidence"].log_evidence.to_numpy()
    return float(own - true) if np.isfinite(true) else np.nan


def _on_evidence(tree: xr.DataTree) -> str:
    """Empty if the reference has no evidence, as a trace."""
    difference, errors = _evidence_difference(tree), tree["evidence"].standard_error.to_numpy()
    if np.isnan(difference):
        return ""
    error = float(np.sqrt(np.nansum(errors**2)))
    if abs(difference) <= 2 * error < np.inf:
        return f"Its log evidence agrees ({difference:+.2f} ± {error:.2f} nats)."
    known = f" ± {error:.2f} nats" if np.isfinite(errors).all() else " nats, with an unknown error"
    odds = "more" if abs(difference) > EVIDENCE_MATTERS else "less"
    return f"Its log evidence differs ({difference:+.2f}{known}), {odds} than a factor of 2 in odds."


def _on_decisions(tree: xr.DataTree) -> str:
    shares = tree["decision"].regret_ratio.to_series()
    text = ", ".join(f"{name} {share:.2f}" for name, share in shares.items())
    return f"Of the best utility in the pool, judged by the reference, its picks have: {text}."


def _listed(labels: Iterable[object]) -> str:
    return ", ".join(map(str, labels))


def _to_do(wanted: list[str]) -> str:
    return f"What to do: {'; '.join(wanted) or 'go on, the fit serves here'}."
