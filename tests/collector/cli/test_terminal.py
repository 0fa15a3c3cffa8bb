"""Tables: plain columns for scripts, bold, coloured and folded on a terminal."""

from __future__ import annotations

import io
import re

import pytest

from collector.cli.terminal import MAX_ROWS, table
from tests.collector.cli.screen import Screen, screen

__all__ = ["screen"]

HEAD, RIGHT = ("severity", "count", "summary"), (False, True, False)
ROWS = [("page", "1", "GPU 2: fell off the bus"), ("info", "12", "-")]
PLAIN = """\
severity  count  summary
page          1  GPU 2: fell off the bus
info         12  -
"""


def plain(text: str) -> str:
    """Without colours and spaces at the end of lines."""
    return re.sub(r"\x1b\[[0-9;]*m| +$", "", text, flags=re.MULTILINE)


def test_a_pipe_gets_plain_columns() -> None:
    """No colour, no box, no space at the end of a line."""
    assert "".join(table(HEAD, ROWS, RIGHT, io.StringIO())) == PLAIN


def test_a_terminal_gets_the_same_columns_with_colour(screen: Screen) -> None:
    """The head is bold and a page red; without colours it is the table of the pipe."""
    text = "".join(table(HEAD, ROWS, RIGHT, screen))
    assert plain(plain(text)) == PLAIN
    assert re.search(r"\x1b\[1;31mpage", text)
    assert "\x1b[1mseverity" in text


def test_no_color_is_honoured(screen: Screen, monkeypatch: pytest.MonkeyPatch) -> None:
    """NO_COLOR takes the red away."""
    monkeypatch.setenv("NO_COLOR", "1")
    assert "31m" not in "".join(table(HEAD, ROWS, RIGHT, screen))


def test_prose_is_folded_in_its_column(screen: Screen) -> None:
    """A summary longer than the terminal continues below itself; nothing is lost."""
    text = plain("".join(table(HEAD, [("page", "1", "word " * 40)], RIGHT, screen)))
    lines = text.splitlines()
    assert max(map(len, lines)) <= 80
    assert text.count("word") == 40
    assert all(line.startswith(" " * 17 + "word") for line in lines[2:])


@pytest.mark.parametrize("rows", [[("a" * 50, "b" * 50)], [("a", "b")] * (MAX_ROWS + 1), []])
def test_what_does_not_fit_or_is_long_is_plain(rows: list[tuple[str, str]], screen: Screen) -> None:
    """Names and numbers are never cut or folded, whatever the width."""
    text = "".join(table(("one", "two"), rows, (False, False), screen))
    assert len(text.splitlines()) == len(rows) + 1
    assert all(cell in text for row in rows for cell in row)


def test_brackets_are_text(screen: Screen) -> None:
    """What is stored is no markup."""
    assert "[red]x[/red]" in "".join(table(("a",), [("[red]x[/red]",)], (False,), screen))
