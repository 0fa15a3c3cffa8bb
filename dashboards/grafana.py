"""From our values to Grafana's types (schema 42, which Grafana 10 to 13 load), with one style for
all panels.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from string import ascii_uppercase
from typing import TypeVar

from grafana_foundation_sdk.builders import common as ui
from grafana_foundation_sdk.builders import dashboard as board
from grafana_foundation_sdk.builders import (
    heatmap,
    prometheus,
    stat,
    statetimeline,
    table,
    timeseries,
)
from grafana_foundation_sdk.builders.heatmap import HeatmapColorOptions, YAxisConfig
from grafana_foundation_sdk.models import common as kinds
from grafana_foundation_sdk.models import dashboard as model
from grafana_foundation_sdk.models.heatmap import HeatmapColorMode
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from dashboards.meaning import FAILED, LOOK, MEANT, State, Step
from dashboards.naming import NAMED, named
from dashboards.panels import (
    Column,
    Dashboard,
    Heatmap,
    Lines,
    Link,
    Panel,
    Query,
    Row,
    Stat,
    Table,
    Timeline,
    Variable,
)
from pipeline.catalog import agent

TAG = "tocsin"
SOURCE = kinds.DataSourceRef(type_val="prometheus", uid="${datasource}")
FIRST_ID = 100  # of panels that nothing points at; those below are given by places.py
# What every link takes along, whatever it sets.
ALONG = "${__url_time_range}&${datasource:queryparam}&${cluster:queryparam}"

# Where all is zero an axis reaches up to here at least, so that nothing looks like something.
SOFT_MAXIMUM = {"percentunit": 0.1, "cps": 1.0, "s": 1.0}

AnyPanel = stat.Panel | timeseries.Panel | statetimeline.Panel | heatmap.Panel | table.Panel
Builder = TypeVar(
    "Builder", stat.Panel, timeseries.Panel, statetimeline.Panel, heatmap.Panel, table.Panel
)


def dashboard(of: Dashboard) -> model.Dashboard:
    """One dashboard."""
    made = (
        board.Dashboard(of.title)
        .uid(of.uid)
        .description(of.about)
        .tags([TAG])
        .readonly()
        .time(of.since, "now")
        .refresh("30s")
        .timezone("browser")
        .tooltip(model.DashboardCursorSync.CROSSHAIR)
        .link(_others())
        .with_variable(
            board.DatasourceVariable("datasource").label("Data source").type("prometheus")
        )
    )
    for variable in of.variables:
        made.with_variable(_variable(variable))
    for annotation in _annotations(of.incidents):
        made.annotation(annotation)
    number = FIRST_ID
    for row in of.rows:
        if isinstance(row, Row):
            made.with_row(board.Row(row.title).id(number))
        else:
            made.with_panel(_panel(row).id(row.place.id if row.place else number))
        number += 1
    return made.build()


def _others() -> board.DashboardLink:
    """The other dashboards of the set, with what was chosen here."""
    link = board.DashboardLink("Tocsin").type(model.DashboardLinkType.DASHBOARDS).tags([TAG])
    return (
        link.as_dropdown(True)
        .include_vars(True)
        .keep_time(True)
        .icon("external link")
        .tooltip("Other dashboards")
        .url("")
    )


def _variable(of: Variable) -> board.QueryVariable:
    query = f"label_values({of.series}, {of.label})"
    made = (
        board.QueryVariable(of.name)
        .label(of.title)
        .datasource(SOURCE)
        .query({"query": query, "refId": of.name})
        .definition(query)
    )
    made.refresh(model.VariableRefresh.ON_TIME_RANGE_CHANGED).sort(model.VariableSort.NATURAL_ASC)
    if not of.one:
        everything = model.VariableOption(selected=True, text=["All"], value=["$__all"])
        made.multi(True).include_all(True).all_value(of.every).current(everything)
    return made.hide(model.VariableHide.HIDE_VARIABLE) if of.hidden else made


def _annotations(incidents: str) -> Iterator[board.AnnotationQuery]:
    """Incidents as marks in every panel: pages red, tickets yellow."""
    for name, severity, colour in (
        (("Pages", "page", FAILED), ("Tickets", "ticket", LOOK)) if incidents else ()
    ):
        selector = incidents.replace("}", f', severity="{severity}"}}')
        made = (
            board.AnnotationQuery()
            .name(name)
            .datasource(SOURCE)
            .enable(True)
            .hide(False)
            .icon_color(colour)
            .expr(named(selector, agent.INCIDENT_ACTIVE.labels, "root_device"))
        )
        yield (
            made.title_format("{{instance}}: {{class}}")
            .text_format(f"{{{{{NAMED}}}}} ({{{{root_kind}}}})")
            .tag_keys("severity,action")
        )


def _panel(of: Panel) -> AnyPanel:
    match of:
        case Stat():
            return _stat(of)
        case Lines():
            return _lines(of)
        case Timeline():
            return _timeline(of)
        case Heatmap():
            return _heatmap(of)
        case Table():
            return _table(of)
    raise TypeError(f"no picture for {type(of).__name__}")


def _dressed(made: Builder, of: Panel, *, now: bool) -> Builder:
    """What all panels have. ``now``: one answer for this moment, else one over time."""
    made.title(of.title).description(of.about).datasource(SOURCE).span(of.width).height(of.height)
    made.unit(of.unit).no_value(of.empty).thresholds(_thresholds(of.steps)).targets(
        list(_targets(of, now=now))
    )
    if of.states:
        made.mappings([_names(of.states)])
    if of.decimals is not None:
        made.decimals(of.decimals)
    if of.minimum is not None:
        made.min(of.minimum)
    if of.maximum is not None:
        made.max(of.maximum)
    if of.links and not isinstance(of, Table):  # a table's links sit on its columns
        made.data_links([_link(link, "__field.labels.") for link in of.links])
    return made


def _targets(of: Panel, *, now: bool) -> Iterator[prometheus.Dataquery]:
    for letter, query in zip(ascii_uppercase, of.queries, strict=False):
        made = prometheus.Dataquery().ref_id(letter).expr(query.expr).datasource(SOURCE)
        if query.legend:
            made.expr(_with_host(query)).legend_format(
                query.legend.replace("{{instance}}", "{{host}}")
            )
        if isinstance(of, Table):
            made.format(PromQueryFormat.TABLE)
        yield made.instant() if now else made.range()


def _with_host(query: Query) -> str:
    """Names of series show a node without the port that every agent listens on."""
    if "{{instance}}" not in query.legend:
        return query.expr
    return f'label_replace({query.expr}, "host", "$1", "instance", "(.+?)(:[0-9]+)?")'


def _thresholds(steps: Sequence[Step]) -> board.ThresholdsConfig:
    first, *rest = steps
    made = [
        model.Threshold(None, first.colour),
        *(model.Threshold(step.value, step.colour) for step in rest),
    ]
    return board.ThresholdsConfig().mode(model.ThresholdsMode.ABSOLUTE).steps(made)


def _names(states: Iterable[State]) -> model.ValueMap:
    """Words and colours for 0, 1, 2 ..."""
    named = {
        str(i): model.ValueMappingResult(state.words, state.colour, index=i)
        for i, state in enumerate(states)
    }
    return model.ValueMap(named)


def _link(of: Link, prefix: str) -> board.DashboardLink:
    chosen = "".join(f"&var-{name}=${{{prefix}{source}}}" for name, source in of.variables)
    return board.DashboardLink(of.title).url(f"/d/{of.uid}?{ALONG}{chosen}")


def _stat(of: Stat) -> stat.Panel:
    # the answer to a range is sorted, that to an instant is not
    made = _dressed(stat.Panel(), of, now=not of.cells)
    made.reduce_options(ui.ReduceDataOptions().calcs(["lastNotNull"]).fields("").values(False))
    made.graph_mode(kinds.BigValueGraphMode.NONE).justify_mode(kinds.BigValueJustifyMode.CENTER)
    if of.cells:
        made.time_from("1m").hide_time_override(True).text(
            ui.VizTextDisplayOptions().title_size(11).value_size(11)
        )
        return made.color_mode(kinds.BigValueColorMode.BACKGROUND_SOLID).text_mode(
            kinds.BigValueTextMode.NAME
        )
    several = (
        kinds.BigValueTextMode.VALUE_AND_NAME
        if len(of.queries) > 1
        else kinds.BigValueTextMode.VALUE
    )
    return made.color_mode(kinds.BigValueColorMode.VALUE).text_mode(several)


def _lines(of: Lines) -> timeseries.Panel:
    made = _dressed(timeseries.Panel(), of, now=False)
    made.line_width(1).fill_opacity(0).show_points(kinds.VisibilityMode.AUTO).span_nulls(False)
    legend = ui.VizLegendOptions().show_legend(of.legend).display_mode(kinds.LegendDisplayMode.LIST)
    made.legend(legend.placement(kinds.LegendPlacement.BOTTOM).calcs([]))
    made.tooltip(
        ui.VizTooltipOptions().mode(kinds.TooltipDisplayMode.MULTI).sort(kinds.SortOrder.DESCENDING)
    )
    if len(of.steps) > 1:
        made.thresholds_style(
            ui.GraphThresholdsStyleConfig().mode(kinds.GraphThresholdsStyleMode.LINE)
        )
    if of.stacked or of.bars:  # bars of one moment would hide each other
        made.stacking(ui.StackingConfig().mode(kinds.StackingMode.NORMAL).group("A")).fill_opacity(
            40
        )
    if of.bars:
        made.draw_style(kinds.GraphDrawStyle.BARS).fill_opacity(60)
    if of.shades:
        made.color_scheme(
            board.FieldColor().mode(model.FieldColorModeId.SHADES).fixed_color(of.shades)
        )
    if of.logarithmic:
        made.scale_distribution(
            ui.ScaleDistributionConfig().type(kinds.ScaleDistribution.LOG).log(10)
        )
    if of.maximum is None and of.unit in SOFT_MAXIMUM:
        made.axis_soft_max(SOFT_MAXIMUM[of.unit])
    for state in of.named:
        series = state.label or state.words
        style = [model.DynamicConfigValue("color", {"mode": "fixed", "fixedColor": state.colour})]
        if series != state.words:
            style.append(model.DynamicConfigValue("displayName", state.words))
        made.override_by_name(series, style)
    return made.override_by_regexp("(.* )?limit$", _limit_style())


def _limit_style() -> list[model.DynamicConfigValue]:
    return [
        model.DynamicConfigValue("color", {"mode": "fixed", "fixedColor": "text"}),
        model.DynamicConfigValue("custom.lineStyle", {"fill": "dash", "dash": [6, 6]}),
        model.DynamicConfigValue("custom.fillOpacity", 0),
    ]


def _timeline(of: Timeline) -> statetimeline.Panel:
    made = _dressed(statetimeline.Panel(), of, now=False)
    made.merge_values(True).show_value(kinds.VisibilityMode.NEVER).row_height(0.85).fill_opacity(
        85
    ).line_width(0)
    made.color_scheme(board.FieldColor().mode(model.FieldColorModeId.THRESHOLDS))
    return made.legend(
        ui.VizLegendOptions()
        .show_legend(True)
        .display_mode(kinds.LegendDisplayMode.LIST)
        .placement(kinds.LegendPlacement.BOTTOM)
        .calcs([])
    )


def _heatmap(of: Heatmap) -> heatmap.Panel:
    made = _dressed(heatmap.Panel(), of, now=False)
    rows = (
        ui.HeatmapCalculationBucketConfig()
        .mode(kinds.HeatmapCalculationMode.SIZE)
        .value(f"{of.bucket:g}")
    )
    made.calculate(True).calculation(ui.HeatmapCalculationOptions().y_buckets(rows)).cell_gap(1)
    axis = YAxisConfig().unit(of.unit)
    if of.minimum is not None:
        axis.min(of.minimum)
    if of.maximum is not None:
        axis.max(of.maximum)
    colour = (
        HeatmapColorOptions()
        .mode(HeatmapColorMode.SCHEME)
        .scheme(of.scheme)
        .fill(MEANT)
        .exponent(0.5)
        .steps(64)
        .reverse(False)
    )
    return made.y_axis(axis).color(colour)


def _table(of: Table) -> table.Panel:
    made = _dressed(table.Panel(), of, now=True)
    several = len(of.queries) > 1
    names = [_field(column, several=several) for column in of.columns]
    made.with_transformation(model.DataTransformerConfig("merge", options={}))
    made.with_transformation(
        model.DataTransformerConfig("filterFieldsByName", options={"include": {"names": names}})
    )
    order = {name: i for i, name in enumerate(names)}
    headings = {name: column.heading for name, column in zip(names, of.columns, strict=True)}
    organise = {"indexByName": order, "renameByName": headings, "excludeByName": {}}
    made.with_transformation(model.DataTransformerConfig("organize", options=organise))
    for column in of.columns:
        if properties := list(_column_style(column)):
            made.override_by_name(column.heading, properties)
    for link in of.links:
        heading, made_link = link.variables[-1][1], _link(_by_heading(link), "__data.fields")
        made.override_by_name(heading, [model.DynamicConfigValue("links", [made_link.build()])])
    return (
        made.sort_by([ui.TableSortByFieldState().display_name(of.by).desc(True)]) if of.by else made
    )


def _by_heading(of: Link) -> Link:
    return of._replace(variables=tuple((name, f'["{heading}"]') for name, heading in of.variables))


def _field(column: Column, *, several: bool) -> str:
    """Grafana calls the value of the only query "Value", those of several "Value #A" and so on."""
    if len(column.source) == 1 and column.source in ascii_uppercase:
        return f"Value #{column.source}" if several else "Value"
    return column.source


def _column_style(column: Column) -> Iterator[model.DynamicConfigValue]:
    if column.unit or column.source in ascii_uppercase:
        yield model.DynamicConfigValue("unit", column.unit or "short")
    if column.width:
        yield model.DynamicConfigValue("custom.width", column.width)
    if column.states:
        by_label = {
            state.label: model.ValueMappingResult(state.words, state.colour, index=i)
            for i, state in enumerate(column.states)
        }
        by_number = _names(column.states)
        yield model.DynamicConfigValue("mappings", [model.ValueMap(by_label), by_number])
    if column.steps:
        yield model.DynamicConfigValue("thresholds", _thresholds(column.steps).build())
    if column.states or column.steps:
        yield model.DynamicConfigValue("custom.cellOptions", {"type": "color-text"})
