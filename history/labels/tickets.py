"""Tickets of a site, and labels of another agent, as CSV files: requests to label incidents."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from collector.agent.request_text import MAX_TEXT
from collector.config.error import ConfigError
from detectors.trust.ledger import VERDICTS
from history.backtest.known import EARLY_NS, Known, read_rows, row_of
from history.labels.stored import description
from history.meaning.node_names import NodeNames
from pipeline.store.query.labels import Row

LABEL_COLUMNS = ("incident", "verdict", "detectors", "device", "class", "opened_ns", "cause")


def labels(path: Path) -> Iterator[dict[str, Any]]:
    """Requests of a file that ``tocsin precision --format csv`` wrote. ConfigError."""
    for where, row in read_rows(path, LABEL_COLUMNS):
        host, _, rest = row["device"].partition("/")
        kind, _, device = rest.partition("/")
        if not row["opened_ns"].isdigit():
            raise ConfigError(f"{where}: opened_ns: expected unix nanoseconds")
        about = {
            "incident": row["incident"],
            "host": host,
            "kind": kind,
            "device": device,
            "class": row["class"],
            "detectors": row["detectors"].split(),
            "opened_ns": int(row["opened_ns"]),
        }
        yield {"verdict": row["verdict"], "cause": row["cause"], "about": about}


def read(path: Path) -> list[tuple[Known, str]]:
    """Tickets with their verdicts (column ``verdict``; ``real`` where there is none). ConfigError
    names file, line and column.
    """
    found: list[tuple[Known, str]] = []
    for where, row in read_rows(path):
        verdict = (row.get("verdict") or "real").strip().lower()
        if verdict not in VERDICTS:
            raise ConfigError(f"{where}: verdict: expected {', '.join(VERDICTS)}, got {verdict!r}")
        found.append((row_of(row, where), verdict))
    return found


def requests(
    tickets: Sequence[tuple[Known, str]],
    incidents: Sequence[Row],
    labelled: Collection[str],
    rest: str,
) -> Iterator[dict[str, Any]]:
    """A request for each incident of ``incidents`` (pipeline/store/query/labels.py) that has a
    ticket of its node (by its short name too), opened from a day before the ticket to its end.

    An incident between the first and the last ticket that has none gets ``rest`` (``none``: no
    label): labels of those alone that were confirmed would prove any detector right. What an
    operator has ``labelled`` stays.
    """
    if not tickets:
        return
    names = NodeNames({str(row["host"]) for row in incidents})
    tickets = [(replace(one, node=names.named(one.node)), verdict) for one, verdict in tickets]
    end_ns = max(max(one.opened_ns, one.closed_ns) for one, _ in tickets)
    begin_ns = min(one.opened_ns for one, _ in tickets) - EARLY_NS
    for row in incidents:
        request = description(row, list(row["detectors"]))
        at = request["opened_ns"]
        if row["severity"] == "record" or row["id"] in labelled or not request["detectors"]:
            continue
        match = next((pair for pair in tickets if _covers(pair[0], row["host"], at, end_ns)), None)
        if match is not None:
            cause = match[0].cause[:MAX_TEXT]  # a ticket has room for a story
            yield {"verdict": match[1], "cause": cause, "about": request}
        elif rest != "none" and begin_ns <= at <= end_ns:
            yield {"verdict": rest, "cause": "no ticket", "about": request}


def _covers(ticket: Known, host: str, at_ns: int, end_ns: int) -> bool:
    until = ticket.closed_ns or end_ns
    return bool(host) and ticket.node == host and ticket.opened_ns - EARLY_NS <= at_ns <= until
