"""Sweeps and reproductions as job arrays of a real Slurm: what comes of them are the bytes of one process, whatever is killed
on the way."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from slurm import Slurm, missing, until

pytestmark = pytest.mark.cluster

#: 10 000 points of a few milliseconds each.
SCENARIO = 'rounds = 2\nworkload = { volume = "16KB" }\n'
VARY = ["--vary", "senders=1,2,4,8,16", "--vary", "scheme=none,pac,credit,dctcp", "--seeds", "500"]


@pytest.fixture(scope="session")
def ackgate() -> str:
    """The program that is tested."""
    return os.environ["ACKGATE"]


@pytest.fixture
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    """A Slurm of this test alone."""
    if lacking := missing():
        pytest.skip(f"needs {', '.join(lacking)}")
    with Slurm(tmp_path_factory.mktemp("slurm")) as running:
        yield running


def test_ten_thousand_points_one_task_killed(slurm: Slurm, ackgate: str, tmp_path: Path) -> None:
    scenario = tmp_path / "small.toml"
    scenario.write_text(SCENARIO)
    folder = tmp_path / "sweep"
    sweep = [ackgate, "sim", "sweep"]

    slurm.call(*sweep, str(scenario), *VARY, "--out", str(tmp_path / "one.csv"))
    told = slurm.call(*sweep, str(scenario), *VARY, "--on", "slurm", "--dir", str(folder), "--tasks", "40")
    job = told.split()[1]
    # A node that fails takes its task with it: no signal that could be handled, no second try by Slurm.
    slurm.call("scontrol", "update", f"jobid={job}", "requeue=0")
    until(lambda: any((folder / "rows").glob("*.csv")), "no task writes a row")
    os.kill(_running(folder), signal.SIGKILL)
    until(lambda: not slurm.active(), "the array does not end", 1_200)

    status = json.loads(slurm.call(*sweep, "status", str(folder), "--json"))
    assert status["points"] == 10_000
    assert status["done"] < 10_000, "the task was killed too late"
    assert len(status["tasks_missing"]) == 1
    assert not status["tasks_active"]
    early = subprocess.run([*sweep, "collect", str(folder)], capture_output=True, text=True, check=False)
    assert early.returncode == 1
    assert "points are missing" in early.stderr

    again = slurm.call(*sweep, "missing", str(folder), "--print")
    assert again.startswith("sbatch --parsable --array=")
    slurm.call(*sweep, "missing", str(folder))
    until(lambda: not slurm.active(), "the missing task does not end", 600)
    slurm.call(*sweep, "collect", str(folder), "--out", str(tmp_path / "many.csv"))
    assert (tmp_path / "many.csv").read_bytes() == (tmp_path / "one.csv").read_bytes()


def _running(folder: Path) -> int:
    """A process that runs a task of a folder and has written a row already."""
    while True:
        for entry in Path("/proc").iterdir():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            written = any((folder / "rows").glob(f"*.{entry.name}.*.csv"))
            if b"task" in words and str(folder).encode() in words and written:
                return int(entry.name)


def test_what_waits_is_not_submitted_twice(slurm: Slurm, ackgate: str, tmp_path: Path) -> None:
    scenario = tmp_path / "small.toml"
    scenario.write_text(SCENARIO)
    folder = tmp_path / "sweep"
    vary = ["--vary", "senders=1..8", "--seeds", "4"]
    sweep = [ackgate, "sim", "sweep"]
    slurm.call(*sweep, str(scenario), *vary, "--on", "slurm", "--dir", str(folder), "--tasks", "4", "--sbatch=--hold")
    assert slurm.call(*sweep, "missing", str(folder)) == ""
    status = json.loads(slurm.call(*sweep, "status", str(folder), "--json"))
    assert status["done"] == 0 and status["tasks_active"] == status["tasks_missing"]
    slurm.call("scontrol", "release", (folder / "jobs").read_text().strip())
    until(lambda: not slurm.active(), "the array does not end")
    assert "16 of 16" in slurm.call(*sweep, "status", str(folder))


def test_a_reproduction_one_task_killed(slurm: Slurm, ackgate: str, tmp_path: Path) -> None:
    # Runs of a second and more, with views.
    asked = ["VAS-F12", "VAS-F5", "PAC-T-NMAX", "--quick"]
    folder, one, many = tmp_path / "tasks", tmp_path / "one", tmp_path / "many"
    reproduce = [ackgate, "reproduce"]
    shown = slurm.call(*reproduce, *asked, "--out", str(one))
    script = slurm.call(*reproduce, *asked, "--on", "slurm", "--dir", str(folder), "--tasks", "6", "--print")
    assert f"reproduce task '{folder}'" in script and "#SBATCH --array=1-" in script
    # What was printed is what is submitted, by hand or as what is missing.
    job = slurm.call(*reproduce, "missing", str(folder)).split()[1].rstrip(":")
    slurm.call("scontrol", "update", f"jobid={job}", "requeue=0")
    until(lambda: any((folder / "rows").glob("*.csv")), "no task writes a row")
    os.kill(_running(folder), signal.SIGKILL)
    until(lambda: not slurm.active(), "the array does not end", 1_200)
    status = json.loads(slurm.call(*reproduce, "status", str(folder), "--json"))
    assert len(status["tasks_missing"]) == 1 and status["done"] < status["points"]
    early = subprocess.run([*reproduce, "collect", str(folder), "--out", str(many)], capture_output=True, text=True, check=False)
    assert early.returncode == 1 and "points are missing" in early.stderr
    slurm.call(*reproduce, "missing", str(folder))
    until(lambda: not slurm.active(), "the missing task does not end", 600)
    collected = slurm.call(*reproduce, "collect", str(folder), "--out", str(many))
    files = {file.name: file.read_bytes() for file in one.iterdir()}
    assert {file.name: file.read_bytes() for file in many.iterdir()} == files
    assert {"report.html", "results.json", "VAS-F12.csv", "VAS-F12.views.csv", "VAS-F5.svg"} <= files.keys()
    assert collected.replace(str(many), "") == shown.replace(str(one), "")
