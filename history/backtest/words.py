"""Numbers and times of a report in words."""

from __future__ import annotations

from datetime import UTC, datetime

from pipeline.clock import SECOND_NS
from pipeline.frame import Device


def time_of(ns: int) -> str:
    """A time to the minute, UTC.

    >>> time_of(1_795_266_000 * SECOND_NS)
    '2026-11-21 13:00'
    """
    return datetime.fromtimestamp(ns // SECOND_NS, UTC).strftime("%Y-%m-%d %H:%M")


def moment(ns: int) -> str:
    """A time with its zone."""
    return f"{time_of(ns)} UTC"


def duration(seconds: float) -> str:
    """A length of time, its sign left out.

    >>> duration(90), duration(-5400), duration(200_000)
    ('2 min', '1.5 h', '2.3 days')
    """
    size = abs(seconds)
    if size >= 2 * 86_400:
        return f"{size / 86_400:.1f} days"
    return f"{size / 3600:.1f} h" if size >= 3600 else f"{size / 60:.0f} min"


def lead(seconds: float) -> str:
    """A lead time.

    >>> lead(-600)
    '10 min after'
    """
    return f"{duration(seconds)} {'before' if seconds >= 0 else 'after'}"


def day(days: float) -> str:
    """A number of days.

    >>> day(30.2), day(0.25)
    ('30 days', '6 hours')
    """
    return f"{days:.0f} days" if days >= 2 else count(round(days * 24), "hour")


def count(n: int, word: str) -> str:
    """A number of things."""
    return f"{n} {word}{'' if n == 1 else 's'}"


def interval(share: tuple[float, float]) -> str:
    """An interval of a share.

    >>> interval((0.751, 0.999))
    '75 to 100 %'
    """
    return f"{share[0] * 100:.0f} to {share[1] * 100:.0f} %"


def rate(per_month: float) -> str:
    """A rate in two significant digits.

    >>> rate(0.0), rate(3.5112), rate(0.00195), rate(124.8)
    ('0', '3.5', '0.0019', '120')
    """
    return f"{float(f'{per_month:.2g}'):g}"


def device_name(device: Device) -> str:
    """A device of a node as operators call it; empty for the node itself."""
    facts = device.attributes
    if device.kind == "gpu" and "index" in facts:
        return f"GPU {facts['index']}"
    if device.kind == "ib_port" and "device" in facts:
        return f"{facts['device']}/{facts.get('port', '')}"
    return "" if device.kind == "node" else f"{device.kind} {device.id}"
