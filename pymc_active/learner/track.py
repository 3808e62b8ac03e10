"""One model of a run and its last fit, from which the next one follows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import numpy as np

from pymc_active.inference.fit import Fit
from pymc_active.laplace.fit import LaplaceFit
from pymc_active.laplace.fitting import fit_laplace
from pymc_active.models.gpmodel import GPModel
from pymc_active.particles.choose import choose
from pymc_active.particles.particle_fit import ParticleFit, log_fresh
from pymc_active.process.fit import fit_process
from pymc_active.process.process import Process

# Points told between full mode searches of one model, or half as many as there were; in between its modes are followed.
_SEARCH_EVERY = 15
# Particles of each of several models at most.
_PARTICLES = 128
# With fewer points several wide modes share the posterior, and a thorough search does not pay.
_SMALL = 30


@dataclass(frozen=True, eq=False)
class Track:
    """A model, how to represent its posterior, and what its next fit needs of the last one.

    ``stream`` distinguishes the random numbers of several models, which have fewer particles each.
    """

    gpm: GPModel
    inference: str
    stream: int | None = None
    last: Fit | None = None
    # Number of points at the last full search of modes.
    last_search: int = -_SEARCH_EVERY

    def follow(self, seed: int, anew: bool = False, **how: Any) -> Track:
        """The track after a fit to the data that the model holds: particles are updated, or modes followed.

        ``anew`` draws all particles that a single model has, or searches modes beside those known.
        """
        # A seed for each n, so that earlier fits do not affect fresh ones.
        n, own = len(self.gpm.y), [] if self.stream is None else [self.stream]
        rng = np.random.default_rng((seed, n, *own))
        if self.inference == "laplace" or not self.gpm.shapes:
            return self._follow_modes(rng, anew, **how)
        last = None if anew else cast("ParticleFit | None", self.last)
        if last is not None and self.gpm.data.rows(slice(len(last.y))).equals(last.data):
            return replace(self, last=last.follow(rng, **how))
        n_particles = self.gpm.n_particles(n)
        if self.stream is not None and not anew and not isinstance(self.gpm, Process):
            n_particles = min(n_particles, _PARTICLES)
        log_fresh(self.gpm, "it is the first" if self.last is None else "the data changed, or it was asked for")
        return replace(self, last=self.renew(self.gpm, n_particles, rng, **how))

    def of(self, gpm: GPModel) -> Track:
        """The same track with an equal model, such as the one that another process had a copy of."""
        return replace(self, gpm=gpm, last=None if self.last is None else replace(self.last, gpm=gpm))

    def anew(self) -> Track:
        """The track without its last fit, from which the next one would follow."""
        return replace(self, last=None, last_search=-_SEARCH_EVERY)

    @property
    def renew(self) -> Callable[..., ParticleFit]:
        """Makes a fresh fit, now and when an update does not suffice."""
        if not isinstance(self.gpm, Process):
            return partial(choose, method=self.inference)
        # Several models are told apart by their evidences, which NUTS does not know.
        by_evidence = self.stream is not None and self.inference == "auto"
        return partial(fit_process, method="anneal" if by_evidence else self.inference)

    def _follow_modes(self, rng: np.random.Generator, anew: bool, progressbar: bool = False, **how: Any) -> Track:
        """Follow the modes; every 15 points, or with few when there are half as many again, search them anew."""
        n = len(self.gpm.y)
        if not self.gpm.shapes:
            return replace(self, last=fit_laplace(self.gpm, optimize=False))
        wanted = min(_SEARCH_EVERY, max(self.last_search, 0) // 2 + 1)
        is_full, is_small = anew or n - self.last_search >= wanted, n < _SMALL
        if is_full:
            reason = "it is the first search" if self.last is None else f"there were {self.last_search} at the last one"
            log_fresh(self.gpm, reason, "modes are searched")
        fit = fit_laplace(
            self.gpm,
            start=cast("LaplaceFit | None", self.last),
            n_restarts=2 if not is_full else 6 if is_small else 12,
            population=None if is_full and not is_small else 0,
            random_seed=rng,
            progressbar=progressbar and is_full,
            **how,
        )
        return replace(self, last=fit, last_search=n if is_full else self.last_search)
