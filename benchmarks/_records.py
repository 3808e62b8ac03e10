"""What the long benchmarks share: results as one line of JSON a record, so that a run can stop and go on."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from _report import SOURCE_AT_START, parser

RESULTS = Path(sys.argv[0]).resolve().parent / "results"

Key = tuple[str, str, int]


def load(path: Path) -> dict[Key, dict]:
    """Records by (row, method, repeat)."""
    lines = path.read_text().splitlines() if path.exists() else []
    records = [json.loads(line) for line in lines]
    return {(r["row"], r["method"], r["repeat"]): r for r in records}


def fill(path: Path, keys: Iterable[Key], run: Callable[..., dict | None], max_minutes: float) -> None:
    """Make the records that are missing, in order, until the time is up; ``run`` returns None to skip one."""
    path.parent.mkdir(exist_ok=True)
    start = time.perf_counter()
    for key in keys:
        if key in load(path):
            continue
        if time.perf_counter() - start > 60 * max_minutes:
            print("time is up")
            return
        wall, cpu = time.perf_counter(), time.process_time()
        result = run(*key)
        if result is None:
            print(f"{key}: skipped")
            continue
        record = {
            **dict(zip(("row", "method", "repeat"), key, strict=True)),
            "wall_seconds": round(time.perf_counter() - wall, 2),
            "cpu_seconds": round(time.process_time() - cpu, 2),
            "source": SOURCE_AT_START,
            **result,
        }
        # One write, so that lines of two processes do not mix.
        with path.open("ab", buffering=0) as file:
            file.write((json.dumps(record) + "\n").encode())
        print(f"{key}: {record['cpu_seconds']:.1f} CPU s", flush=True)


def methods_parser(doc: str, methods: list[str], seeds: int) -> argparse.ArgumentParser:
    """The options of a resumable benchmark of several methods, which may be run one by one."""
    arguments = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--minutes", type=float, default=0.0)
    arguments.add_argument("--methods", nargs="+", default=methods)
    arguments.add_argument("--seeds", type=int, default=seeds)
    return arguments


def recorded(
    doc: str, path: Path, keys: Iterable[Key], run: Callable[..., dict | None]
) -> tuple[argparse.Namespace, dict[Key, dict]]:
    """The options of a resumable benchmark, and its records, after making missing ones for ``--minutes``."""
    arguments = parser(doc)
    arguments.add_argument("--minutes", type=float, default=0.0)
    options = arguments.parse_args()
    if options.minutes:
        fill(path, keys, run, options.minutes)
    return options, load(path)
