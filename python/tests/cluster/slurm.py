"""A whole Slurm on this machine: munge, controller and one node, on loopback, from the distribution's packages."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

PROGRAMS = ["munged", "slurmctld", "slurmd", "sbatch", "squeue", "scontrol"]

CONFIGURATION = """
ClusterName=test
SlurmctldHost=localhost(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
SlurmctldPort={controller_port}
SlurmdPort={node_port}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
MpiDefault=none
MailProg=/bin/true
ReturnToService=2
KillWait=2
SchedulerParameters=batch_sched_delay=0,sched_min_interval=100000
NodeName=localhost NodeAddr=127.0.0.1 CPUs={cpus} State=UNKNOWN
PartitionName=all Nodes=localhost Default=YES MaxTime=INFINITE State=UP
"""


def missing() -> list[str]:
    """What has to be installed for this."""
    path = os.environ["PATH"] + ":/usr/sbin"
    lacking = [program for program in PROGRAMS if shutil.which(program, path=path) is None]
    return lacking if os.geteuid() == 0 else [*lacking, "root"]


def until(what: Callable[[], bool], message: str, seconds: float = 120, every: float = 0.1) -> None:
    """Waits for something to become true, asking again after so many seconds."""
    end = time.monotonic() + seconds
    while not what():
        if time.monotonic() > end:
            raise TimeoutError(message)
        time.sleep(every)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Slurm:
    """Started and stopped as a context."""

    def __init__(self, folder: Path, cpus: int = 2) -> None:
        self.folder = folder
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("SLURM_")},
            "PATH": os.environ["PATH"] + ":/usr/sbin",
            "SLURM_CONF": str(folder / "slurm.conf"),
        }
        self._daemons: list[subprocess.Popen[bytes]] = []
        text = CONFIGURATION.format(folder=folder, cpus=cpus, controller_port=_free_port(), node_port=_free_port())
        (folder / "slurm.conf").write_text(text)

    def _start(self, *command: str) -> None:
        log = (self.folder / f"{command[0]}.log").open("wb")
        process = subprocess.Popen(command, env=self.environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        self._daemons.append(process)

    def __enter__(self) -> Slurm:
        for name in ["state", "spool"]:
            (self.folder / name).mkdir()
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o600)
        files = {"key": "key", "socket": "socket", "pid": "pid", "log": "munge.log", "seed": "seed"}
        options = [f"--{name}-file={self.folder}/munge.{end}" for name, end in files.items() if name != "socket"]
        self._start("munged", "--foreground", "--force", f"--socket={self.folder}/munge.socket", *options)
        until((self.folder / "munge.socket").exists, "munged does not start")
        self._start("slurmctld", "-D", "-i", "-f", self.environment["SLURM_CONF"])
        self._start("slurmd", "-D", "-N", "localhost", "-f", self.environment["SLURM_CONF"])
        try:
            until(lambda: "idle" in self.call("sinfo", "--noheader", "--format=%t", check=False), "no node becomes idle")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for process in reversed(self._daemons):
            process.terminate()
        for process in reversed(self._daemons):
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def call(self, *command: str, check: bool = True) -> str:
        """Runs a command that talks to this Slurm and returns what it prints."""
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, check=False)
        if check and done.returncode != 0:
            raise AssertionError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr}")
        return done.stdout

    def active(self) -> list[str]:
        """States of all tasks that wait or run."""
        return self.call("squeue", "--noheader", "--array", "--format=%T").split()
