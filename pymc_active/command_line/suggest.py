"""What to measure next, from tables and the file of the run, which holds a learner with the options in its notes."""

import os
import re
import sys
import warnings
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from pandas import DataFrame, Index, Series

import pymc_active as pma
from pymc_active import Learner
from pymc_active.command_line.tables import Table, is_empty, listing, read_measurements, read_table, same, spelled_as
from pymc_active.criteria.by_name import criterion_names
from pymc_active.spaces.variables import of_column
from pymc_active.support.locks import locked
from pymc_active.support.numbers import coordinate, plus_minus
from pymc_active.support.user_warnings import warn_if

# What the file of a run remembers, and no later call may change; which of the learner's notes are these options.
_REMEMBERED = (
    "target", "error", "id", "inputs", "bounds", "categorical", "constraint", "learn", "minimize", "criterion", "model",
    "noise", "outcome", "seed", "box",
)  # fmt: skip
_KEY = "command_line"
_LIKELIHOODS = {"measurement": "normal", "yesno": "bernoulli", "counts": "negative_binomial", "skewed": "warped"}
# With more inputs most lengthscales would stay at their prior, and a table is too wide to read (guesses).
_MANY, _SHOWN = 15, 6
# Advice of warnings that is about Python.
_PYTHON = re.compile(r"\. (Give the builder|If they are the answers, tell)")


def suggest(args: Namespace) -> None:
    """Do what the options say; an OSError, ValueError or ImportError, and nothing written, if one is wrong."""
    names: dict[int, str] = {}
    lock, remark = Path(f"{args.state}.lock"), f"waiting for another command that works on {args.state}"
    with _warnings_as_notes(names), locked(lock, lambda: _note(remark)):
        measured, candidates, before = _read(args)
        # No candidates for a box; without ids, equal rows are one.
        old = None if args.rebuild else before
        space = _space(args, measured, candidates) if old is None else old.space
        columns = args.inputs if space is None else list(space.inputs)
        pool = candidates.inputs(args.inputs, args.id, space) if candidates else DataFrame(columns=columns)
        pool = pool if args.id else pool[~pool.duplicated()]
        X, y, y_sd = read_measurements(measured, args.target, args.error, args.id, args.inputs, pool, space)
        others = [name for name in measured.cells if name not in {args.target, args.error, args.id, *args.inputs}]
        if candidates and others:
            others += [f"{name} of the candidates" for name in candidates.cells if name not in measured.cells]
        _note(f"inputs: {listing(args.inputs)}; columns left out: {listing(others) or 'none'}")
        learner = old if old is not None else _begin(args, X, y, y_sd, pool, space, before)
        names |= enumerate((_tell_new(learner, args, X, y, y_sd, pool) if learner is before else y).dropna().index)
        if args.forget_pending:
            learner.forget()
        n_open = len(learner.pending)
        counts = f"{y.count()} results, {y.isna().sum()} failures, {len(measured.cells) - len(y)} not measured yet"
        _note(f"{counts}; {n_open} open suggestion(s) (-n 0 shows them, --forget-pending gives them up)")
        if args.n > learner.n_left:
            raise ValueError(f"{learner.n_left} candidate(s) are left, not {args.n}: others are measured or open")
        asked = learner.ask(args.n) if args.n else learner.pending[:0]
        if len(asked) and args.bounds:
            # What is shown, and measured, is what is known to be open.
            learner.forget(asked)
            for k in range(len(asked)):
                learner.expect(_with_few_digits(asked.iloc[[k]], args.bounds, learner))
        learner.notes[_KEY] = {name: getattr(args, name) for name in _REMEMBERED}
        if args.rebuild and before is not None:
            os.replace(args.state, f"{args.state}.before")
        # Before anything is shown: what is about to be measured must be known to be open.
        learner.save(args.state)
        rows = _rows(args, learner, candidates, X.index)[n_open if args.n else 0 :]
        if len(rows):
            _show(args, learner, rows)
        if args.output and len(rows):
            sheet = rows.reindex(columns=measured.cells.columns, fill_value="").assign(**{args.target: ""})
            sheet.to_csv(args.output, sep=measured.separator.replace(r"\s+", "\t"), index=False)
            _note(f"{args.output} has these rows: fill in {args.target}, and add them to {measured.name}")
        if args.plot and learner.models:
            np.ravel(pma.plots.plot(learner))[0].figure.savefig(args.plot, dpi=150, bbox_inches="tight")


def _with_few_digits(x: DataFrame, bounds: Sequence, learner: Learner) -> DataFrame:
    """A point of a box, rounded to 1/200 to 1/2000 of each side, or less to be a new one that can be made."""
    taken = [row for part in (learner.X, learner.failures, learner.pending) for row in np.asarray(part).tolist()]
    for more in range(4):
        z = x.copy()
        for name, low, high in (one for one in bounds if len(one) == 3):
            z[name] = z[name].round(more - int(np.floor(np.log10((high - low) / 200)))).clip(low, high)
        for one in [one for one in learner.space.linear if one.is_equality] if learner.space else ():
            # The largest part is the rest.
            terms = {name: value * float(z[name].iloc[0]) for name, value in one.coefficients.items()}
            last = max(terms, key=lambda name: abs(terms[name]))
            z[last] = round((one.limit - sum(terms.values()) + terms[last]) / one.coefficients[last], 12)
        can_be = not learner.space or learner.space.can_be(_numbers(z, learner.space)).all()
        if can_be and z.to_numpy()[0].tolist() not in taken:
            return z
    return x


def _read(args: Namespace) -> tuple[Table, Table | None, Learner | None]:
    """Both tables and the run, and the inputs among the options; raises if anything is wrong or not to be written."""
    measured = read_table(args.measurements, args.decimal)
    measured.column(args.target, "--target")
    if args.error:
        measured.column(args.error, "--error")
    for path in filter(None, (args.output, args.plot, args.state)):
        if Path(path).resolve() in [Path(table).resolve() for table in (args.measurements, args.candidates or "")]:
            raise ValueError(f"{path} is a table that is read: give the result another name")
    if args.output and Path(args.output).exists():
        sheet = read_table(args.output, args.decimal)
        if not is_empty(sheet.column(args.target, "it is no sheet of suggestions, name another --output")).all():
            raise ValueError(f"{args.output} holds results: move them to the measurements, or name another --output")
    of_maximum = {*criterion_names("maximum"), "expected_improvement", "upper_confidence_bound"}
    if args.learn != "maximum" and (args.minimize or args.criterion in of_maximum):
        raise ValueError(f"{'--minimize' if args.minimize else args.criterion} needs --learn maximum as well")
    candidates = read_table(args.candidates, args.decimal) if args.candidates else None
    before = _load(args.state) if Path(args.state).exists() else None
    old = {} if before is None or args.rebuild else before.notes[_KEY]
    args.inputs, args.box = args.inputs or old.get("inputs") or _inputs(args, measured, candidates), old.get("box")
    if len({args.target, args.id, *args.inputs}) < 2 + len(args.inputs):
        raise ValueError("--target, --id and each input must be a different column, named once")
    if changed := [f"--{name} {old[name]}" for name in old if getattr(args, name) != old[name]]:
        advice = "repeat its options, name another --state, or begin again from the tables with --rebuild"
        raise ValueError(f"{args.state} was begun with {' and '.join(changed)}: {advice}")
    return measured, candidates, before


def _inputs(args: Namespace, measured: Table, candidates: Table | None) -> list[str]:
    """Names of the inputs: of the box, or else the columns, not empty, that both tables share."""
    if candidates is None:
        return [name for name, *_ in (*args.bounds, *(args.categorical or ()))]
    filled = [name for name in candidates.cells if not is_empty(candidates.cells[name]).all()]
    no_input = {args.target, args.error, args.id}
    if shared := [name for name in filled if name in measured.cells and name not in no_input]:
        return shared
    raise ValueError(f"{candidates.name} shares no inputs with {measured.name}, of {listing(measured.cells, 12)}")


def _space(args: Namespace, measured: Table, candidates: Table | None) -> pma.Space | None:
    """The space of inputs that are more than numbers between two ends; None if all are just these."""
    labels = dict((name, levels) for name, *levels in args.categorical or ())
    if candidates is None:
        if not labels and not args.constraint and all(len(one) == 3 for one in args.bounds):
            return None
        numbers = {name: pma.Steps(*ends) if len(ends) == 3 else tuple(ends) for name, *ends in args.bounds}
        return pma.Space(numbers | labels, args.constraint or ())
    if args.constraint:
        raise ValueError("--constraint is for --bounds: candidates are what can be made")
    names = candidates.labels([name for name in args.inputs if name not in labels])
    names |= {name: set(candidates.column(name, "--categorical")) for name in labels}
    if not names:
        return None
    done = measured.cells[~is_empty(measured.column(args.target, "--target"))]
    for name in names.keys() & done.columns:
        if more := sorted(set(spelled_as(done[name], names[name])) - names[name] - {""}):
            _note(f"{name} {listing(more)}: measured, but of no candidate")
            names[name] |= set(more)
    numbers = candidates.numbers([name for name in args.inputs if name not in names], "input")
    return pma.Space({n: sorted(names[n]) if n in names else of_column(n, numbers[n]) for n in args.inputs})


def _begin(
    args: Namespace, X: DataFrame, y: Series, y_sd: np.ndarray, pool: DataFrame, space: pma.Space | None,
    before: Learner | None,
) -> Learner:  # fmt: skip
    """A learner of a new run; while results do not differ, it asks for the points of a first design."""
    ends = DataFrame({name: end[:2] for name, *end in args.bounds}) if args.bounds else pool
    low, high = ends.min().to_numpy(), ends.max().to_numpy()
    args.box = np.column_stack([low, np.where(high > low, high, low + np.maximum(np.abs(low), 1.0))]).tolist()
    where: dict[str, Any] = {"criterion": args.criterion, "minimize": args.minimize, "random_seed": args.seed}
    where |= {} if space is None else {"space": space}
    if not args.bounds:
        where["pool"] = pool if space is None else space.decode(pool.to_numpy()).set_index(pool.index)
    elif space is None:
        where["bounds"] = dict(zip(args.inputs, args.box, strict=True))
    worked, is_early = y.notna().to_numpy(), y.nunique() < 2
    results = X[worked], y[worked].to_numpy(), y_sd[worked]
    models = (lambda X, y: _models(args, X, y, space=space)) if is_early else _models(args, *results, space=space)
    learner = Learner(models, args.learn, **where)
    for rows in (worked & is_early, ~worked):
        if rows.any():
            errors = y_sd[rows] if y_sd.any() else None
            learner.tell(X[rows], y[rows].to_numpy(), y_sd=errors, failed=y[rows].isna().to_numpy())
    # What is open stays open, except for what was measured meanwhile and former candidates.
    pending = DataFrame() if before is None else before.pending
    for k, label in enumerate(pending.index):
        has_id, x = args.id is not None and label in pool.index, pending.iloc[[k]]
        if not (label in X.index if has_id else _numbers(x, space)[0].tolist() in X.to_numpy().tolist()):
            with suppress(ValueError):
                learner.expect(pool.loc[[label]] if has_id else x)
    return learner


def _numbers(X: Any, space: pma.Space | None) -> np.ndarray:
    return np.asarray(X if space is None else space.encode(X))


def _models(
    args: Namespace, X: DataFrame, y: np.ndarray, y_sd: np.ndarray | None = None, space: pma.Space | None = None
) -> Any:
    """One model, or a dict of several."""
    made: dict[str, Any] = {}
    for name in args.model or ["ard" if len(args.inputs) <= _MANY or space is not None else "embedding"]:
        data = X, Series(y, X.index, name=args.target)
        how: dict[str, Any] = {"bounds": args.box} if space is None else {"space": space}
        how |= {"y_sd": y_sd if y_sd is not None and y_sd.any() else None, "likelihood": _LIKELIHOODS[args.outcome]}
        how["priors"] = None if args.noise is None else {"noise": args.noise}
        if name == "ard":
            made[name] = pma.ard_gp(*data, **how)
        elif name == "embedding":
            made[name] = pma.embedding_gp(*data, n_components=min(2, X.shape[1]), **how)
        else:
            kernel = re.sub(r"\[([^]]+)\]", lambda k: f"[{[*X].index(k[1])}]" if k[1] in X else k[0], name)
            made[name] = pma.composite_gp(*data, kernel, **how)
    return made if len(made) > 1 else made.popitem()[1]


def _tell_new(learner: Learner, args: Namespace, X: DataFrame, y: Series, y_sd: np.ndarray, pool: DataFrame) -> Series:
    """Tell what is new in the table; results in the order told, or a ValueError if old rows have changed."""
    if args.candidates and not np.array_equal(pool, np.asarray(learner.domain.pool)):
        raise ValueError(f"{args.candidates} is not what {args.state} knows: restore it, or pass --rebuild")
    points = [_numbers(part, learner.space) for part in (learner.X, learner.failures)]
    told = np.column_stack([points[0], learner.y_sd, learner.y]).tolist()
    told += [[*x, 0.0, np.nan] for x in points[1]]
    now, order, problems = np.column_stack([X, y_sd, y]), [], []
    for one in told:
        order.append(next((row for row in np.flatnonzero(same(now, one)).tolist() if row not in order), None))
    new = [row for row in range(len(now)) if row not in order]
    for one in (one for one, row in zip(told, order, strict=True) if row is None):
        changed = [row for row in new if same(now[[row], :-2], one[:-2])]
        gone = f"the row at {_place(one[:-2], pool)} is gone"
        is_now = f"{y.index[changed[0]]} has {y.iloc[changed[0]]:.6g}" if changed else gone
        error = f" ± {one[-2]:.6g}" if args.error else ""
        problems.append(f"{is_now}, where {args.target} was {one[-1]:.6g}{error}".replace("nan", "failed"))
    if problems:
        what = f"{args.measurements} is not what {args.state} knows: {'; '.join(problems[:5])}"
        raise ValueError(f"{what}. Undo this, or begin again from the tables with --rebuild")
    if new:
        failed = y.iloc[new].isna().to_numpy()
        learner.tell(X.iloc[new], y.iloc[new].to_numpy(), y_sd=y_sd[new] if y_sd.any() else None, failed=failed)
    return y.iloc[[*order, *new]]


def _rows(args: Namespace, learner: Learner, candidates: Table | None, measured: Index) -> DataFrame:
    """The cells of all open suggestions, by label."""
    if candidates is None:
        written = lambda x: repr(float(x)).removesuffix(".0").replace(".", args.decimal)  # noqa: E731
        return learner.pending.map(lambda x: x if isinstance(x, str) else written(x))
    labels: list = []
    # Of equal rows, which are one to the learner, those whose id was not measured.
    left = DataFrame(learner.domain.pool, learner.domain.labels)
    left = left[~left.index.isin(measured)] if args.id else left
    for x in _numbers(learner.pending, learner.space):
        labels.append(next(one for one in left.index[(left == x).all(axis=1)] if one not in labels))
    return candidates.cells.set_axis(candidates.cells[args.id] if args.id else candidates.cells.index).loc[labels]


def _show(args: Namespace, learner: Learner, rows: DataFrame) -> None:
    """Print the last ones of the open suggestions."""
    shown = rows[args.inputs if len(args.inputs) <= _SHOWN else []].copy()
    if learner.models:
        prediction = pma.predict(learner.fit, learner.pending.iloc[-len(rows) :])
        pairs = zip(prediction.f_mean.to_numpy(), np.sqrt(prediction.y_variance.to_numpy()), strict=True)
        if args.outcome == "yesno":
            shown[f"probability of {args.target}"] = [f"{p:.2f}" for p, _ in pairs]
        else:
            shown[f"predicted {args.target} ± 1 sd"] = [plus_minus(*pair, digits=2) for pair in pairs]
    print(shown.to_string(index=args.bounds is None, index_names=False))


def report(state: str) -> None:
    """Print what a run knows, in the user's units; a ValueError for a foreign or damaged file."""
    with _warnings_as_notes({}):
        learner = _load(state)
        args, pool = Namespace(**learner.notes[_KEY]), learner.pending if learner.domain.is_pool else DataFrame()
        print(f"{Path(state).name}: --target {args.target} --learn {args.learn}{' --minimize' * args.minimize}")
        print(f"{len(learner.y)} results, {len(learner.failures)} failures")
        print("open:", listing((_place(x, pool) for x in learner.pending.to_numpy()), 20) or "nothing")
        if learner.models and args.learn == "maximum":
            print(learner.optimum())
        elif learner.models and learner.criterion is not None:
            print("the best candidate scores {:.3g} {} by {}".format(*learner.best_score(), learner.criterion_name))
        fit: Any = learner.fit if learner.models else "predictions begin when the first design is measured"
        print(fit)
        for text in pma.advise(getattr(fit, "best", fit)) if learner.models else ():
            warn_if(text)


def _load(state: str) -> Learner:
    """The learner of a file; a ValueError if the command line did not begin it."""
    options = Namespace()
    try:
        # Runs without a model yet need the function that makes it.
        learner = Learner.load(state, model=lambda X, y: _models(options, X, y, space=options.space))
        vars(options).update(learner.notes[_KEY], space=learner.space)
    except (KeyError, TypeError):
        raise ValueError(f"{Path(state).name} was begun in Python: go on there, or name another file") from None
    return learner


def _place(x: Sequence[Any], pool: DataFrame) -> str:
    """The label of a candidate, or else coordinates."""
    if len(pool) and len(rows := pool.index[(pool == x).all(axis=1)]):
        return str(rows[0])
    return f"({listing((coordinate(one) if isinstance(one, int | float) else str(one) for one in x), 4)})"


def _note(text: str) -> None:
    print(f"note: {text}", file=sys.stderr)


@contextmanager
def _warnings_as_notes(names: Mapping[int, str]) -> Iterator[None]:
    """Print warnings as notes, once each; y[k] in a warning is the k-th result, whose name in the table it gets."""

    def show(message: Any, *_: Any, **__: Any) -> None:
        text = re.sub(r"\by\[(\d+)\]|\brow (\d+) of X\b", lambda m: names.get(int(m[1] or m[2]), m[0]), str(message))
        _note(_PYTHON.split(text)[0].replace("tell NaN", "write 'failed'"))

    with warnings.catch_warnings():
        warnings.simplefilter("default", UserWarning)
        warnings.showwarning = show
        yield
