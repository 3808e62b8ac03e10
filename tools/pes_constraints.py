"""Make pes_constraints.json: predictive entropy search of one place of the maximum, with 50 digits.

Independent of the package: derivatives of the squared exponential kernel by Hermite polynomials, one dense joint
Gaussian of data, constraints and candidates, expectation propagation as in the paper with explicit inverses.

    python tools/pes_constraints.py

needs mpmath (1.4.1 was used).
"""

import json
from itertools import combinations
from pathlib import Path

import mpmath as mp

mp.mp.dps = 50
NOISE_VARIANCE, LENGTHSCALES = mp.mpf("1e-6"), [mp.mpf("0.2"), mp.mpf("0.35")]
GOLDEN = (mp.sqrt(5) - 1) / 2


def spread(n, D, start):
    """Points of a lattice in the unit cube, rounded to doubles."""
    steps = [GOLDEN, mp.sqrt(2), mp.sqrt(3)]
    return [[mp.mpf(float(mp.frac((start + i) * steps[d] + mp.mpf(d) / 7))) for d in range(D)] for i in range(n)]


def hermite(n, t):
    previous, this = mp.mpf(0), mp.mpf(1)
    for k in range(n):
        previous, this = this, t * this - k * previous
    return this


def covariance(a, i, b, j):
    """Of the derivatives with multi-indices i at a and j at b, for an output variance of one."""
    out = mp.mpf(1)
    for d, scale in enumerate(LENGTHSCALES[: len(a)]):
        t, n = (a[d] - b[d]) / scale, i[d] + j[d]
        out *= (-1) ** i[d] * hermite(n, t) / scale**n * mp.exp(-t * t / 2)
    return out


def condition(mean, V, known, values, noise):
    """Mean and covariance of all coordinates, given some of them with noise."""
    A = mp.matrix([[V[i, j] for j in known] for i in known]) + mp.diag(noise)
    cross = mp.matrix([[V[i, j] for j in known] for i in range(V.rows)])
    inverse = A**-1
    gap = mp.matrix([value - mean[i] for i, value in zip(known, values, strict=True)])
    return mean + cross * inverse * gap, V - cross * inverse * cross.T


def propagate(mean, V, sites):
    """Natural parameters of sites: (row, sign, bound, softness) is Phi(sign (z - bound) / root softness)."""
    k = len(sites)
    precision, shift = [mp.mpf(0)] * k, [mp.mpf(0)] * k
    rows = [row for row, *_ in sites]
    V0 = mp.matrix([[V[i, j] for j in rows] for i in rows])
    m0 = mp.matrix([mean[i] for i in rows])
    prior = V0**-1
    for _ in range(200):
        old = list(precision)
        for i, (_, sign, bound, softness) in enumerate(sites):
            Q = (prior + mp.diag(precision)) ** -1
            m = Q * (prior * m0 + mp.matrix(shift))
            v = 1 / (1 / Q[i, i] - precision[i])
            c = v * (m[i] / Q[i, i] - shift[i])
            alpha = sign * (c - bound) / mp.sqrt(v + softness)
            r = mp.npdf(alpha) / mp.ncdf(alpha)
            tilted_mean = c + sign * v * r / mp.sqrt(v + softness)
            tilted_variance = v - v * v * r * (r + alpha) / (v + softness)
            precision[i] = 1 / tilted_variance - 1 / v
            shift[i] = tilted_mean / tilted_variance - c / v
        if all(abs(a - b) <= mp.mpf("1e-30") * a for a, b in zip(precision, old, strict=True)):
            return precision, shift
    raise RuntimeError("no convergence")


def case(D, n, m, place, free, outward, mixed, boundary):
    X, T = spread(n, D, 1), spread(m, D, 100)
    y = [mp.mpf(float(mp.sin(6 * sum(x)) + x[0] / 2)) for x in X]
    place = [mp.mpf(p) for p in place]
    zero = [0] * D
    unit = [[int(i == d) for i in range(D)] for d in range(D)]
    pairs = list(combinations(range(D), 2))
    rows = [(x, zero) for x in X] + [(t, zero) for t in T] + [(place, zero)]
    rows += [(place, u) for u in unit] + [(place, [2 * i for i in u]) for u in unit]
    rows += [(place, [a + b for a, b in zip(unit[i], unit[j], strict=True)]) for i, j in pairs]
    V = mp.matrix([[covariance(a, i, b, j) for b, j in rows] for a, i in rows])
    height, slope, second, cross = n + m, n + m + 1, n + m + 1 + D, n + m + 1 + 2 * D
    mean = mp.matrix(len(rows), 1)
    mean, V = condition(mean, V, range(n), y, [NOISE_VARIANCE] * n)
    plain = [V[n + t, n + t] for t in range(m)]

    stays = [True] * D if boundary == "stationary" else free
    known, values = [slope + d for d in range(D) if stays[d]], [mp.mpf(0)] * sum(stays)
    mixed_values = [mp.mpf("0.7")] * len(pairs)
    if mixed != "free":
        for row, (i, j) in enumerate(pairs):
            if stays[i] and stays[j]:
                known.append(cross + row)
                values.append(mixed_values[row] if mixed == "path" else mp.mpf(0))
    if known:
        mean, V = condition(mean, V, known, values, [mp.mpf(0)] * len(known))
    sites = [(height, 1, max(y), NOISE_VARIANCE)]
    for d in range(D):
        if stays[d]:
            sites.append((second + d, -1, mp.mpf(0), mp.mpf(0)))
        else:
            sites.append((slope + d, 1 if outward[d] > 0 else -1, mp.mpf(0), mp.mpf(0)))
    precision, shift = propagate(mean, V, sites)
    pseudo = [s / p for s, p in zip(shift, precision, strict=True)]
    mean, V = condition(mean, V, [row for row, *_ in sites], pseudo, [1 / p for p in precision])

    given, below = [], []
    for t in range(n, n + m):
        v, e = V[t, t], V[t, t] - V[t, height]
        s = V[t, t] + V[height, height] - 2 * V[t, height]
        alpha = (mean[height] - mean[t]) / mp.sqrt(s)
        r = mp.npdf(alpha) / mp.ncdf(alpha)
        given.append(v)
        below.append(v - r * (r + alpha) * e * e / s)

    def numbers(values):
        return [float(value) for value in values]

    return {
        "X": [numbers(x) for x in X],
        "y": numbers(y),
        "candidates": [numbers(t) for t in T],
        "lengthscales": numbers(LENGTHSCALES[:D]),
        "noise_variance": float(NOISE_VARIANCE),
        "place": numbers(place),
        "free": free,
        "outward": outward,
        "mixed": mixed,
        "mixed_values": numbers(mixed_values),
        "boundary": boundary,
        "height_mean": float(mean[height]),
        "height_variance": float(V[height, height]),
        "variance": numbers(plain),
        "given_place_and_data": numbers(given),
        "given_all": numbers(below),
    }


def main():
    line = {"D": 1, "n": 3, "m": 8}
    plane = {"D": 2, "n": 6, "m": 10}
    inside, corner = {"free": [True, True], "outward": [0, 0]}, {"free": [False, False], "outward": [1, -1]}
    face = {"free": [True, False], "outward": [0, -1]}
    cases = {
        "line, inside": case(**line, place=[0.37], free=[True], outward=[0], mixed="free", boundary="outward"),
        "line, end": case(**line, place=[1.0], free=[False], outward=[1], mixed="free", boundary="outward"),
        "inside": case(**plane, place=[0.62, 0.31], **inside, mixed="free", boundary="outward"),
        "inside, zero": case(**plane, place=[0.62, 0.31], **inside, mixed="zero", boundary="outward"),
        "inside, path": case(**plane, place=[0.62, 0.31], **inside, mixed="path", boundary="outward"),
        "face": case(**plane, place=[0.4, 0.0], **face, mixed="free", boundary="outward"),
        "face, zero": case(**plane, place=[0.4, 0.0], **face, mixed="zero", boundary="outward"),
        "face, stationary": case(**plane, place=[0.4, 0.0], **face, mixed="zero", boundary="stationary"),
        "corner": case(**plane, place=[1.0, 0.0], **corner, mixed="free", boundary="outward"),
    }
    folder = Path(__file__).parents[1] / "tests" / "reference"
    (folder / "pes_constraints.json").write_text(json.dumps(cases, indent=1) + "\n")


if __name__ == "__main__":
    main()
