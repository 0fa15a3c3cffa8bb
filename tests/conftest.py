"""What every test gets: an environment without the settings of whoever runs it."""

from __future__ import annotations

import os

import pytest

from collector.dcgm_flags import FLAGS


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
