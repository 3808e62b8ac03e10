"""The complete state of a run: what a learner works on, and what a file holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from pymc_active.criteria.base import Criterion, is_lazy
from pymc_active.criteria.by_name import Named, make_criterion
from pymc_active.criteria.epig import N_TARGETS
from pymc_active.criteria.screening import AnyCriterion
from pymc_active.inference.fit import Fit
from pymc_active.learner.candidates import Box, Candidates, Choice, Pool
from pymc_active.learner.first_design import FirstDesign, inputs_of
from pymc_active.learner.lazy_pool import LazyPool
from pymc_active.learner.models_followed import ONLY, FollowedModels, read_subject
from pymc_active.learner.questions import Questions
from pymc_active.learner.verification import Verification
from pymc_active.models.gpmodel import GPModel
from pymc_active.particles.outliers import warn_of_repeats
from pymc_active.predictions.model_average import ModelAverage
from pymc_active.support.options import check_flag
from pymc_active.support.tables import warn_if_apart
from pymc_active.support.user_warnings import ScaleWarning, warn_user

# The criterion of each goal.
GOALS = {
    "function": "integrated_variance",
    "hyperparameters": "bald",
    "model": "bams",
    "maximum": "expected_improvement",
}
# Spans of candidates that show a scaling for other data: in units of the priors (usually below ten), and of the data.
_WIDEST, _WIDER = 12.0, 5.0


@dataclass
class LearnerState:
    """The state of a run between two calls of its learner.

    ``criterion`` is None for random points; ``named`` is what makes it again, None if it is the user's own.
    ``subject`` is the models, or the design before there is one. It holds the data told so far, ``n_start`` of them at
    the start, and the last fits. ``rng`` is the generator of the choices, and ``fit`` the searched fit to the current
    data, None until it is made. ``steps`` are the numbers of points at which fits are still to be made: one for each
    time that results were told, in order, so that it does not matter when somebody looks at a fit.
    ``revisions`` are those of the files that the run has written or was loaded from, which saving may replace.
    """

    learn: str
    criterion: AnyCriterion | None
    criterion_name: str
    named: Named | None
    minimize: bool
    repeat: bool
    random_seed: int
    subject: FirstDesign | FollowedModels
    questions: Questions
    verification: Verification
    n_start: int
    rng: np.random.Generator
    fit: Fit | ModelAverage | None = None
    steps: list[int] = field(default_factory=list)
    notes: dict[str, Any] = field(default_factory=dict)
    revisions: set[str] = field(default_factory=set)

    @contextmanager
    def all_or_nothing(self) -> Iterator[None]:
        """Context of a change of the data that an interrupt or an error leaves as it was before."""
        before = {**vars(self), "steps": self.steps.copy()}
        with self.subject.all_or_nothing(), self.questions.all_or_nothing():
            try:
                yield
            except BaseException:
                vars(self).update(before)
                raise

    @contextmanager
    def choosing(self) -> Iterator[np.random.Generator]:
        """Context of new questions, with the generator of choices: an interrupt or an error leaves none of them."""
        before = self.rng.bit_generator.state
        with self.questions.all_or_nothing():
            try:
                yield self.rng
            except BaseException:
                self.rng.bit_generator.state = before
                raise

    def take_names(self, columns: Sequence) -> None:
        """Before there is a model, call inputs without names as the columns of the first table that is told."""
        inputs, names = self.questions.inputs, list(columns)
        are_named = len(names) == len(inputs) and all(isinstance(name, str) for name in names)
        if isinstance(self.subject, FirstDesign) and inputs == list(range(len(inputs))) and are_named:
            self.questions.inputs = self.subject.inputs = names

    def take(self, X: np.ndarray, y: np.ndarray) -> None:
        """Replace the data by X (n, D) and y (n,), which may make the first model; an error changes nothing."""
        subject = self.subject.with_data(X, y)
        if subject is not self.subject:
            _warn_about_scale(subject.models, self.questions.candidates)
        self.subject = subject
        if not isinstance(subject, FirstDesign):
            self.steps.append(len(y))

    def correct(self, row: int | str, y: float) -> None:
        """Replace the output of a measured row, or, if it is NaN, count the experiment as failed."""
        X, values, asked = self.subject.X, self.subject.y.copy(), self.questions
        if isinstance(row, str):
            called = asked.table(asked.told, "step").label.to_numpy()
            if np.sum(called == row) != 1:
                raise ValueError(f"{np.sum(called == row)} points told have the label {row!r}: pass a row of learner.X")
            row = self.n_start + int(np.argmax(called == row))
        if not isinstance(row, int | np.integer) or not 0 <= row < len(values):
            raise ValueError(f"row must be from 0 to {len(values) - 1}, of learner.X; got {row!r}")
        values[row] = y
        left = np.arange(len(values)) != row if np.isnan(y) else np.ones(len(values), bool)
        if not left.any():
            raise ValueError("the only measurement cannot have failed: start without data, Learner(None, ...)")
        self.take(X[left], values[left])
        # The others followed from the old value.
        del self.steps[:-1]
        if isinstance(self.subject, FollowedModels):
            self.subject.start_anew()
        if left.all():
            return
        if row < self.n_start:
            self.n_start -= 1
            asked.failed.append(Choice(X[row], asked.candidates.find(X[[row]])[0], np.nan))
        else:
            asked.failed.append(asked.told.pop(row - self.n_start))


def new_state(
    gpm: Any,
    learn: str,
    criterion,
    pool,
    bounds,
    repeat,
    minimize,
    prior,
    explore_every,
    inference,
    verify,
    random_seed,
    max_points=None,
) -> LearnerState:
    """The state of a new run; arguments and errors as for a ``Learner``."""
    if learn not in GOALS:
        raise ValueError(f"learn must be one of {', '.join(sorted(GOALS))}; got {learn!r}")
    repeat, minimize = check_flag("repeat", repeat), check_flag("minimize", minimize)
    subject: FirstDesign | FollowedModels | None = None
    if gpm is not None and not callable(gpm):
        subject = read_subject(gpm, learn, prior, explore_every, inference, max_points)
    elif prior is not None or explore_every or max_points is not None:
        raise ValueError("prior, explore_every and max_points are for models with data")
    if max_points is not None and verify != "never":
        raise ValueError("verify is for fits to all points: leave out max_points, or pass verify='never'")
    if (pool is None) == (bounds is None):
        raise ValueError("a learner chooses from a pool or a box: pass either pool=X_pool or bounds=[(low, high), ...]")
    if isinstance(random_seed, int | np.integer) and random_seed >= 0:
        random_seed = int(random_seed)
    else:
        # NumPy raises for an invalid seed.
        random_seed = int(np.random.default_rng(random_seed).integers(2**31))
    inputs = inputs_of(pool, bounds) if subject is None else next(iter(subject.models.values())).inputs
    if isinstance(pool, pd.DataFrame) and inputs == list(range(len(inputs))):
        # Of a model of arrays: columns that are told later are taken by the names of the candidates.
        inputs = inputs_of(pool, None) if pool.shape[1] == len(inputs) else inputs
    candidates: Candidates
    if pool is None:
        candidates = Box(bounds, inputs, repeat)
    else:
        candidates = LazyPool(pool, len(inputs), repeat) if is_lazy(pool) else Pool(pool, inputs, repeat)
    if subject is None:
        subject = FirstDesign(gpm, candidates, inputs, learn, inference, random_seed)
    for model in list(subject.models.values())[:1]:
        warn_of_repeats(model)
    verification = Verification(verify, len(subject.y), random_seed)
    _warn_about_scale(subject.models, candidates)
    if criterion is None:
        criterion = GOALS[learn]
    for x, row in zip(subject.X, candidates.find(subject.X), strict=True):
        candidates.reserve(Choice(x, row, np.nan))
    several = learn == "model" or subject.are_several
    named = Named.read(criterion, inputs)
    made, name = _make_criterion(named or criterion, candidates, minimize, random_seed, several)
    return LearnerState(
        learn=learn,
        criterion=made,
        criterion_name=name,
        named=named,
        minimize=minimize,
        repeat=repeat,
        random_seed=random_seed,
        subject=subject,
        questions=Questions(candidates, inputs),
        verification=verification,
        n_start=len(subject.y),
        steps=[] if isinstance(subject, FirstDesign) else [len(subject.y)],
        rng=np.random.default_rng(random_seed),
    )


def _make_criterion(
    criterion: Named | AnyCriterion, candidates: Candidates, minimize: bool, random_seed: int, several: bool
) -> tuple[AnyCriterion | None, str]:
    if isinstance(criterion, Named):
        if criterion.name == "random":
            return None, criterion.name
        options: dict[str, Any] = {"minimize": minimize, "random_seed": random_seed, "several_models": several}
        options |= {"domain": lambda: candidates.domain, "targets": lambda: candidates.places(N_TARGETS)}
        return make_criterion(criterion, **options), str(criterion)
    if not callable(criterion) and not isinstance(criterion, Criterion):
        raise ValueError(f"criterion must be a name or a callable; got {criterion!r}")
    return criterion, getattr(criterion, "name", getattr(criterion, "__name__", "custom"))


def _warn_about_scale(models: Mapping[Any, GPModel], candidates: Candidates) -> None:
    """Warn if the candidates are far from the data, or these scaled the inputs and cover a small part of them."""
    if isinstance(candidates, LazyPool):
        return
    corners = np.stack(candidates.limits)
    for label, gpm in models.items():
        if warn_if_apart(candidates.limits, gpm.X, gpm.box, gpm.inputs):
            return
        scaled = gpm.x_map(corners)
        if np.array_equal(scaled, corners):
            continue
        spans = np.ptp(scaled, axis=0)
        if (wide := (spans > _WIDEST) & (spans > _WIDER * np.ptp(gpm.x_map(gpm.X), axis=0))).any():
            what = "" if label == ONLY else f" of {label!r} (the first such model)"
            return warn_user(
                f"after the x_scale{what} the candidates span {spans[wide].max():.3g} units, but the priors expect "
                "lengthscales near 1. The scale was taken from data that cover only a small part of the candidates: "
                "give the model bounds=[(low, high), ...] of the candidates",
                ScaleWarning,
            )
