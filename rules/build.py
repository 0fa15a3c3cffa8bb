"""Write the rule files and the runbook from the rows: `make rules`. A test fails where what is committed differs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from rules import agents, findings, raw_fabric, raw_gpu
from rules.model import Alert, Group

HERE = Path(__file__).parent
HEAD = "# Made by rules/build.py (`make rules`): change the rows there, not here.\n"

SETS: dict[str, tuple[str, tuple[Group, ...]]] = {
    "tocsin": ("Over what Tocsin's agents found, and over the agents themselves", (*findings.GROUPS, *agents.GROUPS)),
    "raw": ("Over the series of dcgm-exporter and node_exporter alone", (*raw_gpu.GROUPS, *raw_fabric.GROUPS)),
}


def alerts() -> Iterator[Alert]:
    """Every alert of every set."""
    for _, groups in SETS.values():
        for group in groups:
            yield from group.alerts


def pages() -> dict[Path, str]:
    """Every file that is built, and its text."""
    built = {HERE / "README.md": runbook()}
    for name, (_, groups) in SETS.items():
        document = {"groups": [group.document() for group in groups]}
        built[HERE / f"{name}.yaml"] = _yaml(document)
        built[HERE / "kubernetes" / f"{name}.yaml"] = _yaml(_prometheus_rule(name, document))
    return built


def _prometheus_rule(name: str, document: dict[str, Any]) -> dict[str, Any]:
    """The same rules as an object of the Prometheus operator (monitoring.coreos.com/v1)."""
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": f"tocsin-{name}", "labels": {"app.kubernetes.io/name": "tocsin", "role": "alert-rules"}},
        "spec": document,
    }


class _Dumper(yaml.SafeDumper):
    """Expressions of several lines stay readable."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)


def _yaml(document: dict[str, Any]) -> str:
    return HEAD + yaml.dump(document, Dumper=_Dumper, sort_keys=False, width=10_000, allow_unicode=True)


def runbook() -> str:
    """README.md: how to use the rules, and one section per alert."""
    text = (HERE / "intro.md").read_text(encoding="utf-8")
    for title, groups in SETS.values():
        text += f"\n## {title}\n"
        for group in groups:
            text += "".join(_section(alert) for alert in group.alerts)
    return text


def _section(alert: Alert) -> str:
    needs = f"\n- **Needs**: {alert.needs}." if alert.needs else ""
    return (
        f"\n### {alert.name}\n\n{alert.severity}; action `{alert.action}`. {alert.summary}\n\n"
        f"- **Means**: {alert.means}\n- **Confirm**: {alert.confirm}\n- **Do**: {alert.do}\n- **Clears**: {alert.clears}{needs}\n"
    )


def main() -> None:
    """Write them all."""
    for path, text in pages().items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
