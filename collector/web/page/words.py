"""Numbers, times and names as the page writes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from collector.durations import span
from collector.web.page.markup import Html, el


@dataclass(frozen=True, slots=True)
class Figure:
    """A number of a device: its column, title and format, and the column or number of its full
    height.
    """

    column: str
    title: str
    write: Callable[[float], str]
    top: str | float


def bits(bytes_per_second: float) -> str:
    """A data rate in the unit of links.

    >>> bits(50e9), bits(1.25e9), bits(0)
    ('400 Gb/s', '10.0 Gb/s', '0 Gb/s')
    """
    rate = bytes_per_second * 8e-9
    return f"{rate:.0f} Gb/s" if rate >= 100 or not rate else f"{rate:.1f} Gb/s"


FIGURES: Mapping[str, tuple[Figure, ...]] = {
    "gpu": (
        Figure(
            "utilization_ratio", "Utilisation", lambda ratio: f"{ratio:.0%}".replace("%", " %"), 1.0
        ),
        Figure("power_watts", "Power", "{:.0f} W".format, "power_limit_watts"),
        Figure(
            "temperature_celsius", "Temperature", "{:.0f} °C".format, "slowdown_temperature_celsius"
        ),
        Figure(
            "memory_used_bytes",
            "Memory",
            lambda size: f"{size / 2**30:.1f} GiB",
            "memory_total_bytes",
        ),
    ),
    "ib_port": (
        Figure("receive_bytes_per_second", "In", bits, "rate_bytes_per_second"),
        Figure("transmit_bytes_per_second", "Out", bits, "rate_bytes_per_second"),
    ),
}


def moment(iso: str) -> Html:
    """A time in UTC, readable and machine-readable."""
    return el("time", iso.removesuffix("+00:00").replace("T", " ") + " UTC", datetime=iso)


def age(since: str, document: Mapping[str, Any]) -> Html:
    """How long ago a time was when the document was made; the time itself as a tooltip."""
    seconds = (
        datetime.fromisoformat(document["time"]) - datetime.fromisoformat(since)
    ).total_seconds()
    return el(
        "time",
        span(seconds),
        datetime=since,
        title=since.removesuffix("+00:00").replace("T", " ") + " UTC",
    )


def clock(iso: str, document: Mapping[str, Any]) -> Html:
    """A time of day in UTC, with the day where that is not the document's."""
    at, now = datetime.fromisoformat(iso), datetime.fromisoformat(document["time"])
    day = "" if at.date() == now.date() else f"{at:%Y-%m-%d} "
    return el("time", f"{day}{at:%H:%M:%S} UTC", datetime=iso)


def ago(iso: str, document: Mapping[str, Any]) -> Html:
    """How long before the document a time was: "3 min ago"."""
    at, now = datetime.fromisoformat(iso), datetime.fromisoformat(document["time"])
    return el("span", f"{span((now - at).total_seconds())} ago")


def lasted(since: str, until: str) -> str:
    """The time between two moments.

    >>> lasted("2027-01-15T08:00:00+00:00", "2027-01-15T08:12:30+00:00")
    '12 min'
    """
    ends = datetime.fromisoformat(since), datetime.fromisoformat(until)
    return span((ends[1] - ends[0]).total_seconds())


def upper(text: str) -> str:
    """With a capital letter.

    >>> upper("port mlx5_0/1")
    'Port mlx5_0/1'
    """
    return text[:1].upper() + text[1:]
