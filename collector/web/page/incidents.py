"""Open incidents as cards: root cause, what happened, the next step, who acknowledged it, and
the evidence; and the open findings that belong to none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from collector.web import levels
from collector.web.page.icons import icon
from collector.web.page.markup import Html, el
from collector.web.page.words import age, upper
from collector.web.verdict import name, summary
from pipeline.short_ids import short

# of incidents, of the members of each, and of other findings; all are in /api/v1/status
MAX_SHOWN = 50


def incidents(document: Mapping[str, Any]) -> Html | None:
    """The section, where any is open."""
    rows = document["incidents"]
    if not rows:
        return None
    cards = (_card(row, document, first=number == 0) for number, row in enumerate(rows[:MAX_SHOWN]))
    head = el("h2", el("span", "Open incidents", id="incidents-title"), el("small", str(len(rows))))
    return el(
        "section",
        head,
        el("ol", *cards, class_="cards", role="list"),
        _more(rows),
        id="incidents",
        aria_labelledby="incidents-title",
    )


def on_record(document: Mapping[str, Any]) -> Html | None:
    """Open findings that belong to no open incident: mostly of detectors in shadow mode."""
    shown = {member["id"] for incident in document["incidents"] for member in incident["standing"]}
    rows = [finding for finding in document["findings"] if finding["id"] not in shown]
    if not rows:
        return None
    unpaged = all(row["severity"] == "record" for row in rows)
    aside = "info, no alert" if unpaged else "in no open incident"
    head = el("h2", el("span", "Other findings", id="record-title"), el("small", aside))
    listed = el(
        "ol",
        *(_member(row, document) for row in rows[:MAX_SHOWN]),
        class_="members card",
        role="list",
    )
    return el("section", head, listed, _more(rows), id="record", aria_labelledby="record-title")


def _card(incident: Mapping[str, Any], document: Mapping[str, Any], *, first: bool) -> Html:
    level = levels.SEVERITY[incident["severity"]]
    return el(
        "li",
        el(
            "h3",
            upper(name(incident, document)),
            el("span", icon(level), incident["severity"], class_="state"),
        ),
        el("p", summary(incident)),
        el("p", el("b", "Next step "), incident["reason"], class_="next")
        if incident["reason"]
        else None,
        el("p", *_acknowledged(incident, document)),
        _facts(incident, document),
        _evidence(incident, document, first=first),
        class_="card",
        data_level=level,
        id=f"incident-{incident['id']}",
    )


def _facts(incident: Mapping[str, Any], document: Mapping[str, Any]) -> Html:
    """Its ids in the API and on the command line."""
    called = (el("li", el("code", incident[key])) for key in ("class", "action"))
    since = el("li", "open for ", age(incident["since"], document))
    more = el("li", "more: ", el("code", f"tocsin explain {short(incident['id'])}"))
    return el("ul", *called, since, more, class_="facts", role="list")


def _acknowledged(
    incident: Mapping[str, Any], document: Mapping[str, Any]
) -> tuple[Html | str, ...]:
    if not incident["acknowledged"]:
        before = (
            f" Before it grew, {incident['acknowledged_by'] or 'an operator'} acknowledged it: "
            f"{incident['note']}"
        )
        ask = el("code", f"tocsin ack {short(incident['id'])} --note …")
        return "Not acknowledged: ", ask, before if incident["note"] else ""
    who, when = (
        incident["acknowledged_by"] or "an operator",
        age(incident["acknowledged"], document),
    )
    return el("b", "Acknowledged"), " by ", el("b", who), " ", when, " ago: ", incident["note"]


def _evidence(
    incident: Mapping[str, Any], document: Mapping[str, Any], *, first: bool
) -> Html | None:
    members = incident["standing"]
    if not members:
        return None
    title = f"Evidence: {len(members)} open finding{'' if len(members) == 1 else 's'}"
    listed = el(
        "ol",
        *(_member(member, document) for member in members[:MAX_SHOWN]),
        class_="members",
        role="list",
    )
    return el("details", el("summary", title), listed, _more(members), open=first)


def _member(finding: Mapping[str, Any], document: Mapping[str, Any]) -> Html:
    level = levels.SEVERITY[finding["severity"]]
    lines = (
        el("ul", *(el("li", line) for line in finding["evidence"])) if finding["evidence"] else None
    )
    about = el(
        "span",
        el("code", finding["detector"]),
        " for ",
        age(finding["since"], document),
        class_="facts",
    )
    head = el(
        "p",
        icon(level),
        el("b", upper(name(finding, document))),
        " ",
        finding["summary"],
        " ",
        about,
    )
    return el("li", head, lines, data_level=level, id=f"finding-{finding['id']}")


def _more(rows: Sequence[object]) -> Html | None:
    return (
        el("p", f"{len(rows) - MAX_SHOWN} more in the JSON.", class_="empty")
        if len(rows) > MAX_SHOWN
        else None
    )
