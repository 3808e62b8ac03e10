"""Models as users write them: each is fitted, predicts and asks, or one sentence says why not."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from pymc.distributions.transforms import ordered
from pytensor.compile.ops import wrap_py

import pymc_active as pma

RNG = np.random.default_rng(3)
N = 18
X, GROUP = np.sort(RNG.uniform(0, 10, N)), np.arange(N) % 3
LINE = 0.5 * X + 0.3 * RNG.normal(size=N)
COUNTS, YES = RNG.poisson(3, N), RNG.integers(2, size=N)


def slope():
    return pm.Normal("slope", 0, 0.3)


def x():
    return pm.Data("x", X)


def dose_response():
    d, low, top = pm.Data("dose", X), pm.Normal("low", 0, 1), pm.Normal("top", 5, 2)
    half, hill = pm.LogNormal("half", 1, 1), pm.LogNormal("hill", 0, 0.5)
    pm.Normal("y", low + top * d**hill / (half**hill + d**hill), pm.HalfNormal("sd", 0.5), observed=LINE)


def logistic_with_coords():
    data = pm.Data("X", np.c_[X, X**2], dims=("obs", "input"))
    pm.Bernoulli("y", logit_p=data @ pm.Normal("b", 0, 0.1, dims="input"), observed=YES, dims="obs")


def hierarchical():
    mu, tau = pm.Normal("mu", 0, 1), pm.HalfNormal("tau", 1)
    z = pm.Normal("z", 0, 1, dims="group")
    pm.Poisson("y", pt.exp(mu + tau * z[pm.Data("g", GROUP)] + slope() * x()), observed=COUNTS)


def centred_hierarchical():
    level = pm.Normal("level", pm.Normal("mu", 0, 1), pm.HalfNormal("tau", 1), dims="group")
    pm.Normal("y", level[pm.Data("g", GROUP)] + slope() * x(), 1, observed=LINE)


def mixture():
    mean = pm.Normal("mean", 0, 2, shape=2, transform=ordered, initval=[-1, 1])
    pm.NormalMixture("y", pm.Dirichlet("w", np.ones(2)), mean[None] + 0.1 * x()[:, None], 1.0, observed=LINE)


def categorical():
    b = pm.Normal("b", 0, 1, shape=3)
    pm.Categorical("y", logit_p=b * x()[:, None], observed=GROUP)


def negative_binomial():
    pm.NegativeBinomial("y", mu=pt.exp(1 + slope() * x()), alpha=pm.Gamma("a", 2, 1), observed=COUNTS)


def zero_inflated():
    pm.ZeroInflatedPoisson("y", pm.Beta("psi", 2, 2), pt.exp(1 + slope() * x()), observed=COUNTS * YES)


def hurdle():
    rate = 2 / pt.exp(slope() * x())
    pm.HurdleGamma("y", pm.Beta("psi", 2, 2), alpha=2.0, beta=rate, observed=YES * (0.1 + np.abs(LINE)))


def truncated():
    pm.TruncatedNormal("y", mu=slope() * x(), sigma=1.0, lower=0, observed=np.abs(LINE))


def beta():
    mean, k = pm.math.invlogit(slope() * x()), pm.Gamma("k", 2, 0.2)
    pm.Beta("y", mean * k, (1 - mean) * k, observed=RNG.beta(3, 3, N))


def beta_binomial():
    p = pm.math.invlogit(slope() * x())
    pm.BetaBinomial("y", alpha=4 * p, beta=4 * (1 - p), n=pm.Data("n", np.full(N, 9)), observed=COUNTS)


def weibull():
    pm.Weibull("y", alpha=pm.Gamma("a", 4, 2), beta=pt.exp(slope() * x()), observed=np.abs(LINE) + 0.1)


def student_t():
    mu = pm.Deterministic("mu", slope() * x())
    pm.StudentT("y", pm.Gamma("nu", 2, 0.1), mu=mu, sigma=pm.HalfNormal("sd", 1), observed=LINE)


def loop():
    susceptible, ill, path = pt.as_tensor(990.0), pt.as_tensor(10.0), []
    infect, recover = pm.LogNormal("infect", -0.2, 0.4), pm.LogNormal("recover", -1.2, 0.3)
    for _ in range(8):
        new = infect * susceptible * ill / 1000
        susceptible, ill = susceptible - new, ill + new - recover * ill
        path.append(ill)
    pm.Poisson("y", pt.stack(path)[pm.Data("day", np.arange(8))], observed=[11, 14, 20, 27, 33, 40, 61, 80])


def lag_as_data():
    pm.Normal("y", pm.Normal("rho") * pm.Data("before", LINE[:-1]), 1.0, observed=LINE[1:])


def basis_functions():
    cov = pm.gp.cov.ExpQuad(1, ls=pm.InverseGamma("ls", 3, 1.5))
    phi, root = pm.gp.HSGP(m=[8], c=1.5, cov_func=cov).prior_linearized(pm.Data("X", X[:, None] / 5 - 1))
    pm.Poisson("y", pt.exp(phi @ (pm.Normal("b", shape=8) * root)), observed=pm.Data("y_data", COUNTS))


def potential():
    a, b = pm.Normal("a"), slope()
    pm.Potential("sum", -10 * (a + b - 1) ** 2)
    pm.Normal("y", a + b * x(), 1.0, observed=LINE)


def correlated_effects():
    chol, *_ = pm.LKJCholeskyCov("chol", n=2, eta=2, sd_dist=pm.HalfNormal.dist(1))
    effects, g = pm.Normal("z", 0, 1, shape=(3, 2)) @ chol.T, pm.Data("g", GROUP)
    pm.Normal("y", effects[g, 0] + effects[g, 1] * x(), 1.0, observed=LINE)


WORKING = [
    dose_response, logistic_with_coords, hierarchical, centred_hierarchical, mixture, categorical, negative_binomial,
    zero_inflated, hurdle, truncated, beta, beta_binomial, weibull, student_t, loop, lag_as_data, basis_functions,
    potential, correlated_effects,
]  # fmt: skip


def made(write):
    with pm.Model(coords={"group": list("abc"), "input": ["x", "x2"]}) as model:
        write()
    return model


@pytest.mark.nightly
@pytest.mark.parametrize("write", WORKING, ids=lambda write: write.__name__)
def test_a_model_is_fitted_and_asks(write):
    model = made(write)
    names = [data.name for data in model.data_vars if data.name != "y_data"]
    pool = {name: model[name].get_value()[::4] for name in names}
    learner = pma.Learner(model, "parameters", pool=pool, observed="y", random_seed=1, repeat=True)
    asked = learner.ask(2, progressbar=False)
    assert list(asked.columns) == learner.gpm.inputs
    score, units = learner.best_score()
    assert 0 < score < 5
    assert units == "nats"
    learner.tell(asked.iloc[:1], float(learner.y[-1]))
    assert np.isfinite(learner.fit.ensemble.thetas).all()
    assert (learner.fit.ensemble.thetas.std(0) > 0).all()
    prediction = pma.predict(learner.fit, pool, quantiles=(0.1, 0.9))
    assert np.isfinite(prediction.y_quantile).all()
    assert (prediction.y_quantile[1] >= prediction.y_quantile[0]).all()


def vector_outcome():
    p = pm.math.softmax(pm.Normal("b", shape=3) * x()[:, None], axis=1)
    pm.Multinomial("y", n=5, p=p, observed=RNG.multinomial(5, np.ones(3) / 3, N))


def two_at_each_row():
    pm.Normal("y", x()[:, None] * pm.Normal("b", shape=2), 1.0, observed=np.c_[LINE, LINE])


def with_gaps():
    pm.Normal("y", slope() * x(), 1.0, observed=np.where(X > 8, np.nan, LINE))


def autoregression():
    pm.AR("y", [pm.Normal("rho")], sigma=1.0, init_dist=pm.Normal.dist(0, 10), observed=LINE)


def latent_gp():
    gp = pm.gp.Latent(cov_func=pm.gp.cov.ExpQuad(1, ls=pm.InverseGamma("ls", 3, 1.5)))
    pm.Poisson("y", pt.exp(gp.prior("f", X=pm.Data("x", X[:, None]))), observed=COUNTS)


def no_gradient():
    @wrap_py(itypes=[pt.dvector, pt.dscalar], otypes=[pt.dvector])
    def solve(time, rate):
        return np.exp(-rate * time)

    pm.Normal("y", solve(x(), pm.Beta("rate", 2, 2)), 0.1, observed=LINE)


REFUSED = [
    (two_at_each_row, "has 2 dimensions"),
    (with_gaps, "has missing values, which PyMC imputes"),
    (vector_outcome, "entries depend on each other"),
    (autoregression, "use x = pm\\.Data"),
    (latent_gp, "pm\\.gp\\.HSGP in place of one latent value"),
]


@pytest.mark.parametrize(("write", "words"), REFUSED, ids=lambda one: getattr(one, "__name__", ""))
def test_a_model_that_cannot_ask_says_why(write, words):
    with pytest.raises(ValueError, match=words):
        pma.Learner(made(write), "parameters", pool=X[:, None], random_seed=1)


@pytest.mark.parametrize(
    "write",
    [
        with_gaps,
        *(
            pytest.param(one, marks=pytest.mark.nightly)
            for one in (autoregression, two_at_each_row, vector_outcome, latent_gp)
        ),
    ],
    ids=lambda write: write.__name__,
)
def test_it_is_fitted_all_the_same(write):
    fit = pma.fit(made(write), n_particles=64, random_seed=1, progressbar=False)
    assert np.isfinite(fit.log_evidence)
    assert len(fit.to_datatree(random_seed=0)["posterior"].data_vars) >= 1


def test_a_model_without_gradients_says_so():
    with pytest.raises(ValueError, match="has no gradient"):
        pma.fit(made(no_gradient), random_seed=1, progressbar=False)
