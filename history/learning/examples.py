"""Labelled incidents: what a calibration is fitted on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from detectors.trust.ledger import APART_NS
from detectors.trust.openings import Opening, Openings


@dataclass(frozen=True, slots=True)
class Example:
    """An incident that opened: what was known then, and whether it was real; ``device`` is its
    root, whose incidents of one week are one observation.
    """

    opening: Opening
    numbers: Mapping[str, float]
    real: bool
    device: str = ""


def examples(
    openings: Iterable[tuple[Opening, bool | None, str]],
) -> Iterator[Example]:
    """Of incidents in the order in which they opened, with their verdict (None: no label) and root
    device. Those without a label count as history of the others.
    """
    before = Openings()
    for opening, real, device in openings:
        numbers = before.take(opening)
        if real is not None:
            yield Example(opening, numbers, real, device)


def apart(found: Sequence[Example]) -> list[Example]:
    """One a week of each device and fault: alerts of one device are hardly independent."""
    last: dict[tuple[str, str], int] = {}
    kept = []
    for one in found:
        key, at_ns = (one.device, one.opening.fault), one.opening.opened_ns
        if key not in last or abs(at_ns - last[key]) >= APART_NS:
            last[key] = at_ns
            kept.append(one)
    return kept
