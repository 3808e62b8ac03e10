"""Reports on an embedding: against SciPy and plain formulas draw by draw, and unchanged by any rotation."""

import numpy as np
import pandas as pd
import pytest
import scipy.linalg
import xarray as xr
from nightly import nightly
from numpy.testing import assert_allclose
from scipy.stats import ortho_group
from traces import as_trace

import pymc_active as pma
from pymc_active.structure import relevance as embeddings

RNG = np.random.default_rng(20260401)
X = RNG.uniform(-1, 1, size=(50, 4))
Y = np.sin(2 * X[:, 0] - X[:, 1]) * np.cos(3 * X[:, 2]) + 0.05 * RNG.normal(size=50)
WIDTH = np.array([10.0, 1.0, 0.1, 3.0])


@pytest.fixture(scope="module")
def fit():
    frame = pd.DataFrame(WIDTH * X, columns=["heat", "acid", "salt", "dust"])
    gpm = pma.embedding_gp(frame, Y, n_components=2, x_scale=(0, WIDTH))
    return pma.fit_laplace(gpm, n_restarts=4, population=0, random_seed=2, progressbar=False)


@pytest.fixture(scope="module")
def trace(fit):
    return fit.to_datatree(500, 3)


def draws_of(trace):
    return trace["posterior"]["R"].to_numpy()[0]


def in_lengthscales(trace):
    return draws_of(trace) / trace["posterior"]["lengthscale"].to_numpy()[0][:, None, None]


def with_R(trace, R):
    """The trace with other draws of R."""
    posterior = trace["posterior"].to_dataset()
    return xr.DataTree.from_dict({"posterior": posterior.assign(R=posterior["R"].copy(data=R[None]))})


def test_relevance_is_that_of_the_draws(fit, trace):
    R = in_lengthscales(trace)
    found = pma.relevance(trace, model=fit.gpm, ci_prob=0.5)
    norms = np.sqrt((R**2).sum(1))
    leverage = np.array([np.diag(r.T @ np.linalg.solve(r @ r.T, r)) for r in R])
    for values, name in ((norms, "loading"), (leverage, "leverage")):
        assert_allclose(found[name].sel(summary="mean"), values.mean(0))
        for summary, q in (("median", 0.5), ("lower", 0.25), ("upper", 0.75)):
            assert_allclose(found[name].sel(summary=summary), np.quantile(values, q, axis=0))
    assert_allclose(found.leverage.sel(summary="mean").sum(), 2)
    assert found.input.to_numpy().tolist() == ["heat", "acid", "salt", "dust"]


def test_loadings_refer_to_scaled_units(fit):
    """The same model in other units has the same loadings; per the user's unit they go with the unit."""
    assert_allclose(pma.relevance(fit, random_seed=0).unit, WIDTH)
    gpm = pma.embedding_gp(X, Y, n_components=2)
    plain = pma.relevance(pma.fit_laplace(gpm, point=fit.point, optimize=False), random_seed=0)
    assert_allclose(plain.unit, 1)
    assert_allclose(plain.loading, pma.relevance(fit, random_seed=0).loading, rtol=1e-6)


def test_rotating_every_draw_changes_no_report(fit, trace):
    rotations = ortho_group.rvs(2, size=500, random_state=4)
    turned = with_R(trace, rotations @ draws_of(trace))
    for report in (pma.relevance, pma.subspace_angles):
        xr.testing.assert_allclose(
            report(trace, model=fit.gpm, random_seed=0), report(turned, model=fit.gpm, random_seed=0), rtol=1e-9
        )


@pytest.mark.parametrize("rows", [1, 3, *nightly(2, 4)])
def test_angles_are_those_of_scipy(fit, trace, rows):
    """For fewer, as many and more directions than the model has components; all four span everything."""
    reference = np.random.default_rng(rows).normal(size=(rows, 4))
    found = pma.subspace_angles(trace, reference, model=fit.gpm).angle
    angles = np.array([scipy.linalg.subspace_angles(R.T, reference.T) for R in draws_of(trace)])
    assert found.sizes["principal_angle"] == min(rows, 2)
    expected = np.rad2deg([angles.mean(0), *np.quantile(angles, [0.5, 0.055, 0.945], axis=0)])
    assert_allclose(found, expected, rtol=1e-9, atol=1e-5)


def test_a_reference_with_names_is_taken_by_them(fit):
    frame = pd.DataFrame([[1.0, 2.0, 3.0, 4.0]], columns=fit.gpm.inputs)
    options = {"draws": 50, "random_seed": 0}
    expected = pma.subspace_angles(fit, frame.to_numpy(), **options)
    for reference in (frame, frame[frame.columns[::-1]]):
        xr.testing.assert_identical(pma.subspace_angles(fit, reference, **options), expected)
    with pytest.raises(ValueError, match="dust"):
        pma.subspace_angles(fit, frame.rename(columns={"dust": "sand"}))


def test_lengthscales_are_no_logarithms():
    fit = pma.fit_laplace(pma.ard_gp(X, Y), random_seed=0, progressbar=False)
    assert (pma.relevance(fit, random_seed=0).loading > 0).all()
    with pytest.raises(ValueError, match=r"must name lengthscales, which are positive; 'log_lengthscale' is not"):
        pma.relevance(fit, var_name="log_lengthscale")


def test_small_angles_are_not_lost_to_rounding():
    tilt = 1e-9
    rows = np.array([[[np.cos(tilt), np.sin(tilt), 0.0]]])
    assert_allclose(np.deg2rad(embeddings.principal_angles(rows, np.eye(3)[:1])), [[tilt]], rtol=1e-6)


def test_directions_repeated_span_nothing_new(fit):
    R = fit.point["R"]
    once, repeated = (
        pma.subspace_angles(fit, rows, draws=50, random_seed=0) for rows in (R, np.concatenate([R, R[:1]]))
    )
    xr.testing.assert_allclose(once, repeated, rtol=1e-6)


def test_angles_of_a_trace_are_to_its_mean_subspace(fit, trace):
    """Draws around a known plane, each in another orientation."""
    plane = np.array([[1.0, 1, 0, 0], [0, 0, 1, 0]])
    rng = np.random.default_rng(5)
    R = ortho_group.rvs(2, size=500, random_state=5) @ (plane + 0.05 * rng.normal(size=(500, 2, 4)))
    cloud = with_R(trace, R)
    own = pma.subspace_angles(cloud, model=fit.gpm).angle
    known = pma.subspace_angles(cloud, plane, model=fit.gpm).angle
    assert_allclose(own, known, atol=0.5)
    assert 1 < own.sel(summary="median")[0] < 10


@pytest.mark.nightly
def test_random_subspaces_as_a_yardstick():
    """A random line in the plane has a median angle of 45 degrees to any other."""
    gpm = pma.embedding_gp(X[:, :2], np.sin(3 * X[:, 0]) + 0.1 * RNG.normal(size=50), n_components=1)
    fit = pma.fit_laplace(gpm, n_restarts=2, population=0, random_seed=1, progressbar=False)
    # The density of the angle is 1 / 90 per degree.
    assert abs(pma.subspace_angles(fit, [[0, 1]], draws=4000, random_seed=0).random[0] - 45) < 4 * 90 * 0.5 / np.sqrt(
        4000
    )


def test_relevance_is_of_the_draws_of_the_fit(fit):
    xr.testing.assert_allclose(
        pma.relevance(fit, draws=200, random_seed=3), pma.relevance(fit.to_datatree(200, 3), model=fit.gpm)
    )


def test_relevance_of_an_ard_model_is_one_over_its_lengthscales():
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 10, (15, 3))
    gpm = pma.ard_gp(X, np.sin(X[:, 1]), bounds=[(0, 10)] * 3)
    fit = pma.fit(gpm, random_seed=1, progressbar=False)
    found = pma.relevance(fit, draws=200, random_seed=2)
    drawn = 5 / gpm.constrain(fit.draw(200, 2))["lengthscale"]
    assert_allclose(found.loading.sel(summary="median"), np.median(drawn, axis=0))
    assert_allclose(found.unit, 5)
    assert int(found.loading.sel(summary="median").argmax("input")) == 1
    assert "leverage" not in found


def test_bad_input(fit, trace):
    other = xr.DataTree.from_dict({"posterior": trace["posterior"].to_dataset().drop_vars("R")})
    ard = pma.ard_gp(X, Y)
    with pytest.raises(TypeError, match=r"a fit .*or a trace; got int"):
        pma.relevance(3)
    for call, message in (
        (lambda: pma.relevance(trace), "pass model=gpm"),
        (lambda: pma.subspace_angles(other, model=fit.gpm), "it lacks R"),
        (lambda: pma.relevance(fit, draws=0), "draws must be a positive whole number; got 0"),
        (lambda: pma.relevance(fit, ci_prob=89), "ci_prob must be between 0 and 1"),
        (lambda: pma.subspace_angles(fit, np.ones(4)), "one row per direction and 4 columns"),
        (lambda: pma.subspace_angles(fit, np.ones((2, 3))), "one row per direction and 4 columns"),
        (lambda: pma.subspace_angles(fit, np.full((1, 4), np.nan)), "one row per direction and 4 columns"),
        (lambda: pma.subspace_angles(fit, np.zeros((1, 4))), "spans no direction"),
        (lambda: pma.relevance(trace, model=ard), "the trace was not drawn from this model"),
        (lambda: pma.subspace_angles(trace, model=ard), "no embedding"),
    ):
        with pytest.raises(ValueError, match=message):
            call()


def test_an_ensemble_is_reported_like_the_trace_of_its_draws(fit):
    draws = fit.ensemble_by("draws", 200, random_seed=0)
    trace = as_trace(fit.gpm, draws.thetas)
    of_ensemble, of_trace = (
        pma.relevance(draws, random_seed=0),
        pma.relevance(trace, model=fit.gpm, random_seed=0),
    )
    assert_allclose(of_ensemble.loading, of_trace.loading, rtol=1e-9)
    # Weighted modes are drawn by their weights.
    modes = pma.relevance(fit.ensemble, draws=400, random_seed=0)
    assert modes.sizes == of_ensemble.sizes


def test_a_linear_mean_counts():
    """The root mean square of the derivatives of draws from the prior, over the output scale."""
    gpm = pma.embedding_gp(X, Y, n_components=1, mean="linear")
    point = {"R": [[0.5, 0, 1.0, 0]], "log_lengthscale": np.log(2.0), "log_outputscale": np.log(3.0)}
    point |= {"mean_constant": 0.0, "mean_slope": [0, 6.0, 3.0, 0], "log_noise": -3.0}
    ensemble = pma.as_ensemble(point, model=gpm)
    found = pma.relevance(ensemble).loading.sel(summary="mean")
    assert_allclose(found, np.sqrt([0.25**2, 2.0**2, 0.5**2 + 1.0, 0]))
    far = pma.embedding_gp(X[:1] + 99, Y[:1], n_components=1, mean="linear")
    gradient = pma.draw_paths(point, model=far, n_paths=4000, random_seed=1).gradient(X[:1]).to_numpy()[:, 0]
    # A root mean square of 4,000 draws has a relative standard error of at most 1 / sqrt(8,000), and shared features.
    assert_allclose(np.sqrt(np.square(gradient).mean(0)) / 3, found, rtol=0.05, atol=1e-12)
