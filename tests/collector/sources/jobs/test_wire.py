"""Protocol buffers: what the published .proto describes is read, and nothing
else is taken for a message.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.sources.jobs.kubelet.pods import (
    Claim,
    ClaimedDevice,
    Container,
    Devices,
    Pod,
    allocatable,
    listed,
)
from collector.sources.jobs.kubelet.wire import WireError, fields
from tests.collector.sources.jobs.kubelet import GOLDEN, listing, message, pod


def test_the_published_messages_are_read_whole() -> None:
    """Pod, container, devices and claim are where the published .proto puts them."""
    given_devices = ClaimedDevice("gpu.nvidia.com", "node1", "gpu-0")
    main = Container(
        "main", (Devices("nvidia.com/gpu", ("GPU-0",)),), (Claim("claim", "ml", (given_devices,)),)
    )
    assert listed(GOLDEN) == (Pod("train-0", "ml", (main,)),)


def test_fields_of_a_later_version_are_passed_over() -> None:
    """Unknown fields of every wire type change nothing."""
    later = message((90, 7), (91, "new")) + b"\xe1\x05" + bytes(8) + b"\xed\x05" + bytes(4)
    assert listed(message((1, pod("a", ["GPU-0"]) + later)) + later) == listed(
        listing(pod("a", ["GPU-0"]))
    )


def test_an_empty_answer_is_no_pods() -> None:
    """A node without pods answers nothing at all."""
    assert listed(b"") == ()
    assert allocatable(b"") == ()


@pytest.mark.parametrize("cut", range(1, len(GOLDEN)))
def test_an_answer_that_is_cut_is_no_answer(cut: int) -> None:
    """Wherever it is cut, half an answer is never taken for a whole one."""
    with pytest.raises(WireError):
        listed(GOLDEN[:cut])


@given(st.binary(max_size=200))
def test_garbage_is_refused_or_read_but_never_more(data: bytes) -> None:
    """Any bytes give fields or WireError, and no value is longer than what was given."""
    try:
        found = list(fields(data))
    except WireError:
        return
    assert sum(len(value) for _, value in found if isinstance(value, bytes)) <= len(data)
