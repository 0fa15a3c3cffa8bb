"""The node in one sentence: what is to blame and what to do, or that nothing is, or that nobody can tell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from collector.web import levels
from collector.web.levels import Level


def verdict(document: Mapping[str, Any]) -> dict[str, Any]:
    """``level``, the sentence ``text``, and ``action``, the next step (null where there is none), of a status document."""
    level, text, action = (
        _incident(document) or _blind(document) or _out(document) or _devices(document) or _agent(document) or _well(document)
    )
    return {"level": level, "text": text, "action": action}


def names(document: Mapping[str, Any]) -> dict[str, str]:
    """What people call a device, by its id."""
    gpus = {gpu["id"]: f"GPU {gpu['index']}" for gpu in document["gpus"]}
    ports = {port["id"]: f"port {port['name']}/{port['index']}" for port in document["ports"]}
    return {document["host"]: "this node"} | gpus | ports


def name(row: Mapping[str, Any], document: Mapping[str, Any]) -> str:
    """Of the device of an incident, a finding or a maintenance."""
    called = names(document)
    if row["kind"] == "nvlink":
        gpu, _, link = row["device"].rpartition("/")
        return f"NVLink {link} of {called.get(gpu, gpu)}"
    return called.get(row["device"], f"{row['kind']} {row['device']}")


def summary(incident: Mapping[str, Any]) -> str:
    """What is said of an incident, without the device's own name in front where there is one: it is called otherwise here.

    >>> summary({"kind": "gpu", "device": "GPU-1", "summary": "gpu GPU-1: It left. It explains 3 findings on 2 devices (xid)."})
    'It left. It explains 3 findings on 2 devices (xid).'
    """
    return str(incident["summary"]).removeprefix(f"{incident['kind']} {incident['device']}: ")


def blind(document: Mapping[str, Any]) -> list[str]:
    """Sources whose last read gave nothing."""
    return [source["name"] for source in document["sources"] if not source["success"]]


def unwell(document: Mapping[str, Any]) -> list[str]:
    """Parts of the agent that are not well."""
    return [part["name"] for part in document["agent"] if not part["ok"]]


Said = tuple[Level, str, str | None]


def _incident(document: Mapping[str, Any]) -> Said | None:
    incidents = document["incidents"]
    if not incidents:
        return None
    first = next(
        (one for one in incidents if one["severity"] == incidents[0]["severity"] and not one["acknowledged"]), incidents[0]
    )
    taken = f" {first['acknowledged_by'] or 'Somebody'} has taken it on." if first["acknowledged"] else ""
    more = len(incidents) - 1
    who, others = name(first, document), f" {_count(more, 'more incident')} {'is' if more == 1 else 'are'} open." if more else ""
    blame = "is to blame" if first["severity"] != "record" else "stands out, and nobody is paged"
    return (
        levels.SEVERITY[first["severity"]],
        f"{_upper(who)} {blame}. {summary(first)}{taken}{others}",
        first["reason"] or None,
    )


def _blind(document: Mapping[str, Any]) -> Said | None:
    if document["unready_reason"]:
        return "blind", f"Nothing can be said yet: {document['unready_reason'].rstrip('.')}.", None
    if missing := blind(document):
        return (
            "blind",
            f"This node is not seen whole: {listed(missing)} {'gives' if len(missing) == 1 else 'give'} nothing.",
            None,
        )
    return None


def _out(document: Mapping[str, Any]) -> Said | None:
    out = next((out for out in document["maintenance"] if out["kind"] == "node"), None)
    return None if out is None else ("out", f"This node is out of service: {out['reason']}", None)


def _devices(document: Mapping[str, Any]) -> Said | None:
    told = untold(document)
    return (told[0][0], f"No incident is open, but {listed([text for _, text in told])}.", None) if told else None


def untold(document: Mapping[str, Any]) -> list[tuple[Level, str]]:
    """Devices that do not look well and of which no open incident tells, the gravest first: level, and who is how."""
    blamed = {incident["device"] for incident in document["incidents"]}
    explained = {member["device"] for incident in document["incidents"] for member in incident["standing"]}
    called, cells = names(document), []
    for rows, level_of in ((document["gpus"], levels.gpu), (document["ports"], levels.port)):
        for row in rows:
            level, word = level_of(row, document)
            if level in ("bad", "warn", "blind") and row["id"] not in blamed | explained:
                cells.append((level, f"{called[row['id']]} is {word}"))
    return sorted(cells, key=lambda cell: levels.WORST_FIRST.index(cell[0]))


def listed(words: Sequence[str], most: int = 3) -> str:
    """So many of them, and how many more there are.

    >>> listed(["a"]), listed(["a", "b"]), listed(["a", "b", "c", "d", "e"])
    ('a', 'a and b', 'a, b, c and 2 more')
    """
    shown = list(words[:most]) + ([f"{len(words) - most} more"] if len(words) > most else [])
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def _agent(document: Mapping[str, Any]) -> Said | None:
    sick = unwell(document)
    return (
        ("warn", f"Nothing stands against this node, but the agent itself is not well: {listed(sick)}.", None) if sick else None
    )


def _well(document: Mapping[str, Any]) -> Said:
    if not document["gpus"] and not document["ports"]:
        return "blind", "No GPU and no port was seen.", None
    gpus, ports = sum(gpu["state"] != "passthrough" for gpu in document["gpus"]), len(document["ports"])
    read = _upper(f"{_count(gpus, 'GPU')} and {_count(ports, 'port')} are read")
    if document["findings"]:
        return "note", f"Nothing needs you. {read}; {_count(len(document['findings']), 'finding')} on record.", None
    return "ok", f"All is well. {read}, nothing stands against them.", None


def _count(number: int, what: str) -> str:
    return f"{number or 'no'} {what}{'' if number == 1 else 's'}"


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]
