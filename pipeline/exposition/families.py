"""From the catalogue to ``tocsin_*`` families: which columns a kind
shows, and under which labels.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache

from pipeline.catalog import KINDS, PROFILES, Field, Kind, Metric, Profile, facts_of, fields_of
from pipeline.exposition.cells import Column
from pipeline.frame import Attributes, Device

# States and inventory stay when a source falls silent: a lost GPU must never
# take its own alarm away.
STAYS = ("_expected", "_visible")


def shown(profile: Profile, wanted: Profile) -> bool:
    """Whether something of one profile belongs to the wanted one.

    >>> shown("minimal", "default"), shown("full", "default")
    (True, False)
    """
    return PROFILES.index(profile) <= PROFILES.index(wanted)


@cache
def columns_of(
    kind: str, profile: Profile
) -> tuple[tuple[Column, tuple[tuple[str, str], ...]], ...]:
    """Columns of a kind in catalogue order, each with the labels beyond the device's own; one
    column per state of an enumeration.
    """
    columns: list[tuple[Column, tuple[tuple[str, str], ...]]] = []
    for field in fields_of(kind):
        if not shown(field.profile, profile):
            continue
        if field.states:
            label = field.metric.labels[0]
            columns += [
                (Column(field, code=float(code)), (*field.labels, (label, name)))
                for code, name in field.states
            ]
        else:
            columns.append((Column(field, field.times, field.per), field.labels))
    return tuple(columns)


def stays(field: Field) -> bool:
    """Whether a field is still shown when its frame has gone stale."""
    return field.metric.name.endswith(STAYS) or (field.name == "state" and bool(field.states))


def device_labels(device: Device, facts: Attributes) -> tuple[tuple[str, str], ...]:
    """The labels that identify a device in ``tocsin_*``; one whose fact is
    unknown is absent, not empty.
    """
    kind = KINDS[device.kind]
    found = (
        (label, device.id if fact == "@id" else facts.get(fact, "")) for label, fact in kind.labels
    )
    return tuple((label, value) for label, value in found if value)


@cache
def info_metric(kind: str) -> Metric:
    """The family that carries the slow facts of a kind as labels."""
    return Metric(
        f"tocsin_{kind}_info", "info", f"Slow facts as labels, always 1. {KINDS[kind].help}"
    )


def info_labels(device: Device, facts: Attributes) -> tuple[tuple[str, str], ...]:
    """Identity and slow facts of a device; unknown facts are absent."""
    labels = dict(device_labels(device, facts))
    for fact in facts_of(device.kind):
        value = facts.get(fact.name, "")
        if fact.info and value and fact.name not in labels:
            labels[fact.name] = value
    return tuple(labels.items())


def infos(
    devices: Mapping[Device, Attributes], profile: Profile
) -> Iterator[tuple[Kind, Metric, Sequence[tuple[tuple[str, str], ...]]]]:
    """For each kind with slow facts and with fields in the profile: its info family and
    the labels of every device.

    Of a fleeting kind the info is what there is to know: it is in every profile.
    """
    for name, kind in KINDS.items():
        if any(fact.info for fact in facts_of(name)) and (
            kind.fleeting or columns_of(name, profile)
        ):
            rows = [
                info_labels(device, facts)
                for device, facts in devices.items()
                if device.kind == name
            ]
            if rows:
                yield kind, info_metric(name), rows
