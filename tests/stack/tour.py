"""docs/tour.md as a script: each command with the output that the page shows, run and
compared, or written again.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pipeline import child
from tests.agents import PROGRAM
from tests.sources import ROOT
from tests.wait import PATIENCE_S

PAGE = ROOT / "docs" / "tour.md"
_EXAMPLE = re.compile(r"```sh\n(?P<command>[^`]+)```\n\n```text\n(?P<output>[^`]*)```")
_ID = r"(?<![\w-])[0-9a-f]{8}(?:[0-9a-f]{8})?(?![\w-])"
# What no two runs have in common, from the longest to the shortest.
_VARYING = (
    (r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?", "TIME"),
    (_ID, "ID"),
    (r"\b\d+ (s|min|h|d)( \d+ (s|min|h))*\b", "SPAN"),
    (r"(?<![\w-])[-+]?\d[\d.,]*(e[-+]?\d+)?k?(?![\w-])", "N"),
    (r"[ \t]+", " "),
)


@dataclass(frozen=True, slots=True)
class Example:
    """A command of the page, or several that belong together, and what it shows of them."""

    command: str
    output: str


def examples() -> list[Example]:
    """All of the page, in order."""
    return [
        Example(found["command"], found["output"])
        for found in _EXAMPLE.finditer(PAGE.read_text(encoding="utf-8"))
    ]


def shape(text: str) -> list[str]:
    """Lines without what differs from run to run: times, ids, spans and numbers.

    >>> shape("0a1b2c3d4e5f6071  page  95.5 K since 2026-11-20 14:26:45, for 3 min 2 s")
    ['ID page N K since TIME, for SPAN']
    """
    for pattern, word in _VARYING:
        text = re.sub(pattern, word, text)
    return [line.strip() for line in text.strip().splitlines()]


def run(command: str, folder: Path, store: Path) -> str:
    """Standard output of a command as the page's second terminal runs it, below ``folder``."""
    program = folder / "bin" / "tocsin"
    program.parent.mkdir(exist_ok=True)
    program.write_text(
        f"#!{sys.executable}\nimport sys\nsys.path.insert(0, {str(ROOT)!r})\n{PROGRAM}\n",
        encoding="utf-8",
    )
    program.chmod(0o755)
    env = {"PATH": f"{program.parent}:{os.environ['PATH']}", "TOCSIN_STORAGE__PATH": str(store)}
    done = child.run(["sh", "-euc", f"cd {folder}\n{command}"], timeout_s=PATIENCE_S, env=env)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def ids(shown: str, now: str) -> Mapping[str, str]:
    """Ids of the page to those of this run, where both stand in the same places."""
    return dict(zip(re.findall(_ID, shown), re.findall(_ID, now), strict=False))


def with_ids(text: str, names: Mapping[str, str]) -> str:
    """A text with other ids."""
    return re.sub(_ID, lambda found: names.get(found[0], found[0]), text)


def write(made: Mapping[str, Example], sent: str) -> None:
    """The page with new outputs, by the command as it stands there; ``told`` is
    what the receivers heard.
    """
    text = PAGE.read_text(encoding="utf-8")
    for before, now in made.items():
        shown = re.search(rf"```sh\n{re.escape(before)}```\n\n```text\n[^`]*```", text)
        assert shown
        text = text.replace(
            shown[0], f"```sh\n{now.command}```\n\n```text\n{now.output.rstrip()}\n```"
        )
    text = re.sub(
        r"(logs -f receivers`\):\n\n```text\n)[^`]*```",
        lambda found: f"{found[1]}{sent.rstrip()}\n```",
        text,
    )
    PAGE.write_text(text, encoding="utf-8")


def heard() -> str:
    """What the page shows of the receivers."""
    found = re.search(
        r"logs -f receivers`\):\n\n```text\n([^`]*)```", PAGE.read_text(encoding="utf-8")
    )
    assert found, "the page no longer shows what the receivers hear"
    return found[1]
