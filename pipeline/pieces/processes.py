"""Pieces over the cores of this machine: processes that may die without taking others with them."""

from __future__ import annotations

import os
import pickle
from collections import deque
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory, mkstemp

from pipeline.child import Child, python
from pipeline.pieces.interface import KILLED, RETRIES, A, Done, Piece, R

POLL_S = 0.05  # how long one worker is listened to before the next
KILLED_WITHIN_S = 5.0


@dataclass(slots=True)
class _Worker:
    child: Child
    errors: Path  # what it says before it begins a piece
    number: int | None = None


class Processes:
    """So many processes on this machine."""

    def __init__(self, slots: int) -> None:
        self.slots = slots

    def run(
        self, work: Callable[[A], R], pieces: Sequence[Piece[A]]
    ) -> Generator[Done[R], None, None]:
        """As the interface says. A piece that raised ends its worker; another takes its place."""
        with TemporaryDirectory(prefix="tocsin-pieces-") as name:
            folder, spec = Path(name), f"{work.__module__}:{work.__qualname__}"
            crew = [_start(spec, folder) for _ in range(min(self.slots, len(pieces)))]
            try:
                yield from _run(crew, pieces, folder, spec)
            finally:
                for worker in crew:
                    _end(worker)


def _run(
    crew: list[_Worker], pieces: Sequence[Piece[A]], folder: Path, spec: str
) -> Generator[Done[R], None, None]:
    waiting = deque(range(len(pieces)))
    left = dict.fromkeys(waiting, RETRIES)
    while waiting or any(worker.number is not None for worker in crew):
        for place, worker in enumerate(crew):
            if worker.number is None:
                if waiting:
                    _give(worker, waiting.popleft(), pieces, folder)
                continue
            answer = worker.child.receive(POLL_S)
            if answer is None:
                continue
            number, worker.number = worker.number, None
            if answer:
                yield _result(folder, number)
                continue
            code = worker.child.wait(KILLED_WITHIN_S) or 0
            killed = code < 0
            _end(worker)
            crew[place] = _start(spec, folder)
            if killed and left[number]:
                left[number] -= 1
                waiting.appendleft(number)
            else:
                yield Done(number, None, error=_last_words(worker, folder, number, code))


def _start(spec: str, folder: Path) -> _Worker:
    handle, name = mkstemp(".worker", dir=folder)
    try:
        child = Child(python("pipeline.pieces.worker", spec, str(folder)), errors=handle)
    finally:
        os.close(handle)
    return _Worker(child, Path(name))


def _give(worker: _Worker, number: int, pieces: Sequence[Piece[A]], folder: Path) -> None:
    worker.number = number
    (folder / f"{number}.piece").write_bytes(pickle.dumps(pieces[number].argument))
    worker.child.send(f"{number}\n".encode())


def _end(worker: _Worker) -> None:
    worker.child.kill()
    worker.child.wait(KILLED_WITHIN_S)


def _result(folder: Path, number: int) -> Done[R]:
    file = folder / f"{number}.result"
    result, warnings = pickle.loads(file.read_bytes())  # noqa: S301 - our own worker's, in a folder of ours
    file.unlink()
    return Done(number, result, warnings)


def _last_words(worker: _Worker, folder: Path, number: int, code: int) -> str:
    """What it wrote about the piece, or before it began with one: an import that fails."""
    for file in (folder / f"{number}.err", worker.errors):
        if words := file.read_text(errors="replace").strip() if file.is_file() else "":
            return words
    return KILLED if code < 0 else f"the worker ended with exit code {code} and said nothing"
