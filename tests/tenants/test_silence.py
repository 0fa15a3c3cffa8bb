"""RAS servers that accept and say nothing delay nobody but their own tenant."""

from __future__ import annotations

import os
import time

import pytest

from tests.tenants.node import ALICE, MALLORY, Node, job_of, reply, reports

pytestmark = [pytest.mark.root, pytest.mark.slow]

PORT, JOBS = 28_081, 6
FIRST_S = 45.0  # one job of the silent tenant may be asked before: 26 s


def test_silent_servers_of_one_tenant_delay_no_other_tenants_stall(node: Node) -> None:
    """Each of its jobs would cost 26 s: one is asked in a read, and from then on last."""
    for number in range(JOBS):
        name = str(600 + number)
        os.mkfifo(node.folder / f"reply{name}")  # the server waits for its own reply
        for number_of_rank in (0, 1):
            node.start_ras(MALLORY, name, PORT + number, rank=number_of_rank)
        (node.folder / f"reply{name}").chmod(0o666)
    node.read()
    rank = node.start_ras(ALICE, "71", PORT + JOBS)
    node.answer("71", reply(job_of(rank.pid)))
    node.suspect()
    for limit_s in (FIRST_S, FIRST_S):
        began = time.monotonic()
        assert "71" in {report.job for report in reports(node.read(61))}
        assert time.monotonic() - began < limit_s
