"""Take a ``pm.gp.Latent`` model that the user wrote, with one of the library's likelihoods."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.graph.traversal import ancestors
from pytensor.graph.utils import MissingInputError
from pytensor.tensor.random.basic import BernoulliRV, BinomialRV, NegBinomialRV, NormalRV, PoissonRV, StudentTRV
from pytensor.tensor.sharedvar import TensorSharedVariable

from pymc_active.likelihoods.base import Likelihood
from pymc_active.likelihoods.binary import Bernoulli, Binomial, LogitBernoulli, LogitBinomial
from pymc_active.likelihoods.counts import NegativeBinomial, Poisson
from pymc_active.likelihoods.student_t import StudentT
from pymc_active.models.gpmodel import GPModel
from pymc_active.models.marginal import check_diagonal, check_parameters, embedding_name, input_names, shared_variable
from pymc_active.models.pymc_model import PyMCModel, data_value
from pymc_active.posterior.latent_graph import LatentGraphPosterior, LatentGraphs
from pymc_active.posterior.recognised import by_arrays
from pymc_active.support.data import Data
from pymc_active.support.tables import read_inputs, read_outputs

OTHERS = "pma.fit(model) and pma.Learner(model, ...) take any model with a pm.gp.HSGP in place of the pm.gp.Latent"
# By the kind of random variable: what may be meant, and the likelihood's parameters in terms of the distribution's.
_KINDS: dict[type, tuple[tuple[type[Likelihood], ...], Any]] = {
    BernoulliRV: ((LogitBernoulli, Bernoulli), lambda p: []),
    BinomialRV: ((LogitBinomial, Binomial), lambda n, p: []),
    PoissonRV: ((Poisson,), lambda mu: []),
    NegBinomialRV: ((NegativeBinomial,), lambda alpha, p: [pt.log(alpha)]),
    StudentTRV: ((StudentT,), lambda nu, mu, sigma: [pt.log(sigma), pt.log(nu - 2)]),
}
# Where log densities are compared, and how far they may differ.
_DRAWS, _SAME = 8, 1e-6


def recognised(graphs: LatentGraphs, sizes: np.ndarray | None, n: int) -> Likelihood:
    """The likelihood that is the distribution of n outcomes with such sizes (n,); a ValueError if there is none."""
    kinds, parameters = _KINDS[type(graphs.rv.owner.op)]
    log_densities = graphs.log_densities(parameters(*graphs.rv.owner.op.dist_params(graphs.rv.owner)))
    rng = np.random.default_rng(0)
    theta, f = rng.normal(size=(_DRAWS, graphs.n_parameters)), rng.normal(scale=1.5, size=(_DRAWS, n))
    # Learners may bring other sizes than the data have.
    size = np.ones(f.shape) if sizes is None else sizes * rng.integers(1, 4, size=f.shape)
    values = log_densities(theta, f, np.ones(f.shape), size)[1]
    if not np.isfinite(values).all():
        raise ValueError("a parameter of the distribution has no logarithm, or nu of pm.StudentT may be 2 or less")
    phi = list(values.T[:, :, None])
    for likelihood in (kind() for kind in kinds):
        y = likelihood.draw(f, size, phi, rng)
        expected = likelihood.log_density(f, y, size, phi)
        if np.allclose(log_densities(theta, f, y, size)[0], expected, rtol=_SAME, atol=_SAME):
            return likelihood
    raise ValueError("the log density is another function of the latent one")


class LatentModel(PyMCModel):
    """A PyMC model with a latent GP, whose values at the data, ``integrated``, are no parameters."""

    likelihood: Likelihood

    def __init__(self, integrated, model, gp, name, X_data, y_data, inputs, embedding, sizes):
        self.integrated = frozenset({integrated})
        super().__init__(model, gp, name, X_data, y_data, inputs, embedding, sizes)
        _, y, of_rows = self.data
        try:
            self.graphs = LatentGraphs(model, gp, name, self.shapes, sizes)
            self.likelihood = recognised(self.graphs, of_rows, len(y))
        except (NotImplementedError, TypeError, ValueError, MissingInputError) as error:
            raise not_recognised(name, gp, str(error).partition("\n")[0]) from error
        if sizes is not None:
            self.read_known(len(y), **{str(self.likelihood.size_name): of_rows})
        self.likelihood.read(y, of_rows)

    def make(self):
        raise ValueError(f"graphs are of marginal Gaussian processes; this is a latent one with {self.likelihood.name}")

    def _set_data(self, X, y, y_sd):
        self.check_outcomes(y, y_sd)
        if y_sd is not None and self.y_sd_data is None:
            raise ValueError(f"this PyMC model has no pm.Data for {self.likelihood.size_name}: make one of ones")
        super()._set_data(X, y, None if self.y_sd_data is None else Data(X, y, y_sd).sizes)

    def _posterior(self, holders, compile_kwargs):
        posterior = LatentGraphPosterior(*self.data, self.graphs, holders, compile_kwargs, self.likelihood)
        return by_arrays(posterior) if compile_kwargs is None else posterior


def not_recognised(name: str, gp: Any, why: str) -> ValueError:
    """The error for an outcome whose distribution is none of the library's."""
    f = gp.f.name
    return ValueError(
        f"the distribution of {name!r} is not recognised ({why}). It may be pm.Bernoulli or pm.Binomial, logit_p={f} "
        f"or p=pm.math.invprobit({f}), pm.Poisson or pm.NegativeBinomial with mu=exp({f}), or pm.StudentT with mu={f} "
        "and nu above 2; the n of pm.Binomial, or an exposure, is one pm.Data with a number a row. An intercept "
        f"belongs into the mean_func of gp, a factor into its cov_func, another GP into a sum of GPs. {OTHERS}"
    )


def outcome_of(model: pm.Model, gp: pm.gp.Latent, name: str | None, latent: Any) -> Any:
    """The observed variable that depends on the function, as nothing else does; ``latent`` are its values."""
    f, observed = gp.f, {v.name: v for v in model.observed_RVs}
    if name not in (None, f.name, *observed):
        raise ValueError(f"the model has no observed variable {name!r}; it has {sorted(observed) or 'none'}")
    # What no data depend on are predictions, such as of gp.conditional.
    told = [*model.observed_RVs, *model.potentials]
    told += set(model.free_RVs) & set(ancestors(told)) - {latent}
    outcomes = [v for v in told if {f, latent} & set(ancestors([v]))]
    if len(outcomes) != 1 or outcomes[0].name not in ([name] if name in observed else observed):
        names = ", ".join(sorted(str(v.name) for v in outcomes)) or "nothing"
        wanted = repr(name) if name in observed else "one observed variable"
        raise ValueError(f"{wanted}, and nothing else, must depend on {f.name!r}; here does {names}. {OTHERS}")
    [outcome] = outcomes
    if isinstance(outcome.owner.op, NormalRV):
        raise ValueError(f"{outcome.name!r} is normal: pm.gp.Marginal and pma.from_marginal(gp) are exact for it")
    if type(outcome.owner.op) not in _KINDS or outcome.type.ndim != 1:
        raise not_recognised(outcome.name, gp, f"{outcome.type.ndim} dimension(s), {outcome.owner.op}")
    return outcome


def size_of(gp: pm.gp.Latent, outcome: Any, X_data: Any, y_data: Any, n: int) -> Any:
    """The pm.Data that has a number for each row of the outcome, besides its function; None without, or of several."""
    # The shape of an outcome is that of its data.
    roots = [v for v in {*ancestors([outcome], blockers=[gp.f])} if isinstance(v, TensorSharedVariable)]
    others = [v for v in roots if v is not X_data and v is not y_data]
    sizes = [v for v in others if v.type.ndim == 1 and len(data_value(v)) == n]
    return sizes[0] if len(sizes) == 1 else None


def from_latent(gp: pm.gp.Latent, name: str | None = None, *, model: pm.Model | None = None) -> GPModel:
    """Take a model with a latent GP as you wrote it in PyMC: any covariance, mean and continuous priors.

    Values of the function are integrated out by expectation propagation, as in builders' models with a ``likelihood``,
    so that only hyperparameters are searched or drawn. It keeps your units and changes nothing in the model. If X and y
    are ``pm.Data``, ``set_data`` and learners work; with constants all else does. The outcome, given ``f``, is

    - ``pm.Bernoulli``, with ``logit_p=f`` or ``p=pm.math.invprobit(f)``;
    - ``pm.Binomial``, with the same and ``n`` a ``pm.Data`` with a number for each row;
    - ``pm.Poisson`` or ``pm.NegativeBinomial``, with ``mu=exp(f)`` or an exposure, a ``pm.Data``, times that;
    - ``pm.StudentT``, with ``mu=f``, and ``nu`` above two, as ``2 + pm.Exponential("nu_above_2", 0.2)``.

    Other parameters, ``alpha``, ``sigma`` and ``nu``, are any functions of yours. Log densities at random values are
    compared with the library's, so other ways to write the same are accepted too. Trials and exposures are 1 at new
    rows unless ``y_trials`` or ``exposure`` says otherwise.

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
        If ``gp`` is no ``pm.gp.Latent`` with a prior of one function in the model; not one observed variable, and
        nothing else, depends on it; its distribution is none of these, as with an intercept beside ``f``; or a
        parameter is discrete.

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
    sizes = size_of(gp, outcome, X_data, y_data, len(X))
    made = LatentModel(integrated, model, gp, outcome.name, X_data, y_data, inputs, embedding, sizes)
    made.check_mean()
    check_diagonal(made, X)
    return made
