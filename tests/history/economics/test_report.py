"""`tocsin report` over a store as an agent writes it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

from collector.cli.main import main
from history import report_command
from history.economics.gather import gather
from history.economics.report import report
from pipeline.clock import SECOND_NS
from pipeline.finding import Incident
from pipeline.frame import Device, Frame, frame_of
from pipeline.gpu_state import GpuState
from pipeline.observation import Event
from pipeline.store.query.store import Store
from tests.fakes import START_NS
from tests.pipeline.store.stored import StoreMaker

HOST, HOUR_NS = "gpu01", 3600 * SECOND_NS
GPUS = [Device(HOST, "gpu", f"GPU-{n}", {"index": str(n), "name": "H100"}) for n in range(2)]
NODE = Device(HOST, "node", HOST)
BEGIN_NS = START_NS


@pytest.fixture(autouse=True)
def _now(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stores are of a time to come: the command runs in the last of their four hours."""
    now = SimpleNamespace(time_ns=lambda: BEGIN_NS + 4 * HOUR_NS)
    monkeypatch.setattr(report_command, "time", now)


def frames(minutes: int) -> Iterator[tuple[int, Frame]]:
    """Two GPUs, three reads a minute: a job from 10 min to 3 h, on GPU 0 alone after 2 h."""
    for step in range(3 * minutes):
        at = BEGIN_NS + step * 20 * SECOND_NS
        minute = step / 3
        busy = [90 if 15 <= minute < 180 else 0, 90 if 15 <= minute < 120 else 0]
        values = [{"gpu_utilization_percent": percent, "state": 1} for percent in busy]
        yield at, frame_of("gpu", list(zip(GPUS, values, strict=True)), at, at)


def event(minute: int, kind: str, device: Device = NODE, **attributes: object) -> Event:
    """At a minute."""
    at = BEGIN_NS + minute * 60 * SECOND_NS
    return Event(at, at, device, kind, attributes)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four hours of a node; GPU 1 is lost after two, and repaired from the fourth on."""
    root = tmp_path_factory.mktemp("store")
    maker = StoreMaker(root)
    for at, frame in frames(240):
        maker.add(HOST, at, source="nvml", frames=(frame,))
    step = {"incident": "5a", "fault": "gpu_lost", "act": "reset", "attempt": 1}
    events = [
        event(10, "job_started", job="7", gpus="GPU-0 GPU-1", user="1000", scheduler="slurm"),
        event(180, "job_ended", job="7", scheduler="slurm"),
        event(180, "maintenance_started", reason="repair", user="ada"),
        event(190, "repair_step", GPUS[1], step="reset", **step),
        event(200, "repair_step", GPUS[1], step="returned", helped=True, **step),
    ]
    for one in events:
        maker.add(HOST, one.time_ns, source="jobs", events=(one,))
    opened = BEGIN_NS + 120 * 60 * SECOND_NS
    lost = Incident("5a", GPUS[1], "gpu_lost", "page", "RESTART_BM", opened, (), "Gone.")
    maker.add(HOST, opened, source="judge", incidents=(lost,))
    maker.close()
    return root


def asked(store: Path, capsys: pytest.CaptureFixture[str], *more: str) -> str:
    """What the command prints about the four hours."""
    at = [datetime.fromtimestamp(BEGIN_NS / 1e9 + s, UTC).isoformat() for s in (0, 4 * 3600)]
    argv = ["report", "--storage.path", str(store), "--since", at[0], "--until", at[1], *more]
    assert main(argv) == 0
    return capsys.readouterr().out


@pytest.mark.slow
def test_the_hours_of_a_store_are_those_that_passed(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Eight GPU-hours: five minutes of loading on both, five and more of work, one lost, two of
    repair, the rest idle; and the reset that helped.
    """
    found = json.loads(asked(store, capsys, "--format", "json"))
    hours = found["gpu_hours"]
    assert found["total_gpu_hours"] == pytest.approx(8)
    assert hours["used"] == pytest.approx((165 + 105) / 60)
    assert hours["start_up"] == pytest.approx(10 / 60)
    assert hours["lost"] == pytest.approx(1.0)
    assert hours["repair"] == pytest.approx(2.0)
    assert hours["idle"] == pytest.approx(20 / 60)
    assert found["by"]["fault"]["gpu_lost"] == {"lost": pytest.approx(1.0)}
    assert found["by"]["team"]["1000"]["used"] == pytest.approx(4.5)
    assert found["mtbf_gpu_hours"]["all"]["failures"] == 1
    assert found["helped"] == {"reset for gpu_lost": {"helped": 1, "of": 1}}


@pytest.mark.slow
def test_accounting_names_the_team(
    store: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The account of Slurm, which may begin like a formula of a spreadsheet."""
    rows = "JobIDRaw|State|Start|End|NodeList|AllocTRES|Account\n7|COMPLETED|Unknown|Unknown|gpu01|"
    (tmp_path / "sacct.txt").write_text(f"{rows}gres/gpu=2|=cmd()<b>\n")
    text = asked(store, capsys, "--format", "csv", "--sacct", str(tmp_path / "sacct.txt"))
    assert "team,'=cmd()<b>,used,4.500000\n" in text
    page = asked(store, capsys, "--format", "html", "--sacct", str(tmp_path / "sacct.txt"))
    assert "=cmd()&lt;b&gt;" in page
    assert "<b>" not in page
    assert "lost" in asked(store, capsys)


@pytest.mark.slow
@pytest.mark.parametrize("boots", [("1", "2"), ("1", "1")])
def test_an_end_that_was_never_reported_gives_no_team_the_time_after_it(
    tmp_path: Path, boots: tuple[str, str]
) -> None:
    """The node crashes and comes back without the job; or the next job has the GPUs, and ends."""
    maker = StoreMaker(tmp_path)
    parts = ((0, 10, boots[0]), (20, 40, boots[1]))
    for minute, boot in ((m, boot) for begin, end, boot in parts for m in range(begin, end)):
        at = BEGIN_NS + minute * 60 * SECOND_NS
        rows = [(gpu, {"gpu_utilization_percent": 90, "state": 1}) for gpu in GPUS]
        maker.add(HOST, at, boot_id=boot, frames=(frame_of("gpu", rows, at, at),))
    both = "GPU-0 GPU-1"
    events = [event(2, "job_started", job="71", user="ada", gpus=both, scheduler="slurm")]
    if boots[0] == boots[1]:
        events.append(event(10, "job_started", job="72", user="eve", gpus=both, scheduler="slurm"))
        events.append(event(11, "job_ended", job="72", scheduler="slurm"))
    for one in events:
        maker.add(HOST, one.time_ns, source="jobs", events=(one,))
    maker.close()
    since = datetime.fromtimestamp(BEGIN_NS / 1e9, UTC)
    (node,) = gather(Store(tmp_path), since, since + timedelta(minutes=40)).nodes
    ada = [(job.begin_ms, job.end_ms) for job in node.jobs if job.team == "ada"]
    assert [((a - node.begin_ms) / 60_000, (b - node.begin_ms) / 60_000) for a, b in ada] == [
        (2, 10)
    ]


@pytest.mark.slow
def test_repairs_before_the_time_of_a_report_are_not_in_it(store: Path, tmp_path: Path) -> None:
    """Events are read from a month before, for what began there and goes on."""
    since, until = (datetime.fromtimestamp(BEGIN_NS / 1e9 + 60 * m, UTC) for m in (175, 240))
    made = report(gather(Store(store), since, until), since, until, 0.99)
    assert (made.repairs.of, list(made.helped.values())) == (1, [(1, 1)])
    copied = shutil.copytree(store, tmp_path / "store")
    maker = StoreMaker(copied, boot="later")
    ended = event(205, "maintenance_ended")
    maker.add(HOST, ended.time_ns, source="jobs", events=(ended,))
    maker.close()
    since = datetime.fromtimestamp(BEGIN_NS / 1e9 + 60 * 210, UTC)
    made = report(gather(Store(copied), since, until), since, until, 0.99)
    assert (made.repairs.of, made.helped) == (0, {})


def test_a_month_that_is_not_over_ends_now(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Days ahead are no unknown hours, and a repair that lasts has not lasted them."""
    since = datetime.fromtimestamp(BEGIN_NS / 1e9, UTC)
    until = since + timedelta(days=20)
    argv = ["report", "--storage.path", str(store), "--since", since.isoformat(), "--format"]
    assert main([*argv, "json", "--until", until.isoformat()]) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["total_gpu_hours"] == pytest.approx(8, abs=0.05)


def test_a_file_that_cannot_be_written_is_one_line(
    store: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """And exit code 1, no trace."""
    since = datetime.fromtimestamp(BEGIN_NS / 1e9, UTC).isoformat()
    argv = ["report", "--storage.path", str(store), "--since", since]
    assert main([*argv, "--output", str(tmp_path / "none" / "report.html")]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("tocsin: --output: ")
    assert "report.html" in line


def test_an_empty_time_is_said(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 1, and not a report of nothing."""
    argv = [
        "report",
        "--storage.path",
        str(store),
        "--since",
        "2020-01-01",
        "--until",
        "2020-02-01",
    ]
    assert main(argv) == 1
    assert "no GPU in that time" in capsys.readouterr().err


def test_a_gpu_that_answers_without_a_utilisation_is_unknown_not_down(tmp_path: Path) -> None:
    """NVML has none of a GPU in MIG mode, and an agent none of one that a virtual machine has."""
    maker = StoreMaker(tmp_path)
    states = (GpuState.OK, GpuState.PASSTHROUGH, GpuState.LOST)
    gpus = [Device(HOST, "gpu", f"GPU-{n}") for n in range(len(states))]
    values = [{"gpu_utilization_percent": None, "state": int(state)} for state in states]
    for at in range(BEGIN_NS, BEGIN_NS + HOUR_NS, 60 * SECOND_NS):
        frame = frame_of("gpu", list(zip(gpus, values, strict=True)), at, at)
        maker.add(HOST, at, source="nvml", frames=(frame,))
    maker.close()
    since = datetime.fromtimestamp(BEGIN_NS / 1e9, UTC)
    gathered = gather(Store(tmp_path), since, since + timedelta(hours=1))
    made = report(gathered, since, since + timedelta(hours=1), 0.99)
    assert {name: hours for name, hours in made.hours.items() if hours} == {
        "down": 1.0,
        "unknown": 2.0,
    }
