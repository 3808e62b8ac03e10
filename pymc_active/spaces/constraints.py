"""Which combinations of a space can be made: linear equations and inequalities, and functions of a table."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

# Relative to the terms: a mixture adds up to one only so well.
ROUNDING = 1e-9
# Moves of a random walk, and more for each dimension.
_WALK, _MORE = 24, 4


class Linear(NamedTuple):
    """``coefficients @ values`` is at most ``limit``, or equals it."""

    text: str
    coefficients: dict[str, float]
    limit: float
    is_equality: bool


def parse(text: str, names: Sequence[str]) -> Linear:
    """Read a text such as ``"a + 2 * b <= 1"``; a ValueError if it is not linear in the inputs.

    Names that are no Python names stand between backticks.
    """
    quoted: list[str] = []

    def short(match: re.Match) -> str:
        quoted.append(match[1])
        return f"_quoted_{len(quoted) - 1}"

    wanted = 'linear, with ==, <= or >=, as "a + b + c == 1" is; anything else, in Python, a function of a table'
    try:
        tree = ast.parse(re.sub(r"`([^`]+)`", short, text).strip(), mode="eval").body
        assert isinstance(tree, ast.Compare)
        [op], [right] = tree.ops, tree.comparators
        sign = {ast.Eq: 1, ast.LtE: 1, ast.GtE: -1}[type(op)]
        terms = _subtract(_linear(tree.left, quoted), _linear(right, quoted))
    except (SyntaxError, AssertionError, KeyError, ValueError, TypeError, ZeroDivisionError):
        raise ValueError(f"a constraint must be {wanted}; got {text!r}") from None
    limit = -terms.pop("", 0.0)
    if unknown := [name for name in terms if name not in names]:
        raise ValueError(f"the constraint {text!r} has {unknown[0]}, which is none of the numbers {', '.join(names)}")
    if not any(terms.values()):
        raise ValueError(f"a constraint must be {wanted}; got {text!r}")
    return Linear(text, {name: sign * value for name, value in terms.items()}, sign * limit, isinstance(op, ast.Eq))


def _linear(node: ast.expr, quoted: list[str]) -> dict[str, float]:
    """Coefficients by name, and the constant by ``""``."""
    match node:
        case ast.Constant(value=int() | float() as value):
            return {"": float(value)}
        case ast.Name(id=name):
            return {quoted[int(name.removeprefix("_quoted_"))] if name.startswith("_quoted_") else name: 1.0}
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return _times(_linear(inner, quoted), -1.0)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _subtract(_linear(left, quoted), _times(_linear(right, quoted), -1.0))
        case ast.BinOp(left=left, op=ast.Sub(), right=right):
            return _subtract(_linear(left, quoted), _linear(right, quoted))
        case ast.BinOp(left=left, op=ast.Mult() | ast.Div() as op, right=right):
            a, b = _linear(left, quoted), _linear(right, quoted)
            if isinstance(op, ast.Mult) and set(a) == {""}:
                a, b = b, a
            [(name, factor)] = b.items()
            if name == "":
                return _times(a, factor if isinstance(op, ast.Mult) else 1 / factor)
    raise ValueError("not linear")


def _times(terms: Mapping[str, float], factor: float) -> dict[str, float]:
    return {name: factor * value for name, value in terms.items()}


def _subtract(a: Mapping[str, float], b: Mapping[str, float]) -> dict[str, float]:
    return {name: a.get(name, 0.0) - b.get(name, 0.0) for name in (*a, *(name for name in b if name not in a))}


class Polytope:
    """Points x (d,) with low <= x <= high, A x <= b and E x = e."""

    def __init__(self, low: np.ndarray, high: np.ndarray, linear: Sequence[tuple[np.ndarray, float, bool]]):
        self.low, self.high = low, high
        rows = {is_equality: [one for one in linear if one[2] == is_equality] for is_equality in (False, True)}
        self.A, self.E = (np.reshape([row for row, *_ in rows[kind]], (-1, len(low))) for kind in (False, True))
        self.b, self.e = (np.array([limit for _, limit, _ in rows[kind]], float) for kind in (False, True))

    def holds(self, X: np.ndarray, rounding: float = ROUNDING) -> np.ndarray:
        """Whether points (n, d) fulfil equations and inequalities, whatever their ends, (n,)."""
        rounded = [rounding * (np.abs(X) @ np.abs(M).T + np.abs(limit)) for M, limit in self._parts]
        below = (X @ self.A.T <= self.b + rounded[0]).all(1)
        return below & (np.abs(X @ self.E.T - self.e) <= rounded[1]).all(1)

    @property
    def _parts(self) -> list[tuple[np.ndarray, np.ndarray]]:
        return [(self.A, self.b), (self.E, self.e)]

    def draw(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Random points (n, d), about uniform: each ends a walk of its own through the polytope (Smith 1984)."""
        from scipy.linalg import null_space

        is_fixed = self.low == self.high
        basis = null_space(np.concatenate([self.E, np.eye(len(self.low))[is_fixed]]))
        X = np.tile(self.center, (n, 1))
        width = np.where(is_fixed, 1.0, self.high - self.low)
        for _ in range(_WALK + _MORE * basis.shape[1] if basis.size else 0):
            # Isotropic in units of the sides.
            step = rng.normal(size=X.shape) * width @ basis @ basis.T
            walls = [(X - self.low, -step), (self.high - X, step), (self.b - X @ self.A.T, step @ self.A.T)]
            room, speed = (np.concatenate(parts, axis=1) for parts in zip(*walls, strict=True))
            speed[:, : len(width)][:, is_fixed] = speed[:, len(width) : 2 * len(width)][:, is_fixed] = 0.0
            with np.errstate(divide="ignore", invalid="ignore"):
                times = np.maximum(room, 0.0) / speed
            ahead = np.where(speed > 0, times, np.inf).min(1)
            behind = np.where(speed < 0, times, -np.inf).max(1)
            is_free = np.isfinite(ahead) & np.isfinite(behind)
            X[is_free] += (rng.uniform(behind, ahead)[:, None] * step)[is_free]
        return np.clip(X, self.low, self.high)

    @cached_property
    def center(self) -> np.ndarray:
        """A point as far inside as possible; a ValueError if there is none."""
        from scipy.optimize import linprog

        d, width = len(self.low), self.high - self.low
        eye = np.eye(d)
        inside = np.block([[eye, 0.5 * width[:, None]], [-eye, 0.5 * width[:, None]]])
        slack = np.linalg.norm(self.A * np.where(width > 0, width, 0.0), axis=1)[:, None]
        solution = linprog(
            np.append(np.zeros(d), -1.0),
            A_ub=np.concatenate([inside, np.hstack([self.A, slack])]),
            b_ub=np.concatenate([self.high, -self.low, self.b]),
            A_eq=np.hstack([self.E, np.zeros((len(self.E), 1))]) if len(self.E) else None,
            b_eq=self.e if len(self.E) else None,
            bounds=[(None, None)] * d + [(0, 1)],
        )
        if solution.status != 0:
            raise ValueError("no point of the space fulfils all constraints, or none with the fixed values")
        return solution.x[:d]


def holds(function: Any, table: Any, name: str) -> np.ndarray:
    """Whether a user's function says that rows of a table can be made, (n,)."""
    try:
        said = np.asarray(function(table))
    except Exception as error:
        gets = f"the constraint {name} gets a table of points"
        if "ambiguous" in str(error):
            raise ValueError(f"{gets}: write & | ~ in place of and, or, not") from error
        error.add_note(f"{gets} with the columns {', '.join(table)}")
        raise
    if said.shape != (len(table),) or said.dtype != bool:
        raise ValueError(
            f"the constraint {name} must return True or False for each of {len(table)} rows; got {said.dtype} of shape "
            f"{said.shape}"
        )
    return said
