"""What the detectors of ports share: counters with a 64-bit counterpart, the other end
of a link, display names.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from detectors.kit.columns import Columns
from detectors.kit.roll import Roll
from pipeline.frame import Device, Frame, schema_of
from pipeline.rates import OK, RESET, SATURATED
from pipeline.small_arrays import any_true

ACTIVE = (4, 5)  # PortState active and active_defer, IBTA volume 1, 14.2.5.6
ABSENT = 16
# a twin that is not shown for this many frames has gone; the classic counter is looked at again
TRUST_FRAMES = 300
# this many ports of one switch together are the switch: UFM isolates no more at once either
SWITCH_PORTS = 8
MIN_TRAFFIC = 0.01  # of the link's rate: below it there is no collective
WORD_BITS = 32  # PortXmitData counts 4-byte words


class Twins:
    """Increments of counters of 4 to 32 bits that stick at their end, and of their 64-bit
    twins where a port has them.

    A port that shows the twin is judged by it alone: both count the same events, the twin a minute
    later. Needs the columns of ``fills``.
    """

    def __init__(self, columns: Columns, *names: str) -> None:
        self._columns, self.names = columns, names
        rows = schema_of("ib_port").counter_row
        twins = [
            (k, rows[f"{name}_extended"])
            for k, name in enumerate(names)
            if f"{name}_extended" in rows
        ]
        self._rows = np.array([rows[name] for name in names], np.intp)
        self._with, self._twins = np.array(twins, np.intp).reshape(-1, 2).T

    @staticmethod
    def fills(*names: str) -> dict[str, int]:
        """The columns it needs."""
        return {f"twin_{name}": 0 for name in names}

    def increases(self, frame: Frame, *, at_least: bool = False) -> NDArray[np.float64]:
        """Increments of the placed frame, (name, row), NaN = none that may be made a rate
        of, or only a lower bound: ``at_least`` takes those too.
        """
        columns, names = self._columns, self.names
        classic = columns.wide(usable(frame, self._rows, at_least=at_least))
        shown = frame.observed[self._twins]
        known = [columns[f"twin_{names[k]}"] for k in self._with.tolist()]
        if not any_true(shown) and not any(any_true(trust) for trust in known):
            return classic
        shown = columns.wide(shown.astype(np.float64)) > 0
        trusts = np.where(shown, TRUST_FRAMES, np.maximum(np.stack(known) - 1, 0))
        for k, trust in zip(self._with.tolist(), trusts, strict=True):
            columns[f"twin_{names[k]}"] = trust
        made = classic.copy()
        twins = columns.wide(usable(frame, self._twins))
        made[self._with] = np.where(trusts > 0, twins, classic[self._with])
        return made

    def increase(self, frame: Frame) -> NDArray[np.float64]:
        """As ``increases``, (row,), of the only name."""
        (only,) = self.increases(frame)
        found: NDArray[np.float64] = only
        return found


def usable(
    frame: Frame, counters: NDArray[np.intp], *, at_least: bool = False
) -> NDArray[np.float64]:
    """Increments of counters of the schema, (counter, device), NaN where they cannot be made a rate
    of: first sample, gap, saturated (unless ``at_least``), unread. ValueError before the engine has
    made them.
    """
    deltas, quality = _increments(frame, counters)
    known = (quality == OK) | (quality == RESET) | (at_least & (quality == SATURATED))
    return np.where(known, deltas, np.nan)


def saturated(frame: Frame, counters: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Where counters of the schema are at their maximum, (counter, device). ValueError before the
    engine has made the increments.
    """
    at_end: NDArray[np.bool_] = _increments(frame, counters)[1] == SATURATED
    return at_end


def _increments(
    frame: Frame, counters: NDArray[np.intp]
) -> tuple[NDArray[np.float64], NDArray[np.uint8]]:
    if frame.increments is None:
        raise ValueError("increments are made by the engine; this frame has not passed it")
    rows = frame.increments.row[counters]
    return frame.increments.deltas[rows], frame.increments.qualities[rows]


def is_active(state: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Whether a port carries traffic by its state; False where that is not read."""
    active: NDArray[np.bool_] = np.logical_or.reduce([state == one for one in ACTIVE])
    return active


def behind(port: Device) -> tuple[str, str]:
    """What a port fails with: its leaf switch, or, where the topology names none, its rail, else
    the ports of the same name of all nodes. Kind and name; empty where nothing is known.

    >>> behind(Device("n1", "ib_port", "a", {"leaf": "l3", "rail": "3", "device": "mlx5_3"}))
    ('switch', 'l3')
    >>> behind(Device("n1", "ib_port", "a", {"device": "mlx5_3", "port": "1"}))
    ('rail', 'mlx5_3/1')
    """
    facts = port.attributes
    if facts.get("leaf"):
        return "switch", facts["leaf"]
    name = "/".join(facts[key] for key in ("device", "port") if facts.get(key))
    return "rail", facts.get("rail") or name


def kind_of(port: Device) -> str:
    """What ports that do the same work have in common: model, board and link layer, and whether
    they are on a rail.

    The ports of storage are of the same model as those of the fabric on many a node.
    """
    facts = port.attributes
    known = [facts.get(name, "") for name in ("hca_type", "board_id", "link_layer")]
    return f"{'/'.join(known)}/{'rail' in facts}"


class Links:
    """Which rows are the two ends of one link, by the ``peer`` attribute (the port GUID of the
    other end), where the frames hold both.

    ``other`` is the row of the other end, -1 where it is not seen; ``reports`` marks the end that
    reports the link: the node's, not the switch's, which ``of_switch`` marks. ``leaf`` numbers the
    leaf switches or rails (``behind``), which ``leaves`` are, -1 where they are not known;
    ``on_rail`` marks those rows whose switch is not known.
    """

    def __init__(self) -> None:
        self._devices: tuple[Device, ...] | None = None
        self._joined = False
        self.other = np.zeros(0, np.int64)
        self.reports, self.of_switch = np.zeros(0, np.bool_), np.zeros(0, np.bool_)
        self.leaf = np.zeros(0, np.int64)
        self.leaves: tuple[Device, ...] = ()
        self.on_rail = np.zeros(0, np.bool_)

    def join(self, _roll: Roll) -> None:
        """Of several nodes: a link is seen at both ends where both are the node's own."""
        self._joined = True

    def look(self, devices: tuple[Device, ...]) -> None:
        """Take over the devices of all rows."""
        if devices is self._devices:
            return
        self._devices = devices
        whose = [device.host if self._joined else "" for device in devices]
        rows = {
            (host, device.id): row
            for row, (host, device) in enumerate(zip(whose, devices, strict=True))
        }
        self.other = np.array(
            [
                rows.get((host, device.attributes.get("peer", "")), -1)
                for host, device in zip(whose, devices, strict=True)
            ],
            np.int64,
        )
        switch = self.of_switch = np.array(
            [device.host == device.attributes.get("leaf") for device in devices], np.bool_
        )
        first = np.arange(len(devices)) < self.other
        seen = self.other >= 0
        self.reports = ~seen | (~switch & (np.where(seen, switch[self.other], False) | first))
        known: dict[tuple[str, str, str], int] = {}
        places = [behind(device) for device in devices]
        self.leaf = np.array(
            [
                known.setdefault((host, *place), len(known)) if place[1] else -1
                for host, place in zip(whose, places, strict=True)
            ],
            np.int64,
        )
        self.on_rail = np.array([kind == "rail" for kind, _ in places], np.bool_)
        # A switch is a host of its own, a rail is of no host.
        self.leaves = tuple(
            Device(name if kind == "switch" else "", kind, name) for _, kind, name in known
        )

    def across(self, values: NDArray[np.bool_], unseen: bool) -> NDArray[np.bool_]:
        """What holds at the other end of each row's link, ``unseen`` where that is not seen."""
        return np.where(self.other >= 0, values[self.other], unseen)

    def of_leaf(self, rows: NDArray[np.bool_]) -> NDArray[np.int64]:
        """How many of these rows hang on the leaf switch or rail of each row, (row,); 0 where that
        is not known.
        """
        counts = np.bincount(self.leaf[rows & (self.leaf >= 0)], minlength=max(1, len(self.leaves)))
        return np.where(self.leaf >= 0, counts[self.leaf], 0)


def port_name(port: Device) -> str:
    """A port's display name.

    >>> port_name(Device("n1", "ib_port", "0xa0", {"device": "mlx5_0", "port": "1"}))
    'mlx5_0/1 of n1'
    """
    name, number = port.attributes.get("device"), port.attributes.get("port")
    if name == port.host and number:  # a switch is its own device
        return f"port {number} of {port.host}"
    return f"{name}/{number} of {port.host}" if name and number else f"{port.id} of {port.host}"


def gigabits(rate: float) -> str:
    """A data rate in bit/s for display.

    >>> gigabits(4e11)
    '400 Gb/s'
    """
    return f"{rate / 1e9:g} Gb/s"
