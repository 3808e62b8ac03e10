"""Threads: how many BLAS uses, a pool of them for functions that release the lock of Python; memory that is kept."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from threading import local
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController

# Matrices of so many rows are worth several threads.
_LARGE = 1000


@cache
def _controller() -> tuple[ThreadpoolController, int]:
    """The controller, and the number of threads before it limits them: as many as cores, or ``OMP_NUM_THREADS``."""
    import scipy.linalg  # noqa: F401 - it brings a BLAS of its own

    controller = ThreadpoolController()
    return controller, max((one["num_threads"] for one in controller.select(user_api="blas").info()), default=1)


def one_blas_thread() -> Any:
    """Context in which BLAS uses one thread; on small matrices, several are slower."""
    return _controller()[0].limit(limits=1, user_api="blas")


def n_threads() -> int:
    """The number of threads to use: as many as cores, or ``OMP_NUM_THREADS``; one in a thread of the pool."""
    return 1 if hasattr(_of_thread, "is_working") else _controller()[1]


def in_threads[T](function: Callable[..., T], *arguments: Sequence | np.ndarray) -> list[T]:
    """The function of each of the arguments, as by ``map``, several at a time; BLAS uses one thread meanwhile."""
    if n_threads() < 2 or len(arguments[0]) < 2:
        return list(map(function, *arguments))
    with one_blas_thread():
        return list(_pool().map(function, *arguments))


_of_thread = local()


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_controller()[1], "pymc_active", lambda: setattr(_of_thread, "is_working", True))


# Threads do not survive in a forked process.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)


def threads_for(n: int) -> AbstractContextManager:
    """Context in which BLAS uses all threads for a matrix of n rows if it is large; else as many as it did."""
    if n < _LARGE:
        return nullcontext()
    controller, most = _controller()
    return controller.limit(limits=most, user_api="blas")


@cache
def keep_freed_memory() -> None:
    """Make the process keep freed memory for the next arrays: with hundreds of points, evaluations take half the time.

    glibc otherwise gives memory of large arrays back to the system at every use. It keeps up to the double of the
    largest array ever freed, if that is below 32 MB.
    """
    np.empty(31 * 2**20, np.uint8)
