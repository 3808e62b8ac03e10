"""The groups of a DataTree for ArviZ, of any PyMC model."""

from __future__ import annotations

import numpy as np
import xarray as xr

from pymc_active.models.datatrees import arviz_groups, in_chains, scalars, to_dataset
from pymc_active.process.process import Process
from pymc_active.process.target import AnnealedModel
from pymc_active.support.data import Data

# Draws in the groups of the prior.
_PRIOR = 500


@arviz_groups.register
def groups_of_process(
    process: Process, posterior: AnnealedModel, thetas: np.ndarray, rows: np.ndarray, data: Data, seed: int
) -> dict[str, xr.Dataset]:
    """All groups that ArviZ knows; observations are independent given the parameters, so all terms are plain."""
    n, X, tables = len(data.y), data.X, posterior.tables
    groups = {"posterior": in_chains(process, process.constrain(thetas, tables), rows, n)}
    priors = dict(zip(process.free, posterior.log_prior_terms(thetas).T, strict=True))
    groups["log_prior"] = scalars(priors, rows)
    likelihood = posterior.likelihood_values(thetas)
    groups["sample_stats"] = scalars({"lp": posterior.values(thetas), "log_marginal_likelihood": likelihood}, rows)
    if n:
        log = process.log_densities(thetas, data.y[None, None], X)[0]
        # Drawn anew for each, though particles repeat.
        whole = np.arange(rows.size)[None]
        of_all = log.shape[1] != n
        terms = {process.name: log}
        groups["log_likelihood"] = (
            scalars({process.name: log[:, 0]}, rows) if of_all else in_chains(process, terms, rows, n)
        )
        drawn = process.draw(thetas[rows[0]], X, is_common=False)
        groups["posterior_predictive"] = in_chains(process, {process.name: drawn}, whole, n)
        groups["observed_data"] = to_dataset(process, {process.name: data.y}, [], n)
    groups["constant_data"] = to_dataset(process, dict(zip(process.table_names, tables, strict=False)), [], n)
    if not process.improper:
        prior = process.unconstrain(process.draw_prior(_PRIOR, seed))
        whole = np.arange(_PRIOR)[None]
        groups["prior"] = in_chains(process, process.constrain(prior, tables), whole, n)
        if n:
            drawn = process.draw(prior, X, is_common=False)
            groups["prior_predictive"] = in_chains(process, {process.name: drawn}, whole, n)
    return groups
