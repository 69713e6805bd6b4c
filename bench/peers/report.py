"""Writes the tables between the markers of docs/validation.md; the prose around them is written by hand.

A point is the sum over its seeds: all bytes over all simulated time, so that a rare 200 ms round weighs what it costs.
The page is written only when there is a row for every cell of its tables: a table with holes would look like a result.
"""

import json
import re
import statistics
import sys

import rows
import settings
import simulators
from settings import Setting
from simulators import ROOT

PAGE = ROOT / "docs" / "validation.md"
SPEED_ROWS = simulators.OUT / "speed.json"

# Each peer, and the variant of ours that runs by the peer's framing and backoff.
PAIRS = (("ns-2", "ackgate-ip"), ("ns-2-ts", "ackgate-ts"), ("ns-3", "ackgate-ppp"))


class Point:
    """One simulator at one number of senders, over all seeds that there are."""

    def __init__(self, found: list[dict], setting: Setting, senders: int):
        self.seeds = len(found)
        rounds = sum(row["rounds"] for row in found)
        sent = setting.bytes_per_sender(senders) * senders * 8 / 1e6
        seconds = sum(sent * row["rounds"] / row["goodput_mbps"] for row in found if row["goodput_mbps"] > 0)
        self.goodput = sent * rounds / seconds if seconds else 0.0
        self.timeouts = sum(row["rto_timeouts"] for row in found) / rounds if rounds else 0.0
        self.stalled = sum(row["rounds_with_timeout"] for row in found) / rounds if rounds else 0.0
        self.drops = sum(row["drops"] for row in found)


def _curves(setting: Setting, seeds: int, have: dict, versions: dict) -> dict[str, dict[int, Point]]:
    """Simulator name to senders to point; simulators without a row are left out."""
    curves = {}
    for simulator in simulators.ALL:
        if simulator.name not in versions or not simulator.runs(setting):
            continue
        points = {}
        for n in settings.SENDERS:
            found = rows.of(simulator, setting, n, seeds, have, versions[simulator.name])
            if found:
                points[n] = Point(found, setting, n)
        if points:
            curves[simulator.name] = points
    return curves


def first_timeout(points: dict[int, Point]) -> int | None:
    """The least number of senders at which any seed saw a timeout."""
    return next((n for n, point in points.items() if point.timeouts > 0), None)


def _steps(a: int | None, b: int | None) -> str:
    """How many steps of the sweep lie between two numbers of senders."""
    places = [settings.SENDERS.index(n) if n else len(settings.SENDERS) for n in (a, b)]
    return str(abs(places[0] - places[1]))


def _compare(peer: dict[int, Point], ours: dict[int, Point]) -> tuple[str, str, str]:
    """First timeouts; worst difference where nothing is dropped; range of the ratio where every round of both stalls."""
    both = [n for n in peer if n in ours]
    firsts = first_timeout(peer), first_timeout(ours)
    calm = [n for n in both if peer[n].drops == 0 and ours[n].drops == 0]
    worst = max((abs(ours[n].goodput / peer[n].goodput - 1) for n in calm), default=None)
    deep = [ours[n].goodput / peer[n].goodput for n in both if peer[n].stalled == 1 and ours[n].stalled == 1]
    ranges = f"{min(deep):.2f} to {max(deep):.2f}" if deep else "none stalls throughout"
    named = " / ".join(str(n) if n else "none" for n in firsts)
    return f"{named} ({_steps(*firsts)})", f"{worst:.1%}" if worst is not None else "-", ranges


def _summary(all_curves: dict[str, dict]) -> str:
    lines = ["| setting | peer | ours | first N with a timeout: peer / ours (steps apart) | nothing dropped: largest difference "
             "| every round stalls: ours ÷ peer |", "|---|---|---|---|---|---|"]
    for name, curves in all_curves.items():
        for peer, ours in PAIRS:
            if peer in curves and ours in curves:
                cells = _compare(curves[peer], curves[ours])
                lines.append(f"| {name} | {peer} | {ours} | " + " | ".join(cells) + " |")
        for peer, other in (("ns-2", "ns-3"), ("ns-2-ts", "ns-3")):
            if peer in curves and other in curves:
                cells = _compare(curves[peer], curves[other])
                lines.append(f"| {name} | {peer} | *{other}* | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _table(setting: Setting, curves: dict[str, dict[int, Point]]) -> str:
    names = list(curves)
    lines = [f"### {setting.name}: {setting.title}", ""]
    lines.append("| N | " + " | ".join(names) + " |")
    lines.append("|--:|" + "--:|" * len(names))
    for n in settings.SENDERS:
        cells = [_cell(curves[name].get(n)) for name in names]
        if any(cells):
            lines.append(f"| {n} | " + " | ".join(cells) + " |")
    fewest = {name: min(point.seeds for point in points.values()) for name, points in curves.items()}
    most = max(point.seeds for points in curves.values() for point in points.values())
    less = "".join(f"; {name}: from {seeds}" for name, seeds in fewest.items() if seeds < most)
    lines += ["", f"{setting.rounds} rounds and {most} seeds at each point{less}."]
    return "\n".join(lines)


def _cell(point: Point | None) -> str:
    if point is None:
        return ""
    digits = 0 if point.goodput >= 100 else 1 if point.goodput >= 1 else 2
    return f"{point.goodput:.{digits}f} ({point.timeouts:.3g})"


def _missing(all_curves: dict[str, dict]) -> list[str]:
    """What the tables lack, a line for each simulator and setting: `ns-3 at m21: 64, 80 senders`."""
    lines = []
    for setting in settings.ALL:
        for simulator in simulators.ALL:
            if not simulator.runs(setting):
                continue
            points = all_curves.get(setting.name, {}).get(simulator.name, {})
            lacking = [str(n) for n in settings.SENDERS if n not in points]
            if lacking:
                which = "all" if len(lacking) == len(settings.SENDERS) else ", ".join(lacking)
                lines.append(f"{simulator.name} at {setting.name}: {which} senders")
    return lines


def _speed_table() -> str:
    measured = json.loads(SPEED_ROWS.read_text())
    lines = ["| setting | senders | simulator | data packets delivered per second of wall time (min, median, max) | ours is faster by "
             "| events per packet | peak memory |", "|---|--:|---|--:|--:|--:|--:|"]
    for point in measured["points"]:
        medians = {name: statistics.median(got["rates"]) for name, got in point["simulators"].items()}
        for name, got in point["simulators"].items():
            rates = got["rates"]
            spread = f"{min(rates):,.0f}, **{medians[name]:,.0f}**, {max(rates):,.0f}"
            faster = "" if name == "ackgate" else f"{medians['ackgate'] / medians[name]:.3g} x"
            events = f"{got['events_per_packet']:.2f}" if got["events_per_packet"] else ""
            lines.append(f"| {point['setting']} | {point['senders']} | {name} | {spread} | {faster} | {events} "
                         f"| {got['peak_kib'] / 1024:.1f} MiB |")
    lines += ["", measured["conditions"]]
    return "\n".join(lines)


def _replace(page: str, marker: str, text: str) -> str:
    pattern = re.compile(rf"(<!-- {marker}: .*?-->\n).*?(<!-- end of {marker} -->)", re.S)
    if not pattern.search(page):
        sys.exit(f"bench/peers/run: {PAGE} has no marker `{marker}`")
    return pattern.sub(lambda found: f"{found[1]}\n{text}\n\n{found[2]}", page)


def write(seeds: int) -> None:
    """Puts what has been collected into the page."""
    have = rows.load()
    versions = {s.name: s.version() for s in simulators.ALL if s.kind != "ackgate" or simulators.ACKGATE.exists()}
    all_curves = {setting.name: _curves(setting, seeds, have, versions) for setting in settings.ALL}
    missing = _missing(all_curves)
    if missing:
        more = f"\n  and {len(missing) - 8} more" if len(missing) > 8 else ""
        sys.exit(f"bench/peers/run: {PAGE} stays as it is, since there are no rows of\n  " + "\n  ".join(missing[:8]) + more
                 + "\nRun `bench/peers/run build` and `bench/peers/run collect` first. Rows count only as long as the program "
                 "and the setting\nthat they were made with are the same ones.")
    page = PAGE.read_text()
    page = _replace(page, "summary", _summary(all_curves))
    tables = [_table(settings.BY_NAME[name], curves) for name, curves in all_curves.items()]
    page = _replace(page, "curves", "\n\n".join(tables))
    if SPEED_ROWS.exists():
        page = _replace(page, "speed", _speed_table())
    else:
        print("the table of speeds stays as it is: `bench/peers/run speed` has not measured any")
    PAGE.write_text(page)
    print(f"wrote {PAGE}")
