"""The page of a job's life from a gateway: by the real child from a real store, in a browser."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.job_history.history import JobHistory
from pipeline.clock import SystemClock
from pipeline.frame import Device
from pipeline.store.remote.upload_plan import Target
from tests.browser import Browser
from tests.collector.job_page.stored_job import HOSTS, StoredJob, uuid
from tests.collector.job_page.test_owners import hold
from tests.collector.web.served import loaded
from tests.gateway.cluster import SimulatedCluster
from tests.gateway.page.served import Served
from tests.gateway.page.test_for_everybody import axe

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A job that lost a GPU."""
    root = tmp_path_factory.mktemp("store")
    job = StoredJob(root, 40)
    for host in HOSTS:
        hold(job, host)
    job.event("n2", 39.5, "xid", gpu=1, code=79, text="NVRM: Xid (PCI:0000:2a:00): 79")
    job.incident(39.5, Device("n2", "gpu", uuid("n2", 1)), "GPU 1 fell off the bus (XID 79).")
    job.run()
    job.close()
    return root


@pytest.fixture(scope="module")
def address(store: Path) -> Iterator[str]:
    """Of a gateway that has read the store, as its owner sees it."""
    history = JobHistory(Target(str(store)), SystemClock())
    asyncio.run(history.refresh())
    served = Served(SimulatedCluster(1), owners="user:ada", history=history)
    yield f"{served.url}api/v1/jobs/explanation.html?job=71"
    served.close()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [320, 1280])
def test_its_owner_reads_it(browser: Browser, address: str, *, width: int, dark: bool) -> None:
    """With its own style, which the policy of that page lets in; axe has nothing to say; nothing is
    wider than a phone.
    """
    page = loaded(browser.open(address, width=width, height=740, dark=dark), "!!document.body")
    text = page.evaluate("document.body.innerText")
    assert "A GPU failed" in text
    assert "GPU 1 fell off the bus" in text
    assert page.evaluate("getComputedStyle(document.querySelector('dl')).display") == "grid"
    assert axe(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.close()


def test_all_forms_are_of_one_life(store: Path) -> None:
    """As the command writes them."""

    async def pages() -> list[bytes]:
        history = JobHistory(Target(str(store)), SystemClock())
        await history.refresh()
        run = history.runs.find("71")
        assert run is not None
        assert run.owner == "user:ada"
        return [await history.page(run, form, whole=False) for form in ("text", "json")]

    text, document = asyncio.run(pages())
    assert json.loads(document)["ended_by"]["cause"] == "gpu_fault"
    assert b"A GPU failed: rank 5" in text


def test_a_store_that_is_not_there_costs_no_answer(tmp_path: Path) -> None:
    """The list stays empty and the reason is in the log."""
    history = JobHistory(Target(str(tmp_path / "none")), SystemClock())
    asyncio.run(history.refresh())
    assert (history.runs.every, history.runs.read_ns) == ((), 0)
