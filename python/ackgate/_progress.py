"""The progress bar: on standard error, in terminals and notebooks alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

from tqdm import tqdm

#: True for a bar, False for none, or what is to be called with the fraction that is done, 0 to 1.
Progress: TypeAlias = "bool | Callable[[float], object]"


@contextmanager
def bar(progress: Progress, what: str) -> Iterator[Callable[[int, int], None]]:
    """Gives what the native side calls with work done and all work."""
    if callable(progress):
        tell = progress
        yield lambda done, total: (tell(min(done / total, 1.0) if total else 1.0), None)[1]
        return
    # Short work shows nothing.
    with tqdm(
        total=100.0,
        desc=what,
        disable=not progress,
        delay=0.5,
        leave=False,
        bar_format="{desc} {bar} {percentage:3.0f} %  {elapsed}, {remaining} left",
    ) as shown:

        def update(done: int, total: int) -> None:
            shown.update(min(100.0 * done / total if total else 100.0, 100.0) - shown.n)

        yield update
