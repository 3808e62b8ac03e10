"""How many components a linear embedding needs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from pymc_active.inference.fit import Fit
from pymc_active.models.builders import embedding_gp
from pymc_active.predictions.model_average import model_posterior, prior_weights
from pymc_active.process.fit import fit
from pymc_active.support.summaries import Summarized, Summary, formatted
from pymc_active.support.tables import read_inputs
from pymc_active.support.user_warnings import DoubtfulFitWarning, ignoring, warn_user

# Probability from which a rough evidence is told.
_MATTERS = 1e-3
# Standard errors by which the best evidence must lead.
_SURE = 3.0


@dataclass(frozen=True, repr=False)
class EmbeddingDimension(Summarized):
    """The ``fits`` by number of components and their evidences; see :func:`embedding_dimension`.

    ``table`` holds, over ``n_components``: ``probability``, ``log_evidence`` (nats) and its
    ``standard_error``, ``doubtful`` (as in :func:`model_posterior`), and ``evidence_is_poor``: its standard error is
    above one nat.
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


def embedding_dimension(
    X: Any,
    y: Any,
    n_components: Sequence[int] | None = None,
    *,
    prior: Mapping[int, float] | Sequence[float] | None = None,
    random_seed: int | np.random.Generator | None = None,
    progressbar: bool = True,
    executor: Executor | None = None,
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

    Raises
    ------
    TypeError, ValueError
        As :func:`embedding_gp` and :func:`model_posterior`; if candidates repeat, or ``priors`` fixes R.

    Warns
    -----
    DoubtfulFitWarning
        If the fit of the most probable number is doubtful, or the evidence of a candidate with a probability above
        0.001 is so poor that another number may be the most probable. Doubts about the other fits are in
        ``fits[d].diagnostics["warnings"]``.

    Notes
    -----
    The prior sd of R's entries is the same for every d, so a function of more components is rougher a priori.

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
    models = {d: embedding_gp(X, y, n_components=d, **keywords) for d in dimensions}
    if models[dimensions[0]].embedding is None:
        raise ValueError("priors fixes R, so there is no embedding to choose: remove R from priors")
    rng = np.random.default_rng(random_seed)
    # Surplus components are often poorly determined. Only doubts about the winner matter, and model_posterior warns.
    with ignoring(DoubtfulFitWarning):
        fits = {d: fit(models[d], random_seed=rng, progressbar=progressbar, executor=executor) for d in n_components}
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
    rough = table.n_components[table.evidence_is_poor & is_open & (table.probability > _MATTERS)]
    if rough.size:
        which = ", ".join(map(str, rough.to_numpy()))
        errors = ", ".join(f"{error:.1f}" for error in table.standard_error.sel(n_components=rough).to_numpy())
        warn_user(
            f"the standard error of the evidence of d = {which} is {errors} nats, as few particles are left of those "
            "that were drawn: compare it by pma.fit(gpm, n_particles=1024)",
            DoubtfulFitWarning,
        )
    return EmbeddingDimension(fits, table)
