"""What is taken from the files of NFS, Lustre and disks, of several kernels and versions."""

from __future__ import annotations

from pathlib import Path

import pytest

from collector.sources.waits import lustre
from collector.sources.waits.diskstats import disks
from collector.sources.waits.mountstats import Mount, mounts
from tests.collector.sources.waits import recorded


def nfs(mountpoint: str = "/data", age: int = 9) -> list[bytes]:
    """Lines of one mount."""
    return recorded.NFS.format(mountpoint=mountpoint, age=age).encode().splitlines()


def test_an_nfs_mount_has_its_reads_writes_and_the_rest_in_microseconds() -> None:
    """Requests, their times, and what was sent again; the queue time that fell below zero is left
    out.
    """
    (mount,) = mounts(nfs())
    assert (mount.device, mount.mountpoint, mount.fstype) == ("filer:/datasets", "/data", "nfs4")
    assert dict(mount.values) == {
        "read_operations": 1300,
        "read_microseconds": 79_400_000,
        "write_operations": 40,
        "write_microseconds": 900_000,
        "other_operations": 1100,
        "other_microseconds": 660_000,
        "read_bytes": 7000,
        "written_bytes": 8000,
        "queue_microseconds": 11_000,
        "response_microseconds": 80_250_000,
        "transmissions": 2442,
        "major_timeouts": 1,
    }


def test_reads_of_nfs_4_2_are_reads_by_either_operation() -> None:
    """A kernel with READ_PLUS sends no READ to a server that has it too."""
    line = b"READ_PLUS: 10 11 0 2000 9000 1 40 50 0"
    (before,), (mount,) = mounts(nfs()), mounts([*nfs(), line])
    assert mount.values["read_operations"] == before.values["read_operations"] + 10
    assert mount.values["read_microseconds"] == before.values["read_microseconds"] + 50_000
    assert mount.values["other_operations"] == before.values["other_operations"]


def test_a_file_system_that_is_mounted_twice_counts_once() -> None:
    """At the first place, although its counts and age went on between the two; where it is mounted
    with nosharecache each place has its own.
    """
    twice = nfs() + nfs("/again", age=10)
    assert [mount.mountpoint for mount in mounts(twice)] == ["/data"]
    apart = [line.replace(b"hard,", b"hard,nosharecache,") for line in twice]
    assert [mount.mountpoint for mount in mounts(apart)] == ["/data", "/again"]


def test_a_mount_over_another_is_the_one_that_is_seen_there() -> None:
    """Two file systems at one place are one device."""
    other = [line.replace(b"filer:", b"new:") for line in nfs()]
    assert [mount.device for mount in mounts(nfs() + other)] == ["new:/datasets"]


@pytest.mark.parametrize(
    "line",
    [
        b"device fuse mounted on /x with fstype fuse.nfs4",
        b"device nfs\\040with\\040fstype\\040nfs mounted on /x with fstype fuse",
        b"no device mounted on /x with fstype nfs4",
        b"device a mounted on",
        b"device",
    ],
)
def test_only_the_kernel_calls_a_mount_nfs(line: bytes) -> None:
    """Names are a user's, their blanks are escaped; what follows such a mount is not taken."""
    assert mounts([line, b"\t READ: 1 1 0 1 1 1 1 1"]) == []


def test_a_name_is_printable_and_cut() -> None:
    """Whatever the mount point is called."""
    (mount,) = mounts(nfs("/data\\012\\033[31m" + "a" * 5000))
    assert mount.mountpoint.isprintable()
    assert mount.mountpoint.startswith("/data??[31maaa")
    assert len(mount.mountpoint) == 200


def of_lustre(root: Path, files: dict[str, str]) -> list[Mount]:
    """Mounts with such files."""
    for name, text in files.items():
        file = root / name / "stats"
        file.parent.mkdir(parents=True)
        file.write_text(text, encoding="ascii")
    return list(lustre.mounts((root,), mounts(recorded.LUSTRE.encode().splitlines())))


def test_lustre_has_the_waits_of_programs_where_its_client_times_them(tmp_path: Path) -> None:
    """As llite has it since 2.13: reads, writes and calls that ask a server."""
    (mount,) = of_lustre(tmp_path, {"llite/scratch-ffff8b01": recorded.LLITE})
    assert (mount.mountpoint, mount.fstype) == ("/scratch", "lustre")
    assert dict(mount.values) == {
        "read_bytes": 1_400_000,
        "written_bytes": 90_000,
        "read_operations": 2700,
        "read_microseconds": 8_100_000,
        "write_operations": 160,
        "write_microseconds": 320_000,
        "other_operations": 50,
        "other_microseconds": 6900,
    }


def test_an_older_lustre_has_the_times_of_its_requests(tmp_path: Path) -> None:
    """Of all targets of that client, and of no other's."""
    (mount,) = of_lustre(
        tmp_path,
        {
            "llite/scratch-ffff8b01": recorded.OLD_LLITE,
            "osc/scratch-OST0000-osc-ffff8b01": recorded.OSC,
            "osc/scratch-OST0001-osc-ffff8b01": recorded.OSC,
            "osc/home-OST0000-osc-ffff8c02": recorded.OSC,
            "mdc/scratch-MDT0000-mdc-ffff8b01": recorded.MDC,
        },
    )
    assert dict(mount.values) == {
        "read_bytes": 1_400_000,
        "written_bytes": 90_000,
        "read_operations": 2000,
        "read_microseconds": 1_400_000,
        "write_operations": 20,
        "write_microseconds": 100_000,
        "other_operations": 70,
        "other_microseconds": 21_000,
    }


def test_disks_are_whole_and_have_done_something() -> None:
    """No partition, loop device or RAM disk."""
    found = dict(disks(recorded.DISKSTATS.encode().splitlines()))
    assert list(found) == ["vda", "nvme0n1"]
    assert found["vda"] == {
        "reads": 4061276,
        "read_bytes": 128123946 * 512,
        "read_milliseconds": 17050259,
        "writes": 2377291,
        "written_bytes": 343580776 * 512,
        "write_milliseconds": 3298741,
        "io_milliseconds": 1277412,
    }
