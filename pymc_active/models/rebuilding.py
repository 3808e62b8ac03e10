"""A builder's model made again from its recipe."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from pymc_active.models.builders import ard_gp, composite_gp, embedding_gp
from pymc_active.models.gpmodel import GPModel
from pymc_active.models.recipe import read_prior
from pymc_active.support.labels import read_label
from pymc_active.support.user_warnings import ScaleWarning, ignoring

_BUILDERS: dict[str, Callable[..., GPModel]] = {f.__name__: f for f in (ard_gp, composite_gp, embedding_gp)}


def rebuild(recipe: dict[str, Any], X: np.ndarray, y: np.ndarray) -> GPModel:
    """The model of a recipe (:meth:`GPModel.recipe`) with the given data, in the user's units.

    Raises
    ------
    TypeError, ValueError, KeyError
        For a recipe that is none.
    """
    builder, priors = recipe["builder"], recipe["priors"]
    if builder not in _BUILDERS:
        raise ValueError(f"unknown builder {builder!r}; the known ones are {', '.join(sorted(_BUILDERS))}")
    options = dict(recipe["options"])
    if isinstance(priors, dict):
        if "R" in priors:
            # Files of old state it though the prior of R stood in its place.
            options.pop("prior_scale", None)
        priors = {name: read_prior(prior) for name, prior in priors.items()}
    columns = pd.Index([read_label(label) for label in recipe["inputs"]], dtype=object, tupleize_cols=False)
    # Said when the model was made first.
    with ignoring(ScaleWarning):
        return _BUILDERS[builder](
            pd.DataFrame(X, columns=columns),
            y,
            mean=recipe["mean"],
            priors=priors,
            x_scale=recipe["x_scale"],
            y_scale=recipe["y_scale"],
            **options,
        )
