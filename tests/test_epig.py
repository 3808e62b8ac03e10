"""What a measurement tells about predictions elsewhere: against two-dimensional normals and brute force."""

import functools

import dask.array as da
import numpy as np
import pandas as pd
import pytensor
import pytest
from differences import central_difference
from nightly import nightly
from numpy.testing import assert_allclose, assert_array_equal

import pymc_active as pma
from pymc_active.criteria.epig import Epig, IntegratedVariance

RNG = np.random.default_rng(3)
BOUNDS = [(20.0, 80.0), (1.0, 5.0)]
X, CANDIDATES, TARGETS = (RNG.uniform([20, 1], [80, 5], (n, 2)) for n in (9, 6, 15))
Y = 300 + 50 * np.sin(X[:, 0] / 15) + X[:, 1]
POINT = {"log_lengthscale": np.log([0.5, 1.5]), "log_outputscale": 0.3, "mean_constant": 0.1, "log_noise": -1.5}


def model():
    return pma.ard_gp(X, Y, kernel="ExpQuad", bounds=BOUNDS)


@pytest.fixture(scope="module")
def fit():
    return pma.fit(model(), random_seed=0, progressbar=False)


def covariance_of_outcomes(gpm, A):
    """Posterior covariance of y at the rows of A by PyMC's own conditional, noise included, at POINT."""
    values = {name: value[0] for name, value in gpm.constrain(gpm.flatten(POINT)[None]).items()}
    with gpm.model, pytensor.config.change_flags(mode="FAST_COMPILE"):
        return gpm.gp.predict(A, point=values, pred_noise=True)[1]


def test_at_one_point_it_is_the_information_of_two_normal_outcomes():
    gpm = model()
    both = np.concatenate([CANDIDATES, TARGETS])
    C = covariance_of_outcomes(gpm, both)
    m = len(CANDIDATES)
    correlation = C[:m, m:] / np.sqrt(np.outer(np.diag(C)[:m], np.diag(C)[m:]))
    got = pma.active.epig(POINT, CANDIDATES, X_target=TARGETS, model=gpm)
    assert_allclose(got, -0.5 * np.log(1 - correlation**2).mean(1), rtol=1e-6)
    reduction = (C[:m, m:] ** 2 / np.diag(C)[:m, None]).mean(1)
    lower = pma.active.integrated_variance(POINT, CANDIDATES, X_target=TARGETS, model=gpm)
    assert_allclose(lower, reduction, rtol=1e-6)
    assert (got.attrs["units"], got.name) == ("nats", "epig")


def test_hyperparameters_count(fit):
    """Two values that predict differently: moments of the mixture by simulation."""
    scorer = Epig(TARGETS[:1], draws=32, random_seed=0).prepare(fit)
    rng, rows = np.random.default_rng(1), []
    for gp in [part.gp for part in scorer.parts]:
        Z = gp.x_map(np.concatenate([CANDIDATES[:1], TARGETS[:1]]))
        cov = gp.covariance(Z, Z) - gp.covariance(gp.X, Z).T @ gp.factor.solve(gp.covariance(gp.X, Z))
        cov = cov + np.diag(gp.noise_variance(Z))
        rows.append(gp.to_user_y(rng.multivariate_normal(gp.moments(Z)[0], cov, size=20_000)))
    drawn = np.concatenate(rows)
    expected = np.sqrt(1 - np.exp(-2 * scorer.score(CANDIDATES[:1])[0]))
    # The standard error of a correlation is about 1 / sqrt(n).
    assert abs(abs(np.corrcoef(drawn.T)[0, 1]) - expected) < 4 / np.sqrt(len(drawn))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kernel", "kind"),
    [
        ("ard", IntegratedVariance),
        ("composite", Epig),
        *nightly(
            ("ard", Epig), ("composite", IntegratedVariance), ("embedding", Epig), ("embedding", IntegratedVariance)
        ),
    ],
)
def test_the_gradient_is_that_of_the_value(kernel, kind):
    gpm = {
        "ard": model,
        "embedding": lambda: pma.embedding_gp(X, Y, n_components=1, kernel="Matern52", bounds=BOUNDS),
        "composite": lambda: pma.composite_gp(X, Y, "SE[0] + LIN", mean="linear", bounds=BOUNDS),
    }[kernel]()
    scorer = kind(TARGETS, random_seed=0).prepare(pma.fit_smc(gpm, n_particles=32, random_seed=0, progressbar=False))
    value, gradient = scorer.gradient(CANDIDATES)
    assert_allclose(value, scorer.score(CANDIDATES), rtol=1e-9)
    numerical = np.stack([central_difference(lambda x: scorer.score(x[None])[0], x) for x in CANDIDATES])
    assert_allclose(gradient, numerical, rtol=0, atol=1e-5 * np.abs(gradient).max())


def test_pools_of_any_kind(fit):
    plain = pma.active.epig(fit, CANDIDATES, X_target=TARGETS, random_seed=2)
    lazy = pma.active.epig(fit, da.from_array(CANDIDATES, chunks=(2, 2)), X_target=TARGETS, random_seed=2)
    assert_allclose(lazy.compute(), plain, rtol=1e-9)
    with pytest.raises(ValueError, match="pass X_target"):
        pma.active.epig(POINT, da.from_array(CANDIDATES, chunks=(2, 2)), model=pma.ard_gp(X, Y, mean="constant"))
    with pytest.raises(ValueError, match="draws must be"):
        pma.active.epig(fit, CANDIDATES, draws=0)


def test_units_change_nothing(fit):
    """Nats do not depend on units, and targets default to the rows of the pool."""
    other = pma.fit(pma.ard_gp(X, 10 * Y - 3, kernel="ExpQuad", bounds=BOUNDS), random_seed=0, progressbar=False)
    one, two = (pma.active.epig(f, CANDIDATES, random_seed=0) for f in (fit, other))
    assert_allclose(one, two, rtol=1e-6)
    assert_array_equal(one, pma.active.epig(fit, CANDIDATES, X_target=CANDIDATES, random_seed=0))


def test_a_learner_takes_targets_by_name_and_keeps_them_in_its_file(tmp_path):
    """``functools.partial`` of the function; columns of a frame in any order."""
    rng = np.random.default_rng(3)
    pool = pd.DataFrame(rng.uniform(size=(30, 2)), columns=["a", "b"])
    gpm = pma.ard_gp(pool[:6], np.sin(5 * pool["a"][:6]), bounds=[(0, 1)] * 2)
    targets = pd.DataFrame({"b": [0.9, 0.8], "a": [0.1, 0.2]})
    criterion = functools.partial(pma.active.integrated_variance, X_target=targets)
    learner = pma.Learner(gpm, pool=pool, criterion=criterion, random_seed=1)
    assert pma.Learner(gpm, pool=pool, X_target=targets)._run.named == learner._run.named
    assert "epig(X_target=<2 points>)" in repr(pma.Learner(gpm, pool=pool, X_target=targets, criterion="epig"))
    scores = pma.active.integrated_variance(learner.fit, pool[6:], X_target=targets, random_seed=0)
    assert learner.ask().index[0] == pool.index[6:][int(scores.argmax("point"))]
    learner.save(tmp_path / "run.nc")
    other = pma.Learner.load(tmp_path / "run.nc")
    pd.testing.assert_frame_equal(other.ask(), learner.ask())
    learner.forget()
    for own in ("bald", "random", lambda fit, X: X[:, 0]):
        with pytest.raises(
            ValueError, match=r"X_target is for the criteria epig and integrated_variance, by name; got"
        ):
            pma.Learner(gpm, pool=pool, criterion=own, X_target=targets)
    found = pma.check(learner.fit, learner.fit, pool=pool, criteria=[criterion])
    scores = pma.active.integrated_variance(learner.fit, pool, X_target=targets, random_seed=0)
    assert_allclose(found["decision"]["score"][0], scores)
    assert found["decision"]["criterion"].to_numpy().tolist() == ["integrated_variance(X_target=<2 points>)"]
