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
    return max(_BYTES // _bytes(n), _LEAST)


def kept_state(posterior: Posterior, theta: np.ndarray) -> State:
    """:meth:`~pymc_active.posterior.base.Posterior.light_state`, made once if there is room for it."""
    key, n = theta.tobytes(), len(posterior.y)
    known = _kept.get(posterior, {}).get(key)
    if known is not None:
        return known
    state = posterior.light_state(theta)
    with _lock:
        # Other posteriors give way; of this one the first draws stay, which come first the next time, too.
        if sum(_bytes(len(other.y)) * len(states) for other, states in _kept.items()) + _bytes(n) > _BYTES:
            for other in [other for other in _kept if other is not posterior]:
                del _kept[other]
        states = _kept.setdefault(posterior, {})
        if len(states) < most_kept(n):
            states[key] = state
    return state
