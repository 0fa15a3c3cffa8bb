"""Runs of a job, from the events that agents stored of it: on which hosts and GPUs, from when to
when. A job that is queued again, or whose id is used again, has several runs.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import orjson
import polars as pl

from pipeline.catalog import device_job
from pipeline.clock import SECOND_NS
from pipeline.job_names import base
from pipeline.observation import Event, Value
from pipeline.short_ids import UnknownIdError
from pipeline.store.query.events_of import with_boots
from pipeline.store.query.store import Store, Window

KINDS = ("job_started", "job_ended", "nccl_process_found", "nccl_process_lost")
_ARRAY = re.compile(r"(\d{1,12})_(\d{1,9})")
MAX_GAP_NS = 60 * SECOND_NS  # between the parts of one run: hosts start one after the other
ELASTIC_NS = 600 * SECOND_NS  # a job that goes on so long without a host does not need it
RECENT = timedelta(hours=1)
SILENT_NS = 300 * SECOND_NS  # a host that is not read for so long before the store's end is lost


@dataclass(slots=True)
class HostSpan:
    """A job on one host. ``lost``: the host went away before the job ended there. ``left_ns`` is
    when its last process was gone, 0 while it has any: a program that restarts is away for moments,
    so where a scheduler gave the GPUs its word ends the span.
    """

    host: str
    boot_id: str
    begin_ns: int
    end_ns: int = 0
    gpus: set[str] = field(default_factory=set)
    pids: dict[int, int] = field(default_factory=dict)  # rank by process, -1 unknown
    ranks: dict[str, int] = field(default_factory=dict)  # by the GPU that its process holds
    scheduled: bool = False
    left_ns: int = 0
    ended: bool = False
    lost: bool = False
    outcome: str = ""


@dataclass(frozen=True)
class JobRun:
    """One run. ``running``: it had not ended when the store's newest data was read; ``hosts`` is
    how many nodes it has, 0 where nobody said; ``user`` and ``job_name`` are the owner's.
    """

    job: str
    spans: tuple[HostSpan, ...]
    user: str = ""
    job_name: str = ""
    scheduler: str = ""
    hosts: int = 0
    running: bool = False

    @property
    def begin_ns(self) -> int:
        """When it took its first GPU, as far as the store knows."""
        return min(span.begin_ns for span in self.spans)

    @property
    def end_ns(self) -> int:
        """When the first host gave back its GPUs or was lost; then the job is over, unless it goes
        on for long on others.
        """
        by_host: dict[str, int] = {}
        for span in self.spans:
            if span.ended or span.lost or self.running:
                by_host[span.host] = max(span.end_ns, by_host.get(span.host, 0))
        first, last = min(by_host.values()), max(by_host.values())
        return first if last - first <= ELASTIC_NS else last

    @property
    def gpus(self) -> frozenset[str]:
        """All GPUs it had."""
        return frozenset(gpu for span in self.spans for gpu in span.gpus)

    @property
    def pids(self) -> Mapping[tuple[str, int], int]:
        """Rank by host and process, -1 where unknown."""
        return {(span.host, pid): rank for span in self.spans for pid, rank in span.pids.items()}

    @property
    def ranks(self) -> Mapping[str, int]:
        """Rank by GPU, of the ranks that are known."""
        return {gpu: rank for span in self.spans for gpu, rank in span.ranks.items()}


def runs_of(store: Store, text: str, window: Window) -> list[JobRun]:
    """Runs of the job with an id, or whose owner gave it that name; the oldest first.

    UnknownIdError where the store knows none or no beginning of it, or several jobs are meant.
    """
    events: dict[str, list[tuple[Event, str]]] = defaultdict(list)
    for event, boot in with_boots(store, window, KINDS):
        events[base(str(event.attributes.get("job", "")))].append((event, boot))
    key = _key(_of_array(store, window, text), events)
    runs = _runs(key, events[key], _last_reads(store, window))
    if not runs:
        raise UnknownIdError(f"job {text!r}: the store has its end alone, and not when it began")
    return runs


def all_runs(
    store: Store, window: Window, hosts: Collection[str] = (), *, recent: timedelta = RECENT
) -> dict[str, list[JobRun]]:
    """Runs of every job that had GPUs in a window, of all hosts unless some are named: by job, the
    oldest first.

    ``recent``: a host that was read so shortly before the end of the store is there still.
    """
    events: dict[str, list[tuple[Event, str]]] = defaultdict(list)
    for event, boot in with_boots(store, window, KINDS, hosts):
        events[base(str(event.attributes.get("job", "")))].append((event, boot))
    seen = _reads_of(store, window, recent, {host for host, _ in _never_ended(events.values())})
    return {job: _runs(job, its, seen) for job, its in events.items() if job}


def _runs(
    key: str, events: Sequence[tuple[Event, str]], seen: Mapping[tuple[str, str], int]
) -> list[JobRun]:
    return [
        _run(key, part, [event for event, _ in events]) for part in _parts(_spans(events, seen))
    ]


def _run(key: str, spans: Sequence[HostSpan], events: Sequence[Event]) -> JobRun:
    """With what is known of the job: the last that was said of each while this run went on. An id
    that was used before, or is used again, may be another user's.
    """
    begin_ns = min(span.begin_ns for span in spans)
    end_ns = max(span.end_ns for span in spans) + MAX_GAP_NS
    own = [event for event in events if begin_ns <= event.time_ns <= end_ns]

    def last(name: str) -> Value:
        return next((e.attributes[name] for e in reversed(own) if name in e.attributes), "")

    return JobRun(
        key,
        tuple(spans),
        str(last("user")),
        str(last("name")),
        str(last("scheduler")),
        int(last("hosts") or 0),
        running=not any(span.ended or span.lost for span in spans),
    )


def _of_array(store: Store, window: Window, text: str) -> str:
    """The id of a task of a job array that is called 3_1, as Slurm numbers it; any other text."""
    match = _ARRAY.fullmatch(text)
    if match is None:
        return text
    rows = store.table("devices", window).filter(pl.col("kind") == device_job.KIND)
    known = store.collect(rows.select("attributes").unique())["attributes"].to_list()
    for facts in map(orjson.loads, known):
        if (facts.get("array_job"), facts.get("array_task")) == match.groups():
            return str(facts.get("job", text))
    return text


def _key(text: str, events: Mapping[str, Sequence[tuple[Event, str]]]) -> str:
    if base(text) in events:
        return base(text)
    named = sorted(
        {
            key
            for key, rows in events.items()
            if any(event.attributes.get("name") == text for event, _ in rows)
            or (key.rpartition(".")[0] == text and "/" in text)
        }
    )
    if len(named) == 1:
        return named[0]
    if named:
        raise UnknownIdError(f"job {text!r} may be {', '.join(named[:20])}")
    known = ", ".join(sorted(key for key in events if key)[-10:]) or "none"
    raise UnknownIdError(f"no job {text!r} in the store; there are {known}")


def _never_ended(jobs: Iterable[Sequence[tuple[Event, str]]]) -> set[tuple[str, str]]:
    """Hosts and boots on which the last that is known of a job is not its end."""
    last: dict[tuple[int, str, str], str] = {}
    for number, events in enumerate(jobs):
        for event, boot in events:
            last[number, event.device.host, boot] = event.kind
    return {(host, boot) for (_, host, boot), kind in last.items() if kind != "job_ended"}


def _reads_of(
    store: Store, window: Window, recent: timedelta, hosts: Collection[str]
) -> dict[tuple[str, str], int]:
    """The last reads that tell whether jobs of these hosts still run: of all hosts of late, and of
    those that were not read of late whenever that was. There is a row for each read of each source:
    all of a month would be too many.
    """
    until = window.until or datetime.now(UTC)
    late = _last_reads(store, replace(window, since=until - recent))
    gone = sorted(set(hosts) - {host for host, _ in late})
    if not gone:
        return late
    return _last_reads(store, window, gone) | late


def _last_reads(
    store: Store, window: Window, hosts: Collection[str] = ()
) -> dict[tuple[str, str], int]:
    """The last read of each host and boot, in unix ns."""
    reads = store.table("reads", window)
    if hosts:
        reads = reads.filter(pl.col("host").is_in(list(hosts)))
    rows = store.collect(reads.group_by("host", "boot_id").agg(pl.col("time").max()))
    return {(h, b): round(t.timestamp() * 1e6) * 1000 for h, b, t in rows.rows()}


def _spans(
    events: Iterable[tuple[Event, str]], seen: Mapping[tuple[str, str], int]
) -> list[HostSpan]:
    """One for each time that the job had GPUs of a host."""
    opened: dict[tuple[str, str], HostSpan] = {}
    found: list[HostSpan] = []
    for event, boot in events:
        key = event.device.host, boot
        span = opened.get(key)
        if event.kind in ("job_started", "nccl_process_found"):
            if span is None:
                span = opened[key] = HostSpan(*key, event.time_ns)
                found.append(span)
            _take(span, event)
        elif event.kind == "job_ended" and span is not None:
            if "scheduler" not in event.attributes and span.scheduled:
                span.left_ns = event.time_ns
                continue
            span.end_ns, span.ended = _end(span, event.time_ns), True
            span.outcome = str(event.attributes.get("outcome", ""))
            del opened[key]
    _close(opened, seen)
    return found


def _end(span: HostSpan, said_ns: int) -> int:
    """A scheduler's job is missed some time after its last process is gone."""
    return span.left_ns if 0 < said_ns - span.left_ns <= MAX_GAP_NS else said_ns


def _take(span: HostSpan, event: Event) -> None:
    span.left_ns = 0
    span.scheduled = span.scheduled or "scheduler" in event.attributes
    gpus = str(event.attributes.get("gpus", "")).split()
    span.gpus.update(gpus)
    pid, rank = event.attributes.get("pid"), event.attributes.get("rank")
    if isinstance(pid, int):
        span.pids[pid] = rank if isinstance(rank, int) else -1
    if isinstance(rank, int):
        span.ranks.update(dict.fromkeys(gpus, rank))


def _close(opened: Mapping[tuple[str, str], HostSpan], seen: Mapping[tuple[str, str], int]) -> None:
    """Spans without an end: the host is read still, or went away with its boot."""
    newest = max(seen.values(), default=0)
    for (host, boot), span in opened.items():
        last = seen.get((host, boot), span.begin_ns)
        later = any(h == host and b != boot and t > last for (h, b), t in seen.items())
        span.end_ns = max(last, span.begin_ns)
        span.lost = later or last < newest - SILENT_NS


def _parts(spans: Sequence[HostSpan]) -> Iterator[list[HostSpan]]:
    """Spans that overlap, or nearly, are one run."""
    part: list[HostSpan] = []
    end_ns = 0
    for span in sorted(spans, key=lambda one: one.begin_ns):
        if part and span.begin_ns > end_ns + MAX_GAP_NS:
            yield part
            part = []
        part.append(span)
        end_ns = max(end_ns, span.end_ns)
    if part:
        yield part
