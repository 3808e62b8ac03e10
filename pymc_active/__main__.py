"""Command line: ``pymc-active suggest measurements.csv ...``, or ``python -m pymc_active ...``."""

from __future__ import annotations

import os
import re
import sys
import warnings
from argparse import Namespace
from collections.abc import Mapping, Sequence

from pymc_active.command_line.options import make_parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command with these arguments, or with those of the process.

    Returns 0, 130 after Ctrl-C, or 2 if options or files are wrong; one line on standard error says what.
    """
    parser = make_parser()
    given = parser.parse_args(arguments)
    try:
        _run(given)
    except BrokenPipeError:
        # Whoever reads has enough, as ``head`` does; nothing is left to flush.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (ImportError, OSError, ValueError) as error:
        if given.debug:
            raise
        print(f"{parser.prog} {given.command}: error: {_in_one_line(str(error))}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    return 0


def _in_one_line(message: str) -> str:
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    if "^" in lines:
        # What stands above marks a position.
        marked = lines.index("^")
        lines[marked - 1 : marked + 1] = [f"(in {lines[marked - 1]!r})"]
    return " ".join(lines)


def _run(given: Namespace) -> None:
    # Imported late, so that --help loads neither samplers nor plots.
    from pymc_active.command_line import report, suggest
    from pymc_active.command_line.output import Console

    console = Console(quiet=given.command == "suggest" and given.quiet)
    with warnings.catch_warnings(record=True) as caught:
        warnings.filterwarnings("always", category=UserWarning)
        if given.command == "report":
            report.report(given.state, console)
        else:
            suggest.suggest(given, console)
    for text in dict.fromkeys(_for_tables(one, console.rows) for one in caught):
        console.note(text)


def _for_tables(warning: warnings.WarningMessage, rows: Mapping[str, str]) -> str:
    """A warning, without advice on what to write in Python, and with the table's own names of ``rows``."""
    from pymc_active.support.user_warnings import EvaluationWarning, OutlierWarning, OutputScaleWarning

    text = str(warning.message)
    if issubclass(warning.category, EvaluationWarning) and "stay pending" in text:
        what = re.sub(r"^\d+ of \d+ point\(s\) told, .* of x,", "new measurements", text.partition(". If they are")[0])
        return f"{what} until --forget-pending gives them up: measure as suggested"
    if not issubclass(warning.category, OutputScaleWarning | OutlierWarning):
        return text
    text = re.sub(r"^y\[\d+\] = (\S+)", lambda found: rows.get(found[1], f"the value {found[1]}"), text)
    if issubclass(warning.category, OutlierWarning):
        return f"{text.partition('. If ')[0]}. If it is a slip, correct it; if the experiment failed, write 'failed'"
    text, _, advice = text.replace("tell NaN", "write 'failed'").partition(". Make ")
    if not advice:
        return text
    # The map is the logarithm only where all outputs are positive.
    column = "its logarithm" if "(log)" in text else "a root or a power of it that spreads the values more evenly"
    return f"{text}. Add a column with {column}, and name that one as the --target"


if __name__ == "__main__":
    sys.exit(main())
