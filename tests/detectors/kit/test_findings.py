"""What stands about a device keeps its identity until it has ended."""

from __future__ import annotations

from detectors.elapsed import Moment
from detectors.standing import Standing, Verdict
from pipeline.finding import Severity
from pipeline.frame import Device

GPU = Device("n1", "gpu", "GPU-1")
S = 10**9


def verdict(severity: Severity) -> Verdict:
    """A fault of this severity."""
    return Verdict("ecc", severity, "NONE", "Bits flip.", ("one",))


def test_a_finding_that_gets_worse_after_the_wall_clock_was_set_back_is_the_same() -> None:
    """Its id is made of its onset, which now lies in the future: metrics, store and incident know it by that."""
    standing = Standing("ecc")
    (first,) = standing.holds(GPU, verdict("ticket"), Moment(1000 * S, 10 * S))
    (worse,) = standing.holds(GPU, verdict("page"), Moment(400 * S, 20 * S))
    (ended,) = standing.ends(GPU, "ecc", Moment(500 * S, 30 * S))
    assert [finding.phase for finding in (first, worse, ended)] == ["onset", "ongoing", "cleared"]
    assert first.id == worse.id == ended.id
    assert (worse.severity, worse.time_ns) == ("page", 400 * S)
