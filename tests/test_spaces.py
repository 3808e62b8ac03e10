"""Spaces of numbers, steps, labels and constraints: how they are read, drawn from, modelled, searched and run."""

import re
from math import comb

import numpy as np
import pandas as pd
import pymc as pm
import pytest
from nightly import nightly

import pymc_active as pma
from pymc_active.__main__ import main
from pymc_active.criteria.by_name import CRITERIA
from pymc_active.criteria.maximize import maximize
from pymc_active.criteria.screening import prepare
from pymc_active.learner.candidates import SpaceCandidates
from pymc_active.spaces.constraints import parse

BASES = pd.DataFrame({"pKa": [3.2, 5.1, 9.4], "mass": [101.0, 80.0, 250.0]}, index=["a", "b", "c"])
MIXED = {
    "T": (40, 120),
    "stir": pma.Steps(100, 600, 50),
    "solvent": ["DMF", "MeCN", "water"],
    "base": BASES,
    "x1": (0, 1),
    "x2": (0, 1),
    "x3": (0, 1),
    "light": [False, True],
}


def is_safe(table):
    return ~((table.solvent == "water") & (table["T"] > 100))


def mixed():
    return pma.Space(MIXED, constraints=["x1 + x2 + x3 == 1", "2 * x1 <= x2 + 0.5", is_safe])


def yields(table):
    found = np.sin(table["T"] / 20) + (table.solvent == "DMF") + table.x1 - ((table.stir - 300) / 200) ** 2
    return (found + 0.3 * table.light).to_numpy(float)


def may_be(table):
    simplex = np.abs(table.x1 + table.x2 + table.x3 - 1) < 1e-9
    steps = table.stir.isin(range(100, 601, 50)) & table["T"].between(40, 120)
    return (simplex & steps & (2 * table.x1 <= table.x2 + 0.5 + 1e-9) & is_safe(table)).all()


def fit_of(table, y, space, n_particles=64):
    return pma.fit_smc(pma.ard_gp(table, y, space=space), n_particles=n_particles, random_seed=1, progressbar=False)


def search(space, scorer, seed=0, *fixed):
    return maximize(scorer, *space.limits, np.random.default_rng(seed), space, *fixed)


@pytest.fixture(scope="module")
def fit():
    table = mixed().sample(25, random_seed=1)
    return fit_of(table, yields(table), mixed())


def test_tables_become_columns_and_come_back():
    space = mixed()
    table = space.sample(40, random_seed=1)
    columns = space.encode(table)
    assert columns.shape == (40, len(space.inputs)) == (40, 15)
    for written in (columns, space.encode(table.iloc[:, ::-1])):
        pd.testing.assert_frame_equal(space.decode(written), table)
    assert table.stir.dtype.kind == "i"
    assert np.array_equal(space.snap(columns), columns)


def test_points_drawn_can_be_made_and_are_uniform():
    assert may_be(mixed().sample(500, random_seed=2))
    assert may_be(pma.active.random_design(mixed(), 20, random_seed=2))
    labels = mixed().sample(3000, random_seed=3)
    assert abs((labels.base == "a").mean() - 1 / 3) < 4 * np.sqrt(2 / 9 / 3000)
    # Over a simplex, Dirichlet(1, 1, 1): mean 1/3, variance 1/18, fourth central moment 1/135.
    found = pma.Space({name: (0, 1) for name in "abc"}, "a + b + c == 1").sample(4000, random_seed=1).to_numpy()
    error = np.sqrt((1 / 135 - 1 / 18**2) / 4000)
    assert (np.abs(found.mean(0) - 1 / 3) < 4 * np.sqrt(1 / 18 / 4000)).all()
    assert (np.abs(found.var(0) - 1 / 18) < 4 * error).all()
    # Over a triangle, which an inequality cuts from a box: the mean is a third of the way.
    found = pma.Space({"a": (0, 1), "b": (0, 2)}, "a + b <= 1").sample(4000, random_seed=1)
    assert (found.a + found.b <= 1 + 1e-9).all()
    assert (np.abs(found.mean() - 1 / 3) < 4 * np.sqrt(1 / 18 / 4000)).all()


def test_linear_constraints_are_read():
    for text, coefficients, limit, is_equality in (
        ("a + 2 * b <= 3", {"a": 1, "b": 2}, 3, False),
        ("a >= b / 2 - 1", {"a": -1, "b": 0.5}, 1, False),
        ("-(a - b) == 1 + 2 * (b + 1)", {"a": -1, "b": -1}, 3, True),
        ("`c d` <= 2", {"c d": 1}, 2, False),
    ):
        found = parse(text, ["a", "b", "c d"])
        assert {k: v for k, v in found.coefficients.items() if v} == coefficients
        assert (found.limit, found.is_equality) == (limit, is_equality)
    for text in ("a * b <= 1", "a", "a <= b <= 1", "a ** 2 == 1", "1 <= 2", "solvent == 'x'", "a =", "a < b"):
        with pytest.raises(ValueError, match="linear, with ==, <= or >=, as"):
            parse(text, ["a", "b"])


def test_numbers_may_be_labels_in_an_order():
    grades = pd.CategoricalDtype([3, 2, 1, 0], ordered=True)
    space = pma.Space({"grade": grades, "T": (0, 1)})
    learner = pma.Learner(None, "maximum", space=space, random_seed=0)
    # As a file gives them back, they are numbers.
    table = pd.DataFrame({name: np.asarray(column) for name, column in learner.ask(6).items()})
    learner.tell(table, table.grade.to_numpy(float))
    assert learner.X.grade.tolist() == table.grade.tolist()
    assert not len(learner.pending)
    assert learner.recommend().grade.iloc[0] == 3


def test_what_arithmetic_rounds_is_no_other_point():
    space = pma.Space({"c": pma.Steps(0.1, 0.9, 0.1), "b": ["x", "y"]})
    rows = pd.DataFrame([(0.1 * k, b) for k in range(1, 10) for b in "xy"], columns=["c", "b"])
    assert not rows.c.isin(space.points().c).all()
    learner = pma.Learner(None, "maximum", space=space, random_seed=0)
    learner.tell(rows.iloc[:-1], np.sin(np.arange(17.0)))
    assert learner.ask().to_numpy().tolist() == [[0.9, "y"]]
    rows.loc[17, "c"] += 1e-16
    learner.tell(rows.iloc[-1:], 1.0)
    assert not len(learner.pending)


def test_few_points_are_listed():
    space = pma.Space({"a": range(5), "b": [0.0, 0.5, 1.0], "c": ["x", "y"]}, ["a + 4 * b <= 4", lambda t: t.c == "x"])
    every = [[a, b, "x"] for a in range(5) for b in (0, 0.5, 1) if a + 4 * b <= 4]
    assert space.points().sort_values(["a", "b"]).to_numpy().tolist() == every
    # Fractions in steps: of 21^4 combinations those that add up to one.
    fifth = pma.Space({name: pma.Steps(0, 1, 0.05) for name in "abcde"}, "a + b + c + d + e == 1")
    assert len(fifth.listed) == comb(24, 4)
    # A learner has them as a pool; a step that a table shows can be fixed.
    space = pma.Space({"a": pma.Steps(0, 0.35, 0.05)})
    assert space.points().a.iloc[3] == 0.15
    learner = pma.Learner(None, "maximum", space=space, random_seed=0)
    x = pd.concat([learner.ask(fixed={"a": value}) for value in (0.35, 2 * 0.05, 0.3, 1e-16)])
    assert np.allclose(x.a, [0.35, 0.1, 0.3, 0])
    learner.tell(x, x.a.to_numpy() ** 2)
    assert learner.n_left == 4
    assert len(pd.concat([x, learner.ask(4)]).drop_duplicates()) == 8
    with pytest.raises(ValueError, match="has 0 candidate"):
        learner.ask()


def test_labels_in_an_order_are_steps():
    grade = pd.CategoricalDtype(["low", "mid", "high"], ordered=True)
    space = pma.Space({"grade": grade, "a": (0, 1)})
    table = pd.DataFrame({"grade": ["high", "low", "mid"], "a": [0.0, 0.5, 1.0]})
    assert space.encode(table).tolist() == [[2, 0], [0, 0.5], [1, 1]]
    pd.testing.assert_frame_equal(space.decode(space.encode(table)), table.astype({"grade": grade}))
    assert pma.Space(table.astype({"grade": grade})).to_json() == space.to_json()
    assert type(space).from_json(space.to_json()).encode(table).tolist() == space.encode(table).tolist()
    gpm = pma.ard_gp(table, [3.0, 1.0, 2.0], space=space)
    assert list(gpm.model.coords["group"]) == ["grade", "a"]
    learner = pma.Learner(gpm, "function", random_seed=0)
    assert learner.ask().grade.item() in grade.categories
    [ax, _] = pma.plots.plot(learner)[0]
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["low", "mid", "high"]
    with pytest.raises(ValueError, match="grade must be one of 'low', 'mid', 'high'; got 'top'"):
        learner.tell({"grade": "top", "a": 0.5}, 1.0)
    with pytest.raises(ValueError, match="none of the numbers a"):
        pma.Space({"grade": grade, "a": (0, 1)}, "grade <= 1")


def test_the_pymc_model_has_the_same_density(fit):
    """Labels are exchangeable in it."""
    gpm, thetas = fit.gpm, fit.ensemble.thetas[:3]
    logp = gpm.model.compile_logp(mode="FAST_COMPILE")
    expected = [logp(gpm.unflatten(theta)) for theta in thetas]
    assert np.allclose(gpm.posterior().values(thetas), expected, rtol=0, atol=1e-6)
    groups = ["T", "stir", "solvent", "base", "base descriptors", "x1", "x2", "x3", "light"]
    assert list(gpm.model.coords["group"]) == groups
    one = gpm.space.sample(1, random_seed=0)
    X = gpm.space.encode(pd.concat([one.assign(solvent=name) for name in MIXED["solvent"]]))
    K = gpm.posterior().kernel.at(thetas[0], gpm.posterior().x_map(X)).K
    # As far apart as the ends of a number, two scaled units.
    lengthscale, variance = np.exp(thetas[0, 2]), np.exp(2 * thetas[0, gpm.labels.index("log_outputscale")])
    r = np.sqrt(5) * 2 / lengthscale
    apart = variance * (1 + r + r**2 / 3) * np.exp(-r)
    assert np.allclose(K, np.where(np.eye(3, dtype=bool), variance, apart), rtol=1e-10)


@pytest.mark.parametrize("name", ["expected_improvement", *nightly("uncertainty", "bald")])
def test_the_search_finds_what_a_list_of_all_points_has(name):
    inputs = {"a": range(12), "b": [0.0, 0.5, 1.0, 2.0], "c": list("uvwxyz"), "d": [False, True]}
    space = pma.Space(inputs, "a + b <= 11")
    table = space.sample(15, random_seed=4)
    y = np.sin(table.a) + table.c.isin(["u", "w"]) + 0.5 * table.b * table.d
    scorer = prepare(CRITERIA[name].make(), fit_of(table, y, space, 48))
    found = search(space, scorer)
    assert space.can_be(found.X).all()
    assert found.values[0] == pytest.approx(scorer.score(space.listed).max(), rel=1e-6)
    assert np.allclose(scorer.score(found.X[:5]), found.values[:5])


def test_the_search_changes_one_input_after_another():
    """A space of labels too large to list, whose best point is some changes away from all random ones."""

    class Counted:
        ensemble = type("E", (), {"X": np.empty((0, 48)), "y": np.zeros(5), "parts": [0], "n_models": 1})
        n_models, n_full, share, seeds = 1, 10_000, 1.0, np.empty((0, 48))

        def score(self, Z):
            return Z[:, ::6].sum(1)

        def coarse(self, *args):
            return None

        gradient = fine = coarse

    space = pma.Space({f"c{k}": list("uvwxyz") for k in range(8)})
    # Six rounds, from random points of which the best have about five of eight.
    assert search(space, Counted()).values[0] == 8


def test_the_search_climbs_within_the_constraints(fit):
    space, scorer = fit.gpm.space, prepare(CRITERIA["uncertainty"].make(), fit)
    found = search(space, scorer)
    assert may_be(space.decode(found.X))
    assert found.values[0] > scorer.score(space.draw(20_000, np.random.default_rng(1))).max()
    held = space.decode(search(space, scorer, 0, space.fixed({"solvent": "MeCN", "T": 77})).X)
    assert may_be(held)
    assert (held.solvent == "MeCN").all()
    assert (held["T"] == 77).all()


def test_the_optimum_of_a_space_speaks_of_labels():
    space = pma.Space({"a": (0, 1), "b": (0, 1), "c": ["u", "v"]}, "a + b <= 1")
    table = space.sample(25, random_seed=1)
    y = (table.c == "v") - (table.a - 0.3) ** 2 - (table.b - 0.9) ** 2
    learner = pma.Learner(pma.ard_gp(table, y, space=space), "maximum", random_seed=1)
    found = learner.optimum(10, progressbar=False)
    assert "v 100%" in repr(found)
    assert space.can_be(space.snap(found.samples.x.to_numpy())).all()
    # The best is on the line a + b = 1, at a = 0.2.
    assert found.x.a.iloc[0] == pytest.approx(0.2, abs=0.05)
    assert (found.x.a + found.x.b).iloc[0] == pytest.approx(1, abs=1e-3)
    assert 0 <= found.regret < 0.05
    assert learner.stop(0.1, progressbar=False)
    assert not re.search(r"\d\.\d{6}", repr(found))


def test_a_table_with_text_is_read_for_what_it_is(tmp_path):
    rng = np.random.default_rng(0)
    pool = pd.DataFrame(
        {
            "acid": pd.Categorical(np.repeat(["HCl", "TFA"], 20), ["TFA", "HCl"]),
            "T": rng.uniform(20, 90, 40),
            "dry": [True, False] * 20,
            "size": pd.Categorical([*"smlm"] * 10, [*"sml"], ordered=True),
        },
        index=[f"vial {k}" for k in range(40)],
    )
    learner = pma.Learner(None, "function", pool=pool, random_seed=1)
    x = learner.ask(5)
    learner.tell(x, (x.acid == "TFA") + x["T"] / 100 + 0.3 * x.dry)
    x = learner.ask(2)
    pd.testing.assert_frame_equal(x, pool.loc[x.index])
    learner.save(tmp_path / "run.nc")
    again = pma.Learner.load(tmp_path / "run.nc")
    for one in (learner, again):
        one.tell(x, [1.0, 1.2])
    pd.testing.assert_frame_equal(again.ask(2), learner.ask(2))
    with pytest.raises(ValueError, match="acid must be one of 'TFA', 'HCl'; got 'HBr'"):
        learner.tell({"acid": "HBr", "T": 50, "dry": True, "size": "s"}, 1.0)
    with pytest.raises(TypeError, match=r"see acid.*space="):
        pma.ard_gp(pool, rng.normal(size=40))
    assert pma.predict(learner.fit, pool).point.to_numpy()[0] == "vial 0"


def test_indices_and_relevance_are_of_inputs(fit):
    relevance = pma.relevance(fit)
    assert list(relevance.input.to_numpy()) == list(fit.gpm.model.coords["group"])
    with pytest.warns(pma.DataWarning, match="x1, x2, x3"), pytest.warns(pma.DataWarning, match="is_safe may exclude"):
        found = pma.sobol_indices(fit, draws=8, n_points=128, random_seed=1)
    assert list(found.input.to_numpy()) == list(MIXED)
    total = found.total.sel(summary="mean")
    assert total.sel(input="solvent") > total.sel(input="base")


def test_indices_of_labels_are_exact_where_these_are_all():
    space = pma.Space({"c": ["u", "v", "w"], "d": ["p", "q"]})
    table = pd.concat([space.points()] * 5)
    y = table.c.map({"u": 0.0, "v": 1.0, "w": 3.0}) + 0.5 * (table.d == "q")
    y += 0.001 * np.random.default_rng(0).normal(size=len(table))
    fit = pma.fit(pma.ard_gp(table, y, space=space), random_seed=1, progressbar=False)
    found = pma.sobol_indices(fit, draws=16, n_points=1024, random_seed=1)
    parts = np.array([np.var([0.0, 1.0, 3.0]), np.var([0.0, 0.5])])
    assert np.allclose(found["first"].sel(summary="mean"), parts / parts.sum(), atol=0.02)


def line():
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("slope") * pm.Data("x", [0.0, 1.0]), 1.0, observed=[0.1, 0.9])
    return model


def test_what_cannot_be_made_is_learned_and_told_of():
    space, table = mixed(), mixed().sample(6, random_seed=1)
    learner = pma.Learner(pma.ard_gp(table, yields(table), space=space), space=space, random_seed=1)
    point = space.sample(1, random_seed=2)
    # Nobody weighs to the last digit, and tables have few.
    learner.tell(point.assign(**{name: point[name].round(2) for name in ("x1", "x2", "x3")}), 1.0)
    with pytest.warns(pma.DataWarning, match=r"x1 = 0.9, x2 = 0.9, x3 = 0.4, and the space says 'x1 \+ x2 \+ x3 == 1'"):
        learner.tell(point.assign(x1=0.9, x2=0.9, x3=0.4), 1.0)
    with pytest.warns(pma.DataWarning, match="a combination that the space forbids: T = 119.0"):
        learner.tell(point.assign(solvent="water", T=119.0), 1.0)
    assert len(learner.y) == 9
    with pytest.raises(ValueError, match="a space is for GP models: list the points in a pool"):
        pma.Learner(line(), "function", space=pma.Space({"x": range(3)}))


def test_an_error_of_a_constraint_says_what_it_gets():
    with pytest.raises(AttributeError) as caught:
        pma.Space({"a": (0, 1), "s": ["x", "y"]}, [lambda table: table.b < 1])
    assert caught.value.__notes__ == ["the constraint <lambda> gets a table of points with the columns a, s"]


DATES = pd.date_range("2026-01-01", periods=3)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: pma.Space([(0, 1)]), "takes a dict"),
        (lambda: pma.Space({"a": (1, 0)}), "a must be finite .* low < high"),
        (lambda: pma.Space({"a": "DMF"}), "a must be .low, high."),
        (lambda: pma.Space({"a": BASES.assign(mass=np.nan)}), "the descriptors of a must be finite"),
        (lambda: pma.Space({"a": ["x", "x"]}), "a must have two labels or more, all different"),
        (lambda: pma.Space({"a": [1.0, 1.0]}), "two different finite numbers"),
        (lambda: pma.Steps(0, 1, -1), "positive step"),
        (lambda: pma.Space({"a": (0, 1)}, ["b <= 1"]), "b, which is none of the numbers a"),
        (lambda: pma.Space({"a": (0, 1), "b": (0, 1)}, ["a + b == 3"]), "no point of the space fulfils"),
        (lambda: pma.Space({"a": range(3)}, ["a >= 7"]), "no point of the space fulfils"),
        (lambda: pma.Space({"a": (0, 1)}, [lambda t: t.a > 2]), "hardly any point"),
        (lambda: pma.Space({"a": (0, 1)}, [lambda t: t.a > 0.1 and t.a < 0.5]), "gets a table of points: write &"),
        (
            lambda: pma.Space({"a": (0, 1), "s": ["x", "y"]}, [lambda t: t.s != "x"]).draw(
                1, np.random.default_rng(0), {1: 1.0, 2: 0.0}
            ),
            "hardly any point with s = x fulfils the constraints",
        ),
        (lambda: pma.Space({"a": (0, 1)}, [lambda t: 1.0]), "must return True or False for each"),
        (lambda: pma.Space({"a": (0, 1)}, [3]), "a text or a function"),
        (lambda: pma.Space({"a": (0, 1), "b": pma.Steps(0, 1, 0.1)}, ["a + b == 1"]), "has b, which has steps"),
        (lambda: mixed().points(), "more than 20,000 points"),
        (lambda: pma.Space(pd.DataFrame({"when": DATES})), "dates are not numbers; write"),
        (lambda: pma.Space({1: (0, 1)}), r"names: table.rename\(columns=str\); got \[1\]"),
        (lambda: pma.Space(pd.DataFrame([[1, "a"]], columns=["a", "a"])), "need different texts as names"),
        (lambda: pma.Space(pd.DataFrame({"T": ["79,2", "80,1"]})), "T holds '79,2': read the table with decimal"),
        (lambda: pma.Space(pd.DataFrame({"op": ["me", "me"]})), "or be left out; got .'me'."),
        (lambda: pma.Learner(None, "maximum", pool=pd.DataFrame({"s": ["a", "b", None]})), "got nan in row 2"),
        (lambda: pma.Space(pd.DataFrame({"id": [f"v{k}" for k in range(30)]})), r"table.set_index\('id'\)"),
        (lambda: pma.ard_gp(pd.DataFrame({"a": [1, 2]}), [1, 2], space={"b": (0, 1)}), "X must have a column b"),
        (lambda: pma.ard_gp([[1.0]], [1.0], space={"a": (0, 1)}, bounds=[(0, 1)]), "either bounds or space"),
        (lambda: pma.ard_gp([[1.0]], [1.0], space=3), "space must be a pma.Space"),
        (
            lambda: pma.embedding_gp(mixed().sample(4), np.arange(4.0), n_components=1, space=mixed()),
            "embedding_gp takes a space of numbers only",
        ),
        (lambda: pma.Learner(None, "function", space={"a": (0, 1)}, bounds=[(0, 1)]), "either pool=X_pool, bounds"),
    ],
)
def test_what_is_no_space_says_so(make, words):
    with pytest.raises((ValueError, TypeError), match=words):
        make()


def test_a_model_and_its_learner_share_the_space(fit):
    learner = pma.Learner(fit.gpm, "function")
    assert learner.space.to_json() == fit.gpm.space.to_json()
    for call, words in (
        (lambda: pma.Learner(fit.gpm, "function", space={"T": (0, 1)}), "the model must have the same space"),
        (lambda: pma.Learner(fit.gpm, "function", bounds=[(0, 1)] * 15), "more than a box"),
        (lambda: pma.active.pes(fit.gpm, fit=fit, bounds=[(0, 1)] * 15), "a box has none"),
        (lambda: learner.ask(fixed={"T": 10}), "outside the space"),
        (lambda: learner.ask(fixed={"solvents": "DMF"}), "fixed has solvents, which is none of the inputs"),
        (lambda: learner.ask(2, same="heat"), "same has heat, which is none of the inputs"),
    ):
        with pytest.raises(ValueError, match=words):
            call()
    # A batch shares what it must.
    plate = pma.Learner(None, "function", space=mixed(), random_seed=1).ask(4, same=["T", "solvent"])
    assert plate["T"].nunique() == plate.solvent.nunique() == 1
    assert len(plate.drop_duplicates()) == 4
    box = pma.Learner(None, "function", bounds=[(0, 1), (0, 1)], random_seed=1).ask(3, same=0)
    assert [len(set(column)) for column in box.T] == [1, 3]


def test_a_batch_shares_values_of_which_enough_rows_are_left():
    """The rows that promise most are the only ones at their temperatures."""
    rows = [(20, h, 0) for h in range(5)] + [(25, h, 1) for h in range(5)] + [(90, 2, 0), (91, 2, 0)]
    pool = pd.DataFrame(rows, columns=["T", "h", "shift"])
    some = pool.iloc[[0, 3, 6, 8]]
    learner = pma.Learner(
        pma.ard_gp(some, some["T"] + 0.1 * some["h"], space=pool), "maximum", pool=pool, random_seed=0
    )
    assert (learner.ask(3, same="T", fixed={"shift": 0})["T"] == 20).all()
    assert (learner.ask(3, same=["T"])["T"] == 25).all()
    with pytest.raises(ValueError, match="at most 1 candidates with the same T are left and 2 were asked for"):
        learner.ask(2, same="T")


def test_numbers_alone_are_a_box_with_more_to_say():
    """Any builder takes them, and the model is that of bounds."""
    space = pma.Space({"a": (0, 4), "b": pma.Steps(0, 10, 0.01)}, "a + b <= 12")
    assert isinstance(pma.Learner(None, "function", space=space)._ledger.candidates, SpaceCandidates)
    table = space.sample(12, random_seed=1)
    y = np.sin(table.a) + 0.1 * table.b
    for make in (pma.ard_gp, lambda *data, **where: pma.composite_gp(*data, "SE + LIN", **where)):
        ours, theirs = make(table, y, space=space), make(table, y, bounds={"a": (0, 4), "b": (0, 10)})
        theta = np.random.default_rng(0).normal(size=(2, ours.n_parameters))
        assert ours.labels == theirs.labels
        assert np.allclose(ours.posterior().values(theta), theirs.posterior().values(theta), rtol=1e-12)
    x = pma.Learner(ours, "function", random_seed=1).ask(2)
    assert (x.a + x.b <= 12 + 1e-9).all()


def test_pictures_show_labels(fit):
    axes = pma.plots.plot(fit)
    assert axes.shape == pma.plots.plot(pma.Learner(fit.gpm, "maximum", random_seed=1)).shape == (2, 4)
    ticks = {ax.get_xlabel(): [tick.get_text() for tick in ax.get_xticklabels()] for ax in axes.flat}
    assert ticks["solvent"] == ["DMF", "MeCN", "water"]
    assert list(ticks) == list(MIXED)
    # The band goes through the prediction at the point, and along a mixture the parts add up to one.
    at = fit.gpm.space.sample(1, random_seed=2)
    ax = pma.plots.plot_slices(fit, at).flat[4]
    x, y = ax.get_lines()[1].get_data()
    assert ax.get_xlabel() == "x1"
    assert np.interp(at.x1.item(), x, y) == pytest.approx(pma.predict(fit, at).f_mean.item(), abs=0.02)
    rest = (1 - x[30]) / (1 - at.x1)
    moved = at.assign(x1=x[30], x2=at.x2 * rest, x3=at.x3 * rest)
    assert pma.predict(fit, moved).f_mean.item() == pytest.approx(y[30], rel=1e-6)
    with pytest.raises(ValueError, match="for models with a space"):
        pma.plots.plot_slices(pma.fit(pma.ard_gp([[0.0], [1.0], [2.0]], [0.0, 1.0, 0.0]), progressbar=False))
    with pytest.raises(TypeError, match="fit of one model"):
        pma.plots.plot_slices(pma.Learner(fit.gpm, "maximum", random_seed=1))


def test_pictures_show_no_mixture_that_does_not_add_up():
    space = pma.Space({"water": (0, 1), "oil": (0, 1)}, constraints=["water + oil == 1"])
    X = space.sample(6, random_seed=1)
    learner = pma.Learner(pma.ard_gp(X, X.water.to_numpy() ** 2, space=space), "maximum", random_seed=1)
    for result in (learner, learner.fit, learner.optimum(n_optima=8)):
        axes = pma.plots.plot(result)
        assert [ax.get_xlabel() for ax in axes.flat] == ["water", "oil"]
        water, mean = axes.flat[0].get_lines()[1].get_data()
        possible = pma.predict(learner.fit, np.column_stack([water, 1 - water])).f_mean
        assert np.allclose(mean, possible, rtol=1e-6, atol=1e-9)
    for picture in (pma.plots.plot_predictions, pma.plots.plot_map):
        with pytest.raises(ValueError, match="parts of an equation"):
            picture(learner.fit)


def run(*arguments, code=0):
    assert main(["suggest", *map(str, arguments)]) == code


@pytest.mark.parametrize(
    "more", [["--bounds", "T=40:120:10", "a=0:1"], ["--bounds", "T=4:8", "--categorical", "s=u,v"]]
)
def test_the_command_line_goes_on_with_steps_or_labels_before_there_is_a_model(tmp_path, more):
    trials, sheet = tmp_path / "trials.csv", tmp_path / "next.csv"
    options = [trials, "--target", "y", "--learn", "maximum", *more, "--state", tmp_path / "run.nc", "-n", 2]
    trials.write_text(f"T,{'a' if len(more) == 3 else 's'},y\n")
    run(*options, "--output", sheet)
    rows = sheet.read_text().splitlines()[1:]
    trials.write_text(trials.read_text() + "".join(f"{row}{k}\n" for k, row in enumerate(rows)))
    run(*options)
    assert len(pma.Learner.load(tmp_path / "run.nc", model=lambda X, y: None).pending) == 2


def test_the_command_line_reads_columns_of_text(tmp_path, capsys):
    pool, done = tmp_path / "pool.csv", tmp_path / "done.csv"
    rows = [f"v{k},{('HCl', 'TFA', 'AcOH')[k // 2]},{20 + k % 2 * 20},{k % 2}" for k in range(6)]
    pool.write_text("id,acid,T,flask\n" + "\n".join(rows) + "\n")
    done.write_text("id,acid,T,flask,y\nv0,HCl,20,0,1.2\nv2,TFA,20,0,2.2\nv3,TFA,40,1,3.2\n")
    options = ["--target", "y", "--id", "id", "--candidates", pool, "--categorical", "flask", "--learn", "maximum"]
    options += ["--state", tmp_path / "run.nc"]
    run(done, *options, "-n", 2)
    shown = capsys.readouterr()
    assert "inputs: acid, T, flask" in shown.err
    open_ones = [line.split()[0] for line in shown.out.splitlines()[1:]]
    assert len(open_ones) == 2
    assert set(open_ones) <= {"v1", "v4", "v5"}
    left = next(row for row in rows if row.split(",")[0] == open_ones[0])
    done.write_text(done.read_text() + f"{left},2.0\n")
    run(done, *options)
    assert "4 results" in capsys.readouterr().err
    # A report, and Python, speak of labels.
    assert main(["report", str(tmp_path / "run.nc")]) == 0
    assert re.search(r"acid +(HCl|TFA|AcOH)", capsys.readouterr().out)
    learner = pma.Learner.load(tmp_path / "run.nc")
    assert list(learner.recommend()) == list(learner.pending) == ["acid", "T", "flask"]
    done.write_text(done.read_text() + "v9,HBr,20,0,1.0\n")
    run(done, *options, code=2)
    assert "acid must be one of" in capsys.readouterr().err


def price(table):
    return np.where(table.solvent == "DMF", 5.0, 1.0) + table["T"] / 100


def test_a_criterion_is_divided_by_the_cost(fit, tmp_path):
    table = fit.gpm.space.sample(20, random_seed=1)
    X = fit.gpm.space.encode(table)
    dear, plain, gain, plain_gain = (
        pma.Learner(fit.gpm, learn, criterion=criterion, cost=cost, random_seed=1)
        for learn, criterion in (("maximum", None), ("function", "uncertainty"))
        for cost in (price, None)
    )
    scorer, scores = dear._current.scorer(), [one._current.scorer().score(X) for one in (plain, gain, plain_gain)]
    # Of a logarithm it is taken off.
    assert np.allclose(scorer.score(X) + np.log(price(table)), scores[0], rtol=1e-9)
    assert np.allclose(scores[1] * price(table), scores[2], rtol=1e-9)
    # Along numbers, also at the ends.
    T, h = fit.gpm.space.columns["T"][0], 1e-4
    X[0, T], X[1, T] = 40.0, 120.0
    value, slope = scorer.gradient(X)
    assert np.allclose(value, scorer.score(X), rtol=1e-9)
    step = h * np.eye(X.shape[1])[T]
    expected = (scorer.score(X + step) - scorer.score(X - step)) / (2 * h)
    assert np.allclose(slope[2:, T], expected[2:], rtol=1e-3, atol=1e-5)
    assert np.allclose(slope[:2, T], expected[:2], rtol=1e-2, atol=1e-4)
    assert dear.spent == 0
    dear.run(yields, 1, progressbar=False, budget=8)
    assert 0 < dear.spent == price(dear.X.iloc[25:]).sum() <= 8
    assert len(dear.pending) == 0
    dear.save(tmp_path / "run.nc")
    with pytest.raises(ValueError, match=r"1 function.* pass the space as space="):
        pma.Learner.load(tmp_path / "run.nc")
    with pytest.raises(ValueError, match="differs from the file"):
        pma.Learner.load(tmp_path / "run.nc", space=pma.Space({"T": (0, 1)}), cost=price)
    with pytest.raises(ValueError, match="pass it as cost="):
        pma.Learner.load(tmp_path / "run.nc", space=mixed())
    again = pma.Learner.load(tmp_path / "run.nc", space=mixed(), cost=price)
    assert again.spent == dear.spent
    pd.testing.assert_frame_equal(again.ask(), dear.ask())


def test_prices_are_a_column_of_the_pool(tmp_path):
    rng = np.random.default_rng(3)
    table = pd.DataFrame(rng.uniform(size=(40, 2)), columns=["a", "b"], index=[f"p{i}" for i in range(40)])
    gpm = pma.ard_gp(table[:8], np.sin(4 * table.a[:8]))
    prices = pd.Series(rng.uniform(1, 9, 40), table.index)

    def known(points):
        return prices.to_numpy()[(table.to_numpy() == points.to_numpy()[:, None]).all(2).argmax(1)]

    learners = [
        pma.Learner(gpm, "maximum", pool=pool, cost=cost, random_seed=1)
        for pool, cost in ((table.assign(price=prices), "price"), (table, prices), (table, known))
    ]
    column = learners[0]
    for _ in range(2):
        rows = [learner.ask() for learner in learners]
        for row, learner in zip(rows, learners, strict=True):
            pd.testing.assert_frame_equal(row, rows[0])
            learner.tell(row, np.sin(4 * row.a))
    assert {learner.spent for learner in learners} == {prices[list(column.asked_labels)].sum()}
    column.save(tmp_path / "run.nc")
    again = pma.Learner.load(tmp_path / "run.nc")
    assert again.spent == column.spent
    pd.testing.assert_frame_equal(again.ask(), column.ask())
    # Elsewhere a price is not known.
    with pytest.raises(ValueError, match="the prices of its own points only"):
        again.tell(pd.DataFrame({"a": [0.5], "b": [0.5]}), 1.0)
    assert again.spent == column.spent


def test_what_was_set_otherwise_has_the_price_of_what_was_asked(tmp_path):
    """Whether it failed or not; of a pool that is a table or a dict."""
    pool = pd.DataFrame({"a": [0.1, 0.9, 1.9, 3.1], "price": [1.0, 2.0, 3.0, 4.0]}, index=list("pqrs"))
    learner = pma.Learner(None, "function", pool=pool, cost="price", random_seed=1)
    asked = learner.ask(2)
    learner.tell(asked.round(), [1.0, np.nan], asked=asked, failed=[False, True])
    assert learner.spent == pool.price[asked.index].sum()
    learner.save(tmp_path / "run.nc")
    assert pma.Learner.load(tmp_path / "run.nc").spent == learner.spent
    as_dict = {"x": [1.0, 2.0, 3.0], "price": [2.0, 3.0, 4.0]}
    learner = pma.Learner(line(), "parameters", pool=as_dict, cost="price", random_seed=1)
    learner.tell(learner.ask(fixed={"x": 2.0}), 2.1)
    assert learner.spent == 3.0
    # A budget that prices add up to is spent.
    pool = pd.DataFrame({"a": np.linspace(0, 1, 9), "price": 0.1})
    learner = pma.Learner(None, "function", pool=pool, cost="price", random_seed=1)
    learner.run(lambda rows: rows.a.item(), 9, budget=0.3, progressbar=False)
    assert len(learner.asked_labels) == 3


def test_costs_are_positive_functions_of_points():
    box = {"bounds": {"a": (0, 1), "b": (0, 1)}}
    assert pma.Learner(None, "function", **box, cost=lambda t: 1 + t.a).spent == 0
    table = pd.DataFrame({"a": [0.0, 1.0, 2.0], "price": [1.0, 2.0, 3.0]}, index=["p", "q", "r"])
    pool = {"pool": table}
    in_order = r"row 0 is 'p' in pool and 'r' in cost. Write cost.loc\[pool.index\]"
    for cost, where, words in (
        (3.0, box, "a function of a table"),
        ("price", box, "a function of a table"),
        ([1.0, 2.0], box, "prices of points are for a pool"),
        (lambda t: t.a - 2, box, "positive"),
        (lambda t: [1, 2], box, r"each of 64 points; got numbers of shape \(2,\)"),
        ("dollars", pool, "is no column of the pool, which has a, price"),
        ("price", {"pool": table.assign(price=[1.0, -2.0, 3.0])}, "positive number for each of 3 points; point 1"),
        ("price", {"pool": table.assign(a=0.0)}, r"lists \[0.0\] at two prices"),
        ([1.0, 2.0], pool, "each of 3 points"),
        (table.price[::-1], {"pool": table[["a"]]}, in_order),
    ):
        with pytest.raises((TypeError, ValueError), match=words):
            pma.Learner(None, "function", **where, cost=cost)
    with pytest.raises(KeyError, match="dose") as raised:
        pma.Learner(None, "function", **box, cost=lambda t: t["dose"])
    [note] = raised.value.__notes__
    assert note == "The function cost= gets a DataFrame with the columns a, b, a row for each point."
    with pytest.raises(ValueError, match="a budget needs to know the cost"):
        pma.Learner(None, "function", **box).run(len, 3, budget=3)


@pytest.mark.parametrize("seed", [0, 1])
def test_climbs_go_on_to_where_a_function_forbids_more(seed):
    space = pma.Space({"T": (40, 120), "u": (0, 1)}, [lambda table: table["T"] * table["u"] < 60])
    X = space.sample(10, random_seed=seed)
    y = -((X["T"] - 110) ** 2) / 500 + 3 * X.u
    scorer = prepare(CRITERIA["upper_confidence_bound"].make(), fit_of(X, y, space))
    found = search(space, scorer, seed)
    assert space.can_be(found.X).all()
    assert found.values[0] > scorer.score(space.draw(5_000, np.random.default_rng(1))).max() - 1e-2 * np.ptp(y)
