"""Compiled loops over particles, against arrays and against formulas."""

import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import pymc_active as pma
from pymc_active.kernels.radial import FARTHEST, PROFILES
from pymc_active.paths.features import cosine_and_sine
from pymc_active.posterior import base, compiled, factor
from pymc_active.support import threads

N, D = 45, 4
BOX = [(-1, 1)] * D
rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, (N, D))
y = np.sin(3 * X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=N)

COMPOSITES = [
    "LIN[0] + PER[1] * RQ[2]",
    "(SE[0] + C) * STEP[1] * MAT52[2] + LIN0[3]",
    "MAT12[0] * (PER[1] + RQ[0] + RQ[1]) * MAT32[3]",
]
MODELS = {
    **{text: lambda text=text: pma.composite_gp(X, y, text, bounds=BOX) for text in COMPOSITES},
    "fixed": lambda: pma.composite_gp(X, y, "PER[0] + SE[1]", period={0: 1.0}, bounds=BOX),
    "search": lambda: pma.composite_gp(X, y, "(SE + LIN) * (PER + RQ)", bounds=BOX),
    **{kernel: lambda kernel=kernel: pma.ard_gp(X, y, bounds=BOX, kernel=kernel) for kernel in PROFILES},
    "embedding": lambda: pma.embedding_gp(X, y, n_components=2, bounds=BOX, mean="linear"),
    "row space": lambda: pma.embedding_gp(np.hstack([X] * 15), y, n_components=2, bounds=BOX * 15),
    "error bars": lambda: pma.ard_gp(X, y, bounds=BOX, y_sd=rng.uniform(0.01, 0.3, N)),
    "replicates": lambda: pma.ard_gp(np.repeat(X, 3, axis=0), np.repeat(y, 3), bounds=BOX),
    "labels": lambda: pma.ard_gp(
        pd.DataFrame(X, columns=list("pqrs")).assign(label=["a", "b", "c"] * (N // 3)),
        y,
        space=pma.Space(dict.fromkeys("pqrs", (-1, 1)) | {"label": ["a", "b", "c"]}),
    ),
}


def likelihoods(posterior, thetas, noise, monkeypatch, is_compiled):
    monkeypatch.setattr(factor, "_COMPILED", (10, 1000) if is_compiled else (1000, 1000))
    return posterior.log_likelihoods(thetas, noise)


@pytest.mark.parametrize("name", MODELS)
def test_they_are_what_arrays_give(name, monkeypatch):
    from pymc_active.posterior.row_space import find_space

    gpm = MODELS[name]()
    posterior = find_space(gpm.posterior(), gpm.embedding_slice).posterior
    thetas = posterior.prior.mean + 0.5 * posterior.prior.sd * rng.normal(size=(20, posterior.n_parameters))
    for noise in (0.0, 0.3):
        one, other = (likelihoods(posterior, thetas, noise, monkeypatch, c) for c in (True, False))
        is_finite = np.isfinite(other.value)
        assert is_finite.sum() > 10
        np.testing.assert_array_equal(np.isfinite(one.value), is_finite)
        for a, b in zip(one[:3], other[:3], strict=True):
            # K has condition numbers of up to 1e7 without additional noise.
            np.testing.assert_allclose(a[is_finite], b[is_finite], 1e-7, 1e-10 * np.abs(b[is_finite]).max())
    assert likelihoods(posterior, thetas, 0.3, monkeypatch, True).value.std() > 1


@pytest.mark.parametrize("text", COMPOSITES)
def test_one_particle_of_a_sum_or_product_is_as_of_many(text, monkeypatch):
    """In the loop by itself, and by whole matrices of numbers."""
    posterior = MODELS[text]().posterior()
    assert posterior.is_fused
    thetas = posterior.prior.mean + 0.3 * posterior.prior.sd * rng.normal(size=(4, posterior.n_parameters))
    many = posterior.log_likelihoods(thetas, 0.1)
    for s, theta in enumerate(thetas):
        value, gradient = posterior.value_and_gradient(theta, 0.1)
        prior, slope = posterior.prior_value_and_gradient(theta)
        assert value - prior == pytest.approx(many.value[s], 1e-12)
        np.testing.assert_allclose(gradient - slope, many.gradient[s], 1e-9, 1e-9)
        state = posterior.state(theta, 0.1)
        np.testing.assert_allclose(many.value[s], -state.factor.nll, 1e-10)
        np.testing.assert_allclose(many.gradient[s], -posterior.likelihood_gradient(state), 1e-7, 1e-7)
    monkeypatch.setattr(factor, "_COMPILED", (1000, 1000))
    assert not posterior.is_fused


@pytest.mark.parametrize("name", [COMPOSITES[1], "fixed", "Matern52", "embedding", "error bars", "replicates"])
@pytest.mark.parametrize("is_diagonal", [True, False])
def test_climbs_end_where_those_of_scipy_do(name, is_diagonal, monkeypatch):
    """At a maximum of the posterior as arrays have it, from the same starts."""
    posterior, limits = MODELS[name]().posterior(), base.Limits(400, 1e-5, 1e-13)
    sd, P = posterior.prior.sd, posterior.n_parameters
    root = sd if is_diagonal else np.linalg.cholesky(np.outer(sd, sd) * (0.5 * np.eye(P) + 0.5))
    frame = np.diag(root) if is_diagonal else root
    starts, same = posterior.prior.mean + 0.3 * sd * np.random.default_rng(1).normal(size=(6, P)), []
    assert posterior.climbs_apart == (name != "replicates")
    for start in starts:
        with monkeypatch.context() as context:
            context.setattr(factor, "_COMPILED", (10, 1000))
            one = posterior.climb(start, root, limits, 0.1)
            rough = posterior.climb(start, root, limits._replace(iterations=3), 0.1)
        monkeypatch.setattr(factor, "_COMPILED", (1000, 1000))
        value, gradient = posterior.value_and_gradient(one.z, 0.1)
        assert one.value == pytest.approx(value, 1e-9)
        np.testing.assert_allclose(one.slope, gradient @ frame, 1e-6, 1e-6)
        assert one.is_converged
        assert np.abs(gradient @ frame).max() < 1e-2
        other = posterior.climb(start, root, limits, 0.1)
        same.append(abs(one.value - other.value) < 1e-4)
        assert one.n_evaluations < 2 * other.n_evaluations
        assert not rough.is_converged
        assert posterior.value_and_gradient(start, 0.1)[0] < rough.value <= one.value + 1e-6 or not same[-1]
    # Starts may lie between two maxima.
    assert sum(same) >= 4


def test_a_climb_from_where_nothing_is_finite_stays_there():
    posterior = MODELS["Matern52"]().posterior()
    start = np.full(posterior.n_parameters, 900.0)
    found = posterior.climb(start, posterior.prior.sd, base.Limits(10, 1e-5, 1e-13))
    assert found.value == -np.inf
    np.testing.assert_array_equal(found.z, start)


def test_a_tiny_lengthscale_of_a_period_leaves_the_variance_as_it_is(monkeypatch):
    """At no distance the sine of the addition theorem is rounding error, which the lengthscale divides."""
    posterior = pma.composite_gp(X[:, 0], y, "LIN + PER", bounds=BOX[:1]).posterior()
    theta = np.tile(posterior.prior.mean, (2, 1))
    theta[:, pma.composite_gp(X[:, 0], y, "LIN + PER", bounds=BOX[:1]).labels.index("log_lengthscale_PER")] = -34, -45
    one, other = (likelihoods(posterior, theta, 0.1, monkeypatch, c).value for c in (True, False))
    np.testing.assert_allclose(one, other, 1e-3)


def test_exponentials_and_logarithms_have_the_last_digit_but_one():
    x = np.concatenate([-rng.uniform(0, FARTHEST, 1000), [0.0, -1e-300, -FARTHEST, -0.5 * np.log(2)]])
    found = x.copy()
    compiled._exp(found, np.empty_like(x))
    np.testing.assert_allclose(found, np.exp(x), 4e-16)
    positive = np.concatenate([np.exp(rng.uniform(-5, 60, 1000)), [1.0, 1 + 1e-15, 0.75, np.sqrt(0.5), 2.0]])
    logs = positive.copy()
    compiled._log(logs, np.empty_like(logs))
    np.testing.assert_allclose(logs, np.log(positive), 1e-15, 2e-16)
    # As it is compiled inside other loops, which have other flags.
    for number, profile in enumerate(PROFILES.values()):
        s = np.array([0.0, 1e-13, 1e-3, 2.0, 50.0, 1e6])
        g, slope = np.empty((2, len(s)))
        compiled._correlations(number, s.copy(), g, slope, np.empty(len(s)))
        for a, b in zip((g, slope), profile(s, 1), strict=True):
            np.testing.assert_allclose(a, b, 1e-14)


def test_waves_have_the_last_digit_but_one():
    phase = rng.uniform(-1, 1, (40, 300)) * np.logspace(-3, 5, 300)
    phase[0, :5] = 0.0, np.pi / 4, -np.pi / 4, np.pi, -3 * np.pi / 2
    for found, expected in zip(compiled.cosine_and_sine(phase.copy()), (np.cos(phase), np.sin(phase)), strict=True):
        np.testing.assert_allclose(found, expected, 4e-16, 4e-16)
    huge = np.repeat([1e7, -1e18, 1e25, 1e300, np.nan], 1000)
    for found, function in zip(compiled.cosine_and_sine(huge.copy()), (np.cos, np.sin), strict=True):
        np.testing.assert_array_equal(found, function(huge))
    # Few phases, and views, are as many.
    few = cosine_and_sine(phase[:3, ::4].copy()), compiled.cosine_and_sine(phase[:3, ::4])
    for one, other in zip(*few, strict=True):
        np.testing.assert_allclose(one, other, 4e-16, 4e-16)


def test_matrices_that_are_not_sound_have_no_density():
    G = np.stack([np.eye(50), np.eye(50), np.ones((50, 50)), np.eye(50)])
    G[1, 30, 30] = -1.0
    G[3, 20, 20] = np.nan
    alphas, log_roots = compiled.factor_particles(G, np.ones((4, 50)), 1e-12, True)
    np.testing.assert_array_equal(np.isfinite(log_roots), [True, False, False, False])
    np.testing.assert_array_equal(alphas[1:], 0)
    np.testing.assert_allclose(np.tril(G[0]), np.eye(50) - np.tril(np.ones((50, 50))))


@pytest.mark.parametrize("name", ["embedding", "ExpQuad", COMPOSITES[1]])
def test_threads_change_no_digit(name, monkeypatch):
    posterior = MODELS[name]().posterior()
    thetas = posterior.prior.mean + 0.5 * posterior.prior.sd * rng.normal(size=(31, posterior.n_parameters))
    alone = likelihoods(posterior, thetas, 0.1, monkeypatch, True)
    one, _ = threads._controller()
    monkeypatch.setattr(threads, "_controller", lambda: (one, 3))
    threads._pool.cache_clear()
    together = likelihoods(posterior, thetas, 0.1, monkeypatch, True)
    blocks = likelihoods(posterior, thetas, 0.1, monkeypatch, False)
    monkeypatch.setattr(base, "STACKED", 5 * N**2)
    in_threads = likelihoods(posterior, thetas, 0.1, monkeypatch, False)
    threads._pool.cache_clear()
    for a, b in zip(alone[:3], together[:3], strict=True):
        np.testing.assert_array_equal(a, b)
    # Products of other numbers of rows round otherwise.
    for a, b in zip(blocks[:3], in_threads[:3], strict=True):
        np.testing.assert_allclose(a, b, 1e-9, 1e-12 * np.abs(b).max())


@pytest.mark.slow
def test_without_a_place_on_disk_they_are_compiled_in_the_process(tmp_path):
    code = (
        "import numba.core.caching as c; c.CacheImpl._locator_classes.clear()\n"
        "import numpy as np; from pymc_active.posterior import compiled\n"
        "G = np.eye(3)[None].copy(); print(compiled.factor_particles(G, np.ones((1, 3)), 1e-12, False)[0].sum())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=True)
    assert done.stdout.split() == ["3.0"]


def test_every_blas_is_limited_also_if_nothing_has_loaded_it_before():
    """Evaluations took ten times as long where that of SciPy used threads of its own within ours."""
    code = (
        "from pymc_active.support import threads; known = len(threads._controller()[0].info()); import pymc;"
        "import scipy.linalg; print(known == len(threads.ThreadpoolController().info()))"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.strip() == "True"


@pytest.mark.nightly
def test_a_later_process_has_the_bits_of_the_one_that_compiled(tmp_path):
    code = """
import numpy as np, pymc_active as pma
X = np.random.default_rng(0).uniform(-1, 1, (50, 2))
fit = pma.fit(pma.ard_gp(X, np.sin(3 * X[:, 0]), bounds=[(-1, 1)] * 2), random_seed=1, progressbar=False)
print(fit.ensemble.thetas.tobytes().hex())
"""
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    first, later = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True).stdout
        for _ in range(2)
    ]
    assert list(tmp_path.rglob("*.nbc"))
    assert later == first
