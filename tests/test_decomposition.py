"""Additive components against brute-force conditioning, and what is said of them."""

import re

import numpy as np
import pandas as pd
import pymc as pm
import pytest
import xarray as xr
from numpy.testing import assert_allclose
from scipy.linalg import block_diag

import pymc_active as pma
from pymc_active.structure.decompose import additive_terms, decompose, percent

RNG = np.random.default_rng(20261122)
X = np.sort(RNG.uniform(1990, 2002, size=30))
Y = 50 + 3 * (X - 1995) + 4 * np.sin(2 * np.pi * X / 1.7) * (1 + 0.1 * (X - 1990)) + 0.5 * RNG.normal(size=30)
NEW, WIDTH = np.linspace(1988, 2004, 9), np.ptp(X)
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
QUIET = {"random_seed": 1, "progressbar": False}


def model(expression=EXPRESSION, **keywords):
    return pma.composite_gp(X[:, None], Y, expression, x_scale="unit", y_scale="standardize", **keywords)


def known(expression, **point):
    """A fit whose hyperparameters are all known: zero, except for those given; lengths are in ranges of the data."""
    free = model(expression)
    priors = {name: np.zeros(shape) if shape else 0.0 for name, shape in free.shapes.items()}
    return pma.fit_laplace(model(expression, priors=priors | point), progressbar=False)


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
    return {"LIN * SE": se * lin, "PER * SE": se * per, "RQ": rq}


def brute_force(p):
    """Condition the joint Gaussian of all components, less their averages over the data, on y."""
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
    centred = block_diag(*[np.eye(k)[n:] - np.r_[np.full(n, 1 / n), np.zeros(k - n)]] * len(kernels))
    means = s * (centred @ mean).reshape(len(kernels), -1)
    variances = s**2 * np.diag(centred @ covariance @ centred.T).reshape(len(kernels), -1)
    return dict(zip(kernels, zip(means, variances, strict=True), strict=True))


def test_components_are_the_conditional_of_the_joint_gaussian():
    result = decompose(known(EXPRESSION, **POINT), NEW[:, None]).components
    expected = brute_force(POINT)
    assert set(result.component.to_numpy()) == set(expected)
    for name, (mean, variance) in expected.items():
        assert_allclose(result["mean"].sel(component=name), mean, rtol=1e-7, atol=1e-8)
        assert_allclose(result.variance.sel(component=name), variance, rtol=1e-6, atol=1e-8)


@pytest.fixture(scope="module")
def drawn():
    return pma.fit(model(), n_particles=32, **QUIET)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pymc_active.DoubtfulFitWarning")
def test_draws_give_the_moments_of_the_mixture(drawn):
    result = decompose(drawn, NEW[:, None], draws=8).components
    ensemble = drawn.ensemble_by("draws", 8, 0)
    each = [brute_force(drawn.gpm.unflatten(theta)) for theta in ensemble.thetas]
    for name in each[0]:
        means, variances = (np.stack([one[name][i] for one in each]) for i in (0, 1))
        mean = ensemble.weights @ means
        assert_allclose(result["mean"].sel(component=name), mean, rtol=1e-6, atol=1e-7)
        expected = ensemble.weights @ (variances + (means - mean) ** 2)
        assert_allclose(result.variance.sel(component=name), expected, rtol=1e-5, atol=1e-7)
    whole = pma.predict(ensemble, NEW[:, None])
    assert_allclose(result["mean"].sum("component") + result.mean_function, whole.f_mean, rtol=1e-10)
    assert_allclose(result.f_variance, whole.f_variance)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pymc_active.DoubtfulFitWarning")
def test_numbers_in_words_are_those_of_the_posterior(drawn):
    told = decompose(drawn, draws=32, unit="years")
    ensemble = drawn.ensemble_by("draws", 32, 0)
    periods = drawn.gpm.constrain(ensemble.thetas)["period_PER"].ravel()
    [said] = re.findall(r"period ([\d.]+) (?:± [\d.]+|\([\d.]+ to [\d.]+\)) years", " ".join(told.descriptions))
    median = np.quantile(periods, 0.5, weights=ensemble.weights, method="inverted_cdf")
    assert_allclose(float(said), median, rtol=0.06)


def test_a_number_of_two_modes_is_told_by_its_interval():
    """Months tell a period of 12 months from one of 12 / 11 by the prior alone."""
    x = np.arange(36.0)
    y = 0.1 * x + np.sin(2 * np.pi * x / 12) + 0.1 * np.random.default_rng(0).normal(size=36)
    fit = pma.fit(pma.composite_gp(x, y, "LIN + PER", bounds=[(0, 36)]), random_seed=1, progressbar=False)
    assert "with period 12 (1.1 to 12) months" in decompose(fit, unit="months").descriptions[1]


def test_products_that_were_multiplied_out_add_up_to_the_kernel():
    gpm = model("(SE + LIN) * (PER + RQ * SE) + LIN")
    posterior = gpm.posterior()
    theta = 0.3 * np.random.default_rng(0).normal(size=gpm.n_parameters)
    points = np.linspace(0, 1, 7)[:, None]
    terms = additive_terms(posterior.kernel)
    assert len(terms) == 5
    total = sum(np.prod([leaf.at(theta, points).K for leaf in term], axis=0) for term in terms)
    assert_allclose(total, posterior.kernel.at(theta, points).K, rtol=1e-12)


def test_like_terms_have_their_order_in_each_draw():
    """The same decomposition, whichever of two lengthscales comes first."""
    there, back = (
        decompose(
            known("SE + SE", log_lengthscale_SE_1=one, log_lengthscale_SE_2=other, log_noise=-2.0), NEW[:, None]
        ).components.sortby("component")
        for one, other in ((-1.0, -3.0), (-3.0, -1.0))
    )
    assert_allclose(there["mean"], back["mean"], atol=1e-9)
    assert there.description.to_numpy().tolist() == back.description.to_numpy().tolist()
    assert (
        there.description.sel(component="SE_1")
        .item()
        .startswith(f"A smooth function with lengthscale {np.exp(-1) * WIDTH:.4g}")
    )


def test_shares_and_the_residual_add_up_to_one():
    fit = known("LIN + PER", log_period_PER=np.log(1.7 / np.ptp(X)), log_noise=-2.0)
    result = decompose(fit)
    residual = Y - pma.predict(fit, X[:, None]).f_mean.to_numpy()
    assert_allclose(result.residual_share, np.cov(residual, Y)[0, 1] / np.var(Y, ddof=1), atol=1e-12)
    assert_allclose(result.components.residual, residual, atol=1e-9)
    shares = result.components.share.to_numpy()
    assert (np.diff(shares) <= 0).all()
    assert_allclose(shares.sum() + result.residual_share, 1, rtol=1e-12)
    grid = result.X_new
    assert_allclose(grid[[0, -1], 0], [X.min() - 0.1 * np.ptp(X), X.max() + 0.1 * np.ptp(X)])
    lines = repr(result).splitlines()
    assert lines[0] == "<Decomposition of composite_gp(LIN + PER)>"
    assert lines[1].startswith(f"1. {result.components.component.to_numpy()[0]}: A ")
    assert "Noise: sd " in lines[-1]
    for text in result.descriptions:
        assert text in result._repr_html_()


# The expression, parameters that are not zero, and how its only component is told.
SHORT, PLACED = f"{np.exp(-2) * WIDTH:.4g}", {"location_STEP": 0.5, "log_width_STEP": -5.0}
WORDS = [
    ("LIN", {}, "A linear function"),
    ("LIN0", {}, "A linear function"),
    ("SE", {"log_lengthscale_SE": -2.0}, f"A smooth function with lengthscale {SHORT}"),
    ("MAT12", {"log_lengthscale_MAT12": -2.0}, f"A rough function with lengthscale {SHORT}"),
    ("RQ", {}, f"A function that varies on many scales around {WIDTH:.4g}"),
    ("PER", {"log_period_PER": -2.0}, f"A periodic function with period {SHORT}"),
    (
        "PER0 * LIN",
        {"log_period_PER0": -2.0},
        f"A linear function, times a periodic function with period {SHORT}",
    ),
    ("STEP", PLACED, "A step at 1996"),
    ("SE * STEP", PLACED, f"A smooth function with lengthscale {WIDTH:.4g}, times a step at 1996"),
    ("C", {}, "A constant"),
]


@pytest.mark.parametrize(("expression", "point", "words"), WORDS, ids=[f"{e} {list(p)}" for e, p, _ in WORDS])
def test_a_kernel_is_one_phrase(expression, point, words):
    [text] = decompose(known(expression, **point), [[1995.0]]).descriptions
    assert re.fullmatch(re.escape(words) + r" \(.* of the variance\)", text), text


def test_columns_name_their_inputs_and_units():
    frame = pd.DataFrame({"time": X, "dose": RNG.uniform(size=30)})
    gpm = pma.composite_gp(frame, Y, "PER[0] + SE[1] + LIN", x_scale="unit", y_scale="standardize")
    fit = pma.fit_laplace(gpm, n_restarts=2, population=0, **QUIET)
    result = decompose(fit, unit={"time": "years"}, draws=4)
    texts = dict(zip(result.components.component.to_numpy(), result.descriptions, strict=True))
    assert re.match(r"A periodic function of time with period .* years \(", texts["PER[0]"])
    assert re.match(r"A smooth function of dose with lengthscale .* \(", texts["SE[1]"])
    assert texts["LIN"].startswith("A linear function of time and dose (")
    assert_allclose(result.X_new, frame)
    assert pma.plots.plot(result, input=1)[-1].get_xlabel() == "dose"


def test_pools_keep_their_labels_and_ard_models_have_one_component():
    pool = pd.DataFrame({"a": NEW, "b": NEW}, index=list("abcdefghi"))
    inputs = np.column_stack([X, X**2 / 2000])
    gpm = pma.ard_gp(inputs, Y, x_scale="unit", y_scale="standardize")
    result = decompose(pma.fit_laplace(gpm, n_restarts=2, population=0, **QUIET), pool, draws=4)
    assert list(result.components.point.to_numpy()) == list("abcdefghi")
    assert result.components.component.item() == "SE"


def test_where_y_does_not_vary_there_are_no_shares():
    gpm = pma.composite_gp(X[:, None], np.full(len(X), 3.0), "SE + LIN", priors={"log_noise": -2.0}, x_scale="unit")
    parts = decompose(pma.fit_laplace(gpm, n_restarts=2, **QUIET), draws=4)
    assert parts.components.share.isnull().all()
    assert "an undefined part of the variance is left" in repr(parts)
    assert "nan" not in repr(parts)


@pytest.mark.slow
def test_what_cannot_be_taken_apart_is_refused():
    fit = known("LIN")
    with pytest.raises(TypeError, match="takes a fit of one model"):
        decompose(fit.gpm)
    embedded = pma.embedding_gp(np.column_stack([X, X**2]), Y, n_components=1, x_scale="unit", y_scale="standardize")
    point = {"R": np.ones((1, 2)), "log_lengthscale": 0.0, "log_outputscale": 0.0, "log_noise": -2.0}
    with pytest.raises(ValueError, match=r"cannot take the kernel of .* apart"):
        decompose(pma.fit_laplace(embedded, point=point, optimize=False))
    # A constant kernel: the model is compiled, which takes the longer the longer its kernel.
    own = model("C", mean=pm.gp.mean.Constant(50.0))
    point = {name: np.zeros(shape) for name, shape in own.shapes.items()}
    with pytest.raises(ValueError, match="without a mean function of your own"):
        decompose(pma.fit_laplace(own, point=point, optimize=False))
    with pytest.raises(ValueError, match="unit must be text"):
        decompose(fit, unit={"hours": "h"})
    two = pma.ard_gp(np.column_stack([X, X**2]), Y, x_scale="unit", y_scale="standardize")
    with pytest.raises(ValueError, match=r"a dict by input, such as \{0: 'years'\}"):
        decompose(pma.fit_laplace(two, n_restarts=1, population=0, **QUIET), unit="years")
    with pytest.raises(ValueError, match="must have 1 columns"):
        decompose(fit, np.ones((3, 2)))


def test_shares_are_told_to_two_digits():
    said = [percent(share) for share in (0.94321, 0.0123, -0.0004, -0.25, np.nan)]
    assert said == ["94 %", "1.2 %", "-0.04 %", "-25 %", "an undefined part"]


def test_replicates_change_nothing(monkeypatch):
    """Rows that stand for several measurements, and the same measurements one by one."""
    x, rng = np.repeat(np.linspace(0, 1, 12), np.arange(12) % 5 + 3), np.random.default_rng(3)
    y = np.sin(6 * x) + x + 0.2 * rng.normal(size=len(x))
    priors = {"log_lengthscale_SE": -1.0, "log_outputscale_SE": 0.0, "location_LIN": 0.0, "log_outputscale_LIN": 0.0}

    def found():
        gpm = pma.composite_gp(x, y, "SE + LIN", priors=priors | {"mean_constant": 0.0, "log_noise": -1.5})
        return decompose(pma.fit_laplace(gpm, progressbar=False), NEW[:, None] / 2004), len(gpm.posterior().y)

    (together, n_rows), _ = found(), monkeypatch.setattr("pymc_active.posterior.measured._FEW", 10**6)
    (apart, n_all) = found()
    assert (n_rows, n_all) == (12, len(x))
    xr.testing.assert_allclose(together.components, apart.components, rtol=1e-8)
    assert together.descriptions == apart.descriptions
