"""The file of a run: a learner, with the names and options that the command line needs beside it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from pymc_active.active.candidates import Box, Choice, Pool
from pymc_active.active.files import Contents, read, write
from pymc_active.active.learner import Learner
from pymc_active.active.saved_learner import FORMAT_VERSION, KIND, from_contents, to_contents
from pymc_active.command_line.settings import Settings

# Where in the document of the learner's file the command line has its own.
_KEY = "command_line"
# An answer within this part of every side of the box belongs to a suggestion: people round.
_NEAR = 0.01


class Run(NamedTuple):
    """A learner, its settings, and the ids of its observations in their order, if they have any."""

    learner: Learner
    settings: Settings
    ids: list[str] | None


def save_run(path: str | os.PathLike, run: Run) -> None:
    """Write a file that :meth:`Learner.load` reads as well; see :meth:`Learner.save`."""
    groups, document = to_contents(run.learner)
    mine = {"settings": run.settings.to_json(), "ids": run.ids}
    write(path, Contents(groups, {**document, _KEY: mine}), KIND, FORMAT_VERSION)


def load_run(path: str | os.PathLike) -> Run:
    """The run of a file.

    Raises
    ------
    ValueError
        For a file that the command line did not write, or one that is damaged.
    """
    contents = read(path, KIND, FORMAT_VERSION)
    if _KEY not in contents.document:
        raise ValueError(
            f"{Path(path).name} was written from Python, without the names of columns that the command line needs: go "
            "on with it there, or give another --state"
        )
    mine: Any = contents.document[_KEY]
    try:
        settings, ids = Settings.from_json(mine["settings"]), mine["ids"]
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} is damaged: {error}") from None
    learner = from_contents(Learner, contents, None, None, None)
    if ids is not None and len(ids) != len(learner.y):
        raise ValueError(f"{path} is damaged: it has {len(ids)} ids for {len(learner.y)} observations")
    return Run(learner, settings, ids)


def open_choices(learner: Learner) -> list[Choice]:
    """What was asked and not answered."""
    return list(learner._pending)


def name_of(learner: Learner, choice: Choice) -> str:
    """The label of a choice in its pool; of a point of a box, its coordinates."""
    if isinstance(learner._candidates, Pool):
        return str(learner._candidates.labels[choice.row])
    return "(" + ", ".join(f"{value:g}" for value in as_set(learner, choice)) + ")"


def as_set(learner: Learner, choice: Choice) -> np.ndarray:
    """A choice as somebody would set it: in a box with fewer digits."""
    box = learner._candidates
    if not isinstance(box, Box):
        return choice.x
    return settable(choice.x[None], list(zip(box.low, box.high, strict=True)))[0]


def settable(X: np.ndarray, bounds: Sequence[tuple[float, float]]) -> np.ndarray:
    """Points of a box (m, D), rounded to between 1/200 and 1/2000 of each side."""
    low, high = np.array(bounds, float).T
    digits = -np.floor(np.log10((high - low) / 200)).astype(int)
    rounded = [np.round(column, int(n)) for column, n in zip(X.T, digits, strict=True)]
    return np.clip(np.stack(rounded, axis=-1), low, high)


def n_left(learner: Learner) -> float:
    """How many candidates can still be asked for."""
    return len(learner._candidates.left(learner._pending)) if isinstance(learner._candidates, Pool) else np.inf


def pool_of(learner: Learner) -> pd.DataFrame | None:
    """The candidates with their labels, if they are no box."""
    return learner._candidates.table if isinstance(learner._candidates, Pool) else None


def tell(learner: Learner, X: np.ndarray, y: np.ndarray) -> None:
    """Add answers, asked for or not; in a box an answer near a suggestion settles it, though it was rounded."""
    if isinstance(learner._candidates, Box):
        for x in X:
            away = [_distance(learner._candidates, choice.x, x) for choice in learner._pending]
            if away and min(away) <= _NEAR:
                nearest = int(np.argmin(away))
                learner._pending[nearest] = learner._pending[nearest]._replace(x=x)
    learner.tell(X, y)


def forget(learner: Learner) -> None:
    """Give up what was asked and not answered; rows of a pool may be asked for again."""
    if isinstance(learner._candidates, Pool):
        learner._candidates.offered[[choice.row for choice in learner._pending]] = False
    learner._pending.clear()


def keep_open(learner: Learner, choices: list[Choice]) -> None:
    """Take over what an earlier learner had asked, but for what was answered meanwhile or is no candidate any more."""
    candidates = learner._candidates
    for choice in choices:
        if isinstance(candidates, Box):
            if min(_distance(candidates, choice.x, x) for x in learner.X) > _NEAR:
                learner._pending.append(choice)
        elif not (learner.X == choice.x).all(1).any():
            row = candidates.mark(choice.x)
            if row >= 0:
                learner._pending.append(choice._replace(row=row))


def _distance(box: Box, a: np.ndarray, b: np.ndarray) -> float:
    """As a part of the sides of the box."""
    return float(np.abs((a - b) / (box.high - box.low)).max())
