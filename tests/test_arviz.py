"""What ArviZ reads from fits, learners and traces: all groups, with values checked by a second route."""

from functools import cache

import arviz as az
import numpy as np
import pymc as pm
import pytest
from numpy.testing import assert_allclose
from scipy.stats import norm

import pymc_active as pma
from pymc_active.models.traces import trace_thetas

GROUPS = {
    *("posterior", "log_prior", "posterior_predictive", "log_likelihood", "sample_stats"),
    *("prior", "prior_predictive", "observed_data", "constant_data"),
}
SLOW = ("composite", "user", "trace")
KINDS = ("ard", "laplace", "embedding", "composite", "user", "learner", "trace")
RNG = np.random.default_rng(20261124)
X = RNG.uniform(-2, 2, (9, 2))
Y = 30 + 10 * np.sin(1.5 * X[:, 0]) + RNG.normal(size=9)
QUIET = {"random_seed": 0, "progressbar": False}
BOX = {"bounds": [(-2, 2)] * 2}


def user_model():
    with pm.Model(coords={"row": range(len(Y))}) as model:
        scale = pm.LogNormal("scale", 0.5, 0.5)
        sd = pm.Gamma("sd", 4, 0.4)
        gp = pm.gp.Marginal(
            mean_func=pm.gp.mean.Constant(pm.Normal("level", 25, 10)),
            cov_func=sd**2 * pm.gp.cov.Matern52(2, ls=scale),
        )
        data = pm.Data("X", X), pm.Data("y_data", Y)
        gp.marginal_likelihood("assay", *data, sigma=pm.HalfNormal("noise", 2), dims="row")
    return pma.from_marginal(gp, "assay", model=model)


@cache
def made(kind):
    """A model and its DataTree."""
    if kind == "learner":
        learner = pma.active.Learner(pma.ard_gp(X[:8], Y[:8], **BOX), pool=2 * X, inference="laplace", random_seed=0)
        learner.tell(X[8:], Y[8:])
        return learner.fit.gpm, learner.to_datatree(200)
    if kind == "trace":
        gpm = pma.ard_gp(X, Y, **BOX)
        sampler = {
            "chains": 2,
            "cores": 1,
            "compute_convergence_checks": False,
            "compile_kwargs": {"mode": "FAST_COMPILE"},
        }
        return gpm, pma.sample(gpm, draws=26, tune=5, step="slice", **sampler, **QUIET)
    gpm = {
        "ard": lambda: pma.ard_gp(X, Y, **BOX),
        "laplace": lambda: pma.ard_gp(X, Y, **BOX),
        "embedding": lambda: pma.embedding_gp(X, Y, n_components=2, **BOX),
        "composite": lambda: pma.composite_gp(X, Y, "SE[0] + LIN[1]", **BOX),
        "user": user_model,
    }[kind]()
    fitted = pma.fit_laplace(gpm, **QUIET) if kind == "laplace" else pma.fit(gpm, n_particles=64, **QUIET)
    return gpm, fitted.to_datatree(200, random_seed=1)


@pytest.fixture(params=[pytest.param(kind, marks=pytest.mark.slow if kind in SLOW else ()) for kind in KINDS])
def one(request):
    return made(request.param)


def by_day(*kinds):
    """ArviZ sees groups and names alone, which are alike for the other kinds."""
    marked = [pytest.param(kind, marks=[] if kind in kinds else pytest.mark.nightly) for kind in KINDS]
    return pytest.mark.parametrize("one", marked, indirect=True)


def refitted(gpm, theta, row):
    """Predictive mean and sd of one observation, by conditioning the GP on the others."""
    posterior = gpm.posterior().with_data(np.delete(gpm.X, row, 0), np.delete(gpm.y, row))
    if hasattr(posterior, "renewed_prior"):
        assert_allclose(posterior.y_map.scale, gpm.y_map.scale)
    p = posterior.moments(posterior.state(theta), gpm.X[row : row + 1])
    return p.mean[0], np.sqrt(p.variance + p.noise_variance)[0]


def test_all_groups_are_there_with_one_size_of_draws(one):
    gpm, tree = one
    assert set(tree.children) >= GROUPS
    sizes = {name: tree["posterior"].sizes[name] for name in ("chain", "draw")}
    for name in ("log_prior", "posterior_predictive", "log_likelihood"):
        assert {dim: tree[name].sizes[dim] for dim in sizes} == sizes
    assert tree["log_likelihood"][gpm.name].dims == tree["posterior_predictive"][gpm.name].dims
    assert tree["observed_data"][gpm.name].dims == tree["log_likelihood"][gpm.name].dims[2:]
    assert set(tree["prior"].data_vars) == set(tree["posterior"].data_vars)
    assert set(tree["log_prior"].data_vars) == {v.name for v in gpm.model.free_RVs}
    for group in tree.children.values():
        values = [values for values in group.data_vars.values() if values.dtype.kind == "f" and group.name != "design"]
        assert all(np.isfinite(one).all() for one in values)


def test_leaving_one_out_is_conditioning_on_the_others(one):
    gpm, tree = one
    thetas, density = trace_thetas(gpm, tree), tree["log_likelihood"][gpm.name].to_numpy().reshape(-1, len(gpm.y))
    for draw, row in ((0, 0), (7, 4), (30, 8)):
        assert_allclose(density[draw, row], norm.logpdf(gpm.y[row], *refitted(gpm, thetas[draw], row)), rtol=1e-6)


def test_loo_at_known_hyperparameters_is_that_of_refits():
    """One free parameter with a prior that leaves it no room."""
    known = {"log_lengthscale": 0.0, "log_outputscale": 0.1, "log_noise": np.log(0.2)}
    gpm = pma.ard_gp(
        X, Y, mean="constant", y_scale=(30, 8), priors=known | {"mean_constant": pm.Normal.dist(0.3, 1e-7)}
    )
    tree = pma.fit_laplace(gpm, **QUIET).to_datatree(100, random_seed=1)
    expected = [norm.logpdf(Y[i], *refitted(gpm, np.array([0.3]), i)) for i in range(len(Y))]
    assert_allclose(az.loo(tree, pointwise=True).elpd_i, expected, rtol=1e-5)
    # So are LOO-PIT, to the error of a hundred draws.
    exact = np.array([norm.cdf(Y[i], *refitted(gpm, np.array([0.3]), i)) for i in range(len(Y))])
    assert np.abs(az.loo_pit(tree)["y"] - exact).max() < 4 * 0.5 / np.sqrt(100)


def test_replicates_are_draws_given_the_other_observations():
    gpm, tree = made("ard")
    tree = pma.fit(gpm, n_particles=32, **QUIET).to_datatree(4000, random_seed=2)
    thetas, y = trace_thetas(gpm, tree), tree["posterior_predictive"]["y"].to_numpy()[0]
    thetas, rows = np.unique(thetas, axis=0, return_inverse=True)
    for row in (0, 5):
        mean, sd = np.array([refitted(gpm, theta, row) for theta in thetas])[rows].T
        z = (y[:, row] - mean) / sd
        assert abs(z.mean()) < 4 / np.sqrt(len(z))
        assert abs(z.var() - 1) < 4 * np.sqrt(2 / len(z))


def test_prior_predictive_data_have_the_prior_covariance():
    """Known hyperparameters but for a level that is as good as known."""
    known = {"log_lengthscale": 0.0, "log_outputscale": 0.5, "log_noise": np.log(0.3)}
    gpm = pma.ard_gp(
        X, Y, mean="constant", y_scale=(30, 8), priors=known | {"mean_constant": pm.Normal.dist(0.3, 1e-7)}
    )
    y = pma.fit_laplace(gpm, **QUIET).to_datatree(2000, random_seed=1)["prior_predictive"]["y"].to_numpy()[0]
    distance = np.square(X[:, None] - X).sum(-1)
    covariance = 64 * (np.exp(1.0 - distance / 2) + 0.09 * np.eye(len(X)))
    sd = np.sqrt(np.diag(covariance))
    assert (np.abs(y.mean(0) - (30 + 8 * 0.3)) < 4 * sd / np.sqrt(len(y))).all()
    error = np.sqrt((np.outer(sd, sd) ** 2 + covariance**2) / len(y))
    assert (np.abs(np.cov(y.T) - covariance) < 4.5 * error).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", ["user", "trace", *(pytest.param(k, marks=pytest.mark.nightly) for k in ("ard", "composite"))]
)
def test_log_prior_is_that_of_pymc(kind):
    gpm, tree = made(kind)
    with gpm.model:
        expected = pm.stats.compute_log_prior(
            tree.copy(), extend_inferencedata=False, progressbar=False, compile_kwargs={"mode": "FAST_COMPILE"}
        )
    for name, values in tree["log_prior"].data_vars.items():
        other = expected[name]
        assert_allclose(values, other.sum([dim for dim in other.dims if dim not in ("chain", "draw")]), rtol=1e-6)


@pytest.mark.slow
def test_lp_is_the_log_density_on_the_unconstrained_space():
    for kind in ("ard", "user", "embedding"):
        gpm, tree = made(kind)
        stats = tree["sample_stats"]
        theta = trace_thetas(gpm, tree)[3]
        assert float(stats["lp"][0, 3]) == pytest.approx(gpm.posterior().value(theta), rel=1e-8)
        expected = gpm.posterior().log_likelihoods(theta[None]).value[0]
        assert float(stats["log_marginal_likelihood"][0, 3]) == pytest.approx(expected, rel=1e-8)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Estimated shape parameter of Pareto")
@by_day("ard", "trace")
def test_summary_sensitivity_and_comparison_take_the_trees(one):
    assert np.isfinite(az.summary(one[1], kind="stats").iloc[:, 0]).all()
    assert np.isfinite(az.psense(one[1]).to_array()).all()
    # Its own dimension may not be one of the posterior.
    assert len(az.psense_summary(one[1]))
    compared = az.compare({"this": one[1], "that": made("laplace")[1]})
    assert set(compared.index) == {"this", "that"}


def test_draws_of_a_laplace_fit_come_from_all_modes():
    """A kernel whose two periods fit equally well."""
    x = np.linspace(0, 1, 7)[:, None]
    fit = pma.fit_laplace(pma.composite_gp(x, np.sin(40 * x[:, 0]), "PER"), n_restarts=12, **QUIET)
    weights = np.array([mode.weight for mode in fit.modes])
    assert len(weights) > 1
    assert weights[0] < 0.95
    thetas = trace_thetas(fit.gpm, fit.to_datatree(2000, random_seed=1))
    mean = weights @ np.array([e.theta for e in fit.expansions])
    assert (np.abs(thetas.mean(0) - mean) < 5 * thetas.std(0) / np.sqrt(len(thetas))).all()


@pytest.mark.slow
def test_a_mean_is_reported_in_the_units_of_y():
    gpm, tree = made("ard")
    posterior = tree["posterior"]
    expected = gpm.y_map.shift + gpm.y_map.scale * posterior["mean_constant"]
    assert_allclose(posterior["mean_constant_original_units"], expected)
    assert float(np.median(posterior["mean_constant_original_units"])) == pytest.approx(30, abs=12)
    # The PyMC model says the same.
    assert_allclose(made("trace")[1]["posterior"]["mean_constant_original_units"].mean(), 30, atol=12)
    sloped = pma.ard_gp(X, Y, mean="linear", **BOX).constrain(np.ones((1, 7)))
    assert_allclose(sloped["mean_slope_original_units"][0], Y.std() / 2)
    assert "mean_constant_original_units" not in pma.ard_gp(X, Y / 10, mean="constant").constrain(np.ones((1, 5)))


def test_an_improper_prior_is_left_out():
    with pm.Model() as model:
        gp = pm.gp.Marginal(mean_func=pm.gp.mean.Constant(pm.Flat("level")), cov_func=9 * pm.gp.cov.ExpQuad(2, ls=1.0))
        gp.marginal_likelihood("y", X, Y, sigma=1.0)
    tree = pma.fit_laplace(pma.from_marginal(gp, "y", model=model), **QUIET).to_datatree(20, random_seed=1)
    assert set(tree.children) == (GROUPS | {"fit"}) - {"prior", "prior_predictive"}


def test_with_many_points_draws_repeat():
    x = np.linspace(0, 1, 400)[:, None]
    gpm = pma.ard_gp(x, np.sin(9 * x[:, 0]) + 0.1 * RNG.normal(size=400), priors={"log_lengthscale": np.log(0.2)})
    tree = pma.fit_laplace(gpm, n_restarts=1, **QUIET).to_datatree(300, random_seed=1)
    assert tree["posterior"].sizes["draw"] == tree["prior"].sizes["draw"] == 300
    assert len(np.unique(tree["posterior"]["noise"])) == tree["prior_predictive"].sizes["draw"] == 156


def test_no_particle_is_taken_for_several_draws():
    fit = pma.fit(pma.ard_gp(X, Y, **BOX), n_particles=64, **QUIET)
    draws = fit.to_datatree()["posterior"]["log_noise"]
    assert draws.sizes == {"chain": 1, "draw": 64}
    # Weights that differ make a few repeats.
    assert len(np.unique(draws)) >= 0.9 * fit.diagnostics["effective_sample_size"]
