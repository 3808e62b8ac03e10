"""Taylor coefficients of any PyMC covariance along lines, from PyTensor graphs.

PyMC clips squared distances at zero and takes their roots, which cannot be differentiated twice where two points meet.
Copies of the covariances have distances from differences, and profiles whose derivatives are closed forms. The rest is
automatic differentiation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from copy import copy
from functools import partial
from typing import NamedTuple

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.gradient import pushforward
from pytensor.graph.replace import clone_replace, vectorize_graph

from pymc_active.kernels.cov import Embedding, ErrorBars, Rescaled
from pymc_active.kernels.polynomials import Polynomial, combine, compose
from pymc_active.kernels.radial import ROOT_OFFSET, Profile, exp_quad, matern52

cov = pm.gp.cov

# Pairs of points evaluated at a time.
_BLOCK = 100_000

# Derivatives of a profile in the coefficient of s² t².
_ORDER = 4


def _matern(start: int, squared_scale: float, amplitude: float, s):
    """A Matérn profile and its derivatives in the squared distance, at a = √(c s).

    With F₀ = (3 + 3a + a²) exp(-a) and dF/d(a²) = -½ F₊₁, F₀ is Matérn 5/2, F₁ Matérn 3/2 and F₂ Matérn 1/2.
    """
    a = pt.sqrt(squared_scale * s)
    F = [3 + 3 * a + a**2, 1 + a, 1, 1 / a, (1 + 1 / a) / a**2, (1 + 3 / a + 3 / a**2) / a**3]
    F.append((1 + 6 / a + 15 / a**2 + 15 / a**3) / a**4)
    return [amplitude * (-squared_scale / 2) ** k * F[start + k] * pt.exp(-a) for k in range(_ORDER + 1)]


def _cosine(s):
    """cos(2π√s) and its derivatives: (-½)ᵏ j(x) / xᵏ⁻¹ in x², with the spherical Bessel function j of order k - 1."""
    c = 4 * np.pi**2
    z = c * s
    x, out = pt.sqrt(z), [pt.cos(pt.sqrt(z))]
    sine, cosine = pt.sin(x), pt.cos(x)
    closed = [
        sine / x,
        (sine - x * cosine) / x**3,
        ((3 - z) * sine - 3 * x * cosine) / x**5,
        ((15 - 6 * z) * sine - (15 - z) * x * cosine) / x**7,
    ]
    for m in range(_ORDER):
        # Below one the closed forms cancel, and the series has converged after twelve terms.
        terms = [(-0.5) ** i / (math.factorial(i) * math.prod(range(1, 2 * (m + i) + 2, 2))) * z**i for i in range(12)]
        bessel = pt.switch(z < 1, sum(terms), closed[m])
        out.append((-0.5 * c) ** (m + 1) * bessel)
    return out


# Keyed by the method that computes them, because a subclass may replace it.
_PROFILES: dict[Callable | None, Callable] = {
    cov.Matern52.full_from_distance: partial(_matern, 0, 5.0, 1 / 3),
    cov.Matern32.full_from_distance: partial(_matern, 1, 3.0, 1.0),
    cov.Matern12.full_from_distance: partial(_matern, 2, 1.0, 1.0),
    cov.Exponential.full_from_distance: partial(_matern, 2, 0.25, 1.0),
    cov.Cosine.full_from_distance: _cosine,
}
# The most frequent profiles need no graph.
_ARRAY_PROFILES: dict[Callable | None, Profile] = {
    cov.ExpQuad.full_from_distance: exp_quad,
    cov.Matern52.full_from_distance: matern52,
}
_ROUGH_PROFILES = tuple(kernel.full_from_distance for kernel in (cov.Matern32, cov.Matern12, cov.Exponential))
_ROUGH = (cov.WhiteNoise, cov.Circular, cov.Coregion)
# Others have periods, or functions of the user's that may.
_PLAIN = {
    *(cov.ExpQuad, cov.RatQuad, cov.Matern52, cov.Matern32, cov.Matern12, cov.Exponential, cov.Linear, cov.Polynomial),
    *(cov.Constant, cov.WhiteNoise, cov.Coregion, cov.Add, cov.Prod, cov.Exponentiated, cov.Kron),
    *(Embedding, Rescaled, ErrorBars),
}
_PLAIN_MEANS = {pm.gp.mean.Zero, pm.gp.mean.Constant, pm.gp.mean.Linear}


class _Smooth:
    """Makes copies of covariances that can be differentiated where points meet."""

    def __init__(self):
        self._copies: dict[int, object] = {}
        # Placeholders for the squared distances around which profiles are Taylor polynomials.
        self._centers: list[tuple] = []

    def copy(self, value):
        """Copy a covariance, or a list that holds some; return anything else as it is."""
        if isinstance(value, list | tuple) and any(isinstance(part, cov.BaseCovariance) for part in value):
            return type(value)([self.copy(part) for part in value])
        if not isinstance(value, cov.BaseCovariance):
            return value
        if id(value) not in self._copies:
            new = self._copies[id(value)] = copy(value)
            for name, part in vars(value).items():
                setattr(new, name, self.copy(part))
            square_dist = getattr(type(value), "square_dist", None)
            if square_dist is cov.Stationary.square_dist:
                new.square_dist = partial(_square_distance, new.ls)
            elif square_dist is cov.Gibbs.square_dist:
                new.square_dist = partial(_square_distance, 1.0)
            profile = _PROFILES.get(getattr(type(value), "full_from_distance", None))
            if profile:
                new.full_from_distance = partial(self._full_from_distance, profile)
        return self._copies[id(value)]

    def _full_from_distance(self, profile, dist, squared=False):
        s = dist + ROOT_OFFSET if squared else dist**2
        center = s.type()
        self._centers.append((center, s))
        step = s - center
        return sum(g / math.factorial(k) * step**k for k, g in enumerate(profile(center)))

    def resolve(self, expressions: list) -> list:
        """Replace the placeholders by the distances, after all differentiation."""
        # Backwards, because later distances may depend on earlier covariances.
        for center, s in reversed(self._centers):
            expressions = clone_replace(expressions, {center: s}, rebuild_strict=False)
        return expressions


def _square_distance(lengthscale, X, Xs=None):
    Xs = X if Xs is None else Xs
    return pt.sum(pt.square((X[:, None, :] - Xs[None, :, :]) / lengthscale), 2)


class _SumOrProduct(NamedTuple):
    """A covariance that adds or multiplies parts."""

    parts: list
    is_sum: bool


class _RadialLeaf(NamedTuple):
    """A profile of a leaf that is a squared distance."""

    distance: int
    profile: Profile


def _decompose(kernel, A, B, leaves: list):
    """Append matrices between the rows of A and B to ``leaves``, and return how the covariance is made of these."""
    # Multiplying polynomials is faster than differentiating and compiling graphs of products.
    if isinstance(kernel, Rescaled | Embedding):
        A, B = map(kernel.map_inputs, kernel._slice(A, B))
        return _decompose(kernel.base, A, B, leaves)
    if isinstance(kernel, cov.Add | cov.Prod):
        parts = [_decompose(factor, A, B, leaves) for factor in kernel._factor_list]
        return _SumOrProduct(parts, isinstance(kernel, cov.Add))
    profile = _ARRAY_PROFILES.get(getattr(type(kernel), "full_from_distance", None))
    if profile and type(kernel).full is cov.Stationary.full:
        leaves.append(kernel.square_dist(*kernel._slice(A, B)))
        return _RadialLeaf(len(leaves) - 1, profile)
    is_kernel = isinstance(kernel, cov.BaseCovariance)
    leaves.append(kernel(A, B) if is_kernel else pt.alloc(kernel, A.shape[0], B.shape[0]))
    return len(leaves) - 1


def _combine(structure, leaves: list[Polynomial], order: tuple[int, int]) -> Polynomial:
    if isinstance(structure, int):
        return leaves[structure]
    if isinstance(structure, _RadialLeaf):
        inner = leaves[structure.distance]
        return compose(structure.profile(inner[0, 0], sum(order)), inner, order)
    return combine([_combine(part, leaves, order) for part in structure.parts], structure.is_sum, order)


class LineGraphs:
    """The covariance along lines; ``join`` turns expressions of the model's variables into functions of theta."""

    def __init__(self, cov_func, join: Callable[[list], list]):
        self.A, self.B, self.U, self.V = self.points = [pt.matrix(name) for name in "ABUV"]
        self._smooth = _Smooth()
        leaves: list = []
        self.structure = _decompose(self._smooth.copy(cov_func), self.A, self.B, leaves)
        self.leaves = join(leaves)
        # Placeholders are functions of theta too.
        if self._smooth._centers:
            centers, distances = zip(*self._smooth._centers, strict=True)
            self._smooth._centers = list(zip(centers, join(list(distances)), strict=True))

    def derivatives(self, order: tuple[int, int]) -> tuple[list, list]:
        """Keys (leaf, i, j) and derivatives of the leaves along the rows of U (i times) and V (j times)."""
        keys, values = [], []
        for leaf, matrix in enumerate(self.leaves):
            in_s = matrix
            for i in range(order[0] + 1):
                in_s = _along(in_s, self.A, self.U) if i else in_s
                in_t = in_s
                for j in range(order[1] + 1):
                    in_t = _along(in_t, self.B, self.V) if j else in_t
                    if in_t is not None:
                        keys.append((leaf, i, j))
                        values.append(in_t)
        return keys, self._smooth.resolve(values)

    def by_row(self, expressions: list) -> tuple[list, list]:
        """The expressions for pairs of rows, and their inputs (m, 1, D)."""
        rows = [pt.tensor(point.name, dtype=point.dtype, shape=(None, 1, None)) for point in self.points]
        return rows, vectorize_graph(expressions, dict(zip(self.points, rows, strict=True)))


def _along(matrix, point, direction):
    """Directional derivative; None if it is zero."""
    if matrix is None:
        return None
    return pushforward(matrix, point, direction, disconnected_outputs="ignore", return_disconnected="none")


class LineFunction(NamedTuple):
    """Compiled :meth:`LineGraphs.derivatives` of one order, called with (theta, A, B, U, V, *data)."""

    function: Callable
    keys: list[tuple[int, int, int]]
    structure: object
    order: tuple[int, int]

    def __call__(self, *arguments) -> Polynomial:
        leaves: list[Polynomial] = [{} for _ in range(1 + self.keys[-1][0])]
        for (leaf, i, j), value in zip(self.keys, self.function(*arguments), strict=True):
            leaves[leaf][i, j] = value / (math.factorial(i) * math.factorial(j))
        return _combine(self.structure, leaves, self.order)


class GraphLines:
    """A covariance between points ``a`` (n, 1, D) and ``b`` (m, D), or row by row, by ``compiled(order, by_row)``."""

    def __init__(self, compiled: Callable[[tuple[int, int], bool], LineFunction], theta, a, b, data: list):
        self.compiled, self.theta, self.data = compiled, theta, data
        self.a, self.b = np.asarray(a, float), np.asarray(b, float)

    def along(self, u, v, order):
        order = (0 if u is None else order[0], 0 if v is None else order[1])
        u = np.zeros(self.a.shape[-1]) if u is None else np.asarray(u, float)
        v = np.zeros(self.b.shape[-1]) if v is None else np.asarray(v, float)
        shape = np.broadcast_shapes(self.a.shape, self.b.shape, u.shape, v.shape)
        if self.a.ndim == 3 < len(shape):
            front = shape[:-3]
            several = [np.broadcast_to(d, front + np.broadcast_shapes(d.shape[-3:], (1, 1, 1))) for d in (u, v)]
            parts = [self.along(*(d[i] for d in several), order) for i in np.ndindex(front)]
            return {key: np.stack([p[key] for p in parts]).reshape(shape[:-1]) for key in parts[0]}
        if self.a.ndim == 3 and (u.ndim < 2 or u.shape[-2] == 1) and (v.ndim < 3 or v.shape[0] == 1):
            (n, m, D), A, B = shape, self.a[:, 0], self.b
            u = u[:, 0] if u.ndim == 3 else u
            v = v[0] if v.ndim == 3 else v
            return self._in_blocks(order, A, B, np.broadcast_to(u, (n, D)), np.broadcast_to(v, (m, D)))
        rows = [np.broadcast_to(points, shape).reshape(-1, shape[-1]) for points in (self.a, self.b, u, v)]
        return {key: value.reshape(shape[:-1]) for key, value in self._in_blocks(order, *rows, by_row=True).items()}

    def _in_blocks(self, order, A, B, U, V, *, by_row=False) -> Polynomial:
        function = self.compiled(order, by_row)
        step = _BLOCK if by_row else max(1, _BLOCK // max(len(A), 1))
        blocks = []
        for start in range(0, max(len(B), 1), step):
            part = slice(start, start + step)
            points = [rows[part, None] for rows in (A, B, U, V)] if by_row else [A, B[part], U, V[part]]
            coefficients = function(self.theta, *points, *self.data)
            if by_row:
                # A coefficient that does not depend on the rows has no axis for them.
                blocks.append({k: np.broadcast_to(c.reshape(-1), len(B[part])) for k, c in coefficients.items()})
            else:
                blocks.append({k: np.broadcast_to(c, (len(A), len(B[part]))) for k, c in coefficients.items()})
        return {key: np.concatenate([block[key] for block in blocks], axis=-1) for key in blocks[0]}


def _covariances(value) -> Iterator:
    """A covariance and all covariances in it."""
    if isinstance(value, cov.BaseCovariance):
        yield value
        value = list(vars(value).values())
    if isinstance(value, list | tuple):
        for part in value:
            yield from _covariances(part)


def is_smooth(gp) -> bool:
    """Whether covariance, noise and mean of a marginal GP are of kinds that can have neither a period nor a step."""
    parts = [*_covariances(gp.cov_func), *_covariances(gp.sigma)]
    return type(gp.mean_func) in _PLAIN_MEANS and all(type(part) in _PLAIN for part in parts)


def check_known(cov_func) -> bool:
    """Whether all parts are known, else try :func:`check_numerically`; a ValueError if no second derivative exists."""
    parts = list(_covariances(cov_func))
    for part in parts:
        if isinstance(part, _ROUGH) or getattr(type(part), "full_from_distance", None) in _ROUGH_PROFILES:
            raise not_twice_differentiable(type(part).__name__)
    return all(type(part).__module__ in (cov.__name__, Embedding.__module__) for part in parts)


def check_numerically(cov_func, lines: Callable, X: np.ndarray) -> None:
    """Raise a ValueError unless derivatives at some rows of X (n, D) are finite and agree with those close by."""
    unit = np.ptp(X, axis=0)
    unit = np.where(unit > 0, unit, 1.0)
    points = np.repeat(X[np.unique(np.linspace(0, len(X) - 1, 3).astype(int))], len(unit), axis=0)
    directions = np.tile(np.diag(unit), (len(points) // len(unit), 1))
    try:
        with np.errstate(all="ignore"):
            here, near = (
                lines(points, points + distance * directions).along(directions, directions, (2, 2))
                # Far more than PyMC adds under roots, and far less than any lengthscale.
                for distance in (0.0, 1e-5)
            )
    except (NotImplementedError, TypeError) as error:  # an operation without a gradient
        raise not_twice_differentiable(_custom(cov_func)) from error
    value, slope, curvature = (np.abs(here.get((i, i), np.zeros(len(points)))) for i in range(3))
    with np.errstate(all="ignore"):
        # The length over which the covariance varies, in units of the directions, and its amplitude.
        by_slope = np.where((value > 0) & (slope > 0), np.sqrt(value / slope), 1.0)
        length = np.where((slope > 0) & (curvature > 0), np.sqrt(slope / curvature), by_slope)
        amplitude = np.where(slope > 0, slope * length**2, value)
        for (i, j), coefficient in here.items():
            difference = np.abs(near[i, j] - coefficient)
            size = np.maximum(np.abs(near[i, j]), np.abs(coefficient))
            agree = difference <= 0.05 * size + 0.02 * amplitude / length ** (i + j)
            if not (agree & np.isfinite(coefficient)).all():
                raise not_twice_differentiable(_custom(cov_func))


def _custom(cov_func) -> str:
    """Names of the covariances that are not PyMC's or ours."""
    known = (cov.__name__, Embedding.__module__)
    return ", ".join(dict.fromkeys(type(c).__name__ for c in _covariances(cov_func) if type(c).__module__ not in known))


def not_twice_differentiable(name: str) -> ValueError:
    """The error for kernels whose functions are rough."""
    return ValueError(
        f"functions with the kernel {name} have no second derivative, or its graph does not give it where points meet: "
        "use ExpQuad, Matern52 or RatQuad, write your kernel with squares of differences, or use a criterion that "
        'needs no curvature of maxima ("max_value_entropy", "expected_improvement")'
    )
