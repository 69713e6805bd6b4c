"""TCP incast in a fast packet-level simulator: scenarios, sweeps and schemes.

    >>> import ackgate
    >>> result = ackgate.run({"senders": 100, "scheme": "credit"})
    >>> result.complete, result.round_ms["p99"] > 0
    (True, True)

`run` simulates one scenario, `sweep` every combination of varied keys, `flows` gives each flow as it ends, `reproduce`
runs the papers' experiments. Tables are Arrow's (PyCapsule interface): ``polars.from_arrow(x)``, ``pyarrow.table(x)``,
``pandas.DataFrame.from_arrow(x)``. Same scenario, same seed: same bytes, on every machine.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from . import _native
from ._native import BUILD, FlowStream, Segment, Table
from ._progress import Progress, bar
from ._results import Reproduction, Result, Sweep
from ._scenario import ScenarioLike, toml, understand
from .errors import ConflictError, Error, MissingError, RunError, ScenarioError, SweepError
from .scheme import Scheme

__version__ = BUILD.partition("+")[0]
__all__ = [
    "BUILD",
    "ConflictError",
    "Error",
    "FlowStream",
    "MissingError",
    "Reproduction",
    "Result",
    "RunError",
    "ScenarioError",
    "Scheme",
    "Segment",
    "Sweep",
    "SweepError",
    "Table",
    "collect",
    "experiments",
    "flows",
    "keys",
    "reproduce",
    "run",
    "sweep",
    "to_toml",
]

_MOST_THREADS = 65_536
_MOST_TASKS = 1_000_000


def run(
    scenario: ScenarioLike,
    changes: Mapping[str, Any] | None = None,
    *,
    scheme: Callable[[int], Scheme] | None = None,
    flows: bool = False,
    series: bool = False,
) -> Result:
    """Simulates one scenario.

    The interpreter's lock is free meanwhile, and Ctrl-C ends it.

    Args:
        scenario: A scenario file's name, or keys and values, nested or dotted: ``{"senders": 64, "tcp.rto_min":
            "10ms"}``. Quantities have units; `keys` lists them all.
        changes: Keys to change in it.
        scheme: Makes a scheme of your own for each receiver, by its number (from 0), instead of the scenario's: a class
            derived from `Scheme`. Slow: for trying an idea and for teaching.
        flows: Keep each flow (some 50 bytes of memory each; `flows` streams them instead).
        series: Keep queue, windows and drops over time (at most 4096 bins).

    Raises:
        ScenarioError: What is wrong with the scenario, with file, line and key.
        RunError: The run has no result.
    """
    understood = understand(scenario, changes)
    if scheme is None:
        return Result(_native.run(understood, flows, series))

    def make(receiver: int) -> Scheme:
        made = scheme(receiver)
        if not isinstance(made, Scheme):
            raise TypeError(f"scheme({receiver}) made {made!r}: expected an object of a class derived from ackgate.Scheme")
        return made

    if not callable(scheme):
        raise TypeError(f"scheme is {scheme!r}: expected a class derived from ackgate.Scheme, or a function that makes one")
    return Result(_native.run_with(understood, make, flows, series))


def flows(
    scenario: ScenarioLike, changes: Mapping[str, Any] | None = None, *, rows: int = 65_536
) -> FlowStream:
    """Simulates a scenario and gives its flows as they end, in bounded memory: the run waits while nobody takes them.

    Iterate over it for tables of so many ``rows``, or hand it to a reader of Arrow streams, once. Columns:
    ``start_us`` and ``flow_ms`` (begin, in microseconds since the run's, and duration in milliseconds), ``sender``,
    ``bytes`` (application data), ``round`` (from 1; null where there are none), ``group`` (``main``, or the number of a
    background group).

    Raises:
        ScenarioError: What is wrong with the scenario, with file, line and key.
    """
    return FlowStream(understand(scenario, changes), rows)


def sweep(
    scenario: ScenarioLike,
    vary: Mapping[str, str | Iterable[Any]],
    seeds: int = 1,
    *,
    changes: Mapping[str, Any] | None = None,
    threads: int = 0,
    out: str | os.PathLike[str] | None = None,
    engine: str | None = None,
    folder: str | os.PathLike[str] | None = None,
    tasks: int = 0,
    engine_options: Mapping[str, Any] | None = None,
    progress: Progress = True,
) -> Sweep:
    """Simulates every combination of varied keys; the rows are the same bytes whatever runs them.

    Args:
        scenario: A scenario file's name, or keys and values.
        vary: Keys and their values: a list, or text as ``--vary`` takes it (``"1,2,4..256"``, ``"10..100:10"``). The
            first key varies slowest.
        seeds: Runs of each combination, with seeds counted up from the scenario's.
        changes: Keys to change in the scenario.
        threads: 0 for one on each core; with an engine, of each task (0 for one).
        out: Keep the rows in this CSV file; those that it has already are not run again. Without an engine.
        engine: None to run here; ``"ray"`` for Ray, on the cluster that ``ray.init`` found or on this machine.
        folder: With an engine: where plan and rows are kept. The same call goes on with what is missing.
        tasks: With an engine: tasks at most; 0 for one for each minute of work.
        engine_options: With Ray: options of the remote function, such as ``{"scheduling_strategy": "SPREAD"}``.
        progress: True for a bar, False for none, or a function that is called with the fraction done, 0 to 1.

    Raises:
        ScenarioError: A combination makes no sense.
        SweepError: What is varied, or where rows are kept, is not as it should be.
        RunError: A run has no result.
    """
    understood = understand(scenario, changes)
    varied = [_varied(key, values) for key, values in vary.items()]
    _check_number("seeds", seeds, 2**32 - 1)
    _check_number("threads", threads, _MOST_THREADS)
    _check_number("tasks", tasks, _MOST_TASKS)
    if engine is None:
        _without_engine(folder, tasks, engine_options)
        with bar(progress, "sweep") as update:
            return Sweep(_native.sweep(understood, varied, seeds, threads, None if out is None else Path(out), update))
    if out is not None:
        raise SweepError("an engine keeps its rows in a folder: say folder=..., not out=...")
    work = _native.Work.sweep(understood, varied, seeds)
    return Sweep(_on_engine(engine, work, folder, tasks, threads, engine_options, progress, "sweep").collect())


def _varied(key: str, values: str | Iterable[Any]) -> tuple[str, str | list[str]]:
    """A key and its values: text as it is, each other value as TOML writes it."""
    if not isinstance(key, str):
        raise SweepError(f"vary: key {key!r} is not a string")
    if isinstance(values, str):
        return key, values
    if not isinstance(values, Iterable):
        raise SweepError(f"vary {key}: {values!r} is neither a list nor text such as \"1,2,4..256\"")
    return key, [value if isinstance(value, str) else toml(value, key) for value in values]


def _check_number(name: str, number: int, most: int) -> None:
    if not isinstance(number, int) or not 0 <= number <= most:
        raise SweepError(f"{name} = {number!r}: must be a whole number from 0 to {most}")


def _without_engine(folder: object, tasks: int, options: object) -> None:
    if folder is not None or tasks or options:
        raise SweepError('folder, tasks and engine_options are for an engine: say which, such as engine="ray"')


def _on_engine(
    engine: str,
    work: _native.Work,
    folder: str | os.PathLike[str] | None,
    tasks: int,
    threads: int,
    options: Mapping[str, Any] | None,
    progress: Progress,
    what: str,
) -> _native.Folder:
    """Runs what is missing of some work in its folder, which is made when it is not there."""
    if engine != "ray":
        raise SweepError(f'engine {engine!r} is not known: None or "ray"; for Slurm: the program\'s --on slurm')
    if folder is None:
        raise SweepError("an engine keeps its rows in a folder: say folder=...")
    from . import _ray

    place = Path(folder)
    if (place / "plan.json").exists():
        opened = _native.Folder.open(place)
        if not opened.same(work):
            raise SweepError(f"{place} holds other work than this {what}: choose another folder")
    else:
        opened = _native.Folder.create(place, work, tasks)
    with bar(progress, f"{what} on Ray") as update:
        _ray.run(opened, update, max(threads, 1), dict(options or {}))
    return opened


def collect(folder: str | os.PathLike[str]) -> Sweep:
    """The rows of a sweep that was run in a folder, by whatever engine.

    Raises:
        MissingError: Points have not been run yet.
        ConflictError: Two runs of one point differ.
    """
    return Sweep(_native.Folder.open(Path(folder)).collect())


def reproduce(
    *ids: str,
    out: str | os.PathLike[str],
    quick: bool = True,
    threads: int = 0,
    engine: str | None = None,
    folder: str | os.PathLike[str] | None = None,
    tasks: int = 0,
    engine_options: Mapping[str, Any] | None = None,
    progress: Progress = True,
) -> Reproduction:
    """Runs the papers' experiments, all when none is named, and holds their claims against what came out.

    Args:
        ids: Names such as ``"PAC-F13"``; `experiments` lists them.
        out: Folder for the report, figures and numbers; what is complete there is not run again (without an engine).
        quick: Fewer seeds and points.
        threads: 0 for one on each core; with an engine, of each task (0 for one).
        engine: None to run here; ``"ray"`` as for `sweep`. The files are the same bytes.
        folder: With an engine: where plan and rows are kept. The same call goes on with what is missing.
        tasks: With an engine: tasks at most; 0 for as many as the longest run allows.
        engine_options: As for `sweep`.
        progress: As for `sweep`.

    Raises:
        SweepError: There is no such experiment, or a folder holds something else.
        RunError: A run has no result.
    """
    place = Path(out)
    _check_number("threads", threads, _MOST_THREADS)
    _check_number("tasks", tasks, _MOST_TASKS)
    if engine is None:
        _without_engine(folder, tasks, engine_options)
        with bar(progress, "reproduce") as update:
            return Reproduction(_native.reproduce(list(ids), place, quick, threads, update), place)
    work = _native.Work.reproduction(list(ids), quick)
    done = _on_engine(engine, work, folder, tasks, threads, engine_options, progress, "reproduce")
    return Reproduction(done.report(place), place)


def experiments() -> dict[str, str]:
    """The papers' experiments: name and what each shows."""
    return dict(_native.experiments())


def keys() -> dict[str, str]:
    """Every key that a scenario may have: what it takes, and its range."""
    return {key: f"{takes} ({limits})" if limits else takes for key, takes, limits in _native.keys()}


def to_toml(scenario: ScenarioLike, changes: Mapping[str, Any] | None = None) -> str:
    """A scenario as the text of a file for ``ackgate sim``.

    Raises:
        ScenarioError: It makes no sense.
    """
    understood = understand(scenario, changes)
    understood.check()
    return understood.toml()
