"""What the outputs of a fit call for: a likelihood under which a map of them is normal, or to be told as failures."""

from __future__ import annotations

import numpy as np

from pymc_active.inference.fit import Fit
from pymc_active.likelihoods.warped import LogNormal, Mapped, Warped
from pymc_active.support.scaling import penalties

# Nats. By chance 5 would do, but points that a learner chose are no fair sample of a function with a single hill: of 27
# such points gains were 5 to 10 for logarithms, whose predictions no further map improved, and 20 to 24 for values that
# the map made more probable elsewhere too, by a nat each.
_LARGE_GAIN = 12.0
# With fewer points level and scale leave nothing to judge.
_FEWEST = 6
# Median absolute deviations from the median beyond which a single value may be a slip.
_FAR = 10.0
# Logs of a warp between which the best is looked for: about a logarithm to either side.
_WARPS = (-7.0, 7.0)


def best_map(fit: Fit) -> tuple[str, float]:
    """The likelihood under which the data of a fit to normal outcomes are most probable, and its gain in nats.

    Kernel and noise-to-signal ratio are taken at the mode, or the particle of highest density; level and scale are
    profiled out. A new fit gains at least as much.
    """
    factor, y = fit.posterior.of_each.light_state(fit.center).factor, fit.y
    root = factor.half_solve(np.column_stack([np.ones(len(y)), np.eye(len(y))]))

    def log_density(likelihood: Mapped, *phi: float) -> float:
        columns = [np.array([part]) for part in (0.0, *phi)]
        z, log_slope = likelihood.map(y, likelihood.given(columns, likelihood.of_data(y)))
        ones, mapped = root[:, 0], root[:, 1:] @ z
        rest = mapped - ones * (ones @ mapped) / (ones @ ones)
        variance = max(float(rest @ rest) / len(y), np.finfo(float).tiny)
        return log_slope.sum() - 0.5 * len(y) * np.log(variance)

    warped = Warped()
    from scipy.optimize import minimize_scalar  # takes long to load

    best = minimize_scalar(lambda warp: -log_density(warped, warp), bounds=_WARPS, method="bounded").x
    densities = {"warped": max(log_density(warped, warp) for warp in (*_WARPS, best))}
    if y.min() > 0:
        densities["lognormal"] = log_density(LogNormal())
    name = max(densities, key=lambda name: densities[name])
    return name, densities[name] - log_density(warped, 0.0)


def _far_from_others(y: np.ndarray) -> int | None:
    """The row of a single value that is much farther from the median than all others, as after a decimal slip."""
    away = np.abs(y - np.median(y))
    second, first = np.sort(away)[-2:][[0, -1]]
    return int(np.argmax(away)) if first > _FAR * np.median(away) and second <= first / 2 else None


def outcome_advice(fit: Fit) -> str | None:
    """What the outputs of a fit to standardised y call for: another likelihood, or to be told as failures."""
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
    if len(fit.y) < _FEWEST or not np.ptp(y):
        return None
    name, gain = best_map(fit)
    if gain <= _LARGE_GAIN:
        return None
    row, what = _far_from_others(y), "logarithms are" if name == "lognormal" else "power is"
    slip = "is far from all other values. If it is a slip, correct it; if it stands for a failed experiment, tell NaN"
    if fit.data.y_sd is not None:
        # Error bars are for normal outcomes only.
        return None if row is None else f"y[{row}] = {y[row]:.6g} {slip}"
    return (
        ("outputs" if row is None else f"y[{row}] = {y[row]:.6g} {slip}. If neither, outputs")
        + f" whose {what} normal are {gain:.0f} nats more probable, so intervals of a model of y itself are too "
        f"wide in places and too narrow in others. Give the builder, or Learner(None, ...), likelihood={name!r}"
    )
