"""What an engine adds: processor time of 10 000 small points in one process, through Slurm and through Ray.

    ACKGATE=target/release/ackgate target/python/bin/python python/tests/cluster/overhead.py

Everything that an engine starts is put into a control group of its own, so that its daemons are counted too. Needs root.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from slurm import Slurm, until

SCENARIO = 'rounds = 20\nworkload = { volume = "32KB" }\n'
VARY = ["--vary", "senders=1,2,4,8,16", "--vary", "scheme=none,pac,credit,dctcp", "--seeds", "500"]
TASKS = "20"

RAY = """
import sys, ackgate
vary = {"senders": [1, 2, 4, 8, 16], "scheme": ["none", "pac", "credit", "dctcp"]}
sweep = ackgate.sweep(sys.argv[1], vary, seeds=500, engine="ray", folder=sys.argv[2], tasks=int(sys.argv[3]), progress=False)
sweep.write(sys.argv[4])
"""


class Meter:
    """A control group that this process enters; what it starts from then on is counted."""

    def __init__(self, name: str) -> None:
        roots = [Path("/sys/fs/cgroup/cpuacct"), Path("/sys/fs/cgroup/unified"), Path("/sys/fs/cgroup")]
        self._root = next(root for root in roots if (root / "cgroup.procs").exists())
        self._group = self._root / f"ackgate-{name}-{os.getpid()}"

    def __enter__(self) -> Meter:
        self._group.mkdir()
        (self._group / "cgroup.procs").write_text(str(os.getpid()))
        return self

    def seconds(self) -> float:
        """Processor time of the group so far."""
        usage = self._group / "cpuacct.usage"
        if usage.exists():
            return int(usage.read_text()) / 1e9
        return int((self._group / "cpu.stat").read_text().split()[1]) / 1e6

    def __exit__(self, *_: object) -> None:
        (self._root / "cgroup.procs").write_text(str(os.getpid()))
        until(lambda: not (self._group / "cgroup.procs").read_text(), "processes are left")
        self._group.rmdir()


def main() -> None:
    ackgate = os.environ["ACKGATE"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        scenario = folder / "small.toml"
        scenario.write_text(SCENARIO)
        sweep = [ackgate, "sim", "sweep", str(scenario), *VARY]
        plain_s = 0.0

        def tell(engine: str, used: float, begun: float) -> None:
            ratio = used / (plain_s or used)
            waited = time.monotonic() - begun
            print(f"{engine:20} {used:7.1f} s of processor, {ratio:.2f} times, {waited:6.1f} s to wait", flush=True)

        with Meter("one") as meter:
            begun = time.monotonic()
            subprocess.run([*sweep, "--out", str(folder / "one.csv")], check=True, stdout=subprocess.DEVNULL)
            tell("one process", meter.seconds(), begun)
            plain_s = meter.seconds()

        with Meter("slurm") as meter:
            place = folder / "slurm"
            place.mkdir()
            with Slurm(place) as slurm:
                before, begun = meter.seconds(), time.monotonic()
                slurm.call(*sweep, "--on", "slurm", "--dir", str(folder / "array"), "--tasks", TASKS)
                until(lambda: not slurm.active(), "the array does not end", 1_200)
                slurm.call(ackgate, "sim", "sweep", "collect", str(folder / "array"), "--out", str(folder / "slurm.csv"))
                tell("Slurm", meter.seconds() - before, begun)

        with Meter("ray") as meter:
            begun = time.monotonic()
            command = [sys.executable, "-c", RAY, str(scenario), str(folder / "ray"), TASKS, str(folder / "ray.csv")]
            subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
            tell("Ray, its start too", meter.seconds(), begun)

        one = (folder / "one.csv").read_bytes()
        assert (folder / "slurm.csv").read_bytes() == one and (folder / "ray.csv").read_bytes() == one

if __name__ == "__main__":
    main()
