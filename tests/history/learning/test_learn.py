"""``tocsin learn``: from the labels in a store to a file."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from collector.cli import main
from detectors.trust.ledger import Label, Ledger, Verdict
from history.learning.labelled import labelled

pytestmark = pytest.mark.slow  # imports polars
BEGIN = datetime(2026, 11, 1, tzinfo=UTC)


def row(name: str, detector: str = "hang") -> dict[str, Any]:
    """An incident as it was reported first."""
    return {
        "id": name, "detector": detector, "fault": "hang/rank_stuck", "severity": "record",
        "device_kind": "job", "device": name, "host": "n1", "findings": ["f"], "jobs": None,
        "opened": BEGIN + timedelta(hours=len(name)), "value": None, "expected": 10.0,
    }  # fmt: skip


def ledger(**verdicts: Verdict) -> Ledger:
    """Labels by incident."""
    found = Ledger()
    for name, verdict in verdicts.items():
        found.take(Label(name, verdict, ("hang",), "n1/job/x", "hang", 0))
    return found


def test_incidents_are_examples_by_their_last_verdict() -> None:
    """Unclear ones, those without a label, and those of detectors that are gone teach nothing."""
    rows = [row("a"), row("bb"), row("ccc"), row("dddd"), row("eeeee", "gone")]
    labels = ledger(a="real", bb="false", ccc="unclear", eeeee="real")
    found = labelled(rows, labels)
    assert [one.real for one in found] == [True, False]
    assert found[1].numbers["alike"] > 0
    assert found[0].opening.severity == "ticket"  # it may be a record because it was lowered


def test_a_store_without_labels_is_refused_and_no_file_is_written(
    tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """With how many are needed."""
    out = tmp_path / "calibration.json"
    store = tmp_path / "store"
    store.mkdir()
    command = ["learn", "calibration", "--out", str(out), "--storage.path", str(store)]
    assert main(command) == 1
    assert "15 are needed of each verdict" in capsys.readouterr().err
    assert not out.exists()
