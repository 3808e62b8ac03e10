"""Covariances of PyMC models and their derivatives in the inputs, by graphs: against arrays and formulas."""

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from nightly import nightly
from numpy.testing import assert_allclose, assert_array_equal
from pytensor.graph.traversal import ancestors
from pytensor.scalar import Clip
from pytensor.tensor.basic import AllocDiag
from users import Written, users_gp

import pymc_active as pma
from pymc_active.paths.kernel_sums import KernelSums
from pymc_active.posterior import graph
from pymc_active.posterior.compile_mode import vm_mode
from pymc_active.posterior.conditioned import ConditionedGP

pytestmark = pytest.mark.slow

cov = pm.gp.cov
RNG = np.random.default_rng(20260101)
X = RNG.uniform(-1, 1, size=(6, 2))
y = np.sin(3 * X[:, 0]) + X[:, 1] ** 2
LS = np.array([0.7, 1.3])


def hand_written(cov_func, mean=pm.gp.mean.Zero, X=X):
    """The log posterior of a model with this covariance and one parameter."""
    # Who says how to compile gets graphs, of any covariance.
    return users_gp(X, y, lambda: cov_func, lambda: pm.HalfNormal("noise"), mean).posterior({})


BUILDERS = {
    "ard Matern52, linear mean": lambda: pma.ard_gp(X, y, kernel="Matern52", mean="linear"),
    "embedding": lambda: pma.embedding_gp(X, y, n_components=1, kernel="Matern52", mean="constant"),
    "composite": lambda: pma.composite_gp(X, y, "LIN[0] * SE[1] + PER[1] * RQ"),
}
_routes: dict[str, tuple] = {}
NAMES = [pytest.param(name, marks=[] if name.startswith("ard") else pytest.mark.nightly) for name in BUILDERS]


def routes(name):
    """Arrays and graphs of one model, built once, with a theta where nothing vanishes."""
    if name not in _routes:
        gpm = BUILDERS[name]()
        arrays = gpm.posterior()
        theta = arrays.prior_scale()[0] + 0.3 * np.random.default_rng(5).normal(size=arrays.n_parameters)
        _routes[name] = arrays, gpm.make().posterior({}), theta
    return _routes[name]


def points():
    """Points that meet the data, nearly meet them, and do not."""
    rng = np.random.default_rng(6)
    return np.concatenate([X[:3], X[:2] + 1e-5, rng.uniform(-1, 1, size=(4, 2))])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("pairs", [100_000, 4])
def test_graphs_agree_with_arrays(name, pairs, monkeypatch):
    monkeypatch.setattr(graph, "_PAIRS", pairs)
    arrays, graphs, theta = routes(name)
    expected, got = ConditionedGP(arrays, theta), ConditionedGP(graphs, theta)
    b, W = points(), RNG.normal(size=(len(X), 9))
    for method, arguments, rtol in (
        ("covariance", (X, b), 1e-12),
        ("prior_variance", (b,), 1e-11),
        ("pull", (b, W), 1e-11),
        ("prior_variance_gradient", (b,), 1e-8),
        ("moment_gradients", (b,), 1e-8),
    ):
        wanted = np.asarray(getattr(expected, method)(*arguments))
        values = np.asarray(getattr(got, method)(*arguments))
        assert_allclose(values, wanted, rtol=0, atol=rtol * np.abs(wanted).max(), err_msg=method)


@pytest.mark.parametrize("name", NAMES)
def test_curvatures_of_sums_agree_with_arrays(name):
    arrays, graphs, theta = routes(name)
    weights, which = RNG.normal(size=(4, len(X))), np.arange(9) % 4
    sums = [KernelSums(ConditionedGP(p, theta), X, weights).derivatives(points(), which) for p in (arrays, graphs)]
    for wanted, values, rtol in zip(*sums, (1e-12, 1e-11, 1e-6), strict=True):
        assert_allclose(values, wanted, rtol=0, atol=rtol * np.abs(wanted).max())


def test_diagonal_matrices_are_elementwise_and_the_same():
    v, rows, test = pt.vector("v"), pt.matrix("rows"), RNG.normal(size=(3, 4))
    plain, beside = graph._elementwise_diagonals([pt.diag(pt.exp(v)) + 1, pt.diag(v, 1)])
    kept = [any(isinstance(a.owner.op, AllocDiag) for a in ancestors([e]) if a.owner) for e in (plain, beside)]
    assert kept == [False, True]
    function = pytensor.function([rows], graph.in_rows([plain], {v: rows}), mode=vm_mode())
    assert_array_equal(function(test)[0], [np.diag(np.exp(row)) + 1 for row in test])


@pytest.mark.parametrize("name", NAMES)
def test_the_mean_and_its_slope_agree_with_arrays(name):
    arrays, graphs, theta = routes(name)
    b = points()
    for got, expected in zip(graphs.prior_mean(theta, b), arrays.prior_mean(theta, b), strict=True):
        assert_allclose(got, expected, rtol=1e-12, atol=1e-14)


def test_the_slope_of_a_mean_that_somebody_wrote():
    class Sine(pm.gp.mean.Mean):
        def __call__(self, X):
            return pt.sin(X[:, 0]) * X[:, 1]

    posterior, b = hand_written(cov.ExpQuad(2, ls=0.7), Sine), points()
    mean, gradient = posterior.prior_mean(np.zeros(1), b)
    assert_allclose(mean, np.sin(b[:, 0]) * b[:, 1], rtol=1e-14)
    assert_allclose(gradient, np.stack([np.cos(b[:, 0]) * b[:, 1], np.sin(b[:, 0])], axis=1), rtol=1e-14)


def test_sums_of_more_terms_than_numpy_has_operands():
    terms = [pt.vector() for _ in range(70)]
    function = pytensor.function(terms, sum(terms), mode=vm_mode())
    assert_array_equal(function(*(np.full(2, float(k)) for k in range(70))), np.full(2, 69 * 35.0))


@pytest.mark.parametrize("limits", [(0.0, np.inf), (-1, 2), (2.0, -1.0)])
def test_clipping_calls_python_for_no_number_of_an_array(limits):
    x, x_test = pt.vector(), np.array([-3.0, 0.5, 7.0, np.nan])
    clipped = pt.clip(x, *limits)
    function = pytensor.function([x], clipped, mode=vm_mode())
    clips = [node for node in function.maker.fgraph.apply_nodes if isinstance(getattr(node.op, "scalar_op", 0), Clip)]
    # PyTensor has its own meaning for limits in the wrong order.
    assert bool(clips) == (limits[0] > limits[1])
    assert_array_equal(function(x_test), clipped.eval({x: x_test}, mode="FAST_COMPILE"))


def test_logarithms_of_probabilities_call_python_for_no_number_of_an_array():
    x, x_test = pt.vector(), -np.array([0.0, 1e-300, 1e-10, 0.5, 0.7, 1.0, 50.0, 800.0])
    terms = [pt.softplus(x), pt.softplus(-x), pt.log1mexp(x)]
    function = pytensor.function([x], terms, mode=vm_mode())
    assert not [node for node in function.maker.fgraph.apply_nodes if node.op in (pt.softplus, pt.log1mexp)]
    with np.errstate(divide="ignore"):
        found, expected = function(x_test), [term.eval({x: x_test}, mode="FAST_COMPILE") for term in terms]
    assert_allclose(found, expected, rtol=1e-14)


def test_far_from_zero_distances_do_not_cancel():
    """PyMC's own lose nine digits here."""
    far = np.array([[2.0e4, 1.0], [2.0e4 + 1e-3, 1.0]])
    gp = ConditionedGP(hand_written(cov.Matern52(2, ls=LS)), np.zeros(1))
    r = np.sqrt(5) * 1e-3 / 0.7
    # To the 1e-12 that PyMC adds under roots, and the rounding of the points.
    assert_allclose(1 - gp.covariance(far[:1], far[1:])[0, 0], 1 - (1 + r + r**2 / 3) * np.exp(-r), rtol=1e-6)


def test_the_users_covariance_is_not_changed():
    base = cov.Matern52(2, ls=LS)
    kernel = cov.WarpedInput(2, base, pt.tanh)
    before = dict(vars(base)), dict(vars(kernel))
    got = hand_written(kernel).covariance(np.zeros(1), X, X[:2])
    assert (vars(base), vars(kernel)) == before
    assert_allclose(got, kernel(X, X[:2]).eval(), rtol=1e-9)


def test_pes_in_a_box_refuses_a_kernel_that_somebody_wrote():
    gpm = users_gp(X, y, lambda: Written(2, ls=LS), lambda: pm.HalfNormal("noise"))
    point = gpm.unflatten(np.zeros(1))
    with pytest.raises(ValueError, match="list candidates in a pool, use a builder's model, or another criterion"):
        pma.active.pes(point, X, model=gpm, bounds=[(-1, 1)] * 2)
    assert np.isfinite(pma.active.pes(point, X, model=gpm, n_optima=4, random_seed=0)).all()


def test_other_data_compile_nothing(monkeypatch):
    posterior, theta = hand_written(cov.ExpQuad(2, ls=LS)), np.zeros(1)

    def everything(posterior):
        posterior.prior_mean(theta, points())
        posterior.sums(theta, posterior.X, points(), np.ones((len(posterior.X), 1)))
        return posterior.covariance(theta, posterior.X, points())

    everything(posterior)
    monkeypatch.setattr(posterior._functions, "compile", lambda *_: pytest.fail("compiled again"))
    more = np.random.default_rng(9).normal(size=(11, 2))
    other = posterior.with_data(more, np.zeros(11))
    expected = np.exp(-0.5 * (((more[:, None] - points()) / LS) ** 2).sum(-1))
    assert_allclose(everything(other), expected, rtol=1e-13)
    assert_array_equal(posterior.X, X)


class _Wave(pm.gp.mean.Mean):
    def __call__(self, X):
        return pt.sin(X[:, 0])


@pytest.mark.parametrize(
    ("make", "mean", "hides"),
    [
        (lambda C, ls: pma.cov.Embedding(C.ExpQuad(1, ls=ls), np.ones((1, 1)), 1), pm.gp.mean.Constant(1.0), False),
        (lambda C, ls: C.ExpQuad(1, ls=ls) + C.Periodic(1, period=1, ls=ls), None, True),
        (lambda C, ls: C.ExpQuad(1, ls=ls), _Wave(), True),
        *nightly(
            (lambda C, ls: C.Matern52(1, ls=ls) * C.Linear(1, c=0) + C.RatQuad(1, alpha=1, ls=ls) ** 2, None, False),
            (lambda C, ls: C.Gibbs(1, lambda x, a: a + pt.sin(x) ** 2, args=(ls,)), None, True),
            (lambda C, ls: C.ScaledCov(1, C.ExpQuad(1, ls=ls), lambda x, a: pt.sin(x), (ls,)), None, True),
        ),
    ],
)
def test_only_plain_kernels_and_means_hide_no_modes(make, mean, hides):
    x = np.linspace(0, 3, 6)[:, None]
    with pm.Model() as model:
        given = {} if mean is None else {"mean_func": mean}
        gp = pm.gp.Marginal(cov_func=make(pm.gp.cov, pm.LogNormal("ls", 0, 1)), **given)
        gp.marginal_likelihood("y", X=pm.Data("X", x), y=pm.Data("y_data", np.sin(x[:, 0])), sigma=0.1)
    assert pma.from_marginal(gp, model=model).posterior().hides_modes is hides
