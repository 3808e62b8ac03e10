"""The search for relevant inputs as a state machine: ask, tell, stop and go on."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from pymc_active.relevant_inputs.backgrounds import Background
from pymc_active.relevant_inputs.evaluation import (
    ASKED,
    FAILED,
    MOST_FAILURES,
    TOLD,
    Evaluation,
    EvaluationError,
    evaluate,
    warn_of_failures,
)
from pymc_active.relevant_inputs.fdt import fixed_sample_test
from pymc_active.relevant_inputs.gpt import GPTest
from pymc_active.relevant_inputs.saved_search import FORMAT_VERSION, KIND, to_contents, to_state
from pymc_active.relevant_inputs.settings import Settings, read_settings
from pymc_active.relevant_inputs.tree import Node, Trial
from pymc_active.support.files import read, read_generator, write, write_generator
from pymc_active.support.summaries import html_summary
from pymc_active.support.tables import read_inputs
from pymc_active.support.threads import one_blas_thread
from pymc_active.support.user_warnings import EvaluationWarning, warn_user

if TYPE_CHECKING:
    from pymc_active.relevant_inputs.search import HDSResult

# Places among which the GP test chooses; a fresh random set each time, so that ties are broken at random.
_PLACES = 64
# Indices so close are a tie: far from all data they differ by rounding only.
_TIE = 1e-6
# Points that differ by less, in every input and as a part of its interval, are the same: they went through a file or
# single precision.
_SAME = 1e-6
_GOLDEN = (math.sqrt(5) - 1) / 2
_STATE_VERSION = 1
_REMEDY = (
    "Nothing told is lost: go on with error.learner.run(f), or tell NaN for error.learner.pending to leave these "
    "points out."
)


class HDSLearner:
    """Hierarchical diagonal sampling: which of very many inputs matter, by asking and telling.

    Sets of inputs are moved together. A set that changes f is split into halves, a set that does not is dropped, so
    that evaluations grow like the logarithm of the number of inputs.

    Parameters
    ----------
    n_dims : int
        D, the number of inputs.
    test : {"anchored", "gpt", "fdt", "fdt_fixed"}
        ``"gpt"`` and ``"fdt"`` are the paper's sequential tests on a random background, ``"fdt_fixed"`` that of its
        proposition 3.1 with as many pairs for each node as exp(-accept) asks for. ``"anchored"`` is the GP test with
        what makes it cheaper and surer: a random diagonal of the box is scanned first, and all nodes share this scan. A
        node's inputs move away from it, mostly from the place where f is farthest from its mean, where a change is hard
        to miss. f's mean need not be 0, and contradictions are retested on another diagonal. Most rejections, which
        are what a search spends its evaluations on, are made at once: a node whose sibling is active is set aside on
        little evidence, and in the end all inputs that were not found are tested together, each time in new directions,
        since equal and opposite effects cancel along a diagonal. It is surer than ``"gpt"`` at a third of its cost.
    bandwidth : float or ndarray of shape (D,)
        The paper's b, **√2 times PyMC's** ``ls``, in units of the inputs. Where b as a fraction of the input's interval
        differs between inputs, the smallest is used for all.
    signal_variance, noise_variance : float
        Variances of f and of the noise, in squared units of y. The noise of a simulator may be 0: less than 1e-10 of
        the signal variance counts as that much, since covariances of less are singular to rounding.
    accept, reject : float, optional
        Thresholds of the log likelihood ratio, accept > 0 > reject, in nats; the paper has 5 and -10. By default those
        of :func:`thresholds` for ``recovery``.
    budget : int
        Most evaluations.
    recovery : float
        Declared probability of finding all active inputs and no others.
    n_active : int
        A guess of how many inputs matter, for the default thresholds, the declared probability, and how quickly f
        changes along the diagonal of the anchored test. Rather too many than too few.
    share : float
        Of the anchored test: the part of f's variance that a relevant input should account for, at most 1. With 1, as
        for a draw of the assumed process, it takes up to a fifth fewer evaluations, but misses inputs of functions that
        are like sums over more than two of them.
    retest : bool, optional
        When both halves of an active node, or the root, are rejected, test them again on a fresh background: the
        function may have been flat along this line by chance. By default with ``test="anchored"`` only, where without
        retests no node is set aside, and each is rejected by itself, at up to three times the cost.
    offset_variance : float
        κ² of ``test="gpt"``: prior variance of f's mean in both kernels. The paper has 0, for outputs without an
        offset; ten signal variances, with retests, cost a quarter more evaluations. The anchored test estimates the
        mean anyway.
    bounds : (low, high) or list of (low, high)
        One interval for all inputs, by default [-1, 1] as in the paper, or one for each.
    random_seed : int or Generator, optional
        The same seed and answers give the same questions, bit for bit.

    Raises
    ------
    TypeError, ValueError
        For scales that are missing or not positive (a noise variance may be 0), thresholds of the wrong sign, an
        unknown test, malformed bounds, or a budget smaller than one test.

    References
    ----------
    .. [1] Chen, Castro & Krause (2012), Joint Optimization and Variable Selection of High-dimensional Gaussian
       Processes, algorithm 1.

    Examples
    --------
    >>> learner = HDSLearner(100, bandwidth=0.5, signal_variance=1.0, noise_variance=0.01, random_seed=1)
    >>> while not learner.is_finished:
    ...     x = learner.ask()
    ...     learner.tell(x, 2 * np.sin(4 * x[:, 17]))
    >>> learner.recommend()
    [17]
    """

    def __init__(
        self,
        n_dims: int,
        *,
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
        random_seed: int | np.random.Generator | None = None,
    ):
        self.settings = read_settings(
            n_dims,
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
        )
        self._begin(np.random.default_rng(random_seed))
        self.nodes.append(Node(0, 0, self.settings.n_dims))
        self._try_node(0, self._new_background())

    def _begin(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self.nodes: list[Node] = []
        self.trials: list[Trial] = []
        self.backgrounds: list[Background] = []
        # In the order in which they were planned; "row" is a place in this list.
        self.evaluations: list[Evaluation] = []
        self._told: list[int] = []
        self._queue: list[int] = []
        self._asked: list[int] = []
        self._open: list[int] = []
        self._n_failures = 0
        self._foreign_X: list[np.ndarray] = []
        self._foreign_y: list[float] = []
        # Where it is not what was asked.
        self._measured: dict[int, np.ndarray] = {}
        self._has_warned = False

    def __repr__(self) -> str:
        status = "finished" if self.is_finished else f"{len(self._open)} node(s) open"
        return (
            f"<HDSLearner {self.settings.test}: {self.settings.n_dims} inputs, {self.n_evaluations} of at most "
            f"{self.settings.budget} evaluations, {len(self.recommend())} active so far, {status}>"
        )

    def _repr_html_(self) -> str:
        settings, unfinished = self.settings, [self.nodes[number].label for number in self._open]
        more = f" and {len(unfinished) - 10} more" if len(unfinished) > 10 else ""
        facts = {
            "active so far": ", ".join(map(str, self.recommend())) or "none",
            "open nodes": (", ".join(unfinished[:10]) or "none") + more,
            "evaluations": f"{self.n_evaluations} of at most {settings.budget}",
            "asked and not told yet": len(self._asked) or None,
            "test": f"{settings.test}, thresholds {settings.accept:.3g} and {settings.reject:.3g} nats",
            "status": "finished" if self.is_finished else "goes on",
        }
        return html_summary(f"HDSLearner of {settings.n_dims} inputs", facts)

    @property
    def n_evaluations(self) -> int:
        """Evaluations that were asked for and told, failed ones included."""
        return len(self._told)

    @property
    def is_finished(self) -> bool:
        """Whether every node that was visited is decided, or the budget is used up."""
        return not (self._asked or self._can_ask)

    @property
    def _can_ask(self) -> bool:
        # Half a pair would be wasted.
        needed = 1 if self._queue or not self.settings.is_paired else 2
        room = self.settings.budget - len(self._told) - len(self._asked)
        return room >= needed and bool(self._queue or self._open)

    def recommend(self) -> list[int]:
        """Inputs found active so far, sorted."""
        return sorted({node.start for node in self.nodes if node.size == 1 and node.status == "active"})

    def ask(self, n: int | None = None) -> np.ndarray:
        """The next points to evaluate.

        Parameters
        ----------
        n : int, optional
            At most so many; fewer only where the budget ends or nothing is left to test. By default as many as belong
            together and lose nothing by being evaluated at once: a scan, repeats, a pair, or one point.

        Returns
        -------
        ndarray, shape (k, D)
            In the user's units; k = 0 when finished. They stay asked for until they are told.
        """
        if n is not None and (not isinstance(n, int | np.integer) or isinstance(n, bool) or n < 1):
            raise ValueError(f"n must be a positive whole number; got {n!r}")
        rows: list[int] = []
        room = self.settings.budget - len(self._told) - len(self._asked)
        wanted = room if n is None else min(n, room)
        with one_blas_thread():
            while len(rows) < wanted and self._can_ask:
                if not self._queue:
                    if (rows and n is None) or not self._plan():
                        break
                rows.append(self._queue.pop(0))
                self.evaluations[rows[-1]].state = ASKED
                self._asked.append(rows[-1])
        return self._points(rows)

    @property
    def pending(self) -> np.ndarray:
        """Points asked for and not told yet, (k, D)."""
        return self._points(self._asked)

    def tell(self, x: Any, y: Any, *, asked: Any = None) -> None:
        """Tell results.

        Parameters
        ----------
        x : array_like, shape (k, D) or (D,)
            Points asked for, in any order. Each may differ from what was asked by 1e-6 of every input's interval, as
            after single precision. Others are kept as data for :meth:`HDSResult.to_model` and do not enter the tests;
            what was told before, with the same y, is not kept twice.
        y : array_like, shape (k,), or a number
            NaN says that the evaluation failed: it counts, and another point is asked in its place.
        asked : array_like, shape (k, D) or (D,), optional
            The pending points that these answer, where settings were rounded or missed. The tests take y for the value
            at the point asked, so that x should be near; :meth:`HDSResult.to_model` gets what was measured.

        Raises
        ------
        ValueError
            For wrong shapes or infinite y, or if ``asked`` is not pending; nothing is told then.

        Warns
        -----
        UserWarning
            Once, if a point is told that nobody asked for while others are pending.
        """
        X = self._read_points(x, "x")
        values = np.asarray(y, float).reshape(-1) if np.ndim(y) < 2 else np.empty(0)
        if values.shape != (len(X),) or np.isinf(values).any():
            raise ValueError(
                f"y must have one number for each of the {len(X)} row(s) of x, finite or NaN where the evaluation "
                f"failed; got {y!r}"
            )
        rows = self._find(X) if asked is None else self._find_pending(asked)
        if len(rows) != len(X):
            raise ValueError(f"asked must have a row for each point told; got {len(rows)} row(s) for {len(X)}")
        if None in rows and self._asked and not self._has_warned:
            self._has_warned = True
            warn_user(
                f"{rows.count(None)} of the point(s) told were not asked for, while {len(self._asked)} others are "
                "pending: they enter no test. If they answer pending points, pass those as asked=",
                EvaluationWarning,
            )
        known = self._known() if None in rows else set()
        with one_blas_thread():
            for point, value, row in zip(X, values, rows, strict=True):
                told = (point.tobytes(), float(value))
                if row is not None:
                    if asked is not None and self._distance(row, point) > _SAME:
                        self._measured[row] = point.copy()
                    self._settle(row, float(value))
                elif np.isfinite(value) and told not in known:
                    self._foreign_X.append(point.copy())
                    self._foreign_y.append(float(value))
                known.add(told)

    def _read_points(self, x: Any, what: str) -> np.ndarray:
        return read_inputs(np.atleast_2d(np.asarray(x, float)), what, width=self.settings.n_dims)

    def _distance(self, row: int, point: np.ndarray) -> float:
        """From the point of an evaluation, in parts of the input's interval, of the input that differs most."""
        return float((np.abs(self._point(row) - point) / (self.settings.high - self.settings.low)).max())

    def _find(self, X: np.ndarray) -> list[int | None]:
        """The evaluations asked for that points answer, the nearest, each once; None for other points."""
        left, found = list(self._asked), []
        for point in X:
            best, least = None, _SAME
            for row in left:
                distance = self._distance(row, point)
                if distance < least:
                    best, least = row, distance
                if distance == 0:
                    break
            if best is not None:
                left.remove(best)
            found.append(best)
        return found

    def _find_pending(self, asked: Any) -> list[int | None]:
        """As :meth:`_find`, for points that all must be."""
        X = self._read_points(asked, "asked")
        rows = self._find(X)
        if None in rows:
            row = rows.index(None)
            point = ", ".join(f"{value:g}" for value in X[row, :5]) + (", ..." if X.shape[1] > 5 else "")
            raise ValueError(
                f"asked must be among the {len(self._asked)} point(s) asked and not told yet, learner.pending; row "
                f"{row}, ({point}), is not"
            )
        return rows

    def _known(self) -> set[tuple[bytes, float]]:
        """Points and values told before: once more they would pass for repeats without noise."""
        points = [*self._points(self._told), *self._foreign_X]
        values = [*(self.evaluations[row].y for row in self._told), *self._foreign_y]
        return {(point.tobytes(), float(y)) for point, y in zip(points, values, strict=True)}

    def run(
        self,
        f: Callable[[np.ndarray], Any],
        n: int | None = None,
        *,
        batch_size: int | None = None,
        save_to: str | os.PathLike | None = None,
    ) -> None:
        """Evaluate f until everything is decided, the budget is used up, or ``n`` more evaluations were made.

        Parameters
        ----------
        f : callable
            Takes (k, D), returns (k,). Points asked before and never told are evaluated first.
        n : int, optional
        batch_size : int, optional
            Points evaluated at once, see :meth:`ask`.
        save_to : path, optional
            Where to :meth:`save` after every answer. A run that was killed goes on from there.

        Raises
        ------
        EvaluationError
            If f raises or returns the wrong number of values, or after 20 failures in a row. What was told is kept:
            call ``run`` again.

        Warns
        -----
        UserWarning
            Once, if f returned NaN somewhere.
        """
        stop = self.settings.budget if n is None else self.n_evaluations + n
        n_failed = 0
        while self.n_evaluations < stop and not self.is_finished:
            X = self.pending
            if not len(X):
                X = self.ask(batch_size)
            X = X[: stop - self.n_evaluations]
            try:
                y = evaluate(f, X, _REMEDY)
            except EvaluationError as error:
                error.learner = self
                raise
            n_failed += int(np.isnan(y).sum())
            # What settles nothing is refused, or this would go on for ever.
            self.tell(X, y, asked=X)
            if save_to is not None:
                self.save(save_to)
            if self._n_failures >= MOST_FAILURES:
                raise EvaluationError(f"f returned NaN or infinity {self._n_failures} times in a row", self)
        warn_of_failures(n_failed)

    def result(self) -> HDSResult:
        """What was found so far."""
        from pymc_active.relevant_inputs.search import HDSResult

        return HDSResult(self)

    # Planning

    def _add(self, trial: int, node: int, background: int, z: float, rest: float | None = None) -> int:
        row = len(self.evaluations)
        # Along the whole diagonal all inputs are at one place.
        z, rest = float(z), float(z if rest is None else rest)
        self.evaluations.append(Evaluation(trial, node, background, z, rest))
        self._queue.append(row)
        return row

    def _points(self, rows: list[int]) -> np.ndarray:
        """Points of evaluations in the user's units, (k, D)."""
        X = np.empty((len(rows), self.settings.n_dims))
        for i, row in enumerate(rows):
            X[i] = self._point(row)
        return X

    def _point(self, row: int, inputs: Any = slice(None)) -> np.ndarray:
        """Some inputs of one of them, as measured, or else as planned."""
        if row in self._measured:
            return self._measured[row][inputs]
        at = self.evaluations[row]
        columns = self.backgrounds[at.background].columns(self.nodes[at.node], at.z, at.rest, inputs)
        return self.settings.scale(columns, inputs)

    def _new_background(self) -> int:
        number, D = len(self.backgrounds), self.settings.n_dims
        if self.settings.test == "anchored":
            self.backgrounds.append(Background(is_reversed=self._rng.random(D) < 0.5, stage="scan"))
        else:
            self.backgrounds.append(Background(position=self._rng.random(D)))
        return number

    def _try_node(self, node: int, background: int) -> None:
        """A new test; an anchored background that is new is scanned."""
        trial = Trial(len(self.trials), node, background)
        self.trials.append(trial)
        self._open.append(trial.number)
        is_new = all(at.background != background for at in self.evaluations)
        if self.backgrounds[background].stage == "scan" and is_new:
            self._scan(background, self.settings.n_scan)

    def _scan(self, background: int, n: int) -> None:
        """Queue more places of a low-discrepancy sequence along the diagonal."""
        done = [at for at in self.evaluations if at.background == background]
        z = done[0].z + len(done) * _GOLDEN if done else self._rng.random()
        trial = next((t.number for t in self.trials if t.background == background and t.node == 0), -1)
        for k in range(n):
            self._add(trial, 0, background, (z + k * _GOLDEN) % 1.0)

    def _plan(self) -> bool:
        """Queue what to evaluate next; False if there is nothing."""
        if not self._open:
            return False
        busy = {self.evaluations[row].trial for row in self._asked}
        ready = [t for t in self._open if self._is_ready(t)]
        if not ready:
            self._plan_background(self.trials[self._open[0]].background)
            return True
        # Nodes with pending evaluations wait while there are others.
        trial = self._choose([t for t in ready if t not in busy] or ready)
        if self.settings.is_paired:
            for _ in range(self.settings.n_pairs):
                self._add_pair(trial.number, trial.node, trial.background)
        else:
            if trial.number in busy:
                self._choose_place(trial, [row for row in self._asked if self.evaluations[row].trial == trial.number])
            self._add(trial.number, trial.node, self._directions(trial), trial.place, trial.rest)
            trial.place = trial.rest = trial.priority = np.nan
        return True

    def _add_pair(self, trial: int, node: int, background: int) -> None:
        distance = self.settings.fdt.distance
        z = self._rng.uniform(0, 1 - distance)
        first, second = self._add(trial, node, background, z), self._add(trial, node, background, z + distance)
        self.evaluations[first].partner, self.evaluations[second].partner = second, first

    def _is_ready(self, number: int) -> bool:
        trial = self.trials[number]
        background = self.backgrounds[trial.background]
        if self.settings.test != "anchored":
            # All pairs of a fixed-sample test are planned at once.
            return self.settings.test != "fdt_fixed" or all(at.trial != number for at in self.evaluations)
        if trial.node == 0:
            return background.stage == "scan" and len(self._rows(trial.background)) >= self.settings.n_scan
        return background.stage == "ready"

    def _plan_background(self, number: int) -> None:
        """While a diagonal is not done, whoever wants more points gets more of the scan or of the repeats."""
        background = self.backgrounds[number]
        if background.stage == "repeat":
            self._add(-1, 0, number, background.anchor)
        elif background.stage == "scan":
            self._scan(number, 1)
        else:
            trial = next(t for t in self._open if self.trials[t].background == number)
            self._add_pair(trial, self.trials[trial].node, number)

    def _choose(self, numbers: list[int]) -> Trial:
        """The test with the largest log likelihood ratio, or upper confidence bound of it; ties at random."""
        trials = [self.trials[t] for t in numbers]
        if self.settings.is_paired:
            priority = np.array([trial.llr for trial in trials])
        else:
            for trial in trials:
                if np.isnan(trial.priority):
                    self._choose_place(trial)
            priority = np.array([trial.priority for trial in trials])
        best = np.flatnonzero(priority >= priority.max() - 1e-12)
        return trials[best[0] if len(best) == 1 else self._rng.choice(best)]

    def _choose_place(self, trial: Trial, pending: list[int] | None = None) -> None:
        """Where the upper confidence bound is largest, if pending evaluations come out as an active node predicts."""
        rows, y = self._data(trial)
        z, rest = self._at(rows)
        places = self._rng.random(_PLACES)
        rests = places
        if self._is_plane(trial):
            # Half of the places have the others at the anchor, half at any place of the scan.
            background = self.backgrounds[trial.background]
            elsewhere = self._rng.choice(self._at(background.rows)[0], _PLACES)
            places = np.concatenate([places, self._rng.random(_PLACES)])
            rests = np.concatenate([np.full(_PLACES, background.anchor), elsewhere])
        if pending:
            z_new, rest_new = self._at(pending)
            predicted = self._predict(trial, z, rest, y, z_new, rest_new)
            z, rest, y = (np.concatenate(pair) for pair in ((z, z_new), (rest, rest_new), (y, predicted)))
        if self._is_plane(trial):
            bound = self.settings.plane_test(y[0]).llr_moments(z, rest, y, places, rests).bound
        else:
            bound = self._line_test(trial).llr_moments(z, y, places).bound
        best = self._rng.choice(np.flatnonzero(bound >= bound.max() * (1 - _TIE)))
        trial.place, trial.rest, trial.priority = (
            float(places[best]),
            float(rests[best]),
            float(trial.llr + bound[best]),
        )

    def _predict(
        self, trial: Trial, z: np.ndarray, rest: np.ndarray, y: np.ndarray, z_new: np.ndarray, rest_new: np.ndarray
    ) -> np.ndarray:
        if self._is_plane(trial):
            return self.settings.plane_test(y[0]).predict(z, rest, y, z_new, rest_new)[1].mean
        return self._line_test(trial).predict(z, y, z_new)[1].mean

    def _is_plane(self, trial: Trial) -> bool:
        return self.settings.test == "anchored" and trial.node != 0

    def _line_test(self, trial: Trial) -> GPTest:
        return (
            self.settings.scan_test(self.evaluations[trial.rows[0]].y)
            if self.settings.test == "anchored"
            else self.settings.gpt
        )

    def _data(self, trial: Trial) -> tuple[list[int], np.ndarray]:
        """Rows and observations of a test, those of the diagonal that it shares with others first."""
        shared = self.backgrounds[trial.background].rows if self._is_plane(trial) else []
        rows = shared + trial.rows
        return rows, self._results(rows)

    def _results(self, rows: list[int]) -> np.ndarray:
        return np.array([self.evaluations[row].y for row in rows])

    def _at(self, rows: list[int]) -> tuple[np.ndarray, np.ndarray]:
        """Where a node's inputs and the others are."""
        evaluations = [self.evaluations[row] for row in rows]
        return np.array([at.z for at in evaluations]), np.array([at.rest for at in evaluations])

    # Learning

    def _settle(self, row: int, y: float) -> None:
        """One evaluation has come out."""
        self._asked.remove(row)
        self._told.append(row)
        at, is_failed = self.evaluations[row], bool(np.isnan(y))
        at.y, at.state = y, FAILED if is_failed else TOLD
        self._n_failures = self._n_failures + 1 if is_failed else 0
        if is_failed:
            self._replace(at)
        elif at.trial >= 0 and self.trials[at.trial].verdict == "open":
            self._update(self.trials[at.trial], row)
        if self.settings.test == "anchored":
            self._advance(at.background)

    def _replace(self, failed: Evaluation) -> None:
        """Ask for something else in the place of a failed evaluation, where the plan counts on it."""
        background = failed.background
        if self.settings.test == "anchored" and failed.node == 0:
            stage = self.backgrounds[background].stage
            if stage == "scan":
                self._scan(background, 1)
            elif stage == "repeat" and not self._is_busy(background):
                # The anchor itself was scanned without failure, and one observation will do.
                self._finish_anchor(background)
        elif self.settings.test == "fdt_fixed":
            self._add_pair(failed.trial, failed.node, background)

    def _update(self, trial: Trial, row: int) -> None:
        """The log likelihood ratio with one more evaluation, and what follows from it."""
        settings = self.settings
        if settings.is_paired:
            this, other = self.evaluations[row], self.evaluations[self.evaluations[row].partner]
            if other.state != TOLD:
                return
            trial.rows += [row, this.partner]
            trial.path.append(trial.llr + float(settings.fdt.llr(this.y - other.y)))
            if settings.test == "fdt_fixed":
                self._decide_fixed(trial)
                return
        else:
            trial.rows.append(row)
            trial.place = trial.rest = trial.priority = np.nan
            rows, y = self._data(trial)
            z, rest = self._at(rows)
            if self._is_plane(trial):
                path = self.settings.plane_test(y[0]).llr_path(z, rest, y)
            else:
                path = self._line_test(trial).llr_path(z, y)
            trial.path = path[len(rows) - len(trial.rows) :].cumsum().tolist()
            if settings.test == "anchored" and trial.node == 0 and len(trial.rows) < settings.n_scan:
                return
        if trial.llr >= settings.accept:
            self._decide(trial, True)
        elif trial.llr <= settings.reject or self._is_hopeless(trial):
            self._decide(trial, False)
        else:
            self._set_aside(trial)
        if not self._open:
            self._test_rest(trial.background)

    def _is_hopeless(self, trial: Trial) -> bool:
        """Whether other directions will tell more: where f is smooth and this diagonal flat, the ratio hardly moves."""
        is_scan = self.settings.test == "anchored" and trial.node == 0
        return is_scan and self.settings.retest and len(trial.rows) >= self.settings.longest_scan

    def _decide_fixed(self, trial: Trial) -> None:
        if len(trial.path) < self.settings.n_pairs:
            return
        y = self._results(trial.rows)
        alpha = float(np.exp(-self.settings.accept))
        statistic, threshold = fixed_sample_test(y[::2] - y[1::2], self.settings.noise_variance, alpha)
        self._decide(trial, statistic > threshold)

    def _close(self, trial: Trial, verdict: str) -> None:
        self._open.remove(trial.number)
        # What was planned for this test and not asked yet is not needed any more.
        self._queue = [row for row in self._queue if self.evaluations[row].trial != trial.number]
        trial.verdict = self.nodes[trial.node].status = verdict

    def _decide(self, trial: Trial, is_active: bool) -> None:
        self._close(trial, "active" if is_active else "inactive")
        node = self.nodes[trial.node]
        if is_active:
            if node.size > 1:
                self._split(node, trial.background)
            for number in list(self._open):
                self._set_aside(self.trials[number])
        elif node.number == 0:
            if self.settings.retest and not node.was_retested:
                node.was_retested, node.status = True, "open"
                self._try_node(0, self._new_background())
        elif node.parent >= 0:
            self._contradict(self.nodes[node.parent])

    def _split(self, node: Node, background: int) -> None:
        # A contradicted node that turns out active after all has its halves already.
        if not node.children:
            for start, stop in node.halves():
                node.children.append(len(self.nodes))
                half = Node(len(self.nodes), start, stop, node.number, node.depth + 1)
                half.without = half.has(node.without)
                self.nodes.append(half)
        self._try_halves(node, background)

    def _try_halves(self, node: Node, background: int) -> None:
        for child in node.children:
            is_empty = len(self.nodes[child].without) == self.nodes[child].size
            self.nodes[child].status = "inactive" if is_empty else "open"
            if not is_empty:
                self._try_node(child, background)

    def _contradict(self, parent: Node) -> None:
        """An active node whose halves are both rejected: one of the three verdicts is wrong."""
        halves = [self.nodes[child] for child in parent.children]
        if any(half.status in ("open", "active") for half in halves):
            return
        for half in halves:
            if half.status == "set aside":
                # The reason for it, an active sibling, has gone.
                trial = next(trial for trial in reversed(self.trials) if trial.node == half.number)
                trial.verdict = half.status = "open"
                self._open.append(trial.number)
                return
        if self.settings.retest and not parent.was_retested:
            parent.was_retested = True
            self._try_halves(parent, self._new_background())
            return
        parent.status = "contradicted"
        if parent.parent >= 0:
            self._contradict(self.nodes[parent.parent])

    # What was set aside

    def _set_aside(self, trial: Trial) -> None:
        """Spend no more on a node that is probably inactive, if its sibling explains that the parent is active."""
        node = self.nodes[trial.node]
        if trial.llr > self.settings.set_aside or node.parent < 0:
            return
        if any(self.nodes[child].status == "active" for child in self.nodes[node.parent].children):
            self._close(trial, "set aside")

    def _test_rest(self, background: int) -> None:
        """All inputs that were not found are one more node, whose rejection is that of all nodes set aside.

        So are all inputs where the root is not active, or contradicted: f may be flat along diagonals only.

        A rejection takes many times the evaluations of an acceptance, so that one for all saves most of them. If the
        rest is active it is searched like a root, and finds at least one input more, or is contradicted.
        """
        aside = [node for node in self.nodes if node.status == "set aside"]
        root = [node for node in self.nodes if node.parent < 0][-1]
        found = self.recommend()
        is_flat = root.number == 0 and root.status != "active" and self.settings.test == "anchored"
        is_due = is_flat or (aside and root.status == "active")
        if is_due and self.settings.retest and len(found) < self.settings.n_dims:
            self.nodes.append(Node(len(self.nodes), 0, self.settings.n_dims, without=found))
            self._try_node(len(self.nodes) - 1, background)
            return
        for node in aside:
            node.status = "active" if node.has(found) else "inactive"

    def _directions(self, trial: Trial) -> int:
        """The background of a test's next evaluation.

        Equal and opposite effects cancel along a diagonal. So the inputs of a node of the rest run in new directions,
        up or down, at each evaluation; the others stay on the diagonal that was scanned.
        """
        node = root = self.nodes[trial.node]
        while root.parent >= 0:
            root = self.nodes[root.parent]
        old = self.backgrounds[trial.background].is_reversed
        if old is None or root.number == 0 or node.size == 1:
            return trial.background
        is_reversed = old.copy()
        inputs = np.setdiff1d(np.arange(node.start, node.stop), node.without)
        is_reversed[inputs] = self._rng.random(len(inputs)) < 0.5
        self.backgrounds.append(Background(is_reversed=is_reversed))
        return len(self.backgrounds) - 1

    # Anchored backgrounds

    def _rows(self, background: int) -> list[int]:
        """Successful evaluations along the whole diagonal."""
        return [
            row
            for row in self._told
            if (at := self.evaluations[row]).background == background and at.node == 0 and at.state == TOLD
        ]

    def _is_busy(self, background: int) -> bool:
        return any(self.evaluations[row].background == background for row in (*self._asked, *self._queue))

    def _advance(self, number: int) -> None:
        """From the scan to the choice of the anchor, and from its repeats to the tests."""
        background = self.backgrounds[number]
        if background.stage == "ready" or self._is_busy(number):
            return
        rows = self._rows(number)
        root = next((t for t in self.trials if t.background == number and t.node == 0), None)
        if background.stage == "scan":
            is_wanted = (
                root is None
                or root.verdict == "active"
                or any(self.trials[t].background == number and t != root.number for t in self._open)
            )
            if len(rows) < self.settings.n_scan or not is_wanted:
                return
            y = self._results(rows)
            background.choose_anchor(self.settings.scan_test(y[0]), self._at(rows)[0], y)
            for _ in range(self.settings.n_repeats):
                self._add(-1, 0, number, background.anchor)
        else:
            self._finish_anchor(number)

    def _finish_anchor(self, number: int) -> None:
        self.backgrounds[number].rows, self.backgrounds[number].stage = self._rows(number), "ready"

    # Saving

    def save(self, path: str | os.PathLike) -> None:
        """Write everything that :meth:`load` needs to go on, bit for bit.

        Parameters
        ----------
        path : path
            netCDF; zarr if it ends in ``.zarr``. A file that is there stays as it is until the new one is complete.
            ArviZ opens it; nothing in it can run code.

        Raises
        ------
        FileNotFoundError
            If there is no such folder.
        ModuleNotFoundError
            For zarr where it is not installed.
        """
        write(path, to_contents(self), KIND, FORMAT_VERSION)

    @classmethod
    def load(cls, path: str | os.PathLike) -> Self:
        """The search of a file, which asks the same next points, bit for bit.

        Raises
        ------
        FileNotFoundError
        ValueError
            For a file of something else, of a newer version, or one that is damaged.
        """
        state = to_state(read(path, KIND, FORMAT_VERSION))
        try:
            return cls.from_state_dict(state)
        except (KeyError, TypeError) as error:
            raise ValueError(f"{path} is damaged: {error!r}") from error

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to go on, as arrays, lists, numbers and strings.

        Returns
        -------
        dict
            For :meth:`from_state_dict`; ``"generator"`` is the state of NumPy's bit generator.
        """
        settings = {k: v.copy() if isinstance(v, np.ndarray) else v for k, v in vars(self.settings).items()}
        D = self.settings.n_dims
        return {
            "version": _STATE_VERSION,
            "settings": settings,
            "generator": write_generator(self._rng),
            "nodes": [asdict(node) for node in self.nodes],
            "trials": [asdict(trial) for trial in self.trials],
            "backgrounds": [asdict(background) for background in self.backgrounds],
            "evaluations": {
                field.name: np.array([getattr(at, field.name) for at in self.evaluations])
                for field in fields(Evaluation)
            },
            "told": np.array(self._told, int),
            "queue": np.array(self._queue, int),
            "asked": np.array(self._asked, int),
            "open": np.array(self._open, int),
            "n_failures": self._n_failures,
            "foreign_X": np.array(self._foreign_X, float).reshape(-1, D),
            "foreign_y": np.array(self._foreign_y, float),
            "measured_rows": np.array(list(self._measured), int),
            "measured_X": np.array(list(self._measured.values()), float).reshape(-1, D),
        }

    @classmethod
    def from_state_dict(cls, state: dict[str, Any]) -> Self:
        """The learner that :meth:`state_dict` described; it asks the same next points, bit for bit."""
        if state.get("version") != _STATE_VERSION:
            raise ValueError(f"this state has version {state.get('version')!r}; version {_STATE_VERSION} is understood")
        learner = cls.__new__(cls)
        learner.settings = Settings(**state["settings"])
        learner._begin(read_generator(state["generator"]))
        learner.nodes = [Node(**_copied(node)) for node in state["nodes"]]
        learner.trials = [Trial(**_copied(trial)) for trial in state["trials"]]
        learner.backgrounds = [Background(**_copied(background)) for background in state["backgrounds"]]
        columns = {name: np.asarray(values).tolist() for name, values in state["evaluations"].items()}
        learner.evaluations = [
            Evaluation(**dict(zip(columns, row, strict=True))) for row in zip(*columns.values(), strict=True)
        ]
        for name in ("told", "queue", "asked", "open"):
            setattr(learner, f"_{name}", np.asarray(state[name], int).tolist())
        learner._n_failures = int(state["n_failures"])
        learner._foreign_X = list(np.asarray(state["foreign_X"], float).reshape(-1, learner.settings.n_dims).copy())
        learner._foreign_y = np.asarray(state["foreign_y"], float).tolist()
        if "measured_rows" in state:
            # Not in the first files.
            measured = np.asarray(state["measured_X"], float).reshape(-1, learner.settings.n_dims).copy()
            learner._measured = dict(zip(np.asarray(state["measured_rows"]).tolist(), measured, strict=True))
        return learner


def _copied(fields: dict[str, Any]) -> dict[str, Any]:
    """Lists and arrays of their own, so that two learners do not share them."""
    return {k: v.copy() if isinstance(v, list | np.ndarray) else v for k, v in fields.items()}
