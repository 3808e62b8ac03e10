"""Colours that colour-blind readers can distinguish (Okabe and Ito), and the looks of common marks."""

from __future__ import annotations

from typing import Any

BLUE, VERMILION, GREEN, PINK, ORANGE = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00"
INK, GREY = "#222222", "#8A8A8A"
CYCLE = (BLUE, VERMILION, GREEN, PINK, ORANGE, INK)
# For ``plt.style.use``: gives your own pictures the same look.
STYLE = {
    "axes.spines.right": False,
    "axes.spines.top": False,
    "figure.constrained_layout.use": True,
    "legend.fontsize": 9.0,
    "legend.frameon": False,
}
# A line at a limit or a reference.
LIMIT: dict[str, Any] = {"color": GREY, "lw": 0.9, "ls": (0, (5, 3)), "zorder": 0}
DOT: dict[str, Any] = {"ms": 5, "color": INK, "mec": "white", "mew": 0.5, "zorder": 3}
