"""Calls in other processes or threads: in order, with one BLAS thread each, and done here where a worker dies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future
from typing import Any
from weakref import WeakSet

from pymc_active.support.threads import one_blas_thread
from pymc_active.support.user_warnings import ExecutionWarning, warn_user

# Executors whose end was told: the learner of a long run meets it at every fit.
_told: WeakSet[Executor] = WeakSet()


class Call[Result]:
    """One call that another process or thread has been given.

    Parameters
    ----------
    executor : concurrent.futures.Executor
    function, *arguments
        To be pickled where the executor has processes. The call must change nothing and not depend on when it is made.

    Warns
    -----
    UserWarning
        Once for an executor that is broken, as one of processes is after any of them was killed. The call is made in
        this process then. An executor that starts its workers again, such as dask's, does so unnoticed.
    """

    def __init__(self, executor: Executor, function: Callable[..., Result], *arguments: Any):
        self._executor, self._function, self._arguments = executor, function, arguments
        self._future: Future[Result] | None = None
        try:
            self._future = executor.submit(_call, function, *arguments)
        except BrokenExecutor as error:
            _tell(executor, error)

    def result(self) -> Result:
        """What the function returned, or raises what it raised."""
        if self._future is not None:
            try:
                return self._future.result()
            except BrokenExecutor as error:
                _tell(self._executor, error)
        return _call(self._function, *self._arguments)

    def cancel(self) -> None:
        """Give the call up, unless it is under way."""
        if self._future is not None:
            self._future.cancel()


def run_calls[Result](
    executor: Executor | None, function: Callable[..., Result], *columns: Iterable
) -> Iterator[Result]:
    """As ``map(function, *columns)``, in the workers of an executor if there is one.

    The results come in order. What is still waiting when the caller gives up, or a call raises, is cancelled.
    """
    if executor is None:
        yield from map(function, *columns)
        return
    calls = [Call(executor, function, *arguments) for arguments in zip(*columns, strict=False)]
    try:
        for call in calls:
            yield call.result()
    finally:
        for call in calls:
            call.cancel()


def _call(function: Callable, *arguments: Any) -> Any:
    # More threads may round otherwise than the one of a search without an executor.
    with one_blas_thread():
        return function(*arguments)


def _tell(executor: Executor, error: BrokenExecutor) -> None:
    if executor in _told:
        return
    _told.add(executor)
    reason = str(error).rstrip(".")
    warn_user(
        f"the {type(executor).__name__} is broken: a worker was killed or did not start ({reason}). Nothing is lost: "
        "what it was to do is done in this process, slower and with the same result. Pass a new executor, or set "
        "learner.executor, to use several processes again",
        ExecutionWarning,
    )
