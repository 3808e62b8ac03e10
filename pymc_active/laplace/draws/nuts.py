"""PyMC's NUTS on a posterior in closed form: for a few hundred draws compiling would take longer than sampling."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.graph.op import Op

from pymc_active.posterior.base import Posterior
from pymc_active.posterior.compile_mode import vm_mode
from pymc_active.support.threads import one_blas_thread

# Smaller steps than PyMC's default: with few data the noise level has a funnel.
_TARGET_ACCEPT = 0.9


class Chains(NamedTuple):
    """Draws z (chain, draw, P') and which of them diverged (chain, draw)."""

    z: np.ndarray
    diverging: np.ndarray


def nuts(posterior: Posterior, starts: np.ndarray, *, tune: int, draws: int, random_seed: int) -> Chains:
    """One chain from each start (chain, P'), in this process; PyMC's SamplingError if one has no finite density."""
    with pm.Model() as model, one_blas_thread(), warnings.catch_warnings(), np.errstate(all="ignore"):
        # The caller judges the draws.
        warnings.simplefilter("ignore")
        z = pm.Flat("z", shape=posterior.n_parameters)
        pm.Potential("log_posterior", _LogPosterior(posterior).make_node(z).outputs[0])
        trace = pm.sample(
            draws=draws,
            tune=tune,
            chains=len(starts),
            cores=1,
            blas_cores=None,
            init="adapt_diag",
            initvals=[{"z": start} for start in starts],
            target_accept=_TARGET_ACCEPT,
            random_seed=random_seed,
            progressbar=False,
            quiet=True,
            compute_convergence_checks=False,
            compile_kwargs={"mode": vm_mode()},
            model=model,
        )
    return Chains(
        trace["posterior"]["z"].transpose("chain", "draw", ...).to_numpy(),
        trace["sample_stats"]["diverging"].transpose("chain", "draw").to_numpy().astype(bool),
    )


class _LogPosterior(Op):
    """Log density and its gradient, as one operation of a graph."""

    itypes = (pt.dvector,)
    otypes = (pt.dscalar, pt.dvector)

    def __init__(self, posterior: Posterior):
        self.posterior = posterior

    def perform(self, node, inputs, output_storage):
        value, gradient = self.posterior.value_and_gradient(inputs[0])
        output_storage[0][0], output_storage[1][0] = np.asarray(value), np.asarray(gradient)

    def pullback(self, inputs, outputs, cotangents):
        # NUTS needs no second derivatives.
        return [cotangents[0] * outputs[1]]
