"""Gateways with and without workers, over a real NATS server: one verdict, whatever becomes of the
workers.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from collector.replaying.stored import Span, stored
from pipeline.arrival_cut import ArrivalCut
from pipeline.clock import SECOND_NS
from pipeline.plain import plain, plain_event
from tests.agents import AgentProcess
from tests.gateway.faults.cluster import value
from tests.gateway.faults.hosts import CLUSTER, Host, Reading
from tests.nats import Nats
from tests.wait import until

pytestmark = pytest.mark.integration
WORKERS = (0, 1, 3)
NAMES = [f"n{number}" for number in range(8)]
TICK = "tocsin_fleet_tick_timestamp_seconds"
RESTARTS = "tocsin_fleet_ingest_restarts_total"


def workers_of(gateway: AgentProcess) -> list[int]:
    """Their process ids."""
    return [pid for pid in gateway.children() if b"gateway.ingest.worker" in command_of(pid)]


def command_of(pid: int) -> bytes:
    """Its command line; empty where it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def started(folder: Path, server: Nats, stack: ExitStack) -> Iterator[AgentProcess]:
    """A gateway for each number of workers."""
    bus = ("--bus.servers", server.url, "--bus.cluster", CLUSTER, "--bus.period", "1s")
    for workers in WORKERS:
        more = ("--gateway.ingest-workers", f"{workers}")
        yield stack.enter_context(
            AgentProcess(folder / f"g{workers}", *bus, *more, command="gateway")
        )


def said(gateway: AgentProcess, until_s: float) -> list[Any]:
    """What it stored until then: findings and the arrival cut, second by second."""
    return [
        [
            each.observation.time_ns,
            [*map(plain, each.findings)],
            [*map(plain_event, each.observation.events)],
        ]
        for each in stored(gateway.storage, Span())
        if each.observation.time_ns < until_s * SECOND_NS
    ]


def struck(gateway: AgentProcess) -> set[str]:
    """Hosts with an incident."""
    return {host for _, host, *_ in incidents(gateway)}


def incidents(gateway: AgentProcess) -> set[tuple[str, ...]]:
    """Id, host, class and begin of those that are open or over."""
    status, text = gateway.get("/api/v1/incidents?state=all")
    assert status == 200, text
    rows = json.loads(text)["incidents"]
    return {(row["id"], row["host"], row["class"], row["since"]) for row in rows}


def test_gateways_with_workers_judge_as_one_without(tmp_path: Path) -> None:
    """While agents send and lose GPUs, a worker of one gateway is killed and one of another is
    stopped: each is replaced, is said in one line and one metric, and nothing is lost or silent.
    """
    with ExitStack() as stack:
        server = stack.enter_context(Nats(tmp_path / "nats"))
        server.stream()
        gateways = [*started(tmp_path, server, stack)]

        def wait(condition: Any, what: str) -> None:
            until(condition, what, servers=[server, *gateways])

        hosts = [Host(server.url, name) for name in NAMES]
        with Reading(hosts):
            for gateway in gateways:
                wait(
                    lambda g=gateway: value(g, "tocsin_fleet_hosts", 'state="known"') == len(NAMES),
                    "all hosts",
                )
            assert [len(workers_of(gateway)) for gateway in gateways] == [*WORKERS]
            hosts[1].lose_gpu()
            # Each worker of the one, as some may have no host; the other's has all.
            for pid in workers_of(gateways[2]):
                os.kill(pid, signal.SIGKILL)
            os.kill(workers_of(gateways[1])[0], signal.SIGSTOP)
            hosts[2].lose_gpu()
            wait(lambda: value(gateways[1], RESTARTS, 'reason="hung"') == 1, "another worker")
            wait(lambda: value(gateways[2], RESTARTS, 'reason="ended"') == 3, "other workers")
            hosts[3].lose_gpu()
            for gateway in gateways:
                assert value(gateway, "tocsin_fleet_hosts", 'state="silent"') == 0
            wait(lambda: all(struck(each) == {"n1", "n2", "n3"} for each in gateways), "incidents")
            until_s = time.time()
            wait(lambda: all(value(each, TICK) > until_s for each in gateways), "more seconds")
        opened, *more = [incidents(gateway) for gateway in gateways]
        assert more == [opened, opened]
        for gateway in gateways:
            assert value(gateway, "tocsin_fleet_batches_refused_total") == 0
            assert value(gateway, "tocsin_fleet_batches_missed_total") == 0
        lines = [line for g in gateways for line in g.log.splitlines() if "ingest worker" in line]
        assert len(lines) == 4
        pids = [pid for gateway in gateways for pid in workers_of(gateway)]
        assert [gateway.stop() for gateway in gateways] == [0, 0, 0]
        until(lambda: not any(map(command_of, pids)), "the workers' end")
        first, *others = [said(gateway, until_s) for gateway in gateways]
        assert others == [first, first]
    assert {finding[1][0] for _, findings, _ in first for finding in findings} == {"n1", "n2", "n3"}
    kept = stored(gateways[2].storage, Span())
    cut = ArrivalCut(event for each in kept for event in each.observation.events)
    assert cut.hosts == {*NAMES}


def test_workers_end_with_a_gateway_that_is_killed(tmp_path: Path) -> None:
    """None outlives it."""
    with ExitStack() as stack:
        server = stack.enter_context(Nats(tmp_path / "nats"))
        server.stream()
        *_, gateway = started(tmp_path, server, stack)
        until(lambda: len(workers_of(gateway)) == 3, "its workers", servers=[gateway])
        pids = workers_of(gateway)
        gateway.process.kill()
        until(lambda: not any(map(command_of, pids)), "their end")
