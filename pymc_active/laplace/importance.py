"""Evidence by importance sampling around the modes of a fit.

Laplace's approximation is the first term of an expansion; on small data it is nats off, and differently for each model.
Weighted draws from heavy-tailed versions of the modes' Gaussians correct it, as long as the modes found are those that
matter. Every draw is weighed against the mixture of all proposals (the balance heuristic), so that what two modes share
counts once.

Where the posterior has symmetries, proposals and posterior are compared on its quotient. Exchanges of like terms are
finitely many: a proposal has its average density over a draw's images. Rotations of an embedding are integrated: a draw
is turned towards the mode, where it lies across the orbits, and its density is divided by the volume of its orbit.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln, logsumexp, softmax

from pymc_active.laplace.exchange import exchanges
from pymc_active.laplace.expansion import Expansion
from pymc_active.laplace.fit import LaplaceFit
from pymc_active.laplace.symmetry import generators
from pymc_active.posterior.factor import one_blas_thread
from pymc_active.posterior.prior import GaussianPrior

# Degrees of freedom of the proposals.
_DF = 4.0
# Proposals are a mode's Gaussian so many times as wide, and get these shares of its draws: Laplace's own width fits
# the bulk, and where the posterior is skewed its longer tail needs the wider one.
_WIDTHS = {1.0: 0.6, 2.0: 0.4}
# Proposals around draws by MCMC: how many, how wide, and their share of the draws.
_AROUND, _AROUND_WIDTH, _AROUND_SHARE = 64, 0.7, 0.5
# With fewer points than this much of the evidence may lie where no mode is, and so many draws, for each of the others,
# are from the prior.
_FEW, _FROM_PRIOR = 30, 2
# Above this not even importance sampling repairs an approximation (Vehtari et al. 2024).
PARETO_LIMIT = 0.7
# Weights, over their mean, that have no tail to speak of.
_NO_TAIL = 10.0


class ImportanceEvidence(NamedTuple):
    """An estimate of log p(y) in nats, its standard error, and how far it can be trusted.

    ``effective_sample_size`` is (sum w)² / sum w² of the importance weights; above 0.7, ``pareto_k``, the shape of
    their tail, says that a few draws dominate and the standard error is too small.
    """

    log_evidence: float
    standard_error: float
    effective_sample_size: float
    pareto_k: float


def importance_evidence(fit: LaplaceFit, draws: int = 2000, random_seed: int | None = 0) -> ImportanceEvidence:
    """Log evidence from weighted draws around the modes of a fit, in nats.

    Parameters
    ----------
    fit : LaplaceFit
    draws : int
        Weighted draws, each one evaluation of the posterior, at least 100; twice as many more for fewer than 30 points.
    random_seed : int, optional

    Returns
    -------
    ImportanceEvidence

    Raises
    ------
    TypeError, ValueError
        For anything but a fit, fewer than 100 draws, or a posterior that is not finite at any of them.

    Notes
    -----
    Half of the draws are from Student-t with 4 degrees of freedom, as wide as each mode's Gaussian or twice as wide, by
    the square roots of the modes' Laplace evidences; the others are from narrower ones around 64 draws by MCMC
    (:meth:`LaplaceFit.particles`). They are not adapted to the weights: proposals that learn from few draws forget the
    tails, with a large effective sample size, and the estimate is too low.

    For fewer than 30 points twice as many more are from the prior, if it is normal and there is no embedding: with few
    data much of the evidence of a model with periods lies where no mode is.

    References
    ----------
    .. [1] Owen & Zhou (2000), Safe and effective importance sampling. Vehtari et al. (2024), Pareto smoothed
       importance sampling.
    """
    if not isinstance(fit, LaplaceFit):
        raise TypeError(f"importance_evidence takes a LaplaceFit (see fit_laplace); got {type(fit).__name__}")
    if draws < 100:
        raise ValueError(f"draws must be at least 100; got {draws}")
    log_weights = _log_weights(fit, draws, np.random.default_rng(random_seed))
    if not np.isfinite(log_weights).any():
        raise ValueError(
            "the log posterior is not finite at any draw: K + noise is never positive definite there. Give log_noise a "
            "prior that keeps it away from zero."
        )
    log_total, log_squares = logsumexp(log_weights), logsumexp(2 * log_weights)
    size = float(np.exp(2 * log_total - log_squares))
    n = len(log_weights)
    # To first order the error of a logarithm is relative.
    relative_variance = max(1 / size - 1 / n, 0.0)
    return ImportanceEvidence(
        float(log_total - np.log(n)), float(np.sqrt(relative_variance)), size, pareto_shape(log_weights)
    )


def pareto_shape(log_weights: np.ndarray) -> float:
    """Shape of the tail of importance weights, (S,); 0 if the largest is below ten times their mean."""
    # Loading ArviZ takes as long as the rest of the package.
    from arviz_stats.base import array_stats

    finite = np.isfinite(log_weights)
    log_weights = np.where(finite, log_weights, log_weights[finite].min() - 1e3)
    # Of a thousand weights with k = 0.5 the largest would be about thirty times their mean. A generalised Pareto
    # distribution fitted to weights that end so early may have any shape.
    if log_weights.max() - logsumexp(log_weights) + np.log(len(log_weights)) < np.log(_NO_TAIL):
        return 0.0
    # ArviZ takes log likelihoods, whose inverses are its weights.
    _, k = array_stats.psislw(logsumexp(log_weights) - log_weights)
    return float(k)


def _log_weights(fit: LaplaceFit, draws: int, rng: np.random.Generator) -> np.ndarray:
    best = fit.best
    # Modes expanded off the row space of an embedding have coordinates of their own.
    expansions = [e for e in fit.expansions if e.posterior is best.posterior]
    share = softmax([0.5 * e.log_evidence for e in expansions])
    proposals: list[_Proposal | _PriorProposal] = [_Proposal(e, width) for width in _WIDTHS for e in expansions]
    with one_blas_thread():
        around = _around_particles(fit, [_Proposal(e, 1.0) for e in expansions], expansions)
        shares = np.concatenate([part * share for part in _WIDTHS.values()])
        if around:
            shares = np.append((1 - _AROUND_SHARE) * shares, np.full(len(around), _AROUND_SHARE / len(around)))
        proposals += around
        # Draws from the prior of an embedding would have to be turned, and have no weight even with few data.
        prior = getattr(best.posterior, "prior", None)
        if isinstance(prior, GaussianPrior) and best.embedding is None and len(fit.y) < _FEW:
            shares = np.append(shares, _FROM_PRIOR)
            proposals.append(_PriorProposal(prior))
        counts = np.maximum(np.round(shares * draws).astype(int), 1)
        drawn = [p.draw(n, rng) for p, n in zip(proposals, counts, strict=True)]
        seen = np.concatenate([p.is_nearest(thetas) for p, thetas in zip(proposals, drawn, strict=True)])
        thetas = np.concatenate(drawn)
        values = np.array([best.posterior.value(theta) for theta in thetas])
        densities = np.stack([p.log_density(thetas) for p in proposals])
    log_mixture = logsumexp(densities, axis=0, b=(counts / counts.sum())[:, None])
    constant = 0.0 if best.row_space is None else best.row_space.log_complement
    return np.where(seen, values, -np.inf) - log_mixture + constant


def _around_particles(
    fit: LaplaceFit, proposals: Sequence[_Proposal], expansions: Sequence[Expansion]
) -> list[_Proposal]:
    """Narrower proposals around draws by MCMC, which know where the posterior bends."""
    with warnings.catch_warnings():
        # Whatever they are, the weights correct it.
        warnings.filterwarnings("ignore", message="the draws from the posterior hardly move")
        thetas = fit.particles(_AROUND)
    nearest = np.argmax([p.log_density(thetas) for p in proposals], axis=0)
    return [
        _Proposal(expansions[k], _AROUND_WIDTH, proposals[k].nearest(theta[None])[0])
        for k, theta in zip(nearest, thetas, strict=True)
        # At a mode of lower rank some rotations move nothing, and a proposal beside it would need all their images.
        if (orbit := proposals[k].orbit) is None or orbit.is_of_full_rank
    ]


class _PriorProposal:
    """The prior, which no exchange of like terms changes."""

    def __init__(self, prior: GaussianPrior):
        self.prior = prior

    def draw(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Draws (count, P)."""
        return self.prior.mean + self.prior.sd * rng.normal(size=(count, len(self.prior.mean)))

    def log_density(self, thetas: np.ndarray) -> np.ndarray:
        """At the rows of thetas (S, P), (S,)."""
        return self.prior.constant - 0.5 * np.square(thetas - self.prior.mean) @ self.prior.precision

    def is_nearest(self, thetas: np.ndarray) -> np.ndarray:
        """All are what they stand for."""
        return np.ones(len(thetas), bool)


class _Proposal:
    """A Student-t around one mode, and its density on the posterior's quotient by its symmetries."""

    def __init__(self, e: Expansion, width: float, center: np.ndarray | None = None):
        self.theta, self.root = e.theta if center is None else center, width * e.curvature.root
        r = self.root.shape[1]
        self.inverse_root = e.inverse_root / width
        self.constant = (
            gammaln(0.5 * (_DF + r))
            - gammaln(0.5 * _DF)
            - 0.5 * r * np.log(np.pi * _DF)
            + 0.5 * e.curvature.log_determinant
            - r * np.log(width)
        )
        self.images = exchanges(e.posterior)
        self.orbit = _Orbit(e) if e.embedding is not None and e.symmetry.log_volume else None

    def draw(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Draws (count, P); they do not move along directions of symmetry."""
        z = rng.normal(size=(count, self.root.shape[1])) * np.sqrt(_DF / rng.chisquare(_DF, size=(count, 1)))
        return self.theta + z @ self.root.T

    def log_density(self, thetas: np.ndarray) -> np.ndarray:
        """At the rows of thetas (S, P) and all points that are the same by symmetry, (S,)."""
        if self.orbit is not None:
            turned = self.orbit.turn(thetas)
            return self._log_student(turned) - self.orbit.log_volume(turned)
        return logsumexp([self._log_student(thetas[:, image]) for image in self.images], axis=0) - np.log(
            len(self.images)
        )

    def nearest(self, thetas: np.ndarray) -> np.ndarray:
        """Of all points that are the same by symmetry those nearest to the center, (S, P)."""
        if self.orbit is not None:
            return self.orbit.turn(thetas)
        images = np.stack([thetas[:, image] for image in self.images])
        best = np.argmax([self._log_student(image) for image in images], axis=0)
        return images[best, np.arange(len(thetas))]

    def is_nearest(self, thetas: np.ndarray) -> np.ndarray:
        """Whether draws are those points of their orbits that :meth:`log_density` takes."""
        return np.ones(len(thetas), bool) if self.orbit is None else self.orbit.is_nearest(thetas)

    def _log_student(self, thetas: np.ndarray) -> np.ndarray:
        z = (thetas - self.theta) @ self.inverse_root.T
        return self.constant - 0.5 * (_DF + z.shape[1]) * np.log1p(np.square(z).sum(1) / _DF)


class _Orbit:
    """The orbits of an embedding's rotations, seen from one mode."""

    def __init__(self, e: Expansion):
        assert e.embedding is not None
        self.where, self.shape = e.embedding
        self.R = e.theta[self.where].reshape(self.shape)
        self.across = e.symmetry.directions.reshape(-1, len(e.theta))[:, self.where]
        self.is_of_full_rank = bool(np.linalg.matrix_rank(self.R, 1e-5 * np.abs(self.R).max()) == len(self.R))
        q = len(self.across)
        # Rotations that leave R as it is move nothing here.
        self.moving = np.linalg.svd(generators(self.R), full_matrices=False)[0][:, :q]
        self.constant = e.symmetry.log_volume - self._log_tilt(self.R[None])[0]

    def turn(self, thetas: np.ndarray) -> np.ndarray:
        """The points of the same orbits that are nearest to the mode (Procrustes), (S, P)."""
        R = thetas[:, self.where].reshape(-1, *self.shape)
        left, _, right = np.linalg.svd(self.R @ R.transpose(0, 2, 1))
        turned = thetas.copy()
        turned[:, self.where] = (left @ right @ R).reshape(len(R), -1)
        return turned

    def is_nearest(self, thetas: np.ndarray) -> np.ndarray:
        """Whether draws across the orbits are nearest already: R at the mode times their Rᵀ is positive, (S,)."""
        products = self.R @ thetas[:, self.where].reshape(-1, *self.shape).transpose(0, 2, 1)
        eigenvalues = np.linalg.eigvalsh(0.5 * (products + products.transpose(0, 2, 1)))
        return eigenvalues[:, 0] >= -1e-8 * np.abs(eigenvalues).max(1)

    def log_volume(self, thetas: np.ndarray) -> np.ndarray:
        """Log volume of the orbits by which the flat piece across them at the mode is thickened, (S,)."""
        return self.constant + self._log_tilt(thetas[:, self.where].reshape(-1, *self.shape))

    def _log_tilt(self, R: np.ndarray) -> np.ndarray:
        velocities = self.moving.T @ generators(R)
        return np.linalg.slogdet(velocities @ self.across.T)[1] if len(self.across) else np.zeros(len(R))
