"""What a repair reports: steps to the agent, which stores them, and tickets to people. What cannot
be delivered stays in the case file for the next run.
"""

from __future__ import annotations

import http.client
import json
import logging
import os
import smtplib
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from email.message import EmailMessage
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from collector.repair.case import CaseFile

log = logging.getLogger("tocsin.repair")

DEADLINE_S = 10.0
HTTP_OK, HTTP_REFUSED = range(200, 300), range(400, 500)
CONFLICT = 409  # it knows the Idempotency-Key: it has this ticket
LATER = (408, 429)  # refused now, and perhaps not the next time
# Of one ticket: a day of the timer's five minutes, to mend a token or an address.
MAX_REFUSALS = 288
STATE = "delivery"  # of a ticket in the case file: who has it, how often it was refused; never sent

Send = Callable[[Mapping[str, Any]], None]
Waiting = tuple[Mapping[str, Any], ...]


class NotDeliveredError(Exception):
    """The other side is away, or refused. ``left`` is the ticket as it is to be tried again."""

    def __init__(self, text: str, left: Mapping[str, Any] | None = None) -> None:
        super().__init__(text)
        self.left = left


class RefusedError(Exception):
    """A receiver that is there does not want this ticket."""


@dataclass(frozen=True, slots=True)
class Tickets:
    """Where tickets go in one run; what is empty is not used, and who was away is not asked again
    for each ticket.
    """

    url: str = ""
    token_file: str = ""
    file: str = ""
    mail: str = ""
    mail_server: str = "localhost"
    _away: dict[str, str] = field(default_factory=dict)

    def send(self, ticket: Mapping[str, Any]) -> None:
        """To each that has not got it yet. NotDeliveredError."""
        state = ticket.get(STATE, {})
        plain = {name: value for name, value in ticket.items() if name != STATE}
        done, refusals, troubles = list(state.get("done", ())), int(state.get("refusals", 0)), []
        for target, send in self._targets():
            if target in done:
                continue
            try:
                trouble = self._tried(target, send, plain)
            except RefusedError as error:
                refusals, trouble = refusals + 1, _words(error)
                if refusals >= MAX_REFUSALS:
                    log.error(
                        "ticket %s given up, refused %d times: %s", plain["id"], refusals, error
                    )
                    trouble = ""
            if trouble:
                troubles.append(trouble)
            else:
                done.append(target)
        if troubles:
            left = {**plain, STATE: {"done": done, "refusals": refusals}}
            raise NotDeliveredError(f"ticket {plain['id']}: {'; '.join(troubles)}", left)

    def _targets(self) -> Iterator[tuple[str, Send]]:
        targets = ("url", self.url, self._post), ("file", self.file, self._append)
        for name, wanted, send in (*targets, ("mail", self.mail, self._mail)):
            if wanted:
                yield name, send

    def _tried(self, target: str, send: Send, ticket: Mapping[str, Any]) -> str:
        """Why it was not delivered; RefusedError where the receiver wants no such ticket."""
        if target in self._away:
            return self._away[target]
        try:
            send(ticket)
        except (http.client.HTTPException, smtplib.SMTPException, ValueError) as error:
            return _words(error)
        except OSError as error:  # of which SMTPException is one
            return self._away.setdefault(target, _words(error))
        return ""

    def _post(self, ticket: Mapping[str, Any]) -> None:
        where = urlsplit(self.url)
        kind = (
            http.client.HTTPSConnection if where.scheme == "https" else http.client.HTTPConnection
        )
        headers = {"Content-Type": "application/json", "Idempotency-Key": str(ticket["id"])}
        if self.token_file:
            token = Path(self.token_file).read_text(encoding="ascii").strip()
            headers["Authorization"] = f"Bearer {token}"
        connection = kind(where.hostname or "", where.port, timeout=DEADLINE_S)
        try:
            path = (where.path or "/") + (f"?{where.query}" if where.query else "")
            connection.request("POST", path, json.dumps(ticket), headers)
            status = connection.getresponse().status
        finally:
            connection.close()
        if status in HTTP_OK or status == CONFLICT:
            return
        said = f"{where.hostname} answered with HTTP {status}"
        if status in HTTP_REFUSED and status not in LATER:
            raise RefusedError(said)
        raise ValueError(said)

    def _append(self, ticket: Mapping[str, Any]) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(self.file, flags, 0o600), "a", encoding="utf-8") as out:
            out.write(json.dumps(ticket) + "\n")

    def _mail(self, ticket: Mapping[str, Any]) -> None:
        message = EmailMessage()
        message["To"], message["From"] = self.mail, f"tocsin@{os.uname().nodename}"
        message["Subject"] = str(ticket["summary"]).splitlines()[0][:200]
        message["Message-ID"] = f"<{ticket['id']}@tocsin>"
        message.set_content(json.dumps(ticket, indent=2))
        with closing(smtplib.SMTP(self.mail_server, timeout=DEADLINE_S)) as server:
            server.send_message(message)
            with suppress(OSError):  # taken: no answer to QUIT changes that (RFC 5321, 6.1)
                server.quit()


def _words(error: Exception) -> str:
    return str(error) or repr(error)


def deliver(cases: CaseFile, report: Send, ticket: Send) -> list[str]:
    """Send what waits; why the rest still does. DamagedError, OSError.

    Events go in order, to one agent: what it does not take now, it takes none of. Tickets are
    independent of one another.
    """
    book = cases.read()
    events, troubles = _in_order(book.events, report)
    if events != book.events:
        book = replace(book, events=events)
        cases.write(book)
    tickets, more = _each(book.tickets, ticket)
    if tickets != book.tickets:
        cases.write(replace(book, tickets=tickets))
    return [*troubles, *more]


def _in_order(waiting: Waiting, send: Send) -> tuple[Waiting, list[str]]:
    for number, one in enumerate(waiting):
        try:
            send(one)
        except NotDeliveredError as error:
            return waiting[number:], [str(error)]
    return (), []


def _each(waiting: Waiting, send: Send) -> tuple[Waiting, list[str]]:
    left, troubles = [], []
    for one in waiting:
        try:
            send(one)
        except NotDeliveredError as error:
            left.append(one if error.left is None else error.left)
            troubles.append(str(error))
    return tuple(left), troubles
