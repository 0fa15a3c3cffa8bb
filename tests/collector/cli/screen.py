"""A terminal, as far as rich and our commands look at one."""

from __future__ import annotations

import io
import re

import pytest


class Screen(io.StringIO):
    """A stream that an operator watches."""

    def isatty(self) -> bool:
        return True

    def lines(self) -> list[str]:
        """What can be read at the end: a line that is written again shows its last text."""
        text = re.sub(r"\x1b\[[0-9;?]*[a-jl-zA-JL-Z]", "", self.getvalue())
        return [re.split(r"\r|\x1b\[2K", line)[-1] for line in text.split("\n")]


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Screen:
    """A terminal of 80 columns that has colours."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm-256color")
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    return Screen()
