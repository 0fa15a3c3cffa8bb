"""Allocations of pods with the training that each pod belongs to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from collector.node.pods_by_gpu import Pod
from collector.node.trainings import Training, Trainings
from collector.sources.jobs.allocation import Allocation


def in_trainings(allocations: Sequence[Allocation], trainings: Trainings) -> list[Allocation]:
    """The same, those of trainings with job, name and kind; ``hosts`` is 1 where all pods of a
    training have GPUs of this node.
    """
    known = [(one, _training(one, trainings)) for one in allocations]
    pods: dict[str, set[Pod]] = {}
    for one, training in known:
        if training is not None:
            pods.setdefault(training.id, set()).add(pod_of(one))
    return [
        one if training is None else _joined(one, training, len(pods[training.id]))
        for one, training in known
    ]


def pod_of(allocation: Allocation) -> Pod:
    """The pod of a kubelet's allocation."""
    return Pod(allocation.facts.get("namespace", ""), allocation.facts.get("pod", ""))


def _training(one: Allocation, trainings: Trainings) -> Training | None:
    return trainings.of(pod_of(one)) if one.scheduler == "kubernetes" else None


def _joined(one: Allocation, training: Training, here: int) -> Allocation:
    facts = {"job": training.id, "job_name": training.name, "job_kind": training.kind}
    return replace(one, facts={**one.facts, **facts}, hosts=int(0 < training.pods <= here))
