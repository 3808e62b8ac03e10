"""Calls in other processes or threads: in order, with one BLAS thread each, repeated here if a worker dies."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future
from typing import Any
from weakref import WeakSet

from pymc_active.support.threads import one_blas_thread
from pymc_active.support.user_warnings import RunWarning, warn_user

# Broken executors that were reported: a learner meets the same one at every fit.
_told: WeakSet[Executor] = WeakSet()


class Call[Result]:
    """One call elsewhere of a function without side effects; here, with one RunWarning, if the executor is broken."""

    def __init__(self, executor: Executor, function: Callable[..., Result], *arguments: Any):
        self._executor, self._function, self._arguments = executor, function, arguments
        self._future: Future[Result] | None = None
        try:
            self._future = executor.submit(_call, function, *arguments)
        except RuntimeError as error:
            # Futures has no class of its own for an executor that was shut down.
            if not isinstance(error, BrokenExecutor) and "cannot schedule new futures" not in str(error):
                raise
            _tell(executor, error)

    def result(self) -> Result:
        """The value of the function; raises the exception that it raised."""
        if self._future is not None:
            try:
                return self._future.result()
            except BrokenExecutor as error:
                _tell(self._executor, error)
        return _call(self._function, *self._arguments)

    def cancel(self) -> None:
        """Cancel the call, unless it is running."""
        if self._future is not None:
            self._future.cancel()


def _call(function: Callable, *arguments: Any) -> Any:
    # Several threads may round differently than one, which a search without an executor uses.
    with one_blas_thread():
        return function(*arguments)


def _tell(executor: Executor, error: RuntimeError) -> None:
    if executor in _told:
        return
    _told.add(executor)
    what = "is broken: a worker was killed or did not start" if isinstance(error, BrokenExecutor) else "is shut down"
    problem = f"the {type(executor).__name__} {what} ({str(error).rstrip('.')})"
    effect = "The work is done in this process, slower and with the same result"
    warn_user(f"{problem}. {effect}. Pass a new executor, or set learner.executor", RunWarning)
