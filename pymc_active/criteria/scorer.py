"""What scores candidates."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from pymc_active.inference.ensemble import Ensemble


class Scorer(ABC):
    """A criterion prepared for one ensemble; ``diagnostics`` come from its preparation."""

    ensemble: Ensemble
    units: str
    diagnostics: dict[str, Any]
    # Up to this many candidates times models are scored with all draws.
    n_full = 1000
    # Of more, the share that is scored with all draws.
    share = 0.05

    @abstractmethod
    def score(self, X: np.ndarray) -> np.ndarray:
        """Values (m,) at candidates (m, D) in the user's units; larger is better."""

    def gradient(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        """Values (m,) and derivatives in the inputs (m, D); None if there are no formulas for them."""
        return None

    def coarse(self, n: int) -> Scorer | None:
        """The same over the first n draws, if there are more than twice as many; else None."""
        return None

    def fine(self) -> Scorer | None:
        """A scorer over more draws, too slow for many candidates, if there is one."""
        return None

    @property
    def finest(self) -> Scorer:
        """What decides between the best candidates."""
        return self.fine() or self

    @property
    def n_models(self) -> int:
        """The number of models that a score is over."""
        return self.ensemble.n_models

    @property
    def seeds(self) -> np.ndarray:
        """Points (k, D) near which a maximum of the criterion is likely; none, by default."""
        return np.empty((0, self.ensemble.X.shape[1]))
