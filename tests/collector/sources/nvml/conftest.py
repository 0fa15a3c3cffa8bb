"""The compiled stub and scripted nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.collector.sources.nvml.node import ScriptedNode
from tests.stub.library import compile_stub

Scripted = Callable[..., ScriptedNode]


@pytest.fixture(scope="session")
def stub(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the compiled libnvidia-ml.so.1."""
    return compile_stub(tmp_path_factory.mktemp("nvml-stub"))


@pytest.fixture
def scripted(tmp_path: Path, stub: Path) -> Iterator[Scripted]:
    """Makes scripted nodes, and closes them."""
    nodes: list[ScriptedNode] = []

    def make(*arguments: Any, **named: Any) -> ScriptedNode:
        nodes.append(
            ScriptedNode(
                tmp_path / f"node{len(nodes)}", named.pop("stub", stub), *arguments, **named
            )
        )
        return nodes[-1]

    yield make
    for node in nodes:
        node.close()
