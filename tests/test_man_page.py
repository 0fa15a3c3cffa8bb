"""The man page: made from the parser, complete, and without a complaint of mandoc."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from collector.cli.main import COMMANDS, parser
from pipeline import child
from tests.collector.cli.test_completion import shown
from tests.parts import need
from tests.sources import ROOT
from tests.wait import PATIENCE_S

page = runpy.run_path(str(ROOT / "tools" / "man_page.py"))["page"]

pytestmark = pytest.mark.slow  # each makes the parser of all commands


def test_every_command_and_option_is_on_the_page() -> None:
    """Settings once, in their own part."""
    text = page(parser(), "2026-11-22").replace("\\-", "-")
    assert [name for name in COMMANDS if f"\n.SS tocsin {name}\n" not in text] == []
    words = set(text.replace(",", " ").split()) | {"--help-settings"}
    assert sorted(set(shown(parser())) - words) == []


def test_mandoc_has_nothing_to_complain_about(tmp_path: Path) -> None:
    """Every line is roff as man(7) describes it."""
    mandoc = need("mandoc", "mandoc")
    (tmp_path / "tocsin.1").write_text(page(parser(), "2026-11-22"))
    argv = (mandoc, "-Tlint", "-Wwarning", str(tmp_path / "tocsin.1"))
    ended = child.run(argv, timeout_s=PATIENCE_S)
    assert (ended.returncode, ended.stdout.decode()) == (0, "")


def test_text_that_looks_like_roff_is_text(tmp_path: Path) -> None:
    """Examples are printed as they are typed, with a hyphen that can be copied."""
    mandoc = need("mandoc", "mandoc")
    (tmp_path / "tocsin.1").write_text(page(parser(), "2026-11-22"))
    argv = (mandoc, "-Tutf8", "-Owidth=200", str(tmp_path / "tocsin.1"))
    ended = child.run(argv, timeout_s=PATIENCE_S, max_bytes=1 << 22)
    shown_page = ended.stdout.decode()
    assert "tocsin read --path.kmsg ./dmesg.txt" in shown_page
    assert "tocsin nccl explain /tmp/nccl_trace_rank_*" in shown_page
