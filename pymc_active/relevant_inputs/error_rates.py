"""Error rates that a search declares."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.special import betaincinv

from pymc_active.relevant_inputs.fdt import FDTest, fixed_sample_test
from pymc_active.relevant_inputs.guarantees import n_levels
from pymc_active.relevant_inputs.settings import Settings
from pymc_active.support.summaries import html_summary
from pymc_active.support.threads import one_blas_thread

_DRAWS, _MOST_PAIRS = 2000, 400
_CONFIDENCE = 0.95


class ErrorRates(NamedTuple):
    """Upper bounds of the probabilities of errors, if f is a draw from the assumed Gaussian process.

    With ``share`` below 1 the anchored test also keeps them for sums in which each relevant input accounts for at least
    this part of f's variance. Where one accounts for less, it is missed more often than declared.

    Attributes
    ----------
    false_active : float
        That a test calls a node without an active input active: exp(-accept), by Wald's inequality.
    false_inactive : float
        That a test calls a node with an active input inactive. GP tests: exp(reject), likewise. Finite differences:
        simulated on 2,000 functions, the upper end of a one-sided 95 % interval. A function may be flat along its line,
        and independent differences cannot know that, so this does not tend to 0 with ``reject``. Nodes that were set
        aside are called inactive by the test of all inputs that were not found, and by no other.
    recovery : float
        Lower bound of the probability that all active inputs and no others are found, if there are ``n_active``: a
        union bound over the nodes of a search without errors, without what retests save.
    """

    false_active: float
    false_inactive: float
    recovery: float

    def __repr__(self) -> str:
        return (
            f"<ErrorRates at most: false active {self.false_active:.2g}, false inactive {self.false_inactive:.2g} a "
            f"test; recovery at least {self.recovery:.3g}>"
        )

    def _repr_html_(self) -> str:
        facts = {
            "false active, a test": f"at most {self.false_active:.2g}",
            "false inactive, a test": f"at most {self.false_inactive:.2g}",
            "recovery of all": f"at least {self.recovery:.3g}",
        }
        return html_summary("ErrorRates", facts)


def declared_error_rates(settings: Settings) -> ErrorRates:
    """Of a search with these settings; ``n_active`` inputs at most are assumed to matter."""
    false_active = float(np.exp(-settings.accept))
    if settings.is_paired:
        n_pairs = settings.n_pairs if settings.test == "fdt_fixed" else None
        false_inactive = simulated_false_inactive(settings.fdt, settings.accept, settings.reject, n_pairs)
    else:
        false_inactive = float(np.exp(settings.reject))
    d = min(settings.n_active, settings.n_dims)
    nodes = d * (n_levels(settings.n_dims) + 1)
    return ErrorRates(false_active, false_inactive, max(0.0, 1 - nodes * (false_active + false_inactive)))


@lru_cache(maxsize=32)
def simulated_false_inactive(test: FDTest, accept: float, reject: float, n_pairs: int | None) -> float:
    """How often finite differences miss one active input: the upper end of a 95 % interval from 2,000 functions.

    Parameters
    ----------
    test : FDTest
    accept, reject : float
    n_pairs : int, optional
        Of a fixed-sample test; otherwise the test is sequential.
    """
    rng = np.random.default_rng(0)
    z = np.linspace(0, 1, int(np.clip(8 / test.bandwidth, 50, 600)))
    with one_blas_thread():
        values, vectors = np.linalg.eigh(np.exp(-np.square((z[:, None] - z) / test.bandwidth)))
        root = vectors * np.sqrt(test.signal_variance * np.maximum(values, 0))
        f = rng.normal(size=(_DRAWS, len(z))) @ root.T
    step = min(max(round(test.distance * (len(z) - 1)), 1), len(z) - 1)
    draws = np.arange(_DRAWS)
    llr, open_draws, n_missed = np.zeros(_DRAWS), draws, 0
    differences = []
    for _ in range(_MOST_PAIRS if n_pairs is None else n_pairs):
        at = rng.integers(0, len(z) - step, len(open_draws))
        noise = rng.normal(0, np.sqrt(test.inactive_variance), len(open_draws))
        difference = f[open_draws, at] - f[open_draws, at + step] + noise
        if n_pairs is not None:
            differences.append(difference)
            continue
        llr[open_draws] += test.llr(difference)
        n_missed += int((llr[open_draws] <= reject).sum())
        open_draws = open_draws[(llr[open_draws] > reject) & (llr[open_draws] < accept)]
        if not len(open_draws):
            break
    if n_pairs is not None:
        _, threshold = fixed_sample_test(np.ones(n_pairs), 1.0, float(np.exp(-accept)))
        statistic = np.square(differences).sum(0) / test.inactive_variance
        n_missed = int((statistic <= threshold).sum())
    # Clopper and Pearson.
    return float(betaincinv(n_missed + 1, _DRAWS - n_missed, _CONFIDENCE)) if n_missed < _DRAWS else 1.0
