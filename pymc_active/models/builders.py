"""Builders: a PyMC model for each kind of Gaussian process, with default priors stated for scaled data."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from numbers import Real
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.shape_utils import change_dist_size
from pymc.pytensorf import constant_fold
from pytensor.tensor.exceptions import NotScalarConstantError
from pytensor.tensor.random.basic import NormalRV
from pytensor.tensor.variable import TensorVariable

from pymc_active.cov import Embedding, Rescaled
from pymc_active.kernels import arrays
from pymc_active.kernels.expressions import Base, Expression, Product, Sum, base_kernels, parse
from pymc_active.models.data import Affine, Scale, fit_scale, input_labels, read_inputs, read_outputs
from pymc_active.models.gpmodel import GPModel
from pymc_active.models.marginal import graph_posterior
from pymc_active.posterior.array import ArrayPosterior, EmbeddingPosterior, KernelPosterior
from pymc_active.posterior.base import Posterior
from pymc_active.posterior.prior import GaussianPrior

KERNELS: dict[str, type[pm.gp.cov.Stationary]] = {
    "ExpQuad": pm.gp.cov.ExpQuad,
    "Matern12": pm.gp.cov.Matern12,
    "Matern32": pm.gp.cov.Matern32,
    "Matern52": pm.gp.cov.Matern52,
}
MEANS = ("constant", "linear", "zero")

Priors = dict[str, Any] | None


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
        Outputs in your units.
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
    build = _Builder(X, y, priors, x_scale, y_scale)
    D = build.n_inputs
    with build:
        log_lengthscale = build.parameter("log_lengthscale", 0.5 * np.log(D), 1.0, "input")
        scale = build.outputscale(1.0)
        pm.Deterministic("lengthscale", pt.exp(log_lengthscale) * build.x_map.scale, dims="input")
        cov = scale**2 * build.rescaled(KERNELS[kernel](D, ls=pt.exp(log_lengthscale)))

    def posterior(build: _Builder, **keywords) -> Posterior:
        positions = build.positions("log_lengthscale")
        groups = [(int(i), np.array([d])) for d, i in enumerate(positions)]
        node = arrays.Stationary(kernel, groups, build.position("log_outputscale"))
        return KernelPosterior(kernel=node, **keywords)

    return build.finish(cov, mean, posterior, f"ard_gp({kernel})")


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
        As :func:`ard_gp`; and if ``n_components`` is not in 1..D.

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
    build = _Builder(X, y, priors, x_scale, y_scale)
    D = build.n_inputs
    if not isinstance(n_components, int | np.integer) or isinstance(n_components, bool):
        raise TypeError(f"n_components must be an integer; got {n_components!r}")
    d = int(n_components)
    if not 1 <= d <= D:
        raise ValueError(f"n_components must be between 1 and the number of inputs, {D}; got {d}")
    sd = np.asarray(1.25 * np.sqrt(3 / D) if prior_scale is None else prior_scale, float)
    if sd.shape not in ((), (D,), (d, D)) or not (np.isfinite(sd).all() and (sd > 0).all()):
        raise ValueError(f"prior_scale must be positive, a number or an array of shape ({D},); got {prior_scale!r}")
    with build:
        build.add_coord("component", range(d))
        R = build.parameter("R", 0.0, sd, "component", "input")
        scale = build.outputscale(0.5)
        if not build.x_map.is_identity:
            pm.Deterministic("R_original_units", R / build.x_map.scale, dims=("component", "input"))
        cov = scale**2 * build.rescaled(Embedding(KERNELS[kernel](d, ls=1.0), R, D))

    def posterior(build: _Builder, **keywords) -> Posterior:
        return EmbeddingPosterior(
            profile=kernel,
            shape=(d, D),
            R_start=int(build.positions("R")[0]),
            log_outputscale=build.position("log_outputscale"),
            **keywords,
        )

    free = "R" if not build.is_fixed("R") else None
    return build.finish(cov, mean, posterior, f"embedding_gp({kernel}, d={d})", embedding=free, noise_sd=0.5)


# Hyperpriors of the toolbox of Malkomes & Garnett on the log scale, for inputs in [0, 1] and standardised y, except
# the noise, whose sd is left wide; (mean, sd).
_COMPOSITE_PRIORS = {
    "log_lengthscale": (np.log(0.1), 1.0),
    "log_outputscale": (np.log(0.4), 1.0),
    "log_period": (np.log(0.1), np.sqrt(0.5)),
    "log_alpha": (np.log(0.05), np.sqrt(0.5)),
    "location": (0.5, 1.0),
}
_PERIODIC_LENGTHSCALE_PRIOR = (np.log(2.0), np.sqrt(0.5))
_STATIONARY = {"SE": "ExpQuad", "MAT12": "Matern12", "MAT32": "Matern32", "MAT52": "Matern52"}


def composite_gp(
    X: Any,
    y: Any,
    expression: str | Expression,
    *,
    mean: str | pm.gp.mean.Mean = "constant",
    priors: Priors = None,
    x_scale: Scale = None,
    y_scale: Scale = None,
) -> GPModel:
    """A GP whose kernel is a sum and product of base kernels, such as ``"LIN + PER * RQ"``.

    Parameters
    ----------
    X, y, mean, x_scale, y_scale
        As in :func:`ard_gp`; the default priors are meant for ``x_scale="unit", y_scale="standardize"``.
    expression : str
        Base kernels SE, PER, RQ, LIN (with a location), LIN0 (through the origin), MAT12, MAT32, MAT52, joined by
        ``+ * ( )``. ``SE[1]`` acts on input 1 only; without an index a kernel acts on all inputs, with one lengthscale.
    priors : dict, optional
        By name. Each base kernel has parameters ending in its own name (``log_period_PER``; a base kernel that
        occurs twice is numbered, ``log_lengthscale_SE_1``). Defaults on the log scale, mean / sd:
        ``log_lengthscale`` log 0.1 / 1 (PER: log 2 / √0.5, in exp(-2 sin²/lengthscale²)), ``log_outputscale``
        log 0.4 / 1, ``log_period`` log 0.1 / √0.5, ``log_alpha`` log 0.05 / √0.5, ``location`` of LIN 0.5 / 1,
        ``log_noise`` log 0.1 / 1, ``mean_constant`` 0 / 1.

    Returns
    -------
    GPModel

    Raises
    ------
    ValueError
        For malformed expressions (the position is shown), unknown base kernels (the known ones are listed) and
        whatever :func:`ard_gp` refuses.

    Notes
    -----
    Every factor of a product has an output scale of its own, of which only the prior identifies the split.

    References
    ----------
    .. [1] Malkomes & Garnett (2015), Active structure discovery with Gaussian processes.

    Examples
    --------
    >>> import numpy as np
    >>> import pymc_active as pma
    >>> x = np.linspace(0, 1, 20)
    >>> pma.composite_gp(x[:, None], np.sin(20 * x), "SE * PER").labels[:3]
    ['log_lengthscale_SE', 'log_outputscale_SE', 'log_lengthscale_PER']
    """
    tree = parse(expression) if isinstance(expression, str) else expression
    build = _Builder(X, y, priors, x_scale, y_scale)
    bases = base_kernels(tree)
    for base in bases:
        if base.input is not None and base.input >= build.n_inputs:
            raise ValueError(f"{base} needs input {base.input}, but X has inputs 0 to {build.n_inputs - 1}")
    names = _base_names(bases)
    with build:
        remaining = iter(names)
        cov = build.rescaled(_pymc_covariance(tree, build, remaining))

    def posterior(build: _Builder, **keywords) -> Posterior:
        return KernelPosterior(kernel=_array_kernel(tree, build, iter(names)), **keywords)

    return build.finish(build.y_map.scale**2 * cov, mean, posterior, f"composite_gp({tree})")


def _base_names(bases: list[Base]) -> list[str]:
    counts: dict[str, int] = {}
    names = []
    repeated = {base.name for base in bases if sum(other.name == base.name for other in bases) > 1}
    for base in bases:
        counts[base.name] = counts.get(base.name, 0) + 1
        names.append(f"{base.name}_{counts[base.name]}" if base.name in repeated else base.name)
    return names


def _columns(base: Base, build: _Builder) -> np.ndarray:
    return np.arange(build.n_inputs) if base.input is None else np.array([base.input])


def _pymc_covariance(tree: Expression, build: _Builder, names) -> pm.gp.cov.BaseCovariance:
    if isinstance(tree, Sum | Product):
        children = tree.terms if isinstance(tree, Sum) else tree.factors
        parts = [_pymc_covariance(child, build, names) for child in children]
        result = parts[0]
        for part in parts[1:]:
            result = result + part if isinstance(tree, Sum) else result * part
        return result
    name, D, columns = next(names), build.n_inputs, _columns(tree, build)

    def parameter(kind: str, prior: tuple[float, float] | None = None) -> TensorVariable:
        return build.parameter(f"{kind}_{name}", *(prior or _COMPOSITE_PRIORS[kind]))

    def in_user_units(kind: str, value: TensorVariable) -> None:
        # With one column the unit is that column's; several columns share a lengthscale on the scaled inputs.
        scale = build.x_map.scale[columns[0]] if len(columns) == 1 else 1.0
        pm.Deterministic(f"{kind}_{name}", value * scale)

    if tree.name in ("LIN", "LIN0"):
        if tree.name == "LIN":
            dims = ("input",) if tree.input is None else ()
            location = build.parameter(f"location_{name}", *_COMPOSITE_PRIORS["location"], *dims)
        else:
            location = 0.0
        cov = pm.gp.cov.Linear(D, c=location, active_dims=columns)
    else:
        is_periodic = tree.name == "PER"
        log_lengthscale = parameter("log_lengthscale", _PERIODIC_LENGTHSCALE_PRIOR if is_periodic else None)
        lengthscale = pt.exp(log_lengthscale)
        if is_periodic:
            period = pt.exp(parameter("log_period"))
            in_user_units("period", period)
            # PyMC's Periodic has exp(-sin²/(2 ls²)); ours is the toolbox's exp(-2 sin²/lengthscale²).
            cov = pm.gp.cov.Periodic(D, period=period, ls=lengthscale / 2, active_dims=columns)
        else:
            in_user_units("lengthscale", lengthscale)
            if tree.name == "RQ":
                alpha = pt.exp(parameter("log_alpha"))
                cov = pm.gp.cov.RatQuad(D, alpha=alpha, ls=lengthscale, active_dims=columns)
            else:
                cov = KERNELS[_STATIONARY[tree.name]](D, ls=lengthscale, active_dims=columns)
    log_outputscale = parameter("log_outputscale")
    return pt.exp(2 * log_outputscale) * cov


def _array_kernel(tree: Expression, build: _Builder, names) -> arrays.Node:
    if isinstance(tree, Sum):
        return arrays.Add([_array_kernel(term, build, names) for term in tree.terms])
    if isinstance(tree, Product):
        first, *rest = (_array_kernel(factor, build, names) for factor in tree.factors)
        for node in rest:
            first = arrays.Multiply(first, node)
        return first
    name, columns = next(names), _columns(tree, build)

    def at(kind: str) -> int:
        return build.position(f"{kind}_{name}")

    if tree.name in ("LIN", "LIN0"):
        location = build.positions(f"location_{name}") if tree.name == "LIN" else None
        return arrays.Linear(columns, location, at("log_outputscale"))
    if tree.name == "PER":
        return arrays.Periodic(at("log_lengthscale"), at("log_period"), columns, at("log_outputscale"))
    if tree.name == "RQ":
        return arrays.RationalQuadratic(at("log_lengthscale"), columns, at("log_alpha"), at("log_outputscale"))
    return arrays.Stationary(_STATIONARY[tree.name], [(at("log_lengthscale"), columns)], at("log_outputscale"))


def _check_kernel(kernel: str) -> None:
    if kernel not in KERNELS:
        raise ValueError(f"unknown kernel {kernel!r}; the known ones are {', '.join(sorted(KERNELS))}")


class _Builder:
    """Collects parameters in a PyMC model while remembering where each sits in theta.

    Used as a context it enters the model: the enclosing ``pm.Model`` if there is one, else a new one.
    """

    def __init__(self, X: Any, y: Any, priors: Priors, x_scale: Scale, y_scale: Scale):
        self.X = read_inputs(X)
        self.y = read_outputs(y, len(self.X))
        self.inputs = input_labels(X, self.X.shape[1])
        self.n_inputs = self.X.shape[1]
        self.x_map = fit_scale(x_scale, self.X, "x_scale")
        self.y_map = fit_scale(y_scale, self.y, "y_scale")
        self.priors = dict(priors or {})
        self._unused = set(self.priors)
        self._uses_defaults = False
        self._shapes: dict[str, tuple[int, ...]] = {}
        self._variables: dict[str, Any] = {}
        self._normal: dict[str, tuple[Any, Any]] = {}
        self._model: pm.Model | None = None

    def __enter__(self) -> _Builder:
        if self._model is None:
            self._model = pm.Model.get_context(error_if_none=False) or pm.Model()
            self.model.__enter__()
            self.add_coord("obs", range(len(self.y)))
            self.add_coord("input", self.inputs)
            self.X_data = pm.Data("X", self.X, dims=("obs", "input"))
            self.y_data = pm.Data("y_data", self.y, dims="obs")
        else:
            self.model.__enter__()
        return self

    @property
    def model(self) -> pm.Model:
        assert self._model is not None, "the builder is entered before anything is added"
        return self._model

    def __exit__(self, *error) -> None:
        self.model.__exit__(*error)

    def add_coord(self, name: str, values) -> None:
        self.model.add_coord(name, list(values))

    def is_fixed(self, name: str) -> bool:
        return not isinstance(self._variables[name], TensorVariable)

    def parameter(self, name: str, mean: Any, sd: Any, *dims: str):
        """A parameter with its default Normal(mean, sd) prior, the user's prior, or the user's fixed value."""
        shape = tuple({"input": self.n_inputs}.get(dim) or len(self.model.coords[dim]) for dim in dims)
        self._shapes[name] = shape
        if name not in self.priors:
            self._uses_defaults = True
            variable = pm.Normal(name, mean, sd, shape=shape, dims=dims or None)
            self._normal[name] = (mean, sd)
        else:
            self._unused.discard(name)
            prior = self.priors[name]
            if isinstance(prior, Real | np.ndarray):
                value = np.asarray(prior, float)
                if value.shape not in ((), shape) or not np.isfinite(value).all():
                    raise ValueError(f"the fixed value of {name} must be finite with shape {shape}; got {prior!r}")
                variable = np.broadcast_to(value, shape).copy()
            elif isinstance(prior, TensorVariable) and hasattr(prior.owner, "op"):
                variable = self._register(name, prior, shape, dims)
            else:
                raise TypeError(
                    f"priors[{name!r}] must be a distribution such as pm.Normal.dist(0, 1), or a number that fixes the "
                    f"parameter; got {prior!r}"
                )
        self._variables[name] = variable
        return variable

    def _register(self, name, prior, shape, dims):
        if prior.type.ndim == 0 and shape:
            prior = change_dist_size(prior, shape)
        if prior.type.ndim != len(shape) or any(
            static not in (None, size) for static, size in zip(prior.type.shape, shape, strict=False)
        ):
            raise ValueError(f"the prior of {name} must be scalar or of shape {shape}; got {prior.type.shape}")
        if isinstance(prior.owner.op, NormalRV):
            try:
                self._normal[name] = constant_fold(prior.owner.op.dist_params(prior.owner))
            except NotScalarConstantError:
                pass  # a hierarchical prior: the graph route takes it
        return self.model.register_rv(prior, name, dims=dims or None)

    def outputscale(self, sd: float):
        log_outputscale = self.parameter("log_outputscale", 0.0, sd)
        return pm.Deterministic("outputscale", pt.exp(log_outputscale) * self.y_map.scale)

    def rescaled(self, cov):
        return cov if self.x_map.is_identity else Rescaled(cov, self.x_map.shift, self.x_map.scale)

    def _mean_function(self, mean) -> pm.gp.mean.Mean:
        shift, scale = self.y_map.shift, self.y_map.scale
        if isinstance(mean, pm.gp.mean.Mean):
            return mean
        if mean == "zero":
            return pm.gp.mean.Zero() if self.y_map.is_identity else pm.gp.mean.Constant(float(shift))
        if mean not in MEANS:
            raise ValueError(f"mean must be one of {', '.join(MEANS)} or a pm.gp.mean.Mean; got {mean!r}")
        intercept = shift + scale * self.parameter("mean_constant", 0.0, 1.0)
        if mean == "constant":
            return pm.gp.mean.Constant(intercept)
        slope = scale * self.parameter("mean_slope", 0.0, 1.0, "input") / self.x_map.scale
        return pm.gp.mean.Linear(slope, intercept - pt.dot(slope, self.x_map.shift))

    def positions(self, name: str) -> np.ndarray:
        """Where a parameter sits in (theta, constants)."""
        start = 0
        ordered = [n for n in self._free_order if n in self._shapes]
        ordered += [n for n in self._shapes if self.is_fixed(n)]
        for other in ordered:
            size = int(np.prod(self._shapes[other], dtype=int))
            if other == name:
                return np.arange(start, start + size)
            start += size
        raise KeyError(name)

    def position(self, name: str) -> int:
        return int(self.positions(name)[0])

    @property
    def _free_order(self) -> list[str]:
        return [variable.name for variable in self.model.free_RVs]

    def finish(
        self,
        cov,
        mean: str | pm.gp.mean.Mean,
        kernel_posterior: Callable[..., Posterior],
        description: str,
        embedding: str | None = None,
        noise_sd: float = 1.0,
    ) -> GPModel:
        """Add mean, noise and likelihood, and wrap everything up."""
        with self:
            mean_function = self._mean_function(mean)
            log_noise = self.parameter("log_noise", np.log(0.1), noise_sd)
            if self._unused:
                raise ValueError(
                    f"priors for unknown parameters: {', '.join(sorted(self._unused))}; "
                    f"this model has {', '.join(sorted(self._shapes))}"
                )
            noise = pm.Deterministic("noise", pt.exp(log_noise) * self.y_map.scale)
            gp = pm.gp.Marginal(mean_func=mean_function, cov_func=cov)
            gp.marginal_likelihood("y", self.X_data, self.y_data, sigma=noise, jitter=0, dims="obs")
        model = self.model
        if not model.free_RVs:
            raise ValueError("every parameter is fixed: there is nothing to learn")
        if self._uses_defaults:
            _warn_about_units(self.X, self.y, self.x_map, self.y_map)

        def build_posterior(gpm: GPModel, compile_kwargs: dict | None) -> Posterior:
            # Compile arguments ask for PyTensor; anything but plain normal priors needs it.
            is_plain = set(self._free_order) == set(self._normal) and not isinstance(mean, pm.gp.mean.Mean)
            if compile_kwargs or not is_plain or model.potentials or len(model.observed_RVs) > 1:
                return graph_posterior(gpm, compile_kwargs)
            return self._array_posterior(gpm, mean, kernel_posterior)

        return GPModel(
            model,
            gp,
            "y",
            X_data=self.X_data,
            y_data=self.y_data,
            inputs=self.inputs,
            x_map=self.x_map,
            y_map=self.y_map,
            build_posterior=build_posterior,
            embedding=embedding if embedding in self._normal else None,
            description=description,
        )

    def _array_posterior(self, gpm: GPModel, mean, kernel_posterior) -> ArrayPosterior:
        def flat(part: int) -> np.ndarray:
            return np.concatenate(
                [np.broadcast_to(self._normal[n][part], self._shapes[n]).ravel() for n in self._free_order]
            )

        constants = [self._variables[n].ravel() for n in self._shapes if self.is_fixed(n)]
        names = {"zero": [], "constant": ["mean_constant"], "linear": ["mean_constant", "mean_slope"]}[mean]
        basis = {"zero": _no_basis, "constant": _constant_basis, "linear": _linear_basis}[mean]
        return kernel_posterior(
            self,
            X=gpm.X,
            y=gpm.y,
            x_map=self.x_map,
            y_map=self.y_map,
            n_parameters=sum(int(np.prod(self._shapes[n], dtype=int)) for n in self._free_order),
            constants=np.concatenate(constants) if constants else np.empty(0),
            prior=GaussianPrior(flat(0).astype(float), flat(1).astype(float)),
            log_noise=self.position("log_noise"),
            mean_indices=np.concatenate([self.positions(n) for n in names]).astype(int) if names else np.empty(0, int),
            mean_basis=basis,
        )


def _no_basis(X: np.ndarray) -> np.ndarray:
    return np.empty((len(X), 0))


def _constant_basis(X: np.ndarray) -> np.ndarray:
    return np.ones((len(X), 1))


def _linear_basis(X: np.ndarray) -> np.ndarray:
    return np.column_stack([np.ones(len(X)), X])


def _warn_about_units(X: np.ndarray, y: np.ndarray, x_map: Affine, y_map: Affine) -> None:
    """Warn once where the default priors, stated for scaled data, cannot be meant for these."""
    problems = []
    for what, values, scale in (("X", x_map(X), "x_scale"), ("y", y_map(y)[:, None], "y_scale")):
        if len(values) < 3:
            continue
        size = np.abs(values).max(0)
        # Years, pascals or counts; or values that are all tiny beside the priors' unit.
        strange = (size > 100) | (0 < size.max() < 0.01)
        if strange.any():
            problems.append(f"{scale}='{'box' if what == 'X' else 'standardize'}' ({what} reaches {size.max():.3g})")
    if problems:
        warnings.warn(
            "the default priors are meant for data of about unit scale around zero, and these are not: pass "
            + " and ".join(problems)
            + ", or priors of your own",
            UserWarning,
            stacklevel=4,
        )
