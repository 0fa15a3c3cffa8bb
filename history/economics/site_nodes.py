"""Nodes that were out of service as a site's Prometheus recorded it: cordons and conditions of
Kubernetes (kube-state-metrics), states of Slurm's nodes where an exporter shows them.
"""

from __future__ import annotations

import re

from history.economics.sacct import NodeEvent
from history.meaning.labels import LabelMap
from history.meaning.site_facts import FACTS
from history.site.series import Site
from history.site_log import SiteLog

HOUR_MS = 3_600_000
# A span ends with its last sample: it lasted half an interval of the source's scrapes longer. Of a
# source with a single sample the interval is Prometheus' default.
DEFAULT_MS = 60_000
STILL_MS = 600_000  # one that has samples to the end is open
# A state of Kubernetes or Slurm ("down*", "DOWN+DRAIN"). Reasons of drains are free text: a drained
# node whose reason says that something failed is not down, and its jobs run on.
DOWN = re.compile(
    r"not ready|(?:\w+[*~#!%$@^-]?\+)*(?:power\w*_)?"
    r"(?:down|fail(?:ing)?|no_?resp(?:ond)?|not_responding)[*~#!%$@^-]?(?:\+.*)?",
    re.IGNORECASE,
)
CORDONED = "cordoned"
SOURCES = ("kubernetes", "slurm")


def site_log(site: Site, begin_ms: int, end_ms: int) -> SiteLog:
    """What the site knew of its nodes in a span, unix ms, hour by hour. SiteError."""
    names = [name for name in site.names(begin_ms, end_ms) if name in FACTS and name != "ALERTS"]
    log = SiteLog()
    for begin in range(begin_ms, end_ms, HOUR_MS):
        for name in names:
            for series in site.read(name, begin, min(begin + HOUR_MS, end_ms)):
                log.take(series, LabelMap())
    return log


def outages(log: SiteLog, end_ms: int) -> list[NodeEvent]:
    """The spans in which a node took no work. A condition alone (disk pressure, a problem that a
    detector reports) takes no node out of service: the cordon does.
    """
    return [
        NodeEvent(
            node,
            begin_ms / 1000,
            None
            if last_ms + STILL_MS >= end_ms
            else (last_ms + log.every_ms.get(source, DEFAULT_MS) / 2) / 1000,
            _state(cause),
            cause,
            source,
        )
        for node, source, cause, begin_ms, last_ms in log.spans
        if source in SOURCES and (source == "slurm" or cause in (CORDONED, "not ready"))
    ]


def _state(cause: str) -> str:
    if DOWN.fullmatch(cause):
        return "DOWN"
    return "MAINT" if "maint" in cause.lower() else "DRAIN"
