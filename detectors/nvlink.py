"""NVLinks that are down, or whose error counters keep rising."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from detectors.kit.block_clock import BlockClock, BlockMeans
from detectors.kit.columns import Columns, rows_where
from detectors.kit.elapsed import Elapsed
from detectors.kit.findings import FindingTracker, Verdict
from detectors.kit.groups import Groups
from detectors.kit.instants import Times, of_devices
from detectors.kit.maintenance import Maintenance
from detectors.kit.page import Needs, Page, Shown, gpu_columns
from detectors.kit.resets import ResetTracker
from detectors.kit.stateful import Component, Stateful
from detectors.kit.stats import grouped_median
from pipeline.finding import Finding
from pipeline.frame import Device, Frame
from pipeline.observation import Observation
from pipeline.small_arrays import any_true

BLOCK_S = 60.0
DOWN_READS = 3  # links train again after a driver reload or a GPU reset: that many readings ...
DOWN_NS = 30 * 10**9  # ... and that long
# after a boot or driver load: Fabric Manager starts late, and brings up one link after the other
SETTLE_NS = 300 * 10**9
MIN_PEERS = 4
# More than 15 of 30 windows of a minute with a replay or recovery: the NVLink check of NVIDIA's
# resiliency extension (NVRx).
BUSY_WINDOWS, WINDOWS = 15, 30
# DCGM_LIMIT_MAX_NVLINK_CRC_ERROR of DCGM's health check, which quotes the driver's makers
CRC_PER_S = 100.0
# effective bit-error rate, as DCGM's health check fails a link; clean links show 1.5e-254
BER = 1e-12
RECENT = 0b111
CLEAR_BLOCKS = 5
DOWN, NONE_UP, REPLAYS, CRC, ERRORS = (
    "nvlink/link_down",
    "nvlink/none_up",
    "nvlink/replays",
    "nvlink/crc",
    "nvlink/bit_errors",
)
_RETRIES = (
    "replay_errors",
    "recovery_errors",
    "data_link_replay_errors",
    "data_link_recovery_errors",
    "any_recoveries",
)
_CRC = ("crc_flit_errors", "crc_data_errors", "data_link_crc_errors")


PAGE = Page(
    formula=(
        "a link down for 3 readings and 30 s; none of a node up 5 minutes after a boot or driver "
        "load; replays or recoveries in more than 15 of 30 minutes; CRC errors > 100/s; BER > 1e-12"
    ),
    sources=(
        "NVIDIA DCGM, dcgm_structs.h: DCGM_LIMIT_MAX_NVLINK_CRC_ERROR",
        "NVIDIA Resiliency Extension, NVLink health check",
    ),
    shows=(
        *gpu_columns("nvlinks_down", "nvlink_replay_errors", "nvlink_crc_flit_errors"),
        Shown("nvlink", "state"),
    ),
    needs=Needs(
        15.0,
        (
            (
                "gpu.nvlinks_down",
                "nvlink.state",
                "gpu.nvlink_crc_flit_errors",
                "gpu.nvlink_replay_errors",
            ),
        ),
    ),
    next_step=(
        "Reset the GPUs of the node together; if a link stays down, replace the baseboard or GPU."
    ),
    clears=(
        "A link that was down: at the first reading with all expected links up. None up: with the "
        "first that is. The others: after five minutes in a row without a replay, and with CRC and "
        "bit errors within their limits."
    ),
    scored_as=("nvlink",),
)


class NvLink(Stateful):
    """Judges links one by one where the frames hold them, else all links of a GPU together.

    A link that was up and is down is a page. A GPU that never had as many as its peers may be built
    so: a ticket. Links of a GPU that is split (MIG) are off as they should be. Where none of the
    node came up after a boot or driver load, it is one ticket of the node.

    >>> NvLink().name
    'nvlink'
    """

    name = "nvlink"
    version = 3

    def __init__(self) -> None:
        self._elapsed, self._standing, self._maintenance = (
            Elapsed(),
            FindingTracker(self.name),
            Maintenance(),
        )
        self._links = _Links("", self._standing, self._maintenance)
        self._gpus = _Links("nvlink_", self._standing, self._maintenance)

    def components(self) -> Mapping[str, Component]:
        """With those of single links and of GPUs."""
        nested = {
            f"{kind}_{name}": component
            for kind, links in (("links", self._links), ("gpus", self._gpus))
            for name, component in links.components.items()
        }
        return {**super().components(), **nested}

    def update(self, observation: Observation) -> Iterable[Finding]:
        """Judge the block that ended, then take in the frame."""
        self._maintenance.take(observation.events)
        findings: list[Finding] = []
        at = self._elapsed.times(observation)
        for frame in observation.frames:
            findings += self._standing.swapped(frame, at)
            if frame.kind == "nvlink":
                mode, settles = (
                    _by_gpu(frame, self._gpus.split()),
                    _by_gpu(frame, self._gpus.settling(at)),
                )
                findings += self._links.frame(
                    frame, observation.boot_id, at, mode, settles, skip=frozenset()
                )
            elif frame.kind == "gpu":
                mode, settles = frame.gauge("mig_mode_current"), np.zeros(len(frame.devices))
                # A GPU whose links are judged one by one is left alone.
                findings += self._gpus.frame(
                    frame, observation.boot_id, at, mode, settles, skip=self._links.gpus()
                )
        return findings


class _Links:
    """The links of one kind of frame; ``prefix`` is what its fields have before
    the names of a link's own.
    """

    def __init__(self, prefix: str, tracker: FindingTracker, maintenance: Maintenance) -> None:
        self._prefix, self._standing, self._maintenance = prefix, tracker, maintenance
        self.columns = Columns(
            **BlockMeans.fills("crc", "ber"),
            up=0.0,  # the most links that were up
            now=np.nan,
            down=0,  # readings in a row with fewer
            down_ns=0,  # since when
            settles_ns=0,  # until when links come up after a new epoch began, 0 where they have
            off=False,  # none of the group came up in this epoch
            split=False,  # its GPU is in MIG mode
            retried=False,  # in the running minute
            seen=False,
            retries=0,  # histories, the newest minute is bit 0
            crc=0,
            ber=0,
            good=0,
        )
        self._means = BlockMeans(self.columns, ("crc", "ber"))
        self._clock, self._peers, self._lives = BlockClock(BLOCK_S), Groups(_peers), ResetTracker()
        self.components: dict[str, Component] = {
            "columns": self.columns,
            "clock": self._clock,
            "means": self._means,
            "lives": self._lives,
        }
        self._of: tuple[tuple[Device, ...], frozenset[str]] = ((), frozenset())

    def gpus(self) -> frozenset[str]:
        """The GPUs that these links belong to."""
        if self._of[0] is not self.columns.devices:
            self._of = (
                self.columns.devices,
                frozenset(d.attributes.get("gpu_uuid", "") for d in self.columns.devices),
            )
        return self._of[1]

    def split(self) -> dict[str, float]:
        """The devices in MIG mode, 1 each."""
        return {self.columns.devices[row].id: 1.0 for row in rows_where(self.columns["split"])}

    def settling(self, at: Times) -> dict[str, float]:
        """The devices whose links may still come up: until when, ns."""
        until = self.columns["settles_ns"]
        return {
            self.columns.devices[row].id: float(until[row])
            for row in rows_where(until > self.columns.each(at.mono_ns))
        }

    def frame(
        self,
        frame: Frame,
        boot_id: str,
        at: Times,
        mode: NDArray[np.float64],
        settles: NDArray[np.float64],
        *,
        skip: frozenset[str],
    ) -> Iterator[Finding]:
        """Judge what ended, then take in the frame.

        ``mode`` is (device,): above 0 in MIG mode, NaN where that is not read. ``settles`` is
        (device,): until when, ns, links may come up because of their GPU's new epoch, 0 where it
        has none.
        """
        ended = self._clock.turned(frame, boot_id)
        if ended is None or not frame.devices:
            return
        for _, then in self._clock.each(ended, at):
            yield from self._block(then, skip)
        columns = self.columns
        columns.show(frame)
        settles = columns.wide(
            np.where(
                self._lives.new(frame, boot_id), of_devices(frame, at.mono_ns) + SETTLE_NS, settles
            )
        )
        mode = columns.wide(mode)
        columns["split"] = np.where(np.isfinite(mode), mode > 0, columns["split"])
        up = np.where(
            columns["split"],
            np.nan,
            columns.wide(frame.gauge("nvlinks_up" if self._prefix else "state")),
        )
        yield from self._state(up, settles, at, skip)
        self._count(frame)

    def _state(
        self,
        up: NDArray[np.float64],
        settles: NDArray[np.float64],
        at: Times,
        skip: frozenset[str],
    ) -> Iterator[Finding]:
        columns, seen = self.columns, np.isfinite(up)
        columns["now"] = np.where(seen, up, columns["now"])
        number = self._peers.of(columns.devices)
        median, count = grouped_median(up, number, len(self._peers.names))
        some = np.bincount(number[up > 0], minlength=len(self._peers.names))[number] > 0
        settling = self._settling(settles, seen, some, at)
        yield from self._none_up(up, at, skip)
        usual = (
            np.where(count[number] > MIN_PEERS, median[number], 0.0)
            if self._prefix
            else np.zeros(len(columns))
        )
        columns["up"] = np.fmax(columns["up"], np.where(seen, up, 0.0))
        fell = (up < columns["up"]) & ~columns["off"]
        fewer = fell | (up < usual)
        columns["down_ns"] = np.where(
            fewer & (columns["down"] == 0), columns.each(at.mono_ns), columns["down_ns"]
        )
        columns["down"] = np.where(
            seen, np.where(fewer & ~settling, columns["down"] + 1, 0), columns["down"]
        )
        lasting = (
            (columns["down"] >= DOWN_READS)
            & (columns.each(at.mono_ns) - columns["down_ns"] >= np.where(fell, DOWN_NS, SETTLE_NS))
            & seen
        )
        for row in rows_where(lasting):
            device = columns.devices[row]
            if device.id not in skip and not self._maintenance.covers(device):
                most = int(max(columns["up"][row], usual[row]))
                yield from self._standing.holds(
                    device, _down(device, int(up[row]), most, bool(fell[row])), at
                )
        yield from self._standing.end_rows(columns, seen & ~fewer, at, DOWN)

    def _settling(
        self,
        settles: NDArray[np.float64],
        seen: NDArray[np.bool_],
        some: NDArray[np.bool_],
        at: Times,
    ) -> NDArray[np.bool_]:
        """Rows whose links may still come up. ``some``: the row's group has a link that is up.

        Links that were up in an epoch before are expected again, unless none of the group
        came up: then once one does.
        """
        columns = self.columns
        until = np.fmax(columns["settles_ns"], settles)  # NaN is a device that is not in the frame
        now_ns = columns.each(at.mono_ns)
        until = np.where(columns["off"] & some, now_ns + SETTLE_NS, until)
        over = seen & (until > 0) & (now_ns >= until)
        off = (columns["off"] | (over & (columns["up"] > 0))) & ~some
        for row in rows_where(off & ~columns["off"]):
            # a boot cures no link that was down before it
            off[row] = self._standing.get(columns.devices[row], DOWN) is None
        columns["off"], columns["settles_ns"] = off, np.where(over, 0, until)
        settling: NDArray[np.bool_] = columns["settles_ns"] > 0
        return settling

    def _none_up(
        self, up: NDArray[np.float64], at: Times, skip: frozenset[str]
    ) -> Iterator[Finding]:
        devices, off = self.columns.devices, self.columns["off"]
        for host in sorted(
            {devices[row].host for row in rows_where(off) if devices[row].id not in skip}
        ):
            node = Device(host, "node", host)
            if not self._maintenance.covers(node):
                yield from self._standing.holds(node, _no_link(host), at)
        for finding in self._standing.all():
            if finding.fault == NONE_UP:
                here = np.array(
                    [device.host == finding.device.host for device in devices], np.bool_
                )
                if any_true(here & (up > 0)) and not any_true(here & off):
                    yield from self._standing.ends(finding.device, NONE_UP, at)

    def _count(self, frame: Frame) -> None:
        columns = self.columns
        if frame.increments is None:
            raise ValueError("increments are made by the engine; this frame has not passed it")
        retried, rate = np.zeros(len(frame.devices)), np.full(len(frame.devices), np.nan)
        for name in _RETRIES:
            retried += np.fmax(frame.increase(self._prefix + name), 0.0)  # NaN adds nothing
        for name in _CRC:
            rate = np.fmax(
                rate, frame.increments.rate(frame.schema.counter_row[self._prefix + name])
            )
        columns["retried"] |= columns.wide(retried) > 0
        columns["seen"] |= np.isfinite(columns["now"]) & columns.present()
        self._means.add(
            crc=columns.wide(rate),
            ber=columns.wide(frame.gauge(self._prefix + "effective_bit_error_ratio")),
        )

    def _block(self, at: Times, skip: frozenset[str]) -> Iterator[Finding]:
        columns, means = self.columns, self._means.close()
        bad = {
            "retries": columns["retried"],
            "crc": means["crc"] >= CRC_PER_S,
            "ber": means["ber"] > BER,
        }
        seen = columns["seen"]
        for name, hit in bad.items():
            columns[name] = np.where(
                seen, (columns[name] << 1 | hit) & ((1 << WINDOWS) - 1), columns[name]
            )
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
        yield from self._standing.end_rows(
            columns, columns["good"] >= CLEAR_BLOCKS, at, REPLAYS, CRC, ERRORS
        )
        columns.reset(np.ones(len(columns), np.bool_), "retried", "seen")


def _peers(device: Device) -> str:
    """GPUs of one node and model have the same links."""
    return f"{device.host}/{device.attributes.get('name', '')}"


def _by_gpu(links: Frame, of: Mapping[str, float]) -> NDArray[np.float64]:
    """What is known of the GPU of each link, by its UUID, else 0, (device,)."""
    if not of:
        return np.zeros(len(links.devices))
    return np.array([of.get(link.attributes.get("gpu_uuid", ""), 0.0) for link in links.devices])


def _named(device: Device) -> str:
    link, gpu = device.attributes.get("link"), device.attributes.get("index", device.id)
    return (
        f"NVLink {link} of GPU {gpu} of {device.host}"
        if link
        else f"An NVLink of GPU {gpu} of {device.host}"
    )


def _down(device: Device, up: int, usual: int, fell: bool) -> Verdict:
    if not fell:
        summary = (
            f"{_named(device)} is down, as it was when first seen, or the GPU is built without it: "
            "its peers have more."
        )
        evidence = f"{up} links up, {usual} on its peers; it never had more itself"
        return Verdict(DOWN, "ticket", "RUN_DCGMEUD", summary, (evidence,))
    return Verdict(
        DOWN,
        "page",
        "COMPONENT_RESET",
        (
            f"{_named(device)} is down: collectives over it are slow or hang. Reset the GPU; if it "
            "stays, check the board."
        ),
        (f"{up} of {usual} links up for {DOWN_NS // 10**9} s and more; all were up before",),
    )


def _no_link(host: str) -> Verdict:
    return Verdict(
        NONE_UP,
        "ticket",
        "NONE",
        (
            f"No NVLink of {host} came up after a boot or driver load: start Fabric Manager, "
            "unless the driver is configured to disable them."
        ),
        (f"no link up {SETTLE_NS // (60 * 10**9)} min after it began; there were some before",),
    )


def _replays(device: Device, minutes: int) -> Verdict:
    return Verdict(
        REPLAYS,
        "ticket",
        "RUN_DCGMEUD",
        f"{_named(device)} retransmitted data in {minutes} of the last {WINDOWS} minutes.",
        (
            (
                f"replays or recoveries in {minutes} of {WINDOWS} minutes, more than "
                f"{BUSY_WINDOWS} are too many"
            ),
        ),
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
        (
            (
                f"{rate:.0f} CRC errors a second in two of three minutes; the driver counts "
                f"{CRC_PER_S:.0f} as many"
            ),
        ),
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
