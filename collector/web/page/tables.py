"""The tables of the page: NCCL jobs, sources, and the agent itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from collector.durations import span
from collector.web.levels import Level
from collector.web.page.icons import icon
from collector.web.page.markup import Html, Node, el
from collector.web.page.words import upper
from detectors.nccl.verdict import Cause
from detectors.nccl.words import CAUSES

MAX_RANKS = 8  # that are listed
_LEVELS: Mapping[str, Level] = {"wrong": "bad", "slow": "warn", "check": "warn"}
_JOBS: Mapping[str, Level] = {
    "running": "ok",
    "slow": "warn",
    "crawl": "warn",
    "suspect": "warn",
    "stalled": "bad",
}


def jobs(document: Mapping[str, Any]) -> Html | None:
    """State and verdicts of each NCCL job, if there is one."""
    rows = [
        el(
            "tr",
            _head(job["job"], _processes(job)),
            _state(_JOBS[job["state"]], _job(job)),
            el("td", *_verdict(job)),
        )
        for job in document["jobs"]
    ]
    return table("jobs", "NCCL jobs", ("Job", "State", "Verdict"), rows) if rows else None


def settings(document: Mapping[str, Any]) -> Html | None:
    """Settings of NCCL jobs that do not fit the node, each with the line to change."""
    rows = [
        el(
            "tr",
            _head(row["job"], ", ".join(row["ranks"][:MAX_RANKS]) or None),
            _state(_LEVELS.get(row["level"], "warn"), row["level"]),
            el("td", row["why"], el("small", f"Change: {row['change']}")),
        )
        for row in document["nccl_settings"]
    ]
    heads = ("Job", "State", "What does not fit")
    return table("nccl-settings", "Settings of NCCL jobs", heads, rows) if rows else None


def sources(document: Mapping[str, Any]) -> Html:
    """The sources, and which of them deliver no data."""
    rows = [
        el(
            "tr",
            _head(source["name"]),
            _source(source),
            _number(source["age_seconds"], _ago),
            _number(source["duration_seconds"], lambda seconds: f"{seconds * 1000:.1f} ms"),
        )
        for source in document["sources"]
    ]
    if not rows:
        return el(
            "section",
            el("h2", "Sources", id="sources-title"),
            el("p", "No source has been read.", class_="empty"),
            id="sources",
        )
    return table("sources", "Sources", ("Source", "State", "#Last read", "#Duration"), rows)


def agent(document: Mapping[str, Any]) -> Html | None:
    """The agent's own health."""
    rows = [
        el(
            "tr",
            _head(part["name"]),
            _state("ok" if part["ok"] else "warn", "healthy" if part["ok"] else "degraded"),
            el("td", part["text"]),
        )
        for part in document["agent"]
    ]
    return table("agent", "Agent", ("Part", "State", "Details"), rows) if rows else None


def _job(job: Mapping[str, Any]) -> str:
    return (
        f"{job['state']} for {span(job['stalled_seconds'])}"
        if job["stalled_seconds"]
        else str(job["state"])
    )


def _processes(job: Mapping[str, Any]) -> str | None:
    return None if job["processes"] is None else f"{job['processes']} processes here"


def _verdict(job: Mapping[str, Any]) -> Iterable[Node]:
    if not job["verdicts"]:
        return ("no findings",)
    return (upper("; ".join(CAUSES.get(cast("Cause", kind), kind) for kind in job["verdicts"])),)


def _unread(source: Mapping[str, Any]) -> str | None:
    reasons = [f"{count} {reason.replace('_', ' ')}" for reason, count in source["unread"].items()]
    return f"not read: {', '.join(reasons)}" if reasons else None


def _source(source: Mapping[str, Any]) -> Html:
    """No data and late are both unknown: what is not read is not judged."""
    if not source["success"]:
        return _state("blind", "no data", _again(source))
    if source["late"]:
        return _state("blind", "late", "no read succeeded for more than three periods")
    return _state("ok", "ok", _unread(source))


def _again(source: Mapping[str, Any]) -> str | None:
    return (
        f"retry within {span(source['backoff_seconds'] + 1)}" if source["backoff_seconds"] else None
    )


def table(
    key: str, title: str, heads: Iterable[str], rows: Iterable[Html], aside: str | None = None
) -> Html:
    """A section with one table; ``heads`` that begin with # are of numbers."""
    named = (
        el("th", head.lstrip("#"), scope="col", class_="n" if head.startswith("#") else None)
        for head in heads
    )
    body = el(
        "table", el("thead", el("tr", *named)), el("tbody", *rows), aria_labelledby=f"{key}-title"
    )
    head = el("h2", el("span", title, id=f"{key}-title"), el("small", aside) if aside else None)
    return el("section", head, body, id=key, aria_labelledby=f"{key}-title")


def _head(name: str, more: str | None = None) -> Html:
    return el("th", name, el("small", more) if more else None, scope="row")


def _state(level: Level, word: str, more: str | None = None) -> Html:
    return el(
        "td",
        el("span", icon(level), word, class_="state"),
        el("small", more) if more else None,
        data_level=level,
    )


def _number(value: float | None, write: Callable[[float], str]) -> Html:
    return el("td", "-" if value is None else write(value), class_="n")


def _ago(seconds: float) -> str:
    return f"{seconds:.1f} s ago" if seconds < 60 else f"{span(seconds)} ago"
