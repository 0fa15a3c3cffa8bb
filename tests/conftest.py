"""What every test gets: an environment without the settings of whoever runs it."""

from __future__ import annotations

import os

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

from collector.dcgm_flags import FLAGS

# These share a simulated day that takes a minute and a half to make: whoever runs one of them runs all.
OF_THE_DAY = {f"tests/integration/{name}.py" for name in ("test_duckdb", "test_node_day", "test_query_docs")}


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test sees only the variables it sets itself, and no golden file is rewritten unless that is asked for."""
    for name in [*os.environ]:
        if name in {flag.variable for flag in FLAGS} or (name.startswith("TOCSIN_") and name != "TOCSIN_UPDATE_GOLDEN"):
            monkeypatch.delenv(name)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that start real servers come first, so that no core waits for one at the end; ``root`` says why it is skipped."""
    real = {item.path for item in items if item.get_closest_marker("integration")}
    items.sort(key=lambda item: item.path not in real)
    if os.geteuid() != 0:
        for item in items:
            if item.get_closest_marker("root"):
                item.add_marker(pytest.mark.skip(reason="needs root"))


class ByFile(LoadFileScheduling):  # type: ignore[misc] # xdist has no types
    """A file stays on one worker, and so do the files of the simulated day."""

    def _split_scope(self, nodeid: str) -> str:
        file: str = super()._split_scope(nodeid)
        return "the simulated day" if file in OF_THE_DAY else file


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByFile:
    """How files are given to workers."""
    return ByFile(config, log)


def pytest_xdist_auto_num_workers() -> int:
    """One more than cores: much of the time is spent waiting for real servers."""
    return (os.cpu_count() or 1) + 1
