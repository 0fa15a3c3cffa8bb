"""A power cut at every step: of what was written only what was synced is left, and it is whole.

The file system is asked at every sync what it must keep; from that, two machines are put together
as they would come up again. The *strict* one keeps names only of folders that were synced; the
*eager* one keeps every name at once, but contents only as synced.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pipeline.replay import replay
from pipeline.selfmetrics import SelfMetrics
from pipeline.store.files.wal import Wal, segments
from pipeline.store.keep.compact import compact
from pipeline.store.keep.seal import seal
from tests import memory
from tests.pipeline.store.days import at, later, seen
from tests.pipeline.store.keep.test_seal import same

CHANGES = ("fsync", "fdatasync", "replace", "rename", "unlink", "link", "rmdir", "mkdir")


class Disk:
    """Watches what is synced below a folder.

    ``before`` is called before every change of names and every sync.
    """

    def __init__(
        self, root: Path, patch: pytest.MonkeyPatch, before: Callable[[str], None]
    ) -> None:
        self.root, self._before = root, before
        self._contents: dict[int, bytes] = {}
        self._names: dict[int, list[tuple[str, int, bool]]] = {}
        self._asking = False  # what is done while looking is not watched
        self._held: list[int] = []  # so that no number of a file is used twice
        for name in CHANGES:
            patch.setattr(os, name, self._watched(name, getattr(os, name)))

    def strict(self, target: Path) -> None:
        """What is left when nothing is kept but what was synced."""
        self._rebuild(self.root.stat().st_ino, target)

    def eager(self, target: Path) -> None:
        """What is left when names are kept at once and contents as synced."""
        for path in sorted(self.root.rglob("*")):
            copy = target / path.relative_to(self.root)
            if path.is_dir():
                copy.mkdir(parents=True)
            else:
                copy.parent.mkdir(parents=True, exist_ok=True)
                copy.write_bytes(self._contents.get(path.stat().st_ino, b""))

    def _rebuild(self, number: int, target: Path) -> None:
        target.mkdir(parents=True, exist_ok=True)
        for name, child, folder in self._names.get(number, []):
            if folder:
                self._rebuild(child, target / name)
            else:
                (target / name).write_bytes(self._contents.get(child, b""))

    def _watched(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **more: Any) -> Any:
            if self._asking:
                return real(*args, **more)
            self._asking = True
            self._before(name)
            self._asking = False
            result = real(*args, **more)
            if name in {"fsync", "fdatasync"}:
                self._synced(args[0])
            return result

        return call

    def _synced(self, fd: int) -> None:
        path, number = Path(f"/proc/self/fd/{fd}"), os.fstat(fd).st_ino
        self._held.append(os.dup(fd))
        if path.is_dir():
            self._names[number] = [
                (entry.name, entry.inode(), entry.is_dir()) for entry in os.scandir(path)
            ]
        else:
            self._contents[number] = path.read_bytes()

    def close(self) -> None:
        """Let go of what was held."""
        for fd in self._held:
            os.close(fd)


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Path]:
    """In memory: what was synced is known from the calls, whatever holds it."""
    with memory.folder(tmp_path) as place:
        yield place


@pytest.fixture
def patch(machines: Path) -> Iterator[pytest.MonkeyPatch]:
    """Undone before the folder is removed: that is not watched."""
    with pytest.MonkeyPatch.context() as patch:
        yield patch


@pytest.mark.slow
def test_a_power_cut_at_any_step_costs_only_what_was_not_synced(
    machines: Path, patch: pytest.MonkeyPatch
) -> None:
    """Writing, sealing, compacting, a late file: at every step each observation that was synced
    comes back once, and is whole.
    """
    root, clock = machines / "store", at(1)
    root.mkdir()
    whole = list(seen(clock, 24, 0, ("node",)))
    reported = {o.seq: (o, findings) for o, findings in whole}
    written, safe = 0, 0
    seen_before: set[object] = set()
    steps = Counter[str]()

    def cut(what: str) -> None:
        steps[what] += 1
        for kind in ("strict", "eager"):
            machine = machines / "machine"
            machine.mkdir()
            getattr(disk, kind)(machine)
            state = tuple(
                (p.relative_to(machine), p.read_bytes() if p.is_file() else b"")
                for p in sorted(machine.rglob("*"))
            )
            if (hash(state), safe) not in seen_before:
                check(machine)
                seen_before.add((hash(state), safe))
            shutil.rmtree(machine)

    def check(machine: Path) -> None:
        for segment in segments(machine / "wal"):
            if segment.stat().st_size:  # an empty one is of a segment that was being opened
                seal(segment, machine, "c1")
        for _ in range(2):
            back = sorted(replay(machine), key=lambda s: s[0].seq)
            assert len(back) >= safe
            same(back, [reported[seq] for seq in range(len(back))])
            assert compact(later(machine)).quarantined == []

    disk = Disk(root, patch, cut)
    log = Wal(root / "wal", clock, SelfMetrics(), fsync_s=1e9)
    for number, (o, findings) in enumerate(whole, 1):
        log.write(o, findings)
        written = number
        if number % 3 == 0:
            log.sync()
            safe = written
        if number % 8 == 0:
            log.rotate()
            safe = written
            for segment in segments(root / "wal"):
                seal(segment, root, "c1")
        if number % 16 == 0:
            compact(later(root))
    log.close()
    disk.close()
    assert steps["replace"] > 20
    assert len(seen_before) > 40
