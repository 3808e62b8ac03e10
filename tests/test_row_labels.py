"""A row of inputs and its result belong together by their labels, where both have some."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from numpy.testing import assert_array_equal

import pymc_active as pma

rng = np.random.default_rng(1)
NAMES = ["S1", "S2", "S3", "S4"]
X = pd.DataFrame(rng.uniform(size=(4, 2)), columns=["heat", "acid"], index=NAMES)
y = pd.Series([1.0, 2.0, 3.0, 4.0], index=NAMES)

FIT = pma.fit(pma.ard_gp(X - 1.0, y.to_numpy(), bounds=[(-1, 1)] * 2), random_seed=1, progressbar=False)

TAKERS = {
    "ard_gp": lambda X, y: pma.ard_gp(X, y),
    "embedding_gp": lambda X, y: pma.embedding_gp(X, y, n_components=1),
    "composite_gp": lambda X, y: pma.composite_gp(X, y, "SE"),
    "set_data": lambda X, y: pma.ard_gp([[0.0, 0.0]], [0.0]).set_data(X, y),
    "ard_gp of labels": lambda X, y: pma.ard_gp(X, y > 2, likelihood="bernoulli"),
    "update": lambda X, y: FIT.update(X, y),
    "predict": lambda X, y: pma.predict(FIT, X, y_new=y),
    "ard_gp of mapped outputs": lambda X, y: pma.ard_gp(X, y, likelihood="warped"),
    "tell": lambda X, y: pma.Learner(FIT.gpm, pool=X).tell(X, y),
    "search": lambda X, y: pma.search.compositional_kernel_search(X, y),
}


@pytest.mark.parametrize("take", TAKERS.values(), ids=TAKERS)
def test_results_in_another_order_than_their_rows_are_refused(take):
    with pytest.raises(ValueError, match=r"row 0 is 'S1' in X and 'S4' in \w+\. Write \w+\.loc\[X\.index\]"):
        take(X, y[::-1])


def test_results_of_other_rows_and_of_counted_ones_in_another_order_are_refused():
    with pytest.raises(ValueError, match="row 3 is 'S4' in X and 'S9' in y"):
        pma.ard_gp(X, y.rename({"S4": "S9"}))
    with pytest.raises(ValueError, match="row 0 is 0 in X and 3 in y"):
        pma.ard_gp(X.reset_index(drop=True), y.reset_index(drop=True)[::-1])
    # As of a shuffled table, and results that were sorted.
    shuffled = X.reset_index(drop=True)[::-1]
    with pytest.raises(ValueError, match="row 0 is 3 in X and 0 in y"):
        pma.ard_gp(shuffled, y.reset_index(drop=True))
    with pytest.raises(ValueError, match="row 0 is 3 in X and 0 in y_sd"):
        pma.ard_gp(shuffled, y.to_numpy(), y_sd=y.reset_index(drop=True))


@pytest.mark.parametrize("as_table", [pd.Series.to_frame, lambda y: xr.DataArray(y).rename(dim_0="sample")])
def test_labels_of_tables_of_one_column_and_of_data_arrays_count(as_table):
    learner = pma.Learner(pma.ard_gp(X.to_numpy(), y.to_numpy()), pool=X)
    with pytest.raises(ValueError, match="row 0 is 'S1' in X and 'S4' in y"):
        learner.tell(X, as_table(y[::-1]))
    learner.tell(X, as_table(10 + y))
    assert_array_equal(learner.y[4:], 10 + y)


@pytest.mark.parametrize(
    ("rows", "results"),
    [
        (X, y),
        (X[::-1], y[::-1]),
        (X, y.to_numpy()[::-1]),
        (X.to_numpy(), y[::-1]),
        (X, y[::-1].reset_index(drop=True)),
        (X.reset_index(drop=True), y[::-1]),
        (X.sample(frac=1, random_state=1).reset_index().rename(columns={"index": "name"})[["heat", "acid"]], y),
    ],
    ids=["equal", "both reversed", "no labels", "an array of rows", "counted results", "counted rows", "renumbered"],
)
def test_rows_and_results_without_labels_on_both_sides_go_by_position(rows, results):
    assert_array_equal(pma.ard_gp(rows, results).y, np.asarray(results))
