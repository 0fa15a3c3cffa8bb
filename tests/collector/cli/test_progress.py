"""The progress bar: on terminals only, never on a line with output, gone at the end."""

from __future__ import annotations

import io
import os
import sys
from itertools import chain, repeat
from pathlib import Path

import pytest

from collector.cli.progress import Progress
from tests.collector.cli.screen import Screen, screen

__all__ = ["screen"]


def test_a_pipe_gets_no_bar() -> None:
    """Nothing at all is written, however long it takes."""
    pipe = io.StringIO()
    Progress(pipe, patience_s=0.0)(0.5)
    assert pipe.getvalue() == ""


def test_a_dumb_terminal_gets_no_bar(screen: Screen, monkeypatch: pytest.MonkeyPatch) -> None:
    """It cannot write a line again."""
    monkeypatch.setenv("TERM", "dumb")
    Progress(screen, patience_s=0.0)(0.5)
    assert screen.getvalue() == ""


def test_a_moment_needs_no_bar(screen: Screen, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is drawn after half a second."""
    now = chain([0.0, 0.1], repeat(0.7))
    monkeypatch.setattr("collector.cli.progress.time.monotonic", lambda: next(now))
    bar = Progress(screen)
    bar(0.2)
    assert screen.getvalue() == ""
    bar(0.5)
    assert "50%" in screen.lines()[-1]
    bar.close()


def test_the_bar_is_removed_at_the_end(screen: Screen) -> None:
    """What follows begins on an empty line."""
    bar = Progress(screen, patience_s=0.0)
    bar(0.5)
    bar.close()
    assert screen.getvalue().endswith("\x1b[1A\x1b[2K")


def test_the_bar_has_no_colour_where_none_is_wanted(
    screen: Screen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NO_COLOR is honoured."""
    monkeypatch.setenv("NO_COLOR", "1")
    bar = Progress(screen, patience_s=0.0)
    bar(0.5)
    bar.close()
    assert "50%" in screen.getvalue()
    assert "\x1b[3" not in screen.getvalue()


def test_output_on_the_same_terminal_is_above_the_bar(
    screen: Screen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each line of output is complete and as it is, longer than the terminal and with brackets
    too; the bar is below.
    """
    monkeypatch.setattr(sys, "stdout", screen)
    line = '{"a": "[bold]' + "x " * 60 + '"}'
    bar = Progress(screen, patience_s=0.0)
    bar(0.25)
    bar.print(line)
    bar(0.5)
    assert line in screen.lines()
    assert "50%" in screen.lines()[-1]
    bar.close()


def test_output_into_a_file_is_not_on_the_terminal(screen: Screen, tmp_path: Path) -> None:
    """Standard output gets its line although a bar is up."""
    bar = Progress(screen, patience_s=0.0)
    bar(0.5)
    with (tmp_path / "out").open("w+") as out:
        bar.print("{}", out)
        out.seek(0)
        assert out.read() == "{}\n"
    bar.close()
    assert "{}" not in screen.getvalue()


def test_streamed_output_into_a_pipe_has_no_bar(
    screen: Screen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`tocsin replay | jq`: what reads the pipe writes on the same terminal."""
    read, write = os.pipe()
    with os.fdopen(read), os.fdopen(write, "w") as pipe:
        monkeypatch.setattr(sys, "stdout", pipe)
        Progress(screen, streaming=True, patience_s=0.0)(0.5)
    assert screen.getvalue() == ""
