"""The file of a run: a learner, with the names and options of the command line in its notes."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from pymc_active.command_line.options import Settings
from pymc_active.command_line.records import labelled
from pymc_active.learner.learner import Learner
from pymc_active.support.locks import locked
from pymc_active.support.numbers import coordinate

# Which of the learner's notes are the command line's own.
_KEY = "command_line"
# An answer within this part of every side of the box belongs to a suggestion, because people round.
_NEAR = 0.01


class Run(NamedTuple):
    """A learner, its settings, and the ids of its observations, if they have any (None: told in Python, elsewhere)."""

    learner: Learner
    settings: Settings
    ids: Sequence[str | None] | None


class Suggestion(NamedTuple):
    """A point to measure: its name, the criterion there, and mean and sd of the measurement that is expected."""

    name: str
    x: np.ndarray
    score: float = np.nan
    mean: float = np.nan
    sd: float = np.nan


def turn(path: str | None, on_waiting: Callable[[], None]) -> AbstractContextManager[None]:
    """Wait until no other command works on this file, from reading it to its last suggestion, and keep others out."""
    if path is None:
        return nullcontext()
    place = Path(path).resolve()
    return locked(place.with_name(f".{place.name}.suggest.lock"), on_waiting)


def save_run(path: str | os.PathLike, run: Run) -> None:
    """Write a file that :meth:`Learner.load` reads as well; see :meth:`Learner.save`."""
    ids = None if run.ids is None else list(run.ids)
    run.learner.notes[_KEY] = {"settings": asdict(run.settings), "ids": ids}
    run.learner.save(path)


def load_run(path: str | os.PathLike) -> Run:
    """The run of a file, which may have gone on in Python; raises a ValueError for a foreign or damaged file."""
    name = Path(path).name
    try:
        learner = Learner.load(path)
    except TypeError as error:
        # A tampered document can lead to any.
        raise ValueError(f"{name} is damaged: {error}") from error
    if _KEY not in learner.notes:
        raise ValueError(
            f"{name} holds a run that was begun in Python: go on there with pma.Learner.load, or name another file"
        )
    try:
        return _read_notes(learner, learner.notes[_KEY])
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{name} is damaged: {error}") from None


def _read_notes(learner: Learner, notes: Any) -> Run:
    match notes:
        case {"settings": dict(remembered), "ids": None | [*_] as ids}:
            settings = Settings.from_notes(remembered)
        case _:
            raise ValueError("its notes of the command line are not settings and ids")
    if len(settings.inputs or ()) != learner.X.shape[1]:
        raise ValueError(f"its settings do not name the {learner.X.shape[1]} input(s) of its learner")
    if [name for name, _, _ in settings.bounds or ()] != ([] if learner.domain.is_pool else settings.inputs):
        raise ValueError("its settings and its learner differ about a box")
    if ids is None:
        return Run(learner, settings, None)
    if not all(one is None or isinstance(one, str) for one in ids):
        raise ValueError("its ids are not a list of text")
    design = learner.design()
    n_start = design.attrs["n_start"]
    if not n_start <= len(ids) <= len(learner.y):
        raise ValueError(f"it has {len(ids)} ids for {len(learner.y)} observations")
    for label in design["label"].to_numpy()[len(ids) - n_start :].tolist():
        # Told in Python, where the labels of the pool are the ids; a second result of a row has another one.
        ids = [*ids, label if label and label not in ids else None]
    return Run(learner, settings, ids)


def open_suggestions(learner: Learner) -> list[Suggestion]:
    """What was suggested and has no result."""
    design = learner.design(pending=True)
    rows = zip(*(design[name].to_numpy() for name in ("label", "x", "score")), strict=True)
    found = [Suggestion(str(label) or name_of_point(as_set(learner, x)), x, float(score)) for label, x, score in rows]
    return found[len(learner.y) - design.attrs["n_start"] :]


def name_of_point(x: np.ndarray) -> str:
    """Coordinates, for a point without a label."""
    return f"({', '.join(map(coordinate, x))})"


def as_set(learner: Learner, x: np.ndarray) -> np.ndarray:
    """A point as an operator would set it: in a box with fewer digits."""
    domain = learner.domain
    return x if domain.is_pool else settable(x[None], list(zip(domain.low, domain.high, strict=True)))[0]


def settable(X: np.ndarray, bounds: Sequence[tuple[float, float]]) -> np.ndarray:
    """Points of a box (m, D), rounded to between 1/200 and 1/2000 of each side."""
    low, high = np.array(bounds, float).T
    digits = -np.floor(np.log10((high - low) / 200)).astype(int)
    rounded = [np.round(column, int(n)) for column, n in zip(X.T, digits, strict=True)]
    return np.clip(np.stack(rounded, axis=-1), low, high)


def pool_of(run: Run) -> pd.DataFrame | None:
    """The candidates with their labels; None for a box."""
    domain, settings = run.learner.domain, run.settings
    if domain.pool is None:
        return None
    return labelled(domain.pool, settings.inputs or [], domain.labels, settings.id)


def tell(learner: Learner, X: np.ndarray, y: np.ndarray) -> list[str]:
    """Add results; in a box a result near a suggestion settles it. In words, which of them have other settings."""
    others: list[str] = []
    if learner.domain.is_pool:
        learner.tell(X, y, failed=np.isnan(y))
        return others
    for x, value in zip(X, y, strict=True):
        away, asked = _distances(learner, learner.pending, x), None
        if len(away) and away.min() <= _NEAR:
            asked = learner.pending[np.argmin(away)]
            if not np.allclose(suggested := as_set(learner, asked), x):
                others.append(f"{name_of_point(x)} for {name_of_point(suggested)}")
        learner.tell(x, value, asked=asked)
    return others


def keep_open(learner: Learner, suggestions: Sequence[Suggestion]) -> None:
    """Take over an earlier learner's open suggestions, except those measured meanwhile or no longer candidates."""
    pool = learner.domain.pool
    for one in suggestions:
        if pool is None:
            is_open = _distances(learner, learner.X, one.x).min() > _NEAR
        else:
            is_open = (pool == one.x).all(1).any() and not (learner.X == one.x).all(1).any()
        if is_open:
            learner.expect(one.x)


def _distances(learner: Learner, X: np.ndarray, x: np.ndarray) -> np.ndarray:
    """From points of a box (m, D) to another, as parts of its sides."""
    return np.abs((X - x) / (learner.domain.high - learner.domain.low)).max(1)
