"""Which times the gateway goes by: the machine's and the broker's, or those of a rehearsal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from operator import attrgetter

from gateway.consumer import Message
from pipeline.clock import SECOND_NS, Clock, SystemClock

# While older seconds are judged nothing is reported: it is history, and may be over.
PRESENT_NS = 15 * SECOND_NS


@dataclass(frozen=True)
class Timing:
    """``stored_ns`` is when the broker stored a message (unix), ``broker_ns`` what a time of its
    clock is here. Seconds older than ``present_ns`` are history. ``by_messages``: messages alone
    close seconds, as in a catch-up; in a rehearsal the clock runs many times as fast, and a delay
    of the machine would be minutes.
    """

    clock: Clock = field(default_factory=SystemClock)
    stored_ns: Callable[[Message], int] = attrgetter("stored_ns")
    present_ns: int = PRESENT_NS
    by_messages: bool = False
    broker_ns: Callable[[int], int] = int
    shown: Clock | None = None  # what pages compare with, where that is another clock
