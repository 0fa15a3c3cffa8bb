"""The scrapes of an hour, and the boots that they are of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
import pytest

from history.gather import Account, Hour
from history.meaning.labels import LabelMap
from history.remembered import Host
from history.site.series import Series
from pipeline.exporters import NODE_EXPORTER
from tests.history.site import BEGIN_MS, scrapes

BOOT_S = BEGIN_MS / 1000 - 86_400
FAST, SLOW = 15_000, 60_000
TEN_MINUTES = 600_000


def boots(
    *exporters: Mapping[str, Sequence[tuple[int, float]]], known: dict[str, Host] | None = None
) -> dict[int, int]:
    """The boot (unix, s) of each scrape of node n1 (ms since the begin), of which each scrape job
    took these metrics.
    """
    hour = Hour(LabelMap(), {} if known is None else known, Account(), BEGIN_MS)
    port = {"device": "mlx5_0", "port": "1"}
    for number, metrics in enumerate(exporters):
        labels = {"instance": "n1:9100", "job": f"job{number}"}
        for name, samples in metrics.items():
            times = np.array([ms for ms, _ in samples], np.int64)
            series = Series(
                {"__name__": name, **labels, **(port if "infiniband" in name else {})},
                times,
                np.array([value for _, value in samples]),
            )
            hour.take(series)
    ((_, found),) = hour.hosts()
    (node,) = [one for one in found if one.source == NODE_EXPORTER]
    places = zip(node.times_ms.tolist(), node.boots_ms.tolist(), strict=True)
    return {ms - BEGIN_MS: boot // 1000 for ms, boot in places}


def sent(step_ms: int, offset_ms: int = 0) -> list[tuple[int, float]]:
    """A counter of a port."""
    return [(ms, 1.0) for ms in scrapes(BEGIN_MS, BEGIN_MS + TEN_MINUTES, step_ms, offset_ms)]


def booted(
    step_ms: int, offset_ms: int = 0, again_ms: int = TEN_MINUTES
) -> list[tuple[int, float]]:
    """The boot of a node that boots again then."""
    times = scrapes(BEGIN_MS, BEGIN_MS + TEN_MINUTES, step_ms, offset_ms)
    again_ms += BEGIN_MS
    return [(ms, BOOT_S if ms < again_ms else again_ms / 1000) for ms in times]


BYTES, BOOT = "node_infiniband_port_data_received_bytes_total", "node_boot_time_seconds"


@pytest.mark.parametrize("offset_ms", [0, 7_000], ids=["same-times", "own-times"])
@pytest.mark.parametrize("slow_ms", [30_000, SLOW, 300_000, TEN_MINUTES])
def test_the_boot_is_known_from_a_job_that_scrapes_less(slow_ms: int, offset_ms: int) -> None:
    """Also in the first hour of a host, of which nothing is remembered."""
    found = boots({BYTES: sent(FAST)}, {BOOT: booted(slow_ms, offset_ms)})
    assert set(found.values()) == {BOOT_S}
    assert len(found) == TEN_MINUTES // FAST


def test_a_reboot_is_seen_by_a_job_that_scrapes_less() -> None:
    """From its first scrape after the reboot on."""
    found = boots({BYTES: sent(FAST)}, {BOOT: booted(SLOW, again_ms=300_000)})
    assert {boot for ms, boot in found.items() if ms < 300_000} == {BOOT_S}
    assert {boot for ms, boot in found.items() if ms >= 300_000} == {BEGIN_MS / 1000 + 300}


def test_a_reboot_is_seen_where_the_slow_job_fills_a_gap_of_the_other() -> None:
    """The few scrapes in the gap are not all that is known of the boot."""
    there = [(ms, value) for ms, value in sent(FAST) if not 120_000 < ms - BEGIN_MS < 300_000]
    found = boots({BYTES: there}, {BOOT: booted(SLOW, again_ms=400_000)})
    assert found[240_000] == BOOT_S
    assert found[540_000] == BEGIN_MS / 1000 + 400


def test_two_servers_whose_clocks_differ_see_one_reboot() -> None:
    """What one recorded is not mixed with the other: the boot would go back."""
    one = {BYTES: sent(FAST), BOOT: booted(FAST, again_ms=300_000)}
    other = {BOOT: [(ms + 20_000, boot) for ms, boot in booted(FAST, again_ms=300_000)]}
    found = list(boots(one, other).values())
    assert sum(a != b for a, b in pairwise(found)) == 1


def test_without_a_boot_what_is_remembered_counts() -> None:
    """And 0, which is not known, where nothing is."""
    assert set(boots({BYTES: sent(FAST)}).values()) == {0}
    known = {"n1": Host(boot_ms=int(BOOT_S) * 1000)}
    assert set(boots({BYTES: sent(FAST)}, known=known).values()) == {BOOT_S}
