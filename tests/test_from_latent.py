"""``from_latent``: a user's own latent GP and likelihood, against builders' models and draws, and what is refused."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from scipy import stats
from scipy.special import expit

import pymc_active as pma
from pymc_active.likelihoods.binary import LogitBernoulli, LogitBinomial
from pymc_active.predictions.mixtures import mixture

RNG = np.random.default_rng(20261129)
X = np.sort(RNG.uniform(0, 1, 12))[:, None]
F = 1.5 * np.sin(6 * X[:, 0])
COUNTS, YES = RNG.poisson(np.exp(F)), (RNG.uniform(size=12) < 0.5).astype(int)
EXPOSURE, TRIALS = np.linspace(0.5, 2, 12), np.full(12, 7)


def latent(likelihood, y=COUNTS, **prior):
    """A GP with the user's own kernel and priors, and its model; ``likelihood`` is given f and the data."""
    with pm.Model() as model:
        scale, mean = pm.HalfNormal("scale", 1.5), pm.gp.mean.Constant(pm.Normal("level"))
        kernel = scale**2 * pm.gp.cov.Matern52(1, ls=pm.InverseGamma("ls", 3, 1))
        gp = pm.gp.Latent(mean_func=mean, cov_func=kernel)
        likelihood(gp.prior("f", X=pm.Data("X", X), **prior), pm.Data("y_data", y))
    return gp, model


def bernoulli(f, y):
    pm.Bernoulli("y", logit_p=f, observed=y)


def binomial(f, y):
    pm.Binomial("y", n=pm.Data("trials", TRIALS), logit_p=f, observed=y)


def negative_binomial(f, y):
    mu = pt.exp(f + pt.log(pm.Data("hours", EXPOSURE)))
    pm.NegativeBinomial("y", mu=mu, alpha=pm.Exponential("alpha", 0.2), observed=y)


def student_t(f, y):
    nu = 2 + pm.Exponential("nu_above_2", 0.2)
    pm.StudentT("y", mu=f, sigma=pm.HalfNormal("sigma", 1), nu=nu, observed=y)


BUILT = [("poisson", COUNTS, {"exposure": EXPOSURE})]
BUILT += [
    pytest.param(*one, marks=pytest.mark.nightly)
    for one in (
        ("student_t", F, {}),
        ("binomial", YES + 2, {"y_trials": TRIALS}),
        ("bernoulli", YES, {}),
        ("negative_binomial", COUNTS, {}),
    )
]


@pytest.mark.parametrize(("name", "y", "sizes"), BUILT)
def test_it_is_the_builders_model_of_the_same_kind(name, y, sizes):
    builders = pma.ard_gp(X, y, likelihood=name, **sizes)
    own = pma.from_latent(builders.gp, "y", model=builders.model)
    assert own.labels == builders.labels
    theirs, ours, thetas = builders.posterior(), own.posterior(), 0.4 * RNG.normal(size=(3, own.n_parameters))
    for found, expected in zip(ours.value_and_gradient(thetas[0]), theirs.value_and_gradient(thetas[0]), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-9)
    # Noise of real outcomes is in units of f, and the builders' are others.
    noise = 0.0 if name == "student_t" else 0.3
    found, expected = (one.log_likelihoods(thetas, noise) for one in (ours, theirs))
    np.testing.assert_allclose(found.value, expected.value, atol=1e-9)
    np.testing.assert_allclose(found.gradient, expected.gradient, atol=1e-9)
    x, y_map = np.linspace(0, 1, 4)[:, None], theirs.y_map
    found, known = ours.moments(ours.state(thetas[0]), x), theirs.moments(theirs.state(thetas[0]), theirs.x_map(x))
    np.testing.assert_allclose(found.mean, y_map.shift + y_map.scale * known.mean, atol=1e-9)
    np.testing.assert_allclose(found.variance, y_map.scale**2 * known.variance, atol=1e-9)


OWN = [(negative_binomial, COUNTS)]
OWN += [
    pytest.param(*one, marks=pytest.mark.nightly) for one in ((bernoulli, YES), (binomial, YES + 2), (student_t, F))
]


@pytest.mark.parametrize(("likelihood", "y"), OWN)
def test_slopes_with_the_users_own_priors_are_those_of_differences(likelihood, y):
    gp, model = latent(likelihood, y)
    posterior = pma.from_latent(gp, model=model).posterior()
    theta = 0.3 * RNG.normal(size=posterior.n_parameters)
    differences = [(posterior.value(theta + h) - posterior.value(theta - h)) / 2e-4 for h in 1e-4 * np.eye(len(theta))]
    slope = posterior.value_and_gradient(theta)[1]
    # Sites are found to 1e-9 nats, of which slopes have the square root.
    np.testing.assert_allclose(slope, differences, atol=1e-3)
    # Of particles, to 1e-2 nats.
    of_particles = posterior.log_likelihoods(theta[None]).gradient[0] + posterior.log_priors(theta[None])[1][0]
    np.testing.assert_allclose(of_particles, slope, rtol=0.1, atol=0.1)


@pytest.mark.parametrize(("mean", "variance"), [(0.3, 0.2), (-2.0, 3.0), (5.0, 20.0)])
def test_logits_are_those_of_sums_and_a_fine_grid(mean, variance):
    f = mean + np.sqrt(variance) * np.linspace(-9, 9, 40_001)
    share, k = stats.norm.pdf(f, mean, np.sqrt(variance)) * (f[1] - f[0]), np.arange(4.0)
    m, v, likelihood = np.array([mean]), np.array([variance]), LogitBinomial()
    likely = stats.binom.pmf(k[:, None], 3, expit(f)) @ share
    moments = [k @ likely, np.square(k - k @ likely) @ likely]
    np.testing.assert_allclose(np.ravel(likelihood.moments(m, v, 3.0, ())), moments, rtol=1e-6)
    np.testing.assert_allclose(likelihood.tilted(m, v, k, np.array([3.0]), ()).log_z, np.log(likely), atol=1e-4)
    # The variance that an outcome is expected to leave is the one that the measurement does.
    labels, likelihood = [share * expit(-f), share * expit(f)], LogitBernoulli()
    left = sum(p @ np.square(f - (p @ f) / p.sum()) for p in labels)
    np.testing.assert_allclose(1 / (1 / v + 1 / likelihood.noise(m, v, 1.0, ())), left, rtol=1e-5)
    found = likelihood.log_marginal(k[:2, None, None], m, v, 1.0, ())
    np.testing.assert_allclose(found.ravel(), np.log([p.sum() for p in labels]), atol=1e-6)


@pytest.mark.parametrize(
    ("likelihood", "y", "size"),
    [(binomial, YES + 2, 4.0), pytest.param(negative_binomial, COUNTS, 2.0, marks=pytest.mark.nightly)],
)
def test_a_learner_asks_and_nothing_of_the_model_changes(likelihood, y, size):
    gp, model = latent(likelihood, y)
    gpm = pma.from_latent(gp, "f", model=model)
    named, known = {k: id(v) for k, v in model.named_vars.items()}, {gpm.likelihood.size_name: size}
    learner = pma.Learner(gpm, "maximum", pool=np.linspace(0, 1, 9)[:, None], random_seed=1)
    learner.tell(learner.ask(), [1.0], **known)
    assert {k: id(v) for k, v in model.named_vars.items()} == named
    np.testing.assert_array_equal(gpm.y, y)
    with pytest.raises(ValueError, match="does not belong to likelihood"):
        gpm.set_data(X, y, **{"exposure" if likelihood is binomial else "y_trials": 1.0})
    gpm.set_data(X[:3], y[:3], **known)
    np.testing.assert_array_equal(gpm.data.sizes, size)


def fitted(likelihood, y, x, **known):
    """Predictions at x, those of particles, their weights, and parameters by name."""
    gp, model = latent(likelihood, y, reparameterize=False)
    gpm = pma.from_latent(gp, model=model)
    assert gpm.labels[:3] == ["scale_log__", "level", "ls_log__"]
    fit = pma.fit(gpm, random_seed=1, progressbar=False)
    p, [part] = mixture(fit.ensemble, x), fit.ensemble.parts
    return pma.predict(fit, x, **known), p.means, p.variances, p.weights, gpm.constrain(part.z)


def test_predicted_outcomes_are_those_of_simulations():
    x = np.array([[0.2], [0.9]])
    found, mean, variance, weights, _ = fitted(binomial, YES + 2, x, y_trials=5)
    member = RNG.choice(len(weights), size=200_000, p=weights)
    f = mean[member] + np.sqrt(variance[member]) * RNG.normal(size=(len(member), 2))
    y = RNG.binomial(5, expit(f))
    # Four standard errors, of numbers up to 5 and of squares up to 25.
    np.testing.assert_allclose(found.y_mean, y.mean(0), atol=0.02)
    np.testing.assert_allclose(found.y_variance, y.var(0), atol=0.05)


def several(f, y):
    other = pm.gp.Latent(cov_func=pm.gp.cov.ExpQuad(1, 1.0)).prior("g", X=X)
    pm.Poisson("y", mu=pt.exp(f + other), observed=y)


def twice(f, y):
    bernoulli(f, y)
    pm.Normal("z", f, 1.0, observed=F)


OTHER = "the log density is another function"
REFUSED = [
    (several, COUNTS, f"{OTHER}.*another GP into a sum"),
    (lambda f, y: pm.Poisson("y", pt.exp(f + pm.Normal("a")), observed=y), COUNTS, f"{OTHER}.*intercept.*mean_func"),
    (lambda f, y: pm.Poisson("y", pt.exp(f - f.mean()), observed=y), COUNTS, OTHER),
    (lambda f, y: pm.Poisson("y", pt.softplus(f), observed=y), COUNTS, OTHER),
    (lambda f, y: pm.Poisson("y", EXPOSURE * pt.exp(f), observed=y), COUNTS, f"{OTHER}.*exposure.*one pm.Data"),
    (lambda f, y: pm.Binomial("y", n=7, logit_p=f, observed=y), YES, f"{OTHER}.*the n of pm.Binomial"),
    (lambda f, y: pm.StudentT("y", 1.5, mu=f, sigma=1, observed=y), F, "may be 2 or less"),
    (lambda f, y: pm.StudentT("y", 4, mu=f, sigma=pt.exp(f), observed=y), F, "depends on rows"),
    (lambda f, y: pm.Normal("y", f, 1.0, observed=y), F, r"is normal: pm\.gp\.Marginal and pma\.from_marginal"),
    (lambda f, y: pm.Laplace("y", f, 1.0, observed=y), F, "is not recognised.*pm.Bernoulli or pm.Binomial"),
    (lambda f, y: pm.MvNormal("y", f, np.eye(12), observed=y), F, "not recognised"),
    (lambda f, y: pm.Poisson("y", 1.0, observed=y), COUNTS, "must depend on 'f'; here does nothing"),
    (twice, YES, "and nothing else, must depend on 'f'; here does y, z"),
    (lambda f, y: pm.Poisson("y", pt.exp(f) + pm.Bernoulli("b", 0.5), observed=y), COUNTS, "must be continuous.*'b'"),
    (bernoulli, YES + 1, "outcomes of likelihood='bernoulli' are 0 and 1"),
]


@pytest.mark.parametrize(("likelihood", "y", "says"), REFUSED)
def test_what_is_refused_says_what_to_do(likelihood, y, says):
    gp, model = latent(likelihood, y)
    with pytest.raises(ValueError, match=says):
        pma.from_latent(gp, model=model)


def test_other_arguments_are_refused():
    gp, model = latent(bernoulli, YES)
    with pytest.raises(TypeError, match=r"pm\.gp\.Latent; got Marginal.*pma\.from_marginal"):
        pma.from_latent(pm.gp.Marginal(cov_func=gp.cov_func), model=model)
    with pytest.raises(ValueError, match=r"call gp\.prior"):
        pma.from_latent(pm.gp.Latent(cov_func=gp.cov_func), model=model)
    with pytest.raises(ValueError, match="is not in this model"):
        pma.from_latent(gp, model=latent(bernoulli, YES)[1])
    with pytest.raises(ValueError, match=r"no observed variable 'z'; it has \['y'\]"):
        pma.from_latent(gp, "z", model=model)
    with pytest.raises(TypeError, match="pass model="):
        pma.from_latent(gp, "y")
