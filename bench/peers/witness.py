"""Runs the peers at the settings of the papers' headlines. Each run is a row that `ackgate reproduce --headlines --witness`
judges by the rules that ours are judged by: {"witness", "paper", "curve", "x", "seed", "setting", "values"}.

A row stands until its program or its setting changes; an interrupted collection goes on where it stopped.
"""

import hashlib
import json
import sys
import time

import headline_settings
import simulators

ROWS = simulators.OUT / "witness.jsonl"
NAMES = {"ns2": "ns-2 2.35", "ns3": "ns-3.37", "surges": "ns-3.37"}
PROGRAMS = {"ns3": simulators.NS3, "surges": simulators.NS3_SURGES}
LEFT_OUT = ("seed", "wall_s", "process_s", "peak_kib", "events", "simulator", "scheme")


def _command(run: headline_settings.Run, seed: int) -> list[str]:
    if run.peer == "ns2":
        return ["ns", str(simulators.HERE / "ns2_incast.tcl"), *(f"{key}={value}" for key, value in run.arguments), f"seed={seed}"]
    return [str(PROGRAMS[run.peer]), *(f"--{key}={value}" for key, value in run.arguments), f"--seed={seed}",
            f"--wall_limit_s={simulators.WALL_LIMIT}"]


def _setting(run: headline_settings.Run, version: str) -> str:
    return hashlib.sha256(json.dumps([run.peer, version, run.arguments]).encode()).hexdigest()[:16]


def _load() -> list[dict]:
    if not ROWS.exists():
        return []
    with ROWS.open() as lines:
        return [json.loads(line) for line in lines]


def _values(row: dict, arguments: dict) -> dict:
    """The figures under the names of our simulator's; a run that was stopped before its last round says nothing."""
    if row["rounds"] < arguments["rounds"]:
        raise simulators.Failed(f"only {row['rounds']} of {arguments['rounds']} rounds were done")
    figures = {name: float(value) for name, value in row.items() if name not in LEFT_OUT}
    if "sim_s" not in row:
        return figures  # of surges
    figures["round_ms_mean"] = row["sim_s"] * 1e3 / row["rounds"]
    return figures | _throughput(figures, arguments)


def _throughput(figures: dict, arguments: dict) -> dict:
    """What the bottleneck carried, headers and needless copies with it, as our simulator counts it. Only ns-2 tells it: there a
    segment is mss and 40 bytes, and what was sent and not dropped has passed the port."""
    if figures.get("drops", -1.0) < 0 or "packets_sent" not in figures or "rate" not in arguments:
        return {}
    bits = (figures["packets_sent"] - figures["drops"]) * (arguments["mss"] + 40) * 8
    return {"throughput_mbps": bits / figures["sim_s"] / 1e6, "link_use": bits / figures["sim_s"] / arguments["rate"]}


def _name(run: headline_settings.Run) -> str:
    return f"{run.paper}:{run.curve}"


def collect(curves: list[str], xs: list[float], reading: str, seeds: int, prefix: tuple = ()) -> int:
    """Runs what is missing, point by point in the order of the curves; returns how many runs failed. With another reading
    of an open setting (`open: also`), the rows are those of a witness of its own."""
    runs, refused = headline_settings.runs(reading)
    names = {kind: f"{name}, {reading}" if reading else name for kind, name in NAMES.items()}
    known = list(dict.fromkeys(map(_name, runs)))
    for curve in curves:
        if curve not in known:
            why = refused.get(tuple(curve.split(":", 1)), "there is no such curve")
            sys.exit(f"bench/peers/run witness: {curve}: {why}; there are: {', '.join(known)}")
    versions = {kind: simulators.version(kind) for kind in NAMES}
    rows = _load()
    have = {(row["witness"], row["paper"], row["curve"], row["x"], row["seed"], row["setting"]) for row in rows}
    # Curves share points.
    done_before = {(row["setting"], row["seed"]): row["values"] for row in rows}
    chosen = [run for curve in curves or known for run in runs if _name(run) == curve and (not xs or run.x in xs)]
    jobs = [(run, seed, _setting(run, versions[run.peer])) for run in chosen for seed in range(1, seeds + 1)]
    jobs = [job for job in jobs if (names[job[0].peer], job[0].paper, job[0].curve, job[0].x, job[1], job[2]) not in have]
    simulators.OUT.mkdir(parents=True, exist_ok=True)
    failed = 0
    for done, (run, seed, setting) in enumerate(jobs, 1):
        started = time.monotonic()
        values = done_before.get((setting, seed))
        try:
            values = values or _values(simulators.run(_command(run, seed), prefix), dict(run.arguments))
        except simulators.Failed as why:
            failed += 1
            print(f"{_name(run)} x={run.x:g} seed={seed}: {why}", file=sys.stderr, flush=True)
            continue
        done_before[setting, seed] = values
        row = {"witness": names[run.peer], "paper": run.paper, "curve": run.curve, "x": run.x, "seed": seed,
               "setting": setting, "values": values}
        with ROWS.open("a") as out:
            out.write(json.dumps(row) + "\n")
        print(f"[{done}/{len(jobs)}] {names[run.peer]} {_name(run)} x={run.x:g} seed={seed}: {values['goodput_mbps']:.1f} Mb/s, "
              f"{values['rto_timeouts']:.0f} timeouts, {time.monotonic() - started:.1f} s", flush=True)
    return failed
