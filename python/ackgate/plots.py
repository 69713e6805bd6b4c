"""Figures as papers have them: small, one column wide, told apart in print without colour.

    >>> from ackgate import plots                                                             # doctest: +SKIP
    >>> plots.goodput(ackgate.sweep({}, {"senders": "1..64", "scheme": ["none", "credit"]}))   # doctest: +SKIP

Needs matplotlib (``pip install ackgate[plot]``). Every function takes ``ax`` to draw into, and returns it.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import cycle
from typing import TYPE_CHECKING, Any

import matplotlib.pyplot as plt

from ._native import Table
from ._results import Result, Sweep

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["STYLE", "cdf", "goodput", "lines", "timeline"]

#: Settings for ``matplotlib.rc_context``: one column (3.4 inches) of a two-column page.
STYLE: Any = {
    "figure.figsize": (3.4, 2.3),
    "figure.dpi": 150,
    "figure.constrained_layout.use": True,
    "font.size": 8,
    "legend.fontsize": 7,
    "legend.frameon": False,
    "lines.linewidth": 1.2,
    "lines.markersize": 4,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "grid.linewidth": 0.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
}

#: Okabe and Ito's colours, which those see apart who do not see all colours, and markers for print.
_COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"]
_MARKERS = "osD^vx+"


def _axes(ax: Axes | None) -> Axes:
    if ax is not None:
        return ax
    with plt.rc_context(STYLE):
        return plt.subplots()[1]


def _number(value: Any) -> float | None:
    try:
        return float(value)
    except ValueError:
        return None


def lines(sweep: Sweep, y: str, *, x: str | None = None, ax: Axes | None = None) -> Axes:
    """A figure of a sweep over its first varied key that is a number: a curve for each combination of the others.

    Each curve is the mean over the seeds, its band reaches from the least to the most.

    Args:
        y: A column, such as ``goodput_mbps`` or ``round_ms_p99``.
        x: The key for the horizontal axis, if it is to be another.
    """
    columns = sweep.table.to_dict()
    if y not in columns:
        raise KeyError(f"a sweep has no column `{y}`; it has {', '.join(columns)}")
    keys = [key for key in sweep.keys if key != "seed"]
    numeric = [key for key in keys if all(_number(value) is not None for value in columns[key])]
    along = x or next(iter(numeric), None)
    if along is None or along not in numeric:
        raise ValueError(f"no varied key with numbers for the horizontal axis: {', '.join(keys)}")
    curves: dict[str, dict[float, list[float]]] = {}
    for row in range(len(sweep)):
        name = ", ".join(
            str(columns[key][row]) if key == "scheme" else f"{key} {columns[key][row]}" for key in keys if key != along
        )
        points = curves.setdefault(name, {})
        points.setdefault(float(columns[along][row]), []).append(columns[y][row])

    axes = _axes(ax)
    styles = cycle(zip(_COLOURS, _MARKERS, strict=True))
    for (name, points), (colour, marker) in zip(curves.items(), styles, strict=False):
        at = sorted(points)
        mean = [sum(points[place]) / len(points[place]) for place in at]
        axes.plot(at, mean, color=colour, marker=marker, label=name or None)
        axes.fill_between(at, [min(points[p]) for p in at], [max(points[p]) for p in at], color=colour, alpha=0.15, lw=0)
    places = sorted({place for points in curves.values() for place in points})
    if places[0] > 0 and places[-1] / places[0] >= 8:
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter("{x:.0f}")
    axes.set_xlabel(along)
    unit = sweep.table.units.get(y, "1")
    axes.set_ylabel(y if unit == "1" else f"{y} ({unit})")
    axes.set_ylim(bottom=0)
    if any(curves):
        axes.legend()
    return axes


def goodput(sweep: Sweep, *, ax: Axes | None = None) -> Axes:
    """Goodput over senders, or over whatever was varied first: the field's figure of incast."""
    axes = lines(sweep, "goodput_mbps", ax=ax)
    axes.set_ylabel("goodput (Mb/s)")
    return axes


def timeline(result: Result, *, ax: Axes | None = None) -> Axes:
    """The queue at the bottleneck over time, and retransmission timeouts as marks on it. Needs ``series=True``."""
    if result.series is None:
        raise ValueError("this result has no series: run it with series=True")
    columns = result.series.to_dict()
    axes = _axes(ax)
    at = [start / 1e3 for start in columns["start_us"]]
    kilobytes = [level / 1e3 for level in columns["queue_bytes_max"]]
    axes.fill_between(at, kilobytes, step="post", color=_COLOURS[0], alpha=0.4, lw=0, label="queue")
    timeouts = [time for time, count in zip(at, columns["timeouts"], strict=True) if count]
    if timeouts:
        axes.plot(timeouts, [0] * len(timeouts), "|", color=_COLOURS[1], label="timeouts", clip_on=False)
    axes.set(xlabel="time (ms)", ylabel="queue (KB)")
    axes.set_ylim(bottom=0)
    axes.legend()
    return axes


def cdf(flows: Table | Mapping[str, Table], *, ax: Axes | None = None) -> Axes:
    """The distribution of flow completion times, one curve for each table.

    Args:
        flows: A result's ``flows``, or several by name.
    """
    tables = flows if isinstance(flows, Mapping) else {"": flows}
    axes = _axes(ax)
    for (name, table), colour in zip(tables.items(), cycle(_COLOURS), strict=False):
        times = sorted(table.to_dict()["flow_ms"])
        share = [(i + 1) / len(times) for i in range(len(times))]
        axes.plot(times, share, color=colour, drawstyle="steps-post", label=name or None)
    axes.set_xscale("log")
    axes.set(xlabel="flow completion time (ms)", ylabel="share of flows", ylim=(0, 1))
    if any(tables):
        axes.legend()
    return axes
