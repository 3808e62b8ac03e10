"""Which tables and figures of the four papers still lack records, and which are made next?

``python -m benchmarks.papers --minutes 90`` makes missing records. A step is a script of a paper's folder, in a process
of its own at lowest priority. Steps have ten minutes in turn, again and again, those with the smallest share of their
records first, until the time is up; a record that was begun is finished. ``--list`` prints how many records of this
engine each step has and wants. ``readme_tables.py`` and ``paper_hds/tables.py`` then write the tables of the pages.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from pymc_active import ENGINE

HERE, SLICE = Path(__file__).resolve().parent, 10.0


class Step(NamedTuple):
    """What a script makes: ``wanted`` records at most, of rows whose names contain ``rows``, the first ``repeats``."""

    script: str
    wanted: int
    rows: str = ""
    repeats: int = 1000

    def __str__(self) -> str:
        return f"{self.made():4d} of {self.wanted:4d}  {self.script} {self.rows}"

    def made(self) -> int:
        path = (HERE / self.script).parent / "results" / f"{Path(self.script).stem}.jsonl"
        records = map(json.loads, path.read_text().splitlines() if path.exists() else [])
        mine = [r for r in records if self.rows in r["row"] and r["repeat"] < self.repeats]
        return sum(r.get("engine", 0) == ENGINE for r in mine)

    def run(self, minutes: float) -> bool:
        """Whether its time was up before everything was made."""
        command = [sys.executable, str(HERE / self.script), "--minutes", f"{minutes:.2f}"]
        command += ["--rows", self.rows, "--repeats", str(self.repeats)]
        ended = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        print(ended.stdout + f"{self}, code {ended.returncode}", flush=True)
        return "time is up\n" in ended.stdout


STEPS = (
    Step("paper_mgp/table1.py", 6 * 58),
    Step("paper_bams/table1.py", 18 * 9),  # which kernel is best, for figure 2
    Step("paper_bams/figure2.py", 4 * 20, "wide noise, located LIN", 10),
    Step("paper_pes/figure3.py", 6 * 3 * 60),
    Step("paper_pes/figure4.py", 6 * 2 * 60),
    Step("paper_pes/figure2.py", 6 * 100 + 3 * 40),
    Step("paper_mgp/table2.py", 11 * 11 * 5),
    Step("paper_hds/figure5.py", 6 * 3 * 20),
    Step("paper_hds/table1.py", 16 * 6 * 2),
    Step("paper_hds/figure3.py", 12 * 2 * 5),
    Step("paper_hds/figure2.py", 9 * 4 * 5),
    Step("paper_bams/figure2.py", 4 * 20, "toolbox noise, rooted LIN", 10),
    Step("paper_pes/figure1.py", 13 * 2 * 10),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=90.0, help="start no record after so many minutes")
    parser.add_argument("--list", action="store_true", help="steps and numbers of records only")
    arguments = parser.parse_args()
    if arguments.list:
        print(*STEPS, sep="\n")
        return
    os.nice(19)
    end = time.monotonic() + 60 * arguments.minutes
    steps = sorted((s for s in STEPS if s.made() < s.wanted), key=lambda step: step.made() / step.wanted)
    while steps:
        for step in list(steps):
            if (left := (end - time.monotonic()) / 60) <= 0:
                print("time is up")
                return
            print(step, flush=True)
            if not step.run(min(SLICE, left)):
                steps.remove(step)
    print("nothing more can be made: what is missing needs data or packages that are not here")


if __name__ == "__main__":
    main()
