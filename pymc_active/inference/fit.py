"""A fit: the posterior over the hyperparameters of one model, given its data, in whatever way it is represented."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import xarray as xr

from pymc_active.inference.ensemble import Ensemble, Evidence, Seed
from pymc_active.models.datatrees import arviz_groups
from pymc_active.posterior.base import Posterior
from pymc_active.posterior.row_space import Space
from pymc_active.support.data import Data, OfData
from pymc_active.support.numbers import QUANTILES
from pymc_active.support.options import count
from pymc_active.support.summaries import Summarized

# Draws behind the table of a summary.
_SHOWN = 500


@dataclass(frozen=True, eq=False, repr=False)
class Fit(Summarized, OfData, ABC):
    """What :class:`~pymc_active.ParticleFit` and :class:`~pymc_active.LaplaceFit` have in common.

    A fit is a value: nothing changes it. ``predict``, criteria, sample paths, pictures and ``check`` take any fit and
    see its ensemble.

    Attributes
    ----------
    gpm : GPModel
    X, y : ndarray, shapes (n, D) and (n,)
        The data of the fit, in the user's units, whatever the model holds now.
    log_evidence, log_evidence_error : float
        log p(y) and its standard error, nats.
    diagnostics : dict
        ``warnings`` says in words what is doubtful.
    """

    gpm: Any
    data: Data

    # The name of the group in files.
    kind: ClassVar[str]

    @property
    def log_evidence(self) -> float:
        """Log p(y), nats."""
        return self.evidence.value

    @property
    def log_evidence_error(self) -> float:
        """Standard error of :attr:`log_evidence`, nats; NaN if it is not known."""
        return self.evidence.error

    @property
    @abstractmethod
    def diagnostics(self) -> dict[str, Any]:
        """How the fit was made; ``warnings`` says in words what is doubtful."""

    @property
    @abstractmethod
    def ensemble(self) -> Ensemble:
        """Weighted hyperparameters: what everything else averages over."""

    @abstractmethod
    def ensemble_by(self, method: str | None = None, draws: int | None = None, random_seed: Seed = None) -> Ensemble:
        """The ensemble by another method of marginalising, or with other draws."""

    @property
    @abstractmethod
    def evidence(self) -> Evidence:
        """The log evidence of the model, its standard error, and how it was obtained."""

    @property
    def is_doubtful(self) -> bool:
        """Whether the evidence and the draws may be wrong, as ``diagnostics["warnings"]`` says."""
        return bool(self.diagnostics["warnings"])

    @property
    def evidence_is_poor(self) -> bool:
        """Whether the log evidence may be wrong by more than about a nat."""
        return not self.log_evidence_error <= 1

    def reference_draws(self, random_seed: Seed = None) -> Ensemble:
        """Draws from the posterior with which other fits are compared."""
        return self.ensemble

    @property
    def approximations(self) -> Mapping[str, Ensemble]:
        """The ensembles by which predictions may be made, by name; the first is what ``predict`` uses."""
        return {"particles": self.ensemble}

    def to_dataset(self) -> xr.Dataset:
        """The fit as arrays, for a file."""
        raise NotImplementedError(f"files do not hold a {type(self).__name__}")

    @property
    def log_densities(self) -> np.ndarray:
        """Log posterior density of some draws in a file, up to a constant, by which a model is known again."""
        raise NotImplementedError(f"files do not hold a {type(self).__name__}")

    @property
    @abstractmethod
    def center(self) -> np.ndarray:
        """Unconstrained hyperparameters that stand for the fit (P,): the highest mode or particle."""

    @property
    @abstractmethod
    def full_space(self) -> Space:
        """A space whose source is the posterior of all parameters."""

    @property
    def posterior(self) -> Posterior:
        """The log posterior of all parameters, given the data of the fit."""
        return self.full_space.source

    @abstractmethod
    def draw(self, draws: int, random_seed: Seed = None) -> np.ndarray:
        """Unconstrained draws of the hyperparameters, (draws, P)."""

    @abstractmethod
    def given(self, X: np.ndarray, y: np.ndarray, y_sd: np.ndarray | None = None) -> Fit:
        """The fit conditioned on other data (user's units), such as imagined outcomes; the model keeps its own."""

    @abstractmethod
    def _distinct_draws(self, draws: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Hyperparameters (M, P), and rows (draws,) of these, which repeat if factorisations take long."""

    @property
    def _n_distinct(self) -> int:
        """As many draws as differ from each other, or a usual number."""
        return 1000

    def _own_groups(self) -> dict[str, xr.Dataset]:
        return {}

    @cached_property
    def labels(self) -> list[str]:
        """P flat names such as ``"R[0,3]"``, in the order of hyperparameters everywhere."""
        return self.gpm.labels

    @cached_property
    def constrained_center(self) -> dict[str, Any]:
        """:attr:`center` in the user's space: variable name -> number or array, Deterministics included."""
        return {name: v[0] if v.ndim > 1 else float(v[0]) for name, v in self.gpm.constrain(self.center[None]).items()}

    def to_datatree(
        self, draws: int | None = None, random_seed: int | np.random.Generator | None = None
    ) -> xr.DataTree:
        """The fit as ArviZ reads it, with one chain of draws; ``az.loo``, ``az.psense`` and all plots take it as it is.

        ``draws`` are by default 1,000 from a Laplace approximation, and as many as there are particles. More repeat
        particles, and ArviZ, which takes them for new ones, would overstate effective sample sizes. They are
        independent, not a chain that could fail to mix, so ``r_hat`` is NaN.

        * ``posterior``: in the user's space, independent draws from the Gaussians at all modes, or from the particles;
          ``prior``: as many draws from the prior, fewer for more than 2,000 parameters.
        * ``log_prior``: log prior density of each variable in the user's space, summed over its entries.
        * ``log_likelihood``: observations of a marginal GP are not independent given its hyperparameters, so the terms
          are from leaving one out, log p(y_i | all others, theta) (Sundararajan & Keerthi 2001). With them
          ``az.loo`` estimates what a fit without the observation predicts. They do not add up to the likelihood, which
          is ``log_marginal_likelihood`` in ``sample_stats``: ``az.psense(group="likelihood")`` scales their sum. ArviZ
          warns of a Pareto k above 1 - 1 / log10(draws), 0.58 with 256: fit with more particles where it does.
        * ``posterior_predictive``: each observation drawn anew given all others and theta. That is what LOO-PIT needs,
          and a check that uses no observation twice. Data sets of ``pm.sample_posterior_predictive``, drawn given theta
          alone, know nothing of the function seen.
          ``prior_predictive``: whole data sets at the same X, N(mean, K + noise), given draws from the prior.
        * ``sample_stats``: ``lp``, the log density on the unconstrained space.
        * ``observed_data``, ``constant_data``: the data of the fit.
        * ``fit``, for a Laplace approximation: ``mean_vector`` and, up to 1,000 parameters, ``covariance_matrix`` and
          ``hessian`` of the highest mode.

        An improper prior, or a model with potentials, has no ``prior`` and ``prior_predictive``. With many observations
        draws repeat, and the draws of ``prior_predictive`` are fewer. The attributes of ``sample_stats`` are the
        diagnostics and the log evidence.
        """
        draws = self._n_distinct if draws is None else count("draws", draws)
        rng = np.random.default_rng(random_seed)
        thetas, rows = self._distinct_draws(draws, rng)
        seed = int(rng.integers(2**31))
        groups = arviz_groups(self.gpm, self.posterior, thetas, rows[None], self.data, seed)
        attrs = self._plain_diagnostics()
        logs = {"log_evidence": self.log_evidence, "log_evidence_error": self.log_evidence_error}
        groups["sample_stats"].attrs = attrs | logs
        return xr.DataTree.from_dict(groups | self._own_groups())

    def _parameters(self) -> list[pd.DataFrame]:
        """The tables of a summary."""
        table = table_of_draws(self.gpm, self.draw(_SHOWN, 0))
        return [table] if len(table) else []

    def _data_shown(self) -> str:
        inputs = self.gpm.inputs if self.gpm.space is None else self.gpm.space.names
        return f"{len(self.y)} points, {len(inputs)} input(s)"

    def _plain_diagnostics(self) -> dict[str, Any]:
        """Diagnostics as attributes of a file."""
        return {k: int(v) if isinstance(v, bool) else v for k, v in self.diagnostics.items() if k != "warnings"}


def table_of_draws(gpm: Any, thetas: np.ndarray) -> pd.DataFrame:
    """Medians, sds and central 89 % intervals of scalars and vectors of a model, from draws (S, P).

    One row for each entry, such as ``lengthscale[acid]``. Matrices such as an embedding's R are left out, and so is
    ``log_noise`` if there is ``noise``, and what has a value in original units; ``mean_constant_original_units`` is
    called ``mean``.
    """
    with np.errstate(all="ignore"):
        drawn = {
            name: np.asarray(values, float)
            for name, values in gpm.constrain(thetas).items()
            if name not in getattr(gpm, "of_rows", ())
        }
        groups = [] if gpm.space is None else [group.name for group in gpm.space.groups]
        names_of = {len(names): names for names in (groups, gpm.inputs)}
    rows, suffix = {}, "_original_units"
    names = [name for name, values in drawn.items() if values.ndim < 3]
    hidden = {f"log_{name}" for name in names} | {name.removesuffix(suffix) for name in names if name.endswith(suffix)}
    for name in [name for name in names if name not in hidden]:
        values, name = drawn[name], name.removesuffix(suffix).replace("mean_constant", "mean")
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
