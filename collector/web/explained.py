"""Everything that the agent knows about one incident, from memory: what `tocsin explain` reads
from the store, for incidents that are open or ended within the last day.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from collector.web.incident_rows import Scene, finding_row, name_of, open_rows, past_row
from detectors import PAGES, prose_of
from pipeline.documents import printable
from pipeline.finding import Incident
from pipeline.past_incidents import PastIncident


def incident_row(
    text: str, opened: Sequence[Incident], past: Sequence[PastIncident], scene: Scene
) -> dict[str, Any] | None:
    """The incident whose id is ``text`` or begins with it, with the rules of its detectors; None
    where none or several do.
    """
    ids = [one.id for one in opened] + [one.incident.id for one in past]
    found = [one for one in ids if one == text] or [one for one in ids if one.startswith(text)]
    if len(found) != 1:
        return None
    for row in open_rows((one for one in opened if one.id == found[0]), scene):
        return row | _more((*row["standing"], *row["over"]), scene)
    one = next(one for one in past if one.incident.id == found[0])
    members = [finding_row(finding, None, scene.unread) for finding in one.findings]
    return past_row(one, scene) | {"standing": [], "over": members} | _more(members, scene)


def _more(members: Sequence[Mapping[str, Any]], scene: Scene) -> dict[str, Any]:
    """Display names of devices by id, and the rules of the detectors."""
    devices = [
        device
        for kind in ("gpu", "ib_port")
        for entry in scene.snapshot.of(kind)
        for device in entry.frame.devices
    ]
    names = {printable(one.id): name_of(one, scene.snapshot) for one in devices}
    return {"names": names, "rules": rules(members)}


def rules(members: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """How each of their detectors judges."""
    names = dict.fromkeys(member["detector"] for member in members)
    return [
        {
            "detector": name,
            "judges": [paragraph.replace("``", "") for paragraph in prose_of(name)],
            "rule": PAGES[name].formula,
            "sources": list(PAGES[name].sources),
            "next_step": PAGES[name].next_step,
            "clears": PAGES[name].clears,
        }
        for name in names
        if name in PAGES
    ]
