"""The same jobs as trainings of Kubernetes, of all kinds in turn."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from collector.node.pods_by_gpu import Pod
from collector.node.trainings import POD, Trainings
from collector.sources.jobs.allocation import Allocation
from collector.sources.jobs.pods_of_trainings import in_trainings
from collector.sources.kmsg.victim import about_victim, of_training
from collector.sources.nccl.discovery.found import Found
from collector.sources.trainings.source import TrainingsSource
from evaluation.schedulers.deaths import DEATHS, VICTIM, Death
from evaluation.schedulers.placed import AGAIN, NAME, Placed, found, logged, restarts
from pipeline.clock import SECOND_NS, Instant
from pipeline.frame import Device
from pipeline.observation import Event
from simulator.kubernetes import Cluster, Json

Top = tuple[Json | None, Mapping[str, Any]]
_NAMES = re.compile(rf"ml/{NAME}-(\d{{3}})[a-z0-9-]*\.[0-9a-f]{{8}}")


class Kubernetes:
    """See placed.Scheduler."""

    owner = "namespace:ml"

    def __init__(self) -> None:
        self._cluster, self._now = Cluster(), Instant(0, 0)
        self._trainings: dict[str, Trainings] = {}
        self._sources: dict[str, TrainingsSource] = {}
        self._ids: dict[int, str] = {}

    def time_ns(self) -> int:
        """The clock of its sources."""
        return self._now.time_ns

    def monotonic_ns(self) -> int:
        """See time_ns."""
        return self._now.mono_ns

    def started(self, job: Placed) -> None:
        """Objects and pods are made: a pod for each host."""
        owner, metadata = _top(self._cluster, job)
        for host in job.gpus:
            self._cluster.pod(_pod(job, host), owner, node=host, **metadata)

    def ended(self, job: Placed, death: str, at: Instant) -> Iterator[Event]:
        """The first pod's container ends in its way, those of the others are ended."""
        how = DEATHS[death]
        if job.number in self._ids:
            yield from logged(how.log, job, self._ids[job.number], at)
        for number, host in enumerate(job.gpus):
            pod = self._cluster.pods[_pod(job, host)]
            group = f"/kubepods.slice/kubepods-pod{pod['metadata']['uid'].replace('-', '_')}.slice"
            if how.kernel and not number:
                facts = about_victim(group, group)
                facts |= of_training(facts, self._trainings[host])
                pid = job.pids[job.gpus[host][0]]
                node = Device(host, "node", host)
                yield Event(*at, node, "oom_kill", {"pid": pid, "process": "python3", **facts})
            self._end(pod["metadata"]["name"], VICTIM if number else how, at)

    def _end(self, pod: str, how: Death, at: Instant) -> None:
        self._cluster.end(pod, how.code, how.reason)
        made = self._cluster.pods[pod]
        stamp = datetime.fromtimestamp(at.time_ns // SECOND_NS, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        made["status"]["containerStatuses"][0]["state"]["terminated"]["finishedAt"] = stamp
        words = dict(how.status)
        if "reason" in words:
            made["status"]["reason"] = words["reason"]
        if "disruption" in words:
            condition = {"type": "DisruptionTarget", "status": "True"}
            made["status"]["conditions"] = [condition | {"reason": words["disruption"]}]
        if how.deleted:
            made["metadata"]["deletionTimestamp"] = stamp

    def read(self, host: str, jobs: Collection[Placed], at: Instant) -> Iterator[Event]:
        """The pods of the node and their owners, from the API."""
        self._now = at
        source = self._sources.get(host)
        if source is None:
            source = self._sources[host] = TrainingsSource(
                self._cluster.get, host, host, self, self.trainings(host)
            )
        yield from source.read().events
        for job in jobs:
            training = self.trainings(host).of(Pod("ml", _pod(job, host)))
            if training is not None:
                self._ids[job.number] = training.id

    def allocations(self, host: str, job: Placed) -> Iterator[Allocation]:
        """As the kubelet lists them."""
        facts = {"namespace": "ml", "pod": _pod(job, host), "container": "main"}
        listed = [Allocation(uuid, "", "kubernetes", "kubelet", facts) for uuid in job.gpus[host]]
        yield from in_trainings(listed, self.trainings(host))

    def process(self, host: str, job: Placed, uuid: str, step: int) -> Found:
        """In the control group of its pod."""
        group = f"{POD}{self._cluster.pods[_pod(job, host)]['metadata']['uid']}"
        return found(job, uuid, step, group, group)

    def trainings(self, host: str) -> Trainings:
        """What the last list had."""
        return self._trainings.setdefault(host, Trainings())

    def neutral(self, text: str) -> str:
        """Namespace, name and UID."""
        return _NAMES.sub(lambda match: f"<job {int(match[1])}>", text)

    def id_of(self, job: Placed) -> str:
        """As its page is asked for."""
        return self._ids[job.number]


def _pod(job: Placed, host: str) -> str:
    return f"{NAME}-{job.number:03d}-{job.attempt}-{list(job.gpus).index(host)}"


def _top(cluster: Cluster, job: Placed) -> Top:
    """The object that owns the pods of a job, and what the pods bear."""
    nodes, name = len(job.gpus), f"{NAME}-{job.number:03d}"
    if job.number % 5 == AGAIN or restarts(job.number):
        return _jobset(cluster, name, nodes), {}
    match job.number % 9:
        case 0:
            indexed = {
                "completions": nodes, "parallelism": nodes, "completionMode": "Indexed",
                "template": {"spec": {"subdomain": "train"}},
            }  # fmt: skip
            return cluster.add("batch/v1", "Job", name, spec=indexed), {}
        case 1:
            replicas = {"Master": {"replicas": 1}, "Worker": {"replicas": nodes - 1}}
            spec: Json = {"pytorchReplicaSpecs": replicas}
            return cluster.add("kubeflow.org/v1", "PyTorchJob", name, spec=spec), {}
        case 2:
            workers = {"Launcher": {"replicas": 1}, "Worker": {"replicas": nodes}}
            spec = {"mpiReplicaSpecs": workers}
            return cluster.add("kubeflow.org/v2beta1", "MPIJob", name, spec=spec), {}
        case 3:
            top = cluster.add("ray.io/v1", "RayJob", name)
            return cluster.add("ray.io/v1", "RayCluster", f"{name}-raycluster", top), {}
        case 4:
            spec = {"minAvailable": nodes, "tasks": [{"replicas": nodes}]}
            return cluster.add("batch.volcano.sh/v1alpha1", "Job", name, spec=spec), {}
        case 5:
            top = cluster.add(
                "trainer.kubeflow.org/v1alpha1", "TrainJob", name,
                spec={"trainer": {"numNodes": nodes}},
            )  # fmt: skip
            return _jobset(cluster, f"{name}-x", nodes, top), {}
        case 6:  # Kueue: the queue is a label of the Job, its Workload is owned by it
            spec = {"completions": nodes, "parallelism": nodes}
            top = cluster.add("batch/v1", "Job", name, spec=spec)
            cluster.add("kueue.x-k8s.io/v1beta1", "Workload", f"job-{name}", top)
            labels = {"kueue.x-k8s.io/queue-name": "gpus", "scheduling.x-k8s.io/pod-group": name}
            return top, {"labels": labels}
        case 7:
            return None, {"annotations": {"scheduling.k8s.io/group-name": name}}
        case _:
            return _jobset(cluster, name, nodes), {}


def _jobset(cluster: Cluster, name: str, nodes: int, owner: Json | None = None) -> Json:
    inner = {"parallelism": nodes, "completions": nodes}
    spec = {"replicatedJobs": [{"replicas": 1, "template": {"spec": inner}}]}
    top = cluster.add("jobset.x-k8s.io/v1alpha2", "JobSet", name, owner, spec=spec)
    return cluster.add("batch/v1", "Job", f"{name}-workers-0", top, spec=inner)
