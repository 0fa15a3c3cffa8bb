"""``tocsin jobs``: the own jobs of a node, and what a gateway shows."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

import pytest

from collector import client
from collector.cli.main import main
from collector.sources.jobs.slurm.allocations import local_user

ME = local_user(os.getuid())
SLURM = {"scheduler": "slurm", "job": "71", "user": ME, "job_name": "train"}
OTHER = {"scheduler": "slurm", "job": "72", "user": f"{ME}x", "job_name": "secret"}
POD = {"scheduler": "kubernetes", "namespace": ME, "pod": "train-0", "container": "a"}


def gpu(number: int, *held_by: Mapping[str, str]) -> dict[str, Any]:
    """A GPU of the status page."""
    return {"id": f"GPU-{number}", "held_by": list(held_by)}


STATUS = {
    "host": "n1",
    "jobs": [{"job": "71", "state": "stalled"}],
    "incidents": [{"id": "abcd", "gpus_affected": ["GPU-1", "GPU-5"]}],
    "gpus": [
        gpu(0, SLURM, SLURM),
        gpu(1, {"scheduler": "slurm", "job": "71"}),  # as the prolog's file has it
        gpu(2, OTHER),
        gpu(3, POD, {**POD, "container": "b"}),
        gpu(4),
    ],
}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Answers by URL, as JSON documents."""
    answers: dict[str, Any] = {"http://127.0.0.1:9400/api/v1/status": STATUS}

    def get(url: str, who: object, *, timeout_s: float, max_bytes: int) -> bytes:
        if url not in answers:
            raise ConnectionError(f"{url}: HTTP 403")
        return json.dumps(answers[url]).encode()

    monkeypatch.setattr(client, "get", get)
    return answers


def listed(capsys: pytest.CaptureFixture[str], *argv: str) -> list[dict[str, Any]]:
    """The rows as JSON."""
    assert main(["jobs", "--format", "json", *argv]) == 0
    rows: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return rows


@pytest.mark.usefixtures("asked")
def test_a_node_lists_the_callers_jobs(capsys: pytest.CaptureFixture[str]) -> None:
    """With each GPU once; a user whose name begins alike, and a namespace called as the user, are
    others.
    """
    assert listed(capsys) == [
        {
            "id": "71", "owner": f"user:{ME}", "name": "train", "state": "stalled", "gpus": 2,
            "nodes": ["n1"], "incidents": ["abcd"],
        }
    ]  # fmt: skip


def test_a_job_is_as_its_worst_step(
    asked: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """NCCL jobs have Slurm's step in their names, those that hold GPUs have not."""
    steps = [{"job": "71.1", "state": "stalled"}, {"job": "71.0", "state": "running"}]
    asked["http://127.0.0.1:9400/api/v1/status"] = {**STATUS, "jobs": steps}
    assert [row["state"] for row in listed(capsys)] == ["stalled"]


@pytest.mark.usefixtures("asked")
def test_all_lists_every_job(capsys: pytest.CaptureFixture[str]) -> None:
    """Pods too."""
    rows = listed(capsys, "--all")
    assert [(row["id"], row["owner"], row["gpus"]) for row in rows] == [
        ("71", f"user:{ME}", 2),
        ("72", f"user:{ME}x", 1),
        (f"{ME}/train-0", f"namespace:{ME}", 1),
    ]


def test_a_job_that_two_users_claim_is_nobodys(
    asked: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """Not the caller's, and listed without an owner."""
    gpus = [gpu(0, SLURM), gpu(1, {**SLURM, "user": "eve"})]
    asked["http://127.0.0.1:9400/api/v1/status"] = {**STATUS, "gpus": gpus}
    assert listed(capsys) == []
    assert [row["owner"] for row in listed(capsys, "--all")] == [""]


def test_a_gateway_is_read_to_the_last_page(
    asked: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """And its rows are those of a node."""
    row = {"id": "9\x1b[2J", "owner": "user:ada", "user": "ada", "name": "t", "state": "running",
           "gpus": 8, "nodes": ["a", "b"], "incidents": [], "level": "ok"}  # fmt: skip
    first = "https://gw:9401/api/v1/jobs?limit=1000"
    asked[first] = {"jobs": [row], "next": "a=="}
    asked[f"{first}&cursor=a%3D%3D"] = {"jobs": [{**row, "id": "10"}], "next": None}
    rows = listed(capsys, "--gateway", "https://gw:9401/")
    assert [one["id"] for one in rows] == ["9\x1b[2J", "10"]
    assert main(["jobs", "--gateway", "https://gw:9401"]) == 0
    text = capsys.readouterr().out
    assert "\x1b" not in text
    assert "user:ada" in text


def test_what_cannot_be_read_is_said(
    asked: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """A refusal, and an answer of something else."""
    assert main(["jobs", "--gateway", "http://gw"]) == 1
    assert "HTTP 403" in capsys.readouterr().err
    asked["http://127.0.0.1:9400/api/v1/status"] = ["no"]
    assert main(["jobs"]) == 1
    assert "not an answer of Tocsin" in capsys.readouterr().err
    assert main(["jobs", "--gateway", "http://gw", "--all"]) == 2


def test_ended_jobs_are_asked_of_a_gateway(
    asked: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """Every page, with the texts of others made harmless."""
    row = {
        "id": "60", "run": 1, "scheduler": "slurm", "owner": "user:ada", "name": "a\x1b[2J",
        "begin": "2027-01-15T08:00:00+00:00", "end": "2027-01-15T09:00:00+00:00",
        "seconds": 3600.0, "nodes": 2, "gpus": 16,
    }  # fmt: skip
    asked["http://g/api/v1/jobs/ended?limit=1000"] = {"jobs": [row], "next": "abc"}
    more = {"jobs": [{**row, "id": "59"}], "next": None}
    asked["http://g/api/v1/jobs/ended?limit=1000&cursor=abc"] = more
    assert main(["jobs", "--gateway", "http://g", "--ended"]) == 0
    text = capsys.readouterr().out
    assert "60" in text
    assert "59" in text
    assert "\x1b" not in text
    assert main(["jobs", "--ended"]) != 0


@pytest.mark.parametrize(("form", "end"), [("text", ".txt"), ("html", ".html"), ("json", "")])
def test_a_gateway_explains_a_job(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], form: str, end: str
) -> None:
    """In the form that is asked for, to a terminal without what it would obey."""
    urls: list[str] = []

    def get(url: str, who: object, *, timeout_s: float, max_bytes: int) -> bytes:
        urls.append(url)
        return b'{"job": "ml/a.1"}' if form == "json" else b"Job \x1b[2Jml/a.1\nend"

    monkeypatch.setattr(client, "get", get)
    argv = ["explain", "job", "ml/a.1", "--gateway", "http://g/", "--run", "2", "--format", form]
    assert main(argv) == 0
    assert urls == [f"http://g/api/v1/jobs/explanation{end}?job=ml%2Fa.1&run=2"]
    text = capsys.readouterr().out
    assert "ml/a.1" in text
    assert "\x1b" not in text


def test_a_job_that_a_gateway_does_not_explain_is_an_error(
    asked: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """With what the status means."""
    assert asked
    assert main(["explain", "job", "9", "--gateway", "http://g"]) == 1
    assert "HTTP 403" in capsys.readouterr().err
