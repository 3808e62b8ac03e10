"""Warning classes of the package, attributed to the user's line.

Filter by class, never by text: ``warnings.simplefilter("error", pma.DoubtfulFitWarning)``.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

_PACKAGE = str(Path(__file__).parents[1])
# Classes that are not reported now, in this thread: the filters of the warnings module belong to all threads.
_ignored: ContextVar[tuple[type[UserWarning], ...]] = ContextVar("_ignored", default=())


class ActiveError(Exception):
    """Base class of the package's own errors; wrong arguments are ValueError and TypeError, as everywhere."""


class ActiveWarning(UserWarning):
    """Base class of all warnings of the package."""


class DoubtfulFitWarning(ActiveWarning):
    """A posterior, an evidence or a search may be wrong."""


class SamplingWarning(ActiveWarning):
    """Too few draws, or draws that mix poorly, make a result imprecise."""


class DataWarning(ActiveWarning):
    """Data, priors or candidates are not what they seem: other units, a slip, a limit, inputs that vary together."""


class RunWarning(ActiveWarning):
    """A run goes on without something: an answer, some points, a model, a worker process, a file of this version."""


def warn_user(message: str, category: type[ActiveWarning]) -> None:
    """Warn, attributed to the innermost caller outside the package."""
    if not issubclass(category, _ignored.get()):
        warnings.warn(message, category, skip_file_prefixes=(_PACKAGE,))


def warn_if(text: str | None, category: type[ActiveWarning] = DataWarning) -> bool:
    """Warn if there is something to say; whether there was."""
    if text:
        warn_user(text, category)
    return bool(text)


@contextmanager
def ignoring(*categories: type[ActiveWarning]) -> Iterator[None]:
    """Suppress warnings of these classes in this thread, when the caller keeps or repeats their content."""
    token = _ignored.set((*_ignored.get(), *categories))
    try:
        yield
    finally:
        _ignored.reset(token)
