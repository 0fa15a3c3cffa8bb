"""The gate before a real Slurm: one controller and sixteen node daemons."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from collector.integrations.maintenance import REASON as REASON_OF_WORKS
from tests.agents import PROGRAM
from tests.collector.integrations.answers import ALL, LOST, OTHERS, REASON, Agent, document
from tests.slurm import Slurm, slurm
from tests.sources import ROOT
from tests.wait import PATIENCE_S, until

pytestmark = [pytest.mark.integration, pytest.mark.root]

NODES = 16
SICK = document(LOST)


def prolog(cluster: Slurm, line: str) -> None:
    """What a site does before each job from now on."""
    script = cluster.directory / "prolog"
    script.with_suffix(".new").write_text(f"#!/bin/sh\n{line}\n")
    script.with_suffix(".new").chmod(0o755)
    script.with_suffix(".new").replace(script)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Slurm]:
    """One for all tests of this file."""
    with slurm(
        nodes=NODES, more="Prolog={directory}/prolog", before=lambda one: prolog(one, "exit 0")
    ) as one:
        yield one


@pytest.fixture(autouse=True)
def _a_cluster_without_marks(cluster: Slurm) -> Iterator[None]:
    """Nothing that one test left counts in the next."""
    yield
    for token in cluster.reservations():
        cluster.run("scontrol", "delete", f"ReservationName={token}")
    for node in cluster.drained():
        cluster.run("scontrol", "update", f"NodeName={node}", "State=RESUME")


class Node:
    """One node: its agent's folder, and `tocsin check` run as a HealthCheckProgram is."""

    def __init__(self, cluster: Slurm, folder: Path, name: str = "gpu01") -> None:
        self.cluster, self.name = cluster, name
        self.agent = Agent(folder / self.name, SICK)
        self.configuration = folder / f"{self.name}.yaml"
        self.configuration.write_text("{}")

    def check(self, *options: str, environ: Mapping[str, str] | None = None) -> str:
        """What it printed. Its exit code must be 0 unless it is asked for a return."""
        argv = [
            sys.executable,
            "-c",
            PROGRAM,
            "check",
            "--agent",
            str(self.agent.root),
            "--format",
            "slurm",
            *options,
        ]
        own = {**self.cluster.environ, "PYTHONPATH": str(ROOT), "SLURMD_NODENAME": self.name}
        own["TOCSIN_CONFIG_FILE"] = str(self.configuration)
        ran = subprocess.run(
            argv,
            env={**own, **(environ or {})},
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert ran.stderr == ""
        assert ran.returncode == 0 or "--return" in options
        return ran.stdout.removeprefix("tocsin: ").strip()

    def reports(self, *problems: dict[str, Any], proof: Sequence[str] = (), **changed: Any) -> None:
        """Let the agent say something else from now on; ``proof`` is the burn-in check of the
        node's own configuration.
        """
        self.agent.answer = document(*problems, **changed)
        self.configuration.write_text(json.dumps({"gates": {"slurm": {"proof": list(proof)}}}))

    @property
    def state(self) -> str:
        """IDLE or IDLE+DRAIN; a node daemon that was too busy to answer
        a ping is no matter here.
        """
        return self.cluster.node(self.name)["State"].replace("+NOT_RESPONDING", "")

    @property
    def reason(self) -> str:
        return self.cluster.node(self.name)["Reason"].rpartition(" [")[0]


@pytest.fixture
def node(cluster: Slurm, tmp_path: Path) -> Iterator[Node]:
    """A sick one that may be drained."""
    one = Node(cluster, tmp_path)
    with one.agent:
        yield one


def gates(cluster: Slurm, *words: str) -> str:
    """What an administrator reads of `tocsin-gates`."""
    return cluster.run(str(ROOT / "deploy" / "slurm" / "tocsin-gates"), *words)


def people(node: Node, *update: str) -> None:
    """What an administrator types."""
    node.cluster.run("scontrol", "update", f"NodeName={node.name}", *update)


def test_a_sick_node_is_drained_with_the_part_and_the_cause(node: Node) -> None:
    """The reason is ours by its prefix and tells whoever reads `sinfo -R` what to do."""
    assert node.check() == f"drained {node.name}: {REASON}"
    assert node.state.endswith("+DRAIN")
    assert node.reason == REASON


def test_a_drained_node_is_not_drained_again(node: Node) -> None:
    """Health checks go on every few minutes; the reason keeps the time of the first."""
    node.check()
    before = node.cluster.node(node.name)["Reason"]
    assert node.check() == f"drained by Tocsin: {REASON}"
    assert node.cluster.node(node.name)["Reason"] == before


def test_the_reason_of_a_drained_node_names_a_part_that_breaks_later(node: Node) -> None:
    """Who repairs the first one must not take the node for whole; the drain stays ours."""
    node.check()
    node.reports(LOST, LOST | {"id": "second", "device": "GPU-9b", "name": "GPU 4"})
    both = f"tocsin:{LOST['class']} {LOST['name']}, {LOST['class']} GPU 4 (incident 5a2e173d): "
    assert node.check().startswith(f"drained by Tocsin: {both}")
    assert node.reason.startswith(both)
    assert node.check().startswith(f"drained by Tocsin: {both}")


def test_a_check_that_was_killed_while_it_changed_the_reason_owns_its_drain(node: Node) -> None:
    """Before the controller had it, or after."""
    node.check()
    record = node.agent.root / "gate.json"
    kept = json.loads(record.read_text())
    for now in ("the new one", REASON):
        interrupted = kept | {"reason": now, "was": REASON if now != REASON else "x", "by": ""}
        record.write_text(json.dumps(interrupted))
        assert node.check() == f"drained by Tocsin: {REASON}"


def test_checks_of_one_node_at_the_same_moment_drain_it_once(node: Node) -> None:
    """One of them acts, the others say so or see its work; one slot is taken."""
    with ThreadPoolExecutor(4) as pool:
        said = list(pool.map(lambda _: node.check(), range(4)))
    assert sum(text.startswith("drained gpu") for text in said) == 1
    assert len(node.cluster.reservations("tocsin_slot_")) == 1


def test_however_many_nodes_are_sick_at_once_no_more_are_drained_than_the_cap(
    cluster: Slurm, tmp_path: Path
) -> None:
    """A bad table makes every node sick in the same minute: two are drained,
    and the others say why not.
    """
    nodes = [Node(cluster, tmp_path, name) for name in cluster.nodes]
    try:
        with ThreadPoolExecutor(NODES) as pool:
            said = list(pool.map(lambda node: node.check(), nodes))
    finally:
        for node in nodes:
            node.agent.__exit__()
    assert len(cluster.drained()) == 2
    assert sum(text.startswith("drained gpu") for text in said) == 2
    assert sum(text.startswith("not drained (limit reached") for text in said) == NODES - 2


def test_no_more_are_drained_within_an_hour_than_allowed(cluster: Slurm, tmp_path: Path) -> None:
    """Room in the cluster is not room in the hour, even when the first is back in service."""
    first, second = Node(cluster, tmp_path), Node(cluster, tmp_path, "gpu02")
    with first.agent, second.agent:
        for node in (first, second):
            node.reports(LOST, slurm={"most_drained": 5, "most_per_hour": 1})
        first.check()
        people(first, "State=RESUME")
        first.check()  # it sees that people resumed it, and gives its slot back
        assert second.check() == f"not drained (limit reached: 1 nodes per hour): {REASON}"
        assert cluster.reservations("tocsin_slot_") == []


def test_nothing_is_done_unless_draining_is_switched_on(node: Node) -> None:
    """As shipped the command only says what it saw."""
    node.reports(LOST, slurm={"drain": False})
    assert node.check() == f"not drained (gates.slurm.drain is off): {REASON}"
    assert (node.state, node.cluster.reservations()) == ("IDLE", [])


def test_a_dry_run_changes_nothing(node: Node) -> None:
    """It tells what would be done."""
    assert node.check("--dry-run") == f"dry run: would drain {node.name}: {REASON}"
    assert (node.state, node.cluster.reservations()) == ("IDLE", [])


def test_who_cannot_ask_the_controller_does_nothing(node: Node, tmp_path: Path) -> None:
    """The controller's host is up and nobody listens."""
    elsewhere = tmp_path / "slurm.conf"
    elsewhere.write_text(
        "ClusterName=x\n"
        "SlurmctldHost=head(127.0.0.1)\n"
        "SlurmctldPort=1\n"
        "TCPTimeout=1\n"
        "MessageTimeout=1\n"
    )
    said = node.check(environ={"SLURM_CONF": str(elsewhere)})
    assert said.startswith(
        "nothing done (scontrol --oneliner show: slurm_load_node error: Unable to "
        "contact slurm controller"
    )
    assert (node.state, (node.agent.root / "gate.json").exists()) == ("IDLE", False)


def test_a_silent_agent_is_unknown_and_nothing_is_done(node: Node) -> None:
    """No data is never a fault."""
    node.agent.__exit__()
    assert node.check().startswith("unknown: the agent does not answer")
    assert node.state == "IDLE"


def test_a_blind_agent_is_unknown_and_nothing_is_done(node: Node) -> None:
    """It answers, and sees nothing."""
    node.reports(LOST, verdict="unknown", reason="no fresh readings of gpu")
    assert node.check() == "unknown: no fresh readings of gpu"
    assert node.state == "IDLE"


def test_only_canaries_are_drained_where_there_are_any(node: Node) -> None:
    """A site begins with a few nodes."""
    node.reports(LOST, slurm={"canaries": ["gpu09"]})
    assert "is not a canary" in node.check()
    node.reports(LOST, slurm={"canaries": ["gpu09", node.name]})
    assert node.check().startswith("drained")


def test_the_off_switch_as_a_file(node: Node, tmp_path: Path) -> None:
    """On a shared file system it stops the fleet."""
    switch = tmp_path / "gates.off"
    switch.touch()
    node.reports(LOST, off_file=str(switch))
    assert node.check() == f"not drained ({switch} exists: integrations are off): {REASON}"


def test_the_off_switch_on_the_controller(node: Node) -> None:
    """One command, and no node of the cluster is drained."""
    gates(node.cluster, "off")
    assert node.check() == f"not drained (disabled fleet-wide by reservation tocsin_off): {REASON}"
    gates(node.cluster, "on")
    assert node.check().startswith("drained")


def test_the_switch_says_how_it_stands(cluster: Slurm) -> None:
    """Also after it was set twice."""
    said = [gates(cluster, "status")]
    for word in ("off", "off", "on", "on"):
        gates(cluster, word)
        said.append(gates(cluster, "status"))
    assert said == ["on\n", "off\n", "off\n", "on\n", "on\n"]


def test_jobs_start_while_the_switch_is_off(cluster: Slurm) -> None:
    """The reservation lies on every node, and keeps none of them from a job,
    however long that may last.
    """
    gates(cluster, "off")
    job = cluster.submit("sleep 60", "--exclusive", f"--nodes={NODES}", "--time=UNLIMITED")
    until(lambda: cluster.job_state(job) == "RUNNING", what="the job to run")
    cluster.run("scancel", job)
    until(lambda: not cluster.run("squeue", "--noheader"), what="the job to end")


@pytest.fixture
def no_default(cluster: Slurm) -> Iterator[Slurm]:
    """A site where every job must name its partition."""
    cluster.run("scontrol", "update", "PartitionName=gpu", "Default=NO")
    yield cluster
    cluster.run("scontrol", "update", "PartitionName=gpu", "Default=YES")


def test_a_cluster_needs_no_default_partition(no_default: Slurm, node: Node) -> None:
    """Neither for the switch nor for draining."""
    assert node.check().startswith("drained")
    gates(no_default, "off")
    assert gates(no_default, "status").startswith("off\n")


def test_slots_that_nobody_gives_back_are_seen_and_tidied(node: Node) -> None:
    """A node that came back from a reinstallation has forgotten its slot; the slot of
    one that is drained stays.
    """
    forgot = Node(node.cluster, node.agent.root.parent, "gpu02")
    with forgot.agent:
        node.check()
        forgot.check()
        (forgot.agent.root / "gate.json").unlink()
        people(forgot, "State=RESUME")
        held = dict(line.split(" ", 1) for line in gates(node.cluster, "status").splitlines()[1:])
        assert sorted(held.values()) == ["gpu01 drained by Tocsin", "gpu02 not drained by Tocsin"]
        (left,) = [slot for slot, text in held.items() if text.startswith("gpu02")]
        assert gates(node.cluster, "tidy", "0") == f"{left} freed: gpu02 is not drained by Tocsin\n"
        assert node.cluster.reservations("tocsin_slot_") == [slot for slot in held if slot != left]


def test_what_people_drained_stays_theirs(node: Node) -> None:
    """Their reason is not overwritten."""
    people(node, "State=DRAIN", "Reason=cooling works, ada")
    assert node.check() == f"not drained (already drained: cooling works, ada): {REASON}"
    assert node.reason == "cooling works, ada"


def test_what_people_resumed_is_not_drained_again_for_the_same_incident(node: Node) -> None:
    """They know of it and decided otherwise, also while its device cannot be read; another
    incident, once this is over, is news.
    """
    node.check()
    people(node, "State=RESUME")
    assert node.check() == f"left to operators, who resumed or changed it: {REASON}"
    assert node.cluster.reservations("tocsin_slot_") == []
    node.reports(LOST | {"id": "another"}, open=["another", LOST["id"]])
    assert node.check() == f"left to operators, who resumed or changed it: {REASON}"
    node.reports(LOST | {"id": "another"})
    assert node.check().startswith("drained")


def test_what_people_took_over_is_never_resumed(node: Node) -> None:
    """Their drain on top of ours is theirs, whatever was proved meanwhile."""
    node.check()
    people(node, "State=DRAIN", "Reason=waiting for the vendor, ada")
    node.reports(boot_id="9d20-second", proof=["true"])
    assert node.check("--return").startswith(
        "not resumed (changed by an operator: waiting for the vendor, ada)"
    )
    assert node.reason == "waiting for the vendor, ada"


def test_what_people_drained_again_in_our_words_is_theirs(node: Node) -> None:
    """Whose drain it is tells its author and time, not the words alone."""
    node.check()
    record = node.agent.root / "gate.json"
    record.write_text(record.read_text().replace('"by": "root@20', '"by": "root@19'))
    node.reports(boot_id="9d20-second", proof=["true"])
    assert "changed by an operator" in node.check("--return")
    assert node.state.endswith("+DRAIN")


@pytest.mark.parametrize(
    ("now", "why"),
    [
        ({"parts": OTHERS}, "no evidence of a repair"),
        ({}, "no evidence of a repair"),
        ({"boot_id": "9d20-second", "proof": []}, "no burn-in check is configured"),
        ({"boot_id": "9d20-second", "proof": ["false"]}, "false exited with 1"),
        ({"boot_id": "9d20-second", "proof": ["/nowhere/diag"]}, "No such file or directory"),
        (
            {"boot_id": "9d20-second", "verdict": "unknown", "reason": "still starting"},
            "unknown: still starting",
        ),
        ({"boot_id": "9d20-second", "out_of_service": "burning in"}, "out of service: burning in"),
    ],
)
def test_nothing_returns_without_proof(node: Node, now: dict[str, Any], why: str) -> None:
    """A fault that went away by itself, a reboot without a burn-in check, a check that
    fails: a person resumes.
    """
    node.check()
    node.reports(**({"proof": ["true"]} | now))
    assert why in node.check("--return")
    assert node.reason == REASON


def test_nothing_returns_while_the_controllers_switch_is_off(node: Node) -> None:
    """Switched off, nothing is resumed either; switched on, the repair still counts."""
    node.check()
    node.reports(boot_id="9d20-second", proof=["true"])
    gates(node.cluster, "off")
    assert "not resumed (disabled fleet-wide" in node.check("--return")
    assert node.reason == REASON
    gates(node.cluster, "on")
    assert node.check("--return").startswith("resumed")


def test_nothing_returns_under_the_off_file(node: Node, tmp_path: Path) -> None:
    """The same file as for draining."""
    node.check()
    switch = tmp_path / "gates.off"
    switch.touch()
    node.reports(boot_id="9d20-second", proof=["true"], off_file=str(switch))
    assert f"not resumed ({switch} exists: integrations are off)" in node.check("--return")
    assert node.reason == REASON


def test_what_slurm_drained_for_a_failing_prolog_is_never_resumed_by_us(node: Node) -> None:
    """Also where we had drained the same node before, and its repair is proved."""
    node.check()
    people(node, "State=RESUME")
    prolog(node.cluster, "exit 1")
    job = node.cluster.submit("sleep 60", f"--nodelist={node.name}")
    until(lambda: node.state.endswith("+DRAIN"), what="Slurm to drain the node")
    prolog(node.cluster, "exit 0")
    node.cluster.run("scancel", job)
    assert node.reason.lower().startswith("prolog error")
    node.reports(boot_id="9d20-second", proof=["true"])
    assert node.check("--return").startswith(f"not resumed (changed by an operator: {node.reason})")
    node.check()
    assert node.check("--return").startswith("this node was not drained by Tocsin")
    assert node.state.endswith("+DRAIN")


def test_a_repair_that_is_proved_returns_the_node(node: Node) -> None:
    """Rebooted, and well under load: resumed, and its slot is free again."""
    node.check()
    node.reports(boot_id="9d20-second", proof=["true"])
    said = node.check("--return")
    assert said == (
        f"resumed {node.name}: the node was rebooted (boot id 8c1f0000 is now 9d20-sec), and the "
        f"burn-in check passed: {REASON}"
    )
    assert (node.state, node.cluster.reservations("tocsin_slot_")) == ("IDLE", [])


def test_a_fault_that_comes_back_under_load_keeps_the_node_out(node: Node, tmp_path: Path) -> None:
    """The agent is asked again after the check: here the check itself brings the incident back."""
    node.check()
    node.reports(boot_id="9d20-second", proof=["mkfifo", str(tmp_path / "under-load")])
    well = node.agent.answer

    class Relapse(dict[str, Any]):
        """Well until the burn-in check has run."""

        def __iter__(self) -> Iterator[str]:
            return iter(self.now())

        def keys(self) -> Any:
            return self.now().keys()

        def __getitem__(self, key: str) -> Any:
            return self.now()[key]

        def now(self) -> dict[str, Any]:
            return (
                document(LOST, boot_id="9d20-second")
                if (tmp_path / "under-load").exists()
                else well
            )

    node.agent.answer = Relapse(well)
    assert node.check("--return").startswith("not resumed (the agent reports problem")
    assert node.state.endswith("+DRAIN")


def test_the_agent_cannot_name_what_root_runs(node: Node, tmp_path: Path) -> None:
    """It may run as another user: the burn-in check comes from the
    configuration that root reads.
    """
    node.check()
    node.reports(boot_id="9d20-second", slurm={"proof": ["touch", str(tmp_path / "run-as-root")]})
    assert "no burn-in check is configured" in node.check("--return")
    assert not (tmp_path / "run-as-root").exists()


def test_a_check_under_load_that_failed_is_not_repeated_for_the_same_repair(
    node: Node, tmp_path: Path
) -> None:
    """A timer asks every quarter of an hour: a node that failed must not be loaded until
    it is repaired once more.
    """
    node.check()
    tries = tmp_path / "tries"
    proof = ["sh", "-c", f"echo once >>{tries}; exit 1"]
    node.reports(boot_id="9d20-second", proof=proof)
    assert "exited with 1; resume it manually" in node.check("--return")
    assert "the burn-in check failed after this repair" in node.check("--return")
    node.reports(boot_id="a7c4-third", proof=proof)
    node.check("--return")
    assert tries.read_text() == "once\nonce\n"


def test_a_check_under_load_that_takes_the_process_with_it_has_failed(
    node: Node, tmp_path: Path
) -> None:
    """SIGKILL in the middle of it, and another boot after: neither is a repair."""
    node.check()
    tries = tmp_path / "tries"
    proof = ["sh", "-c", f"echo once >>{tries}; kill -9 $PPID"]
    node.reports(boot_id="9d20-second", proof=proof)
    assert node.check("--return") == ""
    node.reports(boot_id="a7c4-third", proof=proof)
    assert "the burn-in check was interrupted" in node.check("--return")
    assert "the burn-in check failed after this repair" in node.check("--return")
    assert tries.read_text() == "once\n"


def test_a_check_that_was_killed_after_draining_owns_its_drain(node: Node) -> None:
    """It had written down what it meant to do, and not yet what the controller made of it."""
    node.check()
    record = node.agent.root / "gate.json"
    record.write_text(json.dumps(json.loads(record.read_text()) | {"by": "", "slot": ""}))
    assert node.check() == f"drained by Tocsin: {REASON}"
    node.reports(boot_id="9d20-second", proof=["true"])
    assert node.check("--return").startswith("resumed")


def test_a_check_that_was_killed_before_draining_leaves_no_slot_behind(node: Node) -> None:
    """The incident is over when the next one runs: what was taken is given back."""
    node.check()
    people(node, "State=RESUME")
    record = node.agent.root / "gate.json"
    record.write_text(json.dumps(json.loads(record.read_text()) | {"by": "", "slot": ""}))
    node.reports()
    assert node.check() == "ok: no problems found on this node"
    assert (node.cluster.reservations("tocsin_slot_"), record.exists()) == ([], False)


def test_a_slot_that_the_node_holds_already_is_used(node: Node) -> None:
    """Killed between taking its slot and draining, a check takes no second one."""
    node.cluster.run(
        "scontrol", "create", "reservation", (
            "ReservationName=tocsin_slot_1"
        ), f"Nodes={node.name}", "StartTime=now+3650days",
        "Duration=1", "Users=root", "Flags=OVERLAP,IGNORE_JOBS",
    )  # fmt: skip
    assert node.check().startswith("drained")
    assert node.cluster.reservations("tocsin_slot_") == ["tocsin_slot_1"]


def test_a_busy_node_is_not_drained_for_a_ticket_and_is_for_a_page(
    cluster: Slurm, tmp_path: Path
) -> None:
    """A page lets running jobs finish; a ticket waits until there are none."""
    node = Node(cluster, tmp_path)
    with node.agent:
        job = cluster.submit("sleep 60", "--gres=gpu:1", "--nodelist=gpu01")
        until(lambda: cluster.job_state(job) == "RUNNING", what="the job to run")
        node.reports(LOST | {"severity": "ticket"}, slurm={"severity": "ticket"})
        assert "jobs are running, and a ticket can wait" in node.check()
        node.reports(LOST, slurm={"severity": "ticket"})
        assert node.check().startswith("drained gpu01")
        assert cluster.job_state(job) == "RUNNING"
        assert "DRAIN" in node.state
        cluster.run("scancel", job)


def test_a_node_in_a_maintenance_reservation_is_left_alone(node: Node) -> None:
    """Whoever planned it knows what the node is going through; its agent is told until it is over,
    also while it is blind, as it often is then.
    """
    node.cluster.run(
        "scontrol", "create", "reservation", (
            "ReservationName=works"
        ), f"Nodes={node.name}", "StartTime=now", "Duration=60", "Users=root",
        "Flags=MAINT,IGNORE_JOBS",
    )  # fmt: skip
    until(lambda: "MAINT" in node.state, what="the reservation to begin")
    assert "(it is maint" in node.check()
    node.reports(verdict="unknown", reason="no fresh readings of gpu")
    assert node.check("--maintenance") == f"out of service: {REASON_OF_WORKS}"
    assert (node.agent.asked[-1]["on"], node.agent.asked[-1]["reason"]) == (True, REASON_OF_WORKS)
    node.cluster.run("scontrol", "delete", "ReservationName=works")
    until(lambda: "MAINT" not in node.state, what="the reservation to end")
    node.reports(out_of_service=REASON_OF_WORKS)
    assert node.check("--maintenance") == "back in service: its maintenance reservation is over"
    assert node.agent.asked[-1]["on"] is False


@pytest.mark.parametrize(
    "problem",
    [
        LOST | {"acknowledged": True},
        LOST | {"severity": "ticket"},
        LOST | {"action": "RESTART_APP"},
        LOST | {"action": "NONE"},
    ],
    ids=["taken on by somebody", "a ticket", "the job's own fault", "nothing to be done"],
)
def test_what_is_no_reason_to_drain(node: Node, problem: dict[str, Any]) -> None:
    """Only a page that needs the node, and that nobody has taken on."""
    node.reports(problem)
    assert node.check().startswith("nothing to drain for")
    assert node.state == "IDLE"


def test_a_hostile_summary_cannot_add_words_for_slurm(node: Node) -> None:
    """Names and summaries may quote a kernel log: what Slurm's tools read as theirs
    becomes a question mark.
    """
    node.reports(LOST | {"summary": 'x" State=RESUME\n| ; \x1b[31m é'})
    node.check()
    assert node.state.endswith("+DRAIN")
    assert node.reason == REASON.partition("The driver")[0] + "x? State?RESUME?? ; ?[31m ?"


def test_a_return_knows_the_node_by_the_name_that_it_was_drained_by(node: Node) -> None:
    """A timer has no $SLURMD_NODENAME, and the host may be called otherwise."""
    node.check()
    node.reports(boot_id="9d20-second", proof=["true"])
    assert node.check("--return", environ={"SLURMD_NODENAME": ""}).startswith("resumed gpu01")


def test_the_environment_of_who_asks_changes_nothing(node: Node) -> None:
    """Another form of time would disown our drain, another cluster or partition would
    be the wrong one to ask.
    """
    node.check()
    node.reports(boot_id="9d20-second", proof=["true"])
    elsewhere = {
        "SLURM_TIME_FORMAT": "relative",
        "SLURM_CLUSTERS": "nowhere",
        "SINFO_PARTITION": "nowhere",
    }
    assert node.check("--return", environ=elsewhere).startswith("resumed gpu01")


def test_the_health_of_a_well_node_costs_the_controller_nothing(node: Node) -> None:
    """Two thousand nodes ask every few minutes: without a problem no Slurm command is started."""
    node.agent.answer = document(parts=ALL)
    argv = [
        sys.executable,
        "-c",
        PROGRAM,
        "check",
        "--agent",
        str(node.agent.root),
        "--format",
        "slurm",
    ]
    ran = subprocess.run(
        argv,
        env={"PATH": "", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert ran.stdout == "tocsin: ok: no problems found on this node\n"
