"""The look of an agent at the settings of one job."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest

from collector.facts.node import node_facts
from collector.nccl_settings.look import Looks, SettingsReader, fitting
from collector.nccl_settings.ranks import ranks_by_job
from collector.sources.nccl.discovery.scan import Scanner
from collector.sources.nccl.settings_watch import MAX_DOCUMENT, JobSettings, KnownJob
from collector.sources.tenants.desk import Desk, LocalDesk, LookLostError, Who
from tests.collector.facts.tree import Tree
from tests.collector.sources.nccl.discovery.proctree import add_process

LIBRARY = "/venv/nccl/lib/libnccl.so.2.27.3"


def test_a_look_says_what_does_not_fit_the_node(tmp_path: Path) -> None:
    """Of the processes that are given, with the versions that are known already: no other process
    and no library is opened.
    """
    tree = Tree(tmp_path)
    for pid, hca in ((800, "mlx5_9"), (801, "mlx5_8")):
        environ = f"SLURM_JOB_ID={pid} RANK=0 NCCL_IB_HCA={hca}"
        add_process(tree.proc, pid, gpus=(pid % 8,), library=LIBRARY, environ=environ)
    found = [one for one in Scanner(tree.proc).scan(0).processes if one.pid == 800]
    looks = Looks(LocalDesk(SettingsReader(tree.proc, tree.sysfs, "n1")))
    seen = looks.of(KnownJob("800", Who("800", "user7"), tuple(found), ("2.27.3",)))
    looks.rest()
    assert seen.ranks == 1
    assert "mlx5_9" in seen.document
    assert "mlx5_8" not in seen.document
    assert {"hca_absent"} <= {one["rule"] for one in json.loads(seen.document)}


def test_who_claims_the_job_of_another_user_puts_nothing_into_its_rows(tmp_path: Path) -> None:
    """A job is a control group, a user and a name: the claim is a job apart."""
    tree = Tree(tmp_path)
    for pid, user, hca in ((800, 65001, "mlx5_9"), (801, 65534, "mlx5_8")):
        environ = f"SLURM_JOB_ID=71 RANK={pid - 800} NCCL_IB_HCA={hca}"
        add_process(tree.proc, pid, gpus=(pid % 8,), library=LIBRARY, environ=environ, user=user)
    found = Scanner(tree.proc).scan(0).processes
    assert {one.user for one in found} == {65001, 65534}
    node = node_facts("n1", tree.proc, tree.sysfs)
    jobs = ranks_by_job(tree.proc, node, ((one, "2.27.3") for one in found))
    assert sorted([rank.pid for rank in ranks] for ranks in jobs.values()) == [[800], [801]]


def test_a_problem_without_end_hides_no_other() -> None:
    """A job may set a variable to as much as it likes."""
    assert fitting([{"why": "x" * MAX_DOCUMENT}, {"why": "y"}]) == [{"why": "y"}]


def test_a_child_that_says_more_than_it_may_is_not_believed() -> None:
    """A tenant may have made it say anything."""

    class Forged:
        def ask(self, *_: Any, **__: Any) -> JobSettings:
            return JobSettings(1, "x" * (MAX_DOCUMENT + 1))

    with pytest.raises(LookLostError) as error:
        Looks(cast(Desk, Forged())).of(KnownJob("71", Who("71", "user7"), (), ()))
    assert error.value.reason == "garbage"
