"""Builders of models with one kernel: one lengthscale for each input, or a learned linear embedding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import pytensor.tensor as pt

from pymc_active.kernels.cov import STATIONARY, Embedding
from pymc_active.kernels.radial import PROFILES
from pymc_active.kernels.stationary import Stationary
from pymc_active.likelihoods.by_name import find_likelihood
from pymc_active.models.blueprint import Blueprint
from pymc_active.models.composite import composite_gp
from pymc_active.models.gpmodel import GPModel
from pymc_active.models.latent import known_by_name
from pymc_active.models.parameters import Priors
from pymc_active.models.recipe import read_recipe
from pymc_active.posterior.array import EmbeddingPosterior, KernelPosterior
from pymc_active.posterior.latent import LatentEmbeddingPosterior, LatentKernelPosterior
from pymc_active.spaces.variables import Group
from pymc_active.support.data import Data
from pymc_active.support.options import count
from pymc_active.support.scaling import Scale
from pymc_active.support.tables import Bounds, read_numbers


def ard_gp(
    X: Any,
    y: Any,
    *,
    kernel: str | None = None,
    mean: str | pm.gp.mean.Mean | None = None,
    priors: Priors = None,
    x_scale: Scale = None,
    y_scale: Scale = None,
    bounds: Bounds | None = None,
    space: Any = None,
    y_sd: Any = None,
    likelihood: str = "normal",
    y_trials: Any = None,
    exposure: Any = None,
) -> GPModel:
    """A Gaussian process with one lengthscale for each input (automatic relevance determination).

    Use it by default, up to some twenty inputs. An input that does not matter gets a long lengthscale.

    Parameters
    ----------
    X : array_like, DataFrame or DataArray, shape (n, D)
        Inputs in your units. Column names become the coordinate ``input``.
    y : array_like, shape (n,)
        Outputs in your units. If X and y are pandas objects with labels, these must agree row by row. The name of a
        Series labels the output in pictures and summaries.
    kernel : {"ExpQuad", "Matern12", "Matern32", "Matern52"}, optional
        How smooth the function is: smooth everywhere, or with no, one or two derivatives. Default: with ``bounds`` or
        ``space`` ``"Matern52"``, which finds maxima faster and learns functions as fast (``benchmarks/outside``),
        otherwise ``"ExpQuad"``.
    mean : {"zero", "constant", "linear"} or pm.gp.mean.Mean, optional
        The mean function of the scaled data, by default ``"constant"`` with ``bounds`` and otherwise ``"zero"``. A
        ``Mean`` object is used as it is, on X and y in your units.
    priors : dict, optional
        Parameter name -> a distribution such as ``pm.Normal.dist(0, 1)``, or a number that fixes the parameter.
        Parameters left out keep defaults for scaled data; ``log`` is natural, of a length or a standard deviation:

        * ``log_lengthscale`` (D,): Normal(log √D, 1); ``log_outputscale``: Normal(0, 1)
        * ``log_noise``: Normal(log 0.1, 1); a known noise in units of y is ``noise``, its standard deviation
        * ``mean_constant``: Normal(0, 1), unless ``mean="zero"``; ``mean_slope`` (D,): Normal(0, 1), if it is "linear";
          a trace also has ``mean_constant_original_units``, the mean where scaled inputs are zero, and
          ``mean_slope_original_units``, if y or X is scaled
    x_scale, y_scale : None, "unit", "box", "standardize" or (shift, scale)
        Map the data to [0, 1], to [-1, 1], to zero mean and unit standard deviation, or to ``(data - shift) / scale``.
        The map does not change when data are added. Results stay in your units; evidences include the Jacobian,
        -n log(scale of y).
    bounds : list of (low, high), or dict by input, optional
        The plain way, which needs no scale and no prior: where you will measure, in your units. It takes this box to
        [-1, 1] and standardises y by all data that the model holds, anew when data are added. The parameters keep
        their meaning; their *priors* move with the mean and standard deviation of y. As n points do not tell how much
        y varies, the scale is taken as exp(1 / (n - 1) + ...) times the standard deviation, and its log as uncertain by
        a variance of about 1 / (n - 1), added to the variances of the log scales. If one of the priors that depend on y
        is not normal, y is standardised by the first data only; a number stays on the scale of these. ``x_scale``,
        ``y_scale`` and ``priors`` take precedence.
    space : Space, dict or DataFrame, optional
        In place of ``bounds``, for inputs that are not all numbers between two ends: a :class:`Space`, what it is made
        of, or a table of all candidates. X is then a table. The labels of an input share a lengthscale, named after it.
    y_sd : float or array_like of shape (n,), optional
        Known standard deviations of the measurements, error bars in units of y; 0 where none is known. The learned
        noise comes on top: variances add. New measurements are predicted with the learned noise only. Where the error
        bars are all there is, fix ``noise`` at a small number.
    likelihood : str
        The distribution of y given the latent function f, by default ``"normal"``. With any other ``gpm.model`` has a
        ``pm.gp.Latent``, priors must be normal or numbers, ``y_scale`` and ``mean_constant`` belong to f, and only
        real outcomes have a ``log_noise``; with ``bounds`` their median and median deviation scale f:

        * ``"student_t"``: f + noise t, for outliers; t has 2 + ``nu_above_2`` degrees of freedom and so a variance;
          ``log_nu_above_2``: Normal(log 5, 1)
        * ``"lognormal"``: y is positive, exp(f + noise), as where changes multiply
        * ``"warped"``: T(y) is f + noise, for skewed y or y over orders of magnitude. T is the power of Yeo & Johnson
          of (y - median) / width, learned with everything else: ``warp`` is power / (2 - power), 1 where y is normal,
          near 0 where large y are as under a logarithm, and large where small y are; ``log_warp``: Normal(0, 1.5). T is
          divided by the geometric mean of its slopes at the data (Box & Cox 1964), so that noise is in units of y
        * ``"bernoulli"``: y is 0 or 1, of probability Φ(f), a probit
        * ``"binomial"``: y successes in ``y_trials``, each of probability Φ(f)
        * ``"poisson"``: counts of mean ``exposure`` exp(f); with ``bounds`` f is about the log of the mean rate
        * ``"negative_binomial"``: the same with variance mean + mean² / alpha; ``log_alpha``: Normal(log 5, 1)

        Given the hyperparameters, outcomes become Gaussian sites by expectation propagation (Rasmussen & Williams 2006,
        section 3.6).
    y_trials, exposure : float or array_like of shape (n,), optional
        The trials of each row, which ``"binomial"`` needs; its exposure, such as a time or an area, by default 1.

    Raises
    ------
    TypeError, ValueError
        If X, y, y_sd or a prior is neither of these types; for shapes that do not match, missing values, negative
        ``y_sd`` and unknown names; if y is a column of X by name and value; and for outcomes that the ``likelihood``
        cannot have.

    Examples
    --------
    >>> import numpy as np
    >>> import pymc_active as pma
    >>> X = np.random.default_rng(0).normal(size=(8, 2))
    >>> pma.ard_gp(X, np.sin(X[:, 0])).labels
    ['log_lengthscale[0]', 'log_lengthscale[1]', 'log_outputscale', 'log_noise']
    """
    common = {"mean": mean, "priors": priors, "x_scale": x_scale, "y_scale": y_scale, "bounds": bounds, "space": space}
    outcomes = {"y_sd": y_sd, "likelihood": likelihood, "y_trials": y_trials, "exposure": exposure}
    if kernel is None:
        kernel = "ExpQuad" if bounds is None and space is None else "Matern52"
    return ArdGP(X, y, kernel, **common, **outcomes)


class OneKernelGP(Blueprint):
    """A stationary kernel with an output scale."""

    def __init__(self, X: Any, y: Any, kernel: str, **common: Any):
        if kernel not in STATIONARY:
            raise ValueError(f"unknown kernel {kernel!r}; the known ones are {', '.join(sorted(STATIONARY))}")
        self.profile = kernel
        super().__init__(X, y, **common)

    @property
    def outputscales(self):
        return ["log_outputscale"]

    def _add_outputscale(self) -> None:
        self.parameters.add("log_outputscale", 0.0, 1.0)
        self.parameters.add_exponential("outputscale", "log_outputscale", self.y_map.scale)

    def _scaled(self, variables: dict[str, Any], cov: pm.gp.cov.Covariance) -> pm.gp.cov.BaseCovariance:
        """A covariance of the scaled inputs with the output scale, in the user's units."""
        return (pt.exp(variables["log_outputscale"]) * self.y_map.scale) ** 2 * self.on_user_inputs(cov)


class ArdGP(OneKernelGP):
    """One lengthscale for each input."""

    builder = "ard_gp"
    takes_labels = True

    @property
    def description(self):
        return self._described(self.profile)

    @property
    def options(self):
        return {"kernel": self.profile}

    def _add_kernel_parameters(self):
        dim, unit = "input", self.x_map.scale
        if self._is_grouped:
            dim, unit = "group", np.array([group.unit for group in self._groups])
            self.parameters.coords[dim] = [group.name for group in self._groups]
        self.parameters.add("log_lengthscale", 0.5 * np.log(len(self._groups)), 1.0, dim)
        self.parameters.add_exponential("lengthscale", "log_lengthscale", unit)
        self._add_outputscale()

    @property
    def _is_grouped(self) -> bool:
        return self.space is not None and self.space.has_labels

    @property
    def _groups(self) -> list[Group]:
        """Columns that share a lengthscale."""
        if self.space is not None:
            return self.space.groups
        return [Group(name, np.array([k]), 1.0) for k, name in enumerate(self.inputs)]

    def inputs_of(self, name):
        if name != "log_lengthscale":
            return super().inputs_of(name)
        # Of columns that share a lengthscale the first.
        return np.array([group.columns[0] for group in self._groups])

    def covariance(self, variables):
        lengthscale = pt.exp(variables["log_lengthscale"])
        if self._is_grouped:
            lengthscale = lengthscale[np.repeat(range(len(self._groups)), [len(g.columns) for g in self._groups])]
        return self._scaled(variables, STATIONARY[self.profile](self.n_inputs, ls=lengthscale))

    def array_posterior(self, data):
        lengthscales = self.parameters.positions("log_lengthscale")
        groups = [(int(i), group.columns) for i, group in zip(lengthscales, self._groups, strict=True)]
        kernel = Stationary(self.profile, groups, self.parameters.position("log_outputscale"))
        kind = KernelPosterior if self.likelihood is None else LatentKernelPosterior
        return kind(*data, kernel=kernel, **self._array_keywords())


def embedding_gp(
    X: Any,
    y: Any,
    *,
    n_components: int,
    kernel: str = "ExpQuad",
    mean: str | pm.gp.mean.Mean | None = None,
    prior_scale: float | np.ndarray | None = None,
    priors: Priors = None,
    x_scale: Scale = None,
    y_scale: Scale = None,
    bounds: Bounds | None = None,
    space: Any = None,
    y_sd: Any = None,
    likelihood: str = "normal",
    y_trials: Any = None,
    exposure: Any = None,
) -> GPModel:
    r"""A Gaussian process on a learned linear embedding, :math:`f(x) = g(R x)` with R of shape (d, D).

    Use it for many inputs if only a few linear combinations matter; there may be more inputs than data. The
    kernel is isotropic in the d components: how fast f changes along each of them is the length of a row of R, and the
    lengthscale is how fast it changes in all. Source: Garnett, Osborne & Hennig (2014), Active Learning of Linear
    Embeddings for Gaussian Processes, section 2, where the lengthscale is one.

    Parameters
    ----------
    X, y, kernel, mean, x_scale, y_scale, bounds, space, y_sd, likelihood, y_trials, exposure
        As in :func:`ard_gp`, with ``"ExpQuad"`` as the default kernel; a ``space`` must be of numbers.
    n_components : int
        d, the number of linear combinations, at most D.
    prior_scale : float or ndarray of shape (D,), optional
        Prior standard deviation of the entries of R, for scaled inputs; an array gives one for each input. By default
        it is ``5/4 * sqrt(3 / D)`` times a factor that is learned, 1 / lengthscale. With a factor of one, x uniform in
        [-1, 1]^D has components of standard deviation 5/4, which span about [-2.5, 2.5] or five lengthscales, as the
        paper's text says. Its formula prints ``5/4 / D``: functions from that prior are nearly linear.
    priors : dict, optional
        As in :func:`ard_gp`, with these names and defaults:

        * ``R`` (d, D): Normal(0, prior_scale)
        * ``log_lengthscale``: Normal(0, 1), or fixed at 0 where you say the scale of R, by ``prior_scale`` or a prior
        * ``log_outputscale``: Normal(0, 1); ``log_noise``: Normal(log 0.1, 1)

        With many inputs, say what you know about the measurement error, e.g. ``{"log_noise":
        pm.Normal.dist(np.log(0.03), 0.1)}``: the many entries of R can explain few data without noise. With one prior
        for every component, rotations of R change nothing.

    Raises
    ------
    TypeError, ValueError
        As :func:`ard_gp`; if ``n_components`` is not from 1 to D; and for ``prior_scale`` beside a prior of R.

    Examples
    --------
    >>> import numpy as np
    >>> import pymc_active as pma
    >>> X = np.random.default_rng(0).uniform(-1, 1, size=(8, 5))
    >>> gpm = pma.embedding_gp(X, np.sin(X[:, 0]), n_components=2)
    >>> gpm.labels[:2], gpm.labels[-1]
    (['R[0,0]', 'R[0,1]'], 'log_noise')
    """
    common = {"mean": mean, "priors": priors, "x_scale": x_scale, "y_scale": y_scale, "bounds": bounds, "space": space}
    outcomes = {"y_sd": y_sd, "likelihood": likelihood, "y_trials": y_trials, "exposure": exposure}
    return EmbeddingGP(X, y, kernel, n_components, prior_scale, **common, **outcomes)


class EmbeddingGP(OneKernelGP):
    """An isotropic kernel of a learned linear embedding."""

    builder = "embedding_gp"

    def __init__(self, X: Any, y: Any, kernel: str, n_components: Any, prior_scale: Any, **common: Any):
        self._n_components, self._prior_scale = n_components, prior_scale
        super().__init__(X, y, kernel, **common)

    @property
    def description(self):
        return self._described(f"{self.profile}, d={self._n_components}")

    @property
    def options(self):
        scale = None if self._prior_scale is None else np.asarray(self._prior_scale, float).tolist()
        return {"kernel": self.profile, "n_components": self._n_components, "prior_scale": scale}

    @property
    def embedding(self):
        return "R" if self.parameters.is_normal("R") else None

    def _add_kernel_parameters(self):
        D = self.n_inputs
        d = count("n_components", self._n_components, D)
        if self._prior_scale is not None and "R" in self.parameters.priors:
            raise ValueError("prior_scale is the sd of R's prior, which priors['R'] replaces: give one of the two")
        prior_scale = self._prior_scale
        if prior_scale is not None or "R" in self.parameters.priors:
            # Who says the scale of R does not want it learned.
            self.parameters.priors.setdefault("log_lengthscale", 0.0)
        sd = read_numbers(1.25 * np.sqrt(3 / D) if prior_scale is None else prior_scale, "prior_scale")
        if sd.shape not in ((), (D,), (d, D)) or not (np.isfinite(sd).all() and (sd > 0).all()):
            raise ValueError(f"prior_scale must be positive, a number or an array of shape ({D},); got {prior_scale!r}")
        self._n_components = d
        # ArviZ's sensitivity to the prior has a dimension "component" of its own.
        self.parameters.coords["direction"] = range(d)
        self.parameters.add("R", 0.0, sd, "direction", "input")
        if not self.x_map.is_identity:
            self.parameters.add_in_original_units("R", 1 / self.x_map.scale)
        self.parameters.add("log_lengthscale", 0.0, 1.0)
        self.parameters.add_exponential("lengthscale", "log_lengthscale", 1.0)
        self._add_outputscale()

    def _embedding_lengthscale(self, thetas):
        return self.constrain(thetas)["lengthscale"]

    def covariance(self, variables):
        base = STATIONARY[self.profile](self._n_components, ls=pt.exp(variables["log_lengthscale"]))
        return self._scaled(variables, Embedding(base, variables["R"], self.n_inputs))

    def array_posterior(self, data):
        R = self.parameters.positions("R").tolist()
        kind = EmbeddingPosterior if self.likelihood is None else LatentEmbeddingPosterior
        return kind(
            *data,
            profile=PROFILES[self.profile],
            shape=(self._n_components, self.n_inputs),
            R=slice(R[0], R[-1] + 1),
            log_lengthscale=self.parameters.position("log_lengthscale"),
            log_outputscale=self.parameters.position("log_outputscale"),
            **self._array_keywords(),
        )


_BUILDERS: dict[str, Callable[..., GPModel]] = {f.__name__: f for f in (ard_gp, composite_gp, embedding_gp)}


def rebuild(recipe: dict[str, Any], X: np.ndarray, y: np.ndarray, y_sd: np.ndarray | None = None) -> GPModel:
    """The model of a :meth:`GPModel.recipe` with data in the user's units; TypeError, ValueError or KeyError if bad."""
    builder = recipe["builder"]
    if builder not in _BUILDERS:
        raise ValueError(f"unknown builder {builder!r}; the known ones are {', '.join(sorted(_BUILDERS))}")
    columns, keywords = read_recipe(recipe)
    known = known_by_name(find_likelihood(keywords["likelihood"]), Data(X, y, y_sd))
    gpm = _BUILDERS[builder](pd.DataFrame(X, columns=columns), y, **known, **keywords)
    gpm.label = recipe.get("label")
    if recipe["box"] is not None:
        low, high = np.array(recipe["box"], float).reshape(2, len(columns))
        gpm.box = low, high
    return gpm
