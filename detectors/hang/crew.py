"""Who runs which job on the nodes that are looked at, and what jobs alike did before."""

from __future__ import annotations

from collections.abc import Container, Iterable

from detectors.hang.kin import NOBODY, Key, Kin, key_of
from detectors.kit.jobs import JobTracker
from detectors.kit.snapshot import State
from detectors.kit.stateful import Commit, from_text_array, text_array
from pipeline.frame import Device
from pipeline.observation import Event


class Crew:
    """Jobs, whose they are, and the memory that jobs alike share: of a node, or of a cluster."""

    def __init__(self) -> None:
        self.jobs, self.kin = JobTracker(), Kin()
        self._keys: dict[str, Key] = {}

    def take(self, events: Iterable[Event]) -> bool:
        """Follow events; whether it may be another job's GPU now."""
        before = self.jobs.version
        self.jobs.take(events)
        return self.jobs.version != before

    def learn(self, event: Event) -> tuple[str, bool] | None:
        """Whose job it is that starts, where jobs of two users go by one name: the scheduler's word
        counts; without one it is nobody's, as neither may teach the other.

        The job whose user is another one now, and whether there was one in doubt.
        """
        key = key_of(event) if event.kind == "job_started" else None
        if key is None:
            return None
        job = str(event.attributes.get("job", ""))
        known = self._keys.get(job)
        doubt = known is not None and known.user != key.user
        if doubt and "scheduler" not in event.attributes:
            if self.jobs.scheduled(job):
                return None
            key = NOBODY
        elif known is not None and not key.hosts:  # who does not say the size takes none away
            key = key._replace(hosts=known.hosts)
        if key == known:
            return None
        self._keys[job] = key
        return job, doubt

    def key(self, job: str) -> Key | None:
        """What a job is alike to, None where its user is not known."""
        return self._keys.get(job)

    def job(self, gpu: Device) -> str:
        """The job of a GPU, empty where it has none; its host where jobs are not known."""
        return self.jobs.of(gpu.host, gpu.id) if self.jobs.knows(gpu.host) else f"host {gpu.host}"

    def only(self, names: Container[str]) -> None:
        """Forget whose jobs those are that are over."""
        self._keys = {
            job: key for job, key in self._keys.items() if job in names or self.jobs.members(job)
        }

    def state(self) -> State:
        """All of it."""
        kin = {f"kin_{name}": array for name, array in self.kin.state().items()}
        return {**self.jobs.state(), **kin, "keys": text_array(self._keys)}

    def prepare(self, state: State) -> Commit:
        """KeyError, ValueError or TypeError where it does not fit."""
        jobs, kin = self.jobs.prepare(state), self.kin.prepare({"of": state["kin_of"]})
        keys = {
            str(job): Key(str(user), str(name), int(hosts))
            for job, (user, name, hosts) in dict(from_text_array(state["keys"])).items()
        }

        def commit() -> None:
            jobs()
            kin()
            self._keys = keys

        return commit
