"""Labels of pods and jobs in the dialect: which are there under which switch, on
which rows, and when they go.
"""

from __future__ import annotations

import re

import pytest

from pipeline.dcgm import JobLabels, LabelStyle
from tests.pipeline.dcgm import nodes
from tests.pipeline.dcgm.nodes import Node, busy, gpu, holder, instance

TEMP = "DCGM_FI_DEV_GPU_TEMP"
KUBERNETES = JobLabels(kubernetes=True)


def of_jobs(line: str) -> dict[str, str]:
    """The labels of a line that are about pods, claims and jobs."""
    wanted = r"((?:pod|container|namespace|hpc_job|vgpu|dra)\w*)=\"([^\"]*)\""
    return dict(re.findall(wanted, line))


def test_a_pod_is_on_its_gpu_alone() -> None:
    """Allocated devices have pod, namespace and container; free ones have none
    of them, not empty ones.
    """
    node = Node(jobs=KUBERNETES).see(gpu=[(gpu(0), busy()), (gpu(1), busy())])
    lines = node.see(device_job=[holder(gpu(1), pod="p", namespace="ns", container="c")]).lines(
        TEMP
    )
    assert [of_jobs(line) for line in lines] == [
        {},
        {"pod": "p", "namespace": "ns", "container": "c"},
    ]


def test_without_k_there_are_no_pods() -> None:
    """The switch is off by default, as in dcgm-exporter."""
    (line,) = Node().see(gpu=[(gpu(0), busy())], device_job=[holder(gpu(0), pod="p")]).lines(TEMP)
    assert of_jobs(line) == {}


def test_the_old_names_of_pod_labels() -> None:
    """-o calls them pod_name, pod_namespace and container_name."""
    node = Node(
        style=LabelStyle("n1", old_namespace=True),
        jobs=JobLabels(kubernetes=True, old_namespace=True),
    )
    (line,) = node.see(
        gpu=[(gpu(0), busy())], device_job=[holder(gpu(0), pod="p", namespace="ns", container="c")]
    ).lines(TEMP)
    assert of_jobs(line) == {"pod_name": "p", "pod_namespace": "ns", "container_name": "c"}


def test_of_several_pods_the_same_one_wins_every_time() -> None:
    """One row, whatever the order in which they are told."""
    pods = [holder(gpu(0), pod=name, namespace="ns") for name in "ba"]
    for held in (pods, pods[::-1]):
        (line,) = Node(jobs=KUBERNETES).see(gpu=[(gpu(0), busy())], device_job=held).lines(TEMP)
        assert of_jobs(line)["pod"] == "a"


def test_virtual_gpus_copy_the_rows_per_share() -> None:
    """A share is a copy with its number as vgpu: two of pod a, one of pod b."""
    held = [holder(gpu(0), pod="b", replicas="1"), holder(gpu(0), pod="a", replicas="0,2")]
    node = Node(jobs=JobLabels(kubernetes=True, virtual_gpus=True)).see(
        gpu=[(gpu(0), busy())], device_job=held
    )
    assert [(of_jobs(line)["pod"], of_jobs(line)["vgpu"]) for line in node.lines(TEMP)] == [
        ("a", "0"),
        ("a", "2"),
        ("b", "1"),
    ]


def test_a_mig_instance_has_the_pod_of_its_own() -> None:
    """Of three instances one is held; its neighbours and the other GPU are not."""
    first = gpu(0, nodes.A100)
    node = nodes.mig(Node(jobs=KUBERNETES)).see(
        device_job=[holder(instance(first, 5, "1g.10gb"), pod="p")]
    )
    assert ["pod" in of_jobs(line) for line in node.lines(TEMP)] == [
        'GPU_I_ID="5"' in line for line in node.lines(TEMP)
    ]
    assert sum("pod" in of_jobs(line) for line in node.lines(TEMP)) == 1


@pytest.mark.parametrize("dra", [True, False])
def test_claims_are_labels_where_asked_for(dra: bool) -> None:
    """--kubernetes-enable-dra adds the claim to the pod."""
    held = [
        holder(
            gpu(0),
            pod="p",
            claim="c",
            claim_namespace="ns",
            claim_driver="d",
            claim_pool="q",
            claim_device="gpu-0",
        )
    ]
    node = Node(jobs=JobLabels(kubernetes=True, dra=dra)).see(
        gpu=[(gpu(0), busy())], device_job=held
    )
    found = of_jobs(node.lines(TEMP)[0])
    names = ("claim_name", "claim_namespace", "driver_name", "pool_name", "device_name")
    assert [found.get(f"dra_{name}") for name in names] == (
        ["c", "ns", "d", "q", "gpu-0"] if dra else [None] * 5
    )


def test_pods_and_mapped_jobs_multiply() -> None:
    """Both mappers of dcgm-exporter work one after the other: each job's copy has the pod too."""
    held = [holder(gpu(0), pod="p"), *(holder(gpu(0), mapped=job) for job in ("7", "8"))]
    node = Node(jobs=KUBERNETES).see(gpu=[(gpu(0), busy())], device_job=held)
    assert [of_jobs(line) for line in node.lines(TEMP)] == [
        {"pod": "p", "hpc_job": "7"},
        {"pod": "p", "hpc_job": "8"},
    ]


def test_a_job_of_a_whole_gpu_is_on_its_instances() -> None:
    """A mapping file for GPU 0 means every instance of it that has no mapped job of its own; pods
    stay on what was allocated.
    """
    first, inside = gpu(0, nodes.A100), instance(gpu(0, nodes.A100), 5, "1g.10gb")
    held = [
        *(holder(first, mapped=job) for job in ("71", "72")),
        holder(first, pod="p"),
        holder(inside, mapped="73"),
    ]
    node = nodes.mig(Node(jobs=KUBERNETES)).see(device_job=held)
    found = [(re.search(r'GPU_I_ID="(\d+)"', line), of_jobs(line)) for line in node.lines(TEMP)]
    assert [(i[1] if i else "", jobs) for i, jobs in found] == [
        ("1", {"hpc_job": "71"}),
        ("1", {"hpc_job": "72"}),
        ("5", {"hpc_job": "73"}),
        ("13", {"hpc_job": "71"}),
        ("13", {"hpc_job": "72"}),
        ("", {}),
    ]


def test_a_slurm_job_without_mapping_is_no_label() -> None:
    """dcgm-exporter knows jobs by its mapping files only; what else is known stands
    in tocsin_device_job_info.
    """
    (line,) = Node().see(gpu=[(gpu(0), busy())], device_job=[holder(gpu(0), job="7")]).lines(TEMP)
    assert of_jobs(line) == {}


def test_what_is_no_longer_told_is_no_longer_shown() -> None:
    """A source of jobs that fell silent leaves no pod on a GPU that is read on."""
    node = Node(jobs=KUBERNETES).see(gpu=[(gpu(0), busy())], device_job=[holder(gpu(0), pod="p")])
    node.clock.advance(3600)
    (line,) = node.see(gpu=[(gpu(0), busy())]).lines(TEMP)
    assert of_jobs(line) == {}
