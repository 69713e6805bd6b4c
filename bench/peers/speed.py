"""Speed, side by side on one core: data packets delivered to the application per second of wall time.

A packet counts once, however often it was sent. The wall time is that of the simulation itself, as each simulator
reports it: parsing, start of the process and set-up of the network are not in it. The simulators take turns, run by run.
"""

import json
import os
import platform
import statistics
import sys

import settings
import simulators
from report import SPEED_ROWS

# Who runs, as what simulator, with what else on the command line. ns-2 counts no drops here, which takes time.
CONTENDERS = {
    "ns-2, all headers": ("ns-2", ["monitor=0", "all_headers=1"]),
    "ns-2, needed headers": ("ns-2", ["monitor=0"]),
    "ns-3": ("ns-3", []),
    "ackgate": ("ackgate", []),
}


def measure(core: int, repeats: int) -> None:
    """Measures all points and keeps the result beside the rows."""
    points = []
    for name, senders in settings.SPEED:
        setting = settings.BY_NAME[name]
        useful = -(-setting.bytes_per_sender(senders) // setting.mss) * senders  # data packets of a round
        got = {c: [] for c, (name_of, _) in CONTENDERS.items() if simulators.BY_NAME[name_of].runs(setting)}
        for _ in range(repeats):
            for contender, found in got.items():
                simulator, more = CONTENDERS[contender]
                rounds = settings.SPEED_ROUNDS_NS3 if simulator == "ns-3" else settings.SPEED_ROUNDS
                command = simulators.BY_NAME[simulator].command(setting, senders, 1, rounds) + more
                try:
                    row = simulators.run(command, ("taskset", "-c", str(core)))
                except simulators.Failed as why:
                    sys.exit(f"bench/peers/run speed: {why}")
                found.append(row)
        points.append({"setting": name, "senders": senders, "simulators": {
            contender: {
                "rates": [useful * row["rounds"] / row["wall_s"] for row in found],
                "events_per_packet": found[0].get("events", 0) / (useful * found[0]["rounds"]),
                "peak_kib": max(row["peak_kib"] for row in found),
                "goodput_mbps": found[0]["goodput_mbps"],
            } for contender, found in got.items()
        }})
        print(name, senders, {c: f"{statistics.median(useful * r['rounds'] / r['wall_s'] for r in found):,.0f}/s" for c, found in got.items()})
    conditions = (f"{settings.SPEED_ROUNDS} rounds ({settings.SPEED_ROUNDS_NS3} in ns-3), {repeats} alternating runs each, one core of {os.cpu_count()} "
                  f"({_processor()}), Linux {platform.release()}.")
    SPEED_ROWS.write_text(json.dumps({"points": points, "conditions": conditions}, indent=1))


def _processor() -> str:
    with open("/proc/cpuinfo", encoding="ascii", errors="replace") as lines:
        return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.machine())
