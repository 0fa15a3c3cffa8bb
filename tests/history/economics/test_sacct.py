"""Slurm's accounting as sacct prints it, with every trap that a real slurmdbd showed."""

from __future__ import annotations

import pytest

from history.economics.sacct import (
    SacctError,
    fields_for,
    node_events,
    runs,
)
from tests.sources import ROOT

# After what Slurm 22.05 with slurmdbd was seen to print: an array, a heterogeneous job, a requeue,
# a time limit, a killed batch shell, a step that crashed, a lost node, a job that runs.
HEAD, _, ROWS = (ROOT / "tests" / "data" / "slurm" / "sacct.txt").read_text().partition("\n")


def test_each_run_of_each_job_is_one() -> None:
    """Steps are none; an array's last task and parts of a heterogeneous job have their ids."""
    found = runs(f"{HEAD}\n{ROWS}")
    assert len({run.key for run in found}) == len(found) == 14
    by_job = {run.job: run for run in found}
    assert [by_job[job].key[1] for job in ("3_0", "3_2", "6+1")] == ["8", "3", "7"]
    assert by_job["6+1"].nodes == ("gpu02", "gpu03", "gpu05")
    assert by_job["6+0"].gpus + by_job["6+1"].gpus == 10


def test_rows_that_end_with_a_bar_are_the_same_runs() -> None:
    """`sacct -p` ends each so, its head too."""
    text = f"{HEAD}\n{ROWS}"
    assert runs(text.replace("\n", "|\n")) == runs(text)


def test_ends_are_states_with_a_time() -> None:
    """A requeued run has ended too, one that runs has not, and `by 1000` is no part of a state."""
    found = runs(f"{HEAD}\n{ROWS}")
    assert [run.job for run in found if not run.has_ended] == ["26", "27"]
    assert [run.state for run in found if run.job == "20"] == ["REQUEUED", "COMPLETED"]
    cancelled = next(run for run in found if run.job == "25")
    assert (cancelled.state, cancelled.gpus) == ("CANCELLED", 8)
    crashed = next(run for run in found if run.job == "23")
    assert (crashed.exit_code, crashed.derived_exit_code) == ("3:0", "0:11")


def test_gpus_that_are_tracked_by_their_type_alone_count() -> None:
    """AccountingStorageTRES=gres/gpu:h100 without gres/gpu; beside it they are the same GPUs."""
    row = "7|COMPLETED|2026-11-20T10:00:00|2026-11-20T11:00:00|gpu01|cpu=8,{},node=1\n"
    head = "JobIDRaw|State|Start|End|NodeList|AllocTRES\n"
    for tres in ("gres/gpu:h100=8", "gres/gpu=8,gres/gpu:h100=8", "gres/gpu:h100=8,gres/gpu=8"):
        assert [run.gpus for run in runs(head + row.format(tres))] == [8]


def test_only_known_fields_are_asked_for() -> None:
    """It refuses a whole command for one field that it does not have."""
    old = HEAD.replace("|", "  ")
    assert "FailedNode" not in fields_for(old)
    assert "FailedNode" in fields_for(f"{old} FailedNode")
    with pytest.raises(SacctError, match="AllocTRES"):
        fields_for(old.replace("AllocTRES", ""))


def test_nodes_that_are_drained_or_down() -> None:
    """An event of the cluster is none of a node, and an open one has no end."""
    text = (
        "NodeName|TimeStart|TimeEnd|State|Reason|User\n"
        "|2026-11-20T09:00:00|Unknown||Cluster Registered TRES|\n"
        "gpu01|2026-11-20T10:00:00|2026-11-20T12:00:00|DRAIN|tocsin:gpu_lost GPU 3|root(0)\n"
        "gpu02|2026-11-20T10:00:00|Unknown|DOWN*|Not responding|slurm(64030)\n"
    )
    first, second = node_events(text)
    assert (first.node, first.is_down, first.end_s) == ("gpu01", False, first.begin_s + 7200)
    assert (second.is_down, second.end_s) == (True, None)


def test_other_text_is_refused_with_what_it_lacks() -> None:
    """A header that was left out, and a time of another form."""
    with pytest.raises(SacctError, match="no column"):
        runs(ROWS)
    with pytest.raises(SacctError, match="is no time"):
        runs(f"{HEAD}\n{ROWS.replace('2026-11-20T10:00:00', '10:00')}")
    assert runs(f"{HEAD}\n1|broken row\n") == []
