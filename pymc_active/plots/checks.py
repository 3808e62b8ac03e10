"""Plot a check of a fit."""

from __future__ import annotations

import textwrap
from itertools import pairwise
from typing import Any

import numpy as np
import xarray as xr

from pymc_active.checking.verdict import EVIDENCE_MATTERS, GOOD_DECISION, PARETO_GOOD, RHAT_GOOD, RHAT_USABLE
from pymc_active.laplace.draws.importance import PARETO_LIMIT
from pymc_active.plots.axes import Axes, check_result, name_rows, pyplot, read_axes, show_legend
from pymc_active.plots.marks import note, note_in_row
from pymc_active.plots.style import BLUE, GREEN, GREY, INK, LIMIT, ORANGE, VERMILION

# Nats: a mean that is off by a third of a posterior sd has a symmetrised divergence of 0.1.
_CLOSE = 0.1
# A panel shows at most this many rows, the worst ones.
_MOST_ROWS = 10
_COLOURS = {"fit": BLUE, "reference": INK}


def plot_check(tree: xr.DataTree, *, axes: Any = None) -> np.ndarray:
    """A check in one figure: predictions, evidence, the trace, decisions, and the verdict below (in new figures only).

    One model: symmetrised KL of predictions by approximation (a dot for each point, a bar at the median); log evidence
    of the fit and the reference, with bars of two standard errors, where both are known; of a trace, R-hat by variable;
    of a LaplaceFit, Pareto k of its draws; with a pool, the true utility of the picks by criterion. Several models:
    probabilities and evidences, and the picks. Each panel has one of the Axes. The tree comes from
    :func:`pymc_active.check`; the rest is as in :mod:`pymc_active.plots`.
    """
    check_result(tree, xr.DataTree, "plot_check", "the DataTree of pma.check")
    several = "models" in tree.children
    if missing := sorted(({"models", "fits"} if several else {"predictions", "evidence"}) - set(tree.children)):
        raise ValueError(f"the tree does not come from pma.check: no group {missing[0]!r} in {sorted(tree.children)}")
    panels = _panels(tree, several)
    if axes is None:
        axes = _new_axes([height for *_, height in panels], tree.attrs.get("verdict", ""), "decision" in tree.children)
    axes = read_axes(axes, (len(panels),))
    for (draw, group, _), ax in zip(panels, axes, strict=True):
        draw(ax, tree[group].to_dataset())
    return axes


def _panels(tree: xr.DataTree, several: bool) -> list[tuple[Any, str, float]]:
    """Of each panel the function that draws it, the group that it draws, and its height in inches."""
    panels: list[tuple[Any, str, float]] = []
    if several:
        height = 0.75 + 0.3 * tree["models"].sizes["model"]
        panels += [(_probabilities, "models", height + 0.25), (_evidences, "models", height)]
    else:
        panels.append((_divergences, "predictions", 1.0 + 0.36 * tree["predictions"].sizes["approximation"]))
        if np.isfinite(tree["evidence"]["log_evidence"]).all():
            panels.append((_evidences, "evidence", 1.0))
        if "trace_diagnostics" in tree.children:
            n_rows = min(tree["trace_diagnostics"].sizes["variable"], _MOST_ROWS)
            panels.append((_rhat, "trace_diagnostics", 0.7 + 0.22 * n_rows))
        if "laplace" in tree.children:
            panels.append((_pareto_k, "laplace", 1.0))
    return [*panels, *([(_decisions, "decision", 0.0)] if "decision" in tree.children else [])]


def _new_axes(heights: list[float], verdict: str, decides: bool) -> list[Axes]:
    """Panels below each other, decisions at their right, and the verdict at the bottom."""
    text = textwrap.fill(verdict, 150 if decides else 90)
    left = range(len(heights) - decides)
    size = (10.4 if decides else 6.4, 1.5 + sum(heights) + 0.15 * text.count("\n"))
    figure = pyplot().figure(figsize=size, layout="constrained")
    axes = figure.subplot_mosaic(
        [[i, len(left)] if decides else [i] for i in left],
        height_ratios=heights[: len(left)],
        width_ratios=[1.15, 1] if decides else [1],
    )
    if text:
        figure.supxlabel(text, x=0.01, ha="left", fontsize=8.5, color=INK)
    return [axes[i] for i in range(len(heights))]


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
    _rows(ax, methods, "Predictions: a dot for each point, a bar at the median")
    ax.set_ylim(len(methods) - 0.5, -0.75)
    ax.axvline(_CLOSE, **LIMIT)
    ax.set_xscale("log")
    ax.set_xlabel("divergence of f from the reference (nats); dashed: close")


def _rhat(ax: Axes, diagnostics: xr.Dataset) -> None:
    order = np.argsort(-np.nan_to_num(diagnostics.rhat.to_numpy(), nan=-1.0), kind="stable")[:_MOST_ROWS]
    worst = diagnostics.isel(variable=np.sort(order))
    rhat, ess = worst.rhat.to_numpy(), worst.ess_bulk.to_numpy()
    for i, (value, size) in enumerate(zip(rhat, ess, strict=True)):
        usable = (ORANGE, "s") if value <= RHAT_USABLE else (VERMILION, "X")
        color, marker = (GREEN, "o") if value <= RHAT_GOOD else usable
        ax.plot(value, i, marker, ms=6, color=color)
        note_in_row(ax, f"ESS {size:,.0f}", i, fontsize=8.5)
    for limit in (RHAT_GOOD, RHAT_USABLE):
        ax.axvline(limit, **LIMIT)
    divergences = int(diagnostics.n_divergences)
    said = f"{divergences:,} divergences" if divergences else "no divergences"
    _rows(ax, worst["variable"].to_numpy(), f"MCMC: {int(diagnostics.n_draws):,} draws, {said}")
    ax.set_xlim(0.997, max(1.06, 1.02 * np.nanmax(np.append(rhat, 1.0))))
    ax.set_xlabel(f"R-hat; dashed: good to {RHAT_GOOD}, usable to {RHAT_USABLE}")


def _pareto_k(ax: Axes, laplace: xr.Dataset) -> None:
    k = float(np.nan_to_num(laplace.pareto_k.item(), posinf=0.0))
    limits = (min(0.0, 1.1 * k), PARETO_GOOD, PARETO_LIMIT, max(1.05, 1.1 * k))
    for (a, b), color in zip(pairwise(limits), (GREEN, ORANGE, VERMILION), strict=True):
        ax.axvspan(a, b, color=color, alpha=0.16, lw=0)
    ax.plot(k, 0, "D", ms=7, color=INK)
    _rows(ax, ["Laplace"], "Pareto k of draws from the Laplace approximation")
    ax.set_xlim(limits[0], limits[-1])
    ax.set_xticks([0, PARETO_GOOD, PARETO_LIMIT, 1])
    ax.set_xlabel(f"below {PARETO_GOOD} good, to {PARETO_LIMIT} usable, above poor")


def _decisions(ax: Axes, decision: xr.Dataset) -> None:
    # Arguments on lines of their own leave room for the bars.
    names = [str(name).replace("(", "(\n").replace(", ", ",\n") for name in decision.criterion.to_numpy()]
    ratio, split = decision.regret_ratio.to_numpy(), decision.split_half.to_numpy()
    for i, (value, known) in enumerate(zip(ratio, split, strict=True)):
        color = BLUE if value >= GOOD_DECISION else ORANGE
        ax.hlines(i, 0, value, color=color, lw=2.2)
        ax.plot(value, i, "o" if value >= GOOD_DECISION else "s", ms=7, color=color)
        ax.plot(known, i, "|", ms=13, mew=1.6, color=INK)
        note_in_row(ax, f"{value:.2f}", i)
    ax.axvline(GOOD_DECISION, **LIMIT)
    _rows(ax, [name.replace("_", " ") for name in names], "Decisions: what the pick is worth in truth")
    ax.set_xlim(0, 1.03)
    ax.set_xlabel(f"true utility of the pick / best\n(dashed: {GOOD_DECISION}; |: two halves of the reference)")


def _probabilities(ax: Axes, models: xr.Dataset) -> None:
    for (name, color), marker, offset in zip(_COLOURS.items(), "oD", (-0.13, 0.13), strict=True):
        values = models.probability.sel(estimator=name).to_numpy()
        ax.plot(values, np.arange(len(values)) + offset, marker, ms=6, color=color, label=name)
    _rows(ax, models.model.to_numpy(), "Probability of each model, by the fits and by the references")
    ax.set_xlim(-0.03, 1.03)
    show_legend(ax)


def _evidences(ax: Axes, table: xr.Dataset) -> None:
    table = table if "model" in table.dims else table.expand_dims(model=["fit"])
    value, error = (table[name].transpose("estimator", "model") for name in ("log_evidence", "standard_error"))
    difference = (value.sel(estimator="fit") - value.sel(estimator="reference")).to_numpy()
    bars = 2 * np.sqrt(np.nansum(np.square(error.to_numpy()), axis=0))
    ax.axvspan(-EVIDENCE_MATTERS, EVIDENCE_MATTERS, color=GREY, alpha=0.15, lw=0)
    ax.errorbar(difference, np.arange(len(difference)), xerr=bars, fmt="o", ms=6, color=BLUE, capsize=3)
    for i in np.flatnonzero(~np.isfinite(difference)):
        note_in_row(ax, "no evidence", i, fontsize=8.5)
    _rows(ax, table.model.to_numpy(), "Log evidence (band: odds change by less than 2)")
    ax.set_xlabel("log evidence of the fit minus that of the reference (nats)")
