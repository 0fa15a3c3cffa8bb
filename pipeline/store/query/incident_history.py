"""An incident or a single finding as the store has it: what was said of it, from the first word to the last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import orjson
import polars as pl

from pipeline.store.query import Store

Row = Mapping[str, Any]
MOST_NAMED = 10  # ids in an error message


class UnknownCaseError(LookupError):
    """No incident and no finding, or more than one, is what was asked for; the message says what there is."""


@dataclass(frozen=True, slots=True)
class Told:
    """One finding: rows of the table ``findings`` in the order of time, at least one."""

    rows: tuple[Row, ...]

    @property
    def last(self) -> Row:
        """The last word on it."""
        return self.rows[-1]

    @property
    def worst(self) -> Row:
        """What was said when it was worst: the last word but for its end."""
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
class Case:
    """``incident`` is its newest row; None where a finding was asked for that no incident has. Findings in the order of first evidence."""

    incident: Row | None
    findings: tuple[Told, ...]

    @property
    def span(self) -> tuple[datetime, datetime]:
        """From the first evidence to the last word."""
        times = [row[name] for told in self.findings for row in told.rows for name in ("onset", "said")]
        if self.incident is not None:
            times += [self.incident[name] for name in ("opened", "cleared") if self.incident[name] is not None]
        return min(times).astimezone(UTC), max(times).astimezone(UTC)


def case_of(store: Store, text: str) -> Case:
    """The case of an id, or of its unique beginning. UnknownCaseError where there is none or more than one."""
    incidents = _rows(store, "incidents", pl.col("id").str.starts_with(text) | pl.col("findings").list.contains(text))
    findings = _rows(store, "findings", pl.col("id").str.starts_with(text))
    ids = list(dict.fromkeys(row["id"] for row in (*incidents, *findings) if row["id"].startswith(text)))
    if len(ids) != 1:
        listed = ", ".join(ids[:MOST_NAMED]) if ids else _newest(store)
        raise UnknownCaseError(f"{'which of' if ids else 'no'} incident or finding {text!r}: there is {listed}")
    if any(row["id"] == ids[0] for row in findings):
        having = _rows(store, "incidents", pl.col("findings").list.contains(ids[0]))
        return Case(having[-1] if having else None, _told(findings))
    incident = incidents[-1]
    wanted = list(dict.fromkeys(one for row in incidents for one in row["findings"]))
    told = _told(_rows(store, "findings", pl.col("id").is_in(wanted)))
    return Case(incident, tuple(sorted(told, key=lambda one: one.rows[0]["onset"])))


def _told(rows: Sequence[Row]) -> tuple[Told, ...]:
    by_id: dict[str, list[Row]] = {}
    for row in rows:
        by_id.setdefault(row["id"], []).append(row)
    return tuple(Told(tuple(said)) for said in by_id.values())


def _rows(store: Store, table: str, where: pl.Expr) -> list[Row]:
    found = store.collect(store.table(table).filter(where))
    return list(found.sort("time", "seq").to_dicts())


def _newest(store: Store) -> str:
    """The last incidents and findings that there are, newest first."""
    parts = [store.collect(store.table(name).select("id", "time")) for name in ("incidents", "findings")]
    ids = pl.concat(parts).sort("time", descending=True)["id"].unique(maintain_order=True).to_list()
    return ", ".join(ids[:MOST_NAMED]) if ids else "none at all"
