"""What the words say about a kernel, against numbers worked out by hand."""

import re

import numpy as np
import pandas as pd
import pytest

import pymc_active as pma
from pymc_active.structure.decompose import decompose

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


# One row for each kernel: the expression, parameters that are not zero, and what its description must contain.
CASES = [
    ("LIN * LIN", {}, "A quadratic polynomial ("),
    ("LIN * LIN * LIN", {}, "A cubic polynomial ("),
    ("SE", {"log_lengthscale_SE": np.log(0.2)}, "A smooth function with a typical lengthscale of 2"),
    ("SE", {"log_lengthscale_SE": np.log(3.0)}, "A slowly varying function with a typical lengthscale of"),
    ("MAT12", {"log_lengthscale_MAT12": np.log(0.2)}, "A rough function with a typical lengthscale of"),
    ("RQ", {"log_alpha_RQ": 0.0}, "A function that varies on many scales around"),
    ("RQ", {"log_alpha_RQ": 4.0, "log_lengthscale_RQ": -1.0}, "A smooth function with a typical lengthscale of"),
    (
        "SE * PER",
        {"log_lengthscale_SE": 0.2, "log_period_PER": -2},
        "An approximately periodic function with period",
    ),
    ("SE * PER", {"log_lengthscale_SE": 3.0, "log_period_PER": -2}, "A periodic function with period"),
    ("SE * PER", {"log_lengthscale_SE": -4.0, "log_period_PER": -2}, "A weakly periodic function with period"),
    ("PER * LIN", {"log_period_PER": -2}, "with an amplitude that grows linearly away from x = "),
    ("PER * LIN", {"log_period_PER": -2, "location_LIN": [1.0]}, "with an amplitude that falls linearly towards x"),
    (
        "PER * LIN",
        {"log_period_PER": -2, "location_LIN": [-1.0]},
        "with an amplitude that grows linearly away from",
    ),
    ("PER", {"log_period_PER": -0.1}, "; the data span little more than one period, so no repetition was observed ("),
    ("LIN * SE * LIN", {}, "with an amplitude that grows quadratically away from x = "),
    ("PER * PER", {"log_period_PER_1": -2, "log_period_PER_2": -3}, ", times one with period "),
]


@pytest.mark.parametrize(("expression", "point", "expected"), CASES)
def test_words_say_what_the_kernel_does(expression, point, expected):
    [text] = describe(expression, **point)
    assert expected in text


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


def test_squared_exponentials_in_a_product_are_one():
    [text] = describe("SE * SE", log_lengthscale_SE_1=0.0, log_lengthscale_SE_2=0.0)
    assert f"{np.ptp(X) / np.sqrt(2):.2g}" in text


def test_a_rooted_linear_kernel_starts_at_the_origin_of_the_scaled_inputs():
    [text] = describe("PER * LIN0", log_period_PER=-2)
    assert f"away from x = {X.min():.4g} (" in text
