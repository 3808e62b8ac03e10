"""A run that is saved while it has no model yet goes on as if it had not been, whatever it chooses from."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

import pymc_active as pma

rng = np.random.default_rng(0)
TABLE = pd.DataFrame(rng.uniform(size=(30, 2)), columns=["heat", "acid"], index=[f"v{k}" for k in range(30)])
TEXT = TABLE.assign(solvent=rng.choice(["DMF", "water"], 30), size=pd.Categorical(rng.choice([*"sml"], 30), [*"sml"]))
MIXED = {"T": (40, 120), "stir": pma.Steps(100, 600, 50), "solvent": ["DMF", "MeCN"], "a": (0, 1), "b": (0, 1)}
WHERE = {
    "array": {"pool": TABLE.to_numpy()},
    "whole numbers": {"pool": np.arange(60).reshape(30, 2)},
    "table": {"pool": TABLE},
    "table with text": {"pool": TEXT},
    "box": {"bounds": [(0, 1), (2, 3)]},
    "box by name": {"bounds": {"heat": (0, 1), "acid": (2, 3)}},
    "space of numbers": {"space": pma.Space({"T": (40, 120), "stir": pma.Steps(100, 600, 50)})},
    "space": {"space": pma.Space(MIXED, "a + b == 1")},
    "listed space": {"space": pma.Space({"stir": range(100, 601, 100), "solvent": ["DMF", "MeCN"]})},
}


def same(a, b):
    pd.testing.assert_frame_equal(a, b) if isinstance(a, pd.DataFrame) else assert_array_equal(a, b)
    assert type(a) is type(b)


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("n_told", [0, 2])
def test_a_run_without_a_model_goes_on_from_its_file(where, n_told, tmp_path):
    one = pma.Learner(None, "maximum", random_seed=1, **WHERE[where])
    asked = one.ask(4)
    if n_told:
        one.tell(asked[:n_told], [1.0, 1.0])
    one.save(tmp_path / "run.nc")
    other = pma.Learner.load(tmp_path / "run.nc")
    assert str(other) == str(one)
    for learner in (one, other):
        learner.tell(learner.pending[:1], 1.0)
        learner.tell(learner.pending[:1], np.nan)
        if len(learner.pending):
            learner.forget(learner.pending[:1])
        learner.correct(0, 1.5)
    for what in ("X", "y", "pending", "failures"):
        same(getattr(one, what), getattr(other, what))
    same(one.ask(2), other.ask(2))
    assert one.design().identical(other.design())
