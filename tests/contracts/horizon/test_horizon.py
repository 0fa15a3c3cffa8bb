"""One judge of many nodes at horizon node says what their agents say, word by word."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from detectors.kit.columns import Columns
from detectors.kit.groups import Groups
from pipeline.joined import rounds
from tests.contracts.horizon.sides import Batches, Said, by_count, by_time, joined, singles
from tests.contracts.horizon.world import LIVES, Agent, noisy, simulated

pytestmark = pytest.mark.slow

PERIODS = dict.fromkeys(("nvml", "infiniband", "kmsg", "jobs"), 10.0) | {"host": 60.0}
NOISE = dict.fromkeys(("nvml", "infiniband", "host", "kmsg"), 30.0)


@pytest.fixture(scope="module")
def noise() -> list[Agent]:
    """Three nodes of nonsense."""
    return noisy(3, ticks=100, seed=7)


@pytest.fixture(scope="module")
def alone(noise: list[Agent]) -> Said:
    """What the agents of nonsense say."""
    return singles(noise, NOISE)


@pytest.mark.parametrize("batches", [by_count, by_time, rounds])
def test_nodes_of_nonsense_are_judged_as_by_their_agents(
    noise: list[Agent], alone: Said, batches: Batches
) -> None:
    """Whatever is read, in whichever order nodes are joined."""
    assert sum(map(len, alone.values())) > 1000
    assert joined(noise, NOISE, batches) == alone


@pytest.fixture(scope="module")
def living() -> list[Agent]:
    """Six agents, each with a life of its own, and a GPU that is lost half-way through."""
    return simulated("F06", LIVES, days=0.09, seed=3, from_s=3000.0)


@pytest.fixture(scope="module")
def lived(living: list[Agent]) -> Said:
    """What each of them says."""
    return singles(living, PERIODS)


@pytest.mark.parametrize("batches", [by_count, by_time])
def test_agents_that_live_are_judged_as_by_themselves(
    living: list[Agent], lived: Said, batches: Batches
) -> None:
    """With boots, missed readings, two cadences, clocks that are set, nodes that come and go."""
    assert sum(map(len, lived.values())) > 5
    assert joined(living, PERIODS, batches) == lived


def first_of_all(_: Columns, values: Any) -> Any:
    """The value of another node."""
    return values[0] if isinstance(values, np.ndarray) else values


def no_border(_: object, _roll: object) -> None:
    """Compares over the border."""


PEEKS: dict[str, tuple[type, str, Callable[..., Any]]] = {
    "the clock of another node": (Columns, "each", first_of_all),
    "groups of several nodes": (Groups, "join", no_border),
}


@pytest.fixture(scope="module")
def brief() -> tuple[list[Agent], Said]:
    """Ten minutes of nonsense, and what its agents say, alone and joined."""
    noise = noisy(3, ticks=20, seed=8)
    alone = singles(noise, NOISE)
    assert joined(noise, NOISE, by_count) == alone
    return noise, alone


@pytest.mark.parametrize("peek", PEEKS)
def test_a_peek_over_the_border_of_a_node_is_found(
    peek: str, brief: tuple[list[Agent], Said], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is taken from another node shows, or is refused."""
    noise, alone = brief
    owner, name, instead = PEEKS[peek]
    monkeypatch.setattr(owner, name, instead)
    try:
        found = joined(noise, NOISE, by_count)
    except (ValueError, KeyError, IndexError):
        return
    assert found != alone
