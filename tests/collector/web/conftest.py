"""What the tests of the page in a browser share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.browser import Browser


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A headless Chromium for all tests of a file."""
    with Browser(tmp_path_factory.mktemp("chromium")) as running:
        yield running
