"""The answer of a learner: the recommended point, a warning where it is a guess, and its uncertainty."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr
from scipy.special import betaincinv, ndtri

from pymc_active.criteria.improvement import UpperConfidenceBound
from pymc_active.criteria.maximum.base import OptimizedPaths, sample_optima
from pymc_active.criteria.maximum.domain import Domain
from pymc_active.inference.fit import Fit
from pymc_active.learner.candidates import Candidates, Choice, rows_with
from pymc_active.learner.success import Success
from pymc_active.learner.weighted import likely
from pymc_active.learner.working_region import maxima_of_process, maxima_where_possible, rows_that_work
from pymc_active.predictions.ensembles import as_ensemble, conditioned_gps, ensemble_of, is_of_processes, model_of
from pymc_active.predictions.model_average import ModelAverage
from pymc_active.predictions.predict import predict
from pymc_active.process.members import Members
from pymc_active.spaces.space import Space
from pymc_active.support.numbers import coordinate, plus_minus
from pymc_active.support.options import count
from pymc_active.support.progress import progress
from pymc_active.support.scaling import spread
from pymc_active.support.summaries import Summarized, Summary
from pymc_active.support.tables import read_inputs, read_numbers
from pymc_active.support.threads import one_blas_thread
from pymc_active.support.user_warnings import DataWarning, RunWarning, ignoring, warn_user

_HYPERPARAMETERS, _FEATURES = 64, 1000
# Candidates that show the range of a score.
_PLACES = 256
# A mean that exceeds those of all measured points by more sds of y is doubtful.
_FAR = 1.0
# Rows, and inputs of rows, in a summary.
_SHOWN = 5
# Paths of each round of the test for stopping, and the share of delta's decisions that may be wrong by chance. The few
# of the first round can only show that it is far too early.
_ROUNDS, _TEST_ERROR = (16, 48, 64, 128, 256), 0.05


@dataclass(frozen=True, repr=False)
class Optimum(Summarized):
    """The recommended point, and the distribution of the place of the maximum (or minimum) of f.

    Attributes
    ----------
    x : ndarray or DataFrame, shape (1, D)
        The point with the best posterior mean, as :meth:`Learner.recommend` gives it.
    f_mean, f_sd : float
        Posterior mean and sd of f there, in units of y or, with a ``likelihood``, of the expected outcome.
    samples : xarray.Dataset
        Maximisers ``x`` (path, input) of sample paths, draws of the maximum's place, and their heights ``f`` (path);
        after failed experiments those where success is at least as likely as failure.
    regret, regret_error : float
        Expected difference between the best value of f and that at ``x``, in units of y: the mean over the paths, with
        its standard error.
    """

    x: Any
    f_mean: float
    f_sd: float
    samples: xr.Dataset
    regret: float
    regret_error: float
    fit: Fit | ModelAverage
    domain: Domain
    minimize: bool

    def _summary(self) -> Summary:
        what, places = "minimum" if self.minimize else "maximum", self.samples.x.to_numpy()
        pool, space = self.domain.pool, self.fit.gpm.space
        if space is not None and space.has_labels:
            return self._summary_in_space(what, space, space.decode(space.snap(places, self.domain.fixed)))
        widths = self.domain.high - self.domain.low if pool is None else np.ptp(pool, axis=0)
        is_listed = pool is not None and self.domain.space is None
        # A row of a pool is shown as the user wrote it.
        of_recommended = np.zeros(len(widths)) if is_listed else widths
        table = pd.DataFrame(
            {
                "recommended": list(map(coordinate, np.asarray(self.x, float)[0], of_recommended)),
                f"place of the {what}, median": list(map(coordinate, np.median(places, axis=0), widths)),
                "its sd": list(map(coordinate, places.std(0) * (np.ptp(places, axis=0) > 0), widths)),
            },
            index=self.samples.input.to_numpy().astype(str),
        )
        facts = {
            "recommended row": self.x.index[0] if is_listed and isinstance(self.x, pd.DataFrame) else None,
            f"probable rows of the {what}": self._probable_rows() if is_listed else None,
            **self._facts(),
        }
        return Summary(f"Optimum: the {what} of f", facts, [table] if not is_listed or len(widths) <= _SHOWN else [])

    def _summary_in_space(self, what: str, space: Space, places: pd.DataFrame) -> Summary:
        """A row for each input: of labels how often each is the place."""
        rows = {}
        widths = dict(zip(space.inputs, space.is_real * np.ptp(space.limits, axis=0), strict=True))
        for name, column in places.items():
            best = self.x[name].iloc[0]
            if pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column):
                rows[name] = coordinate(best, widths[name]), f"{column.median():.4g} ± {column.std():.2g}"
            else:
                shares = column.value_counts(normalize=True)[:3]
                rows[name] = str(best), ", ".join(f"{label} {share:.0%}" for label, share in shares.items())
        table = pd.DataFrame.from_dict(rows, orient="index", columns=["recommended", f"place of the {what}"])
        return Summary(f"Optimum: the {what} of f", self._facts(), [table])

    def _facts(self) -> dict[str, Any]:
        is_listed = self.domain.is_pool and self.domain.space is None
        return {
            "f there": f"{plus_minus(self.f_mean, self.f_sd, digits=2)} (sd)",
            f"expected regret, to the best {'candidate' if is_listed else 'anywhere'}": plus_minus(
                self.regret, self.regret_error
            ),
            "from": f"{len(self.fit.y)} points, {self.samples.sizes['path']} sample paths",
        }

    def row_probabilities(self) -> np.ndarray:
        """Of a pool of m candidates: the probability of each to be the maximum (or minimum), (m,)."""
        pool = self.domain.pool
        if pool is None or self.domain.space is not None:
            raise ValueError("a box or a space has no rows: samples.x are places of its maximum")
        # Places went through the kernel's units, and may differ in the last digits; equal rows count as the first.
        scale = np.where(np.ptp(pool, axis=0) > 0, np.ptp(pool, axis=0), 1.0)
        places, counts = np.unique(self.samples.x.to_numpy(), axis=0, return_counts=True)
        rows = [np.square((pool - x) / scale).sum(1).argmin() for x in places]
        return np.bincount(rows, counts, len(pool)) / counts.sum()

    def _probable_rows(self) -> str:
        p, labels = self.row_probabilities(), self.domain.labels
        best = [k for k in np.argsort(-p, kind="stable")[:_SHOWN] if p[k] > 0]
        return ", ".join(f"{k if labels is None else labels[k]} {p[k]:.0%}" for k in best)

    def probability_within(self, radius: Any) -> float:
        """Probability that the maximum is within ``radius`` of ``x`` in each input; one radius or one per input."""
        away = np.abs(self.samples.x.to_numpy() - read_inputs(self.x, "x", inputs=self.fit.gpm.inputs))
        return float((away <= np.asarray(radius, float)).all(1).mean())


def best_point(
    fit: Fit | ModelAverage, candidates: Candidates, measured: np.ndarray, success: Success | None, minimize: bool,
    learn: str,
) -> Choice:  # fmt: skip
    """The candidate with the best posterior mean; after failures one that is likely to work, or a measured one."""
    method = "draws" if learn == "maximum" else None
    scorer = UpperConfidenceBound(0.0, minimize, method, random_seed=0).scorer(fit)
    if success is None:
        return candidates.maximum(scorer)
    # A measured point works, whatever the classifier says.
    low, high = candidates.limits
    rows, inside = candidates.find(measured), ((low <= measured) & (measured <= high)).all(1)
    inside &= np.isin(np.arange(len(measured)), rows_with(measured, 0, candidates.fixed))
    points = zip(map(Choice, measured, rows, scorer.score(measured).tolist()), inside, strict=True)
    known = [choice for choice, is_inside in points if is_inside and (choice.row >= 0 or not len(candidates))]
    places = np.concatenate([candidates.places(_PLACES), measured])
    return max([candidates.maximum(likely(scorer, success, places)), *known], key=lambda choice: choice.score)


def warn_if_far_above(
    fit: Fit | ModelAverage, best: np.ndarray, measured: np.ndarray, y: np.ndarray, minimize: bool
) -> None:
    """Warn if the best point (D,) is predicted to be far better than all measured ones (n, D) with outputs y (n,)."""
    # Measured points far outside the bounds have been told of.
    with ignoring(DataWarning):
        p = predict(fit, np.concatenate([best[None], measured]))
    sign, mean = -1.0 if minimize else 1.0, p.f_mean.to_numpy()
    gain = float(sign * mean[0] - (sign * mean[1:]).max())
    if model_of(fit).likelihood is not None:
        # Outcomes are counts of any size, and predictions rates.
        y = mean[1:]
    # Where f has a cliff, most of y differ by far less than an sd. Close to the best they do so as well, but are known.
    usual = np.subtract(*np.percentile(y, (75, 25))) / (2 * ndtri(0.75))
    if gain > _FAR * spread(y) > 0 or min(gain, np.sqrt(p.f_variance[0])) > usual > 0:
        which = "below" if minimize else "above"
        warn_user(
            f"the recommended point is predicted to have f = {mean[0]:.4g} ± {np.sqrt(p.f_variance[0]):.2g}, "
            f"{gain:.3g} {which} the best point measured. This is a guess of the model where it has no data: "
            "measure the point before you rely on it",
            RunWarning,
        )


class Recommended(NamedTuple):
    """A recommended point x (D,), and what says how much better others may be."""

    x: np.ndarray
    fit: Fit | ModelAverage
    domain: Domain
    success: Success | None
    minimize: bool


def find_optimum(recommended: Recommended, shown: Any, n_optima: int, seed: int, progressbar: bool) -> Optimum:
    """Compare a recommended point, ``shown`` to the user, with the maxima of sample paths."""
    count("n_optima", n_optima, least=2)
    x, fit, domain, success, minimize = recommended
    rng = np.random.default_rng((seed, len(fit.y)))
    n = min(_HYPERPARAMETERS, n_optima)
    if is_of_processes(fit):
        members = Members.of(as_ensemble(fit), n_optima)
        places, heights, short = maxima_of_process(members, domain, x, minimize, success, rng)
        error = float(short.std() / np.sqrt(len(short)))
    else:
        with one_blas_thread(), progress("Maximising sample paths", n, progressbar) as advance:
            optima = _optima(recommended, n_optima, n, seed, rng, advance)
            places = np.concatenate([o.gp.to_user(o.maxima.X) for o in optima])
            places[:, list(domain.fixed)] = list(domain.fixed.values())
            heights = np.concatenate([o.gp.to_expected(o.maxima.values) for o in optima])
            short = _shortfalls(optima, x)
        # Paths of the same hyperparameters are no independent draws, but of one, fixed, they are.
        first = np.cumsum([0, *(len(o.maxima.X) for o in optima[:-1])]) if len(optima) > 1 else np.arange(len(short))
        away = np.add.reduceat(short - short.mean(), first)
        error = float(np.sqrt(np.square(away).sum() * len(first) / (len(first) - 1)) / len(short))
    p = predict(fit, x[None])
    samples = xr.Dataset({"x": (("path", "input"), places), "f": ("path", heights)}, coords={"input": fit.gpm.inputs})
    sd = float(np.sqrt(p.f_variance[0]))
    return Optimum(shown, float(p.f_mean[0]), sd, samples, float(short.mean()), error, fit, domain, minimize)


def regret_is_small(recommended: Recommended, epsilon: float, delta: float, seed: int, progressbar: bool) -> bool:
    """Whether P(regret > epsilon) < delta, by a sequential test over paths, each of its own hyperparameters."""
    # Paths are added until a Clopper-Pearson interval excludes delta, with the error spread over the rounds; if they do
    # not suffice, the answer is no: Wilson (2024), see :meth:`Learner.stop`, section 4.
    x, fit, domain, success, minimize = recommended
    rng, n_large, n = np.random.default_rng((seed, len(fit.y))), 0, 0
    if is_of_processes(fit):
        short = maxima_of_process(Members.of(as_ensemble(fit)), domain, x, minimize, success, rng).short
        n_large, n = int((short > epsilon).sum()), len(short)
        return n_large < n and bool(betaincinv(n_large + 1, n - n_large, 1 - _TEST_ERROR) < delta)
    for level, size in enumerate(_ROUNDS):
        what = f"Maximising sample paths, {n} of at most {sum(_ROUNDS)} done"
        with one_blas_thread(), progress(what, size, progressbar) as advance:
            optima = _optima(recommended, size, size, int(rng.integers(2**31)), rng, advance)
            short = _shortfalls(optima, x)
        n_large, n = n_large + int((short > epsilon).sum()), n + size
        error = _TEST_ERROR / 2 ** max(level, 1)
        if level and n_large < n and betaincinv(n_large + 1, n - n_large, 1 - error) < delta:
            return True
        if n_large and betaincinv(n_large, n - n_large + 1, error) > delta:
            return False
    return False


def _optima(
    recommended: Recommended, n_optima: int, n_hyperparameters: int, seed: int, rng: np.random.Generator,
    advance: Callable[..., None],
) -> list[OptimizedPaths]:  # fmt: skip
    x, fit, domain, success, minimize = recommended
    ensemble = ensemble_of(fit, draws=n_hyperparameters, random_seed=seed)
    gps = conditioned_gps(ensemble, n_hyperparameters, minimize=minimize, random_seed=seed)
    if success is not None and domain.is_pool:
        domain = rows_that_work(domain, success, x)
    optima = sample_optima(gps, domain, n_optima, _FEATURES, rng, advance)
    is_box = success is not None and not domain.is_pool
    return maxima_where_possible(optima, domain, success, x, rng) if domain.space is not None or is_box else optima


def _shortfalls(optima: list[OptimizedPaths], x: np.ndarray) -> np.ndarray:
    """By how much each path is lower at x (D,) than at its maximum, in units of y."""
    short = [
        o.gp.sign * (o.gp.to_expected(o.maxima.values) - o.gp.to_expected(o.paths.value(o.gp.x_map(x[None]))[:, 0]))
        for o in optima
    ]
    return np.maximum(np.concatenate(short), 0.0)


def read_until(until: Any) -> tuple[float, float]:
    """Epsilon and delta, checked before anything is measured."""
    numbers = read_numbers(until, "until").reshape(-1).tolist()
    epsilon, delta = (*numbers, 0.05)[:2] if 1 <= len(numbers) <= 2 else (np.nan, np.nan)
    if not epsilon >= 0 or not 0 < delta < 1:
        shown = " and ".join(f"{number:g}" for number in numbers) or "no number"
        raise ValueError(f"epsilon must be at least 0 and delta between 0 and 1; got {shown}")
    return epsilon, delta
