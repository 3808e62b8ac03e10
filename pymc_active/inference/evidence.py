"""The evidence of a model: a number, its error, and how it was obtained."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pymc_active.support.summaries import Summarized, Summary


@dataclass(frozen=True, repr=False)
class Evidence(Summarized):
    """Log p(y) of a model and its standard error, nats.

    ``by`` is "smc" (annealed particles), "importance" (weighted or annealed draws around modes), "smc and importance"
    (both, mixed), "laplace" (a Gaussian at the modes, of unknown error: NaN), "exact" (no free parameters, error 0) or
    "unknown" (both NaN), as by "nuts".
    """

    value: float
    error: float
    by: str

    def __str__(self) -> str:
        return f"{self.value:.2f} ± {self.error:.2f} nats, by {self.by}"

    def _summary(self) -> Summary:
        return Summary(f"Evidence {self}")


UNKNOWN = Evidence(np.nan, np.nan, "unknown")
