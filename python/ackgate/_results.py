"""What runs and sweeps come to."""

from __future__ import annotations

import html
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from . import _native
from ._native import Table


class Result(Mapping[str, Any]):
    """The figures of one run: a mapping with the names of ``ackgate sim run --json``, which are attributes too.

    Units stand in the names: ``goodput_mbps`` (10^6 bit/s), ``round_ms`` (milliseconds), ``rtt_us`` (microseconds),
    ``queue_bytes``. Spreads are mappings: ``result.round_ms["p99"]``.

    Attributes:
        flows: Each flow of finite length, if ``flows=True`` was asked for: a table with ``start_us``, ``sender``,
            ``bytes``, ``flow_ms``, ``round`` and ``group``.
        series: Queue, windows, delivery and drops over time, if ``series=True`` was asked for.
    """

    def __init__(self, outcome: _native.Outcome) -> None:
        self._figures: dict[str, Any] = json.loads(outcome.report)
        self._summary = outcome.summary
        self.flows: Table | None = outcome.flows
        self.series: Table | None = outcome.series

    def __getitem__(self, name: str) -> Any:
        return self._figures[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._figures)

    def __len__(self) -> int:
        return len(self._figures)

    def __getattr__(self, name: str) -> Any:
        figures = self.__dict__.get("_figures", {})
        if name in figures:
            return figures[name]
        raise AttributeError(f"a result has no figure `{name}`; it has {', '.join(figures)}")

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._figures]

    def __str__(self) -> str:
        return self._summary.rstrip()

    def __repr__(self) -> str:
        scheme, senders, seed = self["scheme"], self["senders"], self["seed"]
        return f"<ackgate.Result {senders} senders, {scheme}, seed {seed}: {self['goodput_mbps']:.0f} Mb/s>"

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"


class Sweep:
    """The rows of a sweep: a table that polars, pandas and pyarrow take (``polars.from_arrow(sweep)``).

    Attributes:
        table: One row for each point, in order: varied keys, then the figures of `Result` with nested names joined
            (``round_ms_p99``), then a fingerprint of the scenario.
        csv: The same as CSV: the bytes that ``ackgate sim sweep --out`` writes.
        keys: The varied keys; ``seed`` last where there are several seeds.
    """

    def __init__(self, rows: _native.Rows) -> None:
        self.table: Table = rows.table
        self.csv: str = rows.csv
        self.keys: list[str] = rows.keys
        self._summary = rows.summary

    def __arrow_c_schema__(self) -> object:
        return self.table.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)

    def __len__(self) -> int:
        return len(self.table)

    def __str__(self) -> str:
        return self._summary.rstrip()

    def __repr__(self) -> str:
        return f"<ackgate.Sweep of {len(self)} points over {', '.join(self.keys)}>"

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"

    def write(self, path: str | os.PathLike[str]) -> None:
        """Writes CSV, or Parquet when the name ends so; the file appears whole or not at all."""
        target = Path(path)
        if target.suffix.lower() == ".parquet":
            self.table.write_parquet(target)
            return
        unfinished = target.with_name(f".{target.name}.{os.getpid()}.unfinished")
        try:
            unfinished.write_bytes(self.csv.encode())
            unfinished.replace(target)
        finally:
            unfinished.unlink(missing_ok=True)


class Reproduction:
    """What came of the papers' experiments.

    Attributes:
        claims: As in ``results.json``: each a mapping with ``experiment``, ``claim``, ``paper``, ``measured``,
            ``verdict`` and ``note``.
        folder: Where report, figures and numbers are.
    """

    def __init__(self, outcomes: str, folder: Path) -> None:
        self.claims: list[dict[str, Any]] = json.loads(outcomes)
        self.folder = folder

    @property
    def report(self) -> Path:
        """The report's page."""
        return self.folder / "report.html"

    def __str__(self) -> str:
        lines = [f"{claim['experiment']}  {claim['verdict']}  {claim['claim']}" for claim in self.claims]
        return "\n".join([*lines, str(self.report)])

    def __repr__(self) -> str:
        return f"<ackgate.Reproduction of {len(self.claims)} claims in {self.folder}>"
