"""How the hyperpriors change the posterior over kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr

from pymc_active.inference.fit import Fit
from pymc_active.kernels.expressions import Expression, parse
from pymc_active.laplace.fit import LaplaceFit
from pymc_active.laplace.modes.search import SAME
from pymc_active.laplace.several_models import fit_laplace_models
from pymc_active.models.builders import composite_gp
from pymc_active.models.gpmodel import GPModel
from pymc_active.particles.find_modes import find_modes
from pymc_active.predictions.model_average import model_posterior
from pymc_active.support.arguments import checked
from pymc_active.support.progress import progress
from pymc_active.support.scaling import Scale
from pymc_active.support.summaries import Summarized, Summary
from pymc_active.support.user_warnings import DoubtfulEvidenceWarning, DoubtfulFitWarning, ignoring

# The wide priors of composite_gp for inputs in [0, 1], with twice the sd of all lengthscales and periods.
_VAGUE = {
    "log_lengthscale": (np.log(0.1), 2.0),
    "log_lengthscale_PER": (np.log(2.0), 2 * np.sqrt(0.5)),
    "log_period": (np.log(0.1), 2 * np.sqrt(0.5)),
}


@dataclass(frozen=True, repr=False)
class PriorSensitivity(Summarized):
    """The posterior over models under several sets of hyperpriors; see :func:`prior_sensitivity`.

    ``table`` holds, over (``prior``, ``model``): ``probability``, ``log_evidence`` (nats, summed over modes),
    ``doubtful``. ``fits`` are by the name of the priors, then by expression.
    """

    table: xr.Dataset
    fits: dict[str, dict[str, LaplaceFit]]

    def _summary(self) -> Summary:
        best = self.table.probability.idxmax("model").to_series()
        table = self.table.sortby(self.table.probability.mean("prior"), ascending=False)
        frame = table.probability.transpose("model", "prior").to_pandas().map("{:.3g}".format)
        facts = {f"best under {prior}": model for prior, model in best.items()}
        remark = "The table shows the posterior probability of each model under each set of priors."
        return Summary("PriorSensitivity", facts, [frame], [remark])


@checked
def prior_sensitivity(
    X: Any,
    y: Any,
    expressions: Sequence[str | Expression],
    priors: Mapping[str, str | Mapping[str, Any]] | None = None,
    *,
    mean: str | pm.gp.mean.Mean = "constant",
    x_scale: Scale = "unit",
    y_scale: Scale = "standardize",
    fits: Mapping[Any, Fit] | None = None,
    random_seed: int | np.random.Generator | None = None,
    progressbar: bool = True,
    executor: Executor | None = None,
    fit_keywords: Mapping[str, Any] | None = None,
) -> PriorSensitivity:
    """Compare kernels under several hyperpriors, to see whether the answer depends on them.

    Each model is also searched from its modes under the other priors, so that a failed search does not look like an
    effect of the priors.

    Parameters
    ----------
    X, y, mean, x_scale, y_scale
        As in :func:`composite_gp`.
    expressions : sequence of str or Expression
        The kernels. ``LIN0`` beside ``LIN`` shows what the location is worth.
    priors : dict, optional
        Name -> priors as :func:`composite_gp` takes them: ``"wide"``, ``"toolbox"`` or a dict. Default: ``"wide"``,
        ``"toolbox"``, and ``"vague"``, which is wide with the sds of all lengthscales and periods doubled.
    fits : dict of fits, optional
        Earlier fits, such as ``learner.fit``. The modes of fits of the same expressions are starts under every prior.
    random_seed, progressbar, executor, fit_keywords
        As in :func:`pymc_active.fit_laplace_models`, with more keywords for it. Keep its 20 restarts: few may fail.

    Raises
    ------
    TypeError, ValueError
        As :func:`composite_gp` and :func:`model_posterior`; for fewer than two kernels, equal kernels, and unknown
        names of priors or parameters.

    Examples
    --------
    >>> import numpy as np
    >>> import pymc_active as pma
    >>> x, quick = np.linspace(0, 1, 15), {"fit_keywords": {"n_restarts": 2}, "random_seed": 1, "progressbar": False}
    >>> pma.search.prior_sensitivity(x[:, None], 2 * x, ["SE", "LIN"], **quick).table.probability.dims
    ('prior', 'model')
    """
    if isinstance(expressions, str | Expression):
        raise TypeError(f"expressions must be a sequence such as ['SE', 'LIN']; got {expressions!r}")
    trees = [parse(expression) for expression in expressions]
    if len(trees) < 2 or len(set(trees)) < len(trees):
        raise ValueError(f"expressions must hold two or more different kernels; got {list(map(str, trees))}")
    if priors is None:
        vague = {name: pm.Normal.dist(*mean_and_sd) for name, mean_and_sd in _VAGUE.items()}
        priors = {"wide": "wide", "toolbox": "toolbox", "vague": vague}
    if not isinstance(priors, Mapping) or not priors:
        raise TypeError(f"priors must be a dict, name -> set of priors, with at least one entry; got {priors!r}")
    if fits is not None and not isinstance(fits, Mapping):
        raise TypeError(f"fits must be a dict, name -> fit, such as learner.fit; got {type(fits).__name__}")
    # Building all models first finds wrong arguments before anything long is run.
    same: dict[str, Any] = {"mean": mean, "x_scale": x_scale, "y_scale": y_scale}
    models = {
        name: {str(tree): composite_gp(X, y, tree, priors=own, **same) for tree in trees}
        for name, own in priors.items()
    }
    rng = np.random.default_rng(random_seed)
    members = [(str(tree), fit) for tree in trees for fit in (fits or {}).values() if fit.gpm.expression == tree]
    given = {label: find_modes(fit) for label, fit in members}
    found: dict[str, dict[str, LaplaceFit]] = {}

    def fitted(name: str, **keywords: Any) -> dict[str, LaplaceFit]:
        starts = {label: _modes([given, *found.values()], label, gpm) for label, gpm in models[name].items()}
        keywords = {"progressbar": False, **keywords}
        return fit_laplace_models(models[name], start=starts, executor=executor, **keywords)

    with (
        ignoring(DoubtfulFitWarning, DoubtfulEvidenceWarning),
        progress("Fitting under each prior", len(models), progressbar) as advance,
    ):
        for name in models:
            found[name] = fitted(name, random_seed=rng, **(fit_keywords or {}))
            advance()
        # Modes found under the last priors are tried under the first ones too.
        for name in list(models)[-2::-1]:
            for label, other in fitted(name, n_restarts=0, population=0).items():
                if other.log_posterior > found[name][label].log_posterior + SAME:
                    found[name][label] = other
        posteriors = [model_posterior(found[name]) for name in models]

    def stacked(values: Sequence[xr.DataArray]) -> tuple[tuple[str, str], np.ndarray]:
        return ("prior", "model"), np.stack([one.to_numpy() for one in values])

    table = xr.Dataset(
        {
            "probability": stacked(posteriors),
            "log_evidence": (*stacked([one.log_evidence for one in posteriors]), {"units": "nats"}),
            "doubtful": stacked([one.doubtful for one in posteriors]),
        },
        coords={"prior": list(models), "model": [str(tree) for tree in trees]},
    )
    return PriorSensitivity(table, found)


def _modes(fits: Sequence[Mapping[str, LaplaceFit]], label: str, gpm: GPModel) -> list[dict[str, np.ndarray]]:
    """Modes of a model under all priors so far, without those that lack a parameter because a prior fixed it."""
    points = [mode.point for members in fits if label in members for mode in members[label].modes]
    return [point for point in points if set(point) == set(gpm.shapes)]
