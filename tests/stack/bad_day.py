"""The bad day and a quiet one beside it, watched by a real Prometheus, told by a real Alertmanager:
played once, then looked at.
"""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from pipeline.catalog import FIELDS
from simulator.day import Day, load_day
from simulator.node import Node
from simulator.profile import load_profile
from tests.agents import AgentProcess
from tests.integration.test_prometheus import Prometheus
from tests.parts import need
from tests.ports import free_port
from tests.rules.alertmanager import Alertmanager, Receivers
from tests.servers import Server
from tests.sources import ROOT
from tests.stack import hurried
from tests.wait import PATIENCE_S, until

# Seconds of the nodes in one of the servers: when the machine naps, the nodes do so ten times as
# long.
SPEED = 10
SCRAPE_S = 2.0
SETTLED = 10  # scrapes after the last alert

PROFILE, SEED = "hgx-h100", 1
NODES = {"node1": "bad", "node2": "quiet"}
# Who runs Tocsin's agents, and who runs dcgm-exporter and node_exporter alone: the same
# nodes, seen by two clusters.
FINDINGS, PLAIN = "findings", "plain"

SETTINGS = (
    *("--detectors.off-trial", "all"),
    # Four times a second of the machine's, and no deadline that is but a moment of it.
    *(
        "--source.nvml.period",
        "10s",
        "--source.nvml.deadline",
        "5m",
        "--source.nvml.call-deadline",
        "4m",
    ),
    *("--source.infiniband.period", "10s", "--source.infiniband.deadline", "5m"),
    *("--source.kmsg.period", "10s", "--source.kmsg.deadline", "5m"),
    *("--source.nccl.period", "10s", "--source.nccl.deadline", "5m"),
    *("--source.jobs.period", "10s", "--source.jobs.deadline", "5m"),
)
AGENT = ("--simulate", PROFILE, "--simulate.seed", str(SEED), *SETTINGS)


@dataclass(frozen=True, slots=True)
class Told:
    """One alert in one message of Alertmanager: a firing one is in each message about its group.
    ``since`` is when it began to fire (RFC 3339).
    """

    receiver: str
    firing: bool
    since: str
    labels: Mapping[str, str]
    text: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Played:
    """What came of the day: every alert of every message in order, what Prometheus complained of,
    and the node's own truth and store.
    """

    day: Day
    node: Node
    sent: Sequence[Told]
    complaints: Sequence[str]
    store: Path

    def device(self, target: str, cluster: str) -> str:
        """How alerts of a cluster name a target of the day."""
        if target.startswith("gpu"):
            uuid = self.node.uuids[int(target.removeprefix("gpu"))]
            return uuid if cluster == FINDINGS else _elsewhere(uuid)
        port = self.node.profile.ports.devices.index(target)
        return f"{self.node.guids[port] + 1:#018x}" if cluster == FINDINGS else target


@contextlib.contextmanager
def play(folder: Path) -> Iterator[Played]:
    """Start everything, let the day pass, and keep what was told."""
    node = Node(load_profile(PROFILE), SEED)
    day = load_day("bad", node.profile)
    counters = _counters(folder)
    ports = {name: (free_port(), free_port()) for name in NODES}
    with contextlib.ExitStack() as stack:
        receivers = Receivers()
        stack.callback(receivers.close)
        alertmanager = Alertmanager(folder, receivers)
        stack.callback(alertmanager.stop)
        for name, (page, _) in ports.items():
            day_flags = ("--simulate.day", NODES[name], "--simulate.speed", str(SPEED))
            arguments = (*AGENT, *day_flags, "--exposition.counters-file", str(counters))
            environ, address = {"NODE_NAME": name}, f"127.0.0.1:{page}"
            stack.enter_context(
                AgentProcess(folder / name, *arguments, environ=environ, address=address)
            )
        for name, (_, port) in ports.items():
            hardware = folder / name / "simulated"
            until((hardware / "ready").is_file, "the simulated node")
            stack.enter_context(
                node_exporter(hardware / "sys", port, folder / f"node_exporter-{port}.log")
            )
        prometheus = Prometheus(folder, config=_config(folder, ports, alertmanager.address))
        stack.callback(prometheus.stop)
        # The tests say what is missing: here only the time passes.
        over = time.monotonic() + day.lasts_s / SPEED + PATIENCE_S
        until(
            lambda: _heard(receivers, day) or time.monotonic() > over,
            "the day to be over",
            day.lasts_s / SPEED + 2 * PATIENCE_S,
        )
        now = _scrapes(prometheus)
        until(
            lambda: _scrapes(prometheus) >= now + SETTLED,
            "what would be told twice, or too much, to be told",
        )
        yield Played(
            day, node, tuple(_told(receivers)), tuple(prometheus.complaints()), folder / "node1"
        )


def _heard(receivers: Receivers, day: Day) -> bool:
    """Whether every alert that the day promises has come."""
    names = {sent.labels["alertname"] for sent in _told(receivers)}
    return {alert for step in day.steps for alert in step.alerts} <= names


def _scrapes(prometheus: Prometheus) -> float:
    """How often the other node was read so far."""
    return sum(prometheus.values('count_over_time(up{job="tocsin",node="node2"}[1h])'))


def _told(receivers: Receivers) -> Iterator[Told]:
    for receiver, message in list(receivers.sent):
        for alert in message["alerts"]:
            yield Told(
                receiver,
                alert["status"] == "firing",
                alert["startsAt"],
                alert["labels"],
                alert["annotations"],
            )


def _config(
    folder: Path, ports: Mapping[str, tuple[int, int]], alertmanager: str
) -> dict[str, Any]:
    """The example of rules/, with this machine's addresses, the hurried rules, and a scrape for
    every twenty seconds of the nodes.
    """
    config: dict[str, Any] = yaml.safe_load(
        (ROOT / "rules" / "prometheus.yml").read_text(encoding="utf-8")
    )
    (folder / "rules.yaml").write_text(json.dumps(hurried.rules(SPEED)), encoding="utf-8")
    config["global"] = {
        "scrape_interval": f"{SCRAPE_S * 1000:g}ms",
        "evaluation_interval": f"{SCRAPE_S * 1000:g}ms",
    }
    config["rule_files"] = [str(folder / "rules.yaml")]
    config["alerting"]["alertmanagers"][0]["static_configs"][0]["targets"] = [alertmanager]
    pages = {name: page for name, (page, _) in ports.items()}
    config["scrape_configs"] = [
        _job("tocsin", FINDINGS, pages, keep="tocsin_.*"),
        _job("dcgm-exporter", PLAIN, pages, keep="DCGM_.*"),
        _job(
            "node",
            PLAIN,
            {name: sysfs for name, (_, sysfs) in ports.items()},
            keep="node_infiniband_.*",
        ),
    ]
    return config


def _job(name: str, cluster: str, ports: Mapping[str, int], *, keep: str) -> dict[str, Any]:
    """One job over both nodes.

    In the plain cluster GPUs have other UUIDs, or Tocsin's alerts would speak for
    its alerts (inhibition).
    """
    relabel = [{"source_labels": ["__name__"], "regex": keep, "action": "keep"}]
    if cluster == PLAIN:
        relabel.append(
            {
                "source_labels": ["UUID"],
                "regex": "(GPU-.+)",
                "target_label": "UUID",
                "replacement": _elsewhere("$1"),
            }
        )
    targets = [
        {
            "targets": [f"127.0.0.1:{port}"],
            "labels": {"cluster": cluster, "node": node, "instance": f"{node}:9400"},
        }
        for node, port in ports.items()
    ]
    return {"job_name": name, "static_configs": targets, "metric_relabel_configs": relabel}


def _elsewhere(uuid: str) -> str:
    return f"PLAIN-{uuid}"


def _counters(folder: Path) -> Path:
    """A counters file with what the raw rules need beyond dcgm-exporter's defaults, as each of
    them says in the runbook.
    """
    read = set(re.findall(r"\bDCGM_\w+", (ROOT / "rules" / "raw.yaml").read_text(encoding="utf-8")))
    ours = {row.name for field in FIELDS for row in field.dcgm} | {"DCGM_EXP_XID_ERRORS_COUNT"}
    file = folder / "counters.csv"
    file.write_text(
        "".join(f"{name}, gauge, x\n" for name in sorted(read & ours)), encoding="utf-8"
    )
    return file


def node_exporter(sysfs: Path, port: int, log: Path) -> Server:
    """Debian's, showing nothing but the InfiniBand ports below a sysfs."""
    return Server(
        [
            need("prometheus-node-exporter", "prometheus-node-exporter"),
            "--collector.disable-defaults",
            "--collector.infiniband",
            f"--path.sysfs={sysfs}",
            f"--web.listen-address=127.0.0.1:{port}",
        ],
        log,
    )
