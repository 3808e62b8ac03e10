"""What the words say about a kernel, against numbers worked out by hand."""

import re

import numpy as np
import pandas as pd
import pytest

import pymc_active as pma
from pymc_active.structure.decompose import decompose
from pymc_active.structure.words import percent, share_of_variance, slope, with_trend

RNG = np.random.default_rng(20261122)
X = np.sort(RNG.uniform(1990, 2002, size=30))
Y = 50 + 3 * (X - 1995) + 4 * np.sin(2 * np.pi * X / 1.7) + 0.5 * RNG.normal(size=30)


def at(gpm, **point):
    """The fit expanded at zero, except for the parameters given; lengths are in ranges of the data."""
    start = {name: np.zeros(shape) for name, shape in gpm.shapes.items()}
    with pytest.MonkeyPatch.context() as patch:
        # Such a point is not a mode, and the warning would say so.
        patch.setattr("pymc_active.laplace.fit.find_problems", lambda *args: [])
        return pma.fit_laplace(
            gpm, point=start | {k: np.reshape(v, gpm.shapes[k]) for k, v in point.items()}, optimize=False
        )


def describe(expression, **point):
    gpm = pma.composite_gp(X[:, None], Y, expression, x_scale="unit", y_scale="standardize")
    return decompose(at(gpm, **point), [[1995.0]]).descriptions


SMOOTH = "A smooth function with a typical lengthscale of "
SLOW = "A slowly varying function with a typical lengthscale of "
PERIODIC, CHANGING = "A periodic function with period ", "An approximately periodic function with period "
TREND = "its average over a period is "
LONG = " is too long for the data to show a repetition"
FORGOTTEN = "; it forgets its shape within its period of "
LIN_AT = "location_LIN"
YEARLY = {"log_period_PER": -2}
PLACED = {"location_STEP": 0.5, "log_width_STEP": -5.0}

# One row for each kernel: the expression, parameters that are not zero, what its description must contain, and what it
# must not.
CASES = [
    # Lines and polynomials.
    ("LIN", {}, ["A linear function, rising by "], ["quadratic", "period"]),
    ("LIN0", {}, ["A linear function, rising by "], []),
    ("LIN * LIN", {}, ["A quadratic polynomial ("], ["interaction", "amplitude"]),
    ("LIN * LIN0", {}, ["A quadratic polynomial ("], []),
    ("LIN * LIN * LIN", {}, ["A cubic polynomial ("], []),
    ("LIN * LIN * LIN * LIN", {}, ["A polynomial of degree 4 ("], []),
    # Stationary kernels.
    ("SE", {"log_lengthscale_SE": np.log(0.2)}, [SMOOTH + "2"], ["slow", "period"]),
    ("SE", {"log_lengthscale_SE": np.log(3.0)}, [SLOW], []),
    ("MAT52", {"log_lengthscale_MAT52": np.log(0.2)}, [SMOOTH + "2"], ["rough"]),
    ("MAT12", {"log_lengthscale_MAT12": np.log(0.2)}, ["A rough function with a typical lengthscale of 2"], []),
    ("RQ", {"log_alpha_RQ": 0.0}, ["A function that varies on many scales around "], ["smooth"]),
    ("RQ", {"log_alpha_RQ": 4.0, "log_lengthscale_RQ": -1.0}, [SMOOTH], ["many scales"]),
    ("SE * MAT12", {"log_lengthscale_MAT12": -2.0}, ["A rough function"], ["times"]),
    ("SE * RQ", {}, ["A function that varies on many scales around "], ["times"]),
    # Stationary kernels times lines.
    ("SE * LIN", {"log_lengthscale_SE": -1.5}, [SMOOTH, ", with an amplitude that grows linearly away from x"], []),
    ("SE * LIN", {"log_lengthscale_SE": 2.5}, ["A linear function ("], ["slow", "amplitude", "lengthscale"]),
    ("LIN * SE * LIN", {}, ["with an amplitude that grows quadratically away from x = "], ["polynomial"]),
    ("RQ * LIN", {LIN_AT: [1.0]}, ["many scales", "with an amplitude that falls linearly towards x = "], []),
    # Periodic.
    ("PER", YEARLY, [PERIODIC + "1.6"], ["trend", "shape", "approximately", "amplitude"]),
    ("SE * PER", YEARLY | {"log_lengthscale_SE": 3.0}, [PERIODIC], ["trend", "shape"]),
    ("PER * PER", {"log_period_PER_1": -2, "log_period_PER_2": -3}, [PERIODIC, ", times one with period "], ["trend"]),
    ("SE * PER", YEARLY | {"log_lengthscale_SE": 0.2}, [CHANGING, "whose shape changes slowly, over 1", TREND], []),
    ("SE * PER", YEARLY | {"log_lengthscale_SE": -1.9}, [CHANGING, "whose shape changes over 1.8"], ["forgets"]),
    ("RQ * PER", YEARLY, [CHANGING, "changes on many scales around"], []),
    # Periodic with mean zero: no trend.
    ("PER0", {"log_period_PER0": -2}, [PERIODIC + "1.6"], ["trend"]),
    ("PER0 * LIN", {"log_period_PER0": -2}, [PERIODIC, "with an amplitude that grows linearly"], ["trend"]),
    ("SE * PER0", {"log_period_PER0": -2, "log_lengthscale_SE": -1}, [CHANGING], ["trend"]),
    ("PER0 * LIN", {"log_period_PER0": -2, "log_lengthscale_PER0": 3.0}, [PERIODIC], ["only", "trend"]),
    ("PER0", {"log_period_PER0": 0.5, "log_lengthscale_PER0": -1.0}, [SMOOTH + "1 (", LONG], ["periodic"]),
    ("C", {}, ["A constant ("], ["linear", "smooth"]),
    ("C * LIN", {}, ["A linear function ("], ["constant"]),
    # Steps, and what begins with one.
    ("STEP", PLACED, ["A step at x = 1996 ±", ", up by "], ["over", "begins", "linear"]),
    (
        "STEP",
        PLACED | {"log_width_STEP": np.log(0.1)},
        ["A step at x = 1996 ±", ", over 4.7 (", ", up by "],
        ["begins"],
    ),
    ("STEP", {"location_STEP": -0.2, "log_width_STEP": -5.0}, ["A constant ("], ["step"]),
    ("LIN * STEP", PLACED, ["A linear function, which begins at x = 1996 ±", ", rising by "], ["step", "amplitude"]),
    ("SE * STEP", PLACED | {"log_lengthscale_SE": -1.5}, [SMOOTH, ", which begins at x = 1996 ±"], ["step"]),
    ("SE * STEP", PLACED | {"log_lengthscale_SE": 3.0}, ["A step at x = 1996 ±"], ["slow", "begins", "smooth"]),
    ("PER * STEP", YEARLY | PLACED, [PERIODIC, "1.6", ", which begins at x = 1996 ±", TREND], ["shape"]),
    ("PER0 * STEP", {"log_period_PER0": -2} | PLACED, [PERIODIC, ", which begins at x = 1996 ±"], ["trend"]),
    (
        "LIN * STEP * STEP",
        {"location_STEP_1": 0.2, "location_STEP_2": 0.5, "log_width_STEP_1": -5.0, "log_width_STEP_2": -5.0},
        ["which begins at x = 1996 ±"],
        ["1992"],
    ),
    # Periodic in name only: SE is shorter than a period, or the period longer than the data.
    ("SE * PER", YEARLY | {"log_lengthscale_SE": -2.1}, [SMOOTH, FORGOTTEN], ["periodic", "trend"]),
    ("SE * PER", YEARLY | {"log_lengthscale_SE": -4.0}, [SMOOTH + "0.1", FORGOTTEN], ["periodic"]),
    ("MAT12 * PER", YEARLY | {"log_lengthscale_MAT12": -2.0}, ["A rough function", FORGOTTEN], ["periodic"]),
    ("PER", {"log_period_PER": -0.3}, [SMOOTH + "1.4", LONG], ["periodic", "trend"]),
    ("PER", {"log_period_PER": 3.0}, [SLOW, LONG], ["periodic"]),
    ("SE * PER", {"log_period_PER": 0.5, "log_lengthscale_SE": 0.0}, [SMOOTH, LONG], ["periodic", "shape"]),
    ("PER * LIN", {"log_period_PER": 0.5}, [SMOOTH, LONG, "amplitude that grows linearly"], ["periodic", "trend"]),
    # No two data in one phase.
    ("PER", YEARLY | {"log_lengthscale_PER": -5.0}, [SMOOTH, " is nominal, since few of the data"], ["periodic"]),
    # A level, times something.
    ("PER * LIN", YEARLY | {"log_lengthscale_PER": 3.0}, ["A linear function; only 0.2", "repeats"], ["periodic"]),
    ("PER * SE", YEARLY | {"log_lengthscale_PER": 3.0}, [SMOOTH + "1", "; only 0.2", "of its prior"], ["periodic"]),
    # A season of a fifth of the trend is seen.
    ("PER * LIN", YEARLY | {"log_lengthscale_PER": 1.7}, [PERIODIC, "with an amplitude that"], ["of its prior"]),
    ("PER", YEARLY | {"log_lengthscale_PER": 3.0}, [PERIODIC], ["only"]),
    (
        "SE * PER",
        YEARLY | {"log_lengthscale_PER": 3.0, "log_lengthscale_SE": 3.0},
        [PERIODIC],
        ["only", "trend", "slow"],
    ),
    # Trends in products: PER contains a constant.
    ("PER * LIN", YEARLY, [PERIODIC, "amplitude that grows linearly away from x = ", TREND], ["shape"]),
    ("PER * LIN", YEARLY | {"log_lengthscale_PER": -2.15}, [PERIODIC, "amplitude that grows linearly"], []),
    ("PER * LIN", YEARLY | {LIN_AT: [1.0]}, ["with an amplitude that falls linearly towards x", TREND], []),
    ("PER * LIN", YEARLY | {LIN_AT: [-1.0]}, ["with an amplitude that grows linearly away from"], []),
    ("PER * LIN0", YEARLY, [f"away from x = {X.min():.4g}", TREND], []),
    ("SE * PER * LIN", YEARLY, [CHANGING, "shape changes", "amplitude that grows linearly", TREND], []),
]


@pytest.mark.parametrize(("expression", "point", "present", "absent"), CASES)
def test_words_say_what_the_kernel_does(expression, point, present, absent):
    [text] = describe(expression, **point)
    for words in present:
        assert words.lower() in text.lower()
    for words in absent:
        assert words not in text


# Of inputs "dose" and "time".
CASES_OF_TWO = [
    ("LIN[1] * LIN[0]", {}, ["An interaction: a linear function of time, times a linear function of dose ("], ["quad"]),
    ("LIN[0] * LIN[0]", {}, ["A quadratic polynomial of dose ("], ["interaction", "times"]),
    ("LIN * LIN", {}, ["A quadratic polynomial of dose and time ("], ["interaction"]),
    ("LIN * LIN[0]", {}, ["A linear function of dose and time, times a linear function of dose"], ["interaction"]),
    ("SE[0] * SE[1]", {}, ["function of dose with", ", times a smooth function of time with"], ["period"]),
    ("SE[0] * LIN[1]", {}, ["function of dose with", "grows linearly away from time = "], ["polynomial"]),
    ("SE[0] * LIN[0] * LIN[1]", {}, ["linearly away from dose = ", " and grows linearly away from time"], ["quadr"]),
    ("PER[1] * LIN[0]", {"log_period_PER": -2}, ["A periodic function of time with", "away from dose", TREND], []),
    ("PER[1] * SE[0]", {"log_period_PER": -2, "log_lengthscale_SE": -3}, ["An approx", "along dose"], ["forgets"]),
    ("STEP[1]", {"location_STEP": 0.5, "log_width_STEP": -5.0}, ["A step of time at time = 2"], ["dose"]),
    (
        "STEP[0] * STEP[1]",
        {f"{name}_STEP_{i}": value for i in (1, 2) for name, value in (("location", 0.5), ("log_width", -5.0))},
        ["A step of dose at dose = 5", " times a step of time at time = 2"],
        [],
    ),
    ("PER[0] * PER[1]", {"log_period_PER_1": -2, "log_period_PER_2": -3}, [", times one of time with period "], []),
]


@pytest.mark.parametrize(("expression", "point", "present", "absent"), CASES_OF_TWO)
def test_words_of_two_inputs_say_what_the_kernel_does(expression, point, present, absent):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"dose": rng.uniform(0, 10, 40), "time": rng.uniform(0, 48, 40)})
    gpm = pma.composite_gp(frame, np.sin(frame.time) + frame.dose, expression, x_scale="unit", y_scale="standardize")
    [text] = decompose(at(gpm, **point), frame.iloc[:2]).descriptions
    for words in present:
        assert words.lower() in text.lower()
    for words in absent:
        assert words not in text


@pytest.mark.parametrize(
    ("expression", "point", "components"),
    [
        ("RQ + RQ + RQ", {}, {"RQ_1 + RQ_2 + RQ_3"}),
        ("RQ + RQ + LIN", {"log_lengthscale_RQ_1": 0.1}, {"RQ_1 + RQ_2", "LIN"}),
        ("SE + SE", {"log_lengthscale_SE_1": -2}, {"SE_1", "SE_2"}),
        ("LIN + LIN", {"location_LIN_1": [-1.0]}, {"LIN_1 + LIN_2"}),
        ("SE * (PER + PER)", {}, {"SE * PER_1 + SE * PER_2"}),
        ("PER + PER", {"log_period_PER_1": -2, "log_period_PER_2": -3}, {"PER_1", "PER_2"}),
        ("SE + LIN", {"log_lengthscale_SE": 2.5}, {"SE", "LIN"}),
        ("LIN * (C + PER0)", {}, {"LIN * C", "LIN * PER0"}),
    ],
)
def test_like_terms_are_one_component(expression, point, components):
    gpm = pma.composite_gp(X[:, None], Y, expression, x_scale="unit", y_scale="standardize")
    fit = at(gpm, **point)
    result = decompose(fit, X[:, None], method="map")
    assert set(result.components.component.to_numpy()) == components
    assert len(set(result.descriptions)) == len(components)
    total = result.components["mean"].sum("component") + result.components.mean_function
    np.testing.assert_allclose(total, pma.predict(fit, X[:, None], method="map").f_mean, rtol=1e-9)


def test_two_lines_rise_by_the_sum_of_their_slopes():
    gpm = pma.composite_gp(X[:, None], Y, "LIN + LIN", x_scale="unit", y_scale="standardize")
    result = decompose(at(gpm, location_LIN_1=[-1.0], log_noise=-4.0), [[1995.0], [1996.0]], method="map")
    [rise] = np.diff(result.components["mean"].to_numpy()[0])
    stated = re.search(r"rising by ([\d.]+) ±", result.descriptions[0])
    assert float(stated[1]) == pytest.approx(rise, abs=0.05)


@pytest.mark.parametrize(
    ("unit", "one"),
    [("years", "year"), ("centuries", "century"), ("hrs", "hr"), ("", "unit of the input")]
    + [(unit, unit) for unit in ("m/s", "s", "lens", "Celsius", "mg", "h")],
)
def test_slopes_are_per_one_unit(unit, one):
    assert slope(2.0, 0.1, "m", unit) == f", rising by 2.0 ± 0.1 m per {one}"


def test_words_of_several_inputs_have_their_units():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"dose": rng.uniform(0, 10, 40), "time": rng.uniform(0, 48, 40)})
    y = (10 - frame.dose) * np.sin(2 * np.pi * frame.time / 12) + 0.1 * rng.normal(size=40)
    unit = {"dose": "mg", "time": "h"}
    for values, kernel, expected in (
        (y, "LIN[0] * PER[1]", r"falls linearly towards dose = (9|10)\.\d+ ± 0\.\d+ mg \("),
        (y + 3 * frame.dose, "LIN[0] + PER[1]", r"of dose, rising by \d\.\d+ ± 0\.\d+ mmHg per mg \("),
    ):
        gpm = pma.composite_gp(frame, values, kernel, x_scale="unit", y_scale="standardize")
        result = decompose(
            pma.fit_laplace(gpm, n_restarts=6, random_seed=0, progressbar=False), unit=unit, y_unit="mmHg"
        )
        assert re.search(expected, result.descriptions[0] + result.descriptions[-1])


def test_a_change_of_level_is_told_with_its_place_and_height():
    """A drop of 6 between 1996 and 1997, in noise of 0.5: the fit that users get."""
    years = np.arange(1980.0, 2012.0)
    y = 30 + np.where(years < 1996.5, 0.0, -6.0) + 0.5 * np.random.default_rng(3).normal(size=len(years))
    gpm = pma.composite_gp(years[:, None], y, "STEP", x_scale="unit", y_scale="standardize")
    [text] = decompose(pma.fit(gpm, random_seed=1, progressbar=False), y_unit="m").descriptions
    found = re.match(r"A step at x = (\d+\.?\d*) ± (\S+), down by (\S+) ± (\S+) m \(", text)
    place, place_sd, height, height_sd = map(float, found.groups())
    assert abs(place - 1996.5) < 0.5 + 2 * place_sd < 2
    # The sds of the means on both sides, with 17 and 15 years each, and of the noise that is drawn here.
    assert abs(height - 6) < 4 * 0.5 * np.sqrt(1 / 17 + 1 / 15)
    assert 0.1 < height_sd < 0.4


def test_a_line_that_begins_is_told_with_its_slope():
    """Flat until 1996, then rising by 2 a year."""
    years = np.arange(1980.0, 2012.0)
    y = 30 + 2 * np.maximum(years - 1996, 0) + 0.2 * np.random.default_rng(3).normal(size=len(years))
    gpm = pma.composite_gp(years[:, None], y, "LIN * STEP", x_scale="unit", y_scale="standardize")
    [text] = decompose(pma.fit(gpm, random_seed=1, progressbar=False), y_unit="m").descriptions
    rate, sd = map(float, re.search(r"rising by (\S+) ± (\S+) m per unit of the input", text).groups())
    assert abs(rate - 2) < 4 * sd < 0.5


ALIAS = "a period below two spacings of the data can hardly be told from a longer alias"
STEPS = np.arange(40.0)


@pytest.mark.parametrize(
    ("times", "period", "is_alias"),
    [
        (STEPS, 1.07, True),
        (STEPS, 1.9, True),
        (STEPS, 2.1, False),
        (np.delete(np.repeat(STEPS, 2), [3, 4, 5, 20]), 1.07, True),
        (STEPS + 0.02 * np.sin(7 * STEPS), 1.07, True),
        (np.sort(RNG.uniform(0, 39, 40)), 1.07, False),
    ],
    ids=["even", "just below", "above", "with gaps and repeats", "nearly even", "uneven"],
)
def test_a_period_below_two_even_spacings_is_said_to_have_longer_aliases(times, period, is_alias):
    frame = pd.DataFrame({"time": times, "dose": np.random.default_rng(1).uniform(size=len(times))})
    y = np.sin(2 * np.pi * times / period)
    for data, kernel in ((frame[["time"]], "PER * LIN"), (frame, "SE * PER[0]")):
        gpm = pma.composite_gp(data, y, kernel, x_scale="unit", y_scale="standardize")
        fit = at(gpm, log_period_PER=np.log(period / np.ptp(times)))
        [text] = decompose(fit, data.iloc[:2]).descriptions
        assert (f"; {ALIAS} (" in text) == is_alias


@pytest.mark.parametrize("kernel", ["PER", "PER * LIN", "SE * PER"])
def test_an_alias_of_a_period_longer_than_the_data_is_not_called_periodic(kernel):
    """At whole numbers, 1.015 is the same as 1 / (1 - 1 / 1.015) = 68."""
    gpm = pma.composite_gp(STEPS[:, None], STEPS > 20, kernel, x_scale="unit", y_scale="standardize")
    fit = at(gpm, log_period_PER=np.log(1.015 / 39))
    long = at(gpm, log_period_PER=np.log(1.015 / 0.015 / 39))
    # Indeed the same function.
    np.testing.assert_allclose(*(pma.predict(one, STEPS[:, None], method="map").f_mean for one in (fit, long)))
    [text] = decompose(fit, STEPS[:2, None]).descriptions
    assert "cannot be told here from one too long to show a repetition (" in text
    assert "periodic" not in text
    assert "linear function" not in text


def test_squared_exponentials_in_a_product_are_one():
    [text] = describe("SE * SE", log_lengthscale_SE_1=0.0, log_lengthscale_SE_2=0.0)
    assert f"{np.ptp(X) / np.sqrt(2):.2g}" in text


def test_the_trend_in_a_periodic_component_is_its_average_over_a_period():
    """Conditioned by hand, with the periodic kernel averaged over 500 phases."""
    point = {"log_period_PER": np.log(1.7 / np.ptp(X)), "log_lengthscale_PER": 0.3, "location_LIN": [-1.0]}
    gpm = pma.composite_gp(X[:, None], Y, "PER * LIN", x_scale="unit", y_scale="standardize")
    fit = at(gpm, log_noise=-2.0, **point)
    x, z = (X - X.min()) / np.ptp(X), (Y - Y.mean()) / Y.std()
    phases = np.arange(500) / 500
    line = np.multiply.outer(x + 1, x + 1)
    periodic = np.exp(-2 * np.sin(np.pi * np.subtract.outer(X, X) / 1.7) ** 2 / np.exp(0.6))
    average = np.exp(-2 * np.sin(np.pi * phases) ** 2 / np.exp(0.6)).mean() * line
    part = average @ np.linalg.solve(periodic * line + np.exp(-4.0) * np.eye(len(x)), z)
    share = np.cov(part, z, ddof=0)[0, 1]
    [text] = decompose(fit, [[1995.0]]).descriptions
    assert f"{TREND}{percent(share)} of the variance" in text
    assert 0.05 < share < 0.5


def test_a_component_that_is_mostly_its_average_is_a_trend_first():
    text = "a periodic function"
    assert with_trend(text, 0.5, 0.6) == (
        "mostly a trend: its average over a period is 50 % of the variance; around that, a periodic function"
    )
    assert with_trend(text, 0.2, 0.6).startswith("a periodic function; it carries a trend too")
    assert with_trend(text, 0.004, 0.006) == with_trend(text, -0.001, 0.6) == text


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0.43, "43 % of the variance"),
        (-0.0005, "less than 0.1 % of the variance"),
        (-0.25, "-25 % of the variance, since it runs against the other components"),
    ],
)
def test_a_negative_share_is_explained(share, text):
    assert share_of_variance(share) == text
