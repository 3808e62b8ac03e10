"""Draw from the posterior with importance weights: around its modes and, with few data, from the prior.

Weights are relative to the mixture of all proposals (the balance heuristic), so the overlap of two modes counts once.

If the posterior has symmetries, proposals and posterior are compared on its quotient. For exchanges of like terms, a
proposal's density is averaged over the images of a draw. Rotations of an embedding are integrated: a draw is rotated
towards the mode, which puts it on a slice across the orbits, and its density is divided by the volume of its orbit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln, logsumexp, softmax

from pymc_active.inference.annealing import effective
from pymc_active.inference.ensemble import Evidence, systematic
from pymc_active.laplace.expansion import Expansion
from pymc_active.laplace.like_terms import exchanges
from pymc_active.laplace.symmetry import generators
from pymc_active.posterior.prior import GaussianPrior
from pymc_active.posterior.row_space import RowSpace
from pymc_active.support.threads import one_blas_thread

# Degrees of freedom of the proposals.
_DF = 4.0
# Widths of proposals relative to a mode's Gaussian -> share of its draws; the wider suits a skewed posterior's tail.
_WIDTHS = {1.0: 0.6, 2.0: 0.4}
# With fewer points than this, much of the evidence may lie away from the modes: then this many draws for each other one
# are from the prior.
_FEW, _FROM_PRIOR = 30, 2
# Effective share of weighted draws that confirms the modes.
CONFIRMING = 0.1
# Embeddings with more parameters are drawn around their modes alone: hardly any draw from the prior has weight.
_FEW_PARAMETERS = 10


class WeightedDraws(NamedTuple):
    """Draws z (S, P') in the coordinates of the best mode's space, and log p(y, z) / q(z) (S,)."""

    z: np.ndarray
    log_weights: np.ndarray

    @property
    def effective_sample_size(self) -> float:
        """(sum w)² / sum w²; 0 if no weight is finite."""
        return effective(self.log_weights)

    @property
    def evidence(self) -> Evidence:
        """The log evidence, nats; a ValueError if no weight is finite."""
        # Proposals are not adapted to the weights: adapting them to few draws loses the tails, and the estimate is too
        # low in spite of a large effective sample size (Owen & Zhou 2000).
        if not np.isfinite(self.log_weights).any():
            raise ValueError(
                "the log posterior is not finite at any draw, because K + noise is never positive definite there. Give "
                "log_noise a prior that keeps it away from zero."
            )
        n = len(self.log_weights)
        # To first order, the error of a logarithm is the relative error.
        error = float(np.sqrt(max(1 / self.effective_sample_size - 1 / n, 0.0)))
        return Evidence(float(logsumexp(self.log_weights) - np.log(n)), error, "importance")

    def resample(self, draws: int, rng: np.random.Generator) -> np.ndarray:
        """Equally weighted draws, (draws, P'), in random order, with repeats; a ValueError if no weight is finite."""
        if not np.isfinite(self.log_weights).any():
            raise ValueError("no draw has a finite weight: the log posterior is not finite at any of them")
        return self.z[rng.permutation(systematic(softmax(self.log_weights), draws, rng))]


def weighted_draws(expansions: Sequence[Expansion], draws: int, rng: np.random.Generator) -> WeightedDraws:
    """Draws around the modes, best first, and extra ones from a helpful prior."""
    best = expansions[0]
    around_modes, shares = proposals_around(expansions)
    proposals: list[Proposal | PriorProposal] = [*around_modes]
    with one_blas_thread():
        if (prior := prior_for_few_data(best)) is not None:
            shares = np.append(shares, _FROM_PRIOR)
            proposals.append(PriorProposal(prior))
        counts = np.maximum(np.round(shares * draws).astype(int), 1)
        drawn = [p.draw(n, rng) for p, n in zip(proposals, counts, strict=True)]
        seen = np.concatenate([p.is_nearest(z) for p, z in zip(proposals, drawn, strict=True)])
        z = np.concatenate(drawn)
        values = best.posterior.values(z)
        densities = np.stack([p.log_density_and_gradient(z)[0] for p in proposals])
    log_mixture = logsumexp(densities, axis=0, b=(counts / counts.sum())[:, None])
    return WeightedDraws(z, np.where(seen, values, -np.inf) - log_mixture + best.space.log_complement)


def proposals_around(expansions: Sequence[Expansion]) -> tuple[list[Proposal], np.ndarray]:
    """Proposals around modes, best first, and their shares of the draws."""
    # Modes outside the row space of an embedding have other coordinates.
    expansions = [e for e in expansions if e.posterior is expansions[0].posterior]
    share, images = softmax([0.5 * e.log_evidence for e in expansions]), exchanges(expansions[0].posterior)
    proposals = [Proposal(e, images, width) for width in _WIDTHS for e in expansions]
    return proposals, np.concatenate([part * share for part in _WIDTHS.values()])


def prior_for_few_data(best: Expansion) -> GaussianPrior | None:
    """The prior, if draws from it help: few observations, a normal prior, no large embedding."""
    prior = getattr(best.posterior, "prior", None)
    is_large = best.embedding is not None and (isinstance(best.space, RowSpace) or len(best.z) > _FEW_PARAMETERS)
    few = len(best.posterior.y) < _FEW and not is_large
    return prior if few and isinstance(prior, GaussianPrior) else None


class PriorProposal:
    """The prior as a :class:`Proposal`; it is invariant under exchanges of like terms and rotations of R."""

    def __init__(self, prior: GaussianPrior):
        self.prior = prior

    def draw(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Draws (count, P)."""
        return self.prior.mean + self.prior.sd * rng.normal(size=(count, len(self.prior.mean)))

    def log_density_and_gradient(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """At the rows of z (S, P), (S,), and its gradients (S, P)."""
        return self.prior.values(z), (self.prior.mean - z) / self.prior.sd**2

    def is_nearest(self, z: np.ndarray) -> np.ndarray:
        """True (S,)."""
        return np.ones(len(z), bool)


class Proposal:
    """A Student-t around one mode, and its density on the posterior's quotient by its symmetries."""

    def __init__(self, e: Expansion, images: list[np.ndarray], width: float):
        self.center, self.root = e.z, width * e.curvature.root
        self.inverse_root, r = e.inverse_root / width, self.root.shape[1]
        self.constant = (
            gammaln(0.5 * (_DF + r))
            - gammaln(0.5 * _DF)
            - 0.5 * r * np.log(np.pi * _DF)
            + 0.5 * e.curvature.log_determinant
            - r * np.log(width)
        )
        self.images = images
        self.orbit = _Orbit(e) if e.embedding is not None and e.symmetry.log_volume else None

    def draw(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Draws (count, P); they do not move along directions of symmetry."""
        t = rng.normal(size=(count, self.root.shape[1])) * np.sqrt(_DF / rng.chisquare(_DF, size=(count, 1)))
        return self.center + t @ self.root.T

    def log_density_and_gradient(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """At the rows of z (S, P), averaged over all points equal by symmetry, (S,), and its gradients (S, P).

        Of an embedding these lack the gradient of the orbit's volume.
        """
        if self.orbit is not None:
            rotations = self.orbit.rotations(z)
            turned = self.orbit.rotated(rotations, z)
            value, gradient = self._student(turned)
            return value - self.orbit.log_volume(turned), self.orbit.rotated(rotations.transpose(0, 2, 1), gradient)
        values, gradients = np.empty((len(self.images), len(z))), np.zeros((len(self.images), *z.shape))
        for k, image in enumerate(self.images):
            values[k], gradients[k][:, image] = self._student(z[:, image])
        total = np.logaddexp.reduce(values)
        return total - np.log(len(values)), np.einsum("ks,ksp->sp", np.exp(values - total), gradients)

    def is_nearest(self, z: np.ndarray) -> np.ndarray:
        """Whether draws are the representatives of their orbits that the density uses."""
        return np.ones(len(z), bool) if self.orbit is None else self.orbit.is_nearest(z)

    def _student(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Log density (S,) without symmetries, and its gradients (S, P)."""
        t = (z - self.center) @ self.inverse_root.T
        square, power = np.square(t).sum(1), _DF + t.shape[1]
        value = self.constant - 0.5 * power * np.log1p(square / _DF)
        return value, -power * (t @ self.inverse_root) / (_DF + square)[:, None]


class _Orbit:
    """The orbits of an embedding's rotations, seen from one mode."""

    def __init__(self, e: Expansion):
        assert e.embedding is not None
        self.where, self.shape = e.embedding
        self.R = e.z[self.where].reshape(self.shape)
        self.across = e.symmetry.directions.reshape(-1, len(e.z))[:, self.where]
        # Without the rotations that leave R unchanged.
        self.moving = np.linalg.svd(generators(self.R), full_matrices=False)[0][:, : len(self.across)]
        self.constant = e.symmetry.log_volume - self._log_tilt(self.R[None])[0]

    def rotations(self, z: np.ndarray) -> np.ndarray:
        """What turns points (S, P) to those of their orbits that are nearest to the mode (Procrustes), (S, d, d)."""
        R = z[:, self.where].reshape(-1, *self.shape)
        left, _, right = np.linalg.svd(self.R @ R.transpose(0, 2, 1))
        return left @ right

    def rotated(self, rotations: np.ndarray, z: np.ndarray) -> np.ndarray:
        """Points, or vectors at these, (S, P), each by a rotation (S, d, d)."""
        rotated = z.copy()
        rotated[:, self.where] = (rotations @ z[:, self.where].reshape(-1, *self.shape)).reshape(len(z), -1)
        return rotated

    def is_nearest(self, z: np.ndarray) -> np.ndarray:
        """Whether draws are nearest to the mode: R at the mode times their Rᵀ is positive semidefinite, (S,)."""
        products = self.R @ z[:, self.where].reshape(-1, *self.shape).transpose(0, 2, 1)
        eigenvalues = np.linalg.eigvalsh(0.5 * (products + products.transpose(0, 2, 1)))
        return eigenvalues[:, 0] >= -1e-8 * np.abs(eigenvalues).max(1)

    def log_volume(self, z: np.ndarray) -> np.ndarray:
        """Log volume of the orbits relative to the flat slice across them at the mode, (S,)."""
        return self.constant + self._log_tilt(z[:, self.where].reshape(-1, *self.shape))

    def _log_tilt(self, R: np.ndarray) -> np.ndarray:
        velocities = self.moving.T @ generators(R)
        return np.linalg.slogdet(velocities @ self.across.T)[1] if len(self.across) else np.zeros(len(R))
