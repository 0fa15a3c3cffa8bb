"""The promtool tests with the rules that they ask about alone. Promtool evaluates every rule of a
file for every test, which costs five times as much and shows nothing more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml

from rules.build import SETS

Spoil = Callable[[str], str]


def reduced(tests: Path, folder: Path, spoil: Spoil = str) -> Iterator[Path]:
    """A file in ``folder`` for each test of a file, with its alerts and all recordings.
    ``spoil`` changes the alerts' expressions.
    """
    document = yaml.safe_load(tests.read_text(encoding="utf-8"))
    names = [Path(name).stem for name in document["rule_files"]]
    for number, case in enumerate(document["tests"]):
        asked = {question["alertname"] for question in case["alert_rule_test"]}
        path = folder / f"{tests.stem}-{number}.yaml"
        rules = path.with_suffix(".rules")
        rules.write_text(_text({"groups": list(_groups(names, asked, spoil))}), encoding="utf-8")
        alone = {**document, "rule_files": [rules.name], "tests": [case]}
        path.write_text(_text(alone), encoding="utf-8")
        yield path


def _groups(names: list[str], asked: set[str], spoil: Spoil) -> Iterator[dict[str, Any]]:
    for name in names:
        for group in SETS[name][1]:
            document = group.document()
            rules = [
                {**rule, "expr": spoil(rule["expr"])} if "alert" in rule else rule
                for rule in document["rules"]
                if rule.get("alert") in asked or "record" in rule
            ]
            if rules:
                yield {**document, "rules": rules}


def _text(document: object) -> str:
    return yaml.dump(document, Dumper=yaml.CSafeDumper)
