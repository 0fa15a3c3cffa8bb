"""The store of this machine, as the agent and the gateway open it."""

from __future__ import annotations

from pipeline.store.files.layout import FileName, may_hold, owner_of


def test_files_of_two_gateways_have_names_of_their_own_and_are_still_the_gateways() -> None:
    """In one bucket the compacted day of one must not replace that of the other."""
    names = [str(FileName(f"c1.{writer}", "gateway", "b", 1)) for writer in ("g1.eu", "g2.eu")]
    assert len({owner_of(name) for name in names}) == 2
    assert all(may_hold(name, ["gateway"]) and not may_hold(name, ["n1"]) for name in names)
