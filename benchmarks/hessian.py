"""Exact Hessian against automatic differentiation.

What does the exact Hessian of the log posterior cost, against automatic differentiation?

    python benchmarks/hessian.py [--quick] [--memory GIGABYTES]

The Hessian over all hyperparameters, factorisation included, by the closed form of the package and
by JAX on the same density: jitted, compiled and warmed up before the clock starts, in double
precision, in the same process on one thread. JAX runs twice: ``jax.hessian`` as everybody writes
it, which pushes all P tangents through the gradient at once, and the same forward over reverse in
blocks of columns (``jax.lax.map``), which needs less memory and is often faster. The speed-up
counts against the faster of the two. ``jax.hessian`` is left out where it would need more than
``--memory``. For the composite kernel it is value, gradient and Hessian together.

Targets: 20 times faster at n = 100, D = 318, d = 2; 5 times at the other two embeddings; the
composite kernel not slower; the largest difference below 1e-8 of the largest entry.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import _report

EMBEDDINGS = ((100, 20, 2), (100, 318, 2), (500, 318, 2))
LEAST_SPEEDUP = {"100 x 318 x 2": 20, "100 x 20 x 2": 5, "500 x 318 x 2": 5, "LIN + PER * RQ": 1}
LARGEST_DIFFERENCE = 1e-8
COLUMNS = 8
# n x n matrices that jax.hessian holds for each of the P tangents, measured at n = 100 and 200.
LIVE_MATRICES = 8.2


def embedding(n: int, D: int, d: int):
    """A model, the point at which to differentiate, and the density in JAX."""
    import jax.numpy as jnp
    import numpy as np
    from jax.scipy.linalg import cho_factor, cho_solve
    from jax.scipy.stats import norm

    import pymc_active as pma

    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(n, D))
    sd = 1.25 * np.sqrt(3 / D)
    theta = np.concatenate([rng.normal(0, sd, d * D), [0.0, np.log(0.1)]])
    gpm = draw_data(pma.embedding_gp(X, np.zeros(n), n_components=d), theta, rng)
    y = gpm.y

    def negative_log_posterior(theta):
        R, log_outputscale, log_noise = theta[:-2].reshape(d, D), theta[-2], theta[-1]
        U = X @ R.T
        u = (U * U).sum(1)
        s = u[:, None] + u - 2 * U @ U.T
        G = jnp.exp(2 * log_outputscale - 0.5 * s) + jnp.exp(2 * log_noise) * jnp.eye(n)
        factor = cho_factor(G, lower=True)
        nll = 0.5 * y @ cho_solve(factor, y) + jnp.log(jnp.diagonal(factor[0])).sum()
        log_prior = (
            norm.logpdf(R, 0.0, sd).sum()
            + norm.logpdf(log_outputscale, 0.0, 0.5)
            + norm.logpdf(log_noise, np.log(0.1), 0.5)
        )
        return nll + 0.5 * n * np.log(2 * np.pi) - log_prior

    return gpm, theta, negative_log_posterior


def composite(n: int):
    """The same for a kernel expression, with its ten parameters at their prior means."""
    import jax.numpy as jnp
    import numpy as np
    from jax.scipy.linalg import cho_factor, cho_solve
    from jax.scipy.stats import norm

    import pymc_active as pma

    rng = np.random.default_rng(0)
    x = np.linspace(0, 1, n)
    priors = {
        "location_LIN[0]": (0.5, 1.0),
        "log_outputscale_LIN": (np.log(0.4), 1.0),
        "log_lengthscale_PER": (np.log(2.0), np.sqrt(0.5)),
        "log_period_PER": (np.log(0.1), np.sqrt(0.5)),
        "log_outputscale_PER": (np.log(0.4), 1.0),
        "log_lengthscale_RQ": (np.log(0.1), 1.0),
        "log_alpha_RQ": (np.log(0.05), np.sqrt(0.5)),
        "log_outputscale_RQ": (np.log(0.4), 1.0),
        "mean_constant": (0.0, 1.0),
        "log_noise": (np.log(0.1), 1.0),
    }
    gpm = pma.composite_gp(x[:, None], np.zeros(n), "LIN + PER * RQ")
    if gpm.labels != list(priors):
        raise RuntimeError(f"the model has other parameters than expected: {gpm.labels}")
    mean, sd = np.array(list(priors.values())).T
    theta = mean.copy()
    gpm = draw_data(gpm, theta, rng)
    y = gpm.y

    def negative_log_posterior(theta):
        c, lin, per_length, period, per, rq_length, alpha, rq, m, noise = theta
        r = x[:, None] - x
        linear = jnp.exp(2 * lin) * jnp.outer(x - c, x - c)
        wave = jnp.sin(jnp.pi * r * jnp.exp(-period))
        periodic = jnp.exp(2 * per - 2 * jnp.exp(-2 * per_length) * wave**2)
        t = 1 + 0.5 * r**2 * jnp.exp(-2 * rq_length - alpha)
        quadratic = jnp.exp(2 * rq) * t ** -jnp.exp(alpha)
        G = linear + periodic * quadratic + jnp.exp(2 * noise) * jnp.eye(n)
        factor = cho_factor(G, lower=True)
        nll = 0.5 * (y - m) @ cho_solve(factor, y - m) + jnp.log(jnp.diagonal(factor[0])).sum()
        return nll + 0.5 * n * np.log(2 * np.pi) - norm.logpdf(theta, mean, sd).sum()

    return gpm, theta, negative_log_posterior


def draw_data(gpm, theta, rng):
    """Give the model data drawn from itself at ``theta``."""
    L = gpm.posterior().state(theta).factor.L
    gpm.set_data(gpm.X, L @ rng.normal(size=len(L)))
    return gpm


def run(case: dict) -> dict:
    """Time one case in this process."""
    import jax
    import numpy as np

    from pymc_active.support.threads import one_blas_thread

    jax.config.update("jax_enable_x64", True)
    is_composite = "expression" in case
    gpm, theta, function = composite(case["n"]) if is_composite else embedding(*case["shape"])
    n, P = len(gpm.y), len(theta)
    posterior = gpm.posterior()

    def ours():
        state = posterior.state(theta)
        hessian = posterior.hessian(state)
        if not is_composite:
            return hessian
        prior, prior_gradient = posterior.prior_value_and_gradient(theta)
        return (
            state.factor.nll - prior,
            posterior.likelihood_gradient(state) - prior_gradient,
            hessian,
        )

    def all_three(theta):
        return *jax.value_and_grad(function)(theta), jax.hessian(function)(theta)

    def in_blocks(theta):
        def column(direction):
            return jax.jvp(jax.grad(function), (theta,), (direction,))[1]

        return jax.lax.map(column, np.eye(P), batch_size=COLUMNS)

    rivals: dict[str, Callable] = {"jax.hessian": all_three if is_composite else jax.hessian(function)}
    gigabytes = LIVE_MATRICES * 8e-9 * P * n**2
    result: dict = {"n": n, "P": P, "jax_hessian_estimated_gigabytes": gigabytes}
    if gigabytes > case["memory"]:
        del rivals["jax.hessian"]
        result["left_out"] = (
            f"jax.hessian: all {P} tangents at once would need about {gigabytes:.0f} GB; "
            f"the rival works through them in blocks of {COLUMNS}"
        )
    if not is_composite:
        rivals[f"JAX, blocks of {COLUMNS} columns"] = in_blocks

    def clock(call: Callable) -> tuple[float, object]:
        start = time.perf_counter()
        value = jax.block_until_ready(call())
        return time.perf_counter() - start, value

    with one_blas_thread():
        mine = ours()
        compiled, values, compilation = {}, {}, {}
        for name, rival in rivals.items():
            compilation[name], compiled[name] = clock(lambda rival=rival: jax.jit(rival).lower(theta).compile())
            values[name] = clock(lambda name=name: compiled[name](theta))[1]
        times: dict[str, list[float]] = {name: [] for name in ("pymc_active", *rivals)}
        for _ in range(case["rounds"]):
            times["pymc_active"] += [clock(ours)[0] for _ in range(5)]
            for name, call in compiled.items():
                times[name].append(clock(lambda call=call: call(theta))[0])
    names = ("value", "gradient", "hessian") if is_composite else ("hessian",)
    theirs = next(iter(values.values()))
    pairs = zip(names, mine if is_composite else (mine,), theirs if is_composite else (theirs,), strict=True)
    result["relative_difference"] = {
        name: float(np.abs(a - np.asarray(b)).max() / np.abs(b).max()) for name, a, b in pairs
    }
    result["condition_number_of_K"] = posterior.state(theta).factor.condition_number()
    result["seconds"] = {name: _report.quartiles(values) for name, values in times.items()}
    result["jax_compilation_seconds"] = compilation
    result["speedup"] = {
        name: result["seconds"][name]["median"] / result["seconds"]["pymc_active"]["median"] for name in rivals
    }
    result["peak_memory_of_the_process_gigabytes"] = _report.peak_memory() / 1e9
    return result


def draw(results: dict[str, dict]):
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(9, 0.9 * len(results) + 1.6))
    looks = {"pymc_active": (_report.BLUE, "o"), "jax.hessian": (_report.GREY, "s")}
    drawn: dict[str, object] = {}
    for row, result in enumerate(results.values()):
        for k, (name, t) in enumerate(result["seconds"].items()):
            y = row + 0.24 * (k - (len(result["seconds"]) - 1) / 2)
            error = [[t["median"] - t["lower"]], [t["upper"] - t["median"]]]
            color, marker = looks.get(name, (_report.ORANGE, "D"))
            drawn[name] = axes.errorbar(t["median"], y, xerr=error, fmt=marker, color=color, ms=7)
            label = f"{1e3 * t['median']:.3g} ms" if t["median"] < 1 else f"{t['median']:.3g} s"
            if name in result["speedup"]:
                label += f"  ({result['speedup'][name]:.3g} ×)"
            axes.text(t["upper"] * 1.25, y, label, va="center", fontsize=8.5)
        if row:
            axes.axhline(row - 0.5, color="0.85", linewidth=0.8)
    labels = [
        f"{name}{'\nvalue, gradient and Hessian' if 'value' in r['relative_difference'] else ''}\n"
        f"P = {r['P']}, largest difference {r['relative_difference']['hessian']:.0e}"
        for name, r in results.items()
    ]
    axes.set_yticks(range(len(results)), labels)
    axes.set_ylim(len(results) - 0.5, -0.5)
    axes.set_xscale("log")
    left, right = axes.get_xlim()
    axes.set_xlim(left, right * 5)
    axes.set_xlabel("time, seconds (median; whiskers: quartiles; one thread)")
    axes.set_title("Exact Hessian of the log posterior over all P hyperparameters")
    axes.grid(axis="x", alpha=0.3)
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(drawn.values(), drawn, loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=3, frameon=False)
    return figure


def main() -> None:
    command = _report.parser(__doc__)
    command.add_argument("--memory", type=float, default=4.0, help="gigabytes allowed for jax.hessian")
    arguments = command.parse_args()
    if arguments.child:
        print(json.dumps(run(json.loads(arguments.child))))
        return
    cases: dict[str, dict] = {}
    for shape in EMBEDDINGS:
        if shape[0] == 500 and arguments.quick:
            continue
        rounds = 2 if shape[0] == 500 else 3 if arguments.quick else 15
        cases["embedding_gp, n x D x d = " + " x ".join(map(str, shape))] = {
            "shape": shape,
            "rounds": rounds,
        }
    cases["composite_gp, LIN + PER * RQ, n = 144"] = {
        "expression": "LIN + PER * RQ",
        "n": 144,
        "rounds": 3 if arguments.quick else 30,
    }
    results = {name: _report.child({**case, "memory": arguments.memory}, threads=1) for name, case in cases.items()}
    rows, targets = [], []
    for name, r in results.items():
        for method, t in r["seconds"].items():
            speedup = f"{r['speedup'][method]:.3g}" if method in r["speedup"] else ""
            rows.append((name, r["P"], method, _report.show(t), speedup))
        [limit] = [limit for key, limit in LEAST_SPEEDUP.items() if key in name]
        targets.append(_report.target(f"speed-up, {name}", min(r["speedup"].values()), ">=", limit))
        for what, difference in r["relative_difference"].items():
            targets.append(_report.target(f"difference of the {what}, {name}", difference, "<", LARGEST_DIFFERENCE))
    _report.table(("case", "P", "method", "time: median [quartiles]", "speed-up"), rows)
    for r in results.values():
        if "left_out" in r:
            print(r["left_out"])
    threads = "1 thread each (BLAS, XLA), one CPU"
    _report.write(
        __doc__,
        quick=arguments.quick,
        threads=threads,
        targets=targets,
        results=results,
        figure=draw(results),
    )


if __name__ == "__main__":
    main()
