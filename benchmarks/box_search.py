"""A criterion maximised over a box.

Does the search over a box find better points than 20,000 random candidates, in less time?

    python benchmarks/box_search.py [--quick]

One hundred random problems: embeddings of 10, 20 and 100 inputs (two components, a few with one or three), and ARD
with 10 inputs; 10 to 80 random points of the box [-1, 1]^D, a function drawn from the prior, noise of sd 0.1. The
hyperparameters are fitted with four ladder starts and no population; the prior of the noise sd knows it to a tenth,
since otherwise many of these fits explain few points by many inputs without any noise. ``maximize``, which is what
``Learner(bounds=...)`` calls, against the best of 20,000 candidates uniform in the box, drawn before the clock
starts. Times are paired, on one thread: medians of three rounds.

Beside it, at 10 and 20 inputs, the paper's way (Garnett et al. 2014, section 4.1): 100 places u of the embedded
box, for each of them the x that is surest to go there (``_surest_input.py``), the best of these; and two further
criteria on 15 problems, expected improvement and BALD over 50 draws from the posterior (one round).

Targets: a utility at least as high as that of the best candidate in 95 % of the problems, at less time.
"""

from __future__ import annotations

import json
import time
import warnings

import _report

# Name, D, components (0: ARD), problems, problems of the paper's map, problems of the further criteria.
FAMILIES = (
    ("10/2", 10, 2, 25, 8, 4),
    ("20/2", 20, 2, 25, 8, 4),
    ("100/2", 100, 2, 20, 0, 4),
    ("10/1", 10, 1, 5, 2, 0),
    ("20/3", 20, 3, 5, 2, 0),
    ("ARD, D = 10", 10, 0, 20, 0, 3),
)
N_CANDIDATES, N_PLACES, NOISE = 20_000, 100, 0.1
SMALLEST_SHARE = 0.95
CRITERIA = ("BALD", "expected improvement", "BALD, draws")


def make_fit(D: int, d: int, n: int, seed: int):
    """A fit to one draw from the prior, hyperparameters included."""
    import numpy as np
    import pymc as pm

    import pymc_active as pma

    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n, D))
    if d:
        U = X @ rng.normal(0, 1.25 * np.sqrt(3 / D), size=(d, D)).T
    else:
        U = X / np.exp(rng.normal(0.5 * np.log(D), 1.0, size=D))
    K = np.exp(-0.5 * np.square(U[:, None] - U).sum(-1))
    y = np.linalg.cholesky(K + NOISE**2 * np.eye(n)) @ rng.normal(size=n)
    priors = {"log_noise": pm.Normal.dist(np.log(NOISE), 0.1)}
    gpm = pma.embedding_gp(X, y, n_components=d, priors=priors) if d else pma.ard_gp(X, y, priors=priors)
    return pma.fit_laplace(gpm, n_restarts=4, population=0, random_seed=seed, progressbar=False)


def compare(fit, criterion, candidates, rounds: int) -> dict:
    """Utility and time of the search and of the candidates."""
    import numpy as np

    from pymc_active.criteria.maximize_in_box import maximize
    from pymc_active.criteria.screening import screened

    high, scorer = np.ones(candidates.shape[1]), criterion.prepare(fit)
    calls = {
        "search": lambda: maximize(scorer, -high, high, np.random.default_rng(1)).values[0],
        "candidates": lambda: screened(scorer, candidates).max(),
    }
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    utility = {}
    for _ in range(rounds):
        for name, call in calls.items():
            start = time.perf_counter()
            utility[name] = float(call())
            seconds[name].append(time.perf_counter() - start)
    medians = {name: float(np.median(values)) for name, values in seconds.items()}
    return {"utility": utility, "seconds": medians, "time_ratio": medians["search"] / medians["candidates"]}


def paper(fit, D: int, rng) -> dict:
    """The best of the surest inputs for places in the embedded box."""
    import numpy as np
    from _surest_input import surest_input

    from pymc_active.criteria.bald import Bald
    from pymc_active.criteria.maximize_in_box import extreme_corners

    R = fit.theta[fit.gpm.embedding_slice[0]].reshape(fit.gpm.embedding_slice[1])
    corners = 2 * extreme_corners(R, N_PLACES, rng) - 1
    # Images of points near the ways from the centre to corners that are vertices of the embedded box.
    rays = corners[rng.integers(len(corners), size=N_PLACES)] + 0.2 * rng.uniform(-1, 1, size=(N_PLACES, D))
    places = np.clip(rays, -1, 1) * rng.uniform(size=(N_PLACES, 1)) ** (1 / len(R)) @ R.T
    start = time.perf_counter()
    X = np.stack([surest_input(fit, u) for u in places])
    utility = float(Bald().prepare(fit).score(X).max())
    return {"utility": utility, "seconds": time.perf_counter() - start, "places": N_PLACES}


def run_family(D: int, d: int, problems: int, n_paper: int, n_further: int, rounds: int, seed: int) -> list[dict]:
    import numpy as np

    from pymc_active.criteria.bald import Bald
    from pymc_active.criteria.improvement import ExpectedImprovement

    warnings.simplefilter("ignore", UserWarning)
    sizes = np.linspace(10, 80, problems).round().astype(int)

    def spread(k: int) -> set[int]:
        return set(np.linspace(0, problems - 1, k).round().astype(int).tolist())

    results = []
    for i, n in enumerate(sizes):
        fit = make_fit(D, d, int(n), seed + i)
        rng = np.random.default_rng([seed, i])
        candidates = rng.uniform(-1, 1, size=(N_CANDIDATES, D))
        result = {"n": int(n), "seed": seed + i, "BALD": compare(fit, Bald(), candidates, rounds)}
        if i in spread(n_paper):
            result["paper"] = paper(fit, D, rng)
        if i in spread(n_further):
            result["expected improvement"] = compare(fit, ExpectedImprovement(), candidates, rounds)
            result["BALD, draws"] = compare(fit, Bald(method="draws", random_seed=0), candidates, 1)
        results.append(result)
    return results


def summary(pairs: list[dict]) -> dict:
    from statistics import median

    return {
        "problems": len(pairs),
        "share_at_least_as_high": sum(p["utility"]["search"] >= p["utility"]["candidates"] for p in pairs) / len(pairs),
        "share_faster": sum(p["time_ratio"] < 1 for p in pairs) / len(pairs),
        "median_time_ratio": median(p["time_ratio"] for p in pairs),
        "largest_time_ratio": max(p["time_ratio"] for p in pairs),
        "median_gain": median(p["utility"]["search"] - p["utility"]["candidates"] for p in pairs),
        "smallest_gain": min(p["utility"]["search"] - p["utility"]["candidates"] for p in pairs),
    }


def draw(families: dict[str, list[dict]]):
    import matplotlib.pyplot as plt

    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(14, 4.2))
    colors = dict(zip(families, plt.colormaps["tab10"].colors, strict=False))
    for name, problems in families.items():
        x = [p["BALD"]["utility"]["candidates"] for p in problems]
        y = [p["BALD"]["utility"]["search"] for p in problems]
        left.plot(x, y, "o", ms=4, color=colors[name], label=name)
        with_paper = [p for p in problems if "paper" in p]
        left.plot(
            [p["BALD"]["utility"]["candidates"] for p in with_paper],
            [p["paper"]["utility"] for p in with_paper],
            "x",
            ms=5,
            color=colors[name],
        )
        ratios = [p["BALD"]["time_ratio"] for p in problems]
        middle.plot([p["n"] for p in problems], ratios, "o", ms=4, color=colors[name], label=name)
    left.plot([], [], "x", color="0.4", label="surest inputs (paper)")
    ends = [0.1, 1.1 * max(left.get_xlim()[1], left.get_ylim()[1])]
    left.plot(ends, ends, color="black", lw=0.8)
    left.set(xscale="log", yscale="log", xlabel=f"best of {N_CANDIDATES:,} candidates, nats", ylabel="search, nats")
    left.set_title("BALD at the point found", fontsize=10)
    left.legend(frameon=False, fontsize=8)
    middle.axhline(1, color="black", lw=0.8)
    middle.set(yscale="log", xlabel="points n", ylabel="time of the search / of the candidates")
    middle.set_title("time, BALD", fontsize=10)
    for criterion, marker, color in (("expected improvement", "s", _report.ORANGE), ("BALD, draws", "D", _report.BLUE)):
        pairs = [p[criterion] for problems in families.values() for p in problems if criterion in p]
        right.plot(
            [p["utility"]["search"] - p["utility"]["candidates"] for p in pairs],
            [p["time_ratio"] for p in pairs],
            marker,
            ms=5,
            color=color,
            label=criterion,
        )
    right.axhline(1, color="black", lw=0.8)
    right.axvline(0, color="black", lw=0.8)
    right.set(yscale="log", xlabel="search less best candidate (log units of y; nats)", ylabel="time ratio")
    right.set_title("further criteria", fontsize=10)
    right.legend(frameon=False, fontsize=8)
    right.yaxis.set_minor_formatter(lambda ratio, _: f"{ratio:g}")
    right.yaxis.set_major_formatter(lambda ratio, _: f"{ratio:g}")
    for axes in (left, middle, right):
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    return figure


def main() -> None:
    arguments = _report.parser(__doc__).parse_args()
    if arguments.child:
        print(json.dumps(run_family(**json.loads(arguments.child))))
        return
    families = {}
    for i, (name, D, d, problems, n_paper, n_further) in enumerate(FAMILIES):
        if arguments.quick:
            problems, n_paper, n_further = 2, min(n_paper, 1), min(n_further, 1)
        case = {"D": D, "d": d, "problems": problems, "n_paper": n_paper, "n_further": n_further}
        families[name] = _report.child({**case, "rounds": 1 if arguments.quick else 3, "seed": 1000 * i}, threads=1)
        print(f"{name}: {problems} problems done", flush=True)
    everything = [p for problems in families.values() for p in problems]
    summaries = {
        **{f"BALD, {name}": summary([p["BALD"] for p in problems]) for name, problems in families.items()},
        **{f"{name}, all": summary([p[name] for p in everything if name in p]) for name in CRITERIA},
    }
    with_paper = [p for p in everything if "paper" in p]
    by_paper = {
        "problems": len(with_paper),
        "share_at_least_as_high_as_candidates": sum(
            p["paper"]["utility"] >= p["BALD"]["utility"]["candidates"] for p in with_paper
        )
        / len(with_paper),
        "median_of_its_share_of_the_utility_of_the_search": float(
            _report.quartiles([p["paper"]["utility"] / p["BALD"]["utility"]["search"] for p in with_paper])["median"]
        ),
        "median_seconds": _report.quartiles([p["paper"]["seconds"] for p in with_paper])["median"],
    }
    _report.table(
        ("criterion, problems", "number", "at least as high", "faster", "time ratio: median, largest", "median gain"),
        [
            (
                name,
                s["problems"],
                f"{s['share_at_least_as_high']:.0%}",
                f"{s['share_faster']:.0%}",
                f"{s['median_time_ratio']:.2f}, {s['largest_time_ratio']:.2f}",
                f"{s['median_gain']:.3g}",
            )
            for name, s in summaries.items()
        ],
    )
    print(f"\nThe paper's surest inputs, {N_PLACES} places: {by_paper}")
    targets = []
    for name in CRITERIA:
        s = summaries[f"{name}, all"]
        of = f"{name}, {s['problems']} problems"
        targets.append(
            _report.target(
                f"share with a utility at least as high, {of}", s["share_at_least_as_high"], ">=", SMALLEST_SHARE
            )
        )
        targets.append(_report.target(f"median time over that of the candidates, {of}", s["median_time_ratio"], "<", 1))
    for name in families:
        what = f"median time over that of the candidates, BALD, {name}"
        targets.append(_report.target(what, summaries[f"BALD, {name}"]["median_time_ratio"], "<", 1))
    _report.write(
        __doc__,
        quick=arguments.quick,
        threads="1, each kind of problem in a process of its own",
        targets=targets,
        results={"summaries": summaries, "surest_inputs": by_paper, "problems": families},
        figure=draw(families),
    )


if __name__ == "__main__":
    main()
