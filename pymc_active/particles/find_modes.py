"""``find_modes``: the modes behind a fit, where one is wanted explicitly."""

from __future__ import annotations

from pymc_active.inference.fit import Fit
from pymc_active.laplace.fit import LaplaceFit
from pymc_active.particles.particle_fit import ParticleFit
from pymc_active.support.arguments import kind_of


def find_modes(fit: Fit) -> LaplaceFit:
    """The modes of the posterior that a fit represents, with the Gaussian at each; takes up to seconds.

    The search climbs from the best particles of different families. It may miss modes to which no particle is near;
    :func:`fit_laplace` searches from many starts.

    Parameters
    ----------
    fit : ParticleFit or LaplaceFit
        A LaplaceFit is returned as it is.

    Returns
    -------
    LaplaceFit
        Given the data of the fit.

    Raises
    ------
    TypeError
        For anything but a fit of one model.

    Examples
    --------
    >>> import numpy as np
    >>> import pymc_active as pma
    >>> x = np.linspace(-2, 2, 10)
    >>> fit = pma.fit(pma.ard_gp(x[:, None], np.sin(x)), random_seed=1, progressbar=False)
    >>> list(pma.find_modes(fit).point)
    ['log_lengthscale', 'log_outputscale', 'log_noise']
    """
    if isinstance(fit, LaplaceFit):
        return fit
    if not isinstance(fit, ParticleFit):
        raise TypeError(f"find_modes takes a fit of one model; got {kind_of(fit)}")
    return fit.modes_found
