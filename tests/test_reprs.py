"""What results look like at a prompt and in a notebook: short, escaped, with the facts, and without any fitting."""

from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pymc as pm
import pytest

import pymc_active as pma
from pymc_active.support.summaries import Summary

RNG = np.random.default_rng(20260401)
NAMES = ["heat <°C>", "acid & salt", "time"]
X = pd.DataFrame(RNG.uniform(0, 10, size=(14, 3)), columns=NAMES)
Y = 50 + 10 * np.sin(0.5 * X["time"].to_numpy()) + 0.3 * RNG.normal(size=14)
QUICK = {"n_restarts": 2, "population": 0, "random_seed": 1, "progressbar": False}


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


def test_a_summary_escapes_what_it_is_given():
    table = pd.DataFrame({"<b>": ["&"]}, index=["i<"])
    html = Summary("<i>", {"a&b": "<script>", "left out": None}, [table], ["x < y"]).html()
    assert "<script>" not in html
    shown = " ".join(ElementTree.fromstring(html).itertext())
    for text in ("<i>", "a&b", "<script>", "<b>", "i<", "x < y"):
        assert text in shown
    assert "left out" not in shown


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


def test_a_year_is_shown_to_the_digits_that_it_is_known_to():
    year = np.arange(1980.0, 2010)
    gpm = pma.composite_gp(year, 3.0 * (year > 1994) + 0.1 * RNG.normal(size=30), "STEP", bounds=[(1980, 2010)])
    [table] = pma.fit_laplace(gpm, **QUICK)._summary().tables
    low, high = map(float, table.loc["location_STEP", "89 % interval"].split(" to "))
    assert 1994 <= low < high <= 1995


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
