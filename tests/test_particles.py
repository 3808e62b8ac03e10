"""Particles are draws from the posterior, with its evidence."""

import warnings
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pymc as pm
import pytest
from nightly import nightly
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp
from users import users_gp

import pymc_active as pma
from pymc_active.inference.annealing import Mover, Particles, anneal
from pymc_active.particles import choose, modes, particle_fit
from pymc_active.particles.modes import anneal_around, from_modes
from pymc_active.particles.smc import run_smc
from pymc_active.posterior.base import Likelihoods, NoFiniteStartError


def data(n, D=1, seed=0, noise=0.1):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n, D))
    return X, np.sin(3 * X[:, 0]) + noise * rng.normal(size=n)


def one_parameter(n=8):
    """Only the lengthscale is unknown, so that sums over a grid give the truth."""
    return pma.ard_gp(*data(n), priors={"log_outputscale": 0.0, "log_noise": -2.0})


def by_quadrature(gpm):
    grid = np.linspace(-6, 6, 4001)
    values = gpm.posterior().values(grid[:, None])
    log_evidence = logsumexp(values) + np.log(grid[1] - grid[0])
    weights = np.exp(values - logsumexp(values))
    mean = weights @ grid
    return log_evidence, mean, np.sqrt(weights @ (grid - mean) ** 2)


@pytest.mark.parametrize("method", ["smc", "auto"])
def test_evidence_and_moments_are_those_of_quadrature(method):
    gpm = one_parameter()
    log_evidence, mean, sd = by_quadrature(gpm)
    found = [pma.fit(gpm, method=method, n_particles=512, random_seed=s, progressbar=False) for s in range(4)]
    evidences = [fit.log_evidence for fit in found]
    # 2,048 particles of an effective share of about a half: standard errors of sd / 30, and of 0.05 nats a run.
    assert np.mean(evidences) == pytest.approx(log_evidence, abs=0.15)
    draws = np.concatenate([fit.ensemble.thetas[:, 0] for fit in found])
    assert draws.mean() == pytest.approx(mean, abs=0.15 * sd)
    assert draws.std() == pytest.approx(sd, rel=0.15)
    assert all(fit.log_evidence_error < 0.5 for fit in found)


@pytest.mark.nightly
def test_evidence_errors_are_honest():
    gpm = pma.embedding_gp(*data(12, 4), n_components=2)
    found = [pma.fit_smc(gpm, n_particles=64, random_seed=s, progressbar=False) for s in range(12)]
    scatter = np.std([fit.log_evidence for fit in found], ddof=1)
    stated = np.median([fit.log_evidence_error for fit in found])
    # The scatter of twelve runs is known to a factor of about 1.5.
    assert scatter / 3 < stated < 4 * scatter


@pytest.mark.nightly
def test_the_evidence_of_an_embedding_does_not_depend_on_the_space_it_is_computed_in():
    X, y = data(6, 12)
    narrow = pma.embedding_gp(X, y, n_components=1)
    # A prior that differs between components keeps the sampler in the space of all inputs.
    sd = np.full((2, 12), 1.25 * np.sqrt(3 / 12))
    sd[1] = 1e-6
    wide = pma.embedding_gp(X, y, n_components=2, prior_scale=sd)
    one, two = ([pma.fit_smc(gpm, random_seed=s, progressbar=False) for s in range(4)] for gpm in (narrow, wide))
    assert one[0].swarm.z.shape[1] < two[0].swarm.z.shape[1]
    difference = np.mean([a.log_evidence - b.log_evidence for a, b in zip(one, two, strict=True)])
    # Independent runs: the error of the mean difference.
    error = np.sqrt(np.sum([fit.log_evidence_error**2 for fit in [*one, *two]])) / 4
    assert abs(difference) < 4 * error


def test_updating_point_by_point_agrees_with_a_fresh_fit():
    X, y = data(16, 2)
    gpm = pma.ard_gp(X[:10], y[:10])
    fit = pma.fit_smc(gpm, random_seed=1, progressbar=False)
    for i in range(10, 14):
        fit = fit.update(X[i : i + 1], y[i], random_seed=i)
    assert len(fit.y) == 14
    assert len(gpm.y) == 10
    gpm.set_data(X[:14], y[:14])
    fresh = pma.fit_smc(gpm, n_particles=1024, random_seed=2, progressbar=False)
    assert fit.log_evidence == pytest.approx(fresh.log_evidence, abs=3 * fit.log_evidence_error + 0.2)
    X_new = np.random.default_rng(5).uniform(-1, 1, size=(40, 2))
    one, two = pma.predict(fit, X_new), pma.predict(fresh, X_new)
    assert np.abs(one.f_mean - two.f_mean).max() < 0.3 * float(np.sqrt(two.f_variance).max())
    assert_allclose(np.sqrt(one.f_variance).mean(), np.sqrt(two.f_variance).mean(), rtol=0.1)


def test_a_surprising_point_makes_the_particles_anew_and_a_bad_one_changes_nothing():
    X, y = data(10)
    fit = pma.fit_smc(pma.ard_gp(X, y), random_seed=1, progressbar=False)
    updated = fit.update([[0.2]], 30.0, random_seed=1)
    assert updated.diagnostics["n_fresh"] == 11
    assert np.isfinite(updated.log_evidence)
    with pytest.raises(ValueError, match="y_new must be finite"):
        fit.update([[0.2]], np.nan)
    assert_array_equal(fit.gpm.y, y)


@pytest.mark.nightly
def test_modes_and_particles_agree_where_there_is_one_narrow_mode():
    X, y = data(40)
    gpm = pma.ard_gp(X, y)
    modes = pma.fit_laplace(gpm, random_seed=1, progressbar=False)
    annealed = pma.fit_smc(gpm, random_seed=1, progressbar=False)
    around = from_modes(modes, 256, np.random.default_rng(1), "", annealed.renew)
    error = np.hypot(around.log_evidence_error, annealed.log_evidence_error)
    assert abs(around.log_evidence - annealed.log_evidence) < 4 * error
    assert error < 0.3
    assert_allclose(around.ensemble.thetas.mean(0), annealed.ensemble.thetas.mean(0), atol=0.1)
    assert_allclose(around.ensemble.thetas.std(0), annealed.ensemble.thetas.std(0), rtol=0.3)
    # The modes that the particles lead to are those of the search.
    found = pma.find_modes(annealed)
    assert found.log_posterior == pytest.approx(modes.log_posterior, abs=1e-3)
    assert pma.find_modes(modes) is modes
    assert_allclose(found.theta, modes.theta, rtol=0, atol=0.01 * annealed.ensemble.thetas.std(0).min())


def test_fits_are_values():
    gpm = one_parameter()
    particles, modes = (make(gpm, random_seed=1, progressbar=False) for make in (pma.fit, pma.fit_laplace))
    known = pma.predict(particles, gpm.X)
    particles.update([[0.5]], [1.0])
    assert pma.predict(particles, gpm.X).identical(known)
    assert len(gpm.y) == len(particles.y) == 8
    for fit in (particles, modes):
        with pytest.raises(FrozenInstanceError):
            fit.data = (gpm.X, gpm.y + 1)


@pytest.mark.parametrize(("lower", "is_kept"), [(10.0, True), (0.5, False)])
def test_a_fresh_fit_that_misses_what_was_known_is_mixed_with_it(lower, is_kept):
    """Points call for fresh particles, and these may miss the mode that explains them."""
    fit = pma.fit(one_parameter(), random_seed=1, progressbar=False)

    def worse(*args, **keywords):
        fresh = fit.renew(*args, **keywords)
        return replace(fresh, swarm=replace(fresh.swarm, log_evidence=fresh.log_evidence - lower))

    x = np.linspace(-0.9, 0.9, 5)[:, None]
    updated = replace(fit, renew=worse).update(x, np.sin(x[:, 0]), random_seed=2)
    assert updated.diagnostics["n_fresh"] == 13
    assert (updated.diagnostics["reason"] == "a fresh fit missed what was known") is is_kept
    gpm = one_parameter()
    gpm.set_data(np.concatenate([gpm.X, x]), np.concatenate([gpm.y, np.sin(x[:, 0])]))
    log_evidence, mean, sd = by_quadrature(gpm)
    assert abs(updated.log_evidence - log_evidence) < (5 * updated.log_evidence_error + 0.2 if is_kept else 2)
    drawn = updated.draw(4000, 0)[:, 0]
    assert abs(drawn.mean() - mean) < 0.5 * sd


def test_two_estimates_are_mixed_by_their_evidences():
    gpm = one_parameter()
    one, two = (pma.fit_smc(gpm, random_seed=s, progressbar=False) for s in (1, 2))

    def changed(fit, **swarm):
        return replace(fit, swarm=replace(fit.swarm, **swarm))

    def mixed(a, b, is_repeated=True):
        return a.mixed(b, np.random.default_rng(0), "", is_repeated=is_repeated)

    both = mixed(one, two)
    assert min(one.log_evidence, two.log_evidence) <= both.log_evidence <= max(one.log_evidence, two.log_evidence)
    assert 0.3 < both.diagnostics["share"] < 0.7
    lost = changed(two, log_evidence=-100.0)
    both = mixed(one, lost)
    assert both.diagnostics["share"] == 1.0
    # The mean of both estimates, which is that of the evidence without bias.
    assert both.log_evidence == pytest.approx(one.log_evidence - np.log(2))
    [doubt] = both.diagnostics["warnings"]
    assert f"two runs differ by {one.log_evidence + 100:.1f} nats" in doubt
    # Two runs of one family each, whose own errors are infinite, and which agree.
    alone = [changed(fit, families=np.zeros(256, int), log_evidence_error=np.inf) for fit in (one, two)]
    both = mixed(*alone)
    assert both.log_evidence_error == 1.5
    assert not both.diagnostics["warnings"]
    assert alone[0].diagnostics["warnings"]
    # The error of a mean of two, to first order, unless they are further apart.
    for evidences, errors, expected in (
        ((-5.0, -5.0), (0.3, 1.4), np.hypot(0.15, 0.7)),
        ((-5.0, -3.0), (0.3, 0.3), 1.0),
        ((-5.0, 0.0), (0.1, 0.2), 2.5),
    ):
        stated = zip((one, two), evidences, errors, strict=True)
        pair = [changed(fit, log_evidence=e, log_evidence_error=s) for fit, e, s in stated]
        assert mixed(*pair).log_evidence_error == pytest.approx(expected)
    # A family that dies out afterwards is doubtful again, and so are moves that either run lacked.
    gone = replace(changed(both, families=np.zeros(256, int)), made=both.diagnostics)
    assert "descend from one of 256" in gone.diagnostics["warnings"][0]
    stuck = replace(two, made={**two.made, "acceptance": 0.1})
    for pair in ((one, stuck), (stuck, one)):
        assert "only 10% of the moves" in mixed(*pair).diagnostics["warnings"][0]
    # Of estimates of two kinds the better counts.
    both = mixed(one, replace(lost, made={**lost.made, "method": "importance"}), False)
    assert both.log_evidence == one.log_evidence
    assert both.diagnostics["share"] == 1.0


@pytest.mark.parametrize(
    ("one", "other", "evidence", "error"),
    [
        # A poor one hardly says anything, however far it is from a good one within its error.
        ((-18.0, 4.0), (-10.0, 0.05), -10.00125, 0.1),
        ((-10.0, 0.05), (-10.1, 0.05), -10.05, 0.05),
        ((-10.0, 0.3), (-10.0, 0.3), -10.0, 0.3 / np.sqrt(2)),
        # An error that is not known leaves the other, if they agree, and the better, if not.
        ((-10.0, 0.1), (-9.7, np.inf), -10.0, 0.1),
        ((-10.0, 0.1), (-7.0, np.inf), -7.0, np.inf),
        ((-10.0, np.inf), (-7.0, np.inf), -7.0, np.inf),
        ((-10.0, 0.1), (-np.inf, np.inf), -10.0, 0.1),
    ],
)
def test_estimates_of_two_kinds_that_agree_are_weighed_by_their_errors(one, other, evidence, error):
    fit, fits = pma.fit_smc(one_parameter(), n_particles=64, random_seed=1, progressbar=False), []
    for method, (value, deviation) in (("smc", one), ("importance", other)):
        swarm = replace(fit.swarm, log_evidence=value, log_evidence_error=deviation)
        fits.append(replace(fit, swarm=swarm, made={**fit.made, "method": method}))
    both = fits[0].mixed(fits[1], np.random.default_rng(0), "")
    assert both.log_evidence == pytest.approx(evidence, abs=1e-3)
    assert both.log_evidence_error == pytest.approx(error, rel=1e-3)


def test_a_doubtful_run_for_an_embedding_is_repeated(monkeypatch):
    """Whether two runs agree says more than the number of their families."""
    gpm, runs = pma.embedding_gp(*data(12, 4), n_components=2), []

    def recorded(*args, **keywords):
        runs.append(run_smc(*args, **keywords))
        return runs[-1]

    monkeypatch.setattr(choose, "run_smc", recorded)
    assert "apart" not in pma.fit(gpm, random_seed=1, progressbar=False).diagnostics
    assert len(runs) == 1
    monkeypatch.setattr(particle_fit, "_FEW_FAMILIES", 1000)
    fit = pma.fit(gpm, random_seed=1, progressbar=False)
    _, one, two = runs
    assert_array_equal(one.swarm.z, runs[0].swarm.z)
    evidences = np.array([one.log_evidence, two.log_evidence])
    assert fit.diagnostics["apart"] == np.ptp(evidences)
    assert fit.log_evidence == pytest.approx(logsumexp(evidences) - np.log(2))
    # Of a mean of two, to first order; what the runs differ by counts if it is more.
    errors = np.array([one.log_evidence_error, two.log_evidence_error])
    of_mean = np.sqrt(np.square(np.exp(evidences - logsumexp(evidences)) * errors).sum())
    assert fit.log_evidence_error == pytest.approx(max(of_mean, np.ptp(evidences) / 2))
    assert len(fit.ensemble) == 256
    # They agree, so that there is nothing to warn of.
    assert not fit.diagnostics["warnings"]


def test_a_doubtful_run_for_an_embedding_with_many_points_is_mixed_with_draws_around_modes(monkeypatch):
    gpm = pma.embedding_gp(*data(16, 2), n_components=1)
    monkeypatch.setattr(particle_fit, "_FEW_FAMILIES", 100)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="the fit is doubtful: the particles descend from")
        fit = pma.fit(gpm, random_seed=1, progressbar=False)
    assert fit.diagnostics["method"] == "smc and importance"
    assert 0 < fit.diagnostics["share"] < 1
    monkeypatch.undo()
    long = pma.fit_smc(gpm, n_particles=256, random_seed=2, progressbar=False)
    assert abs(fit.log_evidence - long.log_evidence) < 4 * np.hypot(fit.log_evidence_error, long.log_evidence_error)


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.parametrize(("n", "D"), [(8, 2), (6, 12), (10, 4)])
def test_embeddings_annealed_from_around_modes_are_those_of_smc(n, D):
    """Evidence and predictions; with fewer points than inputs in the row space of these."""
    X, y = data(n, D)
    gpm = pma.embedding_gp(X, y, n_components=2, bounds=[(-1, 1)] * D)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=pma.DoubtfulFitWarning)
        modes = pma.fit_laplace(gpm, random_seed=1, progressbar=False)
    annealed = anneal_around(modes, 1024, np.random.default_rng(1), "", None)
    smc = pma.fit_smc(gpm, n_particles=2048, random_seed=1, progressbar=False)
    error = np.hypot(annealed.log_evidence_error, smc.log_evidence_error)
    assert error < 0.6
    assert abs(annealed.log_evidence - smc.log_evidence) < 4 * error
    new = np.random.default_rng(5).uniform(-1, 1, size=(50, D))
    one, other = (pma.predict(fit, new) for fit in (annealed, smc))
    spread = np.sqrt(other.f_variance)
    assert float((abs(one.f_mean - other.f_mean) / spread).max()) < 0.5
    assert_allclose(np.sqrt(one.f_variance / other.f_variance), 1, atol=0.35)


@pytest.mark.nightly
def test_annealed_draws_that_hardly_move_do_not_know_their_evidence(monkeypatch):
    """Few points and a period: hardly any weighted draw counts, and draws are annealed from around the modes."""
    x = np.linspace(-2, 2, 10)[:, None]
    y = np.sin(2 * x[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=10)
    fit = pma.fit_laplace(pma.composite_gp(x, y, "PER"), random_seed=1, progressbar=False)
    monkeypatch.setattr(modes, "_FEW_WEIGHTED", 1000)
    monkeypatch.setattr(modes, "LOW_ACCEPTANCE", 0.0)
    annealed = from_modes(fit, 128, np.random.default_rng(0), "", None)
    assert annealed.diagnostics["n_levels"] > 1
    assert not annealed.diagnostics["confirmed"]
    # Most of the first draws are from the prior, where the evidence lies: 200,000 of its draws give -7.59 ± 0.09.
    assert abs(annealed.log_evidence + 7.59) < 5 * max(annealed.log_evidence_error, 0.5)
    monkeypatch.setattr(modes, "LOW_ACCEPTANCE", 1.1)
    assert anneal_around(fit, 64, np.random.default_rng(0), "", None).log_evidence_error == np.inf
    chains = from_modes(fit, 64, np.random.default_rng(0), "", None)
    assert "n_levels" not in chains.diagnostics
    assert chains.log_evidence_error == np.inf


EXTREME = {
    "one point": (np.zeros((1, 2)), np.ones(1)),
    "one place": (np.zeros((6, 2)), np.arange(6.0)),
    "constant y": (np.linspace(-1, 1, 12).reshape(6, 2), np.ones(6)),
    "an outlier": (np.linspace(-1, 1, 12)[:, None], np.where(np.arange(12) == 5, 50.0, 0.0)),
    "1000 inputs": (np.random.default_rng(0).uniform(-1, 1, size=(20, 1000)), np.arange(20.0) / 10),
}


@pytest.mark.parametrize(("X", "y"), EXTREME.values(), ids=EXTREME)
def test_extreme_data_give_finite_answers(X, y):
    gpm = pma.embedding_gp(X, y, n_components=1) if X.shape[1] > 100 else pma.ard_gp(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pma.DoubtfulFitWarning)
        warnings.simplefilter("ignore", pma.DataWarning)
        fit = pma.fit(gpm, n_particles=64, random_seed=1, progressbar=False)
    assert np.isfinite(fit.ensemble.thetas).all()
    assert np.isfinite(fit.log_evidence)
    predicted = pma.predict(fit, X[:3], quantiles=[0.1, 0.9])
    assert all(np.isfinite(values).all() for values in predicted.data_vars.values())


@pytest.mark.filterwarnings("ignore::pymc_active.DataWarning")
@pytest.mark.parametrize("seed", [0, *nightly(1, 2)])
def test_particles_that_have_not_followed_are_doubtful_or_mixed_with_draws_around_modes(seed):
    """Outputs in thousands: by particles alone the evidence is tens of nats too low, as importance sampling shows."""
    gpm = pma.ard_gp(np.linspace(-1, 1, 7)[:, None], 1000.0 * np.array([2, 3, 1, 5, 4, 2, 1]))
    exact = modes.from_modes(pma.fit_laplace(gpm, random_seed=9), 256, np.random.default_rng(9), "", None)
    assert exact.diagnostics["confirmed"]
    fit = pma.fit(gpm, random_seed=seed, progressbar=False)
    assert fit.log_evidence == pytest.approx(exact.log_evidence, abs=0.3)
    assert not fit.diagnostics["warnings"]
    with pytest.warns(pma.DoubtfulFitWarning, match=r"far from what the priors expect.* \(give bounds"):
        alone = pma.fit_smc(gpm, random_seed=seed, progressbar=False)
    assert alone.diagnostics["lag"] > 1


def without_noise(n, seed, D=5):
    """An embedding of a function without noise: its mode is narrow, and shows when hardly any noise is left."""
    rng = np.random.default_rng(seed)
    X, w = rng.random((n, D)), rng.normal(size=D)
    return pma.embedding_gp(X, np.sin(4 * (X - 0.5) @ w), n_components=1, bounds=[(0, 1)] * D)


@pytest.mark.filterwarnings("ignore::pymc_active.DoubtfulFitWarning")
def test_a_mode_with_more_evidence_than_all_particles_is_missed_and_mixed_in(monkeypatch):
    gpm, quick = without_noise(20, 0), {"n_particles": 64, "random_seed": 1, "progressbar": False}
    fit = pma.fit_smc(gpm, **quick)
    for log_evidence, is_missed in ((-1e4, True), (1e4, False)):
        assert replace(fit, swarm=replace(fit.swarm, log_evidence=log_evidence)).has_missed_a_mode == is_missed
    monkeypatch.setattr(particle_fit.ParticleFit, "has_missed_a_mode", True)
    assert pma.fit(gpm, **quick).diagnostics["method"] == "smc and importance"


@pytest.mark.filterwarnings("ignore::pymc_active.DoubtfulFitWarning")
@pytest.mark.nightly
@pytest.mark.parametrize("seed", [8, 4])
def test_a_singular_lengthscale_is_passed_over(seed):
    """On the way to the most probable lengthscale K may be singular, as where there is no noise."""
    fit = pma.fit_laplace(without_noise(30, seed), random_seed=0, progressbar=False)
    assert np.isfinite(fit.log_evidence)


@pytest.mark.nightly
def test_particles_in_equilibrium_do_not_lag():
    for seed in range(5):
        fit = pma.fit_smc(pma.ard_gp(*data(12, D=2, seed=seed)), random_seed=seed, progressbar=False)
        assert fit.diagnostics["lag"] < 0.5
        assert not fit.diagnostics["warnings"]


def test_a_model_without_free_parameters_needs_no_particles():
    gpm = pma.ard_gp(*data(5), priors={"log_lengthscale": 0.0, "log_outputscale": 0.0, "log_noise": -2.0})
    fit = pma.fit(gpm, progressbar=False)
    assert fit.log_evidence == pytest.approx(gpm.posterior().value(np.empty(0)))


@pytest.mark.nightly
@pytest.mark.slow
def test_a_fit_of_exact_data_can_be_predicted_from():
    # The likelihood favours less noise than the rounding errors of K: particles there must not be kept.
    X = np.random.default_rng(40).uniform(-2, 2, (40, 2))
    y = -(100 * (X[:, 1] - X[:, 0] ** 2) ** 2 + (1 - X[:, 0]) ** 2)
    fit = pma.fit(pma.ard_gp(X, y, bounds=[(-2, 2)] * 2), n_particles=64, random_seed=0, progressbar=False)
    assert np.isfinite(fit.swarm.log_likelihood).all()
    p = pma.predict(fit, X)
    assert (np.abs(p.f_mean - y) < 5 * np.sqrt(p.y_variance)).all()


class Wall:
    """A likelihood that is finite only with much additional noise, as where K + noise is singular by rounding."""

    noise_unit, is_tempered, most_moves = 1.0, False, (1, 2)

    def log_priors(self, z):
        return -0.5 * np.square(z).sum(1), -z

    def log_likelihoods(self, z, extra_noise=0.0, start=None):
        value = -0.5 * np.square(z[:, 0] - 1) / extra_noise if extra_noise > 1e-2 else np.full(len(z), -np.inf)
        gradient, in_noise = np.zeros_like(z), np.zeros(len(z))
        if extra_noise > 1e-2:
            gradient[:, 0], in_noise = (1 - z[:, 0]) / extra_noise, 0.5 * np.square((z[:, 0] - 1) / extra_noise)
        return Likelihoods(value, gradient, in_noise)


class NoData(Wall):
    """A likelihood that says nothing, so that there are two levels; it lets particles move often."""

    most_moves = 4, 12

    def log_likelihoods(self, z, extra_noise=0.0, start=None):
        return Likelihoods(np.zeros(len(z)), np.zeros_like(z), np.zeros(len(z)))


@pytest.mark.parametrize(("kept", "n_moves"), [(0.0, 1 + 2), (0.8, 2 + 2), (0.97, 4 + 12)])
def test_particles_move_until_they_forget_where_they_were(monkeypatch, kept, n_moves):
    """The correlation of a coordinate with itself before is kept to the power of the moves; 0.97 ** 12 is 0.69."""
    count, rng = [], np.random.default_rng(1)

    def move(self, particles, extra_noise=0.0):
        count.append(extra_noise)
        z = particles.z.copy()
        z[:, 1] = kept * z[:, 1] + np.sqrt(1 - kept**2) * rng.normal(size=len(z))
        z[:, 0] = rng.normal(size=len(z))
        return Particles.at(self.posterior, z, extra_noise, particles.ancestors)

    monkeypatch.setattr(Mover, "move", move)
    anneal(NoData(), rng.normal(size=(20_000, 2)), rng)
    assert len(count) == n_moves


def test_what_cannot_be_annealed_is_an_error_and_no_nan():
    X, y = data(8)
    flat = users_gp(X, y, lambda: pm.gp.cov.ExpQuad(1, ls=pm.math.exp(pm.Flat("log_ls"))))
    posterior, rng = pma.ard_gp(np.zeros((3, 1)), np.arange(3.0)).posterior(), np.random.default_rng(0)
    for call, error, words in (
        (lambda: pma.fit_smc(flat, progressbar=False), ValueError, "log_ls"),
        (lambda: anneal(posterior, np.full((32, 3), 1e4), rng), ValueError, "not finite"),
        (lambda: anneal(Wall(), rng.normal(size=(64, 2)), rng), NoFiniteStartError, "only with more noise than the"),
    ):
        with pytest.raises(error, match=words):
            call()
