"""Jobs that ended, and the page of one: a reader of a part gets its own, as if no other were."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from collector.job_page.style import POLICY
from gateway.job_history import history as module
from gateway.job_history.ask import Ask
from gateway.job_history.history import KEPT_S, BusyError, JobHistory
from gateway.job_history.runs import MAX_OF_OWNER, Runs, StoredRun, bounded
from pipeline.child import Finished
from pipeline.clock import SECOND_NS
from pipeline.store.remote.upload_plan import Target
from tests.fakes import START_NS, FakeClock
from tests.gateway.api.history import FakeStore, ended
from tests.gateway.api.server import Answer, serving
from tests.gateway.api.test_tenants import TENANTS, login_of
from tests.gateway.cluster import SimulatedCluster

RUNS = (
    ended("60", "user:ada"),
    ended("61", "user:bob", name="secret-model"),
    ended("60", "user:bob", 9000, name="secret-model"),
    ended("62", "user:ada", 7200),
    ended("63", "", name="secret-model"),
    ended("71", "user:ada", running=True),
)
EXPLAIN = "/api/v1/jobs/explanation"


def asked(
    tmp_path: Path,
    store: FakeStore,
    user: str,
    *paths: str,
    cluster: SimulatedCluster | None = None,
) -> list[Answer]:
    """GET each, as a user."""
    file, header = login_of(tmp_path, user)

    async def ask() -> list[Answer]:
        history = store.history()
        await history.refresh()
        async with serving(
            cluster or SimulatedCluster(1), file=file, tenants=TENANTS, history=history
        ) as client:
            return [await client.get(path, headers=header) for path in paths]

    return asyncio.run(ask())


def test_a_tenant_sees_its_own_ended_jobs(tmp_path: Path) -> None:
    """The newest first; a running one is in the other list, another's nowhere, nor is a job of
    nobody, and they are not counted, not as a run of the same id either.
    """
    (found,) = asked(tmp_path, FakeStore(RUNS), "ada", "/api/v1/jobs/ended")
    assert [(row["id"], row["run"]) for row in found["jobs"]] == [("60", 1), ("62", 1)]
    assert found["total"] == 2
    for word in (b"bob", b"secret", b"61", b"63"):
        assert word not in found.body.replace(b"2026", b"")
    (all_of_them,) = asked(tmp_path, FakeStore(RUNS), "sre", "/api/v1/jobs/ended")
    assert all_of_them["total"] == 5


def test_the_list_is_paged(tmp_path: Path) -> None:
    """Each run once."""
    store = FakeStore([ended(str(n), "user:ada", n * 60) for n in range(1, 6)])
    first, *_ = asked(tmp_path, store, "ada", "/api/v1/jobs/ended?limit=3")
    (second,) = asked(tmp_path, store, "ada", f"/api/v1/jobs/ended?limit=3&cursor={first['next']}")
    ids = [row["id"] for answer in (first, second) for row in answer["jobs"]]
    assert (ids, second["next"]) == (["1", "2", "3", "4", "5"], None)


@pytest.mark.parametrize(("end", "media"), [("", "json"), (".html", "html"), (".txt", "plain")])
def test_a_tenant_gets_the_page_of_its_own_job(tmp_path: Path, end: str, media: str) -> None:
    """As its owner reads it, also while it runs; a page has its style and no script."""
    store = FakeStore(RUNS)
    paths = [f"{EXPLAIN}{end}?job=60", f"{EXPLAIN}{end}?job=71"]
    found = asked(tmp_path, store, "ada", *paths)
    assert [each.status for each in found] == [200, 200]
    assert media in found[0].headers["Content-Type"]
    assert [(ask.owner, ask.begin_ns) for ask in store.asked[-2:]] == [
        ("user:ada", RUNS[0].begin_ns),
        ("user:ada", RUNS[-1].begin_ns),
    ]
    policy = found[0].headers["Content-Security-Policy"]
    assert (policy == POLICY) == (end == ".html")
    assert "unsafe" not in policy


def test_who_sees_everything_gets_the_whole_page(tmp_path: Path) -> None:
    """Of any run, by its number too."""
    store = FakeStore(RUNS)
    (found,) = asked(tmp_path, store, "sre", f"{EXPLAIN}?job=60&run=1")
    assert found.status == 200
    assert (store.asked[-1].owner, store.asked[-1].begin_ns) == ("", RUNS[2].begin_ns)


def test_anothers_job_is_answered_as_one_that_nobody_has(tmp_path: Path) -> None:
    """The same status and words, at once: no child is asked, whose time could tell."""
    store = FakeStore(RUNS)
    cluster = SimulatedCluster(4)
    cluster.run("90", [1], user="bob")
    cluster.read()
    for end in ("", ".html", ".txt"):
        names = ["61", "63", "90", "99"]
        found = asked(
            tmp_path,
            store,
            "ada",
            *(f"{EXPLAIN}{end}?job={name}" for name in names),
            f"{EXPLAIN}{end}?job=60&run=2",
            f"{EXPLAIN}{end}?job=60&run=9",
            cluster=cluster,
        )
        assert {each.status for each in found} == {404}
        bodies = [
            each.body.replace(name.encode(), b"") for each, name in zip(found, names, strict=False)
        ]
        assert len(set(bodies)) == 1
        assert found[4].body == found[5].body
    assert not [ask for ask in store.asked if ask.job]


def test_a_run_that_the_store_has_no_more_is_not_found(tmp_path: Path) -> None:
    """Retention may have ended it since the list was read."""
    store = FakeStore(RUNS)
    store.gone = True
    (found,) = asked(tmp_path, store, "ada", f"{EXPLAIN}?job=60")
    assert found.status == 404


def test_without_a_store_there_is_nothing(tmp_path: Path) -> None:
    """An empty list that says so, and 404."""

    async def ask() -> tuple[Answer, Answer]:
        async with serving(SimulatedCluster(1)) as client:
            return await client.get("/api/v1/jobs/ended"), await client.get(EXPLAIN, job="60")

    listed, page = asyncio.run(ask())
    assert (listed["jobs"], listed["read"], page.status) == ([], None, 404)


def test_no_owner_takes_the_place_of_another() -> None:
    """Each keeps its newest thousand."""
    many = [ended(f"9{n}", "user:eve", n) for n in range(MAX_OF_OWNER + 50)]
    kept = bounded([*many, ended("60", "user:ada", 1e6)])
    assert len(kept) == MAX_OF_OWNER + 1
    assert kept[-1].job == "60"
    assert max(START_NS - run.end_ns for run in kept[:-1]) == (MAX_OF_OWNER - 1) * SECOND_NS


def test_one_readers_questions_leave_room_for_anothers() -> None:
    """Two pages of a reader are being made at most; a page that is made is given again."""
    release, asks = threading.Event(), list[Ask]()

    def work(ask: Ask, timeout_s: float, max_bytes: int) -> Finished:
        asks.append(ask)
        release.wait(60)
        return Finished(0, ask.job.encode(), b"")

    async def ask() -> None:
        history = JobHistory(Target("/nowhere"), FakeClock(), work)
        runs = [ended(str(n), "user:eve") for n in range(3)]
        pages = [asyncio.create_task(history.page(run, "text", whole=False)) for run in runs[:2]]
        await asyncio.sleep(0)
        with pytest.raises(BusyError):
            await history.page(runs[2], "text", whole=False)
        other = asyncio.create_task(history.page(ended("60", "user:ada"), "text", whole=False))
        await asyncio.sleep(0)
        release.set()
        assert await asyncio.gather(*pages, other) == [b"0", b"1", b"60"]
        assert await history.page(runs[0], "text", whole=False) == b"0"
        assert len(asks) == 3
        await history.close()

    asyncio.run(ask())


def test_a_page_is_made_again_where_it_is_old_or_could_not_be_made() -> None:
    """Also for the only reader: the page of a job that runs changes, and a store is back."""
    clock, asks = FakeClock(), list[Ask]()

    def work(ask: Ask, timeout_s: float, max_bytes: int) -> Finished:
        asks.append(ask)
        if len(asks) == 1:
            return Finished(1, b"", b"the store does not answer")
        clock.advance(2 * KEPT_S)  # however long it took
        return Finished(0, str(len(asks)).encode(), b"")

    async def story() -> None:
        history = JobHistory(Target("/nowhere"), clock, work)
        run = ended("60", "user:ada", running=True)
        with pytest.raises(BusyError):
            await history.page(run, "text", whole=False)
        for wait_s, wanted in ((0, b"2"), (KEPT_S, b"2"), (1, b"3")):
            clock.advance(wait_s)
            assert await history.page(run, "text", whole=False) == wanted
        await history.close()

    asyncio.run(story())


def test_a_page_that_takes_long_holds_no_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """The question is answered `not yet`, and the page is there for the next one."""
    release = threading.Event()
    monkeypatch.setattr(module, "WAIT_S", 0.0)

    def work(ask: Ask, timeout_s: float, max_bytes: int) -> Finished:
        release.wait(60)
        return Finished(0, b"made", b"")

    async def ask() -> None:
        history = JobHistory(Target("/nowhere"), FakeClock(), work)
        run = ended("60", "user:ada")
        with pytest.raises(BusyError):
            await history.page(run, "text", whole=False)
        release.set()
        monkeypatch.setattr(module, "WAIT_S", 60.0)
        assert await history.page(run, "text", whole=False) == b"made"
        await history.close()

    asyncio.run(ask())


def test_a_store_that_cannot_be_read_keeps_the_list_and_tells_no_reader_why() -> None:
    """The log has it; a word of the store may be anybody's."""
    store = FakeStore(RUNS)

    async def ask() -> None:
        history = JobHistory(Target("/nowhere"), FakeClock(), store.work)
        await history.refresh()
        history._work = lambda *_: Finished(1, b"", b"Traceback\nOSError: s3://secret")
        await history.refresh()
        assert len(history.runs.every) == len(RUNS)
        with pytest.raises(BusyError) as error:
            await history.page(RUNS[0], "text", whole=False)
        assert "secret" not in str(error.value)

    asyncio.run(ask())


def test_nobodys_jobs_are_of_no_owner() -> None:
    """Not of an empty name either."""
    runs = Runs([StoredRun("1", "", "", "", 0, 1, running=False, nodes=1, gpus=1)], 1)
    assert [*runs.of(["", "user:ada"]).every] == []
