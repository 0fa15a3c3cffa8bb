"""Reasons of drains are free text: bars, ends of lines, and what others take for these."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from history.backtest import sacctmgr
from history.economics.sacct import node_events

HEAD = "NodeName|TimeStart|TimeEnd|State|Reason|User"
TIMES = "2026-11-01T00:00:00|2026-11-10T00:00:00|DRAIN"
REASONS = {
    "gpu01": "ok",
    "gpu02": "GPU 3 fell off | RMA 4711",
    "gpu03": "line one\nline two",
    "gpu04": "a|b\n\nc|d|e|f|g\nend",
    "gpu05": "x\u2028y\x0bz",
    "gpu06": "",
}
ROWS = "".join(f"{node}|{TIMES}|{reason}|root(0)\n" for node, reason in REASONS.items())


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_no_drain_is_lost_for_its_reason(end: str) -> None:
    """Each event has its own reason, and the user behind it."""
    events = node_events(f"{HEAD}\n{ROWS}".replace("\n", end))
    assert [event.node for event in events] == list(REASONS)
    assert {event.user for event in events} == {"root(0)"}
    if end == "\n":
        assert {event.node: event.reason for event in events} == REASONS


def test_a_row_that_ends_early_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    """Of a list that was cut off."""
    with caplog.at_level(logging.WARNING):
        found = node_events(f"{HEAD}\n{ROWS}gpu07|{TIMES}\n")
    assert len(found) == len(REASONS)
    assert "1 rows of sacctmgr have other columns" in caplog.text


def test_a_row_that_ends_with_a_bar_has_no_user_more() -> None:
    """`sacctmgr -p` ends each so."""
    text = "".join(f"{line}|\n" for line in (HEAD, f"gpu01|{TIMES}|a | b|root(0)"))
    (event,) = node_events(text)
    assert (event.reason, event.user) == ("a | b", "root(0)")


def test_each_event_is_one_where_the_cluster_comes_first(tmp_path: Path) -> None:
    """`sacctmgr -P show event` without a format, for reports and backtests."""
    rows = "".join(f"c1|{node}|{TIMES}|{reason}|root(0)\n" for node, reason in REASONS.items())
    text = f"Cluster|{HEAD}\n{rows}"
    assert {event.node: event.reason for event in node_events(text)} == REASONS
    file = tmp_path / "events.txt"
    file.write_text(text, encoding="utf-8")
    assert [one.node for one in sacctmgr.read(file)] == list(REASONS)


@pytest.mark.parametrize("head", ["", "NodeName|Start|End|State|Reason|User\n"])
def test_a_backtest_reads_every_reason(tmp_path: Path, head: str) -> None:
    """On one line each, as its report shows them; what is no event is no reason to stop."""
    file = tmp_path / "events.txt"
    file.write_text(f"{head}{ROWS}", encoding="utf-8")
    found = sacctmgr.read(file)
    assert {one.node: one.cause for one in found} == {
        **{node: " ".join(reason.split()) for node, reason in REASONS.items()},
        "gpu06": "DRAIN",
    }
