"""Split a fit into the functions that its kernel adds up, each with its posterior and one phrase."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import groupby, product
from typing import Any

import numpy as np
import xarray as xr

from pymc_active.inference.fit import Fit
from pymc_active.kernels.combined import Add, Multiply
from pymc_active.kernels.expressions import numbered
from pymc_active.kernels.node import Node
from pymc_active.models.gpmodel import check_is_normal
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
# A number whose sd is a larger part of it is given by its interval (guess).
_WIDE = 0.3
_SMOOTH = {"RQ": "a function that varies on many scales around {}", "MAT12": "a rough function with lengthscale {}"}
_SMOOTH_ELSE = "a smooth function with lengthscale {}"
_POLYNOMIALS = {1: "a linear function", 2: "a quadratic polynomial", 3: "a cubic polynomial"}


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
        names, known = self.components.component.to_numpy(), self.components.attrs
        remarks = [
            f"{i}. {name}: {text}" for i, (name, text) in enumerate(zip(names, self.descriptions, strict=True), 1)
        ]
        level = self.components.mean_function
        span = " to ".join(dict.fromkeys(f"{float(end):.4g}" for end in (level.min(), level.max())))
        remarks.append(f"Added to these: the mean function and the components' averages over the data, {span}.")
        remarks.append(f"Noise: sd {self.noise}; {percent(self.residual_share)} of the variance is left to it.")
        if known["is_log"]:
            remarks.insert(0, "Of the logarithm of y: where its components add up, those of y multiply.")
        if "probability" in known:
            alone = known.get("probability_of_noise")
            noise = "" if alone is None else f", and noise alone (C) {percent(alone)}"
            remarks.append(f"The search gives this kernel {percent(known['probability'])} of the probability{noise}.")
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
    the posterior, and numbers in words their medians and 89 % intervals. The average of each component over the data is
    added to the mean function: the data determine the shape of a component far better than its level. Its share is
    cov(its mean at the data, y) / var(y). Shares and that of the residual add up to one, unless the mean function
    varies; that of a component that works against the others is negative. The largest share comes first. Where two
    products are of the same kind, such as ``RQ + RQ``, the first is in each draw the one that varies more slowly.

    Parameters
    ----------
    fit : Fit or StructureSearch
        Of :func:`composite_gp` or :func:`ard_gp`; of a search its best fit (of the logarithm of y, if that is more
        probable; ``y_unit`` is then ``"log y"``), told with the probability of this kernel and of noise alone.
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
    known: dict[str, Any] = {"is_log": 0}
    if isinstance(fit, StructureSearch):
        fit = fit.logarithm or fit
        known["is_log"], probability, fit = int(fit.is_of_logarithm), fit.table.probability.to_series(), fit.best
        for what, name in (("probability_of_noise", "C"), ("probability", str(fit.gpm.expression))):
            known |= {what: float(probability[name])} if name in probability else {}
    check_one_fit(fit, "decompose")
    check_is_normal(fit.gpm, "a function is decomposed")
    posterior = fit.posterior
    if not isinstance(posterior, KernelPosterior):
        raise ValueError(
            f"decompose cannot take the kernel of {fit.gpm.description} apart: it needs a fit of composite_gp or "
            "ard_gp with normal priors, and without a mean function of your own or compile_kwargs"
        )
    points = _default_points(fit.X) if X_new is None else read_inputs(X_new, "X_new", inputs=fit.gpm.inputs)
    units, y_unit = _units(unit, fit.gpm.inputs), "log y" if known["is_log"] else y_unit
    ensemble = fit.ensemble_by("draws", draws, 0)
    full = np.hstack([ensemble.thetas, np.broadcast_to(posterior.constants, (len(ensemble), len(posterior.constants)))])
    terms = additive_terms(posterior.kernel)
    order = _slowest_first(terms, full)
    means, variances, at_data = _moments(posterior, [reduce(Multiply, term) for term in terms], order, full, points)
    weights = ensemble.weights
    mean = np.einsum("s,scm->cm", weights, means)
    variance = np.einsum("s,scm->cm", weights, variances + means**2) - mean**2
    mean_at_data = np.einsum("s,scn->cn", weights, at_data)
    whole, fitted = predict(ensemble, points), predict(ensemble, fit.X).f_mean.to_numpy()
    shares = [_share(values, fit.y) for values in mean_at_data]
    words = _Words(posterior, fit.gpm.inputs, units, full, weights)

    def described(c: int) -> str:
        text = words.phrase([[terms[k][i] for k in order[:, c]] for i in range(len(terms[c]))], mean_at_data[c], fit.X)
        return f"{text[0].upper()}{text[1:]} ({percent(shares[c])} of the variance)"

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
            "description": ("component", [described(c) for c in range(len(terms))]),
            "acts_on": (
                ("component", "input"),
                [np.isin(np.arange(fit.X.shape[1]), np.concatenate([leaf.columns for leaf in term])) for term in terms],
            ),
        },
        coords={
            "component": _names(posterior.kernel, terms, fit.X.shape[1]),
            "input": fit.gpm.inputs,
            "point": point_labels(X_new) if X_new is not None else np.arange(len(points)),
        },
        attrs={"input_units": units, "y_unit": y_unit} | known,
    ).isel(component=np.argsort(-np.array(shares), kind="stable"))
    noise = words.number(np.exp(full[:, posterior.log_noise]) * float(posterior.y_map.scale), y_unit)
    return Decomposition(fit, points, components, noise, _share(fit.y - fitted, fit.y))


def additive_terms(kernel: Node) -> list[Term]:
    """The kernel multiplied out: the base kernels of each product in the sum, those of one kind beside each other."""
    if isinstance(kernel, Add):
        return [term for part in kernel.parts for term in additive_terms(part)]
    if isinstance(kernel, Multiply):
        products = product(*(additive_terms(part) for part in kernel.parts))
        return [tuple(sorted(sum(chosen, ()), key=lambda leaf: leaf.structure)) for chosen in products]
    return [(kernel,)]


def _slowest_first(terms: Sequence[Term], full: np.ndarray) -> np.ndarray:
    """Which term each component is in each draw (S, C): of terms of one kind, the slowest is the first."""
    kinds = [tuple(leaf.structure for leaf in term) for term in terms]
    order = np.tile(np.arange(len(terms)), (len(full), 1))
    for _, alike in groupby(sorted(range(len(terms)), key=lambda c: (kinds[c], c)), key=lambda c: kinds[c]):
        group = np.array(list(alike))
        lengths = [
            [i for leaf in terms[c] for role, i in leaf.roles.items() if role != "log_outputscale"] for c in group
        ]
        slow = np.stack([full[:, some].sum(1) for some in lengths], axis=1)
        order[:, group] = group[np.argsort(-slow, axis=1, kind="stable")]
    return order


def _moments(
    posterior: KernelPosterior, kernels: Sequence[Node], order: np.ndarray, full: np.ndarray, points: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Means and variances of f_c(x) less its average over the data (S, C, m), and its means at the data (S, C, n)."""
    X, Z, scale = posterior.X, posterior.x_map(points), float(posterior.y_map.scale)
    # Rows may stand for several measurements.
    share = np.broadcast_to(posterior.counts, len(X)) / np.sum(np.broadcast_to(posterior.counts, len(X)))
    number = {x.tobytes(): i for i, x in enumerate(X + 0.0)}
    of_each = [number[x.tobytes()] for x in posterior.of_each.X + 0.0]
    means, variances = np.empty((2, *order.shape, len(Z)))
    at_data = np.empty((*order.shape, len(of_each)))
    with one_blas_thread():
        for s, theta in enumerate(full):
            factor = posterior.light_state(theta[: posterior.n_parameters]).factor
            for c, k in enumerate(order[s]):
                among, across = kernels[k].at(theta, X, X).K, kernels[k].at(theta, X, Z).K
                average = among @ share
                centred = across - average[:, None]
                means[s, c] = factor.alpha @ centred
                at_data[s, c] = (factor.alpha @ (among - average[:, None]))[of_each]
                prior = kernels[k].diagonal(theta, Z)[0] - 2 * share @ across + share @ average
                variances[s, c] = prior - np.square(factor.half_solve(centred)).sum(0)
    return scale * means, scale**2 * variances, scale * at_data


class _Words:
    """Phrases for products of base kernels, with numbers from draws ``full`` (S, P) in the user's units."""

    def __init__(self, posterior: KernelPosterior, inputs: Sequence, units: Sequence[str], full: np.ndarray, weights):
        self.full, self.weights, self.units = full, weights, units
        parts: Any = posterior.x_map
        self.scale, self.shift = (np.broadcast_to(part, len(inputs)) for part in (parts.scale, parts.shift))
        self.names = [label if isinstance(label, str) else f"input {label}" for label in inputs]

    def phrase(self, factors: Sequence[Sequence[Node]], at_data: np.ndarray, X: np.ndarray) -> str:
        """What a product is, from each of its factors in every draw and its mean at the data."""
        kinds: dict[str, list[Sequence[Node]]] = {"PER": [], "LIN": [], "STEP": [], "C": [], "smooth": []}
        for one in factors:
            kinds.get(one[0].structure[0].removesuffix("0"), kinds["smooth"]).append(one)
        periods, lines, steps, smooth = (kinds[kind] for kind in ("PER", "LIN", "STEP", "smooth"))
        if periods:
            text = f"a periodic function{self._of(periods)} with period {self._sizes(periods, 'log_period')}"
            changes = f", whose shape changes over {self._sizes(smooth, 'log_lengthscale')}{self._of(smooth)}"
            text += changes if smooth else ""
        elif smooth:
            what = _SMOOTH.get(smooth[0][0].structure[0], _SMOOTH_ELSE)
            text = what.format(self._sizes(smooth, "log_lengthscale")) + self._of(smooth)
        elif lines:
            text = _POLYNOMIALS.get(len(lines), f"a polynomial of degree {len(lines)}") + self._of(lines)
        else:
            text = f"a step{self._of(steps)}" if steps else "a constant"
        columns = {int(column) for one in factors for column in one[0].columns}
        if not periods and not smooth and len(lines) <= 1 and len(columns) == 1:
            text += " that rises" if np.cov(X[:, columns.pop()], at_data)[0, 1] > 0 else " that falls"
        if lines and (periods or smooth):
            text += f", times {_POLYNOMIALS.get(len(lines), 'a polynomial')}{self._of(lines)}"
        if steps:
            places = " and ".join(map(self._place, steps))
            text += f"{' at' if text.startswith('a step') else ', which begins at'} {places}"
        return text

    def number(self, values: np.ndarray, unit: str = "") -> str:
        """Median and spread of positive numbers (S,)."""
        low, median, high = np.quantile(values, QUANTILES, weights=self.weights, method="inverted_cdf")
        sd = (high - low) / (2 * Z89)
        interval = f"{two_digits(median)} ({two_digits(low)} to {two_digits(high)})"
        return (plus_minus(median, sd) if sd <= _WIDE * median else interval) + (f" {unit}" if unit else "")

    def _sizes(self, factors: Sequence[Sequence[Node]], role: str) -> str:
        """Lengthscales or periods in the user's units, or where several inputs share one, on the scaled inputs."""
        found = []
        for one in factors:
            positions = [k for k, name in enumerate(one[0].roles) if name.startswith(role)]
            columns = one[0].columns if len(positions) == len(one[0].columns) else [None] * len(positions)
            for column, position in zip(columns, positions, strict=True):
                scale, unit = (1.0, "") if column is None else (self.scale[column], self.units[column])
                found.append(self.number(scale * np.exp(self._values(one, position)), unit))
        return " and ".join(found)

    def _place(self, step: Sequence[Node]) -> str:
        column = int(step[0].columns[0])
        values = self.shift[column] + self.scale[column] * self._values(step, list(step[0].roles).index("location"))
        mean, unit = float(self.weights @ values), f" {self.units[column]}" if self.units[column] else ""
        return plus_minus(mean, float(np.sqrt(self.weights @ (values - mean) ** 2))) + unit

    def _values(self, factor: Sequence[Node], position: int) -> np.ndarray:
        """A parameter of a factor, which is another one in each draw."""
        return self.full[np.arange(len(self.full)), [list(one.roles.values())[position] for one in factor]]

    def _of(self, factors: Sequence[Sequence[Node]]) -> str:
        columns = dict.fromkeys(int(column) for one in factors for column in one[0].columns)
        return "" if len(self.names) == 1 or not columns else f" of {' and '.join(self.names[c] for c in columns)}"


def percent(share: float) -> str:
    """A share of the variance, or a probability; a share is undefined where y does not vary."""
    if np.isnan(share):
        return "an undefined part"
    if abs(share) < 1e-3:
        return "less than 0.1 %"
    return f"{100 * share:.0f} %" if abs(share) >= 0.095 else f"{100 * share:.2g} %"


def _names(kernel: Node, terms: Sequence[Term], n_inputs: int) -> list[str]:
    """Products of base kernels by name; repeated base kernels are numbered like their parameters."""
    leaves = kernel.leaves
    names = dict(zip(map(id, leaves), numbered([leaf.structure[0] for leaf in leaves]), strict=True))

    def name(leaf: Node) -> str:
        is_one_of_several = n_inputs > 1 and len(leaf.columns) == 1
        return f"{names[id(leaf)]}[{leaf.columns[0]}]" if is_one_of_several else names[id(leaf)]

    return [" * ".join(sorted(map(name, term))) for term in terms]


def _share(part: np.ndarray, y: np.ndarray) -> float:
    """cov(part, y) / var(y); NaN where y does not vary."""
    deviation = y - y.mean()
    variance = float(np.mean(deviation**2))
    return float(np.mean((part - part.mean()) * deviation)) / variance if variance > 0 else np.nan


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
