"""What a scrape costs: rendering against prometheus_client, serving against Debian's
node_exporter with as many series.

Both sides of a ratio are measured in the same run, interleaved. CPU is that of the process,
exited threads included.
"""

from __future__ import annotations

import gzip
import http.client
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from socket import create_server

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.parser import text_string_to_metric_families

from benchmarks._node import Rotation, exposition
from tests.parts import need

RENDER_GOAL, COLD_GOAL, MEMORY_GOAL = 0.10, 0.12, 2.6
ROUNDS, RENDERS = 9, 20
COLD_SCRAPES, COLD_PAUSE_S = 30, 0.4
BUSY_SCRAPES, BUSY_PAUSE_S = 200, 0.02


class Peer:
    """A custom collector of prometheus_client that yields the families of a page."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = list(families)

    def collect(self) -> Iterator[Metric]:
        """The families again, as a collector builds them from the state of the moment."""
        for family in self._families:
            made = GaugeMetricFamily(
                family.name, family.documentation, labels=list(family.samples[0].labels)
            )
            for sample in family.samples:
                made.add_metric(list(sample.labels.values()), sample.value)
            yield made


def microseconds(work: Callable[[], object], prepare: Callable[[], object]) -> float:
    """CPU time of one call, the least over several rounds, ``prepare`` left out."""
    costs = []
    for _ in range(ROUNDS):
        spent = 0
        for _ in range(RENDERS):
            prepare()
            start = time.process_time_ns()
            work()
            spent += time.process_time_ns() - start
        costs.append(spent / RENDERS / 1000)
    return min(costs)


def values_of(text: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Samples of a page: whatever the order of labels and lines."""
    families = text_string_to_metric_families(text)
    return {
        (s.name, frozenset(s.labels.items())): s.value
        for family in families
        for s in family.samples
    }


def render() -> float:
    """Ratio of a rendering with all values new, to the client's of the same values."""
    page = exposition(dialect=False)
    page.write(Rotation(changing=1).observation(), ())
    text = page.render().decode()
    gauges = re.sub(
        r"^# TYPE (\S+) \w+$", r"# TYPE \1 gauge", text, flags=re.MULTILINE
    )  # one kind of family on both sides
    registry = CollectorRegistry()
    registry.register(Peer(text_string_to_metric_families(gauges)))
    assert values_of(generate_latest(registry).decode()) == values_of(gauges), (
        "the two pages differ"
    )
    theirs = microseconds(lambda: generate_latest(registry), lambda: None)
    print(
        f"render, {len(values_of(gauges))} series, {len(text)} bytes: "
        f"prometheus_client {theirs:.0f} us"
    )
    ratios = {}
    for name, changing in (("all values new", 1.0), ("14.4 % new", 0.144), ("nothing new", 0.0)):
        rotation = Rotation(changing=changing)
        ours = microseconds(
            page.render,
            lambda rotation=rotation: page.write(rotation.observation(), ()),  # type: ignore[misc]
        )
        ratios[name] = ours / theirs
        print(f"  ours, {name}: {ours:.0f} us, {ours / theirs:.3f}x")
    return ratios["all values new"]


class Server:
    """A server process under measurement."""

    def __init__(self, name: str, process: subprocess.Popen[bytes], address: str) -> None:
        self.name, self._process = name, process
        self._host, _, port = address.rpartition(":")
        self._port = int(port)
        self.body = b""

    def cpu_s(self) -> float:
        """CPU seconds of the process, threads that have ended included."""
        return time.clock_gettime((~self._process.pid << 3) | 2)

    def resident_mib(self) -> float:
        """Resident memory."""
        text = Path(f"/proc/{self._process.pid}/smaps_rollup").read_text()
        return int(re.findall(r"^Rss:\s+(\d+)", text, re.MULTILINE)[0]) / 1024

    def scrape(self, times: int, pause_s: float) -> tuple[float, float]:
        """CPU (us) and median latency (us) of a gzip scrape over one kept connection; the CPU of an
        idle stretch is taken off.
        """
        idle = self._idle(times * pause_s)
        connection = http.client.HTTPConnection(self._host, self._port, timeout=10)
        waits, start = [], self.cpu_s()
        for _ in range(times):
            began = time.perf_counter()
            connection.request("GET", "/metrics", headers={"Accept-Encoding": "gzip"})
            answer = connection.getresponse()
            packed = answer.read()
            waits.append(time.perf_counter() - began)
            assert answer.status == 200
            time.sleep(pause_s)
        spent = self.cpu_s() - start - idle
        connection.close()
        self.body = gzip.decompress(packed)
        return spent / times * 1e6, statistics.median(waits) * 1e6

    def _idle(self, seconds: float) -> float:
        """CPU seconds the process would burn unasked in so long, from a stretch of at most 5 s."""
        stretch = min(seconds, 5.0)
        if not stretch:
            return 0.0
        start = self.cpu_s()
        time.sleep(stretch)
        return (self.cpu_s() - start) * seconds / stretch

    def series(self) -> int:
        """Series of its last page."""
        return sum(not line.startswith(b"#") for line in self.body.splitlines())


@contextmanager
def ours() -> Iterator[Server]:
    """Our server over a moving node."""
    process = subprocess.Popen([sys.executable, "-m", "benchmarks._node"], stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        yield Server("tocsin", process, process.stdout.readline().decode().strip())
    finally:
        process.terminate()
        process.wait(10)
        process.stdout.close()


@contextmanager
def node_exporter(body: bytes) -> Iterator[Server]:
    """Debian's node_exporter, everything off but the textfile collector,
    with this page as its file.
    """
    with create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "page.prom").write_bytes(body)
        flags = [
            "--collector.disable-defaults",
            "--collector.textfile",
            f"--collector.textfile.directory={folder}",
        ]
        program = need("prometheus-node-exporter", "prometheus-node-exporter")
        process = subprocess.Popen(
            [program, f"--web.listen-address={address}", "--web.disable-exporter-metrics", *flags],
            stderr=subprocess.DEVNULL,
        )
        try:
            server = Server("node_exporter", process, address)
            for _ in range(100):
                with suppress(OSError):
                    server.scrape(1, 0)
                    break
                time.sleep(0.05)
            yield server
        finally:
            process.terminate()
            process.wait(10)


def serve() -> tuple[float, float]:
    """Ratios to node_exporter: CPU of a cold gzip scrape, resident memory after all scrapes."""
    with ours() as tocsin:
        tocsin.scrape(3, 0.1)
        with node_exporter(tocsin.body) as peer:
            peer.scrape(3, 0.1)
            print(f"serve: {tocsin.series()} series here, {peer.series()} there")
            cold, busy = [], []
            for _ in range(2):
                cold.append(
                    [server.scrape(COLD_SCRAPES, COLD_PAUSE_S) for server in (tocsin, peer)]
                )
                busy.append(
                    [server.scrape(BUSY_SCRAPES, BUSY_PAUSE_S) for server in (tocsin, peer)]
                )
            for what, runs in (("one scrape per 0.4 s", cold), ("50 scrapes per second", busy)):
                for (mine, my_wait), (theirs, their_wait) in runs:
                    print(
                        f"  {what}, gzip: CPU {mine:.0f} us against {theirs:.0f} us, "
                        f"{mine / theirs:.3f}x; median latency {my_wait:.0f} us against "
                        f"{their_wait:.0f} us"
                    )
            memory = tocsin.resident_mib() / peer.resident_mib()
            print(
                f"  resident: {tocsin.resident_mib():.1f} MiB against "
                f"{peer.resident_mib():.1f} MiB, {memory:.2f}x"
            )
            return statistics.fmean(mine / theirs for (mine, _), (theirs, _) in cold), memory


def main() -> int:
    """Print figures and ratios; 1 where a goal is missed."""
    print(f"Python {platform.python_version()}, {platform.machine()}")
    rendered = render()
    cold, memory = serve()
    missed = 0
    for what, ratio, goal in (
        ("render", rendered, RENDER_GOAL),
        ("cold scrape", cold, COLD_GOAL),
        ("memory", memory, MEMORY_GOAL),
    ):
        missed += ratio > goal
        print(f"{what}: {ratio:.3f}x, goal {goal}x{'' if ratio <= goal else ', MISSED'}")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
