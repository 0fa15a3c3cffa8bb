"""What is reported broken of each device: how often, since when, and whether it has recovered."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from detectors.kit.snapshot import State
from detectors.kit.stateful import Commit, from_text_array, text_array
from pipeline.documents import exact
from pipeline.frame import Device

MAX_THINGS = 1024  # things of all devices; the one silent for longest makes room
MAX_TIMES = 128  # counts of one thing


Key = tuple[Device, str, str, int]


@dataclass(slots=True)
class Thing:
    """One thing of a device that has one fault.

    ``counts`` are (time, number of errors) of its events, ``first_ns`` and ``last_ns`` on the clock
    of durations; ``onset_ns`` is when the first of those that count happened, unix; whether it
    was ``reported``.
    """

    device: Device
    fault: str
    name: str
    first_ns: int
    last_ns: int
    onset_ns: int
    rule: int
    words: str = ""
    text: str = ""
    counts: list[tuple[int, int]] = field(default_factory=list)
    reported: bool = False
    quiet_ns: int = 0  # before its last event; not kept over a restart

    @property
    def key(self) -> Key:
        """One thing for each rule that counts it."""
        return self.device, self.fault, self.name, self.rule

    def within(self, window_s: float, now_ns: int) -> int:
        """How many errors of the window."""
        return sum(n for at, n in self.counts if now_ns - at <= window_s * 1e9)


class Things:
    """All of them."""

    def __init__(self) -> None:
        self._known: dict[Key, Thing] = {}

    def add(self, thing: Thing, number: int) -> Thing:
        """Another event of a thing, now."""
        known = self._known.pop(thing.key, thing)
        known.quiet_ns = thing.last_ns - known.last_ns
        known.last_ns, known.text = thing.last_ns, thing.text
        known.counts = [*known.counts, (thing.last_ns, number)][-MAX_TIMES:]
        self._known[thing.key] = known
        if len(self._known) > MAX_THINGS:
            del self._known[next(iter(self._known))]
        return known

    def is_empty(self) -> bool:
        """Whether none is known."""
        return not self._known

    def all(self) -> Iterator[Thing]:
        """Those that are known, the one silent for longest first."""
        return iter(tuple(self._known.values()))

    def reported(self, device: Device, fault: str) -> Iterator[Thing]:
        """Those of a device and fault that were reported."""
        return (one for one in self.all() if one.reported and one.key[:2] == (device, fault))

    def left(self, device: Device, fault: str) -> bool:
        """Whether anything of a device still has this fault."""
        return any(key[:2] == (device, fault) for key in self._known)

    def forget(self, thing: Thing) -> None:
        """It has recovered, or nothing was reported of it for long."""
        self._known.pop(thing.key, None)

    def state(self) -> State:
        """All of it."""
        rows = [
            [
                exact(one.device),
                one.fault,
                one.name,
                one.first_ns,
                one.last_ns,
                one.onset_ns,
                one.rule,
                one.words,
                one.text,
                [list(each) for each in one.counts],
                one.reported,
            ]
            for one in self._known.values()
        ]
        return {"known": text_array(rows)}

    def prepare(self, state: State) -> Commit:
        """KeyError, ValueError or TypeError where it is not that."""
        known: dict[Key, Thing] = {}
        for device, fault, name, first, last, onset, rule, words, text, *more in from_text_array(
            state["known"]
        ):
            counts, reported = more
            one = Thing(
                Device(**device),
                str(fault),
                str(name),
                int(first),
                int(last),
                int(onset),
                int(rule),
                str(words),
                str(text),
                [(int(at), int(n)) for at, n in counts],
                bool(reported),
            )
            known[one.key] = one

        def commit() -> None:
            self._known = known

        return commit
