"""Kernel logs that a site has kept become events of its GPUs, in whatever form they are."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType

import pytest

from history.importing import bring, find
from history.kernel_logs import files
from history.kernel_logs.book import KernelLogs, by_node
from history.kernel_logs.lines import LogLine
from history.kernel_logs.loki import LIMIT, Loki
from history.meaning.labels import LabelMap
from history.site.http import Answer
from history.site.series import SiteError
from pipeline.observation import Event
from pipeline.replay import replay
from tests.history.recorded import Recorded
from tests.history.site import BEGIN_MS, HOUR_MS, gpu_labels, node, scrapes

HOUR = (BEGIN_MS, BEGIN_MS + HOUR_MS)
AT = BEGIN_MS // 1000 + 600
XID = "NVRM: Xid (PCI:0000:10:00): 79, pid=1, GPU has fallen off the bus."


def stamp(form: str, second: int = AT) -> str:
    """A time as a program of this machine writes it."""
    return datetime.fromtimestamp(second).astimezone().strftime(form)


def journal(**more: object) -> str:
    """An entry of journalctl -o json."""
    return json.dumps({"MESSAGE": XID, "__REALTIME_TIMESTAMP": str(AT * 10**6), **more})


SPELLINGS: dict[str, Callable[[], str]] = {
    "dmesg-T": lambda: f"[{stamp('%a %b %e %H:%M:%S %Y')}] {XID}",
    "dmesg-iso": lambda: f"{stamp('%Y-%m-%dT%H:%M:%S')},000000{stamp('%z')} {XID}",
    "short-iso": lambda: f"{stamp('%Y-%m-%dT%H:%M:%S%z')} n1 kernel: {XID}",
    "syslog": lambda: f"{stamp('%b %e %H:%M:%S')} n1 kernel: [ 12.345678] {XID}",
    "rfc5424": lambda: f"<4>1 {datetime.fromtimestamp(AT, UTC).isoformat()} n1 kernel - - - {XID}",
    "json": lambda: journal(_HOSTNAME="n1", _TRANSPORT="kernel", SYSLOG_FACILITY="0"),
    "logcli": lambda: json.dumps(
        {
            "labels": {"job": "systemd-journal", "hostname": "n1"},
            "line": XID,
            "timestamp": datetime.fromtimestamp(AT, UTC).isoformat(),
        }
    ),
    "answer": lambda: json.dumps(answer([[str(AT * 10**9), XID]], node="n1")),
}


def answer(values: list[list[str]], **labels: str) -> dict[str, object]:
    """What Loki's query_range gives."""
    streams = [{"stream": labels, "values": values}]
    return {"status": "success", "data": {"resultType": "streams", "result": streams}}


def lines(path: Path, text: str) -> list[LogLine]:
    """Lines of a file of that text."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n")
    os.utime(path, (AT + 60, AT + 60))
    return list(files.read(path))


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_line_has_its_node_its_time_and_its_words_in_every_form(
    spelling: str, tmp_path: Path
) -> None:
    """Where a line names no node, the file or its folder does."""
    (line,) = lines(tmp_path / "n1" / "kern.log", SPELLINGS[spelling]())
    assert "n1" in line.nodes
    assert line.record.time_ns // 10**9 == AT
    assert line.record.text.startswith("NVRM: Xid")


def test_the_year_of_a_rotated_log_is_that_of_its_last_line(tmp_path: Path) -> None:
    """By the date in its name, else by its time; the turn of a year lies within."""
    day = datetime(2025, 1, 2, 12, tzinfo=UTC).timestamp()
    text = f"Dec 31 10:00:00 n1 kernel: {XID}\nJan  2 10:00:00 n1 kernel: {XID}\n".encode()
    for name in ("kern.log.1.gz", "kern.log-20250102.gz"):
        path = tmp_path / name
        path.write_bytes(gzip.compress(text))
        if "2025" not in name:
            os.utime(path, (day, day))
        years = [datetime.fromtimestamp(one.record.time_ns / 1e9).year for one in files.read(path)]  # noqa: DTZ006
        assert years == [2024, 2025]


@pytest.mark.parametrize(
    "text",
    [
        f"Nov 21 10:00:00 n1 python[77]: {XID}",
        journal(_HOSTNAME="n1", _TRANSPORT="stdout"),
        journal(_HOSTNAME="n1", _TRANSPORT="syslog", SYSLOG_IDENTIFIER="kernel"),
        json.dumps(answer([[str(AT * 10**9), XID]], node="n1", pod="train-0", container="main")),
        '{"status": "success", "data": ',
        '{"labels": [], "line": 7}',
        "\x00\xff{{{",
    ],
)
def test_what_a_program_wrote_is_no_line_of_the_kernel(text: str, tmp_path: Path) -> None:
    """By its name, by its transport, by its container; and broken JSON is nothing."""
    logs = KernelLogs()
    logs.add(lines(tmp_path / "n1.log", text))
    assert list(logs.between(0, 1 << 50)) == []


@pytest.mark.parametrize(
    "text",
    [
        f"2026 Nov 21 10:00:00 n1 kernel: {XID}",
        f"[Di Nov 21 10:00:00 2026] {XID}",
        json.dumps({"host": "n1", "program": "kernel", "message": XID}),
        f"__REALTIME_TIMESTAMP=1795266000000000\n_TRANSPORT=kernel\nMESSAGE={XID}",
        f"data: {journal(_HOSTNAME='n1')}",
    ],
)
def test_lines_in_a_form_that_is_not_read_are_counted(text: str, tmp_path: Path) -> None:
    """A log of which nothing is understood is not one without XIDs."""
    logs = KernelLogs()
    logs.add(lines(tmp_path / "n1.log", text))
    assert logs.skipped == {"in a form that is not known": 1}


def test_a_line_of_a_program_hides_none_of_the_kernel(tmp_path: Path) -> None:
    """One that looks as an answer of Loki begins, at the begin of the file or after it."""
    logs, like = KernelLogs(), '{"status": "success", "data": {}}'
    xid = SPELLINGS["short-iso"]()
    logs.add(lines(tmp_path / "n1.log", f"{like}\n{xid}\n{like}\n{xid}"))
    assert len(list(logs.between(0, 1 << 50))) == 2


@pytest.mark.parametrize("packed", [gzip, lzma, bz2], ids=["gzip", "xz", "bzip2"])
def test_a_packed_log_is_read_as_its_text(packed: ModuleType, tmp_path: Path) -> None:
    """Distributions rotate with gzip, xz (SUSE) or bzip2; what is not read is named."""
    path = tmp_path / "messages-20261122.packed"
    path.write_bytes(packed.compress(f"{SPELLINGS['short-iso']()}\n".encode()))
    (line,) = files.read(path)
    assert (line.nodes, line.record.text) == (("n1",), XID)
    path.write_bytes(b"\x28\xb5\x2f\xfd\x04")
    with pytest.raises(SiteError, match=r"messages-20261122\.packed: packed by zstd"):
        list(files.read(path))


def test_a_broken_archive_is_named(tmp_path: Path) -> None:
    """Cut off, or not there."""
    path = tmp_path / "kern.log.gz"
    path.write_bytes(gzip.compress(SPELLINGS["short-iso"]().encode() * 50)[:-20])
    with pytest.raises(SiteError, match=r"kern\.log\.gz"):
        list(files.read(path))
    with pytest.raises(SiteError, match="no such file"):
        files.files_in(tmp_path / "nothing")


def imported(root: Path, logs: KernelLogs, *, gauge: bool = False) -> list[Event]:
    """XIDs of an import of an hour of the node n1.example and its logs."""
    site, times = Recorded(), scrapes(*HOUR)
    node(site, "n1.example", times)
    if gauge:
        name, labels = "DCGM_FI_DEV_XID_ERRORS", gpu_labels("n1.example", 0)
        site.series = [one for one in site.series if one[0] != {"__name__": name, **labels}]
        site.add(name, labels, [(ms, 79.0 if ms > AT * 1000 else 0.0) for ms in times])
    bring(site, find(site, *HOUR, None), root, HOUR, logs=logs)
    return [e for seen in replay(root) for e in seen[0].events if e.kind == "xid"]


@pytest.mark.slow
def test_an_xid_of_the_log_is_one_event_of_its_gpu_at_its_time(tmp_path: Path) -> None:
    """Also where the exporter's gauge shows it half a minute later; repeats are counted."""
    logs = KernelLogs()
    text = f"{SPELLINGS['short-iso']()}\n{SPELLINGS['short-iso']()}"
    logs.add(lines(tmp_path / "kern.log", text))
    (event,) = imported(tmp_path / "store", logs, gauge=True)
    assert (event.device.id, event.time_ns) == ("GPU-n1.example-0", AT * 10**9)
    assert (event.attributes["code"], event.attributes["count"]) == (79, 2)
    assert not logs.skipped


@pytest.mark.slow
def test_lines_of_no_node_of_the_history_are_counted(tmp_path: Path) -> None:
    """And those without a time of day."""
    logs = KernelLogs()
    other = SPELLINGS["short-iso"]().replace(" n1 ", " n9 ")
    logs.add(lines(tmp_path / "n1" / "a.log", f"[12.000001] {XID}\n{other}"))
    logs.add(lines(tmp_path / "n7.log", SPELLINGS["dmesg-T"]()))
    assert imported(tmp_path / "store", logs) == []
    assert sorted(logs.skipped.values()) == [1, 1, 1]


def test_a_line_at_the_end_of_an_hour_is_counted_once(tmp_path: Path) -> None:
    """The next hour looks at it again, for what the exporter shows of it later."""
    logs = KernelLogs()
    logs.add(lines(tmp_path / "n9.log", SPELLINGS["short-iso"]().replace(" n1 ", " n9 ")))
    labels = LabelMap()
    for begin_ms in (0, AT * 1000 + 1):
        by_node(logs.between(0, 1 << 50), {}, labels, logs, begin_ms)
    assert list(logs.skipped.values()) == [1]


class Pages:
    """A Loki whose lines are these, as ``history.site.http.Http``."""

    url = "http://loki"

    def __init__(self, values: list[list[str]]) -> None:
        self._values, self.asked = values, 0

    def get(self, path: str, **parameters: str) -> Answer:
        self.asked += 1
        begin, end, limit = (int(parameters[name]) for name in ("start", "end", "limit"))
        found = [one for one in self._values if begin <= int(one[0]) < end][:limit]
        return Answer(200, "application/json", json.dumps(answer(found, node="n1")).encode())


def test_a_loki_gives_each_line_once_whatever_its_limit() -> None:
    """Also where a page ends in the middle of an instant."""
    values = [[str(AT * 10**9 + i // 3), f"{XID} {i}"] for i in range(LIMIT + 7)]
    pages = Pages(values)
    found = list(Loki(pages).read(AT * 10**9, (AT + 9) * 10**9))  # type: ignore[arg-type]
    assert [one.record.text for one in found] == [text for _, text in values]
    assert pages.asked == 2


def test_what_is_no_loki_is_named() -> None:
    """A login page."""
    login = Answer(200, "text/html", b"<html>log in</html>")
    other = Pages([])
    other.get = lambda *_a, **_k: login  # type: ignore[method-assign]
    with pytest.raises(SiteError, match=r"http://loki.*log in"):
        list(Loki(other).read(0, 1))  # type: ignore[arg-type]
