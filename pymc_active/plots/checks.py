"""Plot a check of a fit."""

from __future__ import annotations

import textwrap
from typing import Any

import numpy as np
import xarray as xr

from pymc_active.checking.verdict import EVIDENCE_MATTERS, GOOD_DECISION
from pymc_active.plots.axes import Axes, check_result, name_rows, new_grid
from pymc_active.plots.marks import note, note_in_row
from pymc_active.plots.style import BLUE, GREY, INK, LIMIT, ORANGE

# Nats: a mean that is off by a third of a posterior sd has a symmetrised divergence of 0.1.
_CLOSE = 0.1


def plot_check(tree: xr.DataTree, *, axes: Any = None) -> np.ndarray:
    """A check in one figure: predictions, evidence, decisions, and the verdict below (in new figures only).

    Symmetrised KL of predictions by approximation (a dot for each point, a bar at the median); log evidence of the fit
    less the log evidence of the reference, with a bar of two standard errors, if the reference has one; with a pool,
    what the picks by criterion are worth. Each panel has one of the Axes. The tree comes from
    :func:`pymc_active.check`; the rest is as in :mod:`pymc_active.plots`.
    """
    check_result(tree, xr.DataTree, "plot_check", "the DataTree of pma.check")
    if missing := sorted({"predictions", "evidence"} - set(tree.children)):
        raise ValueError(f"the tree does not come from pma.check: no group {missing[0]!r} in {sorted(tree.children)}")
    panels: list[tuple[Any, xr.Dataset]] = [(_divergences, tree["predictions"].to_dataset())]
    if np.isfinite(tree["evidence"].log_evidence).all():
        panels.append((_evidence, tree["evidence"].to_dataset()))
    if "decision" in tree.children:
        panels.append((_decisions, tree["decision"].to_dataset()))
    n_rows = max(group.sizes.get(dim, 1) for _, group in panels for dim in ("approximation", "criterion"))
    text = textwrap.fill(tree.attrs.get("verdict", ""), 55 * len(panels))
    grid = new_grid((1, len(panels)), (4.0 * len(panels), 1.8 + 0.33 * n_rows + 0.17 * text.count("\n")), axes)[0]
    if axes is None:
        grid[0].figure.supxlabel(text, x=0.01, ha="left", fontsize=8.5, color=INK)
    for (draw, group), ax in zip(panels, grid, strict=True):
        draw(ax, group)
    return grid


def _rows(ax: Axes, labels: Any, title: str) -> None:
    name_rows(ax, list(map(str, labels)))
    ax.set_title(title, loc="left", fontsize=10)


def _divergences(ax: Axes, predictions: xr.Dataset) -> None:
    values = predictions.skl.transpose("approximation", "point")
    methods = [str(method) for method in values.approximation.to_numpy()]
    for i, row in enumerate(values.to_numpy()):
        shown = np.sort(row[row > 0])
        # The first one is what ``predict`` uses.
        color = BLUE if i == 0 else GREY
        # A low-discrepancy sequence keeps neighbours in value apart.
        jitter = 0.24 * (2 * ((np.arange(len(shown)) * 0.6180339887) % 1) - 1)
        ax.plot(shown, i + jitter, "o", ms=4, color=color, alpha=0.45, mew=0)
        middle = float(np.median(row))
        ax.vlines(middle, i - 0.32, i + 0.32, color=INK, lw=2)
        note(ax, f"{middle:.2g}", (middle, i - 0.32), (0, 1), ha="center", va="bottom", fontsize=8.5)
    _rows(ax, methods, "Predictions at each point")
    ax.set_ylim(len(methods) - 0.5, -0.75)
    ax.axvline(_CLOSE, **LIMIT)
    ax.set_xscale("log")
    ax.set_xlabel("divergence of f from the reference\n(nats; bar: median, dashed: close)")


def _decisions(ax: Axes, decision: xr.Dataset) -> None:
    for i, value in enumerate(decision.regret_ratio.to_numpy()):
        marker, color = ("o", BLUE) if value >= GOOD_DECISION else ("s", ORANGE)
        ax.hlines(i, 0, value, color=color, lw=2.2)
        ax.plot(value, i, marker, ms=7, color=color)
        note_in_row(ax, f"{value:.2f}", i)
    ax.axvline(GOOD_DECISION, **LIMIT)
    # Arguments on lines of their own leave room for the bars.
    names = [str(name).replace("(", "(\n").replace(", ", ",\n") for name in decision.criterion.to_numpy()]
    _rows(ax, [name.replace("_", " ") for name in names], "Decisions")
    ax.set_xlim(0, 1.03)
    ax.set_xlabel(f"true utility of the pick / best\n(dashed: {GOOD_DECISION})")


def _evidence(ax: Axes, evidence: xr.Dataset) -> None:
    difference = -np.diff(evidence.log_evidence)
    bar = 2 * np.sqrt(np.nansum(np.square(evidence.standard_error.to_numpy())))
    ax.axvspan(-EVIDENCE_MATTERS, EVIDENCE_MATTERS, color=GREY, alpha=0.15, lw=0)
    ax.errorbar(difference, np.zeros(1), xerr=bar, fmt="o", ms=6, color=BLUE, capsize=3)
    _rows(ax, ["fit"], "Log evidence")
    ax.set_xlabel("log evidence of the fit less\nthat of the reference\n(nats; band: odds within a factor of 2)")
