"""One level for each cell: the worst of what was read and what was said."""

from __future__ import annotations

from typing import Any

import pytest

from collector.web import levels

PORT: dict[str, Any] = {
    "id": "P",
    "state": "active",
    "health": "ok",
    "fresh": True,
    "expected": True,
}
NOBODY: dict[str, Any] = {"maintenance": [], "findings": []}


def test_a_port_is_as_bad_as_its_state_whatever_its_health() -> None:
    """Detectors in shadow mode leave the health of a port that is down at ok; the cell does not."""
    assert levels.port(PORT | {"state": "down"}, NOBODY) == ("bad", "down")


@pytest.mark.parametrize(
    ("health", "level"), [("failed", "bad"), ("predicted_failure", "warn"), ("degraded", "warn")]
)
def test_a_device_is_as_bad_as_its_health_whatever_its_state(health: str, level: str) -> None:
    """A link that is up and fails is not green."""
    assert levels.port(PORT | {"health": health}, NOBODY) == (level, health.replace("_", " "))


def test_a_device_that_is_not_read_is_not_well() -> None:
    """Its last state is old news."""
    assert levels.port(PORT | {"fresh": False}, NOBODY) == ("blind", "not read")


@pytest.mark.parametrize(
    ("state", "level"), [("hung", "bad"), ("lost", "bad"), ("unknown", "blind"), ("ok", "ok")]
)
def test_a_gpu_is_as_bad_as_its_state(state: str, level: str) -> None:
    """One of which nothing was read yet is unknown, not broken."""
    assert levels.gpu(PORT | {"state": state}, NOBODY) == (level, state)


def test_a_gpu_that_virtual_machines_have_is_out_of_service() -> None:
    """Nobody reads it, and nobody should."""
    assert levels.gpu(PORT | {"state": "passthrough", "fresh": False}, NOBODY) == (
        "out",
        "passthrough",
    )


def test_a_finding_on_record_marks_its_device() -> None:
    """The reader is told that there is something to read."""
    assert levels.port(PORT, NOBODY | {"findings": [{"device": "P"}]}) == ("note", "has findings")


@pytest.mark.parametrize(
    ("severity", "level"), [("page", "bad"), ("ticket", "warn"), ("record", "note")]
)
def test_a_gpu_is_as_bad_as_what_is_found_on_its_links_and_instances(
    severity: str, level: str
) -> None:
    """A GPU whose NVLink has a page is not green."""
    gpu = {"id": "GPU-1", "state": "ok", "health": "ok", "fresh": True}
    found = [{"device": "GPU-1/3", "severity": severity}]
    assert levels.gpu(gpu, NOBODY | {"findings": found}) == (level, "has findings")
    assert levels.gpu(gpu | {"id": "GPU-11"}, NOBODY | {"findings": found}) == ("ok", "ok")


def test_a_device_out_of_service_is_neither_good_nor_bad() -> None:
    """Whoever took it out knows."""
    out = NOBODY | {"maintenance": [{"device": "P"}]}
    assert levels.port(PORT | {"state": "down", "health": "failed"}, out) == (
        "out",
        "out of service",
    )
