"""What results look like at a prompt and in a notebook: short, escaped, with the facts, and without any fitting."""

from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pymc as pm
import pytest

import pymc_active as pma
from pymc_active.support.numbers import coordinate
from pymc_active.support.summaries import Summary

RNG = np.random.default_rng(20260401)
NAMES = ["heat <°C>", "acid & salt", "time"]
X = pd.DataFrame(RNG.uniform(0, 10, size=(14, 3)), columns=NAMES)
Y = 50 + 10 * np.sin(0.5 * X["time"].to_numpy()) + 0.3 * RNG.normal(size=14)
QUICK = {"n_restarts": 2, "population": 0, "random_seed": 1, "progressbar": False}
SCALES = {"bandwidth": 0.5, "signal_variance": 1.0, "noise_variance": 0.01}


def text_of(result):
    """What a reader sees; raises unless the HTML is well-formed, every < and & in it escaped."""
    html = result._repr_html_()
    assert html.startswith("<div>")
    assert html.endswith("</div>")
    return " ".join(" ".join(ElementTree.fromstring(html).itertext()).split())


def model(**keywords):
    return pma.ard_gp(X, Y, x_scale=(0, 10), y_scale=(50, 10), **keywords)


@pytest.fixture(scope="module")
def fit():
    return pma.fit_laplace(model(), **QUICK)


def waves(Z):
    return 2 * np.sin(5 * Z[:, 3]) * np.cos(4 * Z[:, 17]) + 0.1 * np.cos(1e4 * Z.sum(1))


@pytest.fixture(scope="module")
def found():
    return pma.active.hds(waves, 32, **SCALES, random_seed=1)


def test_a_summary_escapes_what_it_is_given():
    table = pd.DataFrame({"<b>": ["&"]}, index=["i<"])
    html = Summary("<i>", {"a&b": "<script>", "left out": None}, [table], ["x < y"]).html()
    assert "<script>" not in html
    shown = " ".join(ElementTree.fromstring(html).itertext())
    for text in ("<i>", "a&b", "<script>", "<b>", "i<", "x < y"):
        assert text in shown
    assert "left out" not in shown


def test_a_long_table_says_how_much_more_there_is():
    summary = Summary("t", tables=[pd.DataFrame({"a": range(40)})])
    for shown in (" ".join(ElementTree.fromstring(summary.html()).itertext()), summary.text()):
        assert "and 28 more" in shown
        assert "39" not in shown


def test_a_model_shows_its_data_and_parameters():
    gpm = model()
    shown = text_of(gpm)
    assert not gpm.is_made
    for text in ("ard_gp(ExpQuad)", "14 points, 3 input(s)", *NAMES, "log_lengthscale (3)", "log_noise"):
        assert text in shown


def test_a_fit_shows_parameters_in_the_users_units(fit):
    shown = text_of(fit)
    for text in ("14 points", f"{fit.log_evidence:.2f} nats", "lengthscale[heat <°C>]", "89 % interval"):
        assert text in shown
    assert "log_lengthscale" not in shown


def test_any_fit_shows_quantiles_of_its_draws(fit):
    for one in (fit, pma.fit_smc(model(), n_particles=64, random_seed=1, progressbar=False)):
        [table] = one._summary().tables
        drawn = one.gpm.constrain(one.draw(500, 0))
        for row, values in (("noise", drawn["noise"]), ("lengthscale[time]", drawn["lengthscale"][:, 2])):
            low, middle, high = np.quantile(values, [0.055, 0.5, 0.945])
            assert table.loc[row].tolist() == [f"{middle:.4g}", f"{values.std():.2g}", f"{low:.3g} to {high:.3g}"]
        assert f"{np.median(drawn['noise']):.4g}" in text_of(one)


def test_whatever_a_user_adds_is_shown():
    """Also what is no number, or none of some draws, without a warning."""
    gpm = model()
    with gpm.model:
        scale = gpm.model["outputscale"]
        pm.Deterministic("is_large", scale > 1)
        pm.Deterministic("log_of_less", pm.math.log(scale - np.float64(1e6)))
    [table] = pma.fit_laplace(gpm, **QUICK)._summary().tables
    assert set(table.loc["is_large", "89 % interval"].split(" to ")) <= {"0", "1", "fixed"}
    assert table.loc["log_of_less"].tolist() == ["nan", "nan", "nan to nan"]


def test_fixed_parameters_have_no_uncertainty():
    fit = pma.fit_laplace(model(priors={"log_noise": np.log(0.03)}), **QUICK)
    [table] = fit._summary().tables
    assert table.loc["noise"].tolist() == ["0.3", "0", "fixed"]


@pytest.mark.slow
def test_parameters_of_the_users_own_model():
    t = np.linspace(0, 6, 8)
    with pm.Model() as own:
        scale, shift = pm.HalfNormal("eta", 2), pm.Normal("shift", 0, 1)
        gp = pm.gp.Marginal(mean_func=pm.gp.mean.Constant(shift), cov_func=scale**2 * pm.gp.cov.Matern52(1, ls=2.0))
        gp.marginal_likelihood("y", X=pm.Data("X", t[:, None]), y=pm.Data("y_data", np.sin(t)), sigma=0.1)
    point = {"eta_log__": 0.2, "shift": 0.1}
    fit = pma.fit_laplace(pma.from_marginal(gp, "y", model=own), point=point, optimize=False)
    [table] = fit._summary().tables
    assert set(table.index) == {"eta", "shift"}
    # A positive one, and one that can have either sign.
    assert [float(table["89 % interval"][name].split(" to ")[0]) < 0 for name in ("eta", "shift")] == [False, True]


def test_doubts_are_told_in_words():
    rng = np.random.default_rng(0)
    gpm = pma.embedding_gp(rng.normal(size=(6, 10)), rng.normal(size=6), n_components=2)
    with pytest.warns(UserWarning, match="doubtful"):
        doubtful = pma.fit_laplace(gpm, **QUICK)
    shown = text_of(doubtful)
    for problem in doubtful.diagnostics["warnings"]:
        assert f"Doubtful: {problem}." in shown


def test_a_mode_is_told_without_its_numbers(fit):
    assert repr(fit.modes[0]).endswith("point of log_lengthscale[3], log_outputscale, log_noise>")


def test_a_learner_is_shown_without_being_fitted():
    pool = pd.DataFrame(RNG.uniform(0, 10, size=(20, 3)), columns=NAMES)
    learner = pma.active.Learner(model(), criterion="random", pool=pool)
    for text in ("function", "random", "points 14", "told after the start 0", "20 left in the pool"):
        assert text in text_of(learner)
    x = learner.ask(2)
    learner.tell(x[:1], 61.25)
    for text in ("points 15", "told after the start 1", "asked and not told yet 1", "heat <°C>", "61.25"):
        assert text in text_of(learner)
    # A fit is named as soon as there is one.
    assert "LaplaceFit" not in text_of(learner)
    assert type(learner.fit).__name__ in text_of(learner)


def test_a_learner_of_several_models_is_shown_without_being_fitted():
    models = {"a & b": model(), "line": model(mean="linear")}
    learner = pma.active.Learner(models, criterion="random", bounds=[(0, 10)] * 3)
    x = learner.ask()
    learner.tell(x, 50.0)
    assert "points 15 told after the start 1" in text_of(learner)
    assert "ModelAverage" not in text_of(learner)


def test_an_average_shows_its_models(fit):
    average = pma.ModelAverage({"a < b": fit, "line & noise": pma.fit_laplace(model(mean="linear"), **QUICK)})
    shown = text_of(average)
    for text in ("2 models, 14 points", "a < b", "line & noise", f"{average.probability.values[0]:.4f}"):
        assert text in shown


def test_an_optimum_shows_the_place_and_how_sure_it_is():
    pool = pd.DataFrame(RNG.uniform(0, 10, size=(30, 3)), columns=NAMES, index=[f"run <{i}>" for i in range(30)])
    optimum = pma.active.Learner(model(), learn="maximum", pool=pool).optimum(30)
    shown = text_of(optimum)
    for text in (*NAMES, f"{optimum.f_mean:.4g}", optimum.x.index[0], "expected regret", "30 sample paths"):
        assert text in shown


def test_coordinates_are_told_apart():
    """As many digits as their range needs, and a pool's rows as the user wrote them."""
    assert [coordinate(5412135.04, 600), coordinate(0.00123, 0.002), coordinate(-1e-7, 1)] == [
        "5412135",
        "0.00123",
        "0",
    ]
    assert [coordinate(3e-9, 1e-8), coordinate(1e20, 1e20), coordinate(123456.7, 1e6)] == ["3e-09", "1e+20", "123457"]
    assert coordinate(5412135.25) == "5412135.25"
    field = pd.DataFrame({"easting": [432012.5, 432137.5, 432262.5], "northing": [5412012.5, 5412013.5, 5412387.5]})
    for where in ({"pool": field}, {"bounds": [(432_000, 432_750), (5_412_000, 5_412_500)]}):
        gpm = pma.ard_gp(field, [1.0, 2.0, 3.0], x_scale="box")
        learner = pma.Learner(gpm, "maximum", criterion="random", inference="laplace", random_seed=1, **where)
        learner.tell(field.iloc[[1]], 2.5)
        for text in ("432137.5", "5412013.5"):
            assert text in text_of(learner)
        best = learner.optimum(4)
        for value, width in zip(np.ravel(best.x), (0, 0) if "pool" in where else (750, 500), strict=True):
            assert coordinate(value, width) in text_of(best)
            assert float(coordinate(value, width)) == pytest.approx(value, abs=0.06)


def test_paths_say_how_many_there_are(fit):
    paths = pma.draw_paths(fit.point, model=fit.gpm, n_paths=5, random_seed=1)
    shown = text_of(paths)
    for text in ("5, from 1 draw(s)", "heat <°C>", "14 points"):
        assert text in shown


def test_kernels_and_their_searches():
    t = np.linspace(0, 9, 10)
    gpm = pma.composite_gp(pd.DataFrame({"t < 9": t}), np.sin(t), "SE * (LIN + PER)")
    assert text_of(gpm.expression) == "SE * (LIN + PER) as a sum of products LIN * SE + PER * SE"
    parts = pma.decompose(pma.fit_laplace(gpm.with_expression("SE + LIN"), **QUICK))
    shown = text_of(parts)
    for text in (*parts.descriptions, parts.noise):
        assert " ".join(text.split()) in shown
    keywords = {"progressbar": False, "random_seed": 1, "fit_keywords": {"n_restarts": 1, "population": 0}}
    search = pma.search.compositional_kernel_search(t[:, None], np.sin(t), bases=("SE", "LIN"), depth=1, **keywords)
    for text in ("3 kernels", search.stopped, "log_evidence"):
        assert text in text_of(search)
    dimension = pma.search.embedding_dimension(X, Y, (1,), random_seed=1, progressbar=False)
    assert "1 component(s), probability 1" in text_of(dimension)


def test_a_search_for_inputs_shows_what_it_found_and_promised(found):
    shown = text_of(found)
    for text in (
        "3, 17",
        f"{found.n_evaluations} of at most 2000, decided",
        "noise variance",
        "of pairs of points (95 %",
    ):
        assert text in shown
    assert "3, 17" in text_of(found.learner)


def test_a_search_that_goes_on_shows_what_is_open():
    shown = text_of(pma.hds.HDSLearner(32, **SCALES, random_seed=0))
    for text in ("active so far none", "open nodes 0-31", "evaluations 0 of at most 2000", "goes on"):
        assert text in shown


def test_a_screening_shows_the_inputs_it_chose():
    screening = pma.active.coordinate_wise(waves, 32, n_pairs=2, n_active=2, random_seed=1)
    assert "active inputs 3, 17" in repr(screening)
    shown = text_of(screening)
    assert f"{screening.score[screening.active[0]]:.3g}" in shown
    assert "Screening of 32 inputs" in shown


def test_a_classifier_and_its_fit():
    gp = pma.probit_gp(X[["heat <°C>", "time"]], Y > np.median(Y))
    assert "data 14 points (7 yes) inputs heat <°C>, time" in text_of(gp)
    fitted = pma.fit_probit(gp, n_restarts=0, random_seed=1, progressbar=False)
    shown = text_of(fitted)
    assert f"log evidence {fitted.log_evidence:.2f} nats" in shown
    # As of all fits: medians, in the user's units, which are those of the mode for a logarithm that is Gaussian.
    [table] = fitted._summary().tables
    assert list(table.index) == ["lengthscale[heat <°C>]", "lengthscale[time]", "outputscale"]
    assert float(table.loc["outputscale", "median"]) == pytest.approx(fitted.constrained_point["outputscale"], rel=0.2)


def test_what_a_fit_is_made_of(fit):
    """No addresses, and no more digits than anybody reads."""
    shown = [text_of(one) for one in (fit.best, fit.ensemble, fit.evidence)]
    evidence = f"{fit.log_evidence:.2f} ± nan nats"
    assert shown[0] == f"Expansion log posterior {fit.log_posterior:.2f} nats parameters 5"
    assert shown[1] == f"Ensemble of {fit.gpm.description} members {len(fit.ensemble)} method modes points {len(fit.y)}"
    assert shown[2] == f"Evidence {evidence}, by laplace"
    power_map = pma.OutputMap("yeo-johnson", 0.7707632011075389, 360.00000000000705, 54.58197562160507, 3.21)
    assert text_of(power_map) == "OutputMap kind yeo-johnson power 0.7708 shift 360 scale 54.58 gain 3.21"
    assert text_of(pma.OutputMap("log")) == "OutputMap kind log power 1 shift 0 scale 1"
    for point in (fit.constrained_point, fit.constrained_center):
        assert "np.float64" not in repr(point)


def test_the_parameters_of_composite_kernels_are_told_in_the_units_of_the_user():
    """The same function in other units of x and y: the summary has no logarithms, and no scaled numbers."""
    t, logs = np.linspace(0, 5, 12), {"log_lengthscale_PER": 0.3, "log_period": 0.1, "log_noise": -3.0}
    known = logs | {"location_LIN": 0.5, "log_outputscale": -0.2, "log_alpha_RQ": -1.0, "log_lengthscale_RQ": 0.4}
    medians = []
    for x_unit, y_unit in ((1.0, 1.0), (60.0, 10.0)):
        gpm = pma.composite_gp(
            x_unit * t[:, None], y_unit * np.sin(t), "LIN + PER * RQ", mean="constant",
            priors=known | {"mean_constant": 0.2}, x_scale=(0, 2 * x_unit), y_scale=(0, 3 * y_unit),
        )  # fmt: skip
        [table] = pma.fit(gpm, progressbar=False)._summary().tables
        medians.append(table["median"].astype(float))
    one, other = medians
    factors = {
        "location_LIN[0]": 60, "outputscale_LIN": 1 / 6, "lengthscale_PER": 1, "period_PER": 60, "outputscale_PER": 10,
        "lengthscale_RQ": 60, "alpha_RQ": 1, "outputscale_RQ": 1, "mean": 10, "noise": 10,
    }  # fmt: skip
    assert list(one.index) == list(factors)
    np.testing.assert_allclose(other, one * pd.Series(factors), rtol=2e-3)
    assert one["location_LIN[0]"] == 1.0
    assert one["outputscale_LIN"] == pytest.approx(np.exp(-0.2) * 3 / 2, rel=1e-3)


def test_a_mean_is_told_in_units_of_y():
    """Lines through data in other units: the slope of y, and y where the scaled input is zero."""
    x = np.linspace(100, 200, 12)
    gpm = pma.ard_gp(
        x[:, None], 40 + 0.3 * x, mean="linear", x_scale=(150, 50), y_scale=(80, 10),
        priors={"log_lengthscale": 2.0, "log_outputscale": np.log(0.01), "log_noise": np.log(0.01)},
    )  # fmt: skip
    fit = pma.fit_laplace(gpm, random_seed=1, progressbar=False)
    [table] = fit._summary().tables
    assert float(table.loc["mean", "median"]) == pytest.approx(85, abs=0.5)
    assert float(table.loc["mean_slope[0]", "median"]) == pytest.approx(0.3, abs=0.02)
