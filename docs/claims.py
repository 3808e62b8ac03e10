"""What the experiments say of the papers' claims, for ``papers.md``: numbers and verdicts from the committed results.

Where a claim is an order, its verdict is computed from paired differences (:func:`judge`). What has no record yet reads
"not run".
"""

import json
from itertools import product
from pathlib import Path
from statistics import fmean, median, stdev

import numpy as np

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
NOT_RUN = "not run"
BOOTSTRAPS = 2000


def report(name):
    return json.loads((BENCHMARKS / f"{name}.json").read_text())


def engine(name):
    return report(name).get("engine", 0)


def records(name):
    """By (row, method), then by repeat: of the engine that the report is of."""
    wanted, found = engine(name), {}
    for line in (BENCHMARKS / f"{name}.jsonl").read_text().splitlines():
        one = json.loads(line)
        if one.get("engine", 0) == wanted:
            found.setdefault((one["row"], one["method"]), {})[one["repeat"]] = one
    return found


def judge(differences, errors=2):
    """Of (mean, standard error) of what should be negative; the error is None or nan of one repeat."""
    if not differences:
        return NOT_RUN
    if not all(mean < 0 for mean, _ in differences):
        return "does not hold"
    return "holds" if all(error and -mean > errors * error for mean, error in differences) else "holds in part"


def paired(a, b):
    """Mean difference over the repeats that both have, and its standard error."""
    d = [a[k] - b[k] for k in sorted(a.keys() & b.keys())]
    return (fmean(d), stdev(d) / len(d) ** 0.5 if len(d) > 1 else None) if d else None


def with_error(mean, error, form=".2g"):
    return f"{mean:{form}} ± {error:.1g}" if error and np.isfinite(error) else f"{mean:{form}}"


def told(say):
    """What ``say()`` returns, or that there are no results of it."""
    try:
        return say()
    except (KeyError, IndexError, ValueError, ZeroDivisionError):
        return NOT_RUN


def between(difference, form="+.2f"):
    return NOT_RUN if difference is None else with_error(*difference, form)


def table1():
    """MAP, BBQ and MGP: a cell and a verdict for SKLD and NLL of every row."""
    name = "paper_mgp/results/table1"
    table, runs, found = report(name)["results"]["table"], records(name), {}
    for row in ("synthetic 5", "synthetic 10", "synthetic 20", "yacht", "concrete"):
        found[row.replace(" ", "_")] = cells = {"n": table[row]["n_repeats"] if row in table else 0}
        for metric in ("skl", "nll"):
            methods = table.get(row, {}).get("methods", {})
            each = [methods[m][metric]["mean"] for m in ("map", "bbq", "mgp") if m in methods]
            cells[metric] = " / ".join(f"{mean:.2g}" for mean in each) or NOT_RUN
            values = {m: {k: r[metric] for k, r in runs.get((row, m), {}).items()} for m in ("map", "bbq", "mgp")}
            less = [paired(values["mgp"], values[m]) for m in ("map", "bbq")]
            cells[f"{metric}_less"] = between(less[0], "+.2g")
            cells[f"{metric}_verdict"] = judge([d for d in less if d])
            fit = methods.get("fit", {}).get(metric)
            cells[f"{metric}_fit"] = with_error(fit["mean"], fit["standard_error"]) if fit else NOT_RUN
    slices = [row["slice"]["skl_to_nuts"]["mean"] for row in table.values() if "slice" in row]
    return found | {"largest_of_slice": told(lambda: f"{max(slices):.1g}")}


def table2():
    """RAND, LH, UNC, latent BALD at the end: RMSE and NLL, and whether BALD has the lowest."""
    name = "paper_mgp/results/table2"
    table, runs, found = report(name)["results"]["table"], records(name), {}
    designs = ("rand", "lh", "uncertainty", "bald_f")
    for row, key in {
        **{f"synthetic {s}": f"s{s.replace('/', '_')}" for s in ("10/2", "10/3", "20/2", "20/3")},
        **{"Branin 10/2": "branin10", "Branin 20/2": "branin20", "communities 96/2": "communities"},
    }.items():
        methods, repeats = (table.get(row, {}).get(k, {}) for k in ("methods", "repeats"))
        made = {m: {k: r for k, r in runs.get((row, m), {}).items() if k in repeats} for m in designs}
        one = found[key] = {"n": len(repeats)}
        for metric in ("rmse", "nll"):
            ends = [f"{methods[m]['final'][metric]['mean']:.3g}" if m in methods else "–" for m in designs]
            one[metric] = " / ".join(ends)
            last = {m: {k: r["final"][metric] for k, r in rs.items()} for m, rs in made.items()}
            less = [paired(last["bald_f"], last[m]) for m in designs[:3]]
            one[f"{metric}_verdict"] = judge([d for d in less if d]) if "bald_f" in methods else NOT_RUN
        area = {m: {k: fmean(p["rmse"] for p in r["curve"].values()) for k, r in rs.items()} for m, rs in made.items()}
        one["area_less_rand"] = between(paired(area["bald_f"], area["rand"]), "+.3f")
        floor = table.get(row, {}).get("floor")
        one["floor"] = f"{floor['rmse']['mean']:.3g}" if floor else "–"
        for method in ("paper_literal", "paper_literal_rand", "lasso", "lasso_cv"):
            last = methods.get(method, {}).get("final", {}).get("rmse")
            one[method] = with_error(last["mean"], last["standard_error"]) if last else NOT_RUN
    return found


def bams():
    """Area of the posterior probability from 20 points on."""
    results, found = report("paper_bams/results/figure2")["results"], {}
    modes = engine("paper_bams/results/figure2") == 0
    for series in ("airline", "mauna_loa"):
        for key, priors in {"wide": "wide noise, located LIN", "toolbox": "toolbox noise, rooted LIN"}.items():
            row = f"{series}, {priors}"
            name = f"{row}, particles" if f"{row}, particles" in results else row
            designs = results.get(name, {}).get("designs", {})
            order = {"bams": "BAMS", "uncertainty": "UNC", "committee": "QBC", "random": "RAND"}
            shown = [
                f"{label} {with_error(designs[d]['area']['mean'], designs[d]['area']['standard_error'], '.2f')}"
                for d, label in order.items()
                if d in designs
            ]
            less = [designs.get("bams", {}).get(f"area_minus_{d}") for d in ("random", "uncertainty", "committee")]
            followed = "modes" if modes and name == row else "particles"
            starts = max((d["area"]["repeats"] for d in designs.values()), default=0)
            found[f"{series}_{key}"] = {
                "ours": f"{', '.join(shown)} ({starts} starts, {followed})" if shown else NOT_RUN,
                "verdict": judge([(-d["mean"], d["standard_error"]) for d in less if d]),
            }
    evidence = {}
    for row, cell in report("paper_bams/results/table1")["results"].items():
        others = [value for model, value in cell["log_evidence"].items() if model != cell["cks"]]
        if others and cell["cks"] in cell["log_evidence"]:
            evidence.setdefault(row.split(",")[0], []).append(cell["log_evidence"][cell["cks"]] - max(others))
    for series in ("airline", "mauna_loa"):
        ahead = evidence.get(series)
        found[f"{series}_evidence"] = NOT_RUN
        if ahead:
            first, apart = sum(a > 0 for a in ahead), f"{min(ahead):.1f} to {max(ahead):.1f} nats"
            found[f"{series}_evidence"] = f"CKS's kernel is first in {first} of {len(ahead)} settings, by {apart}"
    return found


def log_regrets(runs, row, method):
    return {k: float(np.log10(max(r["regret"][-1], 1e-16))) for k, r in runs.get((row, method), {}).items()}


def medians_apart(a, b):
    """Difference of the medians over shared starts; half of the central 68 % of its bootstrap distribution."""
    shared = sorted(a.keys() & b.keys())
    if len(shared) < 2:
        return None
    A, B = (np.array([x[k] for k in shared]) for x in (a, b))
    rows = np.random.default_rng(0).integers(len(A), size=(BOOTSTRAPS, len(A)))
    apart = np.median(A[rows], axis=1) - np.median(B[rows], axis=1)
    return median(A) - median(B), float(np.ptp(np.quantile(apart, (0.16, 0.84))) / 2)


def pes():
    """Decimal logarithms of median regrets at the end, and differences of PES from the others."""
    found = {}
    of_figures = {2: ["within the model"], 3: ["branin", "cosines", "hartmann6"], 4: ["nnet", "portfolio"]}
    for figure, rows in of_figures.items():
        name = f"paper_pes/results/figure{figure}"
        runs = records(name)
        for row in rows:
            regrets = {m: log_regrets(runs, row, m) for m in ("pes", "pes_nb", "es", "ei")}
            labels = {"pes": "PES", "pes_nb": "PES-NB", "es": "ES", "ei": "EI"}
            shown = [f"{labels[m]} {median(v.values()):.2f}" for m, v in regrets.items() if v]
            repeats = " to ".join(map(str, sorted({len(v) for v in regrets.values() if v})))
            one = found[row.replace(" ", "_")] = {"ours": f"{', '.join(shown)} ({repeats})" if shown else NOT_RUN}
            for better, worse in (("pes", "pes_nb"), ("pes", "es"), ("pes", "ei"), ("pes_nb", "es"), ("ei", "pes")):
                less = medians_apart(regrets[better], regrets[worse])
                one[f"{better}_less_{worse}"] = between(less)
                one[f"{better}_{worse}"] = judge([less] if less else [])
    cells = report("paper_pes/results/figure1")["results"]
    for key, row in {"ten": "10 points", "twenty": "20 points"}.items():
        methods = cells.get(row, {}).get("methods", {})
        known = "pes" in methods and "es" in methods
        ranks = [dict(enumerate(methods[m]["spearman"])) for m in ("es", "pes")] if known else [{}, {}]
        less = paired(*ranks)
        found[key] = {
            "ours": NOT_RUN,
            "verdict": judge([less] if less else []),
            "peak": told(lambda methods=methods: f"{methods['pes']['peak']:.2f}"),
        }
        if known:
            shown = [with_error(methods[m]["mean"], methods[m]["standard_error"], ".3f") for m in ("pes", "es")]
            found[key]["ours"] = f"PES {shown[0]}, ES {shown[1]}"
    outside = all_regrets("outside/results/optimum", "regrets")
    for name, noises in {"": (0, 1, 2), "_none": (0,), "_little": (1,), "_much": (2,)}.items():
        one, other = (
            {key: r[-1] for key, r in outside.get(m, {}).items() if key[1] % 3 in noises}
            for m in ("pes", "expected_improvement")
        )
        found[f"outside{name}"] = between(paired(one, other))
    longer = all_regrets("paper_pes/results/figure3", "regret")
    for row in ("branin", "cosines", "hartmann6"):
        for name, at in (("half_way", 5), ("end", -1)):
            one, other = ({key: r[at] for key, r in longer.get(m, {}).items() if key[0] == row} for m in ("pes", "ei"))
            found[row][f"ei_{name}"] = between(paired(one, other))
    return found


def all_regrets(name, key):
    """Decimal logarithms of all regrets of a run, by method, then by (row, repeat)."""
    found = {}
    for (row, method), runs in records(name).items():
        for repeat, run in runs.items():
            found.setdefault(method, {})[row, repeat] = np.log10(np.maximum(run[key], 1e-16))
    return found


def three_errors(cell, form=".0f"):
    return f"{cell['mean']:{form}} ± {3 * cell['standard_error']:{form}}"


def hds():
    """Numbers by method, by function of table 1 and by row of figure 5."""
    cells, slopes = (report("paper_hds/results/figure2")["results"].get(k, {}) for k in ("cells", "slopes"))
    told_wrong = report("paper_hds/results/figure3")["results"]
    table = report("paper_hds/results/table1")["results"]["cells"]
    gains = report("paper_hds/results/figure5")["results"]
    at = cells.get("D=200, noise=0.1", {})
    found = {"n": told(lambda: at["gpt"]["accuracy"]["n"])}
    found["told_n"] = told(lambda: told_wrong["noise x 1"]["gpt"]["accuracy"]["n"])

    def slope(method, per):
        return told(lambda: with_error(*(slopes[method][per][k] for k in ("mean", "standard_error")), ".1f"))

    def each(some, method, what, form):
        shown = [f"{c[method][what]['mean']:{form}}" if method in c else "–" for c in some]
        return " / ".join(shown)

    for m in ("gpt", "fdt", "cws"):
        noises = [cells.get(f"D=200, noise={v}", {}) for v in (0.05, 0.1, 0.25, 0.36)]
        found[m] = {
            "evaluations": told(lambda m=m: three_errors(at[m]["evaluations"])),
            "least": told(lambda m=m: f"{min(c[m]['accuracy']['mean'] for c in cells.values() if m in c):.2f}"),
            "doubling": slope(m, "per_doubling"),
            "input": slope(m, "per_input"),
            "noise": each(noises, m, "evaluations", ".0f"),
        }
        for what, ratios in {"noise": (0.5, 2, 10), "bandwidth": (0.01, 0.1, 0.3, 3, 10)}.items():
            some = [told_wrong.get(f"{what} x {r:g}", {}) for r in ratios]
            found[m][f"told_{what}"] = each(some, m, "accuracy", ".2f")
    both = [c for c in cells.values() if "gpt" in c and "fdt" in c]
    share = [c["gpt"]["evaluations"]["mean"] / c["fdt"]["evaluations"]["mean"] for c in both]
    found["gpt_over_fdt"] = told(lambda: f"{min(share):.2f} to {max(share):.2f}")
    functions = {f"quad{d}": f"Quad, d = {d}" for d in (2, 4)} | {f"quadmix{d}": f"QuadMix, d = {d}" for d in (2, 4, 6)}
    for key, name in (functions | {"branin": "Branin", "beale": "Beale"}).items():
        found[key] = {}
        for scale in ("raw", "rescaled"):
            row = table.get(f"{name}, {scale}", {})
            for what, form, suffix in (("accuracy", ".2f", ""), ("evaluations", ".0f", "_evaluations")):
                found[key][scale + suffix] = " / ".join(each([row], m, what, form) for m in ("fdt", "gpt", "cws"))
    for name, D in product(("GP", "Branin", "Quad"), (4, 40)):
        cell = gains.get(f"{name}, D={D}", {}).get("hds_ucb", {})
        found[f"{name.lower()}_{D}"] = one = {}
        for key, what in {"average": "average", "smallest": "minimum"}.items():
            gain = cell.get(f"{what}_gain")
            one[key] = {
                "gain": three_errors(gain, "+.2f").replace("± +", "± ") if gain else NOT_RUN,
                "verdict": judge([(-gain["mean"], gain["standard_error"])] if gain else [], errors=3),
            }
    return found


def papers():
    from pymc_active import ENGINE

    names = [
        *("paper_mgp/results/table1", "paper_mgp/results/table2", "paper_bams/results/table1"),
        *("paper_bams/results/figure2", *(f"paper_pes/results/figure{k}" for k in (1, 2, 3, 4))),
        *(f"paper_hds/results/{k}" for k in ("figure2", "figure3", "table1", "figure5")),
    ]
    names.append("outside/results/optimum")
    made_by = {name.replace("paper_", "").replace("/results/", "_"): engine(name) for name in names}
    return {
        **{"engine": ENGINE, "made_by": made_by, "table1": table1(), "table2": table2()},
        **{"bams": bams(), "pes": pes(), "hds": hds()},
    }
