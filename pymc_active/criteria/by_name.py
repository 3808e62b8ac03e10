"""Every criterion by its name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from pymc_active.criteria.bald import Bald, Uncertainty, bald, uncertainty
from pymc_active.criteria.bams import Bams, Committee, bams, committee
from pymc_active.criteria.base import Criterion
from pymc_active.criteria.improvement import (
    ExpectedImprovement,
    UpperConfidenceBound,
    expected_improvement,
    upper_confidence_bound,
)
from pymc_active.criteria.maximum.base import OptimumCriterion
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

# By name; all are told whether the goal is to minimize.
CRITERIA: dict[str, Callable[[bool], Criterion]] = {
    "bald": lambda minimize: Bald(),
    "bald_f": lambda minimize: Bald("f"),
    "bald_modes": lambda minimize: Bald(method="modes"),
    "bald_draws": lambda minimize: Bald(method="draws"),
    "uncertainty": lambda minimize: Uncertainty(),
    "expected_improvement": lambda minimize: ExpectedImprovement(minimize),
    "upper_confidence_bound": lambda minimize: UpperConfidenceBound(minimize=minimize),
}


# By name; these ask where, or how high, the maximum is.
OPTIMUM_CRITERIA: dict[str, Callable[..., OptimumCriterion]] = {
    "pes": Pes,
    "pes_map": partial(Pes, method="map"),
    "max_value_entropy": MaxValueEntropy,
    "joint_entropy_search": JointEntropy,
    "entropy_search": partial(EntropySearch, method="map"),
    "thompson": Thompson,
}


# These compare several models, which all the others average.
MODEL_CRITERIA: dict[str, Callable[[], Criterion]] = {
    "bams": Bams,
    "bams_tempered": lambda: Bams("tempered"),
    "bams_uniform": lambda: Bams("uniform"),
    "bams_modes": lambda: Bams(method="modes"),
    "bams_draws": lambda: Bams(method="draws"),
    "committee": Committee,
}


# The public functions stand for the criteria of their name, which know their gradients.
_FUNCTIONS: dict[Callable, str] = {
    f: f.__name__
    for f in (
        *(bald, uncertainty, expected_improvement, upper_confidence_bound, bams, committee),
        *(pes, max_value_entropy, joint_entropy_search, entropy_search, thompson),
    )
}
