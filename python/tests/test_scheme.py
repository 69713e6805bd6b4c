"""A scheme written in Python guards a receiver."""

from __future__ import annotations

import ackgate
import pytest

INCAST = {"senders": 48, "rounds": 3, "workload": {"volume": "64KB"}}


class SmallWindows(ackgate.Scheme):
    """Two segments at most for every sender."""

    def __init__(self, receiver: int) -> None:
        self.scale: dict[int, int] = {}

    def leaving(self, now: int, flow: int, segment: ackgate.Segment, packet: int) -> int | None:
        if segment.wscale is not None:
            self.scale[flow] = segment.wscale
        if not segment.pure_ack:
            return None
        return min(segment.window, max(2 * 1460 >> self.scale.get(flow, 0), 1))


class Delayed(ackgate.Scheme):
    """Holds every pure ACK for a while."""

    def __init__(self, receiver: int) -> None:
        self.held: list[tuple[int, int]] = []

    def leaving(self, now: int, flow: int, segment: ackgate.Segment, packet: int) -> bool | None:
        if not segment.pure_ack:
            return None
        self.held.append((now + 1_000_000, packet))
        return False

    def release(self, now: int) -> int | None:
        if self.held and self.held[0][0] <= now:
            return self.held.pop(0)[1]
        return None

    def wake(self) -> int | None:
        return self.held[0][0] if self.held else None


def test_one_that_does_nothing_changes_nothing() -> None:
    plain, own = ackgate.run(INCAST), ackgate.run(INCAST, scheme=lambda receiver: ackgate.Scheme())
    for figure in ["goodput_mbps", "rto_timeouts", "drops", "packets_delivered"]:
        assert plain[figure] == own[figure]


def test_small_windows_help() -> None:
    plain, own = ackgate.run(INCAST), ackgate.run(INCAST, scheme=SmallWindows)
    assert own.rto_timeouts < plain.rto_timeouts
    assert own.goodput_mbps > plain.goodput_mbps


def test_held_acks_come_back() -> None:
    own = ackgate.run(INCAST, scheme=Delayed)
    assert own.complete and own.held_max > 1
    assert own.hold_us["p50"] == pytest.approx(1_000, rel=0.02)


@pytest.mark.parametrize(
    ("body", "kind", "message"),
    [
        ("def arrived(self, now, flow, segment): raise KeyError('mine')", KeyError, "mine"),
        ("def leaving(self, now, flow, segment, packet): return 'no'", TypeError, "expected None or a window"),
        ("def arrived(self, now, flow, segment): return 70000", TypeError, "70000"),
        ("def release(self, now): return 12345", ValueError, "does not hold"),
        ("def wake(self): return 'soon'", TypeError, "str"),
    ],
)
def test_its_exceptions_are_the_caller_s(body: str, kind: type[Exception], message: str) -> None:
    names: dict[str, type[ackgate.Scheme]] = {}
    exec(f"import ackgate\nclass Wrong(ackgate.Scheme):\n    {body}", {}, names)
    with pytest.raises(kind, match=message):
        ackgate.run(INCAST, scheme=lambda receiver: names["Wrong"]())


def test_what_is_no_scheme_is_told_before_the_run() -> None:
    with pytest.raises(TypeError, match="made None: expected an object of a class derived"):
        ackgate.run(INCAST, scheme=lambda receiver: None)  # type: ignore[arg-type, return-value]
    with pytest.raises(TypeError, match="scheme is 3: expected a class"):
        ackgate.run(INCAST, scheme=3)  # type: ignore[arg-type]
