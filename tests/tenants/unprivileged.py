"""The helper and an agent that needs it, as real processes: each with a user id of its own, the
helper with these capabilities and no other, the agent with none.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.parts import need
from tests.sources import ROOT
from tests.wait import PATIENCE_S, until

HELPER, AGENT = 64_001, 64_002
CAPABILITIES = ("sys_ptrace", "dac_read_search")
READER = """
import json, sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from collector.node.helper import protocol
protocol.SOCKET = Path(sys.argv[2])
given = json.loads(sys.argv[3])
{code}
"""

FLOOD = """
import os, socket, sys
print("begun", flush=True)
while os.getppid() == int(sys.argv[2]):
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.connect(sys.argv[1])
"""


def as_user(user: int, *capabilities: str) -> list[str]:
    """The words before a command that make it run as a user with these capabilities and no other,
    which it can never get back.
    """
    kept = "".join(f",+{name}" for name in capabilities)
    return [
        need("setpriv", "util-linux"),
        f"--reuid={user}",
        f"--regid={user}",
        "--clear-groups",
        f"--inh-caps=-all{kept}",
        f"--ambient-caps=-all{kept}",
        f"--bounding-set=-all{kept}",
        "--no-new-privs",
        "--",
    ]


class RunningHelper:
    """A helper that listens in a folder of its own; end it with ``close``."""

    def __init__(self, folder: Path, *capabilities: str) -> None:
        folder.mkdir(mode=0o755)
        self.socket = folder / "socket"
        subprocess.run(["chown", str(HELPER), str(folder)], check=True)
        arguments = ["helper", "--user", str(AGENT), "--socket", str(self.socket)]
        self._process = subprocess.Popen(
            [*as_user(HELPER, *(capabilities or CAPABILITIES)), *_tocsin(), *arguments],
            stdin=subprocess.DEVNULL,
        )
        until(lambda: self.socket.exists() or self._process.poll() is not None, "the helper")

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def close(self) -> None:
        """Stop it as a service manager does."""
        self._process.terminate()
        assert self._process.wait(PATIENCE_S) == 0

    def asked(self, code: str, given: dict[str, Any], user: int = AGENT) -> Any:
        """What a program without any capability prints as JSON; ``given`` is a name of it."""
        return run_as(user, code, given, self.socket)


def run_as(user: int, code: str, given: dict[str, Any], socket: Path) -> Any:
    """As ``RunningHelper.asked``, with or without a helper at this socket."""
    program = READER.format(code=code)
    arguments = [str(ROOT), str(socket), json.dumps(given)]
    done = subprocess.run(
        [*as_user(user), sys.executable, "-I", "-c", program, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@contextmanager
def flooding(user: int, socket: Path) -> Iterator[None]:
    """A process of a user that connects all the time, and asks nothing."""
    argv = [sys.executable, "-I", "-S", "-c", FLOOD, str(socket), str(os.getpid())]
    with subprocess.Popen([*as_user(user), *argv], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"
        yield
        process.kill()


def _tocsin() -> list[str]:
    program = (
        "import sys; sys.path.insert(0, sys.argv.pop(1)); from collector.cli.main import main; "
    )
    return [sys.executable, "-I", "-c", f"{program}sys.exit(main())", str(ROOT)]
