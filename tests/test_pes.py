"""Predictive entropy search: its constraints by dense arithmetic with 50 digits, its gradient, its health."""

import json
import warnings
from pathlib import Path

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from differences import central_difference
from numpy.testing import assert_allclose, assert_array_equal
from users import GrowingNoise, users_gp

import pymc_active as pma
from pymc_active.criteria.maximum.constraints import GPGivenMaxima
from pymc_active.criteria.maximum.domain import Domain, best_inside, read_domain
from pymc_active.criteria.maximum.entropy_search import EntropySearch
from pymc_active.criteria.maximum.max_value import JointEntropy
from pymc_active.criteria.maximum.pes import Pes, PlaceInformation, pes
from pymc_active.criteria.maximum.truncated import propagate
from pymc_active.paths import PathMaxima
from pymc_active.posterior.conditioned import ConditionedGP

REFERENCE = json.loads((Path(__file__).parent / "reference" / "pes_constraints.json").read_text())


def problem(D=2, n=8, *, noise=0.1, lengthscale=0.3, kernel="ExpQuad", seed=0, **keywords):
    """A model and a point of its parameters."""
    X = np.random.default_rng(seed).uniform(size=(n, D))
    gpm = pma.ard_gp(X, np.sin(6 * X.sum(1)) + 0.5 * X[:, 0], kernel=kernel, **keywords)
    log_lengthscale = np.full(D, np.log(lengthscale))
    return gpm, {"log_lengthscale": log_lengthscale, "log_outputscale": 0.0, "log_noise": np.log(noise)}


def criterion(gpm, point, *, bounds=None, pool=None, kind=Pes, **keywords):
    """Prepared at a point."""
    D = len(gpm.inputs)
    domain = read_domain([(0, 1)] * D if bounds is None and pool is None else bounds, pool, list(range(D)))
    made = kind(domain, random_seed=3, **{"n_optima": 8, "n_features": 200, **keywords})
    return made.prepare(point, model=gpm)


def places(X, values, free=None, slopes=None):
    X = np.asarray(X, float)
    free = np.ones(X.shape, bool) if free is None else np.asarray(free)
    slopes = np.zeros(X.shape) if slopes is None else np.asarray(slopes, float)
    return PathMaxima(X, np.asarray(values, float), free, slopes, {})


@pytest.mark.parametrize("key", REFERENCE)
def test_variances_given_the_constraints_have_those_of_many_digits(key):
    """To 1e-6, at a noise variance of 1e-6: the height of the maximum, candidates given its place, and all."""
    one = REFERENCE[key]
    gpm, noise = pma.ard_gp(np.array(one["X"]), np.array(one["y"])), one["noise_variance"]
    point = {"log_lengthscale": np.log(one["lengthscales"]), "log_outputscale": 0.0, "log_noise": 0.5 * np.log(noise)}
    gp = ConditionedGP(gpm.posterior(), gpm.flatten(point))
    found = places([one["place"]], [0.0], [one["free"]], [one["outward"]])
    kinds = {"mixed": one["mixed"], "boundary": one["boundary"], "mixed_values": np.array([one["mixed_values"]])}
    maxima = GPGivenMaxima(gp, found, best=max(one["y"]), moments="ep", **kinds)
    assert maxima.ok.all()
    assert_allclose(maxima.height_mean, one["height_mean"], rtol=1e-6)
    assert_allclose(maxima.height_variance, one["height_variance"], rtol=1e-6)
    T = np.array(one["candidates"])
    B = (maxima.cross(T)[:, 0] - gp.covariance(gp.X, T).T @ maxima.solved[:, 0]) @ maxima.T[0].T
    V = gp.moments(T)[1]
    assert_allclose(V, one["variance"], rtol=1e-6)
    assert_allclose(V - np.einsum("mk,kj,mj->m", B, maxima.P[0], B), one["given_place_and_data"], rtol=1e-6)
    expected = 0.5 * np.log((np.array(one["variance"]) + noise) / (np.array(one["given_all"]) + noise))
    assert_allclose(PlaceInformation(maxima)(T, False)[0], expected, atol=1e-6)


def slopes(made, x, step=1e-4):
    """Of a criterion at one candidate, and by differences."""
    numeric = central_difference(lambda z: made.evaluate(z[None], False)[0][0], x, step)
    return made.evaluate(x[None], True)[1][0], numeric


@pytest.mark.parametrize("distance", [0.0, 1e-8, 1e-6])
def test_gradients_are_right_where_a_candidate_meets_a_maximum(distance):
    """There the covariance with the maximum is lowered to leave their difference a variance."""
    made = criterion(*problem(), n_optima=1)
    assert_allclose(*slopes(made, made.seeds[0] + distance * np.array([0.6, 0.8]), 1e-7), rtol=1e-6)


@pytest.mark.parametrize("expression", ["SE + LIN", "SE * PER", "RQ[0] + SE[1]"])
def test_gradients_of_composite_kernels_agree_with_central_differences(expression):
    gpm, _ = problem()
    gpm = pma.composite_gp(gpm.X, gpm.y, expression)
    made = criterion(gpm, gpm.unflatten(gpm.posterior().prior_scale()[0]))
    slope, numeric = slopes(made, np.array([0.34, 0.81]), 1e-3 * np.sqrt(0.1))
    assert_allclose(slope, numeric, rtol=1e-4, atol=1e-4 * abs(slope).max())


def test_gradients_of_a_pool_agree_with_central_differences():
    made = criterion(*problem(), pool=np.random.default_rng(2).uniform(size=(30, 2)))
    assert_allclose(*slopes(made, np.array([0.34, 0.81])), rtol=1e-5, atol=1e-6)


def information(gpm, theta, found, T, moments):
    gp = ConditionedGP(gpm.posterior(), theta)
    maxima = GPGivenMaxima(gp, found, best=gp.y.max(), moments=moments)
    assert maxima.ok.all()
    return PlaceInformation(maxima)(T, False)[0]


@pytest.mark.parametrize("mixed", ["free", "zero", "path"])
@pytest.mark.parametrize("boundary", ["outward", "stationary"])
@pytest.mark.parametrize(("kernel", "moments"), [("ExpQuad", "sampled"), ("Matern52", "ep")])
def test_gradients_agree_with_central_differences(mixed, boundary, kernel, moments):
    gpm, point = problem(kernel=kernel, x_scale="unit", y_scale="standardize")
    made = criterion(gpm, point, mixed=mixed, boundary=boundary, moments=moments)
    X = np.random.default_rng(1).uniform(size=(5, 2))
    value, slope = made.evaluate(X, True)
    assert_allclose(value, made.score(X), rtol=1e-12)
    for one, x in zip(slope, X, strict=True):
        assert_allclose(one, slopes(made, x)[1], rtol=1e-5, atol=1e-5 * abs(slope).max())


@pytest.mark.parametrize(("moments", "tolerance"), [("ep", 1e-8), ("sampled", 0.01)])
def test_an_input_that_nothing_depends_on_changes_nothing(moments, tolerance):
    """Neither its slopes nor its curvatures have a variance."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(6, 2))
    gpm = pma.composite_gp(X, np.sin(6 * X[:, 0]), "SE[0]", mean="zero")
    alone = pma.composite_gp(X[:, :1], np.sin(6 * X[:, 0]), "SE", mean="zero")
    theta, T = gpm.posterior().prior_scale()[0], rng.uniform(size=(20, 2))
    place, slope = np.array([[0.3, 0.6], [1.0, 0.2]]), np.array([[0.0, 0.0], [2.0, 0.0]])
    free, values = np.array([[True, True], [False, True]]), []
    for one, k in ((gpm, [0, 1]), (alone, [0])):
        found = places(place[:, k], [1.0, 1.0], free[:, k], slope[:, k])
        values.append(information(one, theta, found, T[:, k], moments))
    assert_allclose(values[0], values[1], rtol=tolerance)


@pytest.mark.parametrize("free", [[True] * 4, [False] * 4])
@pytest.mark.parametrize(("moments", "tolerance"), [("ep", 1e-6), ("sampled", 0.01)])
def test_an_embedding_in_one_direction_is_worth_one_sign(free, moments, tolerance):
    """Each input repeats the same curvature, or the same slope: counted once, as in the embedded model itself."""
    rng = np.random.default_rng(0)
    X, R = rng.uniform(size=(7, 4)), np.array([[0.7, -0.4, 0.5, 1.1]])
    u = X @ R.T
    wide = pma.embedding_gp(X, np.sin(2 * u[:, 0]), n_components=1, prior_scale=1.0)
    narrow = pma.ard_gp(u, np.sin(2 * u[:, 0]))
    common = {"log_outputscale": 0.1, "log_noise": np.log(0.1)}
    place, T = np.array([[0.2, 0.5, 0.8, 0.1]]), rng.uniform(size=(10, 4))
    inside = information(wide, wide.flatten({"R": R, **common}), places(place, [1.0], [free], np.sign(R)), T, moments)
    theta = narrow.flatten({"log_lengthscale": np.zeros(1), **common})
    embedded = information(narrow, theta, places(place @ R.T, [1.0], [free[:1]], [[1.0]]), T @ R.T, moments)
    assert_allclose(inside, embedded, rtol=tolerance)


COMMON = {"bounds": [(0, 1)] * 2, "n_optima": 10, "random_seed": 1}


class TestFailures:
    """Of expectation propagation, with one warning."""

    gpm, point = problem()
    T = np.random.default_rng(5).uniform(size=(4, 2))

    def score(self):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            result = pes(self.gpm, self.T, point=self.point, **COMMON)
        assert len(caught) == 1
        assert "expectation propagation failed for 10 of 10" in str(caught[0].message)
        assert result.attrs["n_dropped"] == 10
        assert np.isfinite(result).all()
        return result

    def fail(self, monkeypatch, left=lambda converged, bound: np.zeros_like(converged)):
        """Of the sites that converge, only some are left."""

        def failing(mean, covariance, bound, softness):
            sites = propagate(mean, covariance, bound, softness)
            return sites._replace(converged=left(sites.converged, bound))

        monkeypatch.setattr("pymc_active.criteria.maximum.constraints.propagate", failing)

    def test_the_height_of_the_maximum_is_left(self, monkeypatch):
        self.fail(monkeypatch)
        result = self.score()
        assert result.attrs["constraints"] == "none (max_value_entropy)"
        same = pma.active.max_value_entropy(self.point, self.T, model=self.gpm, **COMMON)
        assert_array_equal(result, same)

    def test_a_search_over_the_box_goes_on(self, monkeypatch):
        self.fail(monkeypatch)
        with pytest.warns(UserWarning, match="expectation propagation failed"):
            found = pes(self.gpm, point=self.point, **COMMON | {"n_optima": 5})
        assert np.isfinite(found).all()

    def test_a_few_failures_are_dropped_and_counted(self, monkeypatch):
        self.fail(monkeypatch, lambda converged, bound: converged & (np.arange(10) >= 3)[:, None])
        result = pes(self.gpm, self.T, point=self.point, **COMMON)
        assert result.attrs["n_dropped"] == 3
        assert result.attrs["constraints"] == "C1, C2 and C3"
        assert np.isfinite(result).all()


class TestEdges:
    @pytest.mark.parametrize("noise", [1e-2, 1e-4, 1e-6])
    def test_candidates_at_data_maxima_and_corners_have_finite_values_and_slopes(self, noise):
        gpm, point = problem(noise=noise)
        made, corners = criterion(gpm, point), np.array([[0.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
        value, slope = made.evaluate(np.concatenate([gpm.X, made.seeds, corners]), True)
        assert np.isfinite(value).all()
        assert np.isfinite(slope).all()
        # Measuring again where the function is known says nothing.
        if noise < 1e-3:
            assert (value[: len(gpm.X)] < 0.5 * value.max()).all()

    def test_maxima_at_data_and_corners(self):
        gpm, point = problem(noise=1e-4)
        gp = ConditionedGP(gpm.posterior(), gpm.flatten(point))
        best = gp.X[gp.y.argmax()]
        X = np.stack([best, best, [1.0, 1.0], gp.X[0]])
        free = np.array([[True, True], [True, True], [False, False], [True, True]])
        found = places(X, [1.5] * 4, free, [[0, 0], [0, 0], [1, 2], [0, 0]])
        maxima = GPGivenMaxima(gp, found, best=gp.y.max())
        assert maxima.ok.all()
        value, slope = PlaceInformation(maxima)(np.concatenate([X, gp.X]), True)
        assert np.isfinite(value).all()
        assert np.isfinite(slope).all()

    def test_a_pool_of_one_row_has_nothing_to_tell(self):
        """Its maximum is that row."""
        gpm, point = problem()
        assert_allclose(pes(gpm, [[0.3, 0.4]], point=point, random_seed=1), 0.0, atol=1e-9)
        assert pes(gpm, [[0.3, 0.4], [0.9, 0.1]], point=point, random_seed=1).min() > 1e-3

    def test_without_bounds_the_maximum_is_a_candidate(self):
        """By a histogram of the best candidate and of the outcome at each, from joint draws."""
        gpm, point = problem(kernel="Matern32", noise=0.01)
        pool = np.random.default_rng(1).uniform(size=(40, 2))
        scores = pes(gpm, pool, point=point, n_optima=200, random_seed=1)
        assert scores.attrs["constraints"] == "C2 and C3"
        gp, rng, n, bins = ConditionedGP(gpm.posterior(), gpm.flatten(point)), np.random.default_rng(3), 40_000, 40
        G = np.linalg.inv(gp.covariance(gp.X, gp.X) + np.diag(gp.noise_variance(gp.X)))
        cross = gp.covariance(pool, gp.X)
        f = rng.multivariate_normal(cross @ G @ gp.y, gp.covariance(pool, pool) - cross @ G @ cross.T, n, method="svd")
        best, information = f.argmax(1), []
        for y in f.T + 0.01 * rng.normal(size=(40, n)):
            level = np.searchsorted(np.quantile(y, np.arange(1, bins) / bins), y)
            p = np.bincount(best * bins + level, minlength=40 * bins).reshape(40, bins) / n
            independent = p.sum(1, keepdims=True) * p.sum(0)
            bias = (np.count_nonzero(p) - np.count_nonzero(p.sum(1)) - bins + 1) / (2 * n)
            information.append((p[p > 0] * np.log(p[p > 0] / independent[p > 0])).sum() - bias)
        assert np.corrcoef(scores, information)[0, 1] > 0.85
        assert np.abs(scores - information).max() < 0.2
        assert information[int(np.argmax(scores.to_numpy()))] > 0.95 * max(information)

    def test_data_outside_the_box_or_pool_are_data_but_no_bound_on_its_maximum(self):
        gpm, point = problem(x_scale="unit")
        gp, inside = ConditionedGP(gpm.posterior(), gpm.flatten(point)), (gpm.X < 0.7).all(1)
        assert 0 < inside.sum() < len(inside)
        assert best_inside(gp, Domain(np.zeros(2), np.full(2, 0.7))) == gpm.y[inside].max()
        assert best_inside(gp, Domain(np.full(2, 2.0), np.full(2, 3.0))) == -np.inf
        T = np.random.default_rng(1).uniform(2, 3, size=(5, 2))
        assert np.isfinite(pes(gpm, T, bounds=[(2, 3)] * 2, point=point, n_optima=5, random_seed=1)).all()
        pool = np.concatenate([gpm.X[2:4], [[0.5, 0.5]]])
        assert best_inside(gp, Domain(pool=pool)) == gpm.y[2:4].max()
        assert best_inside(gp, Domain(pool=pool[2:])) == -np.inf

    def test_fewer_maxima_than_draws_take_fewer_draws(self):
        gpm, _ = problem()
        fit = pma.fit_laplace(gpm, n_restarts=1, random_seed=0, progressbar=False)
        scores = pes(None, gpm.X, bounds=[(0, 1)] * 2, fit=fit, n_optima=3, draws=10, random_seed=1)
        assert scores.attrs["n_hyperparameters"] == 3
        assert np.isfinite(scores).all()


def test_the_same_seed_gives_the_same_scores_also_of_the_negative_and_in_other_units():
    gpm, point = problem()
    T = np.random.default_rng(1).uniform(size=(6, 2))
    options = {"bounds": [(0, 1)] * 2, "point": point, "n_optima": 10}
    first = pes(gpm, T, random_seed=1, **options)
    assert_array_equal(first, pes(gpm, T, random_seed=1, **options))
    assert_array_equal(*(pes(gpm, T, random_seed=np.random.default_rng(7), **options) for _ in range(2)))
    assert (first != pes(gpm, T, random_seed=2, **options)).any()
    assert np.isfinite(pes(gpm, T, **options)).all()
    negative = pma.ard_gp(gpm.X, -gpm.y)
    assert_array_equal(pes(negative, T, minimize=True, random_seed=1, **options), first)
    shift, scale = np.array([3.0, -1.0]), np.array([10.0, 0.1])
    scaled = pma.ard_gp(shift + scale * gpm.X, 5 + 20 * gpm.y, x_scale=(shift, scale), y_scale=(5.0, 20.0))
    options["bounds"] = list(zip(shift, shift + scale, strict=True))
    assert_allclose(pes(scaled, shift + scale * T, random_seed=1, **options), first, rtol=1e-6)


def test_draws_of_a_trace_share_the_maxima():
    gpm, point = problem()
    rng = np.random.default_rng(0)
    draws = {name: np.asarray(value) + 0.1 * rng.normal(size=(2, 8, *np.shape(value))) for name, value in point.items()}
    dims = {"log_lengthscale": ["chain", "draw", "input"]}
    posterior = xr.Dataset({k: (dims.get(k, ["chain", "draw"]), v) for k, v in draws.items()})
    trace, T = xr.DataTree.from_dict({"posterior": posterior}), rng.uniform(size=(5, 2))
    options = {"bounds": [(0, 1)] * 2, "random_seed": 1}
    scores = pes(gpm, T, trace=trace, draws=4, n_optima=20, **options)
    assert scores.attrs["n_hyperparameters"] == 4
    one = pes(gpm, T, trace=trace.isel(chain=[0], draw=[0]), draws=4, n_optima=20, **options)
    alone = {name: value[0, 0] for name, value in draws.items()}
    assert_array_equal(one, pes(gpm, T, point=alone, n_optima=20, **options))


def test_a_mean_function_that_somebody_wrote_has_its_curvature():
    class Bowl(pm.gp.mean.Mean):
        def __call__(self, X):
            return 3.0 - 2.0 * X[:, 0] ** 2 + X[:, 0]

    X, cov = np.linspace(0, 1, 5)[:, None], pm.gp.cov.ExpQuad(1, ls=0.3)
    gpm = users_gp(X, np.sin(3 * X[:, 0]), lambda: cov, lambda: pm.HalfNormal("noise"), Bowl, is_data=False)
    one = ConditionedGP(gpm.posterior(), np.array([np.log(0.1)]))
    assert_allclose(one.prior_mean_hessian(np.array([[0.2], [0.9]])), [[[-4.0]], [[-4.0]]], rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [JointEntropy, EntropySearch])
def test_noise_counts_as_it_is_where_it_is_measured(kind, monkeypatch):
    X = np.linspace(0, 1, 6)[:, None]
    cov, noise = pm.gp.cov.ExpQuad(1, ls=0.3), lambda: GrowingNoise(1, pm.HalfNormal("sd"))
    gpm = users_gp(X, np.sin(5 * X[:, 0]), lambda: cov, noise, is_data=False)
    options = {} if kind is EntropySearch else {"n_optima": 8, "n_features": 200}
    made = kind(Domain(np.zeros(1), np.ones(1)), random_seed=3, **options).prepare({"sd_log__": np.log(0.2)}, model=gpm)
    T = np.array([[0.13], [0.55], [0.93]])
    value, gradient = made.evaluate(T, kind is not EntropySearch)
    for x, expected in zip(T, value, strict=True):
        with monkeypatch.context() as patch:
            here = float((0.2 * np.exp(x[0])) ** 2)
            patch.setattr(ConditionedGP, "noise_variance", lambda self, X, here=here: np.full(len(X), here))
            assert_allclose(made.evaluate(x[None], False)[0], expected, rtol=1e-9)
    if gradient is not None:
        # All candidates move together, each of which only its own value depends on.
        slope = central_difference(lambda move: made.evaluate(T + move, False)[0], np.zeros(1))
        assert_allclose(gradient, slope, rtol=1e-4)


class TestBadInput:
    gpm, point = problem()
    T = np.array([[0.5, 0.5]])

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"bounds": [(0, 1)]}, "2 pairs"),
            ({"bounds": [(0, 1), (1, 0)]}, "low < high"),
            ({"bounds": [(0, 1), (1, 1)]}, "low < high"),
            ({"bounds": [(0, 1), (0, np.inf)]}, "finite"),
            ({"X_pool": None, "bounds": None}, "say where the maximum is looked for"),
            ({"X_pool": np.zeros((3, 1))}, "2 columns"),
            ({"point": None}, "got none"),
            ({"point": {"log_noise": 0.0}}, "log_lengthscale"),
            ({"mixed": "no"}, "mixed must be"),
            ({"boundary": "no"}, "boundary must be"),
            ({"moments": "no"}, "moments must be"),
            ({"source": pma.ard_gp(gpm.X, np.full(8, 2.5)), "minimize": True}, r"all 8 observations are equal \(2.5\)"),
            ({"source": problem(kernel="Matern12")[0]}, 'matern12.*"max_value_entropy"'),
            ({"source": problem(kernel="Matern32")[0]}, 'matern32.*"max_value_entropy"'),
        ],
    )
    def test_is_refused(self, change, message):
        good = {"source": self.gpm, "X_pool": self.T, "bounds": [(0, 1)] * 2, "point": self.point}
        with pytest.raises(ValueError, match=message):
            pes(**good | change)

    def test_a_lazy_pool_needs_bounds(self):
        lazy = pytest.importorskip("dask.array").zeros((3, 2))
        with pytest.raises(ValueError, match="lazy pool"):
            pes(self.gpm, lazy, point=self.point)

    def test_a_source_is_first_or_by_name_and_one(self):
        fit = pma.fit_laplace(self.gpm, point=self.point, optimize=False)
        options = {"bounds": [(0, 1)] * 2, "n_optima": 5, "random_seed": 1}
        assert_array_equal(pes(fit, self.T, **options), pes(self.gpm, self.T, fit=fit, **options))
        by_point = pes(self.point, self.T, model=self.gpm, **options)
        assert_array_equal(by_point, pes(self.gpm, self.T, point=self.point, **options))
        for call, words in (
            (lambda: pes(fit, self.T, point=self.point, **options), "the first argument must be its GPModel; got Lap"),
            (lambda: pma.active.max_value_entropy(self.gpm, self.T, **options), "with a trace or a point; got GPModel"),
            (lambda: pes(self.gpm, self.T, point=self.point, fit=fit, **options), "point and fit"),
            (lambda: pes(problem(seed=1)[0], self.T, fit=fit, **options), "another model"),
        ):
            with pytest.raises((TypeError, ValueError), match=words):
                call()

    def test_a_rough_kernel_among_several_models_is_refused_whatever_its_weight(self):
        models = {kernel: problem(kernel=kernel)[0] for kernel in ("ExpQuad", "Matern32")}
        quick = {"n_restarts": 1, "random_seed": 0, "progressbar": False}
        fits = {kernel: pma.fit_laplace(gpm, **quick) for kernel, gpm in models.items()}
        average = pma.ModelAverage(fits, prior=[1.0, 1e-12])
        with pytest.raises(ValueError, match="matern32"):
            pes(average, self.T, bounds=[(0, 1)] * 2)
        scores = pma.active.max_value_entropy(average, self.T, bounds=[(0, 1)] * 2, n_optima=5)
        assert np.isfinite(scores).all()


def test_over_a_box_the_maxima_of_the_criterion_are_found():
    gpm, point = problem()
    found = pes(gpm, bounds=[(0, 1)] * 2, point=point, n_optima=10, n_features=300, random_seed=1)
    assert all(((x >= 0) & (x <= 1)).all() for x in (found.x0, found.x1))
    grid = np.stack(np.meshgrid(*[np.linspace(0, 1, 15)] * 2), axis=-1).reshape(-1, 2)
    scores = pes(gpm, grid, bounds=[(0, 1)] * 2, point=point, n_optima=10, n_features=300, random_seed=1)
    assert float(found[0]) >= float(scores.max()) - 1e-9
    assert (np.diff(found) <= 0).all()


@pytest.mark.parametrize("boundary", ["outward", "stationary"])
def test_gradient_on_an_embedding_agrees_with_central_differences(boundary):
    """Also where the maximum lies at a corner of the box, from which some directions in u lead nowhere."""
    rng = np.random.default_rng(2)
    X = rng.uniform(-1, 1, (10, 6))
    gpm = pma.embedding_gp(X, np.sin(X[:, 0]) + X[:, 1] ** 2, n_components=2, kernel="Matern52", y_scale="standardize")
    theta = np.random.default_rng(3).normal(size=gpm.n_parameters) * 0.5
    box = read_domain([(-1, 1)] * 6, None, list(range(6)))
    made = Pes(box, n_optima=20, boundary=boundary, random_seed=1).prepare(gpm.unflatten(theta), model=gpm)
    assert 0 < made.diagnostics["n_on_boundary"] < 20
    assert made.diagnostics["n_dropped"] == 0
    C = rng.uniform(-0.9, 0.9, (5, 6))
    _, gradient = made.evaluate(C, True)
    for i, step in enumerate(1e-5 * np.eye(6)):
        difference = (made.evaluate(C + step, False)[0] - made.evaluate(C - step, False)[0]) / 2e-5
        np.testing.assert_allclose(gradient[:, i], difference, atol=1e-5 * np.abs(gradient).max())
