"""A web configuration while it is in force: rotated, broken, half written."""

from __future__ import annotations

import asyncio
import os
import ssl
from pathlib import Path
from typing import Any

import pytest
import yaml

from collector.config.raw_setting import ConfigError
from collector.config.web.security import WebFile
from collector.web import Web
from pipeline.catalog import agent
from pipeline.clock import SystemClock
from pipeline.guard import Guard
from pipeline.selfmetrics import SelfMetrics
from tests.certificates import Authority
from tests.collector.web.test_server import FakePages
from tests.wait import PATIENCE_S

HASH = "$2y$10$X0h1gDsPszWURQaxFh.zoubFi6DXncSjhoQNJgRrnGs7EsimhC7zG"
AUTHORITY, OTHER = Authority(), Authority("other")
FULL: dict[str, Any] = {
    "tls_server_config": {
        "cert_file": "node.crt",
        "key_file": "node.key",
        "client_auth_type": "RequireAndVerifyClientCert",
        "client_ca_file": "ca.crt",
        "client_allowed_sans": ["prom"],
    },
    "basic_auth_users": {"alice": HASH},
    "rate_limit": {"interval": "1s", "burst": 5},
}


def without(*path: str) -> dict[str, Any]:
    """The full configuration with one key left out."""
    made: dict[str, Any] = {name: dict(section) for name, section in FULL.items()}
    section = made
    for name in path[:-1]:
        section = section[name]
    del section[path[-1]]
    return made


def write(folder: Path, content: dict[str, Any] | str = "") -> Path:
    """The web configuration, put in place at once."""
    fresh = folder / "web.yml.new"
    fresh.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return fresh.replace(folder / "web.yml")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with certificates and a full configuration that names them."""
    AUTHORITY.server().write(tmp_path, "node")
    (tmp_path / "ca.crt").write_bytes(AUTHORITY.certificate)
    write(tmp_path, FULL)
    return tmp_path


def test_files_are_looked_for_beside_the_configuration(folder: Path) -> None:
    """Relative names mean the folder of the file, whatever the process's own folder is."""
    security = WebFile(folder / "web.yml").security
    assert security.context is not None
    assert security.context.verify_mode == ssl.CERT_REQUIRED
    assert (security.names, dict(security.users), security.scheme) == (
        ("prom",),
        {"alice": HASH},
        "https",
    )


def test_nothing_is_read_again_while_nothing_changes(folder: Path) -> None:
    """The context stays the same one."""
    file = WebFile(folder / "web.yml")
    before = file.security
    assert not file.look()
    assert file.security is before


@pytest.mark.parametrize("name", ["web.yml", "node.crt", "node.key", "ca.crt"])
def test_whichever_file_changes_is_taken_anew(folder: Path, name: str) -> None:
    """Also where another file took its place with the same content, as a
    volume of Kubernetes does.
    """
    file = WebFile(folder / "web.yml")
    before = file.security
    (folder / "fresh").write_bytes((folder / name).read_bytes())
    (folder / "fresh").chmod(0o600)
    (folder / "fresh").replace(folder / name)
    assert file.look()
    assert file.security is not before
    assert not file.look()


def test_a_rotation_that_is_half_done_waits_for_the_other_half(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A new certificate before its new key: the old pair serves on, one line says why; with the
    key the new pair is taken.
    """
    file = WebFile(folder / "web.yml")
    before, pair = file.security, AUTHORITY.server()
    (folder / "node.crt").write_bytes(pair.certificate)
    assert [file.look() for _ in range(3)] == [False] * 3
    assert file.security is before
    assert "they do not belong together" in file.error
    assert [record.levelname for record in caplog.records].count("ERROR") == 1
    (folder / "node.key").write_bytes(pair.key)
    assert file.look()
    assert file.error == ""


@pytest.mark.parametrize(
    "content", ["a: [", "tls_server_config:\n  cert_fil: x\n", "basic_auth_users:\n  a: b\n"]
)
def test_a_broken_file_keeps_the_old_one(folder: Path, content: str) -> None:
    """What is in force stays in force, until the file is good again."""
    file = WebFile(folder / "web.yml")
    before = file.security
    write(folder, content)
    assert not file.look()
    assert (file.security, bool(file.error)) == (before, True)
    write(folder, FULL)
    assert file.look()
    assert not file.error


def test_a_file_that_is_gone_keeps_the_old_one(folder: Path) -> None:
    """A volume in mid-swap is no open door."""
    file = WebFile(folder / "web.yml")
    (folder / "web.yml").unlink()
    assert not file.look()
    assert file.security.context is not None
    assert "cannot be read" in file.error


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "TLS is gone"),
        (without("tls_server_config"), "TLS is gone"),
        (without("basic_auth_users"), "passwords are gone"),
        (without("tls_server_config", "client_allowed_sans"), "client_allowed_sans is gone"),
        (
            {
                "tls_server_config": {"cert_file": "node.crt", "key_file": "node.key"},
                "basic_auth_users": {"alice": HASH},
            },
            "client certificates are no longer requested",
        ),
    ],
)
def test_a_running_server_never_asks_for_less(folder: Path, content: Any, said: str) -> None:
    """A file that was caught half written looks just like one that was made
    weaker: that takes a restart.
    """
    file = WebFile(folder / "web.yml")
    before = file.security
    write(folder, content)
    assert not file.look()
    assert file.security is before
    assert said in file.error
    assert WebFile(folder / "web.yml").security is not before  # a start takes it


def web(file: WebFile | None, follows: Web | None = None) -> Web:
    """A server that was not started."""
    pages: Any = FakePages()
    return Web(pages, Guard(SelfMetrics(), SystemClock()), file=file, follows=follows)


def test_a_server_that_follows_another_asks_for_no_less(folder: Path) -> None:
    """A configuration of the agent that no longer names the file, or names one that asks for less,
    is none to take over with.
    """
    full = web(WebFile(folder / "web.yml"))
    with pytest.raises(ConfigError, match=r"web\.config_file: TLS is gone"):
        web(None, follows=full)
    write(folder, without("basic_auth_users"))
    with pytest.raises(ConfigError, match=r"web\.config_file: passwords are gone"):
        web(WebFile(folder / "web.yml"), follows=full)


def test_a_server_that_follows_an_open_one_may_ask_for_everything(folder: Path) -> None:
    """To close a door takes no restart."""
    assert web(WebFile(folder / "web.yml"), follows=web(None)).security.scheme == "https"


def test_more_may_be_asked_for_at_any_time(folder: Path) -> None:
    """From nothing to everything without a restart."""
    write(folder, "")
    file = WebFile(folder / "web.yml")
    assert file.security.scheme == "http"
    write(folder, FULL)
    assert file.look()
    assert file.security.scheme == "https"


def test_a_limit_that_did_not_change_keeps_its_count(folder: Path) -> None:
    """A rotated certificate gives nobody a fresh burst; another limit begins again."""
    file = WebFile(folder / "web.yml")
    before = file.security.bucket
    os.utime(folder / "node.crt", (1, 1))
    assert file.look()
    assert file.security.bucket is before
    write(folder, FULL | {"rate_limit": {"interval": "1s", "burst": 6}})
    assert file.look()
    assert file.security.bucket is not before


def test_a_limit_holds_once_its_file_is_taken_also_where_it_was_refused_before(
    folder: Path,
) -> None:
    """A first try that was rejected for another reason does not switch the limit off."""
    write(folder, without("rate_limit"))
    file = WebFile(folder / "web.yml")
    write(folder, without("basic_auth_users"))
    assert not file.look()
    write(folder, FULL)
    assert file.look()
    assert file.security.bucket is not None


def test_a_configuration_that_everybody_may_write_is_refused(folder: Path) -> None:
    """Whoever can write it can let themselves in."""
    (folder / "web.yml").chmod(0o646)
    with pytest.raises(ConfigError, match="everybody may write it"):
        WebFile(folder / "web.yml")


@pytest.mark.parametrize(("content", "named"), [(FULL, True), (without("basic_auth_users"), False)])
def test_hashes_that_everybody_may_read_are_named(
    folder: Path, content: dict[str, Any], named: bool
) -> None:
    """They can be guessed at leisure elsewhere; a file without secrets may be read by all."""
    notices: list[str] = []
    write(folder, content).chmod(0o644)
    WebFile(folder / "web.yml", notices.append)
    assert [("web.yml" in notice and "may read this secret" in notice) for notice in notices] == [
        True
    ] * named


def test_passwords_in_the_clear_are_served_and_named(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The format allows it; the log says once what it means."""
    write(folder, {"basic_auth_users": {"alice": HASH}})
    file = WebFile(folder / "web.yml")
    os.utime(folder / "web.yml", (1, 1))
    assert file.look()
    assert sum("travel in the clear" in record.message for record in caplog.records) == 1


def test_an_error_of_ours_does_not_end_the_watch(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever goes wrong at one look is counted and said to be wrong; the next look is made."""
    metrics = SelfMetrics()

    class Flawed(WebFile):
        looks = 0

        def look(self) -> bool:
            self.looks += 1
            raise RuntimeError

    async def run() -> float | None:
        monkeypatch.setattr("collector.web.server.LOOK_S", 0)
        pages: Any = FakePages()
        file = Flawed(folder / "web.yml")
        served = Web(
            pages, Guard(metrics, SystemClock()), ["127.0.0.1:0"], file=file, metrics=metrics
        )
        await served.start()
        async with asyncio.timeout(PATIENCE_S):
            while file.looks < 3:  # noqa: ASYNC110 - a thread has no event for it
                await asyncio.sleep(0)
        await served.stop()
        return metrics.value(agent.WEB_CONFIG_SUCCESS)

    assert asyncio.run(run()) == 0
    assert (metrics.value(agent.STAGE_FAILURES, "web", "config", "RuntimeError") or 0) >= 2
