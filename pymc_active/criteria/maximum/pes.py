"""Predictive entropy search: the information about the maximum's place."""

from __future__ import annotations

from typing import Any, get_args, override

import numpy as np
import xarray as xr

from pymc_active.criteria.maximum.base import (
    OfOneGP,
    OptimizedPaths,
    OptimumCriterion,
    OptimumScorer,
    named_source,
    score_or_maximize,
)
from pymc_active.criteria.maximum.constraints import Boundary, GPGivenMaxima, Mixed, MomentMethod
from pymc_active.criteria.maximum.domain import best_inside
from pymc_active.criteria.maximum.max_value import scorer_of_heights
from pymc_active.criteria.maximum.truncated import hazard
from pymc_active.models.gpmodel import GPModel
from pymc_active.paths import PathMaxima
from pymc_active.posterior.conditioned import ConditionedGP, EmbeddedGP, in_fewest_inputs
from pymc_active.predictions.ensembles import Source
from pymc_active.support.user_warnings import DoubtfulFitWarning, warn_user

# Smallest variance of f(x*) - f(x), as a fraction of the prior's, for imposing f(x) < f(x*) (eq. 9).
_SMALLEST_GAP = 1e-10
# Movements of u by the free inputs below this fraction of the norm of R are rounding errors.
_RANK = 1e-8


class PlaceInformation:
    """PES of one GP: its entropy at candidates, less that given each place of the maximum."""

    def __init__(self, maxima: GPGivenMaxima):
        self.gp, self.maxima = maxima.gp, maxima
        self.keep = np.flatnonzero(maxima.ok)

    def __call__(self, X: np.ndarray, gradient: bool) -> tuple[np.ndarray, np.ndarray | None]:
        """Mean over the x* (m,), in nats, and its gradient (m, D), in the kernel's units."""
        gp, q, keep = self.gp, self.maxima, self.keep
        noise, S = gp.noise_variance(X), len(keep)
        data = gp.covariance(gp.X, X)
        prior = gp.prior_variance(X)
        half = gp.factor.half_solve(data)
        floor = _SMALLEST_GAP * prior + np.finfo(float).tiny
        V = np.maximum(prior - np.einsum("ij,ij->j", half, half), floor)
        m = gp.prior_mean(X)[0] + gp.alpha @ data
        solved = q.solved[:, keep]
        F = q.cross(X)[:, keep] - np.einsum("nm,nsq->msq", data, solved, optimize=True)
        # Paths first, so that products are batches of matrices.
        T, P, g, l = q.T[keep], q.P[keep], q.g[keep], q.l[keep]
        B = F.transpose(1, 0, 2) @ T.transpose(0, 2, 1)
        BP = B @ P
        V1 = np.maximum(V - np.einsum("smk,smk->sm", B, BP), floor)
        covariance = np.einsum("smk,sk->sm", B, l)
        V2 = q.height_variance[keep][:, None]
        gap = q.height_mean[keep][:, None] - m - np.einsum("smk,sk->sm", B, g)
        # Near x* the two values coincide: their covariance is lowered until the difference has a variance (paper's κ).
        largest = 0.5 * (V1 + V2 - floor)
        lowered = covariance > largest
        covariance = np.minimum(covariance, largest)
        s, e = V1 + V2 - 2 * covariance, V1 - covariance
        a = gap / np.sqrt(s)
        r, left = hazard(a)
        cut = 1 - left
        v = np.maximum(V1 - cut * e * e / s, 0.0)
        value = 0.5 * np.log(V + noise) - 0.5 * np.log(v + noise).mean(0)
        if not gradient:
            return value, None

        w = -0.5 / (v + noise) / S
        in_a = (r * left - cut * (r + a)) * e * e / s
        in_s = cut * e * e / (s * s) + in_a * a / (2 * s)
        in_e = -2 * cut * e / s
        w_covariance = -w * (in_e + 2 * in_s)
        w_V1 = w * (1 + in_e + in_s) + np.where(lowered, 0.5 * w_covariance, 0.0)
        w_covariance = np.where(lowered, 0.0, w_covariance)
        w_gap = -w * in_a / np.sqrt(s)
        w_B = -2 * w_V1[..., None] * BP + w_covariance[..., None] * l[:, None] - w_gap[..., None] * g[:, None]
        w_F = (w_B @ T).transpose(1, 0, 2)
        w_V = 0.5 / (V + noise) + w_V1.sum(0)
        w_m = -w_gap.sum(0)
        everywhere = np.zeros((len(X), *q.solved.shape[1:]))
        everywhere[:, keep] = w_F
        W = gp.alpha[:, None] * w_m - 2 * gp.factor.solve(data) * w_V
        W -= np.einsum("nsq,msq->nm", solved, w_F, optimize=True)
        return value, (
            gp.pull(X, W)
            + w_m[:, None] * gp.prior_mean(X)[1]
            + w_V[:, None] * gp.prior_variance_gradient(X)
            + (0.5 / (V + noise) + w.sum(0))[:, None] * gp.noise_variance_gradient(X)
            + q.cross_gradient(X, everywhere)
        )


class Pes(OptimumCriterion):
    """:func:`pes` as a criterion with a gradient."""

    name, units = "pes", "nats"

    def __init__(
        self, domain, *, mixed: Mixed = "free", boundary: Boundary = "outward", moments: MomentMethod = "sampled",
        **keywords,
    ):  # fmt: skip
        super().__init__(domain, **keywords)
        options = {"mixed": (mixed, Mixed), "boundary": (boundary, Boundary), "moments": (moments, MomentMethod)}
        for name, (value, kind) in options.items():
            if value not in get_args(kind):
                raise ValueError(f"{name} must be one of {', '.join(get_args(kind))}; got {value!r}")
        self.mixed, self.boundary, self.moments = mixed, boundary, moments

    @override
    def set_up(self, ensemble, gps, rng):
        # All models, also those without a draw this time, so that a run never stops halfway.
        for part in ensemble.parts if not self.domain.is_pool else ():
            part.space.source.check_twice_differentiable()
        optima = self.sample_optima(gps, rng)
        parts = [PlaceInformation(self._maxima(o)) for o in optima]
        maxima = [part.maxima for part in parts]
        n_failed = sum(int((~one.ok).sum()) for one in maxima)
        told = {
            "n_optima": self.n_optima,
            "n_hyperparameters": len(gps),
            "n_on_boundary": sum(int((~o.maxima.free).any(1).sum()) for o in optima),
            "n_dropped": n_failed,
            "n_sites_not_converged": sum(int((~one.converged).sum()) for one in maxima),
            "n_sweeps": max(one.n_sweeps for one in maxima),
            "constraints": "C1, C2 and C3" if not self.domain.is_pool else "C2 and C3",
        }
        if 2 * n_failed > self.n_optima:
            warn_user(
                f"expectation propagation failed for {n_failed} of {self.n_optima} places of the maximum, so pes uses "
                "their heights alone (max_value_entropy). The data covariance is probably ill-conditioned: give "
                "log_noise a prior that keeps it away from zero, or remove repeated points.",
                DoubtfulFitWarning,
            )
            return scorer_of_heights(ensemble, optima, told | {"constraints": "none (max_value_entropy)"})
        parts = [part for part in parts if len(part.keep)]
        S, k, q = parts[0].maxima.T.shape
        conditioned = [OfOneGP(part.gp, len(part.keep), part) for part in parts]
        width = S * (k + q) + len(parts[0].gp.y)
        return OptimumScorer(ensemble, self.units, optima, conditioned, width, diagnostics=told)

    def _maxima(self, optima: OptimizedPaths) -> GPGivenMaxima:
        values = None
        if self.mixed == "path" and not self.domain.is_pool:
            S, D = optima.maxima.X.shape
            hessian = optima.paths.derivatives(optima.maxima.X, np.arange(S))[2]
            values = hessian[:, *np.triu_indices(D, 1)]
        # Mixed derivatives are those in the inputs.
        in_inputs = self.domain.is_pool or self.mixed != "free"
        gp, maxima, directions = (optima.gp, optima.maxima, None) if in_inputs else frames(optima)
        return GPGivenMaxima(
            gp,
            maxima,
            derivatives=not self.domain.is_pool,
            best=best_inside(optima.gp, self.domain),
            mixed=self.mixed,
            boundary=self.boundary,
            mixed_values=values,
            moments=self.moments,
            directions=directions,
        )


def frames(optima: OptimizedPaths) -> tuple[ConditionedGP, PathMaxima, np.ndarray | None]:
    """The maxima in u for an embedding, unchanged for other models, as arguments of :class:`GPGivenMaxima`.

    These are a GP, places, and the directions in which each is free or not, None for the inputs. Along directions in
    which free inputs move u, f has no slope and curves down. If these are not all directions, u lies on the boundary of
    the box's image and f rises along its gradient; nothing is known of the others.
    """
    gp, maxima = optima.gp, optima.maxima
    view = in_fewest_inputs(gp)
    if not isinstance(view, EmbeddedGP):
        return gp, maxima, None
    R = view.R
    d, S = len(R), len(maxima.X)
    directions, free, slopes = np.empty((d, S, d)), np.zeros((S, d), bool), np.zeros((S, d))
    for s in range(S):
        gradient = np.linalg.lstsq(R.T, maxima.slopes[s])[0]
        left, size, _ = np.linalg.svd(R[:, maxima.free[s]], full_matrices=False)
        moved = left[:, size > _RANK * np.linalg.norm(R)]
        rise = gradient - moved @ (moved.T @ gradient)
        rank = moved.shape[1]
        # Orthonormal: what moves freely, the rise, and anything.
        frame = np.linalg.qr(np.column_stack([moved, rise, np.eye(d)]))[0]
        directions[:, s] = frame.T
        free[s, :rank] = True
        if rank < d:
            slopes[s, rank] = frame[:, rank] @ rise
    return view, maxima._replace(X=maxima.X @ R.T, free=free, slopes=slopes), directions


def pes(
    source: Source | GPModel | None,
    X_pool: Any = None,
    *,
    model: GPModel | None = None,
    bounds: Any = None,
    point: dict[str, Any] | None = None,
    fit: Source | None = None,
    trace: xr.DataTree | None = None,
    minimize: bool = False,
    n_optima: int = 50,
    n_features: int = 1000,
    draws: int = 10,
    mixed: Mixed = "free",
    boundary: Boundary = "outward",
    moments: MomentMethod = "sampled",
    random_seed: int | np.random.Generator | None = None,
) -> xr.DataArray:
    r"""Predictive entropy search: the expected information about the maximum's place x* from measuring each candidate.

    Parameters
    ----------
    source : Fit, dict or list of fits, Ensemble, DataTree or dict
        Where the hyperparameters come from: a fit, fits of several models, or an ensemble. With ``model``: a trace of
        it, or a dict of unconstrained values by value-variable name (the posterior mean gives the paper's PES-NB).
    X_pool : array_like, DataFrame, DataArray or dask array, shape (m, D), optional
        Candidates. Without them the criterion is maximised over the box, and its best local maxima are returned.
    bounds : list of (low, high), or dict by input, optional
        The box in which the maximum is looked for, in the user's units; data may lie outside. Without them it is one of
        the candidates, and no derivatives are constrained.
    point, fit, trace
        The same by name, one of them: ``pes(gpm, X_pool, point=point)`` is ``pes(point, X_pool, model=gpm)``.
    minimize : bool
    n_optima, n_features, draws : int
        Total number of places x* (maximisers of sample paths, divided evenly between the hyperparameter draws), random
        features of a path's prior part, and hyperparameter draws taken from the source.
    mixed : {"free", "zero", "path"}
        What to assume of the mixed second derivatives at x*. The paper proposes ``"path"`` (as the path has them) and
        ``"zero"``, which invent a little information once data accumulate: with 20 points rank correlations with the
        truth were 0.92, against 0.95 with ``"free"`` (``benchmarks/paper_pes``).
    boundary : {"outward", "stationary"}
        Where x* lies on a face of the box, the slope points outwards, or (as in the paper) is zero.
    moments : {"sampled", "ep"}
        How to compute the moments of height, curvatures and slopes given C1 and C2. ``"ep"`` is expectation
        propagation, as in the paper; its variances are often 5 to 20 % too small in one or two inputs. ``"sampled"``
        uses 512 or more quasi-random draws, mostly accurate to 2 %, and ``"ep"`` for more than four inputs.
    random_seed : int or Generator, optional

    Returns
    -------
    xarray.DataArray
        :math:`\tfrac12 \log(V + \sigma^2) - \mathrm{mean}_{x_*} \tfrac12 \log(v(x | x_*) + \sigma^2)` in nats over
        ``point``; larger is better. Attributes say how many x* lie on the boundary, how many were dropped because
        expectation propagation failed, and which constraints were used. Without candidates the maxima are the
        coordinates (``x0``, ``x1``, ... where inputs have no names), best first.

    Raises
    ------
    TypeError, ValueError
        For no candidates and no bounds, malformed bounds, hyperparameters from none or two sources or another model,
        equal observations, or, with bounds, a kernel without second derivatives (Matérn 1/2 and 3/2) or a model of
        :func:`from_marginal`.

    Warns
    -----
    DoubtfulFitWarning
        If expectation propagation failed for more than half of the places: then it is :func:`max_value_entropy`.

    Notes
    -----
    Eq. 10 of Hernandez-Lobato, Hoffman & Ghahramani (2014), Predictive entropy search for efficient global optimization
    of black-box functions. Constraints at each x*: C1, f has a local maximum there; C2, f(x*) exceeds the largest
    observation in the box (or at a candidate); C3, f(x) < f(x*). A model of :func:`from_marginal`, whose kernel is a
    compiled graph, takes several times as long as an ``ard_gp``.

    Examples
    --------
    >>> import numpy as np
    >>> import pymc_active as pma
    >>> x = np.linspace(0, 1, 6)[:, None]
    >>> gpm = pma.ard_gp(x, np.sin(6 * x[:, 0]))
    >>> point = {"log_lengthscale": np.log([0.2]), "log_outputscale": 0.0, "log_noise": np.log(0.1)}
    >>> a = pma.active.pes(gpm, [[0.3], [0.9]], bounds=[(0, 1)], point=point, random_seed=1)
    >>> bool(a[0] > a[1])
    True
    """
    hyperparameters, model = named_source(source, model, {"point": point, "fit": fit, "trace": trace})
    return score_or_maximize(
        Pes, hyperparameters, X_pool, bounds, model,
        minimize=minimize, n_optima=n_optima, n_features=n_features, n_hyperparameters=draws, mixed=mixed,
        boundary=boundary, moments=moments, random_seed=random_seed,
    )  # fmt: skip
