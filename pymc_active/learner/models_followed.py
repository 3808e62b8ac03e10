"""The models that a learner refits after every answer: one, or several of the same observations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from typing import Any, Self
from zlib import crc32

import numpy as np
import pandas as pd
import xarray as xr

from pymc_active.inference.fit import Fit
from pymc_active.kernels.expressions import Expression, base_kernels, is_redundant, on_inputs
from pymc_active.laplace.fit import LaplaceFit
from pymc_active.laplace.fitting import fit_laplace
from pymc_active.laplace.several_models import fit_laplace_models
from pymc_active.models.gpmodel import GPModel
from pymc_active.particles.choose import METHODS, check_max_points, choose
from pymc_active.particles.fit import ParticleFit, default_particles
from pymc_active.particles.informative import holding, informative_rows
from pymc_active.particles.modes import from_modes
from pymc_active.predictions.model_average import ModelAverage, Prior, check_distinct, check_labels, prior_weights
from pymc_active.support.user_warnings import DoubtfulEvidenceWarning, ignoring

# Points told between full mode searches of one model; in between its modes are followed.
_SEARCH_EVERY = 15
# Share of ``max_points`` that is chosen at a time: the points told next are added.
_CHOSEN = 0.9
# With fewer points several wide modes share the posterior, and a thorough search does not pay.
_SMALL = 30
# Fresh starts of a first fit, and of a fit that starts from its parent model.
_FULL_SEARCH, _CHILD_SEARCH = 20, 4
# Neighbours that may join at a time; models that always stay; probability below which others leave; most models kept.
_NEIGHBOURS, _FEWEST, _HOPELESS, _MOST = 12, 5, 1e-4, 25

# Models with a larger probability are represented by so many particles, from so many weighted draws.
_LIKELY, _PARTICLES, _WEIGHTED = 1e-2, 64, 600

# The label of a single model.
ONLY = "model"
# Unconstrained values by the name of the variable.
type Point = dict[str, np.ndarray]


class FollowedModels:
    """Models of the same observations by label, whose modes are followed from fit to fit."""

    def __init__(self, models: Mapping[Any, GPModel]):
        self.models = dict(models)
        # Modes of each model's last fit, from which the next one starts.
        self.starts: dict[Any, list[Point]] = {}

    @property
    def X(self) -> np.ndarray:
        """Inputs measured so far (n, D), in the user's units."""
        return next(iter(self.models.values())).X

    @property
    def y(self) -> np.ndarray:
        """Outputs measured so far (n,)."""
        return next(iter(self.models.values())).y

    def with_data(self, X: np.ndarray, y: np.ndarray) -> Self:
        """Replace the data of all models, or of none if one refuses them."""
        before = self.X, self.y
        changed: list[GPModel] = []
        try:
            for gpm in self.models.values():
                gpm.set_data(X, y)
                changed.append(gpm)
        except ValueError:
            # A user's own model may refuse data that others accept, such as any change to a constant X.
            for gpm in changed:
                gpm.set_data(*before)
            raise
        return self

    @contextmanager
    def holding_first(self, n: int) -> Iterator[None]:
        """Context in which the models hold the first n points only."""
        X, y = self.X[:n].copy(), self.y[:n].copy()
        with ExitStack() as stack:
            for gpm in self.models.values():
                stack.enter_context(holding(gpm, X, y))
            yield


class OneModel(FollowedModels):
    """A single model, under the label :data:`ONLY`."""

    def __init__(self, gpm: GPModel, inference: str, max_points: int | None = None):
        super().__init__({ONLY: gpm})
        self.gpm, self.inference, self.max_points = gpm, inference, max_points
        # The rows that the last particles were fitted to, None for all, and how many points there were.
        self.rows: np.ndarray | None = None
        self.n_seen = 0
        # Number of points at the last full search.
        self.last_search = -_SEARCH_EVERY
        self.renew = partial(choose, method=inference)
        # The last particles, which the next fit updates.
        self.particles: ParticleFit | None = None

    def fit(self, seed: int, executor: Executor | None) -> Fit:
        """Update the particles, or follow the modes."""
        if self.inference == "laplace" or not self.gpm.shapes:
            return self._follow_modes(seed, executor)
        # A seed for each n, so that earlier fits do not affect fresh ones.
        n, rng = len(self.y), np.random.default_rng((seed, len(self.y)))
        if self.max_points is not None and n > self.max_points:
            self.rows = self._informative(self.max_points, rng)
        self.n_seen = n
        with self.holding_rows():
            X, y, last = self.X, self.y, self.particles
            if last is not None and len(last.y) <= len(y) and _begins_with(X, last.X) and _begins_with(y, last.y):
                self.particles = last.follow(rng, executor)
            else:
                self.particles = self.renew(self.gpm, default_particles(len(y)), rng, executor=executor)
        if self.rows is not None:
            self.particles.diagnostics["n_left_out"] = n - len(self.rows)
        return self.particles

    def _informative(self, max_points: int, rng: np.random.Generator) -> np.ndarray:
        """The rows of the last fit and those told since; if they are too many, informative ones with room for more."""
        new = np.arange(self.n_seen, len(self.y))
        if self.rows is not None and len(self.rows) + len(new) <= max_points:
            return np.concatenate([self.rows, new])
        return informative_rows(self.gpm, int(_CHOSEN * max_points), rng)

    def holding_rows(self) -> AbstractContextManager:
        """Context in which the model holds the data that the last particles were fitted to."""
        return nullcontext() if self.rows is None else holding(self.gpm, self.X[self.rows], self.y[self.rows])

    def _follow_modes(self, seed: int, executor: Executor | None) -> Fit:
        """Follow the modes; every 15 points search them anew."""
        n = len(self.y)
        is_full, is_small = n - self.last_search >= _SEARCH_EVERY, n < _SMALL
        fit = fit_laplace(
            self.gpm,
            start=self.starts.get(ONLY),
            n_restarts=2 if not is_full else 6 if is_small else 12,
            population=None if is_full and not is_small else 0,
            # A seed for each n, so that earlier fits do not affect the search.
            random_seed=np.random.default_rng((seed, n)),
            progressbar=False,
            executor=executor,
        )
        if is_full:
            self.last_search = n
        self.starts = {ONLY: [mode.point for mode in fit.modes]}
        return fit


def _begins_with(values: np.ndarray, first: np.ndarray) -> bool:
    return np.array_equal(values[: len(first)], first)


class SeveralModels(FollowedModels):
    """Models which may join, with the mean prior weight, and leave; see ``explore_every`` of the learner."""

    def __init__(self, models: dict[Any, GPModel], prior: Prior, explore_every: int, inference: str):
        super().__init__(models)
        self.explore_every, self.inference = explore_every, inference
        self.prior: Mapping[Any, float] | None
        self.prior = prior if prior is None or isinstance(prior, Mapping) else dict(zip(models, prior, strict=True))
        self.fits: dict[Any, LaplaceFit] = {}
        # Number of points when neighbours last joined.
        self.explored = len(self.y)
        # The last particles of each model, and the fit whose modes they surround.
        self._particles: dict[Any, tuple[LaplaceFit, ParticleFit]] = {}
        # Number of points -> posterior probabilities over ``model``.
        self.probabilities: dict[int, xr.DataArray] = {}

    def fit(self, seed: int, executor: Executor | None) -> ModelAverage:
        """Follow the modes of every model, with one fresh start each."""
        n = len(self.y)
        average = self.search(1 if self.starts else _FULL_SEARCH, seed, executor)
        if self.explore_every and n - self.explored >= self.explore_every:
            self.explored = n
            average = self._explore(average, np.random.default_rng((seed, n, 1)), executor)
            self.probabilities[n] = average.probability
        return average

    def search(self, n_restarts: int, seed: int, executor: Executor | None) -> ModelAverage:
        """Fit every model from its last modes and ``n_restarts`` fresh starts, at least 20 for models without a fit."""
        random_seed = np.random.default_rng((seed, len(self.y)))
        new = {label: gpm for label, gpm in self.models.items() if label not in self.starts}
        known = {label: gpm for label, gpm in self.models.items() if label in self.starts}
        fits = _fit(known, self.starts, n_restarts, random_seed, executor) if known else {}
        if new:
            fits |= _fit(new, {}, max(n_restarts, _FULL_SEARCH), random_seed, executor)
        if len(fits) < 2:
            missing = ", ".join(str(label) for label in self.models if label not in fits)
            raise ValueError(f"at least two models must have a fit, but these cannot be fitted: {missing}")
        self._keep(fits)
        average = self.average()
        self.probabilities[len(self.y)] = average.probability
        return average

    def average(self, others: Mapping[Any, Fit] | None = None) -> ModelAverage:
        """The average of the last fits, updated by ``others``; warns if that of the most probable model is doubtful.

        Probable models are represented by particles around their modes, which correct Laplace's evidences and shapes.
        """
        fits: dict[Any, Fit] = {**self.fits, **(others or {})}
        prior = None
        if self.prior is not None:
            mean = float(np.mean(list(self.prior.values()))) or 1.0
            prior = {label: self.prior.get(label, mean) for label in fits}
        if self.inference == "laplace":
            return ModelAverage(fits, prior=prior)
        with ignoring(DoubtfulEvidenceWarning):
            probability = ModelAverage(fits, prior=prior).probability.to_numpy()
        fits |= {
            label: self._around_modes(label, fit)
            for (label, fit), p in zip(fits.items(), probability, strict=True)
            if p > _LIKELY and isinstance(fit, LaplaceFit) and fit.gpm.shapes
        }
        return ModelAverage(fits, prior=prior)

    def _around_modes(self, label: Any, fit: LaplaceFit) -> ParticleFit:
        known, particles = self._particles.get(label, (None, None))
        if particles is None or known is not fit:
            particles = self._draw(label, fit)
            self._particles[label] = fit, particles
        return particles

    def _draw(self, label: Any, fit: LaplaceFit) -> ParticleFit:
        # A seed for each number of points and model, so that a file need not hold the particles.
        rng = np.random.default_rng((len(fit.y), crc32(str(label).encode())))
        renew = partial(choose, method=self.inference)
        n_particles = min(_PARTICLES, default_particles(len(fit.y)))
        return from_modes(fit, n_particles, rng, "particles around the modes that are followed", renew, _WEIGHTED)

    def _explore(self, average: ModelAverage, rng: np.random.Generator, executor: Executor | None) -> ModelAverage:
        """Take a step of compositional kernel search from probable models, then prune."""
        children = self._children(average, rng)
        models = {str(child): average[parent].gpm.with_expression(child) for child, parent in children.items()}
        start = {str(child): [self.fits[parent]] for child, parent in children.items()}
        fits = self.fits | _fit(models, start, _CHILD_SEARCH, rng, executor)
        probability = self.average(fits).probability
        ranked = probability.sortby(-probability)[:_MOST]
        stay = {*ranked.model.to_numpy()[:_FEWEST], *ranked.model[ranked > _HOPELESS].to_numpy()}
        # A model that could not be fitted this time has no probability, and stays.
        members = self.models | {label: fit.gpm for label, fit in fits.items()}
        self.models = {label: gpm for label, gpm in members.items() if label in stay or label not in fits}
        self._keep(fits)
        return self.average()

    def _children(self, average: ModelAverage, rng: np.random.Generator) -> dict[Expression, Any]:
        """New kernel expressions -> labels of their parent models."""
        n_inputs = self.X.shape[1]
        known = {on_inputs(e, n_inputs) for gpm in self.models.values() if (e := gpm.expression) is not None}
        probability = dict(zip(average, average.weights, strict=True))
        children: dict[Expression, Any] = {}
        while len(children) < _NEIGHBOURS and sum(probability.values()) > 0:
            p = np.array(list(probability.values()))
            parent = list(probability)[rng.choice(len(p), p=p / p.sum())]
            expression = average[parent].gpm.expression
            assert expression is not None, "checked by the learner"
            unknown = (e for e in expression.neighbours(n_inputs=n_inputs) if e not in known and not is_redundant(e))
            new = [e for e in unknown if str(e) not in self.models]
            if new:
                share = 0.25 ** np.array([len(base_kernels(e)) for e in new])
                child = new[rng.choice(len(new), p=share / share.sum())]
                children[child] = parent
                known.add(child)
            else:
                del probability[parent]
        return children

    def _keep(self, fits: Mapping[Any, LaplaceFit]) -> None:
        # A model without a fit may get one with more data.
        self.fits = {label: fits[label] for label in self.models if label in fits}
        self.starts = {label: [mode.point for mode in fit.modes] for label, fit in self.fits.items()}

    def join(self, gpm: GPModel, label: Any) -> None:
        """Add a model; it gets the current data."""
        _check_model(gpm)
        label = default_label(gpm) if label is None else label
        if label in self.models:
            raise ValueError(f"a model {label!r} exists already: pass another label")
        if self.explore_every and gpm.expression is None:
            raise ValueError("explore_every needs models with kernel expressions: make each with composite_gp")
        check_labels([*self.models, label])
        check_distinct(self.models | {label: gpm})
        gpm.set_data(self.X, self.y)
        self.models[label] = gpm

    def leave(self, label: Any) -> None:
        """Remove a model."""
        if label not in self.models:
            raise ValueError(f"there is no model {label!r}; the models are {list(self.models)}")
        if len(self.models) <= 2:
            raise ValueError("a learner of several models needs at least two, so none of these can leave")
        del self.models[label]
        self.fits.pop(label, None)
        self.starts.pop(label, None)

    def history(self) -> xr.DataArray:
        """Posterior probabilities after each fit, (n_observations, model); NaN where a model was not a member."""
        frame = pd.DataFrame({n: p.to_series() for n, p in self.probabilities.items()}).T
        coords = {"n_observations": frame.index.to_numpy(), "model": frame.columns.to_numpy()}
        return xr.DataArray(frame.to_numpy(), coords, list(coords), name="probability")


def _fit(
    models: Mapping[Any, GPModel],
    start: Mapping[Any, Any],
    n_restarts: int,
    rng: np.random.Generator,
    executor: Executor | None,
) -> dict[Any, LaplaceFit]:
    return fit_laplace_models(
        models, start=start, n_restarts=n_restarts, random_seed=rng, executor=executor, progressbar=False, errors="warn"
    )


def read_models(models: Mapping[Any, GPModel] | Sequence[GPModel]) -> dict[Any, GPModel]:
    """At least two distinct models of the same data by label: the keys of a dict, or kernel expressions."""
    if isinstance(models, Mapping):
        named = dict(models)
    else:
        named = {}
        for gpm in models:
            _check_model(gpm)
            named[_free_label(default_label(gpm), named)] = gpm
    if len(named) < 2:
        raise ValueError(f"a learner of several models needs at least two; got {len(named)}")
    check_labels(list(named))
    first_label, first = next(iter(named.items()))
    for label, gpm in named.items():
        _check_model(gpm)
        if not (np.array_equal(gpm.X, first.X) and np.array_equal(gpm.y, first.y)):
            raise ValueError(f"models must hold the same data, but {first_label!r} and {label!r} differ: use set_data")
    check_distinct(named)
    return named


def default_label(gpm: GPModel) -> str:
    """A model's kernel expression, or its description."""
    return gpm.description if gpm.expression is None else str(gpm.expression)


def _free_label(label: str, taken: Mapping[Any, GPModel]) -> str:
    """The label, numbered if it is taken: models with equal descriptions may differ in priors and scales."""
    free, number = label, 2
    while free in taken:
        free, number = f"{label} ({number})", number + 1
    return free


def _check_model(gpm: Any) -> None:
    if not isinstance(gpm, GPModel):
        raise TypeError(f"models must be GPModel objects; got {type(gpm).__name__}")


def check_following(inference: str, explore_every: int) -> None:
    """Raise a ValueError for options of a learner that no models take."""
    if inference not in METHODS:
        raise ValueError(f"inference must be one of {', '.join(METHODS)}; got {inference!r}")
    if not isinstance(explore_every, int | np.integer) or explore_every < 0:
        raise ValueError(f"explore_every must be a whole number >= 0; got {explore_every!r}")


def read_subject(
    gpm: Any, learn: str, prior: Prior, explore_every: int, inference: str, max_points: int | None = None
) -> OneModel | SeveralModels:
    """The models that a learner follows, checked against its goal."""
    check_following(inference, explore_every)
    if max_points is not None:
        check_max_points(max_points)
        if not isinstance(gpm, GPModel) or inference == "laplace" or not gpm.shapes:
            raise ValueError("max_points is for a single model with free parameters, and inference='auto' or 'smc'")
    if isinstance(gpm, GPModel):
        if learn == "model":
            raise ValueError("learn='model' compares models: pass at least two, in a list or a dict")
        if prior is not None or explore_every:
            raise ValueError("prior and explore_every are for several models")
        if learn == "hyperparameters" and not gpm.shapes:
            raise ValueError("every parameter of this model is fixed, so learn='hyperparameters' has nothing to learn")
        return OneModel(gpm, inference, max_points)
    if not isinstance(gpm, Sequence | Mapping) or isinstance(gpm, str):
        expected = "a GPModel, a list or dict of them, a function that makes them, or None"
        raise TypeError(f"Learner takes {expected}; got {type(gpm).__name__}")
    if learn == "hyperparameters":
        raise ValueError("learn='hyperparameters' takes a single model: pass one, or use learn='model'")
    models = read_models(gpm)
    prior_weights(prior, list(models))  # raises before anything long runs
    if explore_every and any(gpm.expression is None for gpm in models.values()):
        raise ValueError("explore_every needs models with kernel expressions: make each with composite_gp")
    if explore_every and not all(isinstance(label, str) for label in models):
        raise ValueError(f"explore_every names models by expressions, so all labels must be text; got {list(models)}")
    return SeveralModels(models, prior, int(explore_every), inference)
