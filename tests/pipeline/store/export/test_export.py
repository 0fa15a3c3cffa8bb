"""Export: the rows of one device or incident, each once, from files and log; readable, checkable,
and without people's programs.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.clock import SECOND_NS
from pipeline.finding import Finding
from pipeline.frame import frame_of
from pipeline.observation import Event, Observation
from pipeline.selfmetrics import SelfMetrics
from pipeline.store.export.export import export
from pipeline.store.export.redact import MASK, Redaction
from pipeline.store.export.subject import (
    NothingToExportError,
    Subject,
    about_device,
    about_incident,
    about_time,
)
from pipeline.store.export.text import timeline
from pipeline.store.files.schema import schema
from pipeline.store.files.slice import Window
from pipeline.store.files.wal import Wal, segments
from pipeline.store.keep.seal import seal
from tests.fakes import START_NS, FakeClock, gpu, observed

START_US = START_NS // 1000
HOUR = Window(START_US, START_US + 3_600_000_000)


@dataclass
class Store:
    """A store that is written a second at a time, sealed on demand."""

    root: Path
    clock: FakeClock = field(default_factory=FakeClock)
    seq: int = 0

    def __post_init__(self) -> None:
        self.wal = Wal(self.root / "wal", self.clock, SelfMetrics())

    def second(
        self, *events: Event, findings: tuple[Finding, ...] = (), outcome: str = "ok"
    ) -> None:
        """One read of two GPUs and a link of the first."""
        self.clock.advance(1)
        when = (self.clock.time_ns(), self.clock.monotonic_ns())
        gpus = frame_of(
            "gpu",
            [(gpu(i, serial=f"S{i}"), {"power_milliwatts": self.seq}) for i in range(2)],
            *when,
        )
        link = replace(gpu(0), kind="nvlink", id=f"{gpu(0).id}/3", attributes={})
        links = frame_of("nvlink", [(link, {})], *when)
        o = replace(observed(self.clock, gpus, links, seq=self.seq), events=events)
        if outcome != "ok":
            o = Observation(
                "nvml", "n1", "boot-1", self.seq, *when, 5, outcome="failed", error=outcome
            )
        self.wal.write(o, findings)
        self.seq += 1

    def event(self, index: int, kind: str, **attributes: Any) -> Event:
        """An event now."""
        return Event(self.clock.time_ns(), 0, gpu(index), kind, attributes)

    def seal(self) -> None:
        """What was written so far is sealed."""
        self.wal.rotate()
        for segment in segments(self.root / "wal"):
            seal(segment, self.root, "c1")

    def device(
        self, target: Path, device: str = gpu(0).id, *, redact: bool = False, window: Window = HOUR
    ) -> Archive:
        """Export of one device."""
        return self.out(about_device(self.root, device, window), target, redact=redact)

    def out(self, subject: Subject, target: Path, *, redact: bool = False) -> Archive:
        """Export, and open what came out."""
        self.wal.sync()
        export(
            self.root, subject, target / "case.zip", version="9.9.9", now_us=START_US, redact=redact
        )
        return Archive(target / "case.zip")


class Archive:
    """An export as its receiver sees it."""

    def __init__(self, path: Path) -> None:
        with zipfile.ZipFile(path) as archive:
            self.files = {
                name.removeprefix("case/"): archive.read(name) for name in archive.namelist()
            }

    def text(self, name: str) -> str:
        return self.files[name].decode()

    def table(self, name: str) -> pa.Table:
        return pq.read_table(io.BytesIO(self.files[f"tables/{name}.parquet"]))

    def column(self, table: str, column: str) -> list[Any]:
        return self.table(table)[column].to_pylist()  # type: ignore[no-any-return]

    def tables(self) -> set[str]:
        return {Path(name).stem for name in self.files if name.endswith(".parquet")}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """An empty store."""
    return Store(tmp_path / "store")


def test_a_device_goes_with_its_parts_and_what_concerns_its_node(
    store: Store, tmp_path: Path
) -> None:
    """Rows of the GPU and its links; events, findings, reads and slow facts of the whole
    node; nothing of other GPUs.
    """
    store.second(store.event(1, "xid", code=13))
    archive = store.device(tmp_path)
    assert archive.column("gpu", "device") == [gpu(0).id]
    assert archive.column("nvlink", "device") == [f"{gpu(0).id}/3"]
    assert archive.column("events", "device") == [gpu(1).id]
    assert archive.tables() == {"gpu", "nvlink", "events", "devices", "reads"}


@pytest.mark.slow
def test_the_log_of_a_running_agent_counts_and_no_row_counts_twice(
    store: Store, tmp_path: Path
) -> None:
    """Sealed, sealed but with its segment still there, and only written: each second once."""
    for _ in range(10):
        store.second()
    store.seal()
    for _ in range(10):
        store.second()
    store.wal.rotate()
    (segment,) = segments(store.root / "wal")
    kept = segment.read_bytes()
    seal(segment, store.root, "c1")
    segment.write_bytes(kept)  # the child died before it removed it
    for _ in range(10):
        store.second()
    archive = store.device(tmp_path)
    assert sorted(archive.column("gpu", "seq")) == list(range(30))
    assert sorted(archive.column("gpu", "power_milliwatts")) == list(range(30))
    assert sorted(archive.column("reads", "seq")) == list(range(30))


@pytest.mark.slow
def test_the_window_holds_its_begin_and_not_its_end(store: Store, tmp_path: Path) -> None:
    """Half open, to the microsecond; slow facts from before it are there."""
    for _ in range(10):
        store.second()
    store.seal()
    archive = store.device(tmp_path, window=Window(START_US + 3_000_000, START_US + 6_000_000))
    assert archive.column("gpu", "seq") == [2, 3, 4]
    assert gpu(0).id in archive.column("devices", "device")


@pytest.mark.slow
def test_what_the_kernel_said_in_its_last_moments_is_found_though_read_after_the_reboot(
    store: Store, tmp_path: Path
) -> None:
    """Rows lie in the hour of their read; the window is about when things happened, and a broken
    node is off for days.
    """
    last = store.event(0, "xid", code=79, text="NVRM: Xid: 79", origin="pstore", previous_boot=True)
    store.second()
    store.clock.advance(5 * 86_400)
    store.second(last)
    store.seal()
    archive = store.device(tmp_path, window=Window(START_US - 1, START_US + 2_000_000))
    assert "pstore  NVRM: Xid: 79" in archive.text("kernel.log")


@pytest.mark.slow
def test_a_finding_is_exported_with_a_quarter_of_an_hour_around_it(
    store: Store, tmp_path: Path
) -> None:
    """Its short id is enough: device and time are found in the store."""
    for _ in range(1200):
        store.second()
    found = Finding(
        "ecc",
        gpu(1),
        "ecc",
        "onset",
        "page",
        store.clock.time_ns(),
        store.clock.time_ns(),
        "Bad.",
        "COMPONENT_RESET",
    )
    store.second(findings=(found,))
    for _ in range(1200):
        store.second()
    store.seal()
    subject = about_incident(store.root, found.id)
    archive = store.out(subject, tmp_path)
    assert (subject.devices, set(archive.column("gpu", "device"))) == ((gpu(1).id,), {gpu(1).id})
    assert archive.column("gpu", "seq") == list(range(1200 - 901, 1200 + 899))
    assert f"finding {found.id} onset [page] ecc: Bad." in archive.text("timeline.txt")
    assert about_incident(store.root, found.id[:8]) == subject
    with pytest.raises(NothingToExportError, match=f"the newest: {found.id[:8]} "):
        about_incident(store.root, "none")
    with pytest.raises(NothingToExportError, match="no incident in that time"):
        about_incident(store.root, "latest")


def test_everything_of_a_time_can_go_too(store: Store, tmp_path: Path) -> None:
    """Without a device all devices go."""
    store.second()
    archive = store.out(about_time(HOUR), tmp_path)
    assert set(archive.column("gpu", "device")) == {gpu(0).id, gpu(1).id}


def test_an_unknown_device_is_refused_with_the_known_ones(store: Store) -> None:
    """A mistyped id gives the list of what there is."""
    store.second()
    with pytest.raises(
        NothingToExportError,
        match=rf"no device GPU-x in that time; there are {gpu(0).id}, {gpu(1).id}",
    ):
        about_device(store.root, "GPU-x", HOUR)


def test_an_empty_store_is_refused(tmp_path: Path) -> None:
    """Nothing is written where there is nothing."""
    with pytest.raises(NothingToExportError, match="there is none at all"):
        about_device(tmp_path, "GPU-x", HOUR)
    with pytest.raises(NothingToExportError, match="holds nothing"):
        export(tmp_path, about_time(HOUR), tmp_path / "x.zip", version="1", now_us=0)
    assert not (tmp_path / "x.zip").exists()


@pytest.mark.slow
def test_the_store_is_only_read(store: Store, tmp_path: Path) -> None:
    """Neither a dead agent's directory nor a running agent's is changed."""
    store.second()
    store.seal()
    store.second()
    store.wal.sync()
    before = {p: p.stat().st_mtime_ns for p in store.root.rglob("*")}
    store.device(tmp_path)
    assert {p: p.stat().st_mtime_ns for p in store.root.rglob("*")} == before


@pytest.mark.slow
def test_sums_hold_and_equal_contents_give_equal_files(store: Store, tmp_path: Path) -> None:
    """The receiver can check every file; two exports of the same rows are the same bytes."""
    store.second(store.event(0, "xid", code=31, text="x"))
    archive = store.device(tmp_path)
    listed = {e["name"]: e for e in json.loads(archive.text("manifest.json"))["files"]}
    assert listed.keys() == archive.files.keys() - {"manifest.json", "SHA256SUMS"}
    for name, entry in listed.items():
        assert (entry["sha256"], entry["bytes"]) == (
            hashlib.sha256(archive.files[name]).hexdigest(),
            len(archive.files[name]),
        )
    assert listed["tables/gpu.parquet"]["rows"] == 1
    lines = [line.split("  ") for line in archive.text("SHA256SUMS").splitlines()]
    assert {name: digest for digest, name in lines} == {
        n: hashlib.sha256(data).hexdigest()
        for n, data in archive.files.items()
        if n != "SHA256SUMS"
    }
    first = (tmp_path / "case.zip").read_bytes()
    store.device(tmp_path)
    assert (tmp_path / "case.zip").read_bytes() == first


def test_a_table_may_be_larger_than_the_old_form_of_a_zip(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two gigabytes, here a thousand bytes."""
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 1_000)
    store.second()
    archive = store.out(about_time(HOUR), tmp_path)
    assert max(map(len, archive.files.values())) > 1_000


def test_the_readme_describes_the_export(store: Store, tmp_path: Path) -> None:
    """Versions, serial number, units, and every column of every table in it."""
    store.second(store.event(0, "xid", code=31))
    archive = store.device(tmp_path)
    text = archive.text("README.txt")
    for part in (
        "tocsin 9.9.9",
        f"device {gpu(0).id}",
        "2027-01-15 08:00:00.000000Z",
        "power_milliwatts, energy_millijoules",
    ):
        assert part in text
    assert [line for line in text.splitlines() if line.split()[:2] == ["serial:", "S0"]]
    columns = {line.split()[0] for line in text.splitlines() if line}
    assert not {c.name for name in archive.tables() for c in schema(name)} - columns


def test_the_timeline_is_in_order_and_has_failing_reads_once(store: Store, tmp_path: Path) -> None:
    """Events and changes of what could be read, oldest first."""
    store.second()
    store.second(outcome="OSError: gone")
    store.second(outcome="OSError: gone")
    store.second(store.event(0, "xid", code=79))
    archive = store.device(tmp_path)
    lines = archive.text("timeline.txt").splitlines()
    assert lines == sorted(lines)
    texts = [line.split("  ")[3] for line in lines]
    assert texts == ["read nvml failed OSError: gone", "event xid code=79", "read nvml ok"]


def test_a_line_of_the_kernel_cannot_forge_another(store: Store, tmp_path: Path) -> None:
    """Control characters are spelt out, in the timeline and in the log."""
    store.second(store.event(0, "xid", code=13, text="a\n2027-01-15 forged\x1b[2J", origin="kmsg"))
    archive = store.device(tmp_path)
    for name in ("timeline.txt", "kernel.log"):
        (line,) = archive.text(name).splitlines()
        assert r"a\n2027-01-15 forged\x1b[2J" in line


@pytest.mark.slow
def test_redaction_leaves_no_program_anywhere(store: Store, tmp_path: Path) -> None:
    """Names, ids, command lines and control groups are in no file of the archive; what is
    about the hardware stays.
    """
    program = "train_llm.py"
    events = (
        store.event(
            0,
            "xid",
            code=31,
            process=program,
            pid=4711,
            text=f"NVRM: Xid (PCI:0000:1b:00): 31, pid=4711, name={program}, Ch 8",
        ),
        store.event(
            0,
            "oom_kill",
            process=program,
            pid=4711,
            cgroup="/kubepods/4711x",
            text=f"Killed process 4711 ({program}) total-vm",
        ),
        store.event(0, "gpu_process_started", process=program, pid=4711),
        store.event(0, "pcie_error", severity="fatal", text=f"AER while {program} ran"),
    )
    finding = Finding(
        "xid",
        gpu(0),
        "xid",
        "onset",
        "ticket",
        1,
        store.clock.time_ns(),
        f"Fault in {program}.",
        evidence=(f"pid 4711 ({program})",),
    )
    store.second(*events, findings=(finding,))
    archive = store.device(tmp_path, redact=True)
    said_in = {name: str(archive.table(name).to_pylist()) for name in archive.tables()}
    said_in |= {name: archive.text(name) for name in ("README.txt", "timeline.txt", "kernel.log")}
    assert not [
        (name, word)
        for name, text in said_in.items()
        for word in (program, "4711", "kubepods")
        if word in text
    ]
    assert "NVRM: Xid (PCI:0000:1b:00): 31, pid=***, name=***, Ch 8" in archive.text("kernel.log")
    assert "AER while *** ran" in archive.text("kernel.log")
    assert json.loads(archive.text("manifest.json"))["redacted"] == "yes"
    kept = [orjson.loads(a) for a in archive.column("events", "attributes")]
    assert {
        "code": 31,
        "text": f"NVRM: Xid (PCI:0000:1b:00): 31, pid={MASK}, name={MASK}, Ch 8",
    } in kept


@pytest.mark.slow
def test_redaction_leaves_no_name_of_a_job_anywhere(store: Store, tmp_path: Path) -> None:
    """A pod's in an imported history, and torchrun's run: they stay apart, as Slurm's ids do."""
    names = ("ml/llama-70b", "torchrun:ada tries again", "71.0")
    events = (store.event(0, "job_started", job=name, gpus=gpu(0).id) for name in names)
    finding = Finding(
        *("straggler", gpu(0), "straggler/slow", "onset", "ticket", 1, store.clock.time_ns()),
        "It holds up ml/llama-70b.",
        evidence=("job ml/llama-70b: 71.0 waits",),
    )
    store.second(*events, findings=(finding,))
    archive = store.device(tmp_path, redact=True)
    text = str([archive.table(name).to_pylist() for name in archive.tables()])
    text += archive.text("README.txt") + archive.text("timeline.txt")
    assert not [word for word in ("llama", "ada tries") if word in text]
    jobs = {orjson.loads(one)["job"] for one in archive.column("events", "attributes")}
    assert len(jobs) == 3
    assert "71.0" in jobs


@pytest.mark.slow
def test_the_timeline_calls_a_record_info() -> None:
    """It is read by people; the table beside it has the stored value."""
    at = datetime(2027, 1, 15, 8, tzinfo=UTC)
    row = {"time": at, "host": "n1", "device": "GPU-1", "id": "8f14e45f", "phase": "onset"}
    row |= {"severity": "record", "detector": "ecc", "summary": "A row.", "onset": at}
    findings = pa.Table.from_pylist([row | {"action": "NONE", "evidence": ["one row"]}])
    assert "finding 8f14e45f onset [info] ecc: A row." in timeline({"findings": findings})


@pytest.mark.slow
def test_without_redaction_nothing_is_masked(store: Store, tmp_path: Path) -> None:
    """The switch does something, and only when it is on."""
    store.second(store.event(0, "gpu_process_started", process="python3", pid=1))
    assert "process=python3" in store.device(tmp_path).text("timeline.txt")
    assert "process=python3" not in store.device(tmp_path, redact=True).text("timeline.txt")


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("pid='<unknown>', name=<unknown>, GPU has fallen", "pid=***, name=***, GPU has fallen"),
        ("pid=12, name=my app, Ch 00000010", "pid=***, name=***, Ch 00000010"),
        ("XID 31 in pid 99 (python3)", "XID 31 in pid ***"),
        ("power 700000 mW, threshold 5", "power 700000 mW, threshold 5"),
        ("command: rm -rf /home/x; then", "command: ***; then"),
    ],
)
def test_names_of_programs_are_masked_where_they_stand(text: str, masked: str) -> None:
    """The driver's forms, and people's."""
    assert Redaction().text(text) == masked


@pytest.mark.slow
def test_a_damaged_file_costs_its_own_rows(store: Store, tmp_path: Path) -> None:
    """It is named; the rest goes out."""
    store.second()
    store.seal()
    (file,) = store.root.glob("nvlink/*/*/*.parquet")
    file.write_bytes(b"PAR1 no")
    store.second()
    subject = about_device(store.root, gpu(0).id, HOUR)
    done = export(store.root, subject, tmp_path / "case.zip", version="1", now_us=0)
    assert done.rows["gpu"] == 2
    assert done.rows["nvlink"] == 1
    assert [str(file) in words for words in done.left_out] == [True]


def test_a_device_that_moved_to_another_host_is_followed(tmp_path: Path) -> None:
    """Identity is the hardware's: rows of both hosts, unless one is named."""
    for host in ("n1", "n2"):
        clock = FakeClock()
        wal = Wal(tmp_path / "wal", clock, SelfMetrics())
        device = replace(gpu(0), host=host)
        clock.advance(10 if host == "n2" else 1)
        frame = frame_of(
            "gpu", [(device, {"power_milliwatts": 1})], clock.time_ns(), clock.monotonic_ns()
        )
        o = Observation(
            "nvml",
            host,
            f"boot-{host}",
            1,
            clock.time_ns(),
            clock.monotonic_ns(),
            SECOND_NS,
            (frame,),
        )
        wal.write(o, ())
        wal.close()
        for segment in segments(tmp_path / "wal"):
            seal(segment, tmp_path, "c1")
    assert about_device(tmp_path, gpu(0).id, HOUR).hosts == ("n1", "n2")
    assert about_device(tmp_path, gpu(0).id, HOUR, ("n2",)).hosts == ("n2",)
