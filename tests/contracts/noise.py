"""A stream of observations in which anything may happen: what detectors must survive,
whatever they say about it.

Seeded. Gauges jump between missing, small, large and negative values, infinity and the marks that
DCGM has for "no value"; counters rise, rest, vanish, wrap, begin again and show such marks; devices
come and go; events of every kind carry what the catalogue allows. Increments are made as in the
agent.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pipeline.catalog import EVENTS, KINDS
from pipeline.frame import Device, Frame, schema_of
from pipeline.observation import Event, Observation, Value
from pipeline.rates import Rates
from tests.fakes import START_NS

HOSTS, PER_HOST, PERIOD_S = 3, 4, 30
SOURCES = {
    "gpu": "nvml",
    "gpu_instance": "nvml",
    "nvlink": "nvml",
    "ib_port": "infiniband",
    "node": "host",
}
_GAUGES = np.array(
    [np.nan, np.nan, 0, 0, 0, 1, 1, 2, 5, 16, 50, 99, 100, 1980, 65535, 7e5, 4e11, -1]
)
# DCGM_INT32_BLANK, DCGM_INT64_BLANK and DCGM_FP64_BLANK, each with its "not found", "not supported"
# and "not permissioned" (dcgm_fields.h).
_BLANKS = tuple(
    blank + why for blank in (0x7FFFFFF0, 0x7FFFFFFFFFFFFFF0, 0x800000000000) for why in range(4)
)
_HOSTILE = np.array([np.inf, -np.inf, 2**64 - 1, *_BLANKS])
_STEPS = np.array([0, 0, 0, 1, 3, 50, 10**6, 10**9, 3 * 10**10], np.uint64)
_WORDS = (
    "",
    "fatal",
    "nonfatal",
    "corrected",
    "uncorrected",
    "health",
    "NETIR_LINK_EVT",
    "RLW_REMAP",
    "0x0 0x2000 0x4",
    "kmsg",
    "\N{SNOWMAN}",
)
_FLAGS = ("before_start", "previous_boot", "inferred")
_NUMBERS = (0, 1, 2, 4, 13, 31, 45, 48, 62, 63, 64, 74, 79, 92, 94, 95, 119, 145, 149, 154, 9999)
_XIDS = (13, 31, 43, 45, 48, 63, 64, 74, 79, 92, 94, 95, 119, 145, 149, 154, 171, 9999)
# Numbers that would mean nothing if they were words; everything else in the
# catalogue of events is text.
_NUMERIC = frozenset(
    {"code", "sub_code", "link", "gpc", "tpc", "sm", "pid", "count", (
        "recovery_from"
    ), "recovery_to", "caused_by", "gpu_instance",
     "compute_instance", "hosts", "seconds", "records", "errors", "cpu", "bank", "switch"}
)  # fmt: skip


class Noise:
    """A small fleet gone mad."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        self._devices = {
            kind: [self._device(kind, n) for n in range(HOSTS * PER_HOST)] for kind in KINDS
        }
        self._values = {
            kind: np.zeros((len(schema_of(kind).counters), HOSTS * PER_HOST), np.uint64)
            for kind in KINDS
        }
        self._rates = {kind: Rates(schema_of(kind), PERIOD_S) for kind in KINDS}
        self._shown = {kind: slice(None) for kind in KINDS}
        self._boot, self._mono, self._wall, self._seq = 1, 10**12, START_NS, 0
        self._line = 0

    def observations(self, ticks: int) -> Iterator[Observation]:
        """Each tick one observation per source."""
        for tick in range(ticks):
            self._advance()
            for source in dict.fromkeys(SOURCES.values()):
                yield self._observation(
                    source,
                    tuple(self._frame(kind) for kind, s in SOURCES.items() if s == source),
                    (),
                )
            yield self._observation(
                "kmsg", (), tuple(self._event(tick) for _ in range(self._rng.integers(0, 6)))
            )

    def _device(self, kind: str, n: int) -> Device:
        host, slot = f"n{n // PER_HOST}", n % PER_HOST
        gpu = f"GPU-{host}-{slot}"
        facts = {
            "index": str(slot), "pci_bus_id": (
                f"00000000:{16 + slot:02X}:00.0"
            ), "name": "H100", "epoch": "1#0", "rack": "r1",
            "leaf": "leaf-1", (
                "driver_version"
            ): "1.0", (
                "fabric_cluster"
            ): "domain", "gpu_uuid": gpu, "link": str(slot), "device": f"mlx5_{slot}", "port": "1",
            "link_layer": ("InfiniBand", "Ethernet")[slot % 2], "peer": (
                f"0x{(n + 1) % (HOSTS * PER_HOST):x}"
            ), "rail": str(slot),
        }  # fmt: skip
        names = {
            "gpu": gpu,
            "nvlink": f"{gpu}/{slot}",
            "ib_port": f"0x{n:x}",
            "node": host,
            "gpu_instance": f"MIG-{host}-{slot}",
        }
        return Device(host, kind, names.get(kind, f"{kind}-{n}"), facts)

    def _advance(self) -> None:
        rng = self._rng
        self._wall += round((PERIOD_S + (rng.random() < 0.02) * rng.integers(-300, 7200)) * 1e9)
        self._mono += round(PERIOD_S * 1e9) if rng.random() > 0.02 else 0
        if rng.random() < 0.01:
            self._boot, self._mono = self._boot + 1, 10**9
        if rng.random() < 0.03:
            kind = str(rng.choice(list(KINDS)))
            devices = self._devices[kind]
            n = int(rng.integers(len(devices)))
            facts = dict(devices[n].attributes) | {"epoch": f"1#{rng.integers(3)}"}
            identity = devices[n].id + ("'" if rng.random() < 0.3 else "")
            self._devices[kind] = [
                *devices[:n],
                Device(devices[n].host, kind, identity, facts),
                *devices[n + 1 :],
            ]

    def _frame(self, kind: str) -> Frame:
        rng, schema = self._rng, schema_of(kind)
        counters, n = self._values[kind], HOSTS * PER_HOST
        counters += rng.choice(_STEPS, counters.shape)
        begin_anew = rng.random(counters.shape) < 0.005
        counters[begin_anew] = rng.integers(0, 100, int(begin_anew.sum()), np.uint64)
        tops = np.array([2**f.width - 1 for f in schema.counters], np.uint64)[:, None]
        gauges = rng.choice(_GAUGES, (len(schema.gauges), n))
        gauges = np.where(
            rng.random(gauges.shape) < 0.02, rng.choice(_HOSTILE, gauges.shape), gauges
        )
        shown = np.where(
            rng.random(counters.shape) < 0.002,
            rng.choice(np.array(_BLANKS, np.uint64), counters.shape),
            counters,
        )
        rows = rng.permutation(n)[: n if rng.random() > 0.05 else int(rng.integers(1, n))]
        frame = Frame(
            schema,
            self._wall,
            self._mono,
            tuple(self._devices[kind][row] for row in rows.tolist()),
            gauges[:, rows],
            np.minimum(shown, tops)[:, rows],
            (rng.random(counters.shape) > 0.1)[:, rows],
            np.zeros(len(rows), np.int64),
        )
        return self._rates[kind].add(frame, f"boot-{self._boot}")

    def _event(self, tick: int) -> Event:
        rng = self._rng
        kind = "xid" if rng.random() < 0.25 else str(rng.choice(list(EVENTS)))
        subject = str(rng.choice(["gpu", "ib_port", "node"]))
        device = self._devices["gpu" if kind == "xid" else subject][
            int(rng.integers(HOSTS * PER_HOST))
        ]
        facts = {
            name: self._value(name, tick)
            for name, _ in EVENTS[kind].attributes
            if rng.random() < 0.6
        }
        if kind == "xid":
            self._line += 1
            facts |= {
                "code": int(rng.choice(_XIDS)),
                "origin": "kmsg",
                "stream": f"boot-{self._boot}",
                "seq": self._line,
            }
            for name in ("last_seq", "last_time_ns", "count"):
                facts.pop(name, None)
        return Event(self._wall - int(rng.integers(0, 900)) * 10**9, 0, device, kind, facts)

    def _value(self, name: str, tick: int) -> Value:
        rng = self._rng
        if name in _NUMERIC:
            return int(rng.choice(_NUMBERS))
        if name in _FLAGS:
            return True
        if name == "gpus":
            return " ".join(d.id for d in self._devices["gpu"][: int(rng.integers(9))])
        if name in ("seq", "last_seq", "last_time_ns"):
            return self._wall
        return f"job-{tick // 50 % 3}" if name == "job" else str(rng.choice(_WORDS))

    def _observation(
        self, source: str, frames: tuple[Frame, ...], events: tuple[Event, ...]
    ) -> Observation:
        self._seq += 1
        return Observation(
            source, "n0", f"boot-{self._boot}", self._seq, self._wall, self._mono, 0, frames, events
        )
