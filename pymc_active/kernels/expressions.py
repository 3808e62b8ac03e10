"""Kernel expressions such as ``"LIN + PER * RQ[0]"`` as values to read, print, compare, combine and vary."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, product
from numbers import Integral
from typing import Any, Literal

from pymc_active.support.options import count
from pymc_active.support.summaries import Summary

BASE_KERNELS: dict[str, str] = {
    "C": "constant, outputscale²",
    "LIN": "linear with a location, outputscale² (x - c)ᵀ(x' - c)",
    "LIN0": "linear through the origin of the scaled inputs, outputscale² xᵀx'",
    "MAT12": "Matérn 1/2",
    "MAT32": "Matérn 3/2",
    "MAT52": "Matérn 5/2",
    "PER": "periodic, exp(-2 sin²(π r / period) / lengthscale²)",
    "PER0": "periodic with mean zero over a period: PER without the constant it contains, at unit variance",
    "RQ": "rational quadratic",
    "SE": "squared exponential",
    "STEP": "from 0 to 1 at a location, outputscale² s(x) s(x') with a sigmoid s; of one input",
}
# What other libraries call them.
_ALIASES = {"RBF": "SE", "EXPQUAD": "SE", "PERIODIC": "PER", "LINEAR": "LIN", "MATERN": "MAT52", "CONSTANT": "C"}
_ALIASES |= {f"MATERN{half}2": f"MAT{half}2" for half in "135"} | {"RATQUAD": "RQ"}
_PAPER_BASES = ("SE", "PER", "LIN", "RQ")
# The expert's kernel, and that of compositional kernel search.
_PAPER_TABLE_1 = {
    "airline": ("LIN + PER * RQ", "SE * (LIN + LIN * (PER + RQ))"),
    "mauna_loa": ("SE + PER * SE + RQ + SE", "LIN * SE + SE * (PER + RQ)"),
}

_TOKEN = re.compile(r"\s*(?:(?P<name>[A-Za-z_]\w*)|(?P<index>\[\s*\d+\s*\])|(?P<op>[+*()]))")


def _unknown(name: Any) -> str:
    other = str(name).upper()
    meant = other if other in BASE_KERNELS else _ALIASES.get(other)
    hint = f" (write {meant})" if meant else ""
    return f"unknown kernel {name!r}{hint}; the known ones are {', '.join(sorted(BASE_KERNELS))}"


class Expression:
    """A kernel expression: a :class:`Base`, a :class:`Sum` or a :class:`Product`. Immutable.

    ``+`` and ``*`` combine expressions, also with text: ``parse("SE") * "LIN + PER"``. Expressions are equal, and have
    the same hash, if they differ only in the order and grouping of terms and factors; nothing is distributed or
    simplified. Printing and the names of a model's parameters follow the order as written. ``children`` are the terms
    of a sum or the factors of a product; a base kernel has none.
    """

    children: tuple[Expression, ...]

    def __add__(self, other: str | Expression) -> Expression:
        return Sum((self, parse(other))) if isinstance(other, str | Expression) else NotImplemented

    def __radd__(self, other: str) -> Expression:
        return Sum((parse(other), self)) if isinstance(other, str) else NotImplemented

    def __mul__(self, other: str | Expression) -> Expression:
        return Product((self, parse(other))) if isinstance(other, str | Expression) else NotImplemented

    def __rmul__(self, other: str) -> Expression:
        return Product((parse(other), self)) if isinstance(other, str) else NotImplemented

    def __eq__(self, other: object) -> bool:
        return self._key == other._key if isinstance(other, Expression) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        return f"parse({str(self)!r})"

    def _repr_html_(self) -> str:
        distributed = str(self.canonical(distributed=True))
        facts = {"as a sum of products": distributed if distributed != str(self) else None}
        return Summary(str(self), facts).html()

    @property
    def _kind(self) -> type[Sum] | type[Product]:
        return Sum if isinstance(self, Sum) else Product

    @cached_property
    def _key(self) -> str:
        return str(self.canonical())

    def canonical(self, *, distributed: bool = False) -> Expression:
        """The canonical order: base kernels, then products, then sums, each in alphabetical order.

        ``distributed`` makes it a sum of products of base kernels; equal terms are not merged. The function is the same
        if copies of a base kernel share its parameters; as a *model* it differs, because each copy has its own.

        Examples
        --------
        >>> print(parse("SE * (RQ + PER) + LIN").canonical())
        LIN + SE * (PER + RQ)
        >>> print(parse("SE * (RQ + PER) + LIN").canonical(distributed=True))
        LIN + PER * SE + RQ * SE
        """
        if distributed:
            return _joined(Sum, (_joined(Product, factors) for factors in self._products()))
        if isinstance(self, Base):
            return self
        return _joined(self._kind, (child.canonical() for child in self.children))

    def _products(self) -> list[tuple[Expression, ...]]:
        """The base kernels of each product of the distributed form."""
        if isinstance(self, Base):
            return [(self,)]
        parts = [child._products() for child in self.children]
        if isinstance(self, Sum):
            return [factors for part in parts for factors in part]
        return [tuple(base for factors in chosen for base in factors) for chosen in product(*parts)]

    def neighbours(self, bases: Iterable[str | Expression] = _PAPER_BASES, n_inputs: int = 1) -> list[Expression]:
        """The distinct expressions one step of a search away: first sums, then products, then replacements.

        Every subexpression S is replaced by S + B, by S * B and, if S is a base kernel, by B, for every base kernel B
        (Duvenaud et al. 2013, Structure discovery in nonparametric regression through compositional kernel search,
        section 3). Subexpressions are the nodes of the flattened tree, so equal expressions have equal neighbours.
        ``bases`` and ``n_inputs``, and what they raise, are as in :func:`grid`; with one input, ``SE[0]`` is ``SE``.

        Examples
        --------
        >>> [str(near) for near in parse("SE").neighbours(["SE", "LIN"])]
        ['SE + SE', 'SE + LIN', 'SE * SE', 'SE * LIN', 'LIN']
        """
        choices = _read_bases(bases, n_inputs)
        _check_inputs(base_kernels(self), n_inputs)
        here = on_inputs(self, n_inputs)
        steps: list[Callable[[Expression], Iterable[Expression]]] = [
            lambda part: [part + base for base in choices],
            lambda part: [part * base for base in choices],
            lambda part: choices if isinstance(part, Base) else (),
        ]
        neighbours = dict.fromkeys(new for step in steps for new in here._with_one_part_replaced(step))
        return [new for new in neighbours if new != here]

    def simpler(self) -> list[Expression]:
        """The distinct expressions with one base kernel less.

        Examples
        --------
        >>> [str(near) for near in parse("SE * (LIN + PER)").simpler()]
        ['LIN + PER', 'SE * PER', 'SE * LIN']
        """
        parents: dict[Expression, None] = {}
        for i, child in enumerate(self.children):
            rest = (*self.children[:i], *self.children[i + 1 :])
            for less in [None] if isinstance(child, Base) else child.simpler():
                parts = rest if less is None else (*rest[:i], less, *rest[i:])
                parents[self._kind(parts) if len(parts) > 1 else parts[0]] = None
        return list(parents)

    def exchanged(self) -> list[Expression]:
        """The distinct expressions with one sum made a product, or one product a sum.

        Examples
        --------
        >>> [str(near) for near in parse("SE * (LIN + PER)").exchanged()]
        ['SE + LIN + PER', 'SE * LIN * PER']
        """

        def other(part: Expression) -> list[Expression]:
            if isinstance(part, Base):
                return []
            return [Product(part.children) if isinstance(part, Sum) else Sum(part.children)]

        steps = self._with_one_part_replaced(other)
        return list(dict.fromkeys(steps))

    def _with_one_part_replaced(self, step: Callable[[Expression], Iterable[Expression]]) -> Iterator[Expression]:
        yield from step(self)
        for i, child in enumerate(self.children):
            for new in child._with_one_part_replaced(step):
                yield self._kind((*self.children[:i], new, *self.children[i + 1 :]))


@dataclass(frozen=True, eq=False, repr=False)
class Base(Expression):
    """A base kernel of :data:`BASE_KERNELS`, on all inputs or on one, ``input``, counted from 0."""

    children = ()
    name: str
    input: int | None = None

    def __post_init__(self) -> None:
        if self.name not in BASE_KERNELS:
            raise ValueError(_unknown(self.name))
        if self.input is None:
            return
        if self.name == "C":
            raise ValueError("C is constant and has no input: write C")
        if not _is_whole(self.input) or self.input < 0:
            raise ValueError(f"the input of {self.name} must be None or a whole number from 0; got {self.input!r}")
        object.__setattr__(self, "input", int(self.input))

    def __str__(self) -> str:
        return self.name if self.input is None else f"{self.name}[{self.input}]"


@dataclass(frozen=True, eq=False, repr=False)
class _Joined(Expression):
    children: tuple[Expression, ...]

    def __post_init__(self) -> None:
        kind, parts = type(self), tuple(self.children)
        for part in parts:
            if not isinstance(part, Expression):
                raise TypeError(f"a {kind.__name__} is made of expressions; got {part!r}. Read text with parse().")
        if len(parts) < 2:
            raise ValueError(f"a {kind.__name__} needs two expressions or more; got {len(parts)}")
        flat = tuple(inner for part in parts for inner in (part.children if isinstance(part, kind) else (part,)))
        object.__setattr__(self, "children", flat)


class Sum(_Joined):
    """A sum of two or more expressions; nested sums are flattened."""

    def __str__(self) -> str:
        return " + ".join(map(str, self.children))


class Product(_Joined):
    """A product of two or more expressions; nested products are flattened."""

    def __str__(self) -> str:
        return " * ".join(f"({f})" if isinstance(f, Sum) else str(f) for f in self.children)


def _is_whole(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _joined(kind: type[Sum] | type[Product], parts: Iterable[Expression]) -> Expression:
    """Sorted parts as a sum or product; a single part as it is."""
    ordered = sorted(parts, key=lambda part: ([Base, Product, Sum].index(type(part)), str(part)))
    return kind(tuple(ordered)) if len(ordered) > 1 else ordered[0]


def base_kernels(expression: Expression) -> list[Base]:
    """The base kernels of an expression, from left to right."""
    if isinstance(expression, Base):
        return [expression]
    return [base for child in expression.children for base in base_kernels(child)]


def log_prior(expression: Expression, n_bases: int) -> float:
    """Log prior of a structure, which :func:`compositional_kernel_search` explains."""
    return -(1 + math.log(n_bases)) * (len(base_kernels(expression)) - 1)


def on_inputs(expression: Expression, n_inputs: int) -> Expression:
    """The expression without indices if there is a single input; unchanged for several."""
    if n_inputs > 1:
        return expression
    if isinstance(expression, Base):
        return Base(expression.name)
    return expression._kind(tuple(on_inputs(child, n_inputs) for child in expression.children))


def is_redundant(expression: Expression, *, beside_a_constant: bool = False) -> bool:
    """Whether fewer base kernels make the same functions.

    A product of SE is one SE, one of steps begins with the last, and a factor C does nothing. Two LIN make every
    straight line, as one does ``beside_a_constant``, such as the mean, and one LIN0 all lines through the
    origin. One C makes every constant.
    """
    n_lines = 1 if beside_a_constant else 2
    enough = {"SE": 1, "STEP": 1, "C": 0} if isinstance(expression, Product) else {"LIN": n_lines, "LIN0": 1, "C": 1}
    own = [child for child in expression.children if isinstance(child, Base)]
    has_excess = any(own.count(base) > enough.get(base.name, len(own)) for base in own)
    return has_excess or any(is_redundant(child) for child in expression.children)


def numbered(names: Sequence[str]) -> list[str]:
    """Names, numbered if they repeat: SE_1, PER, SE_2."""
    return [f"{name}_{names[:i].count(name) + 1}" if names.count(name) > 1 else name for i, name in enumerate(names)]


def grid(
    bases: Iterable[str | Expression] = _PAPER_BASES, extra: Iterable[str | Expression] = (), *, n_inputs: int = 1
) -> list[Expression]:
    """Distinct base kernels, sums of every two, products of every two, and ``extra`` expressions, in this order.

    With several inputs, a base kernel without an index stands for one on each: ``SE[0]``, ``SE[1]``, ...

    Raises
    ------
    TypeError, ValueError
        For no bases, unknown ones, malformed extras, or inputs beyond ``n_inputs``.

    Examples
    --------
    >>> [str(expression) for expression in grid(["SE", "PER"], ["SE * (SE + PER)"])]
    ['SE', 'PER', 'SE + PER', 'SE * PER', 'SE * (SE + PER)']
    """
    choices = _read_bases(bases, n_inputs)
    others = [parse(expression) for expression in _sequence("extra", extra)]
    _check_inputs([base for expression in others for base in base_kernels(expression)], n_inputs)
    pairs = list(combinations(choices, 2))
    others = [on_inputs(expression, n_inputs) for expression in others]
    return list(dict.fromkeys([*choices, *(a + b for a, b in pairs), *(a * b for a, b in pairs), *others]))


def paper_models(series: Literal["airline", "mauna_loa"], *, rooted: bool = False) -> list[Expression]:
    """The 18 models that Malkomes & Garnett (2015, Active Structure Discovery for GPs, Table 1) compared on a series.

    The :func:`grid` of SE, PER, LIN and RQ, then the expert's kernel and the one of compositional kernel search. With
    ``rooted``, LIN, which has a location, becomes LIN0, linear through the origin as in the authors' code. A ValueError
    for another series.

    Examples
    --------
    >>> models = paper_models("airline")
    >>> len(models), str(models[-2]), str(models[-1])
    (18, 'LIN + PER * RQ', 'SE * (LIN + LIN * (PER + RQ))')
    """
    if series not in _PAPER_TABLE_1:
        raise ValueError(f"series must be one of {', '.join(sorted(_PAPER_TABLE_1))}; got {series!r}")
    models = grid(extra=_PAPER_TABLE_1[series])
    return [parse(str(model).replace("LIN", "LIN0")) for model in models] if rooted else models


def _sequence(what: str, expressions: Iterable[str | Expression]) -> list[str | Expression]:
    if isinstance(expressions, str | Expression):
        raise TypeError(f"{what} must be a sequence such as ['SE', 'PER']; got {expressions!r}")
    return list(expressions)


def _read_bases(bases: Iterable[str | Expression], n_inputs: int) -> list[Base]:
    count("n_inputs", n_inputs)
    choices: dict[Base, None] = {}
    for text in _sequence("bases", bases):
        base = parse(text)
        if not isinstance(base, Base):
            raise ValueError(f"bases must be base kernels such as 'SE' or 'SE[1]'; got {str(base)!r}")
        _check_inputs([base], n_inputs)
        indices = (
            [None] if n_inputs == 1 or base.name == "C" else range(n_inputs) if base.input is None else [base.input]
        )
        choices |= dict.fromkeys(Base(base.name, i) for i in indices)
    if not choices:
        raise ValueError(f"bases is empty: name at least one of {', '.join(sorted(BASE_KERNELS))}")
    return list(choices)


def _check_inputs(bases: Iterable[Base], n_inputs: int) -> None:
    for base in bases:
        if base.input is not None and base.input >= n_inputs:
            raise ValueError(f"{base} needs input {base.input}, but there are inputs 0 to {n_inputs - 1} (n_inputs)")


def parse(text: str | Expression) -> Expression:
    """Read a kernel expression: base kernels (see :data:`BASE_KERNELS`) joined by ``+ * ( )``.

    ``NAME[i]`` acts on input ``i``, counted from 0, ``NAME`` on all inputs. ``str()`` of the result, a Base, Sum or
    Product, reads back to the same tree. An expression is returned as it is.

    Raises
    ------
    TypeError, ValueError
        Unless given text or an expression; for unknown base kernels and malformed text; the message marks the position.

    Examples
    --------
    >>> print(parse("LIN+PER*( SE + RQ )"))
    LIN + PER * (SE + RQ)
    """
    if isinstance(text, Expression):
        return text
    if not isinstance(text, str):
        raise TypeError(f"a kernel expression is a string such as 'LIN + PER * RQ'; got {text!r}")
    return _Parser(text).parse()


class _Parser:
    def __init__(self, text: str):
        self.text, self.position = text, 0

    def parse(self) -> Expression:
        expression = self.sum()
        if self.text[self.position :].strip():
            is_index = self.text[self.position :].lstrip().startswith("[")
            raise self.error("inputs are numbered, as in SE[0]" if is_index else "expected '+', '*' or the end")
        return expression

    def error(self, problem: str) -> ValueError:
        at = len(self.text) - len(self.text[self.position :].lstrip())
        mark = f"  {self.text}\n  {' ' * at}^"
        return ValueError(f"cannot read the kernel expression at position {at}: {problem}\n{mark}")

    def take(self, kind: str, accepted: str | None = None) -> str | None:
        match = _TOKEN.match(self.text, self.position)
        if match is None or match.lastgroup != kind or accepted not in (None, match.group(kind)):
            return None
        self.position = match.end()
        return match.group(kind)

    def sum(self) -> Expression:
        return self.joined(Sum, "+", self.product)

    def product(self) -> Expression:
        return self.joined(Product, "*", self.atom)

    def joined(self, kind: type[Sum] | type[Product], sign: str, read_part: Callable[[], Expression]) -> Expression:
        parts = [read_part()]
        while self.take("op", sign):
            parts.append(read_part())
        return kind(tuple(parts)) if len(parts) > 1 else parts[0]

    def atom(self) -> Expression:
        if self.take("op", "("):
            inner = self.sum()
            if not self.take("op", ")"):
                raise self.error("expected ')'")
            return inner
        start = self.position
        name = self.take("name")
        if name is None:
            raise self.error("expected a base kernel or '('")
        if name not in BASE_KERNELS:
            self.position = start
            raise self.error(_unknown(name))
        index = self.take("index")
        return Base(name, None if index is None else int(index.strip("[] ")))
