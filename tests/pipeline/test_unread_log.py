"""What cannot be read, in the log: once when it begins, once when it has gone."""

from __future__ import annotations

import pytest

from pipeline.clock import SECOND_NS
from pipeline.observation import Unread
from pipeline.unread_log import MAX_REASONS, UnreadLog


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The lines so far, which are then forgotten."""
    lines = [record.getMessage() for record in caplog.records]
    caplog.clear()
    return lines


@pytest.fixture(autouse=True)
def _every_level(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "tocsin.engine")


@pytest.mark.slow
def test_a_reason_is_said_once_with_an_example_and_once_when_it_has_gone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """An operator finds the file in the log; a day of the same trouble is one line."""
    unread = [
        Unread("garbage", "port-1", "symbol_errors"),
        Unread("garbage", "port-2", "state"),
        Unread("slow", "port-3"),
    ]
    log = UnreadLog("infiniband")
    for second in range(86_400):
        log.note(unread, second * SECOND_NS)
    assert said(caplog) == [
        "source infiniband cannot read symbol_errors of port-1 and 1 more: garbage",
        "source infiniband cannot read port-3: slow",
    ]
    for second in range(86_400, 86_500):
        log.note([], second * SECOND_NS)
    assert said(caplog) == [
        "source infiniband: everything affected is read again: garbage",
        "source infiniband: everything affected is read again: slow",
    ]


def test_a_reason_that_comes_and_goes_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    """A file that fails in every other reading is no line per reading."""
    log = UnreadLog("infiniband")
    for second in range(600):
        log.note([Unread("EIO", "port-1", "state")] if second % 2 else [], second * SECOND_NS)
    assert len(said(caplog)) == 1


def test_what_concerns_no_device_is_the_sources_own_to_say(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A driver that is not there has its line already."""
    UnreadLog("nvml").note([Unread("driver not loaded")], 0)
    assert said(caplog) == []


def test_reasons_without_end_are_bounded(caplog: pytest.LogCaptureFixture) -> None:
    """Hostile reasons fill neither memory nor log."""
    log = UnreadLog("nvml")
    for number in range(10_000):
        log.note([Unread(f"reason {number}", "gpu-1")], 0)
    assert len(said(caplog)) == MAX_REASONS
