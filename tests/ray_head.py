"""A real Ray cluster of one node: `ray start` of the package ray, on free ports."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from tests.servers import Server
from tests.wait import until

PROGRAM = Path(sys.executable).with_name("ray")
# No token between parts of one test, and nothing is reported to Ray's makers.
QUIET = {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}
STARTED = re.compile(r"--address='([^']+)'")
ATTEMPTS = 5  # Ray gives itself 15 s to start, which a busy machine does not have (ray issue 65983)


class RayHead:
    """The cluster, with so many CPUs: a worker process for each. A context; ``address`` is where
    it is reached.
    """

    def __init__(self, cpus: int) -> None:
        self._cpus, self._stack, self.address = cpus, ExitStack(), ""

    def __enter__(self) -> RayHead:
        for _ in range(ATTEMPTS):
            # Sockets are below it: a path of pytest's would be too long.
            folder = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="ray-"))
            server = self._stack.enter_context(self._server(Path(folder)))
            until(partial(_settled, server), "ray")
            if found := STARTED.search(server.log):
                self.address = found[1]
                return self
        self._stack.close()
        raise AssertionError(f"ray did not start in {ATTEMPTS} attempts: {server.log}")

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _server(self, folder: Path) -> Server:
        argv = ["start", "--head", "--block", "--port=0", f"--num-cpus={self._cpus}"]
        argv += ["--include-dashboard=false", f"--temp-dir={folder}"]
        argv += ["--object-store-memory=80000000", "--disable-usage-stats"]
        environ = os.environ | QUIET
        return Server([str(PROGRAM), *argv], folder / "head.log", name="ray", env=environ)


def _settled(server: Server) -> bool:
    return bool(STARTED.search(server.log) or server.death())
