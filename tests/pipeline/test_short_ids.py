"""Ids as users type them: complete, or any unambiguous prefix; errors list the candidates."""

from __future__ import annotations

import pytest

from pipeline.short_ids import UnknownIdError, resolve, short

KNOWN = {
    "8f14e45fceea167a": "xid/gpu, GPU-1",
    "8f14e45f00000000": "ecc, GPU-2",
    "a837a6e92fed3dca": "lemon, node1",
}


@pytest.mark.parametrize("text", ["a837a6e92fed3dca", "a837a6e9", "a8"])
def test_an_unambiguous_prefix_is_enough(text: str) -> None:
    """The complete id, its short form or less."""
    assert resolve(text, KNOWN, "incident") == "a837a6e92fed3dca"


def test_an_ambiguous_prefix_lists_its_candidates_so_that_they_differ() -> None:
    """Each with what it is about, and with as many characters as tell them apart."""
    with pytest.raises(UnknownIdError) as error:
        resolve("8f14", KNOWN, "incident")
    assert str(error.value) == (
        "several have an id that begins with '8f14': "
        "8f14e45fc (xid/gpu, GPU-1), 8f14e45f0 (ecc, GPU-2)"
    )


def test_an_id_that_is_the_prefix_of_another_is_still_itself() -> None:
    """A complete id is never ambiguous."""
    assert resolve("8f14", {"8f14": "one", "8f14e": "two"}, "incident") == "8f14"


def test_an_unknown_id_lists_the_newest() -> None:
    """Or that there is none."""
    with pytest.raises(UnknownIdError, match="no incident 'ff'; the newest: 8f14e45fc "):
        resolve("ff", KNOWN, "incident")
    with pytest.raises(UnknownIdError, match="there is no incident"):
        resolve("ff", {}, "incident")


def test_the_short_form_has_eight_characters() -> None:
    """As pages and terminals show it."""
    assert short("8f14e45fceea167a") == "8f14e45f"
