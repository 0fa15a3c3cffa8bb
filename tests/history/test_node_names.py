"""What a site knew of its nodes is of the nodes of a history, by whatever name."""

from __future__ import annotations

from pathlib import Path

import pytest

from collector.cli.main import main
from history.backtest import truths
from history.backtest.known import Known
from history.importing import bring, find
from history.meaning.node_names import NodeNames
from tests.history.recorded import Recorded
from tests.history.site import BEGIN_MS, HOUR_MS, node, scrapes

pytestmark = pytest.mark.slow

SPAN = (BEGIN_MS, BEGIN_MS + HOUR_MS)


@pytest.mark.parametrize(
    ("name", "node"),
    [
        ("gpu17.example.com", "gpu17.example.com"),
        ("gpu17", "gpu17.example.com"),
        ("gpu17.other.net", ""),
        ("gpu20.example.com", "gpu20"),
        ("10.9.8.7", ""),
        ("10", ""),
        ("10.1.0.7:9100", "10.1.0.7"),
        ("gpu17:9100", "gpu17.example.com"),
        ("rack3-slot4", "gpu17.example.com"),
        ("rack3-slot5", "gpu17.example.com"),
        ("gpu18", ""),
        ("gpu1", ""),
        ("gpu19", "gpu19"),
    ],
)
def test_a_node_is_meant_by_its_name_a_name_of_a_mapping_or_a_short_name_of_its_own(
    name: str, node: str
) -> None:
    """Of two nodes with one short name neither is meant by it; one that is called so is. A full
    name of another domain means another node, and an address has no short name.
    """
    nodes = {"gpu17.example.com", "gpu18.a", "gpu18.b", "gpu19", "gpu19.a", "gpu20", "10.1.0.7"}
    renamed = {"rack3-slot4": "gpu17.example.com", "rack3-slot5": "gpu17"}
    assert NodeNames(nodes, renamed).named(name) == node


def test_entries_are_of_the_nodes_of_a_history_or_are_given_apart() -> None:
    """With all else that they say."""
    entries = [Known("gpu17", 1, 2, "drained", "slurm"), Known("cpu3", 1, 2, "drained", "slurm")]
    found, lost = truths.placed(entries, NodeNames({"gpu17.example.com"}))
    assert found == [Known("gpu17.example.com", 1, 2, "drained", "slurm")]
    assert lost == entries[1:]


def test_a_backtest_takes_short_names_and_those_of_a_mapping_and_counts_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a file, and of Slurm's own series."""
    site, times = Recorded(), scrapes(*SPAN, 30_000)
    for number in (1, 2, 3):
        node(site, f"gpu{number}.example.com", times)
    for name in ("gpu1", "cpu1"):
        labels = {"node": name, "reason": "Xid", "instance": "slurm:8080"}
        site.add("slurm_node_drain_reason_info", labels, [(ms, 1.0) for ms in times[20:30]])
    bring(site, find(site, *SPAN, None), tmp_path / "store", SPAN)
    drains, mapping = tmp_path / "drains.csv", tmp_path / "mapping.yaml"
    opened = BEGIN_MS // 1000 + 900
    rows = [f"{name},{opened},cause {name}" for name in ("gpu2", "slot-3", "cpu2", "cpu3", "cpu4")]
    drains.write_text("\n".join(["node,opened,cause", *rows, ""]))
    mapping.write_text("nodes: {slot-3: gpu3}\n")
    command = ["backtest", "--from", str(tmp_path / "store"), "--known", str(drains)]
    assert main([*command, "--mapping", str(mapping)]) == 0
    said = capsys.readouterr()
    assert "The site knew 3 faults" in said.out
    for words in ("Xid", "cause gpu2", "cause slot\\-3"):
        assert words.replace("\\", "") in said.out.replace("\\", "")
    assert "4 entries of what the site knew, which name no node of the history" in said.err
    assert "(cpu1, cpu2, cpu3, ...)" in said.err
