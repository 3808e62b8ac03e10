"""The search for relevant inputs as a loop of asking and telling that can stop and go on."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Mapping
from typing import Any, Self

import numpy as np
import pandas as pd
import xarray as xr

from pymc_active.relevant_inputs.bisection import Bisection
from pymc_active.relevant_inputs.halving import FDT, GPT, Halving, Node
from pymc_active.relevant_inputs.settings import Settings, least_noise, read_box, relative_bandwidth, threshold
from pymc_active.spaces.space import Space, read_space
from pymc_active.support.files import Contents, read, write
from pymc_active.support.options import count, not_negative, positive
from pymc_active.support.tables import LARGEST, read_inputs, read_numbers, read_outputs
from pymc_active.support.threads import one_blas_thread
from pymc_active.support.user_warnings import ActiveError, RunWarning, warn_user

KIND = "pymc_active.active.HDSLearner"
FORMAT_VERSION = 5
# Points are the same if they differ by less, as a part of an input's interval: they went through single precision.
_SAME = 1e-6
# A run ends after this number of failed evaluations in a row.
_MOST_FAILURES = 20
# Prior variance of the mean of f, in signal variances, where nothing is known about it.
_OFFSET = 10.0
# The tests of nodes by name.
_TESTS: dict[str, Any] = {"fdt": FDT, "gpt": GPT}
_HINT = " (if f takes a single point, pass vectorized=False)"


class EvaluationError(ActiveError, RuntimeError):
    """The search cannot go on; ``learner``, an :class:`HDSLearner`, holds everything observed before, and can go on."""

    learner: Any = None


class EvaluationInterrupt(KeyboardInterrupt):
    """An interrupt with the ``learner`` of :class:`EvaluationError`; at a prompt, it is ``sys.last_value``."""

    learner: Any = None


def of_rows(f: Callable[[np.ndarray], Any], vectorized: bool) -> Callable[[np.ndarray], Any]:
    """A function of points (k, D): f, or if it is not ``vectorized``, f of one point (D,), or row, after another."""
    if not callable(f):
        raise TypeError(f"f must be callable, taking (k, D) and returning (k,); got {type(f).__name__}")
    # Iterating over a table gives names.
    each = lambda X: X if isinstance(X, np.ndarray) else [X[k : k + 1] for k in range(len(X))]  # noqa: E731
    return f if vectorized else lambda X: [float(np.asarray(f(x), float).reshape(())) for x in each(X)]


def evaluate(f: Callable[[np.ndarray], Any], X: np.ndarray) -> np.ndarray:
    """Values (k,) of f at points (k, D), NaN if an evaluation failed."""
    # A copy: an f that writes into it must not change what was asked.
    try:
        y = read_numbers(f(X.copy()), "what f returns")
    except IndexError as error:
        raise ValueError(f"f raised IndexError: {error}{_HINT}") from error
    values = np.atleast_1d(np.squeeze(y))
    if values.shape != (len(X),):
        shapes = f"shape ({len(X)},); got shape {y.shape}"
        raise ValueError(f"f must return one number for each row of x, {shapes}{_HINT}")
    return np.where(np.abs(values) <= LARGEST, values, np.nan)


class History:
    """Every evaluation that was told, in order: ``y`` (n,) is NaN where it failed."""

    def __init__(self, n_dims: int, points: list[np.ndarray], y: Iterable[float]):
        self._n_dims, self._points, self.y = n_dims, points, np.array(list(y), float)

    def X(self, rows: Any = slice(None), inputs: Any = slice(None)) -> np.ndarray:
        """Points in the user's units, or columns of a space, (k, D), of some evaluations, or some inputs of them."""
        rows, inputs = np.arange(len(self.y))[rows], np.arange(self._n_dims)[inputs]
        # Where there are very many inputs, a few of them take little memory.
        return np.array([self._points[row][inputs] for row in rows]).reshape(len(rows), len(inputs))

    def groups(self) -> dict[str, xr.Dataset]:
        """``observed_data`` (y) and ``constant_data`` (X) over ``obs``, as ArviZ reads them."""
        X = xr.Dataset({"X": (("obs", "input"), self.X())})
        return {"observed_data": xr.Dataset({"y": ("obs", self.y)}), "constant_data": X}


class HDSLearner:
    """Find which of very many inputs matter by hierarchical diagonal sampling, asking and telling.

    Sets of inputs are moved together; one that changes f is halved, another dropped. So evaluations grow with the
    logarithm of the number of inputs. ``HDSResult(learner)`` is what was found so far.

    Parameters
    ----------
    n_dims : int, or Space, dict or DataFrame
        D, the number of inputs; or a :class:`Space` without constraints, for a bisection. Points are then rows of a
        table, and inputs have names. Labels and steps move between random ones, and from the first to the last.
    test : {"bisection", "gpt", "fdt"}, optional
        ``"bisection"``, the default without scales, finds inputs of any function: between two points at which f differs
        it goes half way until a single input makes the difference. It ends when dozens of pairs of points that differ
        in all inputs not found show no change. ``"gpt"`` and ``"fdt"`` are the paper's sequential tests of sets of
        inputs on a random background, by Gaussian processes and by finite differences, and trust the scales. With
        scales and without a name the test is ``"gpt"``, by default with ``retest``, ``check`` and an
        ``offset_variance`` of ten signal variances; with a name it is the paper's.
    bandwidth : float or ndarray of shape (D,)
        The paper's b, **√2 times PyMC's** ``ls``, in units of the inputs. If b as a fraction of the input's interval
        differs between inputs, the smallest is used for all.
    signal_variance, noise_variance : float
        Variances of f and of the noise, in squared units of y. The noise may be 0: tests assume at least 1e-10 of the
        signal variance. A bisection needs none of the three; but if repeats agree and f is rough all the same, pass the
        ``noise_variance`` of changes that do not matter, or all inputs count.
    accept, reject : float, optional
        Thresholds of the log likelihood ratio in nats, accept > 0 > reject. By default those that find exactly the
        active inputs, up to four, with 99 % if f is a draw of the assumed Gaussian process. The paper tried 5, 10, 20
        and -5, -10, -20.
    budget : int
        Largest number of evaluations.
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
        n_dims: int | Space | Mapping[str, Any] | pd.DataFrame,
        *,
        test: str | None = None,
        bandwidth: Any = None,
        signal_variance: float | None = None,
        noise_variance: float | None = None,
        accept: float | None = None,
        reject: float | None = None,
        budget: int = 2000,
        retest: bool | None = None,
        offset_variance: float | None = None,
        check: bool | None = None,
        bounds: Any = None,
        random_seed: int | np.random.Generator | None = None,
    ):
        if test not in (None, "bisection", *_TESTS):
            raise ValueError(f"test must be one of bisection, {', '.join(_TESTS)}; got {test!r}")
        space = read_space(n_dims) if isinstance(n_dims, Space | Mapping | pd.DataFrame) else None
        if space is not None and (space.linear or space.functions):
            raise ValueError("inputs are moved together, which constraints of a space forbid: pass it without them")
        if space is not None and not (test in (None, "bisection") and bounds is bandwidth is signal_variance is None):
            raise ValueError("in a space leave out bounds, bandwidth, signal_variance and tests other than bisection")
        n_dims = len(space.variables) if space is not None else count("n_dims, the number of inputs,", n_dims)
        low, high = read_box(bounds, n_dims) if space is None else space.limits
        # What nobody chose must not be silently wrong: beyond the paper, it knows no mean and tests twice, is checked.
        is_careful, has_none = test is None, bandwidth is signal_variance is None
        test = test or ("bisection" if has_none else "gpt")
        offset = 0.0 if offset_variance is None else not_negative("offset_variance", offset_variance)
        noise = np.nan if noise_variance is None else not_negative("noise_variance", noise_variance)
        if test == "bisection" and has_none:
            relative, signal = np.nan, np.nan
        elif bandwidth is None or signal_variance is None or noise_variance is None:
            raise ValueError(
                "a test compares f with noise, so it needs bandwidth, signal_variance and noise_variance: pass all, or "
                "a fitted model as model=; or neither bandwidth nor signal_variance, for a bisection"
            )
        else:
            relative, signal = relative_bandwidth(bandwidth, low, high), positive("signal_variance", signal_variance)
            offset = _OFFSET * signal if is_careful and offset_variance is None else offset
            noise = least_noise(signal + offset, noise)
        # NumPy's numbers may have less precision.
        accept = threshold(n_dims) if accept is None else float(accept)
        reject = -threshold(n_dims) if reject is None else float(reject)
        if not (0 < accept < np.inf and -np.inf < reject < 0):
            raise ValueError(f"thresholds need accept > 0 > reject; got accept={accept!r}, reject={reject!r}")
        settings = Settings(
            *(n_dims, test, relative, signal, noise, accept, reject, count("budget", budget)),
            retest=is_careful if retest is None else bool(retest),
            offset_variance=offset,
            check=test == "bisection" or (is_careful if check is None else bool(check)),
            low=low,
            high=high,
            space=space,
        )
        self._begin(settings, int(np.random.default_rng(random_seed).integers(2**63)), {}, 0)

    def _begin(self, settings: Settings, seed: int, answers: dict[int, float], n_asked: int) -> None:
        """The search with these answers, by number of the question: with settings and seed they determine the next."""
        self.settings, self._answers = settings, answers
        # The paper's search, and the bisection, once they have begun.
        self.halving: Halving | None = None
        self.check: Bisection | None = None
        self._seed, self._n_asked, self._is_decided = seed, n_asked, False
        # All points until the answers to the last block, from this number, are needed, and what yields them.
        self._planned: list[np.ndarray] = []
        self._block = 0
        self._questions: Generator[np.ndarray, Any, None] | None = None
        # Of the files that the search has written or was loaded from, which saving may replace.
        self._revisions: set[str] = set()
        self._advance()

    def _search(self) -> Generator[np.ndarray, Any, None]:
        """All points of the search, in turn."""
        settings, rng = self.settings, np.random.default_rng(self._seed)
        # After an interrupt nothing of what was found before may decide.
        self.halving = self.check = None
        if settings.test in _TESTS:
            test = _TESTS[settings.test](
                settings.bandwidth, settings.signal_variance, settings.noise_variance, settings.offset_variance
            )
            self.halving = Halving(settings, test, rng)
            yield from self.halving.run()
        if settings.check:
            noise = float(np.nan_to_num(settings.noise_variance))
            self.check = Bisection(settings.n_dims, self.halving.found if self.halving else [], rng, noise)
            yield from self.check.run()

    def _advance(self) -> None:
        """Plan the points that the answers lead to. An interrupt at any line loses nothing."""
        start, stop = self._block, len(self._planned)
        if self._is_decided or not self._are_answered(start, stop):
            return
        # An error or an interrupt ends a generator: then another one begins with the first answer.
        questions, self._questions = self._questions, None
        if questions is None:
            questions, start, stop = self._search(), 0, 0
        try:
            with one_blas_thread():
                while self._are_answered(start, stop):
                    y = [self._answers[number] for number in range(start, stop)]
                    unit = questions.send(np.array(y) if y else None)
                    start, stop = stop, stop + len(unit)
                    if stop > len(self._planned):
                        self._planned += list(self.settings.scale(unit))
        except StopIteration:
            self._is_decided = True
        self._block, self._questions = start, questions

    def _are_answered(self, start: int, stop: int) -> bool:
        return self._answers.keys() >= set(range(start, stop))

    def __getstate__(self) -> dict[str, Any]:
        # A generator cannot be copied.
        return vars(self) | {"_questions": None}

    def __repr__(self) -> str:
        active = ", ".join(map(str, self.recommend())) or "none"
        spent = f"{self.n_evaluations} of at most {self.settings.budget} evaluations"
        return f"HDSLearner of {self.settings.n_dims} inputs, active so far: {active}; {spent}"

    @property
    def history(self) -> History:
        """Points in the user's units and their answers, in the order in which these were told."""
        return History(len(self.settings.low), [self._planned[k] for k in self._answers], self._answers.values())

    @property
    def n_evaluations(self) -> int:
        """Evaluations that were asked for and told, failed ones included."""
        return len(self._answers)

    @property
    def is_finished(self) -> bool:
        """Whether every visited node is decided, or the budget is used up."""
        return not self._waiting and (self._is_decided or self._n_asked >= self.settings.budget)

    def nodes(self, status: str) -> list[str]:
        """Labels, such as ``"24-31"``, of the sets of inputs that are ``"open"`` or ``"contradicted"``.

        For the last check, all inputs are open until it ends, and contradicted if an input not found changes f.
        """
        labels = [node.label for node in self.halving.nodes if node.status == status] if self.halving else []
        if self.check and status == {None: "open", False: "contradicted", True: None}[self.check.shows_nothing]:
            labels.append(Node(0, self.settings.n_dims).label if self.settings.space is None else "all inputs")
        return labels

    def recommend(self) -> list[Any]:
        """Inputs found active so far, sorted by number; in a space their names."""
        search, space = self.check or self.halving, self.settings.space
        found = search.found if search else []
        return [k if space is None else space.names[k] for k in found]

    def ask(self, n: int | None = None) -> Any:
        """The next points to evaluate, (k, D) in the user's units, or a table. They stay pending until told.

        There are at most ``n``, and as many as can be evaluated at once without loss: repeats, pairs, one evaluation of
        every open node. k = 0 if the next point depends on some that are pending, or when finished.
        """
        self._advance()
        start = self._n_asked
        most = len(self._planned) if n is None else count("n", n)
        self._n_asked = min(start + most, len(self._planned), self.settings.budget)
        return self.settings.shown(self._planned[start : self._n_asked])

    @property
    def _waiting(self) -> list[int]:
        """Numbers of the points asked for and not told yet; former blocks have been told."""
        return [number for number in range(self._block, self._n_asked) if number not in self._answers]

    @property
    def pending(self) -> Any:
        """Points asked for and not told yet, (k, D)."""
        return self.settings.shown([self._planned[number] for number in self._waiting])

    def tell(self, x: Any, y: Any) -> None:
        """Tell results. For wrong shapes, infinite y or a point that is not pending, a ValueError: nothing is told.

        Parameters
        ----------
        x : array_like, shape (k, D) or (D,), or table
            Points asked for, in any order, to within 1e-6 of every input's interval. If settings were rounded or
            missed, tell the points asked for: the search takes y for the value there.
        y : array_like, shape (k,), or a number
            NaN says that the evaluation failed: it counts, and another point is asked in its place.
        """
        inputs = getattr(self.settings.space, "inputs", None)
        points = np.atleast_2d(read_numbers(x, "x")) if inputs is None else x
        X = read_inputs(points, "x", width=self.settings.n_dims, inputs=inputs)
        values = read_outputs(np.atleast_1d(y), len(X), may_fail=True)
        waiting, width = self._waiting, self.settings.high - self.settings.low
        numbers: list[int] = []
        for row, point in enumerate(X):
            # The nearest that is left.
            away = [float((np.abs(self._planned[number] - point) / width).max()) for number in waiting]
            if min(away, default=np.inf) >= _SAME:
                raise ValueError(
                    f"x must be among the {len(self._waiting)} point(s) asked and not told yet, learner.pending; "
                    f"row {row}, {np.array2string(point, threshold=5)}, is not"
                )
            numbers.append(waiting.pop(int(np.argmin(away))))
        self._answers |= dict(zip(numbers, values.tolist(), strict=True))
        self._advance()

    def run(
        self,
        f: Callable[[Any], Any],
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
        most = None if batch_size is None else count("batch_size", batch_size)
        stop = self.settings.budget if n is None else self.n_evaluations + n
        n_failed = 0
        while self.n_evaluations < stop and not self.is_finished:
            try:
                X = self.pending if self._waiting else self.ask(most)
                X = X[: stop - self.n_evaluations]
                y = evaluate(f, X)
                self.tell(X, y)
                n_failed += int(np.isnan(y).sum())
                last = list(self._answers.values())[-_MOST_FAILURES:]
                if len(last) == _MOST_FAILURES and np.isnan(last).all():
                    raise ValueError(f"f returned NaN or infinity {_MOST_FAILURES} times in a row")
            except (Exception, KeyboardInterrupt) as error:
                kind = EvaluationInterrupt if isinstance(error, KeyboardInterrupt) else EvaluationError
                kept = kind(f"the search ended with {type(error).__name__} {error}. Nothing is lost: see error.learner")
                kept.learner = self
                raise kept from error
            if save_to is not None:
                self.save(save_to)
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
        settings = {name: np.asarray(value).tolist() for name, value in vars(self.settings).items() if name != "space"}
        if (space := self.settings.space) is not None:
            settings["space"] = space.to_json()
        numbers = {"design": xr.Dataset({"number": ("obs", np.array(list(self._answers), int))})}
        contents = Contents(
            self.history.groups() | numbers, {"settings": settings, "seed": self._seed, "n_asked": self._n_asked}
        )
        self._revisions.add(write(path, contents, KIND, FORMAT_VERSION, self._revisions))

    @classmethod
    def load(cls, path: str | os.PathLike) -> Self:
        """The search of a file; ValueError for one of something else, of another version, or damaged."""
        groups, document, revision = read(path, KIND, FORMAT_VERSION)
        learner = cls.__new__(cls)
        settings = document["settings"] | {name: np.array(document["settings"][name]) for name in ("low", "high")}
        space = Space.from_json(settings.pop("space")) if "space" in settings else None
        numbers, y = groups["design"]["number"].to_numpy(), groups["observed_data"]["y"].to_numpy()
        answers = dict(zip(numbers.tolist(), y.tolist(), strict=True))
        learner._begin(Settings(**settings, space=space), document["seed"], answers, document["n_asked"])
        X = groups["constant_data"]["X"].to_numpy()
        if document["n_asked"] > len(learner._planned) or not np.array_equal(learner.history.X(), X):
            raise ValueError(
                f"the points of {path} are not those that its answers lead to: the file is of another version or "
                "processor. What was measured is in it (xarray.open_datatree)"
            )
        learner._revisions = {revision}
        return learner
