"""Compositional kernel search: grow sums and products of base kernels as long as the evidence improves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import batched
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
import pymc as pm
import xarray as xr
from scipy.special import softmax

from pymc_active.kernels.expressions import (
    Base,
    Expression,
    Product,
    base_kernels,
    grid,
    is_redundant,
    log_prior,
    on_inputs,
    parse,
)
from pymc_active.laplace.draws.importance import importance_evidence
from pymc_active.laplace.fit import LaplaceFit, find_problems
from pymc_active.laplace.several_models import fit_laplace_models
from pymc_active.models.builders import composite_gp
from pymc_active.models.gpmodel import GPModel
from pymc_active.predictions.model_average import ModelAverage
from pymc_active.support.arguments import checked
from pymc_active.support.progress import progress
from pymc_active.support.scaling import Scale
from pymc_active.support.summaries import Summarized, Summary, formatted
from pymc_active.support.tables import Bounds, read_inputs, read_numbers, read_outputs
from pymc_active.support.user_warnings import (
    DoubtfulEvidenceWarning,
    DoubtfulFitWarning,
    OutputScaleWarning,
    SamplingWarning,
    ignoring,
    warn_user,
)

SCORES = ("bic", "evidence")
# Models handed to the executor together; an interrupt loses at most these.
_BATCH = 8
# Rows in a summary.
_SHOWN = 10
# Restarts for a kernel that also starts from its parent's modes, more at the second level, which has few kernels and
# decides where the search goes; and how many of the best kernels of a level are then searched as thoroughly as the
# first ones: most candidates need only be ranked.
_RANKED, _SECOND, _THOROUGH = 2, 8, 3
# Weighted draws for an evidence with up to so many points (with n points fewer by (points / n)²), and the fewest; how
# far behind the best a kernel may be to have its evidence sampled (nats; Laplace's is too low by up to three or four),
# and how many of the best have.
_DRAWS, _UP_TO, _FEWEST_DRAWS, _FAR, _MOST = 1000, 50, 100, 10.0, 30
# Probability from which the neighbours of a kernel are fitted before a search ends, and how many of them if the levels
# fitted fewer.
_PROBABLE, _NEIGHBOURS = 0.1, 100
# Largest over smallest output from which logarithms are tried, in how many levels up to how many points (with more: in
# one), and nats from which to advise them.
_RATIO, _LEVELS, _SHORT, _LARGE_GAIN = 1.5, 3, 300, 5.0


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
        order = [i for i in _ranking(self.table, "evidence") if not self.table.doubtful.to_numpy()[i]]
        scores, labels = _scores(self.table, "evidence"), self.table.model.to_numpy()
        kept = [str(labels[i]) for k, i in enumerate(order[:_MOST]) if k < 2 or scores[i] > scores[order[0]] - _FAR]
        prior = np.exp(self.table.log_prior.to_series())
        with ignoring(DoubtfulEvidenceWarning, SamplingWarning):
            return ModelAverage(
                {label: self.fits[label] for label in kept},
                prior={label: float(prior[label]) for label in kept},
                **self.evidence,
            )

    def _best_label(self, levels: int | None = None) -> str:
        table = self.table if levels is None else self.table.isel(model=self.table.level.to_numpy() <= levels)
        return str(table.model.to_numpy()[_ranking(table, self.score)[0]])

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
                (level, n_models, best, float(row.log_evidence), float(row.bic), float(_scores(row, self.score)))
            )
        columns = ["level", "n_models", "best", "log_evidence", "bic", "gain"]
        frame = pd.DataFrame(rows, columns=columns).set_index("level")
        return frame.assign(gain=frame.gain.diff())

    def _summary(self) -> Summary:
        table = self.table.isel(model=_ranking(self.table, self.score)[:_SHOWN])
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
        what begins in the middle of the data; without it a level has about a fifth fewer kernels.
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
    OutputScaleWarning
        If the logarithm of positive y is more probable by over five nats, as it is where changes multiply: by a second
        search of three levels (one, with more than 300 points), compared with the first levels of y. Not for
        ``score="bic"``, or with a budget.

    Notes
    -----
    No kernel is tried twice, in whatever order it is written. Redundant kernels are left out: products with the same
    squared exponential twice, which is again a squared exponential, or with two steps, and sums of three lines, or of
    two through the origin. A neighbour starts from the modes of its parent and from few others; the best three kernels
    of each level are then searched thoroughly. A fit that raises is recorded and skipped.

    On series drawn from the priors of the search, ``probability`` is nearly calibrated for what kernels contain: base
    kernels said to be there with 0.7 were there in 0.7. The best single kernel is a little too sure of itself, more so
    the larger the kernels are (``benchmarks/structure_probabilities.py``). With few points probability is spread over
    many kernels: believe what the probable ones have in common, such as
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
    rng = np.random.default_rng(random_seed)
    keywords = {"random_seed": rng, "executor": executor, "progressbar": False, **(fit_keywords or {})}
    evidence = _evidence(len(values), int(rng.integers(2**31))) if score == "evidence" else {}
    search = _Search(X, y, models, keywords, evidence, len(base), cost)
    candidates: dict[Expression, Expression | None] = dict.fromkeys(kernels)
    expanded: set[Expression] = set()
    largest = depth - 1 + max(len(base_kernels(kernel)) for kernel in kernels)
    stopped = f"depth {depth} reached"

    def children(parents: Sequence[Expression]) -> dict[Expression, Expression | None]:
        """What is one step away and not fitted yet, each with the best of its parents, the first."""
        found: dict[Expression, Expression | None] = {}
        for parent in parents:
            for child in [*parent.neighbours(bases, n_inputs), *parent.simpler(), *parent.exchanged()]:
                if child not in search.records and not is_redundant(child) and len(base_kernels(child)) <= largest:
                    found.setdefault(child, parent)
        return found

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
    outputs = read_outputs(y, len(values))
    if score == "evidence" and budget is None and stopped != "interrupted" and _may_multiply(outputs):
        logs = _Search(X, np.log(outputs), {**models, "y_scale": "standardize"}, keywords, evidence, len(base), cost)
        with ignoring(DoubtfulFitWarning), suppress(KeyboardInterrupt):
            _offer_logarithm(result, logs, kernels, lambda best: best.neighbours(bases, n_inputs))
    return result


def _size(child: tuple[Expression, Expression | None]) -> int:
    return len(base_kernels(child[0]))


def _evidence(n: int, seed: int) -> dict[str, Any]:
    """Sampled evidences where they are cheap; with many points the posterior is as narrow as Laplace has it."""
    draws = int(_DRAWS * min(1.0, _UP_TO / n) ** 2)
    return {"evidence": "importance", "draws": draws, "random_seed": seed} if draws >= _FEWEST_DRAWS else {}


def _may_multiply(y: np.ndarray) -> bool:
    """Whether the logarithm of y differs enough from a line."""
    return bool(y.min() > 0 and y.max() > _RATIO * y.min())


def _offer_logarithm(
    result: StructureSearch,
    logs: _Search,
    kernels: Sequence[Expression],
    neighbours: Callable[[Expression], list[Expression]],
) -> None:
    """Warn if the logarithm of y is more probable than y, both by kernels of the first levels."""
    logs.fit(dict.fromkeys(kernels), 1)
    if not logs.fits:
        return
    n_levels = min(_LEVELS if len(logs.y) <= _SHORT else 1, int(result.table.level.max()))
    for level in range(2, n_levels + 1):
        parent = logs.ranked("evidence")[0].expression
        children = [child for child in neighbours(parent) if child not in logs.records and not is_redundant(child)]
        for batch in batched(children, _BATCH):
            logs.fit(dict.fromkeys(batch, parent), level)
    before, by = result._best_label(n_levels), logs.ranked("evidence")[0].expression
    # Laplace's evidences of both.
    own = result.fits[before].summed_evidence + float(result.table.log_prior.sel(model=before))
    gain = logs.best_score("evidence") - np.sum(logs.y) - own
    if gain > _LARGE_GAIN:
        warn_user(
            f"kernel search: the logarithm of y is {gain:.0f} nats more probable by {by} than y itself by {before}, so "
            "its changes multiply, and forecasts of y may go wrong. Search with np.log(y), and predict by "
            'pma.OutputMap("log").predict(found.average, X_new), in the units of y',
            OutputScaleWarning,
        )


class _Record(NamedTuple):
    expression: Expression
    level: int
    parent: Expression | None
    error: str = ""


@dataclass
class _Search:
    """The models fitted so far."""

    X: Any
    y: Any
    model_keywords: dict[str, Any]
    fit_keywords: dict[str, Any]
    evidence: Mapping[str, Any]
    n_bases: int
    kernel_cost: float | None
    records: dict[Expression, _Record] = field(default_factory=dict)
    fits: dict[str, LaplaceFit] = field(default_factory=dict)
    bics: dict[str, float] = field(default_factory=dict)
    evidences: dict[str, float] = field(default_factory=dict)
    # Those searched with all restarts, and those with a sampled evidence.
    thorough: set[str] = field(default_factory=set)
    sampled: set[str] = field(default_factory=set)

    def fit(self, batch: Mapping[Expression, Expression | None], level: int) -> None:
        """Fit kernels, each given with its parent: thoroughly without one, else as well as ranking needs."""
        models = {str(e): composite_gp(self.X, self.y, e, **self.model_keywords) for e in batch}
        starts = {str(e): self.fits[str(parent)] for e, parent in batch.items() if parent is not None}
        errors = self._fit(models, starts, (_SECOND if level == 2 else _RANKED) if starts else None)
        for expression, parent in batch.items():
            self.records[expression] = _Record(expression, level, parent, errors.get(str(expression), ""))

    def confirm(self, score: str) -> None:
        """Search the best kernels thoroughly, from the modes they have."""
        if self.fit_keywords.get("n_restarts", np.inf) <= _RANKED:
            return
        best = [str(record.expression) for record in self.ranked(score)[:_THOROUGH]]
        known = {label: self.fits[label] for label in best if label not in self.thorough}
        if known:
            self._fit({label: fit.gpm for label, fit in known.items()}, known)

    def _fit(
        self, models: dict[str, GPModel], starts: Mapping[str, LaplaceFit], n_restarts: int | None = None
    ) -> dict[str, str]:
        """Fit models by label, thoroughly or with so many restarts at most; the messages of those that failed."""
        keywords, errors = self.fit_keywords, {}
        if n_restarts is not None:
            quick = {"n_restarts": min(n_restarts, keywords.get("n_restarts", n_restarts)), "population": 0}
            keywords = {**keywords, **quick}
        else:
            self.thorough |= set(models)
        try:
            self._add(fit_laplace_models(models, start=starts, **keywords))
        except Exception:  # fit the others all the same
            for label, gpm in models.items():
                own = {label: starts[label]} if label in starts else {}
                try:
                    self._add(fit_laplace_models({label: gpm}, start=own, **keywords))
                except Exception as error:  # recorded and passed over
                    errors[label] = f"{type(error).__name__}: {error}"
        return errors

    def _add(self, fits: Mapping[str, LaplaceFit]) -> None:
        self.bics |= {label: _bic(fit) for label, fit in fits.items()}
        self.evidences |= {label: fit.summed_evidence for label, fit in fits.items()}
        self.sampled -= set(fits)
        # The matrices of a hundred fits are too many.
        for fit in fits.values():
            for expansion in fit.expansions:
                expansion.forget()
        self.fits |= fits

    def sample(self) -> None:
        """Sample the evidences of the kernels that may matter."""
        if not self.evidence:
            return
        draws, seed = self.evidence["draws"], self.evidence["random_seed"]
        prior = {label: self._log_prior(label) for label in self.evidences}
        with ignoring(SamplingWarning):
            while todo := [label for label in self._near_best(prior) if label not in self.sampled]:
                for label in todo:
                    fit = self.fits[label]
                    try:
                        self.evidences[label] = importance_evidence(fit, draws, seed).log_evidence
                    except ValueError:  # finite at the mode alone: doubtful, and no reason to lose the other fits
                        self.evidences[label] = -np.inf
                    for expansion in fit.expansions:
                        expansion.forget()
                self.sampled.update(todo)

    def _near_best(self, prior: Mapping[str, float]) -> list[str]:
        scores = {label: value + prior[label] for label, value in self.evidences.items() if np.isfinite(value)}
        best = sorted(scores, key=scores.__getitem__, reverse=True)[:_MOST]
        return [label for label in best if scores[label] > scores[best[0]] - _FAR]

    def _log_prior(self, label: str) -> float:
        return log_prior(parse(label), self.n_bases, self.kernel_cost)

    def ranked(self, score: str) -> list[_Record]:
        """Fits, the best first; without the doubtful ones unless all are."""
        if not self.fits:
            return []
        table, records = self.table(), list(self.records.values())
        order = [i for i in _ranking(table, score) if not records[i].error]
        sound = [i for i in order if not table.doubtful.to_numpy()[i]]
        return [records[i] for i in sound or order]

    def probable(self) -> list[Expression]:
        """Sound fits with a probability of a tenth or more, the best first."""
        probability = self.table().probability.to_series()
        sound = [record.expression for record in self.ranked("evidence")]
        return [expression for expression in sound if probability[str(expression)] >= _PROBABLE]

    def best_score(self, score: str) -> float:
        ranked = self.ranked(score)
        return float(_scores(self.table().sel(model=str(ranked[0].expression)), score)) if ranked else -np.inf

    def table(self) -> xr.Dataset:
        labels = [str(expression) for expression in self.records]
        structure = {label: self._log_prior(label) for label in labels}
        log_evidence = pd.Series(self.evidences)
        scores = (log_evidence + pd.Series(structure)).dropna()
        known = {
            "probability": pd.Series(softmax(scores.where(np.isfinite(scores), -np.inf)), scores.index),
            "log_evidence": log_evidence,
            "log_prior": pd.Series(structure),
            "log_posterior": pd.Series({label: fit.log_posterior for label, fit in self.fits.items()}),
            "bic": pd.Series(self.bics),
            "n_parameters": pd.Series({label: float(_count(fit)) for label, fit in self.fits.items()}),
        }
        columns: dict[str, Any] = {name: series.reindex(labels).to_numpy(float) for name, series in known.items()}
        is_doubtful = pd.Series({label: fit.is_doubtful for label, fit in self.fits.items()})
        doubtful = is_doubtful.reindex(labels, fill_value=True).to_numpy(bool)
        records = self.records.values()
        columns |= {
            "doubtful": doubtful | ~np.isfinite(columns["log_evidence"]),
            "level": [record.level for record in records],
            "parent": [str(record.parent or "") for record in records],
            "error": [record.error for record in records],
        }
        table = xr.Dataset({name: ("model", values) for name, values in columns.items()}, coords={"model": labels})
        for name in ("log_evidence", "log_prior", "log_posterior"):
            table[name].attrs["units"] = "nats"
        return table


def _scores(table: xr.Dataset, score: str) -> np.ndarray:
    """Larger is better."""
    return (table.log_evidence + table.log_prior).to_numpy() if score == "evidence" else -table.bic.to_numpy()


def _ranking(table: xr.Dataset, score: str) -> np.ndarray:
    """Positions: sound fits, the best first, then doubtful ones, then failed ones."""
    scores = np.nan_to_num(_scores(table, score), nan=-np.inf, posinf=-np.inf)
    return np.lexsort((-scores, table.doubtful.to_numpy(), table.error.to_numpy() != ""))


def _bic(fit: LaplaceFit) -> float:
    return 2 * float(fit.best.state.factor.nll) + _count(fit) * float(np.log(len(fit.y)))


def _count(fit: LaplaceFit) -> int:
    """Number of free hyperparameters, without the output scales that only enter as a product with another."""
    n_scales = sum(name.startswith("log_outputscale") for name in fit.gpm.shapes)
    return len(fit.theta) - min(_redundant_scales(fit.gpm.expression), max(n_scales - 1, 0))


def _redundant_scales(expression: Expression | None) -> int:
    if expression is None:
        return 0
    own = len(expression.children) - 1 if isinstance(expression, Product) else 0
    return own + sum(_redundant_scales(child) for child in expression.children)


def _warn(result: StructureSearch) -> None:
    """One warning for every doubt about the result."""
    problems = []
    table, best = result.table, result._best_label()
    top = str(table.model.to_numpy()[int(np.nanargmax(_scores(table, result.score)))])
    if bool(table.doubtful.sel(model=top)):
        if bool(table.doubtful.sel(model=best)):
            what = f"every fit is doubtful, for example that of {top}"
        else:
            what = f"{top} has a better {result.score} than {best}, but was passed over because its fit is doubtful"
        problems.append(f"{what}: {'; '.join(find_problems(result.fits[top]))}")
    if result.stopped == "interrupted":
        problems.append(f"it was interrupted; the result holds the {len(result.fits)} fits made before")
    if problems:
        warn_user("kernel search: " + "; ".join(problems), DoubtfulFitWarning)
