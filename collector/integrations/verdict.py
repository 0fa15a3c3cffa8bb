"""The node in one word for schedulers: ok, problem or unknown, and the incidents behind it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal

from collector.foreign_text import printable
from collector.node.out_of_service import Out
from pipeline.exposition import Snapshot
from pipeline.finding import SEVERITIES, Incident
from pipeline.frame import Attributes, Device
from pipeline.gpu_parts import gpu_of

State = Literal["ok", "problem", "unknown"]
MAX_INCIDENTS = 20  # the gravest; an answer fits one line of the socket (collector/control.py)
MAX_OPEN = 500  # ids, the gravest first; as many as /metrics shows
MAX_TEXT = 300  # characters of a summary or reason, which may quote what a kernel log said
MAX_NAMED, MAX_NAME = 6, 34  # other devices in a reason, and characters of each
# Findings about other kinds (a job, a rack) speak of more than this node: no
# integration of a node acts on them.
OF_A_NODE = frozenset({"node", "gpu", "gpu_instance", "nvlink", "nvswitch", "ib_port"})
# Whose readings must be fresh for a word about them to count; what is read of the
# others comes with these.
READ = {
    "gpu": "gpu",
    "gpu_instance": "gpu",
    "nvlink": "gpu",
    "nvswitch": "gpu",
    "ib_port": "ib_port",
}


def verdict(
    host: str,
    snapshot: Snapshot,
    incidents: Sequence[Incident],
    out: Iterable[Out],
    *,
    dead: str,
    unready: str,
    now_ns: int,
) -> dict[str, Any]:
    """``dead`` says why the agent judges nothing, ``unready`` what it has not read yet; both are
    empty while all is well.

    No data is never a fault, and never health: it is ``unknown``. What stands about devices that
    are being read counts all the same.

    ``open`` has the ids of all open incidents of the host: what is missing there is over, what is
    missing in ``incidents`` may only be unread or out of service. ``severity`` is the gravest of
    the open incidents whose devices are being read and in service, null without any.
    """
    away = {one.device for one in out}
    node_out = next((one for one in out if one.kind == "node"), None)
    standing = [
        i
        for i in incidents
        if i.root.host == host
        and i.root.kind in OF_A_NODE
        and i.root not in away
        and Device(host, "gpu", gpu_of(i.root)) not in away  # who works on it takes its links down
    ]
    seen = [i for i in standing if _is_read(i.root, snapshot)]
    worst = max((i.severity for i in seen), key=SEVERITIES.index, default=None)
    state, reason = _word(
        seen,
        snapshot,
        unseen=len(standing) - len(seen),
        dead=dead,
        blind=unready or _silent(snapshot),
    )
    return {
        "host": host,
        "time": _time(now_ns),
        "verdict": state,
        "reason": reason[:MAX_TEXT],
        "severity": worst,
        "out_of_service": text(node_out.reason)[:MAX_TEXT] if node_out is not None else None,
        "open": [i.id for i in incidents if i.root.host == host][:MAX_OPEN],
        "incidents": [incident(i, snapshot.facts(i.root)) for i in seen[:MAX_INCIDENTS]],
    }


def incident(one: Incident, facts: Attributes) -> dict[str, Any]:
    """An incident as an integration needs it: what, which part, severity, action."""
    return {
        "id": one.id,
        "severity": one.severity,
        "action": one.action,
        "class": one.fault,
        "kind": one.root.kind,
        "device": text(one.root.id)[:MAX_TEXT],
        "name": text(called(one.root, facts))[:MAX_TEXT],
        "serial": text(facts.get("serial", ""))[:MAX_NAME],
        "since": _time(one.opened_ns),
        "summary": text(one.summary)[:MAX_TEXT],
        "acknowledged": bool(one.acknowledged_ns),
    }


def called(device: Device, facts: Attributes) -> str:
    """As people call it: ``GPU 3``, ``mlx5_5/1``, ``NVLink 4 of GPU 3``.

    >>> called(Device("n1", "gpu", "GPU-8a"), {"index": "3"})
    'GPU 3'
    """
    names: Mapping[str, str] = {
        "gpu": f"GPU {facts.get('index', '')}",
        "ib_port": f"{facts.get('device', '')}/{facts.get('port', '')}",
        "nvlink": f"NVLink {facts.get('link', '')} of GPU {facts.get('index', '')}",
    }
    name = names.get(device.kind, "")
    return (
        name
        if name.strip("/ ") not in ("", "GPU", "NVLink  of GPU")
        else f"{device.kind} {device.id}"
    )


def text(value: str) -> str:
    """One line; what is no printable character (an undecodable byte of a file or log, which JSON
    has no place for; an escape, which a terminal would obey) becomes ``?``.
    """
    line = " ".join(value.split())
    return printable(line, len(line))


def _word(
    seen: Sequence[Incident], snapshot: Snapshot, *, unseen: int, dead: str, blind: str
) -> tuple[State, str]:
    if dead:
        return "unknown", dead
    reported = [i for i in seen if i.severity != "record"]
    if reported:
        first, *others = sorted(reported, key=lambda i: -SEVERITIES.index(i.severity))
        return "problem", _named(first, others, snapshot)
    if blind:
        return "unknown", blind
    if unseen:
        return "unknown", f"{unseen} open incidents are on devices that are not being read"
    return "ok", "no problems found on this node"


def _named(first: Incident, others: Sequence[Incident], snapshot: Snapshot) -> str:
    """The gravest in words, and each other device by name, however long the words are."""
    devices = [
        f"{text(called(i.root, snapshot.facts(i.root)))} ({i.fault})"[:MAX_NAME] for i in others
    ]
    names = f" Also: {', '.join(devices[:MAX_NAMED])}" if devices else ""
    more = f" and {len(devices) - MAX_NAMED} more" if len(devices) > MAX_NAMED else ""
    room = MAX_TEXT - len(names) - len(more)
    name = text(called(first.root, snapshot.facts(first.root)))
    return f"{f'{name}: {text(first.summary)}'[:room]}{names}{more}"


def _is_read(device: Device, snapshot: Snapshot) -> bool:
    kind = READ.get(device.kind)
    return kind is None or any(entry.fresh for entry in snapshot.of(kind))


def _silent(snapshot: Snapshot) -> str:
    """Why nothing can be said: no device is read at all, or one kind of
    those that were is silent.
    """
    kinds = [kind for kind in ("gpu", "ib_port") if snapshot.of(kind)]
    stale = [kind for kind in kinds if not any(entry.fresh for entry in snapshot.of(kind))]
    if not kinds:
        return "no GPU or port has been read yet"
    return f"no fresh readings of {' and '.join(stale)}" if stale else ""


def _time(ns: int) -> str:
    return datetime.fromtimestamp(ns / 1e9, UTC).isoformat(timespec="seconds")
