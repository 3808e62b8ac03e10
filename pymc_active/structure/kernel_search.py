"""Compositional kernel search: grow sums and products of base kernels as long as the evidence improves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import reduce
from itertools import batched
from operator import add
from typing import Any, Literal

import numpy as np
import pandas as pd
import pymc as pm
import xarray as xr

from pymc_active.kernels.expressions import (
    Base,
    Expression,
    base_kernels,
    grid,
    is_redundant,
    on_inputs,
    parse,
)
from pymc_active.laplace.fit import LaplaceFit
from pymc_active.laplace.several_models import fit_laplace_models
from pymc_active.models.composite import composite_gp, known_periods
from pymc_active.predictions.model_average import ModelAverage
from pymc_active.structure.fitted_kernels import FAR, MOST, FittedKernels, evidence_of, ranking, scores_of
from pymc_active.support.arguments import checked
from pymc_active.support.progress import progress
from pymc_active.support.scaling import Scale
from pymc_active.support.summaries import Summarized, Summary, formatted
from pymc_active.support.tables import (
    Bounds,
    input_labels,
    read_bounds,
    read_inputs,
    read_numbers,
    read_outputs,
)
from pymc_active.support.user_warnings import (
    DoubtfulEvidenceWarning,
    DoubtfulFitWarning,
    OutputScaleWarning,
    PeriodWarning,
    SamplingWarning,
    ScaleWarning,
    ignoring,
    warn_user,
)

SCORES = ("bic", "evidence")
# Models handed to the executor together; an interrupt loses at most these.
_BATCH = 8
# Rows in a summary.
_SHOWN = 10
# How many neighbours of probable kernels are fitted before a search ends, if the levels fitted fewer.
_NEIGHBOURS = 100
# Largest over smallest output from which logarithms are tried, in how many levels up to how many points (with more: in
# one), and nats from which to advise them.
_RATIO, _LEVELS, _SHORT, _LARGE_GAIN = 1.5, 3, 300, 5.0
# Share of the bounds that the data fill, below which bounds must be a mistake.
_SLIVER = 0.02


@dataclass(frozen=True, repr=False)
class StructureSearch(Summarized):
    """The kernels that a search fitted; see :func:`compositional_kernel_search`.

    ``table`` is over ``model``, labelled by its expression as the ``fits`` are, in the order of fitting: ``level``
    (neighbours of probable kernels, fitted at last, have one more), ``parent``, ``probability`` (among all fitted
    models), ``log_evidence`` (nats, summed over modes), ``log_prior`` (of the structure: what its base kernels cost),
    ``log_posterior`` (of the best mode), ``bic``, ``n_parameters``, ``doubtful``, and ``error``, the message of a fit
    that failed (its numbers are NaN). ``score`` ranks the fits, ``stopped`` says why the search ended, and ``evidence``
    how :class:`ModelAverage` takes the evidences of the table.
    """

    table: xr.Dataset
    fits: dict[str, LaplaceFit]
    score: str
    stopped: str
    evidence: Mapping[str, Any] = field(default_factory=dict)

    @property
    def best(self) -> LaplaceFit:
        """The best sound fit by its score; a doubtful one only if all are doubtful."""
        return self.fits[self._best_label()]

    @property
    def average(self) -> ModelAverage:
        """The sound fits within ten nats of the best, thirty at most, weighed by ``probability``; ``predict`` takes it.

        At least two. A ValueError for fewer than two sound fits.
        """
        order = [i for i in ranking(self.table, "evidence") if not self.table.doubtful.to_numpy()[i]]
        scores, labels = scores_of(self.table, "evidence"), self.table.model.to_numpy()
        kept = [str(labels[i]) for k, i in enumerate(order[:MOST]) if k < 2 or scores[i] > scores[order[0]] - FAR]
        prior = np.exp(self.table.log_prior.to_series())
        with ignoring(DoubtfulEvidenceWarning, SamplingWarning):
            return ModelAverage(
                {label: self.fits[label] for label in kept},
                prior={label: float(prior[label]) for label in kept},
                **self.evidence,
            )

    def _best_label(self, levels: int | None = None) -> str:
        table = self.table if levels is None else self.table.isel(model=self.table.level.to_numpy() <= levels)
        return str(table.model.to_numpy()[ranking(table, self.score)[0]])

    @property
    def history(self) -> pd.DataFrame:
        """By level: the number of models fitted, the best so far, its evidence and BIC, and the gain by this level.

        The gain in evidence is after the cost of more base kernels.
        """
        rows = []
        for level in range(1, int(self.table.level.max()) + 1):
            best = self._best_label(level)
            row = self.table.sel(model=best)
            n_models = int((self.table.level == level).sum())
            rows.append(
                (level, n_models, best, float(row.log_evidence), float(row.bic), float(scores_of(row, self.score)))
            )
        columns = ["level", "n_models", "best", "log_evidence", "bic", "gain"]
        frame = pd.DataFrame(rows, columns=columns).set_index("level")
        return frame.assign(gain=frame.gain.diff())

    def _summary(self) -> Summary:
        table = self.table.isel(model=ranking(self.table, self.score)[:_SHOWN])
        frame = table.to_dataframe()[["probability", "log_evidence", "bic", "n_parameters", "level", "doubtful"]]
        frame = formatted(frame, {"probability": "{:.3g}", "log_evidence": "{:.2f}", "bic": "{:.2f}"})
        frame = frame.assign(n_parameters=frame.n_parameters.astype("Int64"))
        best = f"{self._best_label()} of {self.table.sizes['model']} kernels by {self.score}"
        return Summary("StructureSearch", {"best": best, "stopped": self.stopped}, [frame])


@checked
def compositional_kernel_search(
    X: Any,
    y: Any,
    *,
    bases: Sequence[str | Expression] = ("SE", "PER", "LIN", "RQ", "STEP"),
    first_level: str | Expression | Sequence[str | Expression] | None = None,
    depth: int = 6,
    beam: int = 1,
    budget: int | None = None,
    score: Literal["evidence", "bic"] = "evidence",
    kernel_cost: float | None = None,
    period: float | Mapping[Any, float] | Sequence[float | None] | None = None,
    mean: str | pm.gp.mean.Mean = "constant",
    priors: str | Mapping[str, Any] | None = None,
    x_scale: Scale = "unit",
    y_scale: Scale = "standardize",
    bounds: Bounds | None = None,
    random_seed: int | np.random.Generator | None = None,
    progressbar: bool = True,
    executor: Executor | None = None,
    fit_keywords: Mapping[str, Any] | None = None,
) -> StructureSearch:
    r"""Search for the kernel of a series among sums and products of base kernels.

    The first level holds the base kernels. Each later level fits the neighbours of the best kernels so far: any part
    S of the expression becomes S + B or S * B, any base kernel another one, or is left out, any sum a product or the
    other way round. When no neighbour is better, the search compares with the constant kernel C, which says that there
    is nothing but noise, and fits the neighbours of every kernel with a probability of a tenth or more, small ones
    first, until there is none left or as many kernels again are fitted, at least a hundred: a probability means little
    while its rivals have not been tried.

    Parameters
    ----------
    X, y, period, mean, x_scale, y_scale, bounds
        As in :func:`composite_gp`; ``bounds`` take the place of ``x_scale="unit"``.
    bases : sequence of str or Base
        With several inputs, ``"SE"`` stands for one on each: ``SE[0]``, ``SE[1]``, ... STEP finds changes of level and
        what begins in the middle of the data; for what ends there, search along -x. Without it a level has about a
        fifth fewer kernels.
    first_level : str, Expression or sequence, optional
        Kernels of the first level, in place of the bases.
    depth, beam, budget : int
        Largest numbers of levels, and so of base kernels in one kernel; of kernels expanded at each level (the best
        ones; 1 is greedy, as in the paper); and of kernels fitted (default: no limit). With a budget, or by BIC, the
        search ends with the last level.
    score : {"evidence", "bic"}
        ``"evidence"``: the largest evidence, less the cost of the kernels. It is Laplace's, which is too low where data
        leave a part of the kernel open; so at last the evidences of the best thirty within ten nats of the best
        are sampled by weighted draws around their modes (a thousand up to 50 points, fewer up to 158, then none).
        ``"bic"``: the smallest :math:`-2 \log p(y \mid \hat\theta) + k \log n` at the mode of the posterior. k counts
        all free hyperparameters (mean and noise included), but only one output scale for each product, since the data
        determine only the product of its scales.
    kernel_cost : float, optional
        Nats that each base kernel beyond the first costs in ``"evidence"`` and in the probabilities: the prior of a
        structure is proportional to exp(-cost · number). Default: 1 + log(number of base kernels). As each further
        kernel multiplies the number of structures by about as many, all structures with one kernel more are then
        together less probable. 0 compares evidences alone.
    priors : "wide", "toolbox" or dict, optional
        As in :func:`composite_gp`; a key such as ``log_period`` or ``log_period_PER`` serves all expressions.
    random_seed, progressbar, executor, fit_keywords
        As in :func:`pymc_active.fit_laplace_models`, with more keywords for it, such as ``{"n_restarts": 4}``. The
        same seed gives the same search, with and without an executor.

    Raises
    ------
    TypeError, ValueError
        As :func:`composite_gp`; for unknown bases or criteria, or numbers below one.
    RuntimeError
        If every fit failed.

    Warns
    -----
    DoubtfulFitWarning
        If a doubtful fit (not converged, or directions without curvature) would be the best, if all are doubtful, or
        if the search was interrupted; then everything fitted before is returned.
    PeriodWarning, ScaleWarning
        If the data cannot show the known ``period``, or if another season besides makes the best kernel of a series
        more probable by over five nats (not for ``score="bic"``, or with a budget); if the data fill less than 2 % of
        ``bounds``.
    OutputScaleWarning
        If the logarithm of positive y is more probable by over five nats, as it is where changes multiply: by a second
        search of three levels (one, with more than 300 points), compared with the first levels of y, after these. Not
        for ``score="bic"``, or with a budget.

    Notes
    -----
    No kernel is tried twice, in whatever order it is written. Redundant kernels are left out: products with the same
    squared exponential twice, which is again a squared exponential, or with two steps, and sums of two lines beside a
    constant mean, of three, or of two through the origin. A neighbour starts from the modes of its parent and from few
    others; the best three kernels of each level are then searched thoroughly. A fit that raises is recorded and
    skipped.

    On 100 series drawn from the priors of the search, of at most two or three base kernels, ``probability`` was
    calibrated within its errors: the best kernel had 0.58 on average and was right in 0.53 ± 0.05, and base kernels
    said to be there with 0.72 were there in 11 of 18 (``benchmarks/structure_probabilities.py``). With few points
    probability is spread over many kernels: believe what the probable ones have in common, such as
    ``table.probability.where(table.model.str.contains("PER")).sum()``.

    Source: Duvenaud et al. (2013), Structure discovery in nonparametric regression through compositional kernel
    search; steps take the place of the change points of Lloyd et al. (2014).

    Examples
    --------
    >>> import numpy as np
    >>> import pymc_active as pma
    >>> x = np.linspace(0, 1, 30)
    >>> y = np.sin(20 * x) + 0.1 * np.random.default_rng(0).normal(size=30)
    >>> quick = {"bases": ("PER", "LIN"), "depth": 1, "random_seed": 1, "progressbar": False}
    >>> pma.search.compositional_kernel_search(x[:, None], y, **quick).best.gpm.description
    'composite_gp(PER)'
    """
    values = read_inputs(X)
    read_outputs(y, len(values))
    if score not in SCORES:
        raise ValueError(f"score must be one of {', '.join(SCORES)}; got {score!r}")
    for name, number in (("depth", depth), ("beam", beam), ("budget", 1 if budget is None else budget)):
        if not isinstance(number, int | np.integer) or number < 1:
            raise ValueError(f"{name} must be a positive whole number; got {number!r}")
    n_inputs = values.shape[1]
    base = [kernel for kernel in grid(bases, n_inputs=n_inputs) if isinstance(kernel, Base)]
    cost = None if kernel_cost is None else float(read_numbers(kernel_cost, "kernel_cost"))
    if not (cost is None or 0 <= cost < np.inf):
        raise ValueError(f"kernel_cost must be a number of nats from 0; got {kernel_cost!r}")
    kernels: list[Expression] = [*base]
    if first_level is not None:
        given = [first_level] if isinstance(first_level, str | Expression) else list(first_level)
        if not given:
            raise ValueError("first_level is empty: name at least one kernel, or leave it out for the base kernels")
        kernels = [on_inputs(parse(one), n_inputs) for one in given]
    in_box = bounds is not None and isinstance(x_scale, str) and x_scale == "unit"
    models = {"period": period, "mean": mean, "priors": priors, "y_scale": y_scale, "bounds": bounds}
    models["x_scale"] = None if in_box else x_scale
    if period is not None:
        periodic = [one for one in kernels + base if any(k.name in ("PER", "PER0") for k in base_kernels(one))]
        if not periodic:
            raise ValueError("period is of PER and PER0, which are not among the bases: add one, or leave period out")
        # Warns of a period that no kernel has, or that data cannot show.
        composite_gp(X, y, reduce(add, periodic), **models)  # type: ignore[arg-type]
    if bounds is not None:
        _warn_of_a_sliver(values, *read_bounds(bounds, n_inputs, input_labels(X, n_inputs)))
    rng = np.random.default_rng(random_seed)
    keywords = {"random_seed": rng, "executor": executor, "progressbar": False, **(fit_keywords or {})}
    seed = int(rng.integers(2**31)) if score == "evidence" else 0
    evidence = evidence_of(len(values), seed) if score == "evidence" else {}
    search = FittedKernels(X, y, models, keywords, evidence, len(base), cost)
    candidates: dict[Expression, Expression | None] = dict.fromkeys(kernels)
    expanded: set[Expression] = set()
    largest = depth - 1 + max(len(base_kernels(kernel)) for kernel in kernels)
    stopped = f"depth {depth} reached"

    def is_idle(kernel: Expression) -> bool:
        return is_redundant(kernel, beside_a_constant=mean in ("constant", "linear"))

    def near(kernel: Expression) -> list[Expression]:
        return [one for one in kernel.neighbours(bases, n_inputs) if not is_idle(one)]

    def children(parents: Sequence[Expression]) -> dict[Expression, Expression | None]:
        """What is one step away and not fitted yet, each with the best of its parents, the first."""
        found: dict[Expression, Expression | None] = {}
        for parent in parents:
            others = [one for one in (*parent.simpler(), *parent.exchanged()) if not is_idle(one)]
            for child in [*near(parent), *others]:
                if child not in search.records and len(base_kernels(child)) <= largest:
                    found.setdefault(child, parent)
        return found

    outputs, advice = read_outputs(y, len(values)), None
    n_compared = min(depth, _LEVELS if len(values) <= _SHORT else 1)

    def compare_logarithm() -> str:
        if score != "evidence" or budget is not None or not _may_multiply(outputs):
            return ""
        # Generators of their own, so that the search does not depend on it.
        own = {**keywords, "random_seed": np.random.default_rng(seed)}
        logs = FittedKernels(X, np.log(outputs), {**models, "y_scale": "standardize"}, own, evidence, len(base), cost)
        return _advice_of_logarithm(search, logs, kernels, near, min(level, n_compared))

    # Candidates are often poorly determined. Only doubts about the winner matter: see _warn.
    with ignoring(DoubtfulFitWarning):
        try:
            for level in range(1, depth + 1):
                before = search.best_score(score)
                chosen = dict(list(candidates.items())[: None if budget is None else budget - len(search.records)])
                with progress(f"Level {level} of at most {depth}", len(chosen), progressbar) as advance:
                    for batch in batched(chosen.items(), _BATCH):
                        search.fit(dict(batch), level)
                        advance(len(batch))
                    search.confirm(score)
                if level == n_compared:
                    # Early, so that who interrupts a long search is told.
                    advice = compare_logarithm()
                if len(chosen) < len(candidates) or len(search.records) == budget:
                    stopped = f"budget of {budget} kernels used up"
                    break
                if level > 1 and not search.best_score(score) > before:
                    stopped = f"level {level} brought nothing better"
                    break
                if level == depth:
                    break
                best = [record.expression for record in search.ranked(score)[:beam]]
                candidates = children([one for one in best if one not in expanded])
                expanded.update(best)
                if not candidates:
                    stopped = "no neighbours left"
                    break
            if advice is None:
                advice = compare_logarithm()
            if search.fits and first_level is None and budget is None:
                # That there is nothing but noise, which is not expanded.
                search.fit({Base("C"): None}, 1)
                expanded.add(Base("C"))
            if score == "evidence":
                search.sample()
            if search.fits and score == "evidence" and budget is None:
                n_before = len(search.records)
                room = max(_NEIGHBOURS, n_before)
                while room and (probable := [one for one in search.probable() if one not in expanded]):
                    candidates = dict(sorted(children(probable).items(), key=_size)[:room])
                    expanded.update(probable)
                    room -= len(candidates)
                    with progress("Around the probable kernels", len(candidates), progressbar) as advance:
                        for batch in batched(candidates.items(), _BATCH):
                            search.fit(dict(batch), level + 1)
                            advance(len(batch))
                        search.confirm(score)
                        search.sample()
                if len(search.records) > n_before:
                    limit = "" if room else ", the limit"
                    stopped += f", then {len(search.records) - n_before} around probable kernels{limit}"
        except KeyboardInterrupt:
            if not search.fits:
                raise
            stopped = "interrupted"
    if not search.fits:
        error = next(record.error for record in search.records.values())
        raise RuntimeError(f"all {len(search.records)} fits failed, the first with: {error}")
    # An interrupted search may have sampled none.
    result = StructureSearch(search.table(), search.fits, score, stopped, evidence if search.sampled else {})
    _warn(result)
    if period is not None and n_inputs == 1 and score == "evidence" and budget is None and stopped != "interrupted":
        with ignoring(DoubtfulFitWarning):
            _offer_another_season(result, search, known_periods(period, input_labels(X, 1))[0] or np.inf)
    if advice:
        warn_user(advice, OutputScaleWarning)
    return result


def _size(child: tuple[Expression, Expression | None]) -> int:
    return len(base_kernels(child[0]))


def _may_multiply(y: np.ndarray) -> bool:
    """Whether the logarithm of y differs enough from a line."""
    return bool(y.min() > 0 and y.max() > _RATIO * y.min())


def _warn_of_a_sliver(X: np.ndarray, low: np.ndarray, high: np.ndarray) -> None:
    """Warn if the data fill so little of the box that the priors take all that they show for a straight line."""
    share = np.ptp(X, axis=0) / (high - low)
    if len(X) > 1 and (share < _SLIVER).any():
        k = int(np.argmin(share))
        warn_user(
            f"the data fill {share[k]:.2%} of the bounds, {low[k]:g} to {high[k]:g}, and the priors expect changes on "
            "the scale of the bounds: give bounds near the data, or leave them out",
            ScaleWarning,
        )


def _offer_another_season(result: StructureSearch, search: FittedKernels, known: float) -> None:
    """Warn if one more season, of another period than the known one of all PER, makes the best kernel more probable."""
    best, keywords = result.best, {**search.fit_keywords, "population": 0, "errors": "warn"}
    before = best.gpm.expression
    assert before is not None
    free = composite_gp(search.X, search.y, before + "PER", **{**search.model_keywords, "period": None})
    for fit in fit_laplace_models({"": free}, start={"": best}, **keywords).values():
        cost = search.log_prior(str(before)) - search.log_prior(str(before + "PER"))
        gain = fit.evidence.value - best.evidence.value - cost
        periods = [float(value) for name, value in fit.constrained_point.items() if name.startswith("period_")]
        # A longer one is a trend.
        others = [one for one in periods if abs(np.log(one / known)) > 0.05 and one < np.ptp(best.X) / 2]
        if gain > _LARGE_GAIN and others:
            warn_user(
                f"kernel search: a season of period {others[0]:.4g} besides makes {before} {gain:.0f} nats more "
                f"probable, but all seasons have the period {known:g} that was given: search without period",
                PeriodWarning,
            )


def _advice_of_logarithm(
    search: FittedKernels,
    logs: FittedKernels,
    kernels: Sequence[Expression],
    neighbours: Callable[[Expression], list[Expression]],
    n_levels: int,
) -> str:
    """What to do if the logarithm of y is more probable than y, both by kernels of the first levels; else nothing."""
    if search.fits:
        logs.fit(dict.fromkeys(kernels), 1)
    if not logs.fits:
        return ""
    for level in range(2, n_levels + 1):
        parent = logs.ranked("evidence")[0].expression
        children = [child for child in neighbours(parent) if child not in logs.records]
        for batch in batched(children, _BATCH):
            logs.fit(dict.fromkeys(batch, parent), level)
    before, by = search.ranked("evidence")[0].expression, logs.ranked("evidence")[0].expression
    # Laplace's evidences of both.
    gain = logs.best_score("evidence") - np.sum(logs.y) - search.best_score("evidence")
    if gain <= _LARGE_GAIN:
        return ""
    return (
        f"kernel search: the logarithm of y is {gain:.0f} nats more probable by {by} than y itself by {before}, so "
        "its changes multiply, and forecasts of y may go wrong. Search with np.log(y), and predict by "
        'pma.OutputMap("log").predict(found.average, X_new), in the units of y'
    )


def _warn(result: StructureSearch) -> None:
    """One warning for every doubt about the result."""
    problems = []
    table, best = result.table, result._best_label()
    top = str(table.model.to_numpy()[int(np.nanargmax(scores_of(table, result.score)))])
    if bool(table.doubtful.sel(model=top)):
        if bool(table.doubtful.sel(model=best)):
            what = f"every fit is doubtful, for example that of {top}"
        else:
            what = f"{top} has a better {result.score} than {best}, but was passed over because its fit is doubtful"
        problems.append(f"{what}: {'; '.join(result.fits[top].diagnostics['warnings'])}")
    if result.stopped == "interrupted":
        problems.append(f"it was interrupted; the result holds the {len(result.fits)} fits made before")
    if problems:
        warn_user("kernel search: " + "; ".join(problems), DoubtfulFitWarning)
