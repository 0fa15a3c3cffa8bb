"""What the tests of faults share: two gateways, a broker, and hosts; each test leaves them as they
were.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.gateway.faults.cluster import Cluster
from tests.gateway.faults.watch import Watch
from tests.nats import Nats

MAX_FILE = 8 << 20  # bytes that the broker may store: a disk that can be filled


@pytest.fixture(scope="package")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two gateways, of which one reports, and both hosts."""
    folder = tmp_path_factory.mktemp("gateways")
    with ExitStack() as stack:
        server = stack.enter_context(Nats(folder / "nats", max_file=MAX_FILE))
        server.stream(max_bytes=-1)
        made = Cluster(folder, stack, [server])
        made.until(lambda: made.leader() and made.hosts("known") >= 2, "both hosts")
        yield made


@pytest.fixture
def watch(cluster: Cluster) -> Iterator[Watch]:
    """Of the shared gateways, during a test."""
    with Watch(lambda: cluster.gateways) as watching:
        yield watching


@pytest.fixture(scope="module", autouse=True)
def _collected() -> Iterator[None]:
    """nats-py leaves the streams of attempts that failed to the garbage collector, which warns:
    here, where that is no failure, and not in the test that comes next.
    """
    yield
    gc.collect()
