"""The scripts of deploy/slurm and deploy/npd: shell that any Debian's sh understands, and that can
never drain a node by failing.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.parts import need
from tests.sources import ROOT
from tests.wait import PATIENCE_S

pytestmark = pytest.mark.slow

SLURM, NPD = ROOT / "deploy" / "slurm", ROOT / "deploy" / "npd"
SH = [
    *(SLURM / name for name in ("tocsin-prolog", "tocsin-epilog", "tocsin-health", "tocsin-gates")),
    SLURM / "tocsin-preflight",
    NPD / "tocsin-npd",
]
PATH = "/usr/bin:/bin"


def run(script: Path, path: str = PATH, **environ: str) -> tuple[int, str]:
    """Exit code and output."""
    ran = subprocess.run(
        [script],
        env={"PATH": path, **environ},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    return ran.returncode, ran.stdout + ran.stderr


def tocsin(folder: Path, *lines: str) -> str:
    """A PATH on which `tocsin` is these lines of shell."""
    program = folder / "tocsin"
    program.write_text("\n".join(["#!/bin/sh", *lines]))
    program.chmod(0o755)
    return f"{folder}:{PATH}"


def mapping(folder: Path) -> dict[str, list[str]]:
    """Jobs of each GPU."""
    return {
        file.name: file.read_text().splitlines()
        for file in folder.iterdir()
        if not file.name.startswith(".")
    }


@pytest.mark.integration
def test_shellcheck_has_nothing_to_say() -> None:
    """As POSIX shell, NHC's own as bash."""
    checker = need("shellcheck", "shellcheck")
    posix = subprocess.run(
        [checker, "--shell=sh", *SH],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    bash = subprocess.run(
        [checker, "--shell=bash", SLURM / "tocsin.nhc"],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert posix.stdout + bash.stdout == ""


@pytest.mark.parametrize(
    ("code", "words", "refused"),
    [
        (0, "tocsin: preflight quick passed", 0),
        (1, "tocsin: refused: GPU 3: is lost.", 1),
        (1, "Traceback (most recent call last):", 0),
        (2, "tocsin: error", 0),
        (127, "", 0),
    ],
)
def test_preflight_refuses_a_job_for_a_page_alone(
    tmp_path: Path, code: int, words: str, refused: int
) -> None:
    """A wrong command line, a missing program and a program that breaks start the job."""
    asked = tmp_path / "asked"
    path = tocsin(tmp_path, f'echo "$*" > {asked}', f"echo '{words}'", f"exit {code}")
    ended, _ = run(
        SLURM / "tocsin-preflight", path, TOCSIN=f"{tmp_path}/tocsin", SLURM_JOB_GPUS="0,2-3"
    )
    assert ended == refused
    assert asked.read_text() == "preflight --format slurm --gpus 0,2-3\n"
    assert run(SLURM / "tocsin-preflight", TOCSIN="/no/such/program")[0] == 0


def test_preflight_refuses_a_job_while_the_agent_is_down(tmp_path: Path) -> None:
    """What is said of the result that nobody stores comes before the verdict, which Python keeps in
    a buffer until its end.
    """
    path = tocsin(
        tmp_path,
        "echo 'tocsin: result not stored: no agent is running' >&2",
        "echo 'tocsin: refused: GPU 3: is lost.'",
        "exit 1",
    )
    ended, said = run(SLURM / "tocsin-preflight", path, TOCSIN=f"{tmp_path}/tocsin")
    assert ended == 1
    assert "GPU 3: is lost." in said
    assert "no agent is running" in said


def test_preflight_that_hangs_starts_the_job(tmp_path: Path) -> None:
    """After its time is over."""
    path = tocsin(tmp_path, "exec sleep 1000")
    given = {"TOCSIN": f"{tmp_path}/tocsin", "TOCSIN_PREFLIGHT_SECONDS": "0.2"}
    assert run(SLURM / "tocsin-preflight", path, **given)[0] == 0


def test_prolog_and_epilog_keep_the_mapping(tmp_path: Path) -> None:
    """Two jobs come, one goes: a file per job, a GPU per line, nothing of a job that ended."""
    where = str(tmp_path / "mapping")
    run(SLURM / "tocsin-prolog", TOCSIN_JOB_MAPPING=where, SLURM_JOB_ID="7", SLURM_JOB_GPUS="0,1")
    run(SLURM / "tocsin-prolog", TOCSIN_JOB_MAPPING=where, SLURM_JOB_ID="8", SLURM_JOB_GPUS="1-3")
    assert mapping(tmp_path / "mapping") == {"job-7": ["0", "1"], "job-8": ["1", "2", "3"]}
    run(SLURM / "tocsin-epilog", TOCSIN_JOB_MAPPING=where, SLURM_JOB_ID="8")
    assert mapping(tmp_path / "mapping") == {"job-7": ["0", "1"]}
    run(SLURM / "tocsin-epilog", TOCSIN_JOB_MAPPING=where, SLURM_JOB_ID="7")
    assert [*(tmp_path / "mapping").iterdir()] == []


def test_the_prolog_takes_uuids_where_slurm_has_them(tmp_path: Path) -> None:
    """Slurm gives MIG instances by UUID in CUDA_VISIBLE_DEVICES of its hooks, whole
    GPUs beside them by number.
    """
    said = {
        "SLURM_JOB_GPUS": "3,9",
        "CUDA_VISIBLE_DEVICES": "MIG-1abf74e2-5555-2222-3333-444455556666,9",
    }
    run(SLURM / "tocsin-prolog", TOCSIN_JOB_MAPPING=str(tmp_path), SLURM_JOB_ID="7", **said)
    assert mapping(tmp_path) == {"job-7": ["MIG-1abf74e2-5555-2222-3333-444455556666", "9"]}


def test_no_mapping_outlives_the_boot_of_its_jobs() -> None:
    """A node that crashes runs no epilog: by default both hooks write below
    /run, which a boot empties.
    """
    for name in ("tocsin-prolog", "tocsin-epilog"):
        assert "${TOCSIN_JOB_MAPPING:-/run/tocsin-jobs}" in (SLURM / name).read_text()


@pytest.mark.parametrize("script", ["tocsin-prolog", "tocsin-epilog"])
@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"SLURM_JOB_ID": "7", "SLURM_JOB_GPUS": "0", "TOCSIN_JOB_MAPPING": "/proc/nowhere"},
        {"SLURM_JOB_ID": "$(exit 1)", "SLURM_JOB_GPUS": "0"},
        {
            "SLURM_JOB_ID": "7",
            "SLURM_JOB_GPUS": "../../etc/passwd",
            "TOCSIN_JOB_MAPPING": "/proc/nowhere",
        },
    ],
    ids=["no job", "no folder", "no job id", "no GPU"],
)
def test_prolog_and_epilog_end_well_whatever_happens(script: str, environ: dict[str, str]) -> None:
    """A failure would drain the node and hold the job."""
    assert run(SLURM / script, **environ) == (0, "")


@pytest.mark.parametrize(
    ("lines", "code", "said"),
    [
        (("echo 'GPU 3: lost'", "exit 1"), 1, "GPU 3: lost\n"),
        (("echo 'no known problem'",), 0, "no known problem\n"),
        (("echo 'Traceback: broken' >&2", "exit 1"), 2, "tocsin cannot be asked\n"),
        (("exit 127",), 2, "tocsin cannot be asked\n"),
    ],
    ids=["a problem", "none", "it broke", "it is missing"],
)
def test_npd_a_broken_program_is_unknown(
    tmp_path: Path, lines: tuple[str, ...], code: int, said: str
) -> None:
    """A bad upgrade must not turn the condition of every node."""
    assert run(NPD / "tocsin-npd", tocsin(tmp_path, *lines)) == (code, said)


@pytest.mark.parametrize(
    ("lines", "died"),
    [
        (("echo 'GPU 3: lost'", "exit 1"), True),
        (("echo 'unknown: no agent'",), False),
        (("echo 'Traceback: broken' >&2", "exit 1"), False),
        (("exit 2",), False),
    ],
    ids=["a page", "unknown", "it broke", "wrong command line"],
)
def test_nhc_only_a_problem_that_was_said_fails_the_check(
    tmp_path: Path, lines: tuple[str, ...], *, died: bool
) -> None:
    """Whatever else goes wrong, the node stays in service."""
    nhc = f'die() {{ echo "died $*"; }}; . {SLURM}/tocsin.nhc; check_tocsin'
    environ = {"PATH": tocsin(tmp_path, *lines)}
    ran = subprocess.run(
        ["bash", "-c", nhc],
        env=environ,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert (ran.returncode, ran.stdout) == (
        (1, "died 1 check_tocsin: GPU 3: lost\n") if died else (0, "")
    )


def test_the_plugin_of_node_problem_detector_leaves_time_and_room() -> None:
    """Its own deadline, the length that our messages are cut to, and the polarity of
    conditions: True is a problem.
    """
    monitor = json.loads((NPD / "tocsin-gpu-monitor.json").read_text())
    assert monitor["pluginConfig"]["max_output_length"] == 80
    assert (
        {rule["condition"] for rule in monitor["rules"]}
        == {c["type"] for c in monitor["conditions"]}
        == {"TocsinGpuProblem"}
    )


def scontrol(folder: Path, *lines: str) -> str:
    """A PATH on which `scontrol` is these lines of shell."""
    program = folder / "scontrol"
    program.write_text("\n".join(["#!/bin/sh", *lines]))
    program.chmod(0o755)
    return f"{folder}:{PATH}"


@pytest.mark.parametrize("word", ["on", "off", "status", "tidy"])
def test_a_controller_that_does_not_answer_is_no_answer(tmp_path: Path, word: str) -> None:
    """Whoever switches the fleet off must know that it is not."""
    path = scontrol(tmp_path, "echo 'Unable to contact slurm controller' >&2", "exit 1")
    ran = subprocess.run(
        [SLURM / "tocsin-gates", word],
        env={"PATH": path},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    said = (
        "Unable to contact slurm controller\n"
        "tocsin-gates: the controller does not answer: nothing changed\n"
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (1, "", said)


def test_a_slot_that_was_just_taken_is_not_tidied(tmp_path: Path) -> None:
    """Between the two looks another check of that node took it again, and is about to drain."""
    path = scontrol(
        tmp_path,
        f"echo once >>{tmp_path}/calls",
        f"time=$(wc -l <{tmp_path}/calls)",
        (
            f'case "$*" in *delete*) echo "$*" >>{tmp_path}/deleted ;; *node) echo '
            '"NodeName=gpu01 State=IDLE" ;; *)'
        ),
        (
            '  echo "ReservationName=tocsin_slot_1 StartTime=$time EndTime=2036 '
            'Nodes=gpu01 NodeCnt=1" ;; esac'
        ),
    )
    ran = subprocess.run(
        [SLURM / "tocsin-gates", "tidy", "0"],
        env={"PATH": path},
        capture_output=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert (ran.returncode, ran.stdout, ran.stderr, (tmp_path / "deleted").exists()) == (
        0,
        b"",
        b"",
        False,
    )
