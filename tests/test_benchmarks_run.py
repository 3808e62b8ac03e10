"""The scripts of the benchmarks run: each makes its smallest records and their table."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
PAPERS = sorted(
    p.relative_to(BENCHMARKS).as_posix() for p in BENCHMARKS.glob("paper_*/*.py") if "--smallest" in p.read_text()
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not BENCHMARKS.is_dir(), reason="a source archive has no benchmarks"),
]


@pytest.mark.parametrize("script", PAPERS)
def test_the_experiments_of_the_papers_run(script):
    """Where their data are at hand: others are left out, and said to be."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    command = [sys.executable, BENCHMARKS / script, "--smallest"]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert "\nEngine " in ended.stdout
