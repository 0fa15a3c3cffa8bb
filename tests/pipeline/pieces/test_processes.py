"""Pieces over processes of this machine."""

from __future__ import annotations

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
