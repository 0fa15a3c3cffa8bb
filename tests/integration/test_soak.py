"""A slice of `make soak`: some seconds of it, on every change."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from statistics import mode

import pytest

from benchmarks.soak import Outcome, Sample, fast, soak

pytestmark = pytest.mark.integration


def test_some_seconds_at_twenty_reads_with_kills_and_fifty_scrapes_a_second(tmp_path: Path) -> None:
    """Every scrape is answered while the driver child is killed again and again; nothing piles
    up; the agent ends with 0.
    """
    outcome = soak(
        replace(fast(8.0), settled_s=2.0, kill_every_s=1.5, sample_every_s=0.25), tmp_path
    )
    assert outcome.lived
    assert set(outcome.answers) == {"200"}
    assert outcome.answers["200"] >= 100  # 400 on a quiet machine
    assert outcome.kills >= 3
    assert (
        outcome.growth(lambda sample: sample.descriptors, mode) <= 2
    )  # a pipe of a child that is being replaced
    assert outcome.growth(lambda sample: sample.threads, mode) <= 0
    assert (
        outcome.growth(lambda sample: sample.main_mib) < 8
    )  # what it keeps of the last minutes is filling


@pytest.mark.parametrize(
    ("outcome", "said"),
    [
        (
            Outcome([Sample(i, 50 + i, 12, 400, 14) for i in range(8)], lived=True),
            "grew by 4.00 MiB",
        ),
        (
            Outcome([Sample(i, 50, 12, 400 + i, 14) for i in range(8)], lived=True),
            "4 descriptors more",
        ),
        (Outcome([Sample(i, 50, 12, 400, 14 + i) for i in range(8)], lived=True), "4 threads more"),
        (
            Outcome([Sample(5 * i, 50, 12, 400, 14, frozenset({7})) for i in range(8)], lived=True),
            "not taken leave of",
        ),
        (Outcome([Sample(0, 50, 12, 400, 14)], lived=False), "did not live"),
        (Outcome([Sample(0, 50, 12, 400, 14)], lived=True, reads=10, skipped=11), "proves nothing"),
    ],
)
def test_what_piles_up_is_said(outcome: Outcome, said: str) -> None:
    """A soak that could not fail would prove nothing."""
    assert any(said in complaint for complaint in outcome.complaints())


def test_what_stays_is_not_complained_of() -> None:
    """An agent that fills what it keeps at first and stays there is flat; children come and go."""
    samples = [
        Sample(5 * i, 50 + min(i, 2), 12, 400 + (i % 5 == 0) - 5 * (i % 7 == 0), 14, frozenset({i}))
        for i in range(40)
    ]
    assert Outcome(samples, settled_s=10, lived=True).complaints() == []
