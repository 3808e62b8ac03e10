"""Gaussian process models in PyMC that choose their own data."""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pymc_active import active, datasets, kernels, plots, problems, search
    from pymc_active.checking import check
    from pymc_active.classification import ProbitFit, ProbitGP, fit_probit, probit_gp
    from pymc_active.laplace import LaplaceFit, fit_laplace, fit_laplace_models
    from pymc_active.models import GPModel, ard_gp, composite_gp, embedding_gp, from_marginal, graphs
    from pymc_active.models.sampling import sample
    from pymc_active.paths import PosteriorPaths, draw_paths
    from pymc_active.predictions.model_average import ModelAverage
    from pymc_active.predictions.predict import predict
    from pymc_active.structure.decompose import Decomposition, decompose
    from pymc_active.structure.relevance import relevance, subspace_angles

__version__ = version("pymc-active")

__all__ = [
    "Decomposition",
    "GPModel",
    "LaplaceFit",
    "ModelAverage",
    "PosteriorPaths",
    "ProbitFit",
    "ProbitGP",
    "active",
    "ard_gp",
    "check",
    "composite_gp",
    "cov",
    "datasets",
    "decompose",
    "draw_paths",
    "embedding_gp",
    "fit_laplace",
    "fit_laplace_models",
    "fit_probit",
    "from_marginal",
    "graphs",
    "kernels",
    "plots",
    "predict",
    "probit_gp",
    "problems",
    "relevance",
    "sample",
    "search",
    "subspace_angles",
]

# Loaded on first use (SPEC 1 of Scientific Python): PyMC itself loads no SciPy, which would be most of our import time.
_HOME = {
    **dict.fromkeys(("GPModel", "ard_gp", "composite_gp", "embedding_gp", "from_marginal"), "models"),
    **dict.fromkeys(("LaplaceFit", "fit_laplace", "fit_laplace_models"), "laplace"),
    **dict.fromkeys(("ProbitFit", "ProbitGP", "fit_probit", "probit_gp"), "classification"),
    **dict.fromkeys(("Decomposition", "decompose"), "structure.decompose"),
    **dict.fromkeys(("PosteriorPaths", "draw_paths"), "paths"),
    **dict.fromkeys(("relevance", "subspace_angles"), "structure.relevance"),
    "ModelAverage": "predictions.model_average",
    "check": "checking",
    "predict": "predictions.predict",
    "sample": "models.sampling",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'pymc_active' has no attribute {name!r}")
    module = import_module(f"pymc_active.{_HOME.get(name, name)}")
    value = getattr(module, name) if name in _HOME else module
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
