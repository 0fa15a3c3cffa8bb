"""What ``tocsin score`` does: plans the jobs, runs them, writes the report."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from collector.cli.spread import spread
from collector.config.raw_setting import ConfigError
from collector.version import VERSION
from evaluation.baselines import BASELINES, require
from evaluation.baselines.features import NotInstalledError
from evaluation.defaults import MAGNITUDES
from evaluation.runs import log
from evaluation.runs.by_author import by_author
from evaluation.runs.by_cadence import by_cadence
from evaluation.runs.by_checkpoint import by_checkpoint
from evaluation.runs.by_detector import by_detector
from evaluation.runs.code import ROOT, code_hash
from evaluation.runs.cost_estimate import seconds_of
from evaluation.runs.plan import Wanted, jobs_of, results_of, still_good
from evaluation.runs.pool import run_jobs
from evaluation.runs.report import report_of
from evaluation.runs.run import Job
from evaluation.runs.saved_results import kept
from evaluation.runs.scenarios import known_ids
from evaluation.runs.suite import Claim, suite
from evaluation.runs.table import tables
from evaluation.steps import Steps, span
from pipeline.pieces.interface import Executor
from pipeline.pieces.processes import Processes

SEEDS: Mapping[str, tuple[int, ...]] = {"dev": (1, 2), "test": (1001, 1002)}
LOG, NOWHERE = Path("docs") / "scoring.md", "-"
DONE, FAILED, INTERRUPTED = 0, 1, 130
ALL = "all"
# Options that have no effect on the plan, and on a report of what was kept.
OF_THE_PLAN = ("magnitudes", "days", "nodes")
OF_A_RUN = (
    "scenario",
    "seeds",
    "seed",
    "scope",
    "detectors",
    "magnitudes",
    "plan",
    "days",
    "nodes",
    "workers",
    "ray",
    "resume",
    "dump",
)


def score(args: argparse.Namespace) -> int:
    """Run what is not done yet, report and log all; 1 where a job failed
    or it was interrupted.
    """
    if args.report:
        _refuse(args, OF_A_RUN, "--report runs nothing, and says what the folders hold")
        return _report(args)
    if args.ray and args.dump:
        raise ConfigError("--dump writes on the machine that runs a scenario: not with --ray")
    wanted = _wanted(args)
    try:
        jobs = jobs_of(wanted) if args.plan is None else suite(_claim(wanted, args))
    except ValueError as error:
        raise ConfigError(f"--scenario: {error}") from error
    code, commit, began_s = code_hash(), log.commit_of(ROOT), time.monotonic()
    with contextlib.ExitStack() as stack:
        executor = stack.enter_context(spread(args)) or Processes(_workers(args))
        folder = _folder(args.resume, stack)
        remaining = [job for job in jobs if args.dump or not still_good(folder, job, code)]
        if args.plan is not None:
            print(
                _announced(remaining, len(jobs) - len(remaining), executor.slots), file=sys.stderr
            )
        failed, interrupted = _run(
            remaining, folder, code, executor, args.dump, done=len(jobs) - len(remaining)
        )
        done = [job for job in jobs if job.name not in failed and still_good(folder, job, code)]
        results = list(results_of(folder, done))
        report = _document(results)
    seeds = sorted({job.seed for job in jobs})
    if interrupted:
        print(
            "tocsin: interrupted" + ("; what is done is kept" if args.resume else ""),
            file=sys.stderr,
        )
    else:
        about: dict[str, Any] = {
            "tocsin": VERSION,
            "commit": commit,
            "code": code,
            "suite": wanted.split,
            "failed": failed,
            "cpu_hours": _cpu_hours(results),
            # of this call; the CPU hours are those of all results, of calls before too
            "wall_hours": round((time.monotonic() - began_s) / 3600, 2),
            "runs": {"of_this_call": len(remaining), "in_all": len(jobs)},
            "workers": executor.slots,
            "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python "
            f"{platform.python_version()}",
        }
        _write(
            args.json,
            {"about": about | {"seeds": seeds, "scenarios": list(wanted.scenarios)}, **report},
        )
    if _logged(args, wanted, commit):
        run = log.Logged(
            _today(),
            commit,
            seeds,
            len(wanted.scenarios),
            done=len(done),
            asked=len(jobs),
            failed=len(failed),
        )
        log.append(Path(args.log or ROOT / LOG), log.rows(report, run))
    return INTERRUPTED if interrupted else FAILED if failed else DONE


def _report(args: argparse.Namespace) -> int:
    """Saved results, of any state of the code: the report names them all.

    It is no run, and logged only where --log asks for it.
    """
    if args.log and args.suite != "test":
        raise ConfigError("--log: only the test suite is logged")
    results = [result for result in kept(args.report) if result["job"]["split"] == args.suite]
    if not results:
        raise ConfigError(f"--report: there are no results of the {args.suite} suite")
    codes = sorted({result["code"] for result in results})
    seeds, scenarios = (
        sorted({result["job"][name] for result in results}) for name in ("seed", "scenario")
    )
    report = _document(results)
    state = log.state_of(codes, code_hash(), log.commit_of(ROOT))
    about = {
        "tocsin": VERSION,
        "commit": state,
        "code": codes,
        "suite": args.suite,
        "cpu_hours": _cpu_hours(results),
        "runs": {"in_all": len(results)},
        "seeds": seeds,
        "scenarios": scenarios,
    }
    _write(args.json, {"about": about, **report})
    if args.log not in (None, NOWHERE):
        log.append(
            Path(args.log),
            log.rows(report, log.Logged(_today(), state, seeds, len(scenarios), done=len(results))),
        )
    return DONE


def _cpu_hours(results: Sequence[Mapping[str, Any]]) -> float:
    """Of all of them, whichever call made them."""
    seconds: float = sum(result.get("cpu_s", 0.0) for result in results)
    return round(seconds / 3600, 2)


def _document(results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    counted = [result for result in results if not result["job"].get("compared")]
    return report_of(counted).document() | {
        "strata": by_checkpoint(counted),
        "cadence": by_cadence(results),
        "detectors": by_detector(counted),
        "authors": by_author(counted),
    }


def _wanted(args: argparse.Namespace) -> Wanted:
    """What was asked for. ConfigError where it makes no sense."""
    ours, baselines = _candidates(args.detectors or ALL)
    return Wanted(
        split=args.suite,
        scenarios=tuple(args.scenario or known_ids()),
        magnitudes=tuple(_magnitude(word) for word in (args.magnitudes or MAGNITUDES).split(",")),
        seeds=(args.seed,) if args.seed is not None else args.seeds or SEEDS[args.suite],
        scopes=("node", "fleet") if args.scope in (None, "both") else (args.scope,),
        ours=ours,
        baselines=baselines,
        days=args.days,
        nodes=args.nodes,
    )


def _workers(args: argparse.Namespace) -> int:
    """How many processes on this machine."""
    return args.workers or os.cpu_count() or 1


def _claim(wanted: Wanted, args: argparse.Namespace) -> Claim:
    """The plan, narrowed to what was asked for.

    ConfigError for options that the plan decides itself.
    """
    _refuse(args, OF_THE_PLAN, "the plan says which runs there are, how long and how large")
    if len(args.seeds or ()) > 1:
        raise ConfigError("--seeds: the plan counts on from one seed; say --seed N")
    return Claim(
        wanted.split,
        wanted.seeds[0],
        wanted.ours,
        wanted.baselines,
        wanted.scopes,
        wanted.scenarios,
        cases=args.plan,
    )


def _refuse(args: argparse.Namespace, without_effect: Sequence[str], why: str) -> None:
    """ConfigError for an option that was given and would be ignored."""
    for name in without_effect:
        if getattr(args, name) is not None:
            raise ConfigError(f"--{name}: {why}")


def _announced(remaining: Sequence[Job], done: int, workers: int) -> str:
    """What is ahead, before it begins."""
    seconds = sum(map(seconds_of, remaining))
    kept = f", {done} are done" if done else ""
    left = span(seconds / max(1, min(workers, len(remaining))))
    return f"tocsin: {len(remaining)} runs{kept}; about {left} with {workers} processes"


def _candidates(text: str) -> tuple[bool, tuple[str, ...]]:
    """Whether ours take part, and which baselines.

    One that was asked for by name must be installed; others are left out with a message.
    """
    groups = {"ours": (), "baselines": tuple(BASELINES), ALL: tuple(BASELINES)}
    names = text.split(",")
    chosen: list[str] = []
    for wanted in names:
        if wanted not in groups and wanted not in BASELINES:
            raise ConfigError(
                f"--detectors: {wanted!r} is none of {', '.join((*groups, *BASELINES))}"
            )
        for name in groups.get(wanted, (wanted,)):
            try:
                require(name)
            except NotInstalledError as error:
                if wanted == name:
                    raise ConfigError(f"--detectors: {error}") from error
                print(f"tocsin: left out: {error}", file=sys.stderr)
            else:
                chosen.append(name)
    return "ours" in names or ALL in names, tuple(dict.fromkeys(chosen))


def _run(
    remaining: Sequence[Job],
    folder: Path,
    code: str,
    executor: Executor,
    dump: str | None,
    *,
    done: int,
) -> tuple[dict[str, str], bool]:
    """Run jobs, showing how far it is; those that failed with their errors, and
    whether it was interrupted.
    """
    failed, interrupted = {}, False
    steps = Steps(done + len(remaining), done, sys.stderr, sum(map(seconds_of, remaining)))
    try:
        with contextlib.closing(
            run_jobs(remaining, folder, code, executor, Path(dump) if dump else None)
        ) as ended:
            for job in ended:
                steps.step(job.job.name, seconds_of(job.job))
                if job.error:
                    failed[job.job.name] = job.error
                    steps.print(f"tocsin: {job.job.name} failed: {job.error}")
    except KeyboardInterrupt:
        interrupted = True
    steps.end()
    return failed, interrupted


def _folder(resume: str | None, stack: contextlib.ExitStack) -> Path:
    if resume is None:
        return Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tocsin-score-")))
    folder = Path(resume)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"--resume: {error.filename}: {error.strerror}") from error
    return folder


def _write(to: str | None, document: Mapping[str, Any]) -> None:
    if to == "-":
        print(json.dumps(document, indent=1, allow_nan=False))
        return
    sys.stdout.writelines(tables(document))
    if to is not None:
        Path(to).write_text(
            json.dumps(document, indent=1, allow_nan=False) + "\n", encoding="utf-8"
        )


def _logged(args: argparse.Namespace, wanted: Wanted, commit: str) -> bool:
    """Whether a run is logged: the unchanged suite in a checkout, or where a log file was named."""
    if args.suite != "test" or args.log == NOWHERE or not wanted.ours:
        return False
    return args.log is not None or not (commit == log.UNKNOWN or wanted.days or wanted.nodes)


def _today() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%d")


def _magnitude(word: str) -> str:
    if word not in ("nominal", "half", "range", "sweep"):
        try:
            float(word)
        except ValueError as error:
            raise ConfigError(
                f"--magnitudes: {word!r} is neither nominal, half, range, sweep nor a number"
            ) from error
    return word
