"""The draws that represent the posterior of a fit: short chains, or resampled weighted draws."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from pymc_active.laplace.draws.short_chains import particles
from pymc_active.laplace.draws.weighted import WeightedDraws, prior_for_few_data, weighted_draws
from pymc_active.laplace.expansion import Expansion
from pymc_active.posterior.base import MANY
from pymc_active.support.user_warnings import SamplingWarning, ignoring

# Weighted draws to resample from, and their effective sample size below which short chains are better.
_WEIGHTED, _ENOUGH = 2000, 10
# Effective share of weighted draws that confirms the modes.
CONFIRMING = 0.1
# MCMC draws around which others are proposed.
_AROUND = 64


class PosteriorDraws:
    """Draws from one posterior, in the coordinates of its best mode (the first)."""

    def __init__(self, expansions: Sequence[Expansion]):
        self.expansions = expansions
        self._taken: dict[tuple[int, int], np.ndarray] = {}

    def take(self, n: int, random_seed: int | np.random.Generator | None = None) -> np.ndarray:
        """Equally weighted draws z (n, P'); the same array again for the same int."""
        if not isinstance(n, int | np.integer) or n < 2:
            raise ValueError(f"draws must be a whole number from 2; got {n!r}")
        if not isinstance(random_seed, int | np.integer):
            return self._draw(n, np.random.default_rng(random_seed))
        key = (int(n), int(random_seed))
        if key not in self._taken:
            self._taken[key] = self._draw(n, np.random.default_rng(random_seed))
        return self._taken[key]

    def weighted(self, n: int, random_seed: int | np.random.Generator | None = None) -> WeightedDraws:
        """Draws with importance weights; see :meth:`~pymc_active.laplace.fit.LaplaceFit.weighted_draws`."""
        rng = np.random.default_rng(random_seed)
        if len(self.expansions[0].posterior.y) > MANY:
            # MCMC would take more evaluations than the weighted draws, and the posterior is nearly Gaussian.
            found = weighted_draws(self.expansions, np.empty((0, len(self.expansions[0].z))), n, rng)
            if found.effective_sample_size >= CONFIRMING * len(found.z):
                return found
        return weighted_draws(self.expansions, self._centers, n, rng)

    def _draw(self, n: int, rng: np.random.Generator) -> np.ndarray:
        # The modes may miss much of the posterior, and the prior can be drawn from.
        best = self.expansions[0]
        if best.posterior.hides_modes and prior_for_few_data(best) is not None:
            weighted = self.weighted(max(_WEIGHTED, 10 * n), rng)
            if weighted.effective_sample_size > _ENOUGH:
                return weighted.resample(n, rng)
        return particles(self.expansions, n, rng)

    @cached_property
    def _centers(self) -> np.ndarray:
        # The weights correct for poor mixing.
        with ignoring(SamplingWarning):
            return particles(self.expansions, _AROUND, np.random.default_rng(0))
