"""Simulation-based calibration: uniform ranks for right fits, and not for wrong ones."""

import arviz as az
import numpy as np
import pymc as pm
import pytest
import xarray as xr
from numpy.testing import assert_array_equal
from scipy.stats import kstest
from users import users_gp

import pymc_active as pma

pytestmark = pytest.mark.slow

X = np.linspace(-1, 1, 6)[:, None]
Y = np.sin(3 * X[:, 0])
LEVEL = {"log_lengthscale": 0.0, "log_outputscale": 0.0, "log_noise": -1.0, "mean_constant": pm.Normal.dist(0, 2)}
QUIET = {"random_seed": 3, "progressbar": False}


def level_only():
    """One free parameter, whose posterior is Gaussian."""
    return pma.ard_gp(X, Y, mean="constant", priors=LEVEL)


@pytest.fixture(scope="module")
def result():
    return pma.calibrate(level_only, n_simulations=150, draws=49, method="laplace", **QUIET)


def test_exact_fits_are_calibrated(result):
    ranks = result["ranks"]["mean_constant"].to_numpy()
    assert ranks.shape == (1, 150)
    assert ranks.min() >= 0
    assert 40 < ranks.max() <= 49
    assert kstest(result["prior_sbc"]["mean_constant"].to_numpy()[0], "uniform").pvalue > 0.01
    for name in ("mean_constant", "prediction"):
        for p in (0.5, 0.89):
            share = float(result["coverage"][name].sel(prob=p))
            assert abs(share - p) < 3.5 * np.sqrt(p * (1 - p) / 150)
    assert result.attrs["n_doubtful"] == 0


def test_a_posterior_that_is_too_narrow_is_seen(monkeypatch):
    right = pma.LaplaceFit.draw
    monkeypatch.setattr(
        pma.LaplaceFit, "draw", lambda self, *args: self.theta + 0.3 * (right(self, *args) - self.theta)
    )
    found = pma.calibrate(level_only, n_simulations=60, method="laplace", **QUIET)
    assert kstest(found["prior_sbc"]["mean_constant"].to_numpy()[0], "uniform").pvalue < 1e-4


def test_particles_are_calibrated_with_priors_that_move_with_y():
    """A model with bounds, whose prior would otherwise be made from the data that it explains."""
    fixed = {"log_lengthscale": -0.5, "log_noise": pm.Normal.dist(np.log(0.2), 0.3)}

    def make():
        return pma.ard_gp(5 * X, 20 + 4 * Y, bounds=[(-5, 5)], priors=fixed)

    found = pma.calibrate(make, n_simulations=60, draws=63, n_particles=64, method="smc", **QUIET)
    assert set(found["prior_sbc"].data_vars) == {"log_outputscale", "mean_constant", "log_noise", "prediction"}
    for values in found["prior_sbc"].data_vars.values():
        assert kstest(values.to_numpy()[0], "uniform").pvalue > 0.003


def test_the_same_seed_gives_the_same_ranks():
    few = [pma.calibrate(level_only, n_simulations=3, draws=9, method="laplace", **QUIET) for _ in range(2)]
    assert_array_equal(few[0]["prior_sbc"]["prediction"], few[1]["prior_sbc"]["prediction"])
    xr.testing.assert_identical(few[0]["coverage"].to_dataset(), few[1]["coverage"].to_dataset())


def test_arviz_draws_the_picture(result):
    assert az.plot_ecdf_pit(result).viz is not None
    assert az.plot_ecdf_pit(result, coverage=True).viz is not None


def test_vectors_and_users_models_have_ranks_too():
    def cov():
        return pm.gp.cov.ExpQuad(2, ls=pm.LogNormal("scales", 0.0, 0.3, shape=2))

    def make():
        return users_gp(np.hstack([X, X**2]), Y, cov, lambda: 0.3)

    found = pma.calibrate(make, n_simulations=3, draws=9, method="laplace", **QUIET)
    assert found["ranks"]["scales_log__"].shape == (1, 3, 2)
    assert set(found["coverage"]["scales_log__"].dims) == {"prob", "scales_log___dim_0"}


def test_bad_models_are_refused():
    with pytest.raises(TypeError, match="must return a GPModel; got NoneType"):
        pma.calibrate(lambda: None)


def test_bad_numbers_are_refused():
    with pytest.raises(ValueError, match="n_simulations must be at least 2; got 1"):
        pma.calibrate(level_only, n_simulations=1)
    with pytest.raises(ValueError, match="draws must be at least 1; got 0"):
        pma.calibrate(level_only, draws=0)
