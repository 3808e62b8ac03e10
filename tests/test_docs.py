"""The documentation: every public name has a place and says what it is, and the numbers are those of the results."""

import inspect
import json
import re
import shutil
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest
from test_imports import LAYERS

ROOT = Path(__file__).parent.parent
NAMESPACES = ("", "active", "cov", "datasets", "graphs", "kernels", "plots", "search")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (ROOT / "docs").is_dir(), reason="a source archive has no documentation"),
]


def public_names() -> dict[str, object]:
    """What users may import, by its full name."""
    found = {}
    for namespace in NAMESPACES:
        module = import_module(f"pymc_active.{namespace}".rstrip("."))
        names = getattr(module, "__all__", None) or [
            name
            for name, value in vars(module).items()
            if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
        ]
        found |= {f"{module.__name__}.{name}": getattr(module, name) for name in names}
    return {name: value for name, value in found.items() if not isinstance(value, ModuleType)}


def names_on_the_pages() -> set[str]:
    found = set()
    for page in sorted((ROOT / "docs" / "api").glob("*.md")):
        namespace = ""
        for line in page.read_text().splitlines():
            if line.startswith(".. currentmodule:: "):
                namespace = line.split()[-1]
            elif re.fullmatch(r"   [\w.]+", line):
                found.add(f"{namespace}.{line.strip()}")
    return found


def test_every_public_name_is_on_a_page_of_the_api():
    names, shown = public_names(), names_on_the_pages()
    # One object under two names has one page.
    known = {id(value) for name, value in names.items() if name in shown}
    missing = sorted(name for name, value in names.items() if id(value) not in known)
    assert not missing, f"add to a page of docs/api: {', '.join(missing)}"


def test_every_type_of_a_signature_is_on_their_page():
    page = (ROOT / "docs" / "api" / "types.md").read_text()
    assert sorted(re.findall(r"^\| `(\w+)`", page, re.MULTILINE)) == import_module("pymc_active.types").__all__


def test_every_public_name_says_what_it_is():
    silent = [name for name, value in public_names().items() if callable(value) and not inspect.getdoc(value)]
    for name, value in public_names().items():
        if inspect.isclass(value):
            silent += [
                f"{name}.{key}"
                for key, member in vars(value).items()
                if not key.startswith("_")
                and (inspect.isroutine(member) or isinstance(member, property))
                and not inspect.getdoc(getattr(value, key))
            ]
    assert not silent, f"without a docstring: {', '.join(silent)}"


def test_files_that_are_named_exist():
    for page in (ROOT / "docs").glob("*.md"):
        for name in re.findall(r"`((?:tests/|benchmarks/|results/|paper_|test_)[\w/.]+)`", page.read_text()):
            assert any((ROOT / folder / name).exists() for folder in (".", "tests", "benchmarks")), (
                f"{page.name}: {name}"
            )


@pytest.mark.parametrize("script", ["readme_tables.py", "paper_hds/tables.py"])
def test_tables_are_those_of_the_committed_results(script, tmp_path):
    shutil.copytree(ROOT / "benchmarks", tmp_path / "benchmarks", ignore=shutil.ignore_patterns(".venv*", "*_parts"))
    shutil.copy(ROOT / "README.md", tmp_path)
    subprocess.run([sys.executable, tmp_path / "benchmarks" / script], check=True)
    for page in [Path("README.md"), *sorted(p.relative_to(ROOT) for p in ROOT.glob("benchmarks/**/README.md"))]:
        if ".venv" not in str(page):
            assert (tmp_path / page).read_text() == (ROOT / page).read_text(), f"run python benchmarks/{script}"


def test_numbers_and_tables_of_the_pages_are_there():
    """Also those that a page takes from another one."""
    subprocess.run([sys.executable, ROOT / "docs" / "results.py"], check=True)


def test_a_block_of_two_engines_says_which_report_is_of_which(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    tables = import_module("_tables")
    (tmp_path / "new.json").write_text(json.dumps({"engine": 7, "commits": ["abc", "def"]}))
    (tmp_path / "old.json").write_text("{}")
    for name in ("new", "old"):
        tables.load(name, tmp_path)
    assert tables.made_by() == "`new`: Engine 7, commits abc, def. `old`: Engine 0 (before engines were numbered)."


def test_the_page_of_the_papers_can_be_built_while_records_are_missing(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs")
    claims = import_module("claims")

    def names(numbers, above=""):
        inside = [names(v, f"{above}.{k}") if isinstance(v, dict) else {f"{above}.{k}"} for k, v in numbers.items()]
        return set().union(*inside)

    known = claims.papers()
    used = re.findall(r"{{ papers(\.[\w.]+) }}", (ROOT / "docs" / "papers.md").read_text())
    assert set(used) <= names(known)
    results = {name: claims.report(name)["results"] for name in ("outside/results/optimum",)}
    empty = {"table": {}, "cells": {}, "slopes": {}}
    tables = (
        "paper_mgp/results/table1",
        "paper_mgp/results/table2",
        "paper_hds/results/figure2",
        "paper_hds/results/table1",
    )
    monkeypatch.setattr(claims, "report", lambda name: {"results": results.get(name, empty if name in tables else {})})
    monkeypatch.setattr(claims, "records", lambda name: {})
    assert names(claims.papers()) == names(known)


def test_the_citation_is_of_this_version():
    citation = (ROOT / "CITATION.cff").read_text()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert f"\nversion: {project['version']}\n" in citation
    assert f"\nlicense: {project['license']}\n" in citation


def test_the_architecture_page_names_rooms_and_files_that_exist():
    page = (ROOT / "docs" / "architecture.md").read_text()
    first_cells = re.findall(r"^\| (`.*?) \|", page.split("## A row of data")[0], re.MULTILINE)
    rooms = re.findall(r"`(\w+)(?:/|\.py)`", " ".join(first_cells))
    assert set(rooms) == {room for row in LAYERS for room in row} - {"__main__"}
    paths = re.findall(r"`([\w/]+\.py)`", page)
    missing = [path for path in paths if not any((ROOT / top / path).exists() for top in ("pymc_active", "."))]
    assert not missing
    walk = re.findall(r"^\d+\. `([\w/]+\.py)`", page, re.MULTILINE)
    assert len(walk) == len(set(walk)) <= 20
