"""Candidates in a space with too many points to list them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from pymc_active.criteria.maximize_in_space import maximize_in_space
from pymc_active.criteria.maximum.domain import Domain
from pymc_active.learner.candidates import Choice, best_free
from pymc_active.spaces.space import Space

# Points that stand for the space where sample paths are maximised.
_PLACES = 2_048
# Points of which the nearest is taken for one of a design that cannot be made.
_NEAREST = 512


class SpaceCandidates:
    """All points of a space."""

    fixed: Mapping[int, float] = MappingProxyType({})

    def __init__(self, space: Space, repeat: bool):
        self.space, self.repeat = space, repeat

    def __len__(self) -> int:
        return 0

    @property
    def domain(self):
        X = self.places(_PLACES)
        return Domain(pool=X, labels=np.arange(len(X)), space=self.space, fixed=self.fixed)

    @property
    def limits(self):
        return self.space.limits

    def n_left(self, tried, pending):
        return np.inf

    def places(self, n):
        return self.space.draw(n, np.random.default_rng(0), self.fixed)

    def labels_of(self, rows):
        return np.array(rows, int)

    def nearest(self, x: np.ndarray, rng: np.random.Generator) -> Choice:
        """A point with the fixed values, near to x (D,)."""
        if not self.fixed:
            return Choice(x, -1, np.nan)
        Z = self.space.draw(_NEAREST, rng, self.fixed)
        return Choice(Z[np.square((Z - x) / self.space.scale[1]).sum(1).argmin()], -1, np.nan)

    def choose(self, scorer, tried, pending, rng):
        if scorer is None:
            return Choice(self.space.draw(1, rng, self.fixed)[0], -1, np.nan)
        found = maximize_in_space(scorer, self.space, self.fixed, rng)
        return best_free(found, tried, pending, self.repeat, np.subtract(*reversed(self.limits)))

    def maximum(self, scorer):
        found = maximize_in_space(scorer, self.space, self.fixed, np.random.default_rng(0))
        return Choice(found.X[0], -1, float(found.values[0]))

    def show(self, choices):
        return self.space.decode(np.reshape([choice.x for choice in choices], (-1, len(self.limits[0]))))

    def find(self, X, known=()):
        return [-1] * len(X)

    def __repr__(self) -> str:
        return f"a space of {len(self.space.variables)} inputs"
