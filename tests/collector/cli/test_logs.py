"""The agent's log: one record, one line, whatever is in it."""

from __future__ import annotations

import io
import json
import logging
import os
import sys
from pathlib import Path

import pytest
from hypothesis import given, strategies

from collector.cli import logs


def record(message: str, level: int = logging.WARNING) -> logging.LogRecord:
    """A record as a module of ours would make it."""
    made = logging.LogRecord("tocsin.x", level, __file__, 1, "%s", (message,), None)
    made.created = 1_790_000_000.25
    return made


def test_logfmt() -> None:
    """Plain words stand bare, others are quoted."""
    assert logs.Lines("logfmt", priorities=False).format(record('port "mlx5_0" is down')) == (
        'ts=2026-09-21T14:13:20.250Z level=warning logger=tocsin.x msg="port \\"mlx5_0\\" is down"'
    )


def test_json() -> None:
    """One object per line."""
    line = logs.Lines("json", priorities=False).format(record("up", logging.INFO))
    assert json.loads(line) == {
        "ts": "2026-09-21T14:13:20.250Z",
        "level": "info",
        "logger": "tocsin.x",
        "msg": "up",
    }


@pytest.mark.parametrize(
    ("level", "prefix"),
    [
        (logging.ERROR, "<3>"),
        (logging.WARNING, "<4>"),
        (logging.INFO, "<6>"),
        (logging.DEBUG, "<7>"),
    ],
)
def test_journal_priorities(level: int, prefix: str) -> None:
    """In the journal each line begins with its priority."""
    assert (
        logs.Lines("logfmt", priorities=True).format(record("x", level)).startswith(f"{prefix}ts=")
    )


@pytest.mark.slow
def test_a_library_cannot_fill_the_log() -> None:
    """The same line comes once a minute, with a count of what was left out; other lines, and
    ours, are not held back.
    """
    now, out = [0.0], io.StringIO()
    handler = logging.StreamHandler(out)
    handler.addFilter(logs.Sparing(lambda: now[0]))

    def say(name: str, text: str) -> None:
        handler.handle(logging.LogRecord(name, logging.ERROR, __file__, 1, text, (), None))

    for second in range(61):
        now[0] = float(second)
        for _ in range(1000):
            say("asyncio", "socket.accept() out of system resource 100%")
        say("tocsin.x", f"{second}")
    say("asyncio", "something else")
    theirs = [line for line in out.getvalue().splitlines() if not line.isdigit()]
    assert theirs == [
        "socket.accept() out of system resource 100%",
        "socket.accept() out of system resource 100% (59999 more like it were left out)",
        "something else",
    ]
    assert out.getvalue().count("\n") == 61 + 3


def test_what_a_library_says_is_remembered_within_bounds() -> None:
    """Lines that are never alike do not grow the agent."""
    sparing = logs.Sparing(lambda: 0.0)
    for number in range(10_000):
        sparing.filter(logging.LogRecord("lib", logging.ERROR, __file__, 1, f"{number}", (), None))
    assert len(sparing._said) <= sparing.MAX_KINDS


@pytest.mark.slow
@given(strategies.text(), strategies.sampled_from(["logfmt", "json"]))
def test_no_text_can_forge_a_line(text: str, form: str) -> None:
    """A message of a hostile device or driver stays on its line: no line
    breaks, no escape sequences.
    """
    line = logs.Lines(form, priorities=False).format(record(text))
    assert line.isprintable()
    assert line.isascii()


def test_a_traceback_is_one_line() -> None:
    """An error with its traceback is one record in the log."""
    made = record("failed")
    try:
        raise ValueError("bad\nthing")
    except ValueError:
        made.exc_info = sys.exc_info()
    line = logs.Lines("logfmt", priorities=False).format(made)
    assert "ValueError: bad" in line
    assert "\n" not in line


def test_level_is_respected() -> None:
    """What is below the level is not written."""
    stream = io.StringIO()
    logs.set_up("warning", "logfmt", stream, {})
    logging.getLogger("tocsin.y").info("quiet")
    logging.getLogger("tocsin.y").warning("loud")
    assert [line.split("msg=")[1] for line in stream.getvalue().splitlines()] == ["loud"]


def test_a_closed_standard_error_ends_nothing() -> None:
    """Logging to a stream that is gone is not an error of the agent."""
    stream = io.StringIO()
    logs.set_up("info", "logfmt", stream, {})
    stream.close()
    logging.getLogger("tocsin.y").warning("nobody hears")


def test_the_journal_is_recognised() -> None:
    """Priorities are written only where standard error is the journal's own socket."""
    with Path(os.devnull).open("w", encoding="utf-8") as stream:
        stat = os.fstat(stream.fileno())
        assert logs.in_journal(stream, {"JOURNAL_STREAM": f"{stat.st_dev}:{stat.st_ino}"})
        assert not logs.in_journal(stream, {"JOURNAL_STREAM": "1:1"})
        assert not logs.in_journal(stream, {})
    assert not logs.in_journal(io.StringIO(), {"JOURNAL_STREAM": "1:1"})
