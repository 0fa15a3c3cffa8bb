"""RAS servers that accept and say nothing delay nobody but their own tenant."""

from __future__ import annotations

import os

import pytest

from collector.sources.tenants import patience
from tests.tenants.impatient import READ_S
from tests.tenants.node import ALICE, MALLORY, Node, job_of, reply, reports

pytestmark = [pytest.mark.root, pytest.mark.slow]

PORT, JOBS = 28_081, 6


def test_silent_servers_of_one_tenant_delay_no_other_tenants_stall(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of its jobs is asked in a read, and only one server of that; from then on it is last."""
    monkeypatch.setattr(patience, "TENANT_S", READ_S)
    node.renew(node.child("tests.tenants.impatient"))
    for number in range(JOBS):
        name = str(600 + number)
        os.mkfifo(node.folder / f"reply{name}")  # the server waits for its own reply
        for rank in (0, 1):
            node.start_ras(MALLORY, name, PORT + number, rank=rank)
        (node.folder / f"reply{name}").chmod(0o666)
    node.read()
    rank_of_alice = node.start_ras(ALICE, "71", PORT + JOBS)
    node.answer("71", reply(job_of(rank_of_alice.pid)))
    node.suspect()
    for _ in range(2):
        assert "71" in {report.job for report in reports(node.read(61))}
        polls = [node.source._ras.failures(str(600 + number)) for number in range(JOBS)]
        assert sum(polls) <= 2
    assert max(polls) == 1
