"""The models that a learner refits after every answer: one, or several of the same observations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any, Self
from zlib import crc32

import numpy as np
import pandas as pd
import pymc as pm
import xarray as xr

from pymc_active.inference.fit import Fit
from pymc_active.learner.track import Track
from pymc_active.models.gpmodel import GPModel
from pymc_active.models.model import Model
from pymc_active.particles.informative import holding
from pymc_active.posterior.array import ArrayPosterior
from pymc_active.posterior.base import NoFiniteStartError
from pymc_active.predictions.ensembles import check_units
from pymc_active.predictions.model_average import ModelAverage, Prior, check_distinct, check_labels, prior_weights
from pymc_active.process.process import Process
from pymc_active.support.arguments import kind_of
from pymc_active.support.data import Data
from pymc_active.support.user_warnings import DoubtfulFitWarning, RunWarning, ignoring, warn_user
from pymc_active.support.workers import Call

# The label of a single model.
ONLY = "model"


@dataclass(frozen=True, eq=False)
class FollowedModels:
    """Models of the same observations by label, each with its last fit; a single one is labelled :data:`ONLY`.

    Several models may join, with the mean prior weight, and leave. All methods return new values; only the data that
    the models hold can change, by :meth:`set_data`. ``probabilities`` are the models' at each number of points.
    """

    tracks: Mapping[Any, Track]
    inference: str
    prior: Mapping[Any, float] | None = None
    probabilities: Mapping[int, xr.DataArray] = field(default_factory=dict)

    @classmethod
    def of(cls, models: Mapping[Any, Any], inference: str, *, prior: Prior = None) -> Self:
        """Models without fits."""
        streams = {label: _stream(label) if len(models) > 1 else None for label in models}
        tracks = {label: Track(gpm, inference, streams[label]) for label, gpm in models.items()}
        prior = prior if prior is None or isinstance(prior, Mapping) else dict(zip(models, prior, strict=True))
        return cls(tracks, inference, prior)

    @property
    def are_several(self) -> bool:
        """Whether there is more than one; the last but one cannot leave."""
        return len(self.tracks) > 1

    @property
    def models(self) -> dict[Any, Any]:
        """The models by label."""
        return {label: track.gpm for label, track in self.tracks.items()}

    @property
    def data(self) -> Data:
        """What the models hold."""
        return next(iter(self.tracks.values())).gpm.data

    def set_data(self, data: Data) -> None:
        """Replace the data that the models hold, as much of them as differ."""
        for gpm in self.models.values():
            if not gpm.data.equals(data):
                gpm.set_data(*data)

    def anew(self) -> Self:
        """The models without their last fits."""
        return replace(self, tracks={label: track.anew() for label, track in self.tracks.items()})

    @contextmanager
    def holding_first(self, n: int) -> Iterator[None]:
        """Context in which the models hold the first n points only."""
        first = self.data.rows(slice(n))
        with ExitStack() as stack:
            for gpm in self.models.values():
                stack.enter_context(holding(gpm, first))
            yield

    def follow(self, seed: int, executor: Executor | None, anew: bool = False, progressbar: bool = False) -> Self:
        """Update the particles of every model, or follow its modes; or fit all anew."""
        after = replace(self, tracks={**self.tracks, **_followed(self.tracks, seed, executor, anew, progressbar)})
        if not self.are_several:
            return after
        with ignoring(DoubtfulFitWarning):
            probability = after.average().probability
        return replace(after, probabilities={**self.probabilities, len(self.data.y): probability})

    def last(self, others: Mapping[Any, Fit] | None = None) -> Fit | ModelAverage | None:
        """The last fit, or the average of the last fits, some replaced by ``others``."""
        if self.are_several:
            return self.average(others)
        return (others or {}).get(ONLY, self.tracks[ONLY].last)

    def average(self, others: Mapping[Any, Fit] | None = None) -> ModelAverage:
        """The average of the last fits, updated by ``others``; warns if the most probable model's is doubtful."""
        # A model that could not be fitted may get a fit with more data.
        last, n = {label: track.last for label, track in self.tracks.items()}, len(self.data.y)
        fits = {label: fit for label, fit in last.items() if fit is not None and len(fit.y) == n} | dict(others or {})
        if len(fits) < 2:
            missing = ", ".join(str(label) for label in self.tracks if label not in fits)
            raise ValueError(f"at least two models must have a fit, but these cannot be fitted: {missing}")
        prior = None
        if self.prior is not None:
            mean = float(np.mean(list(self.prior.values()))) or 1.0
            prior = {label: self.prior.get(label, mean) for label in fits}
        return ModelAverage(fits, prior=prior)

    def with_model(self, gpm: GPModel, label: Any) -> Self:
        """Add a model."""
        first = next(iter(self.models.values()))
        gpm = read_processes(gpm, first.name if isinstance(gpm, pm.Model) else None)
        _check_model(gpm)
        if isinstance(gpm, Process) != isinstance(first, Process):
            raise TypeError("a run has GP models or pm.Models, not both")
        label = default_label(gpm) if label is None else label
        if label in self.tracks:
            raise ValueError(f"a model {label!r} exists already: pass another label")
        check_labels([*self.tracks, label])
        inputs = next(iter(self.models.values())).inputs
        if gpm.inputs != inputs and {*gpm.inputs} == {*inputs}:
            raise ValueError(f"a model must have its inputs in the order of the others, {inputs}; got {gpm.inputs}")
        check_distinct(self.models | {label: gpm})
        track = Track(gpm, self.inference, _stream(label))
        return replace(self, tracks={**self.tracks, label: track})

    def without_model(self, label: Any) -> Self:
        """Remove a model."""
        if label not in self.tracks:
            raise ValueError(f"there is no model {label!r}; the models are {list(self.tracks)}")
        if len(self.tracks) <= 2:
            raise ValueError("a learner of several models needs at least two, so none of these can leave")
        stay = [other for other in self.tracks if other != label]
        if self.prior is not None and not any(self.prior.get(other, 1.0) for other in stay):
            raise ValueError(f"all models but {label!r} have a prior weight of 0, so it cannot leave")
        return replace(self, tracks={other: self.tracks[other] for other in stay})

    def history(self) -> xr.DataArray:
        """Posterior probabilities after each fit, (n_observations, model); NaN where a model was not a member."""
        frame = pd.DataFrame({n: p.to_series() for n, p in self.probabilities.items()}).T
        coords = {"n_observations": frame.index.to_numpy(), "model": frame.columns.to_numpy()}
        return xr.DataArray(frame.to_numpy(), coords, list(coords), name="probability")


def _stream(label: Any) -> int:
    """What distinguishes the random numbers of one of several models."""
    return crc32(str(label).encode())


def _followed(
    tracks: Mapping[Any, Track], seed: int, executor: Executor | None, anew: bool, progressbar: bool
) -> dict[Any, Track]:
    """Tracks of models after a fit, of several in the workers of an executor if wished; warns of those that fail."""
    if len(tracks) == 1 and ONLY in tracks:
        return {ONLY: tracks[ONLY].follow(seed, anew, executor=executor, progressbar=progressbar)}
    elsewhere = {
        label: Call(executor, _followed_elsewhere, track, seed, anew)
        for label, track in tracks.items()
        if executor is not None and isinstance(track.gpm.posterior(), ArrayPosterior)
    }
    fits, failed = {}, {}
    try:
        for label, track in tracks.items():
            try:
                if label in elsewhere:
                    fits[label] = elsewhere[label].result().of(track.gpm)
                else:
                    fits[label] = track.follow(seed, anew, executor=executor, progressbar=progressbar)
            except NoFiniteStartError as error:
                failed[label] = error
            except ValueError as error:
                raise ValueError(f"{label}: {error}") from error
    finally:
        for call in elsewhere.values():
            call.cancel()
    if failed:
        what = f"{', '.join(map(str, failed))}: {next(iter(failed.values()))}"
        warn_user(f"models that cannot be fitted are left out; {what}", RunWarning)
    return fits


def _followed_elsewhere(track: Track, seed: int, anew: bool) -> Track:
    """The same track after its next fit, in another process."""
    with ignoring(DoubtfulFitWarning):
        return track.follow(seed, anew=anew)


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
    named = spanned(named)
    first_label, first = next(iter(named.items()))
    for label, gpm in named.items():
        _check_model(gpm)
        if _are_real(gpm) != _are_real(first):
            raise ValueError(f"{first_label!r} and {label!r}: one has outcomes that are real numbers, the other counts")
        if not gpm.data.equals(first.data):
            raise ValueError(f"models must hold the same data, but {first_label!r} and {label!r} differ: use set_data")
        if isinstance(gpm, Process) and gpm.improper:
            raise ValueError(f"{label!r} has no evidence: the prior of {', '.join(gpm.improper)} cannot be drawn from")
    check_distinct(named)
    return named


def spanned(models: dict[Any, Any]) -> dict[Any, Any]:
    """Models that are no GPs with the inputs of all of them: one may leave out what another depends on."""
    are_alike = len({tuple(getattr(model, "inputs", ())) for model in models.values()}) < 2
    if are_alike or not all(isinstance(model, Process) for model in models.values()):
        return models
    columns: dict[Any, np.ndarray] = {}
    for label, model in models.items():
        for name, column in zip(model.inputs, model.first_rows.T, strict=True):
            if not np.array_equal(columns.setdefault(name, column), column):
                raise ValueError(f"models must hold the same data, but {name} of {label!r} differs")
    if len({len(model.first_rows) for model in models.values()}) > 1 or not columns:
        return models
    X = np.stack(list(columns.values()), axis=1)
    return {label: model.spanning(list(columns), X) for label, model in models.items()}


def _are_real(model: Any) -> bool:
    likelihood = getattr(model, "likelihood", None)
    return likelihood is None or likelihood.is_real


def default_label(gpm: GPModel) -> str:
    """A model's kernel expression, or its description."""
    return gpm.description if gpm.expression is None else str(gpm.expression)


def _free_label(label: str, taken: Mapping[Any, GPModel]) -> str:
    """The label, numbered if it is taken: models with equal descriptions may differ in priors and scales."""
    free, number = label, 2
    while free in taken:
        free, number = f"{label} ({number})", number + 1
    return free


def has_processes(models: Any) -> bool:
    """Whether models are no GPs."""
    several = models.values() if isinstance(models, Mapping) else models if isinstance(models, list) else [models]
    return any(isinstance(one, Process) for one in several)


def read_processes(models: Any, observed: str | None) -> Any:
    """The same with a :class:`Process`, which has its own data, in place of each ``pm.Model``."""

    def read(one: Any) -> Any:
        if isinstance(one, pm.Model):
            return Process(one, observed)
        return deepcopy(one) if isinstance(one, Model) else one

    if isinstance(models, Mapping):
        if len({id(one) for one in models.values()}) < len(models):
            raise ValueError("a model occurs twice, and would count twice: drop one")
        processes: Any = {label: read(one) for label, one in models.items()}
    elif isinstance(models, list | tuple):
        processes = [read(one) for one in models]
        if has_processes(processes):
            raise TypeError("several pm.Models need labels: pass a dict, such as {'linear': model, 'other': other}")
    else:
        processes = read(models)
    if not has_processes(processes) and observed is not None:
        raise ValueError("observed= names the outcome of a pm.Model; a GPModel has one")
    return processes


def _check_model(gpm: Any) -> None:
    if not isinstance(gpm, Model):
        raise TypeError(f"models must be GPModel or pm.Model objects; got {kind_of(gpm)}")
    gpm.check_replaceable()


def read_subject(gpm: Any, learn: str, prior: Prior, inference: str) -> FollowedModels:
    """The models that a learner follows, checked against its goal."""
    if isinstance(gpm, Model):
        _check_model(gpm)
        if learn == "model":
            raise ValueError("learn='model' compares models: pass at least two, in a list or a dict")
        if prior is not None:
            raise ValueError("prior is for several models")
        if learn in ("parameters", "hyperparameters") and not gpm.shapes:
            raise ValueError(f"every parameter of this model is fixed, so learn={learn!r} has nothing to learn")
        return FollowedModels.of({ONLY: gpm}, inference)
    if not isinstance(gpm, Sequence | Mapping) or isinstance(gpm, str):
        expected = "a pm.Model, a GPModel, a dict of them, a list of GPModels, a function that makes them, or None"
        raise TypeError(f"Learner takes {expected}; got {kind_of(gpm)}")
    if learn in ("parameters", "hyperparameters"):
        raise ValueError(f"learn={learn!r} takes a single model: pass one, or use learn='model'")
    models = read_models(gpm)
    if learn != "model":
        check_units(models.values())
    prior_weights(prior, list(models))  # raises before anything long runs
    return FollowedModels.of(models, inference, prior=prior)
