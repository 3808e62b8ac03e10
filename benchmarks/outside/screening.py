"""Which searches for relevant inputs find exactly the right ones, and do they say so when they are wrong?

Functions of 2 to 10 inputs among 20 to 300 on [0, 1]^D, of sd 1, with noise of 0, 1 and 10 % of their variance. An
input counts if it accounts for at least 1 % of the variance, interactions included (0.5 % if that is five times the
noise); those that account for less may be found or not. A run is *silent* if it is wrong without a warning, an
undecided node or an error, and a *false alarm* if it is right with one. A warning of a right run may be true all the
same: inputs not found that account for 0.1 to 1 % of the variance are left.

Peers (two seeds) have as many evaluations as the bisection
takes for the same problem, and are told how many inputs matter, which it has to find out; they never warn. Morris's
method takes at least one trajectory of D + 1 points.
"""

import warnings
from functools import partial
from types import SimpleNamespace

import _above  # noqa: F401
import numpy as np
from _records import Key, main
from _report import BLUE, GREY, ORANGE, panels, table_of, target
from _screening_peers import PEERS

import pymc_active as pma

NOISES = (0.0, 0.01, 0.1)
SEEDS, PEER_SEEDS = 3, 2


def scaled(box, f):
    low, high = np.array(box, float).T
    return lambda U: f((low + (high - low) * U).T)


def borehole(x):
    rw, r, Tu, Hu, Tl, Hl, L, Kw = x
    log = np.log(r / rw)
    return 2 * np.pi * Tu * (Hu - Hl) / (log * (1 + 2 * L * Tu / (log * rw**2 * Kw) + Tu / Tl))


def otl(x):
    Rb1, Rb2, Rf, Rc1, Rc2, beta = x
    Vb1 = 12 * Rb2 / (Rb1 + Rb2)
    bR = beta * (Rc2 + 9)
    return (Vb1 + 0.74) * bR / (bR + Rf) + 11.35 * Rf / (bR + Rf) + 0.74 * Rf * bR / ((bR + Rf) * Rc1)


def piston(x):
    M, S, V0, k, P0, Ta, T0 = x
    A = P0 * S + 19.62 * M - k * V0 / S
    V = S / (2 * k) * (np.sqrt(A**2 + 4 * k * P0 * V0 / T0 * Ta) - A)
    return 2 * np.pi * np.sqrt(M / (k + S**2 * P0 * V0 / T0 * Ta / V**2))


def wing(x):
    Sw, Wfw, A, Lam, q, lam, tc, Nz, Wdg, Wp = x
    Lam = Lam * np.pi / 180
    return (
        0.036 * Sw**0.758 * Wfw**0.0035 * (A / np.cos(Lam) ** 2) ** 0.6 * q**0.006 * lam**0.04
        * (100 * tc / np.cos(Lam)) ** -0.3 * (Nz * Wdg) ** 0.49 + Sw * Wp
    )  # fmt: skip


def camel(x):
    return (4 - 2.1 * x[0] ** 2 + x[0] ** 4 / 3) * x[0] ** 2 + x[0] * x[1] - 4 * x[1] ** 2 + 4 * x[1] ** 4


def friedman(U):
    x = U.T
    return 10 * np.sin(np.pi * x[0] * x[1]) + 20 * (x[2] - 0.5) ** 2 + 10 * x[3] + 5 * x[4]


def g_function(a):
    return lambda U: np.prod((np.abs(4 * U - 2) + a) / (1 + np.array(a)), axis=1)


def signs(U):
    return np.prod(np.sign(U - 0.5), axis=1)


def morris(U):
    w = 2 * (U - 0.5)
    w[:, [2, 4]] = 2 * (1.1 * U[:, [2, 4]] / (U[:, [2, 4]] + 0.1) - 0.5)
    return 20 * w[:, :5].sum(1) - 15 * (w[:, 0] * w[:, 1] + w[:, 2] * w[:, 3] + w[:, 0] * w[:, 4])


def weak(U):
    return np.sin(3 * U[:, 0]) + U[:, 1] + np.sqrt(12 * 0.0135) * 0.36 * (U[:, 2] - 0.5)


OTL = [(50, 150), (25, 70), (0.5, 3), (1.2, 2.5), (0.25, 1.2), (50, 300)]
PISTON = [(30, 60), (0.005, 0.02), (0.002, 0.01), (1000, 5000), (90000, 110000), (290, 296), (340, 360)]
WING = [
    (150, 200), (220, 300), (6, 10), (-10, 10), (16, 45), (0.5, 1), (0.08, 0.18), (2.5, 6), (1700, 2500), (0.025, 0.08),
]  # fmt: skip
BOREHOLE = [
    (0.05, 0.15), (100, 50000), (63070, 115600), (990, 1110), (63.1, 116), (700, 820), (1120, 1680), (9855, 12045),
]  # fmt: skip
# Inputs that may matter, inputs in all, and the function of those on the unit cube.
FUNCTIONS = {
    "signs2": (2, 50, signs),
    "signs3": (3, 100, signs),
    "signs4": (4, 100, signs),
    "sign_of_sum": (3, 200, lambda U: np.sign(U.sum(1) - 1.5)),
    "if_then": (3, 100, lambda U: np.where(U[:, 0] > 0.5, U[:, 1], -U[:, 2])),
    "if_then_deep": (
        4,
        100,
        lambda U: np.where(U[:, 0] > 0.4, np.sin(5 * U[:, 1]), np.where(U[:, 2] > 0.5, 2.0, U[:, 3])),
    ),
    "threshold": (2, 100, lambda U: (U[:, 0] > 0.7) + 0.5 * (U[:, 1] > 0.3)),
    "and3": (3, 100, lambda U: (U > 0.4).all(1) * 1.0),
    "plateaus": (3, 200, lambda U: np.floor(3 * U).sum(1)),
    "clipped": (3, 100, lambda U: np.clip(6 * (U.mean(1) - 0.5), -0.5, 0.5)),
    "corner": (2, 50, lambda U: np.maximum(U.sum(1) - 1.3, 0)),
    "weak": (3, 100, weak),
    "ten_linear": (10, 100, lambda U: U @ np.linspace(1, 2, 10)),
    "ten_smooth": (10, 100, lambda U: np.sin(4 * U + np.arange(10)).sum(1)),
    "ten_mixed": (10, 100, lambda U: friedman(U[:, :5]) / 5 + signs(U[:, 5:7]) + U[:, 7] * U[:, 8] * 3 + U[:, 9] * 2),
    "ishigami": (
        3,
        100,
        scaled([(-np.pi, np.pi)] * 3, lambda x: np.sin(x[0]) + 7 * np.sin(x[1]) ** 2 + 0.1 * x[2] ** 4 * np.sin(x[0])),
    ),
    "g3": (3, 50, g_function([0, 0.5, 1])),
    "g5": (5, 300, g_function([0, 0, 1, 1, 2])),
    "friedman": (5, 100, friedman),
    "borehole": (8, 50, scaled(BOREHOLE, borehole)),
    "otl": (6, 20, scaled(OTL, otl)),
    "piston": (7, 50, scaled(PISTON, piston)),
    "wing": (10, 100, scaled(WING, wing)),
    "morris": (5, 50, morris),
    "sum4": (4, 300, lambda U: U.sum(1)),
    "product": (3, 200, lambda U: np.prod(2 * U - 1, axis=1)),
    "sine_ridge": (4, 100, lambda U: np.sin(2 * U @ np.array([1, -1, 2, 1.5]))),
    "peak": (2, 50, lambda U: np.exp(-20 * np.square(U - 0.6).sum(1))),
    "camel": (2, 300, scaled([(-2, 2), (-1, 1)], camel)),
    "waves": (2, 100, lambda U: np.sin(9 * U[:, 0]) * np.cos(7 * U[:, 1])),
}  # fmt: skip


def totals(f, d, n=2**14):
    """Mean, sd and total indices."""
    rng = np.random.default_rng(0)
    A, B = rng.random((2, n, d))
    y = f(A.copy())
    found = []
    for i in range(d):
        C = A.copy()
        C[:, i] = B[:, i]
        found.append(0.5 * np.mean((f(C) - y) ** 2) / y.var())
    return y.mean(), y.std(), np.array(found)


def problem(name, noise, seed):
    d, D, core = FUNCTIONS[name]
    rng = np.random.default_rng([seed, len(name), d, D])
    places = rng.permutation(D)[:d]
    mean, sd, total = totals(core, d)

    def f(X):
        y = (core(np.array(X, float)[:, places]) - mean) / sd
        return y + np.sqrt(noise) * rng.normal(size=len(y)) if noise else y

    least = 0.01 if noise > 0.001 else 0.005
    must = set(places[total >= least].tolist())
    return f, D, must, dict(zip(places.tolist(), total.tolist(), strict=True))


def bisection(f, D, seed):
    return pma.active.hds(f, D, bounds=(0, 1), random_seed=seed)


METHODS = ("bisection", *PEERS)


def record(row, method, repeat):
    name, noise = row.split("/")
    f, D, must, shares = problem(name, float(noise), repeat)
    count = [0]

    def counted(X):
        count[0] += len(X)
        return f(X)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = bisection(counted, D, repeat)
            if method in PEERS:
                n, count[0] = count[0], 0
                rng = np.random.default_rng([repeat, n])
                named = PEERS[method](counted, D, n, len(must), rng)
                result, caught[:] = SimpleNamespace(active=named, undecided=[], contradicted=[]), []
            active = {int(i) for i in result.active}
            told = getattr(result.check, "share_of_others", None) if method not in PEERS else None
            says = [
                str(w.message)[:80] for w in caught if "Doubtful" in w.category.__name__ or "left" in str(w.message)
            ]
            says += [f"undecided {len(result.undecided)}"] if result.undecided else []
            says += [f"contradicted {len(result.contradicted)}"] if result.contradicted else []
        except (ValueError, RuntimeError) as error:
            active, told, says = set(), None, [f"{type(error).__name__}: {error}"[:80]]
    return {
        "right": must <= active and active <= shares.keys(),
        "warned": bool(says),
        "missed": len(must - active),
        "extra": len(active - shares.keys()),
        "left": sum(share for i, share in shares.items() if i not in active),
        "told": told and told[1],
        "evaluations": count[0],
        "says": says,
    }


def keys() -> list[Key]:
    found = []
    for repeat in range(SEEDS):
        for noise in NOISES:
            for name in FUNCTIONS:
                level = 0.005 if name == "weak" and noise == 0.01 else noise
                methods = METHODS if repeat < PEER_SEEDS else METHODS[:1]
                if name != "weak" or noise <= 0.01:
                    found += [(f"{name}/{level}", method, repeat) for method in methods]
    return found


def rates(records):
    right, warned = (np.array([r[key] for r in records]) for key in ("right", "warned"))
    is_left = np.array([r.get("left", 0.0) >= 0.001 for r in records])
    told = [r["told"] for r in records if r.get("told")]
    return {
        "runs": len(records),
        "right": float(right.mean()),
        "silent": float((~right & ~warned).mean()),
        "wrong with a warning": float((~right & warned).mean()),
        "false alarms": float((right & warned).mean()),
        "wrong given a warning": float((~right[warned]).mean()) if warned.any() else np.nan,
        "wrong or inputs left, given a warning": float((~right | is_left)[warned].mean()) if warned.any() else np.nan,
        "median of the most unseen": float(np.median(told or [np.nan])),
        "median evaluations": float(np.median([r["evaluations"] for r in records])),
    }


def picture(results):
    figure, axes = panels(1, 2, figsize=(9, 3.4))
    shades = {"right": BLUE, "wrong with a warning": GREY, "silent": ORANGE}
    names = [name for name in results if "all" not in name]
    left = np.zeros(len(names))
    for kind, color in shades.items():
        share = np.array([results[name][kind] for name in names])
        axes[0].barh(names, share, left=left, color=color, label=kind)
        left += share
    axes[0].set(xlabel="share of runs", xlim=(0, 1))
    axes[0].invert_yaxis()
    axes[0].legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=3, fontsize=8)
    axes[1].barh(names, [results[name]["median evaluations"] for name in names], color=BLUE)
    axes[1].set(xlabel="median evaluations", yticks=[])
    axes[1].invert_yaxis()
    return figure


def level(row):
    """Noise as in NOISES: that beside a weak effect is half of 1 %."""
    noise = float(row.split("/")[1])
    return 0.01 if noise == 0.005 else noise


def report(records):
    methods = [name for name in METHODS if any(key[1] == name for key in records)]
    levels = {f"{100 * noise:g} %": noise for noise in NOISES} | {"all": None}
    results, by_function = {}, {}
    for method in methods:
        for label, noise in levels.items():
            some = [r for key, r in records.items() if key[1] == method and noise in (None, level(key[0]))]
            if some:
                results[f"{method}, noise {label}"] = rates(some)
    for name in FUNCTIONS:
        of = {m: [r for key, r in records.items() if key[1] == m and key[0].split("/")[0] == name] for m in methods}
        by_function[name] = {method: rates(some) for method, some in of.items() if some}
    table_of([{"": name, **found} for name, found in results.items()])
    shown = ("right", "silent", "median evaluations")
    ours = {name: found["bisection"] for name, found in by_function.items() if found}
    table_of([{"bisection": name, **{key: found[key] for key in shown}} for name, found in ours.items()])
    of_all = results["bisection, noise all"]
    targets = [
        target("bisection: silent errors", of_all["silent"], "<=", 0.005),
        target("bisection: exactly right", of_all["right"], ">=", 0.95),
        target("bisection: false alarms", of_all["false alarms"], "<=", 0.01),
    ]
    found, figure = {"rates": results, "by function": by_function}, picture(results)
    return found, figure, targets


if __name__ == "__main__":
    small = {("signs2/0.0", method, 0): partial(record, "signs2/0.0", method, 0) for method in METHODS}
    main(__doc__, keys(), record, report, small, peers=PEERS)
