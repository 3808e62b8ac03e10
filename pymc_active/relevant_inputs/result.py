"""What a search for relevant inputs found, and every evaluation behind it."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from pymc_active.models.builders import ard_gp
from pymc_active.models.gpmodel import GPModel
from pymc_active.relevant_inputs.diagnostics import NOISE_FACTOR, SearchDiagnostics, diagnose
from pymc_active.relevant_inputs.guarantees import ErrorRates, nodes_visited
from pymc_active.relevant_inputs.learner import HDSLearner, describe
from pymc_active.relevant_inputs.likelihood_ratio import least_noise
from pymc_active.relevant_inputs.saved import design
from pymc_active.relevant_inputs.settings import Settings
from pymc_active.relevant_inputs.state import HDSState, results
from pymc_active.support.arguments import checked
from pymc_active.support.summaries import Summarized, Summary
from pymc_active.support.user_warnings import DoubtfulSearchWarning, warn_user

# Bandwidth as a part of an input's interval, where nothing is known about it.
_GUESS = 0.5
# A DataTree with more numbers than this does not store all inputs of all evaluations.
_LARGEST_STORED = 10_000_000
# Least sd of the noise of a model of the inputs found, relative to that of the signal.
_LEAST_NOISE = 1e-3


class History(Summarized):
    """Every evaluation that was told, in order, (n,) each; the points, which may be very long, are made on demand.

    ``trial`` is -1 for repeats and scans that belong to no test. ``z`` and ``rest`` are the places, from 0 to 1, of the
    node's inputs and of the others on the diagonal; equal unless anchored. ``y`` is NaN where the evaluation failed.
    """

    def __init__(self, state: HDSState):
        self._state, self._told = state, state.told
        self.node, self.trial, self.background, self.z, self.rest = design(self._told).values()
        self.y = results(self._told)

    def __len__(self) -> int:
        return len(self.y)

    def _summary(self) -> Summary:
        return Summary(f"History of {len(self)} evaluations", {"failed": np.isnan(self.y).sum()})

    def X(self, rows: Any = slice(None)) -> np.ndarray:
        """Points in the user's units, (k, D), of some evaluations."""
        return self._state.points([self._told[row] for row in np.arange(len(self))[rows]])

    def columns(self, inputs: Any) -> np.ndarray:
        """Some inputs of all points, (n, k), without making the others."""
        inputs = np.asarray(inputs, int)
        columns = [self._state.point(at, inputs) for at in self._told]
        return np.array(columns, float).reshape(len(self), len(inputs))


class HDSResult(Summarized):
    """What hierarchical diagonal sampling found until now; what the ``learner`` does later does not change it.

    ``active`` are the inputs that matter, sorted. ``undecided`` nodes, such as ``"24-31"``, are open or set aside:
    inputs in them may matter. ``contradicted`` nodes were found active, but both halves were rejected: an active input
    may be lost in them, or the last check says that one is. ``check`` is that check, or None. ``stopped`` is
    ``"decided"``, ``"budget"`` or ``"interrupted"``: after an interruption the ``learner`` can go on. ``history`` has
    the ``n_evaluations`` evaluations, ``state`` nodes and tests.
    """

    @checked
    def __init__(self, learner: HDSLearner):
        self.learner, self.state = learner, learner.state()
        self.check, nodes = self.state.check, self.state.nodes
        self.active = self.state.active()
        self.history = History(self.state)
        self.n_evaluations = len(self.history)
        # What was set aside before the last tree is part of that tree.
        start = max(node.number for node in nodes if node.parent is None)
        self.undecided = [node.label for node in nodes[start:] if node.status in ("open", "set aside")]
        self.contradicted = [node.label for node in nodes if node.status == "contradicted"]
        self.stopped = "decided" if not self.undecided else "budget" if learner.is_finished else "interrupted"

    @cached_property
    def settings(self) -> Settings:
        """What the search was given; of a bisection without scales, those of its evaluations."""
        settings = self.state.settings
        if not np.isnan(settings.bandwidth):
            return settings
        y = self.history.y[np.isfinite(self.history.y)]
        noise = max(self._noise_variance(), np.nan_to_num(settings.noise_variance))
        variance = max(float(y.var()) - noise, noise) if len(y) else 0.0
        signal = variance or 1.0
        return replace(settings, bandwidth=_GUESS, signal_variance=signal, noise_variance=least_noise(signal, noise))

    def _noise_variance(self) -> float:
        """Variance of repeated evaluations."""
        found: dict[bytes, list[float]] = {}
        for at in self.state.told:
            if at.point is not None and np.isfinite(at.y):
                found.setdefault(at.point.tobytes(), []).append(at.y)
        freedom = sum(len(y) - 1 for y in found.values())
        return sum(float(np.var(y)) * len(y) for y in found.values()) / freedom if freedom else 0.0

    @property
    def changed_by_others(self) -> float:
        """Upper end of a one-sided 95 % interval: share of pairs at which inputs not found visibly change f.

        Pairs of points that differ in all inputs not found, as the last check draws them. A change is visible if it is
        more than noise. 1 without a finished check that showed none, 0 if all inputs were found.
        """
        if len(self.active) == self.settings.n_dims:
            return 0.0
        return float(1 - 0.05 ** (1 / self.check.n_pairs)) if self.check and self.check.shows_nothing else 1.0

    def _summary(self) -> Summary:
        s, d = self.settings, self.diagnostics
        facts = {
            "active inputs": ", ".join(map(str, self.active)) or "none",
            "evaluations": f"{self.n_evaluations} of at most {s.budget}, {self.stopped}",
            "UNDECIDED nodes": ", ".join(self.undecided) or None,
            "CONTRADICTED nodes": ", ".join(self.contradicted) or None,
            "test": describe(s),
            "inputs not found": self._left(),
        }
        if s.test in ("anchored", "gpt"):
            facts["declared recovery"] = f"{self.error_rates.recovery:.3g}, if at most {s.n_active} inputs matter"
        if s.test == "bisection":
            facts["noise variance"] = f"{s.noise_variance:.3g}, of repeats" if self._noise() else "none seen in repeats"
        else:
            for name in ("signal_variance", "noise_variance"):
                fitted, assumed = getattr(d, name), getattr(s, name)
                facts[name.replace("_", " ")] = f"{fitted:.3g} on the inputs found, {assumed:.3g} assumed"
        doubt = "DOUBTFUL scales: the evaluations do not agree with the assumed ones, so inputs may be missed."
        return Summary(f"HDSResult of {s.n_dims} inputs", facts, remarks=(doubt,) if self._is_doubtful else ())

    def _left(self) -> str | None:
        """What the last check says."""
        if self.check is None or len(self.active) == self.settings.n_dims:
            return None
        if self.check.shows_change:
            return f"CHANGE f, too little to tell which (p = {self.check.p_value:.2g})"
        if not self.check.shows_nothing:
            return "NOT CHECKED to the end"
        unseen = f"; changes within the noise, of sd {noise:.2g}, are not seen" if (noise := self._noise()) else ""
        return f"change f between fewer than {self.changed_by_others:.1%} of pairs of points (95 % confidence){unseen}"

    def _noise(self) -> float:
        """Sd of repeated evaluations; 0 if it is mere rounding."""
        noise, y = np.sqrt(self._noise_variance()), self.history.y
        return float(noise) if noise > 1e-9 * np.abs(y[np.isfinite(y)]).max(initial=0.0) else 0.0

    def warn(self) -> None:
        """Warn once if inputs may be missed, or found without cause."""
        check = self.check
        if check and check.shows_change:
            warn_user(
                f"inputs not found change f, too little to tell which (p = {check.p_value:.2g}). Less noise would show "
                "them; if very many inputs matter a little, fit a model to all evaluations (ard_gp, or a lasso).",
                DoubtfulSearchWarning,
            )
        elif check and not check.is_finished and self.stopped == "budget":
            warn_user(
                f"the budget of {self.settings.budget} ended before the last check, so inputs may be missed: raise it. "
                "If very many inputs matter, or noise hides them, moving one input at a time (coordinate_wise) or a "
                "model of all evaluations (a lasso) needs fewer.",
                DoubtfulSearchWarning,
            )
        elif self._is_doubtful:
            self.diagnostics.warn()

    @property
    def _is_doubtful(self) -> bool:
        """Whether scales that do not fit may have misled the tests.

        A last check that shows nothing says that no input is missed, and if its repeats have the assumed noise, noise
        has not passed for an input.
        """
        if self.settings.test == "bisection" or self.diagnostics.is_plausible:
            return False
        is_clean = self.check and self.check.shows_nothing
        return not (is_clean and self._noise_variance() <= NOISE_FACTOR * self.settings.noise_variance)

    @cached_property
    def diagnostics(self) -> SearchDiagnostics:
        """Whether the evaluations agree with the Gaussian process that was assumed, on the inputs found."""
        settings, keep = self.settings, np.isfinite(self.history.y)
        U = settings.unscale(self.history.columns(self.active)[keep], self.active)
        return diagnose(U, self.history.y[keep], settings, self.stopped == "decided")

    @property
    def llr(self) -> dict[str, list[np.ndarray]]:
        """Cumulative log likelihood ratios (nats) of each node's tests, by label: one path for each test."""
        paths: dict[str, list[np.ndarray]] = {}
        for trial in self.state.trials:
            paths.setdefault(trial.node.label, []).append(np.array(trial.path))
        return paths

    @property
    def error_rates(self) -> ErrorRates:
        """Error rates of a single test and of all, if f is a draw from the assumed Gaussian process.

        ValueError for a bisection, which assumes none (see :attr:`changed_by_others`), and for finite differences:
        f may be flat along a line, so that they miss inputs whatever the thresholds.
        """
        s = self.settings
        if s.test in ("bisection", "fdt"):
            raise ValueError(f"test={s.test!r} declares no error rates: see changed_by_others")
        false_active, false_inactive = float(np.exp(-s.accept)), float(np.exp(s.reject))
        recovery = 1 - nodes_visited(s.n_dims, s.n_active) * (false_active + false_inactive)
        return ErrorRates(false_active, false_inactive, max(0.0, recovery))

    def tree_table(self) -> pd.DataFrame:
        """One row for each visited node, indexed by its number.

        ``inputs`` (label), ``start``, ``stop``, ``depth``, ``parent`` (-1 for the root), ``status``, ``llr`` (of the
        last test, nats), ``n_tests``, ``n_evaluations``.
        """
        nodes, trials = self.state.nodes, self.state.trials
        last = {trial.node: trial.llr for trial in trials}
        columns = {
            "inputs": [node.label for node in nodes],
            "start": [node.start for node in nodes],
            "stop": [node.stop for node in nodes],
            "depth": [node.depth for node in nodes],
            "parent": [-1 if node.parent is None else node.parent.number for node in nodes],
            "status": [node.status for node in nodes],
            "llr": [last.get(node, 0.0) for node in nodes],
            "n_tests": np.bincount([trial.node.number for trial in trials], minlength=len(nodes)),
            "n_evaluations": np.bincount(self.history.node, minlength=len(nodes)),
        }
        return pd.DataFrame(columns).rename_axis("node")

    def data(self) -> tuple[np.ndarray, np.ndarray]:
        """Active inputs X (n, d) in the user's units, as measured, and y (n,): all successes and data not asked for."""
        keep, foreign = np.isfinite(self.history.y), self.state.foreign
        others = np.array([x[self.active] for x, _ in foreign], float).reshape(len(foreign), len(self.active))
        X = np.concatenate([self.history.columns(self.active)[keep], others])
        return X, np.concatenate([self.history.y[keep], [y for _, y in foreign]])

    def to_model(self, **keywords: Any) -> GPModel:
        """An :func:`ard_gp` on the inputs found, named by their numbers among the D, holding all samples.

        ``keywords`` go to it. The mean is constant by default; lengthscales, output scale and noise have Normal
        priors with sd 1 around the values of the search, on the log scale. Noise below a thousandth of the signal's sd
        is fixed there, since the samples repeat many rows of these inputs. ValueError if no active input was found.
        """
        import pymc as pm

        if not self.active:
            raise ValueError("no active input was found, so there is nothing to model")
        X, y = self.data()
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
            gpm.source.box = (next(ends), next(ends))
        return gpm

    def to_datatree(self) -> xr.DataTree:
        """Everything as ArviZ reads it.

        ``observed_data`` (y) and ``constant_data`` (X of the active inputs; of all, up to ten million numbers) over
        ``obs``; ``design`` (node, test, background and place of each evaluation); ``tree``, the columns of
        :meth:`tree_table` over ``node``; ``llr``, the paths over ``test`` and ``observation``, NaN after their end.
        """
        history, trials = self.history, self.state.trials
        constant = xr.Dataset({"X_active": (("obs", "active_input"), history.columns(self.active))})
        constant = constant.assign_coords(active_input=np.array(self.active, int))
        if len(history) * self.settings.n_dims <= _LARGEST_STORED:
            constant["X"] = (("obs", "input"), history.X())
        paths = np.full((len(trials), max((len(trial.path) for trial in trials), default=0)), np.nan)
        for trial in trials:
            paths[trial.number, : len(trial.path)] = trial.path
        table = self.tree_table().astype({"inputs": str, "status": str})
        tree = {name: ("node", np.array(column.tolist())) for name, column in table.items()}
        names = ("test", "n_dims", "bandwidth", "signal_variance", "noise_variance", "accept", "reject", "budget")
        attrs = {name: getattr(self.settings, name) for name in names} | {
            "stopped": self.stopped,
            "fitted_signal_variance": self.diagnostics.signal_variance,
            "fitted_noise_variance": self.diagnostics.noise_variance,
            "is_plausible": int(self.diagnostics.is_plausible),
        }
        columns = {name: ("obs", column) for name, column in design(self.state.told).items()}
        tested = np.array([trial.node.number for trial in trials], int)
        groups = {
            "observed_data": xr.Dataset({"y": ("obs", history.y)}),
            "constant_data": constant,
            "design": xr.Dataset(columns, attrs=attrs),
            "tree": xr.Dataset(tree, coords={"node": np.arange(len(table))}),
            "llr": xr.Dataset({"llr": (("test", "observation"), paths), "node": ("test", tested)}),
        }
        return xr.DataTree.from_dict(groups)
