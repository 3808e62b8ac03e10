"""The quantity that predictive entropy search approximates, by rejection sampling on a grid."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from pymc_active.criteria.maximum.domain import check_data, read_domain
from pymc_active.information.mixture_entropy import gaussian_entropy
from pymc_active.models.gpmodel import GPModel
from pymc_active.posterior.conditioned import ConditionedGP
from pymc_active.predictions.ensembles import conditioned_gps, ensemble_of
from pymc_active.support.options import count
from pymc_active.support.threads import one_blas_thread

# Cells of the grid that a joint Gaussian is drawn over, and draws at a time.
_MOST_CELLS, _BLOCK = 4096, 4096
# Fewest values for estimating an entropy.
_FEWEST = 10


def pes_ground_truth(
    gpm: GPModel,
    *,
    bounds: Any,
    point: dict[str, Any],
    n_grid: int = 30,
    draws: int = 50_000,
    fewest: int = 40,
    minimize: bool = False,
    random_seed: int | np.random.Generator | None = None,
) -> xr.Dataset:
    r"""The information about the maximum's place from measuring each cell of a grid, by rejection sampling.

    Draws of the function on the whole grid are grouped by the cell of their maximum, and the entropy of y within each
    group is estimated from its values (Hernandez-Lobato, Hoffman & Ghahramani 2014, section 3 and figure 1).

    Parameters
    ----------
    gpm, bounds, point, minimize, random_seed
        As in :func:`pymc_active.active.pes`.
    n_grid, draws, fewest : int
        Cells a side, n_grid ** D <= 4,096 in all; draws of the function, of 4 bytes for each cell; and the fewest
        draws, at least 10, of a place of the maximum that is not left out.

    Returns
    -------
    xarray.Dataset
        Over ``point``, the centres of the cells: ``x`` (point, input), ``information`` in nats, ``standard_error``, its
        approximate Monte Carlo error, and ``probability`` that the maximum lies in the cell. Attribute ``coverage`` is
        the probability of all places that were not left out.

    Raises
    ------
    ValueError
        For malformed bounds, a grid that is too large, or so few draws that no place has enough of them.

    Notes
    -----
    Entropies by Ebrahimi's spacings (``scipy.stats.differential_entropy``), corrected by their bias for a Gaussian
    sample of the same size. Two errors remain: places of the maximum are resolved to a cell only, and the places left
    out may differ from the others. Compare ranks, and differences with the standard error.
    """
    width = len(gpm.inputs)
    domain = read_domain(bounds, None, gpm.inputs)
    if not isinstance(n_grid, int | np.integer) or n_grid < 2 or n_grid**width > _MOST_CELLS:
        raise ValueError(f"n_grid must be at least 2, with n_grid ** {width} <= {_MOST_CELLS} cells; got {n_grid!r}")
    for name, value, least in (("draws", draws, 1), ("fewest", fewest, _FEWEST)):
        count(name, value, least=least)
    [gp] = conditioned_gps(ensemble_of(point, gpm), minimize=minimize)
    check_data(gpm.y, gpm)
    rng = np.random.default_rng(random_seed)
    sides = (np.arange(n_grid) + 0.5) / n_grid
    unit = np.stack(np.meshgrid(*[sides] * width, indexing="ij"), axis=-1).reshape(-1, width)
    X = domain.low + (domain.high - domain.low) * unit
    with one_blas_thread():
        place, noisy = _draw(gp, gp.x_map(X), draws, rng)
        _, variance = gp.moments(gp.x_map(X))
    counts = np.bincount(place, minlength=len(X))
    groups = np.flatnonzero(counts >= fewest)
    if not len(groups):
        raise ValueError(f"of {draws} draws no place of the maximum has {fewest}: raise draws or lower fewest, n_grid")
    entropies = np.stack([_sample_entropy(noisy[place == cell], rng) for cell in groups])
    share = counts[groups] / counts[groups].sum()
    before = gaussian_entropy(variance + gp.noise_variance(gp.x_map(X)))
    mean = share @ entropies
    # A sample's entropy varies about as that of a Gaussian does, log variance / 2.
    within = share**2 @ (0.5 / counts[groups])
    between = share @ np.square(entropies - mean) / counts[groups].sum()
    return xr.Dataset(
        {
            "x": (("point", "input"), X),
            "information": ("point", before - mean, {"units": "nats"}),
            "standard_error": ("point", np.sqrt(within + between), {"units": "nats"}),
            "probability": ("point", counts / draws),
        },
        coords={"point": np.arange(len(X)), "input": gpm.inputs},
        attrs={"coverage": float(counts[groups].sum() / draws), "draws": draws, "n_places": len(groups)},
    )


def _draw(gp: ConditionedGP, X: np.ndarray, draws: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """The row of X where each joint posterior draw of f is largest (draws,), and noisy observations (draws, m).

    The posterior mean is subtracted from the observations: with little noise, small differences matter.
    """
    cross = gp.covariance(gp.X, X)
    half = gp.factor.half_solve(cross)
    covariance = gp.covariance(X, X) - half.T @ half
    eigenvalues, vectors = np.linalg.eigh(covariance)
    root = (vectors * np.sqrt(np.maximum(eigenvalues, 0.0))).astype(np.float32)
    mean = (gp.prior_mean(X)[0] + gp.alpha @ cross).astype(np.float32)
    # Most directions of a smooth function have no variance.
    root = root[:, eigenvalues > 1e-12 * eigenvalues[-1]]
    noise_sd = np.float32(np.sqrt(gp.noise_variance(X)))
    place, noisy = np.empty(draws, int), np.empty((draws, len(X)), np.float32)
    for start in range(0, draws, _BLOCK):
        block = noisy[start : start + _BLOCK]
        block[:] = rng.standard_normal((len(block), root.shape[1]), dtype=np.float32) @ root.T
        place[start : start + _BLOCK] = (mean + block).argmax(1)
        block += noise_sd * rng.standard_normal(block.shape, dtype=np.float32)
    return place, noisy


def _sample_entropy(samples: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Differential entropy of each column (m,), nats."""
    # scipy.stats takes long to load.
    from scipy.stats import differential_entropy

    n = len(samples)
    reference = differential_entropy(rng.normal(size=(n, 256)), axis=0, method="ebrahimi").mean()
    bias = reference - gaussian_entropy(np.ones(()))
    return differential_entropy(samples.astype(float), axis=0, method="ebrahimi") - bias
