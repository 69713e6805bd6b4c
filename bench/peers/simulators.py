"""How to call each simulator for one setting, and what each of its variants is for.

A simulator turns a setting, a number of senders and a seed into a command whose standard output ends in one JSON
object with at least `goodput_mbps`, `rounds`, `rto_timeouts`, `rounds_with_timeout` and `wall_s`.
"""

import hashlib
import json
import os
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from settings import Setting

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
OUT = ROOT / "out" / "peers"
NS3 = OUT / "ns3_incast"
NS3_SURGES = OUT / "ns3_surges"
# The files of each peer's program: a row stands until one of them changes.
SOURCES = {"ns2": ("ns2_incast.tcl",), "ns3": ("ns3_incast.cc", "ns3_tcp.h"), "surges": ("ns3_surges.cc", "ns3_tcp.h")}
ACKGATE = Path(os.environ.get("ACKGATE", ROOT / "target" / "release" / "ackgate"))

# No run may take longer than this, in seconds of real time.
WALL_LIMIT = 3600


class Failed(Exception):
    """A simulator did not finish, or did not say what it was asked for."""


@dataclass(frozen=True)
class Simulator:
    """A simulator with a fixed choice of what the settings leave open."""

    name: str
    title: str
    kind: str  # "ns2", "ns3" or "ackgate"
    options: tuple = ()

    def runs(self, setting: Setting) -> bool:
        """Whether this simulator can do `setting`: Debian's ns-2 has no DCTCP."""
        return not (self.kind == "ns2" and setting.cc == "dctcp")

    def command(self, setting: Setting, senders: int, seed: int, rounds: int) -> list[str]:
        """The command line of one run."""
        make = {"ns2": _ns2, "ns3": _ns3, "ackgate": _ackgate}[self.kind]
        return make(setting, senders, seed, rounds) + list(self.options)

    def version(self) -> str:
        """Changes when a row of this simulator has to be made anew."""
        if self.kind == "ackgate":
            return hashlib.sha256(ACKGATE.read_bytes()).hexdigest()[:16]
        return version(self.kind)


def version(kind: str) -> str:
    """Changes whenever a peer's program does, beyond its comments."""
    text = "\n".join((HERE / name).read_text() for name in SOURCES[kind])
    lines = [line for line in text.splitlines() if not line.lstrip().startswith(("#", "//"))]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


ALL = (
    Simulator("ns-2", "ns-2 2.35", "ns2"),
    Simulator("ns-2-ts", "ns-2 2.35, backoff ends at the first RTT sample", "ns2", ("timestamps=1",)),
    Simulator("ns-3", "ns-3.37", "ns3"),
    Simulator("ackgate-ip", "ackgate, framed as ns-2, backoff until a sample", "ackgate",
              ("--set", "network.framing=ip", "--set", "tcp.backoff_until_sample=true")),
    Simulator("ackgate-ppp", "ackgate, framed as ns-3", "ackgate", ("--set", "network.framing=ppp")),
    Simulator("ackgate-ts", "ackgate, framed as ns-2, timestamps", "ackgate",
              ("--set", "network.framing=ip", "--set", "tcp.timestamps=true")),
    Simulator("ackgate", "ackgate, Ethernet", "ackgate", ("--set", "network.framing=ethernet")),
)
BY_NAME = {simulator.name: simulator for simulator in ALL}


def _ns2(s: Setting, senders: int, seed: int, rounds: int) -> list[str]:
    values = dict(
        rate=s.rate, rtt=s.rtt_us / 1e6, buffer=s.buffer, mss=s.mss, senders=senders,
        bytes=s.bytes_per_sender(senders), rounds=rounds, jitter=s.jitter_us / 1e6, seed=seed,
        rtomin=s.rto_min_ms / 1e3, iw=s.initial_window, persistent=int(s.connections == "persistent"),
    )
    return ["ns", str(HERE / "ns2_incast.tcl"), *(f"{key}={value}" for key, value in values.items())]


def _ns3(s: Setting, senders: int, seed: int, rounds: int) -> list[str]:
    values = dict(
        rate=s.rate, rtt=s.rtt_us / 1e6, buffer=s.buffer, mss=s.mss, senders=senders,
        bytes=s.bytes_per_sender(senders), rounds=rounds, jitter=s.jitter_us / 1e6, seed=seed,
        rtomin=s.rto_min_ms / 1e3, iw=s.initial_window, persistent=int(s.connections == "persistent"),
        scheme=s.cc, k=s.mark_above or 20,
        wall_limit_s=WALL_LIMIT,
    )
    return [str(NS3), *(f"--{key}={value}" for key, value in values.items())]


def _ackgate(s: Setting, senders: int, seed: int, rounds: int) -> list[str]:
    values = {
        "senders": senders, "seed": seed, "rounds": rounds, "scheme": "none", "time_limit": "40000s",
        "network.topology": "star", "network.rate": f"{s.rate}bit", "network.rtt": f"{s.rtt_us}us",
        "switch.buffer": f"{s.buffer}B", "switch.count_transmitting": "false",
        "tcp.cc": s.cc, "tcp.mss": s.mss, "tcp.initial_window": s.initial_window,
        "tcp.rto_min": f"{s.rto_min_ms}ms", "tcp.rto_granularity": "1ms",
        # The peers' backoff is bounded by 60 s, not by a factor.
        "tcp.rto_backoff_max": 512,
        "tcp.sack": "false", "tcp.limited_transmit": "false", "tcp.delayed_ack": "off",
        "workload.volume": f"{s.bytes_per_sender(senders)}B", "workload.per": "sender",
        "workload.direction": "push", "workload.connections": s.connections,
        "workload.start_jitter": f"{s.jitter_us}us",
    }
    if s.cc == "dctcp":
        values["switch.discipline"] = "ecn"
        values["switch.discipline.mark_above"] = f"{s.mark_above}p"
    sets = [word for key, value in values.items() for word in ("--set", f"{key}={value}")]
    return [str(ACKGATE), "sim", "run", str(ROOT / "scenarios" / "incast-1g.toml"), "--json", *sets]


def run(command: list[str], prefix: tuple = ()) -> dict:
    """Runs one simulation and returns its JSON object, with the process's own time and peak memory beside it.

    The memory is asked from time(1): what the kernel tells of a direct child would be at least this interpreter's own.
    """
    OUT.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("r", dir=OUT) as usage:
        full = ["time", "-q", "-o", usage.name, "-f", "%e %M", "timeout", str(WALL_LIMIT), *prefix, *command]
        done = subprocess.run(full, capture_output=True, text=True, check=False)
        measured = usage.read().split()
    shown = " ".join(command)
    if done.returncode == 124:
        raise Failed(f"no end after {WALL_LIMIT} s: {shown}")
    if done.returncode != 0:
        raise Failed(f"exit status {done.returncode}: {shown}\n{done.stderr.strip()}")
    start = done.stdout.find("{")
    if start < 0:
        raise Failed(f"no JSON object from: {shown}\n{done.stdout[:300]}\n{done.stderr.strip()}")
    row, _ = json.JSONDecoder().raw_decode(done.stdout[start:])
    row["process_s"], row["peak_kib"] = float(measured[0]), int(measured[1])
    return row
