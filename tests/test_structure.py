"""Kernel search: what is found, counted, refused and survived."""

from dataclasses import replace

import numpy as np
import pymc as pm
import pytest
from numpy.testing import assert_allclose
from scipy.special import softmax
from scipy.stats import multivariate_normal

import pymc_active as pma
from pymc_active.kernels import parse
from pymc_active.kernels.expressions import base_kernels, is_redundant
from pymc_active.laplace.fitting import fit_laplace_models
from pymc_active.structure import fitted_kernels
from pymc_active.structure import kernel_search as structure
from pymc_active.structure.fitted_kernels import _count

RNG = np.random.default_rng(20261122)
X = np.sort(RNG.uniform(0, 10, size=30))[:, None]
Y = 1.5 * X[:, 0] + 3 * np.sin(2 * np.pi * X[:, 0] / 1.7) + 0.3 * RNG.normal(size=30)
QUICK = {"n_restarts": 2, "population": 0}
THOROUGH = {"n_restarts": 6, "population": 0}
SETTINGS = {"random_seed": 1, "progressbar": False, "fit_keywords": QUICK}


def idle(kernel):
    """Beside the constant mean, by default."""
    return is_redundant(kernel, beside_a_constant=True)


def search(**keywords):
    return pma.search.compositional_kernel_search(X, Y, **SETTINGS | keywords)


@pytest.fixture(scope="module")
def found():
    return search(bases=("LIN", "PER"), depth=2, fit_keywords=THOROUGH)


def test_the_structure_of_the_data_is_found(found):
    assert parse(found.best.gpm.description[len("composite_gp(") : -1]) == parse("LIN + PER")
    assert found.table.probability.sel(model=str(found.best.gpm.expression)) > 0.9
    with pytest.raises(TypeError, match=r"StructureSearch: take found\.best"):
        pma.predict(found, X)


def test_each_level_holds_the_neighbours_of_the_best_of_the_level_before(found):
    table = found.table
    first = table.model[table.level == 1].to_numpy()
    # At last, that there is nothing but noise.
    assert set(first) == {"LIN", "PER", "C"}
    first = first[first != "C"]
    best = max(first, key=lambda label: float(table.log_evidence.sel(model=label)))
    expected = {
        child for child in parse(best).neighbours(("LIN", "PER")) if str(child) not in first and not idle(child)
    }
    assert {parse(str(label)) for label in table.model[table.parent == best].to_numpy()} == expected
    assert set(table.level[table.parent == best].to_numpy()) == {2}


@pytest.mark.parametrize("depth", [1, pytest.param(2, marks=pytest.mark.nightly)])
def test_all_around_the_probable_kernels_is_fitted(depth):
    bases = ("LIN", "PER", "SE")
    result = search(bases=bases, depth=depth)
    probability = result.table.probability.to_series()
    fitted = {parse(label) for label in probability.index}
    probable = [parse(label) for label in probability.index[probability > 0.1]]
    near = {child for one in probable for child in [*one.neighbours(bases), *one.simpler(), *one.exchanged()]}
    assert {child for child in near if len(base_kernels(child)) <= depth and not idle(child)} <= fitted
    assert max(len(base_kernels(one)) for one in fitted) == depth


def test_the_table_holds_what_the_fits_say(found):
    table = found.table.sel(model=list(found.fits))
    assert_allclose(table.log_evidence, [fit.evidence.value for fit in found.fits.values()])
    is_sampled = np.array([fit.evidence.by == "importance" for fit in found.fits.values()])
    score = (table.log_evidence + table.log_prior).to_numpy()
    # At most thirty, which these are not.
    assert is_sampled[score > score.max() - 10].all()
    assert not is_sampled.all()
    best = found.best
    alone = pma.fit(best.gpm, random_seed=2, progressbar=False)
    assert abs(best.evidence.value - alone.evidence.value) < 4 * np.hypot(best.evidence.error, alone.evidence.error)
    # One posterior, also in what it predicts.
    assert len(best.ensemble) == len(alone.ensemble)
    new = np.linspace(0, 12, 30)[:, None]
    ours, own = (pma.predict(fit, new) for fit in (best, alone))
    assert_allclose(ours.f_mean, own.f_mean, atol=0.2 * float(np.sqrt(own.f_variance.max())))
    assert_allclose(np.log(ours.f_variance), np.log(own.f_variance), atol=0.3)
    # Each base kernel beyond the first costs a nat, and as many as there are to choose from.
    n_operators = [label.count("+") + label.count("*") for label in table.model.to_numpy()]
    assert max(n_operators) == 1
    assert_allclose(table.log_prior, -(1 + np.log(2)) * np.array(n_operators))
    assert_allclose(table.probability, softmax(score))
    for label, fit in found.fits.items():
        assert_allclose(table.log_posterior.sel(model=label), pma.find_modes(fit).log_posterior, rtol=0, atol=1e-8)
    assert float(found.table.log_evidence.max()) == float(table.log_evidence.sel(model=str(found.best.gpm.expression)))


@pytest.mark.parametrize("most", [pytest.param(30, marks=pytest.mark.nightly), 3])
def test_the_average_weighs_the_probable_fits(monkeypatch, most):
    """Those within ten nats, or the best two; noise leaves many kernels possible."""
    monkeypatch.setattr(structure, "MOST", most)
    monkeypatch.setattr(fitted_kernels, "MOST", most)
    y = np.random.default_rng(1).normal(size=30)
    keywords = {"bases": ("LIN", "PER"), "depth": 2, **SETTINGS}
    noise, series = (pma.search.compositional_kernel_search(X, values, **keywords) for values in (y, Y))
    for found, count in ((noise, min(most, 4)), (series, 2)):
        average, table = found.average, found.table.isel(model=~found.table.doubtful.to_numpy())
        score = (table.log_evidence + table.log_prior).to_series().sort_values(ascending=False)
        expected = set(score.index[score > score.max() - 10][:most]) | set(score.index[:2])
        assert set(average) == expected
        assert len(expected) >= count
        p = table.probability.sel(model=list(average))
        assert_allclose(average.weights, p / p.sum(), atol=1e-4)


def test_bic_is_the_likelihood_at_the_mode_with_a_penalty_for_each_parameter(found):
    [label] = [label for label in found.fits if parse(label) == parse("LIN + PER")]
    p = {name: float(np.squeeze(value)) for name, value in pma.find_modes(found.fits[label]).point.items()}
    x = (X[:, 0] - X.min()) / np.ptp(X)
    lin = np.exp(2 * p["log_outputscale_LIN"]) * np.multiply.outer(x - p["location_LIN"], x - p["location_LIN"])
    angle = np.pi * np.subtract.outer(x, x) / np.exp(p["log_period_PER"])
    per = np.exp(2 * p["log_outputscale_PER"] - 2 * np.sin(angle) ** 2 / np.exp(2 * p["log_lengthscale_PER"]))
    covariance = np.var(Y) * (lin + per + np.exp(2 * p["log_noise"]) * np.eye(30))
    log_likelihood = multivariate_normal(np.full(30, Y.mean() + Y.std() * p["mean_constant"]), covariance).logpdf(Y)
    assert_allclose(float(found.table.bic.sel(model=label)), -2 * log_likelihood + 7 * np.log(30), rtol=1e-8)


@pytest.mark.parametrize(
    ("expression", "redundant"),
    [("SE + PER", 0), ("SE * PER", 1), ("SE * (LIN + LIN * (PER + RQ))", 2), ("SE * PER * LIN", 2)],
)
def test_parameters_that_only_split_a_scale_are_not_counted(expression, redundant):
    """The likelihood's Hessian has just so many null directions."""
    gpm = pma.composite_gp(X, Y, expression, x_scale="unit", y_scale="standardize")
    theta = 0.1 * np.random.default_rng(0).normal(size=gpm.n_parameters)
    posterior = gpm.posterior()
    hessian = posterior.likelihood_hessian(posterior.state(theta))
    gradient = posterior.likelihood_gradient(posterior.state(theta))
    # Along a direction that changes nothing, exact derivatives vanish.
    basis = np.linalg.svd(np.vstack([hessian, gradient]))[2]
    n_null = sum(np.abs(np.vstack([hessian, gradient]) @ v).max() < 1e-7 for v in basis)
    assert n_null == redundant
    fit = pma.fit_laplace(gpm, start=gpm.unflatten(theta), n_restarts=0, population=0, progressbar=False)
    assert _count(fit) == gpm.n_parameters - redundant


def test_a_budget_ends_the_search():
    result = search(bases=("LIN", "PER", "SE"), depth=4, budget=5)
    assert result.table.sizes["model"] == 5
    assert result.stopped == "budget of 5 kernels used up"


def test_several_inputs_have_base_kernels_of_their_own():
    inputs = np.column_stack([X[:, 0], RNG.uniform(size=30)])
    result = pma.search.compositional_kernel_search(inputs, Y, bases=("SE",), depth=1, **SETTINGS)
    assert list(result.table.model.to_numpy()) == ["SE[0]", "SE[1]", "C"]
    assert str(result.best.gpm.expression) == "SE[0]"


def test_bounds_take_the_place_of_the_span_of_the_data():
    result = search(bases=("SE",), depth=1, bounds=[(0, 20)], fit_keywords={})
    own = pma.composite_gp(X, Y, "SE", y_scale="standardize", bounds=[(0, 20)])
    assert_allclose(result.fits["SE"].gpm.x_map(np.array([[0.0], [20.0]])), [[0.0], [1.0]])
    expected = pma.fit_laplace(own, random_seed=3, progressbar=False).log_evidence
    assert_allclose(pma.find_modes(result.fits["SE"]).log_evidence, expected, atol=1e-4)


def test_a_fit_that_fails_is_recorded_and_passed_over(monkeypatch):
    def broken(models, **keywords):
        if any("PER" in label for label in models):
            raise FloatingPointError("sines are out")
        return fit_laplace_models(models, **keywords)

    monkeypatch.setattr(fitted_kernels, "fit_laplace_models", broken)
    result = search(bases=("LIN", "PER", "SE"), depth=1)
    assert result.table.error.sel(model="PER") == "FloatingPointError: sines are out"
    assert "PER" not in result.fits
    assert np.isnan(result.table.log_evidence.sel(model="PER"))
    assert "PER" in repr(result)
    with pytest.raises(RuntimeError, match=r"all 1 fits failed.*sines are out"):
        search(bases=("PER",), depth=1)


def pretending(doubtful):
    """Fits as they are, but those of some kernels say that they did not converge."""

    def fits(models, **keywords):
        result = fit_laplace_models(models, **keywords)
        return {label: replace(fit, converged=label not in doubtful) for label, fit in result.items()}

    return fits


def test_a_doubtful_fit_never_wins_silently(monkeypatch, found):
    sound = found.table.isel(model=found.table.level.to_numpy() == 1).sortby("log_evidence", ascending=False)
    sound = list(sound.model.to_numpy())
    all_doubtful = "all fits within ten nats of the best are doubtful, for example {}: .* did not converge"
    monkeypatch.setattr(fitted_kernels, "fit_laplace_models", pretending({sound[0]}))
    # No other is within ten nats of it.
    with pytest.warns(UserWarning, match=all_doubtful.format(sound[0])):
        assert str(search(bases=("LIN", "PER"), depth=1).best.gpm.expression) == sound[0]
    with monkeypatch.context() as wider:
        wider.setattr(fitted_kernels, "FAR", 100.0)
        with pytest.warns(UserWarning, match="more probable .* because its fit is doubtful: .* did not converge"):
            assert str(search(bases=("LIN", "PER"), depth=1).best.gpm.expression) == sound[1]
    monkeypatch.setattr(fitted_kernels, "fit_laplace_models", pretending({"LIN", "SE", "C"}))
    with pytest.warns(UserWarning, match=all_doubtful.format("SE")):
        search(bases=("LIN", "SE"), depth=1)


@pytest.mark.nightly
def test_without_noise_a_kernel_that_explains_nothing_does_not_win():
    """All kernels that fit a parabola are doubtful; the constant one, 190 nats worse, is not."""
    x = np.linspace(0, 10, 30)
    with pytest.warns(pma.DoubtfulFitWarning, match="all fits within ten nats of the best are doubtful"):
        result = pma.search.compositional_kernel_search(
            x, (x - 5) ** 2 - 8, bases=("SE", "LIN"), depth=2, random_seed=1, progressbar=False
        )
    assert result.best.gpm.description != "composite_gp(C)"
    assert_allclose(result.predict([5.5]).f_mean, -7.75, atol=0.1)


def test_a_doubtful_fit_beside_failed_ones_predicts_by_itself(monkeypatch):
    def one(models, **keywords):
        if "PER" in models:
            raise RuntimeError("no luck")
        return pretending({"LIN"})(models, **keywords)

    monkeypatch.setattr(fitted_kernels, "fit_laplace_models", one)
    with pytest.warns(pma.DoubtfulFitWarning, match="all fits within ten nats of the best are doubtful"):
        result = search(bases=("LIN", "PER"), depth=1, budget=2)
    assert np.isfinite(result.predict(X[:3]).f_mean).all()
    with pytest.raises(ValueError, match="two"):
        _ = result.average


def test_a_kernel_without_a_finite_draw_is_passed_over(monkeypatch):
    own = pma.LaplaceFit.weighted_draws

    def fails(fit, *args):
        weighted = own(fit, *args)
        is_lost = str(fit.gpm.expression) == "LIN"
        return weighted._replace(log_weights=np.full(len(weighted.z), -np.inf)) if is_lost else weighted

    monkeypatch.setattr(pma.LaplaceFit, "weighted_draws", fails)
    result = search(bases=("LIN", "PER"), depth=1)
    assert bool(result.table.doubtful.sel(model="LIN"))
    assert float(result.table.probability.sel(model="LIN")) == 0
    assert str(result.best.gpm.expression) == "PER"


def test_an_interrupt_keeps_what_was_fitted(monkeypatch):
    calls = []

    def tired(models, **keywords):
        calls.append(models)
        if len(calls) > 1:
            raise KeyboardInterrupt
        return fit_laplace_models(models, **keywords)

    monkeypatch.setattr(fitted_kernels, "fit_laplace_models", tired)
    with pytest.warns(UserWarning, match="interrupted; the result holds the 2 fits"):
        result = search(bases=("LIN", "SE"), depth=3)
    assert set(result.fits) == {"LIN", "SE"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SE * SE", True),
        ("LIN * (SE * PER * SE)", True),
        ("LIN * (PER0 + C)", False),
        ("C * PER0", True),
        ("C + SE + C", True),
        ("SE * (SE + PER)", False),
        ("LIN * LIN", False),
        ("SE[0] * SE[1]", False),
        ("LIN + PER + LIN", False),
        ("LIN + LIN[0] + LIN", False),
        ("SE * (LIN + PER + LIN + LIN)", True),
        ("LIN0 + LIN0", True),
        ("LIN0 * LIN0 + SE + SE + SE", False),
    ],
)
def test_a_redundant_kernel_is_known(text, expected):
    assert is_redundant(parse(text)) is expected


@pytest.mark.parametrize("text", ["LIN + PER + LIN", "LIN + LIN", "(LIN + LIN) * PER"])
def test_a_constant_mean_and_one_line_make_every_line(text):
    """But not every line as a factor, to which the mean adds nothing."""
    assert idle(parse(text)) is (text != "(LIN + LIN) * PER")
    x = np.linspace(0, 1, 20)
    found = pma.search.compositional_kernel_search(x, 3 * x + 0.1 * RNG.normal(size=20), bases=("LIN",), **SETTINGS)
    assert "LIN + LIN" not in found.fits


def test_priors_reach_all_parameters_of_a_kind():
    given = {
        "log_period": pm.Normal.dist(-1.0, 0.5),
        "log_lengthscale_SE": pm.Normal.dist(-2.0, 0.25),
        "log_noise": -2.0,
    }
    given |= {"log_lengthscale_SE_2": pm.Normal.dist(0.0, 1.0)}
    gpm = pma.composite_gp(X, Y, "PER + PER + SE + SE", priors=given, x_scale="unit", y_scale="standardize")
    plain = pma.composite_gp(X, Y, "PER + PER + SE + SE", x_scale="unit", y_scale="standardize").posterior().prior
    prior = dict(zip(gpm.labels, zip(gpm.posterior().prior.mean, gpm.posterior().prior.sd, strict=True), strict=True))
    assert prior["log_period_PER_1"] == prior["log_period_PER_2"] == (-1.0, 0.5)
    assert prior["log_lengthscale_SE_1"] == (-2.0, 0.25)
    assert prior["log_lengthscale_SE_2"] == (0.0, 1.0)
    assert prior["log_lengthscale_PER_1"] == (np.log(2), np.sqrt(0.5))
    assert "log_noise" not in prior
    assert len(plain.mean) == len(prior) + 1
    # Each parameter has a variable of its own in the PyMC model.
    assert {rv.name for rv in gpm.model.free_RVs} == set(gpm.shapes)
