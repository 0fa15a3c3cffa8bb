"""The table of faults is complete: every fault that a detector can emit has a row, and each row a
detector.
"""

from __future__ import annotations

import ast
from functools import cache
from typing import get_args

import pytest

from detectors import DETECTORS, PAGES
from detectors.availability import FAULT_OF_DRIVER, RULES
from detectors.drift import DECLARABLE
from detectors.faults import CLASSES, FAULTS, Fault, fault_class, fault_of
from detectors.fec_tail import FAULT as FEC_TAIL
from detectors.infiniband.adapter import REASONS
from detectors.nccl.detector import NOTHING
from detectors.nccl.severity import SLOW
from detectors.nccl.verdict import CAUSES
from detectors.starvation.waits import WAITS
from pipeline.finding import SEVERITIES, Action
from rules import findings as rules
from tests.sources import ROOT, files, tree

# Emitters of findings that are no detectors.
OTHERS = {"engine", "incidents"}
# Faults whose names are built from the detector's own table, by detector.
BUILT: dict[str, set[str]] = {
    "availability": {*(f"gpu_{state}" for state in RULES), FAULT_OF_DRIVER},
    "drift": {f"drift/{key.replace('.', '_')}" for key in DECLARABLE},
    "fec_tail": {f"{family}/{FEC_TAIL}" for family in ("ib", "nvlink")},
    "ib_adapter": {f"ib/adapter_{reason}" for reason in (*REASONS, "unknown")},
    "nccl": {
        f"{'straggler' if cause in SLOW else 'hang'}/{cause}"
        for cause in CAUSES
        if cause not in NOTHING
    },
    "starvation": {f"starvation/{wait}" for wait in WAITS if wait},
}
each = pytest.mark.parametrize("row", FAULTS.values(), ids=FAULTS)


@cache
def literals() -> frozenset[str]:
    """All strings in the code of detectors and of the judge, other than the table itself."""
    paths = [
        path
        for path in (*files("detectors"), *files("pipeline"))
        if not str(path).startswith("detectors/faults/")
    ]
    return frozenset(
        node.value
        for path in paths
        for node in ast.walk(tree(ROOT / path))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def emitted_by(detector: str) -> set[str]:
    """The faults of the table that a detector emits."""
    return {name for name, row in FAULTS.items() if detector in row.detectors}


@each
def test_a_row_is_complete(row: Fault) -> None:
    """It has detectors, actions and a reason, and an alert and score class that exist."""
    assert row.detectors
    assert set(row.detectors) <= DETECTORS.keys() | OTHERS
    assert row.severity in SEVERITIES
    assert row.actions
    assert set(row.actions) <= set(get_args(Action))
    assert row.why
    assert row.alert in {each.stem for each in (*rules.CLASSES, rules.OTHER)}
    assert fault_class(row.name) in CLASSES


def test_every_detector_has_a_row() -> None:
    """No detector is missing from the table."""
    assert {name for row in FAULTS.values() for name in row.detectors} == DETECTORS.keys() | OTHERS


@pytest.mark.parametrize("detector", BUILT)
def test_a_fault_built_from_a_table_of_the_detector_has_a_row(detector: str) -> None:
    """And each row of such a detector is built from it."""
    assert emitted_by(detector) == BUILT[detector]


@pytest.mark.slow
def test_every_other_row_is_named_in_the_code() -> None:
    """A fault that no code names is not emitted by anything."""
    built = set().union(*BUILT.values())
    assert FAULTS.keys() - built - literals() == set()


@pytest.mark.slow
def test_every_fault_named_in_the_code_has_a_row() -> None:
    """A string of the form class/fault, with a class of the table, is a row."""
    named = {text for text in literals() if "/" in text and fault_class(text) in CLASSES}
    named = {text for text in named if text.partition("/")[2].isidentifier()} - {"ib/adapter_"}
    assert named - FAULTS.keys() == set()


def test_the_faults_of_a_class_have_the_alert_of_the_class() -> None:
    """The rules select by class alone."""
    for row in FAULTS.values():
        assert row.alert == CLASSES[fault_class(row.name)].alert


@pytest.mark.parametrize("name", DETECTORS)
def test_a_detector_is_scored_by_classes_of_its_own_faults(name: str) -> None:
    """The operating curve on its page is that of a fault it emits."""
    assert set(PAGES[name].scored_as) <= {FAULTS[fault].scored_as for fault in emitted_by(name)}


def test_an_unknown_fault_has_the_row_of_its_class() -> None:
    """A fault that is newer than the table is treated like the others of its class."""
    assert fault_of("ecc/new") == CLASSES["ecc"]
    assert fault_of("new/fault") == Fault("new/fault")
