"""The meaning of a check in three sentences, and what to do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import xarray as xr

# Nats a point: what does not matter, and what calls for another approximation. Of 60 data sets of 5 to 20 points drawn
# from models (ARD in two inputs, 10/2), default fits lost 0.001 to 0.03 on average against four times the particles,
# 0.07 at most.
AS_GOOD, WORSE = 0.02, 0.1
# Log 2: a larger error of the evidence changes the odds of two models by more than a factor of two.
EVIDENCE_MATTERS = 0.7
GOOD_DECISION = 0.9  # Below this share of the best, one measurement in ten is wasted.
# Surprise that speaks against a model, of all points on average and of one; of 60 data sets from the model none did.
_SURPRISING, _IMPOSSIBLE = 3.0, 15.0
# A reference misses mass if its evidence is lower by more than this many common standard errors: a guess.
_CONTRADICTION = 4.0

_REFERENCE = {"run": "another run", "trace": "MCMC", "fit": "the other fit"}


class Differences(NamedTuple):
    """What a fit loses against its reference.

    ``nll_loss`` is what the approximation that ``predict`` uses loses, in nats a point, and ``loss_error`` its standard
    error, large where a few outcomes in a tail decide; ``evidence_difference`` the log evidence of the fit less the
    reference's, ``evidence_error`` their common standard error; NaN if unknown.
    """

    nll_loss: float
    evidence_difference: float
    evidence_error: float
    loss_error: float = 0.0

    @classmethod
    def of(cls, groups: Mapping[str, xr.Dataset] | xr.DataTree) -> Differences:
        """From the groups of :func:`pymc_active.check`."""
        predictions, evidence = groups["predictions"], groups["evidence"]
        own, true = evidence.log_evidence.to_numpy()
        error = float(np.hypot(*evidence.standard_error.to_numpy()))
        loss = float((predictions.nll[0] - predictions.true_nll).mean())
        return cls(loss, float(own - true), error, float(predictions.nll_loss_error[0]))

    @property
    def is_worse(self) -> bool:
        """Whether the fit loses more than matters, and for sure."""
        return self.nll_loss > max(WORSE, 2 * self.loss_error)

    @property
    def reference_misses_mass(self) -> bool:
        """Whether the evidence of the fit is higher by more than the error explains: particles can only miss mass.

        An error that is not known, as of Laplace's evidence, which can be too high by itself, says nothing: False.
        """
        return bool(self.evidence_difference > np.maximum(_CONTRADICTION * self.evidence_error, EVIDENCE_MATTERS))


def verdict(tree: xr.DataTree) -> str:
    """Sentences about a fit, from the groups and attributes of :func:`pymc_active.check`."""
    if tree.attrs["reference_by"] == "exact":
        return "The model has no free parameters, so the fit is exact."
    lost, *_, error = differences = Differences.of(tree)
    compared = "as well as" if abs(lost) <= AS_GOOD else "better than" if lost < 0 else "worse than"
    amount = f"to {AS_GOOD}" if abs(lost) <= AS_GOOD else f"by {abs(lost):.2g} ± {error:.1g}"
    name = f"{_REFERENCE[tree.attrs['reference']]} ({tree.attrs['n_draws']:,} draws)"
    sentences, wanted = [f"The fit predicts {compared} {name}, {amount} nats a point."], []
    if differences.is_worse:
        wanted.append("fit with more particles or draws (n_particles), of a LaplaceFit by pma.fit")
    elif lost > WORSE:
        wanted.append("compare quantiles of both where they differ, since a few outcomes in a tail decide")
    # A trace has no evidence.
    if not np.isnan(differences.evidence_difference):
        sentences.append(_on_evidence(differences))
    if abs(differences.evidence_difference) > EVIDENCE_MATTERS:
        wanted.append("compare models by the evidence of the reference")
    if "decision" in tree.children:
        shares = tree["decision"].regret_ratio.to_series()
        listed = ", ".join(f"{name} {share:.2f}" for name, share in shares.items())
        sentences.append(f"Of the best utility in the pool, judged by the reference, its picks have: {listed}.")
        if poor := ", ".join(shares.index[shares < GOOD_DECISION]):
            wanted.append(f"look at the utilities of {poor}, or fit with more particles")
    surprise = tree["predictions"]["surprise"].to_numpy()
    if surprise.mean() > _SURPRISING or surprise.max() > _IMPOSSIBLE:
        sentences.append(f"But the observations contradict both, above all row {surprise.argmax()} of y_new.")
        wanted = ["look at these observations, and at the model (pma.advise(fit) may say why)"]
    if doubts := tree.attrs["doubts"]:
        sentences.append(f"But the reference is doubtful: {doubts}.")
        wanted = ["make the reference longer (n_particles, draws), or give the parameters tighter priors"]
    return " ".join([*sentences, f"What to do: {'; '.join(wanted) or 'go on, the fit serves here'}."])


def _on_evidence(differences: Differences) -> str:
    difference, error = differences.evidence_difference, differences.evidence_error
    compared = "agrees" if abs(difference) <= 2 * error < np.inf else "differs"
    stated = f" ± {error:.2f} nats" if np.isfinite(error) else " nats, with an unknown error"
    return f"Its log evidence {compared} ({difference:+.2f}{stated})."
