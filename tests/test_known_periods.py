"""Seasons that the user knows."""

import warnings

import numpy as np
import pandas as pd
import pymc as pm
import pytest
from advised import said
from numpy.testing import assert_allclose

import pymc_active as pma
from pymc_active.models.advice import advise_on
from pymc_active.models.gpmodel import GPModel

MONTHS = np.arange(48.0)
QUICK = {"n_restarts": 2, "population": 0, "random_seed": 1, "progressbar": False}


def series(period):
    noise = np.random.default_rng(3).normal(size=48)
    return np.sin(2 * np.pi * MONTHS / period) + 0.3 * np.sin(4 * np.pi * MONTHS / period) + 0.1 * noise


def period_prior(gpm, name):
    """Median and log sd, in the units of the model's inputs."""
    posterior, i = gpm.posterior(), gpm.labels.index(f"log_period_{name}")
    return np.exp(posterior.prior.mean[i]), posterior.prior.sd[i]


@pytest.mark.filterwarnings("ignore:the default priors assume")
@pytest.mark.parametrize("x_scale", [None, "unit"])
def test_a_known_period_is_in_the_units_of_the_inputs(x_scale):
    gpm = pma.composite_gp(MONTHS[:, None], series(12), "LIN + PER * SE + PER0", period=12, x_scale=x_scale)
    array = pma.composite_gp(MONTHS[:, None], series(12), "LIN + PER * SE + PER0", period=np.array(12), x_scale=x_scale)
    for name in ("PER", "PER0"):
        assert period_prior(array, name) == period_prior(gpm, name)
        median, sd = period_prior(gpm, name)
        assert_allclose(median * np.broadcast_to(gpm.x_map.scale, 1)[0], 12)
        assert sd == 0.01
    # Other kernels keep their priors.
    free = pma.composite_gp(MONTHS[:, None], series(12), "LIN + PER * SE + PER0", x_scale=x_scale)
    others = [i for i, label in enumerate(gpm.labels) if "period" not in label]
    assert_allclose(gpm.posterior().prior.mean[others], free.posterior().prior.mean[others])


@pytest.mark.parametrize("period", [{"month": 12.0}, [None, 12.0]])
def test_other_inputs_keep_their_priors(period):
    frame = pd.DataFrame({"dose": MONTHS % 7, "month": MONTHS})
    known, free = (
        pma.composite_gp(frame, series(12), "PER[0] + PER[1]", x_scale="unit", y_scale="standardize", period=one)
        for one in (period, None)
    )
    assert period_prior(known, "PER_1") == period_prior(free, "PER_1")
    assert_allclose(period_prior(known, "PER_2"), (12 / 47, 0.01))
    varied = known.with_expression("SE[0] * PER[1]")
    assert_allclose(period_prior(varied, "PER"), (12 / 47, 0.01))


@pytest.mark.filterwarnings("ignore::pymc_active.DataWarning")
def test_a_known_period_is_found_among_its_aliases():
    """Monthly data of a period of 1.2 also have one of 6, which the prior of periods prefers."""
    x = MONTHS[:, None]
    for period, low, high in ((1.2, 1.15, 1.25), (6.0, 5.8, 6.2)):
        gpm = pma.composite_gp(x, series(6), "PER", period=period, x_scale="unit", y_scale="standardize")
        fit = pma.fit_laplace(gpm, **QUICK)
        assert low < 47 * np.exp(fit.point["log_period_PER"]) < high


def test_a_search_knows_the_period():
    found = pma.search.compositional_kernel_search(
        MONTHS[:, None],
        series(12),
        bases=("SE", "PER"),
        depth=2,
        period=12,
        random_seed=1,
        progressbar=False,
        fit_keywords={"n_restarts": 2, "population": 0},
    )
    assert "PER" in found.table.model
    for label, fit in found.fits.items():
        for name, value in pma.find_modes(fit).point.items():
            if name.startswith("log_period"):
                assert 11 < 47 * np.exp(value) < 13, label


@pytest.mark.parametrize(
    ("keywords", "error", "message"),
    [
        ({"period": 0.0}, ValueError, "period must be positive, in the units of X; got 0.0"),
        ({"period": [1.0, 2.0]}, ValueError, r"2 seasons of input 0, which need 2 parts .* as in PER \+ PER; got PER,"),
        ({"period": {"week": 1.0}}, ValueError, "period names inputs among 0; got"),
        ({"period": 12, "priors": {"log_period_PER": 0.0}}, ValueError, "both period and priors set the period"),
        ({"period": [[1.0, 2.0]]}, ValueError, "2 seasons of input 0"),
        ({"period": [[[1.0], 2.0]]}, ValueError, "period must have one number"),
        ({"period": {0: (12, None)}}, ValueError, "period must have one number"),
        ({"period": object()}, TypeError, "period"),
        ({"period": pd.Series({"b": 7.0, "a": 24.0})}, ValueError, "period must have one number"),
        ({"period": [None, [1, 2]]}, ValueError, "period must have one number"),
    ],
)
def test_wrong_periods_are_refused(keywords, error, message):
    with pytest.raises(error, match=message):
        pma.composite_gp(MONTHS[:, None], series(12), "PER", x_scale="unit", y_scale="standardize", **keywords)


def test_a_period_of_one_input_is_not_that_of_all():
    X = np.column_stack([MONTHS, MONTHS % 5])
    with pytest.raises(ValueError, match=r"PER has one period for all inputs, .* write PER\[0\]"):
        pma.composite_gp(X, series(12), "PER", period=[12, None], x_scale="unit", y_scale="standardize")


def warned(make):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        made = make()
    texts = [str(one.message) for one in caught if issubclass(one.category, pma.DataWarning)]
    texts += advise_on(made) if isinstance(made, GPModel) else []
    return [text for text in texts if "period" in text]


@pytest.mark.parametrize(("period", "is_strange"), [(12, False), (2.5, False), (1.2, True), (365.25, True)])
def test_periods_that_the_data_cannot_show_are_warned_of(period, is_strange):
    """47 months, in steps of one: no repetition in a year of days, and an alias of anything below two months."""
    made = lambda: pma.composite_gp(MONTHS, series(12), "PER", period=period, x_scale="unit", y_scale="standardize")  # noqa: E731
    assert bool(found := warned(made)) == is_strange
    assert all("spans 47 in steps of 1: no repetition can be seen" in message for message in found)
    # With a box, where measurements will be made counts; few points say nothing.
    assert not warned(lambda: pma.composite_gp(MONTHS, series(12), "PER", period=60, bounds=[(0, 120)]))
    assert not warned(lambda: pma.composite_gp(MONTHS[:5], series(12)[:5], "PER", period=1, bounds=[(0, 47)]))


def test_uneven_points_show_periods_far_below_their_distances():
    """As nights do a star's period of half a day, if they are not at the same hour."""
    rng = np.random.default_rng(0)
    days = np.sort(rng.choice(150, 60, replace=False)) + 0.0
    nights = days + rng.uniform(-0.15, 0.15, 60)
    assert not warned(lambda: pma.composite_gp(nights, np.sin(nights), "PER", period=0.567, bounds=[(0, 200)]))
    assert warned(lambda: pma.composite_gp(days, np.sin(days), "PER", period=0.567, bounds=[(0, 200)]))


def test_a_period_that_no_part_of_the_kernel_has_is_warned_of():
    [message] = warned(lambda: pma.composite_gp(MONTHS, series(12), "SE + LIN", period=12))
    assert message.endswith(
        "period=12 has no effect on SE + LIN: PER and PER0 have it, so add one, as in SE + LIN + PER"
    )
    X = np.column_stack([MONTHS, MONTHS**2])
    [message] = warned(lambda: pma.composite_gp(X, series(12), "PER[0] * SE[1]", period=[12, 90]))
    assert "period=90 has no effect" in message
    assert message.endswith("PER[0] * SE[1] + PER[1]")
    assert not warned(lambda: pma.composite_gp(X, series(12), "PER[0] * SE[1]", period=[12, None]))
    # A search has a kernel for each.
    quick = {"bases": ("SE", "PER"), "depth": 1, "budget": 9, "random_seed": 1, "progressbar": False}
    quick |= {"fit_keywords": {"n_restarts": 1, "population": 0}, "budget": 1}
    assert not warned(lambda: pma.search.compositional_kernel_search(X, series(12), period=[12, 90], **quick))


def test_locations_in_the_units_of_the_data_are_warned_of():
    def make(location):
        priors = {"location_STEP": pm.Normal.dist(location, 0.1)}
        return pma.composite_gp(1990 + MONTHS, series(12), "STEP", priors=priors, x_scale="unit", y_scale="standardize")

    assert not advise_on(make(0.5))
    assert said(make(2010), "location_STEP is around 2010, .* mean 2010 in your units, write 0.426")


@pytest.mark.parametrize(
    ("expression", "given", "known"),
    [
        ("PER[1] * SE[0] + PER0[1]", {"hour": (24, 168)}, {"PER": 24, "PER0": 168}),
        ("PER[1] + PER[0] + PER[1]", [None, [168, 24]], {"PER_1": 168, "PER_3": 24}),
    ],
)
def test_several_seasons_of_an_input(expression, given, known):
    """Its periodic parts have them in order; other inputs keep their priors."""
    frame = pd.DataFrame({"dose": MONTHS % 7, "hour": 9 * MONTHS})
    gpm = pma.composite_gp(frame, series(12), expression, period=given, bounds={"dose": (0, 7), "hour": (0, 500)})
    for name, period in known.items():
        assert_allclose(period_prior(gpm, name), (period / 500, 0.01))
    if "PER[0]" in expression:
        assert_allclose(period_prior(gpm, "PER_2")[0], 0.1)
    # A neighbour has the first of them; the options make the same model again.
    fewer = gpm.with_expression("PER[1]")
    again = pma.composite_gp(frame, series(12), bounds=[(0, 7), (0, 500)], **fewer.options)
    assert_allclose(period_prior(again, "PER"), (next(iter(known.values())) / 500, 0.01))


def test_several_seasons_of_the_only_input():
    for period in ([24, 8], (24, 8), np.array([24, 8]), {0: (24, 8)}, [[24, 8]]):
        gpm = pma.composite_gp(MONTHS, series(12), "PER + PER", period=period, bounds=[(0, 100)])
        assert_allclose([period_prior(gpm, f"PER_{k}")[0] for k in (1, 2)], [0.24, 0.08])
    gpm = pma.composite_gp(MONTHS, series(12), "PER + PER", period=(24, 300), bounds=[(0, 100)])
    assert said(gpm, "period=300 is in the units of input 0")
    with pytest.raises(ValueError, match="a search takes one known period for an input"):
        pma.search.compositional_kernel_search(MONTHS, series(12), period=(24, 8))
