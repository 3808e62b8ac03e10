"""Other ways to find the inputs that matter: one input at a time, ARD, the lasso."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from pymc_active.inference.fit import Fit
from pymc_active.models.gpmodel import GPModel
from pymc_active.relevant_inputs.baselines.fdt import LONGEST_SPACING, fixed_sample_test
from pymc_active.relevant_inputs.evaluations import evaluate, of_rows
from pymc_active.relevant_inputs.scales import as_fit
from pymc_active.relevant_inputs.settings import read_box, relative_bandwidth
from pymc_active.support.arguments import checked
from pymc_active.support.options import count, positive
from pymc_active.support.summaries import Summarized, Summary
from pymc_active.support.tables import read_inputs, read_outputs

# If the number of relevant inputs is unknown, those with a score below this fraction of the largest do not matter.
_RELEVANT = 0.2


@dataclass(frozen=True, repr=False, eq=False)
class Screening(Summarized):
    """Inputs chosen by a score: ``active``, sorted, and the ``score`` of each, (D,), where larger is more relevant.

    ``n_evaluations`` counts evaluations of f, or rows of data.
    """

    active: list[int]
    score: np.ndarray
    n_evaluations: int

    def _summary(self) -> Summary:
        facts = {"active inputs": ", ".join(map(str, self.active)) or "none", "evaluations": self.n_evaluations}
        order = np.argsort(-self.score, kind="stable")[: max(len(self.active), 5)]
        scores = pd.DataFrame({"score": self.score[order]}, index=order.astype(str)).map("{:.3g}".format)
        return Summary(f"Screening of {len(self.score)} inputs", facts, [scores])


@checked
def coordinate_wise(
    f: Callable[[np.ndarray], Any],
    n_dims: int,
    *,
    n_pairs: int,
    n_active: int | None = None,
    noise_variance: float | None = None,
    alpha: float = 0.01,
    bandwidth: Any = None,
    bounds: Any = None,
    vectorized: bool = True,
    random_seed: int | np.random.Generator | None = None,
) -> Screening:
    """Test each input by itself by finite differences on one random background (the paper's CWS).

    Parameters
    ----------
    n_pairs : int
        Pairs along each input: f is called D times with 2 ``n_pairs`` points, (2 ``n_pairs``, D).
    n_active : int, optional
        Take this number of inputs, those with the largest mean squared differences, their scores, as the paper does.
    noise_variance, alpha : float, optional
        Instead, take the inputs whose differences exceed those of noise with this variance, in squared units of y;
        those of any inactive input do with a probability of alpha (Bonferroni).
    bandwidth : float or ndarray, optional
        Pairs are three bandwidths apart; by default both ends are random.
    f, n_dims, bounds, vectorized, random_seed
        As in :func:`hds`.

    Raises
    ------
    EvaluationError, ValueError
        If f raises or returns the wrong number of values; for NaN, or unless one of n_active, noise_variance is given.

    Examples
    --------
    >>> import numpy as np
    >>> coordinate_wise(lambda X: np.sin(3 * X[:, 4]), 10, n_pairs=3, n_active=1, random_seed=1).active
    [4]
    """
    if (n_active is None) == (noise_variance is None):
        raise ValueError("pass either n_active, the number of inputs to take, or noise_variance, to test them")
    count("n_dims", n_dims)
    count("n_pairs", n_pairs)
    if n_active is not None:
        count("n_active", n_active, n_dims)
    f = of_rows(f, vectorized)
    low, high = read_box(bounds, n_dims)
    rng = np.random.default_rng(random_seed)
    background = rng.random(n_dims)
    distance = None if bandwidth is None else min(3 * relative_bandwidth(bandwidth, low, high, n_dims), LONGEST_SPACING)
    difference = np.empty((n_dims, n_pairs))
    for i in range(n_dims):
        unit = np.tile(background, (2 * n_pairs, 1))
        if distance is None:
            unit[:, i] = rng.random(2 * n_pairs)
        else:
            unit[::2, i] = rng.uniform(0, 1 - distance, n_pairs)
            unit[1::2, i] = unit[::2, i] + distance
        y = evaluate(f, low + (high - low) * unit)
        if np.isnan(y).any():
            raise ValueError(f"f must return {2 * n_pairs} finite numbers; got {y!r}")
        difference[i] = y[::2] - y[1::2]
    score = np.square(difference).mean(1)
    active = _choose(score, n_active, score > 0)
    if noise_variance is not None:
        positive("noise_variance", noise_variance)
        tests = [fixed_sample_test(row, noise_variance, alpha / n_dims) for row in difference]
        active = [i for i, (statistic, threshold) in enumerate(tests) if statistic > threshold]
    return Screening(active, score, 2 * n_dims * n_pairs)


@checked
def ard_screening(fit: Fit | GPModel, *, n_active: int | None = None) -> Screening:
    """Take the inputs with short lengthscales in an :func:`ard_gp`; a model is fitted first.

    The score is the sd of the input over the data in units of its lengthscale. By default inputs with at least a fifth
    of the largest score are active. TypeError for other objects, ValueError without a lengthscale for each input.
    """
    if isinstance(fit, GPModel | Fit):
        gpm = fit if isinstance(fit, GPModel) else fit.gpm
        # Before a fit, which takes long.
        anywhere = gpm.constrain(np.zeros((1, gpm.n_parameters)))
        if anywhere.get("lengthscale", np.empty(0)).shape != (1, gpm.X.shape[1]):
            raise ValueError(f"ard_screening needs a lengthscale for each input, as of ard_gp; this is {gpm!r}")
        if n_active is not None:
            count("n_active", n_active, gpm.X.shape[1])
    fit = as_fit(fit, "fit")
    score = fit.X.std(0) / fit.constrained_center["lengthscale"]
    return Screening(_choose(score, n_active, score >= _RELEVANT * score.max()), score, len(fit.X))


@checked
def lasso_screening(
    X: Any, y: Any, *, n_active: int | None = None, random_seed: int | np.random.Generator | None = None
) -> Screening:
    """Take the inputs with a coefficient in a cross-validated lasso (needs scikit-learn), or the ``n_active`` largest.

    X is (n, D) and y (n,). The score is the absolute coefficient of the standardised input. ``random_seed`` is that of
    the folds; by default fresh randomness.
    """
    try:
        from sklearn.linear_model import LassoCV
        from sklearn.model_selection import KFold
    except ImportError:
        raise ImportError("lasso_screening needs scikit-learn: pip install 'pymc-active[bench]'") from None
    X = read_inputs(X)
    y = read_outputs(y, len(X))
    sd = X.std(0)
    seed = int(random_seed.integers(2**32)) if isinstance(random_seed, np.random.Generator) else random_seed
    seed = None if seed is None else seed % 2**32
    folds = KFold(min(5, len(X)), shuffle=True, random_state=seed)
    fit = LassoCV(cv=folds, max_iter=20_000).fit((X - X.mean(0)) / np.where(sd > 0, sd, 1.0), y)
    score = np.abs(fit.coef_)
    return Screening(_choose(score, n_active, score > 0), score, len(X))


def _choose(score: np.ndarray, n_active: int | None, is_relevant: np.ndarray) -> list[int]:
    """The ``n_active`` inputs with the largest scores, or else those that are relevant."""
    if n_active is None:
        return np.flatnonzero(is_relevant).tolist()
    return sorted(np.argsort(-score, kind="stable")[: count("n_active", n_active, len(score))].tolist())
