"""Factorisations at draws of the hyperparameters, kept for the next prediction with the same draws.

A climb predicts dozens of times with the same draws, at few points each: the factorisations are nearly all of the work.
"""

from __future__ import annotations

from threading import Lock
from weakref import WeakKeyDictionary

import numpy as np

from pymc_active.posterior.base import Posterior, State

# Bytes of all factorisations kept, such as 24 of 1,000 points; but that many of any size, as fits to many points have.
_BYTES, _LEAST = 3 * 2**27, 16

_kept: WeakKeyDictionary[Posterior, dict[bytes, State]] = WeakKeyDictionary()
_lock = Lock()


def _bytes(n: int) -> int:
    # L and its inverse.
    return 16 * n * n


def most_kept(n: int) -> int:
    """How many factorisations of n points are kept."""
    return max(_BYTES // _bytes(max(n, 1)), _LEAST)


def kept_states(posterior: Posterior, thetas: np.ndarray) -> list[State]:
    """:meth:`~pymc_active.posterior.base.Posterior.light_states`, made once if there is room for them."""
    keys, n = [theta.tobytes() for theta in thetas], len(posterior.y)
    before = _kept.get(posterior, {})
    missing = {key: row for row, key in enumerate(keys) if key not in before}
    made = dict(zip(missing, posterior.light_states(thetas[list(missing.values())]), strict=True)) if missing else {}
    kept = [before[key] if key in before else made[key] for key in keys]
    with _lock:
        # Other posteriors give way; of this one the first draws stay, which come first the next time, too.
        if sum(_bytes(len(other.y)) * len(states) for other, states in _kept.items()) + _bytes(n) * len(made) > _BYTES:
            for other in [other for other in _kept if other is not posterior]:
                del _kept[other]
        states = _kept.setdefault(posterior, {})
        for key in list(made)[: max(most_kept(n) - len(states), 0)]:
            states[key] = made[key]
    return kept
