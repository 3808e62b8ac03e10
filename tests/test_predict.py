"""``predict``: MAP, BBQ, MGP, mixtures over modes and draws, labels, and the places where V vanishes."""

from importlib import import_module

import numpy as np
import pandas as pd
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
import xarray as xr
from differences import central_difference
from nightly import nightly
from numpy.testing import assert_allclose, assert_array_equal
from users import users_gp

import pymc_active as pma
from pymc_active.models.traces import trace_thetas
from pymc_active.support.tables import blocks

pytestmark = pytest.mark.slow


def data(n=12, D=2, seed=1):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n, D))
    return X, np.sin(3 * X[:, 0]) + 0.5 * X[:, -1] + 0.1 * rng.normal(size=n)


X, y = data()
NEW, _ = data(9, seed=2)


def quick_fit(gpm, **keywords):
    options = {"n_restarts": 3, "population": 0, "random_seed": 1, "progressbar": False}
    return pma.fit_laplace(gpm, **{**options, **keywords})


@pytest.fixture(scope="module")
def ard_fit():
    return quick_fit(pma.ard_gp(20 + 4 * X, 100 * y, mean="linear", x_scale=(20, 4), y_scale=(0, 100)))


@pytest.fixture(scope="module")
def hand_fit():
    """A user's model with transforms."""

    def cov():
        return pm.HalfNormal("eta", 1) ** 2 * pm.gp.cov.Matern52(2, ls=pm.LogNormal("lengthscale", 0, 1, shape=2))

    sigma, mean = lambda: pm.Uniform("sigma", 0.01, 1), lambda: pm.gp.mean.Constant(pm.Normal("c", 0, 1))
    return quick_fit(users_gp(X, y, cov, sigma, mean))


@pytest.fixture(scope="module", params=["builder", "by hand"])
def fit(request):
    return request.getfixturevalue("ard_fit" if request.param == "builder" else "hand_fit")


def points(fit):
    """New points in the units of the fit's model."""
    return 20 + 4 * NEW if fit.gpm.description.startswith("ard") else NEW


# One mode.


@pytest.mark.parametrize("noisy", [False, True])
def test_map_is_the_prediction_of_pymc(fit, noisy):
    gpm = fit.gpm
    with gpm.model, pytensor.config.change_flags(mode="FAST_COMPILE"):
        mean, variance = gpm.gp.predict(points(fit), point=fit.constrained_point, diag=True, pred_noise=noisy, jitter=0)
    ours = pma.predict(fit, points(fit), method="map")
    assert_allclose(ours.f_mean, mean, rtol=1e-8)
    assert_allclose(ours.y_variance if noisy else ours.f_variance, variance, rtol=1e-7)


def test_bbq_and_mgp_are_their_formulas(fit):
    """With derivatives by differences of the MAP predictions at neighbouring points."""
    gpm, X_new = fit.gpm, points(fit)
    posterior = gpm.posterior()

    def moments(theta):
        m = posterior.moments(posterior.state(theta), X_new)
        return np.stack([m.mean, m.variance])

    mean, V = moments(fit.theta)
    dm, dV = central_difference(moments, fit.theta)
    from_mean = np.einsum("ma,ab,mb->m", dm, fit.covariance, dm)
    from_variance = np.einsum("ma,ab,mb->m", dV, fit.covariance, dV)
    noise = posterior.moments(posterior.state(fit.theta), X_new).noise_variance
    expected = {
        "map": V,
        "bbq": V + from_mean,
        "mgp": 4 / 3 * V + from_mean + from_variance / (3 * V),
    }
    for method, f_variance in expected.items():
        got = pma.predict(fit, X_new, method=method)
        assert_allclose(got.f_mean, mean, rtol=1e-10)
        # Differences are good to about 1e-8.
        assert_allclose(got.f_variance, f_variance, rtol=1e-6, err_msg=method)
        assert_allclose(got.y_variance - got.f_variance, noise, rtol=1e-6)
        assert got.attrs["method"] == method


def test_mgp_is_the_default(ard_fit):
    xr.testing.assert_identical(pma.predict(ard_fit, NEW), pma.predict(ard_fit, NEW, method="mgp"))


def test_new_points_of_a_graph_may_be_symbolic(ard_fit):
    gpm, X_new = ard_fit.gpm, pt.matrix("X_new")
    mean = pma.graphs.predictive(gpm, X_new).mean
    function = pm.compile([*gpm.model.value_vars, X_new], mean, mode="FAST_COMPILE")
    values = function(**ard_fit.point, X_new=points(ard_fit)[:4])
    assert_allclose(values, pma.predict(ard_fit, points(ard_fit)[:4]).f_mean, rtol=1e-10)


# Labels.


def test_rows_of_a_frame_and_of_a_data_array_keep_their_labels(ard_fit):
    frame = pd.DataFrame(points(ard_fit), index=[f"batch{i}" for i in range(len(NEW))])
    got = pma.predict(ard_fit, frame)
    assert list(got.point.to_numpy()) == list(frame.index)
    assert_array_equal(got.f_mean, pma.predict(ard_fit, points(ard_fit)).f_mean)
    array = xr.DataArray(points(ard_fit), dims=("run", "channel"), coords={"run": 10 + np.arange(len(NEW))})
    assert_array_equal(pma.predict(ard_fit, array).point, 10 + np.arange(len(NEW)))
    unlabelled = array.drop_vars("run")
    assert_array_equal(pma.predict(ard_fit, unlabelled).point, np.arange(len(NEW)))


# Where the variance vanishes.


def test_no_variance_at_the_root_of_a_linear_kernel():
    """LIN0 knows that f(0) = 0: V and all its derivatives vanish there."""
    x = np.linspace(0.2, 1, 6)[:, None]
    rng = np.random.default_rng(1)
    gpm = pma.composite_gp(x, 2 * x[:, 0] + 0.1 * rng.normal(size=6), "LIN0", mean="zero")
    got = pma.predict(quick_fit(gpm), [[0.0], [0.5]])
    assert np.isfinite(got.to_array()).all()
    assert 0 <= got.f_variance[0] < 1e-8
    assert got.f_variance[1] > 1e-6
    score = pma.active.bald(quick_fit(gpm), [[0.0], [0.5]], target="y")
    assert abs(score[0]) < 1e-6


def test_predictions_at_noise_free_data_are_finite():
    """Where V is rounding, MGP's last term would be 0/0."""
    x = np.linspace(-1, 1, 7)[:, None]
    gpm = pma.ard_gp(x, np.sin(3 * x[:, 0]), priors={"log_noise": np.log(1e-6)})
    result = quick_fit(gpm)
    for method in ("map", "bbq", "mgp"):
        got = pma.predict(result, x, method=method)
        assert np.isfinite(got.to_array()).all()
        assert (got.f_variance > 0).all()
        assert_allclose(got.f_mean, np.sin(3 * x[:, 0]), atol=1e-4)
        # The guard keeps V at 1e-10 of the prior; nothing blows it up by more than a factor of thousands.
        assert (got.f_variance < 1e-6).all()
    for target in ("y", "f"):
        assert np.isfinite(pma.active.bald(result, x, target=target)).all()


# Blocks.


@pytest.mark.parametrize("method", ["map", "mgp"])
def test_the_size_of_blocks_changes_nothing(fit, method, monkeypatch):
    X_new = np.tile(points(fit), (30, 1)) + np.linspace(0, 0.1, 30 * len(NEW))[:, None]
    whole = pma.predict(fit, X_new, method=method)
    # The size of a block is private to the module.
    monkeypatch.setattr(import_module("pymc_active.support.tables"), "_BLOCK", 1)
    assert len(list(blocks(len(X_new), 10))) == 5
    in_blocks = pma.predict(fit, X_new, method=method)
    # BLAS sums in another order.
    xr.testing.assert_allclose(whole, in_blocks, rtol=1e-9)


# Mixtures.


# By one mode alone, as by its alias, predictions between the points depend on which of them it is.
@pytest.mark.filterwarnings("ignore:points in equal steps")
def test_modes_are_mixed_by_their_evidence():
    x = np.linspace(0, 1, 12)[:, None]
    gpm = pma.composite_gp(x, np.sin(25 * x[:, 0]), "PER", priors={"log_noise": -2.0})
    result = quick_fit(gpm, n_restarts=16)
    assert len(result.modes) > 1
    X_new = [[0.13], [0.5], [1.2]]
    parts = [pma.predict(pma.fit_laplace(gpm, point=mode.point, optimize=False), X_new) for mode in result.modes]
    weights = np.array([mode.weight for mode in result.modes])
    means = np.stack([part.f_mean for part in parts])
    mean = weights @ means
    got = pma.predict(result, X_new, method="modes")
    assert_allclose(got.f_mean, mean, rtol=1e-10)
    f_variance = sum(w * (part.f_variance + (part.f_mean - mean) ** 2) for w, part in zip(weights, parts, strict=True))
    assert_allclose(got.f_variance, f_variance, rtol=1e-9)
    noise = sum(w * (p.y_variance - p.f_variance) for w, p in zip(weights, parts, strict=True))
    assert_allclose(got.y_variance, f_variance + noise, rtol=1e-9)


def several_modes():
    """Points in equal steps cannot tell the period from its aliases, of which one has the highest density."""
    x = np.linspace(0, 10, 30)
    return pma.composite_gp(x, np.sin(x) + 0.01 * np.random.default_rng(0).normal(size=30), "PER", bounds=[(0, 10)])


@pytest.mark.parametrize("method", ["mgp", *nightly("map", "bbq")])
def test_the_mode_of_the_largest_evidence_stands_for_the_posterior(method):
    gpm = several_modes()
    fit = quick_fit(gpm, n_restarts=12)
    evidences = [mode.log_evidence for mode in fit.modes]
    heaviest = fit.modes[np.argmax(evidences)]
    assert heaviest is not fit.modes[0]
    assert fit.log_evidence == max(evidences)
    alone = pma.fit_laplace(gpm, point=heaviest.point, optimize=False)
    X_new = [[0.3], [5.4]]
    xr.testing.assert_allclose(pma.predict(fit, X_new, method=method), pma.predict(alone, X_new, method=method))


@pytest.mark.filterwarnings("always")
@pytest.mark.parametrize("make", [lambda: pma.ard_gp(X, y), several_modes])
def test_a_mode_that_has_little_of_the_evidence_is_warned_of(make, recwarn):
    gpm = make()
    fit = quick_fit(gpm, n_restarts=12)
    is_light = max(mode.weight for mode in fit.modes) < 0.8
    assert is_light == any("heaviest of" in str(w.message) for w in recwarn)
    assert is_light == any("heaviest of" in problem for problem in fit.diagnostics["warnings"])
    drawn = pma.fit(gpm, random_seed=1, progressbar=False)
    recwarn.clear()
    pma.predict(drawn, [[0.3] * gpm.X.shape[1]])
    assert not any("heaviest of" in str(w.message) for w in recwarn)
    pma.predict(drawn, [[0.3] * gpm.X.shape[1]], method="mgp")
    is_light = max(mode.weight for mode in pma.find_modes(drawn).modes) < 0.8
    assert is_light == any("heaviest of" in str(w.message) for w in recwarn)


def test_a_trace_is_an_exact_mixture(fit):
    """Every draw in turn, through the public expansion at a point; transforms included."""
    gpm, X_new = fit.gpm, points(fit)
    trace = fit.to_datatree(draws=8, random_seed=3)
    thetas = fit.draw(8, 3)
    # Constraining and unconstraining brings the draws back.
    assert_allclose(trace_thetas(gpm, trace), thetas, rtol=0, atol=1e-10)
    posterior = gpm.posterior()
    parts = [posterior.moments(posterior.state(theta), X_new) for theta in thetas]
    mean = np.mean([p.mean for p in parts], axis=0)
    variance = np.mean([p.variance for p in parts], axis=0)
    variance += np.var([p.mean for p in parts], axis=0)
    got = pma.predict(trace, X_new, model=gpm)
    assert_allclose(got.f_mean, mean, rtol=1e-9)
    assert_allclose(got.f_variance, variance, rtol=1e-9)
    noise = np.mean([p.noise_variance for p in parts], axis=0)
    assert_allclose(got.y_variance, variance + noise, rtol=1e-9)
    assert got.attrs["method"] == "trace"


def test_chains_of_a_trace_follow_one_another(ard_fit):
    draws = ard_fit.to_datatree(draws=6, random_seed=3)["posterior"].to_dataset()
    two = xr.concat(
        [draws.isel(draw=slice(0, 3)), draws.isel(draw=slice(3, 6)).assign_coords(draw=range(3))],
        dim="chain",
    ).assign_coords(chain=[0, 1])
    trace = xr.DataTree.from_dict({"posterior": two})
    assert_array_equal(trace_thetas(ard_fit.gpm, trace), ard_fit.draw(6, 3))
    # Whatever the order of the dimensions.
    turned = xr.DataTree.from_dict({"posterior": two.transpose("input", "draw", "chain")})
    assert_array_equal(trace_thetas(ard_fit.gpm, turned), ard_fit.draw(6, 3))


# Errors.


def test_a_trace_of_another_model_is_refused(ard_fit):
    trace = ard_fit.to_datatree(draws=2, random_seed=1)
    other = pma.embedding_gp(X, y, n_components=1)
    with pytest.raises(ValueError, match="was not drawn from this model: it lacks R"):
        pma.predict(trace, NEW, model=other)
    with pytest.raises(ValueError, match=r"no group 'posterior'; it has \['fit'\]"):
        pma.predict(xr.DataTree.from_dict({"fit": trace["fit"].to_dataset()}), NEW, model=other)
    with pytest.raises(ValueError, match="it has 4 parameters instead of 3"):
        pma.predict(trace, NEW[:, :1], model=pma.ard_gp(X[:, :1], y))
