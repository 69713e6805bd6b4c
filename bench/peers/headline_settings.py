"""The settings of the papers' headlines (papers/headlines/*.toml with papers/hosts/*.toml) as arguments of the peers.

Nothing is set twice: what our simulator reads is read here, and a key that a peer does not know refuses the curve, so
that a peer runs the same setting or none.
"""

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

PAPERS = Path(__file__).resolve().parent.parent.parent / "papers"

UNITS = {
    "": 1, "b": 1, "kb": 1e3, "mb": 1e6, "gb": 1e9, "s": 1, "ms": 1e-3, "us": 1e-6, "ns": 1e-9,
    "bit": 1, "kbit": 1e3, "mbit": 1e6, "gbit": 1e9, "p": 1,
}


class Unknown(Exception):
    """A setting that a peer cannot run."""


@dataclass(frozen=True)
class Run:
    """One run of a peer for one point of a curve; the seed is left out."""

    paper: str
    curve: str  # "setting.series"
    x: float
    peer: str  # "ns2" or "ns3", by what the paper ran, or "surges", ns-3 with surges of short flows beside long ones
    arguments: tuple  # pairs of key and value


def number(value) -> float:
    """`32KB`, `200us`, `1gbit`, 20: in bytes, seconds, bit/s."""
    if isinstance(value, (int, float)):
        return value
    found = re.fullmatch(r"([0-9.]+)([a-zA-Z]*)", value)
    if not found or found[2].lower() not in UNITS:
        raise Unknown(f"`{value}` is no quantity")
    return round(float(found[1]) * UNITS[found[2].lower()], 12)


def span(value) -> float:
    """A time in seconds; "off" is none."""
    return 0.0 if value == "off" else number(value)


def _flat(table: dict, prefix: str = "") -> dict:
    flat = {}
    for key, value in table.items():
        flat.update(_flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value})
    return flat


def _assigned(text: str) -> tuple:
    key, value = text.split("=", 1)
    try:
        return key, tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return key, value


def _scenario(setting: dict, series: dict) -> dict:
    """What the scenario of a curve sets: its hosts first, then its own keys, then the curve's changes."""
    hosts = tomllib.loads((PAPERS / "hosts" / f"{setting['hosts']}.toml").read_text())
    keys = dict(_assigned(one["set"]) for one in hosts["setting"])
    keys.update(_flat(setting["scenario"]))
    keys.update(_assigned(one) for one in series.get("set", ()))
    return keys


def values(text: str) -> list:
    """The points of an axis: `1..10:1,12,200us`."""
    points = []
    for part in text.split(","):
        found = re.fullmatch(r"(\d+)\.\.(\d+):(\d+)", part)
        points += range(int(found[1]), int(found[2]) + 1, int(found[3])) if found else [_assigned(f"x={part}")[1]]
    return points


# Keys that both peers take by the same name, with what makes a number of them.
BOTH = {
    "senders": ("senders", int), "rounds": ("rounds", int), "network.rate": ("rate", number), "network.rtt": ("rtt", number),
    "switch.buffer": ("buffer", number), "tcp.mss": ("mss", int), "tcp.initial_window": ("iw", int),
    "tcp.rto_min": ("rtomin", number), "tcp.rto_initial": ("rtoinit", number), "tcp.limited_transmit": ("limited_transmit", int),
    "workload.start_jitter": ("jitter", number),
}
OWN = {
    "ns2": {"tcp.max_window": ("window", int), "host.timer_jitter": ("timer_jitter", number),
            "tcp.backoff_until_sample": ("timestamps", lambda waits: int(not waits))},
    "ns3": {"tcp.rwnd": ("rwnd", lambda value: int(number(value))), "host.nic_queue": ("nic", lambda value: int(number(value))),
            "tcp.delayed_ack": ("delack", span), "tcp.dctcp_gain": ("gain", float),
            "dctcp.mark_above": ("k", lambda value: int(number(value))), "red.min": ("red_min", float), "red.max": ("red_max", float),
            "red.weight": ("red_weight", float), "red.max_probability": ("red_probability", float), "red.gentle": ("red_gentle", int)},
    "surges": {"tcp.max_window": ("window", int), "tcp.delayed_ack": ("delack", span), "dctcp.mark_above": ("k", lambda value: int(number(value))),
               "switch.buffer": ("buffer", lambda value: int(number(value))), "time_limit": ("limit_s", number),
               "workload.epochs": ("rounds", int), "workload.start": ("start", number), "workload.interval": ("interval", number)},
}
# What the peers do without being told: another value cannot be run.
# (`surges`: no long flow is ever idle, and short ones are new. What else ns-3 does not do as ns-2 is in docs/validation.md.)
HABITS = {
    "workload.kind": "rounds", "workload.connections": "persistent", "tcp.idle_restart": False, "tcp.validate_window": False,
    "dctcp.ecn_syn": False,
}
OWN_HABITS = {"ns2": {"network.framing": "ip", "tcp.delayed_ack": "off", "scheme": "none", "tcp.limited_transmit_resends": True}, "ns3": {"network.framing": "ppp"},
              "surges": {"workload.kind": "epochs", "scheme": "dctcp", "network.topology.kind": "dumbbell", "network.topology.receivers": 1,
                         "network.framing": "ip", "tcp.idle_restart": True, "tcp.backoff_until_sample": True, "tcp.limited_transmit_resends": True}}
SCHEMES = {"none": "newreno", "red": "red", "ecn": "ecn", "dctcp": "dctcp"}
REQUEST = 100  # bytes, as our simulator's default


def _arguments(peer: str, keys: dict) -> tuple:
    known, habits = BOTH | OWN[peer], HABITS | OWN_HABITS[peer]
    keys = dict(keys)
    found = _groups(keys) if peer == "surges" else _rounds(peer, keys)
    for key, value in keys.items():
        if key in known:
            name, make = known[key]
            found[name] = make(value)
        elif key not in habits or habits[key] != value:
            raise Unknown(f"no `{key} = {value}`")
    return tuple(sorted(found.items()))


def _rounds(peer: str, keys: dict) -> dict:
    """Takes the workload of barrier rounds from the keys, and what a peer has no key for."""
    found = {}
    if "workload.volume" not in keys:
        raise Unknown(f"no workload `{keys.get('workload.kind')}`")
    volume, per = number(keys.pop("workload.volume")), keys.pop("workload.per", "sender")
    found["block" if per == "round" else "bytes"] = int(volume)
    found["request"] = REQUEST if keys.pop("workload.direction", "push") == "pull" else 0
    if peer == "ns2":
        found["tick"] = 1e-6  # our simulator's timers have no tick; ns-2's cannot be without
    else:
        scheme = keys.pop("scheme", "none")
        if scheme not in SCHEMES:
            raise Unknown(f"there is no scheme `{scheme}`")
        found["scheme"] = SCHEMES[scheme]
        # Parameters of schemes that this curve does not run.
        for section in {"m21", "red", "dctcp"} - {"red" if scheme == "ecn" else scheme}:
            for key in [key for key in keys if key.startswith(f"{section}.")]:
                del keys[key]
        if "tcp.initial_ssthresh" in keys:
            found["ssthresh"] = keys.pop("tcp.initial_ssthresh") * int(keys["tcp.mss"])
    return found


def _groups(keys: dict) -> dict:
    """Takes the senders and their workloads from the keys: short flows to the receiver, long ones to a host beside it."""
    def short(senders: int, workload: dict) -> str:
        return f":{senders}:{int(number(workload['size']))}:{number(workload['mean_gap'])!r}"

    own = {key: keys.pop(f"workload.{key}") for key in ("size", "mean_gap")}
    texts = ["dctcp" + short(keys.pop("senders"), own)]
    for group in keys.pop("background"):
        group = dict(group)
        cc, ecn, to, workload = (group.pop(key, None) for key in ("cc", "ecn", "to", "workload"))
        senders = group.pop("senders")
        tcp = {(None, None): "dctcp", ("newreno", "on"): "ecn", ("newreno", "off"): "newreno"}.get((cc, ecn))
        same = workload and all(keys.get(f"workload.{key}", value) == value for key, value in workload.items())
        if tcp is None or group or to != ("receiver" if workload else "beside") or (workload and not same):
            raise Unknown(f"no such group: {group or (cc, ecn, to, workload)}")
        texts.append(tcp + (short(senders, workload) if workload else f":{senders}"))
    return {"groups": ",".join(texts)}


def _changes(book: dict, reading: str, setting: str, series: str) -> list:
    """What another reading of an open setting changes on a curve; `reading` is `open: also`, as the file has both."""
    for other in book.get("alternative", ()) if reading else ():
        if reading == f"{other['open']}: {other['also']}" and "set" in other:
            concerned = setting in other.get("settings", [setting]) and series in other.get("curves", [series])
            return other["set"] if concerned else []
    return []


def runs(reading: str = "") -> tuple[list, dict]:
    """All points that a peer can run, and by curve why the others cannot. With a reading, the curves that it changes."""
    found, refused = [], {}
    for file in sorted((PAPERS / "headlines").glob("*.toml")):
        book = tomllib.loads(file.read_text())
        for name, setting in book.get("setting", {}).items():
            peer = {"ns-2": "ns2", "ns-3": "ns3"}.get(setting.get("hosts"))
            if peer and setting["scenario"].get("workload", {}).get("kind") == "epochs":
                peer = "surges"  # Debian's ns-2 has no DCTCP
            for series in setting["curves"]:
                curve = f"{name}.{series['name']}"
                changes = _changes(book, reading, name, series["name"])
                if reading and not changes:
                    refused[book["paper"], curve] = f"no reading `{reading}` changes it"
                    continue
                series = series | {"set": series.get("set", []) + changes}
                if peer is None:
                    refused[book["paper"], curve] = "the paper ran no simulator here"
                    continue
                try:
                    found += _points(book["paper"], curve, peer, setting, series)
                except Unknown as why:
                    refused[book["paper"], curve] = f"{peer}: {why}"
    return found, refused


def _points(paper: str, curve: str, peer: str, setting: dict, series: dict) -> list:
    base, axis = _scenario(setting, series), setting["x"]
    unit = UNITS[axis.get("unit", "")]
    points = []
    for value in values(axis["values"]):
        keys = base | {key: value for key in axis["keys"]}
        points.append(Run(paper, curve, round(number(value) / unit, 9), peer, _arguments(peer, keys)))
    return points
