"""Every public name on what a user gets without options: ``pma.fit`` and default learners of every kind of model.

Each call works or refuses with one sentence that says what to do; a name that is neither called here nor listed as one
that takes no fit makes the last test fail.
"""

import warnings
from functools import partial

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from nightly import nightly

import pymc_active as pma
from pymc_active import active, plots, search
from pymc_active.criteria.by_name import criterion_names

pytestmark = [
    pytest.mark.slow,
    # Few points: fits and chains are allowed to have doubts, which they state.
    pytest.mark.filterwarnings("ignore::pymc_active.ActiveWarning"),
]

QUIET = {"random_seed": 1, "progressbar": False}
RNG = np.random.default_rng(20261124)


def truth(X):
    return 20 + 5 * np.sin(2 * np.asarray(X, float)[:, 0]) + np.asarray(X, float)[:, -1]


def of_user(X, y):
    with pm.Model() as model:
        scale = pm.LogNormal("scale", 0, 0.5)
        gp = pm.gp.Marginal(
            mean_func=pm.gp.mean.Constant(pm.Normal("level", 20, 5)), cov_func=16 * pm.gp.cov.Matern52(2, ls=scale)
        )
        gp.marginal_likelihood("assay", pm.Data("X", X), pm.Data("y_data", y), sigma=pm.HalfNormal("noise", 1))
    return pma.from_marginal(gp, "assay", model=model)


def models(X, y):
    box = [(-1, 1)] * X.shape[1]
    return {e: pma.composite_gp(X, y, e, bounds=box) for e in ("SE[0] + LIN[1]", "PER[0]")}


# Kind of model: number of inputs, points, and what makes it.
MAKE = {
    "ard": (2, 8, lambda X, y: pma.ard_gp(X, y, bounds=[(-1, 1)] * 2)),
    "embedding": (3, 9, lambda X, y: pma.embedding_gp(X, y, n_components=2, bounds=[(-1, 1)] * 3)),
    "wide": (12, 6, lambda X, y: pma.embedding_gp(X, y, n_components=1, bounds=[(-1, 1)] * 12)),
    "composite": (2, 9, lambda X, y: pma.composite_gp(X, y, "SE[0] + LIN[1]", bounds=[(-1, 1)] * 2)),
    "user": (2, 7, of_user),
    "models": (2, 9, models),
}


class Case:
    """A fit, a learner and candidates of one kind of model."""

    def __init__(self, kind):
        D, n, make = MAKE[kind]
        self.kind, self.is_several = kind, kind == "models"
        self.X = RNG.uniform(-1, 1, (n, D))
        self.y = truth(self.X)
        self.pool, self.new = RNG.uniform(-1, 1, (2, 6, D))
        self.bounds = [(-1, 1)] * D
        self.gpm = make(self.X, self.y)
        # A user's own model is compiled, which takes longest, so the learner has the same one.
        of_learner = self.gpm if kind == "user" else make(self.X, self.y)
        if self.is_several:
            self.fits = {label: pma.fit(gpm, n_particles=64, **QUIET) for label, gpm in self.gpm.items()}
            self.fit = pma.ModelAverage(self.fits)
        else:
            self.fit = pma.fit(self.gpm, n_particles=64, **QUIET)
        learn = "model" if self.is_several else "hyperparameters"
        self.learner = pma.active.Learner(of_learner, learn, pool=self.pool, random_seed=0)
        self.learner.run(truth, n=1, progressbar=False)

    @property
    def one(self):
        """A fit of one model."""
        return self.fit.best if self.is_several else self.fit


# Kinds that differ from another in one respect only.
ALIKE = ("wide", "composite")


@pytest.fixture(
    scope="module", params=[pytest.param(k, marks=[pytest.mark.nightly] if k in ALIKE else []) for k in MAKE]
)
def case(request):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pma.ActiveWarning)
        return Case(request.param)


def is_finite(result):
    """Whether what a function returns holds finite numbers."""
    if isinstance(result, xr.DataTree):
        return all(is_finite(node.to_dataset()) for node in result.children.values() if node.name == "predictions")
    if isinstance(result, xr.Dataset):
        return all(is_finite(values) for values in result.data_vars.values())
    values = np.asarray(result)
    return values.dtype.kind not in "fc" or bool(np.isfinite(values).all())


SMALL = {"random_seed": 0}
OF_MAXIMUM = {"n_optima": 4, "draws": 4, "random_seed": 0}

# By name of the function: the call, for a fit of one model or of several.
OF_FIT = {
    "predict": lambda c: pma.predict(c.fit, c.new, quantiles=(0.05, 0.95), y_new=truth(c.new)),
    "as_ensemble": lambda c: pma.as_ensemble(c.fit).weights,
    "draw_paths": lambda c: pma.draw_paths(c.fit, n_paths=3, **SMALL)(c.new),
    "bald": lambda c: active.bald(c.fit, c.pool, **SMALL),
    "uncertainty": lambda c: active.uncertainty(c.fit, c.pool),
    "epig": lambda c: active.epig(c.fit, c.pool, **SMALL),
    "level": lambda c: active.level(c.fit, c.pool, 0.1, **SMALL),
    "integrated_variance": lambda c: active.integrated_variance(c.fit, c.pool, **SMALL),
    "expected_improvement": lambda c: active.expected_improvement(c.fit, c.pool),
    "upper_confidence_bound": lambda c: active.upper_confidence_bound(c.fit, c.pool),
    "pes": lambda c: active.pes(c.fit, c.pool, **OF_MAXIMUM),
    "max_value_entropy": lambda c: active.max_value_entropy(c.fit, c.pool, **OF_MAXIMUM),
    "joint_entropy_search": lambda c: active.joint_entropy_search(c.fit, c.pool, **OF_MAXIMUM),
    "thompson": lambda c: active.thompson(c.fit, c.pool, random_seed=0),
    "entropy_search": lambda c: active.entropy_search(c.fit, c.pool, random_seed=0),
    "plot": lambda c: plots.plot(c.fit),
    "plot_map": lambda c: plots.plot_map(c.fit),
    "plot_predictions": lambda c: plots.plot_predictions(c.fit, input=0),
    "plot_utility": lambda c: plots.plot_utility(active.uncertainty(c.fit, c.pool), c.pool),
}
OF_ONE_FIT = {
    "advise": lambda c: pma.advise(c.one),
    "check": lambda c: pma.check(c.one, c.one, pool=c.pool, **SMALL),
    "informative_rows": lambda c: pma.informative_rows(c.one.gpm, 3, random_seed=0),
    "find_modes": lambda c: pma.find_modes(c.one).log_posterior,
    "relevance": lambda c: pma.relevance(c.one, random_seed=0),
    "sobol_indices": lambda c: pma.sobol_indices(c.one, draws=8, n_points=64, random_seed=0),
    "subspace_angles": lambda c: pma.subspace_angles(c.one, random_seed=0),
    "decompose": lambda c: str(pma.decompose(c.one)),
    "plot_relevance": lambda c: plots.plot_relevance(c.one),
    "plot_embedding": lambda c: plots.plot_embedding(c.one),
    "plot_loadings": lambda c: plots.plot_loadings(c.one),
    "plot_decomposition": lambda c: plots.plot_decomposition(pma.decompose(c.one)),
}
OF_SEVERAL = {
    "model_posterior": lambda c: active.model_posterior(c.fits),
    "bams": lambda c: active.bams(c.fit, c.pool),
    "committee": lambda c: active.committee(c.fit, c.pool),
    "plot_model_posterior": lambda c: plots.plot_model_posterior(c.learner.model_history),
    "plot_evidence": lambda c: plots.plot_evidence(c.fit.probability),
}

OF_LEARNER = {
    "ask": lambda c: c.learner.ask(),
    "design": lambda c: c.learner.design(),
    "recommend": lambda c: c.learner.recommend(),
    "stop": lambda c: c.learner.stop(0.1),
    "best_score": lambda c: c.learner.best_score()[0],
    "verification": lambda c: c.learner.verification,
    "optimum": lambda c: c.learner.optimum(n_optima=4).samples,
    "model_history": lambda c: c.learner.model_history,
    "search": lambda c: c.learner.search().probability,
    "to_datatree": lambda c: c.learner.to_datatree(draws=20),
    "plot a learner": lambda c: plots.plot(c.learner),
    "plot_optimum": lambda c: plots.plot_optimum(c.learner.optimum(n_optima=4)),
    "repr": lambda c: repr(c.learner) + repr(c.learner.fit) + c.learner._repr_html_(),
}
# Kinds of model for which a call refuses, and the sentence.
NO_EMBEDDING = (("ard", "composite", "user", "models"), "the model has no embedding")
NOT_APART = (("embedding", "wide", "user"), "cannot take the kernel of .* apart")
REFUSED = {
    **dict.fromkeys(("subspace_angles", "plot_embedding", "plot_loadings"), NO_EMBEDDING),
    **dict.fromkeys(("decompose", "plot_decomposition"), NOT_APART),
    **dict.fromkeys(
        ("relevance", "plot_relevance"),
        (("composite", "user", "models"), "relevance needs an embedding or a variable .lengthscale.*Pass var_name="),
    ),
    "plot_map": (("embedding", "wide"), "draws models with two inputs; this one has"),
    "search": (("ard", "embedding", "wide", "composite", "user"), "is for learners of several models"),
    "model_history": (("ard", "embedding", "wide", "composite", "user"), "is for learners of several models"),
}
# What takes no fit and no learner: builders, searches of inputs, designs, other models, classes of results.
ELSEWHERE = {
    *("ard_gp", "composite_gp", "embedding_gp", "from_latent", "from_marginal", "sample"),
    *("fit", "fit_laplace", "fit_smc"),
    "bald_from_trace",
    *("gradient_design", "latin_hypercube", "random_design", "hds", "coordinate_wise"),
    *("compositional_kernel_search", "embedding_dimension"),
    *("plot_active_inputs", "plot_slices"),
}


def call(case, name, function):
    kinds, sentence = REFUSED.get(name, ((), ""))
    if case.kind in kinds:
        with pytest.raises((ValueError, AttributeError), match=sentence):
            function(case)
        return
    assert is_finite(function(case))


@pytest.mark.parametrize("name", OF_FIT)
def test_functions_of_fits(case, name):
    call(case, name, OF_FIT[name])


@pytest.mark.parametrize("name", OF_ONE_FIT)
def test_functions_of_a_fit_of_one_model(case, name):
    call(case, name, OF_ONE_FIT[name])


@pytest.mark.parametrize("case", ["models"], indirect=True)
@pytest.mark.parametrize("name", OF_SEVERAL)
def test_functions_of_several_fits(case, name):
    call(case, name, OF_SEVERAL[name])


@pytest.mark.parametrize("name", OF_LEARNER)
def test_methods_of_a_learner(case, name):
    call(case, name, OF_LEARNER[name])


@pytest.mark.parametrize("case", ["user", "models", *nightly("ard", "embedding", *ALIKE)], indirect=True)
def test_a_run_is_saved_and_goes_on(case, tmp_path):
    case.learner.save(tmp_path / "run.nc")
    model = case.gpm if case.kind == "user" else None
    other = pma.active.Learner.load(tmp_path / "run.nc", model=model)
    assert np.array_equal(other.X, case.learner.X)
    assert pma.predict(other.fit, case.new).identical(pma.predict(case.learner.fit, case.new))
    asked = case.learner.ask()
    assert np.array_equal(other.ask(), asked)
    case.learner.forget(asked)


@pytest.mark.parametrize(
    "case", ["ard", *(pytest.param(k, marks=pytest.mark.nightly) for k in ("embedding", "models"))], indirect=True
)
def test_criteria_of_a_learner(case):
    """Every name of the registry that suits the kind of model asks a point."""
    names = criterion_names("moments", "predictions", "maximum")
    if case.is_several:
        names = [*names, *criterion_names("models")]
    for name in names:
        criterion = partial(active.level, threshold=0.1) if name == "level" else name
        learner = pma.active.Learner(case.gpm, "function", criterion=criterion, pool=case.pool, random_seed=0)
        assert (case.pool == learner.ask()).all(1).any(), name


def test_every_public_function_is_here():
    called = {*OF_FIT, *OF_ONE_FIT, *OF_SEVERAL, *OF_LEARNER}
    for namespace in (pma, active, plots, search):
        names = getattr(namespace, "__all__", None) or dir(namespace)
        functions = {n for n in names if not n.startswith("_") and n.islower() and callable(getattr(namespace, n))}
        assert functions <= called | ELSEWHERE, f"call or list {sorted(functions - called - ELSEWHERE)}"
