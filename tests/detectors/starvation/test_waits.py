"""What a GPU waits for, from what it does beside its usual work and what its node waits for."""

from __future__ import annotations

import numpy as np
import pytest

from detectors.starvation.waits import WAITS, waits

USUAL = {
    "used": 98.0,
    "tensor": 50.0,
    "power": 6e5,
    "clock": 1700.0,
    "io": 0.02,
    "cpu": 0.05,
    "memory": 0.0,
}
WORKS = {**USUAL, "held": 0.9, "faults": 1.0, "storage": 0.0}


@pytest.mark.parametrize(
    ("changed", "wait"),
    [
        ({}, ""),
        ({"used": 50.0, "io": 0.3}, "data"),
        ({"used": 50.0, "io": np.nan, "faults": 400.0}, "data"),
        ({"used": 50.0, "io": 0.3, "cpu": 0.5}, "data"),
        ({"used": 50.0, "cpu": 0.5}, "cpu"),
        ({"used": 50.0, "cpu": 0.9, "io": 0.14}, "cpu"),
        ({"used": 50.0, "io": 0.8, "memory": 0.02}, "data"),
        ({"used": 50.0, "memory": 0.05, "io": 0.6}, "memory"),
        ({"clock": 1400.0}, "power"),
        ({"clock": 1400.0, "held": 0.0}, ""),
        ({"tensor": 10.0}, "communication"),
        ({"tensor": np.nan, "power": 2e5}, "communication"),
        ({"used": 0.0}, "nothing"),
        ({"used": 50.0}, ""),
        ({"used": np.nan, "io": 0.9}, ""),
        ({"used": 50.0, "storage": 1.0}, "data"),
        ({"used": 50.0, "storage": 1.0, "cpu": 0.5}, "cpu"),
        ({"storage": 1.0}, ""),
        ({"used": 98.0, "tensor": 10.0, "storage": 1.0}, "communication"),
    ],
)
def test_the_wait_is_the_strongest_that_has_evidence(changed: dict[str, float], wait: str) -> None:
    """A node that swaps reads too; pressure without less work is no wait, nor is the unknown."""
    now = {name: np.array([value]) for name, value in (WORKS | changed).items()}
    usual = {name: np.array([value]) for name, value in USUAL.items()}
    assert WAITS[waits(now, usual)[0]] == wait


@pytest.mark.parametrize(("cpu", "wait"), [(0.3, ""), (0.6, "cpu")])
def test_processors_that_were_overbooked_before_are_no_reason(cpu: float, wait: str) -> None:
    """Only what tasks wait beyond the usual is."""
    now = {name: np.array([v]) for name, v in (WORKS | {"used": 50.0, "cpu": cpu}).items()}
    usual = {name: np.array([value]) for name, value in (USUAL | {"cpu": 0.25}).items()}
    assert WAITS[waits(now, usual)[0]] == wait


def test_disks_that_are_always_waited_for_are_a_reason_for_less() -> None:
    """Loaders that wait all the time and keep up, until they do not."""
    now = {name: np.array([v]) for name, v in (WORKS | {"used": 50.0, "io": 0.95}).items()}
    usual = {name: np.array([value]) for name, value in (USUAL | {"io": 0.9}).items()}
    assert WAITS[waits(now, usual)[0]] == "data"


def test_a_job_that_is_not_known_yet_waits_for_nothing() -> None:
    """Without a usual level there is no less."""
    now = {name: np.array([value]) for name, value in (WORKS | {"used": 0.0}).items()}
    usual = {name: np.array([np.nan]) for name in USUAL}
    assert WAITS[waits(now, usual)[0]] == ""
