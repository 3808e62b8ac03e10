"""Likelihoods by the names that builders take."""

from __future__ import annotations

from pymc_active.likelihoods.base import Likelihood
from pymc_active.likelihoods.binary import Bernoulli, Binomial
from pymc_active.likelihoods.counts import NegativeBinomial, Poisson
from pymc_active.likelihoods.student_t import StudentT
from pymc_active.likelihoods.warped import LogNormal, Warped

_ALL: tuple[type[Likelihood], ...] = (Bernoulli, Binomial, Poisson, NegativeBinomial, StudentT, LogNormal, Warped)
LIKELIHOODS = {kind.name: kind for kind in _ALL}


def find_likelihood(name: str) -> Likelihood | None:
    """The likelihood of a name, None for ``"normal"``; a ValueError for others."""
    if name == "normal":
        return None
    if name not in LIKELIHOODS:
        hint = ", which Learner(None, ..., likelihood='auto') takes, since it has two models" if name == "auto" else ""
        raise ValueError(f"likelihood must be one of normal, {', '.join(LIKELIHOODS)}; got {name!r}{hint}")
    return LIKELIHOODS[name]()
