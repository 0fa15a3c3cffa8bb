"""What the gateway keeps of a host that names its sources as it likes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from collector.agent.judge import periods_of
from collector.agent.sources import SOURCES
from collector.config.settings import Config
from gateway.fleet import Fleet
from gateway.source_names import MAX_OTHERS, SourceNames
from pipeline.arrival_cut import ArrivalCut
from pipeline.bus.batch import Batch, encode
from pipeline.catalog import fleet as series
from pipeline.clock import SECOND_NS
from pipeline.frame import frame_of
from pipeline.judge import Judge
from pipeline.judged import JudgedObservation
from pipeline.observation import Event
from pipeline.seconds import FORGOTTEN_NS
from pipeline.selfmetrics import SelfMetrics
from tests.detectors.hot import Hot
from tests.fakes import FakeClock, gpu, observed


class Site:
    """A fleet whose hosts send one batch each second, with a GPU reading under each name."""

    def __init__(self) -> None:
        self.clock, self.metrics = FakeClock(), SelfMetrics()
        self.judge = Judge([Hot()], self.metrics, self.clock, periods_s={})
        self.fleet = self.made()
        self.number = 0
        self.cut: list[Event] = []  # of arrivals

    def made(self) -> Fleet:
        """One that knows nothing yet."""
        return Fleet(self.judge, self.metrics, SECOND_NS, known=["nvml"])

    def send(self, host: str, sources: Iterable[str]) -> None:
        """And what closes is judged; the first second of a host waits for the next multiple."""
        for _ in range(2):
            self._send(host, sources)
            self.clock.advance(20)
            for judged in self.fleet.judged(self.clock.time_ns()):
                self.cut += judged.events

    def _send(self, host: str, sources: Iterable[str]) -> None:
        at = self.clock.time_ns(), self.clock.monotonic_ns()
        device = replace(gpu(), host=host)
        frame = frame_of("gpu", [(device, {"energy_millijoules": self.number})], *at)
        reading, seq = observed(self.clock, frame), self.number * 1000
        judged = tuple(
            JudgedObservation(replace(reading, host=host, source=source, seq=seq + n))
            for n, source in enumerate(sources)
        )
        batch = Batch(host, "a", self.number, seq - 1, self.clock.time_ns(), judged)
        self.number += 1
        assert not self.fleet.take(host, encode(batch), self.clock.time_ns())

    def sources(self) -> set[str]:
        """Of which the judge keeps anything."""
        return {key[0] for key in self.judge._rates}

    def rows(self) -> set[str]:
        """For which the fleet has rows."""
        return {key[0] for key in self.fleet._roster._rows}


STRANGE = [f"s{n}" for n in range(500)]


@pytest.fixture
def site() -> Site:
    """Without hosts."""
    return Site()


def test_names_beyond_a_few_are_refused_counted_and_logged_once(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    """The host's own readings are judged, and so are those of all others."""
    site.send("n1", [*STRANGE, "nvml"])
    site.send("n2", ["nvml"])
    assert site.sources() == site.rows() == {"nvml", *STRANGE[:MAX_OTHERS]}
    assert len(site.judge._health) == MAX_OTHERS + 1
    assert site.metrics.value(series.OTHER_SOURCES) == 2 * (len(STRANGE) - MAX_OTHERS)
    assert caplog.text.count("which is not judged") == 1


@pytest.mark.parametrize("name", ["", "a/b", "\0", "x" * 65, "x" * 60_000, "\u00e9", "a b"])
def test_a_name_that_no_source_has_is_not_judged(site: Site, name: str) -> None:
    """It would be part of a name in a snapshot, which could not be read again."""
    site.send("n1", [name, "nvml"])
    assert site.sources() == site.rows() == {"nvml"}


def test_names_of_a_host_that_is_gone_make_room_for_others(site: Site) -> None:
    """Nothing of them stays."""
    site.send("n1", STRANGE)
    site.clock.advance(FORGOTTEN_NS / SECOND_NS)
    site.send("n2", ["nvml", "later"])
    assert site.sources() == site.rows() == {"nvml", "later"}
    assert {source for _, source in site.judge._health} == {"nvml", "later"}


def test_names_that_were_taken_are_known_after_a_restart(site: Site) -> None:
    """No other ones are taken then."""
    site.send("n1", STRANGE)
    state, site.fleet = site.fleet.state(), site.made()
    site.fleet.restore(state)
    site.send("n1", reversed(STRANGE))
    assert site.rows() == {*STRANGE[:MAX_OTHERS]}


def test_what_is_refused_is_not_in_the_arrival_cut(site: Site) -> None:
    """A replay leaves it out too: no run of observations goes on over it."""
    site.fleet._names._hosts |= {f"other{n}": {"n2"} for n in range(MAX_OTHERS)}
    site.send("n1", ["nvml", "strange", "nvml"])
    cut = ArrivalCut(site.cut)
    seen = [observed(site.clock, seq=1000 + n) for n in range(3)]
    assert [cut.arrived(each) is not None for each in seen] == [True, False, True]


def test_all_sources_of_an_agent_are_known() -> None:
    """Also when other names have taken all room."""
    names = SourceNames(periods_of(Config()))
    for name in STRANGE:
        names.admit("n1", name)
    assert all(names.admit("n2", name) for name in (*SOURCES, "topology", "operator", "engine"))
