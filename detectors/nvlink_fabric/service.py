"""Fabric Manager as a service: whether it ran on a node in this boot, and since when it does not.

NVML does not show it. GPUs that are registered with the fabric stay so when Fabric Manager dies,
and those before Hopper have no state of registration at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from detectors.kit.boots import Boots
from detectors.kit.columns import Columns, rows_where
from detectors.kit.findings import Verdict
from detectors.kit.instants import Times, instant_of
from detectors.kit.stateful import Component
from pipeline.clock import SECOND_NS
from pipeline.frame import Device
from pipeline.observation import Observation
from pipeline.small_arrays import any_true

# A restart takes its start-up only, of a minute or two; its group has processes meanwhile.
STOPPED_S = 120
STOPPED = "nvlink_fabric/stopped"
COLUMN = "fabric_manager_running"
UNIT = "nvidia-fabricmanager.service"


class Service:
    """Nodes whose Fabric Manager ran in this boot and has stopped.

    Where it runs in a container, or in another virtual machine, nothing is known of it.
    """

    def __init__(self) -> None:
        self._columns = Columns(ran=False, stopped_ns=0)
        self._boots = Boots()

    @property
    def components(self) -> Mapping[str, Component]:
        """What is remembered."""
        return {"columns": self._columns, "boots": self._boots}

    def take(
        self, observation: Observation, at: Times, *, well: bool
    ) -> Iterator[tuple[Device, float]]:
        """Each node that shows its service now, with the seconds since it was found stopped;
        ``well``: also those where it runs, or did not run in this boot, with 0.
        """
        columns = self._columns
        for host in self._boots.new(observation):
            row = columns.row(Device(host, "node", host))
            if row is not None:
                columns["ran"][row], columns["stopped_ns"][row] = False, 0
        for frame in observation.frames:
            if frame.kind != "node" or not any_true(np.isfinite(frame.gauge(COLUMN))):
                continue
            columns.show(frame)
            runs = columns.wide(frame.gauge(COLUMN))
            columns["ran"] |= runs > 0
            columns["stopped_ns"] = np.where(
                runs > 0,
                0,
                np.where(
                    (runs == 0) & columns["ran"] & (columns["stopped_ns"] == 0),
                    columns.each(at.mono_ns),
                    columns["stopped_ns"],
                ),
            )
            for row in rows_where(np.isfinite(runs) & (well | (columns["stopped_ns"] > 0))):
                node, since_ns = columns.devices[row], int(columns["stopped_ns"][row])
                now_ns = instant_of(at, node).mono_ns
                yield node, (now_ns - since_ns) / SECOND_NS if since_ns else 0.0


def verdict(node: Device, seconds: float, gpus: int, *, registers: bool) -> Verdict:
    """Of a node with so many GPUs that need it. ``registers``: they are of a generation that
    registers with the fabric (Hopper and later), so that those that have work on.

    Fabric Manager User Guide, "CUDA Jobs Behavior When the Fabric Manager Service is Stopped or
    Terminated": ABORT_CUDA_JOBS_ON_FM_EXIT, not effective on H100 and later.
    """
    words = (
        "its jobs go on, but errors of NVLinks and NVSwitches are not handled, and a GPU that is "
        "reset does not join the fabric"
        if registers
        else "CUDA jobs were aborted, unless it is configured otherwise, and new ones fail"
    )
    return Verdict(
        STOPPED,
        "ticket" if registers else "page",
        "CONTACT_SUPPORT",
        f"Node {node.host}: Fabric Manager has stopped: {words}.",
        (
            f"no process in {UNIT} for {seconds / 60:.0f} min; it ran in this boot",
            f"{gpus} GPUs with NVLinks",
        ),
        float(gpus),
        0.0,
        "GPUs",
    )
