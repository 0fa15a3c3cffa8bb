"""Incidents that ended within the last day: what they were, how long, how they ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from collector.web import levels
from collector.web.page.icons import icon
from collector.web.page.markup import Html, el
from collector.web.page.tables import table
from collector.web.page.words import ago, clock, lasted
from collector.web.verdict import cause, identity, title
from pipeline.severities import shown_severity
from pipeline.short_ids import short

Row = Mapping[str, Any]
MAX_SHOWN = 20  # all are in /api/v1/incidents


def closed(document: Row) -> Html | None:
    """The section, where any ended."""
    rows = document["closed"]
    if not rows:
        return None
    heads = ("Device", "What it was", "Was open", "How it ended")
    return table(
        "closed",
        "Closed in the last day",
        heads,
        (_row(row, document) for row in rows[:MAX_SHOWN]),
        aside=f"{len(rows)}, the newest first",
    )


def _row(row: Row, document: Row) -> Html:
    place = identity(row)
    severity = shown_severity(row["severity"])
    link = el(
        "a",
        f"Explain {short(row['id'])}",
        el("span", f" of {title(row)}", class_="unseen"),
        href=f"incidents/{row['id']}",
    )
    return el(
        "tr",
        el(
            "th",
            title(row),
            el("small", place) if place else None,
            scope="row",
        ),
        el(
            "td",
            cause(row),
            el(
                "small",
                icon(levels.SEVERITY[row["severity"]]),
                "was info" if severity == "info" else f"was a {severity}",
            ),
        ),
        el(
            "td",
            clock(row["since"], document),
            " to ",
            clock(row["cleared"], document),
            el("small", lasted(row["since"], row["cleared"])),
        ),
        el(
            "td",
            row["ended"] or "No reason was recorded.",
            el("small", ago(row["cleared"], document), " · ", link),
        ),
        id=f"closed-{row['id']}",
    )
