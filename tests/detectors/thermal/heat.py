"""GPUs that warm up and cool down: temperature follows power with the
time constant of the metal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import exp

from pipeline.finding import Finding
from pipeline.frame import Device
from pipeline.interfaces import Detector
from tests.detectors.feed import Feed, Number

TAU_S, KELVIN_PER_WATT, INLET_C = 45.0, 0.055, 27.0
Each = Callable[[Device], float]


class Metal:
    """A feed whose temperatures come from power: ``inlet + preheat + resistance x power``,
    approached with ``tau_s``.

    ``watts`` and ``warmer`` (kelvin on the inlet) give each GPU's; ``worse`` is a factor on its
    resistance. ``limit_c`` is where it slows down.
    """

    def __init__(
        self,
        detector: Detector,
        gpus: Sequence[Device] | int,
        *,
        period_s: float,
        limit_c: float | None = None,
    ) -> None:
        self.feed = Feed(detector, gpus=gpus, period_s=period_s)
        self.celsius = dict.fromkeys(self.feed.gpus, INLET_C)
        self.worse = dict.fromkeys(self.feed.gpus, 1.0)
        self.watts: Each = lambda _: 500.0
        self.warmer: Each = lambda _: 0.0
        self.limit_c, self.tau_s = limit_c, TAU_S
        self.damage: dict[
            str, float
        ] = {}  # what one GPU, another one each time, shows in place of a value

    @property
    def gpus(self) -> Sequence[Device]:
        """Everybody."""
        return self.feed.gpus

    @property
    def seconds(self) -> float:
        """The time on the feed's clock."""
        return self.feed.clock.monotonic_ns() / 1e9

    def run(self, seconds: float) -> list[Finding]:
        """So long, at what ``watts`` and ``warmer`` say."""
        findings: list[Finding] = []
        for _ in range(round(seconds / self.feed.period_s)):
            findings += self.step()
        return findings

    def step(self) -> list[Finding]:
        """One period."""
        keep = exp(-self.feed.period_s / self.tau_s)
        watts = [self.watts(gpu) for gpu in self.gpus]
        for number, (gpu, w) in enumerate(zip(self.gpus, watts, strict=True)):
            settles = (
                INLET_C
                + self.warmer(gpu)
                + number % 8 * 0.7
                + self.worse[gpu] * KELVIN_PER_WATT * w
            )
            self.celsius[gpu] = settles + keep * (self.celsius[gpu] - settles)
        shown: dict[str, list[Number]] = {
            "temperature_celsius": [float(round(self.celsius[gpu])) for gpu in self.gpus],
            "power_milliwatts": [w * 1000 for w in watts],
        }
        if self.limit_c is not None:
            shown["temperature_margin_celsius"] = [
                self.limit_c - float(round(self.celsius[gpu])) for gpu in self.gpus
            ]
        for name, value in self.damage.items():
            shown[name][round(self.seconds / self.feed.period_s) % len(self.gpus)] = value
        return self.feed.run(
            self.feed.period_s, **shown, energy_millijoules=[w * 1000 for w in watts]
        )
