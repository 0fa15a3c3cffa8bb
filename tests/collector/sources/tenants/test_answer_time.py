"""A child's time stands still while it has no processor, but not without end."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from collector.sources.tenants.answer_time import LOOK_S, MAX_STRETCH, AnswerTime

DEADLINE_S = 2.0


class Load:
    """A kernel's account and a clock, both set by hand: a child that has ``share`` of a processor
    is asked, and answers after ``needs_s`` of it (never: None).
    """

    def __init__(self, share: float, needs_s: float | None, *, ready: bool = True) -> None:
        self.share, self.needs_s, self.ready = share, needs_s, ready
        self.now_s = 100.0
        self.ran_s = self.starved_s = self._marked_s = 0.0
        self.late_ns = 0

    def mark(self) -> None:
        """See Starvation."""
        self._marked_s = self.starved_s

    def since_mark_ns(self) -> int:
        """See Starvation."""
        return round((self.starved_s - self._marked_s) * 1e9)

    def woke_late(self, ns: int) -> None:
        """See Starvation."""
        self.late_ns += ns

    def waits_now(self) -> bool:
        """See Starvation."""
        return self.ready and self.share == 0

    def receive(self, seconds: float) -> bytes | None:
        """What the child says within some seconds."""
        if self.needs_s is not None and self.share > 0:
            left_s = max(self.needs_s - self.ran_s, 0.0) / self.share
            if left_s <= seconds:
                self._pass(left_s)
                return b"answer"
        self._pass(seconds)
        return None

    def _pass(self, seconds: float) -> None:
        self.now_s += seconds
        self.ran_s += seconds * self.share
        if self.ready:
            self.starved_s += seconds * (1 - self.share)


def _asked(load: Load) -> tuple[bytes | None, float]:
    """What came of it, and after how long."""
    began_s = load.now_s
    left = AnswerTime(load, DEADLINE_S, lambda: load.now_s)  # type: ignore[arg-type]
    return left.receive(load.receive), load.now_s - began_s


@pytest.mark.parametrize("share", [1.0, 0.5, 0.1])
def test_who_needs_less_of_a_processor_is_waited_for(share: float) -> None:
    """However small its share of one is."""
    data, took_s = _asked(Load(share, 0.9 * DEADLINE_S))
    assert data == b"answer"
    assert took_s == pytest.approx(0.9 * DEADLINE_S / share)


def test_who_hangs_has_the_deadline() -> None:
    """It waits for no processor: nothing is added."""
    data, took_s = _asked(Load(0.0, None, ready=False))
    assert data is None
    assert took_s == pytest.approx(DEADLINE_S, abs=2 * LOOK_S)


@pytest.mark.parametrize("share", [0.3, 0.01, 0.0])
def test_there_is_an_end_for_everybody(share: float) -> None:
    """Who computes without end has the deadline on a processor, and at most some times as long."""
    data, took_s = _asked(Load(share, None))
    assert data is None
    assert took_s <= MAX_STRETCH * DEADLINE_S + 2 * LOOK_S
    assert took_s >= min(DEADLINE_S / max(share, 1e-9), MAX_STRETCH * DEADLINE_S) - 2 * LOOK_S


def test_a_process_that_was_stopped_itself_says_how_late_it_woke() -> None:
    """A control group that was frozen stops both."""
    load = Load(0.0, None, ready=False)
    answers: Iterator[bytes | None] = iter([None, b"answer"])

    def receive(seconds: float) -> bytes | None:
        load.now_s += seconds + 5.0
        return next(answers)

    AnswerTime(load, DEADLINE_S, lambda: load.now_s).receive(receive)  # type: ignore[arg-type]
    assert load.late_ns == pytest.approx(5e9)
