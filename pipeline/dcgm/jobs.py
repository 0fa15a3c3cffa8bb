"""Labels of pods and jobs on dcgm-exporter's series: pod mapper and HPC mapper of that exporter,
from the jobs of the snapshot.

README and internal/pkg/transformation of dcgm-exporter: labels go on what is allocated only; of
several pods on one device one wins, unless virtual GPUs are on; every sample is copied for each
line of the job-mapping file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from pipeline.catalog.device_job import KIND
from pipeline.exposition.latest import Snapshot
from pipeline.exposition.loose import Labels
from pipeline.frame import Attributes, Device

# Fact to label: dcgm-exporter's names, those of --use-old-namespace, and what
# --kubernetes-enable-dra adds.
_POD = (("pod", "pod"), ("namespace", "namespace"), ("container", "container"))
_OLD_POD = (("pod", "pod_name"), ("namespace", "pod_namespace"), ("container", "container_name"))
_CLAIM = (
    ("claim", "dra_claim_name"),
    ("claim_namespace", "dra_claim_namespace"),
    ("claim_driver", "dra_driver_name"),
    ("claim_pool", "dra_pool_name"),
    ("claim_device", "dra_device_name"),
)
# Labels of the holders of a device: one set per copy of its series, and one
# empty set where nobody does.
Holders = Callable[[Device], Sequence[Labels]]


@dataclass(frozen=True, slots=True)
class JobLabels:
    """Which labels are wanted: dcgm-exporter's switches for Kubernetes; those of the job mapping
    are there when a mapping is.
    """

    kubernetes: bool = False
    virtual_gpus: bool = False
    dra: bool = False
    old_namespace: bool = False

    def of(self, snapshot: Snapshot) -> Holders:
        """Who holds what in a snapshot. What is no longer fresh is left out."""
        held: dict[tuple[str, str], list[Attributes]] = {}
        for entry in snapshot.of(KIND):
            for device in entry.frame.devices if entry.fresh else ():
                facts = device.attributes
                held.setdefault((facts.get("uuid", ""), facts.get("gpu_instance", "")), []).append(
                    facts
                )

        def holders(device: Device) -> Sequence[Labels]:
            uuid, instance = place = _place(device, snapshot)
            around = held.get((uuid, ""), ()) if instance else ()
            return self._copies(held.get(place, ()), around)

        return holders

    def _copies(
        self, holders: Sequence[Attributes], around: Iterable[Attributes]
    ) -> Sequence[Labels]:
        """Copies for who holds a device and, where it is an instance, for those of the whole GPU:
        a job mapped to a GPU has each of its instances that no job is mapped to.
        """
        pods = (
            list(self._pods([h for h in holders if h.get("scheduler") == "kubernetes"]))
            if self.kubernetes
            else []
        )
        mapped = [h for h in holders if "mapped" in h] or [h for h in around if "mapped" in h]
        jobs: list[Labels] = [(("hpc_job", h["mapped"]),) for h in mapped]
        return tuple((*pod, *job) for pod in pods or [()] for job in jobs or [()])

    def _pods(self, pods: Sequence[Attributes]) -> Iterable[Labels]:
        """One set per share with virtual GPUs, else that of the first pod by name:
        the same one on every page.
        """
        names = (_OLD_POD if self.old_namespace else _POD) + (_CLAIM if self.dra else ())
        ordered = sorted(
            pods, key=lambda p: tuple(p.get(fact, "") for fact in ("namespace", "pod", "container"))
        )
        for pod in ordered if self.virtual_gpus else ordered[:1]:
            labels = tuple((label, pod[fact]) for fact, label in names if fact in pod)
            shares = pod.get("replicas", "").split(",") if self.virtual_gpus else [""]
            for share in shares:
                yield (*labels, ("vgpu", share)) if share else labels


def _place(device: Device, snapshot: Snapshot) -> tuple[str, str]:
    if device.kind != "gpu_instance":
        return device.id, ""
    facts = snapshot.facts(device)
    return facts.get("gpu_uuid", ""), facts.get("gpu_instance", "")
