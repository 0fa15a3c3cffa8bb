"""The complete page of a status document.

Its texts are here; how it looks and stays live is in page.css and page.js.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from collector.web.levels import Level
from collector.web.page import cells, incidents, tables
from collector.web.page.cells import Recently
from collector.web.page.closed import closed
from collector.web.page.icons import bell, icon, tab_icon
from collector.web.page.markup import Html, Node, el, join
from collector.web.page.words import moment, upper
from collector.web.verdict import blind, degraded_parts, listed, name, unexplained

# What a level means, for those who see neither colour nor shape.
LEVEL_NAMES = {
    "bad": "Failed",
    "warn": "Degraded",
    "blind": "Unknown",
    "out": "Out of service",
    "note": "Healthy, with remarks",
    "ok": "Healthy",
}
_WITHOUT_SCRIPT_S = 10


def page(document: Mapping[str, Any], recently: Recently, metrics_path: str) -> str:
    """The page: ``recently`` gives the last minutes of a device by its kind and id."""
    level = document["verdict"]["level"]
    head = f"{LEVEL_NAMES[level]}: {document['host']} - Tocsin"
    skip = el("a", "Skip to the verdict", href="#verdict", class_="skip")
    banner = join(
        skip, el("h1", bell(), el("span", "Tocsin on ", class_="brand"), document["host"])
    )
    main, places = _main(document, recently), _places(metrics_path)
    return shell(document, level, head, banner=banner, main=main, places=places)


def shell(
    document: Mapping[str, Any],
    level: Level,
    title: str,
    *,
    banner: Html,
    main: Html,
    places: Mapping[str, str],
    base: str = "",
) -> str:
    """A page that page.js keeps live. ``base`` leads from it to the folder of style and script."""
    return "<!doctype html>" + el(
        "html",
        _head(title, level, base),
        el(
            "body",
            _banner(document, banner),
            el("p", id="silence", role="alert"),
            main,
            el("p", id="when"),
            _footer(document, places),
        ),
        lang="en",
        data_level=level,
        data_version=document["version"],
    )


def _head(title: str, level: Level, base: str) -> Html:
    return el(
        "head",
        el("meta", charset="utf-8"),
        el("meta", name="viewport", content="width=device-width"),
        el("meta", name="color-scheme", content="light dark"),
        el("title", title),
        el("link", rel="icon", href=tab_icon(level)),
        el("link", rel="stylesheet", href=f"{base}page.css"),
        el("script", src=f"{base}page.js", defer=True),
        el("noscript", el("meta", http_equiv="refresh", content=_WITHOUT_SCRIPT_S)),
    )


def _banner(document: Mapping[str, Any], banner: Html) -> Html:
    return el(
        "header",
        banner,
        el("p", f"simulated: {document['simulated']}", class_="rehearsal")
        if document["simulated"]
        else None,
        el("p", el("span", "Read ", id="manner"), moment(document["time"]), id="live"),
    )


def _main(document: Mapping[str, Any], recently: Recently) -> Html:
    return el(
        "main",
        _verdict(document),
        incidents.incidents(document),
        cells.gpus(document, recently),
        cells.ports(document, recently),
        tables.jobs(document),
        tables.settings(document),
        incidents.on_record(document),
        closed(document),
        el("div", tables.sources(document), tables.agent(document), class_="pair"),
    )


def _verdict(document: Mapping[str, Any]) -> Html:
    verdict = document["verdict"]
    action = (
        el("p", el("b", "Next step "), verdict["action"], class_="next")
        if verdict["action"]
        else None
    )
    # The sentence about a healthy node begins with the word itself.
    unseen = f"{LEVEL_NAMES[verdict['level']]}: " if verdict["level"] != "ok" else ""
    sentence = el(
        "p",
        icon(verdict["level"]),
        el("span", el("span", unseen, class_="unseen") if unseen else None, verdict["text"]),
        class_="verdict",
    )
    remarks = join(*(el("li", remark) for remark in _remarks(document)))
    return el(
        "section",
        el("div", sentence, action, role="status", aria_live="polite"),
        el("ul", remarks, class_="remarks", role="list") if remarks else None,
        id="verdict",
        tabindex="-1",
        data_level=verdict["level"],
        aria_label="Verdict",
    )


def _remarks(document: Mapping[str, Any]) -> Iterator[Node]:
    """Remarks below the verdict that qualify the rest of the page."""
    if document["simulated"]:
        yield join(
            el("b", f"This node is simulated ({document['simulated']})."),
            " No reading here comes from hardware.",
        )
    yield from _overridden(document)
    for out in document["maintenance"]:
        until = join(" until ", moment(out["until"])) if out["until"] else None
        yield join(
            upper(name(out, document)),
            " is out of service",
            until,
            f": {out['reason']} ({out['user']})",
        )


def _overridden(document: Mapping[str, Any]) -> Iterator[str]:
    """What the verdict omits because something graver comes first."""
    shown = bool(document["incidents"])
    missing, more = (
        blind(document),
        [text for level, text in unexplained(document) if level != "blind"],
    )
    if shown and document["unready_reason"]:
        yield f"Not ready: {document['unready_reason']}"
    if shown and missing:
        yield f"No data from {', '.join(missing)}: faults there go undetected."
    shown = shown or bool(missing or document["unready_reason"])
    if shown and more:
        yield f"Also: {listed(more)}; not part of an incident."
    if (shown or more) and (degraded := degraded_parts(document)):
        yield f"The agent itself is degraded: {listed(degraded)}."


def _places(metrics_path: str) -> Mapping[str, str]:
    return {
        "Metrics": metrics_path.lstrip("/"),
        "Status as JSON": "api/v1/status",
        "Incidents as JSON": "api/v1/incidents",
        "Health as JSON": "api/v1/health",
        "Healthy": "-/healthy",
        "Ready": "-/ready",
    }


def _footer(document: Mapping[str, Any], places: Mapping[str, str]) -> Html:
    links = el(
        "nav",
        *(el("a", title, href=path) for title, path in places.items()),
        aria_label="For programs",
    )
    return el("footer", links, el("p", f"Tocsin {document['version']}"))
