"""Models of users with kernels that arrays know: the same numbers as by PyMC's graphs."""

import cloudpickle
import numpy as np
import pymc as pm
import pytest
from nightly import nightly
from numpy.testing import assert_allclose
from users import GrowingNoise, users_gp

import pymc_active as pma
from pymc_active.posterior.array import KernelPosterior
from pymc_active.posterior.conditioned import ConditionedGP
from pymc_active.posterior.recognised import RecognisedPosterior

cov = pm.gp.cov
RNG = np.random.default_rng(3)
X = RNG.uniform(0, 2, (12, 2))
Y = np.sin(3 * X[:, 0]) + X[:, 1]
X_NEW = RNG.uniform(0, 2, (5, 2))


def length(name="ls", **keywords):
    return pm.Gamma(name, 3, 3, **keywords)


def scale(name="eta"):
    return pm.HalfNormal(name, 2) ** 2


KERNELS = {
    "ARD": lambda: scale() * cov.Matern52(2, ls=length(shape=2)),
    "isotropic": lambda: cov.Matern32(2, ls=length()) * scale(),
    "one input": lambda: scale() * cov.Matern12(2, ls=length(), active_dims=[1]),
    "ls_inv": lambda: 2.0 * cov.ExpQuad(2, ls_inv=length(shape=2)),
    "sum and constants": lambda: scale() * (
        cov.ExpQuad(2, ls=length(shape=2)) + cov.Linear(2, c=pm.Normal("c", shape=2)) + cov.Constant(0.3)
    ) + 0.5,
    "locally periodic": lambda: scale()
    * cov.Periodic(2, period=pm.LogNormal("T", 0, 0.3), ls=length(), active_dims=[0])
    * cov.RatQuad(2, alpha=pm.Gamma("alpha", 3, 2), ls=length("ls_1"), active_dims=[0]),
    "product of two inputs": lambda: scale() * cov.ExpQuad(2, ls=length(), active_dims=[0])
    * cov.Matern52(2, ls=length("ls_1"), active_dims=[1]),
}  # fmt: skip
MEANS = {
    "zero": pm.gp.mean.Zero,
    "constant": lambda: pm.gp.mean.Constant(pm.Normal("m")),
    "linear": lambda: pm.gp.mean.Linear(pm.Normal("slopes", shape=2), pm.Normal("m")),
}


def model(kernel="ARD", mean="zero", sigma=lambda: pm.HalfNormal("sigma", 1), x=X, y=Y):
    return users_gp(x, y, KERNELS[kernel], sigma, MEANS[mean])


def both(gpm):
    """By arrays, and by graphs, which are compiled as one likes."""
    found, graph = gpm.posterior(), gpm.posterior({"mode": "FAST_COMPILE"})
    assert isinstance(found, RecognisedPosterior)
    assert not isinstance(graph, RecognisedPosterior)
    return found, graph


def thetas(posterior, n=4):
    return np.random.default_rng(1).normal(size=(n, posterior.n_parameters))


def cases(*kept):
    """Kernels with means, of which make test takes those of ``kept``."""
    every = [*((kernel, "zero") for kernel in KERNELS), ("ARD", "constant"), ("ARD", "linear")]
    return [pytest.param(*one, marks=[] if one[0] in kept else pytest.mark.nightly) for one in every]


@pytest.mark.parametrize(("kernel", "mean"), cases("ls_inv"))
def test_likelihoods_and_predictions_are_those_of_the_graphs(kernel, mean):
    found, graph = both(model(kernel, mean))
    some = thetas(found)
    for noise in (0.0, 0.3):
        mine, other = (posterior.log_likelihoods(some, noise) for posterior in (found, graph))
        for a, b in zip(mine[:3], other[:3], strict=True):
            assert_allclose(a, b, rtol=1e-7, atol=1e-8)
    theta = some[0]
    one, two = found.state(theta), graph.state(theta)
    assert_allclose(found.value_and_gradient(theta)[1], graph.value_and_gradient(theta)[1], rtol=1e-7, atol=1e-8)
    for a, b in zip(found.moments(one, X_NEW, gradient=True), graph.moments(two, X_NEW, gradient=True), strict=True):
        assert_allclose(a, b, rtol=1e-7, atol=1e-8)
    # Graphs have no gradients in the inputs.
    for i, step in enumerate(1e-5 * np.eye(2)):
        up, down = (graph.moments(two, X_NEW + sign * step) for sign in (1, -1))
        for a, b, gradient in zip(up[:2], down[:2], found.moments_and_slopes(one, X_NEW)[1], strict=True):
            assert_allclose(gradient[:, i], (a - b) / 2e-5, rtol=1e-5, atol=1e-6)


@pytest.mark.nightly
@pytest.mark.parametrize(("kernel", "mean"), cases("ls_inv"))
def test_curvatures_are_those_of_the_graphs(kernel, mean):
    found, graph = both(model(kernel, mean))
    theta = thetas(found)[0]
    one, two = (posterior.hessian(posterior.state(theta)) for posterior in (found, graph))
    assert_allclose(one, two, rtol=1e-6, atol=1e-7)


@pytest.mark.nightly
def test_a_conditioned_process_is_one_of_arrays():
    found, graph = both(model("locally periodic", "linear"))
    theta = thetas(found)[0]
    one, two = ConditionedGP(found, theta, state=found.light_state(theta)), ConditionedGP(graph, theta)
    assert isinstance(one.posterior, KernelPosterior)
    for name in ("moments", "moment_gradients", "prior_mean"):
        for a, b in zip(getattr(one, name)(X_NEW), getattr(two, name)(X_NEW), strict=True):
            assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    assert_allclose(one.noise_variance(X_NEW), two.noise_variance(X_NEW), rtol=1e-12)


@pytest.mark.nightly
def test_lengths_of_dims_jitter_and_new_data():
    with pm.Model(coords={"input": ["a", "b"]}) as users:
        gp = pm.gp.Marginal(cov_func=cov.Matern52(2, ls=length(dims="input")))
        gp.marginal_likelihood("y", pm.Data("X", X), pm.Data("y_data", Y), sigma=0.1, jitter=0.03)
    gpm = pma.from_marginal(gp, model=users)
    found, graph = both(gpm)
    theta = thetas(found)[0]
    # Jitter is part of the data and not of predictions.
    assert_allclose(found.moments(found.state(theta), X_NEW).noise_variance, 0.01, rtol=1e-9)
    # Repeated rows, of which arrays could make one each, stay.
    x, y = np.tile(X_NEW, (12, 1)), np.arange(60.0)
    expected = graph.with_data(x, y).value_and_gradient(theta)[1]
    for posterior in (cloudpickle.loads(cloudpickle.dumps(found)), found):
        assert_allclose(posterior.with_data(x, y).value_and_gradient(theta)[1], expected, rtol=1e-7)
    gpm.set_data(x, y)
    assert gpm.posterior().arrays.X.shape == x.shape


OUTCOMES = {
    "poisson": lambda f: pm.Poisson("y", pm.math.exp(f), observed=np.arange(12) % 4),
    "student_t": lambda f: pm.StudentT(
        "y", mu=f, sigma=pm.HalfNormal("sigma", 1), nu=2 + pm.Gamma("nu", 2, 0.1), observed=Y
    ),
}


@pytest.mark.parametrize("name", ["student_t", *nightly("poisson")])
def test_so_are_models_of_other_outcomes(name):
    with pm.Model() as users:
        gp = pm.gp.Latent(mean_func=MEANS["constant"](), cov_func=KERNELS["sum and constants"]())
        OUTCOMES[name](gp.prior("f", X))
        gp.conditional("f_new", X_NEW)
    found, graph = both(gpm := pma.from_latent(gp, model=users))
    assert not [label for label in gpm.labels if label.startswith("f")]
    some = thetas(found)
    mine, other = (posterior.log_likelihoods(some, 0.3) for posterior in (found, graph))
    for a, b in zip(mine, other, strict=True):
        assert_allclose(a, b, rtol=1e-7, atol=1e-8)
    mine, other = (posterior.moments(posterior.light_states(some)[1], X_NEW) for posterior in (found, graph))
    for a, b in zip(mine[:4], other[:4], strict=True):
        assert_allclose(a, b, rtol=1e-7, atol=1e-8)
    for a, b in zip(found.leave_one_out(some), graph.leave_one_out(some), strict=True):
        assert_allclose(a, b, rtol=1e-6, atol=1e-8)
    point = ConditionedGP(found, some[0]), ConditionedGP(graph, some[0])
    assert_allclose(*(one.noise_variance(X_NEW) for one in point), rtol=1e-6)


UNKNOWN = {
    "kernel": ((lambda: cov.Cosine(2, ls=length())), lambda: 0.1),
    "of another class": ((lambda: type("Mine", (cov.ExpQuad,), {})(2, ls=length())), lambda: 0.1),
    "noise": (KERNELS["ARD"], lambda: GrowingNoise(2, pm.HalfNormal("sd", 1))),
    "noise in the covariance": ((lambda: KERNELS["ARD"]() + cov.WhiteNoise(0.1)), lambda: 0.1),
}


@pytest.mark.parametrize("name", ["kernel", "noise in the covariance", *nightly("of another class", "noise")])
def test_what_arrays_do_not_know_stays_a_graph(name):
    assert not isinstance(users_gp(X, Y, *UNKNOWN[name]).posterior(), RecognisedPosterior)


def test_a_class_that_was_changed_stays_a_graph(monkeypatch):
    monkeypatch.setattr(cov.ExpQuad, "full", lambda self, X, Xs=None: 1.1 * cov.Matern52.full(self, X, Xs))
    monkeypatch.setattr(cov.ExpQuad, "full_from_distance", cov.Matern52.full_from_distance)
    monkeypatch.setattr(cov.ExpQuad, "diag", lambda self, X: self._alloc(1.1, X.shape[0]))
    posterior = users_gp(X, Y, lambda: cov.ExpQuad(2, ls=length())).posterior()
    assert not isinstance(posterior, RecognisedPosterior)


@pytest.mark.nightly
@pytest.mark.slow
def test_a_box_search_of_pes_knows_its_curvature():
    learner = pma.Learner(model(x=X[:6], y=Y[:6]), "maximum", criterion="pes", bounds=[(0, 2)] * 2, random_seed=1)
    x = learner.ask()
    assert ((x >= 0) & (x <= 2)).all()
