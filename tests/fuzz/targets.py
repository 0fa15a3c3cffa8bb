"""The registry of fuzz targets: every parser of what tenants write, with its corpus, the errors
that it may raise, and its share of the inputs.
"""

from __future__ import annotations

import io
import json
import pickle
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import Any, cast

from collector.sources.control_group import folder_of, group_of
from collector.sources.joblog.lines import Joiner
from collector.sources.joblog.match import hits
from collector.sources.jobs.slurm.allocations import indices
from collector.sources.jobs.slurm.tasks import KEPT, title_of
from collector.sources.kmsg.blocks import Blocks
from collector.sources.kmsg.journal_reader import entry_of
from collector.sources.kmsg.lines import Lines
from collector.sources.kmsg.parse import parse_text as parse_kernel_text
from collector.sources.kmsg.parse import parse_uuid
from collector.sources.kmsg.records import Record, parse_record
from collector.sources.nccl.discovery import procfs
from collector.sources.nccl.discovery.environment import environment_of, rank_of
from collector.sources.nccl.discovery.identity import owner_of
from collector.sources.nccl.discovery.library import version_of
from collector.sources.nccl.discovery.mounts import type_of
from collector.sources.nccl.discovery.sockets import connection, listener, ras_port
from collector.sources.nccl.flight_recorder.dump import parse_dump
from collector.sources.nccl.flight_recorder.http import dump_in
from collector.sources.nccl.flight_recorder.plain_pickle import load
from collector.sources.nccl.inspector.log import InspectorLog
from collector.sources.nccl.inspector.prometheus import parse_samples
from collector.sources.nccl.ras.address import RasError
from collector.sources.nccl.ras.client import converse
from collector.sources.nccl.ras.json_report import parse_json
from collector.sources.nccl.ras.monitor import MonitorStream
from collector.sources.nccl.ras.pieces import Piece, whole
from collector.sources.nccl.sanitize import FormatError
from collector.sources.nccl.saved import parse_saved
from collector.sources.tail import MAX_LINE, Tail
from collector.sources.tenants.bounded import BoundsError, pack, unpack
from collector.sources.tenants.frames import FrameError, Frames, framed
from pipeline.nccl.hit import Hit
from pipeline.nccl.member import Member
from pipeline.nccl.report import Communicator, PeerEvent, Report
from tests.collector.sources.nccl.inspector.lines import line as inspector_line
from tests.collector.sources.nccl.recordings import DATA, RAS

KMSG = DATA.parent / "kmsg"
_ENDLESS = b"x" * (MAX_LINE + 1)
MAX_RECORDING = 6000  # bytes: of longer ones the beginning


@dataclass(frozen=True, slots=True)
class Target:
    """``parse`` takes any bytes and raises only ``errors``. ``share`` is its part of the inputs."""

    name: str
    parse: Callable[[bytes], object]
    corpus: tuple[bytes, ...]
    share: float
    errors: tuple[type[Exception], ...] = ()


def _stored(value: object, kind: Any) -> object:
    """What is returned fits the store: its numbers have 64 bits, and its text has an end."""
    pack(value, kind)
    return value


def _ras(data: bytes) -> object:
    return _stored(parse_json(data), Report)


def _saved(data: bytes) -> object:
    return _stored(parse_saved(data, "nccl_trace_rank_3"), Report)


def _dump(data: bytes) -> object:
    return _stored(parse_dump(data, "x_3"), Report)


def _in_pieces(data: bytes) -> object:
    return _stored(whole(_REPORT_OF_TWO, (data,)), Report)


def _monitor(data: bytes) -> object:
    stream, half = MonitorStream(), len(data) // 2
    return _stored((*stream.feed(data[:half]), *stream.feed(data[half:])), tuple[PeerEvent, ...])


def _inspector(data: bytes) -> object:
    log = InspectorLog(0.5, ranks=8, operations=4, timings=8)
    log.feed(data.split(b"\n"))
    return _stored(log.report("x"), Report)


def _job_log(data: bytes) -> object:
    joiner = Joiner()
    lines = (joiner.add(raw.decode(errors="replace")) for raw in data.split(b"\n"))
    return _stored(tuple(hit for line in lines if line for hit in hits(line)), tuple[Hit, ...])


def _environ(data: bytes) -> object:
    environment = environment_of(data)
    return environment_of(data, KEPT), rank_of(environment), owner_of(environment, "", 7)


def _cgroup(data: bytes) -> object:
    text = data.decode(errors="replace")
    groups = group_of(text), folder_of(text)
    return owner_of({"SLURM_JOB_ID": "71"}, text, 7), owner_of({}, text, 7), groups


def _status(data: bytes) -> object:
    return procfs.inner_pid(data, 5), procfs.user(data), procfs.minors(data)


def _in_memory(data: bytes) -> object:
    return procfs.in_memory(data, 0x7FFC_0000_0000, 0x7FFF_0000_0000)


def _text(parse: Callable[[str], object]) -> Callable[[bytes], object]:
    return lambda data: parse(data.decode(errors="replace"))


def _words(data: bytes) -> object:
    text = data.decode(errors="replace")
    return version_of(text), ras_port(text), indices(text), title_of(data)


class _Connection:
    """A socket whose peer sends what it was given, whatever it is asked."""

    def __init__(self, data: bytes) -> None:
        self._data = io.BytesIO(data)

    def settimeout(self, _: float) -> None:
        """Nothing waits here."""

    def sendall(self, _: bytes) -> None:
        """The peer does not care."""

    def recv(self, size: int) -> bytes:
        """The next bytes."""
        return self._data.read(min(size, 100))

    def makefile(self, _: str) -> io.BytesIO:
        """For http.client."""
        return self._data


def _session(data: bytes) -> object:
    return converse(cast("Any", _Connection(data)), float("inf"), 4096)


def _worker(data: bytes) -> object:
    response = HTTPResponse(cast("Any", _Connection(data)), method="POST")
    try:
        response.begin()
        return dump_in(response)
    except HTTPException as error:
        raise FormatError(str(error)) from error


_TEMPORARY = tempfile.TemporaryDirectory(prefix="fuzz")  # removed when the interpreter ends
_FOLDER = Path(_TEMPORARY.name)


def _tail(data: bytes) -> object:
    path, half = _FOLDER / "log", len(data) // 2
    path.write_bytes(data[:half])
    tail = Tail("log", root=_FOLDER)
    lines = tail.read(1 << 16)
    path.write_bytes(data[half:] if data[:1] == b"x" else data)
    lines += tail.read(1 << 16)
    tail.close()
    return [*lines, *_tail_of_a_long_line(path, data)]


def _tail_of_a_long_line(path: Path, data: bytes) -> list[bytes]:
    """One that is followed from its middle on, and whose last line is longer than is kept."""
    path.write_bytes(data * 2)
    tail = Tail("log", root=_FOLDER, from_the_end=len(data))
    lines = tail.read(1 << 16)
    with path.open("ab") as file:
        file.write(_ENDLESS + data)
    lines += tail.read(1 << 18)
    tail.close()
    return lines


def _kernel_line(data: bytes) -> object:
    lines = Lines()
    records = [
        record for raw in data.split(b"\n") for record in lines.feed(raw, 1_795_000_000 * 10**9)
    ]
    return [_kernel(record) for record in [*records, *lines.finish()]]


def _kernel(record: Record | None) -> object:
    """Its text can be stored, and is looked at by all patterns."""
    if record is None:
        return None
    record.text.encode()
    return parse_kernel_text(record.text), parse_uuid(record.text)


def _journal(data: bytes) -> object:
    return _kernel(entry_of(data))


def _kernel_record(data: bytes) -> object:
    return _kernel(parse_record(data))


def _blocks(data: bytes) -> object:
    blocks = Blocks()
    raws = data.split(b"\n")
    found = blocks.start(raws[0]) or []
    found += [record for raw in raws[1:] if blocks.open for record in blocks.take(raw)]
    return [_kernel(record) for record in found + blocks.finish()]


def _answer(data: bytes) -> object:
    return [unpack(message.body, Report) for message in Frames(1 << 16).feed(data)]


def _files(*paths: Path) -> tuple[bytes, ...]:
    return tuple(path.read_bytes()[:MAX_RECORDING] for path in paths)


def _lines_of(path: Path, most: int = 400) -> tuple[bytes, ...]:
    return tuple(row for row in path.read_bytes().split(b"\n")[:most] if row)


_TEXTS = sorted(RAS.glob("*.txt"))
_JSONS = sorted(RAS.glob("*.json"))
_LOGS = sorted(path for path in (DATA / "logs").rglob("*") if path.is_file())
_SMALL_DUMP = {
    "entries": [
        {
            "collective_seq_id": 3,
            "pg_id": 0,
            "process_group": ["0", "default_pg"],
            "profiling_name": "nccl:all_reduce",
            "state": "started",
            "is_p2p": False,
            "input_sizes": [[4, 2]],
            "input_dtypes": ["Float"],
            "time_created_ns": 1795 * 10**15,
            "frames": [{"filename": "/x/train.py", "line": 3, "name": "step"}],
        }
    ],
    "pg_config": {"0": {"ranks": "[0, 1]", "desc": "default_pg"}},
    "pg_status": {"0": {"last_enqueued_collective": 3, "last_completed_collective": 2}},
}
_MAPS = b"""7f00-7f10 r--p 00000000 08:01 4711 /usr/lib/libnccl.so.2.30.7
7f10-7f20 rw-s 00000000 00:06 812 /dev/nvidia3
7f20-7f30 rw-s 00000000 00:06 813 /dev/nvidiactl
"""
_STATUS = b"""Name:\tpython3\nUid:\t1000\t1000\t1000\t1000\nNSpid:\t812\t7\n
Device Minor: \t 3\nGPU UUID: \t GPU-8dcf1b5c-1fd1-4c2e-9d5f-2a2f0d8f1c11\n"""
_MOUNTS = (
    b"36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw\n"
    b"1 0 0:9 / /h\\040a rw - nfs4 b rw"
)
_ENVIRON = (
    b"SLURM_JOB_ID=71\0SLURM_STEP_ID=0\0RANK=3\0NCCL_RAS_ADDR=localhost:28028\0MASTER_ADDR=n1"
)
_CGROUPS = (
    b"0::/system.slice/slurmstepd.scope/job_71/step_0/user/task_0",
    b"4:memory:/slurm/uid_1000/job_71/step_batch",
    b"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod0a1b2c3d_0000_1111_2222_333344445555.slice/x",
)
_TCP = (
    b"   0: 0100007F:6D7C 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 "
    b"4711 1 0 100 0 0 10 0"
)
_HELLO = b"SERVER PROTOCOL 2\nOK\nOK\n"
_HTTP = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
_CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
_PROM = b'nccl_bus_bandwidth_gbs{collective="AllReduce",gpu="x"} 187.5 1795\n'
_EVENT = b"[2026-11-23 06:00:00] PEER_DEAD: Process 5 on node n1 managing GPU 0 (NVML 0): gone\n"
_JSON_EVENT = (
    b'{\n"event":"PEER_NEW","peer":{"host":"n1","pid":5,"cuda_devs":[0]},'
    b'"timestamp":"2026-11-23 06:00:00"\n}\n'
)
_SYSLOG = tuple(
    b"%s NVRM: Xid (PCI:0000:1b:00): 79, pid=5, name=x, GPU has fallen off the bus." % head
    for head in (
        b"Nov 23 10:00:00 n1 kernel: [ 6916.917915]",
        b"2026-11-23T10:00:00.123456+00:00 n1 kernel: [ 6916.917915]",
        b"2026-11-23T10:00:00+0100 n1 kernel:",
        b"2026-11-23 10:00:00 n1 [ 6916.917915]",
        b"[Mon Nov 23 10:00:00 2026]",
        b"[2026-11-23T10:00:00,123456+01:00]",
        b"<4>[ 6916.917915]",
    )
)
_WRAPPED = (
    b'{"log":"n1:1:2 [0] NCCL WARN Cuda failure 1 \'x\'\\n","time":"2026-11-20T10:00:00Z"}',
    b"2026-11-20T10:00:00.5Z stdout F n1:1:2 [0] NCCL WARN x",
    b"2026-11-20T10:00:00.5Z stdout P n1:1:2 [0] NCCL\n2026-11-20T10:00:00.5Z stdout F  WARN x",
)
_EXPORT = (
    (
        b"__CURSOR=s=1;i=2\n_TRANSPORT=kernel\n__REALTIME_TIMESTAMP=1795000000000000\n"
        b"_SOURCE_MONOTONIC_TIMESTAMP=5\nMESSAGE=NVRM: Xid (PCI:0000:1b:00): 79\n\n"
    ),
    b"__CURSOR=s=1\n_TRANSPORT=kernel\nMESSAGE\n\x05\0\0\0\0\0\0\0a\nb\ncd\n\n",
    b"Mon 2026-11-23 10:00:00.123456 UTC [s=1;i=2]\n    _TRANSPORT=kernel\n    MESSAGE=x\n\n",
    b'{\n"MESSAGE" : "x",\n"_TRANSPORT" : "kernel"\n}\n',
    b'[\n{\n"MESSAGE":"x"\n},\n{\n"MESSAGE":[120,121]\n}\n]\n',
)
_REPORT = pack(Report("ras", "x", 5, communicators=()), Report)
_REPORT_OF_TWO = Report("ras", "x", 5, communicators=(Communicator("a", 2), Communicator("b", 2)))
_PIECE = pack((1, (Member(0, host="n1", pid=5), Member(1, host="n2", launched=(("A", 7),)))), Piece)

TARGETS: tuple[Target, ...] = (
    Target("ras_json", _ras, _files(*_JSONS), 0.06, (FormatError,)),
    Target(
        "saved",
        _saved,
        (*_files(*_TEXTS, *_JSONS), inspector_line(4) + b"\n"),
        0.03,
        (FormatError,),
    ),
    Target("ras_monitor", _monitor, (_EVENT, _EVENT * 3, _JSON_EVENT), 0.06),
    Target("ras_session", _session, (_HELLO + b'{"a":1}', _HELLO), 0.05, (RasError,)),
    Target(
        "inspector_log",
        _inspector,
        (inspector_line(4), inspector_line(5) + b"\n" + inspector_line(6)),
        0.07,
    ),
    Target("inspector_prometheus", parse_samples, (_PROM, _PROM * 4), 0.05, (FormatError,)),
    Target("dump_json", _dump, (json.dumps(_SMALL_DUMP).encode(),), 0.07, (FormatError,)),
    Target(
        "dump_pickle",
        _dump,
        tuple(pickle.dumps(_SMALL_DUMP, n) for n in (2, 4)),
        0.06,
        (FormatError,),
    ),
    Target(
        "pickle",
        load,
        (pickle.dumps([1, 2.5, None, ("x", True), {"a": [2**60]}], 2),),
        0.05,
        (FormatError,),
    ),
    Target("worker_server", _worker, (_HTTP, _CHUNKED), 0.03, (FormatError, OSError)),
    Target("maps", procfs.mapped, (_MAPS,), 0.05),
    Target("memory_of_environ", _in_memory, (_MAPS,), 0.05),
    Target("stat", procfs.stat, (b"812 (python3) S 1" + b" 0" * 17 + b" 4200 0 0",), 0.04),
    Target("status", _status, (_STATUS,), 0.04),
    Target("environ", _environ, (_ENVIRON,), 0.05),
    Target("cgroup", _cgroup, _CGROUPS, 0.05),
    Target("mountinfo", _text(lambda text: type_of(text, "/h a/x")), (_MOUNTS,), 0.04),
    Target("net_tcp", _text(lambda text: (listener(text), connection(text))), (_TCP,), 0.04),
    Target(
        "words", _words, (b"2.30.7", b"localhost:28028", b"0,2-4", b"slurmstepd: [71.batch]"), 0.04
    ),
    Target(
        "job_log",
        _job_log,
        tuple(row.split(b"\t")[-1] for p in _LOGS for row in _lines_of(p, 60)) + _WRAPPED,
        0.06,
    ),
    Target(
        "tail",
        _tail,
        (b"a\nb\n" * 20, b"x" * 300 + b"\n", b"step 1\rstep 2\rNCCL WARN x\n"),
        0.005,
    ),
    Target("kernel_lines", _kernel_line, _lines_of(KMSG / "dmesg-x.txt") + _SYSLOG, 0.02),
    Target("kernel_records", _kernel_record, _lines_of(KMSG / "kmsg-records.txt"), 0.03),
    Target("journal", _journal, _lines_of(KMSG / "journal-k.jsonl", 40), 0.03, (ValueError,)),
    Target("journal_blocks", _blocks, _lines_of(KMSG / "journal-k.jsonl", 10) + _EXPORT, 0.02),
    Target("ras_pieces", _in_pieces, (_PIECE,), 0.02, (BoundsError,)),
    Target(
        "child_answer",
        _answer,
        (framed(3, _REPORT), framed(3, _REPORT) * 2),
        0.04,
        (BoundsError, FrameError),
    ),
)


def counts(total: int, targets: Sequence[Target] = TARGETS) -> dict[str, int]:
    """How many of so many inputs each target gets."""
    whole = sum(target.share for target in targets)
    return {target.name: round(total * target.share / whole) for target in targets}
