"""MCMC on the same model, and the comparison of the fast approximations with it."""

import itertools
import json
from pathlib import Path

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import quad
from scipy.special import logsumexp
from scipy.stats import norm

import pymc_active as pma
from pymc_active.entropy import gaussian_entropy, mixture_entropy, mixture_entropy_gradient, mixture_symmetrized_kl
from pymc_active.predictions import draw_moments, trace_thetas
from pymc_active.truth import mutual_information, pareto_k, symmetrized_kl

CASES = json.loads((Path(__file__).parent / "reference" / "mixture_mi_cases.json").read_text())


# Entropies.


def columns(case):
    """One mixture as a column: components (S, 1) and weights (S,)."""
    return (*(np.array(case[key])[:, None] for key in ("mu", "var")), np.array(case["w"]))


@pytest.mark.parametrize(
    "case",
    CASES["cases"],
    ids=lambda case: f"mu{case['mu']}-var{case['var']}",
)
def test_entropy_of_reference_mixtures(case):
    means, variances, weights = columns(case)
    [entropy] = mixture_entropy(means, variances, weights)
    # Between well separated components the log density has a sharp bend, where the density is 1e-6.
    assert_allclose(entropy, case["mixture_entropy"], rtol=0, atol=1e-7)
    information = entropy - weights @ gaussian_entropy(variances[:, 0])
    assert_allclose(information, case["mi"], rtol=0, atol=1e-7)


def test_several_mixtures_at_once():
    rng = np.random.default_rng(1)
    means, variances = rng.normal(size=(3, 4)), rng.uniform(0.2, 2, size=(3, 4))
    weights = np.array([0.2, 0.3, 0.5])
    together = mixture_entropy(means, variances, weights)
    for j in range(4):
        one = mixture_entropy(means[:, j : j + 1], variances[:, j : j + 1], weights)
        assert_allclose(together[j], one[0], rtol=1e-12)


def adaptive(integrand, means, sds):
    """Integral by adaptive quadrature between breakpoints that follow every component."""
    points = np.unique((means + np.arange(-12, 12.5, 0.5)[:, None] * sds).ravel())
    return sum(quad(integrand, a, b, epsabs=1e-14, epsrel=1e-12)[0] for a, b in itertools.pairwise(points))


@pytest.mark.parametrize("seed", range(12))
def test_entropy_of_mixtures_with_very_narrow_and_very_distant_components(seed):
    rng = np.random.default_rng(seed)
    S = rng.integers(2, 6)
    sds = 10 ** rng.uniform(-4, 1, S)
    means, weights = rng.normal(size=S) * 10 ** rng.uniform(-1, 2), rng.dirichlet(np.ones(S))

    def integrand(y):
        log_p = logsumexp(norm.logpdf(y, means, sds) + np.log(weights))
        return -np.exp(log_p) * log_p

    got = mixture_entropy(means[:, None], np.square(sds)[:, None], weights)[0]
    assert abs(got - adaptive(integrand, means, sds)) < 1e-6


def test_gradient_of_the_entropy_is_its_central_difference():
    rng = np.random.default_rng(4)
    means, variances = rng.normal(size=(4, 3)), rng.uniform(0.1, 2, size=(4, 3))
    weights = np.array([0.1, 0.2, 0.3, 0.4])
    gradients = mixture_entropy_gradient(means, variances, weights)
    for array, gradient in zip((means, variances), gradients, strict=True):
        for index in np.ndindex(*array.shape):
            here, values = array[index], []
            for sign in (1, -1):
                array[index] = here + sign * 1e-5
                values.append(mixture_entropy(means, variances, weights)[index[1]])
            array[index] = here
            assert_allclose(gradient[index], (values[0] - values[1]) / 2e-5, atol=1e-6)


@pytest.mark.parametrize("q", [(0.3, 1.2), (5.0, 0.01), (0.0, 900.0)])
def test_symmetrized_kl_of_a_mixture_and_a_gaussian_however_different(q):
    means, sds, weights = np.array([-1.0, 0.5, 2.0]), np.array([0.2, 1.0, 0.01]), np.array([0.3, 0.5, 0.2])

    def integrand(y):
        log_p, log_q = logsumexp(norm.logpdf(y, means, sds) + np.log(weights)), norm.logpdf(y, q[0], np.sqrt(q[1]))
        return (np.exp(log_p) - np.exp(log_q)) * (log_p - log_q)

    expected = adaptive(integrand, np.append(means, q[0]), np.append(sds, np.sqrt(q[1])))
    arguments = means[:, None], np.square(sds)[:, None], weights, np.array(q[:1]), np.array(q[1:])
    assert_allclose(mixture_symmetrized_kl(*arguments)[0], expected, rtol=1e-6)


def test_mutual_information_is_between_zero_and_the_log_of_the_draws():
    rng = np.random.default_rng(2)
    means, variances = 5 * rng.normal(size=(6, 40)), rng.uniform(0.01, 2, size=(6, 40))
    information = mutual_information(means, variances)
    assert (information > 0).all()
    assert (information < np.log(6) + 1e-9).all()


def test_draws_that_agree_tell_nothing():
    information = mutual_information(np.ones((5, 3)), np.full((5, 3), 0.7))
    assert_allclose(information, 0, atol=1e-8)


def test_draws_that_cannot_be_confused_tell_their_number():
    information = mutual_information(np.arange(4.0)[:, None] * 100, np.ones((4, 1)))
    assert_allclose(information, np.log(4), rtol=1e-9)


@pytest.mark.parametrize(("m0", "v0", "m1", "v1"), [(0.0, 1.0, 0.0, 1.0), (0.3, 0.5, -0.4, 2.0), (5.0, 1.0, 4.0, 0.1)])
def test_symmetrized_kl_is_an_integral(m0, v0, m1, v1):
    p, q = norm(m0, np.sqrt(v0)), norm(m1, np.sqrt(v1))

    def integrand(y):
        return (p.pdf(y) - q.pdf(y)) * (p.logpdf(y) - q.logpdf(y))

    expected, _ = quad(integrand, -25, 25, points=[m0, m1], epsabs=1e-12)
    assert_allclose(symmetrized_kl(m0, v0, m1, v1), expected, rtol=0, atol=1e-9)


# The comparison.


@pytest.fixture(scope="module")
def fit():
    rng = np.random.default_rng(1)
    X = rng.uniform(-2, 2, size=(10, 1))
    y = np.sin(2 * X[:, 0]) + 0.2 * rng.normal(size=10)
    gpm = pma.ard_gp(X, y)
    return pma.fit_laplace(gpm, n_restarts=3, population=0, random_seed=1, progressbar=False)


def in_chains(tree, chains=2):
    """A single chain of independent draws, cut into several."""
    draws = tree["posterior"].to_dataset()
    n = draws.sizes["draw"] // chains
    parts = [draws.isel(draw=slice(c * n, (c + 1) * n)).assign_coords(draw=range(n)) for c in range(chains)]
    joined = xr.concat(parts, dim="chain").assign_coords(chain=range(chains))
    return xr.DataTree.from_dict({"posterior": joined})


@pytest.fixture(scope="module")
def trace(fit):
    """Draws from the Laplace approximation, standing in for MCMC."""
    return in_chains(fit.to_datatree(draws=200, random_seed=1))


NEW = np.linspace(-3, 3, 7)[:, None]


@pytest.fixture(scope="module")
def report(fit, trace):
    return pma.check(fit, trace, X_new=NEW, pool=np.linspace(-4, 4, 9)[:, None])


def at_method(report, name):
    # ``method`` is also an option of ``sel``, so it cannot be a keyword here.
    return report["predictions"].to_dataset().sel(approximation=name)


def test_check_has_the_documented_groups(report):
    assert set(report.children) == {"predictions", "trace_diagnostics", "laplace", "decision"}
    predictions = report["predictions"]
    assert predictions["approximation"].to_numpy().tolist() == ["MAP", "BBQ", "MGP"]
    assert dict(predictions.sizes) == {"approximation": 3, "point": 7}
    assert set(predictions.data_vars) == {"skl", "skl_mixture", "skl_y", "nll"}
    diagnostics = report["trace_diagnostics"]
    assert diagnostics["variable"].to_numpy().tolist() == [
        "log_lengthscale", "log_outputscale", "log_noise", "f_mean"
    ]  # fmt: skip
    assert set(diagnostics.data_vars) == {"rhat", "ess_bulk"}
    assert set(report["decision"].data_vars) == {"true_utility", "bald", "regret_ratio", "pick"}


def test_kl_is_that_to_the_matched_mixture(fit, trace, report):
    mixture = pma.predict(trace, NEW, model=fit.gpm)
    for method in ("map", "bbq", "mgp"):
        q = pma.predict(fit, NEW, method=method)
        row = at_method(report, method.upper())
        for name, variance in (("skl", "f_variance"), ("skl_y", "y_variance")):
            expected = symmetrized_kl(mixture.f_mean, mixture[variance], q.f_mean, q[variance])
            assert_allclose(row[name], expected, rtol=1e-9)
        # The expectation of -log q(y) under the mixture, from its first two moments.
        second = mixture.y_variance + (mixture.f_mean - q.f_mean) ** 2
        nll = 0.5 * (np.log(2 * np.pi * q.y_variance) + second / q.y_variance)
        assert_allclose(row["nll"], nll, rtol=1e-9)


def test_kl_to_the_exact_mixture_is_an_integral(fit, trace, report):
    thetas = trace_thetas(fit.gpm, trace)
    means, variances, _ = draw_moments(fit.best.posterior, thetas, NEW)
    mgp = pma.predict(fit, NEW)
    for j in (0, 3):
        q = norm(float(mgp.f_mean[j]), float(np.sqrt(mgp.f_variance[j])))

        def integrand(y, j=j, q=q):
            log_p = logsumexp(norm.logpdf(y, means[:, j], np.sqrt(variances[:, j])))
            log_p -= np.log(len(means))
            return (np.exp(log_p) - q.pdf(y)) * (log_p - q.logpdf(y))

        reach = 9 * np.sqrt(max(variances[:, j].max(), q.var()))
        center = q.mean()
        expected, _ = quad(integrand, center - reach, center + reach, limit=400, epsabs=1e-10)
        got = float(at_method(report, "MGP")["skl_mixture"][j])
        assert_allclose(got, expected, rtol=1e-5, atol=1e-8)


def test_observations_replace_the_expectation(fit, trace):
    y_new = np.linspace(-1, 1, 7)
    report = pma.check(fit, trace, X_new=NEW, y_new=y_new)
    q = pma.predict(fit, NEW)
    expected = -norm.logpdf(y_new, q.f_mean, np.sqrt(q.y_variance))
    assert_allclose(at_method(report, "MGP")["nll"], expected, rtol=1e-10)
    assert "decision" not in report.children


def test_regret_is_the_utility_of_our_pick(fit, trace, report):
    pool = np.linspace(-4, 4, 9)[:, None]
    decision = report["decision"]
    means, variances, noises = draw_moments(fit.best.posterior, trace_thetas(fit.gpm, trace), pool)
    utility = mutual_information(means, variances + noises)
    assert_allclose(decision["true_utility"], utility, rtol=1e-9)
    score = pma.active.bald(fit, pool)
    assert_allclose(decision["bald"], score, rtol=1e-12)
    pick = int(np.argmax(score.to_numpy()))
    assert int(decision["pick"]) == pick
    assert_allclose(float(decision["regret_ratio"]), utility[pick] / utility.max(), rtol=1e-9)
    assert 0 < float(decision["regret_ratio"]) <= 1


def test_independent_draws_have_good_diagnostics(report):
    """200 of them in two chains: R-hat near one, effective sample size near 200."""
    diagnostics = report["trace_diagnostics"]
    assert (np.abs(diagnostics["rhat"] - 1) < 0.05).all()
    assert (diagnostics["ess_bulk"] > 80).all()


def test_disagreeing_chains_are_seen(fit, trace):
    posterior = trace["posterior"].to_dataset().copy(deep=True)
    posterior["log_noise"][1] += 3.0
    report = pma.check(fit, xr.DataTree.from_dict({"posterior": posterior}), X_new=NEW[:2])
    assert report["trace_diagnostics"]["rhat"].sel(variable="log_noise") > 1.5


def test_points_of_comparison_default_to_pool_then_data(fit, trace):
    assert pma.check(fit, trace)["predictions"].sizes["point"] == len(fit.gpm.y)
    report = pma.check(fit, trace, pool=NEW[:3])
    assert_array_equal(report["predictions"]["point"], report["decision"]["candidate"])


def gaussian_fit():
    """Only the two parameters of the mean are free: the posterior is Gaussian and Laplace exact."""
    X = np.linspace(-1, 1, 6)[:, None]
    fixed = {"log_lengthscale": 0.0, "log_outputscale": 0.0, "log_noise": -1.0}
    gpm = pma.ard_gp(X, X[:, 0] + 2, mean="linear", priors=fixed)
    return pma.fit_laplace(gpm, n_restarts=1, population=0, random_seed=1, progressbar=False)


def test_pareto_k_of_an_exact_approximation_is_zero():
    """Its weights are equal."""
    assert pareto_k(gaussian_fit()) == 0.0


@pytest.mark.parametrize(("width", "k"), [(0.5, 0.75), (0.7, 0.51)])
def test_pareto_k_of_a_narrow_approximation(width, k):
    """Draws with ``width`` of the sds: in two dimensions the weights are exactly Pareto with k = 1 - width².

    The weight is exp(e (1 - width²)) with e = |z|²/2 exponentially distributed.
    """
    narrow = gaussian_fit()
    root = narrow.best.curvature.root
    narrow.best.curvature = narrow.best.curvature._replace(root=width * root)
    n = 20_000
    # The estimate uses the 3 sqrt(n) largest weights; its sd is about (1 + k) / sqrt of their number.
    error = 4 * (1 + k) / np.sqrt(3 * np.sqrt(n))
    assert abs(pareto_k(narrow, draws=n) - k) < error


def test_pareto_k_of_a_wide_approximation_is_negative():
    """Weights with an upper bound have a tail that ends."""
    wide = gaussian_fit()
    root = wide.best.curvature.root
    wide.best.curvature = wide.best.curvature._replace(root=2 * root)
    assert pareto_k(wide, draws=2000) < 0.1


def test_pareto_k_of_an_embedding():
    """Two well determined components are well approximated; the rotation between them is no tail."""
    rng = np.random.default_rng(5)
    X = rng.uniform(-1, 1, size=(120, 2))
    y = np.sin(2 * X[:, 0]) + np.cos(3 * X[:, 1]) + 0.05 * rng.normal(size=120)
    fixed = {"log_outputscale": 0.0, "log_noise": -3.0}
    gpm = pma.embedding_gp(X, y, n_components=2, priors=fixed)
    result = pma.fit_laplace(gpm, n_restarts=4, population=0, random_seed=1, progressbar=False)
    assert result.diagnostics["n_symmetry"] == 1
    assert pareto_k(result, draws=2000) < 0.7


# Sampling.


def cheap_model():
    """Two parameters and four points."""
    X = np.linspace(-1, 1, 4)[:, None]
    return pma.ard_gp(X, np.sin(2 * X[:, 0]), priors={"log_outputscale": 0.0})


CHEAP = {
    "chains": 1,
    "cores": 1,
    "random_seed": 1,
    "progressbar": False,
    "compute_convergence_checks": False,
    "compile_kwargs": {"mode": "FAST_COMPILE"},
}


@pytest.mark.parametrize("step", ["slice", "nuts"])
def test_sampling_gives_a_trace_to_predict_from(step):
    gpm = cheap_model()
    trace = pma.sample(gpm, draws=20, tune=20, step=step, **CHEAP)
    assert dict(trace["posterior"].sizes)["draw"] == 20
    assert trace["posterior"]["lengthscale"].dims == ("chain", "draw", "input")
    prediction = pma.predict(trace, [[0.3]], model=gpm)
    assert prediction.attrs["method"] == "trace"
    assert np.isfinite(prediction.to_array()).all()


def test_sampling_takes_a_step_method():
    gpm = cheap_model()
    with gpm.model:
        step = pm.Metropolis(compile_kwargs=CHEAP["compile_kwargs"])
    trace = pma.sample(gpm, draws=5, tune=5, step=step, **CHEAP)
    assert trace["posterior"].sizes["draw"] == 5


def test_unknown_steps_are_refused():
    with pytest.raises(ValueError, match="step must be one of nuts, slice or a PyMC step method"):
        pma.sample(cheap_model(), step="hmc")
