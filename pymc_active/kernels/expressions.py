"""Kernel expressions such as ``"LIN + PER * RQ[0]"``: text in, tree out."""

from __future__ import annotations

import re
from dataclasses import dataclass

BASE_KERNELS: dict[str, str] = {
    "LIN": "linear with a location, outputscale² (x - c)ᵀ(x' - c)",
    "LIN0": "linear through the origin of the scaled inputs, outputscale² xᵀx'",
    "MAT12": "Matérn 1/2",
    "MAT32": "Matérn 3/2",
    "MAT52": "Matérn 5/2",
    "PER": "periodic, exp(-2 sin²(π r / period) / lengthscale²)",
    "RQ": "rational quadratic",
    "SE": "squared exponential",
}

_TOKEN = re.compile(r"\s*(?:(?P<name>[A-Za-z_]\w*)|(?P<index>\[\s*\d+\s*\])|(?P<op>[+*()]))")


@dataclass(frozen=True)
class Base:
    """A base kernel, on all inputs or on the single input ``input``."""

    name: str
    input: int | None = None

    def __str__(self) -> str:
        return self.name if self.input is None else f"{self.name}[{self.input}]"


@dataclass(frozen=True)
class Sum:
    """A sum of two or more expressions."""

    terms: tuple[Expression, ...]

    def __str__(self) -> str:
        return " + ".join(str(term) for term in self.terms)


@dataclass(frozen=True)
class Product:
    """A product of two or more expressions."""

    factors: tuple[Expression, ...]

    def __str__(self) -> str:
        return " * ".join(f"({f})" if isinstance(f, Sum) else str(f) for f in self.factors)


type Expression = Base | Sum | Product


def parse(text: str) -> Expression:
    """Read a kernel expression.

    Parameters
    ----------
    text : str
        Base kernels (see :data:`BASE_KERNELS`) joined by ``+`` and ``*``, with parentheses.
        ``NAME[i]`` acts on input ``i`` (counted from 0) only, ``NAME`` on all inputs.

    Returns
    -------
    Base, Sum or Product
        ``str()`` of it reads back to the same tree.

    Raises
    ------
    ValueError
        For an unknown base kernel (the known ones are listed) or malformed text; the message
        marks the position.

    Examples
    --------
    >>> print(parse("LIN+PER*( SE + RQ )"))
    LIN + PER * (SE + RQ)
    """
    if not isinstance(text, str):
        raise TypeError(f"a kernel expression is a string such as 'LIN + PER * RQ'; got {text!r}")
    return _Parser(text).parse()


class _Parser:
    def __init__(self, text: str):
        self.text = text
        self.position = 0

    def parse(self) -> Expression:
        expression = self.sum()
        if self.text[self.position :].strip():
            raise self.error("expected '+', '*' or the end")
        return expression

    def error(self, problem: str) -> ValueError:
        at = self.position + len(self.text[self.position :]) - len(self.text[self.position :].lstrip())
        return ValueError(
            f"cannot read the kernel expression at position {at}: {problem}\n  {self.text}\n  {' ' * at}^"
        )

    def take(self, kind: str, accepted: str | None = None) -> str | None:
        match = _TOKEN.match(self.text, self.position)
        if match is None or match.lastgroup != kind:
            return None
        token = match.group(kind)
        if accepted is not None and token != accepted:
            return None
        self.position = match.end()
        return token

    def sum(self) -> Expression:
        terms = [self.product()]
        while self.take("op", "+"):
            terms.append(self.product())
        if len(terms) == 1:
            return terms[0]
        return Sum(tuple(t for term in terms for t in (term.terms if isinstance(term, Sum) else (term,))))

    def product(self) -> Expression:
        factors = [self.atom()]
        while self.take("op", "*"):
            factors.append(self.atom())
        if len(factors) == 1:
            return factors[0]
        return Product(
            tuple(f for factor in factors for f in (factor.factors if isinstance(factor, Product) else (factor,)))
        )

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
            raise self.error(f"unknown kernel {name!r}; the known ones are {', '.join(sorted(BASE_KERNELS))}")
        index = self.take("index")
        return Base(name, None if index is None else int(index.strip("[] ")))


def base_kernels(expression: Expression) -> list[Base]:
    """The base kernels of an expression, from left to right."""
    if isinstance(expression, Base):
        return [expression]
    children = expression.terms if isinstance(expression, Sum) else expression.factors
    return [base for child in children for base in base_kernels(child)]
