"""What do BoTorch's entropy searches say at the same points, and how long do they take?

    python benchmarks/pes_peers.py --install [--python3 PATH]   # once: an environment for BoTorch beside this file

A process for the other benchmarks of PES (``paper_pes/``), which talk to it in lines of JSON: BoTorch
needs an environment of its own. ``outside/`` shares it. One thread, double precision.

Hyperparameters are given, or fitted by BoTorch as it is shipped (``SingleTaskGP``, outputs standardised, its priors).
Acquisition functions have their default settings; the places of the maximum are given, or sampled by
``get_optimal_samples``.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

ENVIRONMENT = Path(__file__).parent / ".venv-botorch"
REQUIREMENTS = ("botorch[fully_bayesian]==0.18.1", "torch>=2.13", "optuna>=4")
# Sampled by BoTorch where it chooses a point.
N_OPTIMA = 16
# Jitter of "qPES_fine": the default, 1e-4, is a hundred times the noise variance of the PES paper.
FINE = 1e-8


def python() -> Path:
    """Interpreter of the environment."""
    return ENVIRONMENT / "bin" / "python"


def is_installed() -> bool:
    """Whether the environment was made."""
    return python().exists()


class Peer:
    """BoTorch in a process of its own, started when it is first asked."""

    def __init__(self) -> None:
        self._process: subprocess.Popen | None = None

    def __call__(self, request: str, **arguments: Any) -> dict[str, Any]:
        """Answer of one of the functions ``answer_*`` below.

        Raises
        ------
        RuntimeError
            If there is no environment, or the process ended.
        """
        if self._process is None:
            if not is_installed():
                raise RuntimeError("BoTorch has no environment yet: python benchmarks/pes_peers.py --install")
            threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
            self._process = subprocess.Popen(
                [python(), __file__, "--serve"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env={**os.environ, **threads},
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"request": request, **arguments}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"BoTorch's process ended with code {self._process.wait()}")
        return json.loads(line)

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._process.wait()
            self._process = None


def known_model(X, y, lengthscale, outputscale, noise):
    """A GP with zero mean and these standard deviations and lengthscales, none of which is to be fitted."""
    import torch
    from botorch.models import SingleTaskGP
    from gpytorch.constraints import GreaterThan
    from gpytorch.kernels import RBFKernel, ScaleKernel
    from gpytorch.likelihoods import GaussianLikelihood
    from gpytorch.means import ZeroMean

    X = torch.tensor(X)
    model = SingleTaskGP(
        X,
        torch.tensor(y)[:, None],
        likelihood=GaussianLikelihood(noise_constraint=GreaterThan(1e-10)),
        covar_module=ScaleKernel(RBFKernel(ard_num_dims=X.shape[1])),
        mean_module=ZeroMean(),
        outcome_transform=None,
    )
    model.covar_module.base_kernel.lengthscale = torch.as_tensor(lengthscale).expand(X.shape[1])
    model.covar_module.outputscale = outputscale**2
    model.likelihood.noise = noise**2
    return model.eval()


def fitted_model(X, y):
    """As shipped: ``SingleTaskGP`` at the maximum of its posterior; inputs in the unit cube."""
    import torch
    from botorch.fit import fit_gpytorch_mll
    from botorch.models import SingleTaskGP
    from gpytorch.mlls import ExactMarginalLogLikelihood

    model = SingleTaskGP(torch.tensor(X), torch.tensor(y)[:, None])
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    return model.eval()


def acquisition(name: str, model, places=None, heights=None, D: int = 2, n_optima: int = 0, candidates=None):
    """One of BoTorch's acquisition functions, larger is better."""
    import torch
    from botorch.acquisition import LogExpectedImprovement, qLowerBoundMaxValueEntropy, qMaxValueEntropy
    from botorch.acquisition.joint_entropy_search import qJointEntropySearch
    from botorch.acquisition.predictive_entropy_search import qPredictiveEntropySearch
    from botorch.acquisition.utils import get_optimal_samples

    if name == "LogEI":
        with torch.no_grad():
            # As ours: over the best posterior mean at the data, of which noise says nothing.
            best = model.posterior(model.train_inputs[0]).mean.max()
        return LogExpectedImprovement(model, best)
    if name in ("qMES", "GIBBON"):
        kind = qMaxValueEntropy if name == "qMES" else qLowerBoundMaxValueEntropy
        return kind(model, torch.tensor(candidates), num_mv_samples=n_optima)
    if places is None:
        bounds = torch.tensor([[0.0] * D, [1.0] * D], dtype=torch.double)
        places, heights = get_optimal_samples(model, bounds, n_optima)
    else:
        places, heights = torch.tensor(places), torch.tensor(heights)[:, None]
    if name in ("qPES", "qPES_fine"):
        jitter = {} if name == "qPES" else {"ep_jitter": FINE, "test_jitter": FINE}
        return qPredictiveEntropySearch(model, places, **jitter)
    return qJointEntropySearch(model, places, heights)


def answer_score(job: dict) -> dict:
    """Values at candidates with the hyperparameters given, and the CPU seconds of building and of scoring."""
    import torch

    model = known_model(*(job[k] for k in ("X", "y", "lengthscale", "outputscale", "noise")))
    candidates = torch.tensor(job["candidates"])[:, None]
    result = {}
    for name in job["methods"]:
        build, score = [], []
        try:
            for _ in range(job.get("repeats", 1)):
                torch.manual_seed(job.get("seed", 0))
                start = time.process_time()
                with torch.no_grad():
                    function = acquisition(
                        name, model, job["places"], job["heights"], n_optima=len(job["places"]),
                        candidates=job["candidates"],
                    )  # fmt: skip
                    built = time.process_time()
                    values = function(candidates)
                end = time.process_time()
                build.append(built - start)
                score.append(end - built)
            result[name] = {"values": values.flatten().tolist(), "build_seconds": build, "score_seconds": score}
        except Exception as error:
            # What BoTorch cannot do is a result too.
            result[name] = {"error": f"{type(error).__name__}: {error}"[:300]}
    return result


def answer_ask(job: dict) -> dict:
    """The next point in the unit cube, by the model given or, without hyperparameters, by BoTorch's own."""
    import torch
    from botorch.optim import optimize_acqf

    torch.manual_seed(job["seed"])
    start = time.process_time()
    if "noise" in job:
        model = known_model(*(job[k] for k in ("X", "y", "lengthscale", "outputscale", "noise")))
    else:
        model = fitted_model(job["X"], job["y"])
    D = len(job["X"][0])
    bounds = torch.tensor([[0.0] * D, [1.0] * D], dtype=torch.double)
    # PES is advised to be optimised by finite differences, since it may not be differentiable.
    is_pes = job["method"] == "qPES"
    options = {"with_grad": False, "maxiter": 20} if is_pes else {}
    try:
        function = acquisition(job["method"], model, D=D, n_optima=job.get("n_optima", N_OPTIMA))
        x, _ = optimize_acqf(
            function, bounds, q=1, num_restarts=2 if is_pes else 10, raw_samples=256 if is_pes else 512,
            options=options,
        )  # fmt: skip
        return {"x": x[0].tolist(), "seconds": time.process_time() - start}
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"[:300]}


def answer_versions(job: dict) -> dict:
    """Of what matters."""
    from importlib.metadata import version

    return {name: version(name) for name in ("botorch", "gpytorch", "torch", "numpy")}


def serve() -> None:
    import torch

    torch.set_default_dtype(torch.double)
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    answers = {"score": answer_score, "ask": answer_ask, "versions": answer_versions}
    for line in sys.stdin:
        job = json.loads(line)
        print(json.dumps(answers[job["request"]](job)), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--install", action="store_true", help="make the environment for BoTorch")
    parser.add_argument("--python3", default=sys.executable, help="interpreter that it is made with")
    parser.add_argument("--smallest", action="store_true", help="versions, if it is installed")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve()
    elif arguments.install:
        subprocess.run([arguments.python3, "-m", "venv", ENVIRONMENT], check=True)
        subprocess.run([python(), "-m", "pip", "install", *REQUIREMENTS], check=True)
    elif arguments.smallest and not is_installed():
        print("BoTorch has no environment: left out")
    else:
        print(json.dumps(Peer()("versions")))


if __name__ == "__main__":
    main()
