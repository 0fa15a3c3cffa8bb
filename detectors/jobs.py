"""Which job holds which GPU, as the scheduler's events say."""

from __future__ import annotations

from collections.abc import Iterable

from detectors.memory import Commit, from_text_array, text_array
from detectors.snapshot import State
from pipeline.frame import Device
from pipeline.observation import Event

NOT_IN_A_JOB = ""


class Jobs:
    """Learns from ``job_started`` and ``job_ended``. ``version`` changes whenever something in it does.

    A host of which no job was ever told has no job source: all its GPUs then count as one job, which is what a training node is.

    >>> node, gpu = Device("n1", "node", "n1"), Device("n1", "gpu", "GPU-1")
    >>> jobs = Jobs()
    >>> before = jobs.of(gpu)
    >>> jobs.take([Event(0, 0, node, "job_started", {"job": "77", "gpus": "GPU-1 GPU-2"})])
    >>> held = jobs.of(gpu)
    >>> jobs.take([Event(0, 0, node, "job_ended", {"job": "77"})])
    >>> before, held, jobs.of(gpu)
    ('host n1', '77', '')
    """

    def __init__(self) -> None:
        self._held: dict[str, dict[str, str]] = {}  # host -> GPU id -> job
        self.version = 0

    def take(self, events: Iterable[Event]) -> None:
        """Events in the order they came; those of other kinds are left alone."""
        for event in events:
            if event.kind == "job_started":
                job = str(event.attributes.get("job", ""))
                held = self._held.setdefault(event.device.host, {})
                held.update(dict.fromkeys(str(event.attributes.get("gpus", "")).split(), job))
                self.version += 1
            elif event.kind == "job_ended":
                job = str(event.attributes.get("job", ""))
                held = self._held.setdefault(event.device.host, {})
                self._held[event.device.host] = {gpu: holder for gpu, holder in held.items() if holder != job}
                self.version += 1

    def of(self, gpu: Device) -> str:
        """The job that holds a GPU; empty where it is free; the host's own name where jobs are not known there."""
        held = self._held.get(gpu.host)
        return f"host {gpu.host}" if held is None else held.get(gpu.id, NOT_IN_A_JOB)

    def on(self, host: str) -> str:
        """The one job of a host: of all its GPUs, or empty where several or none hold them."""
        held = self._held.get(host)
        if held is None:
            return f"host {host}"
        jobs = set(held.values())
        return jobs.pop() if len(jobs) == 1 else NOT_IN_A_JOB

    def state(self) -> State:
        """What is held."""
        return {"held": text_array(self._held)}

    def prepare(self, state: State) -> Commit:
        """ValueError, TypeError or AttributeError where it is not that."""
        kept = from_text_array(state["held"])
        held = {str(host): {str(gpu): str(job) for gpu, job in dict(gpus).items()} for host, gpus in dict(kept).items()}

        def commit() -> None:
            self._held, self.version = held, self.version + 1

        return commit
