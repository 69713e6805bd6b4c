"""The settings at which the simulators are compared, as the papers print them; nothing here knows a simulator.

Sizes are the papers': 1 KB is 1000 bytes. Where a paper is silent the values are the project's: two segments of
initial window (PAC's ns-2 runs), no SACK, no Limited Transmit, no delayed ACK, RTOmin 200 ms, connections that live
through the run, 20 us of start jitter (without it a point is chaotic: one timeout in 20 rounds costs 200 ms, and
whether it comes is decided by who wins a tie).
"""

from dataclasses import dataclass, replace

SENDERS = (1, 2, 4, 8, 16, 24, 32, 40, 48, 64, 80, 100, 128, 256)


@dataclass(frozen=True)
class Setting:
    """One network and workload; `senders` and the seed are varied over it."""

    name: str
    title: str
    rate: int  # bit/s, every link
    rtt_us: int  # propagation only
    buffer: int  # bytes of the switch port
    mss: int  # bytes
    volume: int  # bytes of a round: of each sender, or of all together
    per: str  # "sender" or "round"
    rounds: int
    cc: str = "newreno"
    mark_above: int = 0  # packets, dctcp
    initial_window: int = 2  # segments
    rto_min_ms: int = 200
    jitter_us: int = 20
    connections: str = "persistent"  # or "fresh": new ones in each round

    def bytes_per_sender(self, senders: int) -> int:
        """What one sender sends in a round."""
        return self.volume // senders if self.per == "round" else self.volume


_PAC_1G = Setting(
    "pac-1g", "PAC §V-E, 1 Gb/s: 96 KB port, 120 us, 64 KB from each sender",
    rate=10**9, rtt_us=120, buffer=96_000, mss=1460, volume=64_000, per="sender", rounds=20,
)
_M21 = Setting(
    "m21", "M21TCP-A Fig. 4: 1 Gb/s, 64 KB port, 100 us, MSS 576, 256 KB from each sender",
    rate=10**9, rtt_us=100, buffer=64_000, mss=576, volume=256_000, per="sender", rounds=10,
)

ALL = (
    _PAC_1G,
    replace(_PAC_1G, name="pac-10g", title="PAC §V-E, 10 Gb/s: 375 KB port, 80 us, 64 KB from each sender",
            rate=10**10, rtt_us=80, buffer=375_000),
    Setting("vasudevan-1g", "Vasudevan Fig. 3: 1 Gb/s, 32 KB port, 100 us, blocks of 1 MB over all senders",
            rate=10**9, rtt_us=100, buffer=32_000, mss=1460, volume=1_000_000, per="round", rounds=20),
    _M21,
    replace(_PAC_1G, name="pac-1g-fresh", title="PAC §V-E, 1 Gb/s, as pac-1g but with new connections in each round",
            connections="fresh"),
    replace(_PAC_1G, name="pac-1g-dctcp", title="PAC §V-E, 1 Gb/s, DCTCP with K = 10 packets", cc="dctcp", mark_above=10),
    replace(_M21, name="m21-dctcp", title="M21TCP-A Fig. 6, DCTCP with K = 20 packets", cc="dctcp", mark_above=20),
)
BY_NAME = {setting.name: setting for setting in ALL}

# Points at which the simulators' speed is compared: setting and senders.
SPEED = (("pac-1g", 100), ("pac-10g", 32), ("pac-10g", 256), ("pac-1g-dctcp", 32))
SPEED_ROUNDS = 40
# ns-3 needs most of a minute for 40 rounds of the largest point.
SPEED_ROUNDS_NS3 = 10
