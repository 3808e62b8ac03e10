"""What was chosen on the first call, which the file of a run remembers for the later ones."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Self

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
        try:
            settings = cls(**value)
            settings.check()
        except (TypeError, AttributeError) as error:
            raise ValueError(f"its settings of the command line are damaged: {error}") from None
        return settings


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
