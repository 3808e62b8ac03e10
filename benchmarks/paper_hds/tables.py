"""Write the tables of this folder's README from the JSON results: python benchmarks/paper_hds/tables.py."""

from functools import partial
from pathlib import Path

import _above  # noqa: F401
from _runs import METHODS, plus_minus
from _tables import fill, markdown
from _tables import load as load_report

HERE = Path(__file__).parent
load = partial(load_report, folder=HERE / "results")


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
    note = f"\n\n{' to '.join(map(str, sorted({min(trials), max(trials)})))} trials in each setting."
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
    reports = HERE / "results"
    fill(
        [HERE / "README.md"],
        [t for t in (figure2, table1, figure3, figure5) if (reports / f"{t.__name__}.json").exists()],
    )


if __name__ == "__main__":
    main()
