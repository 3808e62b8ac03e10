"""``hds``: find the inputs that matter, and say how it was found."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr

from pymc_active.laplace.fit import LaplaceFit
from pymc_active.models.builders import ard_gp
from pymc_active.models.gpmodel import GPModel
from pymc_active.relevant_inputs.diagnostics import SearchDiagnostics
from pymc_active.relevant_inputs.error_rates import ErrorRates, declared_error_rates
from pymc_active.relevant_inputs.learner import HDSLearner
from pymc_active.relevant_inputs.scales import scales_of_model
from pymc_active.support.summaries import html_summary

if TYPE_CHECKING:
    pass

# With more numbers than this, all inputs of all evaluations are not stored in a DataTree.
_LARGEST_STORED = 10_000_000


class History:
    """Every evaluation that was told, in order: a node, a place on its line, and y.

    The points themselves are made on demand, since they may be very long.

    Attributes
    ----------
    node, trial, background : ndarray of int, shape (n,)
        ``trial`` is -1 for repeats at an anchor and scans that belong to no test.
    z : ndarray, shape (n,)
        Place of the node's inputs on the line, from 0 to 1.
    rest : ndarray, shape (n,)
        Place of the other inputs on the diagonal of an anchored test; without meaning for the others.
    y : ndarray, shape (n,)
        NaN where the evaluation failed.
    """

    def __init__(self, learner: HDSLearner):
        self._learner, self._rows = learner, list(learner._told)
        told = [learner.evaluations[row] for row in self._rows]
        self.node, self.trial, self.background = (
            np.array([getattr(at, name) for at in told], int) for name in ("node", "trial", "background")
        )
        self.z, self.rest, self.y = (np.array([getattr(at, name) for at in told], float) for name in ("z", "rest", "y"))

    def __len__(self) -> int:
        return len(self.y)

    def __repr__(self) -> str:
        return f"<History of {len(self)} evaluations, {np.isnan(self.y).sum()} failed>"

    def X(self, rows: Any = slice(None)) -> np.ndarray:
        """Points in the user's units, (k, D), of some evaluations."""
        return self._learner._points(np.array(self._rows, int)[rows].tolist())

    def columns(self, inputs: Any) -> np.ndarray:
        """Some inputs of all points, (n, k), without making the others."""
        inputs = np.asarray(inputs, int)
        out = np.empty((len(self), len(inputs)))
        for i, row in enumerate(self._rows):
            out[i] = self._learner._point(row, inputs)
        return out


class HDSResult:
    """What hierarchical diagonal sampling found.

    Attributes
    ----------
    active : list of int
        Inputs that matter, sorted.
    n_evaluations : int
    stopped : {"decided", "budget", "interrupted"}
    undecided : list of str
        Nodes still open or set aside, such as ``"24-31"``; inputs in them may matter.
    contradicted : list of str
        Nodes found active whose halves were both rejected: an active input may be lost in them.
    history : History
    learner : HDSLearner
        Can go on, if the result was taken early.
    """

    def __init__(self, learner: HDSLearner):
        self.learner, self.settings = learner, learner.settings
        self.active = learner.recommend()
        self.n_evaluations = learner.n_evaluations
        self.history = History(learner)
        # What was set aside before the last tree is part of that tree.
        start = max(node.number for node in learner.nodes if node.parent < 0)
        self.undecided = [node.label for node in learner.nodes[start:] if node.status in ("open", "set aside")]
        self.contradicted = [node.label for node in learner.nodes if node.status == "contradicted"]
        self.stopped = "decided" if not self.undecided else "budget" if learner.is_finished else "interrupted"

    def __repr__(self) -> str:
        notes = [f"active inputs {self.active}" if self.active else "no active input"]
        notes.append(f"{self.n_evaluations} evaluations")
        if self.undecided:
            notes.append(f"{len(self.undecided)} node(s) UNDECIDED ({self.stopped})")
        if self.contradicted:
            notes.append(f"{len(self.contradicted)} node(s) CONTRADICTED")
        if not self.diagnostics.is_plausible:
            notes.append("scales DOUBTFUL")
        return f"<HDSResult {self.settings.test} of {self.settings.n_dims} inputs: {', '.join(notes)}>"

    def _repr_html_(self) -> str:
        s, d = self.settings, self.diagnostics
        # That of finite differences is simulated, which takes too long for a summary.
        recovery = None if s.is_paired else f"{self.error_rates.recovery:.3g}, if {s.n_active} inputs matter or fewer"
        facts = {
            "active inputs": ", ".join(map(str, self.active)) or "none",
            "evaluations": f"{self.n_evaluations} of at most {s.budget}, {self.stopped}",
            "open nodes": ", ".join(self.undecided) or None,
            "contradicted nodes": ", ".join(self.contradicted) or None,
            "test": f"{s.test}, thresholds {s.accept:.3g} and {s.reject:.3g} nats",
            "declared recovery": recovery,
            "signal variance": f"{d.signal_variance:.3g} on the inputs found, {s.signal_variance:.3g} assumed",
            "noise variance": f"{d.noise_variance:.3g} on the inputs found, {s.noise_variance:.3g} assumed",
        }
        doubt = "Doubtful: the evaluations do not agree with the assumed scales, so inputs may be missed."
        remarks = [] if d.is_plausible else [doubt]
        return html_summary(f"HDSResult of {s.n_dims} inputs", facts, remarks=remarks)

    @cached_property
    def diagnostics(self) -> SearchDiagnostics:
        """Whether the evaluations agree with the Gaussian process that was assumed, on the inputs found."""
        settings, keep = self.settings, np.isfinite(self.history.y)
        U = settings.unscale(self.history.columns(self.active)[keep], self.active)
        return SearchDiagnostics(U, self.history.y[keep], settings, self.stopped == "decided")

    @property
    def llr(self) -> dict[str, list[np.ndarray]]:
        """Cumulative log likelihood ratios (nats) of each node's tests, by label: one path for each test."""
        paths: dict[str, list[np.ndarray]] = {}
        for trial in self.learner.trials:
            paths.setdefault(self.learner.nodes[trial.node].label, []).append(np.array(trial.path))
        return paths

    @property
    def error_rates(self) -> ErrorRates:
        """Error rates of a single test and of all, as far as f is a draw from the assumed Gaussian process."""
        return declared_error_rates(self.settings)

    def tree_table(self) -> pd.DataFrame:
        """One row for each node that was visited, indexed by its number.

        Returns
        -------
        DataFrame
            ``inputs`` (label), ``start``, ``stop``, ``depth``, ``parent`` (-1 for the root), ``status``, ``llr``
            (of the last test, nats), ``n_tests``, ``n_evaluations``.
        """
        learner = self.learner
        last: dict[int, float] = {}
        n_tests = np.zeros(len(learner.nodes), int)
        for trial in learner.trials:
            last[trial.node] = trial.llr
            n_tests[trial.node] += 1
        counts = np.bincount(self.history.node, minlength=len(learner.nodes)) if len(self.history) else 0 * n_tests
        table = pd.DataFrame(
            {
                "inputs": [node.label for node in learner.nodes],
                "start": [node.start for node in learner.nodes],
                "stop": [node.stop for node in learner.nodes],
                "depth": [node.depth for node in learner.nodes],
                "parent": [node.parent for node in learner.nodes],
                "status": [node.status for node in learner.nodes],
                "llr": [last.get(node.number, 0.0) for node in learner.nodes],
                "n_tests": n_tests,
                "n_evaluations": counts,
            }
        )
        table.index.name = "node"
        return table

    def data(self) -> tuple[np.ndarray, np.ndarray]:
        """Active inputs (n, d) and y (n,) of all evaluations that succeeded, told ones that nobody asked for included.

        Returns
        -------
        X, y : ndarray
            In the user's units; X has the columns of ``active``, where they were measured.
        """
        keep = np.isfinite(self.history.y)
        X = self.history.columns(self.active)[keep]
        told = [x[self.active] for x in self.learner._foreign_X]
        foreign = np.array(told).reshape(len(told), len(self.active))
        return np.concatenate([X, foreign]), np.concatenate([self.history.y[keep], self.learner._foreign_y])

    def to_model(self, **keywords: Any) -> GPModel:
        """An :func:`ard_gp` on the inputs found, holding all samples.

        Parameters
        ----------
        **keywords
            For :func:`ard_gp`. By default the mean is a constant, and the priors of the lengthscales, the output scale
            and the noise are Normal with sd 1 around the values that the search was given, on the log scale, in the
            user's units.

        Returns
        -------
        GPModel
            Its inputs are named by their numbers among the D.

        Raises
        ------
        ValueError
            If no active input was found.
        """
        import pymc as pm

        if not self.active:
            raise ValueError("no active input was found, so there is nothing to model")
        X, y = self.data()
        settings = self.settings
        width = np.broadcast_to(np.asarray(settings.high) - np.asarray(settings.low), settings.n_dims)[self.active]
        lengthscale = settings.bandwidth * width / np.sqrt(2)
        signal = np.sqrt(settings.signal_variance)
        defaults: dict[str, Any] = {"mean": "constant"}
        if "x_scale" not in keywords and "y_scale" not in keywords:
            defaults["priors"] = {
                "log_lengthscale": pm.Normal.dist(np.log(lengthscale), 1.0),
                "log_outputscale": pm.Normal.dist(np.log(signal), 1.0),
                "log_noise": pm.Normal.dist(0.5 * np.log(settings.noise_variance), 1.0),
            }
            if keywords.get("mean", "constant") == "constant":
                defaults["priors"]["mean_constant"] = pm.Normal.dist(float(np.mean(y)), 2 * signal)
        return ard_gp(pd.DataFrame(X, columns=self.active), y, **(defaults | keywords))

    def to_datatree(self) -> xr.DataTree:
        """Everything as ArviZ reads it.

        Returns
        -------
        xarray.DataTree
            ``observed_data`` (y) and ``constant_data`` (X of the active inputs; of all, up to ten million numbers) over
            ``obs``; ``design`` (node, test, background and place of each evaluation); ``tree``, the columns of
            :meth:`tree_table` over ``node``; ``llr``, the paths over ``test`` and ``observation``, NaN after their end.
        """
        history, learner = self.history, self.learner
        n, D = len(history), self.settings.n_dims
        constant = xr.Dataset({"X_active": (("obs", "active_input"), history.columns(self.active))})
        constant = constant.assign_coords(active_input=np.array(self.active, int))
        if n * D <= _LARGEST_STORED:
            constant["X"] = (("obs", "input"), history.X())
        columns = ("node", "trial", "background", "z", "rest")
        longest = max((len(trial.path) for trial in learner.trials), default=0)
        paths = np.full((len(learner.trials), longest), np.nan)
        for trial in learner.trials:
            paths[trial.number, : len(trial.path)] = trial.path
        table = self.tree_table()
        tree = xr.Dataset.from_dataframe(table.astype({"inputs": str, "status": str}))
        for name in ("inputs", "status"):
            tree[name] = ("node", table[name].to_numpy().astype(str))
        attrs = {
            "test": self.settings.test,
            "n_dims": D,
            "bandwidth": self.settings.bandwidth,
            "signal_variance": self.settings.signal_variance,
            "noise_variance": self.settings.noise_variance,
            "accept": self.settings.accept,
            "reject": self.settings.reject,
            "budget": self.settings.budget,
            "stopped": self.stopped,
            "fitted_signal_variance": self.diagnostics.signal_variance,
            "fitted_noise_variance": self.diagnostics.noise_variance,
            "is_plausible": int(self.diagnostics.is_plausible),
        }
        groups = {
            "observed_data": xr.Dataset({"y": ("obs", history.y)}),
            "constant_data": constant,
            "design": xr.Dataset({name: ("obs", getattr(history, name)) for name in columns}, attrs=attrs),
            "tree": tree,
            "llr": xr.Dataset(
                {
                    "llr": (("test", "observation"), paths),
                    "node": ("test", np.array([trial.node for trial in learner.trials], int)),
                }
            ),
        }
        return xr.DataTree.from_dict(groups)


def hds(
    f: Callable[[np.ndarray], Any],
    n_dims: int | None = None,
    *,
    model: GPModel | LaplaceFit | None = None,
    test: str = "anchored",
    bandwidth: Any = None,
    signal_variance: float | None = None,
    noise_variance: float | None = None,
    accept: float | None = None,
    reject: float | None = None,
    budget: int = 2000,
    recovery: float = 0.99,
    n_active: int = 4,
    share: float = 0.6,
    retest: bool | None = None,
    offset_variance: float = 0.0,
    bounds: Any = None,
    batch_size: int | None = None,
    random_seed: int | np.random.Generator | None = None,
) -> HDSResult:
    """Which inputs of f matter, by hierarchical diagonal sampling.

    Parameters
    ----------
    f : callable
        Takes (k, D), returns k values, noisy or not, of which NaN says that the evaluation failed.
    n_dims : int, optional
        D; by default the number of inputs of ``model``.
    model : GPModel or LaplaceFit, optional
        Where bandwidth, signal and noise variance are taken from unless given here; a model is fitted first. Of several
        lengthscales the shortest counts, since those of irrelevant inputs are long.
    test, bandwidth, signal_variance, noise_variance, accept, reject, budget, recovery, n_active, share, retest
        See :class:`HDSLearner`, which does the work and can be asked and told by hand.
    offset_variance, bounds, random_seed
        See :class:`HDSLearner`.
    batch_size : int, optional
        Evaluate so many points at once, on several nodes. By default what belongs together: scans and pairs.

    Returns
    -------
    HDSResult

    Raises
    ------
    EvaluationError
        If f raises or keeps returning NaN. Its ``learner`` holds everything evaluated so far and can go on.
    TypeError, ValueError
        As :class:`HDSLearner`, before anything is evaluated.

    Warns
    -----
    UserWarning
        If what was seen does not agree with the scales, see :attr:`HDSResult.diagnostics`: then inputs may be missed.

    References
    ----------
    .. [1] Chen, Castro & Krause (2012), Joint Optimization and Variable Selection of High-dimensional Gaussian
       Processes.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> def f(X):
    ...     return 2 * np.sin(5 * X[:, 3]) * np.cos(4 * X[:, 70]) + rng.normal(0, 0.1, len(X))
    >>> hds(f, 100, bandwidth=0.5, signal_variance=1.0, noise_variance=0.01, random_seed=1).active
    [3, 70]
    """
    if not callable(f):
        raise TypeError(f"f must be callable, taking (k, D) and returning (k,); got {type(f).__name__}")
    if model is not None:
        scales = scales_of_model(model, bandwidth)
        if n_dims is not None and n_dims != scales.n_dims:
            raise ValueError(f"model has {scales.n_dims} inputs, and n_dims is {n_dims!r}: leave n_dims out")
        n_dims = scales.n_dims
        bandwidth = scales.bandwidth if bandwidth is None else bandwidth
        signal_variance = scales.signal_variance if signal_variance is None else signal_variance
        noise_variance = scales.noise_variance if noise_variance is None else noise_variance
    if batch_size is not None and (not isinstance(batch_size, int | np.integer) or batch_size < 1):
        raise ValueError(f"batch_size must be a positive whole number; got {batch_size!r}")
    learner = HDSLearner(
        n_dims,  # type: ignore[arg-type]
        test=test,
        bandwidth=bandwidth,
        signal_variance=signal_variance,
        noise_variance=noise_variance,
        accept=accept,
        reject=reject,
        budget=budget,
        recovery=recovery,
        n_active=n_active,
        share=share,
        retest=retest,
        offset_variance=offset_variance,
        bounds=bounds,
        random_seed=random_seed,
    )
    learner.run(f, batch_size=batch_size)
    result = learner.result()
    result.diagnostics.warn()
    return result
