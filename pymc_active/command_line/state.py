"""The file of a run: a learner, with the names and options that the command line needs in its notes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from pymc_active.command_line.records import LINE
from pymc_active.command_line.settings import Settings
from pymc_active.learner.learner import Learner

# Which of the learner's notes are the command line's own.
_KEY = "command_line"
# An answer within this part of every side of the box belongs to a suggestion: people round.
_NEAR = 0.01


class Run(NamedTuple):
    """A learner, its settings, and the ids of its observations in their order, if they have any.

    An observation that was told from Python has the id of the candidate that it was, or None.
    """

    learner: Learner
    settings: Settings
    ids: Sequence[str | None] | None


class Open(NamedTuple):
    """What was asked and not answered: how it is called, where it is, and the criterion there."""

    name: str
    x: np.ndarray
    score: float


def save_run(path: str | os.PathLike, run: Run) -> None:
    """Write a file that :meth:`Learner.load` reads as well; see :meth:`Learner.save`."""
    run.learner.notes[_KEY] = {
        "settings": run.settings.to_json(),
        "ids": None if run.ids is None else list(run.ids),
    }
    run.learner.save(path)


def load_run(path: str | os.PathLike) -> Run:
    """The run of a file, which may have gone on in Python meanwhile.

    Raises
    ------
    ValueError
        For a file that the command line did not write, or one that is damaged.
    """
    name = Path(path).name
    try:
        learner = Learner.load(path)
        if _KEY not in learner.notes:
            raise ValueError(
                f"{name} was written from Python, without the names of columns that the command line needs: go on with "
                "it there, or give another --state"
            )
        return _read_notes(learner, learner.notes[_KEY], name)
    except TypeError as error:
        # What a document that nobody wrote leads to.
        raise ValueError(f"{name} is damaged: {error}") from error


def _read_notes(learner: Learner, mine: Any, name: str) -> Run:
    if not isinstance(mine, dict) or set(mine) != {"settings", "ids"}:
        raise ValueError(f"{name} is damaged: its notes of the command line are not settings and ids")
    try:
        settings = Settings.from_json(mine["settings"])
    except ValueError as error:
        raise ValueError(f"{name} is damaged: {error}") from None
    width = learner.X.shape[1]
    if settings.inputs is None or len(settings.inputs) != width:
        raise ValueError(f"{name} is damaged: its settings do not name the {width} input(s) of its learner")
    names = None if learner.domain.is_pool else settings.inputs
    if (None if settings.bounds is None else [label for label, _, _ in settings.bounds]) != names:
        raise ValueError(f"{name} is damaged: its settings and its learner differ about a box")
    if mine["ids"] is None:
        return Run(learner, settings, None)
    if not isinstance(mine["ids"], list) or not all(one is None or isinstance(one, str) for one in mine["ids"]):
        raise ValueError(f"{name} is damaged: its ids are no list of text")
    ids = list(mine["ids"])
    n, n_start = len(learner.y), learner.design().attrs["n_start"]
    if not n_start <= len(ids) <= n:
        raise ValueError(f"{name} is damaged: it has {len(ids)} ids for {n} observations")
    for label in learner.design()["label"].to_numpy()[len(ids) - n_start :]:
        # Told in Python, where the labels of the pool are the ids; a second result of a row has another one.
        ids.append(str(label) if label and label not in ids else None)
    return Run(learner, settings, ids)


def open_choices(learner: Learner) -> list[Open]:
    """What was asked and not answered."""
    design = learner.design(pending=True).isel(step=slice(len(learner.y) - learner.design().attrs["n_start"], None))
    columns = (design[name].to_numpy() for name in ("label", "x", "score"))
    return [
        Open(str(label) or name_of_point(as_set(learner, x)), x, float(score))
        for label, x, score in zip(*columns, strict=True)
    ]


def name_of_point(x: np.ndarray) -> str:
    """Coordinates, for a point without a label."""
    return "(" + ", ".join(f"{value:g}" for value in x) + ")"


def as_set(learner: Learner, x: np.ndarray) -> np.ndarray:
    """A point as somebody would set it: in a box with fewer digits."""
    domain = learner.domain
    return x if domain.is_pool else settable(x[None], list(zip(domain.low, domain.high, strict=True)))[0]


def settable(X: np.ndarray, bounds: Sequence[tuple[float, float]]) -> np.ndarray:
    """Points of a box (m, D), rounded to between 1/200 and 1/2000 of each side."""
    low, high = np.array(bounds, float).T
    digits = -np.floor(np.log10((high - low) / 200)).astype(int)
    rounded = [np.round(column, int(n)) for column, n in zip(X.T, digits, strict=True)]
    return np.clip(np.stack(rounded, axis=-1), low, high)


def pool_of(run: Run) -> pd.DataFrame | None:
    """The candidates with their labels, if they are no box."""
    domain, settings = run.learner.domain, run.settings
    if not domain.is_pool:
        return None
    # Not pandas' type for text, which files of runs do not know.
    kind = None if settings.id is None else object
    index = pd.Index(domain.labels, dtype=kind, name=LINE if settings.id is None else settings.id)
    return pd.DataFrame(domain.pool, columns=settings.inputs, index=index)


def tell(learner: Learner, X: np.ndarray, y: np.ndarray) -> None:
    """Add answers, asked for or not; in a box an answer near a suggestion settles it, though it was rounded."""
    if learner.domain.is_pool:
        learner.tell(X, y)
        return
    for x, value in zip(X, y, strict=True):
        away = _distances(learner, learner.pending, x)
        is_near = len(away) > 0 and away.min() <= _NEAR
        learner.tell(x, value, asked=learner.pending[np.argmin(away)] if is_near else None)


def keep_open(learner: Learner, choices: Sequence[Open]) -> None:
    """Take over what an earlier learner had asked, but for what was answered meanwhile or is no candidate any more."""
    pool = learner.domain.pool
    for choice in choices:
        if pool is None:
            is_open = _distances(learner, learner.X, choice.x).min() > _NEAR
        else:
            is_open = (pool == choice.x).all(1).any() and not (learner.X == choice.x).all(1).any()
        if is_open:
            learner.expect(choice.x)


def _distances(learner: Learner, X: np.ndarray, x: np.ndarray) -> np.ndarray:
    """From points of a box (m, D) to another, as parts of its sides."""
    return np.abs((X - x) / (learner.domain.high - learner.domain.low)).max(1)
