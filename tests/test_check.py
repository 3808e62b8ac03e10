"""``check``: every number in its report by a second route, and what its verdict says."""

from functools import partial
from types import SimpleNamespace

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import quad
from scipy.special import logsumexp
from scipy.stats import multivariate_normal, norm, poisson, spearmanr
from traces import as_trace, mutual_information

import pymc_active as pma
from pymc_active.checking import compare as compare_module
from pymc_active.checking import report as report_module
from pymc_active.checking.verdict import Differences, verdict
from pymc_active.criteria.by_name import criterion_names
from pymc_active.inference.ensemble import Evidence
from pymc_active.information.mixture_entropy import symmetrized_kl
from pymc_active.models.traces import trace_thetas
from pymc_active.particles import choose, modes
from pymc_active.predictions.mixtures import draw_moments

pytestmark = pytest.mark.slow

NEW = np.linspace(-3, 3, 7)[:, None]
POOL = np.linspace(-4, 4, 9)[:, None]
CRITERIA = ["bald", "uncertainty", "expected_improvement", "upper_confidence_bound", "integrated_variance", "pes"]
APPROXIMATIONS = ("mgp", "map", "bbq", "modes", "draws")
QUICK = {"n_restarts": 3, "population": 0, "random_seed": 1, "progressbar": False}


def data():
    rng = np.random.default_rng(1)
    X = rng.uniform(-2, 2, size=(10, 1))
    return X, np.sin(2 * X[:, 0]) + 0.2 * rng.normal(size=10)


@pytest.fixture(scope="module")
def fit():
    return pma.fit_laplace(pma.ard_gp(*data()), **QUICK)


@pytest.fixture(scope="module")
def trace(fit):
    """Draws from the posterior by short chains from many starts, standing in for NUTS."""
    return as_trace(fit.gpm, fit.ensemble_by("draws", 300, 5).thetas)


@pytest.fixture(scope="module")
def report(fit, trace):
    criteria = [*CRITERIA, partial(pma.active.bald, target="f")]
    return pma.check(fit, trace, X_new=NEW, pool=POOL, criteria=criteria, random_seed=0)


def of_mgp(report, name):
    # ``method`` is also an option of ``sel``, so it cannot be a keyword here.
    return report["predictions"].to_dataset().sel(approximation="mgp")[name]


def test_check_has_the_documented_groups(fit, trace, report):
    assert set(report.children) == {"predictions", "evidence", "decision"}
    assert report["predictions"]["approximation"].to_numpy().tolist() == list(APPROXIMATIONS)
    assert dict(report["predictions"].sizes) == {"approximation": 5, "point": 7}
    assert set(report["decision"].data_vars) == {"true_utility", "score", "pick", "best", "regret_ratio"}
    assert report["decision"]["criterion"].to_numpy().tolist() == [*CRITERIA, 'bald(target="f")']
    evidence = report["evidence"].to_dataset()
    assert evidence.estimator.to_numpy().tolist() == ["fit", "reference"]
    # That of a trace is not known.
    assert_allclose(evidence.log_evidence, [fit.evidence.value, np.nan])
    assert np.isnan(evidence.standard_error).all()
    assert report.attrs["verdict"] == verdict(report)
    default = pma.check(fit, trace, pool=NEW[:3], criteria=["bald"])
    assert_array_equal(default["predictions"]["point"], default["decision"]["candidate"])
    one, other = (pma.check(fit, **given) for given in ({"reference": trace}, {"trace": trace}))
    assert one["predictions"].sizes["point"] == len(fit.gpm.y)
    assert other.attrs == one.attrs
    assert other.attrs["reference"] == "trace"
    assert other["predictions"].to_dataset().identical(one["predictions"].to_dataset())


def test_kl_is_that_to_the_matched_mixture(fit, trace, report):
    mixture = pma.predict(trace, NEW, model=fit.gpm)
    for method in APPROXIMATIONS:
        q = pma.predict(fit, NEW, method=method, random_seed=0)
        row = report["predictions"].to_dataset().sel(approximation=method)
        for name in ("f_mean", "f_variance"):
            assert_allclose(row[name], q[name], rtol=1e-10)
            assert_allclose(row[f"true_{name}"], mixture[name], rtol=1e-10)
        expected = symmetrized_kl(mixture.f_mean, mixture.f_variance, q.f_mean, q.f_variance)
        assert_allclose(row["skl"], expected, rtol=1e-7)


@pytest.mark.parametrize("j", [0, 3])
def test_the_expected_density_is_an_integral(fit, trace, report, j):
    """Of -log q(y) under the trace's mixture, to the error of 400 outcomes in strata."""
    means, variances, noises = draw_moments(fit.best.posterior, trace_thetas(fit.gpm, trace), NEW)
    sds = np.sqrt(variances + noises)[:, j]
    mgp = pma.predict(fit, NEW)
    q = norm(float(mgp.f_mean[j]), float(np.sqrt(mgp.y_variance[j])))

    def log_p(y):
        return logsumexp(norm.logpdf(y, means[:, j], sds)) - np.log(len(means))

    reach = means[:, j].min() - 9 * sds.max(), means[:, j].max() + 9 * sds.max()
    for found, log_density in ((of_mgp(report, "nll")[j], q.logpdf), (of_mgp(report, "true_nll")[j], log_p)):
        expected, _ = quad(lambda y, f=log_density: -np.exp(log_p(y)) * f(y), *reach, limit=400)
        spread, _ = quad(lambda y, f=log_density: np.exp(log_p(y)) * f(y) ** 2, *reach, limit=400)
        assert_allclose(found, expected, rtol=0, atol=4 * np.sqrt((spread - expected**2) / 300))


def test_observations_replace_the_expectation(fit, trace):
    y_new = np.linspace(-1, 1, 7)
    report = pma.check(fit, trace, X_new=NEW, y_new=y_new)
    q, p = pma.predict(fit, NEW), pma.predict(trace, NEW, model=fit.gpm, y_new=y_new)
    assert_allclose(of_mgp(report, "nll"), -norm.logpdf(y_new, q.f_mean, np.sqrt(q.y_variance)), rtol=1e-10)
    assert_allclose(report["predictions"]["true_nll"], -p.y_log_density, rtol=1e-10)
    assert "decision" not in report.children
    # Of normal outcomes a negative log density varies by chance like half a squared normal number.
    mean, sd = p.f_mean.to_numpy(), np.sqrt(p.y_variance.to_numpy())
    surprise = report["predictions"]["surprise"].to_numpy()
    assert surprise.argmax() == np.argmax(np.abs(y_new - mean) / sd)
    assert (surprise.mean() > 3) == ("contradict both" in report.attrs["verdict"])
    for shifts, told in (
        (0.0, None),
        (1.0, None),
        (4.0, "look at these observations"),
        (60 * np.eye(7)[2], "above all row 2 of y_new. What to do: look at these observations, and at the model"),
    ):
        text = pma.check(fit, trace, X_new=NEW, y_new=mean + shifts * sd).attrs["verdict"]
        assert told in text if told else "look at these observations" not in text


def test_disagreeing_chains_are_seen(fit, trace):
    def checked(posterior):
        return pma.check(fit, xr.DataTree.from_dict({"posterior": posterior}), X_new=NEW[:2]).attrs

    posterior = trace["posterior"].to_dataset().copy(deep=True)
    # Of one chain R-hat is not known, and of a few draws no chain can be sure.
    assert not checked(posterior.isel(chain=[0]))["doubts"]
    assert checked(posterior.isel(chain=[0, 1], draw=range(20)))["doubts"].startswith("MCMC has NOT converged")
    posterior["log_noise"][1] += 3.0
    told = checked(posterior)
    assert told["reference"] == "trace"
    assert told["doubts"].startswith("MCMC has NOT converged (R-hat")
    assert f"the reference is doubtful: {told['doubts']}. " in told["verdict"]
    assert "What to do: make the reference longer" in told["verdict"]


def test_chains_at_different_images_of_an_embedding_agree():
    """R and -R are the same function: what the model cannot tell apart has a large R-hat, but not what it predicts."""
    rng = np.random.default_rng(2)
    X = rng.uniform(-1, 1, (12, 2))
    gpm = pma.embedding_gp(X, np.sin(3 * X[:, 0]), n_components=1, priors={"log_outputscale": 0.0})
    fit = pma.fit_laplace(gpm, **QUICK)
    thetas = fit.best.draw(200, np.random.default_rng(1))
    thetas[100:, gpm.embedding_slice[0]] *= -1
    assert not pma.check(fit, as_trace(gpm, thetas), X_new=X[:3]).attrs["doubts"]


@pytest.fixture(scope="module")
def particles():
    return pma.fit(pma.ard_gp(*data()), random_seed=2, progressbar=False)


@pytest.fixture(scope="module")
def longer(particles):
    return pma.check(particles, n_particles=512, pool=POOL, random_seed=3)


def test_the_fit_a_user_gets_is_compared_with_a_longer_run(particles, longer):
    assert set(longer.children) == {"predictions", "evidence", "decision"}
    assert [longer.attrs[name] for name in ("reference", "n_draws", "reference_by")] == ["run", 512, "smc"]
    assert "another run (512 draws), " in longer.attrs["verdict"]
    predictions, evidence = longer["predictions"].to_dataset(), longer["evidence"].to_dataset()
    assert predictions.approximation.to_numpy().tolist() == ["particles"]
    own = pma.predict(particles, POOL)
    for name in ("f_mean", "f_variance"):
        assert_allclose(predictions[name][0], own[name], rtol=1e-12)
    assert float(evidence.log_evidence[0]) == particles.log_evidence
    assert float(evidence.standard_error[0]) == particles.log_evidence_error
    # Two estimates of one number, within four common standard errors.
    assert np.ptp(evidence.log_evidence.to_numpy()) < 4 * np.hypot(*evidence.standard_error)
    decision = longer["decision"].to_dataset()
    assert_allclose(decision.score.sel(criterion="bald"), pma.active.bald(particles, POOL), rtol=1e-9)
    assert decision.criterion.to_numpy().tolist() == ["bald", "integrated_variance", "expected_improvement"]


@pytest.fixture
def searched():
    """A wave at 40 points, where fit relies on draws around searched modes."""
    x = np.random.default_rng(3).uniform(-1, 1, (40, 1))
    y = np.sin(9 * x[:, 0]) + 0.1 * np.random.default_rng(4).normal(size=40)
    return pma.ard_gp(x, y, kernel="ExpQuad", bounds=[(-1, 1)])


def test_a_longer_run_is_not_the_fit_again(searched):
    fit = pma.fit(searched, n_particles=64, random_seed=0, progressbar=False)
    assert fit.diagnostics["method"] == "importance"
    checked = pma.check(fit, n_particles=128, random_seed=0, progressbar=False)
    own, other = checked["evidence"].log_evidence.to_numpy()
    assert own != other
    assert abs(own - other) < 4 * np.hypot(*checked["evidence"].standard_error.to_numpy())
    assert checked.attrs["reference_by"] == "smc and importance"


def test_what_every_search_misses_is_found_by_annealing(monkeypatch, searched):
    """All searches end where everything is noise, and nothing is annealed from there."""
    noise = {"log_lengthscale": [1.5], "log_outputscale": 0.0, "mean_constant": 0.0, "log_noise": 0.0}
    mode = pma.fit_laplace(searched, start=noise, n_restarts=0, population=0, progressbar=False)

    def lame(gpm, n_particles, rng, progressbar, n_annealed=None):
        return modes.from_modes(mode, n_particles, rng, "", None)

    monkeypatch.setattr(modes, "anneal_around", lambda *args: SimpleNamespace(log_evidence_error=np.inf))
    monkeypatch.setattr(choose, "choose", lame)
    fit = lame(searched, 64, np.random.default_rng(0), False)
    checked = pma.check(fit, n_particles=128, random_seed=1, progressbar=False)
    own, other = checked["evidence"].log_evidence.to_numpy()
    assert other > own + 10
    assert " nats, with an unknown error)." in checked.attrs["verdict"]


def test_a_longer_run_uses_the_data_of_the_fit_and_leaves_the_model_its_own(particles):
    gpm = pma.ard_gp(*data())
    fit = pma.fit(gpm, n_particles=64, random_seed=0, progressbar=False)
    gpm.set_data(NEW, NEW[:, 0])
    checked = pma.check(fit, n_particles=64, X_new=NEW, random_seed=0)
    assert_array_equal(gpm.X, NEW)
    evidence = checked["evidence"].to_dataset()
    assert np.ptp(evidence.log_evidence.to_numpy()) < 5 * np.hypot(*evidence.standard_error)


@pytest.mark.parametrize(
    "make",
    [
        lambda X, y: pma.embedding_gp(X, y, n_components=1),
        # More inputs than data: a space of fewer coordinates, in which new points have some of their own.
        lambda X, y: pma.embedding_gp(np.tile(X, 7) + 0.1 * np.arange(14) * X[:, 1:], y, n_components=2),
        lambda X, y: pma.composite_gp(X, y, "SE[0] + LIN[1]"),
        lambda X, y: pma.ard_gp(X, y, priors={"log_lengthscale": 0.0, "log_outputscale": 0.0, "log_noise": -1.0}),
    ],
    ids=["embedding", "more inputs than data", "composite", "nothing free"],
)
def test_models_of_every_kind_are_checked(make):
    X = np.random.default_rng(0).uniform(-1, 1, (9, 2))
    gpm = make(X, np.sin(2 * X[:, 0]))
    fit = pma.fit(gpm, n_particles=64, random_seed=1, progressbar=False)
    checked = pma.check(fit, n_particles=64, pool=gpm.X[:4], random_seed=2)
    assert np.isfinite(checked["predictions"]["nll"]).all()
    assert checked.attrs["verdict"].startswith("The fit predicts" if gpm.shapes else "The model has no free parameters")


def test_true_utilities_are_those_of_the_public_criteria_over_the_trace(fit, trace, report):
    true = report["decision"]["true_utility"]
    means, variances, noises = draw_moments(fit.best.posterior, trace_thetas(fit.gpm, trace), POOL)
    # An integral for every pair of draws, so at two candidates; they are scored one by one.
    some = np.s_[:, ::8]
    for name, variance in (("bald", variances + noises), ('bald(target="f")', variances)):
        found = true.sel(criterion=name)[::8]
        assert_allclose(found, mutual_information(means[some], variance[some]), rtol=1e-7, atol=1e-9)
    expected = {
        "uncertainty": np.sqrt(pma.predict(trace, POOL, model=fit.gpm).f_variance),
        "expected_improvement": pma.active.expected_improvement(trace, POOL, model=fit.gpm),
        "upper_confidence_bound": pma.active.upper_confidence_bound(trace, POOL, model=fit.gpm),
    }
    for name, values in expected.items():
        assert_allclose(true.sel(criterion=name), values, rtol=1e-7, atol=1e-9)


def test_scores_are_those_of_the_public_criteria_over_the_fit(fit, report):
    score = report["decision"]["score"]
    assert_allclose(score.sel(criterion='bald(target="f")'), pma.active.bald(fit, POOL, target="f"), rtol=1e-9)
    for name in CRITERIA:
        seeded = {"random_seed": 0} if name in ("integrated_variance", "pes") else {}
        values = getattr(pma.active, name)(fit, POOL, **seeded)
        assert_allclose(score.sel(criterion=name), values, rtol=1e-9, err_msg=name)


def test_regret_is_the_utility_of_our_pick(report):
    decision = report["decision"].to_dataset()
    for name in decision.criterion.to_numpy():
        one = decision.sel(criterion=name)
        utility, pick = one.true_utility.to_numpy(), int(np.argmax(one.score.to_numpy()))
        assert (int(one.pick), int(one.best)) == (pick, np.argmax(utility))
        if name == "expected_improvement":
            utility = np.exp(utility)
        elif name == "upper_confidence_bound":
            utility = utility - utility.min()
        assert_allclose(float(one.regret_ratio), utility[pick] / utility.max(), rtol=1e-9)
        assert 0 <= float(one.regret_ratio) <= 1


def test_criteria_can_be_chosen_and_are_judged_by_their_own_truth(fit, trace):
    chosen = pma.check(fit, trace, pool=POOL, criteria=["uncertainty", partial(pma.active.bald, draws=64)])["decision"]
    assert chosen["criterion"].to_numpy().tolist() == ["uncertainty", "bald(draws=64)"]
    bound = pma.active.upper_confidence_bound
    lowest = pma.check(fit, trace, pool=POOL, criteria=["upper_confidence_bound"], minimize=True)["decision"]
    assert_allclose(lowest["true_utility"][0], bound(trace, POOL, model=fit.gpm, minimize=True))
    criteria = [partial(bound, beta=beta) for beta in (0.0, 25.0)]
    decision = pma.check(fit, trace, pool=POOL, criteria=criteria)["decision"]
    for row, criterion in zip(decision.true_utility, criteria, strict=True):
        assert_allclose(row, criterion(trace, POOL, model=fit.gpm), rtol=0.05)


def test_every_name_of_the_registry_is_taken(fit, trace):
    """But the criteria between models; and a path of Thompson sampling has no utility that others could judge."""
    for name in ("thompson", "bams"):
        with pytest.raises(ValueError, match=f"criteria must be among .*; got '{name}'"):
            pma.check(fit, trace, pool=POOL, criteria=name)
    known = [name for name in criterion_names("moments", "maximum") if name != "thompson"]
    decision = pma.check(fit, trace, pool=POOL, criteria=known, random_seed=0)["decision"]
    assert decision["criterion"].to_numpy().tolist() == known
    for name in ("joint_entropy_search", "entropy_search", "max_value_entropy", "pes"):
        one = decision.sel(criterion=name)
        assert spearmanr(one["score"], one["true_utility"]).statistic > 0.5
    joint = pma.active.joint_entropy_search(fit, POOL, random_seed=0)
    assert_allclose(decision["score"].sel(criterion="joint_entropy_search"), joint, rtol=1e-9)


def test_bad_input_is_refused_before_a_longer_run_begins(fit, trace, particles, monkeypatch):
    def fail(*args, **keywords):
        raise AssertionError("a longer run began")

    monkeypatch.setattr(compare_module, "longer_run", fail)
    lacking = xr.DataTree.from_dict({"posterior": trace["posterior"].to_dataset().drop_vars("log_noise")})
    cases = [
        ({"pool": [[np.nan]]}, "pool must be finite"),
        ({"pool": [[1.0, 2.0]]}, "pool must have 1 columns"),
        ({"pool": [[[1.0, 2.0]]]}, "pool must be a matrix"),
        ({"X_new": [[np.inf]]}, "X_new must be finite"),
        ({"X_new": NEW, "y_new": [1.0]}, "equally many points"),
        ({"pool": POOL, "criteria": ["bald", "nonsense"]}, "criteria must be among bald, .*got 'bald', 'nonsense'"),
        ({"pool": POOL, "criteria": []}, "criteria must be among .*got none"),
        ({"reference": trace, "trace": trace}, "two names of one argument"),
        ({"criteria": ["bald"]}, "pass pool= as well"),
        ({"n_particles": 3}, "n_particles must be a whole number from 32; got 3"),
        ({"reference": xr.DataTree()}, "no group 'posterior'"),
        ({"reference": lacking}, "it lacks log_noise"),
    ]
    for keywords, message in cases:
        with pytest.raises(ValueError, match=message):
            pma.check(**{"fit": fit} | keywords)
    for other in (fit.gpm, fit.ensemble, {"SE": fit}):
        with pytest.raises(TypeError, match=r"check takes a fit of one model, of several .*best; got"):
            pma.check(other)
    for other in (xr.Dataset(), fit.ensemble):
        with pytest.raises(TypeError, match=r"reference must be a DataTree of draws.* or a fit; got"):
            pma.check(fit, other)
    given = trace.copy()
    given["observed_data"] = xr.Dataset({fit.gpm.name: ("obs", np.append(fit.y, 1.0))})
    with pytest.raises(ValueError, match=r"other data \(11 points\) than the fit \(10 points\)"):
        pma.check(fit, given)
    constant = pma.fit_laplace(pma.ard_gp(NEW, np.zeros(7)), **QUICK)
    with pytest.raises(ValueError, match="all 7 observations are equal"):
        pma.check(constant, pool=POOL, criteria=["pes"])
    with pytest.raises(ValueError, match="a fit to other data"):
        pma.check(constant, particles)


def changed(report, **values):
    """The verdict on other numbers: ``group__variable`` or ``group__variable__label``."""
    other = report.copy(deep=True)
    for name, value in values.items():
        group, variable, *label = name.split("__")
        dataset = other[group].to_dataset()
        array = dataset[variable]
        where = array[array.dims[0]] == label[0] if label else array.notnull() | array.isnull()
        dataset[variable] = xr.where(where, value, array, keep_attrs=True)
        other[group].dataset = dataset
    return verdict(other)


GOOD = {
    "predictions__nll": 1.01,
    "predictions__true_nll": 1.0,
    "predictions__nll_loss_error": 0.001,
    "evidence__standard_error": 0.1,
    "decision__regret_ratio": 1.0,
}


def evidences(own, true):
    return {"evidence__log_evidence__fit": own, "evidence__log_evidence__reference": true}


@pytest.mark.parametrize(
    ("change", "sentences"),
    [
        ({}, ["The fit predicts as well as MCMC (300 draws), to 0.02 nats a point.", "its picks have: bald 1.00, unc",
              "What to do: go on, the fit serves here."]),
        ({"predictions__nll": 1.05}, ["predicts worse than MCMC (300 draws), by 0.05 ± 0.001 nats a point", "go on"]),
        ({"predictions__nll": 0.9}, ["predicts better than MCMC (300 draws), by 0.1 ± 0.001 nats a point", "go on"]),
        ({"predictions__nll": 1.5}, ["by 0.5 ± 0.001 nats", "fit with more particles or draws (n_particles), of a"]),
        (evidences(-3.5, -3.4), ["Its log evidence agrees (-0.10 ± 0.14 nats)", "go on"]),
        (evidences(-3.5, -3.0), ["differs (-0.50 ± 0.14 nats).", "go on"]),
        (evidences(-5.0, -3.0), ["differs (-2.00", "compare models by the evidence of the reference"]),
        ({"decision__regret_ratio__bald": 0.5}, ["bald 0.50", "look at the utilities of bald, or fit with more"]),
    ],
)  # fmt: skip
def test_the_verdict_says_what_the_numbers_mean(report, change, sentences):
    text = changed(report, **(GOOD | change))
    for sentence in sentences:
        assert sentence in text
    assert 2 <= text.count(". ") <= 4


def test_a_reference_that_misses_mass_is_not_believed(particles, monkeypatch):
    """Particles can only miss mass, so the higher evidence is the better one."""
    made, low = report_module.make_reference, Evidence(-100.0, 0.1, "smc")
    monkeypatch.setattr(report_module, "make_reference", lambda *args: made(*args)._replace(evidence=low))
    checked = pma.check(particles, particles, X_new=NEW)
    assert "so it misses a part of the posterior" in checked.attrs["doubts"]
    assert f"the reference is doubtful: {checked.attrs['doubts']}. " in checked.attrs["verdict"]
    assert "make the reference longer (n_particles" in checked.attrs["verdict"]
    for ours, error, misses in ((0.6, 0.01, False), (0.8, 0.01, True), (0.8, 0.3, False), (1.3, 0.3, True)):
        assert Differences(0.0, ours, error).reference_misses_mass is misses
    assert Differences(0.0, 9.0, np.nan).reference_misses_mass is False


def test_a_reference_no_longer_than_the_fit_says_so(particles, longer):
    """As where no more particles are affordable; another fit is another method, whatever its length."""
    sentence = "it has no more draws than the fit, 256, so both may miss the same"
    assert not longer.attrs["doubts"]
    assert sentence in pma.check(particles, n_particles=64, X_new=NEW, random_seed=3).attrs["verdict"]
    other = pma.fit(particles.gpm, random_seed=3, progressbar=False)
    assert not pma.check(particles, other, X_new=NEW[:2]).attrs["doubts"]
    # A fit is no reference of itself, against which it loses nothing.
    itself = pma.check(particles, particles, X_new=NEW, pool=POOL, criteria=["uncertainty", "epig"], random_seed=0)
    assert sentence not in itself.attrs["verdict"]
    assert "draws of the fit itself" in itself.attrs["verdict"]
    predictions, evidence = itself["predictions"].to_dataset(), itself["evidence"].to_dataset()
    assert_allclose(predictions.nll[0], predictions.true_nll, rtol=1e-12)
    assert_allclose(predictions.skl[0], 0, atol=1e-9)
    assert evidence.log_evidence[0] == evidence.log_evidence[1]
    assert (itself["decision"]["regret_ratio"] > 0.9).all()
    assert "predicts as well as the other fit" in itself.attrs["verdict"]


def inhibition():
    dose = np.geomspace(0.03, 30, 6)
    with pm.Model() as model:
        EC50, noise = pm.LogNormal("EC50", 0, 1.5), pm.HalfNormal("noise", 0.3)
        response = 1 / (1 + pm.Data("dose", dose) / EC50)
        pm.Normal("response", response, noise, observed=[1.1, 0.8, 0.85, 0.55, 0.2, 0.05])
    return model


def counting(sd=1):
    x = np.linspace(-1, 1, 12)
    with pm.Model() as model:
        base, slope = pm.Normal("base", 0, sd), pm.Normal("slope", 0, sd)
        pm.Poisson("n", pm.math.exp(base + slope * pm.Data("x", x)), observed=[1, 0, 2, 1, 3, 2, 2, 4, 3, 6, 7, 9])
    return model


ANY = {
    # Log densities (S, m) by SciPy, of the constrained draws.
    "normal": (
        inhibition,
        lambda z, y, doses: norm.logpdf(y, 1 / (1 + doses / z["EC50"][:, None]), z["noise"][:, None]),
    ),
    "poisson": (counting, lambda z, y, x: poisson.logpmf(y, np.exp(z["base"][:, None] + z["slope"][:, None] * x))),
}


@pytest.fixture(scope="module", params=ANY)
def of_any(request):
    """A fit of a PyMC model, its density, and its posterior as a trace of several chains."""
    make, density = ANY[request.param]
    fit = pma.fit(make(), random_seed=1, progressbar=False)
    longer = pma.fit(fit.gpm, n_particles=2000, random_seed=2, progressbar=False)
    thetas = longer.draw(2000, 3)
    return fit, density, lambda shift=0.0: as_trace(fit.gpm, thetas + shift * thetas.std(0))


def test_a_fit_of_any_model_is_compared_with_a_longer_run(of_any):
    fit, _, _ = of_any
    pool = fit.X[::3]
    one, other = (pma.check(fit, pool=pool, random_seed=4, n_particles=1024, progressbar=False) for _ in range(2))
    assert (one.attrs["reference"], one.attrs["reference_by"], one.attrs["n_draws"]) == ("run", "smc", 1024)
    assert "predicts as well as another run (1,024 draws), to 0.02" in one.attrs["verdict"]
    assert "Its log evidence agrees" in one.attrs["verdict"]
    # Candidates are nearly as good as each other.
    assert (one["decision"].regret_ratio > 0.75).all()
    own = pma.predict(fit, pool)
    for name in ("f_mean", "f_variance"):
        assert_allclose(one["predictions"][name][0], own[name], rtol=1e-10)
    # With all particles, not the 256 of a first look.
    assert_allclose(one["decision"].score.sel(criterion="bald"), pma.active.bald(fit, pool), rtol=0.2)
    assert one["decision"].criterion.to_numpy().tolist() == ["bald", "epig", "expected_improvement"]
    assert one.attrs == other.attrs
    for group in ("predictions", "evidence", "decision"):
        assert one[group].to_dataset().identical(other[group].to_dataset())


def test_densities_of_any_outcomes_are_those_of_scipy(of_any):
    fit, density, make_trace = of_any
    trace, X_new, y_new = make_trace(), fit.X[1::2], fit.y[::2]
    checked = pma.check(fit, trace, X_new=X_new, y_new=y_new)["predictions"]
    w, z = fit.ensemble.weights, fit.gpm.constrain(fit.ensemble.thetas)
    expected = -logsumexp(density(z, y_new, X_new[:, 0]), axis=0, b=w[:, None])
    assert_allclose(checked["nll"][0], expected, rtol=1e-8)
    z = {name: trace["posterior"][name].to_numpy().ravel() for name in fit.gpm.free}
    draws = density(z, y_new, X_new[:, 0])
    assert_allclose(checked["true_nll"], np.log(len(draws)) - logsumexp(draws, axis=0), rtol=1e-8)


def test_without_observations_the_density_of_any_outcome_is_an_expectation(of_any):
    """Of -log p(y) over the outcome: a sum over counts, a quadrature over numbers."""
    fit, density, make_trace = of_any
    checked = pma.check(fit, make_trace(), X_new=fit.X[[1, -2]])["predictions"]
    z = {name: make_trace()["posterior"][name].to_numpy().ravel() for name in fit.gpm.free}
    y = np.arange(60.0) if fit.gpm.name == "n" else np.linspace(-3, 4, 701)
    for x, found in zip(fit.X[[1, -2], 0], checked["true_nll"].to_numpy(), strict=True):
        log = logsumexp(density(z, y, x), axis=0) - np.log(2000)
        p = np.exp(log) / np.exp(log).sum()
        expected = -p @ log
        assert abs(found - expected) < 4 * np.sqrt(p @ np.square(log + expected) / 400)


def test_a_reference_of_other_priors_is_refused_and_one_of_few_draws_doubted():
    """PyMC's own log density tells that a trace is of the same model."""
    fit, other = (pma.fit(counting(sd), random_seed=1, progressbar=False) for sd in (1, 0.2))
    trace = as_trace(fit.gpm, fit.draw(9, 0), chains=1)
    assert "NOT converged" in pma.check(fit, trace).attrs["doubts"]
    draws = trace["posterior"].to_dataset().to_dataframe().to_dict("records")
    own, stranger = ([float(counting(sd).compile_logp()(one)) for one in draws] for sd in (1, 0.2))
    trace["sample_stats"] = xr.Dataset({"lp": (("chain", "draw"), np.reshape(own, (1, 9)) + 3.0)})
    assert pma.check(fit, trace).attrs["n_draws"] == 9
    trace["sample_stats"]["lp"][:] = np.reshape(stranger, (1, 9))
    for reference in (other, trace):
        with pytest.raises(ValueError, match="of another model than the fit"):
            pma.check(fit, reference)


def test_outcomes_in_a_tail_are_not_taken_for_a_worse_fit():
    """Of two runs of one fit: far outside the data hardly any count that one draws has a density in the other."""
    fits = [pma.fit(counting(2), random_seed=seed, progressbar=False) for seed in (1, 2)]
    far = pma.check(*fits, X_new={"x": [4.0, 6.0]})
    lost = Differences.of(far)
    assert abs(lost.nll_loss) > 0.1
    assert not lost.is_worse
    assert "more particles" not in far.attrs["verdict"]
    # The standard error is the spread of what other outcomes would have given.
    near = [Differences.of(pma.check(*pair, X_new={"x": [1.0]})) for pair in (fits, fits[::-1])]
    assert all(abs(one.nll_loss) < 0.02 + 3 * one.loss_error for one in near)
    assert all(0 < one.loss_error < 0.1 for one in near)


def test_rows_that_depend_on_each_other_are_compared_together_and_at_their_own_inputs():
    x, covariance = np.linspace(-1, 1, 4), np.eye(4) + 0.5
    with pm.Model() as model:
        pm.MvNormal("y", pm.Normal("slope") * pm.Data("x", x), covariance, observed=x)
    fit = pma.fit(model, n_particles=64, random_seed=1, progressbar=False)
    checked = pma.check(fit, fit, y_new=2 * x)["predictions"]
    slopes = fit.ensemble.thetas[:, 0]
    log = [multivariate_normal.logpdf(2 * x, slope * x, covariance) for slope in slopes]
    assert_allclose(checked["nll"][0], np.full(4, -logsumexp(log, b=fit.ensemble.weights) / 4))
    with pytest.raises(ValueError, match="entries depend on each other"):
        pma.check(fit, fit, X_new=[[1.0]])


def test_what_cannot_be_checked_of_any_model_is_refused(of_any, monkeypatch):
    fit, pes, asked = of_any[0], "the criterion pes is for GP models; for other models there are bald", []
    monkeypatch.setattr(compare_module, "fit_process", lambda model, n, *args: asked.append((model, n)) or fit)
    for source, keywords, message in (
        (fit.given(fit.X[:0], fit.y[:0]), {}, "no data, so there is nothing to compare at: pass X_new="),
        (fit, {"pool": fit.X, "criteria": "pes"}, pes),
        (fit, {"n_particles": 3}, "n_particles must be a whole number from 32; got 3"),
        (fit, {"X_new": {"other": [1.0]}}, "other"),
    ):
        with pytest.raises(ValueError, match=message):
            pma.check(source, **keywords)
    assert not asked
    # By default a longer run has sixteen times the particles.
    checked = pma.check(fit)
    assert asked == [(fit.gpm, 16 * 512)]
    assert checked["predictions"].sizes["point"] == len(fit.y)
    assert "it has no more draws than the fit" in checked.attrs["doubts"]


def test_outcomes_of_a_likelihood_are_judged_by_their_own_densities():
    """Of yes and no: the cross entropy of the probabilities that either fit predicts."""
    rng = np.random.default_rng(3)
    X, X_new = rng.uniform(-1, 1, (24, 2)), rng.uniform(-1, 1, (30, 2))
    gpm = pma.ard_gp(X, X[:, 0] > 0.1, bounds=[(-1, 1)] * 2, likelihood="bernoulli")
    fit, other = (pma.fit(gpm, n_particles=128, random_seed=seed, progressbar=False) for seed in (1, 2))
    found = pma.check(fit, other, X_new=X_new)["predictions"]
    q, p = (pma.predict(one, X_new).f_mean.to_numpy() for one in (fit, other))
    assert_allclose(found.f_mean[0], q, atol=1e-6)
    assert_allclose(found.true_f_mean, p, atol=1e-6)
    for values, of in ((found.nll[0], q), (found.true_nll, p)):
        direct = -(p * np.log(of) + (1 - p) * np.log(1 - of))
        # Of 128 draws each.
        assert_allclose(values.mean(), direct.mean(), atol=0.03)
    for y_new, is_told in ((X[:, 0] > 0.1, False), (X[:, 0] < 0.1, True)):
        assert ("contradict both" in pma.check(fit, other, y_new=y_new.astype(float)).attrs["verdict"]) == is_told
    with pytest.raises(ValueError, match="of likelihood='bernoulli'"):
        pma.check(fit, other, y_new=np.full(24, 0.5))
