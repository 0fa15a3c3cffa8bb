"""A report as Markdown, and as one HTML file without scripts or anything from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from history.backtest.judged import Alert
from history.backtest.report import Backtest, Section
from history.backtest.words import device_name, moment
from pipeline.documents import incident_document

TITLE = "Tocsin on your own history"
STYLE = """
body{font:15px/1.5 system-ui,sans-serif;max-width:72rem;margin:2rem auto;padding:0 1rem}
body{color:#1b1f24;background:#fff}
h1{font-size:1.7rem}h2{font-size:1.2rem;margin-top:2.2rem}
.scroll{overflow-x:auto}table{border-collapse:collapse;font-size:.87rem;margin:.8rem 0}
th,td{border-bottom:1px solid #d8dee4;padding:.3rem .7rem .3rem 0}
th,td{text-align:left;vertical-align:top}
.tiles{display:flex;flex-wrap:wrap;gap:.8rem;margin:.8rem 0}
.tiles div{border:1px solid #d8dee4;border-radius:.5rem;padding:.6rem .9rem;max-width:13rem}
.tiles b{display:block;font-size:1.6rem;line-height:1.2}
pre{border:1px solid #d8dee4;border-radius:.5rem;padding:.6rem .9rem;overflow-x:auto}
th,td{white-space:nowrap}td{font-variant-numeric:tabular-nums}td.wide{white-space:normal;min-width:20rem}
figure{margin:1.2rem 0}figcaption{font-weight:600}
svg{max-width:100%;height:auto}
@media (prefers-color-scheme:dark){body{color:#e6edf3;background:#0d1117}
th,td,.tiles div,pre{border-color:#30363d}svg{background:#fff}}
"""
PICTURES = (
    "Readings of the device around its page, for context: an XID and a state are events without a "
    "curve."
)
MAX_LINE = 32  # characters of a cell that is not broken
_CELL = str.maketrans({"|": "\\|", "\n": " ", "<": "&lt;", "[": "\\["})  # no markup of a label's


def markdown(parts: Sequence[Section]) -> str:
    """The report in Markdown."""
    lines = [f"# {TITLE}", ""]
    for part in parts:
        lines += [f"## {part.title}", ""]
        if part.tiles:
            lines += [f"**{value.translate(_CELL)}** {words}  " for value, words in part.tiles]
            lines.append("")
        lines += [f"- {sentence.translate(_CELL)}" for sentence in part.sentences] + [""]
        if part.table and part.table.rows:
            lines.append(f"| {' | '.join(part.table.heads)} |")
            lines.append(f"|{'---|' * len(part.table.heads)}")
            lines += [
                f"| {' | '.join(cell.translate(_CELL) for cell in row)} |"
                for row in part.table.rows
            ]
            lines.append("")
        if part.code:
            lines += ["```yaml", part.code.rstrip(), "```", ""]
    return "\n".join(lines)


def html(parts: Sequence[Section], pictures: Mapping[str, str]) -> str:
    """The report as a page; ``pictures`` are SVG documents by id of incident."""
    body = "".join(chunk for part in parts for chunk in _section(part, pictures))
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        "style-src 'unsafe-inline'\">"
        f"<title>{TITLE}</title><style>{STYLE}</style></head>"
        f"<body><main><h1>{TITLE}</h1>{body}</main></body></html>\n"
    )


def _section(part: Section, pictures: Mapping[str, str]) -> Iterator[str]:
    yield f"<h2>{escape(part.title)}</h2>"
    if part.tiles:
        tiles = "".join(
            f"<div><b>{escape(value)}</b>{escape(words)}</div>" for value, words in part.tiles
        )
        yield f'<div class="tiles">{tiles}</div>'
    yield from (f"<p>{escape(sentence)}</p>" for sentence in part.sentences)
    if part.code:
        yield f"<pre>{escape(part.code)}</pre>"
    table = part.table
    if table is None or not table.rows:
        return
    heads = "".join(f'<th scope="col">{escape(head)}</th>' for head in table.heads)
    rows = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in table.rows)
    yield (
        f'<div class="scroll" role="region" aria-label="{escape(part.title)}" tabindex="0">'
        f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>"
    )
    drawn = [alert for alert in table.alerts if alert.incident.id in pictures]
    if drawn:
        yield f"<p>{PICTURES}</p>"
    for alert in drawn:
        words = escape(_caption(alert))
        yield f"<figure><figcaption>{words}</figcaption>{pictures[alert.incident.id]}</figure>"


def _caption(alert: Alert) -> str:
    """Which device, what and when: the words are in the table above."""
    root = alert.incident.root
    device = " of ".join(filter(None, (device_name(root), root.host)))
    return f"{device}: {alert.incident.fault}, {moment(alert.incident.opened_ns)} (dashed line)"


def _cell(text: str) -> str:
    wide = ' class="wide"' if len(text) > MAX_LINE else ""
    return f"<td{wide}>{escape(text)}</td>"


def document(made: Backtest, parts: Sequence[Section]) -> dict[str, Any]:
    """The report for programs: every alert and fault, and the tables."""
    history = made.history
    return {
        "begin": history.begin_ns / 1e9,
        "end": history.end_ns / 1e9,
        "nodes": len(history.nodes),
        "gpus": len(history.gpus),
        "gpu_months": history.gpu_months,
        "alerts": [_alert(one) for one in history.alerts],
        "faults": [
            {
                "node": one.node,
                "opened": one.opened_ns / 1e9,
                "sources": list(one.sources),
                "cause": one.cause,
                "planned": one.is_planned,
            }
            for one in made.faults or ()
        ],
        "configuration": made.proposal.document() if made.proposal else {},
        "sections": [
            {
                "title": part.title,
                "sentences": list(part.sentences),
                "rows": [dict(zip(part.table.heads, row, strict=True)) for row in part.table.rows]
                if part.table
                else [],
            }
            for part in parts
        ],
    }


def _alert(one: Alert) -> dict[str, Any]:
    return {
        **incident_document(one.incident),
        "detectors": list(one.detectors),
        "installed": one.installed,
    }
