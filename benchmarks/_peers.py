"""The databases that the store is measured beside: how they are started, filled and asked.

They run unprivileged on loopback.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from socket import create_server
from typing import Any

import numpy as np

YEAR_MS = 365 * 86_400_000
RETENTION = "100y"  # the simulated day may lie in any year


@dataclass(frozen=True, slots=True)
class Series:
    """One series: its name and labels, unix times in milliseconds and values, both (sample,)."""

    name: str
    labels: dict[str, str]
    times_ms: Any
    values: Any


class Peer:
    """A database server under measurement."""

    def __init__(self, process: subprocess.Popen[bytes], port: int) -> None:
        self._process, self._port = process, port

    def cpu_s(self) -> float:
        """CPU seconds of the process, threads that have ended included."""
        return time.clock_gettime((~self._process.pid << 3) | 2)

    def get(self, path: str, **arguments: str) -> bytes:
        """Answer of an HTTP request."""
        url = f"http://127.0.0.1:{self._port}{path}?{urllib.parse.urlencode(arguments)}"
        with urllib.request.urlopen(url, timeout=300) as answer:
            body: bytes = answer.read()
            return body

    def post(self, path: str, body: bytes) -> None:
        """Send a body."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self._port}{path}", data=body, method="POST"
        )
        urllib.request.urlopen(request, timeout=300).close()  # noqa: S310 - loopback

    def ask(self, query: str, *, at_s: float, **arguments: str) -> list[dict[str, Any]]:
        """Result of a PromQL question at an instant, or over a range where ``start`` is given."""
        ranged = "start" in arguments
        given = {
            "query": query,
            "nocache": "1",
            **({} if ranged else {"time": f"{at_s:.3f}"}),
            **arguments,
        }
        answer = json.loads(self.get("/api/v1/query_range" if ranged else "/api/v1/query", **given))
        assert answer["status"] == "success", answer
        found: list[dict[str, Any]] = answer["data"]["result"]
        return found


@contextmanager
def prometheus(data: Path) -> Iterator[Peer]:
    """Prometheus over a folder of blocks."""
    (data / "prometheus.yml").write_text("{}\n")
    argv = [
        _program("prometheus", "prometheus"),
        f"--config.file={data / 'prometheus.yml'}",
        f"--storage.tsdb.path={data}",
        f"--storage.tsdb.retention.time={RETENTION}",
        "--storage.tsdb.max-block-duration=100d",
        "--query.max-samples=200000000",
    ]
    with _server(argv, "--web.listen-address=127.0.0.1:{port}", "/-/ready") as peer:
        yield peer


@contextmanager
def victoria(data: Path) -> Iterator[Peer]:
    """VictoriaMetrics over an empty folder."""
    argv = [
        _program("victoria-metrics", "victoria-metrics"),
        f"-storageDataPath={data}",
        f"-retentionPeriod={RETENTION}",
    ]
    argv += [
        "-search.latencyOffset=0s",
        "-search.maxPointsPerTimeseries=1000000",
        "-search.maxSamplesPerQuery=1000000000",
    ]
    with _server(argv, "-httpListenAddr=127.0.0.1:{port}", "/health") as peer:
        yield peer


def write_openmetrics(series: Iterable[Series], path: Path) -> int:
    """A text that promtool makes blocks of; number of samples."""
    samples = 0
    with path.open("w") as file:
        for one in series:
            labels = ",".join(f'{name}="{value}"' for name, value in one.labels.items())
            head = f"{one.name}{{{labels}}} "
            times = (one.times_ms / 1000).tolist()
            file.writelines(
                f"{head}{value} {at:.3f}\n"
                for value, at in zip(one.values.tolist(), times, strict=True)
            )
            samples += len(times)
        file.write("# EOF\n")
    return samples


def create_blocks(text: Path, folder: Path) -> float:
    """Blocks of a text by promtool; its CPU seconds."""
    argv = [
        _program("promtool", "prometheus"),
        "tsdb",
        "create-blocks-from",
        "openmetrics",
        "--max-block-duration=48h",
        "-q",
        str(text),
        str(folder),
    ]
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL) as process:
        spent = 0.0
        while process.poll() is None:
            with suppress(OSError):
                spent = time.clock_gettime((~process.pid << 3) | 2)
            time.sleep(0.2)
        assert process.returncode == 0, "promtool failed"
    return spent


def import_json(peer: Peer, series: Iterable[Series]) -> None:
    """Send series to VictoriaMetrics, and have it flush and merge."""
    lines: list[str] = []
    for one in series:
        metric = {"__name__": one.name, **one.labels}
        lines.append(
            json.dumps(
                {
                    "metric": metric,
                    "values": one.values.tolist(),
                    "timestamps": one.times_ms.tolist(),
                }
            )
        )
        if len(lines) >= 64:
            peer.post("/api/v1/import", "\n".join(lines).encode())
            lines = []
    if lines:
        peer.post("/api/v1/import", "\n".join(lines).encode())
    peer.get("/internal/force_flush")
    peer.get("/internal/force_merge")
    settle(peer)


def settle(peer: Peer) -> None:
    """Wait until a server has nothing more to do of its own accord."""
    for _ in range(60):
        before = peer.cpu_s()
        time.sleep(1.0)
        if peer.cpu_s() - before < 0.05:
            return


def size_of(folder: Path) -> int:
    """Bytes of all files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def milliseconds(times_us: Any) -> Any:
    """Microseconds to milliseconds, as these databases keep time, a year earlier: VictoriaMetrics
    takes no samples of the future.
    """
    return np.asarray(times_us) // 1000 - YEAR_MS


def _program(name: str, package: str) -> str:
    path = shutil.which(name)
    if path is None:
        raise SystemExit(f"{name} is missing: apt-get install {package}")
    return path


@contextmanager
def _server(argv: list[str], listen: str, ready: str) -> Iterator[Peer]:
    with create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    process = subprocess.Popen(
        [*argv, listen.format(port=port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    peer = Peer(process, port)
    try:
        for _ in range(600):
            with suppress(OSError):
                peer.get(ready)
                break
            time.sleep(0.1)
        yield peer
    finally:
        process.terminate()
        process.wait(60)
