"""Tables in README files: read the reports, write the blocks, name the engine and the commits that made them."""

import json
import re
from collections.abc import Callable
from pathlib import Path

from _report import RESULTS

# Who made the reports that the present block has read, by name.
READ: dict[str, str] = {}


def load(name: str, folder: Path = RESULTS) -> dict:
    report = json.loads((folder / f"{name}.json").read_text())
    engine, commits = report.get("engine", 0), report.get("commits", [])
    by_commits = f", commits {', '.join(commits)}" if commits else ""
    READ[Path(name).name] = f"Engine {engine}{by_commits}" if engine else "Engine 0 (before engines were numbered)"
    return report


def made_by() -> str:
    """One line for a block; if its reports were made by several engines or commits, each is named."""
    if len(makers := set(READ.values())) == 1:
        return f"{makers.pop()}."
    return " ".join(f"`{name}`: {maker}." for name, maker in READ.items())


def markdown(header: list[str], rows: list[list[str]]) -> str:
    lines = [header, ["---"] + ["---:"] * (len(header) - 1), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def fill(pages: list[Path], tables: list[Callable[[], str]]) -> None:
    """Write each table between its two marks in the pages that hold them."""
    for page in pages:
        text = page.read_text()
        for table in tables:
            marks = f"<!-- {table.__name__} -->", f"<!-- end {table.__name__} -->"
            if marks[0] not in text:
                continue
            READ.clear()
            block = f"{marks[0]}\n{table()}\n\n{made_by()}\n{marks[1]}"
            text = re.sub(f"{marks[0]}.*?{marks[1]}", lambda _, b=block: b, text, flags=re.DOTALL)
        page.write_text(text)
