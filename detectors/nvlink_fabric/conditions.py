"""The conditions that are a fault of the fabric when they last, the gravest of a fault first."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from detectors.nvlink_fabric.report import (
    COMPLETED,
    CONFIGURATIONS,
    DISCONNECTED,
    LIMITED_CAPACITY,
    STATES,
    UNHEALTHY,
    Report,
)
from pipeline.finding import Action, Severity

MANAGER, REGISTRATION, HEALTH, LIMITED, CONFIGURATION = (
    "nvlink_fabric/manager",
    "nvlink_fabric/registration",
    "nvlink_fabric/unhealthy",
    "nvlink_fabric/limited",
    "nvlink_fabric/configuration",
)


@dataclass(frozen=True, slots=True)
class Condition:
    """What a condition means once it has lasted ``after_s``; ``words`` fit one GPU and many."""

    name: str
    fault: str
    severity: Severity
    action: Action
    after_s: int
    words: str


# What the driver reports as failed is a fact, seen in thirty readings; a recovery ends by itself
# within seconds, or does not. GPUs register within a minute or two of the start of Fabric Manager,
# which starts late in a boot (NVSentinel allows 300 s); a fabric of a whole rack takes longer.
FACT_S, DROPPED_S, SLOW_S = 30, 120, 600
FABRIC = "the NVLink fabric"
_RESET: tuple[Severity, Action] = ("page", "COMPONENT_RESET")
_LOOK: tuple[Severity, Action] = ("ticket", "CONTACT_SUPPORT")
CONDITIONS = (
    Condition("failed", REGISTRATION, *_RESET, FACT_S, f"registration with {FABRIC} failed"),
    Condition("dropped", REGISTRATION, *_RESET, DROPPED_S, f"no longer registered with {FABRIC}"),
    Condition("late", REGISTRATION, *_RESET, SLOW_S, f"not registered with {FABRIC}"),
    Condition("unhealthy", HEALTH, *_RESET, FACT_S, f"routes of {FABRIC} unhealthy"),
    Condition("limited", LIMITED, *_LOOK, SLOW_S, f"degraded bandwidth in {FABRIC}"),
    Condition("recovering", LIMITED, *_LOOK, SLOW_S, f"route recovery of {FABRIC} does not end"),
    Condition("disconnected", LIMITED, *_LOOK, SLOW_S, "global Fabric Manager disconnected"),
    Condition("configuration", CONFIGURATION, *_LOOK, SLOW_S, f"wrong configuration for {FABRIC}"),
)
NAMES = tuple(one.name for one in CONDITIONS)


def holds(
    report: Report, registered: NDArray[np.bool_], expected: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """Which conditions hold: 1, 0, or NaN = not known, (condition, row).

    ``registered``: it was in this epoch of the GPU. ``expected``: it is to register at all.
    """
    state, bits, health = report.state, report.bits, report.summary
    waits = report.known() & (state != COMPLETED)
    rules = {
        "failed": report.status > 0,
        "dropped": waits & registered & expected,
        "late": waits & ~registered & expected,
        "unhealthy": (health == UNHEALTHY) | (bits["route_unhealthy"] > 0),
        "limited": (health == LIMITED_CAPACITY) | (bits["degraded_bandwidth"] > 0),
        "recovering": (bits["route_recovery"] > 0) | (bits["access_timeout_recovery"] > 0),
        "disconnected": report.manager == DISCONNECTED,
        "configuration": report.configuration > 1,
    }
    return np.where(np.isfinite(state), np.stack([rules[name] for name in NAMES]), np.nan)


def details(report: Report, row: int) -> str:
    """What NVML reports of a GPU, for the evidence."""
    parts = [f"state {STATES.get(_code(report.state[row]), 'unknown')}"]
    if (status := _code(report.status[row])) > 0:
        parts.append(f"NVML status {status}")
    parts += [name.replace("_", " ") for name, bits in report.bits.items() if bits[row] > 0]
    if (wrong := _code(report.configuration[row])) > 1:
        parts.append(CONFIGURATIONS.get(wrong, f"wrong configuration {wrong}"))
    summary = {UNHEALTHY: "health unhealthy", LIMITED_CAPACITY: "health limited capacity"}
    if word := summary.get(_code(report.summary[row])):
        parts.append(word)
    return ", ".join(parts)


def _code(value: float) -> int:
    return int(value) if np.isfinite(value) else -1
