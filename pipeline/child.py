"""Starts, watches and ends child processes: the only home of process starting."""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

PR_SET_PDEATHSIG = 1
# a process that survives SIGKILL this long is stuck in the kernel and is left alone
KILL_GRACE_S = 1.0

# Killed, and not over yet. Kept until each is reaped, so that none is left as a zombie.
_ending: list[subprocess.Popen[bytes]] = []


@dataclass(frozen=True, slots=True)
class Finished:
    """How a command ended. ``returncode`` is None when it survived SIGKILL and was abandoned."""

    returncode: int | None
    stdout: bytes
    stderr: bytes
    timed_out: bool = False
    truncated: bool = False


def run(
    argv: Sequence[str],
    *,
    timeout_s: float,
    max_bytes: int = 1 << 20,
    env: Mapping[str, str] | None = None,
    cwd: str | None = None,
) -> Finished:
    """Run a command without a shell, with a deadline and bounded output.

    Past the deadline its process group is killed; one that is stuck in the kernel is abandoned.
    Output beyond ``max_bytes`` ends the command too. FileNotFoundError or PermissionError where it
    cannot be started.
    """
    process = subprocess.Popen(
        list(argv),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=None if env is None else dict(env),
        cwd=cwd,
        start_new_session=True,
        close_fds=True,
    )
    assert process.stdout is not None  # noqa: S101 - PIPE was asked for
    assert process.stderr is not None  # noqa: S101
    out: dict[int, bytearray] = {
        process.stdout.fileno(): bytearray(),
        process.stderr.fileno(): bytearray(),
    }
    deadline = time.monotonic() + timeout_s
    timed_out = truncated = False
    with selectors.DefaultSelector() as ready, process.stdout, process.stderr:
        for fd in out:
            ready.register(fd, selectors.EVENT_READ)
        while ready.get_map() and not (timed_out or truncated):
            left = deadline - time.monotonic()
            for key, _ in ready.select(max(left, 0)):
                chunk = os.read(key.fd, 65536)
                if not chunk:
                    ready.unregister(key.fd)
                out[key.fd] += chunk
            truncated = sum(map(len, out.values())) > max_bytes
            timed_out = time.monotonic() >= deadline
    stdout, stderr = (bytes(data[:max_bytes]) for data in out.values())
    if not (timed_out or truncated):
        try:
            return Finished(process.wait(max(deadline - time.monotonic(), 0)), stdout, stderr)
        except subprocess.TimeoutExpired:
            timed_out = True
    return Finished(end(process), stdout, stderr, timed_out, truncated)


def end(process: subprocess.Popen[bytes]) -> int | None:
    """Kill a process and its group; its return code, or None when it is stuck in the
    kernel and was abandoned.
    """
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError):
        process.kill()
    try:
        return process.wait(KILL_GRACE_S)
    except subprocess.TimeoutExpired:
        _reap_later(process)
        return None


def _reap_later(process: subprocess.Popen[bytes]) -> None:
    """Keep a killed process until it is over, and let go of those that are."""
    _ending[:] = [each for each in (*_ending, process) if each.poll() is None]


# Isolated (-I): neither the working directory nor PYTHON* variables can put another `pipeline` or
# `collector` before ours.
_BOOTSTRAP = (
    "import importlib, sys; sys.path.insert(0, sys.argv[1]); "
    "importlib.import_module(sys.argv[2]).main(sys.argv[3:])"
)


def python(module: str, *arguments: str) -> list[str]:
    """Command line that calls ``main(arguments)`` of one of our modules in a fresh
    interpreter, installed or not.
    """
    return [
        sys.executable,
        "-I",
        "-c",
        _BOOTSTRAP,
        str(Path(__file__).resolve().parents[1]),
        module,
        *arguments,
    ]


def end_with_parent() -> None:
    """Called in a child: the kernel kills it when the thread that started it ends, however that
    ended (prctl(2), PR_SET_PDEATHSIG).
    """
    parent = os.getppid()
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before it could be watched
        sys.exit(1)


class Child:
    """A long-running process that is spoken to over pipes and may be killed at any time.

    Nothing here waits for the process: ``receive`` has its own deadline, ``kill`` returns at once,
    and a process that is stuck in the kernel is reported by ``stuck`` for its owner to count. Its
    standard error is dropped, or written to the descriptor ``errors``.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        pass_fds: Sequence[int] = (),
        errors: int = subprocess.DEVNULL,
    ) -> None:
        self._process = subprocess.Popen(
            list(argv),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=None if env is None else dict(env),
            start_new_session=True,
            close_fds=True,
            pass_fds=tuple(pass_fds),
            bufsize=0,
        )
        assert self._process.stdin is not None  # noqa: S101 - PIPE was asked for
        assert self._process.stdout is not None  # noqa: S101
        self._stdin, self._stdout = self._process.stdin, self._process.stdout
        os.set_blocking(self._stdin.fileno(), False)
        self._ready = select.poll()
        self._ready.register(self._stdout.fileno(), select.POLLIN)
        self._killed_at = 0.0

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    def send(self, data: bytes) -> bool:
        """Write to its standard input; False where it no longer listens or its pipe is full."""
        try:
            return self._stdin.write(data) == len(data)
        except (OSError, ValueError):
            return False

    def send_all(self, data: bytes, timeout_s: float) -> bool:
        """Write all of it, waiting for room in the pipe; False where that took too long, or it no
        longer listens.
        """
        end_s, left = time.monotonic() + timeout_s, memoryview(data)
        room = select.poll()
        try:
            room.register(self._stdin.fileno(), select.POLLOUT)
            while left:
                if not room.poll(max(end_s - time.monotonic(), 0.0) * 1000):
                    return False
                left = left[os.write(self._stdin.fileno(), left[:65536]) :]
        except (OSError, ValueError):
            return False
        return True

    def receive(self, timeout_s: float, max_bytes: int = 1 << 18) -> bytes | None:
        """What it wrote, as soon as there is anything; None where nothing came in time, empty
        once its output is closed.
        """
        try:
            if not self._ready.poll(max(timeout_s, 0.0) * 1000):
                return None
            return os.read(self._stdout.fileno(), max_bytes)
        except (OSError, ValueError):
            return b""

    def poll(self) -> int | None:
        """Return code, None while it lives; negative is the signal that ended it."""
        return self._process.poll()

    def wait(self, timeout_s: float) -> int | None:
        """Return code as soon as it has ended, None where it lives longer than that."""
        try:
            return self._process.wait(max(timeout_s, 0.0))
        except subprocess.TimeoutExpired:
            return None

    def kill(self) -> None:
        """Kill it and its group and close the pipes; it may outlive this for a while,
        or forever in the kernel.
        """
        if not self._killed_at:
            self._killed_at = time.monotonic()
        for pipe in (self._stdin, self._stdout):
            with contextlib.suppress(OSError):
                pipe.close()
        if self._process.poll() is None:  # afterwards the number may be another's
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            _reap_later(self._process)

    @property
    def stuck(self) -> bool:
        """True where it survived SIGKILL for longer than KILL_GRACE_S."""
        return (
            bool(self._killed_at)
            and self.poll() is None
            and time.monotonic() - self._killed_at > KILL_GRACE_S
        )
