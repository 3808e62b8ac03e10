"""The command line: from tables to suggestions, and on from there; what is wrong is said, and nothing is changed."""

import re
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import pymc_active as pma
from pymc_active.__main__ import main
from pymc_active.command_line.suggest import _warnings_as_notes
from pymc_active.command_line.tables import read_table
from pymc_active.support.locks import locked

rng = np.random.default_rng(0)
POOL = pd.DataFrame({"sample": [f"{i:03d}" for i in range(30)]}).assign(
    moisture=rng.uniform(40, 75, 30).round(1), density=rng.uniform(1.0, 1.1, 30).round(3)
)
INPUTS = ["moisture", "density"]
START = [3, 11, 17, 25, 28]
POOLED = ("--target", "fat", "--id", "sample", "--candidates", "pool.csv", "--state", "run.nc")
BY_ROW = ("--target", "fat", "--inputs", *INPUTS, "--candidates", "pool.csv", "--state", "run.nc")
BOX = ("--target", "fat", "--bounds", "moisture=40:75", "density=1:1.1", "--state", "run.nc")
# Calls that only the bookkeeping matters of.
QUICK = ("--criterion", "random")


def rows(labels):
    """What the laboratory says."""
    chosen = POOL.set_index("sample", drop=False).loc[labels].reset_index(drop=True)
    exact = 90 - chosen.moisture + 200 * (chosen.density - 1.05) + np.sin(chosen.moisture)
    return chosen.assign(fat=exact.round(2))


class Laboratory:
    """A folder with tables, and the command line called in it."""

    def __init__(self, capsys):
        self.capsys = capsys
        self.write("pool.csv", POOL)
        self.write("measurements.csv", rows(POOL["sample"].iloc[START]))

    def write(self, name, table):
        text = table if isinstance(table, str) else table.to_csv(index=False)
        Path(name).write_text(text, encoding="utf-8")

    def add(self, table):
        self.write("measurements.csv", pd.concat([self.measurements(), table]))

    def measurements(self):
        return pd.read_csv("measurements.csv", dtype={"sample": str})

    def run(self, *options):
        """The exit code; what was printed is in ``out`` and ``err``."""
        self.capsys.readouterr()
        try:
            return main(options)
        except SystemExit as stopped:
            return stopped.code
        finally:
            self.out, self.err = self.capsys.readouterr()

    def __call__(self, *options):
        """The first words of the suggestions: their labels, if they are candidates."""
        assert self.run("suggest", "measurements.csv", *options) == 0, self.err
        return [line.split()[0] for line in self.out.splitlines()[1:]]

    def fails(self, *options):
        """The error; no file was changed."""
        before = {path: path.read_bytes() for path in Path().iterdir()}
        assert self.run("suggest", "measurements.csv", *options) == 2
        assert self.out == ""
        assert {path: path.read_bytes() for path in Path().iterdir()} == before
        return self.err.partition("error: ")[2]

    def load(self):
        return pma.Learner.load("run.nc")


@pytest.fixture
def lab(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return Laboratory(capsys)


def reference_learner(**options):
    """What the command line should be, by hand."""
    pool, start = POOL.set_index("sample"), rows(POOL["sample"].iloc[START]).set_index("sample")
    gpm = pma.ard_gp(start[INPUTS], start["fat"], bounds=list(zip(pool.min(), pool.max(), strict=True)))
    return pma.Learner(gpm, pool=pool, random_seed=0, **options)


def test_a_run_in_pieces_is_an_uninterrupted_one(lab):
    """Bit for bit, with an answer that nobody asked for and one that is still open; ids that look like numbers."""
    first, reference = lab(*POOLED, "-n", "3", "--output", "next.csv"), reference_learner()
    assert first == list(reference.ask(3).index)
    asked = reference.pending
    prediction = pma.predict(reference.fit, asked)
    shown = [float(cell) for line in lab.out.splitlines()[1:] for cell in line.split()[3::2]]
    wanted = np.column_stack([prediction.f_mean, np.sqrt(prediction.y_variance)]).ravel()
    assert shown == pytest.approx(wanted.tolist(), abs=0.5)
    sheet = pd.read_csv("next.csv", dtype={"sample": str})
    assert list(sheet) == ["sample", *INPUTS, "fat"]
    assert list(sheet["sample"]) == first
    assert sheet.fat.isna().all()
    foreign = next(label for label in POOL["sample"] if label not in first and int(label) not in START)
    told = [first[2], foreign, first[0]]
    lab.add(rows(told))
    second = lab(*POOLED, "-n", "2")
    reference.tell(rows(told).set_index("sample")[INPUTS], rows(told).fat)
    assert second == list(reference.ask(2).index)
    assert "8 results, 0 failures, 0 not measured yet; 1 open suggestion(s)" in lab.err
    assert lab.load().design(pending=True).identical(reference.design(pending=True))
    # Nothing is counted twice, and nothing is suggested twice.
    third = lab(*POOLED)
    assert len(lab.load().y) == 8
    assert not {*third} & {first[1], *second}


def test_open_suggestions_are_shown_again_and_given_up(lab):
    first = lab(*POOLED, *QUICK, "-n", "3", "--output", "next.csv")
    assert lab(*POOLED, *QUICK, "-n", "0", "--output", "next.csv") == first
    assert "22 candidate(s) are left, not 23: others are measured or open" in lab.fails(*POOLED, *QUICK, "-n", "23")
    left = len(POOL) - len(START)
    assert {*first} < {*lab(*POOLED, *QUICK, "-n", str(left), "--forget-pending")}


def test_python_and_the_command_line_take_turns(lab):
    """Digits that a spreadsheet drops, and the order of rows, do not count."""
    first, learner = lab(*POOLED, *QUICK, "-n", "2"), lab.load()
    learner.notes["operator"] = "AB"
    learner.tell(learner.pending.iloc[[1]], rows(first[1:]).fat)
    learner.save("run.nc")
    assert f"the row at {first[1]} is gone" in lab.fails(*POOLED, *QUICK)
    table = pd.concat([lab.measurements(), rows(first[1:])])
    table[["density", "fat"]] *= 1 + 1e-10
    lab.write("measurements.csv", table.sample(frac=1, random_state=1))
    lab(*POOLED, *QUICK, "-n", "0")
    assert len(lab.load().y) == 6
    assert list(lab.load().pending.index) == first[:1]
    assert lab.load().notes["operator"] == "AB"


def test_what_was_measured_is_not_suggested(lab):
    """By its id, so that an equal recipe of another id may be; without ids by its inputs."""
    pool = pd.concat([POOL, POOL.assign(sample="twin of " + POOL["sample"])])
    lab.write("pool.csv", pool)
    lab(*POOLED, *QUICK, "-n", "55")
    names = [line[:11].strip() for line in lab.out.split("\n")[1:56]]
    assert sorted(names) == sorted({*pool["sample"]} - {POOL["sample"][i] for i in START})
    # Rows as a spreadsheet counts them; equal ones are one.
    by_row = lab(*BY_ROW[:-1], "other.nc", *QUICK, "-n", "25")
    assert {int(row) for row in by_row} == {i + 2 for i in range(30) if i not in START}


def test_failures_and_rows_without_a_result(lab):
    table = lab.measurements().astype({"fat": object})
    fat, names = list(table.fat), table["sample"]
    for told, words in (
        ([fat[0], "failed", fat[2], "#N/A", fat[4]], None),
        ([fat[0], "failed", "n.d.", "Failure", fat[4]], f"the row at {names[2]} is gone, where fat was"),
        ([fat[0], 12.5, "n.d.", "Failure", fat[4]], f"{names[1]} (row 3) has 12.5, where fat was failed"),
    ):
        lab.write("measurements.csv", table.assign(fat=told))
        if words is not None:
            assert words in lab.fails(*POOLED, *QUICK)
        lab(*POOLED, *QUICK, "--rebuild")
        results, failed = sum(isinstance(one, float) for one in told), [one in ("failed", "Failure") for one in told]
        assert f"{results} results, {sum(failed)} failures, {5 - results - sum(failed)} not measured yet" in lab.err
        assert np.array_equal(lab.load().failures, table.loc[failed, INPUTS])


def test_rows_that_changed_or_vanished_are_named(lab):
    first, table = lab(*BY_ROW, *QUICK, "-n", "2"), lab.measurements()
    gone, value = table["sample"][0], table.fat[2]
    table.loc[2, "fat"] += 1
    lab.write("measurements.csv", table[1:])
    error = lab.fails(*BY_ROW, *QUICK)
    assert f"row 3 has {value + 1:g}, where fat was {value:g}" in error
    assert f"the row at {int(gone) + 2} is gone, where fat was" in error
    # A new beginning keeps what is open, but for what was measured meanwhile, and the old file.
    table = pd.concat([table, rows([POOL["sample"][int(first[0]) - 2]])])
    lab.write("measurements.csv", table)
    lab(*BY_ROW, *QUICK, "--rebuild", "-n", "0")
    assert sorted(lab.load().y) == sorted(table.fat)
    assert list(map(str, lab.load().pending.index)) == first[1:]
    assert len(pma.Learner.load("run.nc.before").y) == 5


def test_a_box_is_suggested_from_in_numbers_that_can_be_set(lab):
    lab(*BOX, *QUICK, "-n", "2", "--output", "next.csv")
    sheet, pending = pd.read_csv("next.csv"), lab.load().pending
    assert np.array_equal(sheet[INPUTS], pending)
    assert np.array_equal(pending, pending.round({"moisture": 1, "density": 4}))
    lab.add(sheet.assign(fat=[30.0, 31.0]))
    lab(*BOX, *QUICK, "-n", "0")
    assert len(lab.load().pending) == 0
    assert lab.load().y[-2:].tolist() == [30, 31]
    # A point that was measured again is new, once, also if it gave the same.
    lab.write("measurements.csv", pd.concat([rows(["003"]), rows(["003"]).assign(fat=1.0), lab.measurements()]))
    for _ in range(2):
        lab(*BOX, *QUICK, "-n", "0")
        assert lab.load().y[-4:].tolist() == [30, 31, 1, *rows(["003"]).fat]


def test_the_first_points_come_without_any_measurement(lab):
    """They are remembered; when there are enough results the model is made, as the options said."""
    lab.write("measurements.csv", "sample,moisture,density,fat\n")
    options = (*POOLED, "--noise", "0.5")
    first = lab(*options, "-n", "4")
    assert "predicted" not in lab.out
    lab.run("report", "run.nc")
    assert "predictions begin when the first design is measured" in lab.out
    assert not {*first} & {*lab(*options, "-n", "1")}
    X = pma.Learner.load("run.nc", model=lambda X, y: None).pending
    lab.write("measurements.csv", X.assign(sample=list(X.index), fat=[20.0, 30.0, 40.0, 35.0, 22.0]))
    lab(*options)
    assert "predicted fat" in lab.out
    assert lab.run("report", "run.nc") == 0
    assert "0.5     0" in lab.out


def test_models_by_name(lab):
    lab(*POOLED, *QUICK, "--model", "SE[density] + LIN", "-n", "0")
    assert lab.load().gpm.description == "composite_gp(SE[1] + LIN)"
    lab(*POOLED, *QUICK, "-n", "0", "--rebuild")
    assert lab.load().gpm.description == "ard_gp(Matern52)"
    X = pd.DataFrame(rng.normal(size=(8, 16)), columns=[f"x{i}" for i in range(16)])
    lab.write("pool.csv", X)
    lab.write("measurements.csv", X[:5].assign(y=np.arange(5.0)))
    lab("--target", "y", "--candidates", "pool.csv", "--state", "other.nc", *QUICK)
    assert pma.Learner.load("other.nc").gpm.description == "embedding_gp(ExpQuad, d=2)"
    assert "x0" not in lab.out


@pytest.mark.slow
def test_goals_pictures_and_reports(lab):
    several = (*POOLED, "--learn", "model", "--model", "SE", "LIN", "ard")
    lab(*several, "-n", "2", "--plot", "run.png")
    assert list(lab.load().models) == ["SE", "LIN", "ard"]
    lab.run("report", "run.nc")
    assert "probability" in lab.out
    assert " nats by bams" in lab.out
    minimum = ("--learn", "maximum", "--minimize", "--rebuild")
    lab(*POOLED, *minimum, "--plot", "run.png")
    assert lab.load().minimize
    assert Path("run.png").read_bytes().startswith(b"\x89PNG")
    lab.run("report", "run.nc")
    assert "run.nc: --target fat --learn maximum --minimize\n5 results, 0 failures\nopen: " in lab.out
    assert "Optimum: the minimum" in lab.out
    assert "lengthscale[moisture]" in lab.out


def test_outcomes_that_are_yes_or_no_or_counts(lab):
    table = rows(POOL["sample"].iloc[START])
    lab.write("measurements.csv", table.assign(fat=(table["fat"] > table["fat"].median()).astype(int)))
    lab(*POOLED, "--outcome", "yesno")
    assert "probability of fat" in lab.out
    assert lab.load().gpm.likelihood.name == "bernoulli"
    assert 0 <= float(lab.out.split()[-1]) <= 1
    lab(*POOLED, "--outcome", "counts", "--rebuild", "-n", "0")
    assert lab.load().gpm.likelihood.name == "negative_binomial"
    assert "was begun with --outcome counts" in lab.fails(*POOLED)


def test_files_that_are_not_ours_are_refused_and_not_written_over(lab):
    lab.write("next.csv", rows(["001"]))
    lab.write("other.csv", "a,b\n1,2\n")
    for output, words in (
        ("measurements.csv", "measurements.csv is a table that is read"),
        ("next.csv", "next.csv holds results"),
        ("other.csv", "other.csv has no column 'fat' (it is no sheet"),
    ):
        assert words in lab.fails(*POOLED, "--output", output)
    lab.write("run.nc", "sample,fat\n")
    assert "run.nc is not a saved run" in lab.fails(*POOLED)
    Path("run.nc").unlink()
    reference_learner().save("run.nc")
    assert "run.nc was begun in Python" in lab.fails(*POOLED)
    assert lab.run("report", "run.nc") == 2
    assert "run.nc was begun in Python" in lab.err


def test_other_options_and_candidates_are_refused(lab):
    lab(*POOLED, *QUICK, "-n", "0")
    for options, text in (
        ((*POOLED, *QUICK, "--learn", "hyperparameters"), "run.nc was begun with --learn function: repeat its options"),
        ((*POOLED, *QUICK, "--seed", "1"), "--seed 0"),
        ((*POOLED, *QUICK, "--inputs", "moisture"), "--inputs ['moisture', 'density']"),
        (POOLED, "--criterion random"),
        ((*BOX, *QUICK), "--id sample and --bounds None"),
    ):
        assert text in lab.fails(*options)
    lab.write("pool.csv", POOL[:20])
    assert "pool.csv is not what run.nc knows" in lab.fails(*POOLED, *QUICK)


@pytest.mark.nightly
def test_a_new_beginning_finds_the_inputs_anew(lab):
    [label] = lab(*POOLED, *QUICK)
    # What is empty for all candidates is no input.
    lab.write("pool.csv", POOL.assign(pH=np.arange(30) % 7, remark=""))
    lab.write("measurements.csv", lab.measurements().assign(pH=[3, 4, 3, 4, 0], remark="good"))
    lab(*POOLED, *QUICK, "-n", "0")
    assert "inputs: moisture, density; columns left out: pH, remark" in lab.err
    lab(*POOLED, *QUICK, "-n", "0", "--rebuild")
    assert list(lab.load().pending.columns) == [*INPUTS, "pH"]
    assert list(lab.load().pending.index) == [label]
    # A column that was renamed in one table is left out of both.
    lab.write("pool.csv", POOL.rename(columns={"density": "Density"}).assign(pH=np.arange(30) % 7))
    lab(*POOLED, *QUICK, "-n", "0", "--rebuild")
    assert "columns left out: density, remark, Density of the candidates" in lab.err


def test_two_people_at_once_get_different_suggestions(lab):
    """While one works on the run, the other waits."""
    first = lab(*POOLED, *QUICK, "-n", "2")
    command = [sys.executable, "-m", "pymc_active", "suggest", "measurements.csv", *POOLED, *QUICK]
    with locked(Path("run.nc.lock")):
        other = subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert "waiting for another command that works on run.nc" in other.stderr.readline()
    out, _ = other.communicate()
    assert other.returncode == 0
    assert out.split("\n")[1].split()[0] not in first
    assert {path.name for path in Path().iterdir()} == {"pool.csv", "measurements.csv", "run.nc"}


def cells(text, decimal=".", encoding="utf-8", name="table.csv"):
    Path(name).write_bytes(text.encode(encoding))
    table = read_table(name, decimal)
    return table.cells, table.numbers([one for one in table.cells if one != "id"], "input")


@pytest.mark.parametrize(
    ("text", "how"),
    [
        ("id,a,b\nx,1.5,2\n\ny,-3e2,\n", {}),
        ("id;a;b;\r\nx;1,5;2;\r\n;;;\r\ny;-3e2;n.d.;\r\n", {"decimal": ","}),
        ("id\ta\tb\nx\t 1.5\t2\n\t\t\ny\t-3e2\t#N/A\n", {"encoding": "utf-8-sig"}),
        ('id,"a","b"\nx,1.5,2\n,,\ny,-3e2,ND\n', {"encoding": "utf-16"}),
        ("  id   a     b\n   x 1.5     2\n\n   y -3e2    nan\n", {}),
    ],
)
def test_tables_as_programs_write_them(tmp_path, monkeypatch, text, how):
    monkeypatch.chdir(tmp_path)
    found, numbers = cells(text, **how)
    assert list(found) == ["id", "a", "b"]
    # Rows as a spreadsheet counts them.
    assert list(found.index) == [2, 4]
    assert found["id"].tolist() == ["x", "y"]
    np.testing.assert_array_equal(numbers, [[1.5, 2], [-300, np.nan]])
    monkeypatch.setattr(pd, "read_excel", lambda path, **how: pd.DataFrame([["id", "a"], ["x", "1.5"]]))
    assert read_table("table.xlsx", ".").numbers(["a"], "input").iloc[0, 0] == 1.5


HEADER = "sample,moisture,density,fat\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sample,moisture,density\n1,2,3\n", "measurements.csv has no column 'fat' (--target); it has sample, mois"),
        (HEADER + "1,50,1.05,<5\n", "row 2: target 'fat' holds '<5', which is no number; of a detection limit write"),
        (HEADER + '1,50,1.05,2\n2,"51,5",1.06,5\n', "row 3: input 'moisture' holds '51,5', which is no number; with a"),
        (HEADER + "1,warm,1.05,2\n", "of labels pass --categorical and the column, or --id; or choose the inputs"),
        (HEADER + "1,50 mM,1.05,2\n", "holds '50 mM', which is no number; write the number alone, without its unit"),
        (HEADER + "1,50,1.05,inf\n", "holds 'inf', which is no number; leave the cell empty if there is no result yet"),
        (HEADER + "1,50,,20\n", "measurements.csv, row 2 has no value of 'density'"),
        (HEADER + "1,50,1,2\n1,51,1,2\n", "row 3: the sample '1' is missing or repeated: give each row an id of its"),
        (HEADER + "1,50,1,05,20\n", "Expected 4 fields in line 2, saw 5; save it as 'CSV UTF-8', with ';' between"),
        (",sample,fat\n0,1,2\n", "the name '' of a column is missing or repeated (in pandas: index=False)"),
        ("", "measurements.csv cannot be read as a table: No columns"),
        (HEADER + "003,50,1.05,20\n", "measurements.csv has other inputs of 003 than the candidates: give it another"),
    ],
)
def test_tables_are_complained_of_by_row(lab, text, message):
    lab.write("measurements.csv", text)
    assert message in lab.fails(*POOLED)


def test_a_table_in_another_notation(lab):
    for name, table in (("measurements.csv", lab.measurements()), ("pool.csv", POOL)):
        lab.write(name, table.rename(columns={"sample": "Prüfung"}).to_csv(index=False, sep=";", decimal=","))
    options = ("--target", "fat", "--id", "Prüfung", "--candidates", "pool.csv", "--state", "run.nc", "--decimal", ",")
    [label] = lab(*options, *QUICK, "--output", "next.csv")
    header, row = Path("next.csv").read_text(encoding="utf-8").splitlines()
    assert header == "Prüfung;moisture;density;fat"
    assert row == f"{label};{POOL.moisture[int(label)]};{POOL.density[int(label)]};".replace(".", ",")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((*POOLED, "--learn", "minimum"), "maximum (minimum: --learn maximum --minimize); got 'minimum'"),
        ((*POOLED, "--minimize"), "--minimize needs --learn maximum as well"),
        ((*POOLED, "--criterion", "expected_improvement"), "expected_improvement needs --learn maximum as well"),
        ((*POOLED, "--criterion", "?"), "criterion must be callable or one of bald, "),
        ((*POOLED, "--learn", "model", "--model", "SE"), "learn='model' compares models"),
        ((*POOLED, "--model", "SE[colour]"), "inputs are numbered, as in SE[0]"),
        ((*POOLED, "--inputs", "moisture", "colour"), "pool.csv has no column 'colour' (input)"),
        ((*POOLED, "--inputs", "moisture", "fat"), "--target, --id and each input must be a different column"),
        ((*POOLED, "--bounds", "moisture=1:2"), "argument --bounds: not allowed with argument --candidates"),
        (("--target", "fat", "--state", "run.nc"), "one of the arguments --candidates --bounds is required"),
        ((*BOX[:2], "--bounds", "moisture=9:5", "--state", "run.nc"), "expected NAME=LOW:HIGH"),
        ((*POOLED, "-n", "-1"), "n must be "),
        (("--target", "fat", "--candidates", "none.csv", "--state", "run.nc"), "No such file or directory: 'none.csv'"),
    ],
)
def test_options_are_complained_of(lab, options, message):
    assert message in lab.fails(*options)


def test_warnings_become_notes_in_terms_of_the_table(lab):
    """A slip is named by its row."""
    table, options = rows(POOL["sample"][:16]), (*POOLED, "--criterion", "uncertainty")
    lab.write("measurements.csv", table.assign(fat=table.fat + 30.0 * (table.index == 5)))
    lab(*options)
    # A report looks closer, at one that hides in the noise that it makes.
    assert lab.run("report", "run.nc") == 0
    assert re.search(r"y\[5\] = .* is far from what all other data predict there", lab.err)
    lab.write("measurements.csv", table.assign(fat=(50 + table.fat / 10).where(table.index != 5, 4900)))
    lab(*options, "--rebuild")
    [told] = [line for line in lab.err.splitlines() if "4900" in line]
    assert told.startswith("note: 005 (row 7) = 4900 is far from all other values. If it is a slip, correct it")
    said = "2 values of y are -1, far from all others. If they stand for failures, tell NaN in their place"
    with _warnings_as_notes({}):
        for _ in range(2):
            warnings.warn(said, UserWarning, stacklevel=1)
    assert lab.capsys.readouterr().err == f"note: {said.replace('tell NaN', "write 'failed'")}\n"


def test_help_comes_at_once():
    """Without NumPy, PyMC and the like."""
    code = (
        "import sys\nfrom pymc_active.__main__ import main\n"
        "try:\n    main(['suggest', '--help'])\nexcept SystemExit as stopped:\n    assert stopped.code == 0\n"
        "assert not {'numpy', 'pandas', 'pymc', 'pytensor', 'rich'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert "With --id, a candidate whose id was measured is not suggested again" in done.stdout


def test_a_column_of_error_bars_is_known(lab):
    table, options = lab.measurements().assign(sd=[0.5, 0.0, 1.5, 0.25, ""]), (*POOLED, *QUICK, "--error")
    lab.write("measurements.csv", table)
    assert len(lab(*options, "sd", "--output", "next.csv")) == 1
    assert lab.load().y_sd.tolist() == [0.5, 0.0, 1.5, 0.25, 0.0]
    lab.add(pd.read_csv("next.csv", dtype={"sample": str}).assign(fat=50.0, sd=2.0))
    lab(*options, "sd")
    assert lab.load().y_sd.tolist() == [0.5, 0.0, 1.5, 0.25, 0.0, 2.0]
    # A bar that changed names its row, as a result does.
    lab.write("measurements.csv", lab.measurements().replace({"sd": {1.5: 1.0}}))
    assert f"where fat was {table.fat[2]:.6g} ± 1.5" in lab.fails(*options, "sd")
    assert "has no column 'error'" in lab.fails(*options, "error")


def test_names_of_rows_are_no_input(lab):
    """A column of names that nobody said is one; labels that are told apart by themselves may be one as well."""
    lab.write("pool.csv", POOL.assign(sample="S" + POOL["sample"]))
    lab.write("measurements.csv", rows(POOL["sample"].iloc[START]).assign(sample=lambda table: "S" + table["sample"]))
    options = ("--target", "fat", "--candidates", "pool.csv", "--state", "run.nc")
    error = lab.fails(*options)
    assert "pool.csv has another sample in each row" in error
    assert "pass --id sample" in error
    lab(*options, "--id", "sample")


def test_labels_are_known_in_other_spellings(lab):
    lab.write("pool.csv", "T,lot,dry\n10,1,TRUE\n20,1,FALSE\n30,2,TRUE\n40,2,FALSE\n50,3,TRUE\n")
    lab.write("measurements.csv", "T,lot,dry,fat\n10,1.0,True,5\n30,2.0,True,6\n50,3.0,True,9\n")
    options = ("--target", "fat", "--candidates", "pool.csv", "--categorical", "lot", "--state", "run.nc")
    assert sorted(lab(*options, "-n", "2")) == ["3", "5"]
    assert "of no candidate" not in lab.err
    assert lab.load().space.inputs == ["T", "lot=1", "lot=2", "lot=3", "dry=FALSE", "dry=TRUE"]
    lab.write("measurements.csv", Path("measurements.csv").read_text() + "20,1,false,7\n40,4,False,7\n")
    assert "lot must be one of '1', '2', '3'; got '4' in row 6; --rebuild takes in new labels" in lab.fails(*options)
    lab(*options, "--rebuild", "-n", "0")
    assert "lot 4: measured, but of no candidate" in lab.err


def test_names_of_compounds_are_labels(lab):
    lab.write("pool.csv", 'T,sol\n10,DMF\n20,2-MeTHF\n30,"1,4-dioxane"\n40,DMF\n')
    lab.write("measurements.csv", "T,sol,fat\n10,DMF,1\n40,DMF,2\n")
    lab("--target", "fat", "--candidates", "pool.csv", "--state", "run.nc", *QUICK)
    assert lab.load().space.inputs == ["T", "sol=1,4-dioxane", "sol=2-MeTHF", "sol=DMF"]
    lab.write("pool.csv", "T,sol\n10,80 °C\n20,RT\n")
    assert "row 2: input 'sol' holds '80 °C', which is no number" in lab.fails(
        "--target", "fat", "--candidates", "pool.csv", "--state", "other.nc"
    )
    box = ("--target", "fat", "--bounds", "T=0:100", "--categorical", 'sol=DMF, "1,4-dioxane"', "--state", "box.nc")
    lab(*box, *QUICK)
    assert pma.Learner.load("box.nc").space.inputs == ["T", "sol=DMF", "sol=1,4-dioxane"]


def test_rounded_suggestions_fulfil_the_constraints_and_are_new(lab):
    parts = ("a", "b", "c", "d")
    lab.write("measurements.csv", ",".join([*parts, "fat"]) + "\n0.25,0.25,0.25,0.25,1\n0.1,0.2,0.3,0.4,2\n")
    box = ("--target", "fat", "--bounds", *(f"{part}=0:1" for part in parts), "--constraint", "a + b + c + d == 1")
    lab(*box, "--constraint", "a + 50 * b <= 17.3", "--state", "run.nc", "-n", "8", *QUICK)
    asked = lab.load().pending
    np.testing.assert_allclose(asked.sum(axis=1), 1, atol=1e-12)
    assert (asked.a + 50 * asked.b <= 17.3 + 1e-9).all()
    assert (asked == asked.round(6)).all().all()
    # On a line of 201 numbers with three digits, most of which were measured.
    x = np.r_[np.arange(0, 0.199, 0.001), 0.2].round(3)
    lab.write("measurements.csv", pd.DataFrame({"x": x, "fat": np.sin(x)}))
    lab("--target", "fat", "--bounds", "x=0:0.2", "--state", "line.nc", "-n", "3", *QUICK)
    asked = pma.Learner.load("line.nc").pending.x
    assert not asked.isin(x).any()
    assert asked.is_unique
