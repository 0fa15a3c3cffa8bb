"""Kills and flipped bits at random: what a store loses is what is stated, and is counted.

``python -m tests.integration.store_proof --kills 500 --flips 200`` (``make store-proof``) does the
whole; the tests do a part. A kill loses nothing that was acknowledged and at most the one
observation on its way. A flipped bit loses at most one observation of a log segment, or what lies
in one sealed file; it is reported, or it changes nothing that can be read.
"""

from __future__ import annotations

import argparse
import logging
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pipeline.replay import replay
from pipeline.selfmetrics import SelfMetrics
from pipeline.store.files.live import live_files
from pipeline.store.files.parquet import read
from pipeline.store.files.wal import Wal, segments
from pipeline.store.keep.compact import compact
from pipeline.store.keep.policy import Policy
from pipeline.store.keep.seal import seal
from pipeline.store.keep.seal_report import Losses
from pipeline.store.keep.upkeep import upkeep
from tests.pipeline.store.days import at, later, seen
from tests.pipeline.store.keep.test_seal import store
from tests.sources import ROOT

LIVES = 6  # of one store, each killed
FOR_EVER = Policy(0, 0, 0, 0, 1 << 50)
HOURS = (1.0, 7.0, 30.0)  # two days: of the second one half is not sealed yet


@contextmanager
def writer() -> Iterator[subprocess.Popen[str]]:
    """The process that forks and kills writers."""
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); from "
        "tests.integration.killed_writer import main; main()"
    )
    with subprocess.Popen(
        [sys.executable, "-I", "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield process
        process.stdin.close() if process.stdin else None


def lives(process: subprocess.Popen[str], root: Path, rng: random.Random) -> list[list[int]]:
    """Several lives in one directory, each killed; what each had acknowledged."""
    written = []
    for life in range(LIVES):
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(
            f"{root} {life * 100_000} {rng.randint(0, 50)} {rng.randint(0, 30_000)}\n"
        )
        process.stdin.flush()
        written.append([int(seq) for seq in process.stdout.readline().split()])
    return written


def check_lives(root: Path, written: Sequence[Sequence[int]]) -> Counter[str]:
    """Recover a store whose writers were killed, and hold it against what they acknowledged."""
    counts = Counter[str](compacted=len(list(root.glob("*/date=*/*-day-*.parquet"))))
    losses = Losses()
    for segment in segments(root / "wal"):
        seal(segment, root, "c1", losses=losses)
    for _ in range(2):  # as it is, and compacted
        back = Counter(o.seq for o, _ in replay(root))
        assert set(back.values()) <= {1}
        for life, acknowledged in enumerate(written):
            begin = life * 100_000
            mine = sorted(seq for seq in back if begin <= seq < begin + 100_000)
            assert mine == list(range(begin, begin + len(mine)))
            assert len(acknowledged) <= len(mine) <= len(acknowledged) + 1
        rows = sum(read(path, "node").num_rows for path in live_files(root, "node"))
        assert rows == 3 * len(back)
        assert compact(later(root)).quarantined == []
    assert not (root / "quarantine").exists()
    assert (losses.records, losses.size) == (0, 0)  # a kill is no damage
    sure = sum(map(len, written))
    counts.update({"kills": len(written), "acknowledged": sure, "acknowledged and lost": 0})
    counts.update({"unended segments": losses.unended, "on their way": len(back) - sure})
    return counts


def story(root: Path) -> str:
    """A store with a compacted day, one of sealed hours, and a segment in the log; all that can be
    read of it.
    """
    for number, hour in enumerate(HOURS):
        clock = at(hour)
        part = list(seen(clock, 10, number * 1000, ("node",), number))
        store(root, part, clock, segment_bytes=16_000)
        if number == 1:
            compact(later(root))
    clock = at(HOURS[-1] + 0.1)
    wal = Wal(root / "wal", clock, SelfMetrics())
    for observation, findings in seen(clock, 10, 9000, ("node",), 9):
        wal.write(observation, findings)
    wal.close()
    return str(root)


def recovered(root: Path) -> tuple[list[str], Counter[str]]:
    """Observations after sealing, upkeep and a check of every file; what was reported missing."""
    losses = Losses()
    for segment in segments(root / "wal"):
        seal(segment, root, "c1", losses=losses)
    done = upkeep(later(root), FOR_EVER, most_bytes=1 << 40)
    reported = Counter(
        records=losses.records,
        bytes=losses.size,
        unended=losses.unended,
        quarantined=len(losses.quarantined) + len(done.quarantined),
        damaged=done.damaged,
    )
    return [str(one) for one in replay(root)], +reported


def flip(original: Path, place: Path, rng: random.Random, whole: Sequence[str]) -> Counter[str]:
    """One bit of one file of a copy, chosen by size; what became of it."""
    root = place / "store"
    shutil.copytree(original, root)
    files = [p for p in sorted(root.rglob("*")) if p.suffix in {".parquet", ".wal"}]
    path = rng.choices(files, [p.stat().st_size for p in files])[0]
    kind = path.suffix[1:]
    raw = bytearray(path.read_bytes())
    at_byte, bit = rng.randrange(len(raw)), rng.randrange(8)
    raw[at_byte] ^= 1 << bit
    path.write_bytes(raw)
    where = f"{path.relative_to(root)}: bit {bit} of byte {at_byte}"
    back, reported = recovered(root)
    changed = sum((Counter(whole) - Counter(back)).values())
    assert len(back) == len(set(back)), where
    if kind == "wal":
        assert reported["quarantined"], f"{where}: not reported"
        assert changed <= 1, f"{where}: {changed} observations are not as they were"
        assert not Counter(back) - Counter(whole), f"{where}: an observation that never was"
    elif changed or len(back) != len(whole):
        assert reported["quarantined"] + reported["damaged"], f"{where}: not reported"
        shutil.rmtree(root)
        shutil.copytree(original, root)
        path.unlink()
        without, _ = recovered(root)
        assert set(back) <= set(whole) | set(without), f"{where}: more than this file is lost"
    shutil.rmtree(root)
    visible = reported["quarantined"] + reported["damaged"] > 0
    return Counter(
        {
            f"{kind} flips": 1,
            f"{kind} reported": visible,
            f"{kind} without effect": not (visible or changed),
            f"{kind} observations changed": changed,
        }
    )


def kills(folder: Path, number: int, seed: int) -> Counter[str]:
    """At least so many kills."""
    rng, counts = random.Random(seed), Counter[str]()
    with writer() as process:
        for house in range(-(-number // LIVES)):
            root = folder / str(house)
            counts += check_lives(root, lives(process, root, rng))
            shutil.rmtree(root)
    return counts


def flips(folder: Path, number: int, seed: int) -> Counter[str]:
    """So many flipped bits, each in a store of its own."""
    rng, counts = random.Random(seed), Counter[str]()
    original = folder / "original"
    story(original)
    shutil.copytree(original, folder / "whole")
    whole, reported = recovered(folder / "whole")
    assert not reported
    for _ in range(number):
        counts.update(flip(original, folder, rng, whole))
    return counts


def main() -> None:
    """The whole proof, with its figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--flips", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    logging.disable()  # every damage is named there; here it is counted
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        for name, counts in (
            ("kills", kills(Path(folder) / "kills", options.kills, options.seed)),
            ("flips", flips(Path(folder) / "flips", options.flips, options.seed)),
        ):
            lines = [name, *(f"  {key}: {count}" for key, count in sorted(counts.items()))]
            sys.stdout.write("\n".join(lines) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
