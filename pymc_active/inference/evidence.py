"""The evidence of a model: a number, its error, and how it was obtained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

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


class SampledEvidence(NamedTuple):
    """An estimate of log p(y) and its standard error in nats, with (sum w)² / sum w² and the Pareto k of the weights.

    Above k = 0.7 a few draws dominate, and the standard error is too small; k is NaN where there are no such weights.
    """

    log_evidence: float
    standard_error: float
    effective_sample_size: float
    pareto_k: float
