"""What cannot be measured at new rows is refused, with what to do about it."""

from __future__ import annotations

from typing import Any

import numpy as np
from pytensor.graph.traversal import ancestors

# Rows and draws that show whether the outcome at one row depends on the others.
_PROBED, _PROBES = 4, 3


def check_replaceable(process: Any) -> None:
    """Refuse models whose data cannot be replaced, since nothing can be chosen, or not one number at each row."""
    if process.name.endswith("_observed") and process.name.removesuffix("_observed") in process.model.named_vars:
        raise ValueError(
            f"{process.name.removesuffix('_observed')!r} has missing values, which PyMC imputes: leave such rows out"
        )
    if len(names := process.possible_outcomes) > 1:
        raise ValueError(f"{', '.join(names)} are observed: name the one to be measured by observed={process.name!r}")
    if not process.inputs:
        raise ValueError(
            f"the outcome {process.name!r} does not depend on any pm.Data with a value for each observation: use "
            "x = pm.Data('x', x) in the model for what you can choose, and in place of an observed variable above it "
            "(pm.gp.Latent has no values at new rows: use pma.from_latent(gp, name), or pm.gp.HSGP)"
        )
    if process.outcome.owner.op.ndim_supp:
        raise ValueError(
            f"{process.name!r} has the distribution {process.distribution}, whose entries depend on each other. A "
            "pm.gp.Marginal is for pma.from_marginal(gp, name); of other models write each outcome as one number"
        )
    if process.outcome.type.ndim != 1:
        raise ValueError(
            f"{process.name!r} has {process.outcome.type.ndim} dimensions: what is measured next must be one number at "
            "each row. A fit of the model works"
        )
    shared = set(process.graphs.shared)
    if used := [p.name for p in process.model.potentials if shared & set(ancestors([p]))]:
        raise ValueError(
            f"the potential {', '.join(used)} depends on the inputs, so that new rows would change it: make it the "
            "log density of an observed pm.CustomDist"
        )


def check_rows(process: Any, X: np.ndarray) -> None:
    """Refuse outcomes that have no distribution at new rows, or one that depends on other rows; X (m, D)."""
    check_replaceable(process)
    process.read_tables(X)
    Z = 0.3 * np.random.default_rng(0).normal(size=(_PROBES, process.n_parameters))
    some = X[np.unique(np.linspace(0, len(X) - 1, _PROBED).astype(int))]
    # The model's own rows show whether others matter, also for a single candidate.
    own = process.first_rows[: _PROBED // 2]
    remedy = (
        "Use pm.Data for arrays with a value for each observation, pma.from_latent(gp, name) for a pm.gp.Latent, "
        "pm.gp.HSGP in place of one latent value for each observation, the previous value as a pm.Data in place of "
        "pm.AR, and fixed numbers in place of the mean and sd of the inputs"
    )
    is_sound, errors = False, (AssertionError, IndexError, NotImplementedError, TypeError, ValueError)
    with np.errstate(all="ignore"):
        try:
            if len(own):
                process.log_densities(Z, process.draw(Z, own)[:, None], own)
                is_sound = len(own) < len(process.first_rows)
            process.draw(Z, X)
            rows = np.concatenate([some, own])
            drawn = process.draw(Z, rows)
            together = process.log_densities(Z, drawn[:, None], rows)
            alone = [process.log_densities(Z, drawn[:, None, [k]], rows[[k]]) for k in range(len(rows))]
        except errors as error:
            _raise_unknown_level(process, X, error)
            n, values = len(process.first_rows), process.model.rvs_to_values
            of_rows = [rv.name for rv in process.free_variables if n > 1 and n in process.shapes[values[rv].name]]
            why = f": {', '.join(of_rows)} has a value for each of the {n} observations" if of_rows else f" ({error})"
            text = f"{process.name!r} has no distribution at new rows{why}. {remedy}"
            if is_sound:
                text = f"at some candidates {process.name!r} has no distribution ({error}): leave these rows out"
            raise ValueError(text) from error
    if not np.allclose(together, np.concatenate(alone, axis=2), rtol=1e-8, atol=1e-10, equal_nan=True):
        raise ValueError(f"the distribution of {process.name!r} at one row depends on other rows. {remedy}")


def check_levels(process: Any, X: np.ndarray) -> None:
    """Raise a ValueError for rows whose whole numbers are no levels of the model."""
    process.read_tables(X)
    if not process.whole_inputs:
        return
    try:
        process.draw(np.zeros((_PROBES, process.n_parameters)), X)
    except IndexError as error:
        _raise_unknown_level(process, X, error)


def _raise_unknown_level(process: Any, X: np.ndarray, error: Exception) -> None:
    """Say which column has numbers that the model does not know."""
    if not isinstance(error, IndexError):
        return
    for name, dtype, columns, _ in process.tables:
        for k in columns if dtype.kind in "biu" else ():
            if X[:, k].max(initial=0) > process.first_rows[:, k].max(initial=-1):
                raise ValueError(
                    f"{name} = {X[:, k].max():g} is a level that the model does not have: give the variables of "
                    "the levels a dim with all of them"
                ) from error
