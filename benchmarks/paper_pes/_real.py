"""The objectives of figure 4, as they are measured: noisy, on the unit square."""

from __future__ import annotations

import os
import warnings
from functools import lru_cache
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.optimize import minimize
from scipy.special import gammaln, stdtr, stdtrit
from scipy.stats import kendalltau, rankdata

STOCKS = ("AXP", "BA", "HD")
# Days of a simulated year, years simulated for one evaluation.
_DAYS, _YEARS = 252, 1000
_HIDDEN = 10


@lru_cache(1)
def folder() -> Path:
    """Where the data sets are.

    Raises
    ------
    FileNotFoundError
        If the environment variable PYMC_ACTIVE_DATA does not name a folder.
    """
    where = os.environ.get("PYMC_ACTIVE_DATA")
    if not where:
        raise FileNotFoundError("set the environment variable PYMC_ACTIVE_DATA to the folder that holds the data sets")
    return Path(where)


@lru_cache(1)
def _boston() -> tuple[np.ndarray, np.ndarray]:
    table = pd.read_csv(folder() / "boston_housing.csv")
    y = table.pop("MEDV").to_numpy(float)
    X = table.to_numpy(float)
    return (X - X.mean(0)) / X.std(0), (y - y.mean()) / y.std()


def nnet(x: np.ndarray, rng: np.random.Generator) -> float:
    """Negative test RMSE, in sds of the target, of a network on a random half of Boston housing.

    x[0]: weight decay from 1e-4 to 1e2; x[1]: 5 to 500 iterations of L-BFGS; both on a logarithmic scale.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.neural_network import MLPRegressor

    X, y = _boston()
    rows = rng.permutation(len(y))
    train, test = rows[: len(y) // 2], rows[len(y) // 2 :]
    network = MLPRegressor(
        hidden_layer_sizes=(_HIDDEN,), activation="logistic", solver="lbfgs", alpha=10 ** (-4 + 6 * x[0]),
        max_iter=round(5 * 100 ** float(x[1])), random_state=int(rng.integers(2**31)),
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        network.fit(X[train], y[train])
    return -float(np.sqrt(np.mean(np.square(network.predict(X[test]) - y[test]))))


class _Garch:
    """GARCH(1, 1) with a constant mean, by Gaussian quasi-maximum likelihood; residuals as observed."""

    def __init__(self, returns: np.ndarray):
        self.mean = returns.mean()
        r = returns - self.mean
        variance = r.var()

        def path(theta: np.ndarray) -> np.ndarray:
            omega, a, b = self._unpack(theta, variance)
            h = np.empty(len(r))
            h[0] = variance
            for t in range(1, len(r)):
                h[t] = omega + a * r[t - 1] ** 2 + b * h[t - 1]
            return h

        def loss(theta: np.ndarray) -> float:
            h = path(theta)
            return 0.5 * float(np.mean(np.log(h) + r * r / h))

        found = minimize(loss, [-2.5, 2.5], method="Nelder-Mead", options={"xatol": 1e-3, "fatol": 1e-7})
        self.omega, self.a, self.b = self._unpack(found.x, variance)
        h = path(found.x)
        self.residuals = np.sort(r / np.sqrt(h))
        self.unsorted = r / np.sqrt(h)
        self.last = self.omega + self.a * r[-1] ** 2 + self.b * h[-1]

    @staticmethod
    def _unpack(theta: np.ndarray, variance: float) -> tuple[float, float, float]:
        """Stationary, with the sample's variance: the share of news in persistence, and persistence."""
        news, persistence = 1 / (1 + np.exp(-np.asarray(theta)))
        return variance * (1 - persistence), news * persistence, (1 - news) * persistence


@lru_cache(1)
def _market() -> tuple[list[_Garch], np.ndarray, float]:
    """Univariate models, and correlation and degrees of freedom of their t copula."""
    table = pd.read_csv(folder() / "portfolio_axp_ba_hd.csv.gz")
    models = [_Garch(table[name].to_numpy(float)) for name in STOCKS]
    Z = np.column_stack([m.unsorted for m in models])
    U = np.column_stack([rankdata(z) for z in Z.T]) / (len(Z) + 1)
    correlation = np.array([[np.sin(np.pi / 2 * kendalltau(a, b)[0]) for a in U.T] for b in U.T])
    grid = np.arange(2.5, 20, 0.5)
    scores = [_t_copula(U, correlation, nu) for nu in grid]
    return models, correlation, float(grid[np.argmax(scores)])


def _t_copula(U: np.ndarray, correlation: np.ndarray, nu: float) -> float:
    """Mean log density."""
    T, d = stdtrit(nu, U), U.shape[1]
    squared = np.einsum("ni,ni->n", T, np.linalg.solve(correlation, T.T).T)
    joint = gammaln((nu + d) / 2) - gammaln(nu / 2) - d / 2 * np.log(nu * np.pi)
    joint = joint - 0.5 * np.linalg.slogdet(correlation)[1] - (nu + d) / 2 * np.log1p(squared / nu)
    single = gammaln((nu + 1) / 2) - gammaln(nu / 2) - 0.5 * np.log(nu * np.pi) - (nu + 1) / 2 * np.log1p(T * T / nu)
    return float(np.mean(joint - single.sum(1)))


def portfolio(x: np.ndarray, rng: np.random.Generator) -> float:
    """Mean over standard deviation of simulated one-year returns, the weights of AXP, BA and HD given by x.

    x[0] goes to AXP; x[1] of the rest to BA, what remains to HD.
    """
    models, correlation, nu = _market()
    root = np.linalg.cholesky(correlation)
    variance = np.tile([m.last for m in models], (_YEARS, 1))
    total = np.zeros((_YEARS, len(models)))
    a, b, omega, mean = (np.array([getattr(m, k) for m in models]) for k in ("a", "b", "omega", "mean"))
    n = len(models[0].residuals)
    for _ in range(_DAYS):
        T = (rng.normal(size=total.shape) @ root.T) / np.sqrt(rng.chisquare(nu, (_YEARS, 1)) / nu)
        place = np.minimum((stdtr(nu, T) * n).astype(int), n - 1)
        news = np.sqrt(variance) * np.column_stack([m.residuals[place[:, i]] for i, m in enumerate(models)])
        total += mean + news
        variance = omega + a * news**2 + b * variance
    weights = np.array([x[0], (1 - x[0]) * x[1], (1 - x[0]) * (1 - x[1])])
    value = np.exp(total) @ weights - 1
    return float(value.mean() / value.std())


def hydrogen() -> tuple[np.ndarray, np.ndarray]:
    """A user's measurements: inputs (n, 2) on the unit square, and what was produced.

    Raises
    ------
    FileNotFoundError
        If there is no ``hydrogen.csv``.
    """
    path = folder() / "hydrogen.csv"
    if not path.exists():
        raise FileNotFoundError(f"the folder {path.parent} lacks hydrogen.csv with columns ph, nitrogen and hydrogen")
    table = pd.read_csv(path)
    X = table[["ph", "nitrogen"]].to_numpy(float)
    low, high = X.min(0), X.max(0)
    return (X - low) / (high - low), table["hydrogen"].to_numpy(float)
