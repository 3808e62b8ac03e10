"""Files that survive: written as a whole or not at all, readable by ArviZ, and unable to run code.

A file is a DataTree, in netCDF or as a zip archive of zarr, with one JSON text for what arrays cannot say.
"""

from __future__ import annotations

import glob
import json
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4
from zipfile import BadZipFile, ZipFile

import numpy as np
import xarray as xr

from pymc_active.support.user_warnings import ExecutionWarning, warn_user

_GENERATORS = {
    kind.__name__: kind
    for kind in (np.random.MT19937, np.random.PCG64, np.random.PCG64DXSM, np.random.Philox, np.random.SFC64)
}
# What computes a fit or a score; patch releases are taken to change no result.
_COMPUTING = ("pymc_active", "numpy", "scipy", "pymc")
# Bytes of arrays per byte of file: no compression in HDF5 or zarr does better on numbers.
_LARGEST = 2000
# Seconds after which an unfinished file has no writer any more.
_ABANDONED = 3600


class Contents(NamedTuple):
    """What a file holds: datasets by the path of their group, such as ``"modes/0"``, and JSON values for the rest."""

    groups: Mapping[str, xr.Dataset]
    document: dict[str, Any]


def write(path: str | os.PathLike, contents: Contents, kind: str, format_version: int) -> None:
    """Write a file, zarr if its name ends in ``.zarr``, else netCDF, or leave the one that is there as it is.

    The file is flushed to the disk beside the old one, which it then replaces in one step: of several writers the last
    wins, and a reader sees a whole file. Raise ``format_version`` when files of this kind change. A missing folder is a
    FileNotFoundError, missing zarr a ModuleNotFoundError.
    """
    path = Path(path).resolve()
    is_zarr = _is_zarr(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {path.parent}: make it before the file can be written")
    text = json.dumps(contents.document, default=_to_list)
    tree = xr.DataTree.from_dict({**contents.groups, "state": xr.Dataset({"json": ((), text)})})
    tree.attrs = {"kind": kind, "format_version": format_version, **_versions()}
    _remove_abandoned(path)
    # Another process may be writing the same file.
    part = path.with_name(f".{path.name}.{uuid4().hex}.part")
    try:
        if is_zarr:
            _write_zarr(tree, part)
        else:
            tree.to_netcdf(part, engine="h5netcdf")
        _flush(part)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    _flush(path.parent)


def read(path: str | os.PathLike, kind: str, format_version: int) -> Contents:
    """Read a file of this kind and version into memory; an ExecutionWarning if other versions of packages wrote it.

    A missing file is a FileNotFoundError; another kind or version, or a damaged file, a ValueError.
    """
    path = Path(path).resolve()
    is_zarr = _is_zarr(path)
    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}")
    try:
        with _open(path, is_zarr) as tree:
            found = tree.attrs.get("kind")
            if found != kind:
                what = f"one of {found}" if isinstance(found, str) else "something else"
                raise ValueError(f"{path} is no file of {kind}, as its save method writes it, but {what}")
            given = int(tree.attrs["format_version"])
            if given != format_version:
                advice = "go on with the other one, or begin anew with the data, which xarray.open_datatree reads"
                if given > format_version:
                    advice = "upgrade it (pip install -U pymc-active)"
                writer, reader = tree.attrs.get("pymc_active"), version("pymc-active")
                raise ValueError(
                    f"{path} has version {given} of the format, written by pymc_active {writer}; this pymc_active "
                    f"{reader} knows version {format_version}: {advice}"
                )
            if tree.nbytes > _LARGEST * path.stat().st_size:
                raise ValueError(f"{path} is damaged: arrays of {tree.nbytes:.1e} bytes cannot be in so small a file")
            groups = {node.path.strip("/"): node.to_dataset(inherit=False).load() for node in tree.descendants}
            versions = {name: str(tree.attrs.get(name, "unknown")) for name in _versions()}
    except (OSError, KeyError, TypeError, MemoryError, RuntimeError, BadZipFile) as error:
        raise ValueError(f"{path} is damaged or no {'zarr' if is_zarr else 'netCDF'} file: {error}") from error
    try:
        document = json.loads(str(groups.pop("state")["json"].item()))
    except (KeyError, ValueError, RecursionError) as error:
        raise ValueError(f"{path} is damaged: its JSON cannot be read ({error})") from error
    if not isinstance(document, dict):
        raise ValueError(f"{path} is damaged: its JSON is not an object")
    _compare(path, versions)
    return Contents(groups, document)


def write_generator(rng: np.random.Generator) -> dict[str, Any]:
    """The state of a random generator, for JSON."""
    return dict(rng.bit_generator.state)


def read_generator(state: Any) -> np.random.Generator:
    """A generator that continues from a saved state; raises a ValueError if it is not one."""
    try:
        bits = _GENERATORS[state["bit_generator"]]()
        bits.state = state
    except (KeyError, TypeError, ValueError) as error:
        known = ", ".join(sorted(_GENERATORS))
        raise ValueError(f"the state of the random generator is not one of {known}: {error}") from error
    return np.random.Generator(bits)


@cache
def _versions() -> dict[str, str]:
    return {name.replace("-", "_"): version(name) for name in ("pymc-active", "pymc", "numpy", "scipy", "xarray")}


def _compare(path: Path, written: Mapping[str, str]) -> None:
    """Warn if other versions than those installed wrote a file."""
    now = _versions()
    other = [name for name in _COMPUTING if written[name].split(".")[:2] != now[name].split(".")[:2]]
    if other:
        then, here = (", ".join(f"{name} {versions[name]}" for name in other) for versions in (written, now))
        effect = "Everything told is there, but what is asked next may differ from what would have been asked then"
        warn_user(f"{path.name} was written with {then}; this is {here}. {effect}", ExecutionWarning)


def _to_list(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise TypeError(f"JSON cannot hold a {type(value).__name__}")


def _is_zarr(path: Path) -> bool:
    if path.suffix != ".zarr":
        return False
    if find_spec("zarr") is None:
        raise ModuleNotFoundError(f"{path.name} needs zarr, which is not installed: pip install zarr, or write .nc")
    return True


def _write_zarr(tree: xr.DataTree, path: Path) -> None:
    """Write a zip archive: unlike a folder, a file can take another's place in one step."""
    store: dict[str, Any] = {}
    # Consolidated metadata are not part of the format yet.
    tree.to_zarr(store, mode="w", zarr_format=3, consolidated=False)
    # Zarr's own writer would store metadata several times, each time they change.
    with ZipFile(path, "w") as archive:
        for name, value in store.items():
            archive.writestr(name, value.to_bytes())


def _open(path: Path, is_zarr: bool) -> xr.DataTree:
    if not is_zarr:
        return xr.open_datatree(path, engine="h5netcdf")
    from zarr.storage import ZipStore

    # Zarr leaves out what it cannot read; the checksums of the archive tell.
    with ZipFile(path) as archive:
        if (damaged := archive.testzip()) is not None:
            raise BadZipFile(f"the checksum of {damaged} is wrong")
    # Format 2 of zarr has arrays of pickled objects.
    store: Any = ZipStore(path, mode="r")
    return xr.open_datatree(store, engine="zarr", zarr_format=3, consolidated=False)


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
