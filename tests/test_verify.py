"""Verification within a run: when a fit is compared with a longer run, and what is done where it is worse."""

import json
import warnings

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from numpy.testing import assert_allclose, assert_array_equal

import pymc_active as pma
from pymc_active.active import Learner
from pymc_active.checking import verdict
from pymc_active.inference.ensemble import Evidence
from pymc_active.learner import verification
from pymc_active.learner.verification import Verdict, Verification
from pymc_active.predictions.predict import posterior_mean

pytestmark = pytest.mark.slow

GRID = np.linspace(-3, 3, 25)[:, None]
FEW = [2, 8, 14, 20, 24]
# The posterior of few data under wide priors is far from any Gaussian.
WIDE = {
    f"log_{name}": pm.Normal.dist(mean, 2) for name, mean in (("lengthscale", 0), ("outputscale", 0), ("noise", -2.3))
}
WARNING = "is worse than a longer run, which replaces it"


def truth(X):
    return np.sin(2 * np.asarray(X, float)[:, 0]) + 0.3 * np.asarray(X, float)[:, -1]


def learner(learn="hyperparameters", rows=FEW, priors=WIDE, **keywords):
    gpm = pma.ard_gp(GRID[rows], truth(GRID[rows]), priors=priors)
    return Learner(gpm, learn, **{"pool": GRID, "verify": 1, "random_seed": 0, **keywords})


@pytest.fixture
def _all_are_worse(monkeypatch):
    monkeypatch.setattr(verdict.Differences, "is_worse", True)
    monkeypatch.setattr(verdict.Differences, "reference_misses_mass", False)


@pytest.fixture
def _none_is_worse(monkeypatch):
    monkeypatch.setattr(verdict.Differences, "is_worse", False)


def left(active):
    return np.flatnonzero(~(GRID == active.X.T).any(1))


def assert_is_best(x, rows, score):
    """No row has a better score than x; of ties, which the last bit decides, either will do."""
    [own] = score[(GRID[rows] == x).all(1)]
    assert own >= score.max() - 1e-6 * np.ptp(score)


# When.


def due(every, n_start, last, verdict, n):
    return Verification(every, 0, {last: {"model": verdict}}).is_due(n, n_start)


GOOD, BAD = Verdict(0.03), Verdict(0.9, replaced=True)


@pytest.mark.parametrize(("every", "expected"), [("never", False), ("sometimes", True), (1, True), (4, True)])
def test_the_first_fit_is_verified(every, expected):
    assert Verification(every, 0).is_due(5, 5) is expected


def test_later_fits_are_verified_at_every_kth_point_when_points_have_grown_by_half_and_after_a_replacement():
    assert [n for n in range(6, 14) if due(3, 5, n - 1, GOOD, n)] == [8, 11]
    # Several told at once may pass over a multiple.
    assert due(3, 5, 5, GOOD, 10)
    assert not due(3, 5, 8, GOOD, 10)
    assert [n for n in range(11, 17) if due("sometimes", 5, 10, GOOD, n)] == [15, 16]
    assert due("sometimes", 5, 10, BAD, 11)
    assert due(100, 5, 10, BAD, 11)


@pytest.mark.nightly
@pytest.mark.usefixtures("_all_are_worse")
@pytest.mark.filterwarnings(f"ignore:.*{WARNING}")
def test_after_a_correction_the_fit_is_verified_anew():
    run = learner(verify="sometimes")
    losses = []
    for y in (run.y[0], run.y[0] + 1):
        run.correct(0, y)
        assert run.verification.sizes["n_observations"] == 0
        assert_allclose(run.fit.y, run.y)
        losses.append(run.verification.nll_loss.item())
    assert losses[0] != losses[1]


@pytest.mark.parametrize("verify", ["always", 0, -2, 1.5, True, None, [1], np.True_])
def test_other_values_are_refused(verify):
    with pytest.raises(ValueError, match="verify must be 'never', 'sometimes' or a whole number k >= 1"):
        learner(verify=verify)


# What is done.


def test_a_mode_that_is_not_the_posterior_is_replaced_with_one_warning():
    """Laplace's approximation on five points, which is known to be too sure; the default fit is as good as a longer."""
    active = learner(criterion="bald", inference="laplace")
    assert active.verification.sizes == {"n_observations": 0}
    with pytest.warns(pma.DoubtfulFitWarning, match=rf"\(predictions lose 0\.\d\d nats a point\).*{WARNING}") as told:
        active.ask()
    assert len(told) == 1
    found = active.verification
    assert found.n_observations.to_numpy().tolist() == [5]
    assert found.replaced[0]
    assert found.nll_loss[0] > 0.1
    assert isinstance(active.fit, pma.ParticleFit)


@pytest.mark.nightly
@pytest.mark.usefixtures("_none_is_worse")
def test_a_run_without_replacement_asks_the_same_as_without_verification():
    """And it is not told anything else."""
    verified, plain = (learner(verify=v) for v in (1, "never"))
    for _ in range(2):
        x = plain.ask()
        assert_array_equal(verified.ask(), x)
        for active in (verified, plain):
            active.tell(x, truth(x))
    assert verified.verification.nll_loss.notnull().all()
    assert plain.verification.sizes["n_observations"] == 0
    assert "verification" in verified.to_datatree(draws=5).children
    assert "verification" not in plain.to_datatree(draws=5).children


@pytest.mark.usefixtures("_all_are_worse")
@pytest.mark.filterwarnings(f"ignore:.*{WARNING}")
@pytest.mark.parametrize("inference", ["auto", pytest.param("laplace", marks=pytest.mark.nightly)])
@pytest.mark.parametrize(
    "criterion",
    [
        "bald",
        *(
            pytest.param(c, marks=pytest.mark.nightly)
            for c in ("uncertainty", "expected_improvement", "upper_confidence_bound")
        ),
    ],
)
def test_the_criterion_is_that_over_the_longer_run(criterion, inference):
    """By the public function."""
    active = learner(criterion=criterion, inference=inference)
    rows = left(active)
    x = active.ask()
    assert isinstance(active.fit, pma.ParticleFit)
    assert len(active.fit.ensemble) == 4 * 256
    expected = getattr(pma.active, criterion)(active.fit, GRID[rows]).to_numpy()
    assert_is_best(x, rows, expected)
    assert_allclose(active.design(pending=True).score[-1], expected.max(), rtol=1e-6)


@pytest.mark.nightly
@pytest.mark.usefixtures("_all_are_worse")
@pytest.mark.filterwarnings(f"ignore:.*{WARNING}")
def test_pending_points_are_conditioned_on():
    """A batch takes the same hyperparameters, with the outcome that the longer run predicts."""
    active = learner(criterion="uncertainty")
    X = active.ask(2)
    imagined = posterior_mean(active.fit, X[:1])
    other = active.fit.given(np.concatenate([active.X, X[:1]]), np.append(active.y, imagined))
    rows = np.setdiff1d(left(active), np.flatnonzero((GRID == X[0]).all(1)))
    assert_is_best(X[1], rows, pma.active.uncertainty(other, GRID[rows]).to_numpy())


def test_a_run_of_lower_evidence_replaces_nothing(monkeypatch):
    """It misses a part of the posterior itself."""
    monkeypatch.setattr(verdict.Differences, "is_worse", True)
    made, low = verification.make_reference, Evidence(-100.0, 0.1, "smc")
    monkeypatch.setattr(verification, "make_reference", lambda *args: made(*args)._replace(evidence=low))
    active = learner()
    active.ask()
    assert active.verification.evidence_difference[0] > 50
    assert not active.verification.replaced.any()


@pytest.mark.nightly
@pytest.mark.usefixtures("_all_are_worse")
@pytest.mark.filterwarnings(f"ignore:.*{WARNING}")
def test_a_run_that_is_interrupted_loses_nothing(monkeypatch):
    interrupted, plain = learner(), learner()
    working = verification.make_reference

    def stopped(*arguments, **keywords):
        raise KeyboardInterrupt

    monkeypatch.setattr(verification, "make_reference", stopped)
    with pytest.raises(KeyboardInterrupt):
        interrupted.ask()
    monkeypatch.setattr(verification, "make_reference", working)
    assert_array_equal(interrupted.ask(), plain.ask())
    assert interrupted.verification.equals(plain.verification)


# Several models.


def several(**keywords):
    models = [pma.composite_gp(GRID[FEW], truth(GRID[FEW]), kernel) for kernel in ("SE", "LIN", "SE + LIN")]
    return Learner(models, "model", pool=GRID, **{"verify": 1, "random_seed": 2, **keywords})


@pytest.mark.nightly
@pytest.mark.usefixtures("_all_are_worse")
def test_of_several_models_the_probable_ones_are_replaced():
    active = several()
    with pytest.warns(pma.DoubtfulFitWarning, match=WARNING) as told:
        x = active.ask()
    assert len(told) == 1
    plain = several(verify="never")
    likely = plain.fit.probability.to_series().loc[lambda p: p > 0.05].index.tolist()
    assert 1 < len(likely)
    found = active.verification
    assert found.nll_loss.dims == ("n_observations", "model")
    assert found.model.to_numpy().tolist() == likely
    assert found.replaced.all()
    assert all(len(active.fit[label].ensemble) == 4 * 256 for label in likely)
    rows = left(active)
    assert_is_best(x, rows, pma.active.bams(active.fit, GRID[rows], method="draws", random_seed=0).to_numpy())


# Files.


def reopened(active, folder, **keywords):
    active.save(folder / "run.nc")
    return Learner.load(folder / "run.nc", **keywords)


@pytest.mark.usefixtures("_all_are_worse")
def test_a_loaded_learner_asks_the_same_next_point_bit_for_bit_and_warns_no_second_time(tmp_path):
    """Saved with a point pending, for which the longer run is made again."""
    active = learner(verify="sometimes")
    with pytest.warns(pma.DoubtfulFitWarning, match=WARNING):
        active.ask()
    pending = reopened(active, tmp_path)
    assert pending.verification.identical(active.verification)
    with warnings.catch_warnings():
        warnings.simplefilter("error", pma.ActiveWarning)
        assert_array_equal(pending.ask(), active.ask())
    with xr.open_datatree(tmp_path / "run.nc", engine="h5netcdf") as tree:
        assert tree["verification"].replaced.to_numpy().tolist() == [True]
        assert json.loads(str(tree["state"]["json"].item()))["verify"] == "sometimes"
