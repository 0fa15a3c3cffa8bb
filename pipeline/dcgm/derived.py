"""Fields of DCGM that stand in no column: worked out from several, as DCGM does."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pipeline.dcgm.names import LINK_LEVEL, lane_rows
from pipeline.frame import Attributes, Device, Frame

Number = int | float | None

# nvmlComputeMode_t (default 0, prohibited 2, exclusive process 3) to DCGM's own
# numbers (dcgmComputeMode_t).
_COMPUTE_MODES = {0: 0, 2: 1, 3: 2}
# nvmlGpuFabricState: not supported, not started, in progress, completed. dcgmFabricManagerStatus_t
# distinguishes a failure: 4.
_FABRIC_COMPLETED, _FABRIC_FAILED = 3, 4
# Names of virtual GPUs end with memory and series (NVIDIA Virtual GPU Software User Guide, "Virtual
# GPU Types"): "GRID A100D-20C", "NVIDIA L40S-48Q", "GRID P40-2B4"; and product lines that are sold
# as licences (collector/sources/nvml/codecs.py).
_VGPU = re.compile(r"-\d+[ABCQ](?:4|ME|GFX)?$")
_LICENSED = frozenset(
    {"NVIDIA vApps", "NVIDIA VPC", "NVIDIA vCS", "NVIDIA vWS", "NVIDIA Cloud Gaming"}
)
# DCGM's "MB/s" of NVLink are 1000 KiB/s: KiB / 1000, truncated
KIBIBYTE, DCGM_MEGABYTE = 1024, 1000


@dataclass(frozen=True, slots=True)
class Node:
    """The frames a derived value may look at.

    ``links`` is the row of (GPU UUID, link number) in the nvlink frame.
    """

    gpus: Frame
    count: int
    nvlinks: Frame | None = None
    links: Mapping[tuple[str, str], int] = field(default_factory=dict)


def value(number: int, node: Node, row: int, gpu: Device, facts: Attributes) -> Number:
    """The value of a derived field for one GPU, None where it has none.

    KeyError for an id that is not derived.
    """
    if number in _LANES:
        column, link = _LANES[number]
        return _lane(node, column, node.links.get((gpu.id, str(link)), -1))
    return _DERIVED[number](node, row, facts)


def link_value(number: int, node: Node, link_row: int) -> Number:
    """The value of a link-level field."""
    assert node.nvlinks is not None  # noqa: S101 - a link row comes from this frame
    return node.nvlinks.value(LINK_LEVEL[number][1], link_row)


def _per_second(frame: Frame, names: tuple[str, ...], row: int) -> float:
    """Sum of the rates of counters, native units per second; 0 on the first sample and where
    there is no such counter.
    """
    if frame.increments is None or row < 0:
        return 0.0
    rows = [frame.schema.counter_row[name] for name in names]
    rates = [
        float(frame.increments.delta[i, row])
        / (float(frame.increments.seconds[i, row]) or math.nan)
        for i in rows
    ]
    return math.fsum(rate for rate in rates if math.isfinite(rate))


def _megabytes(frame: Frame, names: tuple[str, ...], row: int) -> int:
    return int(_per_second(frame, names, row) / DCGM_MEGABYTE)


_TRAFFIC = {
    "throughput": ("transmit_kibibytes", "receive_kibibytes"),
    "transmit": ("transmit_kibibytes",),
    "receive": ("receive_kibibytes",),
}


def ratio_word(ratio: Number) -> Number:
    """A bit error ratio as NVLink 5's word: exponent in bits 0 to 7, mantissa in bits 8 to 11
    (nvml.h, NVML_NVLINK_ERROR_COUNT_BER).

    >>> hex(ratio_word(5e-12)), hex(ratio_word(1.5e-254)), ratio_word(None)
    ('0x50c', '0xfff', None)
    """
    if ratio is None or not 0 <= ratio < 1:
        return None
    mantissa, _, exponent = f"{ratio:.1e}".partition("e")
    tenths, power = round(float(mantissa) * 10), -int(exponent)
    whole, power = (tenths // 10, power) if tenths % 10 == 0 else (tenths, power + 1)
    return min(whole, 15) << 8 | min(power, 255)


def _lane(node: Node, column: str, row: int) -> Number:
    if column in _TRAFFIC:
        return 0 if node.nvlinks is None else _megabytes(node.nvlinks, _TRAFFIC[column], row)
    return node.nvlinks.value(column, row) if node.nvlinks is not None and row >= 0 else None


def _capability(facts: Attributes) -> Number:
    """Major version in the upper, minor in the lower 16 bits."""
    major, dot, minor = facts.get("compute_capability", "").partition(".")
    return int(major) << 16 | int(minor) if dot and major.isdigit() and minor.isdigit() else None


def _compute_mode(node: Node, row: int) -> Number:
    mode = node.gpus.value("compute_mode", row)
    return None if mode is None else _COMPUTE_MODES.get(int(mode))


def _fabric(node: Node, row: int) -> Number:
    state, error = node.gpus.value("fabric_state", row), node.gpus.value("fabric_error_code", row)
    if state is None:
        return None
    return _FABRIC_FAILED if state == _FABRIC_COMPLETED and error else int(state)


def _license(facts: Attributes) -> Number:
    """0 as DCGM has it for a GPU without a licence to ask for; whether one that takes a licence has
    it is not read.
    """
    takes_one = _VGPU.search(facts.get("name", "")) or facts.get("brand") in _LICENSED
    return None if takes_one else 0


def _used_ratio(node: Node, row: int) -> Number:
    """Share in use of what the driver does not keep for itself, 0 to 1."""
    used, total = (
        node.gpus.value("memory_used_bytes", row),
        node.gpus.value("memory_total_bytes", row),
    )
    reserved = node.gpus.value("memory_reserved_bytes", row) or 0.0
    return None if used is None or total is None or total <= reserved else used / (total - reserved)


_SENT, _RECEIVED = "nvlink_transmit_kibibytes", "nvlink_receive_kibibytes"

_DERIVED: dict[int, Callable[[Node, int, Attributes], Number]] = {
    4: lambda node, _row, _facts: node.count,
    63: lambda _node, _row, facts: _capability(facts),
    65: lambda node, row, _: _compute_mode(node, row),
    170: lambda node, row, _: _fabric(node, row),
    254: lambda node, row, _: _used_ratio(node, row),
    449: lambda node, row, _: _megabytes(node.gpus, (_SENT, _RECEIVED), row),
    526: lambda _node, _row, facts: _license(facts),
    843: lambda node, row, _: _megabytes(node.gpus, (_SENT,), row),
    897: lambda node, row, _: _megabytes(node.gpus, (_RECEIVED,), row),
    1215: lambda node, row, _: ratio_word(node.gpus.value("nvlink_symbol_bit_error_ratio", row)),
    1217: lambda node, row, _: ratio_word(node.gpus.value("nvlink_effective_bit_error_ratio", row)),
    1648: lambda node, row, _: int(_per_second(node.gpus, (_SENT, _RECEIVED), row) * KIBIBYTE),
}
_LANES = {dcgm.id: (column, link) for dcgm, column, link in lane_rows()}
DERIVED_IDS = frozenset((*_DERIVED, *_LANES))
