"""The complete state of a run as a value: what a learner works on, and what a file holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np
import pandas as pd

from pymc_active.criteria.base import Criterion, is_lazy
from pymc_active.criteria.by_name import CRITERIA, Named, criterion_names, make_criterion
from pymc_active.criteria.epig import N_TARGETS
from pymc_active.criteria.maximum.pes import Pes
from pymc_active.criteria.screening import AnyCriterion
from pymc_active.inference.fit import Fit
from pymc_active.learner.candidates import Box, Candidates, Choice, Pool, SpaceCandidates
from pymc_active.learner.first_design import FirstDesign, inputs_of
from pymc_active.learner.lazy_pool import LazyPool
from pymc_active.learner.ledger import Ledger
from pymc_active.learner.models_followed import FollowedModels, has_processes, read_processes, read_subject
from pymc_active.learner.price import Price, read_price, split_column
from pymc_active.learner.verification import Verification
from pymc_active.models.advice import apart, code_for_missing_values, dependent_inputs
from pymc_active.models.gpmodel import GPModel
from pymc_active.particles.choose import METHODS
from pymc_active.posterior.graph import check_levels
from pymc_active.predictions.model_average import ModelAverage
from pymc_active.process.fit import METHODS as PROCESS_METHODS
from pymc_active.process.process import Process
from pymc_active.spaces.space import read_space
from pymc_active.support.arguments import check_flags
from pymc_active.support.data import Data, OfData
from pymc_active.support.tables import name_of_input
from pymc_active.support.user_warnings import DataWarning, warn_if, warn_user

# The criterion of each goal, for GPs and for other models. That of a function on the scale of a link is epig: its
# variance where outcomes are certain anyway does not matter.
_OF_ANY = {"model": "bams", "maximum": "expected_improvement"}
GOALS = {"function": "integrated_variance", "hyperparameters": "bald", **_OF_ANY}
GOALS_OF_PROCESSES = {"function": "epig", "parameters": "bald", **_OF_ANY}
# Points of a box at which a model is tried.
_PLACES = 64
# Spans of candidates that show a scaling for other data: in units of the priors (usually below ten), and of the data.
_WIDEST, _WIDER = 12.0, 5.0


@dataclass(frozen=True, eq=False)
class Run(OfData):
    """A run between two calls of its learner; told and corrected, it is another one. A file holds this value.

    ``criterion`` is None for random points; ``named`` is what makes it again, None if it is the user's own. ``subject``
    is what to follow: the models with their last fits, or the design before there is one. ``data`` are those told so
    far, rows of the ledger. ``generator`` is the state of the generator of choices. ``steps`` are the numbers of points
    at which fits are still to be made: one for each time that results were told, in order, so that it does not matter
    when somebody looks at a fit. ``price`` is what measurements cost. ``fit`` is the fit to all data, and ``verified``
    this or the longer run that is better, each None until it is made.
    """

    learn: str
    criterion: AnyCriterion | None
    criterion_name: str
    named: Named | None
    minimize: bool
    repeat: bool
    random_seed: int
    subject: FirstDesign | FollowedModels
    ledger: Ledger
    verification: Verification
    data: Data
    generator: Mapping[str, Any]
    price: Price | None = None
    fit: Fit | ModelAverage | None = None
    verified: Fit | ModelAverage | None = None
    steps: tuple[int, ...] = ()

    def __post_init__(self):
        for values in self.data:
            if values is not None:
                values.setflags(write=False)

    @property
    def searched(self) -> Fit | ModelAverage:
        """The fit, which has been made."""
        assert self.fit is not None
        return self.fit

    @property
    def n_start(self) -> int:
        """Number of points at the start."""
        return len(self.ledger.start)

    def tell(self, data: Data, positions: Sequence[int | None], columns: Sequence = ()) -> Self:
        """Add measurements of k points, whose y is NaN if they failed; ``positions`` as for the ledger.

        Before there is a model, inputs without names are called as the columns of the first table that is told.
        """
        X, y, _ = data
        ledger, subject, names = self.ledger, self.subject, list(columns)
        failed = np.isnan(y)
        for model in () if failed.all() else subject.models.values():
            model.check_outcomes(y[~failed], None if data.y_sd is None else data.y_sd[~failed])
        are_named = len(names) == X.shape[1] and all(isinstance(name, str) for name in names)
        if isinstance(subject, FirstDesign) and ledger.inputs == list(range(X.shape[1])) and are_named:
            ledger, subject = replace(ledger, inputs=names), subject.named(names)
        after = replace(self, ledger=ledger.tell(X, positions, failed), subject=subject)
        if failed.all():
            return after
        return after._with_data(self.data.joined(*data.rows(~failed)))

    def correct(self, row: int | str, y: float) -> Self:
        """Replace the output of a measured row, or, if it is NaN, count the experiment as failed."""
        data, ledger = self.data.copy(), self.ledger
        values = data.y
        if isinstance(row, str):
            called = ledger.table(ledger.told, "step").label.to_numpy()
            if np.sum(called == row) != 1:
                raise ValueError(f"{np.sum(called == row)} points told have the label {row!r}: pass a row of learner.X")
            row = self.n_start + int(np.argmax(called == row))
        if not len(values):
            raise ValueError("there is no measurement to correct yet")
        if not isinstance(row, int | np.integer) or isinstance(row, bool) or not 0 <= row < len(values):
            raise ValueError(f"row must be from 0 to {len(values) - 1}, of learner.X; got {row!r}")
        values[row] = y
        if np.isnan(y):
            if len(values) == 1 and not isinstance(self.subject, FirstDesign):
                raise ValueError("the only measurement cannot have failed: start without data, Learner(None, ...)")
            data, ledger = data.rows(np.arange(len(values)) != row), ledger.fail(int(row))
        # Other fits followed from the old value, and were verified.
        subject = self.subject.anew() if isinstance(self.subject, FollowedModels) else self.subject
        verification = Verification(self.verification.every, self.verification.random_seed)
        run = replace(self, ledger=ledger, subject=subject, verification=verification, steps=())
        return run._with_data(data)

    def refitted(self, subject: FollowedModels, fit: Fit | ModelAverage | None = None) -> Self:
        """With other models, and their fit, if it is known."""
        return replace(self, subject=subject, fit=fit, verified=None)

    def _with_data(self, data: Data) -> Self:
        """Replace the data, which may make the first model."""
        subject = self.subject
        if isinstance(subject, FirstDesign):
            subject = subject.with_data(data)
            _warn_of_candidates(subject, self.ledger.candidates, self.ledger.inputs)
        steps = () if isinstance(subject, FirstDesign) else (*self.steps, len(data.y))
        return replace(self, subject=subject, data=data, steps=steps, fit=None, verified=None)


def new_run(
    gpm: Any, learn: str, criterion, pool, bounds, repeat, minimize, prior, inference, verify, random_seed,
    X_target=None, observed=None, targets=None, likelihood="normal", space=None,
    cost=None,
) -> Run:  # fmt: skip
    """A new run; arguments and errors as for a ``Learner``."""
    cost, pool = split_column(cost, pool)
    gpm = read_processes(gpm, observed)
    are_processes = has_processes(gpm)
    goals, methods = (GOALS_OF_PROCESSES, PROCESS_METHODS) if are_processes else (GOALS, METHODS)
    if learn not in goals:
        hint = ": for the minimum pass learn='maximum', minimize=True" if str(learn).startswith("min") else ""
        raise ValueError(f"learn must be one of {', '.join(sorted(goals))}; got {learn!r}{hint}")
    if inference not in methods:
        raise ValueError(f"inference must be one of {', '.join(methods)}; got {inference!r}")
    check_flags(repeat=repeat, minimize=minimize)
    repeat, minimize = bool(repeat), bool(minimize)
    subject: FirstDesign | FollowedModels | None = None
    if gpm is not None and not callable(gpm):
        if likelihood != "normal":
            raise ValueError("likelihood= is for Learner(None, ...): a model with data has its own")
        subject = read_subject(gpm, learn, prior, inference)
    elif prior is not None:
        raise ValueError("prior is for models with data")
    first = None if subject is None else next(iter(subject.models.values()))
    if space is None and pool is None and bounds is None and first is not None:
        space = first.space
    if space is None and first is None and _has_labels(pool):
        space = pool
    if ((pool is None) and (space is None)) == (bounds is None):
        raise ValueError("a learner chooses from a pool, a box, or a space: pass either pool=X_pool, bounds or space")
    if isinstance(random_seed, int | np.integer) and random_seed >= 0:
        random_seed = int(random_seed)
    else:
        # NumPy raises for an invalid seed.
        random_seed = int(np.random.default_rng(random_seed).integers(2**31))
    if space is not None:
        space = read_space(space)
        if isinstance(first, Process):
            raise ValueError("a space is for GP models: list the points in a pool, as pool=space.points() does")
        if first is not None and (first.space is None or list(first.inputs) != list(space.inputs)):
            raise ValueError("the model must have the same space: pass it to the builder, ard_gp(X, y, space=space)")
    if bounds is not None and first is not None and first.space is not None:
        raise ValueError("the model has a space, which is more than a box: pass space= in place of bounds=")
    if first is not None:
        pool, X_target = (None if table is None else first.read_pool(table) for table in (pool, X_target))
    inputs = space.inputs if space is not None else inputs_of(pool, bounds) if first is None else first.inputs
    if isinstance(pool, pd.DataFrame) and inputs == list(range(len(inputs))):
        # Of a model of arrays: columns that are told later are taken by the names of the candidates.
        inputs = inputs_of(pool, None) if pool.shape[1] == len(inputs) else inputs
    candidates: Candidates
    if pool is None and space is not None:
        listed = space.listed is not None
        candidates = Pool(space.points(), inputs, repeat) if listed else SpaceCandidates(space, repeat)
    elif pool is None:
        candidates = Box(bounds, inputs, repeat)
    else:
        candidates = LazyPool(pool, len(inputs), repeat) if is_lazy(pool) else Pool(pool, inputs, repeat)
    if subject is None:
        subject = FirstDesign(gpm, candidates, inputs, learn, inference, random_seed, likelihood)
    for model in subject.models.values():
        if model.levels and isinstance(candidates, Box):
            raise ValueError(f"column {next(iter(model.levels))} of X numbers the outputs of Coregion: pass a pool")
        if isinstance(candidates, Pool):
            check_levels(candidates.X, model.levels)
        if isinstance(model, Process):
            _check_candidates(model, candidates)
    verification = Verification(verify, random_seed)
    _warn_of_candidates(subject, candidates, inputs)
    if isinstance(candidates, Pool):
        warn_if(code_for_missing_values(candidates.X, inputs, "the pool"))
    if criterion is None:
        followed = [*subject.models.values(), subject]
        has_outcomes = any(getattr(one, "likelihood", None) is not None for one in followed)
        criterion = (GOALS | {"function": "epig"} if has_outcomes else goals)[learn]
    several = learn == "model" or subject.are_several
    if X_target is not None:
        # A level takes targets with its threshold.
        if criterion not in (choices := [name for name in criterion_names("predictions") if name != "level"]):
            raise ValueError(f"X_target is for the criteria {' and '.join(choices)}, by name; got {criterion!r}")
        criterion = partial(CRITERIA[criterion].function, X_target=X_target)
    if targets is not None:
        if criterion != "bald":
            raise ValueError("targets= name variables, for the goal 'parameters' or, of a GP, 'hyperparameters'")
        criterion = partial(CRITERIA["bald"].function, targets=[targets] if isinstance(targets, str) else list(targets))
    named = Named.read(criterion, inputs)
    made, name = _make_criterion(named or criterion, candidates, minimize, random_seed, several)
    if are_processes and isinstance(made, Criterion):
        # What cannot be scored says so before anything is measured.
        made.check_outcomes([*subject.models.values()])
    if isinstance(made, Pes) and isinstance(candidates, Box):
        for model in subject.models.values():
            model.posterior().check_twice_differentiable()
    no_data = Data(np.empty((0, len(inputs))), np.empty(0))
    data = no_data if isinstance(subject, FirstDesign) else subject.data.copy()
    start = tuple(map(Choice, data.X, candidates.find(data.X), [np.nan] * len(data.X)))
    return Run(
        learn=learn,
        criterion=made,
        criterion_name=name,
        named=named,
        minimize=minimize,
        repeat=repeat,
        random_seed=random_seed,
        subject=subject,
        ledger=Ledger(candidates, inputs, start),
        verification=verification,
        data=data,
        generator=np.random.default_rng(random_seed).bit_generator.state,
        price=read_price(cost, candidates, inputs),
        steps=(len(data.y),) if len(data.y) else (),
    )


def _has_labels(pool: Any) -> bool:
    """Whether a table has columns of text, categories or bools."""
    kinds = pool.dtypes if isinstance(pool, pd.DataFrame) else ()
    return any(not pd.api.types.is_numeric_dtype(kind) or pd.api.types.is_bool_dtype(kind) for kind in kinds)


def _check_candidates(process: Process, candidates: Candidates) -> None:
    """Raise a ValueError for candidates at which the outcome of a model has no distribution."""
    if isinstance(candidates, LazyPool):
        raise ValueError("a dask pool is for GP models: pass an array, or rows of it")
    if isinstance(candidates, Box) and (whole := process.whole_inputs):
        raise ValueError(f"{', '.join(whole)} must be whole numbers, unlike a box: list candidates in a pool")
    process.check_rows(candidates.X if isinstance(candidates, Pool) else candidates.places(_PLACES))


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


def _warn_of_candidates(subject: FirstDesign | FollowedModels, candidates: Candidates, inputs: Sequence) -> None:
    """Warn of candidates that do not suit the data and their scale."""
    first = next(iter(subject.models.values()), None)
    if not isinstance(first, GPModel) or isinstance(candidates, LazyPool):
        return
    models: Any = subject.models.values()
    texts = (apart(first, *candidates.limits), *(_narrow(candidates, model) for model in models))
    warn_if(next(filter(None, texts), None))
    if isinstance(candidates, Box) and (on := dependent_inputs(first.X)).size:
        names = ", ".join(name_of_input(inputs[k]) for k in on.tolist())
        warn_user(
            f"{names}: in all {len(first.X)} points each of these inputs can be computed from the others, as where "
            "fractions add up to one, but a box holds all combinations: if others cannot be made, list the ones that "
            "can in a pool, or leave one of these inputs out",
            DataWarning,
        )


def _narrow(candidates: Candidates, gpm: GPModel) -> str | None:
    """Data that scaled the inputs and cover a small part of the candidates."""
    corners = np.stack(candidates.limits)
    scaled = gpm.x_map(corners)
    spans = np.ptp(scaled, axis=0)
    wide = (spans > _WIDEST) & (spans > _WIDER * np.ptp(gpm.x_map(gpm.X), axis=0))
    if np.array_equal(scaled, corners) or not wide.any():
        return None
    return (
        f"after the x_scale of {gpm.description} the candidates span {spans[wide].max():.3g} units, but the priors "
        "expect lengthscales near 1. The scale was taken from data that cover only a small part of the candidates: "
        "give the model bounds=[(low, high), ...] of the candidates"
    )
