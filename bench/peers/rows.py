"""The cache of finished runs: one JSON object a line, added as each run ends, so that an interrupted collection goes on
where it stopped and nothing is run twice. A row counts as long as its simulator's version and its setting are the same.
"""

import dataclasses
import json
import sys
import time

import simulators
from settings import Setting
from simulators import OUT, Simulator

ROWS = OUT / "rows.jsonl"


def _key(simulator: Simulator, setting: Setting, senders: int, seed: int, version: str) -> str:
    facts = {k: v for k, v in dataclasses.asdict(setting).items() if k not in ("name", "title")}
    return json.dumps([simulator.name, simulator.options, version, facts, senders, seed])


def load() -> dict[str, dict]:
    """All rows by key."""
    if not ROWS.exists():
        return {}
    with ROWS.open() as lines:
        return {row["key"]: row["row"] for row in map(json.loads, lines)}


def collect(names: list[str], settings: list[Setting], senders: list[int], seeds: int, prefix: tuple = ()) -> int:
    """Runs what is missing, first seed first; returns how many runs failed."""
    OUT.mkdir(parents=True, exist_ok=True)
    have, failed = load(), 0
    jobs = [
        (simulators.BY_NAME[name], setting, n, seed)
        for seed in range(1, seeds + 1) for setting in settings for name in names for n in senders
        if simulators.BY_NAME[name].runs(setting)
    ]
    versions = {name: simulators.BY_NAME[name].version() for name in names}
    jobs = [job for job in jobs if _key(*job, versions[job[0].name]) not in have]
    for done, (simulator, setting, n, seed) in enumerate(jobs, 1):
        started = time.monotonic()
        try:
            row = simulators.run(simulator.command(setting, n, seed, setting.rounds), prefix)
        except simulators.Failed as why:
            failed += 1
            print(f"{simulator.name} {setting.name} N={n} seed={seed}: {why}", file=sys.stderr)
            continue
        with ROWS.open("a") as out:
            key = _key(simulator, setting, n, seed, versions[simulator.name])
            out.write(json.dumps({"key": key, "row": row}) + "\n")
        print(f"[{done}/{len(jobs)}] {simulator.name} {setting.name} N={n} seed={seed}: {row['goodput_mbps']:.1f} Mb/s, "
              f"{row['rto_timeouts']} timeouts in {row['rounds']} rounds, {time.monotonic() - started:.1f} s")
    return failed


def of(simulator: Simulator, setting: Setting, senders: int, seeds: int, have: dict[str, dict], version: str) -> list[dict]:
    """The rows of one point, as many of its seeds as there are."""
    keys = (_key(simulator, setting, senders, seed, version) for seed in range(1, seeds + 1))
    return [have[key] for key in keys if key in have]
