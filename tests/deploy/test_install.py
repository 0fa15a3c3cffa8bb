"""docs/install.md on a booted systemd: every command, in the order of the page, and what is
true after each section.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.deploy.machine import PACKAGES, Machine, environment, package
from tests.parts import need
from tests.sources import ROOT
from tests.wait import until

pytestmark = [pytest.mark.integration, pytest.mark.root]

SECTION = re.compile(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)

# Asked after each section.
QUESTIONS = {
    "state": "systemctl show -P ActiveState tocsin",
    "enabled": "systemctl is-enabled tocsin",
    "pid": "systemctl show -P MainPID tocsin",
    "status": "systemctl show -P StatusText tocsin",
    "listening": "ss -Hltnp | awk '/pid='$(systemctl show -P MainPID tocsin)',/ {print $4}'",
    "version": "dpkg-query -W -f '${Version}' tocsin",
    "kept": "ls -d /etc/tocsin /var/lib/tocsin* || true",
    "user": "stat -c %U /proc/$(systemctl show -P MainPID tocsin)",
    "capabilities": "awk '/CapEff/ {print $2}' /proc/$(systemctl show -P MainPID tocsin)/status",
}


def sections() -> dict[str, str]:
    """Title to the commands of the page."""
    page = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    return {
        title: "".join(BLOCK.findall(text))
        for title, text in SECTION.findall(page)
        if BLOCK.search(text)
    }


class Story:
    """A machine on which the page is being followed.

    ``then`` holds what was true after each section that was run.
    """

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.then: dict[str, dict[str, str]] = {}

    def follow(self, title: str) -> str:
        """Run a section; what it printed."""
        printed = self.machine.said(f'set -eo pipefail; sudo() {{ "$@"; }}\n{sections()[title]}')
        asked = self.machine.said(
            "; ".join(f'echo "{name}="$({question})' for name, question in QUESTIONS.items())
        )
        self.then[title] = dict(line.split("=", 1) for line in asked.splitlines())
        return printed


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """A node with a simulated HGX H100, and packages of two versions at hand."""
    for program, source in (("curl", "curl"), ("openssl", "openssl"), ("ss", "iproute2")):
        need(program, source)
    folder = tmp_path_factory.mktemp("node")
    made = environment(folder)
    for version in ("0.1.0", "0.2.0"):
        package("deb", version, made, folder)
    with Machine(folder) as node:
        node.said(
            f"ln -s {PACKAGES}/*.deb /srv/ && echo TOCSIN_SIMULATE__PROFILE=hgx-h100 "
            ">/etc/default/tocsin"
        )
        yield node


@pytest.fixture(scope="module")
def story(machine: Machine) -> Story:
    """The page, followed up to the scrape."""
    installing = Story(machine)
    for title in ("Install", "Certificates", "Configure"):
        installing.follow(title)
    installing.follow("Start")
    # It serves before it has read everything once: on a busy machine a scrape may be quicker
    # than the first readings.
    ready = (
        "curl -fs --cacert ca.pem --cert prometheus.pem --key prometheus.key "
        "https://localhost:9400/-/ready"
    )
    until(lambda: machine.run(ready).returncode == 0, what="the first readings")
    installing.follow("Scrape")
    return installing


def test_the_page_can_be_followed_from_an_installation_to_a_scrape(story: Story) -> None:
    """Every command succeeds; the package starts nothing by itself, and afterwards an enabled
    service of its own user serves.
    """
    assert story.then["Install"]["state"] == "inactive"
    now = story.then["Scrape"]
    assert (now["state"], now["enabled"], now["user"], now["version"]) == (
        "active",
        "enabled",
        "tocsin",
        "0.1.0",
    )
    assert story.machine.said("grep '^tocsin_gpu_visible' page.prom") == "tocsin_gpu_visible 8.0\n"


def test_the_service_holds_one_capability(story: Story) -> None:
    """CAP_SYSLOG (bit 34 in capability.h) is in effect, and nothing else."""
    assert int(story.then["Start"]["capabilities"], 16) == 1 << 34


def test_nothing_listens_but_what_the_configuration_says(story: Story) -> None:
    """One address before and after; and systemd shows it."""
    assert story.then["Start"]["listening"] == "*:9400"
    assert story.then["Start"]["status"].startswith("Serving ")


@pytest.mark.parametrize(
    "who", ["", "--cert node.pem --key node.key"], ids=["nobody", "somebody else"]
)
def test_who_is_not_prometheus_gets_no_answer(story: Story, who: str) -> None:
    """The page promises that a scrape without the right certificate fails."""
    ended = story.machine.run(
        f"curl --silent --show-error --cacert ca.pem {who} https://localhost:9400/metrics"
    )
    assert ended.returncode != 0
    assert ended.stdout == b""


def test_the_gateway_serves_beside_the_agent_and_holds_nothing(story: Story) -> None:
    """As its own unit confines it, also without a bus; its store is its own."""
    story.follow("Gateway")
    machine = story.machine
    main = "$(systemctl show -P MainPID tocsin-gateway)"
    assert machine.said("systemctl show -P ActiveState tocsin-gateway") == "active\n"
    assert machine.said(
        f"stat -c %U /proc/{main}; awk '/CapEff/ {{print $2}}' /proc/{main}/status"
    ) == (f"tocsin\n{0:016x}\n")
    assert machine.said("stat -c '%U %a' /var/lib/tocsin-gateway") == "tocsin 750\n"
    assert "tocsin_fleet_bus_connected 0\n" in machine.said(
        "curl -fs http://127.0.0.1:9401/metrics"
    )
    assert story.then["Gateway"]["state"] == "active"
    machine.said("systemctl stop tocsin-gateway")
    assert machine.said("systemctl show -P Result tocsin-gateway") == "success\n"


def test_a_reload_keeps_the_process(story: Story) -> None:
    """What is reloaded is the configuration; the agent stays, and says that it serves."""
    before = story.then["Scrape"]["pid"]
    story.follow("Reload")
    until(
        lambda: story.machine.said(QUESTIONS["state"]) == "active\n", what="the end of the reload"
    )
    assert story.then["Reload"]["pid"] == before == story.machine.said(QUESTIONS["pid"]).strip()


def test_a_wrong_configuration_fails_the_reload_and_leaves_the_agent_alone(story: Story) -> None:
    """The one who reloads is told at once; the journal names the key; the agent goes on."""
    machine = story.machine
    machine.said("cp /etc/tocsin/config.yaml good.yaml; echo 'webb: {}' >>/etc/tocsin/config.yaml")
    assert machine.run("systemctl reload tocsin").returncode != 0
    assert "webb" in machine.said(
        "journalctl -u tocsin -o cat -n 5; mv good.yaml /etc/tocsin/config.yaml"
    )
    assert machine.said(QUESTIONS["pid"]).strip() == story.then["Scrape"]["pid"]


def probe(
    machine: Machine, name: str, command: str, *, of: str = "tocsin", drop_in: str = ""
) -> str:
    """What a command says that runs once, restricted as the agent, or another unit, is."""
    unit = f"/run/systemd/system/{name}.service"
    machine.said(
        "sed -E 's/^Type=.*/Type=oneshot/; s/^Restart=.*//; s/^(PartOf|StopWhen).*//; "
        f"s#^ExecStart=.*#ExecStart=-{command}#' /usr/lib/systemd/system/{of}.service >{unit}"
    )
    if drop_in:
        machine.said(f"install -D -m 644 /opt/tocsin/share/{drop_in}.conf {unit}.d/more.conf")
    return machine.said(
        f"systemctl daemon-reload; systemctl start {name}; journalctl "
        f"_SYSTEMD_UNIT={name}.service -o cat"
    )


def test_devices_are_open_by_number_before_their_driver_is_there(story: Story) -> None:
    """A GPU's device file answers that there is no driver (ENXIO), where another
    device is denied (EPERM).
    """
    story.machine.said("mknod -m 666 /var/gpu c 195 3; mknod -m 666 /var/other c 194 3")
    said = probe(story.machine, "devices", "/bin/cat /var/gpu /var/other")
    assert "/var/gpu: No such device or address" in said
    assert "/var/other: Operation not permitted" in said


@pytest.mark.parametrize(
    ("of", "drop_in", "enters"),
    [
        ("tocsin", "", False),
        ("tocsin", "tocsin-full", False),
        ("tocsin-helper", "", False),
        ("tocsin-helper", "tocsin-helper-namespaces", True),
    ],
)
def test_only_a_helper_with_its_drop_in_may_enter_network_namespaces(
    story: Story, of: str, drop_in: str, enters: bool
) -> None:
    """RAS of jobs in pods is asked from inside their namespace (setns); the agent has no way
    there in any profile.
    """
    command = "/usr/bin/nsenter --net=/proc/self/ns/net /bin/echo entered"
    name = f"namespace-{of}{drop_in}"
    assert ("entered" in probe(story.machine, name, command, of=of, drop_in=drop_in)) is enters


HELD = "awk '/CapEff/ {print $2}' /proc/$(systemctl show -P MainPID tocsin-helper)/status"


def test_the_helper_answers_the_agent_and_nobody_else(story: Story) -> None:
    """As its unit confines it, for a process that holds a GPU, whose environment the agent's own
    user cannot read.
    """
    machine = story.machine
    story.follow("Privileges")
    until(
        lambda: machine.run("test -S /run/tocsin-helper/socket").returncode == 0, what="the helper"
    )
    assert int(machine.said(HELD), 16) == 1 << 2 | 1 << 19
    job = "/usr/bin/setpriv --reuid=65001 --clear-groups /bin/sleep 1000"
    pid = machine.said(f"setsid env -i SLURM_JOB_ID=71 {job} >/dev/null 2>&1 & echo $!").strip()
    ask = (
        "from collector.node.helper.client import ask; "
        "from collector.node.helper.protocol import Kind; "
        f"print(ask(Kind.ENVIRON, {pid}).data.decode())"
    )
    agent, member, stranger = (
        machine.run(
            f"setpriv --reuid={user} --regid={group} --clear-groups "
            f'/opt/tocsin/bin/python -c "{ask}"'
        )
        for user, group in (("tocsin", "tocsin"), ("65002", "tocsin"), ("65002", "65002"))
    )
    assert agent.stdout == b"SLURM_JOB_ID=71\n", agent.stderr
    assert b"PermissionError" in member.stderr
    assert b"PermissionError" in stranger.stderr


def test_an_upgrade_and_a_rollback_go_on_with_what_was_kept(story: Story) -> None:
    """The new version runs at once, with the configuration as it was edited;
    so does the old one again.
    """
    story.follow("Upgrade")
    story.follow("Roll back")
    for title, version in (("Upgrade", "0.2.0"), ("Roll back", "0.1.0")):
        assert (story.then[title]["state"], story.then[title]["version"]) == ("active", version)
    assert story.then["Upgrade"]["pid"] != story.then["Roll back"]["pid"]
    assert story.then["Roll back"]["listening"] == "*:9400"


def test_the_full_profile_adds_nothing_to_the_agent(story: Story) -> None:
    """Bits of capability.h: DAC_READ_SEARCH 2 and SYS_PTRACE 19 are the helper's, SYSLOG 34 is the
    agent's; a restart of the agent restarts the helper.
    """
    # For the next test: a watchdog that does not take a minute.
    story.machine.said("mkdir -p /run/systemd/system/tocsin.service.d")
    story.machine.said(
        r"printf '[Service]\nWatchdogSec=5\nRestartSec=0\n' "
        r">/run/systemd/system/tocsin.service.d/quick.conf"
    )
    story.follow("Privileges")
    now = story.then["Privileges"]
    assert int(now["capabilities"], 16) == 1 << 34
    assert now["state"] == "active"
    assert int(story.machine.said(HELD), 16) == 1 << 2 | 1 << 19


def test_an_agent_that_stands_still_is_started_again(story: Story) -> None:
    """The watchdog hears nothing of a stopped process, and systemd puts another in its place."""
    machine = story.machine
    machine.said("systemctl kill --kill-whom=main --signal=STOP tocsin")
    until(
        lambda: machine.said("systemctl show -P NRestarts tocsin") == "1\n",
        what="the watchdog",
    )
    assert "Watchdog timeout" in machine.said("journalctl -u tocsin -o cat")


def test_removal_leaves_what_was_measured_and_purge_leaves_nothing(story: Story) -> None:
    """The two commands of the last section, one after the other."""
    remove, purge = (f"{line}\n" for line in sections()["Remove"].splitlines())
    kept = []
    for command in (remove, purge):
        story.machine.said(f'sudo() {{ "$@"; }}\n{command}')
        kept.append(story.machine.said(QUESTIONS["kept"]).split())
    assert kept == [["/etc/tocsin", "/var/lib/tocsin", "/var/lib/tocsin-gateway"], []]
    assert story.machine.said(
        "ps -C tocsin -o pid= | wc -l; ls /opt | grep -c tocsin || true"
    ).split() == ["0", "0"]
