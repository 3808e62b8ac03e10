"""How many components a linear embedding needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from pymc_active.inference.fit import Fit
from pymc_active.laplace.fit import LaplaceFit
from pymc_active.laplace.fitting import fit_laplace
from pymc_active.laplace.modes.search import SAME
from pymc_active.models.builders import embedding_gp
from pymc_active.models.gpmodel import GPModel
from pymc_active.particles import fit
from pymc_active.predictions.model_average import MATTERS, model_posterior, prior_weights
from pymc_active.support.arguments import checked
from pymc_active.support.summaries import Summarized, Summary, formatted
from pymc_active.support.tables import read_inputs
from pymc_active.support.user_warnings import (
    DoubtfulEvidenceWarning,
    DoubtfulFitWarning,
    InputScaleWarning,
    ScaleWarning,
    ignoring,
    warn_user,
)

# Standard errors by which the best evidence must lead.
_SURE = 3.0


@dataclass(frozen=True, repr=False)
class EmbeddingDimension(Summarized):
    """The ``fits`` by number of components and their evidences; see :func:`embedding_dimension`.

    ``table`` holds, over ``n_components``: ``probability``, ``log_evidence`` (nats) and its
    ``standard_error`` (NaN for Laplace's), ``doubtful`` (as in :func:`model_posterior`), and
    ``evidence_is_poor``: its standard error is above one nat, or for Laplace's, which can then be some nats too low,
    the smallest singular value of R is below its posterior sd.
    """

    fits: dict[int, Fit]
    table: xr.Dataset

    @property
    def best(self) -> Fit:
        """The fit with the most probable number of components."""
        return self.fits[int(self.table.probability.idxmax())]

    def _summary(self) -> Summary:
        best = f"{int(self.table.probability.idxmax())} component(s), probability {self.table.probability.max():.3g}"
        frame = self.table.to_dataframe()
        formats = {"probability": "{:.3g}", "log_evidence": "{:.2f}", "standard_error": "{:.2f}"}
        return Summary("EmbeddingDimension", {"most probable": best}, [formatted(frame, formats)])


@checked
def embedding_dimension(
    X: Any,
    y: Any,
    n_components: Sequence[int] | None = None,
    *,
    prior: Mapping[int, float] | Sequence[float] | None = None,
    random_seed: int | np.random.Generator | None = None,
    progressbar: bool = True,
    executor: Executor | None = None,
    fit_keywords: Mapping[str, Any] | None = None,
    **keywords: Any,
) -> EmbeddingDimension:
    """Choose the number of components of a linear embedding by evidence.

    The evidences integrate over the rotations of R, so embeddings of different dimensions can be compared.

    Parameters
    ----------
    X, y, **keywords
        As in :func:`embedding_gp`.
    n_components : sequence of int, optional
        Candidates. Default: 1, 2 and 3, but no more than there are inputs.
    prior : dict or sequence, optional
        Prior weights of the candidates; default equal.
    random_seed, progressbar, executor
        As in :func:`pymc_active.fit`.
    fit_keywords : dict, optional
        Use the evidences of :func:`fit_laplace`, with these keywords, e.g. ``{"n_restarts": 4, "population": 16}``.

    Raises
    ------
    TypeError, ValueError
        As :func:`embedding_gp` and :func:`model_posterior`; if candidates repeat, or ``priors`` fixes R.

    Warns
    -----
    DoubtfulEvidenceWarning
        If the fit of the most probable number is doubtful, or the evidence of a candidate with a probability above
        0.001 is so poor that another number may be the most probable. Doubts about the other fits are in
        ``fits[d].diagnostics["warnings"]``.

    Notes
    -----
    The prior sd of R's entries is the same for every d, so a function of more components is rougher a priori.

    With ``fit_keywords`` each candidate is searched by itself and from the modes of its neighbours, with a small row
    added or the weakest direction left out. Otherwise a search that fails at one dimension would decide the comparison.
    Laplace's method favours fewer components because it misses the tails of the posterior: its evidence is low by
    some tenths of a nat where the data determine every component well, and by several nats where they do not
    (``evidence_is_poor``). Evidences by ``model_posterior(found.fits, evidence="importance")`` are closer.

    Examples
    --------
    >>> import numpy as np
    >>> import pymc_active as pma
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(20, 4))
    >>> y = np.sin(2 * X[:, 0] - 2 * X[:, 1]) + 0.1 * rng.normal(size=20)
    >>> pma.search.embedding_dimension(X, y, (1, 2), random_seed=1, progressbar=False).best.gpm.description
    'embedding_gp(ExpQuad, d=1)'
    """
    if n_components is None:
        n_components = range(1, min(3, read_inputs(X).shape[1]) + 1)
    elif not isinstance(n_components, Iterable):
        raise TypeError(f"n_components must be a sequence such as (1, 2, 3); got {n_components!r}")
    dimensions = sorted(n_components)
    if not dimensions or len(set(dimensions)) < len(dimensions):
        raise ValueError(f"n_components must hold different numbers of components; got {n_components!r}")
    prior_weights(prior, list(n_components))  # finds wrong weights before anything long is run
    models = {dimensions[0]: embedding_gp(X, y, n_components=dimensions[0], **keywords)}
    # What it has to say of the data has been said.
    with ignoring(InputScaleWarning, ScaleWarning):
        models |= {d: embedding_gp(X, y, n_components=d, **keywords) for d in dimensions[1:]}
    if models[dimensions[0]].embedding is None:
        raise ValueError("priors fixes R, so there is no embedding to choose: remove R from priors")
    rng = np.random.default_rng(random_seed)
    # Surplus components are often poorly determined. Only doubts about the winner matter, and model_posterior warns.
    with ignoring(DoubtfulFitWarning):
        if fit_keywords is None:
            run = partial(fit, random_seed=rng, progressbar=progressbar, executor=executor)
            fits = {d: run(models[d]) for d in n_components}
        else:
            search = partial(fit_laplace, random_seed=rng, progressbar=progressbar, executor=executor, **fit_keywords)
            searched = _searched(models, search, rng)
            fits = {d: searched[d] for d in n_components}
    posterior = model_posterior(fits, prior=prior)
    dim, nats = "n_components", {"units": "nats"}
    table = xr.Dataset(
        {
            "probability": (dim, posterior.to_numpy()),
            "log_evidence": (dim, posterior.log_evidence.to_numpy(), nats),
            "standard_error": (dim, [one.log_evidence_error for one in fits.values()], nats),
            "doubtful": (dim, posterior.doubtful.to_numpy()),
            "evidence_is_poor": (dim, [one.evidence_is_poor for one in fits.values()]),
        },
        coords={dim: list(fits)},
    )
    first, second = np.append(np.sort(table.log_evidence)[::-1], -np.inf)[:2]
    # An error that could change which one is best.
    is_open = ~(first - second > _SURE * table.standard_error)
    rough = table.n_components[table.evidence_is_poor & is_open & (table.probability > MATTERS)]
    if rough.size:
        which = ", ".join(map(str, rough.to_numpy()))
        if fit_keywords is None:
            errors = ", ".join(f"{error:.1f}" for error in table.standard_error.sel(n_components=rough).to_numpy())
            what = f"the standard error of the evidence of d = {which} is {errors} nats"
            what += ", as few particles are left of those that were drawn: compare it by pma.fit(gpm, n_particles=1024)"
        else:
            what = f"the evidence of d = {which} is poor: the data hardly determine one component of R. Collect more "
            what += "data, or leave out fit_keywords"
        warn_user(what, DoubtfulEvidenceWarning)
    return EmbeddingDimension(fits, table)


def _searched(
    models: dict[int, GPModel], search: Callable[..., LaplaceFit], rng: np.random.Generator
) -> dict[int, LaplaceFit]:
    """Laplace fits, each also from the modes of its neighbours."""
    fits: dict[int, LaplaceFit] = {}
    for d, gpm in models.items():
        lower = [_resized(mode.point, gpm, rng) for mode in fits[max(fits)].modes] if fits else []
        fits[d] = search(gpm, start=lower)
    dimensions = list(models)
    for d, higher in zip(dimensions[-2::-1], dimensions[:0:-1], strict=True):
        starts = [mode.point for mode in fits[d].modes]
        starts += [_resized(mode.point, models[d], rng) for mode in fits[higher].modes]
        other = fit_laplace(models[d], start=starts, n_restarts=0, population=0, progressbar=False)
        if other.log_posterior > fits[d].log_posterior + SAME:
            fits[d] = other
    return fits


def _resized(point: dict[str, np.ndarray], gpm: GPModel, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """The point for a model of another dimension: R on its principal axes, without the weakest or with small rows."""
    name = str(gpm.embedding)
    d, D = gpm.shapes[name]
    _, size, rows = np.linalg.svd(point[name], full_matrices=False)
    R = size[:, None] * rows
    small = 0.1 * size[0] / np.sqrt(D) * rng.normal(size=(max(d - len(R), 0), D))
    return {**point, name: np.concatenate([R, small])[:d]}
