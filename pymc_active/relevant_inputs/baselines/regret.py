"""How far evaluations were from the maximum."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pymc_active.support.summaries import Summarized, Summary


@dataclass(frozen=True, repr=False, eq=False)
class Regret(Summarized):
    """Regret of evaluations, (n,) each, in units of y: the maximum minus f at each evaluation.

    ``cumulative`` is the running sum, the paper's R_T, ``average`` R_T / T over evaluations that succeeded, and
    ``minimum`` the smallest so far. Evaluations that failed are NaN in ``instantaneous``, and the others leave them
    out: before the first success they are NaN, and ``cumulative`` is 0.
    """

    instantaneous: np.ndarray
    cumulative: np.ndarray
    average: np.ndarray
    minimum: np.ndarray

    def _summary(self) -> Summary:
        last = {"smallest": self.minimum, "average": self.average, "cumulative": self.cumulative}
        facts = {name: f"{values[-1]:.4g}" for name, values in last.items() if len(values)}
        return Summary(f"Regret of {len(self.minimum)} evaluations", facts)


def regret(values: np.ndarray, optimum: float, *, minimize: bool = False) -> Regret:
    """Regret of evaluations, best from f without noise.

    ``values``, (n,), are NaN where an evaluation failed; ``optimum`` is the largest value of f, the smallest if
    ``minimize``.

    Examples
    --------
    >>> regret([1.0, 3.0, 2.0], 3.5).minimum
    array([2.5, 0.5, 0.5])
    """
    step = (np.asarray(values, float) - optimum) * (1 if minimize else -1)
    cumulative = np.nancumsum(step)
    count = (~np.isnan(step)).cumsum()
    average = np.where(count > 0, cumulative / np.maximum(count, 1), np.nan)
    return Regret(step, cumulative, average, np.fmin.accumulate(step))
