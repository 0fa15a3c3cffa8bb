"""``tocsin compact`` on a node's folder and on a shared one: what it does, says and refuses."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from collector.cli.main import main
from pipeline.child import Child
from pipeline.replay import replay
from pipeline.store.files.lock import lock
from tests.pipeline.store.days import files, two_days
from tests.sources import ROOT
from tests.wait import PATIENCE_S, until

DATE = "date=2025-01-15"


def old_store(root: Path) -> None:
    """A store whose days are over by the machine's own clock."""
    two_days(root, ("node",), (1, 7))
    for date in list(root.glob("*/date=2027-01-15")):
        date.rename(date.with_name(DATE))


@pytest.mark.slow
def test_a_nodes_days_are_compacted_and_it_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One file per table and day, the roll-ups, and a line with what was
    written and what is used.
    """
    old_store(tmp_path)
    assert (
        main(
            [
                "compact",
                "--once",
                "--storage.path",
                str(tmp_path),
                "--storage.retention.raw",
                "0",
                "--storage.retention.one-minute",
                "0",
            ]
        )
        == 0
    )
    said = capsys.readouterr().out
    assert "7 files replace" in said
    assert (
        files(tmp_path, "node", DATE)
        == files(tmp_path, "node_1m", DATE)
        == ["c1-n1-day-0001.parquet"]
    )


@pytest.mark.slow
def test_what_is_given_up_and_what_cannot_be_read_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The operator sees it without looking at metrics."""
    old_store(tmp_path)
    next((tmp_path / "events").rglob("*.parquet")).write_bytes(b"x")
    arguments = ["compact", "--once", "--storage.path", str(tmp_path), "--storage.most-bytes", "1"]
    assert main(arguments) == 0
    said = capsys.readouterr().out
    assert "in quarantine: " in said
    assert "of node: the disk budget was used up" in said


@pytest.mark.slow
def test_a_shared_folder_becomes_a_clusters(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Hours under a root of their own; the nodes' files stay for now."""
    old_store(tmp_path)
    before = files(tmp_path, "node", DATE)
    assert main(["compact", "--once", "--shared", "--storage.path", str(tmp_path)]) == 0
    assert len(list(tmp_path.glob(f"compacted/node/{DATE}/*/*.parquet"))) == 2
    assert files(tmp_path, "node", DATE) == before
    assert "10 hours of tables" in capsys.readouterr().out


def test_a_shared_folder_is_not_compacted_as_a_nodes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It would be held to the budget of one node, and its rows would count twice."""
    (tmp_path / "compacted").mkdir()
    assert main(["compact", "--once", "--storage.path", str(tmp_path)]) == 2
    assert "add --shared" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("names", "more", "code"),
    [
        (("c1-n1-b1", "c1-n2-b2"), "other", 2),
        (("c1-n1-b1", "c1-n1-b2"), "other", 0),
        (("c1-n1-b1", "c1-n2-b2"), "wal", 0),  # of a node that was renamed
        (("c1-n1-imported", "c1-n2-imported"), "other", 0),
    ],
)
def test_files_of_several_nodes_ask_for_shared_before_the_first_are_merged(
    tmp_path: Path, names: tuple[str, ...], more: str, code: int
) -> None:
    """Else the first run without the flag would delete what is beyond the budget of one node."""
    hour = tmp_path / "reads/date=2999-01-15/hour=08"
    for folder in (hour, tmp_path / more):
        folder.mkdir(parents=True)
    for name in names:
        (hour / f"{name}-0000000000000001.parquet").write_bytes(b"")
    assert main(["compact", "--once", "--storage.path", str(tmp_path)]) == code
    assert len(list(hour.iterdir())) == 2


def test_a_second_compaction_at_the_same_time_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The agent may be at it: try again later."""
    with lock(tmp_path, "compact"):
        assert main(["compact", "--once", "--storage.path", str(tmp_path)]) == 1
    assert "is in use" in capsys.readouterr().err


@pytest.mark.parametrize("path", ["/nonexistent/store", "ftp://host/x", "s3://user:secret@bucket"])
def test_a_path_that_is_no_store_is_named(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is made where a name was mistyped."""
    assert main(["compact", "--once", "--storage.path", path]) == 2
    assert "storage.path: " in capsys.readouterr().err


@pytest.mark.slow
def test_without_once_it_goes_on_until_it_is_told_to_stop(tmp_path: Path) -> None:
    """As a service: SIGTERM ends it with 0."""
    two_days(tmp_path, ("node",), (1,))
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); from collector.cli.main import main; "
        "sys.exit(main(sys.argv[1:]))"
    )
    child = Child([sys.executable, "-I", "-c", code, "compact", "--storage.path", str(tmp_path)])
    try:
        assert b"files replace" in (child.receive(PATIENCE_S) or b"")
        os.kill(child.pid, signal.SIGTERM)
        until(lambda: child.poll() is not None, "its end")
        assert child.poll() == 0
    finally:
        child.kill()
    assert len(list(replay(tmp_path))) == 10
