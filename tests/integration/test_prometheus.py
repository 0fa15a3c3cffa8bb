"""The page before Prometheus itself: promtool reads and lints it, a real server
scrapes it without a warning.
"""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import threading
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from collector.web import AgentPages, Web
from collector.web.status import Node
from pipeline.catalog import FIELDS, agent
from pipeline.clock import SystemClock
from pipeline.dcgm import Compat, DcgmDialect, LabelStyle, Options, load
from pipeline.exposition import Exposition
from pipeline.exposition.process import ProcessSamples
from pipeline.frame import frame_of
from pipeline.guard import Guard
from pipeline.observation import Observation
from pipeline.selfmetrics import SelfMetrics
from simulator.simulate import inject
from tests.agents import AgentProcess
from tests.golden import FOLDER
from tests.parts import Part, need, newer
from tests.pipeline.dcgm.nodes import busy, gpu
from tests.ports import free_port
from tests.servers import Server
from tests.wait import PATIENCE_S, until

pytestmark = pytest.mark.integration

EVERYTHING = FOLDER / "exposition" / "every-series.prom"


def promtool(page: bytes) -> tuple[int, str]:
    """Exit status and complaints of `promtool check metrics`: 3 = lint findings, 1 = unreadable."""
    done = subprocess.run(
        [need("promtool", "prometheus"), "check", "metrics"],
        input=page,
        capture_output=True,
        check=False,
        timeout=PATIENCE_S,
    )
    return done.returncode, done.stderr.decode() + done.stdout.decode()


def test_promtool_has_nothing_to_say_of_our_own_series() -> None:
    """Every family of the catalogue: names, base units, HELP, types."""
    page = EVERYTHING.read_bytes()
    assert set(re.findall(r"^# TYPE tocsin_", page.decode(), re.MULTILINE))
    assert promtool(page) == (0, "")


@pytest.mark.parametrize("file", sorted((FOLDER / "dcgm").glob("*.prom")), ids=lambda f: f.stem)
def test_promtool_reads_the_dialect(file: Path) -> None:
    """The names are dcgm-exporter's and break the rules of the linter,
    but every page is readable.
    """
    status, said = promtool(file.read_bytes())
    assert status in (0, 3)
    assert "error while linting" not in said


def exposition(compat: Compat) -> tuple[Exposition, SelfMetrics]:
    """A node with two busy H100, in the full profile, with the dialect."""
    clock, metrics = SystemClock(), SelfMetrics()
    metrics.set(agent.SOURCE_SUCCESS, 1, "nvml")
    dialect = DcgmDialect(Options(load(compat=compat), compat, LabelStyle("n1")), clock)
    page = Exposition(
        metrics, clock=clock, profile="full", process=ProcessSamples(), dialect=dialect
    )
    frame = frame_of(
        "gpu", [(gpu(i), busy()) for i in range(2)], clock.time_ns(), clock.monotonic_ns()
    )
    page.write(
        Observation("nvml", "n1", "b", 1, clock.time_ns(), clock.monotonic_ns(), 0, (frame,)), ()
    )
    return page, metrics


@contextmanager
def served(compat: Compat) -> Iterator[tuple[str, Exposition]]:
    """The page on a free port of the loopback, served by a loop in a thread of its own."""
    page, metrics = exposition(compat)
    clock = SystemClock()
    web = Web(
        AgentPages(page, metrics, clock, Node("n1", "0.1.0")),
        Guard(metrics, clock),
        ["127.0.0.1:0"],
    )
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        (address,) = asyncio.run_coroutine_threadsafe(web.start(), loop).result(PATIENCE_S)
        yield address, page
        asyncio.run_coroutine_threadsafe(web.stop(), loop).result(PATIENCE_S)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(PATIENCE_S)
        loop.close()


class Prometheus:
    """A server that scrapes one target each second, or does what a configuration says."""

    def __init__(
        self,
        folder: Path,
        target: str = "",
        part: Part = need,
        *,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        self.address = f"127.0.0.1:{free_port()}"
        config = config or {
            "global": {"scrape_interval": "1s"},
            "scrape_configs": [{"job_name": "n", "static_configs": [{"targets": [target]}]}],
        }
        (folder / "prometheus.yml").write_text(json.dumps(config))  # JSON is YAML
        self.log = folder / "log"
        self.server = Server(
            [
                part("prometheus", "prometheus"),
                f"--config.file={folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address={self.address}",
            ],
            self.log,
        )

    def ask(self, path: str, **query: str) -> Any:
        """`data` of an answer of the API, None while the server is not up;
        AssertionError once it has ended.
        """
        assert not (death := self.server.death()), death
        url = f"http://{self.address}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        try:
            with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
                return json.load(answer)["data"]
        except OSError:
            return None

    def values(self, query: str) -> list[float]:
        """Values of an instant query."""
        data = self.ask("query", query=query)
        return [float(row["value"][1]) for row in data["result"]] if data else []

    def complaints(self) -> list[str]:
        """Lines of its log above information, but the one that we ended it."""
        lines = self.log.read_text().splitlines()
        loud = [line for line in lines if re.search(r"level=(warn|error)", line, re.IGNORECASE)]
        return [line for line in loud if not re.search(r"SIGTERM|OS signal", line)]

    def stop(self) -> None:
        """End it."""
        self.server.end()


@pytest.mark.parametrize(
    ("compat", "part"),
    [("dcgm-4.8", need), ("both", need), ("both", newer)],
    ids=["dcgm-4.8", "both", "both-newer"],
)
def test_a_real_prometheus_scrapes_it_without_a_warning(
    compat: Compat, part: Part, tmp_path: Path
) -> None:
    """Target up, every series of the page taken, values and types as meant, nothing in
    the log above information.
    """
    with served(compat) as (address, page):
        prometheus = Prometheus(tmp_path, address, part)
        try:
            until(
                lambda: (
                    len(prometheus.values("count_over_time(up[1m]) > 1"))
                    and prometheus.values("up") == [1.0]
                ),
                "two scrapes",
            )
            shown = [
                line for line in page.render().decode().splitlines() if not line.startswith("#")
            ]
            assert prometheus.values("scrape_samples_scraped") == [float(len(shown))]
            assert prometheus.values("scrape_samples_post_metric_relabeling") == [float(len(shown))]
            assert prometheus.values('DCGM_FI_DEV_POWER_USAGE{gpu="1",Hostname="n1"}') == [612.345]
            assert (
                prometheus.values(
                    'tocsin_gpu_power_watts{gpu="1",mode="average"} or '
                    'tocsin_gpu_power_watts{gpu="1"}'
                )[0]
                == 612.345
            )
            types = {name: rows[0]["type"] for name, rows in prometheus.ask("metadata").items()}
            assert (
                types["tocsin_gpu_energy_joules"] == "counter"
            )  # OpenMetrics: families are named without _total
            assert types["DCGM_FI_DEV_PCIE_REPLAY_COUNTER"] == "unknown"
            assert types["tocsin_gpu_temperature_celsius"] == "gauge"
            (target,) = prometheus.ask("targets")["activeTargets"]
            assert target["lastError"] == ""
        finally:
            prometheus.stop()
        assert prometheus.complaints() == []


def test_a_real_prometheus_scrapes_the_agent_of_a_simulated_node_without_a_warning(
    tmp_path: Path,
) -> None:
    """The agent as the demo runs it, while a GPU is lost: up all the time, the finding and the XID
    arrive, the log stays clean.
    """
    with AgentProcess(tmp_path / "s", "--simulate", "hgx-h100").ready() as process:
        prometheus = Prometheus(tmp_path, process.address)
        try:
            until(lambda: prometheus.values("up") == [1.0], "a scrape")
            inject(tmp_path / "s" / "simulated", "gpu_lost@gpu5")
            lost = 'tocsin_gpu_state{gpu="5",state="lost"}'
            until(lambda: prometheus.values(lost) == [1.0], "the lost GPU")
            until(
                lambda: prometheus.values('tocsin_gpu_xid_errors_total{gpu="5",xid="79"}') == [1.0],
                "its XID",
            )
            # the XID may be a finding of its own
            lost_gpu = 'count(tocsin_finding_active{detector="availability",kind="gpu"})'
            until(lambda: prometheus.values(lost_gpu) == [1.0], "the finding")
            assert prometheus.values("tocsin_gpu_expected - tocsin_gpu_visible") == [1.0]
            assert prometheus.values("min_over_time(up[5m])") == [1.0]
            assert prometheus.values("count(DCGM_FI_DEV_GPU_TEMP)") == [7.0]
        finally:
            prometheus.stop()
        assert prometheus.complaints() == []


def test_every_family_is_on_the_golden_page() -> None:
    """What promtool reads above is everything: a new field cannot be forgotten."""
    described = set(re.findall(r"^# TYPE (\S+) ", EVERYTHING.read_text(), re.MULTILINE))
    assert {field.metric.name for field in FIELDS} <= described
