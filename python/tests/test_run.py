"""One run from Python: figures, tables, errors, Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import ackgate
import pandas
import polars
import pyarrow
import pyarrow.parquet
import pytest

SMALL = {"senders": 4, "rounds": 3, "workload": {"volume": "8KB"}}


def test_a_readable_result_in_one_line() -> None:
    code = "import ackgate; print(ackgate.run({'senders': 100, 'scheme': 'credit'}))"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "100, credit, 1" in told and "Mb/s" in told


def test_figures_by_name_and_the_same_each_time() -> None:
    first, second = ackgate.run(SMALL), ackgate.run(SMALL)
    assert first.senders == first["senders"] == 4
    assert first.round_ms["p99"] > 0
    assert {**first, "wall_s": 0} == {**second, "wall_s": 0}
    assert ackgate.run(SMALL, {"tcp.mss": 500, "seed": 7}).seed == 7
    with pytest.raises(AttributeError, match="no figure `goodput`; it has .*goodput_mbps"):
        first.goodput  # noqa: B018


def test_files_and_dicts_say_the_same(tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    file.write_text(ackgate.to_toml(SMALL))
    assert {**ackgate.run(file), "wall_s": 0} == {**ackgate.run(SMALL), "wall_s": 0}


def test_tables_for_polars_pandas_and_pyarrow(tmp_path: Path) -> None:
    result = ackgate.run(SMALL, flows=True, series=True)
    assert result.flows is not None and result.series is not None
    frame = polars.DataFrame(result.flows)
    assert frame.shape == (12, 6) and frame["bytes"].unique().to_list() == [8_000]
    assert frame["round"].to_list() == result.flows.to_dict()["round"]
    arrow = pyarrow.table(result.series)
    assert arrow.schema.field("start_us").metadata == {b"unit": b"us"}
    assert b"rounds = 3" in arrow.schema.metadata[b"ackgate.scenario"]
    assert len(pandas.DataFrame(pyarrow.table(result.flows).to_pandas())) == len(result.flows) == 12
    result.flows.write_parquet(tmp_path / "flows.parquet")
    stored = pyarrow.parquet.read_table(tmp_path / "flows.parquet")
    assert stored.to_pydict() == pyarrow.table(result.flows).to_pydict()
    assert json.loads(stored.schema.metadata[b"ackgate.units"])["flow_ms"] == "ms"
    with pytest.raises(OSError, match="cannot be written"):
        result.flows.write_parquet(tmp_path / "no" / "x.parquet")


def test_flows_stream_in_pieces_and_may_be_left() -> None:
    scenario = {"senders": 10, "rounds": 500, "workload.volume": "2KB"}
    pieces = [len(piece) for piece in ackgate.flows(scenario, rows=1_000)]
    assert pieces == [1_000] * 5
    whole = polars.DataFrame(ackgate.flows(scenario, rows=777))
    assert whole.equals(polars.DataFrame(ackgate.run(scenario, flows=True).flows))
    # A run of hours, of which nobody wants more than the first piece.
    stream = ackgate.flows({**scenario, "rounds": 1_000_000}, rows=100)
    assert len(next(stream)) == 100
    del stream
    for rows in [10**12, 0, -1]:
        with pytest.raises(ValueError, match="1 to 1048576 rows"):
            ackgate.flows(SMALL, rows=rows)
    taken = ackgate.flows(SMALL)
    polars.DataFrame(taken)
    with pytest.raises(ackgate.RunError, match="have been taken"):
        polars.DataFrame(taken)


def _endless(scenario: dict[str, object]) -> dict[str, object]:
    scenario["workload"] = scenario
    return scenario


@pytest.mark.parametrize(
    ("scenario", "key", "message"),
    [
        ({"senders": 0}, "senders", "0 senders send nothing"),
        ({"sendrs": 4}, None, "did you mean `senders`"),
        ({"tcp": {"rto_min": "10"}}, "tcp.rto_min", "10"),
        ({"tcp": {"rto_min": None}}, "tcp.rto_min", "None is no value"),
        ({"tcp": "x"}, "tcp", "x"),
        ({"switch.buffer": "64 parsecs"}, "switch.buffer", "parsecs"),
        ({"senders": 2**70}, "senders", "too large"),
        ({"senders": True}, "senders", "whole number"),
        ({"senders": [1, 2]}, "senders", "is a list"),
        ({"scheme": "creditt"}, "scheme", "did you mean `credit`"),
        ({"scheme": "\ud800"}, "scheme", "half a character"),
        ({"\ud800": 1}, None, "half a character"),
        ({"network": {"rate": "0"}}, "network.rate", "never sends"),
        ({"network.rtt": float("inf")}, "network.rtt", "is the number inf"),
        ({"workload": {"kind": "trace", "file": "/"}}, "workload.file", "cannot be read"),
        ({"workload": {"kind": "trace", "file": "/dev/zero"}}, "workload.file", "longer than"),
        ({"senders": 4, "senders.x": 3}, "senders", "not a table"),
        ({"group": [{"senders": 0}]}, "group.0.senders", "not between"),
        (_endless({}), None, "contains itself"),
        ({1: 2}, "1", "is not a string"),
        ({"senders": float("nan")}, "senders", "whole number"),
        ({"workload.file": b"x"}, "workload.file", "is no value"),
        ({"": 1}, None, "empty part"),
    ],
)
def test_what_is_wrong_is_told_with_its_key(scenario: dict[str, object], key: str | None, message: str) -> None:
    with pytest.raises(ackgate.ScenarioError, match=message) as error:
        ackgate.run(scenario)
    assert (error.value.file, error.value.line) == (None, None)
    assert key is None or error.value.key == key


def test_what_is_wrong_in_a_file_is_told_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "bad.toml"
    file.write_text("senders = 4\n[host]\njiter = '1us'\n")
    with pytest.raises(ackgate.ScenarioError, match=r"bad.toml:3: .*did you mean `jitter`") as error:
        ackgate.run(file)
    assert (error.value.file, error.value.line, error.value.key) == (str(file), 3, "host")
    with pytest.raises(ackgate.ScenarioError, match="cannot be read"):
        ackgate.run(tmp_path / "none.toml")
    with pytest.raises(ackgate.ScenarioError, match="not int"):
        ackgate.run(3)  # type: ignore[arg-type]
    for text, line in [("senders = ", 1), ("senders = 4\nsenders = 5\n", 2), ("[tcp\n", 1), ("x = " + "[" * 20_000, 1), ("\0", 1)]:
        file.write_text(text)
        with pytest.raises(ackgate.ScenarioError, match="bad.toml:[12]: is not valid TOML") as error:
            ackgate.run(file)
        assert error.value.line == line
    assert issubclass(ackgate.ScenarioError, ackgate.Error) and issubclass(ackgate.ScenarioError, ValueError)


def test_other_threads_go_on_while_it_runs() -> None:
    counted = 0
    ended = threading.Event()

    def count() -> None:
        nonlocal counted
        while not ended.is_set():
            counted += 1
            time.sleep(0)

    thread = threading.Thread(target=count)
    thread.start()
    before = counted
    ackgate.run({"senders": 64, "rounds": 200})
    during = counted - before
    ended.set()
    thread.join()
    assert during > 100


@pytest.mark.parametrize(
    "call",
    [
        "ackgate.run({'senders': 64, 'rounds': 1_000_000})",
        "ackgate.sweep({'senders': 64, 'rounds': 1_000_000}, {'scheme': ['none', 'pac']}, progress=False)",
        "list(ackgate.flows({'senders': 64, 'rounds': 1_000_000, 'workload.volume': '1MB'}, rows=2**20))",
        "ackgate.run({'senders': 64, 'rounds': 1_000_000}, scheme=lambda receiver: ackgate.Scheme())",
    ],
)
def test_ctrl_c_ends_it(call: str) -> None:
    code = f"import ackgate\nprint('begins', flush=True)\ntry:\n    {call}\nexcept KeyboardInterrupt:\n    print('ended')"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "begins\n"
    time.sleep(0.5)
    os.kill(process.pid, signal.SIGINT)
    assert process.communicate(timeout=60)[0] == "ended\n"


def test_keys_and_experiments_are_listed() -> None:
    assert "tcp.rto_min" in ackgate.keys()
    assert any(name.startswith("PAC-") for name in ackgate.experiments())
