"""What every executor does alike: tests of processes and of Ray call these."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from pipeline.pieces.interface import Executor, Piece, PiecesError, results
from tests.pipeline.pieces.work import Errand, square


def errands(folder: Path, numbers: Sequence[int], dies: int = -1) -> list[Piece[Errand]]:
    """One for each number; the worker of one of them is killed."""
    return [Piece(f"of {n}", Errand(n, folder / f"{n}.tried", n == dies)) for n in numbers]


def attempts(folder: Path) -> dict[str, int]:
    """Of each piece that was begun."""
    return {file.stem: len(file.read_text()) for file in folder.glob("*.tried")}


def gives_results_in_order(
    executor: Executor, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A killed worker costs its piece once; what several pieces warn of is logged once."""
    found = results(executor, square, errands(folder, [4, 1, 2, 5], dies=2))
    assert found == [16, 1, 4, 25]
    assert attempts(folder) == {"4": 1, "1": 1, "2": 2, "5": 1}
    assert caplog.messages == ["an odd number"]


def names_the_piece_that_failed(executor: Executor, folder: Path) -> None:
    """In one line; it is not begun again."""
    with pytest.raises(PiecesError) as caught:
        results(executor, square, errands(folder, [2, 3]))
    assert str(caught.value) == "of 3: ValueError: three"
    assert attempts(folder)["3"] == 1
