#!/usr/bin/env python3
"""Users of the bus: one for each host, which may publish on the subject of that host alone, and one
for each gateway.

    bus_users.py DIR init              keys of the operator and the account, and accounts.conf
    bus_users.py DIR host NAME ...     DIR/hosts/NAME.creds, for /etc/tocsin/bus.creds of NAME
    bus_users.py DIR gateway NAME ...  DIR/gateways/NAME.creds
    bus_users.py DIR revoke NAME ...   what was written for these names is refused from now on

accounts.conf goes to the servers (nats.conf: include "accounts.conf"), and again, with a reload,
after `revoke`. DIR holds secret keys: keep it on one machine, out of version control. Needs the
packages of tocsin[bus]; JWTs are of version 2 (docs.nats.io, "JSON Web Tokens").
"""

from __future__ import annotations

import argparse
import base64
import binascii
import json
import os
import re
import sys
import time
from pathlib import Path
from typing import Any

from nacl.signing import SigningKey

from collector.bus.credentials import JWT, SEED
from pipeline.arrival_cut import GATEWAY
from pipeline.bus import subjects

OPERATOR, ACCOUNT, USER, PREFIX_SEED = 14 << 3, 0, 20 << 3, 18 << 3  # nats-io/nkeys, nkeys.go
UNLIMITED = {"subs": -1, "data": -1, "payload": -1}
OF_ACCOUNT = {**UNLIMITED, "imports": -1, "exports": -1, "wildcards": True, "conn": -1, "leaf": -1}
STORAGE = {"mem_storage": -1, "disk_storage": -1, "streams": -1, "consumer": -1}
# What a gateway asks JetStream for: the stream and its messages, and the bucket of the lease.
OF_GATEWAY = ("$JS.API.>", "$JS.ACK.>", "$JS.FC.>", "$KV.tocsin-lease.>")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}")


class Key:
    """A key of one role. Its file holds the seed."""

    def __init__(self, role: int, secret: SigningKey) -> None:
        self.role, self._secret = role, secret
        self.public = _base32(bytes([role]) + bytes(secret.verify_key))

    @property
    def seed(self) -> str:
        """As its file and a credentials file hold it."""
        prefix = bytes([PREFIX_SEED | self.role >> 5, (self.role & 31) << 3])
        return _base32(prefix + bytes(self._secret))

    @classmethod
    def kept(cls, role: int, file: Path) -> Key:
        """The key of a file, which is made where there is none."""
        if not file.exists():
            _write(file, cls(role, SigningKey.generate()).seed + "\n")
        raw = base64.b32decode((text := file.read_text().strip()) + "=" * (-len(text) % 8))
        return cls(role, SigningKey(raw[2:-2]))

    def sign(self, subject: str, name: str, claims: dict[str, Any]) -> str:
        """A JWT about a key."""
        body = {"iat": int(time.time()), "iss": self.public, "sub": subject, "name": name}
        head = {"typ": "JWT", "alg": "ed25519-nkey"}
        parts = [head, {**body, "nats": {**claims, "version": 2}}]
        text = ".".join(_base64(json.dumps(part).encode()) for part in parts)
        return f"{text}.{_base64(self._secret.sign(text.encode()).signature)}"


class Users:
    """The folder with all keys."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder = folder
        self._operator, self._system, self._account = (
            Key.kept(role, folder / f"{name}.seed")
            for role, name in ((OPERATOR, "operator"), (ACCOUNT, "system"), (ACCOUNT, "account"))
        )
        self._users = folder / "users.json"  # public keys by name, of all that was ever written

    def accounts(self, revoked: dict[str, int]) -> None:
        """accounts.conf, with which the servers know the account and whom it refuses."""
        system = {"type": "account", "limits": OF_ACCOUNT}
        own = {"type": "account", "limits": OF_ACCOUNT | STORAGE, "revocations": revoked}
        operator = self._signed(self._operator, {"type": "operator"}, "operator")
        jwts = {
            self._account.public: self._operator.sign(self._account.public, "tocsin", own),
            self._system.public: self._signed(self._system, system, "system"),
        }
        lines = [
            f"operator: {operator}",
            f"system_account: {self._system.public}",
            "resolver: MEMORY",
            "resolver_preload: {",
            *(f"  {public}: {jwt}" for public, jwt in jwts.items()),
            "}",
        ]
        _write(self._folder / "accounts.conf", "\n".join(lines) + "\n")

    def _signed(self, key: Key, claims: dict[str, Any], name: str) -> str:
        """A JWT that stays as it is: a server that reloads takes no other operator."""
        file = self._folder / f"{name}.jwt"
        if not file.exists():
            _write(file, self._operator.sign(key.public, name, claims))
        return file.read_text(encoding="utf-8")

    def user(self, kind: str, name: str, publish: list[str], inbox: str) -> Path:
        """A credentials file of a new user."""
        key = Key(USER, SigningKey.generate())
        claims = {
            "type": "user",
            "pub": {"allow": publish},
            "sub": {"allow": [f"{inbox}.>"]},
            **UNLIMITED,
        }
        parts = {JWT: self._account.sign(key.public, name, claims), SEED: key.seed}
        text = "".join(
            f"-----BEGIN {part}-----\n{value}\n------END {part}------\n\n"
            for part, value in parts.items()
        )
        file = self._folder / kind / f"{name}.creds"
        file.parent.mkdir(mode=0o700, exist_ok=True)
        known = self._known()
        known.setdefault(f"{kind}/{name}", []).append(key.public)
        _write(self._users, json.dumps(known, indent=1) + "\n")
        _write(file, text)
        return file

    def revoke(self, names: list[str]) -> None:
        """Refuse what was written for hosts or gateways of these names until now."""
        known, file = self._known(), self._folder / "revoked.json"
        revoked: dict[str, int] = json.loads(file.read_text()) if file.exists() else {}
        for name in names:
            keys = [*known.get(f"hosts/{name}", ()), *known.get(f"gateways/{name}", ())]
            if not keys:
                raise SystemExit(f"{name}: nothing was written for it")
            revoked |= dict.fromkeys(keys, int(time.time()))
        _write(file, json.dumps(revoked, indent=1) + "\n")
        self.accounts(revoked)

    def _known(self) -> dict[str, list[str]]:
        known: dict[str, list[str]] = {}
        if self._users.exists():
            known = json.loads(self._users.read_text())
        return known


def _write(file: Path, text: str) -> None:
    """For the owner alone, all of it or nothing."""
    part = file.with_suffix(f"{file.suffix}.part")
    part.unlink(missing_ok=True)
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as out:
        out.write(text)
    part.replace(file)


def _base32(raw: bytes) -> str:
    checked = raw + binascii.crc_hqx(raw, 0).to_bytes(2, "little")
    return base64.b32encode(checked).decode().rstrip("=")


def _base64(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def _say(file: Path) -> None:
    sys.stdout.write(f"{file}\n")


def _name(text: str) -> str:
    if not NAME.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no name of a host")
    return text


def main() -> None:
    """One command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, metavar="DIR")
    parser.add_argument("--cluster", default="default", help="as bus.cluster (default: default)")
    parser.add_argument("what", choices=("init", "host", "gateway", "revoke"))
    parser.add_argument("names", nargs="*", type=_name, metavar="NAME")
    args = parser.parse_args()
    if args.what != "init" and not (args.folder / "account.seed").exists():
        parser.error(f"{args.folder} has no account: init makes one")
    if (args.what == "init") == bool(args.names):
        parser.error("init takes no names, the others take at least one")
    if args.what == "host" and GATEWAY in args.names:
        parser.error(f"host {GATEWAY}: the inbox of that name is the gateways'")
    users = Users(args.folder)
    if args.what == "init":
        if (args.folder / "accounts.conf").exists():
            parser.error(f"{args.folder} has an account already")
        users.accounts({})
    elif args.what == "revoke":
        users.revoke(args.names)
    for name in args.names:
        if args.what == "host":
            subject = subjects.frames(args.cluster, name)
            _say(users.user("hosts", name, [subject], subjects.inbox(name)))
        elif args.what == "gateway":
            _say(users.user("gateways", name, [*OF_GATEWAY], subjects.inbox(GATEWAY)))


if __name__ == "__main__":
    sys.exit(main())
