"""The document that the modules fill: landmarks, headings, and the shapes of levels."""

from __future__ import annotations

from collector.web.levels import WORST_FIRST
from collector.web.page.document import LEVEL_NAMES
from collector.web.page.icons import bell, tab_icon
from collector.web.page.icons import path as shape
from collector.web.page.markup import Html, Node, el, join

_NO_SCRIPT = "This page needs its script. The same is in the JSON: "
_ORDERS = (
    ("urgency", "Urgency"),
    ("gpus", "GPUs affected"),
    ("jobs", "Jobs affected"),
    ("newest", "Newest"),
)
_KEYS = (
    "Arrow keys: nodes and racks. N and P: next and previous node that is not healthy. "
    "Enter: open. Slash: search."
)


def document(version: str, agent_url: str, metrics_path: str = "/metrics") -> str:
    """The page, before anything is known. ``agent_url`` as in ``web.agent_url``."""
    return "<!doctype html>" + el(
        "html",
        _head(),
        el(
            "body",
            _shapes(),
            _banner(),
            el("p", id="silence", role="alert"),
            el("noscript", el("p", _NO_SCRIPT, el("a", "incidents", href="api/v1/incidents"), ".")),
            _main(),
            _detail(),
            _footer(version, metrics_path),
        ),
        lang="en",
        data_level="blind",
        data_version=version,
        data_agent_url=agent_url or None,
    )


def _head() -> Html:
    return el(
        "head",
        el("meta", charset="utf-8"),
        el("meta", name="viewport", content="width=device-width"),
        el("meta", name="color-scheme", content="light dark"),
        el("title", "Cluster - Tocsin"),
        el("link", rel="icon", href=tab_icon("blind")),
        el("link", rel="stylesheet", href="page.css"),
        el("link", rel="stylesheet", href="cluster.css"),
        el("script", src="cluster/main.js", type="module"),
    )


def _shapes() -> Html:
    """Shapes, words and tab icons of all levels, for the modules to use."""
    symbols = (
        el(
            "symbol",
            el("path", d=shape(level)),
            id=f"shape-{level}",
            viewBox="0 0 16 16",
            data_word=LEVEL_NAMES[level],
            data_tab=tab_icon(level),
        )
        for level in WORST_FIRST
    )
    return el("svg", *symbols, class_="shapes", aria_hidden="true")


def _banner() -> Html:
    field = el(
        "input",
        id="search",
        type="search",
        role="combobox",
        placeholder="Node, rack, job, user, device",
        aria_label="Search",
        aria_expanded="false",
        aria_controls="search-found",
        aria_autocomplete="list",
        autocomplete="off",
        spellcheck="false",
    )
    return el(
        "header",
        el("a", "Skip to the verdict", href="#verdict", class_="skip"),
        el("h1", bell(), el("span", "Tocsin on ", class_="brand"), el("span", id="cluster")),
        el("p", "standby: another gateway leads", id="standby", class_="rehearsal", hidden=True),
        el(
            "search",
            field,
            el("ul", id="search-found", role="listbox", aria_label="Found", hidden=True),
            el("p", id="search-status", role="status", class_="unseen"),
        ),
        el(
            "p",
            el("span", "Reading", id="manner"),
            el("time", id="live-time"),
            id="live",
        ),
    )


def _main() -> Html:
    return el(
        "main",
        _verdict(),
        el("div", _incidents(), _map(), class_="columns"),
        _table("jobs", "Jobs", ("Job", "State", "Worst node", "GPUs", "Incidents"), "n n"),
        _table("ended", "Ended jobs", ("Job", "Ended", "Ran", "GPUs"), "n"),
        _table("closed", "Closed incidents", ("Device", "What it was", "Affected", "Ended"), "n"),
    )


def _verdict() -> Html:
    sentence = el(
        "p",
        el("span", id="verdict-icon"),
        el(
            "span",
            el("span", id="verdict-level", class_="unseen"),
            el("span", "The cluster is being read.", id="verdict-text"),
        ),
        class_="verdict",
    )
    return el(
        "section",
        el("div", sentence, role="status", aria_live="polite"),
        id="verdict",
        tabindex="-1",
        data_level="blind",
        aria_label="Verdict",
    )


def _titled(key: str, title: str, *aside: Node) -> Html:
    return el("h2", el("span", title, id=f"{key}-title"), el("small", id=f"{key}-count"), *aside)


def _incidents() -> Html:
    order = el(
        "select",
        *(el("option", text, value=value) for value, text in _ORDERS),
        id="incidents-order",
    )
    return el(
        "section",
        _titled("incidents", "Open incidents"),
        el("p", el("label", "Order ", order), id="incidents-tools", hidden=True),
        el("p", "None.", id="incidents-none", class_="empty", hidden=True),
        el("ol", id="incidents-list", class_="cards", role="list"),
        el("button", "Show all", id="incidents-all", type="button", hidden=True),
        el("p", el("a", href="api/v1/incidents"), id="incidents-more", hidden=True),
        id="incidents",
        aria_labelledby="incidents-title",
    )


def _map() -> Html:
    zoom = el(
        "span",
        el("button", "\N{MINUS SIGN}", id="zoom-out", type="button", aria_label="Smaller"),
        el("button", "Fit", id="zoom-fit", type="button"),
        el("button", "+", id="zoom-in", type="button", aria_label="Larger"),
        class_="zoom",
        role="group",
        aria_label="Size of the map",
    )
    # The canvas is for eyes alone: the options say each node that the keyboard comes to.
    options = (
        el("span", "Node", id=f"map-option-{n}", role="option", aria_selected="false")
        for n in (0, 1)
    )
    frame = el(
        "div",
        el("canvas", id="map-canvas", aria_hidden="true"),
        el("div", id="map-space"),
        el("div", *options, class_="unseen", role="presentation"),
        id="map",
        tabindex="0",
        role="listbox",
        aria_label="Map of racks, nodes and GPUs",
        aria_describedby="map-keys",
    )
    return el(
        "section",
        el("h2", el("span", "Racks, nodes and GPUs", id="map-title"), zoom),
        el("ul", id="legend", role="list", aria_label="Levels of nodes, a filter of the map"),
        el(
            "div",
            frame,
            el("p", id="map-tip", hidden=True),
            el("span", id="map-probe", hidden=True),
            id="map-box",
        ),
        el("p", "No rack is so.", id="map-empty", class_="empty", hidden=True),
        el(
            "p",
            "A line is a node: its GPUs, then, narrow, its ports. ",
            el("span", _KEYS, id="map-keys"),
            class_="facts",
        ),
        id="racks",
        aria_labelledby="map-title",
    )


def _table(key: str, title: str, columns: tuple[str, ...], numeric: str) -> Html:
    plain = len(columns) - len(numeric.split())
    heads = (
        el("th", column, scope="col", class_="n" if n >= plain else None)
        for n, column in enumerate(columns)
    )
    return el(
        "section",
        _titled(key, title),
        el(
            "table",
            el("thead", el("tr", *heads)),
            el("tbody", id=f"{key}-list"),
            aria_labelledby=f"{key}-title",
        ),
        el("button", "Show all", id=f"{key}-more", type="button", hidden=True)
        if key in ("jobs", "ended")
        else None,
        id=key,
        hidden=True,
        aria_labelledby=f"{key}-title",
    )


def _detail() -> Html:
    return el(
        "aside",
        el(
            "header",
            el("p", id="detail-kind", class_="facts"),
            el("button", "Close", id="detail-close", type="button"),
            el("h2", id="detail-title", tabindex="-1"),
        ),
        el("div", id="detail-body"),
        id="detail",
        hidden=True,
        aria_labelledby="detail-title",
    )


def _footer(version: str, metrics_path: str) -> Html:
    places = {
        "Metrics": metrics_path.lstrip("/"),
        "Topology as JSON": "api/v1/topology",
        "Incidents as JSON": "api/v1/incidents",
        "Jobs as JSON": "api/v1/jobs",
        "OpenAPI document": "api/v1/openapi.json",
    }
    links = join(*(el("a", title, href=path) for title, path in places.items()))
    return el(
        "footer",
        el("nav", links, aria_label="For programs"),
        el("p", f"Tocsin {version}"),
    )
