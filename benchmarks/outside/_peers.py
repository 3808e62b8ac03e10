"""BoTorch and Optuna, asked for maxima in an environment of their own, which ``pes_peers.py --install`` makes."""

import json
import subprocess
import sys
import time
import warnings

import _above  # noqa: F401
import numpy as np
from _functions import ManyInputs, Problem
from pes_peers import is_installed, python
from scipy.stats import qmc

METHODS = ("logei", "optuna", "turbo")


def asked(method, kind, name, repeat, shown):
    """The record of a run (of the class named ``kind``) with regrets after ``shown`` answers; None without peers."""
    if not is_installed():
        return None
    call = [python(), __file__, json.dumps([method, kind, name, repeat, shown])]
    done = subprocess.run(call, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return json.loads(done.stdout.splitlines()[-1])


def fit(X, y, box):
    import torch
    from botorch.fit import fit_gpytorch_mll
    from botorch.models import SingleTaskGP
    from botorch.models.transforms import Normalize, Standardize
    from gpytorch.mlls import ExactMarginalLogLikelihood

    transforms = {"input_transform": Normalize(X.shape[1], bounds=box), "outcome_transform": Standardize(1)}
    model = SingleTaskGP(torch.tensor(X), torch.tensor(y)[:, None], **transforms)
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    return model


def logei(problem, repeat, shown):
    """``SingleTaskGP`` and ``qLogNoisyExpectedImprovement``, the tutorial's settings; the largest posterior mean."""
    import torch
    from botorch.acquisition import PosteriorMean
    from botorch.acquisition.logei import qLogNoisyExpectedImprovement
    from botorch.optim import optimize_acqf

    box = torch.tensor(np.array(problem.bounds).T)
    X, y, search = problem.X, problem.y, {"q": 1, "num_restarts": 10, "raw_samples": 512}
    model = fit(X, y, box)
    for step in range(1, shown[-1] + 1):
        start = time.process_time()
        criterion = qLogNoisyExpectedImprovement(model, torch.tensor(X), prune_baseline=True)
        x = optimize_acqf(criterion, box, **search)[0].numpy()
        X, y = np.concatenate([X, x]), np.append(y, problem.measure(x))
        model = fit(X, y, box)
        seconds = time.process_time() - start
        best = optimize_acqf(PosteriorMean(model), box, **search)[0].numpy() if step in shown else None
        yield seconds, best


def optuna(problem, repeat, shown):
    """Its ``GPSampler``, told the starts; the best trial."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    places = {f"x{i}": optuna.distributions.FloatDistribution(*limits) for i, limits in enumerate(problem.bounds)}
    sampler = optuna.samplers.GPSampler(seed=repeat, n_startup_trials=len(problem.X))
    study = optuna.create_study(direction="maximize", sampler=sampler)
    for x, y in zip(problem.X, problem.y, strict=True):
        params = dict(zip(places, x.tolist(), strict=True))
        study.add_trial(optuna.trial.create_trial(params=params, distributions=places, value=float(y)))
    for _ in range(shown[-1]):
        start = time.process_time()
        trial = study.ask(places)
        seconds = time.process_time() - start
        study.tell(trial, float(problem.measure(np.array([list(trial.params.values())]))[0]))
        yield seconds, list(study.best_params.values())


class TrustRegion:
    """The box around the best point in which TuRBO draws its candidates, in units of [-1, 1]^D."""

    first, smallest, largest, successes_needed = 0.8, 0.5**7, 1.6, 3

    def __init__(self, D, seed):
        self.D, self.length, self.successes, self.failures = D, self.first, 0, 0
        self.sobol, self.rng = qmc.Sobol(D, rng=seed), np.random.default_rng(seed)

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


def turbo(problem, repeat, shown):
    """One trust region (Eriksson et al. 2019, their settings) on ``SingleTaskGP``; the best posterior mean measured."""
    import torch
    from botorch.generation import MaxPosteriorSampling

    box, D = torch.tensor(np.array(problem.bounds).T), len(problem.bounds)
    X, y, region, begin = problem.X, problem.y, TrustRegion(D, repeat), 0
    for step in range(1, shown[-1] + 1):
        start = time.process_time()
        if region.length < region.smallest:
            # A new region, from new points.
            region, begin = TrustRegion(D, (repeat, step)), len(y)
        if len(y) - begin < 2 * D and begin:
            x = 2 * region.sobol.random(1) - 1
        else:
            model = fit(X[begin:], y[begin:], box)
            lengthscales = model.covar_module.lengthscale.detach().numpy().ravel()
            candidates = region.candidates(X[begin:][np.argmax(y[begin:])], lengthscales)
            with torch.no_grad():
                x = MaxPosteriorSampling(model, replacement=False)(torch.tensor(candidates), num_samples=1).numpy()
        seconds = time.process_time() - start
        X, y = np.concatenate([X, x]), np.append(y, problem.measure(x))
        region.tell(y[-1], y[begin:-1])
        best = None
        if step in shown:
            best = X[fit(X, y, box).posterior(torch.tensor(X)).mean.argmax()]
        yield seconds, best


def run(method, kind, name, repeat, shown):
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(repeat)
    problem = {"Problem": Problem, "ManyInputs": ManyInputs}[kind](name, repeat)
    warnings.simplefilter("ignore")
    steps = list({"logei": logei, "optuna": optuna, "turbo": turbo}[method](problem, repeat, shown))
    regrets = [problem.regret(steps[n - 1][1]) for n in shown]
    return {"regrets": regrets, "seconds_an_ask": float(np.mean([seconds for seconds, _ in steps]))}


if __name__ == "__main__":
    print(json.dumps(run(*json.loads(sys.argv[1]))))
