"""The parts of the package know each other in one direction, so that any of them can be imported first."""

import ast
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "pymc_active"


def imported_when_loaded():
    """Part -> the parts that loading any of its modules loads. What functions and type checkers import is left out."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("pymc_active."):
                found.setdefault(parts[0], set()).add(node.module.split(".")[1])
    return {name: others - {name} for name, others in found.items()}


def test_parts_of_the_package_import_each_other_in_one_direction():
    TopologicalSorter(imported_when_loaded()).prepare()  # raises a CycleError that names the parts


def test_what_is_at_the_bottom_can_be_imported_first():
    code = "import pymc_active.posterior.array, pymc_active.posterior.graph"
    subprocess.run([sys.executable, "-c", code], check=True)
