"""A simulated fleet as the exporters of a site show it: dcgm-exporter's default fields and
node_exporter's ports, each scrape at its time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from history.meaning import dcgm_exporter, node_exporter
from history.meaning.column import Column
from history.site.series import Series, clean
from pipeline.dcgm import names
from pipeline.frame import Device, Frame
from pipeline.gpu_state import GpuState
from pipeline.observation import Event, Observation

DEFAULT = Path(names.__file__).with_name("default-counters.csv")
XID = "DCGM_FI_DEV_XID_ERRORS"
MS = 1_000_000


def exported() -> dict[str, Column]:
    """Names of dcgm-exporter 4.8's default counters and of node_exporter's ports."""
    lines = DEFAULT.read_text(encoding="utf-8").splitlines()
    wanted = {line.partition(",")[0].strip() for line in lines if line and line[0] != "#"}
    gpus = {name: column for name, column in dcgm_exporter.columns().items() if name in wanted}
    return gpus | {n: c for n, c in node_exporter.COLUMNS.items() if c.kind == "ib_port"}


@dataclass
class SimulatedSite:
    """A ``history.site.series.Site`` of what was scraped: labels, times in ms, rising, values."""

    about: str = "simulated"
    how: str = "in memory"
    series: list[tuple[Mapping[str, str], NDArray[np.int64], NDArray[np.float64]]] = field(
        default_factory=list
    )

    def names(self, begin_ms: int, end_ms: int) -> list[str]:
        """See ``Site``."""
        return sorted({labels["__name__"] for labels, _, _ in self.series})

    def read(self, name: str, begin_ms: int, end_ms: int) -> Iterator[Series]:
        """See ``Site``."""
        for labels, times, values in self.series:
            if labels["__name__"] == name:
                first, last = np.searchsorted(times, [begin_ms, end_ms])
                if first < last:
                    own = times[first:last], values[first:last]
                    yield clean(labels, *own, (begin_ms, end_ms))

    def text(self) -> str:
        """OpenMetrics, a family's lines together."""
        lines: list[str] = []
        for labels, times, values in sorted(self.series, key=lambda one: one[0]["__name__"]):
            inside = ",".join(f'{k}="{v}"' for k, v in labels.items() if k != "__name__")
            head = f"{labels['__name__']}{{{inside}}} "
            pairs = zip(values.tolist(), times.tolist(), strict=True)
            lines += [f"{head}{value!r} {ms / 1000:.3f}" for value, ms in pairs]
        return "\n".join([*lines, "# EOF"]) + "\n"

    def add(self, labels: Mapping[str, str], times: Iterable[int], values: Iterable[float]) -> None:
        """A series."""
        at = np.fromiter(times, np.int64)
        self.series.append((labels, at, np.fromiter(values, np.float64)))


class Scraper:
    """Scrapes observations of a simulated fleet: takes them in their order, gives the site."""

    def __init__(self, only: Container[str] = ()) -> None:
        known = exported()
        self._columns = {name: c for name, c in known.items() if not only or name in only}
        by_kind: dict[str, list[str]] = defaultdict(list)
        for name, column in self._columns.items():
            by_kind[column.kind].append(name)
        self._names = dict(by_kind)
        self._jobs: dict[str, str] = {}
        self._xids: dict[str, int] = {}
        self._times: dict[str, list[int]] = defaultdict(list)
        self._frames: dict[str, list[NDArray[np.float64]]] = defaultdict(list)
        self._devices: dict[str, tuple[Device, ...]] = {}
        self._state: list[list[tuple[str, int]]] = []

    def take(self, observation: Observation) -> None:
        """One observation of all nodes."""
        for event in observation.events:
            self._follow(event)
        for frame in observation.frames:
            if frame.kind in self._names:
                self._scrape(frame, observation.time_ns // MS)

    def forget(self) -> None:
        """What was scraped so far; jobs and last XIDs stay."""
        self._times.clear()
        self._frames.clear()
        self._state.clear()

    def site(self) -> SimulatedSite:
        """All series; a job that changes ends a series and begins another."""
        made = SimulatedSite()
        for kind, frames in self._frames.items():
            cells, times = np.stack(frames), np.array(self._times[kind], np.int64)
            for row, device in enumerate(self._devices[kind]):
                for number, name in enumerate(self._names[kind]):
                    self._add(made, name, device, times, cells[:, number, row])
            if kind == "gpu":
                self._add_xids(made, times, cells)
        return made

    def _follow(self, event: Event) -> None:
        about = event.attributes
        if event.kind == "job_started":
            for gpu in str(about.get("gpus", "")).split():
                self._jobs[gpu] = str(about["job"])
        elif event.kind == "job_ended":
            self._jobs = {g: job for g, job in self._jobs.items() if job != about.get("job")}
        elif event.kind == "xid" and event.device.kind == "gpu":
            self._xids[event.device.id] = int(about["code"])

    def _scrape(self, frame: Frame, ms: int) -> None:
        kind = frame.kind
        if self._devices.setdefault(kind, frame.devices) != frame.devices:
            raise ValueError(f"{kind}: devices changed; a scraper follows one fleet")
        cells = np.stack([_shown(frame, self._columns[name]) for name in self._names[kind]])
        if kind == "gpu":
            state = frame.gauge("state")
            cells[:, ~(np.isnan(state) | (state == float(GpuState.OK)))] = np.nan
            self._state.append(
                [(self._jobs.get(d.id, ""), self._xids.get(d.id, 0)) for d in frame.devices]
            )
        self._times[kind].append(ms)
        self._frames[kind].append(cells)

    def _add(
        self,
        made: SimulatedSite,
        name: str,
        device: Device,
        times: NDArray[np.int64],
        values: NDArray[np.float64],
    ) -> None:
        seen = ~np.isnan(values)
        if not seen.any():
            return
        if device.kind != "gpu":
            labels = {
                "__name__": name,
                "instance": f"{device.host}:9100",
                "job": "node",
                "device": device.attributes["device"],
                "port": device.attributes.get("port", "1"),
            }
            made.series.append((labels, times[seen], values[seen]))
            return
        row = self._devices["gpu"].index(device)
        jobs = [state[row][0] for state in self._state]
        for job in dict.fromkeys(jobs):
            own = seen & np.array([one == job for one in jobs])
            if own.any():
                held = {"hpc_job": job} if job else {}
                labels = {"__name__": name, **_gpu_labels(device), **held}
                made.series.append((labels, times[own], values[own]))

    def _add_xids(
        self, made: SimulatedSite, times: NDArray[np.int64], cells: NDArray[np.float64]
    ) -> None:
        for row, device in enumerate(self._devices["gpu"]):
            seen = ~np.isnan(cells[:, :, row]).all(axis=1)
            codes = np.array([float(state[row][1]) for state in self._state])
            if seen.any():
                labels = {"__name__": XID, **_gpu_labels(device)}
                made.series.append((labels, times[seen], codes[seen]))


def _shown(frame: Frame, column: Column) -> NDArray[np.float64]:
    row = frame.schema.gauge_row.get(column.name)
    if row is not None:
        native = frame.gauges[row].astype(np.float64)
    else:
        counts, observed = frame.counter(column.name)
        native = np.where(observed, counts.astype(np.float64), np.nan)
    shown: NDArray[np.float64] = native * column.times / column.per
    return shown


def _gpu_labels(device: Device) -> dict[str, str]:
    facts = device.attributes
    return {
        "gpu": facts.get("index", "0"),
        "UUID": device.id,
        "pci_bus_id": facts.get("pci_bus_id", ""),
        "modelName": facts.get("name", "NVIDIA H100 80GB HBM3"),
        "Hostname": device.host,
        "instance": f"{device.host}:9400",
        "job": "dcgm",
    }


def scraped(observations: Iterable[Observation]) -> SimulatedSite:
    """The site of a fleet."""
    scraper = Scraper()
    for observation in observations:
        scraper.take(observation)
    return scraper.site()


SHOWN_AS = {"nvml": "dcgm-exporter", "infiniband": "node_exporter"}


def as_exported(observation: Observation) -> Observation:
    """An observation with the columns alone that exporters show; its events stay."""
    shown: dict[str, set[str]] = {"gpu": {"state"}}
    for column in exported().values():
        shown.setdefault(column.kind, set()).add(column.name)
    frames = tuple(
        _masked(frame, shown[frame.kind]) for frame in observation.frames if frame.kind in shown
    )
    source = SHOWN_AS.get(observation.source, observation.source)
    return replace(observation, frames=frames, source=source)


def _masked(frame: Frame, shown: set[str]) -> Frame:
    gauges, observed = frame.gauges.copy(), frame.observed.copy()
    gauges[[row for name, row in frame.schema.gauge_row.items() if name not in shown]] = np.nan
    observed[[row for name, row in frame.schema.counter_row.items() if name not in shown]] = False
    return replace(frame, gauges=gauges, observed=observed)
