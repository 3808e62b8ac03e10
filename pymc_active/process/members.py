"""Weighted particles of one model or of several: draws, densities and means of their outcomes at new rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from pymc_active.inference.ensemble import Ensemble, Seed
from pymc_active.process.process import Process

_DRAWS = 32  # Of an outcome from each particle where PyMC has no formula for its mean.


@dataclass(frozen=True, eq=False)
class Members:
    """Particles of K models by model, ``z`` (S_k, P_k), with weights (S,) that add up to one over all.

    ``owner`` (S,) numbers the models. Outcomes are independent given the particle.
    """

    processes: tuple[Process, ...]
    z: tuple[np.ndarray, ...]
    weights: np.ndarray
    owner: np.ndarray
    ensemble: Ensemble

    @classmethod
    def of(cls, ensemble: Ensemble, n: int | None = None, random_seed: Seed = 0) -> Members:
        """The members of an ensemble, or up to ``n`` equally weighted ones of each model."""
        some = ensemble if n is None else ensemble.first(n, random_seed)
        owner = np.concatenate([np.full(len(part.z), part.owner) for part in some.parts])
        models, z = (tuple(of) for of in zip(*((part.gpm, part.z) for part in some.parts), strict=True))
        return cls(models, z, some.weights, owner, ensemble)

    def __len__(self) -> int:
        return len(self.weights)

    @property
    def distinct(self) -> np.ndarray:
        """Numbers (S,) that only particles and their repeats share."""
        each = [np.unique(z, axis=0, return_inverse=True)[1].ravel() for z in self.z]
        return np.concatenate([which + len(self) * k for k, which in enumerate(each)])

    def draw(self, X: np.ndarray, shift: int = 0) -> np.ndarray:
        """One outcome of each particle at each row of X (m, D), (S, m), with common random numbers at all rows.

        Equal shifts draw equal numbers, others other ones.
        """
        drawn = []
        for process, z in zip(self.processes, self.z, strict=True):
            drawn.append(np.roll(process.draw(np.roll(z, shift, axis=0), X), -shift, axis=0))
        return np.concatenate(drawn)

    def draw_many(self, X: np.ndarray, times: int) -> tuple[np.ndarray, np.ndarray]:
        """So many outcomes of each particle, (times S, m), by random numbers of their own, and their weights."""
        each = [process.draw(np.tile(z, (times, 1)), X) for process, z in zip(self.processes, self.z, strict=True)]
        weights = np.split(self.weights, np.cumsum([len(z) for z in self.z])[:-1])
        return np.concatenate(each), np.concatenate([np.tile(w, times) for w in weights]) / times

    def log_densities(self, Y: np.ndarray, X: np.ndarray) -> np.ndarray:
        """Log densities (K, S, m) of outcomes Y (K, m) at rows of X under each particle."""
        parts = [p.log_densities(z, Y[:, None], X) for p, z in zip(self.processes, self.z, strict=True)]
        densities = np.concatenate(parts, axis=1)
        return np.where(np.isnan(densities), -np.inf, densities)

    def means(self, X: np.ndarray) -> np.ndarray:
        """Expected outcomes (S, m) of each particle at rows of X (m, D); by draws where PyMC has no formula."""
        each = []
        for process, z in zip(self.processes, self.z, strict=True):
            process.check_mean()
            if (mean := process.graphs.means) is not None:
                with np.errstate(all="ignore"):
                    values = np.asarray(mean(z, *process.read_tables(X)), float)
                each.append(np.broadcast_to(values, (len(z), len(X))))
            else:
                drawn = process.draw(np.tile(z, (_DRAWS, 1)), X).reshape(_DRAWS, len(z), -1)
                values, noise = drawn.mean(0), drawn.var(0, ddof=1).mean(0) / _DRAWS
                # Particles differ by less than such means.
                share = np.clip(1 - noise / np.maximum(values.var(0), np.finfo(float).tiny), 0, 1)
                each.append(values.mean(0) + np.sqrt(share) * (values - values.mean(0)))
        return np.concatenate(each)

    def log_mean(self, log: np.ndarray) -> np.ndarray:
        """Log of the mean over particles of densities (K, S, m), (K, m)."""
        with np.errstate(divide="ignore"):
            return logsumexp(log + np.log(self.weights)[:, None], axis=1)
