"""Questions from a box: maxima of criteria, corners of the embedded box, and the way back from it."""

from dataclasses import replace
from itertools import product

import numpy as np
import pymc as pm
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial import ConvexHull
from users import users_gp

import pymc_active as pma
from pymc_active.active import Learner
from pymc_active.criteria.bald import Bald, Uncertainty
from pymc_active.criteria.improvement import ExpectedImprovement, UpperConfidenceBound
from pymc_active.criteria.maximize import extreme_corners, maximize
from pymc_active.criteria.screening import prepare

pytestmark = pytest.mark.slow

BOX = [(-1.0, 1.0)] * 3


def truth(X):
    X = np.atleast_2d(X)
    return np.sin(3 * X[:, 0]) + X[:, -1] ** 2


def fit(gpm, **keywords):
    options = {"n_restarts": 3, "population": 0, "random_seed": 1, "progressbar": False}
    return pma.fit_laplace(gpm, **{**options, **keywords})


def quick(learner, fitted):
    """Leave out the search: what is asked does not depend on how the fit was found."""
    learner._current.run = replace(learner._run, fit=fitted)
    return learner


def ard_model(n=12, D=3):
    X = np.random.default_rng(1).uniform(-1, 1, size=(n, D))
    return pma.ard_gp(X, truth(X))


def embedding_model(D=10, d=2):
    X = np.random.default_rng(2).uniform(-1, 1, size=(40, D))
    u = X[:, :4] @ np.array([[1.0, 0.3], [-0.5, 1.0], [0.2, -0.8], [0.7, 0.1]])
    return pma.embedding_gp(
        X, np.sin(2 * u[:, 0]) + 0.3 * u[:, 1] ** 2, n_components=d, mean="constant", priors={"log_noise": np.log(0.05)}
    )


def hand_written():
    X = np.random.default_rng(3).uniform(0, 2, size=(5, 2))
    return users_gp(X, truth(X), lambda: pm.gp.cov.ExpQuad(2, ls=pm.LogNormal("lengthscale", 0, 0.5)), lambda: 0.3)


@pytest.fixture(scope="module")
def ard():
    return fit(ard_model())


@pytest.fixture(scope="module")
def embedding():
    return fit(embedding_model())


def box_of(fitted, low=-1.0, high=1.0):
    D = fitted.X.shape[1]
    return np.full(D, low), np.full(D, high)


# Maxima.


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    "criterion",
    [
        Bald(),
        Bald("f"),
        Uncertainty(),
        ExpectedImprovement(),
        UpperConfidenceBound(minimize=True),
        Bald(method="modes"),
    ],
    ids=["bald", "bald_f", "uncertainty", "improvement", "confidence bound", "bald_modes"],
)
@pytest.mark.parametrize("model", ["ard", "embedding"])
def test_no_random_candidate_is_better(request, model, criterion, seed):
    """Of five thousand, half of them corners, where uncertainty is largest."""
    fitted = request.getfixturevalue(model)
    low, high = box_of(fitted)
    scorer = criterion.prepare(fitted)
    found = maximize(scorer, low, high, np.random.default_rng(seed))
    rng = np.random.default_rng(100 + seed)
    pool = np.concatenate(
        [rng.uniform(low, high, size=(2500, len(low))), rng.choice([-1.0, 1.0], size=(2500, len(low)))]
    )
    # The latent ratio is rugged, with many narrow maxima: there the search may stop a little below the highest.
    slack = 0.05 if isinstance(criterion, Bald) and not criterion.with_noise else 0.0
    assert found.values[0] >= (1 - slack) * scorer.score(pool).max() - 1e-9
    assert ((found.X >= low) & (found.X <= high)).all()
    assert_allclose(found.values, scorer.score(found.X), rtol=1e-7, atol=1e-9)
    assert (np.diff(found.values) <= 0).all()


@pytest.mark.parametrize("model", ["ard", "embedding"])
def test_the_best_maximum_cannot_be_improved_nearby(request, model):
    """The gradient vanishes there, but for sides of the box that it points out of."""
    fitted = request.getfixturevalue(model)
    low, high = box_of(fitted, -0.7, 0.9)
    scorer = UpperConfidenceBound(method="map").prepare(fitted)
    x = maximize(scorer, low, high, np.random.default_rng(1)).X[0]
    _, [gradient] = scorer.gradient(x[None])
    free = (gradient < 0) & (x > low) | (gradient > 0) & (x < high)
    assert np.abs(np.where(free, gradient, 0)).max() < 1e-2
    nearby = np.clip(x + 0.01 * np.random.default_rng(2).normal(size=(200, len(x))), low, high)
    values = scorer.score(np.vstack([x, nearby]))
    assert values[1:].max() <= values[0] + 1e-6


def quadratic(center):
    return lambda fitted, X: -np.square(X - center).sum(1)


@pytest.mark.parametrize("center", [[0.31, -0.47, 0.05], [0.2, 3.0, -5.0]], ids=["inside", "outside"])
def test_a_callable_without_a_gradient_is_maximized(ard, center):
    """A concave quadratic has its maximum where its center is clipped to the box."""
    low, high = np.array([-1.0, 0.0, -2.0]), np.array([1.0, 1.5, 2.0])
    found = maximize(prepare(quadratic(np.array(center)), ard), low, high, np.random.default_rng(1))
    assert_allclose(found.X[0], np.clip(center, low, high), rtol=0, atol=1e-4)


def test_a_criterion_that_is_partly_nan_is_maximized_where_it_is_a_number(ard):
    def half(fitted, X):
        return np.where(X[:, 0] < 0.2, np.nan, -np.square(X - 0.5).sum(1))

    low, high = box_of(ard)
    found = maximize(prepare(half, ard), low, high, np.random.default_rng(1))
    assert np.isfinite(found.values[0])
    assert_allclose(found.X[0], 0.5, rtol=0, atol=1e-3)


def test_a_criterion_that_is_nowhere_finite_is_refused(ard):
    with pytest.raises(ValueError, match="the criterion is not finite at any point of the box"):
        maximize(prepare(lambda fitted, X: np.full(len(X), np.nan), ard), *box_of(ard), np.random.default_rng(1))


# The learner.


@pytest.mark.parametrize("criterion", ["bald", "uncertainty", "expected_improvement", "random"])
@pytest.mark.parametrize("model", ["ard", "embedding"])
def test_questions_are_in_the_box_and_differ(request, model, criterion):
    """One after another and in a batch, each conditioned on those before."""
    fitted = request.getfixturevalue(model)
    bounds = [(-1.0, 0.5 + 0.05 * i) for i in range(fitted.X.shape[1])]
    active = quick(Learner(fitted.gpm, criterion=criterion, bounds=bounds, random_seed=4), fitted)
    asked = np.concatenate([active.ask(), active.ask(), active.ask(2)])
    low, high = np.array(bounds).T
    assert asked.shape == (4, len(bounds))
    assert ((asked >= low) & (asked <= high)).all()
    distances = np.abs(asked[:, None] - asked).max(2)[np.triu_indices(4, 1)]
    assert distances.min() > 1e-3


def test_a_pending_point_is_conditioned_on(ard):
    """The second question is the maximum given that the first came out as predicted."""
    active = quick(Learner(ard.gpm, bounds=BOX, random_seed=4), ard)
    first = active.ask()
    value = ard.best.moments(first).mean
    second = active.ask()
    given = ard.given(np.concatenate([ard.X, first]), np.concatenate([ard.y, value]))
    pool = np.random.default_rng(5).uniform(-1, 1, size=(3000, 3))
    score = active.criterion.prepare(given).score(np.concatenate([second, pool]))
    assert score[0] >= score[1:].max()
    # Where the first one was there is little left to learn.
    assert active.criterion.prepare(given).score(first) < 0.6 * active.criterion.prepare(ard).score(first)


@pytest.mark.parametrize("repeat", [False, True])
def test_a_measured_maximum_is_not_asked_again_unless_it_may_be(ard, repeat):
    """A criterion that does not know of the data always has the same maximum; one that is pending is never asked."""
    gpm = pma.ard_gp(ard.X, ard.y)
    active = Learner(gpm, criterion=quadratic(np.array([0.3, 0.2, -0.6])), bounds=BOX, repeat=repeat, random_seed=1)
    first = active.ask()
    assert_allclose(first, [[0.3, 0.2, -0.6]], rtol=0, atol=1e-4)
    assert np.abs(active.ask() - first).max() > 1e-6
    active.tell(first, 0.1)
    assert (np.abs(active.ask() - first).max() < 1e-4) == repeat


@pytest.mark.parametrize("minimize", [False, True])
@pytest.mark.parametrize("model", ["ard", "embedding"])
@pytest.mark.filterwarnings("ignore::pymc_active.RunWarning")
def test_recommended_is_the_best_posterior_mean(request, model, minimize):
    fitted = request.getfixturevalue(model)
    low, high = box_of(fitted, -0.9, 0.8)
    bounds = list(zip(low, high, strict=True))
    active = quick(Learner(fitted.gpm, bounds=bounds, minimize=minimize), fitted)
    x = active.recommend()
    assert x.shape == (1, len(bounds))
    assert ((x >= low) & (x <= high)).all()
    sign = -1 if minimize else 1
    rng = np.random.default_rng(8)
    pool = np.concatenate([rng.uniform(low, high, size=(4000, len(low))), np.clip(fitted.X, low, high)])
    mean = sign * pma.predict(fitted, np.concatenate([x, pool]), method="map")["f_mean"].to_numpy()
    assert mean[0] >= mean[1:].max() - 1e-9
    assert_array_equal(active.recommend(), x)


def test_a_model_without_gradients_is_searched_by_differences():
    """``from_marginal`` has no formulas in the inputs."""
    gpm = hand_written()
    fitted = fit(gpm, n_restarts=1)
    scorer = Uncertainty().prepare(fitted)
    assert scorer.gradient(gpm.X[:1]) is None
    active = quick(Learner(gpm, criterion="uncertainty", bounds=[(0, 2), (0, 2)], random_seed=1), fitted)
    first = active.ask()
    score = scorer.score(np.concatenate([first, np.random.default_rng(1).uniform(0, 2, size=(2000, 2))]))
    assert score[0] >= score[1:].max() - 1e-9
    second = active.ask()
    assert np.abs(second - first).max() > 1e-3
    active.tell(first, truth(first))
    assert len(active.gpm.y) == 6


# The embedded box.


@pytest.mark.parametrize("seed", range(3))
def test_extreme_corners_are_the_vertices_of_the_embedded_box(seed):
    """Against the convex hull of the images of all corners."""
    R = np.random.default_rng(seed).normal(size=(2, 6))
    corners = np.array(list(product([0.0, 1.0], repeat=6)))
    vertices = corners[ConvexHull(corners @ R.T).vertices]
    # A zonotope in the plane has twice as many vertices as generators.
    assert len(vertices) == 12
    found = extreme_corners(R, 5000, np.random.default_rng(0))
    assert {tuple(x) for x in found} == {tuple(x) for x in vertices}


def test_extreme_corners_of_a_line_are_its_two_ends():
    R = np.array([[0.5, -2.0, 1.0]])
    found = extreme_corners(R, 50, np.random.default_rng(0))
    assert {tuple(x) for x in found} == {(1.0, 0.0, 1.0), (0.0, 1.0, 0.0)}


# The way back.


def test_neither_the_unit_nor_the_zero_of_the_outcomes_moves_what_is_asked_and_recommended():
    X = np.random.default_rng(1).uniform(0, 10, size=(8, 2))
    y, box, places = np.sin(X[:, 0]) + 0.1 * X[:, 1], [(0, 10)] * 2, []
    for unit, zero in ((1.0, 0.0), (1e-9, 0.0), (1e6, -3e6)):
        gpm = pma.ard_gp(X, zero + unit * y, bounds=box)
        learner = pma.Learner(gpm, "function", bounds=box, random_seed=0)
        places.append(np.concatenate([learner.ask(), learner.recommend()]))
    assert_allclose(places[1], places[0], atol=1e-3)
    assert_allclose(places[2], places[0], atol=1e-3)
