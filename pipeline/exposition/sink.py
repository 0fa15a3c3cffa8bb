"""Exposition: the sink whose content is the /metrics page."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from threading import Lock
from typing import Protocol

from pipeline.catalog import Profile, agent
from pipeline.clock import Clock
from pipeline.exposition.families import device_labels, shown
from pipeline.exposition.findings import ActiveFindings
from pipeline.exposition.formats import TEXT, Format
from pipeline.exposition.frames import FramePage
from pipeline.exposition.incidents import OpenIncidents
from pipeline.exposition.latest import Latest, Snapshot
from pipeline.exposition.loose import LoosePage, Sample
from pipeline.exposition.process import ProcessSamples
from pipeline.exposition.stalls import stall_samples
from pipeline.exposition.text import Family
from pipeline.finding import Finding, Incident
from pipeline.frame import Device
from pipeline.observation import Observation
from pipeline.selfmetrics import SelfMetrics

_XIDS = Family(agent.XID_ERRORS.name, agent.XID_ERRORS.type, agent.XID_ERRORS.help)
_XID_SEEN = Family(agent.XID_LAST_SEEN.name, agent.XID_LAST_SEEN.type, agent.XID_LAST_SEEN.help)


class XidSeries(Protocol):
    """XID counters that survive restarts: device, code, count, and unix time of the
    last one in ns (0 = never).
    """

    def series(self) -> Iterable[tuple[Device, int, int, int]]:
        """All counters, those born at zero included."""
        ...


class Dialect(Protocol):
    """A second set of families made from the same frames."""

    def write(self, observation: Observation) -> None:
        """See every observation, for what depends on the past."""
        ...

    def render(
        self, snapshot: Snapshot, *, openmetrics: bool
    ) -> tuple[bytes, int, Mapping[str, int]]:
        """Text, number of series, and samples dropped by reason."""
        ...


class Exposition:
    """Keeps the latest frames and findings, and renders them when asked.

    ``write`` and ``render`` may run in different threads.

    ``periods`` are the sources' periods in seconds: readings older than three are dropped,
    states and inventory stay.
    """

    name = "exposition"

    def __init__(
        self,
        metrics: SelfMetrics,
        *,
        clock: Clock,
        profile: Profile = "default",
        periods: Mapping[str, float] | None = None,
        xids: XidSeries | None = None,
        dialect: Dialect | None = None,
        process: ProcessSamples | None = None,
        verdicts: bool = True,
    ) -> None:
        """``verdicts``: whether findings and incidents are series; a gateway has its own, as
        these are an agent's, on which that agent's alerts rest.
        """
        self._metrics = metrics
        self._verdicts = verdicts
        self._clock = clock
        self._profile = profile
        self._xids = xids
        self._dialect = dialect
        self._process = process
        self._latest = Latest(clock, periods)
        self._findings = ActiveFindings()
        self._incidents = OpenIncidents()
        self._frames = FramePage(profile)
        self._loose = LoosePage()
        self._rendering = Lock()

    def write(
        self,
        observation: Observation,
        findings: Sequence[Finding],
        incidents: Sequence[Incident] = (),
    ) -> None:
        """Take over an observation and what was said of it."""
        self._latest.write(observation)
        self._findings.write(findings)
        self._incidents.write(incidents)
        dialect = self._dialect  # another thread may put a new one in its place
        if dialect is not None:
            dialect.write(observation)

    def configure(
        self, profile: Profile, periods: Mapping[str, float], dialect: Dialect | None
    ) -> None:
        """Take over another configuration, whole: no scrape sees half of it,
        and the latest frames stay.
        """
        with self._rendering:
            self._profile, self._dialect = profile, dialect
            self._frames = FramePage(profile)
            self._latest.expect(periods)

    def forget(self, sources: Collection[str]) -> None:
        """Show nothing more of sources that the configuration switched off, and not that they are
        silent.
        """
        self._latest.forget(sources)

    def resume(self, findings: Sequence[Finding], incidents: Sequence[Incident]) -> None:
        """Continue to show what was open when the agent stopped."""
        self._findings.write(findings)
        self._incidents.write(incidents)

    def snapshot(self) -> Snapshot:
        """What a scrape would show now."""
        return self._latest.snapshot()

    def findings(self) -> tuple[Finding, ...]:
        """What stands now, the gravest first."""
        return self._findings.all()

    def incidents(self) -> tuple[Incident, ...]:
        """Those that are open now, the gravest first."""
        return self._incidents.all()

    def render(self, form: Format = TEXT) -> bytes:
        """The whole page in one format.

        Bytes are made under a lock; nothing waits for hardware or disk.
        """
        with self._rendering:
            snapshot = self._latest.snapshot()
            om = form.openmetrics
            page, series, duplicates = self._frames.render(snapshot, openmetrics=om)
            parts, dropped = [page], {"duplicate": duplicates}
            if self._dialect is not None:
                page, more, reasons = self._dialect.render(snapshot, openmetrics=om)
                parts.append(page)
                series += more
                for reason, count in reasons.items():
                    dropped[reason] = dropped.get(reason, 0) + count
            page, more, again = self._loose.render(self._samples(snapshot), openmetrics=om)
            parts.append(page)
            dropped["duplicate"] += again
            self._count(series + more, dropped)
            return b"".join(parts) + (b"# EOF\n" if om else b"")

    def _count(self, series: int, dropped: Mapping[str, int]) -> None:
        self._metrics.set(agent.EXPOSITION_SERIES, series)
        for reason, count in dropped.items():
            self._metrics.add(agent.EXPOSITION_DROPPED, reason, amount=count)

    def _samples(self, snapshot: Snapshot) -> Iterator[Sample]:
        process = self._process.samples() if self._process is not None else iter(())
        return chain(
            self._findings.samples() if self._verdicts else (),
            self._incidents.samples() if self._verdicts else (),
            self._stall_samples(snapshot) if self._verdicts else (),
            self._xid_samples(snapshot),
            self._own_samples(),
            process,
        )

    def _stall_samples(self, snapshot: Snapshot) -> Iterator[Sample]:
        if not shown(agent.NCCL_STATE.profile, self._profile):
            return iter(())
        jobs = [
            device.id
            for entry in snapshot.of("job")
            if entry.fresh
            for device in entry.frame.devices
        ]
        return stall_samples(jobs, self._findings.all(), self._clock.time_ns())

    def _own_samples(self) -> Iterator[Sample]:
        for metric, rows in self._metrics.series():
            if not shown(metric.profile, self._profile):
                continue
            family = Family(metric.name, metric.type, metric.help)
            for labels, value in rows:
                yield Sample(family, tuple(zip(metric.labels, labels, strict=True)), value)

    def _xid_samples(self, snapshot: Snapshot) -> Iterator[Sample]:
        rows = list(self._xids.series()) if self._xids is not None else []
        for device, code, count, _ in rows:
            yield Sample(
                _XIDS, (*device_labels(device, snapshot.facts(device)), ("xid", str(code))), count
            )
        for device, code, _, seen_ns in rows:
            if seen_ns:
                labels = (*device_labels(device, snapshot.facts(device)), ("xid", str(code)))
                yield Sample(_XID_SEEN, labels, seen_ns / 1e9)
