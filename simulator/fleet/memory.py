"""Memory errors of a fleet's GPUs as their registers show them: the cells of simulator/cells.py
under the catalogue's names.
"""

from __future__ import annotations

from simulator.cells import Cells
from simulator.fleet.columns import Columns

BANKS = ("max", "high", "partial", "low", "none")


def show(cells: Cells, gpu: int, columns: Columns) -> None:
    """Write all memory-error registers of one GPU into the standing values of its row."""
    for life, counts in (("volatile", cells.volatile), ("aggregate", cells.aggregate)):
        for corrected, word in ((True, "corrected"), (False, "uncorrected")):
            for place in ("dram", "sram"):
                columns.set_counter(
                    f"ecc_{word}_{life}_{place}", counts[place, corrected][gpu], gpu
                )
            total = counts["dram", corrected][gpu] + counts["sram", corrected][gpu]
            columns.set_counter(f"ecc_{word}_{life}", total, gpu)
        columns.set_counter(f"sram_corrected_{life}", counts["sram", True][gpu], gpu)
        columns.set_counter(f"sram_parity_{life}", counts["sram", False][gpu], gpu)
    columns.set_counter("remapped_rows_correctable", cells.remapped[True][gpu], gpu)
    columns.set_counter("remapped_rows_uncorrectable", cells.remapped[False][gpu], gpu)
    columns.set_gauge("row_remap_pending", float(cells.pending[gpu]), gpu)
    columns.set_gauge("row_remap_failed", float(cells.failed[gpu]), gpu)
    columns.set_gauge("sram_threshold_exceeded", float(cells.sram_threshold[gpu]), gpu)
    for name, banks in zip(BANKS, cells.histogram(gpu), strict=True):
        columns.set_gauge(f"row_remap_banks_{name}", float(banks), gpu)
