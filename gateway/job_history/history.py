"""The gateway's side: keeps the list of runs fresh, and has the page of one made."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace

from collector.config.settings import Config
from gateway.job_history.ask import GONE, Ask, Form
from gateway.job_history.runs import Runs, StoredRun
from pipeline.child import Finished, python, run
from pipeline.clock import Clock
from pipeline.guard import Health
from pipeline.store.keep.maintenance import frugal
from pipeline.store.remote.upload_plan import Target

DAYS = 30
REFRESH_S = 300.0  # and never more than a tenth of the time: at 2,000 nodes a look takes longer
SHARE = 10
LIST_S, PAGE_S = 900.0, 120.0  # deadlines of the child
LIST_BYTES, PAGE_BYTES = 32 << 20, 8 << 20
WAIT_S = 20.0  # an answer is cut off after 30 s (collector/web/connections.py)
KEPT_S = 60.0  # a page: who asks for it in another form, or again, waits for no child
MAX_KEPT = 16  # pages
MAX_PENDING, MAX_OF_READER = 16, 2  # pages that are being made, one after the other
LIST, PAGE = "list of jobs", "page of a job"

Work = Callable[[Ask, float, int], Finished]


class BusyError(Exception):
    """The page cannot be made now, or is not ready yet."""


class GoneError(Exception):
    """The store does not have the run any more."""


@dataclass(eq=False, slots=True)
class _Page:
    task: asyncio.Task[bytes]
    reader: str  # who is served
    made_s: float = math.inf  # when it was ready, or could not be made


class JobHistory:
    """``target`` is the store that the agents upload to."""

    def __init__(self, target: Target, clock: Clock, work: Work | None = None) -> None:
        self._ask, self._clock, self._work = Ask(target, DAYS), clock, work or in_child
        self._one = {name: asyncio.Lock() for name in (LIST, PAGE)}
        self._health = {name: Health(f"the {name} of the store") for name in (LIST, PAGE)}
        self._pages: dict[tuple[object, ...], _Page] = {}
        self.runs = Runs()

    async def keep(self) -> None:
        """Read the list again and again."""
        while True:
            began = self._clock.monotonic_ns()
            await self.refresh()
            took_s = (self._clock.monotonic_ns() - began) / 1e9
            await asyncio.sleep(max(REFRESH_S, SHARE * took_s))

    async def refresh(self) -> None:
        """Read the list; what was known stays where that fails, which is logged once."""
        try:
            found = await self._made(LIST, self._ask, LIST_S, LIST_BYTES)
            rows = [StoredRun(*row) for row in json.loads(found)]
        except (BusyError, GoneError):
            return
        except (ValueError, TypeError) as error:
            self._health[LIST].failed(str(error), self._clock.monotonic_ns())
            return
        self.runs = Runs(rows, self._clock.time_ns())

    async def page(self, run: StoredRun, form: Form, *, whole: bool) -> bytes:
        """The page of a run as its owner reads it, or the ``whole`` of it.

        BusyError: later. GoneError: it is not there any more.
        """
        key = (run.job, run.begin_ns, run.owner, form, whole)
        self._forget_old()
        if key not in self._pages:
            reader = "*" if whole else run.owner
            self._make_room(reader)
            ask = replace(
                self._ask,
                job=run.job,
                begin_ns=run.begin_ns,
                end_ns=0 if run.running else run.end_ns,
                owner="" if whole else run.owner,
                form=form,
            )
            task = asyncio.create_task(self._made(PAGE, ask, PAGE_S, PAGE_BYTES))
            page = self._pages[key] = _Page(task, reader)
            task.add_done_callback(lambda _: setattr(page, "made_s", self._now_s()))
        task = self._pages[key].task
        try:
            return await asyncio.wait_for(asyncio.shield(task), WAIT_S)
        except TimeoutError:
            raise BusyError("the page is being made: ask again") from None

    def _now_s(self) -> float:
        return self._clock.monotonic_ns() / 1e9

    def _forget_old(self) -> None:
        """Pages that are old, or were not made: who asks again has them made again."""
        old_s = self._now_s() - KEPT_S
        for key, page in list(self._pages.items()):
            task = page.task
            if task.done() and (task.cancelled() or task.exception() or page.made_s < old_s):
                del self._pages[key]

    def _make_room(self, reader: str) -> None:
        """Forget the oldest pages. BusyError where too many are being made."""
        made = [key for key, page in self._pages.items() if page.task.done()]
        for key in made[: max(0, len(made) - MAX_KEPT)]:
            del self._pages[key]
        pending = [page.reader for page in self._pages.values() if not page.task.done()]
        if pending.count(reader) >= MAX_OF_READER or len(pending) >= MAX_PENDING:
            raise BusyError("other pages are being made: ask again")

    async def _made(self, name: str, ask: Ask, timeout_s: float, max_bytes: int) -> bytes:
        try:
            async with self._one[name]:
                done = await in_daemon(lambda: self._work(ask, timeout_s, max_bytes))
        except OSError as error:  # no child can be started just now
            self._health[name].failed(str(error), self._clock.monotonic_ns())
            raise BusyError("it cannot be made just now") from error
        if done.returncode == 0 and not done.truncated:
            self._health[name].succeeded()
            return done.stdout
        if done.returncode == GONE:
            raise GoneError
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        why = (
            "it takes too long"
            if done.timed_out
            else "it is too large"
            if done.truncated
            else lines[-1]
            if lines
            else f"the child ended with {done.returncode}"
        )
        self._health[name].failed(why, self._clock.monotonic_ns())
        raise BusyError("it could not be made; the gateway's log has the cause")

    async def close(self) -> None:
        """Wait for nothing: children end with the process."""
        for page in self._pages.values():
            page.task.cancel()


async def in_daemon(work: Callable[[], Finished]) -> Finished:
    """What a thread that no exit waits for makes of it."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Finished] = loop.create_future()

    def settle(made: Finished | None, error: Exception | None) -> None:
        if answer.done():
            return
        if made is not None:
            answer.set_result(made)
        elif error is not None:
            answer.set_exception(error)

    def call() -> None:
        made, failed = None, None
        try:
            made = work()
        except (OSError, ValueError, RuntimeError) as error:
            failed = error
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(settle, made, failed)

    threading.Thread(target=call, name="job history", daemon=True).start()
    return await answer


def history_of(config: Config, clock: Clock) -> JobHistory | None:
    """As the configuration asks for it."""
    url = config.web.history_url
    return JobHistory(replace(config.storage.upload.target, url=url), clock) if url else None


def in_child(ask: Ask, timeout_s: float, max_bytes: int) -> Finished:
    """The answer to a question, by a child of its own."""
    argv = python("gateway.job_history.child", ask.to_json())
    return run(argv, timeout_s=timeout_s, max_bytes=max_bytes, env=frugal())
