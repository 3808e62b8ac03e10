"""The calls of the README and of a page, on stand-in data; `getting_started` runs when the documentation is built."""

import ast
import re
from pathlib import Path

import arviz as az
import numpy as np
import pandas as pd
import pytest

import pymc_active as pma

README = Path(__file__).parent.parent / "README.md"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not README.is_file(), reason="a source archive has no README"),
    # Twelve points: fits may have doubts, which they state.
    pytest.mark.filterwarnings("ignore::pymc_active.ActiveWarning"),
]


def measure(X):
    X = np.asarray(X, float)
    return np.sin(X[:, 0] / 25) - 0.0005 * (X[:, 1] - 30) ** 2


@pytest.fixture(scope="module")
def names(tmp_path_factory):
    """What a reader of the page has: data, a pool and a function."""
    rng = np.random.default_rng(0)
    X, X_new = (rng.uniform((40, 5), (120, 60), (n, 2)) for n in (8, 5))
    return {
        **{"X": X, "y": measure(X), "y_new": 0.4, "X_new": X_new, "X_pool": X_new, "candidates": X_new},
        **{"measure": measure, "kernels": ["SE", "LIN"], "Learner": pma.Learner},
        **{"table": pd.DataFrame({"acid": ["HCl", "TFA"] * 6, "T": np.linspace(20, 90, 12)})},
        **{"passed": [True, False] * 4, "simulate": lambda X: 2.0 * X[:, 3] + X[:, 17] ** 2},
    }


def test_the_lines_run_in_order_and_so_do_the_calls_of_the_tables(names, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = README.read_text()
    [own, block] = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    # Large doses tell nearly as much: about one seed in sixty asks for the largest.
    exec(own.replace("repeat=True", "repeat=True, random_seed=0"), names)
    assert 5 < names["x"]["dose"].item() < 12
    assert np.isfinite(az.loo(names["trace"]).elpd)
    assert "n=25" in block
    exec(block.replace("n=25", "n=1"), names)
    assert np.isfinite(az.loo(names["trace"]).elpd)
    assert names["prediction"].y_quantile.shape == (2, 5)
    assert pma.Learner.load("run.nc").ask().shape == (1, 2)
    ran = []
    for call in re.findall(r"`([^`\n]+\))[^`\n]*`", page.replace(own, "").replace(block, "")):
        # Some stand for others, and some are words with brackets.
        if "..." in call or call.startswith(("pip ", "pma.active.bald_from_trace", "pma.search.comp")):
            continue
        try:
            ast.parse(call)
        except SyntaxError:
            continue
        names.setdefault("gpm_before", names["gpm"])
        value = eval(call, names)
        if call.startswith("pma.embedding_gp"):
            # What the next call is about.
            names["learner"] = pma.Learner(value, "hyperparameters", bounds=names["bounds"], random_seed=0)
        ran.append(call)
    assert len(ran) >= 9, ran


def test_the_page_about_spaces_runs():
    page = (README.parent / "docs" / "spaces.md").read_text()
    block, in_contexts = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    descriptors = pd.DataFrame({"pKa": [3.2, 5.1, 9.4], "mass": [101.0, 80.0, 250.0]}, index=["a", "b", "c"])
    names = {"pma": pma, "descriptors": descriptors, "yields": [1.0, 2.0, 1.5, 0.3]}
    exec(block, names)
    assert np.allclose(names["x"][["salt", "sugar", "starch"]].sum(axis=1), 1)
    assert len(names["learner"].y) == 4
    space = pma.Space({"dose": (0, 1), "humidity": (20, 80), "batch": ["B11", "B12"]})
    logbook = space.sample(6, random_seed=1)
    names = {"learner": pma.Learner(None, "maximum", space=space, random_seed=0), "yields": [1.0, 2.0]}
    names |= {"logbook": logbook, "logbook_yields": np.linspace(0.5, 1.5, 6)}
    exec(in_contexts, names)
    assert len(names["learner"].y) == 8


@pytest.mark.nightly
def test_the_page_about_your_own_model_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = (README.parent / "docs" / "your_own_model.md").read_text()
    # The candidates of a box, and of another model.
    blocks = [block for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "bounds" not in block]
    names = {}
    for block in blocks:
        # A learner replaces only the files that it wrote.
        (tmp_path / "run.nc").unlink(missing_ok=True)
        exec(block, names)
    assert len(blocks) == 3
    assert len(names["learner"].y) == 5
