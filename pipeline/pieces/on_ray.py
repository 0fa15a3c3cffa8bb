"""Pieces over a Ray cluster: the only home of ray, which is loaded where it is asked for.

Ray gives a piece to another worker where one dies, as often as `interface.RETRIES`.
"""

from __future__ import annotations

import importlib
import logging
import os
import socket
import traceback
from collections.abc import Callable, Generator, Sequence
from typing import Any

from pipeline.extras import how_to_add
from pipeline.pieces import about
from pipeline.pieces.interface import RETRIES, A, Done, Piece, PiecesError, R, called

CONNECT_S = 5.0
CHECK_S = 120.0  # until each node has started a worker and imported ours
AUTO = "auto"


class RayCluster:
    """The cluster at an address: HOST:PORT of its head for a machine of the cluster,
    ray://HOST:PORT from outside, or auto.

    PiecesError says in one line what is wrong: no ray here, nobody at the address, another version
    of Ray or Python there, or another Tocsin on one of its nodes.
    """

    def __init__(self, address: str) -> None:
        # Ray reports its use to its makers unless this forbids it.
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        # A GPU of the cluster is none of ours, and Ray would hide it with a warning.
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        # Twenty attempts by default, of half a minute each, with one that does not answer.
        os.environ.setdefault("RAY_NUM_REDIS_GET_RETRIES", "1")
        try:
            self._ray: Any = importlib.import_module("ray")
        except ModuleNotFoundError as error:
            raise PiecesError(
                f"--ray needs {error.name}: {how_to_add('ray')}, here and on the cluster"
            ) from None
        self._connect(address)
        # Ray prints what became of its processes to our standard output, whatever `log_to_driver`
        # is (listen_error_messages of ray 2.60): it would be among the lines of a command.
        vars(importlib.import_module("ray._private.worker"))["_worker_logs_enabled"] = False
        try:
            self.slots = max(1, int(self._ray.cluster_resources().get("CPU", 1)))
            self._check()
        except BaseException:
            self._ray.shutdown()
            raise

    def close(self) -> None:
        """Leave the cluster; pieces of ours that run there end."""
        self._ray.shutdown()

    def run(
        self, work: Callable[[A], R], pieces: Sequence[Piece[A]]
    ) -> Generator[Done[R], None, None]:
        """As the interface says; one CPU of the cluster for each piece."""
        ray = self._ray
        task = ray.remote(num_cpus=1, max_retries=RETRIES)(called)
        running = {task.remote(work, one.argument): number for number, one in enumerate(pieces)}
        try:
            while running:
                (ended,), _ = ray.wait(list(running), num_returns=1)
                yield self._done(running.pop(ended), ended)
        finally:
            for left in running:
                ray.cancel(left, force=True)

    def _done(self, number: int, ended: Any) -> Done[Any]:
        try:
            return Done(number, *self._ray.get(ended))
        except self._ray.exceptions.RayTaskError as error:
            return Done(number, None, error=_last_line(error.cause or error))
        except self._ray.exceptions.RayError as error:
            return Done(number, None, error=f"{type(error).__name__}: {_sentence(error)}")

    def _connect(self, address: str) -> None:
        host, colon, port = address.removeprefix("ray://").rpartition(":")
        if address != AUTO:
            if not (colon and host and port.isdecimal() and 0 < int(port) < 65536):
                raise PiecesError(f"--ray {address}: expected HOST:PORT, ray://HOST:PORT or {AUTO}")
            try:  # Ray itself would try for minutes
                socket.create_connection((host.strip("[]"), int(port)), CONNECT_S).close()
            except OSError as error:
                raise PiecesError(f"--ray {address}: {error.strerror or error}") from None
        logging.getLogger("ray").setLevel(logging.CRITICAL)  # it is said in one line
        try:
            self._ray.init(address=address, log_to_driver=False, logging_level=logging.CRITICAL)
        except (ConnectionError, RuntimeError, ValueError, ImportError, OSError) as error:
            raise PiecesError(f"--ray {address}: {_sentence(error)}") from None

    def _check(self) -> None:
        """Every node has what is here: else results would differ."""
        ray, own = self._ray, about.versions()
        on_node = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy

        def there() -> dict[str, str]:  # inside: so that it is sent, where ours is not installed
            import importlib  # noqa: PLC0415

            try:
                found: dict[str, str] = importlib.import_module("pipeline.pieces.about").versions()
            except ImportError as error:
                return {"error": str(error)}
            return found

        nodes = {
            ray.remote(num_cpus=0, scheduling_strategy=on_node(node["NodeID"], soft=False))(
                there
            ).remote(): node["NodeManagerAddress"]
            for node in ray.nodes()
            if node["Alive"] and node["Resources"].get("CPU")
        }
        for asked, address in nodes.items():
            try:
                found = ray.get(asked, timeout=CHECK_S)
            except ray.exceptions.RayError as error:
                raise PiecesError(f"--ray: node {address}: {_sentence(error)}") from None
            if wrong := about.difference(own, found):
                raise PiecesError(f"--ray: node {address} {wrong}")


def _last_line(error: BaseException) -> str:
    return "".join(traceback.format_exception_only(error)).strip()


def _sentence(error: BaseException) -> str:
    r"""What Ray says, on one line.

    >>> _sentence(RuntimeError("Version mismatch:\n    Ray: 1\n    Python: 3\n"))
    'Version mismatch: Ray: 1 Python: 3'
    """
    return " ".join(str(error).split()) or type(error).__name__
