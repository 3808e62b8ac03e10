"""What the hyperpriors do to the posterior over kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr

from pymc_active.kernels.expressions import Expression, parse
from pymc_active.laplace.fit import LaplaceFit
from pymc_active.laplace.modes.search import SAME
from pymc_active.laplace.several_models import fit_laplace_models
from pymc_active.models.builders import composite_gp
from pymc_active.models.gpmodel import GPModel
from pymc_active.predictions.model_average import model_posterior
from pymc_active.support.progress import progress
from pymc_active.support.scaling import Scale
from pymc_active.support.summaries import html_summary
from pymc_active.support.user_warnings import DoubtfulEvidenceWarning, DoubtfulFitWarning, ignoring

__all__ = ["PriorSensitivity", "prior_sensitivity"]

# Means and sds as composite_gp has them, these with twice the sd: hardly anything is known of the input's scale.
_VAGUE = {
    "log_lengthscale": (np.log(0.1), 2.0),
    "log_lengthscale_PER": (np.log(2.0), 2 * np.sqrt(0.5)),
    "log_period": (np.log(0.1), 2 * np.sqrt(0.5)),
}


@dataclass(frozen=True, repr=False)
class PriorSensitivity:
    """The posterior over models under several sets of hyperpriors; see :func:`prior_sensitivity`.

    Attributes
    ----------
    table : xarray.Dataset
        Over (``prior``, ``model``): ``probability``, ``log_evidence`` (nats, summed over modes), ``doubtful``.
    fits : dict
        Name of the priors -> expression -> LaplaceFit.
    """

    table: xr.Dataset
    fits: dict[str, dict[str, LaplaceFit]]

    def __repr__(self) -> str:
        best = self.table.probability.idxmax("model").to_series()
        lines = [f"<PriorSensitivity: {', '.join(f'{prior}: {model}' for prior, model in best.items())}>"]
        return "\n".join([*lines, self._frame().to_string()])

    def _repr_html_(self) -> str:
        best = self.table.probability.idxmax("model").to_series()
        remark = "A model's posterior probability under each set of priors."
        facts = {f"best under {prior}": model for prior, model in best.items()}
        return html_summary("PriorSensitivity", facts, self._frame(), remarks=[remark])

    def _frame(self) -> Any:
        table = self.table.sortby(self.table.probability.mean("prior"), ascending=False)
        frame = table.probability.transpose("model", "prior").to_pandas()
        return frame.map("{:.3g}".format)


def prior_sensitivity(
    X: Any,
    y: Any,
    expressions: Sequence[str | Expression],
    priors: Mapping[str, str | Mapping[str, Any]] | None = None,
    *,
    mean: str | pm.gp.mean.Mean = "constant",
    x_scale: Scale = "unit",
    y_scale: Scale = "standardize",
    start: Mapping[Any, LaplaceFit] | None = None,
    random_seed: int | np.random.Generator | None = None,
    progressbar: bool = True,
    executor: Executor | None = None,
    fit_keywords: Mapping[str, Any] | None = None,
) -> PriorSensitivity:
    """Compare kernels under several hyperpriors, to see whether the answer depends on them.

    Parameters
    ----------
    X, y, mean, x_scale, y_scale
        As in :func:`composite_gp`.
    expressions : sequence of str or Expression
        The kernels. ``LIN0`` beside ``LIN`` shows what the location is worth.
    priors : dict, optional
        Name -> priors as :func:`composite_gp` takes them: ``"wide"``, ``"toolbox"`` or a dict. Default: ``"wide"``,
        ``"toolbox"``, and ``"vague"``: wide, with the sds of all lengthscales and periods doubled.
    start : dict of LaplaceFit, optional
        Fits made before, such as ``learner.fit``: those of the same expressions are starts under every prior.
    random_seed, progressbar
        As in :func:`fit_laplace`.
    executor : concurrent.futures.Executor, optional
        Fits several models at once; results do not depend on it.
    fit_keywords : dict, optional
        More keywords for :func:`pymc_active.fit_laplace_models`. Its 20 restarts are well spent: with few of them a
        search that fails looks like an effect of the priors.

    Returns
    -------
    PriorSensitivity
        With ``table``, ``fits`` and ``plot()``.

    Raises
    ------
    TypeError, ValueError
        As :func:`composite_gp` and :func:`model_posterior`; for fewer than two or equal kernels, and unknown names of
        priors or parameters.

    Notes
    -----
    Each model is also searched from its modes under the other priors, so that a search that fails does not look like
    a change of priors.

    Examples
    --------
    >>> import numpy as np
    >>> import pymc_active as pma
    >>> x = np.linspace(0, 1, 15)
    >>> found = pma.search.prior_sensitivity(
    ...     x[:, None], 2 * x, ["SE", "LIN"], random_seed=1, progressbar=False, fit_keywords={"n_restarts": 2}
    ... )
    >>> found.table.probability.dims
    ('prior', 'model')
    """
    if isinstance(expressions, str | Expression):
        raise TypeError(f"expressions must be a sequence such as ['SE', 'LIN']; got {expressions!r}")
    trees = [parse(expression) for expression in expressions]
    if len(trees) < 2 or len(set(trees)) < len(trees):
        raise ValueError(f"expressions must hold two or more different kernels; got {list(map(str, trees))}")
    sets: Mapping[str, Any] = (
        {"wide": "wide", "toolbox": "toolbox", "vague": vague_priors()} if priors is None else priors
    )
    if not isinstance(sets, Mapping) or not sets:
        raise TypeError(f"priors must be a dict of sets of priors by name, with at least one; got {priors!r}")
    if start is not None and not isinstance(start, Mapping):
        raise TypeError(f"start must be a dict of fits by name, such as learner.fit; got {type(start).__name__}")
    # All are built before anything long is run.
    models = {
        name: {
            str(tree): composite_gp(X, y, tree, priors=own, mean=mean, x_scale=x_scale, y_scale=y_scale)
            for tree in trees
        }
        for name, own in sets.items()
    }
    rng = np.random.default_rng(random_seed)
    fits: dict[str, dict[str, LaplaceFit]] = {}
    given = {str(tree): fit for tree in trees for fit in (start or {}).values() if fit.gpm.expression == tree}
    with (
        ignoring(DoubtfulFitWarning, DoubtfulEvidenceWarning),
        progress("Fitting under each prior", len(models), progressbar) as advance,
    ):
        for name, members in models.items():
            starts = {label: _modes([given, *fits.values()], label, gpm) for label, gpm in members.items()}
            fits[name] = fit_laplace_models(
                members,
                start=starts,
                random_seed=rng,
                executor=executor,
                **{"progressbar": False, **(fit_keywords or {})},
            )
            advance()
        # What was found under the last priors is worth a look under the first ones too.
        for name in list(models)[-2::-1]:
            starts = {label: _modes([given, *fits.values()], label, gpm) for label, gpm in models[name].items()}
            others = fit_laplace_models(
                models[name], start=starts, n_restarts=0, population=0, executor=executor, progressbar=False
            )
            for label, other in others.items():
                if other.log_posterior > fits[name][label].log_posterior + SAME:
                    fits[name][label] = other
        posteriors = [model_posterior(fits[name]) for name in models]
    table = xr.Dataset(
        {
            variable: (("prior", "model"), np.stack([values(posterior) for posterior in posteriors]))
            for variable, values in {
                "probability": lambda posterior: posterior.to_numpy(),
                "log_evidence": lambda posterior: posterior.log_evidence.to_numpy(),
                "doubtful": lambda posterior: posterior.doubtful.to_numpy(),
            }.items()
        },
        coords={"prior": list(models), "model": [str(tree) for tree in trees]},
    )
    table.log_evidence.attrs["units"] = "nats"
    return PriorSensitivity(table, fits)


def _modes(fits: Sequence[Mapping[str, LaplaceFit]], label: str, gpm: GPModel) -> list[dict[str, np.ndarray]]:
    """Modes of a model under all priors so far. Where a prior fixes a parameter, points lack it and do not fit."""
    points = [mode.point for members in fits if label in members for mode in members[label].modes]
    return [point for point in points if set(point) == set(gpm.shapes)]


def vague_priors() -> dict[str, Any]:
    """The wide priors with the sds of all lengthscales and periods doubled, for inputs in [0, 1]."""
    return {name: pm.Normal.dist(mean, sd) for name, (mean, sd) in _VAGUE.items()}
