"""The PyTensor graphs of all kernels equal the array route, under every back end."""

import numpy as np
import pymc as pm
import pytest
from numpy.testing import assert_allclose

import pymc_active as pma

X = np.random.default_rng(0).normal(size=(6, 2))
Y = np.sin(X[:, 0]) + 0.1 * X[:, 1]
X_NEW = np.random.default_rng(1).normal(size=(3, 2))
STATIONARY = ("ExpQuad", "Matern12", "Matern32", "Matern52")
MODELS = {
    **{f"ard {name}": lambda name=name: pma.ard_gp(X, Y, kernel=name) for name in STATIONARY},
    **{e: lambda e=e: pma.composite_gp(X[:, :1], Y, e) for e in ("RQ", "PER", "LIN", "STEP", "LIN + PER * RQ")},
    "embedding": lambda: pma.embedding_gp(X, Y, n_components=1),
}


def check_graphs(gpm, mode):
    theta = np.random.default_rng(2).normal(scale=0.3, size=len(gpm.labels))
    point, X_new = gpm.unflatten(theta), X_NEW[:, : gpm.X.shape[1]]
    covariance = 0.1 * np.eye(len(theta))
    graphs = [
        pma.graphs.log_posterior(gpm),
        pma.graphs.hessian(gpm),
        *pma.graphs.mgp_moments(gpm, X_new, covariance),
    ]
    value, hessian, mean, variance, _ = pm.compile(gpm.model.value_vars, graphs, mode=mode)(*point.values())
    fit = pma.fit_laplace(gpm, point=point, optimize=False)
    assert_allclose(value, fit.log_posterior, rtol=1e-10)
    assert_allclose(hessian, fit.hessian, rtol=0, atol=1e-10 * np.abs(fit.hessian).max())
    # The covariance of this test, not of the fit: the mean does not depend on it, and the variance is linear in it.
    plain = pma.predict(fit, X_new, method="map")
    assert_allclose(mean, plain.f_mean, rtol=1e-9, atol=1e-10)
    assert (variance > 4 / 3 * plain.f_variance.to_numpy() * (1 - 1e-10)).all()


# The point of the test may be no maximum.
pytestmark = pytest.mark.filterwarnings("ignore::pymc_active.DoubtfulFitWarning")


@pytest.mark.slow
def test_graphs_equal_arrays():
    check_graphs(MODELS["LIN"](), "FAST_COMPILE")


@pytest.mark.nightly
@pytest.mark.parametrize("mode", ["FAST_COMPILE", "NUMBA", "JAX"])
@pytest.mark.parametrize("name", MODELS)
def test_graphs_equal_arrays_under_other_back_ends(name, mode):
    if mode == "JAX":
        pytest.importorskip("jax", reason="the extra jax")
    check_graphs(MODELS[name](), mode)
