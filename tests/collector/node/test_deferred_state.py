"""State behind a queue: who saves does not wait for the disk."""

from __future__ import annotations

import os
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from collector.node.deferred_state import DeferredState
from collector.node.out_of_service import OutOfService
from collector.node.state import State
from collector.sources.kmsg.bookmark import LAG_NS, Bookmark
from pipeline.observation import Event
from pipeline.outlet import Outlet
from pipeline.selfmetrics import SelfMetrics
from tests.fakes import FakeClock, gpu, observed
from tests.wait import PATIENCE_S


def test_the_newest_of_each_document_is_saved_by_a_write(tmp_path: Path) -> None:
    """Until then it is not on the disk, but who loads it has it."""
    state = DeferredState(tmp_path)
    for n in range(3):
        state.save("a", {"n": n})
    state.save("b", {"n": 7})
    assert (state.load("a"), State(tmp_path).load("a")) == ({"n": 2}, {})
    assert state.pending == ["a", "b"]
    state.write()
    assert [State(tmp_path).load(name) for name in "ab"] == [{"n": 2}, {"n": 7}]
    assert (state.pending, state.load("c")) == ([], {})


def test_what_the_disk_refused_is_saved_when_it_closes(tmp_path: Path) -> None:
    """A file in the place of the folder stands for the full disk."""
    folder = tmp_path / "state"
    folder.write_text("")
    state = DeferredState(folder)
    state.save("a", {"n": 1})
    state.write()
    assert state.pending == ["a"]
    folder.unlink()
    state.close()
    assert State(folder).load("a") == {"n": 1}


def test_a_newer_document_wins_over_one_that_the_disk_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old one does not come back, though it was refused after the newer one came."""
    state = DeferredState(tmp_path)

    def refuse(_one: State, name: str, _document: dict[str, Any]) -> bool:
        state.save(name, {"n": 2})
        return False

    with monkeypatch.context() as refusing:
        refusing.setattr(State, "save", refuse)
        state.save("a", {"n": 1})
        state.write()
    state.write()
    assert (State(tmp_path).load("a"), state.pending) == ({"n": 2}, [])


def test_a_document_is_saved_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write after which nothing changed costs the disk nothing."""
    saved: list[str] = []

    def save(_one: State, name: str, _document: dict[str, Any]) -> bool:
        saved.append(name)
        return True

    state = DeferredState(tmp_path)
    state.save("a", {"n": 1})
    monkeypatch.setattr(State, "save", save)
    state.write()
    state.write()
    assert saved == ["a"]


def test_a_disk_that_hangs_delays_neither_maintenance_nor_the_kernel_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both are called where readings would wait: under the engine's lock, and in a lane."""
    hangs, goes_on = threading.Event(), threading.Event()

    def fsync(_: int) -> None:
        hangs.set()
        goes_on.wait(PATIENCE_S)

    monkeypatch.setattr(os, "fsync", fsync)
    clock, state = FakeClock(), DeferredState(tmp_path)
    outlet = Outlet(state, SelfMetrics(), clock)
    outlet.start()
    out, bookmark = OutOfService("n1", state, SelfMetrics()), Bookmark(state)
    begun = Event(0, 0, gpu(), "maintenance_started", {"reason": "cordoned"})
    for n in range(3):
        seen = replace(observed(clock, seq=n), events=(begun,))
        out.write(seen)
        bookmark.set({"time_ns": n}, n * LAG_NS)
        bookmark.save_due((n + 1) * LAG_NS)
        outlet.write(seen, ())
        assert hangs.wait(PATIENCE_S)
    assert State(tmp_path).load("kernel_log") == {}
    goes_on.set()
    assert outlet.close(PATIENCE_S) == 0
    assert State(tmp_path).load("kernel_log") == {"time_ns": 2}
    assert [row["reason"] for row in State(tmp_path).load("maintenance")["out"]] == ["cordoned"]
