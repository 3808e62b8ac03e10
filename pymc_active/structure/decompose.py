"""Split a fit into the functions that its kernel adds up, each with its posterior and a description."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import reduce
from itertools import product
from typing import Any, Literal, NamedTuple, cast

import numpy as np
import xarray as xr

from pymc_active.inference.ensemble import GAUSSIAN_METHODS
from pymc_active.inference.fit import Fit
from pymc_active.inference.resampling import systematic
from pymc_active.information.mixture_entropy import mixture_moments
from pymc_active.kernels.combined import Add, Multiply
from pymc_active.kernels.expressions import numbered
from pymc_active.kernels.linear import Linear
from pymc_active.kernels.node import Node
from pymc_active.kernels.periodic import Periodic
from pymc_active.kernels.step import Step
from pymc_active.laplace.draws.short_chains import particles as short_chains
from pymc_active.laplace.expansion import Expansion
from pymc_active.particles.find_modes import find_modes
from pymc_active.posterior.array import KernelPosterior
from pymc_active.posterior.full_space import FullSpace
from pymc_active.predictions.model_average import check_one_fit
from pymc_active.predictions.moments import marginal_moments
from pymc_active.structure.kernel_search import StructureSearch
from pymc_active.structure.words import Words, height, mean_function, percent, share_of_variance, slope, with_trend
from pymc_active.support.arguments import checked
from pymc_active.support.options import count
from pymc_active.support.scaling import Affine
from pymc_active.support.summaries import Summarized, Summary
from pymc_active.support.tables import point_labels, read_inputs
from pymc_active.support.threads import one_blas_thread

METHODS = (*GAUSSIAN_METHODS, "draws")
# The cosine of the angle between two centred kernel matrices above which they make the same functions. That of two
# squared exponentials is 0.99 if one lengthscale is 1.2 times the other.
_ALIGNED = 0.99
# Widths from the middle of a step at which nothing is left of it.
_FAR = 8.0
_NUMBER = re.compile(r"-?\d[\d.e-]*( ± [\d.e-]+| \([\d.e-]+ to [\d.e-]+\))?")
# A product of base kernels.
Term = tuple[Node, ...]
# A mode with a larger share of the posterior is the explanation.
_NEARLY_ALL = 0.95
# A kernel of lower probability is told as a guess.
_LIKELY = 0.5
# A grid this fine still shows a period of a hundredth of the range.
_N_GRID = 1000


@dataclass(frozen=True, repr=False)
class Decomposition(Summarized):
    """A posterior mean split into the functions that the kernel adds up; see :func:`decompose`.

    Attributes
    ----------
    X_new : ndarray, shape (m, D)
        Where the components were evaluated, in the user's units.
    components : xarray.Dataset
        In units of y, variances in their squares. Over (``component``, ``point``): ``mean`` and ``variance``. Over
        ``point``: ``mean_function`` (of the prior, plus what centring took from the components), and ``f_mean`` and
        ``f_variance`` of the whole function; the means of the components and the mean function add up to ``f_mean``.
        With the hyperparameters at the mode: ``mean_at_data`` over (``component``, ``obs``), and the ``residual``
        over ``obs``. Over ``component``: ``share`` of the variance of y, ``amplitude`` (sd of its mean at the data),
        ``description``; over (``component``, ``input``) whether it ``acts_on`` an input.
    mean_function, noise : str
        What was added to the components, in words; sd of the noise, in units of y.
    mean_function_share, residual_share : float
        Shares of the variance of y. That of the mean function is zero, up to rounding, unless it depends on the
        inputs.
    """

    fit: Fit
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

    def _summary(self) -> Summary:
        names = self.components.component.to_numpy()
        parts = [f"{i}. {name}: {text}" for i, (name, text) in enumerate(zip(names, self.descriptions, strict=True), 1)]
        noise = f"Noise: sd {self.noise}; {percent(self.residual_share)} of the variance is left to it."
        remarks = [*parts, f"Added to these: {self.mean_function}.", noise]
        known = self.components.attrs
        if known["is_log"]:
            remarks.insert(0, "Of the logarithm of y: where its components add up, those of y multiply.")
        if "probability" in known:
            ours, nothing = percent(known["probability"]), known.get("probability_of_noise")
            alone = "" if nothing is None else f", and noise alone (C) {percent(nothing)}"
            sure = known["probability"] >= _LIKELY
            said = f"{'The' if sure else 'Not sure: the'} search gives this kernel {ours} of the probability{alone}."
            remarks.insert(len(remarks) if sure else 0, said)
        share = known["share_of_posterior"]
        if share < _NEARLY_ALL:
            remarks.append(
                f"This is one of several explanations: {percent(share)} of the posterior is around this mode."
            )
        return Summary(f"Decomposition of {self.fit.gpm.description}", remarks=remarks)


@checked
def decompose(
    fit: Fit | StructureSearch,
    X_new: Any = None,
    *,
    method: Literal["bbq", "draws", "map", "mgp"] | None = None,
    centred: bool = True,
    unit: str | Mapping[Any, str] = "",
    y_unit: str = "",
    draws: int = 128,
    random_seed: int | np.random.Generator | None = None,
) -> Decomposition:
    r"""Split the posterior into the additive components of its kernel, and describe each in words.

    The kernel is multiplied out into a sum of products, :math:`k = \sum_c k_c`; products from one bracket share its
    parameters. Given all data, component c has mean :math:`k_c(x, X) G^{-1} (y - \mu)` and variance :math:`k_c(x, x)
    - k_c(x, X) G^{-1} k_c(X, x)` with :math:`G = \sum_c k_c(X, X) + \sigma^2 I`. Its share is cov(its mean at the
    data, y) / var(y), likewise for the mean function and the residual. Shares add up to one; that of a component that
    works against the others is negative. The largest share comes first. Like terms, which the same words describe and
    whose kernels among the data are nearly proportional, are one component: ``RQ + RQ`` may be ``"RQ_1 + RQ_2"``.
    A step "over" a length goes from an eighth to seven eighths of its height in it; without one it may be abrupt, and
    the uncertainty of its place includes the gap between the data.

    Parameters
    ----------
    fit : ParticleFit, LaplaceFit or StructureSearch
        Of :func:`composite_gp` or :func:`ard_gp`; of a search its best fit (of the logarithm of y, if that is more
        probable; ``y_unit`` is then ``"log y"``), told with the probability of this kernel and of noise alone.
        Components differ from mode to mode, so it tells of the mode around which most of the posterior lies, by the
        particles nearest to each mode or by Laplace's weights; ``components.attrs["share_of_posterior"]`` and the
        printed result say how much that is.
    X_new : array_like, shape (m, D), optional
        Default: with one input, a grid that reaches a tenth beyond the data; with several, the data themselves.
    method : {"draws", "bbq", "map", "mgp"}, optional
        How uncertain hyperparameters enter means and variances. ``"draws"``, the default for particles, gives exact
        moments of the mixture over those around the mode, or over ``draws`` posterior draws around that of a
        LaplaceFit. ``"map"`` ignores the uncertainty. ``"bbq"``, the default for a LaplaceFit, adds the delta method's
        :math:`\partial m^T \Sigma \partial m`; ``"mgp"`` also multiplies the variance by 4/3, which is meant for
        predictions.
    centred : bool
        Subtract from each component its average over the data, and add these averages to the mean function: the data
        determine the shape of a component far better than its level, which it shares with all others. ``False`` gives
        the formulas above.
    unit, y_unit : str or dict, optional
        Units of the input and of y for the words, such as ``"years"``; for several inputs a dict by label.

    Raises
    ------
    TypeError, ValueError
        If the model has no array kernel (from_marginal, embedding_gp, priors that are not plain normals, a
        ``pm.gp.mean.Mean``); for another object, unknown methods or units, or points of the wrong shape.

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
    probabilities = {}
    is_log = False
    if isinstance(fit, StructureSearch):
        fit = fit.logarithm or fit
        is_log, probability, fit = fit.is_of_logarithm, fit.table.probability.to_series(), fit.best
        names = {"probability": str(fit.gpm.expression)}
        names |= {} if "C" in names.values() else {"probability_of_noise": "C"}
        probabilities = {what: float(probability[name]) for what, name in names.items() if name in probability}
    check_one_fit(fit, "decompose")
    if not isinstance(fit.posterior, KernelPosterior):
        raise ValueError(
            f"decompose cannot take the kernel of {fit.gpm.description} apart: it needs a fit of composite_gp or "
            "ard_gp with normal priors, and without a mean function of your own or compile_kwargs"
        )
    if method is not None and method not in METHODS:
        raise ValueError(f"method must be one of {', '.join(sorted(METHODS))}; got {method!r}")
    method = method or ("bbq" if fit.ensemble_by().is_gaussian else "draws")
    expansion, particles, share_of_posterior = _most_probable(fit)
    posterior = cast("KernelPosterior", expansion.posterior)
    points = _default_points(fit.X) if X_new is None else read_inputs(X_new, "X_new", inputs=fit.gpm.inputs)
    thetas = None
    if method == "draws":
        rng = np.random.default_rng(random_seed)
        n = count("draws", draws)
        thetas = short_chains([expansion], n, rng) if particles is None else particles[:n]
    units = _units(unit, fit.gpm.inputs)
    y_unit = "log y" if is_log else y_unit
    words = Words(expansion, fit.gpm.inputs, units)
    X_data = posterior.of_each.X
    terms = _like_terms(additive_terms(posterior.kernel), words, X_data)
    kernels = [_kernel(term) for term in terms]
    parts = [_part(expansion, _Centred(kernel, X_data) if centred else kernel) for kernel in kernels]
    level = float(posterior.y_map.shift)
    *moments, (f_mean, f_variance) = _moments([*parts, expansion], points, method, thetas, level)
    means, variances = (np.stack(values) for values in zip(*moments, strict=True))
    at_data = np.stack([marginal_moments(part, fit.X, "map").mean - level for part in parts])
    fitted = marginal_moments(expansion, fit.X, "map").mean
    shares, amplitudes = [_share(values, fit.y) for values in at_data], at_data.std(axis=1)
    # The largest share first.
    order = sorted(range(len(terms)), key=lambda c: -shares[c])
    offset, offset_at_data = f_mean - sum(means[order]), fitted - sum(at_data[order])
    offset_share = _share(offset_at_data, fit.y)

    def described(c: int) -> str:
        text = words.product(terms[c][0]) + _slope(expansion, words, terms[c], y_unit, units)
        averages = [_average(term, words) for term in terms[c]]
        if all(averages):
            average = _part(expansion, _Centred(_kernel(averages), X_data))
            text = with_trend(text, _share(marginal_moments(average, fit.X, "map").mean, fit.y), shares[c])
        size = f"standard deviation {amplitudes[c]:.3g}" + (f" {y_unit}" if y_unit else "")
        return f"{text[0].upper()}{text[1:]} ({share_of_variance(shares[c])}, {size})"

    plain = {"units": y_unit or "units of y"}
    squared = {"units": f"({y_unit})²" if y_unit else "squared units of y"}
    components = xr.Dataset(
        {
            "mean": (("component", "point"), means, plain),
            "variance": (("component", "point"), variances, squared),
            "mean_function": ("point", offset, plain),
            "f_mean": ("point", f_mean, plain),
            "f_variance": ("point", f_variance, squared),
            "mean_at_data": (("component", "obs"), at_data, plain),
            "residual": ("obs", fit.y - fitted, plain),
            "share": ("component", shares),
            "amplitude": ("component", amplitudes, plain),
            "description": ("component", [described(c) for c in range(len(terms))]),
            "acts_on": (("component", "input"), [_acts_on(alike, fit.X.shape[1]) for alike in terms]),
        },
        coords={
            "component": _names(posterior.kernel, terms, fit.X.shape[1]),
            "input": fit.gpm.inputs,
            "point": point_labels(X_new) if X_new is not None else np.arange(len(points)),
        },
        attrs={
            "method": method,
            "centred": int(centred),
            "input_units": units,
            "y_unit": y_unit,
            "is_log": int(is_log),
            "share_of_posterior": share_of_posterior,
        }
        | probabilities,
    ).isel(component=order)
    return Decomposition(
        fit,
        points,
        components,
        mean_function=mean_function(offset, offset_at_data, offset_share, centred, y_unit),
        mean_function_share=offset_share,
        noise=words.noise(posterior.log_noise, float(posterior.y_map.scale), y_unit),
        residual_share=_share(fit.y - fitted, fit.y),
    )


def additive_terms(kernel: Node) -> list[Term]:
    """The kernel multiplied out: the base kernels of each product in the sum."""
    if isinstance(kernel, Add):
        return [term for part in kernel.parts for term in additive_terms(part)]
    if isinstance(kernel, Multiply):
        return [sum(chosen, ()) for chosen in product(*(additive_terms(part) for part in kernel.parts))]
    return [(kernel,)]


def _acts_on(terms: Sequence[Term], n_inputs: int) -> np.ndarray:
    columns = [leaf.columns for term in terms for leaf in term]
    return np.isin(np.arange(n_inputs), np.concatenate(columns))


def _like_terms(terms: Sequence[Term], words: Words, X: np.ndarray) -> list[list[Term]]:
    """Terms grouped so that none is told twice, the one of largest variance first in its group."""
    kernels = [reduce(Multiply, term).at(words.theta, X).K for term in terms]
    # Levels do not count: two lines are one line, wherever each is zero.
    centred = [K - K.mean(0) - K.mean(1, keepdims=True) + K.mean() for K in kernels]
    directions = [K / (np.linalg.norm(K) or 1.0) for K in centred]
    texts = [words.product(term) for term in terms]
    wordings = [
        (_NUMBER.sub("", text), {int(column) for leaf in term for column in leaf.columns})
        for text, term in zip(texts, terms, strict=True)
    ]
    groups: list[list[int]] = []
    for i in sorted(range(len(terms)), key=lambda i: -np.trace(kernels[i])):
        for group in groups:
            k = group[0]
            is_aligned = np.vdot(directions[i], directions[k]) > _ALIGNED
            if texts[i] == texts[k] or (is_aligned and wordings[i] == wordings[k]):
                group.append(i)
                break
        else:
            groups.append([i])
    return [[terms[i] for i in group] for group in groups]


def _kernel(terms: Sequence[Term]) -> Node:
    products = [reduce(Multiply, term) for term in terms]
    return products[0] if len(products) == 1 else Add(products)


def _default_points(X: np.ndarray) -> np.ndarray:
    if X.shape[1] > 1:
        return X
    low, high = X.min(), X.max()
    margin = 0.1 * (high - low) or 1.0
    return np.linspace(low - margin, high + margin, _N_GRID)[:, None]


def _units(unit: str | Mapping[Any, str], inputs: list) -> list[str]:
    if isinstance(unit, str):
        if unit and len(inputs) > 1:
            example = f"{{{inputs[0]!r}: {unit!r}}}"
            raise ValueError(
                f"with {len(inputs)} inputs, pass unit as a dict by input, such as {example}; got {unit!r}"
            )
        return [unit] * len(inputs)
    if not isinstance(unit, Mapping) or not set(unit) <= set(inputs):
        raise ValueError(f"unit must be text, or a dict with inputs among {', '.join(map(str, inputs))}; got {unit!r}")
    return [unit.get(label, "") for label in inputs]


class _Centred(Node):
    """Kernel of f(x) minus its average over the data; between the data (uncentred) and new points (centred)."""

    def __init__(self, kernel: Node, X: np.ndarray):
        self.kernel, self.X = kernel, X

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
        average = [(i, np.broadcast_to(-t.mean(1, keepdims=True), self.K.shape)) for i, t in self.data.tangents()]
        return [*self.new.tangents(), *average]


class _Level(Node):
    """A constant of the variance that the average of a periodic kernel over a period has; for means at the mode."""

    def __init__(self, leaf: Periodic, words: Words):
        self.variance = words.level(leaf) * np.exp(2 * words.theta[leaf.log_outputscale])

    def at(self, theta, X, Z=None):
        return _LevelAt(np.full((len(X), len(X if Z is None else Z)), self.variance))

    def diagonal(self, theta, X):
        return np.full(len(X), self.variance), []


class _LevelAt(NamedTuple):
    K: np.ndarray

    def tangents(self) -> list:
        return []


def _average(term: Term, words: Words) -> Term:
    """The product with its periodic factors averaged over their periods; empty if it has none that repeat."""
    repeating = words.repeating(term)
    return tuple(_Level(leaf, words) if leaf in repeating else leaf for leaf in term) if repeating else ()


def _most_probable(fit: Fit) -> tuple[Expansion, np.ndarray | None, float]:
    """The mode around which most of the posterior lies, the particles there (S', P) if any, and their share."""
    modes = find_modes(fit)
    if modes is fit:
        weights = np.array([mode.weight for mode in modes.modes])
        k = int(np.argmax(weights))
        return modes.expansions[k], None, float(weights[k])
    thetas, weights = fit.ensemble.thetas, fit.ensemble.weights
    away = np.stack([_distance(thetas, expansion) for expansion in modes.expansions])
    nearest = away.argmin(0)
    shares = np.bincount(nearest, weights, minlength=len(away))
    k = int(np.argmax(shares))
    rows = np.flatnonzero(nearest == k)
    if np.ptp(weights) > 0:
        rows = rows[systematic(weights[rows] / weights[rows].sum(), len(rows), np.random.default_rng(0))]
        rows = np.random.default_rng(0).permutation(rows)
    return modes.expansions[k], thetas[rows], float(shares[k])


def _distance(thetas: np.ndarray, expansion: Expansion) -> np.ndarray:
    """Minus twice the log density of a mode's Gaussian at thetas (S, P), up to a constant."""
    values, vectors = np.linalg.eigh(expansion.full_covariance)
    values = np.maximum(values, 1e-12 * values.max())
    return np.square((thetas - expansion.theta) @ vectors / np.sqrt(values)).sum(1) + np.log(values).sum()


def _part(best: Expansion, kernel: Node) -> Expansion:
    """The mode, with predictions of the part of f that has this kernel. They still contain the shift of y."""
    part, posterior = copy(best), copy(cast("KernelPosterior", best.posterior))
    n_mean = len(posterior.mean_indices)
    posterior.kernel = kernel
    # At new points only: the data keep their mean function, and their state is that of the whole kernel.
    posterior.mean_basis = lambda X: np.zeros((len(X), n_mean))
    part.space, part.posterior, part.state = FullSpace(posterior), posterior, best.state
    return part


def _moments(
    expansions: Sequence[Expansion], X: np.ndarray, method: str, thetas: np.ndarray | None, level: float
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Mean and variance of each part and, last, of the whole, in the user's units; ``level`` is the shift of y."""
    levels = [level] * (len(expansions) - 1) + [0.0]
    if thetas is None:
        found = [marginal_moments(expansion, X, method) for expansion in expansions]
        return [(one.mean - shift, one.variance) for one, shift in zip(found, levels, strict=True)]
    means, variances = (np.empty((len(expansions), len(thetas), len(X))) for _ in range(2))
    with one_blas_thread():
        for s, theta in enumerate(thetas):
            state = expansions[-1].posterior.state(theta)
            for k, expansion in enumerate(expansions):
                moments = expansion.posterior.moments(state, X)
                means[k, s], variances[k, s] = moments.mean - levels[k], np.maximum(moments.variance, 0.0)
    weights = np.full(len(thetas), 1 / len(thetas))
    return [mixture_moments(mean, variance, weights) for mean, variance in zip(means, variances, strict=True)]


def _names(kernel: Node, terms: Sequence[Sequence[Term]], n_inputs: int) -> list[str]:
    """Products of base kernels, or sums of these, by name; repeated base kernels are numbered like their parameters."""
    leaves = kernel.leaves
    names = dict(zip(map(id, leaves), numbered([leaf.structure[0] for leaf in leaves]), strict=True))

    def name(leaf: Any) -> str:
        is_one_of_several = n_inputs > 1 and len(leaf.columns) == 1
        return f"{names[id(leaf)]}[{leaf.columns[0]}]" if is_one_of_several else names[id(leaf)]

    return [" + ".join(sorted(" * ".join(map(name, term)) for term in alike)) for alike in terms]


def _share(part: np.ndarray, y: np.ndarray) -> float:
    """cov(part, y) / var(y); NaN where y does not vary."""
    deviation = y - y.mean()
    variance = float(np.mean(deviation**2))
    return float(np.mean((part - part.mean()) * deviation)) / variance if variance > 0 else np.nan


def _slope(best: Expansion, words: Words, terms: Sequence[Term], y_unit: str, units: Sequence[str]) -> str:
    """How steep a line of one input is, where it has begun, or how high a step, with its sd by the delta method."""
    steps, lines = words.steps(terms[0]), [leaf for leaf in terms[0] if isinstance(leaf, Linear)]
    others = [leaf for leaf in terms[0] if not isinstance(leaf, Linear | Step)]
    columns = {int(column) for leaf in [*steps, *lines] for column in leaf.columns}
    if others or len(columns) != 1 or len(lines) > 1:
        return ""
    posterior, [column] = cast("KernelPosterior", best.posterior), columns
    x_map, (low, high) = cast("Affine", posterior.x_map), np.zeros((2, 1, len(words.names)))
    for step in steps:
        _, centre, width = step.factor(words.theta)
        low[:, column], high[:, column] = centre - _FAR * width, centre + _FAR * width
    if lines:
        # One unit of the priors' scale apart.
        low[:, column] = high[:, column]
        high[:, column] += 1.0
    rise = marginal_moments(_part(best, _Centred(_kernel(terms), low)), x_map.shift + x_map.scale * high, "bbq")
    value, sd = float(rise.mean[0] - posterior.y_map.shift), float(np.sqrt(rise.variance[0]))
    if not lines:
        return height(value, sd, y_unit)
    unit = float((x_map.scale * (high - low)).max())
    return slope(value / unit, sd / unit, y_unit, units[column])
