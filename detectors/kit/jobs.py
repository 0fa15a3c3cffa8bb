"""Which job has which GPU, from the events of the job source: which GPUs are peers, and which job a
fault affects.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from detectors.kit.allocations import Allocations, Claims, MigSlot, claimed
from detectors.kit.snapshot import State
from detectors.kit.stateful import Commit, from_text_array, text_array
from pipeline.clock import SECOND_NS
from pipeline.frame import Device
from pipeline.job_names import base
from pipeline.observation import Event

# A job's end may be read before what the driver or the kernel reported of its GPUs: the processes
# of a GPU that is lost end before anybody sees that it is lost.
RECENT_NS = 120 * SECOND_NS


def in_job(device: Device, job: str) -> Device:
    """The device as one of a job: a finding about it is a finding about the job
    (pipeline/exposition/stalls.py).

    >>> in_job(Device("n1", "gpu", "G", {"index": "0"}), "7").attributes["job"]
    '7'
    """
    return replace(device, attributes={**device.attributes, "job": job})


class JobTracker:
    """The current jobs, from NCCL processes and from the scheduler.

    Processes that use NCCL come first: they are what stalls, and know how far their job extends.
    The scheduler, which allocated the GPUs, decides about those that no such process has. The end
    of processes does not end a job of the scheduler; no process outlives its job.

    What job a process is of may be its own claim. On a host that the scheduler gave no part of that
    job it is one of another job, ``71 claimed on n9``, and of none while the scheduler gave its GPU
    to a job.

    ``version`` goes up with every change, so that derived values can be cached.

    >>> node, jobs = Device("n1", "node", "n1"), JobTracker()
    >>> jobs.take(
    ...     [Event(0, 0, node, "job_started", {"job": "7", "gpus": "GPU-a GPU-b", "hosts": 1})]
    ... )
    >>> jobs.of("n1", "GPU-a"), jobs.members("7"), jobs.of("n1", "GPU-c")
    ('7', (MigSlot(host='n1', gpu='GPU-a'), MigSlot(host='n1', gpu='GPU-b')), '')
    >>> jobs.take([Event(0, 0, node, "job_ended", {"job": "7"})], now_ns=0)
    >>> jobs.of("n1", "GPU-a"), jobs.members("7"), jobs.lately("n1", "GPU-a", now_ns=0)
    ('', (), '7')
    """

    def __init__(self) -> None:
        self._by_process, self._by_scheduler = Allocations(), Allocations()
        self._claims = Claims()
        self._hosts: set[str] = set()
        self._reach: dict[str, int] = {}  # job -> hosts, as its source says
        self._left: dict[MigSlot, tuple[str, int]] = {}  # its job, and when it left it
        self._changed: dict[str, int] = {}  # host -> version of its last change
        self.version = 0

    def take(self, events: Iterable[Event], now_ns: int | None = None) -> None:
        """Follow the events of an observation; ``now_ns`` is on the clock of durations. Without it
        it is not remembered who left a job.
        """
        for event in events:
            if event.kind in ("job_started", "job_ended") and "job" in event.attributes:
                job = str(event.attributes["job"])
                before = () if now_ns is None else self.members(job)
                self.version += 1
                self._take(event)
                if now_ns is not None:
                    self._remember(job, before, now_ns)
                self._changed[event.device.host] = self.version

    def changed_since(self, version: int) -> list[str]:
        """The hosts with events of jobs after that version; no other host's GPUs changed hands."""
        return [host for host, changed in self._changed.items() if changed > version]

    def _take(self, event: Event) -> None:
        host, job = event.device.host, str(event.attributes["job"])
        self._hosts.add(host)
        reach = event.attributes.get("hosts")
        self._reach = {name: n for name, n in self._reach.items() if self._known(name)}
        believed = "scheduler" in event.attributes or self.allots(base(job), host)
        if event.kind == "job_started" and isinstance(reach, int):
            self._reach[job if believed else claimed(job, host)] = reach
        gpus = str(event.attributes.get("gpus", "")).split() if event.kind == "job_started" else ()
        if "scheduler" in event.attributes:
            self._outdate(host, job, gpus)
            if event.kind == "job_ended":
                self._close(host, job)
            new = not self.scheduled(job)
            self._by_scheduler.assign(job, host, gpus)
            self._settle(job, {host, *self._by_process.hosts(job)} if new else {host})
        else:
            self._place(job, host, gpus, believed=believed)

    def _place(self, name: str, host: str, gpus: Iterable[str], *, believed: bool) -> None:
        """Set the GPUs that processes hold: in the job that they name, or in one of the claim."""
        self._by_process.assign(name, host, gpus if believed else ())
        self._claims.assign(name, host, () if believed else gpus)
        for place in [MigSlot(host, gpu) for gpu in gpus if believed]:
            self._claims.free(place)

    def _settle(self, job: str, hosts: Iterable[str]) -> None:
        """Processes join a job where the scheduler has given it GPUs of their host since they were
        seen, and leave it on hosts without.
        """
        for host in hosts if self.scheduled(job) else ():
            believed = self.allots(job, host)
            found = self._claims.names if believed else self._by_process
            for name in found.steps(job, host):
                self._place(name, host, found.gpus(name, host), believed=believed)
                claim = claimed(name, host)
                before, after = (claim, name) if believed else (name, claim)
                if before in self._reach:
                    self._reach[after] = self._reach.pop(before)
                self._changed[host] = self.version

    def _known(self, job: str) -> bool:
        return any(job in source.members for source in self._sources)

    @property
    def _sources(self) -> tuple[Allocations, Allocations, Allocations]:
        """Who says whose a GPU is, the one that counts first."""
        return self._by_process, self._by_scheduler, self._claims.jobs

    def _remember(self, job: str, before: Iterable[MigSlot], now_ns: int) -> None:
        after = set(self.members(job))
        self._left = {p: one for p, one in self._left.items() if now_ns - one[1] <= RECENT_NS}
        self._left |= {place: (job, now_ns) for place in before if place not in after}

    def of(self, host: str, gpu: str) -> str:
        """The job that has a GPU, empty where none is known."""
        place = MigSlot(host, gpu)
        return (
            self._by_process.job.get(place)
            or self._by_scheduler.job.get(place)
            or self._claims.jobs.job.get(place, "")
        )

    def lately(self, host: str, gpu: str, now_ns: int) -> str:
        """The job that has a GPU, or had it until recently; empty where none is known."""
        job, left_ns = self._left.get(MigSlot(host, gpu), ("", 0))
        return self.of(host, gpu) or (job if now_ns - left_ns <= RECENT_NS else "")

    def size(self, job: str, now_ns: int) -> int:
        """How many GPUs a job has, or had until recently; 0 where none is known."""
        left = {
            place
            for place, (name, left_ns) in self._left.items()
            if name == job and now_ns - left_ns <= RECENT_NS
        }
        return len(left.union(self.members(job))) if job else 0

    def reach(self, job: str) -> int | None:
        """How many hosts a job has in all, None where its source does not say."""
        return self._reach.get(job)

    def widest(self, host: str) -> str:
        """Of the jobs of a host the one with most hosts; empty where none is known."""
        return max(self.of_host(host), key=lambda job: self._reach.get(job) or 0, default="")

    def knows(self, host: str) -> bool:
        """Whether jobs were ever reported there; without a job source it is unknown which GPUs are
        idle.
        """
        return host in self._hosts

    def on(self, host: str) -> str:
        """The one job of a host: empty where several have GPUs of it, or none is known."""
        jobs = self.of_host(host)
        return jobs[0] if len(jobs) == 1 else ""

    def of_host(self, host: str) -> list[str]:
        """The jobs that hold GPUs of a host."""
        places = {place for source in self._sources for place in source.at.get(host, ())}
        return sorted({self.of(*place) for place in places})

    def busy(self, host: str) -> bool:
        """Whether any job holds a GPU of a host."""
        return any(source.at.get(host) for source in self._sources)

    def hosts_of_processes(self, job: str) -> set[str]:
        """The hosts with processes of a job, or of its steps, that hold GPUs."""
        return self._by_process.hosts(job) | self._claims.jobs.hosts(job)

    def allots(self, job: str, host: str) -> bool:
        """Whether the scheduler has allocated GPUs of a host to a job, or no scheduler knows it."""
        return job not in self._by_scheduler.members or job in map(
            base, self._by_scheduler.at.get(host, {}).values()
        )

    def scheduled(self, job: str) -> bool:
        """Whether the scheduler has allocated GPUs to a job."""
        return job in self._by_scheduler.members

    def members(self, job: str) -> tuple[MigSlot, ...]:
        """All GPUs of a job that are known."""
        by_process, by_scheduler, claims = self._sources
        given = (p for p in by_scheduler.members.get(job, ()) if p not in by_process.job)
        unsure = (p for p in claims.members.get(job, ()) if self.of(*p) == job)
        return (*by_process.members.get(job, ()), *given, *unsure)

    def with_steps(self, job: str) -> set[MigSlot]:
        """All GPUs of a job and of its steps."""
        return {
            place
            for source in self._sources
            for name, places in source.members.items()
            if base(name) == job
            for place in places
        }

    def _outdate(self, host: str, job: str, gpus: Iterable[str]) -> None:
        """Processes that were last seen in another job are gone once the scheduler allocates their
        GPU again; steps are of their job.
        """
        for place in (MigSlot(host, gpu) for gpu in gpus):
            if self._by_scheduler.job.get(place, job) != job:
                if base(self._by_process.job.get(place, "")) != job:
                    self._by_process.free(place)
                if base(self._claims.names.job.get(place, "")) != job:
                    self._claims.free(place)

    def _close(self, host: str, job: str) -> None:
        """The scheduler's job is over, and its steps with it: the end of their processes may have
        been while the agent was off.
        """
        for step in [name for name in self._by_process.members if base(name) == job]:
            self._by_process.assign(step, host, ())

    def state(self) -> State:
        """All allocations; those of the scheduler are marked. Which processes only claim their job
        follows from these.
        """
        by_process = [
            [*place, name]
            for source in (self._claims.names, self._by_process)
            for place, name in source.job.items()
        ]
        by_scheduler = [[*place, job, "scheduler"] for place, job in self._by_scheduler.job.items()]
        return {
            "holders": text_array(by_process + by_scheduler),
            "hosts": text_array(sorted(self._hosts)),
            "reach": text_array(self._reach),
            "left": text_array([[*place, *entry] for place, entry in self._left.items()]),
        }

    def prepare(self, state: State) -> Commit:
        """KeyError, ValueError or TypeError where it does not fit."""
        read, by_process = JobTracker(), dict[tuple[str, str], list[str]]()
        for host, gpu, job, *scheduler in from_text_array(state["holders"]):
            if scheduler:
                read._by_scheduler.give(MigSlot(str(host), str(gpu)), str(job))
            else:
                by_process.setdefault((str(job), str(host)), []).append(str(gpu))
        for (name, host), gpus in by_process.items():
            read._place(name, host, gpus, believed=read.allots(base(name), host))
        hosts = {str(host) for host in from_text_array(state["hosts"])}
        kept = from_text_array(state["left"])
        left = {
            MigSlot(str(host), str(gpu)): (str(job), int(at_ns)) for host, gpu, job, at_ns in kept
        }

        reach = dict(from_text_array(state["reach"]))

        def commit() -> None:
            self._reach = {str(job): int(hosts) for job, hosts in reach.items()}
            self._by_process, self._by_scheduler = read._by_process, read._by_scheduler
            self._claims, self._hosts, self._left = read._claims, hosts, left
            self.version += 1

        return commit
