"""What a repair reports, to an agent and to people that may be away."""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from collector.repair.case import Book, CaseFile
from collector.repair.delivery import MAX_REFUSALS, NotDeliveredError, Tickets, deliver

TICKET = {"id": "5a2e-rma-2", "summary": "GPU 3 on gpu01: replace it.\r\nBcc: x@y", "step": "rma"}


@pytest.fixture
def cases(tmp_path: Path) -> CaseFile:
    """With two events and two tickets that wait."""
    file = CaseFile(tmp_path / "repair.json")
    file.write(Book(events=({"n": 1}, {"n": 2}), tickets=({"id": "a"}, {"id": "b"})))
    return file


def test_what_was_taken_is_not_sent_again(cases: CaseFile) -> None:
    """The rest waits for the next run, in order."""
    sent: list[Mapping[str, Any]] = []

    def one_only(ticket: Mapping[str, Any]) -> None:
        if ticket["id"] == "b":
            raise NotDeliveredError("away")

    assert deliver(cases, sent.append, one_only) == ["away"]
    assert sent == [{"n": 1}, {"n": 2}]
    book = cases.read()
    assert (book.events, book.tickets) == ((), ({"id": "b"},))


def test_a_ticket_that_fails_keeps_no_other_back(cases: CaseFile) -> None:
    """Each is tried by itself, and what failed is tried again with what became of it."""
    sent: list[str] = []

    def all_but_one(ticket: Mapping[str, Any]) -> None:
        if ticket["id"] == "a":
            raise NotDeliveredError("refused", {**ticket, "delivery": {"refusals": 1}})
        sent.append(ticket["id"])

    assert deliver(cases, lambda _: None, all_but_one) == ["refused"]
    assert sent == ["b"]
    assert cases.read().tickets == ({"id": "a", "delivery": {"refusals": 1}},)


class Webhook(ThreadingHTTPServer):
    """Remembers what it got."""

    status = 200

    def __init__(self) -> None:
        self.got: list[tuple[str, dict[str, str], Any]] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                server.got.append((self.path, dict(self.headers), body))
                self.send_response(server.status)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        super().__init__(("127.0.0.1", 0), Handler)


@pytest.fixture
def webhook() -> Iterator[Webhook]:
    """On a port of its own."""
    with Webhook() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.slow
def test_a_webhook_gets_the_ticket_with_its_token(webhook: Webhook, tmp_path: Path) -> None:
    """The same id each time, for receivers that know it already; a refusal is no delivery."""
    (tmp_path / "token").write_text("secret\n")
    port = webhook.server_address[1]
    tickets = Tickets(f"http://127.0.0.1:{port}/hook?a=1", str(tmp_path / "token"))
    tickets.send(TICKET)
    ((path, headers, body),) = webhook.got
    assert (path, body) == ("/hook?a=1", TICKET)
    assert headers["Authorization"] == "Bearer secret"
    assert headers["Idempotency-Key"] == TICKET["id"]
    webhook.status = 500
    with pytest.raises(NotDeliveredError, match="HTTP 500"):
        tickets.send(TICKET)


@pytest.mark.slow
def test_a_webhook_that_knows_a_ticket_has_it(webhook: Webhook) -> None:
    """409 is its answer to an Idempotency-Key that it has seen."""
    webhook.status = 409
    Tickets(f"http://127.0.0.1:{webhook.server_address[1]}").send(TICKET)
    assert len(webhook.got) == 1


@pytest.mark.slow
@pytest.mark.parametrize(("status", "given_up"), [(422, True), (429, False), (503, False)])
def test_a_ticket_that_is_refused_for_good_is_given_up(
    webhook: Webhook, tmp_path: Path, caplog: pytest.LogCaptureFixture, status: int, given_up: bool
) -> None:
    """After a day, with a word in the log; one that is refused for now waits on."""
    webhook.status = status
    tickets = Tickets(f"http://127.0.0.1:{webhook.server_address[1]}")
    file = CaseFile(tmp_path / "repair.json")
    state = {"done": [], "refusals": MAX_REFUSALS - 2}
    file.write(Book(tickets=({**TICKET, "delivery": state},)))
    for _ in range(2):
        assert bool(deliver(file, lambda _: None, tickets.send)) is (
            len(webhook.got) == 1 or not given_up
        )
    assert [body for _, _, body in webhook.got] == [TICKET, TICKET]
    assert (file.read().tickets == ()) is given_up
    assert ("given up" in caplog.text) is given_up


@pytest.mark.slow
def test_who_has_a_ticket_does_not_get_it_again(webhook: Webhook, tmp_path: Path) -> None:
    """One receiver took it, the other was away: only that one is tried again."""
    target = tmp_path / "tickets"
    target.mkdir()
    file = CaseFile(tmp_path / "repair.json")
    file.write(Book(tickets=(TICKET,)))
    for troubles in (1, 0):
        url = f"http://127.0.0.1:{webhook.server_address[1]}"
        said = deliver(file, lambda _: None, Tickets(url, file=str(target)).send)
        assert len(said) == troubles
        if troubles:
            target.rmdir()
    assert len(webhook.got) == 1
    assert json.loads(target.read_text()) == TICKET
    assert file.read().tickets == ()


def test_who_is_away_is_asked_once_in_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two hundred tickets would wait for two hundred deadlines; the others get them all."""
    tried: list[object] = []

    def away(_: Tickets, ticket: object) -> None:
        tried.append(ticket)
        raise TimeoutError

    monkeypatch.setattr(Tickets, "_post", away)
    tickets = Tickets("http://tickets", file=str(tmp_path / "tickets"))
    for name in "abc":
        with pytest.raises(NotDeliveredError, match="TimeoutError"):
            tickets.send({"id": name})
    assert len(tried) == 1
    assert len((tmp_path / "tickets").read_text().splitlines()) == 3


def test_a_file_gets_a_line_and_a_link_is_refused(tmp_path: Path) -> None:
    """Root writes it: nobody may send that elsewhere."""
    Tickets(file=str(tmp_path / "tickets")).send(TICKET)
    assert json.loads((tmp_path / "tickets").read_text()) == TICKET
    (tmp_path / "link").symlink_to(tmp_path / "shadow")
    with pytest.raises(NotDeliveredError):
        Tickets(file=str(tmp_path / "link")).send(TICKET)
    assert not (tmp_path / "shadow").exists()


class Smtp(socketserver.StreamRequestHandler):
    """As much of RFC 5321 as one mail needs."""

    got: ClassVar[list[bytes]] = []
    farewell: ClassVar[bytes] = b""

    def handle(self) -> None:
        self.wfile.write(b"220 here\r\n")
        data = False
        for line in self.rfile:
            Smtp.got.append(line)
            if data:
                data = line.rstrip() != b"."
                self.wfile.write(b"" if data else b"250 taken\r\n")
            elif line.upper().startswith(b"DATA"):
                data = True
                self.wfile.write(b"354 go\r\n")
            elif line.upper().startswith(b"QUIT"):
                self.wfile.write(Smtp.farewell)
                return
            else:
                self.wfile.write(b"250 fine\r\n")


@pytest.mark.slow
@pytest.mark.parametrize(
    "farewell",
    [b"221 bye\r\n", b"250 fine\r\n", b"?\r\n", b""],
    ids=["221", "250", "no code", "silence"],
)
def test_a_mail_has_the_summary_as_subject(
    farewell: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line of it: a summary is no place for headers. It is delivered once the server took it,
    whatever that says to QUIT.
    """
    monkeypatch.setattr(Smtp, "farewell", farewell)
    monkeypatch.setattr(Smtp, "got", [])
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Smtp) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            host = f"127.0.0.1:{server.server_address[1]}"
            Tickets(mail="ops@example.com", mail_server=host).send(TICKET)
        finally:
            server.shutdown()
            thread.join()
    assert b"Subject: GPU 3 on gpu01: replace it.\r\n" in Smtp.got
    assert not [line for line in Smtp.got if line.startswith(b"Bcc")]
