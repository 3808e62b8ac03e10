"""Files that survive: written as a whole or not at all, readable by ArviZ, unable to run code, and unable to lie.

A file is a DataTree in netCDF, with one JSON text for what arrays cannot say, and a checksum of all its bytes behind.
"""

from __future__ import annotations

import glob
import hashlib
import io
import json
import os
import time
import warnings
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np
import xarray as xr

from pymc_active.support.locks import locked
from pymc_active.support.user_warnings import RunWarning, warn_user

_GENERATORS = {
    kind.__name__: kind
    for kind in (np.random.MT19937, np.random.PCG64, np.random.PCG64DXSM, np.random.Philox, np.random.SFC64)
}
# What computes a fit or a score; patch releases are taken to change no result.
_COMPUTING = ("pymc_active", "numpy", "scipy", "pymc")
# A file ends with this and a checksum of all bytes before, which is tested before anything is read: HDF5 may not come
# to an end with a damaged file. Readers ignore what stands there, and programs that change the file drop it.
_SEAL = b"sha256:"
_SEALED = len(_SEAL) + 64
# With this every netCDF file begins.
_HDF5 = b"\x89HDF\r\n\x1a\n"
# Seconds after which an unfinished file has no writer any more.
_ABANDONED = 3600


class Contents(NamedTuple):
    """What a file holds: datasets by the path of their group, such as ``"modes/0"``, and JSON values for the rest."""

    groups: Mapping[str, xr.Dataset]
    document: dict[str, Any]
    # The checksum of the file, as :func:`read` found it.
    revision: str = ""


def write(
    path: str | os.PathLike,
    contents: Contents,
    kind: str,
    format_version: int,
    known: Collection[str] | None = None,
) -> str:
    """Write a netCDF file, or leave the one that is there as it is.

    The file is flushed to the disk beside the old one, which it then replaces in one step: a reader sees a whole file.
    If revisions are ``known``, only these, HDF5 files that this function did not write and empty ones are replaced;
    anything else is a FileExistsError. Raise ``format_version`` when files of this kind change. A missing folder is a
    FileNotFoundError. Returns the new revision.
    """
    path = _resolved(path)
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder: name a file in it")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {path.parent}: make it before the file can be written")
    text = json.dumps(contents.document, default=_to_list)
    tree = xr.DataTree.from_dict({**contents.groups, "state": xr.Dataset({"json": ((), text)})})
    tree.attrs = {"kind": kind, "format_version": format_version, **_versions()}
    _remove_abandoned(path)
    # Another process may be writing the same file.
    part = path.with_name(f".{path.name}.{uuid4().hex}.part")
    try:
        tree.to_netcdf(part, engine="h5netcdf")
        revision = hashlib.sha256(part.read_bytes()).hexdigest()
        with part.open("ab") as file:
            file.write(_SEAL + revision.encode())
        _flush(part)
        with locked(path.with_name(f".{path.name}.lock")):
            old = path.read_bytes() if path.exists() and known is not None else b""
            there = _revision(old)
            if old.strip() and there is None and not old.startswith(_HDF5):
                raise FileExistsError(f"{path} is not a saved run; it was left as it is: save under another name")
            if known is not None and there is not None and there not in {revision, *known}:
                raise FileExistsError(
                    f"{path} holds a run that this one neither wrote nor loaded, such as what another process has told "
                    "meanwhile; it was left as it is. Load it, tell it your results, and save that; or save under "
                    "another name"
                )
            part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    _flush(path.parent)
    return revision


def read(path: str | os.PathLike, kind: str, format_version: int) -> Contents:
    """Read a file of this kind and version into memory; a RunWarning if other versions of packages wrote it.

    A missing file is a FileNotFoundError; another kind or version, or a damaged file, a ValueError.
    """
    path = _resolved(path)
    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}")
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder: name the file that was saved in it")
    contents = path.read_bytes()
    if not contents.startswith(_HDF5) and _SEAL not in contents[-_SEALED:]:
        raise ValueError(f"{path.name} is not a saved run, which is a netCDF file: name the file that was saved")
    revision = _revision(contents)
    if revision is None and contents[-_SEALED:].startswith(_SEAL):
        raise _damaged(path, "some of its bytes are not those that were written")
    # These bytes, and not the file again, which another process may replace meanwhile.
    store = io.BytesIO(contents)
    with _refusing(path, "it cannot be opened as netCDF"), xr.open_datatree(store, engine="h5netcdf") as tree:
        header = dict(tree.attrs)
        problem = _foreign(path, header, kind, format_version)
        if problem is None and revision is not None:
            groups = {node.path.strip("/"): node.to_dataset(inherit=False).load() for node in tree.subtree}
            document = dict(json.loads(groups.pop("state")["json"].item()))
    if problem is not None:
        raise ValueError(problem)
    if revision is None:
        raise _damaged(path, "another program has changed it, or its end is missing")
    _warn_of_versions(path, header)
    del groups[""]
    return Contents(groups, document, revision)


def write_generator(rng: np.random.Generator) -> dict[str, Any]:
    """The state of a random generator, for JSON."""
    return dict(rng.bit_generator.state)


def read_generator(state: Any) -> np.random.Generator:
    """A generator that continues from a saved state; raises a ValueError if it is not one."""
    try:
        bits = _GENERATORS[state["bit_generator"]]()
        bits.state = state
    except (KeyError, TypeError, ValueError) as error:
        choices = ", ".join(sorted(_GENERATORS))
        raise ValueError(f"the state of the random generator is not one of {choices}: {error}") from error
    return np.random.Generator(bits)


def _resolved(path: str | os.PathLike) -> Path:
    path = Path(path).resolve()
    if path.suffix == ".zarr":
        raise ValueError(f"runs are saved as netCDF, and {path.name} is a name of zarr: use {path.stem}.nc")
    return path


@cache
def _versions() -> dict[str, str]:
    return {name.replace("-", "_"): version(name) for name in ("pymc-active", "pymc", "numpy", "scipy", "xarray")}


def _warn_of_versions(path: Path, header: Mapping[Any, Any]) -> None:
    """Warn if other versions than those installed wrote a file."""
    now = _versions()
    written = {name: str(header.get(name, "unknown")) for name in now}
    other = [name for name in _COMPUTING if written[name].split(".")[:2] != now[name].split(".")[:2]]
    if other:
        then, here = (", ".join(f"{name} {versions[name]}" for name in other) for versions in (written, now))
        effect = "Everything told is there, but what is asked next may differ from what would have been asked then"
        warn_user(f"{path.name} was written with {then}; this is {here}. {effect}", RunWarning)


def _foreign(path: Path, header: Mapping[Any, Any], kind: str, format_version: int) -> str | None:
    """What is wrong with a file of something else, or of another version of the format."""
    kind_there = header.get("kind")
    if kind_there != kind:
        what = f"one of {kind_there}" if isinstance(kind_there, str) else "something else"
        return f"{path} is no file of {kind}, as its save method writes it, but {what}"
    given = int(header["format_version"])
    if given == format_version:
        return None
    advice = "go on with the other one, or begin anew with the data, which xarray.open_datatree reads"
    if given > format_version:
        advice = "upgrade it (pip install -U pymc-active)"
    writer, reader = header.get("pymc_active"), version("pymc-active")
    return (
        f"{path} has version {given} of the format, written by pymc_active {writer}; this pymc_active "
        f"{reader} knows version {format_version}: {advice}"
    )


def _damaged(path: Path, problem: str) -> ValueError:
    remedy = "Restore the file from a copy, or begin anew with the measurements"
    return ValueError(f"{path} is damaged: {problem}. {remedy}")


@contextmanager
def _refusing(path: Path, problem: str) -> Iterator[None]:
    """Make one error of all that the readers of netCDF and JSON say, which may be anything."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except Exception as error:
        raise _damaged(path, f"{problem} ({type(error).__name__}: {error})") from error


def _revision(contents: bytes) -> str | None:
    """The checksum at the end of a file; None if there is none, or if it does not fit the bytes before."""
    digest = hashlib.sha256(contents[:-_SEALED]).hexdigest()
    return digest if contents[-_SEALED:] == _SEAL + digest.encode() else None


def _to_list(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise TypeError(f"JSON cannot hold a {type(value).__name__}")


def _remove_abandoned(path: Path) -> None:
    """Remove what killed processes left half-written."""
    for part in path.parent.glob(f".{glob.escape(path.name)}.*.part"):
        with suppress(FileNotFoundError):
            if time.time() - part.stat().st_mtime > _ABANDONED:
                part.unlink()


def _flush(path: Path) -> None:
    """Flush to the disk: otherwise a new name may survive a power cut, and its contents not."""
    if path.is_dir() and os.name == "nt":
        return
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
