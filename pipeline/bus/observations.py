"""Judged observations as plain values and back: the part of a batch that is not numbers.

A gateway believes a host about itself and nothing else, and no type of a value: what comes back is
what an agent could have made, or a ValueError.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

from pipeline.finding import SEVERITIES, Action, Finding, Incident, Phase
from pipeline.frame import Device, Frame
from pipeline.judged import JudgedObservation
from pipeline.observation import Event, Observation, Outcome, Unread
from pipeline.plain import finding_from, incident_from, plain, plain_event, value_from

LARGEST = (1 << 63) - 1  # of a time in nanoseconds, and of a number of an event
MAX_TEXT = 64 << 10  # characters of one text
OUTCOMES, PHASES, ACTIONS = get_args(Outcome), get_args(Phase), get_args(Action)


def plain_judged(judged: JudgedObservation) -> list[Any]:
    """All of it but the frames, of which only the number."""
    o = judged.observation
    return [
        [o.source, o.boot_id, o.seq, o.time_ns, o.mono_ns, o.duration_ns, o.outcome, o.error],
        len(o.frames),
        [plain_event(e) for e in o.events],
        [[u.reason, u.device, u.field] for u in o.unread],
        [plain(f) for f in judged.findings],
        [plain(i) for i in judged.incidents],
    ]


def judged_from(about: Any, host: str, frames: Mapping[int, Frame]) -> JudgedObservation:
    """What ``plain_judged`` was given, with the frames by their place.

    ValueError or TypeError where it is not what a host may say.
    """
    when, number, events, unread, findings, incidents = about
    source, boot_id, seq, time_ns, mono_ns, duration_ns, outcome, error = when
    if len(frames) != whole(number):
        raise ValueError(f"observation {seq} lacks frames")
    observation = Observation(
        text(source),
        host,
        text(boot_id),
        whole(seq),
        whole(time_ns),
        whole(mono_ns),
        whole(duration_ns),
        frames=tuple(frames[n] for n in range(number)),
        events=tuple(_event(each, host) for each in events),
        unread=tuple(Unread(*map(text, each)) for each in unread),
        outcome=_one_of(outcome, OUTCOMES),
        error=text(error),
    )
    return JudgedObservation(
        observation,
        tuple(_finding(each, host) for each in findings),
        tuple(map(incident_of, incidents)),
    )


def device_from(values: Any, host: str) -> Device:
    """A device of this host: its credentials bind a host to its subject, and this its words."""
    of, kind, name, attributes = values
    if of != host:
        raise ValueError(f"{host} speaks of a device of {of!r:.80}")
    return Device(
        text(of), text(kind), text(name), {text(k): text(v) for k, v in attributes.items()}
    )


def text(value: Any) -> str:
    """A text of bounded length."""
    if not isinstance(value, str) or len(value) > MAX_TEXT:
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
        {text(k): _value(v) for k, v in attributes.items()},
    )


def _value(plain: Any) -> Any:
    value = value_from(plain)
    if isinstance(value, str):
        return text(value)
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
