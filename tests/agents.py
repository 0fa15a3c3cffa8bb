"""A real agent process on a free port, for tests that look at it from outside."""

from __future__ import annotations

import os
import re
import signal
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import TypeVar

from tests.servers import Server
from tests.sources import ROOT
from tests.wait import PATIENCE_S, until

PROGRAM = "import sys; from collector.cli import main; sys.exit(main(sys.argv[1:]))"
T = TypeVar("T")
_LIVES = count(1)
LISTENING = re.compile(r"listening on https?://([^/\s\"]+)")


class AgentProcess:
    """``tocsin agent``, or another command that serves, with its log in a file; an empty address
    leaves the choice to ``arguments``.

    Use as a context: it is ended whatever happens.
    """

    def __init__(
        self,
        storage: Path,
        *arguments: str,
        environ: Mapping[str, str] | None = None,
        address: str = "127.0.0.1:0",
        log_path: Path | None = None,
        command: str = "agent",
        program: str = PROGRAM,
    ) -> None:
        self.storage = storage
        self.log_path = log_path or storage.with_name(f"{storage.name}-{next(_LIVES)}.log")
        listen = ["--web.listen-address", address] if address else []
        argv = [
            sys.executable,
            "-c",
            program,
            command,
            "--storage.path",
            str(storage),
            *listen,
            *arguments,
        ]
        # A test's environment says everything: no counters file or node name
        # of the machine it runs on.
        env = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(ROOT),
            "NODE_NAME": "n1",
            **(environ or {}),
        }
        self._server = Server(argv, self.log_path, name="the agent", env=env, cwd=storage.parent)
        self.process = self._server.process

    def __enter__(self) -> AgentProcess:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(PATIENCE_S)

    def death(self) -> str:
        """How it ended, with the tail of its log; empty while it runs."""
        return self._server.death()

    def until(self, condition: Callable[[], T], what: str) -> T:
        """Return the first true answer of ``condition``; AssertionError at once
        when the agent has ended.
        """
        return until(condition, what, servers=[self])

    @property
    def log(self) -> str:
        """Everything it said so far."""
        return self.log_path.read_text(encoding="utf-8", errors="replace")

    @property
    def address(self) -> str:
        """Where it listens, the last time it said so."""
        self.until(lambda: LISTENING.search(self.log), "the agent to listen")
        found: list[str] = LISTENING.findall(self.log)
        return found[-1]

    def get(self, path: str = "/metrics") -> tuple[int, str]:
        """Status and body."""
        try:
            with urllib.request.urlopen(
                f"http://{self.address}{path}", timeout=PATIENCE_S
            ) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except urllib.error.URLError:
            assert not (death := self.death()), death
            raise

    def values(self, name: str) -> dict[str, float]:
        """Series of a family: text between the braces to value."""
        rows = re.findall(rf"^{name}(?:{{(.*)}})? (\S+)$", self.get()[1], re.MULTILINE)
        return {labels: float(value) for labels, value in rows}

    def ready(self) -> AgentProcess:
        """Once every source has given something."""
        self.until(lambda: self.get("/-/ready")[0] == 200, "the agent to be ready")
        return self

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Exit code after a signal."""
        self.process.send_signal(number)
        return self.process.wait(PATIENCE_S)

    def children(self) -> Sequence[int]:
        """Process ids of its children."""
        tasks = Path(f"/proc/{self.process.pid}/task").iterdir()
        return [
            int(pid)
            for task in tasks
            for pid in (task / "children").read_text(encoding="ascii").split()
        ]
