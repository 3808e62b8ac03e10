"""The maximum on the inputs found, and the picture of the tree."""

import pickle

import matplotlib as mpl
import numpy as np
import pytest
from numpy.testing import assert_allclose

from pymc_active.plots.hierarchy import plot_search_tree
from pymc_active.relevant_inputs.evaluations import EvaluationError, EvaluationInterrupt
from pymc_active.relevant_inputs.search import hds, hds_then_optimize

pytestmark = pytest.mark.slow

mpl.use("agg")

# Of the tree alone.
SEARCH = {"bandwidth": 0.8, "signal_variance": 1.0, "noise_variance": 1e-3, "check": False, "random_seed": 1}
WIDTH = np.array([2.0, 2, 2, 2, 200, 2, 2, 2])
BOX = [(0, w) for w in WIDTH]


def bump(X):
    """Largest, 1, where u₄ = 0.4 and u₆ = -0.3."""
    U = X / WIDTH * 2 - 1
    return 2 * np.exp(-3 * (U[:, 4] - 0.4) ** 2 - 2 * (U[:, 6] + 0.3) ** 2) - 1


@pytest.fixture(scope="module")
def selection():
    """The search that comes first."""
    return hds(bump, 8, bounds=BOX, **(SEARCH | {"bandwidth": 0.4 * WIDTH}))


def optimize(f, **keywords):
    return hds_then_optimize(f, 8, bounds=BOX, **(SEARCH | {"bandwidth": 0.4 * WIDTH}), **keywords)


def test_the_maximum_is_found_on_the_inputs_found(selection):
    """Whatever the units; an evaluation that fails counts, and another point is asked."""
    calls = []

    def f(X):
        calls.extend(X)
        return np.where(len(calls) == selection.n_evaluations + 1, np.nan, bump(X))

    found = optimize(f, n=2, criterion="expected_improvement")
    assert found.selection.active == [4, 6]
    assert len(calls) == selection.n_evaluations + 2
    assert len(found.learner.y) == selection.n_evaluations + 1
    assert bump(found.best[None])[0] > 0.9
    assert_allclose(np.delete(found.best, [4, 6]), 1)
    assert f"input 4 = {found.best[4]:.4g}" in repr(found)


def test_the_minimum_on_the_inputs_found():
    best = optimize(lambda X: -bump(X), n=1, minimize=True, criterion="thompson").best
    assert bump(best[None])[0] > 0.9


@pytest.mark.parametrize(
    ("error", "kind"), [(OSError("stuck"), EvaluationError), (KeyboardInterrupt(), EvaluationInterrupt)]
)
def test_nothing_is_lost_when_f_fails_in_the_search_for_the_maximum(error, kind, selection):
    calls = []

    def f(X):
        calls.extend(X)
        if len(calls) > selection.n_evaluations:
            raise error
        return bump(X)

    with pytest.raises(kind) as caught:
        optimize(f, n=2, criterion="thompson")
    kept = pickle.loads(pickle.dumps(caught.value)).selection
    assert kept.active == [4, 6]
    assert kept.n_evaluations == selection.n_evaluations
    learner = caught.value.learner
    assert len(learner.y) == selection.n_evaluations
    assert len(learner.pending) == 1


def test_nothing_to_optimise_keeps_the_selection():
    rng = np.random.default_rng(0)
    with pytest.raises(EvaluationError, match="no active input was found") as caught:
        optimize(lambda X: rng.normal(0, 0.03, len(X)), n=5)
    assert caught.value.selection.n_evaluations > 10
    with pytest.raises(ValueError, match="n must be a positive"):
        optimize(lambda X: pytest.fail("asked"), n=0)


def test_tree_shows_every_node_once(selection):
    ax = plot_search_tree(selection)
    boxes = [text.get_text().split("\n")[0] for text in ax.texts]
    assert sorted(boxes) == sorted(selection.tree_table().inputs)
    bold = [text.get_text().split("\n")[0] for text in ax.texts if text.get_fontweight() == "bold"]
    assert sorted(map(int, bold)) == selection.active
    assert "found: 4, 6" in ax.get_title(loc="left")
    places = [text.get_position() for text in ax.texts]
    assert len(set(places)) == len(places)
    # The root with its halves, and the test of the rest.
    assert len(plot_search_tree(selection, max_depth=1).texts) == 4
    mpl.pyplot.close("all")


@pytest.mark.parametrize(("retest", "n_roots"), [(False, 1), (True, 2)])
def test_trees_of_one_node_can_be_drawn(retest, n_roots):
    rng = np.random.default_rng(0)
    result = hds(lambda X: rng.normal(0, 0.03, len(X)), 20, retest=retest, **SEARCH)
    assert len(plot_search_tree(result).texts) == n_roots
    mpl.pyplot.close("all")


def test_other_objects_are_not_drawn():
    with pytest.raises(TypeError, match="result of hds"):
        plot_search_tree(3)
