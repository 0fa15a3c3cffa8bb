"""Every device of the node with a score and its headroom, for schedulers:
what /api/v1/health answers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from collector.integrations.verdict import called, text
from collector.node.out_of_service import Out
from pipeline.catalog import field
from pipeline.exposition import Entry, Snapshot
from pipeline.finding import Finding
from pipeline.frame import Attributes, Device

# Score of a device by its health
# (detectors/incidents/health.py). A device that is said to fail soon still does its work; one that
# is degraded already does less.
STANDING = {"ok": 1.0, "predicted_failure": 0.6, "degraded": 0.4, "failed": 0.0}
# Below this margin to its slow-down temperature a GPU has none left for a heavier job; half of its
# worth is what clocks may fall to.
COOL_CELSIUS, HOTTEST_WORTH = 10.0, 0.5
MAX_REASONS = 5
GOOD = {"gpu": "ok", "ib_port": "active"}


def devices(
    snapshot: Snapshot,
    findings: Iterable[Finding],
    health: Mapping[Device, str],
    out: Iterable[Out],
) -> list[dict[str, Any]]:
    """GPUs and ports, one row each.

    ``score`` is 0 to 100, null where there are no fresh readings; values in base
    units, null = not observed.
    """
    reasons: dict[Device, list[str]] = {}
    for finding in findings:
        if finding.active and finding.severity != "record":
            reasons.setdefault(finding.device, []).append(text(finding.summary))
    away = {one.device for one in out}
    whole = any(device.kind == "node" for device in away)
    links = Links(snapshot)
    found = []
    for entry in (entry for kind in GOOD for entry in snapshot.of(kind)):
        for row, device in enumerate(entry.frame.devices):
            part = _device(entry, row, snapshot.facts(device), links)
            judged = _judged(
                part, health.get(device, "ok"), reasons.get(device, ()), out=whole or device in away
            )
            found.append(part | judged)
    return found


def score(state: str, health: str, headroom: Mapping[str, float | None], *, out: bool) -> int:
    """Worth of a device for a new job: 0 where it can have none, 100 where
    there are no findings.

    >>> score("ok", "ok", {"thermal_margin_celsius": 30.0, "link_quality": 1.0}, out=False)
    100
    >>> score(
    ...     "ok",
    ...     "predicted_failure",
    ...     {"thermal_margin_celsius": 5.0, "link_quality": 1.0},
    ...     out=False,
    ... )
    45
    """
    if out or state not in GOOD.values():
        return 0
    margin, link = headroom.get("thermal_margin_celsius"), headroom.get("link_quality")
    cool = (
        1.0
        if margin is None
        else min(1.0, HOTTEST_WORTH + (1 - HOTTEST_WORTH) * max(margin, 0.0) / COOL_CELSIUS)
    )
    return round(100 * STANDING.get(health, 0.0) * cool * (1.0 if link is None else link))


class Links:
    """Quality of links: a GPU's share of its NVLinks that are up, a port's rate beside the
    best of its node; 0 to 1.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._up: dict[str, list[float]] = {}
        for entry in snapshot.of("nvlink"):
            for row, device in enumerate(entry.frame.devices):
                up = entry.frame.value("state", row) if entry.fresh else None
                if up is not None:
                    self._up.setdefault(device.id.rpartition("/")[0], []).append(up)
        rates = (
            entry.frame.value("rate_bits_per_second", row)
            for entry in snapshot.of("ib_port")
            for row in range(len(entry.frame.devices))
        )
        self._best = max((rate for rate in rates if rate), default=0)

    def of_gpu(self, uuid: str) -> float | None:
        """None where the GPU has no NVLinks, or none is read."""
        links = self._up.get(uuid)
        return sum(links) / len(links) if links else None

    def of_port(self, rate: float | None) -> float | None:
        """None where the port has no rate."""
        return rate / self._best if rate and self._best else None


def _device(entry: Entry, row: int, facts: Attributes, links: Links) -> dict[str, Any]:
    """Which part it is, and what is left of it."""
    device = entry.frame.devices[row]
    headroom = _gpu(entry, row, links) if device.kind == "gpu" else _port(entry, row, links)
    return {
        "kind": device.kind,
        "id": text(device.id),
        "name": text(called(device, facts)),
        "index": text(facts.get("index") or facts.get("port") or ""),
        "state": _state(entry, row),
        "fresh": entry.fresh,
        "headroom": headroom if entry.fresh else dict.fromkeys(headroom),
    }


def _judged(
    row: Mapping[str, Any], health: str, reasons: Sequence[str], *, out: bool
) -> dict[str, Any]:
    """What it is worth, and why not more."""
    state = row["state"]
    return {
        "health": health,
        "out_of_service": out,
        "score": score(state, health, row["headroom"], out=out) if row["fresh"] else None,
        "reasons": [*([] if state == GOOD[row["kind"]] else [f"state {state}"]), *reasons][
            :MAX_REASONS
        ],
    }


def _gpu(entry: Entry, row: int, links: Links) -> dict[str, float | None]:
    """Memory in bytes; degrees to the slow-down temperature, as the driver says it or by
    subtraction (NVML's T.Limit came with Hopper).
    """
    total, free = _base(entry, row, "memory_total_bytes"), _base(entry, row, "memory_free_bytes")
    margin, now, slow = (
        _base(entry, row, name)
        for name in (
            "temperature_margin_celsius",
            "temperature_celsius",
            "temperature_slowdown_celsius",
        )
    )
    if margin is None and now is not None and slow is not None:
        margin = slow - now
    return {
        "memory_free_bytes": free,
        "memory_free_ratio": free / total if free is not None and total else None,
        "thermal_margin_celsius": margin,
        "link_quality": links.of_gpu(entry.frame.devices[row].id),
    }


def _port(entry: Entry, row: int, links: Links) -> dict[str, float | None]:
    return {
        "rate_bytes_per_second": _base(entry, row, "rate_bits_per_second"),
        "link_quality": links.of_port(entry.frame.value("rate_bits_per_second", row)),
    }


def _base(entry: Entry, row: int, name: str) -> float | None:
    native = entry.frame.value(name, row)
    return None if native is None else field(entry.frame.kind, name).base(native)


def _state(entry: Entry, row: int) -> str:
    code = entry.frame.value("state", row)
    return next(
        (name for number, name in field(entry.frame.kind, "state").states if number == code),
        "unknown",
    )


def identities(snapshot: Snapshot) -> Iterator[dict[str, str]]:
    """Which parts answer now, and in which of their lives (``epoch`` changes with a
    reset): evidence of a repair.

    An active port that is not expected to be is none: operators make and remove virtual functions.
    """
    for entry, row, device in _parts(snapshot, answers=True):
        kind = device.kind
        if kind != "ib_port" or entry.frame.value("expected", row) != 0:
            epoch = text(snapshot.facts(device).get("epoch", ""))
            yield {"kind": kind, "id": text(device.id), "epoch": epoch}


def silent(snapshot: Snapshot) -> Iterator[dict[str, str]]:
    """Which parts are known and do not answer: one of them that does later is no new part."""
    for _, _, device in _parts(snapshot, answers=False):
        yield {"kind": device.kind, "id": text(device.id)}


def _parts(snapshot: Snapshot, *, answers: bool) -> Iterator[tuple[Entry, int, Device]]:
    for kind, good in GOOD.items():
        for entry in snapshot.of(kind):
            for row, device in enumerate(entry.frame.devices):
                if (entry.fresh and _state(entry, row) == good) is answers:
                    yield entry, row, device
