"""What people wrote does not leave with what is handed to others."""

from __future__ import annotations

from dataclasses import replace
from json import loads

from pipeline.finding import Finding, Incident
from pipeline.frame import Device, frame_of
from pipeline.nccl.hit import Hit
from pipeline.nccl.member import Member
from pipeline.nccl.report import Communicator, Report
from pipeline.nccl.wire import events_of, line_event
from pipeline.observation import Event
from pipeline.store.export.redact import MASK, Redaction
from pipeline.store.files.tables import Gathered
from tests.fakes import START_NS, FakeClock, gpu, observed

INCIDENT = Incident(
    "i",
    gpu(0),
    "ecc",
    "page",
    "COMPONENT_RESET",
    START_NS,
    (),
    "Uncorrectable.",
    reason="Reset it.",
)


def test_who_took_an_incident_on_and_their_note_are_masked() -> None:
    """What is not written stays empty; what the agent says of the hardware stays."""
    gathered = Gathered()
    taken_on = replace(INCIDENT, acknowledged_ns=START_NS, note="Ada looks", acknowledged_by="ada")
    gathered.add(observed(FakeClock()), (), (INCIDENT, taken_on))
    rows = Redaction().table("incidents", dict(gathered.tables())["incidents"]).to_pylist()
    assert sorted((row["note"], row["acknowledged_by"]) for row in rows) == [("", ""), (MASK, MASK)]
    assert {(row["summary"], row["reason"]) for row in rows} == {("Uncorrectable.", "Reset it.")}


def test_users_in_events_are_left_out() -> None:
    """Of maintenance and of acknowledgements."""
    assert Redaction().attributes("maintenance_started", {"reason": "firmware", "user": "ada"}) == {
        "reason": "firmware"
    }
    assert Redaction().attributes(
        "incident_acknowledged", {"incident": "i", "note": "Ada", "user": "ada"}
    ) == {"incident": "i"}


def test_what_a_job_is_called_is_left_out() -> None:
    """Its number stays."""
    facts = {"job": "71", "gpus": "GPU-1", "user": "1000", "name": "secret"}
    assert Redaction().attributes("job_started", facts) == {"job": "71", "gpus": "GPU-1"}


def test_what_a_job_wrote_and_its_processes_do_not_leave_in_documents_and_facts() -> None:
    """Of NCCL's events and findings; ranks, errors, hosts and what joins the events stay."""
    job = Device("n1", "job", "ml/llm.1a2b3c4d", {"job": "ml/llm.1a2b3c4d", "user": "ada"})
    hit = Hit(
        "ibv", "link", "peer", host="n1", pid=4711, text="ada's secret", origin="/home/ada/job.log"
    )
    report = Report(
        "flight_recorder",
        "/home/ada/dump",
        job="ml/llm.1a2b3c4d",
        communicators=(Communicator("c0", 2, (Member(1, host="n2", pid=4712),)),),
    )
    events = [line_event(hit, job, START_NS, job=job.id), *events_of(report, job, START_NS)]
    events.append(Event(START_NS, 0, job, "nccl_process_found", {"own_pid": 4713, "job": job.id}))
    stall = Finding("f", job, "nccl", "onset", "page", START_NS, START_NS, "Stalls.", "RESTART_APP")
    gathered = Gathered()
    gathered.add(replace(observed(FakeClock()), events=tuple(events)), (stall,))
    tables = {name: Redaction().table(name, rows) for name, rows in gathered.tables()}
    rows = {name: tables[name].to_pylist() for name in ("events", "findings")}
    for word in ("ada", "secret", "471", "llm"):
        assert word not in str(rows)
    line, head, communicator, _ = (
        loads(row["attributes"]) for row in sorted(rows["events"], key=lambda row: int(row["n"]))
    )
    assert loads(line["document"])["host"] == "n1"
    assert head["report"] == communicator["report"]
    assert loads(communicator["document"])["members"][0]["host"] == "n2"


def test_whose_job_it_was_stays_here() -> None:
    """Names of users, accounts, pods and jobs leave the slow facts of a holder; job id, GPU
    and a GPU's own facts stay.
    """
    facts = {
        "uuid": "GPU-1",
        "job": "71",
        "user": "ada",
        "account": "physics",
        "pod": "p",
        "namespace": "ns",
        "job_name": "x",
    }
    holder = Device("n1", "device_job", "GPU-1/slurm/71", facts)
    gathered = Gathered()
    gathered.add(
        observed(
            FakeClock(),
            frame_of("device_job", [(holder, {})], 0, 0),
            frame_of("gpu", [(gpu(0), {})], 0, 0),
        ),
        (),
    )
    rows = Redaction().table("devices", dict(gathered.tables())["devices"]).to_pylist()
    kept = {row["kind"]: loads(row["attributes"]) for row in rows}
    assert kept == {"device_job": {"uuid": "GPU-1", "job": "71"}, "gpu": dict(gpu(0).attributes)}


def test_trainings_lose_their_names_and_stay_apart() -> None:
    """Namespace and name of a training are its user's words; the letters of its UID stay."""
    redaction = Redaction()
    ended = {"job": "ml/llm.1a2b3c4d", "pod": "ml/llm-0", "container": "main", "exit_code": 1}
    assert redaction.attributes("pod_ended", ended) == {"job": "training.1a2b3c4d", "exit_code": 1}
    gathered = Gathered()
    about = replace(
        INCIDENT, summary="Job ml/llm.1a2b3c4d stalled.", jobs=("ml/llm.1a2b3c4d", "71")
    )
    group = Device("n1", "job_group", "0", {"job": "ml/llm.1a2b3c4d"})
    gathered.add(observed(FakeClock(), frame_of("job_group", [(group, {})], 0, 0)), (), (about,))
    tables = dict(gathered.tables())
    (device,) = redaction.table("devices", tables["devices"]).to_pylist()
    assert loads(device["attributes"]) == {"job": "training.1a2b3c4d"}
    (row,) = redaction.table("incidents", tables["incidents"]).to_pylist()
    assert row["jobs"] == ["training.1a2b3c4d", "71"]
    assert row["summary"] == "Job training.1a2b3c4d stalled."
