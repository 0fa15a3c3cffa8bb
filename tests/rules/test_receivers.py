"""The receivers of rules/receivers in a real Alertmanager: what arrives keeps to the service's own
format and has device, fact, time, action and links.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from tests.parts import VERSIONS, Part, newer
from tests.rules.alertmanager import CONFIG, Alertmanager, Receivers
from tests.rules.inbox import Inbox
from tests.rules.protocols import PAGERDUTY, SLACK, TEAMS
from tests.wait import until

pytestmark = pytest.mark.integration

FOLDER = CONFIG.parent / "receivers"
PARTS = [*VERSIONS.values()]
STARTED = datetime.now(UTC).replace(microsecond=0) - timedelta(minutes=3)


def expected(name: str, file: str, alertname: str) -> dict[str, Any]:
    """An alert as promtool's test of it has it: the text that a Prometheus really makes."""
    tests = yaml.safe_load((CONFIG.parent / "tests" / file).read_text(encoding="utf-8"))["tests"]
    (case,) = [case for case in tests if case["name"].startswith(name)]
    (question,) = [one for one in case["alert_rule_test"] if one["exp_alerts"]]
    (alert,) = question["exp_alerts"]
    return {
        "labels": {"alertname": alertname, **alert["exp_labels"]},
        "annotations": alert["exp_annotations"],
        "startsAt": STARTED.isoformat(),
        "endsAt": (datetime.now(UTC) + timedelta(hours=1)).isoformat(),
    }


GPU = expected("a GPU has its index", "findings_numbers.yaml", "TocsinGpuXid")
GPU_TEXT = GPU["annotations"]["description"]
TITLE = (
    "[CRITICAL] GPU 3 on node1 (GPU-3, serial 1652859266991, rack R3): XID error of the hardware "
    "(xid/gpu)."
)
LINK = "http://n1:9400/"


def warning(alert: Mapping[str, Any], **labels: str) -> dict[str, Any]:
    """The same as a ticket, or as what the chat gets."""
    return {**alert, "labels": {**alert["labels"], "severity": "warning", **labels}}


def over(alert: Mapping[str, Any]) -> dict[str, Any]:
    """The same, resolved a second ago."""
    return {**alert, "endsAt": (datetime.now(UTC) - timedelta(seconds=1)).isoformat()}


CHAT = warning(GPU, component="pipeline")
TICKET = warning(GPU)


@pytest.fixture
def inbox() -> Iterator[Inbox]:
    """Where everything goes."""
    with Inbox() as listening:
        yield listening


@pytest.fixture
def others() -> Iterator[Receivers]:
    """The receivers that stay as they are."""
    listening = Receivers()
    yield listening
    listening.close()


def secrets(name: str, inbox: Inbox, folder: Path) -> dict[str, Any]:
    """What replaces addresses and credentials of an example."""
    (folder / "key").write_text("0123456789abcdef0123456789abcdef")
    (folder / "url").write_text(inbox.url)
    plain: dict[str, Any] = {"auth_username": "", "auth_password_file": "", "require_tls": False}
    return {
        "pagerduty": {"routing_key_file": str(folder / "key"), "url": inbox.url},
        "slack": {"api_url_file": str(folder / "url")},
        "teams": {"webhook_url_file": str(folder / "url")},
        "mail": plain | {"smarthost": inbox.smarthost},
    }[name]


def configured(name: str, inbox: Inbox, folder: Path) -> str:
    """rules/alertmanager.yml with the receiver of an example in place of its own."""
    config = yaml.safe_load(CONFIG.read_text(encoding="utf-8"))
    (receiver,) = yaml.safe_load((FOLDER / f"{name}.yml").read_text(encoding="utf-8"))["receivers"]
    (kind,) = receiver.keys() - {"name"}
    receiver[kind][0] |= secrets(name, inbox, folder)
    kept = [one for one in config["receivers"] if one["name"] != receiver["name"]]
    assert len(kept) == len(config["receivers"]) - 1
    config |= {"receivers": [*kept, receiver], "templates": [str(FOLDER / "tocsin.tmpl")]}
    return yaml.safe_dump(config)


class Sent:
    """An Alertmanager with the receiver of one example; use as a context."""

    def __init__(
        self, name: str, inbox: Inbox, others: Receivers, folder: Path, part: Part
    ) -> None:
        self.inbox = inbox
        self.alertmanager = Alertmanager(
            folder, others, part, config=configured(name, inbox, folder)
        )

    def __enter__(self) -> Sent:
        return self

    def __exit__(self, *_: object) -> None:
        self.alertmanager.stop()

    def message(self, *alerts: Mapping[str, Any]) -> dict[str, Any]:
        """The next message after these alerts."""
        before = len(self.inbox.messages)
        self.alertmanager.post(alerts)
        until(lambda: len(self.inbox.messages) > before, "a message")
        return self.inbox.messages[before]


def complete(text: str) -> bool:
    """Whether a text has what an on-call needs: device, fact, action, time and links."""
    return all(
        part in text
        for part in (
            GPU_TEXT,
            f"Since {STARTED:%Y-%m-%d %H:%M} UTC.",
            LINK,
            GPU["annotations"]["runbook_url"],
            GPU["annotations"]["dashboard_url"],
        )
    )


@pytest.mark.parametrize("part", PARTS, ids=[*VERSIONS])
def test_pagerduty(part: Part, inbox: Inbox, others: Receivers, tmp_path: Path) -> None:
    """One event per incident of Tocsin, which its end resolves."""
    with Sent("pagerduty", inbox, others, tmp_path, part) as sent:
        event = sent.message(GPU)
        resolved = sent.message(over(GPU))
    for each in (event, resolved):
        jsonschema.validate(each, PAGERDUTY)
    payload = event["payload"]
    assert (event["event_action"], payload["severity"]) == ("trigger", "critical")
    assert payload["summary"] == TITLE
    assert (payload["class"], payload["component"]) == ("xid/gpu", "GPU-3")
    assert (event["client"], event["client_url"]) == ("Tocsin", LINK)
    assert complete(payload["custom_details"]["alerts"])
    assert resolved["event_action"] == "resolve"
    assert resolved["dedup_key"] == event["dedup_key"]


@pytest.mark.parametrize("part", PARTS, ids=[*VERSIONS])
def test_slack(part: Part, inbox: Inbox, others: Receivers, tmp_path: Path) -> None:
    """One attachment, coloured by severity, with the node's page behind its title."""
    with Sent("slack", inbox, others, tmp_path, part) as sent:
        message = sent.message(CHAT)
        resolved = sent.message(over(CHAT))
    for each in (message, resolved):
        jsonschema.validate(each, SLACK)
    (attachment,) = message["attachments"]
    assert attachment["title"] == TITLE.replace("CRITICAL", "WARNING")
    assert (attachment["color"], attachment["title_link"]) == ("warning", LINK)
    assert complete(attachment["text"])
    assert resolved["attachments"][0]["color"] == "good"
    assert resolved["attachments"][0]["title"].startswith("[RESOLVED] GPU 3 on node1")


def test_teams(inbox: Inbox, others: Receivers, tmp_path: Path) -> None:
    """An adaptive card; Alertmanager 0.28 is the first that makes one."""
    with Sent("teams", inbox, others, tmp_path, newer) as sent:
        message = sent.message(CHAT)
    jsonschema.validate(message, TEAMS)
    title, *rest = [block["text"] for block in message["attachments"][0]["content"]["body"]]
    assert title == TITLE.replace("CRITICAL", "WARNING")
    assert complete("\n".join(rest))


@pytest.mark.parametrize("part", PARTS, ids=[*VERSIONS])
def test_mail(part: Part, inbox: Inbox, others: Receivers, tmp_path: Path) -> None:
    """A MIME mail with the device in its subject, as text and as HTML."""
    with Sent("mail", inbox, others, tmp_path, part) as sent:
        sent.alertmanager.post([TICKET])
        (mail,) = until(lambda: inbox.mails, "a mail")
    assert mail["Subject"] == TITLE.replace("CRITICAL", "WARNING")
    assert (mail["To"], mail["From"]) == ("gpu-tickets@example.org", "alertmanager@example.org")
    assert mail.get_content_type() == "multipart/alternative"
    plain, html = mail.get_body(("plain",)), mail.get_body(("html",))
    assert plain is not None
    assert complete(plain.get_content())
    assert html is not None
    assert complete(html.get_content().replace("&amp;", "&"))
    assert re.search(f'<a href="{LINK}">', html.get_content())


@pytest.mark.parametrize("name", ["slack", "teams"])
def test_a_name_that_a_job_gave_itself_is_no_mention_and_no_link(
    name: str, inbox: Inbox, others: Receivers, tmp_path: Path
) -> None:
    """Nobody is called by a job's name."""
    text = "Job <!channel> [click](http://bad.example) on node1: stalled job. Restart the job."
    hostile = {**CHAT, "annotations": {**GPU["annotations"], "description": text}}
    with Sent(name, inbox, others, tmp_path, newer) as sent:
        text = str(sent.message(hostile))
    assert "<!channel>" not in text
    assert "[click](" not in text
    assert "click" in text


def test_two_alerts_of_one_group_are_counted_in_the_title(
    inbox: Inbox, others: Receivers, tmp_path: Path
) -> None:
    """And both are in the text."""
    now = datetime.now(UTC).isoformat()  # the group waits for what begins within a second
    first = {**GPU, "startsAt": now}
    second = {**first, "labels": {**GPU["labels"], "instance": "n1:9401"}}
    with Sent("pagerduty", inbox, others, tmp_path, newer) as sent:
        event = sent.message(first, second)
    assert event["payload"]["summary"] == f"{TITLE} (2 alerts)"
    assert event["payload"]["custom_details"]["alerts"].count(GPU_TEXT) == 2
