"""Open incidents as cards: root cause, what happened, the next step, who acknowledged it, links,
and the evidence; and the open findings that belong to none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from collector.web import levels
from collector.web.page.evidence import MAX_SHOWN, evidence, member
from collector.web.page.icons import icon
from collector.web.page.markup import Html, Node, el, join
from collector.web.page.words import age, ago, clock
from collector.web.verdict import cause, identity, listed, names, title
from pipeline.severities import shown_severity
from pipeline.short_ids import short

Row = Mapping[str, Any]
LINKS = {"runbook": "Runbook", "dashboard": "Dashboard"}


def incidents(document: Row) -> Html | None:
    """The section, where any is open."""
    rows = document["incidents"]
    if not rows:
        return None
    cards = (_card(row, document, first=number == 0) for number, row in enumerate(rows[:MAX_SHOWN]))
    aside = f"{len(rows)}, the most urgent first" if len(rows) > 1 else "1"
    head = el("h2", el("span", "Open incidents", id="incidents-title"), el("small", aside))
    return el(
        "section",
        head,
        el("ol", *cards, class_="cards", role="list"),
        _more(rows),
        id="incidents",
        aria_labelledby="incidents-title",
    )


def on_record(document: Row) -> Html | None:
    """Open findings that belong to no open incident: mostly of detectors in shadow mode."""
    shown = {one["id"] for incident in document["incidents"] for one in incident["standing"]}
    rows = [finding for finding in document["findings"] if finding["id"] not in shown]
    if not rows:
        return None
    unpaged = all(row["severity"] == "record" for row in rows)
    aside = "info, no alert" if unpaged else "in no open incident"
    head = el("h2", el("span", "Other findings", id="record-title"), el("small", aside))
    listed_ = el(
        "ol",
        *(member(row, document) for row in rows[:MAX_SHOWN]),
        class_="members card",
        role="list",
    )
    return el("section", head, listed_, _more(rows), id="record", aria_labelledby="record-title")


def _card(incident: Row, document: Row, *, first: bool) -> Html:
    level = levels.SEVERITY[incident["severity"]]
    place = identity(incident)
    return el(
        "li",
        el(
            "h3",
            el("span", title(incident), el("small", place, class_="place") if place else None),
            el("span", icon(level), shown_severity(incident["severity"]), class_="state"),
        ),
        el("p", cause(incident)),
        el("p", el("b", "Next step "), incident["reason"], class_="next")
        if incident["reason"]
        else None,
        times(incident, document),
        reach(incident, document),
        el("p", *acknowledged(incident, document)),
        _links(incident),
        evidence(incident, document, opened=first),
        class_="card",
        data_level=level,
        id=f"incident-{incident['id']}",
    )


def times(incident: Row, document: Row) -> Html:
    """Since when it is open, and when its evidence was last true."""
    since = join("Open for ", age(incident["since"], document), ", since ")
    last = incident["last_true"]
    if last is None:
        return el("p", since, clock(incident["since"], document), ".", class_="facts")
    if not incident["true_now"]:
        state: Node = join(
            ". ",
            el("b", "No longer true"),
            ": the last finding ended at ",
            clock(last, document),
            ", ",
            ago(last, document),
            ". It closes if it stays so.",
        )
    else:
        state = join(". Last true at ", clock(last, document), ", ", ago(last, document), ".")
    return el("p", since, clock(incident["since"], document), state, class_="facts")


def reach(incident: Row, document: Row) -> Html | None:
    """The GPUs and jobs that it affects."""
    called = names(document)
    gpus = [called.get(one, one) for one in incident["gpus_affected"]]
    words = [f"{len(gpus)} GPUs" if len(gpus) > 3 else listed(gpus)] if gpus else []
    words += [listed(incident["jobs_affected"])] if incident["jobs_affected"] else []
    if not words:
        return None
    return el("p", el("b", "Affects "), "; ".join(words), ".", class_="reach")


def acknowledged(incident: Row, document: Row) -> tuple[Html | str, ...]:
    """Who acknowledged it, or how to."""
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


def _links(incident: Row) -> Html:
    """To everything about it, here and at the site; and its ids in the API and elsewhere."""
    name = title(incident)
    explain = el("a", "Explain", _of(name), href=f"incidents/{incident['id']}")
    site = site_links(incident)
    ids = (el("code", one) for one in (incident["class"], incident["action"], incident["id"]))
    items = (el("li", item) for item in (explain, *site, *ids))
    return el("ul", *items, class_="facts links", role="list")


def site_links(incident: Row) -> list[Html]:
    """Links that the site configured."""
    return [
        el(
            "a",
            LINKS[name],
            _of(title(incident)),
            href=address,
            rel="noopener noreferrer",
            target="_blank",
        )
        for name, address in incident["links"].items()
    ]


def _of(name: str) -> Html:
    """Links of the same words have different names for screen readers."""
    return el("span", f" of {name}", class_="unseen")


def _more(rows: Sequence[object]) -> Html | None:
    return (
        el("p", f"{len(rows) - MAX_SHOWN} more in the JSON.", class_="empty")
        if len(rows) > MAX_SHOWN
        else None
    )
