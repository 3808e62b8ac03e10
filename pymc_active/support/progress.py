"""Progress bars."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial


@contextmanager
def progress(description: str, total: int, enabled: bool) -> Iterator[Callable[..., None]]:
    """Context with a progress bar; it yields the function ``advance(steps=1)``."""
    if not enabled:
        yield lambda *args, **keywords: None
        return
    # Imported only when something is shown.
    from rich import get_console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    # In a file or a pipe nothing is shown but an empty line at the end.
    is_shown = get_console().is_terminal or get_console().is_jupyter
    with Progress(*columns, transient=True, disable=not is_shown) as bar:
        yield partial(bar.advance, bar.add_task(description, total=total))
