"""The gateway's own store: what it found, and the arrival cut that a replay needs to find the same.

Each gateway writes what it judged below its own ``storage.path``, whichever reports. Ids are made
from what was found, and the names of files hold a random start: what two gateways store of one
cluster can be put into one place, where the same incident has the same id.
"""

from __future__ import annotations

import secrets
from itertools import chain, count

from gateway.fleet import JudgedSecond
from pipeline.arrival_cut import GATEWAY
from pipeline.clock import SECOND_NS, Clock
from pipeline.interfaces import Sink
from pipeline.observation import Observation

START_BYTES = 8


class Verdicts:
    """Hands an observation per second in which something was found, or hosts came or went, to the
    store; the readings themselves are in the stores of the agents.
    """

    def __init__(self, store: Sink, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._start, self._numbers = secrets.token_hex(START_BYTES), count()

    def write(self, second: JudgedSecond) -> None:
        """Store what there is of a second."""
        findings = tuple(chain.from_iterable(each.findings for each in second.judged))
        incidents = tuple(chain.from_iterable(each.incidents for each in second.judged))
        if not (findings or incidents or second.events):
            return
        observation = Observation(
            GATEWAY,
            GATEWAY,
            self._start,
            next(self._numbers),
            second.second * SECOND_NS,
            self._clock.monotonic_ns(),
            0,
            events=second.events,
        )
        self._store.write(observation, findings, incidents)
