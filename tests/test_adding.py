"""What docs/architecture.md says under "Where to add code", carried out: each toy takes exactly those steps."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
import xarray as xr
from differences import central_difference
from numpy.testing import assert_allclose
from scipy.special import log_ndtr, logsumexp, softmax
from scipy.stats import norm

import pymc_active as pma
from pymc_active.criteria import by_name
from pymc_active.criteria.base import MatchedCriterion
from pymc_active.inference.ensemble import Ensemble, Evidence, Part, systematic
from pymc_active.inference.fit import Fit
from pymc_active.kernels import cov, radial
from pymc_active.models.free_variables import draw_prior
from pymc_active.plots.any_result import plot
from pymc_active.posterior.row_space import FullSpace
from pymc_active.support.summaries import Summary

RNG = np.random.default_rng(20261125)
X = RNG.uniform(-1, 1, (10, 2))
Y = np.sin(3 * X[:, 0]) + 0.1 * RNG.normal(size=10)
POOL = RNG.uniform(-1, 1, (40, 2))


# A criterion of mean and variance: a class with of_moments, its function, a line in the registry.


class Exceedance(MatchedCriterion):
    """Log probability that f exceeds a threshold."""

    name, units = "exceedance", "nats"

    def __init__(self, threshold=0.0, method=None, draws=128, random_seed=None):
        super().__init__(method, draws, random_seed)
        self.threshold = threshold

    def of_moments(self, mean, variance):
        sd = np.sqrt(variance)
        u = (mean - self.threshold) / sd
        slope = np.exp(norm.logpdf(u) - log_ndtr(u))
        return log_ndtr(u), slope / sd, -0.5 * slope * u / variance


def exceedance(fit, X_pool, *, threshold=0.0):
    return Exceedance(threshold).over(fit, X_pool)


@pytest.fixture
def registered(monkeypatch):
    entry = by_name.Entry("moments", exceedance, Exceedance, ("threshold",))
    monkeypatch.setitem(by_name.CRITERIA, "exceedance", entry)
    monkeypatch.setitem(by_name._BY_FUNCTION, exceedance, "exceedance")


@pytest.mark.usefixtures("registered")
def test_a_criterion(tmp_path):
    learner = pma.Learner(pma.ard_gp(X, Y), criterion="exceedance", bounds=[(-1, 1)] * 2, random_seed=1)
    x = learner.ask()
    # The box was searched with the gradient: no random point is better.
    assert exceedance(learner.fit, x).item() >= exceedance(learner.fit, POOL).max() - 1e-9
    learner.save(tmp_path / "run.nc")
    assert pma.Learner.load(tmp_path / "run.nc").criterion_name == "exceedance"
    checked = pma.check(learner.fit, learner.fit, pool=POOL, criteria="exceedance")
    assert_allclose(checked["decision"]["score"][0], exceedance(learner.fit, POOL))
    assert "exceedance" in checked.attrs["verdict"]


# An inference method: a class with the members of Fit.


@dataclass(frozen=True, eq=False, repr=False)
class ImportanceFit(Fit):
    """Draws from the prior, weighted by the likelihood: few data need no more."""

    thetas: np.ndarray
    diagnostics: ClassVar = {"warnings": []}

    @cached_property
    def full_space(self):
        return FullSpace(self.gpm.posterior().with_data(*self.data))

    @cached_property
    def logs(self):
        return self.full_space.posterior.likelihood_values(self.thetas)

    @property
    def weights(self):
        return softmax(self.logs)

    @classmethod
    def to(cls, gpm, draws, rng):
        return cls(gpm, gpm.data, draw_prior(gpm, gpm.posterior(), draws, rng))

    @property
    def ensemble(self):
        part = Part(self.gpm, self.full_space, self.thetas, self.weights)
        return Ensemble((part,), self.X, self.y, "draws", self.gpm, self.center, self.evidence)

    def ensemble_by(self, method=None, draws=None, random_seed=None):
        thetas = self.draw(draws or len(self.thetas), random_seed)
        part = Part(self.gpm, self.full_space, thetas, np.full(len(thetas), 1 / len(thetas)))
        return replace(self.ensemble, parts=(part,))

    @property
    def evidence(self):
        error = np.sqrt(np.square(self.weights).sum() - 1 / len(self.logs))
        return Evidence(float(logsumexp(self.logs) - np.log(len(self.logs))), float(error), "importance")

    @property
    def center(self):
        return self.thetas[np.argmax(self.weights)]

    def draw(self, draws, random_seed=None):
        rng = np.random.default_rng(random_seed)
        return self.thetas[rng.permutation(systematic(self.weights, draws, rng))]

    def given(self, X, y):
        return ImportanceFit(self.gpm, (X, y), self.thetas)

    def _distinct_draws(self, draws, rng):
        return self.draw(draws, rng), np.arange(draws)

    def _summary(self):
        return Summary(f"ImportanceFit of {self.gpm.description}")


@pytest.mark.slow
def test_an_inference_method():
    gpm = pma.ard_gp(X, Y)
    fit, particles = ImportanceFit.to(gpm, 2000, RNG), pma.fit(gpm, random_seed=1, progressbar=False)
    error = np.hypot(fit.log_evidence_error, particles.log_evidence_error)
    assert abs(fit.log_evidence - particles.log_evidence) < 4 * error + 0.02
    mine, theirs = pma.predict(fit, POOL), pma.predict(particles, POOL)
    assert float(np.abs(mine.f_mean - theirs.f_mean).max()) < 0.3 * float(np.sqrt(theirs.f_variance).max())
    for score in (pma.active.bald(fit, POOL), pma.active.expected_improvement(fit, POOL)):
        assert np.isfinite(score).all()
    assert pma.relevance(fit).summary.notnull().all()
    checked = pma.check(fit, particles, pool=POOL, criteria=["bald", "uncertainty"])
    assert checked["decision"]["regret_ratio"].min() > 0.8
    tree = fit.to_datatree(draws=50, random_seed=1)
    assert {"posterior", "log_likelihood", "posterior_predictive"} <= set(tree.children)
    assert pma.plots.plot(ImportanceFit.to(pma.ard_gp(X[:, :1], Y), 500, RNG)) is not None
    assert repr(fit) == "<ImportanceFit of ard_gp(ExpQuad)>"
    paths = pma.draw_paths(fit, n_paths=20, random_seed=1)
    assert paths(POOL).shape == (20, len(POOL))


# A stationary kernel: its function and smoothness, PyMC's class, its spectrum.


def matern72(s, order):
    """(1 + a + 2/5 a² + a³/15) exp(-a) with a = √7 r."""
    a = np.sqrt(7.0 * (s + radial.ROOT_OFFSET))
    e = np.exp(-a)
    values = (
        (1 + a + 0.4 * a**2 + a**3 / 15) * e,
        -0.7 * (1 + a + a**2 / 3) * e,
        49 / 60 * (1 + a) * e,
        -343 / 120 * e,
        2401 / 240 * e / a,
    )
    return values[: order + 1]


class Matern72(pm.gp.cov.Stationary):
    def full_from_distance(self, dist, squared=False):
        a = np.sqrt(7.0) * (pt.sqrt(dist + radial.ROOT_OFFSET) if squared else dist)
        return (1 + a + 0.4 * a**2 + a**3 / 15) * pt.exp(-a)

    def full(self, X, Xs=None):
        X, Xs = self._slice(X, Xs)
        return self.full_from_distance(self.square_dist(X, Xs), squared=True)


@pytest.fixture
def added(monkeypatch):
    monkeypatch.setitem(radial.PROFILES, "Matern72", matern72)
    monkeypatch.setitem(radial.MEAN_SQUARE_DERIVATIVES, matern72, 3)
    monkeypatch.setitem(cov.STATIONARY, "Matern72", Matern72)
    monkeypatch.setitem(radial.DEGREES_OF_FREEDOM, matern72, 7.0)


@pytest.mark.slow
@pytest.mark.usefixtures("added")
def test_a_stationary_kernel():
    gpm = pma.ard_gp(X, Y, kernel="Matern72")
    arrays, theta = gpm.posterior(), np.array([0.1, -0.2, 0.3, -1.5])
    graphs = gpm.posterior({"mode": "FAST_COMPILE"})
    for one, other in zip(arrays.value_and_gradient(theta), graphs.value_and_gradient(theta), strict=True):
        assert_allclose(one, other, rtol=1e-6)
    bend = -central_difference(lambda t: arrays.value_and_gradient(t)[1], theta)
    assert_allclose(arrays.hessian(arrays.state(theta)), bend, rtol=1e-5, atol=1e-6)
    fit = pma.fit(gpm, random_seed=1, progressbar=False)
    assert np.isfinite(pma.active.pes(gpm, POOL, fit=fit, random_seed=1)).all()
    paths = pma.draw_paths(fit, n_paths=300, random_seed=1)
    p = pma.predict(fit, POOL)
    error = 5 * np.sqrt(p.f_variance / 300)
    assert (np.abs(paths(POOL).to_numpy().mean(0) - p.f_mean.to_numpy()) < error.to_numpy() + 0.02).all()
    # Compiled loops, for more points, do not know it.
    many = [np.tile(X, (5, 1)) + 0.1 * RNG.normal(size=(50, 2)), np.tile(Y, 5)]
    for model in (pma.ard_gp(*many, kernel="Matern72"), pma.embedding_gp(*many, n_components=1, kernel="Matern72")):
        posterior = model.posterior()
        theta = posterior.prior.mean + 0.3 * RNG.normal(size=(2, posterior.n_parameters))
        expected = [-posterior.state(one, 0.1).factor.nll for one in theta]
        assert_allclose(posterior.log_likelihoods(theta, 0.1).value, expected, rtol=1e-9)


# A plot of a result: a function that returns Axes, registered for its kind.


@dataclass
class Counts:
    values: xr.DataArray


def plot_counts(result, ax=None):
    ax = pma.plots.axes.new_axes(ax, (4, 3)) if ax is None else ax
    ax.bar(np.arange(len(result.values)), result.values)
    return ax


def test_a_plot():
    plot.register(Counts, plot_counts)
    ax = pma.plots.plot(Counts(xr.DataArray([1.0, 3.0])))
    assert [bar.get_height() for bar in ax.patches] == [1.0, 3.0]
