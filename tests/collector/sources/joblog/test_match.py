"""Lines of job logs: every wording is recognised, every wrapper taken
off, and no line takes long.
"""

from __future__ import annotations

import json
import random
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.nccl_settings.logs import LoggedSettings
from collector.sources.joblog.lines import MAX_LINE, Joiner
from collector.sources.joblog.match import hits
from collector.sources.joblog.table import PATTERNS
from tests.collector.sources.joblog.wrapped import line_of
from tests.sources import ROOT

DATA = ROOT / "tests/data/nccl/logs/lines.tsv"


def rows(path: Path = DATA) -> list[tuple[set[str], dict[str, str], str]]:
    """Patterns that must match, fields that must be captured, the line."""
    lines = [
        line.split("\t", 2) for line in path.read_text().splitlines() if not line.startswith("#")
    ]
    return [
        (set() if names == "-" else set(names.split(",")), json.loads(fields), line)
        for names, fields, line in lines
    ]


PREFIXES = (
    "",
    "2026-11-20T10:00:00.123456789Z stderr F ",
    "(RayTrainWorker pid=4711, ip=10.0.0.9) ",
    "3: ",
    "[1,7]<stderr>:",
    " 50%|#####     | 10/20 [00:10<00:10]\r",
    "\x1b[33m",
)


@pytest.mark.slow
@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize("row", rows(), ids=[f"line{n}" for n in range(len(rows()))])
def test_every_wording_is_recognised_behind_every_prefix(
    row: tuple[set[str], dict[str, str], str], prefix: str
) -> None:
    """The recorded lines match exactly the patterns that are named beside
    them, with these fields.
    """
    names, fields, line = row
    found = list(hits(line_of(prefix + line)))
    assert {hit.name for hit in found} == names
    captured = {name: value for hit in found for name, value in hit.fields.items()}
    assert fields.items() <= captured.items()


@pytest.mark.parametrize("launcher", ["mpirun", "mpiexec", "orterun", "prterun"])
def test_open_mpi_is_known_by_every_name(launcher: str) -> None:
    """It calls itself as it was called."""
    text = "noticed that process rank 3 with PID 0 on node n7 exited on signal 9 (Killed)."
    (hit,) = hits(line_of(f"{launcher} {text}"))
    wanted = {"rank": "3", "pid": "0", "node": "n7", "sig": "9"}
    assert (hit.name, dict(hit.fields)) == ("mpi", wanted)


@pytest.mark.parametrize("wrapper", ["", "2026-11-20T10:00:00.5Z stderr F "])
def test_the_broken_line_of_open_mpi_is_one(wrapper: str) -> None:
    """It names the signal in a second line; a first line that stays alone hides nothing."""
    first = f"{wrapper}mpiexec noticed that process rank 3 with PID 71 on node n7 exited on "
    joiner = Joiner()
    assert joiner.add(first) is None
    whole = joiner.add(f"{wrapper}signal 9 (Killed).")
    assert whole is not None
    (hit,) = hits(whole)
    assert dict(hit.fields) == {"rank": "3", "pid": "71", "node": "n7", "sig": "9"}
    assert joiner.add(first) is None
    other = joiner.add(f"{wrapper}NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.")
    assert other is not None
    assert [hit.name for hit in hits(other)] == ["xid"]


@pytest.mark.parametrize(
    "wrapper", ["", "2026-11-20T10:00:00.5Z stderr F ", "[1,0]<stderr>:", "1: "]
)
@pytest.mark.parametrize("indent", ["  ", ""])
@pytest.mark.parametrize("process", ["[58461,1],2", "prterun-gpu-013-1009179@1,2"])
def test_the_first_process_that_failed_is_in_two_lines_of_open_mpi(
    wrapper: str, process: str, indent: str
) -> None:
    """Its rank in the first, its exit code in the second; Open MPI 4 and 5 name it differently."""
    joiner = Joiner()
    lines = [
        joiner.add(f"{wrapper}{line}")
        for line in (
            "mpirun detected that one or more processes exited with non-zero status, thus causing",
            "the job to be terminated. The first process to do so was:",
            "",
            f"{indent}Process name: [{process}]",
            f"{indent}Exit code:    137",
            "-" * 74,
        )
    ]
    found = [hit for line in lines if line is not None for hit in hits(line)]
    assert [(hit.name, dict(hit.fields)) for hit in found] == [
        ("mpi_exit", {"rank": "2", "code": "137"})
    ]


ABORTED = "MPI_ABORT was invoked on rank 344 in communicator"


@pytest.mark.parametrize("wrapper", ["", "2026-11-20T10:00:00.5Z stderr F ", "  "])
@pytest.mark.parametrize(
    "text",
    [
        (f"{ABORTED} MPI_COMM_WORLD", "with errorcode -1."),
        (f"{ABORTED} MPI_COMM_WORLD ", "with errorcode -1."),
        (f"{ABORTED} MPI_COMM_WORLD", "  Proc: [[31921,1],344]", "  Errorcode: -1"),
    ],
    ids=["4", "4, a space", "5"],
)
def test_the_rank_that_called_mpi_abort_is_in_several_lines(
    wrapper: str, text: tuple[str, ...]
) -> None:
    """Its code is in the last one, which Open MPI 4 and 5 write differently."""
    joiner = Joiner()
    *first, whole = [joiner.add(wrapper + line) for line in text]
    assert not any(first)
    assert whole is not None
    (hit,) = hits(whole)
    assert (hit.name, dict(hit.fields)) == ("mpi_abort", {"rank": "344", "code": "-1"})


CUDA = (
    ("RuntimeError: CUDA error: an illegal memory access was encountered", "an illegal memory"),
    ("torch.AcceleratorError: CUDA error: uncorrectable ECC error encountered", "uncorrectable"),
    ("RuntimeError: CUDA driver error: device not ready", "device not ready"),
    ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", "out of memory"),
    ("what():  CUDA error: unspecified launch failure", "unspecified launch failure"),
    ("XlaRuntimeError: INTERNAL: CUDA_ERROR_ECC_UNCORRECTABLE: uncorrectable ECC", "uncorrectable"),
)


@pytest.mark.parametrize("prefix", ["", "[rank13]: ", "2026-11-20T10:00:00Z stderr F [rank13]: "])
@pytest.mark.parametrize(("line", "says"), CUDA)
def test_what_a_framework_has_from_cuda_is_read_with_its_rank(
    prefix: str, line: str, says: str
) -> None:
    """PyTorch puts the rank before each line of an exception."""
    (hit,) = hits(line_of(prefix + line))
    assert (hit.name, hit.world_rank) == ("cuda_error", 13 if prefix else -1)
    assert hit.fields["err"].startswith(says)


@pytest.mark.parametrize(
    "line",
    [
        "CUDA kernel errors might be asynchronously reported at some other API call, so the",
        "For debugging consider passing CUDA_LAUNCH_BLOCKING=1",
        "Using CUDA 12.4 with 8 GPUs",
    ],
)
def test_what_frameworks_say_of_cuda_besides_is_no_error(line: str) -> None:
    """Neither advice nor versions."""
    assert list(hits(line_of(f"[rank0]: {line}"))) == []


@pytest.mark.parametrize(
    ("who", "end", "fields"),
    [
        ("PID 9665 RUNNING AT n7", "EXIT CODE: 9", {"pid": "9665", "node": "n7", "code": "9"}),
        (
            "RANK 13 PID 29 RUNNING AT n7",
            "KILLED BY SIGNAL: 11 (Segmentation fault)",
            {"rank": "13", "pid": "29", "node": "n7", "sig": "11"},
        ),
    ],
)
@pytest.mark.parametrize("wrapper", ["", "2026-11-20T10:00:00.5Z stdout F "])
def test_the_process_that_ended_is_in_two_lines_of_hydra(
    wrapper: str, who: str, end: str, fields: dict[str, str]
) -> None:
    """MPICH's launcher, and Intel's."""
    joiner = Joiner()
    lines = [
        joiner.add(f"{wrapper}{line}")
        for line in (
            "=" * 83,
            "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES",
            f"=   {who}",
            f"=   {end}",
            "=" * 83,
        )
    ]
    found = [hit for line in lines if line is not None for hit in hits(line)]
    assert [(hit.name, dict(hit.fields)) for hit in found] == [("hydra", fields)]


def test_a_process_name_that_stays_alone_hides_nothing() -> None:
    """A log that is cut there goes on with the next line."""
    joiner = Joiner()
    assert joiner.add("  Process name: [[58461,1],2]") is None
    other = joiner.add("NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.")
    assert other is not None
    assert [hit.name for hit in hits(other)] == ["xid"]


def test_the_table_is_tried_whole() -> None:
    """Names of patterns are unique: findings and stored events are looked up by them."""
    names = [pattern.name for pattern in PATTERNS]
    assert len(set(names)) == len(names)


def test_the_reporter_of_an_nccl_line_is_its_process() -> None:
    """Host, pid and device stand before the message."""
    (hit,) = hits(
        line_of("[2026-11-01 10:00:00] n3:4711:4900 [5] enqueue.cc:1 NCCL WARN Cuda failure 'x'")
    )
    assert (hit.host, hit.pid, hit.gpu) == ("n3", 4711, 5)


@pytest.mark.parametrize("prefix", ["[default3]:", "[1,7]<stderr>:", "0: [default3]:"])
@pytest.mark.parametrize("stamp", ["", "[2026-11-01 10:00:00] "])
def test_a_prefix_without_a_space_hides_no_reporter(prefix: str, stamp: str) -> None:
    """As torchrun --tee and mpirun --tag-output write it: host and rank are those of the line."""
    text = "n3:4711:4900 [5] enqueue.cc:1 NCCL WARN Cuda failure 'x'"
    (hit,) = hits(line_of(f"{prefix}{stamp}{text}"))
    assert (hit.host, hit.pid, hit.gpu) == ("n3", 4711, 5)
    (hit,) = hits(line_of(f"{prefix}[rank13]: RuntimeError: CUDA error: unspecified failure"))
    assert hit.world_rank == 13


def test_a_progress_bar_before_a_line_is_no_part_of_its_host() -> None:
    """NCCL writes to the same terminal, where a bar has no end of its line."""
    bar = " 50%|#####     | 1/2 [00:10<00:10, 2.5s/it, loss=0.36, lr=5e-6]"
    text = (
        "n3:4711:4900 [5] NCCL INFO comm 0x1 rank 6 nranks 8 cudaDev 2 busId b000 - Abort COMPLETE"
    )
    (hit,) = hits(line_of(f"{bar}{text}"))
    assert (hit.host, hit.pid, hit.gpu) == ("n3", 4711, 5)


def test_the_wrappers_time_wins_over_the_lines_own() -> None:
    """The runtime's stamp has a zone and fractions, NCCL's is local time in seconds."""
    line = (
        "2026-11-20T10:00:00.5Z stdout F [2026-11-20 11:00:00] n1:1:2 [0] x.cc:1 NCCL "
        "WARN Cuda failure 'x'"
    )
    (hit,) = hits(line_of(line))
    assert hit.time_ns % 10**9 == 500_000_000


def test_a_line_that_the_runtime_split_is_joined() -> None:
    """Docker and CRI cut lines at 16 kB and say so."""
    joiner = Joiner()
    assert (
        joiner.add("2026-11-20T10:00:00Z stderr P n1:1:2 [0] enqueue.cc:1 NCCL WARN Cuda fail")
        is None
    )
    whole = joiner.add("2026-11-20T10:00:01Z stderr F ure 'x'")
    assert whole is not None
    assert [hit.name for hit in hits(whole)] == ["cuda"]


@pytest.fixture
def in_new_york(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine five hours behind UTC."""
    monkeypatch.setenv("TZ", "EST5")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("in_new_york")
def test_nccl_s_stamp_is_local_time() -> None:
    """As in its RAS reports; those of runtimes have a zone."""
    (hit,) = hits(line_of("[2026-11-20 05:00:00] n1:1:2 [0] x.cc:1 NCCL WARN Cuda failure 'x'"))
    assert hit.time_ns == line_of(f"{AT} stdout F x").time_ns == 1_795_168_800 * 10**9


AT = "2026-11-20T10:00:00Z"


def test_a_progress_bar_on_one_stream_leaves_the_other_s_lines_alone() -> None:
    """Conmon writes what a program has flushed without a newline as a part: tqdm's bar on standard
    error, while NCCL logs to standard output.
    """
    joiner = Joiner()
    assert joiner.add(f"{AT} stderr P \r 50%|#####     | 5/10 [00:05<00:05]") is None
    line = joiner.add(f"{AT} stdout F n1:1:2 [0] enqueue.cc:1 NCCL WARN Cuda failure 'x'")
    assert line is not None
    assert [(hit.name, hit.host) for hit in hits(line)] == [("cuda", "n1")]
    docker = '{{"log":"{}","stream":"{}","time":"2026-11-20T10:00:00Z"}}'
    assert joiner.add(docker.format(" 50%|#####", "stderr")) is None
    line = joiner.add(docker.format("n1:1:2 [0] NCCL WARN Cuda failure 'x'\\n", "stdout"))
    assert line is not None
    assert line.text.startswith("n1:1:2")


@pytest.mark.parametrize("bar", ["\r{:3}%|#####     | [00:05<00:05]", "{:3}%|#####     |\r"])
def test_what_overwrites_a_progress_bar_is_read(bar: str) -> None:
    """Of a bar that was drawn a hundred times on the same line nothing is left."""
    joiner = Joiner()
    for percent in range(100):
        assert joiner.add(f"{AT} stderr P {bar.format(percent)}") is None
    text = "\r" * bar.startswith("\r") + "n1:1:2 [0] enqueue.cc:1 NCCL WARN Cuda failure 'x'"
    line = joiner.add(f"{AT} stderr F {text}")
    assert line is not None
    assert [(hit.name, hit.host) for hit in hits(line)] == [("cuda", "n1")]


def test_the_last_state_of_a_progress_bar_is_its_line() -> None:
    """A newline ends it."""
    joiner = Joiner()
    for part in ("P  10%|#\r", "P 100%|##########|\r"):
        assert joiner.add(f"{AT} stderr {part}") is None
    line = joiner.add(f"{AT} stderr F ")
    assert line is not None
    assert line.text == "100%|##########|"


def test_a_line_that_never_ends_takes_bounded_memory() -> None:
    """Parts beyond the longest line are dropped."""
    joiner = Joiner()
    for _ in range(1000):
        joiner.add("2026-11-20T10:00:00Z stderr P " + "x" * 1000)
    whole = joiner.add("2026-11-20T10:00:00Z stderr F x")
    assert whole is not None
    assert len(whole.text) == MAX_LINE


@pytest.mark.parametrize(
    "text",
    [
        '{"log":"a\\n","time":7}',
        '{"log":' + "[" * 5000,
        '{"log":7}',
        "",
        "\r\r\r",
        "\x1b[",
        '{"log":"',
    ],
)
def test_a_broken_wrapper_is_a_line_like_any_other(text: str) -> None:
    """Nothing that stands in a log makes the reader raise."""
    assert list(hits(line_of(text))) == []


@pytest.mark.slow
@given(st.text(max_size=300))
def test_no_text_raises(text: str) -> None:
    """Whatever a program prints."""
    list(hits(line_of(text)))


ESCAPES = ("\x1b]52;c;cm0gLXJm\x07", "\x9b2J", "\x1b[31m\x1b", "\u202e", "\x00")


@pytest.mark.parametrize("escape", ESCAPES, ids=ascii)
@pytest.mark.parametrize("row", rows(), ids=[f"line{n}" for n in range(len(rows()))])
def test_a_hit_writes_nothing_on_a_terminal(
    row: tuple[set[str], dict[str, str], str], escape: str
) -> None:
    """Text, host, path, group and every field are printable, wherever in a line escapes stand."""
    _, _, line = row
    places = [match.end() for match in re.finditer(r"\S+?(?=[\s:,)(<]|$)", line)]
    for at in places:
        for hit in hits(line_of(line[:at] + escape + line[at:]), f"/logs/{escape}.out"):
            texts = (hit.text, hit.host, hit.group, hit.origin, *hit.fields.values())
            assert all(text.isprintable() for text in texts), hit


def test_settings_that_a_log_shows_write_nothing_on_a_terminal() -> None:
    """Neither their values nor the hosts that logged them."""
    logged = LoggedSettings()
    for escape in ESCAPES:
        line = f"n1{escape}:7:8 [0] NCCL INFO NCCL_IB_HCA set by environment to mlx5_0{escape}."
        assert logged.add(line_of(line))
    for rank in logged.ranks():
        assert all(text.isprintable() for text in (rank.host, *rank.settings.values()))


def bombs() -> list[str]:
    """Lines of 64 kB that repeat the beginnings of real ones: what a pattern that goes back over
    the line would stumble on.
    """
    dice = random.Random(5)
    seeds = [line for _, _, line in rows()]
    cut = [(seed[: dice.randrange(8, len(seed))] * 9000)[:65536] for seed in seeds]
    pieces = (
        "localGid ::",
        "remoteGids ",
        " hca ",
        "vendor err ",
        "Got completion ",
        "[1,",
        "[PG 0 ",
        "n1:1:",
        "busId a parent ",
        "Rank 1] ",
    )
    return [
        *cut,
        *((piece * 9000)[:65536] for piece in pieces),
        "[" * 65536,
        "1," * 32768,
        " " * 65536,
    ]


@pytest.mark.parametrize("line", bombs(), ids=[f"bomb{n}" for n in range(len(bombs()))])
def test_no_line_takes_long(line: str) -> None:
    """No line of 64 kB takes more than 50 ms of CPU for all patterns together (measured: below 5;
    the rest is for a busy machine).
    """
    begin = time.process_time()
    list(hits(line_of(line)))
    assert time.process_time() - begin < 0.05


def test_half_a_surrogate_pair_in_dockers_json_is_replaced() -> None:
    """It is no text: an observation that holds it could not be stored."""
    line = line_of('{"log":"NCCL\\ud800 WARN x\\n","time":"2026-11-20T10:00:00Z"}')
    assert line.text == "NCCL? WARN x"
