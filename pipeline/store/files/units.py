"""Views in base units: seconds, bytes, watts, joules, hertz, ratios; codes of states as words.

Made from the catalogue.
"""

from __future__ import annotations

import polars as pl

from pipeline.catalog import KINDS, Field, fields_of

SUFFIX = "_base"  # of a view's name in SQL: gpu_base


def base_name(field: Field) -> str:
    """The column's name with the base unit in place of the native one, which is named too where
    another field has that name already.

    >>> from pipeline.catalog import field
    >>> [
    ...     base_name(field("gpu", n))
    ...     for n in (
    ...         "energy_millijoules",
    ...         "pcie_transmit_mebibytes_per_second",
    ...         "temperature_celsius",
    ...     )
    ... ]
    ['energy_joules', 'pcie_transmit_bytes_per_second', 'temperature_celsius']
    """
    if field.times == field.per == 1:
        return field.name
    rate = "_per_second" if field.name.endswith("_per_second") else ""
    unit = field.metric.name.removesuffix("_total").removesuffix(rate).rpartition("_")[2]
    stem, _, native = field.name.removesuffix(rate).rpartition("_")
    name = f"{stem}_{unit}{rate}"
    return (
        name
        if all(name != other.name for other in fields_of(field.kind))
        else f"{name}_from_{native}"
    )


def base_value(field: Field, native: pl.Expr) -> pl.Expr:
    """A native value in base units: float64 where it is scaled, as it is where not, a
    word where it is a state.
    """
    if field.states:
        codes, words = zip(*field.states, strict=True)
        return native.replace_strict(
            pl.Series(codes, dtype=pl.Int64), pl.Series(words), default=native.cast(pl.String)
        )
    return scaled(field, native)


def scaled(field: Field, native: pl.Expr) -> pl.Expr:
    """A native number in base units, rounded once as Field.base does."""
    if field.times == field.per == 1:
        return native
    number = native.cast(pl.Float64) * field.times if field.times != 1 else native.cast(pl.Float64)
    return number if field.per == 1 else divided(number, field.per)


def divided(number: pl.Expr, by: int) -> pl.Expr:
    """A quotient rounded once: polars divides by a constant by multiplying with its reciprocal,
    which is off by a bit now and then.
    """
    return number / (number * 0 + by)


def in_base_units(rows: pl.LazyFrame, kind: str) -> pl.LazyFrame:
    """A table of devices with its fields in base units under their base names; other columns stay.

    KeyError for another table.
    """
    KINDS[kind]
    fields = {field.name: field for field in fields_of(kind)}
    columns = [
        base_value(fields[name], pl.col(name)).alias(base_name(fields[name]))
        if name in fields
        else pl.col(name)
        for name in rows.collect_schema()
    ]
    return rows.select(columns)
