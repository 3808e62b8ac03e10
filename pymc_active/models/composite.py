"""Models with a sum and product of base kernels."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from itertools import cycle, islice
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pytensor.tensor.random.type import RandomType
from pytensor.tensor.variable import TensorVariable

from pymc_active.kernels import linear
from pymc_active.kernels.combined import Add, Multiply
from pymc_active.kernels.cov import STATIONARY, Constant
from pymc_active.kernels.cov import Step as StepCovariance
from pymc_active.kernels.expressions import BASE_KERNELS, Base, Expression, Sum, base_kernels, numbered, parse
from pymc_active.kernels.node import Node
from pymc_active.kernels.periodic import Periodic, ZeroMeanPeriodic
from pymc_active.kernels.rational_quadratic import RationalQuadratic
from pymc_active.kernels.stationary import Stationary
from pymc_active.kernels.step import Step
from pymc_active.models.blueprint import Blueprint
from pymc_active.models.gpmodel import GPModel
from pymc_active.posterior.array import KernelPosterior
from pymc_active.posterior.latent import LatentKernelPosterior
from pymc_active.support.scaling import Scale
from pymc_active.support.tables import Bounds, name_of_input, read_numbers

# Priors of the toolbox of Malkomes & Garnett, (mean, sd), for inputs in [0, 1] and standardised y.
_COMPOSITE_PRIORS = {
    "log_lengthscale": (np.log(0.1), 1.0),
    "log_outputscale": (np.log(0.4), 1.0),
    "log_period": (np.log(0.1), np.sqrt(0.5)),
    "log_alpha": (np.log(0.05), np.sqrt(0.5)),
    "location": (0.5, 1.0),
    "log_width": (np.log(0.01), 1.0),
    "log_lengthscale_PER": (np.log(2.0), np.sqrt(0.5)),
    "log_lengthscale_PER0": (np.log(2.0), np.sqrt(0.5)),
    # A step beyond the data cannot be seen.
    "location_STEP": (0.5, 0.3),
}
# The noise prior of the toolbox all but fixes the noise, and its lines of slope 0.4 have a third of the sd of other
# terms over [0, 1], so that trends were flattened: the wide ones are the default.
_NOISE_PRIORS = {"wide": (np.log(0.1), 1.0), "toolbox": (np.log(0.01), np.sqrt(0.1))}
_SLOPE_PRIOR = (np.log(1.4), 1.0)
# Of the log of a period that the user knows: one percent, which leaves room for a season that drifts.
KNOWN_PERIOD_SD = 0.01
_STATIONARY_NAMES = {"SE": "ExpQuad", "MAT12": "Matern12", "MAT32": "Matern32", "MAT52": "Matern52"}
_LINES = ("LIN", "LIN0")
type Period = float | Sequence[Any] | Mapping[Any, float | Sequence[float]] | None
_PERIODIC = {"PER": Periodic, "PER0": ZeroMeanPeriodic}
# Parameters of each base kernel.
_PARAMETERS: dict[str, tuple[str, ...]] = {
    "C": ("log_outputscale",),
    "LIN": ("location", "log_outputscale"),
    "LIN0": ("log_outputscale",),
    **dict.fromkeys(_PERIODIC, ("log_lengthscale", "log_period", "log_outputscale")),
    "RQ": ("log_lengthscale", "log_alpha", "log_outputscale"),
    "STEP": ("location", "log_width", "log_outputscale"),
    **dict.fromkeys(_STATIONARY_NAMES, ("log_lengthscale", "log_outputscale")),
}


def composite_gp(
    X: Any,
    y: Any,
    expression: str | Expression,
    *,
    period: Period = None,
    mean: str | pm.gp.mean.Mean = "constant",
    priors: Mapping[str, Any] | str | None = "wide",
    x_scale: Scale = None,
    y_scale: Scale = None,
    bounds: Bounds | None = None,
    space: Any = None,
    y_sd: Any = None,
    likelihood: str = "normal",
    y_trials: Any = None,
    exposure: Any = None,
) -> GPModel:
    """A Gaussian process whose kernel is a sum and product of base kernels, such as ``"LIN + PER * RQ"``.

    Use it for series and functions with structure: trends, periods, and patterns that change along the way. Every
    factor of a product has its own output scale: the data determine only their product, and the prior the rest.
    Source: Malkomes & Garnett (2015), Active Structure Discovery for Gaussian Processes.

    Parameters
    ----------
    X, y, mean, x_scale, y_scale, bounds, space, y_sd, likelihood, y_trials, exposure
        As in :func:`ard_gp`, but a ``space`` must be of numbers, and it or ``bounds`` takes the inputs to [0, 1]: the
        default priors are stated for ``x_scale="unit", y_scale="standardize"``.
    expression : str or Expression
        Base kernels SE, PER, PER0 (with mean zero over a period), RQ, LIN (with a location), LIN0 (through the
        origin), MAT12, MAT32, MAT52, C (constant) and STEP (0 before a place and 1 after it), joined by ``+ * ( )``; or
        a value made with :mod:`pymc_active.kernels`. ``"LIN + STEP"`` has a change of level, and a season begins in
        ``"SE + STEP * PER"``. ``SE[1]`` acts on input 1 only. Without an index a kernel acts on all inputs, with one
        lengthscale; a step is along one input.
    period : float, dict or sequence, optional
        A season that you know, in the units of X: ``period=12`` for months. Every PER and PER0 of that input then has
        this period to one percent: its log has a normal prior of sd 0.01. Over twenty periods a season may thus drift
        by a fifth of one. With several inputs a dict by label, or one number (or None) for each. Several seasons of an
        input are a tuple or list, ``period={"hour": (24, 168)}``, with as many PER and PER0 of it, which have them in
        order; of a single input ``period=(24, 168)``. To fix a period, give ``log_period_PER`` in ``priors``, in the
        units of the *scaled* inputs: the logarithm of the period divided by the scale of X.
    priors : {"wide", "toolbox"} or dict, optional
        ``"toolbox"`` takes the priors of the authors' toolbox. ``"wide"``, the default, differs in the noise: the
        toolbox expects a noise sd of about 0.01, which few data cannot overrule, and in the slopes of LIN and LIN0,
        which it expects to be small. A dict has distributions or numbers, as in :func:`ard_gp`, and what it leaves out
        keeps the wide priors.
        The name of a parameter ends in its base kernel, as in ``log_period_PER``; repeated base kernels are numbered,
        as in ``log_lengthscale_SE_1``. ``log_lengthscale_SE`` sets every SE, ``log_lengthscale`` every kernel, and the
        most specific key wins. General keys may name kernels that the expression lacks. Defaults, normal mean / sd:

        * ``log_lengthscale``: log 0.1 / 1; of PER and PER0, in exp(-2 sin²/lengthscale²): log 2 / √0.5
        * ``log_outputscale``: log 0.4 / 1; of LIN and LIN0, a slope, log 1.4 / 1 (toolbox: log 0.4 / 1);
          ``log_noise``: log 0.1 / 1 (toolbox: log 0.01 / √0.1)
        * ``log_period``: log 0.1 / √0.5; ``log_alpha`` of RQ: log 0.05 / √0.5
        * ``location`` of LIN: 0.5 / 1, of STEP: 0.5 / 0.3; ``log_width`` of STEP, whose sigmoid is
          1 / (1 + exp(-(x - location) / width)): log 0.01 / 1, so that a step is smooth. Of a sudden one the data tell
          no more than between which points it is. All of these are in the units of the scaled inputs.
        * ``mean_constant``: 0 / 1; ``mean_slope``: 0 / 2

        Traces and summaries also hold them without the logarithm in the user's units, as ``period_PER``. Of a product
        the first factor has the scale of y.

    Raises
    ------
    TypeError, ValueError
        As :func:`ard_gp`; for malformed expressions (the message marks the position), unknown base kernels, and inputs
        that X does not have; for periods that are not positive, or that ``priors`` set too, and for
        several seasons of an input and another number of PER and PER0 of it.

    Examples
    --------
    >>> import numpy as np
    >>> import pymc_active as pma
    >>> x = np.linspace(0, 1, 20)
    >>> pma.composite_gp(x[:, None], np.sin(20 * x), "SE * PER").labels[:3]
    ['log_lengthscale_SE', 'log_outputscale_SE', 'log_lengthscale_PER']
    """
    common = {"mean": mean, "priors": priors, "x_scale": x_scale, "y_scale": y_scale, "bounds": bounds, "space": space}
    outcomes = {"y_sd": y_sd, "likelihood": likelihood, "y_trials": y_trials, "exposure": exposure}
    made = CompositeGP(X, y, parse(expression), period=period, **common, **outcomes)
    for k, periods in enumerate(known_periods(period, made.inputs)):
        if (n_parts := made.n_periodic(k)) != len(periods) > 1:
            parts = " + ".join(["PER" if made.n_inputs == 1 else f"PER[{k}]"] * len(periods))
            raise ValueError(
                f"period has {len(periods)} seasons of {name_of_input(made.inputs[k])}, which need {len(periods)} "
                f"parts of the kernel, as in {parts}; got {made.expression}, with {n_parts}"
            )
    return made


class CompositeGP(Blueprint):
    """The model of a kernel expression."""

    builder = "composite_gp"
    scaled_inputs = "unit"
    # Half as wide, [0, 1] has slopes twice as large as [-1, 1].
    slope_sd = 2.0

    def __init__(self, X: Any, y: Any, expression: Expression, *, priors: Any, period: Any = None, **common: Any):
        if isinstance(priors, str) and priors not in _NOISE_PRIORS:
            raise ValueError(f"priors must be one of {', '.join(sorted(_NOISE_PRIORS))} or a dict; got {priors!r}")
        if period is not None and isinstance(priors, Mapping) and any(key.startswith("log_period") for key in priors):
            raise ValueError("both period and priors set the period: leave period out, or log_period out of priors")
        self.expression, self.period = expression, period
        self.noise_prior = _NOISE_PRIORS[priors if isinstance(priors, str) else "wide"]
        self._bases = base_kernels(expression)
        self._names = numbered([base.name for base in self._bases])
        super().__init__(X, y, priors=priors, **common)

    @property
    def description(self):
        return self._described(str(self.expression))

    @property
    def options(self):
        if self.period is None:
            return {"expression": str(self.expression)}
        # As many as this kernel has: it may be a neighbour of the one that they were given for.
        periods = known_periods(self.period, self.inputs)
        used = [list(islice(cycle(numbers), self.n_periodic(k) or len(numbers))) for k, numbers in enumerate(periods)]
        shown = [None if not numbers else numbers[0] if len(set(numbers)) == 1 else numbers for numbers in used]
        return {"expression": str(self.expression), "period": shown}

    def _with_expression(self, expression):
        X, y, _ = self.data
        # Numbered names belong to the old expression.
        priors = self.priors
        if isinstance(priors, Mapping):
            priors = {key: prior for key, prior in priors.items() if not _NUMBER.search(key)}
        scales: dict[str, Any] = {"x_scale": self.x_map, "y_scale": self.y_map, **self.outcomes}
        scales |= {"mean": self.mean, "priors": priors, "period": self.period, "space": self.space}
        other = CompositeGP(pd.DataFrame(X, columns=self.inputs), y, expression, **scales)
        other.box, other.label = self.box, self.label
        return other

    def _by_parameter(self, priors):
        return None if isinstance(priors, str) else _spelled_out(priors, self._bases, self._names)

    def _add_kernel_parameters(self):
        for base in self._bases:
            if base.input is not None and base.input >= self.n_inputs:
                raise ValueError(f"{base} needs input {base.input}, but X has inputs 0 to {self.n_inputs - 1}")
            if base.name == "STEP" and len(self._columns(base)) > 1:
                raise ValueError(f"a step is along one of the {self.n_inputs} inputs: write STEP[0], or another number")
        periods = known_periods(self.period, self.inputs)
        # For the PER of each input in order; one season is that of all.
        seasons = [cycle(own) for own in periods]
        for base, name in zip(self._bases, self._names, strict=True):
            columns = self._columns(base)
            for kind in _PARAMETERS[base.name]:
                prior = _COMPOSITE_PRIORS.get(f"{kind}_{base.name}", _COMPOSITE_PRIORS[kind])
                if kind == "log_outputscale" and base.name in _LINES and self.priors != "toolbox":
                    prior = _SLOPE_PRIOR
                own = [next(seasons[column]) for column in columns if kind == "log_period" and periods[column]]
                if own:
                    if len(columns) > 1:
                        raise ValueError(f"{base} has one period for all inputs, but period is of one: write {base}[0]")
                    prior = (np.log(own[0] / self.x_map.scale[columns[0]]), KNOWN_PERIOD_SD)
                is_vector = kind == "location" and base.name == "LIN" and base.input is None
                self.parameters.add(f"{kind}_{name}", *prior, *["input"] * is_vector)
                at = slice(None) if is_vector else columns[0]
                # The unit of a lengthscale is that of its column; several columns share one on the scaled inputs.
                unit = self.x_map.scale[at] if is_vector or len(columns) == 1 else 1.0
                if kind == "log_outputscale":
                    # That of a line is per unit of its input.
                    unit = 1 / unit if base.name in _LINES else 1.0
                    unit *= self.y_map.scale if f"{kind}_{name}" in self.outputscales else 1.0
                if kind == "log_alpha" or (kind == "log_lengthscale" and base.name in _PERIODIC):
                    unit = 1.0
                if kind != "location":
                    self.parameters.add_exponential(f"{kind.removeprefix('log_')}_{name}", f"{kind}_{name}", unit)
                elif not self.x_map.is_identity:
                    self.parameters.add_in_original_units(f"{kind}_{name}", unit, self.x_map.shift[at])

    def inputs_of(self, name):
        bases = zip(self._bases, self._names, strict=True)
        return next((self._columns(base) for base, of in bases if name.endswith(f"_{of}")), np.arange(self.n_inputs))

    @property
    def outputscales(self):
        return [f"log_outputscale_{name}" for name in _first_factors(self.expression, iter(self._names))]

    def n_periodic(self, k: int) -> int:
        """How many parts of the kernel are periodic along an input."""
        return sum(base.name in _PERIODIC and base.input in (None, k) for base in self._bases)

    def _columns(self, base: Base) -> np.ndarray:
        return np.arange(self.n_inputs) if base.input is None else np.array([base.input])

    def covariance(self, variables):
        cov = self._pymc_covariance(self.expression, iter(self._names), variables)
        return float(self.y_map.scale) ** 2 * self.on_user_inputs(cov)

    def _pymc_covariance(
        self, tree: Expression, names: Iterator[str], variables: dict[str, Any]
    ) -> pm.gp.cov.BaseCovariance:
        if not isinstance(tree, Base):
            first, *rest = (self._pymc_covariance(child, names, variables) for child in tree.children)
            for part in rest:
                first = first + part if isinstance(tree, Sum) else first * part
            return first
        name, D, columns = next(names), self.n_inputs, self._columns(tree)

        def positive(kind: str) -> Any:
            return pt.exp(variables[f"log_{kind}_{name}"])

        if tree.name in ("LIN", "LIN0"):
            location = variables[f"location_{name}"] if tree.name == "LIN" else 0.0
            cov = pm.gp.cov.Linear(D, c=location, active_dims=columns)
        elif tree.name == "C":
            cov = Constant(D)
        elif tree.name in _PERIODIC:
            # PyMC's Periodic is exp(-sin²/(2 ls²)); ours is the toolbox's exp(-2 sin²/lengthscale²).
            cov = pm.gp.cov.Periodic(D, period=positive("period"), ls=positive("lengthscale") / 2, active_dims=columns)
            if tree.name == "PER0":
                stretch = 1 / (1 - pt.ive(0, positive("lengthscale") ** -2) ** len(columns))
                cov = stretch * cov + (1 - stretch) * Constant(D)
        elif tree.name == "STEP":
            cov = StepCovariance(D, variables[f"location_{name}"], positive("width"), columns)
        elif tree.name == "RQ":
            cov = pm.gp.cov.RatQuad(D, alpha=positive("alpha"), ls=positive("lengthscale"), active_dims=columns)
        else:
            cov = STATIONARY[_STATIONARY_NAMES[tree.name]](D, ls=positive("lengthscale"), active_dims=columns)
        return positive("outputscale") ** 2 * cov

    @property
    def kernel(self):
        return self._array_kernel(self.expression, iter(self._names))

    def _array_kernel(self, tree: Expression, names: Iterator[str]) -> Node:
        if not isinstance(tree, Base):
            children = [self._array_kernel(child, names) for child in tree.children]
            return Add(children) if isinstance(tree, Sum) else reduce(Multiply, children)
        name, columns = next(names), self._columns(tree)

        def at(kind: str) -> int:
            return self.parameters.position(f"{kind}_{name}")

        if tree.name in ("LIN", "LIN0"):
            location = self.parameters.positions(f"location_{name}") if tree.name == "LIN" else None
            return linear.Linear(columns, location, at("log_outputscale"))
        if tree.name == "C":
            return linear.Constant(at("log_outputscale"))
        if tree.name in _PERIODIC:
            of_kind = _PERIODIC[tree.name]
            return of_kind(at("log_lengthscale"), at("log_period"), columns, at("log_outputscale"))
        if tree.name == "STEP":
            return Step(int(columns[0]), at("location"), at("log_width"), at("log_outputscale"))
        if tree.name == "RQ":
            return RationalQuadratic(at("log_lengthscale"), columns, at("log_alpha"), at("log_outputscale"))
        groups = [(at("log_lengthscale"), columns)]
        return Stationary(_STATIONARY_NAMES[tree.name], groups, at("log_outputscale"))

    def array_posterior(self, data):
        kind = KernelPosterior if self.likelihood is None else LatentKernelPosterior
        return kind(*data, kernel=self.kernel, **self._array_keywords())


def known_periods(period: Any, inputs: list) -> list[list[float]]:
    """The known periods of each input."""
    periods: list[Any]
    if isinstance(period, Mapping):
        if not set(period) <= set(inputs):
            raise ValueError(f"period names inputs among {', '.join(map(str, inputs))}; got {period!r}")
        periods = [period.get(label) for label in inputs]
    else:
        # An array of one number is no list.
        period = period.tolist() if isinstance(period, np.ndarray) else period
        periods = list(period) if isinstance(period, list | tuple) else [period]
        periods = [None] * len(inputs) if period is None else periods
        # Of a single input all of them.
        periods = [periods] if len(inputs) == 1 and len(periods) > 1 and not any(map(np.ndim, periods)) else periods
    several = [
        [] if one is None else list(one) if isinstance(one, list | tuple | np.ndarray) else [one] for one in periods
    ]
    if len(periods) != len(inputs) or any(number is None or np.ndim(number) for one in several for number in one):
        raise ValueError(f"period must have one number, None or tuple for each of {len(inputs)} inputs; got {period!r}")
    numbers = [[float(read_numbers(number, "period")) for number in one] for one in several]
    if not all(0 < number < np.inf for one in numbers for number in one):
        raise ValueError(f"period must be positive, in the units of X; got {period!r}")
    return numbers


def _first_factors(tree: Expression, names: Iterator[str]) -> list[str]:
    """For each term of a tree the base kernel whose output scale carries y's, by the names of its base kernels."""
    if isinstance(tree, Base):
        return [next(names)]
    factors = [_first_factors(child, names) for child in tree.children]
    return [name for part in factors for name in part] if isinstance(tree, Sum) else factors[0]


_NUMBER = re.compile(r"_\d+$")
_SUFFIX = re.compile(rf"_(?:{'|'.join(sorted(BASE_KERNELS, key=len, reverse=True))})$")


def _spelled_out(priors: Any, bases: list[Base], base_names: list[str]) -> Any:
    """Priors by the names of parameters, from keys that may set every kernel of a kind, or every kernel."""
    if not isinstance(priors, Mapping):
        return priors
    names = [f"{kind}_{name}" for base, name in zip(bases, base_names, strict=True) for kind in _PARAMETERS[base.name]]
    possible = {key for base, kinds in _PARAMETERS.items() for kind in kinds for key in (kind, f"{kind}_{base}")}
    general = {key for key in priors if key in possible and key not in names}
    chosen = {key: _copy(prior) for key, prior in priors.items() if key not in general}
    for name in names:
        of_base = _NUMBER.sub("", name)
        for key in (of_base, _SUFFIX.sub("", of_base)):
            if name not in chosen and key in general:
                chosen[name] = _copy(priors[key])
    return chosen


def _copy(prior: Any) -> Any:
    """A copy of a distribution for each parameter, since PyMC turns the one it is given into that parameter."""
    if not isinstance(prior, TensorVariable) or prior.owner is None:
        return prior
    # Copies with one generator are the same random variable to PyTensor.
    inputs = [
        pytensor.shared(np.random.default_rng()) if isinstance(parameter.type, RandomType) else parameter
        for parameter in prior.owner.inputs
    ]
    return prior.owner.clone_with_new_inputs(inputs).outputs[prior.owner.outputs.index(prior)]
