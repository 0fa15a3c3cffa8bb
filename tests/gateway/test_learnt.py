"""A gateway says to its judge by which model it judges."""

from __future__ import annotations

from pathlib import Path

import pytest

from collector.config.checks import check
from collector.config.settings import Config, Detectors
from detectors.incidents import Incidents
from detectors.trust.calibrated import Calibrated, changed
from detectors.trust.calibration import Calibration
from gateway.learnt import REPEAT_S, LearntModel
from pipeline.arrival_cut import ArrivalCut
from pipeline.catalog import fleet as series
from pipeline.judge import Judge
from pipeline.observation import Observation
from pipeline.selfmetrics import SelfMetrics
from tests.fakes import FakeClock

SECOND = 1_800_000_000
MODEL = Calibration(-5.0, {"far": 1.0}, 0.1, {"hang": (2, 20)})
BEFORE = (changed(MODEL, "gateway", 0),)


class Gateway:
    """Its judge, and what says by which model it judges."""

    def __init__(self, path: str) -> None:
        self.metrics, self.fusion = SelfMetrics(), Calibrated(Incidents())
        judge = Judge((), self.metrics, FakeClock(), periods_s={}, fusion=self.fusion)
        self.learnt = LearntModel(path, judge, self.metrics)

    def second(self, number: int) -> int:
        """How many events are said in a second of judging."""
        events = self.learnt.events(number)
        self.fusion.update(Observation("x", "", "", 0, number * 10**9, 0, 0, events=events), ())
        self.learnt.show()
        return len(events)


def written(folder: Path, model: Calibration) -> str:
    """A file of it."""
    path = folder / "calibration.json"
    path.write_text(model.text())
    return str(path)


def test_a_model_is_said_at_once_and_again_every_ten_minutes(tmp_path: Path) -> None:
    """A replay of a part of a day finds it; the series says which it is."""
    gateway = Gateway(written(tmp_path, MODEL))
    said = [gateway.second(SECOND + second) for second in range(2 * REPEAT_S)]
    assert sum(said) == 2 + (SECOND % REPEAT_S > 0)
    assert said[0] == 1
    assert gateway.fusion.model == MODEL
    assert gateway.metrics.value(series.CALIBRATION, MODEL.hash) == 1


def test_a_model_that_is_no_longer_configured_ends() -> None:
    """What the judge remembers of it from before its restart."""
    gateway = Gateway("")
    assert gateway.second(SECOND) == 0
    gateway.fusion.update(
        Observation("x", "", "", 0, 0, 0, 0, events=BEFORE),
        (),
    )
    assert gateway.second(SECOND + REPEAT_S) == 1
    assert gateway.fusion.model is None


@pytest.mark.parametrize("content", [b"", b"\x80\x04.", MODEL.text().replace("-5", "-6").encode()])
def test_a_damaged_file_is_named_and_what_was_judged_by_goes_on(
    content: bytes, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It was sound when the configuration was checked."""
    path = tmp_path / "calibration.json"
    path.write_bytes(content)
    gateway = Gateway(str(path))
    assert "detectors.calibration" in caplog.text
    assert str(path) in caplog.text
    gateway.fusion.update(Observation("x", "", "", 0, 0, 0, 0, events=BEFORE), ())
    gateway.second(SECOND)
    assert gateway.fusion.model == MODEL


def test_a_file_that_is_not_there_is_named(caplog: pytest.LogCaptureFixture) -> None:
    """No model, and the gateway judges as without."""
    assert Gateway("/nowhere/calibration.json").second(SECOND) == 0
    assert "/nowhere/calibration.json" in caplog.text


def test_the_arrival_cut_gives_each_event_once_by_its_time(tmp_path: Path) -> None:
    """To the second in which the gateway judged by it first."""
    events = Gateway(written(tmp_path, MODEL)).learnt.events(SECOND)
    cut = ArrivalCut(events)
    assert cut.learnt(SECOND * 10**9) == ()
    assert cut.learnt((SECOND + 1) * 10**9) == events
    assert cut.learnt((SECOND + 2) * 10**9) == ()


@pytest.mark.parametrize("content", [None, b"", b"\x80\x04.", b"{}"])
def test_a_wrong_model_is_refused_with_the_configuration(
    content: bytes | None, tmp_path: Path
) -> None:
    """By `check-config` and at the start, with the key and the file."""
    path = tmp_path / "calibration.json"
    if content is not None:
        path.write_bytes(content)
    problems = list(check(Config(detectors=Detectors(calibration=str(path)))))
    ((key, text),) = problems
    assert key == ("detectors", "calibration")
    assert str(path) in text
    path.write_text(MODEL.text(), encoding="utf-8")
    assert list(check(Config(detectors=Detectors(calibration=str(path))))) == []
