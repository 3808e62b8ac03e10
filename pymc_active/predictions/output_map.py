"""A monotone map of the outputs, for functions whose values differ by orders of magnitude."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
import xarray as xr
from scipy.optimize import minimize_scalar
from scipy.special import boxcox1p, inv_boxcox1p, ndtri

from pymc_active.inference.ensemble import Ensemble
from pymc_active.inference.fit import Fit
from pymc_active.posterior.conditioned import ConditionedGP
from pymc_active.predictions.ensembles import Source, as_ensemble
from pymc_active.predictions.mixtures import mixture
from pymc_active.predictions.model_average import Fits, as_model_average
from pymc_active.predictions.predict import predict
from pymc_active.support.scaling import penalties
from pymc_active.support.tables import read_inputs
from pymc_active.support.user_warnings import OutputScaleWarning, warn_user

KINDS = ("log", "yeo-johnson")
# Equally probable values of a standard normal, over which a mean in the units of y is taken, and numbers in a block.
_NODES, _BLOCK = ndtri((np.arange(100) + 0.5) / 100), 5_000_000
# Nats. By chance 5 would do, but points that a learner chose are no fair sample of a function with a single hill: of 27
# such points gains were 5 to 10 for logarithms, whose predictions no further map improved, and 20 to 24 for values that
# the map made more probable elsewhere too, by a nat each.
_LARGE_GAIN = 12.0
# Median absolute deviations from the median beyond which a single value may be a slip.
_FAR = 10.0


@dataclass(frozen=True)
class OutputMap:
    """A monotone map of y, which a Gaussian process describes better than y itself.

    Model the mapped outputs, ``ard_gp(X, output_map(y), bounds=bounds)``, and tell them, ``learner.tell(x,
    output_map(y))``; the maximum stays where it is. :meth:`predict` returns to the units of y. The map does not change
    when data are added. Make one with :meth:`of`, or write ``OutputMap("log")``.

    Parameters
    ----------
    kind : {"log", "yeo-johnson"}
        The logarithm, of positive y; or the power of Yeo & Johnson of ``(y - shift) / scale``.
    power : float
        From 0 to 2, for ``"yeo-johnson"``: 1 changes nothing, 0 is a logarithm upwards, 2 a logarithm downwards.
    shift, scale : float
        In units of y; for ``"yeo-johnson"``.
    gain : float, optional
        By how many nats the mapped outputs are more probable, if that is known.

    References
    ----------
    .. [1] Yeo & Johnson (2000), A new family of power transformations.

    Examples
    --------
    >>> import numpy as np
    >>> import pymc_active as pma
    >>> output_map = pma.OutputMap("yeo-johnson", power=0.0, shift=2.0)
    >>> output_map([2.0, 9.0]).round(3)
    array([0.   , 2.079])
    >>> output_map.inverse(output_map([2.0, 9.0]))
    array([2., 9.])
    """

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

    @classmethod
    def of(cls, fit: Fit | Fits) -> Self:
        """The map under which the data of a fit are most probable; of several fits, that of the most probable model.

        The logarithm of positive data is compared with the best power, with shift and scale at the median and
        the interquartile range. Kernel and noise-to-signal ratio are those of the mode, or of the particle of highest
        density; level and scale are profiled out. The gain is a lower bound of that of a new fit.
        """
        best = fit if isinstance(fit, Fit) else as_model_average(fit).best
        gp = ConditionedGP(best.posterior, best.center)
        y = gp.to_user_y(gp.y)
        root = gp.factor.half_solve(np.column_stack([np.ones(len(y)), np.eye(len(y))]))
        quartiles = np.quantile(y, [0.25, 0.5, 0.75])
        scale = float(quartiles[2] - quartiles[0]) or float(y.std()) or 1.0

        def log_density(output_map: OutputMap) -> float:
            ones, mapped = root[:, 0], root[:, 1:] @ output_map(y)
            rest = mapped - ones * (ones @ mapped) / (ones @ ones)
            variance = max(float(rest @ rest) / len(y), np.finfo(float).tiny)
            return output_map._log_slope(y).sum() - 0.5 * len(y) * np.log(variance)

        def powered(power: float) -> OutputMap:
            return cls("yeo-johnson", float(power), float(quartiles[1]), scale)

        best = minimize_scalar(lambda power: -log_density(powered(power)), bounds=(0, 2), method="bounded").x
        candidates = [powered(power) for power in (0.0, best, 2.0)]
        if y.min() > 0:
            candidates.append(cls("log"))
        found = max(candidates, key=log_density)
        gain = log_density(found) - log_density(powered(1.0))
        return cls(found.kind, found.power, found.shift, found.scale, float(gain))

    def __call__(self, y: Any) -> np.ndarray:
        """Mapped outputs, in the shape of y; a ValueError for the logarithm of a value that is not positive."""
        y = np.asarray(y, float)
        if self.kind == "log":
            if (y <= 0).any():
                raise ValueError(f'OutputMap("log") is for positive outputs; got {y.min():.4g}. Use "yeo-johnson"')
            return np.log(y)
        u = (y - self.shift) / self.scale
        return np.where(u >= 0, boxcox1p(np.abs(u), self.power), -boxcox1p(np.abs(u), 2 - self.power))

    def inverse(self, mapped: Any) -> np.ndarray:
        """Outputs in the units of y."""
        z = np.asarray(mapped, float)
        if self.kind == "log":
            return np.exp(z)
        u = np.where(z >= 0, inv_boxcox1p(np.abs(z), self.power), -inv_boxcox1p(np.abs(z), 2 - self.power))
        return self.shift + self.scale * u

    def _log_slope(self, y: np.ndarray) -> np.ndarray:
        """Log of the derivative at y."""
        if self.kind == "log":
            return -np.log(y)
        u = (y - self.shift) / self.scale
        return (self.power - 1) * np.sign(u) * np.log1p(np.abs(u)) - np.log(self.scale)

    def predict(
        self, source: Source, X_new: Any, *, quantiles: Sequence[float] | None = None, y_new: Any = None, **options: Any
    ) -> xr.Dataset:
        """:func:`pymc_active.predict` of a model of mapped outputs, in the units of y.

        Quantiles and densities are exact; ``f_mean``, ``f_variance`` and ``y_variance`` are over 100 equally probable
        values of each member of the mixture, since the mean of an exponential may be infinite. ``options`` are those of
        :func:`~pymc_active.predict`.
        """
        found = predict(source, X_new, quantiles=quantiles, y_new=None if y_new is None else self(y_new), **options)
        ensemble = as_ensemble(source, what="predict", **options)
        X = read_inputs(X_new, "X_new", inputs=ensemble.gpm.inputs)
        blocks = np.array_split(X, len(X) * len(ensemble) * len(_NODES) // _BLOCK + 1)
        for name, values in zip(("f_mean", "f_variance", "y_variance"), self._moments(ensemble, blocks), strict=True):
            found[name] = "point", values
        for name in ("f_quantile", "y_quantile") if quantiles is not None else ():
            found[name] = found[name].dims, self.inverse(found[name])
        if y_new is not None:
            found["y_log_density"] = found.y_log_density + self._log_slope(np.asarray(y_new, float))
        return found

    def _moments(self, ensemble: Ensemble, blocks: list[np.ndarray]) -> np.ndarray:
        """Mean and variance of f, and variance of y, at the points of all blocks, (3, m)."""
        found = []
        for p in (mixture(ensemble, X) for X in blocks):
            means, variances = [], []
            for spread in (p.variances, p.variances + p.noises):
                y = self.inverse(p.means[:, None] + np.sqrt(spread)[:, None] * _NODES[:, None])
                means.append(p.weights @ y.mean(1))
                variances.append(p.weights @ np.square(y - means[-1]).mean(1))
            found.append([means[0], *variances])
        return np.concatenate(found, axis=1)


def _far_from_others(y: np.ndarray) -> int | None:
    """The row of a single value that is much farther from the median than all others, as after a decimal slip."""
    away = np.abs(y - np.median(y))
    second, first = np.sort(away)[-2:][[0, -1]]
    return int(np.argmax(away)) if first > _FAR * np.median(away) and second <= first / 2 else None


def offer_output_map(fit: Fit) -> bool:
    """Warn if the data of a fit call for a map, or hold penalties; whether they do."""
    # All data, since the fit may use some of them only.
    y = fit.gpm.y
    failed = penalties(y)
    if len(failed):
        warn_user(
            f"{len(failed)} values of y are {y[failed[0]]:.6g}, far from all others. If they stand for "
            "experiments that failed, tell NaN in their place, so that the model learns where experiments fail: as "
            "numbers they hide what happens elsewhere, and the recommended point may be worse than a measured one",
            OutputScaleWarning,
        )
        return True
    found = OutputMap.of(fit)
    if (found.gain or 0.0) <= _LARGE_GAIN:
        return False
    power = f"yeo-johnson, power {found.power:.2g}; 1 changes nothing, 0 is like a logarithm"
    what = "log" if found.kind == "log" else power
    row = _far_from_others(y)
    slip = "is far from all other values. If it is a slip, correct it; if it stands for a failed experiment, tell NaN. "
    warn_user(
        ("a map" if row is None else f"y[{row}] = {y[row]:.6g} {slip}If neither, a map")
        + f" of the outputs ({what}) makes them {found.gain:.0f} nats more probable, so intervals of a model of y "
        "itself are too wide in places and too narrow in others. Make output_map = OutputMap.of(learner.fit), model "
        "and tell output_map(y), and predict by output_map.predict(fit, X)",
        OutputScaleWarning,
    )
    return True
