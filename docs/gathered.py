"""Copies pages from elsewhere: the notebooks, the READMEs of benchmarks/, and the help of the command line.

The copies are in folders that git ignores. A file is only written if it changes, so that Sphinx reads no more than it
has to.
"""

import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent
PAPERS = ("paper_mgp", "paper_bams", "paper_pes", "paper_hds")
COMMANDS = ("suggest", "report")

# The README of each paper's experiments is a page of its own below the page of all benchmarks.
BELOW = "\n```{toctree}\n:hidden:\n\n" + "\n".join((*PAPERS, "answered")) + "\n```\n"


def setup(app):
    app.connect("builder-inited", lambda app: gather())
    app.connect("env-before-read-docs", lambda app, env, names: spread(names))
    return {"parallel_read_safe": True}


def gather():
    write("notebooks", {path.name: path.read_text() for path in sorted((ROOT / "notebooks").glob("*.ipynb"))})
    pages = {f"{paper}.md": benchmark_page(f"benchmarks/{paper}/README.md") for paper in PAPERS}
    pages["answered.md"] = benchmark_page("benchmarks/answered.md")
    write("benchmarks", {"index.md": benchmark_page("benchmarks/README.md") + BELOW, **pages})
    write("command_line", {f"{command}.txt": help_of(command) for command in COMMANDS})


def spread(names):
    """Put the notebooks, which take long, at equal distances: processes read neighbours one after another."""
    notebooks = [name for name in names if name.startswith("notebooks/")]
    others = [name for name in names if name not in notebooks]
    step = len(others) // max(len(notebooks), 1)
    names[:] = [name for k, one in enumerate(notebooks) for name in (one, *others[k * step : (k + 1) * step])]
    names += others[len(notebooks) * step :]


def write(folder, contents):
    target = HERE / folder
    target.mkdir(exist_ok=True)
    for path in target.iterdir():
        if path.is_file() and path.name not in contents:
            path.unlink()
    for name, text in contents.items():
        path = target / name
        if not path.is_file() or path.read_text() != text:
            path.write_text(text)


def benchmark_page(readme):
    """The text of a README, with its links to other READMEs and to pictures changed for docs/benchmarks/."""

    def moved(match):
        target, mark, anchor = match["target"].partition("#")
        path = Path(readme).parent / target
        folder = path.parent if path.name == "README.md" else path
        if folder.name in PAPERS:
            target = f"{folder.name}.md"
        elif path.suffix == ".png":
            target = f"../../{path.as_posix()}"
        return f"]({target}{mark}{anchor})"

    return re.sub(r"\]\((?P<target>(?!https?:)[^)#]+(#[^)]*)?)\)", moved, (ROOT / readme).read_text())


def help_of(command):
    call = [sys.executable, "-m", "pymc_active", command, "--help"]
    return subprocess.run(call, check=True, capture_output=True, text=True).stdout
