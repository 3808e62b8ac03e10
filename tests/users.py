"""Models that no builder made, as PyMC users write them."""

import pymc as pm
import pytensor.tensor as pt

import pymc_active as pma


def users_gp(X, y, cov, sigma=lambda: 0.1, mean=pm.gp.mean.Zero, *, name="y", is_data=True):
    """``from_marginal`` of one GP; ``cov``, ``mean`` and ``sigma`` make their priors when they are called."""
    with pm.Model() as model:
        gp = pm.gp.Marginal(cov_func=cov(), mean_func=mean())
        if is_data:
            X, y = pm.Data("X", X), pm.Data("y_data", y)
        gp.marginal_likelihood(name, X, y, sigma=sigma(), jitter=0)
    return pma.from_marginal(gp, name, model=model)


class Written(pm.gp.cov.ExpQuad):
    """A covariance that somebody wrote, which arrays do not know."""


class GrowingNoise(pm.gp.cov.Covariance):
    """Independent noise whose sd grows with the first input, ``sd * exp(x)``."""

    def __init__(self, input_dim, sd):
        super().__init__(input_dim)
        self.sd = sd

    def diag(self, X):
        return (self.sd * pt.exp(X[:, 0])) ** 2

    def full(self, X, Xs=None):
        return pt.diag(self.diag(X)) if Xs is None else pt.zeros((X.shape[0], Xs.shape[0]))
