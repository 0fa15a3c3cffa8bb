"""docs/security.md: every claim has a test, and the test exists."""

from __future__ import annotations

import ast
import re

import pytest

from collector.config.web.settings import WebConfig, parse
from tests.sources import ROOT, tree

PAGE = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)))


@pytest.mark.slow
@pytest.mark.parametrize(("file", "test"), NAMED, ids=[test for _, test in NAMED])
def test_a_test_that_is_named_exists(file: str, test: str) -> None:
    """A claim whose test was renamed or dropped is no longer held by anything."""
    functions = {
        node.name for node in ast.walk(tree(ROOT / file)) if isinstance(node, ast.FunctionDef)
    }
    assert test in functions


def test_every_claim_names_a_test() -> None:
    """Each row of the three tables of attacks."""
    attacks = PAGE.split("## Threats")[1].split("## Out of scope")[0]
    rows = [
        line
        for line in attacks.splitlines()
        if line.startswith("| ") and not line.startswith("| Attack")
    ]
    assert len(rows) > 30
    assert [row for row in rows if not re.search(r"`tests/[\w/]+\.py::\w+` \|$", row)] == []


def test_the_configuration_on_the_page_is_good() -> None:
    """A copy of the example is a valid configuration."""
    (example,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    assert isinstance(parse(example.encode(), "the page"), WebConfig)
