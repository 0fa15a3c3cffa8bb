"""Being told to end by a signal, whatever the main thread does at that moment."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from collector.cli.stop import SignalStop
from tests.wait import PATIENCE_S


@pytest.fixture(autouse=True)
def _signals() -> Iterator[None]:
    """The handlers of the test process come back."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_wait(number: signal.Signals) -> None:
    """Who waits goes on, and never waits again."""
    ending = SignalStop().on_signals()
    assert not ending.wait(0)
    os.kill(os.getpid(), number)
    assert ending.wait(PATIENCE_S)
    assert ending.wait(0)
    assert ending.is_set()


def test_it_may_be_told_more_than_once() -> None:
    """An impatient operator's second signal is no error."""
    ending = SignalStop()
    ending.set()
    ending.set()
    assert ending.wait(0)


def test_it_may_be_told_while_it_is_being_told() -> None:
    """A signal that arrives amid its own handling waits for no lock."""
    ending = SignalStop().on_signals()
    before = signal.getsignal(signal.SIGTERM)
    assert callable(before)
    before(signal.SIGTERM, None)
    os.kill(os.getpid(), signal.SIGTERM)
    assert ending.wait(PATIENCE_S)
