"""Slurm's own record of node events, as a site known to its accounting can list it:
``sacctmgr -nP show event Event=Node Start=2026-08-01 Format=NodeName,Start,End,State,Reason,User``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, tzinfo
from pathlib import Path

from collector.config.error import ConfigError
from history.backtest.known import Known, text_of
from history.economics.event_rows import MIN_CELLS, event_rows
from pipeline.clock import SECOND_NS

FIELDS = ("NodeName", "Start", "End", "State", "Reason", "User")
HEADS = {"TimeStart": "Start", "TimeEnd": "End"}  # what sacctmgr writes above these fields
OPEN = ("", "Unknown", "None")
# States in which a node does not take jobs for a reason of its own (slurm.h, node_states); a node
# that is idle or allocated is in no event.
OUT = re.compile(r"DOWN|DRAIN|FAIL|NOT_RESPONDING|NO_RESPOND|INVAL", re.IGNORECASE)


def read(path: Path, zone: tzinfo = UTC) -> list[Known]:
    """Drains and failures of a file, by time; its times are local, of ``zone``. ConfigError with
    file, line and field of what is wrong.
    """
    found = [known for known in _rows(path, zone) if known is not None]
    return sorted(found, key=lambda one: (one.opened_ns, one.node))


def looks_like(path: Path) -> bool:
    """Whether a file is such a list, with or without its head."""
    first = text_of(path).partition("\n")[0]
    return first.count("|") >= len(FIELDS) - 2


def _rows(path: Path, zone: tzinfo) -> Iterator[Known | None]:
    text = text_of(path)
    head, _, rest = text.partition("\n")
    names: tuple[str, ...] = FIELDS
    before = 0  # lines
    if "NodeName" in head.split("|"):
        names = tuple(HEADS.get(name, name) for name in head.rstrip("|\r").split("|"))
        text, before = rest, 1
    for row in event_rows(text, names):
        where = f"{path}, line {row.line + before}"
        if len(row.cells) < MIN_CELLS:
            raise ConfigError(f"{where}: expected {'|'.join(FIELDS)}")
        yield _known(dict(zip(names, row.cells, strict=False)), where, zone)


def _known(row: dict[str, str], where: str, zone: tzinfo) -> Known | None:
    if not row.get("NodeName"):
        return None  # an event of the cluster
    if not OUT.search(row.get("State", "")):
        return None
    opened = _time(row.get("Start", ""), f"{where}: Start", zone)
    end = row.get("End", "")
    closed = 0 if end in OPEN else _time(end, f"{where}: End", zone)
    reason = " ".join(row.get("Reason", "").split())
    return Known(row["NodeName"], opened, closed, reason or row["State"], "slurm")


def _time(text: str, where: str, zone: tzinfo) -> int:
    try:
        time = datetime.fromisoformat(text)
        return round((time if time.tzinfo else time.replace(tzinfo=zone)).timestamp()) * SECOND_NS
    except (ValueError, OverflowError):
        raise ConfigError(f"{where}: {text!r} is no time") from None
