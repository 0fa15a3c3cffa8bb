"""What is known of one repair, and the file that keeps it: written before each act, so that a
process that dies anywhere finds out how far it came.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from collector.integrations.durable import write_json

Step = Literal[
    "suspected", "drained", "reset", "checked", "burning_in", "returned", "rma", "stopped"
]
Rung = Literal["reset", "reboot", "replace"]
LADDER: tuple[Rung, ...] = ("reset", "reboot", "replace")
VERSION = 2
MAX_PAST, MAX_WAITING = 200, 200


@dataclass(frozen=True, slots=True)
class Intent:
    """An act that is about to be done: the lives of node and part before it.

    ``uptime`` is that of the node at ``at``. ``acting`` is false while it is prepared (nothing is
    done to the part yet). ``services`` were stopped for it, and ``persistence`` was switched off.
    """

    rung: Rung
    attempt: int
    boot_id: str
    epoch: str
    at: float
    uptime: float
    acting: bool = False
    services: tuple[str, ...] = ()
    persistence: bool = False


@dataclass(frozen=True, slots=True)
class Case:
    """One fault of one part under repair.

    ``rung`` is the step of the ladder that was done last, ``attempts`` how many acts there were,
    ``note`` why it waits or was stopped, ``since`` when its step began (unix seconds), ``boot_id``
    and ``uptime`` the same by the node's own clock.
    """

    incident: str
    fault: str
    kind: str
    device: str
    name: str
    serial: str
    action: str
    step: Step
    since: float
    rung: Rung | Literal[""] = ""
    attempts: int = 0
    note: str = ""
    bundle: str = ""
    intent: Intent | None = None
    boot_id: str = ""
    uptime: float = 0.0

    @property
    def key(self) -> str:
        """Which part it is about."""
        return f"{self.kind} {self.device}"


@dataclass(frozen=True, slots=True)
class Past:
    """A repair that is over: whether the act ``rung`` helped."""

    fault: str
    device: str
    rung: str
    helped: bool
    at: float


@dataclass(frozen=True, slots=True)
class Book:
    """All repairs of a node, and what is still to be reported of them."""

    cases: Mapping[str, Case] = field(default_factory=dict)
    past: tuple[Past, ...] = ()
    events: tuple[Mapping[str, Any], ...] = ()
    tickets: tuple[Mapping[str, Any], ...] = ()

    def with_case(self, case: Case) -> Book:
        """With this case in place of the one about the same part."""
        return replace(self, cases={**self.cases, case.key: case})

    def without(self, case: Case) -> Book:
        """Without the case about this part."""
        return replace(self, cases={k: c for k, c in self.cases.items() if k != case.key})

    def with_past(self, past: Past) -> Book:
        """The oldest outcomes are forgotten."""
        return replace(self, past=(*self.past, past)[-MAX_PAST:])

    def with_event(self, event: Mapping[str, Any]) -> Book:
        """One more to report to the agent; the oldest are dropped."""
        return replace(self, events=(*self.events, event)[-MAX_WAITING:])

    def with_ticket(self, ticket: Mapping[str, Any]) -> Book:
        """One more to send; the oldest are dropped."""
        return replace(self, tickets=(*self.tickets, ticket)[-MAX_WAITING:])


class DamagedError(Exception):
    """The file holds something else: what was done before is unknown, so nothing may be done."""


class CaseFile:
    """One file in the agent's storage path."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def read(self) -> Book:
        """Empty where there is no file. DamagedError, OSError."""
        try:
            return _book(json.loads(self.file.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return Book()
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise DamagedError(
                f"{self.file} cannot be read ({error!r}): move it away after a look at the node"
            ) from error

    def write(self, book: Book) -> None:
        """On disk when this returns."""
        document = {"version": VERSION, **asdict(book)}
        write_json(self.file, {**document, "sha256": _checksum(document)})


def _book(document: Mapping[str, Any]) -> Book:
    version = document["version"]
    if isinstance(version, int) and version > VERSION:
        raise ValueError(f"a newer release wrote it, in version {version}")
    if version not in (1, VERSION):
        raise ValueError(f"version {version!r}")
    sure = {k: v for k, v in document.items() if k != "sha256"}
    if (version == VERSION or "sha256" in document) and document["sha256"] != _checksum(sure):
        raise ValueError("its checksum is another one")
    cases = [_case(row) for row in document["cases"].values()]
    return Book(
        cases={case.key: case for case in cases},
        past=tuple(Past(**row) for row in document["past"]),
        events=tuple(map(dict, document["events"])),
        tickets=tuple(map(dict, document["tickets"])),
    )


def _checksum(document: Mapping[str, Any]) -> str:
    """One wrong bit could mean another GPU, or an act that was never begun."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _case(row: Mapping[str, Any]) -> Case:
    """Version 1 had no checksum and no times by the node's own clock. Without the time of an act
    its outcome is unknown at once; a step without a boot begins when it is looked at.
    """
    intent = row["intent"]
    if intent is not None:
        intent = Intent(**{"uptime": 0.0, **intent, "services": tuple(intent["services"])})
    return Case(**{**row, "intent": intent})
