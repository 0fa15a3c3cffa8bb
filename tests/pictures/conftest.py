"""Grafana's components come from npm, which is no part of `make test`:
`make pictures` brings them.
"""

from __future__ import annotations

import pytest

from tests.pictures.page import MODULES


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests marked ``grafana`` say why they are skipped where they cannot run."""
    if not (MODULES / "@grafana" / "ui").is_dir():
        for item in items:
            if item.get_closest_marker("grafana"):
                item.add_marker(
                    pytest.mark.skip(
                        reason="Grafana's npm packages are missing: make pictures brings them"
                    )
                )
