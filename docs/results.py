"""Numbers for the pages, from the committed results of the benchmarks: none of them is typed into a page.

``NUMBERS`` is what ``{{ ... }}`` on a page refers to. A missing file or key fails the build.
"""

import json
import re
from pathlib import Path

from claims import papers, records

ROOT = Path(__file__).parent.parent
BENCHMARKS = ROOT / "benchmarks"


def load(name):
    return json.loads((BENCHMARKS / f"{name}.json").read_text())


def marked(page, name):
    """A table that benchmarks/readme_tables.py wrote between its marks in a README; tests/test_docs.py compares."""
    found = re.search(f"<!-- {name} -->\n(.*?)\n<!-- end {name} -->", (ROOT / page).read_text(), flags=re.DOTALL)
    if not found:
        raise KeyError(f"{page} has no table {name!r}")
    return found[1]


def markdown(header, rows):
    lines = [header, ["---"] + ["---:"] * (len(header) - 1), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def asking():
    """CPU seconds of a step by goal and number of points."""
    rows, found = [], load("results/asking")["results"]["rows"]
    sizes = sorted({row["n"] for row in found})
    labels = {
        "function": "the function, 2 inputs",
        "hyperparameters": "hyperparameters, 2 inputs",
        "maximum": "the maximum, 2 inputs, in a box",
        "maximum 6": "the maximum, 6 inputs, in a box",
        "embedding": "hyperparameters of an embedding, 10 inputs in 2 components",
        "model": "the kernel, among 4",
        "model 18": "the kernel, among 18",
    }
    for goal, label in labels.items():
        cells = {row["n"]: row["this"] for row in found if row["goal"] == goal}
        shown = [f"{cells[n]['step']:.2g} ({cells[n]['first']:.2g})" if n in cells else "" for n in sizes]
        rows.append([label, *shown])
    return markdown(["goal", *(f"{n} points" for n in sizes)], rows)


def calibration():
    """Coverage and NLL by model, number of points and method."""
    table = load("results/calibration")["results"]["table"]
    shown = {"default": "fit", "map": "`map`", "mgp": "`mgp`", "draws": "`draws`", "long": "4,096 particles"}
    cells = {(e["family"], e["n"], e["method"]): e for e in table}

    def cell(family, n, method):
        e = cells.get((family, n, method))
        if e is None:
            return ""
        nll = f"{e['nll']:.2f}" if e["nll"] < 1000 else "over 1,000"
        return f"{100 * e['inside_90']:.0f} %, {nll} ({e['sets']})"

    rows = [
        [f"`{family}`" if "SE" in family else family, str(n), *(cell(family, n, method) for method in shown)]
        for family, n in dict.fromkeys((e["family"], e["n"]) for e in table)
    ]
    late = [
        e["least_inside_90_unwarned"]
        for (family, n, method), e in cells.items()
        if method == "default" and "/" in family and 60 <= n <= 100
    ]
    return {
        "table": markdown(["model", "points", *shown.values()], rows),
        "least_of_embeddings": f"{100 * min(late):.0f} %",
    }


def designs():
    """RMSE of each design in the experiments of Garnett et al., where all of them were made."""
    shown = {
        "rand": "random",
        "uncertainty": "uncertainty",
        "bald_f": "latent BALD",
        "bald": "BALD",
        "bald_modes": "over modes",
        "bald_draws": "over draws",
    }
    by_row = {}
    for (row, method), runs in records("paper_mgp/results/table2").items():
        by_row.setdefault(row, {})[method] = [*runs.values()]
    rows = []
    for row, methods in by_row.items():
        if not set(shown) <= set(methods):
            continue
        repeats = set.intersection(*({r["repeat"] for r in methods[m]} for m in shown))
        cells = []
        for method in shown:
            kept = [r for r in methods[method] if r["repeat"] in repeats]
            curve = [point["rmse"] for r in kept for point in r["curve"].values()]
            final = [r["final"]["rmse"] for r in kept]
            cells.append(f"{sum(curve) / len(curve):.3g} / {sum(final) / len(final):.3g}")
        rows.append([row, str(len(repeats)), *cells])
    return markdown(["problem", "repeats", *shown.values()], rows)


def scales_of_hds():
    names = {"gpt": "GPT", "fdt": "FDT"}
    rows = []
    for told, methods in load("paper_hds/results/figure3")["results"].items():
        if methods:
            cells = [methods.get(method) for method in names]
            found = [
                f"{cell['accuracy']['mean']:.2f} ({cell['wrong_without_warning']:.2f})" if cell else ""
                for cell in cells
            ]
            rows.append([told, *found])
    return markdown(["told", *names.values()], rows)


def hds():
    rates = load("outside/results/screening")["results"]["rates"]
    without, noisy = (f"{rates[f'bisection, noise {noise} %']['median evaluations']:.0f}" for noise in (0, 10))
    return {"evaluations": without, "noisy": noisy, "scales": scales_of_hds()}


def screening():
    """Shares of runs by method and noise, with the median number of evaluations; and what is unseen in noise."""
    rows, rates = [], load("outside/results/screening")["results"]["rates"]
    for name, cell in rates.items():
        method, noise = name.split(", noise ")
        shares = [f"{cell[key]:.1%}" for key in ("right", "wrong with a warning", "silent", "false alarms")]
        rows.append([method, noise, *shares, f"{cell['median evaluations']:.0f}"])
    header = ["search", "noise", "right", "wrong, warned", "wrong, silent", "right, warned", "evaluations (median)"]
    ours = rates["bisection, noise all"]
    return {
        "table": markdown(header, rows),
        "unseen": f"{rates['bisection, noise 10 %']['median of the most unseen']:.1%}",
        "warnings": round(ours["runs"] * (ours["false alarms"] + ours["wrong with a warning"])),
    }


def few_points():
    """Coverage with few points, by kind of functions."""
    found = load("results/few_points")["results"]["table"]
    cells = {(e["functions"], e["points"]): f"{100 * e['90 % intervals hold']:.0f} %" for e in found}
    rows, points = (list(dict.fromkeys(key)) for key in zip(*cells, strict=True))
    return {
        "table": markdown(
            ["functions", *(f"{n} points" for n in points)], [[r, *(cells[r, n] for n in points)] for r in rows]
        ),
        "n": min(e["data sets"] for e in found),
    }


def maximum():
    """Rank correlations with the true information at 10 and at 20 points."""
    cells = load("paper_pes/results/figure1")["results"].values()
    return {
        "ranks": {
            method: " and ".join(f"{cell['methods'][method]['mean']:.3f}" for cell in cells)
            for method in ("pes", "pes_path", "pes_zero", "pes_stationary")
        },
    }


def many_points():
    """CPU seconds and memory by number of points; RMSE in sds of the function."""
    records = load("results/many_points")["results"]
    one = {record["n"]: record for record in records if record["what"] == "one model"}
    several = {record["n"]: record for record in records if record["what"] == "model"}
    [some] = [record for record in records if record["what"] == "max_points"]
    goals = ("function", "hyperparameters", "maximum")

    def seconds(record, *keys):
        for key in keys:
            record = record.get(key, {})
        return f"{record['cpu']:.2g}" if "cpu" in record else ""

    def quality(record):
        return f"{record['rmse']:.3f}, {record['nll']:.2f}, {100 * record['inside_90']:.0f} %"

    rows = [
        [
            f"{n:,}",
            seconds(record, "fit"),
            seconds(record, "predict"),
            *(seconds(record, goal, "second") for goal in goals),
            seconds(several.get(n, {}), "second"),
            f"{record['predict']['GiB']:.2f}",
            f"{record['maximum']['second']['GiB']:.2f}" if "maximum" in record else "",
            quality(record),
        ]
        for n, record in sorted(one.items())
    ]
    header = ["points", "fit", "predict 500", *(f"ask, {goal}" for goal in goals), "ask, model (2)"]
    header += ["GiB, fit", "GiB, asks", "RMSE, NLL, 90 % interval"]
    return {
        "table": markdown(header, rows),
        "some": (
            f"With 500 of {some['n']:,} points a fit took {seconds(some, 'fit')} CPU seconds, and RMSE, NLL and "
            f"coverage of the 90 % interval were {quality(some)}; with all, see the table."
        ),
    }


def stopping():
    runs = {row["runs"]: row for row in load("outside/results/stopping")["results"]["table"]}
    every, loud = runs["all"], runs["noise 10%"]
    return {
        "n": every["n"],
        "stopped": every["stopped"],
        "kept": f"{every['kept_promise']:.0%}",
        "asked": f"{every['median_asked']:.0f}",
        "loud": f"{loud['stopped']} of {loud['n']}",
    }


NUMBERS = {
    "asking": asking(),
    "calibration": calibration(),
    "few_points": few_points(),
    "designs": designs(),
    "hds": hds(),
    "many_points": many_points(),
    "screening": screening(),
    "stopping": stopping(),
    "maximum": maximum(),
    "papers": papers(),
    "tables": {
        name: marked(page, name)
        for name, page in {
            "table1": "benchmarks/paper_mgp/README.md",
            "synthetic": "benchmarks/paper_bams/README.md",
            "pes_figure2": "benchmarks/paper_pes/README.md",
        }.items()
    },
}
