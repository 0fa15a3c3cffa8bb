"""Owners of jobs in ``web.tenants``: exact names, and users whom a password proves."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from collector.cli import agent
from collector.config import owners
from collector.config.load import Inputs, load
from collector.config.raw_setting import ConfigError
from tests.sources import ROOT

HASH = "$2y$04$X0h1gDsPszWURQaxFh.zoubFi6DXncSjhoQNJgRrnGs7EsimhC7zG"


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "ada", ":ada", "user:", "namespace:", "group:ada", "User:ada", "user: ada"),
        *("*:ada", "user:*", "user:a*", "* user:ada", "**", "namespace:Ml", "namespace:a_b"),
        *("namespace:-a", "user:a,b", "user:../x", "user:ad\u0430", "user:-x"),
    ],
)
def test_what_is_no_exact_name_is_refused(text: str) -> None:
    """Nobody may believe that a pattern, or another kind, had an effect."""
    with pytest.raises(ValueError, match=r"expected user:NAME|names no owner"):
        owners.parse(text)


def test_an_account_is_refused_with_the_reason() -> None:
    """It is what the job's environment says."""
    with pytest.raises(ValueError, match="environment: name its users"):
        owners.parse("user:ada account:ml")


def test_the_example_of_the_page_is_good() -> None:
    """docs/security.md."""
    page = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```yml\n(.*?)```", page, re.DOTALL)
    tenants = yaml.safe_load(example)["web"]["tenants"]
    assert {user: owners.parse(text) for user, text in tenants.items()} == {
        "ada": {"user:ada"},
        "vision": {"namespace:vision", "user:bob"},
        "prometheus": None,
    }


def problems(tmp_path: Path, web: Mapping[str, object], users: tuple[str, ...] = ("ada",)) -> str:
    """What is wrong with a section ``web``; empty: nothing."""
    (tmp_path / "web.yml").write_text(
        json.dumps({"basic_auth_users": dict.fromkeys(users, HASH)} if users else {})
    )
    file = tmp_path / "tocsin.yaml"
    file.write_text(json.dumps({"web": web}))
    try:
        load(Inputs(file=str(file)))
    except ConfigError as error:
        return str(error)
    return ""


def test_tenants_need_passwords(tmp_path: Path) -> None:
    """Without them nobody is anybody, and everybody would see everything."""
    tenants = {"ada": "user:ada"}
    file = str(tmp_path / "web.yml")
    assert problems(tmp_path, {"tenants": tenants, "config_file": file}) == ""
    assert "needs basic_auth_users" in problems(tmp_path, {"tenants": tenants})
    without = problems(tmp_path, {"tenants": tenants, "config_file": file}, ())
    assert "web.tenants: ada: is no user of basic_auth_users" in without
    named = problems(tmp_path, {"tenants": {"Ada": "user:ada"}, "config_file": file})
    assert "Ada: is no user of basic_auth_users" in named
    wrong = problems(tmp_path, {"tenants": {"ada": "ada"}, "config_file": file})
    assert "web.tenants: ada: 'ada': expected user:NAME" in wrong


def test_an_agent_does_not_start_with_tenants(tmp_path: Path) -> None:
    """Its pages show the whole node: a setting without effect would be a leak."""
    web = {"tenants": {"ada": "user:ada"}, "config_file": str(tmp_path / "web.yml")}
    assert problems(tmp_path, web) == ""
    with pytest.raises(ConfigError, match=r"web\.tenants: is for the gateway"):
        agent.loaded(Inputs(file=str(tmp_path / "tocsin.yaml")))
