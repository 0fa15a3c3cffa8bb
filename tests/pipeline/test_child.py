"""Commands with a deadline, and long-running children that may be killed at any time."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import pipeline
from pipeline import child
from pipeline.child import Child, python, run
from tests.wait import PATIENCE_S, until

BODY = "tests.pipeline.child_body"


def start(*arguments: str) -> Child:
    """A child that runs child_body."""
    return Child(python(BODY, *arguments))


def ended(one: Child) -> int:
    """Return code, once it has ended."""
    code = one.wait(PATIENCE_S)
    assert code is not None
    return code


@pytest.fixture
def echo() -> Iterator[Child]:
    """A child that answers in capitals."""
    one = start("echo")
    yield one
    one.kill()
    ended(one)


def test_what_is_sent_is_answered(echo: Child) -> None:
    """A child is spoken to over its pipes."""
    assert echo.send(b"hello")
    assert echo.receive(PATIENCE_S) == b"HELLO"


def test_silence_is_told_apart_from_the_end(echo: Child) -> None:
    """Nothing in time is None; a closed output is empty."""
    assert echo.receive(0.0) is None
    os.kill(echo.pid, signal.SIGKILL)
    assert echo.receive(PATIENCE_S) == b""


@pytest.mark.slow
def test_a_killed_child_ends_and_is_not_waited_for() -> None:
    """Killing returns at once and closes the pipes; the process ends by SIGKILL."""
    one = start("silent")
    assert one.wait(0.0) is None
    one.kill()
    assert not one.send(b"x")
    assert one.receive(PATIENCE_S) == b""
    assert ended(one) == -signal.SIGKILL
    assert not one.stuck
    one.kill()


@pytest.mark.slow
def test_a_killed_child_that_nobody_keeps_is_reaped(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that outlives its kill and its owner is no warning, and no zombie after the next."""
    one = start("silent")
    pid = one.pid
    with monkeypatch.context() as slow:
        slow.setattr("pipeline.child.os.killpg", lambda *_: None)
        one.kill()
    del one
    os.killpg(pid, signal.SIGKILL)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    other = start("silent")
    other.kill()
    with pytest.raises(ChildProcessError):
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
    ended(other)


@pytest.mark.slow
def test_a_child_that_survives_its_kill_is_stuck(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that outlives SIGKILL by the grace time is reported, until it ends after all."""
    one = start("silent")
    monkeypatch.setattr(child, "KILL_GRACE_S", -1.0)
    with monkeypatch.context() as kernel:
        kernel.setattr(os, "killpg", lambda group, number: None)
        one.kill()
        assert one.stuck
    one.kill()
    ended(one)
    assert not one.stuck


@pytest.mark.slow
def test_a_crash_is_a_return_code() -> None:
    """A child that ends by itself says how."""
    one = start("nonsense")
    assert one.receive(PATIENCE_S) == b""
    assert ended(one) == 3
    one.kill()


@pytest.mark.slow
def test_a_deaf_child_does_not_block_its_owner() -> None:
    """A full pipe is a refusal, not a wait."""
    one = start("silent")
    while one.send(b"x" * 65536):
        pass
    one.kill()
    ended(one)


@pytest.mark.slow
def test_a_child_that_is_bound_to_its_parent_ends_with_it() -> None:
    """Whoever is killed outright takes the children along that asked for it,
    and leaves nothing running.
    """
    middle = start("parent")
    grandchild = int(middle.receive(PATIENCE_S) or b"0")
    assert Path(f"/proc/{grandchild}").exists()
    middle.kill()
    until(lambda: not Path(f"/proc/{grandchild}").exists(), "the child of the child to end")
    ended(middle)


@pytest.mark.slow
def test_our_modules_are_found_wherever_it_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A `pipeline` in the working directory or in PYTHONPATH never takes the place of ours."""
    (tmp_path / "pipeline").mkdir()
    (tmp_path / "pipeline" / "__init__.py").write_text("raise SystemExit('the wrong one')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    one = start("where")
    assert one.receive(PATIENCE_S) == f"{pipeline.__file__}\n1".encode()
    one.kill()
    ended(one)


@pytest.mark.slow
def test_a_command_past_its_deadline_is_killed() -> None:
    """A command that never ends is ended, and says so."""
    finished = run(
        [sys.executable, "-c", "import signal; print('here', flush=True); signal.pause()"],
        timeout_s=0.5,
    )
    assert finished.timed_out
    assert finished.returncode == -signal.SIGKILL


@pytest.mark.slow
def test_a_command_gives_its_output_and_code() -> None:
    """Output, errors and code of a command that ends in time are kept apart."""
    finished = run(
        [
            sys.executable,
            "-c",
            "import sys; print('out'); print('err', file=sys.stderr); sys.exit(4)",
        ],
        timeout_s=PATIENCE_S,
    )
    assert (finished.returncode, finished.stdout, finished.stderr) == (4, b"out\n", b"err\n")


@pytest.mark.slow
def test_a_command_that_talks_without_end_is_cut_off() -> None:
    """Output is bounded, and the command that exceeds it is ended."""
    finished = run(
        [sys.executable, "-c", "while True: print('x' * 1000)"],
        timeout_s=PATIENCE_S,
        max_bytes=10_000,
    )
    assert finished.truncated
    assert len(finished.stdout) == 10_000
