"""Ten runs, one for each goal and kind of candidates, recorded bit for bit.

Does a change that only moves code leave every asked point, evidence and prediction as it was?

    python benchmarks/same_answers.py            compares with the committed record, and names what differs
    python benchmarks/same_answers.py --record   records this machine's answers anew
    python benchmarks/same_answers.py --smallest the run that takes least time: are its answers the same when repeated?

The record holds every number as its hexadecimal digits. Another processor, BLAS or version of NumPy or SciPy rounds
differently: compare two revisions on one machine, recording at the first. Only the public contract is called, with
every seed given, so the same script runs before and after a change of the layout.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
import warnings
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import _one_thread  # noqa: F401 - the order of a parallel sum is not defined
import _report
import numpy as np
import pandas as pd
import pymc as pm

import pymc_active as pma

RECORD = Path(__file__).parent / "results" / "same_answers.json"
RUNS = {}


def run(function):
    RUNS[function.__name__] = function
    return function


def hills(X):
    """A smooth function of the first two inputs."""
    X = np.atleast_2d(X)
    return np.sin(2 * X[:, 0]) + 0.5 * np.cos(3 * X[:, 1]) + 0.1 * X[:, 0] * X[:, 1]


def follow(learner, oracle, n, X_new, batch=1):
    """Ask and tell, then everything that the fit says."""
    asked = []
    for _ in range(n):
        x = learner.ask(batch)
        asked.append(np.asarray(x, float))
        learner.tell(x, oracle(np.asarray(x, float)))
    fit = learner.fit
    fits = [fit] if hasattr(fit, "log_evidence") else list(fit.values())
    predicted = pma.predict(fit, X_new)
    return {
        "asked": np.concatenate(asked),
        "evidences": [one.log_evidence for one in fits],
        "members": np.concatenate([one.ensemble.thetas.ravel() for one in fits]),
        **{name: predicted[name].to_numpy() for name in ("f_mean", "f_variance", "y_variance")},
        "design": learner.design()["score"].to_numpy(),
    }


@run
def function_in_a_pool():
    """Uncertainty over a frame, a Matern kernel, a batch pending."""
    rng = np.random.default_rng(1)
    pool = pd.DataFrame(rng.uniform(0, 10, (300, 3)), columns=["a", "b", "c"], index=[f"s{i}" for i in range(300)])
    X = pool.iloc[:6]
    gpm = pma.ard_gp(X, hills(X.to_numpy() / 5), kernel="Matern52", x_scale="unit", y_scale="standardize")
    learner = pma.active.Learner(gpm, "function", pool=pool, random_seed=3)
    answers = follow(learner, lambda x: hills(x / 5), 6, pool.iloc[100:110], batch=2)
    scores, modes = {}, pma.find_modes(learner.fit)
    for method in ("map", "bbq", "mgp", "modes", "draws"):
        predicted = pma.predict(modes, pool.iloc[:9], method=method, random_seed=0)
        scores[f"variance_{method}"] = predicted.f_variance.to_numpy()
        if method != "map":
            scores[f"bald_{method}"] = pma.active.bald(modes, pool, method=method, random_seed=0).to_numpy()
    scores["bald_f"] = pma.active.bald(learner.fit, pool, target="f").to_numpy()
    scores["ei"] = pma.active.expected_improvement(learner.fit, pool, method="draws", random_seed=0).to_numpy()
    scores["ei_mgp"] = pma.active.expected_improvement(learner.fit, pool).to_numpy()
    scores["ucb"] = pma.active.upper_confidence_bound(learner.fit, pool).to_numpy()
    return answers | scores


@run
def function_in_a_box():
    """Uncertainty by L-BFGS-B; criteria by name."""
    X = pma.active.latin_hypercube([(-1, 1)] * 2, 5, random_seed=1)
    answers = {}
    variants = partial(pma.active.bald, target="f"), partial(pma.active.expected_improvement, method="draws")
    for criterion in ("uncertainty", "bald", *variants, "expected_improvement", "upper_confidence_bound"):
        learner = pma.active.Learner(
            pma.ard_gp(X, hills(X)), "function", criterion=criterion, bounds=[(-1, 1)] * 2, random_seed=2
        )
        found = follow(learner, hills, 3, X)
        answers |= {f"{learner.criterion_name}/{name}": value for name, value in found.items()}
    return answers


@run
def hyperparameters_in_a_large_pool():
    """BALD over draws, more candidates than are all scored by all draws, an embedding."""
    rng = np.random.default_rng(4)
    pool = rng.uniform(-1, 1, (2500, 6))
    W = rng.normal(size=(2, 6)) / 2

    def f(X):
        return hills(X @ W.T)

    gpm = pma.embedding_gp(pool[:10], f(pool[:10]), n_components=2)
    learner = pma.active.Learner(gpm, "hyperparameters", pool=pool, random_seed=5)
    answers = follow(learner, f, 6, pool[50:60])
    relevance = pma.relevance(learner.fit, random_seed=0)
    angles = pma.subspace_angles(learner.fit, random_seed=0)
    for name, told in (("relevance", relevance), ("angles", angles)):
        told = told.to_dataset(name="values") if hasattr(told, "to_dataset") else told
        answers |= {f"{name}/{k}": v.to_numpy() for k, v in told.data_vars.items() if v.dtype.kind == "f"}
    return answers


@run
def hyperparameters_in_a_wide_box():
    """BALD over draws in a box, more inputs than points, a batch; then its file."""
    rng = np.random.default_rng(6)
    D = 20
    X = rng.uniform(-1, 1, (8, D))
    w = rng.normal(size=(1, D)) / 3

    def f(X):
        return np.sin(2 * (X @ w.T)[:, 0])

    gpm = pma.embedding_gp(X, f(X), n_components=2)
    learner = pma.active.Learner(gpm, "hyperparameters", bounds=[(-1, 1)] * D, random_seed=7)
    answers = follow(learner, f, 2, X, batch=3)
    with tempfile.TemporaryDirectory() as folder:
        learner.save(f"{folder}/run.nc")
        again = pma.active.Learner.load(f"{folder}/run.nc")
    answers["resumed"] = again.ask()
    return answers


@run
def model_from_a_pool():
    """BAMS and its kin over six kernels."""
    months = np.linspace(0, 6, 90)[:, None]
    y = np.sin(2 * np.pi * months[:, 0]) + 0.3 * months[:, 0]
    kernels = ["SE", "PER", "LIN", "LIN + PER", "SE * PER", "RQ"]
    answers = {}
    for criterion in (None, "committee", "uncertainty"):
        models = [pma.composite_gp(months[::18], y[::18], k, y_scale=(0.9, 1.0)) for k in kernels]
        learner = pma.active.Learner(models, "model", criterion=criterion, pool=months, random_seed=8)
        rows = np.round(months[:, 0], 12)

        def oracle(x, rows=rows):
            return y[np.searchsorted(rows, np.round(x[:, 0], 12))]

        found = follow(learner, oracle, 3, months[5:9])
        found["probability"] = learner.fit.probability.to_numpy()
        answers |= {f"{criterion}/{name}": value for name, value in found.items()}
    fits = dict(learner.fit)
    answers["bams"] = pma.active.bams(fits, months).to_numpy()
    answers["bams_tempered"] = pma.active.bams(fits, months, weights="tempered", method="modes").to_numpy()
    answers["committee"] = pma.active.committee(fits, months).to_numpy()
    answers["importance"] = np.array(
        [pma.find_modes(fit).sampled_evidence(random_seed=0).value for fit in fits.values()]
    )
    return answers


@run
def models_that_join_and_leave():
    """Two kernels; compositional kernel search."""
    x = np.linspace(0, 5, 60)[:, None]
    y = np.sin(3 * x[:, 0]) * (1 + 0.2 * x[:, 0])
    models = [pma.composite_gp(x[::6], y[::6], k) for k in ("SE", "LIN")]
    learner = pma.active.Learner(models, "model", pool=x, random_seed=9)
    answers = follow(learner, lambda p: np.sin(3 * p[:, 0]) * (1 + 0.2 * p[:, 0]), 4, x[:5])
    answers["history"] = np.nan_to_num(learner.model_history.to_numpy())
    found = pma.search.compositional_kernel_search(x[::2], y[::2], depth=2, random_seed=0, progressbar=False)
    answers["search"] = [found.best.log_evidence]
    return answers


@run
def maximum_in_a_box():
    """PES and kin, in a box."""
    bounds = [(40, 120), (5, 60)]
    low, span = np.array([40.0, 5.0]), np.array([80.0, 55.0])

    def f(X):
        return hills(2 * (X - low) / span - 1)

    X = pma.active.latin_hypercube(bounds, 6, random_seed=1)
    answers = {}
    names = ("pes", "max_value_entropy", "joint_entropy_search", "entropy_search", "thompson")
    for criterion in names:
        gpm = pma.ard_gp(X, f(X), x_scale=(low, span))
        learner = pma.active.Learner(gpm, "maximum", criterion=criterion, bounds=bounds, random_seed=10)
        found = follow(learner, f, 2, X)
        found["recommended"] = learner.recommend()
        answers |= {f"{criterion}/{name}": value for name, value in found.items()}
    best = learner.optimum(50)
    answers["optimum"] = np.asarray(best.x, float)
    return answers


@run
def minimum_in_a_pool():
    """PES over a pool with a trace, a point and a fit; minimize."""
    rng = np.random.default_rng(11)
    pool = rng.uniform(-1, 1, (150, 2))
    gpm = pma.ard_gp(pool[:8], hills(pool[:8]))
    learner = pma.active.Learner(gpm, "maximum", pool=pool, minimize=True, random_seed=12)
    answers = follow(learner, hills, 3, pool[:5])
    answers["recommended"] = learner.recommend()
    fit = learner.fit
    trace = pma.sample(gpm, draws=60, tune=100, chains=2, random_seed=1, progressbar=False, step="slice", cores=1)
    for name, source in {"fit": fit, "point": pma.find_modes(fit).point, "trace": trace}.items():
        for function in (pma.active.pes, pma.active.max_value_entropy, pma.active.joint_entropy_search):
            scores = function(source, pool, model=gpm, random_seed=3, n_optima=20, n_features=200)
            answers[f"{function.__name__}/{name}"] = scores.to_numpy()
    traced = pma.active.expected_improvement(trace, pool, model=gpm)
    answers["ei/trace"] = traced.to_numpy()
    answers["predict/trace"] = pma.predict(trace, pool[:7], model=gpm).f_variance.to_numpy()
    paths = pma.draw_paths(fit, random_seed=1)
    answers["paths"] = np.asarray(paths(pool[:4]))
    return answers


@run
def relevant_inputs():
    """HDS by each of its tests, and its model."""

    def f(X):
        return np.sin(3 * X[:, 4]) + X[:, 17] ** 2

    answers = {}
    scales = {"bandwidth": 0.5, "signal_variance": 0.5, "noise_variance": 1e-4}
    for test, keywords in {"None": {}, "scales": scales, "gpt": scales, "fdt": scales}.items():
        keywords = keywords | ({"test": test} if test in ("gpt", "fdt") else {})
        found = pma.active.hds(f, 40, random_seed=13, **keywords)
        answers[f"{test}/active"] = np.array(found.active, float)
        answers[f"{test}/n"] = [float(found.n_evaluations)]
        answers[f"{test}/y"] = found.to_model().y
    told = pma.active.coordinate_wise(f, 20, n_pairs=10, bandwidth=0.5, noise_variance=1e-4, random_seed=13)
    answers["coordinate_wise"] = np.array(told.active, float)
    return answers


@run
def verified_and_other_models():
    """A run verified by longer fits; a model of one's own; labels; BALD from a trace."""
    rng = np.random.default_rng(14)
    pool = rng.uniform(-1, 1, (60, 1))
    with pm.Model() as model:
        X = pm.Data("X", pool[:5])
        log_ls = pm.Normal("log_ls", 0, 1)
        gp = pm.gp.Marginal(cov_func=pm.gp.cov.Matern52(1, ls=pm.math.exp(log_ls)))
        gp.marginal_likelihood("y", X, pm.Data("data", np.sin(3 * pool[:5, 0])), sigma=0.05)
    learner = pma.active.Learner(pma.from_marginal(gp, "y", model=model), "hyperparameters", pool=pool, random_seed=1)
    answers = follow(learner, lambda x: np.sin(3 * x[:, 0]), 3, pool[20:25])
    passed = (pool[:20, 0] > 0).astype(int)
    fit = pma.fit(pma.ard_gp(pool[:20], passed, likelihood="bernoulli"), random_seed=1)
    answers["bernoulli"] = pma.predict(fit, pool)["y_mean"].to_numpy()
    answers["bald of labels"] = pma.active.bald(fit, pool, target="f").to_numpy()
    with pm.Model() as curve:
        dose = pm.Data("dose", np.array([0.5, 1.0, 4.0]))
        top, half = pm.LogNormal("top", 1, 0.5), pm.LogNormal("half", 0, 1)
        pm.Normal("yield", top * dose / (half + dose), 0.2, observed=[0.9, 1.4, 2.3])
        trace = pm.sample_prior_predictive(200, random_seed=1, compile_kwargs={"mode": "FAST_COMPILE"})
    answers["bald_from_trace"] = pma.active.bald_from_trace(
        trace, curve, np.linspace(0, 8, 9), group="prior"
    ).to_numpy()
    gpm = pma.ard_gp(pool[:4], np.sin(3 * pool[:4, 0]))
    verified = pma.active.Learner(gpm, "function", pool=pool, verify=2, random_seed=2)
    answers |= {f"verify/{k}": v for k, v in follow(verified, lambda x: np.sin(3 * x[:, 0]), 3, pool[:5]).items()}
    found = verified.verification.data_vars.items()
    return answers | {f"verification/{k}": v.to_numpy() for k, v in found if v.dtype.kind == "f"}


# The one whose answers come in seconds.
SMALLEST = relevant_inputs


def as_hex(values) -> list[str]:
    return [float(v).hex() for v in np.asarray(values, float).ravel()]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--smallest", action="store_true")
    parser.add_argument("names", nargs="*", help="some of: " + ", ".join(RUNS))
    arguments = parser.parse_args()
    if arguments.smallest:
        first, second = ({key: as_hex(value) for key, value in SMALLEST().items()} for _ in range(2))
        print(
            f"{SMALLEST.__name__}: {len(first)} answers, {'the same' if first == second else 'DIFFERENT'} when repeated"
        )
        return int(first != second)
    known = json.loads(RECORD.read_text()) if RECORD.exists() else {"answers": {}}
    different = 0
    for name in arguments.names or RUNS:
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            answers = {key: as_hex(value) for key, value in RUNS[name]().items()}
        changed = []
        if arguments.record:
            known["answers"][name] = answers
        else:
            before = known["answers"][name]
            changed = [key for key in sorted(before | answers) if before.get(key) != answers.get(key)]
            different += len(changed)
        n = sum(len(values) for values in answers.values())
        verdict = "recorded" if arguments.record else "the same" if not changed else "DIFFERENT: " + ", ".join(changed)
        print(f"{name}: {n} numbers, {time.perf_counter() - start:.0f} s, {verdict}", flush=True)
    if arguments.record:
        made_with = {package: _report._version(package) for package in _report.PACKAGES} | {"cpu": _report._cpu()}
        known = {
            "command": "python benchmarks/same_answers.py --record",
            "date": datetime.now(UTC).date().isoformat(),
            "made_with": made_with,
            "answers": known["answers"],
        }
        RECORD.write_text(json.dumps(known, indent=0) + "\n")
    return int(different > 0)


if __name__ == "__main__":
    sys.exit(main())
