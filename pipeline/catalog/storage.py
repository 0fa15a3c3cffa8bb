"""Where jobs read their data: mounts of network file systems, and disks.

``read`` of a mount: ``mountstats`` for NFS (/proc/self/mountstats, per-operation statistics),
``llite`` and ``osc`` for Lustre's client statistics; of a disk: the column of /proc/diskstats
(Documentation/admin-guide/iostats.rst). Names as those of node_exporter's mountstats and diskstats.
"""

from __future__ import annotations

from pipeline.catalog.fields import Fact, Field, Kind, Metric

MOUNT, DISK = "mount", "disk"

KINDS = (
    Kind(
        MOUNT,
        (("mountpoint", "mountpoint"), ("device", "device"), ("fstype", "fstype")),
        "A mounted network file system: NFS or Lustre.",
    ),
    Kind(DISK, (("device", "@id"),), "A disk: NVMe, SCSI, md or device mapper, not a partition."),
)

_REQUESTS = Metric(
    "tocsin_mount_requests_total",
    "counter",
    "Operations on the file system that completed.",
)
_TIME = Metric(
    "tocsin_mount_request_time_seconds_total",
    "counter",
    (
        "Time from request to completion of those operations, added up: divided by their number it "
        "is the mean latency, each second it grows by how many are under way."
    ),
)


def _mount(number: int, name: str, metric: Metric, read: str, operation: str = "") -> Field:
    return Field(
        number,
        name,
        MOUNT,
        "counter",
        metric,
        read,
        (("operation", operation),) if operation else (),
        per=10**6 if name.endswith("_microseconds") else 1,
        profile=metric.profile,
    )


def _disk(number: int, name: str, shown: str, text: str, column: int) -> Field:
    """Milliseconds are 32 bits in the kernel (block/genhd.c, diskstats_show)."""
    return Field(
        number,
        name,
        DISK,
        "counter",
        Metric(f"tocsin_disk_{shown}_total", "counter", text),
        f"{column}",
        per=1000 if name.endswith("_milliseconds") else 1,
        width=32 if name.endswith("_milliseconds") else 64,
        overflow="wraps" if name.endswith("_milliseconds") else "resets",
        profile="full",
    )


def _more(shown: str, text: str) -> Metric:
    return Metric(f"tocsin_mount_{shown}_total", "counter", text, profile="full")


FIELDS = (
    _mount(9201, "read_operations", _REQUESTS, "mountstats READ, llite read, osc ost_read", "read"),
    _mount(9202, "read_microseconds", _TIME, "mountstats READ, llite read, osc ost_read", "read"),
    _mount(
        9203, "write_operations", _REQUESTS, "mountstats WRITE, llite write, osc ost_write", "write"
    ),
    _mount(
        9204, "write_microseconds", _TIME, "mountstats WRITE, llite write, osc ost_write", "write"
    ),
    _mount(9205, "other_operations", _REQUESTS, "mountstats, llite and mdc: all others", "other"),
    _mount(9206, "other_microseconds", _TIME, "mountstats, llite and mdc: all others", "other"),
    _mount(
        9207,
        "read_bytes",
        _more("read_bytes", "Bytes read: of NFS from the server, of Lustre by programs."),
        "mountstats bytes, llite read_bytes",
    ),
    _mount(
        9208,
        "written_bytes",
        _more("written_bytes", "Bytes written: of NFS to the server, of Lustre by programs."),
        "mountstats bytes, llite write_bytes",
    ),
    _mount(
        9209,
        "queue_microseconds",
        _more("queue_time_seconds", "Time that NFS requests waited for a free slot, added up."),
        "mountstats queue",
    ),
    _mount(
        9210,
        "response_microseconds",
        _more("response_time_seconds", "Time until the server answered NFS requests, added up."),
        "mountstats rtt",
    ),
    _mount(
        9211,
        "transmissions",
        _more("transmissions", "NFS requests sent: beyond the requests they were sent again."),
        "mountstats trans",
    ),
    _mount(
        9212,
        "major_timeouts",
        _more("major_timeouts", "NFS requests that the server did not answer in time."),
        "mountstats timeouts",
    ),
    _disk(9301, "reads", "reads_completed", "Reads that completed.", 4),
    _disk(9302, "read_bytes", "read_bytes", "Bytes read, in sectors of 512.", 6),
    _disk(9303, "read_milliseconds", "read_time_seconds", "Time of all reads, added up.", 7),
    _disk(9304, "writes", "writes_completed", "Writes that completed.", 8),
    _disk(9305, "written_bytes", "written_bytes", "Bytes written, in sectors of 512.", 10),
    _disk(9306, "write_milliseconds", "write_time_seconds", "Time of all writes, added up.", 11),
    _disk(9307, "io_milliseconds", "io_time_seconds", "Time in which the disk was in use.", 13),
)

FACTS = (
    Fact("mountpoint", MOUNT, "Where it is mounted.", "source", info=False),
    Fact("device", MOUNT, "Server and export, or the file system.", "source", info=False),
    Fact("fstype", MOUNT, "Type of the file system: nfs, nfs4 or lustre.", "source", info=False),
)
