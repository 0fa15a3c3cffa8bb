"""Series of an hour, of all hosts, as scrapes of exporters that a store can keep."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from history.hour import Joined, Replica, Twin, changes, is_near, joined, side_by_side_ms
from history.meaning import dcgm_exporter, fabric_exporters, node_exporter, nvidia_gpu_exporter
from history.meaning.column import Column
from history.meaning.holders import UNJOINED, UNKNOWN, Holders, held
from history.meaning.labels import LabelMap, Labels
from history.remembered import Host
from history.site.series import Series
from pipeline.clock import SECOND_NS
from pipeline.exporters import DCGM_EXPORTER as GPUS
from pipeline.exporters import FABRIC_EXPORTER as FABRIC
from pipeline.exporters import NODE_EXPORTER as NODE
from pipeline.frame import Device
from pipeline.gpu_state import GpuState
from pipeline.observation import Event
from pipeline.store.files.scraped import Scrapes, Sheet

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Jobs = list[tuple[NDArray[np.int64], str]]  # times of samples, rising, and a job; "" is none

NUMBERS = {GPUS: 0, NODE: 1, FABRIC: 2}
KERNEL, KERNEL_NUMBER = "kmsg", 3  # the kernel log, as an agent's source is called
# A gauge shows an XID a scrape and a collection after the log has it: up to two intervals of 60 s.
LATE_NS = 120 * SECOND_NS
STATE = Column("gpu", "state")
XID = Column("gpu", "xid")  # the code of the last one: becomes events
BOOT = Column("node", "boot_time_seconds")
INSTANCE = "GPU_I_ID"  # the label of a MIG instance; the UUID beside it is its GPU's
BLANK = "without a value (NaN, stale marker)"  # samples that are left out
EXPORTER = "exporter"  # of a port, where it is not its node's own
MAX_XID = 100_000  # beyond is no code: today's end at 176
FACTS = {
    "gpu": "index",
    "modelName": "name",
    "pci_bus_id": "pci_bus_id",
    "DCGM_FI_DRIVER_VERSION": "driver_version",
    "DCGM_FI_SYSTEM_DRIVER_VERSION": "driver_version",
    "DCGM_FI_DEV_SERIAL": "serial",
}


@dataclass(slots=True)
class Account:
    """What was done with the samples of an import: ``columns`` by kind and column, ``skipped`` by
    reason and metric.
    """

    samples: int = 0
    columns: Counter[tuple[str, str]] = field(default_factory=Counter)
    skipped: Counter[tuple[str, str]] = field(default_factory=Counter)
    conflicts: int = 0


def columns() -> dict[str, tuple[str, Column]]:
    """Every metric that is understood, with its source and column."""
    known = {name: (GPUS, column) for name, column in dcgm_exporter.columns().items()}
    known |= dict.fromkeys(dcgm_exporter.xid_names(), (GPUS, XID))
    known |= {name: (GPUS, column) for name, column in nvidia_gpu_exporter.COLUMNS.items()}
    known |= {name: (FABRIC, column) for name, column in fabric_exporters.COLUMNS.items()}
    return known | {name: (NODE, column) for name, column in node_exporter.COLUMNS.items()}


class Hour:
    """Takes the series of one hour and gives the scrapes of each host.

    ``hosts`` is what is remembered of them, and is brought up to date.
    """

    def __init__(
        self, labels: LabelMap, hosts: dict[str, Host], account: Account, begin_ms: int = 0
    ) -> None:
        self._begin_ms = begin_ms
        self._labels, self._hosts, self._account = labels, hosts, account
        self._known = columns()
        self._twins: dict[tuple[str, str], dict[Replica, Twin]] = defaultdict(
            lambda: defaultdict(Twin)
        )
        # by host and GPU, when its MIG instances have samples (unix time, ms; rising)
        self._instances: dict[str, dict[str, NDArray[np.int64]]] = defaultdict(dict)
        # by host, by exporter, by GPU
        self._jobs: dict[str, dict[Replica, dict[str, Jobs]]] = defaultdict(
            lambda: defaultdict(dict)
        )
        self._job_metrics: dict[tuple[str, Replica], str] = {}
        self._logged: Mapping[str, Sequence[Event]] = {}
        self.holders = Holders()

    def take_logs(self, events: Mapping[str, Sequence[Event]]) -> None:
        """Events of the kernel logs by node, in order, from ``LATE_NS`` before the hour on."""
        self._logged = events

    def take(self, series: Series) -> None:
        """A series of a metric that is understood."""
        source, column = self._known[series.name]
        host, device, facts = self._place(source, column, series.labels)
        if not host or not device:
            self._skip(series, _why(source, series.labels))
            if host and source == GPUS and INSTANCE in series.labels:
                self._take_instance(host, series)
            return
        if not len(series.times_ms):
            return
        self._account.samples += len(series.times_ms)
        self._account.columns[column.kind, column.name] += len(series.times_ms)
        replica = self._labels.replica(series.labels)
        self._twins[host, source][replica].add(device, column, series)
        remembered = self._hosts.setdefault(host, Host())
        if column.kind == "gpu":
            remembered.see(device, facts, int(series.times_ms[0]), int(series.times_ms[-1]))
            self._take_job(host, device, series, replica)
        elif column.kind == "ib_port":
            remembered.ports[device] = facts

    def _place(
        self, source: str, column: Column, labels: Labels
    ) -> tuple[str, str, dict[str, str]]:
        """Node, device and facts of a series; node or device are empty where it names none."""
        if source == FABRIC:
            host, adapter, port = fabric_exporters.port_of(labels, self._labels.nodes)
            return host, *_port(host, adapter, port, {EXPORTER: FABRIC})
        host = self._labels.host(labels)
        if source == GPUS:
            facts = {ours: labels[label] for label, ours in FACTS.items() if labels.get(label)}
            return host, "" if INSTANCE in labels else self._labels.gpu_of(labels), facts
        if column.kind == "ib_port":
            return host, *_port(host, labels.get("device", ""), labels.get("port", ""), {})
        return host, host, {}

    def _skip(self, series: Series, why: str) -> None:
        self._account.skipped[why, series.name] += len(series.times_ms)

    def _take_instance(self, host: str, series: Series) -> None:
        """Series of a MIG instance have no value of the GPU, but the GPU is there."""
        gpu, times = self._labels.gpu_of(series.labels), series.times_ms
        known = self._instances[host].get(gpu, times)
        # one scrape gives all series the same times: most of these arrays are equal
        self._instances[host][gpu] = (
            known if np.array_equal(known, times) else np.union1d(known, times)
        )

    def _take_job(self, host: str, gpu: str, series: Series, replica: Replica) -> None:
        """Jobs are in the labels of every metric: they are followed by one of each exporter's."""
        if series.name == self._job_metrics.setdefault((host, replica), series.name):
            job = self._labels.job_of(series.labels)
            self._jobs[host][replica].setdefault(gpu, []).append((series.times_ms, job))

    def hosts(self) -> Iterator[tuple[str, list[Scrapes]]]:
        """Each host with what its exporters gave, in order of name."""
        begin_ns = self._begin_ms * 1_000_000
        hosts = {host for host, _ in self._twins} | set(self._logged)
        for node, samples in self.holders.elsewhere({*hosts, *self._hosts}):
            self._account.skipped[UNJOINED, f"jobs of node {node}"] += samples
        for host in sorted(hosts):
            remembered = self._hosts[host]
            logged = [one for one in self._logged.get(host, ()) if one.time_ns >= begin_ns]
            whole = {
                source: joined(self._twins[host, source], collects=source == GPUS, fillers=(BOOT,))
                for source in NUMBERS
                if (host, source) in self._twins
            }
            if GPUS in whole:
                remembered.share(side_by_side_ms(self._twins[host, GPUS].values()))
            self._without_twice(whole, remembered)
            self._account.conflicts += sum(one.conflicts for one in whole.values())
            times_ms, boots_s = _boots_seen(
                host, whole.get(NODE), self._twins.get((host, NODE), {})
            )
            boots = _Boots(times_ms, boots_s, remembered)
            yield (
                host,
                [
                    Scrapes(
                        source,
                        NUMBERS[source],
                        one.times_ms,
                        boots.at(one.times_ms),
                        self._sheets(host, source, one, remembered),
                        self._events(host, one, remembered) if source == GPUS else (),
                    )
                    for source, one in whole.items()
                ]
                + _log_scrapes(logged, boots),
            )
            if GPUS in whole:
                remembered.forget(int(whole[GPUS].times_ms[-1]))

    def _without_twice(self, whole: dict[str, Joined], remembered: Host) -> None:
        """Ports that the node's own exporter shows are not taken from the fabric's as well."""
        own = whole.get(NODE)
        if FABRIC in whole and own and any(column.kind == "ib_port" for _, column in own.cells):
            samples = sum(int((~np.isnan(v)).sum()) for v in whole.pop(FABRIC).cells.values())
            self._account.skipped["node_exporter has these ports", FABRIC] += samples
            ports = remembered.ports.items()
            remembered.ports = {name: one for name, one in ports if EXPORTER not in one}

    def _sheets(self, host: str, source: str, one: Joined, remembered: Host) -> list[Sheet]:
        if source == GPUS:
            sheet = _sheet(one, "gpu", remembered.gpu_devices(host))
            return [_with_states(sheet, one, remembered, self._instances.get(host, {}))]
        by = FABRIC if source == FABRIC else ""
        ports = tuple(
            Device(host, "ib_port", name, facts)
            for name, facts in sorted(remembered.ports.items())
            if facts.get(EXPORTER, "") == by
        )
        sheets = [_sheet(one, "ib_port", ports), _sheet(one, "node", (Device(host, "node", host),))]
        return [sheet for sheet in sheets if sheet.columns and sheet.devices]

    def _events(self, host: str, one: Joined, remembered: Host) -> list[Event]:
        logged = self._logged.get(host, ())
        xids = (event for event in _xids(host, one, remembered) if not _is_logged(event, logged))
        events = [*xids, *self._job_events(host, one.times_ms, remembered)]
        return sorted(events, key=lambda event: event.time_ns)

    def _jobs_of(self, host: str, remembered: Host) -> dict[str, Jobs]:
        """Times and jobs of each GPU: by its own labels, else by the scheduler's exporters."""
        labelled = _labelled(self._jobs[host].values())
        if any(job for parts in labelled.values() for _, job in parts):
            return labelled
        times = {
            gpu: np.unique(np.concatenate([times for times, _ in parts]))
            for gpu, parts in labelled.items()
        }
        indices = {gpu: one.attributes.get("index", "") for gpu, one in remembered.gpus.items()}
        found: dict[str, Jobs] = defaultdict(list)
        for gpu, own, job in held(self.holders.of(host), indices, times):
            if gpu:
                found[gpu].append((own, job))
            elif len(own):
                self._account.skipped[UNKNOWN, f"job {job}"] += len(own)
        for gpu, every in times.items():
            busy = np.concatenate([own for own, _ in found[gpu]] or [every[:0]])
            found[gpu].append((np.setdiff1d(every, busy), ""))
        return found

    def _job_events(
        self, host: str, times_ms: NDArray[np.int64], remembered: Host
    ) -> Iterator[Event]:
        """A job starts, or is seen with other GPUs, and ends. Several may hold one GPU."""
        holders: dict[int, dict[str, frozenset[str]]] = defaultdict(dict)
        for gpu, parts in self._jobs_of(host, remembered).items():
            before = frozenset(remembered.gpus[gpu].jobs)
            for ms, jobs in _held_together(parts):
                if jobs != before:
                    holders[ms][gpu] = before = jobs
        for gpu, ms in remembered.gone(int(times_ms[-1])).items():  # no series says: it is free
            holders[ms][gpu] = frozenset()
        node = Device(host, "node", host)
        for ms in sorted(holders):
            place = int(np.searchsorted(times_ms, ms))
            at = int(times_ms[min(place, len(times_ms) - 1)])
            touched: set[str] = set()
            for gpu, jobs in holders[ms].items():
                touched |= jobs ^ frozenset(remembered.gpus[gpu].jobs)
                remembered.gpus[gpu].jobs = sorted(jobs)
            for job in sorted(touched):
                its = {gpu: known for gpu, known in remembered.gpus.items() if job in known.jobs}
                if all(known.seen_ms < ms for known in its.values()):
                    # it has left all that are still listed: what is missing was not left to it
                    for known in its.values():
                        known.jobs.remove(job)
                    its = {}
                gpus = sorted(its)
                scheduler = "kubernetes" if "/" in job else "slurm"
                about: dict[str, str] = {"job": job, "scheduler": scheduler}
                if gpus:
                    about["gpus"] = " ".join(gpus)
                kind = "job_started" if gpus else "job_ended"
                yield Event(at * 1_000_000, 0, node, kind, about)


def _labelled(exporters: Iterable[Mapping[str, Jobs]]) -> dict[str, Jobs]:
    """Times and jobs of each GPU by its labels. An exporter that names no job (it does not ask the
    kubelet) is no evidence that a GPU is free while another, which names some, lists it.
    """
    naming: list[Mapping[str, Jobs]] = []
    silent: list[Mapping[str, Jobs]] = []
    for one in exporters:
        names_some = any(job for parts in one.values() for _, job in parts)
        (naming if names_some else silent).append(one)
    found: dict[str, Jobs] = defaultdict(list)
    for one in naming:
        for gpu, parts in one.items():
            found[gpu] += parts
    known = {gpu: np.unique(np.concatenate([t for t, _ in parts])) for gpu, parts in found.items()}
    for one in silent:
        for gpu, parts in one.items():
            own = known.get(gpu, np.zeros(0, np.int64))
            found[gpu] += [(times[~is_near(times, own)], job) for times, job in parts]
    return found


def _held_together(parts: Jobs) -> Iterator[tuple[int, frozenset[str]]]:
    """The jobs that hold a GPU at each time of a sample, unix ms."""
    at: dict[int, set[str]] = defaultdict(set)
    for times, job in parts:
        for ms in times.tolist():
            at[ms].add(job)
    for ms in sorted(at):
        yield ms, frozenset(at[ms] - {""})


def _port(
    host: str, adapter: str, port: str, more: Mapping[str, str]
) -> tuple[str, dict[str, str]]:
    named = bool(adapter and port)
    return f"{host}/{adapter}/{port}" if named else "", {"device": adapter, "port": port, **more}


def _why(source: str, labels: Labels) -> str:
    if INSTANCE in labels:
        return "MIG instance"
    return "switch, or adapter of no known node" if source == FABRIC else "no node or device"


def _sheet(one: Joined, kind: str, devices: tuple[Device, ...]) -> Sheet:
    """Native values of a kind of device, (scrape, device) by column."""
    at = {device.id: i for i, device in enumerate(devices)}
    found: dict[str, NDArray[np.float64]] = {}
    for (device, column), values in one.cells.items():
        if column.kind != kind or column is XID:
            continue
        block = found.setdefault(column.name, np.full((len(one.times_ms), len(devices)), np.nan))
        native = (
            values * column.per / column.times if (column.per, column.times) != (1, 1) else values
        )
        block[:, at[device]] = native if column.field.fraction else np.rint(native)
    return Sheet(kind, devices, found)


def _with_states(
    sheet: Sheet,
    one: Joined,
    remembered: Host,
    instances: Mapping[str, NDArray[np.int64]],
) -> Sheet:
    """Whether each GPU answered: one that its exporter does not list while it lists others is
    absent. Nothing is known of one that was replaced, or that another exporter lists about then,
    or of which MIG ``instances`` are listed about then; nor, where machines share the name, of any.
    """
    if not sheet.columns:
        return sheet
    silent = np.logical_and.reduce([np.isnan(values) for values in sheet.columns.values()])
    states = np.where(silent, float(GpuState.ABSENT), float(GpuState.OK))
    states[silent.all(axis=1)] = np.nan
    gpus = [device.id for device in sheet.devices]
    states[silent & (remembered.is_shared(one.times_ms) | one.elsewhere(gpus))] = np.nan
    for gpu, times_ms in instances.items():
        if gpu in remembered.gpus:
            column = gpus.index(gpu)
            states[silent[:, column] & is_near(one.times_ms, times_ms), column] = np.nan
    for gpu, ms in remembered.replaced().items():
        states[one.times_ms >= ms, gpus.index(gpu)] = np.nan
    return Sheet(sheet.kind, sheet.devices, {**sheet.columns, STATE.name: states})


def _xids(host: str, one: Joined, remembered: Host) -> Iterator[Event]:
    """The gauge holds the code of the last XID and never goes back: another code is an event."""
    for (gpu, column), values in one.cells.items():
        if column is not XID:
            continue
        known = remembered.gpus[gpu]
        for ms, code in changes(one.times_ms, values, known.xid):
            if 0 < code <= MAX_XID:
                about: dict[str, str | int] = {"code": int(code), "origin": "nvml"}
                if pci := known.attributes.get("pci_bus_id"):
                    about["pci"] = pci.lower()
                yield Event(
                    ms * 1_000_000, 0, Device(host, "gpu", gpu, known.attributes), "xid", about
                )
        seen = values[~np.isnan(values)]
        known.xid = float(seen[-1]) if len(seen) else known.xid


def _is_logged(xid: Event, logged: Sequence[Event]) -> bool:
    """Whether the kernel log has this XID too, and its time."""
    return any(
        one.kind == xid.kind
        and one.device.id == xid.device.id
        and one.attributes.get("code") == xid.attributes["code"]
        and 0 <= xid.time_ns - one.time_ns <= LATE_NS
        for one in logged
    )


def _log_scrapes(logged: Sequence[Event], boots: _Boots) -> list[Scrapes]:
    """Events of a kernel log as reads of it."""
    if not logged:
        return []
    times_ms = np.unique(np.array([one.time_ns // 1_000_000 for one in logged], np.int64))
    return [Scrapes(KERNEL, KERNEL_NUMBER, times_ms, boots.at(times_ms), (), tuple(logged))]


def _boots_seen(
    host: str, node: Joined | None, twins: Mapping[Replica, Twin]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """When its boot was seen, and the boot's time. All of one history, the one that has it most
    often: the twin with most scrapes, which the joined one follows, may leave it out, and clocks of
    two servers differ.
    """
    found = [twin.samples(host, BOOT) for _, twin in sorted(twins.items())]
    if node is not None and (values := node.cells.get((host, BOOT))) is not None:
        known = ~np.isnan(values)
        found.insert(0, (node.times_ms[known], values[known]))
    nothing = np.zeros(0, np.int64), np.zeros(0)
    return max(found, key=lambda samples: len(samples[0]), default=nothing)


class _Boots:
    """When a host was booted, at any time of the hour."""

    def __init__(
        self, times_ms: NDArray[np.int64], boots_s: NDArray[np.float64], remembered: Host
    ) -> None:
        before = remembered.boot_ms
        self._times = times_ms
        self._boots = [remembered.booted(round(boot_s * 1000)) for boot_s in boots_s.tolist()]
        self._before = before or next(iter(self._boots), 0)

    def at(self, times_ms: NDArray[np.int64]) -> NDArray[np.int64]:
        """Boot of each time, unix ms, 0 = not known."""
        places = np.searchsorted(self._times, times_ms, side="right")
        return np.array([self._before, *self._boots], np.int64)[places]


def account_of(hosts: Mapping[str, Host]) -> tuple[int, int, int]:
    """How many hosts, GPUs and ports are known."""
    return (
        len(hosts),
        sum(len(one.gpus) for one in hosts.values()),
        sum(len(one.ports) for one in hosts.values()),
    )
