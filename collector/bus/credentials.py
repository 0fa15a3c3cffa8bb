"""A NATS credentials file: a user's JWT and the seed of the key that signs the server's nonce.

Format: "NATS credentials" as written by ``nsc generate creds``; seed: base32 of two prefix bytes,
32 bytes of Ed25519 seed and a CRC-16 (nats-io/nkeys, README, "Encoding").
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

PART = re.compile(r"-----BEGIN ([A-Z ]+)-----\s+(\S+)\s+-+END \1-+")
JWT, SEED = "NATS USER JWT", "USER NKEY SEED"
PREFIX_USER = (18 << 3, 20 << 3)  # 'S' for a seed, 'U' for a user: nats-io/nkeys, nkeys.go
SEED_BYTES = 32


class CredentialsError(ValueError):
    """A file that holds no credentials, with its name."""


class Credentials(NamedTuple):
    """``jwt`` is public; ``sign`` gives the base64 signature of a nonce."""

    jwt: bytes
    sign: Callable[[str], bytes]


def load(path: Path) -> Credentials:
    """The credentials of a file. CredentialsError or OSError, never with what is in the file."""
    parts = dict(PART.findall(path.read_text(encoding="utf-8", errors="replace")))
    if missing := [name for name in (JWT, SEED) if name not in parts]:
        raise CredentialsError(f"{path}: no part {missing[0]!r}; nsc generate creds writes it")
    try:
        from nacl.signing import SigningKey  # noqa: PLC0415 - only who has credentials pays for it
    except ImportError as error:
        raise CredentialsError(f"{path}: needs the package PyNaCl: tocsin[bus]") from error
    key = SigningKey(_seed(path, parts[SEED]))

    def sign(nonce: str) -> bytes:
        return base64.b64encode(key.sign(nonce.encode()).signature)

    return Credentials(parts[JWT].encode(), sign)


class CredentialsFile:
    """The credentials of a file as it is when a connection is made: they are changed before they
    expire. Those read last while the file cannot be read. Raises as ``load`` at first only.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._read = path, load(path)

    def sign(self, nonce: str) -> bytes:
        """The signature of a server's nonce, asked for first."""
        with contextlib.suppress(CredentialsError, OSError):
            self._read = load(self._path)
        return self._read.sign(nonce)

    def jwt(self) -> bytearray:
        """The JWT whose key has signed last."""
        return bytearray(self._read.jwt)


def _seed(path: Path, text: str) -> bytes:
    try:
        raw = base64.b32decode(text + "=" * (-len(text) % 8))
    except binascii.Error as error:
        raise CredentialsError(f"{path}: the seed is not base32") from error
    first, second = raw[0] & 0xF8, (raw[0] & 7) << 5 | (raw[1] & 0xF8) >> 3
    if len(raw) != 2 + SEED_BYTES + 2 or (first, second) != PREFIX_USER:
        raise CredentialsError(f"{path}: the seed is not a user's")
    if binascii.crc_hqx(raw[:-2], 0) != int.from_bytes(raw[-2:], "little"):
        raise CredentialsError(f"{path}: the seed's checksum differs")
    return raw[2:-2]
