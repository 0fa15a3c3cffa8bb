"""The documentation cannot rot: generated pages are fresh, and
everything that exists is in them.
"""

from __future__ import annotations

import re
import shlex
import sys
from itertools import takewhile
from pathlib import Path

import pytest

from collector.cli.main import parser
from collector.config import dcgm_flags, tree
from pipeline import child
from pipeline.catalog import EVENTS, FIELDS, METRICS
from tests.sources import ROOT
from tests.wait import PATIENCE_S

REFERENCE = ROOT / "docs" / "reference.md"
PAGES = [
    *(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")),
    *sorted((ROOT / "docs").glob("*.md")),
]


def text_of(page: Path) -> str:
    """A page's text."""
    return page.read_text(encoding="utf-8")


@pytest.mark.slow
def test_reference_is_fresh() -> None:
    """docs/reference.md is what `make docs` would write now."""
    code = (
        f"import sys; sys.path[:0] = [{str(ROOT)!r}, {str(ROOT / 'docs')!r}]; import build; "
        "sys.stdout.write(build.reference())"
    )
    made = child.run([sys.executable, "-I", "-c", code], timeout_s=PATIENCE_S, max_bytes=8 << 20)
    assert made.returncode == 0, made.stderr.decode()
    assert made.stdout.decode() == text_of(REFERENCE), "stale: run make docs"


@pytest.mark.slow
def test_every_series_event_setting_and_flag_is_in_the_reference() -> None:
    """A newcomer finds every name there is."""
    text = text_of(REFERENCE)
    names = (
        [f.metric.name for f in FIELDS]
        + [f.name for f in FIELDS]
        + [m.name for m in METRICS]
        + list(EVENTS)
    )
    names += [s.name for s in tree.settings().values()] + [
        s.variable for s in tree.settings().values()
    ]
    names += [name for flag in dcgm_flags.FLAGS for name in (*flag.names, flag.variable)]
    assert [
        name for name in names if not re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w])", text)
    ] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page: Path) -> None:
    """Every relative link and picture of a page exists."""
    targets = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text_of(page))
    local = [
        target for target in targets if not target.startswith(("http://", "https://", "mailto:"))
    ]
    assert [target for target in local if not (page.parent / target).exists()] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "page", [page for page in PAGES if page != REFERENCE], ids=lambda p: p.name
)
def test_commands_of_the_pages_exist(page: Path) -> None:
    """Every `tocsin ...` line in a page is accepted by the command line, and
    every `make` target exists.
    """
    makefile = (ROOT / "Makefile").read_text()
    for block in re.findall(r"```(?:sh|console)\n(.*?)```", text_of(page), re.DOTALL):
        for line in block.replace("\\\n", " ").splitlines():
            words = list(
                takewhile(
                    lambda word: word not in ("|", ">"),
                    shlex.split(line.removeprefix("$ "), comments=True),
                )
            )
            while words and ("=" in words[0] or words[0] in ("sudo", "exec")):
                words = words[1:]
            if words[:1] == ["tocsin"]:
                parser().parse_args(words[1:])
            if words[:1] == ["make"]:
                assert re.search(rf"^{words[1]}:", makefile, re.MULTILINE), line


def test_readme_names_every_folder() -> None:
    """The map of folders is complete."""
    built = (ROOT / ".gitignore").read_text(encoding="utf-8").split()
    here = {
        path.relative_to(ROOT).parts[0]
        for path in ROOT.glob("*/*")
        if not path.name.startswith(".")
    }
    tracked = {name for name in here if f"{name}/" not in built}
    shown = set(re.findall(r"^\| `(\w+)/` \|", text_of(ROOT / "README.md"), re.MULTILINE))
    assert {name for name in tracked if not name.startswith(".")} - shown == set()
