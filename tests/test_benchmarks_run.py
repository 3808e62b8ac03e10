"""The scripts of the benchmarks run: each makes its smallest records and their table."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
# They make no records: tables from the JSON, formulas that are checked in seconds, and what starts the others.
OTHERS = ("readme_tables.py", "tables.py", "theory.py", "papers.py")
SCRIPTS = sorted(
    path.relative_to(BENCHMARKS).as_posix()
    for path in BENCHMARKS.rglob("*.py")
    if path.name not in OTHERS and not path.name.startswith("_") and "__main__" in path.read_text()
)
# Of two papers; make nightly has all others.
PAPERS = ["paper_hds/figure3.py", "paper_mgp/table1.py"]

pytestmark = pytest.mark.skipif(not BENCHMARKS.is_dir(), reason="a source archive has no benchmarks")


def run(script: str) -> str:
    """What the script prints with ``--smallest``."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    command = [sys.executable, BENCHMARKS / script, "--smallest"]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.mark.parametrize("script", SCRIPTS)
def test_every_script_can_be_run_in_seconds(script):
    text = (BENCHMARKS / script).read_text()
    # The runner of those with records has it.
    assert "--smallest" in text or "from _records import" in text, "give it a run of seconds; the nightly test makes it"


@pytest.mark.slow
@pytest.mark.parametrize("script", PAPERS)
def test_the_experiments_of_the_papers_run(script):
    """Where their data are at hand: others are left out, and said to be."""
    assert "\nEngine " in run(script)


@pytest.mark.nightly
@pytest.mark.parametrize("script", [script for script in SCRIPTS if script not in PAPERS])
def test_the_other_benchmarks_run(script):
    """Peers and data that are not at hand are left out, and said to be."""
    told = run(script)
    assert "\nEngine " in told or "left out" in told or "the same when repeated" in told
