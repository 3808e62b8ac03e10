"""The state of a search as the contents of a file, and back."""

from __future__ import annotations

import os
from dataclasses import asdict, fields
from typing import Any

import numpy as np
import xarray as xr

from pymc_active.relevant_inputs.settings import Settings
from pymc_active.relevant_inputs.state import Background, Check, Evaluation, HDSState, Node, Trial
from pymc_active.support.files import Contents, read, read_generator, write, write_generator

KIND = "pymc_active.active.HDSLearner"
FORMAT_VERSION = 2
_LISTS = ("told", "asked", "queue", "open")
_LINES = ("position", "is_reversed")
_DESIGN = ("node", "trial", "background", "z", "rest")
_COLUMNS = tuple(field.name for field in fields(Evaluation))


def save(path: str | os.PathLike, state: HDSState) -> None:
    """Write a state, unless the file has one that this does not go on from: a FileExistsError."""
    state.revisions.add(write(path, to_contents(state), KIND, FORMAT_VERSION, state.revisions))


def load(path: str | os.PathLike) -> HDSState:
    """Read a state; a file of something else, of a newer version, or one that is damaged, is a ValueError."""
    contents = read(path, KIND, FORMAT_VERSION)
    try:
        return to_state(contents)
    except (KeyError, TypeError, IndexError, AttributeError, RecursionError) as error:
        message = f"{path} is damaged, or was written before the first release of pymc_active: {error!r}"
        raise ValueError(message) from error


def to_contents(state: HDSState) -> Contents:
    """Everything that a search needs to go on.

    ``observed_data`` and ``design`` are what was told; ``evaluations`` what was planned; ``lines`` the backgrounds;
    ``foreign`` data not asked for; ``measured`` points measured elsewhere than asked; ``box`` bounds of each input.
    """
    columns = {name: np.array([getattr(at, name) for at in state.evaluations]) for name in _COLUMNS}
    told = np.array(state.told, int)
    measured_rows, measured_X = list(state.measured), list(state.measured.values())
    groups = {
        "observed_data": xr.Dataset({"y": ("obs", columns["y"][told])}),
        "design": xr.Dataset({name: ("obs", columns[name][told]) for name in _DESIGN}),
        "evaluations": xr.Dataset({name: ("evaluation", column) for name, column in columns.items()}),
        "foreign": xr.Dataset({"X": _points(state.foreign_X, state), "y": ("obs", np.array(state.foreign_y, float))}),
        "measured": xr.Dataset({"X": _points(measured_X, state), "row": ("obs", np.array(measured_rows, int))}),
        "lines": xr.Dataset(),
    }
    backgrounds = [asdict(background) for background in state.backgrounds]
    for name in _LINES:
        lines = [background.pop(name) for background in backgrounds]
        if lines and lines[0] is not None:
            groups["lines"][name] = (("line", "input"), np.array(lines).astype(float))
    settings = dict(vars(state.settings))
    if isinstance(settings["low"], np.ndarray):
        groups["box"] = xr.Dataset({name: ("input", settings.pop(name)) for name in ("low", "high")})
    document = {
        "settings": settings,
        "generator": write_generator(state.rng),
        "nodes": [asdict(node) for node in state.nodes],
        "trials": [asdict(trial) for trial in state.trials],
        "backgrounds": backgrounds,
        "n_failures": state.n_failures,
        "check": None if state.check is None else asdict(state.check),
        **{name: getattr(state, name) for name in _LISTS},
    }
    return Contents(groups, document)


def _points(X: list[np.ndarray], state: HDSState) -> tuple[tuple[str, str], np.ndarray]:
    return ("obs", "input"), np.array(X, float).reshape(-1, state.settings.n_dims)


def to_state(contents: Contents) -> HDSState:
    """The state that :func:`to_contents` wrote."""
    groups, document = contents.groups, contents.document
    settings = dict(document["settings"])
    if "box" in groups:
        settings |= {name: groups["box"][name].to_numpy() for name in ("low", "high")}
    D, measured = settings["n_dims"], groups["measured"]
    evaluations = {name: groups["evaluations"][name].to_numpy() for name in _COLUMNS}
    state = HDSState(
        Settings(**settings),
        read_generator(document["generator"]),
        nodes=[Node(**node) for node in document["nodes"]],
        trials=[Trial(**trial) for trial in document["trials"]],
        backgrounds=[
            Background(**background, **_lines(groups["lines"], number, D))
            for number, background in enumerate(document["backgrounds"])
        ],
        evaluations=[Evaluation(*row) for row in zip(*(c.tolist() for c in evaluations.values()), strict=True)],
        **{name: [int(row) for row in document[name]] for name in _LISTS},
        n_failures=int(document["n_failures"]),
        check=Check(**document["check"]) if document.get("check") else None,
        foreign_X=list(groups["foreign"]["X"].to_numpy()),
        foreign_y=groups["foreign"]["y"].to_numpy().tolist(),
        revisions={contents.revision},
        measured=dict(zip(measured["row"].to_numpy().tolist(), measured["X"].to_numpy(), strict=True)),
    )
    _check_numbers(state, {**evaluations, **{name: document[name] for name in _LISTS}})
    return state


def _lines(lines: xr.Dataset, number: int, n_dims: int) -> dict[str, Any]:
    """The line of a background."""
    found = {name: lines[name].to_numpy()[number] for name in _LINES if name in lines}
    for name, line in found.items():
        if len(line) != n_dims:
            raise ValueError(f"the file is damaged: a line of {len(line)} inputs in a search of {n_dims}")
        found[name] = line.astype(bool) if name == "is_reversed" else line
    return found


def _check_numbers(state: HDSState, numbers: dict[str, Any]) -> None:
    """Refuse numbers that refer to nothing."""
    limits = {"node": len(state.nodes), "background": len(state.backgrounds)}
    limits |= dict.fromkeys(("told", "asked", "queue", "partner"), len(state.evaluations))
    limits |= dict.fromkeys(("open", "trial"), len(state.trials))
    for name, limit in limits.items():
        values = np.asarray(numbers[name], int)
        if len(values) and not (values.min() >= -1 and values.max() < limit):
            raise ValueError(f"the file is damaged: {name} has numbers that are not from -1 to {limit - 1}")
