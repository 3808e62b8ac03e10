"""Learning which of several models is right: the loop, models that join and leave, and what it says in the end."""

import warnings
from copy import copy

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from numpy.testing import assert_allclose, assert_array_equal
from users import users_gp

import pymc_active as pma
from pymc_active.active import Learner
from pymc_active.laplace import fit_laplace_models
from pymc_active.posterior.factor import NotPositiveDefiniteError
from pymc_active.predictions.predict import imagined, posterior_mean

pytestmark = pytest.mark.slow

POOL = np.linspace(0, 1, 60)[:, None]
START = [10, 45]
ERROR = 0.1 * np.random.default_rng(0).normal(size=len(POOL))


def truth(x):
    """A period of 0.2 on a line, and an error that is the same whenever a point is measured."""
    x = np.atleast_2d(x)[:, 0]
    return np.sin(2 * np.pi * x / 0.2) + 2 * x + np.interp(x, POOL[:, 0], ERROR)


def models(expressions=("SE", "LIN", "PER", "LIN + PER"), rows=START):
    X = POOL[list(rows)]
    return [pma.composite_gp(X, truth(X), e, x_scale=(0.0, 1.0), y_scale=(1.0, 1.0)) for e in expressions]


def learner(expressions=("SE", "LIN", "PER", "LIN + PER"), **keywords):
    return Learner(models(expressions), **({"learn": "model", "pool": POOL, "random_seed": 3} | keywords))


@pytest.fixture(scope="module")
def learned():
    it = learner()
    it.run(truth, 2, progressbar=False)
    return it


@pytest.mark.nightly
# Draws of a model with a period may be few after so few points, which is said.
@pytest.mark.filterwarnings("ignore::pymc_active.DoubtfulFitWarning")
def test_asking_finds_the_structure_that_the_data_come_from():
    """Odds of thousands to one after 18 points, of ten to one after 12, whatever the seed and so the points."""
    it = learner()
    it.run(truth, 18, progressbar=False)
    assert it.recommend() == "LIN + PER"
    assert it.fit.probability.sel(model="LIN + PER") > 0.9


def test_history_holds_a_distribution_over_the_models_for_every_fit(learned):
    history = learned.model_history
    assert history.dims == ("n_observations", "model")
    assert_array_equal(history.n_observations, np.arange(2, 5))
    assert_allclose(history.sum("model"), 1.0)


def test_datatree_holds_design_and_models_and_survives_a_file(learned, tmp_path):
    tree = learned.to_datatree(draws=10)
    tree.to_netcdf(tmp_path / "run.nc")
    with xr.open_datatree(tmp_path / "run.nc") as loaded:
        assert_array_equal(loaded["design"]["x"], learned.X[2:])
        assert_allclose(loaded["models"]["probability"], learned.fit.probability)
        assert loaded["posterior"].sizes["draw"] == 10


def test_a_batch_holds_different_points_and_imagined_outcomes_leave_the_probabilities_alone():
    it = learner(("SE", "PER"))
    before = it.fit.probability
    batch = it.ask(4)
    assert len(np.unique(batch, axis=0)) == 4
    assert_array_equal(imagined(it.fit, batch).weights, before)


def test_a_model_that_joins_has_all_the_data_and_one_that_leaves_is_gone():
    it = learner(("SE", "LIN"))
    it.run(truth, 2, progressbar=False)
    it.add_model(models(["LIN + PER"])[0])
    assert list(it.fit) == ["SE", "LIN", "LIN + PER"]
    assert_array_equal(it.fit["LIN + PER"].X, it.X)
    it.remove_model("SE")
    assert list(it.fit) == ["LIN", "LIN + PER"]
    assert np.isnan(it.model_history.sel(model="LIN + PER")[0])
    with pytest.raises(ValueError, match="no model 'RQ'; the models are"):
        it.remove_model("RQ")
    with pytest.raises(ValueError, match="at least two"):
        it.remove_model("LIN")
    with pytest.raises(ValueError, match="a model 'LIN' exists already"):
        it.add_model(models(["LIN"])[0])
    with pytest.raises(ValueError, match="the same model"):
        it.add_model(models(["LIN"])[0], "another name")
    with pytest.raises(ValueError, match=r"all text or all numbers; got \['LIN', 'LIN \+ PER', 3\]"):
        it.add_model(models(["RQ"])[0], 3)


def test_a_search_draws_more_particles_and_agrees_with_the_updates_within_errors():
    it = learner(("SE", "LIN"), random_seed=2)
    for row in (5, 20, 30):
        it.tell(POOL[[row]], truth(POOL[[row]]))
    updated, searched = it.fit, it.search()
    assert it.fit is searched
    assert it.recommend() == searched.probability.idxmax()
    for label, fit in searched.items():
        assert (len(updated[label].ensemble), len(fit.ensemble)) == (128, 256)
        error = np.hypot(updated[label].log_evidence_error, fit.log_evidence_error)
        assert abs(updated[label].log_evidence - fit.log_evidence) < 4 * error


def test_a_model_that_cannot_be_told_is_refused_at_once():
    """The X of a user's own model may be a constant."""
    X = POOL[START]
    own = users_gp(X, truth(X), lambda: pm.gp.cov.Matern32(1, pm.LogNormal("lengthscale", -1, 1)), is_data=False)
    with pytest.raises(ValueError, match="X is a constant here"):
        Learner([*models(["SE"]), own], learn="model", pool=POOL)
    with pytest.raises(ValueError, match="X is a constant here"):
        learner(("SE", "LIN")).add_model(own)


def test_only_the_most_probable_model_is_worth_a_warning_in_the_end(monkeypatch):
    it = learner(("SE", "LIN"))
    best, doubtful = it.fit.probability.idxmax().item(), set()
    is_doubtful = property(lambda fit: str(fit.gpm.expression) in doubtful)
    monkeypatch.setattr(pma.ParticleFit, "is_doubtful", is_doubtful)
    doubtful |= {"SE", "LIN"} - {best}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        it.search()
        assert it.recommend() == best
    doubtful |= {best}
    with pytest.warns(UserWarning, match=f"'{best}' is the most probable, but its fit is doubtful") as caught:
        it.search()
    assert len(caught) == 1


def singular(expression="LIN"):
    """No model of five points that lie on no line: there is no noise in it."""
    X = POOL[START]
    keywords = {"x_scale": (0.0, 1.0), "y_scale": (1.0, 1.0), "priors": {"log_noise": -400.0}}
    return pma.composite_gp(X, truth(X), expression, **keywords)


def test_what_is_imagined_and_recommended_is_the_mean_over_the_particles(monkeypatch):
    """Batches and recommendations of several models ask no search for modes that represent nothing."""
    it = learner(("SE", "RQ"), learn="function")
    fit = it.fit
    monkeypatch.setattr("pymc_active.laplace.modes.task._search", lambda *args: pytest.fail("modes were searched"))
    asked = it.ask(3)
    assert len(np.unique(asked)) == 3
    mean = pma.predict(fit, POOL).f_mean.to_numpy()
    assert_allclose(posterior_mean(fit, POOL), mean, rtol=1e-12)
    # Few of the particles choose the point.
    best = np.abs(POOL - it.recommend()).argmin()
    assert mean[best] > mean.max() - 0.1 * np.ptp(mean)


def test_a_model_whose_posterior_is_finite_nowhere_is_left_out_by_name(tmp_path):
    it = Learner([*models(["SE", "RQ"]), singular()], learn="model", pool=POOL, random_seed=3)
    rows = [3, 17, 30]
    it.tell(POOL[rows], truth(POOL[rows]))
    for _ in range(2):
        with pytest.warns(UserWarning, match="are left out; LIN: the log posterior is not finite") as caught:
            x = it.ask()
        assert {warning.filename for warning in caught} == {__file__}
        assert list(it.fit) == ["SE", "RQ"]
        assert list(it.models) == ["SE", "RQ", "LIN"]
        it.tell(x, truth(x))
    it.save(tmp_path / "run.nc")
    other = Learner.load(tmp_path / "run.nc")
    assert list(other.models) == ["SE", "RQ", "LIN"]
    with pytest.warns(UserWarning, match="are left out; LIN"):
        assert it.recommend() in ("SE", "RQ")
    with pytest.warns(UserWarning, match="are left out; LIN"):
        assert_array_equal(other.ask(), it.ask())
    with pytest.raises(ValueError, match="LIN: the log posterior is not finite"):
        fit_laplace_models(it.models, n_restarts=1)


@pytest.mark.parametrize("kind", ["pool", "bounds"])
def test_candidates_far_beyond_the_data_that_scaled_the_inputs_are_warned_of(kind):
    X = np.array([[0.0], [0.02], [0.05], [0.1]])
    candidates = {"pool": {"pool": np.linspace(0, 10, 50)[:, None]}, "bounds": {"bounds": [(0, 10)]}}[kind]

    def made(x_scale):
        return [pma.composite_gp(X, truth(X), e, x_scale=x_scale, y_scale=(1.0, 1.0)) for e in ("SE", "LIN")]

    with pytest.warns(UserWarning, match=r"of composite_gp\(SE\) the candidates span 1?\d\d") as caught:
        Learner(made("unit"), learn="model", **candidates)
    assert {warning.filename for warning in caught} == {__file__}
    Learner(made((0.0, 10.0)), learn="model", **candidates)


def test_a_model_of_no_weight_that_cannot_take_what_is_imagined_does_not_stop_the_others(learned):
    average = learned.fit
    hopeless, others = "SE", ["LIN", "PER", "LIN + PER"]

    def raises(*data):
        raise NotPositiveDefiniteError("singular")

    broken = copy(average)
    broken._fits = dict(average)
    broken._fits[hopeless] = copy(average[hopeless])
    object.__setattr__(broken._fits[hopeless], "given", raises)
    X, y = np.vstack([average.X, [[0.31]]]), np.append(average.y, 1.0)
    broken.weights = np.array([0.0, 0.1, 0.2, 0.7])
    given = broken.given(X, y)
    assert list(given) == others
    assert given.probability.model.to_numpy().tolist() == others
    assert_allclose([given.prior.sum(), given.probability.sum()], 1.0, rtol=1e-12)
    assert np.isfinite(pma.predict(given, X).f_mean).all()
    assert np.isfinite(pma.active.bams(given, X)).all()
    broken.weights = np.array([0.4, 0.1, 0.2, 0.3])
    with pytest.raises(NotPositiveDefiniteError, match="SE: singular"):
        broken.given(X, y)


def test_models_that_cannot_be_compared_are_refused():
    one = models(["SE"])
    for given, error, message in (
        ([], ValueError, "at least two"),
        (one, ValueError, "at least two"),
        (one[0], ValueError, "at least two"),
        (models(["LIN + PER", "SE", "PER + LIN"]), ValueError, r"'LIN \+ PER' and 'PER \+ LIN' are the same model"),
        ([*one, *models(["PER"], rows=[1, 2, 3])], ValueError, r"same data.*'SE' and 'PER'"),
        ([*one, "PER"], TypeError, "GPModel"),
        (3, TypeError, "GPModel, a dict of them, a list of GPModels, a function"),
    ):
        with pytest.raises(error, match=message):
            Learner(given, learn="model", pool=POOL)


def test_prior_weights_count():
    for prior in ({"LIN": 0.0, "SE": 1.0}, [1.0, 0.0]):
        certain = learner(("SE", "LIN"), prior=prior)
        assert certain.fit.probability.sel(model="SE") == 1
