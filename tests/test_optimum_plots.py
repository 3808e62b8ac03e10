"""What the picture of an optimum shows: the numbers behind the artists, and wrong arguments."""

import re
from functools import cache

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import same_color
from nightly import nightly
from numpy.testing import assert_allclose

import pymc_active as pma
from pymc_active import plots
from pymc_active.active import Learner

pytestmark = pytest.mark.slow

POOL = pd.DataFrame(
    np.random.default_rng(2).uniform(0, 1, (30, 2)), columns=["acid", "heat"], index=[f"vial {i}" for i in range(30)]
)
FEW = 16


def bowl(X):
    return 5 - 8 * np.square(np.asarray(X, float) - 0.6).sum(1)


@cache
def optimum(D, minimize=False, n_optima=FEW):
    """In a box of D inputs; data reach beyond it."""
    X = pma.active.latin_hypercube([(-0.2, 1.2)] * D, 8, random_seed=1)
    sign = -1 if minimize else 1
    gpm = pma.ard_gp(X, sign * bowl(X), priors={"log_outputscale": 1.5, "log_noise": -3.0})
    learner = Learner(gpm, "maximum", criterion="random", bounds=[(0, 1)] * D, minimize=minimize, random_seed=1)
    return learner.optimum(n_optima)


@cache
def of_pool(minimize=False):
    X = POOL.iloc[:4]
    gpm = pma.ard_gp(X, bowl(X))
    return Learner(gpm, "maximum", pool=POOL, minimize=minimize, random_seed=1).optimum(FEW)


def line(ax, label):
    [found] = [artist for artist in ax.lines if artist.get_label() == label]
    return np.array(found.get_data())


def band(ax):
    """x, lower and upper edge of the only ``fill_between``."""
    [collection] = [c for c in ax.collections if c.get_label() == "89 % interval of f"]
    x, y = collection.get_paths()[0].vertices.T
    grid = np.unique(x)
    return grid, *np.array([(y[x == g].min(), y[x == g].max()) for g in grid]).T


def interval(ax, label):
    """Middle and ends of the bars of an ``errorbar``."""
    [found] = [c for c in ax.containers if c.get_label() == label]
    data, _, [bars] = found
    return data.get_xydata(), np.array(bars.get_segments())


@pytest.mark.parametrize("D", [3, *nightly(1)])
def test_bands_are_those_of_predict_along_each_input(D):
    """With the recommended point on them; below them histograms count the possible places."""
    found = optimum(D)
    axes = pma.plots.plot(found, n_points=11)
    assert axes.shape == (2, D)
    interval_of_f = pma.predict(found.fit, found.x, quantiles=(0.055, 0.945)).f_quantile[:, 0]
    for d, (ax, below) in enumerate(axes.T):
        grid = np.tile(found.x, (11, 1))
        grid[:, d] = np.linspace(0, 1, 11)
        expected = pma.predict(found.fit, grid, quantiles=(0.055, 0.945))
        x, low, high = band(ax)
        assert_allclose(x, grid[:, d])
        assert_allclose([low, high], expected.f_quantile)
        assert_allclose(line(ax, "mean of f")[1], expected.f_mean)
        [middle], [ends] = interval(ax, "recommended")
        assert_allclose(middle, [found.x[0, d], found.f_mean])
        assert_allclose(ends[:, 1], interval_of_f)
        counts, edges = np.histogram(found.samples.x[:, d], bins=len(below.patches), range=(0, 1))
        assert counts.sum() == FEW
        assert_allclose([bar.get_x() for bar in below.patches], edges[:-1], atol=1e-12)
        assert_allclose([bar.get_height() for bar in below.patches], 100 * counts / FEW, atol=1e-9)


def test_one_input_shows_the_heights_of_possible_maxima_and_data_in_the_box():
    found = optimum(1)
    ax = pma.plots.plot(found)[0, 0]
    assert_allclose(line(ax, "possible maximum"), [found.samples.x.to_numpy()[:, 0], found.samples.f.to_numpy()])
    inside = (found.fit.X[:, 0] >= 0) & (found.fit.X[:, 0] <= 1)
    assert 0 < inside.sum() < len(inside)
    for shown, values in zip(line(ax, "data"), (found.fit.X[:, 0], found.fit.y), strict=True):
        assert_allclose(np.sort(shown), np.sort(values[inside]))
    assert line(pma.plots.plot(optimum(3))[0, 1], "data off the line").shape[1] < 8


def test_the_map_is_the_posterior_mean_with_places_data_and_recommendation():
    found = optimum(2)
    [[ax]] = pma.plots.plot(found, n_points=7)
    filled, sides = ax.collections[0], np.linspace(0, 1, 7)
    grid = np.stack(np.meshgrid(sides, sides), axis=-1).reshape(-1, 2)
    mean = pma.predict(found.fit, grid).f_mean.to_numpy()
    # A point's colour is that of the level it lies in.
    assert filled.levels[0] <= mean.min() < mean.max() <= filled.levels[-1]
    for point, value in list(zip(grid, mean, strict=True))[::5]:
        path = filled.get_paths()[np.searchsorted(filled.levels, value) - 1]
        assert path.contains_point(point, radius=1e-6) or path.contains_point(point, radius=-1e-6)
    assert_allclose(line(ax, "possible maximum"), found.samples.x.to_numpy().T)
    [best] = [artist.get_label() for artist in ax.lines if artist.get_label().startswith("recommended")]
    low, high = pma.predict(found.fit, found.x, quantiles=(0.055, 0.945)).f_quantile[:, 0]
    shown = np.array(re.search(r"(\S+) \(89 %: (\S+) to (\S+)\)", best).groups(), float)
    assert_allclose(shown, [found.f_mean, low, high], atol=0.01 * float(high - low))
    assert_allclose(line(ax, best), found.x.T)
    inside = ((found.fit.X >= 0) & (found.fit.X <= 1)).all(1)
    assert_allclose(line(ax, "data"), found.fit.X[inside].T)
    assert ax.get_xlim() == ax.get_ylim() == (0, 1)


def names_of(ax):
    return [text.get_text() for text in ax.get_yticklabels()]


@pytest.mark.parametrize("minimize", [False, *nightly(True)])
def test_bars_are_shares_of_the_paths_that_prefer_a_row(minimize):
    found = of_pool(minimize)
    left, right = pma.plots.plot(found, n_candidates=6)[0]
    names, places = names_of(left), found.samples.x.to_numpy()
    shares = [100 * np.mean(np.abs(places - POOL.loc[name].to_numpy()).max(1) < 1e-9) for name in names]
    heights = {round(bar.get_y() + bar.get_height() / 2): bar.get_width() for bar in left.patches}
    assert_allclose([heights[i] for i in range(len(names))], shares)
    assert shares == sorted(shares, reverse=True) or found.x.index[0] == names[-1]
    assert found.x.index[0] in names
    assert len(names) <= 6
    assert left.get_xlabel().startswith(f"probability of the {'minimum' if minimize else 'maximum'} (%)")
    middles = np.concatenate([interval(right, label)[0] for label in ("89 % interval of f", "recommended")])
    assert_allclose(middles[np.argsort(middles[:, 1]), 0], pma.predict(found.fit, POOL.loc[names]).f_mean)


def test_the_recommended_row_is_always_shown_and_measured_rows_show_their_data():
    found = of_pool()
    [[left, _]] = pma.plots.plot(found, n_candidates=1)
    assert names_of(left) == [found.x.index[0]]
    assert all(same_color(bar.get_facecolor()[:3], plots.VERMILION) for bar in left.patches)
    [[left, right]] = pma.plots.plot(found, n_candidates=30)
    measured = [row for row in POOL.index.get_indexer(names_of(left)) if row < 4]
    shown = [x for artist in right.lines if artist.get_label() == "data" for x in artist.get_xdata()]
    assert_allclose(np.sort(shown), np.sort(bowl(POOL.iloc[measured])))
