"""The posterior of any PyMC model as annealing follows it: with a temperature in place of additional noise."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pymc_active.posterior.base import Likelihoods
from pymc_active.process.graphs import ModelGraphs
from pymc_active.support.data import Data

# Particles times rows that are evaluated at once.
_BLOCK = 2_000_000


class Tempered:
    """Log prior, and log likelihood / (1 + extra noise), of a model and its data, at particles z (S, P).

    The same interface as :class:`~pymc_active.posterior.base.Posterior`, as far as annealing and updates use it.
    """

    # Of the additional noise.
    noise_unit = 1.0

    def __init__(self, graphs: ModelGraphs, data: Data, tables: Sequence[np.ndarray], read):
        self.graphs, self.data, self.tables, self._read = graphs, data, tables, read
        self.n_parameters = int(graphs.Z.type.shape[1])
        self._last: tuple[np.ndarray, list[np.ndarray]] | None = None

    @property
    def y(self) -> np.ndarray:
        """The outcomes (n,)."""
        return self.data.y

    def with_data(self, X: np.ndarray, y: np.ndarray, y_sd: np.ndarray | None = None) -> Tempered:
        """The same model given other data."""
        return Tempered(self.graphs, Data(X, y), self._read(X), self._read)

    def _evaluate(self, z: np.ndarray) -> list[np.ndarray]:
        # Annealing asks for prior and likelihood at the same particles.
        if self._last is None or self._last[0] is not z:
            y = self.graphs.as_outcome(self.y)
            blocks = np.array_split(z, len(z) * max(len(self.y), 1) // _BLOCK + 1)
            with np.errstate(all="ignore"):
                found = [self.graphs.densities(block, y, *self.tables) for block in blocks]
            prior, slope, likelihood, gradient = (np.concatenate(parts) for parts in zip(*found, strict=True))
            # A parameter check that fails, or an overflow, is a density of zero.
            good = np.isfinite(prior) & np.isfinite(likelihood)
            values = [np.where(good, one, -np.inf) for one in (prior, likelihood)]
            slopes = [np.where(good[:, None] & np.isfinite(one), one, 0.0) for one in (slope, gradient)]
            self._last = z, [values[0], slopes[0], values[1], slopes[1]]
        return self._last[1]

    def log_priors(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Log prior densities (S,), with the Jacobian of the transforms, and their gradients (S, P)."""
        return self._evaluate(z)[0], self._evaluate(z)[1]

    def log_likelihoods(self, z: np.ndarray, extra_noise: float = 0.0) -> Likelihoods:
        """Log likelihoods at the temperature 1 + ``extra_noise``."""
        _, _, value, gradient = self._evaluate(z)
        cold = 1 / (1 + extra_noise)
        with np.errstate(invalid="ignore"):
            return Likelihoods(cold * value, cold * gradient, np.where(np.isfinite(value), -value * cold**2, 0.0))

    def likelihood_values(self, z: np.ndarray) -> np.ndarray:
        """Log likelihoods (S,)."""
        return self._evaluate(z)[2]

    def values(self, z: np.ndarray) -> np.ndarray:
        """Log posterior densities (S,), up to the evidence."""
        prior, _, likelihood, _ = self._evaluate(z)
        return prior + likelihood

    def log_prior_terms(self, z: np.ndarray) -> np.ndarray:
        """Log prior density of each free variable in the user's space, (S, k)."""
        return np.stack(self.graphs.prior_terms(z), axis=1)
