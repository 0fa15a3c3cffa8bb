"""The evidence of an incident: its findings, what is true now apart from what ended."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from collector.web import levels
from collector.web.page.icons import icon
from collector.web.page.markup import Html, Node, el, join
from collector.web.page.words import age, ago, clock, upper
from collector.web.verdict import name

Row = Mapping[str, Any]
# of incidents, of the members of each, and of other findings; all are in /api/v1/status
MAX_SHOWN = 50


def evidence(incident: Row, document: Row, *, opened: bool) -> Html | None:
    """What is true now, then what ended."""
    now, over = incident["standing"], incident["over"]
    if not now and not over:
        return None
    count = f"{len(now)} open finding{'' if len(now) == 1 else 's'}"
    past = f", {len(over)} ended" if over else ""
    return el(
        "details",
        el("summary", f"Evidence: {count}{past}"),
        members(now, document),
        members(over, document),
        open=opened,
    )


def members(rows: list[Row], document: Row) -> Html | None:
    """Findings as a list."""
    if not rows:
        return None
    listed = (member(row, document) for row in rows[:MAX_SHOWN])
    more = (
        el("p", f"{len(rows) - MAX_SHOWN} more in the JSON.", class_="empty")
        if len(rows) > MAX_SHOWN
        else None
    )
    return join(el("ol", *listed, class_="members", role="list"), more)


def member(finding: Row, document: Row) -> Html:
    """A finding: device, what it is or was, since and until when, its lines of evidence."""
    level = levels.SEVERITY[finding["severity"]]
    lines = (
        el("ul", *(el("li", line) for line in finding["evidence"])) if finding["evidence"] else None
    )
    ended = finding["ended"] is not None
    head = el(
        "p",
        icon("ok" if ended else level),
        el("b", upper(name(finding, document))),
        " ",
        el("span", *_until(finding, document), class_="until") if ended else None,
        finding["summary"],
        " ",
        el("span", *_facts(finding, document), class_="facts"),
    )
    return el(
        "li",
        head,
        lines,
        data_level="ok" if ended else level,
        class_="over" if ended else None,
        id=f"finding-{finding['id']}",
    )


def _until(finding: Row, document: Row) -> Iterable[Node]:
    return ("until ", clock(finding["ended"], document), ": ")


def _facts(finding: Row, document: Row) -> Iterable[Node]:
    """Detector, how long, and when it was last true where that is not now."""
    yield el("code", finding["detector"])
    if finding["ended"] is not None:
        yield join(" ended ", ago(finding["ended"], document))
        return
    yield join(" for ", age(finding["since"], document))
    yield join(", last true at ", clock(finding["last_true"], document))
    if not finding["read"]:
        yield "; its device is not being read"
