"""Moments under the constraints of predictive entropy search against importance sampling.

Are the moments that PES works with those of the constraints that it imposes?

    python benchmarks/ep_accuracy.py [--quick]

Squared exponential kernels in 1, 2 and 6 inputs, data from the model, 100 maximisers of sample paths in the unit cube
for each, inside it and on its faces. Height, curvatures and outward slopes at each are Gaussian given the data and the
slopes that are zero; the constraints cut them off. Their exact moments come from 200,000 draws, one coordinate after
another from its normal cut off at the bound, with weights. Compared are expectation propagation, as in the paper, and
the quasi-random draws (512 or more) that PES takes by default.

Target: means within 0.05 sd and variances within 5 % for all coordinates, at 95 % of the maximisers.
"""

from __future__ import annotations

import json
import time

import _report

# Inputs: observations, lengthscale.
PROBLEMS = {1: (4, 0.2), 2: (10, 0.32), 6: (30, 0.7)}
NOISE_VARIANCE = 1e-3
METHODS = {"ep": "expectation propagation", "sampled": "quasi-random draws"}
MEAN_ERROR, VARIANCE_ERROR, SHARE, N_MAXIMA, MAXIMA_EACH = 0.05, 0.05, 0.95, 100, 10


def sampled_moments(mean, V, bound, softness, draws, rng):
    """Means and variances of z given z + noise > bound, and the effective number of draws."""
    import numpy as np
    from scipy.special import ndtr, ndtri

    # The noisy values come first: they are cut off one after another.
    u_mean, u_V = mean, V + np.diag(softness)
    L = np.linalg.cholesky(u_V)
    standard, log_weight = np.empty((draws, len(mean))), np.zeros(draws)
    for i in range(len(mean)):
        lowest = (bound[i] - u_mean[i] - standard[:, :i] @ L[i, :i]) / L[i, i]
        # In the upper half, where the distribution function has its digits: -standard < -lowest.
        share = ndtr(-lowest)
        log_weight += np.log(np.maximum(share, np.finfo(float).tiny))
        standard[:, i] = -ndtri(np.maximum(share * rng.uniform(size=draws), np.finfo(float).tiny))
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    gain = np.linalg.solve(u_V, V).T
    z = mean + standard @ L.T @ gain.T
    left = np.maximum(np.diag(V - gain @ V), 0.0)
    z_mean = weight @ z
    return z_mean, weight @ (z - z_mean) ** 2 + left, 1 / (weight @ weight)


def _propagated(*problem):
    import numpy as np

    from pymc_active.criteria.maximum.expectation_propagation import propagate

    sites = propagate(*problem)
    return sites.mean, np.diagonal(sites.covariance, axis1=1, axis2=2)


def _drawn(mean, V, bound, softness):
    import numpy as np

    from pymc_active.criteria.maximum.truncated import truncated_moments

    M, h, _ = truncated_moments(mean, V, bound, softness)
    return mean + np.einsum("sij,sj->si", V, h), np.diagonal(V - V @ M @ V, axis1=1, axis2=2)


def run(D: int, n_maxima: int, draws: int) -> dict:
    from unittest.mock import patch

    import numpy as np

    import pymc_active as pma
    from pymc_active.criteria.maximum import constraints as maxima
    from pymc_active.criteria.maximum.base import sample_optima
    from pymc_active.criteria.maximum.domain import Domain, best_inside
    from pymc_active.posterior.conditioned import ConditionedGP

    n, lengthscale = PROBLEMS[D]
    records = []
    for repeat in range(-(-n_maxima // MAXIMA_EACH)):
        rng = np.random.default_rng((D, repeat))
        X = rng.uniform(size=(n, D))
        gpm = pma.ard_gp(X, np.zeros(n))
        theta = gpm.flatten(
            {
                "log_lengthscale": np.full(D, np.log(lengthscale)),
                "log_outputscale": 0.0,
                "log_noise": 0.5 * np.log(NOISE_VARIANCE),
            }
        )
        prior = ConditionedGP(gpm.posterior(), theta)
        y = np.linalg.cholesky(prior.covariance(X, X) + NOISE_VARIANCE * np.eye(n)) @ rng.normal(size=n)
        gp = ConditionedGP(gpm.posterior().with_data(X, y), theta)
        domain = Domain(np.zeros(D), np.ones(D))
        [optima] = sample_optima([gp], domain, MAXIMA_EACH, 1000, rng)
        with patch.object(maxima, "propagate", wraps=maxima.propagate) as spy:
            found = maxima.GPGivenMaxima(gp, optima.maxima, best=best_inside(gp, domain))
        problem = spy.call_args.args
        found_moments, seconds = {}, {}
        for method, moments in (("ep", _propagated), ("sampled", _drawn)):
            start = time.perf_counter()
            found_moments[method] = moments(*problem)
            seconds[method] = (time.perf_counter() - start) / MAXIMA_EACH
        for s, arguments in enumerate(zip(*problem, strict=True)):
            exact_mean, exact_variance, effective = sampled_moments(*arguments, draws, rng)
            records.append(
                {
                    "inside": bool(optima.maxima.free[s].all()),
                    "effective_draws": float(effective),
                    "converged": bool(found.ok[s]),
                    "seconds": seconds,
                    **{
                        method: {
                            "mean_errors": ((means[s] - exact_mean) / np.sqrt(exact_variance)).tolist(),
                            "variance_errors": (variances[s] / exact_variance - 1).tolist(),
                        }
                        for method, (means, variances) in found_moments.items()
                    },
                }
            )
    return {"maxima": records[:n_maxima]}


def is_right(record: dict, method: str) -> bool:
    means, variances = record[method]["mean_errors"], record[method]["variance_errors"]
    return max(map(abs, means)) <= MEAN_ERROR and max(map(abs, variances)) <= VARIANCE_ERROR


def share(records: list[dict], method: str) -> float:
    return sum(is_right(r, method) for r in records) / max(len(records), 1)


def draw(by_inputs: dict[str, list[dict]]):
    import matplotlib.pyplot as plt

    figure, table = plt.subplots(2, len(by_inputs), figsize=(9, 5.5), sharex=True, sharey=True)
    for row, (method, label) in zip(table, METHODS.items(), strict=True):
        for axes, (D, records) in zip(row, by_inputs.items(), strict=True):
            for inside, color, where in ((True, _report.BLUE, "inside"), (False, _report.ORANGE, "on a face")):
                chosen = [r[method] for r in records if r["inside"] is inside]
                axes.scatter(
                    [e for r in chosen for e in r["mean_errors"]],
                    [100 * e for r in chosen for e in r["variance_errors"]],
                    s=8,
                    color=color,
                    alpha=0.5,
                    linewidths=0,
                    label=where,
                )
            corner, width, height = (-MEAN_ERROR, -100 * VARIANCE_ERROR), 2 * MEAN_ERROR, 200 * VARIANCE_ERROR
            axes.add_patch(plt.Rectangle(corner, width, height, color="0.93", zorder=0))
            axes.set_title(f"{label}, {D} input{'s' if D != '1' else ''}", fontsize=10)
            axes.spines[["top", "right"]].set_visible(False)
        row[0].set_ylabel("error of the variance, %")
    table[-1, len(by_inputs) // 2].set_xlabel("error of the mean, sds")
    table[0, 0].legend(frameon=False)
    figure.tight_layout()
    return figure


def main() -> None:
    arguments = _report.parser(__doc__).parse_args()
    if arguments.child:
        print(json.dumps(run(**json.loads(arguments.child))))
        return
    options = {"n_maxima": 20, "draws": 20_000} if arguments.quick else {"n_maxima": N_MAXIMA, "draws": 200_000}
    by_inputs = {str(D): _report.child({"D": D, **options}, threads=1)["maxima"] for D in PROBLEMS}
    targets, rows = [], []
    for D, records in by_inputs.items():
        inside = [r for r in records if r["inside"]]
        faces = [r for r in records if not r["inside"]]
        for method, label in METHODS.items():
            rows.append(
                (
                    D,
                    label,
                    f"{share(inside, method):.2f} of {len(inside)}",
                    f"{share(faces, method):.2f} of {len(faces)}",
                    f"{max(abs(e) for r in records for e in r[method]['mean_errors']):.3f}",
                    f"{max(abs(e) for r in records for e in r[method]['variance_errors']):.3f}",
                    f"{1e3 * records[-1]['seconds'][method]:.2f} ms",
                    f"{min(r['effective_draws'] for r in records):.0f}",
                )
            )
        what = f"share of maximisers with right moments, {D} input{'s' if D != '1' else ''}"
        # As pes takes them.
        targets.append(_report.target(what, share(records, "sampled" if int(D) <= 4 else "ep"), ">=", SHARE))
    header = ("inputs", "method", "right inside", "right on faces", "mean off by", "variance by", "time", "draws")
    _report.table(header, rows)
    _report.write(
        __doc__, quick=arguments.quick, threads="1", targets=targets, results=by_inputs, figure=draw(by_inputs)
    )


if __name__ == "__main__":
    main()
