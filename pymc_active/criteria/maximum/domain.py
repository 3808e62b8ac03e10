"""The domain of the maximum: a box, or the rows of a pool."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from pymc_active.criteria.base import is_lazy
from pymc_active.models.model import Model
from pymc_active.posterior.conditioned import ConditionedGP
from pymc_active.spaces.space import Space
from pymc_active.support.tables import read_bounds, read_inputs

_NOWHERE = np.empty(0)


class Domain(NamedTuple):
    """The domain of the maximum, in the user's units: a box, or the rows of a pool with their labels.

    Where there is a ``space``, the rows are some of its points, near which maxima lie. Columns may be ``fixed``.
    """

    low: np.ndarray = _NOWHERE
    high: np.ndarray = _NOWHERE
    pool: np.ndarray | None = None
    labels: np.ndarray | None = None
    space: Space | None = None
    fixed: Mapping[int, float] = MappingProxyType({})

    @property
    def is_pool(self) -> bool:
        """Whether it is a pool."""
        return self.pool is not None


def read_domain(bounds: Any, X_pool: Any, inputs: Sequence) -> Domain:
    """A box if there are bounds, else the rows of a pool; a ValueError for neither, or bounds that do not fit."""
    if bounds is not None:
        if X_pool is not None and not is_lazy(X_pool):
            read_inputs(X_pool, "X_pool", inputs=inputs)
        return Domain(*read_bounds(bounds, len(inputs), inputs))
    if X_pool is None:
        raise ValueError("say where the maximum is looked for: pass bounds=[(low, high), ...], a pool, or both")
    if is_lazy(X_pool):
        raise ValueError("the maximum is not looked for in a lazy pool: pass bounds=[(low, high), ...] as well")
    return Domain(pool=read_inputs(X_pool, "X_pool", inputs=inputs))


def best_inside(gp: ConditionedGP, domain: Domain) -> float:
    """Largest observation in the domain, in the kernel's units, or -inf; others say nothing of the maximum there."""
    if domain.pool is not None:
        rows = {row.tobytes() for row in gp.x_map(domain.pool) + 0.0}
        inside = np.array([row.tobytes() in rows for row in gp.X + 0.0])
    else:
        inside = ((gp.X >= gp.x_map(domain.low)) & (gp.X <= gp.x_map(domain.high))).all(1)
    return float(gp.y[inside].max(initial=-np.inf))


def check_data(y: np.ndarray, model: Model) -> None:
    """Raise a ValueError for observations that say nothing about a maximum; a link has a scale of its own."""
    if len(y) > 1 and np.ptp(y) == 0 and model.likelihood is None:
        raise ValueError(
            f"all {len(y)} observations are equal ({y[0]:g}): a model of them knows no scale on which a maximum could "
            'stand out. Measure until two differ, elsewhere or with criterion="random".'
        )
