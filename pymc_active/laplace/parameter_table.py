"""Tables of a fit's parameters, on their natural scale and in the user's units, with uncertainty."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd

from pymc_active.laplace.expansion import Expansion
from pymc_active.models.gpmodel import GPModel
from pymc_active.posterior.row_space import RowSpace
from pymc_active.support.numbers import QUANTILES, Z89

# Half the width of a central 89 % interval of a Gaussian, in sds.
# Central differences of smooth functions of order one.
_STEP = 1e-5


def parameter_table(gpm: GPModel, best: Expansion) -> pd.DataFrame:
    """Scalars and vectors of a model at the highest mode, by the delta method on the Laplace approximation.

    One row for each entry, such as ``lengthscale[acid]``, in the user's units; intervals of positive quantities are
    computed on the log scale. Matrices such as an embedding's R are left out, and so is ``log_noise`` if there is
    ``noise``, and ``mean_constant`` if there is ``mean_constant_original_units``.
    """
    theta, P = best.theta, len(best.theta)
    point = {name: values[0] for name, values in gpm.constrain(theta[None]).items()}
    names = natural_names(name for name, value in point.items() if value.ndim < 2)
    # Scalars and vectors do not depend on the many entries of a matrix.
    sizes = [int(np.prod(shape, dtype=int)) for shape in gpm.shapes.values()]
    free = np.flatnonzero(np.repeat([len(shape) < 2 for shape in gpm.shapes.values()], sizes))
    steps = np.zeros((len(free), P))
    steps[np.arange(len(free)), free] = _STEP
    ends = gpm.constrain(np.concatenate([theta + steps, theta - steps])) if len(free) else {}
    own = np.delete(np.arange(len(best.z)), best.space.where) if isinstance(best.space, RowSpace) else free
    covariance = best.covariance[np.ix_(own, own)]
    # Names of positive quantities and of their value variables in PyMC.
    positive = {name.removeprefix("log_") for name in names + gpm.value_names if name.startswith("log_")}
    positive |= {name.removesuffix("_log__") for name in gpm.value_names if name.endswith("_log__")}
    rows = {}
    for name in names:
        mode = point[name]
        plus, minus = ends.get(name, np.empty((0, *mode.shape))).reshape(2, len(free), *mode.shape)
        slope = (plus - minus) / (2 * _STEP)
        for index in np.ndindex(mode.shape):
            gradient = slope[:, *index]
            sd = float(np.sqrt(max(gradient @ covariance @ gradient, 0.0)))
            value = float(mode[index])
            if name in positive and value > 0:
                factor = float(np.exp(Z89 * sd / value))
                low, high = value / factor, value * factor
            else:
                low, high = value - Z89 * sd, value + Z89 * sd
            labels = gpm.inputs if mode.shape == (len(gpm.inputs),) else range(mode.size)
            row = f"{name}[{labels[index[0]]}]" if index else name
            spread = [f"{sd:.2g}", f"{low:.3g} to {high:.3g}"] if gradient.any() else ["0", "fixed"]
            rows[row] = [f"{value:.4g}", *spread]
    return pd.DataFrame.from_dict(rows, orient="index", columns=["mode", "sd", "89 % interval"])


def table_of_draws(gpm: GPModel, thetas: np.ndarray) -> pd.DataFrame:
    """Medians, sds and central 89 % intervals of the same rows, from draws (S, P)."""
    drawn, rows = gpm.constrain(thetas), {}
    for name in natural_names(name for name, values in drawn.items() if values.ndim < 3):
        values = drawn[name]
        for index in np.ndindex(values.shape[1:]):
            labels = gpm.inputs if values.shape[1:] == (len(gpm.inputs),) else range(values.shape[-1])
            row, one = f"{name}[{labels[index[0]]}]" if index else name, values[:, *index]
            low, middle, high = np.quantile(one, QUANTILES)
            spread = [f"{one.std():.2g}", f"{low:.3g} to {high:.3g}"] if np.ptp(one) > 0 else ["0", "fixed"]
            rows[row] = [f"{middle:.4g}", *spread]
    return pd.DataFrame.from_dict(rows, orient="index", columns=["median", "sd", "89 % interval"])


def natural_names(names: Iterable[str]) -> list[str]:
    """Names without ``log_noise`` if there is ``noise``, and ``R`` if there is ``R_original_units``."""
    names, suffix = list(names), "_original_units"
    hidden = {f"log_{name}" for name in names} | {name.removesuffix(suffix) for name in names if name.endswith(suffix)}
    return [name for name in names if name not in hidden]
