"""The state of a search as the contents of a file, and back."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import xarray as xr

from pymc_active.relevant_inputs.settings import Settings
from pymc_active.relevant_inputs.state import Background, Check, Evaluation, HDSState, Trial
from pymc_active.support.files import Contents, read, read_generator, write, write_generator

KIND = "pymc_active.active.HDSLearner"
FORMAT_VERSION = 3
_LISTS = ("told", "asked", "queue")
_LINES = ("position", "is_reversed")
_NODE = ("start", "stop", "status", "was_retested", "without")
_TRIAL = ("verdict", "path", "place", "rest", "priority")
_CHECK = ("seed", "is_finished", "n_pairs", "p_value")


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


def design(evaluations: list[Evaluation]) -> dict[str, np.ndarray]:
    """Numbers of node, trial and background, -1 for none, and the places z and rest, of evaluations."""
    columns = {name: [getattr(at, name) for at in evaluations] for name in ("node", "trial", "background")}
    numbers = {name: np.array([_number(one) for one in column], int) for name, column in columns.items()}
    return numbers | {name: np.array([getattr(at, name) for at in evaluations], float) for name in ("z", "rest")}


def _number(one: Any) -> int:
    return -1 if one is None else one.number


def to_contents(state: HDSState) -> Contents:
    """Everything that a search needs to go on; what refers to each other does so by its place in the lists.

    ``observed_data`` and ``design`` are what was told; ``evaluations`` what was planned; ``lines`` the backgrounds;
    ``foreign`` data not asked for; ``measured`` points measured elsewhere than asked; ``box`` bounds of each input.
    """
    row_of = {id(at): row for row, at in enumerate(state.evaluations)}

    def rows(evaluations: list[Evaluation]) -> list[int]:
        return [row_of[id(at)] for at in evaluations]

    def points(X: list[Any]) -> tuple[tuple[str, str], np.ndarray]:
        return ("obs", "input"), np.array(X, float).reshape(-1, state.settings.n_dims)

    every = design(state.evaluations)
    every["partner"] = np.array([-1 if at.partner is None else row_of[id(at.partner)] for at in state.evaluations], int)
    every["y"] = np.array([at.y for at in state.evaluations], float)
    measured = [at for at in state.evaluations if at.point is not None]
    groups = {
        "observed_data": xr.Dataset({"y": ("obs", np.array([at.y for at in state.told], float))}),
        "design": xr.Dataset({name: ("obs", column) for name, column in design(state.told).items()}),
        "evaluations": xr.Dataset({name: ("evaluation", column) for name, column in every.items()}),
        "foreign": xr.Dataset(
            {"X": points([x for x, _ in state.foreign]), "y": ("obs", np.array([y for _, y in state.foreign], float))}
        ),
        "measured": xr.Dataset(
            {"X": points([at.point for at in measured]), "row": ("obs", np.array(rows(measured), int))}
        ),
        "lines": xr.Dataset(),
    }
    for name in _LINES:
        lines = [getattr(background, name) for background in state.backgrounds]
        if lines and lines[0] is not None:
            groups["lines"][name] = (("line", "input"), np.array(lines).astype(float))
    settings = dict(vars(state.settings))
    if isinstance(settings["low"], np.ndarray):
        groups["box"] = xr.Dataset({name: ("input", settings.pop(name)) for name in ("low", "high")})
    document = {
        "settings": settings,
        "generator": write_generator(state.rng),
        "nodes": [
            {"parent": _number(node.parent)} | {name: getattr(node, name) for name in _NODE} for node in state.nodes
        ],
        "trials": [
            {"node": trial.node.number, "background": trial.background.number, "rows": rows(trial.told)}
            | {name: getattr(trial, name) for name in _TRIAL}
            for trial in state.trials
        ],
        "backgrounds": [{"stage": one.stage, "anchor": one.anchor} for one in state.backgrounds],
        "n_failures": state.n_failures,
        "check": state.check
        and {"node": state.check.node.number} | {name: getattr(state.check, name) for name in _CHECK},
        **{name: rows(getattr(state, name)) for name in _LISTS},
    }
    return Contents(groups, document)


def to_state(contents: Contents) -> HDSState:
    """The state that :func:`to_contents` wrote."""
    groups, document = contents.groups, contents.document
    settings = dict(document["settings"])
    if "box" in groups:
        settings |= {name: groups["box"][name].to_numpy() for name in ("low", "high")}
    state = HDSState(Settings(**settings), read_generator(document["generator"]))
    for told in document["nodes"]:
        node = state.add_node(told["start"], told["stop"], _one(state.nodes, told["parent"]), told["without"])
        node.status, node.was_retested = told["status"], told["was_retested"]
    for number, told in enumerate(document["backgrounds"]):
        lines = {name: groups["lines"][name].to_numpy()[number] for name in _LINES if name in groups["lines"]}
        if any(len(line) != settings["n_dims"] for line in lines.values()):
            raise ValueError("the file is damaged: a background has a line of another number of inputs")
        if "is_reversed" in lines:
            lines["is_reversed"] = lines["is_reversed"].astype(bool)
        state.backgrounds.append(Background(number, **lines, stage=told["stage"], anchor=told["anchor"]))
    for number, told in enumerate(document["trials"]):
        node, background = state.nodes[told["node"]], state.backgrounds[told["background"]]
        state.trials.append(Trial(number, node, background, **{name: told[name] for name in _TRIAL}))
    columns = {name: column.to_numpy().tolist() for name, column in groups["evaluations"].items()}
    for node, trial, background, z, rest, y in zip(
        *(columns[name] for name in ("node", "trial", "background", "z", "rest", "y")), strict=True
    ):
        known = _one(state.trials, trial), _one(state.backgrounds, background)
        state.evaluations.append(Evaluation(state.nodes[node], *known, z, rest, y=y))
    for at, partner in zip(state.evaluations, columns["partner"], strict=True):
        at.partner = _one(state.evaluations, partner)
    for row, point in zip(groups["measured"]["row"].to_numpy(), groups["measured"]["X"].to_numpy(), strict=True):
        state.evaluations[row].point = point
    for trial, told in zip(state.trials, document["trials"], strict=True):
        trial.told = [state.evaluations[row] for row in told["rows"]]
    for name in _LISTS:
        setattr(state, name, [state.evaluations[row] for row in document[name]])
    state.n_failures = int(document["n_failures"])
    state.foreign = list(
        zip(groups["foreign"]["X"].to_numpy(), groups["foreign"]["y"].to_numpy().tolist(), strict=True)
    )
    if check := document.get("check"):
        state.check = Check(state.nodes[check["node"]], **{name: check[name] for name in _CHECK})
    state.revisions = {contents.revision}
    return state


def _one(found: list[Any], number: int) -> Any:
    return None if number < 0 else found[number]
