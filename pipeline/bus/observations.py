"""Judged observations as plain values and back: the part of a batch that is not numbers.

A gateway believes a host about itself and nothing else, and no type of a value: what comes back is
what an agent could have made, or a ValueError.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from types import MappingProxyType
from typing import Any, NamedTuple, get_args

from pipeline.arrival import Arrival
from pipeline.block import AnyBlock
from pipeline.finding import SEVERITIES, Action, Finding, Incident, Phase
from pipeline.frame import Device
from pipeline.judged import JudgedObservation
from pipeline.observation import Event, Outcome, Unread
from pipeline.plain import finding_from, incident_from, plain, plain_event, value_from

LARGEST = (1 << 63) - 1  # of a time in nanoseconds, and of a number of an event
MAX_TEXT = 64 << 10  # characters of one text
# But of this attribute of an event: what NCCL says of a communicator (pipeline/nccl/wire.py), 208
# characters a rank in replies of the simulated RAS: 60,000 ranks, more than a message of 1 MiB has.
DOCUMENT, MAX_DOCUMENT = "document", 12 << 20
TEXTS = ("source", "boot_id")
NUMBERS = ("seq", "time_ns", "mono_ns", "duration_ns")
OUTCOMES, PHASES, ACTIONS = get_args(Outcome), get_args(Phase), get_args(Action)


def plain_judged(judged: Sequence[JudgedObservation]) -> dict[str, Any]:
    """All of them but the frames, of which only the number: column by column, as most have nothing
    else to say; ``more`` has those that do, with their index.
    """
    seen = [one.observation for one in judged]
    columns = {name: [getattr(o, name) for o in seen] for name in (*TEXTS, *NUMBERS)}
    more = [
        [
            number,
            o.outcome,
            o.error,
            [plain_event(event) for event in o.events],
            [[u.reason, u.device, u.field] for u in o.unread],
            [plain(finding) for finding in findings],
            [plain(incident) for incident in incidents],
        ]
        for number, (o, findings, incidents) in enumerate(judged)
        if o.events or o.unread or o.outcome != "ok" or o.error or findings or incidents
    ]
    return {**columns, "frames": [len(o.frames) for o in seen], "more": more}


class Arrivals(NamedTuple):
    """Observations of a host in order, and the verdicts on some, by their index."""

    arrivals: tuple[Arrival, ...]
    verdicts: Mapping[int, tuple[tuple[Finding, ...], tuple[Incident, ...]]]


def arrivals_from(about: Any, host: str, frames: Sequence[tuple[AnyBlock, ...]]) -> Arrivals:
    """What ``plain_judged`` was given, with the frames of each.

    ValueError, TypeError or LookupError where it is not what a host may say.
    """
    texts, numbers = ([about[name] for name in names] for names in (TEXTS, NUMBERS))
    for value in set(chain.from_iterable(texts)):
        text(value)
    for column in numbers:
        wholes(column)
    sources, boots = texts
    seqs, times, monos, durations = numbers
    made = [
        Arrival(source, host, boot, seq, time_ns - time_ns % 1000, mono_ns, duration_ns, its)
        for source, boot, seq, time_ns, mono_ns, duration_ns, its in zip(
            sources, boots, seqs, times, monos, durations, frames, strict=True
        )
    ]
    verdicts = {}
    for number, outcome, error, events, unread, findings, incidents in about["more"]:
        made[whole(number)] = made[number]._replace(
            events=tuple(_event(each, host) for each in events),
            unread=tuple(Unread(*map(text, each)) for each in unread),
            outcome=_one_of(outcome, OUTCOMES),
            error=text(error),
        )
        found = tuple(_finding(each, host) for each in findings)
        verdicts[number] = found, tuple(map(incident_of, incidents))
    return Arrivals(tuple(made), verdicts)


def wholes(values: Sequence[Any]) -> None:
    """ValueError where one of them is not ``whole``."""
    is_good = set(map(type, values)) <= {int}
    if not is_good or min(values, default=0) < 0 or max(values, default=0) > LARGEST:
        for value in values:
            whole(value)


def device_from(values: Any, host: str) -> Device:
    """A device of this host: its credentials bind a host to its subject, and this its words."""
    of, kind, name, attributes = values
    if of != host:
        raise ValueError(f"{host} speaks of a device of {of!r:.80}")
    texts = (of, kind, name, *attributes, *attributes.values())
    if set(map(type, texts)) != {str} or max(map(len, texts)) > MAX_TEXT:
        for each in texts:
            text(each)
    return Device(of, kind, name, MappingProxyType(attributes))


def text(value: Any, most: int = MAX_TEXT) -> str:
    """A text of bounded length."""
    if not isinstance(value, str) or len(value) > most:
        raise ValueError(f"{value!r:.40} where a text belongs")
    return value


def whole(value: Any, least: int = 0) -> int:
    """A whole number that fits a time."""
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= LARGEST:
        raise ValueError(f"{value!r:.40} where a number from {least} belongs")
    return value


def _one_of(value: Any, known: tuple[str, ...]) -> Any:
    if value not in known:
        raise ValueError(f"{value!r:.40} is none of {', '.join(known)}")
    return value


def _event(values: Any, host: str) -> Event:
    time_ns, mono_ns, device, kind, attributes = values
    return Event(
        whole(time_ns),
        whole(mono_ns),
        device_from(device, host),
        text(kind),
        {
            text(k): _value(v, MAX_DOCUMENT if k == DOCUMENT else MAX_TEXT)
            for k, v in attributes.items()
        },
    )


def _value(plain: Any, most: int) -> Any:
    value = value_from(plain)
    if isinstance(value, str):
        return text(value, most)
    if isinstance(value, bool | float):
        return value
    return whole(value, least=-LARGEST)


def _finding(values: Any, host: str) -> Finding:
    found = finding_from(values)
    device_from(values[1], host)
    _one_of(found.severity, SEVERITIES)
    _one_of(found.phase, PHASES)
    _one_of(found.action, ACTIONS)
    for words in (found.detector, found.fault, found.summary, found.unit, *found.evidence):
        text(words)
    return found


def incident_of(values: Any) -> Incident:
    """An incident. Its root may be another host's: what an agent knows of a job's other nodes."""
    found = incident_from(values)
    device_from(values[1], found.root.host)
    _one_of(found.severity, SEVERITIES)
    _one_of(found.action, ACTIONS)
    for words in (found.id, found.fault, found.summary, found.reason, found.note, found.ended):
        text(words)
    for name in (*found.findings, *found.jobs):
        text(name)
    return found
