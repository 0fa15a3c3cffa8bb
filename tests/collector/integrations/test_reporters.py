"""Whom a running agent tells by itself, as its configuration says; and what a cordon does."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from collector.config.gates import Gates, Kubernetes, NvSentinel
from collector.integrations.reporters import Reporters
from collector.node.out_of_service import Out
from pipeline.guard import Guard
from pipeline.selfmetrics import SelfMetrics
from tests.fakes import START_NS, FakeClock


class House:
    """An agent's gates, what it was told, and what is out of service."""

    def __init__(self) -> None:
        self.reported: list[dict[str, Any]] = []
        self.out: tuple[Out, ...] = ()
        clock = FakeClock()
        guard = Guard(SelfMetrics(), clock)
        self.reporters = Reporters("n1", clock, guard, dict, tell=self._tell, out=lambda: self.out)

    def _tell(self, request: dict[str, Any]) -> dict[str, Any]:
        self.reported.append(request)
        self.out = (
            (Out("n1", "node", "n1", START_NS, 0, "", request["user"]),) if request["on"] else ()
        )
        return {}


@pytest.fixture
def house() -> Iterator[House]:
    """One whose threads end with the test."""
    one = House()
    yield one
    one.reporters.close()


def threads() -> set[str]:
    """Gates that are being looked after now."""
    return {thread.name for thread in threading.enumerate() if thread.name.startswith("gate-")}


def test_as_shipped_nobody_is_told(house: House) -> None:
    """No thread, no connection."""
    house.reporters.configure(Gates())
    assert threads() == set()


def test_whom_the_configuration_names_is_told(house: House) -> None:
    """And no longer once it does not; the same configuration again changes nothing."""
    both = Gates(
        kubernetes=Kubernetes(report="dry-run"),
        nvsentinel=NvSentinel(socket="/nowhere/nvsentinel.sock"),
    )
    house.reporters.configure(both)
    house.reporters.configure(both)
    assert threads() == {"gate-kubernetes", "gate-nvsentinel"}
    house.reporters.configure(Gates(kubernetes=Kubernetes(report="dry-run")))
    assert threads() == {"gate-kubernetes"}


FOLLOWED = Gates(kubernetes=Kubernetes(report="on", cordon=True))


def test_a_cordoned_node_is_out_of_service_until_it_is_not(house: House) -> None:
    """Its end is told once, whatever the number of looks."""
    for cordoned in (False, True, True, False, False):
        house.reporters.cordoned(cordoned)
    assert [(request["on"], request["user"]) for request in house.reported] == [
        (True, "kubernetes")
    ] * 2 + [(False, "kubernetes")]


def test_a_cordon_that_nobody_renews_lapses(house: House) -> None:
    """Each look that sees it takes the node out for a quarter of an hour more: an API server that
    is away silences nobody forever.
    """
    house.reporters.cordoned(True)
    house.reporters.cordoned(True)
    assert [request["seconds"] for request in house.reported] == [900.0, 900.0]


@pytest.mark.parametrize(
    "after",
    [
        Gates(kubernetes=Kubernetes(report="off", cordon=True)),
        Gates(kubernetes=Kubernetes(report="on", cordon=False)),
    ],
    ids=["nothing is reported", "cordons are not followed"],
)
def test_who_follows_cordons_no_longer_brings_the_node_back(house: House, after: Gates) -> None:
    """Nobody would notice that the node was uncordoned."""
    house.reporters.configure(FOLLOWED)
    house.reporters.cordoned(True)
    house.reporters.configure(after)
    assert [request["on"] for request in house.reported] == [True, False]


def test_a_cordon_of_a_former_life_is_ended_too(house: House) -> None:
    """What is out of service survives restarts, and so the setting may have gone meanwhile."""
    house.out = (Out("n1", "node", "n1", START_NS, 0, "cordoned in Kubernetes", "kubernetes"),)
    house.reporters.configure(Gates())
    assert [request["on"] for request in house.reported] == [False]


def test_another_setting_does_not_end_a_cordon(house: House) -> None:
    """Nor does a stop: an agent that is upgraded while somebody works on the
    node pages nobody for it.
    """
    house.reporters.configure(FOLLOWED)
    house.reporters.cordoned(True)
    house.reporters.configure(Gates(kubernetes=Kubernetes(report="dry-run", cordon=True)))
    house.reporters.close()
    assert [request["on"] for request in house.reported] == [True]


def test_what_people_took_out_is_theirs_to_bring_back(house: House) -> None:
    """The end of a cordon does not end their maintenance."""
    house.out = (Out("n1", "node", "n1", START_NS, 0, "new firmware", "ada"),)
    house.reporters.cordoned(True)
    house.reporters.cordoned(False)
    assert house.reported == []
