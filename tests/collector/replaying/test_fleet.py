"""Replay over the files of two nodes: what neither could say of their job by itself."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from collector.cli.main import main
from pipeline.clock import SECOND_NS
from pipeline.frame import Device, frame_of
from pipeline.judged import JudgedObservation
from pipeline.nccl.report import Report
from pipeline.nccl.wire import events_of
from pipeline.observation import Observation
from tests.collector.replaying.kept import keep
from tests.detectors.nccl.jobs import BEGIN_NS, dump

RANKS = {"n1": (0, 1, 2), "n2": (3,)}  # of which rank 3 never comes
SECONDS = 120


def gpu(host: str, rank: int) -> Device:
    """The GPU that a rank holds."""
    return Device(host, "gpu", f"GPU-{rank}", {"index": str(rank)})


def reported(host: str, rank: int) -> Report:
    """A rank's dump as its agent reads it: rank 3 has launched and completed eight, the
    others wait in the ninth.
    """
    launched = 8 if rank == 3 else 9
    report = dump(rank, {"0": (launched, 8)}, {"0": range(4)})
    (communicator,) = report.communicators
    members = tuple(
        replace(m, host=host, pid=100 + rank, uuid=gpu(host, rank).id) for m in communicator.members
    )
    return replace(
        report, job="71", host=host, communicators=(replace(communicator, members=members),)
    )


def node(host: str, ranks: Sequence[int]) -> list[JudgedObservation]:
    """Two minutes of a node; its ranks' dumps are there after half a minute.

    Monotonic clocks of nodes have nothing in common.
    """
    seen = []
    for second in range(SECONDS):
        now, mono = (
            BEGIN_NS + second * SECOND_NS,
            (1000 * len(host) * max(ranks) + second) * SECOND_NS,
        )
        reports = [reported(host, rank) for rank in ranks] if second == 30 else []
        events = tuple(
            e for r in reports for e in events_of(r, Device(host, "node", host), now, mono)
        )
        frame = frame_of("gpu", [(gpu(host, rank), {}) for rank in ranks], now, mono)
        seen.append(
            JudgedObservation(
                Observation(
                    "nccl", host, f"boot of {host}", second, now, mono, 0, (frame,), events
                ),
                (),
            )
        )
    return seen


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What both nodes have kept, in one folder."""
    root = tmp_path_factory.mktemp("fleet") / "store"
    for host, ranks in RANKS.items():
        keep(root, node(host, ranks))
    return root


def verdicts(
    capsys: pytest.CaptureFixture[str], store: Path, *argv: str
) -> list[tuple[str, str, str, str]]:
    """Phase, fault, host and device of every finding of a replay."""
    capsys.readouterr()
    assert main(["replay", "--from", str(store), "--detectors", "nccl", *argv]) == 0
    lines = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    return [
        (f["phase"], f["fault"], f["host"], f["device"]) for f in lines if f["type"] == "finding"
    ]


@pytest.mark.slow
def test_two_nodes_files_give_one_verdict_with_the_rank_on_its_node(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The waiting ranks are told of by one node, the rank that they wait for by the other."""
    assert verdicts(capsys, store, "--horizon", "fleet") == [
        ("onset", "hang/host_hang", "n2", "GPU-3")
    ]


def test_each_node_by_itself_names_nobody(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its ranks wait for one it does not know, or for nobody."""
    assert {fault for _, fault, *_ in verdicts(capsys, store)} <= {"hang/unknown"}


@pytest.mark.slow
def test_the_joint_verdict_does_not_hang_on_the_order_of_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A store gives one node after the other: here the rank to blame comes first."""
    keep(tmp_path / "store", node("a1", (3,)))
    keep(tmp_path / "store", node("z9", (0, 1, 2)))
    assert verdicts(capsys, tmp_path / "store", "--scope", "fleet") == [
        ("onset", "hang/host_hang", "a1", "GPU-3")
    ]


@pytest.mark.slow
def test_all_detectors_judge_a_fleet(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As a gateway does, not those of jobs only: none fails, and the nodes are counted."""
    assert main(["replay", "--from", str(store), "--horizon", "fleet"]) == 0
    out, err = capsys.readouterr()
    found = [json.loads(line) for line in out.splitlines()]
    assert {f["detector"] for f in found if f["type"] == "finding"} == {"nccl"}
    assert "of 2 nodes" in err


def test_agents_findings_are_not_compared_with_those_of_a_fleet(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They judged their own node."""
    assert main(["replay", "--from", str(store), "--horizon", "fleet", "--compare"]) == 2
    assert "--compare is for agents" in capsys.readouterr().err
