"""How fast is one ask, and how good is its pick, against BoTorch's fully Bayesian BALD?

    python benchmarks/pes_peers.py --install   # once: an environment for BoTorch beside this file

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

import json
import sys
import tempfile
import time
import warnings
from functools import partial
from unittest import mock

import _one_thread  # noqa: F401
import numpy as np
from pes_peers import is_installed, python

D, N, N_POOL, NOISE, HALF_WIDTH = 10, 50, 2000, 0.1, 1.7
WARMUP, DRAWS, THINNING = 256, 128, 16
N_TRUE = 1000
ROW = f"{D} inputs, {N} points"
METHODS = ("mgp", "modes", "draws")
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


if "--child" not in sys.argv:
    from _records import every, main
    from _report import BLUE, ORANGE, child, mean_and_error, panels, table_of, target


def truth(data: dict, seed: int, draws: int) -> np.ndarray:
    """True utility of each candidate."""
    import pymc_active as pma
    from pymc_active.information.mixture_entropy import gaussian_entropy, mixture_entropy
    from pymc_active.models.traces import trace_thetas
    from pymc_active.predictions.moments import draw_moments

    gpm = pma.ard_gp(data["X"], data["y"], kernel="Matern52")
    how = {"draws": draws, "tune": draws, "cores": 1, "nuts_sampler": "pymc", "target_accept": 0.95}
    thetas = trace_thetas(gpm, pma.sample(gpm, random_seed=seed, progressbar=False, **how))
    thin = thetas[np.linspace(0, len(thetas) - 1, N_TRUE).astype(int)]
    means, variances, noises = draw_moments(gpm.posterior(), thin, data["pool"])
    variances = variances + noises
    return mixture_entropy(means, variances, np.full(len(thin), 1 / len(thin))) - gaussian_entropy(variances).mean(0)


def record(row: str, method: str, seed: int, n_pool: int = N_POOL, draws: int = 1000) -> dict | None:
    """Asks by all methods on one data set; None without BoTorch, unless the problem is small."""
    if not is_installed():
        print("BoTorch has no environment (python benchmarks/pes_peers.py --install): left out")
        if n_pool == N_POOL:
            return None
    data, asks = draw_data(seed), {}
    data["pool"] = data["pool"][:n_pool]
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/data.npz"
        np.savez(path, **data)
        for name, our_priors in RIVALS.items() if is_installed() else ():
            with mock.patch.object(sys, "executable", str(python())):
                asks[name] = child({"data": path, "our_priors": our_priors}, threads=1)
        for method in METHODS:
            asks[f"ours, {method}"] = child({"data": path, "method": method}, threads=1)
    utility = truth(data, seed, draws)
    for ask in asks.values():
        ask["relative_utility"] = float(utility[ask["warm"]["pick"]] / utility.max())
    return {"asks": asks}


def summarize(records: list[dict]) -> dict:
    table = {}
    for name in records[0]["asks"]:
        asks = [r["asks"][name] for r in records]
        relative, error = mean_and_error([a["relative_utility"] for a in asks])
        table[name] = {
            "relative_utility": relative,
            "standard_error": error,
            **{f"{when}_{part}_seconds": float(np.median([a[when][part] for a in asks]))
               for when in ("cold", "warm") for part in ("fit", "score", "total")},
            "import_seconds": float(np.median([a["imports"] for a in asks])),
        }  # fmt: skip
    return table


def plot(records: list[dict], table: dict):
    figure, axes = panels(1, 2, figsize=(9, 0.5 * len(table) + 1.4), sharey=True)
    for i, (name, row) in enumerate(table.items()):
        color = BLUE if name.startswith("ours") else ORANGE
        asks, dots = [r["asks"][name] for r in records], {"color": color, "alpha": 0.35, "mew": 0}
        axes[0].plot([a["warm"]["total"] for a in asks], [i] * len(asks), "o", **dots)
        axes[0].plot(row["warm_total_seconds"], i, "|", color=color, ms=18, mew=2)
        axes[1].plot([a["relative_utility"] for a in asks], [i] * len(asks), "o", **dots)
        axes[1].errorbar(row["relative_utility"], i, xerr=row["standard_error"], fmt="|", color=color, ms=18, mew=2)
    axes[0].set(xscale="log", xlabel="seconds of a warm ask, one thread (bar: median)")
    axes[0].set_yticks(range(len(table)), list(table))
    axes[0].invert_yaxis()
    axes[1].set_xlabel("true utility of the pick over the best (bar: mean ± se)")
    return figure


def report(records):
    records = list(records.values())
    table, targets = summarize(records), []
    table_of([{"": name, **row} for name, row in table.items()])
    rival = table.get("BoTorch, our priors")
    for name in (f"ours, {method}" for method in METHODS if rival):
        for when in ("warm", "cold"):
            ratio = rival[f"{when}_total_seconds"] / table[name][f"{when}_total_seconds"]
            targets.append(target(f"speed-up over BoTorch, our priors, {when} ({name})", ratio, ">=", 20))
        gain = table[name]["relative_utility"] - rival["relative_utility"]
        targets.append(target(f"relative utility above BoTorch's, our priors ({name})", gain, ">=", 0))
    return {"table": table}, plot(records, table), targets


if __name__ == "__main__":
    # Children, which run in either environment, read only what is above.
    if "--child" in sys.argv:
        run_child(json.loads(sys.argv[-1]))
    else:
        small = {(ROW, "all", 0): partial(record, ROW, "all", 0, 50, 50)}
        main(__doc__, every([ROW], ["all"], 10), record, report, small)
