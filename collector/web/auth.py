"""Passwords of ``basic_auth_users``: bcrypt in a thread, one at a time,
what was seen is remembered.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import secrets
import time
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Mapping

# right ones and wrong ones each; exporter-toolkit keeps 100 in all (web/cache.go)
MAX_REMEMBERED = 100
MAX_WAITING, MAX_WAITING_OF_ONE = 32, 4  # checks, in all and of one address
# Bytes of a password that count: the algorithm takes no more. htpasswd and the exporters in Go pass
# over the rest (golang.org/x/crypto/bcrypt, CompareHashAndPassword); bcrypt 5 refuses a longer one.
MAX_COMPARED = 72
# After a wrong password the next check waits four times as long as this one took: guessing costs
# the node a fifth of one core at most.
PAUSE = 4.0

Compare = Callable[[bytes, bytes], bool]


class TooManyGuesses(Exception):  # noqa: N818 - it is an answer (429), not a fault of ours
    """More unknown passwords wait to be checked than are let wait."""


class Passwords:
    """Checks Authorization headers.

    Of passwords that were seen only a keyed digest is kept, right and wrong ones apart.

    A user who does not exist takes as long as one who does: some user's hash
    is compared all the same.
    """

    def __init__(
        self,
        compare: Compare | None = None,
        pause: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._compare, self._pause = compare or _bcrypt, pause
        self._secret = secrets.token_bytes(32)
        self._seen: dict[bool, OrderedDict[bytes, None]] = {
            True: OrderedDict(),
            False: OrderedDict(),
        }
        self._turn = asyncio.Lock()
        self._waiting: Counter[str] = Counter()

    async def admits(self, header: str, users: Mapping[str, str], peer: str) -> bool:
        """Whether an Authorization header names one of the users (name to bcrypt
        hash) with the password.

        TooManyGuesses instead of a queue.
        """
        given = credentials(header)
        if given is None:
            return False
        user, password = given
        known = user in users
        hashed = users[user] if known else self._stand_in(user, users)
        key = self._digest(user.encode(), hashed.encode(), password)
        right = self._remembered(key)
        if right is None:
            if self._waiting.total() >= MAX_WAITING or self._waiting[peer] >= MAX_WAITING_OF_ONE:
                raise TooManyGuesses
            self._waiting[peer] += 1
            try:
                right = await self._check(key, hashed.encode(), password, known=known)
            finally:
                self._waiting[peer] -= 1
                self._waiting += Counter()  # drops who waits no more
        return right and known

    async def _check(self, key: bytes, hashed: bytes, password: bytes, *, known: bool) -> bool:
        async with self._turn:
            right = self._remembered(key)
            if right is None:
                began = time.monotonic()
                right = await asyncio.to_thread(self._compare, password, hashed)
                self._seen[right][key] = None
                if len(self._seen[right]) > MAX_REMEMBERED:
                    self._seen[right].popitem(last=False)
                if not (right and known):
                    await self._pause(PAUSE * (time.monotonic() - began))
            return right

    def _remembered(self, key: bytes) -> bool | None:
        for right, seen in self._seen.items():
            if key in seen:
                seen.move_to_end(key)
                return right
        return None

    def _stand_in(self, user: str, users: Mapping[str, str]) -> str:
        """The hash of one of the users, always the same one for the same unknown name: so costs
        that differ tell nothing either.
        """
        hashes = list(users.values())
        return hashes[int.from_bytes(self._digest(user.encode())[:8], "big") % len(hashes)]

    def _digest(self, *parts: bytes) -> bytes:
        return hmac.digest(
            self._secret, b"".join(len(part).to_bytes(8, "big") + part for part in parts), "sha256"
        )


def credentials(header: str) -> tuple[str, bytes] | None:
    """User and password of ``Basic ...`` (RFC 7617), None where it is something else.

    >>> credentials("Basic cHJvbTpwOnc="), credentials("Bearer x"), credentials("Basic ?")
    (('prom', b'p:w'), None, None)
    """
    scheme, _, encoded = header.partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        user, colon, password = base64.b64decode(encoded.strip(), validate=True).partition(b":")
        return (user.decode(), password) if colon else None
    except (binascii.Error, ValueError):
        return None


def _bcrypt(password: bytes, hashed: bytes) -> bool:
    from bcrypt import checkpw  # noqa: PLC0415 - only who has passwords pays for it

    try:
        return checkpw(password[:MAX_COMPARED], hashed)
    except ValueError:  # with a NUL, or no hash: nobody's password
        return False
