"""Write the tables of this folder's README from the JSON results: python benchmarks/paper_hds/tables.py."""

import json
import re
from pathlib import Path

import _above  # noqa: F401
from _runs import METHODS, plus_minus
from variants import LABELS as VARIANTS

HERE = Path(__file__).parent


def load(name: str) -> dict:
    return json.loads((HERE / "results" / f"{name}.json").read_text())


def markdown(header: list[str], rows: list[list[str]]) -> str:
    lines = [header, ["---"] + ["---:"] * (len(header) - 1), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def score(cell: dict | None) -> str:
    """Evaluations (three standard errors) and accuracy."""
    return f"{plus_minus(cell['evaluations'])} ({cell['accuracy']['mean']:.2f})" if cell else ""


def figure2() -> str:
    results = load("figure2")["results"]
    methods = [m for m in METHODS if m in next(iter(results["cells"].values()))]
    rows = []
    for row, cells in results["cells"].items():
        D, noise = (part.partition("=")[2] for part in row.split(", "))
        rows.append([f"D = {D}, σ² = {noise}", *(score(cells.get(m)) for m in methods)])
    rows.append(["paper, D = 200, σ² = 0.1", *(f"{results['paper'].get(m, '')}" for m in methods)])
    for what, label in (
        ("per_doubling", "slope per doubling of D ± se"),
        ("per_input", "slope per input ± se"),
        ("per_tenth_of_noise", "slope per 0.1 of σ² ± se"),
    ):
        fitted = [results["slopes"].get(m, {}).get(what) for m in methods]
        rows.append([label, *(f"{s['mean']:.1f} ± {s['standard_error']:.1f}" if s else "" for s in fitted)])
    trials = {c["accuracy"]["n"] for cells in results["cells"].values() for c in cells.values()}
    return markdown(["", *(METHODS[m][0] for m in methods)], rows) + f"\n\n{min(trials)} draws in each setting."


def default() -> str:
    results = load("default")["results"]
    rows = [
        [
            name,
            str(c["accuracy"]["n"]),
            "{mean:.3f} [{low:.3f}, {high:.3f}]".format(**c["accuracy"]),
            plus_minus(c["evaluations"]),
            f"{c['warned']:.3f}",
        ]
        for name, c in results["cells"].items()
    ]
    table = markdown(["D = 200", "trials", "accuracy, 95 %", "evaluations", "warned"], rows)
    rows = [
        [
            "yes" if run["right"][0] else "no",
            str(run["evaluations"][0]),
            str(run["nodes"]),
            *("{median:.1f} ({largest:.0f})".format(**run[what]) for what in ("ask_ms", "tell_ms")),
            f"{run['wall_seconds']:.1f}",
            str(run["peak_memory_mb"]),
        ]
        for run in results["large"]
    ]
    header = [
        "D = 100,000: right",
        "evaluations",
        "nodes",
        "ms an ask (longest)",
        "ms a tell",
        "s in all",
        "MB at most",
    ]
    return table + "\n\n" + markdown(header, rows)


def variants() -> str:
    """Methods down, settings across: evaluations (three standard errors) and accuracy."""
    results = load("variants")["results"]
    parts = []
    for what, rows in (
        ("draws, scales known", [row for row in results if row.startswith("d=")]),
        ("raw functions, scales estimated", [row for row in results if not row.startswith("d=")]),
    ):
        methods = [m for m in VARIANTS if any(m in results[row] for row in rows)]
        trials = {c["accuracy"]["n"] for row in rows for c in results[row].values()}
        span = sorted({min(trials), max(trials)})
        lines = [[VARIANTS[m], *(score(results[row].get(m)) for row in rows)] for m in methods]
        names = [row.replace("noise", "σ²").removesuffix(", raw") for row in rows]
        parts.append(markdown([what, *names], lines) + f"\n\n{' to '.join(map(str, span))} trials each.")
    return "\n\n".join(parts)


def table1() -> str:
    results = load("table1")["results"]
    found = {m for cells in results["cells"].values() for m in cells}
    methods = [m for m in METHODS if m in found]
    rows = []
    for row, cells in results["cells"].items():
        name, _, scale = row.rpartition(", ")
        paper = results["paper_accuracy"].get(name, {})
        printed = "/".join(f"{paper[m]:g}" for m in ("fdt", "gpt", "cws")) if paper else ""
        rows.append([f"{name}, {scale}", printed, *(score(cells.get(m)) for m in methods)])
    trials = {c["accuracy"]["n"] for cells in results["cells"].values() for c in cells.values()}
    note = f"\n\n{min(trials)} to {max(trials)} trials in each setting."
    return markdown(["", "paper: FDT/GPT/CWS", *(METHODS[m][0] for m in methods)], rows) + note


def figure3() -> str:
    rows = []
    for row, cells in load("figure3")["results"].items():
        for method, cell in cells.items():
            shown = [f"{cell[k]:.2f}" for k in ("warned", "wrong_without_warning")]
            rows.append([row, METHODS[method][0], str(cell["accuracy"]["n"]), score(cell), *shown])
    return markdown(["told", "test", "trials", "evaluations (accuracy)", "warned", "silent"], rows)


def figure5() -> str:
    labels = {"hds_ucb": "HDS, then GP-UCB", "ucb": "GP-UCB on all inputs", "random": "random"}
    rows = []
    for row, cells in load("figure5")["results"].items():
        for method, cell in cells.items():
            last = [f"{cell[w][-1]:.2f} ± {3 * cell[f'{w}_error'][-1]:.2f}" for w in ("average", "minimum")]
            gains = [cell.get(f"{w}_gain") for w in ("average", "minimum")]
            selection = f"{cell['selection']:.0f}" if cell["selection"] else ""
            shown = [plus_minus(g, "+.2f").replace("± +", "± ") if g else "" for g in gains]
            rows.append([row, labels[method], str(cell["trials"]), selection, *last, *shown])
    header = ["", "", "trials", "for the selection", "average regret", "smallest", "gain, average", "gain, smallest"]
    return markdown(header, rows)


def main() -> None:
    page = HERE / "README.md"
    text = page.read_text()
    for table in (figure2, default, variants, table1, figure3, figure5):
        if not (HERE / "results" / f"{table.__name__}.json").exists():
            continue
        marks = f"<!-- {table.__name__} -->", f"<!-- end {table.__name__} -->"
        block = f"{marks[0]}\n{table()}\n{marks[1]}"
        text = re.sub(f"{marks[0]}.*?{marks[1]}", lambda _, b=block: b, text, flags=re.DOTALL)
    page.write_text(text)


if __name__ == "__main__":
    main()
