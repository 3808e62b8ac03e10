"""Anneal draws around modes to the posterior, where hardly any of them has weight: it is far from Gaussian.

The path leads from a mixture q, the Student-t proposals of importance sampling with some of the prior, to the posterior
p by powers, q^(1 - b) p^b. With b = 1 / (1 + s) the additional noise s, by which particles from the prior are annealed,
stands for it. Source: Neal (2001), Annealed importance sampling.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy.special import logsumexp

from pymc_active.inference.annealing import Annealed, anneal
from pymc_active.inference.ensemble import systematic
from pymc_active.laplace.draws.weighted import PriorProposal, Proposal, prior_for_few_data, proposals_around
from pymc_active.laplace.expansion import Expansion
from pymc_active.posterior.base import Likelihoods
from pymc_active.posterior.prior import GaussianPrior

# Share of the first draws that are from a normal prior, and with few data, whose evidence may lie away from the modes.
_FROM_PRIOR, _FROM_PRIOR_OF_FEW = 0.1, 2 / 3
# Draws that show which share of a proposal is the nearest of its orbits.
_TRIALS = 1000


def annealed_draws(expansions: Sequence[Expansion], draws: int, rng: np.random.Generator) -> Annealed:
    """Particles of the posterior around modes, best first, and its evidence."""
    path = _Path(expansions, rng)
    annealed = anneal(path, path.draw(draws, rng), rng)
    return replace(annealed, log_evidence=annealed.log_evidence + expansions[0].space.log_complement)


class _Path:
    """The densities between q, as a prior, and the posterior: their ratio is the likelihood.

    Of an embedding, a proposal is what it is where its draws are the nearest of their orbits, and zero elsewhere. The
    gradients of q are those along a flat slice across the orbits, which is enough for Hamiltonian Monte Carlo: its
    steps may follow any field, since densities decide.
    """

    noise_unit = 1.0

    def __init__(self, expansions: Sequence[Expansion], rng: np.random.Generator):
        self.posterior = expansions[0].posterior
        proposals, shares = proposals_around(expansions)
        kept = np.array([p.is_nearest(p.draw(_TRIALS, rng)).mean() for p in proposals])
        some = np.flatnonzero(kept)
        self.proposals: list[Proposal | PriorProposal] = [proposals[k] for k in some]
        shares, kept = shares[some] / shares[some].sum(), kept[some]
        prior = getattr(self.posterior, "prior", None)
        log_kept = np.log(kept)
        if isinstance(prior, GaussianPrior):
            self.proposals.append(PriorProposal(prior))
            share = _FROM_PRIOR if prior_for_few_data(expansions[0]) is None else _FROM_PRIOR_OF_FEW
            shares = np.append((1 - share) * shares, share)
            # In the row space of an embedding its density lacks the part outside.
            log_kept = np.append(log_kept, -expansions[0].space.log_complement)
        self.shares, self.log_shares = shares, np.log(shares) - log_kept

    def draw(self, draws: int, rng: np.random.Generator) -> np.ndarray:
        counts = np.bincount(systematic(self.shares, draws, rng), minlength=len(self.shares)).tolist()
        return np.concatenate([_nearest(p, n, rng) for p, n in zip(self.proposals, counts, strict=True)])

    def log_priors(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Log q (S,) and its gradients (S, P)."""
        # A trajectory may have led nowhere.
        lost = ~np.isfinite(z).all(1)
        each = [p.log_density_and_gradient(np.where(lost[:, None], 0.0, z)) for p in self.proposals]
        values = np.stack([value for value, _ in each]) + self.log_shares[:, None]
        total = logsumexp(values, axis=0)
        gradients = np.einsum("ks,ksp->sp", np.exp(values - total), np.stack([gradient for _, gradient in each]))
        return np.where(lost, -np.inf, total), gradients

    is_tempered, most_moves = False, (1, 2)

    def log_likelihoods(self, z: np.ndarray, extra_noise: float = 0.0, start: np.ndarray | None = None) -> Likelihoods:
        """The log of (p / q)^b, its gradients, and its derivatives in ``extra_noise``."""
        power = 1 / (1 + extra_noise)
        likelihoods = self.posterior.log_likelihoods(z)
        (prior, prior_gradient), (q, q_gradient) = self.posterior.log_priors(z), self.log_priors(z)
        with np.errstate(invalid="ignore"):
            value = prior + likelihoods.value - q
        value[~np.isfinite(value)] = -np.inf
        gradient = prior_gradient + likelihoods.gradient - q_gradient
        return Likelihoods(power * value, power * gradient, -(power**2) * value)


def _nearest(proposal: Proposal | PriorProposal, count: int, rng: np.random.Generator) -> np.ndarray:
    """Draws (count, P) that are the nearest of their orbits."""
    drawn = [proposal.draw(0, rng)]
    while (missing := count - sum(map(len, drawn))) > 0:
        z = proposal.draw(missing, rng)
        drawn.append(z[proposal.is_nearest(z)])
    return np.concatenate(drawn)
