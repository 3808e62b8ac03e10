"""``pymc-active suggest``: what to measure next, from two tables and the file of the run."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from pymc_active.command_line.modelling import default_models, make_models
from pymc_active.command_line.output import SHOWN, Console, Suggestion, check_sheet, show, write_sheet
from pymc_active.command_line.records import (
    Measurements,
    align,
    find_inputs,
    find_new,
    read_candidates,
    read_measurements,
)
from pymc_active.command_line.settings import Settings
from pymc_active.command_line.state import (
    Run,
    as_set,
    keep_open,
    load_run,
    open_choices,
    pool_of,
    save_run,
    settable,
    tell,
)
from pymc_active.command_line.tables import Table, listing, read_table
from pymc_active.learner.designs import latin_hypercube, random_design
from pymc_active.learner.learner import Learner
from pymc_active.predictions.predict import predict


class _Call(NamedTuple):
    """What one call was given: options, tables, and where to speak."""

    given: Namespace
    settings: Settings
    measured: Table
    candidates: Table | None
    console: Console


def suggest(given: Namespace, console: Console) -> None:
    """Do what the command line says.

    Raises
    ------
    OSError, ValueError, ImportError
        For whatever is wrong with options, tables or the file of the run; nothing is written then.
    """
    _check_paths(given)
    before = load_run(given.state) if given.state and Path(given.state).exists() else None
    settings = _settings(given, before)
    measured = read_table(given.measurements, settings.style)
    candidates = read_table(given.candidates, settings.style) if given.candidates else None
    if given.output:
        check_sheet(given.output, settings)
    call = _Call(given, settings, measured, candidates, console)
    run = _begin(call, before) if before is None or given.rebuild else _go_on(call, before)
    if run is not None:
        _ask(call, run)


def _check_paths(given: Namespace) -> None:
    """Before anything long is run: whether the results can be written."""
    tables = [Path(path).resolve() for path in (given.measurements, given.candidates) if path]
    for path in (given.output, given.plot, given.state):
        if path and Path(path).resolve() in tables:
            raise ValueError(f"{path} is a table that is read: give the result another name")
        if path and not Path(path).resolve().parent.is_dir():
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
        raise ValueError(
            "say what can be measured: a table with --candidates pool.csv, or a range for each input, e.g. "
            "--bounds temperature=40:120 --bounds minutes=5:60"
        )
    return Settings.begin(given)


def _begin(call: _Call, before: Run | None) -> Run | None:
    """A new run, in which open suggestions of the old one stay open; None where nothing was measured yet."""
    settings, measured, console = call.settings, call.measured, call.console
    pool = None
    if settings.bounds is None and call.candidates is None:
        assert before is not None, "a run begins with a pool or a box"
        pool = pool_of(before)
        assert pool is not None, "a run that has no box has a pool"
        inputs = list(pool.columns)
    else:
        inputs = find_inputs(settings, measured, call.candidates)
    settings = replace(settings, inputs=inputs)
    known = read_measurements(settings, measured, inputs)
    _note_rows(call, inputs, known)
    if call.candidates is not None:
        pool, n_equal = read_candidates(settings, call.candidates, inputs)
        if n_equal:
            console.note(
                f"{n_equal} row(s) of {call.candidates.name} repeat others and are left out; --id tells them apart"
            )
    if settings.bounds is None:
        # A number of the sample, say, is easily taken for an input.
        console.note(f"{len(inputs)} input(s): {listing(inputs)}")
    if not len(known.y):
        _spread(call._replace(settings=settings), pool)
        return None
    if pool is not None:
        known = align(known, pool)
    if settings.models is None:
        models, reason = default_models(len(inputs))
        settings = replace(settings, models=models)
        console.note(f"the model is {_describe(settings)}, as {reason} (--model takes another)")
    learner = Learner(
        make_models(
            settings, pd.DataFrame(known.X, columns=inputs), known.y, None if pool is None else pool.to_numpy()
        ),
        settings.learn,
        criterion=settings.criterion,
        pool=pool,
        bounds=None if settings.bounds is None else [(low, high) for _, low, high in settings.bounds],
        minimize=settings.minimize,
        verify=settings.verify,  # type: ignore[arg-type]
        random_seed=settings.seed,
    )
    if before is not None:
        keep_open(learner, open_choices(before.learner))
    console.note(f"{len(known.y)} measurements of {settings.target}; looking for {settings.goal}")
    if call.given.state is None:
        console.note("nothing is remembered without --state: the next call may suggest the same rows again")
    return Run(learner, settings, known.ids)


def _go_on(call: _Call, before: Run) -> Run:
    """The run with what is new in the table."""
    learner, settings, measured = before.learner, call.settings, call.measured
    inputs = settings.inputs
    assert inputs is not None, "written by the first call"
    state = Path(call.given.state).name
    known = read_measurements(settings, measured, inputs)
    _note_rows(call, inputs, known)
    kept = pool_of(before)
    if call.candidates is not None:
        if kept is None:
            raise ValueError(f"{state} was begun with --bounds: leave --candidates out, or start again with --rebuild")
        _check_pool(read_candidates(settings, call.candidates, inputs)[0], kept, call.candidates.name, state)
    if kept is not None:
        known = align(known, kept)
    new, problems = find_new(learner.X, learner.y, before.ids, known, settings.target)
    if problems:
        raise ValueError(
            f"{measured.name} is not what {state} knows: {listing(problems, 5)}. Undo this, or start again from the "
            "table with --rebuild"
        )
    if new:
        tell(learner, known.X[new], known.y[new])
    call.console.note(f"{len(new)} new of {len(learner.y)} measurements; still looking for {settings.goal}")
    ids = None if before.ids is None or known.ids is None else [*before.ids, *(known.ids[row] for row in new)]
    return Run(learner, settings, ids)


def _check_pool(given: pd.DataFrame, kept: pd.DataFrame, name: str, state: str) -> None:
    if list(given.index) == list(kept.index) and np.array_equal(given.to_numpy(), kept.to_numpy()):
        return
    raise ValueError(
        f"{name} has other candidates ({len(given)}) than {state} remembers ({len(kept)}): leave --candidates out to "
        "go on with those, or take the new ones with --rebuild"
    )


def _note_rows(call: _Call, inputs: Sequence[str], known: Measurements) -> None:
    used = {call.settings.target, call.settings.id, *inputs}
    unused = [column for column in call.measured.columns if column not in used]
    if unused:
        call.console.note(f"columns of {call.measured.name} that are left out: {listing(unused)}")
    if known.waiting:
        call.console.note(f"not measured yet, and left out: {listing(known.waiting)}")


def _describe(settings: Settings) -> str:
    if settings.models == ["embedding"]:
        return f"a Gaussian process on {settings.components} learned combinations of the inputs (embedding)"
    return "a Gaussian process with a lengthscale for each input (ard)"


def _spread(call: _Call, pool: pd.DataFrame | None) -> None:
    """Where nothing is known: points spread over the candidates."""
    given, settings = call.given, call.settings
    if given.rebuild or not given.n:
        raise ValueError(f"{call.measured.name} has no row with a value of {settings.target}")
    call.console.note(
        f"nothing is measured yet: these are spread at random, and a run begins with the first values of "
        f"{settings.target}"
    )
    if pool is None:
        assert settings.bounds is not None, "there is a pool or a box"
        bounds = [(low, high) for _, low, high in settings.bounds]
        found = [Suggestion("", x) for x in settable(latin_hypercube(bounds, given.n, settings.seed), bounds)]
    else:
        rows = random_design(pool, given.n, settings.seed)
        found = [Suggestion(str(label), x) for label, x in zip(rows.index, rows.to_numpy(), strict=True)]
    _show(call, found, None)


def _ask(call: _Call, run: Run) -> None:
    """Choose, remember, show."""
    given, learner = call.given, run.learner
    if given.forget_pending:
        learner.forget()
    earlier = open_choices(learner)
    if earlier:
        names = listing([choice.name for choice in earlier])
        call.console.note(f"still open from earlier calls: {names} (--forget-pending gives them up)")
    if given.n > learner.n_left:
        raise ValueError(
            f"{learner.n_left} candidate(s) are left, and -n asks for {given.n}: the others are measured or open"
        )
    found = []
    with call.console.working("Fitting and choosing"):
        if given.n:
            learner.ask(given.n)
            choices = open_choices(learner)[len(earlier) :]
            X = np.stack([as_set(learner, choice.x) for choice in choices])
            prediction = predict(learner.fit, X)
            moments = prediction.f_mean.to_numpy(), np.sqrt(prediction.y_variance.to_numpy())
            found = [
                Suggestion(choice.name, x, choice.score, float(mean), float(sd))
                for choice, x, mean, sd in zip(choices, X, *moments, strict=True)
            ]
        # Before it is shown: what somebody measures must be known to be open.
        if given.state:
            save_run(given.state, run)
    _show(call._replace(settings=run.settings), found, learner)


def _show(call: _Call, found: Sequence[Suggestion], learner: Learner | None) -> None:
    """On the terminal, as a sheet, as a picture."""
    given, settings = call.given, call.settings
    if found:
        show(found, settings, learner, call.console)
    if given.output and found:
        write_sheet(given.output, settings, call.measured, call.candidates, found)
        call.console.note(
            f"{given.output} has these rows: fill in {settings.target} and add them to {call.measured.name}"
        )
    elif found and len(settings.inputs or ()) > SHOWN:
        call.console.note("their inputs are too many to be shown here: --output next.csv writes them")
    if given.plot and learner is not None:
        from pymc_active.command_line.picture import save_picture

        save_picture(given.plot, learner, settings, found)
