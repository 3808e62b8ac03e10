"""The search for modes of sums and products of kernels: periods, parents, exchangeable terms, many models at once."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pymc as pm
import pytest
from nightly import nightly
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import simpson
from scipy.special import logsumexp
from users import users_gp

import pymc_active as pma
from pymc_active.kernels.periodic import highest_frequency, lattice_step
from pymc_active.laplace import fit_laplace_models
from pymc_active.laplace.curvature import FLOOR
from pymc_active.laplace.like_terms import exchanges, log_multiplicity, log_separation, same_place
from pymc_active.laplace.modes import composite_kernels
from pymc_active.laplace.modes.scans import hidden_grid, hidden_leaves, longest_aliases, scan
from pymc_active.laplace.modes.search import Found, Searcher, SearchTask, distinct
from pymc_active.laplace.modes.warm_starts import starts_from_parent
from pymc_active.posterior.compile_mode import vm_mode
from pymc_active.support.threads import one_blas_thread

pytestmark = pytest.mark.slow

PERIOD = 0.13
# Nats by which a search may end below another one: where climbs stop decides less, any other mode more.
LOST = 1e-3


def seasonal(n=30, seed=0):
    """A trend, a season and noise, at irregular places in [0, 1]."""
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(size=n))
    y = 1.5 * x - 0.7 + np.sin(2 * np.pi * x / PERIOD) + 0.1 * rng.normal(size=n)
    return x[:, None], y


def composite(expression, data=None, **keywords):
    return pma.composite_gp(*(seasonal() if data is None else data), expression, **keywords)


def fit(gpm, **keywords):
    options = {"n_restarts": 6, "population": 0, "random_seed": 1, "progressbar": False}
    return pma.fit_laplace(gpm, **{**options, **keywords})


def summed(result):
    return logsumexp([e.log_evidence for e in result.expansions])


@pytest.fixture(scope="module")
def models():
    return {e: composite(e) for e in ("SE", "SE + PER", "LIN * PER")}


@pytest.fixture(scope="module")
def fits(models):
    return fit_laplace_models(models, n_restarts=8, random_seed=3)


@pytest.mark.parametrize("expression", ["PER", "LIN + PER * RQ", "SE * (LIN0 + PER) + PER", "STEP * PER + LIN"])
def test_a_scan_is_the_posterior_at_each_period_and_place(expression):
    posterior = composite(expression).posterior()
    theta = posterior.prior.mean + 0.3 * np.random.default_rng(0).normal(size=posterior.n_parameters)
    for leaf in hidden_leaves(posterior):
        grid, expected = hidden_grid(posterior, leaf)[::7], []
        for value in grid:
            there = theta.copy()
            there[leaf.hidden] = value
            expected.append(posterior.value_and_gradient(there, 0.3)[0])
        assert_allclose(scan(posterior, theta, leaf, grid, 0.3), expected, rtol=1e-10)


def scanned(x, **keywords):
    """The periods that are looked at, the longest first."""
    posterior = pma.composite_gp(x, x[:, 0], "PER", x_scale=(0.0, 1.0), **keywords).posterior()
    return np.exp(hidden_grid(posterior, hidden_leaves(posterior)[0]))


@pytest.mark.filterwarnings("ignore:the default priors assume")
def test_periods_that_are_scanned():
    """Neighbours differ by a third of a cycle over the data; uneven distances tell short ones apart."""
    x = seasonal()[0]
    cycles = np.ptp(x) / scanned(x)
    assert np.diff(cycles).max() < 0.34
    assert cycles[0] < 2
    assert cycles[-1] > 20
    assert_allclose(scanned(np.linspace(0, 1, 12)[:, None])[-1], 1 / 12, rtol=0.02)
    # As far as 400 of them lie close enough, beyond the prior's 2.5 sds.
    assert 0.1 * np.exp(-5 * 0.5**0.5) < scanned(seasonal(12)[0])[-1] < 0.1 * np.exp(-2.5 * 0.5**0.5)
    # One close pair does not make even distances uneven.
    for repeat in (0.0, 1e-15, 0.01):
        x = np.append(np.linspace(0, 30, 60), 10 + repeat)[:, None]
        shortest = scanned(x, priors={"log_period_PER": pm.Normal.dist(1.1, 1.5)})[-1]
        assert_allclose(shortest, 30 / 61, rtol=0.02)


@pytest.mark.parametrize(
    ("x", "expected"),
    [
        (np.arange(30.0), 0.5),
        ([0.0, 1.0], 0.5),
        ([1.0], 0.0),
        # Rounding, and the peak of the window at zero, are no lattice.
        ([0.1 + 0.2, 0.3, 0.3], 0.0),
        (np.append(0.03 * np.sort(np.random.default_rng(0).uniform(size=100)), 1.0), 100.0),
    ],
)
def test_the_highest_frequency_that_points_tell(x, expected):
    assert_allclose(highest_frequency(np.asarray(x), 100.0), expected, rtol=0.01)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", [0, 1])
def test_a_period_far_below_the_priors_is_found_where_the_data_tell_it(seed):
    """Three prior sds away; twice the period was found with all its probability."""
    rng = np.random.default_rng(seed)
    x = np.sort(rng.choice(1000, 100, replace=False) + rng.uniform(-0.15, 0.15, 100))
    x = x[x % 365 < 220]
    y = 15 + 0.2 * np.sin(2 * np.pi * x / 12) + 0.05 * rng.normal(size=len(x))
    fit = pma.fit_laplace(pma.composite_gp(x[:, None], y, "PER", bounds=[(0, 1100)]), random_seed=0, progressbar=False)
    assert_allclose(fit.constrained_point["period_PER"], 12, rtol=0.01)


@pytest.mark.parametrize("seed", [0, *nightly(*range(1, 3))])
def test_a_period_shorter_than_the_mean_distance_is_found(seed):
    x = np.sort(np.random.default_rng(seed).uniform(size=12))
    y = np.sin(2 * np.pi * x / 0.05)
    gpm = pma.composite_gp(x[:, None], y, "PER", x_scale=(0.0, 1.0))
    result = pma.fit_laplace(gpm, random_seed=seed, progressbar=False)
    assert_allclose(result.constrained_point["period_PER"], 0.05, rtol=0.02)


@pytest.mark.parametrize("seed", [0, *nightly(*range(1, 4))])
def test_a_wave_longer_than_the_data_is_found_where_they_are_a_trend(seed):
    """Four sds of the prior from its mean."""
    x = np.random.default_rng(seed).uniform(size=40)
    y = 3 * x + 0.1 * np.random.default_rng(seed).normal(size=40)
    result = fit(pma.composite_gp(x[:, None], y, "PER", x_scale=(0.0, 1.0), y_scale="standardize"), random_seed=seed)
    assert result.constrained_point["period_PER"] > 1


def test_a_fixed_period_is_not_scanned():
    gpm = composite("SE + PER", priors={"log_period_PER": np.log(PERIOD)})
    assert hidden_leaves(gpm.posterior()) == []
    assert_allclose(fit(gpm).constrained_point["period_PER"], PERIOD)


def test_a_poor_start_does_not_spoil_the_search(fits):
    good = fits["SE + PER"]
    poor = {**good.point, "log_period_PER": np.log(0.4)}
    again = fit(good.gpm, start=poor, n_restarts=8)
    assert again.log_posterior > good.log_posterior - LOST
    # From there alone, without a scan, it is not found.
    assert fit(good.gpm, start=poor, n_restarts=0).log_posterior < good.log_posterior - 1


def test_a_model_of_the_users_own_has_no_tree_of_kernels():
    x, y = seasonal(8)
    posterior = users_gp(x, y, lambda: pm.gp.cov.Periodic(1, period=pm.LogNormal("period", -2), ls=1.0)).posterior()
    assert posterior.kernel is None
    assert log_multiplicity(posterior, np.zeros(1)) == 0


def test_a_new_point_is_followed(fits):
    """From the modes for 29 points, one fresh start finds what a full search finds for 30."""
    x, y = seasonal()
    gpm = composite("SE + PER", (x[:-1], y[:-1]))
    before = fit(gpm, n_restarts=10)
    gpm.set_data(x, y)
    after = fit(gpm, start=before, n_restarts=1)
    assert after.log_posterior > fits["SE + PER"].log_posterior - LOST


def starts_of(parent, child):
    return starts_from_parent(child.posterior(), parent.best.posterior, [parent.theta], np.random.default_rng(0))


def test_base_kernels_keep_their_parameters(fits):
    parent, child = fits["SE + PER"], composite("SE + PER * RQ")
    for point in map(child.unflatten, starts_of(parent, child)):
        for name, value in parent.point.items():
            assert_array_equal(point[name], value)
        # The new factor is nearly one.
        assert point["log_outputscale_RQ"] == 0
        assert np.exp(point["log_lengthscale_RQ"]) > 0.4
    # One that occurs twice may be either.
    twice, names = composite("SE * PER + SE"), {"log_lengthscale_SE_1", "log_lengthscale_SE_2"}
    points = [twice.unflatten(theta) for theta in starts_of(parent, twice)]
    value = parent.point["log_lengthscale_SE"]
    assert {name for point in points for name in names if point[name] == value} == names


def test_a_new_season_is_scanned_for_whatever_the_seed(fits, monkeypatch):
    """With two restarts beside the modes of the parent, at least one looks at all periods."""
    scanned = []

    def spy(searcher, rng):
        scanned.append(seed)
        return searcher.climb(searcher.draw(rng, 0.3), iterations=1)

    monkeypatch.setattr(composite_kernels, "_SCANS", (spy,))
    for seed in range(12):
        fit(composite("SE + PER"), start=fits["SE"], n_restarts=2, random_seed=seed)
    assert set(scanned) == set(range(12))


@pytest.mark.parametrize(("expression", "change"), [("SE + PER + RQ", 0.1), ("(SE + PER) * LIN", 0.4)])
def test_what_is_new_changes_little_in_one_of_the_starts(fits, expression, change):
    parent, gpm = fits["SE + PER"], composite(expression)
    child, before = gpm.posterior(), parent.best.posterior.kernel.at(parent.theta, gpm.posterior().X).K
    starts = starts_of(parent, gpm)
    changes = [np.abs(child.kernel.at(start, child.X).K - before).max() / np.abs(before).max() for start in starts]
    assert min(changes) < change
    # A new line starts near its zero as well.
    assert ("LIN" in expression) == (max(changes) > 0.9)


def test_a_child_is_at_least_as_probable_as_what_it_starts_from(fits):
    """Without any restart the season of the parent is there at once."""
    child = fit(composite("SE + PER + RQ"), start=fits["SE + PER"], n_restarts=0)
    assert_allclose(child.constrained_point["period_PER"], PERIOD, rtol=0.03)
    mixed = fit(composite("SE + PER + RQ"), start=[fits["SE"], child.point], n_restarts=0)
    assert mixed.log_posterior > child.log_posterior - LOST


@pytest.mark.parametrize(
    ("copies", "expressions"),
    [
        (1, ("SE", "SE + PER", "SE[0] + SE[1]")),
        (2, ("SE + RQ + SE", "PER * SE + SE * PER", "SE * (SE + SE)")),
        (6, ("SE + SE + SE",)),
        (8, ("SE * SE + SE * SE",)),
    ],
)
def test_copies_of_a_point_under_exchanges(copies, expressions):
    X = np.random.default_rng(0).uniform(size=(6, 2))

    def found(expression, **keywords):
        posterior = pma.composite_gp(X, np.sin(X[:, 0]), expression, **keywords).posterior()
        theta = posterior.prior.mean + np.random.default_rng(1).normal(size=posterior.n_parameters)
        # Where like terms have equal parameters an exchange does nothing.
        assert_allclose(log_multiplicity(posterior, posterior.prior.mean), 0, atol=1e-12)
        return np.exp(log_multiplicity(posterior, theta))

    for expression in expressions:
        assert_allclose(found(expression), copies)
    # Terms with priors or fixed values of their own are not exchanged.
    for prior in (pm.Normal.dist(0.0, 1.0), -1.0):
        assert found("SE + SE", priors={"log_lengthscale_SE_1": prior}) == 1


@pytest.mark.nightly
def test_like_terms_are_those_of_one_prior_by_any_route():
    """Compiled, and with a prior that is not normal; what the user adds makes terms unlike."""
    data, of_students = seasonal(8), partial(pm.StudentT.dist, 4, mu=-2.0)
    gpm = composite("SE + SE * LIN + SE", data)
    assert_array_equal(exchanges(gpm.posterior({"mode": vm_mode()})), exchanges(gpm.posterior()))
    own = composite("SE + SE", data, priors={"log_lengthscale": of_students(sigma=1.0)}).posterior()
    theta = np.arange(own.n_parameters) / 3
    assert_allclose(np.exp(log_multiplicity(own, theta)), 2)
    assert len(exchanges(own)) == 2
    value, of_image = (own.prior_value_and_gradient(theta[image])[0] for image in exchanges(own))
    assert_allclose(value, of_image, rtol=1e-12)
    priors = {f"log_lengthscale_SE_{k}": of_students(sigma=float(k)) for k in (1, 2)}
    assert len(exchanges(composite("SE + SE", data, priors=priors).posterior())) == 1
    gpm = composite("SE + SE", data)
    with gpm.model:
        pm.Potential("long", 2 * gpm.model["log_lengthscale_SE_1"])
    assert len(exchanges(gpm.posterior())) == 1


def by_quadrature(gpm, grid):
    """The evidence of two parameters that can be exchanged."""
    with one_blas_thread():
        value = gpm.posterior().values(np.stack(np.meshgrid(grid, grid, indexing="ij"), axis=-1).reshape(-1, 2))
    value = value.reshape(len(grid), -1)
    assert_allclose(value, value.T, atol=1e-8)
    return value.max() + np.log(simpson(simpson(np.exp(value - value.max()), x=grid), x=grid))


def test_evidence_of_exchangeable_terms_by_quadrature():
    """Two lengthscales of ``SE + SE``, all else fixed: both halves of the plane count."""
    rng, x = np.random.default_rng(5), np.linspace(0, 1, 40)[:, None]
    K = np.exp(-0.5 * ((x - x.T) / 0.04) ** 2) + np.exp(-0.5 * ((x - x.T) / 0.6) ** 2)
    y = np.linalg.cholesky(K + 0.01 * np.eye(40)) @ rng.normal(size=40)
    fixed = {"log_outputscale_SE_1": 0.0, "log_outputscale_SE_2": 0.0, "log_noise": np.log(0.1)}
    gpm = pma.composite_gp(x, y, "SE + SE", mean="zero", priors=fixed)
    result = fit(gpm)
    assert_allclose(result.best.log_multiplicity, np.log(2), rtol=1e-3)
    # The other image is not a mode of its own.
    assert len(result.modes) == 1
    exact = by_quadrature(gpm, np.linspace(-4.5, 2.0, 61))
    # Laplace's own error here is below 0.1; a forgotten copy costs 0.69.
    assert_allclose(result.log_evidence, exact, rtol=0, atol=0.2)


@pytest.mark.parametrize("seed", [0, *nightly(*range(1, 6))])
def test_terms_that_have_grown_together_are_not_counted_twice(seed):
    """One smooth function, two terms for it: copies of the mode overlap, in a direction that is nearly flat."""
    rng, x = np.random.default_rng(seed), np.linspace(0, 1, 40)[:, None]
    K = np.exp(-0.5 * ((x - x.T) / 0.15) ** 2)
    y = np.linalg.cholesky(K + 1e-8 * np.eye(40)) @ rng.normal(size=40) + 0.05 * rng.normal(size=40)
    fixed = {"log_lengthscale_SE_1": np.log(0.15), "log_lengthscale_SE_2": np.log(0.15), "log_noise": np.log(0.05)}
    gpm = pma.composite_gp(x, y, "SE + SE", mean="zero", priors=fixed)
    result, exact = fit(gpm), by_quadrature(gpm, np.linspace(-8.0, 4.0, 97))
    # Counted twice and without a floor it was up to 1.8 too high.
    assert_allclose(summed(result), exact, rtol=0, atol=0.6)
    # The prior's sds are one.
    n_weak = (np.linalg.eigvalsh(result.hessian) < FLOOR).sum()
    assert result.diagnostics["n_weak"] == n_weak
    assert result.diagnostics["n_floored"] == 0
    assert (np.linalg.eigvalsh(result.covariance) > 1 / FLOOR - 1e-6).sum() == n_weak


@pytest.mark.parametrize(("expression", "apart"), [("SE + SE", 0.1), ("SE + SE", 0.6), ("SE + SE + SE", 0.3)])
def test_a_copy_counts_by_the_share_nearer_to_its_own_mode(expression, apart):
    gpm = composite(expression)
    posterior, rng = gpm.posterior(), np.random.default_rng(4)
    center, sd = posterior.prior_scale()
    theta = center + sd * apart * rng.normal(size=len(sd))
    root = 0.5 * sd[:, None] * rng.normal(size=(len(sd), len(sd))) / np.sqrt(len(sd))
    images = exchanges(posterior)
    draws = (theta + rng.normal(size=(200_000, len(sd))) @ root.T) / sd
    distances = np.array([np.square(draws - theta[image] / sd).sum(1) for image in images])
    share = np.mean(distances.argmin(0) == 0)
    assert 1 / len(images) < share < 0.99
    assert_allclose(np.exp(log_separation(posterior, theta, root)), share, rtol=0, atol=0.02)
    # Far from its copies all of a mode is its own.
    assert log_separation(posterior, theta, 1e-4 * root) == 0.0


def test_modes_of_equal_height_at_different_places_are_two():
    posterior = composite("SE + SE").posterior()
    _, sd = posterior.prior_scale()
    a = np.zeros(len(sd))
    b = a + np.eye(len(sd))[posterior.log_noise] * sd
    _, second, *others = exchanges(posterior)
    assert not others
    c = a.copy()
    c[0] += sd[0]
    found = [Found(theta, value, True) for theta, value in ((a, 1.0), (b, 0.999), (c, 0.998), (c[second], 0.998))]
    kept = distinct(found, 0.01, same_place(posterior, 0.5))
    assert [mode.z.tolist() for mode in kept] == [a.tolist(), b.tolist(), c.tolist()]
    assert distinct(found, 0.01) == found[:1]


def test_models_are_fitted_as_one_by_one(models, fits):
    assert list(fits) == list(models)
    for label, gpm in models.items():
        assert fits[label].gpm is gpm
        alone = fit(gpm, n_restarts=12, random_seed=0)
        assert_allclose(summed(fits[label]), summed(alone), rtol=0, atol=0.5)


@pytest.mark.parametrize("parallel", [True, *nightly(False)])
def test_a_model_that_cannot_be_fitted_is_named(parallel):
    impossible = {"sound": composite("SE"), "loud": composite("SE", priors={"log_outputscale": 400.0})}
    words = r"^loud: the log posterior is not finite at any start"
    with ThreadPoolExecutor(2) as pool, pytest.raises(ValueError, match=words):
        fit_laplace_models(impossible, n_restarts=2, random_seed=0, executor=pool if parallel else None)


def test_doubtful_fits_are_warned_of_once_by_name():
    x, y = seasonal(10)
    twice = np.vstack([x, x]), np.concatenate([y, y])
    priors = {"log_noise": np.log(2e-6)}
    doubtful = {e: composite(e, twice, priors=priors) for e in ("SE", "LIN")}
    doubtful["sound"] = composite("SE")
    with pytest.warns(UserWarning, match="Laplace fits are doubtful") as caught:
        fit_laplace_models(doubtful, n_restarts=2, population=0, random_seed=0)
    assert len(caught) == 1
    assert "sound" not in str(caught[0].message)


# Aliases.

MONTHS = np.arange(40.0)
SEASON = pma.composite_gp(
    MONTHS[:, None],
    0.3 * MONTHS + 4 * np.sin(2 * np.pi * MONTHS / 12) + np.random.default_rng(5).normal(size=40),
    "PER + LIN",
    x_scale="unit",
    y_scale="standardize",
)


def at_period(period):
    """A posterior mode's parameters, except for the period."""
    modes = pma.fit_laplace(SEASON, n_restarts=4, random_seed=0, progressbar=False)
    theta = modes.best.theta.copy()
    [k] = [k for k, name in enumerate(SEASON.labels) if name.startswith("log_period")]
    theta[k] = np.log(period / 39)
    return theta, k


@pytest.mark.parametrize("short", [12 / 11, 12 / 13, 12 / 23])
def test_points_on_a_lattice_cannot_tell_a_short_period_from_a_long_one(short):
    theta, k = at_period(short)
    posterior = SEASON.posterior()
    longer = longest_aliases(posterior, theta)
    assert np.exp(longer[k]) * 39 == pytest.approx(12)
    values = posterior.log_likelihoods(np.stack([theta, longer])).value
    assert values[0] == pytest.approx(values[1])
    assert longest_aliases(posterior, longer) is None
    # A search from there finds the long one.
    task, rng = SearchTask(posterior, None, [theta], 0, 0, 0), np.random.default_rng(0)
    found = composite_kernels.structured_search(Searcher(posterior), rng, task, lambda: None)
    assert np.exp(found.modes[0].z[k]) * 39 == pytest.approx(12, abs=0.5)


@pytest.mark.parametrize(
    ("x", "step"), [(MONTHS, 1.0), (np.delete(MONTHS, [3, 4, 9]) / 12, 1 / 12), (MONTHS**1.01, 0.0), (MONTHS[:1], 0.0)]
)
def test_points_are_on_a_lattice_or_not(x, step):
    assert lattice_step(x) == pytest.approx(step)


@pytest.mark.parametrize("random_seed", [1, *nightly(2)])
def test_fits_of_a_series_find_the_season(random_seed):
    """Before, the first of these was at the alias alone, 2.9 nats too low."""
    found = pma.fit(SEASON, random_seed=random_seed, progressbar=False)
    k = at_period(12)[1]
    assert np.mean(np.exp(found.ensemble.thetas[:, k]) * 39 > 2) > 0.8


@pytest.mark.parametrize("k", [2, *nightly(3)])
def test_multiples_of_a_period_lead_to_it(k):
    """A climb stays at a multiple of the period; a scan of the period given all else does not."""
    x = np.linspace(0, 1, 30)[:, None]
    y = np.sin(40 * x[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=30)
    gpm = pma.composite_gp(x, y, "PER + LIN", x_scale="unit", y_scale="standardize")
    posterior, fit = gpm.posterior(), pma.fit_laplace(gpm, random_seed=1, progressbar=False)
    assert_allclose(fit.constrained_point["period_PER"], 2 * np.pi / 40, rtol=0.01)
    [leaf], searcher = hidden_leaves(posterior), Searcher(posterior)
    theta = fit.theta.copy()
    theta[leaf.hidden] += np.log(k)
    theta[leaf.log_lengthscale] -= np.log(k)
    stays = searcher.climb(theta)
    assert stays.log_posterior < fit.log_posterior - 1
    starts = composite_kernels._scanned_again(searcher, stays.z)
    assert len(starts) == 3
    for start in starts:
        assert_array_equal(np.delete(start, leaf.hidden), np.delete(stays.z, leaf.hidden))
    # Its own, or one as good.
    assert max(searcher.climb(start).log_posterior for start in starts) > fit.log_posterior - 1
