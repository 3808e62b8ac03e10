"""Ten design problems of the literature as ``pm.Model`` and, by itself, in NumPy."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from scipy.special import gammaln
from scipy.stats import poisson

DAYS = 100

DRAWS: dict[str, Callable] = {
    "Normal": lambda rng, shape, mean, sd: rng.normal(mean, sd, shape),
    "LogNormal": lambda rng, shape, mean, sd: rng.lognormal(mean, sd, shape),
    "HalfNormal": lambda rng, shape, sd: np.abs(rng.normal(0, sd, shape)),
    "Beta": lambda rng, shape, a, b: rng.beta(a, b, shape),
}
OUTCOMES: dict[str, Callable] = {
    "Normal": lambda rng, mean, sd: rng.normal(mean, sd),
    "Poisson": lambda rng, mean: poisson.ppf(rng.uniform(size=mean.shape), mean),
    "Bernoulli": lambda rng, p: rng.binomial(1, p),
    "Binomial": lambda rng, n, p: rng.binomial(n, p),
}


def log_binomial(y, n, p):
    p = np.clip(p, 1e-300, 1 - 1e-16)
    return y * np.log(p) + (n - y) * np.log1p(-p) + gammaln(n + 1) - gammaln(y + 1) - gammaln(n - y + 1)


LOG: dict[str, Callable] = {
    "Normal": lambda y, mean, sd: -0.5 * np.square((y - mean) / sd) - np.log(sd) - 0.5 * np.log(2 * np.pi),
    "Poisson": lambda y, mean: y * np.log(mean) - mean - gammaln(y + 1),
    "Bernoulli": lambda y, p: log_binomial(y, 1, p),
    "Binomial": log_binomial,
}


# Responses: of NumPy or PyTensor (m), inputs x, and parameters t, which are scalars or, in NumPy, columns.
def emax(m, x, t):
    return t["E0"] + t["Emax"] * x["dose"] / (t["EC50"] + x["dose"]), t["sigma"]


def michaelis_menten(m, x, t):
    return t["Vmax"] * x["S"] / (t["Km"] + x["S"]), 0.1


def concentration(m, x, t):
    mean = 400 / t["V"] * t["ka"] / (t["ka"] - t["ke"]) * (m.exp(-t["ke"] * x["t"]) - m.exp(-t["ka"] * x["t"]))
    return mean, m.sqrt(0.1 + 0.01 * mean**2)


def logistic(m, x, t):
    return (1 / (1 + m.exp(-(t["a"] + t["b"] * x["x1"] + t["c"] * x["x2"]))),)


def eight_groups(m, x, t):
    return (m.exp(t["mu"] + t["tau"] * t["z"][..., x["group"]] + t["slope"] * x["dose"]),)


def day_of_epidemic(s, i, beta, gamma):
    new = s * (1 - 2.718281828459045 ** (-beta * i))
    return s - new, i * 2.718281828459045**-gamma + new


def epidemic(m, x, t):
    s, i, rates = 0.99, 0.01, (t["beta"], t["gamma"])
    if m is pt:
        start = [pt.as_tensor(s), pt.as_tensor(i)]
        _, curve = pytensor.scan(day_of_epidemic, None, start, rates, n_steps=DAYS, return_updates=False)
        return 50, curve[x["day"]]
    found = []
    for _ in range(DAYS):
        s, i = day_of_epidemic(s, i, *rates)
        found.append(i)
    return 50, np.concatenate(found, axis=1)[:, x["day"]]


def psychometric(m, x, t):
    rise = 1 / (1 + m.exp(-t["slope"] * (x["level"] - t["threshold"])))
    return (t["guess"] + (1 - t["guess"] - t["lapse"]) * rise,)


def log_signal(m, x, t):
    squares = [(x["east"] - t[f"east{k}"]) ** 2 + (x["north"] - t[f"north{k}"]) ** 2 for k in "12"]
    return m.log(0.1 + sum(1 / (1e-4 + one) for one in squares)), 0.5


def first_order(m, x, t):
    return t["c0"] * m.exp(-t["k"] * x["t"]), 0.05


def second_order(m, x, t):
    return t["c0"] / (1 + t["c0"] * t["k"] * x["t"]), 0.05


def two_groups(m, x, t):
    return (x["exposure"] * m.exp(t["log_rate"] + t["log_ratio"] * x["treated"]),)


@dataclass(frozen=True)
class Problem:
    """Rows of the pool to start from, none: the prior. ``models`` are priors (kind, arguments, size) and responses."""

    family: str
    pool: dict[str, np.ndarray]
    start: tuple[int, ...]
    models: dict[str, tuple[dict[str, tuple], Callable]]
    learn: Any = "parameters"
    targets: tuple[str, ...] | None = None
    n_prior: int = 400_000

    def rows(self, rows) -> dict[str, np.ndarray]:
        return {name: values[list(rows)] for name, values in self.pool.items()}

    def draw(self, name: str, n: int, rng) -> dict[str, np.ndarray]:
        return {v: DRAWS[kind](rng, (n, size or 1), *a) for v, (kind, a, size) in self.models[name][0].items()}

    def outcome(self, name: str, theta: dict, rows) -> list[np.ndarray]:
        """Arguments of the family, (S, m)."""
        found = self.models[name][1](np, self.rows(rows), theta)
        shape = len(next(iter(theta.values()))), len(rows)
        return [np.broadcast_to(one, shape) for one in found]

    def pymc(self, name: str, rows, y: np.ndarray) -> pm.Model:
        priors, response = self.models[name]
        family = getattr(pm, self.family)
        with pm.Model() as model:
            x = {key: pm.Data(key, values) for key, values in self.rows(rows if len(rows) else [0, 1, 2]).items()}
            t = {v: getattr(pm, kind)(v, *a, shape=size) for v, (kind, a, size) in priors.items()}
            family("y", *response(pt, x, t), **({"observed": y} if len(rows) else {"shape": 3}))
        return model


def positive(mean: float, sd: float) -> tuple:
    return "LogNormal", (np.log(mean), sd), None


def normal(sd: float, mean: float = 0.0, size: int | None = None) -> tuple:
    return "Normal", (mean, sd), size


def grid(first: str, a, second: str, b) -> dict[str, np.ndarray]:
    A, B = np.meshgrid(a, b, indexing="ij")
    return {first: A.ravel(), second: B.ravel()}


RARE = "Beta", (2, 30), None
DECAY = {"c0": positive(1, 0.1), "k": positive(0.5, 0.7)}
LINE, PLANE = np.linspace(-1, 1, 10), np.linspace(-2.25, 2.25, 10)
SOURCES = {name: normal(1) for name in ("east1", "north1", "east2", "north2")}
PROBLEMS = {
    "Michaelis-Menten": Problem("Normal", {"S": np.linspace(0.05, 10, 100)}, (10, 80), {
        "": ({"Vmax": positive(2, 0.5), "Km": positive(1, 1)}, michaelis_menten)}),
    "dose-response": Problem("Normal", {"dose": np.geomspace(0.1, 1000, 100)}, (25, 50, 75), {
        "": ({"E0": normal(1), "Emax": positive(10, 0.5), "EC50": positive(10, 1), "sigma": positive(0.5, 0.3)}, emax),
        }, targets=("EC50",), n_prior=2_000_000),
    "two groups": Problem("Poisson", grid("treated", np.arange(2), "exposure", np.linspace(1, 25, 50)), (10, 60), {
        "": ({"log_rate": normal(1), "log_ratio": normal(1)}, two_groups)}, targets=("log_ratio",)),
    "logistic": Problem("Bernoulli", grid("x1", LINE, "x2", LINE), (22, 77), {
        "": ({"a": normal(1), "b": normal(3), "c": normal(3)}, logistic)}),
    "psychometric": Problem("Bernoulli", {"level": np.linspace(-4, 4, 100)}, (20, 50, 80), {
        "": ({"threshold": normal(1), "slope": positive(2, 0.5), "lapse": RARE, "guess": RARE}, psychometric),
        }, targets=("threshold",)),
    "pharmacokinetics": Problem("Normal", {"t": np.linspace(0.24, 24, 100)}, (), {
        "": ({"ka": positive(1, 0.22), "ke": positive(0.1, 0.22), "V": positive(20, 0.22)}, concentration)}),
    "eight groups": Problem("Poisson", grid("group", np.arange(8), "dose", np.linspace(-1, 1, 13)), (6, 45, 84), {
        "": ({"mu": normal(0.5, 1), "tau": ("HalfNormal", (0.5,), None), "z": normal(1, size=8), "slope": normal(0.5)},
             eight_groups)}),
    "two sources": Problem("Normal", grid("east", PLANE, "north", PLANE), (), {"": (SOURCES, log_signal)}),
    "rival decays": Problem("Normal", {"t": np.linspace(0.1, 10, 100)}, (0,), {
        "first order": (DECAY, first_order), "second order": (DECAY, second_order)}, learn="model"),
    "epidemic": Problem("Binomial", {"day": np.arange(DAYS)}, (5,), {
        "": ({"beta": positive(0.5, 0.5), "gamma": positive(0.1, 0.5)}, epidemic)}),
}  # fmt: skip


@dataclass(frozen=True)
class Truth:
    """One of the models, and its parameters, from the prior; it answers questions."""

    problem: Problem
    name: str
    theta: dict[str, np.ndarray]

    @classmethod
    def of(cls, problem: Problem, repeat: int) -> "Truth":
        rng = np.random.default_rng((1, repeat))
        name = list(problem.models)[repeat % len(problem.models)]
        return cls(problem, name, problem.draw(name, 1, rng))

    def answer(self, rows, rng) -> np.ndarray:
        return OUTCOMES[self.problem.family](rng, *self.problem.outcome(self.name, self.theta, rows))[0]
