"""Convert the state of a learner to the contents of a file, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from pymc_active.criteria.base import is_lazy
from pymc_active.criteria.by_name import Named
from pymc_active.criteria.screening import AnyCriterion
from pymc_active.laplace.stored import fit_from_dataset
from pymc_active.learner.candidates import Box, Choice, Pool
from pymc_active.learner.first_design import FirstDesign, MakeModel
from pymc_active.learner.lazy_pool import LazyPool
from pymc_active.learner.models_followed import ONLY, FollowedModels
from pymc_active.learner.state import LearnerState, new_state
from pymc_active.models.builders import rebuild
from pymc_active.models.gpmodel import GPModel
from pymc_active.particles.stored import particles_from_dataset
from pymc_active.support.files import Contents, read_generator, write_generator
from pymc_active.support.labels import read_label, read_table, write_label, write_table
from pymc_active.support.user_warnings import DoubtfulEvidenceWarning, EvaluationWarning, ignoring

KIND = "pymc_active.active.Learner"
FORMAT_VERSION = 6
# Fields of a state that go into the file as they are.
_PLAIN = ("learn", "minimize", "repeat", "random_seed", "n_start", "notes")
# Deepest nesting of a user's notes, to detect a dict that contains itself.
_DEEPEST = 50
# Errors that damaged contents cause, besides a ValueError that says more.
_DAMAGE = (LookupError, AttributeError, StopIteration, OverflowError, RecursionError, NotImplementedError)


def to_contents(state: LearnerState) -> Contents:
    """Everything that a learner needs to continue, in groups that are readable by themselves; nothing is fitted.

    ``design`` holds the points told since the start, ``lazy_pool`` only the rows offered of a dask array, and
    ``particles/0`` or ``modes/0``, ... the last fit of each model, from which the next one follows.
    """
    _check_notes(state.notes)
    subject, questions, n_start = state.subject, state.questions, state.n_start
    candidates, X, y = questions.candidates, subject.X, subject.y
    members, name = subject.models, next((gpm.name for gpm in subject.models.values()), "y")
    # A dimension cannot have the name of the observations, which a user's own model chooses.
    over = "obs" if name != "obs" else "observation"
    inputs = {"input": [str(label) for label in questions.inputs]}
    groups = {
        "observed_data": xr.Dataset({name: (over, y)}),
        "constant_data": xr.Dataset({"X": (("obs", "input"), X)}, inputs),
        "design": questions.design(y[n_start:], False),
        "pending": questions.table(questions.pending, "point"),
        "failures": questions.table(questions.failed, "failure"),
    }
    table = None
    if isinstance(candidates, Pool):
        columns = {"X": (("point", "input"), candidates.X), "offered": ("point", candidates.offered)}
        groups["pool"] = xr.Dataset(columns, inputs)
        if candidates.table is not None:
            table = write_table(candidates.table)
            groups["pool"]["label"] = ("point", [str(label) for label in candidates.table.index])
    elif isinstance(candidates, LazyPool):
        groups["lazy_pool"] = xr.Dataset(
            {
                "offered_row": ("point", np.array(list(candidates.offered), int)),
                "offered_x": (("point", "input"), np.reshape(list(candidates.offered.values()), (-1, X.shape[1]))),
            },
            inputs,
            {"n_rows": len(candidates.pool)},
        )
    elif isinstance(candidates, Box):
        ends = {"low": ("input", candidates.low), "high": ("input", candidates.high)}
        groups["box"] = xr.Dataset(ends, inputs, {"is_named": int(candidates.names is not None)})
    if state.verification.verdicts:
        groups["verification"] = state.verification.dataset(not subject.are_several)
    models = []
    for number, (label, gpm) in enumerate(members.items()):
        assert not isinstance(subject, FirstDesign), "it has no models"
        track = subject.tracks[label]
        if track.last is not None:
            groups[f"{track.last.kind}/{number}"] = track.last.to_dataset()
        memory = {
            "last_search": track.last_search,
            "rows": None if track.rows is None else track.rows.tolist(),
            "n_seen": track.n_seen,
        }
        models.append({"label": write_label(label), "description": gpm.description, **_recipe(gpm), **memory})
    document = {
        **{name: getattr(state, name) for name in _PLAIN},
        "criterion": state.criterion_name,
        "named": None if state.named is None else state.named._asdict(),
        "verify": state.verification.every,
        "generator": write_generator(state.rng),
        "table": table,
        "models": models,
        "is_fitted": state.fit is not None,
        "steps": state.steps,
        "memory": _memory(subject),
    }
    return Contents(groups, document)


def from_contents(
    contents: Contents,
    model: GPModel | Mapping[Any, GPModel] | Sequence[GPModel] | MakeModel | None,
    criterion: str | AnyCriterion | None,
    pool: Any,
) -> LearnerState:
    """The state in a file; arguments and errors as for :meth:`Learner.load`."""
    try:
        return _from_contents(contents, model, criterion, pool)
    except _DAMAGE as error:
        raise ValueError(f"the file is damaged: {error!r}") from error


def _from_contents(contents: Contents, model: Any, criterion: Any, pool: Any) -> LearnerState:
    groups, document, revision = contents
    X = np.array(groups["constant_data"]["X"].to_numpy(), float)
    [outcome] = groups["observed_data"].data_vars.values()
    y = np.array(outcome.to_numpy(), float)
    if criterion is None:
        if document["named"] is None:
            raise ValueError(f"a file cannot hold your own criterion, {document['criterion']!r}: pass it as criterion=")
        criterion = Named(**document["named"])
    memory = document["memory"]
    gpm: Any
    if is_first := "has_function" in memory:
        gpm = _function(memory["has_function"], model)
    else:
        own = _own_models(document["models"], model)
        models = _models(document["models"], own, X, y)
        gpm = models if memory["is_several"] else models[ONLY]
    pool, bounds = _candidates(groups, document["table"], pool)
    # The saved run warned already.
    with ignoring(EvaluationWarning):
        state = new_state(
            gpm,
            document["learn"],
            criterion,
            pool,
            bounds,
            repeat=bool(document["repeat"]),
            minimize=bool(document["minimize"]),
            prior=None,
            explore_every=memory.get("explore_every", 0),
            inference=memory["inference"],
            verify=document["verify"],
            random_seed=int(document["random_seed"]),
            max_points=memory.get("max_points"),
        )
    if is_first:
        state.take(X, y)
        names = groups["constant_data"]["input"].to_numpy().tolist()
        state.take_names([] if names == [str(k) for k in range(len(names))] else names)
    state.rng = read_generator(document["generator"])
    state.steps = [int(n) for n in document["steps"]]
    state.n_start = state.verification.n_start = int(document["n_start"])
    questions = state.questions
    questions.pending, questions.told, questions.failed = (
        _choices(groups[name]) for name in ("pending", "design", "failures")
    )
    if isinstance(questions.candidates, Pool):
        questions.candidates.offered[:] = groups["pool"]["offered"].to_numpy().astype(bool)
    elif isinstance(questions.candidates, LazyPool):
        questions.candidates.offered = _offered(groups["lazy_pool"], questions.candidates)
    _check(state)
    state.notes = document["notes"]
    state.revisions = {revision}
    if not isinstance(state.notes, dict):
        raise ValueError(f"the file is damaged: its notes are {type(state.notes).__name__} instead of a dict")
    if not is_first:
        _remember(state, document, groups, own)
    if "verification" in groups:
        state.verification.remember(groups["verification"], ONLY)
    return state


def _check_notes(value: Any, at: str = "learner.notes", depth: int = 0) -> None:
    """Raise a ValueError that names the first value that a file cannot restore exactly."""
    if depth > _DEEPEST:
        raise ValueError(f"learner.notes are nested more than {_DEEPEST} levels deep, or contain themselves")
    if isinstance(value, dict):
        for key, part in value.items():
            if not isinstance(key, str):
                raise ValueError(f"{at} has the key {key!r}, but keys in a file must be text: use str(key)")
            _check_notes(part, f"{at}[{key!r}]", depth + 1)
    elif at == "learner.notes":
        raise ValueError(f"{at} must be a dict; got {type(value).__name__}")
    elif isinstance(value, list):
        for i, part in enumerate(value):
            _check_notes(part, f"{at}[{i}]", depth + 1)
    elif not (value is None or isinstance(value, str | int) or (isinstance(value, float) and np.isfinite(value))):
        what = repr(value) if isinstance(value, float) else type(value).__name__
        raise ValueError(
            f"{at} is {what}, which a file cannot hold: use dicts, lists, text, finite numbers, True, False and None "
            "(for an array x.tolist())"
        )


def _check(state: LearnerState) -> None:
    """Raise a ValueError if parts of the file contradict each other."""
    questions = state.questions
    n, n_start, n_told = len(state.subject.y), state.n_start, len(questions.told)
    if n_start + n_told != n:
        raise ValueError(f"the file is damaged: {n} observations, but {n_start} at the start and {n_told} told")
    n_rows = len(questions.candidates)
    if not all(-1 <= choice.row < n_rows for choice in (*questions.pending, *questions.told, *questions.failed)):
        raise ValueError(f"the file is damaged: it has asked for rows that are not among the {n_rows} of its pool")


def _function(is_needed: bool, given: Any) -> MakeModel | None:
    """The function that makes the model of a run without one yet."""
    if is_needed and given is None:
        raise ValueError("a file cannot hold the function that makes the model of this run: pass it as model=")
    if given is not None and not (is_needed and callable(given)):
        expected = "its function as model=" if is_needed else "no model"
        raise TypeError(f"this run has no model yet and takes {expected}; got {type(given).__name__}")
    return given


def _own_models(saved: list[dict[str, Any]], given: Any) -> Mapping[Any, Any]:
    """The models that the user passed, by label."""
    labels = [read_label(one["label"]) for one in saved]
    if callable(given):
        if not all(one["recipe"] is not None for one in saved):
            raise TypeError("the function of this run has made its model, which the file cannot hold: pass the model")
        given = None
    if given is None:
        return {}
    if isinstance(given, list | tuple) and len(given) == len(labels):
        given = dict(zip(labels, given, strict=True))
    if not isinstance(given, Mapping):
        if len(labels) > 1:
            known = ", ".join(f"{label!r}: gpm" for label in labels)
            raise TypeError(f"the file has {len(labels)} models: pass your own ones by label, of model={{{known}}}")
        return {labels[0]: given}
    if unknown := [label for label in given if label not in labels]:
        raise ValueError(f"the file has no model {unknown[0]!r}; it has {', '.join(map(repr, labels))}")
    return given


def _models(saved: list[dict[str, Any]], own: Mapping[Any, Any], X: np.ndarray, y: np.ndarray) -> dict[Any, GPModel]:
    """The models by label: the user's own where given, otherwise rebuilt from the file."""
    models = {}
    missing = [read_label(one["label"]) for one in saved if one["recipe"] is None]
    for one in saved:
        label = read_label(one["label"])
        if label in own:
            models[label] = _with_data(own[label], one, X, y)
        elif one["recipe"] is not None:
            try:
                models[label] = rebuild(one["recipe"], X, y)
            except (KeyError, TypeError, ValueError) as error:
                raise ValueError(f"the file's recipe of the model {label!r} cannot be rebuilt: {error}") from error
        else:
            what = "model=gpm" if len(saved) == 1 else f"model={{{', '.join(f'{one!r}: gpm' for one in missing)}}}"
            raise ValueError(
                f"the file cannot hold the model {one['description']!r}, because {one['reason']}: make it as before "
                f"and pass {what}"
            )
    return models


def _check_densities(found: np.ndarray, stored: xr.Dataset, label: Any) -> None:
    """Raise a ValueError if a model's log densities at the hyperparameters in the file, (k,), are not those there."""
    if "log_density" in stored and not np.allclose(found, stored["log_density"], rtol=1e-4, atol=0.01):
        what = "model" if label == ONLY else f"model {label!r}"
        raise ValueError(
            f"the {what} differs from that of the file in its kernel, mean, noise or priors: at saved hyperparameters "
            f"its log density is {found[0]:.6g} in place of {float(stored['log_density'][0]):.6g}. Make it as before"
        )


def _with_data(gpm: Any, saved: dict[str, Any], X: np.ndarray, y: np.ndarray) -> GPModel:
    """The user's model with the data of the file; its parameters must be those of the saved model."""
    if not isinstance(gpm, GPModel):
        raise TypeError(f"model must be a GPModel; got {type(gpm).__name__}")
    shapes = _shapes(gpm)
    if shapes != saved["shapes"]:
        before, now = (", ".join(f"{k} {tuple(v)}" for k, v in part.items()) for part in (saved["shapes"], shapes))
        raise ValueError(f"the saved model has the parameters {before}, but this one has {now}")
    # A constant X can hold the data already, but cannot be set.
    if not (np.array_equal(gpm.X, X) and np.array_equal(gpm.y, y)):
        gpm.set_data(X, y)
    return gpm


def _shapes(gpm: GPModel) -> dict[str, list[int]]:
    return {name: list(shape) for name, shape in gpm.shapes.items()}


def _recipe(gpm: GPModel) -> dict[str, Any]:
    try:
        return {"shapes": _shapes(gpm), "recipe": gpm.recipe(), "reason": None}
    except ValueError as error:
        return {"shapes": _shapes(gpm), "recipe": None, "reason": str(error)}


def _candidates(groups: Mapping[str, xr.Dataset], table: dict[str, Any] | None, given: Any) -> tuple[Any, Any]:
    """Pool and bounds of a learner, one of them None."""
    if "lazy_pool" in groups:
        n_rows, width = int(groups["lazy_pool"].attrs["n_rows"]), groups["constant_data"]["X"].shape[1]
        if given is None or not is_lazy(given) or given.shape != (n_rows, width):
            what = "nothing" if given is None else f"{type(given).__name__} of shape {np.shape(given)}"
            raise ValueError(
                f"the file cannot hold its dask array of candidates, of shape ({n_rows}, {width}): make it as before "
                f"and pass it as pool=; got {what}"
            )
        return given, None
    if given is not None:
        raise ValueError("pool= is for learners of a dask array; this file holds its candidates")
    if "box" in groups:
        box = groups["box"]
        pairs = list(zip(*(box[name].to_numpy().tolist() for name in ("low", "high")), strict=True))
        if box.attrs.get("is_named"):
            return None, dict(zip(box["input"].to_numpy().tolist(), pairs, strict=True))
        return None, pairs
    X = np.array(groups["pool"]["X"].to_numpy(), float)
    return X if table is None else read_table(table, X), None


def _offered(group: xr.Dataset, candidates: LazyPool) -> dict[int, np.ndarray]:
    rows, X = group["offered_row"].to_numpy(), np.array(group["offered_x"].to_numpy(), float)
    if not np.array_equal(candidates.read(rows), X):
        raise ValueError("pool is not the dask array of the saved run: rows that were offered differ")
    return dict(zip(rows.tolist(), X, strict=True))


def _choices(group: xr.Dataset) -> list[Choice]:
    columns = (group[name].to_numpy() for name in ("x", "pool_row", "score"))
    return [Choice(np.array(x, float), int(row), float(score)) for x, row, score in zip(*columns, strict=True)]


def _memory(subject: FirstDesign | FollowedModels) -> dict[str, Any]:
    memory: dict[str, Any] = {"is_several": subject.are_several, "inference": subject.inference}
    if isinstance(subject, FirstDesign):
        return memory | {"has_function": subject.function is not None}
    prior = None if subject.prior is None else [[write_label(k), float(w)] for k, w in subject.prior.items()]
    history = [
        [n, [write_label(label) for label in p.model.to_numpy()], p.to_numpy().tolist()]
        for n, p in subject.probabilities.items()
    ]
    every, explored = subject.explore_every, subject.explored
    following = {"max_points": subject.max_points, "explore_every": every, "explored": explored}
    return memory | following | {"prior": prior, "history": history}


def _remember(
    state: LearnerState, document: dict[str, Any], groups: Mapping[str, xr.Dataset], own: Mapping[Any, Any]
) -> None:
    """Restore the last fits, and that of the run if nothing was told since; those of the user's ``own`` are checked."""
    subject, memory = state.subject, document["memory"]
    assert not isinstance(subject, FirstDesign), "a first design has no fits"
    for number, ((label, track), saved) in enumerate(zip(subject.tracks.items(), document["models"], strict=True)):
        track.last_search, track.n_seen = int(saved["last_search"]), int(saved["n_seen"])
        track.rows = None if saved["rows"] is None else np.array(saved["rows"], int)
        with track.holding_rows():
            if (name := f"particles/{number}") in groups:
                track.last = particles_from_dataset(track.gpm, groups[name], track.renew)
            elif (name := f"modes/{number}") in groups:
                track.last = fit_from_dataset(track.gpm, groups[name])
            if track.last is not None and label in own:
                _check_densities(track.last.log_densities, groups[name], label)
    if subject.are_several:
        prior = memory["prior"]
        subject.prior = None if prior is None else {read_label(label): float(weight) for label, weight in prior}
        subject.explored = int(memory["explored"])
        subject.probabilities = {
            int(n): xr.DataArray(p, dims="model", coords={"model": [read_label(label) for label in labels]})
            for n, labels, p in memory["history"]
        }
    if document["is_fitted"]:
        # The saved run warned already.
        with ignoring(DoubtfulEvidenceWarning):
            state.fit = subject.last()
