"""The fixture that holds a test to its row of the table of faults."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.gateway.faults.table import ROWS, Row
from tests.gateway.faults.watch import Watch


class Measured:
    """What a test found out about a row; both have to be asserted."""

    def __init__(self, row: Row) -> None:
        self.row, self.asserted = row, set[str]()
        self.silent_s = 0.0

    def lost(self, count: float) -> None:
        """So many are lost, of what the row names."""
        self.asserted.add("lost")
        assert count <= self.row.most, f"{count:g} lost: {self.row}"
        assert not self.row.exactly or count == self.row.most, f"{count:g} lost: {self.row}"

    def silent(self, watch: Watch, until_s: float = 0.0) -> None:
        """Silences that were watched; ``until_s`` is the instant until which the fault lasted."""
        self.silent_for(watch.longest_s(until_s))

    def silent_for(self, seconds: float) -> None:
        """No gateway reported for so long."""
        self.asserted.add("silent")
        self.silent_s = seconds
        assert seconds <= self.row.silent_s, f"{seconds:.1f} s without a report: {self.row}"


@pytest.fixture
def measured(request: pytest.FixtureRequest) -> Iterator[Measured]:
    """Of the test's own row. What it measured is in the output (``pytest -rP``)."""
    made = Measured(ROWS[request.node.originalname])
    yield made
    request.node.add_report_section("teardown", "measured", f"silent for {made.silent_s:.1f} s")
    assert made.asserted == {"lost", "silent"}, "not all of its row is asserted"
