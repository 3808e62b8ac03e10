"""Derivatives of covariances along lines from PyTensor graphs: against arrays, high precision and differences."""

from functools import partial

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from pytensor.scalar import Clip
from users import users_gp

import pymc_active as pma
from pymc_active.posterior import graph_taylor
from pymc_active.posterior.compile_mode import vm_mode

pytestmark = pytest.mark.slow

cov = pm.gp.cov
RNG = np.random.default_rng(20260101)
X = RNG.uniform(-1, 1, size=(6, 2))
y = np.sin(3 * X[:, 0]) + X[:, 1] ** 2


def hand_written(cov_func, mean=pm.gp.mean.Zero, X=X):
    """The log posterior of a model with this covariance and one parameter."""
    return users_gp(X, y, lambda: cov_func, lambda: pm.HalfNormal("noise"), mean).posterior()


# ---------------------------------------------------------------- against the array route

BUILDERS = {
    "ard Matern52, linear mean": lambda: pma.ard_gp(X, y, kernel="Matern52", mean="linear"),
    "embedding": lambda: pma.embedding_gp(X, y, n_components=1, kernel="Matern52", mean="constant"),
    "composite": lambda: pma.composite_gp(X, y, "LIN[0] * SE[1] + PER[1] * RQ"),
}
_routes: dict[str, tuple] = {}


def routes(name):
    """Arrays and graphs of one model, built once, with a theta where nothing vanishes."""
    if name not in _routes:
        gpm = BUILDERS[name]()
        arrays = gpm.posterior()
        theta = arrays.prior_scale()[0] + 0.3 * np.random.default_rng(5).normal(size=arrays.n_parameters)
        _routes[name] = arrays, gpm.make().posterior(), theta
    return _routes[name]


def points():
    """Points that meet, nearly meet and do not, with their directions."""
    rng = np.random.default_rng(6)
    b = np.concatenate([X[:3], X[:2] + 1e-5, rng.uniform(-1, 1, size=(4, 2))])
    return X[:, None], b, rng.normal(size=X[:, None].shape), rng.normal(size=b.shape)


def assert_same(got, expected, shape):
    assert set(expected) <= set(got)
    for key, value in got.items():
        assert value.shape == shape
        value_expected = np.broadcast_to(expected.get(key, 0.0), shape)
        assert_allclose(value, value_expected, rtol=1e-8, atol=1e-10 * max(1, np.abs(value_expected).max()))


@pytest.mark.parametrize("order", [(0, 0), (0, 2), (1, 1)])
@pytest.mark.parametrize("name", BUILDERS)
def test_between_all_points_graphs_agree_with_arrays(name, order):
    arrays, graphs, theta = routes(name)
    a, b, u, v = points()
    expected = arrays.lines(theta, a, b).along(u, v, order)
    assert_same(graphs.lines(theta, a, b).along(u, v, order), expected, (len(a), len(b)))


@pytest.mark.parametrize(("name", "order"), [(name, (2, 2) if name != "composite" else (1, 2)) for name in BUILDERS])
def test_row_by_row_graphs_agree_with_arrays_up_to_fourth_derivatives(name, order):
    arrays, graphs, theta = routes(name)
    _, b, _, v = points()
    a, u = np.concatenate([b[:5], b[4:0:-1]])[: len(b)], v[::-1]
    expected = arrays.lines(theta, a, b).along(u, v, order)
    assert_same(graphs.lines(theta, a, b).along(u, v, order), expected, (len(b),))


@pytest.mark.parametrize("shared", [{"u"}, {"v"}, {"u", "v"}, set()])
def test_directions_broadcast_as_points_do(shared):
    """One direction for all, or one a point, on either side."""
    arrays, graphs, theta = routes("embedding")
    a, b, u, v = points()
    u, v = u[0, 0] if "u" in shared else u, v[0] if "v" in shared else v
    expected = arrays.lines(theta, a, b).along(u, v, (1, 1))
    assert_same(graphs.lines(theta, a, b).along(u, v, (1, 1)), expected, (len(a), len(b)))


def test_a_direction_for_each_pair_of_points():
    """Directions of the left points that follow the right ones."""
    arrays, graphs, theta = routes("embedding")
    a, b, _, v = points()
    expected = arrays.lines(theta, a, b).along(v[::-1], v, (1, 1))
    assert_same(graphs.lines(theta, a, b).along(v[::-1], v, (1, 1)), expected, (len(a), len(b)))


def test_without_a_direction_there_are_no_derivatives():
    arrays, graphs, theta = routes("embedding")
    a, b, _, v = points()
    got = graphs.lines(theta, a, b).along(None, v, (0, 2))
    assert set(got) == {(0, 0), (0, 1), (0, 2)}
    assert_same(got, arrays.lines(theta, a, b).along(None, v, (0, 2)), (len(a), len(b)))
    assert set(graphs.lines(theta, a, b).along(None, None, (2, 2))) == {(0, 0)}


@pytest.mark.parametrize("by_row", [False, True])
def test_blocks_of_points_change_nothing(monkeypatch, by_row):
    _, graphs, theta = routes("embedding")
    a, b, u, v = points()
    a, u = (b, v) if by_row else (a, u)
    whole = graphs.lines(theta, a, b).along(u, v, (1, 1))
    monkeypatch.setattr(graph_taylor, "_BLOCK", 4 if by_row else 13)
    parts = graphs.lines(theta, a, b).along(u, v, (1, 1))
    for key, value in whole.items():
        assert_allclose(parts[key], value, rtol=1e-12)


@pytest.mark.parametrize("name", BUILDERS)
def test_the_mean_and_its_slope_agree_with_arrays(name):
    arrays, graphs, theta = routes(name)
    b = points()[1]
    for got, expected in zip(graphs.prior_mean(theta, b), arrays.prior_mean(theta, b), strict=True):
        assert_allclose(got, expected, rtol=1e-12, atol=1e-14)


def test_the_slope_of_a_mean_that_somebody_wrote():
    class Sine(pm.gp.mean.Mean):
        def __call__(self, X):
            return pt.sin(X[:, 0]) * X[:, 1]

    posterior, b = hand_written(cov.ExpQuad(2, ls=0.7), Sine), points()[1]
    mean, gradient = posterior.prior_mean(np.zeros(1), b)
    assert_allclose(mean, np.sin(b[:, 0]) * b[:, 1], rtol=1e-14)
    assert_allclose(gradient, np.stack([np.cos(b[:, 0]) * b[:, 1], np.sin(b[:, 0])], axis=1), rtol=1e-14)


# ---------------------------------------------------------------- where points meet, against high precision

# Taylor coefficients (1, 1), (0, 2), (1, 2), (2, 2) between HERE along U and two points along V: HERE itself, and one
# close by. They are derivatives of PyMC's own formulas, roots of s + 1e-12 included, by mpmath 1.3 with 120 digits.
HERE, NEAR = np.array([0.3, -0.4]), np.array([0.30001, -0.40002])
U, V = np.array([0.6, -0.5]), np.array([0.9, 0.2])
LS = np.array([0.7, 1.3])

PRECISE = {
    "ExpQuad": (
        (1.04286921869339, -0.838364931771525, 0.0, 0.91376813542774),
        (1.04286921817296, -0.838364931458755, -3.1912843513805e-5, 0.913768134728538),
    ),
    "Matern52": (
        (1.73811536448465, -1.39727488628238, 0.0, 7.61471743485298),
        (1.73811536014787, -1.39727488367606, -0.000265925803197143, 7.61397763253915),
    ),
    "RatQuad": (
        (1.04286921869339, -0.838364931771525, 0.0, 2.05597830471242),
        (1.04286921752242, -0.838364931067793, -7.18038978534226e-5, 2.0559782992062),
    ),
    "Cosine": (
        (41.1708265220369, -33.0973208811071, 0.0, 474.716391933333),
        (41.1708262516639, -33.0973207186184, -0.0165792057210243, 474.716389065256),
    ),
    "Periodic": (
        (8.5063691161793, -6.83828943829027, 0.0, 100.781406673244),
        (8.50636907003926, -6.83828940585316, -0.00347448273265987, 100.781405649877),
    ),
    "WrappedPeriodic": (
        (14.1772818602634, -11.3971490637886, 0.0, 573.264982250961),
        (14.1772815525608, -11.397148871018, -0.0199428158792705, 573.122320361115),
    ),
    "Linear": ((0.44, 0.0, 0.0, 0.0), (0.44, 0.0, 0.0, 0.0)),
    "Polynomial": (
        (0.964116, 0.015168, 0.173952, 0.536976),
        (0.96414922588224, 0.0151682304, 0.1739548416, 0.5369863488),
    ),
    "Gibbs": (
        (4.18934911242604, -3.14201183431953, -1.94173873463814, 25.5715836280242),
        (4.18930595331831, -3.14191474061802, -1.94258095393869, 25.5712145261422),
    ),
    "ScaledCov": (
        (1.43343291872962, -0.113161375437749, 0.576458422895786, 0.86137343190578),
        (1.43345063046622, -0.113176276456999, 0.576452081668636, 0.861389322288207),
    ),
    "WarpedInput": (
        (1.46601963819065, -1.16810564044105, -0.408779290780474, 5.40841426027988),
        (1.4660117704178, -1.16808481534435, -0.408975007583242, 5.40788151087518),
    ),
    "Embedding": (
        (0.642857142855536, -0.0749999999998125, 0.0, 0.929844859576871),
        (0.642857134581072, -0.0749999990344584, -5.99160672229307e-5, 0.929617256524146),
    ),
    "Exponentiated": (
        (2.60717304672588, -2.0959123294227, 0.0, 13.3257597677405),
        (2.60717303913649, -2.09591232486162, -0.000465373795192322, 13.3246500436347),
    ),
    "sum and product": (
        (4.03677488169596, -2.53773849191457, -0.453530974519986, 31.6821324329716),
        (4.03679096127917, -2.53776116283767, -0.454632737509622, 31.6821345993031),
    ),
}


class Renamed(cov.Matern52):
    """Has the profile of its parent."""


KERNELS = {
    "ExpQuad": lambda: cov.ExpQuad(2, ls=LS),
    "Matern52": lambda: cov.Matern52(2, ls=LS),
    "RatQuad": lambda: cov.RatQuad(2, alpha=0.8, ls=LS),
    "Cosine": lambda: cov.Cosine(2, ls=LS),
    "Periodic": lambda: cov.Periodic(2, period=1.1, ls=LS),
    "WrappedPeriodic": lambda: cov.WrappedPeriodic(cov.Matern52(2, ls=LS), period=1.1),
    "Linear": lambda: cov.Linear(2, c=0.1),
    "Polynomial": lambda: cov.Polynomial(2, c=0.1, d=3, offset=0.5),
    "Gibbs": lambda: cov.Gibbs(2, lambda x: 0.3 + x[:, 0] ** 2, active_dims=[0]),
    "ScaledCov": lambda: cov.ScaledCov(2, cov.ExpQuad(2, ls=LS), lambda x: 1 + x[:, 0] ** 2),
    "WarpedInput": lambda: cov.WarpedInput(2, Renamed(2, ls=LS), pt.tanh),
    "Embedding": lambda: pma.cov.Embedding(cov.Matern52(1, ls=0.7), np.array([[0.5, -1.2]]), input_dim=2),
    "Exponentiated": lambda: cov.Matern52(2, ls=LS) ** 1.5,
    "sum and product": lambda: (
        2.0 * cov.ExpQuad(2, ls=LS) * cov.Linear(2, c=0.1) + 0.3 * cov.Periodic(2, period=1.1, ls=LS) + 0.7
    ),
}
# Fourth derivatives of these compile for seconds.
SLOW = ("Exponentiated", "Gibbs", "WrappedPeriodic", "sum and product")


@pytest.mark.parametrize("name", PRECISE)
def test_derivatives_are_right_where_points_meet_and_close_by(name):
    posterior = hand_written(KERNELS[name]())
    a, b = np.stack([HERE, HERE]), np.stack([HERE, NEAR])
    lines = posterior.lines(np.zeros(1), a, b)
    keys = [(1, 1), (0, 2), (1, 2), (2, 2)]
    if name in SLOW:
        keys, got = keys[:1], lines.along(U, V, (1, 1))
    else:
        got = lines.along(U, V, (2, 2))
    for k, key in enumerate(keys):
        expected = np.array([row[k] for row in PRECISE[name]])
        # Rounding of b itself is 1e-16 / 1e-5 of the difference of the points.
        assert_allclose(got.get(key, np.zeros(2)), expected, rtol=1e-9, atol=1e-10, err_msg=str(key))


def test_a_power_of_nothing_has_derivatives():
    """The square of an inner product that is zero, by a power that a parameter might be."""
    kernel = cov.Polynomial(2, c=0.0, d=pt.as_tensor_variable(2.0), offset=0.0)
    got = hand_written(kernel).lines(np.zeros(1), np.zeros((1, 2)), np.zeros((1, 2))).along(U, V, (2, 2))
    assert_allclose(got[2, 2], (U @ V) ** 2, rtol=1e-12)


def test_parameters_stay_parameters():
    """Derivatives follow theta, also through the placeholders of a profile."""
    gpm = users_gp(X, y, lambda: pm.LogNormal("variance") * cov.Matern52(2, ls=pm.LogNormal("ls")))
    posterior = gpm.posterior()
    for theta in (np.zeros(2), np.array([0.4, -0.7])):
        variance, ls = np.exp(theta)
        got = posterior.lines(theta, X, X).along(None, V, (0, 2))[0, 2]
        assert_allclose(got, -5 / 6 * variance * V @ V / ls**2, rtol=1e-11)


def test_the_users_covariance_is_not_changed():
    base = cov.Matern52(2, ls=LS)
    kernel = cov.WarpedInput(2, base, pt.tanh)
    before = dict(vars(base)), dict(vars(kernel))
    hand_written(kernel).lines(np.zeros(1), X, X).along(None, None, (0, 0))
    assert (vars(base), vars(kernel)) == before


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


# ---------------------------------------------------------------- kernels that somebody wrote


class Smooth(cov.Covariance):
    """A sum of a Cauchy kernel and a kernel that it holds."""

    def __init__(self, input_dim, held):
        super().__init__(input_dim)
        self.held = held

    def full(self, X, Xs=None):
        X, Xs = self._slice(X, Xs)
        Xs = X if Xs is None else Xs
        squares = ((X[:, None, :] - Xs[None, :, :]) ** 2).sum(-1)
        return 1 / (1 + squares) + self.held(X, Xs)

    def diag(self, X):
        return pt.alloc(1.0, X.shape[0]) + self.held(X, diag=True)


class Laplace(cov.Covariance):
    """exp(-|x - z|), whose graph says that it is flat at x = z."""

    def full(self, X, Xs=None):
        X, Xs = self._slice(X, Xs)
        Xs = X if Xs is None else Xs
        return pt.exp(-abs(X[:, None, :] - Xs[None, :, :]).sum(-1))

    def diag(self, X):
        return pt.alloc(1.0, X.shape[0])


class OnceDifferentiable(cov.Stationary):
    """Matérn 3/2 under another name."""

    def full_from_distance(self, dist, squared=False):
        r = np.sqrt(3) * (self._sqrt(dist) if squared else dist)
        return (1 + r) * pt.exp(-r)


def test_a_kernel_that_somebody_wrote():
    """Its own formula is differentiated, what it holds is treated like any kernel, and the trial finds nothing."""
    with pm.Model() as model:
        kernel = Smooth(2, cov.Matern52(2, ls=pm.LogNormal("ls", shape=2)))
        gp = pm.gp.Marginal(cov_func=1e4 + kernel)
        gp.marginal_likelihood("y", X, y, sigma=0.1)
    posterior = pma.from_marginal(gp, "y", model=model).posterior()
    posterior.check_twice_differentiable()
    # 1 / (1 + |su - tv|²) = 1 - |su - tv|² + |su - tv|⁴ - ...
    uu, uv, vv = U @ U, U @ V, V @ V
    cauchy = (2 * uv, -vv, 0.0, 2 * uu * vv + 4 * uv**2)
    got = posterior.lines(np.log(LS), HERE[None], HERE[None]).along(U, V, (2, 2))
    for key, mine, held in zip([(1, 1), (0, 2), (1, 2), (2, 2)], cauchy, PRECISE["Matern52"][0], strict=True):
        assert_allclose(got[key], mine + held, rtol=1e-9, atol=1e-12)
    for ls in (0.01, 0.3, 30.0):
        lines = partial(posterior.lines, np.log([ls, ls]))
        graph_taylor.check_numerically(kernel, lines, X)
        graph_taylor.check_numerically(kernel, lines, X[:1])


# ---------------------------------------------------------------- other data


def test_other_data_compile_nothing(monkeypatch):
    posterior = hand_written(cov.ExpQuad(2, ls=LS))
    _, b, _, v = points()
    theta = np.zeros(1)
    assert_array_equal(posterior.X, X)

    def everything(posterior):
        posterior.prior_mean(theta, b)
        between = posterior.lines(theta, posterior.X[:, None], b).along(None, v, (0, 2))
        return between, posterior.lines(theta, b, b).along(v, v, (1, 1))

    everything(posterior)
    functions = posterior._functions
    monkeypatch.setattr(functions, "compile", lambda *_: pytest.fail("compiled again"))
    more = np.random.default_rng(9).normal(size=(11, 2))
    other = posterior.with_data(more, np.zeros(11))
    between, _ = everything(other)
    assert_array_equal(other.X, more)
    assert_array_equal(posterior.X, X)
    assert between[0, 2].shape == (11, len(b))
    assert_allclose(between[0, 0], np.exp(-0.5 * (((more[:, None] - b) / LS) ** 2).sum(-1)), rtol=1e-13)


# ---------------------------------------------------------------- refusals

ROUGH = {
    "Matern32": lambda: cov.ExpQuad(2, ls=1.0) + cov.Matern32(2, ls=1.0),
    "Matern12": lambda: cov.ExpQuad(2, ls=1.0) * cov.Matern12(2, ls=1.0),
    "Exponential": lambda: pma.cov.Embedding(cov.Exponential(1, ls=1.0), np.ones((1, 2)), input_dim=2),
    "WhiteNoise": lambda: cov.ExpQuad(2, ls=1.0) + cov.WhiteNoise(0.1),
    "Circular": lambda: cov.Circular(2, period=2.0, active_dims=[1]),
    "Coregion": lambda: cov.ExpQuad(2, ls=1.0) * cov.Coregion(2, B=np.eye(3), active_dims=[0]),
}


@pytest.mark.parametrize("name", ROUGH)
def test_rough_kernels_are_refused_by_name(name):
    with pytest.raises(ValueError, match=f"functions with the kernel {name} have no second derivative"):
        hand_written(ROUGH[name](), X=np.round(np.abs(X))).check_twice_differentiable()


@pytest.mark.parametrize("kernel", [Laplace(2), OnceDifferentiable(2, ls=1.0)], ids=lambda k: type(k).__name__)
def test_rough_kernels_that_somebody_wrote_are_found_by_trial(kernel):
    posterior = hand_written(cov.ExpQuad(2, ls=1.0) + kernel)
    with pytest.raises(
        ValueError, match=f"kernel {type(kernel).__name__} have no second derivative.*max_value_entropy"
    ):
        posterior.check_twice_differentiable()


def test_kernels_of_pymc_need_no_trial(monkeypatch):
    posterior = hand_written(KERNELS["sum and product"]())
    monkeypatch.setattr(posterior._functions, "lines", lambda *_: pytest.fail("nothing to try"))
    posterior.check_twice_differentiable()


class _Wave(pm.gp.mean.Mean):
    def __call__(self, X):
        return pt.sin(X[:, 0])


@pytest.mark.parametrize(
    ("make", "mean", "hides"),
    [
        (lambda C, ls: 2 * C.Matern52(1, ls=ls) * C.Linear(1, c=0) + C.RatQuad(1, alpha=1, ls=ls) ** 2, None, False),
        (lambda C, ls: pma.cov.Embedding(C.ExpQuad(1, ls=ls), np.ones((1, 1)), 1), pm.gp.mean.Constant(1.0), False),
        (lambda C, ls: C.ExpQuad(1, ls=ls) + C.Periodic(1, period=1, ls=ls), None, True),
        (lambda C, ls: C.ExpQuad(1, ls=ls), _Wave(), True),
        (lambda C, ls: C.Gibbs(1, lambda x, a: a + pt.sin(x) ** 2, args=(ls,)), None, True),
        (lambda C, ls: C.ScaledCov(1, C.ExpQuad(1, ls=ls), lambda x, a: pt.sin(x), (ls,)), None, True),
    ],
)
def test_only_plain_kernels_and_means_hide_no_modes(make, mean, hides):
    x = np.linspace(0, 3, 6)[:, None]
    with pm.Model() as model:
        given = {} if mean is None else {"mean_func": mean}
        gp = pm.gp.Marginal(cov_func=make(pm.gp.cov, pm.LogNormal("ls", 0, 1)), **given)
        gp.marginal_likelihood("y", X=pm.Data("X", x), y=pm.Data("y_data", np.sin(x[:, 0])), sigma=0.1)
    assert pma.from_marginal(gp, model=model).posterior().hides_modes is hides
