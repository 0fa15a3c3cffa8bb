"""Sealing: closed segments of the write-ahead log become immutable Parquet files.

Runs in a short-lived child.

Idempotent: a segment's files have names made from the segment, so a second try after a crash writes
the same files again. The child then uploads what waits, so that the evidence of a page leaves the
node at once.
"""

from __future__ import annotations

import random
import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from pipeline.clock import SystemClock
from pipeline.store.files.layout import HOUR_US, FileName, folder, sync_folder, write_whole
from pipeline.store.files.parquet import write
from pipeline.store.files.quarantine import quarantine
from pipeline.store.files.record import CorruptError
from pipeline.store.files.segment import Damage
from pipeline.store.files.tables import Gathered
from pipeline.store.files.wal import read_segment, segments
from pipeline.store.keep.seal_report import Losses, SealReport
from pipeline.store.remote import outbox
from pipeline.store.remote.upload import upload
from pipeline.store.remote.upload_plan import Plan, Report

Sealed = Callable[[Sequence[Path], bool], None]


def seal(
    segment: Path,
    root: Path,
    cluster: str = "",
    sealed: Sealed | None = None,
    losses: Losses | None = None,
) -> list[Path]:
    """Write what a segment holds below ``root`` and remove the segment; the files written.

    ``sealed`` is called with the files, and whether a page is among the findings, before the
    segment goes; it is called again after a crash.

    Rows lie in the hour of the read that brought them, so an hour is closed when the clock has left
    it, whatever old events (a previous boot's) come later. A segment that is damaged goes into
    quarantine once its good part is sealed, and what it lacks is added to ``losses``.
    """
    hours: dict[int, Gathered] = defaultdict(Gathered)
    name: FileName | None = None
    page, damage, foreign = False, Damage(), ""
    try:
        for observation, findings, incidents in read_segment(segment, damage):
            page = page or any(f.severity == "page" for f in findings)
            name = name or FileName(cluster, observation.host, observation.boot_id, observation.seq)
            hours[observation.time_ns // 1000 // HOUR_US * HOUR_US].add(
                observation, findings, incidents
            )
    except CorruptError as error:
        foreign = str(error)
    written = []
    for hour_us, gathered in hours.items():
        for table, rows in gathered.tables():
            path = root / folder(table, hour_us) / str(name)
            write_whole(path, partial(write, rows, table))
            written.append(path)
    if sealed is not None:
        sealed(written, page)
    if damage or foreign:
        why = foreign or (
            f"{segment}: {damage.why}; {damage.records} records and {damage.size} bytes missing"
        )
        quarantine(root, segment, why)
        losses = losses or Losses()
        losses.quarantined.append(why)
    if losses is not None:
        losses.records += damage.records
        losses.size += damage.size
        losses.unended += damage.unended
    segment.unlink(missing_ok=True)
    sync_folder(segment.parent)
    return written


def main(arguments: list[str]) -> None:
    """Entry of the sealing child: root, cluster, the upload's plan as JSON or
    nothing, then the segments.

    It prints its report as one line. A segment that cannot be sealed holds up neither the others
    nor the upload; its error ends the child.
    """
    root, cluster, plan, *paths = arguments
    pages: list[bool] = []
    errors: list[Exception] = []
    losses, report = Losses(), None
    post = partial(_post, Path(root), pages) if plan else None
    for path in map(Path, paths):
        try:
            seal(path, Path(root), cluster, post, losses)
        except (OSError, ValueError) as error:
            errors.append(error)
    if plan:
        tried = {Path(p) for p in paths}
        report = _upload(Path(root), Plan.from_json(plan), tried, urgent=any(pages))
    sys.stdout.write(SealReport(losses, report).to_json() + "\n")
    sys.stdout.flush()
    if errors:
        raise errors[0]


def _post(root: Path, pages: list[bool], files: Sequence[Path], page: bool) -> None:
    outbox.post(root, files, page=page)
    pages.append(page)


def _upload(root: Path, plan: Plan, tried: set[Path], *, urgent: bool) -> Report:
    """Upload until another segment is closed: it may hold a page, and only
    the next child seals it.
    """

    def closed() -> set[Path]:
        return set(segments(root / "wal")[:-1])  # the newest one is being written

    before = closed() | tried
    return upload(
        root,
        plan,
        SystemClock(),
        random.Random(),  # noqa: S311 - jitter
        urgent=urgent,
        stop=lambda: not closed() <= before,
    )
