"""Verification within a run: when it is asked whether a fit can be trusted, and what is done where it cannot."""

import json

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp
from traces import mutual_information, posterior_draws

import pymc_active as pma
from pymc_active.active import Learner, bald
from pymc_active.laplace.draws.importance import pareto_k
from pymc_active.laplace.draws.nuts import nuts
from pymc_active.laplace.draws.posterior_draws import TraceDraws
from pymc_active.learner import verification
from pymc_active.learner.verification import Verdict, Verification, regret_ratio
from pymc_active.models.traces import trace_thetas
from pymc_active.predictions.moments import draw_moments
from pymc_active.predictions.predict import posterior_mean

pytestmark = pytest.mark.slow

GRID = np.linspace(-3, 3, 25)[:, None]
FEW, MANY = [2, 8, 14, 20, 24], list(range(0, 25, 2))
# The posterior of few data under wide priors is far from any Gaussian.
WIDE = {
    f"log_{name}": pm.Normal.dist(mean, 2) for name, mean in (("lengthscale", 0), ("outputscale", 0), ("noise", -2.3))
}
WARNING = "the Laplace fit of .* cannot be trusted"


def truth(X):
    return np.sin(2 * np.asarray(X, float)[:, 0]) + 0.3 * np.asarray(X, float)[:, -1]


def learner(learn="hyperparameters", rows=FEW, priors=WIDE, **keywords):
    gpm = pma.ard_gp(GRID[rows], truth(GRID[rows]), priors=priors)
    return Learner(gpm, learn, **{"pool": GRID, "verify": 1, "random_seed": 0, "inference": "laplace", **keywords})


@pytest.fixture(autouse=True)
def _short_chains(monkeypatch):
    """As many draws as a criterion takes, so that it takes all of them."""
    monkeypatch.setattr(verification, "_TUNE", 50)
    monkeypatch.setattr(verification, "_DRAWS", 64)


@pytest.fixture
def _all_are_doubtful(monkeypatch):
    monkeypatch.setattr(verification, "PARETO_LIMIT", -1.0)


@pytest.fixture
def _none_is_doubtful(monkeypatch):
    monkeypatch.setattr(verification, "PARETO_LIMIT", np.inf)


def left(active):
    return np.flatnonzero(~(GRID == active.X.T).any(1))


def assert_is_best(x, rows, score):
    """No row has a better score than x; of ties, which the last bit decides, either will do."""
    [own] = score[(GRID[rows] == x).all(1)]
    assert own >= score.max() - 1e-6 * np.ptp(score)


# When.


def due(every, n_start, last, verdict, n):
    v = Verification(every, n_start, 0)
    v.verdicts[last] = {"model": verdict}
    return v.is_due(n)


GOOD, BAD = Verdict(0.3), Verdict(0.9, escalated=True)


@pytest.mark.parametrize(("every", "expected"), [("never", False), ("sometimes", True), (1, True), (4, True)])
def test_the_first_fit_is_verified(every, expected):
    assert Verification(every, 5, 0).is_due(5) is expected


def test_every_kth_point_since_the_start():
    assert [n for n in range(6, 14) if due(3, 5, n - 1, GOOD, n)] == [8, 11]
    # Several told at once may pass over a multiple.
    assert due(3, 5, 5, GOOD, 10)
    assert not due(3, 5, 8, GOOD, 10)


def test_sometimes_is_when_the_points_have_grown_by_half():
    assert [n for n in range(11, 17) if due("sometimes", 5, 10, GOOD, n)] == [15, 16]


@pytest.mark.parametrize("verdict", [BAD, Verdict(0.9, sampler_failed=True)])
def test_after_a_doubtful_fit_the_next_is_verified(verdict):
    assert due("sometimes", 5, 10, verdict, 11)
    assert due(100, 5, 10, verdict, 11)


@pytest.mark.parametrize("verify", ["always", 0, -2, 1.5, True, None, [1], np.True_])
def test_other_values_are_refused(verify):
    with pytest.raises(ValueError, match="verify must be 'never', 'sometimes' or a whole number k >= 1"):
        learner(verify=verify)


# Escalation.


@pytest.mark.parametrize("margin", [0.01, -0.01])
def test_a_fit_escalates_with_one_warning_if_its_k_is_above_the_limit(margin, monkeypatch):
    """Limits on either side of the k that these data happen to have."""
    k = pareto_k(learner(verify="never").fit, random_seed=0)
    monkeypatch.setattr(verification, "PARETO_LIMIT", limit := k - margin)
    active = learner()
    if margin < 0:
        x = active.ask()
        assert not active.verification.escalated.any()
        assert active.traces == {}
        return
    assert active.verification.sizes == {"n_observations": 0}
    with pytest.warns(UserWarning, match=rf"{WARNING}: the criterion is computed over MCMC traces until k is") as told:
        x = active.ask()
    assert len(told) == 1
    assert f"(Pareto k {k:.2f})" in str(told[0].message)
    # No second warning, whatever comes.
    active.tell(x, truth(x))
    active.ask()
    found = active.verification
    assert found.n_observations.to_numpy().tolist() == [5, 6]
    assert found.escalated[0]
    assert_array_equal(found.escalated, found.pareto_k > limit)
    assert_array_equal(np.isfinite(found.rhat), found.escalated)
    assert not found.sampler_failed.any()
    assert found.ess_bulk[0] > 0
    assert found.divergences[0] >= 0
    assert found.pareto_k[0] == k


@pytest.mark.usefixtures("_none_is_doubtful")
def test_a_run_without_escalation_asks_the_same_as_without_verification():
    """And it is not told anything else."""
    verified, plain = (learner(rows=MANY, priors=None, verify=v) for v in (1, "never"))
    for _ in range(3):
        x = plain.ask()
        assert_array_equal(verified.ask(), x)
        for active in (verified, plain):
            active.tell(x, truth(x))
    assert verified.verification.pareto_k.notnull().all()
    assert not verified.verification.escalated.any()
    assert verified.traces == {}
    assert plain.verification.sizes["n_observations"] == 0
    assert "verification" in verified.to_datatree(draws=5).children
    assert "verification" not in plain.to_datatree(draws=5).children


def over_trace(criterion, trace, gpm, X):
    """By public functions of the trace."""
    if criterion in ("expected_improvement", "upper_confidence_bound"):
        return getattr(pma.active, criterion)(trace, X, model=gpm).to_numpy()
    if criterion == "uncertainty":
        return np.sqrt(pma.predict(trace, X, model=gpm).f_variance.to_numpy())
    means, variances, noises = draw_moments(gpm.posterior(), trace_thetas(gpm, trace), X)
    return mutual_information(means, variances + (noises if criterion != "bald_f" else 0))


@pytest.mark.usefixtures("_all_are_doubtful")
@pytest.mark.filterwarnings(f"ignore:{WARNING}")
@pytest.mark.parametrize(
    "criterion", ["bald", "bald_f", "uncertainty", "expected_improvement", "upper_confidence_bound"]
)
def test_the_criterion_is_that_over_the_trace(criterion):
    """Whatever its method was; and the loss without the trace is judged by it."""
    active = learner(criterion=criterion)
    rows = left(active)
    x = active.ask()
    trace = active.traces["model"]
    expected = over_trace(criterion, trace, active.gpm, GRID[rows])
    assert_is_best(x, rows, expected)
    assert_allclose(active.design(pending=True).score[-1], expected.max(), rtol=1e-6)
    ratio = float(active.verification.regret_ratio[0])
    unverified = active.criterion.prepare(learner(criterion=criterion, verify="never").fit).score(GRID[rows])
    if criterion == "expected_improvement":
        expected = np.exp(expected)
    elif criterion == "upper_confidence_bound":
        expected = expected - expected.min()
    assert_allclose(ratio, expected[np.argmax(unverified)] / expected.max(), rtol=1e-6)
    assert 0 < ratio <= 1


@pytest.mark.usefixtures("_all_are_doubtful")
@pytest.mark.filterwarnings(f"ignore:{WARNING}")
def test_pending_points_are_conditioned_on_for_each_draw():
    """A batch takes the same hyperparameters, with the outcome that the trace predicts."""
    active = learner(criterion="uncertainty")
    X = active.ask(2)
    trace, gpm = active.traces["model"], active.gpm
    imagined = pma.predict(trace, X[:1], model=gpm).f_mean
    other = pma.ard_gp(np.concatenate([gpm.X, X[:1]]), np.append(gpm.y, imagined), priors=WIDE)
    rows = np.setdiff1d(left(active), np.flatnonzero((GRID == X[0]).all(1)))
    expected = over_trace("uncertainty", trace, other, GRID[rows])
    assert_is_best(X[1], rows, expected)
    assert_allclose(active.design(pending=True).score[-1], expected.max(), rtol=1e-6)


@pytest.mark.usefixtures("_all_are_doubtful")
@pytest.mark.filterwarnings(f"ignore:{WARNING}")
def test_in_a_box_too():
    active = learner(pool=None, bounds=[(-3, 3)], criterion="uncertainty")
    x = active.ask()
    over = over_trace(
        "uncertainty", active.traces["model"], active.gpm, np.concatenate([x, np.linspace(-3, 3, 200)[:, None]])
    )
    assert over[0] > over[1:].max() * (1 - 1e-3)
    assert np.isnan(active.verification.regret_ratio).all()


@pytest.mark.usefixtures("_all_are_doubtful")
@pytest.mark.filterwarnings(f"ignore:{WARNING}")
@pytest.mark.parametrize("criterion", ["pes_map", "max_value_entropy"])
def test_criteria_of_the_maximum_take_draws_of_the_trace(criterion):
    active = learner("maximum", criterion=criterion)
    rows = left(active)
    x = active.ask()
    scorer = verification.over_draws(active.criterion).prepare(active.fit)
    used = np.stack([o.gp.theta for o in scorer.optima])
    drawn = trace_thetas(active.gpm, active.traces["model"])
    assert len(np.unique(used, axis=0)) > 3
    assert all((theta == drawn).all(1).any() for theta in used)
    score = scorer.score(GRID[rows])
    assert_is_best(x, rows, score)
    assert float(active.design(pending=True).score[-1]) == score.max()
    assert 0 < active.verification.regret_ratio[0] <= 1


@pytest.mark.usefixtures("_all_are_doubtful")
@pytest.mark.parametrize("criterion", ["random", lambda fit, X: -np.abs(X[:, 0])])
def test_where_no_draws_are_taken_it_is_noted_and_nothing_else(criterion):
    verified, plain = (learner("function", criterion=criterion, verify=v) for v in (1, "never"))
    assert_array_equal(verified.ask(2), plain.ask(2))
    assert verified.verification.pareto_k.notnull().all()
    assert not verified.verification.escalated.any()


@pytest.mark.usefixtures("_all_are_doubtful")
def test_chains_that_disagree_are_told_of(monkeypatch):
    monkeypatch.setattr(verification, "RHAT_LIMIT", 0.5)
    active = learner()
    with pytest.warns(UserWarning, match=r"the chains of the trace disagree \(R-hat \d") as told:
        active.ask()
    assert len(told) == 1
    assert active.verification.escalated[0]


@pytest.mark.usefixtures("_all_are_doubtful")
def test_a_sampler_that_fails_loses_nothing(monkeypatch):
    """The Laplace fit is used as it is, with one warning; the next fit is verified again."""
    failing, plain = learner(verify=10), learner(verify="never")
    working = verification.nuts

    def broken(*arguments, **keywords):
        raise FloatingPointError("bad energy\nat theta")

    monkeypatch.setattr(verification, "nuts", broken)
    with pytest.warns(UserWarning, match=rf"{WARNING}: the sampler failed \(FloatingPointError: bad energy\)") as told:
        x = failing.ask()
    assert len(told) == 1
    assert_array_equal(x, plain.ask())
    failing.tell(x, truth(x))
    failing.ask()
    monkeypatch.setattr(verification, "nuts", working)
    failing.tell([[0.3]], [0.1])
    with pytest.warns(UserWarning, match="over MCMC traces"):
        failing.ask()
    found = failing.verification
    assert found.sampler_failed.to_numpy().tolist() == [True, True, False]
    assert found.escalated.to_numpy().tolist() == [False, False, True]


@pytest.mark.usefixtures("_all_are_doubtful")
@pytest.mark.filterwarnings(f"ignore:{WARNING}")
def test_a_sampler_that_is_interrupted_loses_nothing(monkeypatch):
    interrupted, plain = learner(), learner()
    working = verification.nuts

    def stopped(*arguments, **keywords):
        raise KeyboardInterrupt

    monkeypatch.setattr(verification, "nuts", stopped)
    with pytest.raises(KeyboardInterrupt):
        interrupted.ask()
    monkeypatch.setattr(verification, "nuts", working)
    assert_array_equal(interrupted.ask(), plain.ask())
    assert interrupted.verification.equals(plain.verification)


# Several models.


def several(**keywords):
    models = [pma.composite_gp(GRID[FEW], truth(GRID[FEW]), kernel) for kernel in ("SE", "LIN", "SE + LIN")]
    return Learner(models, "model", pool=GRID, **{"verify": 1, "random_seed": 2, **keywords})


@pytest.mark.usefixtures("_all_are_doubtful")
def test_of_several_models_the_probable_ones_get_traces_of_their_own():
    active = several()
    with pytest.warns(UserWarning, match=rf"{WARNING}.*over MCMC traces") as told:
        x = active.ask()
    assert len(told) == 1
    plain = several(verify="never")
    assert active.fit.probability.equals(plain.fit.probability)
    likely = plain.fit.probability.to_series().loc[lambda p: p > 0.05].index.tolist()
    assert 1 < len(likely)
    assert list(active.traces) == likely
    found = active.verification
    assert found.pareto_k.dims == ("n_observations", "model")
    assert found.model.to_numpy().tolist() == likely
    assert found.escalated.all()
    # By the public function over the same draws.
    fits = {
        label: fit.with_draws(trace_thetas(fit.gpm, active.traces[label])) if label in likely else fit
        for label, fit in plain.fit.items()
    }
    rows = left(active)
    score = pma.active.bams(fits, GRID[rows], method="draws", random_seed=0).to_numpy()
    assert_is_best(x, rows, score)
    assert_allclose(active.design(pending=True).score[-1], score.max(), rtol=1e-6)
    assert 0 <= active.verification.regret_ratio[0] <= 1


# Files.


def reopened(active, folder, **keywords):
    active.save(folder / "run.nc")
    return Learner.load(folder / "run.nc", **keywords)


@pytest.mark.usefixtures("_all_are_doubtful")
@pytest.mark.filterwarnings(f"ignore:{WARNING}")
def test_a_loaded_learner_asks_the_same_next_point_bit_for_bit(tmp_path):
    """Saved with a point pending, for which the trace is drawn again, and after it was told."""
    active = learner()
    first = active.ask()
    pending = reopened(active, tmp_path)
    assert pending.verification.identical(active.verification)
    assert_array_equal(pending.ask(), active.ask())
    assert pending.traces["model"]["posterior"].dataset.equals(active.traces["model"]["posterior"].dataset)
    active.tell(first, truth(first))
    told = reopened(active, tmp_path)
    assert_array_equal(told.ask(), active.ask())
    assert told.verification.identical(active.verification)
    assert told.verification.n_observations.to_numpy().tolist() == [5, 6]


@pytest.mark.usefixtures("_all_are_doubtful")
@pytest.mark.filterwarnings(f"ignore:{WARNING}")
def test_so_does_one_of_several_models(tmp_path):
    active = several()
    active.ask()
    pending = reopened(active, tmp_path)
    assert pending.verification.identical(active.verification)
    assert_array_equal(pending.ask(), active.ask())
    assert pending.verification.identical(active.verification)


@pytest.mark.usefixtures("_all_are_doubtful")
def test_a_file_shows_what_was_verified_and_a_loaded_run_warns_no_second_time(tmp_path):
    active = learner(verify="sometimes")
    with pytest.warns(UserWarning, match=WARNING):
        active.ask()
    reopened(active, tmp_path).ask()
    with xr.open_datatree(tmp_path / "run.nc", engine="h5netcdf") as tree:
        assert tree["verification"].escalated.to_numpy().tolist() == [True]
        assert json.loads(str(tree["state"]["json"].item()))["verify"] == "sometimes"


# The parts.


def test_nuts_agrees_with_quadrature():
    """Mean and sd of the only free parameter, within four standard errors of about 200 independent draws."""
    gpm = pma.ard_gp(GRID[FEW], truth(GRID[FEW]), priors={"log_lengthscale": 0.1, "log_noise": -2.0})
    posterior = gpm.posterior()
    chains = nuts(posterior, np.array([[0.0], [1.0]]), tune=200, draws=400, random_seed=3)
    again = nuts(posterior, np.array([[0.0], [1.0]]), tune=200, draws=400, random_seed=3)
    assert_array_equal(chains.z, again.z)
    assert chains.z.shape == (2, 400, 1)
    grid = np.linspace(-4, 4, 2001)
    log_density = np.array([posterior.value_and_gradient(np.array([theta]))[0] for theta in grid])
    weights = np.exp(log_density - logsumexp(log_density))
    mean = weights @ grid
    sd = np.sqrt(weights @ np.square(grid - mean))
    assert abs(chains.z.mean() - mean) < 4 * sd / np.sqrt(200)
    assert abs(chains.z.std() / sd - 1) < 4 / np.sqrt(2 * 200)


def test_draws_are_taken_evenly_and_the_first_few_stand_for_all():
    draws = TraceDraws(np.arange(1000.0)[:, None], None)
    taken = draws.take(128, None, np.random.default_rng(0))[:, 0]
    assert len(np.unique(taken)) == 128
    assert_allclose(np.diff(np.sort(taken)), 1000 / 128, atol=1)
    assert_allclose(np.sort(taken[:16]), np.linspace(31, 969, 16), atol=60)
    assert len(draws.take(5000, None, np.random.default_rng(0))) == 1000


def test_draws_of_another_width_are_refused():
    fit = learner(verify="never").fit
    with pytest.raises(ValueError, match=r"z must have shape \(S, 3\); got \(4, 2\)"):
        fit.with_draws(np.zeros((4, 2)))


def test_a_fit_with_draws_keeps_its_modes_and_says_what_it_has():
    fit = learner(verify="never").fit
    other = fit.with_draws(posterior_draws(fit, 128) + 0.1)
    assert "draws of a trace 128" in repr(other)
    assert other.log_evidence == fit.log_evidence
    assert_array_equal(bald(other, GRID), bald(fit, GRID))
    assert (bald(other, GRID, method="draws", random_seed=0) != bald(fit, GRID, method="draws", random_seed=0)).any()
    assert posterior_draws(fit, 128)[0, 0] != posterior_draws(other, 128)[0, 0]


# How far means by the row space and by all inputs may differ at the data. Their distance from the row space is the root
# of a difference of squares that round: zero up to sqrt(eps), and means that interpolate have slopes of some tens. What
# does not belong there changes them by a percent or more.
ROUNDING = 1000 * np.sqrt(np.finfo(float).eps)


def test_draws_in_the_row_space_of_an_embedding_follow_it_to_more_data():
    """With more inputs than data: at the data, where nothing is outside the row space, predictions are the same."""
    X = np.random.default_rng(5).uniform(-1, 1, (7, 12))
    gpm = pma.embedding_gp(X[:4], truth(X[:4]), n_components=1)
    fit = pma.fit_laplace(gpm, random_seed=1, progressbar=False)
    fit = fit.with_draws(fit.best.draw(40, np.random.default_rng(1)))
    more = fit.given(X[:5], np.append(truth(X[:4]), 0.2))
    assert more.best.space is not fit.best.space
    moved = posterior_draws(more, 40)
    assert moved.shape == (40, len(more.best.z))
    # Both have the data fit asked about; the fifth point is told to both of them.
    there = fit.best.posterior.with_data(X[:4], truth(X[:4]))
    here = more.best.full_posterior.with_data(X[:4], truth(X[:4]))
    lifted = more.best.space.lift(moved)
    before = draw_moments(there, posterior_draws(fit, 40), X[:4])[0]
    assert_allclose(draw_moments(here, lifted, X[:4])[0], before, rtol=0, atol=ROUNDING)
    # What the data say nothing of follows the prior: of sd 5 / 4 sqrt(3 / D), as the builder has it.
    last = np.arange(more.best.space.where.start, more.best.space.where.stop)[-1]
    many = fit.with_draws(fit.best.draw(2000, np.random.default_rng(2))).given(X[:5], np.append(truth(X[:4]), 0.2))
    sd = 1.25 * np.sqrt(3 / 12)
    assert abs(posterior_draws(many, 2000)[:, last].std() / sd - 1) < 4 / np.sqrt(2 * 2000)


@pytest.mark.usefixtures("_all_are_doubtful")
@pytest.mark.filterwarnings(f"ignore:{WARNING}")
def test_an_embedding_with_more_inputs_than_data_is_sampled_in_its_row_space():
    X = np.random.default_rng(5).uniform(-1, 1, (20, 9))
    gpm = pma.embedding_gp(X[:4], truth(X[:4]), n_components=1)
    active = Learner(gpm, criterion="bald", pool=X, inference="laplace", verify=1, random_seed=2)
    active.ask(2)
    trace = active.traces["model"]
    assert trace["posterior"].R.shape == (2, 64, 1, 9)
    assert "diverging" in trace["sample_stats"].data_vars
    assert trace["log_likelihood"]["y"].shape[:2] == (2, 64)
    # Predictions by the draws in the row space and by those of all inputs agree where the row space is everything.
    inside = pma.predict(active.fit, X[:4], method="draws", random_seed=0)
    outside = pma.predict(trace, X[:4], model=active.gpm)
    assert_allclose(inside.f_mean, outside.f_mean, rtol=0, atol=ROUNDING)


def test_the_loss_is_a_ratio_of_utilities_where_both_are_known():
    chosen, true = np.array([1.0, 3.0, np.nan, 9.0]), np.array([4.0, 2.0, 1.0, np.nan])
    assert regret_ratio(learner().criterion, chosen, true) == 0.5
    assert_allclose(regret_ratio(learner(criterion="expected_improvement").criterion, chosen, true), np.exp(-2))
    assert np.isnan(regret_ratio(learner().criterion, np.full(4, np.nan), true))
    assert np.isnan(regret_ratio(learner("maximum", criterion="thompson").criterion, chosen, true))


@pytest.mark.usefixtures("_none_is_doubtful")
def test_the_imagined_outcome_without_escalation_is_that_of_the_mode():
    active = learner(rows=MANY, priors=None)
    x = active.ask()
    assert_allclose(active._fits.scorer().ensemble.y[-1], posterior_mean(active.fit, x)[0])
