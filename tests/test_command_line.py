"""The command line: from tables to suggestions, and on from there; what is wrong is said in one line."""

import csv
import re
import subprocess
import sys
import warnings
from dataclasses import fields
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

import pymc_active as pma
from pymc_active.__main__ import main
from pymc_active.active import Learner
from pymc_active.command_line import picture
from pymc_active.command_line.options import Settings
from pymc_active.command_line.state import turn
from pymc_active.learner import verification
from pymc_active.learner.saved import FORMAT_VERSION, KIND
from pymc_active.support import files

pytestmark = pytest.mark.slow

rng = np.random.default_rng(0)
POOL = pd.DataFrame(
    {
        "sample": [f"{i:03d}" for i in range(30)],
        "moisture": rng.uniform(40, 75, 30).round(1),
        "density": rng.uniform(1.0, 1.1, 30).round(3),
    }
)
START = [3, 11, 17, 25, 28]
# Calls that only the messages matter of shall not fit for long.
QUICK = ["--model", "ard", "--criterion", "uncertainty"]


def fat(table):
    """What the laboratory says."""
    return (90 - table.moisture + 200 * (table.density - 1.05) + np.sin(table.moisture)).round(2)


def rows(labels):
    chosen = POOL.set_index("sample", drop=False).loc[labels]
    return chosen.assign(fat=fat(chosen)).reset_index(drop=True)


class Laboratory:
    """A folder with tables, and the command line called in it."""

    def __init__(self, folder, capsys):
        self.folder, self.capsys = folder, capsys
        self.write("pool.csv", POOL)
        self.write("measurements.csv", rows([POOL["sample"][i] for i in START]))

    def write(self, name, table):
        text = table if isinstance(table, str) else table.to_csv(index=False)
        (self.folder / name).write_text(text)

    def add(self, labels):
        table = pd.concat([self.measurements(), rows(labels)])
        self.write("measurements.csv", table)

    def measurements(self):
        return pd.read_csv(self.folder / "measurements.csv", dtype={"sample": str})

    def __call__(self, *options, table="measurements.csv", expect=0):
        self.capsys.readouterr()
        assert main(["suggest", str(self.folder / table), *map(self._path, options)]) == expect
        out, err = self.capsys.readouterr()
        self.out, self.err = out, err
        return [line.split() for line in out.splitlines()[1:]]

    def fails(self, *options, table="measurements.csv"):
        """One line on standard error, and nothing else."""
        before = {path: path.read_bytes() for path in self.folder.iterdir()}
        self(*options, table=table, expect=2)
        assert self.out == ""
        assert {path: path.read_bytes() for path in self.folder.iterdir()} == before
        errors = [line for line in self.err.splitlines() if not line.startswith("note: ")]
        assert len(errors) == 1
        assert errors[0].startswith("python -m pymc_active suggest: error: ")
        return errors[0]

    def begin(self, *options):
        given = ["--target", "fat", "--id", "sample", "--candidates", "pool.csv", *QUICK, "--state", "run.nc", *options]
        return self(*given)

    def _path(self, option):
        return str(self.folder / option) if option.endswith((".csv", ".nc", ".png")) else option

    def load(self, name="run.nc"):
        return Learner.load(self.folder / name)

    def report(self):
        """What it prints to standard output."""
        self.capsys.readouterr()
        assert main(["report", str(self.folder / "run.nc")]) == 0
        out, err = self.capsys.readouterr()
        assert err == ""
        return out

    @property
    def open(self):
        """Labels of the open suggestions."""
        return list(self.load().pending.index)

    @property
    def notes(self):
        """What the command line writes into the file of a run."""
        return self.load().notes["command_line"]

    @property
    def settings(self):
        return Settings.from_notes(self.notes["settings"])


@pytest.fixture
def lab(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["__main__.py"])
    return Laboratory(tmp_path, capsys)


POOLED = ("--target", "fat", "--id", "sample", "--candidates", "pool.csv")


def reference_learner():
    """What the command line should be, by hand: scaled by pool and measurements, the target by what was told."""
    pool = POOL.set_index("sample")
    start = pool.iloc[START]
    y = fat(start).to_numpy()
    everything = np.concatenate([pool.to_numpy(), start.to_numpy()])
    middle, width = everything.mean(0), np.sqrt(3) * everything.std(0)
    gpm = pma.ard_gp(start, y, bounds=np.column_stack([middle - width, middle + width]))
    return Learner(gpm, "function", criterion="uncertainty", pool=pool, random_seed=0)


# From tables to suggestions.


def test_suggestions_are_those_of_a_learner(lab):
    """With labels that look like numbers kept as text; predictions with the sd of a measurement."""
    table = lab(*POOLED, *QUICK, "-n", "3")
    learner = reference_learner()
    asked = learner.ask(3)
    assert [row[1] for row in table] == list(asked.index)
    prediction = pma.predict(learner.fit, asked)
    sd = np.sqrt(prediction.y_variance.to_numpy())
    # Both have the decimals that show two digits of the sd.
    shown = np.array([[float(row[4]), float(row[6])] for row in table])
    assert (np.abs(shown - np.column_stack([prediction.f_mean, sd])) <= 0.05 * sd[:, None]).all()
    assert lab.out.splitlines()[0].split("  ")[0] == "#"
    assert "uncertainty (fat)" in lab.out
    assert "predicted fat ± 1 sd" in lab.out


def test_a_run_in_pieces_is_an_uninterrupted_one(lab):
    """Bit for bit, in the order of the table, with an answer that nobody asked for and one that is still open."""
    first = [row[1] for row in lab.begin("-n", "3")]
    foreign = next(label for label in POOL["sample"] if label not in first and POOL.index[int(label)] not in START)
    told = [first[2], foreign, first[0]]
    lab.add(told)
    second = [row[1] for row in lab("--state", "run.nc", "-n", "2")]
    learner = reference_learner()
    assert first == list(learner.ask(3).index)
    learner.tell(POOL.set_index("sample").loc[told], fat(POOL.set_index("sample").loc[told]))
    assert second == list(learner.ask(2).index)
    assert f"still open from earlier calls: {first[1]} " in lab.err
    assert lab.load().design(pending=True).identical(learner.design(pending=True))


def test_python_goes_on_with_the_file(lab):
    first = [row[1] for row in lab.begin("-n", "2")]
    learner = Learner.load(lab.folder / "run.nc")
    reference = reference_learner()
    assert first == list(reference.ask(2).index)
    assert list(learner.ask().index) == list(reference.ask().index)


def test_the_command_line_goes_on_with_what_python_did(lab):
    """Told, an answer to a question and one to none, asked, noted and saved there."""
    first = [row[1] for row in lab.begin("-n", "2")]
    elsewhere = pd.DataFrame({"moisture": [50.05], "density": [1.0505]})
    learner = Learner.load(lab.folder / "run.nc")
    learner.notes["operator"] = "AB"
    learner.tell(learner.pending.loc[first[1:]], fat(POOL.set_index("sample").loc[first[1:]]))
    learner.tell(elsewhere, fat(elsewhere))
    learner.ask()
    open_there = list(learner.pending.index)
    learner.save(lab.folder / "run.nc")
    assert f"measurements.csv is not what run.nc knows: {first[1]} is gone, the row with fat" in lab.fails(
        "--state", "run.nc"
    )
    table = pd.concat([lab.measurements(), rows(first[1:]), elsewhere.assign(sample="mine", fat=fat(elsewhere))])
    lab.write("measurements.csv", table.sample(frac=1, random_state=1))
    suggested = [row[1] for row in lab("--state", "run.nc")]
    assert "0 new of 7 measurements" in lab.err
    assert list(learner.ask().index) == suggested
    assert lab.open == [*open_there, *suggested]
    assert lab.load().notes["operator"] == "AB"
    assert lab.notes["ids"] == [*(POOL["sample"][i] for i in START), first[1], None]


def test_a_row_that_was_measured_again_in_python_has_another_id(lab):
    [[_, label, *_]] = lab.begin("-n", "1")
    learner = Learner.load(lab.folder / "run.nc")
    for value in (30.0, 31.0):
        learner.tell(POOL.set_index("sample").loc[[label]], value)
    learner.save(lab.folder / "run.nc")
    again = pd.concat([rows([label]).assign(fat=30.0), rows([label]).assign(fat=31.0, sample="again")])
    lab.write("measurements.csv", pd.concat([lab.measurements(), again]))
    lab("--state", "run.nc", "-n", "0")
    assert "0 new of 7 measurements" in lab.err
    assert lab.notes["ids"][-2:] == [label, None]


def test_what_was_measured_is_not_suggested(lab):
    """By its id, and without ids by its inputs."""
    left = len(POOL) - len(START)
    by_id = lab(*POOLED, *QUICK, "--criterion", "random", "-n", str(left))
    measured = {POOL["sample"][i] for i in START}
    assert {row[1] for row in by_id} == set(POOL["sample"]) - measured
    by_inputs = ["--target", "fat", "--inputs", "moisture,density", "--candidates", "pool.csv", *QUICK]
    table = lab(*by_inputs, "--criterion", "random", "-n", str(left))
    # Lines of the file, of which the header is the first.
    assert {int(row[1]) for row in table} == {i + 2 for i in range(len(POOL)) if i not in START}
    assert f"{left} candidate(s) are left, and -n asks for {left + 1}" in lab.fails(*by_inputs, "-n", str(left + 1))


def test_a_lost_sheet_of_open_suggestions_can_be_written_again(lab):
    first = lab.begin("-n", "3", "--output", "next.csv")
    sheet = (lab.folder / "next.csv").read_text()
    (lab.folder / "next.csv").unlink()
    again = lab("-n", "0", "--target", "fat", "--state", "run.nc", "--candidates", "pool.csv", "--output", "next.csv")
    assert [row[:2] for row in again] == [row[:2] for row in first]
    assert (lab.folder / "next.csv").read_text() == sheet
    assert "-n 0 shows them again" in lab.err


def test_a_sheet_of_points_in_a_box_wants_their_names(lab):
    """Which --id says to be in a column, and no candidate has."""
    lab(*BOX, "--id", "sample", "-n", "1", "--output", "next.csv")
    assert "next.csv has these rows: fill in sample, a name for each, and fat, and add them to " in lab.err


def test_a_map_of_the_target_is_advised_in_terms_of_tables(lab):
    x = np.linspace(0.02, 0.97, 14)
    lab.write("own.csv", pd.DataFrame({"x": x, "y": np.exp(8 * x).round(4)}))
    lab("--target", "y", "--bounds", "x=0:1", table="own.csv")
    [advice] = [line for line in lab.err.splitlines() if "a map of the outputs" in line]
    assert advice.endswith("name that one as the --target")
    assert "OutputMap" not in advice


def test_open_suggestions_are_kept_until_given_up(lab):
    first = {row[1] for row in lab.begin("--criterion", "random", "-n", "20")}
    second = {row[1] for row in lab("--state", "run.nc", "-n", "5")}
    assert len(first | second) == 25
    assert "0 candidate(s) are left" in lab.fails("--state", "run.nc")
    again = {row[1] for row in lab("--state", "run.nc", "-n", "25", "--forget-pending")}
    assert again == first | second


def test_two_people_at_once_get_different_suggestions(lab):
    """While one begins the run, the other waits, and then goes on with it."""
    options = [*POOLED, *QUICK, "--criterion", "random", "-n", "2"]
    command = [sys.executable, "-m", "pymc_active", "suggest", "measurements.csv", *options, "--state", "run.nc"]
    with turn(str(lab.folder / "run.nc"), lambda: pytest.fail("waited for nobody")):
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        other = subprocess.Popen(command, cwd=lab.folder, text=True, **pipes)
        notes = iter(other.stderr.readline, "")
        assert any("waiting for another command that works on run.nc" in note for note in notes)
        first = [row[1] for row in lab(*options, "--state", "begun.nc")]
        (lab.folder / "begun.nc").rename(lab.folder / "run.nc")
    out, err = other.communicate()
    assert other.returncode == 0, err
    second = [line.split()[1] for line in out.splitlines()[1:]]
    assert len({*first, *second}) == 4
    assert lab.open == [*first, *second]
    assert {path.name for path in lab.folder.iterdir()} == {"pool.csv", "measurements.csv", "run.nc"}


def test_a_header_that_differs_by_case_is_no_other_column(lab):
    lab.write("pool.csv", POOL.rename(columns={"moisture": "Moisture "}))
    error = lab.fails(*POOLED, *QUICK)
    assert "'moisture' in measurements.csv and 'Moisture' in pool.csv differ only by case or blanks" in error


@pytest.mark.parametrize("options", [["-n", "1_0"], ["--bounds", "moisture=1_0:90"]])
def test_underscores_in_numbers_are_refused(lab, options, capsys):
    with pytest.raises(SystemExit):
        lab("--target", "fat", *options)
    assert options[1] in capsys.readouterr().err


def test_nothing_need_be_asked(lab):
    first = [row[1] for row in lab.begin("-n", "1")]
    lab.add(first)
    assert lab("--state", "run.nc", "-n", "0") == []
    assert len(lab.load().y) == len(START) + 1
    assert lab.open == []


def test_the_same_tables_and_seed_give_the_same_suggestions(lab):
    random = [*POOLED, *QUICK, "--criterion", "random", "-n", "5"]
    assert lab(*random, "--seed", "4") == lab(*random, "--seed", "4")
    assert lab(*random, "--seed", "4") != lab(*random, "--seed", "5")


def test_rows_without_a_result_wait(lab):
    table = lab.measurements()
    table.loc[1, "fat"] = np.nan
    lab.write("measurements.csv", table)
    lab.begin()
    assert f"not measured yet, and left out: {table['sample'][1]}" in lab.err
    assert len(lab.load().y) == len(START) - 1


def test_experiments_that_failed_are_told_as_such(lab):
    """At the start and later; rounded in no way, and not once more."""
    table = lab.measurements().astype({"fat": object})
    before = table["fat"][2]
    table.loc[1, "fat"] = "Failed"
    lab.write("measurements.csv", table)
    asked = lab.begin("-n", "2")[0][1]
    assert f"experiments that failed, and are avoided: {table['sample'][1]} (line 3)" in lab.err
    failed = rows([asked]).astype({"fat": object}).assign(fat="failed")
    lab.write("measurements.csv", pd.concat([table, failed]))
    for _ in range(2):
        suggested = [row[1] for row in lab("--state", "run.nc")]
        assert asked not in suggested
        learner = lab.load()
        expected = POOL.set_index("sample").loc[[table["sample"][1], asked]]
        assert_array_equal(learner.failures, expected)
        assert len(learner.y) == len(START) - 1
    lab.write("measurements.csv", table)
    assert "is gone" in lab.fails("--state", "run.nc")
    table.loc[2, "fat"] = "failed"
    lab.write("measurements.csv", pd.concat([table, failed]))
    assert f"{table['sample'][2]} has failed now. Undo this" in lab.fails("--state", "run.nc")
    table.loc[2, "fat"] = before
    lab.write("measurements.csv", table)
    # A new beginning, too, knows them, and keeps what is open.
    lab("--state", "run.nc", "--rebuild", "-n", "0")
    assert len(lab.load().failures) == 1


def test_settings_that_were_rounded_leave_the_suggestion_open(lab):
    box = ["--target", "y", "--bounds", "a=0:10", "--bounds", "b=0:10", "--state", "run.nc"]
    lab.write("measurements.csv", "a,b,y\n1,2,3\n4,5,6\n2,8,1\n7,3,2\n")
    [[_, a, b, *_]] = lab(*box)
    near = [float(value) + (0.4 if float(value) < 5 else -0.4) for value in (a, b)]
    lab.write("measurements.csv", f"a,b,y\n1,2,3\n4,5,6\n2,8,1\n7,3,2\n{near[0]},{near[1]},4\n")
    lab(*box)
    assert (
        "note: new measurements are close to pending ones but not equal, so these stay pending until --forget-pending "
        "gives them up: measure as suggested\n" in lab.err
    )


def test_columns_that_are_no_inputs_are_named_once(lab):
    lab.write("measurements.csv", lab.measurements().assign(operator="AB", note=""))
    lab(*POOLED, *QUICK)
    assert "columns of measurements.csv that are left out: operator, note" in lab.err
    assert "2 input(s): moisture, density" in lab.err
    assert "columns of pool.csv" not in lab.err
    # A column of another name in each table is no input, and named for both.
    lab.write("pool.csv", POOL.assign(time=1.0))
    lab.write("measurements.csv", lab.measurements().assign(time_min=1.0))
    lab(*POOLED, *QUICK)
    assert "columns of measurements.csv that are left out: operator, note, time_min" in lab.err
    assert "columns of pool.csv that are left out: time\n" in lab.err


def test_a_slip_is_named_by_its_line(lab):
    table = rows(POOL["sample"][:16]).assign(fat=lambda table: 50 + table.fat / 10)
    table.loc[5, "fat"] = 4900
    lab.write("measurements.csv", table)
    lab(*POOLED, *QUICK)
    [told] = [line for line in lab.err.splitlines() if "4900" in line]
    assert told.startswith("note: fat = 4900 in 005 (line 7) is far from what all other data predict there, 5")
    assert told.endswith(". If it is a slip, correct it; if the experiment failed, write 'failed'")


@pytest.mark.parametrize("level", [0, -500])
def test_a_far_value_among_few_is_named_by_its_line_before_any_advice_on_a_map(lab, level):
    table = rows(POOL["sample"][:9]).assign(fat=lambda table: 50 + table.fat / 10 + level)
    table.loc[5, "fat"] = 4900
    lab.write("measurements.csv", table)
    lab(*POOLED, *QUICK)
    [told] = [line for line in lab.err.splitlines() if "a map of the outputs" in line]
    assert told.startswith(
        "note: fat = 4900 in 005 (line 7) is far from all other values. If it is a slip, correct it; if it stands for "
        "a failed experiment, write 'failed'."
    )
    assert told.endswith(", and name that one as the --target")
    assert "its logarithm" not in told or not level


def test_the_first_points_come_without_any_measurement(lab):
    lab.write("measurements.csv", "sample,moisture,density,fat\n")
    table = lab(*POOLED, "-n", "4", "--state", "run.nc")
    assert len({row[1] for row in table}) == 4
    assert not (lab.folder / "run.nc").exists()
    in_box = lab("--target", "fat", "--bounds", "moisture=40:75", "--bounds", "density=1:1.1", "-n", "4")
    assert all(40 <= float(m) <= 75 and 1 <= float(d) <= 1.1 for _, m, d in in_box)


def test_equal_rows_of_a_pool_are_one_unless_they_have_ids(lab):
    lab.write("pool.csv", pd.concat([POOL, POOL[:2]]).drop(columns="sample"))
    lab("--target", "fat", "--candidates", "pool.csv", *QUICK, "-n", "0", "--state", "run.nc")
    assert "2 row(s) of pool.csv repeat others" in lab.err
    assert len(lab.load().domain.pool) == len(POOL)


# A box.

BOX = ("--target", "fat", "--bounds", "moisture=40:75", "--bounds", "density=1:1.1", *QUICK)


def test_a_box_is_suggested_from_in_numbers_that_can_be_set(lab):
    table = lab(*BOX, "-n", "2", "--state", "run.nc")
    values = np.array([[float(cell) for cell in row[1:3]] for row in table])
    assert ((values >= [40, 1]) & (values <= [75, 1.1])).all()
    exact = lab.load().pending
    assert np.abs(values - exact).max(0) == pytest.approx([0, 0], abs=0.0501)
    # An answer near by settles it; one far away does not.
    table = lab.measurements().drop(columns="sample")
    table.loc[len(table)] = [*(exact[1] + [-0.3, -0.0005] * np.sign(exact[1] - [57.5, 1.05])), 30.0]
    table.loc[len(table)] = [41.0, 1.001, 44.0]
    lab.write("measurements.csv", table)
    lab("--state", "run.nc", "-n", "0")
    [still_open] = lab.load().pending
    assert still_open == pytest.approx(exact[0])
    assert re.search(r"taken as answers to suggestions nearby: \([\d.]+, [\d.]+\) for \([\d.]+, [\d.]+\)\n", lab.err)
    assert lab.err.count(" for (") == 1


def test_the_scales_of_a_box_are_its_own(lab):
    lab(*BOX, "-n", "0", "--state", "run.nc")
    x_map = lab.load().gpm.x_map
    assert x_map.shift == pytest.approx([57.5, 1.05])
    assert x_map.scale == pytest.approx([17.5, 0.05])


# Models.


@pytest.mark.parametrize(
    ("options", "description"),
    [
        (["--model", "embedding", "--components", "1"], "embedding_gp(ExpQuad, d=1)"),
        (["--model", "SE[density] + LIN"], "composite_gp(SE[1] + LIN)"),
        ([], "ard_gp(ExpQuad)"),
    ],
)
def test_models_by_name(lab, options, description):
    lab(*POOLED, *options, "--criterion", "random", "-n", "0", "--state", "run.nc")
    assert lab.load().gpm.description == description
    assert ("the model is a Gaussian process with a lengthscale for each input" in lab.err) == (not options)


def test_many_inputs_are_embedded(lab):
    X = pd.DataFrame(rng.normal(size=(8, 16)), columns=[f"x{i}" for i in range(16)])
    lab.write("pool.csv", X)
    lab.write("measurements.csv", X[:5].assign(y=np.arange(5.0)))
    lab("--target", "y", "--candidates", "pool.csv", "--criterion", "random", "-n", "0", "--state", "run.nc")
    assert lab.load().gpm.description == "embedding_gp(ExpQuad, d=2)"
    assert "as 16 inputs are too many for a lengthscale each" in lab.err


def test_several_models_compete(lab):
    lab(*POOLED, *"--learn model --model SE --model LIN --model ard -n 2 --state run.nc".split())
    assert list(lab.load().models) == ["SE", "LIN", "ard"]
    assert "bams (nats)" in lab.out
    # The answer so far.
    assert re.search(r"models by probability: (SE|LIN|ard) [\d.]+, ", lab.err)


def test_what_is_known_of_the_target_is_the_prior(lab):
    lab(*POOLED, *QUICK, "-n", "0", "--state", "run.nc", "--noise", "0.4", "--target-scale", "18,8")
    gpm = lab.load().gpm
    assert (gpm.y_map.shift, gpm.y_map.scale) == (18, 8)
    recipe = gpm.recipe()["priors"]["log_noise"]
    assert [p["value"] for p in recipe["parameters"]] == pytest.approx([np.log(0.05), 0.1])


def test_the_minimum_can_be_looked_for(lab):
    lab(*POOLED, *"--learn maximum --minimize --criterion expected_improvement -n 1 --state run.nc".split())
    assert lab.load().minimize
    assert "log expected improvement (larger is better)" in lab.out


# The file of a run.


@pytest.mark.parametrize("has_ids", [True, False])
def test_rows_that_changed_or_vanished_are_named(lab, has_ids):
    options = [*POOLED] if has_ids else ["--target", "fat", "--inputs", "moisture,density", "--candidates", "pool.csv"]
    lab(*options, *QUICK, "-n", "0", "--state", "run.nc")
    table = lab.measurements()
    gone = table["sample"][0]
    table.loc[2, "fat"] += 1
    lab.write("measurements.csv", table[1:])
    message = lab.fails("--state", "run.nc")
    changed = f"{table['sample'][2]} (line 3)" if has_ids else "line 3"
    assert f"{changed} has fat = {table.fat[2]:g}, which was {table.fat[2] - 1:g}" in message
    assert (f"{gone} is gone" if has_ids else f"the row with fat = {table.fat[0]:g} is gone") in message
    assert "--rebuild" in message
    lab("--state", "run.nc", "--rebuild", "-n", "0")
    assert sorted(lab.load().y) == sorted(table.fat[1:])


def test_a_run_that_starts_again_keeps_its_options_and_what_is_open(lab):
    first = [row[1] for row in lab.begin("-n", "3", "--seed", "7", "--noise", "0.5")]
    table = lab.measurements()
    table.loc[0, "fat"] += 1
    lab.write("measurements.csv", table)
    lab.add(first[:1])
    lab("--state", "run.nc", "--rebuild", "-n", "0", "--noise", "0.3")
    assert lab.open == first[1:]
    settings = lab.settings
    assert (settings.seed, settings.noise, settings.criterion) == (7, 0.3, "uncertainty")


def test_digits_that_a_spreadsheet_drops_do_not_count(lab):
    [[_, label, *_]] = lab.begin("-n", "1")
    table = pd.concat([lab.measurements(), rows([label])])
    table["density"] += 1e-9
    table["fat"] -= 1e-8
    lab.write("measurements.csv", table.sample(frac=1, random_state=1))
    lab("--state", "run.nc", "-n", "0")
    assert "1 new of 6 measurements" in lab.err
    assert lab.open == []


def test_repeated_rows_without_ids_are_told_apart(lab):
    """A point measured twice is two rows; a third result there is new."""
    text = "x,y\n1,5\n1,6\n2,7\n"
    options = ["--target", "y", "--bounds", "x=0:3", *QUICK, "--state", "run.nc", "-n", "0"]
    lab.write("measurements.csv", text)
    lab(*options)
    lab.write("measurements.csv", "x,y\n1,5.5\n2,7\n1,6\n1,5\n")
    lab("--state", "run.nc", "-n", "0")
    assert "1 new of 4 measurements" in lab.err
    assert lab.load().y.tolist() == [5, 6, 7, 5.5]


def test_options_that_contradict_the_run_are_refused(lab):
    lab.begin("-n", "0", "--inputs", "moisture,density", "--target-scale", "12,18")
    for options, text in (
        (["--model", "SE", "--model", "LIN + SE"], "which --model SE --model LIN + SE contradicts"),
        (["--learn", "maximum"], "run.nc was begun with --learn function, which --learn maximum contradicts"),
        (["--target", "moisture"], "--target fat, which --target moisture"),
        (["--model", "SE"], "--model ard, which --model SE"),
        (["--bounds", "moisture=40:75"], "no --bounds, which --bounds moisture=40:75"),
        (["--minimize"], "no --minimize, which --minimize"),
        (["--inputs", "moisture"], "--inputs moisture,density, which --inputs moisture"),
        (["--target-scale", "18,12"], "--target-scale 12,18, which --target-scale 18,12"),
        (["--seed", "1"], "--seed 0, which --seed 1"),
    ):
        assert text in lab.fails("--state", "run.nc", *options)


def test_the_same_options_again_are_no_contradiction(lab):
    lab.begin("-n", "0")
    lab(*POOLED, *QUICK, "--inputs", "density,moisture", "--state", "run.nc", "-n", "0")


def test_another_pool_is_refused(lab):
    lab.begin("-n", "0")
    lab.write("pool.csv", POOL[:20])
    assert "pool.csv has other candidates (20) than run.nc remembers (30)" in lab.fails(*POOLED, "--state", "run.nc")
    lab(*POOLED, "--state", "run.nc", "--rebuild", "-n", "0")
    assert len(lab.load().domain.pool) == 20
    lab(*BOX, "--state", "box.nc", "-n", "0")
    assert "begun with --bounds" in lab.fails("--state", "box.nc", "--candidates", "pool.csv")


def test_files_that_are_no_runs_are_refused(lab):
    lab.write("run.nc", "sample,fat\n")
    assert "run.nc is not a saved run" in lab.fails(*POOLED, "--state", "run.nc")
    (lab.folder / "run.nc").unlink()
    reference_learner().save(lab.folder / "run.nc")
    assert "run.nc holds a run that was begun in Python" in lab.fails(*POOLED, "--state", "run.nc")


def test_damaged_notes_of_a_run_are_one_line(lab, monkeypatch):
    lab.begin("-n", "0")
    contents = files.read(lab.folder / "run.nc", KIND, FORMAT_VERSION)
    monkeypatch.setattr("pymc_active.learner.learner.read", lambda *_: contents)
    notes = lab.notes
    unreadable, settings = "its notes of the command line are not settings and ids", notes["settings"]
    for changed, message in (
        ("nothing", unreadable),
        (notes | {"settings": None}, unreadable),
        (notes | {"ids": 5}, unreadable),
        (notes | {"ids": [5]}, "its ids are not a list of text"),
        (notes | {"ids": ["a"]}, "it has 1 ids for 5 observations"),
        *(
            (notes | {"settings": settings | added}, message)
            for added, message in (
                ({"colour": "red"}, "Settings.__init__() got an unexpected keyword argument 'colour'"),
                ({"inputs": None}, "its settings do not name the 2 input(s)"),
                ({"bounds": 5}, "'int' object is not iterable"),
                ({"learn": "model"}, "--learn model compares models: name at least two"),
                ({"bounds": [["moisture", 0, 1], ["density", 0, 1]]}, "its settings and its learner differ about"),
                ({"target": "moisture"}, "--target moisture cannot be the id or an input as well"),
            )
        ),
    ):
        contents.document["notes"] = {"command_line": changed}
        assert f"error: run.nc is damaged: {message}" in lab.fails("--state", "run.nc")


def test_settings_come_back_as_they_were(lab):
    """Names with commas, quotes and line breaks, which spreadsheets allow, and numbers with all their digits."""
    first, second = 'density, "g/ml"\nat 20 °C', "moisture = [%]"
    names = {"moisture": second, "density": first}
    lab.write("measurements.csv", lab.measurements().rename(columns=names))
    box = ["--bounds", f"{second}=40.000000001:75", "--bounds", f"{first}=1:{0.1 + 1.0 + 1e-15!r}"]
    given = f"--noise {0.1 + 0.2!r} --target-scale 18,1e2 --verify 3 --seed 5 --components 0".split()
    lab("--target", "fat", "--id", "sample", *box, *given, *QUICK, "--state", "run.nc", "-n", "0")
    before = lab.settings
    assert before.bounds == [[second, 40.000000001, 75.0], [first, 1.0, 0.1 + 1.0 + 1e-15]]
    assert (before.noise, before.target_scale, before.verify) == (0.1 + 0.2, [18.0, 100.0], 3)
    lab(*box, *given, "--state", "run.nc", "-n", "0")
    assert lab.settings == before
    lab("--target", "fat", *box, *QUICK, "--state", "hyphen.nc", "-n", "0", "--target-scale=-3,5", "--seed", "7")
    lab("--state", "hyphen.nc", "-n", "0", "--target-scale=-3.0,5", "--seed", "7")


# Whether the fit can be trusted.


@pytest.mark.parametrize("limit", [np.inf, -np.inf])
def test_verification_is_passed_on_and_reported(lab, limit, monkeypatch):
    monkeypatch.setattr(verification, "WORSE", limit)
    monkeypatch.setattr(verification, "misses_mass", lambda difference, error: False)
    monkeypatch.setattr(verification, "default_particles", lambda n: 16)
    lab.begin("--verify", "2")
    assert lab.err.count("is worse than a longer run") == (limit < 0)
    found = lab.load().verification
    assert list(found.n_observations) == [5]
    assert list(found.replaced) == [limit < 0]
    # What was said once is known from then on.
    lab("--state", "run.nc", "-n", "0")
    assert "is worse than" not in lab.err
    assert "--verify 2, which --verify sometimes contradicts" in lab.fails("--state", "run.nc", "--verify", "sometimes")
    out = " ".join(lab.report().split())
    what = "the fit is kept" if limit > 0 else "the longer run takes the place of the fit"
    assert "last with 5 measurements: predictions lose " in out
    assert f"nats a point against a longer run, so {what}" in out


def test_without_verify_nothing_is_verified(lab):
    lab.begin("-n", "1")
    assert not len(lab.load().verification.n_observations)
    assert "verified" not in lab.report()


# Sheets, pictures, reports.


def test_the_sheet_can_be_filled_in_and_added(lab):
    """It has the columns of the measurements; what the pool knows beside the inputs comes along."""
    lab.write("pool.csv", POOL.assign(shelf=[f"s{i}" for i in range(len(POOL))]))
    table = lab.measurements()
    lab.write("measurements.csv", table.assign(shelf="")[["fat", "shelf", "sample", "density", "moisture"]])
    shown = lab.begin("-n", "2", "--inputs", "moisture,density", "--output", "next.csv")
    sheet = pd.read_csv(lab.folder / "next.csv", dtype={"sample": str})
    assert list(sheet) == ["fat", "shelf", "sample", "density", "moisture"]
    assert list(sheet["sample"]) == [row[1] for row in shown]
    assert list(sheet.shelf) == [f"s{int(label)}" for label in sheet["sample"]]
    assert sheet.fat.isna().all()
    known = POOL.set_index("sample").loc[sheet["sample"]]
    assert np.array_equal(sheet[["moisture", "density"]].to_numpy(), known.to_numpy())
    # Another sheet may take its place as long as it is empty.
    lab("--state", "run.nc", "--output", "next.csv")
    sheet.assign(fat=1.0).to_csv(lab.folder / "next.csv", index=False)
    assert "next.csv holds results of fat" in lab.fails("--state", "run.nc", "--output", "next.csv")


def test_tables_that_are_read_are_not_written_over(lab):
    assert "is a table that is read" in lab.fails(*POOLED, "--output", "measurements.csv")
    lab.write("other.csv", "a,b\n1,2\n")
    assert "other.csv exists and is no sheet" in lab.fails(*POOLED, "--output", "other.csv")
    assert "there is no folder" in lab.fails(*POOLED, "--output", "nowhere/next.csv")


@pytest.mark.parametrize(
    "options",
    [
        [*POOLED, *QUICK],
        [*BOX],
        ["--target", "fat", "--bounds", "moisture=40:75", *QUICK],
        [*POOLED, "--learn", "model", "--model", "LIN", "--model", "ard", "--criterion", "random"],
    ],
)
def test_pictures_are_drawn(lab, options):
    lab(*options, "-n", "2", "--plot", "picture.png")
    assert (lab.folder / "picture.png").read_bytes().startswith(b"\x89PNG")


def test_spreads_say_what_they_are(lab):
    lab("--target", "fat", "--bounds", "moisture=40:75", *QUICK, "--plot", str(lab.folder / "picture.svg"))
    # Texts are drawn as paths, each with itself as a comment.
    assert "<!-- suggested, bars: 89 % -->" in (lab.folder / "picture.svg").read_text(encoding="utf-8")
    assert "A number behind ± is one standard deviation (sd)" in help_of(lab.capsys, "suggest")


@pytest.mark.parametrize("where", [(*POOLED, *QUICK), BOX])
def test_two_inputs_are_a_map_with_the_suggestions(lab, where, monkeypatch):
    drawn = []
    monkeypatch.setattr(picture, "pyplot", lambda: SimpleNamespace(close=drawn.append))
    monkeypatch.setattr(picture, "check_picture", lambda path: None)
    suggested = lab(*where, "-n", "2", "--plot", "picture.png")
    left, right, *bars = drawn[0].axes
    assert [bar.get_ylabel() for bar in bars] == ["fat", "sd of fat"]
    for ax in (left, right):
        [marks] = [artist for artist in ax.lines if artist.get_label() == "suggested"]
        points = [list(map(float, row[1:3] if where is BOX else row[2:4])) for row in suggested]
        assert_array_equal(np.transpose(marks.get_data()), points)
        assert [text.get_text() for text in ax.texts] == ["1", "2"]


def test_large_coordinates_are_printed_in_full(lab):
    pool = POOL.assign(moisture=5_412_000 + POOL.moisture)
    lab.write("pool.csv", pool)
    lab.write("measurements.csv", pool.iloc[START].assign(fat=[1.0, 2.0, 3.0, 2.0, 1.5]))
    [row] = lab(*POOLED, *QUICK, "-n", "1")
    assert row[2] == f"{pool.set_index('sample').moisture[row[1]]:.1f}".removesuffix(".0")


def test_an_unknown_kind_of_picture_is_refused_at_once(lab):
    assert "the name must end in one of" in lab.fails(*POOLED, "--plot", "picture.xyz")


def test_a_report_says_what_is_known(lab):
    first = [row[1] for row in lab.begin("-n", "2")]
    out = lab.report()
    learner = reference_learner()
    best = learner.recommend().index[0]
    largest = START[int(np.argmax(learner.y))]
    assert f"open: {', '.join(first)}\n" in out
    assert f"largest fat measured: {learner.y.max():g} ({POOL['sample'][largest]})" in out
    assert f" (1 sd) at {best}\n" in out
    assert re.search(r"^mean  ", out, flags=re.MULTILINE)
    assert "original_units" not in out
    assert "lengthscale[moisture]" in out
    score = float(re.search(r"is it worth going on\? the best candidate scores (\S+) ", out)[1])
    assert 0 < score < learner.y.std()


def test_a_report_says_what_a_logarithm_is_of(lab):
    lab.begin("-n", "0", "--criterion", "expected_improvement")
    assert re.search(r"the best candidate scores \S+ by log expected improvement \(larger is better\)\n", lab.report())


def test_a_report_says_how_good_predictions_are(lab):
    lab.begin("-n", "0", "--criterion", "integrated_variance")
    said = r"predictions have an sd of (\S+) \(fat\) on average, which the best candidate lowers to (\S+)\n"
    now, then = map(float, re.search(said, lab.report()).groups())
    assert 0 < then < now
    # The first suggestion was the best candidate; what comes after it has its own.
    lab("--state", "run.nc", "-n", "1")
    said = said.replace("average", "average after the 1 open")
    after, later = map(float, re.search(said, lab.report()).groups())
    # The scale of y is anew that of the data, with the imagined one.
    assert after == pytest.approx(then, rel=0.03)
    assert 0 < later < after


@pytest.mark.parametrize(("options", "beyond"), [((), "exceed"), (("--minimize",), "be below")])
def test_a_report_says_whether_it_is_worth_going_on(lab, options, beyond):
    lab("--target", "fat", "--bounds", "moisture=40:75", "--learn", "maximum", "-n", "1", "--state", "run.nc", *options)
    assert f"is it worth going on? the best fat anywhere may {beyond} the one predicted above, by " in lab.report()


def test_measurements_far_from_the_candidates_are_named_by_their_sample(lab):
    """A slip, beside the range of the candidates; and a column in other units, all of whose rows are counted."""
    table, others = lab.measurements(), [f"other {k}" for k in range(len(START))]
    low, high = POOL["moisture"].min(), POOL["moisture"].max()
    lab.write("slip.csv", table.assign(moisture=[10 * table["moisture"][0], *table["moisture"][1:]], sample=others))
    options = ["--target", "fat", "--id", "sample", "--candidates", "pool.csv", *QUICK]
    lab(*options, table="slip.csv")
    assert re.search(
        rf"row other 0 \(line 2\) of the measurements has moisture = \S+, far outside {low:g}\S* to {high:g}", lab.err
    )
    lab.write("units.csv", table.assign(moisture=100 * table["moisture"], sample=others))
    lab(*options, table="units.csv")
    assert f"{len(table)} of {len(table)} rows of the measurements have moisture far outside" in lab.err
    assert "x_scale" not in lab.err


def test_a_report_of_several_models_has_their_probabilities(lab):
    lab(*POOLED, "--learn", "model", "--model", "LIN", "--model", "SE", "-n", "0", "--state", "run.nc")
    lines = lab.report().splitlines()
    start = next(i for i, line in enumerate(lines) if line.split() == ["model", "probability"])
    assert sum(float(line.split()[1]) for line in lines[start + 1 : start + 3]) == pytest.approx(1, abs=2e-3)
    assert "refer to the scaled data" in "\n".join(lines)
    assert "is it worth going on? the most probable model is wrong with a probability of " in "\n".join(lines)


def test_quiet_is_quiet(lab):
    lab(*POOLED, *QUICK, "--quiet")
    assert lab.err == ""


def test_warnings_become_notes_said_once(lab, monkeypatch):
    def suggest(given, console):
        for _ in range(2):
            warnings.warn("something is doubtful", UserWarning, stacklevel=1)

    monkeypatch.setattr("pymc_active.command_line.suggest.suggest", suggest)
    lab(*POOLED)
    assert lab.err == "note: something is doubtful\n"


def test_a_terminal_gets_rules_and_text_as_it_is(lab, monkeypatch):
    """Square brackets are no markup."""
    names = {"moisture": "moisture [red]", "density": "density [%]"}
    lab.write("pool.csv", POOL.rename(columns=names))
    lab.write("measurements.csv", lab.measurements().rename(columns=names))
    lab(*POOLED, *QUICK)
    assert lab.out.split("  ")[:4] == ["#", "sample", "moisture [red]", "density [%]"]
    assert "│" not in lab.out
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "120")
    lab(*POOLED, *QUICK)
    assert all(text in lab.out for text in ("moisture [red]", "density [%]", "│"))


# What is wrong with tables and options.

HEADER = "sample,moisture,density,fat\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sample,moisture,density\n1,2,3\n", "measurements.csv has no column 'fat' (target); it has sample, moisture"),
        (HEADER + "1,50,1.05,20\n2,51,1.06,<5\n", "line 3: target 'fat' holds '<5', which is no number"),
        (HEADER + "1,50,1.05,20\n2,51,1.06,<5\n", "of a detection limit write about half of it, as a value"),
        (
            HEADER + '1,50,1.05,20\n2,"51,5",1.06,5\n',
            "line 3: input 'moisture' holds '51,5', which is no number; if commas",
        ),
        (
            HEADER + "1,50,1.05,20\n\n2,warm,1.06,5\n",
            "line 4: input 'moisture' holds 'warm', which is no number; name a",
        ),
        (HEADER + "1,50,,20\n", "measurements.csv, line 2 has a result but no value of 'density'"),
        (
            HEADER + "1,50,1.05,20\n1,51,1.05,20\n",
            "has the sample '1' in lines 2 and 3: give each repeat an id",
        ),
        (HEADER + ",50,1.05,20\n", "line 2 has no 'sample', which --id says names the rows: give it one"),
        (
            HEADER + '1,50,1.05,20\n2,"50,1.05,21\n3,50,1.05,22\n',
            'line 3: a quotation mark (") begins a cell, and none ends it',
        ),
        (HEADER + "1,50,1,05,20\n", "line 2: 5 cells under 4 columns; if the commas of decimal numbers"),
        (HEADER + "1,50,1.05,inf\n", "holds 'inf', which is no number"),
        ("sample;moisture;density;fat\n1;50;1.05;20\n", "columns seem to be separated otherwise, pass --separator ';'"),
        ("sample\tmoisture\tfat\n", "pass --separator tab"),
        ("sample,fat,fat\n", "more than one column named fat"),
        ("sample,,fat\n", "column 2 has no name"),
        ("", "measurements.csv is empty"),
        (HEADER + "1,50,1.05,20\n", "one value of fat does not tell its scale"),
        (HEADER + "1,50,1.05,20\n2,60,1.06,20\n", "2 equal values of fat do not tell its scale"),
        (HEADER + "".join(f"{i},50,{i},0.1\n" for i in range(3)), "3 equal values of fat do not tell its scale"),
        (HEADER + "003,50,1.05,20\n", "but the candidate of that id has"),
    ],
)
def test_tables_are_complained_of_by_line(lab, text, message):
    lab.write("measurements.csv", text)
    assert message in lab.fails(*POOLED)


def test_candidates_are_complained_of_as_well(lab):
    for table, message in (
        ("sample,moisture,density\n", "pool.csv has no rows"),
        ("sample,moisture,density\n1,2,\n", "pool.csv, line 2 has no value of 'density'"),
        ("sample,moisture,density\n1,2,3\n1,2,4\n", "in lines 2 and 3: every candidate needs an id of its own"),
        ("sample,wetness\n1,2\n", "share no column beside target and id"),
    ):
        lab.write("pool.csv", table)
        assert message in lab.fails(*POOLED)


def test_names_of_columns_may_have_commas_and_brackets(lab):
    """As headers with units have."""
    names = {"moisture": "moisture [%]", "density": "density, g/ml"}
    lab.write("pool.csv", POOL.rename(columns=names))
    lab.write("measurements.csv", lab.measurements().rename(columns=names))
    kernel = "SE[moisture [%]] + LIN[ density, g/ml ] + SE[1]"
    lab(*POOLED, "--inputs", 'moisture [%],"density, g/ml"', "--model", kernel, "--state", "run.nc")
    assert lab.settings.inputs == list(names.values())
    assert lab.load().gpm.description == "composite_gp(SE[0] + LIN[1] + SE[1])"


def test_a_spreadsheet_is_no_table(lab):
    (lab.folder / "measurements.xlsx").write_bytes(b"PK\x03\x04")
    assert "measurements.xlsx is a spreadsheet: save it as 'CSV UTF-8'" in lab.fails(*POOLED, table="measurements.xlsx")


def test_a_column_of_row_numbers_without_a_name_is_explained(lab):
    lab.write("measurements.csv", lab.measurements().to_csv())
    assert "name it, or take it out" in lab.fails(*POOLED)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--candidates", "pool.csv"], "name the column of what was measured with --target"),
        (["--target", "fat"], "say what can be measured: a table with --candidates"),
        ([*POOLED, "--bounds", "moisture=1:2"], "not from both"),
        (["--target", "fat", "--candidates", "none.csv"], "there is no file "),
        ([*POOLED, "--rebuild"], "name its file with --state"),
        ([*POOLED, "--inputs", "moisture,colour"], "has no column 'colour' (input)"),
        ([*POOLED, "--inputs", "moisture,fat"], "--target fat cannot be the id or an input"),
        ([*POOLED, "--inputs", "moisture,sample"], "--id sample cannot be an input"),
        (["--target", "fat", "--bounds", "moisture=1:2", "--inputs", "density"], "differ: a box needs bounds"),
        (["--target", "fat", "--bounds", "moisture=1:2", "--bounds", "moisture=1:3"], "the same input twice"),
        ([*POOLED, "--learn", "model", "--model", "SE"], "name at least two"),
        ([*POOLED, "--learn", "hyperparameters", "--model", "SE", "--model", "LIN"], "pass a single --model"),
        ([*POOLED, "--model", "SE", "--model", "SE"], "given twice"),
        ([*POOLED, "--model", "SE + XX"], "at position 5: unknown kernel 'XX'"),
        ([*POOLED, "--model", "XX"], "PER, PER0, RQ, SE, STEP (in 'XX')"),
        ([*POOLED, "--model", "SE[colour]"], "there is no input 'colour'; the inputs are moisture, density"),
        ([*POOLED, "--model", "embedding", "--components", "3"], "--components must be between 1 and"),
        ([*POOLED, "--criterion", "bams"], "bams"),
        ([*POOLED, "--minimize"], "--minimize says what kind of --learn maximum"),
        ([*POOLED, "--separator", ".", "--decimal", "."], "cannot be both --separator and --decimal"),
        ([*POOLED, "--encoding", "utf-9"], "unknown encoding"),
    ],
)
def test_options_are_complained_of(lab, options, message):
    assert message in lab.fails(*options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--bounds", "moisture=5"], "expected NAME=LOW:HIGH"),
        (["--bounds", "moisture=5:2"], "expected NAME=LOW:HIGH"),
        (["-n", "-1"], "expected a whole number"),
        (["-n", "few"], "expected a whole number"),
        (["--noise", "0"], "expected a positive number"),
        (["--verify", "0"], "expected sometimes, never, or a whole number"),
        (["--verify", "often"], "expected sometimes, never, or a whole number"),
        (["--target-scale", "18"], "expected TYPICAL,SPREAD"),
        (["--inputs", "a,a"], "expected different names"),
        (["--inputs", ""], "expected different names"),
        (["--seed", "-1"], "expected a whole number"),
        (["--separator", ";;"], "expected a single character"),
        (["--learn", "everything"], "expected one of function, hyperparameters, model, maximum; got 'everything'"),
    ],
)
def test_malformed_options_are_one_line(lab, options, message):
    with pytest.raises(SystemExit) as stopped:
        lab(*POOLED, *options)
    assert stopped.value.code == 2
    err = lab.capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1


def test_a_column_of_remarks_without_any_is_no_input(lab):
    lab.write("measurements.csv", lab.measurements().assign(remark="good"))
    lab.write("pool.csv", POOL.assign(remark=""))
    lab(*POOLED, *QUICK)
    assert "2 input(s): moisture, density" in lab.err
    assert "columns of pool.csv that are left out: remark" in lab.err


def test_the_line_in_which_excel_names_the_separator_is_passed_over(lab):
    for name, table in (("measurements.csv", lab.measurements()), ("pool.csv", POOL)):
        text = "sep=;\n" + table.to_csv(index=False, sep=";", decimal=",")
        (lab.folder / name).write_text(text, encoding="utf-8-sig")
    lab(*POOLED, *QUICK, "--separator", ";", "--decimal", ",")
    assert "2 input(s): moisture, density" in lab.err


def test_a_table_in_another_notation(lab):
    table = lab.measurements()
    text = table.to_csv(index=False, sep=";", decimal=",").replace("sample", "Prüfung")
    (lab.folder / "measurements.csv").write_bytes(text.encode("cp1252"))
    (lab.folder / "pool.csv").write_bytes(
        POOL.to_csv(index=False, sep=";", decimal=",").replace("sample", "Prüfung").encode("cp1252")
    )
    options = ["--target", "fat", "--id", "Prüfung", "--candidates", "pool.csv", *QUICK]
    style = ["--separator", ";", "--decimal", ","]
    assert "pass --encoding" in lab.fails(*options, *style)
    style += ["--encoding", "cp1252"]
    shown = lab(*options, *style, "-n", "2", "--state", "run.nc", "--output", "next.csv")
    assert [row[1] for row in shown] == list(reference_learner().ask(2).index)
    with open(lab.folder / "next.csv", encoding="cp1252") as file:
        header, first, _ = csv.reader(file, delimiter=";")
    assert header == ["Prüfung", "moisture", "density", "fat"]
    assert first[1] == str(POOL.moisture[int(first[0])]).replace(".", ",")
    # How tables are written is remembered.
    lab("--state", "run.nc", "-n", "0")


def test_an_error_can_be_traced(lab):
    with pytest.raises(ValueError, match="name the column"):
        lab("--candidates", "pool.csv", "--debug")


# Help.


def help_of(capsys, *command):
    with pytest.raises(SystemExit) as stopped:
        main([*command, "--help"])
    assert stopped.value.code == 0
    return capsys.readouterr().out


def test_each_range_needs_its_option(lab):
    with pytest.raises(SystemExit):
        main(["suggest", "measurements.csv", "--target", "fat", "--bounds", "moisture=1:9", "density=20:120"])
    assert "write --bounds before the range of each input" in lab.capsys.readouterr().err


def test_help_and_options_are_the_same(lab):
    """Help is written by hand: every option that it explains exists, and it explains all that a run remembers."""
    text = help_of(lab.capsys, "suggest")
    explained = re.findall(r"^  (--?[a-z-]+)", text, flags=re.MULTILINE)
    for flag in explained:
        with pytest.raises(SystemExit):
            main(["suggest", "measurements.csv", flag, "--no-such-option"])
        err = lab.capsys.readouterr().err
        assert "unrecognized arguments: --no-such-option" in err or "expected one argument" in err
    names = [field.name for field in fields(Settings)]
    remembered = {"--" + ("model" if name == "models" else name.replace("_", "-")) for name in names}
    assert remembered | {"-n", "--candidates", "--state", "--output", "--plot", "--rebuild"} <= set(explained)


def test_help_lists_the_goals_and_criteria_that_a_learner_takes(lab):
    text = help_of(lab.capsys, "suggest")
    X = np.zeros((1, 1))
    with pytest.raises(ValueError, match="learn must be one of") as error:
        Learner(pma.composite_gp(X, [0.0], "SE"), "?", pool=X)
    goals = str(error.value).split(" one of ")[1].split("; got")[0].split(", ")
    listed = text.split("goals (--learn)\n")[1].split("\n\n")[0]
    assert sorted(re.findall(r"^  (\w+)", listed, flags=re.MULTILINE)) == sorted(goals)
    listed = text.split("criteria (--criterion)\n")[1].split("\n\n")[0]
    models = [pma.composite_gp(X, [0.0], kernel) for kernel in ("SE", "LIN")]
    with pytest.raises(ValueError, match="criterion must be callable or one of") as error:
        Learner(models, "model", criterion="?", pool=X)
    known = str(error.value).split(" one of ")[1].split("; got")[0]
    assert re.findall(r"\w+", listed) == sorted({*re.findall(r"\w+", known), "random"})
    with pytest.raises(SystemExit):
        lab(*POOLED, "--criterion", "?")
    assert "expected one of " + " ".join(listed.split()) in lab.capsys.readouterr().err


@pytest.mark.parametrize("command", [[], ["report"]])
def test_help_comes_at_once(command):
    """It loads neither NumPy nor PyMC; only the help that lists all criteria does."""
    code = (
        f"import sys\nfrom pymc_active.__main__ import main\n"
        f"try:\n    main([*{command}, '--help'])\nexcept SystemExit as stopped:\n    assert stopped.code == 0\n"
        "assert not {'numpy', 'pymc', 'pytensor', 'rich'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_module_runs_as_a_program(lab):
    command = [sys.executable, "-m", "pymc_active", "suggest", "measurements.csv", *POOLED, *QUICK]
    done = subprocess.run(command, cwd=lab.folder, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[1].split()[1] == reference_learner().ask().index[0]
