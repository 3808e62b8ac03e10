"""Sums and products of kernels."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import product

import numpy as np

from pymc_active.kernels.node import Lines, Node
from pymc_active.kernels.polynomials import combine
from pymc_active.kernels.program import ADD, MULTIPLY
from pymc_active.kernels.spectra import Term


class Add(Node):
    """A sum of nodes."""

    joins = ADD

    def __init__(self, parts: Sequence[Node]):
        self.parts = list(parts)

    def at(self, theta, X, Z=None):
        return _Added([part.at(theta, X, Z) for part in self.parts])

    def diagonal(self, theta, X):
        parts = [part.diagonal(theta, X) for part in self.parts]
        return sum(value for value, _ in parts), [t for _, tangents in parts for t in tangents]

    def batch(self, thetas, pairs):
        return _Added([part.batch(thetas, pairs) for part in self.parts])

    def lines(self, theta, a, b):
        return _CombinedLines([part.lines(theta, a, b) for part in self.parts], is_sum=True)

    def terms(self, theta, n_inputs):
        return [term for part in self.parts for term in part.terms(theta, n_inputs)]


class _Added:
    """At pairs of rows, or among the data for many particles."""

    def __init__(self, children):
        self.children = children
        self.K = reduce(np.add, (child.K for child in children))

    def input_pullback(self, W):
        return sum(child.input_pullback(W) for child in self.children)

    def pullback(self, W):
        return sum(child.pullback(W) for child in self.children)

    def tangents(self):
        return [t for child in self.children for t in child.tangents()]

    def curvature(self, W):
        return sum(child.curvature(W) for child in self.children)


class Multiply(Node):
    """A product of two nodes."""

    joins = MULTIPLY

    def __init__(self, left: Node, right: Node):
        self.left, self.right = left, right
        # A product of products is one product.
        self.parts = [f for side in (left, right) for f in (side.parts if isinstance(side, Multiply) else (side,))]

    def at(self, theta, X, Z=None):
        return _Multiplied(self.left.at(theta, X, Z), self.right.at(theta, X, Z))

    def diagonal(self, theta, X):
        a, da = self.left.diagonal(theta, X)
        b, db = self.right.diagonal(theta, X)
        return a * b, [(i, t * b) for i, t in da] + [(i, a * t) for i, t in db]

    def batch(self, thetas, pairs):
        return _Multiplied(self.left.batch(thetas, pairs), self.right.batch(thetas, pairs))

    def lines(self, theta, a, b):
        return _CombinedLines([part.lines(theta, a, b) for part in self.parts], is_sum=False)

    def terms(self, theta, n_inputs):
        def multiply(a: Term, b: Term) -> Term:
            return Term(a.variance * b.variance, a.factors + b.factors, a.spectra + b.spectra)

        return [reduce(multiply, chosen) for chosen in product(*(part.terms(theta, n_inputs) for part in self.parts))]


class _Multiplied:
    def __init__(self, left, right):
        self.left, self.right = left, right
        self.K = left.K * right.K

    def input_pullback(self, W):
        return self.left.input_pullback(W * self.right.K) + self.right.input_pullback(W * self.left.K)

    def pullback(self, W):
        return self.left.pullback(W * self.right.K) + self.right.pullback(W * self.left.K)

    def tangents(self):
        return [(i, t * self.right.K) for i, t in self.left.tangents()] + [
            (i, self.left.K * t) for i, t in self.right.tangents()
        ]

    def curvature(self, W):
        H = self.left.curvature(W * self.right.K) + self.right.curvature(W * self.left.K)
        for i, a in self.left.tangents():
            Wa = W * a
            for j, b in self.right.tangents():
                value = np.vdot(Wa, b)
                H[i, j] += value
                H[j, i] += value
        return H


class _CombinedLines:
    def __init__(self, parts: Sequence[Lines], is_sum: bool):
        self.parts, self.is_sum = parts, is_sum

    def along(self, u, v, order):
        return combine([part.along(u, v, order) for part in self.parts], self.is_sum, order)
