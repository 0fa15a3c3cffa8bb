"""A disk that is full and free again, or read-only for a while: what was taken is kept, the agent
goes on, nothing half is left.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from pipeline import child
from pipeline.catalog import agent
from pipeline.replay import replay
from pipeline.selfmetrics import SelfMetrics
from pipeline.store.files.lock import lock
from pipeline.store.keep import writer as keeper
from pipeline.store.keep.compact import compact
from pipeline.store.keep.policy import Policy
from pipeline.store.keep.retain import sizes
from pipeline.store.keep.seal import seal
from pipeline.store.keep.upkeep import upkeep
from pipeline.store.keep.writer import StoreWriter
from tests.agents import AgentProcess
from tests.parts import need
from tests.pipeline.store.days import at, files, later, seen
from tests.pipeline.store.keep.test_seal import Seen, same
from tests.wait import PATIENCE_S

pytestmark = [pytest.mark.integration, pytest.mark.root]

SIZE = 24 << 20


def mount(*arguments: str) -> None:
    """Mount something, or skip loudly where that is forbidden (a container
    without the capability).
    """
    done = child.run([need("mount", "mount"), *arguments], timeout_s=PATIENCE_S)
    if done.returncode:
        pytest.skip(
            f"mount {' '.join(arguments)} is not possible here: {done.stderr.decode().strip()}"
        )


@pytest.fixture(params=["ext4", "tmpfs"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A small file system of its own."""
    place = tmp_path / "disk"
    place.mkdir()
    if request.param == "tmpfs":
        mount("-t", "tmpfs", "-o", f"size={SIZE}", "tocsin-test", str(place))
    else:
        image = tmp_path / "image"
        with image.open("wb") as file:
            file.truncate(SIZE)
        made = child.run(
            [need("mkfs.ext4", "e2fsprogs"), "-q", "-F", str(image)], timeout_s=PATIENCE_S
        )
        assert made.returncode == 0, made.stderr.decode()
        mount("-o", "loop", str(image), str(place))
    try:
        yield place
    finally:
        child.run(
            [need("umount", "mount"), "--lazy", str(place)], timeout_s=PATIENCE_S
        )  # a failed test may hold files


class House:
    """A keeper that seals in this process, on a disk that may be full.

    ``taken`` is what it accepted.
    """

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(keeper, "SEGMENT_BYTES", 20_000)
        self.root, self.clock, self.metrics = root, at(1), SelfMetrics()
        self.keeper = StoreWriter(root, "n1", self.clock, self.metrics, seal=self.seal)
        self.story = seen(self.clock, 1 << 30, 0, ("node",))
        self.taken: list[Seen] = []
        self.refused: list[OSError] = []
        self.ballast = root / "ballast"

    def seal(self, paths: Sequence[Path]) -> None:
        for path in paths:
            seal(path, self.root, "c1")

    def write(self, n: int) -> None:
        for _ in range(n):
            observation, findings = next(self.story)
            try:
                self.keeper.write(observation, findings)
            except OSError as error:
                self.refused.append(error)
            else:
                self.taken.append((observation, findings))
            self.settle()

    def settle(self) -> None:
        if self.keeper._thread is not None:
            self.keeper._thread.join(PATIENCE_S)

    def fill(self) -> None:
        """Leave no byte."""
        with self.ballast.open("wb", buffering=0) as file:
            for size in (1 << 20, 4096, 1):
                try:
                    while True:
                        file.write(bytes(size))
                except OSError as error:
                    assert error.errno == errno.ENOSPC

    def sealed(self) -> None:
        """Everything into files, as at the end."""
        self.clock.advance(120)  # past the pause after a failed sealing
        self.keeper.close(60)


def test_a_full_disk_costs_what_it_refused_and_nothing_else(
    disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Observations taken before, meanwhile and after come back whole and once; scratch files do not
    pile up; sealing catches up.
    """
    house = House(disk, monkeypatch)
    house.write(60)
    house.keeper._wal.rotate()
    house.fill()
    house.write(100)
    assert {error.errno for error in house.refused} == {errno.ENOSPC}
    assert house.metrics.value(agent.STORE_SEALS, "failed")
    house.ballast.unlink()
    refused = len(house.refused)
    house.write(60)
    assert len(house.refused) == refused
    house.sealed()
    same(list(replay(disk)), house.taken)
    assert not list(disk.rglob(".*.new"))
    assert not list((disk / "wal").glob("*.wal"))
    compact(later(disk))
    same(list(replay(disk)), house.taken)


def test_compaction_on_a_full_disk_changes_nothing_and_says_why(
    disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sources stay until the whole is written; when there is room again it is made."""
    house = House(disk, monkeypatch)
    house.write(60)
    house.sealed()
    before = files(disk, "node")
    house.fill()
    with pytest.raises(OSError, match="No space left"):
        compact(later(disk))
    assert files(disk, "node") == before
    house.ballast.unlink()
    assert not list(disk.rglob(".*.new"))
    compact(later(disk))
    assert files(disk, "node") == ["c1-n1-day-0001.parquet"]
    same(list(replay(disk)), house.taken)


def test_upkeep_frees_a_disk_that_the_store_itself_has_filled(
    disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Room is made by the policy first, then what can be compacted is."""
    house = House(disk, monkeypatch)
    house.write(60)
    house.sealed()
    old = disk / "gpu_1m" / "date=2020-01-01"
    old.mkdir(parents=True)
    house.ballast = old / "c1-n1-day-0001.parquet"
    house.fill()
    report = upkeep(later(disk), Policy(0, 0, 0, 0, max_bytes=sum(sizes(disk).values()) - 1))
    assert report.removed["gpu_1m"]["budget"] > SIZE // 2
    assert report.written > 0


def test_an_agent_that_stops_on_a_read_only_disk_says_what_is_lost_and_exits_1(
    disk: Path,
) -> None:
    """It runs, counts what it could not store, and does not end as if all were well."""
    storage = disk / "tocsin"
    storage.mkdir()
    mount("-o", "remount,ro", str(disk))
    with AgentProcess(storage, log_path=disk.parent / "agent.log") as process:
        process.until(
            lambda: process.values("tocsin_store_lost_observations_total")[""] > 0, "a refusal"
        )
        assert process.stop() == 1
        assert "not everything was kept" in process.log
        assert "Read-only file system" in process.log


def test_a_read_only_disk_is_survived(
    disk: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A file system remounted after an error: writes are refused one by one, the lock is no
    obstacle, and when it is back it goes on.
    """
    house = House(disk, monkeypatch)
    house.write(30)
    house.keeper._wal.rotate()  # an open file would keep it from being remounted
    house.settle()
    assert house.keeper._syncer.wait(PATIENCE_S)
    mount("-o", "remount,ro", str(disk))
    house.write(20)
    assert {error.errno for error in house.refused} == {errno.EROFS}
    with lock(disk / "new"):
        assert "continuing without" in caplog.text
    mount("-o", "remount,rw", str(disk))
    house.write(30)
    assert len(house.refused) == 20
    house.sealed()
    same(list(replay(disk)), house.taken)
