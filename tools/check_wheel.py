"""Build the wheel, install it into an empty environment and run it from there.

The test suite runs on an editable install, which hides a file that the wheel
lacks and a dependency that only an extra brings.
"""

import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

SMOKE = """
import sys
from pathlib import Path
import pymc_active
home = Path(pymc_active.__file__).parent
assert home.is_relative_to(sys.prefix), f"imported from {home}, not from the wheel"
assert (home / "py.typed").is_file(), "the wheel lacks py.typed"
"""


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="pymc-active-wheel-") as name:
        tmp = Path(name)
        print("Building the source archive and the wheel", flush=True)
        # By way of the source archive, so that what it lacks shows up as well.
        run(tmp, sys.executable, "-m", "build", "--outdir", tmp / "dist", ROOT, quiet=True)
        (wheel,) = (tmp / "dist").glob("*.whl")
        print(f"Installing {wheel.name} into an empty environment", flush=True)
        venv.create(tmp / "env", with_pip=True)
        python = tmp / "env" / "bin" / "python"
        # Only a few modules are imported, so compiling all of them is no gain.
        run(tmp, python, "-m", "pip", "install", "-qq", "--no-compile", wheel)
        # Isolated mode keeps PYTHONPATH and the current directory out of it.
        run(tmp, python, "-I", "-c", SMOKE)
        run(tmp, python, "-I", "-m", "pymc_active", "--version")
        run(tmp, python.with_name("pymc-active"), "--version")
        print("The wheel works.", flush=True)


def run(cwd: Path, *command: str | os.PathLike[str], quiet: bool = False) -> None:
    done = subprocess.run(
        command,
        cwd=cwd,
        stdout=subprocess.PIPE if quiet else None,
        stderr=subprocess.STDOUT if quiet else None,
        text=True,
    )
    if done.returncode:
        sys.exit(f"{done.stdout or ''}Failed: {' '.join(map(str, command[:5]))} ...")


if __name__ == "__main__":
    main()
