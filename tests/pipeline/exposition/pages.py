"""Pages in tests: observations in, samples out, read by prometheus_client's own parsers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from prometheus_client import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from pipeline.catalog import Profile
from pipeline.exposition import OPENMETRICS, TEXT, Exposition, Format
from pipeline.frame import Device, Frame, frame_of
from pipeline.selfmetrics import SelfMetrics
from tests.fakes import FakeClock, observed

Readings = Iterable[tuple[Device, Mapping[str, float | int | None]]]


def frame(clock: FakeClock, kind: str, readings: Readings) -> Frame:
    """A frame of these native values, now."""
    return frame_of(kind, list(readings), clock.time_ns(), clock.monotonic_ns())


def shown(clock: FakeClock, *frames: Frame, profile: Profile = "full") -> Exposition:
    """An exposition that has seen these frames from one source with a period of 1 s."""
    exposition = Exposition(SelfMetrics(), clock=clock, profile=profile, periods={"nvml": 1.0})
    exposition.write(observed(clock, *frames), ())
    return exposition


def families(exposition: Exposition, form: Format = TEXT) -> dict[str, Metric]:
    """The page's families by name, as a Prometheus parser sees them.

    The parser raises on a page that is not valid.
    """
    text = exposition.render(form).decode()
    return {
        f.name: f
        for f in (parse_openmetrics(text) if form is OPENMETRICS else parse_text(text))  # type: ignore[no-untyped-call]
    }


def samples(
    exposition: Exposition, name: str, **labels: str
) -> dict[tuple[tuple[str, str], ...], float]:
    """Values of the samples of one name that have these labels, by all their labels, sorted."""
    found = {}
    for family in families(exposition).values():
        for sample in family.samples:
            if sample.name == name and labels.items() <= sample.labels.items():
                found[tuple(sorted(sample.labels.items()))] = sample.value
    return found


def lines(exposition: Exposition, name: str, form: Format = TEXT) -> list[str]:
    """The page's sample lines of one name, as they stand."""
    page = exposition.render(form).decode().splitlines()
    return [line for line in page if line.startswith((f"{name}{{", f"{name} "))]
