"""``pymc-active report``: what a run knows by now."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pymc_active.command_line.output import Console, score_title
from pymc_active.command_line.state import as_set, load_run, name_of_point, open_suggestions
from pymc_active.command_line.tables import listing
from pymc_active.criteria.epig import IntegratedVariance
from pymc_active.inference.fit import Fit
from pymc_active.inference.parameter_table import table_of_draws
from pymc_active.learner.learner import Learner
from pymc_active.predictions.model_average import ModelAverage
from pymc_active.predictions.predict import imagined, predict
from pymc_active.structure.relevance import relevance
from pymc_active.support.numbers import plus_minus

# Inputs of an embedding that are named, and draws behind intervals.
_MOST, _DRAWS = 8, 2000


def report(path: str, console: Console) -> None:
    """Print it; raises as :func:`load_run` does."""
    learner, settings, ids = load_run(path)
    with console.working("Fitting"):
        fit = learner.fit
    n, which = len(learner.y), "smallest" if settings.minimize else "largest"
    print(f"{Path(path).name}: looking for {settings.goal}, with {len(settings.inputs or ())} input(s)")
    print(f"measured: {n}, {n - learner.n_start} of them since the run began")
    if len(learner.failures):
        print(f"failed: {len(learner.failures)}")
    waiting = open_suggestions(learner)
    print(f"open: {listing([one.name for one in waiting], len(waiting)) or 'nothing'}")
    best = int(np.argmin(learner.y) if settings.minimize else np.argmax(learner.y))
    label = f" ({ids[best]})" if ids and ids[best] else ""
    print(f"{which} {settings.target} measured: {learner.y[best]:.6g}{label}")
    if isinstance(fit, ModelAverage):
        share = fit.probability.to_series().sort_values(ascending=False)
        console.table(["model", "probability"], [[str(model), f"{p:.3f}"] for model, p in share.items()])
        fit = fit.best
    else:
        x = learner.recommend()
        prediction = predict(fit, x)
        name = str(x.index[0]) if learner.domain.is_pool else name_of_point(as_set(learner, x[0]))
        value = plus_minus(float(prediction.f_mean[0]), float(np.sqrt(prediction.f_variance[0])), digits=2)
        print(f"{which} {settings.target} predicted: {value} (1 sd) at {name}")
    print(f"is it worth going on? {_outlook(learner, settings.target)}")
    _verification(learner)
    _parameters(fit, console)
    for problem in fit.diagnostics["warnings"]:
        print(f"doubtful: {problem}")


def _outlook(learner: Learner, target: str) -> str:
    """What more measurements would bring, in words."""
    if learner.learn == "maximum":
        regret = learner.optimum().regret
        beyond = "be below" if learner.minimize else "exceed"
        return f"the best {target} anywhere may {beyond} the one predicted above, by {regret:.2g} on average"
    if isinstance(learner.fit, ModelAverage) and learner.learn == "model":
        return f"the most probable model is wrong with a probability of {1 - float(learner.fit.probability.max()):.2g}"
    if learner.criterion is None:
        return "random points cannot tell"
    score, units = learner.best_score()
    if isinstance(learner.criterion, IntegratedVariance):
        fit, n_open = learner.fit, len(learner.pending)
        if n_open:
            # The score is that of a candidate after these.
            fit = imagined(fit, np.asarray(learner.pending, float))
        variance = float(predict(fit, learner.criterion.targets).f_variance.mean())
        now, then = np.sqrt(variance), np.sqrt(max(variance - score, 0.0))
        after = f" after the {n_open} open" if n_open else ""
        average = f"predictions have an sd of {now:.3g} ({target}) on average{after}"
        return f"{average}, which the best candidate lowers to {then:.3g}"
    return f"the best candidate scores {score:.2g} by {score_title(learner.criterion_name, units, target)}"


def _verification(learner: Learner) -> None:
    found = learner.verification
    times = found.n_observations.to_numpy()
    if not len(times):
        return
    last = found.isel(n_observations=-1)
    # With several models, the worst one.
    lost, replaced = float(last.nll_loss.max()), bool((last.replaced == 1).any())
    what = "so the longer run takes the place of the fit" if replaced else "so the fit is kept"
    when = f"verified {len(times)} time(s), last with {times[-1]} measurements"
    print(f"{when}: predictions lose {max(lost, 0.0):.2f} nats a point against a longer run, {what}")


def _parameters(fit: Fit, console: Console) -> None:
    table = table_of_draws(fit.gpm, fit.draw(_DRAWS, 0)).rename({"mean_constant_original_units": "mean"})
    rows = table.reset_index().astype(str).to_numpy().tolist()
    console.table(["parameter", *table.columns], rows, f"hyperparameters of {fit.gpm.description}")
    if fit.gpm.expression is not None:
        print("log_..., location_... and a lengthscale of several inputs refer to the scaled data")
    if fit.gpm.embedding:
        loading = relevance(fit, random_seed=0).loading.to_pandas().T.nlargest(_MOST, "median")
        numbers = loading[["median", "lower", "upper"]]
        rows = [[str(row[0]), *(f"{value:.2g}" for value in row[1:])] for row in numbers.itertuples()]
        console.table(["input", "loading", "lower", "upper"], rows, "the inputs that count most, per scaled unit")
