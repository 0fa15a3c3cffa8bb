"""What preflight looks at, and what a check says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from collector.facts.model import Limits, NodeFacts
from pipeline.frame import Device

# page: no job should start here; ticket: jobs run, worse; unknown: could not be checked, which is
# never a failure.
Severity = Literal["page", "ticket", "unknown"]
RANK: Mapping[Severity, int] = {"page": 2, "ticket": 1, "unknown": 0}


class Outcome(NamedTuple):
    """A check that did not pass, of one part of the node."""

    check: str
    severity: Severity
    part: str
    why: str
    action: str = ""


class Row(NamedTuple):
    """A device with its observed values, in the catalogue's native units."""

    device: Device
    values: Mapping[str, float]

    def get(self, name: str) -> float | None:
        """A value; None where it was not observed, also because this hardware has none."""
        return self.values.get(name)

    @property
    def is_divided(self) -> bool:
        """Whether a GPU is in MIG mode: its instances belong to several jobs."""
        return bool(self.get("mig_mode_current"))

    @property
    def model(self) -> str:
        """What peers have in common: the product of a GPU; adapter type, board and link layer of a
        port, as one type of adapter serves the fabric and, at another speed, storage.
        """
        facts = self.device.attributes
        port = (facts.get("hca_type"), facts.get("board_id"), facts.get("link_layer"))
        return facts.get("name") or "/".join(filter(None, port))

    @property
    def name(self) -> str:
        """``GPU 3 (serial ...)`` or ``mlx5_0/1``."""
        facts = self.device.attributes
        if self.device.kind == "gpu":
            serial = f" (serial {facts['serial']})" if facts.get("serial") else ""
            return f"GPU {facts.get('index', '?')}{serial}"
        return f"{facts.get('device', self.device.id)}/{facts.get('port', '1')}"


class Mount(NamedTuple):
    """A network file system: where, of which type, and whether it answered; None where it could not
    be asked.
    """

    point: str
    type: str
    answered: bool | None


@dataclass(frozen=True)
class Machine:
    """One look at a node.

    ``chosen``: indices of the GPUs of the job that is about to start, empty for all. ``failed``:
    why a source could not be read. ``limits`` and ``shm_bytes`` are those a job will have, where
    that is known.
    """

    host: str
    gpus: tuple[Row, ...] = ()
    ports: tuple[Row, ...] = ()
    node: Mapping[str, float] = field(default_factory=dict)
    facts: NodeFacts = field(default_factory=lambda: NodeFacts(""))
    chosen: frozenset[str] = frozenset()
    failed: Mapping[str, str] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    shm_bytes: int | None = None
    mounts: tuple[Mount, ...] = ()

    @property
    def job_is_known(self) -> bool:
        """Whether ``chosen`` says which GPUs the job gets. Its numbers are those of Slurm's list:
        NVML's order or that of the device files, with MIG instances in it once a GPU is divided.
        """
        return bool(self.chosen) and not any(row.is_divided or _is_moved(row) for row in self.gpus)

    def of_job(self) -> Iterator[Row]:
        """The GPUs of the job; all where it is not known which they are."""
        for row in self.gpus:
            if not self.job_is_known or row.device.attributes.get("index") in self.chosen:
                yield row


def _is_moved(row: Row) -> bool:
    """Whether the GPU's device file has another number than NVML."""
    facts = row.device.attributes
    return facts.get("minor_number", facts.get("index")) != facts.get("index")


def usual(rows: Iterable[Row], name: str) -> dict[str, float]:
    """The most frequent value of each model that has one: of equally frequent ones the largest."""
    counts: dict[str, Counter[float]] = {}
    for row in rows:
        value = row.get(name)
        if value is not None:
            counts.setdefault(row.model, Counter())[value] += 1
    return {
        model: max(counter, key=lambda value: (counter[value], value))
        for model, counter in counts.items()
    }
