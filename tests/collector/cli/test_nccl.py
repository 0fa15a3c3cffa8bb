"""`tocsin nccl explain`: every recorded file ends in the conclusion that its README states; any mix
of files, and files of no use.
"""

from __future__ import annotations

import errno
import io
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from collector.cli import nccl_files
from collector.cli.main import main
from tests.collector.facts.tree import Tree
from tests.collector.sources.nccl.discovery.proctree import UUIDS, add_gpus, add_process
from tests.collector.sources.nccl.discovery.test_sockets import HEAD, row
from tests.sources import ROOT

DATA = ROOT / "tests/data/nccl"
Explain = Callable[..., dict[str, Any]]


@pytest.fixture
def explain(capsys: pytest.CaptureFixture[str]) -> Explain:
    """The command on files: what it prints as JSON."""

    def run(*files: Path | str, code: int = 0) -> dict[str, Any]:
        assert main(["nccl", "explain", "--format", "json", *map(str, files)]) == code
        document: dict[str, Any] = json.loads(capsys.readouterr().out)
        return document

    return run


def culprits(document: dict[str, Any]) -> list[tuple[str, int]]:
    """Who is named: host and pid."""
    return [(c.get("host", ""), c.get("pid", -1)) for c in document["culprits"]]


def dumps(case: str, form: str) -> list[Path]:
    """The dumps of one recorded stall."""
    return sorted((DATA / "flight_recorder").glob(f"fr_gloo_{case}_rank*.{form}"))


@pytest.mark.parametrize("name", ["ok.txt", "ok.json", "ok_2.28.9-1.txt", "ok_2.27.7-1.txt"])
def test_healthy_reports_are_no_evidence(name: str, explain: Explain) -> None:
    """Nobody is named, the report is trusted, and nothing of it is discarded."""
    printed = explain(DATA / "ras" / name)
    assert (printed["class"], printed["culprits"], printed["candidates"]) == ("no_evidence", [], [])
    assert (
        printed["files"][0]["kind"],
        printed["files"][0]["trusted"],
        printed["files"][0]["discarded"],
    ) == ("ras", True, [])


@pytest.mark.parametrize("form", ["txt", "json"])
def test_a_victims_error_names_nobody(form: str, explain: Explain) -> None:
    """World rank 2 noticed a remote failure: weight 0."""
    printed = explain(DATA / f"ras/async_one.{form}")
    assert (printed["culprits"], printed["candidates"]) == ([], [])
    assert any(
        "rank 2" in e["text"] and "victim" in e["text"] and e["weight"] == 0
        for e in printed["evidence"]
    )


def test_one_look_at_a_mismatch_is_no_alarm(explain: Explain) -> None:
    """Ranks 12 to 15 are one AllReduce behind: candidates, for one sample proves nothing."""
    printed = explain(DATA / "ras/mismatch_4of16.txt")
    assert (printed["class"], printed["phase"], printed["culprits"]) == ("unknown", "suspect", [])
    assert [c["pid"] for c in printed["candidates"]] == [23883, 23885, 23887, 23889]


def test_a_text_reply_that_was_saved_twice_proves_nothing(explain: Explain, tmp_path: Path) -> None:
    """It bears no time; the evidence says how to get two replies that do."""
    again = tmp_path / "later.txt"
    shutil.copy(DATA / "ras/mismatch_4of16.txt", again)
    printed = explain(DATA / "ras/mismatch_4of16.txt", again)
    assert (printed["class"], printed["phase"], printed["culprits"]) == ("unknown", "suspect", [])
    assert any("save two in JSON" in e["text"] for e in printed["evidence"])


def test_a_second_look_that_agrees_names_who_is_behind(explain: Explain, tmp_path: Path) -> None:
    """Two replies in JSON, 20 s apart, in which world rank 5 has one AllReduce less."""
    files = []
    for second in (10, 30):
        reply = json.loads((DATA / "ras/ok.json").read_text())
        reply["timestamp"] = f"2026-11-20 05:00:{second}"
        world = max(reply["communicators"], key=lambda each: each["size"])
        world["ranks"][5]["collective_counts"]["AllReduce"] -= 1
        files.append(tmp_path / f"reply{second}.json")
        files[-1].write_text(json.dumps(reply))
    printed = explain(*files)
    assert (printed["class"], printed["phase"], printed["victims"]) == ("host_hang", "confirmed", 7)
    assert [(c["rank"], c["nvml_index"]) for c in printed["culprits"]] == [(5, 1)]
    assert explain(files[0])["phase"] == "suspect"


def test_the_same_file_twice_is_one_look(explain: Explain) -> None:
    """A file that is given twice confirms nothing, by whatever path it is reached."""
    file = DATA / "ras/mismatch_4of16.txt"
    assert explain(file, file, file.parent / "." / ".." / "ras" / file.name)["phase"] == "suspect"


@pytest.mark.parametrize("form", ["txt", "json"])
def test_a_teardown_is_no_stall(form: str, explain: Explain) -> None:
    """Ranks that left, finish and abort: nobody is named."""
    printed = explain(DATA / f"ras/nocomm.{form}")
    assert (printed["class"], printed["stage"], printed["culprits"]) == (
        "no_evidence",
        "finalize",
        [],
    )
    assert printed["files"][0]["trusted"]


@pytest.mark.parametrize("name", ["nocomm_2.27.7-1.txt", "half_init.json", "badcmds.txt"])
def test_what_cannot_be_is_not_believed(name: str, explain: Explain) -> None:
    """A phantom row, a communicator of no ranks, a report that is cut off: the file says
    why, and nobody is named.
    """
    printed = explain(DATA / "ras" / name)
    assert (printed["class"], printed["culprits"], printed["candidates"]) == ("no_evidence", [], [])
    assert not printed["files"][0]["trusted"]
    assert printed["files"][0]["discarded"][0]["why"]


@pytest.mark.parametrize("case", ["kill", "stop"])
@pytest.mark.parametrize(
    "name", ["t0.2.txt", "t3.txt", "t7.txt", "t15.txt", "t30.txt", "t50.txt", "t7.json"]
)
def test_a_process_that_does_not_answer_is_lost(case: str, name: str, explain: Explain) -> None:
    """World rank 5, on GPU 1 of 127.0.1.2, killed or stopped: from here one cannot tell which."""
    printed = explain(DATA / f"ras/{case}_{name}")
    assert printed["class"] == "process_lost"
    assert culprits(printed) == [("127.0.1.2", {"kill": 18892, "stop": 18874}[case])]
    assert (printed["culprits"][0]["rank"], printed["culprits"][0]["gpu"]) == (5, 1)


@pytest.mark.parametrize("name", ["kill_t65.txt", "kill_t75.txt"])
def test_after_a_minute_it_is_dead(name: str, explain: Explain) -> None:
    """The report says so, and so does the verdict."""
    printed = explain(DATA / "ras" / name)
    assert culprits(printed) == [("127.0.1.2", 18892)]
    assert any("dead" in e["text"] for e in printed["evidence"])


@pytest.mark.parametrize(
    ("name", "pid"), [("kill_monitor.json", 18892), ("kill_monitor_best.txt", 21349)]
)
def test_of_the_event_stream_only_the_death_counts(name: str, pid: int, explain: Explain) -> None:
    """The neighbour whose link was re-routed is healthy."""
    printed = explain(DATA / "ras" / name)
    assert (printed["class"], [c["pid"] for c in printed["culprits"]], printed["candidates"]) == (
        "process_lost",
        [pid],
        [],
    )


@pytest.mark.parametrize(
    ("case", "form", "sequence"),
    [("missing", "json", 6), ("missing2", "json", 5), ("missing2", "pickle", 5)],
)
def test_dumps_name_the_rank_that_never_came(
    case: str, form: str, sequence: int, explain: Explain
) -> None:
    """Rank 2 never called the operation that ranks 0 and 1 wait in."""
    printed = explain(*dumps(case, form))
    assert (printed["class"], printed["stage"], printed["sequence"], printed["operation"]) == (
        "host_hang",
        "host",
        sequence,
        "all_reduce",
    )
    assert [c["rank"] for c in printed["culprits"]] == [2]


@pytest.mark.parametrize("cause", ["host_hang", "order_mismatch"])
def test_dumps_of_a_job_with_subgroups_name_the_right_rank(cause: str, explain: Explain) -> None:
    """Recorded by `make test-torch`: ranks work in pairs and a world; rank 2 is to blame, its
    partner, as far behind, is a victim.
    """
    printed = explain(ROOT / "tests/data/torch_stall" / cause)
    assert (printed["class"], [c["rank"] for c in printed["culprits"]], printed["victims"]) == (
        cause,
        [2],
        3,
    )


@pytest.mark.parametrize("form", ["json", "pickle"])
def test_dumps_name_the_rank_that_called_something_else(form: str, explain: Explain) -> None:
    """Rank 1 called broadcast where the others called all_reduce: not a stall in flight."""
    printed = explain(*dumps("typemix", form))
    assert (printed["class"], printed["sequence"], [c["rank"] for c in printed["culprits"]]) == (
        "order_mismatch",
        5,
        [1],
    )


def test_both_forms_of_one_moment_are_one_job(explain: Explain) -> None:
    """Pickle and JSON of the same dumps change nothing."""
    printed = explain(*dumps("missing2", "json"), *dumps("missing2", "pickle"))
    assert ([c["rank"] for c in printed["culprits"]], printed["other_jobs"]) == ([2], [])


def test_a_folder_of_several_jobs_gives_a_verdict_for_each(explain: Explain) -> None:
    """The dumps of three stalls in one folder are printed apart by their names."""
    printed = explain(DATA / "flight_recorder")
    found = [
        (v["class"], [c["rank"] for c in v["culprits"]]) for v in (printed, *printed["other_jobs"])
    ]
    assert sorted(found) == [("host_hang", [2]), ("host_hang", [2]), ("order_mismatch", [1])]


def test_what_a_job_wrote_writes_nothing_on_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither a log, nor a report of ranks, nor the name of a file, in any part of the text."""
    escapes = "\x1b]52;c;cm0gLXJm\x07\x9b2J\u202e"
    log = tmp_path / f"slurm{escapes}.out"
    log.write_text(
        f"n1:77:78 [0] NCCL WARN Cuda failure '{escapes} uncorrectable ECC error encountered'\n"
        f"n1{escapes}:77:78 [0] NCCL WARN NET/IB : mlx5_0{escapes}:1 Got async event : port error\n"
        f"n1:77:78 [0] NCCL INFO NCCL_IB_HCA set by environment to =mlx5_9{escapes}.\n"
        "n1:77:78 [0] NCCL INFO NCCL_IB_DISABLE set by environment to 1.\n"
    )
    dump = json.loads(dumps("missing2", "json")[0].read_text())
    dump["entries"][-1]["profiling_name"] = f"nccl:all_reduce{escapes}"
    dump["pg_config"] = {f"0{escapes}": {"name": "0", "desc": escapes, "ranks": "[0, 1, 2]"}}
    (tmp_path / "dump_rank_0").write_text(json.dumps(dump))
    assert main(["nccl", "explain", *map(str, tmp_path.iterdir())]) == 0
    printed = capsys.readouterr().out.split("\n")
    assert any("52;c;cm0gLXJm" in line for line in printed)
    assert all(line.isprintable() for line in printed)


@pytest.mark.parametrize("name", ["lost.json", "empty", "random.bin", "cut.pickle"])
def test_a_file_of_no_use_says_why(name: str, explain: Explain, tmp_path: Path) -> None:
    """And the command says by its exit code that nothing was understood."""
    path = tmp_path / name
    content = {
        "empty": b"",
        "random.bin": bytes(range(256)),
        "cut.pickle": dumps("typemix", "pickle")[0].read_bytes()[:200],
    }
    if name in content:
        path.write_bytes(content[name])
    printed = explain(path, code=1)
    assert printed["class"] == "no_evidence"
    assert printed["files"][0]["kind"] == ""
    assert printed["files"][0]["discarded"][0]["why"]


def test_a_missing_file_is_the_first_thing_that_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Instead of a verdict about nothing; others that exist are judged."""
    lost = str(tmp_path / "lost.json")
    assert main(["nccl", "explain", lost]) == 1
    assert capsys.readouterr() == ("", f"tocsin: {lost}: no such file or folder\n")
    assert main(["nccl", "explain", lost, *map(str, dumps("missing", "json"))]) == 0
    captured = capsys.readouterr()
    assert captured.err == f"tocsin: {lost}: no such file or folder\n"
    assert "rank 2" in captured.out.lower()


def test_settings_that_a_job_logged_are_judged(explain: Explain, tmp_path: Path) -> None:
    """With NCCL_DEBUG=INFO each rank logs what it read; paths of users stay unsaid."""
    log = tmp_path / "job.out"
    log.write_text(
        "n1:10:11 [0] NCCL INFO NCCL_IB_DISABLE set by environment to 1.\n"
        "n1:10:11 [0] NCCL INFO NCCL_DEBUG_FILE set by environment to /home/ada/nccl.log\n"
        "n2:20:21 [0] NCCL INFO NCCL_IB_TIMEOUT set by environment to 14.\n"
        "n2:20:21 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/RoCE [RO]; OOB eth0:10.0.0.2<0>\n"
        "n1:10:11 [0] NCCL INFO NCCL version 2.27.3+cuda12.9\n"
    )
    printed = explain(log)
    assert {(one["rule"], *one["ranks"]) for one in printed["settings"]} == {
        ("ib_disabled", "process 10 on n1"),
        ("ib_timeout", "process 20 on n2"),
        ("traffic_class", "process 20 on n2"),
    }
    assert "ada" not in json.dumps(printed["settings"])
    assert (printed["class"], printed["files"][0]["kind"]) == ("no_evidence", "log")


def test_a_log_of_this_node_is_held_against_what_the_node_has(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The name in the log is this host's, so its ports count."""
    tree, log = Tree(tmp_path), tmp_path / "job.out"
    log.write_text("n1:10:11 [0] NCCL INFO NCCL_IB_HCA set to mlx5_7\n")
    roots = ["--path.procfs", str(tree.proc), "--path.sysfs", str(tree.sysfs)]
    assert main(["nccl", "explain", str(log), *roots]) == 0
    text = capsys.readouterr().out
    assert "wrong: NCCL_IB_HCA=mlx5_7: no such port on n1: mlx5_7" in text
    assert "change: export NCCL_IB_HCA==mlx5_0:1,mlx5_1:1,mlx5_2:1,mlx5_3:1" in text


def test_status_shows_settings_that_do_not_fit_the_node(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Below the processes of each job, and as JSON."""
    tree = Tree(tmp_path)
    environ = "SLURM_JOB_ID=71 SLURM_STEP_ID=0 RANK=0 NCCL_SOCKET_IFNAME=ib0"
    add_process(tree.proc, 812, gpus=(0,), library="/nccl/libnccl.so.2.27.3", environ=environ)
    roots = ["--path.procfs", str(tree.proc), "--path.sysfs", str(tree.sysfs)]
    assert main(["nccl", "status", *roots]) == 0
    text = capsys.readouterr().out
    assert "Settings of 71.0:\n  wrong: NCCL_SOCKET_IFNAME=ib0: no such interface" in text
    assert main(["nccl", "status", "--format", "json", *roots]) == 0
    (job,) = json.loads(capsys.readouterr().out)["settings"]
    assert (job["job"], job["ranks"], job["problems"][0]["rule"]) == ("71.0", 1, "socket_interface")


def test_a_bad_file_does_not_hide_the_good_ones(explain: Explain, tmp_path: Path) -> None:
    """What was understood is judged."""
    (tmp_path / "broken.json").write_bytes(b'{"entries": [')
    printed = explain(tmp_path / "broken.json", *dumps("missing", "json"))
    assert [c["rank"] for c in printed["culprits"]] == [2]
    assert printed["files"][0]["discarded"][0]["what"] == "the whole file"


def test_a_folder_that_may_not_be_entered_does_not_hide_the_good_ones(
    explain: Explain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is named with the reason, as a file that may not be read."""
    closed, stat, iterdir = tmp_path / "closed", os.stat, Path.iterdir
    closed.mkdir()

    def refused(path: object) -> None:
        if str(path).startswith(str(closed)):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    def statted(path: Any, **how: Any) -> os.stat_result:
        refused(path)
        return stat(path, **how)

    def listed(path: Path) -> Iterator[Path]:
        refused(path)
        return iterdir(path)

    monkeypatch.setattr("os.stat", statted)
    monkeypatch.setattr(Path, "iterdir", listed)
    printed = explain(closed, *dumps("missing", "json"))
    assert [c["rank"] for c in printed["culprits"]] == [2]
    assert printed["files"][0]["discarded"][0]["what"] == "the whole file"


BEGINNINGS = st.sampled_from(
    [
        b"",
        b"\x80\x02",
        b"{",
        b"[",
        b'{"log":',
        b"NCCL version 2.30.7 compiled with CUDA 13.0\n",
        b'{"header":{',
        b"srun: error: n: task 3: ",
    ]
)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(BEGINNINGS, st.binary(max_size=300))
def test_no_content_makes_reading_fail(tmp_path: Path, beginning: bytes, rest: bytes) -> None:
    """Whatever a file holds it is used, or said not to be and why."""
    path = tmp_path / "any"
    path.write_bytes(beginning + rest)
    read = nccl_files.read_saved(str(path))
    assert read.understood or read.discarded


@pytest.mark.slow
@pytest.mark.parametrize("name", ["kill_t7.json", "kill_t7.txt", "mismatch_4of16.txt"])
def test_a_report_that_is_cut_anywhere_names_nobody_wrongly(name: str, tmp_path: Path) -> None:
    """A cut report is discarded, or a log of nothing; it is never half believed."""
    whole = (DATA / "ras" / name).read_bytes()
    for cut in range(1, len(whole) - 2, max(len(whole) // 60, 1)):
        (tmp_path / "cut").write_bytes(whole[:cut])
        read = nccl_files.read_saved(str(tmp_path / "cut"))
        assert read.report is None or not read.report.trusted, f"cut at {cut} of {len(whole)}"


def test_what_is_no_file_is_refused(explain: Explain, tmp_path: Path) -> None:
    """A named pipe would hold the command forever."""
    import os  # noqa: PLC0415 - only here

    os.mkfifo(tmp_path / "pipe")
    printed = explain(tmp_path / "pipe", code=1)
    assert printed["files"][0]["discarded"][0]["why"] == "not a regular file"


def test_standard_input_is_a_file_like_any_other(
    explain: Explain, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is pasted or piped is recognised by its content."""
    given = io.TextIOWrapper(io.BytesIO((DATA / "ras/kill_t7.txt").read_bytes()))
    monkeypatch.setattr(sys, "stdin", given)
    assert culprits(explain("-")) == [("127.0.1.2", 18892)]


def test_a_log_with_a_line_without_end_is_read(
    explain: Explain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of such a line the beginning is read, and that is said."""
    monkeypatch.setattr(nccl_files, "MAX_LINE", 1000)
    log = tmp_path / "job.out"
    log.write_text("x" * 5000 + "\nsrun: error: node07: task 3: Killed\n")
    printed = explain(log)
    assert (printed["class"], printed["culprits"][0]["host"], printed["culprits"][0]["rank"]) == (
        "process_lost",
        "node07",
        3,
    )
    assert printed["files"][0]["discarded"] == [
        {"what": "lines", "why": "only their first 1000 bytes were read", "count": 1}
    ]


def test_a_log_whose_first_line_looks_like_a_report_is_a_log(
    explain: Explain, tmp_path: Path
) -> None:
    """Programs print ERROR too."""
    log = tmp_path / "job.out"
    log.write_text("ERROR: something\nsrun: error: node07: task 3: Killed\n")
    assert explain(log)["files"][0]["kind"] == "log"


def test_in_words_the_verdict_comes_first(capsys: pytest.CaptureFixture[str]) -> None:
    """Then who, then why, then the files."""
    assert main(["nccl", "explain", *map(str, dumps("missing", "json"))]) == 0
    first, *rest = capsys.readouterr().out.splitlines()
    assert first.startswith("host_hang (confirmed): ")
    assert "rank 2" in first
    assert any(line.endswith("flight recorder: 6 entries") for line in rest)


def status(proc: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """What ``tocsin nccl status`` prints as JSON."""
    assert main(["nccl", "status", "--format", "json", "--path.procfs", str(proc)]) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def test_status_says_what_each_process_would_tell(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Job, rank, GPU, NCCL, and whether RAS may be asked; a version that
    may crash its job is not.
    """
    add_gpus(tmp_path)
    new, old = "/usr/lib/libnccl.so.2.30.7", "/usr/lib/libnccl.so.2.27.7"
    add_process(
        tmp_path,
        812,
        gpus=[0],
        library=new,
        environ="SLURM_JOB_ID=71 RANK=4 NCCL_DEBUG_FILE=/x NCCL_RAS_ENABLE=0",
    )
    add_process(tmp_path, 813, gpus=[1], library=old, environ="SLURM_JOB_ID=72 RANK=0")
    add_process(tmp_path, 814, gpus=[2])
    printed = status(tmp_path, capsys)
    first, second = printed["processes"]
    assert (first["job"], first["rank"], first["nccl"], first["gpu_uuids"]) == (
        "71",
        4,
        "2.30.7",
        [UUIDS[0]],
    )
    assert (first["ras"], first["also"]) == ("switched off in the job", ["log"])
    assert second["ras"].startswith("not asked: may crash the job")
    assert printed["hold_gpus"] == 3


def test_status_names_the_user_who_holds_the_port_of_a_job(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the way out; a job with a port of its own has but no socket yet."""
    add_gpus(tmp_path)
    library = "/usr/lib/libnccl.so.2.30.7"
    for pid, environ in (812, "RANK=0"), (813, "RANK=1 NCCL_RAS_ADDR=localhost:30000"):
        folder = add_process(
            tmp_path, pid, gpus=[0], library=library, environ=f"SLURM_JOB_ID=71 {environ}"
        )
        (folder / "net").mkdir()
        (folder / "fd").mkdir()
        (folder / "net/tcp").write_text(HEAD + row("0100007F:6D7C", user=1001))
    assert [one["ras"] for one in status(tmp_path, capsys)["processes"]] == [
        "no socket: port 28028 is held by uid 1001 (NCCL_RAS_ADDR per job)",
        "no socket",
    ]


def test_status_of_a_node_without_jobs_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In one line."""
    assert main(["nccl", "status", "--path.procfs", str(tmp_path)]) == 0
    assert capsys.readouterr().out.startswith("0 process(es) use NCCL")


def test_status_without_proc_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And names the folder."""
    assert main(["nccl", "status", "--path.procfs", str(tmp_path / "missing")]) == 1
    assert "missing" in capsys.readouterr().err
