"""What an engine adds: processor time of 10 000 small points in one process, through Slurm and through Ray.

    ACKGATE=target/release/ackgate target/python/bin/python python/tests/cluster/overhead.py [TASKS]

Everything that an engine starts is put into a control group of its own, so that its daemons are counted too, from the time on
when the engine is up: a cluster is there before the sweep. Needs root. Shows too how many seconds single steps take of it.
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
#: Seconds between two questions whether an array has ended: each is a process that asks the controller.
ASKED_EVERY = 2.0


class Meter:
    """A control group that this process enters; what it starts from then on is counted."""

    def __init__(self, name: str) -> None:
        roots = [Path("/sys/fs/cgroup/cpuacct"), Path("/sys/fs/cgroup/unified"), Path("/sys/fs/cgroup")]
        self._root = next(root for root in roots if (root / "cgroup.procs").exists())
        self._group = self._root / f"ackgate-{name}-{os.getpid()}"
        self._from = 0.0

    def __enter__(self) -> Meter:
        self._group.mkdir()
        (self._group / "cgroup.procs").write_text(str(os.getpid()))
        return self

    def begin(self) -> None:
        """What was used before does not count."""
        self._from += self.seconds()
        self._begun = time.monotonic()

    def seconds(self) -> float:
        """Processor time of the group so far."""
        usage = self._group / "cpuacct.usage"
        if usage.exists():
            return int(usage.read_text()) / 1e9 - self._from
        return int((self._group / "cpu.stat").read_text().split()[1]) / 1e6 - self._from

    def tell(self, what: str, plain_s: float) -> float:
        """Prints what has been used since `begin`, and returns it."""
        used, waited = self.seconds(), time.monotonic() - self._begun
        ratio = f"{used / plain_s:5.2f} times" if plain_s else ""
        print(f"{what:34} {used:7.2f} s of processor {ratio:11} {waited:6.1f} s to wait", flush=True)
        return used

    def __exit__(self, *_: object) -> None:
        (self._root / "cgroup.procs").write_text(str(os.getpid()))
        until(lambda: not (self._group / "cgroup.procs").read_text(), "processes are left")
        self._group.rmdir()


def through_slurm(ackgate: str, folder: Path, scenario: Path, tasks: str, plain_s: float) -> None:
    """The sweep as a job array."""
    sweep = [ackgate, "sim", "sweep"]
    with Meter("slurm") as meter:
        place = folder / "slurm"
        place.mkdir()
        with Slurm(place) as slurm:
            meter.begin()
            array = str(folder / "array")
            slurm.call(*sweep, str(scenario), *VARY, "--on", "slurm", "--dir", array, "--tasks", tasks)
            meter.tell("Slurm: cut and submitted", plain_s)
            until(lambda: not slurm.active(), "the array does not end", 1_200, ASKED_EVERY)
            meter.tell("Slurm: run", plain_s)
            slurm.call(*sweep, "collect", array, "--out", str(folder / "slurm.csv"))
            meter.tell("Slurm: collected", plain_s)


def through_ray(folder: Path, scenario: Path, tasks: str, plain_s: float) -> None:
    """The sweep on a Ray of two processors, which is up before it."""
    import ackgate
    import ray

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    with Meter("ray") as meter:
        meter.begin()
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, _node_ip_address="127.0.0.1")
        meter.tell("Ray: its start, which is not counted", 0.0)
        try:
            meter.begin()
            vary = {"senders": [1, 2, 4, 8, 16], "scheme": ["none", "pac", "credit", "dctcp"]}
            place = folder / "ray"
            sweep = ackgate.sweep(
                scenario, vary, seeds=500, engine="ray", folder=place, tasks=int(tasks), progress=False
            )
            sweep.write(folder / "ray.csv")
            meter.tell("Ray: cut, run and collected", plain_s)
        finally:
            ray.shutdown()


def main() -> None:
    ackgate, tasks = os.environ["ACKGATE"], (sys.argv[1:] or ["0"])[0]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        scenario = folder / "small.toml"
        scenario.write_text(SCENARIO)
        plain = []
        for again in range(2):
            with Meter("one") as meter:
                meter.begin()
                command = [ackgate, "sim", "sweep", str(scenario), *VARY, "--out", str(folder / f"one{again}.csv")]
                subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
                plain.append(meter.tell("one process", 0.0))
            if not again:
                through_slurm(ackgate, folder, scenario, tasks, plain[0])
                through_ray(folder, scenario, tasks, plain[0])
        print(f"one process before and after: {plain[1] / plain[0]:.2f} times")
        one = (folder / "one0.csv").read_bytes()
        assert (folder / "slurm.csv").read_bytes() == one and (folder / "ray.csv").read_bytes() == one


if __name__ == "__main__":
    main()
