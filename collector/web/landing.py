"""The landing page: plain HTML for whoever opens the port in a browser. No script, nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape
from typing import Any

_STYLE = """
:root { color-scheme: light dark; font: 15px/1.45 system-ui, sans-serif; }
body { margin: 2rem auto; max-width: 72rem; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin-bottom: .2rem; } h2 { font-size: 1.1rem; margin: 1.6rem 0 .4rem; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .25rem .7rem .25rem 0; border-bottom: 1px solid color-mix(in srgb, currentColor 18%, transparent); }
td.n, th.n { text-align: right; } td.t { white-space: nowrap; } .bad { color: light-dark(#b00020, #ff7b86); font-weight: 600; }
.old { opacity: .55; } .note { padding: .4rem .8rem; border-left: .25rem solid light-dark(#8a5a00, #ffc35c); } nav a { margin-right: 1rem; }
"""


def page(status: Mapping[str, Any], metrics_path: str) -> str:
    """The page for a status document."""
    host = escape(str(status["host"]))
    return "".join(
        (
            "<!doctype html><html lang=en><meta charset=utf-8><meta http-equiv=refresh content=5>",
            "<meta name=viewport content='width=device-width'>",
            f"<title>Tocsin on {host}</title><style>{_STYLE}</style>",
            f"<h1>Tocsin on {host}</h1><p>GPU Exporter, Tocsin {escape(str(status['version']))}, {_time(status['time'])}</p>",
            _notes(status),
            _links(metrics_path),
            _incidents(status["incidents"], _names(status)),
            _findings(status["findings"], _names(status)),
            _gpus(status["gpus"]),
            _ports(status["ports"]),
            _sources(status["sources"]),
            "</html>\n",
        )
    )


def _links(metrics_path: str) -> str:
    where = {
        "metrics": escape(metrics_path),
        "status as JSON": "/api/v1/status",
        "incidents as JSON": "/api/v1/incidents",
        "healthy": "/-/healthy",
        "ready": "/-/ready",
        "health": "/health",
    }
    return f"<nav>{''.join(f'<a href={path!r}>{name}</a>' for name, path in where.items())}</nav>"


def _notes(status: Mapping[str, Any]) -> str:
    notes = []
    if status["simulated"]:
        notes.append(f"This node is simulated ({escape(str(status['simulated']))}). No reading here comes from hardware.")
    if status["unready_reason"]:
        notes.append(f"Not ready: {escape(str(status['unready_reason']))}")
    names = _names(status)
    for out in status["maintenance"]:
        what = "The whole node" if out["kind"] == "node" else escape(names.get(out["device"], f"{out['kind']} {out['device']}"))
        until = f" until {_time(out['until'])}" if out["until"] else ""
        notes.append(f"{what} is out of service{until}: {escape(out['reason'])} ({escape(out['user'])})")
    return "".join(f"<p class=note>{note}</p>" for note in notes)


def _names(status: Mapping[str, Any]) -> dict[str, str]:
    """What people call a device, by its id."""
    gpus = {g["id"]: f"GPU {g['index']}" for g in status["gpus"]}
    return gpus | {p["id"]: f"{p['name']}/{p['index']}" for p in status["ports"]}


def _time(text: str) -> str:
    """An ISO time in UTC as people write it."""
    return escape(text.removesuffix("+00:00").replace("T", " ") + " UTC")


def _incidents(incidents: Iterable[Mapping[str, Any]], names: Mapping[str, str]) -> str:
    rows = [
        (
            _bad(i["severity"], bad=i["severity"] == "page"),
            _named(i, names),
            f"<td>{escape(i['summary'])}<br><small>{escape(i['reason'])}{_taken_on(i)}</small></td>",
            f"<td class=t>{_time(i['since'])}</td>",
            f"<td class=t><code>{escape(i['id'])}</code></td>",
        )
        for i in incidents
    ]
    return _table("Open incidents", ("severity", "to blame", "what, and what to do", "since", "id"), rows, "None.")


def _taken_on(incident: Mapping[str, Any]) -> str:
    if not incident["acknowledged"]:
        return ""
    return f"<br>Taken on by {escape(incident['acknowledged_by'])}: {escape(incident['note'])}"


def _findings(findings: Iterable[Mapping[str, Any]], names: Mapping[str, str]) -> str:
    rows = [
        (
            _bad(f["severity"], bad=f["severity"] == "page"),
            _named(f, names),
            _cell(f["summary"]),
            f"<td class=t>{_time(f['since'])}</td>",
        )
        for f in findings
    ]
    return _table("Open findings", ("severity", "device", "what", "since"), rows, "Nothing stands.")


def _named(finding: Mapping[str, Any], names: Mapping[str, str]) -> str:
    """The device of a finding: its name for people, its identity when pointed at."""
    name = names.get(finding["device"], f"{finding['kind']} {finding['device']}")
    return f'<td title="{escape(finding["device"])}">{escape(name)}</td>'


def _gpus(gpus: Iterable[Mapping[str, Any]]) -> str:
    rows = [
        (
            _cell(g["index"]),
            _cell(g["name"]),
            _bad(g["state"], bad=g["state"] != "ok"),
            _bad(_words(g["health"]), bad=g["health"] == "failed"),
            _number(g["temperature_celsius"], " °C"),
            _number(g["power_watts"], " W"),
            _number(g["utilization_ratio"], " %", 100),
            _number(g["memory_used_bytes"], " GiB", 1 / 2**30, 1),
        )
        for g in gpus
    ]
    heads = ("GPU", "model", "state", "health", "#temperature", "#power", "#utilisation", "#memory used")
    return _table("GPUs", heads, rows, "No GPU was seen.")


def _ports(ports: Iterable[Mapping[str, Any]]) -> str:
    rows = [
        (
            _cell(f"{p['name']}/{p['index']}"),
            _cell(p["id"]),
            _bad(p["state"], bad=p["state"] != "active"),
            _bad(_words(p["health"]), bad=p["health"] == "failed"),
            _number(p["rate_bytes_per_second"], " Gb/s", 8e-9),
        )
        for p in ports
    ]
    return _table("InfiniBand and RoCE ports", ("port", "GUID", "state", "health", "#rate"), rows, "No port was seen.")


def _sources(sources: Iterable[Mapping[str, Any]]) -> str:
    rows = [
        (
            _cell(s["name"]),
            _bad("ok" if s["success"] else "failing", bad=not s["success"]),
            _number(s["age_seconds"], " s ago", 1, 1),
            _number(s["duration_seconds"], " ms", 1000, 2),
        )
        for s in sources
    ]
    return _table("Sources", ("source", "state", "#last reading", "#took"), rows, "No source has been read.")


def _table(title: str, heads: Iterable[str], rows: Iterable[Iterable[str]], empty: str) -> str:
    body = "".join(f"<tr>{''.join(row)}</tr>" for row in rows)
    if not body:
        return f"<h2>{title}</h2><p>{empty}</p>"
    head = "".join(f"<th class=n>{h[1:]}</th>" if h.startswith("#") else f"<th>{h}</th>" for h in heads)
    return f"<h2>{title}</h2><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _words(name: str) -> str:
    return name.replace("_", " ")


def _cell(value: object) -> str:
    return f"<td>{escape(str(value))}</td>"


def _bad(value: object, *, bad: bool) -> str:
    return f"<td class=bad>{escape(str(value))}</td>" if bad else _cell(value)


def _number(value: float | None, unit: str, times: float = 1, digits: int = 0) -> str:
    return "<td class='n old'>not read</td>" if value is None else f"<td class=n>{value * times:.{digits}f}{unit}</td>"
