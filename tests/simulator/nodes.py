"""Simulated nodes for tests: made once per profile and seed, and run to where a test wants them."""

from __future__ import annotations

from simulator.node import Node
from simulator.profile import load_profile

# the first job initialises for 15 s; then everything has warmed up for several time constants
TRAINING_S = 400.0


def node(profile: str = "hgx-h100", seed: int = 1) -> Node:
    """A node at its start."""
    return Node(load_profile(profile), seed)


def training(profile: str = "hgx-h100", seed: int = 1) -> Node:
    """A node in the middle of training."""
    busy = node(profile, seed)
    busy.advance(TRAINING_S)
    assert busy.demand.phase == "train"
    return busy
