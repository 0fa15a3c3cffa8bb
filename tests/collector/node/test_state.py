"""Documents that survive a restart, whatever they hold."""

from __future__ import annotations

from pathlib import Path

from collector.node.state import State


def test_a_text_that_is_not_utf_8_is_saved_without_its_odd_characters(tmp_path: Path) -> None:
    """It costs no other entry of its document."""
    assert State(tmp_path).save("d", {"rows": [{"reason": "a\udcffb"}, {"reason": "good"}]})
    assert State(tmp_path).load("d") == {"rows": [{"reason": "a?b"}, {"reason": "good"}]}


def test_a_document_that_cannot_be_written_is_refused_like_a_full_disk(tmp_path: Path) -> None:
    """Without an exception, and the one before stays."""
    state = State(tmp_path)
    assert state.save("d", {"n": 1})
    assert not state.save("d", {"n": 1 << 70})
    assert state.load("d") == {"n": 1}
