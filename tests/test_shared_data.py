"""Users' models with several GPs, several outputs, or data that cannot be replaced."""

import numpy as np
import pymc as pm
import pytest
from differences import central_difference
from numpy.testing import assert_allclose

import pymc_active as pma

pytestmark = pytest.mark.slow

X = np.linspace(0, 1, 6)[:, None]
Y = np.sin(3 * X[:, 0])
POOL = np.linspace(0, 1, 9)[:, None]


def two_gps(shared):
    """GPs of two outputs in one model, with one pm.Data for the X of both or one each."""
    gps = {}
    with pm.Model() as model:
        both = pm.Data("X", X) if shared else None
        for name, y in (("first", Y), ("second", Y**2)):
            inputs = both if shared else pm.Data(f"X_{name}", X)
            gps[name] = pm.gp.Marginal(cov_func=pm.gp.cov.ExpQuad(1, ls=pm.LogNormal(f"ls_{name}", 0, 1)))
            gps[name].marginal_likelihood(name, inputs, pm.Data(f"y_{name}", y), sigma=0.1)
    return {name: pma.from_marginal(gp, name, model=model) for name, gp in gps.items()}


def one_gp(X_data, y_data):
    with pm.Model() as model:
        gp = pm.gp.Marginal(cov_func=pm.gp.cov.ExpQuad(1, ls=pm.LogNormal("ls", 0, 1)))
        gp.marginal_likelihood("y", X_data(), y_data(), sigma=0.1)
    return pma.from_marginal(gp, "y", model=model)


def alone(y):
    """Log posterior of one GP in a model of its own."""
    return one_gp(lambda: pm.Data("X", X), lambda: pm.Data("data", y)).posterior()


@pytest.fixture(scope="module")
def sharing():
    return two_gps(shared=True)


@pytest.fixture(scope="module")
def each_alone():
    return alone(Y), alone(Y**2)


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["first", pytest.param("second", marks=pytest.mark.nightly)])
def test_the_posterior_of_one_of_two_gps_is_that_of_both(name, sharing, each_alone):
    """Whichever is asked, since they share no parameter: the sum of both, each in a model of its own."""
    theta = np.array([-0.4, 0.3])
    posterior = sharing[name].posterior()
    one, other = (single.value(theta[k : k + 1]) for k, single in enumerate(each_alone))
    assert_allclose(posterior.value(theta), one + other, rtol=1e-10)
    assert_allclose(posterior.value_and_gradient(theta)[1], central_difference(posterior.value, theta), rtol=1e-8)


def test_a_shared_X_is_not_replaced_for_one_of_them(sharing):
    first = sharing["first"]
    with pytest.raises(ValueError, match="because second uses the same"):
        first.set_data(X[:4], Y[:4])
    assert_allclose(first.X, X)
    assert np.isfinite(first.posterior().value(np.zeros(2)))


@pytest.mark.nightly
def test_gps_with_an_X_each_are_independent(each_alone):
    first, theta = two_gps(shared=False)["first"], np.array([-0.4, 0.3])
    own, second = each_alone[0], each_alone[1].value(theta[1:])
    assert_allclose(first.posterior().value(theta) - second, own.value(theta[:1]), rtol=1e-10)
    first.set_data(X[:4], Y[:4])
    few = own.with_data(X[:4], Y[:4]).value(theta[:1])
    assert_allclose(first.posterior().value(theta) - second, few, rtol=1e-10)


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (lambda: two_gps(shared=True)["first"], "second uses the same pm.Data"),
        (lambda: one_gp(lambda: X, lambda: pm.Data("data", Y)), "X is a constant here"),
        (lambda: one_gp(lambda: 2 * pm.Data("X", X), lambda: pm.Data("data", Y)), "X is computed from other data"),
        (lambda: one_gp(lambda: pm.Data("X", X), lambda: Y), "y is a constant here"),
    ],
    ids=["shared", "constant", "computed", "constant y"],
)
def test_nothing_is_measured_that_cannot_be_told(made, why):
    with pytest.raises(ValueError, match=why):
        pma.Learner(made(), pool=POOL)


def test_a_likelihood_of_the_same_outputs_moves_with_them():
    """It has as many rows as they have."""
    with pm.Model() as model:
        data, y = pm.Data("X", X), pm.Data("data", Y)
        gp = pm.gp.Marginal(cov_func=pm.gp.cov.ExpQuad(1, ls=pm.LogNormal("ls", 0, 1)))
        gp.marginal_likelihood("y", data, y, sigma=0.1)
        pm.Normal("again", pm.Normal("slope", 0, 1) * data[:, 0], 1.0, observed=2 * y)
    gpm = pma.from_marginal(gp, "y", model=model)
    gpm.set_data(X[:4], Y[:4])
    assert np.isfinite(gpm.posterior().value(np.zeros(2)))


@pytest.mark.nightly
def test_several_outputs_are_one_gp_with_coregion():
    """Output 1 is ten times output 0, known where output 0 is not."""
    both = np.vstack([np.column_stack([X, np.full(6, k)]) for k in (0, 1)])
    weights = np.array([[1.0], [10.0]])
    with pm.Model() as model:
        outputs = pm.gp.cov.Coregion(2, W=weights, kappa=np.full(2, 1e-4), active_dims=[1])
        cov = pm.gp.cov.ExpQuad(2, ls=pm.LogNormal("ls", -1, 0.5), active_dims=[0]) * outputs
        gp = pm.gp.Marginal(cov_func=cov)
        gp.marginal_likelihood("y", pm.Data("X", both), pm.Data("data", np.r_[Y, 10 * Y]), sigma=0.05)
    gpm = pma.from_marginal(gp, "y", model=model)
    learner = pma.active.Learner(gpm, pool=[[1.4, 1.0], [0.5, 1.0]], inference="laplace")
    learner.run(lambda x: 10 * np.sin(3 * x[0, 0]), n=1, progressbar=False)
    assert learner.X[-1].tolist() == [1.4, 1.0]
    assert float(pma.predict(learner.fit, [[1.4, 0.0]]).f_mean[0]) == pytest.approx(np.sin(4.2), abs=0.05)
    # PyMC would cut off the number of an output, or count it from the end.
    for number in (0.99, -1.0, 2.0, 1 + 1e-15):
        bad = [[1.4, number]]
        for refused in (
            lambda bad=bad: pma.predict(learner.fit, bad),
            lambda bad=bad: learner.tell(bad, 1.0),
            lambda bad=bad: pma.active.Learner(gpm, pool=bad),
            lambda bad=bad: pma.active.bald(learner.fit, bad),
            lambda bad=bad: gpm.set_data(bad, [1.0]),
        ):
            with pytest.raises(ValueError, match=r"column 1 of X is the number of an output .* from 0 to 1; row"):
                refused()
    assert (len(learner.y), len(gpm.y)) == (13, 12)
    with pytest.raises(ValueError, match=r"numbers the outputs of Coregion: pass a pool"):
        pma.active.Learner(gpm, bounds=[(0, 2), (0, 1)])


def outputs_and_more(cov, noise):
    """A model of the same data with a Coregion of three outputs somewhere in it."""
    both = np.vstack([np.column_stack([np.full(6, k), X]) for k in (0, 1)])
    with pm.Model() as model:
        outputs = pm.gp.cov.Coregion(2, W=pm.Normal("W", shape=(3, 1)), kappa=np.ones(3), active_dims=[0])
        smooth = pm.gp.cov.ExpQuad(2, ls=pm.LogNormal("ls", -1, 0.5), active_dims=[1])
        gp = pm.gp.Marginal(cov_func=cov(smooth, outputs))
        sigma = noise(outputs) if noise else 0.05
        gp.marginal_likelihood("y", pm.Data("X", both), pm.Data("data", np.r_[Y, Y]), sigma=sigma)
    return pma.from_marginal(gp, model=model)


@pytest.mark.parametrize(
    ("cov", "noise"),
    [
        (lambda k, outputs: k + k * 2 * outputs, None),
        (lambda k, outputs: k * outputs**2, None),
        (lambda k, _: k, lambda outputs: pm.gp.cov.WhiteNoise(0.1) * outputs),
    ],
)
def test_numbers_of_outputs_are_known_wherever_coregion_stands(cov, noise):
    gpm = outputs_and_more(cov, noise)
    assert gpm.levels == {0: 3}
    gpm.set_data([[2.0, 0.3], [0.0, 0.4]], [1.0, 2.0])
    with pytest.raises(ValueError, match=r"from 0 to 2; row 1 has 2\.5: where points are chosen, list them in a pool"):
        gpm.set_data([[2.0, 0.3], [2.5, 0.4]], [1.0, 2.0])
    assert not pma.ard_gp(X, Y).levels


def test_approximate_gps_are_refused_with_a_way_out():
    with pm.Model() as model:
        gp = pm.gp.MarginalApprox(cov_func=pm.gp.cov.ExpQuad(1, ls=pm.LogNormal("ls", 0, 1)))
        gp.marginal_likelihood("y", X=X, Xu=X[::2], y=Y, sigma=0.1)
    with pytest.raises(TypeError, match="informative_rows if there are many"):
        pma.from_marginal(gp, "y", model=model)


@pytest.mark.nightly
def test_what_is_added_to_the_model_is_no_parameter():
    """As predictions by PyMC itself, of a model that is fitted already, and that will be."""
    x = np.linspace(0, 5, 8)
    with pm.Model() as model:
        gp = pm.gp.Marginal(cov_func=pm.gp.cov.ExpQuad(1, pm.LogNormal("ls", 0, 1)))
        gp.marginal_likelihood("y", X=x[:, None], y=np.sin(x), sigma=pm.HalfNormal("sigma", 1))
    fit = pma.fit(pma.from_marginal(gp, model=model), n_particles=32, random_seed=1, progressbar=False)
    with model:
        gp.conditional("f_new", np.array([[6.0]]))
        pm.Deterministic("double", 2 * model["ls"])
    assert list(fit.to_datatree()["posterior"]) == ["ls", "sigma", "double"]
    again = pma.from_marginal(gp, "y", model=model)
    assert again.labels == ["ls_log__", "sigma_log__"]
    theta = np.array([0.1, -0.2])
    expected = fit.posterior.value_and_gradient(theta)[0]
    assert again.posterior().value_and_gradient(theta)[0] == expected
    values = [model.rvs_to_values[model[name]] for name in ("ls", "sigma")]
    graph = pm.compile(values, pma.graphs.log_posterior(again), mode="FAST_COMPILE")
    assert graph(*theta) == pytest.approx(expected, rel=1e-10)


def test_a_likelihood_that_is_not_that_of_the_gp_is_refused():
    """Of another GP, or of an earlier call of one, which has the X and the noise of its last call."""
    with pm.Model():
        one, other = (pm.gp.Marginal(cov_func=pm.gp.cov.ExpQuad(1, ls=pm.LogNormal(f"ls{k}", 0, 1))) for k in range(2))
        one.marginal_likelihood("a", X=X, y=Y, sigma=0.1)
        one.marginal_likelihood("b", X=X, y=Y**2, sigma=0.2)
        other.marginal_likelihood("c", X=X, y=Y**2, sigma=0.2)
        for gp, name in ((one, "a"), (one, "c"), (other, "b")):
            with pytest.raises(ValueError, match=f"'{name}' is the likelihood of another pm.gp.Marginal, or of an"):
                pma.from_marginal(gp, name)
        assert pma.from_marginal(one, "b").name == "b"
