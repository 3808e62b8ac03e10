"""The paper's finite difference tests (FDT): whether differences along a line exceed those of noise alone."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import ClassVar

import numpy as np
from scipy.special import betaincinv, chdtr, chdtri

from pymc_active.relevant_inputs.covariance import squared_exponential
from pymc_active.relevant_inputs.node_test import NodeTest
from pymc_active.relevant_inputs.state import Evaluation, HDSState, Trial
from pymc_active.support.arguments import checked
from pymc_active.support.options import positive
from pymc_active.support.tables import read_numbers
from pymc_active.support.threads import one_blas_thread

# Longest distance of a pair on a line of unit length; with longer ones all pairs would be nearly the same.
LONGEST_SPACING = 0.5
_MOST_PAIRS = 1_000_000
# Functions and pairs that are simulated for an error rate, and the confidence of its upper end.
_DRAWS, _SIMULATED_PAIRS, _CONFIDENCE = 2000, 400, 0.95


@dataclass(frozen=True)
class DifferenceRatio:
    r"""Variances of the difference dy of two observations under both hypotheses (the paper's section 3.2).

    Inactive: :math:`\sigma_0^2 = 2 \sigma^2`. Active with one active input: :math:`\sigma_1^2 = 2 [(1 - e^{-\delta^2 /
    b^2}) \sigma_s^2 + \sigma^2]`, for the paper's bandwidth b in units of z. δ is ``spacing``, by default 3b: then the
    exponent is 9, and not the 3 that the paper prints.

    Examples
    --------
    >>> ratio = DifferenceRatio(bandwidth=0.4, signal_variance=1.0, noise_variance=0.05)
    >>> ratio.llr([0.0, 1.0]).round(4)
    array([-1.5222,  3.2397])
    """

    bandwidth: float
    signal_variance: float
    noise_variance: float
    spacing: float | None = None

    @property
    def distance(self) -> float:
        """δ."""
        return 3 * self.bandwidth if self.spacing is None else self.spacing

    @property
    def inactive_variance(self) -> float:
        """Variance of a difference without an active input."""
        return 2 * self.noise_variance

    @property
    def active_variance(self) -> float:
        """Variance of a difference with one active input, averaged over functions."""
        return 2 * (-np.expm1(-((self.distance / self.bandwidth) ** 2)) * self.signal_variance + self.noise_variance)

    def llr(self, difference: np.ndarray | float) -> np.ndarray:
        """Log likelihood ratio (nats) of each difference, active against inactive (eq. 2)."""
        low, high = self.inactive_variance, self.active_variance
        return 0.5 * (np.square(difference) * (1 / low - 1 / high) + np.log(low / high))

    def fixed_pairs(self, alpha: float) -> int:
        """The fewest pairs with both errors at most alpha, for independent differences, averaged over functions."""
        check_alpha(alpha)
        ratio = self.active_variance / self.inactive_variance

        def is_enough(n: int) -> bool:
            return bool(chdtr(n, chdtri(n, alpha) / ratio) <= alpha)

        pairs = bisect_left(range(_MOST_PAIRS + 1), True, lo=1, key=is_enough)
        if pairs > _MOST_PAIRS:
            raise ValueError(
                f"more than {_MOST_PAIRS:,} pairs would be needed: signal_variance={self.signal_variance:g} is too "
                f"small beside noise_variance={self.noise_variance:g}"
            )
        return pairs


class FDT(NodeTest):
    """Pairs of points along a line through a random point, until a threshold is passed (the paper's section 3.2)."""

    n_together: ClassVar[int] = 2
    is_simulated: ClassVar[bool] = True

    # Pairs of one test; None if the thresholds end it.
    n_pairs: int | None = None

    @cached_property
    def ratio(self) -> DifferenceRatio:
        """The hypotheses."""
        return DifferenceRatio(*self.settings.scales, min(3 * self.settings.bandwidth, LONGEST_SPACING))

    def priority(self, state: HDSState, trial: Trial) -> float:
        """The log likelihood ratio so far."""
        return trial.llr

    def plan_trial(self, state: HDSState, trial: Trial) -> None:
        """Queue a pair."""
        z = state.rng.uniform(0, 1 - self.ratio.distance)
        first = state.add(trial.number, trial.node, trial.background, z)
        second = state.add(trial.number, trial.node, trial.background, z + self.ratio.distance)
        state.evaluations[first].partner, state.evaluations[second].partner = second, first

    def update(self, state: HDSState, trial: Trial, row: int) -> str:
        """Enter the pair that is complete with this evaluation."""
        at = state.evaluations[row]
        other = state.evaluations[at.partner]
        if np.isnan(other.y):
            return "open"
        trial.rows += [row, at.partner]
        trial.path.append(trial.llr + float(self.ratio.llr(at.y - other.y)))
        return self.verdict(state, trial)

    def false_inactive(self) -> float:
        """Simulated: f may be flat along its line, which independent differences cannot know."""
        return simulated_false_inactive(self.ratio, self.settings.accept, self.settings.reject, self.n_pairs)


class FixedFDT(FDT):
    """A number of pairs fixed beforehand by exp(-accept), the probability of either error (proposition 3.1)."""

    @property
    def alpha(self) -> float:
        """Probability of an error."""
        return float(np.exp(-self.settings.accept))

    @cached_property
    def n_pairs(self) -> int:  # type: ignore[override]
        """From the probability of an error."""
        return self.ratio.fixed_pairs(self.alpha)

    @property
    def fewest(self) -> int:  # type: ignore[override]
        """Evaluations of the root."""
        return 2 * self.n_pairs

    def is_ready(self, state: HDSState, trial: Trial) -> bool:
        """All pairs of a test are planned at once."""
        return all(at.trial != trial.number for at in state.evaluations)

    def plan_trial(self, state: HDSState, trial: Trial) -> None:
        """Queue all pairs."""
        for _ in range(self.n_pairs):
            super().plan_trial(state, trial)

    def plan_waiting(self, state: HDSState, trial: Trial) -> None:
        """Queue one pair more, if more points are wanted before these are told."""
        super().plan_trial(state, trial)

    def replace(self, state: HDSState, failed: Evaluation) -> None:
        """Queue another pair."""
        super().plan_trial(state, state.trials[failed.trial])

    def verdict(self, state: HDSState, trial: Trial) -> str:
        """By one test of all pairs."""
        if len(trial.path) < self.n_pairs:
            return "open"
        y = state.results(trial.rows)
        statistic, threshold = fixed_sample_test(y[::2] - y[1::2], self.settings.noise_variance, self.alpha)
        return "active" if statistic > threshold else "inactive"


@checked
def fixed_sample_test(difference: np.ndarray, noise_variance: float, alpha: float) -> tuple[float, float]:
    r"""The statistic :math:`X_n = \sum dy^2 / (2 \sigma^2)` and the threshold that an inactive node passes rarely.

    ``difference``, (n,), is of pairs of noisy observations, ``noise_variance`` of one, in squared units of y;
    ``alpha``, below 0.5, is the probability that an inactive node passes. ValueError if out of range or empty.
    """
    check_alpha(alpha)
    difference = read_numbers(difference, "difference")
    if difference.ndim != 1 or not len(difference):
        raise ValueError(f"a test needs a vector of at least one difference; got shape {difference.shape}")
    noise_variance = positive("noise_variance", noise_variance)
    return float(np.square(difference).sum() / (2 * noise_variance)), float(chdtri(len(difference), alpha))


@checked
def fixed_sample_size(smallest_mean: float, largest: float, alpha: float) -> int:
    r"""Pairs that bound both errors of the fixed-sample test by alpha, for a given function (proposition 3.1).

    :math:`\lceil \max\{2, 16 (1 + \sqrt{1 + c})^2 / c^2, 2 M^2 / c^2\} \log(2 / \alpha) \rceil` for ``smallest_mean``
    c, a lower bound of :math:`E[\Delta^2]`, and ``largest`` M, an upper bound of :math:`\Delta^2`, with :math:`\Delta
    = (f(x) - f(x')) / \sqrt{2 \sigma^2}`. It is sufficient, and seldom necessary.

    Examples
    --------
    >>> fixed_sample_size(10.0, 40.0, 0.01)
    170
    """
    check_alpha(alpha)
    if not 0 < smallest_mean <= largest < np.inf:
        raise ValueError(f"need 0 < smallest_mean <= largest; got {smallest_mean!r} and {largest!r}")
    c = smallest_mean
    root = max(np.sqrt(2.0), 4 * (1 + np.sqrt(1 + c)) / c, np.sqrt(2) * (largest / c))
    if root > 1e100:
        raise ValueError(f"no number of pairs tells smallest_mean={smallest_mean!r} from 0, with largest={largest!r}")
    return int(np.ceil(root**2 * np.log(2 / alpha)))


def check_alpha(alpha: float) -> None:
    """Refuse what cannot be the probability of an error."""
    if not 0 < alpha < 0.5:
        raise ValueError(f"alpha, the probability of an error, must be between 0 and 0.5; got {alpha!r}")


@lru_cache(maxsize=32)
def simulated_false_inactive(ratio: DifferenceRatio, accept: float, reject: float, n_pairs: int | None) -> float:
    """How often finite differences, ``n_pairs`` or until a threshold is passed, miss an active input."""
    rng = np.random.default_rng(0)
    z = np.linspace(0, 1, int(np.clip(8 / ratio.bandwidth, 50, 600)))
    with one_blas_thread():
        values, vectors = np.linalg.eigh(squared_exponential(np.square((z[:, None] - z) / ratio.bandwidth)))
        root = vectors * np.sqrt(ratio.signal_variance * np.maximum(values, 0))
        f = rng.normal(size=(_DRAWS, len(z))) @ root.T
    step = min(max(round(ratio.distance * (len(z) - 1)), 1), len(z) - 1)
    llr, open_draws, n_missed = np.zeros(_DRAWS), np.arange(_DRAWS), 0
    differences = []
    for _ in range(_SIMULATED_PAIRS if n_pairs is None else n_pairs):
        at = rng.integers(0, len(z) - step, len(open_draws))
        noise = rng.normal(0, np.sqrt(ratio.inactive_variance), len(open_draws))
        difference = f[open_draws, at] - f[open_draws, at + step] + noise
        if n_pairs is not None:
            differences.append(difference)
            continue
        llr[open_draws] += ratio.llr(difference)
        n_missed += int((llr[open_draws] <= reject).sum())
        open_draws = open_draws[(llr[open_draws] > reject) & (llr[open_draws] < accept)]
        if not len(open_draws):
            break
    if n_pairs is not None:
        _, threshold = fixed_sample_test(np.ones(n_pairs), 1.0, float(np.exp(-accept)))
        statistic = np.square(differences).sum(0) / ratio.inactive_variance
        n_missed = int((statistic <= threshold).sum())
    # Clopper and Pearson: the upper end of a one-sided interval.
    return float(betaincinv(n_missed + 1, _DRAWS - n_missed, _CONFIDENCE)) if n_missed < _DRAWS else 1.0
