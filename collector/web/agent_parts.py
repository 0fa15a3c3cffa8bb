"""How the agent itself is: its sources, and in words its configuration, store, upload, memory, driver child and kernel log."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from collector.spans import span
from pipeline.catalog import Metric, agent
from pipeline.selfmetrics import SelfMetrics

# Sealing is due every 15 minutes (pipeline/store/keeper.py) and uploading follows it: three times that is late.
LATE_S = 45 * 60.0

Part = tuple[bool, str]  # whether it is well, and a sentence


def sources(own: SelfMetrics, now_ns: int) -> Iterator[dict[str, Any]]:
    """Each source: whether its last read gave anything, when and how long it took, what it could not read, when it is tried again."""
    for (name,) in _labels(own, agent.SOURCE_SUCCESS):
        last = own.value(agent.SOURCE_LAST_SUCCESS, name)
        unread = [
            (reason, own.value(agent.SOURCE_UNREAD, source, reason))
            for source, reason in _labels(own, agent.SOURCE_UNREAD)
            if source == name
        ]
        yield {
            "name": name,
            "success": own.value(agent.SOURCE_SUCCESS, name) == 1,
            "age_seconds": round(max(now_ns / 1e9 - last, 0.0), 3) if last else None,
            "duration_seconds": own.value(agent.SOURCE_DURATION, name),
            "backoff_seconds": own.value(agent.SOURCE_BACKOFF, name) or 0.0,
            "unread": {reason: int(count) for reason, count in unread if count},
        }


def parts(own: SelfMetrics, now_ns: int) -> Iterator[dict[str, Any]]:
    """What of the agent there is to say something about: name, ``ok`` and a sentence."""
    for name, say in _PARTS.items():
        said = say(own, now_ns / 1e9)
        if said is not None:
            yield {"name": name, "ok": said[0], "text": said[1]}


def _configuration(own: SelfMetrics, now_s: float) -> Part | None:
    taken, age = own.value(agent.CONFIG_RELOAD_SUCCESS), _age(own, agent.CONFIG_RELOAD_TIME, now_s)
    if taken is None:
        return None
    since = f"in force for {age}" if age else "in force"
    return (True, f"{since}.".capitalize()) if taken else (False, f"The last reload was refused; the one before is {since}.")


def _store(own: SelfMetrics, now_s: float) -> Part | None:
    failed = own.value(agent.STORE_SEALS, "failed")
    if failed is None:
        return None
    sealed, budget = own.value(agent.STORE_LAST_SEAL), own.value(agent.STORE_BUDGET)
    late = now_s - sealed > LATE_S if sealed else failed > 0
    said = f"Sealed {span(now_s - sealed)} ago" if sealed else "Nothing sealed yet"
    used = f", {_sum(own, agent.STORE_BYTES) / 1e9:.1f} of {budget / 1e9:.1f} GB used" if budget else ""
    since = {
        "sealings failed": failed,
        "writes were refused": _sum(own, agent.STAGE_FAILURES, "sink", "store"),
        "observations were dropped": own.value(agent.QUEUE_DROPPED, "store") or 0.0,
    }
    troubles = ", ".join(f"{count:.0f} {what}" for what, count in since.items() if count)
    return not late, f"{said}{used}." + (f" Since the start {troubles}." if troubles else "")


def _upload(own: SelfMetrics, now_s: float) -> Part | None:
    waiting = own.value(agent.UPLOAD_PENDING_FILES)
    if waiting is None:
        return None
    oldest, given_up = own.value(agent.UPLOAD_OLDEST), own.value(agent.UPLOAD_GIVEN_UP_FILES) or 0.0
    late = oldest is not None and now_s - oldest > LATE_S
    said = f"{waiting:.0f} files wait, the oldest for {span(now_s - oldest)}." if oldest else "Nothing waits."
    return not late, said + (f" {given_up:.0f} were given up." if given_up else "")


def _memory(own: SelfMetrics, now_s: float) -> Part | None:
    age = _age(own, agent.SNAPSHOT_TIME, now_s)
    return None if age is None else (True, f"What the detectors have learnt was kept {age} ago.")


def _driver(own: SelfMetrics, _now_s: float) -> Part | None:
    blind, stuck = own.value(agent.NVML_BLIND), own.value(agent.NVML_ABANDONED) or 0.0
    if blind is None:
        return None
    if blind:
        return False, f"{stuck:.0f} processes are stuck in it: no further one is started, and the GPUs are not read."
    return not stuck, f"{stuck:.0f} processes are stuck in it." if stuck else "No process is stuck in it."


def _kernel_log(own: SelfMetrics, _now_s: float) -> Part | None:
    ways = [mode for (mode,) in _labels(own, agent.KERNEL_LOG_MODE) if own.value(agent.KERNEL_LOG_MODE, mode)]
    if not ways:
        return None
    lost = _sum(own, agent.KERNEL_LOG_LOST)
    read = "Not read: XIDs go unseen." if ways == ["none"] else f"Read from {', '.join(ways)}."
    return ways != ["none"], read + (f" {lost:.0f} records were lost." if lost else "")


_PARTS: dict[str, Callable[[SelfMetrics, float], Part | None]] = {
    "configuration": _configuration,
    "store": _store,
    "upload": _upload,
    "detectors": _memory,
    "driver": _driver,
    "kernel log": _kernel_log,
}


def _age(own: SelfMetrics, metric: Metric, now_s: float) -> str | None:
    at = own.value(metric)
    return span(now_s - at) if at else None


def _labels(own: SelfMetrics, wanted: Metric) -> list[tuple[str, ...]]:
    """Label values of the series of a metric."""
    return [labels for metric, rows in own.series() if metric is wanted for labels, _ in rows]


def _sum(own: SelfMetrics, metric: Metric, *first: str) -> float:
    """Of all series of a metric whose label values begin so."""
    return sum(own.value(metric, *of) or 0.0 for of in _labels(own, metric) if of[: len(first)] == first)
