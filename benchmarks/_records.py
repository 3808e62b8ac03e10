"""The runner of the benchmarks with records: a line of JSON each, which says who made it, so that a run can go on.

A script says its problems, the methods compared, one function that makes a record and one that makes the results and
the picture of all records; ``main`` does the rest: the command line, what is missing, the JSON with its provenance, and
the smallest records. Records are made without warnings, except where a script catches them.

A record holds the number of the engine (``pymc_active.ENGINE``) and the commit that made it; code that is not committed
makes none. A table is of one engine, the newest with at least half as many records as any, or ``--engine``. Records
without a number are older than the numbers: engine 0. Records of ``peers``, methods that do not depend on the engine,
count for any.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import _report

import pymc_active as pma

RESULTS = Path(sys.argv[0]).resolve().parent / "results"

Key = tuple[str, str, int]
Record = Callable[..., dict | None]
# Makes the results, the picture and the targets of records by (row, method, repeat).
Report = Callable[[dict[Key, dict]], tuple[Any, Any, list[dict]]]


def read(path: Path, engine: int | None = None, peers: Container[str] = ()) -> list[dict]:
    """Records of one engine, in order; by default the newest with half as many as the fullest, so that tables stay."""
    lines = path.read_text().splitlines() if path.exists() else []
    records = [json.loads(line) for line in lines]
    if engine is None:
        made = Counter(r.get("engine", 0) for r in records if r["method"] not in peers)
        engine = max((one for one, n in made.items() if 2 * n >= max(made.values())), default=0)
    return [r for r in records if r["method"] in peers or r.get("engine", 0) == engine]


def load(path: Path, engine: int | None = None, peers: Container[str] = ()) -> dict[Key, dict]:
    """The records of :func:`read` by (row, method, repeat)."""
    return {(r["row"], r["method"], r["repeat"]): r for r in read(path, engine, peers)}


def fill(path: Path, keys: Iterable[Key], record: Record, max_minutes: float, peers: Container[str] = ()) -> None:
    """Make the records that are missing, in order, at lowest priority until the time is up.

    ``record`` returns None to skip a key.
    """
    path.parent.mkdir(exist_ok=True)
    made_by = _report.committed()
    os.nice(19)
    start = time.perf_counter()
    for key in keys:
        if key in load(path, pma.ENGINE, peers):
            continue
        if time.perf_counter() - start > 60 * max_minutes:
            print("time is up")
            return
        wall, cpu = time.perf_counter(), time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = record(*key)
        if result is None:
            print(f"{key}: skipped")
            continue
        if _report.committed() != made_by:
            raise SystemExit("the code was changed during this run: start it again")
        line = {
            **dict(zip(("row", "method", "repeat"), key, strict=True)),
            "wall_seconds": round(time.perf_counter() - wall, 2),
            "cpu_seconds": round(time.process_time() - cpu, 2),
            "engine": pma.ENGINE,
            "commit": made_by,
            **result,
        }
        # One write, so that lines of two processes do not mix.
        with path.open("ab", buffering=0) as file:
            file.write((json.dumps(line) + "\n").encode())
        print(f"{key}: {line['cpu_seconds']:.1f} CPU s", flush=True)


def every(rows: Iterable[str], methods: Iterable[str], repeats: int) -> list[Key]:
    """All keys, repeat by repeat."""
    return [(row, method, repeat) for repeat, row, method in product(range(repeats), rows, methods)]


def options(doc: str) -> argparse.Namespace:
    """The command line of a benchmark with records."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=0.0, help="make missing records, none after so many minutes")
    parser.add_argument("--rows", help="those whose names contain one of these, separated by semicolons")
    parser.add_argument("--methods", help="names, separated by commas")
    parser.add_argument("--repeats", type=int, help="of each row and method, if fewer than there are")
    parser.add_argument("--engine", type=int, help="of the table, if not the newest")
    parser.add_argument("--smallest", action="store_true", help="one small record of each kind, kept nowhere")
    return parser.parse_args()


def chosen(keys: Iterable[Key], arguments: argparse.Namespace) -> Iterator[Key]:
    """The keys that the command line asks for."""
    for key in keys:
        row, method, repeat = key
        if (
            (arguments.rows is None or any(part in row for part in arguments.rows.split(";")))
            and (arguments.methods is None or method in arguments.methods.split(","))
            and (arguments.repeats is None or repeat < arguments.repeats)
        ):
            yield key


def common(records: Iterable[Key], rows: Iterable[str], methods: Iterable[str]) -> list[tuple[str, int]]:
    """Rows and repeats that all methods have, row by row; ends the program if there are none yet."""
    keys, methods = set(records), list(methods)
    repeats = sorted({repeat for _, _, repeat in keys})
    pairs = [(row, r) for row, r in product(rows, repeats) if keys.issuperset((row, m, r) for m in methods)]
    return pairs or sys.exit("there is no run yet that all methods have")


def show(doc: str, path: Path, report: Report, engine: int | None = None, peers: Container[str] = ()) -> None:
    """Write what the records say, if there are any; the table's engine and commits are those of our own records."""
    if not (records := load(path, engine, peers)):
        print("there are no records yet")
        return
    results, figure, targets = report(records)
    made = [r for r in records.values() if r["method"] not in peers]
    _report.write(doc, threads="one", targets=targets, results=results, figure=figure, records=made)


def smallest(doc: str, makers: dict[Key, Callable[[], dict | None]], report: Report) -> None:
    """Make one small record of each kind, and its table, in a folder that is then removed."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(folder) / "records.jsonl"
        for key, make in makers.items():
            result = make()
            shown = "left out" if result is None else json.dumps(result)[:200]
            print(f"{key}: {shown}", flush=True)
            if result is not None:
                line = dict(zip(("row", "method", "repeat"), key, strict=True)) | {"wall_seconds": 0, "cpu_seconds": 0}
                line |= {"engine": pma.ENGINE, "commit": "none"} | result
                with path.open("a") as file:
                    file.write(json.dumps(line) + "\n")
        _report.FOLDER = Path(folder)
        show(doc, path, report)


def main(
    doc: str,
    keys: Iterable[Key],
    record: Record,
    report: Report,
    small: dict[Key, Callable[[], dict | None]],
    *,
    peers: Container[str] = (),
) -> None:
    """A benchmark, whose records are in ``results/<script>.jsonl``; ``small`` makes the smallest ones."""
    arguments = options(doc)
    path = RESULTS / f"{Path(sys.argv[0]).stem}.jsonl"
    if arguments.smallest:
        smallest(doc, small, report)
        return
    if arguments.minutes:
        fill(path, chosen(keys, arguments), record, arguments.minutes, peers)
    show(doc, path, report, arguments.engine, peers)
