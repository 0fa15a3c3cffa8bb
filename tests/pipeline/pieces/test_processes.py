"""Pieces over processes of this machine."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from pipeline.pieces.interface import RETRIES, Piece
from pipeline.pieces.processes import Processes
from tests.pipeline.pieces.sides import (
    attempts,
    gives_results_in_order,
    names_the_piece_that_failed,
)
from tests.pipeline.pieces.work import Dying, Errand, dying, square

pytestmark = pytest.mark.slow


def test_a_killed_worker_costs_its_piece_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The others are done once, and results come in the order of the pieces."""
    gives_results_in_order(Processes(2), tmp_path, caplog)


def test_a_piece_that_fails_is_named(tmp_path: Path) -> None:
    """With its own words, and not begun again."""
    names_the_piece_that_failed(Processes(2), tmp_path)


def test_a_piece_whose_workers_are_killed_again_and_again_fails(tmp_path: Path) -> None:
    """After a few attempts, and says why."""
    tried = [tmp_path / f"{n}.tried" for n in range(RETRIES + 1)]
    task = Dying(square, Errand(1, tmp_path / "inner.tried"), tried[0])
    for file in tried[1:]:  # each of them kills one worker
        task = Dying(dying, task, file)
    (ended,) = Processes(1).run(dying, [Piece("of 1", task)])
    assert ended.reason == "the worker was killed"
    assert attempts(tmp_path)["inner"] == RETRIES + 1


def test_a_worker_that_dies_before_its_first_piece_says_why(tmp_path: Path) -> None:
    """Work of a module that cannot be imported: its own words, and no word of a kill."""
    square_of_nowhere = partial(square)
    square_of_nowhere.__module__ = "tests.pipeline.pieces.nowhere"
    square_of_nowhere.__qualname__ = "square"  # type: ignore[attr-defined]  # as functions have it
    (ended,) = Processes(1).run(square_of_nowhere, [Piece("of 1", Errand(1, tmp_path / "tried"))])
    assert "nowhere" in ended.reason
    assert "killed" not in ended.reason
