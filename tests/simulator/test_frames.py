"""A node rendered as frames is what the real sources read of the same node rendered raw."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from collector.node.inventory import Inventory
from collector.node.state import State
from collector.sources.infiniband import InfinibandSource
from collector.sources.nvml.source import NvmlSource
from collector.sources.nvml.target import EVERY_S
from pipeline.catalog import Field
from pipeline.frame import Frame
from pipeline.observation import Reading
from pipeline.selfmetrics import SelfMetrics
from simulator.frames import FrameRenderer
from simulator.rendering import Rendering
from tests.fakes import FakeClock
from tests.simulator.nodes import node

HOST = "n1"
# Epochs come from the process and the files that were read; other facts are words that
# do not matter to frames.
SAME_FACTS = (
    "index",
    "uuid",
    "name",
    "pci_bus_id",
    "serial",
    "driver_version",
    "device",
    "port",
    "firmware",
    "link",
    "gpu_uuid",
)


@pytest.fixture
def sources(tmp_path: Path) -> Iterator[tuple[Rendering, FakeClock, NvmlSource, InfinibandSource]]:
    """The real sources over a node rendered raw."""
    clock, metrics = FakeClock(), SelfMetrics()
    rendering, inventory = (
        Rendering(tmp_path, "hgx-h100", seed=3, clock=clock),
        Inventory(HOST, State(None)),
    )
    nvml = NvmlSource(
        f"simulator.nvml_client:open_client:{tmp_path}",
        HOST,
        clock,
        inventory,
        metrics,
        links_every=1,
        proc=tmp_path / "proc",
    )
    infiniband = InfinibandSource(tmp_path / "sys", HOST, clock, inventory, metrics, perfquery="")
    yield rendering, clock, nvml, infiniband
    nvml.close()
    infiniband.close()
    rendering.close()


@pytest.mark.slow
def test_both_renderings_give_the_same_frames(
    sources: tuple[Rendering, FakeClock, NvmlSource, InfinibandSource],
) -> None:
    """Same devices, rows, values and masks, at rest and at work; what the driver child
    asks seldom is left aside.
    """
    rendering, clock, nvml, infiniband = sources
    twin = node(seed=3)
    frames = FrameRenderer(twin, HOST)
    frames.nvml(0, 0)  # the raw rendering draws its first readings when it begins
    for step in (1, 60, 400, 1, 1):
        clock.advance(step)
        twin.advance(step)
        rendering.step(step)
        now = (clock.time_ns(), clock.monotonic_ns())
        raw = _frames(nvml.read(), infiniband.read())
        rendered = _frames(frames.nvml(*now), frames.infiniband(*now))
        assert (
            [f.kind for f in rendered]
            == [f.kind for f in raw]
            == ["gpu", "nvlink", "node", "ib_port", "node"]
        )
        for expected, made in zip(raw, rendered, strict=True):
            _assert_same(expected, made, first=step == 1 and clock.monotonic_ns() < 110 * 10**9)
    assert twin.demand.phase == "train"


@pytest.mark.parametrize("profile", ["gb200", "hgx-h100-mig"])
def test_nodes_it_cannot_render_are_refused(profile: str) -> None:
    """MIG and NVLink 5 have a raw rendering only, and the message says so."""
    with pytest.raises(ValueError, match="rendered raw only"):
        FrameRenderer(node(profile), HOST)


def _frames(*readings: Reading) -> list[Frame]:
    return [frame for reading in readings for frame in reading.frames]


def _assert_same(expected: Frame, made: Frame, *, first: bool) -> None:
    assert made.devices == expected.devices
    for a, b in zip(expected.devices, made.devices, strict=True):
        assert {k: v for k, v in b.attributes.items() if k in SAME_FACTS} == {
            k: a.attributes.get(k) for k in SAME_FACTS if k in b.attributes
        }
    # The driver child believes a stamp that is near its own clock, which is not the fake one:
    # whether there is one must agree.
    assert (made.sampled_ns > 0).tolist() == (expected.sampled_ns > 0).tolist()
    assert (made.time_ns, made.mono_ns) == (expected.time_ns, expected.mono_ns)
    gauges = [
        row
        for row, field in enumerate(made.schema.gauges)
        if not _seldom(field) and not (first and "gpm" in field.read)
    ]
    counters = [row for row, field in enumerate(made.schema.counters) if not _seldom(field)]
    np.testing.assert_array_equal(made.gauges[gauges], expected.gauges[gauges])
    np.testing.assert_array_equal(made.observed[counters], expected.observed[counters])
    np.testing.assert_array_equal(
        (made.counters * made.observed)[counters], (expected.counters * expected.observed)[counters]
    )


def _seldom(field: Field) -> bool:
    """Whether the driver child holds the answer for some seconds."""
    return any(function in field.read for function in EVERY_S)
