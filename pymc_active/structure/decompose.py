"""A sum of products of kernels as a sum of functions, each with its posterior and in words."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import reduce
from itertools import product
from typing import Any, Literal, cast

import numpy as np
import xarray as xr

from pymc_active.inference.ensemble import GAUSSIAN_METHODS
from pymc_active.information.mixture_entropy import mixture_moments
from pymc_active.kernels.arrays import Add, Linear, Multiply, Node, Periodic, RationalQuadratic, Stationary
from pymc_active.kernels.expressions import numbered
from pymc_active.laplace.draws.short_chains import particles
from pymc_active.laplace.expansion import Expansion
from pymc_active.laplace.fit import LaplaceFit
from pymc_active.posterior.array import KernelPosterior
from pymc_active.posterior.full_space import FullSpace
from pymc_active.predictions.model_average import check_one_fit
from pymc_active.predictions.moments import marginal_moments
from pymc_active.structure.words import Words
from pymc_active.support.numbers import plus_minus
from pymc_active.support.scaling import Affine
from pymc_active.support.summaries import html_summary
from pymc_active.support.tables import point_labels, read_inputs
from pymc_active.support.threads import one_blas_thread

__all__ = ["Decomposition", "decompose"]

METHODS = (*GAUSSIAN_METHODS, "draws")
# A grid this fine still shows a period of a hundredth of the range.
_N_GRID = 1000


@dataclass(frozen=True, repr=False)
class Decomposition:
    """A posterior mean split into the functions that the kernel adds up; see :func:`decompose`.

    Attributes
    ----------
    fit : LaplaceFit
    X_new : ndarray, shape (m, D)
        Where the components were evaluated, in the user's units.
    components : xarray.Dataset
        ``mean`` and ``variance`` over (``component``, ``point``), ``mean_function`` (of the data's prior, or what
        centring took from the components) and ``f_mean``, ``f_variance`` (of the sum) over ``point``; in units of y
        and their squares. The component means and the mean function add up to ``f_mean``. ``mean_at_data`` over
        (``component``, ``obs``) and ``residual`` over ``obs`` are at the data, with the hyperparameters at the mode.
        Over ``component``: its ``share`` of the variance of y, its ``amplitude`` (sd of its mean at the data, units of
        y) and ``description``.
    mean_function : str
        What was added to the components, in words.
    mean_function_share : float
        Its share of the variance of y; zero, but for rounding, unless it depends on the inputs.
    noise : str
        Sd of the noise, in units of y.
    residual_share : float
        Share of the variance of y left to noise.
    """

    fit: LaplaceFit
    X_new: np.ndarray
    components: xr.Dataset
    mean_function: str
    mean_function_share: float
    noise: str
    residual_share: float

    @property
    def descriptions(self) -> list[str]:
        """Each component in words, the largest share of the variance first."""
        return [str(text) for text in self.components.description.to_numpy()]

    def __repr__(self) -> str:
        lines = [f"<Decomposition of {self.fit.gpm.description}>"]
        for i, text in enumerate(self._report(), 1):
            lines.append(textwrap.fill(f"{i}. {text}", 110, subsequent_indent="   "))
        return "\n".join([*lines, f"Added to these: {self.mean_function}.", self._noise()])

    def _repr_html_(self) -> str:
        facts = dict(zip(self.components.component.to_numpy(), self.descriptions, strict=True))
        remarks = [f"Added to these: {self.mean_function}.", self._noise()]
        return html_summary(f"Decomposition of {self.fit.gpm.description}", facts, remarks=remarks)

    def _report(self) -> list[str]:
        names = self.components.component.to_numpy()
        return [f"{name}: {text}" for name, text in zip(names, self.descriptions, strict=True)]

    def _noise(self) -> str:
        return f"Noise: sd {self.noise}; {_percent(self.residual_share)} of the variance is left to it."


def decompose(
    fit: LaplaceFit,
    X_new: Any = None,
    *,
    method: Literal["bbq", "draws", "map", "mgp"] = "bbq",
    centred: bool = True,
    unit: str | Mapping[Any, str] = "",
    y_unit: str = "",
    draws: int = 128,
    random_seed: int = 0,
) -> Decomposition:
    r"""Split the posterior into the additive components of its kernel, and say what each looks like.

    The kernel is multiplied out into a sum of products, :math:`k = \sum_c k_c`; products that come from one bracket
    share its parameters. Given all data, component c has mean :math:`k_c(x, X) G^{-1} (y - \mu)` and variance
    :math:`k_c(x, x) - k_c(x, X) G^{-1} k_c(X, x)` with :math:`G = \sum_c k_c(X, X) + \sigma^2 I`.

    Parameters
    ----------
    fit : LaplaceFit
        Of :func:`composite_gp` or :func:`ard_gp`. Its best mode is decomposed: what a component is may differ from mode
        to mode.
    X_new : array_like, shape (m, D), optional
        Default: a grid a tenth beyond the data for one input, the data themselves for several.
    method : {"bbq", "map", "mgp", "draws"}
        How uncertain hyperparameters enter the variances. ``"map"``: not. ``"bbq"``, the default, adds the delta
        method's :math:`\partial m^T \Sigma \partial m`. ``"mgp"`` is the default of :func:`predict`; its factor 4/3 on
        the variance is meant for predictions, and a band is easier to read without. ``"draws"``: exact moments of the
        mixture over posterior draws around the best mode; there the means are averages over draws as well.
    centred : bool
        Take from each component its average over the data, and add these averages to the mean function. A long or a
        periodic component knows its shape far better than its level, which it shares with all the others: without
        centring the bands mostly show that. ``False`` gives the formulas above.
    unit : str or dict, optional
        Unit of the input for the words, ``"years"``; of several inputs by label.
    y_unit : str, optional
        Unit of y for the words.
    draws, random_seed : int
        For ``method="draws"``.

    Returns
    -------
    Decomposition
        ``components`` (the largest share first), ``descriptions``, ``plot()``; it prints as a report.

    Raises
    ------
    TypeError, ValueError
        For anything but a fit, a model without an array kernel (from_marginal, embedding_gp, priors that are not plain
        normals, a ``pm.gp.mean.Mean``), unknown methods or units, points of the wrong shape.

    Notes
    -----
    The share of a component is cov(its mean at the data, y) / var(y), and so are those of the mean function and of the
    residual. All of them add up to one; a component that works against the others has a negative one.

    References
    ----------
    .. [1] Duvenaud et al. (2013), Structure discovery in nonparametric regression, section 5.
    .. [2] Lloyd et al. (2014), Automatic construction and natural-language description of nonparametric regression.

    Examples
    --------
    >>> import numpy as np
    >>> import pymc_active as pma
    >>> x = np.linspace(0, 4, 40)
    >>> y = x + np.sin(2 * np.pi * x) + 0.1 * np.random.default_rng(0).normal(size=40)
    >>> gpm = pma.composite_gp(x[:, None], y, "LIN + PER", x_scale="unit", y_scale="standardize")
    >>> fit = pma.fit_laplace(gpm, random_seed=1, progressbar=False)
    >>> sorted(pma.decompose(fit).components.component.to_numpy().tolist())
    ['LIN', 'PER']
    """
    expansion = _kernel_expansion(fit)
    if method not in METHODS:
        raise ValueError(f"method must be one of {', '.join(sorted(METHODS))}; got {method!r}")
    posterior, n_inputs = expansion.posterior, fit.X.shape[1]
    assert isinstance(posterior, KernelPosterior), "checked above"
    points = _default_points(fit.X) if X_new is None else read_inputs(X_new, "X_new", inputs=fit.gpm.inputs)
    thetas = None
    if method == "draws":
        thetas = particles(fit.expansions[:1], draws, np.random.default_rng(random_seed))

    terms = additive_terms(posterior.kernel)
    units = _units(unit, fit.gpm.inputs)
    words = Words(expansion, fit.gpm.inputs, units)
    kernels: list[Node] = [reduce(Multiply, term) for term in terms]
    parts = [_part(expansion, _Centred(kernel, posterior.X) if centred else kernel) for kernel in kernels]
    *moments, (f_mean, f_variance) = _moments([*parts, expansion], points, method, thetas)
    fitted = marginal_moments(expansion, fit.X, "map").mean
    rows: list[dict[str, Any]] = []
    for name, term, part, (mean, variance) in zip(
        _names(posterior.kernel, terms, n_inputs), terms, parts, moments, strict=True
    ):
        at_data = marginal_moments(part, fit.X, "map").mean
        rows.append(
            {
                "name": name,
                "mean": mean,
                "variance": variance,
                "at_data": at_data,
                "share": _share(at_data, fit.y),
                "amplitude": float(at_data.std()),
                "words": words.product(term) + _slope(expansion, term, y_unit, units),
            }
        )
    rows.sort(key=lambda row: -row["share"])
    offset = f_mean - sum(row["mean"] for row in rows)
    offset_at_data = fitted - sum(row["at_data"] for row in rows)
    mean_function_share = _share(offset_at_data, fit.y)

    def described(row: dict[str, Any]) -> str:
        size = f"standard deviation {row['amplitude']:.3g}" + (f" {y_unit}" if y_unit else "")
        return f"{row['words'][0].upper()}{row['words'][1:]} ({_percent(row['share'])} of the variance, {size})"

    components = xr.Dataset(
        {
            "mean": (("component", "point"), np.stack([row["mean"] for row in rows])),
            "variance": (("component", "point"), np.stack([row["variance"] for row in rows])),
            "mean_function": ("point", offset),
            "f_mean": ("point", f_mean),
            "f_variance": ("point", f_variance),
            "mean_at_data": (("component", "obs"), np.stack([row["at_data"] for row in rows])),
            "residual": ("obs", fit.y - fitted),
            "share": ("component", [row["share"] for row in rows]),
            "amplitude": ("component", [row["amplitude"] for row in rows]),
            "description": ("component", [described(row) for row in rows]),
        },
        coords={
            "component": [row["name"] for row in rows],
            "point": point_labels(X_new) if X_new is not None else np.arange(len(points)),
        },
        attrs={"method": method, "centred": int(centred), "input_units": units, "y_unit": y_unit},
    )
    for variable in ("mean", "mean_function", "f_mean", "amplitude", "mean_at_data", "residual"):
        components[variable].attrs["units"] = y_unit or "units of y"
    for variable in ("variance", "f_variance"):
        components[variable].attrs["units"] = f"({y_unit})²" if y_unit else "squared units of y"
    return Decomposition(
        fit,
        points,
        components,
        mean_function=_mean_words(offset, offset_at_data, mean_function_share, centred, y_unit),
        mean_function_share=mean_function_share,
        noise=words.noise(posterior.log_noise, float(posterior.y_map.scale), y_unit),
        residual_share=_share(fit.y - fitted, fit.y),
    )


def additive_terms(kernel: Node) -> list[tuple[Node, ...]]:
    """The kernel multiplied out: the base kernels of each product in the sum."""
    if isinstance(kernel, Add):
        return [term for part in kernel.parts for term in additive_terms(part)]
    if isinstance(kernel, Multiply):
        return [sum(chosen, ()) for chosen in product(*(additive_terms(part) for part in kernel.parts))]
    return [(kernel,)]


def _kernel_expansion(fit: Any) -> Expansion:
    check_one_fit(fit, "decompose")
    if not isinstance(fit.best.posterior, KernelPosterior):
        raise ValueError(
            f"{fit.gpm.description} has no kernel that could be taken apart: decompose needs a fit of composite_gp or "
            "ard_gp with normal priors and without a mean function of your own or compile_kwargs"
        )
    return fit.best


def _default_points(X: np.ndarray) -> np.ndarray:
    if X.shape[1] > 1:
        return X
    low, high = X.min(), X.max()
    margin = 0.1 * (high - low) or 1.0
    return np.linspace(low - margin, high + margin, _N_GRID)[:, None]


def _units(unit: str | Mapping[Any, str], inputs: list) -> list[str]:
    if isinstance(unit, str):
        return [unit] * len(inputs)
    if not isinstance(unit, Mapping) or not set(unit) <= set(inputs):
        raise ValueError(f"unit must be text, or a dict with inputs among {', '.join(map(str, inputs))}; got {unit!r}")
    return [unit.get(label, "") for label in inputs]


class _Centred(Node):
    """The kernel of f(x) minus its average over the data; between the data (uncentred) and new points (centred)."""

    def __init__(self, kernel: Node, X: np.ndarray):
        self.kernel, self.X, self.indices = kernel, X, kernel.indices

    def at(self, theta, X, Z=None):
        return _CentredAt(self.kernel.at(theta, X, X if Z is None else Z), self.kernel.at(theta, X, self.X))

    def diagonal(self, theta, X):
        value, tangents = self.kernel.diagonal(theta, X)
        across, among = self.kernel.at(theta, self.X, X), self.kernel.at(theta, self.X, self.X)
        value = value - 2 * across.K.mean(0) + among.K.mean()
        tangents = [*tangents, *((i, -2 * t.mean(0)) for i, t in across.tangents())]
        return value, [*tangents, *((i, np.full(len(X), t.mean())) for i, t in among.tangents())]


class _CentredAt:
    def __init__(self, new, data):
        self.new, self.data = new, data
        self.K = new.K - data.K.mean(1, keepdims=True)

    def tangents(self):
        shape = self.K.shape
        average = [(i, np.broadcast_to(-t.mean(1, keepdims=True), shape)) for i, t in self.data.tangents()]
        return [*self.new.tangents(), *average]


class _Part(KernelPosterior):
    """The same posterior over hyperparameters; its predictions are of the part of f that has another kernel."""

    def __init__(self, whole: KernelPosterior, kernel: Node):
        vars(self).update(vars(whole))
        n_mean = len(whole.mean_indices)
        self.whole, self.kernel = whole, kernel
        # Only that at new points: the data keep their mean function.
        self.mean_basis = lambda X: np.zeros((len(X), n_mean))

    def state(self, theta, extra_noise=0.0):
        return self.whole.state(theta, extra_noise)

    def moments(self, state, X_new, *, gradient=False):
        moments = super().moments(state, X_new, gradient=gradient)
        return moments._replace(mean=moments.mean - self.y_map.shift)


def _part(expansion: Expansion, kernel: Node) -> Expansion:
    part = copy(expansion)
    part.space = FullSpace(_Part(expansion.posterior, kernel))  # type: ignore[arg-type]
    return part


def _moments(
    parts: Sequence[Expansion], X: np.ndarray, method: str, thetas: np.ndarray | None
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Mean and variance of each part, in the user's units."""
    if thetas is None:
        predictives = [marginal_moments(part, X, method) for part in parts]
        return [(predictive.mean, predictive.variance) for predictive in predictives]
    means, variances = (np.empty((len(parts), len(thetas), len(X))) for _ in range(2))
    with one_blas_thread():
        for s, theta in enumerate(thetas):
            state = parts[0].posterior.state(theta)
            for k, part in enumerate(parts):
                moments = part.posterior.moments(state, X)
                means[k, s], variances[k, s] = moments.mean, np.maximum(moments.variance, 0.0)
    weights = np.full(len(thetas), 1 / len(thetas))
    return [mixture_moments(mean, variance, weights) for mean, variance in zip(means, variances, strict=True)]


def _names(kernel: Node, terms: Sequence[tuple[Node, ...]], n_inputs: int) -> list[str]:
    """Products of base kernels by name; a base kernel that occurs several times is numbered, as parameters are."""
    leaves = kernel.leaves
    names = dict(zip(map(id, leaves), numbered([_base_name(leaf) for leaf in leaves]), strict=True))

    def name(leaf: Node) -> str:
        columns = _columns(leaf)
        is_one_of_several = n_inputs > 1 and len(columns) == 1
        return f"{names[id(leaf)]}[{columns[0]}]" if is_one_of_several else names[id(leaf)]

    return [" * ".join(name(leaf) for leaf in term) for term in terms]


def _base_name(leaf: Node) -> str:
    if isinstance(leaf, Linear):
        return "LIN0" if leaf.location is None else "LIN"
    if isinstance(leaf, Periodic | RationalQuadratic):
        return "PER" if isinstance(leaf, Periodic) else "RQ"
    assert isinstance(leaf, Stationary), "the other base kernels"
    return {"exp_quad": "SE", "matern12": "MAT12", "matern32": "MAT32", "matern52": "MAT52"}[leaf.profile.__name__]


def _columns(leaf: Any) -> list[int]:
    return [int(column) for column in leaf.columns]


def _share(part: np.ndarray, y: np.ndarray) -> float:
    """cov(part, y) / var(y); NaN where y does not vary."""
    deviation = y - y.mean()
    variance = float(np.mean(deviation**2))
    return float(np.mean((part - part.mean()) * deviation)) / variance if variance > 0 else np.nan


def _slope(expansion: Expansion, leaves: Sequence[Node], y_unit: str, units: Sequence[str]) -> str:
    """How steep a linear component of one input is, with its sd (``method="bbq"``)."""
    if len(leaves) > 1 or not isinstance(leaves[0], Linear) or len(leaves[0].columns) > 1:
        return ""
    column, x_map = _columns(leaves[0])[0], cast("Affine", expansion.posterior.x_map)
    low, high = np.zeros((2, 1, expansion.posterior.X.shape[1]))
    high[:, column] = 1.0
    # f(high) - f(low), a unit of the priors' scale apart.
    rise = marginal_moments(_part(expansion, _Centred(leaves[0], low)), x_map.shift + x_map.scale * high, "bbq")
    step = float((x_map.scale * (high - low)).max())
    x_unit, slope = units[column], float(rise.mean[0]) / step
    verb = "rising" if slope > 0 else "falling"
    # One of "years" is a year, but one of "s" or "Celsius" is not.
    is_plural = len(x_unit) > 2 and x_unit.endswith("s") and not x_unit.endswith(("ss", "us"))
    per = x_unit.removesuffix("s") if is_plural else x_unit or "unit of the input"
    size = plus_minus(abs(slope), float(np.sqrt(rise.variance[0])) / step)
    return f", {verb} by {size}{' ' + y_unit if y_unit else ''} per {per}"


def _percent(share: float) -> str:
    if np.isnan(share):
        return "an undefined part"  # y does not vary
    percent = 100 * share
    if abs(percent) < 0.1:
        return "less than 0.1 %"
    return f"{percent:.0f} %" if abs(percent) >= 9.5 else f"{percent:.2g} %"


def _mean_words(offset: np.ndarray, at_data: np.ndarray, share: float, centred: bool, y_unit: str) -> str:
    unit = f" {y_unit}" if y_unit else ""
    what = "the mean function and the components' averages over the data" if centred else "the mean function"
    # At the data, for a single new point says nothing.
    if np.ptp(at_data) <= 1e-9 * (np.abs(at_data).max() + np.finfo(float).tiny):
        return f"{what}, a constant {offset[0]:.4g}{unit}"
    varies = f"which varies from {offset.min():.4g} to {offset.max():.4g}{unit} here"
    return f"{what}, {varies} ({_percent(share)} of the variance)"
