"""Starts, watches and ends child processes: the only home of process starting."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

KILL_GRACE_S = 1.0  # a process that survives SIGKILL this long is stuck in the kernel and is left alone


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
    most_bytes: int = 1 << 20,
    env: Mapping[str, str] | None = None,
    cwd: str | None = None,
) -> Finished:
    """Run a command without a shell, with a deadline and bounded output.

    Past the deadline its process group is killed; one that is stuck in the kernel is abandoned. Output beyond ``most_bytes`` ends
    the command too. FileNotFoundError or PermissionError where it cannot be started.
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
    out: dict[int, bytearray] = {process.stdout.fileno(): bytearray(), process.stderr.fileno(): bytearray()}
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
            truncated = sum(map(len, out.values())) > most_bytes
            timed_out = time.monotonic() >= deadline
    stdout, stderr = (bytes(data[:most_bytes]) for data in out.values())
    if not (timed_out or truncated):
        try:
            return Finished(process.wait(max(deadline - time.monotonic(), 0)), stdout, stderr)
        except subprocess.TimeoutExpired:
            timed_out = True
    return Finished(end(process), stdout, stderr, timed_out, truncated)


def follow(argv: Sequence[str], *, env: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
    """Start a command without a shell whose output is read as it comes: both its pipes are non-blocking. End it with ``end``.

    FileNotFoundError or PermissionError where it cannot be started.
    """
    process = subprocess.Popen(
        list(argv),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=None if env is None else dict(env),
        start_new_session=True,
        close_fds=True,
        bufsize=0,
    )
    for pipe in (process.stdout, process.stderr):
        assert pipe is not None  # noqa: S101 - PIPE was asked for
        os.set_blocking(pipe.fileno(), False)
    return process


def end(process: subprocess.Popen[bytes]) -> int | None:
    """Kill a process and its group; its return code, or None when it is stuck in the kernel and was abandoned."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError):
        process.kill()
    try:
        return process.wait(KILL_GRACE_S)
    except subprocess.TimeoutExpired:
        return None
