"""Write the tables of README.md from the JSON results: python benchmarks/readme_tables.py."""

import json
import re
from pathlib import Path

from _report import RESULTS

README = Path(__file__).parent.parent / "README.md"


def load(name: str) -> dict:
    return json.loads((RESULTS / f"{name}.json").read_text())


def markdown(header: list[str], rows: list[list[str]]) -> str:
    lines = [header, ["---"] + ["---:"] * (len(header) - 1), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def meats() -> str:
    results = load("meats")["results"]
    shown = ("10", "20", "30", "45")
    rows = []
    for method in results["table"]["rmse"]:
        row = [f"`{method}`" if "=" in method else method]
        for metric in ("rmse", "nll"):
            for n in shown:
                cell = results["table"][metric][method][n]
                row.append(f"{cell['mean']:.2f} ± {cell['sd']:.2f}")
        rows.append(row)
    header = ["", *(f"RMSE at {n}" for n in shown), *(f"NLL at {n}" for n in shown)]
    note = f"Mean ± sd over {results['n_splits']} splits; RMSE in % fat, NLL in nats."
    return markdown(header, rows) + "\n\n" + note


def mode_search() -> str:
    rows = []
    for family, row in load("mode_search")["results"]["table"].items():
        n = row["n_problems"]
        rows.append(
            [
                family,
                *(f"{row[m]['solved']} / {n}" for m in ("default", "ladder", "plain L-BFGS")),
                f"{row['default']['median_cpu_seconds']:.1f} ({row['default']['max_cpu_seconds']:.1f})",
            ]
        )
    return markdown(["problem", "`fit_laplace`", "ladder", "L-BFGS, 12 starts", "CPU s, median (max)"], rows)


def speed() -> str:
    rows = []
    for name in ("hessian", "scoring", "cold_start"):
        for t in load(name)["targets"]:
            mark = "" if t["met"] else " (missed)"
            rows.append([t["what"], f"{t['value']:.3g}{mark}", t["target"]])
    return markdown(["benchmark", "measured", "target"], rows)


def mgp() -> str:
    report = load("mgp_vs_trace")["results"]
    names = {
        "skl": "symmetrised KL, latent f",
        "skl_mixture": "the same, exact mixture",
        "skl_y": "symmetrised KL, observation",
        "nll": "NLL on test points",
    }
    rows = [
        [names[k], *(f"{c['mean']:.3f} ± {c['standard_error']:.3f}" for c in row.values())]
        for k, row in report["table"].items()
    ]
    n = len(report["data_sets"])
    ratio = sum(r["regret_ratio"] for r in report["data_sets"]) / n
    note = (
        f"Mean ± standard error over {n} data sets, nats. BALD's pick had {ratio:.2f} of the best true mutual "
        "information in a pool of 300, on average."
    )
    return markdown(["", "MAP", "BBQ", "MGP"], rows) + "\n\n" + note


def main() -> None:
    text = README.read_text()
    for table in (meats, mode_search, speed, mgp):
        marks = f"<!-- {table.__name__} -->", f"<!-- end {table.__name__} -->"
        if marks[0] in text:
            block = f"{marks[0]}\n{table()}\n{marks[1]}"
            text = re.sub(f"{marks[0]}.*?{marks[1]}", lambda _, b=block: b, text, flags=re.DOTALL)
    README.write_text(text)


if __name__ == "__main__":
    main()
