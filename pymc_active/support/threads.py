"""The number of threads that BLAS uses."""

from __future__ import annotations

from functools import cache

from threadpoolctl import ThreadpoolController

# Made once, at the first use, as looking for libraries takes long.
_controller = cache(ThreadpoolController)


def one_blas_thread():
    """Context in which BLAS uses one thread; on small matrices, several are slower."""
    return _controller().limit(limits=1, user_api="blas")
