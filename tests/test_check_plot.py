"""What the picture of a check shows: the numbers behind the artists, and wrong arguments."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
import xarray as xr
from numpy.testing import assert_allclose, assert_array_equal

from pymc_active import plots

APPROXIMATIONS = ["mgp", "map", "bbq", "modes", "draws"]
ESTIMATORS = ["fit", "reference"]


def one_model(*, decide=True, known=-6.8):
    """A made-up report of one model."""
    skl = np.random.default_rng(1).lognormal(size=(5, 20))
    skl[1, 0] = 0.0
    groups = {
        "predictions": xr.Dataset(
            {"skl": (("approximation", "point"), skl)},
            coords={"approximation": APPROXIMATIONS},
        ),
        "evidence": xr.Dataset(
            {
                "log_evidence": ("estimator", [-7.2, known]),
                "standard_error": ("estimator", [np.nan, 0.1]),
            },
            coords={"estimator": ESTIMATORS},
        ),
    }
    if decide:
        groups["decision"] = decision(["bald", "uncertainty"], [0.7, 0.98])
    tree = xr.DataTree.from_dict(groups)
    tree.attrs["verdict"] = "MCMC converged. What to do: go on."
    return tree


def decision(names, ratios):
    return xr.Dataset(
        {"regret_ratio": ("criterion", ratios)},
        coords={"criterion": names},
    )


def labels(ax):
    return [text.get_text() for text in ax.get_yticklabels()]


def test_predictions_have_a_dot_for_each_point_and_a_bar_at_the_median():
    tree = one_model()
    skl = tree["predictions"]["skl"].to_numpy()
    ax = plots.plot_check(tree)[0]
    assert ax.get_xscale() == "log"
    assert labels(ax) == APPROXIMATIONS
    assert_array_equal(ax.lines[0].get_xdata(), np.sort(skl[0]))
    # A zero has no place on a logarithmic axis.
    assert len(ax.lines[1].get_xdata()) == 19
    assert_allclose(ax.collections[2].get_segments()[0][:, 0], np.median(skl[2]))


def test_evidence_is_shown_less_the_reference_with_two_standard_errors():
    ax = plots.plot_check(one_model())[1]
    assert labels(ax) == ["fit"]
    assert_allclose(ax.containers[0].lines[0].get_xdata(), [-0.4])
    [bar] = ax.containers[0].lines[2][0].get_segments()
    assert_allclose(bar[:, 0], [-0.6, -0.2])
    assert len(plots.plot_check(one_model(known=np.nan))) == 2


def test_decisions_and_the_verdict():
    axes = plots.plot(one_model())
    assert len(axes) == 3
    assert labels(axes[2]) == ["bald", "uncertainty"]
    assert [text.get_text() for text in axes[2].texts] == ["0.70", "0.98"]
    assert [line.get_marker() for line in axes[2].lines[:2]] == ["s", "o"]
    assert axes[0].figure.get_supxlabel() == "MCMC converged. What to do: go on."
    assert len(plots.plot_check(one_model(decide=False))) == 2
    figure, given = plt.subplots(3)
    assert (plots.plot_check(one_model(), axes=given) == given).all()
    assert figure.get_supxlabel() == ""


def test_no_panel_runs_into_another():
    """Also with the longest names and a long verdict."""
    tree = one_model()
    tree["decision"].dataset = decision(["upper_confidence_bound", 'bald(target="f", method="modes")'], [0.1, 1.0])
    tree.attrs["verdict"] = 12 * "A sentence that says what follows from the numbers. "
    axes = plots.plot_check(tree)
    figure = axes[0].figure
    figure.canvas.draw()
    boxes = [ax.get_tightbbox() for ax in axes]
    for i, a in enumerate(boxes):
        for b in boxes[i + 1 :]:
            overlap = [min(a.x1, b.x1) - max(a.x0, b.x0), min(a.y1, b.y1) - max(a.y0, b.y0)]
            assert min(overlap) < 1
        assert a.x0 >= 0
        assert a.x1 <= figure.bbox.width + 1


def test_wrong_arguments_say_what_to_do():
    with pytest.raises(TypeError, match=r"plot_check takes the DataTree of pma.check; got Dataset"):
        plots.plot_check(xr.Dataset())
    with pytest.raises(ValueError, match=r"does not come from pma\.check: no group 'evidence'"):
        plots.plot_check(xr.DataTree())
