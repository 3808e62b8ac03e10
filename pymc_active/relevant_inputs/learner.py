"""The search for relevant inputs as a loop of asking and telling that can stop and go on."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Self

import numpy as np

from pymc_active.relevant_inputs import saved
from pymc_active.relevant_inputs.by_name import node_test_of
from pymc_active.relevant_inputs.evaluations import MOST_FAILURES, EvaluationError, evaluate, keeping, warn_of_failures
from pymc_active.relevant_inputs.last_check import LastCheck
from pymc_active.relevant_inputs.settings import Settings, read_settings
from pymc_active.relevant_inputs.state import SAME, Evaluation, HDSState, Trial
from pymc_active.relevant_inputs.verdicts import NextTests, conclude
from pymc_active.support.arguments import checked
from pymc_active.support.options import count
from pymc_active.support.summaries import Summarized, Summary
from pymc_active.support.tables import read_inputs, read_numbers
from pymc_active.support.threads import one_blas_thread
from pymc_active.support.user_warnings import EvaluationWarning, warn_user

_REMEDY = "Nothing told is lost: go on with error.learner.run(f), or tell NaN for error.learner.pending to skip them."


def describe(settings: Settings) -> str:
    """The test and its thresholds, if it has any."""
    if settings.test == "bisection":
        return settings.test
    return f"{settings.test}, thresholds {settings.accept:.3g} and {settings.reject:.3g} nats"


class HDSLearner(Summarized):
    """Find which of very many inputs matter by hierarchical diagonal sampling, asking and telling.

    Sets of inputs are moved together. A set that changes f is split into halves, and a set that does not is dropped, so
    the number of evaluations grows with the logarithm of the number of inputs. ``HDSResult(learner)`` is what was found
    so far.

    Parameters
    ----------
    n_dims : int
        D, the number of inputs.
    test : {"anchored", "bisection", "gpt", "fdt"}, optional
        ``"bisection"``, the default without scales, needs none and finds inputs of any function: between two points at
        which f differs it goes half way until a single input makes the difference, which new measurements confirm. It
        ends when dozens of pairs of points, the last that differ in all inputs not found, show no change.
        ``"anchored"``, the default with scales, is more reliable than the paper's GP test ``"gpt"``, at a third of the
        cost: all nodes share the scan of a random diagonal of the box, and move away from it, mostly from where f is
        farthest from its mean. Contradictions are retested on another diagonal. A node whose sibling is active is set
        aside on little evidence, and a final test in ever new directions rejects all inputs not found at once. Then
        come the pairs of points of a bisection. With ``check=False`` a search takes half as many evaluations if f is
        smooth and noisy, but inputs of other functions may be missed without a warning.
        ``"gpt"`` and ``"fdt"`` are the paper's sequential tests on a random background.
    bandwidth : float or ndarray of shape (D,)
        The paper's b, **√2 times PyMC's** ``ls``, in units of the inputs. If b as a fraction of the input's interval
        differs between inputs, the smallest is used for all.
    signal_variance, noise_variance : float
        Variances of f and of the noise, in squared units of y. The noise of a simulator may be 0: at least 1e-10 of the
        signal variance is assumed, since covariances with less are singular to rounding. A bisection needs none
        of the three. If repeats agree and f is rough all the same, as simulators are, pass the ``noise_variance`` of
        changes that do not matter, or all inputs count.
    accept, reject : float, optional
        Thresholds of the log likelihood ratio in nats, accept > 0 > reject; 5 and -10 in the paper. By default those
        that keep ``recovery``.
    budget : int
        Largest number of evaluations.
    recovery : float
        Declared probability of finding all active inputs and no others.
    n_active : int
        A guess of how many inputs matter, rather high: for the default thresholds, the declared probability, and how
        quickly f changes along the diagonal of the anchored test.
    share : float
        For the anchored test: the part of f's variance, at most 1, that a relevant input should account for. 1 takes up
        to a fifth fewer evaluations, but misses inputs of functions that are like sums over more than two of them.
    retest : bool, optional
        If both halves of an active node, or the root, are rejected, test them on a new background. By default only with
        ``test="anchored"``; without retests it sets no node aside, at up to three times the cost.
    offset_variance : float
        κ² of ``test="gpt"``: prior variance of f's mean in both kernels; 0 in the paper, for outputs without an offset.
        Ten signal variances, with retests, cost a quarter more evaluations.
    check : bool, optional
        After another test, bisect pairs of points that differ in all inputs not found, and add what makes f differ. By
        default after the anchored test.
    bounds : (low, high) or list of (low, high)
        One interval for all inputs, by default [-1, 1] as in the paper, or one for each.
    random_seed : int or Generator, optional
        The same seed and answers give the same questions, bit for bit. By default fresh randomness.

    Raises
    ------
    TypeError, ValueError
        For scales that are missing or not positive (a noise variance may be 0), thresholds of the wrong sign, an
        unknown test, or malformed bounds.

    References
    ----------
    .. [1] Chen, Castro & Krause (2012), Joint Optimization and Variable Selection of High-dimensional Gaussian
       Processes, algorithm 1.

    Examples
    --------
    >>> import numpy as np
    >>> learner = HDSLearner(100, bandwidth=0.5, signal_variance=1.0, noise_variance=0.01, random_seed=1)
    >>> while not learner.is_finished:
    ...     x = learner.ask()
    ...     learner.tell(x, 2 * np.sin(4 * x[:, 17]))
    >>> learner.recommend()
    [17]
    """

    _check: LastCheck | None

    @checked
    def __init__(
        self,
        n_dims: int,
        *,
        test: str | None = None,
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
        check: bool | None = None,
        bounds: Any = None,
        random_seed: int | np.random.Generator | None = None,
    ):
        if test is None:
            test = "bisection" if bandwidth is signal_variance is None else "anchored"
        kind, scales = node_test_of(test), (bandwidth, signal_variance, noise_variance)
        levels = accept, reject, recovery
        retest, check = kind.retests if retest is None else retest, kind.checks if check is None else check
        settings = read_settings(
            n_dims, bounds, scales, levels, test, budget, n_active, share, retest, offset_variance, check
        )
        self._go_on_from(HDSState(settings, np.random.default_rng(random_seed)))
        root = self._state.add_node(0, settings.n_dims)
        if settings.test == "bisection":
            self._check = LastCheck(self._state)
        else:
            self._start(NextTests([root]))

    def _go_on_from(self, state: HDSState) -> None:
        self._state, self._test = state, node_test_of(state.settings.test)(state.settings)
        self._has_warned = False
        is_checking = state.check is not None and not state.check.is_finished
        self._check = LastCheck(state) if is_checking else None

    def __reduce__(self) -> Any:
        return type(self).from_state, (self.state(),)

    def _summary(self) -> Summary:
        labels = [trial.node.label for trial in self._state.open]
        if self._check and not self.is_finished:
            labels = ["the last check"]
        facts = {
            "active so far": ", ".join(map(str, self.recommend())) or "none",
            "open nodes": (", ".join(labels[:10]) or "none") + (f" of {len(labels)}" if len(labels) > 10 else ""),
            "evaluations": f"{self.n_evaluations} of at most {self.settings.budget}",
            "asked and not told yet": len(self._state.asked) or None,
            "test": describe(self.settings),
            "status": "finished" if self.is_finished else "goes on",
        }
        return Summary(f"HDSLearner of {self.settings.n_dims} inputs", facts)

    @property
    def settings(self) -> Settings:
        """What the search was given, checked."""
        return self._state.settings

    @property
    def n_evaluations(self) -> int:
        """Evaluations that were asked for and told, failed ones included."""
        return len(self._state.told)

    @property
    def is_finished(self) -> bool:
        """Whether every visited node is decided, or the budget is used up."""
        return not (self._state.asked or self._can_ask)

    @property
    def _can_ask(self) -> bool:
        state = self._state
        needed = 1 if state.queue else self._test.n_together
        return state.room >= needed and bool(state.queue or state.open)

    def recommend(self) -> list[int]:
        """Inputs found active so far, sorted."""
        return self._state.active()

    @checked
    def ask(self, n: int | None = None) -> np.ndarray:
        """The next points to evaluate, (k, D) in the user's units; k = 0 when finished. They stay pending until told.

        There are at most ``n``, and fewer if the budget ends or nothing is left to test. By default as many as belong
        together and lose nothing by being evaluated at once: a scan, repeats, a pair, or one point.
        """
        state, n_before = self._state, len(self._state.asked)
        most = state.room if n is None else count("n", n)
        with one_blas_thread():
            while len(state.asked) - n_before < most and self._can_ask:
                if not state.queue:
                    if n is None and len(state.asked) > n_before:
                        break
                    self._test.plan(state)
                state.asked.append(state.queue.pop(0))
        return state.points(state.asked[n_before:])

    @property
    def pending(self) -> np.ndarray:
        """Points asked for and not told yet, (k, D)."""
        return self._state.points(self._state.asked)

    def tell(self, x: Any, y: Any, *, asked: Any = None) -> None:
        """Tell results. Wrong shapes, infinite y, or ``asked`` that is not pending: a ValueError, and nothing is told.

        Parameters
        ----------
        x : array_like, shape (k, D) or (D,)
            Points asked for, in any order, to within 1e-6 of every input's interval. Other points, unless told before,
            are only data for :meth:`HDSResult.to_model`; the first while others are pending is an EvaluationWarning.
        y : array_like, shape (k,), or a number
            NaN says that the evaluation failed: it counts, and another point is asked in its place.
        asked : array_like, shape (k, D) or (D,), optional
            The pending points that x answers, if settings were rounded or missed. The tests take y for the value there,
            so x should be near; :meth:`HDSResult.to_model` gets the point measured.
        """
        state = self._state
        X = self._read_points(x, "x")
        values = read_numbers(y, "y")
        values = values.reshape(-1) if values.ndim < 2 else np.empty(0)
        if values.shape != (len(X),) or np.isinf(values).any():
            raise ValueError(
                f"y must have one number for each of the {len(X)} row(s) of x, finite or NaN where the evaluation "
                f"failed; got {y!r}"
            )
        answered = state.find_asked(X) if asked is None else self._find_pending(asked)
        if len(answered) != len(X):
            raise ValueError(f"asked must have a row for each point told; got {len(answered)} row(s) for {len(X)}")
        if None in answered and state.asked and not self._has_warned:
            self._has_warned = True
            warn_user(
                f"{answered.count(None)} of the point(s) told were not asked for, while {len(state.asked)} others are "
                "pending: they enter no test. If they answer pending points, pass those as asked=",
                EvaluationWarning,
            )
        known = state.told_before() if None in answered else set()
        with one_blas_thread():
            for point, value, at in zip(X, values, answered, strict=True):
                told = (point.tobytes(), float(value))
                if at is not None:
                    if asked is not None and state.distance(at, point) > SAME:
                        at.point = point.copy()
                    self._settle(at, float(value))
                elif np.isfinite(value) and told not in known:
                    state.foreign.append((point.copy(), float(value)))
                known.add(told)

    def _read_points(self, x: Any, what: str) -> np.ndarray:
        return read_inputs(np.atleast_2d(read_numbers(x, what)), what, width=self.settings.n_dims)

    def _find_pending(self, asked: Any) -> list[Evaluation | None]:
        """Evaluations of points that must all be pending."""
        X = self._read_points(asked, "asked")
        found = self._state.find_asked(X)
        if None in found:
            row = found.index(None)
            raise ValueError(
                f"asked must be among the {len(self._state.asked)} point(s) asked and not told yet, learner.pending; "
                f"row {row}, {np.array2string(X[row], threshold=5)}, is not"
            )
        return found

    def _settle(self, at: Evaluation, y: float) -> None:
        """Enter a result: from the evaluation to the ratio, its verdict, and the tests that follow."""
        state = self._state
        state.enter_result(at, y)
        if at.background is None:
            assert self._check is not None
            self._check.advance(state)
            return
        if np.isnan(y):
            self._test.replace(state, at)
        elif at.trial and at.trial.verdict == "open":
            verdict = self._test.update(state, at.trial, at)
            self._start(conclude(state, at.trial, verdict, self._test.set_aside()))
        self._test.advance(state, at.background)
        if state.settings.check and state.check is None and not (state.open or state.queue):
            self._check = LastCheck(state)

    def _start(self, tests: NextTests) -> None:
        """Open tests of some nodes."""
        state = self._state
        if not tests.nodes:
            return
        background = tests.background or self._test.new_background(state)
        for node in tests.nodes:
            state.trials.append(Trial(len(state.trials), node, background))
        if tests.background is None:
            self._test.begin(state, background)

    @checked
    def run(
        self,
        f: Callable[[np.ndarray], Any],
        n: int | None = None,
        *,
        batch_size: int | None = None,
        save_to: str | os.PathLike | None = None,
    ) -> None:
        """Evaluate f, as in :func:`hds`, until everything is decided, the budget is used up, or ``n`` times more.

        Pending points come first; ``batch_size`` points are evaluated at once, see :meth:`ask`. The search is saved to
        the path ``save_to`` after every answer: a run that was killed goes on from there. NaN is a warning at the end.

        Raises
        ------
        EvaluationError, EvaluationInterrupt
            If f raises or returns the wrong number of values, or after 20 failures in a row; if the user interrupts the
            search. What was told is kept: call ``run`` again, here or of the error's ``learner``.
        """
        if save_to is not None:
            self.save(save_to)
        stop = self.settings.budget if n is None else self.n_evaluations + n
        seen = [np.empty(0)]
        while self.n_evaluations < stop and not self.is_finished:
            with keeping(lambda: {"learner": self}):
                X = self.pending if self._state.asked else self.ask(batch_size)
                X = X[: stop - self.n_evaluations]
                seen.append(evaluate(f, X, _REMEDY))
                # An answer that settles nothing is refused, or this would go on for ever.
                self.tell(X, seen[-1], asked=X)
            if save_to is not None:
                self.save(save_to)
            if self._state.n_failures >= MOST_FAILURES:
                error = EvaluationError(f"f returned NaN or infinity {self._state.n_failures} times in a row")
                error.learner = self
                raise error
        warn_of_failures(np.concatenate(seen))

    def state(self) -> HDSState:
        """Everything needed to go on, as data of its own."""
        return self._state.copy()

    @classmethod
    def from_state(cls, state: HDSState) -> Self:
        """The learner in a given state; it asks the same next points, bit for bit."""
        learner = cls.__new__(cls)
        learner._go_on_from(state.copy())
        return learner

    def save(self, path: str | os.PathLike) -> None:
        """Write everything that :meth:`load` needs, bit for bit, as netCDF.

        An existing file is replaced once the new one is complete. ArviZ opens it; nothing in it can run code.
        FileNotFoundError without the folder, FileExistsError if the file holds a search that this learner neither wrote
        nor loaded.
        """
        saved.save(path, self._state)

    @classmethod
    def load(cls, path: str | os.PathLike) -> Self:
        """The search of a file; ValueError for one of something else, of another version, or damaged."""
        return cls.from_state(saved.load(path))
