"""What the pictures show: the numbers behind the artists, invariances, and wrong objects."""

import sys

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pymc as pm
import pytest
import xarray as xr
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import ortho_group

import pymc_active as pma
from pymc_active import plots
from pymc_active.structure.decompose import decompose

pytestmark = pytest.mark.slow

RNG = np.random.default_rng(20260301)
X = RNG.uniform(-1, 1, size=(25, 4))
Y = np.sin(2 * X[:, 0] - X[:, 1]) + 0.5 * X[:, 2] + 0.05 * RNG.normal(size=25)
NAMES = ["heat", "acid", "salt", "noise"]
QUICK = {"n_restarts": 3, "population": 0, "random_seed": 1, "progressbar": False}


@pytest.fixture(scope="module")
def curve_fit():
    x = np.linspace(0, 10, 9)
    return pma.fit_laplace(pma.ard_gp(x[:, None], np.sin(x), x_scale="box"), **QUICK)


@pytest.fixture(scope="module")
def ard_fit():
    frame = pd.DataFrame(10 * X, columns=NAMES)
    return pma.fit_laplace(pma.ard_gp(frame, Y, mean="linear", x_scale=(0, 10)), **QUICK)


@pytest.fixture(scope="module")
def plane_fit():
    return pma.fit_laplace(pma.embedding_gp(10 * X, Y, n_components=2, x_scale=(0, 10)), **QUICK)


def turned(fit):
    """The same mode in another orientation."""
    R = fit.point["R"]
    rotation = ortho_group.rvs(len(R), random_state=3) if len(R) > 1 else -np.eye(1)
    return pma.fit_laplace(fit.gpm, point={**fit.point, "R": rotation @ R}, optimize=False)


def line(ax, label):
    [found] = [artist for artist in ax.lines if artist.get_label() == label]
    return found.get_xdata(), found.get_ydata()


def labels(artists):
    return {str(artist.get_label()) for artist in artists}


def ticks(axis):
    return [text.get_text() for text in axis.get_ticklabels()]


def band(collection):
    """Lower and upper edge of a ``fill_between``, by x."""
    x, y = collection.get_paths()[0].vertices.T
    grid = np.unique(x)
    return grid, np.array([(y[x == g].min(), y[x == g].max()) for g in grid]).T


def test_missing_matplotlib_names_the_extra(curve_fit, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"pip install 'pymc-active\[plots\]'"):
        pma.plots.plot(curve_fit)


@pytest.mark.parametrize("target", ["f", "y"])
def test_predictions_show_what_predict_returns(curve_fit, target):
    ax = plots.plot_predictions(curve_fit, n_points=30, target=target)
    grid, edges = band(ax.collections[0])
    assert_allclose(grid[[0, -1]], [-1, 11])
    expected, fixed = (pma.predict(curve_fit, grid[:, None], method=method) for method in ("mgp", "map"))
    # 1.598193 has seven digits.
    low, high = (expected.f_mean + sign * 1.598193 * np.sqrt(expected[f"{target}_variance"]) for sign in (-1, 1))
    assert_allclose(edges, [low, high], rtol=0, atol=1e-6)
    assert_array_equal(line(ax, "mean of f")[1], expected.f_mean)
    lower = fixed.f_mean - 1.598193 * np.sqrt(fixed[f"{target}_variance"])
    assert_allclose(line(ax, f"89 % interval of {target}, hyperparameters fixed")[1], lower, rtol=0, atol=1e-6)
    assert_array_equal(line(ax, "data")[1], curve_fit.gpm.y)


def test_a_slice_is_along_the_input_that_matters_most():
    """By default, of a fit and of a run; the other inputs are at their medians."""
    table = pd.DataFrame(np.random.default_rng(3).uniform(size=(20, 6)), columns=list("abcdef"))
    gpm = pma.ard_gp(table, np.sin(4 * table["d"]))
    fit = pma.fit_laplace(gpm, **QUICK)
    ax = plots.plot(fit, n_points=20)
    assert ax.get_xlabel() == "d"
    x, mean = line(ax, "mean of f")
    grid = np.tile(np.median(table, axis=0), (20, 1))
    grid[:, 3] = x
    assert_array_equal(mean, pma.predict(fit, grid).f_mean)
    for asked in ("d", 3):
        assert_array_equal(line(plots.plot_predictions(fit, input=asked, n_points=20), "mean of f")[1], mean)
    learner = pma.Learner(gpm, "maximum", inference="laplace", random_seed=1, pool=table)
    assert plots.plot(learner).get_xlabel() == "d"
    assert plots.plot(learner, input="a").get_xlabel() == "a"


def test_with_a_box_the_axis_is_the_box():
    """That of the model; a learner's own comes before it, and without any its candidates are shown as well."""
    start, bounds = X[:8, :1], [(-2, 3)]
    boxed, free = pma.ard_gp(start, Y[:8], bounds=bounds), pma.ard_gp(start, Y[:8])
    ax = plots.plot(pma.fit_laplace(boxed, **QUICK))
    assert ax.get_xlim() == (-2, 3)
    assert_array_equal(line(ax, "mean of f")[0][[0, -1]], [-2, 3])
    keywords = {"random_seed": 1, "inference": "laplace"}
    assert plots.plot(pma.Learner(free, bounds=[(-4, 4)], **keywords)).get_xlim() == (-4, 4)
    assert plots.plot(pma.Learner(boxed, pool=[[0.0], [2.0]], **keywords)).get_xlim() == (-2, 3)
    low, high = plots.plot(pma.Learner(free, pool=[[0.0], [9.0]], **keywords)).get_xlim()
    assert low < start.min()
    assert 9 < high < 11


def test_doses_over_decades_have_a_logarithmic_axis():
    with pm.Model() as assay:
        dose = pm.Data("dose", [0.03, 0.3, 3.0, 30.0])
        EC50 = pm.LogNormal("EC50", 1, 1.5)
        pm.Normal("response", 100 / (1 + EC50 / dose), 5, observed=[6, -3, 27, 88])
    doses = {"dose": np.geomspace(0.01, 300, 40)}
    learner = pma.Learner(assay, "parameters", pool=doses, random_seed=1)
    ax = pma.plots.plot(learner)
    low, high = ax.get_xlim()
    assert ax.get_xscale() == "log"
    assert_allclose(np.log10([0.01 / low, high / 300]), 0.1 * np.log10(30_000), rtol=1e-6)
    x, mean = ax.get_lines()[0].get_data()
    assert np.ptp(np.diff(np.log(x))) < 1e-9
    assert_allclose(mean, pma.predict(learner.fit, {"dose": x}).f_mean)
    utility = pma.active.bald(learner.fit, doses)
    assert pma.plots.plot_utility(utility, doses).get_xscale() == "log"
    assert pma.plots.plot_predictions(learner.fit, limits=(0, 40)).get_xscale() == "linear"
    # Data that lie evenly, or in a box.
    x = np.linspace(1, 1000, 9)[:, None]
    assert (
        pma.plots.plot(pma.fit(pma.ard_gp(x, np.sin(x[:, 0]), x_scale="unit"), progressbar=False)).get_xscale()
        == "linear"
    )


def test_numbers_of_points_do_not_overlap(curve_fit, plane_fit):
    """As near an optimum; the last point is always numbered."""
    near = np.random.default_rng(0).normal(size=(60, 4)) * 0.02
    numbered = {"highlight": np.arange(60), "number": True}
    for ax in (
        plots.plot_predictions(curve_fit, X=5 + near[:, :1], y=near[:, 1], **numbered),
        plots.plot_embedding(plane_fit, X=10 * near, y=near[:, 0], **numbered),
    ):
        ax.figure.canvas.draw()
        boxes = [text.get_window_extent() for text in ax.texts]
        assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])
        assert "60" in {text.get_text() for text in ax.texts}


def test_predictions_beside_those_of_a_trace(curve_fit):
    trace, given = curve_fit.to_datatree(30, 1), plt.subplots()[1]
    ax = plots.plot_predictions(curve_fit, trace=trace, limits=(2, 15), n_points=20, target="y", ax=given)
    assert ax is given
    assert ax.get_xlim() == (2, 15)
    lower, upper = (artist for artist in ax.lines if artist.get_color() == plots.VERMILION)
    assert lower.get_label() == "89 % interval of y, MCMC"
    x = np.linspace(2, 15, 20)
    assert_allclose(lower.get_xdata(), x)
    exact = pma.predict(trace, x[:, None], model=curve_fit.gpm, quantiles=(0.055, 0.945))
    assert_allclose([lower.get_ydata(), upper.get_ydata()], exact.y_quantile)


def test_an_average_is_shown_as_its_mixture_with_the_members_that_count(curve_fit):
    rough = pma.fit_laplace(pma.ard_gp(curve_fit.X, curve_fit.y, kernel="Matern12", x_scale="box"), **QUICK)
    members = {"smooth": curve_fit, "rough": rough}
    average = pma.ModelAverage(members).weighted("uniform")
    ax = plots.plot_predictions(average, n_points=20)
    x, mean = line(ax, "mean of f")
    expected = pma.predict(average, x[:, None], quantiles=(0.055, 0.945))
    assert_array_equal(mean, expected.f_mean)
    assert_allclose(band(ax.collections[0])[1], expected.f_quantile)
    assert_array_equal(line(ax, "rough, weight 0.50")[1], pma.predict(rough, x[:, None]).f_mean)
    with pytest.raises(ValueError, match="a trace belongs to one model"):
        plots.plot_predictions(average, trace=curve_fit.to_datatree(5))
    far = plots.plot_predictions(pma.ModelAverage(members, prior=[1, 0]))
    assert not any("rough" in label for label in labels(far.lines))


# Two inputs are coordinates of a field, in metres.
FIELD = [(432_000.0, 432_750.0), (5_412_000.0, 5_412_500.0)]
CELLS = pd.DataFrame(
    [(x, y) for y in np.arange(5_412_012.5, 5_412_500, 25) for x in np.arange(432_012.5, 432_750, 25)],
    columns=["x (m)", "y (m)"],
)


def lead(cells):
    u, v = (np.asarray(cells, float) - np.transpose(FIELD)[0]).T / 500
    return pd.Series(3 + np.sin(4 * u) - v, cells.index, name="log lead")


@pytest.fixture(scope="module")
def field_fit():
    start = CELLS.sample(9, random_state=1)
    return pma.fit_laplace(pma.ard_gp(start, lead(start), bounds=FIELD), **QUICK)


def field_learner(learn="function", **keywords):
    start = CELLS.sample(9, random_state=1)
    keywords = {"pool": CELLS, "criterion": "random", "inference": "laplace", "random_seed": 1} | keywords
    learner = pma.Learner(pma.ard_gp(start, lead(start), bounds=FIELD), learn, **keywords)
    x = pd.DataFrame(learner.ask(2), columns=CELLS.columns)
    learner.tell(x, lead(x))
    learner.tell(CELLS.iloc[[300]], np.nan)
    return learner


def contours(monkeypatch):
    """What is given to ``contourf`` from now on."""
    drawn, contourf = [], plt.Axes.contourf
    monkeypatch.setattr(plt.Axes, "contourf", lambda ax, *args, **kw: drawn.append(args) or contourf(ax, *args, **kw))
    return drawn


def scattered(ax, label):
    [found] = [part for part in ax.collections if part.get_label() == label]
    return found


def test_a_map_shows_what_predict_returns(field_fit, monkeypatch):
    drawn = contours(monkeypatch)
    left, right = plots.plot(field_fit, n_points=7)
    for (x, y, table), name in zip(drawn, ("f_mean", "f_variance"), strict=True):
        assert_array_equal([x, y], [np.linspace(*side, 7) for side in FIELD])
        expected = pma.predict(field_fit, np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2))[name].to_numpy()
        assert_allclose(table.ravel(), expected if name == "f_mean" else np.sqrt(expected), rtol=1e-6)
    shown = scattered(left, "data")
    assert_array_equal(shown.get_offsets(), field_fit.X)
    assert_array_equal(shown.get_array(), field_fit.y)
    assert_array_equal(np.transpose(line(right, "data")), field_fit.X)
    # One scale for the mean and the data, which spans both.
    filled = next(part for part in left.collections if hasattr(part, "levels"))
    assert shown.norm is filled.norm
    everything = np.append(drawn[0][2].ravel(), field_fit.y)
    assert shown.norm.vmin <= everything.min() < everything.max() <= shown.norm.vmax
    for ax in (left, right):
        assert (ax.get_xlabel(), ax.get_ylabel()) == ("x (m)", "y (m)")
        assert (ax.get_xlim(), ax.get_ylim()) == tuple(FIELD)
    assert [ax.get_ylabel() for ax in left.figure.axes[2:]] == ["mean of f: log lead", "sd of f: log lead"]
    # Of other points, in other limits, and in Axes that are given.
    shown, inside, given = CELLS.iloc[:4], [(432_000, 432_300), (5_412_000, 5_412_400)], plt.subplots(2)[1]
    axes = plots.plot_map(field_fit, X=shown, y=lead(shown), highlight=[3, 1], number=True, limits=inside, axes=given)
    assert (axes == given).all()
    assert [axes[0].get_xlim(), axes[0].get_ylim()] == inside
    assert_array_equal(scattered(axes[0], "data").get_array(), lead(shown))
    assert_array_equal(scattered(axes[0], "asked").get_offsets(), shown.iloc[[3, 1]])


def test_a_run_with_two_inputs_is_a_map_with_what_was_asked_and_what_failed():
    learner, maximum = field_learner(), field_learner("maximum")
    left, _ = plots.plot(learner)
    assert_array_equal(scattered(left, "asked").get_offsets(), learner.X[9:])
    assert_array_equal(np.ravel(line(left, "failed")), CELLS.iloc[300])
    assert "recommended" not in labels(left.lines)
    assert_array_equal(line(plots.plot(maximum)[0], "recommended"), np.asarray(maximum.recommend()).T)
    assert not plots.plot(learner, highlight=[])[0].texts
    inside = [(432_100, 432_400), (5_412_100, 5_412_300)]
    assert plots.plot(field_learner(bounds=inside, pool=None))[0].get_xlim() == inside[0]
    ax = plots.plot(learner, input="x (m)")
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("x (m)", "log lead")
    assert ax.get_title(loc="left") == f"slice at y (m) = {np.median(learner.X[:, 1]):.12g}"
    # Several models of a function have one map.
    models = {
        kernel: pma.ard_gp(learner.X, learner.y, kernel=kernel, bounds=FIELD) for kernel in ("ExpQuad", "Matern12")
    }
    for learn, shape in (("function", (2,)), ("model", ())):
        run = pma.Learner(models, learn, pool=CELLS.to_numpy(), criterion="random", inference="laplace", random_seed=1)
        assert np.shape(plots.plot(run)) == shape


def test_utility_along_the_only_input(curve_fit):
    """Sorted by input, the best candidate marked, data along the bottom; units and names from what was given."""
    x = RNG.permutation(np.linspace(0, 10, 40))
    scores = pma.active.uncertainty(curve_fit, x[:, None])
    ax = plots.plot_utility(scores, pd.DataFrame({"time (h)": x}), data=curve_fit)
    assert_array_equal(ax.lines[0].get_data(), [np.sort(x), scores.to_numpy()[np.argsort(x)]])
    best = int(np.argmax(scores.to_numpy()))
    assert_array_equal(np.ravel(line(ax, "best")), [x[best], float(scores[best])])
    assert_array_equal(line(ax, "data")[0], curve_fit.X[:, 0])
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("time (h)", "uncertainty (units of y)")


def test_utility_of_a_grid_is_a_map_and_of_a_pool_points(monkeypatch):
    across, up = np.linspace(0, 1, 6), np.linspace(0, 10, 5)
    grid = np.stack(np.meshgrid(across, up), axis=-1).reshape(-1, 2)
    drawn = contours(monkeypatch)
    values = xr.DataArray(grid[:, 0] + 0.01 * grid[:, 1], dims="point", name="bald", attrs={"units": "nats"})
    # In any order of the rows.
    order = RNG.permutation(len(grid))
    ax = plots.plot_utility(values[order], grid[order], data=[[0.5, 5.0]], picks=[0, 3])
    assert_array_equal(np.transpose(line(ax, "picked")), grid[order[[0, 3]]])
    assert_array_equal(np.ravel(line(ax, "data")), [0.5, 5.0])
    x, y, table = drawn.pop()
    assert_array_equal(x, across)
    assert_array_equal(y, up)
    assert_allclose(table, across + 0.01 * up[:, None])
    frame = pd.DataFrame(grid[:-1], columns=["heat (K)", "acid (g)"])
    ax = plots.plot_utility(values[:-1], frame)
    assert not drawn
    assert_array_equal(ax.collections[0].get_offsets(), frame)
    assert_array_equal(ax.collections[0].get_array(), values[:-1])
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("heat (K)", "acid (g)")
    assert ax.figure.axes[-1].get_ylabel() == "BALD (nats)"


def test_utility_of_many_inputs_is_a_ranking(ard_fit):
    frame = pd.DataFrame(10 * X, columns=NAMES, index=[f"run {i}" for i in range(25)])
    scores = pma.active.bald(ard_fit, frame)
    ax = plots.plot_utility(scores, frame)
    order = np.argsort(-scores.to_numpy())
    assert ticks(ax.yaxis) == [f"run {i}" for i in order[:12]]
    assert_array_equal(line(ax, "best")[0], [float(scores.max())])
    worst = plots.plot_utility(scores, picks=[int(order[-1])])
    assert worst.get_yticklabels()[-1].get_text() == f"run {order[-1]}"


def test_embedding_shows_principal_components(plane_fit, monkeypatch):
    drawn = contours(monkeypatch)
    ax = plots.plot_embedding(plane_fit, highlight=[4, 2], number=True)
    u, rings = (np.asarray(scattered(ax, label).get_offsets()) for label in ("data", "asked"))
    [R] = plane_fit.gpm.embeddings(plane_fit.theta[None])
    # Distances are the kernel's own, and the axes are those of R.
    assert_allclose(u @ u.T, X @ R.T @ R @ X.T, atol=1e-9)
    weights = np.linalg.lstsq(X, u, rcond=None)[0].T
    assert_allclose(weights @ weights.T, np.diag(np.linalg.svd(R, compute_uv=False) ** 2), atol=1e-9)
    assert_array_equal(scattered(ax, "data").get_array(), Y)
    assert_array_equal(rings, u[[4, 2]])
    assert {text.get_text() for text in ax.texts} == {"1", "2"}
    assert ax.figure.axes[-1].get_ylabel() == "mean of f: y"
    # The map: what is predicted at the point of least norm.
    [(across, up, table)] = drawn
    for i, j in ((0, 0), (7, 20), (39, 3)):
        x = 10 * np.linalg.pinv(weights) @ [across[i], up[j]]
        assert table[j, i] == pytest.approx(float(pma.predict(plane_fit, x[None]).f_mean[0]))
    # No rotation changes the picture.
    other = turned(plane_fit)
    assert not np.allclose(plane_fit.point["R"], other.point["R"])
    assert_allclose(scattered(plots.plot_embedding(other), "data").get_offsets(), u, atol=1e-9)


def test_one_component_is_drawn_against_y():
    fit = pma.fit_laplace(pma.embedding_gp(10 * X + 3, Y, n_components=1, x_scale=(3, 10)), **QUICK)
    ax, other = plots.plot_embedding(fit), plots.plot_embedding(turned(fit))
    u, y = line(ax, "data")
    [R] = fit.gpm.embeddings(fit.theta[None])
    R = R * np.sign(R[0, np.abs(R).argmax()])
    assert_allclose(u, X @ R[0])
    assert_array_equal(y, fit.gpm.y)
    for label in ("data", "mean of f"):
        assert_allclose(line(ax, label), line(other, label))

    grid, mean = line(ax, "mean of f")
    assert_allclose(grid[[0, -1]], [u.min() - np.ptp(u) / 10, u.max() + np.ptp(u) / 10])
    # The mean depends on u only. The error of interpolation is h²/8 |f''|, some 1e-4 at 200 points.
    assert_allclose(np.interp(u, grid, mean), pma.predict(fit, fit.X).f_mean, atol=1e-3)
    _, (low, high) = band(ax.collections[0])
    # What X has on average at u: its mean, and slopes that are covariances over a variance. It goes to u.
    average = X.mean(0) + np.outer(grid - u.mean(), (u - u.mean()) @ X / np.square(u - u.mean()).sum())
    assert_allclose(average @ R[0], grid, atol=1e-12)
    expected = pma.predict(fit, 3 + 10 * average)
    assert_allclose(mean, expected.f_mean)
    assert_allclose(high - low, 2 * 1.598193 * np.sqrt(expected.f_variance))


def test_a_relevance_is_drawn_as_it_is(ard_fit):
    found = pma.relevance(ard_fit, draws=50, random_seed=0, ci_prob=0.5)
    ax = plots.plot(found)
    assert_array_equal(line(ax, "median and 50 % interval")[1], found.loading.sel(summary="median"))
    assert ticks(ax.xaxis) == NAMES
    ends = [segment[:, 1] for segment in ax.collections[0].get_segments()]
    assert_array_equal(ends, found.loading.sel(summary=["lower", "upper"]).transpose("input", "summary"))
    _, median = line(plots.plot_relevance(ard_fit, draws=200, random_seed=4), "median and 89 % interval")
    assert_allclose(median, pma.relevance(ard_fit, draws=200, random_seed=4).loading.sel(summary="median"))


def test_relevance_over_wavelengths():
    wavelengths = np.linspace(850, 1050, 30)
    frame = pd.DataFrame(RNG.normal(size=(12, 30)), columns=wavelengths)
    gpm = pma.embedding_gp(frame, np.sin(frame.iloc[:, 3].to_numpy()), n_components=1)
    point = {"R": np.ones((1, 30)), "log_lengthscale": 0.0, "log_outputscale": 0.0, "log_noise": -1.0}
    with pytest.warns(UserWarning, match="doubtful"):
        fit = pma.fit_laplace(gpm, point=point, optimize=False)
    ax = plots.plot_relevance(fit, draws=50)
    x, median = line(ax, "median")
    grid, (low, high) = band(ax.collections[0])
    assert_array_equal([x, grid], [wavelengths] * 2)
    assert ((low <= median) & (median <= high)).all()

    # Consecutive integers only number the inputs, which have no order: points, not a curve.
    table = pma.relevance(fit, draws=50)
    for names, shown in (
        (range(1, 31), ["1", "3"]),
        (range(850, 880), ["850", "852"]),
        ([f"sensor {i}" for i in range(30)], ["sensor 0", "sensor 2"]),
    ):
        ax = plots.plot_relevance(table.assign_coords(input=names))
        assert ticks(ax.xaxis)[:2] == shown
        assert ax.lines[0].get_linestyle() == "None"
    assert plots.plot_relevance(table.assign_coords(input=range(850, 1150, 10))).lines[0].get_linestyle() == "-"


def test_a_learner_rings_what_was_asked_and_told_and_no_other_point():
    learner = pma.Learner(pma.ard_gp(X[:9, :2], Y[:9]), pool=X[:, :2], criterion="random", random_seed=1)
    learner.tell(X[10, :2], Y[10])
    assert "asked" not in labels(plots.plot(learner)[0].collections)
    first, second = learner.ask(2)
    learner.tell(second, 0.3)
    ax, _ = plots.plot(learner)
    assert_array_equal(scattered(ax, "asked").get_offsets(), [second])
    assert_array_equal(np.transpose(line(ax, "pending")), [first])
    assert len(scattered(ax, "data").get_offsets()) == 11
    # In a slice a pending point has no height.
    assert_array_equal(line(plots.plot(learner, input=1), "pending")[0], first[1:])
    assert "asked" not in labels(plots.plot(learner, X=learner.X, y=learner.y)[0].collections)


def test_a_fit_is_drawn_with_its_own_data_whatever_the_model_holds_now():
    gpm = pma.ard_gp(X[:6, :1], Y[:6])
    fit = pma.fit_laplace(gpm, **QUICK)
    gpm.set_data(X[:9, :1], Y[:9])
    assert_array_equal(line(plots.plot_predictions(fit), "data"), [X[:6, 0], Y[:6]])
    with pytest.raises(ValueError, match="data changed since this fit"):
        plots.plot_predictions(fit, trace=fit.to_datatree(5))


def test_bad_arguments_say_what_to_do(curve_fit, plane_fit, field_fit):
    cases = [
        (lambda: plots.plot_predictions(curve_fit, target="x"), "target must be 'f' or 'y'"),
        (lambda: plots.plot_predictions(curve_fit, input=3), "input must be one of 0 or a position"),
        (lambda: plots.plot_predictions(curve_fit, X=X[:, :1]), "both X and y"),
        (lambda: plots.plot_predictions(curve_fit, limits=(3, 3)), "limits must be one pair of finite numbers"),
        (lambda: plots.plot_predictions(curve_fit, trace=xr.DataTree()), "no group 'posterior'"),
        (lambda: plots.plot_predictions(curve_fit, highlight=[9]), "rows of X, 0 to 8"),
        (lambda: plots.plot_map(curve_fit), "two inputs; this one has 1: see"),
        (lambda: plots.plot_map(field_fit, limits=(0, 1)), "limits must be two pairs of finite numbers"),
        (lambda: plots.plot_map(field_fit, limits=[(0, 1), (2, 2)]), "low < high"),
        (lambda: plots.plot_map(field_fit, n_points=1), "n_points must be a whole number from 2"),
        (lambda: plots.plot_map(field_fit, axes=plt.subplots(3)[1]), "needs 2 Axes"),
        (lambda: plots.plot_embedding(curve_fit), "no embedding"),
        (lambda: plots.plot_embedding(plane_fit, limits=[(0, 1)]), "limits must be two pairs"),
    ]
    for call, message in cases:
        with pytest.raises(ValueError, match=message):
            call()


def test_loadings_are_the_correlations_of_inputs_with_the_components():
    """With a sure embedding the band closes on the correlations of X with u = x Rᵀ."""
    rng = np.random.default_rng(3)
    X, R = rng.normal(size=(40, 3)) @ rng.normal(size=(3, 3)), np.array([1.0, -0.5, 0.2])
    fixed = {"log_noise": -3.0, "log_outputscale": 0.0}
    gpm = pma.embedding_gp(X, np.sin(X[:, 0]), n_components=1, prior_scale=1.0, priors=fixed)
    # The point is no mode; only its embedding matters here.
    with pytest.warns(pma.ActiveWarning, match="the Laplace fit is doubtful"):
        fit = pma.fit_laplace(gpm, point={"R": R[None]}, optimize=False)
    # No uncertainty left, the curves are the mode's own correlations.
    fit.best.root = 1e-9 * fit.best.root
    drawn = pma.plots.plot_loadings(fit).lines[0].get_ydata()
    expected = np.corrcoef(X @ R, X.T)[0, 1:]
    # The axes of R have no preferred sign.
    assert_allclose(drawn * np.sign(drawn[0] * expected[0]), expected, atol=1e-6)


def test_decomposition_shows_the_sum_its_components_and_the_rest():
    rng = np.random.default_rng(5)
    x = np.sort(rng.uniform(0, 10, 25))
    y = x + 2 * np.sin(2 * np.pi * x / 1.7) + 0.2 * rng.normal(size=25)
    gpm = pma.composite_gp(pd.DataFrame({"time": x}), y, "LIN + PER", x_scale="unit", y_scale="standardize")
    parts = decompose(pma.fit_laplace(gpm, **QUICK), np.linspace(-1, 11, 40)[:, None], unit="h", y_unit="mV")
    axes, table = plots.plot_decomposition(parts), parts.components
    assert len(axes) == 4
    expected = [(table.f_mean, table.f_variance), *zip(table["mean"], table.variance, strict=True)]
    for ax, (mean, variance) in zip(axes, expected, strict=False):
        x, (low, high) = band(ax.collections[0])
        assert_allclose(x, parts.X_new[:, 0])
        assert_allclose((low + high) / 2, mean, atol=1e-9)
        assert_allclose((high - low) / 2, 1.598193 * np.sqrt(variance), rtol=1e-9)
    assert_allclose(axes[0].lines[-1].get_ydata(), parts.fit.y)
    [shown] = [artist for artist in axes[3].lines if len(artist.get_ydata()) == 25]
    assert_allclose(shown.get_ydata(), table.residual)
    for ax, name, description in zip(axes[1:], table.component.to_numpy(), parts.descriptions, strict=False):
        assert ax.get_title(loc="left").replace("\n", " ") == f"{name}: {description}"
    assert axes[-1].get_xlabel() == "time (h)"
    assert {ax.get_ylabel() for ax in axes} == {"mV"}
    given = plt.subplots(4)[1]
    assert (plots.plot_decomposition(parts, input="time", axes=given) == given).all()
    with pytest.raises(ValueError, match=r"needs 4 Axes, shape \(4, 1\); got 1"):
        plots.plot_decomposition(parts, axes=given[0])


def model_table():
    evidence = np.array([-80.0, -30.0, -31.0, np.nan, -45.0])
    weight = np.exp(np.nan_to_num(evidence, nan=-np.inf) + 30)
    columns = {
        "log_evidence": evidence,
        "log_prior": np.zeros(5),
        "bic": -2 * evidence,
        "probability": weight / weight.sum(),
        "doubtful": [False, False, True, True, False],
        "level": [1, 2, 2, 2, 1],
        "parent": ["", "PER", "PER", "PER", ""],
        "error": ["", "", "", "ValueError: no", ""],
        "n_parameters": [4.0, 6.0, 6.0, np.nan, 5.0],
    }
    names = ["SE", "PER + SE", "PER * SE", "PER + PER", "PER"]
    return xr.Dataset({k: ("model", v) for k, v in columns.items()}, coords={"model": names})


def hollow(ax):
    """Places of hollow dots."""
    dots = ax.collections[-1]
    return dots.get_offsets()[(dots.get_facecolors() == 1).all(1), 0]


def test_evidences_are_sorted_with_their_probabilities_hollow_where_poor():
    """Of kernels, those of the logarithm of y, if the search went on with it; of dimensions in their order."""
    table = model_table()
    for source in (table, table.set_coords(["log_evidence", "doubtful"]).probability):
        ax = plots.plot_evidence(source)
        assert ticks(ax.yaxis) == ["PER + SE", "PER * SE", "PER", "SE"]
        assert [text.get_text() for text in ax.texts][:4] == ["0.73", "0.27", "< 0.01", "< 0.01"]
        assert_array_equal(hollow(ax), [-1])
    search = pma.search.StructureSearch(table, {}, "depth 2 reached")
    assert len(ticks(plots.plot(search, n=2).yaxis)) == 2
    of_few = pma.search.StructureSearch(table.isel(model=slice(2)), {}, "", logarithm=search)
    assert len(ticks(plots.plot(of_few).yaxis)) == 4
    evidence = np.array([0.0, -1.0, -2.0])
    columns = {
        "log_evidence": evidence,
        "probability": np.exp(evidence) / np.exp(evidence).sum(),
        "doubtful": [False, False, True],
        "evidence_is_poor": [False, True, False],
    }
    dimensions = xr.Dataset({k: ("n_components", v) for k, v in columns.items()}, {"n_components": [1, 2, 3]})
    ax = plots.plot(pma.search.EmbeddingDimension({}, dimensions))
    assert ticks(ax.yaxis) == ["1 component", "2 components", "3 components"]
    assert_array_equal(hollow(ax), [-1, -2])


def test_model_posterior_is_drawn_over_the_run():
    values = np.random.default_rng(0).dirichlet(np.ones(7), size=6)
    values[:3, 6] = np.nan
    coords = {"n_observations": np.arange(5, 11), "model": [f"m{i}" for i in range(7)]}
    history = xr.DataArray(values, coords, dims=("n_observations", "model"))
    highest = history.max("n_observations")
    ax = plots.plot_model_posterior(history, n_models=3)
    n, shown = line(ax, highest.idxmax().item())
    assert_array_equal(n, np.arange(5, 11))
    assert_array_equal(shown, history.sel(model=highest.idxmax()))
    assert len(ax.lines) == 7
    named = set(ax.get_legend_handles_labels()[1])
    assert len(named) == 3
    assert highest.idxmin().item() not in named


def test_components_are_drawn_along_their_own_inputs():
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"year": rng.uniform(0, 9, 20), "heat": rng.uniform(-5, 25, 20)})
    y = np.sin(frame.year) + 0.2 * frame.heat + 0.1 * rng.normal(size=20)
    fit = pma.fit_laplace(pma.composite_gp(frame, y, "SE[0] + LIN[1] + SE", x_scale="unit"), **QUICK)
    result = decompose(fit, unit={"heat": "°C"})
    for asked, of_both in enumerate(("year", "heat (°C)")):
        axes = plots.plot_decomposition(result, input=asked)
        own = {"SE[0]": "year", "LIN[1]": "heat (°C)", "SE": of_both}
        expected = [of_both, *(own[name] for name in result.components.component.to_numpy()), of_both]
        assert [ax.get_xlabel() for ax in axes] == expected
        for ax, label in zip(axes, expected, strict=True):
            values = frame[label.split()[0]].to_numpy()
            assert all(set(artist.get_xdata()) <= {*values, 0, 1} for artist in ax.lines)
            low, high = ax.get_xlim()
            assert low < values.min() < values.max() < high


def test_whole_numbers_of_an_own_model_are_shown_at_whole_numbers():
    """A dose without fractions, and the index of a group, beyond whose last there is none."""
    with pm.Model() as model:
        dose, site = pm.Data("dose", np.array([0, 10, 20, 40])), pm.Data("site", np.array([0, 1, 2, 1]))
        effect, slope = pm.Normal("effect", 0, 1, shape=3), pm.Normal("slope", 0, 0.1)
        pm.Normal("y", effect[site] + slope * dose, 0.5, observed=[0.1, 1.2, 1.8, 4.1])
    pool = {"dose": np.repeat([0, 40, 80], 3), "site": np.tile([0, 1, 2], 3)}
    learner = pma.Learner(model, "function", pool=pool, random_seed=1)
    left, _ = pma.plots.plot(learner)
    assert (left.get_xlim(), left.get_ylim()) == ((0, 80), (0, 2))
    line = pma.plots.plot(learner.fit, input="site").lines[0]
    means = pma.predict(learner.fit, {"dose": [15] * 3, "site": [0, 1, 2]}).f_mean.to_numpy()
    assert set(np.round(line.get_ydata(), 9)) == set(np.round(means, 9))
