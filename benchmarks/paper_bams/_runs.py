"""What the learning curves of model posteriors share: one run of a design, and the summary of many."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from _report import stated

import pymc_active as pma

VARIANTS = {
    "bams_tempered": partial(pma.active.bams, weights="tempered"),
    "bams_uniform": partial(pma.active.bams, weights="uniform"),
    "bams_modes": partial(pma.active.bams, method="modes"),
    "bams_draws": partial(pma.active.bams, method="draws"),
}
# Label of each criterion of the Learner, or variant of one.
DESIGNS = {
    "bams": "BAMS",
    "committee": "QBC",
    "uncertainty": "UNC",
    "random": "RAND",
    "bams_tempered": "BAMS, tempered",
    "bams_uniform": "BAMS, uniform",
    "bams_modes": "BAMS, modes",
    "bams_draws": "BAMS, draws",
}
COLOURS = dict(
    zip(DESIGNS, ("#0072B2", "#D55E00", "#009E73", "#999999", "#56B4E9", "#CC79A7", "#000000", "#E69F00"), strict=True)
)
PAPERS = ("bams", "committee", "uncertainty", "random")
# The area under p(the right model) is taken from here to the last point.
AREA_FROM = 20


def run(
    expressions: list[str], x: np.ndarray, y: np.ndarray, design: str, seed: int, n_points: int, priors: Any = "wide"
) -> dict[str, Any]:
    """From two random points to ``n_points``; the posterior over the models after every answer.

    The same ``Learner`` fits all designs; only the criterion differs.
    """
    rng = np.random.default_rng(seed)
    start = rng.choice(len(x), 2, replace=False)
    low, high = x.min(), x.max()
    scales = {"x_scale": (low, high - low), "y_scale": (y.mean(), y.std(ddof=1))}
    models = {e: pma.composite_gp(x[start], y[start], e, mean="constant", priors=priors, **scales) for e in expressions}
    learner = pma.active.Learner(
        models, "model", criterion=VARIANTS.get(design, design), pool=x, inference="auto", random_seed=seed
    )
    # A random design needs no fit to ask, but its posterior is wanted after every answer too.
    _ = learner.fit
    for _ in range(n_points - 2):
        z = learner.ask()
        learner.tell(z, y[(x == z).all(1)])
        _ = learner.fit
    followed = learner.model_history
    evidence = {label: fit.log_evidence for label, fit in learner.fit.items()}
    searched = learner.search().probability
    return {
        "n": followed.n_observations.to_numpy().tolist(),
        "probability": np.round(followed.to_numpy(), 5).tolist(),
        "models": followed.model.to_numpy().tolist(),
        "searched": np.round(searched.sel(model=followed.model).to_numpy(), 5).tolist(),
        "log_evidence": {label: round(value, 3) for label, value in evidence.items()},
        "x": learner.X[:, 0].tolist(),
    }


def curve(record: dict[str, Any], model: str) -> np.ndarray:
    """Posterior probability of one model at each n."""
    return np.array(record["probability"])[:, record["models"].index(model)]


def area(record: dict[str, Any], model: str, first: int = AREA_FROM) -> float:
    """Mean of the curve from ``first`` points on."""
    n = np.array(record["n"])
    return float(curve(record, model)[n >= min(first, n[-1])].mean())


# Mean, its standard error, and the number of values.
mean_and_error = partial(stated, count="repeats")
