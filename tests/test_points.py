"""Points that PyMC finds, and its single precision."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings

import numpy as np
import pymc as pm
import pytensor
import pytest
import xarray as xr

import pymc_active as pma

RNG = np.random.default_rng(0)
X = np.sort(RNG.uniform(0, 10, 20))[:, None]
Y = np.sin(X[:, 0]) + 0.1 * RNG.normal(size=20)
X_NEW = np.array([[2.0], [7.7]])


@pytest.fixture(scope="module")
def own():
    with pm.Model() as model, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gp = pm.gp.Marginal(cov_func=pm.HalfNormal("h", 1) ** 2 * pm.gp.cov.ExpQuad(1, ls=pm.LogNormal("ls", 0, 1)))
        sigma = pm.Deterministic("sigma", 2 * pm.HalfNormal("half", 1))
        gp.marginal_likelihood("y", X=pm.Data("X", X), y=pm.Data("y_data", Y), sigma=sigma)
        with pytensor.config.change_flags(mode="FAST_COMPILE"):
            point = pm.find_MAP(progressbar=False)
    return pma.from_marginal(gp, model=model), point


def test_predictions_at_the_point_of_find_map_are_those_of_pymc(own):
    gpm, point = own
    with pytensor.config.change_flags(mode="FAST_COMPILE"):
        mean, variance = gpm.gp.predict(X_NEW, point=point, diag=True, model=gpm.model)
    free = {name: point[name] for name in ("h", "ls", "half")}
    draw = xr.Dataset(free)
    trees = (xr.DataTree.from_dict({"posterior": d}) for d in (draw, draw.expand_dims(["chain", "draw"])))
    for source in (point, free, {name: point[name] for name in gpm.shapes}, *trees):
        found = pma.predict(source, X_NEW, model=gpm)
        np.testing.assert_allclose(found.f_mean, mean, rtol=0, atol=1e-8)
        np.testing.assert_allclose(found.f_variance, variance, rtol=0, atol=1e-8)


def test_a_point_of_another_model_is_refused(own):
    gpm, point = own
    for wrong in (point | {"other": 1.0}, {"h": point["h"]}, {}):
        with pytest.raises(ValueError, match="a point needs the value variables"):
            gpm.flatten(wrong)


def test_the_reason_of_a_noise_that_fails_is_told():
    class Failing(pm.gp.cov.WhiteNoise):
        def diag(self, X):
            if not isinstance(X, np.ndarray):
                raise RuntimeError("the true reason")
            return super().diag(X)

    with pm.Model() as model:
        gp = pm.gp.Marginal(cov_func=pm.gp.cov.ExpQuad(1, ls=pm.LogNormal("ls", 0, 1)))
        gp.marginal_likelihood("y", X=X, y=Y, sigma=Failing(0.1))
    with pytest.raises(ValueError, match="sigma cannot be evaluated at new points") as error:
        pma.from_marginal(gp, model=model)
    assert "the true reason" in str(error.value.__cause__)


SINGLE = """
import numpy as np, pymc as pm, pymc_active as pma
x = np.linspace(0, 10, 15)[:, None]
y = np.sin(x[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=15)
with pm.Model() as model:
    gp = pm.gp.Marginal(cov_func=pm.HalfNormal("h", 1) ** 2 * pm.gp.cov.ExpQuad(1, ls=pm.LogNormal("ls", 0, 1)))
    gp.marginal_likelihood("y", X=pm.Data("X", x), y=pm.Data("yd", y), sigma=pm.HalfNormal("s", 1))
gpm = pma.from_marginal(gp, model=model)
builder = pma.ard_gp(x, y, bounds=[(0, 10)], y_sd=0.05)
builder.model
for one in (gpm, builder):
    fit = pma.fit(one, random_seed=0, progressbar=False)
    found = pma.predict(fit, [[2.0], [7.7]])
    assert np.abs(found.f_mean - np.sin([2.0, 7.7])).max() < 0.3, found
    repr(fit), one.unconstrain({name: v for name, v in one.draw_prior(2, 0).items()}), fit.to_datatree(10)
    pma.predict({name: v[0] for name, v in one.draw_prior(2, 0).items()}, [[2.0]], model=one)
    learner = pma.Learner(one, "maximum", bounds=[(0, 10)], random_seed=0)
    learner.tell(learner.ask(), 0.5)
    learner.fit
print("done")
"""


@pytest.mark.nightly
def test_single_precision_of_pytensor():
    flags = f"{os.environ.get('PYTENSOR_FLAGS', '')},floatX=float32".lstrip(",")
    done = subprocess.run(
        [sys.executable, "-c", SINGLE], env=os.environ | {"PYTENSOR_FLAGS": flags}, capture_output=True, text=True
    )
    assert done.stdout.strip() == "done", done.stderr[-2000:]
