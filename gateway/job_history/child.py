"""The reading child: runs of the last weeks, or the page of one run."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from collector.job_page.document import document
from collector.job_page.html import page
from collector.job_page.life import Life, life_of_run
from collector.job_page.owned import OwnedRun, own_part, owned_runs
from collector.job_page.reader import OwnerReader
from collector.job_page.words import lines
from gateway.job_history.ask import GONE, Ask
from gateway.job_history.runs import StoredRun, bounded
from pipeline.child import end_with_parent
from pipeline.documents import printable
from pipeline.store.query.store import Store, Window

NICE = 10  # the judge comes first
AROUND = timedelta(minutes=10)  # runs that touch are one, and one of that id may be near
RENDER: Mapping[str, Callable[[Life], str]] = {
    "text": lambda life: "".join(f"{line}\n" for line in lines(life)),
    "html": page,
    "json": lambda life: json.dumps(document(life)),
}


def main(arguments: Sequence[str]) -> None:
    """Answer one question."""
    end_with_parent()
    os.nice(NICE)
    ask = Ask.from_json(arguments[0])
    store = Store(ask.target.url, target=ask.target)
    if ask.job:
        text = explained(store, ask)
        if text is None:
            sys.exit(GONE)
        sys.stdout.write(text)
    else:
        json.dump(stored_runs(store, ask.days), sys.stdout)


def stored_runs(store: Store, days: int) -> list[StoredRun]:
    """Runs of the last days."""
    window = Window(datetime.now(UTC) - timedelta(days=days))
    return bounded(_row(one) for one in owned_runs(store, window))


def _row(one: OwnedRun) -> StoredRun:
    run = one.run
    return StoredRun(
        printable(run.job),
        one.owner,
        printable(run.job_name),
        printable(run.scheduler),
        run.begin_ns,
        run.end_ns,
        run.running,
        len({span.host for span in run.spans}),
        len(run.gpus),
    )


def explained(store: Store, ask: Ask) -> str | None:
    """The page of a run; None where the store has it no more, or it is another owner's by now."""
    begin, end = (datetime.fromtimestamp(ns / 1e9, UTC) for ns in (ask.begin_ns, ask.end_ns))
    window = Window(begin - AROUND, end + AROUND if ask.end_ns else None)
    found = next(
        (o for o in owned_runs(store, window, ask.job) if o.run.begin_ns == ask.begin_ns), None
    )
    if found is None or (ask.owner and ask.owner != found.owner):
        return None
    run, reader = found.run, None
    if ask.owner:
        run, alone = own_part(store, run)
        reader = OwnerReader(run, alone=alone)
    return RENDER[ask.form](life_of_run(store, run, (), reader))
