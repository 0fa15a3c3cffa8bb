"""Nodes as a frame sees them, for tests of the dialect: HGX H100, A100 with MIG, a lost GPU,
no NVLink, a vGPU guest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pipeline.dcgm import (
    DEFAULT_FILE,
    Counters,
    DcgmDialect,
    JobLabels,
    LabelStyle,
    Options,
    Selection,
    load,
)
from pipeline.dcgm.counters import Compat
from pipeline.dcgm.options import Xids
from pipeline.dcgm.select import FLEX
from pipeline.exposition.latest import Latest
from pipeline.frame import Device, Frame, schema_of
from pipeline.observation import Observation
from pipeline.rates import Rates
from tests.fakes import FakeClock, observed
from tests.pipeline.exposition.pages import frame

Values = Mapping[str, float | int | None]
H100, A100, GRID = "NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB", "GRID A100D-20C"
GIB = 1 << 30

# Plausible native values; each differs from the others, and GPU by GPU.
BUSY: dict[str, int] = {
    "state": 0,
    "gpu_utilization_percent": 97,
    "memory_utilization_percent": 52,
    "encoder_utilization_percent": 1,
    "decoder_utilization_percent": 2,
    "memory_total_bytes": 80 * GIB,
    "memory_free_bytes": 17 * GIB + 5,
    "memory_used_bytes": 62 * GIB + 7,
    "memory_reserved_bytes": 643 << 20,
    "sm_clock_megahertz": 1980,
    "memory_clock_megahertz": 2619,
    "temperature_celsius": 61,
    "memory_temperature_celsius": 72,
    "power_milliwatts": 612_345,
    "energy_millijoules": 2**53 + 1,
    "pcie_replays": 3,
    "remapped_rows_uncorrectable": 1,
    "remapped_rows_correctable": 4,
    "row_remap_failed": 0,
    "graphics_activity_percent": 96,
    "tensor_activity_percent": 41,
    "dram_activity_percent": 55,
    "pcie_transmit_mebibytes_per_second": 1200,
    "pcie_receive_mebibytes_per_second": 3400,
    "nvlink_transmit_kibibytes": 10_000_000,
    "nvlink_receive_kibibytes": 20_000_000,
}


def gpu(index: int, model: str = H100, **facts: str) -> Device:
    """GPU N of node n1."""
    known = {
        "index": str(index),
        "name": model,
        "pci_bus_id": f"00000000:{0x18 + index:02X}:00.0",
        "driver_version": "570.86.10",
    }
    return Device("n1", "gpu", f"GPU-5fd4f087-86f3-7a43-b711-4771313afc{index:02d}", known | facts)


def instance(parent: Device, number: int, profile: str) -> Device:
    """MIG instance N of a GPU."""
    facts = {
        "index": parent.attributes["index"],
        "gpu_uuid": parent.id,
        "gpu_instance": str(number),
        "profile": profile,
        "pci_bus_id": parent.attributes["pci_bus_id"],
    }
    return Device("n1", "gpu_instance", f"MIG-{number}-{parent.attributes['index']}", facts)


def holder(device: Device, **facts: str) -> tuple[Device, Values]:
    """A pod or job that holds a GPU or instance; who has a pod is
    Kubernetes', who has not is Slurm's.
    """
    place = {
        "uuid": device.attributes.get("gpu_uuid", device.id),
        "gpu_instance": device.attributes.get("gpu_instance", ""),
        "scheduler": "kubernetes" if "pod" in facts else "slurm",
    }
    name = "/".join((*place.values(), *facts.values()))
    return Device("n1", "device_job", name, {k: v for k, v in (place | facts).items() if v}), {}


def only(kind: str, values: Values) -> dict[str, float | int | None]:
    """The values that this kind has columns for."""
    schema = schema_of(kind)
    unknown = set(values) - set(schema.gauge_row) - set(schema.counter_row)
    assert kind != "gpu" or not unknown, f"the catalogue has no {sorted(unknown)}"
    return {name: value for name, value in values.items() if name not in unknown}


def busy(**changes: float | None) -> dict[str, float | int | None]:
    """A busy GPU."""
    return only("gpu", {**BUSY, **changes})


class Node:
    """A node whose frames reach a dialect: ``see`` takes frames, ``page`` renders."""

    def __init__(
        self,
        *,
        compat: Compat = "dcgm-4.8",
        counters: Counters | None = None,
        style: LabelStyle | None = None,
        selection: Selection = FLEX,
        xids: Xids | None = None,
        jobs: JobLabels = JobLabels(),  # noqa: B008 - a frozen value
        clock: FakeClock | None = None,
    ) -> None:
        self.clock = clock or FakeClock()
        options = Options(
            counters or load(DEFAULT_FILE, compat),
            compat=compat,
            style=style or LabelStyle("n1"),
            selection=selection,
            jobs=jobs,
        )
        self.dialect = DcgmDialect(options, self.clock, xids)
        self._latest = Latest(self.clock, {"nvml": 1.0})
        self._rates: dict[str, Rates] = {}
        self.dropped: Mapping[str, int] = {}

    def see(self, **kinds: Iterable[tuple[Device, Values]]) -> Node:
        """Frames of these kinds, now, with their increments as the engine makes them."""
        frames = [
            self._rated(frame(self.clock, kind, [(d, only(kind, v)) for d, v in rows]))
            for kind, rows in kinds.items()
        ]
        observation: Observation = observed(self.clock, *frames)
        self._latest.write(observation)
        self.dialect.write(observation)
        return self

    def page(self, *, openmetrics: bool = False) -> str:
        """The dialect's page."""
        text, _, self.dropped = self.dialect.render(
            self._latest.snapshot(), openmetrics=openmetrics
        )
        return text.decode()

    def lines(self, name: str) -> list[str]:
        """Sample lines of one family."""
        return [line for line in self.page().splitlines() if line.startswith(f"{name}{{")]

    def values(self, name: str) -> list[float]:
        """Values of one family in page order."""
        return [float(line.rpartition(" ")[2]) for line in self.lines(name)]

    def _rated(self, new: Frame) -> Frame:
        return self._rates.setdefault(new.kind, Rates(new.schema, 1.0)).add(new)


def hgx(node: Node) -> Node:
    """Eight H100, all busy, each a little different."""
    return node.see(
        gpu=[
            (
                gpu(i),
                busy(
                    temperature_celsius=60 + i,
                    energy_millijoules=2**53 + i,
                    memory_used_bytes=62 * GIB + i,
                ),
            )
            for i in range(8)
        ]
    )


def mig(node: Node) -> Node:
    """Two A100: the first with three instances, the second whole."""
    first, second = gpu(0, A100), gpu(1, A100)
    inside = [
        (instance(first, n, p), n) for n, p in ((1, "3g.40gb"), (5, "1g.10gb"), (13, "1g.10gb"))
    ]
    values = {
        "memory_total_bytes": 10 * GIB,
        "memory_free_bytes": 9 * GIB,
        "memory_reserved_bytes": 0,
    }
    return node.see(
        gpu=[(first, busy(gpu_utilization_percent=None)), (second, busy(temperature_celsius=44))],
        gpu_instance=[
            (d, {**values, "memory_used_bytes": n << 20, "graphics_activity_percent": n})
            for d, n in inside
        ],
    )


def lost(node: Node) -> Node:
    """Two H100; the second does not answer any more."""
    return node.see(gpu=[(gpu(0), busy()), (gpu(1), {"state": 1})])


def without_nvlink(node: Node) -> Node:
    """One PCIe card without NVLink and without memory sensor."""
    gone = dict.fromkeys(
        ("nvlink_transmit_kibibytes", "nvlink_receive_kibibytes", "memory_temperature_celsius")
    )
    return node.see(gpu=[(gpu(0, "NVIDIA L40S"), busy(**gone))])


def vgpu_guest(node: Node) -> Node:
    """A virtual GPU: utilisation, memory and clocks, and nothing of the board."""
    names = {
        "state",
        "gpu_utilization_percent",
        "memory_utilization_percent",
        "sm_clock_megahertz",
        "memory_clock_megahertz",
    }
    values = {
        name: value
        for name, value in BUSY.items()
        if name in names or (name.startswith("memory_") and name.endswith("_bytes"))
    }
    return node.see(gpu=[(gpu(0, GRID), values)])
