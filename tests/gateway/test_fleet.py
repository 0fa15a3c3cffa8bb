"""What the gateway counts of its hosts."""

from __future__ import annotations

from collections.abc import Sequence

from gateway.fleet import ACKNOWLEDGED, Fleet
from pipeline.bus.batch import Batch, encode
from pipeline.catalog import fleet as series
from pipeline.clock import SECOND_NS
from pipeline.judge import Judge
from pipeline.judged import JudgedObservation
from pipeline.selfmetrics import SelfMetrics
from tests.fakes import FakeClock, observed

NOW_NS = 1_800_000_000 * SECOND_NS


def counted(metrics: SelfMetrics, states: Sequence[str]) -> list[float | None]:
    """Hosts in each of these states."""
    return [metrics.value(series.HOSTS, state) for state in states]


def test_a_host_that_sends_nothing_for_a_minute_is_counted_as_silent() -> None:
    """It stays known; a host that goes on is not silent, and one that comes back no longer is."""
    clock, metrics = FakeClock(), SelfMetrics()
    fleet = Fleet(Judge((), metrics, clock, periods_s={}), metrics, 5 * SECOND_NS)

    def send(host: str, number: int, at_ns: int) -> None:
        judged = (JudgedObservation(observed(clock, seq=number)),)
        raw = encode(Batch(host, "a", number, number - 1, at_ns, judged))
        assert not fleet.take(host, raw, at_ns)

    def after(seconds: int) -> list[float | None]:
        list(fleet.judged(NOW_NS + seconds * SECOND_NS))
        return counted(metrics, ("known", "silent"))

    send("n1", 0, NOW_NS)
    send("n2", 0, NOW_NS)
    assert after(60) == [2, 0]
    send("n1", 1, NOW_NS + 61 * SECOND_NS)
    assert after(61) == [2, 1]
    send("n2", 1, NOW_NS + 62 * SECOND_NS)
    assert after(62) == [2, 0]


def test_an_acknowledgement_is_not_laid_at_a_hosts_door() -> None:
    """The server sends it to the reply subject of a message: any host may have named another's."""
    clock, metrics = FakeClock(), SelfMetrics()
    fleet = Fleet(Judge((), metrics, clock, periods_s={}), metrics, 5 * SECOND_NS)
    assert fleet.take("n1", b'{"stream":"tocsin", "seq":7}', NOW_NS) == ACKNOWLEDGED
    assert fleet.take("n1", b"junk", NOW_NS) not in ("", ACKNOWLEDGED)
    assert metrics.value(series.REFUSED) == 2
