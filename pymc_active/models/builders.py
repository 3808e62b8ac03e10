"""Builders: a PyMC model for each kind of Gaussian process, with default priors stated for scaled data."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pytensor.tensor.random.type import RandomType
from pytensor.tensor.variable import TensorVariable

from pymc_active.kernels import arrays
from pymc_active.kernels.cov import Embedding, Rescaled
from pymc_active.kernels.expressions import BASE_KERNELS, Base, Expression, Sum, base_kernels, numbered, parse
from pymc_active.models.blueprint import ModelPlan, Priors
from pymc_active.models.gpmodel import GPModel
from pymc_active.posterior.array import EmbeddingPosterior, KernelPosterior
from pymc_active.posterior.base import Posterior
from pymc_active.support.scaling import Scale

KERNELS: dict[str, type[pm.gp.cov.Stationary]] = {
    "ExpQuad": pm.gp.cov.ExpQuad,
    "Matern12": pm.gp.cov.Matern12,
    "Matern32": pm.gp.cov.Matern32,
    "Matern52": pm.gp.cov.Matern52,
}


def ard_gp(
    X: Any,
    y: Any,
    *,
    kernel: str = "ExpQuad",
    mean: str | pm.gp.mean.Mean = "zero",
    priors: Priors = None,
    x_scale: Scale = None,
    y_scale: Scale = None,
) -> GPModel:
    """A GP with one lengthscale for each input (automatic relevance determination).

    Parameters
    ----------
    X : array_like, DataFrame or DataArray, shape (n, D)
        Inputs in your units. Column names become the coordinate ``input``.
    y : array_like, shape (n,)
        Outputs in your units. A series has the labels of the rows of ``X``, in their order.
    kernel : {"ExpQuad", "Matern12", "Matern32", "Matern52"}
    mean : {"zero", "constant", "linear"} or pm.gp.mean.Mean
        Of the scaled data; a ``Mean`` object sees X and gives y in your units.
    priors : dict, optional
        By name: a distribution such as ``pm.Normal.dist(0, 1)``, or a number to fix the parameter. The names and
        defaults, for the scaled data, with log meaning the natural logarithm of the standard deviation or length:

        * ``log_lengthscale`` (D,): Normal(log √D, 1)
        * ``log_outputscale``: Normal(0, 1)
        * ``log_noise``: Normal(log 0.1, 1)
        * ``mean_constant``: Normal(0, 1); ``mean_slope`` (D,): Normal(0, 1), where ``mean`` has them
    x_scale, y_scale : None, "unit", "box", "standardize" or (shift, scale)
        Affine maps to [0, 1], to [-1, 1], or to zero mean and unit sd, taken from X and y **now** and frozen.
        Everything reported stays in your units; evidences include the Jacobian -n log(scale of y).

    Returns
    -------
    GPModel

    Raises
    ------
    TypeError, ValueError
        For data that are not finite numbers of matching shape, an unknown kernel, mean or prior.

    Examples
    --------
    >>> import numpy as np
    >>> import pymc_active as pma
    >>> X = np.random.default_rng(0).normal(size=(8, 2))
    >>> pma.ard_gp(X, np.sin(X[:, 0]))
    <GPModel ard_gp(ExpQuad): 8 points, 2 inputs; parameters log_lengthscale, log_outputscale, log_noise>
    """
    _check_kernel(kernel)
    plan = ModelPlan(X, y, priors, x_scale, y_scale)
    D = plan.n_inputs
    plan.parameter("log_lengthscale", 0.5 * np.log(D), 1.0, "input")
    plan.exponential("lengthscale", "log_lengthscale", plan.x_map.scale)
    _add_outputscale(plan, 1.0)

    def covariance(variables: dict[str, Any]) -> pm.gp.cov.BaseCovariance:
        return _scaled(plan, variables, KERNELS[kernel](D, ls=pt.exp(variables["log_lengthscale"])))

    def posterior(**keywords: Any) -> Posterior:
        groups = [(int(i), np.array([d])) for d, i in enumerate(plan.positions("log_lengthscale"))]
        node = arrays.Stationary(kernel, groups, plan.position("log_outputscale"))
        return KernelPosterior(kernel=node, **keywords)

    recipe = plan.recipe("ard_gp", mean, priors, kernel=kernel)
    return plan.finish(covariance, mean, posterior, f"ard_gp({kernel})", recipe)


def embedding_gp(
    X: Any,
    y: Any,
    *,
    n_components: int,
    kernel: str = "ExpQuad",
    mean: str | pm.gp.mean.Mean = "zero",
    prior_scale: float | np.ndarray | None = None,
    priors: Priors = None,
    x_scale: Scale = None,
    y_scale: Scale = None,
) -> GPModel:
    r"""A GP on a learned linear embedding, :math:`f(x) = g(xR^T)` with R of shape (d, D).

    The kernel acts isotropically, with unit lengthscale, on the d components; lengthscales are absorbed by R.

    Parameters
    ----------
    X, y, kernel, mean, x_scale, y_scale
        As in :func:`ard_gp`.
    n_components : int
        d, at most D.
    prior_scale : float or ndarray of shape (D,), optional
        Prior sd of R's entries on the scaled inputs; an array gives each input its own. The default
        ``5/4 * sqrt(3 / D)`` maps x uniform in the box [-1, 1]^D to components with an sd of 5/4, that is to about
        [-2.5, 2.5] or five lengthscales, which is what the paper says it wants. The paper *prints* ``5/4 / D``, under
        which functions are nearly linear and its own figures do not come out.
    priors : dict, optional
        ``R`` (d, D): Normal(0, prior_scale); ``log_outputscale``: Normal(0, 0.5); ``log_noise``: Normal(log 0.1, 0.5);
        the mean's as in :func:`ard_gp`. Rotations of R leave the posterior unchanged as long as its prior is the same
        for every component. The many entries of R can explain few points without any noise, and such a mode overfits.
        That is why two of these priors are narrower than elsewhere; with many inputs state what you know of the
        measurement's error, e.g. ``pm.Normal.dist(np.log(0.03), 0.1)``.

    Returns
    -------
    GPModel
        Its Laplace approximation uses the structure: derivatives are taken in the d components, then chained through X.

    Raises
    ------
    TypeError, ValueError
        As :func:`ard_gp`; if ``n_components`` is not in 1..D; and for ``prior_scale`` beside a prior of R.

    References
    ----------
    .. [1] Garnett, Osborne & Hennig (2014), Active Learning of Linear Embeddings for Gaussian Processes, section 2.

    Examples
    --------
    >>> import numpy as np
    >>> import pymc_active as pma
    >>> X = np.random.default_rng(0).uniform(-1, 1, size=(8, 5))
    >>> gpm = pma.embedding_gp(X, np.sin(X[:, 0]), n_components=2)
    >>> gpm.labels[:2], gpm.labels[-1]
    (['R[0,0]', 'R[0,1]'], 'log_noise')
    """
    _check_kernel(kernel)
    plan = ModelPlan(X, y, priors, x_scale, y_scale)
    D = plan.n_inputs
    if not isinstance(n_components, int | np.integer) or isinstance(n_components, bool):
        raise TypeError(f"n_components must be an integer; got {n_components!r}")
    d = int(n_components)
    if not 1 <= d <= D:
        raise ValueError(f"n_components must be between 1 and the number of inputs, {D}; got {d}")
    if prior_scale is not None and "R" in plan.priors:
        raise ValueError(
            "prior_scale is the sd of the default prior of R, which priors['R'] replaces: give one of the two"
        )
    sd = np.asarray(1.25 * np.sqrt(3 / D) if prior_scale is None else prior_scale, float)
    if sd.shape not in ((), (D,), (d, D)) or not (np.isfinite(sd).all() and (sd > 0).all()):
        raise ValueError(f"prior_scale must be positive, a number or an array of shape ({D},); got {prior_scale!r}")
    plan.coords["component"] = range(d)
    plan.parameter("R", 0.0, sd, "component", "input")
    if not plan.x_map.is_identity:
        plan.rescaled("R_original_units", "R", 1 / plan.x_map.scale)
    _add_outputscale(plan, 0.5)

    def covariance(variables: dict[str, Any]) -> pm.gp.cov.BaseCovariance:
        return _scaled(plan, variables, Embedding(KERNELS[kernel](d, ls=1.0), variables["R"], D))

    def posterior(**keywords: Any) -> Posterior:
        return EmbeddingPosterior(
            profile=kernel,
            shape=(d, D),
            R_start=int(plan.positions("R")[0]),
            log_outputscale=plan.position("log_outputscale"),
            **keywords,
        )

    return plan.finish(
        covariance,
        mean,
        posterior,
        f"embedding_gp({kernel}, d={d})",
        plan.recipe(
            "embedding_gp",
            mean,
            priors,
            kernel=kernel,
            n_components=d,
            prior_scale=None if "R" in plan.priors else sd.tolist(),
        ),
        embedding="R" if not plan.is_fixed("R") else None,
        noise=(np.log(0.1), 0.5),
    )


def _add_outputscale(plan: ModelPlan, sd: float) -> None:
    plan.parameter("log_outputscale", 0.0, sd)
    plan.exponential("outputscale", "log_outputscale", plan.y_map.scale)


def _scaled(plan: ModelPlan, variables: dict[str, Any], cov: pm.gp.cov.BaseCovariance) -> pm.gp.cov.BaseCovariance:
    """A covariance of the scaled inputs, with the output scale, in the user's units."""
    return (pt.exp(variables["log_outputscale"]) * plan.y_map.scale) ** 2 * _on_user_inputs(plan, cov)


def _on_user_inputs(plan: ModelPlan, cov: pm.gp.cov.BaseCovariance) -> pm.gp.cov.BaseCovariance:
    return cov if plan.x_map.is_identity else Rescaled(cov, plan.x_map.shift, plan.x_map.scale)


# Hyperpriors of the toolbox of Malkomes & Garnett on the log scale, (mean, sd), for inputs in [0, 1], standardised y.
_COMPOSITE_PRIORS = {
    "log_lengthscale": (np.log(0.1), 1.0),
    "log_outputscale": (np.log(0.4), 1.0),
    "log_period": (np.log(0.1), np.sqrt(0.5)),
    "log_alpha": (np.log(0.05), np.sqrt(0.5)),
    "location": (0.5, 1.0),
}
_PERIODIC_LENGTHSCALE_PRIOR = (np.log(2.0), np.sqrt(0.5))
# The toolbox's own noise prior all but fixes the noise; the wide one is the default.
_NOISE_PRIORS = {"wide": (np.log(0.1), 1.0), "toolbox": (np.log(0.01), np.sqrt(0.1))}
# What each base kernel has beside its log_outputscale.
_PARAMETERS: dict[str, tuple[str, ...]] = {
    "LIN": ("location",),
    "LIN0": (),
    "MAT12": ("log_lengthscale",),
    "MAT32": ("log_lengthscale",),
    "MAT52": ("log_lengthscale",),
    "PER": ("log_lengthscale", "log_period"),
    "RQ": ("log_lengthscale", "log_alpha"),
    "SE": ("log_lengthscale",),
}
_STATIONARY = {"SE": "ExpQuad", "MAT12": "Matern12", "MAT32": "Matern32", "MAT52": "Matern52"}


def composite_gp(
    X: Any,
    y: Any,
    expression: str | Expression,
    *,
    mean: str | pm.gp.mean.Mean = "constant",
    priors: Mapping[str, Any] | str | None = "wide",
    x_scale: Scale = None,
    y_scale: Scale = None,
) -> GPModel:
    """A GP whose kernel is a sum and product of base kernels, such as ``"LIN + PER * RQ"``.

    Parameters
    ----------
    X, y, mean, x_scale, y_scale
        As in :func:`ard_gp`; the default priors are meant for ``x_scale="unit", y_scale="standardize"``.
    expression : str or Expression
        Text, or a value made with :mod:`pymc_active.kernels`. Base kernels SE, PER, RQ, LIN (with a location), LIN0
        (through the origin), MAT12, MAT32, MAT52, joined by ``+ * ( )``. ``SE[1]`` acts on input 1 only; without an
        index a kernel acts on all inputs, with one lengthscale.
    priors : {"wide", "toolbox"} or dict, optional
        ``"toolbox"`` are the priors of the authors' toolbox. ``"wide"``, the default, are the same but for the noise:
        the toolbox expects a noise sd of about 0.01, which few data cannot overrule. Or a dict by name; what it leaves
        out has the wide priors. Each base kernel has parameters ending in its own name (``log_period_PER``; a base
        kernel that occurs twice is numbered, ``log_lengthscale_SE_1``). A key may also stand for all of a base kernel
        (``log_lengthscale_SE``) or of a kind (``log_lengthscale``), whether this expression has any or not, so that one
        dict serves many expressions; the most specific key counts. On the log scale, mean / sd:
        ``log_lengthscale`` log 0.1 / 1 (PER: log 2 / √0.5, in exp(-2 sin²/lengthscale²)), ``log_outputscale``
        log 0.4 / 1, ``log_period`` log 0.1 / √0.5, ``log_alpha`` log 0.05 / √0.5, ``location`` of LIN 0.5 / 1,
        ``log_noise`` log 0.1 / 1 (toolbox: log 0.01 / √0.1), ``mean_constant`` 0 / 1.

    Returns
    -------
    GPModel

    Raises
    ------
    ValueError
        For malformed expressions (the position is shown), unknown base kernels (the known ones are listed), inputs that
        X lacks, unknown names of priors and whatever :func:`ard_gp` refuses.

    Notes
    -----
    Every factor of a product has an output scale of its own, of which only the prior identifies the split.

    References
    ----------
    .. [1] Malkomes & Garnett (2015), Active Structure Discovery for Gaussian Processes.

    Examples
    --------
    >>> import numpy as np
    >>> import pymc_active as pma
    >>> x = np.linspace(0, 1, 20)
    >>> pma.composite_gp(x[:, None], np.sin(20 * x), "SE * PER").labels[:3]
    ['log_lengthscale_SE', 'log_outputscale_SE', 'log_lengthscale_PER']
    """
    tree = parse(expression)
    if isinstance(priors, str):
        if priors not in _NOISE_PRIORS:
            raise ValueError(f"priors must be one of {', '.join(sorted(_NOISE_PRIORS))} or a dict; got {priors!r}")
        noise, own_priors = _NOISE_PRIORS[priors], None
    else:
        noise, own_priors = _NOISE_PRIORS["wide"], priors
    bases = base_kernels(tree)
    names = numbered([base.name for base in bases])
    plan = ModelPlan(X, y, _spelled_out(own_priors, bases, names), x_scale, y_scale)
    for base in bases:
        if base.input is not None and base.input >= plan.n_inputs:
            raise ValueError(f"{base} needs input {base.input}, but X has inputs 0 to {plan.n_inputs - 1}")
    for base, name in zip(bases, names, strict=True):
        _add_parameters(plan, base, name)

    def covariance(variables: dict[str, Any]) -> pm.gp.cov.BaseCovariance:
        return plan.y_map.scale**2 * _on_user_inputs(plan, _pymc_covariance(tree, plan, iter(names), variables))

    def kernel() -> arrays.Node:
        return _array_kernel(tree, plan, iter(names))

    def posterior(**keywords: Any) -> Posterior:
        return KernelPosterior(kernel=kernel(), **keywords)

    def rebuild(gpm: GPModel, other: Expression) -> GPModel:
        # Numbered names belong to this expression.
        kept = priors if isinstance(priors, str | None) else {k: p for k, p in priors.items() if not _NUMBER.search(k)}
        return composite_gp(
            pd.DataFrame(gpm.X, columns=plan.inputs),
            gpm.y,
            other,
            mean=mean,
            priors=kept,
            x_scale=(plan.x_map.shift, plan.x_map.scale),
            y_scale=(plan.y_map.shift, plan.y_map.scale),
        )

    return plan.finish(
        covariance,
        mean,
        posterior,
        f"composite_gp({tree})",
        plan.recipe("composite_gp", mean, priors, expression=str(tree)),
        noise=noise,
        scaled_inputs="unit",
        expression=tree,
        kernel=kernel,
        rebuild=rebuild,
    )


_NUMBER = re.compile(r"_\d+$")
_SUFFIX = re.compile(rf"_(?:{'|'.join(sorted(BASE_KERNELS, key=len, reverse=True))})$")


def _spelled_out(priors: Any, bases: list[Base], base_names: list[str]) -> Any:
    """Priors by the names of parameters, from keys that may stand for all of a base kernel or of a kind."""
    if not isinstance(priors, Mapping):
        return priors
    names = [
        f"{kind}_{name}"
        for base, name in zip(bases, base_names, strict=True)
        for kind in (*_PARAMETERS[base.name], "log_outputscale")
    ]
    known = {
        key
        for base, kinds in _PARAMETERS.items()
        for kind in (*kinds, "log_outputscale")
        for key in (kind, f"{kind}_{base}")
    }
    general = {key for key in priors if key in known and key not in names}
    chosen = {key: _copy(prior) for key, prior in priors.items() if key not in general}
    for name in names:
        of_base = _NUMBER.sub("", name)
        for key in (of_base, _SUFFIX.sub("", of_base)):
            if name not in chosen and key in general:
                chosen[name] = _copy(priors[key])
    return chosen


def _copy(prior: Any) -> Any:
    """A distribution of its own for each parameter: PyMC makes the one it is given that parameter."""
    if not isinstance(prior, TensorVariable) or prior.owner is None:
        return prior
    # With one generator two copies are the same random variable to PyTensor.
    inputs = [
        pytensor.shared(np.random.default_rng()) if isinstance(given.type, RandomType) else given
        for given in prior.owner.inputs
    ]
    return prior.owner.clone_with_new_inputs(inputs).outputs[prior.owner.outputs.index(prior)]


def _columns(base: Base, plan: ModelPlan) -> np.ndarray:
    return np.arange(plan.n_inputs) if base.input is None else np.array([base.input])


def _add_parameters(plan: ModelPlan, base: Base, name: str) -> None:
    columns = _columns(base, plan)
    # With one column the unit is that column's; several columns share a lengthscale on the scaled inputs.
    unit = plan.x_map.scale[columns[0]] if len(columns) == 1 else 1.0
    for kind in _PARAMETERS[base.name]:
        is_periodic_lengthscale = base.name == "PER" and kind == "log_lengthscale"
        prior = _PERIODIC_LENGTHSCALE_PRIOR if is_periodic_lengthscale else _COMPOSITE_PRIORS[kind]
        dims = ("input",) if kind == "location" and base.input is None else ()
        plan.parameter(f"{kind}_{name}", *prior, *dims)
    plan.parameter(f"log_outputscale_{name}", *_COMPOSITE_PRIORS["log_outputscale"])
    if base.name == "PER":
        plan.exponential(f"period_{name}", f"log_period_{name}", unit)
    elif "log_lengthscale" in _PARAMETERS[base.name]:
        plan.exponential(f"lengthscale_{name}", f"log_lengthscale_{name}", unit)


def _pymc_covariance(
    tree: Expression, plan: ModelPlan, names: Iterator[str], variables: dict[str, Any]
) -> pm.gp.cov.BaseCovariance:
    if not isinstance(tree, Base):
        first, *rest = (_pymc_covariance(child, plan, names, variables) for child in tree.children)
        for part in rest:
            first = first + part if isinstance(tree, Sum) else first * part
        return first
    name, D, columns = next(names), plan.n_inputs, _columns(tree, plan)

    def positive(kind: str) -> Any:
        return pt.exp(variables[f"log_{kind}_{name}"])

    if tree.name in ("LIN", "LIN0"):
        location = variables[f"location_{name}"] if tree.name == "LIN" else 0.0
        cov = pm.gp.cov.Linear(D, c=location, active_dims=columns)
    elif tree.name == "PER":
        # PyMC's Periodic has exp(-sin²/(2 ls²)); ours is the toolbox's exp(-2 sin²/lengthscale²).
        lengthscale = positive("lengthscale") / 2
        cov = pm.gp.cov.Periodic(D, period=positive("period"), ls=lengthscale, active_dims=columns)
    elif tree.name == "RQ":
        cov = pm.gp.cov.RatQuad(D, alpha=positive("alpha"), ls=positive("lengthscale"), active_dims=columns)
    else:
        cov = KERNELS[_STATIONARY[tree.name]](D, ls=positive("lengthscale"), active_dims=columns)
    return positive("outputscale") ** 2 * cov


def _array_kernel(tree: Expression, plan: ModelPlan, names: Iterator[str]) -> arrays.Node:
    if not isinstance(tree, Base):
        children = [_array_kernel(child, plan, names) for child in tree.children]
        if isinstance(tree, Sum):
            return arrays.Add(children)
        first, *rest = children
        for node in rest:
            first = arrays.Multiply(first, node)
        return first
    name, columns = next(names), _columns(tree, plan)

    def at(kind: str) -> int:
        return plan.position(f"{kind}_{name}")

    if tree.name in ("LIN", "LIN0"):
        location = plan.positions(f"location_{name}") if tree.name == "LIN" else None
        return arrays.Linear(columns, location, at("log_outputscale"))
    if tree.name == "PER":
        return arrays.Periodic(at("log_lengthscale"), at("log_period"), columns, at("log_outputscale"))
    if tree.name == "RQ":
        return arrays.RationalQuadratic(at("log_lengthscale"), columns, at("log_alpha"), at("log_outputscale"))
    return arrays.Stationary(_STATIONARY[tree.name], [(at("log_lengthscale"), columns)], at("log_outputscale"))


def _check_kernel(kernel: str) -> None:
    if kernel not in KERNELS:
        raise ValueError(f"unknown kernel {kernel!r}; the known ones are {', '.join(sorted(KERNELS))}")
