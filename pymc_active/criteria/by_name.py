"""The registry of criteria by name, for :class:`Learner`, :func:`check` and the command line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np

from pymc_active.criteria.bald import Bald, Uncertainty, bald, uncertainty
from pymc_active.criteria.bams import Bams, Committee, bams, committee
from pymc_active.criteria.base import Criterion
from pymc_active.criteria.epig import Epig, IntegratedVariance, epig, integrated_variance
from pymc_active.criteria.improvement import (
    ExpectedImprovement,
    UpperConfidenceBound,
    expected_improvement,
    upper_confidence_bound,
)
from pymc_active.criteria.maximum.domain import Domain
from pymc_active.criteria.maximum.entropy_search import EntropySearch, entropy_search
from pymc_active.criteria.maximum.max_value import (
    JointEntropy,
    MaxValueEntropy,
    Thompson,
    joint_entropy_search,
    max_value_entropy,
    thompson,
)
from pymc_active.criteria.maximum.pes import Pes, pes

# All criteria share the draws from a fit.
_SEED = 0

type Kind = Literal["moments", "predictions", "maximum", "models"]


class Entry(NamedTuple):
    """One criterion of the registry.

    Its ``kind`` is what it depends on: the predictive moments, predictions at targets, the place or height of the
    maximum, or the differences between several models (other kinds average over models). ``make`` takes ``minimize``;
    for ``"predictions"`` the targets; for ``"maximum"`` the domain and the keywords ``minimize`` and ``random_seed``.
    """

    kind: Kind
    make: Callable[..., Criterion]


def _bald(target: str, method: str | None) -> Entry:
    return Entry("moments", lambda minimize: Bald(target, method, random_seed=_SEED))


def _bams(weights: str = "posterior", method: str | None = None) -> Entry:
    return Entry("models", lambda minimize: Bams(weights, method, random_seed=_SEED))


CRITERIA: dict[str, Entry] = {
    "bald": _bald("y", None),
    "bald_bbq": _bald("y", "bbq"),
    "bald_modes": _bald("y", "modes"),
    "bald_draws": _bald("y", "draws"),
    "bald_cubature": _bald("y", "cubature"),
    "bald_f": _bald("f", None),
    "bald_bbq_f": _bald("f", "bbq"),
    "bald_modes_f": _bald("f", "modes"),
    "bald_draws_f": _bald("f", "draws"),
    "bald_cubature_f": _bald("f", "cubature"),
    "uncertainty": Entry("moments", lambda minimize: Uncertainty(random_seed=_SEED)),
    "expected_improvement": Entry("moments", lambda minimize: ExpectedImprovement(minimize, random_seed=_SEED)),
    "upper_confidence_bound": Entry(
        "moments", lambda minimize: UpperConfidenceBound(minimize=minimize, random_seed=_SEED)
    ),
    "epig": Entry("predictions", lambda targets: Epig(targets, random_seed=_SEED)),
    "integrated_variance": Entry("predictions", lambda targets: IntegratedVariance(targets, random_seed=_SEED)),
    "pes": Entry("maximum", Pes),
    "pes_map": Entry("maximum", lambda domain, **keywords: Pes(domain, method="map", **keywords)),
    "max_value_entropy": Entry("maximum", MaxValueEntropy),
    "joint_entropy_search": Entry("maximum", JointEntropy),
    "entropy_search": Entry("maximum", lambda domain, **keywords: EntropySearch(domain, method="map", **keywords)),
    "thompson": Entry("maximum", Thompson),
    "bams": _bams(),
    "bams_tempered": _bams("tempered"),
    "bams_uniform": _bams("uniform"),
    "bams_modes": _bams(method="modes"),
    "bams_draws": _bams(method="draws"),
    "committee": Entry("models", lambda minimize: Committee(random_seed=_SEED)),
}

# A public function passed as a criterion means the criterion of its name, which has a gradient.
FUNCTIONS: dict[Callable, str] = {
    f: f.__name__
    for f in (
        *(bald, uncertainty, epig, integrated_variance, expected_improvement, upper_confidence_bound, bams, committee),
        *(pes, max_value_entropy, joint_entropy_search, entropy_search, thompson),
    )
}


def criterion_names(*kinds: Kind) -> list[str]:
    """Names of the criteria of these kinds, by default of all."""
    return [name for name, entry in CRITERIA.items() if not kinds or entry.kind in kinds]


def make_criterion(
    name: str,
    *,
    domain: Callable[[], Domain],
    targets: Callable[[], np.ndarray],
    minimize: bool = False,
    random_seed: Any = None,
    several_models: bool = False,
) -> Criterion:
    """A criterion by its name; a ValueError for an unknown one.

    ``domain`` returns the domain of the maximum, ``targets`` the points (T, D) at which predictions matter; they are
    called only for criteria that need them. ``random_seed`` is for sample paths; ``several_models`` allows criteria
    that compare models.
    """
    entry = CRITERIA.get(name)
    if entry is None or (entry.kind == "models" and not several_models):
        known = criterion_names() if several_models else criterion_names("moments", "predictions", "maximum")
        hint = "" if entry is None else " (which compares several models)"
        raise ValueError(f"criterion must be callable or one of {', '.join(sorted(known))}; got {name!r}{hint}")
    if entry.kind == "predictions":
        return entry.make(targets())
    if entry.kind == "maximum":
        return entry.make(domain(), minimize=minimize, random_seed=random_seed)
    return entry.make(minimize)
