"""Which criterion finds the maximum, called as a new user would, on functions from the literature?

    python benchmarks/outside/optimum.py --minutes 60              # makes missing records for so long; resumable
    python benchmarks/outside/optimum.py --minutes 60 --methods pes
    python benchmarks/outside/optimum.py --peer PYTHON             # of an environment with BoTorch and Optuna
    python benchmarks/outside/optimum.py                           # table, JSON and picture from the records

Twenty functions of two to six inputs, as in Surjanovic & Bingham's library, negated where they are minimised. Each
run starts from max(4, d + 2) points of a Latin hypercube and asks for 25 more; the starts and the noise are the same
for all methods. Noise is normal, with 0, 1 or 10 % of the sd of the function over the box, in turn by repeat. Ours is
the plain way, ``pma.ard_gp(X, y, bounds=bounds)`` and ``Learner(gpm, "maximum", bounds=bounds, criterion=...)``;
``logei`` is BoTorch's ``SingleTaskGP`` with ``qLogNoisyExpectedImprovement``, its tutorial's settings, and ``optuna``
its ``GPSampler``, told the starts. ``"two kernels"`` (with ``--methods``) is ours by the average of ``ard_gp`` with the
squared exponential and with Matern 5/2. After answers 5, 10, ... the regret is recorded of the recommended point
(``recommend``; for BoTorch the largest posterior mean, for Optuna the best trial), in units of the function's sd: log10
of it is what is compared.
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
from scipy.stats import qmc

HERE = Path(__file__).parent
PATH = HERE / "results" / "optimum.jsonl"
N_ASK, REPEATS = 25, 9
# Answers after which a point is recommended.
SHOWN = (5, 10, 15, 20, 25)
NOISES = (0.0, 0.01, 0.1)
OURS = ("expected_improvement", "pes", "max_value_entropy", "joint_entropy_search", "thompson", "random")
MAPPED, TWO = "mapped outputs", "two kernels"
PEERS = ("logei", "optuna")


def camel(x):
    a, b = x.T
    return (4 - 2.1 * a**2 + a**4 / 3) * a**2 + a * b + (4 * b**2 - 4) * b**2


def branin(x):
    a, b = x.T
    return (b - 5.1 / (4 * np.pi**2) * a**2 + 5 / np.pi * a - 6) ** 2 + 10 * (1 - 1 / (8 * np.pi)) * np.cos(a) + 10


def log_goldstein(x):
    a, b = x.T
    one = 1 + (a + b + 1) ** 2 * (19 - 14 * a + 3 * a**2 - 14 * b + 6 * a * b + 3 * b**2)
    two = 30 + (2 * a - 3 * b) ** 2 * (18 - 32 * a + 12 * a**2 + 48 * b - 36 * a * b + 27 * b**2)
    return np.log(one * two)


def ackley(x):
    d = x.shape[1]
    return 20 + np.e - 20 * np.exp(-0.2 * np.sqrt((x**2).sum(1) / d)) - np.exp(np.cos(2 * np.pi * x).sum(1) / d)


def levy(x):
    w = 1 + (x - 1) / 4
    middle = ((w[:, :-1] - 1) ** 2 * (1 + 10 * np.sin(np.pi * w[:, :-1] + 1) ** 2)).sum(1)
    return np.sin(np.pi * w[:, 0]) ** 2 + middle + (w[:, -1] - 1) ** 2 * (1 + np.sin(2 * np.pi * w[:, -1]) ** 2)


def rosenbrock(x):
    return (100 * (x[:, 1:] - x[:, :-1] ** 2) ** 2 + (1 - x[:, :-1]) ** 2).sum(1)


def griewank(x):
    return 1 + (x**2).sum(1) / 4000 - np.cos(x / np.sqrt(np.arange(1, x.shape[1] + 1))).prod(1)


def michalewicz(x):
    return -(np.sin(x) * np.sin(np.arange(1, x.shape[1] + 1) * x**2 / np.pi) ** 20).sum(1)


def styblinski(x):
    return 0.5 * (x**4 - 16 * x**2 + 5 * x).sum(1)


def drop_wave(x):
    s = (x**2).sum(1)
    return -(1 + np.cos(12 * np.sqrt(s))) / (0.5 * s + 2)


def zakharov(x):
    s = (0.5 * np.arange(1, x.shape[1] + 1) * x).sum(1)
    return (x**2).sum(1) + s**2 + s**4


def three_humps(x):
    a, b = x.T
    return 2 * a**2 - 1.05 * a**4 + a**6 / 6 + a * b + b**2


def mccormick(x):
    a, b = x.T
    return np.sin(a + b) + (a - b) ** 2 - 1.5 * a + 2.5 * b + 1


def _hartmann(x, A, P):
    inner = (A * (x[:, None] - 1e-4 * P) ** 2).sum(-1)
    return -np.exp(-inner) @ np.array([1.0, 1.2, 3.0, 3.2])


def hartmann3(x):
    A = np.array([[3.0, 10, 30], [0.1, 10, 35], [3.0, 10, 30], [0.1, 10, 35]])
    P = np.array([[3689, 1170, 2673], [4699, 4387, 7470], [1091, 8732, 5547], [381, 5743, 8828]])
    return _hartmann(x, A, P)


def hartmann6(x):
    A = np.array(
        [[10, 3, 17, 3.5, 1.7, 8], [0.05, 10, 17, 0.1, 8, 14], [3, 3.5, 1.7, 10, 17, 8], [17, 8, 0.05, 10, 0.1, 14]]
    )
    P = np.array(
        [
            [1312, 1696, 5569, 124, 8283, 5886],
            [2329, 4135, 8307, 3736, 1004, 9991],
            [2348, 1451, 3522, 2883, 3047, 6650],
            [4047, 8828, 8732, 5743, 1091, 381],
        ]
    )
    return _hartmann(x, A, P)


def shekel(x):
    C = np.array(
        [
            [4, 1, 8, 6, 3, 2, 5, 8, 6, 7],
            [4, 1, 8, 6, 7, 9, 3, 1, 2, 3.6],
            [4, 1, 8, 6, 3, 2, 5, 8, 6, 7],
            [4, 1, 8, 6, 7, 9, 3, 1, 2, 3.6],
        ]
    )
    beta = np.array([1, 2, 2, 4, 4, 6, 3, 7, 5, 5]) / 10
    return -(1 / (((x[:, :, None] - C) ** 2).sum(1) + beta)).sum(1)


def sum_of_powers(x):
    return (np.abs(x) ** np.arange(2, x.shape[1] + 2)).sum(1)


# Functions to minimise, and their boxes, of which some are cut so that the minimum is not at the centre.
FUNCTIONS = {
    "camel": (camel, [(-3, 3), (-2, 2)]),
    "branin": (branin, [(-5, 10), (0, 15)]),
    "log_goldstein": (log_goldstein, [(-2, 2)] * 2),
    "ackley2": (ackley, [(-10, 15)] * 2),
    "ackley4": (ackley, [(-10, 15)] * 4),
    "levy2": (levy, [(-5, 5)] * 2),
    "levy4": (levy, [(-5, 5)] * 4),
    "rosenbrock2": (rosenbrock, [(-2, 2)] * 2),
    "rosenbrock4": (rosenbrock, [(-2, 2)] * 4),
    "griewank3": (griewank, [(-6, 8)] * 3),
    "michalewicz2": (michalewicz, [(0, np.pi)] * 2),
    "styblinski3": (styblinski, [(-5, 5)] * 3),
    "drop_wave": (drop_wave, [(-2, 3)] * 2),
    "zakharov3": (zakharov, [(-5, 10)] * 3),
    "three_humps": (three_humps, [(-5, 5)] * 2),
    "mccormick": (mccormick, [(-1.5, 4), (-3, 4)]),
    "hartmann3": (hartmann3, [(0, 1)] * 3),
    "hartmann6": (hartmann6, [(0, 1)] * 6),
    "shekel4": (shekel, [(0, 10)] * 4),
    "powers5": (sum_of_powers, [(-1, 1.3)] * 5),
}


class Problem:
    """A function to maximise, with its maximum, its sd over the box, and the noise of one run."""

    def __init__(self, name, repeat):
        function, bounds = FUNCTIONS[name]
        self.bounds = [(float(low), float(high)) for low, high in bounds]
        self.low, self.high = np.array(self.bounds).T
        self._function = function
        X = self.low + (self.high - self.low) * qmc.Sobol(len(self.low), rng=0).random_base2(14)
        values = self(X)
        self.sd, self.best = float(values.std()), self._maximum(X[np.argsort(-values)[:20]])
        self.rng = np.random.default_rng((list(FUNCTIONS).index(name), repeat))
        self.noise = NOISES[repeat % len(NOISES)] * self.sd
        n = max(4, len(self.low) + 2)
        design = qmc.LatinHypercube(len(self.low), rng=self.rng).random(n)
        self.X = self.low + (self.high - self.low) * design
        self.y = self.measure(self.X)

    def __call__(self, X):
        return -self._function(np.asarray(X, float))

    def measure(self, X):
        return self(X) + self.noise * self.rng.normal(size=len(X))

    def _maximum(self, starts):
        from scipy.optimize import minimize

        return max(
            -minimize(lambda x: -self(x[None])[0], start, method="L-BFGS-B", bounds=self.bounds).fun for start in starts
        )

    def regret(self, x):
        return max(float(self.best - self(np.reshape(x, (1, -1)))[0]) / self.sd, 1e-6)


def ask_ours(name, criterion, repeat):
    import pymc_active as pma

    problem = Problem(name, repeat)
    gpm = pma.ard_gp(problem.X, problem.y, bounds=problem.bounds)
    if criterion == TWO:
        rough = pma.ard_gp(problem.X, problem.y, bounds=problem.bounds, kernel="Matern52")
        gpm, criterion = {"m52": rough, "se": gpm}, None
    learner = pma.active.Learner(gpm, "maximum", bounds=problem.bounds, criterion=criterion, random_seed=repeat)
    regrets, seconds, others = [], [], {"measured": [], "cautious": [], "told": []}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for step in range(1, N_ASK + 1):
            start = time.process_time()
            x = learner.ask()
            learner.tell(x, problem.measure(x))
            learner.fit  # noqa: B018 - so that each step has its fit
            seconds.append(time.process_time() - start)
            if step not in SHOWN:
                continue
            best = learner.recommend()
            regrets.append(problem.regret(best))
            # Other rules to recommend by, from the same run.
            X = np.concatenate([best, learner.X])
            p = pma.predict(learner.fit, X)
            cautious = p.f_mean.to_numpy() - np.sqrt(p.f_variance.to_numpy())
            others["measured"].append(problem.regret(learner.X[np.argmax(p.f_mean.to_numpy()[1:])]))
            others["cautious"].append(problem.regret(X[np.argmax(cautious)]))
            others["told"].append(problem.regret(learner.X[np.argmax(learner.y)]))
    return {"regrets": regrets, "seconds_an_ask": float(np.mean(seconds)), "others": others}


def ask_mapped(name, repeat):
    """The default, of outputs mapped anew for each question, by the power of Yeo & Johnson that suits them best."""
    from scipy.stats import yeojohnson

    import pymc_active as pma

    problem = Problem(name, repeat)
    X, y, regrets, seconds = problem.X, problem.y, [], []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for step in range(N_ASK + 1):
            start = time.process_time()
            mapped = yeojohnson((y - y.mean()) / y.std())[0]
            gpm = pma.ard_gp(X, mapped, bounds=problem.bounds)
            learner = pma.Learner(gpm, "maximum", bounds=problem.bounds, random_seed=repeat)
            if step in SHOWN:
                regrets.append(problem.regret(learner.recommend()))
            if step < N_ASK:
                x = learner.ask()
                X, y = np.concatenate([X, x]), np.append(y, problem.measure(x))
                seconds.append(time.process_time() - start)
    return {"regrets": regrets, "seconds_an_ask": float(np.mean(seconds)), "others": {}}


def fit_botorch(X, y, box):
    import torch
    from botorch.fit import fit_gpytorch_mll
    from botorch.models import SingleTaskGP
    from botorch.models.transforms import Normalize, Standardize
    from gpytorch.mlls import ExactMarginalLogLikelihood

    model = SingleTaskGP(
        torch.tensor(X),
        torch.tensor(y)[:, None],
        input_transform=Normalize(X.shape[1], bounds=box),
        outcome_transform=Standardize(1),
    )
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    return model


def ask_botorch(name, repeat):
    import torch
    from botorch.acquisition.logei import qLogNoisyExpectedImprovement
    from botorch.optim import optimize_acqf

    torch.set_num_threads(1)
    torch.manual_seed(repeat)
    problem = Problem(name, repeat)
    box = torch.tensor(np.array(problem.bounds).T)
    X, y = problem.X, problem.y
    regrets, seconds, told = [], [], []

    model = fit_botorch(X, y, box)
    for step in range(1, N_ASK + 1):
        start = time.process_time()
        criterion = qLogNoisyExpectedImprovement(model, torch.tensor(X), prune_baseline=True)
        x = optimize_acqf(criterion, box, q=1, num_restarts=10, raw_samples=512)[0].numpy()
        X, y = np.concatenate([X, x]), np.append(y, problem.measure(x))
        model = fit_botorch(X, y, box)
        # As for the others, with a fit.
        seconds.append(time.process_time() - start)
        if step not in SHOWN:
            continue
        # The largest posterior mean in the box.
        from botorch.acquisition import PosteriorMean

        best = optimize_acqf(PosteriorMean(model), box, q=1, num_restarts=10, raw_samples=512)[0].numpy()
        regrets.append(problem.regret(best))
        told.append(problem.regret(X[np.argmax(y)]))
    return {"regrets": regrets, "seconds_an_ask": float(np.mean(seconds)), "others": {"told": told}}


def ask_optuna(name, repeat):
    import optuna
    import torch

    torch.set_num_threads(1)
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    problem = Problem(name, repeat)
    places = {
        f"x{i}": optuna.distributions.FloatDistribution(low, high) for i, (low, high) in enumerate(problem.bounds)
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sampler = optuna.samplers.GPSampler(seed=repeat, n_startup_trials=len(problem.X))
        study = optuna.create_study(direction="maximize", sampler=sampler)
        for x, y in zip(problem.X, problem.y, strict=True):
            params = dict(zip(places, x.tolist(), strict=True))
            study.add_trial(optuna.trial.create_trial(params=params, distributions=places, value=float(y)))
        regrets, seconds = [], []
        for step in range(1, N_ASK + 1):
            start = time.process_time()
            trial = study.ask(places)
            seconds.append(time.process_time() - start)
            study.tell(trial, float(problem.measure(np.array([list(trial.params.values())]))[0]))
            if step in SHOWN:
                regrets.append(problem.regret(list(study.best_params.values())))
    return {"regrets": regrets, "seconds_an_ask": float(np.mean(seconds)), "others": {}}


def run(peer):
    def one(name, method, repeat):
        if method == MAPPED:
            return ask_mapped(name, repeat)
        if method not in PEERS:
            return ask_ours(name, method, repeat)
        if peer is None:
            return None
        child = [peer, str(HERE / "optimum.py"), "--child", json.dumps([method, name, repeat])]
        done = subprocess.run(child, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(done.stderr[-2000:])
        return json.loads(done.stdout.splitlines()[-1])

    return one


def keys(methods, repeats):
    for repeat in range(repeats):
        for name in FUNCTIONS:
            for method in methods:
                yield name, method, repeat


def summarize(records):
    """Mean log10 regret by method over what all methods have, mean rank, and the paired difference to the best."""
    from scipy.stats import friedmanchisquare, rankdata

    methods = sorted({method for _, method, _ in records})
    common = [
        (name, repeat)
        for name in FUNCTIONS
        for repeat in range(REPEATS)
        if all((name, method, repeat) in records for method in methods)
    ]
    final = np.array([[np.log10(records[name, m, r]["regrets"][-1]) for m in methods] for name, r in common])
    ranks = rankdata(final, axis=1)
    table = []
    for j, method in enumerate(methods):
        by_noise = {
            f"noise_{noise}": float(np.mean(final[[r % 3 == k for _, r in common], j])) if len(common) else np.nan
            for k, noise in enumerate(NOISES)
        }
        table.append(
            {
                "method": method,
                "runs": len(common),
                "log10_regret": float(final[:, j].mean()),
                "mean_rank": float(ranks[:, j].mean()),
                "seconds_an_ask": float(np.mean([records[n, method, r]["seconds_an_ask"] for n, r in common])),
                **by_noise,
            }
        )
    table.sort(key=lambda row: row["mean_rank"])
    by_function = {
        name: {
            method: float(np.median([final[i, j] for i, (n, _) in enumerate(common) if n == name]))
            for j, method in enumerate(methods)
        }
        for name in FUNCTIONS
        if any(n == name for n, _ in common)
    }
    p = float(friedmanchisquare(*final.T).pvalue) if len(methods) > 2 and len(common) > 2 else np.nan
    return {"table": table, "friedman_p": p, "by_function": by_function, "common": common, "final": final.tolist()}


def picture(records, methods):
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots(figsize=(7, 4.2), layout="constrained")
    common = {(n, r) for n, m, r in records if m == methods[0]}
    common = [key for key in common if all((key[0], m, key[1]) in records for m in methods)]
    rng, colors = np.random.default_rng(0), plt.get_cmap("tab10")
    for k, method in enumerate(methods):
        curves = np.log10([records[n, method, r]["regrets"] for n, r in common])
        means = np.stack([curves[rng.integers(len(curves), size=len(curves))].mean(0) for _ in range(500)])
        low, high = np.quantile(means, (0.16, 0.84), axis=0)
        steps = np.array(SHOWN)
        ax.fill_between(steps, low, high, color=colors(k), alpha=0.15, lw=0)
        ax.plot(steps, curves.mean(0), color=colors(k), label=method)
    ax.set(xlabel="points asked for", ylabel="log10 regret, sds of the function")
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False, fontsize=8)
    return figure


def main():
    from _records import fill, load
    from _report import parser, write

    arguments = parser(__doc__)
    arguments.add_argument("--minutes", type=float, default=0.0)
    arguments.add_argument("--methods", nargs="*", default=[*OURS, *PEERS])
    arguments.add_argument("--repeats", type=int, default=REPEATS)
    arguments.add_argument("--peer")
    options = arguments.parse_args()
    if options.minutes:
        fill(PATH, keys(options.methods, options.repeats), run(options.peer), options.minutes)
    records = {key: record for key, record in load(PATH).items() if key[1] in options.methods}
    found = summarize(records)
    for row in found["table"]:
        print(" ".join(f"{k} {v:.3g}" if isinstance(v, float) else str(v) for k, v in row.items()))
    print("Friedman p", found["friedman_p"])
    for name, row in found["by_function"].items():
        print(f"{name:14}", {k: round(v, 2) for k, v in row.items()})
    sources = sorted({record["source"] for record in records.values()})
    write(
        __doc__,
        quick=options.quick,
        threads="1",
        targets=[],
        results={"versions_of_the_records": sources, **found},
        figure=picture(records, [row["method"] for row in found["table"]]),
    )


if __name__ == "__main__":
    if "--child" in sys.argv:
        which, *problem = json.loads(sys.argv[sys.argv.index("--child") + 1])
        print(json.dumps({"logei": ask_botorch, "optuna": ask_optuna}[which](*problem)))
    else:
        main()
