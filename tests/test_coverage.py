"""Whether default fits are right on average: data drawn from a model, fitted, and compared with the truth."""

import numpy as np
import pymc as pm
import pytest
from numpy.testing import assert_allclose
from scipy.stats import kstest

import pymc_active as pma

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
