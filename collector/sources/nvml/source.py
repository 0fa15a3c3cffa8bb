"""The NVML source: one reading is one sweep of the driver child, with a row for every GPU this node
should have, read or not.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from collector.node.gpu_processes import GpuProcesses
from collector.node.inventory import Inventory
from collector.node.state import State
from collector.sources.nvml import wire
from collector.sources.nvml.frames import Assembler, Block, Failure, Values
from collector.sources.nvml.passthrough import given_away
from collector.sources.nvml.process_memory import ProcessMemory
from collector.sources.nvml.roster import KINDS, Roster
from collector.sources.nvml.states import GPU_IS_LOST, OK, PASSTHROUGH, Evidence, States
from collector.sources.nvml.supervisor import Supervisor, Sweep
from collector.sources.nvml.targets import Targets
from collector.sources.nvml.to_events import Happenings
from collector.sources.nvml.unlisted import Unlisted
from collector.sources.nvml.wire import GarbageError, Message
from collector.sources.nvml.worker import Deadlines, Worker
from pipeline.catalog import agent
from pipeline.clock import SECOND_NS, Clock, Instant, instant
from pipeline.frame import Device, Frame, frame_of, schema_of
from pipeline.observation import Event, Reading, Unread
from pipeline.selfmetrics import SelfMetrics

log = logging.getLogger("tocsin.nvml")

MAX_UNREAD = 256  # reasons in one reading; a broken driver gives one per field and GPU
_REASONS = {
    4: "no permission",
    10: "timeout",
    GPU_IS_LOST: "lost",
    16: "reset required",
    19: "in use by another client",  # nvml.h: GPM while a profiler has the counters
    999: "unknown error",
}
_STATE, _UP, _DOWN = (
    schema_of("gpu").gauge_row[name] for name in ("state", "nvlinks_up", "nvlinks_down")
)
_COMPUTE = schema_of("gpu").gauge_row["compute_processes"]
_ENERGY = schema_of("gpu").counter_row["energy_millijoules"]
_LINK = schema_of("nvlink").gauge_row["state"]


class NvmlSource:
    """GPUs, MIG instances and NVLinks through the driver library ``library``: "" for the driver's
    own, else as ``open_library`` takes it.

    NVLinks are read every ``links_every`` readings and slow facts every ``facts_every_s``; a frame
    of NVLinks comes only when they are read. What moves slowly is asked every few seconds and held
    in between (target.py, EVERY_S); ``hold`` stretches that, and 0 asks everything in every
    reading. ``expected`` is how many GPUs there should be, 0 for those that were ever seen. A
    reading waits for its sweep at most ``deadlines.sweep_s``. No driver, a hung or lost GPU, a
    crash of the library are values of ``tocsin_gpu_state``, never exceptions. A GPU that virtual
    machines have, as ``sysfs`` says, is not expected; a number that was declared stays what it is.
    The memory of so many ``processes`` of a GPU is shown.
    """

    def __init__(
        self,
        library: str,
        host: str,
        clock: Clock,
        inventory: Inventory,
        metrics: SelfMetrics,
        *,
        deadlines: Deadlines = Deadlines(),  # noqa: B008 - a frozen value
        links_every: int = 5,
        facts_every_s: float = 60.0,
        hold: float = 1.0,
        expected: int = 0,
        processes: int = 0,
        proc: Path = Path("/proc"),
        sysfs: Path = Path("/sys"),
        dev: Path = Path("/dev"),
        holders: GpuProcesses | None = None,
        env: Mapping[str, str] | None = None,
        rng: random.Random | None = None,
        state: State | None = None,
    ) -> None:
        self._clock, self._metrics, self._expected = clock, metrics, expected
        self._links_every, self._facts_every_ns = links_every, round(facts_every_s * SECOND_NS)
        self._node = Device(host, "node", host)
        self._roster = Roster(host, inventory, state or State(None))
        self._supervisor = Supervisor(
            lambda *, skip, events: Worker(
                library,
                deadlines,
                skip=skip,
                hold=hold,
                processes=processes,
                events=events,
                env=env,
            ),
            clock,
            metrics,
            rng or random.Random(),  # noqa: S311 - jitter, not secrets
            wait_s=deadlines.sweep_s,
            uuid_at=self._roster.uuid_at,
        )
        self._targets = Targets()
        self._assembler = Assembler()
        self._states, self._sysfs, self._away = States(), sysfs, 0
        self._unlisted = Unlisted(sysfs, proc, dev)
        self._happenings = Happenings(proc)
        self._holders = holders or GpuProcesses()
        self._memory = ProcessMemory(proc, metrics) if processes else None
        self._links: dict[str, tuple[int, int]] = {}
        self._since_links = links_every
        self._facts_due_ns = 0
        self._missing = False

    @property
    def name(self) -> str:
        """Label of the source."""
        return "nvml"

    @property
    def child_pid(self) -> int:
        """Process id of the driver child that serves, 0 where none does: for those
        who count memory and CPU.
        """
        return self._supervisor.pid

    def read(self) -> Reading:
        """One sweep. Never raises for what a driver or a GPU does."""
        now = instant(self._clock)
        if not self._facts_due_ns:
            self._facts_due_ns = now.mono_ns + self._facts_every_ns
        facts = now.mono_ns >= self._facts_due_ns
        links = self._since_links + 1 >= self._links_every
        sweep = self._supervisor.sweep(links=links, facts=facts, missing=self._missing)
        if sweep.complete and facts:
            self._facts_due_ns = now.mono_ns + self._facts_every_ns
            self._look_for_unlisted(now)
        if sweep.pid and sweep.pid != self._targets.pid:
            self._targets = Targets(sweep.pid)
        unread = [Unread(sweep.trouble)] if sweep.trouble else []
        values, codes, events = self._take(sweep.messages, unread, now)
        blocks, failures = self._assembler.blocks(values, self._roster.sizes())
        self._tell_holders(blocks["gpu"], complete=sweep.complete)
        self._count_lives(blocks["gpu"])
        if self._memory is not None:
            self._memory.show(self._roster.gpus()[v.row].id for v in values if v.kind == "gpu")
        self._count_links(blocks, values)
        events += self._judge(blocks["gpu"], values, codes, sweep, now)
        unread += self._reasons(failures)
        return Reading(
            tuple(self._frames(blocks, values, now)), tuple(events), tuple(unread[:MAX_UNREAD])
        )

    def close(self) -> None:
        """End the driver child, and keep what a restart needs."""
        self._roster.keep()
        self._supervisor.close()

    def _take(
        self, messages: Sequence[Message], unread: list[Unread], now: Instant
    ) -> tuple[list[Values], dict[str, int], list[Event]]:
        """Values, codes of GPUs that could not be read, and events, out of a sweep's messages.

        What is nonsense is said in ``unread``.
        """
        values: dict[int, Values] = {}
        codes: dict[str, int] = {}
        events: list[Event] = []
        for message in messages:
            try:
                if message.kind == wire.FOUND:
                    self._roster.expect(self._targets.found(message), message.gpu)
                elif message.kind in {wire.DEVICE, wire.GONE, wire.LAYOUT}:
                    if (target := self._targets.note(message)) is not None:
                        self._roster.note(target, self._targets.gpus)
                elif message.kind == wire.VALUES:
                    target, gpm, read_ns, entries = self._targets.values(message)
                    values[id(target)] = Values(
                        target.kind, target.row, target.columns, gpm, read_ns, entries
                    )
                elif message.kind == wire.TROUBLE:
                    codes[self._uuid(message.gpu)] = message.number("code")
                elif message.kind == wire.DONE:
                    self._metrics.set(
                        agent.NVML_SWEEP_SECONDS, message.number("microseconds") / 1e6
                    )
                elif (device := self._device(message.gpu)) is not None:
                    if message.kind == wire.EVENT:
                        events += self._happenings.announced(message, device, now)
                    elif message.kind == wire.MEMORY and self._memory is not None:
                        self._memory.take(message, device)
                    elif message.kind == wire.PROCESSES:
                        events += self._happenings.processes(message, device, now)
                        self._holders.hold(device.id, self._happenings.holders(device.id))
            except GarbageError as error:
                unread.append(Unread(f"garbage from the driver child: {error}"))
        return list(values.values()), codes, events

    def _judge(
        self,
        block: Block,
        values: Sequence[Values],
        codes: Mapping[str, int],
        sweep: Sweep,
        now: Instant,
    ) -> list[Event]:
        """Fill the state column; events of what changed."""
        devices, expected = self._roster.gpus(), self._roster.expected()
        read = frozenset(devices[v.row].id for v in values if v.kind == "gpu")
        wanted = [device for device in devices if device.id in expected]
        evidence = Evidence(
            read,
            codes,
            self._supervisor.quarantine.causes(),
            frozenset(self._targets.gpus.values()),
            sweep.complete,
            given_away(self._sysfs, (device for device in wanted if device.id not in read)),
            self._supervisor.driver_hung,
        )
        states, changes = self._states.judge(wanted, evidence)
        self._away = states.count(PASSTHROUGH)
        by_id = {device.id: state for device, state in zip(wanted, states, strict=True)}
        block.gauges[_STATE] = [by_id.get(device.id, np.nan) for device in devices]
        if sweep.complete:
            unwell = any(state not in (OK, PASSTHROUGH) for state in states)
            self._missing = unwell or len(read) < self._expected or self._unlisted.pending
        blamed = [self._device(hang.gpu) or self._node for hang in sweep.hangs]
        return self._happenings.hangs(sweep.hangs, blamed, now) + self._happenings.changes(
            changes, now
        )

    def _look_for_unlisted(self, now: Instant) -> None:
        """GPUs that the driver has and does not list, where their number is not declared."""
        found = self._unlisted.look(self._roster.gpus(), now.mono_ns) if not self._expected else ()
        for slot in found:
            if self._metrics.value(agent.GPU_UNLISTED, slot) is None:
                log.warning("the GPU at %s has NVIDIA's driver, which does not list it", slot)
        self._metrics.replace(agent.GPU_UNLISTED, {(slot,): 1.0 for slot in found})

    def _tell_holders(self, block: Block, *, complete: bool) -> None:
        """Who is there: instances as of the last complete sweep, though those that were destroyed
        keep their rows.

        A GPU that was counted empty is empty: lists of processes come only when they change.
        """
        rows, known = self._roster.rows["gpu_instance"].devices, self._targets.known.values()
        here = tuple(rows[one.row] for one in known if one.kind == "gpu_instance")
        others: Mapping[str, str] = self._targets.instances()
        if not complete:
            _, here, _, others = self._holders.look()
        self._holders.note(self._roster.gpus(), here, others)
        for row in np.flatnonzero(block.gauges[_COMPUTE] == 0).tolist():
            uuid = self._roster.gpus()[row].id
            if uuid not in self._holders.look().holders:
                self._holders.hold(uuid, ())

    def _count_lives(self, block: Block) -> None:
        devices, energy = self._roster.gpus(), block.counters[_ENERGY]
        self._roster.count_lives(
            {
                devices[row].id: int(energy[row])
                for row in np.flatnonzero(block.observed[_ENERGY]).tolist()
            }
        )

    def _count_links(self, blocks: Mapping[str, Block], values: Sequence[Values]) -> None:
        """Links up and down per GPU, held from one reading of the links to the next."""
        if any(v.kind == "nvlink" for v in values):
            self._since_links = 0
            up, down = blocks["nvlink"].gauges[_LINK] == 1, blocks["nvlink"].gauges[_LINK] == 0
            names = [d.attributes["gpu_uuid"] for d in self._roster.rows["nvlink"].devices]
            owners = np.array(names)
            self._links = {
                u: (int(up[owners == u].sum()), int(down[owners == u].sum())) for u in set(names)
            }
        else:
            self._since_links += 1
        devices = self._roster.gpus()
        for value in values:
            if value.kind == "gpu" and (counts := self._links.get(devices[value.row].id)):
                blocks["gpu"].gauges[[_UP, _DOWN], value.row] = counts

    def _frames(
        self, blocks: Mapping[str, Block], values: Sequence[Values], now: Instant
    ) -> list[Frame]:
        read = {v.kind for v in values}
        frames: list[Frame] = []
        for kind in KINDS:
            devices = self._roster.rows[kind].devices
            if devices and (kind == "gpu" or kind in read):
                b = blocks[kind]
                frames.append(
                    Frame(
                        schema_of(kind),
                        *now,
                        devices,
                        b.gauges,
                        b.counters,
                        b.observed,
                        b.sampled_ns,
                    )
                )
        visible = sum(v.kind == "gpu" for v in values)
        expected = self._expected or len(self._roster.expected()) - self._away
        counts = {"gpus_expected": expected, "gpus_visible": visible}
        return [*frames, frame_of("node", [(self._node, counts)], *now)]

    def _reasons(self, failures: Sequence[Failure]) -> list[Unread]:
        return [
            Unread(
                _REASONS.get(f.code, f"NVML error {f.code}"),
                self._roster.rows[f.kind].devices[f.row].id,
                f.column,
            )
            for f in failures[:MAX_UNREAD]
        ]

    def _uuid(self, index: int) -> str:
        return self._targets.gpus.get(index) or self._roster.uuid_at(index)

    def _device(self, index: int) -> Device | None:
        uuid = self._uuid(index)
        return next((device for device in self._roster.gpus() if device.id == uuid), None)
