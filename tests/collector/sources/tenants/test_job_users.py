"""Whose job a log is of, by its name and its owner."""

from __future__ import annotations

from collector.sources.tenants.job_users import KEPT_S, JobUsers


def test_a_log_of_a_job_on_other_nodes_is_of_none_here() -> None:
    """On a shared file system every node sees the logs of all: a user's job elsewhere is not the
    user's only job here. A log without a job's name is.
    """
    users = JobUsers()
    users.learn([("4800", 7)], 0.0, sure=True)
    assert [users.job_of(name, 7, 0.0) for name in ("4800", "4711", "")] == [
        "4800",
        "user7",
        "4800",
    ]
    assert users.job_of("", 7, KEPT_S) == "user7"
