"""Batches as agents make them, for tests."""

from __future__ import annotations

from pipeline.bus.batch import Batch
from pipeline.finding import Finding
from pipeline.judged import JudgedObservation
from pipeline.observation import Observation
from tests.fakes import gpu
from tests.node_day import HOST, observations

FINDING = Finding(
    "ecc", gpu(1), "ecc", "onset", "page", 5, 6, "Uncorrectable.", "COMPONENT_RESET",
    3.0, float("nan"), "errors", ("a", "b"),
)  # fmt: skip


def day(seconds: int = 60) -> list[Observation]:
    """A minute of the simulated node, with a kernel log that says something."""
    return list(observations(seconds))


def batch(judged: list[JudgedObservation], number: int = 0, previous: int = -1) -> Batch:
    """A batch of them."""
    return Batch(HOST, "b91f", number, previous, judged[-1].observation.time_ns, tuple(judged))
