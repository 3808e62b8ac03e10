"""The paper's algorithm 1: nodes, sets of inputs that move together, are tested, and halved while f changes.

A test has the log likelihood ratio of a node, active against inactive, and where to evaluate next.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.linalg import lapack

from pymc_active.kernels.radial import exp_quad
from pymc_active.posterior.factor import Factor
from pymc_active.relevant_inputs.settings import Settings

_EMPTY = np.empty(0)
# Longest distance of a pair on a line of unit length; with longer ones all pairs would be nearly the same.
_LONGEST_SPACING = 0.5
# Number of random places at which the test compares its index; a fresh set each time, so that ties are random.
_N_PLACES = 64
# Relative difference below which indices are a tie: far from all data they differ by rounding only.
_TIE = 1e-6
# Mean and variance, (m,) each.
Moments = tuple[np.ndarray, np.ndarray]


@dataclass(eq=False, repr=False)
class Node:
    """The inputs ``start`` to ``stop - 1``. The ``children`` are both halves, once the node was found active.

    The status is ``"open"``, ``"active"``, ``"inactive"``, or ``"contradicted"`` if the node was found active but both
    halves were rejected, on two backgrounds if retests are allowed. ``was_retested`` says whether the halves were
    tested a second time. Of the present test, ``background`` (D,) is the point at which all other inputs stay, y (n,)
    what succeeded with the node's inputs at ``z``, and ``llr`` the log likelihood ratio (nats).
    """

    start: int
    stop: int
    parent: Node | None = None
    children: list[Node] = field(default_factory=list)
    status: str = "open"
    was_retested: bool = False
    background: np.ndarray = field(default_factory=lambda: _EMPTY)
    z: np.ndarray = field(default_factory=lambda: _EMPTY)
    y: np.ndarray = field(default_factory=lambda: _EMPTY)
    llr: float = 0.0

    @property
    def label(self) -> str:
        """Its inputs, as ``"24-31"`` or ``"25"``."""
        return f"{self.start}-{self.stop - 1}" if self.stop - self.start > 1 else str(self.start)

    def points(self, places: np.ndarray) -> np.ndarray:
        """The background with the node's inputs at each place, (k, D)."""
        X = np.tile(self.background, (len(places), 1))
        X[:, self.start : self.stop] = places[:, None]
        return X


class Halving:
    """A search of the unit box, by a ``test`` of single nodes, that starts with all inputs.

    :meth:`run` yields points (k, D), and takes their values (k,), NaN where f failed. ``nodes`` grow. A block has the
    next evaluations of every open node: all are needed, whatever their order, which the paper leaves to an index.
    """

    def __init__(self, settings: Settings, test: Any, rng: np.random.Generator):
        self.settings = settings
        self.nodes = [Node(0, settings.n_dims)]
        self._test, self._rng = test, rng
        self._open: list[Node] = []

    @property
    def found(self) -> list[int]:
        """Inputs found active, sorted."""
        return sorted(node.start for node in self.nodes if node.stop - node.start == 1 and node.status == "active")

    def run(self) -> Generator[np.ndarray, np.ndarray, None]:
        """All points of the search, in turn."""
        self._begin(self.nodes)
        while nodes := list(self._open):
            places = [self._test.places(node.z, node.y, self._rng) for node in nodes]
            y = yield np.concatenate([node.points(z) for node, z in zip(nodes, places, strict=True)])
            ends = np.cumsum([len(z) for z in places])[:-1]
            for node, z, values in zip(nodes, places, np.split(y, ends), strict=True):
                # Of a pair, one end says nothing. Other places take the part of those that failed.
                if np.isfinite(values).all():
                    node.z, node.y = np.append(node.z, z), np.append(node.y, values)
                    node.llr = float(self._test.path(node.z, node.y)[-1])
                    self._judge(node)

    def _begin(self, nodes: list[Node], background: np.ndarray | None = None) -> None:
        """Test nodes on a background, by default on a new one, a random point of the unit box."""
        background = self._rng.random(self.settings.n_dims) if background is None else background
        for node in nodes:
            node.status, node.background, node.z, node.y = "open", background, _EMPTY, _EMPTY
            self._open.append(node)

    def _judge(self, node: Node) -> None:
        """Enter a verdict, and begin the tests that follow."""
        if self.settings.reject < node.llr < self.settings.accept:
            return
        self._open.remove(node)
        node.status = "active" if node.llr >= self.settings.accept else "inactive"
        if node.status == "inactive":
            self._doubt(node)
        elif node.stop - node.start > 1:
            # A contradicted node that turns out active after all has its halves already.
            if not node.children:
                middle = (node.start + node.stop + 1) // 2
                node.children = [Node(node.start, middle, node), Node(middle, node.stop, node)]
                self.nodes += node.children
            self._begin(node.children, node.background)

    def _doubt(self, node: Node) -> None:
        """An active node whose halves are both rejected has had a wrong verdict: one of these three."""
        if node.parent is None and self.settings.retest and not node.was_retested:
            node.was_retested = True
            self._begin([node])
        while node.parent is not None:
            node = node.parent
            if any(half.status in ("open", "active") for half in node.children):
                return
            if self.settings.retest and not node.was_retested:
                node.was_retested = True
                return self._begin(node.children)
            node.status = "contradicted"


class GPT:
    r"""A Gaussian process along a line, as for one active input, the hardest case, against a constant (section 3.3).

    Active: the covariance is :math:`\kappa^2 + \sigma_s^2 e^{-(z - z')^2 / b^2}`; inactive: :math:`\kappa^2 +
    \sigma_s^2`. ``bandwidth`` is the paper's b, √2 times PyMC's ``ls``, in units of z; ``offset_variance`` is κ², of
    f's mean, whose prior mean is 0, or if κ > 0 the first observation: any one is as good a guess as another.

    Examples
    --------
    >>> test = GPT(bandwidth=0.4, signal_variance=1.0, noise_variance=0.05)
    >>> test.path(np.array([-0.9, -0.35]), np.array([0.31, -0.52])).round(4)
    array([0.    , 2.0718])
    """

    def __init__(self, bandwidth: float, signal_variance: float, noise_variance: float, offset_variance: float = 0.0):
        self.bandwidth, self.signal = bandwidth, signal_variance
        self.noise, self.offset = noise_variance, offset_variance

    def _kernel(self, is_active: bool, z: np.ndarray, other: np.ndarray) -> np.ndarray:
        """Covariance of f between places, without noise."""
        square = np.square((z[:, None] - other) / self.bandwidth) * float(is_active)
        return self.offset + self.signal * exp_quad(2.0 * square, 0)[0]

    def _factor(self, is_active: bool, z: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
        """L, L⁻¹(y - mean) and the mean, for L Lᵀ the covariance of y."""
        mean = float(y[0]) if self.offset else 0.0
        factor = Factor(self._kernel(is_active, z, z) + self.noise * np.eye(len(z)), y - mean)
        return factor.L, factor.half_solve(factor.residual), mean

    def predict(self, is_active: bool, z: np.ndarray, y: np.ndarray, new: np.ndarray) -> Moments:
        """Moments of the next observation at each new place (m,), after y (n,) at z, under one hypothesis."""
        prior = self.offset + self.signal + self.noise
        if not len(y):
            return np.zeros(len(new)), np.full(len(new), prior)
        L, white, mean = self._factor(is_active, z, y)
        half = lapack.dtrtrs(L, self._kernel(is_active, z, new), lower=1)[0]
        return mean + white @ half, prior - np.square(half).sum(0)

    def llr_moments(self, z: np.ndarray, y: np.ndarray, new: np.ndarray) -> Moments:
        r"""Moments of the next observation's log likelihood ratio at each new place, if the node is active.

        With :math:`r = s_1^2 / s_0^2` and :math:`m = \mu_1 - \mu_0`,
        :math:`E = -\tfrac12 \ln r + \tfrac12 (r - 1) + m^2 / (2 s_0^2)` and
        :math:`Var = \tfrac12 (r - 1)^2 + s_1^2 m^2 / s_0^4`: the paper's shifted non-central χ², without its 0/0 where
        both variances are equal.
        """
        (low, inactive), (high, active) = (self.predict(which, z, y, new) for which in (False, True))
        ratio, shift = active / inactive, np.square(high - low) / inactive
        return 0.5 * (ratio - 1 - np.log(ratio) + shift), 0.5 * (ratio - 1) ** 2 + ratio * shift

    def places(self, z: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Where to evaluate next, (1,): where the mean plus one sd of the ratio, the paper's index, is largest."""
        new = rng.random(_N_PLACES)
        mean, variance = self.llr_moments(z, y, new)
        index = mean + np.sqrt(variance)
        return new[[rng.choice(np.flatnonzero(index >= index.max() * (1 - _TIE)))]]

    def path(self, z: np.ndarray, y: np.ndarray) -> np.ndarray:
        """The cumulative log likelihood ratio (nats, eq. 3) after each value, (n,), active against inactive."""
        (low, inactive, _), (high, active, _) = (self._factor(which, z, y) for which in (False, True))
        return np.cumsum(0.5 * (inactive**2 - active**2) + np.log(np.diagonal(low) / np.diagonal(high)))


class FDT:
    r"""The finite difference test: pairs of points along a line through a random point (the paper's section 3.2).

    The variance of a difference is :math:`\sigma_0^2 = 2 \sigma^2` if the node is inactive, and with one active input
    :math:`\sigma_1^2 = 2 [(1 - e^{-\delta^2 / b^2}) \sigma_s^2 + \sigma^2]`, for the paper's bandwidth b in units of z.
    At the ``spacing`` δ = 3b, half of the line at most, the exponent is 9, and not the 3 that the paper prints.

    Examples
    --------
    >>> FDT(0.1, 1.0, 0.05).path(np.zeros(4), np.array([0.5, 0.5, 0.0, 1.0])).round(4)
    array([-1.5222,  1.7175])
    """

    def __init__(self, bandwidth: float, signal_variance: float, noise_variance: float, offset_variance: float = 0.0):
        self.spacing = min(3 * bandwidth, _LONGEST_SPACING)
        self._low = 2 * noise_variance
        self._high = 2 * (-np.expm1(-((self.spacing / bandwidth) ** 2)) * signal_variance + noise_variance)

    def places(self, z: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """The next pair, (2,), after values y (n,) at z."""
        first = float(rng.uniform(0, 1 - self.spacing))
        return np.array([first, first + self.spacing])

    def path(self, z: np.ndarray, y: np.ndarray) -> np.ndarray:
        """The cumulative log likelihood ratio (nats, eq. 2) after each pair, (n / 2,), active against inactive."""
        square = np.square(y[1::2] - y[::2])
        return np.cumsum(0.5 * (square * (1 / self._low - 1 / self._high) + np.log(self._low / self._high)))
