"""Two ways to choose inputs from data that are there already: ARD and the lasso."""

import numpy as np
from sklearn.linear_model import LassoCV
from sklearn.model_selection import KFold

import pymc_active as pma


def ard(X: np.ndarray, y: np.ndarray, n_active: int) -> list[int]:
    """The inputs with the shortest lengthscales, in sds of the input, of an ARD model."""
    gpm = pma.ard_gp(X, y, kernel="ExpQuad", mean="constant", x_scale="box", y_scale="standardize")
    fit = pma.fit_laplace(gpm, n_restarts=1, population=0, random_seed=0, progressbar=False)
    return largest(X.std(0) / fit.constrained_center["lengthscale"], n_active)


def lasso(X: np.ndarray, y: np.ndarray, n_active: int) -> list[int]:
    """The inputs with the largest coefficients, standardised, in a cross-validated lasso."""
    folds = KFold(5, shuffle=True, random_state=0)
    fit = LassoCV(cv=folds, max_iter=20_000).fit((X - X.mean(0)) / X.std(0), y)
    return largest(np.abs(fit.coef_), n_active)


def largest(score: np.ndarray, n: int) -> list[int]:
    return sorted(np.argsort(-score, kind="stable")[:n].tolist())
