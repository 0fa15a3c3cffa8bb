"""What a process says of itself: whose job it is, and which GPU it holds."""

from __future__ import annotations

import pytest

from pipeline.observation import Event
from tests.tenants.node import ALICE, GPU, MALLORY, UUID, Node, job_of, reply, reports

pytestmark = pytest.mark.root

PORT = 28_051


def test_a_claimed_job_id_hides_no_stall(node: Node) -> None:
    """Another user with the same SLURM_JOB_ID and RAS switched off is a job of its own."""
    rank = node.start_ras(ALICE, "71", PORT)
    node.answer("71", reply(job_of(rank.pid)))
    node.read()
    node.start(MALLORY, SLURM_JOB_ID="71", SLURM_STEP_ID="9", RANK="0", NCCL_RAS_ENABLE="0")
    node.suspect()
    node.read()
    looks = [report.job for _ in range(3) for report in reports(node.read(15))]
    assert set(looks) == {"71"}
    (frame,) = node.read().frames
    assert [(d.id, frame.value("ras_usable", row)) for row, d in enumerate(frame.devices)] == [
        ("71", 1.0),
        (f"user{MALLORY}::71.9", 0.0),
    ]


def test_a_name_that_is_made_to_look_like_another_users_joins_no_job(node: Node) -> None:
    """Names of two users' equal jobs have the user in front; who takes such a name as its own, to
    switch off the other's RAS from within, is a job of its own.
    """
    node.start(MALLORY, SLURM_JOB_ID="71", RANK="0")
    node.read()
    address = f"user{ALICE}:"  # joined with the port by a colon
    node.start(MALLORY, RANK="0", NCCL_RAS_ENABLE="0", MASTER_ADDR=address, MASTER_PORT="71")
    node.read(15)
    node.start(ALICE, SLURM_JOB_ID="71", RANK="0")
    node.start(MALLORY, RANK="1", NCCL_RAS_ENABLE="0", MASTER_ADDR=address, MASTER_PORT="71")
    node.read(15)
    users = {job.name: {process.user for process in job.present} for job in node.jobs()}
    assert users == {
        "71": {MALLORY},
        f"user{ALICE}::71": {ALICE},
        f"user{MALLORY}::user{ALICE}::71": {MALLORY},
    }


def test_a_dying_process_names_no_gpu_that_it_does_not_hold(node: Node) -> None:
    """A file whose path reads like a GPU's, and a library that is called NCCL's."""
    rank = node.start_ras(ALICE, "71", PORT)
    node.answer("71", reply(job_of(rank.pid)))
    fake = node.file("mine /dev/nvidia3", b"\0" * 4096, MALLORY)
    control = node.file("mine /dev/nvidiactl", b"\0" * 4096, MALLORY)
    library = node.file("mine/libnccl.so.2.30.7", b"\0" * 4096, MALLORY)
    tenants = [
        node.start(MALLORY, maps=maps, SLURM_JOB_ID="666", RANK=str(n))
        for n, maps in enumerate([(fake, control, library)] * 2)
    ]
    events = [*node.read().events]
    node.stop(tenants[0])
    events += node.read(15).events
    assert named(events) == {UUID}
    assert {event.attributes["job"] for event in events if "gpus" in event.attributes} == {"71"}


def test_a_descriptor_that_only_names_a_device_file_holds_no_gpu(node: Node) -> None:
    """O_PATH opens a file of mode 0, and past the control group's list of devices."""
    named = node.file("mine /dev/nvidia5", b"\0" * 4096, MALLORY)
    tenant = node.start(MALLORY, maps=(named, node.library), paths=(node.device,))
    assert node.scan() == ()
    node.start(ALICE, maps=(node.device, node.library))
    assert tenant.pid not in {found.pid for found in node.scan()}


def test_a_gpu_that_only_others_use_is_not_named(node: Node) -> None:
    """Device files are open to every user: where NVML lists processes of a GPU, they count."""
    rank = node.start_ras(ALICE, "71", PORT)
    node.answer("71", reply(job_of(rank.pid)))
    node.use(UUID, rank)
    node.start(MALLORY, SLURM_JOB_ID="666", RANK="0")
    events = node.read().events
    assert {e.attributes["job"] for e in events if e.attributes.get("gpus") == UUID} == {"71"}
    assert {e.attributes["job"] for e in events} == {"71", "666"}


def test_the_tests_gpu_is_a_device_file(node: Node) -> None:
    """By its number, as the kernel knows it."""
    node.start(ALICE, maps=(node.device,))
    (found,) = node.scan()
    assert found.uuids == (UUID,)
    assert GPU == 5


def named(events: list[Event]) -> set[str]:
    """The GPUs that events name."""
    return {uuid for e in events for uuid in str(e.attributes.get("gpus", "")).split()}
