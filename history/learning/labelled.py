"""The labelled incidents of a store, as examples to learn from."""

from __future__ import annotations

from collections.abc import Iterable
from math import nan

from detectors import DETECTORS
from detectors.trust.ledger import Ledger
from detectors.trust.openings import Opening
from history.learning.examples import Example, examples
from pipeline.store.query.labels import Row


def labelled(rows: Iterable[Row], ledger: Ledger) -> list[Example]:
    """Of ``opening_rows`` and the labels. Unclear ones teach nothing, and neither do those of
    detectors that this version does not have.
    """
    return list(examples(_verdicts(rows, ledger)))


def _verdicts(rows: Iterable[Row], ledger: Ledger) -> Iterable[tuple[Opening, bool | None, str]]:
    for row in rows:
        label = ledger.labels.get(str(row["id"]))
        known = label is not None and label.verdict != "unclear" and row["detector"] in DETECTORS
        real = label.verdict == "real" if label is not None and known else None
        yield opening(row), real, f"{row['host']}/{row['device_kind']}/{row['device']}"


def opening(row: Row) -> Opening:
    """An incident as the store has it."""
    value, expected = (
        nan if row[name] is None else float(row[name]) for name in ("value", "expected")
    )
    return Opening(
        str(row["detector"]),
        str(row["fault"]),
        # what a calibration lowered was a ticket
        "ticket" if row["severity"] == "record" else str(row["severity"]),
        str(row["device_kind"]),
        str(row["host"]),
        round(row["opened"].timestamp() * 1_000_000) * 1000,
        value,
        expected,
        len(row["findings"]),
        len(row["jobs"] or ()),
    )
