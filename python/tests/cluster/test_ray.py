"""Sweeps on a real Ray: the rows are the bytes of one process, whatever is killed on the way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import ackgate
import pytest

ray = pytest.importorskip("ray")
pytestmark = pytest.mark.cluster

SCENARIO = {"rounds": 2, "workload": {"volume": "16KB"}}
VARY: dict[str, list[object]] = {"senders": [1, 2, 4, 8, 16], "scheme": ["none", "pac", "credit", "dctcp"]}

DRIVER = f"""
import ackgate, sys
ackgate.sweep({SCENARIO!r}, {VARY!r}, seeds=500, engine="ray", folder=sys.argv[1], tasks=40, progress=False)
"""


@pytest.fixture(autouse=True)
def started() -> object:
    """A Ray on this machine, on loopback."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, _node_ip_address="127.0.0.1")
    yield
    ray.shutdown()


def _workers() -> list[int]:
    """Processes of Ray that run a task."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if (entry / "cmdline").read_bytes().startswith(b"ray::_task"):
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def test_ten_thousand_points_one_worker_killed(tmp_path: Path) -> None:
    plain = ackgate.sweep(SCENARIO, VARY, seeds=500, progress=False)
    killed: list[int] = []

    def kill() -> None:
        while not killed:
            time.sleep(0.05)
            done = any((tmp_path / "sweep" / "rows").glob("*.csv"))
            if done and (workers := _workers()):
                os.kill(workers[0], signal.SIGKILL)
                killed.append(workers[0])

    thread = threading.Thread(target=kill)
    thread.start()
    swept = ackgate.sweep(
        SCENARIO, VARY, seeds=500, engine="ray", folder=tmp_path / "sweep", tasks=40, progress=False
    )
    thread.join()
    assert len(plain) == 10_000 and killed
    assert swept.csv == plain.csv


def test_a_driver_that_dies_leaves_what_came_back(tmp_path: Path) -> None:
    folder = tmp_path / "sweep"
    driver = subprocess.Popen([sys.executable, "-c", DRIVER, str(folder)], stderr=subprocess.DEVNULL)
    while driver.poll() is None and len(list((folder / "rows").glob("*.csv"))) < 3:
        time.sleep(0.05)
    driver.kill()
    driver.wait()
    with pytest.raises(ackgate.MissingError):
        ackgate.collect(folder)
    swept = ackgate.sweep(SCENARIO, VARY, seeds=500, engine="ray", folder=folder, tasks=40, progress=False)
    assert swept.csv == ackgate.sweep(SCENARIO, VARY, seeds=500, progress=False).csv
    with pytest.raises(ackgate.SweepError, match="other work than this sweep"):
        ackgate.sweep(SCENARIO, VARY, seeds=2, engine="ray", folder=folder)


def test_a_reproduction_is_the_same_files(tmp_path: Path) -> None:
    names = ["VAS-F12", "PAC-T-NMAX"]
    plain = ackgate.reproduce(*names, out=tmp_path / "one", progress=False)
    there = ackgate.reproduce(
        *names, out=tmp_path / "many", engine="ray", folder=tmp_path / "tasks", tasks=5, progress=False
    )
    assert there.claims == plain.claims
    files = {file.name: file.read_bytes() for file in (tmp_path / "one").iterdir()}
    assert {file.name: file.read_bytes() for file in (tmp_path / "many").iterdir()} == files
