"""Reads a site hour by hour into a store; what is done is remembered, so that an import that was
ended goes on where it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from history.gather import BLANK, LATE_NS, Account, Hour, columns
from history.kernel_logs.book import KernelLogs, by_node
from history.meaning import dcgm_exporter, fabric_exporters, holders, node_exporter
from history.meaning.labels import LabelMap, Labels, carried_on, plain, proposed
from history.meaning.labels import of as labels_of
from history.meaning.site_facts import FACTS
from history.remembered import HOUR_MS, Host
from history.renamed import renamed
from history.site.series import Series, Site, SiteError
from history.site_log import SiteLog
from pipeline.store.files.layout import make_folder, settle, write_whole
from pipeline.store.files.scraped import write_hour

STATE = Path("state") / "import.json"
FORMAT = 1
# Of a small site several hours are asked for at once: a question costs more than its answer. Of a
# large one parts of an hour, of which one is at most ``MAX_PART`` samples if the next is as the
# last, and none more than ``MAX_HELD``, of 16 bytes each.
MAX_ASKED, MAX_PART, MAX_HELD = 3_000_000, 15_000_000, 24_000_000
# Of the last minutes of an hour: every exporter is scraped in them.
AT_END_MS = HOUR_MS // 12
NAME = "__name__"
MAX_SPAN_MS, MIN_SPAN_MS = 24 * HOUR_MS, HOUR_MS // 16


@dataclass(slots=True)
class Progress:
    """How far an import is: hours from ``begin_ms`` up to ``next_ms`` (unix time) are done, what is
    remembered of hosts, and what was done with the samples.
    """

    begin_ms: int
    next_ms: int
    hosts: dict[str, Host] = field(default_factory=dict)
    account: Account = field(default_factory=Account)
    log: SiteLog = field(default_factory=SiteLog)
    labels: LabelMap | None = None  # None: of an import before these were remembered
    cluster: str | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """What a site has: metrics that are understood, those of dcgm-exporter that are not, those that
    say what the site knew of its nodes, the labels as they are taken, metrics that say which jobs
    hold GPUs, and whether a mapping of the site's ``declared`` the labels.
    """

    metrics: tuple[str, ...]
    strange: tuple[str, ...]
    labels: LabelMap
    facts: tuple[str, ...] = ()
    holders: tuple[str, ...] = ()
    declared: bool = False


def understood() -> frozenset[str]:
    """Every metric that an import reads where a site has it."""
    said = node_exporter.NAMES, fabric_exporters.INFO
    return frozenset((*columns(), *FACTS, *holders.NAMES, *said))


def find(site: Site, begin_ms: int, end_ms: int, labels: LabelMap | None) -> Found:
    """What is there in a span. SiteError where no metric of a GPU or port is.

    Labels are proposed, where ``labels`` says no more than names of metrics, from the last hour
    that has GPUs.
    """
    known = columns()
    site = renamed(site, labels)
    names = site.names(begin_ms, end_ms)
    metrics = tuple(name for name in names if name in known)
    strange = tuple(n for n in names if dcgm_exporter.is_its(n) and n not in known)
    if not any(known[name][1].kind in ("gpu", "ib_port") for name in metrics):
        raise SiteError(
            f"{site.about}: no series of dcgm-exporter or of InfiniBand ports among "
            f"{len(names)} metrics{_alike(names)}"
        )
    facts = tuple(name for name in names if name in FACTS)
    declared = labels is not None and labels != LabelMap(metrics=labels.metrics)
    if labels is None or not declared:
        known_as = labels.metrics if labels else {}
        labels = _proposed(site, metrics, names, begin_ms, end_ms)
        labels = replace(labels, metrics=known_as)
    jobs = tuple(name for name in names if name in holders.NAMES)
    return Found(metrics, strange, labels, facts, jobs, declared)


def _alike(names: Iterable[str]) -> str:
    """What the names of a site end with, where those of exporters have something before them."""
    known = columns()
    for name in names:
        for end in known:
            if name.endswith((f"_{end}", f":{end}")):
                return f'; is {name} what was {end}? Name it in a mapping, as "metrics"'
    return ""


def _proposed(
    site: Site, metrics: tuple[str, ...], names: list[str], begin_ms: int, end_ms: int
) -> LabelMap:
    gpus, span = _gpus(site, metrics, begin_ms, end_ms)
    hosts = list(site.read(node_exporter.NAMES, *span)) if node_exporter.NAMES in names else []
    made = proposed(gpus, [one.labels for one in hosts])
    if fabric_exporters.INFO not in names:
        return made
    infos = site.read(fabric_exporters.INFO, *span)
    by_guid = fabric_exporters.nodes_of(one.labels for one in infos)
    return replace(made, nodes={**by_guid, **made.nodes})


def _gpus(
    site: Site, metrics: Iterable[str], begin_ms: int, end_ms: int
) -> tuple[list[Labels], tuple[int, int]]:
    """Labels of the GPUs of the last hour that has any, and that hour. No metric is there of all
    GPUs: one is asked for in all of the hour, for jobs, the others at its end.
    """
    known = columns()
    of_gpus = {name for name in metrics if known[name][1].kind == "gpu"}
    for last in range(end_ms, begin_ms, -HOUR_MS) if of_gpus else ():
        first = max(last - HOUR_MS, begin_ms)
        found: dict[tuple[tuple[str, str], ...], Labels] = {}
        for name in sorted(of_gpus.intersection(site.names(first, last))):
            for one in site.read(name, max(first, last - AT_END_MS) if found else first, last):
                labels = {label: value for label, value in one.labels.items() if label != NAME}
                found[tuple(sorted(labels.items()))] = labels
        if found:
            return list(found.values()), (first, last)
    return [], (max(end_ms - HOUR_MS, begin_ms), end_ms)


def bring(
    site: Site,
    found: Found,
    root: Path,
    span: tuple[int, int],
    *,
    cluster: str = "",
    logs: KernelLogs | None = None,
    advance: Callable[[float, str], object] = lambda _share, _text: None,
) -> Progress:
    """Write every hour of a span, unix ms, below ``root``, with what kernel logs say of its nodes;
    what was done.

    An import of the same site goes on where it was, by the labels by which it began. SiteError from
    the site, or where the mapping or the cluster is another; OSError from the disk: what is done is
    kept.
    """
    begin_ms, end_ms = span
    progress = _recorded(root, site.about) or Progress(begin_ms, begin_ms)
    if begin_ms < _hour(progress.begin_ms):
        raise SiteError(f"{root}: begins later than --since; import into another folder")
    found = replace(found, labels=_carried_on(root, progress, found, cluster))
    progress.labels, progress.cluster = found.labels, cluster
    site = renamed(site, found.labels)
    span_ms = HOUR_MS
    while progress.next_ms < end_ms:
        first = progress.next_ms
        last = min(_after(first, span_ms), end_ms)
        asked = _asked(site, found, (first, last), held=MAX_HELD if span_ms > MIN_SPAN_MS else None)
        if asked is None:
            span_ms = _span_ms((last - first) // 2)
            continue
        metrics, facts, jobs = asked
        for one in metrics:
            if one.blanks:
                progress.account.skipped[BLANK, one.name] += one.blanks
        written: list[Path] = []
        for begin in (first, *range(_hour(first) + HOUR_MS, last, HOUR_MS)):
            end = min(_hour(begin) + HOUR_MS, last)
            hour = Hour(found.labels, progress.hosts, progress.account, begin)
            for series in _within(metrics, begin, end):
                hour.take(series)
            for series in _within(facts, begin, end):
                progress.log.take(series, found.labels)
            for series in _within(jobs, begin, end):
                hour.holders.take(series, found.labels)
            if logs is not None:
                lines = logs.between(begin - LATE_NS // 1_000_000, end)
                hour.take_logs(by_node(lines, progress.hosts, found.labels, logs, begin))
            for host, scrapes in hour.hosts():
                written += write_hour(root, cluster, host, scrapes, durable=False)
            progress.next_ms = end
            advance((end - begin_ms) / (end_ms - begin_ms), f"{progress.account.samples:,} samples")
        settle(written)  # before they count as done
        _save(root, site.about, progress)
        samples = sum(len(one.times_ms) for every in asked for one in every)
        of_ms = (last - first) / max(samples, 1)
        span_ms = _span_ms(round(max(MAX_ASKED * of_ms, min(MAX_PART * of_ms, HOUR_MS))))
    return progress


def _carried_on(root: Path, progress: Progress, found: Found, cluster: str) -> LabelMap:
    if progress.cluster not in (None, cluster):
        raise SiteError(
            f"{root}: is of the cluster {progress.cluster!r}; import into another folder"
        )
    if progress.labels is None:
        return found.labels
    try:
        return carried_on(progress.labels, found.labels, declared=found.declared)
    except ValueError as error:
        raise SiteError(f"{root}: {error}; import into another folder") from None


def _asked(
    site: Site, found: Found, span: tuple[int, int], *, held: int | None
) -> tuple[list[Series], list[Series], list[Series]] | None:
    """Series of the metrics, of what the site knew, and of holders of jobs; None where they have
    more samples than may be ``held``.
    """
    asked: tuple[list[Series], list[Series], list[Series]] = ([], [], [])
    samples = 0
    for names, every in zip((found.metrics, found.facts, found.holders), asked, strict=True):
        for name in names:
            for one in site.read(name, *span):
                every.append(one)
                samples += len(one.times_ms)
                if held is not None and samples > held:
                    return None
    return asked


def _span_ms(ms: int) -> int:
    """Whole hours, or a part of an hour that divides it, of at most so long.

    >>> [_span_ms(minutes * 60_000) / HOUR_MS for minutes in (1, 29, 30, 119, 9_999)]
    [0.0625, 0.25, 0.5, 1.0, 24.0]
    """
    if ms >= HOUR_MS:
        return min(ms - ms % HOUR_MS, MAX_SPAN_MS)
    part = HOUR_MS
    while part > max(ms, MIN_SPAN_MS):
        part //= 2
    return part


def _after(ms: int, span_ms: int) -> int:
    """Where a question from a time on ends."""
    unit = min(span_ms, HOUR_MS)
    return ms - ms % unit + span_ms


def _within(every: Iterable[Series], begin_ms: int, end_ms: int) -> Iterator[Series]:
    """Series with their samples of an hour, where they have any."""
    for one in every:
        first, last = np.searchsorted(one.times_ms, (begin_ms, end_ms))
        if first < last:
            yield Series(one.labels, one.times_ms[first:last], one.values[first:last])


def _hour(ms: int) -> int:
    return ms - ms % HOUR_MS


def _recorded(root: Path, site: str | None = None) -> Progress | None:
    """An earlier run, of this ``site`` where one is given; None where there was none."""
    try:
        document: Any = orjson.loads((root / STATE).read_bytes())
        if document["format"] != FORMAT:
            raise SiteError(f"{root / STATE}: written by another version")
        known = document["site"]
        # as it was called before
        if site is not None and site not in (known, known.rpartition(" (")[0]):
            raise SiteError(f"{root}: was read from {known}; import into another folder")
        hosts = {name: Host.of(one) for name, one in document["hosts"].items()}
        account = Account(document["samples"], conflicts=document["conflicts"])
        account.columns.update(_pairs(document["columns"]))
        account.skipped.update(_pairs(document["skipped"]))
        log = SiteLog.of(document["log"]) if "log" in document else SiteLog()
        given = document.get("labels")
        labels = None if given is None else labels_of(given, str(root / STATE))
        return Progress(
            document["begin_ms"],
            document["next_ms"],
            hosts,
            account,
            log,
            labels,
            document.get("cluster"),
        )
    except FileNotFoundError:
        return None
    except SiteError:
        raise
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise SiteError(f"{root / STATE}: damaged ({error}); remove it to begin again") from None


def _pairs(rows: Iterable[Any]) -> dict[tuple[str, str], int]:
    return {(first, second): count for first, second, count in rows}


def _save(root: Path, site: str, progress: Progress) -> None:
    account = progress.account
    document = {
        "format": FORMAT,
        "site": site,
        "begin_ms": progress.begin_ms,
        "next_ms": progress.next_ms,
        "cluster": progress.cluster,
        "labels": None if progress.labels is None else plain(progress.labels),
        "samples": account.samples,
        "conflicts": account.conflicts,
        "columns": [[*key, count] for key, count in sorted(account.columns.items())],
        "skipped": [[*key, count] for key, count in sorted(account.skipped.items())],
        "log": progress.log.document(),
        "hosts": {name: one.plain() for name, one in sorted(progress.hosts.items())},
    }
    make_folder((root / STATE).parent)
    text = orjson.dumps(document, option=orjson.OPT_INDENT_2)
    write_whole(root / STATE, lambda path: path.write_bytes(text))


@dataclass(frozen=True, slots=True)
class Imported:
    """What was asked for, unix ns, and how many samples had no value."""

    begin_ns: int
    end_ns: int
    blanks: int


def imported(root: Path) -> Imported | None:
    """What the import of a store asked for; None for a store that is no import. SiteError where its
    record is damaged.
    """
    progress = _recorded(root)
    if progress is None:
        return None
    blanks = sum(n for (why, _), n in progress.account.skipped.items() if why == BLANK)
    return Imported(progress.begin_ms * 1_000_000, progress.next_ms * 1_000_000, blanks)


def site_log(root: Path) -> SiteLog | None:
    """What the site of an import knew of its nodes; None for a store that is no import. SiteError
    where it is damaged.
    """
    try:
        document: Any = orjson.loads((root / STATE).read_bytes())
        return SiteLog.of(document["log"]) if "log" in document else SiteLog()
    except FileNotFoundError:
        return None
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError) as error:
        raise SiteError(f"{root / STATE}: damaged ({error})") from None


def is_empty_or_ours(root: Path) -> bool:
    """Whether a folder may take an import: a store of an agent may not."""
    try:
        inside = any(not entry.name.startswith(".") for entry in root.iterdir())
    except FileNotFoundError:
        return True
    return not inside or (root / STATE).exists()
