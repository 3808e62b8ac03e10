"""What was chosen on the first call, which the file of a run remembers for the later ones."""

from __future__ import annotations

import math
from argparse import Namespace
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Self

from pymc_active.command_line.arguments import CRITERIA, GOALS
from pymc_active.command_line.tables import CSVFormat

# More inputs than this are too many for a lengthscale each: most would stay at their prior.
MANY_INPUTS = 15


@dataclass(frozen=True)
class Settings:
    """Options of a run, as JSON values.

    Attributes
    ----------
    target : str
        Column of what was measured.
    id : str or None
        Column that names the rows.
    inputs : list of str or None
    bounds : list of [name, low, high] or None
        The box, if there is no pool.
    learn, criterion : str
        A goal of :class:`Learner`; None for the goal's own criterion.
    models : list of str or None
        ``"ard"``, ``"embedding"``, or kernel expressions.
    components : int
        Of the embedding.
    noise : float or None
        The sd of repeated measurements, in units of the target.
    target_scale : list or None
        Typical value and spread of the target.
    minimize : bool
    seed : int
    verify : str or int
        As of :class:`Learner`.
    separator, decimal, encoding : str
        How the CSV files are written; these may change from call to call.
    """

    target: str
    id: str | None = None
    inputs: list[str] | None = None
    bounds: list[list] | None = None
    learn: str = "function"
    criterion: str | None = None
    models: list[str] | None = None
    components: int = 2
    noise: float | None = None
    target_scale: list[float] | None = None
    minimize: bool = False
    seed: int = 0
    verify: str | int = "never"
    separator: str = ","
    decimal: str = "."
    encoding: str = "utf-8-sig"

    @property
    def style(self) -> CSVFormat:
        """How the CSV files are written."""
        return CSVFormat(self.separator, self.decimal, self.encoding)

    @property
    def goal(self) -> str:
        """What is looked for, in words."""
        place = f"the {'minimum' if self.minimize else 'maximum'} of {self.target}"
        words = {
            "function": f"{self.target} as a function of its inputs",
            "hyperparameters": f"the hyperparameters of {self.target}",
            "model": f"the model of {self.target}",
            "maximum": place,
        }
        return words[self.learn]

    @classmethod
    def begin(cls, given: Namespace) -> Self:
        """Those of a first call.

        Raises
        ------
        ValueError
            Without a target, for a separator that is also the decimal point, or for options that do not go together.
        """
        chosen = _given(given)
        if "target" not in chosen:
            raise ValueError("name the column of what was measured with --target")
        settings = cls(**chosen)
        settings.check()
        return settings

    def check(self) -> None:
        """Raise a ValueError for options that do not go together."""
        if self.separator == self.decimal:
            raise ValueError(f"{self.decimal!r} cannot be both --separator and --decimal; try --separator ';'")
        names = [*(self.inputs or ()), *(name for name, _, _ in self.bounds or ())]
        if self.bounds is not None and len({name for name, _, _ in self.bounds}) < len(self.bounds):
            raise ValueError("--bounds has the same input twice")
        if self.target == self.id or self.target in names:
            raise ValueError(f"--target {self.target} cannot be the id or an input as well")
        if self.id in names:
            raise ValueError(f"--id {self.id} cannot be an input as well")
        n_models = len(self.models or ())
        if self.learn == "model" and n_models < 2:
            raise ValueError(
                "--learn model compares models: name at least two, e.g. --model SE --model 'LIN + SE' --model ard"
            )
        if self.learn == "hyperparameters" and n_models > 1:
            raise ValueError("--learn hyperparameters is about one model: pass a single --model, or --learn model")
        if len(set(self.models or ())) < n_models:
            raise ValueError("the same --model was given twice")
        if self.minimize and self.learn != "maximum" and self.criterion is None:
            raise ValueError("--minimize says what kind of --learn maximum is looked for; pass both")

    def go_on(self, given: Namespace, state: str) -> Self:
        """Those of a later call.

        Raises
        ------
        ValueError
            For an option that contradicts what the run began with.
        """
        for name, value in _given(given).items():
            mine = getattr(self, name)
            if name not in _FREE and _in_order(name, value) != _in_order(name, mine):
                raise ValueError(
                    f"{state} was begun with {_spelled(name, mine)}, which {_spelled(name, value)} contradicts: leave "
                    "the option out, take another --state, or start again from the tables with --rebuild"
                )
        return replace(self, **{name: value for name, value in _given(given).items() if name in _FREE})

    def renewed(self, given: Namespace) -> Self:
        """With what was given in place of what was chosen before; raises as :meth:`check` does."""
        chosen = _given(given)
        if given.candidates is not None:
            chosen["bounds"] = None
        elif given.bounds is not None:
            chosen.setdefault("inputs", None)
        settings = replace(self, **chosen)
        settings.check()
        return settings

    def to_json(self) -> dict[str, Any]:
        """For the file of the run."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Raises a ValueError for what :meth:`to_json` did not write."""
        if not isinstance(value, dict) or not set(value) <= set(_KINDS) or "target" not in value:
            raise ValueError("its settings are not those of the command line")
        for name, one in value.items():
            is_left_out = one is None and name in _OPTIONAL
            if not is_left_out and not _KINDS[name](one):
                raise ValueError(f"its settings cannot have {name} = {one!r}")
        settings = cls(**value)
        settings.check()
        return settings


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and value != ""


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and len(value) > 0 and all(map(_is_text, value))


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_positive(value: Any) -> bool:
    return _is_number(value) and value > 0


def _are_bounds(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(one, list)
        and len(one) == 3
        and _is_text(one[0])
        and _is_number(one[1])
        and _is_number(one[2])
        and one[1] < one[2]
        for one in value
    )


# What the options can be, in a file that anybody may have changed.
_KINDS: dict[str, Callable[[Any], bool]] = {
    "target": _is_text,
    "id": _is_text,
    "inputs": _are_texts,
    "bounds": _are_bounds,
    "learn": lambda value: value in GOALS,
    "criterion": lambda value: value in CRITERIA,
    "models": _are_texts,
    "components": _is_count,
    "noise": _is_positive,
    "target_scale": lambda value: (
        isinstance(value, list) and len(value) == 2 and _is_number(value[0]) and _is_positive(value[1])
    ),
    "minimize": lambda value: isinstance(value, bool),
    "seed": _is_count,
    "verify": lambda value: value in ("never", "sometimes") or (_is_count(value) and value > 0),
    "separator": lambda value: isinstance(value, str) and len(value) == 1,
    "decimal": lambda value: value in (".", ","),
    "encoding": _is_text,
}
_OPTIONAL = frozenset(("id", "inputs", "bounds", "criterion", "models", "noise", "target_scale"))
# What may differ from call to call.
_FREE = frozenset(("separator", "decimal", "encoding"))


def _given(given: Namespace) -> dict[str, Any]:
    """What is on the command line: None is what was left out."""
    values = {field.name: getattr(given, field.name, None) for field in fields(Settings)}
    return {name: value for name, value in values.items() if value is not None}


def _in_order(name: str, value: Any) -> Any:
    """Names may be given in any order."""
    return sorted(value) if name in ("inputs", "bounds", "models") and value is not None else value


def _spelled(name: str, value: Any) -> str:
    option = "--" + {"models": "model", "target_scale": "target-scale"}.get(name, name)
    if value is None:
        return f"no {option}"
    if name == "bounds":
        return " ".join(f"{option} {label}={low:g}:{high:g}" for label, low, high in value)
    if name == "models":
        return " ".join(f"{option} '{text}'" for text in value)
    if name == "minimize":
        return option if value else f"no {option}"
    return f"{option} {','.join(map(str, value)) if isinstance(value, list) else value}"
