"""docs/scores.md says what docs/scores.json says."""

from __future__ import annotations

import sys

import pytest

from pipeline import child
from tests.sources import ROOT
from tests.wait import PATIENCE_S


@pytest.mark.slow
def test_the_tables_are_fresh() -> None:
    """Every table of the page is what `make docs` would write now."""
    paths = [str(ROOT), str(ROOT / "docs")]
    code = (
        f"import sys; sys.path[:0] = {paths!r}; import build_scores; "
        "sys.stdout.write(build_scores.scores())"
    )
    made = child.run([sys.executable, "-I", "-c", code], timeout_s=PATIENCE_S, max_bytes=1 << 20)
    assert made.returncode == 0, made.stderr.decode()
    assert made.stdout.decode() == (ROOT / "docs" / "scores.md").read_text(encoding="utf-8"), (
        "stale: run make docs"
    )
