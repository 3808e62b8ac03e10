"""Convert a run to the contents of a file, and back."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any

import cloudpickle
import numpy as np
import pandas as pd
import pymc as pm
import xarray as xr

from pymc_active.criteria.base import is_lazy
from pymc_active.criteria.by_name import Named
from pymc_active.criteria.screening import AnyCriterion
from pymc_active.inference.fit import Fit
from pymc_active.laplace.fitting import fit_from_dataset
from pymc_active.learner.candidates import Box, Choice, Pool, rows_taken
from pymc_active.learner.first_design import FirstDesign, MakeModel
from pymc_active.learner.lazy_pool import LazyPool
from pymc_active.learner.models_followed import ONLY, FollowedModels, spanned
from pymc_active.learner.price import ListedPrice
from pymc_active.learner.run import Run, new_run
from pymc_active.models.builders import rebuild
from pymc_active.models.gpmodel import GPModel
from pymc_active.models.model import Model
from pymc_active.particles.particle_fit import particles_from_dataset
from pymc_active.process.process import Process
from pymc_active.spaces.space import Space, read_space
from pymc_active.spaces.variables import Ordinal
from pymc_active.support.data import Data
from pymc_active.support.files import Contents, read_generator
from pymc_active.support.labels import read_index, read_label, read_table, write_index, write_label, write_table
from pymc_active.support.user_warnings import ActiveWarning, DoubtfulFitWarning, ignoring

KIND = "pymc_active.active.Learner"
FORMAT_VERSION = 9
# Fields of a run that go into the file as they are.
_PLAIN = ("learn", "minimize", "repeat", "random_seed", "steps")
# Errors that damaged contents cause, besides a ValueError that says more.
_DAMAGE = (LookupError, AttributeError, StopIteration, OverflowError, RecursionError, NotImplementedError)


def to_contents(run: Run, notes: dict[str, Any], with_models: bool = False) -> Contents:
    """Everything that a learner needs to continue, in groups that are readable by themselves; nothing is fitted.

    ``start`` and ``design`` hold the points told before and since the start, if there are any, and ``particles/0`` or
    ``modes/0``, ... the last fit of each model, from which the next one follows.
    """
    _check_notes(notes)
    subject, ledger, X, y = run.subject, run.ledger, run.X, run.y
    candidates = ledger.candidates
    members, name = subject.models, next((gpm.name for gpm in subject.models.values()), "y")
    # A dimension cannot have the name of the observations, which a user's own model chooses.
    over = "obs" if name != "obs" else "observation"
    inputs = {"input": [str(label) for label in ledger.inputs]}
    groups = {
        "observed_data": xr.Dataset({name: (over, y)}),
        "constant_data": xr.Dataset({"X": (("obs", "input"), X)}, inputs),
    }
    parts = {
        "start": (ledger.start, "point"),
        "pending": (ledger.pending, "point"),
        "failures": (ledger.failed, "failure"),
    }
    # Groups take time to write and to read, so that there are none for nothing.
    groups |= {what: ledger.table(*part) for what, part in parts.items() if part[0]}
    if ledger.told:
        groups["design"] = ledger.design(y[run.n_start :], False)
    if run.data.y_sd is not None:
        groups["constant_data"]["y_sd"] = ("obs", run.data.y_sd)
    table = None
    if isinstance(candidates, Pool):
        groups["pool"] = xr.Dataset({"X": (("point", "input"), candidates.X.astype(candidates.dtype))}, inputs)
        if candidates.table is not None:
            table = write_table(candidates.table)
            groups["pool"]["label"] = ("point", [str(label) for label in candidates.table.index])
        if isinstance(run.price, ListedPrice):
            groups["pool"]["cost"] = ("point", run.price.prices)
    elif isinstance(candidates, LazyPool):
        # Rows that were asked for tell whether the pool is the same when the run goes on.
        rows = np.array(rows_taken(ledger.tried, ledger.pending), int)
        groups["lazy_pool"] = xr.Dataset(
            {"row": ("point", rows), "X": (("point", "input"), candidates.read(rows))},
            inputs,
            {"n_rows": len(candidates)},
        )
    elif isinstance(candidates, Box):
        ends = {"low": ("input", candidates.low), "high": ("input", candidates.high)}
        groups["box"] = xr.Dataset(ends, inputs, {"is_named": int(candidates.names is not None)})
    if run.verification.verdicts:
        groups["verification"] = run.verification.dataset(not subject.are_several)
    models = []
    for number, (label, gpm) in enumerate(members.items()):
        assert not isinstance(subject, FirstDesign), "it has no models"
        track = subject.tracks[label]
        if track.last is not None:
            groups[f"{track.last.kind}/{number}"] = track.last.to_dataset()
        memory = {"label": write_label(label), "description": gpm.description, "last_search": track.last_search}
        models.append(memory | _recipe(gpm))
    # Those that have no recipe.
    own = {label: gpm for (label, gpm), one in zip(members.items(), models, strict=True) if one["recipe"] is None}
    document = {
        **{name: getattr(run, name) for name in _PLAIN},
        "notes": notes,
        "criterion": run.criterion_name,
        "named": None if run.named is None else run.named._asdict(),
        "verify": run.verification.every,
        "generator": dict(run.generator),
        "table": table,
        "has_cost": run.price is not None and not isinstance(run.price, ListedPrice),
        "space": None if ledger.space is None else ledger.space.to_json(),
        "models": models,
        "is_fitted": run.fit is not None,
        "pickled": b64encode(cloudpickle.dumps(own)).decode() if with_models else None,
        "memory": _memory(subject),
    }
    return Contents(groups, document)


def from_contents(
    contents: Contents,
    model: GPModel | Mapping[Any, GPModel] | Sequence[GPModel] | MakeModel | None,
    criterion: str | AnyCriterion | None,
    pool: Any,
    space: Any = None,
    cost: Any = None,
    allow_pickle: bool = False,
) -> Run:
    """The run in a file; arguments and errors as for :meth:`Learner.load`."""
    if model is None and (pickled := contents.document.get("pickled")):
        if not allow_pickle:
            raise ValueError("a pickle can run any code: pass allow_pickle=True if you trust it, or the model")
        model = cloudpickle.loads(b64decode(pickled)) or None
    try:
        return _from_contents(contents, model, criterion, pool, space, cost)
    except _DAMAGE as error:
        raise ValueError(f"the file is damaged: {error!r}") from error


def _from_contents(contents: Contents, model: Any, criterion: Any, pool: Any, space: Any, cost: Any) -> Run:
    groups, document, _ = contents
    constant = groups["constant_data"]
    X, *y_sd = (np.array(constant[name].to_numpy(), float) for name in ("X", "y_sd") if name in constant)
    [outcome] = groups["observed_data"].data_vars.values()
    y = np.array(outcome.to_numpy(), float)
    data = Data(X, y, *y_sd)
    if criterion is None:
        if document["named"] is None:
            raise ValueError(f"a file cannot hold your own criterion, {document['criterion']!r}: pass it as criterion=")
        criterion = Named(**document["named"])
    memory = document["memory"]
    gpm: Any
    if "has_function" in memory:
        gpm = _function(memory["has_function"], model)
    else:
        saved = {read_label(one["label"]): one for one in document["models"]}
        own = {
            label: Process(one, saved[label].get("outcome")) if isinstance(one, pm.Model) else one
            for label, one in _own_models(saved, model).items()
        }
        own = spanned(own)
        models = _models(saved, own, data)
        gpm = models if memory["is_several"] else models[ONLY]
    space = _space(document.get("space"), space)
    if document.get("has_cost") and cost is None:
        raise ValueError("a file cannot hold the function that says what measurements cost: pass it as cost=")
    if "pool" in groups and "cost" in groups["pool"]:
        cost = groups["pool"]["cost"].to_numpy()
    pool, bounds = _candidates(groups, document["table"], pool, space)
    # The saved run warned already.
    with ignoring(ActiveWarning):
        run = new_run(
            gpm,
            document["learn"],
            criterion,
            pool,
            bounds,
            repeat=bool(document["repeat"]),
            minimize=bool(document["minimize"]),
            prior=None,
            inference=memory["inference"],
            verify=document["verify"],
            random_seed=int(document["random_seed"]),
            space=space,
            cost=cost,
            likelihood=memory.get("likelihood", "normal"),
        )
    start, told, failed, pending = (_choices(groups.get(name)) for name in ("start", "design", "failures", "pending"))
    subject, ledger = run.subject, replace(run.ledger, start=start, told=told, failed=failed, pending=pending)
    if isinstance(subject, FirstDesign):
        names = groups["constant_data"]["input"].to_numpy().tolist()
        if ledger.space is None and names != [str(k) for k in range(len(names))]:
            ledger, subject = replace(ledger, inputs=names), subject.named(names)
    else:
        subject = _remembering(subject, document, groups, own)
    if isinstance(lazy := ledger.candidates, LazyPool):
        offered = groups["lazy_pool"]
        if not np.array_equal(lazy.read(offered["row"].to_numpy()), offered["X"].to_numpy()):
            raise ValueError("pool is not the dask array of the saved run: rows that were offered differ")
    if len(start) + len(told) != len(y):
        raise ValueError(
            f"the file is damaged: {len(y)} observations, but {len(start)} at the start and {len(told)} told"
        )
    if not all(-1 <= choice.row < len(ledger.candidates) for choice in (*ledger.tried, *ledger.pending)):
        raise ValueError("the file is damaged: it has asked for rows that are not in its pool")
    if not isinstance(document["notes"], dict):
        raise ValueError(f"the file is damaged: its notes are {type(document['notes']).__name__} instead of a dict")
    read_generator(document["generator"])
    steps = tuple(map(int, document["steps"]))
    run = replace(run, data=data, subject=subject, ledger=ledger, generator=document["generator"], steps=steps)
    if "verification" in groups:
        run = replace(run, verification=run.verification.remembering(groups["verification"], ONLY))
    if not document["is_fitted"] or isinstance(subject, FirstDesign):
        return run
    # The saved run warned already.
    with ignoring(DoubtfulFitWarning):
        fit = subject.last()
    return replace(run, fit=fit, verified=None if run.verification.is_due(len(y), run.n_start) else fit)


def _check_notes(notes: Any) -> None:
    """Raise a ValueError for notes that a file cannot restore exactly."""
    try:
        is_kept = isinstance(notes, dict) and json.loads(json.dumps(notes, allow_nan=False)) == notes
    except (TypeError, ValueError, RecursionError):
        is_kept = False
    if not is_kept:
        raise ValueError(
            "learner.notes must be a dict of what a file can hold: dicts with text as keys, lists, text, finite "
            f"numbers, True, False and None (for an array x.tolist()); got {notes!r:.200}"
        )


def _function(is_needed: bool, given: Any) -> MakeModel | None:
    """The function that makes the model of a run without one yet."""
    if is_needed and given is None:
        raise ValueError("a file cannot hold the function that makes the model of this run: pass it as model=")
    if given is not None and not (is_needed and callable(given)):
        expected = "its function as model=" if is_needed else "no model"
        raise TypeError(f"this run has no model yet and takes {expected}; got {type(given).__name__}")
    return given


def _own_models(saved: Mapping[Any, dict[str, Any]], given: Any) -> Mapping[Any, Any]:
    """The models that the user passed, by label."""
    labels = list(saved)
    if callable(given):
        if not all(one["recipe"] is not None for one in saved.values()):
            raise TypeError("the function of this run has made its model, which the file cannot hold: pass the model")
        given = None
    if given is None:
        return {}
    if isinstance(given, list | tuple) and len(given) == len(labels):
        given = dict(zip(labels, given, strict=True))
    if not isinstance(given, Mapping):
        if len(labels) > 1:
            expected = ", ".join(f"{label!r}: gpm" for label in labels)
            raise TypeError(f"the file has {len(labels)} models: pass your own ones by label, of model={{{expected}}}")
        return {labels[0]: given}
    if unknown := [label for label in given if label not in labels]:
        raise ValueError(f"the file has no model {unknown[0]!r}; it has {', '.join(map(repr, labels))}")
    return given


def _models(saved: Mapping[Any, dict[str, Any]], own: Mapping[Any, Any], data: Data) -> dict[Any, Any]:
    """The models by label: the user's own where given, otherwise rebuilt from the file."""
    models = {}
    for label, one in saved.items():
        if label in own:
            models[label] = _with_data(own[label], one, data)
        elif one["recipe"] is not None:
            try:
                models[label] = rebuild(one["recipe"], *data)
            except (KeyError, TypeError, ValueError) as error:
                raise ValueError(f"the file's recipe of the model {label!r} cannot be rebuilt: {error}") from error
        else:
            missing = ", ".join(f"{label!r}: gpm" for label, other in saved.items() if other["recipe"] is None)
            raise ValueError(
                f"the file cannot hold the model {one['description']!r}, because {one['reason']}: make it as before "
                f"and pass model={'gpm' if len(saved) == 1 else f'{{{missing}}}'}"
            )
    return models


def _check_densities(densities: np.ndarray, stored: xr.Dataset, label: Any) -> None:
    """Raise a ValueError if a model's log densities at the hyperparameters in the file, (k,), are not those there."""
    if "log_density" in stored and not np.allclose(densities, stored["log_density"], rtol=1e-4, atol=0.01):
        what = "model" if label == ONLY else f"model {label!r}"
        raise ValueError(
            f"the {what} differs from the file's in its kernel, mean, noise or priors: at saved hyperparameters its "
            f"log density is {densities[0]:.6g} in place of {float(stored['log_density'][0]):.6g}. Make it as before"
        )


def _with_data(gpm: Any, saved: dict[str, Any], data: Data) -> Any:
    """The user's model with the data of the file; its parameters must be as in the saved model."""
    if not isinstance(gpm, GPModel | Process):
        raise TypeError(f"model must be a GPModel or a pm.Model; got {type(gpm).__name__}")
    shapes = _shapes(gpm)
    if shapes != saved["shapes"]:
        before, now = (", ".join(f"{k} {tuple(v)}" for k, v in part.items()) for part in (saved["shapes"], shapes))
        raise ValueError(f"the saved model has the parameters {before}, but this one has {now}")
    # A constant X can hold the data already, but cannot be set. The user's own model stays as it is.
    if not gpm.data.equals(data):
        gpm = deepcopy(gpm)
        gpm.set_data(*data)
    return gpm


def _shapes(gpm: Model) -> dict[str, list[int]]:
    return {name: list(shape) for name, shape in gpm.shapes.items()}


def _recipe(gpm: Model) -> dict[str, Any]:
    try:
        recipe, reason = gpm.recipe(), None
    except ValueError as error:
        recipe, reason = None, str(error)
    return {"shapes": _shapes(gpm), "outcome": gpm.name, "recipe": recipe, "reason": reason}


def _candidates(
    groups: Mapping[str, xr.Dataset], table: dict[str, Any] | None, given: Any, space: Space | None
) -> tuple[Any, Any]:
    """Pool and bounds of a learner, one of them None."""
    if "lazy_pool" in groups:
        n_rows, width = int(groups["lazy_pool"].attrs["n_rows"]), groups["constant_data"]["X"].shape[1]
        if given is None or not is_lazy(given) or given.shape != (n_rows, width):
            what = "nothing" if given is None else f"{type(given).__name__} of shape {np.shape(given)}"
            raise ValueError(f"pass the dask array of candidates, of shape ({n_rows}, {width}), as pool=; got {what}")
        return given, None
    if given is not None:
        raise ValueError("pool= is for learners of a dask array; this file holds its candidates")
    if "pool" not in groups and "box" not in groups:
        return None, None
    if "box" in groups:
        box = groups["box"]
        pairs = list(zip(*(box[name].to_numpy().tolist() for name in ("low", "high")), strict=True))
        if box.attrs.get("is_named"):
            return None, dict(zip(box["input"].to_numpy().tolist(), pairs, strict=True))
        return None, pairs
    X = groups["pool"]["X"].to_numpy()
    if table is not None and space is not None and table["columns"] != write_index(pd.Index(space.inputs)):
        frame = space.decode(X).set_axis(read_index(table["index"]))
        kinds: dict[str, Any] = {}
        for variable, kind in zip(space.variables, table["dtypes"], strict=True):
            if not hasattr(variable, "labels"):
                kinds[variable.name] = kind
            elif kind == "category":
                kinds[variable.name] = pd.CategoricalDtype(variable.labels, isinstance(variable, Ordinal))
        return frame.astype(kinds), None
    return X if table is None else read_table(table, X), None


def _space(saved: dict[str, Any] | None, given: Any) -> Space | None:
    """The space of a run, which the user passes if its constraints have functions."""
    if saved is None:
        if given is not None:
            raise ValueError("space= is for runs of a space; this file has none")
        return None
    if given is not None:
        if read_space(given).to_json() != saved:
            raise ValueError("space differs from the file's in its inputs or constraints: make it as before")
        return read_space(given)
    if n := saved["n_functions"]:
        raise ValueError(f"a file cannot hold the {n} function(s) among the constraints: pass the space as space=")
    return Space.from_json(saved)


def _choices(group: xr.Dataset | None) -> tuple[Choice, ...]:
    if group is None:
        return ()
    columns = (group[name].to_numpy() for name in ("x", "pool_row", "score", "asked"))
    return tuple(Choice(np.array(x, float), int(i), float(s), bool(a)) for x, i, s, a in zip(*columns, strict=True))


def _memory(subject: FirstDesign | FollowedModels) -> dict[str, Any]:
    memory: dict[str, Any] = {"is_several": subject.are_several, "inference": subject.inference}
    if isinstance(subject, FirstDesign):
        return memory | {"has_function": subject.function is not None, "likelihood": subject.likelihood_name}
    prior = None if subject.prior is None else [[write_label(k), float(w)] for k, w in subject.prior.items()]
    history = [
        [n, [write_label(label) for label in p.model.to_numpy()], p.to_numpy().tolist()]
        for n, p in subject.probabilities.items()
    ]
    return memory | {"prior": prior, "history": history}


def _remembering(
    subject: FollowedModels, document: dict[str, Any], groups: Mapping[str, xr.Dataset], own: Mapping[Any, Any]
) -> FollowedModels:
    """The models with their last fits; fits of the user's ``own`` models are checked."""
    memory, tracks = document["memory"], {}
    for number, ((label, track), saved) in enumerate(zip(subject.tracks.items(), document["models"], strict=True)):
        last: Fit | None = None
        if (name := f"particles/{number}") in groups:
            last = particles_from_dataset(track.gpm, groups[name], track.renew)
        elif (name := f"modes/{number}") in groups:
            last = fit_from_dataset(track.gpm, groups[name])
        if last is not None and label in own:
            _check_densities(last.log_densities, groups[name], label)
        tracks[label] = replace(track, last=last, last_search=int(saved["last_search"]))
    if not subject.are_several:
        return replace(subject, tracks=tracks)
    prior, probabilities = memory["prior"], {}
    for n, labels, p in memory["history"]:
        coords = {"model": [read_label(label) for label in labels]}
        probabilities[int(n)] = xr.DataArray(p, dims="model", coords=coords)
    return replace(
        subject,
        tracks=tracks,
        prior=None if prior is None else {read_label(label): float(weight) for label, weight in prior},
        probabilities=probabilities,
    )
