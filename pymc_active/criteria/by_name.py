"""The registry of criteria by name, for :class:`Learner`, :func:`check` and the command line."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from difflib import get_close_matches
from functools import partial
from inspect import signature
from typing import Any, Literal, NamedTuple, Self

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
from pymc_active.criteria.level import Level, level
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
from pymc_active.support.tables import read_inputs

# All criteria share the draws from a fit.
_SEED = 0

type Kind = Literal["moments", "predictions", "maximum", "models"]


class Entry(NamedTuple):
    """One criterion of the registry: its function, its class, and the arguments that both take.

    Its ``kind`` is what it depends on: the predictive moments, predictions at targets, the place or height of the
    maximum, or the differences between several models (other kinds average over models).
    """

    kind: Kind
    function: Callable
    make: Callable[..., Criterion]
    arguments: tuple[str, ...]


_MARGINAL = ("method", "draws")
_PATHS = ("method", "n_optima", "n_features", "n_hyperparameters")
CRITERIA: dict[str, Entry] = {
    entry.function.__name__: entry
    for entry in (
        Entry("moments", bald, Bald, ("target", "targets", *_MARGINAL)),
        Entry("moments", uncertainty, Uncertainty, _MARGINAL),
        Entry("moments", expected_improvement, ExpectedImprovement, _MARGINAL),
        Entry("moments", upper_confidence_bound, UpperConfidenceBound, ("beta", *_MARGINAL)),
        Entry("predictions", epig, Epig, ("draws", "X_target")),
        Entry("predictions", integrated_variance, IntegratedVariance, ("draws", "X_target")),
        Entry("predictions", level, Level, ("threshold", "draws", "X_target")),
        Entry("maximum", pes, Pes, (*_PATHS, "mixed", "boundary", "moments")),
        Entry("maximum", max_value_entropy, MaxValueEntropy, _PATHS),
        Entry("maximum", joint_entropy_search, JointEntropy, _PATHS),
        Entry("maximum", entropy_search, partial(EntropySearch, method="map"), ()),
        Entry("maximum", thompson, Thompson, ("method", "n_features")),
        Entry("models", bams, Bams, ("weights", *_MARGINAL)),
        Entry("models", committee, Committee, _MARGINAL),
    )
}
# What papers call them, for a hint; bald, bams, epig and pes are names themselves.
_ABBREVIATIONS = {
    "ei": "expected_improvement",
    "logei": "expected_improvement",
    "ucb": "upper_confidence_bound",
    "gp-ucb": "upper_confidence_bound",
    "lcb": "upper_confidence_bound",
    "es": "entropy_search",
    "mes": "max_value_entropy",
    "jes": "joint_entropy_search",
    "ts": "thompson",
    "ivr": "integrated_variance",
    "imse": "integrated_variance",
    "alc": "integrated_variance",
    "alm": "uncertainty",
    "qbc": "committee",
}
_BY_FUNCTION: dict[Any, str] = {entry.function: name for name, entry in CRITERIA.items()}


class Named(NamedTuple):
    """A criterion of the registry: its name, and arguments that differ from the defaults; ``"random"`` is one too."""

    name: str
    arguments: dict[str, Any]

    def __str__(self) -> str:
        told = ", ".join(f"{key}={_shown(value)}" for key, value in self.arguments.items())
        return f"{self.name}({told})" if told else self.name

    @classmethod
    def read(cls, criterion: Any, inputs: list) -> Self | None:
        """What a name, a function of the registry, or a :func:`functools.partial` of one stands for; else None.

        Targets become lists of numbers in the order of the ``inputs``, as files hold them.
        """
        if isinstance(criterion, cls):
            return criterion
        if isinstance(criterion, str):
            return cls(criterion, {})
        function, arguments = criterion, {}
        if isinstance(criterion, partial) and not criterion.args:
            function, arguments = criterion.func, dict(criterion.keywords)
            if arguments.get("X_target") is not None:
                arguments["X_target"] = read_inputs(arguments["X_target"], "X_target", inputs=inputs).tolist()
        name = _BY_FUNCTION.get(function) if isinstance(function, Hashable) else None
        return None if name is None else cls(name, arguments)


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    if np.ndim(value) == 1 and all(isinstance(one, str) for one in value):
        return str(list(value))
    return repr(value) if np.ndim(value) == 0 else f"<{len(value)} points>"


def criterion_names(*kinds: Kind) -> list[str]:
    """Names of the criteria of these kinds, by default of all."""
    return [name for name, entry in CRITERIA.items() if not kinds or entry.kind in kinds]


def make_criterion(
    named: Named,
    *,
    domain: Callable[[], Domain],
    targets: Callable[[], np.ndarray],
    minimize: bool = False,
    random_seed: Any = None,
    several_models: bool = False,
) -> Criterion:
    """A criterion of the registry; a ValueError for an unknown one, or an argument that its variants do not have.

    ``domain`` returns the domain of the maximum, ``targets`` the points (T, D) at which predictions matter; they are
    called only for criteria that need them. ``random_seed`` is for sample paths; ``several_models`` allows criteria
    that compare models.
    """
    entry = CRITERIA.get(named.name)
    if entry is None or (entry.kind == "models" and not several_models):
        choices = criterion_names() if several_models else criterion_names("moments", "predictions", "maximum")
        near = _ABBREVIATIONS.get(named.name.lower()) or next(iter(get_close_matches(named.name, choices, 1)), "")
        compares = " (which compares several models)"
        hint = compares if entry else f". Did you mean {near!r}{'' if near in choices else compares}?" if near else ""
        names = ", ".join(sorted([*choices, "random"]))
        raise ValueError(f"criterion must be callable or one of {names}; got {named.name!r}{hint}")
    if not set(named.arguments) <= set(entry.arguments):
        which = f"may have the arguments {', '.join(entry.arguments)}" if entry.arguments else "has no variants"
        raise ValueError(f"the criterion {named.name} {which}; got {named}")
    if entry.kind == "predictions":
        arguments = dict(named.arguments)
        own = arguments.pop("X_target", None)
        return entry.make(targets() if own is None else np.asarray(own, float), random_seed=_SEED, **arguments)
    if entry.kind == "maximum":
        return entry.make(domain(), minimize=minimize, random_seed=random_seed, **named.arguments)
    end = {"minimize": minimize} if "minimize" in signature(entry.make).parameters else {}
    return entry.make(random_seed=_SEED, **end, **named.arguments)
