"""The table of failures in docs/fleet.md names tests that exist."""

from __future__ import annotations

import re

from tests.sources import ROOT


def test_each_failure_of_the_page_has_its_test() -> None:
    """By its name, somewhere below tests/; and each test of gateways and brokers that fail is in
    the table.
    """
    page = (ROOT / "docs/fleet.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(test_\w+)`", page))
    code = {path: path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py")}
    there = {
        name
        for text in code.values()
        for name in re.findall(r"^def (test_\w+)", text, re.MULTILINE)
    }
    assert named - there == set()
    folder = ROOT / "tests/gateway/faults"
    of_faults = {
        name
        for path in (folder / "test_broker.py", folder / "test_gateways.py")
        for name in re.findall(r"^def (test_\w+)", code[path], re.MULTILINE)
    }
    assert of_faults - named == {"test_a_server_that_is_too_old_is_named_in_one_line"}
