"""Which way finds the maximum of functions of 20 to 50 inputs, few of which matter, called as a new user would?

    python benchmarks/outside/many_inputs.py --minutes 60 --peer PYTHON   # makes missing records for so long; resumable
    python benchmarks/outside/many_inputs.py                              # table, JSON and picture from the records

Two functions with few relevant inputs and two of rotated inputs, whose values depend on as many directions: Branin
among 20, Hartmann's of six inputs among 50, Branin and Levy's of four inputs of projections of 20 inputs. Runs start
from 20 points of a Latin hypercube and ask for 60 more; noise has 1 % of the sd of the function. "default" is
``pma.ard_gp(X, y, bounds=bounds)`` and ``Learner(gpm, "maximum", bounds=bounds)``; "embedding"
(with ``--methods``) is the same with ``pma.embedding_gp(X, y, n_components=2, bounds=bounds)``; "logei" is BoTorch's
``SingleTaskGP`` with ``qLogNoisyExpectedImprovement``, its tutorial's settings; "turbo" is TuRBO with one trust region
(Eriksson et al. 2019, their settings) on BoTorch's ``SingleTaskGP``. The regret is of the recommended point (TuRBO's is
the best posterior mean among its points), in sds of the function.
"""

import os
import sys
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parent.parent))

import json
import subprocess
import time
import warnings

import numpy as np
from optimum import branin, fit_botorch, hartmann6, levy
from scipy.stats import ortho_group, qmc

PATH = Path(__file__).parent / "results" / "many_inputs.jsonl"
N_START, N_ASK, SHOWN, NOISE, REPEATS = 20, 60, (15, 30, 45, 60), 0.01, 3
METHODS = ("default", "logei", "turbo")
PEERS = ("logei", "turbo")
# The function, the limits of its inputs, the number of inputs, and whether they are rotated.
PROBLEMS = {
    "branin of 20": (branin, [(-5, 10), (0, 15)], 20, False),
    "branin, rotated": (branin, [(-5, 10), (0, 15)], 20, True),
    "hartmann6 of 50": (hartmann6, [(0, 1)] * 6, 50, False),
    "levy4, rotated": (levy, [(-10, 10)] * 4, 20, True),
}


class Problem:
    """A function to maximise over [-1, 1]^D, its largest value, its sd over the box, and the noise of one run."""

    def __init__(self, name, repeat):
        function, limits, D, is_rotated = PROBLEMS[name]
        low, high = np.array(limits, float).T
        seed = list(PROBLEMS).index(name)
        self.D, d = D, len(low)
        self.bounds = [(-1.0, 1.0)] * D
        basis = ortho_group.rvs(D, random_state=seed)[:d] if is_rotated else np.eye(D)[:d]
        # Projections of points of the box seldom leave this range; outside, the function has the value at its edge.
        self._project = lambda X: np.clip(np.asarray(X, float) @ basis.T / (1.3 if is_rotated else 1.0), -1, 1)
        self._function = lambda U: -function(low + (high - low) * (U + 1) / 2)
        values = self(2 * qmc.Sobol(D, rng=0).random_base2(13) - 1)
        inner = 2 * qmc.Sobol(d, rng=0).random_base2(16) - 1
        self.sd, self.best = float(values.std()), self._maximum(inner)
        self.rng = np.random.default_rng((seed, repeat))
        self.X = 2 * qmc.LatinHypercube(D, rng=self.rng).random(N_START) - 1
        self.y = self.measure(self.X)

    def __call__(self, X):
        return self._function(self._project(X))

    def measure(self, X):
        return self(X) + NOISE * self.sd * self.rng.normal(size=len(X))

    def _maximum(self, U):
        """Over the range of the projections, all of which points of the box reach."""
        from scipy.optimize import minimize

        starts = U[np.argsort(-self._function(U))[:20]]
        box = [(-1, 1)] * U.shape[1]
        return max(-minimize(lambda u: -self._function(u[None])[0], u, bounds=box).fun for u in starts)

    def regret(self, x):
        return max(float(self.best - self(np.reshape(x, (1, -1)))[0]) / self.sd, 1e-6)


def ask_ours(name, method, repeat):
    import pymc_active as pma

    problem = Problem(name, repeat)
    if method == "embedding":
        gpm = pma.embedding_gp(problem.X, problem.y, n_components=2, bounds=problem.bounds)
    else:
        gpm = pma.ard_gp(problem.X, problem.y, bounds=problem.bounds)
    learner = pma.Learner(gpm, "maximum", bounds=problem.bounds, random_seed=repeat)
    regrets, seconds = [], []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for step in range(1, N_ASK + 1):
            start = time.process_time()
            x = learner.ask()
            seconds.append(time.process_time() - start)
            learner.tell(x, problem.measure(x))
            if step in SHOWN:
                regrets.append(problem.regret(learner.recommend()))
    return {"regrets": regrets, "seconds_an_ask": float(np.mean(seconds))}


class TrustRegion:
    """The box around the best point in which TuRBO draws its candidates, in units of [-1, 1]^D."""

    first, smallest, largest, successes_needed = 0.8, 0.5**7, 1.6, 3

    def __init__(self, D, repeat):
        self.D, self.length, self.successes, self.failures = D, self.first, 0, 0
        self.sobol = qmc.Sobol(D, rng=repeat)
        self.rng = np.random.default_rng(repeat)

    def candidates(self, center, lengthscales):
        weights = lengthscales / lengthscales.mean()
        weights = weights / np.prod(weights ** (1 / self.D))
        low, high = (np.clip(center + sign * weights * self.length, -1, 1) for sign in (-1, 1))
        moved = low + (high - low) * self.sobol.random(min(100 * self.D, 5000))
        # A few inputs of each candidate are moved, at least one.
        is_moved = self.rng.uniform(size=moved.shape) <= min(20 / self.D, 1)
        is_moved[np.arange(len(moved)), self.rng.integers(self.D, size=len(moved))] |= ~is_moved.any(1)
        return np.where(is_moved, moved, center)

    def tell(self, y, before):
        better = y > before.max() + 1e-3 * abs(before.max())
        self.successes, self.failures = (self.successes + 1, 0) if better else (0, self.failures + 1)
        if self.successes == self.successes_needed:
            self.length, self.successes = min(2 * self.length, self.largest), 0
        elif self.failures == max(4, self.D):
            self.length, self.failures = self.length / 2, 0


def ask_turbo(name, repeat):
    import torch
    from botorch.generation import MaxPosteriorSampling

    torch.set_num_threads(1)
    torch.manual_seed(repeat)
    problem = Problem(name, repeat)
    box = torch.tensor(np.array(problem.bounds).T)
    X, y, region, begin = problem.X, problem.y, TrustRegion(problem.D, repeat), 0
    regrets, seconds = [], []
    for step in range(1, N_ASK + 1):
        start = time.process_time()
        if region.length < region.smallest:
            # A new region, from new points.
            region, begin = TrustRegion(problem.D, (repeat, step)), len(y)
        if len(y) - begin < 2 * problem.D and begin:
            x = 2 * region.sobol.random(1) - 1
        else:
            model = fit_botorch(X[begin:], y[begin:], box)
            lengthscales = model.covar_module.lengthscale.detach().numpy().ravel()
            candidates = region.candidates(X[begin:][np.argmax(y[begin:])], lengthscales)
            with torch.no_grad():
                x = MaxPosteriorSampling(model, replacement=False)(torch.tensor(candidates), num_samples=1).numpy()
        seconds.append(time.process_time() - start)
        X, y = np.concatenate([X, x]), np.append(y, problem.measure(x))
        region.tell(y[-1], y[begin:-1])
        if step in SHOWN:
            mean = fit_botorch(X, y, box).posterior(torch.tensor(X)).mean.detach().numpy().ravel()
            regrets.append(problem.regret(X[np.argmax(mean)]))
    return {"regrets": regrets, "seconds_an_ask": float(np.mean(seconds))}


def ask_botorch(name, repeat):
    import torch
    from botorch.acquisition import PosteriorMean
    from botorch.acquisition.logei import qLogNoisyExpectedImprovement
    from botorch.optim import optimize_acqf

    torch.set_num_threads(1)
    torch.manual_seed(repeat)
    problem = Problem(name, repeat)
    box = torch.tensor(np.array(problem.bounds).T)
    X, y = problem.X, problem.y
    regrets, seconds = [], []

    def fit():
        return fit_botorch(X, y, box)

    for step in range(1, N_ASK + 1):
        start = time.process_time()
        criterion = qLogNoisyExpectedImprovement(fit(), torch.tensor(X), prune_baseline=True)
        x = optimize_acqf(criterion, box, q=1, num_restarts=10, raw_samples=512)[0].numpy()
        seconds.append(time.process_time() - start)
        X, y = np.concatenate([X, x]), np.append(y, problem.measure(x))
        if step in SHOWN:
            best = optimize_acqf(PosteriorMean(fit()), box, q=1, num_restarts=10, raw_samples=512)[0].numpy()
            regrets.append(problem.regret(best))
    return {"regrets": regrets, "seconds_an_ask": float(np.mean(seconds))}


def run(peer):
    def one(name, method, repeat):
        if method not in PEERS:
            return ask_ours(name, method, repeat)
        if peer is None:
            return None
        call = [peer, __file__, "--child", json.dumps([method, name, repeat])]
        done = subprocess.run(call, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(done.stderr[-2000:])
        return json.loads(done.stdout.splitlines()[-1])

    return one


def keys(methods, repeats):
    for repeat in range(repeats):
        for name in PROBLEMS:
            for method in methods:
                yield name, method, repeat


def summarize(records, methods):
    rows = []
    for name in (*PROBLEMS, "all"):
        common = [
            (n, r)
            for n in (PROBLEMS if name == "all" else [name])
            for r in range(REPEATS)
            if all((n, m, r) in records for m in methods)
        ]
        for method in methods if common else ():
            regrets = np.log10([records[n, method, r]["regrets"] for n, r in common])
            rows.append(
                {
                    "problem": name,
                    "method": method,
                    "runs": len(common),
                    **{f"after_{n}": float(np.median(column)) for n, column in zip(SHOWN, regrets.T, strict=True)},
                    "seconds_an_ask": float(np.mean([records[n, method, r]["seconds_an_ask"] for n, r in common])),
                }
            )
    return rows


def picture(records, methods):
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    labels = {
        "default": 'learn="maximum"',
        "embedding": "the same with embedding_gp",
        "logei": "BoTorch LogEI",
        "turbo": "TuRBO",
    }
    figure, axes = plt.subplots(1, len(PROBLEMS), figsize=(11, 3), sharey=True, layout="constrained")
    for ax, name in zip(axes, PROBLEMS, strict=True):
        for k, method in enumerate(methods):
            runs = np.log10([r["regrets"] for (n, m, _), r in records.items() if (n, m) == (name, method)])
            if len(runs):
                ax.plot(SHOWN, runs.T, color=f"C{k}", lw=0.6, alpha=0.5)
                ax.plot(SHOWN, np.median(runs, axis=0), "o-", color=f"C{k}", ms=4, label=labels.get(method, method))
        ax.set_title(name, fontsize=10)
        ax.set_xlabel("answers")
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("log10 regret, sds")
    axes[0].legend(frameon=False, fontsize=8)
    return figure


def main():
    from _records import fill, load
    from _report import parser, write

    arguments = parser(__doc__)
    arguments.add_argument("--minutes", type=float, default=0.0)
    arguments.add_argument("--methods", nargs="*", default=list(METHODS))
    arguments.add_argument("--repeats", type=int, default=REPEATS)
    arguments.add_argument("--peer")
    options = arguments.parse_args()
    if options.child:
        which, *problem = json.loads(options.child)
        print(json.dumps({"logei": ask_botorch, "turbo": ask_turbo}[which](*problem)))
        return
    if options.minutes:
        fill(PATH, keys(options.methods, options.repeats), run(options.peer), options.minutes)
    records = {key: record for key, record in load(PATH).items() if key[1] in options.methods}
    rows = summarize(records, options.methods)
    for row in rows:
        print(" ".join(f"{v:.3g}" if isinstance(v, float) else str(v) for v in row.values()))
    sources = sorted({record["source"] for record in records.values()})
    results = {"versions_of_the_records": sources, "table": rows}
    figure = picture(records, options.methods)
    write(__doc__, quick=options.quick, threads="1", targets=[], results=results, figure=figure)


if __name__ == "__main__":
    main()
