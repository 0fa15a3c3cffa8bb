"""Health of the agent itself: its sources, configuration, store, upload, detector state, driver
child and kernel log.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from collector.durations import span
from pipeline.catalog import Metric, agent
from pipeline.clock import SECOND_NS
from pipeline.selfmetrics import SelfMetrics

# Sealing is due every 15 minutes (pipeline/store/keep/writer.py) and uploading follows it:
# three times that is late.
LATE_S = 45 * 60.0

# States of a GPU in which its driver does not do its work.
DRIVER_STATES = ("hung", "unreadable")

Part = tuple[bool, str]  # whether it is healthy, and a sentence


def sources(metrics: SelfMetrics, now_ns: int) -> Iterator[dict[str, Any]]:
    """Each source: whether its last read succeeded, whether the last that did is late, when that
    was and how long it took, what it could not read, when it is retried.
    """
    for (name,) in _labels(metrics, agent.SOURCE_SUCCESS):
        last = metrics.value(agent.SOURCE_LAST_SUCCESS, name)
        unread = [
            (reason, metrics.value(agent.SOURCE_UNREAD, source, reason))
            for source, reason in _labels(metrics, agent.SOURCE_UNREAD)
            if source == name
        ]
        yield {
            "name": name,
            "success": metrics.value(agent.SOURCE_SUCCESS, name) == 1,
            "late": metrics.value(agent.SOURCE_LATE, name) == 1,
            "age_seconds": round(max(now_ns / SECOND_NS - last, 0.0), 3) if last else None,
            "duration_seconds": metrics.value(agent.SOURCE_DURATION, name),
            "backoff_seconds": metrics.value(agent.SOURCE_BACKOFF, name) or 0.0,
            "unread": {reason: int(count) for reason, count in unread if count},
        }


def parts(
    metrics: SelfMetrics, now_ns: int, gpu_states: Sequence[str] = ()
) -> Iterator[dict[str, Any]]:
    """Parts of the agent with a status: name, ``ok`` and a sentence. ``gpu_states``: of each GPU,
    as the driver has it.
    """
    for name, describe in _PARTS.items():
        part = describe(metrics, now_ns / SECOND_NS)
        if name == "driver" and part is not None:
            part = _with_gpus(part, Counter(gpu_states))
        if part is not None:
            yield {"name": name, "ok": part[0], "text": part[1]}


def _configuration(metrics: SelfMetrics, now_s: float) -> Part | None:
    taken, age = (
        metrics.value(agent.CONFIG_RELOAD_SUCCESS),
        _age(metrics, agent.CONFIG_RELOAD_TIME, now_s),
    )
    if taken is None:
        return None
    since = f"loaded {age} ago" if age else "loaded"
    return (
        (True, f"{since}.".capitalize())
        if taken
        else (False, f"The last reload failed; the previous configuration, {since}, stays active.")
    )


def _store(metrics: SelfMetrics, now_s: float) -> Part | None:
    failed = metrics.value(agent.STORE_SEALS, "failed")
    if failed is None:
        return None
    sealed, budget = metrics.value(agent.STORE_LAST_SEAL), metrics.value(agent.STORE_BUDGET)
    late = now_s - sealed > LATE_S if sealed else failed > 0
    text = f"Sealed {span(now_s - sealed)} ago" if sealed else "Nothing sealed yet"
    used = (
        f", {_sum(metrics, agent.STORE_BYTES) / 1e9:.1f} of {budget / 1e9:.1f} GB used"
        if budget
        else ""
    )
    since = {
        "seals failed": failed,
        "writes failed": _sum(metrics, agent.STAGE_FAILURES, "sink", "store"),
        "observations dropped": metrics.value(agent.QUEUE_DROPPED, "store") or 0.0,
    }
    troubles = ", ".join(f"{count:.0f} {what}" for what, count in since.items() if count)
    return not late, f"{text}{used}." + (f" Since start: {troubles}." if troubles else "")


def _upload(metrics: SelfMetrics, now_s: float) -> Part | None:
    waiting = metrics.value(agent.UPLOAD_PENDING_FILES)
    if waiting is None:
        return None
    oldest, given_up = (
        metrics.value(agent.UPLOAD_OLDEST),
        metrics.value(agent.UPLOAD_GIVEN_UP_FILES) or 0.0,
    )
    late = oldest is not None and now_s - oldest > LATE_S
    text = (
        f"{waiting:.0f} files waiting, the oldest for {span(now_s - oldest)}."
        if oldest
        else "No files waiting."
    )
    return not late, text + (f" {given_up:.0f} given up." if given_up else "")


def _memory(metrics: SelfMetrics, now_s: float) -> Part | None:
    age = _age(metrics, agent.SNAPSHOT_TIME, now_s)
    return None if age is None else (True, f"Detector state saved {age} ago.")


def _driver(metrics: SelfMetrics, _now_s: float) -> Part | None:
    blind, stuck = metrics.value(agent.NVML_BLIND), metrics.value(agent.NVML_ABANDONED) or 0.0
    if blind is None:
        return None
    if blind:
        return (
            False,
            (
                f"{stuck:.0f} processes are stuck in the driver: no more are started, and "
                "the GPUs are not read."
            )
            if stuck
            else "No call into the driver returns: the GPUs are not read.",
        )
    return (
        not stuck,
        f"{stuck:.0f} processes are stuck in the driver."
        if stuck
        else "No process is stuck in the driver.",
    )


def _with_gpus(part: Part, states: Counter[str]) -> Part:
    """The driver is not healthy beside a GPU for which it hangs, or of which it reads nothing."""
    bad = {state: states[state] for state in DRIVER_STATES if states[state]}
    if not bad:
        return part
    counted = " and ".join(f"{count} {state}" for state, count in bad.items())
    return False, f"Of {states.total()} GPUs {counted}. {part[1]}"


def _kernel_log(metrics: SelfMetrics, _now_s: float) -> Part | None:
    ways = [
        mode
        for (mode,) in _labels(metrics, agent.KERNEL_LOG_MODE)
        if metrics.value(agent.KERNEL_LOG_MODE, mode)
    ]
    if not ways:
        return None
    lost = _sum(metrics, agent.KERNEL_LOG_LOST)
    read = "Not read: XIDs are missed." if ways == ["none"] else f"Read from {', '.join(ways)}."
    return ways != ["none"], read + (f" {lost:.0f} records lost." if lost else "")


_PARTS: dict[str, Callable[[SelfMetrics, float], Part | None]] = {
    "configuration": _configuration,
    "store": _store,
    "upload": _upload,
    "detectors": _memory,
    "driver": _driver,
    "kernel log": _kernel_log,
}


def _age(metrics: SelfMetrics, metric: Metric, now_s: float) -> str | None:
    at = metrics.value(metric)
    return span(now_s - at) if at else None


def _labels(metrics: SelfMetrics, wanted: Metric) -> list[tuple[str, ...]]:
    """Label values of the series of a metric."""
    return [labels for metric, rows in metrics.series() if metric is wanted for labels, _ in rows]


def _sum(metrics: SelfMetrics, metric: Metric, *first: str) -> float:
    """Of all series of a metric whose label values begin so."""
    return sum(
        metrics.value(metric, *of) or 0.0
        for of in _labels(metrics, metric)
        if of[: len(first)] == first
    )
