"""The model that everything else takes: a Gaussian process, its data, and its log posterior."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
import pymc as pm

from pymc_active.kernels.expressions import Expression, parse
from pymc_active.models.latent import read_likelihood
from pymc_active.models.model import Model
from pymc_active.posterior.base import Posterior
from pymc_active.support.arguments import kind_of
from pymc_active.support.scaling import Affine
from pymc_active.support.summaries import Summary
from pymc_active.support.tables import read_error_bars, read_inputs, read_outputs

# Particles by default, up to so many points, and with many of these.
_USUAL, _UP_TO, _LEAST = 256, 300, 16


class GPModel(Model):
    """A PyMC model with a marginal Gaussian process that fits and predicts fast.

    Made by :func:`ard_gp`, :func:`embedding_gp`, :func:`composite_gp`, :func:`from_marginal` or :func:`from_latent`.

    Attributes
    ----------
    name, description : str
        Name of the likelihood in ``model``; the builder and its options.
    inputs, x_map, y_map : list, Affine, Affine
        Names of the D inputs; ``x_scale`` and ``y_scale``, frozen at construction.
    embedding, expression : str or None, Expression or None
        Name of the embedding matrix R among the value variables; the kernel expression of a :func:`composite_gp`.
    box : (ndarray, ndarray) or None
        Lower and upper ends (D,) of where you will measure, the ``bounds`` of a builder, in your units, if known.
    """

    x_map: Affine
    y_map: Affine
    if_behind = "give bounds, or a y_scale, or priors in the units of the data"
    if_stuck = "K + noise is nearly singular: give log_noise a prior that keeps it away from zero"

    @abstractmethod
    def make(self) -> GPModel:
        """The same as a model whose PyMC model exists; a builder's is made on the first call."""

    @abstractmethod
    def posterior(self, compile_kwargs: dict | None = None) -> Posterior:
        """The log posterior given the current data: by arrays, or with ``compile_kwargs`` or if it must, by graphs."""

    @property
    def likelihood_name(self) -> str:
        """The builder's argument."""
        return "normal" if self.likelihood is None else self.likelihood.name

    def read_known(self, n, X=None, y_sd=None, **sizes):
        return read_likelihood(self.likelihood_name, sizes, y_sd, n, X)[1]

    def with_expression(self, expression: str | Expression) -> GPModel:
        """The same :func:`composite_gp` with another kernel: its current data, scales, mean and priors."""
        return self._with_expression(parse(expression))

    def _with_expression(self, expression: Expression) -> GPModel:
        raise ValueError(f"only models made by composite_gp have a kernel expression; this is {self.description}")

    def _embedding_lengthscale(self, thetas: np.ndarray) -> np.ndarray:
        """Of the components, for each row of thetas (S, P)."""
        return np.ones(len(thetas))

    def _summary(self) -> Summary:
        _, y, y_sd = self.data
        inputs = self.inputs if self.space is None else self.space.names
        named = ", ".join(map(str, inputs[:8])) + (", …" if len(inputs) > 8 else "")
        sizes = {name: " × ".join(map(str, self.shapes[name])) for name in self.shapes}
        facts = {
            "data": f"{len(y)} points, {len(inputs)} input(s): {named}",
            "output": f"{self.output}, {y.min():.4g} to {y.max():.4g}",
            "likelihood": None if self.likelihood is None else self.likelihood.name,
            "error bars" if self.likelihood is None else self.likelihood.size_name or "": None
            if y_sd is None
            else f"{y_sd.min():.4g} to {y_sd.max():.4g}",
            "kernel": self.expression,
            "free parameters": ", ".join(f"{name} ({size})" if size else name for name, size in sizes.items()),
        }
        return Summary(f"GPModel {self.description}", facts)

    @property
    def model(self) -> pm.Model:
        """An ordinary PyMC model in your units: sample it, plot it, extend it. A builder's is made on first use."""
        return self.make().model

    @property
    def gp(self) -> pm.gp.Marginal:
        """The Gaussian process of :attr:`model`."""
        return self.make().gp

    def set_data(self, X: Any, y: Any, y_sd: Any = None, *, y_trials: Any = None, exposure: Any = None) -> None:
        """Replace the data by X (n, D) and y (n,), in your units. Any number of rows; nothing is recompiled.

        ``y_sd``, (n,) or a number, are known standard deviations of y, as in :func:`ard_gp`; None if there are none. A
        builder's model without them makes its PyMC model anew for the first ones. ``y_trials`` and ``exposure`` belong
        to outcomes with such a ``likelihood``.

        Earlier fits keep their data. A ValueError, for missing values, wrong shapes, or a PyMC model of your own in
        which X or y is not ``pm.Data``, leaves the data as they were.
        """
        points = read_inputs(X, inputs=self.inputs)
        values = read_outputs(y, len(points), X)
        per_row = read_error_bars(y_sd, len(points), X)
        # Data as a model holds them have sizes in place of error bars.
        if y_trials is not None or exposure is not None:
            per_row = self.read_known(len(points), X, y_sd, y_trials=y_trials, exposure=exposure)
        self._set_data(points, values, per_row)

    def embeddings(self, thetas: np.ndarray) -> np.ndarray:
        """R / lengthscale (S, d, D) for each row of thetas (S, P), for a model with an embedding."""
        embedding = self.embedding_slice
        assert embedding is not None
        R = thetas[:, embedding[0]].reshape(-1, *embedding[1])
        return R / self._embedding_lengthscale(thetas)[:, None, None]

    def n_particles(self, n: int) -> int:
        """With many points fewer: each is a factorisation, and they differ less."""
        return int(np.clip(_USUAL * (_UP_TO / n) ** 2, _LEAST, _USUAL))

    def unconstrain(self, values: dict[str, np.ndarray]) -> np.ndarray:
        return self.make().unconstrain(values)

    def draw_prior(self, draws: int, random_seed: int) -> dict[str, np.ndarray]:
        """Draws (draws, ...) of the free variables in your space, by name."""
        return self.make().draw_prior(draws, random_seed)


def check_is_gp(model: Any, what: str) -> None:
    """Raise a TypeError for a model that is no GP, where ``what`` only GPs have is asked for."""
    if isinstance(model, Model) and not isinstance(model, GPModel):
        raise TypeError(f"{what} for GP models only; this is a {model.description}")


def check_model(gpm: Any, function: str) -> None:
    """Raise a TypeError for what is no model, with what to do about it."""
    if not isinstance(gpm, GPModel):
        raise TypeError(f"{function} takes a GPModel (see ard_gp, from_marginal and from_latent); got {kind_of(gpm)}")
