"""Files: what a learner knows survives, resumes bit for bit, and cannot run code."""

import json
import os
import pickle
import subprocess
import sys
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import arviz as az
import h5py
import numpy as np
import pandas as pd
import pymc as pm
import pytest
import xarray as xr
from numpy.testing import assert_allclose, assert_array_equal
from pandas.testing import assert_frame_equal, assert_index_equal
from users import users_gp

import pymc_active as pma
from pymc_active.active import Learner
from pymc_active.models.builders import rebuild
from pymc_active.support import files
from pymc_active.support.labels import read_index, write_index
from pymc_active.support.locks import locked

pytestmark = [
    pytest.mark.slow,
    # Of models that no builder made; test_a_model_of_the_users_own_is_passed has the test.
    pytest.mark.filterwarnings("ignore:the file holds the run, but not the model:pymc_active.RunWarning"),
]

# What a file of a learner says that it is.
KIND, VERSION = "pymc_active.active.Learner", 9
GRID = np.linspace(-3, 3, 25)[:, None]
START = GRID[[4, 12, 20]]
WIDE = np.random.default_rng(5).uniform(-1, 1, (20, 9))


def truth(X):
    return np.sin(2 * np.asarray(X, float)[:, 0]) + 0.3 * np.asarray(X, float)[:, -1]


def ard(X=START, **keywords):
    return pma.ard_gp(X, truth(X), **keywords)


def learner(learn="function", **keywords):
    return Learner(ard(), learn, **{"pool": GRID, "random_seed": 1, **keywords})


def user_model(prior=None):
    """A model that no builder made."""
    prior = prior or (lambda name: pm.Gamma(name, 2, 1))
    return users_gp(START, truth(START), lambda: pm.gp.cov.ExpQuad(1, ls=prior("ls")), name="obs")


def several(**keywords):
    models = [pma.composite_gp(START, truth(START), kernel) for kernel in ("SE", "LIN")]
    return Learner(models, "model", pool=GRID, prior=[2, 1], random_seed=1, **keywords)


def reopened(active, folder, **keywords):
    path = folder / "run.nc"
    active.save(path)
    return Learner.load(path, **keywords)


@pytest.fixture(scope="module")
def bytes_of_a_run(tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "run.nc"
    learner().save(path)
    return path.read_bytes()


@pytest.fixture
def saved(tmp_path, bytes_of_a_run):
    """The file of a learner that has not begun."""
    path = tmp_path / "run.nc"
    path.write_bytes(bytes_of_a_run)
    return path


def load_with(path, contents, way, value):
    """The learner of a file with these contents but another value in its JSON; ``way`` are the keys that lead there."""
    document = {"": json.loads(json.dumps(contents.document))}
    *parents, last = ["", *way]
    part = document
    for key in parents:
        part = part[key]
    part[last] = value
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pymc_active.learner.learner.read", lambda *_: contents._replace(document=document[""]))
        return Learner.load(path)


# Going on.

LEARNERS = {
    "pool": learner,
    "box": lambda: learner("maximum", pool=None, bounds=[(-3, 3)], criterion="max_value_entropy", minimize=True),
    "draws of the hyperparameters": lambda: learner("hyperparameters"),
    "more inputs than data": lambda: Learner(
        pma.embedding_gp(WIDE[:4], truth(WIDE[:4]), n_components=1), criterion="bald", pool=WIDE, random_seed=2
    ),
}


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[] if kind in ("pool", "box") else pytest.mark.nightly) for kind in LEARNERS]
)
def test_a_resumed_learner_asks_the_same_next_point_bit_for_bit(kind, tmp_path):
    """Saved before and after the fit, with points pending and without."""
    active = LEARNERS[kind]()
    before_the_fit = reopened(active, tmp_path)
    first = active.ask()
    assert_array_equal(before_the_fit.ask(), first)
    pending = reopened(active, tmp_path)
    active.tell(first, truth(first))
    pending.tell(first, truth(first))
    told = reopened(active, tmp_path)
    second = active.ask()
    after_the_fit = reopened(active, tmp_path)
    for other in (pending, told):
        assert_array_equal(other.ask(), second)
        # The same starts lead to the same modes, and the same particles to the same particles.
        assert other.fit.diagnostics == active.fit.diagnostics
        assert_array_equal(other.fit.ensemble.thetas, active.fit.ensemble.thetas)
        assert_array_equal(other.fit.ensemble.weights, active.fit.ensemble.weights)
    third, recommended = active.ask(), active.recommend()
    for other in (told, after_the_fit):
        assert_array_equal(other.ask(), third)
        assert_array_equal(other.recommend(), recommended)


def test_everything_told_and_asked_is_in_the_file(tmp_path):
    active = learner(criterion="random", repeat=True, minimize=True)
    x = active.ask()
    active.tell([[0.123]], 5.0)  # asked by nobody
    active.tell(x, truth(x))
    pending = active.ask(2)
    active.forget(active.ask())
    assert active.notes == {}
    active.notes["lab"] = {"room": 5, "units": ["mg", None], "sd": 0.1, "is calibrated": True, "": "Prüfung"}
    other = reopened(active, tmp_path)
    for name in ("X", "y", "asked_labels", "repeat", "minimize", "notes", "n_left"):
        assert_array_equal(getattr(other, name), getattr(active, name))
    assert repr(other) == repr(active)
    assert active.design().asked.to_numpy().tolist() == [False, True]
    assert other.design().identical(active.design())
    assert_array_equal(other.pending, pending)
    # What was forgotten is offered again.
    assert_array_equal(other.ask(3), active.ask(3))


NO_NOTES = r"learner\.notes must be a dict of what a file can hold: .* x\.tolist"


def endless():
    notes = {}
    notes["again"] = [notes]
    return notes


@pytest.mark.parametrize(
    ("notes", "message"),
    [
        ([], NO_NOTES),
        ({"a": [0, np.zeros(2)]}, NO_NOTES),
        ({"a": {"b": (1, 2)}}, NO_NOTES),
        ({"a": np.inf}, NO_NOTES),
        ({"a": {1: 2}}, NO_NOTES),
        (endless(), NO_NOTES),
        (None, r"labels in a file are text, .*index\.astype\(str\)"),
    ],
)
def test_what_a_file_cannot_hold_is_named_before_a_run(notes, message, tmp_path):
    """Notes, and labels of rows."""
    active = learner(criterion="random")
    if notes is None:
        active = learner(pool=pd.DataFrame(GRID, index=pd.period_range("2020-01", periods=25, freq="M")))
    else:
        active.notes = notes
    with pytest.raises(ValueError, match=message):
        active.run(lambda x: pytest.fail("asked"), 1, progressbar=False, save_to=tmp_path / "run.nc")
    assert os.listdir(tmp_path) == []


KILLED_SAVES = """
import os, signal, sys
from pathlib import Path
import numpy as np
import xarray as xr
from pymc_active.support.files import Contents, read, write

def watched(act):
    # Calls act before each line of a save that writes the file, and of the lock around its replacement.
    def line(frame, event, argument):
        if event == "line":
            act()
        return line

    watches = {("files.py", "write"), ("locks.py", "locked")}
    return lambda frame, *_: line if (Path(frame.f_code.co_filename).name, frame.f_code.co_name) in watches else None

path = Path(sys.argv[1])

def save(number, act=None):
    contents = Contents({"a": xr.Dataset({"x": ("i", np.full(3, number))})}, {"number": number})
    sys.settrace(act and watched(act))
    write(path, contents, "a", 1)
    sys.settrace(None)

def is_killed_at(k):
    # Whether a save in a process of its own ends by a kill before its k-th line.
    left = iter(range(k))
    child = os.fork()
    if child == 0:
        try:
            save(1, lambda: next(left, None) is None and os.kill(os.getpid(), signal.SIGKILL))
        finally:
            os._exit(0)
    status = os.waitpid(child, 0)[1]
    return os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL

lines = []
save(0, lambda: lines.append(0))
# The file is there already, so that all lines are passed again.
was_saved = []
for k in range(len(lines)):
    save(0)
    assert is_killed_at(k)
    was_saved.append(read(path, "a", 1).document["number"])
assert was_saved == sorted(was_saved), was_saved
assert set(was_saved) == {0, 1}, was_saved
"""


def test_what_was_told_is_in_the_file_before_the_next_question(tmp_path):
    """So a run that is killed loses nothing: a save is whole or has not begun."""
    path, in_file = tmp_path / "run.nc", []

    def oracle(x):
        # The first question is saved with the first answer.
        in_file.append(len(Learner.load(path).y) if path.exists() else 3)
        return truth(x)

    active = learner(criterion="random")
    active.run(oracle, 3, progressbar=False, save_to=path)
    assert in_file == [3, 4, 5]
    assert_array_equal(Learner.load(path).y, active.y)


@pytest.mark.parametrize("broken", [(xr.DataTree, "to_netcdf"), (Path, "replace")])
def test_an_interrupted_save_leaves_the_old_file(broken, tmp_path, monkeypatch):
    active, path = learner(criterion="random"), tmp_path / "run.nc"
    active.save(path)
    active.tell([[1.0]], 2.0)

    def half_written(*arguments, **keywords):
        for part in arguments[:2]:
            if isinstance(part, Path) and part.name != "run.nc":
                part.write_bytes(b"half of it")
        raise OSError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(*broken, half_written)
        with pytest.raises(OSError, match="disk full"):
            active.save(path)
    assert os.listdir(tmp_path) == ["run.nc"]
    assert_array_equal(Learner.load(path).y, truth(START))


@pytest.mark.nightly
@pytest.mark.skipif(not hasattr(os, "fork"), reason="saves are killed through fork and SIGKILL")
def test_a_save_that_is_killed_at_any_line_leaves_the_old_file_or_the_new_one(tmp_path):
    command = [sys.executable, "-c", KILLED_SAVES, str(tmp_path / "run.nc")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_link_stays_a_link_and_what_killed_processes_left_is_removed_in_the_end(tmp_path, saved):
    link = tmp_path / "link.nc"
    link.symlink_to(saved)
    old, recent, foreign = (tmp_path / name for name in (".run.nc.0a.part", ".run.nc.1b.part", ".other.nc.0a.part"))
    for part in (old, recent, foreign):
        part.touch()
    for part in (old, foreign):
        os.utime(part, (0, 0))
    Learner.load(link).save(link)
    assert [part.exists() for part in (old, recent, foreign)] == [False, True, True]
    assert link.is_symlink()
    assert len(Learner.load(link).y) == 3


# Models.

MODELS = {
    "defaults": ard,
    "scales, mean and fixed values": lambda: ard(
        WIDE,
        kernel="Matern32",
        mean="linear",
        x_scale="unit",
        y_scale="standardize",
        priors={"log_noise": -2, "log_lengthscale": np.linspace(0, 1, 9)},
    ),
    "names and normal priors": lambda: ard(
        pd.DataFrame(WIDE[:, :3], columns=["a", ("b", 1), pd.Timestamp("2020-01-01", tz="Asia/Tokyo")]),
        priors={"log_noise": pm.Normal.dist(-3, 0.3), "log_lengthscale": pm.Normal.dist(np.zeros(3), 2)},
    ),
    "priors of other kinds": lambda: ard(
        WIDE,
        priors={
            "log_lengthscale": pm.Exponential.dist(3, shape=9),
            "log_outputscale": pm.Gamma.dist(mu=2.5, sigma=0.3),
            "log_noise": pm.TruncatedNormal.dist(-2, 1, lower=-4),
        },
    ),
    "embedding": lambda: pma.embedding_gp(WIDE, truth(WIDE), n_components=2, prior_scale=np.arange(1.0, 10)),
    "embedding with a prior of its own": lambda: pma.embedding_gp(
        WIDE, truth(WIDE), n_components=2, priors={"R": pm.Normal.dist(0, 0.3)}
    ),
    "kernel expression": lambda: pma.composite_gp(
        WIDE, truth(WIDE), "SE[0] * (LIN[1] + SE[0])", priors={"log_lengthscale_SE": pm.Normal.dist(0, 0.5)}
    ),
    "known period": lambda: pma.composite_gp(WIDE, truth(WIDE), "PER[3] + RQ", period=[None] * 3 + [0.7] + [None] * 5),
    "toolbox": lambda: pma.composite_gp(WIDE, truth(WIDE), "PER[3] + RQ", priors="toolbox", x_scale="box"),
}


@pytest.mark.parametrize("kind", MODELS)
def test_a_model_made_again_has_the_same_posterior(kind):
    gpm = MODELS[kind]()
    again = rebuild(json.loads(json.dumps(gpm.recipe())), gpm.X, gpm.y)
    theta = np.random.default_rng(0).normal(size=gpm.n_parameters)
    value, gradient = gpm.posterior().value_and_gradient(theta)
    value_again, gradient_again = again.posterior().value_and_gradient(theta)
    assert value_again == value
    assert_array_equal(gradient_again, gradient)
    assert again.inputs == gpm.inputs
    assert repr(again) == repr(gpm)
    assert again.recipe() == gpm.recipe()


def test_scales_stay_those_of_the_first_data_and_the_output_keeps_its_name(tmp_path):
    named = pd.Series(truth(START), name="log lead")
    gpm = pma.ard_gp(START, named, x_scale="unit", y_scale="standardize")
    active = Learner(gpm, criterion="random", pool=GRID, random_seed=1)
    active.tell([[2.9]], 7.0)
    other = reopened(active, tmp_path)
    assert_array_equal(other.gpm.x_map.shift, active.gpm.x_map.shift)
    assert other.gpm.y_map == active.gpm.y_map
    assert other.gpm.output == "log lead"
    assert "log lead" in repr(other)
    assert pma.composite_gp(START, named, "SE").with_expression("RQ").output == "log lead"


def test_a_model_of_the_users_own_is_passed(tmp_path):
    active = Learner(user_model(), pool=GRID, criterion="random", random_seed=1)
    active.tell([[0.1]], 1.0)
    first = active.ask()
    with pytest.warns(pma.RunWarning, match="but not the model 'obs', because no builder made it") as caught:
        active.save(tmp_path / "run.nc")
    assert len(caught) == 1
    with warnings.catch_warnings():
        # Once a run.
        warnings.simplefilter("error")
        active.save(tmp_path / "run.nc")
    with pytest.raises(ValueError, match=r"cannot hold the model 'obs', because no builder made it: .* model=gpm"):
        Learner.load(tmp_path / "run.nc")
    own = user_model()
    n, other = len(own.y), Learner.load(tmp_path / "run.nc", model=own)
    assert len(own.y) == n < len(other.y)
    assert_array_equal(other.gpm.y, active.y)
    assert_array_equal(other.pending, first)
    with pytest.raises(ValueError, match=r"has the parameters ls_log__ \(\), but this one has ls \(\)"):
        Learner.load(tmp_path / "run.nc", model=user_model(lambda name: pm.Normal(name, 1, 0.1)))
    with pytest.raises(TypeError, match=r"model must be a GPModel or a pm\.Model; got str"):
        Learner.load(tmp_path / "run.nc", model="SE")
    with pytest.raises(ValueError, match="has no model 'SE'; it has 'model'"):
        Learner.load(tmp_path / "run.nc", model={"SE": user_model()})
    # One of several models may be the user's own.
    several = Learner({"theirs": user_model(), "ours": ard()}, "model", criterion="random", pool=GRID)
    several.save(tmp_path / "several.nc")
    with pytest.raises(ValueError, match=r"pass model=\{'theirs': gpm\}$"):
        Learner.load(tmp_path / "several.nc")
    with pytest.raises(TypeError, match=r"the file has 2 models: .*, of model=\{'theirs': gpm, 'ours': gpm\}"):
        Learner.load(tmp_path / "several.nc", model=user_model())
    for own in ({"theirs": user_model()}, [user_model(), ard()]):
        assert list(Learner.load(tmp_path / "several.nc", model=own).models) == ["theirs", "ours"]


@pytest.mark.nightly
@pytest.mark.parametrize("inference", ["auto", "laplace"])
def test_a_model_with_other_priors_or_another_kernel_is_refused(tmp_path, inference):
    """The saved posterior is not its own."""

    def made(cov=pm.gp.cov.ExpQuad, alpha=2):
        return users_gp(START, truth(START), lambda: cov(1, ls=pm.Gamma("ls", alpha, 1)), name="obs")

    active = Learner(made(), pool=GRID, random_seed=1, inference=inference)
    point = active.ask()
    active.save(tmp_path / "run.nc")
    # The graphs of each model are compiled, of a mode its curvature too.
    for other in [{"alpha": 3}, {"cov": pm.gp.cov.Matern32}][: 2 if inference == "auto" else 1]:
        with pytest.raises(ValueError, match="differs from the file's in its kernel, mean, noise or priors"):
            Learner.load(tmp_path / "run.nc", model=made(**other))
    assert_array_equal(Learner.load(tmp_path / "run.nc", model=made()).pending, point)


def changed():
    gpm = ard()
    with gpm.model:
        pm.Potential("mine", -(gpm.model["log_noise"] ** 2))
    return gpm


def hierarchical():
    with pm.Model():
        return ard(priors={"log_noise": pm.Normal.dist(pm.Normal("center", 0, 1), 0.1)})


SKEWED = pm.AsymmetricLaplace.dist(kappa=1, mu=0, b=1)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (changed, "has more in it than the builder put there"),
        (hierarchical, "has more in it than the builder put there"),
        (lambda: ard(mean=pm.gp.mean.Constant(2.0)), "its mean is a Constant object"),
        (lambda: ard(priors={"log_noise": SKEWED}), "the prior of log_noise is more than a plain distribution"),
    ],
)
def test_what_a_recipe_cannot_say_is_named_on_loading(make, reason, tmp_path):
    Learner(make(), criterion="random", pool=GRID).save(tmp_path / "run.nc")
    with pytest.raises(ValueError, match=f"{reason}.*pass model=gpm"):
        Learner.load(tmp_path / "run.nc")
    assert len(Learner.load(tmp_path / "run.nc", model=make()).y) == 3


def test_a_criterion_of_the_users_own_is_passed(saved):
    def leftmost(fit, X):
        return -X[:, 0]

    active = learner(criterion=leftmost)
    active.save(saved.with_name("other.nc"))
    with pytest.raises(ValueError, match=r"your own criterion, 'leftmost': pass it as criterion="):
        Learner.load(saved.with_name("other.nc"))
    assert_array_equal(Learner.load(saved.with_name("other.nc"), criterion=leftmost).ask(), active.ask())


# Labels.

INDICES = {
    "text": pd.Index([f"mol-{i}" for i in range(25)], name="molecule"),
    "whole numbers": pd.Index(np.arange(25) ** 2),
    "mixed": pd.Index(["a", 1, 2.5, True, None, ("x", 1), *range(10, 29)], dtype=object, tupleize_cols=False),
    "days": pd.date_range("2020-10-20", periods=25, tz="Europe/Berlin", name="day").as_unit("us"),
    "levels": pd.MultiIndex.from_product([["A", "B", "C", "D", "E"], range(5)], names=["plate", "well"]),
    "seconds": pd.Index(pd.to_datetime(np.arange(25), unit="s")),
}


@pytest.mark.parametrize("kind", ["mixed", "days", "levels"])
def test_rows_of_a_data_frame_come_back_with_their_labels(kind, tmp_path):
    table = pd.DataFrame({"x": GRID[:, 0], "n": np.arange(25), "flag": np.arange(25) % 2 == 0}, index=INDICES[kind])
    gpm = pma.ard_gp(table.iloc[:3], truth(table.iloc[:3]))
    active = Learner(gpm, pool=table, criterion="random", random_seed=3)
    other = reopened(active, tmp_path)
    x = other.ask(22)
    assert_frame_equal(x, active.ask(22), check_freq=False)
    in_order = x.iloc[np.argsort(x["x"].to_numpy())]
    assert_index_equal(in_order.index, table.index[3:], check_freq=False)
    assert_frame_equal(in_order.set_axis(range(22)), table[3:].set_axis(range(22)))
    other.tell(x[:2], truth(x[:2]))
    assert list(other.asked_labels) == list(x.index[:2])


def test_an_index_survives_json():
    for index in (*INDICES.values(), pd.CategoricalIndex(["b", "a"])):
        again = read_index(json.loads(json.dumps(write_index(index))))
        assert_index_equal(again, index, check_freq=False, check_categorical=False)


def test_arviz_opens_it_and_a_fit_comes_back_without_a_search(tmp_path, monkeypatch):
    active = learner(inference="laplace")
    active.tell(active.ask(), [1.0])
    active.ask()
    fit = active.fit
    again = reopened(active, tmp_path)
    tree = az.from_netcdf(tmp_path / "run.nc")
    assert_array_equal(tree["observed_data"]["y"], active.y)
    assert_array_equal(tree["constant_data"]["X"], active.X)
    groups = {"observed_data", "constant_data", "design", "pending", "pool", "modes", "start", "state"}
    assert set(tree.children) == groups
    assert_array_equal(tree["start"]["x"], active.X[:3])
    assert_array_equal(tree["modes/0"]["z"], [active.gpm.flatten(mode.point) for mode in fit.modes])
    assert tree["modes/0"].attrs["n_observations"] == 4
    assert tree.attrs["pymc_active"] == pma.__version__
    monkeypatch.setattr("pymc_active.laplace.modes.task.search", None)
    assert_array_equal(again.fit.theta, fit.theta)
    assert_array_equal(again.fit.covariance, fit.covariance)
    assert again.fit.diagnostics == fit.diagnostics
    assert [mode.weight for mode in again.fit.modes] == [mode.weight for mode in fit.modes]


RECIPE = ("models", 0, "recipe")
DAMAGED = {
    "one model": [
        (("generator", "bit_generator"), "seed", "random generator is not one of MT19937, PCG64,"),
        (("generator", "state"), {}, "random generator is not one of"),
        (("generator", "state", "state"), -1, "damaged: OverflowError"),
        (("learn",), "everything", "learn must be one of"),
        (("named", "name"), "os.system", "criterion must be callable or one of"),
        (("named",), None, "a file cannot hold your own criterion"),
        (("named", "arguments"), {"os": "system"}, "may have the arguments draws, X_target; got"),
        (("steps",), ["one"], "invalid literal"),
        (("random_seed",), "__import__('os')", "invalid literal"),
        (("verify",), None, "verify must be 'never', 'sometimes' or a whole number"),
        (("notes",), ["a"], "damaged: its notes are list instead of a dict"),
        (("table",), {}, "damaged: KeyError"),
        (("models",), [], "damaged"),
        (("memory",), {}, "damaged: KeyError"),
        (("memory", "inference"), "object", "inference must be one of auto, smc, laplace"),
        ((*RECIPE, "builder"), "eval", "unknown builder 'eval'; the known ones are ard_gp, composite_gp, embedding_gp"),
        ((*RECIPE, "priors"), {"log_noise": {"distribution": "CustomDist"}}, "unknown distribution 'CustomDist'; the"),
        ((*RECIPE, "options"), {"kernel": "__import__('os')"}, "unknown kernel"),
        ((*RECIPE, "options"), {"path": "x"}, "unexpected keyword"),
        ((*RECIPE, "mean"), {"a": 1}, "mean must be one of"),
        ((*RECIPE, "inputs"), [], "recipe of the model 'model' cannot be rebuilt"),
    ],
    "several models": [
        (("memory", "is_several"), False, "damaged: KeyError"),
        (("memory", "prior"), [["SE", -1], ["LIN", 1]], "prior must hold 2 weights"),
        (("memory", "history"), "object", "not enough values to unpack"),
        (("models", 1, "label"), "SE", "needs at least two; got 1"),
        ((*RECIPE, "options", "expression"), "os.system", "model 'SE' cannot be rebuilt: .* unknown kernel 'os'"),
        # Text that is nested without end.
        ((*RECIPE, "options", "expression"), "(" * 100_000, "damaged: RecursionError"),
    ],
}


@pytest.mark.parametrize("kind", DAMAGED)
def test_a_document_that_was_tampered_with_is_refused(kind, saved):
    """It names what is known, and can neither contradict itself nor name anything else."""
    if kind == "several models":
        saved.unlink()
        active = several()
        active.fit  # noqa: B018
        active.save(saved)
        assert Learner.load(saved).model_history.equals(active.model_history)
    contents = files.read(saved, KIND, VERSION)
    for way, value, message in DAMAGED[kind]:
        with pytest.raises(ValueError, match=message):
            load_with(saved, contents, way, value)
    # Nor do the points say anything else than the document.
    groups = {**contents.groups, "start": contents.groups["start"].isel(point=slice(2))}
    files.write(saved, contents._replace(groups=groups), KIND, VERSION)
    with pytest.raises(ValueError, match="3 observations, but 2 at the start and 0 told"):
        Learner.load(saved)


@pytest.fixture
def labelled(tmp_path):
    """A learner of labelled rows with a fit, an answer and a point that is pending; it is saved."""
    active = learner(pool=pd.DataFrame(GRID, index=[f"p{i}" for i in range(25)]))
    active.tell(active.ask(), [1.0])
    active.ask()
    active.save(tmp_path / "run.nc")
    return active


def test_other_values_of_a_document_leave_the_data_as_they_are_and_nothing_is_pickled(tmp_path, labelled, monkeypatch):
    def refused(*args, **keywords):
        raise AssertionError("pickled")

    # Packages that are imported on the way may pickle.
    reopened(labelled, tmp_path).fit  # noqa: B018
    for name in ("dump", "dumps", "load", "loads", "Pickler", "Unpickler"):
        monkeypatch.setattr(pickle, name, refused)
    assert len(reopened(labelled, tmp_path).y) == 4
    contents = files.read(tmp_path / "run.nc", KIND, VERSION)
    harmless = {("is_fitted",): False, ("minimize",): True, ("models", 0, "shapes"): {}, ("table",): None}
    for way, value in harmless.items():
        other = load_with(tmp_path / "run.nc", contents, way, value)
        for name in ("X", "y", "pending", "n_left"):
            assert_array_equal(getattr(other, name), getattr(labelled, name))
        assert_array_equal(other.domain.pool, labelled.domain.pool)
        assert_array_equal(other.design()["pool_row"], labelled.design()["pool_row"])


def test_other_versions_of_what_computes_are_named_once(saved, monkeypatch):
    contents, known = files.read(saved, KIND, VERSION), files._versions()

    def with_versions(**versions):
        """The file as other versions of packages would have written it."""
        with monkeypatch.context() as patch:
            patch.setattr(files, "_versions", lambda: known | versions)
            files.write(saved, contents, KIND, VERSION)

    with_versions(numpy="1.26.4", scipy="1.0.1", xarray="2024.1.0")
    told = rf"run\.nc was written with numpy 1\.26\.4, scipy 1\.0\.1; this is numpy {np.__version__}, scipy "
    with pytest.warns(UserWarning, match=told) as record:
        other = Learner.load(saved)
    assert len(record) == 1
    assert record[0].filename == __file__
    assert_array_equal(other.y, truth(START))
    # Of patches nothing is said.
    major, minor, *_ = np.__version__.split(".")
    with_versions(numpy=f"{major}.{minor}.99", xarray="2024.1.0")
    assert len(Learner.load(saved).y) == 3


def test_other_files_are_refused_and_replaced_if_they_are_lost_anyway(tmp_path):
    path, active = tmp_path / "run.nc", learner()
    with pytest.raises(FileNotFoundError, match="no file"):
        Learner.load(path)
    active.to_datatree(draws=2).to_netcdf(path, engine="h5netcdf")
    with pytest.raises(ValueError, match=r"no file of pymc_active\.active\.Learner, as its save .* something else"):
        Learner.load(path)
    active.save(path)
    path.write_bytes(path.read_bytes()[:3000])
    with pytest.raises(ValueError, match=r"is damaged: it cannot be opened as netCDF .* Restore the file from a"):
        Learner.load(path)
    learner().save(path)
    assert len(Learner.load(path).y) == 3
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        active.save(tmp_path / "nowhere" / "run.nc")
    table = tmp_path / "measurements.csv"
    table.write_text("a,y\n1,2\n")
    with pytest.raises(FileExistsError, match=r"measurements.csv is not a saved run; it was left as it is"):
        active.save(table)
    assert table.read_text() == "a,y\n1,2\n"


def test_an_older_version_says_how_to_read_its_data():
    """And they can be read so."""
    path = Path(__file__).parent / "reference" / "learner_1.nc"
    with pytest.raises(ValueError, match=r"has version 1 .* knows version 9: .* xarray\.open_datatree"):
        Learner.load(path)
    with xr.open_datatree(path, engine="h5netcdf") as tree:
        assert_allclose(tree["observed_data"]["y"][3:], truth(tree["constant_data"]["X"][3:]))


@pytest.mark.parametrize("name", ["MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64"])
def test_a_generator_goes_on_where_it_stood(name):
    rng = np.random.Generator(getattr(np.random, name)(3))
    rng.normal(size=5)
    state = json.loads(json.dumps(files.write_generator(rng), default=lambda array: array.tolist()))
    assert_array_equal(files.read_generator(state).normal(size=9), rng.normal(size=9))


def test_what_other_programs_change_is_noticed(tmp_path, labelled):
    def change_number(file):
        file["observed_data/y"][2] *= 2

    def change_text(file):
        file["state/json"][()] = file["state/json"].asstr()[()].replace('"minimize": false', '"minimize": true')

    def leave_out_an_array(file):
        del file["pending/score"]

    path = tmp_path / "run.nc"
    whole = path.read_bytes()
    for change in (change_number, change_text, leave_out_an_array):
        path.write_bytes(whole)
        with h5py.File(path, "r+") as file:
            change(file)
        message = r"run\.nc is damaged: another program has changed it.* Restore the file from a"
        with pytest.raises(ValueError, match=message):
            Learner.load(path)


def test_random_damage_is_the_one_error_or_does_no_harm(tmp_path, capfd):
    """A bit is flipped, or the file cut off, 40 times. No reader complains on its own account."""
    path, rng = tmp_path / "run.nc", np.random.default_rng(7)
    written = {"a": xr.Dataset({"x": ("i", rng.normal(size=300)), "label": ("i", [f"p{i}" for i in range(300)])})}
    written["b"] = xr.Dataset({"n": ("i", np.arange(200))}, attrs={"n_observations": 3, "text": "é"})
    files.write(path, files.Contents(written, {"number": 1}), "a", 1)
    whole, errors = path.read_bytes(), []
    for position in rng.integers(len(whole), size=40):
        changed = bytes([whole[position] ^ 1 << int(rng.integers(8))]) + whole[position + 1 :]
        path.write_bytes(whole[:position] + (changed if rng.uniform() < 0.8 else b""))
        try:
            groups, document, _ = files.read(path, "a", 1)
            assert document == {"number": 1}
            assert all(groups[part].identical(written[part]) for part in written)
        except ValueError as error:
            errors.append(str(error))
    assert len(errors) > 20
    end = ". Restore the file from a copy, or begin anew with the measurements"
    assert all(error.startswith(f"{path} is damaged: ") and error.endswith(end) for error in errors)
    assert capfd.readouterr() == ("", "")


def test_everything_a_group_can_hold_is_read_as_it_was_written(tmp_path):
    """Otherwise its checksum would make the file useless."""
    strange = np.array([np.nan, -np.nan, np.inf, -0.0, 5e-324])
    group = xr.Dataset(
        {
            "floats": ("i", strange),
            "single": ("i", strange.astype("f4")),
            "big-endian": ("i", np.arange(5, dtype=">i8")),
            "flags": ("i", strange > 0),
            "nothing": (("none", "i"), np.empty((0, 5))),
            "no text": ("none", np.empty(0, "U1")),
            "text": ("i", ["", "ä", " ", "a\nb", "x" * 70_000]),
            "scalar": ((), 3),
        },
        {"i": list("abcde"), "other": ("i", range(5))},
        {"count": 1, "share": 0.1, "name": "é"},
    )
    revision = files.write(tmp_path / "run.nc", files.Contents({"g/h": group}, {}), "a", 1)
    found = files.read(tmp_path / "run.nc", "a", 1)
    assert found.revision == revision
    assert found.groups["g/h"].identical(group)


def test_what_another_learner_saved_meanwhile_is_not_lost(saved):
    first, second, third = (Learner.load(saved) for _ in range(3))
    first.tell([[1.0]], 2.0)
    first.save(saved)
    before = saved.read_bytes()
    second.tell([[2.0]], 3.0)
    for _ in range(2):
        with pytest.raises(FileExistsError, match=r"neither wrote nor loaded, .* Load it, tell it your results"):
            second.save(saved)
    assert saved.read_bytes() == before
    assert os.listdir(saved.parent) == ["run.nc"]
    merged = Learner.load(saved)
    merged.tell([[2.0]], 3.0)
    merged.save(saved)
    assert_array_equal(Learner.load(saved).y, [*truth(START), 2.0, 3.0])
    # A question is not lost either.
    saved.write_bytes(before)
    first.ask()
    first.save(saved)
    with pytest.raises(FileExistsError, match="neither wrote nor loaded"):
        third.save(saved)


def test_a_run_is_not_begun_over_the_file_of_another(tmp_path):
    path, active = tmp_path / "run.nc", learner(criterion="random")
    active.save(path)
    backup = path.read_bytes()
    active.run(truth, 2, progressbar=False, save_to=path)
    with pytest.raises(FileExistsError, match="left as it is"):
        learner(criterion="random").run(lambda x: pytest.fail("asked"), 1, progressbar=False, save_to=path)
    # Its own state, whether by this learner or by an equal one, may be saved again and again.
    active.save(path)
    same = learner(criterion="random")
    same.run(truth, 2, progressbar=False)
    same.save(path)
    # A backup is brought back, and the learner that had gone on replaces it.
    path.write_bytes(backup)
    active.save(path)
    assert len(Learner.load(path).y) == 5


def test_a_lock_is_held_by_one_at_a_time_and_leaves_nothing(tmp_path):
    """Four threads count in a file, which loses counts without a lock; whoever waits is told once."""
    count, waiting = tmp_path / "count", threading.Event()
    count.write_text("0")

    def add(_):
        for _ in range(25):
            with locked(tmp_path / "lock"):
                value = int(count.read_text())
                time.sleep(0.0005)
                count.write_text(str(value + 1))

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(add, range(4)))
        assert count.read_text() == "100"
        assert os.listdir(tmp_path) == ["count"]
        with locked(tmp_path / "lock", lambda: pytest.fail("waited for nobody")):
            second = threads.submit(lambda: locked(tmp_path / "lock", waiting.set).__enter__())
            assert waiting.wait(60)
            assert not second.done()
        second.result(60)
