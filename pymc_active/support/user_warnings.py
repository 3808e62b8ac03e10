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
    """An approximation of the posterior may be wrong."""


class DoubtfulEvidenceWarning(ActiveWarning):
    """Posterior probabilities of models rest on an evidence that may be wrong."""


class ModelLeftOutWarning(ActiveWarning):
    """One of several models could not be fitted and is left out."""


class PointsLeftOutWarning(ActiveWarning):
    """A fit uses some of the data only, as ``max_points`` asks."""


class SamplingWarning(ActiveWarning):
    """Too few draws, or draws that mix poorly, make a result imprecise."""


class ScaleWarning(ActiveWarning):
    """Data or candidates are not on the scale that the priors assume."""


class InputScaleWarning(ActiveWarning):
    """An input spans decades, and most likely acts by its logarithm."""


class ConfoundedInputsWarning(ActiveWarning):
    """The inputs of the data vary together, so that what a single one does is not known."""


class OutlierWarning(ActiveWarning):
    """A measurement is far from what all others predict."""


class OutputScaleWarning(ActiveWarning):
    """The outputs call for an OutputMap, such as a logarithm."""


class PeriodWarning(ActiveWarning):
    """A period that was said to be known does not suit the data, or these cannot tell it from another one."""


class RecommendationWarning(ActiveWarning):
    """A recommended point was not measured, and is predicted to be far better than anything that was."""


class DoubtfulSearchWarning(ActiveWarning):
    """A search for relevant inputs found a contradiction to its assumptions."""


class EvaluationWarning(ActiveWarning):
    """The evaluated function failed at some points, or returned values for points that were not asked for."""


class ExecutionWarning(ActiveWarning):
    """A worker process died, or a file comes from other versions; the result is still valid."""


def warn_user(message: str, category: type[ActiveWarning]) -> None:
    """Warn, attributed to the innermost caller outside the package."""
    if not issubclass(category, _ignored.get()):
        warnings.warn(message, category, skip_file_prefixes=(_PACKAGE,))


@contextmanager
def ignoring(*categories: type[ActiveWarning]) -> Iterator[None]:
    """Suppress warnings of these classes in this thread, when the caller keeps or repeats their content."""
    token = _ignored.set((*_ignored.get(), *categories))
    try:
        yield
    finally:
        _ignored.reset(token)
