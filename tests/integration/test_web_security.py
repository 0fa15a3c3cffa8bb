"""The endpoint as a real Prometheus and everybody else on the network meet it: mutual TLS,
passwords, rotation, and what listens at all.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import signal
import ssl
import stat
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import bcrypt
import pytest
import yaml

from collector.cli import main
from tests.agents import AgentProcess
from tests.certificates import Authority, Pair
from tests.integration.test_prometheus import Prometheus
from tests.wait import PATIENCE_S, until

pytestmark = pytest.mark.integration

NAME, USER, PASSWORD = "prometheus.example.com", "prom", "tick"


@dataclass(frozen=True, slots=True)
class Site:
    """An agent under a full web configuration, and the Prometheus of its site; both sides'
    files lie in ``folder``.
    """

    folder: Path
    agent: AgentProcess
    prometheus: Prometheus
    authority: Authority
    client: Pair

    @property
    def health(self) -> str:
        """Address of the listener for probes."""
        found = re.search(r"health on http://([^/\s\"]+)", self.agent.log)
        assert found, self.agent.log
        return found[1]

    def ready(self) -> bool:
        """As a probe of Kubernetes asks, which knows neither certificates nor passwords."""
        connection = http.client.HTTPConnection(self.health, timeout=PATIENCE_S)
        try:
            connection.request("GET", "/-/ready")
            return connection.getresponse().status == 200
        finally:
            connection.close()

    def get(self, path: str, who: Pair | None, *, password: str = PASSWORD) -> tuple[int, bytes]:
        """Status, and the certificate that the server showed; OSError where there is no answer."""
        context = ssl.create_default_context(cafile=str(self.folder / "ca.crt"))
        if who is not None:
            context.load_cert_chain(*who.write(self.folder, "somebody"))
        connection = http.client.HTTPSConnection(
            self.agent.address, timeout=PATIENCE_S, context=context
        )
        try:
            connection.connect()
            assert isinstance(connection.sock, ssl.SSLSocket)
            shown = connection.sock.getpeercert(binary_form=True) or b""
            connection.request(
                "GET",
                path,
                headers={
                    "Authorization": f"Basic {b64encode(f'{USER}:{password}'.encode()).decode()}"
                },
            )
            return connection.getresponse().status, shown
        finally:
            connection.close()

    def trust(self, *authorities: Authority) -> None:
        """Both sides trust these from now on."""
        fresh = self.folder / "ca.new"
        fresh.write_bytes(b"".join(authority.certificate for authority in authorities))
        fresh.replace(self.folder / "ca.crt")


def web_config(folder: Path, client: Authority) -> Path:
    """The agent's configuration."""
    (folder / "ca.crt").write_bytes(client.certificate)
    file = folder / "web.yml"
    content = {
        "tls_server_config": {
            "cert_file": "node.crt",
            "key_file": "node.key",
            "client_auth_type": "RequireAndVerifyClientCert",
            "client_ca_file": "ca.crt",
            "client_allowed_sans": [NAME],
        },
        "basic_auth_users": {USER: bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(6)).decode()},
    }
    file.write_text(yaml.safe_dump(content))
    return file


def jobs(folder: Path, address: str) -> list[dict[str, Any]]:
    """One as it should be, and four that each lack something."""
    trust = {"ca_file": str(folder / "ca.crt"), "server_name": "localhost"}
    ours = trust | {"cert_file": str(folder / "client.crt"), "key_file": str(folder / "client.key")}
    known, guess = {"username": USER, "password": PASSWORD}, {"username": USER, "password": "tock"}
    kinds: dict[str, dict[str, Any]] = {
        "ours": {"tls_config": ours, "basic_auth": known},
        "no-certificate": {"tls_config": trust, "basic_auth": known},
        "no-password": {"tls_config": ours},
        "wrong-password": {"tls_config": ours, "basic_auth": guess},
        "plain": {"scheme": "http"},
    }
    common = {"scheme": "https", "static_configs": [{"targets": [address]}]}
    return [{"job_name": name} | common | keys for name, keys in kinds.items()]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """One agent and one Prometheus for all of these tests; the last of them rotates everything."""
    folder = tmp_path_factory.mktemp("site")
    authority = Authority()
    authority.server().write(folder, "node")
    client = authority.client(NAME)
    client.write(folder, "client")
    (folder / "config.yaml").write_text(
        'web:\n  listen_address: ["127.0.0.1:0"]\n  health_listen_address: ["127.0.0.1:0"]\n'
        f"  config_file: {web_config(folder, authority)}\n"
    )
    flags = ("--simulate", "hgx-h100", "--config.file", str(folder / "config.yaml"))
    with AgentProcess(folder / "s", *flags, address="") as agent:
        agent.until(lambda: "health on" in agent.log, "the agent to listen")
        scrape = {
            "global": {"scrape_interval": "1s"},
            "scrape_configs": jobs(folder, agent.address),
        }
        prometheus = Prometheus(folder, config=scrape)
        try:
            made = Site(folder, agent, prometheus, authority, client)
            until(made.ready, "the agent to be ready")
            yield made
        finally:
            prometheus.stop()


def test_a_real_prometheus_scrapes_with_its_client_certificate_and_password(site: Site) -> None:
    """Up, with the series of eight GPUs."""
    until(lambda: site.prometheus.values('up{job="ours"}') == [1.0], "a scrape")
    until(
        lambda: site.prometheus.values('count(DCGM_FI_DEV_GPU_TEMP{job="ours"})') == [8.0],
        "eight GPUs",
    )


@pytest.mark.parametrize(
    ("job", "why"),
    [
        ("no-certificate", "tls|certificate|EOF|reset|broken pipe|server closed"),
        ("no-password", "401 Unauthorized"),
        ("wrong-password", "401 Unauthorized"),
        ("plain", "malformed HTTP|EOF|reset"),
    ],
)
def test_a_real_prometheus_without_one_of_them_gets_nothing(site: Site, job: str, why: str) -> None:
    """Neither a certificate alone nor a password alone is enough; nor is asking in the clear."""

    def error() -> str:
        data = site.prometheus.ask("targets") or {"activeTargets": []}
        return next(
            (str(t["lastError"]) for t in data["activeTargets"] if t["labels"]["job"] == job), ""
        )

    assert re.search(why, until(error, f"an error of {job}"))
    assert site.prometheus.values(f'up{{job="{job}"}}') == [0.0]
    assert site.prometheus.values(f'count({{job="{job}", __name__=~"tocsin_.*|DCGM_.*"}})') == []


def test_another_name_on_a_good_certificate_is_refused(site: Site) -> None:
    """The authority signs for others too."""
    with pytest.raises((OSError, http.client.HTTPException)):
        site.get("/metrics", site.authority.client("other.example.com"))


def credentials(site: Site) -> list[str]:
    """Options of a client that may ask."""
    (site.folder / "password").write_text(f"{USER}:{PASSWORD}\n")
    files = {
        "--ca": "ca.crt",
        "--cert": "client.crt",
        "--key": "client.key",
        "--password-file": "password",
    }
    return [word for option, name in files.items() for word in (option, str(site.folder / name))]


def check(site: Site, capsys: pytest.CaptureFixture[str], *options: str) -> str:
    """The verdict of ``tocsin check``, and its reason."""
    main(["check", "--agent", f"https://{site.agent.address}", *options])
    said = json.loads(capsys.readouterr().out)
    return f"{said['verdict']}: {said['reason']}"


def test_check_asks_an_agent_as_it_wants_to_be_asked(
    site: Site, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With its authority, a certificate and a password, and past whatever proxy
    stands in the environment.
    """
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:1")
    assert re.match("ok|problem", check(site, capsys, *credentials(site)))


@pytest.mark.parametrize(
    ("option", "why"),
    [
        ("--ca", "certificate verify failed"),
        ("--cert", "certificate required|reset|closed|EOF"),
        ("--password-file", "HTTP 401"),
    ],
)
def test_check_without_one_of_them_is_unknown(
    site: Site, capsys: pytest.CaptureFixture[str], option: str, why: str
) -> None:
    """Not ok, and not a problem of the node; the reason is said."""
    words = credentials(site)
    for one in {option} | ({"--key"} if option == "--cert" else set()):
        at = words.index(one)
        del words[at : at + 2]
    assert re.match(rf"unknown: .*({why})", check(site, capsys, *words))


def test_diff_reads_pages_as_it_is_let(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    """The agent's page lacks nothing of its own."""
    page = f"https://{site.agent.address}/metrics"
    assert main(["diff", page, page, *credentials(site)]) == 0
    assert "nothing is missing" in capsys.readouterr().out


def test_nothing_listens_beyond_what_the_configuration_says(site: Site) -> None:
    """The agent and its children, seen from outside: two TCP ports of the loopback, no UDP, and the
    socket for its own user.
    """
    everybody = {
        pid: Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        for pid in family(site.agent.process.pid)
    }
    # Not the simulated node: its job answers NCCL's questions on a port, as a real job would.
    ours = {pid for pid, words in everybody.items() if b"simulate" not in words}
    assert ours >= {site.agent.process.pid}
    assert len(ours) > 1, "the child that holds the driver is one of us"
    found = set(sockets(ours))
    assert {(kind, address) for kind, address in found if kind != "unix"} == {
        ("tcp", site.agent.address),
        ("tcp", site.health),
    }
    assert {Path(address).name for kind, address in found if kind == "unix"} == {"control.sock"}
    assert stat.S_IMODE((site.agent.storage / "control.sock").stat().st_mode) == 0o600


def test_what_the_agent_keeps_is_nobody_elses_to_read(site: Site) -> None:
    """Whoever has an account on the node finds neither whose jobs ran nor what was wrong: whatever
    umask the agent was started with.
    """
    modes = {}
    for path in [site.agent.storage, *site.agent.storage.rglob("*")]:
        with contextlib.suppress(FileNotFoundError):  # on its way to its last name
            modes[path] = stat.filemode(path.lstat().st_mode)
    assert len(modes) > 10
    assert {
        path: mode for path, mode in modes.items() if mode[-3:] != "---" and mode[0] != "l"
    } == {}


def test_a_configuration_cut_off_before_its_web_file_opens_nothing(site: Site) -> None:
    """A reload in the moment in which config.yaml is written: TLS, certificates and passwords stay,
    the log and the metric say why.
    """
    whole = site.folder / "config.yaml"
    text = whole.read_text()
    try:
        whole.write_text(text[: text.index("  health_listen_address")])
        site.agent.process.send_signal(signal.SIGHUP)
        site.agent.until(lambda: "web.config_file: TLS is gone" in site.agent.log, "the refusal")
        with pytest.raises((OSError, http.client.HTTPException)):
            site.agent.get()  # in the clear
        assert site.get("/-/healthy", site.client, password=PASSWORD[:1])[0] == 401
        assert site.get("/-/healthy", site.client)[0] == 200
    finally:
        whole.write_text(text)


def test_everything_is_rotated_while_prometheus_scrapes(site: Site) -> None:
    """A new authority, then new certificates on both sides, then the old authority goes: no scrape
    fails, and the old certificate is refused.
    """
    _, before = site.get("/-/healthy", site.client)
    began = site.prometheus.values('count_over_time(up{job="ours"}[1h])')[0]
    successor = Authority("successor")
    site.trust(site.authority, successor)
    until(
        lambda: site.agent.log.count("web configuration reloaded") >= 1,
        "the new authority",
    )
    successor.server().write(site.folder, "node")
    fresh = successor.client(NAME)
    fresh.write(site.folder, "client")

    def shown() -> bool:
        return site.get("/-/healthy", site.client)[1] != before

    until(shown, "the new certificate")
    site.trust(successor)

    def refused() -> bool:
        try:
            site.get("/-/healthy", site.client)
        except OSError:
            return True
        return False

    until(refused, "the old certificate to be refused")
    assert site.get("/-/healthy", fresh)[0] == 200
    now = site.prometheus.values('count_over_time(up{job="ours"}[1h])')[0]
    until(
        lambda: site.prometheus.values('count_over_time(up{job="ours"}[1h])')[0] >= now + 2,
        "two more scrapes",
    )
    assert now > began
    assert site.prometheus.values('min_over_time(up{job="ours"}[1h])') == [1.0]


def family(pid: int) -> set[int]:
    """A process and everything it started."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    children = {int(child) for task in tasks for child in (task / "children").read_text().split()}
    return {pid}.union(*(family(child) for child in children))


def sockets(pids: set[int]) -> Iterator[tuple[str, str]]:
    """What these processes listen on: protocol, and address or path."""
    inodes = {target for pid in pids for target in descriptors(pid)}
    for protocol, states in (("tcp", {"0A"}), ("tcp6", {"0A"}), ("udp", {"07"}), ("udp6", {"07"})):
        for row in Path(f"/proc/net/{protocol}").read_text().splitlines()[1:]:
            cells = row.split()
            if f"socket:[{cells[9]}]" in inodes and cells[3] in states:
                host, port = cells[1].split(":")
                address = (
                    ".".join(str(byte) for byte in bytes.fromhex(host)[::-1])
                    if len(host) == 8
                    else host
                )
                yield protocol, f"{address}:{int(port, 16)}"
    for row in Path("/proc/net/unix").read_text().splitlines()[1:]:
        cells = row.split()
        if f"socket:[{cells[6]}]" in inodes and len(cells) > 7:
            yield "unix", cells[7]


def descriptors(pid: int) -> Iterator[str]:
    """What its descriptors are."""
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        try:
            yield str(entry.readlink())
        except OSError:  # it was the one that lists them
            continue
