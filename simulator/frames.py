"""A simulated node as the readings that the agent's sources would give of it: no driver child, no
files, hours in seconds.

Which register fills which column follows from the catalogue's ``read`` and the same tables of
questions as the raw rendering (nvml_render.py); a test holds both renderings together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from collector.sources.infiniband import text
from pipeline.catalog import Field
from pipeline.catalog.ib_port import ACTIVE
from pipeline.clock import Instant
from pipeline.frame import Device, Frame, blank, frame_of, schema_of
from pipeline.observation import Reading
from simulator import nvml_questions
from simulator.links import PCIE_LANES
from simulator.node import Node
from simulator.nvml_render import refusal
from simulator.readings import Reading as Registers
from simulator.readings import gpu_readings, link_readings, port_readings
from simulator.sysfs import QUIET

# codes of gpu.state; of PortPhysicalState and PortState in the IBTA specification
STATE_OK, LINK_UP, DOWN, POLLING = 0, 5, 1, 2


class _Columns:
    """Frames of one kind: what never changes is filled in once, the rest comes from named
    registers, arrays (device,).
    """

    def __init__(
        self, kind: str, devices: Sequence[Device], register: Callable[[Field], str | float | None]
    ) -> None:
        self._schema, self.devices = schema_of(kind), tuple(devices)
        self._gauges, self._counters, self._observed = blank(kind, self.devices)
        live: list[list[tuple[int, str]]] = [[], []]
        for into, fields, block in (
            (live[0], self._schema.gauges, self._gauges),
            (live[1], self._schema.counters, self._counters),
        ):
            for row, field in enumerate(fields):
                found = register(field)
                if isinstance(found, str):
                    into.append((row, found))
                elif found is not None:
                    block[row] = found
                if found is not None and block is self._counters:
                    self._observed[row] = True
        self._rows = [np.array([row for row, _ in part], np.intp) for part in live]
        self._names = [[name for _, name in part] for part in live]
        self._rounded = [
            (row, field.decimals) for row, field in enumerate(self._schema.gauges) if field.decimals
        ]
        blocks = (self._schema.gauges, self._schema.counters)
        self.moving = frozenset(
            fields[row].name for fields, part in zip(blocks, live, strict=True) for row, _ in part
        )

    def frame(self, registers: Mapping[str, Registers], now: Instant, sampled_ns: int) -> Frame:
        """The frame at (unix, monotonic) ns."""
        gauges, counters = self._gauges.copy(), self._counters.copy()
        for block, rows, names in zip((gauges, counters), self._rows, self._names, strict=True):
            if names:
                block[rows] = np.array([registers[name] for name in names], block.dtype)
        for row, decimals in self._rounded:
            gauges[row] = np.round(gauges[row], decimals) + 0.0  # as the source does
        stamps = np.full(len(self.devices), sampled_ns, np.int64)
        return Frame(
            self._schema, *now, self.devices, gauges, counters, self._observed.copy(), stamps
        )


class FrameRenderer:
    """Readings of a node whose driver and adapters all answer.

    ValueError for one with MIG or NVLink 5, which is rendered raw only.
    """

    def __init__(self, node: Node, host: str) -> None:
        if node.profile.mig or node.profile.nvlink.version >= 5:
            raise ValueError(
                f"profile {node.profile.name}: nodes with MIG or NVLink 5 are rendered raw only"
            )
        self._node = node
        self._refuses = refusal(node.profile.unsupported)
        self._fixed = [
            nvml_questions.fixed(node.profile, i, int(node.serials[0]))
            for i in range(node.profile.gpu.count)
        ]
        self._fields = {
            question: value
            for question, (value, _) in nvml_questions.fixed_fields(node.profile).items()
        }
        self._sums = nvml_questions.sums_of_links(node.profile.nvlink.version)
        self._of_link = nvml_questions.of_link(node.profile.nvlink.version)
        self._gpus = _Columns("gpu", self._gpu_devices(host), self._gpu_register)
        self._links = _Columns("nvlink", self._link_devices(host), self._link_register)
        self._ports = _Columns("ib_port", self._port_devices(host), _port_register)
        self._host = Device(host, "node", host)

    def moving(self, kind: str) -> frozenset[str]:
        """Fields of a kind that show a register; all other observed fields never change."""
        return {"gpu": self._gpus, "nvlink": self._links, "ib_port": self._ports}[kind].moving

    def nvml(self, time_ns: int, mono_ns: int, *, links: bool = True) -> Reading:
        """What the NVML source reads; ``links`` says whether NVLinks are among it."""
        now, stamp = Instant(time_ns, mono_ns), time_ns // 1000 * 1000
        link = link_readings(self._node)
        up = link["up"].sum(axis=1)
        totals = {
            f"sum {name}": values.sum(axis=1, dtype=np.uint64) for name, values in link.items()
        }
        totals |= {f"first {name}": values[:, 0] for name, values in link.items()}
        registers = (
            gpu_readings(self._node)
            | totals
            | {"links_up": up, "links_down": link["up"].shape[1] - up}
        )
        frames = [self._gpus.frame(registers, now, stamp)]
        if links:
            frames.append(
                self._links.frame(
                    {name: values.ravel() for name, values in link.items()}, now, stamp
                )
            )
        counts = {"gpus_expected": len(self._gpus.devices), "gpus_visible": len(self._gpus.devices)}
        return Reading((*frames, frame_of("node", [(self._host, counts)], *now)))

    def infiniband(self, time_ns: int, mono_ns: int) -> Reading:
        """What the InfiniBand source reads."""
        now, up = Instant(time_ns, mono_ns), self._node.ports.up
        rate = np.where(up, self._node.profile.ports.gigabits_per_second * 1e9, np.nan)
        states: dict[str, Registers] = {
            "state": np.where(up, ACTIVE, DOWN),
            "physical_state": np.where(up, LINK_UP, POLLING),
            "rate": rate,
            "width": np.where(up, 4.0, np.nan),
            "pcie_width": self._node.ports.pcie_width,
            "pcie_generation": np.full(
                up.shape, text.generation(self._node.profile.ports.pcie_speed)
            ),
        }
        frame = self._ports.frame(port_readings(self._node) | states, now, 0)
        counts = {
            "ib_ports_expected": len(self._ports.devices),
            "ib_ports_visible": len(self._ports.devices),
        }
        return Reading((frame, frame_of("node", [(self._host, counts)], *now)))

    def _gpu_register(self, field: Field) -> str | float | None:
        own: dict[str, str | float] = {
            "state": float(STATE_OK),
            "nvlinks_up": "links_up",
            "nvlinks_down": "links_down",
        }
        if field.read == "source":
            return own[field.name]
        for question in _questions(field, self._refuses):
            if question in nvml_questions.GPU:
                return nvml_questions.GPU[question][0]
            if question in self._sums:
                return f"sum {self._sums[question][0]}"
            if question in self._fields:
                return float(self._fields[question])
            if question in self._fixed[0]:
                return 1.0 if field.read.endswith(" as valid") else float(self._fixed[0][question])
            if (
                of_link := f"{question} scope link"
            ) in self._of_link:  # no scope is scope 0: the GPU's first link
                return f"first {self._of_link[of_link][0]}"
        return None

    def _link_register(self, field: Field) -> str | float | None:
        for question in _questions(field, self._refuses):
            if question in self._of_link:
                return self._of_link[question][0]
            if (fixed := question.replace(" scope link", "")) in self._fields:
                return float(self._fields[fixed])
        return None

    def _gpu_devices(self, host: str) -> list[Device]:
        node, driver = self._node, self._node.profile.host.driver
        return [
            Device(
                host,
                "gpu",
                node.uuids[i],
                {
                    "index": str(i),
                    "uuid": node.uuids[i],
                    "name": str(fixed["nvmlDeviceGetName()"]),
                    "pci_bus_id": f"{node.profile.gpu.pci[i].upper():0>14}.0",
                    "serial": node.serials[i],
                    "vbios": str(fixed["nvmlDeviceGetVbiosVersion()"]),
                    "driver_version": driver,
                    "epoch": f"{driver}#0",
                },
            )
            for i, fixed in enumerate(self._fixed)
        ]

    def _link_devices(self, host: str) -> list[Device]:
        facts = [
            (gpu, link)
            for gpu in range(len(self._fixed))
            for link in range(self._node.profile.nvlink.links)
        ]
        uuids = self._node.uuids
        return [
            Device(
                host,
                "nvlink",
                f"{uuids[gpu]}/{link}",
                {"index": str(gpu), "link": str(link), "gpu_uuid": uuids[gpu]},
            )
            for gpu, link in facts
        ]

    def _port_devices(self, host: str) -> list[Device]:
        model = self._node.profile.ports
        return [
            Device(
                host,
                "ib_port",
                f"0x{guid + 1:016x}",
                {
                    "device": device,
                    "port": "1",
                    "firmware": model.firmware,
                    "hca_type": model.hca_type,
                    "net_device": net,
                },
            )
            for guid, device, net in zip(self._node.guids, model.devices, model.net, strict=True)
        ]


def _questions(field: Field, refuses: Callable[[str], bool]) -> list[str]:
    """What the catalogue asks for a field, as the tables of the simulator spell it, without
    what the profile refuses.
    """
    asked = [way.partition(" as ")[0] for way in field.read.split(" | ")]
    return [question for question in asked if not refuses(question)]


def _port_register(field: Field) -> str | float | None:
    own: dict[str, str | float] = {
        "state": "state",
        "physical_state": "physical_state",
        "rate_bits_per_second": "rate",
        "width_lanes": "width",
        "expected": 1.0,
        "hw_counters_lifespan_milliseconds": 10.0,
        "pcie_width_current": "pcie_width",
        "pcie_width_maximum": PCIE_LANES,
        "pcie_generation_current": "pcie_generation",
        "pcie_generation_maximum": "pcie_generation",
    }
    if field.name in own:
        return own[field.name]
    file = next(
        (way.removeprefix("sysfs ") for way in field.read.split(" | ") if way.startswith("sysfs ")),
        "",
    )
    if file.removeprefix("hw_counters/") in QUIET:
        return 0.0
    return file or None
