"""Damaged segments: what is found again behind the damage, what counts as damage, what cannot be
taken for a record.
"""

from __future__ import annotations

import zlib
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from pipeline.observation import Event
from pipeline.selfmetrics import SelfMetrics
from pipeline.store.files.segment import (
    HEADER,
    MAGIC,
    MAGIC_1,
    MARKER_BYTES,
    NAME,
    OBSERVATION,
    OPENING,
    RECORD_1,
    Damage,
    NewerError,
    packed,
    records,
)
from pipeline.store.files.wal import Wal, read_segment, segments, strangers
from tests.fakes import FakeClock, gpu, gpu_frame, observed
from tests.pipeline.store.days import at, seen
from tests.pipeline.store.keep.test_seal import Seen


def written(folder: Path, whole: list[Seen], clock: FakeClock) -> Path:
    """A closed segment of these observations."""
    wal = Wal(folder, clock, SelfMetrics())
    for observation, findings in whole:
        wal.write(observation, findings)
    wal.close()
    (segment,) = segments(folder)
    return segment


def read(path: Path) -> tuple[list[Seen], Damage]:
    """What can be read, and what cannot."""
    damage = Damage()
    return [judged[:2] for judged in read_segment(path, damage)], damage


@pytest.mark.slow
def test_one_flipped_bit_anywhere_costs_one_observation_at_most_and_is_counted(
    tmp_path: Path,
) -> None:
    """In the opening, the header, devices, a length, a checksum, a marker, a payload: all other
    observations come back as they were.
    """
    clock, rng = at(1), Random(1)
    whole = list(seen(clock, 30, 0, ("node",)))
    segment = written(tmp_path, whole, clock)
    raw = segment.read_bytes()
    assert read(segment)[1] == Damage()
    places = [*range(OPENING.size + 60), *rng.choices(range(len(raw)), k=150)]
    for place in places:
        hurt = bytearray(raw)
        hurt[place] ^= 1 << rng.randrange(8)
        segment.write_bytes(hurt)
        back, damage = read(segment)
        assert damage, f"byte {place}"
        assert len(back) >= len(whole) - 1, f"byte {place}: {damage}"
        numbers = [o.seq for o, _ in back]
        assert numbers == sorted(set(numbers))
        assert all(str(one) == str(whole[one[0].seq]) for one in back)
        assert damage.records >= len(whole) - len(back)


@pytest.mark.parametrize("fill", [b"\0", b"\xff", b"TOCWAL02"], ids=["zeros", "ones", "text"])
def test_a_lost_block_costs_what_lay_in_it(tmp_path: Path, fill: bytes) -> None:
    """4 KiB in the middle, as a bad sector of a disk: the rest is read, the missing are counted."""
    clock = at(1)
    whole = list(seen(clock, 60, 0, ("node",)))
    segment = written(tmp_path, whole, clock)
    raw = bytearray(segment.read_bytes())
    middle = len(raw) // 2
    raw[middle : middle + 4096] = fill * (4096 // len(fill))
    segment.write_bytes(raw)
    back, damage = read(segment)
    assert 4096 <= damage.size < 12_000
    lost = len(whole) - len(back)
    assert lost <= damage.records <= lost + 2 < 20  # devices are records too
    assert back[-1][0].seq == 59


@pytest.mark.slow
def test_text_of_a_job_cannot_be_taken_for_a_record(tmp_path: Path) -> None:
    """A whole record with a marker of its own, and one of each layout, in an event's text: behind
    damage only the segment's own marker, which nobody outside can know, begins a record.
    """
    clock = FakeClock()
    forged = packed(b"A" * MARKER_BYTES, 3, OBSERVATION, b"forged") + _record_1(2, b"forged")
    text = (OPENING.pack(MAGIC, b"A" * MARKER_BYTES, 0) + forged * 50).decode("latin-1")
    wal = Wal(tmp_path, clock, SelfMetrics())
    for seq in range(6):
        event = Event(clock.time_ns(), 1, gpu(0), "xid", {"text": text})
        one = observed(clock, gpu_frame(clock, {"power_milliwatts": seq}), seq=seq)
        wal.write(replace(one, events=(event,)), ())
    wal.close()
    (segment,) = segments(tmp_path)
    raw = segment.read_bytes()
    marker = raw[len(MAGIC) : len(MAGIC) + MARKER_BYTES]
    for place in range(raw.index(b"forged") - 3000, raw.index(b"forged"), 7):
        hurt = bytearray(raw)
        hurt[place] ^= 1
        segment.write_bytes(hurt)
        with segment.open("rb") as file:
            assert all(payload != b"forged" for _, payload in records(file, "", Damage()))
        assert len(read(segment)[0]) >= 5
    assert marker not in text.encode("latin-1")


def test_markers_differ_from_segment_to_segment(tmp_path: Path) -> None:
    """What somebody learns of one (an exported case) is of no use in the next."""
    clock = FakeClock()
    wal = Wal(tmp_path, clock, SelfMetrics())
    for seq in range(2):
        wal.write(observed(clock, seq=seq), ())
        wal.rotate()
    one, two = (path.read_bytes() for path in segments(tmp_path))
    assert one[: len(MAGIC)] == two[: len(MAGIC)] == MAGIC
    assert one[len(MAGIC) : OPENING.size] != two[len(MAGIC) : OPENING.size]


def test_a_segment_that_was_not_ended_is_known_and_is_no_damage(tmp_path: Path) -> None:
    """A kill leaves it without an end, perhaps in the middle of a record; a power cut perhaps with
    zeros. A closed one has its end.
    """
    clock = at(1)
    whole = list(seen(clock, 9, 0, ("node",)))
    segment = written(tmp_path, whole, clock)
    raw = segment.read_bytes()
    assert not read(segment)[1].unended
    for cut in (1, 20, 40, 300):
        for tail in (b"", bytes(512)):
            segment.write_bytes(raw[:-cut] + tail)
            back, damage = read(segment)
            assert damage.unended
            assert len(back) >= 7
            assert tail or not damage


def _record_1(kind: int, payload: bytes) -> bytes:
    """A record of version 1."""
    return RECORD_1.pack(len(payload), zlib.crc32(payload, kind), kind) + payload


def as_version_1(segment: Path) -> bytes:
    """The same records as versions before 0.6 wrote them."""
    with segment.open("rb") as file:
        whole = [one for one in records(file, "", Damage()) if one[0] <= OBSERVATION]
    once = [one for n, one in enumerate(whole) if one[0] == OBSERVATION or one not in whole[:n]]
    return MAGIC_1 + b"".join(_record_1(*one) for one in once)


def test_segments_of_versions_before_0_6_are_still_read(tmp_path: Path) -> None:
    """Whole; and a damaged payload costs its record only, as its length leads to the next one."""
    clock = at(1)
    whole = list(seen(clock, 20, 0, ("node",)))
    segment = written(tmp_path, whole, clock)
    old = as_version_1(segment)
    segment.write_bytes(old)
    back, damage = read(segment)
    assert str(back) == str(whole)
    assert damage == Damage()
    hurt = bytearray(old)
    hurt[len(old) * 9 // 10] ^= 4
    segment.write_bytes(hurt)
    back, damage = read(segment)
    assert (len(back), damage.records) == (19, 1)
    segment.write_bytes(old[:-5])
    back, damage = read(segment)
    assert (len(back), bool(damage), damage.unended) == (19, False, True)


def test_a_segment_of_a_newer_version_is_named_and_left_alone(tmp_path: Path) -> None:
    """It is none of ours to seal or to drop; a flipped bit in the version of one of ours is
    damage, not a newer version.
    """
    clock = FakeClock()
    segment = written(tmp_path, [(observed(clock, seq=0), ())], clock)
    raw = segment.read_bytes()
    segment.unlink()
    newer, marker = NAME + b"03", b"m" * MARKER_BYTES
    segment.write_bytes(OPENING.pack(newer, marker, zlib.crc32(newer + marker)) + b"rest")
    with pytest.raises(NewerError, match="newer version"):
        list(read_segment(segment))
    assert segments(tmp_path) == []
    assert list(strangers(tmp_path)) == [(segment, "newer")]
    flipped = segment.with_name("boot-1-0000000000000009.wal")
    flipped.write_bytes(NAME + b"03" + raw[len(MAGIC) :])
    assert segments(tmp_path) == [flipped]
    back, damage = read(flipped)
    assert ([o.seq for o, _ in back], bool(damage)) == ([0], True)


def test_what_is_no_segment_is_neither_sealed_nor_dropped(tmp_path: Path) -> None:
    """A folder, a link and a file with names of their own, beside a log that is over its limit."""
    clock = FakeClock()
    (tmp_path / "boot-1-0000000000000001.wal").mkdir()
    (tmp_path / "notes.wal").write_bytes(b"x" * 900)
    (tmp_path / "boot-1-0000000000000002.wal").symlink_to(tmp_path / "notes.wal")
    wal = Wal(tmp_path, clock, SelfMetrics(), max_bytes=1000, segment_bytes=500)
    wal.write(observed(clock, seq=3), ())
    wal.rotate()
    assert [path.name for path in segments(tmp_path)] == ["boot-1-0000000000000003.wal"]
    assert [(path.name, why) for path, why in strangers(tmp_path)] == [
        ("boot-1-0000000000000001.wal", "no_file"),
        ("boot-1-0000000000000002.wal", "no_file"),
        ("notes.wal", "name"),
    ]
    wal.write(observed(clock, seq=4), ())
    assert sorted(path.name for path in tmp_path.iterdir())[:3] == [
        "boot-1-0000000000000001.wal",
        "boot-1-0000000000000002.wal",
        "boot-1-0000000000000004.wal",
    ]


def test_a_damaged_header_with_its_copy_damaged_too_is_counted(tmp_path: Path) -> None:
    """Nothing can be read then, and it is known how much that is."""
    clock = at(1)
    segment = written(tmp_path, list(seen(clock, 5, 0, ("node",))), clock)
    raw = bytearray(segment.read_bytes())
    with segment.open("rb") as file:
        header = next(payload for kind, payload in records(file, "", Damage()) if kind == HEADER)
    for place in (raw.find(header), raw.rfind(header)):
        raw[place] ^= 1
    segment.write_bytes(raw)
    back, damage = read(segment)
    assert back == []
    assert damage.records == 2 + 5
