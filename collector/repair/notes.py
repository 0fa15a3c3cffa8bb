"""The book of a node's repairs while one run works on it: each step is on disk when it is noted."""

from __future__ import annotations

from collections.abc import Callable

from collector.repair.case import Book, Case, CaseFile, Past
from collector.repair.ladder import proposal
from collector.repair.ticket import event_of, ticket_of


class Notes:
    """``silent`` keeps nothing: a dry run."""

    def __init__(
        self, node: str, cases: CaseFile, now: Callable[[], float], *, silent: bool
    ) -> None:
        self._node, self._cases, self._now, self._silent = node, cases, now, silent
        self.book = Book()

    def read(self) -> None:
        """DamagedError, OSError."""
        self.book = self._cases.read()

    def open(self) -> list[Case]:
        """The cases that are not over."""
        return list(self.book.cases.values())

    def keep(self, case: Case) -> Case:
        """What is about to happen, or was found; no step of its own."""
        self.book = self.book.with_case(case)
        self._write()
        return case

    def step(self, case: Case, *, ticket: bool = False) -> Case:
        """A step: an event for the store, and where people must act a ticket."""
        self.book = self.book.with_case(case).with_event(event_of(case, self._now(), helped=None))
        if ticket:
            words = proposal(case.fault, self.book.past)
            self.book = self.book.with_ticket(ticket_of(case, self._node, self._now(), words))
        self._write()
        return case

    def outcome(self, case: Case, *, helped: bool) -> None:
        """What the last act was good for; written with the step that follows."""
        if case.rung:
            past = Past(case.fault, case.device, case.rung, helped, self._now())
            self.book = self.book.with_past(past)

    def over(self, case: Case, *, helped: bool | None = None) -> None:
        """The case ends."""
        if helped is not None:
            self.outcome(case, helped=helped)
            self.book = self.book.with_event(event_of(case, self._now(), helped=helped))
        self.book = self.book.without(case)
        self._write()

    def _write(self) -> None:
        if not self._silent:
            self._cases.write(self.book)
