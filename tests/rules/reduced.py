"""The promtool tests with fewer evaluations. Promtool evaluates every rule of a file at every step
of every test, which costs ten times as much and shows nothing more than these two together.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml

from rules.build import SETS

Spoil = Callable[[str], str]
Rule = dict[str, Any]

MOMENTS = 4  # at which all rules are evaluated, evenly over a test
UNIT_S = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def reduced(tests: Path, folder: Path, spoil: Spoil = str) -> Iterator[Path]:
    """A file in ``folder`` for each test of a file, with its alerts and the recordings that they
    read; with all rules where the test asks an expression, which may read any. ``spoil`` changes
    the alerts' expressions.
    """
    document = _read(tests)
    names = [Path(name).stem for name in document["rule_files"]]
    for number, case in enumerate(document["tests"]):
        alerts = {question["alertname"] for question in case.get("alert_rule_test", ())}
        asked = None if case.get("promql_expr_test") else alerts
        path = folder / f"{tests.stem}-{number}.yaml"
        rules = path.with_suffix(".rules")
        rules.write_text(_text({"groups": list(_groups(names, asked, spoil))}), encoding="utf-8")
        alone = {**document, "rule_files": [rules.name], "tests": [case]}
        path.write_text(_text(alone), encoding="utf-8")
        yield path


def seldom(tests: Path, folder: Path) -> Iterator[Path]:
    """A file in ``folder`` for each test of a file, in which every rule as it is shipped is
    evaluated at a few moments of the test: each has an answer, whatever other alerts are about.
    """
    document = _read(tests)
    shipped = [str((tests.parent / name).resolve()) for name in document["rule_files"]]
    for number, case in enumerate(document["tests"]):
        questions = [*case.get("alert_rule_test", ()), *case.get("promql_expr_test", ())]
        last_s = max(seconds(question["eval_time"]) for question in questions)
        nobody = {"eval_time": f"{last_s}s", "alertname": "Nobody", "exp_alerts": []}
        interval = f"{max(1, last_s // MOMENTS)}s"
        path = folder / f"{tests.stem}-{number}-seldom.yaml"
        few = {**document, "rule_files": shipped, "evaluation_interval": interval}
        few["tests"] = [{**case, "alert_rule_test": [nobody], "promql_expr_test": []}]
        path.write_text(_text(few), encoding="utf-8")
        yield path


def seconds(duration: str) -> int:
    """A duration of Prometheus, such as 1h30m."""
    return sum(
        int(number) * UNIT_S[unit] for number, unit in re.findall(r"(\d+)([smhd])", duration)
    )


def _read(tests: Path) -> dict[str, Any]:
    document: dict[str, Any] = yaml.load(tests.read_bytes(), yaml.CSafeLoader)
    return document


def _groups(names: list[str], asked: set[str] | None, spoil: Spoil) -> Iterator[dict[str, Any]]:
    """With ``asked`` the rules that are asked for and read for them, else all."""
    documents = [group.document() for name in names for group in SETS[name][1]]
    every = [rule for each in documents for rule in each["rules"]]
    if asked is None:
        kept = {rule.get("alert") or rule["record"] for rule in every}
    else:
        kept = asked | _read_by(every, asked)
    for document in documents:
        rules = [
            {**rule, "expr": spoil(rule["expr"])} if "alert" in rule else rule
            for rule in document["rules"]
            if (rule.get("alert") or rule["record"]) in kept
        ]
        if rules:
            yield {**document, "rules": rules}


def _read_by(rules: list[Rule], asked: set[str]) -> set[str]:
    """Recordings that alerts read, in expressions, texts or through one another."""
    records = {rule["record"]: rule for rule in rules if "record" in rule}
    found: set[str] = set()
    new = [rule for rule in rules if rule.get("alert") in asked]
    while new:
        text = _text(new)
        names = {name for name in records if name in text} - found
        found |= names
        new = [records[name] for name in names]
    return found


def _text(document: object) -> str:
    return yaml.dump(document, Dumper=yaml.CSafeDumper, width=10**6)
