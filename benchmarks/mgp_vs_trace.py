"""How far are MAP, BBQ and MGP from the exact posterior over the hyperparameters?

    python benchmarks/mgp_vs_trace.py            # 12 data sets, about ten minutes
    python benchmarks/mgp_vs_trace.py --quick    # 2 data sets

Five-input ARD problems drawn from the model itself: lengthscales and output scale from their priors, noise sd 0.1,
50 points in the box [-1.7, 1.7]^5 (unit sd), and 50 test points 1 to 3 lengthscales from a training point in a random
direction, as in Table 1 of Garnett, Osborne & Hennig (2014). All seven hyperparameters are marginalised, under the
default priors of ``pma.ard_gp``. Truth: NUTS, 4 chains of 1,000 draws. ``pma.check`` compares; errors are standard
errors over the data sets.
"""

import argparse
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import warnings

import numpy as np
from _report import target, write

import pymc_active as pma

N_POOL = 300
METHODS = ("MAP", "BBQ", "MGP")
METRICS = ("skl", "skl_mixture", "skl_y", "nll")


def draw_problem(seed: int, D: int = 5):
    """Training data, test data (10 D points each) and a pool, from one function of the model."""
    n = n_test = 10 * D
    rng = np.random.default_rng((seed, D, n))
    lengthscale = np.exp(rng.normal(0.5 * np.log(D), 1.0, D))
    outputscale = np.exp(rng.normal())
    X = rng.uniform(-1.7, 1.7, (n, D))
    direction = rng.normal(size=(n_test, D))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    X_new = X[rng.integers(n, size=n_test)] + rng.uniform(1, 3, (n_test, 1)) * lengthscale * direction
    Z = np.concatenate([X, X_new]) / lengthscale
    s = np.square(Z[:, None] - Z).sum(-1)
    K = outputscale**2 * np.exp(-s / 2) + 0.01 * np.eye(len(Z))
    y = rng.multivariate_normal(np.zeros(len(Z)), K, method="cholesky")
    return X, y[:n], X_new, y[n:], rng.uniform(-1.7, 1.7, (N_POOL, D))


def run_one(gpm: pma.GPModel, seed: int) -> dict:
    X, y, X_new, y_new, pool = draw_problem(seed)
    gpm.set_data(X, y)
    fit = pma.fit_laplace(gpm, random_seed=seed, progressbar=False)
    trace = pma.sample(gpm, random_seed=seed, progressbar=False, cores=1, nuts_sampler="pymc", target_accept=0.95)
    tree = pma.check(fit, trace, X_new=X_new, y_new=y_new, pool=pool, criteria=["bald"], random_seed=0)
    predictions = tree["predictions"].to_dataset().sel(approximation=[m.lower() for m in METHODS])
    return {
        "seed": seed,
        **{k: dict(zip(METHODS, predictions[k].mean("point").to_numpy().tolist(), strict=True)) for k in METRICS},
        "pareto_k": float(tree["laplace"]["pareto_k"]),
        "regret_ratio": float(tree["decision"]["regret_ratio"].sel(criterion="bald")),
        "worst_rhat": float(tree["trace_diagnostics"]["rhat"].max()),
        "smallest_ess_bulk": float(tree["trace_diagnostics"]["ess_bulk"].min()),
        "n_modes": len(fit.modes),
    }


def summarize(records: list[dict]) -> dict:
    table = {}
    for metric in METRICS:
        for method in METHODS:
            values = np.array([r[metric][method] for r in records])
            table.setdefault(metric, {})[method] = {
                "mean": float(values.mean()),
                "standard_error": float(values.std(ddof=1) / np.sqrt(len(values))),
                "median": float(np.median(values)),
            }
    return table


def plot(records: list[dict], table: dict):
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    titles = {"skl": "latent f: symmetrised KL to the trace (nats)", "nll": "test points: -log q(y) (nats)"}
    for ax, (metric, title) in zip(axes, titles.items(), strict=True):
        for r in records:
            ax.plot(range(3), [r[metric][m] for m in METHODS], color="#c8c8c8", lw=0.8, zorder=1)
        for i, m in enumerate(METHODS):
            t = table[metric][m]
            ax.errorbar(i, t["mean"], t["standard_error"], fmt="o", color="#1f4e8c", capsize=4, zorder=2)
        ax.set_xticks(range(3), METHODS)
        ax.set_xlim(-0.4, 2.4)
        ax.set_title(title, loc="left", fontsize=10)
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set_yscale("log")
    return fig


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="2 data sets")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    X, y, *_ = draw_problem(0)
    gpm = pma.ard_gp(X, y)
    records = []
    for seed in range(2 if arguments.quick else 12):
        records.append(run_one(gpm, seed))
        r = records[-1]
        print(
            f"#{seed}: SKL "
            + ", ".join(f"{m} {r['skl'][m]:.3f}" for m in METHODS)
            + f"; regret ratio {r['regret_ratio']:.2f}, Pareto k {r['pareto_k']:.2f}, "
            f"R-hat {r['worst_rhat']:.3f}, ESS {r['smallest_ess_bulk']:.0f}",
            flush=True,
        )
    table = summarize(records)
    for metric, row in table.items():
        print(f"{metric:12s}", "  ".join(f"{m} {t['mean']:.3f} ± {t['standard_error']:.3f}" for m, t in row.items()))
    skl = {m: table["skl"][m]["mean"] for m in METHODS}
    write(
        __doc__,
        quick=arguments.quick,
        threads="one",
        targets=[
            target("mean SKL, MGP over BBQ (the paper: below 1)", skl["MGP"] / skl["BBQ"], "<", 1),
            target("mean SKL, BBQ over MAP (the paper: below 1)", skl["BBQ"] / skl["MAP"], "<", 1),
        ],
        results={"table": table, "data_sets": records},
        figure=plot(records, table),
    )


if __name__ == "__main__":
    main()
