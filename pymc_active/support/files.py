"""Files that survive: written as a whole or not at all, readable by ArviZ, and unable to run code.

A file is a DataTree in netCDF or zarr. What arrays cannot say is one JSON text in it. Nothing is pickled or evaluated.
"""

from __future__ import annotations

import glob
import json
import os
import shutil
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np
import xarray as xr

from pymc_active.support.user_warnings import ExecutionWarning, warn_user

_GENERATORS = {
    kind.__name__: kind
    for kind in (np.random.MT19937, np.random.PCG64, np.random.PCG64DXSM, np.random.Philox, np.random.SFC64)
}


# What computes a fit or a score; their patches are taken to change no result.
_COMPUTING = ("pymc_active", "numpy", "scipy", "pymc")
# Bytes of arrays for one of the file: no compression that HDF5 or zarr knows does more for numbers.
_LARGEST = 2000
# Seconds after which nobody is still writing.
_ABANDONED = 3600


class Contents(NamedTuple):
    """What a file holds.

    Attributes
    ----------
    groups : dict
        Path of a group, such as ``"modes/0"`` -> Dataset.
    document : dict
        JSON values for everything else.
    """

    groups: Mapping[str, xr.Dataset]
    document: dict[str, Any]


def write(path: str | os.PathLike, contents: Contents, kind: str, format_version: int) -> None:
    """Write a file, or leave the one that is there as it is.

    The new file is written and flushed to the disk beside the old one, then takes its place. Of several processes that
    write one netCDF file, the last one wins, and a reader sees one of their files as a whole; a zarr file has one
    writer.

    Parameters
    ----------
    path : path
        zarr if it ends in ``.zarr``, else netCDF.
    contents : Contents
    kind : str
        What it is a file of.
    format_version : int
        To be raised when files of the kind change.

    Raises
    ------
    ModuleNotFoundError
        For zarr where it is not installed.
    FileNotFoundError
        If there is no such folder.
    """
    path = Path(path).resolve()
    is_zarr = _is_zarr(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {path.parent}: make it before the file can be written")
    text = json.dumps(contents.document, default=_to_list)
    tree = xr.DataTree.from_dict({**contents.groups, "state": xr.Dataset({"json": ((), text)})})
    tree.attrs = {"kind": kind, "format_version": format_version, **_versions()}
    if is_zarr:
        part = _beside(path, "part")
        _finish_swap(path)
        shutil.rmtree(part, ignore_errors=True)
        # Consolidated metadata are no part of the format yet.
        tree.to_zarr(part, mode="w", zarr_format=3, consolidated=False)
        for file in sorted(part.rglob("*"), reverse=True):
            _flush(file)
        _flush(part)
        if path.exists():
            # A folder cannot take another's place in one step: see _finish_swap.
            path.rename(_beside(path, "old"))
            part.rename(path)
            shutil.rmtree(_beside(path, "old"))
        else:
            part.rename(path)
    else:
        _remove_abandoned(path)
        # Another process may be writing the same file.
        part = _beside(path, f"{uuid4().hex}.part")
        try:
            tree.to_netcdf(part, engine="h5netcdf")
            _flush(part)
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
    _flush(path.parent)


def read(path: str | os.PathLike, kind: str, format_version: int) -> Contents:
    """Read a file into memory.

    Parameters
    ----------
    path : path
    kind : str
        What must be in it.
    format_version : int
        The newest that is understood.

    Raises
    ------
    FileNotFoundError
        If there is none.
    ValueError
        For a file of something else, of a newer version, or one that is damaged.

    Warns
    -----
    UserWarning
        If it was written with other minor versions of what computes: the same questions may then differ in the last
        bits, and those after them in more.
    """
    path = Path(path).resolve()
    is_zarr = _is_zarr(path)
    if is_zarr:
        _finish_swap(path)
    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}")
    # Format 2 of zarr has arrays of pickled objects.
    options: dict[str, Any] = {"zarr_format": 3, "consolidated": False} if is_zarr else {}
    try:
        with xr.open_datatree(path, engine="zarr" if is_zarr else "h5netcdf", **options) as tree:
            found = tree.attrs.get("kind")
            if found != kind:
                what = f"one of {found}" if isinstance(found, str) else "something else"
                raise ValueError(f"{path} is no file of {kind}, as its save method writes it, but {what}")
            given = int(tree.attrs["format_version"])
            if given > format_version:
                raise ValueError(
                    f"{path} has version {given} of the format, written by pymc_active "
                    f"{tree.attrs.get('pymc_active')}; this pymc_active {version('pymc-active')} knows version "
                    f"{format_version}: upgrade it (pip install -U pymc-active)"
                )
            if tree.nbytes > _LARGEST * _size(path):
                raise ValueError(
                    f"{path} is damaged: its arrays of {tree.nbytes:.1e} bytes cannot be in so small a file"
                )
            groups = {node.path.strip("/"): node.to_dataset(inherit=False).load() for node in tree.descendants}
            versions = {name: str(tree.attrs.get(name, "unknown")) for name in _versions()}
    except (OSError, KeyError, TypeError, MemoryError) as error:
        raise ValueError(f"{path} is damaged or no {'zarr' if is_zarr else 'netCDF'} file: {error}") from error
    try:
        document = json.loads(str(groups.pop("state")["json"].item()))
    except (KeyError, ValueError, RecursionError) as error:
        raise ValueError(f"{path} is damaged: its JSON cannot be read ({error})") from error
    if not isinstance(document, dict):
        raise ValueError(f"{path} is damaged: its JSON is no object")
    _compare(path, versions)
    return Contents(groups, document)


def write_generator(rng: np.random.Generator) -> dict[str, Any]:
    """The state of a random generator, for JSON."""
    return dict(rng.bit_generator.state)


def read_generator(state: Any) -> np.random.Generator:
    """The generator that goes on where the other one stood.

    Raises
    ------
    ValueError
        For an unknown kind, or a malformed state.
    """
    try:
        bits = _GENERATORS[state["bit_generator"]]()
        bits.state = state
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"the state of the random generator is not one of {', '.join(sorted(_GENERATORS))}: {error}"
        ) from error
    return np.random.Generator(bits)


@cache
def _versions() -> dict[str, str]:
    return {name.replace("-", "_"): version(name) for name in ("pymc-active", "pymc", "numpy", "scipy", "xarray")}


def _compare(path: Path, written: Mapping[str, str]) -> None:
    """Warn if a file was written with other versions than those of now."""
    now = _versions()
    other = [name for name in _COMPUTING if written[name].split(".")[:2] != now[name].split(".")[:2]]
    if other:
        then, here = (", ".join(f"{name} {versions[name]}" for name in other) for versions in (written, now))
        warn_user(
            f"{path.name} was written with {then}; this is {here}. Everything told is there, but what is asked next "
            "may differ from what would have been asked then",
            ExecutionWarning,
        )


def _to_list(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is nothing that JSON has")


def _is_zarr(path: Path) -> bool:
    if path.suffix != ".zarr":
        return False
    if find_spec("zarr") is None:
        raise ModuleNotFoundError(
            f"{path.name} is to be a zarr file, and zarr is not installed: pip install zarr, or choose a name that "
            "ends in .nc"
        )
    return True


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(f".{path.name}.{suffix}")


def _size(path: Path) -> int:
    """Bytes of a file, or of all in a folder."""
    return sum(file.stat().st_size for file in path.rglob("*")) if path.is_dir() else path.stat().st_size


def _remove_abandoned(path: Path) -> None:
    """What killed processes left half-written."""
    for part in path.parent.glob(f".{glob.escape(path.name)}.*.part"):
        with suppress(FileNotFoundError):
            if time.time() - part.stat().st_mtime > _ABANDONED:
                part.unlink()


def _finish_swap(path: Path) -> None:
    """Whoever moved the old folder away had written the new one; it only did not come to move that."""
    old, part = _beside(path, "old"), _beside(path, "part")
    if old.exists():
        if not path.exists():
            part.rename(path)
        shutil.rmtree(old)


def _flush(path: Path) -> None:
    """To the disk: a new name may otherwise outlive a power cut that its contents do not."""
    if path.is_dir() and os.name == "nt":
        return
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
