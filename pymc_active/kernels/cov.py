"""PyMC covariances: a linear embedding or an affine map in front of any kernel, and the stationary ones by name."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.tensor.variable import TensorVariable

from pymc_active.support.options import count
from pymc_active.support.tables import read_numbers

__all__ = ["Embedding", "ErrorBars", "Rescaled"]

STATIONARY: dict[str, type[pm.gp.cov.Stationary]] = {
    kernel.__name__: kernel
    for kernel in (pm.gp.cov.ExpQuad, pm.gp.cov.Matern12, pm.gp.cov.Matern32, pm.gp.cov.Matern52)
}


class Constant(pm.gp.cov.Constant, pm.gp.cov.Covariance):
    """PyMC's constant with an ``input_dim``, without which it cannot be multiplied by a number."""

    def __init__(self, input_dim: int):
        pm.gp.cov.Covariance.__init__(self, input_dim)
        self.c = 1.0


class Step(pm.gp.cov.Covariance):
    """s(x) s(x') with the sigmoid s of (x - location) / width along one input."""

    def __init__(self, input_dim: int, location: Any, width: Any, active_dims: Any):
        super().__init__(input_dim, active_dims)
        self.location, self.width = location, width

    def _sigmoid(self, X: Any) -> TensorVariable:
        return pt.sigmoid((X[:, 0] - self.location) / self.width)

    def full(self, X: Any, Xs: Any = None) -> TensorVariable:
        """Covariance matrix between the rows of X and Xs."""
        X, Xs = self._slice(X, Xs)
        return pt.outer(self._sigmoid(X), self._sigmoid(X if Xs is None else Xs))

    def diag(self, X: Any) -> TensorVariable:
        """Prior variance at the rows of X."""
        return pt.square(self._sigmoid(self._slice(X)[0]))


class _Mapped(pm.gp.cov.Covariance):
    """A kernel on a function of the inputs."""

    base: pm.gp.cov.BaseCovariance

    @abstractmethod
    def map_inputs(self, X: Any) -> TensorVariable:
        """What the base kernel sees of the rows of X."""

    def full(self, X: Any, Xs: Any = None) -> TensorVariable:
        """Covariance matrix between the rows of X and Xs."""
        X, Xs = self._slice(X, Xs)
        return self.base(self.map_inputs(X), None if Xs is None else self.map_inputs(Xs))

    def diag(self, X: Any) -> TensorVariable:
        """Prior variance at the rows of X."""
        return self.base(self.map_inputs(self._slice(X)[0]), diag=True)


class Embedding(_Mapped):
    r"""A kernel on a linear embedding of the inputs, :math:`k(x, x') = k_0(xR^T, x'R^T)`.

    An ordinary PyMC covariance: it adds, multiplies and nests with others of the same ``input_dim``. With an
    isotropic base and unit lengthscale it is the Mahalanobis kernel of Garnett, Osborne & Hennig (2014), eq. 1.

    Parameters
    ----------
    base : pm.gp.cov.Covariance
        Acts on the d components; its ``input_dim`` is d.
    R : tensor_like, shape (d, input_dim)
        A random variable or an array, with one row for each component; ``input_dim`` is the number of columns of X.

    Raises
    ------
    TypeError, ValueError
        If ``base`` has no ``input_dim``; unless R is a matrix whose static shape fits ``base`` and ``input_dim``.

    Examples
    --------
    >>> import numpy as np, pymc as pm
    >>> import pymc_active as pma
    >>> cov = 2.0 * pma.cov.Embedding(pm.gp.cov.ExpQuad(1, ls=1.0), np.ones((1, 3)), input_dim=3)
    >>> cov(np.eye(3)).eval(mode="FAST_COMPILE").round(3)[0]
    array([2., 2., 2.])
    """

    def __init__(self, base: pm.gp.cov.Covariance, R: Any, input_dim: int):
        if not isinstance(base, pm.gp.cov.Covariance):
            raise TypeError(f"base must be a PyMC covariance with an input_dim, such as ExpQuad; got {base!r}")
        super().__init__(input_dim=count("input_dim", input_dim))
        try:
            self.base, self.R = base, pt.as_tensor_variable(R)
        except (TypeError, ValueError, NotImplementedError, OverflowError) as error:
            raise TypeError(f"R must be a matrix of numbers, shape (d, {input_dim}); got {R!r}: {error}") from None
        if self.R.ndim != 2:
            raise ValueError(f"R must be a matrix of shape (d, {input_dim}); got {self.R.ndim} dimension(s)")
        rows, columns = self.R.type.shape
        if columns not in (None, input_dim) or rows not in (None, base.input_dim):
            raise ValueError(
                f"R must have shape ({base.input_dim}, {input_dim}), a row for each component and a column for each "
                f"input; got ({rows}, {columns}). Transpose it if rows are inputs."
            )

    def map_inputs(self, X):
        return X @ self.R.T


class ErrorBars(pm.gp.cov.Covariance):
    """Noise whose standard deviation is known for each point, a column of the inputs in units of y.

    Pass it as ``sigma`` of ``marginal_likelihood``; the ``active_dims`` of the kernel leave the column out. Candidates
    have the error bar that their measurement would have, so criteria prefer precise ones; 0 predicts without.

    Parameters
    ----------
    input_dim, column : int
        Number of columns of X, and position of the error bars among them.
    sigma : tensor_like
        Standard deviation of more noise, the same everywhere; variances add.

    Examples
    --------
    >>> import numpy as np, pymc as pm
    >>> import pymc_active as pma
    >>> noise = pma.cov.ErrorBars(2, column=1, sigma=0.3)
    >>> noise.diag(np.array([[5.0, 0.4], [6.0, 0.0]])).eval(mode="FAST_COMPILE")
    array([0.25, 0.09])
    """

    def __init__(self, input_dim: int, column: int, sigma: Any = 0.0):
        if not 0 <= column < count("input_dim", input_dim):
            raise ValueError(f"column must be from 0 to {input_dim - 1}, of {input_dim} columns; got {column!r}")
        super().__init__(input_dim, active_dims=[column])
        self.sigma = sigma

    def full(self, X: Any, Xs: Any = None) -> TensorVariable:
        """Covariance matrix between the rows of X, or zeros between these and others."""
        return pt.diag(self.diag(X)) if Xs is None else pt.zeros((X.shape[0], Xs.shape[0]))

    def diag(self, X: Any) -> TensorVariable:
        """Noise variance at the rows of X."""
        return self.sigma**2 + pt.square(self._slice(X)[0][:, 0])


class MeasurementNoise(pm.gp.cov.WhiteNoise):
    """Noise ``sigma``, and at the measured inputs, the variable ``X`` itself, the known sds ``y_sd`` (n,) as well."""

    def __init__(self, sigma: Any, X: Any, y_sd: Any):
        super().__init__(sigma)
        self.X, self.y_sd = X, y_sd

    def diag(self, X: Any) -> TensorVariable:
        """Noise variance at the rows of X."""
        return super().diag(X) + pt.square(self.y_sd) if X is self.X else super().diag(X)


class Rescaled(_Mapped):
    """A kernel on rescaled inputs, ``base((X - shift) / scale)``, as builders use for ``x_scale``."""

    def __init__(self, base: pm.gp.cov.BaseCovariance, shift: Any, scale: Any):
        if not isinstance(base, pm.gp.cov.BaseCovariance):
            raise TypeError(f"base must be a PyMC covariance; got {base!r}")
        self.base = base
        self.shift, self.scale = read_numbers(shift, "shift"), np.atleast_1d(read_numbers(scale, "scale"))
        if not (np.isfinite(self.shift).all() and (self.scale > 0).all() and self.scale.size):
            raise ValueError(
                f"shift must be finite and scale positive, a number for each input; got {shift!r}, {scale!r}"
            )
        super().__init__(input_dim=len(self.scale))

    def map_inputs(self, X):
        return (X - self.shift) / self.scale
