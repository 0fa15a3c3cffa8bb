"""A HealthEvent in NVSentinel's wire format (NVIDIA/NVSentinel,
data-models/protobufs/health_event.proto).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pipeline.clock import SECOND_NS

METHOD = "/datamodels.PlatformConnector/HealthEventOccurredV1"
VERSION, AGENT = 1, "tocsin"
# RecommendedAction: numbers of the actions, whose names our findings bear (pipeline/finding.py).
ACTIONS: Mapping[str, int] = {
    "NONE": 0,
    "COMPONENT_RESET": 2,
    "CONTACT_SUPPORT": 5,
    "RUN_FIELDDIAG": 6,
    "RESTART_VM": 15,
    "RESTART_BM": 24,
    "REPLACE_VM": 25,
    "RUN_DCGMEUD": 26,
    "RESTART_APP": 39,
    "UNKNOWN": 99,
}
# ProcessingStrategy. 0, or nothing, is taken for EXECUTE_REMEDIATION: it must always be written.
STORE_ONLY = 2
ENTITIES = {"gpu": "GPU_UUID"}  # entity types that it knows of; others are named as we call them
COMPONENTS = {
    "gpu": "GPU",
    "gpu_instance": "GPU",
    "nvlink": "GPU",
    "nvswitch": "NVSwitch",
    "ib_port": "NIC",
}
MAX_MESSAGE = 1000


def health_events(
    incidents: Iterable[tuple[Mapping[str, Any], bool]], node: str, now_ns: int
) -> bytes:
    """HealthEvents of incidents as collector/integrations/verdict.py has them, each
    with whether it is over.

    Entities stay the same, so that the end meets its begin.
    """
    return _number(1, VERSION) + b"".join(
        _bytes(2, _event(one, node, now_ns, over=over)) for one, over in incidents
    )


def _event(incident: Mapping[str, Any], node: str, now_ns: int, *, over: bool) -> bytes:
    kind, device = incident["kind"], incident["device"]
    entity = _bytes(1, ENTITIES.get(kind, kind)) + _bytes(2, device)
    seconds, nanos = divmod(now_ns, SECOND_NS)
    return b"".join(
        (
            _number(1, VERSION),
            _bytes(2, AGENT),
            _bytes(3, COMPONENTS.get(kind, "Node")),
            _bytes(4, f"tocsin/{incident['class']}"),
            _number(5, int(incident["severity"] == "page" and not over)),
            _number(6, int(over)),
            _bytes(7, f"{incident['name']}: {incident['summary']}"[:MAX_MESSAGE]),
            _number(8, 0 if over else ACTIONS.get(incident["action"], ACTIONS["UNKNOWN"])),
            _bytes(9, incident["class"]),
            _bytes(10, entity),
            _bytes(11, _bytes(1, "incident") + _bytes(2, incident["id"])),
            _bytes(12, _number(1, seconds) + _number(2, nanos)),
            _bytes(13, node),
            _number(16, STORE_ONLY),
        )
    )


def _number(field: int, value: int) -> bytes:
    """A varint field; proto3 leaves out zeros."""
    return _varint(field << 3) + _varint(value) if value else b""


def _bytes(field: int, value: str | bytes) -> bytes:
    content = value.encode("utf-8", "replace") if isinstance(value, str) else value
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    """Protocol Buffers' base-128 number.

    >>> _varint(16 << 3).hex()
    '8001'
    """
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*out, value))
