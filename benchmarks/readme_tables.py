"""Write the tables of the README files from the JSON results: python benchmarks/readme_tables.py.

Below each table stands which engine made the numbers, and from which commits.
"""

import sys
from pathlib import Path

sys.path += [str(Path(__file__).parent / folder) for folder in ("paper_bams", "paper_pes")]

from _methods import METHODS as PES_METHODS
from _runs import DESIGNS
from _tables import fill, load, markdown

HERE = Path(__file__).parent
OUTSIDE = HERE / "outside" / "results"
PAPERS = [HERE / paper for paper in ("paper_mgp", "paper_bams", "paper_pes")]
PAGES = [folder / "README.md" for folder in (HERE.parent, HERE, *PAPERS)]
PAPER, BAMS, PES = (folder / "results" for folder in PAPERS)


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


def targets(*names: str) -> str:
    rows = []
    for name in names:
        for t in load(name)["targets"]:
            mark = "" if t["met"] else " (missed)"
            rows.append([t["what"], f"{t['value']:.4g}{mark}", t["target"]])
    return markdown(["benchmark", "measured", "target"], rows)


def speed() -> str:
    return targets("many_points")


def table1() -> str:
    names = {"map": "MAP", "bbq": "BBQ", "mgp": "MGP", "fit": "`pma.fit`", "modes": "modes", "draws": "draws"}
    tables = {"skl": [], "nll": []}
    for row, cell in load("table1", PAPER)["results"]["table"].items():
        for metric, rows in tables.items():
            found = {m: cell["methods"][m][metric] for m in names if m in cell["methods"]}
            shown = (f"{found[m]['mean']:.2g} ± {found[m]['standard_error']:.1g}" if m in found else "" for m in names)
            line = [row, str(cell["n_repeats"]), *shown]
            if metric == "skl":
                slices = cell.get("slice")
                line.append(f"{slices['skl_to_nuts']['median']:.2g} ({slices['n_repeats']})" if slices else "")
            rows.append([*line, " / ".join(f"{value:.3g}" for value in cell["paper"][metric].values())])
    paper = "paper's MAP / BBQ / MGP"
    skl = markdown(["SKLD", "repeats", *names.values(), "slice sampling (repeats)", paper], tables["skl"])
    nll = markdown(["NLL", "repeats", *names.values(), paper], tables["nll"])
    return f"{skl}\n\n{nll}"


def table2() -> str:
    report = load("table2", PAPER)["results"]
    labels = report["labels"]
    shown = [
        m for m in labels if not m.startswith("lasso") and any(m in c["methods"] for c in report["table"].values())
    ]
    rows = []
    for row, cell in report["table"].items():
        paper = (cell["paper"].get("bald_f") or cell["paper"].get("bald") or {}).get("rmse")
        line = [row, str(len(cell["repeats"]))]
        for m in shown:
            values = cell["methods"].get(m)
            line.append(f"{values['area_rmse']['mean']:.3g} / {values['final']['rmse']['mean']:.3g}" if values else "")
        floor = cell.get("floor", {}).get("rmse", {}).get("mean")
        rows.append([*line, f"{floor:.3g}" if floor else "", f"{paper:g}" if paper else ""])
    header = ["row", "repeats", *(labels[m] for m in shown), "true R", "paper's BALD"]
    note = (
        "Mean RMSE over the learning curve (n = 10, 20, ...) / at its end, averaged over the repeats. *True R* is the "
        "floor that the true embedding leaves; *paper's protocol* refits from the previous mode and one prior draw."
    )
    return markdown(header, rows) + "\n\n" + note


def materials() -> str:
    labels = {"default": '`learn="maximum"`', "pes": '`criterion="pes"`', "forest": "random forest, EI"}
    rows = []
    for r in load("../outside/results/materials")["results"]["table"]:
        accelerations = [f"{a:.1f}" if (a := r[f"acceleration_{share}"]) else "" for share in (0.2, 0.4, 0.6)]
        found = f"{r['found']:.2f} ± {r['found_se']:.2f}"
        best = f"{r['best_row_found']} of {r['runs']}"
        rows.append([r["table"], labels[r["method"]], *accelerations, found, best, f"{r['seconds_an_ask']:.2f}"])
    header = ["table", "method", *(f"acceleration at {share} %" for share in (20, 40, 60))]
    header += ["share found", "best row found", "CPU s an ask"]
    note = (
        "Acceleration: measurements that random choice takes, in the mean, until it has found this share of the best "
        "5 %, over the median number that the method takes. *Share found* is after 80 and 50 measurements, ± standard "
        "error."
    )
    return markdown(header, rows) + "\n\n" + note


def pools() -> str:
    found = load("../outside/results/pools")["results"]["table"]
    by_method: dict[str, dict] = {}
    for r in found:
        by_method.setdefault(r["method"], {})[r["measure"]] = r
    rows = []
    for method, of in by_method.items():
        name = '`learn="function"`' if method == "integrated_variance" else f'`criterion="{method}"`'
        cells = [f"{of[m]['at_38_points']:.2f}" for m in ("rmse", "nll")]
        gaps = [f"{of[m]['minus_random']:+.3f} ± {of[m]['minus_random_se']:.3f}" for m in ("rmse", "nll")]
        is_random = method == "random"
        rows.append(
            [
                method if is_random else name,
                cells[0],
                "" if is_random else gaps[0],
                cells[1],
                "" if is_random else gaps[1],
            ]
        )
    header = ["method", "RMSE / sd at 38 points", "less random", "NLL at 38 points", "less random"]
    note = (
        f"{found[0]['runs']} runs of each method. Medians at 38 points; *less random*: mean of paired differences, "
        "averaged over 18, 28 and 38 points, ± standard error."
    )
    return markdown(header, rows) + "\n\n" + note


def many_inputs() -> str:
    labels = {"default": '`learn="maximum"`', "logei": "BoTorch LogEI", "embedding": "`embedding_gp`", "turbo": "TuRBO"}
    rows = [
        [r["problem"], labels[r["method"]], str(r["runs"])]
        + [f"{r[f'after_{n}']:.2f}" for n in (15, 30, 45, 60)]
        + [f"{r['seconds_an_ask']:.1f}"]
        for r in load("../outside/results/many_inputs")["results"]["table"]
    ]
    return markdown(["problem", "method", "runs", "15 answers", "30", "45", "60", "CPU s an ask"], rows)


def checks() -> str:
    rows = []
    for r in load("../outside/results/checks")["results"]["data_sets"]:
        nuts = f"{r['loss_by_nuts']:+.3f}" if r["converged"] else "not converged"
        rows.append([r["data"], str(r["n"]), str(r["inputs"]), f"{r['loss_by_run']:+.3f}", nuts, r["says"]])
    return markdown(["data", "n", "inputs", "loss by a longer run", "by NUTS", "`check` says"], rows)


def likelihoods() -> str:
    results = load("likelihoods")["results"]
    rows = []
    for r in results["curves"]:
        gap = (
            f"{r['less random']['mean']:+.3f} ± {r['less random']['standard_error']:.3f}" if "less random" in r else ""
        )
        rows.append([r["row"], r["method"], str(r["runs"]), ", ".join(f"{value:.2f}" for value in r["nll"]), gap])
    header = ["outcomes, problem", "design", "runs", "nats above the truth after 6, 12, 18, 24 answers", "less random"]
    errors = "; ".join(
        f"{r['method']} " + ", ".join(f"{a:.3f} ± {b:.3f}" for a, b in zip(r["rms"], r["standard_error"], strict=True))
        for r in results["threshold"]
    )
    times = "; ".join(
        f"n = {r['n']}, {r['kind']} {r['median']:.2f} ({r['times normal']:.1f})"
        for r in results["step"]
        if r["kind"] != "normal"
    )
    note = (
        f"Rms error of a threshold after 10, 20 and 40 labels, of a range of 2: {errors}. CPU seconds of a tell and an "
    )
    return markdown(header, rows) + f"\n\n{note}ask (times normal outcomes): {times}."


def laboratory() -> str:
    results = load("laboratory", OUTSIDE)["results"]
    rows = []
    for r in results["table"]:
        gaps = (
            ""
            if r["method"] == "default" or r["runs"] < 2
            else f"{r[f'ours_less_{share}']:+.1f} ± {r[f'se_{share}']:.1f}"
            for share in (0.05, 0.01)
        )
        counts = (f"{r[f'to_best_{share}']:.1f}" for share in (0.05, 0.01))
        rows.append([r["table"], r["method"], str(r["runs"]), *counts, *gaps, f"{r['seconds_an_ask']:.2f}"])
    header = ["table", "method", "runs", "to the best 5 %", "to the best 1 %", "ours less", "ours less", "CPU s an ask"]
    return markdown(header, rows) + "\n\nExperiments, ten of them at random; 36 where 35 did not suffice."


def any_model() -> str:
    results = load("any_model")["results"]
    runs, rows = {r["problem"]: r for r in results["run"]}, []
    for p in results["pick"]:
        share = f"{p['share']:.3f}, {p['smallest share']:.3f} ± {p['its error']:.3f}"
        if (r := runs.get(p["problem"])) is None:
            rows.append([p["problem"], f"{p['starts']}, 0", share, *[""] * 4, f"{p['first ask, CPU s']:.1f}"])
            continue
        gaps = [f"{r[f'log_sd, less {o}']:+.2f} ± {r[f'log_sd, less {o}, se']:.2f}" for o in ("random", "even")]
        gaps += [f"{r[f'nlpd, less {o}']:+.2f} ± {r[f'nlpd, less {o}, se']:.2f}" for o in ("random", "even")]
        seconds = f"{r['first ask, s']:.1f} / {r['an ask, CPU s']:.2f} / {r['longest, CPU s']:.2f}"
        rows.append([r["problem"], f"{p['starts']}, {r['runs']}", share, *gaps, seconds])
    header = ["problem", "starts, runs", "pick over best: mean, smallest", "log sd, less random", "less even"]
    header += ["NLPD, less random", "less even", "s: first ask / an ask / longest"]
    note = (
        "Information of the first pick over the best of the pool by nested Monte Carlo, ± error of the smallest; after "
        "20 asks, mean paired differences ± standard error, negative where ours is ahead. Of *rival decays*, the log "
        "sd of the indicator of the model and minus the log probability of the true one."
    )
    return markdown(header, rows) + "\n\n" + note


def group_tests() -> str:
    rows = []
    for name, r in load("../outside/results/group_tests")["results"].items():
        counts = [f"{r['right']:.2f}", f"{r['missed']:.1f}", f"{r['extra']:.1f}"]
        costs = [f"{r['evaluations']:.0f}", f"{r['most evaluations']}", f"{r['CPU seconds']:.2g}"]
        rows.append([*name.split(", "), str(r["runs"]), *counts, *costs])
    header = ["function, of inputs", "search", "runs", "exactly right", "inputs missed", "too many"]
    return markdown([*header, "evaluations, median", "most", "CPU s"], rows)


def series() -> str:
    results = load("../outside/results/series")["results"]
    shown = [r["method"] for r in results["methods"]]
    rows = [[r["series"], *(f"{r[method]:.2f}" for method in shown)] for r in results["series"]]
    for name, key in (("mean", "NLL, mean"), ("90 % intervals hold", "90 % intervals hold")):
        rows.append([f"*{name}*", *(f"{r[key]:.2f}" for r in results["methods"])])
    behind = [str(r["by more than 0.2 nats"]) for r in results["methods"]]
    rows.append(["*series behind the better of ETS and SARIMAX by over 0.2*", *behind])
    return markdown(["NLL, nats a point", *shown], rows)


def structure_probabilities() -> str:
    rows = [
        [
            prior,
            str(r["count"]),
            f"{r['probability']:.2f}",
            f"{r['right']:.2f} ± {r['standard_error']:.2f}",
            f"{r['expected_of_true']:.2f}",
            f"{r['of_true']:.2f}",
            f"{r['n_kernels']:.0f}",
            f"{r['cpu_seconds']:.1f}",
        ]
        for prior, r in load("structure_probabilities")["results"].items()
    ]
    header = ["kernels drawn", "series", "best kernel has", "is right", "true one should have", "has"]
    return markdown([*header, "kernels fitted", "CPU s"], rows)


def plus_minus(cell: dict | None, form: str = ".2f") -> str:
    return f"{cell['mean']:{form}} ± {cell['standard_error']:.2f}" if cell else ""


def synthetic() -> str:
    results = load("synthetic", BAMS)["results"]
    rows = [
        [
            DESIGNS[design],
            *(plus_minus(cell[what]) for what in ("area", "at_the_end")),
            *(plus_minus(cell.get(f"area_minus_{other}"), "+.2f") for other in ("random", "uncertainty", "committee")),
            *(plus_minus(cell[what]) for what in ("sure", "right", "found")),
        ]
        for design, cell in results["designs"].items()
    ]
    header = ["design", "from 10 points on", "at 25", "less RAND", "less UNC", "less QBC"]
    header += ["most probable kernel has", "it is right", "after a search"]
    note = f"Mean ± standard error over {results['series']} series; *less* are paired differences."
    for design, cell in results["tried"].items():
        note += f" {DESIGNS[design]}, less BAMS on {cell['repeats']} series: {plus_minus(cell, '+.2f')}."
    return markdown(header, rows) + "\n\n" + note


def figure2() -> str:
    rows = []
    for name, row in load("figure2", BAMS)["results"].items():
        for design, cell in row["designs"].items():
            shown = [plus_minus(cell[what]) for what in ("area", "at_the_end")]
            versus = [plus_minus(cell.get(f"area_minus_{o}"), "+.2f") for o in ("random", "uncertainty", "committee")]
            label = f"{name}: `{row['best']}`" if design == next(iter(row["designs"])) else ""
            rows.append([label, DESIGNS[design], str(cell["area"]["repeats"]), *shown, *versus])
    header = ["series, priors: best", "design", "starts", "from 20 on", "at 50", "less RAND", "less UNC", "less QBC"]
    return markdown(header, rows)


def bams_table1() -> str:
    rows = []
    for name, row in load("table1", BAMS)["results"].items():
        ranked = sorted(row["log_evidence"].items(), key=lambda pair: -pair[1])
        names = {row["cks"]: "CKS", row["expert"]: "expert"}
        top = [f"{names.get(m, f'`{m}`')} {value:.1f}" for m, value in ranked[:3]]
        gap = row["log_evidence"][row["cks"]] - row["log_evidence"][row["expert"]]
        rows.append([name, *top, f"{gap:+.1f}"])
    return markdown(["series, priors", "first", "second", "third", "CKS less expert, nats"], rows)


def outside_optimum() -> str:
    results = load("optimum", OUTSIDE)["results"]
    names = {
        "expected_improvement": '`learn="maximum"`',
        "logei": "BoTorch LogEI, its defaults",
        "optuna": "Optuna's GP sampler, its defaults",
    }
    rows = []
    for row in results["table"]:
        by_noise = [row[f"noise_{noise}"] for noise in ("0.0", "0.01", "0.1")]
        cells = [f"{value:.2f}" for value in (row["log10_regret"], *by_noise, row["mean_rank"])]
        rows.append([names[row["method"]], *cells, f"{row['seconds_an_ask']:.2g}"])
    header = ["", "log10 regret", "no noise", "1 % noise", "10 % noise", "mean rank", "seconds a step"]
    runs, p = results["table"][0]["runs"], results["friedman_p"]
    note = f"Mean of {runs} runs with the same starts, after 25 answers; regret in sds of the function."
    note += " CPU seconds; the peers were run on another day."
    chance = ", so their order may be chance" if p > 0.05 else ""
    level = "< 0.001" if p < 0.001 else f"= {p:.2f}"
    return markdown(header, rows) + f"\n\n{note} Friedman test of the ranks: p {level}{chance}."


def pes_figure1() -> str:
    results = load("figure1", PES)["results"]
    methods = {m: None for cell in results.values() for m in cell["methods"]}
    rows = []
    for method in sorted(methods, key=lambda m: -next(iter(results.values()))["methods"][m]["mean"]):
        cells = [cell["methods"].get(method) for cell in results.values()]
        shown = [
            f"{c['mean']:.3f} ± {c['standard_error']:.3f}, {c['smallest']:.3f}, {c['pick']:.2f}" if c else ""
            for c in cells
        ]
        rows.append([PES_METHODS[method][0], *shown])
    rows.append(["ceiling", *(f"{cell['truth']['ceiling']:.4f}" for cell in results.values())])
    header = ["", *(f"{row}, {cell['truth']['data_sets']} data sets" for row, cell in results.items())]
    note = "Spearman: mean ± standard error, smallest; true information at the pick, over that of the best cell."
    return markdown(header, rows) + "\n\n" + note


def _regret(cell: dict, at: list[int]) -> list[list[str]]:
    rows = []
    for method, one in sorted(cell["methods"].items(), key=lambda pair: pair[1]["median"][-1]):
        versus = cell["against_ei"].get(method)
        spread = (one["upper"][-1] - one["lower"][-1]) / 2
        shown = [f"{one['median'][i]:.2f}" for i in at] + [f"{one['median'][-1]:.2f} ± {spread:.2f}"]
        less = (
            f"{versus['decades']:+.2f} ± {versus['standard_error']:.2f} (p {versus['p_value']:.2g})" if versus else ""
        )
        rows.append([PES_METHODS[method][0], str(one["repeats"]), *shown, less])
    return rows


def pes_figure2() -> str:
    cell = load("figure2", PES)["results"]
    header = ["method", "functions", "at 10", "at 20", "at 30", "at 30, less EI"]
    return markdown(header, _regret(cell, [9, 19])) + "\n\nDecimal logarithm of the median regret."


def _half_way(name: str) -> str:
    rows = []
    for function, cell in load(name, PES)["results"].items():
        middle = len(cell["evaluations"]) // 2
        rows += [[function, *row] for row in _regret(cell, [middle])]
    header = ["function", "method", "starts", "half way", "at the end", "less EI"]
    return markdown(header, rows) + "\n\nDecimal logarithm of the median regret."


def pes_figure3() -> str:
    return _half_way("figure3")


def pes_figure4() -> str:
    return _half_way("figure4")


OURS = [meats, materials, many_inputs, pools, checks, group_tests, series, speed]
OURS += [structure_probabilities, outside_optimum, any_model, likelihoods, laboratory]
OF_PAPERS = [table1, table2, synthetic, figure2, bams_table1, pes_figure1, pes_figure2, pes_figure3, pes_figure4]


def main() -> None:
    fill(PAGES, [*OURS, *OF_PAPERS])


if __name__ == "__main__":
    main()
