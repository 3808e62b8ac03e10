"""The kernels that a search has fitted so far: their fits, evidences, scores and ranks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr
from scipy.special import softmax

from pymc_active.inference.fit import Fit
from pymc_active.kernels.expressions import Expression, Product, log_prior, parse
from pymc_active.laplace.fit import LaplaceFit
from pymc_active.laplace.fitting import fit_laplace_models
from pymc_active.models.composite import composite_gp
from pymc_active.models.gpmodel import GPModel
from pymc_active.particles.choose import choose
from pymc_active.particles.modes import from_modes
from pymc_active.particles.particle_fit import ParticleFit
from pymc_active.support.user_warnings import ActiveWarning, ignoring

# Restarts for a kernel that also starts from its parent's modes, more at the second level, which has few kernels and
# decides where the search goes; and how many of the best kernels of a level are then searched as thoroughly as the
# first ones: most candidates need only be ranked.
_RANKED, _SECOND, _THOROUGH = 2, 8, 3
# Weighted draws around the modes of a kernel with up to so many points (with n points fewer by (points / n)²), the
# fewest; and particles made of them (a guess).
_DRAWS, _UP_TO, _FEWEST_DRAWS, _PARTICLES = 1000, 50, 100, 64
# How far behind the best a kernel may be to have its posterior sampled (nats; Laplace's evidence is too low by up to
# three or four), and how many of the best have.
FAR, MOST = 10.0, 30
# Probability from which the neighbours of a kernel are fitted before a search ends.
_PROBABLE = 0.1


class Record(NamedTuple):
    """A kernel that was tried: where it comes from, and the message if its fit failed."""

    expression: Expression
    level: int
    parent: Expression | None
    error: str = ""


@dataclass
class FittedKernels:
    """The models fitted so far."""

    X: Any
    y: Any
    model_keywords: dict[str, Any]
    fit_keywords: dict[str, Any]
    seed: int
    n_bases: int
    records: dict[Expression, Record] = field(default_factory=dict)
    # Of all kernels, and of those whose posterior was sampled.
    modes: dict[str, LaplaceFit] = field(default_factory=dict)
    sampled: dict[str, ParticleFit] = field(default_factory=dict)
    bics: dict[str, float] = field(default_factory=dict)
    # Those searched with all restarts.
    thorough: set[str] = field(default_factory=set)

    @property
    def fits(self) -> dict[str, Fit]:
        """By the label of the kernel."""
        return {**self.modes, **self.sampled}

    def fit(self, batch: Mapping[Expression, Expression | None], level: int) -> None:
        """Fit kernels, each given with its parent: thoroughly without one, else as well as ranking needs."""
        # What there is to say of period, inputs and outputs has been said of the first kernel.
        with ignoring(ActiveWarning):
            models = {str(e): composite_gp(self.X, self.y, e, **self.model_keywords) for e in batch}
        starts = {str(e): self.modes[str(parent)] for e, parent in batch.items() if parent is not None}
        errors = self._fit(models, starts, (_SECOND if level == 2 else _RANKED) if starts else None)
        for expression, parent in batch.items():
            self.records[expression] = Record(expression, level, parent, errors.get(str(expression), ""))

    def confirm(self) -> None:
        """Search the best kernels thoroughly, from the modes they have."""
        if self.fit_keywords.get("n_restarts", np.inf) <= _RANKED:
            return
        best = [str(record.expression) for record in self.ranked()[:_THOROUGH]]
        rough = {label: self.modes[label] for label in best if label not in self.thorough}
        if rough:
            self._fit({label: fit.gpm for label, fit in rough.items()}, rough)

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
        for label, fit in fits.items():
            self.bics[label] = 2 * float(fit.best.state.factor.nll) + _count(fit) * float(np.log(len(fit.y)))
            _forget(fit)
        self.modes |= fits

    def sample(self) -> None:
        """Sample the posteriors of the kernels that may matter, if that is cheap."""
        # With many points the posterior is as narrow as Laplace has it.
        draws = int(_DRAWS * min(1.0, _UP_TO / len(self.y)) ** 2)
        if draws < _FEWEST_DRAWS:
            return
        while todo := [label for label in self._near_best() if label not in self.sampled]:
            for label in todo:
                self.sampled[label] = self._sampled(label, _PARTICLES, draws)

    def sample_best(self) -> None:
        """Give the best kernel, if it was sampled, as many particles as :func:`pymc_active.fit` would."""
        left = set(self.sampled)  # more draws may say that another one is the best
        while (best := self.ranked()) and (label := str(best[0].expression)) in left:
            left.remove(label)
            self.sampled[label] = self._sampled(label, self.modes[label].gpm.n_particles(len(self.y)), None)

    def _sampled(self, label: str, n_particles: int, draws: int | None) -> ParticleFit:
        rng, why = np.random.default_rng(self.seed), "its kernel was searched by modes"
        fit = from_modes(self.modes[label], n_particles, rng, why, choose, n_weighted=draws)
        _forget(self.modes[label])
        return fit

    def _near_best(self) -> list[str]:
        finite = [(label, value) for label, value in self._log_evidences().items() if np.isfinite(value)]
        scores = {label: value + self.log_prior(label) for label, value in finite}
        best = sorted(scores, key=scores.__getitem__, reverse=True)[:MOST]
        return [label for label in best if scores[label] > scores[best[0]] - FAR]

    def _log_evidences(self) -> dict[str, float]:
        """By label; minus infinity where the posterior is finite at the mode alone: doubtful, and the others stay."""
        values = {label: fit.evidence.value for label, fit in self.fits.items()}
        return values | {label: -np.inf for label, fit in self.sampled.items() if not fit.made["n_weighted"]}

    def log_prior(self, label: str) -> float:
        """Of the structure of a kernel, nats."""
        return log_prior(parse(label), self.n_bases)

    def ranked(self) -> list[Record]:
        """Fits, the best first; without the doubtful ones unless one of them is the best."""
        if not self.modes:
            return []
        table, records = self.table(), list(self.records.values())
        return [records[i] for i in preferred(table)]

    def probable(self) -> list[Expression]:
        """The ranked ones with a probability of a tenth or more, the best first."""
        probability = self.table().probability.to_series()
        return [one.expression for one in self.ranked() if probability[str(one.expression)] >= _PROBABLE]

    def best_score(self) -> float:
        """The score of the best kernel so far."""
        ranked = self.ranked()
        return float(scores_of(self.table().sel(model=str(ranked[0].expression)))) if ranked else -np.inf

    def highest(self) -> float:
        """The highest score of any kernel, also of doubtful fits; minus infinity if there is none."""
        scores = scores_of(self.table()) if self.modes else np.empty(0)
        return float(np.max(scores[np.isfinite(scores)], initial=-np.inf))

    def table(self) -> xr.Dataset:
        """What the result of the search shows, over ``model``."""
        labels = [str(expression) for expression in self.records]
        structure = {label: self.log_prior(label) for label in labels}
        log_evidence = pd.Series(self._log_evidences(), dtype=float)
        scores = (log_evidence + pd.Series(structure)).dropna()
        by_label = {
            "probability": pd.Series(softmax(scores.where(np.isfinite(scores), -np.inf)), scores.index),
            "log_evidence": log_evidence,
            "log_prior": pd.Series(structure),
            "log_posterior": pd.Series({label: fit.log_posterior for label, fit in self.modes.items()}),
            "bic": pd.Series(self.bics),
            "n_parameters": pd.Series({label: float(_count(fit)) for label, fit in self.modes.items()}),
        }
        columns: dict[str, Any] = {name: series.reindex(labels).to_numpy(float) for name, series in by_label.items()}
        is_doubtful = pd.Series({label: fit.is_doubtful for label, fit in self.modes.items()})
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


def scores_of(table: xr.Dataset) -> np.ndarray:
    """Log evidence and prior."""
    return (table.log_evidence + table.log_prior).to_numpy()


def ranking(table: xr.Dataset) -> np.ndarray:
    """Positions, the best first: doubtful fits behind sound ones that are at most ten nats worse, failed ones last."""
    # Without noise all good fits are doubtful, and what is sound explains nothing.
    scores = np.nan_to_num(scores_of(table), nan=-np.inf, posinf=-np.inf)
    return np.lexsort(
        (table.doubtful.to_numpy(), FAR * table.doubtful.to_numpy() - scores, table.error.to_numpy() != "")
    )


def preferred(table: xr.Dataset) -> np.ndarray:
    """The ranking without failed fits, and without doubtful ones unless one of them is the best."""
    order, doubtful = ranking(table), table.doubtful.to_numpy()
    order = order[table.error.to_numpy()[order] == ""]
    return order if doubtful[order[0]] else order[~doubtful[order]]


def _forget(fit: LaplaceFit) -> None:
    """The matrices of a hundred fits are too many."""
    for expansion in fit.expansions:
        expansion.forget()


def _count(fit: LaplaceFit) -> int:
    """Number of free hyperparameters, without the output scales that only enter as a product with another."""
    n_scales = sum(name.startswith("log_outputscale") for name in fit.gpm.shapes)
    return len(fit.theta) - min(_redundant_scales(fit.gpm.expression), max(n_scales - 1, 0))


def _redundant_scales(expression: Expression | None) -> int:
    if expression is None:
        return 0
    own = len(expression.children) - 1 if isinstance(expression, Product) else 0
    return own + sum(_redundant_scales(child) for child in expression.children)
