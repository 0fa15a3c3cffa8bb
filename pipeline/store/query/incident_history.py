"""An incident or a single finding as the store has it, from the first row to the last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import orjson
import polars as pl

from pipeline.short_ids import LATEST, UnknownIdError, resolve
from pipeline.store.query.as_judged import as_judged
from pipeline.store.query.store import Store

Row = Mapping[str, Any]
WHAT = "incident or finding"


@dataclass(frozen=True, slots=True)
class FindingHistory:
    """One finding: rows of the table ``findings`` in the order of time, at least one."""

    rows: tuple[Row, ...]

    @property
    def last(self) -> Row:
        """The last row."""
        return self.rows[-1]

    @property
    def worst(self) -> Row:
        """The last row before its end."""
        return next((row for row in reversed(self.rows) if row["phase"] != "cleared"), self.last)

    @property
    def facts(self) -> Mapping[str, str]:
        """Slow facts of the device at that time."""
        facts: Mapping[str, str] = orjson.loads(self.last["device_attributes"])[1]
        return facts

    @property
    def host(self) -> str:
        """Host of the device; empty where it has none."""
        return str(orjson.loads(self.last["device_attributes"])[0])


@dataclass(frozen=True, slots=True)
class IncidentHistory:
    """``incident`` is its newest row; None where a finding was asked for that no incident has.

    Findings in the order of first evidence.
    """

    incident: Row | None
    findings: tuple[FindingHistory, ...]

    @property
    def span(self) -> tuple[datetime, datetime]:
        """From the first evidence to the last row."""
        times = [
            row[name] for one in self.findings for row in one.rows for name in ("onset", "said")
        ]
        if self.incident is not None:
            times += [
                self.incident[name]
                for name in ("opened", "cleared")
                if self.incident[name] is not None
            ]
        return min(times).astimezone(UTC), max(times).astimezone(UTC)


def history_of(store: Store, text: str) -> IncidentHistory:
    """The history of an id, of its prefix, or ``latest``. UnknownIdError where it is not one."""
    wanted = _latest(store) if text == LATEST else resolve(text, _known(store, text), WHAT)
    incidents = _rows(store, "incidents", pl.col("id") == wanted)
    findings = _rows(store, "findings", pl.col("id") == wanted)
    if findings:
        having = _rows(store, "incidents", pl.col("findings").list.contains(wanted))
        return IncidentHistory(having[-1] if having else None, _histories(findings))
    members = list(dict.fromkeys(one for row in incidents for one in row["findings"]))
    history = _histories(_rows(store, "findings", pl.col("id").is_in(members)))
    return IncidentHistory(
        incidents[-1], tuple(sorted(history, key=lambda one: one.rows[0]["onset"]))
    )


def _latest(store: Store) -> str:
    """The incident that opened last; UnknownIdError where the store has none."""
    rows = store.collect(store.table("incidents").select("id", "opened").sort("opened", "id"))
    if not len(rows):
        raise UnknownIdError("the store has no incident")
    return str(rows["id"][-1])


def _known(store: Store, text: str) -> dict[str, str]:
    """Ids with that prefix, or all where none has it; newest first, with fault and device."""
    columns = ("id", "time", "fault", "device")
    parts = [store.table(name).select(columns) for name in ("incidents", "findings")]
    every = pl.concat(parts)
    rows = store.collect(every.filter(pl.col("id").str.starts_with(text)))
    if not len(rows):
        rows = store.collect(every)
    oldest_first = rows.sort("time").to_dicts()
    about = {row["id"]: f"{row['fault']}, {row['device']}" for row in oldest_first}
    return dict(reversed(about.items()))


def _histories(rows: Sequence[Row]) -> tuple[FindingHistory, ...]:
    by_id: dict[str, list[Row]] = {}
    for row in rows:
        by_id.setdefault(row["id"], []).append(row)
    return tuple(FindingHistory(tuple(rows)) for rows in by_id.values())


def _rows(store: Store, table: str, where: pl.Expr) -> list[Row]:
    found = store.collect(store.table(table).filter(where))
    return list(as_judged(found).to_dicts())
