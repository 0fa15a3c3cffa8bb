"""The types of the catalogue's rows. No numpy here: the driver child imports this."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

FieldType = Literal["gauge", "counter"]
Overflow = Literal["resets", "wraps", "sticks"]
Profile = Literal["minimal", "default", "full"]

PROFILES: tuple[Profile, ...] = ("minimal", "default", "full")


@dataclass(frozen=True, slots=True)
class Metric:
    """One Prometheus family: its name, type and HELP.

    ``labels`` are those beyond the device's own and the constant ones.
    """

    name: str
    type: Literal["gauge", "counter", "info"]
    help: str
    labels: tuple[str, ...] = ()
    profile: Profile = "default"


@dataclass(frozen=True, slots=True)
class Dcgm:
    """How DCGM shows a field: id, both name generations and its unit.

    The value on the wire is ``native * times / per``; ``whole`` truncates it to an integer, as
    DCGM's int64 fields do. ``successor`` is the id of the field that takes this one's place in the
    4.9 generation with another unit; a field that only changed its name has ``new_name`` and no
    successor. ``only`` restricts a row to one generation. Source: dcgm_fields.h of DCGM 4.6 and the
    4.9 release notes of dcgm-exporter.
    """

    id: int
    name: str
    new_name: str = ""
    times: int = 1
    per: int = 1
    whole: bool = True
    successor: int = 0


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of device: which of its facts identify its series in ``tocsin_*``.

    ``labels`` maps label name to the attribute that fills it; ``@id`` is the hardware identity
    itself. ``fleeting`` are devices that come and go with the readings that name them: their facts
    are shown no longer than those are fresh, where hardware stays what it is.
    """

    name: str
    labels: tuple[tuple[str, str], ...]
    help: str
    fleeting: bool = False


@dataclass(frozen=True, slots=True)
class Field:
    """One measured quantity of one kind of device: one column of its table.

    ``name`` ends in the source's native unit; ``native * times / per`` is the family's base unit.
    Gauges are float64 with NaN = not observed; counters are uint64 beside a mask. ``width`` is a
    counter's size in bits; ``overflow`` says what happens at its end: it wraps, it sticks at the
    maximum, or it never gets there but resets (driver reload, GPU reset). ``lifetime`` counters
    survive resets (InfoROM). Native values are whole numbers unless ``fraction``: the store keeps
    them as integers. ``decimals`` are the places after the point to which the source rounds a
    fraction, 0 where it does not. ``states`` names the codes of a gauge that is one of a few
    states: it is shown as one series per state. ``read`` says where the value comes from, in the
    words of the source (see collector/sources). ``id`` is the column's identity in stored files:
    never changed, never used twice.
    """

    id: int
    name: str
    kind: str
    type: FieldType
    metric: Metric
    read: str
    labels: tuple[tuple[str, str], ...] = ()
    times: int = 1
    per: int = 1
    width: int = 64
    overflow: Overflow = "resets"
    lifetime: bool = False
    maximum_per_second: float = 0.0
    fraction: bool = False
    decimals: int = 0
    states: tuple[tuple[int, str], ...] = ()
    profile: Profile = "default"
    dcgm: tuple[Dcgm, ...] = ()

    def base(self, native: float) -> float:
        """Native value in base units; integers stay exact where no division is needed.

        >>> from pipeline.catalog import field
        >>> field("gpu", "energy_millijoules").base(1500)
        1.5
        """
        scaled = native * self.times
        return scaled if self.per == 1 else scaled / self.per


@dataclass(frozen=True, slots=True)
class Fact:
    """A slow fact of a device: an attribute, shown as a label of the kind's ``*_info``
    series where ``info`` is true.
    """

    name: str
    kind: str
    help: str
    read: str = ""
    info: bool = True
    dcgm: tuple[Dcgm, ...] = ()


@dataclass(frozen=True, slots=True)
class EventKind:
    """Something that can happen: its name, what it means, and the attributes it
    carries, each with its meaning.
    """

    name: str
    help: str
    attributes: tuple[tuple[str, str], ...] = ()
