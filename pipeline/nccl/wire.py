"""Reports and hits as events, so that the store keeps them and replay gives
them to the same detector.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from types import MappingProxyType
from typing import Any

from pipeline.frame import Device
from pipeline.nccl.hit import Hit
from pipeline.nccl.member import Member, Operation, Sharing, Timing, Transfer
from pipeline.nccl.report import Communicator, Discard, Group, PeerEvent, Process, Report, Unlisted
from pipeline.observation import Event, Value

_encode = json.JSONEncoder(separators=(",", ":")).encode

REPORT, COMMUNICATOR, LINE = "nccl_report", "nccl_communicator", "nccl_line"


class WireError(ValueError):
    """An event does not hold what it should: stored by another version, or damaged."""


def events_of(report: Report, device: Device, time_ns: int, mono_ns: int = 0) -> tuple[Event, ...]:
    """A report as one event, followed by one per communicator; all bear the same ``report``.

    ``device`` is what the events are about (the node, or the job), ``time_ns`` when
    it was read, in unix time.

    >>> told = Report(
    ...     "ras", "127.0.0.1:28028", communicators=(Communicator("c0", 2, (Member(0), Member(1))),)
    ... )
    >>> [report for report, _ in reports_in(events_of(told, Device("n1", "node", "n1"), 5000))] == [
    ...     told
    ... ]
    True
    """
    # Job and process are part of it: two jobs may have the same address, or equal file names.
    name = f"{device.host}:{time_ns}:{report.teller}:{report.origin}:{report.job}:{report.pid}"
    head: dict[str, Value] = {
        "report": name,
        "teller": report.teller,
        "job": report.job,
        "communicators": len(report.communicators),
        "distrust": report.distrust,
        "nccl": report.nccl,
        "document": _dump(asdict(replace(report, communicators=()))),
    }
    events = [Event(time_ns, mono_ns, device, REPORT, {k: v for k, v in head.items() if v != ""})]
    for communicator in report.communicators:
        facts: dict[str, Value] = {
            "report": name,
            "communicator": communicator.id,
            "size": communicator.size,
            "document": _document(communicator),
        }
        events.append(Event(time_ns, mono_ns, device, COMMUNICATOR, facts))
    return tuple(events)


def reports_in(events: Iterable[Event]) -> Iterator[tuple[Report, Event]]:
    """The reports that events of one observation hold, each with its first event.

    WireError where they do not hold together.
    """
    heads: dict[str, Event] = {}
    sharing = Sharing()
    parts: dict[str, list[Communicator]] = {}
    for event in events:
        name = str(event.attributes.get("report", ""))
        if event.kind == REPORT:
            heads[name] = event
        elif event.kind == COMMUNICATOR:
            parts.setdefault(name, []).append(_communicator(_load(event), sharing))
    for name, head in heads.items():
        found = tuple(parts.get(name, ()))
        if len(found) != head.attributes.get("communicators"):
            raise WireError(
                f"report {name}: {len(found)} communicators, its head says "
                f"{head.attributes.get('communicators')}"
            )
        yield replace(_report(_load(head)), communicators=found), head


def line_event(hit: Hit, device: Device, time_ns: int, mono_ns: int = 0, job: str = "") -> Event:
    """A hit as an event.

    ``time_ns`` is when it was read, and counts where the line bears no time of its own.
    """
    facts: dict[str, Any] = {
        "pattern": hit.name,
        "layer": hit.layer,
        "blame": hit.blame,
        "job": job,
        "rank": hit.world_rank if hit.world_rank >= 0 else None,
        "pid": hit.pid if hit.pid >= 0 else None,
        "document": packed(hit),
        "text": hit.text,
    }
    kept = {name: value for name, value in facts.items() if value is not None and value != ""}
    return Event(hit.time_ns or time_ns, 0 if hit.time_ns else mono_ns, device, LINE, kept)


def hit_of(event: Event) -> Hit:
    """The hit of a ``nccl_line`` event. WireError where it holds none."""
    return _hit(_load(event))


def _hit(document: dict[str, Any]) -> Hit:
    try:
        return Hit(
            **{
                **document,
                "fields": MappingProxyType({str(k): str(v) for k, v in document["fields"].items()}),
            }
        )
    except (TypeError, KeyError, AttributeError) as error:
        raise WireError(f"{LINE}: {error}") from error


def packed(value: Report | Hit) -> str:
    """A whole report or hit as JSON, for a detector's memory."""
    slots = Hit.__slots__ if isinstance(value, Hit) else ()
    return _dump({slot: getattr(value, slot) for slot in slots} if slots else asdict(value))


def unpacked_report(text: str) -> Report:
    """The report of ``packed``. WireError where it is none."""
    document = _object(text, REPORT)
    communicators = document.pop("communicators", ())
    sharing = Sharing()
    found = tuple(_communicator(communicator, sharing) for communicator in communicators)
    return replace(_report(document), communicators=found)


def unpacked_hit(text: str) -> Hit:
    """The hit of ``packed``. WireError where it is none."""
    return _hit(_object(text, LINE))


def _document(communicator: Communicator) -> str:
    """``_dump`` of a communicator, member by member: of 65,536 members all at once as dictionaries
    take 70 MiB.
    """
    parts = []
    for slot in Communicator.__slots__:
        value = getattr(communicator, slot)
        if slot == "members" and value:
            members = ",".join(_encode(_plain(member)) for member in value)
            parts.append(f'"members":[{members}]')
        elif value != ():
            parts.append(_encode({slot: _plain(value)})[1:-1])
    return "{" + ",".join(parts) + "}"


def _plain(value: Any) -> Any:
    """As ``asdict``, without its copies and without empty lists: ranks are many."""
    if isinstance(value, tuple):
        return [_plain(v) for v in value] if value and _is_row(value[0]) else value
    if not _is_row(value):
        return value
    rows = ((slot, getattr(value, slot)) for slot in type(value).__slots__)
    return {slot: _plain(v) for slot, v in rows if v != ()}


def _is_row(value: object) -> bool:
    return hasattr(type(value), "__dataclass_fields__")


def _dump(document: Mapping[str, Any]) -> str:
    """Compact JSON without empty lists.

    Not-a-number stands as ``NaN``, which Python reads again.
    """
    return _encode(_lean(document))


def _lean(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _lean(v) for name, v in value.items() if not (isinstance(v, tuple) and not v)}
    if isinstance(value, tuple):
        return [_lean(v) for v in value]
    return value


def _load(event: Event) -> dict[str, Any]:
    return _object(str(event.attributes.get("document", "")), event.kind)


def _object(text: str, kind: str) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise WireError(f"{kind}: {error}") from error
    if not isinstance(document, dict):
        raise WireError(f"{kind}: its document is no object")
    return document


def _report(given: dict[str, Any]) -> Report:
    try:
        return Report(
            **{
                **given,
                "groups": tuple(
                    Group(**{**g, "errors": tuple(g.get("errors", ()))})
                    for g in given.get("groups", ())
                ),
                "missing": tuple(map(_process, given.get("missing", ()))),
                "dead": tuple(map(_process, given.get("dead", ()))),
                "peers": tuple(
                    PeerEvent(**{**p, "peer": _process(p["peer"])}) for p in given.get("peers", ())
                ),
                "parsed": _pairs(given.get("parsed", ())),
                "discarded": tuple(Discard(**d) for d in given.get("discarded", ())),
            }
        )
    except (TypeError, KeyError, ValueError) as error:
        raise WireError(f"{REPORT}: {error}") from error


def _process(given: dict[str, Any]) -> Process:
    return Process(**{**given, "gpus": tuple(given.get("gpus", ()))})


def _communicator(given: dict[str, Any], sharing: Sharing) -> Communicator:
    try:
        return Communicator(
            **{
                **given,
                "members": tuple(sharing.member(_member(m)) for m in given.get("members", ())),
                "ranks": tuple(given.get("ranks", ())),
                "unlisted": tuple(Unlisted(**u) for u in given.get("unlisted", ())),
            }
        )
    except (TypeError, KeyError, ValueError) as error:
        raise WireError(f"{COMMUNICATOR}: {error}") from error


def _member(given: dict[str, Any]) -> Member:
    counts = {name: _pairs(given.get(name, ())) for name in ("launched", "started", "completed")}
    operations = tuple(
        Operation(
            **{
                **o,
                "dtypes": tuple(o.get("dtypes", ())),
                "sizes": tuple(tuple(s) for s in o.get("sizes", ())),
            }
        )
        for o in given.get("operations", ())
    )
    return Member(
        **{
            **given,
            **counts,
            "operations": operations,
            "transfers": tuple(Transfer(**t) for t in given.get("transfers", ())),
            "timings": tuple(Timing(**t) for t in given.get("timings", ())),
        }
    )


def _pairs(rows: Sequence[Sequence[Any]]) -> tuple[tuple[str, int], ...]:
    return tuple((str(name), int(count)) for name, count in rows)
