"""The verdict on the node in one sentence: the root cause and the next step, that all is healthy,
or that it is unknown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from collector.web import levels
from collector.web.levels import Level


def verdict(document: Mapping[str, Any]) -> dict[str, Any]:
    """``level``, the sentence ``text``, and ``action``, the next step (null where there is
    none), of a status document.
    """
    level, text, action = (
        _incident(document)
        or _blind(document)
        or _out(document)
        or _devices(document)
        or _agent(document)
        or _healthy(document)
    )
    return {"level": level, "text": text, "action": action}


def names(document: Mapping[str, Any]) -> dict[str, str]:
    """Display name of each device, by its id; the document of an incident brings its own."""
    if "names" in document:
        return dict(document["names"])
    gpus = {gpu["id"]: f"GPU {gpu['index']}" for gpu in document["gpus"]}
    ports = {port["id"]: f"port {port['name']}/{port['index']}" for port in document["ports"]}
    return {document["host"]: "this node"} | gpus | ports


def name(row: Mapping[str, Any], document: Mapping[str, Any]) -> str:
    """Display name of the device of an incident, a finding or a maintenance."""
    called = names(document)
    if row["kind"] == "nvlink":
        gpu, _, link = row["device"].rpartition("/")
        return f"NVLink {link} of {called.get(gpu, gpu)}"
    return called.get(row["device"], f"{row['kind']} {row['device']}")


def title(incident: Mapping[str, Any]) -> str:
    """The device of an incident with its node.

    >>> title({"kind": "gpu", "name": "GPU 3", "host": "node07"})
    'GPU 3 on node07'
    >>> title({"kind": "node", "name": "node node07", "host": "node07"})
    'Node node07'
    """
    name, host = str(incident["name"]), incident["host"]
    return _upper(name if host in ("", name.partition(" ")[2]) else f"{name} on {host}")


def identity(incident: Mapping[str, Any]) -> str:
    """Where it is and which part: rack and serial, as far as they are known.

    >>> identity({"rack": "R12", "serial": "1652"}), identity({"rack": None, "serial": None})
    ('rack R12, serial 1652', '')
    """
    return ", ".join(f"{key} {incident[key]}" for key in ("rack", "serial") if incident[key])


def cause(incident: Mapping[str, Any]) -> str:
    """The cause of an incident without the device id in front: its title is shown before it.

    >>> cause({"kind": "gpu", "device": "GPU-1", "cause": "gpu GPU-1: It left."})
    'It left.'
    """
    return str(incident["cause"]).removeprefix(f"{incident['kind']} {incident['device']}: ")


def blind(document: Mapping[str, Any]) -> list[str]:
    """Sources whose last read gave nothing, or that are late."""
    return [
        source["name"] for source in document["sources"] if not source["success"] or source["late"]
    ]


def degraded_parts(document: Mapping[str, Any]) -> list[str]:
    """Parts of the agent that are degraded."""
    return [part["name"] for part in document["agent"] if not part["ok"]]


Verdict = tuple[Level, str, str | None]  # level, text, action


def _incident(document: Mapping[str, Any]) -> Verdict | None:
    incidents = document["incidents"]
    if not incidents:
        return None
    first = next(
        (
            one
            for one in incidents
            if one["severity"] == incidents[0]["severity"] and not one["acknowledged"]
        ),
        incidents[0],
    )
    taken = (
        f" Acknowledged by {first['acknowledged_by'] or 'an operator'}."
        if first["acknowledged"]
        else ""
    )
    more = len(incidents) - 1
    others = (
        f" {_count(more, 'more incident')} {'is' if more == 1 else 'are'} open." if more else ""
    )
    about = [identity(first), "" if first["severity"] != "record" else "info, no alert"]
    note = f" ({', '.join(filter(None, about))})" if any(about) else ""
    over = "" if first["true_now"] else " No longer true now."
    return (
        levels.SEVERITY[first["severity"]],
        f"{title(first)}{note}: {cause(first)}{over}{taken}{others}",
        first["reason"] or None,
    )


def _blind(document: Mapping[str, Any]) -> Verdict | None:
    if document["unready_reason"]:
        return "blind", f"No verdict yet: {document['unready_reason'].rstrip('.')}.", None
    if missing := blind(document):
        return (
            "blind",
            f"Incomplete view of this node: no data from {listed(missing)}.",
            None,
        )
    return None


def _out(document: Mapping[str, Any]) -> Verdict | None:
    out = next((out for out in document["maintenance"] if out["kind"] == "node"), None)
    return None if out is None else ("out", f"This node is out of service: {out['reason']}", None)


def _devices(document: Mapping[str, Any]) -> Verdict | None:
    cells = unexplained(document)
    return (
        (cells[0][0], f"No incident is open, but {listed([text for _, text in cells])}.", None)
        if cells
        else None
    )


def unexplained(document: Mapping[str, Any]) -> list[tuple[Level, str]]:
    """Devices that are not healthy and belong to no open incident, the gravest first: level and
    text.
    """
    roots = {incident["device"] for incident in document["incidents"]}
    explained = {
        member["device"] for incident in document["incidents"] for member in incident["standing"]
    }
    called, cells = names(document), []
    for rows, level_of in ((document["gpus"], levels.gpu), (document["ports"], levels.port)):
        for row in rows:
            level, word = level_of(row, document)
            if level in ("bad", "warn", "blind") and row["id"] not in roots | explained:
                cells.append((level, f"{called[row['id']]} is {word}"))
    return sorted(cells, key=lambda cell: levels.WORST_FIRST.index(cell[0]))


def listed(words: Sequence[str], most: int = 3) -> str:
    """The first ``most`` of them, and how many more there are.

    >>> listed(["a"]), listed(["a", "b"]), listed(["a", "b", "c", "d", "e"])
    ('a', 'a and b', 'a, b, c and 2 more')
    """
    shown = list(words[:most]) + ([f"{len(words) - most} more"] if len(words) > most else [])
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def _agent(document: Mapping[str, Any]) -> Verdict | None:
    degraded = degraded_parts(document)
    return (
        (
            "warn",
            f"No incident is open, but the agent itself is degraded: {listed(degraded)}.",
            None,
        )
        if degraded
        else None
    )


def _healthy(document: Mapping[str, Any]) -> Verdict:
    if not document["gpus"] and not document["ports"]:
        return "blind", "No GPU and no port found.", None
    gpus, ports = (
        sum(gpu["state"] != "passthrough" for gpu in document["gpus"]),
        len(document["ports"]),
    )
    read = _upper(f"{_count(gpus, 'GPU')} and {_count(ports, 'port')} monitored")
    if document["findings"]:
        return (
            "note",
            f"No action needed. {read}; {_count(len(document['findings']), 'open finding')}.",
            None,
        )
    return "ok", f"Healthy. {read}, no open findings.", None


def _count(number: int, what: str) -> str:
    return f"{number or 'no'} {what}{'' if number == 1 else 's'}"


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]
