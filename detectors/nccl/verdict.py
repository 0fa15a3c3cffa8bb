"""Verdict: this job is stalled, at this collective, because of this rank, with this
confidence and this evidence.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

Cause = Literal[
    "process_lost",  # a process of the job ended or does not answer
    "hardware_fault",  # a GPU or network card reported an error of its own
    "order_mismatch",  # ranks called different collectives: the job's own code
    "host_hang",  # a rank never called what the others wait in: stuck outside NCCL
    "straggler",
    "launch_order_deadlock",  # ranks wait for each other in a circle
    "in_flight",  # all called it, and it does not end: network, NVLink or a kernel
    "init_hang",  # a communicator is being created and does not complete
    "storage",
    "global_host_phase",
    "slow_straggler",
    "slow_network",
    "slow_uniform",
    "unknown",  # a stall whose root cause is unknown
    # no report shows that the job is stalled; this does not prove that it is healthy
    "no_evidence",
]
Stage = Literal["init", "host", "launch", "in_flight", "finalize", ""]
Phase = Literal["suspect", "confirmed", "recovered", "ended"]

CAUSES: tuple[Cause, ...] = get_args(Cause)


def gpu_words(nvml: int, cuda: int, uuid: str = "") -> str:
    """A GPU by its NVML index, with what else it is called by; empty where nothing is known.

    >>> gpu_words(3, 0, "GPU-7"), gpu_words(1, 1), gpu_words(-1, 2)
    ('GPU 3 (CUDA device 0, GPU-7)', 'GPU 1', 'CUDA device 2')
    """
    names = [f"GPU {nvml}"] if nvml >= 0 else []
    names += [f"CUDA device {cuda}"] if cuda >= 0 and cuda != nvml else []
    names += [uuid] if uuid else []
    first, *others = names or [""]
    return f"{first} ({', '.join(others)})" if others else first


@dataclass(frozen=True, slots=True)
class Culprit:
    """A root cause: a rank, a port (``host`` and ``port``) or a complete node (``host`` alone).

    ``score`` is from 0 to 1. ``gpu`` is the CUDA device in its process, ``nvml`` the index that
    nvidia-smi shows: ``CUDA_VISIBLE_DEVICES`` makes them differ.
    """

    score: float
    rank: int = -1
    host: str = ""
    pid: int = -1
    gpu: int = -1
    uuid: str = ""
    port: str = ""
    nvml: int = -1

    @property
    def is_node(self) -> bool:
        """Whether it is a complete node."""
        return self.rank < 0 and self.pid < 0 and not self.uuid and not self.port

    def words(self) -> str:
        """In words."""
        if self.port:
            return f"port {self.port} of {self.host or 'an unknown node'}"
        parts = [f"rank {self.rank}"] if self.rank >= 0 else []
        parts += [f"process {self.pid}"] if self.pid >= 0 else []
        parts += [gpu_words(self.nvml, self.gpu, self.uuid)]
        parts = [part for part in parts if part]
        where = f" on node {self.host}" if self.host else ""
        return (
            f"{', '.join(parts)}{where}"
            if parts
            else f"node {self.host}"
            if self.host
            else "an unknown rank"
        )


@dataclass(frozen=True, slots=True)
class Evidence:
    """One piece of evidence for the verdict.

    ``weight`` is what it adds to the score of its target (0: it explains), ``ref`` its file and
    line.
    """

    source: str
    text: str
    weight: float = 0.0
    ref: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What all evidence about one job comes to.

    ``culprits`` are the root cause; ``candidates`` (at most 8) are possible causes. ``victims``
    counts ranks that only wait. ``evidence`` is in the order of its weight. ``began_ns`` is the
    unix time from which on nothing moved, 0 where that is unknown.
    """

    cause: Cause
    job: str = ""
    phase: Phase = "suspect"
    stage: Stage = ""
    communicator: str = ""
    operation: str = ""
    sequence: int = -1
    culprits: tuple[Culprit, ...] = ()
    candidates: tuple[Culprit, ...] = ()
    victims: int = 0
    confidence: float = 0.0
    evidence: tuple[Evidence, ...] = ()
    began_ns: int = 0

    def document(self) -> dict[str, Any]:
        """As JSON: ``class`` for the cause; what is not known is left out."""
        fields = {
            "job": self.job,
            "class": self.cause,
            "phase": self.phase,
            "stage": self.stage,
            "communicator": self.communicator,
            "operation": self.operation,
            "sequence": self.sequence if self.sequence >= 0 else None,
            "culprits": [_culprit(c) for c in self.culprits],
            "candidates": [_culprit(c) for c in self.candidates],
            "victims": self.victims,
            "confidence": round(self.confidence, 3),
            "evidence": [
                {
                    k: v
                    for k, v in (
                        ("source", e.source),
                        ("text", e.text),
                        ("weight", e.weight),
                        ("ref", e.ref),
                    )
                    if v != ""
                }
                for e in self.evidence
            ],
            "began_unix_seconds": self.began_ns / 1e9 if self.began_ns else None,
        }
        return {name: value for name, value in fields.items() if value is not None and value != ""}


def _culprit(culprit: Culprit) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "rank": culprit.rank if culprit.rank >= 0 else None,
        "host": culprit.host or None,
        "pid": culprit.pid if culprit.pid >= 0 else None,
        "gpu": culprit.gpu if culprit.gpu >= 0 else None,
        "nvml_index": culprit.nvml if culprit.nvml >= 0 else None,
        "gpu_uuid": culprit.uuid or None,
        "port": culprit.port or None,
        "score": round(culprit.score, 3),
    }
    return {name: value for name, value in fields.items() if value is not None}
