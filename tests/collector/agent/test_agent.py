"""The agent's parts together, with no thread of theirs started but the engine's."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from collector.agent.agent import Agent
from collector.agent.environment import simulated
from collector.agent.notify import Notifier
from collector.config.settings import Config, Log
from detectors.kit import snapshot
from pipeline.catalog.agent import SOURCE_LAST_SUCCESS
from pipeline.observation import Event
from tests.fakes import gpu

SAID = Event(0, 0, gpu(), "maintenance_started", {"reason": "cordoned", "user": "ada"})


class FakeWeb:
    """A server that listens nowhere."""

    health_bound: tuple[str, ...] = ()

    async def start(self) -> list[str]:
        return []

    async def stop(self) -> None:
        pass


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    """One of a simulated node that is not there."""
    config = Config()
    config = msgspec.structs.replace(
        config, storage=msgspec.structs.replace(config.storage, path=str(tmp_path / "store"))
    )
    environment = simulated(tmp_path / "node", "hgx-h100", {"NODE_NAME": "n1"})
    made = Agent(config, lambda: config, Notifier({}), environment, None)
    yield made
    made._engine.close()


@pytest.mark.slow  # an engine that starts starts the driver's process
def test_what_is_said_during_a_reload_reaches_an_engine_that_remembers_or_is_to_be_said_again(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the memory is there nothing is taken; after it numbers go on where they ended."""
    answers: list[bool] = []

    def load(*memory: Any) -> object:
        answers.append(agent._publish([SAID]))
        return snapshot.load(*memory)

    monkeypatch.setattr("collector.agent.agent.load", load)
    assert agent._publish([SAID])
    before = agent._engine.seq
    engine, dialect = agent._build(agent._config)
    asyncio.run(agent._swap(agent._config, engine, dialect, agent._web))
    assert answers == [False]
    assert agent._publish([SAID])
    assert agent._engine is engine
    assert engine.seq > before


def test_what_operators_say_waits_for_no_disk(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is synced in the thread that publishes, which holds the engine's lock."""
    synced: list[int] = []
    monkeypatch.setattr("os.fsync", lambda _: synced.append(threading.get_ident()))
    assert agent._publish([SAID])
    assert agent._runtime.state.pending == ["maintenance"]
    agent._runtime.state.write()
    assert agent._runtime.state.pending == []
    assert len(synced) == 1


@pytest.mark.slow  # an engine that starts starts the driver's process
def test_a_source_that_a_reload_switches_off_leaves_no_series(agent: Agent) -> None:
    """Its last success, which no read renews, would be an alert after ten minutes."""
    metrics, config = agent._runtime.metrics, agent._config
    for name in ("infiniband", "host"):
        metrics.set(SOURCE_LAST_SUCCESS, 1.0, name)
    off = msgspec.structs.replace(config.sources.infiniband, enabled=False)
    sources = msgspec.structs.replace(config.sources, infiniband=off)
    config = msgspec.structs.replace(config, sources=sources)
    asyncio.run(agent._swap(config, *agent._build(config), agent._web))
    assert metrics.value(SOURCE_LAST_SUCCESS, "infiniband") is None
    assert metrics.value(SOURCE_LAST_SUCCESS, "host") is not None


@pytest.mark.slow  # an engine that starts starts the driver's process
def test_a_reload_sets_the_level_and_the_form_of_the_log(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only where they changed."""
    made: list[Log] = []
    monkeypatch.setattr(agent, "_set_up_log", made.append)
    louder = msgspec.structs.replace(agent._config.log, level="debug")
    config = msgspec.structs.replace(agent._config, log=louder)
    for _ in range(2):
        asyncio.run(agent._swap(config, *agent._build(config), agent._web))
    assert made == [louder]


def test_a_signal_during_the_start_is_not_lost(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither does SIGHUP end the process, nor is SIGTERM forgotten while memory is read."""
    followed: list[object] = []

    def remember(*_: object) -> bool:
        followed.extend(map(signal.getsignal, (signal.SIGHUP, signal.SIGTERM)))
        raise SystemExit

    monkeypatch.setattr(agent, "_web", FakeWeb())
    monkeypatch.setattr(agent._runtime, "remember", remember)
    with pytest.raises(SystemExit):
        asyncio.run(agent.run())
    assert len(followed) == 2
    assert signal.SIG_DFL not in followed


def test_a_reload_that_names_a_file_is_one_reload(
    agent: Agent, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Another one for the file that it has just read would leave the GPUs unread twice."""
    file = tmp_path / "counters.csv"
    file.write_text("", encoding="utf-8")
    exposition = msgspec.structs.replace(agent._config.exposition, counters_file=str(file))
    reloads: list[float] = []
    rounds = iter(("asked", "read", "touched", "end"))

    async def reload() -> bool:
        reloads.append(file.stat().st_mtime)
        agent._config = msgspec.structs.replace(agent._config, exposition=exposition)
        return True

    def watch() -> None:
        match next(rounds):
            case "touched":
                os.utime(file, (1, 1))
            case "end":
                agent._stop.set()

    monkeypatch.setattr("collector.agent.agent.WATCH_S", 0.0)
    monkeypatch.setattr(agent, "_reload", reload)
    monkeypatch.setattr(agent._operators, "watch", watch)
    agent._ask()
    asyncio.run(agent._watch())
    assert len(reloads) == 2
    assert reloads[-1] == 1
