"""Stillness: GPUs that wait in a kernel for a while, and none works, are a reason to ask."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from collector.sources.nccl.stillness import STILL_S
from collector.sources.nccl.suspicion import Suspicions
from pipeline.frame import Device, frame_of, schema_of
from pipeline.observation import Observation
from pipeline.rates import Rates

# utilisation, watts, bytes per second
WORKS, SPINS, IDLE = (100.0, 650.0, 50e9), (100.0, 120.0, 0.0), (0.0, 120.0, 0.0)


@dataclass
class Node:
    """Four GPUs with a given activity, second by second."""

    board: Suspicions = field(default_factory=Suspicions)
    rates: Rates = field(default_factory=lambda: Rates(schema_of("gpu"), 1.0))
    second: int = 1000
    energy: list[float] = field(default_factory=lambda: [1e6] * 4)
    sent: list[float] = field(default_factory=lambda: [1e6] * 4)

    def live(self, seconds: float, does: Sequence[tuple[float, float, float]]) -> None:
        """Each second one frame."""
        for _ in range(round(seconds)):
            self.second += 1
            rows = []
            for n, (busy, watts, rate) in enumerate(does):
                self.energy[n] += watts * 1000
                self.sent[n] += rate / 1024
                values = {
                    "gpu_utilization_percent": busy,
                    "power_milliwatts": watts * 1000,
                    "energy_millijoules": int(self.energy[n]),
                }
                values |= {
                    "power_limit_enforced_milliwatts": 700_000.0,
                    "compute_processes": 1.0,
                    "mig_mode_current": 0.0,
                    "state": 0.0,
                }
                values |= {
                    "nvlink_transmit_kibibytes": int(self.sent[n]),
                    "nvlink_receive_kibibytes": int(self.sent[n]),
                }
                rows.append((Device("n1", "gpu", f"GPU-{n}"), values))
            frame = self.rates.add(
                frame_of("gpu", rows, self.second * 10**9, self.second * 10**9), "boot"
            )
            self.board.write(
                Observation("nvml", "n1", "boot", 0, 0, frame.mono_ns, 0, (frame,)), ()
            )

    @property
    def since_s(self) -> float | None:
        """Since when something is suspected."""
        since = self.board.since_ns(self.second * 10**9)
        return None if since is None else since / 1e9


@pytest.fixture
def node() -> Node:
    """A job at work."""
    made = Node()
    made.live(120, [WORKS] * 4)
    return made


def test_a_job_at_work_is_not_suspect(node: Node) -> None:
    """However long it works."""
    assert node.since_s is None


def test_ranks_that_wait_for_one_are_suspect_after_a_while(node: Node) -> None:
    """Three spin in a collective, the fourth is idle."""
    began = node.second
    node.live(STILL_S - 5, [SPINS, SPINS, SPINS, IDLE])
    assert node.since_s is None
    node.live(10, [SPINS, SPINS, SPINS, IDLE])
    assert node.since_s == pytest.approx(began, abs=5)


def test_one_that_works_is_waited_for_with_reason(node: Node) -> None:
    """It is a straggler at most: it will come."""
    node.live(2 * STILL_S, [SPINS, SPINS, SPINS, WORKS])
    assert node.since_s is None


@pytest.mark.slow
def test_a_node_whose_gpus_all_idle_is_not_suspect(node: Node) -> None:
    """A checkpoint, or no data: no GPU waits in a kernel."""
    node.live(2 * STILL_S, [IDLE] * 4)
    assert node.since_s is None


def test_work_ends_the_suspicion(node: Node) -> None:
    """At once."""
    node.live(2 * STILL_S, [SPINS] * 4)
    node.live(3, [WORKS] * 4)
    assert node.since_s is None
