"""Section ``bus``: what cannot work is named before the agent starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from collector.config.bus_checks import bus_problems
from collector.config.settings import Bus
from collector.config.units import Seconds

SERVER = ("tls://nats1.example.com:4222",)


@pytest.mark.parametrize(
    ("bus", "key", "says"),
    [
        (Bus(servers=("nats1:4222",)), "servers", "wanted an address such as tls://"),
        (Bus(servers=("http://nats1",)), "servers", "wanted an address"),
        (Bus(servers=("nats://n1:1,nats://n2:1",)), "servers", "several as a list"),
        (Bus(servers=("nats://a:secret@nats1",)), "servers", "without a password"),
        (Bus(servers=("nats://a:secret@[::1",)), "servers", "'[::1': wanted an address"),
        (Bus(servers=SERVER, cert_file=__file__), "cert_file", "needs the other one too"),
        (Bus(servers=SERVER, key_file=__file__), "key_file", "needs the other one too"),
        (Bus(servers=SERVER, credentials_file="/none"), "credentials_file", "cannot be read"),
        (Bus(servers=SERVER, ca_file="/none"), "ca_file", "/none cannot be read"),
        (Bus(servers=SERVER, period=Seconds(0.1)), "period", "shorter than 1s"),
    ],
)
def test_a_setting_that_cannot_work_is_named(bus: Bus, key: str, says: str) -> None:
    """One problem, at its key, without a secret."""
    (((section, name), problem),) = bus_problems(bus)
    assert (section, name) == ("bus", key)
    assert says in problem
    assert "secret" not in problem


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """With what installs it."""
    monkeypatch.setattr("collector.config.bus_checks.PACKAGES", ("no_such_package",))
    problems = [problem for _, problem in bus_problems(Bus(servers=SERVER))]
    assert problems == ["the package no_such_package is missing: install tocsin[bus]"]


def test_what_can_work_has_no_problem(tmp_path: Path) -> None:
    """Nothing is looked at while nothing is sent."""
    file = tmp_path / "file"
    file.touch()
    sound = Bus(servers=SERVER, ca_file=str(file), cert_file=str(file), key_file=str(file))
    assert [*bus_problems(sound), *bus_problems(Bus(ca_file="/none"))] == []
