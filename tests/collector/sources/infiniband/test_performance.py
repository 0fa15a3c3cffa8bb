"""Asking ports through perfquery: few starts, patience that grows, and nobody waits for it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from collector.node.inventory import Inventory
from collector.node.state import State
from collector.sources.infiniband import InfinibandSource
from collector.sources.infiniband.performance import PerformanceAgents, Question
from pipeline.catalog.agent import PERFQUERY_RUNS
from pipeline.child import Finished
from pipeline.selfmetrics import SelfMetrics
from tests.collector.sources.infiniband.sysfs import GUID, Sysfs
from tests.fakes import FakeClock
from tests.wait import until

ERRORS = frozenset({"symbol_errors_extended", "link_downed_extended"})
DATA = frozenset({"receive_words", "transmit_words"})
FEC = frozenset({"fec_uncorrectable_blocks"})
PORT = Question("0xa", "mlx5_0", 1, 5, {"-x": ERRORS})

# PortCountersExtended of a device that keeps the error counters in 64 bits too, as
# infiniband-diags prints it.
X_ANSWER = """\
# Port extended counters: Lid 5 port 1 (CapMask: 0x5A00 CapMask2: 0x0000002)
PortSelect:......................1
CounterSelect:...................0x0000
PortXmitData:....................1234567890123
PortRcvData:.....................40320
CounterSelect2:..................0x0000
SymbolErrorCounter:..............70000
LinkDownedCounter:...............300
"""
T_ANSWER = (
    "# PortExtendedSpeedsCounters counters: Lid 5 port 1\nPortFECUncorrectableBlockCtr:....12\n"
)
SILENT = "perfquery: iberror: failed: classportinfo query\n"
REFUSED = "perfquery: iberror: failed: cannot query PortExtendedSpeedsCounters\n"


class Runs:
    """Stands in for pipeline.child.run: remembers what was started, answers from a list
    (the last one forever).
    """

    def __init__(self, *answers: Finished | OSError) -> None:
        self.answers = list(answers)
        self.started: list[list[str]] = []

    def __call__(self, argv: Sequence[str], **limits: object) -> Finished:
        assert limits.keys() == {"timeout_s", "max_bytes"}
        self.started.append(list(argv))
        answer = self.answers[min(len(self.started), len(self.answers)) - 1]
        if isinstance(answer, OSError):
            raise answer
        return answer


def done(code: int, text: str) -> Finished:
    """A program that ended."""
    return Finished(code, text.encode(), b"ibwarn: chatter\n")


Make = Callable[..., tuple[PerformanceAgents, Runs]]


@pytest.fixture
def clock() -> FakeClock:
    """A clock that stands still until told."""
    return FakeClock()


@pytest.fixture
def metrics() -> SelfMetrics:
    """The agent's own numbers."""
    return SelfMetrics()


@pytest.fixture
def make(clock: FakeClock, metrics: SelfMetrics) -> Make:
    """Agents to be asked without a thread, and the record of what was started."""

    def build(
        *answers: Finished | OSError, questions: Sequence[Question] = (PORT,), per_minute: int = 30
    ) -> tuple[PerformanceAgents, Runs]:
        runs = Runs(*answers)
        agents = PerformanceAgents(
            "perfquery", clock, metrics, interval_s=60, per_minute=per_minute, run=runs
        )
        agents._questions = tuple(questions)
        return agents, runs

    return build


def live(agents: PerformanceAgents, clock: FakeClock, seconds: int) -> None:
    """Let time pass as the source does: it looks every five seconds."""
    for _ in range(0, seconds, 5):
        agents.ask_due()
        clock.advance(5)


def test_an_answer_becomes_fields(make: Make, metrics: SelfMetrics) -> None:
    """Only what is wanted is taken, under the catalogue's names, and the port is asked
    about itself, without a LID.
    """
    agents, runs = make(done(0, X_ANSWER))
    agents.ask_due()
    assert agents.values("0xa") == {"symbol_errors_extended": 70000, "link_downed_extended": 300}
    assert [argv[1:] for argv in runs.started] == [["-x", "-C", "mlx5_0", "-P", "1"]]
    assert metrics.value(PERFQUERY_RUNS, "ok") == 1


def test_one_start_per_interval(make: Make, clock: FakeClock) -> None:
    """Ten minutes are ten starts."""
    agents, runs = make(done(0, X_ANSWER))
    live(agents, clock, 600)
    assert len(runs.started) == 10


def test_an_answer_grows_old(make: Make, clock: FakeClock) -> None:
    """After three intervals without a new answer the old one is no longer shown."""
    agents, _ = make(done(0, X_ANSWER), done(255, SILENT))
    agents.ask_due()
    clock.advance(179)
    assert agents.values("0xa")
    clock.advance(2)
    assert agents.values("0xa") == {}


def test_values_of_the_driver_before_are_not_shown(make: Make) -> None:
    """A port made again starts from nothing, and is asked again at once
    although it refused before.
    """
    agents, runs = make(done(0, X_ANSWER), done(255, REFUSED), done(0, X_ANSWER))
    agents.ask_due()
    assert agents.values("0xa", "2") == {}
    agents._questions = (replace(PORT, epoch="2"),)
    agents.ask_due()
    agents._questions = (replace(PORT, epoch="3"),)
    agents.ask_due()
    assert len(runs.started) == 3
    assert agents.values("0xa", "3")


@pytest.mark.parametrize(
    "refusal",
    [
        done(255, REFUSED),
        done(2, ""),
        done(0, X_ANSWER.replace("ErrorCounter", "X").replace("Downed", "X")),
    ],
)
def test_what_is_not_supported_is_remembered(
    make: Make, clock: FakeClock, refusal: Finished
) -> None:
    """A set that the port refuses, or that holds nothing sysfs lacks, is not asked for again for
    hours, and is no failure.
    """
    agents, runs = make(refusal)
    live(agents, clock, 3600)
    assert len(runs.started) == 1
    assert agents.failures() == ()


def test_another_wish_is_asked_at_once(make: Make) -> None:
    """When sysfs saturates, the set that held nothing of interest before is asked again."""
    agents, runs = make(done(0, X_ANSWER))
    agents._questions = (replace(PORT, wanted={"-x": FEC}),)
    agents.ask_due()
    agents._questions = (replace(PORT, wanted={"-x": DATA}),)
    agents.ask_due()
    assert len(runs.started) == 2
    assert agents.values("0xa") == {"transmit_words": 1234567890123, "receive_words": 40320}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (done(255, SILENT), "perfquery_no_answer"),
        (done(0, "what?\n"), "perfquery_garbage"),
        (Finished(-9, b"", b"", timed_out=True), "perfquery_timeout"),
        (Finished(None, b"", b"", timed_out=True), "perfquery_timeout"),
    ],
)
def test_a_port_that_gives_no_answer_is_asked_ever_more_rarely(
    make: Make, clock: FakeClock, answer: Finished, reason: str
) -> None:
    """A day of silence is fewer than 40 questions, one reason and no values."""
    agents, runs = make(answer)
    live(agents, clock, 86_400)
    assert 24 <= len(runs.started) < 40
    assert agents.failures() == ((reason, "0xa"),)
    assert agents.values("0xa") == {}


@pytest.mark.parametrize(
    "answer",
    [X_ANSWER.replace("Lid 5", "Lid 6"), X_ANSWER.replace("port 1", "port 2"), X_ANSWER + X_ANSWER],
)
def test_an_answer_of_another_port_is_not_taken(make: Make, answer: str) -> None:
    """What another LID or port says, or two say at once, belongs to nobody here."""
    agents, _ = make(done(0, answer))
    agents.ask_due()
    assert agents.values("0xa") == {}
    assert agents.failures() == (("perfquery_garbage", "0xa"),)


def test_the_budget_holds_and_is_fair(make: Make, clock: FakeClock, metrics: SelfMetrics) -> None:
    """With more ports than starts, no minute sees more starts than the budget and
    every port has its turn.
    """
    questions = [Question(f"0x{i}", f"mlx5_{i}", 1, 0, {"-x": ERRORS}) for i in range(8)]
    agents, runs = make(done(0, X_ANSWER), questions=questions, per_minute=3)
    starts = [0]
    for _ in range(48):
        agents.ask_due()
        starts.append(len(runs.started))
        clock.advance(5)
    assert max(later - before for before, later in zip(starts, starts[12:], strict=False)) <= 3
    assert {argv[3] for argv in runs.started} == {f"mlx5_{i}" for i in range(8)}
    assert (metrics.value(PERFQUERY_RUNS, "over_budget") or 0) > 0


def test_a_missing_perfquery_is_said_once(
    make: Make, clock: FakeClock, caplog: pytest.LogCaptureFixture, metrics: SelfMetrics
) -> None:
    """No perfquery: one reason, one log line, tried ever more rarely; when it
    is installed it is used.
    """
    missing = FileNotFoundError(2, "No such file or directory")
    agents, _ = make(*[missing] * 7, done(0, X_ANSWER))
    with caplog.at_level(logging.INFO):
        live(agents, clock, 3600)
        assert agents.failures() == (("perfquery_missing", ""),)
        assert len([r for r in caplog.records if r.levelno == logging.WARNING]) == 1
        live(agents, clock, 4000)
    assert agents.failures() == ()
    assert agents.values("0xa")
    assert metrics.value(PERFQUERY_RUNS, "missing") == 7
    assert len(caplog.records) == 2


def test_failures_are_said_once_per_change(
    make: Make, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    """One line when a port falls silent, one when it answers again."""
    agents, _ = make(done(255, SILENT), done(255, SILENT), done(0, X_ANSWER))
    with caplog.at_level(logging.INFO):
        live(agents, clock, 600)
    assert [record.levelno for record in caplog.records] == [logging.WARNING, logging.INFO]


@pytest.mark.parametrize("answer", [done(255, SILENT), FileNotFoundError(2, "No such file")])
def test_a_port_that_is_not_asked_any_more_has_no_failure(
    make: Make, answer: Finished | OSError
) -> None:
    """It went down or was taken out: what it last answered says nothing about it now."""
    agents, _ = make(answer)
    agents.ask_due()
    assert agents.failures()
    agents._questions = ()
    assert agents.failures() == ()


def test_an_error_of_ours_reaches_the_reader(clock: FakeClock, metrics: SelfMetrics) -> None:
    """What goes wrong in the thread is raised where a guard counts it, and asking goes on."""
    agents = PerformanceAgents("perfquery", clock, metrics, run=Runs(done(0, X_ANSWER)))
    agents._run = lambda *_, **__: 1 / 0  # type: ignore[assignment]
    agents.ask([PORT])
    until(lambda: agents._asking is not None and agents._asking.done(), "the thread to have failed")
    with pytest.raises(ZeroDivisionError):
        agents.ask([PORT])
    agents.close()


def test_no_program_is_never_started(clock: FakeClock, metrics: SelfMetrics) -> None:
    """An empty name switches perfquery off."""
    runs = Runs(done(0, X_ANSWER))
    agents = PerformanceAgents("", clock, metrics, run=runs)
    agents.ask([PORT])
    agents.close()
    assert agents._asking is None
    assert runs.started == []


def script(path: Path, body: str) -> str:
    """An executable shell script in perfquery's place."""
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return str(path)


def whole(tmp_path: Path, clock: FakeClock, program: str, **settings: float) -> InfinibandSource:
    """The source with a program in perfquery's place."""
    inventory = Inventory("n1", State(None))
    return InfinibandSource(
        tmp_path / "sys",
        "n1",
        clock,
        inventory,
        SelfMetrics(),
        perfquery=program,
        **settings,  # type: ignore[arg-type]
    )


@pytest.mark.slow
def test_the_source_shows_what_perfquery_says(tmp_path: Path, clock: FakeClock) -> None:
    """64-bit errors stand beside the 16-bit ones, and a stuck 32-bit counter is
    replaced by the wide one.
    """
    Sysfs(tmp_path / "sys").add(
        counters={"symbol_errors": 65535, "transmit_words": 2**32 - 1, "receive_words": 17}
    )
    program = script(
        tmp_path / "perfquery",
        f'case $1 in -x) cat <<E\n{X_ANSWER}E\n;; *) echo "{REFUSED}"; exit 255;; esac',
    )
    source = whole(tmp_path, clock, program)

    def answered() -> bool:
        clock.advance(5)
        return source.read().frames[0].value("symbol_errors_extended", 0) is not None

    until(answered, "an answer of perfquery")
    frame = source.read().frames[0]
    assert frame.value("symbol_errors", 0) == 65535
    assert frame.value("symbol_errors_extended", 0) == 70000
    assert frame.value("transmit_words", 0) == 1234567890123
    assert frame.value("receive_words", 0) == 17
    source.close()


@pytest.mark.slow
def test_a_hanging_perfquery_delays_nobody(tmp_path: Path, clock: FakeClock) -> None:
    """Reads go on while perfquery hangs, it is ended by its deadline, and the reason is told."""
    Sysfs(tmp_path / "sys").add()
    source = whole(
        tmp_path, clock, script(tmp_path / "perfquery", "exec sleep 60"), perfquery_timeout_s=0.2
    )
    source.read()
    assert [t.name for t in threading.enumerate() if t.name.startswith("perfquery")]
    assert (
        source.read().frames[0].value("link_downed", 0) == 0
    )  # the thread still waits for the script

    def reported() -> bool:
        clock.advance(5)
        return any(u.reason == "perfquery_timeout" for u in source.read().unread)

    until(reported, "the deadline")
    source.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("layer", "state"),
    [
        ("Ethernet", "4: ACTIVE"),
        ("Unknown", "4: ACTIVE"),
        ("InfiniBand", "1: DOWN"),
        ("InfiniBand", "2: INIT"),
    ],
)
def test_only_active_infiniband_ports_are_asked(
    tmp_path: Path, clock: FakeClock, layer: str, state: str
) -> None:
    """A RoCE or EFA port has no performance agent, and one that is not active no LID to answer
    from.
    """
    tree = Sysfs(tmp_path / "sys")
    port = tree.add(layer=layer, guid=GUID)
    tree.write(port / "state", state)
    source = whole(tmp_path, clock, script(tmp_path / "perfquery", f"touch {tmp_path}/started"))
    source.read()
    assert source._agents._asking is None
    source.close()
