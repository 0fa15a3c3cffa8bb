"""Jobs that answer RAS queries on one address: each stall is found, each report is its job's."""

from __future__ import annotations

import pytest

from tests.tenants.node import ALICE, BOB, Node, job_of, reply, reports

pytestmark = pytest.mark.root

PORT = 28_041


def behind(node: Node, looks: int = 6) -> dict[str, set[int]]:
    """By job, the pids that its reports of some looks name as behind."""
    node.suspect()
    found: dict[str, set[int]] = {}
    for _ in range(looks):
        reading = node.read(15)
        node.observation(reading)
        for report in reports(reading):
            members = [m for c in report.communicators for m in c.members]
            most = max(dict(m.launched)["AllReduce"] for m in members)
            late = {m.pid for m in members if dict(m.launched)["AllReduce"] < most}
            found.setdefault(report.job, set()).update(late)
    return found


@pytest.mark.parametrize("jobs", [2, 8, 64])
def test_jobs_of_one_user_on_one_port_are_all_asked(node: Node, jobs: int) -> None:
    """The kernel picks which of them answers: an answer goes to the job that it is of."""
    late = {}
    for number in range(jobs):
        name = str(71 + number)
        ranks = [
            node.start_ras(ALICE, name, PORT, rank=0),
            node.start_ras(ALICE, name, PORT, rank=1),
        ]
        job = job_of(*(rank.pid for rank in ranks), number=number, behind=1)
        node.answer(name, reply(job))
        late[name] = {ranks[1].pid}
    assert behind(node) == late


def test_jobs_of_two_namespaces_on_one_port_are_both_asked(node: Node) -> None:
    """Of two users: each has the loopback address for itself."""
    late = {}
    for name, user, namespace in (("71", ALICE, False), ("72", BOB, True)):
        rank = node.start_ras(user, name, PORT, namespace=namespace)
        other = node.start(user, SLURM_JOB_ID=name, RANK="1")
        node.answer(name, reply(job_of(rank.pid, other.pid, behind=0)))
        late[name] = {rank.pid}
    assert behind(node, 2) == late


def test_a_neighbour_of_the_same_user_answers_in_nobodys_name(node: Node) -> None:
    """Pods share user ids, and on the host's network ports: what it says of another job's processes
    counts for no job, and the job's own server is asked until it answers.
    """
    ranks = [node.start_ras(ALICE, "71", PORT, rank=rank) for rank in (0, 1)]
    node.answer("71", reply(job_of(*(rank.pid for rank in ranks), behind=1)))
    for _ in range(3):
        node.start_ras(ALICE, "666", PORT)
        node.start_ras(ALICE, "667", PORT, held=False)
    forged = reply(job_of(*(rank.pid for rank in ranks), behind=0, number=7))
    node.answer("666", forged)
    node.answer("667", forged)
    found = behind(node)
    assert found["71"] == {ranks[1].pid}
