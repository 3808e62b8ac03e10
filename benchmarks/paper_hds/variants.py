"""Which changes of the paper's algorithm lower the evaluations of ``hds``, and which do not?

    python benchmarks/paper_hds/variants.py --max-minutes 30    # goes on where it stopped
    python benchmarks/paper_hds/variants.py --report            # JSON and picture of what is stored

All search with the anchored test, but for the last two, on the same functions with the same noise. What is not
said of a variant is as in the default:

* *default*: a node whose sibling is active is set aside at a log likelihood ratio of -1, and all inputs that were not
  found are tested together in the end.
* *each node rejected*: the same without, so that each inactive node is rejected by itself.
* *set aside at -2*, *at -4*: with more evidence.
* *a marginalised*: a, how many inputs move along the scan and stay elsewhere in the plane, is 1, 2 or 4 with equal
  probabilities in both hypotheses, instead of 1 and ``n_active``.
* *halves with their parent*: both halves of a node, and its own evaluations, are one data set, and four hypotheses (the
  first half is active, the second, both, none) are compared: if only one half is active, then f on its line is f on the
  line of its parent.
* *GPT* and *GPT, a marginalised*: the paper's test with its thresholds.

Rows: draws of figure 2 (D = 200, d = 2, b = 0.1), draws with three relevant inputs (b = 0.15), and the raw functions of
Table 1 with estimated scales.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from unittest.mock import patch

import _above  # noqa: F401
import numpy as np
import table1
from _records import RESULTS, Key, fill, load
from _report import table, write
from _runs import BLOCK, accuracy, block, gather, gp_problem, mean_and_error, plus_minus, run_hds
from scipy.special import logsumexp, softmax

from pymc_active.relevant_inputs import anchored, search
from pymc_active.relevant_inputs.anchored import Anchored
from pymc_active.relevant_inputs.by_name import TESTS
from pymc_active.relevant_inputs.learner import HDSLearner
from pymc_active.relevant_inputs.likelihood_ratio import VAGUE, LikelihoodRatio, Moments, llr_moments_of
from pymc_active.relevant_inputs.node_test import GPT
from pymc_active.relevant_inputs.state import Evaluation, HDSState, Trial, places, results
from pymc_active.relevant_inputs.verdicts import conclude

SEED, D = 20261122, 200
DRAWS = [f"d={d}, noise={noise}, share={share}" for d in (2, 3) for noise in (0.1, 0.36) for share in (0.6, 1.0)]
FUNCTIONS = [row for row in table1.ROWS if row.endswith("raw")]
LABELS = {
    "default": "default",
    "each": "each node rejected",
    "aside2": "set aside at -2",
    "aside4": "set aside at -4",
    "marginal": "a marginalised",
    "halves": "halves with their parent",
    "gpt": "GPT",
    "gpt_marginal": "GPT, a marginalised",
}
NUMBERS_OF_INPUTS = (1, 2, 4)


# a marginalised


def mixed(predictives: list[Moments], log_weights: np.ndarray) -> Moments:
    """Mean and variance of a mixture of Gaussians."""
    w = softmax(log_weights)
    means, variances = (np.array([getattr(p, what) for p in predictives]) for what in ("mean", "variance"))
    mean = w @ means
    return Moments(mean, w @ (variances + means**2) - mean**2)


def log_densities(L: np.ndarray, white: np.ndarray) -> np.ndarray:
    """Of each observation given those before it, but for a constant."""
    return -0.5 * white**2 - np.log(np.diagonal(L))


class Marginal(LikelihoodRatio):
    """The GP test with 1, 2 or 4 active inputs: that move together on a line, or elsewhere off the diagonal."""

    @property
    def parts(self) -> list[LikelihoodRatio]:
        told = LikelihoodRatio(**vars(self))
        if not self.n_others:
            # a active inputs that move together are one with a shorter bandwidth.
            return [replace(told, bandwidth=self.bandwidth / np.sqrt(a)) for a in NUMBERS_OF_INPUTS]
        return [replace(told, n_others=a) for a in NUMBERS_OF_INPUTS]

    def _totals(self, is_active, at, y):
        """Log densities of the observations so far, for each number, (3, n)."""
        return np.array([log_densities(*part._factor(is_active, at, y)).cumsum() for part in self.parts])

    def llr_path(self, at, y):
        inactive, active = (logsumexp(self._totals(which, at, y), axis=0) for which in (False, True))
        return np.diff(active - inactive, prepend=0.0)

    def predict(self, at, y, at_new):
        both = [part.predict(at, y, at_new) for part in self.parts]
        if not len(y):
            return both[0]
        return tuple(mixed([pair[w] for pair in both], self._totals(bool(w), at, y)[:, -1]) for w in (0, 1))


class MarginalAnchored(Anchored):
    def ratio(self, trial, y):
        return Marginal(**vars(super().ratio(trial, y)))


class MarginalGPT(GPT):
    def ratio(self, trial, y):
        return Marginal(**vars(super().ratio(trial, y)))


# Halves with their parent

FIRST, SECOND, BOTH, NONE = range(4)


class JointHalves(Anchored):
    """Decides on a half from the evaluations of its parent, its sibling, and its own."""

    def relatives(self, state: HDSState, trial: Trial) -> tuple[list, list, Trial] | None:
        """Evaluations known before, those where its parent moved, and the sibling's test; None without a parent."""
        parent = trial.node.parent
        if parent is None:
            return None
        of = {t.node: t for t in state.trials if t.background is trial.background}
        sibling = next((of[child] for child in parent.children if child is not trial.node and child in of), None)
        if sibling is None:
            return None
        moved = of[parent].told if parent in of and parent.number != 0 else []
        return state.along(trial.background), moved, sibling

    def _known(self, state: HDSState, trial: Trial):
        """Places of this half, of its sibling and of all else, (n, 3); values; and how many were known before."""
        shared, moved, sibling = self.relatives(state, trial)
        known = [*shared, *moved, *trial.told, *sibling.told]
        z, c = places(known)
        at = np.stack([z, z, c], 1)
        start = len(shared) + len(moved)
        middle = start + len(trial.told)
        at[start:middle, 1] = c[start:middle]
        at[middle:, 0] = c[middle:]
        return at, results(known), start

    def _kernel(self, hypothesis: int, at: np.ndarray, other: np.ndarray) -> np.ndarray:
        s = self.settings
        square = np.square((at[:, None] - other) / s.bandwidth)
        shape = np.exp(-s.n_active * square[..., 2])
        for half, states in enumerate(((FIRST, BOTH), (SECOND, BOTH))):
            if hypothesis in states:
                shape *= 1 - s.share + s.share * np.exp(-square[..., half])
        return s.signal_variance * (VAGUE + shape)

    def _fits(self, at: np.ndarray, y: np.ndarray, start: int):
        """Cholesky factor, whitened values, and log density of what came after ``start``, for each hypothesis."""
        found = []
        for hypothesis in range(4):
            K = self._kernel(hypothesis, at, at)
            K.flat[:: len(y) + 1] += self.settings.noise_variance
            L = np.linalg.cholesky(K)
            white = np.linalg.solve(L, y - y[0])
            found.append((L, white, log_densities(L, white)[start:].sum()))
        return found

    def _joint_llr(self, state: HDSState, trial: Trial) -> float:
        totals = [total for _, _, total in self._fits(*self._known(state, trial))]
        return float(np.logaddexp(totals[FIRST], totals[BOTH]) - np.logaddexp(totals[SECOND], totals[NONE]))

    def update(self, state: HDSState, trial: Trial, at: Evaluation) -> str:
        relatives = self.relatives(state, trial)
        if relatives is None:
            return super().update(state, trial, at)
        trial.told.append(at)
        for one in (trial, relatives[2]):
            if one.verdict == "open":
                one.path.append(self._joint_llr(state, one))
                one.forget_plan()
        return self.verdict(state, trial)

    def _choose_place(self, state: HDSState, trial: Trial, pending: list[Evaluation]) -> None:
        if self.relatives(state, trial) is None or pending:
            super()._choose_place(state, trial, pending)
            return
        at, y, start = self._known(state, trial)
        background = trial.background
        shared, moved, _ = self.relatives(state, trial)
        z, c = places(shared + moved)
        known = len(z)
        tried = np.concatenate([z, state.rng.random(64), state.rng.random(32)])
        anchor = np.full(64, background.anchor)
        rests = np.concatenate([np.full(known, background.anchor), anchor, state.rng.choice(z, 32)])
        rests[len(shared) : known] = c[len(shared) :]
        new = np.stack([tried, rests, rests], 1)
        fits = self._fits(at, y, start)
        predictives = []
        for hypothesis, (L, white, _) in enumerate(fits):
            half = np.linalg.solve(L, self._kernel(hypothesis, at, new))
            prior = self.settings.signal_variance * (VAGUE + 1) + self.settings.noise_variance
            predictives.append(Moments(y[0] + white @ half, prior - np.square(half).sum(0)))
        weights = np.array([total for _, _, total in fits])
        inactive, active = (mixed([predictives[i] for i in w], weights[w]) for w in ([SECOND, NONE], [FIRST, BOTH]))
        bound = llr_moments_of(inactive, active).bound
        best = state.rng.choice(np.flatnonzero(bound >= bound.max() * (1 - 1e-6)))
        trial.place, trial.rest, trial.priority = tried[best], rests[best], trial.llr + bound[best]


class JointLearner(HDSLearner):
    """Judges both halves after each evaluation of one."""

    def _settle(self, at: Evaluation, y: float) -> None:
        super()._settle(at, y)
        state, test = self._state, self._test
        relatives = test.relatives(state, at.trial) if at.trial else None
        if relatives is not None and relatives[2].verdict == "open":
            sibling = relatives[2]
            self._start(conclude(state, sibling, test.verdict(state, sibling), test.set_aside()))


# Runs


def patches(method: str) -> list:
    """What to replace in the package."""
    if method in ("each", "aside2", "aside4"):
        level = {"each": -np.inf, "aside2": -2.0, "aside4": -4.0}[method]
        return [patch.object(anchored, "_SET_ASIDE", level)]
    if method == "marginal":
        return [patch.dict(TESTS, anchored=MarginalAnchored)]
    if method == "gpt_marginal":
        return [patch.dict(TESTS, gpt=MarginalGPT)]
    if method == "halves":
        return [patch.dict(TESTS, anchored=JointHalves), patch.object(search, "HDSLearner", JointLearner)]
    return []


def run(row: str, method: str, i: int) -> dict:
    kind = "gpt" if method.startswith("gpt") else "default"
    with ExitStack() as stack:
        for one in patches(method):
            stack.enter_context(one)
        if row in FUNCTIONS:
            return run_hds(table1.problem(row, i), f"{kind}_estimated", table1.NOISE, (SEED, i, 1))
        d, noise, share = (float(part.partition("=")[2]) for part in row.split(", "))
        bandwidth = 0.1 if d == 2 else 0.15
        problem = gp_problem(D, int(d), bandwidth, np.random.default_rng((SEED, int(d), i)))
        return run_hds(problem, kind, noise, (SEED, i, 1), share=share, bandwidth=bandwidth)


def record(row: str, method: str, number: int) -> dict:
    return block(run(row, method, i) for i in range(number * BLOCK, (number + 1) * BLOCK))


def keys(rows: str | None, methods: str, blocks: int) -> Iterator[Key]:
    for number in range(blocks):
        for row in DRAWS + FUNCTIONS if rows is None else rows.split(";"):
            for method in methods.split(","):
                # The paper's test has no share, and needs a mean of 0.
                if not method.startswith("gpt") or (row not in FUNCTIONS and row.endswith("1.0")):
                    yield row, method, number


def summarise(records: dict) -> dict:
    """Accuracies and evaluations, and paired differences of the evaluations to what the variant changes."""
    found: dict = {}
    for row in DRAWS + FUNCTIONS:
        for method in LABELS:
            trials = gather(records, row, method)
            if trials is None:
                continue
            cell = {"accuracy": accuracy(trials["right"]), "evaluations": mean_and_error(trials["evaluations"])}
            plain = gather(records, row, {"default": "each", "gpt_marginal": "gpt"}.get(method, "default"))
            if plain is not None and method not in ("gpt", "each"):
                n = min(len(plain["evaluations"]), len(trials["evaluations"]))
                difference = np.subtract(trials["evaluations"][:n], plain["evaluations"][:n])
                cell["difference"] = mean_and_error(difference)
            found.setdefault(row, {})[method] = cell | {"cpu_seconds": float(np.mean(trials["seconds"]))}
    return found


def plot(summary: dict):
    import matplotlib.pyplot as plt

    rows = [row for row in DRAWS + FUNCTIONS if row in summary]
    figure, ax = plt.subplots(figsize=(7, 0.36 * len(rows) + 1.2), layout="constrained")
    colours = ("#009E73", "#555555", "#56B4E9", "#0072B2", "#CC79A7", "#D55E00")
    for (method, label), colour in zip(LABELS.items(), colours, strict=False):
        cells = [(i, summary[row][method]) for i, row in enumerate(rows) if method in summary[row]]
        ax.errorbar(
            [c["evaluations"]["mean"] for _, c in cells],
            [i for i, _ in cells],
            xerr=[3 * c["evaluations"]["standard_error"] for _, c in cells],
            fmt="o",
            ms=4,
            lw=1,
            color=colour,
            label=label,
        )
    ax.set(yticks=range(len(rows)), yticklabels=rows, xscale="log", xlabel="evaluations, mean ± three standard errors")
    ax.set_xticks([60, 100, 200, 400], [60, 100, 200, 400])
    ax.minorticks_off()
    ax.invert_yaxis()
    ax.legend(fontsize=7, loc="lower left", bbox_to_anchor=(0, 1), ncols=3, frameon=False)
    ax.spines[["top", "right"]].set_visible(False)
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", help="settings, separated by semicolons")
    parser.add_argument("--methods", default=",".join(LABELS), help="comma-separated")
    parser.add_argument("--blocks", type=int, default=5, help=f"of {BLOCK} trials")
    parser.add_argument("--max-minutes", type=float, default=np.inf, help="start no record after this long")
    parser.add_argument("--report", action="store_true", help="only summarise what is stored")
    arguments = parser.parse_args()
    path = RESULTS / "variants.jsonl"
    if not arguments.report:
        fill(path, keys(arguments.rows, arguments.methods, arguments.blocks), record, arguments.max_minutes)
    summary = summarise(load(path))
    rows = [
        [row, LABELS[method], c["accuracy"]["n"], f"{c['accuracy']['mean']:.3f}", plus_minus(c["evaluations"]),
         plus_minus(c["difference"]) if "difference" in c else "", f"{c['cpu_seconds']:.2f}"]
        for row, cells in summary.items()
        for method, c in cells.items()
    ]  # fmt: skip
    header = "setting", "method", "trials", "accuracy", "evaluations ± 3 se", "difference", "CPU s"
    table(header, rows)
    write(__doc__, quick=False, threads="one BLAS thread", targets=[], results=summary, figure=plot(summary))


if __name__ == "__main__":
    main()
