"""The options of the command line; nothing heavy is imported here, so that help comes at once.

Options that a run remembers are fields of :class:`Settings`; those of a single call are added in :func:`make_parser`.
"""

from __future__ import annotations

import argparse
import csv
import math
import sys
from argparse import ArgumentTypeError, Namespace
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import Field, dataclass, field, fields, replace
from pathlib import Path
from textwrap import fill
from typing import Any, NoReturn, Self, override

from pymc_active.command_line import help_texts

# Goals of Learner, and what a run with that goal looks for.
GOALS = {
    "function": "{target} as a function of its inputs",
    "hyperparameters": "the hyperparameters of {target}",
    "model": "the model of {target}",
    "maximum": "the {end} of {target}",
}
# With more inputs most lengthscales would stay at their prior, so that an embedding is the default model.
MANY_INPUTS = 15
# Settings that mean the same in any order.
_UNORDERED = ("inputs", "bounds", "models")


def known_criteria() -> list[str]:
    """What ``--criterion`` takes. This loads PyMC, which takes a second."""
    from pymc_active.criteria.by_name import criterion_names

    return sorted([*criterion_names(), "random"])


def _reader(
    expected: str, convert: Callable[[str], Any], is_valid: Callable[[Any], bool] = bool
) -> Callable[[str], Any]:
    """A reader of the text of an option, which says what was expected if it cannot be converted to a valid value."""

    def read(text: str) -> Any:
        with suppress(ValueError):
            value = convert(text)
            if is_valid(value):
                return value
        raise ArgumentTypeError(f"expected {expected}; got {text!r}")

    return read


def _one_of(names: Iterable[str]) -> Callable[[str], str]:
    return _reader(f"one of {', '.join(names)}", str, lambda text: text in list(names))


def _at_least(least: int) -> Callable[[str], int]:
    return _reader(f"a whole number, {least} or more", _whole, lambda number: number >= least)


def _criterion(text: str) -> str:
    return _one_of(known_criteria())(text)


def _whole(text: str) -> int:
    # Python would read 1_000.
    if "_" in text:
        raise ValueError
    return int(text)


def _finite(text: str) -> float:
    if "_" in text or not math.isfinite(value := float(text)):
        raise ValueError
    return value


def _range(text: str) -> list[Any]:
    name, _, ends = text.rpartition("=")
    low, high = map(_finite, ends.split(":"))
    return [name.strip(), low, high]


def _columns(text: str) -> list[str]:
    # As in a CSV file, quotes protect a comma.
    return [name.strip() for name in next(csv.reader([text], skipinitialspace=True), [])]


_name = _reader("a name", str)
_names = _reader(
    "different names with commas between them",
    _columns,
    lambda names: names and "" not in names and len(set(names)) == len(names),
)
_positive = _reader("a positive number", _finite, lambda value: value > 0)
_scale = _reader(
    "TYPICAL,SPREAD with a positive spread, such as 18,12",
    lambda text: list(map(_finite, text.split(","))),
    lambda values: len(values) == 2 and values[1] > 0,
)
_bounds = _reader(
    "NAME=LOW:HIGH with LOW < HIGH, such as minutes=5:60", _range, lambda found: found[0] and found[1] < found[2]
)
_separator = _reader(
    "a single character, or tab", lambda text: "\t" if text in ("tab", "\\t") else text, lambda text: len(text) == 1
)
_verify = _reader(
    "sometimes, never, or a whole number from 1 on",
    lambda text: text if text in ("sometimes", "never") else int(text),
    lambda value: isinstance(value, str) or value > 0,
)


@dataclass(frozen=True)
class Settings:
    """Choices of the first call that the file of the run remembers; see the help for what they mean."""

    # Each with the keywords of its add_argument. The file holds lists, and no tuples.
    target: str = field(metadata={"type": _name})
    id: str | None = field(default=None, metadata={"type": _name})
    inputs: list[str] | None = field(default=None, metadata={"type": _names})
    # Name, low and high end of each input.
    bounds: list[list[Any]] | None = field(default=None, metadata={"type": _bounds, "action": "append"})
    learn: str = field(default="function", metadata={"type": _one_of(GOALS)})
    criterion: str | None = field(default=None, metadata={"type": _criterion})
    models: list[str] | None = field(default=None, metadata={"type": _name, "action": "append"})
    components: int = field(default=2, metadata={"type": _at_least(0)})
    noise: float | None = field(default=None, metadata={"type": _positive})
    target_scale: list[float] | None = field(default=None, metadata={"type": _scale})
    minimize: bool = field(default=False, metadata={"action": "store_const", "const": True})
    seed: int = field(default=0, metadata={"type": _at_least(0)})
    verify: str | int = field(default="never", metadata={"type": _verify})
    separator: str = field(default=",", metadata={"type": _separator})
    decimal: str = field(default=".", metadata={"type": _one_of(".,")})
    encoding: str = field(default="utf-8-sig", metadata={"type": _name})

    @property
    def goal(self) -> str:
        """What the run looks for, in words."""
        return GOALS[self.learn].format(target=self.target, end="minimum" if self.minimize else "maximum")

    @classmethod
    def begin(cls, given: Namespace) -> Self:
        """Settings of a first call; raises a ValueError if the target is missing or options do not go together."""
        chosen = _given(given)
        if "target" not in chosen:
            raise ValueError("name the column of what was measured with --target")
        return cls(**chosen)._checked()

    def go_on(self, given: Namespace, state: str) -> Self:
        """Settings of a later call; raises a ValueError for an option that contradicts the first call."""
        chosen = _given(given)
        for option in fields(self):
            # How tables are written may change from call to call.
            if option.name not in chosen or option.name in ("separator", "decimal", "encoding"):
                continue
            before, now = getattr(self, option.name), chosen.pop(option.name)
            if before != now and not (before and option.name in _UNORDERED and sorted(before) == sorted(now)):
                was, is_now = _shown(option, before), _shown(option, now)
                advice = "leave the option out, take another --state, or start again from the tables with --rebuild"
                raise ValueError(f"{state} was begun with {was}, which {is_now} contradicts: {advice}")
        return replace(self, **chosen)

    def renewed(self, given: Namespace) -> Self:
        """Settings of a run that starts again; raises a ValueError for options that do not go together."""
        chosen = _given(given)
        if given.candidates is not None:
            chosen["bounds"] = None
        elif given.bounds is not None:
            chosen.setdefault("inputs", None)
        return replace(self, **chosen)._checked()

    @classmethod
    def from_notes(cls, notes: dict[str, Any]) -> Self:
        """Settings of a file, by name; raises a TypeError for other names, and a ValueError as :meth:`begin` does."""
        return cls(**notes)._checked()

    def _checked(self) -> Self:
        """Raise a ValueError for options that do not go together."""
        if self.separator == self.decimal:
            raise ValueError(f"{self.decimal!r} cannot be both --separator and --decimal; try --separator ';'")
        box = [name for name, _, _ in self.bounds or ()]
        if len(set(box)) < len(box):
            raise ValueError("--bounds has the same input twice")
        names = [*(self.inputs or ()), *box]
        if self.target == self.id or self.target in names:
            raise ValueError(f"--target {self.target} cannot be the id or an input as well")
        if self.id in names:
            raise ValueError(f"--id {self.id} cannot be an input as well")
        models = self.models or ()
        if self.learn == "model" and len(models) < 2:
            raise ValueError("--learn model compares models: name at least two, e.g. --model SE --model 'LIN + SE'")
        if self.learn == "hyperparameters" and len(models) > 1:
            raise ValueError("--learn hyperparameters is about one model: pass a single --model, or --learn model")
        if len(set(models)) < len(models):
            raise ValueError("the same --model was given twice")
        if self.minimize and self.learn != "maximum" and self.criterion is None:
            raise ValueError("--minimize says what kind of --learn maximum is looked for; pass both")
        return self


def _given(given: Namespace) -> dict[str, Any]:
    """The settings on the command line, without those left out."""
    values = {option.name: getattr(given, option.name) for option in fields(Settings)}
    return {name: value for name, value in values.items() if value is not None}


def _add_settings(parser: argparse.ArgumentParser) -> None:
    for option in fields(Settings):
        parser.add_argument(_flag(option), dest=option.name, **option.metadata)


def _flag(option: Field) -> str:
    return "--model" if option.name == "models" else "--" + option.name.replace("_", "-")


def _shown(option: Field, value: Any) -> str:
    """An option as it is typed, but for quotes; several options for several values."""
    if value is None or isinstance(value, bool):
        return _flag(option) if value else f"no {_flag(option)}"
    values = value if option.metadata.get("action") == "append" else [value]
    return " ".join(f"{_flag(option)} {_text_of(one)}" for one in values)


def _text_of(value: Any) -> str:
    match value:
        case [str(name), float(low), float(high)]:
            return f"{name}={low:g}:{high:g}"
        case [*_]:
            return ",".join(map(_text_of, value))
        case float():
            return f"{value:g}"
    return str(value)


class _Parser(argparse.ArgumentParser):
    """Prints a text of :mod:`help_texts` as its help, and says in one line what is wrong."""

    text = ""

    @override
    def error(self, message: str) -> NoReturn:
        if message.startswith("unrecognized arguments") and "=" in message and ":" in message:
            message += "; write --bounds before the range of each input"
        self.exit(2, f"{self.prog}: error: {message} ({self.prog} --help tells more)\n")

    @override
    def format_help(self) -> str:
        text = self.text.replace("{prog}", self.prog).replace("{many}", str(MANY_INPUTS))
        if "{criteria}" not in text:
            return text
        listed = fill(", ".join(known_criteria()), 115, initial_indent="  ", subsequent_indent="  ")
        return text.replace("{criteria}", listed)


def make_parser() -> argparse.ArgumentParser:
    """All commands."""
    from pymc_active import __version__

    # As the user called it.
    name = "pymc-active" if Path(sys.argv[0]).stem == "pymc-active" else "python -m pymc_active"
    parser = _Parser(prog=name)
    parser.text = help_texts.MAIN
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="{suggest,report}")
    suggest, report = (commands.add_parser(command) for command in ("suggest", "report"))
    for command, text in ((suggest, help_texts.SUGGEST), (report, help_texts.REPORT)):
        command.text = text
        command.add_argument("--debug", action="store_true")
    suggest.add_argument("measurements", metavar="measurements.csv")
    _add_settings(suggest)
    suggest.add_argument("-n", type=_at_least(0), default=1)
    for path in ("--candidates", "--state", "--output", "--plot"):
        suggest.add_argument(path)
    for flag in ("--rebuild", "--forget-pending", "--quiet"):
        suggest.add_argument(flag, action="store_true")
    report.add_argument("state", metavar="run.nc")
    return parser
