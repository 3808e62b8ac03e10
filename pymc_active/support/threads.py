"""The number of threads that BLAS uses."""

from __future__ import annotations

from functools import cache

from threadpoolctl import ThreadpoolController


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


def one_blas_thread():
    """Context in which BLAS uses one thread; on small matrices, several are slower."""
    return _controller().limit(limits=1, user_api="blas")
