"""NVLinks that are down, or whose error counters keep rising."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from detectors.block_clock import BlockClock, BlockMeans
from detectors.columns import Columns, rows_where
from detectors.elapsed import Elapsed, Moment
from detectors.maintenance import Maintenance
from detectors.memory import Part, Remembering
from detectors.places import Groups
from detectors.standing import Standing, Verdict
from detectors.stats import grouped_median
from pipeline.finding import Finding
from pipeline.frame import Device, Frame
from pipeline.observation import Observation

BLOCK_S = 60.0
DOWN_READS = 3  # links train anew after a driver reload or a GPU reset: that many readings ...
DOWN_NS = 30 * 10**9  # ... and that long
LEAST_PEERS = 4
# More than 15 of 30 windows of a minute with a replay or recovery: the NVLink check of NVIDIA's resiliency extension (NVRx).
BUSY_WINDOWS, WINDOWS = 15, 30
CRC_PER_S = 100.0  # DCGM_LIMIT_MAX_NVLINK_CRC_ERROR of DCGM's health check, which quotes the driver's makers
BER = 1e-12  # effective bit-error rate, as DCGM's health check fails a link; clean links show 1.5e-254
RECENT = 0b111
CLEAR_BLOCKS = 5
DOWN, REPLAYS, CRC, ERRORS = "nvlink/link_down", "nvlink/replays", "nvlink/crc", "nvlink/bit_errors"
_RETRIES = ("replay_errors", "recovery_errors", "data_link_replay_errors", "data_link_recovery_errors", "any_recoveries")
_CRC = ("crc_flit_errors", "crc_data_errors", "data_link_crc_errors")


class NvLink(Remembering):
    """Judges links one by one where the frames hold them, else all links of a GPU together.

    >>> NvLink().name
    'nvlink'
    """

    name = "nvlink"

    def __init__(self) -> None:
        self._elapsed, self._standing, self._maintenance = Elapsed(), Standing(self.name), Maintenance()
        self._links = _Links("", self._standing, self._maintenance)
        self._gpus = _Links("nvlink_", self._standing, self._maintenance)
        super().__init__(
            elapsed=self._elapsed,
            standing=self._standing,
            maintenance=self._maintenance,
            **{f"links_{name}": part for name, part in self._links.parts.items()},
            **{f"gpus_{name}": part for name, part in self._gpus.parts.items()},
        )

    def update(self, observation: Observation) -> Iterable[Finding]:
        """Judge the block that ended, then take in the frame."""
        self._maintenance.take(observation.events)
        said: list[Finding] = []
        at = self._elapsed.at(observation)
        for frame in observation.frames:
            if frame.kind == "nvlink":
                said += self._links.frame(frame, observation.boot_id, at, skip=frozenset())
            elif frame.kind == "gpu":
                # A GPU whose links are judged one by one is left alone.
                said += self._gpus.frame(frame, observation.boot_id, at, skip=self._links.gpus())
        return said


class _Links:
    """The links of one kind of frame; ``prefix`` is what its fields have before the names of a link's own."""

    def __init__(self, prefix: str, standing: Standing, maintenance: Maintenance) -> None:
        self._prefix, self._standing, self._maintenance = prefix, standing, maintenance
        self.columns = Columns(
            **BlockMeans.fills("crc", "ber"),
            up=0.0,  # the most links that were up
            now=np.nan,
            down=0,  # readings in a row with fewer
            down_ns=0,  # since when
            retried=False,  # in the running minute
            seen=False,
            retries=0,  # histories, the newest minute is bit 0
            crc=0,
            ber=0,
            good=0,
        )
        self._means = BlockMeans(self.columns, ("crc", "ber"))
        self._clock, self._peers = BlockClock(BLOCK_S), Groups(_peers)
        self.parts: dict[str, Part] = {"columns": self.columns, "clock": self._clock, "means": self._means}
        self._of: tuple[tuple[Device, ...], frozenset[str]] = ((), frozenset())

    def gpus(self) -> frozenset[str]:
        """The GPUs that these links belong to."""
        if self._of[0] is not self.columns.devices:
            self._of = (self.columns.devices, frozenset(d.attributes.get("gpu_uuid", "") for d in self.columns.devices))
        return self._of[1]

    def frame(self, frame: Frame, boot_id: str, at: Moment, skip: frozenset[str]) -> Iterator[Finding]:
        """Judge what ended, then take in the frame."""
        ended = self._clock.turn(frame.mono_ns, boot_id)
        if ended is None or not frame.devices:
            return
        if ended:
            yield from self._block(at, skip)
        self.columns.place(frame.devices)
        yield from self._state(frame, at, skip)
        self._count(frame)

    def _state(self, frame: Frame, at: Moment, skip: frozenset[str]) -> Iterator[Finding]:
        columns = self.columns
        up = columns.wide(frame.gauge("nvlinks_up" if self._prefix else "state"))
        seen = np.isfinite(up)
        columns["now"] = np.where(seen, up, columns["now"])
        number = self._peers.of(columns.devices)
        median, count = grouped_median(up, number, len(self._peers.names))
        usual = np.where(count[number] > LEAST_PEERS, median[number], 0.0) if self._prefix else np.zeros(len(columns))
        columns["up"] = np.fmax(columns["up"], np.where(seen, up, 0.0))
        fewer = up < np.maximum(columns["up"], usual)
        columns["down_ns"] = np.where(fewer & (columns["down"] == 0), at.now_ns, columns["down_ns"])
        columns["down"] = np.where(seen, np.where(fewer, columns["down"] + 1, 0), columns["down"])
        lasting = (columns["down"] >= DOWN_READS) & (at.now_ns - columns["down_ns"] >= DOWN_NS) & seen
        for row in rows_where(lasting):
            device = columns.devices[row]
            if device.id not in skip and not self._maintenance.covers(device):
                most = int(max(columns["up"][row], usual[row]))
                yield from self._standing.holds(device, _down(device, int(up[row]), most), at)
        yield from self._standing.end_rows(columns, seen & ~fewer, at, DOWN)

    def _count(self, frame: Frame) -> None:
        columns = self.columns
        if frame.increments is None:
            raise ValueError("increments are made by the engine; this frame has not passed it")
        retried, rate = np.zeros(len(frame.devices)), np.full(len(frame.devices), np.nan)
        for name in _RETRIES:
            retried += np.fmax(frame.increase(self._prefix + name), 0.0)  # NaN adds nothing
        for name in _CRC:
            rate = np.fmax(rate, frame.increments.rate(frame.schema.counter_row[self._prefix + name]))
        columns["retried"] |= columns.wide(retried) > 0
        columns["seen"] |= np.isfinite(columns["now"]) & columns.present()
        self._means.add(crc=columns.wide(rate), ber=columns.wide(frame.gauge(self._prefix + "effective_bit_error_ratio")))

    def _block(self, at: Moment, skip: frozenset[str]) -> Iterator[Finding]:
        columns, means = self.columns, self._means.close()
        bad = {"retries": columns["retried"], "crc": means["crc"] >= CRC_PER_S, "ber": means["ber"] > BER}
        seen = columns["seen"]
        for name, hit in bad.items():
            columns[name] = np.where(seen, (columns[name] << 1 | hit) & ((1 << WINDOWS) - 1), columns[name])
        busy = np.bitwise_count(columns["retries"])
        crc, ber = (np.bitwise_count(columns[name] & RECENT) >= 2 for name in ("crc", "ber"))
        quiet = ~(bad["retries"] | bad["crc"] | bad["ber"])
        columns["good"] = np.where(seen, np.where(quiet, columns["good"] + 1, 0), columns["good"])
        for row in rows_where((busy > BUSY_WINDOWS) | (crc & bad["crc"]) | (ber & bad["ber"])):
            device = columns.devices[row]
            if device.id in skip:
                continue
            if busy[row] > BUSY_WINDOWS:
                yield from self._standing.holds(device, _replays(device, int(busy[row])), at)
            if crc[row] and bad["crc"][row]:
                yield from self._standing.holds(device, _crc(device, float(means["crc"][row])), at)
            if ber[row] and bad["ber"][row]:
                yield from self._standing.holds(device, _ber(device, float(means["ber"][row])), at)
        yield from self._standing.end_rows(columns, columns["good"] >= CLEAR_BLOCKS, at, REPLAYS, CRC, ERRORS)
        columns.reset(np.ones(len(columns), np.bool_), "retried", "seen")


def _peers(device: Device) -> str:
    """GPUs of one node and model have the same links."""
    return f"{device.host}/{device.attributes.get('name', '')}"


def _named(device: Device) -> str:
    link, gpu = device.attributes.get("link"), device.attributes.get("index", device.id)
    return f"NVLink {link} of GPU {gpu} of {device.host}" if link else f"An NVLink of GPU {gpu} of {device.host}"


def _down(device: Device, up: int, usual: int) -> Verdict:
    return Verdict(
        DOWN,
        "page",
        "COMPONENT_RESET",
        f"{_named(device)} is down: collectives over it are slow or hang. Reset the GPU; if it stays, check the board.",
        (f"{up} of {usual} links up for {DOWN_NS // 10**9} s and more; all were up before, or are on its peers",),
    )


def _replays(device: Device, minutes: int) -> Verdict:
    return Verdict(
        REPLAYS,
        "ticket",
        "RUN_DCGMEUD",
        f"{_named(device)} sent data again in {minutes} of the last {WINDOWS} minutes.",
        (f"replays or recoveries in {minutes} of {WINDOWS} minutes, more than {BUSY_WINDOWS} are too many",),
        float(minutes),
        float(BUSY_WINDOWS),
        "minutes",
    )


def _crc(device: Device, rate: float) -> Verdict:
    return Verdict(
        CRC,
        "ticket",
        "RUN_DCGMEUD",
        f"{_named(device)} received {rate:.0f} damaged packets a second.",
        (f"{rate:.0f} CRC errors a second in two of three minutes; the driver counts {CRC_PER_S:.0f} as many",),
        rate,
        CRC_PER_S,
        "errors per second",
    )


def _ber(device: Device, ber: float) -> Verdict:
    return Verdict(
        ERRORS,
        "ticket",
        "RUN_DCGMEUD",
        f"{_named(device)} makes bit errors that its error correction does not catch.",
        (f"effective bit-error rate {ber:.1e} in two of three minutes, {BER:.0e} is the limit",),
        ber,
        BER,
        "errors per bit",
    )
