"""The memory of detectors: which components it has, under which names it is stored."""

from __future__ import annotations

import json

from detectors import all_detectors
from detectors.incidents import Incidents
from detectors.kit.elapsed import Elapsed
from detectors.kit.snapshot import Snapshotable
from detectors.kit.stateful import Numbers, Stateful
from pipeline.interfaces import Detector
from tests import golden


class Counting(Stateful):
    """Two components, and an attribute that is none."""

    def __init__(self, count: float) -> None:
        self._numbers, self._elapsed, self._label = Numbers(count=count), Elapsed(), "label"


def test_every_attribute_that_is_a_component_is_stored() -> None:
    """A detector lists its components nowhere else, and takes them over under the same names."""
    detector = Counting(3)
    assert list(detector.components()) == ["numbers", "elapsed"]
    other = Counting(0)
    other.restore(detector.state())
    assert other.state()["numbers.count"] == 3


def test_the_names_of_stored_memory_are_kept() -> None:
    """An agent that is upgraded loses the memory of a detector whose names have changed: a change
    of this file needs a new ``version`` of the detector.
    """
    judges: list[Detector | Incidents] = [*all_detectors(), Incidents()]
    names = {
        f"{each.name} {each.version}": sorted(each.state())
        for each in judges
        if isinstance(each, Snapshotable)
    }
    golden.check("memory.json", json.dumps(names, indent=1) + "\n")
