"""Does BALD learn linear embeddings from fewer points than other designs?

Table 2 of Garnett, Osborne & Hennig (2014), as learning curves. Records are made breadth first, repeat 0 of all rows
and methods before repeat 1, and kept in ``results/table2.jsonl``; two processes may share the work by ``--rows``.

Two posteriors. *Laplace*: ``inference="laplace"``, the paper's, with the mode search of ``fit_laplace`` instead of one
prior draw; its designs are the paper's (UNC, BALD of the latent f by the marginal GP). *Engine*: ``inference="auto"``,
what users get, with ``criterion="bald"`` over its draws. RAND and LH are followed by both.

Every design starts from the same 5 random points. At n = 10, 20, ... what was learned is judged by a GP conditioned on
100 FRESH random points, common to all methods, that predicts 1,000 more: the paper's rule. A Laplace fit has the R of
its mode (a noise level and output scale that are not known are fitted to the 100); the engine's draws of all
hyperparameters are conditioned on the 100, one GP each, and averaged.
The two small sets (meats, permeability) have too few rows for that: there the picks themselves predict 65 or 55 rows
held out at random, common to all methods, and nothing can be picked from these.

Candidates of the synthetic and Branin rows: 10,000 points from the box and 10,000 from the unit ball, fixed for each D;
RAND and LH take points of the box. On real data everything chooses from the rows not held out.
``paper_literal`` is the paper's protocol word by word: BALD of the latent f, each refit L-BFGS from the previous mode
and one prior draw. ``paper_literal_rand`` is the same search on the RAND design. LASSO sees the RAND design.

Priors. R: N(0, (5/4 sqrt(3/D))^2), one row with the 5/4 D^-1 that the paper prints. Synthetic: unit output scale and
noise sd 0.1, known. Others: y in units of its sd, log output scale N(0, 0.5^2), log noise sd N(log s, w^2) with
s = 0.02, w = 0.5 for Branin (which is noise-free) and w = 0.1, s = 0.2 (pumadyn), 0.1 (meats), 0.5 (communities,
permeability) for real data: with a wide prior the many entries of R explain few points without noise.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import _above  # noqa: F401
import _datasets as datasets
import _problems as problems
import _report
import lasso
import numpy as np
import pymc as pm
from _records import RESULTS, Key, every, main
from _report import panels, spread, table, target

import pymc_active as pma

N_START, N_FRESH, N_TEST, REPEATS = 5, 100, 1000, 5
STEP = 10
# Mean and sd of Branin over its own box.
BRANIN_SCALE = (54.3, 51.2)


class Row(NamedTuple):
    D: int
    d: int
    kind: str
    # Median of the prior on the noise sd, in sds of y; None: everything but R is known.
    noise: float | None = None
    # Inputs, as the name of a function of _datasets.
    data: str = ""
    n_held_out: int = 0
    n_points: int = 100
    prior_scale: float | None = None
    # RMSE and NLL that the paper prints for RAND, LH, UNC, BALD (and LASSO's RMSE).
    paper_rmse: tuple = ()
    paper_nll: tuple = ()


def synthetic(D: int, d: int, rmse: tuple = (), nll: tuple = (), **options: Any) -> Row:
    return Row(D, d, "synthetic", paper_rmse=rmse, paper_nll=nll, **options)


ROWS = {
    "synthetic 10/2": synthetic(10, 2, (0.412, 0.371, 0.146, 0.138, 0.842), (0.272, 0.224, -0.564, -0.649)),
    "synthetic 10/3": synthetic(10, 3, (0.553, 0.687, 0.557, 0.523, 0.864), (0.711, 0.999, 0.662, 0.465)),
    "synthetic 20/2": synthetic(20, 2, (0.578, 0.549, 0.551, 0.464, 0.853), (0.804, 0.745, 0.749, 0.470)),
    "synthetic 20/3": synthetic(20, 3, (0.714, 0.740, 0.700, 0.617, 0.883), (1.07, 1.10, 1.04, 0.888)),
    "synthetic 10/2, printed prior": synthetic(10, 2, prior_scale=1.25 / 10),
    "Branin 10/2": Row(
        10, 2, "branin", 0.02, paper_rmse=(18.2, 17.8, 3.63, 2.29, 40.0), paper_nll=(3.87, 3.90, 1.58, 0.0165)
    ),
    "Branin 20/2": Row(
        20, 2, "branin", 0.02, paper_rmse=(18.3, 14.8, 13.4, 15.0, 39.1), paper_nll=(4.00, 3.70, 3.55, 3.63)
    ),
    "communities 96/2": Row(
        96,
        2,
        "real",
        0.5,
        "communities_crime",
        paper_rmse=(0.720, None, 0.782, 0.661, 1.16),
        paper_nll=(1.09, None, 1.17, 1.01),
    ),
    "meats 100/2": Row(100, 2, "real", 0.1, "meats", n_held_out=65, n_points=60),
    "pumadyn 32/2": Row(32, 2, "real", 0.2, "pumadyn"),
    "permeability 1107/2": Row(1107, 2, "real", 0.5, "permeability", n_held_out=55, n_points=60),
}
# Label, criterion of the Learner (None: points of a design made beforehand), inference.
METHODS: dict[str, tuple[str, Any, str]] = {
    "rand": ("RAND", None, "laplace"),
    "lh": ("LH", None, "laplace"),
    "uncertainty": ("UNC", partial(pma.active.uncertainty, method="mgp"), "laplace"),
    "bald_f": ("BALD, latent", partial(pma.active.bald, target="f", method="mgp"), "laplace"),
    "rand_engine": ("RAND, engine", None, "auto"),
    "lh_engine": ("LH, engine", None, "auto"),
    "bald_engine": ("BALD, engine", "bald", "auto"),
    "paper_literal": ("BALD, paper's protocol", None, "laplace"),
    "paper_literal_rand": ("RAND, paper's search", None, "laplace"),
    "lasso": ("LASSO, training loss", None, ""),
    "lasso_cv": ("LASSO, cross-validated", None, ""),
}
# The name of a method's points among those made beforehand.
MADE = {"rand": "rand", "rand_engine": "rand", "lh": "lh", "lh_engine": "lh"}
# Which of the paper's figures stand beside a method.
PAPER = {"rand": 0, "lh": 1, "uncertainty": 2, "bald_f": 3, "paper_literal": 3, "lasso": 4}
# What learn="hyperparameters" does.
DEFAULT = "bald_engine"
# These are compared by the area under their curves.
DESIGNS = [name for name in METHODS if not name.startswith(("lasso", "paper"))]


class Data(NamedTuple):
    """One repeat of a row: what every design shares."""

    X_start: np.ndarray
    y_start: np.ndarray
    pool: np.ndarray
    # RAND and LH, (n_points - 5, D) each; LH is empty on real data.
    designs: dict[str, np.ndarray]
    measure: Callable[[np.ndarray], np.ndarray]
    # (X, y, fixed parameters) -> GPModel
    make: Callable[..., pma.GPModel]
    # None: the picks themselves predict.
    fresh: tuple[np.ndarray, np.ndarray] | None
    test: tuple[np.ndarray, np.ndarray]
    R: np.ndarray | None


def candidates(D: int, n: int) -> np.ndarray:
    """Half from the box, half from the unit ball; the same for every repeat."""
    rng = np.random.default_rng(D)
    box = rng.uniform(-1, 1, (n // 2, D))
    ball = rng.normal(size=(n // 2, D))
    ball *= rng.uniform(size=(n // 2, 1)) ** (1 / D) / np.linalg.norm(ball, axis=1, keepdims=True)
    return np.concatenate([box, ball])


def builder(row: Row, y_scale: tuple[float, float] | None) -> Callable:
    """Every choice by name, so that new defaults of the library change nothing here."""
    scale = 1.25 * np.sqrt(3 / row.D) if row.prior_scale is None else row.prior_scale
    priors: dict = {"log_lengthscale": 0.0, "log_noise": float(np.log(0.1)), "log_outputscale": 0.0}
    if row.noise is not None:
        width = 0.5 if row.kind == "branin" else 0.1
        priors |= {"log_noise": pm.Normal.dist(np.log(row.noise), width), "log_outputscale": pm.Normal.dist(0.0, 0.5)}

    def make(X: np.ndarray, y: np.ndarray, **fixed: Any) -> pma.GPModel:
        options: dict = {"prior_scale": None if "R" in fixed else scale, "y_scale": y_scale, "x_scale": None}
        return pma.embedding_gp(
            X, y, n_components=row.d, kernel="ExpQuad", mean="zero", priors=priors | fixed, **options
        )

    return make


def make_embedded(row: Row, seed: tuple[int, ...], n_pool: int) -> Data:
    rng = np.random.default_rng(seed)
    if row.kind == "branin":
        problem, noise, y_scale = problems.branin_embedding(row.D, random_seed=rng), 0.0, BRANIN_SCALE
    else:
        problem = problems.random_embedding_problem(row.D, row.d, prior_scale=row.prior_scale, random_seed=rng)
        noise, y_scale = 0.1, None
    measure_rng = np.random.default_rng((*seed, 1))

    def observe(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return problem.function(X) + noise * rng.normal(size=len(X))

    X_start, X_fresh, X_test, X_rand = (
        rng.uniform(-1, 1, (n, row.D)) for n in (N_START, N_FRESH, N_TEST, row.n_points - N_START)
    )
    return Data(
        X_start,
        observe(X_start, rng),
        candidates(row.D, n_pool),
        {"rand": X_rand, "lh": pma.active.latin_hypercube(problem.bounds, row.n_points - N_START, rng)},
        lambda X: observe(X, measure_rng),
        builder(row, y_scale),
        (X_fresh, observe(X_fresh, rng)),
        (X_test, observe(X_test, rng)),
        problem.R,
    )


def read_real(row: Row) -> tuple[np.ndarray, np.ndarray]:
    """Inputs mapped to the box (constant columns to 0), the target (permeability: its log) to zero mean and unit sd."""
    inputs, outputs = getattr(datasets, row.data)()
    X, y = inputs.to_numpy(float), outputs.to_numpy(float)
    y = np.log(y) if row.data == "permeability" else y
    low, high = X.min(0), X.max(0)
    X = np.where(high > low, 2 * (X - low) / np.where(high > low, high - low, 1) - 1, 0)
    return X, (y - y.mean()) / y.std()


def make_real(row: Row, seed: tuple[int, ...]) -> Data:
    X, y = read_real(row)
    order = np.random.default_rng(seed).permutation(len(y))
    n_fresh, n_test = (0, row.n_held_out) if row.n_held_out else (N_FRESH, N_TEST)
    fresh, test, start, rest = np.split(order, np.cumsum([n_fresh, n_test, N_START]))
    # Different rows may have the same inputs.
    answers: dict[bytes, list[float]] = {}
    for x, value in zip(X[rest], y[rest], strict=True):
        answers.setdefault(x.tobytes(), []).append(value)
    return Data(
        X[start],
        y[start],
        X[rest],
        {"rand": X[rest[: row.n_points - N_START]], "lh": X[:0]},
        lambda X: np.array([answers[x.tobytes()].pop(0) for x in X]),
        builder(row, None),
        (X[fresh], y[fresh]) if n_fresh else None,
        (X[test], y[test]),
        None,
    )


def score(mean: np.ndarray, variance: np.ndarray | None, y: np.ndarray) -> dict[str, float]:
    result = {"rmse": float(np.sqrt(np.mean((y - mean) ** 2)))}
    if variance is not None:
        result["nll"] = float(np.mean(0.5 * np.log(2 * np.pi * variance) + 0.5 * (y - mean) ** 2 / variance))
    return result


def evaluate(fit: pma.Fit, row: Row, data: Data) -> dict[str, float]:
    """Errors on the test points, given the fresh points and what the fit says of the embedding."""
    X_test, y_test = data.test
    if not isinstance(fit, pma.LaplaceFit):
        fit = fit if data.fresh is None else fit.given(*data.fresh)
        prediction = pma.predict(fit, X_test, y_new=y_test)
        rmse = score(prediction.f_mean.to_numpy(), None, y_test)
        return rmse | {"nll": -float(prediction.y_log_density.mean())}
    if data.fresh is not None and row.noise is None:
        fit = pma.fit_laplace(data.make(*data.fresh), point=fit.point, optimize=False)
    elif data.fresh is not None:
        # The embedding is what was learned; noise and output scale follow the data that predict.
        wide = pm.Normal.dist(np.log(row.noise), 0.5)
        gpm = data.make(*data.fresh, R=fit.constrained_point["R"], log_noise=wide)
        fit = pma.fit_laplace(gpm, n_restarts=4, population=0, random_seed=0, progressbar=False)
    prediction = pma.predict(fit, X_test, method="map")
    return score(prediction.f_mean.to_numpy(), prediction.y_variance.to_numpy(), y_test)


def floor(row: Row, data: Data) -> dict[str, float] | None:
    """What the true R leaves; for Branin, a GP on the two true components with lengthscales of its own."""
    if data.R is None or data.fresh is None:
        return None
    X, y = data.fresh
    if row.kind == "synthetic":
        fit, X_test = pma.fit_laplace(data.make(X, y), point={"R": data.R}, optimize=False), data.test[0]
    else:
        priors = {"log_noise": pm.Normal.dist(np.log(row.noise), 0.5)}
        gpm = pma.ard_gp(X @ data.R.T, y, kernel="ExpQuad", mean="zero", priors=priors, y_scale=BRANIN_SCALE)
        fit, X_test = pma.fit_laplace(gpm, random_seed=0, progressbar=False), data.test[0] @ data.R.T
    prediction = pma.predict(fit, X_test, method="map")
    return score(prediction.f_mean.to_numpy(), prediction.y_variance.to_numpy(), data.test[1])


def is_checkpoint(n: int) -> bool:
    return n % STEP == 0


def learn(row: Row, data: Data, method: str, seed: int) -> dict:
    """A design by the Learner; of a Laplace fit also the mode found by a search of its own at the end."""
    _, criterion, inference = METHODS[method]
    gpm = data.make(data.X_start, data.y_start)
    learner = pma.Learner(
        gpm, "hyperparameters", criterion=criterion or "random", pool=data.pool, inference=inference, random_seed=seed
    )
    design, curve = iter(data.designs.get(MADE.get(method, ""), ())), {}
    for n in range(N_START + 1, row.n_points + 1):
        x = next(design)[None] if method in MADE else learner.ask()
        learner.tell(x, data.measure(x))
        # Laplace follows every design at every n, also where nothing is asked, so that all have the same search.
        if inference == "laplace" or is_checkpoint(n):
            fit = learner.fit
        if is_checkpoint(n):
            curve[n] = evaluate(fit, row, data)
    if inference != "laplace":
        return {"curve": curve, "final": curve[max(curve)]}
    # The learner works on a copy.
    gpm = learner.gpm
    last = pma.fit_laplace(gpm, start=fit, random_seed=seed, progressbar=False)
    result: dict = {"curve": curve, "final": evaluate(last, row, data)}
    result["search"] = {"n_modes": len(last.modes), "gain_of_last_search": last.log_posterior - fit.log_posterior}
    if row.kind == "synthetic":
        from_truth = pma.fit_laplace(gpm, start={"R": data.R}, n_restarts=0, population=0, progressbar=False)
        result["search"]["log_posterior_above_truth"] = last.log_posterior - from_truth.log_posterior
    return result


def learn_literally(row: Row, data: Data, method: str, seed: int) -> dict:
    """The paper's protocol: each mode from the previous one and one prior draw; latent BALD."""
    rng = np.random.default_rng((seed, 2))
    gpm = data.make(data.X_start, data.y_start)
    center, sd = gpm.posterior().prior_scale()
    left = data.pool

    def refit(previous: dict | None) -> pma.LaplaceFit:
        start = [gpm.unflatten(rng.normal(center, sd)) for _ in range(1 if previous else 2)]
        start += [previous] if previous else []
        return pma.fit_laplace(gpm, start=start, n_restarts=0, population=0, progressbar=False)

    fit, curve = refit(None), {}
    for n in range(N_START + 1, row.n_points + 1):
        if method == "paper_literal":
            pick = int(np.nanargmax(pma.active.bald(fit, left, target="f").to_numpy()))
            x, left = left[[pick]], np.delete(left, pick, axis=0)
        else:
            x = data.designs["rand"][[n - N_START - 1]]
        gpm.set_data(np.concatenate([gpm.X, x]), np.concatenate([gpm.y, data.measure(x)]))
        fit = refit(fit.point)
        if is_checkpoint(n):
            curve[n] = evaluate(fit, row, data)
    last = pma.fit_laplace(gpm, start=fit, random_seed=seed, progressbar=False)
    return {
        "curve": curve,
        "final": curve[row.n_points],
        # The same points searched as ours are: what the design was worth.
        "final_with_our_search": evaluate(last, row, data),
        "search": {"gain_of_last_search": last.log_posterior - fit.log_posterior},
    }


def learn_linearly(row: Row, data: Data, method: str) -> dict:
    X = np.concatenate([data.X_start, data.designs["rand"]])
    y = np.concatenate([data.y_start, data.measure(data.designs["rand"])])
    curve = {}
    for n in filter(is_checkpoint, range(N_START, row.n_points + 1)):
        mean = lasso.predict(X[:n], y[:n], data.test[0], cross_validated=method == "lasso_cv")
        curve[n] = score(mean, None, data.test[1])
    return {"curve": curve, "final": curve[row.n_points]}


def run(name: str, method: str, repeat: int, n_pool: int = 20_000, n_points: int | None = None) -> dict | None:
    row = ROWS[name] if n_points is None else ROWS[name]._replace(n_points=n_points)
    seed = (list(ROWS).index(name), repeat)
    try:
        data = make_real(row, seed) if row.kind == "real" else make_embedded(row, seed, n_pool)
    except (FileNotFoundError, ImportError) as error:
        print(f"{name} left out: {error}")
        return None
    if MADE.get(method) == "lh" and row.kind == "real":
        return None
    if method.startswith("lasso"):
        result: dict = learn_linearly(row, data, method)
    elif method.startswith("paper"):
        result = learn_literally(row, data, method, repeat)
    else:
        result = learn(row, data, method, repeat)
    if method == "rand":
        result["floor"] = floor(row, data)
    return result


def summarize_row(name: str, records: dict[Key, dict]) -> dict | None:
    """Statistics over the repeats that all methods hold; a method with less than half of the most is left out."""
    held = {m: {r for row, method, r in records if (row, method) == (name, m)} for m in METHODS}
    most = max(map(len, held.values()))
    held = {m: repeats for m, repeats in held.items() if repeats and len(repeats) >= most / 2}
    common = sorted(set.intersection(*held.values())) if held else []
    if not common:
        return None
    result: dict = {"repeats": common, "methods": {}}
    for m in held:
        chosen = [records[name, m, repeat] for repeat in common]
        metrics = [k for k in ("rmse", "nll") if k in chosen[0]["final"]]
        result["methods"][m] = {
            "curve": {k: {n: spread([r["curve"][n][k] for r in chosen]) for n in chosen[0]["curve"]} for k in metrics},
            "final": {k: spread([r["final"][k] for r in chosen]) for k in metrics},
            "area_rmse": spread([float(np.mean([v["rmse"] for v in r["curve"].values()])) for r in chosen]),
            "cpu_seconds": spread([r["cpu_seconds"] for r in chosen]),
            "wall_seconds": spread([r["wall_seconds"] for r in chosen]),
        }
        above = [r.get("search", {}).get("log_posterior_above_truth") for r in chosen]
        if None not in above:
            result["methods"][m]["searches_below_truth"] = sum(a < -0.5 for a in above)
        if "final_with_our_search" in chosen[0]:
            ours = [r["final_with_our_search"] for r in chosen]
            result["methods"][m]["final_with_our_search"] = {k: spread([o[k] for o in ours]) for k in metrics}
    ranked = sorted((m for m in held if m in DESIGNS), key=lambda m: result["methods"][m]["area_rmse"]["mean"])
    result["rank_by_area_rmse"] = ranked
    floors = [records[name, "rand", repeat].get("floor") for repeat in common] if "rand" in held else []
    if floors and None not in floors:
        result["floor"] = {k: spread([f[k] for f in floors]) for k in ("rmse", "nll")}
    row = ROWS[name]
    result["paper"] = {
        m: {"rmse": row.paper_rmse[i], "nll": row.paper_nll[i] if i < 4 else None}
        for m, i in PAPER.items()
        if row.paper_rmse
    }
    return result


def targets(summary: dict) -> list[dict]:
    """Of the default criterion alone: the best of several would flatter."""
    result, wins = [], []
    for name, row in summary.items():
        cells = row["methods"]
        if DEFAULT not in cells:
            continue
        if row["paper"] and "floor" in row:
            limit = max(row["paper"]["bald_f"]["rmse"], row["floor"]["rmse"]["mean"])
            what = f"{name}: RMSE at the end, {METHODS[DEFAULT][0]} (target: the paper's BALD or the floor)"
            result.append(target(what, cells[DEFAULT]["final"]["rmse"]["mean"], "<=", limit))
        areas = {m: cells[m]["area_rmse"]["mean"] for m in (DEFAULT, "rand_engine", "lh_engine") if m in cells}
        wins.append(min(areas, key=lambda m: areas[m]) == DEFAULT)
    what = f"rows of {len(wins)} in which its area under the RMSE curve is below RAND's and LH's by the engine"
    return [*result, target(what, sum(wins), ">=", len(wins) // 2 + 1)]


COLORS = {
    "rand": "#8a8a8a",
    "lh": "#c2b280",
    "uncertainty": "#d9822b",
    "bald_f": "#7fb3dd",
    "rand_engine": "#4d4d4d",
    "lh_engine": "#8c6d31",
    "bald_engine": "#1f6fb4",
    "paper_literal": "#b22222",
    "paper_literal_rand": "#e39a9a",
    "lasso_cv": "#000000",
}


def plot(summary: dict, metric: str):
    n_columns = min(4, len(summary))
    n_lines = -(-len(summary) // n_columns)
    size = (3.4 * n_columns, 2.8 * n_lines + 0.9)
    fig, axes = panels(n_lines, n_columns, figsize=size, squeeze=False)
    for ax, (name, row) in zip(axes.flat, summary.items(), strict=False):
        for m, color in COLORS.items():
            curve = row["methods"].get(m, {}).get("curve", {}).get(metric)
            if curve:
                n = [int(k) for k in curve]
                ax.plot(n, [c["mean"] for c in curve.values()], color=color, lw=1.5, label=METHODS[m][0])
                lower, upper = ([c[side] for c in curve.values()] for side in ("lower", "upper"))
                ax.fill_between(n, lower, upper, color=color, alpha=0.1, lw=0)
        if "floor" in row:
            ax.axhline(row["floor"][metric]["mean"], color="black", lw=0.8, ls=":", label="true R")
        if metric == "nll":
            # Overconfident fits to few points are off the scale by orders of magnitude.
            ends = [m["final"]["nll"]["mean"] for m in row["methods"].values() if "nll" in m["final"]]
            ax.set_ylim(min(ends) - 0.3, max(ends) + 1.5)
        ax.set_title(f"{name}, repeats: {len(row['repeats'])}", loc="left", fontsize=9)
    for ax in axes.flat[len(summary) :]:
        ax.set_visible(False)
    for ax in axes[:, 0]:
        ax.set_ylabel({"rmse": "RMSE", "nll": "NLL (nats)"}[metric])
    for ax in axes[-1]:
        ax.set_xlabel("points")
    entries = {label: h for ax in axes.flat for h, label in zip(*ax.get_legend_handles_labels(), strict=True)}
    fig.legend(entries.values(), entries.keys(), loc="outside lower center", ncols=6, fontsize=8)
    return fig


def report(records):
    summary = {name: row for name in ROWS if (row := summarize_row(name, records))}
    lines = []
    for name, row in summary.items():
        for m, cell in row["methods"].items():
            paper = row["paper"].get(m, {})
            lines.append(
                (
                    name,
                    METHODS[m][0],
                    len(row["repeats"]),
                    f"{cell['final']['rmse']['mean']:.3g} ± {cell['final']['rmse']['standard_error']:.2g}",
                    paper.get("rmse") or "",
                    f"{cell['final']['nll']['mean']:.3g}" if "nll" in cell["final"] else "",
                    paper.get("nll") or "",
                    f"{cell['area_rmse']['mean']:.3g}",
                    cell.get("searches_below_truth", ""),
                    f"{cell['cpu_seconds']['mean']:.0f}",
                )
            )
        if "floor" in row:
            rmse, nll = (f"{row['floor'][k]['mean']:.3g}" for k in ("rmse", "nll"))
            lines.append((name, "true R", len(row["repeats"]), rmse, "", nll, "", "", "", ""))
    header = ("row", "design", "repeats", "RMSE", "paper", "NLL", "paper", "area", "search failed", "CPU s")
    table(header, lines)
    plot(summary, "nll").savefig((_report.FOLDER or RESULTS) / "table2_nll.png", dpi=130, bbox_inches="tight")
    results = {"table": summary, "labels": {m: label for m, (label, *_) in METHODS.items()}}
    return results, plot(summary, "rmse"), targets(summary)


if __name__ == "__main__":
    names = ("rand", "bald_f", "bald_engine", "paper_literal", "lasso")
    small = {("synthetic 10/2", m, 0): partial(run, "synthetic 10/2", m, 0, 200, 20) for m in names}
    # The paper's rows first.
    keys = sorted(every(ROWS, METHODS, REPEATS), key=lambda key: not ROWS[key[0]].paper_rmse)
    main(__doc__, keys, run, report, small)
