"""Servers of the tests themselves: a death is reported at once, with the cause."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers import Server
from tests.sources import ROOT, files, tree

# Calls that wait for something real, and which of their arguments say how long.
WAITING = {"until": ("seconds",), "run": ("timeout", "timeout_s"), "urlopen": ("timeout",)}
ALONE = {"timeout", "until"}  # asyncio.timeout(5), until(condition, what, 5)
SHORT_S = 3.0  # a time-out below this is the test's subject


@pytest.mark.slow
def test_a_server_that_dies_is_reported_with_its_last_lines(tmp_path: Path) -> None:
    """The wait ends at once, and names the server, its exit code and what it wrote."""
    code = "import sys; sys.exit('no cgroup here')"
    with (
        Server([sys.executable, "-c", code], tmp_path / "log", name="slurmd") as server,
        pytest.raises(AssertionError, match=r"slurmd ended with exit code 1:\nno cgroup here"),
    ):
        server.until(lambda: False, "an idle node")


@pytest.mark.slow
def test_deadlines_of_real_things_come_from_one_place() -> None:
    """No test states a deadline of its own for a process, a tool or a thread."""
    assert [*_deadlines()] == []


def _deadlines() -> Iterator[str]:
    for path in files("tests"):
        for node in ast.walk(tree(ROOT / path)):
            if isinstance(node, ast.Call):
                for value in _limits(node):
                    seconds = getattr(value, "value", None)
                    if isinstance(seconds, int | float) and seconds > SHORT_S:
                        yield f"{path}:{node.lineno}: {ast.unparse(node.func)}({seconds})"


def _limits(call: ast.Call) -> Iterator[ast.expr]:
    """Arguments of a call that say how long it waits."""
    name = ast.unparse(call.func).rpartition(".")[2]
    if name in WAITING:
        yield from (k.value for k in call.keywords if k.arg in WAITING[name])
    if name in ALONE:
        yield from call.args[2 if name == "until" else 0 :]
