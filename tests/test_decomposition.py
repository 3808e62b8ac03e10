"""Additive components against brute-force conditioning."""

import re

import numpy as np
import pandas as pd
import pymc as pm
import pytest
from numpy.testing import assert_allclose
from scipy.linalg import block_diag

import pymc_active as pma
from pymc_active.laplace.draws.short_chains import particles
from pymc_active.structure.decompose import additive_terms, decompose
from pymc_active.structure.words import percent
from pymc_active.support.numbers import plus_minus

pytestmark = pytest.mark.slow

RNG = np.random.default_rng(20261122)
X = np.sort(RNG.uniform(1990, 2002, size=30))
Y = 50 + 3 * (X - 1995) + 4 * np.sin(2 * np.pi * X / 1.7) * (1 + 0.1 * (X - 1990)) + 0.5 * RNG.normal(size=30)
NEW = np.linspace(1988, 2004, 9)
EXPRESSION = "SE * (LIN + PER) + RQ"
POINT = {
    "log_lengthscale_SE": np.log(0.9),
    "log_outputscale_SE": 0.1,
    "location_LIN": np.array([-0.2]),
    "log_outputscale_LIN": 0.3,
    "log_lengthscale_PER": np.log(1.4),
    "log_period_PER": np.log(1.7 / (X[-1] - X[0])),
    "log_outputscale_PER": -0.4,
    "log_lengthscale_RQ": np.log(0.2),
    "log_alpha_RQ": np.log(0.7),
    "log_outputscale_RQ": -1.2,
    "mean_constant": 0.3,
    "log_noise": np.log(0.07),
}
QUICK = {"n_restarts": 3, "population": 0, "random_seed": 1, "progressbar": False}


def model(expression=EXPRESSION, **keywords):
    return pma.composite_gp(X[:, None], Y, expression, x_scale="unit", y_scale="standardize", **keywords)


def fit_at(expression, **point):
    """Expanded at the prior's means but for what is given."""
    gpm = model(expression)
    start = {name: np.zeros(shape) for name, shape in gpm.shapes.items()}
    with pytest.MonkeyPatch.context() as patch:
        # Such a point is no mode; the warning says so.
        patch.setattr("pymc_active.laplace.fit.find_problems", lambda *args: [])
        return pma.fit_laplace(
            gpm, point=start | {k: np.reshape(v, gpm.shapes[k]) for k, v in point.items()}, optimize=False
        )


def hand_written_kernels(p, a, b):
    """The three products of EXPRESSION between scaled inputs, from their formulas."""
    r = np.subtract.outer(a, b)
    e = {name: np.exp(value) for name, value in p.items()}
    se = e["log_outputscale_SE"] ** 2 * np.exp(-0.5 * (r / e["log_lengthscale_SE"]) ** 2)
    lin = e["log_outputscale_LIN"] ** 2 * np.multiply.outer(a - p["location_LIN"], b - p["location_LIN"])
    angle = np.pi * r / e["log_period_PER"]
    per = e["log_outputscale_PER"] ** 2 * np.exp(-2 * np.sin(angle) ** 2 / e["log_lengthscale_PER"] ** 2)
    alpha = e["log_alpha_RQ"]
    rq = e["log_outputscale_RQ"] ** 2 * (1 + (r / e["log_lengthscale_RQ"]) ** 2 / (2 * alpha)) ** -alpha
    return {"SE * LIN": se * lin, "SE * PER": se * per, "RQ": rq}


def brute_force(p, centred):
    """Condition the joint Gaussian of all components, at the data and at new points, on y."""
    low, width, m, s = X.min(), np.ptp(X), Y.mean(), Y.std()
    points = (np.concatenate([X, NEW]) - low) / width
    p = {name: float(np.squeeze(value)) for name, value in p.items()}
    kernels = hand_written_kernels(p, points, points)
    n, k = len(X), len(points)
    joint = block_diag(*kernels.values())
    to_y = np.hstack([np.eye(n, k)] * len(kernels))
    G = to_y @ joint @ to_y.T + np.exp(2 * p["log_noise"]) * np.eye(n)
    gain = joint @ to_y.T @ np.linalg.inv(G)
    mean = gain @ ((Y - m) / s - p["mean_constant"])
    covariance = joint - gain @ to_y @ joint
    at_new = np.eye(k)[n:]
    if centred:
        at_new = at_new - np.r_[np.full(n, 1 / n), np.zeros(k - n)]
    at_new = block_diag(*[at_new] * len(kernels))
    means = s * (at_new @ mean).reshape(len(kernels), -1)
    variances = s**2 * np.diag(at_new @ covariance @ at_new.T).reshape(len(kernels), -1)
    total = np.kron(np.ones(len(kernels)), np.eye(k)[n:])
    return dict(zip(kernels, zip(means, variances, strict=True), strict=True)), {
        "mean": m + s * (p["mean_constant"] + total @ mean),
        "variance": s**2 * np.diag(total @ covariance @ total.T),
    }


@pytest.fixture(scope="module")
def fit():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pymc_active.laplace.fit.find_problems", lambda *args: [])
        return pma.fit_laplace(model(), point=POINT, optimize=False)


@pytest.fixture(scope="module")
def mode():
    return pma.fit_laplace(model("LIN + PER"), start=None, **QUICK)


@pytest.mark.parametrize("centred", [False, True])
def test_components_are_the_conditional_of_the_joint_gaussian(fit, centred):
    result = decompose(fit, NEW[:, None], method="map", centred=centred).components
    expected, whole = brute_force(POINT, centred)
    assert set(result.component.to_numpy()) == set(expected)
    for name, (mean, variance) in expected.items():
        assert_allclose(result["mean"].sel(component=name), mean, rtol=1e-7, atol=1e-8)
        assert_allclose(result.variance.sel(component=name), variance, rtol=1e-6, atol=1e-8)
    assert_allclose(result.f_mean, whole["mean"], rtol=1e-9)
    assert_allclose(result.f_variance, whole["variance"], rtol=1e-6)


@pytest.mark.parametrize("method", ["map", "bbq", "mgp", "draws"])
@pytest.mark.parametrize("centred", [False, True])
def test_components_and_mean_function_add_up_to_the_posterior_mean(mode, method, centred):
    result = decompose(mode, NEW[:, None], method=method, centred=centred, draws=8, random_seed=0).components
    assert_allclose(result["mean"].sum("component") + result.mean_function, result.f_mean, rtol=1e-12)
    if method != "draws":
        expected = pma.predict(mode, NEW[:, None], method=method)
        assert_allclose(result.f_mean, expected.f_mean, rtol=1e-10)
        assert_allclose(result.f_variance, expected.f_variance, rtol=1e-10)
    if method == "map":
        constant = Y.mean() + Y.std() * mode.point["mean_constant"]
        if centred:
            constant = constant + sum(
                decompose(mode, X[:, None], method="map", centred=False).components["mean"].mean("point")
            )
        assert_allclose(result.mean_function, constant, rtol=1e-8)


@pytest.mark.parametrize("centred", [False, True])
def test_uncertain_hyperparameters_widen_bands_by_the_delta_method(fit, centred):
    """The gradients of each mean and variance by central differences of the brute-force route."""
    step = 1e-5
    gradients = []
    for i in range(len(fit.theta)):
        ends = []
        for sign in (1, -1):
            moved = fit.theta.copy()
            moved[i] += sign * step
            ends.append(brute_force(fit.gpm.unflatten(moved), centred)[0])
        gradients.append({name: np.subtract(ends[0][name], ends[1][name]) / (2 * step) for name in ends[0]})
    bbq, mgp = (decompose(fit, NEW[:, None], method=m, centred=centred).components for m in ("bbq", "mgp"))
    for name, (_, variance) in brute_force(POINT, centred)[0].items():
        J = np.stack([gradient[name] for gradient in gradients])
        of_mean, of_variance = np.einsum("akm,ab,bkm->km", J, fit.covariance, J)
        assert_allclose(bbq.variance.sel(component=name), variance + of_mean, rtol=2e-5)
        expected = 4 / 3 * variance + of_mean + of_variance / (3 * variance)
        assert_allclose(mgp.variance.sel(component=name), expected, rtol=2e-5)


def test_draws_give_the_moments_of_the_mixture(fit):
    result = decompose(fit, NEW[:, None], method="draws", draws=6, random_seed=3).components
    thetas = particles(fit.expansions[:1], 6, np.random.default_rng(3))
    each = [brute_force(fit.gpm.unflatten(theta), True)[0] for theta in thetas]
    for name in each[0]:
        means, variances = (np.stack([one[name][i] for one in each]) for i in (0, 1))
        assert_allclose(result["mean"].sel(component=name), means.mean(0), rtol=1e-6, atol=1e-7)
        assert_allclose(result.variance.sel(component=name), variances.mean(0) + means.var(0), rtol=1e-5, atol=1e-7)


def test_products_that_were_multiplied_out_add_up_to_the_kernel():
    gpm = model("(SE + LIN) * (PER + RQ * SE) + LIN")
    posterior = gpm.posterior()
    theta = 0.3 * np.random.default_rng(0).normal(size=gpm.n_parameters)
    points = np.linspace(0, 1, 7)[:, None]
    terms = additive_terms(posterior.kernel)
    assert len(terms) == 5
    total = sum(np.prod([leaf.at(theta, points).K for leaf in term], axis=0) for term in terms)
    assert_allclose(total, posterior.kernel.at(theta, points).K, rtol=1e-12)


def test_repeated_kernels_are_numbered_as_their_parameters_are():
    fit = fit_at("(SE + LIN) * SE")
    assert "log_outputscale_SE_2" in fit.gpm.shapes
    assert set(decompose(fit, NEW[:, None]).components.component.to_numpy()) == {"SE_1 * SE_2", "LIN * SE_2"}


def test_shares_and_the_residual_add_up_to_one(mode):
    result = decompose(mode)
    residual = Y - pma.predict(mode, X[:, None], method="map").f_mean.to_numpy()
    assert_allclose(result.residual_share, np.cov(residual, Y)[0, 1] / np.var(Y, ddof=1), atol=1e-12)
    assert_allclose(result.components.residual, residual, atol=1e-9)
    shares = result.components.share.to_numpy()
    assert (np.diff(shares) <= 0).all()
    assert_allclose(shares.sum() + result.residual_share, 1, rtol=1e-12)
    # The mean is constant.
    assert_allclose(result.mean_function_share, 0, atol=1e-12)
    assert "Added to these: the mean function and the components' averages over the data, a constant" in repr(result)


@pytest.mark.parametrize("centred", [False, True])
def test_what_the_mean_function_explains_is_not_left_to_noise(centred):
    """A steep line as the mean, and a wave that is small beside it."""
    rng = np.random.default_rng(0)
    t = np.linspace(0, 12, 50)
    y = 0.5 * t + np.sin(2 * np.pi * t / 3) + 0.2 * rng.normal(size=50)
    gpm = pma.composite_gp(t[:, None], y, "PER", mean="linear", x_scale="unit", y_scale="standardize")
    fit = pma.fit_laplace(gpm, **QUICK)
    result = decompose(fit, centred=centred)
    fitted = pma.predict(fit, t[:, None], method="map").f_mean.to_numpy()
    assert_allclose(result.residual_share, np.cov(y - fitted, y)[0, 1] / np.var(y, ddof=1), rtol=1e-9)
    slope, intercept = fit.point["mean_slope"][0], fit.point["mean_constant"]
    line = y.mean() + y.std() * (intercept + slope * t / 12)
    assert_allclose(result.mean_function_share, np.cov(line, y)[0, 1] / np.var(y, ddof=1), rtol=1e-9)
    assert_allclose(float(result.components.share.sum()) + result.mean_function_share + result.residual_share, 1)
    assert result.residual_share < 0.02 < 0.8 < result.mean_function_share
    # A single point says nothing about whether it varies.
    for shown in (result, decompose(fit, [[3.0]], centred=centred)):
        assert f"here ({100 * result.mean_function_share:.0f} % of the variance)." in repr(shown)
        assert f"({100 * result.mean_function_share:.0f} % of the variance)" in shown._repr_html_()


def test_default_points_reach_a_tenth_beyond_the_data(mode):
    grid = decompose(mode).X_new
    assert_allclose(grid[[0, -1], 0], [X.min() - 0.1 * np.ptp(X), X.max() + 0.1 * np.ptp(X)])


def test_numbers_in_words_have_the_laplace_uncertainty(mode):
    """Natural scale, user's units: period ± period times the sd of its logarithm."""
    result = decompose(mode, unit="years", y_unit="ppm")
    i = mode.labels.index("log_period_PER")
    period = np.exp(mode.theta[i]) * np.ptp(X)
    sd = period * np.sqrt(mode.covariance[i, i])
    [periodic] = [text for text in result.descriptions if "periodic" in text]
    assert f"A periodic function with period {plus_minus(period, sd)} years" in periodic
    [linear] = [text for text in result.descriptions if "linear" in text]
    line = decompose(mode, [[1990.0], [1991.0]], method="map").components["mean"].sel(component="LIN")
    # Centred at the data, the line is a slope far away from them.
    far = decompose(mode, [[1e6]]).components["variance"].sel(component="LIN").item()
    slope = plus_minus(float(line[1] - line[0]), np.sqrt(far) / (1e6 - X.mean()))
    assert f"A linear function, rising by {slope} ppm per year (" in linear
    assert linear.endswith("ppm)")
    noise = np.exp(mode.point["log_noise"]) * Y.std()
    assert result.noise.startswith(plus_minus(noise, noise * np.sqrt(mode.covariance[-1, -1])))


def test_columns_name_their_inputs_and_units():
    frame = pd.DataFrame({"time": X, "dose": RNG.uniform(size=30)})
    gpm = pma.composite_gp(frame, Y, "PER[0] + SE[1] + LIN", x_scale="unit", y_scale="standardize")
    fit = pma.fit_laplace(gpm, **QUICK)
    result = decompose(fit, unit={"time": "years"})
    texts = dict(zip(result.components.component.to_numpy(), result.descriptions, strict=True))
    assert "periodic function of time with period" in texts["PER[0]"]
    assert " years" in texts["PER[0]"]
    assert "function of dose with a typical lengthscale" in texts["SE[1]"]
    assert "linear function of time and dose" in texts["LIN"]
    assert_allclose(result.X_new, frame)
    assert pma.plots.plot(result, input=1)[-1].get_xlabel() == "dose"


def test_pools_keep_their_labels_and_ard_models_have_one_component():
    pool = pd.DataFrame({"a": NEW, "b": NEW}, index=list("abcdefghi"))
    inputs = np.column_stack([X, X**2 / 2000])
    fit = pma.fit_laplace(pma.ard_gp(inputs, Y, x_scale="unit", y_scale="standardize"), **QUICK)
    result = decompose(fit, pool)
    assert list(result.components.point.to_numpy()) == list("abcdefghi")
    assert result.components.component.item() == "SE"


def test_it_reads_like_a_report(mode):
    result = decompose(mode, unit="years")
    lines = repr(result).splitlines()
    assert lines[0] == "<Decomposition of composite_gp(LIN + PER)>"
    assert lines[1].startswith(f"1. {result.components.component.to_numpy()[0]}: A ")
    assert "Noise: sd " in lines[-1]
    for text in result.descriptions:
        assert text in result._repr_html_()


def test_where_y_does_not_vary_there_are_no_shares():
    gpm = pma.composite_gp(X[:, None], np.full(len(X), 3.0), "SE + LIN", priors={"log_noise": -2.0}, x_scale="unit")
    parts = decompose(pma.fit_laplace(gpm, n_restarts=2, random_seed=1, progressbar=False))
    assert parts.components.share.isnull().all()
    assert "an undefined part of the variance is left" in repr(parts)
    assert "nan" not in repr(parts)


def test_what_cannot_be_taken_apart_is_refused(mode):
    with pytest.raises(TypeError, match="takes a fit of one model"):
        decompose(mode.gpm)
    embedded = pma.embedding_gp(np.column_stack([X, X**2]), Y, n_components=1, x_scale="unit", y_scale="standardize")
    point = {"R": np.ones((1, 2)), "log_lengthscale": 0.0, "log_outputscale": 0.0, "log_noise": -2.0}
    with pytest.raises(ValueError, match=r"cannot take the kernel of .* apart"):
        decompose(pma.fit_laplace(embedded, point=point, optimize=False))
    # Constant kernels: either model is compiled, which takes the longer the longer its kernel.
    free = model("C", priors={"log_noise": pm.Logistic.dist(-2, 1)})
    point = {name: np.zeros(shape) for name, shape in free.shapes.items()}
    with pytest.raises(ValueError, match=r"cannot take the kernel of .* apart"):
        decompose(pma.fit_laplace(free, point=point, optimize=False))
    own = model("C", mean=pm.gp.mean.Constant(50.0))
    point = {name: np.zeros(shape) for name, shape in own.shapes.items()}
    with pytest.raises(ValueError, match="without a mean function of your own"):
        decompose(pma.fit_laplace(own, point=point, optimize=False))
    with pytest.raises(ValueError, match="method must be one of bbq, draws, map, mgp; got 'modes'"):
        decompose(mode, method="modes")
    with pytest.raises(ValueError, match="unit must be text"):
        decompose(mode, unit={"hours": "h"})
    two = pma.ard_gp(np.column_stack([X, X**2]), Y, x_scale="unit", y_scale="standardize")
    with pytest.raises(ValueError, match=r"with 2 inputs, pass unit as a dict by input, such as \{0: 'years'\}"):
        decompose(pma.fit_laplace(two, **QUICK), unit="years")
    with pytest.raises(ValueError, match="must have 1 columns"):
        decompose(mode, np.ones((3, 2)))
    with pytest.raises(ValueError, match="draws must be a positive whole number; got -3"):
        decompose(mode, method="draws", draws=-3)


def test_of_particles_it_tells_where_most_of_the_posterior_lies():
    """A narrow mode of a short period is nearly as high here, and holds little of the posterior."""
    rng = np.random.default_rng(0)
    x = np.linspace(0, 4, 30)[:, None]
    y = x[:, 0] + np.sin(2 * np.pi * x[:, 0]) + 0.1 * rng.normal(size=30)
    gpm = pma.composite_gp(x, y, "LIN + PER", x_scale="unit", y_scale="standardize")
    fit = pma.fit(gpm, random_seed=1, progressbar=False)
    told = pma.decompose(fit, x, unit="years")
    [period] = [float(re.search(r"period ([\d.]+)", text)[1]) for text in told.descriptions if "period " in text]
    periods, weights = gpm.constrain(fit.ensemble.thetas)["period_PER"].ravel(), fit.ensemble.weights
    near = weights[np.abs(periods / period - 1) < 0.05].sum()
    assert near > 0.5
    assert_allclose(told.components.attrs["share_of_posterior"], near, atol=0.2)
    # With all of the posterior around one mode the whole function is what predict returns.
    one = pma.fit(pma.composite_gp(x, x[:, 0] + 0.1 * rng.normal(size=30), "LIN"), random_seed=1, progressbar=False)
    whole, predicted = pma.decompose(one, x, draws=1000), pma.predict(one, x)
    assert whole.components.attrs["share_of_posterior"] == pytest.approx(1)
    assert_allclose(whole.components.f_mean, predicted.f_mean)
    assert_allclose(whole.components.f_variance, predicted.f_variance)


def test_the_words_of_a_search_say_how_probable_they_are():
    x = np.linspace(0, 1, 20)
    y = np.random.default_rng(4).normal(size=20)
    settings = {"bases": ("LIN", "SE"), "depth": 1, "random_seed": 1, "progressbar": False}
    found = pma.search.compositional_kernel_search(x, y, **settings, fit_keywords={"n_restarts": 2, "population": 0})
    told, plain = decompose(found), decompose(found.best)
    best, probability = str(found.best.gpm.expression), found.table.probability.to_series()
    assert told.components.attrs["probability"] == probability[best]
    assert told.components.attrs["probability_of_noise"] == probability["C"]
    ours, noise = percent(probability[best]), percent(probability["C"])
    said = f"gives this kernel {ours} of the probability, and noise alone (C) {noise}."
    assert said in " ".join(str(told).split())
    assert told.descriptions == plain.descriptions
    assert "gives this kernel" not in str(plain)
    # A guess is called one before anything is told of it.
    for share, first in ((0.3, "Not sure: the search gives this kernel 30 %"), (0.6, "1. ")):
        told.components.attrs["probability"] = share
        assert str(told).splitlines()[1].startswith(first)
    # A search with a budget does not compare with noise.
    found = pma.search.compositional_kernel_search(x, y, **settings, budget=99, fit_keywords={"n_restarts": 1})
    assert "of the probability." in " ".join(str(decompose(found)).split())
