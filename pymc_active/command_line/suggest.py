"""What to measure next, from tables and the file of the run; and what the run knows by now.

The file holds a learner, with the options in its notes. By its values the table is compared with what was told before.
"""

from __future__ import annotations

import os
import re
import sys
import warnings
from argparse import Namespace
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import pymc_active as pma
from pymc_active.command_line.tables import Measurements, Table, is_empty, listing, read_measurements, read_table, same
from pymc_active.criteria.by_name import criterion_names
from pymc_active.support.locks import locked
from pymc_active.support.numbers import coordinate, plus_minus

# What the file of a run remembers, and no later call may change; which of the learner's notes are these options.
_REMEMBERED = ("target", "id", "inputs", "bounds", "learn", "minimize", "criterion", "model", "noise", "seed", "box")
_KEY = "command_line"
# With more inputs most lengthscales would stay at their prior, and a table is too wide to read (guesses).
_MANY, _SHOWN = 15, 6
# Advice of warnings that is about Python.
_PYTHON = re.compile(r"\. (If it is a slip, learner|Make output_map|If they are the answers, tell)")


def suggest(given: Namespace) -> None:
    """Do what the options say; an OSError, ValueError or ImportError, and nothing written, if one is wrong."""
    names: dict[int, str] = {}
    place = Path(given.state or "run").resolve()
    busy = locked(place.with_name(f".{place.name}.suggest.lock"), lambda: _note(f"waiting for another {place.name}"))
    with _warnings_as_notes(names), busy if given.state else nullcontext():
        measured, candidates, before = _read(given)
        # No candidates for a box; without ids, equal rows are one.
        pool = candidates.inputs(given.inputs, given.id) if candidates else pd.DataFrame(columns=given.inputs)
        pool = pool if given.id else pool[~pool.duplicated()]
        now, waiting = read_measurements(measured, given.target, given.id, given.inputs, pool)
        failed = [name for name, y in zip(now.names, now.y, strict=True) if np.isnan(y)]
        names |= dict(enumerate(name for name in now.names if name not in failed))
        others = [name for name in measured.cells if name not in {given.target, given.id, *given.inputs}]
        notes = {"inputs": given.inputs, "columns left out": others, "not measured yet": waiting, "failed": failed}
        _note("; ".join(f"{what}: {listing(which)}" for what, which in notes.items() if which))
        if before is None or given.rebuild:
            learner = _begin(given, now, pool, before)
        else:
            learner = before
            names |= _tell_new(learner, given, now, pool)
        if given.forget_pending:
            learner.forget()
        n_open = len(learner.pending)
        open_ones = f"{n_open} open suggestion(s) (-n 0 shows them, --forget-pending gives them up)"
        _note(f"goal: {_goal(given)} of {given.target}; {len(learner.y)} measurements; {open_ones}")
        if given.n > learner.n_left:
            raise ValueError(f"{learner.n_left} candidate(s) are left, not {given.n}: others are measured or open")
        asked = learner.ask(given.n) if given.n else None
        if asked is not None and given.bounds:
            # Few digits, from 1/200 to 1/2000 of each side; what is shown, and measured, is what is known to be open.
            learner.forget(asked)
            low, high = np.array(given.box).T
            digits = pd.Series(-np.floor(np.log10((high - low) / 200)).astype(int), given.inputs)
            learner.expect(asked.round(digits).clip(low, high, axis=1))
        learner.notes[_KEY] = {name: getattr(given, name) for name in _REMEMBERED}
        if given.rebuild and before is not None:
            os.replace(given.state, f"{given.state}.before")
            _note(f"the run as it was is in {given.state}.before")
        # Before anything is shown: what is about to be measured must be known to be open.
        if given.state:
            learner.save(given.state)
        _show(given, learner, measured, candidates, now, n_open if given.n else 0)


def _read(given: Namespace) -> tuple[Table, Table | None, pma.Learner | None]:
    """Both tables and the run, and the inputs among the options; raises if anything is wrong or not to be written."""
    measured = read_table(given.measurements, given.decimal)
    measured.column(given.target, "--target")
    for path in filter(None, (given.output, given.plot, given.state)):
        if Path(path).resolve() in [Path(table).resolve() for table in (given.measurements, given.candidates or "")]:
            raise ValueError(f"{path} is a table that is read: give the result another name")
        if not Path(path).resolve().parent.is_dir():
            raise FileNotFoundError(f"there is no folder {Path(path).parent} for {Path(path).name}")
    if given.output and Path(given.output).exists():
        sheet = read_table(given.output, given.decimal)
        if not is_empty(sheet.column(given.target, "it is no sheet of suggestions, name another --output")).all():
            raise ValueError(f"{given.output} holds results: move them to the measurements, or name another --output")
    if given.plot:
        pma.plots.axes.pyplot()
    of_maximum = {*criterion_names("maximum"), "expected_improvement", "upper_confidence_bound"}
    if given.learn != "maximum" and (given.minimize or given.criterion in of_maximum):
        raise ValueError(f"{'--minimize' if given.minimize else given.criterion} needs --learn maximum as well")
    candidates = read_table(given.candidates, given.decimal) if given.candidates else None
    before = _load(given.state) if given.state and Path(given.state).exists() else None
    old = {} if before is None or given.rebuild else before.notes[_KEY]
    given.inputs, given.box = given.inputs or old.get("inputs") or _inputs(given, measured, candidates), old.get("box")
    if len({given.target, given.id, *given.inputs}) < 2 + len(given.inputs):
        raise ValueError("--target, --id and each input must be a different column, named once")
    if changed := [f"--{name} {old[name]}" for name in old if getattr(given, name) != old[name]]:
        advice = "repeat its options, name another --state, or begin again from the tables with --rebuild"
        raise ValueError(f"{given.state} was begun with {' and '.join(changed)}: {advice}")
    return measured, candidates, before


def _inputs(given: Namespace, measured: Table, candidates: Table | None) -> list[str]:
    """Names of the inputs: those of the box, or else the columns that both tables share."""
    if candidates is None:
        return [name for name, _, _ in given.bounds]
    # What is empty for all candidates, such as remarks, is no input.
    filled = [name for name in candidates.cells if not is_empty(candidates.cells[name]).all()]
    if shared := [name for name in filled if name in measured.cells and name not in {given.target, given.id}]:
        return shared
    both = " and ".join(f"{table.name} ({listing(table.cells, 8)})" for table in (measured, candidates))
    raise ValueError(f"{both} share no column with values, beside --target and --id, that could be an input")


def _begin(given: Namespace, now: Measurements, pool: pd.DataFrame, before: pma.Learner | None) -> pma.Learner:
    """A learner of a new run; while results do not differ, it asks for the points of a first design."""
    ends = pd.DataFrame({name: end for name, *end in given.bounds}) if given.bounds else pool
    low, high = ends.min().to_numpy(), ends.max().to_numpy()
    # A column of a pool may be constant.
    given.box = np.column_stack([low, np.where(high > low, high, low + np.maximum(np.abs(low), 1.0))]).tolist()
    where = {"bounds": dict(zip(given.inputs, given.box, strict=True))} if given.bounds else {"pool": pool}
    worked = ~np.isnan(now.y)
    if is_early := len({*now.y[worked]}) < 2:
        _note(f"less than two different values of {given.target}: points of a first design, without predictions")
    models = (lambda X, y: _models(given, X, y)) if is_early else _models(given, now.X[worked], now.y[worked])
    how = {"criterion": given.criterion, "minimize": given.minimize, "random_seed": given.seed}
    learner = pma.Learner(models, given.learn, **where, **how)
    for rows in (worked & is_early, ~worked):
        if rows.any():
            learner.tell(now.X[rows], now.y[rows])
    # What is open stays open, except for what was measured meanwhile and former candidates.
    for label, x in () if before is None else before.pending.iterrows():
        has_id = given.id is not None and label in pool.index
        if not (label in now.X.index if has_id else x.tolist() in now.X.to_numpy().tolist()):
            with suppress(ValueError):
                learner.expect(pool.loc[[label]] if has_id else x.to_frame().T)
    return learner


def _models(given: Namespace, X: pd.DataFrame, y: np.ndarray) -> Any:
    """One model, or a dict of several."""
    made: dict[str, Any] = {}
    for name in given.model or ["ard" if X.shape[1] <= _MANY else "embedding"]:
        data = X, pd.Series(y, X.index, name=given.target)
        how = {"bounds": given.box, "priors": None if given.noise is None else {"noise": given.noise}}
        if name == "ard":
            made[name] = pma.ard_gp(*data, **how)
        elif name == "embedding":
            made[name] = pma.embedding_gp(*data, n_components=min(2, X.shape[1]), **how)
        else:
            kernel = re.sub(r"\[([^]]+)\]", lambda k: f"[{[*X].index(k[1])}]" if k[1] in X else k[0], name)
            made[name] = pma.composite_gp(*data, kernel, **how)
    return made if len(made) > 1 else made.popitem()[1]


def _tell_new(learner: pma.Learner, given: Namespace, now: Measurements, pool: pd.DataFrame) -> dict[int, str]:
    """Tell what is new in the table, and return the names of all results; a ValueError if old rows have changed."""
    if learner.domain.pool is not None and not np.array_equal(pool, learner.domain.pool):
        problem = f"{given.candidates} has other candidates than {given.state}"
        raise ValueError(f"{problem}: restore the table, or begin again with --rebuild")
    X, y = np.concatenate([learner.X, learner.failures]), np.append(learner.y, np.full(len(learner.failures), np.nan))
    found, problems = now.find(X, y), []
    new = [row for row in range(len(now.y)) if row not in found]
    for k in [k for k, row in enumerate(found) if row is None]:
        was = "failed" if np.isnan(y[k]) else f"{given.target} = {y[k]:.6g}"
        row = next((row for row in new if same(now.X.iloc[[row]].to_numpy(), X[k])), None)
        gone = f"the row with {was} at {_place(X[k], pool)} is gone"
        problems.append(gone if row is None else f"{now.names[row]} has {now.y[row]:.6g} in place of {was}")
    if problems:
        undo = "Undo this, or begin again from the tables with --rebuild"
        raise ValueError(f"{given.measurements} is not what {given.state} knows: {listing(problems, 5)}. {undo}")
    if new:
        learner.tell(now.X.iloc[new], now.y[new])
    return dict(enumerate(now.names[row] for row in [*found, *new] if row is not None and not np.isnan(now.y[row])))


def _show(
    given: Namespace, learner: pma.Learner, measured: Table, candidates: Table | None, now: Measurements, first: int
) -> None:
    """Print the open suggestions from ``first`` on, write the sheet, draw the picture."""
    pending, labels = learner.pending, []
    if candidates is None:
        cells = pending.map(lambda x: repr(float(x)).removesuffix(".0").replace(".", given.decimal))
    else:
        # Of equal rows, which are one to the learner, those whose id was not measured.
        left = pd.DataFrame(learner.domain.pool, learner.domain.labels).drop(now.X.index if given.id else [])
        for x in pending.to_numpy():
            labels.append(next(one for one in left.index[(left == x).all(axis=1)] if one not in labels))
        cells = (candidates.cells.set_index(given.id, drop=False) if given.id else candidates.cells).loc[labels]
    X, cells, labels = pending.to_numpy()[first:], cells[first:], labels[first:]
    if len(cells):
        shown = cells[given.inputs if len(given.inputs) <= _SHOWN else []].copy()
        if candidates is not None:
            shown.insert(0, given.id or "row", labels)
        if learner.models:
            found = pma.predict(learner.fit, X)
            pairs = zip(found.f_mean.to_numpy(), np.sqrt(found.y_variance.to_numpy()), strict=True)
            shown[f"predicted {given.target} ± 1 sd"] = [plus_minus(*pair, digits=2) for pair in pairs]
        print(shown.set_axis(range(1, len(shown) + 1)).to_string())
    if given.output and len(cells):
        sheet = cells.reindex(columns=measured.cells.columns, fill_value="").assign(**{given.target: ""})
        sheet.to_csv(given.output, sep=measured.separator.replace(r"\s+", "\t"), index=False)
        _note(f"{given.output} has these rows: fill in {given.target}, and add them to {measured.name}")
    if given.plot and learner.models:
        np.ravel(pma.plots.plot(learner))[0].figure.savefig(given.plot, dpi=150)


def report(state: str) -> None:
    """Print what a run knows, in the user's units; a ValueError for a foreign or damaged file."""
    with _warnings_as_notes({}):
        learner = _load(state)
        given, pool = Namespace(**learner.notes[_KEY]), learner.pending if learner.domain.is_pool else pd.DataFrame()
        print(f"{Path(state).name}: {given.target}, goal: {_goal(given)}")
        print(f"measured: {len(learner.y)}, failed: {len(learner.failures)}")
        print(f"open: {listing((_place(x, pool) for x in learner.pending.to_numpy()), 20) or 'nothing'}")
        if not learner.models:
            print("predictions begin when the points of the first design are measured")
            return
        if given.learn == "maximum":
            print(learner.optimum())
        elif learner.criterion is not None:
            print("the best candidate scores {:.3g} {} by {}".format(*learner.best_score(), learner.criterion_name))
        print(learner.fit)


def _load(state: str) -> pma.Learner:
    """The learner of a file; a ValueError if the command line did not begin it."""
    options = Namespace()
    try:
        # Runs without a model yet need the function that makes it when the points of their design are there.
        learner = pma.Learner.load(state, model=lambda X, y: _models(options, X, y))
        vars(options).update(learner.notes[_KEY])
    except (KeyError, TypeError):
        remedy = "go on there with pymc_active.Learner.load, or name another file"
        raise ValueError(f"{Path(state).name} holds a run that was begun in Python: {remedy}") from None
    return learner


def _goal(given: Namespace) -> str:
    return "minimum" if given.minimize else given.learn


def _place(x: np.ndarray, pool: pd.DataFrame) -> str:
    """The label of a candidate, or else coordinates."""
    rows = pool.index[(pool == x).all(axis=1)] if len(pool) else []
    return str(rows[0]) if len(rows) else f"({listing(map(coordinate, x), 4)})"


def _note(text: str) -> None:
    print(f"note: {text}", file=sys.stderr)


@contextmanager
def _warnings_as_notes(names: Mapping[int, str]) -> Iterator[None]:
    """Print warnings as notes, once each; y[k] in a warning is the k-th result, whose name in the table it gets."""

    def show(message: Any, *_: Any, **__: Any) -> None:
        text = re.sub(r"\by\[(\d+)\]", lambda found: names.get(int(found[1]), found[0]), str(message))
        _note(_PYTHON.split(text)[0].replace("tell NaN", "write 'failed'"))

    with warnings.catch_warnings():
        warnings.simplefilter("default", UserWarning)
        warnings.showwarning = show
        yield
