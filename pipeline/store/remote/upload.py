"""One run of the uploader: what waits in the outbox goes to the store, within a budget, and one
report says how it went.

Called by the sealing child. A put is create-only, so repeating is free: what was sent and whose
answer was lost counts as sent. Trouble with the store ends the run; the next one comes after a
pause with full jitter that outlives the child and the machine.
"""

from __future__ import annotations

import contextlib
import json
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from pipeline.clock import SECOND_NS, Clock
from pipeline.store.files.layout import write_whole
from pipeline.store.remote import outbox
from pipeline.store.remote.objects import RefusedError, WriteOnce, open_objects
from pipeline.store.remote.outbox import Pending
from pipeline.store.remote.upload_plan import Plan, Report, Target

STATE = "state.json"
# Full jitter below a doubling bound: "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.
FIRST_BOUND_S, MAX_BOUND_S, MIN_S = 10.0, 900.0, 1.0
MORE_WAITS_S = 30.0  # pause between two runs of a backlog: the node has other things to do
OF_ONE_FILE = ("local", "conflict", "other")  # causes that say nothing about the next file


@dataclass(frozen=True, slots=True)
class _Patience:
    """How often in a row the store failed us, and until when it is left alone (unix time, as
    it must outlive a reboot).
    """

    failures: int = 0
    until_s: float = 0.0


def upload(
    root: Path,
    plan: Plan,
    clock: Clock,
    rng: random.Random,
    *,
    urgent: bool = False,
    stop: Callable[[], bool] = lambda: False,
    open_: Callable[[Target], WriteOnce] = open_objects,
) -> Report:
    """Send what waits below ``root``.

    ``urgent`` (a page was just sealed) does not wait for a pause to end;
    ``stop`` ends it between files.
    """
    found, report = _give_up(outbox.waiting(root), plan.most_pending_bytes)
    now_s, patience = clock.time_ns() / 1e9, _load(root)
    pause_s = patience.until_s - now_s
    if not found or (
        0 < pause_s <= MAX_BOUND_S and not urgent
    ):  # longer than any pause: the clock was stepped
        return _left(report, found, pause_s)
    run = _Run(plan, clock, stop)
    run.send(found, open_)
    patience = _next(patience, now_s, rng) if run.failures else _Patience()
    _save(root, patience)
    left = [p for p in found if p not in run.gone]
    report = replace(
        report,
        sent_files=run.files,
        sent_bytes=run.bytes,
        failures=dict(run.failures),
        error=run.error,
    )
    return _left(report, left, patience.until_s - now_s if run.failures else MORE_WAITS_S)


class _Run:
    """Sends files until the budget ends, the store fails, or something more urgent comes."""

    def __init__(self, plan: Plan, clock: Clock, stop: Callable[[], bool]) -> None:
        self._plan, self._clock, self._stop = plan, clock, stop
        self._until_ns = clock.monotonic_ns() + round(plan.run_s * SECOND_NS)
        self.files = self.bytes = 0
        self.failures: Counter[str] = Counter()
        self.gone: set[Pending] = set()
        self.error = ""

    def send(self, found: Sequence[Pending], open_: Callable[[Target], WriteOnce]) -> None:
        """In this order. A file larger than the whole budget goes alone."""
        try:
            store = open_(self._plan.target)
            for pending in found:
                if self._stop() or self._clock.monotonic_ns() >= self._until_ns:
                    return
                if not self.bytes or self.bytes + pending.size <= self._plan.run_bytes:
                    self._one(store, pending)
        except RefusedError as error:
            self._failed(error)

    def _one(self, store: WriteOnce, pending: Pending) -> None:
        """Send one file.

        RefusedError where the store is at fault, so that the next would fail too.
        """
        try:
            _put(store, pending)
        except RefusedError as error:
            if error.cause not in OF_ONE_FILE:
                raise
            self._failed(error)
            if error.cause != "conflict":
                return
        else:
            self.files += 1
            self.bytes += pending.size
        outbox.done(pending)
        self.gone.add(pending)

    def _failed(self, error: RefusedError) -> None:
        self.failures[error.cause] += 1
        self.error = f"{error.cause}: {error}"


def _put(store: WriteOnce, pending: Pending) -> None:
    """Create the object, or find that it is there.

    RefusedError (conflict) where another one has its name.
    """
    if store.put(pending.key, pending.path):
        return
    try:
        size = store.size(pending.key)  # None from a write-only prefix: taken as ours
    except RefusedError as error:
        if (
            error.cause == "no_bucket"
        ):  # S3's 409: an earlier request for the name has not come to an end
            raise RefusedError(
                "other", f"{pending.key}: reported as existing, and is not there"
            ) from error
        raise
    if size not in (None, pending.size):
        raise RefusedError(
            "conflict",
            (
                f"{pending.key}: the store holds another object of this name ({size} bytes, "
                f"here {pending.size})"
            ),
        )


def _give_up(found: list[Pending], max_bytes: int) -> tuple[list[Pending], Report]:
    """What may go on waiting, and a report of what may not."""
    excess = sum(p.size for p in found) - max_bytes
    gone: set[Pending] = set()
    for pending in outbox.least_valuable(found):
        if excess <= 0:
            break
        outbox.done(pending)
        gone.add(pending)
        excess -= pending.size
    report = Report(given_up_files=len(gone), given_up_bytes=sum(p.size for p in gone))
    return [p for p in found if p not in gone], report


def _left(report: Report, left: Sequence[Pending], retry_s: float) -> Report:
    """The report with what still waits."""
    if not left:
        return report
    return replace(
        report,
        pending_files=len(left),
        pending_bytes=sum(p.size for p in left),
        oldest_s=min(p.sealed_s for p in left),
        retry_s=max(retry_s, MIN_S),
    )


def _next(patience: _Patience, now_s: float, rng: random.Random) -> _Patience:
    """One more run that failed."""
    bound_s = min(FIRST_BOUND_S * 2.0 ** min(patience.failures, 30), MAX_BOUND_S)
    return _Patience(patience.failures + 1, now_s + rng.uniform(0.0, bound_s))


def _load(root: Path) -> _Patience:
    try:
        return _Patience(**json.loads((root / outbox.FOLDER / STATE).read_bytes()))
    except (OSError, ValueError, TypeError):  # never saved, or damaged: it only costs one early try
        return _Patience()


def _save(root: Path, patience: _Patience) -> None:
    text = json.dumps(asdict(patience)).encode()
    with contextlib.suppress(OSError):  # a full disk: the next run comes too early, no more
        write_whole(root / outbox.FOLDER / STATE, lambda scratch: scratch.write_bytes(text))
