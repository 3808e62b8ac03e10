"""The first points of a run without data, and the model that they make possible."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from typing import Any, Self

import numpy as np
import pandas as pd

from pymc_active.criteria.base import Scorer, is_lazy
from pymc_active.learner.candidates import Box, Candidates, Choice, SpaceCandidates
from pymc_active.learner.designs import gradient_design, latin_hypercube
from pymc_active.learner.lazy_pool import LazyPool
from pymc_active.learner.ledger import Ledger
from pymc_active.learner.models_followed import FollowedModels, read_subject
from pymc_active.likelihoods.by_name import find_likelihood
from pymc_active.models.advice import decades
from pymc_active.models.builders import ard_gp
from pymc_active.models.gpmodel import GPModel
from pymc_active.models.latent import known_by_name, read_likelihood
from pymc_active.support.data import Data
from pymc_active.support.tables import input_labels, read_bounds, read_inputs
from pymc_active.support.user_warnings import warn_if

# Points of a Latin hypercube: two more than inputs, but at least and at most so many.
_FEWEST, _MOST = 4, 20
# Candidates that show how an input is spread.
_PLACES = 256
# Numbers of inputs for which hyperparameters are learned from gradients first.
_GRADIENTS = range(8, 31)

# The likelihoods that ``"auto"`` averages over, by their evidences.
_AUTO = "normal", "warped"

type MakeModel = Callable[[Any, np.ndarray], Any]


class FirstDesign:
    """What a learner follows before it has a model: the points of a design, and how the model is made.

    ``rows`` (k, D) are the points to ask for; ``function`` makes the model from as many results, or None for
    :func:`ard_gp` on the box of the candidates, with outcomes of a ``likelihood``; ``"auto"`` makes two models.
    """

    def __init__(
        self,
        function: MakeModel | None,
        candidates: Candidates,
        inputs: list,
        learn: str,
        inference: str,
        random_seed: int,
        likelihood: str = "normal",
    ):
        if function is None and learn == "model":
            raise ValueError("learn='model' compares models: pass at least two, or a function (X, y) -> list of models")
        if function is not None and likelihood != "normal":
            raise ValueError("likelihood= is for Learner(None, ...): the function that makes the model has its own")
        self.function, self.inputs, self.learn, self.inference = function, inputs, learn, inference
        if likelihood == "auto" and learn == "hyperparameters":
            raise ValueError("learn='hyperparameters' takes a single model: choose a likelihood in place of 'auto'")
        self.are_several, self.likelihood_name = likelihood == "auto", likelihood
        # That of the second of two takes what the first does.
        self.likelihoods = _AUTO if self.are_several else (likelihood,)
        self.likelihood = find_likelihood(self.likelihoods[-1])
        # A dask array was not read before.
        low, high = read_inputs(np.stack(candidates.limits), "the smallest and largest values of pool")
        # A column of a pool may be constant.
        high = np.where(high > low, high, low + np.maximum(np.abs(low), 1.0))
        self.bounds, self.width = list(zip(low.tolist(), high.tolist(), strict=True)), high - low
        # The smallest of many rows is no bound that was chosen, and the points of a box say nothing.
        is_table = len(candidates) > 0 and not isinstance(candidates, LazyPool)
        places = candidates.places(_PLACES) if is_table else np.empty((0, len(low)))
        warn_if(decades(low, high, inputs, places))
        self.rows = _rows(self.bounds, candidates, inputs, learn, np.random.default_rng((random_seed, 0)))
        self.models: dict[Any, GPModel] = {}

    def named(self, inputs: list) -> Self:
        """The same with names of the inputs."""
        other = copy(self)
        other.inputs = inputs
        return other

    def read_known(self, n: int, x: Any, y_sd: Any, **sizes: Any) -> np.ndarray | None:
        """What is known of n measurements at x besides y, as :meth:`GPModel.read_known` of the model to be made."""
        if self.function is not None and (keys := [key for key, size in sizes.items() if size is not None]):
            raise ValueError(f"the function that makes the model takes no {keys[0]}: pass a model of a few points")
        if self.are_several and y_sd is not None:
            raise ValueError("likelihood='auto' averages over 'warped', which takes no y_sd: choose 'normal'")
        return read_likelihood(self.likelihoods[-1], sizes, y_sd, n, x)[1]

    def check_outcomes(self, y: np.ndarray, y_sd: np.ndarray | None = None) -> None:
        """Raise a ValueError for outcomes that the model to be made cannot have."""
        if self.likelihood is not None:
            self.likelihood.read(y, y_sd)

    def with_data(self, data: Data) -> FirstDesign | FollowedModels:
        """What to follow given data: the model made from them, or this, if they are too few."""
        X, y, y_sd = data
        self.check_outcomes(y, y_sd)
        if self.likelihood is not None and y_sd is not None:
            data = data._replace(y_sd=data.sizes)
        if len(y) < len(self.rows):
            return self
        is_named = self.inputs != list(range(X.shape[1]))
        # Users may keep what their function is given.
        table = pd.DataFrame(X.copy(), columns=self.inputs) if is_named else X.copy()
        space = getattr(self.inputs, "space", None)
        table = table if space is None else space.decode(X)
        if self.function is None:
            where: dict[str, Any] = {"bounds": self.bounds} if space is None else {"space": space}
            sizes = known_by_name(self.likelihood, data)
            models = {name: ard_gp(table, y, likelihood=name, **where, **sizes) for name in self.likelihoods}
            made = models if self.are_several else models[self.likelihood_name]
        else:
            made = self.function(table, y.copy())
        subject = read_subject(made, self.learn, None, self.inference)
        if not (np.array_equal(subject.data.X, X) and np.array_equal(subject.data.y, y)):
            raise ValueError("the function that makes the model must return one of the X and y that it is given")
        if subject.data.errors.any() and not subject.data.equals(data):
            raise ValueError("the function that makes the model must leave out y_sd: tell(x, y, y_sd=...) has it")
        subject.set_data(data)
        return subject

    def choose(self, ledger: Ledger, rng: np.random.Generator) -> Choice:
        """The first row of the design, or the candidate nearest to it, that no point asked or told stands for."""
        # A point stands for the row nearest to it, so that the user's own points count.
        candidates, taken, rows = ledger.candidates, (ledger.tried, ledger.pending), self.rows.copy()
        for k, value in candidates.fixed.items():
            rows[:, k] = value
        done = [int(np.argmax(_Nearness(one.x, self.width).score(rows))) for part in taken for one in part]
        left = np.delete(rows, done, axis=0)
        if not len(left):
            return candidates.choose(None, *taken, rng)
        if isinstance(candidates, Box):
            return Choice(left[0], -1, np.nan)
        if isinstance(candidates, SpaceCandidates):
            return candidates.nearest(left[0], rng)
        for row in left:
            nearest = candidates.choose(_Nearness(row, self.width), *taken, rng)
            # Where points may be repeated, one that is known stands for another row.
            if not any(np.array_equal(nearest.x, one.x) for part in taken for one in part):
                return nearest._replace(score=np.nan)
        return candidates.choose(None, *taken, rng)


class _Nearness(Scorer):
    """Minus the squared distance to a point, in units of the box."""

    n_models = 1

    def __init__(self, x: np.ndarray, width: np.ndarray):
        self.x, self.width = x, width

    def score(self, X):
        return -np.square((X - self.x) / self.width).sum(1)


def inputs_of(pool: Any, bounds: Any) -> list:
    """Names of the inputs of a pool or a box: the columns of a data frame, the keys of a dict, else 0, 1, ..."""
    if pool is None:
        low, _ = read_bounds(bounds)
        return list(bounds) if isinstance(bounds, Mapping) else list(range(len(low)))
    if is_lazy(pool):
        return list(range(pool.shape[-1]))
    return input_labels(pool, read_inputs(pool, "pool").shape[1])


def _rows(bounds: list, candidates: Candidates, inputs: Sequence, learn: str, rng: np.random.Generator) -> np.ndarray:
    space = getattr(inputs, "space", None)
    D = len(bounds if space is None else space.variables)
    # The rows of a pool are seldom a step apart.
    if learn == "hyperparameters" and isinstance(candidates, Box) and D in _GRADIENTS:
        return gradient_design(bounds, random_seed=rng)
    n = min(max(_FEWEST, D + 2), _MOST)
    n = min(n, len(candidates) or n)
    return latin_hypercube(bounds, n, rng) if space is None else space.spread(n, rng)
