"""GPUs that are not part of the NVLink fabric of their node or rack, or whose place in it is
unhealthy; nodes whose Fabric Manager is at fault.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from detectors.kit.block_clock import StepClock
from detectors.kit.by_node import ByNode
from detectors.kit.columns import Columns, rows_where
from detectors.kit.elapsed import Elapsed
from detectors.kit.findings import FindingTracker
from detectors.kit.groups import Groups, host_of
from detectors.kit.instants import Times, instant_of, milliseconds
from detectors.kit.literature import NVML
from detectors.kit.maintenance import Maintenance
from detectors.kit.page import Default, Needs, Page, gpu_columns
from detectors.kit.persistence import Persistence
from detectors.kit.resets import ResetTracker
from detectors.kit.stateful import Component, Stateful
from detectors.nvlink_fabric.conditions import CONDITIONS, MANAGER, holds
from detectors.nvlink_fabric.report import COMPLETED, Report, report_of
from detectors.nvlink_fabric.service import STOPPED, STOPPED_S, Service, verdict
from detectors.nvlink_fabric.verdicts import BY_FAULT, MIN_GPUS, Lasting
from pipeline.clock import SECOND_NS
from pipeline.finding import Finding
from pipeline.frame import Device, Frame
from pipeline.observation import Observation
from pipeline.small_arrays import any_true

CLEAR_S = 60  # so long a condition must be gone
READ_NS = 120 * SECOND_NS  # a GPU whose NVLinks were not read for so long may be gone

PAGE = Page(
    formula=(
        "registration failed, lost for 2 min, or not completed 10 min after a boot, driver load or "
        "reset; health unhealthy for 30 s, or limited for 10 min; of half of a node's GPUs at "
        "once: its Fabric Manager; its service without a process for 2 min, where it ran in this "
        "boot and two GPUs have NVLinks"
    ),
    sources=(
        f"{NVML}: nvmlGpuFabricInfo_v3_t, NVML_GPU_FABRIC_HEALTH_MASK",
        "NVIDIA, Fabric Manager User Guide: ABORT_CUDA_JOBS_ON_FM_EXIT",
        "NVIDIA NVSentinel, issues 883 and 889: a Fabric Manager that was down for 20 days",
    ),
    shows=gpu_columns(
        "fabric_state", "fabric_health", "fabric_error_code", "fabric_health_mask", "nvlinks_up"
    ),
    needs=Needs(60.0, (("gpu.fabric_state",),)),
    next_step=(
        "`systemctl status nvidia-fabricmanager` and its log; `nvidia-smi -q | grep -A8 Fabric`. "
        "Of one GPU: reset it."
    ),
    clears="After a minute without the condition; a service that stopped, when it runs.",
    scored_as=("nvlink-fabric",),
    limits=tuple(
        Default(one.name, f"{one.after_s} s", f"{one.severity}: {one.words}") for one in CONDITIONS
    ),
)


class NvLinkFabric(Stateful):
    """Judges what NVML reports of each GPU that an NVSwitch connects.

    A GPU without such a fabric reports that it is not supported, and is left alone. One that has
    never registered since the agent knows it, as no other of its node has, may wait for a partition
    on a host of virtual machines: a ticket. It is expected to register where the node has at least
    two GPUs with NVLinks, outside MIG mode; so is the service of Fabric Manager to run on, where it
    ran since the boot.

    >>> NvLinkFabric().name
    'nvlink_fabric'
    """

    name = "nvlink_fabric"
    version = 2

    def __init__(self) -> None:
        self._elapsed, self._standing = Elapsed(), FindingTracker(self.name)
        self._maintenance, self._steps = ByNode(Maintenance), StepClock()
        self._lives = ResetTracker()
        self._columns = Columns(
            registered=False,  # in this epoch
            ever=False,
            linked=False,  # it has NVLinks
            split=False,  # MIG mode
            links_ns=0,  # when its NVLinks were last read
            registers=False,  # it has reported a state of registration
            **Persistence.fills(len(CONDITIONS)),
        )
        after = [1000 * one.after_s for one in CONDITIONS]
        self._runs = Persistence(self._columns, after, [1000 * CLEAR_S] * len(CONDITIONS))
        self._nodes, self._service = Groups(host_of), Service()

    def components(self) -> Mapping[str, Component]:
        """With those of the service."""
        of_service = {f"service_{name}": one for name, one in self._service.components.items()}
        return {**super().components(), **of_service}

    def update(self, observation: Observation) -> Iterable[Finding]:
        """What began and what ended."""
        for maintenance, events in self._maintenance.each(observation):
            maintenance.take(events)
        findings: list[Finding] = []
        at = self._elapsed.times(observation)
        reported = not self._standing.is_empty()
        for node, seconds in self._service.take(observation, at, well=reported):
            findings += self._of_service(node, seconds, at)
        for frame in observation.frames:
            if frame.kind == "gpu":
                findings += self._standing.swapped(frame, at)
                findings += self._frame(frame, observation.boot_id, at)
                findings += self._standing.due(at)
        return findings

    def _frame(self, frame: Frame, boot_id: str, at: Times) -> Iterator[Finding]:
        columns = self._columns
        columns.show(frame)
        seconds = self._steps.passed(frame, boot_id)
        began = columns.wide(self._lives.new(frame, boot_id).astype(float)) > 0
        if seconds is None:
            return
        if any_true(began):
            columns.reset(began, "run", "registered")
        self._learn_links(frame, at)
        if not any_true(np.isfinite(frame.gauge("fabric_state"))):
            return
        report = report_of(frame).wide(columns)
        columns["registered"] |= report.state == COMPLETED
        columns["ever"] |= report.state == COMPLETED
        columns["registers"] |= report.known()
        holding = holds(report, columns["registered"], self._expected(report))
        if not (any_true(holding > 0) or any_true(columns["run"]) or any_true(columns["set"])):
            return
        weight = columns.each(milliseconds(seconds))
        self._runs.step(holding, columns.times_ns(frame), weight)
        yield from self._judge(report, at)

    def _of_service(self, node: Device, seconds: float, at: Times) -> Iterator[Finding]:
        """Whether the service of a node has stopped under GPUs that need it."""
        if not seconds:
            yield from self._standing.ends(node, STOPPED, at)
        elif seconds >= STOPPED_S and not self._maintenance.of(node.host).covers(node):
            columns, now = self._columns, instant_of(at, node)
            rows = np.array([device.host == node.host for device in columns.devices], np.bool_)
            rows &= columns["linked"] & ~columns["split"]
            rows &= now.mono_ns - columns["links_ns"] <= READ_NS
            if rows.sum() >= MIN_GPUS:
                registers = any_true(rows & columns["registers"])
                found = verdict(node, seconds, int(rows.sum()), registers=registers)
                yield from self._standing.holds(
                    node, found, at, now.time_ns - round(seconds * SECOND_NS)
                )

    def _learn_links(self, frame: Frame, at: Times) -> None:
        columns = self._columns
        links = columns.wide(frame.gauge("nvlinks_up")) + columns.wide(frame.gauge("nvlinks_down"))
        mode = columns.wide(frame.gauge("mig_mode_current"))
        columns["linked"] |= links > 0
        now_ns = columns.each(at.mono_ns)
        columns["links_ns"] = np.where(np.isfinite(links), now_ns, columns["links_ns"])
        columns["split"] = np.where(np.isfinite(mode), mode > 0, columns["split"])

    def _expected(self, report: Report) -> NDArray[np.bool_]:
        """GPUs that are to register, (row,)."""
        columns, node = self._columns, self._nodes.of(self._columns.devices)
        may = report.known() & (columns["linked"] | columns["ever"]) & ~columns["split"]
        gpus = np.bincount(node[may], minlength=len(self._nodes.names))
        expected: NDArray[np.bool_] = may & (gpus[node] >= MIN_GPUS)
        return expected

    def _judge(self, report: Report, at: Times) -> Iterator[Finding]:
        columns, read = self._columns, np.isfinite(report.state)
        is_set = columns["set"] & read
        lasting = Lasting(columns.devices, report, is_set, self._grave(is_set, report), self._runs)
        bad = np.flatnonzero(is_set.sum(axis=0)).tolist()
        for node, rows in self._by_node([*rows_where(report.known()), *bad]):
            of_node = lasting.of_node(node.host, rows)
            if of_node is None:
                yield from self._standing.ends(node, MANAGER, at)
            elif not self._maintenance.of(node.host).covers(node):
                yield from self._standing.holds(node, of_node.verdict, at, of_node.onset_ns)
        for row in bad:
            device = columns.devices[row]
            if not self._maintenance.of(device.host).covers(device):
                for verdict, onset_ns in lasting.of_gpu(row):
                    yield from self._standing.holds(device, verdict, at, onset_ns)
        for fault, numbers in BY_FAULT.items():
            well = (columns["set"][numbers].sum(axis=0) == 0) & read
            yield from self._standing.end_rows(columns, well, at, fault)

    def _grave(self, is_set: NDArray[np.bool_], report: Report) -> NDArray[np.bool_]:
        """GPUs with a condition that pages, (row,); one that never registered does where it, or
        another one of its node, has.
        """
        columns, node = self._columns, self._nodes.of(self._columns.devices)
        worked = columns["ever"] | (report.state == COMPLETED)
        some = np.bincount(node[worked], minlength=len(self._nodes.names))[node] > 0
        pages = np.array([one.severity == "page" for one in CONDITIONS])[:, None]
        late = np.array([one.name == "late" for one in CONDITIONS])[:, None]
        grave: NDArray[np.bool_] = (is_set & pages & (~late | some)).sum(axis=0) > 0
        return grave

    def _by_node(self, rows: Iterable[int]) -> Iterator[tuple[Device, list[int]]]:
        """These rows by node."""
        node, found = self._nodes.of(self._columns.devices), dict[int, list[int]]()
        for row in sorted(set(rows)):
            found.setdefault(int(node[row]), []).append(row)
        for number, members in found.items():
            host = self._nodes.names[number]
            yield Device(host, "node", host), members
