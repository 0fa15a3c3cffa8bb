"""The dcgm-exporter dialect as the configuration wants it."""

from __future__ import annotations

import logging
from pathlib import Path

from collector.config import settings
from collector.config.raw_setting import ConfigError
from pipeline.clock import Clock
from pipeline.dcgm import (
    DEFAULT_FILE,
    CountersError,
    DcgmDialect,
    JobLabels,
    LabelStyle,
    Options,
    SelectionError,
    load,
    parse_selection,
)
from pipeline.dcgm.options import Xids

log = logging.getLogger("tocsin.dcgm")


def dialect_of(
    section: settings.Exposition, host: str, clock: Clock, xids: Xids | None = None
) -> DcgmDialect | None:
    """The dialect, None where it is switched off.

    ConfigError names what is wrong with the counters file or the device option.
    """
    if not section.dcgm:
        return None
    try:
        counters = load(Path(section.counters_file or DEFAULT_FILE), section.compat)
        selection = parse_selection(section.devices)
    except (CountersError, SelectionError) as error:
        raise ConfigError(f"exposition: {error}") from error
    for warning in counters.warnings:
        log.warning("%s", warning)
    style = LabelStyle(
        hostname=host if section.hostname else "",
        hostname_label=section.hostname_label,
        old_namespace=section.use_old_namespace,
        replace_blanks=section.replace_blanks_in_model_name,
    )
    jobs = JobLabels(
        kubernetes=section.kubernetes,
        virtual_gpus=section.kubernetes_virtual_gpus,
        dra=section.kubernetes_enable_dra,
        old_namespace=section.use_old_namespace,
    )
    options = Options(
        counters,
        compat=section.compat,
        style=style,
        selection=selection,
        xid_window_ms=round(section.xid_count_window * 1000),
        clock_window_ms=round(section.clock_events_count_window * 1000),
        collect_interval_ms=round(section.collect_interval * 1000),
        jobs=jobs,
    )
    return DcgmDialect(options, clock, xids)
