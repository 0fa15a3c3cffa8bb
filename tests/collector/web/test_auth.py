"""Passwords: who is let in, what guessing costs, and what it tells."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable

import bcrypt
import pytest

from collector.web.auth import (
    MAX_REMEMBERED,
    MAX_WAITING,
    MAX_WAITING_OF_ONE,
    Passwords,
    TooManyGuesses,
    credentials,
)

HASHES = {"alice": "$2y$04$alice", "bob": "$2b$04$bob"}


def basic(user: str, password: bytes | str) -> str:
    """The header of a user."""
    content = password if isinstance(password, bytes) else password.encode()
    return "Basic " + base64.b64encode(user.encode() + b":" + content).decode()


class Compare:
    """Stands for bcrypt: the password of a hash is what comes after its last ``$``; it
    remembers what it was asked.
    """

    def __init__(self) -> None:
        self.asked: list[tuple[bytes, bytes]] = []

    def __call__(self, password: bytes, hashed: bytes) -> bool:
        self.asked.append((password, hashed))
        return hashed.endswith(b"$" + password)


async def at_once(_: float) -> None:
    """A pause that takes no time."""


def run(work: Callable[[Passwords], Awaitable[object]], compare: Compare | None = None) -> object:
    """What ``work`` gives."""

    async def inside() -> object:
        return await work(Passwords(compare or Compare(), at_once))

    return asyncio.run(inside())


@pytest.mark.parametrize(
    ("header", "let_in"),
    [
        (basic("alice", "alice"), True),
        (basic("alice", "bob"), False),
        (basic("carol", "alice"), False),
        (basic("carol", "bob"), False),
        (basic("", ""), False),
        ("", False),
        ("Bearer alice", False),
        ("Basic %%%", False),
        ("basic " + basic("alice", "alice").partition(" ")[2], True),
    ],
)
def test_only_a_user_with_their_password_is_let_in(header: str, let_in: bool) -> None:
    """An unknown name is refused whatever the password, those of others included."""
    assert run(lambda passwords: passwords.admits(header, HASHES, "peer")) is let_in


@pytest.mark.parametrize("prefix", ["2a", "2b", "2y"])
def test_hashes_of_every_tool_are_understood(prefix: str) -> None:
    """Those of htpasswd begin with 2y, others' with 2a or 2b; of a password the first 72 bytes
    count, as for htpasswd and the exporters in Go.
    """
    password = b"p" * 72
    hashed = bcrypt.hashpw(password, bcrypt.gensalt(4)).decode()
    users = {"prom": f"${prefix}{hashed[3:]}"}

    async def work() -> list[bool]:
        passwords = Passwords(pause=at_once)
        return [
            await passwords.admits(basic("prom", given), users, "peer")
            for given in (password, b"p" * 71 + b"q", b"p" * 72 + b"q" * 40, b"p" * 71, b"\0")
        ]

    assert asyncio.run(work()) == [True, False, True, False, False]


def test_an_unknown_user_costs_as_much_as_a_known_one() -> None:
    """Some user's hash is compared for them too, always the same one: neither time nor
    repetition tells who exists.
    """
    compare = Compare()

    async def work(passwords: Passwords) -> None:
        for password in ("x", "y", "z"):
            await passwords.admits(basic("carol", password), HASHES, "peer")

    run(work, compare)
    assert len(compare.asked) == 3
    assert len({hashed for _, hashed in compare.asked}) == 1


def test_what_was_seen_is_not_computed_again() -> None:
    """A scraper that comes every second pays bcrypt once; a wrong password costs
    no more than once either.
    """
    compare = Compare()

    async def work(passwords: Passwords) -> list[bool]:
        return [
            await passwords.admits(basic("alice", given), HASHES, "peer")
            for given in ("alice", "wrong") * 5
        ]

    assert run(work, compare) == [True, False] * 5
    assert len(compare.asked) == 2


def test_a_new_hash_is_asked_anew() -> None:
    """Once the file has another hash, the old password is refused."""

    async def work(passwords: Passwords) -> list[bool]:
        before = await passwords.admits(basic("alice", "alice"), HASHES, "peer")
        return [
            before,
            await passwords.admits(basic("alice", "alice"), {"alice": "$2y$04$other"}, "peer"),
        ]

    assert run(work) == [True, False]


@pytest.mark.slow
def test_guesses_do_not_crowd_out_whoever_is_known() -> None:
    """Memory is bounded, and a thousand wrong passwords leave a right one remembered."""
    compare = Compare()

    async def work(passwords: Passwords) -> tuple[int, int]:
        await passwords.admits(basic("alice", "alice"), HASHES, "scraper")
        for number in range(1000):
            await passwords.admits(basic("alice", f"guess {number}"), HASHES, "neighbour")
        asked = len(compare.asked)
        assert await passwords.admits(basic("alice", "alice"), HASHES, "scraper")
        return len(compare.asked) - asked, sum(map(len, passwords._seen.values()))

    assert run(work, compare) == (0, MAX_REMEMBERED + 1)


def test_guessing_is_slowed_down_and_a_right_password_is_not() -> None:
    """After a wrong one, of a known or an unknown user, the next check waits several times
    as long as the check took.
    """
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    async def work() -> list[int]:
        passwords, counts = Passwords(Compare(), pause), []
        for user, password in (
            ("alice", "alice"),
            ("alice", "x"),
            ("carol", "x"),
            ("carol", "alice"),
            ("carol", "bob"),
        ):
            await passwords.admits(basic(user, password), HASHES, "peer")
            counts.append(len(pauses))
        return counts

    assert asyncio.run(work()) == [0, 1, 2, 3, 4]
    assert all(seconds > 0 for seconds in pauses)


def test_waiting_guesses_are_bounded_by_address_and_in_all() -> None:
    """One address cannot fill the queue; beyond the queue nobody waits."""
    released = asyncio.Event

    async def work() -> tuple[int, int, bool]:
        gate = released()

        async def pause(_: float) -> None:
            await gate.wait()

        passwords = Passwords(Compare(), pause)

        async def guess(number: int, peer: str) -> bool | None:
            try:
                return await passwords.admits(basic("alice", str(number)), HASHES, peer)
            except TooManyGuesses:
                return None

        one = [asyncio.ensure_future(guess(n, "neighbour")) for n in range(10)]
        await asyncio.sleep(0)
        many = [asyncio.ensure_future(guess(100 + n, f"peer {n}")) for n in range(100)]
        await asyncio.sleep(0)
        gate.set()
        answers, others = await asyncio.gather(*one), await asyncio.gather(*many)
        idle = not passwords._waiting
        return answers.count(False), answers.count(False) + others.count(False), idle

    assert asyncio.run(work()) == (MAX_WAITING_OF_ONE, MAX_WAITING, True)


def test_no_password_is_kept() -> None:
    """What is remembered is a digest with a key of this process."""

    async def work(passwords: Passwords) -> str:
        await passwords.admits(basic("alice", "alice"), HASHES, "peer")
        return repr(passwords._seen)

    assert "alice" not in str(run(work))


def test_colons_and_every_byte_are_part_of_a_password() -> None:
    """The name ends at the first colon (RFC 7617)."""
    assert credentials(basic("prom", b"a:b:\xff")) == ("prom", b"a:b:\xff")
