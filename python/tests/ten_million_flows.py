"""Ten million flow records from a run into polars: time, and the most memory that the process ever had.

    target/python/bin/python python/tests/ten_million_flows.py            # piece by piece: bounded
    target/python/bin/python python/tests/ten_million_flows.py whole      # one frame of all
"""

from __future__ import annotations

import resource
import sys
import time

import ackgate
import polars

#: 100 senders, one packet each, 100 000 times.
SCENARIO = {"senders": 100, "rounds": 100_000, "workload": {"volume": "1KB"}, "network.rate": "10gbit"}


def peak_mb() -> float:
    """Most memory so far, 10^6 bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def main() -> None:
    before, begun = peak_mb(), time.monotonic()
    if sys.argv[1:] == ["whole"]:
        count = len(polars.DataFrame(ackgate.flows(SCENARIO)))
    else:
        means = [polars.DataFrame(piece).select(polars.len(), polars.col("flow_ms").sum()) for piece in ackgate.flows(SCENARIO)]
        count = polars.concat(means)["len"].sum()
    took, used = time.monotonic() - begun, time.process_time()
    print(f"{count} flows in {took:.1f} s, {used:.1f} s of processor; {before:.0f} MB before, {peak_mb():.0f} MB at most")


if __name__ == "__main__":
    main()
