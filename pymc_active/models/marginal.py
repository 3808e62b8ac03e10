"""Take any ``pm.gp.Marginal`` model that the user wrote."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.distribution import PartialObservedRV
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.traversal import ancestors
from pytensor.tensor.random.basic import MvNormalRV
from pytensor.tensor.random.op import RNGConsumerOp

from pymc_active.kernels.cov import Embedding, Rescaled
from pymc_active.models.gpmodel import GPModel
from pymc_active.models.pymc_model import PyMCModel, data_value
from pymc_active.posterior.exact_distances import with_exact_distances
from pymc_active.support.tables import read_inputs, read_outputs

# Rows at which a covariance is looked at, and what single precision rounds, in parts of the largest variance.
_SOME, _ROUNDED = 50, 1e-4


def from_marginal(gp: pm.gp.Marginal, name: str | None = None, *, model: pm.Model | None = None) -> GPModel:
    """Take a marginal GP model as you wrote it in PyMC, with any covariance, mean and continuous priors.

    It keeps your units. If X and y are ``pm.Data``, ``set_data`` and learners work; with constants all else does. New
    rows are labelled 0, 1, ... in coordinates of the rows. The model may have several GPs, also of one X; to replace
    the data of one, give each a ``pm.Data`` of its own. Other likelihoods count as part of the prior. Several outputs
    are one GP with ``pm.gp.cov.Coregion``: a column of X has their numbers, 0, 1, ..., and a learner needs a pool.

    Sums and products of PyMC's ExpQuad, Matern, RatQuad, Periodic, Linear and Constant, with a noise that is the same
    everywhere and a zero, constant or linear mean, are computed about as fast as a builder's model, after three or four
    seconds of compiling. Any other kernel is a compiled graph, several times as slow.

    Parameters
    ----------
    gp : pm.gp.Marginal
        Call its ``marginal_likelihood`` first. PyMC adds 1e-6 to the diagonal unless ``jitter=0`` is passed there.
    name, model : str, pm.Model
        Name of the likelihood, by default the only one; the model, by default that on the context stack.

    Raises
    ------
    TypeError, ValueError
        If ``gp`` is not a ``pm.gp.Marginal``, or a ``MarginalApprox``, whose likelihood is another; there is no model;
        the likelihood does not exist, is not observed, or is not that of gp's last call; there are several and none is
        named; no parameter is free; its noise or mean
        cannot be evaluated at new points; the covariance's ``diag`` is not the diagonal of ``full``; or a parameter is
        discrete.

    Examples
    --------
    >>> import numpy as np, pymc as pm
    >>> import pymc_active as pma
    >>> with pm.Model() as model:
    ...     gp = pm.gp.Marginal(cov_func=pm.gp.cov.ExpQuad(1, ls=pm.LogNormal("ls", 0, 1)))
    ...     X = pm.Data("X", np.linspace(0, 1, 5)[:, None])
    ...     _ = gp.marginal_likelihood("y", X=X, y=pm.Data("y_data", np.zeros(5)), sigma=0.1)
    >>> pma.from_marginal(gp, "y", model=model).labels
    ['ls_log__']
    """
    if not isinstance(gp, pm.gp.Marginal):
        raise TypeError(f"gp must be a pm.gp.Marginal; got {type(gp).__name__}: see pma.from_latent and pma.fit(model)")
    if isinstance(gp, pm.gp.MarginalApprox):
        raise TypeError("gp is a pm.gp.MarginalApprox: take pm.gp.Marginal, of pma.informative_rows if there are many")
    model = pm.Model.get_context(error_if_none=False) if model is None else model
    if not isinstance(model, pm.Model):
        raise TypeError(f"from_marginal needs the pm.Model that gp is in: pass model=; got {type(model).__name__}")
    if not hasattr(gp, "X"):
        raise ValueError("call gp.marginal_likelihood(name, X=..., y=..., sigma=...) before from_marginal")
    observed = {variable.name: variable for variable in model.observed_RVs}
    if name is None and len(observed) == 1:
        [name] = observed
    if name is None and observed:
        raise ValueError(f"name the likelihood of gp: the model has the observed variables {sorted(observed)}")
    rv = observed.get(name, observed.get(f"{name}_observed"))
    if rv is not None and isinstance(rv.owner.op, PartialObservedRV):
        raise ValueError(f"the y of {name!r} has missing values, which PyMC imputes: leave these rows out of X and y")
    if name is None or name not in observed:
        raise ValueError(f"the model has no observed variable {name!r}; it has {sorted(observed) or 'none'}")
    likelihood = observed[name]
    if not isinstance(likelihood.owner.op, MvNormalRV):
        raise ValueError(f"{name!r} is not a marginal GP likelihood but {likelihood.owner.op}")
    check_parameters(gp, model)

    X_data, y_data = gp.X, model.rvs_to_values[likelihood]
    X = read_inputs(data_value(X_data))
    read_outputs(data_value(y_data), len(X))
    inputs = input_names(X_data, X.shape[1], model)
    embedding = embedding_name(gp.cov_func, model)
    made = PyMCModel(model, gp, name, shared_variable(X_data), shared_variable(y_data), inputs, embedding)
    made.check_mean()
    _check_noise(made, X)
    if sum(isinstance(variable.owner.op, MvNormalRV) for variable in observed.values()) > 1:
        _check_likelihood(made, likelihood)
    check_diagonal(made, X)
    return made


def check_parameters(gp: Any, model: pm.Model, integrated: Iterable[str] = ()) -> None:
    """Refuse a GP with parameters of another model, or a model without continuous ones, besides ``integrated``."""
    if set(integrated) >= {variable.name for variable in model.free_RVs}:
        raise ValueError("the model has no free parameters to fit: pma.ard_gp with numbers as priors makes one")
    discrete = [variable.name for variable in model.discrete_value_vars]
    if discrete:
        raise ValueError(f"hyperparameters must be continuous, and these are discrete: {discrete}")

    at = pt.as_tensor_variable(gp.X)
    # Not through the model's own variables: many distributions are made of others.
    own = set(model.basic_RVs)
    used = ancestors([gp.cov_func(at), pt.as_tensor_variable(gp.mean_func(at))], blockers=own)
    foreign = [one for one in used if one not in own and one.owner and isinstance(one.owner.op, RNGConsumerOp)]
    if foreign:
        names = ", ".join(sorted({str(one.name) for one in foreign if one.name})) or "random variables"
        raise ValueError(f"gp is not in this model, which lacks its {names}: pass the model in which gp was made")


def input_names(X_data: Any, width: int, model: pm.Model) -> list:
    """The model's coordinate of the columns of X, else 0, 1, ..."""
    dims: tuple = tuple(model.named_vars_to_dims.get(getattr(X_data, "name", None)) or ())
    labels = model.coords.get(dims[1]) if len(dims) == 2 else None
    return list(range(width)) if labels is None else list(labels)


def shared_variable(variable: Any) -> Any:
    """The shared variable behind a model's data, through casts; the variable itself if there is none."""
    root = variable
    while not isinstance(root, SharedVariable):
        owner = getattr(root, "owner", None)
        if owner is None or len(owner.inputs) != 1:
            return variable
        root = owner.inputs[0]
    return root if root.type.ndim == variable.type.ndim else variable


def embedding_name(cov_func: Any, model: pm.Model) -> str | None:
    """Name of the value variable that is the R of an Embedding somewhere in the covariance."""
    if isinstance(cov_func, Embedding):
        value = model.rvs_to_values.get(cov_func.R)
        return None if value is None or model.rvs_to_transforms.get(cov_func.R) is not None else value.name
    children = getattr(cov_func, "_factor_list", [cov_func.base] if isinstance(cov_func, Rescaled) else [])
    names = [embedding_name(child, model) for child in children]
    return next((name for name in names if name), None)


def _check_noise(made: PyMCModel, X: np.ndarray) -> None:
    """Refuse a noise that exists at the training points only."""
    shape, cause = made.shape_at_new_rows(lambda rows: made.gp.sigma(rows, diag=True))
    if shape != (len(X) + 1,):
        shown = shape or np.shape(made.gp.sigma) or "which no other rows fit"
        raise ValueError(
            "sigma cannot be evaluated at new points: a vector or matrix of noise values belongs to the training rows "
            f"only ({shown}). Pass a scalar sigma or a covariance function of X: for known error bars, make them a "
            "column of X and sigma=pma.cov.ErrorBars(input_dim, column)"
        ) from cause


def _check_likelihood(made: PyMCModel, likelihood: Any) -> None:
    """Refuse the likelihood of another GP, or of an earlier call, X and noise of which ``gp`` no longer has."""
    gp, parameters = made.gp, likelihood.owner.op.dist_params(likelihood.owner)
    for own, of_gp in zip(parameters, (gp.mean_func(gp.X), gp.cov_func(gp.X) + gp.sigma(gp.X)), strict=True):
        values = made.value_of(own), made.value_of(of_gp)
        # PyMC adds a jitter.
        if not np.allclose(*values, 0, _ROUNDED * np.abs(values[0]).max()):
            raise ValueError(f"{made.name!r} is the likelihood of another pm.gp.Marginal, or of an earlier call of it")


def check_diagonal(made: PyMCModel, X: np.ndarray) -> None:
    """Refuse a covariance function whose ``diag`` is another one than its ``full``, which predictions mix."""
    rows = pt.as_tensor_variable(X[:_SOME])
    covariance = with_exact_distances(made.gp.cov_func)
    full, diag = (made.value_of(covariance(rows, diag=is_diag)) for is_diag in (False, True))
    variances = np.diagonal(full)
    same = diag.shape in ((), variances.shape) and np.isclose(diag, variances, 0, _ROUNDED * np.nanmax(np.abs(full)))
    if not np.all(same | np.isnan(variances)):
        raise ValueError(
            "the covariance function's diag(X) must be the diagonal of full(X), the variances that predictions are "
            f"made; got {diag.ravel()[:3]}, shape {diag.shape}, in place of {variances[:3]}, shape {variances.shape}: "
            f"correct diag of {type(made.gp.cov_func).__name__} or of its parts"
        )
