"""Whether default fits are right on average: data drawn from a model, fitted, and compared with the truth."""

import numpy as np
import pymc as pm
import pytest
from numpy.testing import assert_allclose
from scipy.stats import kstest

import pymc_active as pma
from pymc_active.process.process import Process

pytestmark = pytest.mark.nightly

PRIORS = {"log_outputscale": pm.Normal.dist(0, 0.5), "log_noise": pm.Normal.dist(np.log(0.2), 0.3)}
MODELS = {
    "ard": lambda X, y: pma.ard_gp(X, y, priors=PRIORS),
    "composite": lambda X, y: pma.composite_gp(X, y, "SE + LIN", mean="zero"),
}


@pytest.mark.parametrize("kind", MODELS)
def test_ranks_of_the_truth_are_uniform(kind):
    """Of every parameter among its draws, and of a new observation in its prediction; 100 data sets of eight points."""
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, (9, 1))
    # PyMC itself draws the data.
    drawn = pm.sample_prior_predictive(100, MODELS[kind](X, np.zeros(9)).model, random_seed=4)
    gpm = MODELS[kind](X[:8], np.zeros(8))
    ranks, quantiles = [], []
    for i in range(100):
        y = drawn["prior_predictive"][gpm.name].to_numpy()[0, i]
        gpm.set_data(X[:8], y[:8])
        fit = pma.fit(gpm, random_seed=i, progressbar=False)
        draws = fit.to_datatree(draws=100, random_seed=i)["posterior"]
        truth = drawn["prior"].isel(chain=0, draw=i)
        ranks.append([float((draws[name] < truth[name]).mean()) for name in draws if name.startswith("log_")])
        grid = np.linspace(0.01, 0.99, 99)
        levels = pma.predict(fit, X[8:], quantiles=grid).y_quantile.to_numpy()[:, 0]
        quantiles.append(np.interp(y[8], levels, grid, 0, 1))
    for values in [*np.transpose(ranks), quantiles]:
        assert kstest(values + rng.uniform(0, 0.01, 100), "uniform").pvalue > 0.003
    inside = np.mean([0.05 < q < 0.95 for q in quantiles])
    assert_allclose(inside, 0.9, atol=3 * np.sqrt(0.09 / 100))


DOSE = np.array([0.1, 0.5, 1.0, 2.0, 5.0, 20.0])
GROUP = np.repeat(np.arange(4), 3)


def dose_response():
    low, top, half = pm.Normal("low", 0, 1), pm.Normal("top", 5, 2), pm.LogNormal("half", 0, 1)
    dose = pm.Data("dose", DOSE)
    pm.Normal("y", low + top * dose / (half + dose), pm.HalfNormal("sd", 0.5), observed=np.zeros(len(DOSE)))


def logistic():
    x = pm.Data("x", np.linspace(-2, 2, 12))
    pm.Bernoulli("y", logit_p=pm.Normal("a", 0, 1.5) + pm.Normal("b", 0, 1.5) * x, observed=np.zeros(12, int))


def hierarchical():
    z, tau = pm.Normal("z", shape=4), pm.HalfNormal("tau", 1)
    pm.Poisson("y", pm.math.exp(pm.Normal("mu") + tau * z[pm.Data("g", GROUP)]), observed=np.zeros(12, int))


def decay():
    t = pm.Data("t", np.linspace(0, 6, 8))
    mean = pm.LogNormal("size", 1, 0.5) * pm.math.exp(-pm.LogNormal("rate", -1, 0.7) * t)
    pm.StudentT("y", 4, mu=mean, sigma=pm.LogNormal("sd", -2, 0.5), observed=np.zeros(8))


@pytest.mark.filterwarnings("ignore:annealing was doubtful")
@pytest.mark.parametrize("write", [dose_response, logistic, hierarchical, decay], ids=lambda write: write.__name__)
def test_intervals_of_any_model_cover_the_truth(write):
    """Of 100 data sets that PyMC draws, with every parameter: ranks are uniform, and 90 % intervals hold 90 %."""
    with pm.Model() as model:
        write()
    drawn = pm.sample_prior_predictive(100, model, random_seed=4)
    process = Process(model)
    X, ranks = process.X, []
    for i in range(100):
        process.set_data(X, drawn["prior_predictive"]["y"].to_numpy()[0, i])
        draws = pma.fit(process, random_seed=i, progressbar=False).to_datatree(random_seed=i)["posterior"]
        truth = drawn["prior"].isel(chain=0, draw=i)
        names = process.free
        ranks.append(np.concatenate([np.ravel((draws[name] < truth[name]).mean(("chain", "draw"))) for name in names]))
    ranks = np.array(ranks)
    inside = ((ranks > 0.05) & (ranks < 0.95)).mean()
    # Parameters of one data set are not independent, and count as one.
    assert_allclose(inside, 0.9, atol=3 * np.sqrt(0.09 / 100))
    for values in ranks.T:
        assert kstest(np.clip(values + np.random.default_rng(0).uniform(0, 0.002, 100), 0, 1), "uniform").pvalue > 0.002
