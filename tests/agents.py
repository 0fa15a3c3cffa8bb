"""A real agent process on a free port, for tests that look at it from outside."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path

from tests.sources import ROOT
from tests.wait import until

PROGRAM = "import sys; from collector.cli import main; sys.exit(main(sys.argv[1:]))"
_LIVES = count(1)
LISTENING = re.compile(r"listening on https?://([^/\s\"]+)")


class AgentProcess:
    """``tocsin agent`` with its log in a file; an empty address leaves the choice to ``arguments``. Use as a context: it is ended whatever happens."""

    def __init__(
        self, storage: Path, *arguments: str, environ: Mapping[str, str] | None = None, address: str = "127.0.0.1:0"
    ) -> None:
        self.storage = storage
        self.log_path = storage.with_name(f"{storage.name}-{next(_LIVES)}.log")
        listen = ["--web.listen-address", address] if address else []
        argv = [sys.executable, "-c", PROGRAM, "agent", "--storage.path", str(storage), *listen, *arguments]
        # A test's environment says everything: no counters file or node name of the machine it runs on.
        env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "NODE_NAME": "n1", **(environ or {})}
        with self.log_path.open("wb") as log:
            self.process = subprocess.Popen(argv, stdout=log, stderr=log, env=env, cwd=storage.parent)

    def __enter__(self) -> AgentProcess:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(30)

    @property
    def log(self) -> str:
        """Everything it said so far."""
        return self.log_path.read_text(encoding="utf-8", errors="replace")

    @property
    def address(self) -> str:
        """Where it listens, the last time it said so."""
        until(lambda: LISTENING.search(self.log) or self.process.poll() is not None, what="the agent to listen")
        found: list[str] = LISTENING.findall(self.log)
        assert found, self.log
        return found[-1]

    def get(self, path: str = "/metrics") -> tuple[int, str]:
        """Status and body."""
        try:
            with urllib.request.urlopen(f"http://{self.address}{path}", timeout=20) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def values(self, name: str) -> dict[str, float]:
        """Series of a family: text between the braces to value."""
        rows = re.findall(rf"^{name}(?:{{(.*)}})? (\S+)$", self.get()[1], re.MULTILINE)
        return {labels: float(value) for labels, value in rows}

    def ready(self) -> AgentProcess:
        """Once every source has given something."""
        until(lambda: self.get("/-/ready")[0] == 200, what="the agent to be ready", seconds=60)
        return self

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Exit code after a signal."""
        self.process.send_signal(number)
        return self.process.wait(60)

    def children(self) -> Sequence[int]:
        """Process ids of its children."""
        tasks = Path(f"/proc/{self.process.pid}/task").iterdir()
        return [int(pid) for task in tasks for pid in (task / "children").read_text(encoding="ascii").split()]
