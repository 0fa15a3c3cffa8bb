"""Routes and inhibitions, in a real Alertmanager: one incident wakes one person once, and no alert
mutes what it does not explain.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from detectors.faults import FAULTS
from pipeline.child import run
from rules.build import alerts
from tests.parts import VERSIONS, Part
from tests.rules.alertmanager import CONFIG, Alertmanager, Receivers
from tests.wait import PATIENCE_S, until

pytestmark = pytest.mark.integration

RULES = {alert.name: alert.rule()["labels"] for alert in alerts()}
N1 = {"cluster": "c1", "node": "n1", "instance": "n1:9400"}
N2 = {"cluster": "c1", "node": "n2", "instance": "n2:9400"}
LEAF1, LEAF2 = {"fault_domain": "leaf1"}, {"fault_domain": "leaf2"}


def alert(name: str, id_: str, **labels: str) -> dict[str, str]:
    """An alert of ours as Prometheus would send it; ``id`` tells it apart in the test."""
    return {"alertname": name, "id": id_, **RULES[name], **labels}


def of_node(name: str, fault: str) -> dict[str, str]:
    """An alert whose root is the node, of a class of faults."""
    root = {"root_kind": "node", "root_device": "n1", "scope": "node", "class": fault}
    return alert(name, "a", **root, **N1)


@pytest.fixture(scope="module")
def receivers() -> Iterator[Receivers]:
    """The receivers of all tests of this file."""
    listening = Receivers()
    yield listening
    listening.close()


@pytest.fixture(params=VERSIONS.values(), ids=[*VERSIONS])
def part(request: pytest.FixtureRequest) -> Part:
    """Where Alertmanager and amtool come from: the oldest version, then the newer one."""
    source: Part = request.param
    return source


@pytest.fixture
def alertmanager(tmp_path: Path, receivers: Receivers, part: Part) -> Iterator[Alertmanager]:
    """A fresh one."""
    receivers.sent.clear()
    server = Alertmanager(tmp_path, receivers, part)
    yield server
    server.stop()


PORT = {"root_kind": "ib_port", "root_device": "0x1", "class": "ib/link_down"}
EXPLAINS = alert("TocsinFleetExplains", "a", level="page", bus_cluster="b1", **PORT, **N1)

# What mutes what: (source, target, muted). Two alerts on their own, whatever else stands.
MUTES = [
    (
        "worse of one family",
        alert("RawGpuHwThermalSlowdown", "a", gpu_uuid="g1", **N1),
        alert("RawGpuNearSlowdown", "b", gpu_uuid="g1", **N1),
        True,
    ),
    (
        "another GPU",
        alert("RawGpuHwThermalSlowdown", "a", gpu_uuid="g1", **N1),
        alert("RawGpuNearSlowdown", "b", gpu_uuid="g2", **N1),
        False,
    ),
    (
        "another port of the node",
        alert("TocsinFabric", "a", **PORT, **N1),
        alert("TocsinFabricTicket", "b", **(PORT | {"root_device": "0x2"}), **N1),
        False,
    ),
    (
        "a lesser fault of the same port",
        alert("TocsinFabric", "a", **PORT, **N1),
        alert("TocsinFabricTicket", "b", **(PORT | {"class": "ib/errors"}), **N1),
        True,
    ),
    (
        "another family",
        alert("RawGpuHwThermalSlowdown", "a", gpu_uuid="g1", **N1),
        alert("RawGpuPowerLimitLow", "b", gpu_uuid="g1", **N1),
        False,
    ),
    (
        "another node",
        alert("RawGpuRowRemapFailed", "a", gpu_uuid="g1", **N1),
        alert("RawGpuRowRemapPending", "b", gpu_uuid="g2", **N2),
        False,
    ),
    (
        "a lost GPU speaks for itself",
        alert("RawGpuLost", "a", gpu_uuid="g1", **N1),
        alert("RawGpuPcieReplays", "b", gpu_uuid="g1", **N1),
        True,
    ),
    (
        "and not for its peer",
        alert("RawGpuLost", "a", gpu_uuid="g1", **N1),
        alert("RawGpuPcieReplays", "b", gpu_uuid="g2", **N1),
        False,
    ),
    (
        "an incident explains the raw alert",
        alert(
            "TocsinGpuXid", "a", gpu_uuid="g1", root_kind="gpu", root_device="g1", scope="gpu", **N1
        ),
        alert("RawGpuXidReset", "b", gpu_uuid="g1", **(N1 | {"instance": "n1:9401"})),
        True,
    ),
    (
        "a switch explains its ports",
        alert(
            "TocsinFabric", "a", root_kind="switch", root_device="s1", scope="switch", **N1, **LEAF1
        ),
        alert("RawIbPortDown", "b", device="mlx5_0", port="1", **N2, **LEAF1),
        True,
    ),
    (
        "a node without a driver explains its GPUs",
        of_node("TocsinGpuLost", "gpu_lost"),
        alert("TocsinGpuXid", "b", scope="gpu", gpu_uuid="g1", **N1),
        True,
    ),
    (
        "a job that stands still explains no dead GPU of its node",
        of_node("TocsinJobStalled", "hang/host_stall"),
        alert("TocsinGpuLost", "b", scope="gpu", gpu_uuid="g1", **N1),
        False,
    ),
    *(
        (
            f"{name} explains no dead GPU of a node",
            of_node(name, fault),
            alert("TocsinGpuLost", "b", scope="gpu", gpu_uuid="g1", **N1),
            False,
        )
        for name, fault in (
            ("TocsinStorage", "storage/server"),
            ("TocsinHost", "host_hardware/uncorrected"),
            ("TocsinStraggler", "straggler/node"),
        )
    ),
    (
        "and no other switch's",
        alert(
            "TocsinFabric", "a", root_kind="switch", root_device="s1", scope="switch", **N1, **LEAF1
        ),
        alert("RawIbPortDown", "b", device="mlx5_0", port="1", **N2, **LEAF2),
        False,
    ),
    (
        "without a fault domain nothing is explained by a switch",
        alert("TocsinFabric", "a", root_kind="switch", root_device="s1", scope="switch", **N1),
        alert("RawIbPortDown", "b", device="mlx5_0", port="1", **N2),
        False,
    ),
    (
        "the gateway explains an incident of an agent",
        EXPLAINS,
        alert("TocsinFabric", "b", **PORT, **N1),
        True,
    ),
    (
        "and not another one of the same node",
        EXPLAINS,
        alert("TocsinFabric", "b", **(PORT | {"root_device": "0x2"}), **N1),
        False,
    ),
    (
        "nor another fault of the same port",
        EXPLAINS,
        alert("TocsinFabric", "b", **(PORT | {"class": "ib_flap"}), **N1),
        False,
    ),
    (
        "nor the same port of another node",
        EXPLAINS,
        alert("TocsinFabric", "b", **PORT, **N2),
        False,
    ),
    (
        "nor a page where it explains a ticket",
        EXPLAINS | {"level": "ticket"},
        alert("TocsinFabric", "b", **PORT, **N1),
        False,
    ),
    (
        "a ticket that it explains",
        EXPLAINS | {"level": "ticket"},
        alert("TocsinFabricTicket", "b", **PORT, **N1),
        True,
    ),
    (
        "and never its own alert",
        EXPLAINS,
        alert("TocsinFleetIncident", "b", bus_cluster="b1", **PORT),
        False,
    ),
    (
        "without a gateway nobody needs the bus",
        alert("TocsinFleetNoLeader", "a", bus_cluster="b1"),
        alert("TocsinBusDisconnected", "b", bus_cluster="b1", **N1),
        True,
    ),
    (
        "but in another cluster",
        alert("TocsinFleetNoLeader", "a", bus_cluster="b1"),
        alert("TocsinBusDisconnected", "b", bus_cluster="b2", **N1),
        False,
    ),
    (
        "a page of the gateway mutes no ticket about something else",
        alert("TocsinFleetIncident", "a", bus_cluster="b1", **PORT),
        alert(
            "TocsinFleetIncidentTicket", "b", bus_cluster="b1", **(PORT | {"root_device": "0x2"})
        ),
        False,
    ),
    (
        "an agent that does not respond is reported once",
        alert("TocsinAgentDown", "a", job="tocsin", **N1),
        alert("RawGpuExporterDown", "b", job="tocsin", **N1),
        True,
    ),
    (
        "and not for another exporter of the node",
        alert("TocsinAgentDown", "a", job="tocsin", **N1),
        alert("RawGpuExporterDown", "b", job="dcgm", **N1),
        False,
    ),
    (
        "maintenance",
        alert("TocsinNodeMaintenance", "a", **N1),
        alert("RawGpuLost", "b", gpu_uuid="g1", **N1),
        True,
    ),
    (
        "maintenance of another node",
        alert("TocsinNodeMaintenance", "a", **N1),
        alert("RawGpuLost", "b", gpu_uuid="g1", **N2),
        False,
    ),
    (
        "maintenance reaches the node's other exporters",
        alert("TocsinNodeMaintenance", "a", **N1),
        alert("RawIbPortDown", "b", device="mlx5_0", port="1", **(N1 | {"instance": "n1:9100"})),
        True,
    ),
]


def test_amtool_takes_the_file(part: Part) -> None:
    """The configuration is valid for Alertmanager's own tool."""
    checked = run(
        [part("amtool", "prometheus-alertmanager"), "check-config", str(CONFIG)],
        timeout_s=PATIENCE_S,
    )
    assert checked.returncode == 0, checked.stderr.decode()


def test_alertmanager_has_nothing_to_warn_of(alertmanager: Alertmanager) -> None:
    """No repeat_interval is longer than it remembers (--data.retention, 120 h by default)."""
    assert "level=warn" not in alertmanager.log.read_text(encoding="utf-8").lower()


@pytest.mark.parametrize("name", sorted(RULES))
def test_every_alert_has_its_receiver(name: str, part: Part) -> None:
    """Critical alerts wake the pager, warnings never do; the watchdog has its own listener;
    RMAs make a ticket as well.
    """
    given = {"alertname": name} | RULES[name]
    labels = [f"{key}={value}" for key, value in given.items() if "{{" not in value]
    tool = part("amtool", "prometheus-alertmanager")
    said = (
        run(
            [tool, "config", "routes", "test", f"--config.file={CONFIG}", *labels],
            timeout_s=PATIENCE_S,
        )
        .stdout.decode()
        .split()
    )
    reached = {receiver for word in said for receiver in word.split(",")}
    severity = RULES[name]["severity"]
    assert ("pager" in reached) == (severity == "critical")
    assert ("ticket" in reached) == (
        RULES[name]["action"] == "rma"
        or (severity == "warning" and RULES[name]["component"] != "pipeline")
    )
    assert reached - {"pager", "ticket", "automation"} == {
        "info": {"deadman"} if name == "TocsinWatchdog" else {"nobody"},
        "warning": {"chat"} if RULES[name]["component"] == "pipeline" else set(),
    }.get(severity, set())


@pytest.mark.parametrize("case", MUTES, ids=lambda case: case[0])
def test_an_alert_mutes_only_what_it_explains(
    case: tuple[str, dict[str, str], dict[str, str], bool], alertmanager: Alertmanager
) -> None:
    """The target is muted exactly where the source explains it; the source never is."""
    _, source, target, muted = case
    alertmanager.fire([source, target])
    until(lambda: len(alertmanager.muted()) == 2, "both alerts")
    assert alertmanager.muted() == {"a": False, "b": muted}


def test_a_burst_of_one_incident_wakes_one_person_once(
    alertmanager: Alertmanager, receivers: Receivers
) -> None:
    """One root device and class: one message of the pager, whatever else the same GPU makes fire; a
    second node has its own.
    """
    incident = {
        "root_kind": "gpu",
        "root_device": "g1",
        "class": "xid",
        "scope": "gpu",
        "gpu_uuid": "g1",
    }
    burst = [
        alert("TocsinGpuXid", "a", **incident, **N1),
        alert("RawGpuXidReset", "b", gpu_uuid="g1", xid="79", **N1),
        alert("RawGpuUncorrectableEcc", "c", gpu_uuid="g1", **N1),
        alert("RawGpuPcieReplays", "d", gpu_uuid="g1", **N1),
    ]
    alertmanager.fire(burst)
    until(lambda: receivers.of("pager"), "the page")
    alertmanager.fire(
        [
            *burst,
            alert(
                "TocsinGpuXid", "e", **(incident | {"root_device": "g9", "gpu_uuid": "g9"}), **N2
            ),
        ]
    )
    until(lambda: len(receivers.of("pager")) == 2, "the page of the other node")
    assert [
        [one["labels"]["id"] for one in message["alerts"]] for message in receivers.of("pager")
    ] == [["a"], ["e"]]


def test_two_clusters_of_the_bus_are_two_messages(
    alertmanager: Alertmanager, receivers: Receivers
) -> None:
    """A leaf switch of the same name is in each."""
    leaf = {"root_kind": "switch", "root_device": "leaf1", "class": "ib/switch_down"}
    alertmanager.fire(
        [alert("TocsinFleetIncident", each, bus_cluster=each, **leaf) for each in ("b1", "b2")]
    )
    until(lambda: len(receivers.of("pager")) == 2, "two messages")


@pytest.mark.parametrize(
    ("name", "receiver", "fault"),
    [
        ("TocsinJobStalled", "pager", "hang/host_stall"),
        ("TocsinJobStalledTicket", "ticket", "hang/host_stall"),
        ("TocsinStorage", "pager", "storage/server"),
        ("TocsinStorageTicket", "ticket", "storage/server"),
    ],
)
def test_a_cause_outside_the_nodes_that_each_tells_of_itself_is_one_message(
    name: str, receiver: str, fault: str, alertmanager: Alertmanager, receivers: Receivers
) -> None:
    """The storage hangs: an agent sees its own node idle, or the file server that it waits for, and
    nobody is called once per node; a rank, or a job, that is to blame has its own.
    """
    stall = {"root_kind": "node", "scope": "node", "class": fault}
    nodes = [
        {
            "cluster": "c1",
            "node": f"n{n}",
            "instance": f"n{n}:9400",
            "fault_domain": f"rack{n // 4}",
        }
        for n in range(16)
    ]
    alerts_of_all = [
        alert(name, where["node"], root_device=where["node"], **stall, **where) for where in nodes
    ]
    jobs = [
        alert(
            name,
            job,
            root_kind="job",
            root_device=job,
            scope="job",
            **{"class": "hang/undecided"},
            **where,
        )
        for job, where in (("job 7", N1), ("job 8", N2))
    ]
    rank = alert(
        name,
        "rank",
        root_kind="gpu",
        root_device="g1",
        scope="gpu",
        gpu_uuid="g1",
        **{"class": "hang/rank_stuck"},
        **N1,
    )
    alertmanager.fire([*alerts_of_all, *jobs, rank])
    until(lambda: len(receivers.of(receiver)) == 4, "four messages")
    sent = sorted(
        sorted(one["labels"]["id"] for one in message["alerts"])
        for message in receivers.of(receiver)
    )
    assert sent == sorted(
        [sorted(where["node"] for where in nodes), ["job 7"], ["job 8"], ["rank"]]
    )


@pytest.mark.parametrize("severity", ["critical", "warning"])
def test_what_an_application_did_is_its_owners(severity: str, part: Part) -> None:
    """Each class whose origin is the application reaches the owner's receiver and no other; no
    other class does.
    """
    tool = part("amtool", "prometheus-alertmanager")
    classes = {name: fault for name, fault in FAULTS.items() if fault.severity != "record"}
    for name, fault in classes.items():
        labels = ["alertname=TocsinX", f"severity={severity}", "component=node", f"class={name}"]
        argv = [tool, "config", "routes", "test", f"--config.file={CONFIG}", *labels]
        reached = run(argv, timeout_s=PATIENCE_S).stdout.decode().replace(",", " ").split()
        assert (reached == ["owner"]) == (fault.origin == "application"), name
        assert "owner" not in reached or len(reached) == 1, name
