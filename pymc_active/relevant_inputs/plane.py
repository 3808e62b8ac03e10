"""The GP test off the diagonal: whether f depends on where a node's inputs are, or only on where the others are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import lapack

from pymc_active.relevant_inputs.cholesky import cholesky
from pymc_active.relevant_inputs.gpt import LLRMoments, Predictive, llr_moments_of


@dataclass(frozen=True)
class PlaneTest:
    r"""Kernels of both hypotheses where a node's inputs are at z and all others at c, along a diagonal of the box.

    Active: :math:`\kappa^2 + \sigma_s^2 e^{-a (c - c')^2 / b^2} [1 - w + w e^{-(z - z')^2 / b^2}]`; inactive: the same
    with w = 0. On the diagonal, z = c, both know f from its scan, so that every node shares these observations, and the
    first one of a node counts. The plane has room for many more independent values than a line: a smooth function,
    which a line hardly shows to be constant, is told in a few observations.

    Parameters
    ----------
    bandwidth : float
        b, in units of z.
    signal_variance, noise_variance : float
        Squared units of y.
    offset_variance : float
        κ², the prior variance of f's mean.
    mean : float
        Its prior mean.
    n_others : int
        a, a guess of how many active inputs are outside of the node. Too few let values at neighbouring places of c say
        too much about each other.
    share : float
        w, the part of f's variance that the node accounts for. In a draw of the paper's process it is 1; in a sum of
        functions of d inputs each has 1/d, and with w = 1 inputs of small effect would be rejected.

    Examples
    --------
    >>> test = PlaneTest(bandwidth=0.2, signal_variance=1.0, noise_variance=0.01, offset_variance=100.0)
    >>> scan = np.array([0.1, 0.5, 0.9])
    >>> z, c, y = np.append(scan, 0.5), np.append(scan, 0.1), np.array([2.0, -1.0, 0.0, 2.1])
    >>> bool(test.llr_path(z, c, y)[3] < -1)
    True
    """

    bandwidth: float
    signal_variance: float
    noise_variance: float
    offset_variance: float = 0.0
    mean: float = 0.0
    n_others: int = 4
    share: float = 0.6

    def _kernel(self, is_active: bool, z: np.ndarray, c: np.ndarray, z2: np.ndarray, c2: np.ndarray) -> np.ndarray:
        shape = np.exp(-self.n_others * np.square((c[:, None] - c2) / self.bandwidth))
        if is_active:
            shape *= 1 - self.share + self.share * np.exp(-np.square((z[:, None] - z2) / self.bandwidth))
        return self.offset_variance + self.signal_variance * shape

    def _factor(self, is_active: bool, z: np.ndarray, c: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        K = self._kernel(is_active, z, c, z, c)
        K.flat[:: len(z) + 1] += self.noise_variance
        L = cholesky(K, self.signal_variance, self.noise_variance)
        return L, lapack.dtrtrs(L, y - self.mean, lower=1)[0]

    def llr_path(self, z: np.ndarray, c: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Log likelihood ratio of each observation given those before it, active against inactive.

        Parameters
        ----------
        z, c : ndarray, shape (n,)
            Where the node's inputs and the others are.
        y : ndarray, shape (n,)
            Noisy observations.

        Returns
        -------
        ndarray, shape (n,)
            Nats.
        """
        (low, inactive), (high, active) = (self._factor(which, z, c, y) for which in (False, True))
        return 0.5 * (inactive**2 - active**2) + np.log(np.diagonal(low) / np.diagonal(high))

    def predict(
        self, z: np.ndarray, c: np.ndarray, y: np.ndarray, z_new: np.ndarray, c_new: np.ndarray
    ) -> tuple[Predictive, Predictive]:
        """The next observation at each new place, if the node is inactive and if it is active, (m,) each."""
        prior = self.offset_variance + self.signal_variance + self.noise_variance
        found = []
        for which in (False, True):
            L, white = self._factor(which, z, c, y)
            half = lapack.dtrtrs(L, self._kernel(which, z, c, z_new, c_new), lower=1)[0]
            found.append(Predictive(self.mean + white @ half, prior - np.square(half).sum(0)))
        return found[0], found[1]

    def llr_moments(
        self, z: np.ndarray, c: np.ndarray, y: np.ndarray, z_new: np.ndarray, c_new: np.ndarray
    ) -> LLRMoments:
        """Of the next observation's log likelihood ratio if the node is active, as :meth:`GPTest.llr_moments`."""
        return llr_moments_of(*self.predict(z, c, y, z_new, c_new))
