"""MCMC on the same model, and what a comparison with it is made of."""

import itertools

import numpy as np
import pymc as pm
import pytest
from nightly import nightly
from numpy.testing import assert_allclose
from scipy.integrate import quad
from scipy.special import logsumexp
from scipy.stats import norm

import pymc_active as pma
from pymc_active.information.mixture_entropy import (
    mixture_entropy,
    mixture_entropy_gradient,
    symmetrized_kl,
)

pytestmark = pytest.mark.slow


# Entropies.


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


@pytest.mark.parametrize("seed", [6, 11, *nightly(0, 1, 2, 3, 4, 5, 7, 8, 9, 10)])
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


@pytest.mark.parametrize("n_components", [1, 4])
def test_gradient_of_the_entropy_is_its_central_difference(n_components):
    rng = np.random.default_rng(4)
    means, variances = rng.normal(size=(n_components, 3)), rng.uniform(0.1, 2, size=(n_components, 3))
    weights = np.arange(1.0, n_components + 1) / np.arange(1, n_components + 1).sum()
    gradients = mixture_entropy_gradient(means, variances, weights)
    for array, gradient in zip((means, variances), gradients, strict=True):
        for index in np.ndindex(*array.shape):
            here, values = array[index], []
            for sign in (1, -1):
                array[index] = here + sign * 1e-5
                values.append(mixture_entropy(means, variances, weights)[index[1]])
            array[index] = here
            assert_allclose(gradient[index], (values[0] - values[1]) / 2e-5, atol=1e-6)


@pytest.mark.parametrize(("m0", "v0", "m1", "v1"), [(0.0, 1.0, 0.0, 1.0), (0.3, 0.5, -0.4, 2.0), (5.0, 1.0, 4.0, 0.1)])
def test_symmetrized_kl_is_an_integral(m0, v0, m1, v1):
    p, q = norm(m0, np.sqrt(v0)), norm(m1, np.sqrt(v1))

    def integrand(y):
        return (p.pdf(y) - q.pdf(y)) * (p.logpdf(y) - q.logpdf(y))

    expected, _ = quad(integrand, -25, 25, points=[m0, m1], epsabs=1e-12)
    assert_allclose(symmetrized_kl(m0, v0, m1, v1), expected, rtol=0, atol=1e-9)


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


# Slices are taken in test_arviz.py.
@pytest.mark.parametrize("step", nightly("nuts", "slice"))
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
