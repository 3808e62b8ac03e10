"""Options and the help that teaches them. Nothing heavy is imported here, so that help comes at once."""

from __future__ import annotations

import argparse
import csv
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn, override

GOALS = ("function", "hyperparameters", "model", "maximum")
CRITERIA = (
    *("bald", "bald_draws", "bald_f", "bald_modes"),
    *("bams", "bams_draws", "bams_modes", "bams_tempered", "bams_uniform", "committee"),
    *("entropy_search", "expected_improvement", "joint_entropy_search", "max_value_entropy", "pes", "pes_map"),
    *("random", "thompson", "uncertainty", "upper_confidence_bound"),
)

_ABOUT = """\
Which measurement next? Gaussian process models that choose their own data.

  pymc-active suggest --help    from two tables to the rows worth measuring
  pymc-active report run.nc     what a run knows by now
  pymc-active demo              215 meat samples, an example of about two minutes
"""

_SUGGEST = """\
Say which measurements to make next, from a table of those made so far and a table of those that could be made.

  pymc-active suggest measurements.csv --target fat --id sample --candidates pool.csv -n 5 --state run.nc

measurements.csv, a row a measurement:        pool.csv, a row a candidate:

  sample,moisture,density,fat                   sample,moisture,density
  M001,60.5,1.061,22.5                          M001,60.5,1.061
  M017,46.0,1.021,40.1                          M002,71.0,1.079
  M020,71.0,1.083,                              M003,72.8,1.085

The inputs are the columns that both tables share (moisture, density), but for --id and --target. M020 has no result
yet: it is left out. Candidates that were measured (same id, or same inputs) are not suggested again."""

_EPILOG = """\
what is learned (--learn)
  function         the target everywhere: measures where the prediction is least sure. For a calibration or a map.
  hyperparameters  what the model itself leaves open: how much each input matters, on which scale the target changes,
                   how large the noise is, which combination of many inputs counts. For knowing what matters.
  model            which of several kernels is right (name them, --model SE --model 'LIN + PER * RQ' ...).
  maximum          where the target is largest, or smallest with --minimize. For the best settings.

units
  Inputs and target are in your units, and so is everything that is printed. A score in nats is the information that
  is expected; one in units of the target is an uncertainty or a gain. Scores in a batch are given the rows above them.

what happens next
  Measure, write the results into measurements.csv (in any order, also others that nobody asked for), and call the same
  command again. --state run.nc remembers model, scales, candidates and what was suggested: rows of the table that are
  new are learned, suggestions without a result stay open and are reckoned with. Numbers that changed or rows that
  vanished are an error that names them. --output next.csv writes the suggestions as rows to fill in.

more examples
  The best settings, anywhere in a range:
    pymc-active suggest trials.csv --target yield --learn maximum --bounds temperature=40:120 --bounds minutes=5:60 \\
        -n 2 --state trials.nc
  Spectra with 100 channels, where an assay is good to 0.4 %:
    pymc-active suggest assays.csv --target fat --id sample --candidates spectra.csv --noise 0.4 -n 5 \\
        --state fat.nc --output next.csv --plot fat.png
  A table from a spreadsheet in German or French:
    pymc-active suggest messungen.csv --target Fett --candidates proben.csv --separator ';' --decimal ,
  A result was corrected:
    pymc-active suggest measurements.csv --state run.nc --rebuild

In Python the same run is learner = pymc_active.active.Learner.load("run.nc"); what is told there and saved with
learner.save("run.nc") is known here, too, and must be in measurements.csv as well.
"""


class _Parser(argparse.ArgumentParser):
    """Errors in one line."""

    @override
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: error: {message} ({self.prog} --help tells more)\n")


def make_parser() -> argparse.ArgumentParser:
    """All commands."""
    from pymc_active import __version__

    # As it was called.
    name = "pymc-active" if Path(sys.argv[0]).stem == "pymc-active" else "python -m pymc_active"
    parser = _Parser(prog=name, description=_ABOUT, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="{suggest,report,demo}")
    _add_suggest(commands)
    _add_report(commands)
    demo = commands.add_parser("demo", help="choose samples of meat for the wet lab (about two minutes)")
    demo.add_argument("--output", default="demo_output", help="folder for pictures and trace")
    demo.add_argument("--splits", type=_at_least(1), default=4, help="how many starts at random (default 4)")
    demo.add_argument(
        "--asks", type=_at_least(5), default=40, help="assays after the first five (default 40, from 5 on)"
    )
    _add_debug(demo)
    return parser


def _add_suggest(commands: Any) -> None:
    suggest = commands.add_parser(
        "suggest",
        help="what to measure next, from tables (CSV)",
        description=_SUGGEST,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="%(prog)s measurements.csv --target NAME (--candidates pool.csv | --bounds NAME=LOW:HIGH ...) [options]",
    )
    suggest.add_argument("measurements", metavar="measurements.csv", help="what was measured, a row each")

    tables = suggest.add_argument_group("tables")
    tables.add_argument("--target", metavar="NAME", help="the column of what is measured")
    tables.add_argument("--candidates", metavar="pool.csv", help="what could be measured, a row each")
    tables.add_argument(
        "--bounds",
        action="append",
        type=_bounds,
        metavar="NAME=LOW:HIGH",
        help="instead of candidates: the range of an input, once for each; any point in it may be suggested",
    )
    tables.add_argument("--id", metavar="NAME", help="the column that names rows, such as sample")
    tables.add_argument("--inputs", type=_names, metavar="A,B,C", help="the inputs, if not all columns that are shared")
    tables.add_argument(
        "--separator", type=_separator, metavar="CHAR", help="between columns: ',' ';' tab (default ',')"
    )
    tables.add_argument("--decimal", choices=(".", ","), metavar="CHAR", help="decimal point (default '.')")
    tables.add_argument("--encoding", metavar="NAME", help="of the tables, such as cp1252 (default UTF-8)")

    goal = suggest.add_argument_group("what is looked for")
    goal.add_argument(
        "--learn", choices=GOALS, metavar="GOAL", help="function (default), hyperparameters, model, maximum"
    )
    goal.add_argument(
        "-n", type=_at_least(0), default=1, metavar="N", help="how many suggestions (default 1; 0: only learn)"
    )
    goal.add_argument("--minimize", action="store_const", const=True, help="with --learn maximum: the minimum")
    goal.add_argument(
        "--criterion",
        choices=CRITERIA,
        metavar="NAME",
        help="another criterion than the goal's own, or random; one of " + ", ".join(CRITERIA),
    )

    model = suggest.add_argument_group("the model")
    model.add_argument(
        "--model",
        action="append",
        dest="models",
        metavar="NAME",
        help="ard, a lengthscale for each input (default up to 15 inputs); embedding, a few learned combinations of "
        "the inputs (default for more); or a kernel such as 'SE', 'LIN + PER * RQ', 'SE[time] * LIN[dose]'; give "
        "several, and they compete",
    )
    model.add_argument(
        "--components", type=_at_least(0), metavar="D", help="how many combinations, for embedding (default 2)"
    )
    model.add_argument(
        "--noise",
        type=_positive,
        metavar="SD",
        help="about how much repeated measurements differ, in units of the target",
    )
    model.add_argument(
        "--target-scale",
        type=_scale,
        metavar="TYPICAL,SPREAD",
        help="what to expect of the target, such as 18,12 (default: from the first measurements)",
    )
    model.add_argument(
        "--seed", type=_at_least(0), metavar="N", help="same seed and tables, same suggestions (default 0)"
    )

    run = suggest.add_argument_group("the run")
    run.add_argument(
        "--state", metavar="run.nc", help="the file that remembers: made by the first call, continued by the next ones"
    )
    run.add_argument(
        "--rebuild",
        action="store_true",
        help="start the run in --state again from the table, with the same options but for those given",
    )
    run.add_argument("--forget-pending", action="store_true", help="give up suggestions that have no result")

    run.add_argument(
        "--verify",
        type=_verify,
        metavar="WHEN",
        help="sometimes, or a number K for every K-th measurement: ask if the fast approximation can be trusted, and "
        "draw samples by MCMC, which takes longer, for as long as it cannot (default: never)",
    )

    results = suggest.add_argument_group("results")
    results.add_argument("--output", metavar="next.csv", help="write the suggestions as rows to fill in")
    results.add_argument("--plot", metavar="picture.png", help="draw what is known (needs the extra 'plots')")
    results.add_argument("--quiet", action="store_true", help="no notes, only the table")
    _add_debug(results)


def _add_report(commands: Any) -> None:
    report = commands.add_parser(
        "report",
        help="what a run knows by now",
        description="Print what a run of 'suggest' knows: measurements, open suggestions, the best point or the most "
        "probable model, and the hyperparameters, in your units where they have one. Changes nothing.",
    )
    report.add_argument("state", metavar="run.nc", help="the file that suggest --state wrote")
    _add_debug(report)


def _add_debug(parser: Any) -> None:
    parser.add_argument("--debug", action="store_true", help="show where an error comes from")


def _bounds(text: str) -> list:
    name, equals, ends = text.rpartition("=")
    parts = ends.split(":")
    try:
        low, high = (float(part) for part in parts)
    except ValueError:
        low = high = math.nan
    if not (equals and name.strip() and low < high and math.isfinite(low) and math.isfinite(high)):
        raise argparse.ArgumentTypeError(f"expected NAME=LOW:HIGH with LOW < HIGH, such as minutes=5:60; got {text!r}")
    return [name.strip(), low, high]


def _names(text: str) -> list[str]:
    # As in a CSV file, so that a name with a comma can be put into quotes.
    names = [name.strip() for name in next(csv.reader([text], skipinitialspace=True)) or [""]]
    if "" in names or len(set(names)) < len(names):
        raise argparse.ArgumentTypeError(f"expected different names with commas between them; got {text!r}")
    return names


def _separator(text: str) -> str:
    text = {"tab": "\t", "\\t": "\t"}.get(text, text)
    if len(text) != 1:
        raise argparse.ArgumentTypeError(f"expected a single character, or tab; got {text!r}")
    return text


def _at_least(least: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"expected a whole number, {least} or more; got {text!r}")
        return int(text)

    return read


def _verify(text: str) -> str | int:
    if text in ("never", "sometimes"):
        return text
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected sometimes, never, or a whole number from 1 on; got {text!r}")
    return int(text)


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"expected a positive number; got {text!r}")
    return value


def _scale(text: str) -> list[float]:
    try:
        typical, spread = (float(part) for part in text.split(","))
    except ValueError:
        typical = spread = math.nan
    if not (math.isfinite(typical) and 0 < spread < math.inf):
        raise argparse.ArgumentTypeError(f"expected TYPICAL,SPREAD with a positive spread, such as 18,12; got {text!r}")
    return [typical, spread]
