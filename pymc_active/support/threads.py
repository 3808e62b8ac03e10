"""The number of threads that BLAS uses."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController

# Matrices of so many rows are worth several threads.
_LARGE = 1000


@cache
def _controller() -> tuple[ThreadpoolController, int]:
    """The controller, and the number of threads before it limits them: that of cores, or of ``OMP_NUM_THREADS``."""
    # Made once, at the first use, as looking for libraries takes long.
    controller = ThreadpoolController()
    return controller, max((one["num_threads"] for one in controller.select(user_api="blas").info()), default=1)


def one_blas_thread() -> Any:
    """Context in which BLAS uses one thread; on small matrices, several are slower."""
    return _controller()[0].limit(limits=1, user_api="blas")


def threads_for(n: int) -> AbstractContextManager:
    """Context in which BLAS uses all threads for a matrix of n rows if it is large; else as many as it did."""
    if n < _LARGE:
        return nullcontext()
    controller, most = _controller()
    return controller.limit(limits=most, user_api="blas")
