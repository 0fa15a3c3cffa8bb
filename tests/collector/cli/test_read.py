"""`tocsin read`: saved trees and logs, three forms, hostile text."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from collector.cli import show
from collector.cli.main import main
from collector.config.settings import Config
from pipeline.clock import SystemClock
from pipeline.frame import Device, frame_of
from pipeline.observation import Event, Observation, Unread

Read = Callable[..., tuple[int, str]]
NODE = Device("n1", "node", "n1")
GPUS = [Device("n1", "gpu", f"GPU-{i}", {"index": str(i), "name": "H100"}) for i in range(3)]


@pytest.fixture
def read(capsys: pytest.CaptureFixture[str]) -> Read:
    """The command: exit code and standard output."""

    def run(*argv: str) -> tuple[int, str]:
        code = main(["read", *argv])
        return code, capsys.readouterr().out

    return run


def observation(**parts: Any) -> Observation:
    """An observation of a source called nvml, at the epoch."""
    return Observation("nvml", "n1", "boot", 0, 0, 0, 0, **parts)


def printed(form: str, *taken: Observation) -> str:
    """What is printed for observations."""
    return "".join(show.FORMS[form](taken, Config()))


def log_file(folder: Path, *lines: str) -> str:
    """A saved kernel log in the format of /dev/kmsg."""
    (folder / "kmsg.txt").write_text(
        "".join(f"4,{n},{n}000000,-;{line}\n" for n, line in enumerate(lines, 1))
    )
    return str(folder / "kmsg.txt")


def test_a_saved_log_is_printed_as_json_lines(tmp_path: Path, read: Read) -> None:
    """The events of a saved log come one per line, and no other source is read."""
    path = log_file(
        tmp_path,
        "NVRM: Xid (PCI:0000:1b:00): 79, pid=1, GPU has fallen off the bus.",
        "nothing of interest",
    )
    code, out = read("--path.kmsg", path)
    events = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert {event["source"] for event in events} == {"kmsg"}
    assert [event["attributes"]["code"] for event in events if event.get("event") == "xid"] == [79]


@pytest.mark.slow
def test_lines_of_a_saved_log_that_are_not_understood_are_a_failure(
    tmp_path: Path, read: Read, capsys: pytest.CaptureFixture[str]
) -> None:
    """Their number and the first of them are shown, beside the events of the others."""
    saved = tmp_path / "messages"
    xid = "NVRM: Xid (PCI:0000:1b:00): 79, pid=1, GPU has fallen off the bus."
    saved.write_text(f"Dec  1 14:54:40 n1 kernel: {xid}\n2025/01/21 04:41:44 {xid}\n")
    code, out = read("--path.kmsg", str(saved))
    event, unread = (json.loads(line) for line in out.splitlines())
    assert code == 1
    assert event["attributes"]["code"] == 79
    assert unread["unread"].startswith(
        "1 line is in a format that is not understood (1 records were read); line 2: "
    )
    code = main(["read", "--path.kmsg", str(saved)])
    assert f"{saved}: 1 line is in a format that is not understood" in capsys.readouterr().err


@pytest.mark.slow
def test_a_large_saved_log_is_read_to_its_end(tmp_path: Path, read: Read) -> None:
    """No budget of the agent's reads ends it early."""
    path = log_file(
        tmp_path, *["nothing of interest"] * 60_000, "NVRM: Xid (PCI:0000:1b:00): 79, pid=1"
    )
    assert '"code": 79' in read("--path.kmsg", path)[1]


def test_a_line_that_is_too_long_is_a_failure(tmp_path: Path, read: Read) -> None:
    """Such as all of dmesg's JSON in one line: an empty answer looks like a healthy machine."""
    saved = tmp_path / "dmesg.json"
    saved.write_text('{"dmesg":[' + '{"pri":6,"time":1.0,"msg":"x"},' * 2000 + "]}")
    code, out = read("--path.kmsg", str(saved))
    lost, unread = map(json.loads, out.splitlines())
    assert (lost["event"], lost["attributes"]["reason"]) == ("kernel_log_lost", "oversize")
    assert (code, unread["unread"]) == (1, "1 lines are longer than 16384 bytes")


def test_a_program_that_imitates_the_kernel_is_not_believed(
    tmp_path: Path, read: Read, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its lines give no event; their number and the first are shown."""
    saved = tmp_path / "dmesg.txt"
    saved.write_text("user  :err   : [  12.345678] NVRM: Xid (PCI:0000:1b:00): 79, pid=1\n" * 2)
    assert main(["read", "--path.kmsg", str(saved)]) == 0
    said = capsys.readouterr()
    assert said.out == ""
    assert "2 look like one, the first (facility 1)" in said.err


def test_an_empty_tree_has_no_ports(tmp_path: Path, read: Read) -> None:
    """A saved tree without InfiniBand is a state, not a failure."""
    code, out = read("--path.sysfs", str(tmp_path), "--format", "json")
    assert code == 0
    assert [
        line for line in map(json.loads, out.splitlines()) if line.get("kind") == "ib_port"
    ] == []


def test_a_log_that_is_not_there_is_a_failure(tmp_path: Path, read: Read) -> None:
    """Nothing could be read: exit code 1, and nothing on standard output
    that looks like an answer.
    """
    code, out = read("--path.kmsg", str(tmp_path / "missing"))
    assert (code, out) == (1, "")


def test_an_unknown_source_is_a_wrong_command_line(
    read: Read, capsys: pytest.CaptureFixture[str]
) -> None:
    """The message says which sources there are."""
    assert main(["read", "--source", "nvlm"]) == 2
    assert "there are nvml, infiniband, kmsg, host" in capsys.readouterr().err


def test_json_keeps_every_digit() -> None:
    """Values beyond 2^53 stay exact, what was not observed is absent, zero is there."""
    frame = frame_of(
        "gpu",
        [
            (
                GPUS[0],
                {
                    "energy_millijoules": 2**64 - 1,
                    "temperature_celsius": 0,
                    "power_milliwatts": None,
                },
            )
        ],
        0,
        0,
    )
    line = json.loads(printed("json", observation(frames=(frame,))))
    assert line["values"] == {"energy_millijoules": 2**64 - 1, "temperature_celsius": 0.0}
    assert (line["device"], line["attributes"]["index"], line["time"]) == (
        "GPU-0",
        "0",
        "1970-01-01T00:00:00.000000Z",
    )


def test_json_says_what_could_not_be_read() -> None:
    """An unread field is a line of its own."""
    taken = observation(
        unread=(Unread("NVML error 999", "GPU-0", "power_milliwatts"), Unread("no driver"))
    )
    lines = [json.loads(line) for line in printed("json", taken).splitlines()]
    assert lines[0] == {
        "source": "nvml",
        "unread": "NVML error 999",
        "device": "GPU-0",
        "field": "power_milliwatts",
    }
    assert lines[1] == {"source": "nvml", "unread": "no driver"}


def test_table_shows_devices_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    """One column per GPU, one line per field that any of them has, states in words, a
    dash where one has none.
    """
    monkeypatch.setenv("COLUMNS", "100")
    rows: list[tuple[Device, dict[str, float | int | None]]] = [
        (GPUS[0], {"state": 0, "temperature_celsius": 41}),
        (GPUS[1], {"state": 1}),
    ]
    lines = [
        line.split()
        for line in printed(
            "table", observation(frames=(frame_of("gpu", rows, 0, 0),))
        ).splitlines()
        if line
    ]
    assert lines == [["gpu", "0", "1"], ["state", "ok", "lost"], ["temperature_celsius", "41", "-"]]


def test_table_fits_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """More devices than fit beside each other go below each other."""
    monkeypatch.setenv("COLUMNS", "30")
    frame = frame_of("gpu", [(gpu, {"temperature_celsius": 41}) for gpu in GPUS], 0, 0)
    lines = printed("table", observation(frames=(frame,))).splitlines()
    assert max(map(len, lines)) <= 30
    assert [line.split()[1:] for line in lines if line.startswith("gpu")] == [["0", "1"], ["2"]]


def test_table_counts_what_could_not_be_read() -> None:
    """Equal reasons are one line."""
    assert (
        printed("table", observation(unread=(Unread("no driver"), Unread("no driver"))))
        == "nvml: 2 not read: no driver\n"
    )


@pytest.mark.parametrize("form", ["table", "json"])
def test_hostile_text_cannot_write_on_the_terminal(form: str) -> None:
    """Escape sequences and line breaks of a log or a device are shown, not obeyed."""
    event = Event(0, 0, NODE, "xid", {"code": 79, "text": "a\x1b[2Jb\nc\u202ed\udc80"})
    gpu = Device("n1", "gpu", "GPU-9", {"index": "\x1b[31m9"})
    out = printed(
        form,
        observation(
            events=(event,), frames=(frame_of("gpu", [(gpu, {"temperature_celsius": 1})], 0, 0),)
        ),
    )
    assert all(line.isprintable() for line in out.split("\n"))
    assert len(out.encode().splitlines()) == out.count("\n")


def test_prometheus_form_is_a_page() -> None:
    """The same text a scrape would get, in base units."""
    now = SystemClock()
    frame = frame_of(
        "gpu", [(GPUS[0], {"power_milliwatts": 350_500})], now.time_ns(), now.monotonic_ns()
    )
    families = {
        f.name: f
        for f in text_string_to_metric_families(
            printed("prometheus", replace(observation(frames=(frame,)), mono_ns=now.monotonic_ns()))
        )
    }
    (sample,) = families["tocsin_gpu_power_watts"].samples
    assert (sample.labels["gpu"], sample.value) == ("0", 350.5)
