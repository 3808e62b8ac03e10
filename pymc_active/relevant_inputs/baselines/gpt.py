"""The paper's Gaussian process test (GPT) on random backgrounds."""

from __future__ import annotations

import numpy as np

from pymc_active.relevant_inputs.likelihood_ratios import LineRatio
from pymc_active.relevant_inputs.node_test import GPNodeTest
from pymc_active.relevant_inputs.state import Trial


class GPT(GPNodeTest):
    """Each node by itself, along its own line through a random point (Chen, Castro & Krause 2012, section 3.3)."""

    def ratio(self, trial: Trial, y: np.ndarray) -> LineRatio:
        """A Gaussian process of mean 0 against a constant."""
        s = self.settings
        return LineRatio(s.bandwidth, s.signal_variance, s.noise_variance, s.offset_variance)
