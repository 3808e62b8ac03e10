"""Files that survive: written as a whole or not at all, readable by ArviZ, unable to run code, and unable to lie.

A file is a DataTree, in netCDF or as a zip archive of zarr, with one JSON text for what arrays cannot say, and another
with checksums of all arrays and attributes.
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
import time
import warnings
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4
from zipfile import ZipFile

import numpy as np
import xarray as xr

from pymc_active.support.locks import locked
from pymc_active.support.user_warnings import ExecutionWarning, warn_user

_GENERATORS = {
    kind.__name__: kind
    for kind in (np.random.MT19937, np.random.PCG64, np.random.PCG64DXSM, np.random.Philox, np.random.SFC64)
}
# What computes a fit or a score; patch releases are taken to change no result.
_COMPUTING = ("pymc_active", "numpy", "scipy", "pymc")
# Bytes of arrays per byte of file: no compression in HDF5 or zarr does better on numbers.
_LARGEST = 2000
# The group with the checksums of the others.
_CHECKSUMS = "/checksums"
# The last bytes of a file are this and a checksum of all before them, which is tested before anything is read: HDF5 may
# not come to an end with a damaged file. Readers ignore what stands there, and programs that change the file drop it.
_SEAL = b"sha256:"
_SEALED = len(_SEAL) + 64
# Parts of a damaged file that its error names.
_NAMED = 3
# Seconds after which an unfinished file has no writer any more.
_ABANDONED = 3600


class Contents(NamedTuple):
    """What a file holds: datasets by the path of their group, such as ``"modes/0"``, and JSON values for the rest.

    ``revision`` is a checksum of all this, as :func:`read` found it.
    """

    groups: Mapping[str, xr.Dataset]
    document: dict[str, Any]
    revision: str = ""


class _RefusedError(ValueError):
    """A file that is damaged, or of another kind or version, in words for the user."""


def write(
    path: str | os.PathLike,
    contents: Contents,
    kind: str,
    format_version: int,
    known: Collection[str] | None = None,
) -> str:
    """Write a file, zarr if its name ends in ``.zarr``, else netCDF, or leave the one that is there as it is.

    The file is flushed to the disk beside the old one, which it then replaces in one step: a reader sees a whole file.
    Of files that this function wrote, only revisions that are ``known`` are replaced, another one is a FileExistsError;
    by default all are. Raise ``format_version`` when files of this kind change. A missing folder is a
    FileNotFoundError, missing zarr a ModuleNotFoundError. Returns the new revision.
    """
    path = Path(path).resolve()
    is_zarr = _is_zarr(path)
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder: name a file in it")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {path.parent}: make it before the file can be written")
    text = json.dumps(contents.document, default=_to_list)
    tree = xr.DataTree.from_dict({**contents.groups, "state": xr.Dataset({"json": ((), text)})})
    tree.attrs = {"kind": kind, "format_version": format_version, **_versions()}
    checksums = json.dumps(_checksums(_groups(tree)))
    tree[_CHECKSUMS] = xr.DataTree(xr.Dataset({"json": ((), checksums)}))
    revision = _hash(checksums.encode())
    _remove_abandoned(path)
    # Another process may be writing the same file.
    part = path.with_name(f".{path.name}.{uuid4().hex}.part")
    try:
        if is_zarr:
            _write_zarr(tree, part)
        else:
            tree.to_netcdf(part, engine="h5netcdf")
            with part.open("ab") as file:
                file.write(bytes(_SEALED))
        with part.open("r+b") as file:
            seal = _seal(file.read())
            file.seek(-_SEALED, os.SEEK_END)
            file.write(seal)
        _flush(part)
        with locked(path.with_name(f".{path.name}.lock")):
            if known is not None:
                _check_known(path, is_zarr, {revision, *known})
            part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    _flush(path.parent)
    return revision


def read(path: str | os.PathLike, kind: str, format_version: int) -> Contents:
    """Read a file of this kind and version into memory; an ExecutionWarning if other versions of packages wrote it.

    A missing file is a FileNotFoundError; another kind or version, or a damaged file, a ValueError.
    """
    path = Path(path).resolve()
    is_zarr = _is_zarr(path)
    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}")
    _check_seal(path)
    with _refusing(path, f"it cannot be opened as {'zarr' if is_zarr else 'netCDF'}"), _open(path, is_zarr) as tree:
        if tree.nbytes > _LARGEST * path.stat().st_size:
            raise _damaged(path, f"arrays of {tree.nbytes:.1e} bytes cannot be in so small a file")
        groups = _groups(tree)
        checksums = str(groups.pop(_CHECKSUMS)["json"].item()) if _CHECKSUMS in groups else "{}"
        expected = dict(json.loads(checksums))
        if expected:
            # First, because a damaged version would send the user the wrong way.
            _compare(path, _checksums({"/": groups["/"]}), {"/": expected.get("/", "")})
        _check_kind(path, tree.attrs, kind, format_version)
        for name, group in groups.items():
            with _refusing(path, f"{name} cannot be read"):
                group.load()
    _compare(path, _checksums(groups), expected)
    _warn_of_versions(path, groups.pop("/").attrs)
    groups = {name.strip("/"): group for name, group in groups.items()}
    with _refusing(path, "its JSON cannot be read"):
        document = dict(json.loads(groups.pop("state")["json"].item()))
    return Contents(groups, document, _hash(checksums.encode()))


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


def _warn_of_versions(path: Path, header: Mapping[Any, Any]) -> None:
    """Warn if other versions than those installed wrote a file."""
    now = _versions()
    written = {name: str(header.get(name, "unknown")) for name in now}
    other = [name for name in _COMPUTING if written[name].split(".")[:2] != now[name].split(".")[:2]]
    if other:
        then, here = (", ".join(f"{name} {versions[name]}" for name in other) for versions in (written, now))
        effect = "Everything told is there, but what is asked next may differ from what would have been asked then"
        warn_user(f"{path.name} was written with {then}; this is {here}. {effect}", ExecutionWarning)


def _check_kind(path: Path, header: Mapping[Any, Any], kind: str, format_version: int) -> None:
    """Raise an error for a file of something else, or of another version of the format."""
    found = header.get("kind")
    if found != kind:
        what = f"one of {found}" if isinstance(found, str) else "something else"
        raise _RefusedError(f"{path} is no file of {kind}, as its save method writes it, but {what}")
    given = int(header["format_version"])
    if given != format_version:
        advice = "go on with the other one, or begin anew with the data, which xarray.open_datatree reads"
        if given > format_version:
            advice = "upgrade it (pip install -U pymc-active)"
        writer, reader = header.get("pymc_active"), version("pymc-active")
        raise _RefusedError(
            f"{path} has version {given} of the format, written by pymc_active {writer}; this pymc_active "
            f"{reader} knows version {format_version}: {advice}"
        )


def _damaged(path: Path, problem: str) -> _RefusedError:
    remedy = "Restore the file from a copy, or begin anew with the measurements"
    return _RefusedError(f"{path} is damaged: {problem}. {remedy}")


@contextmanager
def _refusing(path: Path, problem: str) -> Iterator[None]:
    """Make one error of all that the readers of netCDF, zarr and JSON say, which may be anything."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except _RefusedError:
        raise
    except Exception as error:
        raise _damaged(path, f"{problem} ({type(error).__name__}: {error})") from error


def _groups(tree: xr.DataTree) -> dict[str, xr.Dataset]:
    """All groups by their paths; "/" is the root."""
    return {node.path: node.to_dataset(inherit=False) for node in tree.subtree}


def _checksums(groups: Mapping[str, xr.Dataset]) -> dict[str, str]:
    """A checksum for the attributes of each group, and for each of its arrays with all that belongs to it."""
    found = {}
    for path, group in groups.items():
        found[path] = _hash(_text_of(group.attrs).encode())
        for name, array in group.variables.items():
            values = array.to_numpy()
            kind = "text"
            if values.dtype.kind in "OTU":
                body = _text_of(values).encode()
            else:
                if values.dtype.kind == "f":
                    # Of the many kinds of NaN, files keep one.
                    values = np.where(np.isnan(values), np.nan, values)
                kind = values.dtype.newbyteorder("<").str
                body = values.astype(kind).tobytes()
            about = _text_of([array.dims, array.shape, kind, array.attrs, name in group.coords])
            found[f"{path.rstrip('/')}/{name}"] = _hash(about.encode() + body)
    return found


def _text_of(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=_to_list)


def _hash(value: bytes) -> str:
    return hashlib.sha256(value).hexdigest()


def _seal(contents: bytes) -> bytes:
    """What the last bytes of a file should be."""
    return _SEAL + _hash(contents[:-_SEALED]).encode()


def _check_seal(path: Path) -> None:
    contents = path.read_bytes()
    if contents[-_SEALED:].startswith(_SEAL) and contents[-_SEALED:] != _seal(contents):
        raise _damaged(path, "some of its bytes are not those that were written")


def _compare(path: Path, found: Mapping[str, str], expected: Mapping[str, str]) -> None:
    """Raise an error that names the parts whose checksums are not the expected ones."""
    changed = [part for part in {**expected, **found} if found.get(part) != expected.get(part)]
    if changed:
        more = f" and {len(changed) - _NAMED} more" if len(changed) > _NAMED else ""
        raise _damaged(path, f"it differs from what was written in {', '.join(changed[:_NAMED])}{more}")


def _check_known(path: Path, is_zarr: bool, known: Collection[str]) -> None:
    """Raise an error if replacing a file would lose what another one wrote."""
    try:
        _check_seal(path)
        with _open(path, is_zarr, _CHECKSUMS) as tree:
            revision = _hash(str(tree["json"].item()).encode())
    except Exception:
        # None, not one of ours, or beyond reading.
        return
    if revision not in known:
        raise FileExistsError(
            f"{path} holds a run that this one neither wrote nor loaded, such as what another process has told "
            "meanwhile; it was left as it is. Load it, tell it your results, and save that; or save under another name"
        )


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
        archive.comment = bytes(_SEALED)
        for name, value in store.items():
            archive.writestr(name, value.to_bytes())


def _open(path: Path, is_zarr: bool, group: str = "/") -> xr.DataTree:
    if not is_zarr:
        return xr.open_datatree(path, engine="h5netcdf", group=group)
    from zarr.storage import ZipStore

    # Format 2 of zarr has arrays of pickled objects.
    store: Any = ZipStore(path, mode="r")
    return xr.open_datatree(store, engine="zarr", group=group, zarr_format=3, consolidated=False)


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
