"""What a job is alike to, from what its sources say of it."""

from __future__ import annotations

import itertools

import pytest

from detectors.hang.crew import Crew
from detectors.hang.kin import Key
from pipeline.frame import Device
from pipeline.observation import Event, Value

NODE = Device("n1", "node", "n1")
USER: dict[str, Value] = {"user": "namespace:ml", "name": "llm"}


@pytest.mark.parametrize("order", list(itertools.permutations(range(2))))
def test_a_training_is_alike_to_those_of_its_size_whoever_reports_it_last(
    order: tuple[int, ...],
) -> None:
    """Only its processes say how many nodes it has; it has one name for both sources."""
    crew = Crew()
    reports: list[dict[str, Value]] = [{"scheduler": "kubernetes", **USER}, {"hosts": 2, **USER}]
    for number in order:
        event = Event(0, 0, NODE, "job_started", {"job": "ml/llm.1a2b3c4d", **reports[number]})
        crew.take([event])
        crew.learn(event)
    assert crew.key("ml/llm.1a2b3c4d") == Key("namespace:ml", "llm", 2)
