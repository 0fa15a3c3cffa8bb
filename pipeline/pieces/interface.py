"""A piece of work, how it ended, and who does it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

A = TypeVar("A")
R = TypeVar("R")

# How often a piece is begun again whose worker died (Ray's own default of `max_retries`). A piece
# that raised is not: it would raise again.
RETRIES = 3
PIECES_PER_SLOT = 3  # what a killed worker costs is a third of its share at most
KILLED = "the worker was killed"


class PiecesError(Exception):
    """A piece failed, or there is nobody to do it: one line."""


@dataclass(frozen=True, slots=True)
class Piece(Generic[A]):
    """One of several: a name that is shown, and what the work is given (it must be picklable)."""

    name: str
    argument: A


@dataclass(frozen=True, slots=True)
class Done(Generic[R]):
    """How a piece ended: by its number among the pieces, with its result and the warnings that it
    logged; or ``error``, the end of its standard error.
    """

    number: int
    result: R | None
    warnings: tuple[str, ...] = ()
    error: str = ""

    @property
    def reason(self) -> str:
        r"""The last line of the error, without the module of its class.

        >>> Done(0, None, error="Traceback:\n...\na.b.ConfigError: no c").reason
        'ConfigError: no c'
        """
        lines = self.error.strip().splitlines()
        kind, colon, what = (lines[-1] if lines else "").partition(": ")
        return f"{kind.rpartition('.')[2]}{colon}{what}" if colon else kind


class Executor(Protocol):
    """Does pieces. ``slots`` are done at a time."""

    slots: int

    def run(
        self, work: Callable[[A], R], pieces: Sequence[Piece[A]]
    ) -> Generator[Done[R], None, None]:
        """Each piece as it ends, in any order; those that run are stopped when this is closed.

        ``work`` is a function of a module, which another interpreter can import. A piece is done
        again where its worker died: what it writes elsewhere must bear that.
        """


def results(
    executor: Executor,
    work: Callable[[A], R],
    pieces: Sequence[Piece[A]],
    step: Callable[[float], object] = lambda _: None,
) -> list[R]:
    """The results of all pieces in their order; ``step`` gets the share that is done.

    What pieces warned of is logged, once each. PiecesError names the first that failed.
    """
    found: dict[int, R] = {}
    warned: dict[str, None] = {}
    ended = executor.run(work, pieces)
    try:
        for done in ended:
            if done.error or done.result is None:
                raise PiecesError(f"{pieces[done.number].name}: {done.reason}")
            found[done.number] = done.result
            warned |= dict.fromkeys(done.warnings)
            step(len(found) / len(pieces))
    finally:
        ended.close()
        _warn(warned)
    return [found[number] for number in range(len(pieces))]


def _warn(messages: Iterable[str]) -> None:
    for message in messages:
        logging.getLogger("tocsin.pieces").warning("%s", message)


class _Collected(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: dict[str, None] = {}

    def emit(self, record: logging.LogRecord) -> None:
        self.messages[record.getMessage()] = None


def called(work: Callable[[A], R], argument: A) -> tuple[R, tuple[str, ...]]:
    """In a worker: the result, and what was warned of meanwhile."""
    log, collected = logging.getLogger(), _Collected()
    log.addHandler(collected)
    try:
        return work(argument), tuple(collected.messages)
    finally:
        log.removeHandler(collected)


def of_hosts(
    hosts: Iterable[str], slots: int, most: int, argument: Callable[[tuple[str, ...]], A]
) -> list[Piece[A]]:
    """Pieces of some hosts each, for so many slots: a few for each, so that all end at about the
    same time, and no more than ``most`` hosts in one.

    >>> pieces = of_hosts(map(str, range(10)), 2, 32, len)
    >>> [(piece.name, piece.argument) for piece in pieces][:2], len(pieces)
    ([('0 to 1', 2), ('2 to 3', 2)], 5)
    """
    ordered = sorted(hosts)
    size = min(most, max(1, -(-len(ordered) // (PIECES_PER_SLOT * slots))))
    parts = [tuple(ordered[at : at + size]) for at in range(0, len(ordered), size)]
    return [
        Piece(part[0] if len(part) == 1 else f"{part[0]} to {part[-1]}", argument(part))
        for part in parts
    ]
