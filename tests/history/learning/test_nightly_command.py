"""``tocsin nightly``: from a store to a list."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from collector.cli import main
from history.learning.gpu_days import PER_DAY
from pipeline.store.keep.compact import compact
from pipeline.store.query import quarters
from pipeline.store.query.quarters import GpuQuarters
from tests.pipeline.store.days import MIDNIGHT_NS, at, later, seen
from tests.pipeline.store.keep.test_seal import store

pytestmark = pytest.mark.slow  # imports polars
UNTIL = datetime.fromtimestamp(MIDNIGHT_NS / 1e9, UTC) + timedelta(days=2)


def asked(store: Path, *more: str) -> list[str]:
    """The command of a store."""
    return ["nightly", "--storage.path", str(store), "--until", f"{UTC_DAY}", "--days", "2", *more]


UTC_DAY = f"{UNTIL:%Y-%m-%d}"


def test_gpus_of_which_nothing_is_odd_are_not_listed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As JSON an empty array, else a sentence."""
    store(tmp_path, list(seen(at(1), 20, 0, ("gpu",))), at(1))
    compact(later(tmp_path))
    assert main(asked(tmp_path, "--format", "json")) == 0
    assert json.loads(capsys.readouterr().out) == []
    assert main(asked(tmp_path)) == 0
    assert capsys.readouterr().out == "nothing is odd: no GPU to list\n"


def test_a_gpu_that_is_odd_is_listed_with_what_is_odd(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its corrected errors, and on which day."""
    since, errors = UNTIL - timedelta(days=2), np.zeros((2 * PER_DAY, 8))
    errors[PER_DAY, 5] = 500.0
    devices = tuple((f"GPU-{n}", "n1", "H100") for n in range(8))
    found = GpuQuarters(since, devices, {"ecc_corrected_volatile": errors})
    monkeypatch.setattr(quarters, "gpu_quarters", lambda *_: found)
    assert main(asked(tmp_path, "--format", "json")) == 0
    (one,) = json.loads(capsys.readouterr().out)
    assert (one["host"], one["gpu"], one["model"]) == ("n1", "GPU-5", "H100")
    (why,) = one["why"]
    assert (why["number"], why["days_ago"]) == ("corrected", 0)
    assert main(asked(tmp_path)) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith(" 1. n1  GPU-5  H100  score ")
    assert "corrected memory errors" in second


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
