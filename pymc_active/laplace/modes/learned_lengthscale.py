"""Modes of an embedding whose lengthscale is learned: those at the lengthscale of the highest evidence.

The joint density of R and the lengthscale is highest where little of the posterior is. A short lengthscale goes with
small entries of R, which cost less under their prior but must be right to a smaller error, and a density does not know
how much volume that leaves. So the lengthscale maximises the Laplace evidence of all other parameters.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import TypeGuard

import numpy as np

from pymc_active.laplace.expansion import Expansion
from pymc_active.posterior.array import EmbeddingPosterior
from pymc_active.posterior.base import NoFiniteStartError
from pymc_active.posterior.prior import GaussianPrior

# Prior sds to look on either side of the prior mean, how exactly, and the prior sd of a lengthscale that is given.
_WITHIN, _EXACTLY, _GIVEN = 2.5, 0.1, 1e-3
# Loss of a lengthscale with which K is singular; a number, for parabolas.
_IMPOSSIBLE = 1e10


def learns_lengthscale(posterior: object) -> TypeGuard[EmbeddingPosterior]:
    """Whether a posterior is of an embedding with a free R and a free lengthscale."""
    return isinstance(posterior, EmbeddingPosterior) and (
        max(posterior.R.stop - 1, posterior.log_lengthscale) < posterior.n_parameters
    )


class GivenLengthscale:
    """The conditional posteriors of an embedding's parameters given a lengthscale."""

    def __init__(self, posterior: EmbeddingPosterior):
        self._posterior, self._index = posterior, posterior.log_lengthscale
        self.mean, self.sd = float(posterior.prior.mean[self._index]), float(posterior.prior.sd[self._index])

    def posterior(self, log_lengthscale: float) -> EmbeddingPosterior:
        """The posterior with a prior that leaves the lengthscale no room."""
        prior, conditional = self._posterior.prior, copy(self._posterior)
        mean, sd = prior.mean.copy(), prior.sd.copy()
        mean[self._index], sd[self._index] = log_lengthscale, _GIVEN
        conditional.prior = GaussianPrior(mean, sd)
        return conditional

    def start(self, theta: np.ndarray, log_lengthscale: float) -> np.ndarray:
        """The same functions as at theta (P,), with another lengthscale."""
        theta = theta.copy()
        theta[self._posterior.R] *= np.exp(log_lengthscale - theta[self._index])
        theta[self._index] = log_lengthscale
        return theta

    def most_probable(self, mode: np.ndarray, modes_at: Callable[[float, list[np.ndarray]], list[Expansion]]) -> float:
        """Log of the lengthscale with the highest Laplace evidence times prior; follows a mode theta (P,)."""
        # With other lengthscales than the mode's, the prior's mean, K may be singular.

        def loss(u: float) -> float:
            value = self.mean + self.sd * u
            try:
                return 0.5 * u**2 - modes_at(value, [self.start(mode, value)])[0].log_evidence
            except NoFiniteStartError:
                return _IMPOSSIBLE

        from scipy.optimize import minimize_scalar  # takes long to load

        minimum = minimize_scalar(loss, bounds=(-_WITHIN, _WITHIN), method="bounded", options={"xatol": _EXACTLY})
        return self.mean + self.sd * float(minimum.x) if minimum.fun < _IMPOSSIBLE else self.mean
