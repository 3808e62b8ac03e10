"""Compositional kernel search: grow sums and products of base kernels as long as the evidence improves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import partial, reduce
from itertools import batched
from operator import add
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr

from pymc_active.inference.fit import Fit
from pymc_active.kernels.expressions import Base, Expression, base_kernels, grid, is_redundant
from pymc_active.laplace.fit import LaplaceFit
from pymc_active.models.advice import warn_of_data
from pymc_active.models.composite import composite_gp, known_periods
from pymc_active.predictions.model_average import ModelAverage
from pymc_active.predictions.predict import predict, predict_from_logarithms
from pymc_active.structure.fitted_kernels import FAR, MOST, FittedKernels, preferred, ranking, scores_of
from pymc_active.support.arguments import check_executor
from pymc_active.support.options import count
from pymc_active.support.progress import progress
from pymc_active.support.scaling import Scale
from pymc_active.support.summaries import Summarized, Summary, formatted
from pymc_active.support.tables import Bounds, input_labels, read_inputs, read_outputs
from pymc_active.support.user_warnings import DataWarning, DoubtfulFitWarning, ignoring, warn_user

# Rows in a summary.
_SHOWN = 10
# Largest over smallest output from which logarithms are tried, in how many levels up to how many points, and nats from
# which the search goes on with them. With more points RQ alone tells, quickly fitted, and most of the time is left for
# the search: of ten series of 129 to 909 points it decided nine as the levels did.
_RATIO, _LEVELS, _SHORT, _LARGE_GAIN = 1.5, 3, 300, 5.0
_QUICK = {"n_restarts": 2, "population": 0}
# With fewer points priors decide whether changes multiply.
_FEWEST = 10
# Models handed to the executor together; an interrupt loses at most these.
_BATCH = 8
# How many neighbours of probable kernels are fitted before a search ends, if the levels fitted fewer.
_NEIGHBOURS = 100


@dataclass(frozen=True, repr=False)
class StructureSearch(Summarized):
    """The kernels that a search fitted; see :func:`compositional_kernel_search`.

    ``fits`` are particles (:class:`pymc_active.ParticleFit`) where the posterior was sampled, else modes. ``table`` is
    over ``model``, labelled by its expression as the ``fits`` are, in the order of fitting: ``level`` (neighbours of
    probable kernels, fitted at last, have one more), ``parent``, ``probability`` (among all fitted models),
    ``log_evidence`` (nats, summed over modes), ``log_prior`` (of the structure: what its base kernels cost),
    ``log_posterior`` (of the best mode), ``bic``, ``n_parameters``, ``doubtful``, and ``error``, the message of a fit
    that failed (its numbers are NaN). ``stopped`` says why the search ended. If the logarithm of y is more probable,
    ``logarithm`` is the search for its kernels, which ``is_of_logarithm``, and ``gain`` by how many nats, when it
    began; everything else is of y.
    """

    table: xr.Dataset
    fits: dict[str, Fit]
    stopped: str
    logarithm: StructureSearch | None = None
    gain: float = 0.0
    is_of_logarithm: bool = False

    def predict(
        self, X_new: Any, *, quantiles: Sequence[float] | None = None, y_new: Any = None, **options: Any
    ) -> xr.Dataset:
        """:func:`pymc_active.predict` by all probable kernels, in the units of y; of the logarithm if there is one.

        Then there is also ``y_mean``, and moments are of log-normal outcomes.
        """
        if self.logarithm is None:
            return predict(self._source, X_new, quantiles=quantiles, y_new=y_new, **options)
        return predict_from_logarithms(self.logarithm._source, X_new, quantiles=quantiles, y_new=y_new, **options)

    @property
    def _source(self) -> Fit | ModelAverage:
        return self.average if len(preferred(self.table)) > 1 else self.best

    @property
    def best(self) -> Fit:
        """The most probable sound fit; a doubtful one only if all within ten nats of it are."""
        return self.fits[self._best_label()]

    @property
    def average(self) -> ModelAverage:
        """The sound fits within ten nats of the best, thirty at most, weighed by ``probability``.

        At least two, and doubtful ones as well if the best is doubtful. A ValueError for fewer than two.
        """
        order = preferred(self.table).tolist()
        scores, labels = scores_of(self.table), self.table.model.to_numpy()
        kept = [str(labels[i]) for k, i in enumerate(order[:MOST]) if k < 2 or scores[i] > scores[order[0]] - FAR]
        prior = np.exp(self.table.log_prior.to_series())
        with ignoring(DoubtfulFitWarning):
            return ModelAverage(
                {label: self.fits[label] for label in kept}, prior={label: float(prior[label]) for label in kept}
            )

    def _best_label(self) -> str:
        return str(self.table.model.to_numpy()[ranking(self.table)[0]])

    def _summary(self) -> Summary:
        if self.logarithm is not None:
            summary = self.logarithm._summary()
            outputs = {"outputs": f"the logarithm of y, {self.gain:.0f} nats more probable than y"}
            return summary._replace(facts=dict(summary.facts) | outputs)
        what = "the logarithm of y" if self.is_of_logarithm else None
        table = self.table.isel(model=ranking(self.table)[:_SHOWN])
        frame = table.to_dataframe()[["probability", "log_evidence", "bic", "n_parameters", "level", "doubtful"]]
        frame = formatted(frame, {"probability": "{:.3g}", "log_evidence": "{:.2f}", "bic": "{:.2f}"})
        frame = frame.assign(n_parameters=frame.n_parameters.astype("Int64"))
        best = f"{self._best_label()} of {self.table.sizes['model']} kernels"
        return Summary("StructureSearch", {"outputs": what, "best": best, "stopped": self.stopped}, [frame])


def compositional_kernel_search(
    X: Any,
    y: Any,
    *,
    bases: Sequence[str | Expression] = ("SE", "PER", "LIN", "RQ", "STEP"),
    depth: int = 6,
    beam: int = 1,
    budget: int | None = None,
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
        As in :func:`composite_gp`, but one period for an input; ``bounds`` take the place of ``x_scale="unit"``.
    bases : sequence of str or Base
        With several inputs, ``"SE"`` stands for one on each: ``SE[0]``, ``SE[1]``, ... STEP finds changes of level and
        what begins in the middle of the data; for what ends there, search along -x. Without it a level has about a
        fifth fewer kernels.
    depth, beam, budget : int
        Largest numbers of levels, and so of base kernels in one kernel; of kernels expanded at each level (the best
        ones; 1 is greedy, as in the paper); and of kernels fitted (default: no limit). With a budget the search ends
        with the last level.
    priors : "wide", "toolbox" or dict, optional
        As in :func:`composite_gp`; a key such as ``log_period`` or ``log_period_PER`` serves all expressions.
    random_seed, progressbar, executor, fit_keywords
        As in :func:`pymc_active.fit_laplace`, with more keywords for it, such as ``{"n_restarts": 4}``. An executor
        runs one task for each kernel; the same seed gives the same search with and without it.

    Raises
    ------
    TypeError, ValueError
        As :func:`composite_gp`; for unknown bases or criteria, or numbers below one.
    RuntimeError
        If every fit failed.

    Warns
    -----
    DoubtfulFitWarning
        If a doubtful fit (not converged, or directions without curvature) would be the best, or is, since all within
        ten nats of it are doubtful, as of data without noise; or if the search was interrupted; then everything fitted
        before is returned.
    DataWarning
        If the data cannot show the known ``period``, or do not suit the ``bounds``; or if the search goes on with the
        logarithm of positive y, since that is more probable by over five nats after three levels of both (with more
        than 300 points, by RQ alone), as where changes multiply. Not with fewer than ten points, or with a budget. To
        keep to y, pass ``y - y.mean()``.

    Notes
    -----
    The best kernel has the largest evidence, less 1 + log(number of base kernels) nats for each base kernel beyond the
    first: as each further kernel multiplies the number of structures by about as many, all structures with one kernel
    more are then together less probable. The evidence is Laplace's, which is too low where data leave a part of the
    kernel open; so at last the posteriors of the best thirty within ten nats of the best are sampled by weighted draws
    around their modes (a thousand up to 50 points, fewer up to 158, then none): 64 particles each, and of the best
    kernel as many as :func:`pymc_active.fit` has. ``bic`` in the table is
    :math:`-2 \log p(y \mid \hat\theta) + k \log n` at the mode of the posterior, as in the paper; k counts all free
    hyperparameters (mean and noise included), but only one output scale for each product, since the data determine only
    the product of its scales.

    No kernel is tried twice, in whatever order it is written. Redundant kernels are left out: products with the same
    squared exponential twice, which is again a squared exponential, or with two steps, and sums of two lines beside a
    constant mean, of three, or of two through the origin. A neighbour starts from the modes of its parent and from few
    others; the best three kernels of each level are then searched thoroughly. A fit that raises is recorded and
    skipped.

    On 85 series drawn from the priors of the search, of at most two base kernels, ``probability`` was calibrated: the
    best kernel had 0.62 on average and was right in 0.60 ± 0.05. On 60 of at most three it had 0.54 and was right in
    0.43 ± 0.06: kernels that the search has not tried have no probability, and the true one was among them in five. Of
    both, base kernels said to be there with 0.72 were there in 17 of 24 (``benchmarks/structure_probabilities.py``).
    With few points probability is spread over many kernels: believe what the probable ones have in common, such as
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
    outputs = read_outputs(y, len(values))
    for name, number in (("depth", depth), ("beam", beam), ("budget", 1 if budget is None else budget)):
        count(name, number)
    check_executor(executor)
    n_inputs = values.shape[1]
    base = [kernel for kernel in grid(bases, n_inputs=n_inputs) if isinstance(kernel, Base)]
    in_box = bounds is not None and isinstance(x_scale, str) and x_scale == "unit"
    models = {"period": period, "mean": mean, "priors": priors, "y_scale": y_scale, "bounds": bounds}
    models["x_scale"] = None if in_box else x_scale
    if period is not None and not any(one.name in ("PER", "PER0") for one in base):
        raise ValueError("period is of PER and PER0, which are not among the bases: add one, or leave period out")
    if any(len(periods) > 1 for periods in known_periods(period, input_labels(X, n_inputs))):
        raise ValueError(f"a search takes one known period for an input; got {period!r}: leave out the longer ones")
    # Periods, bounds, data and priors that do not suit each other.
    warn_of_data(composite_gp(X, y, reduce(add, base), **models))  # type: ignore[arg-type]
    rng = np.random.default_rng(random_seed)
    keywords = {"random_seed": rng, "executor": executor, "progressbar": False, **(fit_keywords or {})}
    seed = int(rng.integers(2**31))

    def unfitted(values: Any, scales: Mapping[str, Any], keywords: Mapping[str, Any]) -> FittedKernels:
        return FittedKernels(X, values, {**models, **scales}, dict(keywords), seed, len(base))

    begun = partial(Growth, base, bases, n_inputs, mean in ("constant", "linear"), depth, beam, budget, progressbar)
    of_y = begun(unfitted(y, {}, keywords))
    of_log: Growth | None = None
    gain, advice, stopped = 0.0, "", ""
    # Candidates are often poorly determined. Only doubts about the winner matter: see _warn.
    with ignoring(DoubtfulFitWarning):
        try:
            # Whether the logarithm differs enough from a line.
            may_multiply = outputs.min() > 0 and outputs.max() > _RATIO * outputs.min()
            if budget is None and len(outputs) >= _FEWEST and may_multiply:
                # Generators of their own, so that the search of y does not depend on it.
                own = {**keywords, "random_seed": np.random.default_rng(seed)}
                logs, scale = np.log(outputs), {"y_scale": "standardize"}
                rival = begun(unfitted(logs, scale, own), " for the logarithm")
                if len(outputs) > _SHORT:
                    one, other = unfitted(y, {}, own | _QUICK), unfitted(logs, scale, own | _QUICK)
                    for search in (one, other):
                        search.fit({Base("RQ"): None}, 1)
                else:
                    one, other = of_y.search, rival.search
                    for growth in (of_y, rival):
                        growth.grow(min(depth, _LEVELS))
                # Laplace's evidences of both. Without noise the best fits may be doubtful, of one of them alone.
                gain = other.highest() - logs.sum() - one.highest()
                if _LARGE_GAIN < gain < np.inf:
                    of_log, advice, of_y.search = rival, _advice(gain, one, other), one
                    of_y.stopped = of_y.stopped or f"{len(one.fits)} kernel(s), since its logarithm is more probable"
            for growth in [of_y] if of_log is None else [of_y, of_log]:
                growth.grow(depth)
                if budget is None:
                    growth.try_noise()
                growth.search.sample()
                if budget is None and growth.search.fits and growth is (of_log or of_y):
                    growth.grow_around()
                growth.search.sample_best()
        except KeyboardInterrupt:
            if not of_y.search.fits:
                raise
            stopped = "interrupted"
    if of_log is not None and not of_log.search.fits:
        # An interrupt came before the first kernels, or none could be fitted: there is the one that was compared.
        of_log.search = other
    if not of_y.search.fits:
        records = of_y.search.records.values()
        raise RuntimeError(f"all {len(records)} fits failed, the first with: {next(iter(records)).error}")

    def result(growth: Growth, **more: Any) -> StructureSearch:
        search, is_last = growth.search, growth is (of_log or of_y)
        why = stopped if stopped and (is_last or not growth.stopped) else growth.stopped
        # An interrupted search may have sampled none.
        return StructureSearch(search.table(), search.fits, why, **more)

    chosen = result(of_y) if of_log is None else result(of_log, is_of_logarithm=True)
    of_both = chosen if of_log is None else result(of_y, logarithm=chosen, gain=float(gain))
    modes = (of_log or of_y).search.modes
    _warn(chosen, modes, "" if of_log is None else " for the logarithm of y")
    if advice:
        warn_user(advice, DataWarning)
    return of_both


@dataclass
class Growth:
    """A search under way, from the kernels ``first`` on; ``stopped`` says why it ended."""

    first: Sequence[Expression]
    bases: Sequence[str | Expression]
    n_inputs: int
    beside_a_constant: bool
    depth: int
    beam: int
    budget: int | None
    progressbar: bool
    search: FittedKernels
    outputs: str = ""
    level: int = 0
    stopped: str = ""
    expanded: set[Expression] = field(default_factory=set)
    candidates: dict[Expression, Expression | None] = field(default_factory=dict)

    def __post_init__(self):
        self.candidates = dict.fromkeys(self.first)

    def grow(self, last: int) -> None:
        """Fit the next levels, up to the last one or until one brings nothing better."""
        search, depth = self.search, self.depth
        while not self.stopped and self.level < last:
            self.level += 1
            before = search.best_score()
            room = None if self.budget is None else self.budget - len(search.records)
            chosen = dict(list(self.candidates.items())[:room])
            self._fit(chosen, self.level, f"Level {self.level} of at most {depth}{self.outputs}")
            if len(chosen) < len(self.candidates) or len(search.records) == self.budget:
                self.stopped = f"budget of {self.budget} kernels used up"
            elif self.level > 1 and not search.best_score() > before:
                self.stopped = f"level {self.level} brought nothing better"
            elif self.level == depth:
                self.stopped = f"depth {depth} reached"
            else:
                best = [record.expression for record in search.ranked()[: self.beam]]
                self.candidates = self._children([one for one in best if one not in self.expanded])
                if not self.candidates:
                    self.stopped = "no neighbours left"

    def try_noise(self) -> None:
        """Fit the constant kernel, which says that there is nothing but noise and has no neighbours to try."""
        if self.search.fits:
            self.search.fit({Base("C"): None}, 1)
            self.expanded.add(Base("C"))

    def grow_around(self) -> None:
        """Fit the neighbours of every probable kernel, small ones first, up to a limit."""
        search = self.search
        n_before = len(search.records)
        room = max(_NEIGHBOURS, n_before)
        while room and (probable := [one for one in search.probable() if one not in self.expanded]):
            by_size = sorted(self._children(probable).items(), key=lambda child: len(base_kernels(child[0])))
            chosen = dict(by_size[:room])
            room -= len(chosen)
            self._fit(chosen, self.level + 1, f"Around the probable kernels{self.outputs}")
            search.sample()
        if len(search.records) > n_before:
            limit = "" if room else ", the limit"
            self.stopped += f", then {len(search.records) - n_before} around probable kernels{limit}"

    def _children(self, parents: Sequence[Expression]) -> dict[Expression, Expression | None]:
        """What is one step away and not tried yet, each with the best of its parents, the first."""
        self.expanded.update(parents)
        largest = self.depth - 1 + max(len(base_kernels(kernel)) for kernel in self.first)
        children: dict[Expression, Expression | None] = {}
        for parent in parents:
            steps = (*parent.neighbours(self.bases, self.n_inputs), *parent.simpler(), *parent.exchanged())
            for child in steps:
                is_idle = is_redundant(child, beside_a_constant=self.beside_a_constant)
                if not is_idle and child not in self.search.records and len(base_kernels(child)) <= largest:
                    children.setdefault(child, parent)
        return children

    def _fit(self, chosen: Mapping[Expression, Expression | None], level: int, what: str) -> None:
        with progress(what, len(chosen), self.progressbar) as advance:
            for batch in batched(chosen.items(), _BATCH):
                self.search.fit(dict(batch), level)
                advance(len(batch))
            self.search.confirm()


def _advice(gain: float, search: FittedKernels, logs: FittedKernels) -> str:
    """What it means that the logarithm of y is more probable."""
    before, by = search.ranked()[0].expression, logs.ranked()[0].expression
    return (
        f"kernel search: the logarithm of y is {gain:.0f} nats more probable by {by} than y itself by {before}, so its "
        "changes multiply, and the search goes on with the logarithm, found.logarithm. found.predict(X_new) takes it, "
        "in the units of y, and decompose(found); found.best and found.average are of y itself, after "
        f"{len(search.fits)} kernel(s), and their forecasts may go wrong"
    )


def _warn(result: StructureSearch, modes: Mapping[str, LaplaceFit], outputs: str) -> None:
    """One warning for every doubt about the result."""
    problems = []
    table, best = result.table, result._best_label()
    top = str(table.model.to_numpy()[int(np.nanargmax(scores_of(table)))])
    if bool(table.doubtful.sel(model=top)):
        if bool(table.doubtful.sel(model=best)):
            what = f"all fits within ten nats of the best are doubtful, for example {top}"
        else:
            what = f"{top} is more probable than {best}, but was passed over because its fit is doubtful"
        problems.append(f"{what}: {'; '.join(modes[top].diagnostics['warnings'])}")
    if result.stopped == "interrupted":
        problems.append(f"it was interrupted; the result holds the {len(result.fits)} fits made before")
    if problems:
        warn_user(f"kernel search{outputs}: " + "; ".join(problems), DoubtfulFitWarning)
