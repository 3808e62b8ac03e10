"""``from_latent``: a user's own latent GP and likelihood, against builders' models and draws, and what is refused."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from scipy import stats

import pymc_active as pma

RNG = np.random.default_rng(20261129)
X = np.sort(RNG.uniform(0, 1, 12))[:, None]
F = 1.5 * np.sin(6 * X[:, 0])
COUNTS, YES = RNG.poisson(np.exp(F)), (RNG.uniform(size=12) < 0.5).astype(int)
EXPOSURE = np.linspace(0.5, 2, 12)


def latent(likelihood, y=COUNTS, *, x=X, mean=pm.gp.mean.Zero, **prior):
    """A GP with the user's own kernel and priors, and its model; ``likelihood`` is given f and the data."""
    with pm.Model() as model:
        scale, ls = pm.HalfNormal("scale", 1.5), pm.InverseGamma("ls", 3, 1)
        kernel = scale**2 * pm.gp.cov.Matern52(1, ls=ls) + pm.gp.cov.Constant(0.1)
        gp = pm.gp.Latent(mean_func=mean(), cov_func=kernel)
        f = gp.prior("f", X=pm.Data("X", x), **prior)
        likelihood(f, pm.Data("y_data", y))
    return gp, model


def gamma(f, y):
    pm.Gamma("y", mu=pt.exp(f), sigma=pt.exp(f) * pm.HalfNormal("spread", 1), observed=y)


def bernoulli(f, y):
    pm.Bernoulli("y", logit_p=f, observed=y)


def counted(f, y):
    pm.Poisson("y", mu=pm.Data("minutes", EXPOSURE) * pt.exp(f), observed=y)


@pytest.mark.parametrize(
    ("name", "y", "sizes"),
    [
        ("bernoulli", YES, {}),
        ("poisson", COUNTS, {"exposure": EXPOSURE}),
        ("negative_binomial", COUNTS, {}),
        ("binomial", YES + 2, {"y_trials": np.full(12, 7)}),
    ],
)
def test_it_is_the_builders_model_of_the_same_kind(name, y, sizes):
    builders = pma.ard_gp(X, y, likelihood=name, **sizes)
    own = pma.from_latent(builders.gp, "y", model=builders.model)
    assert own.labels == builders.labels
    thetas = 0.4 * RNG.normal(size=(3, own.n_parameters))
    theirs, ours = builders.posterior(), own.posterior()
    for theta in thetas:
        expected, gradient = theirs.value_and_gradient(theta)
        value, slope = ours.value_and_gradient(theta)
        np.testing.assert_allclose(value, expected, atol=1e-6)
        # Sites are found to 1e-9 nats, of which slopes have the square root.
        np.testing.assert_allclose(slope, gradient, atol=1e-3)
    np.testing.assert_allclose(ours.values(thetas), theirs.values(thetas), atol=0.03)
    mean, variance = RNG.normal(size=(1, 3)), np.array([[0.1, 0.5, 1.0]])
    for size in (1.0, 3.0) if sizes else (1.0,):
        phi = [theirs.phi(theirs.full(thetas[:1])), ours.phi(thetas[:1])]
        both = [
            one.likelihood.moments(mean, variance, size, part) for one, part in zip((theirs, ours), phi, strict=True)
        ]
        np.testing.assert_allclose(both[1][0], both[0][0], rtol=1e-6)
        # Sums over bins of counts, where these are large.
        np.testing.assert_allclose(both[1][1], both[0][1], rtol=0.1)
        noises = [
            one.likelihood.noise(mean[0], 0 * mean[0], size, [c[0] for c in part])
            for one, part in zip((theirs, ours), phi, strict=True)
        ]
        np.testing.assert_allclose(noises[1], noises[0], rtol=0.03)
    rates = [0.2, 0.7]
    np.testing.assert_allclose(own.likelihood.rate(own.likelihood.link(rates)), rates)
    np.testing.assert_allclose(own.likelihood.link(rates), builders.likelihood.link(np.array(rates)), rtol=1e-6)


def test_slopes_evidence_and_moments_of_the_users_own_model_are_those_of_draws():
    y = np.exp(F + 0.3 * RNG.normal(size=12))[:4]
    gp, model = latent(gamma, y, x=X[:4], mean=lambda: pm.gp.mean.Constant(pm.Normal("level")))
    posterior = pma.from_latent(gp, model=model).posterior()
    theta = 0.3 * RNG.normal(size=posterior.n_parameters)
    steps = 1e-4 * np.eye(len(theta))
    differences = [(posterior.value(theta + h) - posterior.value(theta - h)) / 2e-4 for h in steps]
    np.testing.assert_allclose(posterior.value_and_gradient(theta)[1], differences, atol=1e-3)
    K, mean = posterior._covariances(theta[None])[0][0], posterior._means(theta[None])[0]
    f, [spread] = RNG.multivariate_normal(mean, K + np.tril(K, -1).T, 400_000), posterior.phi(theta[None])
    known = stats.gamma.logpdf(y, np.exp(-2 * spread), scale=np.exp(f + 2 * spread)).sum(1)
    # Gaussians are not exact, by about 0.01 nats for few outcomes; draws by 0.01.
    brute = np.log(np.exp(known - known.max()).mean()) + known.max()
    np.testing.assert_allclose(posterior.likelihood_values(theta[None])[0], brute, atol=0.05)

    likelihood, mean, variance, phi = posterior.likelihood, np.array([[-1.0, 0.5]]), np.array([[0.01, 0.2]]), [[[-0.7]]]
    drawn = likelihood.draw(mean + np.sqrt(variance) * RNG.normal(size=(200_000, 1, 2)), 1.0, phi, RNG)
    expected, squares = likelihood.moments(mean, variance, 1.0, phi)
    np.testing.assert_allclose(drawn.mean(0), expected, rtol=0.01)
    np.testing.assert_allclose(drawn.var(0), squares, rtol=0.1)
    # The Fisher information of a gamma distribution in the log of its mean is its shape.
    np.testing.assert_allclose(likelihood.noise(mean[0], variance[0], 1.0, [[-0.7]]), np.exp(-1.4), rtol=0.05)


def test_a_learner_asks_and_nothing_of_the_model_changes():
    gp, model = latent(counted)
    gpm = pma.from_latent(gp, "f", model=model)
    named = {name: id(variable) for name, variable in model.named_vars.items()}
    learner = pma.Learner(gpm, "function", pool=np.linspace(0, 1, 9)[:, None], random_seed=1)
    for _ in range(5):
        at = learner.ask()
        learner.tell(at, [1.0], exposure=2.0)
    assert len(learner.y) == 17
    assert {name: id(variable) for name, variable in model.named_vars.items()} == named
    np.testing.assert_array_equal(gpm.y, COUNTS)
    found = pma.predict(learner.fit, X[:2], exposure=[1.0, 3.0])
    np.testing.assert_allclose(found.y_mean[1] / found.f_mean[1], 3)
    gpm.set_data(X[:3], COUNTS[:3], exposure=1.0)
    np.testing.assert_array_equal(model["minutes"].get_value(), 1)
    with pytest.raises(ValueError, match="y_trials does not belong to likelihood='poisson', which takes exposure"):
        gpm.set_data(X[:3], COUNTS[:3], y_trials=1.0)
    with pytest.raises(ValueError, match=r"outcomes of poisson cannot be 0\.5"):
        gpm.set_data(X[:3], [0.5, 1, 2])


def test_values_of_a_centered_function_are_integrated_too():
    made = [
        pma.from_latent(gp, model=model)
        for gp, model in (latent(bernoulli, YES, reparameterize=r) for r in (True, False))
    ]
    assert made[0].labels == made[1].labels == ["scale_log__", "ls_log__"]
    values = [gpm.posterior().value(np.zeros(2)) for gpm in made]
    np.testing.assert_allclose(*values, atol=1e-8)


def several(f, y):
    other = pm.gp.Latent(cov_func=pm.gp.cov.ExpQuad(1, 1.0)).prior("g", X=X)
    pm.Poisson("y", mu=pt.exp(f + other), observed=y)


def twice(f, y):
    bernoulli(f, y)
    pm.Normal("z", f, 1.0, observed=F)


REFUSED = [
    (several, {}, "depends on several GPs, also by g_rotated_"),
    (twice, {"y": YES}, "one observed variable, and nothing else, may depend on 'f'; y, z do"),
    (lambda f, y: pm.MvNormal("y", f, np.eye(12), observed=y), {}, "must be single numbers"),
    (lambda f, y: pm.Poisson("y", 1.0, observed=y), {}, "no observed variable depends on 'f'"),
    (lambda f, y: pm.Poisson("y", EXPOSURE * pt.exp(f), observed=y), {}, "what each row has, .* must be one pm.Data"),
    (lambda f, y: pm.Normal("y", f - f.mean(), 1.0, observed=y), {}, "an outcome depends on several rows"),
    (lambda f, y: pm.Poisson("y", pt.exp(f + pm.Normal("a")), observed=y), {}, r"pm.gp.mean.Constant\(intercept\)"),
    (lambda f, y: pm.Bernoulli("y", logit_p=-f, observed=y), {"y": YES}, "change the sign"),
    (
        lambda f, y: pm.StudentT("y", 4, mu=f, sigma=1.0, observed=y),
        {"y": F},
        "not log-concave.*likelihood='student_t'",
    ),
    (lambda f, y: pm.Laplace("y", f, 1.0, observed=y), {"y": F}, "has a kink"),
    (lambda f, y: pm.Normal("y", f + pm.modelcontext(None)["X"][:, 0], 1.0, observed=y), {}, "into the mean_func"),
    (lambda f, y: pm.Normal("y", f + pm.Data("z", EXPOSURE), 1.0, observed=y), {}, "proportional to z"),
    (lambda f, y: pm.Poisson("y", pt.exp(f) + pm.Bernoulli("b", 0.5), observed=y), {}, "must be continuous.*'b'"),
    (lambda f, y: pm.Bernoulli("y", logit_p=f, observed=y), {"y": YES + 1}, "outcomes of bernoulli cannot be 2"),
    (lambda f, y: pm.Categorical("y", logit_p=pt.stack([f, -f], 1), observed=y), {"y": YES}, "no mean of categorical"),
]


@pytest.mark.parametrize(("likelihood", "given", "says"), REFUSED, ids=[says[:25] for *_, says in REFUSED])
def test_what_is_refused_says_what_to_do(likelihood, given, says):
    gp, model = latent(likelihood, **given)
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
    with pytest.raises(ValueError, match=r"graphs are of marginal"):
        pma.graphs.log_posterior(pma.from_latent(gp, "y", model=model))
