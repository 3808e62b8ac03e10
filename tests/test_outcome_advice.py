"""What outputs call for: likelihoods of mapped ones, failures, slips; kernel searches of logarithms."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy.stats import lognorm, multivariate_normal, yeojohnson

import pymc_active as pma
from pymc_active.particles.outcome_advice import _far_from_others, best_map, outcome_advice
from pymc_active.predictions.predict import predict_from_logarithms
from pymc_active.structure import fitted_kernels, kernel_search
from pymc_active.support.scaling import penalties

BOX = [(-1.0, 1.0)] * 2


def steep(X):
    return -np.exp(7 * np.hypot(*(X - 0.3).T))


def smooth(X):
    return np.sin(2 * X[:, 0]) + X[:, 1]


def fitted(y_of, n, seed=0, **more):
    X = np.random.default_rng(seed).uniform(-1, 1, (n, 2))
    return pma.fit_laplace(pma.ard_gp(X, y_of(X), bounds=BOX, **more), n_restarts=2, random_seed=1, progressbar=False)


def test_the_gain_is_that_of_a_direct_density():
    fit = fitted(steep, 25, kernel="ExpQuad")
    name, gain = best_map(fit)
    theta, gpm = fit.point, fit.gpm
    Z = gpm.x_map(gpm.X)
    distance = (Z[:, None] - Z) / np.exp(theta["log_lengthscale"])
    K = np.exp(2 * theta["log_outputscale"]) * np.exp(-0.5 * (distance**2).sum(-1))
    K += np.exp(2 * theta["log_noise"]) * np.eye(len(Z))
    level = np.median(gpm.y)
    unit = 1.4826 * np.median(np.abs(gpm.y - level))

    def log_density(power):
        def of(y):
            return yeojohnson((y - level) / unit, power)

        z, ones = of(gpm.y), np.ones(len(Z))
        inverse = np.linalg.inv(K)
        center = ones @ inverse @ z / (ones @ inverse @ ones)
        variance = (z - center) @ inverse @ (z - center) / len(z)
        h = 1e-5 * np.abs(gpm.y)
        slope = (of(gpm.y + h) - of(gpm.y - h)) / (2 * h)
        return multivariate_normal.logpdf(z, center * ones, variance * K) + np.log(slope).sum()

    assert name == "warped"
    assert gain > 5
    np.testing.assert_allclose(
        gain, max(log_density(p) for p in np.linspace(1e-3, 1.999, 200)) - log_density(1), rtol=1e-3
    )


def test_positive_data_over_decades_get_the_logarithm():
    name, gain = best_map(fitted(lambda X: np.exp(6 * X[:, 0] + 2 * np.sin(3 * X[:, 1])), 30))
    assert name == "lognormal"
    assert gain > 5


@pytest.mark.parametrize(
    ("y", "row"),
    [
        ([48, 52, 49, 4900, 51, 50], 3),
        ([50, 50, 50, -3, 50], 3),
        ([0.5, -4800, 1, 0, 2], 1),
        ([48, 52, 49, 4900, 51, 2600], None),
        ([48, 52, 49, 60, 51, 50], None),
        ([5, 5], None),
        ([5], None),
    ],
)
def test_a_slip_is_a_single_value_far_from_all_others(y, row):
    assert _far_from_others(np.array(y, float)) == row


@pytest.mark.parametrize(
    ("y", "rows"),
    [
        ([-1000, 0.2, -1000, 0.9, 0.5], [0, 2]),
        ([0.2, 1e6, 0.9, 1e6, 1e6, 0.5], [1, 3, 4]),
        # A single value may be a slip, levels are no penalties, nor are ends that many values share.
        ([-1000, 0.2, 0.9, 0.5], []),
        ([0, 0, 1, 1, 1], []),
        ([0, 0, 0, 9, 10], []),
        ([0, 0, 1, 2, 3], []),
        ([3, 3], []),
    ],
)
def test_penalties_are_equal_values_far_from_all_others(y, rows):
    assert penalties(np.array(y, float)).tolist() == rows


def test_a_fit_offers_a_map_where_it_is_needed():
    """Not of what is mapped already."""
    rng = np.random.default_rng(2)
    X = rng.uniform(size=(60, 2))
    logs = 1.5 * np.sin(5 * X[:, 0]) + np.cos(4 * X[:, 1]) + 0.1 * rng.normal(size=60)
    box = [(0, 1)] * 2
    with pytest.warns(pma.DataWarning, match="^outputs whose logarithms are normal.*likelihood='lognormal'$"):
        pma.fit(pma.ard_gp(X, np.exp(logs), bounds=box), random_seed=0, progressbar=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error", pma.DataWarning)
        pma.fit(pma.ard_gp(X, np.exp(logs), bounds=box, likelihood="lognormal"), random_seed=0, progressbar=False)


def test_two_points_call_for_no_map():
    with warnings.catch_warnings():
        warnings.simplefilter("error", pma.DataWarning)
        pma.fit(pma.ard_gp([[0.3], [0.6]], [1e-10, 1.0], bounds=[(0, 1)]), random_seed=0, progressbar=False)


def test_penalties_are_named_in_place_of_a_map():
    punished = fitted(lambda X: np.where(X[:, 0] > 0.6, -1000.0, X[:, 0] + X[:, 1]), 20)
    assert re.match(r"\d+ values of y are -1000, far .* tell NaN in their place", outcome_advice(punished))


def test_a_slip_is_told_before_a_map_is_offered():
    def slipped(rows):
        return fitted(lambda X: (50 + 2 * X[:, 0] + X[:, 1]) * np.where(np.isin(np.arange(20), rows), 100, 1), 20)

    text = outcome_advice(slipped([7]))
    assert re.match(r"y\[7\] = \d+\.?\d* is far .* slip, correct it; .*, tell NaN. If neither, outputs whose", text)
    assert outcome_advice(slipped([7, 8])).startswith("outputs whose")


MONTHS = np.arange(48.0)
ADDED = MONTHS / 24 + np.sin(2 * np.pi * MONTHS / 12) + 0.1 * np.random.default_rng(5).normal(size=48)


def searched(y, bases=("PER", "LIN"), **keywords):
    """A search of few kernels for a series with a trend and a season."""
    return pma.search.compositional_kernel_search(
        MONTHS[:, None], y, bases=bases, random_seed=0, progressbar=False, **keywords
    )


@pytest.fixture(scope="module")
def multiplied():
    with pytest.warns(pma.DataWarning, match=r"^kernel search: the logarithm of y is \d+ nats more probable by .*LIN"):
        return searched(np.exp(ADDED), period=12, depth=2)


@pytest.mark.nightly
@pytest.mark.slow
def test_a_kernel_search_goes_on_with_logarithms_where_changes_multiply(multiplied):
    """It finds what a search of the logarithms finds, and predicts in the units of y."""
    alone = searched(ADDED, period=12, depth=2)
    assert alone.logarithm is None
    assert multiplied.logarithm.best.gpm.expression == alone.best.gpm.expression
    x = MONTHS[:5, None] + 50
    options = {"quantiles": [0.05, 0.5, 0.95], "y_new": np.exp(ADDED[:5])}
    expected = predict_from_logarithms(multiplied.logarithm.average, x, **options)
    xr.testing.assert_identical(multiplied.predict(x, **options), expected)
    np.testing.assert_allclose(
        expected.y_quantile, np.exp(alone.predict(x, quantiles=options["quantiles"]).y_quantile), rtol=0.05
    )
    # What is said of y itself is of y itself.
    assert multiplied.stopped == "depth 2 reached"
    np.testing.assert_array_equal(multiplied.best.y, np.exp(ADDED))


def test_predictions_from_logarithms_are_of_log_normal_outputs():
    X, y = np.zeros((2, 2)), np.array([0.0, 1.3])
    fit = fitted(smooth, 12)
    found = predict_from_logarithms(fit, X, method="map", quantiles=[0.1], y_new=pd.DataFrame({"y": y}))
    p = pma.predict(fit, X, method="map")
    for name, variance in (("f", p.f_variance), ("y", p.y_variance)):
        direct = lognorm(np.sqrt(variance), scale=np.exp(p.f_mean))
        # Without the ends.
        np.testing.assert_allclose(found[f"{name}_mean"], direct.mean(), rtol=1e-4)
        np.testing.assert_allclose(found[f"{name}_variance"], direct.var(), rtol=0.05)
        np.testing.assert_allclose(found[f"{name}_quantile"][0], direct.ppf(0.1))
    # What a logarithm cannot be has no density.
    np.testing.assert_allclose(found.y_log_density, direct.logpdf(y))
    boxed = pma.fit_laplace(pma.ard_gp([[0.0], [1.0]], [0.0, 1.0], bounds=[(0, 1)]), n_restarts=1, progressbar=False)
    with pytest.warns(pma.DataWarning, match="X_new"):
        predict_from_logarithms(boxed, [[9.0]])


@pytest.mark.slow
def test_the_gain_of_a_logarithm_is_that_of_two_searches(multiplied):
    of_log, of_y = (found.table.log_evidence + found.table.log_prior for found in (multiplied.logarithm, multiplied))
    # Sampled and by the last levels, in place of Laplace's by the first ones.
    assert multiplied.gain == pytest.approx(float(of_log.max() - np.sum(ADDED) - of_y.max()), abs=3)


@pytest.mark.nightly
@pytest.mark.filterwarnings("error::pymc_active.DataWarning", "ignore::pymc_active.DoubtfulFitWarning")
def test_doubtful_fits_without_noise_do_not_call_for_a_logarithm():
    """All good fits of y are nearly singular, and all sound ones are poor."""
    t = np.arange(40.0)
    found = pma.search.compositional_kernel_search(
        t[:, None], 3 + np.sin(t / 3), bases=("SE", "PER", "STEP"), depth=2, random_seed=0, progressbar=False
    )
    assert found.logarithm is None


@pytest.mark.slow
@pytest.mark.filterwarnings("error::pymc_active.DataWarning")
# Few data are judged in another way than many.
@pytest.mark.parametrize(
    ("y", "short"),
    [
        (ADDED, 10),
        (ADDED + 5, 300),
        pytest.param(ADDED, 300, marks=pytest.mark.nightly),
        pytest.param(ADDED + 5, 10, marks=pytest.mark.nightly),
    ],
)
def test_a_search_keeps_to_y_where_changes_add(y, short, monkeypatch):
    monkeypatch.setattr(kernel_search, "_SHORT", short)
    found = searched(y, period=12, depth=2)
    assert found.logarithm is None
    x = MONTHS[:5, None]
    xr.testing.assert_identical(found.predict(x), pma.predict(found.average, x))


def test_a_search_with_a_single_kernel_predicts():
    found = searched(ADDED, bases=("LIN",), depth=1, budget=1)
    x = MONTHS[:5, None]
    xr.testing.assert_identical(found.predict(x), pma.predict(found.best, x))


def test_an_interrupt_while_logarithms_are_tried_keeps_the_search(monkeypatch):
    fit_models = fitted_kernels.fit_laplace_models

    def tired(models, **keywords):
        if len(tried) == 1:
            raise KeyboardInterrupt
        tried.append(models)
        return fit_models(models, **keywords)

    tried = []
    monkeypatch.setattr(fitted_kernels, "fit_laplace_models", tired)
    with pytest.warns(pma.DoubtfulFitWarning, match="it was interrupted"):
        found = searched(ADDED + 5, bases=("LIN",), depth=1)
    assert list(found.fits) == ["LIN"]
    assert found.stopped == "interrupted"


@pytest.mark.filterwarnings("ignore::pymc_active.DoubtfulFitWarning")
def test_an_interrupt_before_the_first_kernel_of_the_logarithm_keeps_what_was_compared(monkeypatch):
    fit_models = fitted_kernels.fit_laplace_models

    def tired(models, **keywords):
        # RQ of y and of its logarithm, quickly.
        if len(fitted) == 2:
            raise KeyboardInterrupt
        fitted.append(models)
        return fit_models(models, **keywords)

    fitted = []
    monkeypatch.setattr(fitted_kernels, "fit_laplace_models", tired)
    monkeypatch.setattr(kernel_search, "_SHORT", 10)
    with pytest.warns(pma.DataWarning, match="the logarithm of y is"):
        found = searched(np.exp(ADDED), bases=("LIN",))
    assert list(found.fits) == list(found.logarithm.fits) == ["RQ"]
    assert found.logarithm.stopped == "interrupted"
    assert np.isfinite(found.predict([[50.0]]).f_mean).all()


def test_a_recommendation_far_above_the_data_says_so():
    X = np.linspace(-1, -0.5, 8)[:, None]
    y = 3 * X[:, 0] + 0.01 * np.random.default_rng(0).normal(size=8)
    gpm = pma.ard_gp(X, y, bounds=[(-1, 1)], mean="linear")
    learner = pma.active.Learner(gpm, "maximum", bounds=[(-1, 1)], random_seed=0)
    with pytest.warns(pma.RunWarning, match="above the best point measured"):
        x = learner.recommend()
    learner.tell(x, 3 * x[:, 0])
    with warnings.catch_warnings():
        warnings.simplefilter("error", pma.RunWarning)
        learner.recommend()


def test_a_recommendation_is_compared_with_the_usual_differences():
    """Beside a cliff a fit undershoots by less than an sd of y, and by far more than most values differ by."""
    X = np.random.default_rng(0).uniform(size=(20, 2))
    y = 0.3 + (X[:, 0] - 0.3) ** 2 + np.where(X[:, 0] > 0.7, 10 ** (1 + 12 * (X[:, 0] - 0.7)), 0.0)
    box = [(0, 1), (0, 1)]
    learner = pma.active.Learner(pma.ard_gp(X, y, bounds=box), "maximum", bounds=box, minimize=True, random_seed=0)
    with pytest.warns(pma.DataWarning, match="nats more probable"):
        fit = learner.fit
    with pytest.warns(pma.RunWarning, match="below the best point measured"):
        x = learner.recommend()
    assert y.min() - pma.predict(fit, x).f_mean.item() < y.std()


@pytest.mark.parametrize("y_sd", [None, 1.0, np.eye(8)[0]])
def test_a_slip_is_told_whatever_its_error_bar(y_sd):
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, (8, 2))
    y = 70 + 3 * X[:, 0] + rng.normal(size=8)
    y[3] *= 10
    with pytest.warns(pma.DataWarning, match=r"y\[3\] = .* is far from all other values") as said:
        pma.fit(pma.ard_gp(X, y, bounds=BOX, y_sd=y_sd), n_particles=32, random_seed=0, progressbar=False)
    assert any("likelihood" in str(w.message) for w in said) == (y_sd is None)
