"""Progress bars."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec


@contextmanager
def progress(description: str, total: int, enabled: bool) -> Iterator[Callable[..., None]]:
    """Context with a progress bar; it yields the function ``advance(steps=1)``."""
    if not enabled or not _is_shown():
        yield lambda *args, **keywords: None
        return
    # Imported only when something is shown.
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, transient=True) as bar:
        yield partial(bar.advance, bar.add_task(description, total=total))


def _is_shown() -> bool:
    """Whether a bar can be seen: not in a file or a pipe, nor in a notebook without the package that draws it."""
    from rich import get_console

    return get_console().is_terminal or (get_console().is_jupyter and find_spec("ipywidgets") is not None)
