"""``tocsin nightly``: from a store to a list."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from collector.cli import main
from pipeline.store.keep.compact import compact
from tests.pipeline.store.days import MIDNIGHT_NS, at, later, seen
from tests.pipeline.store.keep.test_seal import store

pytestmark = pytest.mark.slow  # imports polars
UNTIL = datetime.fromtimestamp(MIDNIGHT_NS / 1e9, UTC) + timedelta(days=2)


def asked(store: Path, *more: str) -> list[str]:
    """The command of a store."""
    return ["nightly", "--storage.path", str(store), "--until", f"{UTC_DAY}", "--days", "2", *more]


UTC_DAY = f"{UNTIL:%Y-%m-%d}"


def test_a_store_with_roll_ups_is_listed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As JSON: an array, empty where nothing is odd."""
    store(tmp_path, list(seen(at(1), 20, 0, ("gpu",))), at(1))
    compact(later(tmp_path))
    assert main(asked(tmp_path, "--format", "json")) == 0
    listed = json.loads(capsys.readouterr().out)
    assert all({"host", "gpu", "model", "score", "why"} == set(one) for one in listed)
    assert main(asked(tmp_path)) == 0
    assert "score" in capsys.readouterr().out or not listed


def test_a_store_without_roll_ups_says_what_it_needs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And exits with 1."""
    assert main(asked(tmp_path)) == 1
    assert "gpu_15m" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "named"), [(("--until", "soon"), "--until"), (("--days", "1"), "--days")]
)
def test_a_wrong_option_is_named(
    more: tuple[str, ...], named: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything is read."""
    assert main([*asked(tmp_path), *more]) == 2
    assert named in capsys.readouterr().err
