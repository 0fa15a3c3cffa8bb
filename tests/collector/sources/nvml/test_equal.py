"""The C stub under the real pynvml, and the simulated client, over one table: the
same frames, bit for bit.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from collector.node.inventory import Inventory
from collector.node.state import State
from collector.sources.nvml.source import NvmlSource
from pipeline.frame import Frame
from pipeline.observation import Reading
from pipeline.selfmetrics import SelfMetrics
from simulator.rendering import render_once
from tests.collector.sources.nvml.node import PATIENT
from tests.fakes import FakeClock
from tests.stub.library import environment

pytestmark = pytest.mark.slow

PROFILES = ("hgx-h100", "hgx-h100-mig", "hgx-a100", "hgx-b200", "gb200")


def second_reading(library: str, env: dict[str, str] | None) -> Reading:
    """The second reading of a source: GPM included."""
    source = NvmlSource(
        library,
        "n1",
        FakeClock(),
        Inventory("n1", State(None)),
        SelfMetrics(),
        deadlines=PATIENT,
        links_every=1,
        env=env,
    )
    source.read()
    reading = source.read()
    source.close()
    return reading


def assert_equal(one: Frame, other: Frame) -> None:
    """Same devices with the same attributes, same values; same time where the driver gives one."""
    assert one.kind == other.kind
    assert [(d.id, dict(d.attributes)) for d in one.devices] == [
        (d.id, dict(d.attributes)) for d in other.devices
    ]
    np.testing.assert_array_equal(one.gauges, other.gauges)
    np.testing.assert_array_equal(one.observed, other.observed)
    np.testing.assert_array_equal(one.counters[one.observed], other.counters[other.observed])
    if one.kind != "gpu_instance":  # read by getters alone, which bear no time
        np.testing.assert_array_equal(one.sampled_ns, other.sampled_ns)


@pytest.mark.parametrize("profile", PROFILES)
def test_stub_and_client_give_equal_frames(stub: Path, tmp_path: Path, profile: str) -> None:
    """Whatever the simulated node says is read alike through the C
    library and through the client.
    """
    render_once(tmp_path, profile, seconds=5)
    through_c = second_reading("", environment(stub, tmp_path / "nvml.state"))
    through_client = second_reading(f"simulator.nvml_client:open_client:{tmp_path}", None)
    assert [f.kind for f in through_c.frames] == [f.kind for f in through_client.frames]
    for one, other in zip(through_c.frames, through_client.frames, strict=True):
        assert_equal(one, other)
    assert through_c.unread == through_client.unread == ()
