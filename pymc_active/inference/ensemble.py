"""Weighted hyperparameters: the one input that predictions, criteria and sample paths average over.

:func:`pymc_active.predictions.ensembles.as_ensemble` builds an :class:`Ensemble` from a point, a fit, a trace or
several models.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np

from pymc_active.posterior.base import Moments, Posterior, State
from pymc_active.posterior.row_space import Space
from pymc_active.support.data import Data
from pymc_active.support.summaries import Summarized, Summary

# One Gaussian at the mode with most of the evidence: plain, or with the mean, or mean and variance, marginalised.
GAUSSIAN_METHODS = ("map", "bbq", "mgp")
# Mixtures over several hyperparameters.
MIXTURE_METHODS = ("modes", "draws")
METHODS = GAUSSIAN_METHODS + MIXTURE_METHODS

Seed = int | np.random.Generator | None


@dataclass(frozen=True, repr=False)
class Evidence(Summarized):
    """Log p(y) of a model and its standard error, nats.

    ``by`` is "smc" (annealed particles), "importance" (weighted or annealed draws around modes), "smc and importance"
    (both, mixed), "laplace" (a Gaussian at the modes, of unknown error: NaN), "exact" (no free parameters, error 0) or
    "unknown" (both NaN), as by "nuts".
    """

    value: float
    error: float
    by: str

    def __str__(self) -> str:
        return f"{self.value:.2f} ± {self.error:.2f} nats, by {self.by}"

    def _summary(self) -> Summary:
        return Summary(f"Evidence {self}")


UNKNOWN = Evidence(np.nan, np.nan, "unknown")


class LocalGaussian(Protocol):
    """A Gaussian approximation around one mode, such as a Laplace expansion."""

    @property
    def posterior(self) -> Posterior:
        """The posterior over z."""

    @property
    def state(self) -> State:
        """Its factorisation at the mode."""

    @property
    def root(self) -> np.ndarray:
        """Square root of the covariance of z, (P', r)."""

    def moments(self, X_new: np.ndarray, *, gradient: bool = False) -> Moments:
        """Predictions with the hyperparameters at the mode."""


class Part(NamedTuple):
    """Members of an ensemble that belong to one model and one space.

    ``z`` (k, P') are hyperparameters in the coordinates of ``space``, ``within`` (k,) their weights within the model
    (one in total over its parts), ``share`` and ``owner`` the model's weight and number. ``local`` holds the Gaussian
    around each member, if any; ``rule`` ("map", "bbq" or "mgp") says how predictions marginalise over it.
    """

    gpm: Any
    space: Space
    z: np.ndarray
    within: np.ndarray
    share: float = 1.0
    owner: int = 0
    local: tuple[LocalGaussian, ...] = ()
    rule: str = "map"


@dataclass(frozen=True, eq=False, repr=False)
class Ensemble(Summarized):
    """Weighted hyperparameters of one model, or of several.

    ``X`` (n, D), ``y`` and ``y_sd`` (n,) are the data that the members are conditioned on, in the user's units;
    ``method`` is one of ``METHODS``, "trace" or "point"; ``gpm`` is the model or the most probable one, and ``center``
    (P,) its hyperparameters at its highest mode, or the first member. ``evidence`` belongs to the fit that it is of, if
    known.
    """

    parts: tuple[Part, ...]
    X: np.ndarray
    y: np.ndarray
    method: str
    gpm: Any
    center: np.ndarray
    evidence: Evidence = UNKNOWN
    y_sd: np.ndarray | None = None

    @property
    def data(self) -> Data:
        """The data that the members are conditioned on."""
        return Data(self.X, self.y, self.y_sd)

    def __len__(self) -> int:
        return sum(len(part.z) for part in self.parts)

    def _summary(self) -> Summary:
        models = f"{self.n_models} models" if self.n_models > 1 else self.gpm.description
        return Summary(f"Ensemble of {models}", {"members": len(self), "method": self.method, "points": len(self.y)})

    @property
    def processes(self) -> list:
        """The models of all parts."""
        return [part.gpm for part in self.parts]

    @property
    def n_models(self) -> int:
        """Number of models."""
        return 1 + max(part.owner for part in self.parts)

    @property
    def is_gaussian(self) -> bool:
        """Whether it is a Gaussian approximation at one mode of one model, not a mixture."""
        return self.method in GAUSSIAN_METHODS and self.n_models == 1

    @property
    def weights(self) -> np.ndarray:
        """Weights of the members (S,), which sum to one."""
        return np.concatenate([part.share * part.within for part in self.parts])

    @property
    def labels(self) -> list[str]:
        """Names of the P hyperparameters of ``gpm``, in the order of ``thetas``."""
        return self.gpm.labels

    @property
    def thetas(self) -> np.ndarray:
        """Unconstrained hyperparameters of the members (S, P), in the order of ``labels``; not for several models.

        With an embedding of more inputs than data, the part of R outside the row space of the data is zero, the mean of
        its prior.
        """
        if self.n_models > 1:
            raise ValueError(f"{self.n_models} models have different hyperparameters: use ensemble.of_model(k).thetas")
        return np.concatenate([part.space.lift(part.z) for part in self.parts])

    @property
    def posterior(self) -> Posterior:
        """The posterior that ``thetas`` belong to; with several models, the posterior of the first."""
        return self.parts[0].space.source

    def of_model(self, owner: int) -> Ensemble:
        """The members of one of several models."""
        parts = tuple(part._replace(share=1.0, owner=0) for part in self.parts if part.owner == owner)
        gpm = parts[0].gpm
        center = self.center if gpm is self.gpm else parts[0].space.lift(parts[0].z[0])
        return replace(self, parts=parts, gpm=gpm, center=center, evidence=UNKNOWN)

    def first(self, n: int, random_seed: Seed = 0) -> Ensemble:
        """Equally weighted draws of each model: the first n, or n by their weights where these differ."""
        parts = []
        for part in self.parts:
            if not part.local:
                z = part.z[equal_rows(part.within, n, random_seed)]
                part = part._replace(z=z, within=np.full(len(z), 1 / len(z)))
            parts.append(part)
        return replace(self, parts=tuple(parts))


def equal_rows(weights: np.ndarray, n: int, random_seed: Seed) -> np.ndarray:
    """Rows of up to n equally weighted draws, which are in random order: the first, or resampled if weights differ."""
    if np.ptp(weights) <= 1e-12 / len(weights):
        return np.arange(min(n, len(weights)))
    rng = np.random.default_rng(random_seed)
    return rng.permutation(systematic(weights, n, rng))


def systematic(weights: np.ndarray, draws: int, rng: np.random.Generator | None = None) -> np.ndarray:
    """Rows chosen by systematic resampling, (draws,), in ascending order; weights (S,) add up to one.

    Without a generator they are the middles of equal shares: of equal weights, evenly spaced rows.
    """
    comb = ((0.5 if rng is None else rng.uniform()) + np.arange(draws)) / draws
    return np.minimum(np.searchsorted(np.cumsum(weights), comb), len(weights) - 1)


def ensemble_of_draws(gpm: Any, data: Data, space: Space, z: np.ndarray, method: str, **keywords: Any) -> Ensemble:
    """Equally weighted draws z (S, P') for one model and its data; by default ``center`` is the first draw."""
    keywords = {"center": space.lift(z[0]), "y_sd": data.y_sd} | keywords
    return Ensemble((Part(gpm, space, z, np.full(len(z), 1 / len(z))),), data.X, data.y, method, gpm, **keywords)
