"""Numbers for the pages, from the committed results of the benchmarks: none of them is typed into a page.

``NUMBERS`` is what ``{{ ... }}`` on a page refers to. A missing file or key fails the build.
"""

import json
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
BENCHMARKS = ROOT / "benchmarks"


def load(name):
    return json.loads((BENCHMARKS / f"{name}.json").read_text())


def records(name):
    return [json.loads(line) for line in (BENCHMARKS / f"{name}.jsonl").read_text().splitlines()]


def targets(name):
    return load(name)["targets"]


def marked(page, name):
    """A table that benchmarks/readme_tables.py wrote between its marks in a README; tests/test_docs.py compares."""
    found = re.search(f"<!-- {name} -->\n(.*?)\n<!-- end {name} -->", (ROOT / page).read_text(), flags=re.DOTALL)
    if not found:
        raise KeyError(f"{page} has no table {name!r}")
    return found[1]


def markdown(header, rows):
    lines = [header, ["---"] + ["---:"] * (len(header) - 1), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def decisions():
    """Relative utility by problem and method, and the price of each method in plain predictions."""
    results = load("results/decision_regret")["results"]["table"]
    shown = {
        "random": "random",
        "uncertainty": "uncertainty",
        "mgp": "BALD, `mgp`",
        "mgp f": "latent",
        "modes": "`modes`",
        "cubature": "`cubature`",
        "draws": "`draws`",
    }
    rows = [
        ["**all**" if family == "all" else family, *(f"{cells[method]['mean']:.2f}" for method in shown)]
        for family, cells in results["relative_utility"].items()
    ]
    return {
        "by_problem": markdown(["problem", *shown.values()], rows),
        "n_problems": load("results/decision_regret")["results"]["n_problems"],
        **{
            method.replace(" ", "_"): f"{cell['mean']:.2f} ± {cell['standard_error']:.2f}"
            for method, cell in results["relative_utility"]["all"].items()
        },
        "cost": {method: f"{cell['steady']['median']:.0f}" for method, cell in results["cost"].items()},
    }


def calibration():
    """Coverage and NLL by model, number of points and method."""
    table = load("results/calibration")["results"]["table"]
    shown = {"default": "fit", "map": "`map`", "mgp": "`mgp`", "draws": "`draws`", "long": "4,096 particles"}
    cells = {(e["family"], e["n"], e["method"]): e for e in table}

    def cell(family, n, method):
        e = cells.get((family, n, method))
        return "" if e is None else f"{100 * e['inside_90']:.0f} %, {e['nll']:.2f} ({e['sets']})"

    rows = [
        [f"`{family}`" if "SE" in family else family, str(n), *(cell(family, n, method) for method in shown)]
        for family, n in dict.fromkeys((e["family"], e["n"]) for e in table)
    ]
    return {"table": markdown(["model", "points", *shown.values()], rows)}


def laplace():
    report = load("results/mgp_vs_trace")
    shapes = sorted(row["pareto_k"] for row in report["results"]["data_sets"])
    table, ratio = report["results"]["table"], report["targets"][0]["value"]
    return {
        "n_data_sets": len(shapes),
        "above": sum(shape > 0.7 for shape in shapes),
        "smallest_k": f"{shapes[0]:.2f}",
        "largest_k": f"{shapes[-1]:.2f}",
        "mgp_over_bbq": f"{ratio:.2f}",
        "skl_y": {method: f"{cell['mean']:.3f}" for method, cell in table["skl_y"].items()},
        "skl": {method: f"{cell['mean']:.3f}" for method, cell in table["skl"].items()},
    }


def evidence():
    results = load("results/evidence_accuracy")["results"]

    def cell(r):
        if r is None:
            return ""
        if r["effective_sample_size"] < 50:
            return f"unknown ({r['pareto_k']:.2f})"
        return f"{r['difference']:+.2f} ± {r['standard_error']:.2f} ({r['pareto_k']:.2f})"

    by_model = [{r["model"]: r for r in column} for column in results.values()]
    rows = [[f"`{model}`", *(cell(column.get(model)) for column in by_model)] for model in by_model[0]]
    quadrature = {
        target["what"].partition("D = ")[2]: f"{target['value']:.2f}"
        for target in targets("results/embedding_dimension")
        if "quadrature" in target["what"]
    }
    return {
        "table": markdown(["kernel", *(f"n = {n}" for n in results)], rows),
        "one_component": quadrature["2, d = 1 (nats)"],
        "two_components": quadrature["2, d = 2 (nats)"],
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
    for record in records("paper_mgp/results/table2"):
        by_row.setdefault(record["row"], {}).setdefault(record["method"], []).append(record)
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


def propagation():
    """How many maximisers have right moments under expectation propagation, and under quasi-random draws."""
    rows = []
    for n_inputs, cells in load("results/ep_accuracy")["results"].items():
        row = [n_inputs, str(len(cells))]
        for method in ("ep", "sampled"):
            right = sum(
                max(map(abs, cell[method]["mean_errors"])) <= 0.05
                and max(map(abs, cell[method]["variance_errors"])) <= 0.05
                for cell in cells
            )
            worst = max(abs(error) for cell in cells for error in cell[method]["variance_errors"])
            row += [f"{right / len(cells):.0%}", f"{worst:.0%}"]
        rows.append(row)
    header = ["inputs", "maximisers", "EP right", "worst variance", "draws right", "worst variance"]
    return markdown(header, rows)


def scales_of_hds():
    names = {"default": "default", "gpt": "GPT", "fdt": "FDT"}
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
    cells = load("paper_hds/results/default")["results"]["cells"]
    default = next(iter(cells.values()))
    return {
        "evaluations": f"{default['evaluations']['mean']:.0f}",
        "accuracy": f"{default['accuracy']['mean']:.2f}",
        "scales": scales_of_hds(),
    }


def bams():
    measured = {
        target["what"]: target["value"]
        for name in ("bams_scoring", "bams_modes")
        for target in targets(f"results/{name}")
    }
    decided = load("results/check_regret")["results"]["table"]["BAMS, all"]
    return {
        "by_one": f"{decided['bams']['mean']:.2f}",
        "by_draws": f"{decided['bams_draws']['mean']:.2f}",
        "posterior": f"{measured['BAMS, posterior weights / 18 predictions']:.2g}",
        "uniform": f"{measured['BAMS, equal weights / 18 predictions']:.2g}",
        "refit": f"{measured['50 refits of 18 models, CPU s'] / 50:.2g}",
    }


def maximum():
    """CPU seconds of an ask, and rank correlations with the true information at 10 and at 20 points."""
    speed = load("results/pes_speed")["results"]["cases"]
    cells = load("paper_pes/results/figure1")["results"].values()
    return {
        "seconds_2": f"{speed['d = 2, n = 50']['ask']['median']:.2g}",
        "seconds_6": f"{speed['d = 6, n = 50']['ask']['median']:.2g}",
        "ranks": {
            method: " and ".join(f"{cell['methods'][method]['mean']:.3f}" for cell in cells)
            for method in ("pes", "pes_path", "pes_zero", "pes_stationary")
        },
    }


NUMBERS = {
    "calibration": calibration(),
    "decision": decisions(),
    "laplace": laplace(),
    "evidence": evidence(),
    "designs": designs(),
    "propagation": propagation(),
    "bams": bams(),
    "hds": hds(),
    "maximum": maximum(),
    "tables": {
        name: marked(page, name)
        for name, page in {
            "meats": "README.md",
            "mode_search": "benchmarks/README.md",
            "decision": "README.md",
            "botorch": "README.md",
            "mgp": "benchmarks/paper_mgp/README.md",
            "table1": "benchmarks/paper_mgp/README.md",
            "synthetic": "README.md",
            "pes_figure1": "benchmarks/paper_pes/README.md",
            "pes_figure2": "benchmarks/paper_pes/README.md",
            "default": "benchmarks/paper_hds/README.md",
        }.items()
    },
}
