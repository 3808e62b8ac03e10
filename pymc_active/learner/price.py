"""What measurements cost: a criterion is divided by it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from pymc_active.learner.candidates import Candidates, Pool
from pymc_active.support.tables import check_rows, read_numbers

# The name of a column of the pool, a price for each of its points, or a function of a table of points.
type Cost = str | ArrayLike | Callable[[Any], Any]
type Limits = tuple[np.ndarray, np.ndarray]
# Candidates at which a function is tried.
_TRIED = 64
# Step of differences of a function, as a part of the range of an input.
_STEP = 1e-5


class Price:
    """The price of points, from a user's function of these as the learner shows them."""

    def __init__(self, function: Callable[[Any], Any], inputs: Sequence, some: np.ndarray, limits: Limits):
        self.function, self.inputs, self.limits = function, inputs, limits
        # What it cannot say of candidates it says before anything is measured.
        self.of(some)

    def of(self, X: np.ndarray, rows: Sequence[int] | None = None) -> np.ndarray:
        """Prices (m,) of points X (m, D), which answer ``rows`` of a pool; a ValueError unless all are positive."""
        space, shown = getattr(self.inputs, "space", None), X
        if space is not None:
            shown = space.decode(X)
        elif all(isinstance(name, str) for name in self.inputs):
            shown = pd.DataFrame(X, columns=list(self.inputs))
        try:
            prices = self.function(shown)
        except Exception as error:
            columns = f" with the columns {', '.join(shown.columns)}" if isinstance(shown, pd.DataFrame) else ""
            error.add_note(f"The function cost= gets a {type(shown).__name__}{columns}, a row for each point.")
            raise
        return np.broadcast_to(_positive(prices, len(X)), len(X))

    def __call__(self, X: np.ndarray) -> np.ndarray:
        """The log of the share of a measurement that a unit of cost pays for, (m,)."""
        return -np.log(self.of(X))

    def coarse(self, n: int) -> Price:
        """The same: it takes no draws."""
        return self

    def gradient(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The same, and its derivatives in the inputs (m, D) by differences inside the limits; 0 where levels are."""
        slopes, space = np.zeros_like(X), getattr(self.inputs, "space", None)
        for k, (low, high) in enumerate(zip(*self.limits, strict=True)):
            if high > low and (space is None or space.is_real[k]):
                up, down = X.copy(), X.copy()
                up[:, k] = np.minimum(X[:, k] + _STEP * (high - low), high)
                down[:, k] = np.maximum(X[:, k] - _STEP * (high - low), low)
                slopes[:, k] = (self(up) - self(down)) / (up[:, k] - down[:, k])
        return self(X), slopes


class ListedPrice(Price):
    """The prices (m,) of the points X (m, D) of a pool."""

    def __init__(self, prices: Any, X: np.ndarray):
        self.prices = np.broadcast_to(_positive(prices, len(X)), len(X))
        self._known: dict[bytes, float] = {}
        for row, price in zip(X + 0.0, self.prices.tolist(), strict=True):
            if self._known.setdefault(row.tobytes(), price) != price:
                raise ValueError(f"the pool lists {row.tolist()} at two prices: add an input that tells them apart")

    def of(self, X: np.ndarray, rows: Sequence[int] | None = None) -> np.ndarray:
        """Prices (m,) of points X (m, D) or of ``rows``, where not -1; a ValueError for points not in the pool."""
        listed = [-1] * len(X) if rows is None else rows
        try:
            prices = [
                self.prices[i] if i >= 0 else self._known[x.tobytes()] for i, x in zip(listed, X + 0.0, strict=True)
            ]
            return np.array(prices, float)
        except KeyError:
            raise ValueError("the pool has the prices of its own points only: pass the candidate as asked=") from None


def read_price(cost: Cost | None, candidates: Candidates, inputs: Sequence) -> Price | None:
    """The price of points, checked at some candidates; ``cost`` is no longer the name of a column."""
    if cost is None:
        return None
    if callable(cost):
        return Price(cost, inputs, candidates.places(_TRIED), candidates.limits)
    if isinstance(cost, str) or np.ndim(cost) != 1:
        raise TypeError(f"cost must be a function of a table, a column of the pool, or a price a row; got {cost!r}")
    if not isinstance(candidates, Pool):
        raise ValueError(f"prices of points are for a pool; of {candidates} cost is a function of a table of points")
    return ListedPrice(cost, candidates.X)


def split_column(cost: Cost | None, pool: Any) -> tuple[Any, Any]:
    """Prices and the rest of a table, if ``cost`` is the name of a column of it; else both as they are.

    A ValueError if a series of prices has its rows in another order than the table.
    """
    if not (isinstance(cost, str) and isinstance(pool, pd.DataFrame | Mapping)):
        if isinstance(pool, pd.DataFrame) and isinstance(cost, pd.Series) and len(cost) == len(pool):
            check_rows(pool, cost, "cost", "pool")
        return cost, pool
    if cost not in pool:
        raise ValueError(f"cost={cost!r} is no column of the pool, which has {', '.join(map(str, pool))}")
    rest = pool.drop(columns=cost) if isinstance(pool, pd.DataFrame) else {k: pool[k] for k in pool if k != cost}
    return np.asarray(pool[cost]), rest


def _positive(values: Any, m: int) -> np.ndarray:
    prices = read_numbers(values, "cost")
    if prices.shape not in ((), (m,)):
        raise ValueError(f"cost must be a positive number for each of {m} points; got numbers of shape {prices.shape}")
    for row in np.flatnonzero(~((prices > 0) & np.isfinite(prices)))[:1]:
        raise ValueError(f"cost must be a positive number for each of {m} points; point {row} has {prices.flat[row]:g}")
    return prices
