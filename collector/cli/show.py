"""What ``tocsin read`` prints: a table for people, JSON lines, Prometheus text."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from collector.cli import terminal
from collector.config.settings import Config
from pipeline.catalog import KINDS, fields_of
from pipeline.clock import SystemClock
from pipeline.exposition import Exposition
from pipeline.frame import Device, Frame
from pipeline.observation import Event, Observation
from pipeline.selfmetrics import SelfMetrics
from pipeline.text_table import GAP

Form = Callable[[Sequence[Observation], Config], Iterator[str]]


def prometheus(taken: Sequence[Observation], config: Config) -> Iterator[str]:
    """The page that a scrape would get."""
    page = Exposition(SelfMetrics(), clock=SystemClock(), profile=config.exposition.profile)
    for one in taken:
        page.write(one, ())
    yield page.render().decode()


def json_lines(taken: Sequence[Observation], _config: Config) -> Iterator[str]:
    """One line per device with its observed native values, one per event, one per
    thing that could not be read.
    """
    for one in taken:
        for frame in one.frames:
            for device, values in frame.records():
                yield _line(
                    one,
                    frame.time_ns,
                    device,
                    {"attributes": dict(device.attributes), "values": values},
                )
        for event in one.events:
            yield _line(
                one,
                event.time_ns,
                event.device,
                {"event": event.kind, "attributes": dict(event.attributes)},
            )
        for unread in one.unread:
            place = {
                name: value
                for name, value in (("device", unread.device), ("field", unread.field))
                if value
            }
            yield json.dumps({"source": one.source, "unread": unread.reason, **place}) + "\n"


def table(taken: Sequence[Observation], _config: Config) -> Iterator[str]:
    """Devices side by side, one line per field, in native units; then events
    and what could not be read.
    """
    width = shutil.get_terminal_size((160, 50)).columns
    for one in taken:
        for frame in one.frames:
            yield from _grid(frame, width)
        for event in one.events:
            yield f"{_time(event.time_ns)}  {event.kind}  {_name(event.device)}  {_said(event)}\n"
        for reason, count in _counted(one):
            yield f"{one.source}: {count} not read: {reason}\n"


def _line(one: Observation, time_ns: int, device: Device, rest: Mapping[str, Any]) -> str:
    head = {
        "time": _time(time_ns),
        "source": one.source,
        "host": device.host,
        "kind": device.kind,
        "device": device.id,
    }
    return json.dumps({**head, **rest}) + "\n"


def _time(time_ns: int) -> str:
    whole = datetime.fromtimestamp(time_ns // 1_000_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{whole}.{time_ns % 1_000_000_000 // 1000:06d}Z"


def _grid(frame: Frame, width: int) -> Iterator[str]:
    """Columns are devices, as many at a time as fit."""
    cells = {
        field.name: [_cell(frame, field.name, row) for row in range(len(frame.devices))]
        for field in fields_of(frame.kind)
    }
    rows = {name: values for name, values in cells.items() if any(values)}
    if not rows:
        return
    head = [_name(device) for device in frame.devices]
    first = max(map(len, (*rows, frame.kind)))
    each = max(len(text) for values in (head, *rows.values()) for text in values)
    at_once = max((width - first) // (each + len(GAP)), 1)
    for start in range(0, len(head), at_once):
        part = slice(start, start + at_once)
        body = [
            (name, *((text or "-").rjust(each) for text in values[part]))
            for name, values in rows.items()
        ]
        right = (False, *(True for _ in head[part]))
        yield from terminal.table((frame.kind, *head[part]), body, right)
        yield "\n"


def _cell(frame: Frame, name: str, row: int) -> str:
    value = frame.value(name, row)
    if value is None:
        return ""
    states = next(field.states for field in fields_of(frame.kind) if field.name == name)
    return (
        dict(states).get(int(value), "")
        if states
        else f"{value:.15g}"
        if isinstance(value, float)
        else str(value)
    )


def _name(device: Device) -> str:
    """What people call a device: its index, or device and port; the identity
    where there is no such thing.
    """
    facts = [
        device.id if fact == "@id" else device.attributes.get(fact, "")
        for label, fact in KINDS[device.kind].labels
        if label != "uuid"
    ]
    return terminal.plain("/".join(fact for fact in facts if fact) or device.id)


def _said(event: Event) -> str:
    return terminal.plain(" ".join(f"{name}={value}" for name, value in event.attributes.items()))


def _counted(one: Observation) -> list[tuple[str, int]]:
    reasons: dict[str, int] = {}
    for unread in one.unread:
        reasons[unread.reason] = reasons.get(unread.reason, 0) + 1
    return list(reasons.items())


FORMS: Mapping[str, Form] = {"table": table, "json": json_lines, "prometheus": prometheus}
