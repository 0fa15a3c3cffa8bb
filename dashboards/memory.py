"""ECC and RMA planning: which GPUs need a reset or a replacement, and which will."""

from __future__ import annotations

from dashboards import places
from dashboards.meaning import FAILED, LOOK, MEANT, NONE_IS_BEST, NONE_IS_WELL, WELL, State
from dashboards.panels import Column, Dashboard, Lines, Query, Row, Stat, Table
from dashboards.queries import facts, measured
from dashboards.shared import (
    BY_GPU,
    CLUSTERS,
    INCIDENTS,
    NODES,
    ROW_TO_GPU,
    TO_GPU,
    most,
    one,
    xids,
    zero_where,
)

_GPU = "{{instance}} GPU {{gpu}}"
_FAILED, _PENDING = measured("gpu", "row_remap_failed"), measured("gpu", "row_remap_pending")
_REPLACED, _NO_SPARES = (
    measured("gpu", "remapped_rows_uncorrectable"),
    measured("gpu", "row_remap_banks_none"),
)
_FEW_SPARES, _SRAM = (
    measured("gpu", "row_remap_banks_low"),
    measured("gpu", "sram_threshold_exceeded"),
)
_CORRECTED = measured("gpu", "ecc_corrected_aggregate")
_UNCORRECTED = measured("gpu", "ecc_uncorrected_aggregate")
# XIDs of memory: NVIDIA, "XID Errors": 48 double bit, 63 and 64 row remapping, 92 many single bit,
# 94 and 95 contained and not.
_XIDS = "=~48|63|64|92|94|95"


def _how_many(title: str, about: str, series: str, *, grave: bool) -> Stat:
    steps = NONE_IS_WELL if grave else NONE_IS_BEST
    return Stat(
        title=title,
        about=about,
        queries=(Query(zero_where(f"count({series} > 0)", series)),),
        steps=steps,
    )


NUMBERS = (
    _how_many(
        "To be replaced",
        (
            "GPUs whose row remapping failed: the driver could not take a bad row out of service. "
            "Field diagnostic, then RMA."
        ),
        _FAILED,
        grave=True,
    ),
    _how_many(
        "SRAM threshold",
        "GPUs whose uncorrectable SRAM errors are beyond the vendor's threshold: RMA.",
        _SRAM,
        grave=True,
    ),
    _how_many(
        "Waiting for a reset",
        "GPUs with a bad row that is replaced at the next reset: do it when the job ends.",
        _PENDING,
        grave=False,
    ),
    _how_many(
        "Banks without spares",
        (
            "GPUs with a bank that has no spare row left: its next uncorrectable error cannot be "
            "repaired. Plan the replacement."
        ),
        _NO_SPARES,
        grave=False,
    ),
    _how_many(
        "Banks with few spares",
        "GPUs with a bank that has few spare rows left.",
        _FEW_SPARES,
        grave=False,
    ),
    _how_many(
        "Row ever replaced",
        "GPUs with rows replaced after uncorrectable errors: known, and normal in small numbers.",
        _REPLACED,
        grave=False,
    ),
)

_HISTORY = " or ".join(
    f"({each} > 0)" for each in (_FAILED, _SRAM, _PENDING, _NO_SPARES, _REPLACED, _UNCORRECTED)
)


def _cell(series: str) -> Query:
    """One column for the GPUs that have a history; names of series are dropped, so
    that columns join into rows.
    """
    return Query(f"max by ({BY_GPU}) ({series}) and on ({BY_GPU}) ({_HISTORY})")


WHICH = (
    Table(
        title="GPUs with a memory history",
        about=(
            "Repair history that the GPU keeps: failures first, then what is likely to fail. Click "
            "through for the serial number."
        ),
        queries=tuple(
            _cell(each)
            for each in (_FAILED, _SRAM, _PENDING, _NO_SPARES, _REPLACED, _UNCORRECTED, _CORRECTED)
        ),
        columns=(
            Column("instance", "Node"),
            Column("gpu", "GPU", width=60),
            Column("A", "Remap failed", steps=NONE_IS_WELL),
            Column("B", "SRAM threshold", steps=NONE_IS_WELL),
            Column("C", "Waits for reset", steps=NONE_IS_BEST),
            Column("D", "Banks without spares", steps=NONE_IS_BEST),
            Column("E", "Rows replaced", steps=NONE_IS_BEST),
            Column("F", "Uncorrectable errors", steps=NONE_IS_BEST),
            Column("G", "Corrected errors"),
        ),
        by="Rows replaced",
        links=(ROW_TO_GPU,),
        empty="no GPU has a memory history, or no agent answers",
        width=24,
        place=places.MEMORY_ERRORS,
    ),
)

TREND = (
    Lines(
        title="Corrected errors per hour",
        about=(
            "The ten GPUs with most. Rising over days ends in an uncorrectable one; a level that "
            "stays does not. The GPU counts them, across resets and reboots."
        ),
        queries=(Query(most(f"{_CORRECTED} - {_CORRECTED} offset 1h > 0", BY_GPU), _GPU),),
        minimum=0,
        links=(TO_GPU,),
        empty="no GPU has corrected errors, or no agent answers",
    ),
    Lines(
        title="Uncorrectable errors",
        about="Since they were first counted, of GPUs that have any: each step ended work.",
        queries=(Query(f"{_UNCORRECTED} > 0", _GPU),),
        shades=FAILED,
        minimum=0,
        decimals=0,
        links=(TO_GPU,),
        empty="no GPU has any, or no agent answers",
    ),
    Lines(
        title="XIDs of memory",
        about=(
            "48, 63, 64, 92, 94 and 95 within the time of a bar. 94: contained, restart the job. "
            "95: not contained, reset the GPU. 64: a remap failed."
        ),
        queries=(Query(xids(xid=_XIDS), f"{_GPU} XID {{{{xid}}}}"),),
        bars=True,
        minimum=0,
        links=(TO_GPU,),
        empty="no XID of memory in this time, or no agent answers",
    ),
    Lines(
        title="Banks by spare rows left",
        about="All chosen GPUs together: banks that leave the upper levels show wear.",
        queries=(
            Query(f"sum({measured('gpu', 'row_remap_banks_partial')}) > 0", "some used"),
            Query(f"sum({_FEW_SPARES}) > 0", "few left"),
            Query(f"sum({_NO_SPARES}) > 0", "none left"),
        ),
        empty="no bank has used a spare row, or no agent answers",
        named=(
            State("", "some used", MEANT),
            State("", "few left", LOOK),
            State("", "none left", FAILED),
        ),
        stacked=True,
        minimum=0,
    ),
    Table(
        title="InfoROM records",
        about=(
            "InfoROM: 0 where its checksums are wrong, so that the GPU's records cannot be "
            "trusted. Serial numbers for the vendor."
        ),
        queries=(
            Query(
                f"{facts('gpu')} * on ({BY_GPU}) group_left () "
                f"{one(BY_GPU, measured('gpu', 'inforom_valid'))}"
            ),
        ),
        columns=(
            Column("instance", "Node"),
            Column("gpu", "GPU", width=60),
            Column("name", "Model"),
            Column("serial", "Serial"),
            Column("board_part_number", "Board"),
            Column("vbios", "VBIOS"),
            Column(
                "A", "InfoROM", states=(State("0", "corrupt", FAILED), State("1", "valid", WELL))
            ),
        ),
        links=(ROW_TO_GPU,),
        width=24,
    ),
)

MEMORY = Dashboard(
    places.MEMORY,
    "Tocsin / ECC and RMA",
    "Which GPUs need a reset or a replacement, and which will?",
    (*NUMBERS, *WHICH, Row("Trend"), *TREND),
    (CLUSTERS, NODES),
    since="now-7d",
    incidents=INCIDENTS.replace("}", ', class=~"(ecc|remap|sram)(/.*)?"}'),
)
