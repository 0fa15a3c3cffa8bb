"""A user of ``web.tenants`` sees its own jobs and what is under them, and nothing else."""

from __future__ import annotations

import asyncio
import base64
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import bcrypt
import pytest

from collector.config.web.security import WebFile
from gateway import page
from gateway.api.operations import OPERATIONS
from gateway.api.part import part_of
from pipeline.clock import SECOND_NS
from pipeline.frame import Device
from pipeline.observation import Event
from tests.gateway.api.server import Answer, serving
from tests.gateway.cluster import SimulatedCluster

TENANTS = {
    "ada": "user:ada",
    "bob": "user:bob",
    "ml": "namespace:bob",
    "none": "user:nobody",
    "sre": "*",
}
SECRET = b"pw"
POD = {"scheduler": "kubernetes", "user": "", "namespace": "bob", "pod": "train-0"}


@pytest.fixture
def cluster() -> SimulatedCluster:
    """Users ada and bob, and pods of the namespace bob. Node 3 is half ada's and half bob's."""
    cluster = SimulatedCluster()
    cluster.run("71", [0, 1])
    cluster.run("72", [2], user="bob", job_name="secret-model")
    cluster.run("", [4], **POD)
    cluster.run("73", [3])
    for number, holder in enumerate(cluster.holders[-8:]):
        if number >= 4:
            facts = {**holder.attributes, "job": "74", "user": "bob", "job_name": "secret-model"}
            cluster.holders[cluster.holders.index(holder)] = Device(
                holder.host, "device_job", f"{facts['uuid']}/74", facts
            )
    cluster.read()
    return cluster


def seen(cluster: SimulatedCluster, *owners: str) -> list[str]:
    """Ids of the jobs of owners."""
    return [job.id for job in part_of(cluster.model.snapshot(), owners).jobs]


def asked(
    cluster: SimulatedCluster, tmp_path: Path, user: str, paths: Sequence[str], **headers: str
) -> list[Answer]:
    """GET each, as a user."""
    file, login = login_of(tmp_path, user)

    async def ask() -> list[Answer]:
        shown = page.paths("/metrics")
        async with serving(cluster, file=file, tenants=TENANTS, shown=shown) as client:
            send: Mapping[str, str] = {**login, **headers}
            return [await client.get(path, headers=send) for path in paths]

    return asyncio.run(ask())


def login_of(tmp_path: Path, user: str) -> tuple[WebFile, dict[str, str]]:
    """A web configuration with all users, and the header with which one comes."""
    hashed = bcrypt.hashpw(SECRET, bcrypt.gensalt(4)).decode()
    users = dict.fromkeys((*TENANTS, "eve", "Ada"), hashed)
    file = tmp_path / "web.yml"
    file.write_text(json.dumps({"basic_auth_users": users}), encoding="utf-8")
    login = base64.b64encode(f"{user}:".encode() + SECRET).decode()
    return WebFile(file, notice=len), {"Authorization": f"Basic {login}"}


def test_each_owner_sees_its_own_jobs(cluster: SimulatedCluster) -> None:
    """A user and a namespace of one name are two owners."""
    assert seen(cluster, "user:ada") == ["71", "73"]
    assert seen(cluster, "user:bob") == ["72", "74"]
    assert seen(cluster, "namespace:bob") == ["bob/train"]
    assert seen(cluster, "user:bob", "namespace:bob") == ["72", "74", "bob/train"]


@pytest.mark.parametrize(
    "owner", ["", "user:", "user:a", "user:ad", "user:adam", "user:Ada", "ada", "user:ada ", "*"]
)
def test_an_owner_matches_whole_and_with_its_case(cluster: SimulatedCluster, owner: str) -> None:
    """No prefix, no other case, no pattern."""
    assert seen(cluster, owner) == []


@pytest.mark.parametrize(
    "facts",
    [
        {"user": ""},
        {"user": "ada\u202e"},
        {"user": "x ada"},
        {"scheduler": ""},
        {"scheduler": "other"},
        {"scheduler": "kubernetes", "namespace": "", "user": "ada"},
        {"scheduler": "kubernetes", "namespace": "user:ada"},
        {"account": "ada", "user": ""},
    ],
)
def test_a_job_without_an_owner_is_nobodys(facts: dict[str, str]) -> None:
    """Neither an empty name, nor one that is none, nor what an environment says makes an owner."""
    cluster = SimulatedCluster()
    cluster.run("9", [0], **facts)
    cluster.read()
    (job,) = cluster.model.snapshot().jobs
    assert job.owner == ""
    assert seen(cluster, "", "user:", "user:ada", "namespace:", "namespace:user:ada") == []


def test_a_job_id_that_two_users_claim_is_nobodys(cluster: SimulatedCluster) -> None:
    """A node that says so shows neither job to the other's user."""
    cluster.run("72", [9], user="eve")
    cluster.read()
    assert seen(cluster, "user:eve") == []
    assert seen(cluster, "user:bob") == ["74"]


def test_what_only_a_process_claims_gives_no_job_to_anybody(cluster: SimulatedCluster) -> None:
    """Events name the job that a process's environment names."""
    node, gpu = cluster.node(9), cluster.gpu(9, 0)
    at = cluster.clock.time_ns(), cluster.clock.monotonic_ns()
    about = {"job": "500", "gpus": gpu.id, "scheduler": "slurm", "user": "ada"}
    cluster.take(events=[Event(*at, node, "job_started", about)])
    cluster.read()
    assert "500" in {job.id for job in cluster.model.snapshot().jobs}
    assert seen(cluster, "user:ada") == ["71", "73"]


def test_a_prologs_file_without_a_user_takes_no_job_away(cluster: SimulatedCluster) -> None:
    """GPUs that a job does not use are known from the prolog alone, which names no user."""
    cluster.run("71", [10], user="", job_name="")
    cluster.read()
    assert seen(cluster, "user:ada") == ["71", "73"]


def test_only_devices_under_the_jobs_are_seen(cluster: SimulatedCluster) -> None:
    """Of a shared node the own GPUs alone, and all of its ports."""
    part = part_of(cluster.model.snapshot(), ["user:ada"])
    assert [node.name for node in part.layout.nodes] == ["node-0000", "node-0001", "node-0003"]
    assert len(part.layout.gpus) == 8 + 8 + 4
    assert {gpu.id for gpu in part.layout.gpus[16:]} == {cluster.gpu(3, n).id for n in range(4)}
    assert len(part.layout.ports) == 3 * 8
    (_, shared) = part.jobs
    assert {part.layout.gpus[row].id for row in shared.gpus} == {
        cluster.gpu(3, n).id for n in range(4)
    }


def test_values_and_levels_stay_with_their_devices(cluster: SimulatedCluster) -> None:
    """Whatever rows they have in the part, and what is out of service is that here too."""
    bob = cluster.gpu(3, 6)
    cluster.read({bob: {"temperature_celsius": 77}})
    out, at = cluster.node(2), (cluster.clock.time_ns(), cluster.clock.monotonic_ns())
    cluster.take(events=[Event(*at, out, "maintenance_started", {})])
    cluster.find(cluster.gpu(3, 0), "gpu_lost", "Of ada.")
    cluster.find(bob, "gpu_lost", "Of bob.")
    cluster.clock.advance(2)
    whole = cluster.model.snapshot()
    part = part_of(whole, ["user:bob"])
    for row, gpu in enumerate(part.layout.gpus):
        there = whole.layout.gpu_at(gpu.host, gpu.id)
        assert there is not None
        assert part.levels.gpus[row] == whole.levels.gpus[there]
        values = part.gpus.of("temperature_celsius")[part.layout.gpu_rows[row]]
        assert values == (77 if gpu.id == bob.id else 61)
    assert part.levels.nodes.tolist() == [
        whole.levels.nodes[whole.layout.node_at[node.name]] for node in part.layout.nodes
    ]


def test_incidents_of_others_are_not_seen(cluster: SimulatedCluster) -> None:
    """Nor is a GPU of another on a node that both use; kinds that nobody opened are hidden."""
    mine = cluster.find(cluster.gpu(0, 1), "gpu_lost", "GPU 1 is lost.", jobs=("71",))
    rank = Device("node-0000", "rank", "71/3", {"job": "71"})
    stall = cluster.find(rank, "hang/absent_rank", "Rank 3 waits.")
    cluster.find(cluster.gpu(3, 7), "gpu_lost", "Of bob, on the shared node.")
    cluster.find(cluster.gpu(2, 0), "gpu_lost", "Of bob.")
    cluster.find(cluster.gpu(12, 0), "gpu_lost", "Of nobody.")
    cluster.find(Device("node-0002", "rank", "72/3", {"job": "72"}), "hang/x", "Of bob.")
    cluster.find(Device("node-0000", "something", "x"), "xid", "Of a new kind.")
    part = part_of(cluster.model.snapshot(), ["user:ada"])
    assert {one.id for one in part.incidents} == {mine.id, stall.id}
    assert {one.id for one in part.findings} == {mine.id, stall.id}
    assert {one.summary for one in part.incidents} == {"GPU 1 is lost.", "Rank 3 waits."}
    assert {one.summary for one in part.findings} == {"GPU 1 is lost.", "Rank 3 waits."}


def test_words_about_shared_things_and_words_of_people_are_left_out(
    cluster: SimulatedCluster, tmp_path: Path
) -> None:
    """A leaf switch, a node of two users, a job that was there before: class and device alone."""
    more: dict[str, Any] = {"evidence": ("bob's secret-model failed",), "reason": "Ask bob."}
    switch = Device("leaf", "switch", cluster.topology.ports[0].attributes["leaf"])
    cluster.find(switch, "ib/switch", "Down: jobs 71, 72.", jobs=("71", "72"), **more)
    cluster.find(cluster.node(3), "xid", "bob's secret-model crashed.", **more)
    cluster.find(cluster.node(0), "xid", "Job 60 of bob crashed.", jobs=("60",), **more)
    cluster.end(cluster.find(cluster.gpu(1, 0), "xid", "bob, earlier.", jobs=("61",), **more))
    cluster.find(cluster.gpu(1, 1), "xid", "bob, but who was it?", **more)
    cluster.find(cluster.gpu(3, 0), "xid", "Beside bob's secret-model.", jobs=("73",), **more)
    own = cluster.find(cluster.gpu(0, 5), "gpu_lost", "GPU 5 is lost.", jobs=("71",))
    cluster.incidents[-1] = replace(
        cluster.incidents[-1],
        acknowledged_ns=cluster.clock.time_ns(),
        acknowledged_by="bob",
        note="bob looks",
    )
    (listed,) = asked(cluster, tmp_path, "ada", ["/api/v1/incidents?state=all"])
    ids = [row["id"] for row in listed["incidents"]]
    assert len(ids) == 7
    assert {row["id"]: row["summary"] for row in listed["incidents"]}[own.id] == own.summary
    paths = ["/api/v1/jobs", "/api/v1/health", "/api/v1/health?node=node-0003", "/api/v1/topology"]
    found = asked(cluster, tmp_path, "ada", [*paths, *(f"/api/v1/incidents/{i}" for i in ids)])
    assert {each.status for each in found} == {200}
    for each in (listed, *found):
        for word in (b"bob", b"secret", b"72", b"node-0002", b"node-0004", b'"60"', b'"61"'):
            assert word not in _without_ids(each.body, cluster), (word, each.body)
    assert {tuple(row["nodes"]) for row in listed["incidents"]} <= {
        ("node-0000", "node-0001", "node-0003"), ("node-0003",), ("node-0000",), ("node-0001",),
    }  # fmt: skip


def _without_ids(body: bytes, cluster: SimulatedCluster) -> bytes:
    """Without ids of devices and hexadecimal ids, in which any digits may be."""
    document = json.dumps(_cut(json.loads(body)))
    for device in (*cluster.gpus, *cluster.ports):
        document = document.replace(device.id, "")
    return document.encode()


def _cut(value: Any) -> Any:
    """Texts without hexadecimal ids and times, in any depth."""
    if isinstance(value, dict):
        return {key: _cut(one) for key, one in value.items() if key not in ("layout", "serial")}
    if isinstance(value, list):
        return [_cut(one) for one in value]
    is_id = isinstance(value, str) and re.fullmatch(r"[0-9a-f]{16}|[-0-9]{10}T[0-9:]{8}Z?", value)
    return "" if is_id else value


OPEN = {
    *("topology", "health", "incidents", "incident", "jobs", "jobs_ended"),
    *("explanation_json", "explanation_html", "explanation_text"),
}


@pytest.mark.parametrize("user", ["ada", "none", "sre", "eve", "Ada"])
def test_what_is_not_opened_is_refused(
    cluster: SimulatedCluster, tmp_path: Path, user: str
) -> None:
    """The stream, candidates, the scheduler's calls, the metrics and unknown paths; and everything
    for a user whom nobody named.
    """
    denied = [each.path for each in OPERATIONS if each.method == "GET" and each.id not in OPEN]
    paths = [path for path in denied if path != "/api/v1/stream"]
    paths += ["/metrics", "/api/v1/nowhere", "/scheduler/filter", "/API/v1/jobs", "/api/v1/jobs/"]
    statuses = [each.status for each in asked(cluster, tmp_path, user, paths)]
    if user == "sre":
        assert 403 not in statuses
        return
    assert set(statuses) == {403}
    (stream,) = asked(cluster, tmp_path, user, ["/api/v1/stream"])
    assert stream.status == 403
    served = ["/api/v1/jobs", "/api/v1/topology", "/api/v1/openapi.json", "/-/healthy"]
    statuses = [each.status for each in asked(cluster, tmp_path, user, served)]
    assert set(statuses) == {403 if user in ("eve", "Ada") else 200}


def test_a_password_is_needed_all_the_same(cluster: SimulatedCluster, tmp_path: Path) -> None:
    """A name alone opens nothing."""
    header = base64.b64encode(b"ada:wrong").decode()
    (found,) = asked(cluster, tmp_path, "ada", ["/api/v1/jobs"], Authorization=f"Basic {header}")
    assert found.status == 401


def test_what_another_may_see_is_as_if_it_were_not_there(
    cluster: SimulatedCluster, tmp_path: Path
) -> None:
    """The same answer as for a name that nobody has."""
    finding = cluster.find(cluster.gpu(2, 0), "gpu_lost", "Of bob.")
    gpu = cluster.gpu(3, 7).id
    pairs = [
        ("/api/v1/health?node={}", "node-0002", "node-9999"),
        ("/api/v1/health?job={}", "72", "99"),
        ("/api/v1/health?device={}", gpu, "x" * len(gpu)),
        ("/api/v1/incidents/{}", finding.id, "f" * len(finding.id)),
        ("/api/v1/jobs?job={}", "72", "99"),
        ("/api/v1/jobs?user={}", "bob", "xxx"),
    ]
    paths = [path.format(name) for path, *names in pairs for name in names]
    found = asked(cluster, tmp_path, "ada", paths)
    for (_, real, unreal), one, other in zip(pairs, found[::2], found[1::2], strict=True):
        assert one.status == other.status
        assert one.body.replace(real.encode(), b"") == other.body.replace(unreal.encode(), b"")


def test_answers_that_are_kept_stay_with_their_reader(
    cluster: SimulatedCluster, tmp_path: Path
) -> None:
    """One after the other on one server, with the ETag of the other's answer too."""
    (everything,) = asked(cluster, tmp_path, "sre", ["/api/v1/topology"])
    tag = everything.headers["ETag"]
    paths = ["/api/v1/topology"]
    (ada,) = asked(cluster, tmp_path, "ada", paths, **{"If-None-Match": tag})
    (bob,) = asked(cluster, tmp_path, "bob", paths, **{"If-None-Match": ada.headers["ETag"]})
    names = [each["static"]["nodes"]["name"] for each in (ada, bob)]
    assert names == [["node-0000", "node-0001", "node-0003"], ["node-0002", "node-0003"]]
    assert len(everything["node_levels"]) == 16


def test_a_user_without_jobs_sees_an_empty_cluster(
    cluster: SimulatedCluster, tmp_path: Path
) -> None:
    """All answers keep to their schema."""
    cluster.find(cluster.gpu(2, 0), "gpu_lost", "Of bob.")
    jobs, health, topology, incidents = asked(
        cluster,
        tmp_path,
        "none",
        ["/api/v1/jobs", "/api/v1/health", "/api/v1/topology", "/api/v1/incidents?state=all"],
    )
    assert (jobs["jobs"], jobs["total"], incidents["total"]) == ([], 0, 0)
    assert (health["nodes"]["total"], topology["node_levels"]) == (0, "")


def test_a_job_that_ends_leaves_the_view(cluster: SimulatedCluster) -> None:
    """With its nodes, within a second."""
    cluster.holders = [one for one in cluster.holders if one.attributes["job"] != "71"]
    cluster.read()
    part = part_of(cluster.model.snapshot(), ["user:ada"])
    assert [node.name for node in part.layout.nodes] == ["node-0003"]
    assert part.time_ns > 5 * SECOND_NS
