"""Three simulated nodes, one of which has the scripted bad day, and a real Prometheus with our
rules that watches them.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

from tests.agents import AgentProcess
from tests.integration.test_prometheus import Prometheus
from tests.ports import free_port
from tests.sources import ROOT
from tests.stack.bad_day import node_exporter
from tests.wait import until

SCRAPE_S = 5
NODES = {"gpu-node-01": "bad", "gpu-node-02": "quiet", "gpu-node-03": "quiet"}


@contextlib.contextmanager
def living(folder: Path, prometheus: str | None, lives_s: float) -> Iterator[str]:
    """Address of a Prometheus: the one that is given, else one of our own once its
    nodes have lived so long.
    """
    if prometheus:
        yield prometheus
        return
    with contextlib.ExitStack() as stack:
        agents, exporters = zip(
            *(_node(stack, folder, name, seed) for seed, name in enumerate(NODES, start=1)),
            strict=True,
        )
        watching = Prometheus(
            folder,
            config={
                "global": {"scrape_interval": f"{SCRAPE_S}s", "evaluation_interval": "15s"},
                "rule_files": [str(ROOT / "rules" / f"{name}.yaml") for name in ("tocsin", "raw")],
                "scrape_configs": [
                    {"job_name": "tocsin", "static_configs": list(agents)},
                    {"job_name": "node", "static_configs": list(exporters)},
                ],
            },
        )
        stack.callback(watching.stop)
        over = time.monotonic() + lives_s
        until(lambda: time.monotonic() > over, "the day to be over", lives_s + 60)
        yield f"http://{watching.address}"


def _node(
    stack: contextlib.ExitStack, folder: Path, name: str, seed: int
) -> tuple[dict[str, object], dict[str, object]]:
    """A node's agent and its node_exporter, as Prometheus is told of them."""
    bucket = folder / "bucket"
    bucket.mkdir(exist_ok=True)
    simulated = (
        "--simulate",
        "hgx-h100",
        "--simulate.seed",
        str(seed),
        "--simulate.day",
        NODES[name],
    )
    kept = ("--storage.upload.url", str(bucket), "--storage.cluster", "demo")
    agent = AgentProcess(
        folder / name,
        *simulated,
        *kept,
        "--detectors.off-trial",
        "all",
        environ={"NODE_NAME": name},
    )
    stack.enter_context(agent)
    address, port = agent.address, free_port()
    stack.enter_context(
        node_exporter(folder / name / "simulated" / "sys", port, folder / f"{name}.exporter.log")
    )
    labels = {"cluster": "demo", "node": name}
    return (
        {"targets": [address], "labels": labels | {"instance": f"{name}:9400"}},
        {"targets": [f"127.0.0.1:{port}"], "labels": labels | {"instance": f"{name}:9100"}},
    )
