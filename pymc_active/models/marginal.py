"""Any ``pm.gp.Marginal`` model that a user wrote."""

from __future__ import annotations

import numpy as np
import pymc as pm
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.tensor.random.basic import MvNormalRV

from pymc_active.kernels.cov import Embedding, Rescaled
from pymc_active.models.gpmodel import GPModel, data_value
from pymc_active.posterior.compile_mode import vm_mode
from pymc_active.posterior.graph import GPGraphs, GraphPosterior
from pymc_active.support.scaling import fit_scale
from pymc_active.support.tables import read_inputs, read_outputs


def from_marginal(gp: pm.gp.Marginal, name: str, *, model: pm.Model | None = None) -> GPModel:
    """Take a marginal GP model as the user wrote it.

    Parameters
    ----------
    gp : pm.gp.Marginal
        Its ``marginal_likelihood`` must have been called. Any covariance, mean and priors; note that PyMC adds
        1e-6 to the diagonal unless ``jitter=0`` was passed.
    name : str
        Name of the likelihood.
    model : pm.Model, optional
        Default: the model on the context stack.

    Returns
    -------
    GPModel
        In the model's own units. If X and y are ``pm.Data``, ``set_data`` works; with constants everything else does.

    Raises
    ------
    TypeError
        If ``gp`` is no ``pm.gp.Marginal``.
    ValueError
        If the likelihood is not there, is not observed, or its noise cannot be evaluated at new points.

    Examples
    --------
    >>> import numpy as np, pymc as pm
    >>> import pymc_active as pma
    >>> with pm.Model() as model:
    ...     gp = pm.gp.Marginal(cov_func=pm.gp.cov.ExpQuad(1, ls=pm.LogNormal("ls", 0, 1)))
    ...     X = pm.Data("X", np.linspace(0, 1, 5)[:, None])
    ...     _ = gp.marginal_likelihood("y", X=X, y=pm.Data("y_data", np.zeros(5)), sigma=0.1)
    >>> pma.from_marginal(gp, "y", model=model)
    <GPModel y: 5 points, 1 inputs; parameters ls>
    """
    if not isinstance(gp, pm.gp.Marginal):
        raise TypeError(f"gp must be a pm.gp.Marginal; got {type(gp).__name__}")
    model = pm.modelcontext(model)
    if not hasattr(gp, "X"):
        raise ValueError("call gp.marginal_likelihood(name, X=..., y=..., sigma=...) before from_marginal")
    observed = {variable.name: variable for variable in model.observed_RVs}
    if name not in observed:
        raise ValueError(f"the model has no observed variable {name!r}; it has {sorted(observed) or 'none'}")
    likelihood = observed[name]
    if not isinstance(likelihood.owner.op, MvNormalRV):
        raise ValueError(f"{name!r} is not a marginal GP likelihood but {likelihood.owner.op}")
    if not model.free_RVs:
        raise ValueError("the model has no free parameters: there is nothing to fit")
    discrete = [variable.name for variable in model.discrete_value_vars]
    if discrete:
        raise ValueError(f"a Laplace approximation needs continuous parameters; these are discrete: {discrete}")

    X_data, y_data = gp.X, model.rvs_to_values[likelihood]
    X = read_inputs(data_value(X_data))
    y = read_outputs(data_value(y_data), len(X))

    gpm = GPModel(
        model,
        gp,
        name,
        X_data=_shared(X_data),
        y_data=_shared(y_data),
        inputs=_input_names(X_data, X.shape[1], model),
        x_map=fit_scale(None, X, "x_scale"),
        y_map=fit_scale(None, y, "y_scale"),
        build_posterior=graph_posterior,
        embedding=_embedding_name(gp.cov_func, model),
        description=name,
    )
    _check_noise(gpm)
    return gpm


def graph_posterior(gpm: GPModel, compile_kwargs: dict | None) -> GraphPosterior:
    """The graph route for a model."""
    X_data, y_data = (data if isinstance(data, SharedVariable) else None for data in (gpm._X_data, gpm._y_data))
    return GraphPosterior(GPGraphs(gpm.model, gpm.gp, gpm.name, gpm.shapes), X_data, y_data, compile_kwargs)


def _input_names(X_data, width: int, model: pm.Model) -> list:
    """The model's own coordinate of the columns of X, else 0, 1, ..."""
    dims: tuple = tuple(model.named_vars_to_dims.get(getattr(X_data, "name", None)) or ())
    labels = model.coords.get(dims[1]) if len(dims) == 2 else None
    return list(range(width)) if labels is None else list(labels)


def _shared(variable):
    """The shared variable behind a model's data, through casts; the variable itself if there is none."""
    root = variable
    while not isinstance(root, SharedVariable):
        owner = getattr(root, "owner", None)
        if owner is None or len(owner.inputs) != 1:
            return variable
        root = owner.inputs[0]
    return root if root.type.ndim == variable.type.ndim else variable


def _embedding_name(cov_func, model: pm.Model) -> str | None:
    """Name of the value variable that is the R of an Embedding somewhere in the covariance."""
    if isinstance(cov_func, Embedding):
        value = model.rvs_to_values.get(cov_func.R)
        return None if value is None or model.rvs_to_transforms.get(cov_func.R) is not None else value.name
    children = getattr(cov_func, "_factor_list", [cov_func.base] if isinstance(cov_func, Rescaled) else [])
    names = [_embedding_name(child, model) for child in children]
    return next((name for name in names if name), None)


def _check_noise(gpm: GPModel) -> None:
    """Refuse a noise that exists only at the training points."""
    probe = gpm.X[np.arange(len(gpm.X) + 1) % len(gpm.X)]
    try:
        noise = gpm.gp.sigma(probe, diag=True)
        [noise] = gpm.model.replace_rvs_by_values([noise])
        point = {variable: np.ones(gpm.shapes[variable.name]) for variable in gpm.model.value_vars}
        shape = noise.eval(point, mode=vm_mode(), on_unused_input="ignore").shape
    except Exception as error:  # PyTensor raises many kinds for a shape it cannot fit
        shape = error
    if shape != (len(probe),):
        raise ValueError(
            "sigma cannot be evaluated at new points: a vector or matrix of noise values belongs to the training rows "
            f"only ({shape}). Pass a scalar sigma or a covariance function of X, e.g. pm.gp.cov.WhiteNoise(sigma) or "
            "your own pm.gp.cov.Covariance."
        )
