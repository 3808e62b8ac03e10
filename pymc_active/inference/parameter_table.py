"""A table of hyperparameters and what follows from them, in the user's units where they have one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from pymc_active.support.numbers import QUANTILES


def table_of_draws(gpm: Any, thetas: np.ndarray) -> pd.DataFrame:
    """Medians, sds and central 89 % intervals of scalars and vectors of a model, from draws (S, P).

    One row for each entry, such as ``lengthscale[acid]``. Matrices such as an embedding's R are left out, and so is
    ``log_noise`` if there is ``noise``; ``mean_constant_original_units`` is called ``mean``.
    """
    with np.errstate(all="ignore"):
        drawn = {
            name: np.asarray(values, float)
            for name, values in gpm.constrain(thetas).items()
            if name not in getattr(gpm, "of_rows", ())
        }
        groups = [] if gpm.space is None else [group.name for group in gpm.space.groups]
        return _table(drawn, {len(names): names for names in (groups, gpm.inputs)})


def _table(drawn: dict[str, np.ndarray], names_of: dict[int, list]) -> pd.DataFrame:
    rows = {}
    for name in natural_names(name for name, values in drawn.items() if values.ndim < 3):
        values, name = drawn[name], name.removesuffix("_original_units").replace("mean_constant", "mean")
        for index in np.ndindex(values.shape[1:]):
            labels = names_of.get(values.shape[1], range(values.shape[1])) if index else ()
            row, one = f"{name}[{labels[index[0]]}]" if index else name, values[:, *index]
            low, middle, high = np.quantile(one, QUANTILES)
            rows[row] = [f"{middle:.4g}", "0", "fixed"]
            if (one != one[0]).any():
                # As many digits as show the spread, of a year as well.
                digits = int(np.nan_to_num(np.clip(np.log10(abs(middle) / one.std()) + 2, 3, 12), nan=3))
                rows[row] = [f"{middle:.{digits + 1}g}", f"{one.std():.2g}", f"{low:.{digits}g} to {high:.{digits}g}"]
    return pd.DataFrame.from_dict(rows, orient="index", columns=["median", "sd", "89 % interval"])


def natural_names(names: Iterable[str]) -> list[str]:
    """Names without ``log_noise`` if there is ``noise``, and ``R`` if there is ``R_original_units``."""
    names, suffix = list(names), "_original_units"
    hidden = {f"log_{name}" for name in names} | {name.removesuffix(suffix) for name in names if name.endswith(suffix)}
    return [name for name in names if name not in hidden]
