"""Command line: ``pymc-active suggest measurements.csv ...``, or ``python -m pymc_active ...``."""

import csv
import sys
from argparse import ArgumentParser, ArgumentTypeError, RawDescriptionHelpFormatter
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from pymc_active import __version__

_GOALS = ("function", "hyperparameters", "model", "maximum")
_ABOUT = """\
Suggest what to measure next, from a table of the measurements made so far and a table of those that could be made:

  pymc-active suggest measurements.csv --target fat --id sample --candidates pool.csv -n 5 --state run.nc

  measurements.csv, one row per measurement:    pool.csv, one row per candidate:

    sample,moisture,density,fat                   sample,moisture,density
    M001,60.5,1.061,22.5                          M001,60.5,1.061
    M017,46.0,1.021,failed                        M002,71.0,1.079
    M020,71.0,1.083,                              M003,72.8,1.085

The inputs are the columns that both tables share, except --target and --id. A cell of the target is a number, empty
while there is no result, or 'failed' if there never will be: suggestions are then weighed by the probability that the
experiment works. With --id, a candidate whose id was measured is not suggested again, otherwise one with equal inputs.
"""
_MORE = """\
Tables: commas, semicolons, tabs or blanks separate the columns; UTF-8 or UTF-16; Excel, if pandas can read it.

Goals: 'function' measures what makes predictions of all candidates most certain; 'hyperparameters' what the model
leaves open, such as how much each input matters; 'model' which of several kernels is right; 'maximum' where the target
is largest (smallest with --minimize).

Next time: add the results to measurements.csv, in any order and with others of your own, and repeat the command.
--state remembers the model and the suggestions; those without a result stay open and are taken into account. If a
number has changed or vanished, an error names its row. --rebuild then begins again from the tables, with the options
of this call: open suggestions stay open, and the inputs are found anew.

The best settings, anywhere in a range:
  pymc-active suggest trials.csv --target yield --learn maximum --bounds temperature=40:120 minutes=5:60 --state run.nc

With labels, steps of 50, and parts that add up to one (of candidates, columns of text are labels by themselves):
  pymc-active suggest trials.csv --target yield --learn maximum --bounds stir=100:600:50 salt=0:1 sugar=0:1
    --categorical solvent=DMF,MeCN,water --constraint "salt + sugar == 1" --state run.nc
"""


def _goal(text: str) -> str:
    if text in _GOALS:
        return text
    raise ArgumentTypeError(f"expected one of {', '.join(_GOALS)} (minimum: --learn maximum --minimize); got {text!r}")


def _bounds(text: str) -> list:
    name, _, ends = text.rpartition("=")
    with suppress(ValueError):
        low, high, *step = map(float, ends.split(":"))
        if name and low < high and len(step) < 2 and min(step, default=1.0) > 0:
            return [name, low, high, *step]
    raise ArgumentTypeError(f"expected NAME=LOW:HIGH or NAME=LOW:HIGH:STEP, such as minutes=5:60; got {text!r}")


def _labels(text: str) -> list:
    name, _, labels = text.partition("=")
    # A label with a comma stands between quotes.
    return [name, *(label.strip() for row in csv.reader([labels], skipinitialspace=True) for label in row if label)]


def make_parser() -> ArgumentParser:
    """All commands."""
    parser = ArgumentParser(prog="pymc-active", description="Which measurement next?")
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", required=True)
    usage = "%(prog)s measurements.csv --target NAME (--candidates pool.csv | --bounds NAME=LOW:HIGH ...) "
    usage += "--state run.nc [options]"
    suggest = commands.add_parser("suggest", help="from two tables to the rows worth measuring", usage=usage)
    suggest.description, suggest.epilog = _ABOUT, _MORE
    suggest.formatter_class = RawDescriptionHelpFormatter
    add = suggest.add_argument
    add("measurements", metavar="measurements.csv")
    add("--target", required=True, metavar="NAME", help="the column with the results")
    where = suggest.add_mutually_exclusive_group(required=True)
    where.add_argument("--candidates", metavar="pool.csv", help="what could be measured, one row each")
    several: dict[str, Any] = {"nargs": "+", "action": "extend"}
    text = "instead: the ranges of all inputs, in which any point may be measured"
    where.add_argument("--bounds", **several, type=_bounds, metavar="NAME=LOW:HIGH[:STEP]", help=text)
    text = "inputs whose values are labels: in a box with all of them, of candidates where these look like numbers"
    add("--categorical", **several, type=_labels, metavar="NAME[=A,B]", help=text)
    text = "what must hold in a box, such as 'salt + sugar == 1' or 'x1 <= 2 * x2'"
    add("--constraint", action="append", metavar="TEXT", help=text)
    add("--id", metavar="NAME", help="the column that names rows, such as sample")
    add("--inputs", **several, metavar="NAME", help="the inputs, if not all columns that both tables share")
    add("--decimal", choices=".,", default=".", metavar="CHAR", help="the decimal point (default .)")
    add("--learn", type=_goal, default="function", metavar="GOAL", help=f"{', '.join(_GOALS)} (default function)")
    add("--minimize", action="store_true", help="with --learn maximum: look for the minimum")
    text = "what the target is: a measurement (default), a skewed one, yes or no as 1 and 0, or counts"
    add("--outcome", choices=("measurement", "skewed", "yesno", "counts"), default="measurement", help=text)
    add("-n", type=int, default=1, metavar="N", help="number of suggestions (default 1); 0 shows the open ones")
    add("--criterion", metavar="NAME", help="replaces the criterion of the goal: a name that Learner knows")
    text = "ard (default up to 15 inputs), embedding (two learned combinations), kernels such as 'LIN + SE[time]'"
    add("--model", **several, metavar="NAME", help=text)
    add("--noise", type=float, metavar="SD", help="standard deviation of repeated measurements, if you know it")
    add("--error", metavar="NAME", help="the column with the standard deviation of each result, beside that noise")
    add("--seed", type=int, default=0, metavar="N", help="same seed and tables, same suggestions (default 0)")
    add("--state", required=True, metavar="run.nc", help="the file of the run, which the first call makes")
    add("--rebuild", action="store_true", help="begin the run again, and keep the old one as run.nc.before; see below")
    add("--forget-pending", action="store_true", help="give up suggestions that have no result")
    add("--output", metavar="next.csv", help="write the suggestions as rows to fill in")
    add("--plot", metavar="run.png", help="draw what is known (needs the extra 'plots')")
    report = commands.add_parser("report", help="what a run knows by now", description="Print what a run knows by now.")
    report.add_argument("state", metavar="run.nc", help="the file that suggest --state wrote; it stays as it is")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; 0, 130 after Ctrl-C, or 2 if options or files are wrong, which standard error explains."""
    parser = make_parser()
    args = parser.parse_args(arguments)
    # Imported late, so that --help loads neither samplers nor plots.
    from pymc_active.command_line.suggest import report, suggest

    try:
        report(args.state) if args.command == "report" else suggest(args)
    except (ImportError, OSError, ValueError) as error:
        print(f"{parser.prog} {args.command}: error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
