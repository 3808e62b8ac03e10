"""Imports of the package only go down, wherever they stand: at the top of a file, in a function, or for types alone."""

import ast
import importlib
import re
import subprocess
import sys
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "pymc_active"

# From the bottom up. A room imports from its own files and from the rooms above it in this list; rooms of one line do
# not know each other.
LAYERS = [
    ["support"],
    ["spaces"],
    ["kernels", "likelihoods"],
    ["posterior"],
    ["models"],
    ["information"],
    ["inference"],
    ["laplace"],
    ["particles"],
    ["process"],
    ["predictions"],
    ["paths"],
    ["structure"],
    ["criteria"],
    ["checking"],
    ["learner"],
    ["relevant_inputs"],
    ["plots"],
    ["datasets"],
    ["active", "cov", "graphs", "hds", "search", "types"],
    ["__init__"],
    ["command_line"],
    ["__main__"],
]
FLOOR = {room: floor for floor, rooms in enumerate(LAYERS) for room in rooms}

# Lines of each room at most, rounded up to 20.
BUDGETS = {
    "support": 1370,
    "spaces": 840,
    "kernels": 2290,
    "likelihoods": 960,
    "posterior": 4070,
    "models": 3410,
    "information": 260,
    "inference": 820,
    "laplace": 2330,
    "particles": 1120,
    "process": 1700,
    "predictions": 1220,
    "paths": 910,
    "structure": 1640,
    "criteria": 3460,
    "checking": 760,
    "learner": 3970,
    "relevant_inputs": 1420,
    "plots": 1430,
    "datasets": 60,
    "active": 50,
    "cov": 20,
    "graphs": 20,
    "hds": 20,
    "search": 20,
    "types": 20,
    "__init__": 20,
    "command_line": 500,
    "__main__": 140,
}


def name_of(path):
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(path): path for path in sorted(PACKAGE.rglob("*.py"))}


@cache
def parsed(path):
    return ast.parse(path.read_text())


def room_of(module):
    return module.split(".")[1] if "." in module else "__init__"


def imported_by(module):
    """Modules of the package that any line of a module imports."""
    for node in ast.walk(parsed(MODULES[module])):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "pymc_active":
            for alias in node.names:
                submodule = f"{node.module}.{alias.name}"
                yield node.lineno, submodule if submodule in MODULES else node.module
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "pymc_active":
                    yield node.lineno, alias.name


def test_every_room_has_a_floor():
    assert {room_of(module) for module in MODULES} == set(FLOOR)


@pytest.mark.parametrize("room", sorted(FLOOR))
def test_imports_only_go_down(room):
    upward = [
        f"{module}:{line} imports {other}"
        for module in MODULES
        if room_of(module) == room
        for line, other in imported_by(module)
        if room_of(other) != room and FLOOR[room_of(other)] >= FLOOR[room]
    ]
    assert not upward


def test_no_files_import_each_other_in_a_circle():
    graph = {module: {other for _, other in imported_by(module)} - {module} for module in MODULES}
    TopologicalSorter(graph).prepare()  # raises a CycleError that names the files


@pytest.mark.parametrize("folder", ["benchmarks", "tests", "tools"])
def test_what_runs_seldom_imports_what_there_is(folder):
    """Benchmarks import inside functions, which nothing else notices."""
    missing = [
        f"{path}:{node.lineno} imports {alias.name} from {node.module}"
        for path in sorted((PACKAGE.parent / folder).rglob("*.py"))
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "pymc_active"
        for alias in node.names
        if f"{node.module}.{alias.name}" not in MODULES
        and not (node.module in MODULES and hasattr(importlib.import_module(node.module), alias.name))
    ]
    assert not missing


def test_every_room_keeps_its_budget():
    """A budget falls with what leaves the room; it rises only where it is said what leaves for it."""
    lines = dict.fromkeys(FLOOR, 0)
    for module, path in MODULES.items():
        lines[room_of(module)] += len(path.read_text().splitlines())
    assert {room: n for room, n in lines.items() if n > BUDGETS[room]} == {}
    # No room keeps what it does not use.
    assert {room: BUDGETS[room] for room, n in lines.items() if n <= BUDGETS[room] - 40} == {}


def test_only_the_engines_ask_which_kind_of_fit_they_have():
    """Everything else sees a Fit and its ensemble, so that another inference method needs no change elsewhere."""
    asked = [
        f"{module}, line {node.lineno}"
        for module, path in MODULES.items()
        if room_of(module) not in ("laplace", "particles")
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("isinstance", "issubclass")
        if {getattr(name, "id", "") for name in ast.walk(node.args[1])} & {"ParticleFit", "LaplaceFit"}
    ]
    assert not asked


def test_what_is_at_the_bottom_can_be_imported_first():
    """And pictures need no matplotlib before they are drawn."""
    code = "import pymc_active.posterior.array, pymc_active.posterior.graph, pymc_active.plots, sys"
    subprocess.run([sys.executable, "-c", f"{code}; sys.exit('matplotlib' in sys.modules)"], check=True)


def test_what_takes_long_to_load_is_loaded_where_it_is_used():
    slow = [
        f"{module}, line {node.lineno}"
        for module, path in MODULES.items()
        for node in parsed(path).body
        if isinstance(node, ast.Import | ast.ImportFrom) and re.search(r"scipy(\.| import .*)stats", ast.unparse(node))
    ]
    assert not slow


def test_a_question_to_a_pool_loads_nothing_that_it_does_not_need():
    """What takes long to load."""
    code = """
import sys
import numpy as np
import pymc_active as pma

X = np.random.default_rng(0).uniform(size=(18, 2))
pma.Learner(pma.ard_gp(X[:6], X[:6].sum(1)), "function", pool=X[6:], random_seed=1).ask()
slow = {"matplotlib", "scipy.optimize", "scipy.stats", "scipy.spatial", "numba"}
sys.exit(", ".join(slow & set(sys.modules)) or None)
"""
    subprocess.run([sys.executable, "-c", code], check=True)
