"""One process at a time: a lock that ends with the process that holds it, however that ends."""

from __future__ import annotations

import errno
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

if sys.platform == "win32":
    import msvcrt

    def _acquire(descriptor: int) -> None:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
else:
    import fcntl

    def _acquire(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


# Seconds between two attempts.
_PAUSE = 0.01
# What a lock that another process holds raises, depending on the system.
_HELD = (errno.EAGAIN, errno.EACCES, errno.EDEADLK)


@contextmanager
def locked(path: Path, on_waiting: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Wait until no other process or thread holds the lock file ``path``, and hold it; it is removed at the end.

    ``on_waiting`` is called once if there is anything to wait for. On a file system without locks nothing is held.
    """
    descriptor = _open_and_acquire(path)
    if descriptor is None:
        on_waiting()
    while descriptor is None:
        time.sleep(_PAUSE)
        descriptor = _open_and_acquire(path)
    try:
        yield
    finally:
        # Removed while it is held: whoever acquires a file that was removed meanwhile tries again.
        with suppress(OSError):
            path.unlink()
        os.close(descriptor)


def _open_and_acquire(path: Path) -> int | None:
    """A descriptor of the lock, or None if another process has it."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except PermissionError:
        # Another user has made it.
        descriptor = os.open(path, os.O_RDONLY)
    try:
        _acquire(descriptor)
    except OSError as error:
        if error.errno not in _HELD:
            return descriptor
        os.close(descriptor)
        return None
    with suppress(FileNotFoundError):
        if os.path.samestat(os.fstat(descriptor), path.stat()):
            return descriptor
    os.close(descriptor)
    return None
