"""Results as workers write them, made by hand."""

from __future__ import annotations

from typing import Any

MONTH_S = 30 * 86_400.0


def case(delay_s: float | None, **changes: Any) -> dict[str, Any]:
    """A page-level straggler with a deadline of 600 s, with the right root when found."""
    found = delay_s is not None and delay_s <= 600
    return {
        "id": "F16/0",
        "fault": "straggler",
        "severity": "page",
        "entity": "gpu GPU-1",
        "deadline_s": 600.0,
        "detected_s": delay_s,
        "noticed_s": delay_s,
        "top1": True if found else None,
        "top3": True if found else None,
        "level": True if found else None,
        "duplicates": 0,
        "secondaries": 0,
        "misnamed": 0,
        "misplaced": 0,
        "before": 0,
        "within": 0,
        "signed": False,
        "flaps": 0,
        "too_loud": False,
        "cleared_s": 30.0 if found else None,
        "clearable": found,
        "watched": True,
        "evidence": [{"detector": "straggler", "delay_s": delay_s, "strength": "inf"}]
        if delay_s is not None
        else [],
    } | changes


def alarm(severity: str = "page", kind: str = "gpu", detector: str = "straggler") -> dict[str, Any]:
    """A false alarm."""
    return {
        "detector": detector,
        "fault": "straggler",
        "kind": kind,
        "severity": severity,
        "ticket": 3.0,
        "page": 3.0 if severity == "page" else "-inf",
    }


def part(
    contestant: str = "ours", scope: str = "fleet", months: float = 10.0, **changes: Any
) -> dict[str, Any]:
    """What one contestant got, in so many GPU-months and as many port-months."""
    return {
        "contestant": contestant,
        "scope": scope,
        "gpu_s": months * MONTH_S,
        "port_s": months * MONTH_S,
        "cases": [],
        "false": [],
        "findings": 0,
        "restarted": False,
        "differences": [],
        "forgetful": [],
    } | changes


def result(
    scenario: str,
    *parts: dict[str, Any],
    magnitude: str = "nominal",
    seed: int = 1,
    needs: str = "node",
) -> dict[str, Any]:
    """A run's result."""
    healthy = scenario.startswith("H")
    return {
        "code": "c",
        "job": {"scenario": scenario, "magnitude": magnitude, "seed": seed, "split": "dev"},
        "kind": "healthy" if healthy else "fault",
        "needs": needs,
        "skipped": 0,
        "truth": [],
        "results": list(parts),
    }
