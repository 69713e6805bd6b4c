"""The native half; what people use is in `ackgate`."""

from collections.abc import Callable
from os import PathLike
from typing import Any, final

__all__ = [
    "BUILD",
    "FlowStream",
    "Folder",
    "Outcome",
    "Rows",
    "Scenario",
    "Segment",
    "Table",
    "Work",
    "experiments",
    "keys",
    "reproduce",
    "run",
    "run_task",
    "run_with",
    "sweep",
]

BUILD: str

@final
class Table:
    """Columns of figures with units, and where they come from. An Arrow table to whoever reads Arrow."""

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
    @property
    def units(self) -> dict[str, str]:
        """Units by column, for those that have one; ``1`` for plain numbers."""
    @property
    def metadata(self) -> dict[str, str]:
        """Scenario, build, seeds and what was varied."""
    def to_dict(self) -> dict[str, list[Any]]:
        """Columns as lists."""
    def write_parquet(self, path: str | PathLike[str]) -> None:
        """Writes a Parquet file, whole or not at all."""
    def __len__(self) -> int: ...
    def __arrow_c_schema__(self) -> object: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

@final
class FlowStream:
    """The flows of one run, to be taken once: as an iterator of tables, or as an Arrow stream."""

    def __new__(cls, scenario: Scenario, rows: int) -> FlowStream: ...
    def __iter__(self) -> FlowStream: ...
    def __next__(self) -> Table: ...
    def __arrow_c_schema__(self) -> object: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

@final
class Outcome:
    """What came of a run."""

    @property
    def report(self) -> str: ...
    @property
    def summary(self) -> str: ...
    @property
    def flows(self) -> Table | None: ...
    @property
    def series(self) -> Table | None: ...

@final
class Scenario:
    """A scenario before it is understood: a file and changes to it, or changes alone."""

    def __new__(cls, file: str | PathLike[str] | None, changes: list[tuple[str, str]]) -> Scenario: ...
    def check(self) -> None: ...
    def toml(self) -> str: ...
    @property
    def name(self) -> str: ...

@final
class Segment:
    """What a scheme sees of a TCP segment. Sequence numbers have 32 bits and wrap; sizes are bytes."""

    @property
    def seq(self) -> int:
        """First sequence number of the payload."""
    @property
    def ack(self) -> int:
        """Acknowledgement number."""
    @property
    def window(self) -> int:
        """Window field as it stands in the header, unscaled."""
    @property
    def payload(self) -> int:
        """Payload, bytes."""
    @property
    def wire_bytes(self) -> int:
        """Payload and headers, bytes: what a switch's buffer holds of it."""
    @property
    def syn(self) -> bool: ...
    @property
    def fin(self) -> bool: ...
    @property
    def rst(self) -> bool: ...
    @property
    def pure_ack(self) -> bool:
        """An acknowledgement and nothing else."""
    @property
    def ce(self) -> bool:
        """Congestion Experienced."""
    @property
    def sack(self) -> bool:
        """It carries a SACK block."""
    @property
    def mss(self) -> int:
        """Maximum segment size option; 0 when absent."""
    @property
    def wscale(self) -> int | None:
        """Window scale option of SYN and SYN-ACK."""

@final
class Rows:
    """What came of a sweep."""

    @property
    def table(self) -> Table: ...
    @property
    def csv(self) -> str: ...
    @property
    def summary(self) -> str: ...
    @property
    def keys(self) -> list[str]: ...

@final
class Work:
    """What can be cut into tasks."""

    @staticmethod
    def sweep(scenario: Scenario, vary: list[tuple[str, str | list[str]]], seeds: int) -> Work: ...
    @staticmethod
    def reproduction(ids: list[str], quick: bool) -> Work: ...

@final
class Folder:
    """Work that was cut into tasks, in a folder."""

    @staticmethod
    def create(path: str | PathLike[str], work: Work, tasks: int) -> Folder: ...
    @staticmethod
    def open(path: str | PathLike[str]) -> Folder: ...
    def same(self, work: Work) -> bool: ...
    def plan(self) -> str: ...
    @property
    def tasks(self) -> int: ...
    def status(self) -> tuple[int, int, list[int]]: ...
    def done(self, task: int) -> list[int]: ...
    def keep(self, task: int, lines: str) -> None: ...
    def collect(self) -> Rows: ...
    def report(self, out: str | PathLike[str]) -> str: ...

def experiments() -> list[tuple[str, str]]: ...
def reproduce(
    ids: list[str],
    out: str | PathLike[str],
    quick: bool,
    threads: int,
    progress: Callable[[int, int], None],
) -> str: ...
def run(scenario: Scenario, flows: bool, series: bool) -> Outcome: ...
def run_with(scenario: Scenario, make: Callable[[int], Any], flows: bool, series: bool) -> Outcome: ...
def keys() -> list[tuple[str, str, str]]: ...
def sweep(
    scenario: Scenario,
    vary: list[tuple[str, str | list[str]]],
    seeds: int,
    threads: int,
    out: str | PathLike[str] | None,
    progress: Callable[[int, int], None],
) -> Rows: ...
def run_task(plan: str, task: int, done: set[int], threads: int) -> str: ...
