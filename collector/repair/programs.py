"""Programs of the node: each within a deadline, found in fixed folders, and without a shell."""

from __future__ import annotations

import shlex
import shutil

from pipeline import child

PATHS = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
MAX_BYTES, MAX_WORDS = 16 << 20, 300


class FailedError(Exception):
    """The program is missing, took too long, or exited with another code than 0."""


def output(*argv: str, deadline_s: float, path: str = PATHS) -> bytes:
    """Its standard output. FailedError."""
    program, shown = shutil.which(argv[0], path=path), shlex.join(argv)
    if program is None:
        raise FailedError(f"{argv[0]} is not installed")
    try:
        done = child.run([program, *argv[1:]], timeout_s=deadline_s, max_bytes=MAX_BYTES)
    except OSError as error:
        raise FailedError(f"{shown}: {error.strerror}") from error
    if done.timed_out:
        raise FailedError(f"{shown} took longer than {deadline_s:g} s")
    if done.returncode:
        words = " ".join((done.stderr + b" " + done.stdout).decode(errors="replace").split())
        raise FailedError(f"{shown} exited with {done.returncode}: {words[:MAX_WORDS]}".strip())
    return done.stdout


def failure(*argv: str, deadline_s: float, path: str = PATHS) -> str:
    """How it failed; empty where it did not."""
    try:
        output(*argv, deadline_s=deadline_s, path=path)
    except FailedError as error:
        return str(error)
    return ""
