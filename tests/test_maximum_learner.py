"""The loop that looks for a maximum: what it asks, what it recommends, and what it knows of the place."""

from dataclasses import replace
from functools import cache, partial

import numpy as np
import pandas as pd
import pytest
from nightly import nightly
from numpy.testing import assert_allclose, assert_array_equal

import pymc_active as pma
from pymc_active.active import Learner
from pymc_active.criteria.by_name import criterion_names

pytestmark = pytest.mark.slow

BOUNDS = [(-3.0, 3.0)]
START = np.array([[-2.0], [-0.5], [1.0], [2.0]])
GRID = np.linspace(-3, 3, 25)[:, None]
FRAME = pd.DataFrame(
    np.random.default_rng(2).uniform([40, 0], [100, 5], (30, 2)),
    columns=["temperature", "time"],
    index=[f"run {i}" for i in range(30)],
)


def wave(X):
    X = np.asarray(X, float)
    return np.sin(2 * X[:, 0]) + 0.3 * X[:, 0]


def yield_(X):
    X = np.asarray(X, float)
    return 60 - (X[:, 0] - 70) ** 2 / 20 - 5 * (X[:, 1] - 2) ** 2


def learner(X=START, f=wave, gpm=None, **keywords):
    if "pool" not in keywords:
        keywords = {"bounds": BOUNDS, **keywords}
    return Learner(gpm or pma.ard_gp(X, f(X)), "maximum", **{"criterion": "pes", "random_seed": 1, **keywords})


@cache
def after_a_few(minimize=False):
    active = learner(minimize=minimize, criterion="expected_improvement")
    active.run(wave, n=3, progressbar=False)
    return active, active.optimum(40)


def is_inside(X, bounds=BOUNDS):
    low, high = np.transpose(bounds)
    return bool(np.isfinite(X).all() and (low <= X).all() and (high >= X).all())


def mean(active, X):
    """The posterior mean that the recommendation maximises."""
    return pma.predict(active.fit, X, method="draws", draws=128, random_seed=0).f_mean.to_numpy()


@pytest.mark.parametrize("minimize", [False, *nightly(True)])
def test_a_few_asks_find_the_optimum(minimize):
    active, _ = after_a_few(minimize)
    sign = -1 if minimize else 1
    best = (sign * wave(np.linspace(-3, 3, 2001)[:, None])).max()
    assert best - sign * wave(active.recommend())[0] < 0.05


def test_the_minimum_is_the_maximum_of_the_mirror_image():
    """Expected improvement is asked by default."""
    up, down = (
        learner(f=lambda X, sign=sign: sign * wave(X), criterion=None, pool=GRID, minimize=sign < 0) for sign in (1, -1)
    )
    assert "criterion expected_improvement;" in repr(up)
    assert_allclose(down.recommend(), up.recommend(), atol=1e-5)
    assert_allclose(down.ask(), up.ask(), atol=1e-5)


def test_data_outside_the_bounds_help_and_the_recommendation_stays_on_the_boundary():
    X = np.array([[-2.0], [0.5], [4.0], [5.0]])  # the best value is at 4
    active = learner(X, lambda X: np.asarray(X)[:, 0] * 0.5)
    assert is_inside(active.ask())
    optimum = active.optimum(20)
    assert is_inside(optimum.samples.x.to_numpy())
    assert_allclose(optimum.x, 3.0, atol=1e-6)


def test_the_same_seed_asks_and_finds_the_same():
    """Several at once are distinct, and those asked one after another; looking at the optimum changes no question."""

    def run(seed, n=(2,)):
        active = learner(criterion="expected_improvement", random_seed=seed, pool=GRID)
        x = np.concatenate([active.ask(k) for k in n])
        active.tell(x, wave(x))
        found = active.optimum(4)
        return active.X, found.x, found.samples.x.to_numpy(), found.regret

    first = run(3)
    assert len(np.unique(first[0])) == 6
    for again in (run(3), run(3, (1, 1))):
        for one, other in zip(first, again, strict=True):
            assert_array_equal(one, other)
    assert not np.array_equal(first[2], learner(random_seed=4, pool=GRID).optimum(4).samples.x.to_numpy())
    watched, left_alone = learner(pool=GRID), learner(pool=GRID)
    watched.optimum(4)
    assert_array_equal(watched.ask(), left_alone.ask())


# One of each kind in the box; test_default_route.py asks all of them in a pool.
OF_EACH_KIND = {"box": {"pes", "thompson", "epig", "random"}, "pool": {"pes", "random"}}


@pytest.mark.parametrize(
    ("criterion", "where"),
    [
        pytest.param(c, w, marks=[] if c in OF_EACH_KIND[w] else pytest.mark.nightly)
        for w in OF_EACH_KIND
        for c in [*criterion_names("moments", "predictions", "maximum"), "random"]
    ],
)
def test_every_criterion_can_be_asked_twice(criterion, where):
    given = criterion
    if criterion == "level":
        given, criterion = partial(pma.active.level, threshold=0.2), "level(threshold=0.2)"
    active = learner(criterion=given, **({"bounds": BOUNDS} if where == "box" else {"pool": GRID}))
    active.run(wave, n=2, progressbar=False)
    assert len(np.unique(active.X)) == 6
    assert is_inside(active.X)
    assert active.criterion_name == criterion


def test_a_single_observation_is_enough_to_start():
    active = learner(np.array([[0.5]]))
    active.run(wave, n=1, progressbar=False)
    assert is_inside(active.X)
    assert np.isfinite(active.optimum(4).f_mean)
    # Imagined answers do not count as equal observations.
    assert len(learner(np.array([[-2.0]]), lambda X: np.zeros(1), criterion="thompson").ask(2)) == 2


@pytest.mark.parametrize("minimize", [*nightly(False), True])
def test_rows_of_a_frame_are_asked_and_recommended(minimize):
    active = learner(FRAME.iloc[:5], yield_, pool=FRAME, minimize=minimize)
    x = active.ask(3)
    assert x.index.is_unique
    pd.testing.assert_frame_equal(x, FRAME.loc[x.index])
    assert not set(x.index) & set(FRAME.index[:5])
    active.tell(x, yield_(x))
    values = mean(active, FRAME.to_numpy())
    optimum = active.optimum(50)
    assert optimum.x.index[0] == FRAME.index[values.argmin() if minimize else values.argmax()]
    assert optimum.samples.input.to_numpy().tolist() == ["temperature", "time"]
    distance = np.abs(optimum.samples.x.to_numpy()[:, None] - FRAME.to_numpy()).max(-1)
    assert distance.min(1).max() < 1e-9


def several():
    kernels = ("SE", "RQ")
    return [pma.composite_gp(START, wave(START), kernel, x_scale=(-3, 6), y_scale=(0, 1)) for kernel in kernels]


@pytest.mark.parametrize(
    "made", [after_a_few, lambda: (active := learner(gpm=several()), active.optimum(20))], ids=["one", "several"]
)
def test_the_uncertainty_is_that_of_the_marginal_posterior(made):
    """Of one model and of the average of several."""
    active, optimum = made()
    there = pma.predict(active.fit, optimum.x)
    assert_allclose(optimum.f_mean, there.f_mean.item(), rtol=1e-12)
    assert_allclose(optimum.f_sd**2, there.f_variance.item(), rtol=1e-9)
    inside = [optimum.probability_within(radius) for radius in (0, 0.01, 0.1, 1, 6)]
    assert inside == sorted(inside)
    assert inside[-1] == optimum.probability_within([6.0]) == 1
    assert inside[3] == np.mean(np.abs(optimum.samples.x.to_numpy() - optimum.x) <= 1)


def test_the_optimum_of_a_pool_names_probable_rows():
    """Repeats of a row count as the first; of many inputs no table."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(np.repeat(rng.uniform(size=(6, 7)), 2, axis=0), index=[f"S{k}" for k in range(12)])
    y = X[0].to_numpy() + 0.1 * rng.normal(size=12)
    learner = pma.Learner(pma.ard_gp(X[:6], y[:6], bounds=[(0, 1)] * 7), "maximum", pool=X, random_seed=1)
    optimum = learner.optimum(40)
    p = optimum.row_probabilities()
    assert p.sum() == pytest.approx(1)
    assert not p[1::2].any()
    assert f"S{p.argmax()} {p.max():.0%}" in repr(optimum)
    assert len(repr(optimum).splitlines()) == 1
    asked = learner.ask()
    learner.forget(asked)
    with pytest.raises(ValueError, match=f"row 0, '{asked.index[0]}', is not"):
        learner.forget(asked)
    with pytest.raises(ValueError, match=r"row 0, \(0, 0, 0, 0, 0, …\), is not"):
        learner.forget(np.zeros((1, 7)))
    with pytest.raises(ValueError, match="a box or a space has no rows"):
        after_a_few()[1].row_probabilities()


@pytest.mark.parametrize("criterion", [*nightly("pes", "max_value_entropy"), "thompson"])
def test_equal_observations_are_refused_with_advice_and_nothing_is_lost(criterion):
    active, random = (learner(f=lambda X: np.zeros(len(X)), criterion=name) for name in (criterion, "random"))
    with pytest.raises(ValueError, match=r"all 4 observations are equal .* Measure until two differ"):
        active.ask()
    assert len(active.y) == 4
    # A point of one's own choice mends it, or one at random.
    active.tell([[2.6]], wave([[2.6]]))
    for one in (active, random):
        one.run(wave, n=1, progressbar=False)
        assert is_inside(one.X)


def test_a_kernel_without_second_derivatives_is_refused_in_a_box_only():
    """Before anything is measured."""
    gpm = pma.ard_gp(START, wave(START), kernel="Matern32")
    assert is_inside(learner(gpm=gpm, pool=GRID).ask())
    with pytest.raises(ValueError, match=r"[Mm]at[eé]rn"):
        learner(gpm=gpm)


@pytest.mark.parametrize(
    "priors", [*nightly(None), {"log_lengthscale": -1.0, "log_outputscale": 0.0, "log_noise": -3.0}]
)
def test_the_error_of_a_regret_is_its_scatter(priors):
    """Over seeds, with hyperparameters drawn and fixed."""
    pool = np.linspace(-1, 1, 101)[:, None]
    gpm = pma.ard_gp(pool[[5, 40, 80]], [0.2, -0.4, 0.5], priors=priors)
    active = pma.Learner(gpm, "maximum", pool=pool, random_seed=0)
    found = []
    for seed in range(12):
        active._current.run = replace(active._run, random_seed=seed)
        found.append(active.optimum(n_optima=60))
    regret, error = np.transpose([(one.regret, one.regret_error) for one in found])
    # Draws of the hyperparameters are the same for all seeds, so that they scatter less.
    assert regret.std() < 2 * error.mean()
    assert error.mean() < (2.5 if priors else 10) * regret.std()


@pytest.mark.nightly
def test_the_probability_of_a_regret_is_that_of_joint_draws():
    """Second route: draws of f on a grid, hyperparameters from the fit; far from the probability on either side."""
    active, _ = after_a_few()
    x = active.recommend()
    paths = pma.draw_paths(active.fit, n_paths=200, draws=50, bounds=BOUNDS, random_seed=5)
    grid = np.linspace(-3, 3, 400)[:, None]
    short = np.asarray(paths(grid)).max(1) - np.asarray(paths(x))[:, 0]
    assert active.stop(float(np.quantile(short, 0.5)), 0.9)
    assert not active.stop(float(np.quantile(short, 0.8)), 0.02)


def test_other_goals_stop_when_no_candidate_is_worth_its_price():
    gpm = pma.ard_gp(START, wave(START))
    active = Learner(gpm, "function", pool=GRID, random_seed=1)
    largest = float(pma.active.integrated_variance(active.fit, GRID, random_seed=0).max())
    assert not active.stop(0.9 * largest)
    assert active.stop(1.1 * largest)
    random = Learner(gpm, "function", criterion="random", pool=GRID)
    with pytest.raises(ValueError, match="no criterion to stop by"):
        random.stop(0.1)
    with pytest.raises(ValueError, match="random points have no criterion to stop by"):
        random.run(lambda x: pytest.fail("measured"), 1, progressbar=False, until=0.1)
    # Equal values never stop a run: they do not tell how much y varies.
    gpm.set_data(START, np.full(4, 7.0))
    for goal in ("function", "hyperparameters", "maximum"):
        assert not Learner(gpm, goal, pool=GRID, random_seed=1).stop(1e6)


def test_bad_thresholds_of_a_run_are_told_before_anything_is_measured():
    for until in ((0.5, 5), -1, np.nan):
        with pytest.raises(ValueError, match="epsilon must be"):
            learner().run(lambda x: pytest.fail("measured"), 1, progressbar=False, until=until)
