"""What the tests of the cluster's page in a browser share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.browser import Browser, Page
from tests.collector.web.served import loaded
from tests.gateway.api.history import history_of
from tests.gateway.cluster import SimulatedCluster
from tests.gateway.page.served import Served
from tests.gateway.page.trouble import trouble, trouble_before

SHOWN = "document.getElementById('live-time')?.textContent.endsWith('UTC')"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A headless Chromium for all tests of a file."""
    with Browser(tmp_path_factory.mktemp("chromium")) as running:
        yield running


@pytest.fixture
def served() -> Iterator[Served]:
    """The page of 16 nodes with something of everything."""
    cluster = SimulatedCluster(16)
    trouble(cluster)
    running = Served(cluster, history=history_of(trouble_before()))
    yield running
    running.close()


@pytest.fixture
def page(browser: Browser, served: Served) -> Iterator[Page]:
    """It, in a browser, once everything was read."""
    opened = loaded(browser.open(served.url), SHOWN)
    yield opened
    opened.close()
