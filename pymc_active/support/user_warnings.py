"""The package's warnings, a class for each kind of doubt, attributed to the user's line.

Filter by class, never by text: ``warnings.simplefilter("error", pma.DoubtfulFitWarning)``.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PACKAGE = str(Path(__file__).parents[1])


class ActiveWarning(UserWarning):
    """Base class of every warning that the package gives."""


class DoubtfulFitWarning(ActiveWarning):
    """An approximation of the posterior may be wrong."""


class DoubtfulEvidenceWarning(ActiveWarning):
    """Posterior probabilities of models rest on an evidence that may be wrong."""


class ModelLeftOutWarning(ActiveWarning):
    """One of several models could not be fitted and is left out."""


class SamplingWarning(ActiveWarning):
    """Too few draws, or draws that mix poorly, make a result imprecise."""


class ScaleWarning(ActiveWarning):
    """Data or candidates are not on the scale for which the priors are stated."""


class DoubtfulSearchWarning(ActiveWarning):
    """A search for relevant inputs saw something that contradicts what it assumes."""


class EvaluationWarning(ActiveWarning):
    """The function under study failed at some points, or answered at points that were not asked for."""


class ExecutionWarning(ActiveWarning):
    """A worker process died, or a file comes from other versions: the result holds, the way to it changed."""


def warn_user(message: str, category: type[ActiveWarning]) -> None:
    """Warn, attributed to the innermost caller outside the package."""
    warnings.warn(message, category, skip_file_prefixes=(_PACKAGE,))


@contextmanager
def ignoring(*categories: type[ActiveWarning]) -> Iterator[None]:
    """Context without warnings of these classes, where the caller keeps or repeats what they would say."""
    with warnings.catch_warnings():
        for category in categories:
            warnings.simplefilter("ignore", category)
        yield
