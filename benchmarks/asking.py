"""What does one step of a run cost: a result is told, the fit follows, and the next point is chosen?

    python benchmarks/asking.py                            # 10 minutes
    python benchmarks/asking.py --smallest                 # one step from 10 points
    python benchmarks/asking.py --beside /path/to/checkout # another version of the package in turn, shown beside

A ``Learner`` with its defaults holds n random points of a smooth function with 10 % noise and asks once, which draws
the first fit; then it is told the result and asks again, four times. The cost of a step is the mean CPU time of these
four on one core: most steps reweigh and move the particles, some draw them anew. Pools have 300 points; the maximum is
looked for in a box. "18 kernels" are sums and products of the base kernels of one input.
"""

import json
import time
import warnings
from itertools import product

import _one_thread  # noqa: F401
import numpy as np
from _report import BLUE, GREY, ORANGE, child, panels, parser, table_of, write

SIZES, STEPS = (10, 30, 60, 100, 200), 4
KERNELS = (
    *("SE", "LIN", "PER", "RQ", "SE + LIN", "SE + PER", "SE * PER", "LIN + PER", "LIN * PER", "SE * LIN", "SE + RQ"),
    *("RQ + LIN", "RQ + PER", "RQ * PER", "LIN * LIN", "SE + LIN + PER", "SE * PER + LIN", "SE * PER + RQ"),
)
GOALS = {
    "function": "function, 2 inputs, pool",
    "hyperparameters": "hyperparameters, 2 inputs, pool",
    "maximum": "maximum, 2 inputs, box",
    "maximum 6": "maximum, 6 inputs, box",
    "embedding": "hyperparameters, 10 inputs in 2 components, pool",
    "model": "model, 4 kernels of 1 input, pool",
    "model 18": "model, 18 kernels of 1 input, pool",
}
INPUTS = {"maximum 6": 6, "embedding": 10, "model": 1, "model 18": 1}
# More would take minutes a step.
LARGEST = {"embedding": 100, "model 18": 60}


def learner(goal: str, n: int):
    import pymc_active as pma

    D = INPUTS.get(goal, 2)
    rng = np.random.default_rng((n, D))
    box = [(-1.0, 1.0)] * D
    direction = rng.normal(size=(D, 2)) / np.sqrt(D)

    def measure(X):
        U = np.asarray(X) @ direction
        return np.sin(3 * U[:, 0]) + U[:, 1] ** 2 + 0.1 * rng.normal(size=len(U))

    X, pool = rng.uniform(-1, 1, (n, D)), rng.uniform(-1, 1, (300, D))
    y = measure(X)
    where = {"bounds": box} if goal.startswith("maximum") else {"pool": pool}
    if goal == "embedding":
        models = pma.embedding_gp(X, y, n_components=2, bounds=box)
    elif goal.startswith("model"):
        kernels = KERNELS if goal == "model 18" else ("SE", "LIN", "PER", "LIN + PER")
        models = [pma.composite_gp(X, y, kernel, bounds=box) for kernel in kernels]
    else:
        models = pma.ard_gp(X, y, bounds=box)
    learn = "hyperparameters" if goal == "embedding" else goal.split()[0]
    return pma.Learner(models, learn, random_seed=0, **where), measure


def cost(goal: str, n: int, steps: int) -> dict[str, float]:
    warnings.simplefilter("ignore")
    active, measure = learner(goal, n)
    start = time.process_time()
    x = active.ask()
    first, seconds = time.process_time() - start, []
    for _ in range(steps):
        start = time.process_time()
        active.tell(x, measure(x))
        x = active.ask()
        seconds.append(time.process_time() - start)
    return {"first": first, "step": float(np.mean(seconds)), "largest": max(seconds)}


def picture(rows, versions):
    figure, axes = panels(1, len(GOALS), figsize=(2.2 * len(GOALS), 3), sharey=True)
    for ax, (goal, label) in zip(axes, GOALS.items(), strict=True):
        some = [row for row in rows if row["goal"] == goal]
        n = [row["n"] for row in some]
        for version, color in zip(versions, (BLUE, GREY), strict=False):
            ax.loglog(n, [row[version]["step"] for row in some], "o-", color=color, label=f"a step, {version}")
        ax.loglog(n, [row["this"]["first"] for row in some], "s:", color=ORANGE, label="the first ask")
        ax.set_title("\n".join(label.split(", ")), fontsize=9)
        ax.set_xlabel("points")
        ax.set_xticks(SIZES, map(str, SIZES))
        ax.minorticks_off()
    axes[0].set_ylabel("CPU seconds")
    axes[0].legend(fontsize=7)
    return figure


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--beside", help="another checkout")
    options = arguments.parse_args()
    if options.child:
        print(json.dumps(cost(**json.loads(options.child))))
        return
    versions = {"this": None} | ({"other": {"PYTHONPATH": options.beside}} if options.beside else {})
    rows, steps = [], 1 if options.smallest else STEPS
    for goal, n in product(GOALS, SIZES[:1] if options.smallest else SIZES):
        # Eighteen kernels are no matter of seconds.
        if n > LARGEST.get(goal, n) or (options.smallest and goal == "model 18"):
            continue
        case = {"goal": goal, "n": n, "steps": steps}
        found = {name: child(case, threads=1, environment=where) for name, where in versions.items()}
        rows.append({"goal": goal, "n": n, **found})
        costs = {f"{k}, {version}": one[k] for version, one in found.items() for k in ("first", "step")}
        table_of([{"goal": GOALS[goal], "n": n, **costs}])
    results, figure = {"rows": rows}, picture(rows, versions)
    write(__doc__, quick=options.smallest, threads="1", targets=[], results=results, figure=figure)


if __name__ == "__main__":
    main()
