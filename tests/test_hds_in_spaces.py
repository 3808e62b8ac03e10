"""Which inputs matter, where some are labels or steps."""

from __future__ import annotations

from itertools import product

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

import pymc_active as pma
from pymc_active.active import hds
from pymc_active.hds import HDSLearner

mpl.use("agg")

BASES = pd.DataFrame({"pKa": [3.2, 5.1, 9.4], "mass": [101.0, 80.0, 250.0]}, index=["a", "b", "c"])
SPACE = pma.Space(
    {f"x{k}": (-2, 5) for k in range(8)}
    | {"stir": pma.Steps(100, 600, 50), "solvent": ["DMF", "MeCN", "water"], "base": BASES, "dry": [False, True]}
    | {"grade": pd.CategoricalDtype(["low", "mid", "high"], ordered=True)}
    | {f"label{k}": list("uvw") for k in range(12)}
)


def yields(table):
    """Labels in the middle matter, and the base alone where it is dry."""
    found = np.sin(table.x3) + (table.solvent == "MeCN") + (table.stir / 300) ** 2
    return (found + table.dry * (table.base == "b") + 0.5 * (table.label7 == "w")).to_numpy(float)


@pytest.mark.parametrize("noise", [0.0, pytest.param(0.05, marks=pytest.mark.slow)])
def test_inputs_are_found_by_name(noise):
    rng, tables = np.random.default_rng(0), []

    def f(table):
        tables.append(table)
        return yields(table) + noise * rng.normal(size=len(table))

    found = hds(f, SPACE, random_seed=1)
    assert found.active == ["x3", "stir", "solvent", "base", "dry", "label7"]
    assert found.stopped == "decided"
    assert "HDSResult of 25 inputs: active inputs x3, stir, solvent" in repr(found)
    asked = pd.concat(tables)
    assert list(asked.columns) == SPACE.names
    assert SPACE.can_be(SPACE.encode(asked)).all()
    assert np.array_equal(SPACE.snap(SPACE.encode(asked)), SPACE.encode(asked))
    assert set(asked.stir) == set(range(100, 601, 50))
    assert set(asked.solvent) == {"DMF", "MeCN", "water"}
    X, y = found.data()
    pd.testing.assert_frame_equal(X.reset_index(drop=True), asked[found.active].reset_index(drop=True))
    assert len(y) == found.n_evaluations
    gpm = found.to_model()
    assert gpm.space.names == found.active
    assert len(gpm.y) == (len(y) if noise else len(X.assign(y=y).drop_duplicates()))
    axes = pma.plots.plot(found)
    assert {ax.get_xlabel() for ax in axes[0]} == {f"input {name}" for name in found.active}


def test_what_is_found_is_what_all_points_show():
    """Of random tables of a few inputs, those that change f between any two of all points."""
    variables = {"a": ["p", "q"], "b": [1, 2, 5], "c": list("uvw"), "d": [False, True], "e": range(4)}
    space, sizes = pma.Space(variables), [2, 3, 3, 2, 4]
    every = pd.DataFrame(list(product(*variables.values())), columns=list(variables))
    pd.testing.assert_frame_equal(space.points(), every, check_dtype=False)
    for seed in range(6):
        rng = np.random.default_rng(seed)
        matters = rng.uniform(size=5) < 0.5
        values = rng.normal(size=np.where(matters, sizes, 1)) * np.ones(sizes)
        known = dict(zip(map(tuple, every.to_numpy().tolist()), values.ravel(), strict=True))
        expected = [name for k, name in enumerate(variables) if np.ptp(values, axis=k).max() > 0]

        def f(row, known=known):
            return known[tuple(row.iloc[0].tolist())]

        if expected:
            assert hds(f, variables, vectorized=False, random_seed=seed).active == expected


@pytest.mark.slow
def test_asking_by_hand_and_a_file(tmp_path):
    learner, rng = HDSLearner(SPACE, random_seed=1), np.random.default_rng(0)
    assert learner.ask(3).columns.tolist() == SPACE.names
    for k in range(1000):
        if learner.is_finished:
            break
        if k == 20:
            learner.save(tmp_path / "search.nc")
            before, learner = learner, HDSLearner.load(tmp_path / "search.nc")
            pd.testing.assert_frame_equal(learner.pending, before.pending)
            assert learner.settings.space.to_json() == SPACE.to_json()
        learner.ask(2)
        x = learner.pending.iloc[rng.permutation(len(learner.pending))][:2]
        learner.tell(x, yields(x))
    assert learner.recommend() == hds(yields, SPACE, random_seed=1).active
    assert repr(learner).startswith("HDSLearner of 25 inputs, active so far: x3, stir")
    learner = HDSLearner(SPACE, random_seed=1)
    x = learner.ask()
    with pytest.raises(ValueError, match=r"solvent must be one of 'DMF', 'MeCN', 'water'; got 'DMSO'"):
        learner.tell(x.assign(solvent="DMSO"), yields(x))
    with pytest.raises(ValueError, match="x must be among the 8 point"):
        learner.tell(x.assign(x0=0.0), yields(x))


@pytest.mark.parametrize(
    ("keywords", "told"),
    [
        ({"n_dims": pma.Space({"a": (0, 1), "b": (0, 1)}, "a + b <= 1")}, "which constraints of a space forbid"),
        ({"n_dims": SPACE, "bounds": (0, 1)}, "in a space leave out bounds"),
        ({"n_dims": SPACE, "test": "fdt"}, "in a space leave out bounds, bandwidth, signal_variance and tests"),
        ({"n_dims": SPACE, "bandwidth": 0.3, "signal_variance": 1.0, "noise_variance": 0.1}, "in a space leave out"),
        ({"n_dims": {"a": "DMF"}}, "a must be .low, high."),
        ({"n_dims": SPACE, "model": pma.ard_gp([[0.0], [1.0], [2.0]], [0.0, 1.0, 0.5])}, "leave n_dims out"),
    ],
)
def test_what_cannot_be_searched_says_so(keywords, told):
    with pytest.raises((ValueError, TypeError), match=told):
        hds(yields, **keywords)
