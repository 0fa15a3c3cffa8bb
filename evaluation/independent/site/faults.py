"""What breaks, what that does to a node, and what should be said of it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from evaluation.independent.interface import Event, Fault
from evaluation.independent.site.cluster import PER_NODE, Cluster
from evaluation.independent.site.draw import Values, between
from evaluation.independent.site.plan import RETRY_S, Plan
from evaluation.independent.site.work import Indices, Training
from pipeline.observation import Value
from simulator.fleet.truth import Where

HOUR_S = 3600.0


@dataclass(frozen=True, slots=True)
class Effect:
    """What is different of some parts from ``start_s`` to ``end_s``. ``kind`` is the method of
    Breaker that made it; ``of`` are numbers of GPUs, ports, nodes or racks.
    """

    kind: str
    of: tuple[int, ...]
    start_s: float
    end_s: float
    size: float = 0.0


def parts(active: list[Effect], kind: str) -> Indices:
    """Numbers of the parts that have an effect of a kind."""
    found = [number for effect in active if effect.kind == kind for number in effect.of]
    return np.array(found, dtype=np.intp)


def sized(active: list[Effect], kind: str, number: int) -> Values:
    """The size of the effects of a kind on each of so many parts; 0 where there is none."""
    sizes = np.zeros(number)
    for effect in active:
        if effect.kind == kind:
            sizes[list(effect.of)] = effect.size
    return sizes


@dataclass
class Trouble:
    """Everything that is wrong in a world."""

    effects: list[Effect] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)


@dataclass
class Breaker:
    """Breaks parts of one cluster; each method one kind of fault of one part."""

    source: np.random.Generator
    cluster: Cluster
    plan: Plan
    trouble: Trouble

    def lost(self, gpu: int, at_s: float) -> None:
        """It falls off the bus: XID 79, no reading any more, and its job is over."""
        end = at_s + between(self.source, 1.5 * HOUR_S, 5 * HOUR_S)
        self._xid(gpu, at_s, 79, "GPU has fallen off the bus.")
        self._effect("lost", (gpu,), at_s, end)
        self._fault(Fault("", "xid", "page", "gpu", self.cluster.gpus[gpu].id, at_s, end, 60))
        self._end_job(gpu, at_s)

    def uncorrectable(self, gpu: int, at_s: float) -> None:
        """A row is to be replaced; the error went further than its process: XID 48, 63 and 95."""
        end = at_s + between(self.source, 1.5 * HOUR_S, 5 * HOUR_S)
        self._xid(gpu, at_s, 48, "pid=4711, name=python, DBE (double bit error) ECC Error")
        self._xid(gpu, at_s + 0.4, 63, "pid=4711, name=python, Row Remapper: New row marked")
        self._xid(gpu, at_s + 0.6, 95, "pid=4711, name=python, Uncontained ECC error")
        self._effect("uncorrectable", (gpu,), at_s, end)
        self._fault(
            Fault("", "ecc", "page", "gpu", self.cluster.gpus[gpu].id, at_s, end, 120), "xid"
        )
        self._end_job(gpu, at_s)

    def remap_failed(self, gpu: int, at_s: float) -> None:
        """No spare row is left: XID 48 and 64, and a flag that stays."""
        end = at_s + between(self.source, 3 * HOUR_S, 8 * HOUR_S)
        self._xid(gpu, at_s, 48, "pid=4711, name=python, DBE (double bit error) ECC Error")
        self._xid(gpu, at_s + 0.5, 64, "pid=4711, name=python, Row Remapper: Failed to remap")
        self._effect("remap_failed", (gpu,), at_s, end)
        self._fault(
            Fault("", "ecc", "page", "gpu", self.cluster.gpus[gpu].id, at_s, end, 120), "xid"
        )
        self._end_job(gpu, at_s)

    def link_down(self, port: int, at_s: float) -> None:
        """It goes down and stays so; the job waits a few minutes and ends."""
        end = at_s + between(self.source, 1.2 * HOUR_S, 5 * HOUR_S)
        device = self.cluster.ports[port]
        self.trouble.events.append(
            Event(
                at_s,
                "kmsg",
                device,
                "link_down",
                {"interface": device.attributes["device"], "port": 1},
            )
        )
        self._effect("link_down", (port,), at_s, end)
        self._fault(Fault("", "ib", "page", "link", device.id, at_s, end, 360), "hang")
        self._end_job(port, at_s + between(self.source, 30, 600))

    def narrow_pcie(self, gpu: int, at_s: float) -> None:
        """Half of the lanes are gone."""
        end = at_s + between(self.source, 2 * HOUR_S, 8 * HOUR_S)
        self._effect("narrow_pcie", (gpu,), at_s, end)
        self._fault(Fault("", "pcie", "page", "gpu", self.cluster.gpus[gpu].id, at_s, end, 600))

    def power_brake(self, gpu: int, at_s: float) -> None:
        """A power supply of the node failed: the brake holds all of its GPUs."""
        node, end = gpu // PER_NODE, at_s + between(self.source, HOUR_S, 5 * HOUR_S)
        self._effect("power_brake", (node,), at_s, end, self.source.uniform(0.15, 0.6))
        name = self.cluster.nodes[node].id
        members = tuple(g.id for g in self.cluster.gpus[self.cluster.of_node(node)])
        self._fault(
            Fault("", "throttle", "page", "node", name, at_s, end, 600, members), "straggler"
        )

    def hot(self, gpu: int, at_s: float) -> None:
        """Its heat sink came loose: it heats up, and the hardware slows it down."""
        end = at_s + between(self.source, 2 * HOUR_S, 6 * HOUR_S)
        self._effect("hot", (gpu,), at_s, end, self.source.uniform(1.5, 3.0))
        uuid = self.cluster.gpus[gpu].id
        self._fault(Fault("", "thermal", "page", "gpu", uuid, at_s, end, 1200), "throttle")

    def slow_gpu(self, gpu: int, at_s: float) -> None:
        """Slower at the same work, and no reason is given."""
        at_s = self._while_it_works(gpu, at_s, 1500)
        end = at_s + between(self.source, 1.5 * HOUR_S, 5 * HOUR_S)
        self._effect("slow", (gpu,), at_s, end, self.source.uniform(0.12, 0.45))
        uuid = self.cluster.gpus[gpu].id
        self._fault(Fault("", "straggler", "page", "gpu", uuid, at_s, end, 1200))

    def slow_node(self, gpu: int, at_s: float) -> None:
        """All GPUs of a node, and its job waits for it."""
        node, end = gpu // PER_NODE, at_s + between(self.source, 1.5 * HOUR_S, 5 * HOUR_S)
        gpus = range(node * PER_NODE, (node + 1) * PER_NODE)
        self._effect("slow", tuple(gpus), at_s, end, self.source.uniform(0.1, 0.3))
        members = tuple(self.cluster.gpus[g].id for g in gpus)
        name = self.cluster.nodes[node].id
        self._fault(Fault("", "straggler", "page", "node", name, at_s, end, 1200, members))

    def limited(self, gpu: int, at_s: float) -> None:
        """Its power limit was lowered below the default, as no other's."""
        end = at_s + between(self.source, 2 * HOUR_S, 8 * HOUR_S)
        self._effect("limited", (gpu,), at_s, end, self.source.uniform(0.15, 0.4))
        uuid = self.cluster.gpus[gpu].id
        self._fault(Fault("", "power-limit", "ticket", "gpu", uuid, at_s, end, 1200), "straggler")

    def frozen(self, gpu: int, at_s: float) -> None:
        """The node's GPU readings stay as they are, to the last digit."""
        node, end = gpu // PER_NODE, at_s + between(self.source, HOUR_S, 5 * HOUR_S)
        self._effect("frozen", (node,), at_s, end)
        members = tuple(g.id for g in self.cluster.gpus[self.cluster.of_node(node)])
        name = self.cluster.nodes[node].id
        fault = Fault("", "observability", "ticket", "collector", name, at_s, end, 1800, members)
        self._fault(fault)

    def hot_rack(self, gpu: int, at_s: float) -> None:
        """The air of a rack warms up within minutes."""
        rack = int(self.cluster.rack_of[gpu // PER_NODE])
        end = at_s + between(self.source, 2 * HOUR_S, 5 * HOUR_S)
        self._effect("hot_rack", (rack,), at_s, end, self.source.uniform(7, 13))
        nodes = np.flatnonzero(self.cluster.rack_of == rack)
        members = tuple(self.cluster.nodes[n].id for n in nodes)
        name = self.cluster.nodes[nodes[0]].attributes["rack"]
        fault = Fault("", "thermal", "ticket", "rack", name, at_s, end, 5400, members)
        self._fault(fault, "throttle")

    def bit_errors(self, port: int, at_s: float) -> None:
        """A cable that gets dirty: symbol errors after correction, at 1e-13 to 1e-11."""
        end = at_s + between(self.source, 5 * HOUR_S, 9 * HOUR_S)
        self._effect("bit_errors", (port,), at_s, end, between(self.source, 1e-13, 1e-11))
        guid = self.cluster.ports[port].id
        self._fault(Fault("", "ib-ber", "page", "link", guid, at_s, end, 3 * HOUR_S))

    def flap(self, port: int, at_s: float) -> None:
        """Down for half a minute, again and again."""
        times = at_s + np.cumsum(self.source.uniform(900, 5_000, 5))
        for time in times:
            self._effect(
                "link_down", (port,), float(time), float(time + self.source.uniform(28, 90))
            )
        end = float(times[-1]) + HOUR_S
        device = self.cluster.ports[port].id
        within = float(times[2] - times[0]) + 300
        fault = Fault("", "ib-flap", "page", "link", device, float(times[0]), end, within)
        self._fault(fault, "ib")

    def stall(self, gpu: int, at_s: float) -> None:
        """Its job stands still until its owner notices."""
        for number in self.plan.trainings(at_s):
            work = self.plan.works[number]
            if isinstance(work, Training) and gpu in work.gpus:
                break
        else:
            return
        if any(a - 300 <= at_s < b + 300 for a, b in work.saves):
            at_s = next(b for a, b in work.saves if a - 300 <= at_s < b + 300) + 600
        end = at_s + between(self.source, 2_400, 7_200)
        work.stalls, work.end_s = [(at_s, end)], end
        self._retry(number, end)
        job = self.plan.jobs[number]
        members = tuple(sorted({self.cluster.gpus[g].host for g in work.gpus}))
        self._fault(Fault("", "hang", "page", "job", job.id, at_s, end, 900, members))

    def _while_it_works(self, gpu: int, at_s: float, lasts_s: float) -> float:
        """That time, or one minute after the waits of its training that are near."""
        works = (work for work in self.plan.works if isinstance(work, Training))
        waits = [w for work in works if gpu in work.gpus for w in work.waits]
        for first, last in sorted(waits):
            if first - lasts_s < at_s < last:
                at_s = last + 60
        return at_s

    def _effect(
        self, kind: str, of: tuple[int, ...], start: float, end: float, size: float = 0.0
    ) -> None:
        self.trouble.effects.append(Effect(kind, of, start, end, size))

    def _fault(self, fault: Fault, *symptoms: str) -> None:
        """With the symptoms that its node and its job may show beside those of any fault."""
        allowed: list[tuple[str, Where]] = []
        for symptom in (*symptoms, "hang", "straggler"):
            allowed += [(symptom, "same"), (symptom, "node"), (symptom, "job")]
        number = f"{fault.fault}-{len(self.trouble.faults)}"
        self.trouble.faults.append(replace(fault, id=number, symptoms=tuple(allowed)))

    def _xid(self, gpu: int, at_s: float, code: int, words: str) -> None:
        device = self.cluster.gpus[gpu]
        pci = device.attributes["pci_bus_id"].lower()[4:14]
        text = f"NVRM: Xid (PCI:{pci}): {code}, {words}"
        attributes: dict[str, Value] = {
            "code": code,
            "pci": pci,
            "text": text,
            "origin": "kmsg",
            "seq": 9_000 + int(at_s),
        }
        self.trouble.events.append(Event(at_s, "kmsg", device, "xid", attributes))

    def _end_job(self, gpu: int, at_s: float) -> None:
        """The job that has the GPU fails, and starts again without the node."""
        for number, work in enumerate(self.plan.works):
            if gpu in work.gpus and work.start_s < at_s < work.end_s:
                work.end_s = at_s + between(self.source, 10, 400)
                self._retry(number, work.end_s, without=gpu // PER_NODE)
                return

    def _retry(self, number: int, end_s: float, without: int = -1) -> None:
        job, work = self.plan.jobs[number], self.plan.works[number]
        planned = job.end_s
        self.plan.jobs[number] = replace(job, end_s=end_s, outcome="failed")
        rest = work.gpus[work.gpus // PER_NODE != without]
        if isinstance(work, Training) and len(rest) and planned > end_s + RETRY_S + HOUR_S:
            kept = np.isin(work.gpus, rest)
            saves = [(a, b) for a, b in work.saves if a > end_s + RETRY_S + 1800]
            start = end_s + RETRY_S
            again = replace(
                work,
                gpus=rest,
                start_s=start,
                end_s=planned,
                first_step_s=start + 300,
                share=work.share[kept],
                saves=saves,
                stalls=(),
            )
            self.plan.add(self.cluster, again, job.name)
