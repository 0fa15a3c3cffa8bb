"""Incidents as they were reported first, of one judge."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.arrival_cut import GATEWAY
from pipeline.clock import SECOND_NS
from pipeline.finding import Finding, Incident
from pipeline.frame import Device
from pipeline.store.query.incident_history import history_of
from pipeline.store.query.labels import incident_rows, opening_rows
from pipeline.store.query.store import Store
from tests.pipeline.store.stored import StoreMaker

BEGIN_NS = 1_800_000_000 * SECOND_NS
JOB = Device("n1", "job", "7")
FINDING = Finding(
    "hang", JOB, "hang/rank_stuck", "onset", "ticket", BEGIN_NS, BEGIN_NS, "stuck", value=3.0
)
INCIDENT = Incident("i", JOB, "hang/rank_stuck", "ticket", "NONE", BEGIN_NS, (FINDING.id,), "stuck")


@pytest.mark.slow  # imports polars
def test_a_gateways_incident_is_not_that_of_an_agent_with_its_id(tmp_path: Path) -> None:
    """The agent was earlier and saw another number: what the gateway lowers is what counts."""
    store = StoreMaker(tmp_path)
    store.add("n1", BEGIN_NS, findings=[FINDING], incidents=[INCIDENT])
    own = replace(FINDING, value=5.0)
    more = replace(INCIDENT, jobs=("7", "8"))
    store.add(GATEWAY, BEGIN_NS + SECOND_NS, findings=[own], incidents=[more])
    store.close()
    [row] = opening_rows(Store(tmp_path))
    assert (row["value"], row["jobs"], row["host"]) == (5.0, ["7", "8"], "n1")
    [row] = opening_rows(Store(tmp_path), "n1")
    assert row["value"] == 3.0


@pytest.mark.slow
def test_incidents_of_agents_alone_are_not_what_a_gateway_would_lower(tmp_path: Path) -> None:
    """So nothing is fitted to them."""
    store = StoreMaker(tmp_path)
    store.add("n1", BEGIN_NS, findings=[FINDING], incidents=[INCIDENT])
    store.close()
    assert opening_rows(Store(tmp_path)) == []


@pytest.mark.slow
def test_an_incident_is_as_it_was_judged_last_though_the_clock_was_set_back(tmp_path: Path) -> None:
    """A node that boots with its clock hours ahead and closes an incident after it was set right;
    after a reboot time alone says what came later.
    """
    ended = replace(INCIDENT, cleared_ns=BEGIN_NS, ended="the fault is gone")
    store = StoreMaker(tmp_path)
    store.add("n1", BEGIN_NS + 7200 * SECOND_NS, findings=[FINDING], incidents=[INCIDENT])
    store.add("n1", BEGIN_NS, findings=[replace(FINDING, phase="cleared")], incidents=[ended])
    again = replace(INCIDENT, id="j")
    store.add("n1", BEGIN_NS, incidents=[again])
    store.close()
    after = StoreMaker(tmp_path, boot="a later boot")
    after.add("n1", BEGIN_NS + SECOND_NS, incidents=[replace(again, cleared_ns=BEGIN_NS)])
    after.close()
    last = {row["id"]: row["cleared"] for row in incident_rows(Store(tmp_path))}
    assert None not in last.values()
    history = history_of(Store(tmp_path), "i")
    assert history.incident is not None
    assert history.incident["ended"] == "the fault is gone"
    assert [row["phase"] for row in history.findings[0].rows] == ["onset", "cleared"]
