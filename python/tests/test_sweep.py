"""Sweeps from Python: the same rows as the program's, whatever cuts them."""

from __future__ import annotations

from pathlib import Path

import ackgate
import polars
import pyarrow.parquet
import pytest
from ackgate import _native

SMALL = {"rounds": 2, "workload": {"volume": "8KB"}}
VARY = {"senders": [1, 2, 4], "scheme": ["none", "credit"], "switch.buffer": "64KB,128KB"}


def test_rows_in_order_typed_and_with_units(tmp_path: Path) -> None:
    told: list[float] = []
    sweep = ackgate.sweep(SMALL, VARY, seeds=2, progress=told.append)
    assert len(sweep) == 24 and sweep.keys == ["senders", "scheme", "switch.buffer", "seed"]
    assert told[-1] == 1.0 and told == sorted(told)
    frame = polars.DataFrame(sweep)
    assert frame["senders"].to_list() == [1] * 8 + [2] * 8 + [4] * 8
    assert frame["switch.buffer"].to_list()[:4] == ["64KB", "64KB", "128KB", "128KB"]
    assert frame.schema["goodput_mbps"] == polars.Float64 and frame.schema["seed"] == polars.UInt64
    assert sweep.table.units["goodput_mbps"] == "Mb/s"
    sweep.write(tmp_path / "x.parquet")
    sweep.write(tmp_path / "x.csv")
    assert (tmp_path / "x.csv").read_text() == sweep.csv
    assert pyarrow.parquet.read_table(tmp_path / "x.parquet").num_rows == 24
    assert "goodput" in str(sweep)


def test_rows_in_a_file_are_not_run_again(tmp_path: Path) -> None:
    out = tmp_path / "rows.csv"
    first = ackgate.sweep(SMALL, {"senders": [1, 2]}, out=out, progress=False)
    lines = out.read_text().splitlines()
    # A figure that only a row taken over can have.
    out.write_text("\n".join([lines[0], lines[1].replace("none,1,1,true", "none,1,1,false"), ""]))
    again = ackgate.sweep(SMALL, {"senders": [1, 2]}, out=out, progress=False)
    assert again.table.to_dict()["complete"] == [False, True]
    assert first.table.to_dict()["complete"] == [True, True]


def test_tasks_of_a_folder_are_the_whole(tmp_path: Path) -> None:
    scenario = ackgate._scenario.understand(SMALL)
    vary: list[tuple[str, str | list[str]]] = [("senders", "1..8"), ("scheme", ["none", "pac"])]
    work = _native.Work.sweep(scenario, vary, 5)
    folder = _native.Folder.create(tmp_path / "sweep", work, 6)
    assert folder.tasks > 1 and folder.same(work) and not folder.same(_native.Work.sweep(scenario, vary, 4))
    with pytest.raises(ackgate.MissingError, match="40 of 40 points are missing"):
        ackgate.collect(tmp_path / "sweep")
    for task in range(1, folder.tasks + 1):
        folder.keep(task, _native.run_task(folder.plan(), task, set(), 1))
    assert folder.status() == (40, 40, [])
    assert _native.run_task(folder.plan(), 1, set(folder.done(1)), 1) == ""
    plain = ackgate.sweep(SMALL, dict(vary), seeds=5, progress=False)
    assert ackgate.collect(tmp_path / "sweep").csv == plain.csv

    # Another run of the first task that came out otherwise.
    part = next((tmp_path / "sweep" / "rows").glob("00001.*"))
    row = part.read_text().splitlines()[0].rpartition(",")[0].replace("true", "false")
    folder.keep(2, f"{row},{_hash(row):016x}\n")
    with pytest.raises(ackgate.ConflictError, match=f"hash [0-9a-f]{{16}}, .* has hash {_hash(row):016x}"):
        ackgate.collect(tmp_path / "sweep")


def _hash(text: str) -> int:
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"vary": {"senders": []}}, "no values"),
        ({"vary": {"senders": "8..1"}}, "runs downwards"),
        ({"vary": {"senders": 5}}, "neither a list nor text"),
        ({"vary": {3: [1]}}, "is not a string"),
        ({"vary": {"senders": [1]}, "seeds": 0}, "at least 1"),
        ({"vary": {"senders": [1]}, "seeds": -1}, "whole number from 0"),
        ({"vary": {"senders": [1]}, "seeds": 2**40}, "whole number from 0"),
        ({"vary": {"senders": [1]}, "threads": -1}, "whole number from 0"),
        ({"vary": {"senders": range(1, 10**6)}}, "more than 100000 points"),
        ({"vary": {"senders": [1, 1]}}, "the same scenario"),
        ({"vary": {"senders": [1]}, "engine": "pigeons"}, "not known"),
        ({"vary": {"senders": [1]}, "engine": "ray"}, "folder"),
        ({"vary": {"senders": [1]}, "tasks": 3}, "are for an engine"),
    ],
)
def test_what_makes_no_sense_is_said(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ackgate.SweepError, match=message):
        ackgate.sweep(SMALL, **arguments)  # type: ignore[arg-type]


def test_a_bad_point_is_the_scenario_s_error() -> None:
    with pytest.raises(ackgate.ScenarioError, match="0 senders send nothing") as error:
        ackgate.sweep(SMALL, {"senders": [1, 0]}, progress=False)
    assert error.value.key == "senders"


def test_reproduce(tmp_path: Path) -> None:
    name = "M21-T1" if "M21-T1" in ackgate.experiments() else next(iter(ackgate.experiments()))
    with pytest.raises(ackgate.SweepError, match="no experiment"):
        ackgate.reproduce("PAC-F99", out=tmp_path)
    done = ackgate.reproduce(name, out=tmp_path / "out", progress=False)
    assert done.report.exists() and {claim["experiment"] for claim in done.claims} == {name}


def test_a_reproduction_in_tasks_is_the_same_files(tmp_path: Path) -> None:
    names = ["VAS-F12", "PAC-T-NMAX"]
    ackgate.reproduce(*names, out=tmp_path / "one", progress=False)
    folder = _native.Folder.create(tmp_path / "tasks", _native.Work.reproduction(names, True), 5)
    with pytest.raises(ackgate.SweepError, match="`ackgate reproduce`"):
        ackgate.collect(tmp_path / "tasks")
    for task in range(1, folder.tasks + 1):
        folder.keep(task, _native.run_task(folder.plan(), task, set(), 1))
    folder.report(tmp_path / "many")
    one = {file.name: file.read_bytes() for file in (tmp_path / "one").iterdir()}
    assert {file.name: file.read_bytes() for file in (tmp_path / "many").iterdir()} == one
    assert "report.html" in one and "VAS-F12.views.csv" in one
