"""docs/fleet.md says what docs/sizing.json says, and what the tests of faults assert."""

from __future__ import annotations

import sys

import pytest

from pipeline import child
from tests.sources import ROOT
from tests.wait import PATIENCE_S


@pytest.mark.slow
def test_the_tables_are_fresh() -> None:
    """They are what `make docs` would write now."""
    code = (
        f"import sys; sys.path[:0] = {[str(ROOT / 'docs'), str(ROOT)]!r}; import build_fleet; "
        "sys.stdout.write(build_fleet.fleet())"
    )
    made = child.run([sys.executable, "-I", "-c", code], timeout_s=PATIENCE_S, max_bytes=1 << 20)
    assert made.returncode == 0, made.stderr.decode()
    assert made.stdout.decode() == (ROOT / "docs" / "fleet.md").read_text(encoding="utf-8"), (
        "stale: run make docs"
    )
