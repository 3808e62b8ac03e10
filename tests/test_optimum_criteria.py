"""Criteria of the maximum other than predictive entropy search, each against a second route."""

import numpy as np
import pytest
import xarray as xr
from differences import central_difference
from nightly import nightly
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm, truncnorm
from test_pes import criterion, problem

import pymc_active as pma
from pymc_active.criteria.improvement import ExpectedImprovement
from pymc_active.criteria.maximum.base import OfOneGP, OptimumScorer
from pymc_active.criteria.maximum.domain import Domain, read_domain
from pymc_active.criteria.maximum.entropy_search import EntropySearch, _Representers
from pymc_active.criteria.maximum.max_value import JointEntropy, MaxValueEntropy, Thompson
from pymc_active.posterior.conditioned import ConditionedGP
from pymc_active.predictions.ensembles import as_ensemble

T = np.random.default_rng(9).uniform(size=(6, 2))
BOX = [(0, 1), (0, 1)]


def dense(gp, X, extra=None):
    """Latent mean and variance at the rows of X, the latter above 1e-10 of the prior's, by explicit inverses."""
    Z, y, noises = gp.X, gp.y, gp.noise_variance(gp.X)
    if extra is not None:
        Z, y, noises = np.vstack([Z, extra[0]]), np.append(y, extra[1]), np.append(noises, 0.0)
    inverse = np.linalg.inv(gp.covariance(Z, Z) + np.diag(noises))
    cross, prior = gp.covariance(X, Z), gp.prior_variance(X)
    return cross @ inverse @ y, np.maximum(prior - np.einsum("mi,ij,mj->m", cross, inverse, cross), 1e-10 * prior)


def counted(part, X):
    """Entropy search by loops over draws and outcomes, (m,)."""
    gp, R = part.gp, part.X
    G = np.linalg.inv(gp.covariance(gp.X, gp.X) + np.diag(gp.noise_variance(gp.X)))
    V = gp.covariance(R, R) - gp.covariance(R, gp.X) @ G @ gp.covariance(gp.X, R)
    draws, gains = part.draws.T.astype(float), []
    for x in X:
        c = (gp.covariance(x[None], R) - gp.covariance(x[None], gp.X) @ G @ gp.covariance(gp.X, R))[0]
        total = gp.moments(x[None])[1][0] + gp.noise_variance(x[None])[0]
        regression = np.linalg.pinv(V, rcond=1e-10, hermitian=True) @ c
        y = (part.standard * np.sqrt(part.values)) @ part.vectors.T @ regression
        y += np.sqrt(max(total - c @ regression, 0.0)) * part.residual
        after = 0.0
        for node, weight in zip(part.nodes, part.weights, strict=True):
            best = [
                np.argmax(f + c[part.able] * (np.sqrt(total) * node - w) / total) for f, w in zip(draws, y, strict=True)
            ]
            p = np.bincount(best) / len(best)
            after -= weight * (p[p > 0] * np.log(p[p > 0])).sum()
        gains.append(part.before - after)
    return np.array(gains)


def by_hand(kind, scorer, X):
    """Scores of a criterion at one GP from its sample paths alone, and how near they should be."""
    [optima] = scorer.optima
    gp, heights = optima.gp, optima.maxima.values[:, None]
    if kind is Thompson:
        return optima.paths.value(X)[0], 1e-10
    if kind is EntropySearch:
        # Single precision may settle a tie the other way.
        return counted(scorer.parts[0].evaluate, X), 5e-3
    mean, variance = dense(gp, X)
    if kind is MaxValueEntropy:
        sd = np.sqrt(variance)
        # SciPy has no entropy of one that begins at minus infinity.
        cut = truncnorm(-40, (heights - mean) / sd, mean, sd)
        return (norm(mean, sd).entropy() - cut.entropy()).mean(0), 1e-10
    noise = gp.noise_variance(X)
    after = []
    for pair in zip(optima.maxima.X, optima.maxima.values, strict=True):
        m, v = dense(gp, X, pair)
        after.append(truncnorm.var(-np.inf, (pair[1] - m) / np.sqrt(v), m, np.sqrt(v)) + noise)
    return 0.5 * np.log(variance + noise) - 0.5 * np.log(after).mean(0), 1e-8


KINDS = {kind.name: kind for kind in (MaxValueEntropy, JointEntropy, Thompson, EntropySearch)}


def assert_by_hand(name, gpm, point, X, bounds=None):
    """A public function gives what its paths and dense arithmetic do; returns the scores."""
    kind = KINDS[name]
    found = getattr(pma.active, name)(point, X, model=gpm, bounds=bounds, random_seed=1).to_numpy()
    scorer = kind(read_domain(bounds, X, gpm.inputs), random_seed=1).prepare(point, model=gpm)
    expected, tolerance = by_hand(kind, scorer, np.asarray(X, float))
    assert_allclose(found, expected, atol=tolerance, rtol=1e-5)
    return found


class TestHeights:
    gpm, point = problem()

    def test_thompson_is_a_path_whose_maximum_a_search_finds(self):
        options = {"model": self.gpm, "bounds": BOX, "random_seed": 1}
        found = pma.active.thompson(self.point, **options)
        made = criterion(self.gpm, self.point, kind=Thompson)
        assert_allclose(made.score(T), made.optima[0].paths.value(T)[0])
        everywhere = pma.active.thompson(self.point, np.random.default_rng(0).uniform(size=(500, 2)), **options)
        assert float(found[0]) >= float(everywhere.max())

    def test_thompson_takes_any_of_the_draws(self):
        point = {name: np.stack([np.asarray(value, float)] * 6) for name, value in self.point.items()}
        point["log_outputscale"] = np.linspace(-1, 1, 6)
        dims = {"log_lengthscale": ["chain", "draw", "input"]}
        posterior = xr.Dataset({k: (dims.get(k, ["chain", "draw"]), v[None]) for k, v in point.items()})
        trace = xr.DataTree.from_dict({"posterior": posterior})
        chosen = set()
        for seed in range(12):
            made = Thompson(Domain(np.zeros(2), np.ones(2)), n_features=50, n_hyperparameters=6, random_seed=seed)
            [(gp, paths, _)] = made.prepare(trace, model=self.gpm).optima
            assert paths.n_paths == 1
            chosen.add(tuple(gp.theta))
        assert len(chosen) > 2


@pytest.mark.parametrize("kind", [MaxValueEntropy, JointEntropy, Thompson])
@pytest.mark.parametrize("kernel", ["ExpQuad", "Matern52", "Matern32"])
def test_gradients_agree_with_central_differences(kind, kernel):
    gpm, point = problem(kernel=kernel, x_scale=([0.1, 0.2], [2.0, 0.5]), y_scale="standardize")
    made = criterion(gpm, point, kind=kind)
    value, slope = made.evaluate(T, True)
    assert_allclose(value, made.score(T), rtol=1e-12)
    for i, x in enumerate(T):
        numeric = central_difference(lambda z: made.evaluate(z[None], False)[0][0], x)
        assert_allclose(slope[i], numeric, rtol=1e-5, atol=1e-5 * abs(slope).max())


@pytest.mark.parametrize("name", ["max_value_entropy", "joint_entropy_search", "thompson", "entropy_search"])
class TestAll:
    @pytest.mark.parametrize("kernel", ["Matern32", *nightly("Matern12")])
    def test_rough_kernels_are_welcome(self, name, kernel):
        gpm, point = problem(kernel=kernel)
        assert np.ptp(assert_by_hand(name, gpm, point, T, BOX)) > 1e-2

    def test_minimizing_is_maximizing_the_negative_bit_for_bit(self, name):
        gpm, point = problem()
        other = pma.ard_gp(gpm.X, -gpm.y)
        score = getattr(pma.active, name)
        options = {"model": gpm, "bounds": BOX, "random_seed": 1}
        assert_array_equal(score(point, T, minimize=True, **options), score(point, T, **options | {"model": other}))
        assert_array_equal(score(point, T, **options), score(point, T, **options))
        assert (score(point, T, **options) != score(point, T, **options | {"random_seed": 2})).any()

    @pytest.mark.parametrize("noise", [1e-6, *nightly(1e-3)])
    def test_data_are_candidates_like_others(self, name, noise):
        gpm, point = problem(noise=noise)
        assert_by_hand(name, gpm, point, gpm.X, BOX)

    def test_a_pool_is_a_domain(self, name):
        gpm, point = problem()
        assert np.ptp(assert_by_hand(name, gpm, point, T)) > 1e-2
        one = assert_by_hand(name, gpm, point, T[:1])
        # Of a single candidate the place is known, but not the height.
        assert (one == 0) == (name == "entropy_search")

    def test_one_observation_is_enough(self, name):
        gpm, point = problem(D=1, n=1)
        assert np.ptp(assert_by_hand(name, gpm, point, [[0.1], [0.9]], [(0, 1)])) > 1e-2


def test_joint_entropy_search_where_the_maximum_is_at_a_datum():
    """Without noise nothing is left to know there, and covariances with it are rounding errors."""
    values = []
    for noise in (1e-6, 1e-8):
        gpm, point = problem(noise=noise)
        made = criterion(gpm, point, pool=np.concatenate([gpm.X, T]), kind=JointEntropy)
        assert (made.optima[0].maxima.X == gpm.X[gpm.y.argmax()]).all(1).any()
        value, slope = made.evaluate(np.concatenate([T, gpm.X]), True)
        assert np.isfinite(value).all()
        assert np.isfinite(slope).all()
        values.append(value[: len(T)])
    assert_allclose(values[1], values[0], rtol=5e-3)


class TestEntropySearch:
    def test_it_expects_the_fall_of_entropy_that_conditioning_brings(self):
        """By fresh draws from the representers' Gaussian, given each outcome."""
        gpm, point = problem()
        made = criterion(gpm, point, kind=EntropySearch)
        part = made.parts[0].evaluate
        x, R, rng = T[:1], part.X, np.random.default_rng(0)

        def entropy(model):
            gp = ConditionedGP(model, part.gp.theta)
            cross = gp.covariance(gp.X, R)
            V = gp.covariance(R, R) - cross.T @ gp.factor.solve(cross)
            values, vectors = np.linalg.eigh(V)
            root = vectors * np.sqrt(np.maximum(values, 0.0))
            best = (gp.moments(R)[0] + rng.normal(size=(10_000, len(R))) @ root.T).argmax(1)
            p = np.bincount(best) / len(best)
            return -(p[p > 0] * np.log(p[p > 0])).sum()

        mean, variance = part.gp.moments(x)
        sd = np.sqrt(variance + part.gp.noise_variance(x))
        after = [
            entropy(gpm.posterior().with_data(np.vstack([gpm.X, x]), np.append(gpm.y, mean + sd * node)))
            for node in part.nodes
        ]
        expected = entropy(gpm.posterior()) - part.weights @ after
        # The entropy from 1,000 draws has an error of about 0.03, most of it the same before and after.
        assert_allclose(made.score(x), expected, atol=0.05)

    def test_representers_that_are_never_best_are_left_out(self):
        gpm, point = problem()
        gp = ConditionedGP(gpm.posterior(), gpm.flatten(point))
        part = _Representers(gp, np.concatenate([gpm.X, T]), np.random.default_rng(0))
        assert 1 <= len(part.able) < len(part.X)
        assert gpm.y[[i for i in range(8) if i not in part.able]].max() < gpm.y.max()

    def test_it_has_no_gradient_and_its_maximum_is_found_all_the_same(self):
        gpm, point = problem(D=1, n=4)
        found = pma.active.entropy_search(point, model=gpm, bounds=[(0, 1)], random_seed=1)
        assert 0 <= float(found.x0[0]) <= 1


@pytest.fixture(scope="module")
def fits():
    gpm, _ = problem()
    other = pma.ard_gp(gpm.X, gpm.y, kernel="Matern52")
    return [pma.fit_laplace(one, n_restarts=1, random_seed=0, progressbar=False) for one in (gpm, other)]


class TestExpectedImprovement:
    def by_hand(self, posterior, thetas, X):
        """The improvement of each draw over its own best mean."""
        values = []
        for theta in thetas:
            gp = ConditionedGP(posterior, theta)
            best = gp.moments(gp.X)[0].max()
            mean, variance = gp.moments(X)
            sd = np.sqrt(variance)
            z = (mean - best) / sd
            values.append(sd * (norm.pdf(z) + z * norm.cdf(z)))
        return np.array(values)

    def test_the_gradient_of_several_models_compares_each_draw_with_its_own_best(self, fits):
        average = pma.ModelAverage(dict(zip("ab", fits, strict=True)))
        scorer = ExpectedImprovement(method="draws", draws=70, random_seed=2).prepare(average)
        for made, n in ((scorer, 70), (scorer.coarse(32), 32)):
            value, slope = made.gradient(T[:2])
            each = [
                self.by_hand(fit.best.posterior, fit.ensemble_by("draws", 70, 2).thetas[:n], T[:2]).mean(0)
                for fit in fits
            ]
            assert_allclose(np.exp(value), average.weights @ each, rtol=1e-6)
            numeric = central_difference(lambda z, made=made: made.score(z[None])[0], T[0])
            assert_allclose(slope[0], numeric, rtol=1e-5, atol=1e-6)


def test_a_mean_over_parts_is_weighted():
    def fixed(weight, values, slope):
        return OfOneGP(gp, weight, lambda X, gradient: (np.array(values), np.full((2, 1), slope) if gradient else None))

    gpm, point = problem(D=1)
    gp = ConditionedGP(gpm.posterior(), gpm.flatten(point))
    parts = [fixed(1.0, [1.0, 2.0], 1.0), fixed(3.0, [5.0, 2.0], 0.0)]
    made = OptimumScorer(as_ensemble(point, model=gpm), "nats", [], parts, 1)
    value, slope = made.gradient(T[:2, :1])
    assert_allclose(value, [4.0, 2.0])
    assert_allclose(slope, [[0.25], [0.25]])
    assert_allclose(made.score(T[:2, :1]), value)
    assert made.evaluate(T[:2, :1], False)[1] is None
