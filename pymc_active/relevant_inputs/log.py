"""What a search was given and told: all that it takes to be the same search again."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import xarray as xr

from pymc_active.relevant_inputs.settings import Settings
from pymc_active.support.files import Contents, read, write

KIND = "pymc_active.active.HDSLearner"
FORMAT_VERSION = 4


class Told(NamedTuple):
    """A value, NaN if the evaluation failed; the point (D,) measured; and which of those asked it answers, or -1."""

    number: int
    point: np.ndarray
    y: float


@dataclass(eq=False)
class Log:
    """Settings and seed determine all questions, given the answers.

    ``asked`` are points (D,) in the user's units, and ``told`` is in the order in which it came. ``revisions`` are
    those of the files that the search has written or was loaded from, which saving may replace.
    """

    settings: Settings
    seed: int
    asked: list[np.ndarray] = field(default_factory=list)
    told: list[Told] = field(default_factory=list)
    revisions: set[str] = field(default_factory=set)

    @property
    def answers(self) -> list[Told]:
        """What was told of points asked for."""
        return [told for told in self.told if told.number >= 0]

    def save(self, path: str | os.PathLike) -> None:
        """Write everything, unless the file has a search that this does not go on from: a FileExistsError."""
        settings, told = dict(vars(self.settings)), self.told
        asked, measured = (
            (("obs", "input"), np.array(X, float).reshape(len(X), settings["n_dims"]))
            for X in (self.asked, [one.point for one in told])
        )
        groups = {
            "observed_data": xr.Dataset({"y": ("obs", np.array([one.y for one in told], float))}),
            "constant_data": xr.Dataset({"X": measured}),
            "design": xr.Dataset({"number": ("obs", np.array([one.number for one in told], int))}),
            "asked": xr.Dataset({"X": asked}),
        }
        if isinstance(settings["low"], np.ndarray):
            groups["box"] = xr.Dataset({name: ("input", settings.pop(name)) for name in ("low", "high")})
        contents = Contents(groups, {"settings": settings, "seed": self.seed})
        self.revisions.add(write(path, contents, KIND, FORMAT_VERSION, self.revisions))

    @classmethod
    def load(cls, path: str | os.PathLike) -> Log:
        """Read what :meth:`save` wrote; a file of something else, of another version, or damaged, is a ValueError."""
        groups, document, revision = read(path, KIND, FORMAT_VERSION)
        try:
            settings = dict(document["settings"])
            if "box" in groups:
                settings |= {name: groups["box"][name].to_numpy() for name in ("low", "high")}
            columns = groups["design"]["number"], groups["constant_data"]["X"], groups["observed_data"]["y"]
            log = cls(Settings(**settings), document["seed"], list(groups["asked"]["X"].to_numpy()))
            log.told = [Told(int(n), x, float(y)) for n, x, y in zip(*(c.to_numpy() for c in columns), strict=True)]
        except (KeyError, TypeError) as error:
            raise ValueError(f"{path} is damaged: {error!r}") from error
        numbers = {told.number for told in log.answers}
        if len(numbers) < len(log.answers) or not numbers <= set(range(len(log.asked))):
            raise ValueError(f"{path} is damaged: its answers are not each of another point that was asked for")
        log.revisions = {revision}
        return log
