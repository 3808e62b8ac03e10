"""A search for relevant inputs as the contents of a file, and the one that goes on from there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from pymc_active.support.files import Contents

if TYPE_CHECKING:
    from pymc_active.relevant_inputs.learner import HDSLearner

KIND = "pymc_active.active.HDSLearner"
FORMAT_VERSION = 1
_LISTS = ("told", "queue", "asked", "open")
_LINES = ("position", "is_reversed")


def to_contents(learner: HDSLearner) -> Contents:
    """Everything that a search needs to go on.

    ``observed_data`` and ``design`` are what was told, in order; ``evaluations`` everything planned, with its place;
    ``lines`` the backgrounds; ``foreign`` data that nobody asked for; ``measured`` where it was not where it was asked;
    ``box`` bounds that differ between inputs.
    """
    state, history = learner.state_dict(), learner.result().history
    design = {name: ("obs", getattr(history, name)) for name in ("node", "trial", "background", "z", "rest")}
    groups = {
        "observed_data": xr.Dataset({"y": ("obs", history.y)}),
        "design": xr.Dataset(design),
        "evaluations": xr.Dataset({name: ("evaluation", column) for name, column in state.pop("evaluations").items()}),
        "foreign": xr.Dataset({"X": (("obs", "input"), state.pop("foreign_X")), "y": ("obs", state.pop("foreign_y"))}),
        "measured": xr.Dataset(
            {"X": (("obs", "input"), state.pop("measured_X")), "row": ("obs", state.pop("measured_rows"))}
        ),
        "lines": xr.Dataset(),
    }
    for name in _LINES:
        rows = [background.pop(name) for background in state["backgrounds"]]
        if rows and rows[0] is not None:
            groups["lines"][name] = (("line", "input"), np.array(rows).astype(float))
    ends = {name: state["settings"].pop(name) for name in ("low", "high")}
    if isinstance(ends["low"], np.ndarray):
        groups["box"] = xr.Dataset({name: ("input", end) for name, end in ends.items()})
    else:
        state["settings"] |= ends
    return Contents(groups, state)


def to_state(contents: Contents) -> dict[str, Any]:
    """What :meth:`HDSLearner.from_state_dict` takes.

    Raises
    ------
    ValueError
        For contents that do not fit together.
    """
    try:
        return _to_state(contents)
    except (KeyError, TypeError, IndexError, AttributeError, RecursionError) as error:
        raise ValueError(f"the file is damaged: {error!r}") from error


def _to_state(contents: Contents) -> dict[str, Any]:
    groups, state = contents.groups, dict(contents.document)
    D = state["settings"]["n_dims"]
    state["evaluations"] = {name: array.to_numpy() for name, array in groups["evaluations"].data_vars.items()}
    state["foreign_X"], state["foreign_y"] = (groups["foreign"][name].to_numpy() for name in ("X", "y"))
    if "measured" in groups:
        state["measured_X"], state["measured_rows"] = (groups["measured"][name].to_numpy() for name in ("X", "row"))
    for number, background in enumerate(state["backgrounds"]):
        for name in _LINES:
            line = groups["lines"][name].to_numpy()[number] if name in groups["lines"] else None
            if line is not None and len(line) != D:
                raise ValueError(f"the file is damaged: a line of {len(line)} inputs in a search of {D}")
            background[name] = line.astype(bool) if line is not None and name == "is_reversed" else line
    if "box" in groups:
        state["settings"] |= {name: groups["box"][name].to_numpy() for name in ("low", "high")}
    limits = {
        **dict.fromkeys(_LISTS[:3], len(state["evaluations"]["z"])),
        **{"open": len(state["trials"]), "node": len(state["nodes"]), "trial": len(state["trials"])},
        **{"background": len(state["backgrounds"]), "partner": len(state["evaluations"]["z"])},
    }
    for name, limit in limits.items():
        numbers = np.asarray(state[name] if name in _LISTS else state["evaluations"][name], int)
        if len(numbers) and not (numbers.min() >= -1 and numbers.max() < limit):
            raise ValueError(f"the file is damaged: {name} has numbers that are not from -1 to {limit - 1}")
    return state
