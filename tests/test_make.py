"""Which Python `make` picks, on machines made up of a PATH and a home folder."""

import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parent.parent / "tools" / "find_python.sh"

BROKEN_SHIM = "echo 'shim: command not found' >&2\nexit 127"
TOO_OLD = "echo 'Python 3.11.7'\nexit 1"
SUITABLE = f'exec {shlex.quote(sys.executable)} "$@"'


class Machine:
    def __init__(self, root: Path) -> None:
        self.home = root / "home"
        self.bin = root / "bin"
        self.bin.mkdir(parents=True)
        # The script's own needs; the rest of the real PATH would bring Pythons.
        for tool in ("sh", "sort"):
            found = shutil.which(tool)
            assert found is not None
            (self.bin / tool).symlink_to(found)

    def add(self, path: Path, body: str) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)
        return path

    def command(self, name: str, body: str) -> Path:
        return self.add(self.bin / name, body)

    def pyenv(self, version: str, body: str) -> Path:
        return self.add(self.home / ".pyenv" / "versions" / version / "bin" / "python", body)

    def uv(self, name: str, body: str) -> Path:
        folder = self.home / ".local" / "share" / "uv" / "python"
        return self.add(folder / name / "bin" / "python3", body)

    def find(self, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.bin / "sh", SCRIPT],
            env={"PATH": str(self.bin), "HOME": str(self.home), **env},
            capture_output=True,
            text=True,
        )

    def chosen(self, **env: str) -> str:
        done = self.find(**env)
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
        return done.stdout.removesuffix("\n")


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    # A home folder may well have a space in its name.
    machine = Machine(tmp_path / "a machine")
    machine.command("python3", TOO_OLD)
    for name in ("python3.12", "python3.13"):
        machine.command(name, BROKEN_SHIM)
    return machine


def test_failing_shims_and_an_old_python3_are_passed_over_for_pyenv(machine: Machine) -> None:
    expected = machine.pyenv("3.13.0", SUITABLE)
    machine.pyenv("3.11.7", TOO_OLD)
    assert machine.chosen() == str(expected)


def test_the_newest_version_is_chosen_by_number_not_by_spelling(machine: Machine) -> None:
    machine.pyenv("3.12.9", SUITABLE)
    expected = machine.pyenv("3.12.10", SUITABLE)
    assert machine.chosen() == str(expected)


def test_a_python_that_uv_installed_is_the_last_resort(machine: Machine) -> None:
    expected = machine.uv("cpython-3.13.1-linux-x86_64-gnu", SUITABLE)
    assert machine.chosen() == str(expected)
    expected = machine.pyenv("3.12.1", SUITABLE)
    assert machine.chosen() == str(expected)


def test_a_working_command_on_path_comes_before_pyenv(machine: Machine) -> None:
    machine.pyenv("3.13.0", SUITABLE)
    machine.command("python3.12", SUITABLE)
    assert machine.chosen() == "python3.12"


def test_the_users_choice_comes_first(machine: Machine) -> None:
    machine.command("python3.14", SUITABLE)
    own = machine.pyenv("3.12.1", SUITABLE)
    assert machine.chosen(PYTHON=str(own)) == str(own)


def test_an_unusable_choice_is_named_and_replaced(machine: Machine) -> None:
    machine.command("python3.14", SUITABLE)
    done = machine.find(PYTHON="python3.12")
    assert done.returncode == 0
    assert done.stdout == "python3.14\n"
    assert done.stderr.startswith("PYTHON=python3.12 cannot be used")


@pytest.mark.parametrize("with_old_pyenv", [False, True])
def test_without_a_suitable_python_one_sentence_says_so(machine: Machine, with_old_pyenv: bool) -> None:
    if with_old_pyenv:
        machine.pyenv("3.11.7", TOO_OLD)
    done = machine.find()
    assert done.returncode != 0
    assert done.stdout == ""
    assert done.stderr.startswith("No usable Python found: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("lie", "found"),
    [
        ("pass", True),
        ("sys.version_info = (3, 11, 7)", False),
        ("sys.version_info = (3, 15, 0)", False),
        ("sys.modules['ensurepip'] = None", False),
        ("sys.modules['venv'] = None", False),
    ],
)
def test_version_and_modules_are_asked_of_the_python_itself(machine: Machine, lie: str, found: bool) -> None:
    """A real interpreter that is made to look too old, too new or incomplete."""
    code = shlex.quote(f"import sys; {lie}; exec(sys.argv[1])")
    # The script calls a candidate as: python -c CODE
    machine.command("python3.14", f'exec {shlex.quote(sys.executable)} -c {code} "$2"')
    assert (machine.find().returncode == 0) is found
