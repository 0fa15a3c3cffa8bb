"""The page about stalls names everything that a verdict or an event may say."""

from __future__ import annotations

import re

from collector.sources.joblog.table import PATTERNS
from detectors.nccl.verdict import CAUSES
from detectors.nccl.words import CAUSES as WORDS
from tests.sources import ROOT

PAGE = (ROOT / "docs/nccl.md").read_text()


def test_every_class_is_explained() -> None:
    """In words for the terminal, and in the page."""
    assert set(WORDS) == set(CAUSES)
    assert [cause for cause in CAUSES if f"`{cause}`" not in PAGE] == []


def test_every_pattern_is_listed() -> None:
    """Events bear its name."""
    assert [pattern.name for pattern in PATTERNS if f"`{pattern.name}`" not in PAGE] == []


def test_no_pattern_is_listed_that_there_is_not() -> None:
    """The last table holds nothing else."""
    listed = re.findall(r"`(\w+)`", PAGE.partition("| Patterns |")[2])
    assert sorted(listed) == sorted(pattern.name for pattern in PATTERNS)
