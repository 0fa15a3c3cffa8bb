"""The Inspector's Prometheus file: whole files only, known families only."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.sources.nccl.inspector.prometheus import Sample, parse_samples
from collector.sources.nccl.sanitize import FormatError

FILE = (
    b"# HELP nccl_bus_bandwidth_gbs NCCL bus bandwidth in GB/s\n"
    b"# TYPE nccl_bus_bandwidth_gbs gauge\n"
    b'nccl_bus_bandwidth_gbs{collective="AllReduce",comm="0xc7075c59e2491f69",hostname="n1"} '
    b"187.5\n"
    b'nccl_collective_exec_time_microseconds{collective="AllReduce",comm="0xc7075c59e2491f69",'
    b'hostname="n1"} 912.25\n'
)


def test_samples_are_read_with_their_labels() -> None:
    """Bandwidth and time of a collective."""
    labels = (("collective", "AllReduce"), ("comm", "0xc7075c59e2491f69"), ("hostname", "n1"))
    assert parse_samples(FILE) == (
        Sample("nccl_bus_bandwidth_gbs", labels, 187.5),
        Sample("nccl_collective_exec_time_microseconds", labels, 912.25),
    )


def test_a_file_that_is_being_written_is_refused() -> None:
    """The plugin rewrites it in place: without a last end of line it is half."""
    with pytest.raises(FormatError, match="being written"):
        parse_samples(FILE[:-3])


@pytest.mark.parametrize(
    "junk",
    [b"\n", b'other_family{a="b"} 1\n', b"nccl_bus_bandwidth_gbs{} NaN\n", b"x" * 10_000 + b"\n"],
)
def test_a_file_of_something_else_is_refused(junk: bytes) -> None:
    """Other families, values that are no numbers, lines without end."""
    with pytest.raises(FormatError, match="families"):
        parse_samples(junk)


@given(st.binary(max_size=40), st.integers(0, 300), st.integers(0, 30))
def test_no_bytes_raise_anything_but_its_own_error(junk: bytes, at: int, cut: int) -> None:
    """Junk anywhere in a file gives samples or FormatError."""
    with contextlib.suppress(FormatError):
        parse_samples(FILE[:at] + junk + FILE[at + cut :])
