"""Jobs and pods that hold GPUs: one device per GPU (or MIG instance) and holder, and
an info series to join on.

``read``: ``kubelet`` for its pod-resources socket, ``mapping`` for the files that Slurm's prolog
writes, ``processes`` for /proc.
"""

from __future__ import annotations

from pipeline.catalog.fields import Fact, Field, Kind, Metric

KIND = "device_job"
# What distinguishes the holders of one device. Several of them share it where it is shared.
IDENTITY = ("job", "namespace", "pod", "container")
# Facts with several values, in one text separated by commas.
MERGED = ("step", "replicas")
# What users call themselves and their work: may be hidden by configuration, and is left
# out of a redacted export.
PERSONAL = (
    "user",
    "account",
    "partition",
    "job_name",
    "namespace",
    "pod",
    "container",
    "claim",
    "claim_namespace",
)

KINDS = (
    Kind(
        KIND,
        (
            ("gpu", "index"),
            ("uuid", "uuid"),
            ("gpu_instance", "gpu_instance"),
            ("scheduler", "scheduler"),
            *((name, name) for name in IDENTITY),
        ),
        "A job or pod that holds a GPU or MIG instance: one for each device that it holds.",
        fleeting=True,
    ),
)

FIELDS = (
    Field(
        9001,
        "processes",
        KIND,
        "gauge",
        Metric(
            "tocsin_device_job_processes",
            "gauge",
            "Processes of the job that hold the device; 0 for a job that does not use it.",
        ),
        "processes",
        profile="full",
    ),
)

FACTS = (
    Fact("index", KIND, "Index of the GPU.", "source", info=False),
    Fact("uuid", KIND, "UUID of the GPU.", "source", info=False),
    Fact("gpu_instance", KIND, "Number of the MIG GPU instance.", "source", info=False),
    Fact("scheduler", KIND, "Scheduler of the job: kubernetes or slurm.", "source", info=False),
    Fact(
        "job",
        KIND,
        "Slurm's job id; of a training of Kubernetes its namespace, name and UID.",
        "mapping, processes, API server",
        info=False,
    ),
    Fact("namespace", KIND, "Namespace of the pod.", "kubelet", info=False),
    Fact("pod", KIND, "Name of the pod.", "kubelet", info=False),
    Fact("container", KIND, "Name of the container.", "kubelet", info=False),
    Fact(
        "step",
        KIND,
        "Slurm's steps whose processes hold the device, separated by commas.",
        "processes",
    ),
    Fact("array_job", KIND, "Slurm's id of the job array.", "processes"),
    Fact("array_task", KIND, "Index in the job array.", "processes"),
    Fact("user", KIND, "User the job runs as: name, else number.", "processes"),
    Fact("account", KIND, "Slurm account, from the job's environment.", "processes"),
    Fact("partition", KIND, "Slurm partition, from the job's environment.", "processes"),
    Fact(
        "job_name",
        KIND,
        "Job name, from the job's environment; of a training that of its object.",
        "processes, API server",
    ),
    Fact(
        "job_kind",
        KIND,
        "Kind of the object that a training's pods belong to, such as PyTorchJob.",
        "API server",
    ),
    Fact("claim", KIND, "Resource claim (DRA) that holds the device.", "kubelet"),
    Fact("claim_namespace", KIND, "Namespace of the claim.", "kubelet", info=False),
    Fact("claim_driver", KIND, "Driver of the claim.", "kubelet", info=False),
    Fact("claim_pool", KIND, "Pool of the claim.", "kubelet", info=False),
    Fact(
        "claim_device", KIND, "Device of the claim, as its driver names it.", "kubelet", info=False
    ),
    Fact(
        "replicas",
        KIND,
        "Shares of a shared device that the container has, separated by commas.",
        "kubelet",
        info=False,
    ),
    Fact("mapped", KIND, "The job as the job-mapping file names it.", "mapping", info=False),
    Fact(
        "evidence",
        KIND,
        (
            "How it is known: kubelet, mapping (the prolog), process (the kernel's control "
            "groups), or environment (the job's own variables)."
        ),
        "source",
    ),
)
