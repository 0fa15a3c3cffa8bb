"""The Inspector's Prometheus file: bus bandwidth and time of collectives per GPU, for jobs that set
NCCL_INSPECTOR_PROM_DUMP.

It names neither rank nor sequence, so it speaks of slowness only; a verdict rests on the log.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from collector.foreign_text import printable
from collector.sources.nccl.sanitize import FormatError

MAX_BYTES = 4 << 20
MAX_SAMPLES = 10_000
FAMILIES = {
    "nccl_bus_bandwidth_gbs",
    "nccl_collective_exec_time_microseconds",
    "nccl_algorithm_bandwidth_gbs",
}
FAMILIES |= {"nccl_p2p_bus_bandwidth_gbs", "nccl_p2p_exec_time_microseconds"}

_SAMPLE = re.compile(
    r"(?P<name>[a-z_0-9]{1,64})\{(?P<labels>[^{}]{0,1024})\} (?P<value>\S{1,32})(?: \d{1,19})?"
)
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]{0,63})="((?:[^"\\]|\\.){0,256})"')


@dataclass(frozen=True, slots=True)
class Sample:
    """One line of the file."""

    name: str
    labels: tuple[tuple[str, str], ...]
    value: float


def parse_samples(data: bytes) -> tuple[Sample, ...]:
    """The samples of the Inspector's families.

    FormatError where the file was caught half written, or is something else.

    The plugin rewrites it in place: only a file that ends a line is whole.
    """
    if len(data) > MAX_BYTES:
        raise FormatError(f"an Inspector file of {len(data)} bytes: at most {MAX_BYTES} are read")
    if not data.endswith(b"\n"):
        raise FormatError("the Inspector's file is being written: its last line has no end")
    found = []
    for line in data.decode(errors="replace").splitlines()[:MAX_SAMPLES]:
        match = _SAMPLE.fullmatch(line) if len(line) <= 2048 else None
        if match and match["name"] in FAMILIES and (value := _number(match["value"])) is not None:
            labels = tuple(
                (name, printable(text)) for name, text in _LABEL.findall(match["labels"])
            )
            found.append(Sample(match["name"], labels, value))
    if not found:
        raise FormatError("no Inspector file: none of its families is in it")
    return tuple(found)


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
