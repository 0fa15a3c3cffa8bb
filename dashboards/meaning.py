"""What colours mean, everywhere the same: green is healthy, yellow is worth a look, orange will
fail, red has failed, blue is meant so.
"""

from __future__ import annotations

from typing import NamedTuple

from pipeline.severities import shown_severity

WELL, LOOK, SOON, FAILED, MEANT, UNKNOWN = "green", "yellow", "orange", "red", "blue", "#808080"


class State(NamedTuple):
    """One state of an enumeration: the value of the label that names it, the
    words for it, and its colour.
    """

    label: str
    words: str
    colour: str


class Step(NamedTuple):
    """From this value on the colour holds."""

    value: float
    colour: str


HEALTH = (
    State("ok", "ok", WELL),
    State("degraded", "degraded", LOOK),
    State("predicted_failure", "will fail", SOON),
    State("failed", "failed", FAILED),
)
SILENT = State("", "agent silent", UNKNOWN)
GPU_STATE = (
    State("ok", "ok", WELL),
    State("passthrough", "in a virtual machine", MEANT),
    State("unreadable", "unreadable", LOOK),
    State("hung", "hung", SOON),
    State("absent", "absent", FAILED),
    State("lost", "lost", FAILED),
)
PORT_STATE = (
    State("active", "active", WELL),
    State("active_defer", "active, deferred", WELL),
    State("armed", "armed", LOOK),
    State("init", "initialising", LOOK),
    State("down", "down", FAILED),
    State("absent", "absent", FAILED),
)
# Logical state of a port as node_exporter numbers it (IBTA's PortState).
RAW_PORT_STATE = (
    State("0", "unknown", UNKNOWN),
    State("1", "down", FAILED),
    State("2", "initialising", LOOK),
    State("3", "armed", LOOK),
    State("4", "active", WELL),
    State("5", "active, deferred", WELL),
)
JOB_STATE = (
    State("running", "running", WELL),
    State("slow", "slow", LOOK),
    State("crawl", "at a fraction of its speed", LOOK),
    State("suspect", "possibly stalled", SOON),
    State("stalled", "stalled", FAILED),
)
SEVERITY = (
    State("page", "page", FAILED),
    State("ticket", "ticket", LOOK),
    State("record", shown_severity("record"), MEANT),
)

PLAIN = (Step(0, "text"),)  # a number that is neither good nor bad
NONE_IS_WELL = (Step(0, WELL), Step(1, FAILED))
NONE_IS_BEST = (Step(0, WELL), Step(1, LOOK))
ALL_IS_WELL = (Step(0, FAILED), Step(0.95, LOOK), Step(1, WELL))
EXISTS = (Step(0, "text"), Step(1, MEANT))
