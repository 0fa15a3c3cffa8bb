"""The labels that operators gave to incidents, kept over restarts, and which detectors may page by
them.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from collector.config.settings import Detectors
from collector.node.state import State
from detectors import DETECTORS
from detectors.paging import ALL, paging
from detectors.trust.ledger import VERDICTS, Label, Ledger, Tally
from pipeline.catalog import agent
from pipeline.clock import Instant
from pipeline.frame import Device
from pipeline.observation import Event
from pipeline.selfmetrics import SelfMetrics

log = logging.getLogger("tocsin.labels")

DOCUMENT = "labels"
HASH_DIGITS = 16
COLUMNS = tuple(one.name for one in fields(Label))


class Labels:
    """The ledger of an agent, with what its configuration says of paging."""

    def __init__(self, state: State, metrics: SelfMetrics, settings: Detectors) -> None:
        self._state, self._metrics = state, metrics
        self._ledger = Ledger()
        rows = state.load(DOCUMENT).get("labels", ())
        for row in rows if isinstance(rows, list) else ():
            try:
                label = Label(**{**row, "detectors": tuple(row["detectors"])})
                self._ledger.take(label)
            except (KeyError, TypeError, ValueError) as error:
                log.warning("a label in %s cannot be read, left out: %s", DOCUMENT, error)
        self.configure(settings)

    def configure(self, settings: Detectors) -> None:
        """Follow another configuration."""
        self._settings = settings
        self._tallies = {name: self._tally(name) for name in DETECTORS}
        self._show()

    def allowed(self, settings: Detectors | None = None) -> frozenset[str]:
        """Detectors that may page, by these settings or those of now."""
        settings = settings or self._settings
        installed = _installed(settings)
        if not settings.follow_labels:
            return installed
        fixed = frozenset(DETECTORS if ALL in settings.on_trial else settings.on_trial)
        if settings is self._settings:
            return frozenset(n for n, one in self._tallies.items() if one.state.pages) - fixed
        return self._ledger.pages(installed, DETECTORS) - fixed

    def take(self, label: Label, now: Instant) -> list[Event]:
        """Keep a label; the events of detectors that leave or enter shadow mode by it. ValueError
        where it cannot be kept.

        Only the detectors that it counts for are weighed once more: a fleet's file has thousands.
        """
        before, replaced = self.allowed(), self._ledger.labels.get(label.incident)
        self._ledger.take(label)
        counts_for = {one.detector for one in (label, replaced) if one is not None}
        self._tallies |= {name: self._tally(name) for name in counts_for & DETECTORS.keys()}
        rows = ({n: getattr(one, n) for n in COLUMNS} for one in self._ledger.labels.values())
        document: dict[str, Any] = {"labels": list(rows)}
        self._state.save(DOCUMENT, document)
        self._show()
        changed = sorted(before ^ self.allowed())
        host = label.device.partition("/")[0]
        return [self._change(name, host, now, label.incident) for name in changed]

    def deviations(self, host: str, now: Instant) -> Iterator[Event]:
        """Detectors that are not as the configuration alone has them, for what judges from here
        on.
        """
        for name in sorted(_installed(self._settings) ^ self.allowed()):
            yield self._change(name, host, now, "")

    def _change(self, name: str, host: str, now: Instant, incident: str) -> Event:
        may_page = name in self.allowed()
        reason = words(self._tallies[name])
        kind = "shadow_mode_left" if may_page else "shadow_mode_entered"
        attributes = {"detector": name, "reason": reason, "hash": self._hash(name)}
        if incident:
            attributes["incident"] = incident
            said = "left shadow mode: it may page" if may_page else "entered shadow mode"
            log.warning("detector %s %s (%s)", name, said, reason)
        return Event(*now, Device(host, "node", host), kind, attributes)

    def _tally(self, name: str) -> Tally:
        return self._ledger.tally(name, pages=name in _installed(self._settings))

    def _hash(self, name: str) -> str:
        """Of the labels that count: two agents with the same ones have decided the same."""
        rows = [
            [label.incident, label.verdict, label.device, label.opened_ns]
            for label in self._ledger.counted(name)
        ]
        return hashlib.sha256(json.dumps(rows).encode()).hexdigest()[:HASH_DIGITS]

    def _show(self) -> None:
        allowed = self.allowed()
        # Nothing for those that may page: a node has a budget of series.
        shadow: dict[tuple[str, ...], float] = {
            (name,): 1.0 for name in DETECTORS if name not in allowed
        }
        self._metrics.replace(agent.SHADOW_MODE, shadow)
        self._metrics.replace(
            agent.LABELLED,
            {
                (name, verdict): float(getattr(tally, verdict))
                for name, tally in self._tallies.items()
                for verdict in VERDICTS
                if tally.incidents
            },
        )


def _installed(settings: Detectors) -> frozenset[str]:
    return paging(enabled=settings.off_trial, disabled=settings.on_trial)


def words(tally: Tally) -> str:
    """What the labels of a detector say."""
    low, high = tally.interval
    text = f"{tally.real} real, {tally.false} false, {tally.unclear} unclear"
    return f"{text}; precision {low:.2f} to {high:.2f} at 95 %, at any time of looking"
