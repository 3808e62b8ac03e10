"""Take any ``pm.gp.Latent`` model that the user wrote."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import pymc as pm
from pymc.exceptions import UndefinedMomentException

from pymc_active.likelihoods.compiled import CompiledLikelihood
from pymc_active.models.gpmodel import GPModel
from pymc_active.models.latent import read_sizes
from pymc_active.models.latent_checks import OTHERS, check_likelihood, outcome_of, size_name, size_of
from pymc_active.models.marginal import check_diagonal, check_parameters, embedding_name, input_names, shared_variable
from pymc_active.models.pymc_model import PyMCModel, data_value
from pymc_active.posterior.latent_graph import LatentGraphPosterior, LatentGraphs
from pymc_active.posterior.outcome_graphs import OutcomeGraphs
from pymc_active.support.data import Data
from pymc_active.support.tables import read_inputs, read_outputs


class LatentModel(PyMCModel):
    """A PyMC model with a latent GP, whose values at the data, ``integrated``, are no parameters."""

    likelihood: CompiledLikelihood

    def __init__(self, integrated, outcome, model, gp, X_data, y_data, inputs, embedding, sizes):
        self.integrated = frozenset({integrated})
        super().__init__(model, gp, outcome.name, X_data, y_data, inputs, embedding, sizes)
        graphs = OutcomeGraphs(model, outcome, gp.f, sizes, self.shapes)
        if model.rvs_to_values[model[integrated]] in graphs.roots:
            raise ValueError(f"{self.name!r} depends on {integrated!r} not through {gp.f.name!r} alone")
        parts = dict(zip(self.shapes, self._slices(), strict=True))
        places = [np.arange(self.n_parameters)[parts[value.name]] for value in graphs.used]
        self._of_likelihood = np.concatenate([np.empty(0, int), *places])
        labels = [self.labels[k] for k in self._of_likelihood]
        try:
            self.likelihood = graphs.likelihood(labels, None if sizes is None else size_name(outcome))
        except (NotImplementedError, UndefinedMomentException) as error:
            raise ValueError(
                f"PyMC has no mean of {graphs.name}, or no log density with two derivatives ({error}). {OTHERS}"
            ) from error
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"the distribution of {self.name!r} cannot be taken row by row ({error}): what each row has, such as "
                f"trials or an exposure, must be one pm.Data, and no row may depend on others. {OTHERS}"
            ) from error

    @cached_property
    def free_variables(self):
        # A user may add others later, such as gp.conditional.
        return super().free_variables

    def make(self):
        raise ValueError(f"graphs are of marginal Gaussian processes; this is a latent one with {self.likelihood.name}")

    def read_known(self, n, X=None, y_sd=None, **sizes):
        return read_sizes(self.likelihood, sizes, y_sd, n, X)

    def check_outcomes(self, y, y_sd=None):
        self.likelihood.read(y, y_sd)

    def _set_data(self, X, y, y_sd):
        self.check_outcomes(y, y_sd)
        super()._set_data(X, y, None if self.y_sd_data is None else Data(X, y, y_sd).sizes)

    def _posterior(self, holders, compile_kwargs):
        graphs = LatentGraphs(self.model, self.gp, self.name, self.shapes)
        given = self.likelihood, self._of_likelihood
        return LatentGraphPosterior(*self.data, graphs, holders, compile_kwargs, *given)


def from_latent(gp: pm.gp.Latent, name: str | None = None, *, model: pm.Model | None = None) -> GPModel:
    """Take a model with a latent GP as you wrote it in PyMC: any covariance, mean, priors and log-concave likelihood.

    Values of the function are integrated out by expectation propagation, so that only hyperparameters are searched or
    drawn. New rows are predicted by the GP given these. It keeps your units and changes nothing in the model. If X and
    y are ``pm.Data``, ``set_data`` and learners work; with constants all else does. Trials of a ``pm.Binomial``, or an
    exposure that the expected outcome is proportional to, are one more ``pm.Data`` with a number for each row; they
    are 1 at new rows unless ``y_trials`` or ``exposure`` says otherwise. Variances of outcomes are sums, right to a few
    percent. The kernel and the likelihood are compiled
    graphs, so that a fit takes longer than of a builder's model of the same kind, as
    ``pma.ard_gp(X, y, likelihood="poisson")``.

    Parameters
    ----------
    gp : pm.gp.Latent
        Call its ``prior`` first.
    name, model : str, pm.Model
        Name of the outcome or of the latent function, by default the only ones; the model, by default that on the
        context stack.

    Raises
    ------
    TypeError, ValueError
        If ``gp`` is no ``pm.gp.Latent`` with a prior of one function in the model; there is not one observed variable
        that depends on it row by row; anything else depends on the function, or the outcome on inputs besides; the
        expected outcome does not increase with the function, or depends on other parameters; the likelihood is not
        log-concave; or a parameter is discrete.

    Examples
    --------
    >>> import numpy as np, pymc as pm
    >>> import pymc_active as pma
    >>> with pm.Model() as model:
    ...     X = pm.Data("X", np.linspace(0, 1, 5)[:, None])
    ...     gp = pm.gp.Latent(cov_func=pm.gp.cov.Matern52(1, ls=pm.LogNormal("ls", 0, 1)))
    ...     f = gp.prior("f", X=X)
    ...     _ = pm.Bernoulli("y", logit_p=f, observed=pm.Data("y_data", np.array([0, 0, 1, 0, 1])))
    >>> gpm = pma.from_latent(gp, "y", model=model)
    >>> gpm.labels
    ['ls_log__']
    >>> found = pma.predict(pma.fit(gpm, random_seed=1, progressbar=False), np.array([[0.1], [0.9]]))
    >>> bool(found.y_mean[0] < found.y_mean[1])
    True
    """
    if not isinstance(gp, pm.gp.Latent) or isinstance(gp, pm.gp.TP):
        raise TypeError(
            f"gp must be a pm.gp.Latent; got {type(gp).__name__}. pma.from_marginal takes a pm.gp.Marginal; {OTHERS}"
        )
    model = pm.Model.get_context(error_if_none=False) if model is None else model
    if not isinstance(model, pm.Model):
        raise TypeError(f"from_latent needs the pm.Model that gp is in: pass model=; got {type(model).__name__}")
    if not hasattr(gp, "f"):
        raise ValueError("call gp.prior(name, X=...) before from_latent")
    if gp.n_outputs != 1 or gp.f.type.ndim != 1:
        raise ValueError("gp.prior has several outputs: take one, or one pm.gp.Latent with a pm.gp.cov.Coregion")
    names, f = [variable.name for variable in model.free_RVs], gp.f.name
    integrated = next((one for one in (f"{f}_rotated_", f) if one in names), None)
    if integrated is None or model[f] is not gp.f:
        raise ValueError(f"{f!r}, the function of gp, is not in this model: pass the model in which gp was made")
    outcome = outcome_of(model, gp, name, model[integrated])
    check_parameters(gp, model, {integrated})

    X, y = data_value(gp.X), model.rvs_to_values[outcome]
    read_inputs(X)
    read_outputs(data_value(y), len(X))
    X_data, y_data = shared_variable(gp.X), shared_variable(y)
    inputs, embedding = input_names(gp.X, X.shape[1], model), embedding_name(gp.cov_func, model)
    sizes = size_of(model, gp, outcome, X_data, y_data, len(X))
    made = LatentModel(integrated, outcome, model, gp, X_data, y_data, inputs, embedding, sizes)
    made.check_mean()
    check_diagonal(made, X)
    check_likelihood(made)
    return made
