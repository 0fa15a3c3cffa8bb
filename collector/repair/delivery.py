"""What a repair reports: steps to the agent, which stores them, and tickets to people. What cannot
be delivered stays in the case file for the next run.
"""

from __future__ import annotations

import http.client
import json
import os
import smtplib
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from email.message import EmailMessage
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from collector.repair.case import Book, CaseFile

DEADLINE_S = 10.0
HTTP_OK = range(200, 300)

Send = Callable[[Mapping[str, Any]], None]


class NotDeliveredError(Exception):
    """The other side is away, or refused."""


@dataclass(frozen=True, slots=True)
class Tickets:
    """Where tickets go; what is empty is not used."""

    url: str = ""
    token_file: str = ""
    file: str = ""
    mail: str = ""
    mail_server: str = "localhost"

    def send(self, ticket: Mapping[str, Any]) -> None:
        """To each in turn; who has it may get it again. NotDeliveredError."""
        try:
            for wanted, send in (
                (self.url, self._post),
                (self.file, self._append),
                (self.mail, self._mail),
            ):
                if wanted:
                    send(ticket)
        except (OSError, http.client.HTTPException, smtplib.SMTPException, ValueError) as error:
            raise NotDeliveredError(f"ticket {ticket['id']}: {error}") from error

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
        if status not in HTTP_OK:
            raise ValueError(f"{where.hostname} answered with HTTP {status}")

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


def deliver(cases: CaseFile, report: Send, ticket: Send) -> list[str]:
    """Send what waits; why the rest still does. DamagedError, OSError."""
    book, troubles = cases.read(), []
    for name, send in (("events", report), ("tickets", ticket)):
        left, trouble = _sent(getattr(book, name), send)
        troubles += [trouble] if trouble else []
        if len(left) < len(getattr(book, name)):
            book = _without(book, name, left)
            cases.write(book)
    return troubles


def _sent(waiting: tuple[Mapping[str, Any], ...], send: Send) -> tuple[tuple[Any, ...], str]:
    for number, one in enumerate(waiting):
        try:
            send(one)
        except NotDeliveredError as error:
            return waiting[number:], str(error)
    return (), ""


def _without(book: Book, name: str, left: tuple[Any, ...]) -> Book:
    return replace(book, events=left) if name == "events" else replace(book, tickets=left)
