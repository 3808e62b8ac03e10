"""Is any damage to a file noticed, and is anything lost when saving is killed or two processes write?

    python benchmarks/damage.py              # 5 minutes
    python benchmarks/damage.py --smallest   # a twentieth of it

*Damage*: the file of a learner of three points, with a fit, labels and a pending point, is damaged 200 times: single
bits and bytes, zeros, blocks exchanged, a file cut off, a number or an attribute changed or an array left out by a
program. *Silent* is a file that is read although a number, label or setting is not what was written; *harmless* one in
which all are; *noticed* the one error with file and remedy; *raw* anything else, a crash included.
*Kills*: a process that keeps saving is killed at random moments; the file must be one of its states, not older than the
last one it reported. *Pairs*: two processes load one file, tell a result each, and save at once; one that is refused
loads the file again. Both results must be in the file.

Targets: nothing silent or raw, at least 97 % of the damage noticed, nothing lost.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import json
import multiprocessing
import signal
import tempfile
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import xarray as xr
from _report import BLUE, GREY, ORANGE, panels, parser, table, target, write

import pymc_active as pma
from pymc_active.active import Learner
from pymc_active.learner.saved import FORMAT_VERSION, KIND
from pymc_active.support import files

GRID = np.linspace(-3, 3, 25)[:, None]
OUTCOMES = {"noticed": BLUE, "harmless": GREY, "raw": ORANGE, "silent": "black"}
# Seconds that reading a damaged file may take.
LIMIT = 60
FORK = multiprocessing.get_context("fork")


def learner(**keywords):
    pool = pd.DataFrame(GRID, columns=["x"], index=[f"p{i}" for i in range(25)])
    gpm = pma.ard_gp(GRID[[4, 12, 20]], np.sin(GRID[[4, 12, 20], 0]))
    return Learner(gpm, pool=pool, random_seed=1, **keywords)


# Damage to bytes.


def bit(whole, rng):
    position = rng.integers(len(whole))
    return whole[:position] + bytes([whole[position] ^ 1 << rng.integers(8)]) + whole[position + 1 :]


def several_bytes(whole, rng):
    changed = bytearray(whole)
    for position in rng.integers(len(whole), size=4):
        changed[position] = rng.integers(256)
    return bytes(changed)


def cut(whole, rng):
    return whole[: rng.integers(len(whole))]


def zeros(whole, rng):
    start = rng.integers(len(whole))
    return whole[:start] + bytes(len(whole[start : start + 512])) + whole[start + 512 :]


def blocks_exchanged(whole, rng):
    a, b = np.sort(rng.choice(len(whole) // 256, 2, replace=False)) * 256
    return whole[:a] + whole[b : b + 256] + whole[a + 256 : b] + whole[a : a + 256] + whole[b + 256 :]


# Damage by programs that write the formats.


def _arrays(file):
    found = []
    file.visititems(lambda name, item: found.append(name) if isinstance(item, h5py.Dataset) and item.size else None)
    return found


def number(path, rng):
    with h5py.File(path, "r+") as file:
        # Where a dimension has no coordinates, netCDF stores zeros, which nobody reads.
        kept = [name for name in _arrays(file) if b"not a netCDF" not in file[name].attrs.get("NAME", b"")]
        numeric = [name for name in kept if file[name].dtype.kind in "if" and file[name].ndim]
        item = file[rng.choice(numeric)]
        values = item[()]
        at = tuple(rng.integers(n) for n in values.shape)
        values[at] = 1 - values[at] if values.dtype.kind == "i" else values[at] * 1.5 + 0.5
        item[()] = values


def attribute(path, rng):
    with h5py.File(path, "r+") as file:
        own = [(group, key) for group in (file, *file.values()) for key in group.attrs if not key.startswith("_")]
        group, key = own[rng.integers(len(own))]
        value = group.attrs[key]
        group.attrs[key] = f"{value}x" if isinstance(value, str) else value + 1


def array_lost(path, rng):
    with h5py.File(path, "r+") as file:
        del file[rng.choice(_arrays(file))]


def document(path, rng):
    """One entry of the JSON text."""
    with h5py.File(path, "r+") as file:
        text = json.loads(file["state/json"][()])
        key = rng.choice(list(text))
        text[key] = {"n_start": 2, "random_seed": 2}.get(key, not text[key])
        file["state/json"][()] = json.dumps(text)


BYTES = (bit, several_bytes, cut, zeros, blocks_exchanged)
KINDS = {"run.nc": (*BYTES, number, attribute, array_lost, document)}


def damage(path, whole, kind, rng):
    if kind in BYTES:
        path.write_bytes(kind(whole, rng))
    else:
        path.write_bytes(whole)
        kind(path, rng)


def outcome(path, truth):
    try:
        found = files.read(path, KIND, FORMAT_VERSION)
    except ValueError as error:
        said = str(error)
        is_clear = said.startswith(f"{path} is damaged: ") and "Restore the file from a copy" in said
        # Where the damage is to the kind or version that the file states.
        is_clear = is_clear or said.startswith((f"{path} is no file of", f"{path} has version"))
        return "noticed" if is_clear else f"raw {error!r}"
    except Exception as error:
        return f"raw {error!r}"
    same = found.document == truth.document and list(found.groups) == list(truth.groups)
    same = same and all(found.groups[name].identical(group) for name, group in truth.groups.items())
    return "harmless" if same else "silent"


def damages(folder, n):
    results, raw = {}, []
    for name, kinds in KINDS.items():
        path, rng = folder / name, np.random.default_rng(20261124)
        active = learner(inference="laplace")
        active.ask()
        active.save(path)
        truth, whole = files.read(path, KIND, FORMAT_VERSION), path.read_bytes()
        pool = ProcessPoolExecutor(1, FORK)
        for number_of in range(n):
            kind = kinds[number_of % len(kinds)]
            damage(path, whole, kind, rng)
            try:
                found = pool.submit(outcome, path, truth).result(LIMIT)
            except (BrokenProcessPool, TimeoutError) as error:
                found, pool = f"raw {error!r}", ProcessPoolExecutor(1, FORK)
            if found.startswith("raw"):
                raw.append(f"{name}, {kind.__name__}: {found}")
            results.setdefault(f"{path.suffix[1:]}: {kind.__name__}", Counter())[found.split()[0]] += 1
        pool.shutdown()
        path.unlink()
    return results, raw


def state_of(count):
    return files.Contents({"a": xr.Dataset({"x": ("i", np.full(3000, count))})}, {"count": count})


def keep_saving(path, log, count, known):
    while True:
        count += 1
        known = {files.write(path, state_of(count), "a", 1, known)}
        os.write(log, b"%d\n" % count)


def kills(folder, n):
    """Of n kills: files that cannot be read, states that were reported and are gone, locks that stay held."""
    path, rng, lost, unreadable, held, saved = folder / "killed.nc", np.random.default_rng(1), 0, 0, 0, 0
    known = files.write(path, state_of(0), "a", 1)
    for number_of in range(n):
        reader, writer = os.pipe()
        start = files.read(path, "a", 1).document["count"]
        child = os.fork()
        if child == 0:
            keep_saving(path, writer, start, {known})
        os.close(writer)
        time.sleep(rng.uniform(0, 0.4))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        with os.fdopen(reader) as log:
            reported = [int(line) for line in log.read().split()]
        saved += len(reported)
        try:
            found = files.read(path, "a", 1)
        except ValueError:
            unreadable += 1
            known = files.write(path, state_of(0), "a", 1)
            continue
        lost += found.document["count"] < (reported[-1] if reported else start)
        known = found.revision
        if number_of % 10 == 0:
            began = time.monotonic()
            known = files.write(path, found, "a", 1, {known})
            held += time.monotonic() - began > 5
    return {"kills": n, "saved": saved, "lost": lost, "unreadable": unreadable, "locks held by the dead": held}


def tell_and_save(path, x, y, barrier, refused):
    active = Learner.load(path)
    barrier.wait()
    while True:
        active.tell([[x]], y)
        try:
            active.save(path)
        except FileExistsError:
            refused.value += 1
            active = Learner.load(path)
        else:
            return


def pairs(folder, n):
    """Of n pairs of writers: results that are not in the file, and how many were refused at first."""
    path, refused, lost = folder / "pairs.nc", FORK.Value("i", 0), 0
    for number_of in range(n):
        if number_of % 10 == 0:
            path.unlink(missing_ok=True)
            learner(criterion="random", repeat=True).save(path)
        barrier, told = FORK.Barrier(2), {(GRID[number_of % 25, 0], number_of + part / 2) for part in (0, 1)}
        both = [FORK.Process(target=tell_and_save, args=(path, x, y, barrier, refused)) for x, y in told]
        for process in both:
            process.start()
        for process in both:
            process.join()
        kept = Learner.load(path)
        lost += len(told - set(zip(kept.X[:, 0], kept.y, strict=True)))
    return {"pairs": n, "refused once": refused.value, "results lost": lost}


def draw(results):
    figure, axes = panels(figsize=(8, 5))
    start = np.zeros(len(results))
    for name, colour in OUTCOMES.items():
        counts = np.array([found[name] for found in results.values()])
        axes.barh(list(results), counts, left=start, color=colour, label=name)
        start += counts
    axes.invert_yaxis()
    axes.set_xlabel("damaged files")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, 1.1), ncols=len(OUTCOMES))
    return figure


def main():
    arguments = parser(__doc__).parse_args()
    share = 20 if arguments.smallest else 1
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        killed, paired = kills(folder, 200 // share), pairs(folder, 50 // share)
        found, raw = damages(folder, 200 // share)
    total = sum(found.values(), Counter())
    table(("damage", *OUTCOMES), [(kind, *(counts[name] for name in OUTCOMES)) for kind, counts in found.items()])
    print(*raw, killed, paired, sep="\n")
    noticed = total["noticed"] / total.total()
    targets = [
        target("share of the damage noticed", noticed, ">=", 0.97),
        target("damage that is silent", total["silent"], "<=", 0),
        target("damage with another error", total["raw"], "<=", 0),
        target("states lost or unreadable after kills", killed["lost"] + killed["unreadable"], "<=", 0),
        target("results lost of two writers", paired["results lost"], "<=", 0),
    ]
    results = {"damage": found, "total": total, "raw": raw, "kills": killed, "pairs": paired}
    write(__doc__, quick=arguments.smallest, threads="1", targets=targets, results=results, figure=draw(found))


if __name__ == "__main__":
    main()
