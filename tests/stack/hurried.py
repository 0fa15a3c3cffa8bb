"""Rules for nodes whose time runs N times as fast as Prometheus' own.

A real Prometheus cannot be hurried: it reads the machine's clock. So the simulated nodes live N
times as fast, and the copy of the rules that watches them has every duration divided by N.
Thresholds, labels, texts and the shape of each expression stay as they are; a rate per second of
Prometheus is N times that of the node, and is divided by it.
"""

from __future__ import annotations

import re
from typing import Any

from rules.build import SETS

UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION = r"(\d+)(ms|s|m|h|d)"

# Groups that judge how the agents themselves keep up with the machine's clock: they mean
# nothing when it is not theirs.
OF_REAL_TIME = {"tocsin.agents.saturation", "tocsin.agents.errors"}


def duration(text: str, times: int) -> str:
    """A duration of Prometheus, so many times shorter.

    >>> duration("10m", 60), duration("90s", 60)
    ('10000ms', '1500ms')
    """
    number, unit = re.fullmatch(_DURATION, text).groups()  # type: ignore[union-attr] # every duration of ours is one number and unit
    return f"{int(number) * UNITS_MS[unit] // times}ms"


def expression(text: str, times: int) -> str:
    """An expression that looks back so many times less far.

    >>> expression("rate(a[5m]) > 0.1 or a offset 10m", 60)
    '(1 / 60) * rate(a[5000ms]) > 0.1 or a offset 10000ms'
    """
    text = re.sub(rf"\[{_DURATION}\]", lambda found: f"[{duration(found[0][1:-1], times)}]", text)
    text = re.sub(
        rf"offset {_DURATION}", lambda found: f"offset {duration(found[0][7:], times)}", text
    )
    return re.sub(r"\brate\(", f"(1 / {times}) * rate(", text)


def rules(times: int) -> dict[str, Any]:
    """Both sets in one document, hurried."""
    groups = [
        group.document()
        for _, each in SETS.values()
        for group in each
        if group.name not in OF_REAL_TIME
    ]
    for rule in (rule for group in groups for rule in group["rules"]):
        rule["expr"] = expression(rule["expr"], times)
        rule |= {
            key: duration(rule[key], times) for key in ("for", "keep_firing_for") if key in rule
        }
    return {"groups": groups}
