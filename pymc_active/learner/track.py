"""One model of a run and its last fit, from which the next one follows."""

from __future__ import annotations

from concurrent.futures import Executor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import cast

import numpy as np

from pymc_active.inference.fit import Fit
from pymc_active.laplace.fit import LaplaceFit
from pymc_active.laplace.fitting import fit_laplace
from pymc_active.models.gpmodel import GPModel
from pymc_active.particles.choose import choose
from pymc_active.particles.informative import holding, informative_rows
from pymc_active.particles.particle_fit import ParticleFit, default_particles

# Points told between full mode searches of one model; in between its modes are followed.
_SEARCH_EVERY = 15
# Share of ``max_points`` that is chosen at a time: the points told next are added.
_CHOSEN = 0.9
# Particles of each of several models at most.
_PARTICLES = 128
# With fewer points several wide modes share the posterior, and a thorough search does not pay.
_SMALL = 30


@dataclass(eq=False)
class Track:
    """A model, how to represent its posterior, and what its next fit needs of the last one.

    ``stream`` distinguishes the random numbers of several models, which have fewer particles each.
    ``rows`` are the rows of the data that the last fit used, None for all, of ``n_seen`` points.
    """

    gpm: GPModel
    inference: str
    stream: int | None = None
    max_points: int | None = None
    last: Fit | None = None
    # Number of points at the last full search of modes.
    last_search: int = -_SEARCH_EVERY
    rows: np.ndarray | None = None
    n_seen: int = 0

    @property
    def by_modes(self) -> bool:
        """Whether modes represent the posterior."""
        return self.inference == "laplace" or not self.gpm.shapes

    def follow(self, seed: int, executor: Executor | None = None, anew: bool = False) -> Fit:
        """Fit to the data that the model holds: update the particles, or follow the modes.

        ``anew`` draws all particles that a single model has, or searches modes beside those known.
        """
        # A seed for each n, so that earlier fits do not affect fresh ones.
        n, own = len(self.gpm.y), [] if self.stream is None else [self.stream]
        rng = np.random.default_rng((seed, n, *own))
        if self.by_modes:
            self.last = self._follow_modes(rng, executor, anew)
            return self.last
        if self.max_points is not None and n > self.max_points:
            self.rows = self._informative(self.max_points, rng)
        self.n_seen = n
        with self.holding_rows():
            last = None if anew else cast("ParticleFit | None", self.last)
            if last is not None and _begins_with(self.gpm.X, last.X) and _begins_with(self.gpm.y, last.y):
                self.last = last.follow(rng, executor)
            else:
                n_particles = default_particles(len(self.gpm.y))
                if self.stream is not None and not anew:
                    n_particles = min(n_particles, _PARTICLES)
                self.last = self.renew(self.gpm, n_particles, rng, executor=executor)
        if self.rows is not None:
            self.last = replace(self.last, n_left_out=n - len(self.rows))
        return self.last

    def take(self, other: Track) -> None:
        """The fit of the same track from another process, which has a copy of the model."""
        assert other.last is not None
        self.last = replace(other.last, gpm=self.gpm)
        self.last_search, self.rows, self.n_seen = other.last_search, other.rows, other.n_seen

    @property
    def renew(self) -> partial[ParticleFit]:
        """Makes a fresh fit, now and when an update does not suffice."""
        return partial(choose, method=self.inference)

    def _informative(self, max_points: int, rng: np.random.Generator) -> np.ndarray:
        """The rows of the last fit and those told since; if they are too many, informative ones with room for more."""
        new = np.arange(self.n_seen, len(self.gpm.y))
        if self.rows is not None and len(self.rows) + len(new) <= max_points:
            return np.concatenate([self.rows, new])
        return informative_rows(self.gpm, int(_CHOSEN * max_points), rng)

    def holding_rows(self) -> AbstractContextManager:
        """Context in which the model holds the data that the last fit was made to."""
        return nullcontext() if self.rows is None else holding(self.gpm, self.gpm.X[self.rows], self.gpm.y[self.rows])

    def _follow_modes(self, rng: np.random.Generator, executor: Executor | None, anew: bool) -> LaplaceFit:
        """Follow the modes; every 15 points search them anew."""
        n = len(self.gpm.y)
        if not self.gpm.shapes:
            return fit_laplace(self.gpm, optimize=False)
        is_full, is_small = anew or n - self.last_search >= _SEARCH_EVERY, n < _SMALL
        fit = fit_laplace(
            self.gpm,
            start=cast("LaplaceFit | None", self.last),
            n_restarts=2 if not is_full else 6 if is_small else 12,
            population=None if is_full and not is_small else 0,
            random_seed=rng,
            progressbar=False,
            executor=executor,
        )
        if is_full:
            self.last_search = n
        return fit


def _begins_with(values: np.ndarray, first: np.ndarray) -> bool:
    return len(first) <= len(values) and np.array_equal(values[: len(first)], first)
