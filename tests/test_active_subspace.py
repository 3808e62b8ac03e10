"""The active subspace of a model, from functions drawn from its posterior."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.linalg import subspace_angles

import pymc_active as pma

rng = np.random.default_rng(3)
X = rng.uniform(-1, 1, size=(25, 3))
DIRECTION = np.array([2.0, -1.0, 0.0]) / np.sqrt(5)
Y = np.sin(2 * X @ DIRECTION) + 0.05 * rng.normal(size=25)
TARGETS = rng.uniform(-1, 1, size=(60, 3))


@pytest.fixture(scope="module")
def fit():
    return pma.fit(pma.ard_gp(X, Y), random_seed=1, progressbar=False)


def expected_outer_product(lengthscale, outputscale, noise):
    """E[mean over x of grad f grad fᵀ] given the data, by the formulas of the squared exponential's derivatives."""

    def k(A, B):
        return outputscale**2 * np.exp(-0.5 * np.square((A[:, None] - B) / lengthscale).sum(-1))

    G = k(X, X) + noise**2 * np.eye(len(X))
    total = np.zeros((3, 3))
    for x in TARGETS:
        J = -((x - X) / lengthscale**2 * k(X, x[None])).T
        mean = J @ np.linalg.solve(G, Y)
        covariance = outputscale**2 * np.diag(lengthscale**-2.0) - J @ np.linalg.solve(G, J.T)
        total += np.outer(mean, mean) + covariance
    return total / len(TARGETS)


def test_directions_and_shares_are_those_of_the_closed_form():
    gpm = pma.ard_gp(X, Y)
    point = {"log_lengthscale": np.log([0.8, 1.5, 3.0]), "log_outputscale": 0.0, "log_noise": np.log(0.2)}
    ensemble = pma.as_ensemble(point, model=gpm)
    found = pma.active_subspace(ensemble, X_target=TARGETS, draws=400, random_seed=0)
    values, vectors = np.linalg.eigh(expected_outer_product(np.array([0.8, 1.5, 3.0]), 1.0, 0.2))
    first = found.direction.to_numpy()[0]
    # 400 functions: the error of an outer product is a few per cent of its trace.
    assert np.rad2deg(np.arccos(abs(first @ vectors[:, -1]))) < 4
    assert_allclose(found.share.sel(summary="mean")[0], values[-1] / values.sum(), atol=0.06)
    directions = found.direction.to_numpy()
    assert_allclose(directions @ directions.T, np.eye(3), atol=1e-12)
    assert_allclose(found.share.sel(summary="mean").sum(), 1)


def test_a_ridge_function_has_one_direction_and_its_angle_is_covered(fit):
    found = pma.active_subspace(fit, reference=[DIRECTION], random_seed=1)
    assert found.reference_estimate[0] < 10
    low, high = found.reference_angle.sel(summary=["lower", "upper"])[:, 0]
    assert low < 15
    assert high < 30
    # The angle to the mean says how far the truth may be.
    assert found.reference_estimate[0] < found.angle.sel(summary="upper")[0]
    assert found.is_enough[-1] == 1
    assert (found.is_enough.diff("component") >= 0).all()
    expected = np.rad2deg(subspace_angles(found.direction[:1].to_numpy().T, DIRECTION[:, None]))
    assert_allclose(found.reference_estimate, expected, atol=1e-6)


def test_scaled_inputs_have_scaled_gradients(fit):
    """Inputs in other units are the same scaled inputs."""
    units = np.array([10.0, 0.1, 1.0])
    other = pma.fit(pma.ard_gp(X * units, Y, x_scale=(0.0, units)), random_seed=1, progressbar=False)
    one, two = (pma.active_subspace(f, draws=50, random_seed=1) for f in (fit, other))
    assert_allclose(one.direction, two.direction, atol=1e-6)


@pytest.mark.parametrize(
    ("keywords", "match"),
    [
        ({"draws": 1}, "draws must be"),
        ({"reference": [[1.0, 0.0]]}, "reference must have"),
        ({"reference": np.ones((2, 3))}, "linearly independent"),
        ({"X_target": np.ones((3, 2))}, "X_target"),
    ],
)
def test_bad_arguments_are_refused(fit, keywords, match):
    with pytest.raises(ValueError, match=match):
        pma.active_subspace(fit, **keywords)


def test_more_inputs_than_memory_are_refused():
    X = np.random.default_rng(0).uniform(-1, 1, (8, 300))
    point = {"log_lengthscale": np.full(300, 3.0), "log_outputscale": 0.0, "log_noise": -1.0}
    with pytest.warns(pma.DoubtfulFitWarning, match="not a proper maximum"):
        fit = pma.fit_laplace(pma.ard_gp(X, X[:, 0]), point=point, optimize=False)
    with pytest.raises(ValueError, match=r"about 12 GB for 300 inputs and 128 draws: pass draws=44 or less"):
        pma.active_subspace(fit)


def test_other_sources_are_refused():
    with pytest.raises(TypeError, match="takes a fit or an Ensemble"):
        pma.active_subspace(pma.ard_gp(X, Y))
