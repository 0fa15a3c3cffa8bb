"""The table of faults in docs/fleet.md, and the tests that it names."""

from __future__ import annotations

import re
from collections import Counter

from tests.gateway.faults.table import ROWS, TABLE
from tests.sources import ROOT

TEST = re.compile(r"^def (test_\w+)\(([^)]*)\)", re.MULTILINE)


def test_each_row_is_held_by_its_test() -> None:
    """There is one of that name, which gets the row as its fixture and is failed by that where it
    asserts less; and each test of gateways and brokers that fail has a row.
    """
    code = {path: path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py")}
    held, others = Counter[str](), set[str]()
    for path, text in code.items():
        for name, arguments in TEST.findall(text):
            if "measured: Measured" in arguments:
                held[name] += 1
            elif path.parent == ROOT / "tests/gateway/faults" and path.name != "test_table.py":
                others.add(name)
    assert held == dict.fromkeys(ROWS, 1)
    assert others == {"test_a_server_that_is_too_old_is_named_in_one_line"}


def test_each_test_has_one_row() -> None:
    """No row is hidden by another."""
    assert len(ROWS) == len(TABLE)
