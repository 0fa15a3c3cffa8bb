"""A history is judged in pieces of any nodes, with the same alerts."""

from __future__ import annotations

from pathlib import Path

import pytest

from collector.config.settings import Config
from collector.replaying.stored import Span
from history.backtest.judged import together
from history.backtest.pieces import Asked, history_of
from history.importing import bring, find
from tests.history.recorded import Recorded
from tests.history.site import BEGIN_MS, HOUR_MS, gpu_labels, node, scrapes

pytestmark = pytest.mark.slow

SPAN = (BEGIN_MS, BEGIN_MS + HOUR_MS)


def test_a_node_by_itself_is_judged_as_among_others(tmp_path: Path) -> None:
    """Each of three loses a GPU of its own after 20 minutes."""
    site, times = Recorded(), scrapes(*SPAN, 30_000)
    for lost, host in enumerate(("n1", "n2", "n3")):
        node(site, host, times, gpus=4)
        gone = gpu_labels(host, lost)["UUID"]
        site.series = [
            (labels, samples[:40] if labels.get("UUID") == gone else samples)
            for labels, samples in site.series
        ]
    bring(site, find(site, *SPAN, None), tmp_path, SPAN)

    def alerts(*pieces: tuple[str, ...]) -> list[str]:
        names = ("availability", "frozen", "xid")
        found = [history_of(Asked(Config(), tmp_path, Span(), names, one)) for one in pieces]
        return [repr(alert) for alert in together(found).alerts]

    whole = alerts(())
    assert len(whole) == 3
    assert alerts(("n1",), ("n2",), ("n3",)) == whole
    assert alerts(("n1", "n3"), ("n2",)) == whole
