"""What is reported of GPUs and nodes whose conditions have lasted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from detectors.kit.findings import Verdict
from detectors.kit.persistence import Persistence
from detectors.nvlink_fabric.conditions import CONDITIONS, MANAGER, details
from detectors.nvlink_fabric.report import Report
from pipeline.finding import Severity
from pipeline.frame import Device
from pipeline.small_arrays import any_true

MIN_SHARE, MIN_GPUS = 0.5, 2  # of a node's GPUs: then it is the node's fabric
MAX_NAMED = 8  # GPUs in the evidence
# The numbers of the conditions of each fault, the gravest first.
BY_FAULT: Mapping[str, list[int]] = {
    fault: [n for n, one in enumerate(CONDITIONS) if one.fault == fault]
    for fault in dict.fromkeys(one.fault for one in CONDITIONS)
}


class Timed(NamedTuple):
    """A verdict, and when what it is about began, unix ns."""

    verdict: Verdict
    onset_ns: int


@dataclass(frozen=True, slots=True)
class Lasting:
    """The conditions that have lasted, (condition, row), and the GPUs whose condition pages,
    (row,), with what NVML reports of them now.
    """

    devices: Sequence[Device]
    report: Report
    is_set: NDArray[np.bool_]
    grave: NDArray[np.bool_]
    runs: Persistence

    def of_node(self, host: str, rows: Sequence[int]) -> Timed | None:
        """Of the fabric of a node, where at least half of its GPUs have a condition."""
        enough = max(MIN_GPUS, ceil(MIN_SHARE * len(rows)))
        worst = [row for row in rows if self.grave[row]]
        severity: Severity = "page" if len(worst) >= enough else "ticket"
        found = worst if severity == "page" else [r for r in rows if any_true(self.is_set[:, r])]
        if len(found) < enough:
            return None
        number = _first(self.is_set[:, found].sum(axis=1) > 0)
        summary = (
            f"Node {host}: {CONDITIONS[number].words} on {len(found)} of {len(rows)} GPUs. Restart "
            "Fabric Manager, and check its log and the NVSwitches."
        )
        gpus = tuple(
            f"{_named(self.devices[row])}: {details(self.report, row)}" for row in found[:MAX_NAMED]
        )
        verdict = Verdict(
            MANAGER, severity, "CONTACT_SUPPORT", summary, gpus, len(found), 0.0, "GPUs"
        )
        onset = min(self.runs.began(number, row) for row in found if self.is_set[number, row])
        return Timed(verdict, onset)

    def of_gpu(self, row: int) -> Iterator[Timed]:
        """Of the gravest condition of each fault of a GPU."""
        for fault, numbers in BY_FAULT.items():
            if not any_true(self.is_set[numbers, row]):
                continue
            number = numbers[_first(self.is_set[numbers, row])]
            one = CONDITIONS[number]
            verdict = Verdict(
                fault,
                one.severity if self.grave[row] else "ticket",
                one.action,
                f"{_named(self.devices[row])}: {one.words} ({details(self.report, row)}).",
                (f"for {one.after_s} s and more",),
            )
            yield Timed(verdict, self.runs.began(number, row))


def _first(mask: NDArray[np.bool_]) -> int:
    return int(np.flatnonzero(mask)[0])


def _named(gpu: Device) -> str:
    serial = gpu.attributes.get("serial", "")
    name = f"GPU {gpu.attributes.get('index', gpu.id)} on {gpu.host}"
    return f"{name} (serial {serial})" if serial else name
