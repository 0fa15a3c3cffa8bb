"""Facts of a node from a tree like the kernel's."""

from __future__ import annotations

from pathlib import Path

import pytest

from collector.facts.affinity import distance
from collector.facts.model import NodeFacts
from collector.facts.node import acs_control, facts_of_host, node_facts
from collector.facts.processes import process_facts
from tests.collector.facts.tree import Tree
from tests.collector.sources.nccl.discovery.proctree import UUIDS


def facts(tree: Tree) -> NodeFacts:
    """Read now."""
    return node_facts("n1", tree.proc, tree.sysfs)


def test_a_node_is_read_with_its_ports_gids_gpus_and_their_places(tmp_path: Path) -> None:
    """All that triage and preflight need, with one look at /sys and /proc."""
    tree = Tree(tmp_path, ethernet=True)
    found = facts(tree)
    assert [port.name for port in found.active] == [f"mlx5_{n}:1" for n in range(4)]
    assert [gid.index for gid in found.ports[0].gids if gid.routable] == [3]
    assert [(gpu.uuid, gpu.numa, len(gpu.cpus)) for gpu in found.gpus][::3] == [
        (UUIDS[0], 0, 8),
        (UUIDS[3], 1, 8),
    ]
    assert (found.gpudirect, found.peermem, found.driver) == (True, False, "580.95.05")
    gpu, near, far = found.gpus[0], found.ports[0], found.ports[3]
    assert distance(gpu.path, near.path, (gpu.numa, near.numa)) == "PIX"
    assert distance(gpu.path, far.path, (gpu.numa, far.numa)) == "SYS"
    assert distance(gpu.path, far.path) is None


def test_an_empty_machine_is_unknown_and_no_failure(tmp_path: Path) -> None:
    """Nothing is guessed where the trees are missing."""
    assert node_facts("n1", tmp_path / "proc", tmp_path / "sys") == NodeFacts("n1")


@pytest.mark.parametrize("content", [b"", b"\xff" * 4096, b"4: ACT\0IVE", b"9" * 5000])
def test_files_of_any_content_are_no_failure(tmp_path: Path, content: bytes) -> None:
    """A driver of tomorrow prints something else."""
    tree = Tree(tmp_path, pairs=1, ethernet=True)
    for folder in (tree.sysfs, tree.proc):
        for file in folder.rglob("*"):
            if file.is_file():
                file.write_bytes(content)
    assert facts(tree).active in ((), facts(tree).ports)
    assert process_facts(tree.proc / "1").limits.known is False


def test_access_control_is_read_from_its_capability() -> None:
    """At the end of a chain of extended capabilities; a chain in a circle ends too."""
    config = bytearray(4096)
    config[0x100:0x104] = (0x0001 | 1 << 16 | 0x150 << 20).to_bytes(4, "little")
    config[0x150:0x154] = (0x000D | 1 << 16).to_bytes(4, "little")
    assert acs_control(bytes(config)) == 0
    config[0x156:0x158] = (0x1D).to_bytes(2, "little")
    assert acs_control(bytes(config)) == 0x1D
    assert acs_control(bytes(config[:64])) == 0
    config[0x100:0x104] = (0x0001 | 1 << 16 | 0x100 << 20).to_bytes(4, "little")
    assert acs_control(bytes(config)) == 0


def test_facts_count_for_their_own_host_alone(tmp_path: Path) -> None:
    """A log has the short or the long name; what is known here says nothing of another node."""
    tree = Tree(tmp_path)
    of = facts_of_host(tree.proc, tree.sysfs)
    assert of("n1.example.org") == of("n1") is not None
    assert of("n2") is None
