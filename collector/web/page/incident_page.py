"""The page of one incident: what happened in the order of time, all evidence, what to do, and how
the detectors judge. The text form is `tocsin explain`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from collector.web import levels
from collector.web.page.document import shell
from collector.web.page.evidence import members
from collector.web.page.icons import bell, icon
from collector.web.page.incidents import acknowledged, reach, site_links, times
from collector.web.page.markup import Html, Node, el, join
from collector.web.page.tables import settings
from collector.web.page.words import clock, lasted
from collector.web.verdict import cause, identity, title
from pipeline.severities import shown_severity
from pipeline.short_ids import short

Row = Mapping[str, Any]
BASE = "../"


def incident_page(incident: Row) -> str:
    """The page of what ``AgentPages.incident`` gives."""
    over = "cleared" in incident
    level = "ok" if over else levels.SEVERITY[incident["severity"]]
    state = "Closed" if over else shown_severity(incident["severity"]).capitalize()
    banner = join(
        el("a", "Skip to the incident", href="#verdict", class_="skip"),
        el("h1", bell(), el("a", "Tocsin on ", incident["node"], href=BASE, class_="brand")),
    )
    main = el(
        "main",
        _head(incident, level, over=over),
        _facts(incident),
        _evidence(incident, "now", "Open findings", incident["standing"]),
        _evidence(incident, "over", "No longer true", incident["over"]),
        settings(incident),
        *(_rule(rule) for rule in incident["rules"]),
    )
    places = {
        "This incident as JSON": f"{BASE}api/v1/incidents/{incident['id']}",
        "All incidents as JSON": f"{BASE}api/v1/incidents",
        "Status of the node": BASE,
    }
    return shell(
        incident,
        level,
        f"{state}: {title(incident)} - Tocsin",
        banner=banner,
        main=main,
        places=places,
        base=BASE,
    )


def missing_page(named: str) -> str:
    """No incident is known by this name."""
    words = (
        f"No incident {named} is open or ended within the last day. The store may have it: "
        f"tocsin explain {named}"
    )
    return "<!doctype html>" + el(
        "html",
        el(
            "head",
            el("meta", charset="utf-8"),
            el("meta", name="viewport", content="width=device-width"),
            el("title", "No such incident - Tocsin"),
            el("link", rel="stylesheet", href=f"{BASE}page.css"),
        ),
        el(
            "body",
            el("main", el("h1", "No such incident"), el("p", words), el("p", _back())),
        ),
        lang="en",
    )


def _back() -> Html:
    return el("a", "Status of this node", href=BASE)


def _head(incident: Row, level: levels.Level, *, over: bool) -> Html:
    place = identity(incident)
    sentence = el(
        "p",
        icon(level),
        el(
            "span",
            el("span", "Closed. It was: ") if over else None,
            f"{title(incident)}{f' ({place})' if place else ''}: {cause(incident)}",
        ),
        class_="verdict",
    )
    step = el("p", el("b", "Next step "), incident["reason"], class_="next")
    return el(
        "section",
        sentence,
        step if incident["reason"] and not over else None,
        id="verdict",
        tabindex="-1",
        data_level=level,
        aria_label="Verdict",
    )


def _facts(incident: Row) -> Html:
    """Times, what it affects, who acknowledged it, ids and links."""
    items: list[Node] = []
    if "cleared" in incident:
        items.append(el("p", *_was_open(incident), class_="facts"))
        items.append(el("p", el("b", "How it ended "), incident["ended"] or "not recorded."))
    else:
        items.append(times(incident, incident))
        items.append(reach(incident, incident))
        items.append(el("p", *acknowledged(incident, incident)))
    rows = {
        "incident": incident["id"],
        "class": incident["class"],
        "severity": shown_severity(incident["severity"]),
        "action": incident["action"],
        "device": f"{incident['kind']} {incident['device']}",
    }
    listed = (el("div", el("dt", key), el("dd", value)) for key, value in rows.items())
    links = [*site_links(incident), el("code", f"tocsin explain {short(incident['id'])}")]
    return el(
        "section",
        el("h2", el("span", "Facts", id="facts-title")),
        *items,
        el("dl", *listed, class_="identity"),
        el("ul", *(el("li", link) for link in links), class_="facts links", role="list"),
        id="facts",
        class_="card",
        aria_labelledby="facts-title",
    )


def _was_open(incident: Row) -> Iterator[Node]:
    yield "Was open from "
    yield clock(incident["since"], incident)
    yield " to "
    yield clock(incident["cleared"], incident)
    yield f", {lasted(incident['since'], incident['cleared'])}."


def _evidence(incident: Row, key: str, words: str, rows: list[Row]) -> Html | None:
    if not rows:
        return None
    head = el("h2", el("span", words, id=f"{key}-title"), el("small", str(len(rows))))
    listed = el("div", members(rows, incident), class_="card")
    return el("section", head, listed, id=key, aria_labelledby=f"{key}-title")


def _rule(rule: Row) -> Html:
    """How a detector judges: folded, with the rule first."""
    name = rule["detector"]
    rows = {
        "rule": rule["rule"],
        "next step": rule["next_step"],
        "clears": rule["clears"],
        "sources": "; ".join(rule["sources"]),
    }
    listed = (el("div", el("dt", key), el("dd", value)) for key, value in rows.items() if value)
    return el(
        "details",
        el("summary", f"How {name} judges"),
        *(el("p", paragraph) for paragraph in rule["judges"]),
        el("dl", *listed, class_="identity"),
        id=f"rule-{name}",
        class_="rule",
    )
