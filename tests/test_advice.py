"""Advice on data and priors that are not what they seem."""

import warnings

import numpy as np
import pandas as pd
import pymc as pm
import pytest
from nightly import nightly

import pymc_active as pma
from pymc_active.models.advice import advise_on, code_for_missing_values, dependent_inputs
from pymc_active.models.gpmodel import GPModel

RNG = np.random.default_rng(0)
HOURS, DEPTHS = np.arange(240.0), np.sort(RNG.uniform(0, 1000, 30))
WAVE, KELVIN = 15 + 4 * np.sin(2 * np.pi * HOURS / 24) + RNG.normal(size=240), 300 + 5 * np.sin(DEPTHS / 100)
PAIRS = RNG.uniform(size=(30, 2)) * [1, 1000]


def advice(make):
    """What there is to say of a model, or the warnings of another call."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        made = make()
    return [*(str(one.message) for one in caught), *(advise_on(made) if isinstance(made, GPModel) else ())]


def series(expression, **priors):
    return lambda: pma.composite_gp(HOURS, WAVE, expression, bounds=[(0, 264)], priors=priors)


def depths(mean="constant", **priors):
    return lambda: pma.ard_gp(DEPTHS, KELVIN, mean=mean, bounds=[(0, 1000)], priors=priors)


@pytest.mark.parametrize(
    ("make", "name", "meant"),
    [
        (series("PER + PER", log_period_PER_1=np.log(24), log_period_PER_2=-2.4), "log_period_PER_1", "log 0.0909"),
        (series("PER", log_period=pm.Normal.dist(np.log(8), 0.01)), "log_period_PER", "log 0.0303"),
        (series("PER0", log_period_PER0=pm.StudentT.dist(9, mu=np.log(24), sigma=1e-9)), "log_period_PER0", "log 0.09"),
        (series("SE", log_lengthscale=np.log(50)), "log_lengthscale_SE", "log 0.189"),
        (series("STEP", log_width=np.log(26.4)), "log_width_STEP", "log 0.1"),
        (series("LIN", location_LIN=100.0), "location_LIN", "0.379"),
        (depths(log_lengthscale=pm.Normal.dist(np.log(100), 0.3)), "log_lengthscale", "log 0.2"),
        (depths(mean_constant=300.0), "mean_constant", "-0.3"),
        (depths(log_outputscale=np.log(20.0)), "log_outputscale", "log 7.3"),
        (lambda: pma.ard_gp(1e-6 * DEPTHS, KELVIN, bounds=[(0, 1e-3)], priors={"log_lengthscale": np.log(1e-4)}),
         "log_lengthscale", "log 0.2"),
        (lambda: pma.ard_gp(PAIRS, KELVIN, bounds=[(0, 1), (0, 1000)],
                            priors={"log_lengthscale": pm.Normal.dist(np.log([0.3, 300]), 0.5)}),
         "log_lengthscale", "log 0.6"),
        (lambda: pma.embedding_gp(PAIRS, KELVIN, n_components=1, bounds=[(0, 1), (0, 1000)],
                                  priors={"log_lengthscale": np.log(300)}), "log_lengthscale", "log 0.6"),
    ],
)  # fmt: skip
def test_a_prior_in_the_users_units_is_noticed(make, name, meant):
    [message] = advice(make)
    assert message.startswith(f"the prior of {name} is around ")
    assert f"in your units, write {meant}" in message


@pytest.mark.parametrize(
    "make",
    [
        series("PER + PER", log_period_PER_1=np.log(24 / 264), log_period_PER_2=np.log(8 / 264)),
        # An input that is known not to matter; a curve that is nearly a line.
        depths(log_lengthscale=np.log(1e6)),
        depths(log_lengthscale=np.log(5.0)),
        # The zero of the scale, far below all data.
        depths(mean_constant=-300 / 3.6),
        depths(log_noise=np.log(1e-6), log_outputscale=pm.HalfNormal.dist(1)),
        depths(log_lengthscale=pm.Flat.dist()),
        lambda: pma.ard_gp(PAIRS[:1], KELVIN[:1], bounds=[(0, 1), (0, 1000)], priors={"mean_constant": 7.0}),
    ],
)
def test_priors_of_scaled_data_are_not_warned_of(make):
    assert not advice(make)


TABLE = pd.DataFrame({"a": PAIRS[:, 0], "yield": KELVIN, "b": PAIRS[:, 1]})
MAKERS = {
    "ard_gp": pma.ard_gp,
    "embedding_gp": lambda X, y, **more: pma.embedding_gp(X, y, n_components=1, **more),
    "composite_gp": lambda X, y, **more: pma.composite_gp(X, y, "SE", **more),
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_y_among_the_inputs_is_refused_by_name(make):
    for X, y in ((TABLE, TABLE["yield"]), (TABLE, TABLE[["yield"]]), (TABLE[["yield"]], TABLE["yield"])):
        with pytest.raises(ValueError, match=r"^yield is y, .*: leave it out, X.drop\(columns='yield'\)"):
            make(X, y)
    bounds = {"a": (0, 1), "yield": (290, 310), "b": (0, 1000)}
    make(TABLE, np.sin(TABLE["yield"]), bounds=bounds)
    make(TABLE, TABLE["a"].rename("yield") ** 2, bounds=bounds)


# In percent, beside others; three, two, few.
MIXTURES = [
    (100 * RNG.dirichlet(np.ones(5), 12), "input 0, input 1, input 2, input 3, input 4:"),
    (np.c_[RNG.uniform(size=(12, 1)), RNG.dirichlet(np.ones(3), 12)], "input 1, input 2, input 3:"),
    *nightly(
        (RNG.dirichlet(np.ones(3), 12), "input 0, input 1, input 2:"),
        (RNG.dirichlet(np.ones(2), 12), "input 0, input 1:"),
        (RNG.dirichlet(np.ones(3), 5), "input 0, input 1, input 2:"),
    ),
]


@pytest.mark.parametrize(("X", "named"), MIXTURES)
def test_a_box_of_mixtures_that_cannot_be_made_is_warned_of(X, named, tmp_path):
    y, box = np.sin(3 * X[:, 0] / X.max()) + X[:, -1] ** 2 / X.max() ** 2, [(0, max(X.max(), 1))] * X.shape[1]
    message = f"{named} in all {len(X)} points each of these inputs can be computed from"
    [found] = advice(lambda: pma.Learner(pma.ard_gp(X, y, bounds=box), bounds=box).save(tmp_path / "run.nc"))
    assert found.startswith(message)
    assert found.endswith("list the ones that can in a pool, or leave one of these inputs out")
    assert not advice(lambda: pma.Learner.load(tmp_path / "run.nc"))
    assert not advice(lambda: pma.Learner(pma.ard_gp(X, y, bounds=box), pool=X))
    assert not advice(lambda: pma.Learner(pma.ard_gp(X[:, :-1], y, bounds=box[1:]), bounds=box[1:]))


def test_the_first_design_may_lie_on_a_plane():
    X = RNG.dirichlet(np.ones(3), 6)
    learner = pma.Learner(None, bounds=dict.fromkeys(["water", "oil", "salt"], (0, 1)), random_seed=0)
    assert not advice(lambda: [learner.tell(x, x[0] ** 2) for x in X[:4]])
    [found] = advice(lambda: [learner.tell(x, x[0] ** 2) for x in X[4:]])
    assert found.startswith("water, oil, salt: in all 5 points")


def test_few_points_and_points_that_fill_the_space_lie_on_no_plane():
    for D in range(1, 8):
        for n in range(1, 20):
            grid = np.arange(2.0**D)[:, None] // 2.0 ** np.arange(D) % 2
            for X in (
                RNG.uniform(size=(n, D)),
                RNG.dirichlet(np.ones(D), min(n, D + 1)),
                np.c_[grid, np.ones(len(grid))],
            ):
                assert not dependent_inputs(X).size


def with_codes(x, code, k=3):
    return np.r_[np.full(k, code), x[k:]]


FLOWS = np.linspace(1, 5, 12)


@pytest.mark.parametrize(
    ("x", "code"),
    [
        (with_codes(FLOWS, -999.0), -999),
        (with_codes(FLOWS, -200.0, 2), -200),
        (with_codes(FLOWS, 9999.0), 9999),
        (with_codes(FLOWS, 99.9), 99.9),
        (with_codes(FLOWS, 32767.0), 32767),
        (with_codes(np.tile([1.0, 3.0, 5.0], 4), -999.0), -999),
        # Of a sensor, which spans more than the distance of the code.
        (with_codes(np.linspace(7, 1189, 12), -200.0), -200),
        (with_codes(np.linspace(-20, 35, 12), -9999.0), -9999),
    ],
)
def test_codes_for_missing_values_are_noticed(x, code):
    frame = pd.DataFrame({"a": PAIRS[:12, 0], "flow": x})
    bounds = list(zip(frame.min(), frame.max(), strict=True))

    def codes(make):
        # Bounds may span decades, too.
        return [message for message in advice(make) if "decades" not in message]

    [message] = codes(lambda: pma.ard_gp(frame, KELVIN[:12], bounds=bounds))
    k = (x == code).sum()
    assert message.startswith(f"{k} of 12 rows of X have flow = {code}, far from all others, ")
    [message] = codes(lambda: pma.Learner(None, pool=frame))
    assert message.startswith(f"{k} of 12 rows of the pool have flow = {code}, far from all others")
    # One such row may be a slip or a setting.
    assert code_for_missing_values(np.delete(frame.to_numpy(), range(1, k), axis=0), ["a", "flow"], "X") is None


@pytest.mark.parametrize(
    "x",
    [
        with_codes(FLOWS, 0.0),
        with_codes(FLOWS, -1.0),
        np.repeat([-100.0, 0.0, 100.0], 4),
        np.repeat([-1.0, 0.0, 1.0], 4),
        np.repeat([1.0, 10, 100, 1000, 1e4, 1e5], 2),
        # A freezer and a room.
        with_codes(np.linspace(18, 25, 12), -80.0),
        np.r_[np.full(8, 99.0), 90, 91, 92, 93],
        np.r_[np.zeros(6), np.ones(6)],
    ],
)
def test_settings_are_no_codes(x):
    assert code_for_missing_values(x[:, None], ["x"], "X") is None


def test_a_run_of_several_models_says_of_each_what_is_its_own_and_once_what_is_shared():
    bounds, prior = [(1, 1000)], {"log_lengthscale": np.log(50)}
    models = [pma.composite_gp(DEPTHS, KELVIN, "SE", bounds=bounds)]
    models.append(pma.composite_gp(DEPTHS, KELVIN, "RQ", bounds=bounds, priors=prior))
    learner = pma.Learner(models, "model", bounds=bounds, inference="laplace", random_seed=0)
    with pytest.warns(pma.DataWarning) as caught:
        learner.ask()
    texts = [str(one.message) for one in caught if one.category is pma.DataWarning]
    assert sum("from 1 to 1000 are 3 decades" in text for text in texts) == 1
    assert sum("prior of log_lengthscale_RQ" in text for text in texts) == 1


def test_rows_that_were_entered_twice_are_named():
    def named(rows, y):
        return [text for text in advice(lambda: pma.ard_gp(PAIRS[rows], y)) if "have the X and y of another" in text]

    twice = np.r_[np.arange(20), [3, 7]]
    [text] = named(twice, KELVIN[twice])
    assert text.startswith("2 of 22 rows ")
    # Measured again; coarse outcomes; no row twice.
    again = np.r_[twice, 5]
    assert not named(again, np.r_[KELVIN[twice], 301.3])
    assert not named(twice, np.round(KELVIN[twice]))
    assert not named(np.arange(20), KELVIN[:20])
