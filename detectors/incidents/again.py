"""How often the root cause of an incident has happened: the second time is news."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import NamedTuple

from detectors.incidents.evidence import Evidence, identity, reported
from pipeline.clock import SECOND_NS
from pipeline.finding import Finding
from pipeline.frame import Device

MAX_SINGLY = 8  # each further time is reported so often, then whenever they have doubled


class Occurrences(NamedTuple):
    """How often, and when last, unix ns; 0 for once."""

    times: int = 1
    again_ns: int = 0

    def due(self, said: int) -> bool:
        """Whether they are to be reported, after ``said`` times were.

        >>> [Occurrences(n).due(n - 1) for n in (1, 2, 9)], Occurrences(18).due(9)
        ([False, True, False], True)
        """
        return self.times > max(said, 1) and (self.times <= MAX_SINGLY or self.times >= 2 * said)

    def words(self) -> str:
        """A sentence, empty where it happened once.

        >>> Occurrences(2, 1_772_409_600 * 10**9).words()
        ' It has happened 2 times, the last at 2026-03-02 00:00:00 UTC.'
        """
        if self.times <= 1:
            return ""
        last = datetime.fromtimestamp(self.again_ns // SECOND_NS, UTC)
        return f" It has happened {self.times} times, the last at {last:%Y-%m-%d %H:%M:%S} UTC."


def occurrences(root: Device, evidence: Iterable[Evidence]) -> Occurrences:
    """Of the fault of the root device that happened most often while the incident was open, whether
    the finding stayed open or a further one began.
    """
    about = [one for one in evidence if identity(one.device) == identity(root) and reported(one)]
    times = Counter[str]()
    for one in about:
        times[one.finding.fault] += one.finding.times
    if not times:
        return Occurrences()
    fault, most = times.most_common(1)[0]
    last_ns = max(_last_ns(one.finding) for one in about if one.finding.fault == fault)
    return Occurrences(most, last_ns) if most > 1 else Occurrences()


def happened_again(finding: Finding, evidence: Iterable[Evidence]) -> bool:
    """Whether a finding is the next time of what is among the evidence."""
    same = [
        one.finding
        for one in evidence
        if one.device == finding.device and one.finding.fault == finding.fault
    ]
    known = next((one for one in same if one.id == finding.id), None)
    return finding.times > known.times if known is not None else bool(same)


def _last_ns(finding: Finding) -> int:
    return finding.again_ns or finding.onset_ns
