"""Stores as they are found: what cannot be read is named, the rest is replayed, and no row is given
to an observation that it did not come with.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.frame import Device, Frame
from pipeline.observation import Observation
from pipeline.replay import replay
from pipeline.store.decode.shelf import Shelf
from pipeline.store.files.live import hours_of, live_files
from pipeline.store.files.schema import schema
from pipeline.store.keep.compact import compact
from tests.pipeline.store.days import at, later, seen
from tests.pipeline.store.keep.test_seal import Seen, same, store

HOUR = 1


def node(host: str, boot: str, seed: int, *, hour: float = HOUR, gpus: str = "") -> list[Seen]:
    """Two minutes and a half of an agent: of devices of its own where ``gpus`` names them."""

    def renamed(device: Device) -> Device:
        return Device(host, device.kind, f"{device.id}{gpus}", device.attributes)

    def of(o: Observation) -> Observation:
        frames = []
        devices: dict[int, tuple[Device, ...]] = {}
        for frame in o.frames:
            key = id(frame.devices)
            devices.setdefault(key, tuple(map(renamed, frame.devices)))
            frames.append(replace(frame, devices=devices[key]))
        return replace(o, host=host, boot_id=boot, frames=tuple(frames), events=())

    return [(of(o), ()) for o, _ in seen(at(hour), 150, 0, ("ib_port", "node"), seed)]


def kept(root: Path, *nodes: Sequence[Seen]) -> None:
    """The files of several agents in one folder."""
    for number, one in enumerate(nodes):
        own = root.parent / f"{root.name} of {number}"
        store(own, list(one), at(HOUR))
        shutil.copytree(own, root, dirs_exist_ok=True)


def of_host(root: Path, host: str) -> list[Seen]:
    """What is replayed of a host."""
    return [one for one in replay(root) if one[0].host == host]


@pytest.mark.slow
@pytest.mark.parametrize("whole_day", [False, True], ids=["hours", "days"])
def test_nodes_of_one_name_are_judged_apart(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, whole_day: bool
) -> None:
    """Three nodes called n1 at the same time, each with ports of its own: the first keeps the name,
    the others get a number, and the log names them.
    """
    root = tmp_path / "store"
    nodes = [node("n1", f"boot-{i}", i, gpus=f"-{i}") for i in range(3)]
    kept(root, *nodes)
    if whole_day:
        compact(later(root))
    same(of_host(root, "n1"), nodes[0])
    for number in (1, 2):
        back = of_host(root, f"n1~{number + 1}")
        assert [o.seq for o, _ in back] == [o.seq for o, _ in nodes[number]]
        for (a, _), (b, _) in zip(back, nodes[number], strict=True):
            assert all(map(_same_values, a.frames, b.frames))
            assert {d.host for f in a.frames for d in f.devices} == {a.host}
    assert "several nodes are named n1: boot boot-1 is judged as n1~2" in caplog.text


@pytest.mark.slow
def test_a_node_that_boots_keeps_its_name(tmp_path: Path) -> None:
    """One boot after another, with the same ports and with none in common, is one node."""
    first, second = node("n1", "boot-a", 1), node("n1", "boot-b", 2, hour=HOUR + 0.2)
    third = node("n1", "boot-c", 3, hour=HOUR + 0.4, gpus="-new")
    kept(tmp_path / "store", first, second, third)
    same(list(replay(tmp_path / "store")), [*first, *second, *third])


@pytest.mark.slow
def test_agents_on_one_kernel_are_told_apart_by_their_files(tmp_path: Path) -> None:
    """Containers have the boot id of their host, and their observations the same numbers."""
    one, two = node("n1", "boot", 1), node("n2", "boot", 2)
    kept(tmp_path / "store", one, two)
    same(of_host(tmp_path / "store", "n1"), one)
    same(of_host(tmp_path / "store", "n2"), two)


@pytest.mark.slow
def test_nodes_that_cannot_be_told_apart_are_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Two agents with one name, one boot id and the same numbers; a third is replayed."""
    root, good = tmp_path / "store", node("n2", "other", 3)
    kept(root, node("n1", "boot", 1), good)
    store(tmp_path / "twin", node("n1", "boot", 2, hour=HOUR + 0.0001), at(HOUR))
    for path in (tmp_path / "twin").rglob("*.parquet"):
        name = path.name.replace("-0000000000000000", "-0000000000000001")
        path.rename(root / path.relative_to(tmp_path / "twin").with_name(name))
    same(list(replay(root)), good)
    assert "several nodes write as n1 with boot boot and the same numbers: left out" in caplog.text


@pytest.mark.slow
@pytest.mark.parametrize("whole_day", [False, True], ids=["hours", "days"])
def test_a_table_that_is_missing_is_missing_only_itself(tmp_path: Path, whole_day: bool) -> None:
    """Without a day of ports the frames of nodes are there, and every read says what is not."""
    root, one = tmp_path / "store", node("n1", "boot", 1)
    kept(root, one)
    if whole_day:
        compact(later(root))
    shutil.rmtree(root / "ib_port")
    back = list(replay(root))
    assert len(back) == len(one)
    for (a, _), (b, _) in zip(back, one, strict=True):
        assert a.frames == b.frames[1:]
        assert [(u.reason, u.field) for u in a.unread[len(b.unread) :]] == [
            ("not_stored", "ib_port")
        ]


@pytest.mark.slow
def test_columns_of_a_newer_version_are_named_and_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What this version knows of the file is replayed as it was."""
    root, one = tmp_path / "store", node("n1", "boot", 1)
    kept(root, one)
    (path,) = live_files(root, "ib_port")
    rows = pq.read_table(path, partitioning=None)
    more = rows.append_column("flux_percent", pa.array([1.0] * len(rows)))
    pq.write_table(more.replace_schema_metadata(schema("ib_port").metadata), path)
    same(list(replay(root)), one)
    assert f"{path}: written by a newer version, left out: flux_percent" in caplog.text


@pytest.mark.slow
def test_a_flipped_bit_in_a_row_group_costs_that_group(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Of a day's file of ports nothing else is lost; the log names the file."""
    root, one = tmp_path / "store", node("n1", "boot", 1)
    kept(root, one)
    (path,) = live_files(root, "ib_port")
    group = pq.ParquetFile(path).metadata.row_group(0)
    place = next(
        group.column(i)
        for i in range(group.num_columns)
        if "mono" in group.column(i).path_in_schema
    )
    content = bytearray(path.read_bytes())
    content[place.data_page_offset + place.total_compressed_size - 3] ^= 4
    path.write_bytes(content)
    back = list(replay(root))
    assert [o.frames for o, _ in back] == [o.frames[1:] for o, _ in one]
    assert str(path) in caplog.text


@pytest.mark.slow
@pytest.mark.parametrize("whole_day", [False, True], ids=["hours", "days"])
def test_more_files_than_may_be_open_at_once(tmp_path: Path, whole_day: bool) -> None:
    """A store of many nodes has more: with room for three, all of two nodes' hours come back."""
    root = tmp_path / "store"
    nodes = [
        [*node(host, "boot", seed), *later_hour(host, seed)]
        for seed, host in enumerate(("n1", "n2"))
    ]
    kept(root, *nodes)
    if whole_day:
        compact(later(root))
    with Shelf(root, max_open=3) as few, Shelf(root) as many:
        for hour in hours_of(root):
            for table in ("reads", "ib_port", "node", "devices"):
                found, wanted = (
                    [piece.rows.num_rows for piece in shelf.hour(table, hour)]
                    for shelf in (few, many)
                )
                assert found == wanted != []
                assert len(few._files) <= 3


def later_hour(host: str, seed: int) -> list[Seen]:
    """The same node two hours later, with higher numbers."""
    return [(replace(o, seq=o.seq + 500), f) for o, f in node(host, "boot", seed, hour=HOUR + 2)]


def _same_values(a: Frame, b: Frame) -> bool:
    """Equal but for the host of the devices."""
    ids = [d.id for d in a.devices] == [d.id for d in b.devices]
    return ids and replace(a, devices=b.devices) == b
