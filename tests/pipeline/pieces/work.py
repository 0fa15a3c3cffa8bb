"""Work for the tests of pieces, as another interpreter imports it."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.pieces.interface import Done, Executor, Piece


@dataclass(frozen=True)
class Errand:
    """A number, and a file that says it was tried; ``dies``: its first worker is killed."""

    number: int
    tried: Path
    dies: bool = False


def square(errand: Errand) -> int:
    """A ValueError for three; a warning of odd ones."""
    die_once(errand.tried, dies=errand.dies)
    if errand.number % 2:
        logging.getLogger("tocsin.test").warning("an odd number")
    if errand.number == 3:
        raise ValueError("three")
    return errand.number**2


def die_once(tried: Path, *, dies: bool) -> None:
    """Note the attempt; end this process, as the kernel would for want of memory, if it is the
    first.
    """
    first = not tried.exists()
    with tried.open("a") as file:
        file.write("x")
    if dies and first:
        os.kill(os.getpid(), signal.SIGKILL)


@dataclass(frozen=True)
class Dying:
    """Any piece; ``dies``: its first worker is killed half-way, when the work is done, and its
    result is not given yet.
    """

    work: Callable[[Any], Any]
    argument: Any
    tried: Path
    dies: bool = True


def dying(task: Dying) -> object:
    """The result of the piece."""
    result = task.work(task.argument)
    die_once(task.tried, dies=task.dies)
    return result


class Killing:
    """An executor whose first piece loses its first worker: another one takes seconds to start.
    ``folder`` notes the attempts.
    """

    def __init__(self, executor: Executor, folder: Path) -> None:
        self._executor, self._folder, self.slots = executor, folder, executor.slots

    def run(
        self, work: Callable[[Any], Any], pieces: Sequence[Piece[Any]]
    ) -> Generator[Done[Any], None, None]:
        """As the interface says."""
        tasks = [
            Piece(
                piece.name,
                Dying(
                    work,
                    piece.argument,
                    self._folder / f"{number:03d}.tried",
                    dies=number == 0,
                ),
            )
            for number, piece in enumerate(pieces)
        ]
        return self._executor.run(dying, tasks)

    def close(self) -> None:
        """Nothing is open."""

    def attempts(self) -> list[int]:
        """Of each piece."""
        return [len(file.read_text()) for file in sorted(self._folder.glob("*.tried"))]
