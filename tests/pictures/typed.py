"""Dashboards as TypeScript literals, so that Grafana's own types judge
every key and value of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

# Grafana's panels by their ``type``: the file in @grafana/schema that says what their options and
# custom field settings are.
PANELS = {
    "stat": ("stat", "Stat", ("Options",)),
    "timeseries": ("timeseries", "TimeSeries", ("Options", "FieldConfig")),
    "state-timeline": ("statetimeline", "StateTimeline", ("Options", "FieldConfig")),
    "heatmap": ("heatmap", "Heatmap", ("Options", "FieldConfig")),
    "table": ("table", "Table", ("Options", "FieldConfig")),
}
# JSON has an enumeration's values, not its members. A panel's options may leave to Grafana what
# they do not state. The schema leaves to Prometheus what an annotation asks, and does not know what
# the SDK writes for every variable and an older table reads.
HEAD = """\
import type { AnnotationQuery, Dashboard, VariableModel } from '@grafana/schema';
type Plain<T> = T extends string ? `${T}` : T extends (infer Each)[] ? Plain<Each>[] : T extends object ? { [Key in keyof T]: Plain<T[Key]> } : T;
type Partly<T> = T extends (infer Each)[] ? Partly<Each>[] : T extends object ? { [Key in keyof T]?: Partly<T[Key]> } : T;
type Marks = AnnotationQuery & { expr?: string; titleFormat?: string; textFormat?: string; tagKeys?: string; step?: string };
type Chosen = VariableModel & { auto?: boolean; auto_count?: number; auto_min?: string; definition?: string };
type Ours = Omit<Dashboard, 'annotations' | 'templating'> & { annotations?: { list?: Marks[] }; templating?: { list?: Chosen[] } };
type Footer = { footer?: { show: boolean; countRows: boolean; reducer: string[] } };
"""  # noqa: E501 - text as it is used


def module(dashboards: Iterable[Path]) -> str:
    """A TypeScript module that compiles where all dashboards are what Grafana's schema says."""
    lines = [HEAD, *_imports()]
    for path in dashboards:
        dashboard = json.loads(path.read_text(encoding="utf-8"))
        name = path.stem
        lines.append(f"export const {name}: Plain<Ours> = {json.dumps(dashboard, indent=1)};")
        for panel in dashboard["panels"]:
            if panel["type"] != "row":
                lines += _panel(f"{name}_{panel['id']}", panel)
    return "\n".join(lines) + "\n"


def _imports() -> Iterator[str]:
    for folder, name, types in PANELS.values():
        chosen = ", ".join(f"{each} as {name}{each}" for each in types)
        yield (
            f"import type {{ {chosen} }} from '@grafana/schema/dist/esm/raw/composable/{folder}/"
            f"panelcfg/x/{name}PanelCfg_types.gen';"
        )


def _panel(name: str, panel: dict[str, Any]) -> Iterator[str]:
    """Its options and custom field settings.

    KeyError for a kind of panel that has no types here.
    """
    _, kind, types = PANELS[panel["type"]]
    more = " & Footer" if kind == "Table" else ""
    yield (
        f"export const {name}: Partly<Plain<{kind}Options{more}>> = "
        f"{json.dumps(panel.get('options', {}))};"
    )
    if "FieldConfig" in types:
        custom = panel["fieldConfig"]["defaults"].get("custom", {})
        yield (
            f"export const {name}_fields: Partly<Plain<{kind}FieldConfig>> = {json.dumps(custom)};"
        )
