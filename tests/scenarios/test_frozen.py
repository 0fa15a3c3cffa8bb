"""The world is frozen: a change of it changes every score, so it must be seen.

``TOCSIN_UPDATE_GOLDEN=1`` accepts it.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline.observation import Observation
from simulator.fleet import Run, load_scenario, render, scenario_ids

pytestmark = pytest.mark.slow

GOLDEN = Path(__file__).parent.parent / "golden" / "fleet.json"
# One scenario of each family, rendered until an hour of it is over: from its first fault on,
# where that is not days away.
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
    "host": "F35",
    "nvlink": "F44",
    "together": "F45",
    "starvation": "F80",
    "settings": "F88",
}
# What is above the nodes differs more within its family than other faults do.
ALSO = {name: name for name in ("F70", "F71", "F72", "F74")}
HOURS = FAMILIES | ALSO
HOUR_NS = 3600 * 10**9
# One of the 23,000 readings of a field may be rounded to the other side on another processor, whose
# logarithms differ in their last bit.
ROUNDED = 1e-4


def digest(run: Run) -> dict[str, Any]:
    """Of all truths and an hour's observations: a hash of what is exact (truths, events, times),
    and a sum per field of what is measured, because its last bits depend on the processor.
    """
    exact = hashlib.sha256()
    sums: dict[str, float] = {}
    for truth in run.truth:
        exact.update(truth.line().encode())
    begin = min((truth.onset_ns for truth in run.truth), default=run.topology.begin_ns) - 60 * 10**9
    for observation in run.observations():
        if observation.time_ns > begin + HOUR_NS:
            break
        if observation.time_ns >= begin:
            _add(exact, sums, observation)
    return {
        "exact": exact.hexdigest(),
        "sums": {name: total for name, total in sums.items() if total},
    }


def _add(exact: hashlib._Hash, sums: dict[str, float], observation: Observation) -> None:
    exact.update(
        (
            f"{observation.source} {observation.seq} {observation.time_ns} {observation.unread}"
        ).encode()
    )
    for event in observation.events:
        facts = sorted(event.attributes.items())
        exact.update(
            f"{event.time_ns} {event.kind} {event.device.host} {event.device.id} {facts}".encode()
        )
    for frame in observation.frames:
        exact.update(frame.observed.tobytes())
        exact.update(frame.sampled_ns.tobytes())
        exact.update(np.isnan(frame.gauges).tobytes())
        increments = np.where(frame.observed, frame.counters, np.uint64(0)).astype(np.float64)
        for fields, values in (
            (frame.schema.gauges, np.nan_to_num(frame.gauges)),
            (frame.schema.counters, increments),
        ):
            for field, row in zip(fields, values, strict=True):
                name = f"{frame.kind} {field.name}"
                sums[name] = sums.get(name, 0.0) + float(row.sum())


def test_every_family_is_frozen() -> None:
    """Each family of scenarios has its hour."""
    assert {load_scenario(name).family for name in scenario_ids()} == set(FAMILIES)
    assert all(load_scenario(name).family == family for family, name in FAMILIES.items())


@pytest.mark.parametrize("family", HOURS)
def test_frozen(family: str) -> None:
    """A seeded hour of the family is what it was when the world was frozen."""
    step_s = 60.0 if family == "lemon" else 10.0  # its first fault comes after days
    now = digest(render(load_scenario(HOURS[family]), 7, nodes=8, step_s=step_s))
    golden = json.loads(GOLDEN.read_text()) if GOLDEN.exists() else {}
    if os.environ.get("TOCSIN_UPDATE_GOLDEN") == "1":
        golden[family] = now
        GOLDEN.write_text(json.dumps(dict(sorted(golden.items())), indent=2) + "\n")
    before, changed = golden.get(family, {}), "the world has changed: score all detectors again"
    assert before.get("exact") == now["exact"], changed
    assert before.get("sums") == pytest.approx(now["sums"], rel=ROUNDED), changed
