"""The suite end to end: a slice of a scenario rendered, judged, kept,
taken up again and reported.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from collector.cli.main import main
from evaluation import score as score_run
from evaluation.runs.plan import Wanted, jobs_of, still_good
from evaluation.runs.pool import Done, run_jobs, run_task
from evaluation.runs.run import OURS, SHIPPED, Job, run_job
from pipeline.pieces import interface
from pipeline.pieces.interface import Piece
from pipeline.pieces.processes import Processes
from simulator.fleet import load_scenario
from tests.sources import ROOT

JOB = Job(
    "F16",
    "nominal",
    1,
    "dev",
    (("ours", "node"), ("ours", "fleet"), ("gpud", "fleet")),
    restart=True,
    days=0.08,
    nodes=2,
)
SLICE = ("--days", "0.01", "--nodes", "2", "--workers", "2", "--detectors", "ours,gpud")


def score(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error."""
    try:
        code = main(["score", *argv])
    except SystemExit as error:
        code = int(error.code or 0)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.fixture(scope="module")
def first() -> dict[str, Any]:
    """The job's result, as it comes back from JSON."""
    result: dict[str, Any] = json.loads(json.dumps(run_job(JOB)))
    return result


@pytest.mark.slow
def test_everybody_is_judged_by_every_truth(first: dict[str, Any]) -> None:
    """Ours in both scopes, ours as shipped beside them, and the baseline have a case per fault."""
    assert first["truth"]
    shipped = {(SHIPPED, scope) for name, scope in JOB.contestants if name == OURS}
    assert {(p["contestant"], p["scope"]) for p in first["results"]} == {*JOB.contestants, *shipped}
    assert all(len(p["cases"]) == len(first["truth"]) for p in first["results"])


@pytest.mark.slow
def test_a_worker_gives_the_same_result(tmp_path: Path, first: dict[str, Any]) -> None:
    """A worker's file holds what the same job gives here, to the last digit; it counts as done for
    this code and job, and for no other.
    """
    assert [(done.job, done.error) for done in run_jobs([JOB], tmp_path, "code", Processes(1))] == [
        (JOB, "")
    ]
    kept = json.loads((tmp_path / f"{JOB.name}.json").read_text())
    assert kept.pop("cpu_s") > 0
    assert kept == {"code": "code", **first}
    assert still_good(tmp_path, JOB, "code")
    assert not still_good(tmp_path, JOB, "other code")
    assert not still_good(tmp_path, replace(JOB, restart=False), "code")


@pytest.mark.slow
def test_a_worker_that_dies_costs_its_job_only(tmp_path: Path) -> None:
    """An unknown scenario ends its worker; its standard error is shown, and the
    next job runs in a new one.
    """
    bad, good = replace(JOB, scenario="F99"), replace(JOB, scenario="H05", days=0.01)
    done = {d.job.scenario: d.error for d in run_jobs([bad, good], tmp_path, "code", Processes(1))}
    assert done["H05"] == ""
    assert "no scenario 'F99'" in done["F99"]


def test_a_success_takes_back_the_error_of_an_attempt_before(tmp_path: Path) -> None:
    """The file of the error goes when there is a result."""

    class Second:
        """An executor that has done everything."""

        slots = 1

        def run(
            self, work: Callable[[Any], Any], pieces: Sequence[Piece[Any]]
        ) -> Generator[interface.Done[Any], None, None]:
            """One result."""
            assert (work, len(pieces)) == (run_task, 1)
            yield interface.Done(0, {"kind": "fault"})

    errors = tmp_path / f"{JOB.name}.err"
    errors.write_text("OSError: no space left\n")
    assert [done.error for done in run_jobs([JOB], tmp_path, "code", Second())] == [""]
    assert not errors.exists()
    assert (tmp_path / f"{JOB.name}.json").exists()


def wanted(**changes: object) -> Wanted:
    """F16 and H05, two seeds, both scopes, ours and gpud."""
    plain = {
        "split": "dev",
        "scenarios": ("F16", "H05"),
        "magnitudes": ("nominal", "half", "sweep"),
        "seeds": (1, 2),
        "scopes": ("node", "fleet"),
        "ours": True,
        "baselines": ("gpud",),
    }
    return Wanted(**plain | changes)  # type: ignore[arg-type]  # fields above


def test_magnitudes_are_for_scenarios_that_have_one() -> None:
    """F16 is swept: nominal, half and every value of its sweep but the nominal one.

    H05 has nothing to sweep.
    """
    swept = load_scenario("F16").swept
    assert swept is not None
    others = [f"{value:g}" for value in swept.sweep if value != swept.nominal]
    jobs = jobs_of(wanted(seeds=(1,)))
    assert [job.magnitude for job in jobs if job.scenario == "F16"] == ["nominal", "half", *others]
    assert [job.magnitude for job in jobs if job.scenario == "H05"] == ["nominal"]


def test_baselines_are_asked_once_and_only_nominal_runs_are_restarted() -> None:
    """Ours in both scopes, the baseline over the fleet."""
    jobs = jobs_of(wanted())
    assert {job.contestants for job in jobs} == {
        (("ours", "node"), ("ours", "fleet"), ("gpud", "fleet"))
    }
    assert {job.magnitude for job in jobs if job.restart} == {"nominal"}


@pytest.mark.slow
def test_the_command_reports_and_resumes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two jobs are run and reported; asked again, nothing is run and the report is the same."""
    kept, out = tmp_path / "kept", tmp_path / "out.json"
    argv = (
        "--scenario",
        "F16",
        "H05",
        "--seed",
        "1",
        "--magnitudes",
        "nominal",
        *SLICE,
        "--resume",
        str(kept),
        "--json",
        str(out),
    )
    code, text, progress = score(capsys, *argv)
    first = out.read_text()
    assert code == 0
    assert "F16" in text
    assert len(progress.splitlines()) == 2
    code, _, progress = score(capsys, *argv)
    assert (code, progress) == (0, "")
    assert of_any_call(out.read_text()) == of_any_call(first)
    assert score(capsys, "--report", str(kept), "--json", str(out))[0] == 0
    assert figures(out.read_text()) == figures(first)
    of_kept, of_run = (json.loads(text)["about"] for text in (out.read_text(), first))
    assert of_kept["cpu_hours"] == of_run["cpu_hours"]
    assert of_kept["runs"]["in_all"] == of_run["runs"]["in_all"]
    assert set(json.loads(first)["summary"]) == {"node", "fleet"}
    assert set(json.loads(first)["summary"]["node"]["baselines"]) == {"gpud"}


def figures(text: str) -> dict[str, Any]:
    """A report without where it comes from."""
    return {name: part for name, part in json.loads(text).items() if name != "about"}


def of_any_call(text: str) -> str:
    """A report without what other commits change meanwhile, and without what is of one call."""
    return re.sub(r'"(commit|code|wall_hours|of_this_call)": ("[^"]*"|[0-9.e-]+)', "", text)


@pytest.mark.slow
def test_a_run_of_the_test_suite_is_logged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A row per scope on the page that was named; the development suite leaves no trace."""
    page = tmp_path / "scoring.md"
    argv = (
        "--scenario",
        "H05",
        "--seeds",
        "1001,1002",
        "--magnitudes",
        "nominal",
        *SLICE,
        "--log",
        str(page),
    )
    assert score(capsys, *argv, "--suite", "dev")[0] == 0
    assert not page.exists()
    assert score(capsys, *argv, "--suite", "test")[0] == 0
    rows = [line for line in page.read_text().splitlines() if line.startswith("| 2")]
    assert [row.split(" | ")[2:4] for row in rows] == [
        ["1001..1002", "node"],
        ["1001..1002", "fleet"],
    ]


def logged(page: Path) -> list[list[str]]:
    """Cells of the rows of a log."""
    return [
        line.strip("| ").split(" | ")
        for line in page.read_text().splitlines()
        if line.startswith("| 2")
    ]


SMALL = (
    "--suite",
    "test",
    "--seed",
    "7",
    "--magnitudes",
    "nominal",
    "--scope",
    "fleet",
    "--detectors",
    "ours",
    "--days",
    "0.01",
)


@pytest.mark.slow
def test_a_run_in_which_something_failed_is_logged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """F12 needs more days than that: the row says that one of two runs is in its
    figures, and that one failed.

    The exit code is 1.
    """
    page = tmp_path / "scoring.md"
    assert (
        score(capsys, *SMALL, "--scenario", "H05", "F12", "--nodes", "1", "--log", str(page))[0]
        == 1
    )
    assert [row[2:6] for row in logged(page)] == [["7", "fleet", "2", "1 of 2, 1 failed"]]


@pytest.mark.slow
def test_an_interrupted_run_is_logged_and_its_kept_results_can_be(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C after the first of two: the row says so.

    A report of what was kept adds a row with the code that made it, where one is asked for.
    """

    def interrupted(*args: Any) -> Iterator[Done]:
        with contextlib.closing(run_jobs(*args)) as ended:
            yield next(ended)
        raise KeyboardInterrupt

    monkeypatch.setattr(score_run, "run_jobs", interrupted)
    page, kept = tmp_path / "scoring.md", tmp_path / "kept"
    argv = (
        *SMALL,
        "--scenario",
        "H05",
        "H06",
        "--nodes",
        "1",
        "--workers",
        "1",
        "--resume",
        str(kept),
    )
    code, out, err = score(capsys, *argv, "--log", str(page))
    assert (code, out) == (130, "")
    assert "interrupted; what is done is kept" in err
    assert [row[2:6] for row in logged(page)] == [["7", "fleet", "2", "1 of 2"]]

    (result,) = kept.glob("*.json")
    result.write_text(json.dumps(json.loads(result.read_text()) | {"code": "an older one"}))
    assert score(capsys, "--suite", "test", "--report", str(kept), "--log", "-")[0] == 0
    assert len(logged(page)) == 1
    assert score(capsys, "--suite", "test", "--report", str(kept), "--log", str(page))[0] == 0
    assert logged(page)[1][1:6] == ["code an older one", "7", "fleet", "1", "1"]


@pytest.mark.slow
def test_a_dump_holds_what_others_need_to_score_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Frames as Parquet in the store's layout, the truth, and what each contestant
    found as JSON lines.
    """
    argv = (
        "--scenario",
        "F16",
        "--seed",
        "1",
        "--magnitudes",
        "nominal",
        *SLICE,
    )
    assert score(capsys, *argv, "--dump", str(tmp_path))[0] == 0
    (run,) = tmp_path.iterdir()
    who = ("ours-node", "ours-fleet", "as-shipped-node", "as-shipped-fleet", "gpud-fleet")
    results = {f"{kind}-{name}.jsonl" for kind in ("findings", "incidents") for name in who}
    assert {path.name for path in run.iterdir()} == {"store", "truth.jsonl", *results}
    assert {path.name for path in (run / "store").iterdir()} >= {"gpu", "ib_port", "reads"}
    assert list((run / "store" / "gpu").rglob("*.parquet"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--scenario", "F99"], "--scenario: no scenario 'F99'"),
        (
            ["--detectors", "ours,theirs"],
            "--detectors: 'theirs' is none of ours, baselines, all, dcgm-health",
        ),
        (
            ["--magnitudes", "double"],
            "--magnitudes: 'double' is neither nominal, half, range, sweep nor a number",
        ),
        (["--workers", "0"], "--workers: 0 is not a number of processes"),
        (["--seeds", "9..5"], "argument --seeds: invalid"),
        (["--days", "0"], "argument --days: invalid"),
        (["--resume", "/proc/nowhere"], "--resume: /proc/nowhere"),
        (["--report", "/proc/nowhere", "--log", "page.md"], "--log: only the test suite is logged"),
        (["--report", "/proc/nowhere"], "--report: /proc/nowhere: there are no results"),
        (["--report", str(ROOT / "tests" / "data" / "nccl" / "ras")], "is no result of a run"),
    ],
)
def test_what_makes_no_sense_is_named(
    argv: Sequence[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The option and the value that is wrong, before anything is run."""
    code, out, err = score(capsys, *argv)
    assert (code, out) == (2, "")
    assert message in err


@pytest.mark.parametrize(
    "option",
    [
        ("--scenario", "F16"),
        ("--seeds", "1"),
        ("--seed", "1"),
        ("--scope", "both"),
        ("--detectors", "all"),
        ("--magnitudes", "half"),
        ("--plan",),
        ("--days", "1"),
        ("--nodes", "1"),
        ("--workers", "1"),
        ("--resume", "there"),
        ("--dump", "there"),
    ],
    ids=lambda option: option[0],
)
def test_what_a_report_does_not_look_at_is_refused(
    option: Sequence[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A report of what was kept runs nothing: options of a run are named and refused,
    before any folder is read.
    """
    code, out, err = score(capsys, "--report", str(tmp_path), *option)
    assert (code, out) == (2, "")
    assert f"{option[0]}: --report runs nothing" in err
