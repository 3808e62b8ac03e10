"""Sobol' indices of a model's function: the shares of its variance that inputs explain, and how certain these are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import xarray as xr

from pymc_active.inference.ensemble import Ensemble
from pymc_active.inference.fit import Fit
from pymc_active.models.advice import confounded, far_outside
from pymc_active.paths import PosteriorPaths, draw_paths
from pymc_active.predictions.ensembles import model_of
from pymc_active.predictions.model_average import Fits
from pymc_active.structure.relevance import check_probability, summarize, summary_names
from pymc_active.support.options import count
from pymc_active.support.progress import progress
from pymc_active.support.scaling import spread
from pymc_active.support.tables import Bounds, read_bounds, read_inputs
from pymc_active.support.user_warnings import DataWarning, warn_if, warn_user

# Draws of the hyperparameters, which share the functions evenly.
_HYPERPARAMETERS = 64
# A scrambled sequence may start at 0, where a normal quantile is infinite.
_TINY = 1e-9


def sobol_indices(
    source: Fit | Ensemble | Fits,
    *,
    bounds: Bounds | None = None,
    distribution: Any = None,
    draws: int = 128,
    n_points: int = 1024,
    random_seed: int | np.random.Generator | None = None,
    ci_prob: float = 0.89,
    progressbar: bool = True,
) -> xr.Dataset:
    r"""Sobol' indices of the function behind the data, with credible intervals: which inputs explain its variance.

    Draws are whole functions from the posterior, which share 64 draws of the hyperparameters evenly, so the intervals
    include what is not known about the function. It takes any kernel and mean, and independent inputs of any
    distribution. The intervals are the model's: they hold for functions that are like its draws. Of other functions,
    draws vary more than f in ways that the kernel allows: an ARD kernel has all interactions, so totals start high if
    f has few (Ishigami's function, 80 points); an embedding shares effects among the inputs, so effects of the few that
    matter start low. A kernel of single inputs and pairs, ``composite_gp(X, y, "SE[0] + SE[1] + SE[0] * SE[1]")``, has
    the interactions of most functions: if its evidence is higher, believe its indices (of Ishigami's function and
    Sobol' G, at 40 and 80 points, 95 % were inside their 89 % intervals, by ARD 68 %). Totals are averages of squares:
    for an input that does not matter they come out near zero and never at it.

    Parameters
    ----------
    source : Fit, ParticleFit, Ensemble, or several fits, averaged by their evidences
    bounds : list of (low, high), or dict by input, optional
        The box, in your units, over which the inputs are uniform. By default the ``bounds`` of the model, or where it
        has none the box that the data span. The coordinates ``low`` and ``high`` say which.
    distribution : sequence of D frozen distributions of scipy.stats, or array_like of shape (m, D), optional
        Instead of ``bounds``: one distribution for each input, or rows, each column of which is one. The inputs are
        taken to be independent, whatever the rows say: the indices have no such meaning for inputs that are not.
    draws : int
        Functions drawn.
    n_points : int
        N, a power of two. A function is evaluated at N (D + 2) points of a Sobol' sequence. The error of these
        integrals, at most about 1 / √N, is in the intervals, since draws with other hyperparameters have other points.
    random_seed : int or Generator, optional
    ci_prob : float
        Probability of the equal-tailed intervals.
    progressbar : bool

    Returns
    -------
    xarray.Dataset
        Of the latent function, which a ``likelihood`` has on the scale of its link. Over ``summary`` (mean, median,
        lower, upper):

        * ``first`` (input): the share of the variance that the input explains by itself. Small ones may come
          out slightly negative.
        * ``total`` (input): the share that would be left if all *other* inputs were known, with all interactions. An
          input of total 0 does not matter. The totals add up to 1 only without interactions.
        * ``variance``: how much the function varies over the inputs, without noise, in squared units of y.

        ``first_draws``, ``total_draws`` and ``variance_draws`` hold them for each function, over ``draw``.

    Raises
    ------
    TypeError, ValueError
        For another source, both ``bounds`` and ``distribution``, a distribution of the wrong width, and numbers that
        are not as described.

    Warns
    -----
    DataWarning
        If the inputs of the data do not vary, or not separately, as in spectra or mixtures: then the shares of single
        inputs come from the prior. If ``bounds`` lie far outside the model's.

    References
    ----------
    .. [1] Saltelli et al. (2010), Variance based sensitivity analysis of model output, for the first order; Jansen
       (1999), Analysis of variance designs for model output, for the total. Oakley & O'Hagan (2004), Probabilistic
       sensitivity analysis of complex models, for indices under a Gaussian process.

    Examples
    --------
    >>> import numpy as np
    >>> import pymc_active as pma
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(40, 3))
    >>> y = X[:, 0] + 0.5 * X[:, 1] ** 2 + 0.05 * rng.normal(size=40)
    >>> fit = pma.fit(pma.ard_gp(X, y), random_seed=1, progressbar=False)
    >>> found = pma.sobol_indices(fit, bounds=[(-1, 1)] * 3, random_seed=1)
    >>> bool(abs(found.total.sel(summary="mean", input=0) - 0.94) < 0.05)
    True
    """
    draws = count("draws", draws)
    check_probability(ci_prob)
    if not isinstance(n_points, int | np.integer) or n_points < 2 or int(n_points).bit_count() > 1:
        raise ValueError(f"n_points must be a power of two, such as 1024; got {n_points!r}")
    rng = np.random.default_rng(random_seed)
    gpm = model_of(source)
    inputs, X, space = list(gpm.inputs), getattr(source, "X", gpm.X), gpm.space
    columns = [np.array([k]) for k in range(len(inputs))]
    to_inputs: Callable[[np.ndarray], np.ndarray]
    if space is not None and space.has_labels:
        if bounds is not None or distribution is not None:
            raise ValueError(
                "indices of labels are over the space, each input by itself: pass neither bounds nor distribution"
            )
        inputs, columns = space.names, list(space.columns.values())
        to_inputs, limits = space.at, np.stack(space.limits)
        numbers = [k for k, column in enumerate(columns) if len(column) == 1]
        warn_if(confounded(X[:, [columns[k][0] for k in numbers]], [inputs[k] for k in numbers]))
    else:
        to_inputs = _quantiles(source, inputs, bounds, distribution)
        limits = to_inputs(np.array([np.full(len(inputs), _TINY), np.full(len(inputs), 1 - _TINY)]))
        if not np.ptp(limits, axis=0).any():
            raise ValueError("distribution must let an input vary; it is one point")
        if bounds is not None and gpm.box is not None:
            lost = "there the model knows no more than its prior"
            warn_if(far_outside(limits, *gpm.box, inputs, "bounds", lost))
        warn_if(confounded(X, inputs))
    left_out = [] if space is None else [c.text for c in space.linear if not c.is_equality] + space.functions
    if left_out:
        names = ", ".join(getattr(one, "__name__", str(one)) for one in left_out)
        warn_user(
            f"indices take each input by itself over its whole range, whatever {names} may exclude: where that is "
            "much, they are about points that cannot be had. Predictions at pma.active.random_design(space, 1000) are "
            "not",
            DataWarning,
        )
    # scipy.stats takes long to load.
    from scipy.stats import qmc

    low, high = limits
    # A box for paths has a width, also along an input that is constant.
    wide = np.maximum(high - low, 1e-6 * np.maximum(np.abs(low), 1.0))
    box = None if len(inputs) < len(low) else list(zip(low, low + wide, strict=True))
    paths = draw_paths(source, n_paths=draws, draws=_HYPERPARAMETERS, bounds=box, random_seed=rng)
    parts = []
    with progress("Evaluating functions", len(paths.parts), progressbar) as advance:
        for part in paths.parts:
            # Points of its own, or all draws would share the error of the integrals, and no interval would show it.
            u = qmc.Sobol(2 * len(inputs), rng=rng).random_base2(int(n_points).bit_length() - 1)
            A, B = (to_inputs(np.clip(half, _TINY, 1 - _TINY)) for half in np.split(u, 2, axis=1))
            parts.append(_indices(PosteriorPaths(gpm.inputs, [part]), A, B, columns))
            advance()
    dims = {"first": ["input"], "total": ["input"], "variance": []}
    variables = {}
    for name, dim in dims.items():
        drawn = np.concatenate([one[name] for one in parts])
        variables[name] = (("summary", *dim), summarize(drawn, ci_prob))
        variables[f"{name}_draws"] = (("draw", *dim), drawn)
    coords: dict[str, Any] = {"summary": summary_names, "input": inputs}
    if distribution is None and len(inputs) == len(low):
        ends = to_inputs(np.array([np.zeros(len(inputs)), np.ones(len(inputs))]))
        coords |= {name: ("input", end) for name, end in zip(("low", "high"), ends, strict=True)}
    return xr.Dataset(variables, coords=coords, attrs={"ci_prob": ci_prob})


def _indices(
    f: Callable[[np.ndarray], Any], A: np.ndarray, B: np.ndarray, columns: Sequence[np.ndarray]
) -> dict[str, np.ndarray]:
    """Indices (S, inputs) and variances (S,) of functions, f(X) being (S, N), from samples (N, D) with such columns."""

    def values(X: np.ndarray) -> np.ndarray:
        return np.asarray(f(X)) - center

    def moved(of: np.ndarray) -> np.ndarray:
        X = A.copy()
        X[:, of] = B[:, of]
        return values(X) - f_A

    center = np.zeros(1)
    f_A, f_B = values(A), values(B)
    # Products of centred values have smaller errors.
    center = 0.5 * (f_A.mean(1) + f_B.mean(1))[:, None]
    f_A, f_B = f_A - center, f_B - center
    variance = 0.5 * (np.square(f_A).mean(1) + np.square(f_B).mean(1))
    steps = list(map(moved, columns))
    first = np.stack([(f_B * step).mean(1) for step in steps], axis=1) / variance[:, None]
    total = np.stack([0.5 * np.square(step).mean(1) for step in steps], axis=1) / variance[:, None]
    return {"first": first, "total": total, "variance": variance}


def box_of(source: Any) -> tuple[np.ndarray, np.ndarray]:
    """The box of the model, or of the data."""
    model = model_of(source)
    if model.box is not None:
        return model.box
    X = getattr(source, "X", model.X)
    if not (spread(X) > 0).any():
        raise ValueError(f"the {len(X)} point(s) of the data are at one place, so they span no box: pass bounds=")
    return X.min(0), X.max(0)


def _quantiles(source: Any, inputs: list, bounds: Any, distribution: Any) -> Callable[[np.ndarray], np.ndarray]:
    """The map from independent uniform inputs (m, D) to those asked for."""
    D = len(inputs)
    if distribution is None:
        low, high = box_of(source) if bounds is None else read_bounds(bounds, D, inputs)
        return lambda u: low + (high - low) * u
    if bounds is not None:
        raise ValueError("pass bounds= or distribution=, not both: bounds mean uniform inputs")
    if isinstance(distribution, list | tuple) and all(hasattr(one, "ppf") for one in distribution):
        if len(distribution) != D:
            reason = f"got {len(distribution)}"
            raise ValueError(f"distribution must have one distribution for each of the {D} inputs; {reason}")
        return lambda u: np.column_stack([one.ppf(u[:, i]) for i, one in enumerate(distribution)])
    rows = read_inputs(distribution, "distribution", inputs=inputs)
    return lambda u: np.column_stack([np.quantile(rows[:, i], u[:, i], method="inverted_cdf") for i in range(D)])
