"""So many nodes are judged together as their reads fit in memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from collector.replaying import width
from collector.replaying.passes import hours_in
from collector.replaying.stored import Span
from pipeline.clock import SECOND_NS
from pipeline.judged import JudgedObservation
from pipeline.observation import Observation
from pipeline.store.keep.compact import compact
from tests.collector.replaying.kept import keep
from tests.pipeline.store.days import later

BEGIN_NS = 1_800_000_000 * SECOND_NS  # on an hour


def store(root: Path, reads: int) -> Path:
    """Two nodes that read so often in an hour."""
    step_ns = 3600 * SECOND_NS // reads
    keep(
        root,
        [
            JudgedObservation(
                Observation(
                    "jobs", host, f"b-{host}", n, BEGIN_NS + n * step_ns, n * step_ns + 1, 0
                )
            )
            for host in ("n1", "n2")
            for n in range(reads)
        ],
    )
    return root


@pytest.mark.slow
@pytest.mark.parametrize("whole_day", [False, True], ids=["hours", "days"])
def test_nodes_that_read_rarely_are_judged_together_in_greater_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole_day: bool
) -> None:
    """As many as have the reads of 64 that read all the time, up to 256 of them."""
    monkeypatch.setattr(width, "DENSE", 60.0)
    found = []
    for reads in (120, 60, 30, 5):
        root = store(tmp_path / f"{reads}", reads)
        if whole_day:
            compact(later(root))
        found.append(width.nodes_at_once(root, hours_in(root, Span())))
    assert found == [64, 64, 128, 256]


def test_of_a_store_without_an_hour_as_many_as_fit_anyway(tmp_path: Path) -> None:
    """There is nothing to look at."""
    assert width.nodes_at_once(tmp_path, []) == width.MAX_NODES
