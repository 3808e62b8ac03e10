"""What the benchmarks share: committed code, fresh processes, quartiles, results as table, JSON and picture."""

from __future__ import annotations

import argparse
import json
import operator
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import fmean, quantiles, stdev
from typing import Any

import numpy as np

RESULTS = Path(__file__).parent / "results"
PACKAGES = ("numpy", "scipy", "pymc", "pytensor", "jax", "numba")
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
ONE_XLA_THREAD = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
BLUE, ORANGE, GREY = "#1f6fb4", "#d9822b", "#8a8a8a"

# Pictures go to files, also where there is a display.
os.environ.setdefault("MPLBACKEND", "Agg")

# Where JSON and pictures go; None: to ``results`` beside the script.
FOLDER: Path | None = None


def committed() -> str:
    """The last commit that changed the code; ends the program if there is code that is not committed."""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(Path(__file__).parent.parent), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    code = ("--", "pymc_active", "benchmarks/*.py")
    changed = git("status", "--porcelain", "--untracked-files=all", *code)
    if changed:
        raise SystemExit(f"commit the code first, so that its results can be made again:\n{changed}")
    return git("log", "-1", "--format=%h", "--abbrev=12", *code)


def parser(docstring: str) -> argparse.ArgumentParser:
    """Command line of a benchmark; ``--child`` is how it starts itself in a fresh process."""
    result = argparse.ArgumentParser(description=docstring, formatter_class=argparse.RawDescriptionHelpFormatter)
    result.add_argument("--smallest", action="store_true", help="seconds; results are kept nowhere")
    result.add_argument("--child", help=argparse.SUPPRESS)
    return result


def child(
    arguments: dict[str, Any], *, threads: int | None = None, environment: dict[str, str] | None = None
) -> dict[str, Any]:
    """Run this script again in a fresh process and return the JSON it prints last.

    With ``threads=1`` the process has one thread in BLAS and XLA and stays on one CPU.

    Raises
    ------
    RuntimeError
        If it fails.
    """
    env = dict(os.environ)
    if threads is not None:
        env.update(dict.fromkeys(THREAD_VARIABLES, str(threads)))
    if threads == 1:
        env["XLA_FLAGS"] = ONE_XLA_THREAD
    env.update(environment or {})
    everywhere = os.sched_getaffinity(0)
    if threads == 1:
        os.sched_setaffinity(0, {min(everywhere)})
    try:
        process = subprocess.run(
            [sys.executable, sys.argv[0], "--child", json.dumps(arguments)], env=env, stdout=subprocess.PIPE, text=True
        )
    finally:
        os.sched_setaffinity(0, everywhere)
    if process.returncode:
        raise RuntimeError(f"the case {arguments} ended with code {process.returncode}")
    return json.loads(process.stdout.splitlines()[-1])


def peak_memory() -> int:
    """Largest resident size of this process so far, bytes (Linux)."""
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def quartiles(seconds: Sequence[float]) -> dict[str, Any]:
    """Median and quartiles of repeated times."""
    if len(seconds) > 1:
        lower, median, upper = quantiles(seconds, n=4, method="inclusive")
    else:
        lower = median = upper = seconds[0]
    return {"median": median, "lower": lower, "upper": upper, "repeats": len(seconds)}


def target(what: str, value: float, relation: str, limit: float) -> dict[str, Any]:
    """One target: ``value`` should stand in ``relation`` (such as ``">="``) to ``limit``."""
    compare = {">=": operator.ge, "<=": operator.le, "<": operator.lt}[relation]
    return {"what": what, "value": value, "target": f"{relation} {limit:g}", "met": bool(compare(value, limit))}


def show(time: dict[str, Any]) -> str:
    """A time as ``median [lower, upper]`` with a fitting unit."""
    unit, factor = ("s", 1.0) if time["median"] >= 1 else ("ms", 1e3)
    values = [f"{factor * time[key]:.3g}" for key in ("median", "lower", "upper")]
    return f"{values[0]} [{values[1]}, {values[2]}] {unit}"


def table(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print aligned columns."""
    cells = [list(map(str, row)) for row in (header, *rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for i, row in enumerate(cells):
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
        if i == 0:
            print("  ".join("-" * width for width in widths))


def table_of(rows: Sequence[dict[str, Any]]) -> None:
    """Print rows that have the same keys."""
    if not rows:
        print("nothing to show yet")
        return
    shown = [[f"{v:.3g}" if isinstance(v, float) else "" if v is None else v for v in row.values()] for row in rows]
    table(list(rows[0]), shown)


def panels(*shape: int, **keywords: Any) -> Any:
    """A figure and its axes, as of ``plt.subplots``, without lines above and to the right."""
    import matplotlib.pyplot as plt

    plt.rcParams.update({"axes.spines.top": False, "axes.spines.right": False, "legend.frameon": False})
    return plt.subplots(*shape, **{"layout": "constrained"} | keywords)


def mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    """Mean, and its standard error (nan of one value)."""
    n = len(values)
    return fmean(values), stdev(values) / n**0.5 if n > 1 else float("nan")


def stated(values: Sequence[float] | Any, count: str = "n") -> dict[str, Any]:
    """Mean, its standard error (nan of one value), and under ``count`` how many there are."""
    x = np.asarray(values, float)
    error = x.std(ddof=1) / np.sqrt(len(x)) if len(x) > 1 else np.nan
    return {"mean": float(x.mean()), "standard_error": float(error), count: len(x)}


def spread(values: Sequence[float]) -> dict[str, float]:
    """Mean, its standard error, median and quartiles."""
    lower, median, upper = np.quantile(values, [0.25, 0.5, 0.75]).tolist()
    x = stated(values)
    return {"mean": x["mean"], "standard_error": x["standard_error"], "lower": lower, "median": median, "upper": upper}


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def write(
    docstring: str,
    *,
    quick: bool = False,
    threads: str,
    targets: list[dict],
    results: Any,
    figure: Any,
    records: Iterable[dict] | None = None,
) -> None:
    """Print the targets; write ``results/<script>.json`` and ``.png`` beside the script, with ``quick`` nowhere.

    ``records`` say by which engine and commits they were made; without them, the results are of the code as it is.
    """
    from pymc_active import ENGINE

    script = Path(sys.argv[0]).resolve()
    root = Path(__file__).resolve().parent.parent
    if records is None:
        made_by = {"engine": ENGINE, "commits": [] if quick or FOLDER else [committed()]}
    else:
        engines = {r.get("engine", 0) for r in records}
        if len(engines) > 1:
            raise ValueError(f"a table is of one engine; got records of {sorted(engines)}")
        made_by = {
            "engine": max(engines, default=0),
            # Older records call it their source.
            "commits": sorted({commit for r in records if (commit := r.get("commit", r.get("source")))}),
        }
    report = {
        "question": next(line for line in docstring.splitlines() if line.endswith("?")),
        # A folder of one machine says nothing on another.
        "command": " ".join(
            ["python", str(script.relative_to(root)), *("FOLDER" if Path(a).is_absolute() else a for a in sys.argv[1:])]
        ),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        **made_by,
        "machine": {
            "cpu": _cpu(),
            "cpus": len(os.sched_getaffinity(0)),
            "system": platform.system(),
            "load_average_at_the_end": [round(load, 2) for load in os.getloadavg()],
        },
        "threads": threads,
        "versions": {
            "python": platform.python_version(),
            **{package: _version(package) for package in PACKAGES},
            "pymc_active": _version("pymc-active"),
        },
        "targets": targets,
        "results": results,
    }
    with tempfile.TemporaryDirectory() as nowhere:
        folder = Path(nowhere) if quick else FOLDER or script.parent / "results"
        folder.mkdir(exist_ok=True)
        (folder / f"{script.stem}.json").write_text(json.dumps(report, indent=1) + "\n")
        figure.savefig(folder / f"{script.stem}.png", dpi=130, bbox_inches="tight")
    print()
    table(
        ("target", "wanted", "measured", ""),
        [(t["what"], t["target"], f"{t['value']:.4g}", "" if t["met"] else "MISSED") for t in targets],
    )
    print(f"\nEngine {report['engine']}, commits {', '.join(report['commits']) or 'none'}.")
