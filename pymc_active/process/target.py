"""The posterior of any PyMC model as annealing follows it: with additional noise, or with a temperature."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pymc_active.posterior.base import Likelihoods
from pymc_active.process.graphs import ModelGraphs
from pymc_active.process.noise import noise_unit
from pymc_active.support.data import Data

# Particles times rows that are evaluated at once.
_BLOCK = 2_000_000

# With more observations than this the scale is known so well that many levels would follow it as noise is taken away: a
# line took 44, 77 and 282 for 200, 1,000 and 20,000 observations, and with a temperature besides 36, 39 and 45.
_FEW = 50


class AnnealedModel:
    """Log prior, and log likelihood with additional noise, of a model and its data, at particles z (S, P).

    The same interface as :class:`~pymc_active.posterior.base.Posterior`, as far as annealing and updates use it.
    Additional noise is in variances of y; an outcome without a scale has its log likelihood divided by one more.
    """

    # Of the additional noise; and trajectories at most, since some models are stiff and all are quickly evaluated.
    noise_unit, most_moves = 1.0, (4, 12)

    def __init__(self, graphs: ModelGraphs, data: Data, tables: Sequence[np.ndarray], read):
        self.graphs, self.data, self.tables, self._read = graphs, data, tables, read
        self.n_parameters = int(graphs.Z.type.shape[1])
        self.is_tempered = graphs.is_tempered
        self._units = noise_unit(graphs.outcome, data.y), max(data.y.size / _FEW - 1, 0.0)
        self._noise = 0.0
        self._last: tuple[np.ndarray, float, list[np.ndarray]] = np.empty(0), 0.0, []

    @property
    def y(self) -> np.ndarray:
        """The outcomes (n,)."""
        return self.data.y

    def with_data(self, X: np.ndarray, y: np.ndarray, y_sd: np.ndarray | None = None) -> AnnealedModel:
        """The same model given other data."""
        return AnnealedModel(self.graphs, Data(X, y), self._read(X), self._read)

    def _evaluate(self, z: np.ndarray, noise: float = 0.0) -> list[np.ndarray]:
        if self._last[0] is not z or self._last[1] != noise:
            y = self.graphs.as_outcome(self.y)
            blocks = np.array_split(z, len(z) * max(len(self.y), 1) // _BLOCK + 1)
            with np.errstate(all="ignore"):
                densities = [self.graphs.densities(block, noise, *self._units, y, *self.tables) for block in blocks]
            prior, slope, value, gradient, in_noise = (np.concatenate(parts) for parts in zip(*densities, strict=True))
            # A parameter check that fails, or an overflow, is a density of zero.
            good = np.isfinite(prior) & np.isfinite(value)
            prior, value = (np.where(good, one, -np.inf) for one in (prior, value))
            slope, gradient = (np.where(good[:, None] & np.isfinite(one), one, 0.0) for one in (slope, gradient))
            self._last = z, noise, [prior, slope, value, gradient, np.where(good, np.nan_to_num(in_noise), 0.0)]
        return self._last[2]

    def log_priors(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Log prior densities (S,), with the Jacobian of the transforms, and their gradients (S, P)."""
        # Annealing asks for both at the same particles, and mostly with the noise that it asked for last.
        prior, slope, *_ = self._evaluate(z, self._noise)
        return prior, slope

    def log_likelihoods(self, z: np.ndarray, extra_noise: float = 0.0, start: np.ndarray | None = None) -> Likelihoods:
        """Log likelihoods with additional noise, in variances of y."""
        self._noise = extra_noise
        return Likelihoods(*self._evaluate(z, extra_noise)[2:])

    def likelihood_values(self, z: np.ndarray) -> np.ndarray:
        """Log likelihoods (S,)."""
        return self._evaluate(z)[2]

    def values(self, z: np.ndarray) -> np.ndarray:
        """Log posterior densities (S,), up to the evidence."""
        prior, _, likelihood, *_ = self._evaluate(z)
        return prior + likelihood

    def log_prior_terms(self, z: np.ndarray) -> np.ndarray:
        """Log prior density of each free variable in the user's space, (S, k)."""
        return np.stack(self.graphs.prior_terms(z), axis=1)
