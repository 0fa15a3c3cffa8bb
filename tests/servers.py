"""Real servers that tests start in the foreground, and how each is ended."""

from __future__ import annotations

import subprocess


def end(process: subprocess.Popen[bytes]) -> None:
    """End a server, whatever it does: asked first, then killed."""
    process.terminate()
    try:
        process.wait(15)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(5)
