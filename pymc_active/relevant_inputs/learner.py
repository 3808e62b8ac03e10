"""The search for relevant inputs as a loop of asking and telling that can stop and go on."""

from __future__ import annotations

import os
from collections.abc import Callable
from copy import deepcopy
from typing import Any, Self

import numpy as np

from pymc_active.relevant_inputs.bisection import Bisection
from pymc_active.relevant_inputs.evaluations import EvaluationError, evaluate, keeping
from pymc_active.relevant_inputs.fdt import FDT
from pymc_active.relevant_inputs.gpt import GPT
from pymc_active.relevant_inputs.halving import Halving, Node, Points
from pymc_active.relevant_inputs.log import Log, Told
from pymc_active.relevant_inputs.settings import Settings, read_settings
from pymc_active.support.options import count
from pymc_active.support.summaries import Summarized, Summary
from pymc_active.support.tables import LARGEST, read_inputs, read_numbers
from pymc_active.support.threads import one_blas_thread
from pymc_active.support.user_warnings import RunWarning, warn_user

_REMEDY = "Nothing told is lost: go on with error.learner.run(f), or tell NaN for error.learner.pending to skip them."
# Points are the same if they differ by less, in every input and as a part of its interval: they went through a file or
# single precision.
_SAME = 1e-6
# A run ends after this number of failed evaluations in a row.
_MOST_FAILURES = 20
# The tests of nodes by name.
_TESTS: dict[str, Any] = {"fdt": FDT, "gpt": GPT}


class HDSLearner(Summarized):
    """Find which of very many inputs matter by hierarchical diagonal sampling, asking and telling.

    Sets of inputs are moved together. A set that changes f is split into halves, and a set that does not is dropped, so
    the number of evaluations grows with the logarithm of the number of inputs. ``HDSResult(learner)`` is what was found
    so far.

    Parameters
    ----------
    n_dims : int
        D, the number of inputs.
    test : {"bisection", "gpt", "fdt"}, optional
        ``"bisection"``, the default without scales, needs none and finds inputs of any function: between two points at
        which f differs it goes half way until a single input makes the difference, which new measurements confirm. It
        ends when dozens of pairs of points, the last that differ in all inputs not found, show no change.
        ``"gpt"`` and ``"fdt"`` are the paper's sequential tests of sets of inputs on a random background, by Gaussian
        processes and by finite differences. They trust the scales: f should resemble a draw of the process. With scales
        and without a name the test is ``"gpt"``, by default with ``retest``, ``check`` and an ``offset_variance`` of
        ten signal variances; with a name it is the paper's.
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
    recovery, n_active : float, int
        For the default thresholds: the probability of finding all active inputs and no others if f is a draw of the
        assumed Gaussian process, and a guess of how many inputs matter, rather high.
    retest : bool, optional
        If both halves of an active node, or the root, are rejected, test them on a new background.
    offset_variance : float, optional
        κ² of ``"gpt"``: prior variance of f's mean in both kernels. 0, as in the paper, is for outputs of mean 0.
    check : bool, optional
        After another test, bisect pairs of points that differ in all inputs not found, and add what makes f differ.
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
    >>> learner = HDSLearner(100, random_seed=1)
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
        test: str | None = None,
        bandwidth: Any = None,
        signal_variance: float | None = None,
        noise_variance: float | None = None,
        accept: float | None = None,
        reject: float | None = None,
        budget: int = 2000,
        recovery: float = 0.99,
        n_active: int = 4,
        retest: bool | None = None,
        offset_variance: float | None = None,
        check: bool | None = None,
        bounds: Any = None,
        random_seed: int | np.random.Generator | None = None,
    ):
        if test not in (None, "bisection", *_TESTS):
            raise ValueError(f"test must be one of bisection, {', '.join(_TESTS)}; got {test!r}")
        scales, levels = (bandwidth, signal_variance, noise_variance), (accept, reject, recovery, n_active)
        settings = read_settings(n_dims, bounds, test, scales, levels, (budget, retest, offset_variance, check))
        self._begin(Log(settings, int(np.random.default_rng(random_seed).integers(2**63))))

    def _begin(self, log: Log) -> None:
        self._log, self._has_warned, self._is_decided = log, False, False
        self._halving: Halving | None = None
        self._check: Bisection | None = None
        self._questions: Points | None = None
        # All points until the answers to the last block, from this number, are needed; and the answers by number.
        self._planned: list[np.ndarray] = []
        self._block, self._answers = 0, dict[int, float]()
        # How much of the log is among the answers.
        self._n_entered = 0
        self._advance()

    def _run(self) -> Points:
        """All points of the search, in turn."""
        settings, rng = self.settings, np.random.default_rng(self._log.seed)
        # After an interrupt nothing of what was found before may decide.
        self._halving = self._check = None
        if settings.test in _TESTS:
            test = _TESTS[settings.test](*settings.scales, settings.offset_variance)
            self._halving = Halving(settings, test, rng)
            yield from self._halving.run()
        if settings.check:
            noise = float(np.nan_to_num(settings.noise_variance))
            self._check = Bisection(settings.n_dims, self.recommend(), rng, noise)
            yield from self._check.run()

    def _nodes(self) -> list[Node]:
        """Those of the tests; and of the last check, all inputs, with those that it found below."""
        halving, check = self._halving, self._check
        nodes = list(halving.nodes) if halving else []
        if check:
            new = sorted({*check.found} - {*(halving.found if halving else [])})
            names = {None: "open", False: "contradicted", True: "active" if new else "inactive"}
            status = names[self._shows_nothing]
            root = Node(len(nodes), 0, self.settings.n_dims, status=status)
            nodes += [root, *(Node(root.number + k, i, i + 1, root, status="active") for k, i in enumerate(new, 1))]
        return nodes

    def _advance(self) -> None:
        """To the next block, if all answers to the last one are there. An interrupt at any line loses nothing."""
        self._enter()
        if self._is_decided or any(number not in self._answers for number in range(self._block, len(self._planned))):
            return
        # An error or an interrupt ends a generator: then another one begins with the first answer.
        questions, self._questions = self._questions, None
        try:
            with one_blas_thread():
                if questions is None:
                    questions, start = self._run(), 0
                    unit = next(questions)
                    size = len(unit)
                else:
                    start, size = self._block, len(self._planned) - self._block
                while start < len(self._planned):
                    unit = questions.send(np.array([self._answers[n] for n in range(start, start + size)]))
                    start, size = start + size, len(unit)
        except StopIteration:
            self._is_decided, self._block = True, len(self._planned)
            return
        new = list(self.settings.scale(unit))
        self._planned += new
        self._block, self._questions = len(self._planned) - len(new), questions

    def _enter(self) -> None:
        """Enter what the log has and the answers do not have yet."""
        told = self._log.told
        self._answers |= {one.number: one.y for one in told[self._n_entered :] if one.number >= 0}
        self._n_entered = len(told)

    @classmethod
    def _replay(cls, log: Log) -> Self:
        """The search that has this log: its answers determine all questions."""
        learner = cls.__new__(cls)
        learner._begin(log)
        for number, asked in enumerate(log.asked):
            if number >= len(learner._planned) or not np.array_equal(asked, learner._planned[number]):
                raise ValueError(
                    f"point {number} of the search is not the one that its answers lead to: the file is damaged, or of "
                    "another version or processor. What was measured is in it (xarray.open_datatree): tell it to a new "
                    "search, whose to_model takes it as data"
                )
            learner._advance()
        return learner

    def __reduce__(self) -> Any:
        return type(self)._replay, (deepcopy(self._log),)

    def _summary(self) -> Summary:
        facts = {
            "active so far": ", ".join(map(str, self.recommend())) or "none",
            "open nodes": ", ".join(node.label for node in self._nodes()[-20:] if node.status == "open") or "none",
            "evaluations": f"{self.n_evaluations} of at most {self.settings.budget}",
            "asked and not told yet": len(self._waiting) or None,
            "test": self.settings.test,
            "status": "finished" if self.is_finished else "goes on",
        }
        return Summary(f"HDSLearner of {self.settings.n_dims} inputs", facts)

    @property
    def settings(self) -> Settings:
        """What the search was given, checked."""
        return self._log.settings

    @property
    def n_evaluations(self) -> int:
        """Evaluations that were asked for and told, failed ones included."""
        return len(self._log.answers)

    @property
    def is_finished(self) -> bool:
        """Whether every visited node is decided, or the budget is used up."""
        return not self._waiting and (self._is_decided or len(self._log.asked) >= self.settings.budget)

    @property
    def _shows_nothing(self) -> bool | None:
        """What the last check says at its end; where the budget ends among its last pairs, those that there are."""
        check = self._check
        return check.shows_nothing if check and (check.is_finished or self.is_finished) else None

    def recommend(self) -> list[int]:
        """Inputs found active so far, sorted."""
        found = self._check or self._halving
        return list(found.found) if found else []

    def ask(self, n: int | None = None) -> np.ndarray:
        """The next points to evaluate, (k, D) in the user's units. They stay pending until told.

        There are at most ``n``, and as many as can be evaluated at once without loss: repeats, pairs, one evaluation of
        every open node. k = 0 if the next point depends on some that are pending, or when finished.
        """
        self._advance()
        asked, start = self._log.asked, len(self._log.asked)
        most = len(self._planned) if n is None else count("n", n)
        asked += self._planned[start : min(start + most, self.settings.budget)]
        return np.array(asked[start:]).reshape(-1, self.settings.n_dims)

    @property
    def _waiting(self) -> list[int]:
        """Numbers of the points asked for and not told yet; those of former blocks have been told."""
        self._enter()
        return [number for number in range(self._block, len(self._log.asked)) if number not in self._answers]

    @property
    def pending(self) -> np.ndarray:
        """Points asked for and not told yet, (k, D)."""
        return np.array([self._log.asked[number] for number in self._waiting]).reshape(-1, self.settings.n_dims)

    def tell(self, x: Any, y: Any, *, asked: Any = None) -> None:
        """Tell results. Wrong shapes, infinite y, or ``asked`` that is not pending: a ValueError, and nothing is told.

        Parameters
        ----------
        x : array_like, shape (k, D) or (D,)
            Points asked for, in any order, to within 1e-6 of every input's interval. Other points, unless told before,
            are only data for :meth:`HDSResult.to_model`; the first while others are pending is an RunWarning.
        y : array_like, shape (k,), or a number
            NaN says that the evaluation failed: it counts, and another point is asked in its place.
        asked : array_like, shape (k, D) or (D,), optional
            The pending points that x answers, if settings were rounded or missed. The tests take y for the value there,
            so x should be near; :meth:`HDSResult.to_model` gets the point measured.
        """
        log = self._log
        X = self._read_points(x, "x")
        values = read_numbers(y, "y")
        values = values.reshape(-1) if values.ndim < 2 else np.empty(0)
        if values.shape != (len(X),) or (np.abs(values) > LARGEST).any():
            raise ValueError(
                f"y must have one number for each of the {len(X)} row(s) of x, finite or NaN where the evaluation "
                f"failed, and at most {LARGEST:g} in size; got {y!r}"
            )
        places = X if asked is None else self._read_points(asked, "asked")
        if len(places) != len(X):
            raise ValueError(f"asked must have a row for each point told; got {len(places)} row(s) for {len(X)}")
        answered, waiting = self._find(places), self._waiting
        if None in answered and asked is not None:
            row = answered.index(None)
            raise ValueError(
                f"asked must be among the {len(waiting)} point(s) asked and not told yet, learner.pending; "
                f"row {row}, {np.array2string(places[row], threshold=5)}, is not"
            )
        if None in answered and waiting and not self._has_warned:
            self._has_warned = True
            warn_user(
                f"{answered.count(None)} of the point(s) told were not asked for, while {len(waiting)} others "
                "are pending: they enter no test. If they answer pending points, pass those as asked=",
                RunWarning,
            )
        # Told once more, they would pass for repeats without noise.
        known = {(told.point.tobytes(), told.y) for told in log.told} if None in answered else set()
        for point, value, number in zip(X, values.tolist(), answered, strict=True):
            if number is not None:
                is_elsewhere = asked is not None and self._distance(number, point) > _SAME
                log.told.append(Told(number, point.copy() if is_elsewhere else log.asked[number], value))
                self._advance()
            elif np.isfinite(value) and (point.tobytes(), value) not in known:
                log.told.append(Told(-1, point.copy(), value))
            known.add((point.tobytes(), value))

    def _read_points(self, x: Any, what: str) -> np.ndarray:
        return read_inputs(np.atleast_2d(read_numbers(x, what)), what, width=self.settings.n_dims)

    def _distance(self, number: int, point: np.ndarray) -> float:
        """Of a point from one asked for: the largest over the inputs, in parts of the input's interval."""
        settings = self.settings
        return float((np.abs(self._log.asked[number] - point) / (settings.high - settings.low)).max())

    def _find(self, X: np.ndarray) -> list[int | None]:
        """Numbers of the pending points that others answer, the nearest, each once; None for other points."""
        left = self._waiting
        found: list[int | None] = []
        for point in X:
            away = [self._distance(number, point) for number in left]
            found.append(left.pop(int(np.argmin(away))) if min(away, default=_SAME) < _SAME else None)
        return found

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
        self._advance()
        stop = self.settings.budget if n is None else self.n_evaluations + n
        n_failed = 0
        while self.n_evaluations < stop and not self.is_finished:
            try:
                X = self.pending if self._waiting else self.ask(batch_size)
                X = X[: stop - self.n_evaluations]
                y = evaluate(f, X, _REMEDY)
                # An answer that settles nothing is refused, or this would go on for ever.
                self.tell(X, y, asked=X)
            except (Exception, KeyboardInterrupt) as error:
                if (kept := keeping(self, error)) is error:
                    raise
                raise kept from error
            if save_to is not None:
                self.save(save_to)
            n_failed += int(np.isnan(y).sum())
            last = [told.y for told in self._log.answers[-_MOST_FAILURES:]]
            if len(last) == _MOST_FAILURES and np.isnan(last).all():
                raise keeping(self, EvaluationError(f"f returned NaN or infinity {_MOST_FAILURES} times in a row"))
        if n_failed:
            warn_user(
                f"f returned NaN or infinity at {n_failed} point(s); others were evaluated in their place. Inputs that "
                "only decide whether f fails are not looked for: a search of lambda X: numpy.isnan(f(X)) finds them",
                RunWarning,
            )

    def save(self, path: str | os.PathLike) -> None:
        """Write everything that :meth:`load` needs, bit for bit, as netCDF.

        An existing file is replaced once the new one is complete. ArviZ opens it; nothing in it can run code.
        FileNotFoundError without the folder, FileExistsError if the file holds a search that this learner neither wrote
        nor loaded.
        """
        self._log.save(path)

    @classmethod
    def load(cls, path: str | os.PathLike) -> Self:
        """The search of a file; ValueError for one of something else, of another version, or damaged."""
        return cls._replay(Log.load(path))
