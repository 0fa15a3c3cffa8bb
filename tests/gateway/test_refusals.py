"""Which hosts' messages are refused is in the log."""

from __future__ import annotations

import pytest

from gateway.refusals import MAX_NAMED, REPEAT_NS, Refusals


def test_each_host_whose_messages_are_refused_is_named_once_in_a_while(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """With the reason, whatever others send, and after ten minutes again."""
    refusals = Refusals()
    for n in range(3):
        for host in ("n1", "n2"):
            refusals.log(host, f"reason {n}", n)
    refusals.log("n1", "another", REPEAT_NS)
    assert caplog.messages == [
        "a message of 'n1' is refused: reason 0",
        "a message of 'n2' is refused: reason 0",
        "a message of 'n1' is refused: another",
    ]


def test_made_up_names_of_hosts_fill_neither_log_nor_memory(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A thousand lines in ten minutes."""
    refusals = Refusals()
    for n in range(3 * MAX_NAMED):
        refusals.log(f"n{n}", "checksum", n)
    assert len(caplog.messages) == MAX_NAMED
