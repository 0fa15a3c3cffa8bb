"""Three simulated nodes with faults of every kind, scraped by a real Prometheus with our rules:
what dashboards are asked about.

The nodes live twenty times as fast as Prometheus, and look-backs in queries are divided by a
hundred: half an hour is eighteen seconds.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from simulator.simulate import inject
from tests.agents import AgentProcess
from tests.dashboards.panels import ANYTHING, Target, filled
from tests.integration.test_prometheus import Prometheus
from tests.sources import ROOT
from tests.stack.hurried import expression
from tests.wait import until

SPEED = 20
SHORTER = 100
SCRAPE_S = 0.5
AGENT = (
    *(
        "--simulate",
        "hgx-h100",
        "--simulate.speed",
        str(SPEED),
        "--detectors.off-trial",
        "all",
        "--source.nccl.ras",
        "on",
    ),
    # Two or three reads a second, and no deadline that is a moment of a busy machine.
    *(f"--source.{name}.period=8s" for name in ("nvml", "infiniband", "kmsg", "jobs")),
    *(
        f"--source.{name}.deadline=5m"
        for name in ("nvml", "infiniband", "kmsg", "host", "nccl", "jobs")
    ),
)
# One fault per device, so that each shows on its own.
FAULTS: dict[str, tuple[str, ...]] = {
    "stalled": ("nccl_stall@gpu4:how=late,lasts=1h",),
    "braked": (
        "nvlink_errors@gpu0",
        "pcie_narrow@gpu1",
        "pcie_replay@gpu2",
        "thermal@gpu3:resistance=14",
        "power_brake@gpu4:lasts=1h",
        "power_limit@gpu5",
        "slow_clock@gpu6:percent=40",
        "symbol_errors@mlx5_0:ber=1e-10",  # its counter is full after a minute and a half
        "link_flap@mlx5_1:down=20s,times=99,every=20s",
        "link_down@mlx5_2",
        "nic_lost@mlx5_3",
    ),
    "dying": (
        "ecc_dbe@gpu0",
        "remap@gpu1:state=failed",
        "sram_threshold@gpu2",
        "driver_hang@gpu3",
        "gpu_lost@gpu4",
        "ecc_storm@gpu5:rate=50",
        "remap@gpu6:state=exhausted",
        "xid@gpu7:code=31",
    ),
}
REFUSED = "dying"  # the node whose uploads are
# Seen in Prometheus, the slowest signs: then everything else was seen as well.
SIGNS = (
    'tocsin_nccl_job_state{node="stalled",state="stalled"}',
    'rate(tocsin_gpu_throttled_seconds_total{node="braked",gpu="3",reason="hw_thermal"}[4s]) > 0',
    'tocsin_ib_port_state{node="braked",device="mlx5_3",state="absent"} > 0',
    'tocsin_gpu_clock_hertz{node="braked",gpu="6",clock="sm"} < 1.5e9',
    'tocsin_upload_failures_total{node="dying"} > 0',
    'increase(tocsin_ib_port_link_downed_total{node="braked",device="mlx5_1"}[3s]) > 0',
    'tocsin_nvml_hung_calls_total{node="dying"} > 0',
    'tocsin_incident_active{node="dying",severity="page"}',
    # Counted by a child at lowest priority, which a busy machine lets wait.
    f"count(count by (node) (tocsin_store_bytes)) == {len(FAULTS)}",
    # Longer than the half hour that panels ask for, with its job beside it.
    (
        'tocsin_device_job_info{node="stalled",gpu="4"} and on (node, gpu) '
        'max_over_time(tocsin_gpu_utilization_ratio{engine="gpu"}[20s]) == 0'
    ),
)
QUIET_SCRAPES = 16
# Scraped for eight seconds, and its job is known.
QUIET = (
    f'count_over_time(up{{{{node="{{name}}"}}}}[1m]) > {QUIET_SCRAPES}',
    'tocsin_device_job_info{{node="{name}",gpu="0"}}',
)
LASTS_S = 8.0  # after the last sign

VARIABLES = {**ANYTHING, "__rate_interval": "5s", "__interval": "1s", "__interval_ms": "1000"}


@dataclass(frozen=True, slots=True)
class Day:
    """What was seen, and when: quiet from ``began`` until ``hurt``, sick from then to
    ``over`` (unix seconds).
    """

    prometheus: Prometheus
    began: float
    hurt: float
    over: float

    def quiet(self, target: Target) -> Sequence[Mapping[str, Any]]:
        """Series of a panel's query before the faults."""
        return self._answer(target, self.began, self.hurt)

    def sick(self, target: Target) -> Sequence[Mapping[str, Any]]:
        """And with them."""
        return self._answer(target, self.hurt, self.over)

    def _answer(self, target: Target, start: float, end: float) -> Sequence[Mapping[str, Any]]:
        """As Grafana draws them: {"metric": labels, "values": [[time, text], ...]}; AssertionError
        where Prometheus refuses.
        """
        expr = filled(
            expression(target.expr, SHORTER),
            {**VARIABLES, "__range": f"{end - start:.0f}s", "__range_s": f"{end - start:.0f}"},
        )
        data = self.prometheus.ask(
            "query_range", query=expr, start=f"{start:.3f}", end=f"{end:.3f}", step="1"
        )
        assert data is not None, f"Prometheus refuses {target}: {expr}"
        series: Sequence[Mapping[str, Any]] = data["result"]
        return series


@contextlib.contextmanager
def lived(folder: Path) -> Iterator[Day]:
    """Start everything, wait for a quiet while, hurt the nodes, wait for the signs, and keep
    Prometheus for questions.
    """
    with contextlib.ExitStack() as stack:
        nodes = {name: stack.enter_context(_agent(folder, name)) for name in FAULTS}
        prometheus = Prometheus(
            folder, config=_config({name: agent.ready().address for name, agent in nodes.items()})
        )
        stack.callback(prometheus.stop)
        for name, sign in product(FAULTS, QUIET):
            until(_seen(prometheus, sign.format(name=name)), f"a quiet while of {name}")
        hurt = time.time()
        for name, specs in FAULTS.items():
            for spec in specs:
                inject(folder / name / "simulated", spec)
        for sign in SIGNS:
            until(_seen(prometheus, sign), sign)
        signs = time.time()
        until(lambda: time.time() > signs + LASTS_S, "what takes long")
        yield Day(prometheus, hurt - QUIET_SCRAPES * SCRAPE_S / 2, hurt, time.time())


def _seen(prometheus: Prometheus, query: str) -> Callable[[], bool]:
    """Whether a query has an answer, asked no more often than there is anything new."""
    due = 0.0

    def answered() -> bool:
        nonlocal due
        if time.monotonic() < due:
            return False
        due = time.monotonic() + SCRAPE_S
        return bool(prometheus.values(query))

    return answered


def _agent(folder: Path, name: str) -> AgentProcess:
    away = folder / "objects"
    away.mkdir(exist_ok=True)
    url = f"file://{away}" if name != REFUSED else "file:///proc/nothing-can-be-written-here"
    return AgentProcess(
        folder / name, *AGENT, "--storage.upload.url", url, environ={"NODE_NAME": name}
    )


def _config(addresses: Mapping[str, str]) -> Mapping[str, Any]:
    """One job, with the labels that service discovery gives."""
    targets = [
        {
            "targets": [address],
            "labels": {"cluster": "c1", "node": name, "instance": f"{name}:9400"},
        }
        for name, address in addresses.items()
    ]
    return {
        "global": {"scrape_interval": f"{SCRAPE_S * 1000:g}ms", "evaluation_interval": "5s"},
        "rule_files": [str(ROOT / "rules" / f"{name}.yaml") for name in ("tocsin", "raw")],
        "scrape_configs": [{"job_name": "tocsin", "static_configs": targets}],
    }
