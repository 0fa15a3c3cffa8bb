"""What every test gets: an environment of its own, a worker, in or out of `make unit`."""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import gc
import importlib
import logging
import os
import re
import sys
import tempfile
import time
from collections.abc import Generator, Iterator
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

from collector.config.dcgm_flags import FLAGS

# How long an example of a property test takes is the machine's doing.
settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any machine")

# Files that share a simulated life which takes up to a minute of CPU time to make, or that would
# see one another's processes: whoever runs one of them runs all.
SHARED = {
    "jobs of Slurm clusters that both number them from 1": (
        "tests/integration/test_slurm_jobs.py",
        "tests/integration/test_slurm_node_failure.py",
    ),
    "the simulated day": (
        "tests/integration/test_duckdb.py",
        "tests/integration/test_node_day.py",
        "tests/integration/test_query_docs.py",
    ),
    "the kept hour": (
        "tests/collector/explaining/test_explain.py",
        "tests/collector/replaying/test_replay.py",
        "tests/integration/test_replay_remote.py",
    ),
}
LIFE_OF = {file: life for life, sharing in SHARED.items() for file in sharing}

# Files of a minute and more on one worker: none of them may be the last.
LONG = {
    "tests/contracts/horizon/test_horizon.py",
    "tests/dashboards/test_answers.py",
    "tests/detectors/incidents/test_pairs.py",
    "tests/fuzz/test_fuzz.py",
    "tests/gateway/test_live_replay.py",
    "tests/integration/test_incidents.py",
    "tests/rules/test_rules.py",
    "tests/stack/test_bad_day.py",
    "tests/tenants/test_limits.py",
    "tests/test_contributing.py",
}

DCGM_VARIABLES = {flag.variable for flag in FLAGS}

# `make unit` runs the tests that have none of these marks. Such a test may not start a process,
# and costs little: more than UNIT_CPU_S is reported at the end of a run, more than UNIT_CPU_LIMIT_S
# fails it. CPU seconds, and far apart, because a busy machine must not decide.
OUTSIDE_UNIT = ("slow", "integration", "root", "gpu", "torch", "grafana")
UNIT_CPU_S = 0.2
UNIT_CPU_LIMIT_S = 5.0
STARTS = {"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.system", "os.exec"}
OUTSIDE_FILE = re.compile(
    rf"^pytestmark = .*pytest\.mark\.(?:{'|'.join(OUTSIDE_UNIT)})\b", re.MULTILINE
)
CPU, WHY = "cpu_s", "not_unit"
_started: list[str] = []  # processes that this one has started


def _watch(event: str, arguments: tuple[object, ...]) -> None:
    if event in STARTS:
        _started.append(f"{event}{arguments[:2]}")


sys.addaudithook(_watch)


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test sees only the variables it sets itself, and no golden file is rewritten
    unless that is asked for.
    """
    for name in [*os.environ]:
        if name in DCGM_VARIABLES or (
            name.startswith("TOCSIN_") and name != "TOCSIN_UPDATE_GOLDEN"
        ):
            monkeypatch.delenv(name)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """A command that a test runs sets up the log of the whole process: for that test alone. A test
    that computes waits for a core.
    """
    root = logging.getLogger()
    handlers, level, raising = root.handlers[:], root.level, logging.raiseExceptions
    computes = hasattr(item.config, "workerinput") and not item.get_closest_marker("integration")
    try:
        with _core() if computes else contextlib.nullcontext():
            return (yield)
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
        logging.raiseExceptions = raising


@contextlib.contextmanager
def _core() -> Iterator[None]:
    """One of the machine's cores: where four workers compute on two of them at once, all of it
    takes a seventh longer (docs/decisions.md, 2026-11-30).
    """
    mine = next((core for core in _cores() if _taken(core)), None)
    if mine is None:
        mine = _cores()[os.getpid() % len(_cores())]
        fcntl.flock(mine, fcntl.LOCK_EX)
    try:
        yield
    finally:
        fcntl.flock(mine, fcntl.LOCK_UN)


def _taken(core: int) -> bool:
    try:
        fcntl.flock(core, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@cache
def _cores() -> list[int]:
    """A file for each core; a worker that computes there has locked it."""
    name = f"{tempfile.gettempdir()}/tocsin-tests-{os.getuid()}-core"
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    return [os.open(f"{name}{n}", flags, 0o600) for n in range(os.cpu_count() or 1)]


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """`make unit` does not import files that are outside it: that would take half of its time."""
    if config.option.markexpr == "unit" and collection_path.suffix == ".py":
        return bool(OUTSIDE_FILE.search(collection_path.read_text(encoding="utf-8"))) or None
    return None


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Of the whole suite each worker imports its own share of the files first: asserts are
    rewritten once and kept, not by each worker at the same moment. What is collected stays, a
    million objects: garbage collections look at none of it, now and during the tests.
    """
    gc.disable()
    try:
        _import_share(session.config)
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()
        atexit.register(gc.unfreeze)  # or extension modules report all of it as leaked


def _import_share(config: pytest.Config) -> None:
    worker = getattr(config, "workerinput", None)
    if worker and config.args_source == pytest.Config.ArgsSource.TESTPATHS:
        first, step = int(worker["workerid"].removeprefix("gw")), worker["workercount"]
        for file in sorted(Path(__file__).parent.rglob("test_*.py"))[first::step]:
            if not pytest_ignore_collect(file, config):
                name = ".".join(file.relative_to(config.rootpath).with_suffix("").parts)
                # What fails is imported again in its turn, and reported there.
                with contextlib.suppress(Exception, pytest.skip.Exception):
                    importlib.import_module(name)


@pytest.hookimpl(tryfirst=True)  # before `-m unit` selects
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files come first, then those that start real servers, which mostly wait, in turn
    with those that compute, and what is quick fills the cores at the end; ``root`` says why it is
    skipped.
    """
    for item in items:
        if not any(item.get_closest_marker(mark) for mark in OUTSIDE_UNIT):
            item.add_marker("unit")
    real = {item.path for item in items if item.get_closest_marker("integration")}
    slow = {item.path for item in items if item.get_closest_marker("slow")} - real
    turn = {path: n for each in (real, slow) for n, path in enumerate(sorted(each))}
    items.sort(
        key=lambda item: (
            item.path not in real | slow,
            item.nodeid.partition("::")[0] not in LONG,
            turn.get(item.path, 0) if item.path in real | slow else 0,
            item.path in slow,
        )
    )
    if os.geteuid() != 0:
        for item in items:
            if item.get_closest_marker("root"):
                item.add_marker(pytest.mark.skip(reason="needs root"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """A test of `make unit` that starts a process or costs too much fails there, and is named
    at the end of other runs.
    """
    started, began = len(_started), time.process_time()
    yield
    if item.get_closest_marker("unit"):
        cpu_s = time.process_time() - began
        item.user_properties.append((CPU, cpu_s))
        why = f"starts a process, {_started[started]}" if len(_started) > started else ""
        if cpu_s > UNIT_CPU_LIMIT_S:
            why = f"takes {cpu_s:.1f} CPU seconds"
        item.user_properties.append((WHY, why))
        if why and item.config.option.markexpr == "unit":
            pytest.fail(f"mark it slow: it {why}")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What the tests of `make unit` cost, and which of them need the mark ``slow``."""
    costs: dict[str, float] = {}
    slow: list[str] = []
    for report in terminalreporter.getreports("passed"):
        facts = dict(report.user_properties) if report.when == "call" else {}
        if CPU in facts:
            cpu_s = costs[report.nodeid] = float(facts[CPU])
            if facts.get(WHY) or cpu_s > UNIT_CPU_S:
                slow.append(f"{report.nodeid} {facts.get(WHY) or f'takes {cpu_s:.2f} CPU s'}")
    terminalreporter.section(f"make unit: {len(costs)} tests, {sum(costs.values()):.0f} CPU s")
    for line in slow:
        terminalreporter.line(f"mark it slow: {line}")


class ByFile(LoadFileScheduling):  # type: ignore[misc] # xdist has no types
    """A file stays on one worker, and so do files that share a life; the scenarios, which share
    nothing and take long, are given out one by one.
    """

    def _split_scope(self, nodeid: str) -> str:
        file: str = super()._split_scope(nodeid)
        if file in LIFE_OF:
            return LIFE_OF[file]
        return nodeid if file.startswith("tests/scenarios/") else file


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByFile:
    """How files are given to workers."""
    return ByFile(config, log)


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """As many as cores for `make unit`; else two more, as real servers are waited for."""
    cores = os.cpu_count() or 1
    return cores if config.option.markexpr == "unit" else cores + 2
