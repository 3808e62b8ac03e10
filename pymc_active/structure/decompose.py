"""Split a fit into the functions that its kernel adds up, each with its posterior and one phrase."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product
from typing import Any

import numpy as np
import xarray as xr

from pymc_active.inference.fit import Fit
from pymc_active.kernels.combined import Add, Multiply
from pymc_active.kernels.expressions import numbered
from pymc_active.kernels.node import Node
from pymc_active.posterior.array import KernelPosterior
from pymc_active.predictions.model_average import check_one_fit
from pymc_active.predictions.predict import predict
from pymc_active.structure.kernel_search import StructureSearch
from pymc_active.support.numbers import QUANTILES, Z89, plus_minus, two_digits
from pymc_active.support.summaries import Summarized, Summary
from pymc_active.support.tables import point_labels, read_inputs
from pymc_active.support.threads import one_blas_thread

# A product of base kernels.
Term = tuple[Node, ...]
# A grid this fine still shows a period of a hundredth of the range: a guess.
_N_GRID = 1000
# A number whose sd is a larger part of it is given by its interval: the second where its median is within the third of
# an end of the interval, as of two modes (guesses).
_WIDE, _WIDE_ASKEW, _ASKEW = 0.3, 0.05, 0.1
# The phrase for a base kernel, and the parameters whose sizes it names.
_PHRASES = {
    "PER": ("a periodic function{of} with period {size}", "log_period"),
    "RQ": ("a function{of} that varies on many scales around {size}", "log_lengthscale"),
    "MAT12": ("a rough function{of} with lengthscale {size}", "log_lengthscale"),
    "LIN": ("a linear function{of}", ""),
    "STEP": ("a step{of} at {size}", "location"),
    "C": ("a constant", ""),
}
_SMOOTH = "a smooth function{of} with lengthscale {size}", "log_lengthscale"


@dataclass(frozen=True, repr=False)
class Decomposition(Summarized):
    """A posterior split into the functions that the kernel adds up; see :func:`decompose`.

    Attributes
    ----------
    X_new : ndarray, shape (m, D)
        Where the components were evaluated, in the user's units.
    components : xarray.Dataset
        In units of y and their squares. Over (``component``, ``point``): ``mean`` and ``variance``. Over ``point``:
        ``f_mean`` and ``f_variance`` of the whole function, and ``mean_function``, the rest of ``f_mean``. Over
        (``component``, ``obs``) ``mean_at_data``, over ``obs`` the ``residual``. Over ``component``: ``share`` of the
        variance of y, ``description``; over (``component``, ``input``) whether it ``acts_on`` an input.
    noise, residual_share : str, float
        Sd of the noise in units of y, and the share of the variance of y that is left to it.
    """

    fit: Fit
    X_new: np.ndarray
    components: xr.Dataset
    noise: str
    residual_share: float

    @property
    def descriptions(self) -> list[str]:
        """Each component in words, the largest share of the variance first."""
        return [str(text) for text in self.components.description.to_numpy()]

    def _summary(self) -> Summary:
        named = zip(self.components.component.to_numpy(), self.descriptions, strict=True)
        remarks = [f"{i}. {name}: {text}" for i, (name, text) in enumerate(named, 1)]
        remarks.append(f"Noise: sd {self.noise}; {percent(self.residual_share)} of the variance is left to it.")
        if self.components.attrs["y_unit"] == "log y":
            remarks.insert(0, "Of the logarithm of y: where its components add up, components of y multiply.")
        return Summary(f"Decomposition of {self.fit.gpm.description}", remarks=remarks)


def decompose(
    fit: Fit | StructureSearch,
    X_new: Any = None,
    *,
    unit: str | Mapping[Any, str] = "",
    y_unit: str = "",
    draws: int = 128,
) -> Decomposition:
    r"""Split the posterior into the additive components of its kernel, and describe each by a phrase.

    The kernel is multiplied out into a sum of products, :math:`k = \sum_c k_c`. Given the data and the hyperparameters,
    component c has mean :math:`k_c(x, X) G^{-1} (y - \mu)` and variance :math:`k_c(x, x) - k_c(x, X) G^{-1} k_c(X, x)`
    with :math:`G = \sum_c k_c(X, X) + \sigma^2 I`; means and variances are exact moments of the mixture over draws from
    the posterior, and numbers in words their medians and 89 % intervals. Each base kernel has one phrase, in a
    product joined by "times". The average of each component over the data is added to the mean function: the data
    determine the shape of a component far better than its level. Its share is cov(its mean at the data, y) / var(y).
    Shares, with the residual's, add up to one, unless the mean function varies; the share of a component that works
    against the others is negative. The largest share comes first. Where two products are of the same kind, such as
    ``RQ + RQ``, the first is in each draw the one that varies more slowly.

    Parameters
    ----------
    fit : Fit or StructureSearch
        Of :func:`composite_gp` or :func:`ard_gp`; of a search its best fit (of the logarithm of y, if that is more
        probable; ``y_unit`` is then ``"log y"``).
    X_new : array_like, shape (m, D), optional
        Default: with one input, a grid that reaches a tenth beyond the data; with several, the data themselves.
    unit, y_unit : str or dict, optional
        Units of the input and of y for the words, such as ``"years"``; for several inputs a dict by label.
    draws : int
        From the posterior, at most.

    Raises
    ------
    TypeError, ValueError
        If the model has no array kernel (from_marginal, embedding_gp, priors that are not plain normals, a
        ``pm.gp.mean.Mean``); for another object, unknown units, or points of the wrong shape.

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
    >>> fit = pma.fit(pma.composite_gp(x, y, "LIN + PER", bounds=[(0, 4)]), random_seed=1, progressbar=False)
    >>> sorted(pma.decompose(fit).components.component.to_numpy().tolist())
    ['LIN', 'PER']
    """
    if isinstance(fit, StructureSearch):
        search = fit.logarithm or fit
        fit, y_unit = search.best, "log y" if search.is_of_logarithm else y_unit
    check_one_fit(fit, "decompose")
    if (likelihood := getattr(fit.gpm, "likelihood", None)) is not None:
        raise ValueError(
            f"a function is decomposed for normal outcomes only; this model has likelihood={likelihood.name!r}"
        )
    posterior = fit.posterior
    if not isinstance(posterior, KernelPosterior):
        raise ValueError(
            f"decompose cannot take the kernel of {fit.gpm.description} apart: it needs a fit of composite_gp or "
            "ard_gp with normal priors, and without a mean function of your own or compile_kwargs"
        )
    points = _default_points(fit.X) if X_new is None else read_inputs(X_new, "X_new", inputs=fit.gpm.inputs)
    units = _units(unit, fit.gpm.inputs)
    ensemble = fit.ensemble_by("draws", draws, 0)
    full = np.hstack([ensemble.thetas, np.broadcast_to(posterior.constants, (len(ensemble), len(posterior.constants)))])
    terms = additive_terms(posterior.kernel)
    own = _slowest_first(terms, full)
    means, variances, at_data = _moments(
        posterior.of_each, [reduce(Multiply, term) for term in terms], own, full, points
    )
    weights = ensemble.weights
    mean = np.einsum("s,scm->cm", weights, means)
    variance = np.einsum("s,scm->cm", weights, variances + means**2) - mean**2
    mean_at_data = np.einsum("s,scn->cn", weights, at_data)
    whole, fitted = predict(ensemble, points), predict(ensemble, fit.X).f_mean.to_numpy()
    shares = [_share(values, fit.y) for values in mean_at_data]
    names, parts = [label if isinstance(label, str) else f"input {label}" for label in fit.gpm.inputs], posterior.x_map
    maps = (np.broadcast_to(part, len(names)) for part in (parts.shift, parts.scale))  # type: ignore[attr-defined]
    inputs = list(zip(names, *maps, units, strict=True))
    phrases = [", times ".join(_phrase(leaf, own[c], weights, inputs) for leaf in term) for c, term in enumerate(terms)]
    words = [
        f"{text[0].upper()}{text[1:]} ({percent(share)} of the variance{', against the others' * (share < 0)})"
        for text, share in zip(phrases, shares, strict=True)
    ]
    components = xr.Dataset(
        {
            "mean": (("component", "point"), mean),
            "variance": (("component", "point"), np.maximum(variance, 0.0)),
            "mean_function": ("point", whole.f_mean.to_numpy() - mean.sum(0)),
            "f_mean": ("point", whole.f_mean.to_numpy()),
            "f_variance": ("point", whole.f_variance.to_numpy()),
            "mean_at_data": (("component", "obs"), mean_at_data),
            "residual": ("obs", fit.y - fitted),
            "share": ("component", shares),
            "description": ("component", words),
            "acts_on": (
                ("component", "input"),
                [np.isin(np.arange(fit.X.shape[1]), np.concatenate([leaf.columns for leaf in term])) for term in terms],
            ),
        },
        coords={
            "component": _names(terms, fit.X.shape[1]),
            "input": fit.gpm.inputs,
            "point": point_labels(X_new) if X_new is not None else np.arange(len(points)),
        },
        attrs={"input_units": units, "y_unit": y_unit},
    ).isel(component=np.argsort(-np.array(shares), kind="stable"))
    noise = _number(np.exp(full[:, posterior.log_noise]) * float(posterior.y_map.scale), weights, y_unit)
    return Decomposition(fit, points, components, noise, _share(fit.y - fitted, fit.y))


def additive_terms(kernel: Node) -> list[Term]:
    """The kernel multiplied out: the base kernels of each product in the sum, one kind beside each other."""
    if isinstance(kernel, Add):
        return [term for part in kernel.parts for term in additive_terms(part)]
    if isinstance(kernel, Multiply):
        products = product(*(additive_terms(part) for part in kernel.parts))
        return [tuple(sorted(sum(chosen, ()), key=lambda leaf: leaf.structure)) for chosen in products]
    return [(kernel,)]


def _slowest_first(terms: Sequence[Term], full: np.ndarray) -> np.ndarray:
    """The draws (C, S, P) as each term has them: in each, of terms of one kind the slowest is the first."""
    own = np.tile(full, (len(terms), 1, 1))
    roles = [[pair for leaf in term for pair in leaf.roles.items()] for term in terms]
    kinds = [tuple(leaf.structure for leaf in term) for term in terms]
    for kind in set(kinds):
        alike = [c for c in range(len(terms)) if kinds[c] == kind]
        drawn = np.stack([full[:, [i for _, i in roles[c]]] for c in alike])
        is_length = [role != "log_outputscale" for role, _ in roles[alike[0]]]
        order = np.argsort(-drawn[..., is_length].sum(2), axis=0, kind="stable")
        for c, of_each in zip(alike, order, strict=True):
            own[c][:, [i for _, i in roles[c]]] = drawn[of_each, np.arange(len(full))]
    return own


def _moments(
    posterior: KernelPosterior, kernels: Sequence[Node], own: np.ndarray, full: np.ndarray, points: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Means and variances of f_c(x) less its average over the data (S, C, m), and its means at the data (S, C, n)."""
    X, Z, scale = posterior.X, posterior.x_map(points), float(posterior.y_map.scale)
    means, variances = np.empty((2, len(full), len(kernels), len(Z)))
    at_data = np.empty((len(full), len(kernels), len(X)))
    with one_blas_thread():
        for s, theta in enumerate(full):
            factor = posterior.light_state(theta[: posterior.n_parameters]).factor
            for c, (kernel, here) in enumerate(zip(kernels, own[:, s], strict=True)):
                among, across = kernel.at(here, X, X).K, kernel.at(here, X, Z).K
                average = among.mean(1)
                centred = across - average[:, None]
                means[s, c] = factor.alpha @ centred
                at_data[s, c] = factor.alpha @ (among - average[:, None])
                prior = kernel.diagonal(here, Z)[0] - 2 * across.mean(0) + average.mean()
                variances[s, c] = prior - np.square(factor.half_solve(centred)).sum(0)
    return scale * means, scale**2 * variances, scale * at_data


def _phrase(leaf: Node, drawn: np.ndarray, weights: np.ndarray, inputs: Sequence[tuple]) -> str:
    """What a base kernel is, with parameters from draws (S, P); of each input its name, shift, scale and unit."""
    text, role = _PHRASES.get(leaf.structure[0].removesuffix("0"), _SMOOTH)
    positions, sizes = [i for name, i in leaf.roles.items() if role and name.startswith(role)], []
    for k, i in enumerate(positions):
        # What several inputs share is on the scaled inputs.
        is_own = len(positions) == len(leaf.columns)
        _, shift, scale, unit = inputs[leaf.columns[k]] if is_own else ("", 0.0, 1.0, "")
        values = shift + scale * drawn[:, i] if role == "location" else scale * np.exp(drawn[:, i])
        sizes.append(_number(values, weights, unit))
    of = f" of {' and '.join(inputs[c][0] for c in leaf.columns)}" if len(inputs) > 1 else ""
    return text.format(of=of, size=" and ".join(sizes))


def _number(values: np.ndarray, weights: np.ndarray, unit: str) -> str:
    """Median and spread of numbers (S,)."""
    low, median, high = np.quantile(values, QUANTILES, weights=weights, method="inverted_cdf")
    sd = (high - low) / (2 * Z89)
    interval = f"{two_digits(median)} ({two_digits(low)} to {two_digits(high)})"
    wide = _WIDE_ASKEW if min(median - low, high - median) < _ASKEW * (high - low) else _WIDE
    return (plus_minus(median, sd) if sd <= wide * abs(median) else interval) + (f" {unit}" if unit else "")


def percent(share: float) -> str:
    """A share of the variance, which is undefined where y does not vary."""
    return "an undefined part" if np.isnan(share) else f"{two_digits(100 * share)} %"


def _names(terms: Sequence[Term], n_inputs: int) -> list[str]:
    """Products of base kernels by name; equal names are numbered."""

    def name(leaf: Node) -> str:
        return leaf.structure[0] + (f"[{leaf.columns[0]}]" if n_inputs > 1 and len(leaf.columns) == 1 else "")

    return numbered([" * ".join(sorted(map(name, term))) for term in terms])


def _share(part: np.ndarray, y: np.ndarray) -> float:
    """cov(part, y) / var(y); NaN where y does not vary."""
    return float(np.mean((part - part.mean()) * (y - y.mean())) / y.var()) if np.ptp(y) > 0 else np.nan


def _default_points(X: np.ndarray) -> np.ndarray:
    if X.shape[1] > 1:
        return X
    margin = 0.1 * np.ptp(X) or 1.0
    return np.linspace(X.min() - margin, X.max() + margin, _N_GRID)[:, None]


def _units(unit: str | Mapping[Any, str], inputs: list) -> list[str]:
    """The unit of each input."""
    units = {inputs[0]: unit} if isinstance(unit, str) and (not unit or len(inputs) == 1) else unit
    if not isinstance(units, Mapping) or not set(units) <= set(inputs):
        raise ValueError(
            f"unit must be text, or of several inputs a dict by input, such as {{{inputs[0]!r}: 'years'}}, with inputs "
            f"among {', '.join(map(str, inputs))}; got {unit!r}"
        )
    return [units.get(label, "") for label in inputs]
