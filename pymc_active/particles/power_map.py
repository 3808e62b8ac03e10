"""Monotone maps of the outputs, and the one under which data are most probable."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
import pandas as pd
from scipy.optimize import minimize_scalar
from scipy.special import boxcox1p, inv_boxcox1p

from pymc_active.inference.fit import Fit
from pymc_active.models.gpmodel import check_is_normal
from pymc_active.support.scaling import penalties, spread
from pymc_active.support.summaries import Summarized, Summary
from pymc_active.support.tables import read_numbers

KINDS = ("log", "yeo-johnson")
# Nats. By chance 5 would do, but points that a learner chose are no fair sample of a function with a single hill: of 27
# such points gains were 5 to 10 for logarithms, whose predictions no further map improved, and 20 to 24 for values that
# the map made more probable elsewhere too, by a nat each.
_LARGE_GAIN = 12.0
# With fewer points level and scale leave nothing to judge.
_FEWEST = 6
# Median absolute deviations from the median beyond which a single value may be a slip.
_FAR = 10.0


@dataclass(frozen=True, repr=False)
class PowerMap(Summarized):
    """The map without predictions; see :class:`pymc_active.OutputMap`."""

    kind: Literal["log", "yeo-johnson"] = "yeo-johnson"
    power: float = 1.0
    shift: float = 0.0
    scale: float = 1.0
    gain: float | None = None

    def __post_init__(self):
        if self.kind not in KINDS:
            raise ValueError(f"kind must be one of {', '.join(KINDS)}; got {self.kind!r}")
        if not 0 <= self.power <= 2 or not 0 < self.scale < np.inf or not np.isfinite(self.shift):
            raise ValueError(
                "power must be from 0 to 2, scale positive and shift finite; got "
                f"power={self.power!r}, scale={self.scale!r} and shift={self.shift!r}"
            )

    def _summary(self) -> Summary:
        numbers = {name: f"{value:.4g}" for name, value in vars(self).items() if isinstance(value, float)}
        return Summary("OutputMap", {"kind": self.kind, **numbers})

    @classmethod
    def of_fit(cls, fit: Fit) -> Self:
        """The map under which the data of a fit are most probable; see :meth:`pymc_active.OutputMap.of`."""
        check_is_normal(fit.gpm, "a map of the outputs is")
        factor, y = fit.posterior.of_each.light_state(fit.center).factor, fit.y
        root = factor.half_solve(np.column_stack([np.ones(len(y)), np.eye(len(y))]))
        quartiles = np.quantile(y, [0.25, 0.5, 0.75])
        scale = float(quartiles[2] - quartiles[0]) or float(spread(y)) or 1.0

        def log_density(output_map: PowerMap) -> float:
            ones, mapped = root[:, 0], root[:, 1:] @ output_map(y)
            rest = mapped - ones * (ones @ mapped) / (ones @ ones)
            variance = max(float(rest @ rest) / len(y), np.finfo(float).tiny)
            return output_map.log_slope(y).sum() - 0.5 * len(y) * np.log(variance)

        def powered(power: float):
            return cls("yeo-johnson", float(power), float(quartiles[1]), scale)

        best = minimize_scalar(lambda power: -log_density(powered(power)), bounds=(0, 2), method="bounded").x
        candidates = [powered(power) for power in (0.0, best, 2.0)]
        if y.min() > 0:
            candidates.append(cls("log"))
        found = max(candidates, key=log_density)
        gain = log_density(found) - log_density(powered(1.0))
        return cls(found.kind, found.power, found.shift, found.scale, float(gain))

    def __call__(self, y: Any) -> Any:
        """Mapped outputs, in the shape of y, a Series with its labels; NaN stays, as a failed experiment.

        A ValueError for the logarithm of a value that is not positive.
        """
        return self._with_labels(self._mapped(read_numbers(y, "y")), y)

    def _with_labels(self, values: np.ndarray, y: Any) -> Any:
        return pd.Series(values, y.index, name=y.name) if isinstance(y, pd.Series) else values

    def _mapped(self, y: np.ndarray) -> np.ndarray:
        if self.kind == "log":
            if (y <= 0).any():
                raise ValueError(f'OutputMap("log") is for positive outputs; got {np.nanmin(y):.4g}. Use "yeo-johnson"')
            return np.log(y)
        u = (y - self.shift) / self.scale
        return np.where(u >= 0, boxcox1p(np.abs(u), self.power), -boxcox1p(np.abs(u), 2 - self.power))

    def inverse(self, mapped: Any) -> Any:
        """Outputs in the units of y, in the shape of ``mapped``, a Series with its labels."""
        return self._with_labels(self._unmapped(np.asarray(mapped, float)), mapped)

    def _unmapped(self, z: np.ndarray) -> np.ndarray:
        if self.kind == "log":
            return np.exp(z)
        u = np.where(z >= 0, inv_boxcox1p(np.abs(z), self.power), -inv_boxcox1p(np.abs(z), 2 - self.power))
        return self.shift + self.scale * u

    def log_slope(self, y: np.ndarray) -> np.ndarray:
        """Log of the derivative at y."""
        if self.kind == "log":
            return -np.log(y)
        u = (y - self.shift) / self.scale
        return (self.power - 1) * np.sign(u) * np.log1p(np.abs(u)) - np.log(self.scale)


def _far_from_others(y: np.ndarray) -> int | None:
    """The row of a single value that is much farther from the median than all others, as after a decimal slip."""
    away = np.abs(y - np.median(y))
    second, first = np.sort(away)[-2:][[0, -1]]
    return int(np.argmax(away)) if first > _FAR * np.median(away) and second <= first / 2 else None


def output_map_advice(fit: Fit) -> str | None:
    """What the outputs of a fit to standardised y call for: a map, or to be told as failures."""
    if not fit.gpm.y_map.is_renewed:
        return None
    # All data, since the fit may use some of them only.
    y = fit.gpm.y
    if len(failed := penalties(y)):
        return (
            f"{len(failed)} values of y are {y[failed[0]]:.6g}, far from all others. If they stand for experiments "
            "that failed, tell NaN in their place, so that the model learns where experiments fail: as numbers they "
            "hide what happens elsewhere, and the recommended point may be worse than a measured one"
        )
    if len(fit.y) < _FEWEST:
        return None
    best = PowerMap.of_fit(fit)
    if (best.gain or 0.0) <= _LARGE_GAIN:
        return None
    power = f"yeo-johnson, power {best.power:.2g}; 1 changes nothing, 0 is like a logarithm"
    which = "log" if best.kind == "log" else power
    row = _far_from_others(y)
    slip = "is far from all other values. If it is a slip, correct it; if it stands for a failed experiment, tell NaN. "
    return (
        ("a map" if row is None else f"y[{row}] = {y[row]:.6g} {slip}If neither, a map")
        + f" of the outputs ({which}) makes them {best.gain:.0f} nats more probable, "
        "so intervals of a model of y itself are too wide in places and too narrow in others. Make output_map = "
        "OutputMap.of(fit), model and tell output_map(y), and predict by output_map.predict(fit, X)"
    )
