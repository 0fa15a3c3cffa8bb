"""Pieces over a real Ray cluster with two workers: the same results as here, byte for byte, and a
killed worker costs its piece once.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator
from contextlib import closing, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import numpy as np
import pytest

from collector.cli import spread
from collector.cli.main import main
from pipeline.judged import JudgedObservation
from pipeline.pieces import about
from pipeline.pieces.on_ray import RayCluster
from tests.collector.cli.test_compact import old_store
from tests.collector.replaying.kept import SETTINGS, keep
from tests.contracts.horizon.world import LIVES, simulated, struck
from tests.pipeline.pieces.sides import gives_results_in_order, names_the_piece_that_failed
from tests.pipeline.pieces.work import Killing
from tests.ray_head import QUIET, RayHead

pytestmark = [
    pytest.mark.integration,
    pytest.mark.filterwarnings("ignore"),  # Ray's own
]


@pytest.fixture(scope="module")
def head() -> Iterator[RayHead]:
    """Two workers."""
    with pytest.MonkeyPatch.context() as patch, RayHead(2) as started:
        for name, value in QUIET.items():
            patch.setenv(name, value)
        yield started


@pytest.fixture
def cluster(head: RayHead) -> Iterator[RayCluster]:
    """Its executor."""
    with closing(RayCluster(head.address)) as made:
        yield made


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What four agents kept that booted, missed readings and had their clocks set."""
    root, rng = tmp_path_factory.mktemp("nodes") / "store", np.random.default_rng(1)
    for agent in simulated("F06", LIVES[1:5], days=0.008, seed=3):
        keep(root, [JudgedObservation(one) for one in struck(agent, rng)])
    return root


def ran(*argv: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of a command."""
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            code = main(argv)
        except SystemExit as error:
            code = int(error.code or 0)
    return code, out.getvalue(), err.getvalue()


@pytest.fixture
def killing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Killing]:
    """Executors of commands, whose first piece loses its first worker when its work is done."""
    made: list[Killing] = []

    real = RayCluster

    class Dying(Killing):
        def __init__(self, address: str) -> None:
            self._cluster = real(address)
            folder = tmp_path / f"attempts {len(made)}"
            folder.mkdir()
            super().__init__(self._cluster, folder)
            made.append(self)

        def close(self) -> None:
            self._cluster.close()

    monkeypatch.setattr(spread, "RayCluster", Dying)
    return made


def test_a_killed_worker_costs_its_piece_once(
    cluster: RayCluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The others are done once, and results come in the order of the pieces."""
    gives_results_in_order(cluster, tmp_path, caplog)


def test_a_piece_that_fails_is_named(cluster: RayCluster, tmp_path: Path) -> None:
    """With its own words, and not begun again."""
    names_the_piece_that_failed(cluster, tmp_path)


@pytest.mark.parametrize("horizon", ["node", "fleet"])
def test_replay_prints_what_it_prints_here(
    head: RayHead, store: Path, killing: list[Killing], horizon: str
) -> None:
    """Byte for byte, though a piece lost its worker: one for each node, and one of all nodes at the
    horizon of the fleet.
    """
    argv = ("replay", "--from", str(store), "--horizon", horizon, *SETTINGS)
    here, processes, far = (
        ran(*argv),
        ran(*argv, "--workers", "2"),
        ran(*argv, "--ray", head.address),
    )
    assert here[0] == 0
    assert here[1].count("\n") > 5
    assert far[:2] == processes[:2] == here[:2]
    assert far[2].splitlines()[-1] == here[2].splitlines()[-1]
    assert killing[0].attempts() == ([2, 1, 1, 1] if horizon == "node" else [2])


def test_backtest_reports_what_it_reports_here(
    head: RayHead, store: Path, killing: list[Killing], tmp_path: Path
) -> None:
    """Every byte of the report."""
    argv = ("backtest", "--from", str(store))
    reports = []
    for number, more in enumerate(((), ("--workers", "2"), ("--ray", head.address))):
        output = tmp_path / f"{number}.json"
        assert ran(*argv, "-o", str(output), *more)[0] == 0
        reports.append(output.read_bytes())
    assert reports[0] == reports[1] == reports[2]
    assert killing[0].attempts() == [2, 1, 1, 1]


def test_score_reports_what_it_reports_here(
    head: RayHead, killing: list[Killing], tmp_path: Path
) -> None:
    """All but the times that it took and the number of workers."""
    argv = ["score", "--scenario", "F16", "H05", "--seed", "1", "--days", "0.01"]
    argv += ["--nodes", "2", "--detectors", "gpud"]
    reports = []
    for number, more in enumerate((("--workers", "1"), ("--ray", head.address))):
        output = tmp_path / f"{number}.json"
        assert ran(*argv, "--json", str(output), *more)[0] == 0
        document = json.loads(output.read_text())
        for name in ("cpu_hours", "wall_hours", "workers"):
            del document["about"][name]
        reports.append(document)
    assert reports[0] == reports[1]
    assert sorted(killing[0].attempts()) == [1, 1, 1, 2]


def contents(root: Path) -> list[tuple[str, str]]:
    """Folder and digest of every compacted file: names have a part that is drawn."""
    return sorted(
        (str(path.parent.relative_to(root)), hashlib.sha256(path.read_bytes()).hexdigest())
        for path in (root / "compacted").rglob("*.parquet")
    )


def test_compaction_writes_what_it_writes_here(
    head: RayHead, killing: list[Killing], tmp_path: Path
) -> None:
    """The same bytes in files of the same folders, once: an hour whose worker was killed when it
    had put its manifest is neither lost nor doubled.
    """
    for name in ("here", "far"):
        old_store(tmp_path / name)
    argv = ("compact", "--once", "--shared", "--storage.path")
    assert ran(*argv, str(tmp_path / "here"))[0] == 0
    code, _, err = ran(*argv, str(tmp_path / "far"), "--ray", head.address)
    assert (code, err) == (0, "")
    assert contents(tmp_path / "far") == contents(tmp_path / "here") != []
    assert sorted(killing[0].attempts()) == [1] * 9 + [2]


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("banana", "expected HOST:PORT"),
        ("127.0.0.1:1", "refused"),
        ("no-such-host.invalid:6379", "--ray no-such-host.invalid:6379: "),
    ],
)
def test_an_address_where_nobody_is(store: Path, address: str, reason: str) -> None:
    """One line, at once."""
    code, out, err = ran("replay", "--from", str(store), "--ray", address)
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert reason in err


def test_without_ray(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says what to install."""
    monkeypatch.setitem(sys.modules, "ray", None)
    code, _, err = ran("replay", "--from", str(store), "--ray", "127.0.0.1:1")
    assert (code, len(err.splitlines())) == (2, 1)
    assert "install the extra `ray` of Tocsin" in err


def test_another_version_of_ray(
    head: RayHead, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ray's own check, on one line."""
    import ray  # noqa: PLC0415

    monkeypatch.setattr(ray, "__version__", "1.2.3")
    code, _, err = ran("replay", "--from", str(store), "--ray", head.address)
    assert (code, len(err.splitlines())) == (2, 1)
    assert "1.2.3" in err


def test_another_tocsin_on_a_node(
    head: RayHead, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its results could differ: refused, with both versions."""
    monkeypatch.setattr(about, "versions", lambda: {"numpy": "0.1"})
    code, _, err = ran("replay", "--from", str(store), "--ray", head.address)
    assert (code, len(err.splitlines())) == (2, 1)
    assert "here is 0.1: install the same" in err
