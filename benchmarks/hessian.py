"""Exact Hessian against automatic differentiation.

What does the exact Hessian of the log posterior cost, against automatic differentiation?

    python benchmarks/hessian.py [--memory GIGABYTES]   # needs JAX; some minutes
    python benchmarks/hessian.py --smallest             # the smallest embedding and the kernel, few rounds

The Hessian over all hyperparameters, factorisation included, by the closed form of the package and by JAX on the same
density: jitted, compiled and warmed up before the clock starts, in double precision, in the same process on one thread.
JAX runs twice: ``jax.hessian`` as everybody writes it, which pushes all P tangents through the gradient at once, and
the same forward over reverse in blocks of columns (``jax.lax.map``), which needs less memory and is often faster. The
speed-up counts against the faster of the two. ``jax.hessian`` is left out where it would need more than ``--memory``.
For the composite kernel it is value, gradient and Hessian together.

Targets: 20 times faster at n = 100, D = 318, d = 2; 5 times at the other two embeddings; the composite kernel not
slower; the largest difference below 1e-8 of the largest entry.
"""

from __future__ import annotations

import importlib.util
import json
import time
from collections.abc import Callable

import _report

# (n, D, d), rounds; None for the kernel below, of 144 points.
CASES = {(100, 20, 2): 15, (100, 318, 2): 15, (500, 318, 2): 2, None: 30}
SMALLEST = {(100, 20, 2): 2, None: 2}
LEAST_SPEEDUP = {(100, 20, 2): 5, (100, 318, 2): 20, (500, 318, 2): 5, None: 1}
N_COMPOSITE, EXPRESSION = 144, "LIN + PER * RQ"
COLUMNS = 8
# n x n matrices that jax.hessian holds for each of the P tangents, measured at n = 100 and 200.
LIVE_MATRICES = 8.2


def name_of(shape) -> str:
    if shape is None:
        return f"composite_gp, {EXPRESSION}, n = {N_COMPOSITE}"
    return "embedding_gp, n x D x d = " + " x ".join(map(str, shape))


def embedding(n: int, D: int, d: int):
    """A model, the point at which to differentiate, and its covariance in JAX."""
    import jax.numpy as jnp
    import numpy as np

    import pymc_active as pma

    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(n, D))
    gpm = pma.embedding_gp(X, np.zeros(n), n_components=d)
    labels = ["log_lengthscale", "log_outputscale", "log_noise"]
    if gpm.labels[d * D :] != labels:
        raise RuntimeError(f"the model has other parameters than expected: {gpm.labels[d * D :]}")

    def covariance(theta):
        U = X @ theta[: d * D].reshape(d, D).T * jnp.exp(-theta[-3])
        u = (U * U).sum(1)
        return jnp.exp(2 * theta[-2] - 0.5 * (u[:, None] + u - 2 * U @ U.T))

    theta = np.concatenate([rng.normal(0, gpm.posterior().prior.sd[: d * D]), [0.0, 0.0, np.log(0.1)]])
    return gpm, theta, covariance


def composite():
    """The same for a kernel expression, with its ten parameters at their prior means."""
    import jax.numpy as jnp
    import numpy as np

    import pymc_active as pma

    x = np.linspace(0, 1, N_COMPOSITE)
    gpm = pma.composite_gp(x[:, None], np.zeros(N_COMPOSITE), EXPRESSION)
    labels = [
        "location_LIN[0]", "log_outputscale_LIN", "log_lengthscale_PER", "log_period_PER", "log_outputscale_PER",
        "log_lengthscale_RQ", "log_alpha_RQ", "log_outputscale_RQ", "mean_constant", "log_noise",
    ]  # fmt: skip
    if gpm.labels != labels:
        raise RuntimeError(f"the model has other parameters than expected: {gpm.labels}")

    def covariance(theta):
        c, lin, per_length, period, per, rq_length, alpha, rq = theta[:8]
        r = x[:, None] - x
        linear = jnp.exp(2 * lin) * jnp.outer(x - c, x - c)
        wave = jnp.sin(jnp.pi * r * jnp.exp(-period))
        periodic = jnp.exp(2 * per - 2 * jnp.exp(-2 * per_length) * wave**2)
        t = 1 + 0.5 * r**2 * jnp.exp(-2 * rq_length - alpha)
        return linear + periodic * jnp.exp(2 * rq) * t ** -jnp.exp(alpha)

    return gpm, gpm.posterior().prior.mean.copy(), covariance


def density(gpm, covariance, has_mean: bool):
    """The negative log posterior in JAX; all priors are normal, and the noise is the last parameter."""
    import jax.numpy as jnp
    import numpy as np
    from jax.scipy.linalg import cho_factor, cho_solve
    from jax.scipy.stats import norm

    prior = gpm.posterior().prior

    def negative_log_posterior(theta):
        y = gpm.y - (theta[-2] if has_mean else 0.0)
        factor = cho_factor(covariance(theta) + jnp.exp(2 * theta[-1]) * jnp.eye(len(y)), lower=True)
        nll = 0.5 * y @ cho_solve(factor, y) + jnp.log(jnp.diagonal(factor[0])).sum()
        return nll + 0.5 * len(y) * np.log(2 * np.pi) - norm.logpdf(theta, prior.mean, prior.sd).sum()

    return negative_log_posterior


def run(shape: list[int] | None, rounds: int, memory: float) -> dict:
    """Time one case in this process."""
    import jax
    import numpy as np

    from pymc_active.support.threads import one_blas_thread

    jax.config.update("jax_enable_x64", True)
    is_composite = shape is None
    gpm, theta, covariance = composite() if is_composite else embedding(*shape)
    # Data drawn from the model itself.
    L = gpm.posterior().state(theta).factor.L
    gpm.set_data(gpm.X, L @ np.random.default_rng(1).normal(size=len(L)))
    function = density(gpm, covariance, is_composite)
    n, P, posterior = len(gpm.y), len(theta), gpm.posterior()

    def ours():
        state = posterior.state(theta)
        hessian = posterior.hessian(state)
        if not is_composite:
            return (hessian,)
        prior, prior_gradient = posterior.prior_value_and_gradient(theta)
        return state.factor.nll - prior, posterior.likelihood_gradient(state) - prior_gradient, hessian

    def at_once(theta):
        hessian = jax.hessian(function)(theta)
        return (*jax.value_and_grad(function)(theta), hessian) if is_composite else (hessian,)

    def in_blocks(theta):
        def column(direction):
            return jax.jvp(jax.grad(function), (theta,), (direction,))[1]

        return (jax.lax.map(column, np.eye(P), batch_size=COLUMNS),)

    gigabytes = LIVE_MATRICES * 8e-9 * P * n**2
    rivals: dict[str, Callable] = {"jax.hessian": at_once} if gigabytes <= memory else {}
    if not is_composite:
        rivals[f"JAX, blocks of {COLUMNS} columns"] = in_blocks

    def clock(call: Callable) -> tuple[float, object]:
        start = time.perf_counter()
        value = jax.block_until_ready(call())
        return time.perf_counter() - start, value

    with one_blas_thread():
        mine, compiled, values = ours(), {}, {}
        for name, rival in rivals.items():
            compiled[name] = jax.jit(rival).lower(theta).compile()
            values[name] = clock(lambda name=name: compiled[name](theta))[1]
        times: dict[str, list[float]] = {name: [] for name in ("pymc_active", *rivals)}
        for _ in range(rounds):
            times["pymc_active"] += [clock(ours)[0] for _ in range(5)]
            for name, call in compiled.items():
                times[name].append(clock(lambda call=call: call(theta))[0])
    names = ("value", "gradient", "hessian") if is_composite else ("hessian",)
    pairs = zip(names, mine, next(iter(values.values())), strict=True)
    seconds = {name: _report.quartiles(values) for name, values in times.items()}
    return {
        "n": n,
        "P": P,
        "jax_hessian_estimated_gigabytes": gigabytes,
        "relative_difference": {name: float(np.abs(a - np.asarray(b)).max() / np.abs(b).max()) for name, a, b in pairs},
        "seconds": seconds,
        "speedup": {name: seconds[name]["median"] / seconds["pymc_active"]["median"] for name in rivals},
    }


def draw(results: dict[str, dict]):
    figure, ax = _report.panels(figsize=(9, 0.9 * len(results) + 1.6))
    colors = {"pymc_active": _report.BLUE, "jax.hessian": _report.GREY}
    for row, result in enumerate(results.values()):
        for k, (name, t) in enumerate(result["seconds"].items()):
            y, error = row + 0.24 * (k - 1), [[t["median"] - t["lower"]], [t["upper"] - t["median"]]]
            label = name if row == 0 else None
            ax.errorbar(t["median"], y, xerr=error, fmt="o", color=colors.get(name, _report.ORANGE), label=label)
            times = f"  ({result['speedup'][name]:.3g} ×)" if name in result["speedup"] else ""
            ax.text(t["upper"] * 1.25, y, f"{t['median']:.2g} s{times}", va="center", fontsize=8.5)
    ax.set_yticks(range(len(results)), [f"{name}\nP = {r['P']}" for name, r in results.items()])
    ax.set_ylim(len(results) - 0.5, -0.5)
    ax.set(xscale="log", xlabel="seconds (median; whiskers: quartiles; one thread)")
    figure.legend(loc="outside lower center", ncols=3)
    return figure


def main() -> None:
    command = _report.parser(__doc__)
    command.add_argument("--memory", type=float, default=4.0, help="gigabytes allowed for jax.hessian")
    arguments = command.parse_args()
    if arguments.child:
        print(json.dumps(run(**json.loads(arguments.child))))
        return
    if importlib.util.find_spec("jax") is None:
        print("JAX is not installed, so that there is nothing to compare with: left out")
        return
    results, rows, targets = {}, [], []
    for shape, rounds in (SMALLEST if arguments.smallest else CASES).items():
        case = {"shape": shape, "rounds": rounds, "memory": arguments.memory}
        name, r = name_of(shape), _report.child(case, threads=1)
        results[name] = r
        for method, t in r["seconds"].items():
            rows.append((name, r["P"], method, _report.show(t), f"{r['speedup'].get(method, 1):.3g}"))
        least = min(r["speedup"].values())
        targets.append(_report.target(f"speed-up, {name}", least, ">=", LEAST_SPEEDUP[shape]))
        for what, difference in r["relative_difference"].items():
            targets.append(_report.target(f"difference of the {what}, {name}", difference, "<", 1e-8))
    _report.table(("case", "P", "method", "time: median [quartiles]", "speed-up"), rows)
    _report.write(
        __doc__,
        quick=arguments.smallest,
        threads="1 thread each (BLAS, XLA), one CPU",
        targets=targets,
        results=results,
        figure=draw(results),
    )


if __name__ == "__main__":
    main()
