"""The world is frozen: a change of it changes every score, so it must be seen. ``TOCSIN_UPDATE_GOLDEN=1`` accepts it."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import numpy as np
import pytest

from collector.simulator.fleet import Run, load_scenario, render, scenario_ids
from pipeline.observation import Observation

GOLDEN = Path(__file__).parent.parent / "golden" / "fleet.json"
# One scenario of each family, rendered until an hour of it is over: from its first fault on, where that is not days away.
FAMILIES = {
    "fleet": "H00",
    "jobs": "H06",
    "people": "H14",
    "collectors": "H18",
    "ecc": "F03",
    "xid": "F09",
    "thermal": "F12",
    "throttle": "F14",
    "power-limit": "F15",
    "straggler": "F16",
    "pcie": "F18",
    "link": "F20",
    "job": "F25",
    "observability": "F29",
    "power": "F30",
    "lemon": "F31",
}
HOUR_NS = 3600 * 10**9


def digest(run: Run) -> str:
    """Hash of an hour's observations and of all truths. Fractions are rounded: the last bits are the processor's business."""
    found = hashlib.sha256()
    for truth in run.truth:
        found.update(truth.line().encode())
    begin = min((truth.onset_ns for truth in run.truth), default=run.topology.begin_ns) - 60 * 10**9
    for observation in run.observations():
        if observation.time_ns > begin + HOUR_NS:
            break
        if observation.time_ns >= begin:
            _add(found, observation)
    return found.hexdigest()


def _add(found: hashlib._Hash, observation: Observation) -> None:
    found.update(f"{observation.source} {observation.seq} {observation.time_ns} {observation.unread}".encode())
    for event in observation.events:
        facts = sorted(event.attributes.items())
        found.update(f"{event.time_ns} {event.kind} {event.device.host} {event.device.id} {facts}".encode())
    for frame in observation.frames:
        found.update(np.round(frame.gauges, 3).tobytes())
        found.update(np.where(frame.observed, frame.counters, np.uint64(0)).tobytes())
        found.update(frame.sampled_ns.tobytes())


def test_every_family_is_frozen() -> None:
    """Each family of scenarios has its hour."""
    assert {load_scenario(name).family for name in scenario_ids()} == set(FAMILIES)
    assert all(load_scenario(name).family == family for family, name in FAMILIES.items())


@pytest.mark.parametrize("family", FAMILIES)
def test_frozen(family: str) -> None:
    """A seeded hour of the family is what it was when the world was frozen."""
    step_s = 60.0 if family == "lemon" else 10.0  # its first fault comes after days
    now = digest(render(load_scenario(FAMILIES[family]), 7, nodes=8, step_s=step_s))
    golden = json.loads(GOLDEN.read_text()) if GOLDEN.exists() else {}
    if os.environ.get("TOCSIN_UPDATE_GOLDEN") == "1":
        golden[family] = now
        GOLDEN.write_text(json.dumps(dict(sorted(golden.items())), indent=2) + "\n")
    assert golden.get(family) == now, "the world has changed: all detectors have to be scored anew"
