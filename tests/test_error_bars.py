"""Known error bars of single measurements."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor
import pytest
from scipy.integrate import quad
from scipy.stats import multivariate_normal, norm

import pymc_active as pma
from pymc_active.particles.informative import by_variance
from pymc_active.posterior.conditioned import ConditionedGP
from pymc_active.posterior.row_space import find_space
from pymc_active.support.data import Data

RNG = np.random.default_rng(0)
X = RNG.uniform(0, 10, (9, 2))
Y_SD = RNG.uniform(0.1, 2.0, 9)
Y = 20 + 5 * np.sin(X[:, 0]) + Y_SD * RNG.normal(size=9)
BOUNDS = [(0, 10), (0, 10)]
MODELS = {
    "ard": lambda **more: pma.ard_gp(X, Y, bounds=BOUNDS, **more),
    "embedding": lambda **more: pma.embedding_gp(X, Y, n_components=1, bounds=BOUNDS, **more),
    "composite": lambda **more: pma.composite_gp(X, Y, "LIN + SE[0] * RQ[1]", bounds=BOUNDS, **more),
    "linear mean": lambda **more: pma.ard_gp(X, Y, mean="linear", y_scale="standardize", x_scale="box", **more),
}


@pytest.fixture(scope="module", params=MODELS)
def gpm(request):
    return MODELS[request.param](y_sd=Y_SD)


def moved(gpm, n=1):
    return gpm.posterior().prior_scale()[0] + 0.3 * np.random.default_rng(1).normal(size=(n, gpm.n_parameters))


def covariance(gpm, theta):
    """K + noise of the PyMC model, with its learned noise alone."""
    posterior = gpm.posterior()
    values = gpm.constrain(theta[None])
    K = ConditionedGP(posterior, theta).covariance(posterior.X, posterior.X) * float(posterior.y_map.scale) ** 2
    return K + values["noise"][0] ** 2 * np.eye(len(gpm.y))


def test_variances_add_in_the_likelihood(gpm):
    posterior, theta = gpm.posterior(), moved(gpm)[0]
    mean, _ = posterior.prior_mean(theta, posterior.X)
    mean = posterior.y_map.shift + posterior.y_map.scale * mean
    expected = multivariate_normal(mean, covariance(gpm, theta) + np.diag(Y_SD**2)).logpdf(Y)
    np.testing.assert_allclose(posterior.likelihood_values(theta[None]), expected, rtol=1e-10)


SOME = [pytest.param(name, marks=[] if name == "linear mean" else pytest.mark.nightly) for name in MODELS]


@pytest.mark.parametrize("gpm", SOME, indirect=True)
def test_both_routes_agree(gpm):
    arrays, graphs = gpm.posterior(), gpm.posterior({"mode": "FAST_COMPILE"})
    thetas, X_new = moved(gpm, 2), RNG.uniform(0, 10, (4, 2))
    theta = thetas[0]
    for extra_noise in (0.0, 0.3):
        one, other = (
            p.log_likelihoods(thetas, extra_noise * s) for p, s in ((arrays, 1 / arrays.y_map.scale**2), (graphs, 1))
        )
        np.testing.assert_allclose(one.value, other.value, rtol=1e-10)
        np.testing.assert_allclose(one.gradient, other.gradient, rtol=1e-9, atol=1e-9)
        alone = arrays._one_by_one(thetas, extra_noise / arrays.y_map.scale**2)
        np.testing.assert_allclose(alone.value, other.value, rtol=1e-10)
        np.testing.assert_allclose(alone.gradient, other.gradient, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(alone.in_noise, one.in_noise, rtol=1e-9)
    states = arrays.state(theta), graphs.state(theta)
    moments = [p.moments(s, X_new, gradient=True) for p, s in zip((arrays, graphs), states, strict=True)]
    for one, other in zip(*moments, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(moments[0].noise_variance, gpm.constrain(thetas)["noise"][0] ** 2)


@pytest.mark.nightly
def test_both_routes_have_the_same_curvature(gpm):
    arrays, graphs = (
        p.hessian(p.state(moved(gpm)[0])) for p in (gpm.posterior(), gpm.posterior({"mode": "FAST_COMPILE"}))
    )
    np.testing.assert_allclose(arrays, graphs, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("gpm", SOME, indirect=True)
def test_pymc_has_the_same_density_and_predictions(gpm):
    theta, X_new = moved(gpm)[0], RNG.uniform(0, 10, (3, 2))
    logp = gpm.model.compile_logp(mode="FAST_COMPILE")(gpm.unflatten(theta))
    assert logp == pytest.approx(gpm.posterior().value(theta), rel=1e-10)
    values = {name: value[0] for name, value in gpm.constrain(theta[None]).items()}
    with gpm.model, pytensor.config.change_flags(mode="FAST_COMPILE"):
        mean, variance = gpm.gp.predict(X_new, point=values, diag=True, pred_noise=True, jitter=0)
    predicted = pma.predict(gpm.unflatten(theta), X_new, model=gpm)
    np.testing.assert_allclose(predicted.f_mean, mean, rtol=1e-8)
    np.testing.assert_allclose(predicted.y_variance, variance, rtol=1e-7)


def test_in_a_row_space():
    X = RNG.normal(size=(6, 20))
    gpm = pma.embedding_gp(X, Y[:6], n_components=1, y_sd=Y_SD[:6])
    theta = moved(gpm)[0]
    space = find_space(gpm.posterior(), gpm.embedding_slice, theta)
    assert space.posterior is not gpm.posterior()
    inside = space.posterior.likelihood_values(space.shrink(theta)[None])
    np.testing.assert_allclose(inside, gpm.posterior().likelihood_values(theta[None]), rtol=1e-10)


def test_the_evidence_is_that_of_quadrature():
    priors = {"log_lengthscale": 0.5, "noise": 0.1, "log_outputscale": pm.Normal.dist(0, 1)}
    x, y, y_sd = X[:, :1] / 5, (Y - 20) / 5, Y_SD / 5
    K = np.exp(-0.5 * np.square(x - x.T) / np.exp(1.0))

    def joint(t):
        G = np.exp(2 * t) * K + np.diag(0.1**2 + y_sd**2)
        return np.exp(norm.logpdf(t) + multivariate_normal(cov=G).logpdf(y) + 20)

    evidence, _ = quad(joint, -6, 6)
    fit = pma.fit(pma.ard_gp(x, y, priors=priors, y_sd=y_sd), method="laplace", random_seed=0, progressbar=False)
    found = fit.sampled_evidence(4000, 0)
    assert abs(found.value - np.log(evidence) + 20) < 5 * found.error


def test_more_rows_and_other_data():
    gpm = MODELS["ard"]()
    assert gpm.y_sd is None
    before = gpm.model
    gpm.set_data(X[:8], Y[:8], 0.5)
    assert gpm.y_sd.tolist() == [0.5] * 8
    assert "y_sd" in gpm.model.named_vars
    assert "y_sd" not in before.named_vars
    theta = moved(gpm)[0]
    same = pma.ard_gp(X, Y, bounds=BOUNDS)
    same.set_data(X[:8], Y[:8], [0.5] * 8)
    assert same.posterior().value(theta) == gpm.posterior().value(theta)
    gpm.set_data(X, Y)
    assert not gpm.y_sd.any()
    assert gpm.posterior().value(theta) == MODELS["ard"]().posterior().value(theta)


def test_a_fit_is_updated_and_conditioned_with_them():
    gpm = MODELS["ard"]()
    gpm.set_data(X[:8], Y[:8])
    fit = pma.fit(gpm, random_seed=0, progressbar=False)
    updated = fit.update(X[8:], Y[8:], y_sd=3.0, random_seed=0)
    assert updated.y_sd.tolist() == [0.0] * 8 + [3.0]
    theta = fit.center
    given = fit.given(X, Y, updated.y_sd).posterior.value(theta)
    assert given == pytest.approx(MODELS["ard"](y_sd=updated.y_sd).posterior().value(theta), rel=1e-12)
    assert gpm.y_sd is None or not gpm.y_sd.any()


@pytest.mark.parametrize("wrong", [[-1.0] * 9, [np.nan] * 9, [np.inf] * 9, [1.0] * 8, np.ones((9, 2)), -0.1])
def test_wrong_error_bars_are_refused(wrong):
    gpm = MODELS["ard"]()
    learner = pma.Learner(gpm, bounds=BOUNDS)
    for act in (lambda: MODELS["ard"](y_sd=wrong), lambda: gpm.set_data(X, Y, wrong)):
        with pytest.raises(ValueError, match="y_sd"):
            act()
    with pytest.raises(ValueError, match="y_sd"):
        learner.tell(X, Y + 1, y_sd=wrong)
    assert gpm.y_sd is None
    with pytest.raises(TypeError, match="y_sd must hold numbers"):
        MODELS["ard"](y_sd="high")


def test_a_model_of_your_own_has_a_column_of_them():
    with pm.Model() as model:
        gp = pm.gp.Marginal(cov_func=pm.gp.cov.ExpQuad(2, ls=pm.LogNormal("ls", 0, 1)))
        gp.marginal_likelihood("y", X=pm.Data("X", X), y=pm.Data("y_data", Y), sigma=0.1)
    gpm = pma.from_marginal(gp, model=model)
    with pytest.raises(ValueError, match="ErrorBars"):
        gpm.set_data(X, Y, Y_SD)
    np.testing.assert_array_equal(gpm.y, Y)


@pytest.mark.nightly
def test_models_that_only_graphs_evaluate():
    priors = {"log_noise": pm.StudentT.dist(nu=5, mu=np.log(0.1), sigma=1)}
    gpm, other = (MODELS["ard"](priors=priors, **more) for more in ({"y_sd": Y_SD}, {}))
    theta = np.zeros(gpm.n_parameters)
    other.set_data(X, Y, Y_SD)
    assert gpm.posterior().value(theta) == pytest.approx(other.posterior().value(theta), rel=1e-12)
    gp = ConditionedGP(gpm.posterior(), theta)
    np.testing.assert_allclose(gp.data_noise, gp.noise_variance(gp.X) + Y_SD**2)
    rest = gpm.posterior().subset(np.arange(5))
    expected = MODELS["ard"](priors=priors, y_sd=Y_SD)
    expected.set_data(X[:5], Y[:5], Y_SD[:5])
    assert rest.value(theta) == pytest.approx(expected.posterior().value(theta), rel=1e-12)


def test_the_model_of_the_user_stays_his():
    with pm.Model() as model:
        gpm = pma.ard_gp(X, Y)
    with pytest.raises(ValueError, match="no place for y_sd"):
        gpm.set_data(X, Y, Y_SD)
    assert gpm.model is model


def test_learner_saves_and_resumes_them(tmp_path):
    learner = pma.Learner(
        MODELS["ard"](), pool=[*X[:3], [1.0, 2.0], [3.0, 4.0], [5.0, 5.0], [6.0, 2.0], [8.0, 7.0]], random_seed=0
    )
    learner.tell([[1.0, 2.0], [3.0, 4.0]], [20.0, np.nan], y_sd=[0.5, 0.7], failed=[False, True])
    learner.tell([5.0, 5.0], 21.0)
    assert learner.gpm.y_sd.tolist() == [0.0] * 9 + [0.5, 0.0]
    _ = learner.fit
    learner.save(tmp_path / "run.nc")
    loaded = pma.Learner.load(tmp_path / "run.nc")
    np.testing.assert_array_equal(loaded.gpm.y_sd, learner.gpm.y_sd)
    np.testing.assert_array_equal(loaded.ask(), learner.ask())
    learner.correct(9, np.nan)
    assert learner.gpm.y_sd.tolist() == [0.0] * 10


def test_first_model_of_a_learner_has_them():
    learner = pma.Learner(None, bounds=BOUNDS, random_seed=0)
    learner.tell(X[:4], Y[:4], y_sd=Y_SD[:4])
    np.testing.assert_array_equal(learner.gpm.y_sd, Y_SD[:4])
    learner = pma.Learner(lambda X, y: pma.ard_gp(X, y, bounds=BOUNDS), bounds=BOUNDS, random_seed=0)
    learner.tell(X[:4], Y[:4], y_sd=Y_SD[:4])
    np.testing.assert_array_equal(learner.gpm.y_sd, Y_SD[:4])


def test_error_bars_are_told_and_not_made():
    learner = pma.Learner(lambda X, y: pma.ard_gp(X, y, bounds=BOUNDS, y_sd=0.3), bounds=BOUNDS, random_seed=0)
    with pytest.raises(ValueError, match=r"y_sd=\.\.\."):
        learner.tell(X[:4], Y[:4])
    learner.tell(X[:4], Y[:4], y_sd=0.3)
    assert learner.gpm.y_sd.tolist() == [0.3] * 4


def test_other_kernels_keep_them():
    gpm = MODELS["composite"](y_sd=Y_SD).with_expression("SE")
    np.testing.assert_array_equal(gpm.y_sd, Y_SD)


def test_draws_for_arviz_have_them():
    fit = pma.fit(MODELS["ard"](y_sd=Y_SD), random_seed=0, progressbar=False)
    tree = fit.to_datatree(draws=50, random_seed=0)
    np.testing.assert_array_equal(tree["constant_data"].y_sd, Y_SD)
    assert tree["constant_data"].y_sd.dims == ("obs",)
    later = pma.fit(MODELS["ard"](), random_seed=0, progressbar=False).given(X, Y, Y_SD)
    assert later.to_datatree(draws=5, random_seed=0)["constant_data"].y_sd.dims == ("obs",)
    assert tree["log_likelihood"].y.shape == (1, 50, 9)


def test_precise_rows_are_chosen_first():
    gp = ConditionedGP(pma.ard_gp(X[:2], Y[:2]).posterior(), np.zeros(4))
    points = np.array([[3.0, 3.0], [3.0, 3.0], [9.0, 9.0]])
    chosen = by_variance(gp, points, 2, np.array([100.0, 100.0, 0.0]))
    assert 2 in chosen


def test_data_as_a_value():
    data = Data(X, Y)
    assert data.equals(Data(X, Y, np.zeros(9)))
    assert not data.equals(Data(X, Y, Y_SD))
    assert data.joined(X, Y).y_sd is None
    assert data.joined(X[:1], Y[:1], Y_SD[:1]).y_sd.tolist() == [0.0] * 9 + [Y_SD[0]]
