"""What is out of service, over restarts and versions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from collector.agent.labels import Labels
from collector.config.settings import Detectors
from collector.node.out_of_service import DOCUMENT, Out, OutOfService
from collector.node.state import State
from pipeline.selfmetrics import SelfMetrics
from tests.fakes import START_NS

NODE = Out("n1", "node", "n1", START_NS, 0, "new firmware", "ada")
ROW = {
    "host": "n1",
    "kind": "node",
    "id": "n1",
    "since_ns": START_NS,
    "until_ns": 0,
    "reason": "new firmware",
    "user": "ada",
}


def kept(folder: Path, document: dict[str, Any]) -> tuple[Out, ...]:
    """What an agent that starts with this document has out of service."""
    state = State(folder)
    state.save(DOCUMENT, document)
    return OutOfService("n1", state, SelfMetrics()).all()


def test_maintenance_that_a_later_version_kept_holds_after_a_downgrade(tmp_path: Path) -> None:
    """A key that this version does not know neither stops the start nor ends the maintenance."""
    assert kept(tmp_path, {"out": [ROW | {"ticket": "RMA 4711"}]}) == (NODE,)


@pytest.mark.parametrize("row", [{}, "n1", None, ROW | {"since_ns": "yesterday"}])
def test_an_entry_that_is_none_is_left_out_and_the_others_hold(tmp_path: Path, row: object) -> None:
    """A damaged file of maintenance does not keep the agent from starting."""
    assert kept(tmp_path, {"out": [row, ROW]}) == (NODE,)


@pytest.mark.parametrize("rows", [None, 7, {}])
def test_a_document_without_a_list_counts_as_empty(tmp_path: Path, rows: object) -> None:
    """So does the file of labels."""
    assert kept(tmp_path, {"out": rows}) == ()
    State(tmp_path).save("labels", {"labels": rows})
    Labels(State(tmp_path), SelfMetrics(), Detectors())


def test_a_node_that_was_renamed_in_maintenance_is_in_it_under_its_new_name(tmp_path: Path) -> None:
    """So that it can be ended: nothing under the old name remains, of the node or of its GPUs."""
    gpu = ROW | {"kind": "gpu", "id": "GPU-1"}
    old = [row | {"host": "n1.example.org"} for row in (ROW | {"id": "n1.example.org"}, gpu)]
    assert kept(tmp_path, {"out": old}) == (NODE, replace(NODE, kind="gpu", id="GPU-1"))
