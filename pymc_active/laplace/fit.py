"""``fit_laplace``: search for the modes, expand the posterior at them, say what is doubtful."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from copy import copy
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from scipy.special import logsumexp

from pymc_active.inference.ensemble import GAUSSIAN_METHODS, Ensemble, Part, ensemble_of_draws
from pymc_active.laplace.draws.short_chains import particles
from pymc_active.laplace.draws.trace_draws import TraceDraws
from pymc_active.laplace.draws.weighted import WeightedDraws, prior_for_few_data, weighted_draws
from pymc_active.laplace.expansion import Expansion, expand
from pymc_active.laplace.modes.search import SearchResult
from pymc_active.laplace.modes.task import SearchTask, search_and_expand
from pymc_active.laplace.modes.warm_starts import starts_from_parent
from pymc_active.laplace.parameter_table import parameter_table
from pymc_active.models.datatrees import data_groups, to_dataset
from pymc_active.models.gpmodel import GPModel
from pymc_active.posterior.array import KernelPosterior
from pymc_active.support.progress import progress
from pymc_active.support.summaries import html_summary
from pymc_active.support.threads import one_blas_thread
from pymc_active.support.user_warnings import DoubtfulFitWarning, SamplingWarning, ignoring, warn_user

# Beyond this condition number half of the digits of a prediction are noise.
ILL_CONDITIONED = 1e12
# A noise level so many prior sds below its mean is suspicious where parameters outnumber observations.
FAR_BELOW_PRIOR = 3.0
# Weighted draws to resample from, and their effective sample size below which short chains are better.
_WEIGHTED, _ENOUGH = 2000, 10
# Beyond this many parameters a dense covariance is neither made nor stored.
_LARGEST_STORED = 1000
# Draws by MCMC around which others are proposed.
_AROUND = 64


class Mode(NamedTuple):
    """One mode of the posterior."""

    point: dict[str, np.ndarray]
    log_posterior: float
    log_evidence: float
    weight: float

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name}{list(np.shape(value)) or ''}" for name, value in self.point.items())
        return (
            f"<Mode: log posterior {self.log_posterior:.2f}, log evidence {self.log_evidence:.2f}, "
            f"weight {self.weight:.3g}; point of {sizes}>"
        )


class LaplaceFit:
    """A Gaussian approximation of the posterior over the hyperparameters, on the unconstrained space.

    The density that is expanded includes the Jacobian of the transforms; with the builders' default priors on
    log-parameters there is none. Returned by :func:`fit_laplace`.

    Attributes
    ----------
    gpm : GPModel
    X, y : ndarray, shapes (n, D) and (n,)
        The data it was made with, in the user's units, whatever the model holds now.
    log_posterior : float
        log p(y | theta) + log p(theta) (+ log Jacobian) at the mode, all normalised, nats.
    log_evidence : float
        Laplace's log p(y) of this mode, nats; for embeddings the orbit of rotations (for d = 1 the factor 2 of ±R)
        is integrated exactly, and copies of the mode by exchanging like terms of a kernel (``SE + SE``) are counted.
    modes : list of Mode
        Distinct modes found within 10 nats, best first, weighted by their Laplace evidence.
    diagnostics : dict
        ``converged``, ``gradient_norm``, ``n_starts``, ``n_best`` (starts that reached the mode), ``n_evaluations``,
        ``used_population``, ``smallest_eigenvalue``, ``largest_eigenvalue`` (of the Hessian outside symmetries),
        ``n_symmetry``, ``log_orbit_volume``, ``log_multiplicity`` (of exchanges), ``n_floored``
        (directions of no curvature) and ``n_weak`` (of less than 0.3 of the prior's; both were given that much),
        ``condition_number`` (of K + noise), ``n_duplicate_rows``, ``noise_below_prior`` (log_noise at the mode, in
        prior sds below its mean), ``warnings``.
    """

    def __init__(
        self,
        gpm: GPModel,
        data: tuple[np.ndarray, np.ndarray],
        expansions: list[Expansion],
        result: SearchResult | None,
        converged: bool,
    ):
        self.gpm = gpm
        self.X, self.y = data
        self.expansions = expansions
        self._known_draws: dict[Any, np.ndarray] = {}
        self._trace_draws: TraceDraws | None = None
        self._around: np.ndarray | None = None
        best = expansions[0]
        self.theta = best.theta
        self.log_posterior = best.log_posterior
        self.log_evidence = best.log_evidence
        evidence = np.array([e.log_evidence for e in expansions])
        weights = np.exp(evidence - logsumexp(evidence))
        self.modes = [
            Mode(gpm.unflatten(e.theta), e.log_posterior, e.log_evidence, float(w))
            for e, w in zip(expansions, weights, strict=True)
        ]
        self.diagnostics: dict[str, Any] = {
            "converged": converged,
            "gradient_norm": float(np.abs(best.gradient).max(initial=0.0)),
            "n_starts": 0 if result is None else result.n_starts,
            "n_best": 0 if result is None else result.n_best,
            "n_evaluations": 0 if result is None else result.n_evaluations,
            "used_population": False if result is None else result.used_population,
            "smallest_eigenvalue": best.curvature.smallest,
            "largest_eigenvalue": best.curvature.largest,
            "n_symmetry": len(best.symmetry.directions),
            "log_orbit_volume": best.symmetry.log_volume,
            "log_multiplicity": best.log_multiplicity,
            "n_floored": best.curvature.n_floored,
            "n_weak": best.curvature.n_weak,
            "condition_number": best.state.factor.condition_number(),
            "n_duplicate_rows": _count_duplicates(self.X),
            "noise_below_prior": best.posterior.noise_below_prior(best.z),
            "warnings": [],
        }

    def __repr__(self) -> str:
        d = self.diagnostics
        notes = [f"{len(self.modes)} mode(s)"]
        if d["n_symmetry"]:
            notes.append(f"{d['n_symmetry']} symmetry direction(s)")
        if not d["converged"]:
            notes.append("NOT CONVERGED")
        if d["n_floored"]:
            notes.append(f"{d['n_floored']} direction(s) floored")
        if self._trace_draws is not None:
            notes.append(f"{len(self._trace_draws)} draws of a trace")
        return (
            f"<LaplaceFit of {self.gpm.description}: log posterior {self.log_posterior:.2f}, "
            f"log evidence {self.log_evidence:.2f}, {len(self.theta)} parameters, {', '.join(notes)}>"
        )

    def _repr_html_(self) -> str:
        d, gpm = self.diagnostics, self.gpm
        found = f", {d['n_best']} of {d['n_starts']} starts reached the best" if d["n_starts"] else ""
        shares = ", ".join(f"{mode.weight:.2g}" for mode in self.modes[:5]) + (", …" if len(self.modes) > 5 else "")
        facts = {
            "data": f"{len(self.y)} points, {self.X.shape[1]} input(s)",
            "log evidence": f"{self.log_evidence:.2f} nats",
            "log posterior": f"{self.log_posterior:.2f} nats",
            "modes": f"{len(self.modes)}{found}",
            "weights of the modes": shares if len(self.modes) > 1 else None,
            "embedding": gpm.embedding and f"{gpm.embedding}, {' × '.join(map(str, gpm.shapes[gpm.embedding]))}",
        }
        doubts = [f"Doubtful: {problem}." for problem in d["warnings"]]
        return html_summary(f"LaplaceFit of {gpm.description}", facts, parameter_table(gpm, self.best), remarks=doubts)

    @property
    def point(self) -> dict[str, np.ndarray]:
        """The mode: value-variable name -> unconstrained array."""
        return self.gpm.unflatten(self.theta)

    @cached_property
    def constrained_point(self) -> dict[str, np.ndarray]:
        """The mode in the user's space: variable name -> array, Deterministics included."""
        return {name: values[0] for name, values in self.gpm.constrain(self.theta[None]).items()}

    @property
    def best(self) -> Expansion:
        """The expansion at the highest mode."""
        return self.expansions[0]

    @cached_property
    def labels(self) -> list[str]:
        """P flat names such as ``"R[0,3]"``, in the order of theta, gradient, hessian and covariance."""
        return self.gpm.labels

    @property
    def gradient(self) -> np.ndarray:
        """Gradient (P,) of the NEGATIVE log posterior, exact."""
        return self.best.full_gradient

    @property
    def hessian(self) -> np.ndarray:
        """Hessian (P, P) of the NEGATIVE log posterior, exact.

        Raises
        ------
        ValueError
            For more than 5,000 parameters: predictions, criteria and draws need no dense matrix.
        """
        return self.best.full_hessian

    @property
    def covariance(self) -> np.ndarray:
        """Inverse Hessian (P, P); a pseudo-inverse over directions of symmetry. Raises as ``hessian`` does.

        No direction has more than 1.8 prior sds, see ``n_weak`` in ``diagnostics``.
        """
        return self.best.full_covariance

    def given(self, X: np.ndarray, y: np.ndarray) -> LaplaceFit:
        """The same modes expanded for other data (user's units), without a search; the model keeps its own data."""
        posterior = self.best.full_posterior.with_data(X, y)
        expansions = [expand(posterior, mode.theta, self.gpm.embedding_slice) for mode in self.expansions]
        fit = LaplaceFit(self.gpm, (X, y), expansions, None, self.diagnostics["converged"])
        fit._trace_draws = self._trace_draws
        return fit

    def with_draws(self, thetas: np.ndarray) -> LaplaceFit:
        """The same fit with draws from elsewhere, which :meth:`particles` and ``method="draws"`` then take.

        Modes, evidence and the other methods stay those of the Laplace approximation. :meth:`given` keeps the draws.

        Parameters
        ----------
        thetas : ndarray, shape (S, P')
            Equally weighted, all chains of a trace one after another, in the coordinates of ``best.posterior``.
        """
        if thetas.ndim != 2 or thetas.shape[1] != len(self.best.z):
            raise ValueError(f"thetas must have shape (S, {len(self.best.z)}); got {thetas.shape}")
        fit = copy(self)
        fit._known_draws, fit._around, fit._trace_draws = {}, None, TraceDraws(thetas, self.best.space)
        return fit

    def to_datatree(self, draws: int = 1000, random_seed: int | np.random.Generator | None = None) -> xr.DataTree:
        """Draws from the Gaussian approximation and the fit itself, as ArviZ reads them.

        Parameters
        ----------
        draws : int
            One chain of this many independent draws from the highest mode's Gaussian, mapped to the user's space.
            Along directions of symmetry they do not move.
        random_seed : int, optional

        Returns
        -------
        xarray.DataTree
            Groups ``posterior``, ``fit`` (``mean_vector`` and, up to 1,000 parameters, ``covariance_matrix``, as
            ``pm.find_MAP`` names them, and ``hessian``), ``observed_data``, ``constant_data``.
        """
        if draws < 1:
            raise ValueError(f"draws must be at least 1; got {draws}")
        gpm, n = self.gpm, len(self.y)
        values = {name: value[None] for name, value in gpm.constrain(self.draw(draws, random_seed)).items()}
        attrs = {name: value for name, value in self.diagnostics.items() if name != "warnings"}
        fit = xr.Dataset(
            {
                "mean_vector": ("rows", self.theta),
                "log_evidence": self.log_evidence,
                "log_posterior": self.log_posterior,
            },
            coords={"rows": self.labels},
            attrs={name: int(value) if isinstance(value, bool) else value for name, value in attrs.items()},
        )
        if len(self.labels) <= _LARGEST_STORED:
            fit["covariance_matrix"] = (("rows", "columns"), self.covariance)
            fit["hessian"] = (("rows", "columns"), self.hessian)
            fit = fit.assign_coords(columns=self.labels)
        posterior = to_dataset(gpm, values, ["chain", "draw"], n)
        return xr.DataTree.from_dict({"posterior": posterior, "fit": fit, **data_groups(gpm, self.X, self.y)})

    @cached_property
    def ensemble(self) -> Ensemble:
        """The modes, weighted by their evidences, with the Gaussian around each."""
        return self.ensemble_by("modes")

    def ensemble_by(
        self, method: str, draws: int = 128, random_seed: int | np.random.Generator | None = None
    ) -> Ensemble:
        """The hyperparameters that predictions and criteria average over.

        Parameters
        ----------
        method : {"map", "bbq", "mgp", "modes", "draws", "cubature"}
            ``"map"``, ``"bbq"``, ``"mgp"``: the highest mode with its Gaussian, whose uncertainty predictions leave
            out, or marginalise in their mean, or in their variance too. ``"modes"``: all modes with theirs.
            ``"cubature"``: 2P points around the highest mode, sqrt(P) sds along each principal axis of its Gaussian
            (the cubature of degree three). ``"draws"``: draws from the posterior itself, by short chains of MCMC from
            the modes (:mod:`pymc_active.laplace.draws.short_chains`). With fewer than 30 observations and a kernel
            that is not a single stationary one, the modes may miss much of the posterior. The draws are then
            resampled, with repeats, from a few thousand weighted draws, mostly from the prior; if almost none of those
            has weight, short chains are used. Of a fit :meth:`with_draws`: up to ``draws`` of these, evenly spaced.
        draws : int
            For ``"draws"``, at least 2. Any first few of them come from different chains and stand for all.
        random_seed : int or Generator, optional
            For ``"draws"``. Those of a number are kept, so that several criteria share them.

        Returns
        -------
        Ensemble
        """
        best, data = self.best, (self.X, self.y)
        known: dict[str, Any] = {"center": self.theta, "log_evidence": self.log_evidence}
        if not len(best.z):
            method = "map"
        if method in (*GAUSSIAN_METHODS, "modes"):
            some = self.expansions if method == "modes" else [best]
            weights = [mode.weight for mode in self.modes] if method == "modes" else [1.0]
            rule = "mgp" if method == "modes" else method
            parts = tuple(
                Part(self.gpm, e.space, e.z[None], np.array([weight]), local=(e,), rule=rule)
                for e, weight in zip(some, weights, strict=True)
            )
            return Ensemble(parts, *data, method, self.gpm, **known)
        if method == "cubature":
            axes = np.sqrt(best.root.shape[1]) * best.root.T
            z = np.concatenate([best.z + axes, best.z - axes])
        else:
            z = self._draws(draws, random_seed)
        return ensemble_of_draws(self.gpm, data, best.space, z, method, **known)

    def _draws(self, draws: int, random_seed: int | np.random.Generator | None) -> np.ndarray:
        """Draws from the posterior in the coordinates of the highest mode's space, (draws, P')."""
        if not isinstance(draws, int | np.integer) or draws < 2:
            raise ValueError(f"draws must be a whole number from 2; got {draws!r}")
        key = (draws, random_seed)
        is_reproducible = isinstance(random_seed, int | np.integer)
        if is_reproducible and key in self._known_draws:
            return self._known_draws[key]
        rng = np.random.default_rng(random_seed)
        weighted = self.weighted_draws(max(_WEIGHTED, 10 * draws), rng) if self._is_beyond_its_modes else None
        if weighted is None or weighted.effective_sample_size <= _ENOUGH:
            z = self._moved(draws, rng)
        else:
            z = weighted.resample(draws, rng)
        if is_reproducible:
            self._known_draws[key] = z
        return z

    def weighted_draws(self, draws: int = 2000, random_seed: int | np.random.Generator | None = None) -> WeightedDraws:
        """Draws with importance weights: around all modes, around draws by MCMC, and of few data from the prior.

        Parameters
        ----------
        draws : int
            Twice as many more are from the prior with fewer than 30 observations, if it is normal and there is no
            embedding with more than ten parameters.
        random_seed : int or Generator, optional

        Returns
        -------
        WeightedDraws
            ``thetas`` (S, P') in the coordinates of ``best.posterior``; ``log_weights`` (S,), whose exponentials have
            the evidence as their mean; ``effective_sample_size``; ``resample(draws, rng)`` for equally weighted ones.
        """
        if self._around is None:
            # Whatever they are, the weights correct it.
            with ignoring(SamplingWarning):
                self._around = self._moved(_AROUND, np.random.default_rng(0))
        return weighted_draws(self.expansions, self._around, draws, np.random.default_rng(random_seed))

    @property
    def _is_beyond_its_modes(self) -> bool:
        """Whether much of the posterior may lie where no mode is, and can be drawn from."""
        hides_modes = self._trace_draws is None and self.best.posterior.hides_modes
        return hides_modes and prior_for_few_data(self.best) is not None

    def _moved(self, draws: int, rng: np.random.Generator) -> np.ndarray:
        """Draws by MCMC."""
        if self._trace_draws is None:
            return particles(self.expansions, draws, rng)
        return self._trace_draws.take(draws, self.best.space, rng)

    def draw(self, draws: int, random_seed: int | np.random.Generator | None = None) -> np.ndarray:
        """Unconstrained draws from the Gaussian at the highest mode, (draws, P)."""
        return self.best.draw_full(draws, np.random.default_rng(random_seed))


def _count_duplicates(X: np.ndarray) -> int:
    """Rows that repeat an earlier one to eight digits of each input's sd."""
    sd = X.std(0)
    rounded = np.round(X / np.where(sd > 0, sd, 1.0), 8) + 0.0
    return len(X) - len({row.tobytes() for row in rounded})


type Start = dict[str, Any] | LaplaceFit | Sequence[dict[str, Any] | LaplaceFit] | None


def fit_laplace(
    gpm: GPModel,
    *,
    point: dict[str, Any] | None = None,
    optimize: bool = True,
    start: Start = None,
    n_restarts: int = 12,
    population: int | None = None,
    random_seed: int | np.random.Generator | None = None,
    progressbar: bool = True,
    executor: Executor | None = None,
    compile_kwargs: dict | None = None,
) -> LaplaceFit:
    """Find the modes of the posterior over the hyperparameters and expand it there.

    Parameters
    ----------
    gpm : GPModel
    point : dict, optional
        Unconstrained values by value-variable name. With ``optimize=False`` the posterior is expanded just there;
        otherwise it is one more start.
    optimize : bool
        ``False`` needs ``point`` and searches for nothing.
    start : dict, LaplaceFit, or list of these, optional
        Warm starts: unconstrained points, or earlier fits, all of whose modes are taken. For a kernel expression a fit
        of another one will do: base kernels that they share keep their parameters.
    n_restarts : int
        Fresh starts. For embeddings and plain stationary kernels they climb the noise ladder: the noise is annealed
        while the mode is followed. Sums and products of kernels take scans over the periods, a short ladder and
        changes to the best modes in turn (:mod:`pymc_active.laplace.modes.composite_kernels`); there, with warm starts,
        one or two fresh starts mean that the three best warm modes are followed, which is cheap.
    population : int, optional
        Particles of the population annealing. By default at most 64 (fewer with few or very many data, few parameters
        or a model without an array route) are sent out where the other starts do not settle the matter: for
        embeddings unless there are warm starts and every ladder start ends where they do; for other models when
        fewer than two thirds of the ladder starts (with a plain stationary kernel: fewer than three starts) agree on
        the best mode; never for sums and products of kernels. 0 never runs it, a number runs it always, after the
        noise ladder. See :mod:`pymc_active.laplace.modes.search`.
    random_seed : int or Generator, optional
        The same seed gives the same fit, bit for bit.
    progressbar : bool
    executor : concurrent.futures.Executor, optional
        Runs the restarts of models with an array route, in processes, threads or a cluster (dask's
        ``Client.get_executor()``); results do not depend on it. What a killed process had to do is done here, with one
        warning.
    compile_kwargs : dict, optional
        For ``pytensor.function``, e.g. ``{"mode": "NUMBA"}``: use the PyTensor graphs and compile them so. By default
        builders' models compile nothing, other models use PyTensor without a JIT.

    Returns
    -------
    LaplaceFit
        Of a model whose every parameter is fixed too: then there is nothing to search, and the evidence is exact.

    Raises
    ------
    ValueError
        If a point has missing, unknown or wrongly shaped entries, or the posterior has no finite value anywhere.

    Warns
    -----
    UserWarning
        Once, if the fit is doubtful: not converged, directions without curvature, an ill-conditioned K, or an
        embedding component that the data do not determine.

    References
    ----------
    .. [1] Garnett, Osborne & Hennig (2014), section 2.1, eqs. 3-4.

    Examples
    --------
    >>> import numpy as np
    >>> import pymc_active as pma
    >>> x = np.linspace(-2, 2, 15)
    >>> gpm = pma.ard_gp(x[:, None], np.sin(x))
    >>> fit = pma.fit_laplace(gpm, random_seed=1, progressbar=False)
    >>> fit.labels
    ['log_lengthscale[0]', 'log_outputscale', 'log_noise']
    """
    if not isinstance(gpm, GPModel):
        raise TypeError(
            f"fit_laplace takes a GPModel (see ard_gp, embedding_gp, from_marginal); got {type(gpm).__name__}"
        )
    posterior = gpm.posterior(compile_kwargs)
    embedding = gpm.embedding_slice
    with one_blas_thread():
        if not optimize or not gpm.shapes:
            if point is None and gpm.shapes:
                raise ValueError("optimize=False expands at a given point: pass point={...}")
            theta = gpm.flatten(point or {})
            if not np.isfinite(posterior.value_and_gradient(theta)[0]):
                raise ValueError(
                    "the log posterior is not finite at this point: K + noise is not positive definite there"
                )
            fit = LaplaceFit(gpm, (gpm.X, gpm.y), [expand(posterior, theta, embedding)], None, converged=True)
        else:
            rng = np.random.default_rng(random_seed)
            starts = [] if point is None else [gpm.flatten(point)]
            task = SearchTask(
                posterior, embedding, [*starts, *read_starts(gpm, start, rng)], n_restarts, population, rng
            )
            with progress("Searching modes", task.n_steps, progressbar) as advance:
                found = search_and_expand(task, executor=executor, advance=advance)
            fit = LaplaceFit(gpm, (gpm.X, gpm.y), found.expansions, found.search, found.converged)
    problems = find_problems(fit, optimize)
    if problems:
        warn_user(
            "the Laplace fit is doubtful: " + "; ".join(problems),
            DoubtfulFitWarning,
        )
    return fit


def read_starts(gpm: GPModel, start: Start, rng: np.random.Generator) -> list[np.ndarray]:
    """Warm starts as points theta (P,) of this model."""
    if start is None:
        return []
    if not isinstance(start, dict | LaplaceFit | list | tuple):
        raise TypeError(f"start must be a point, a fit, or a list of these; got {start!r}")
    thetas = []
    for one in [start] if isinstance(start, dict | LaplaceFit) else start:
        if isinstance(one, LaplaceFit) and one.gpm.shapes != gpm.shapes:
            child, parent = gpm.posterior(), one.best.full_posterior
            if not (isinstance(child, KernelPosterior) and isinstance(parent, KernelPosterior)):
                raise ValueError(
                    f"start must be points or fits of this model, or for a kernel expression a fit of another; got a "
                    f"fit of {one.gpm.description} for {gpm.description}"
                )
            thetas += starts_from_parent(child, parent, [e.theta for e in one.expansions], rng)
        elif isinstance(one, LaplaceFit):
            thetas += [gpm.flatten(mode.point) for mode in one.modes]
        else:
            thetas.append(gpm.flatten(one))
    return thetas


def find_problems(fit: LaplaceFit, optimized: bool = True) -> list[str]:
    """What is doubtful about a fit, also noted in its diagnostics."""
    d, problems = fit.diagnostics, []
    if optimized and not d["converged"]:
        problems.append("the mode search did not converge (raise n_restarts, or rescale X and y)")
    if d["n_floored"]:
        problems.append(
            f"{d['n_floored']} direction(s) have no positive curvature and were given 0.3 of the prior's "
            "(the point is no proper mode; raise n_restarts or use tighter priors)"
        )
    if d["condition_number"] > ILL_CONDITIONED:
        rows = f", {d['n_duplicate_rows']} repeated row(s) of X" if d["n_duplicate_rows"] else ""
        problems.append(
            f"K + noise is nearly singular (condition number {d['condition_number']:.0e}{rows}; "
            "give log_noise a prior that keeps it away from zero)"
        )
    if fit.best.smallest_singular_value_is_uncertain():
        problems.append(
            "the smallest singular value of R is below its posterior sd, so the Laplace evidence is poor "
            "(more data or fewer components would mend it)"
        )
    if d["noise_below_prior"] > FAR_BELOW_PRIOR and len(fit.y) < len(fit.theta):
        problems.append(
            f"log_noise is {d['noise_below_prior']:.1f} prior sds below its prior mean: {len(fit.theta)} parameters "
            f"explain {len(fit.y)} observations without noise (fix log_noise, or give it a tighter prior)"
        )
    d["warnings"] = problems
    return problems
