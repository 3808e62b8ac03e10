"""How fast is one ask, and how good is its pick, against BoTorch's fully Bayesian BALD?

    python benchmarks/bald_vs_botorch.py --install    # once: an environment for BoTorch beside this file (about 6 GB)
    python benchmarks/bald_vs_botorch.py              # 10 data sets, about half an hour, resumable
    python benchmarks/bald_vs_botorch.py --quick      # 2 data sets

One ask: 10 inputs, 50 points, a pool of 2,000; the model is fitted, the pool scored, one row chosen. Ours:
``pma.ard_gp``, ``pma.fit_laplace``, ``pma.active.bald`` with each of its methods. BoTorch: NumPyro's NUTS, 256 steps
of warm-up and 128 draws, of which every 16th is kept as by default, then ``qBayesianActiveLearningByDisagreement``;
once as shipped (``FullyBayesianSingleTaskGP``, X in [0, 1], y standardised, its own priors) and once with our priors.
The kernel is Matern-5/2 throughout, that of BoTorch's model. With our priors the two models are one, but BoTorch
samples it in single precision. Every process has one thread and one CPU; imports are timed apart; *cold* is the first
ask of a fresh process, *warm* the same ask once more.

Data are drawn from the model: log-lengthscales and log-outputscale from their priors, noise sd 0.1. The truth is the
mutual information of y* and the hyperparameters under NUTS (4 chains of 1,000; ``pma.sample``), thinned to 1,000 draws;
quality is that of the pick over the best in the pool.

Target: at least 20 times faster, warm, at no lower relative utility.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import json
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from unittest import mock

import numpy as np
from _report import BLUE, ORANGE, RESULTS, child, committed, parser, target, write

D, N, N_POOL, NOISE, HALF_WIDTH = 10, 50, 2000, 0.1, 1.7
WARMUP, DRAWS, THINNING = 256, 128, 16
N_TRUE = 1000
PARTS = RESULTS / "bald_vs_botorch_parts"
ENVIRONMENT = Path(__file__).parent / ".venv-botorch"
REQUIREMENTS = ("botorch[fully_bayesian]==0.18.1", "jax==0.9.2", "numpyro==0.22.0", "torch==2.14.1")
METHODS = ("mgp", "modes", "draws", "cubature")
RIVALS = {"BoTorch, our priors": True, "BoTorch": False}


def draw_data(seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng((seed, D, N))
    lengthscale, outputscale = np.exp(rng.normal(0.5 * np.log(D), 1.0, D)), np.exp(rng.normal())
    X, pool = (rng.uniform(-HALF_WIDTH, HALF_WIDTH, (m, D)) for m in (N, N_POOL))
    Z = X / lengthscale
    r = np.sqrt(5 * np.square(Z[:, None] - Z).sum(-1))
    K = outputscale**2 * (1 + r + r**2 / 3) * np.exp(-r) + NOISE**2 * np.eye(N)
    return {"X": X, "y": rng.multivariate_normal(np.zeros(N), K, method="cholesky"), "pool": pool}


def repeated(ask, **imports: float) -> dict:
    """Cold and warm seconds of fit and score, and the picks."""
    result: dict = dict(imports)
    for name in ("cold", "warm"):
        start = time.perf_counter()
        model = ask.fit()
        fitted = time.perf_counter()
        pick = int(np.argmax(ask.score(model)))
        end = time.perf_counter()
        result[name] = {"fit": fitted - start, "score": end - fitted, "total": end - start, "pick": pick}
    return result


def ask_ours(data: dict, method: str) -> dict:
    start = time.perf_counter()
    import pymc_active as pma

    # Names are loaded when they are first used.
    _ = pma.ard_gp, pma.fit_laplace, pma.active.bald
    seconds = time.perf_counter() - start

    class Ask:
        def fit(self):
            gpm = pma.ard_gp(data["X"], data["y"], kernel="Matern52")
            return pma.fit_laplace(gpm, random_seed=0, progressbar=False)

        def score(self, fit):
            return pma.active.bald(fit, data["pool"], method=method, random_seed=0).to_numpy()

    return repeated(Ask(), imports=seconds)


def ask_botorch(data: dict, our_priors: bool) -> dict:
    start = time.perf_counter()
    import jax.numpy as jnp
    import numpyro
    import numpyro.distributions as dist
    import torch
    from botorch.acquisition.bayesian_active_learning import qBayesianActiveLearningByDisagreement
    from botorch.fit import fit_fully_bayesian_model_nuts
    from botorch.models.fully_bayesian import FullyBayesianSingleTaskGP, MaternPyroModel

    seconds = time.perf_counter() - start
    torch.set_num_threads(1)

    class OurPriors(MaternPyroModel):
        """The priors of ``pma.ard_gp`` for lengthscales in units of a box of side one, and variances for sds."""

        def sample_outputscale(self, concentration=None, rate=None):
            return numpyro.sample("outputscale", dist.LogNormal(0.0, 2.0))

        def sample_noise(self):
            return numpyro.sample("noise", dist.LogNormal(2 * np.log(0.1), 2.0))

        def sample_mean(self):
            return numpyro.deterministic("mean", jnp.array(0.0))

        def sample_lengthscale(self, dim):
            unit = np.log(2 * HALF_WIDTH)
            return numpyro.sample("lengthscale", dist.LogNormal(jnp.full(dim, 0.5 * np.log(dim) - unit), 1.0))

    class OurGP(FullyBayesianSingleTaskGP):
        _pyro_model_class = OurPriors

    y = data["y"] if our_priors else (data["y"] - data["y"].mean()) / data["y"].std(ddof=1)
    X, pool = (torch.tensor((data[k] + HALF_WIDTH) / (2 * HALF_WIDTH)) for k in ("X", "pool"))

    class Ask:
        def fit(self):
            model = (OurGP if our_priors else FullyBayesianSingleTaskGP)(X, torch.tensor(y)[:, None])
            fit_fully_bayesian_model_nuts(
                model, warmup_steps=WARMUP, num_samples=DRAWS, thinning=THINNING, disable_progbar=True
            )
            return model

        def score(self, model):
            torch.manual_seed(0)
            with torch.no_grad():
                return qBayesianActiveLearningByDisagreement(model)(pool[:, None]).numpy()

    from importlib.metadata import version

    names = ("botorch", "gpytorch", "torch", "numpyro", "jax", "numpy")
    return repeated(Ask(), imports=seconds) | {"versions": {name: version(name) for name in names}}


def run_child(arguments: dict) -> None:
    warnings.filterwarnings("ignore")
    data = dict(np.load(arguments["data"]))
    if "method" in arguments:
        result = ask_ours(data, arguments["method"])
    else:
        result = ask_botorch(data, arguments["our_priors"])
    print(json.dumps(result))


def python() -> str:
    return str(ENVIRONMENT / "bin" / "python")


def install() -> None:
    subprocess.run([sys.executable, "-m", "venv", ENVIRONMENT], check=True)
    subprocess.run([python(), "-m", "pip", "install", *REQUIREMENTS], check=True)


def truth(data: dict, seed: int) -> dict[str, np.ndarray]:
    """True utility of each candidate, and that under the first and last two chains alone."""
    import pymc_active as pma
    from pymc_active.information.outcome_divergences import normal
    from pymc_active.models.traces import trace_thetas
    from pymc_active.predictions.moments import draw_moments

    gpm = pma.ard_gp(data["X"], data["y"], kernel="Matern52")
    trace = pma.sample(gpm, random_seed=seed, progressbar=False, cores=1, nuts_sampler="pymc", target_accept=0.95)
    thetas = trace_thetas(gpm, trace)
    thin = thetas[np.linspace(0, len(thetas) - 1, N_TRUE).astype(int)]
    means, variances, noises = draw_moments(gpm.posterior(), thin, data["pool"])
    sds = np.sqrt(variances + noises)
    halves = slice(N_TRUE // 2), slice(N_TRUE // 2, None)
    return {
        "utility": normal(means, sds).kl.mean(0),
        "halves": np.stack([normal(means[h], sds[h]).kl.mean(0) for h in halves]),
    }


def run_one(seed: int, path: Path, methods: list[str]) -> dict:
    data = draw_data(seed)
    np.savez(path, **data)
    asks = {}
    for name, our_priors in RIVALS.items():
        with mock.patch.object(sys, "executable", python()):
            asks[name] = child({"data": str(path), "our_priors": our_priors}, threads=1)
    for method in methods:
        asks[f"ours, {method}"] = child({"data": str(path), "method": method}, threads=1)
    exact = truth(data, seed)
    utility, (a, b) = exact["utility"], exact["halves"]
    for ask in asks.values():
        ask["utility"] = float(utility[ask["warm"]["pick"]])
        ask["relative_utility"] = float(ask["utility"] / utility.max())
    return {
        "seed": seed,
        "asks": asks,
        "best_utility": float(utility.max()),
        "mean_relative_utility_of_the_pool": float(utility.mean() / utility.max()),
        "split_half": float(0.5 * (b[a.argmax()] / b.max() + a[b.argmax()] / a.max())),
    }


def available() -> list[str]:
    """Methods of ``bald`` that the package has."""
    import pymc_active as pma

    X = np.linspace(-1, 1, 6)[:, None]
    fit = pma.fit_laplace(pma.ard_gp(X, np.sin(X[:, 0])), random_seed=0, progressbar=False)
    found = []
    for method in METHODS:
        try:
            pma.active.bald(fit, X, method=method, random_seed=0)
            found.append(method)
        except ValueError as error:
            print(f"without {method!r}: {error}")
    return found


def summarize(records: list[dict]) -> dict:
    table = {}
    for name in records[0]["asks"]:
        asks = [r["asks"][name] for r in records]
        relative = np.array([a["relative_utility"] for a in asks])
        table[name] = {
            "relative_utility": float(relative.mean()),
            "standard_error": float(relative.std(ddof=1) / np.sqrt(len(relative))),
            **{f"{when}_{part}_seconds": float(np.median([a[when][part] for a in asks]))
               for when in ("cold", "warm") for part in ("fit", "score", "total")},
            "import_seconds": float(np.median([a["imports"] for a in asks])),
        }  # fmt: skip
    return table


def plot(records: list[dict], table: dict):
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(1, 2, figsize=(9, 0.5 * len(table) + 1.4), sharey=True, layout="constrained")
    for i, (name, row) in enumerate(table.items()):
        color = BLUE if name.startswith("ours") else ORANGE
        asks = [r["asks"][name] for r in records]
        axes[0].plot([a["warm"]["total"] for a in asks], [i] * len(asks), "o", color=color, alpha=0.35, mew=0)
        axes[0].plot(row["warm_total_seconds"], i, "|", color=color, ms=18, mew=2)
        axes[1].plot([a["relative_utility"] for a in asks], [i] * len(asks), "o", color=color, alpha=0.35, mew=0)
        axes[1].errorbar(row["relative_utility"], i, xerr=row["standard_error"], fmt="|", color=color, ms=18, mew=2)
    axes[0].set_xscale("log")
    axes[0].set_yticks(range(len(table)), list(table))
    axes[0].invert_yaxis()
    axes[0].set_xlabel("seconds of a warm ask, one thread (bar: median)")
    axes[1].set_xlabel("true utility of the pick over the best (bar: mean ± se)")
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)
    return fig


def main() -> None:
    command = parser(__doc__)
    command.add_argument("--install", action="store_true", help="make the environment for BoTorch")
    arguments = command.parse_args()
    if arguments.child:
        run_child(json.loads(arguments.child))
        return
    if arguments.install:
        install()
        return
    if not Path(python()).exists():
        command.error("BoTorch has no environment yet: run with --install first")
    warnings.filterwarnings("ignore")
    methods, records = available(), []
    PARTS.mkdir(parents=True, exist_ok=True)
    for seed in range(2 if arguments.quick else 10):
        # Results of another version of the package are made anew.
        part = PARTS / f"{committed()}_{seed}.json"
        if not part.exists():
            with tempfile.TemporaryDirectory() as folder:
                part.write_text(json.dumps(run_one(seed, Path(folder) / "data.npz", methods)))
        records.append(json.loads(part.read_text()))
        told = (f"{k} {a['warm']['total']:.2f} s {a['relative_utility']:.2f}" for k, a in records[-1]["asks"].items())
        print(f"#{seed}: {'; '.join(told)}; split half {records[-1]['split_half']:.2f}", flush=True)
    table = summarize(records)
    for name, row in table.items():
        print(
            f"{name:20s} cold {row['cold_total_seconds']:.2f} s, warm {row['warm_total_seconds']:.2f} s "
            f"(fit {row['warm_fit_seconds']:.2f}, score {row['warm_score_seconds']:.2f}); "
            f"relative utility {row['relative_utility']:.3f} ± {row['standard_error']:.3f}"
        )
    rival, targets = table["BoTorch, our priors"], []
    for name in (f"ours, {method}" for method in methods):
        for when in ("warm", "cold"):
            ratio = rival[f"{when}_total_seconds"] / table[name][f"{when}_total_seconds"]
            targets.append(target(f"speed-up over BoTorch, our priors, {when} ({name})", ratio, ">=", 20))
        gain = table[name]["relative_utility"] - rival["relative_utility"]
        targets.append(target(f"relative utility above BoTorch's, our priors ({name})", gain, ">=", 0))
    write(
        __doc__,
        quick=arguments.quick,
        threads="one, on one CPU",
        targets=targets,
        results={"requirements": REQUIREMENTS, "table": table, "data_sets": records},
        figure=plot(records, table),
    )


if __name__ == "__main__":
    main()
