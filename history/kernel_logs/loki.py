"""Kernel logs in Loki: its query_range API, and what logcli and the API's answer hold when saved.

Streams of containers are left out: there a job writes what it likes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

import orjson

from history.kernel_logs.lines import FOREIGN, SYSLOG, LogLine, of_journal, of_text
from history.site.http import Http
from history.site.series import SiteError

PATH = "/loki/api/v1/query_range"
LIMIT = 5_000  # of lines in an answer: Loki's own (max_entries_limit_per_query)
MAX_PAGES = 2_000  # of an hour
# What drivers and the kernel say of hardware; a site names its own streams.
QUERY = '{job=~".+"} |~ "NVRM: |mlx5_core |AER: |Hardware Error|EDAC |nvidia-nvswitch"'
NODES = ("node", "nodename", "node_name", "hostname", "host", "_HOSTNAME", "instance")
OF_JOBS = ("pod", "container", "container_name", "container_id")


class Loki:
    """Asks a Loki for the lines of a time."""

    def __init__(self, http: Http, query: str = QUERY) -> None:
        self._http, self._query = http, query

    def read(self, begin_ns: int, end_ns: int) -> Iterator[LogLine]:
        """Lines from ``begin_ns`` up to but not including ``end_ns``, unix time, each once.
        SiteError.
        """
        seen: set[tuple[int, str]] = set()
        for _ in range(MAX_PAGES):
            document = self._page(begin_ns, end_ns)
            found = [
                (time_ns, text, labels)
                for labels, time_ns, text in _values(document)
                if begin_ns <= time_ns < end_ns
            ]
            for time_ns, text, labels in sorted(found, key=lambda one: one[0]):
                key = time_ns, f"{sorted(labels.items())}{text}"
                if key not in seen and (line := _line(labels, time_ns, text)):
                    yield line
                seen.add(key)
            if len(found) < LIMIT:
                return
            last = max(time_ns for time_ns, _, _ in found)
            if last == begin_ns:
                last += 1  # a full page of one instant: what is beyond it cannot be asked for
            begin_ns, seen = last, {key for key in seen if key[0] == last}
        raise SiteError(f"{self._http.url}: more than {LIMIT * MAX_PAGES:,} lines in an hour")

    def _page(self, begin_ns: int, end_ns: int) -> Any:
        answer = self._http.get(
            PATH,
            query=self._query,
            start=str(begin_ns),
            end=str(end_ns),
            limit=str(LIMIT),
            direction="forward",
        )
        try:
            document = orjson.loads(answer.body)
            if document["status"] == "success":
                return document
        except (orjson.JSONDecodeError, KeyError, TypeError):
            pass
        raise SiteError(f"{self._http.url}{PATH}: HTTP {answer.status}: {answer.words}")


def in_answer(document: Mapping[str, Any]) -> Iterator[LogLine]:
    """Lines of an answer of the API. SiteError where it is none."""
    for labels, time_ns, text in _values(document):
        if line := _line(labels, time_ns, text):
            yield line


def of_export(entry: Mapping[str, Any]) -> LogLine | None:
    """A line of ``logcli -o jsonl``: labels, line and timestamp; None where it is no kernel's."""
    labels, text, stamp = entry.get("labels"), entry.get("line"), entry.get("timestamp")
    if not isinstance(labels, dict) or not isinstance(text, str) or not isinstance(stamp, str):
        return FOREIGN
    try:
        time_ns = round(datetime.fromisoformat(stamp).timestamp() * 1e6) * 1000
    except (ValueError, OverflowError):
        return None
    return _line(labels, time_ns, text)


def _values(document: Mapping[str, Any]) -> Iterator[tuple[dict[str, Any], int, str]]:
    try:
        for one in document["data"]["result"]:
            labels = dict(one["stream"])
            for value in one["values"]:
                yield labels, int(value[0]), str(value[1])
    except (KeyError, TypeError, ValueError, IndexError):
        raise SiteError("an answer of Loki that holds no streams of lines") from None


def _line(labels: Mapping[str, Any], time_ns: int, text: str) -> LogLine | None:
    if any(labels.get(name) for name in OF_JOBS):
        return None
    nodes = tuple(str(labels[name]) for name in NODES if labels.get(name))
    made = None
    if text.startswith("{"):
        try:
            made = of_journal(orjson.loads(text), nodes)
        except (orjson.JSONDecodeError, AttributeError):
            return None
    else:
        made = of_text(text, nodes, time_ns)
    if made is None or made.is_foreign:
        return made
    record = made.record._replace(time_ns=made.record.time_ns or time_ns)
    return LogLine(made.nodes, SYSLOG if made.origin != "journal" else made.origin, record)
