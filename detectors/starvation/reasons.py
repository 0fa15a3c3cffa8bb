"""What a job waits for, in words."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite

from detectors.starvation.storage import Slow

THROTTLED = 0.05  # seconds of each second, over all processors
WORTH_SAYING = 0.05  # share of the time, where another reason is named before it
FOR = {
    "memory": ("memory", "it", "its node is short of memory"),
    "io": ("data", "input and output", "it waits for data"),
    "cpu": ("cpu", "a processor", "it waits for its host"),
}
OTHERS = {
    "power": "power or heat holds its clock back {held:.0%} of the time",
    "communication": "it waits for other ranks: kernels run and compute little",
    "nothing": "it does nothing, and its node waits for nothing either",
}


def advice(what: str, values: Mapping[str, float], slow: Slow | None) -> str:
    """A clause: ``what`` is one of WAITS, ``values`` shares of the time by name, ``slow`` what
    holds requests up.

    >>> values = {"io": 0.7, "own": 1.0}
    >>> nfs = Slow("NFS reads on /data take 180 ms (usual 4 ms)", "", 3.0, True)
    >>> print(advice("data", values, nfs))
    it waits for data: NFS reads on /data take 180 ms (usual 4 ms), its tasks wait for input and \
output 70% of the time
    """
    for share, (wait, object_, words) in FOR.items():
        if wait == what:
            reasons = [slow.text] if slow is not None and what == "data" else []
            if isfinite(values[share]) and (values[share] >= WORTH_SAYING or not reasons):
                whose = "its tasks" if values["own"] else "tasks of its node"
                reasons.append(f"{whose} wait for {object_} {values[share]:.0%} of the time")
            if what == "cpu" and values.get("throttled", 0.0) >= THROTTLED:
                reasons.append("its limit of processors (cpu.max) holds them back")
            return f"{words}: {', '.join(reasons)}" if reasons else words
    return OTHERS[what].format(**values)


def evidence(
    what: str, values: Mapping[str, float], usual: float, slow: Slow | None
) -> tuple[str, ...]:
    """The readings behind it; ``usual`` is the utilisation while the job works, percent."""
    lines = [f"utilisation {values['used']:.0f} %, usually {usual:.0f} %"]
    if isfinite(values["faults"]):
        lines.append(f"{values['faults']:.0f} major page faults a second on its node")
    if slow is not None and what == "data":
        lines.append(slow.detail)
    return tuple(lines)
