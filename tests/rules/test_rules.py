"""The rules: built files are fresh, every name in them exists, promtool's tests cover each alert
and would notice if it were wrong.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml

from detectors import faults
from pipeline.catalog import FIELDS, KINDS, METRICS
from pipeline.child import run
from pipeline.finding import Action
from rules import templates, words
from rules.build import SETS, alerts, pages
from rules.model import Alert
from tests.parts import VERSIONS, Part, need
from tests.rules.reduced import reduced, seldom
from tests.wait import PATIENCE_S

RULES = Path(__file__).parents[2] / "rules"
TESTS = sorted((RULES / "tests").glob("*.yaml"))
ALERTS = list(alerts())
# Half a minute of CPU time on an idle machine, and five were not enough on a starved one.
PROMTOOL_S = 4 * PATIENCE_S
# A quarter of promtool's CPU time is collecting garbage in several threads.
ENVIRON = {**os.environ, "GOGC": "400", "GOMAXPROCS": "1"}

# What the rules read that no catalogue of ours names: Prometheus' own `up`, and node_exporter's
# infiniband and stat collectors.
FOREIGN = {
    "up",
    "node_boot_time_seconds",
    "node_infiniband_link_downed_total",
    "node_infiniband_rate_bytes_per_second",
    "node_infiniband_state_id",
    "node_infiniband_symbol_error_total",
}
# Last-value gauges: they never clear, hide repeats and fall without a reset.
LAST_VALUE = {"DCGM_FI_DEV_XID_ERRORS", "DCGM_FI_DEV_XID_ERROR"}


@cache
def _cases(path: Path) -> list[dict[str, Any]]:
    tests: list[dict[str, Any]] = yaml.safe_load(path.read_text(encoding="utf-8"))["tests"]
    return tests


def _asked(alert: str) -> Iterator[list[dict[str, Any]]]:
    """The questions about one alert, test by test."""
    for path in TESTS:
        for case in _cases(path):
            asked = [
                question for question in case["alert_rule_test"] if question["alertname"] == alert
            ]
            if asked:
                yield asked


def _known() -> set[str]:
    dcgm = {
        name for field in FIELDS for row in field.dcgm for name in (row.name, row.new_name) if name
    }
    ours = {metric.name for metric in (*METRICS, *(field.metric for field in FIELDS))}
    ours |= {f"tocsin_{kind}_info" for kind in KINDS}
    return dcgm | ours | {"DCGM_EXP_XID_ERRORS_COUNT"} | FOREIGN


def _names(expression: str) -> set[str]:
    """Names of series in an expression: words that are no keyword, function, label or text."""
    bare = re.sub(r'"[^"]*"|\'[^\']*\'', "", expression)
    bare = re.sub(r"\b(by|on|without|ignoring|group_left)\s*\([^)]*\)", "", bare)
    bare = re.sub(r"\{[^}]*\}|\[[^\]]*\]|offset \w+|\b[0-9][0-9.e-]*", "", bare)
    words = re.findall(r"[A-Za-z_][A-Za-z0-9_:]*(?!\s*\(|[A-Za-z0-9_:])", bare)
    return set(words) - {"and", "or", "unless", "bool"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "path", sorted(pages()), ids=lambda path: path.relative_to(RULES).as_posix()
)
def test_what_is_committed_is_what_the_rows_say(path: Path) -> None:
    """Rule files and runbook are made from the rows; `make rules` renews them."""
    assert path.read_text(encoding="utf-8") == pages()[path]


def test_every_series_in_a_rule_exists() -> None:
    """No rule reads a name that nothing exports."""
    recorded = {
        rule.record
        for _, groups in SETS.values()
        for group in groups
        for rule in group.rules
        if not isinstance(rule, Alert)
    }
    for _, groups in SETS.values():
        for group in groups:
            for rule in group.rules:
                assert _names(rule.expr) <= _known() | recorded, rule


def test_no_rule_reads_a_last_value_gauge() -> None:
    """The last-XID gauge and its like are not evidence of anything that happened."""
    for alert in ALERTS:
        assert not _names(alert.expr) & LAST_VALUE, alert.name


def test_every_action_has_an_instruction() -> None:
    """Each action that an incident can propose is a sentence in the description, or none."""
    without = {"NONE", "UNKNOWN"}
    assert set(get_args(Action)) - without == {*templates.STEPS, "CONTACT_SUPPORT"}


def test_every_fault_has_words() -> None:
    """A fault that pages or makes a ticket, and whose class has an alert of its own, is described
    in plain words, in one sentence; no words are left of a fault that is gone.
    """
    reported = {
        name
        for name, fault in faults.FAULTS.items()
        if fault.severity != "record" and fault.alert != "Other"
    }
    assert reported <= words.WORDS.keys() <= faults.FAULTS.keys()
    assert [text for text in words.WORDS.values() if ". " in text or text.endswith(".")] == []


@pytest.mark.slow
def test_a_description_begins_with_the_device_or_node() -> None:
    """Its first sentence is the title of a message: who reads no further knows what failed. Of an
    alert about all nodes it is the switch or the cluster.
    """
    named = re.compile(
        r"(GPU|Port|NVLink|Rank|Job|Node|Switch|Cluster) \S+( on \S+)?|n[12](:9400)?\b"
    )
    texts = {
        each["exp_annotations"]["description"]
        for alert in ALERTS
        for asked in _asked(alert.name)
        for question in asked
        for each in question["exp_alerts"]
        if alert.name != "TocsinWatchdog"
    }
    assert len(texts) > len(ALERTS) // 2
    assert [text for text in texts if not named.match(text)] == []


def test_an_alert_of_an_agent_or_gateway_links_to_its_page() -> None:
    """There the incident is shown with its id; a raw alert has no agent, and the watchdog and a
    cluster without a gateway have none that could be asked.
    """
    alone = {"TocsinWatchdog", "TocsinFleetNoLeader"}
    for alert in ALERTS:
        linked = "agent_url" in alert.rule()["annotations"]
        assert linked == (alert.name.startswith("Tocsin") and alert.name not in alone)


@pytest.mark.integration
def test_vmalert_takes_the_rules_without_keep_firing_for(tmp_path: Path) -> None:
    """As rules/README.md says of the one in Debian 12."""
    vmalert = need("vmalert", "victoria-metrics")
    for name in SETS:
        text = (RULES / f"{name}.yaml").read_text(encoding="utf-8")
        kept = [line for line in text.splitlines() if "keep_firing_for" not in line]
        (tmp_path / f"{name}.yaml").write_text("\n".join(kept), encoding="utf-8")
    given = ["-dryRun", f"-rule={tmp_path}/*.yaml", "-datasource.url=http://127.0.0.1:1"]
    checked = run([vmalert, *given], timeout_s=PATIENCE_S)
    assert checked.returncode == 0, checked.stderr.decode()


def test_an_alert_has_one_name_and_one_severity() -> None:
    """No name occurs twice."""
    names = [alert.name for alert in ALERTS]
    assert len(names) == len(set(names))


@pytest.mark.slow
@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_every_alert_is_seen_quiet_firing_and_resolved(alert: Alert) -> None:
    """Each alert has a promtool test in which it is quiet before it fires, with its text
    compared, and quiet after.
    """
    if alert.name == "TocsinWatchdog":  # the one that always fires
        assert any(question["exp_alerts"] for asked in _asked(alert.name) for question in asked)
        return
    for asked in _asked(alert.name):
        fires = [bool(question["exp_alerts"]) for question in asked]
        if not fires[0] and True in fires and not fires[-1]:
            assert all(
                each["exp_annotations"]["description"]
                for question in asked
                for each in question["exp_alerts"]
            )
            return
    pytest.fail(f"{alert.name} has no test with a quiet, a firing and a resolved minute")


@pytest.mark.integration
@pytest.mark.parametrize("part", VERSIONS.values(), ids=VERSIONS)
def test_promtool_takes_the_rules_and_their_tests_pass(part: Part, tmp_path: Path) -> None:
    """Promtool itself checks the files and runs every test of the alerts that it asks about. The
    oldest evaluates all other rules as well, as they are shipped: none is refused, whatever is
    scraped.
    """
    promtool = part("promtool", "prometheus")
    checked = run(
        [promtool, "check", "rules", *(str(RULES / f"{name}.yaml") for name in SETS)],
        timeout_s=PATIENCE_S,
    )
    assert checked.returncode == 0, checked.stderr.decode()
    everything = TESTS if part is VERSIONS["oldest"] else ()
    paths = [path for tests in everything for path in seldom(tests, tmp_path)]
    returncode, printed = _tested(promtool, _reduced(tmp_path) + paths)
    assert returncode == 0, printed


def _reduced(folder: Path, spoil: Callable[[str], str] = str) -> list[Path]:
    return [path for tests in TESTS for path in reduced(tests, folder, spoil)]


def _tested(promtool: str, paths: list[Path]) -> tuple[int | None, str]:
    done = run([promtool, "test", "rules", *map(str, paths)], timeout_s=PROMTOOL_S, env=ENVIRON)
    return done.returncode, (done.stdout + done.stderr).decode()


def _emptied(expression: str) -> str:
    return "vector(1) < 0"


def _times_ten(expression: str) -> str:
    """Every threshold ten times as high; an expression without one other than 0 stays as it is."""
    return re.sub(r"(?<=[<>=] )[0-9.]+", lambda number: f"{float(number[0]) * 10:g}", expression)


@pytest.mark.integration
@pytest.mark.parametrize("spoil", [_emptied, _times_ten], ids=["emptied", "threshold_times_ten"])
def test_the_tests_notice_a_rule_that_is_wrong(tmp_path: Path, spoil: Callable[[str], str]) -> None:
    """With every expression spoilt, the promtool tests of every spoilt alert fail."""
    promtool = need("promtool", "prometheus")
    spoilt = {alert.name for alert in ALERTS if spoil(alert.expr) != alert.expr}
    printed = _tested(promtool, _reduced(tmp_path, spoil))[1]
    assert spoilt <= set(re.findall(r"alertname: (\w+), time:", printed))
