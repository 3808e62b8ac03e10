"""Criteria and designs."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import ndtri
from scipy.stats import norm, poisson, rankdata

import pymc_active as pma
from pymc_active.active import bald, latin_hypercube, random_design, uncertainty
from pymc_active.predictions.mixtures import mixture


@pytest.fixture(scope="module")
def fit():
    rng = np.random.default_rng(1)
    X = rng.uniform(-1, 1, size=(12, 2))
    y = np.sin(3 * X[:, 0]) + 0.2 * rng.normal(size=12)
    gpm = pma.ard_gp(X, 50 * y + 10, mean="constant", y_scale=(10, 50))
    return pma.fit_laplace(gpm, n_restarts=3, population=0, random_seed=1, progressbar=False)


@pytest.fixture(scope="module")
def pool():
    return np.random.default_rng(2).uniform(-2, 2, size=(300, 2))


# Criteria.


@pytest.mark.parametrize("method", ["mgp", "bbq"])
def test_bald_is_half_the_log_ratio_of_variances(fit, pool, method):
    plug_in = pma.predict(fit, pool, method="map")
    marginal = pma.predict(fit, pool, method=method)
    for target, name in (("f", "f_variance"), ("y", "y_variance")):
        expected = 0.5 * np.log(marginal[name] / plug_in[name])
        assert_allclose(bald(fit, pool, target=target, method=method), expected, atol=1e-12)


def test_bald_of_an_observation_is_the_default(fit, pool):
    xr.testing.assert_identical(bald(fit, pool), bald(fit, pool, target="y", method="mgp"))


@pytest.mark.parametrize("method", ["map", "bbq", "mgp"])
def test_uncertainty_is_the_latent_sd_in_units_of_y(fit, pool, method):
    score = uncertainty(fit, pool, method=method)
    expected = np.sqrt(pma.predict(fit, pool, method=method).f_variance)
    assert_allclose(score, expected, rtol=1e-12)
    assert score.attrs["units"] == "units of y"


def test_scores_are_named_labelled_and_have_units(fit, pool):
    frame = pd.DataFrame(pool, index=[f"c{i}" for i in range(len(pool))])
    score = bald(fit, frame)
    assert score.dims == ("point",)
    assert score.attrs["units"] == "nats"
    assert score.name == "bald"
    assert list(score.point.to_numpy()) == list(frame.index)
    assert_array_equal(score, bald(fit, pool))


def test_a_dask_pool_of_the_wrong_width_is_refused(fit, pool):
    dask_array = pytest.importorskip("dask.array", reason="only the dask extra brings it")
    with pytest.raises(ValueError, match=r"X_pool must have shape \(m, 2\); got \(300, 1\)"):
        bald(fit, dask_array.from_array(pool[:, :1]))


# Designs.

BOUNDS = [(0.0, 1.0), (-5.0, 10.0), (100.0, 101.0)]


@pytest.mark.parametrize("design", [random_design, latin_hypercube])
def test_designs_fill_their_bounds(design):
    points = design(BOUNDS, 400, random_seed=1)
    low, high = np.array(BOUNDS).T
    assert points.shape == (400, 3)
    assert (points >= low).all()
    assert (points <= high).all()
    # 400 uniform points leave a gap of 3 % at an end with probability 0.97^400 = 5e-6.
    assert (points.min(0) < low + 0.03 * (high - low)).all()
    assert (points.max(0) > high - 0.03 * (high - low)).all()


@pytest.mark.parametrize("design", [random_design, latin_hypercube])
def test_designs_are_reproducible(design):
    assert_array_equal(design(BOUNDS, 5, random_seed=1), design(BOUNDS, 5, random_seed=1))
    assert not np.array_equal(design(BOUNDS, 5, random_seed=1), design(BOUNDS, 5, random_seed=2))
    generator = np.random.default_rng(1)
    assert not np.array_equal(design(BOUNDS, 5, generator), design(BOUNDS, 5, generator))


def test_a_latin_hypercube_has_one_point_in_each_interval():
    low, high = np.array(BOUNDS).T
    cells = np.floor(20 * (latin_hypercube(BOUNDS, 20, random_seed=3) - low) / (high - low))
    assert_array_equal(np.sort(cells, axis=0), np.tile(np.arange(20.0)[:, None], 3))
    # Independently by input.
    assert not np.array_equal(cells[:, 0], cells[:, 1])


def test_rows_of_a_pool_are_drawn_without_repetition_and_with_their_labels():
    pool = np.arange(20.0).reshape(10, 2)
    drawn = random_design(pool, 10, random_seed=1)
    assert_array_equal(np.sort(drawn[:, 0]), pool[:, 0])
    assert not np.array_equal(drawn, pool)
    frame = pd.DataFrame({"a": np.arange(5.0), "b": 2.0}, index=list("vwxyz"))
    drawn = random_design(frame, 3, random_seed=1)
    assert isinstance(drawn, pd.DataFrame)
    pd.testing.assert_frame_equal(drawn, frame.loc[drawn.index])
    assert drawn.index.is_unique
    with pytest.raises(ValueError, match="the pool has 3 points; cannot draw 4"):
        random_design(np.zeros((3, 2)), 4)


@pytest.mark.parametrize("likelihood", ["normal", "poisson"])
def test_information_about_a_hyperparameter_is_that_of_pairs_of_draws(likelihood):
    """Outcomes and virtual ones, drawn together: the mean log of how much the latter change densities of the former."""
    rng = np.random.default_rng(0)
    X, at = rng.uniform(-1, 1, (10, 2)), np.array([[0.9, 0.1], [-0.4, 0.5]])
    y = np.sin(4 * X[:, 0]) + 0.2 * rng.normal(size=10)
    gpm = pma.ard_gp(X, y if likelihood == "normal" else np.round(np.exp(2 + y)), likelihood=likelihood)
    fit = pma.fit(gpm, random_seed=1, progressbar=False)
    some = fit.ensemble if likelihood == "normal" else fit.ensemble.first(96)
    names, S = ["lengthscale"], len(some)
    p, values = mixture(some, at), gpm.constrain(some.thetas)["lengthscale"]
    scores = ndtri((rankdata(values, axis=0) - 0.5) / S)
    who, n = rng.integers(S, size=20_000), 20_000
    v = scores[who] + 0.25 * rng.normal(size=(n, 2))
    # From a virtual outcome to the members' weights given it.
    given = np.exp(-8 * np.square(v[:, None] - scores).sum(2))
    given /= given.sum(1, keepdims=True)
    for m in range(2):
        if likelihood == "normal":
            sd = np.sqrt(p.variances + p.noises)[:, m]
            drawn = p.means[who, m] + sd[who] * rng.normal(size=n)
            density = norm.pdf(drawn[:, None], p.means[:, m], sd)
        else:
            f = p.means[who, m] + np.sqrt(p.variances[who, m]) * rng.normal(size=n)
            drawn = rng.poisson(np.exp(f)).astype(float)
            # Of each count there may be, by a fine sum over f.
            fine = p.means[:, m] + np.sqrt(p.variances[:, m]) * ndtri((np.arange(400) + 0.5) / 400)[:, None]
            counts, which = np.unique(drawn, return_inverse=True)
            density = np.stack([poisson.pmf(k, np.exp(fine)).mean(0) for k in counts])[which]
        gain = np.log((given * density).sum(1) / density.mean(1))
        score = float(bald(fit, at, targets=names)[m])
        # Other virtual outcomes, one of each member.
        assert score == pytest.approx(gain.mean(), abs=0.02 + 4 * gain.std() / np.sqrt(n))
    about_all = bald(fit, at)
    assert (bald(fit, at, targets=names) < about_all).all()
    assert (bald(fit, at, targets=[*names, "outputscale"]) > bald(fit, at, targets=names) - 0.02).all()


def test_targets_of_a_gp_in_a_run(tmp_path):
    X, pool = np.random.default_rng(1).uniform(-1, 1, (8, 2)), np.random.default_rng(2).uniform(-1, 1, (30, 2))
    gpm = pma.ard_gp(X, np.sin(3 * X[:, 0]), bounds=[(-1, 1)] * 2)
    learner = pma.Learner(gpm, "hyperparameters", pool=pool, targets="noise", random_seed=1)
    x = learner.ask()
    assert x[0].tolist() == pool[int(bald(learner.fit, pool, targets=["noise"]).argmax("point"))].tolist()
    learner.save(path := tmp_path / "run.nc")
    assert_array_equal(pma.Learner.load(path).ask(), learner.ask())
    with pytest.raises(ValueError, match="targets= are of one model, over draws of its posterior"):
        bald(learner.fit, pool, targets=["noise"], method="mgp")
    with pytest.raises(ValueError, match="targets must name variables of the model"):
        bald(learner.fit, pool, targets=["EC50"])
