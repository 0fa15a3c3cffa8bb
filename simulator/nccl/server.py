"""A RAS server as NCCL's: the protocol, and the manners of servers that a client must survive."""

from __future__ import annotations

import contextlib
import socket
import socketserver
import threading
from collections.abc import Callable
from datetime import datetime
from typing import Literal, get_args

from pipeline.clock import Clock
from simulator.nccl.job import Job
from simulator.nccl.json_reply import render_json
from simulator.nccl.monitor_event import MonitorEvent, render_event
from simulator.nccl.text_reply import render_text

Manner = Literal[
    "sound", "hang", "cut", "drip", "flood", "phantom", "text_only", "no_monitor", "refuse"
]
MANNERS: dict[str, Manner] = {manner: manner for manner in get_args(Manner)}

# bytes; a full one without the end of a line closes the connection (src/ras/client_support.cc)
BUFFER = 1024
PROTOCOL = 2
GROUPS = {"lifecycle", "trace", "all"}
JSON_SINCE, MONITOR_SINCE = (2, 28, 7), (2, 29, 2)
DRIP_S = 0.02


class RasServer:
    """Serves the replies of ``job()`` on an address until closed; ``port``
    is the one that was free.

    ``manner``: *sound* answers; *hang* accepts and is silent, as a stopped process; *cut* ends in
    the middle of a reply; *drip* sends a byte at a time; *flood* never stops; *phantom* adds the
    empty communicator of NVIDIA/nccl#2346; *text_only* and *no_monitor* are older releases;
    *refuse* closes at once.
    """

    def __init__(
        self,
        job: Callable[[], Job],
        clock: Clock,
        *,
        manner: Manner = "sound",
        host: str = "127.0.0.1",
        port: int = 0,
    ) -> None:
        self.job, self.clock, self.manner = job, clock, manner
        self.asked: list[str] = []  # commands, in the order they came
        self.closing = threading.Event()
        self.listeners: dict[
            socket.socket, tuple[bool, frozenset[str]]
        ] = {}  # of events: whether as JSON, and which groups
        self._server = _Listener((host, port), _Talk)
        self._server.ras = self
        self.host, self.port = self._server.server_address[:2]
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.05,), name="fake-ras", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Stop serving. Safe to call twice."""
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def tell(self, event: MonitorEvent) -> None:
        """Send an event to those who listen to its group; one that hung up is forgotten."""
        for connection, (as_json, groups) in list(self.listeners.items()):
            if event.group in groups:
                try:
                    connection.sendall(
                        render_event(event, self.timestamp(), as_json=as_json).encode()
                    )
                except OSError:
                    self.listeners.pop(connection, None)

    def timestamp(self) -> str:
        """Now, as NCCL prints it: local time of the node."""
        return datetime.fromtimestamp(self.clock.time_ns() / 1e9).strftime("%Y-%m-%d %H:%M:%S")  # noqa: DTZ006 - local is meant

    def __enter__(self) -> RasServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Listener(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False
    ras: RasServer


class _Talk(socketserver.BaseRequestHandler):
    """One client."""

    request: socket.socket

    def handle(self) -> None:
        """Commands until the client or a report ends it."""
        assert isinstance(self.server, _Listener)  # noqa: S101 - nobody else makes one
        self.ras = self.server.ras
        self.format = "text"
        rest = b""
        if self.ras.manner == "refuse":
            return
        with contextlib.suppress(OSError):
            while not self.ras.closing.is_set():
                *lines, rest = rest.split(b"\n")
                for line in lines:
                    if not self._obey(line.rstrip(b"\r").decode(errors="replace")):
                        return
                piece = self.request.recv(BUFFER - len(rest))
                if not piece:
                    return
                rest += piece
                if len(rest) >= BUFFER and b"\n" not in rest:
                    return

    def _obey(self, line: str) -> bool:
        """One command; False where the connection ends with it."""
        ras = self.ras
        ras.asked.append(line)
        if ras.manner == "hang":
            ras.closing.wait()
            return False
        words = line.upper().split(" ")
        argument = line.rsplit(" ", maxsplit=1)[-1]
        match words:
            case ["CLIENT", "PROTOCOL", _]:
                self._say(f"SERVER PROTOCOL {PROTOCOL}")
            case ["TIMEOUT", number]:
                self._say(
                    "OK" if number.isdecimal() else f"ERROR: Invalid timeout value {argument}"
                )
            case ["SET", "FORMAT", form] if self._can(JSON_SINCE) and ras.manner != "text_only":
                if form in {"TEXT", "JSON"}:
                    self.format = form.lower()
                self._say("OK" if form in {"TEXT", "JSON"} else f"ERROR: Invalid format {argument}")
            case ["STATUS"] | ["VERBOSE", "STATUS"]:
                self._report(verbose=len(words) == 2)
                return False
            case ["MONITOR", *groups] if self._can(MONITOR_SINCE) and ras.manner != "no_monitor":
                wanted = frozenset(groups[0].lower().split(",") if groups else ["lifecycle"])
                self._say("OK" if wanted <= GROUPS else f"ERROR: Invalid event group '{argument}'")
                if wanted <= GROUPS:
                    heard = wanted if "all" not in wanted else frozenset({"lifecycle", "trace"})
                    ras.listeners[self.request] = (self.format == "json", heard)
            case _:
                self._say(f"ERROR: Unknown command {line}")
        return True

    def _can(self, since: tuple[int, ...]) -> bool:
        return self.ras.job().version >= since

    def _say(self, line: str) -> None:
        self.request.sendall(f"{line}\n".encode())

    def _report(self, *, verbose: bool) -> None:
        ras, job = self.ras, self.ras.job()
        reply = (
            render_json(job, ras.timestamp())
            if self.format == "json"
            else render_text(job, verbose=verbose)
        ).encode()
        if ras.manner == "phantom":
            reply = _with_phantom(reply)
        if ras.manner == "cut":
            reply = reply[: len(reply) // 2]
        if ras.manner == "drip":
            for byte in reply:
                if ras.closing.wait(DRIP_S):
                    return
                self.request.sendall(bytes([byte]))
            return
        self.request.sendall(reply)
        while ras.manner == "flood" and not ras.closing.is_set():
            self.request.sendall(b" " * 65536)


def _with_phantom(reply: bytes) -> bytes:
    """NVIDIA/nccl#2346: a communicator that is being initialised gives a zeroed record."""
    entry = (
        b'    {\n      "hash": "0x0",\n      "secondary_hash": "0x0:0x0",\n      "size": 0,\n      '
        b'"ranks_count": 0,\n'
        b'      "missing_ranks_count": 0,\n      "ranks": [\n\n      ],\n      "missing_ranks": '
        b"[\n\n      ]\n    },\n"
    )
    head, communicators, tail = reply.partition(b'"communicators": [\n')
    return head + communicators + entry + tail
