"""`tocsin simulate`: a node lives in a folder, takes faults while it runs,
and ends with its owner.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from collector.cli.main import main
from pipeline.child import Child, python, run
from tests.sources import ROOT
from tests.wait import PATIENCE_S, until

pytestmark = pytest.mark.slow  # each makes a simulated node or a store


@pytest.fixture
def node(tmp_path: Path) -> Iterator[tuple[Path, Child]]:
    """A simulated node that is ready, and its process."""
    folder = tmp_path / "node"
    child = Child(
        python(
            "collector.cli",
            "simulate",
            str(folder),
            "--profile",
            "hgx-h100",
            "--seed",
            "7",
            "--owned",
        )
    )
    try:
        until(lambda: (folder / "ready").exists() or child.poll() is not None, "the node")
        assert child.poll() is None
        yield folder, child
    finally:
        child.kill()
        until(lambda: child.poll() is not None, "its end")


def test_faults_go_into_the_node_that_runs(
    node: tuple[Path, Child], capsys: pytest.CaptureFixture[str]
) -> None:
    """--inject says what it did, and the kernel log of the node holds the fault."""
    folder, _ = node
    assert main(["simulate", str(folder), "--inject", "xid@gpu2:code=31"]) == 0
    assert json.loads(capsys.readouterr().out)["targets"] == ["gpu2"]
    until(lambda: "Xid" in (folder / "dev" / "kmsg").read_text(), "the kernel line")
    assert main(["simulate", str(folder), "--status"]) == 0
    status = json.loads(capsys.readouterr().out)
    assert (status["profile"], status["seed"]) == ("hgx-h100", 7)


def test_the_node_can_be_read(node: tuple[Path, Child]) -> None:
    """The real sources read it: eight GPUs with temperatures, eight ports."""
    folder, _ = node
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); from collector.cli import "
        "main; sys.exit(main())"
    )
    ran = run(
        [sys.executable, "-I", "-c", code, "read", "--simulated", str(folder), "--format", "json"],
        timeout_s=PATIENCE_S,
        max_bytes=8 << 20,
    )
    assert ran.returncode == 0, ran.stderr.decode()
    rows = [json.loads(line) for line in ran.stdout.splitlines()]
    gpus = [row for row in rows if row.get("kind") == "gpu" and "values" in row]
    assert len(gpus) == len({row["device"] for row in gpus}) == 8
    assert all(10 < row["values"]["temperature_celsius"] < 100 for row in gpus)
    assert len([row for row in rows if row.get("kind") == "ib_port" and "values" in row]) == 8


def test_a_wrong_fault_says_what_there_is(
    node: tuple[Path, Child], capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2, and the names that exist."""
    folder, _ = node
    assert main(["simulate", str(folder), "--inject", "melt@gpu0"]) == 2
    assert "no fault 'melt'" in capsys.readouterr().err


def test_it_ends_with_its_owner(node: tuple[Path, Child]) -> None:
    """When the process that started it is gone its standard input closes,
    and nothing is left behind.
    """
    _, child = node
    child._stdin.close()
    until(lambda: child.poll() is not None, "its end")
    assert child.poll() == 0


def test_nobody_there_is_a_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a running node there is nothing to inject into."""
    assert main(["simulate", str(tmp_path), "--inject", "xid@gpu0"]) == 1
    assert f"no simulation is running in {tmp_path}" in capsys.readouterr().err


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["DIR", "--profile", "hgx-h99"],
        ["DIR", "--profile", "hgx-h100", "--inject", "melt"],
        ["DIR", "--speed", "0"],
    ],
)
def test_what_is_wrong_is_refused_before_anything_is_written(
    argv: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No folder, an unknown profile, an unknown fault, an impossible speed."""
    monkeypatch.chdir(tmp_path)
    assert main(["simulate", *argv]) == 2
    assert list(tmp_path.iterdir()) == []


def test_list_names_profiles_and_faults(capsys: pytest.CaptureFixture[str]) -> None:
    """--list needs no folder."""
    assert main(["simulate", "--list"]) == 0
    out = capsys.readouterr().out
    assert "hgx-h100" in out
    assert "driver_hang@gpuN" in out
