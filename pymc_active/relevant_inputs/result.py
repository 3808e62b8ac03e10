"""What a search for relevant inputs found, and every evaluation behind it."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from scipy.special import chdtri

from pymc_active.models.builders import ard_gp
from pymc_active.models.gpmodel import GPModel
from pymc_active.relevant_inputs.learner import HDSLearner
from pymc_active.relevant_inputs.log import Told
from pymc_active.relevant_inputs.settings import Settings, least_noise
from pymc_active.support.summaries import Summarized, Summary

# Bandwidth as a part of an input's interval, where nothing is known about it.
_GUESS = 0.5
# A DataTree with more numbers than this does not store all inputs of all evaluations.
_LARGEST_STORED = 10_000_000
# Least sd of the noise of a model of the inputs found, relative to that of the signal.
_LEAST_NOISE = 1e-3
# Noise that is larger than assumed by this factor does no harm; p-value at which it counts as larger.
_HARMLESS, _SURPRISING = 2.0, 1e-4


class History(Summarized):
    """Every evaluation that was told, in order, (n,) each.

    ``node``, its ``trial`` (0, or 1 for a retest) and ``background`` are numbers, -1 for the pairs of a bisection. The
    node's inputs are at ``z``, from 0 to 1, on the background. ``y`` is NaN where the evaluation failed.
    """

    def __init__(self, n_dims: int, answers: list[Told], design: list[tuple[int, int, int, float]]):
        self._n_dims = n_dims
        self._X, self.y = [told.point for told in answers], np.array([told.y for told in answers], float)
        *numbers, self.z = np.array(design, float).reshape(-1, 4).T
        self.node, self.trial, self.background = np.array(numbers, int)

    def __len__(self) -> int:
        return len(self.y)

    def _summary(self) -> Summary:
        return Summary(f"History of {len(self)} evaluations", {"failed": np.isnan(self.y).sum()})

    def X(self, rows: Any = slice(None)) -> np.ndarray:
        """Points in the user's units, (k, D), of some evaluations."""
        return np.array([self._X[row] for row in np.arange(len(self))[rows]]).reshape(-1, self._n_dims)


class HDSResult(Summarized):
    """What hierarchical diagonal sampling found until now; what the ``learner`` does later does not change it.

    ``active`` are the inputs that matter, sorted. ``undecided`` nodes, such as ``"24-31"``, are open: inputs in them
    may matter. ``contradicted`` nodes were found active, but both halves were rejected: an active input may be lost in
    them, or the last check says that one is. ``check`` is that check, with its ``n_shown`` pairs, their ``p_value`` and
    ``share_of_others``, or None. ``stopped`` is ``"decided"``, ``"budget"`` or ``"interrupted"``: after an interruption
    the ``learner`` can go on. ``history`` has the ``n_evaluations`` evaluations.
    """

    def __init__(self, learner: HDSLearner):
        self.learner, halving, answers = learner, learner._halving, learner._log.answers
        self.check, self.active = copy(learner._check), learner.recommend()
        nodes, n_dims = learner._nodes(), learner.settings.n_dims
        root_of_check = next((node.number for node in reversed(nodes) if node.parent is None), 0)
        design = list(halving.design) if halving else []
        design += [(root_of_check, -1, -1, np.nan)] * (len(learner._planned) - len(design))
        self.history = History(n_dims, answers, [design[told.number] for told in answers])
        self.n_evaluations = len(self.history)
        self._paths = [(node.number, path) for node in nodes for path in node.paths]
        last = {number: path[-1] for number, path in self._paths if len(path)}
        rows = [
            (n.label, n.start, n.stop, n.depth, n.parent.number if n.parent else -1, n.status, last.get(n.number, 0.0))
            for n in nodes
        ]
        names = ["inputs", "start", "stop", "depth", "parent", "status", "llr"]
        self._table = pd.DataFrame(rows, columns=names).rename_axis("node")
        self._table["n_tests"] = [len(node.paths) for node in nodes]
        self._table["n_evaluations"] = np.bincount(self.history.node, minlength=len(nodes))
        self.undecided, self.contradicted = (
            [node.label for node in nodes if node.status == status] for status in ("open", "contradicted")
        )
        self._shows_nothing = learner._shows_nothing
        self.stopped = "decided" if not self.undecided else "budget" if learner.is_finished else "interrupted"
        self._told = [told for told in learner._log.told if np.isfinite(told.y)]

    @cached_property
    def settings(self) -> Settings:
        """What the search was given; of a bisection without scales, those of its evaluations."""
        settings = self.learner.settings
        if not np.isnan(settings.bandwidth):
            return settings
        y = self.history.y[np.isfinite(self.history.y)]
        noise = max(self.check.noise_variance if self.check else 0.0, np.nan_to_num(settings.noise_variance))
        variance = max(float(y.var()) - noise, noise) if len(y) else 0.0
        signal = variance or 1.0
        return replace(settings, bandwidth=_GUESS, signal_variance=signal, noise_variance=least_noise(signal, noise))

    @property
    def changed_by_others(self) -> float:
        """Upper end of a one-sided 95 % interval: share of pairs at which inputs not found visibly change f.

        Pairs of points that differ in all inputs not found, as the last check draws them. A change is visible if it is
        more than noise. 1 without a finished check that showed none, 0 if all inputs were found.
        """
        if len(self.active) == self.settings.n_dims:
            return 0.0
        return float(1 - 0.05 ** (1 / self.check.n_shown)) if self.check and self._shows_nothing else 1.0

    def _summary(self) -> Summary:
        s, noise = self.settings, self.check.noise_variance if self.check else 0.0
        facts = {
            "active inputs": ", ".join(map(str, self.active)) or "none",
            "evaluations": f"{self.n_evaluations} of at most {s.budget}, {self.stopped}",
            "UNDECIDED nodes": ", ".join(self.undecided) or None,
            "CONTRADICTED nodes": ", ".join(self.contradicted) or None,
            "test": s.test,
            "noise variance": f"{noise:.3g}, of repeats" if noise else "none seen in repeats",
        }
        if s.test != "bisection":
            facts["noise variance"] = f"{s.noise_variance:.3g} assumed"
        if self.check and self._shows_nothing and len(self.active) < s.n_dims:
            most = self.check.share_of_others if self.active else None
            unseen = f"; changes within the noise, of sd {np.sqrt(noise):.2g}, are not seen" if noise else ""
            unseen += f": at most {most[1]:.1%} of the variance of f" if most else ""
            share = f"{self.changed_by_others:.1%} of pairs of points (95 % confidence)"
            facts["inputs not found"] = f"change f between fewer than {share}{unseen}"
        return Summary(f"HDSResult of {s.n_dims} inputs", facts, remarks=(self.doubt,) if self.doubt else ())

    @property
    def doubt(self) -> str | None:
        """Why inputs may be missed, or found without cause."""
        settings, check = self.settings, self.check
        if check and self._shows_nothing is False:
            about = check.share_of_others if self.active else None
            share = f", about {about[0]:.1%} of its variance" if about else ""
            return (
                f"inputs not found change f{share}, too little to tell which (p = {check.p_value:.2g}). Less noise "
                "would show them; if very many matter a little, fit a model to all evaluations (ard_gp, or a lasso)."
            )
        y = self.history.y[np.isfinite(self.history.y)]
        if len(y) and not self.active and y.min() == y.max():
            # The rule of three, as if points were independent.
            return (
                f"f was {y[0]:.6g} at all {len(y)} points: no input matters, or f changes in so small a part of the "
                f"bounds, below {3 / len(y):.0%} or so, that it was missed. Narrow them to where f changes."
            )
        if self.stopped == "budget":
            return (
                f"the budget of {settings.budget} ended before the search, so inputs may be missed: raise it. If very "
                "many inputs matter, or noise hides them, coordinate_wise or a lasso needs fewer evaluations."
            )
        if check is None and self.contradicted:
            return (
                f"{', '.join(self.contradicted[:3])} changed f, but neither half did, so inputs may be missed: pass "
                "retest=True or check=True, or search without scales."
            )
        if check and settings.test != "bisection" and check.freedom:
            most = settings.noise_variance * max(_HARMLESS, chdtri(check.freedom, _SURPRISING) / check.freedom)
            if check.noise_variance > most:
                return (
                    f"repeats have a variance of {check.noise_variance:.3g}, but {settings.noise_variance:.3g} was "
                    "assumed, so inputs may be found without cause: pass a larger noise_variance, or no scales."
                )
        return None

    def tree_table(self) -> pd.DataFrame:
        """One row for each visited node, indexed by its number.

        ``inputs`` (label), ``start``, ``stop``, ``depth``, ``parent`` (-1 for the root), ``status``, ``llr`` (of the
        last test, nats), ``n_tests``, ``n_evaluations``. The last check is a node of all inputs, with those that
        it finds below it.
        """
        return self._table.copy()

    @property
    def llr(self) -> dict[str, list[np.ndarray]]:
        """Cumulative log likelihood ratios (nats) of each node's tests, by label: one path for each test."""
        paths: dict[str, list[np.ndarray]] = {}
        for number, path in self._paths:
            paths.setdefault(self._table.inputs[number], []).append(path)
        return paths

    def data(self) -> tuple[np.ndarray, np.ndarray]:
        """Active inputs X (n, d) in the user's units, as measured, and y (n,): all successes and data not asked for."""
        X = np.array([told.point[self.active] for told in self._told], float)
        return X.reshape(len(self._told), len(self.active)), np.array([told.y for told in self._told], float)

    def to_model(self, **keywords: Any) -> GPModel:
        """An :func:`ard_gp` on the inputs found, named by their numbers among the D, holding all samples.

        Without noise, equal ones are there once. ``keywords`` go to it. The mean is constant by default; lengthscales,
        output scale and noise have Normal priors with sd 1 around the values of the search, on the log scale. Noise
        below a thousandth of the signal's sd is fixed there, since the samples repeat many rows of these inputs.
        ValueError if no active input was found.
        """
        import pymc as pm

        if not self.active:
            raise ValueError("no active input was found, so there is nothing to model")
        X, y = self.data()
        if self.check and not self.check.noise_variance:
            # Without noise, rows that repeat others or differ from them in other inputs only say nothing new.
            rows = np.sort(np.unique(np.column_stack([X, y]), axis=0, return_index=True)[1])
            X, y = X[rows], y[rows]
        settings = self.settings
        width = np.broadcast_to(settings.high - settings.low, settings.n_dims)[self.active]
        lengthscale = settings.bandwidth * width / np.sqrt(2)
        signal = np.sqrt(settings.signal_variance)
        # Of a simulator without noise, K of rows that differ in other inputs only would be singular.
        noise, least = np.sqrt(settings.noise_variance), _LEAST_NOISE * signal
        defaults: dict[str, Any] = {"mean": "constant"}
        if "x_scale" not in keywords and "y_scale" not in keywords:
            defaults["priors"] = {
                "log_lengthscale": pm.Normal.dist(np.log(lengthscale), 1.0),
                "log_outputscale": pm.Normal.dist(np.log(signal), 1.0),
                "log_noise": pm.Normal.dist(np.log(noise), 1.0) if noise > least else float(np.log(least)),
            }
            if keywords.get("mean", "constant") == "constant":
                defaults["priors"]["mean_constant"] = pm.Normal.dist(float(np.mean(y)), 2 * signal)
        gpm = ard_gp(pd.DataFrame(X, columns=self.active), y, **(defaults | keywords))
        if gpm.box is None:
            ends = (np.broadcast_to(end, settings.n_dims)[self.active] for end in (settings.low, settings.high))
            gpm.box = (next(ends), next(ends))
        return gpm

    def to_datatree(self) -> xr.DataTree:
        """Everything as ArviZ reads it.

        ``observed_data`` (y) and ``constant_data`` (X of the active inputs; of all, up to ten million numbers) over
        ``obs``; ``design`` (node, test, background and place of each evaluation); ``tree``, the columns of
        :meth:`tree_table` over ``node``; ``llr``, the paths over ``test`` and ``observation``, NaN after their end.
        """
        history, paths = self.history, self._paths
        X = history.X()
        constant = xr.Dataset({"X_active": (("obs", "active_input"), X[:, self.active])})
        constant = constant.assign_coords(active_input=np.array(self.active, int))
        if X.size <= _LARGEST_STORED:
            constant["X"] = (("obs", "input"), X)
        llr = np.full((len(paths), max((len(path) for _, path in paths), default=0)), np.nan)
        for row, (_, path) in zip(llr, paths, strict=True):
            row[: len(path)] = path
        table = self.tree_table().astype({"inputs": str, "status": str})
        tree = {name: ("node", np.array(column.tolist())) for name, column in table.items()}
        names = ("test", "n_dims", "bandwidth", "signal_variance", "noise_variance", "accept", "reject", "budget")
        attrs = {name: getattr(self.settings, name) for name in names} | {"stopped": self.stopped}
        columns = {name: ("obs", getattr(history, name)) for name in ("node", "trial", "background", "z")}
        tested = np.array([number for number, _ in paths], int)
        groups = {
            "observed_data": xr.Dataset({"y": ("obs", history.y)}),
            "constant_data": constant,
            "design": xr.Dataset(columns, attrs=attrs),
            "tree": xr.Dataset(tree, coords={"node": np.arange(len(table))}),
            "llr": xr.Dataset({"llr": (("test", "observation"), llr), "node": ("test", tested)}),
        }
        return xr.DataTree.from_dict(groups)
