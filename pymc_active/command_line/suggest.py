"""``pymc-active suggest``: what to measure next, from two tables and the file of the run."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from pymc_active.command_line import records, state
from pymc_active.command_line.modelling import default_models, make_models
from pymc_active.command_line.options import Settings
from pymc_active.command_line.output import SHOWN, Console, check_sheet, show, write_sheet
from pymc_active.command_line.state import Run, Suggestion
from pymc_active.command_line.tables import Table, listing, read_table
from pymc_active.learner.designs import latin_hypercube, random_design
from pymc_active.learner.learner import Learner
from pymc_active.predictions.model_average import ModelAverage
from pymc_active.predictions.predict import predict


class _Call(NamedTuple):
    given: Namespace
    settings: Settings
    measured: Table
    candidates: Table | None
    console: Console


def suggest(given: Namespace, console: Console) -> None:
    """Do what the options say; an OSError, ValueError or ImportError, and nothing written, if anything is wrong."""
    _check_paths(given)
    with state.turn(given.state, lambda: console.note(f"waiting for another command that works on {given.state}")):
        _suggest(given, console)


def _suggest(given: Namespace, console: Console) -> None:
    before = state.load_run(given.state) if given.state and Path(given.state).exists() else None
    settings = _settings(given, before)
    measured = read_table(given.measurements, settings)
    candidates = read_table(given.candidates, settings) if given.candidates else None
    if given.output:
        check_sheet(given.output, settings)
    call = _Call(given, settings, measured, candidates, console)
    if before is None or given.rebuild:
        _begin(call, before)
    else:
        _go_on(call, before)


def _check_paths(given: Namespace) -> None:
    """Check before any long computation that the results can be written."""
    tables = [Path(path).resolve() for path in (given.measurements, given.candidates) if path]
    for path in filter(None, (given.output, given.plot, given.state)):
        if Path(path).resolve() in tables:
            raise ValueError(f"{path} is a table that is read: give the result another name")
        if not Path(path).resolve().parent.is_dir():
            raise FileNotFoundError(f"there is no folder {Path(path).parent} for {Path(path).name}")
    if given.plot:
        from pymc_active.command_line.picture import check_picture

        check_picture(given.plot)


def _settings(given: Namespace, before: Run | None) -> Settings:
    if given.candidates and given.bounds:
        raise ValueError("choose from a table (--candidates) or from a box (--bounds), not from both")
    if before is not None:
        return before.settings.renewed(given) if given.rebuild else before.settings.go_on(given, Path(given.state).name)
    if given.rebuild:
        raise ValueError("--rebuild starts a run again: name its file with --state")
    if not (given.candidates or given.bounds):
        example = "or a range for each input, e.g. --bounds temperature=40:120 --bounds minutes=5:60"
        raise ValueError(f"say what can be measured: a table with --candidates pool.csv, {example}")
    return Settings.begin(given)


def _begin(call: _Call, before: Run | None) -> None:
    """Start a run, in which open suggestions of the old one stay open."""
    given, settings, measured, candidates, console = call
    # The table of candidates or, where the run only starts again, those that its file holds; None for a box.
    pool = state.pool_of(before) if before is not None and settings.bounds is None and candidates is None else None
    inputs = records.find_inputs(settings, measured, candidates) if pool is None else list(pool.columns)
    settings = replace(settings, inputs=inputs)
    call = call._replace(settings=settings)
    if candidates is not None:
        pool, n_equal = records.read_candidates(settings, candidates, inputs)
        if n_equal:
            console.note(f"{n_equal} row(s) of {candidates.name} repeat others and are left out; --id tells them apart")
    known, failed = _read_known(call, pool)
    if pool is not None:
        # The number of a sample, say, is easily taken for an input.
        console.note(f"{len(inputs)} input(s): {listing(inputs)}")
    bounds = None if settings.bounds is None else [(low, high) for _, low, high in settings.bounds]
    if not len(known.y):
        _spread(call, pool, bounds)
        return
    if settings.models is None:
        models, reason = default_models(settings)
        settings = replace(settings, models=models)
        console.note(f"the model is {reason} (--model takes another)")
    X = pd.DataFrame(known.X, columns=inputs)
    learner = Learner(
        make_models(settings, X, known.y, None if pool is None else pool.to_numpy(), known.names),
        settings.learn,
        criterion=settings.criterion,
        pool=pool,
        bounds=bounds,
        minimize=settings.minimize,
        verify=settings.verify,  # type: ignore[arg-type]
        random_seed=settings.seed,
    )
    if before is not None:
        state.keep_open(learner, state.open_suggestions(before.learner))
        # The file of the old run may be replaced.
        learner._current.revisions |= before.learner._current.revisions
    if len(failed.y):
        state.tell(learner, failed.X, failed.y)
    console.note(f"{len(known.y)} measurements of {settings.target}; looking for {settings.goal}")
    if given.state is None:
        console.note("nothing is remembered without --state: the next call may suggest the same rows again")
    _ask(call, Run(learner, settings, known.ids))


def _go_on(call: _Call, before: Run) -> None:
    """Tell the run what is new in the table."""
    given, settings, measured, candidates, console = call
    learner, name, pool = before.learner, Path(given.state).name, state.pool_of(before)
    if candidates is not None:
        if pool is None:
            raise ValueError(f"{name} was begun with --bounds: leave --candidates out, or start again with --rebuild")
        others, _ = records.read_candidates(settings, candidates, settings.inputs or [])
        if list(others.index) != list(pool.index) or not np.array_equal(others, pool):
            problem = f"{candidates.name} has other candidates ({len(others)}) than {name} remembers ({len(pool)})"
            raise ValueError(f"{problem}: leave --candidates out, or take the new ones with --rebuild")
    known, failed = _read_known(call, pool)
    new, problems = records.find_new(learner.X, learner.y, before.ids, known, failed, settings.target)
    new_failures, gone = records.find_new_failures(learner.failures, failed)
    problems += gone
    if problems:
        problem = f"{measured.name} is not what {name} knows: {listing(problems, 5)}"
        raise ValueError(f"{problem}. Undo this, or start again from the table with --rebuild")
    settled = state.tell(learner, known.X[new], known.y[new]) if new else []
    if len(new_failures):
        settled += state.tell(learner, new_failures, np.full(len(new_failures), np.nan))
    if settled:
        console.note(f"taken as answers to suggestions nearby: {listing(settled)}")
    console.note(f"{len(new)} new of {len(learner.y)} measurements; still looking for {settings.goal}")
    ids = None if before.ids is None or known.ids is None else [*before.ids, *(known.ids[row] for row in new)]
    _ask(call, Run(learner, settings, ids))


def _read_known(call: _Call, pool: pd.DataFrame | None) -> tuple[records.Measurements, records.Measurements]:
    """The measurements and the failed experiments, with notes about what is left out."""
    _, settings, measured, candidates, console = call
    inputs = settings.inputs or []
    known = records.read_measurements(settings, measured, inputs)
    for table in filter(None, (measured, candidates)):
        unused = [column for column in table.cells if column not in {settings.target, settings.id, *inputs}]
        if unused:
            console.note(f"columns of {table.name} that are left out: {listing(unused)}")
    if known.waiting:
        console.note(f"not measured yet, and left out: {listing(known.waiting)}")
    known = known if pool is None else records.align(known, pool)
    results = (f"{value:.6g}" for value in known.y)
    console.rows = {y: f"{settings.target} = {y} in {name}" for name, y in zip(known.names, results, strict=True)}
    failed = np.isnan(known.y)
    if failed.any():
        console.note(f"experiments that failed, and are avoided: {listing(known.only(failed).names)}")
    return known.only(~failed), known.only(failed)


def _spread(call: _Call, pool: pd.DataFrame | None, bounds: list[tuple[float, float]] | None) -> None:
    """Suggest random points while nothing is measured."""
    given, settings, measured, _, console = call
    target = settings.target
    if given.rebuild or not given.n:
        raise ValueError(f"{measured.name} has no row with a value of {target}")
    console.note(f"nothing is measured yet: these are spread at random; a run begins with the first values of {target}")
    if bounds is not None:
        found = [Suggestion("", x) for x in state.settable(latin_hypercube(bounds, given.n, settings.seed), bounds)]
    else:
        rows = random_design(pool, given.n, settings.seed)
        found = [Suggestion(str(label), x) for label, x in zip(rows.index, rows.to_numpy(), strict=True)]
    _show(call, found, None)


def _ask(call: _Call, run: Run) -> None:
    """Choose, remember, show."""
    given, learner, console = call.given, run.learner, call.console
    if given.forget_pending:
        learner.forget()
    earlier = state.open_suggestions(learner)
    if earlier:
        names = listing(one.name for one in earlier)
        remedy = "-n 0 shows them again, --forget-pending gives them up"
        console.note(f"still open from earlier calls: {names} ({remedy})")
    if given.n > (left := learner.n_left):
        raise ValueError(f"{left} candidate(s) are left, and -n asks for {given.n}: the others are measured or open")
    found = []
    with console.working("Fitting and choosing"):
        if given.n:
            learner.ask(given.n)
        # Without new ones, those that are open, so that a lost sheet can be written again.
        if asked := state.open_suggestions(learner)[len(earlier) if given.n else 0 :]:
            X = np.stack([state.as_set(learner, one.x) for one in asked])
            prediction = predict(learner.fit, X)
            columns = (asked, X, prediction.f_mean.to_numpy(), np.sqrt(prediction.y_variance.to_numpy()))
            found = [one._replace(x=x, mean=m, sd=sd) for one, x, m, sd in zip(*columns, strict=True)]
        # Saved before it is shown: what is about to be measured must be known to be open.
        if given.state:
            state.save_run(given.state, run)
    _show(call._replace(settings=run.settings), found, learner)


def _show(call: _Call, found: list[Suggestion], learner: Learner | None) -> None:
    """Print the suggestions, write the sheet, draw the picture."""
    given, settings, measured, candidates, console = call
    if found:
        show(found, settings, learner, console)
    if found and learner is not None and isinstance(learner.fit, ModelAverage):
        share = learner.fit.probability.to_series().sort_values(ascending=False)
        console.note(f"models by probability: {listing(f'{label} {p:.2g}' for label, p in share.items())}")
    if given.output and found:
        write_sheet(given.output, settings, measured, candidates, found)
        wanted = settings.target
        if settings.id is not None and settings.bounds is not None:
            wanted = f"{settings.id}, a name for each, and {wanted}"
        console.note(f"{given.output} has these rows: fill in {wanted}, and add them to {measured.name}")
    elif found and len(settings.inputs or ()) > SHOWN:
        console.note("their inputs are too many to be shown here: --output next.csv writes them")
    if given.plot and learner is not None:
        from pymc_active.command_line.picture import save_picture

        save_picture(given.plot, learner, settings, found)
