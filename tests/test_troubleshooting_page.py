"""docs/troubleshooting.md and the pages beside it: what they quote exists."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

import pytest

from collector.config.load import Inputs, load
from tests.sources import ROOT, files

DOCS = ROOT / "docs"
PAGE = (DOCS / "troubleshooting.md").read_text(encoding="utf-8")
PAGES = ("README.md", "docs/operating.md", "docs/kubernetes.md", "docs/troubleshooting.md")
ENTRIES = re.split(r"^### ", PAGE, flags=re.MULTILINE)[1:]
HEADINGS = [entry.splitlines()[0] for entry in ENTRIES]
# Messages that a heading quotes, cut where a path, an address or a number
# differs from node to node.
QUOTED = [span for heading in HEADINGS for span in re.findall(r"`([^`]+)`", heading) if " " in span]
VARIABLE = re.compile(r"/?[\w./]*[/:][\w./]+|\b\d+\b|\.\.\.|[?:;,()]|\b(?:kmsg|agent)\b")
OTHERS = {"curl", "Empty reply from server"}  # curl's own
SYSTEM = {os.strerror(code) for code in errno.errorcode}
SOURCE = " ".join(
    path.read_text(encoding="utf-8") for path in files("pipeline", "collector", "simulator")
)
REFERENCE = (DOCS / "reference.md").read_text(encoding="utf-8")


def test_every_entry_has_something_to_do() -> None:
    """At least twenty symptoms, each with a command or a setting to copy."""
    assert len(ENTRIES) >= 20
    assert [
        heading for heading, entry in zip(HEADINGS, ENTRIES, strict=True) if "```" not in entry
    ] == []


@pytest.mark.parametrize("message", QUOTED)
def test_a_message_that_is_quoted_is_still_logged(message: str) -> None:
    """Operators search for the message that they see."""
    parts = [part.strip() for part in VARIABLE.split(message)]
    assert [
        part
        for part in parts
        if len(part) > 3 and part not in SOURCE and part not in SYSTEM | OTHERS
    ] == []


@pytest.mark.parametrize("page", PAGES)
def test_every_series_that_is_named_exists(page: str) -> None:
    """A name, or the beginning of several where a pattern follows."""
    text = (ROOT / page).read_text(encoding="utf-8")
    named = set(re.findall(r"\btocsin_[a-z0-9_]+", text))
    assert {name for name in named if f"`{name}" not in REFERENCE} == set()


@pytest.mark.slow  # checking a list of detectors imports them
@pytest.mark.parametrize("block", re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL))
def test_every_setting_to_copy_is_accepted(block: str, tmp_path: Path) -> None:
    """As a configuration file of its own."""
    file = tmp_path / "config.yaml"
    file.write_text(block, encoding="utf-8")
    load(Inputs(str(file), {}, (), default_file=file))
