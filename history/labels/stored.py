"""The labels of a store, and an incident of it as a request describes it."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

from collector.config.error import ConfigError
from collector.config.settings import Config
from detectors.trust.ledger import VERDICTS, Label, Ledger
from pipeline.store.query.incident_history import IncidentHistory, history_of
from pipeline.store.query.labels import Row, label_rows
from pipeline.store.query.store import Store


def opened(config: Config) -> Store:
    """The store of the settings, by the credentials of its upload. ConfigError where there is
    none.
    """
    url = config.storage.path
    try:
        return Store(url, target=replace(config.storage.upload.target, url=url))
    except FileNotFoundError as error:
        raise ConfigError(f"storage.path: {error}") from error


def ledger_of(store: Store) -> Ledger:
    """The labels of all nodes of a store, however many; the last verdict on an incident counts. One
    that no version of this program wrote is left out.
    """
    labels: dict[str, Label] = {}
    for row in label_rows(store):
        if row.get("verdict") not in VERDICTS or not row.get("incident"):
            continue
        label = Label(
            str(row["incident"]),
            row["verdict"],
            tuple(str(row.get("detectors", "")).split()),
            f"{row['host']}/{row['kind']}/{row['device']}",
            str(row.get("class", "")),
            int(row.get("opened_ns", 0)),
            str(row.get("cause", "")),
            str(row.get("user", "")),
            _ns(row["time"]),
        )
        labels[label.incident] = label  # another verdict keeps the place of the first
    return Ledger(labels)


def described(store: Store, text: str) -> dict[str, Any]:
    """An incident or finding of a store by id, prefix or ``latest``, as an agent takes it.
    UnknownIdError.
    """
    history = history_of(store, text)
    if history.incident is not None:
        detectors = dict.fromkeys(one.last["detector"] for one in history.findings)
        return description(history.incident, list(detectors))
    return _finding(history)


def description(row: Row, detectors: list[str]) -> dict[str, Any]:
    """A row of the table ``incidents`` as an agent takes it."""
    return {
        "incident": row["id"],
        "host": row["host"],
        "kind": row["device_kind"],
        "device": row["device"],
        "class": row["fault"],
        "detectors": detectors,
        "opened_ns": _ns(row["opened"]),
    }


def _finding(history: IncidentHistory) -> dict[str, Any]:
    row = history.findings[0].rows[0]
    found = description({**row, "opened": row["onset"]}, [row["detector"]])
    return found | {"host": history.findings[0].host}


def _ns(time: datetime) -> int:
    return round(time.timestamp() * 1_000_000) * 1000
