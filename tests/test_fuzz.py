"""Public functions with one argument replaced by something wrong answer without NaN, or refuse it and change nothing.

    python tests/test_fuzz.py            # all combinations, a few minutes; prints what is found
    python tests/test_fuzz.py hds bald   # those of some functions

A finding is another exception than TypeError, ValueError and those of the package, NaN in the answer, a RuntimeWarning
of NumPy, a flag that is not a bool where it turns the answer around, or data changed by a call that failed.
"""

import sys
import warnings
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache, cached_property

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import pymc_active as pma
from pymc_active import active, search
from pymc_active.laplace import fit_laplace_models

pytestmark = pytest.mark.nightly

# Any other value than a bool would count as one of these.
FLAGS = {"minimize", "repeat", "optimize"}
# Of all combinations, those that the test suite tries.
N_TRIED = 2000
# What takes seconds if the argument is right after all.
LONG = {"fit", "fit_smc", "fit_laplace", "sample", "embedding_dimension"}


class Things:
    """What sane calls need, made once."""

    X = np.random.default_rng(1).uniform(-1, 1, (8, 2))
    y = np.sin(3 * X[:, 0])
    pool = np.random.default_rng(2).uniform(-1, 1, (6, 2))
    box = ((-1.0, 1.0), (-1.0, 1.0))

    @cached_property
    def gpm(self):
        return pma.ard_gp(self.X, self.y)

    @cached_property
    def fit(self):
        return pma.fit_laplace(self.gpm, n_restarts=1, random_seed=0, progressbar=False)

    @cached_property
    def latent(self):
        return pma.ard_gp(self.X, self.y > 0, likelihood="bernoulli")

    @cached_property
    def embedded(self):
        gpm = pma.embedding_gp(self.X, self.y, n_components=1)
        return pma.fit_laplace(gpm, n_restarts=1, random_seed=0, progressbar=False)

    @cached_property
    def line(self):
        gpm = pma.composite_gp(self.X[:, :1], self.y, "SE + LIN")
        return pma.fit_laplace(gpm, n_restarts=1, random_seed=0, progressbar=False)

    @cached_property
    def fits(self):
        models = {kernel: pma.composite_gp(self.X, self.y, kernel) for kernel in ("SE", "LIN")}
        return fit_laplace_models(models, n_restarts=1, random_seed=0, progressbar=False)

    @property
    def learner(self):
        return active.Learner(
            pma.ard_gp(self.X, self.y), pool=self.pool, random_seed=0, criterion="uncertainty", inference="laplace"
        )

    @property
    def hds_learner(self):
        return pma.hds.HDSLearner(3, random_seed=0, **SCALES)

    @cached_property
    def paths(self):
        return pma.draw_paths(self.fit, n_paths=2, n_features=20, random_seed=0)


THINGS = Things()
SCALES = {"bandwidth": 0.6, "signal_variance": 1.0, "noise_variance": 0.01}


def f(X):
    return np.sin(4 * X[:, 0])


def call(function, /, **given):
    """A function, and arguments with which it works."""
    return function, given


def sane():
    """The public functions and methods, with arguments that work."""
    t = THINGS
    scored = {"X_pool": t.pool, "draws": 4, "random_seed": 0}
    over_box = {"X_pool": t.pool, "bounds": None, "fit": t.fit, "minimize": False, "draws": 2, "random_seed": 0}
    of_paths = {**over_box, "n_features": 20}
    quick = {"n_restarts": 1, "random_seed": 0, "progressbar": False}
    hds = {**SCALES, "n_dims": 3, "budget": 60, "bounds": (-1.0, 1.0), "random_seed": 0}
    builder = {"X": t.X, "y": t.y, "mean": "constant", "priors": None, "x_scale": None, "y_scale": None, "bounds": None}
    return {
        "ard_gp": call(pma.ard_gp, **builder, kernel="ExpQuad"),
        "embedding_gp": call(pma.embedding_gp, **builder, n_components=1, kernel="ExpQuad", prior_scale=1.0),
        "composite_gp": call(pma.composite_gp, **builder, expression="SE"),
        "from_marginal": call(pma.from_marginal, gp=t.gpm.gp, name="y", model=t.gpm.model),
        "from_latent": call(pma.from_latent, gp=t.latent.gp, name="y", model=t.latent.model),
        "fit": call(pma.fit, gpm=t.gpm, method="laplace", random_seed=0, progressbar=False, executor=None),
        "fit_laplace": call(pma.fit_laplace, gpm=t.gpm, start=None, point=None, optimize=True, **quick),
        "fit_smc": call(pma.fit_smc, gpm=t.gpm, n_particles=64, random_seed=0, progressbar=False),
        "sample": call(lambda gpm: pma.sample(gpm, draws=2, tune=2, chains=1, progressbar=False), gpm=t.gpm),
        "predict": call(
            pma.predict,
            source=t.fit,
            X_new=t.pool,
            method="mgp",
            quantiles=(0.1, 0.9),
            y_new=t.y[:6],
            draws=4,
            random_seed=0,
        ),
        "as_ensemble": call(pma.as_ensemble, source=t.fit, method="draws", draws=4, random_seed=0),
        "subspace_angles": call(
            pma.subspace_angles, source=t.embedded, reference=np.ones((1, 2)), draws=4, random_seed=0, ci_prob=0.89
        ),
        "relevance": call(pma.relevance, source=t.embedded, draws=4, random_seed=0, ci_prob=0.89),
        "decompose": call(pma.decompose, fit=t.line, X_new=t.pool[:, :1], draws=4),
        "draw_paths": call(pma.draw_paths, fit=t.fit, n_paths=2, n_features=20, draws=2, bounds=None, random_seed=0),
        "paths": call(t.paths, X=t.pool),
        "set_data": call(pma.ard_gp(t.X, t.y).set_data, X=t.X, y=t.y),
        "to_datatree": call(t.fit.to_datatree, draws=4, random_seed=0),
        "bald": call(active.bald, fit=t.fit, target="y", method="mgp", **scored),
        "uncertainty": call(active.uncertainty, fit=t.fit, method="mgp", **scored),
        "expected_improvement": call(active.expected_improvement, fit=t.fit, minimize=False, method="map", **scored),
        "upper_confidence_bound": call(
            active.upper_confidence_bound, fit=t.fit, beta=4.0, minimize=False, method="map", **scored
        ),
        "epig": call(active.epig, fit=t.fit, X_target=t.pool, **scored),
        "level": call(active.level, fit=t.fit, threshold=0.1, X_target=t.pool, **scored),
        "integrated_variance": call(active.integrated_variance, fit=t.fit, X_target=t.pool, **scored),
        "bams": call(active.bams, fits=t.fits, prior=[1, 1], weights="posterior", method="mgp", **scored),
        "committee": call(active.committee, fits=t.fits, method="mgp", **scored),
        "model_posterior": call(active.model_posterior, fits=t.fits, prior=[1, 1], draws=10, random_seed=0),
        "thompson": call(active.thompson, **of_paths),
        "max_value_entropy": call(active.max_value_entropy, n_optima=2, **of_paths),
        "joint_entropy_search": call(active.joint_entropy_search, n_optima=2, **of_paths),
        "pes": call(active.pes, source=t.gpm, n_optima=2, **of_paths),
        "entropy_search": call(active.entropy_search, source=t.gpm, **over_box),
        "latin_hypercube": call(active.latin_hypercube, bounds=t.box, n=3, random_seed=0),
        "random_design": call(active.random_design, bounds_or_pool=t.pool, n=3, random_seed=0),
        "random_design(bounds=)": call(active.random_design, bounds=t.box, n=3, random_seed=0),
        "Learner": call(
            active.Learner,
            gpm=t.gpm,
            learn="function",
            criterion="random",
            pool=t.pool,
            bounds=None,
            repeat=False,
            minimize=False,
            inference="laplace",
            verify="never",
            random_seed=0,
        ),
        "Learner.ask": call(t.learner.ask, n=1),
        "Learner.tell": call(t.learner.tell, x=t.pool[:1], y=[1.0], asked=None),
        "Learner.forget": call(t.learner.forget, x=None),
        "Learner.expect": call(t.learner.expect, x=t.pool[:1]),
        "Learner.stop": call(t.learner.stop, epsilon=0.1, delta=0.1),
        "Learner.run": call(t.learner.run, oracle=f, n=0, progressbar=False, until=None),
        "HDSLearner": call(pma.hds.HDSLearner, **hds, test="gpt"),
        "HDSLearner.ask": call(t.hds_learner.ask, n=1),
        "HDSLearner.tell": call(t.hds_learner.tell, x=t.hds_learner.ask(1), y=1.0),
        "HDSLearner.run": call(t.hds_learner.run, f=f, n=1, batch_size=1),
        "hds": call(active.hds, f=f, batch_size=None, **hds),
        "coordinate_wise": call(
            active.coordinate_wise,
            f=f,
            n_dims=3,
            n_pairs=2,
            noise_variance=0.1,
            alpha=0.05,
            bandwidth=0.5,
            bounds=(-1.0, 1.0),
            random_seed=0,
        ),
        "compositional_kernel_search": call(
            search.compositional_kernel_search,
            X=t.X[:, :1],
            y=t.y,
            bases=("LIN",),
            depth=1,
            beam=1,
            budget=1,
            mean="constant",
            random_seed=0,
            progressbar=False,
            fit_keywords={"n_restarts": 1},
        ),
        "embedding_dimension": call(
            search.embedding_dimension,
            X=t.X,
            y=t.y,
            n_components=[1],
            random_seed=0,
            progressbar=False,
        ),
    }


WRONG = {
    "None": lambda: None,
    "text": lambda: "no",
    "nan": lambda: np.nan,
    "inf": lambda: np.inf,
    "-1": lambda: -1,
    "0": lambda: 0,
    "-0.5": lambda: -0.5,
    "2.5": lambda: 2.5,
    "1e300": lambda: 1e300,
    "1j": lambda: 1 + 2j,
    "True": lambda: True,
    "list": list,
    "dict": dict,
    "object": object,
    "empty": lambda: np.empty((0, 2)),
    "vector": lambda: np.zeros(3),
    "objects": lambda: np.array([[object(), object()]]),
    "nans": lambda: np.full((7, 2), np.nan),
    "texts": lambda: ["a", "b"],
    "frame of text": lambda: pd.DataFrame({"a": ["x", "y"]}),
    "dates": lambda: np.array(["2020-01-01", "2020-01-02"], "M8[D]"),
}


def has_nan(value, depth=0):
    """Whether there is NaN anywhere in an answer."""
    if isinstance(value, float | complex | np.inexact):
        return bool(np.isnan(value))
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "fc" and bool(np.isnan(value).any())
    if isinstance(value, xr.DataArray | pd.Series | pd.DataFrame):
        return has_nan(value.to_numpy())
    if isinstance(value, xr.Dataset):
        return any(has_nan(array) for array in value.variables.values())
    if depth < 3 and isinstance(value, Mapping):
        return any(has_nan(part, depth + 1) for part in value.values())
    if depth < 3 and isinstance(value, list | tuple):
        return any(has_nan(part, depth + 1) for part in value)
    # An ensemble without an evidence says NaN.
    if depth < 2 and is_dataclass(value) and not isinstance(value, pma.Ensemble) and not isinstance(value, type):
        return any(has_nan(getattr(value, field.name), depth + 1) for field in fields(value))
    return False


def data_of(function):
    """What a method's learner or model holds, (n, D) and (n,); nothing for a function."""
    owner = getattr(function, "__self__", None)
    return [np.array(getattr(owner, name)) for name in ("X", "y") if hasattr(owner, name)]


def finding(name, argument, wrong):
    """What is wrong with a call, or None."""
    function, arguments = sane_calls()[name]
    value, before = WRONG[wrong](), data_of(function)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            answer = function(**arguments | {argument: value})
    except (ValueError, TypeError, pma.ActiveError):
        same = all(map(np.array_equal, before, data_of(function)))
        return None if same else "refused, but the data have changed"
    except Exception as error:
        return repr(error)
    for warning in caught:
        if issubclass(warning.category, RuntimeWarning):
            return f"RuntimeWarning, {warning.filename}:{warning.lineno}: {warning.message}"
    if has_nan(answer):
        return "NaN"
    return "taken for a bool" if argument in FLAGS and not isinstance(value, bool) else None


@cache
def sane_calls():
    return sane()


def combinations(names=()):
    found = []
    for name, (_, given) in sane_calls().items():
        if not names or name in names:
            found += [(name, argument, wrong) for argument in given for wrong in WRONG]
    return found


def test_wrong_arguments_are_refused_by_name_or_do_no_harm():
    """Some of all combinations, drawn once and for all; this file as a script tries the others."""
    import matplotlib.pyplot as plt

    everything = [one for one in combinations() if one[0] not in LONG]
    found = {}
    for number in np.random.default_rng(20261124).permutation(len(everything))[:N_TRIED]:
        combination = everything[number]
        if problem := finding(*combination):
            found[combination] = problem
        plt.close("all")
    assert not found


if __name__ == "__main__":
    import time

    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    everything = combinations(sys.argv[1:])
    n_found = 0
    for combination in everything:
        began = time.monotonic()
        found = finding(*combination)
        plt.close("all")
        if (spent := time.monotonic() - began) > 5:
            print(*combination, f"took {spent:.0f} s", flush=True)
        if found:
            n_found += 1
            print(*combination, "|", found[:160].replace("\n", " "), flush=True)
    print(f"{n_found} findings in {len(everything)} calls")
