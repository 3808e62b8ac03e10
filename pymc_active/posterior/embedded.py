"""A conditioned GP on a linear embedding, as a process in the few embedded inputs u = R x."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pymc_active.posterior.array import EmbeddingPosterior
from pymc_active.posterior.conditioned import ConditionedGP
from pymc_active.support.scaling import InputMap


@dataclass(frozen=True)
class EmbeddedMap:
    """From the user's inputs (m, D) to u (m, d)."""

    x_map: InputMap
    R: np.ndarray

    def __call__(self, value: np.ndarray) -> np.ndarray:
        return self.x_map(value) @ self.R.T

    def pullback(self, value: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        return self.x_map.pullback(value, gradient @ self.R)


class EmbeddedGP(ConditionedGP):
    """The process ``gp`` in d inputs, so that covariances cost no more than d inputs do."""

    def __init__(self, gp: ConditionedGP):
        super().__init__(gp.posterior, gp.theta, gp.sign < 0)
        assert isinstance(gp.posterior, EmbeddingPosterior)
        self.source = gp
        self.R = gp.posterior.embedding(gp.theta)
        self.X = gp.X @ self.R.T

    @property
    def x_map(self):
        return EmbeddedMap(self.posterior.x_map, self.R)

    @property
    def factor(self):
        return self.source.factor

    @cached_property
    def _constant_noise(self):
        return self.source._constant_noise

    @property
    def y(self):
        return self.source.y

    def to_user(self, X):
        raise NotImplementedError("many inputs x have the same embedded inputs u")

    def prior_mean(self, X):
        mean, _ = self.source.prior_mean(np.zeros((len(X), self.source.X.shape[1])))
        return mean, np.zeros(X.shape)

    def lines(self, a, b):
        posterior = self.posterior
        assert isinstance(posterior, EmbeddingPosterior)
        return posterior.lines_between(self.theta, a - b, lambda direction: direction)


def in_fewest_inputs(gp: ConditionedGP) -> ConditionedGP:
    """The process in d embedded inputs, if d < D and the mean is constant, else itself; maps lead there and back."""
    posterior = gp.posterior
    if not isinstance(posterior, EmbeddingPosterior) or posterior.shape[0] >= posterior.shape[1]:
        return gp
    return gp if len(posterior.mean_indices) > 1 else EmbeddedGP(gp)
