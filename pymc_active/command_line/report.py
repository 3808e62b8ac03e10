"""``pymc-active report``: what a run knows by now."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pymc_active.command_line.output import Console
from pymc_active.command_line.state import Run, load_run, name_of, open_choices
from pymc_active.command_line.tables import listing
from pymc_active.embeddings import relevance
from pymc_active.laplace.fit import LaplaceFit
from pymc_active.laplace.parameters import parameter_table
from pymc_active.model_average import ModelAverage
from pymc_active.predictions import predict

# Inputs of an embedding that are named.
_MOST = 8


def report(path: str, console: Console) -> None:
    """Print it; raises as :func:`load_run` does."""
    run = load_run(path)
    learner, settings = run.learner, run.settings
    with console.working("Fitting"):
        fit = learner.fit
    pending = open_choices(learner)
    n = len(learner.y)
    print(f"{Path(path).name}: looking for {settings.goal}, of {len(settings.inputs or ())} input(s)")
    print(f"measured: {n}, {n - learner._n_start} of them since the run began")
    print(f"open: {listing([name_of(learner, one) for one in pending], 10) if pending else 'nothing'}")
    best = int(np.argmin(learner.y) if settings.minimize else np.argmax(learner.y))
    label = f" ({run.ids[best]})" if run.ids is not None else ""
    print(f"{'smallest' if settings.minimize else 'largest'} {settings.target} measured: {learner.y[best]:.6g}{label}")
    if isinstance(fit, ModelAverage):
        share = fit.probability.sortby(-fit.probability)
        rows = [[str(model.item()), f"{p:.3f}"] for model, p in zip(share.model, share.to_numpy(), strict=True)]
        console.table(["model", "probability"], rows)
        fit = fit.best
    else:
        _recommend(run, fit)
    _parameters(fit, settings.target, console)
    for problem in fit.diagnostics["warnings"]:
        print(f"doubtful: {problem}")


def _recommend(run: Run, fit: LaplaceFit) -> None:
    learner, settings = run.learner, run.settings
    best = learner._best()
    prediction = predict(fit, best.x[None])
    mean, sd = float(prediction.f_mean[0]), float(np.sqrt(prediction.f_variance[0]))
    which = "smallest" if settings.minimize else "largest"
    print(f"{which} {settings.target} predicted: {mean:.4g} ± {sd:.2g} at {name_of(learner, best)}")


def _parameters(fit: LaplaceFit, target: str, console: Console) -> None:
    table = parameter_table(fit)
    rows = [[str(name), *map(str, row)] for name, row in zip(table.index, table.to_numpy(), strict=True)]
    console.table(["parameter", *table.columns], rows, f"hyperparameters of {fit.gpm.description}")
    if fit.gpm.embedding:
        loading = relevance(fit).loading
        median = loading.sel(summary="median")
        order = np.argsort(-median.to_numpy())[:_MOST]
        rows = [
            [
                str(loading.input.to_numpy()[j]),
                *(f"{float(loading.sel(summary=s)[j]):.2g}" for s in ("median", "lower", "upper")),
            ]
            for j in order
        ]
        console.table(["input", "loading", "lower", "upper"], rows, "the inputs that count most, per scaled unit")
